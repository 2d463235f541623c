/* The slow way to judge a history: all orders of its operations, and of those of unknown outcome all choices of which took effect. */
#ifndef HTC_TESTS_HISTORY_ORDERS_H
#define HTC_TESTS_HISTORY_ORDERS_H

#include "sim/history/history_private.h"

/* Some order of the operations not yet in `done` goes on from s: one may be next if nothing left was answered before it was asked. */
static inline int some_order(const htc_history *h, const uint32_t *ops, size_t n, uint32_t done, history_state s)
{
    int left = 0;
    for (size_t i = 0; i < n; i++) {
        const htc_history_op *o = htc_history_at(h, ops[i]);
        if (done & 1u << i)
            continue;
        left |= o->outcome != HTC_HISTORY_UNKNOWN;
        int may = 1;
        for (size_t j = 0; j < n && may; j++) {
            const htc_history_op *b = htc_history_at(h, ops[j]);
            may = done & 1u << j || b->outcome == HTC_HISTORY_UNKNOWN || b->returned >= o->invoked;
        }
        history_state next = s;
        if (may && htc__history_apply(&next, o) && some_order(h, ops, n, done | 1u << i, next))
            return 1;
    }
    return !left;
}

static inline uint32_t by_all_orders(const htc_history *h)
{
    for (uint32_t key = 0; key < htc_history_keys(h); key++) {
        uint32_t ops[32];
        size_t   n = 0;
        for (size_t i = 0; i < htc_history_count(h); i++)
            if (htc_history_at(h, i)->key == key && htc_history_at(h, i)->outcome != HTC_HISTORY_REFUSED)
                ops[n++] = (uint32_t)i;
        if (!some_order(h, ops, n, 0, htc__history_initial()))
            return HTC_HISTORY_BROKEN;
    }
    return HTC_HISTORY_HOLDS;
}

#endif
