/* What a member keeps: bytes under bytes. A change is seen at once by whoever asks this member, and becomes durable
 * with its batch.
 *
 * Batches are numbered upwards from 1: `open` takes changes, `stored` and all below it are durable. Whatever an answer
 * looked at or changed, it rests on the newest batch that may hold a change of it, and waits for stored >= that batch.
 * Cells that keep no promise to a disk have open == stored, and nothing waits.
 *
 * Three kinds: a table in memory; the same with a log behind it (it refuses what the log has no room for before anything
 * is changed, with HTC_EBUSY where there will be room in a moment, and ends the member when a write fails); and an overlay over an htc_kv_engine, whose failed batch is undone
 * together with what was staged on top. */
#ifndef HTC_KVS_CELLS_H
#define HTC_KVS_CELLS_H

#include "htcsched/kv_engine.h"
#include "htcsched/machine.h"

#define HTC__CELLS_PLACE_BITS 30

typedef struct htc__cells_ops {
    /* *value is lent until the next call. *batch: what an answer rests on; 0: nothing.
     * HTC_OK, HTC_ENOTFOUND (with *batch), HTC_EIO, HTC_ECORRUPT, HTC_ENOMEM. */
    htc_status (*get)(void *ctx, htc_bytes key, htc_bytes *value, uint64_t *batch);
    /* Is there room in the open batch for records of so many bytes more (htc__cells_cost)? HTC_OK; HTC_EBUSY: not yet, but
     * after one of the next inputs, so wait; HTC_ENOSPC: not as long as the disk is full; HTC_ETOOBIG: never. What is
     * made of several puts and drops asks this first, for none of them is taken back. NULL: there always is. */
    htc_status (*room)(const void *ctx, size_t bytes);
    /* The same of what may take more of the disk than it gives back. NULL: room says it. */
    htc_status (*room_to_grow)(const void *ctx, size_t bytes);
    /* Into the open batch. HTC_OK; HTC_ENOMEM, HTC_EFULL, and without room for it HTC_EBUSY, HTC_ENOSPC, HTC_ETOOBIG: as
     * it was. */
    htc_status (*put)(void *ctx, htc_bytes key, htc_bytes value);
    htc_status (*drop)(void *ctx, htc_bytes key);
    /* In the order of htc_bytes_compare, from `from` on, until visit answers 0; it does not call the cells. A record that
     * is damaged is shown without a value: value.data is NULL, which it is for no other.
     * HTC_EUNSUPPORTED: these cells are not ordered. */
    htc_status (*scan)(void *ctx, htc_bytes from, htc_kv_visit visit, void *visitor, uint64_t *batch);
    /* In the order of places (kvs/util/place.h), those of [from, to]: one bucket, or all; keys whose places begin with the same
     * HTC__CELLS_PLACE_BITS in any order. HTC_EUNSUPPORTED where there is no such order. */
    htc_status (*walk)(void *ctx, uint64_t from, uint64_t to, htc_kv_visit visit, void *visitor, uint64_t *batch);

    /* The place of a key. NULL where walk is not supported. */
    uint64_t (*place)(const void *ctx, htc_bytes key);

    /* These keys are asked for next, in this order: whoever has several at hand saves most of the waiting for memory, and
     * the second look-up. As many as 16 at once are of use. May be NULL. */
    void (*hint)(void *ctx, const htc_bytes *keys, size_t n);

    uint64_t (*open)(const void *ctx);
    uint64_t (*stored)(const void *ctx);
    size_t (*staged)(const void *ctx); /* bytes of the open batch */
    size_t (*used)(const void *ctx);   /* bytes of memory for what is kept */
    size_t (*count)(const void *ctx);

    /* Every input of the member, before it looks at it itself: START begins the reading of what there is, STORED and
     * RESULT are completions. An error is the member's end. *ready says whether everything has been read. */
    htc_status (*step)(void *ctx, const htc_input *in, htc_output *out, int *ready);
    /* 1: commit would hand something over; 0: it has to wait for one of the next inputs. NULL: when none is on its way. */
    int (*may_commit)(const void *ctx);
    /* Hand the open batch over, if it holds something and none is on its way. */
    htc_status (*commit)(void *ctx, htc_output *out);
    /* HTC_OK; else why everything above `stored` was undone, said once. NULL: nothing ever is; what cannot be stored ends the member. */
    htc_status (*undone)(void *ctx);
    htc_ns (*deadline)(const void *ctx);
    /* The member ends, and hands nothing over from now on: *ended once that is written down where it is. Asked behind every input until then.
     * NULL: there is nothing to write down. */
    htc_status (*end)(void *ctx, htc_output *out, int *ended);
    void (*destroy)(void *ctx);
} htc__cells_ops;

typedef struct htc__cells {
    const htc__cells_ops *ops;
    void                 *ctx;
} htc__cells;

/* What a record or its removal takes of a batch at most, by the lengths of its key and value. */
static inline size_t htc__cells_cost(size_t key, size_t value)
{
    return 32 + key + value;
}

#endif
