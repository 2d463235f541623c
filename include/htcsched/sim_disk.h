/**
 * @file htcsched/sim_disk.h
 * @brief A disk that lies as disks do: what is asked of it (htcsched/disk.h) is carried out in virtual time, and damaged by the seed.
 *
 * Library htcsched-sim (`pkg-config --libs htcsched-sim`).
 *
 * What htcsched/disk.h promises holds, and nothing more: what was not synced when the power failed is kept, lost or torn sector
 * by sector, requests on their way are done or not. Beyond that a disk does only what its htc_sim_disk_faults say; the lasting
 * kinds of damage (flip, lose, misdirect, a wiped disk) should be given to so few nodes that enough good copies survive, or a test
 * proves nothing.
 *
 *     host.call:   return htc_sim_disk_call(disk, node, effect);
 *     host.ended:  htc_sim_disk_crash(disk, power);
 *
 * Threads: owner, that of the simulation.   Allocation: through the simulation's env; as much as was written, in pieces of 4 KiB.
 */
#ifndef HTCSCHED_SIM_DISK_H
#define HTCSCHED_SIM_DISK_H

#include "htcsched/disk.h"
#include "htcsched/sim.h"

#ifdef __cplusplus
extern "C" {
#endif

/** One disk of one node. It outlives the node's machine. */
typedef struct htc_sim_disk htc_sim_disk;

/** How a disk fails; in a million. Every field's zero means: not that. */
typedef struct htc_sim_disk_faults {
    size_t   size;          /**< sizeof(htc_sim_disk_faults) */
    uint32_t read_eio_ppm;  /**< of reads: HTC_EIO, once */
    uint32_t write_eio_ppm; /**< of writes: HTC_EIO, and any of its sectors may have been written */
    uint32_t
        sync_eio_ppm; /**< of syncs: HTC_EIO; what it was for is lost when the machine ends, though it looks clean until then */
    uint32_t
        sync_lies; /**< 1: after such a sync the next ones answer HTC_OK, as file systems do; 0: HTC_EIO until the machine
                                 starts again, as htcsched/disk.h promises */
    uint32_t
        unsynced_ppm;  /**< of sectors that were not synced: lost or torn when the power fails (the others are kept) */
    uint32_t flip_ppm; /**< of writes: a bit of what was written is another. Lasting damage */
    uint32_t lose_ppm; /**< of writes: seen until the power fails, and never again, synced or not. Lasting damage */
    uint32_t misdirect_ppm; /**< of writes: go to another place of the file. Lasting damage */
    uint32_t slow_ppm;      /**< of requests: take slow_ns more */
    htc_ns   slow_ns;       /**< 0: 100 ms */
} htc_sim_disk_faults;

/** How a disk is made; every field's zero is its default. */
typedef struct htc_sim_disk_options {
    size_t      size;       /**< sizeof(htc_sim_disk_options) */
    const char *name;       /**< of its random stream; copied; at most 63 long; NULL: "disk" */
    uint64_t    bytes_max;  /**< room for files; 0: 1 TiB */
    htc_ns      latency_ns; /**< of a request; 0: 100 us */
    htc_ns      jitter_ns;  /**< up to this much more: how requests overtake each other; 0: 100 us */
    htc_ns      sync_ns;    /**< of a sync, beside that; 0: 1 ms */
} htc_sim_disk_options;

/** What has happened to a disk: so that a test can see that its faults took place. */
typedef struct htc_sim_disk_stats {
    uint64_t reads;            /**< answered HTC_OK */
    uint64_t writes;           /**< answered HTC_OK */
    uint64_t syncs;            /**< answered HTC_OK */
    uint64_t eio;              /**< answers HTC_EIO */
    uint64_t enospc;           /**< answers HTC_ENOSPC */
    uint64_t flipped;          /**< writes */
    uint64_t lost;             /**< writes */
    uint64_t misdirected;      /**< writes */
    uint64_t sectors_kept;     /**< not synced, and still there after a power failure */
    uint64_t sectors_lost;     /**< not synced, and gone */
    uint64_t sectors_torn;     /**< not synced, and neither old nor new */
    uint64_t requests_cut_off; /**< on their way when the machine ended */
} htc_sim_disk_stats;

/**
 * Make an empty disk.
 *
 * @param[in,out] sim      kept
 * @param[in]     options  borrowed; NULL: the defaults
 * @param[out]    out      gives the disk: htc_sim_disk_destroy, after htc_sim_destroy; untouched on failure
 * @return HTC_OK; HTC_EINVAL; HTC_EABI; HTC_ENOMEM
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_sim_disk_create(htc_sim *sim, const htc_sim_disk_options *options, htc_sim_disk **out);

/**
 * Free a disk.
 *
 * @param[in] disk  nothing will be asked of it any more: its simulation is destroyed; NULL is fine
 *
 * Cost: O(what is stored).   Since: 0.2
 */
HTC_API void htc_sim_disk_destroy(htc_sim_disk *disk);

/**
 * Carry out a request, from host->call.
 *
 * @param[in,out] disk    the disk
 * @param[in,out] node    whose disk it is: gets HTC_IN_RESULT, later
 * @param[in]     effect  borrowed
 * @return HTC_OK: it will be answered; HTC_EUNSUPPORTED: its op is no htc_disk_op; HTC_EINVAL: its body is no request; HTC_ENOMEM
 *
 * Cost: O(length).   Since: 0.2
 */
HTC_API htc_status htc_sim_disk_call(htc_sim_disk *disk, htc_sim_node *node, const htc_effect *effect);

/**
 * The machine has ended, from host->ended: requests on their way are carried out or not.
 *
 * @param[in,out] disk   the disk
 * @param[in]     power  1: the power has failed, and what was not synced is kept, lost or torn; 0: the process was killed, and
 *                       what was written is there
 * @return HTC_OK; HTC_EINVAL; HTC_ENOMEM
 *
 * Cost: O(what is not synced).   Since: 0.2
 */
HTC_API htc_status htc_sim_disk_crash(htc_sim_disk *disk, int power);

/**
 * A new disk in the old one's place: empty.
 *
 * @param[in,out] disk  the disk; the node is down
 * @return HTC_OK; HTC_EINVAL
 *
 * Cost: O(what was stored).   Since: 0.2
 */
HTC_API htc_status htc_sim_disk_wipe(htc_sim_disk *disk);

/**
 * How the disk fails from now on.
 *
 * @param[in,out] disk    the disk
 * @param[in]     faults  copied; NULL: not at all, but unsynced sectors still fare as seeds will
 * @return HTC_OK; HTC_EINVAL; HTC_EABI
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_sim_disk_set_faults(htc_sim_disk *disk, const htc_sim_disk_faults *faults);

/**
 * The disk is full for a while: CREATE, WRITE and RENAME are answered HTC_ENOSPC.
 *
 * @param[in,out] disk  the disk
 * @param[in]     span  from now; 0: no more; HTC_NEVER: until that
 * @return HTC_OK; HTC_EINVAL
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_sim_disk_full(htc_sim_disk *disk, htc_ns span);

/**
 * What is stored in a file, as a read would see it: for checks.
 *
 * @param[in]  disk    the disk
 * @param[in]  name    of the file; borrowed
 * @param[in]  offset  from its start
 * @param[out] out     room for n bytes; bytes behind the end of the file are 0
 * @param[in]  n       how many
 * @return HTC_OK; HTC_EINVAL; HTC_ENOTFOUND
 *
 * Cost: O(n).   Since: 0.2
 */
HTC_API htc_status htc_sim_disk_peek(const htc_sim_disk *disk, htc_bytes name, uint64_t offset, void *out, size_t n);

/**
 * Damage a file by hand: change bits of one byte, durably.
 *
 * @param[in,out] disk    the disk
 * @param[in]     name    of the file; borrowed
 * @param[in]     offset  of the byte
 * @param[in]     bits    to be changed
 * @return HTC_OK; HTC_EINVAL; HTC_ENOTFOUND; HTC_ENOMEM
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_sim_disk_flip(htc_sim_disk *disk, htc_bytes name, uint64_t offset, uint32_t bits);

/**
 * What has happened to the disk so far.
 *
 * @param[in]  disk   the disk
 * @param[out] stats  filled
 * @return HTC_OK; HTC_EINVAL
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_sim_disk_stats_get(const htc_sim_disk *disk, htc_sim_disk_stats *stats);

#ifdef __cplusplus
}
#endif
#endif
