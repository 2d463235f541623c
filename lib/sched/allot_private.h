/* What the division of slots and the decision about them share: an order of indices, and nothing that allocates. */
#ifndef HTC_SCHED_ALLOT_PRIVATE_H
#define HTC_SCHED_ALLOT_PRIVATE_H

#include "htcsched/allot.h"

__extension__ typedef unsigned __int128 htc_u128;

/* 1 if a belongs before b. */
typedef int htc_before(const void *ctx, size_t a, size_t b);

/* The binary heap's one step: the item at position at sinks until no child belongs before it. */
void htc__heap_sink(size_t *heap, size_t n, size_t at, htc_before *before, const void *ctx);
void htc__heap_make(size_t *heap, size_t n, htc_before *before, const void *ctx);
/* Sort indices: no allocation, O(n log n) at worst (the C library's qsort promises neither). */
void htc__sort(size_t *order, size_t n, htc_before *before, const void *ctx);

/* Below 0, 0 or above 0 as x/wx is below, equal to or above y/wy, exactly. */
int htc__compare_ratio(uint64_t x, uint64_t wx, uint64_t y, uint64_t wy);
/* Ties: who was served longest ago, then who came first, then the smallest id. */
int htc__before_tie(const htc_allot_user *a, const htc_allot_user *b);

/* Defaults filled in and checked; also checks users, n and slots. */
htc_status htc__allot_check(const htc_allot_options *in, const htc_allot_user *users, size_t n, uint64_t slots,
                            const void *result, htc_allot_options *out);
/* Is this user one of those divided for under this policy? */
int htc__allot_divided_for(const htc_allot_options *options, const htc_allot_user *user);

#endif
