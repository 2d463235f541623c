/**
 * @file htcsched/disk_host.h
 * @brief Carries out the requests of htcsched/disk.h with real files in one directory.
 *
 * Files are 0600 in a directory of 0700, made at their full length and written once with zeros, so that later writes find their
 * room and change no more than data. A write of whole sectors, of at most 256 KiB, that is to be synced goes past the page cache and is durable when
 * it ends (O_DIRECT, RWF_DSYNC), where nothing unsynced waits in memory for that file and the file system is one that keeps this promise (ext2 to ext4,
 * xfs, btrfs, f2fs); else it is written, and synced behind that. One process holds the directory at a time. A failed sync is reported, and every
 * later request that changes something is answered HTC_EIO: the system may have dropped what it could not write, and a second sync
 * would say that all is well.
 *
 * Threads: owner; htc_disk_dir_call moves the work to threads of the host.   Allocation: malloc.
 */
#ifndef HTCSCHED_DISK_HOST_H
#define HTCSCHED_DISK_HOST_H

#include "htcsched/disk.h"
#include "htcsched/host.h"

#ifdef __cplusplus
extern "C" {
#endif

/** An open directory. */
typedef struct htc_disk_dir htc_disk_dir;

/**
 * Open a directory, which is made if it is missing, and hold it.
 *
 * @param[in]  path   borrowed
 * @param[out] out    gives the directory: htc_disk_dir_close; untouched on failure
 * @param[out] error  why; NULL is fine
 * @return HTC_OK; HTC_EINVAL; HTC_ELOCKED if another process holds it; HTC_EDENIED; HTC_ENOSPC; HTC_EIO; HTC_ENOMEM
 *
 * Cost: some system calls.   Since: 0.2
 */
HTC_API htc_status htc_disk_dir_open(const char *path, htc_disk_dir **out, htc_error *error);

/**
 * Close a directory. No call is on its way: its host was destroyed before.
 *
 * @param[in] dir  NULL is fine
 *
 * Cost: some system calls.   Since: 0.2
 */
HTC_API void htc_disk_dir_close(htc_disk_dir *dir);

/**
 * What went wrong in earnest: the operation, the file and the system's word for it. Threads: shared.
 *
 * @param[in]  dir    the directory
 * @param[out] error  of the first request that was answered HTC_EIO for a reason of the disk's; untouched if there was none
 * @return HTC_OK: nothing; else HTC_EIO
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_disk_dir_failure(htc_disk_dir *dir, htc_error *error);

/**
 * Carry a request out, in the calling thread. Not while a call is on its way.
 *
 * @param[in,out] dir     the directory
 * @param[in]     body    of the request; borrowed
 * @param[out]    answer  lends its body until the next request; empty unless HTC_OK
 * @return as htcsched/disk.h says for each request
 *
 * Cost: the disk's.   Since: 0.2
 */
HTC_API htc_status htc_disk_dir_do(htc_disk_dir *dir, htc_bytes body, htc_bytes *answer);

/**
 * Carry a request out on threads of a host, which is answered: for an htc_host_call_fn, when op is an htc_disk_op.
 * What is asked for together is written first and synced once for each file, but for what is durable when it is written; files are made
 * beside that.
 *
 * @param[in,out] dir   the directory
 * @param[in,out] host  in the loop's thread; destroyed before the directory is closed
 * @param[in]     op    of the call
 * @param[in]     tag   of the call
 * @param[in]     body  of the call; copied
 * @return HTC_OK: the host will be answered; HTC_ENOMEM, HTC_EBUSY: nothing was done
 *
 * Cost: O(length), and two hand-overs between threads.   Since: 0.2
 */
HTC_API htc_status htc_disk_dir_call(htc_disk_dir *dir, htc_host *host, uint32_t op, uint64_t tag, htc_bytes body);

/**
 * As htc_disk_dir_call, but a WRITE that is likely to be quick is carried out here and now: no hand-over, while whatever else the
 * host does waits for the disk. For whoever has nobody to be alive for.
 *
 * Likely: of at most 256 KiB, with no call on its way, and on a disk that is slow now and then at most: those that take longer than
 * 1 ms may have 1 % of the time and 100 ms more; beyond that all go to the threads until it is made up for.
 *
 * @param[in,out] dir   the directory
 * @param[in,out] host  in the loop's thread; destroyed before the directory is closed
 * @param[in]     op    of the call
 * @param[in]     tag   of the call
 * @param[in]     body  of the call; borrowed
 * @return HTC_OK: the host will be answered, or has been; HTC_ENOMEM, HTC_EBUSY: nothing was done
 *
 * Cost: the disk's.   Since: 0.2
 */
HTC_API htc_status htc_disk_dir_call_here(htc_disk_dir *dir, htc_host *host, uint32_t op, uint64_t tag, htc_bytes body);

#ifdef __cplusplus
}
#endif
#endif
