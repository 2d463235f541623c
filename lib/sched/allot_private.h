/* What the files of allot share: an order of indices, exact ratios, and nothing that allocates. */
#ifndef HTC_SCHED_ALLOT_PRIVATE_H
#define HTC_SCHED_ALLOT_PRIVATE_H

#include "htcsched/allot.h"
#include "sched/registry_private.h"

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

/* One user who is divided for: no more than is looked at again and again, for a million of these are beyond any cache.
 */
typedef struct htc__entry {
    uint32_t at;     /* place in the caller's arrays */
    uint32_t raised; /* by min_agents: that was his remainder */
    uint64_t weight, demand, ra, base;
    uint64_t remainder; /* of his exact share, in parts of the same whole for everybody */
} htc__entry;

typedef struct htc__division {
    const htc_allot_user *users;   /* as the caller sees them */
    htc__entry           *entries; /* in any order */
    size_t                n;
    uint64_t              slots, left;
    uint64_t              whole; /* the sum of weights */
} htc__division;

/* How much more he could use of what is left. */
uint64_t htc__room_of(const htc__division *d, const htc__entry *e);
/* 1 if a belongs before b. */
typedef int htc__entry_before(const htc__division *d, const htc__entry *a, const htc__entry *b);
/* Bring those k <= n to the front of the n entries that belong before the others: O(n) expected, O(n log n) at worst,
 * where sorting a million costs a second. */
void htc__entries_select(const htc__division *d, htc__entry *entries, size_t n, size_t k, htc__entry_before *before);
/* Is there enough for all in a row that goes up to this one, or to others who stand like him, and has such sums? */
typedef int htc__entry_enough(const htc__division *d, const htc__entry *last, htc_u128 rooms, uint64_t weights);
/* How many, in this order, there is enough for: these stand first then, and who comes next behind them. Costs the same.
 */
size_t htc__entries_row(htc__division *d, htc__entry_before *before, htc__entry_enough *enough);

/* Defaults filled in and checked; also checks users, n and slots. */
htc_status htc__allot_check(const htc_allot_options *in, const htc_allot_user *users, size_t n, uint64_t slots,
                            const void *result, htc_allot_options *out);
/* Is this user one of those divided for under this policy? */
int htc__allot_divided_for(const htc_allot_options *options, const htc_allot_user *user);

/* A weight is raised and lowered for what is known of a user by at most this factor. */
#define HTC__ALLOT_FACTOR_MAX 8.0
/* (amount / typical)^gamma within these bounds; 1 if one of them is not known. */
double htc__allot_factor(double amount, double typical, double gamma);
/* Of an even number the mean of the two in the middle; 0 of none. Changes the order of what it is given. */
double                    htc__allot_median(double *amounts, size_t n);
extern const htc__builtin htc__allot_builtin[];

#endif
