/**
 * @file htcsched/kv_backup.h
 * @brief A store's keys and values as bytes: what `htc kv backup` and `htc kv dump` write and `htc kv restore` reads.
 *
 * Writing appends to a buffer, which may be emptied into a file whenever it is large. Reading takes the bytes as they come and asks for
 * more. A program that shows a backup:
 *
 *     htc_kv_backup_reader r = { .size = sizeof r };
 *     htc_kv_backup_item   item = { .size = sizeof item };
 *     size_t               have = 0;
 *     htc_status           s;
 *     while ((s = htc_kv_backup_read(&r, (htc_bytes){ bytes, have }, feof(f) || ferror(f), &item)) == HTC_OK || s == HTC_AGAIN)
 *         if (s == HTC_AGAIN) {
 *             have += fread(bytes + have, 1, r.need - have, f);           (bytes: HTC_KV_BACKUP_NEED_MAX of them)
 *         } else {
 *             show(&item);
 *             have = 0;                                                   (no more than needed was read: all of it is used)
 *         }
 *     if (s != HTC_EMPTY)
 *         fprintf(stderr, "%s at byte %llu\n", r.wrong, (unsigned long long)r.wrong_at);
 *
 * A backup is whole only when the end of it was read: read it to HTC_EMPTY once before anything is done with what is in it.
 * doc/protocol.md has every byte.
 *
 * Threads: pure.   Allocation: the buffer's alone.   Since: 0.2
 */
#ifndef HTCSCHED_KV_BACKUP_H
#define HTCSCHED_KV_BACKUP_H

#include "htcsched/codec.h"
#include "htcsched/kv.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A reader never needs more bytes at once. */
#define HTC_KV_BACKUP_NEED_MAX (HTC_KV_VALUE_MAX + HTC_KV_KEY_MAX + 64u)

/** One value. */
typedef struct htc_kv_backup_item {
    size_t    size;     /**< sizeof(htc_kv_backup_item), set by the caller */
    htc_bytes space;    /**< the eventual namespace that its key is in, at most HTC_KV_SPACE_MAX bytes without a zero byte; empty: in none */
    htc_bytes key;      /**< 1 to HTC_KV_KEY_MAX bytes; in a namespace one more than its name fewer */
    htc_bytes value;    /**< 0 to HTC_KV_VALUE_MAX bytes; in a namespace one sibling: those of a key follow each other */
    uint64_t  version;  /**< that the key had, for information */
    htc_ns    ttl;      /**< what is left of its ttl; 0: it has none */
    uint32_t  leased;   /**< 1: the key was bound to a lease; 0 in a namespace */
    uint32_t  reserved; /**< 0 */
} htc_kv_backup_item;

/** What was written of one backup. htc_kv_backup_end writes down how many items there are, so each backup has its own. */
typedef struct htc_kv_backup_counts {
    size_t   size;     /**< sizeof(htc_kv_backup_counts), set by the caller */
    uint64_t items;    /**< all values */
    uint64_t leased;   /**< of keys that are bound to a lease */
    uint64_t with_ttl; /**< of keys that have a ttl */
    uint64_t siblings; /**< in eventual namespaces */
} htc_kv_backup_counts;

/** The place in a backup that is read: all zero at first, but for its size. The caller reads it, and writes none of it. */
typedef struct htc_kv_backup_reader {
    size_t      size;     /**< sizeof(htc_kv_backup_reader), set by the caller */
    uint64_t    at;       /**< where the next call's bytes begin in the backup: that many were used */
    uint64_t    items;    /**< items that were read */
    size_t      taken;    /**< bytes that the last call has used */
    size_t      need;     /**< after HTC_AGAIN: bytes that the next call has to be given, those of this one among them */
    const char *wrong;    /**< after a failure: what is wrong, in words that never go away; NULL: nothing */
    uint64_t    wrong_at; /**< and where in the backup */
    htc_status  status;   /**< HTC_OK: there may be more; else what the last call answered, and every further one will */
    uint32_t    format;   /**< of the backup: 1 has neither ttls, leases nor namespaces; 2; 0: not known yet */
} htc_kv_backup_reader;

/**
 * Begin a backup.
 *
 * @param[in,out] out     the first bytes are appended
 * @param[in,out] counts  all of them become 0
 * @return HTC_OK; HTC_EINVAL: a pointer is NULL, or counts has no size; the status of out
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_kv_backup_begin(htc_buf *out, htc_kv_backup_counts *counts);

/**
 * Write an item. The order of keys is the caller's.
 *
 * @param[in,out] out     the item is appended, or nothing
 * @param[in,out] counts  of this backup; the same after a failure
 * @param[in]     item    copied
 * @return HTC_OK; HTC_EINVAL: a pointer is NULL, a size is missing, the key is empty, the namespace has a zero byte, or leased is
 *         not 0 or 1, or 1 in a namespace; HTC_ETOOBIG: the key, the namespace or the value is longer than it may be; HTC_EABI: item
 *         has a field set that this library does not know; the status of out: HTC_EFULL, HTC_ENOMEM
 *
 * Cost: O(bytes).   Since: 0.2
 */
HTC_API htc_status htc_kv_backup_put(htc_buf *out, htc_kv_backup_counts *counts, const htc_kv_backup_item *item);

/**
 * End a backup.
 *
 * @param[in,out] out     the last bytes are appended
 * @param[in]     counts  of this backup
 * @return as htc_kv_backup_begin
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_kv_backup_end(htc_buf *out, const htc_kv_backup_counts *counts);

/**
 * Read the next item.
 *
 * @param[in,out] reader  where it is; after HTC_AGAIN the same but for need
 * @param[in]     in      the backup's bytes from reader->at on, as many as there are; lent until the item has been used
 * @param[in]     last    1: the backup has no bytes behind these; 0: it may have
 * @param[in,out] item    as much of it is filled as its size says, and it lies in these bytes; untouched if there is none
 * @return HTC_OK: an item; the next one begins reader->taken bytes further on.
 *         HTC_AGAIN: call with reader->need bytes from the same place, or with last. This is also the answer to a whole backup for which
 *         last is not said.
 *         HTC_EMPTY: that was all, it is whole and nothing follows it.
 *         HTC_ECORRUPT: it is damaged, ends too early, lacks items or has more; HTC_EINPUT: this is no backup; HTC_EFORMAT: it is one
 *         of a later format. reader->wrong and wrong_at say more.
 *         HTC_EINVAL: a pointer is NULL, or a size is missing
 *
 * Cost: O(bytes) of the item, each time that it is called for it.   Since: 0.2
 */
HTC_API htc_status htc_kv_backup_read(htc_kv_backup_reader *reader, htc_bytes in, int last, htc_kv_backup_item *item);

#ifdef __cplusplus
}
#endif
#endif
