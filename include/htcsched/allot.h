/**
 * @file htcsched/allot.h
 * @brief RA(U): how many slots each user is entitled to, and what to do about it now.
 *
 * Equation 1: RA(U) = min(demand(U), A / sum of weights * weight(U)) over the demanding users, in integers without
 * loss: largest remainders first, then what capped users cannot use is filled up in proportion to weight. All
 * comparisons are exact, so scaling all weights changes nothing.
 *
 * Pure functions: no clock, no state, no input or output. Threads: pure. Allocation: scratch through env, freed before
 * the call returns. Source: doc/papers.md#allot, equation 1.
 */
#ifndef HTCSCHED_ALLOT_H
#define HTCSCHED_ALLOT_H

#include "htcsched/env.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Weights of one call are in one unit of the caller's choice, 1 to this: 2^32 in units of 1/1024. */
#define HTC_ALLOT_WEIGHT_MAX (UINT64_C(1) << 42)
/** What htc_allot_weight answers for the weight 1. */
#define HTC_ALLOT_WEIGHT_ONE UINT64_C(1024)
#define HTC_ALLOT_SLOTS_MAX  (UINT64_C(1) << 48)
#define HTC_ALLOT_USERS_MAX  ((size_t)1 << 20)
/** min_agents: nobody is promised anything. */
#define HTC_ALLOT_NO_MINIMUM UINT32_MAX

typedef enum htc_allot_policy {
    HTC_ALLOT_EQ1 = 0,    /* equation 1 over users with a queue; satisfied users keep what they hold */
    HTC_ALLOT_STATIC = 1, /* floor(A / K) for each of K fixed users, whatever they need */
    HTC_ALLOT_MAXMIN = 2, /* progressive filling over every user with unfinished tasks */
    HTC_ALLOT_FCFS = 3    /* no sharing: who arrived first takes what he can use; nobody is drained */
} htc_allot_policy;

/** One user, as the caller sees him now. */
typedef struct htc_allot_user {
    uint64_t weight;      /* 1 to HTC_ALLOT_WEIGHT_MAX */
    uint64_t queued;      /* tasks that wait for an agent; he is demanding if there are any */
    uint64_t running;     /* tasks that agents hold, draining ones included */
    uint64_t agents;      /* slots held or being started for him, without the draining ones */
    uint64_t draining;    /* slots marked by an earlier plan to be given back after the running task, and no others */
    uint64_t starting;    /* those of agents that have not asked for a task yet */
    uint64_t last_served; /* ties: who got a slot longest ago (smallest) goes first */
    uint64_t arrival;     /* then who came first */
    uint64_t id;          /* then the smallest; must differ between users */
    uint64_t fixed;       /* HTC_ALLOT_STATIC: 1 for the K users who share */
} htc_allot_user;

typedef struct htc_allot_options {
    size_t   size;        /* sizeof(htc_allot_options) */
    uint32_t policy;      /* htc_allot_policy */
    uint32_t min_agents;  /* fair.min_agents: everybody gets this many if there are enough slots for that; 0: 1 */
    uint64_t fixed_users; /* HTC_ALLOT_STATIC: K, at least 1 */
} htc_allot_options;

typedef struct htc_allot_share {
    uint64_t ra;   /* RA(U): slots he may hold; 0 for a user who is not divided for */
    uint64_t base; /* his entitlement before filling: below it he is owed slots, above it he may have to give some */
} htc_allot_share;

/** What to do for one user, in this order: keep, grant, then mark. */
typedef struct htc_allot_change {
    htc_allot_share share;
    uint64_t        undrain; /* take the mark off this many draining agents, the newest marks first */
    uint64_t        grant;   /* start this many agents */
    uint64_t        drain;   /* mark this many more agents: idle ones first, then those expected to finish first */
} htc_allot_change;

/**
 * Divide slots among users.
 *
 * The sum of ra is min(slots, sum of queued + running) over the users divided for (eq1, maxmin, fcfs); ra never exceeds
 * queued + running; users that are equal differ by at most 1.
 *
 * @param[in]  env      scratch memory; NULL: malloc
 * @param[in]  options  NULL: eq1
 * @param[in]  users    n users, in any order; borrowed
 * @param[in]  slots    A, 0 to HTC_ALLOT_SLOTS_MAX
 * @param[out] out      n shares, caller-allocated; untouched on failure
 * @return HTC_OK; HTC_EINVAL if a number is out of range; HTC_EABI; HTC_ENOMEM
 *
 * Cost: O(n log n), whatever the number of slots.   Since: 0.1
 */
HTC_API htc_status htc_allot(const htc_env *env, const htc_allot_options *options, const htc_allot_user *users,
                             size_t n, uint64_t slots, htc_allot_share *out);

/**
 * Decide who gets the free slots, who is to give back, and which marks are no longer needed.
 *
 * Free slots go to users below base, then below ra, fewest agents for their weight first. Only as many slots are marked
 * as users below base could use and free slots and earlier marks do not cover. No task is ever interrupted: a marked
 * agent leaves after its task. When slots cannot be divided evenly, the odd ones go round among equals, a task at a
 * time.
 *
 * @param[in]  free_slots  slots nobody holds or has reserved, at most slots
 * @param[out] out         n changes, caller-allocated; untouched on failure
 * @return as htc_allot
 *
 * Cost: O((n + granted) log n).   Since: 0.1
 */
HTC_API htc_status htc_allot_plan(const htc_env *env, const htc_allot_options *options, const htc_allot_user *users,
                                  size_t n, uint64_t slots, uint64_t free_slots, htc_allot_change *out);

/** A real weight in units of 1/1024, rounded, at least 1 and at most HTC_ALLOT_WEIGHT_MAX; not a number: 1. */
HTC_API uint64_t htc_allot_weight(double weight);

/**
 * Weights from profiles: weight = priority * clamp((work / median of all work)^gamma, 1/8, 8), in units of 1/1024.
 *
 * @param[in]  priority  n numbers, 1 to 2^32
 * @param[in]  work      n amounts of unfinished work (tasks times their mean run time); 0 or less: not known, factor 1,
 *                       and left out of the median
 * @param[in]  gamma     -1 to 1: below 0 short bags weigh more, above 0 long ones, at 0 nothing changes
 * @param[out] weight    n weights, caller-allocated; untouched on failure
 * @return HTC_OK; HTC_EINVAL if a priority or gamma is out of range; HTC_ENOMEM
 *
 * Cost: O(n log n).   Since: 0.1
 */
HTC_API htc_status htc_allot_profiled(const htc_env *env, const uint64_t *priority, const double *work, size_t n,
                                      double gamma, uint64_t *weight);

/** The policy called "eq1", "static", "maxmin" or "fcfs"; HTC_ENOTFOUND for any other name. */
HTC_API htc_status htc_allot_policy_from_name(const char *name, uint32_t *policy);

#ifdef __cplusplus
}
#endif
#endif
