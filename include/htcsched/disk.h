/**
 * @file htcsched/disk.h
 * @brief What a machine asks of a disk: files of fixed length in one flat directory, asked for as calls.
 *
 * A request is the body of an effect HTC_OUT_CALL whose op is an htc_disk_op; it is answered exactly once, by
 * HTC_IN_RESULT with the same op and tag. Whoever carries requests out (htcsched/disk_host.h with real files, a
 * simulator with faults) promises this and nothing more:
 *
 * - *Order.* Requests that are on their way together may take effect in any order. An order between two exists only
 *   where one was asked for after the other had been answered.
 * - *What lasts.* A write answered HTC_OK is seen by every later read. It outlives a power failure only when a later
 *   sync of that file has been answered HTC_OK (a write with sync is followed by one of its own, which covers every
 *   write answered before). Until then any of its sectors of HTC_DISK_SECTOR bytes may be there or not, in any order, and a
 *   sector that was being written may hold anything. CREATE, RENAME and REMOVE last when they are answered; a power
 *   failure before that leaves them done or not done, and a file that was being made may have any length.
 * - *Failure.* HTC_ENOSPC: nothing was changed (a write into a file that was made at its full length can still say so
 *   on file systems that copy on write). HTC_EIO: what is stored is not known; after a failed sync every later request that
 *   changes something is answered HTC_EIO as well, for a sync that is tried again may lie. Whoever opens the directory next reads what
 *   is on the disk: what that sync was for is there, or what stood there before, but never what only memory still has.
 *
 * Files never grow: they are made at their full length, filled with zeros. A name has 1 to HTC_DISK_NAME_MAX of the
 * characters a-z, 0-9, '.', '-' and '_', and does not begin with a dot.
 *
 * | op | request | answer's body |
 * |---|---|---|
 * | LIST | - | the files, in the order of their names: htc_disk_file_next |
 * | CREATE | name, length | - ; HTC_EEXISTS, HTC_ENOSPC |
 * | READ | name, offset, length | the bytes, fewer where the file ends; HTC_ENOTFOUND |
 * | WRITE | name, offset, data, sync | - ; HTC_ENOTFOUND, HTC_ENOSPC, HTC_EINVAL beyond the end of the file |
 * | SYNC | name | - ; HTC_ENOTFOUND |
 * | RENAME | name, to (replaced if it is there) | - ; HTC_ENOTFOUND, HTC_ENOSPC |
 * | REMOVE | name | - ; HTC_ENOTFOUND |
 *
 * Each may also be answered HTC_EIO; HTC_ENOMEM or HTC_EBUSY: nothing was done; HTC_EINVAL: that was no request.
 *
 * Threads: pure.   Allocation: none.
 */
#ifndef HTCSCHED_DISK_H
#define HTCSCHED_DISK_H

#include "htcsched/machine.h"

#ifdef __cplusplus
extern "C" {
#endif

/** What is written as a whole or not at all is never longer than this, in bytes. */
#define HTC_DISK_SECTOR 512
/** The longest name of a file. */
#define HTC_DISK_NAME_MAX 63
/** The most that one READ asks for, in bytes. */
#define HTC_DISK_READ_MAX ((size_t)4 << 20)
/** The most that one WRITE brings, in bytes. */
#define HTC_DISK_WRITE_MAX ((size_t)48 << 20)
/** The longest file, in bytes. */
#define HTC_DISK_FILE_MAX (UINT64_C(1) << 40)
/** What stands in front of the data of an encoded request is at most this long. */
#define HTC_DISK_HEAD_MAX 160

/** What can be asked; the op of HTC_OUT_CALL. */
typedef enum htc_disk_op {
    HTC_DISK_LIST = 100, /**< which files there are */
    HTC_DISK_CREATE,     /**< a new file: room reserved, zeros, durable with its entry in the directory */
    HTC_DISK_READ,       /**< a piece of a file */
    HTC_DISK_WRITE,      /**< a piece of a file, synced or not */
    HTC_DISK_SYNC,       /**< what was written to a file is made durable */
    HTC_DISK_RENAME,     /**< another name, at once and durably */
    HTC_DISK_REMOVE      /**< away, durably */
} htc_disk_op;

/** One request. What its op does not use is 0 or empty. */
typedef struct htc_disk_request {
    uint32_t  op;     /**< htc_disk_op */
    uint32_t  sync;   /**< WRITE: 1 = answer when it is durable */
    htc_bytes name;   /**< of the file */
    htc_bytes to;     /**< RENAME: its new name */
    uint64_t  offset; /**< READ, WRITE: from the start of the file */
    uint64_t  length; /**< CREATE: of the file, 1 to HTC_DISK_FILE_MAX; READ: how much, 1 to HTC_DISK_READ_MAX */
    htc_bytes data;   /**< WRITE: 1 to HTC_DISK_WRITE_MAX bytes */
} htc_disk_request;

/** One file of the answer to LIST. */
typedef struct htc_disk_file {
    htc_bytes name;   /**< of the file */
    uint64_t  length; /**< in bytes */
} htc_disk_file;

/**
 * Write a request as the body of its effect. The data stand at the end as they are, so a caller that has them in a
 * buffer already may encode the request with data.len set and data.data NULL: then only what stands before them is
 * written, and counted.
 *
 * @param[in]  request  borrowed
 * @param[out] out      the bytes, if they are at most cap; may be NULL if cap is 0
 * @param[in]  cap      room at out; HTC_DISK_HEAD_MAX is enough for everything but the data
 * @return how many bytes it takes; 0: that is no request
 *
 * Cost: O(length).   Since: 0.2
 */
HTC_API size_t htc_disk_encode(const htc_disk_request *request, void *out, size_t cap);

/**
 * Read the body of an effect.
 *
 * @param[in]  body     untrusted; borrowed
 * @param[out] request  points into body; untouched on failure
 * @return HTC_OK; HTC_EPROTO: that is no request
 *
 * Cost: O(length of the names).   Since: 0.2
 */
HTC_API htc_status htc_disk_decode(htc_bytes body, htc_disk_request *request);

/**
 * May a file be called this?
 *
 * @param[in] name  borrowed
 * @return 1 or 0
 *
 * Cost: O(length).   Since: 0.2
 */
HTC_API int htc_disk_name_ok(htc_bytes name);

/**
 * Write one file of the answer to LIST: the answer is all of them, one behind the other.
 *
 * @param[in]  file  borrowed
 * @param[out] out   the bytes, if they are at most cap; may be NULL if cap is 0
 * @param[in]  cap   room at out; HTC_DISK_HEAD_MAX is enough
 * @return how many bytes it takes; 0: its name or its length is not allowed
 *
 * Cost: O(length).   Since: 0.2
 */
HTC_API size_t htc_disk_file_encode(const htc_disk_file *file, void *out, size_t cap);

/**
 * The next file of the answer to LIST: call until it is not 1.
 *
 * @param[in]     body  of the answer; untrusted; borrowed
 * @param[in,out] at    the place in it: 0 before the first
 * @param[out]    file  points into body; untouched unless 1
 * @return 1: there was one; 0: the end; -1: these bytes are no list
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API int htc_disk_file_next(htc_bytes body, size_t *at, htc_disk_file *file);

#ifdef __cplusplus
}
#endif
#endif
