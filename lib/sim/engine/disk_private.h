/* The inside of a simulated disk: requests on their way (disk.c) and what is stored (disk_file.c).
 *
 * A file is a table of pieces of 4 KiB; a piece that was never written is zeros and takes no memory. Of a piece with sectors that
 * are not durable there is a second image: what a power failure goes back to. */
#ifndef HTC_SIM_DISK_PRIVATE_H
#define HTC_SIM_DISK_PRIVATE_H

#include "htcsched/sim_disk.h"
#include "sim/engine/sim_private.h"

#define PIECE   4096
#define SECTORS (PIECE / HTC_DISK_SECTOR)

typedef struct disk_piece {
    uint8_t  now[PIECE];     /* what a read sees */
    uint8_t  old[PIECE];     /* of the sectors that are dirty: what is durable */
    uint64_t stamp[SECTORS]; /* when it was written, by the disk's count of requests */
    uint8_t  dirty;          /* a bit each: now differs from what is durable */
    uint8_t  doomed;         /* a bit each: no sync reaches it until it is written again */
} disk_piece;

typedef struct disk_file {
    char              name[HTC_DISK_NAME_MAX + 1];
    uint64_t          length;
    uint64_t          sync_asked; /* of the newest sync on its way, or done */
    disk_piece      **pieces;
    size_t            n_pieces;
    struct disk_file *next; /* by name */
} disk_file;

/* A request on its way. */
typedef struct disk_op {
    struct disk_op *next;
    uint64_t        id, asked; /* asked: the count of requests answered by then */
    htc_sim_node   *node;
    uint64_t        incarnation;
    htc_effect      effect; /* its body stands behind */
    size_t          size;
    uint8_t         body[];
} disk_op;

struct htc_sim_disk {
    htc_sim             *sim;
    htc_env              env;
    htc_sim_disk_options options;
    htc_sim_disk_faults  faults;
    htc_sim_disk_stats   stats;
    htc_rng              rng;
    disk_file           *files;
    disk_op             *ops;
    uint64_t             last_op, count; /* count: of requests that took effect */
    uint64_t             room;
    htc_ns               full_until;
    int                  broken; /* a sync has failed: nothing changes any more */
};

disk_file *htc__disk_find(const htc_sim_disk *d, htc_bytes name);
htc_status htc__disk_make(htc_sim_disk *d, htc_bytes name, uint64_t length);
void       htc__disk_remove(htc_sim_disk *d, disk_file *f);
htc_status htc__disk_rename(htc_sim_disk *d, disk_file *f, htc_bytes to);
/* doomed: no sync will reach it; durable: it needs none. */
htc_status htc__disk_write(htc_sim_disk *d, disk_file *f, uint64_t offset, htc_bytes data, int doomed);
void       htc__disk_read(const disk_file *f, uint64_t offset, uint8_t *out, size_t n);
/* Everything that was written and answered before `asked` is durable; failed: it never will be. */
void htc__disk_sync(disk_file *f, uint64_t asked, int failed);
void htc__disk_power(htc_sim_disk *d, disk_file *f);
/* A sync has failed: whoever comes next sees what is on the disk, and not what its writes have left in memory. */
void htc__disk_reread(disk_file *f);
/* durably: in what is durable as well, if that is another image. */
htc_status htc__disk_turn_bits(htc_sim_disk *d, disk_file *f, uint64_t offset, uint8_t bits, int durably);

#endif
