/* What the files of allot share: exact ratios, and nothing that allocates. */
#ifndef HTC_SCHED_ALLOT_PRIVATE_H
#define HTC_SCHED_ALLOT_PRIVATE_H

#include "core/order.h"
#include "htcsched/allot.h"
#include "sched/registry/registry_private.h"

__extension__ typedef unsigned __int128 htc_u128;

/* Below 0, 0 or above 0 as x/wx is below, equal to or above y/wy, exactly. */
static inline int htc__compare_ratio(uint64_t x, uint64_t wx, uint64_t y, uint64_t wy)
{
    htc_u128 a = (htc_u128)x * wy, b = (htc_u128)y * wx;
    return (a > b) - (a < b);
}

/* What is looked at again and again of a user, for a million of them are beyond any cache: these and the shares are gone
 * through from end to end. All zero: the user is not divided for. */
#define HTC__ENTRY_WEIGHT (HTC_ALLOT_WEIGHT_MAX * 2 - 1) /* all of these bits */
typedef struct htc__entry {
    uint64_t weight : 43;
    uint64_t raised : 1; /* by min_agents: that was the remainder */
    uint64_t demand;
    uint64_t remainder; /* of the exact share, in parts of the same whole for everybody */
} htc__entry;

/* One who stands in a row. */
typedef struct htc__candidate {
    uint64_t key;
    uint32_t user;
} htc__candidate;

/* What a user could use more, and the weight. */
typedef struct htc__need {
    uint64_t room, weight;
} htc__need;

/* room: for two numbers a user. */
int htc__allot_ids_differ(const htc_allot_user *users, size_t n, void *room);

typedef struct htc__division {
    const htc_allot_user *users;   /* as the caller sees them */
    htc_allot_share      *shares;  /* the user's too: they grow to what they will be */
    htc__entry           *entries; /* one for each user */
    size_t                n;
    uint64_t              slots, left;
    uint64_t              whole; /* the sum of weights */
    union {                      /* room to work in, for as many */
        htc__candidate *row;
        htc__need      *needs;
    };
} htc__division;

/* Slots for a unit of weight: slots / weight; weight 0: more than anybody wants. */
typedef struct htc__fill {
    uint64_t slots, weight;
    uint32_t rounds; /* it took to find out */
} htc__fill;

/* The level up to which those who need something are filled by so many slots; weights: the sum of all. Changes needs.
 * O(n) a round: a handful of rounds as a rule, fewer than 90 whoever chose the numbers. */
htc__fill htc__fill_level(htc__need *needs, size_t n, uint64_t slots, uint64_t weights);

/* By what a row is in order: the smallest comes first. */
typedef uint64_t htc__row_key(const htc_allot_user *u, const htc__entry *e);
/* Lists that end with NULL: by the first of the keys, among equals by the second, and so on. */
extern htc__row_key *const htc__row_by_remainder[], *const htc__row_by_arrival[];
/* Hand out what is left to the first n in d->row: each takes what it has room for, but at most so much, until there is no
 * more. Who comes before whom matters only where it ends, so nothing is sorted: O(n), whatever the keys. */
void htc__row_serve(htc__division *d, size_t n, uint64_t most, htc__row_key *const *keys);

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
