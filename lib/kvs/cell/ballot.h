/* Ballots of the registers. A proposer never uses one twice, not after a restart either; 0.0.0 is below all of them and
 * means "none". */
#ifndef HTC_KVS_BALLOT_H
#define HTC_KVS_BALLOT_H

#include <stdint.h>

typedef struct htc__kv_ballot {
    uint64_t epoch;    /* of the bucket */
    uint64_t counter;  /* of the proposer, over all keys */
    uint64_t proposer; /* the member's id */
} htc__kv_ballot;

/* Below 0, 0 or above 0. Equal ballots come from the same proposer. */
static inline int htc__kv_ballot_compare(const htc__kv_ballot *a, const htc__kv_ballot *b)
{
    if (a->epoch != b->epoch)
        return a->epoch < b->epoch ? -1 : 1;
    if (a->counter != b->counter)
        return a->counter < b->counter ? -1 : 1;
    return a->proposer == b->proposer ? 0 : a->proposer < b->proposer ? -1 : 1;
}

static inline int htc__kv_ballot_none(const htc__kv_ballot *b)
{
    return b->epoch == 0 && b->counter == 0 && b->proposer == 0;
}

static inline htc__kv_ballot htc__kv_ballot_max(htc__kv_ballot a, htc__kv_ballot b)
{
    return htc__kv_ballot_compare(&a, &b) < 0 ? b : a;
}

/* The one that an accept may promise to its own proposer. */
static inline htc__kv_ballot htc__kv_ballot_next(htc__kv_ballot b)
{
    b.counter++;
    return b;
}

#endif
