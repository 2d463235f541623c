/* Members whose open batches hold little, as a log's do while the batch before is written: their cells say so when they are asked, and refuse
 * what is put without asking. How much a batch holds is drawn for each. */
#ifndef HTC_TEST_NARROW_CELLS_H
#define HTC_TEST_NARROW_CELLS_H

#include "kvs/storage/cells.h"
#include "kvs/server/server.h"

#define NARROW_MEMBERS 16

typedef struct narrow_batch {
    const void *ctx;
    uint64_t    open;
    size_t      holds; /* as many bytes, and what was granted */
} narrow_batch;

static narrow_batch         narrow_batches[NARROW_MEMBERS];
static const htc__cells_ops *wide;
static uint64_t              narrow_refused;

static inline narrow_batch *narrow_batch_of(const void *ctx)
{
    narrow_batch *b = narrow_batches;
    while (b->ctx != ctx)
        b++;
    if (b->open != wide->open(ctx)) {
        b->open = wide->open(ctx);
        b->holds = (b->open * UINT64_C(0x9e3779b97f4a7c15) >> 40) % 6000;
    }
    return b;
}

/* An empty batch takes whatever there is. */
static inline htc_status narrow_room(const void *ctx, size_t bytes)
{
    narrow_batch *b = narrow_batch_of(ctx);
    size_t        staged = wide->staged(ctx);
    if (staged && staged + bytes > b->holds) {
        narrow_refused++;
        return HTC_EBUSY;
    }
    b->holds = staged + bytes > b->holds ? staged + bytes : b->holds;
    return HTC_OK;
}

static inline htc_status narrow_put(void *ctx, htc_bytes key, htc_bytes value)
{
    htc_status room = narrow_room(ctx, htc__cells_cost(key.len, value.len));
    return room == HTC_OK ? wide->put(ctx, key, value) : room;
}

static inline htc_status narrow_drop(void *ctx, htc_bytes key)
{
    htc_status room = narrow_room(ctx, htc__cells_cost(key.len, 0));
    return room == HTC_OK ? wide->drop(ctx, key) : room;
}

/* Member n, before its first input. */
static inline void narrow(htc_kv_server *s, int n)
{
    static htc__cells_ops ops;
    wide = s->cells.ops;
    ops = *wide;
    ops.room = narrow_room;
    ops.put = narrow_put;
    ops.drop = narrow_drop;
    s->cells.ops = &ops;
    narrow_batches[n] = (narrow_batch){ s->cells.ctx, 0, 0 };
}

#endif
