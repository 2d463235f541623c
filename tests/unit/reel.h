/* Checkpoints of scale models in memory, and a host that stops a run at some of its looks. */
#ifndef HTC_TESTS_REEL_H
#define HTC_TESTS_REEL_H

#include "expect.h"
#include <stdlib.h>

#include "htcsched/sim_scale.h"

typedef struct reel {
    unsigned char *data;
    size_t         len, room, at;
    size_t         ends; /* of what can be written; 0: nowhere */
} reel;

static inline htc_status reel_move(void *ctx, void *data, size_t n, int reads)
{
    reel *r = ctx;
    if (reads) {
        if (n > r->len - r->at)
            return HTC_EIO;
        memcpy(data, r->data + r->at, n);
        r->at += n;
        return HTC_OK;
    }
    if (r->ends && r->len + n > r->ends)
        return HTC_ENOSPC;
    while (r->len + n > r->room)
        cr_assert((r->data = realloc(r->data, r->room = 2 * r->room + 4096)) != NULL);
    memcpy(r->data + r->len, data, n);
    r->len += n;
    return HTC_OK;
}

static inline htc_status reel_read(void *ctx, void *data, size_t n)
{
    return reel_move(ctx, data, n, 1);
}

static inline htc_status reel_write(void *ctx, void *data, size_t n)
{
    return reel_move(ctx, data, n, 0);
}

/* It stops the run at some of the looks, of which there are many: the clock says that each took a second. */
typedef struct stopper {
    htc_rng      rng;
    htc_ns       now;
    volatile int stop;
    uint64_t     one_in;
} stopper;

static inline htc_ns stopper_clock(void *ctx)
{
    stopper *s = ctx;
    s->stop |= s->one_in && htc_rng_below(&s->rng, s->one_in) == 0;
    return s->now += HTC_SECOND;
}

#endif
