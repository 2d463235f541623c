/* What the parts of fit share. A job stands in one slot of an array from submission to its end; everything else names
 * it by the slot. Two search trees run through the slots, the queue and the running jobs; a third structure, the plan,
 * is there only where every job has a reservation. */
#ifndef HTC_SCHED_FIT_PRIVATE_H
#define HTC_SCHED_FIT_PRIVATE_H

#include "htcsched/fit.h"
#include "sched/registry/registry_private.h"

/* No slot, no point. */
#define FIT_NONE UINT32_MAX

/* What a subtree holds in all: enough to know where not to look. Of running jobs nodes and count alone are kept. */
typedef struct fit_sum {
    uint64_t nodes;
    htc_ns   shortest;          /* the least estimate */
    htc_ns   reserved;          /* the least reserved start */
    uint32_t narrowest, widest; /* the least and most nodes */
    uint32_t count;
} fit_sum;

typedef struct fit_slot {
    htc_fit_job job;
    uint64_t    sequence; /* of its submission */
    htc_ns      submitted;
    htc_ns      started;  /* HTC_NEVER: it waits */
    htc_ns      reserved; /* while it waits: its start by the plan; HTC_NEVER: none */
    uint64_t    key;      /* its place in its tree, then sequence: the queue by priority, running jobs by their end */
    fit_sum     sum;      /* of its subtree */
    uint32_t    left, right, heap;
    uint32_t    listed;   /* its tree is a list */
} fit_slot;

/* ---- fit_tree.c: a treap through the slots, or, of a few, a list; a root is the slot at the top. ---- */

typedef struct fit_bounds {
    htc_ns   estimate; /* at most as long, */
    uint32_t spare;    /* or at most as wide as this whatever its length, */
    uint32_t nodes;    /* and at most as wide, */
    htc_ns   reserved; /* with a start reserved no later */
} fit_bounds;

/* Where a number stands in a heap: neighbours are strangers there (SplitMix64's finish). */
static inline uint32_t htc__fit_heap(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)(x >> 32);
}
static inline int htc__fit_before(const fit_slot *slots, uint32_t a, uint32_t b)
{
    const fit_slot *x = &slots[a], *y = &slots[b];
    return x->key != y->key ? x->key < y->key : x->sequence < y->sequence;
}
/* Of a slot whose heap, key, sequence and job are filled in. */
void     htc__fit_insert(fit_slot *slots, uint32_t *root, uint32_t at);
void     htc__fit_remove(fit_slot *slots, uint32_t *root, uint32_t at);
/* The job at changed, but for its key: the sums above it are made again. */
void htc__fit_touch(fit_slot *slots, uint32_t root, uint32_t at);
/* All of them changed. */
void    htc__fit_touch_all(fit_slot *slots, uint32_t root);
fit_sum htc__fit_sum(const fit_slot *slots, uint32_t root);
int     htc__fit_within(const htc_fit_job *job, htc_ns reserved, const fit_bounds *bounds);
/* The first within bounds, behind the job after if that is not FIT_NONE. */
uint32_t htc__fit_first(const fit_slot *slots, uint32_t root, uint32_t after, const fit_bounds *bounds);
/* The i-th; and how many stand before one. */
uint32_t htc__fit_nth(const fit_slot *slots, uint32_t root, size_t i);
uint32_t htc__fit_rank(const fit_slot *slots, uint32_t root, uint32_t at);
/* The first whose key is at least so. */
uint32_t htc__fit_from(const fit_slot *slots, uint32_t root, uint64_t key);
/* The nodes of all whose keys are at most so. */
uint64_t htc__fit_nodes_through(const fit_slot *slots, uint32_t root, uint64_t key);
/* The first that together with all before it has so many nodes; FIT_NONE: all have fewer. */
uint32_t htc__fit_reaching(const fit_slot *slots, uint32_t root, uint64_t nodes);

/* ---- fit_plan.c: free nodes over time, and the reserved starts. ---- */

/* From this moment to the next point so many nodes are free: a treap by time, changes of whole ranges put off. */
typedef struct fit_point {
    htc_ns   time;
    int64_t  free, least, most; /* of itself; of its subtree */
    int64_t  add;               /* still to be added to both subtrees */
    uint32_t left, right, heap;
} fit_point;

/* By class of width and of length, in the manner of a Fenwick tree: fit_floor.c. */
#define FIT_FLOOR_WIDTHS  66
#define FIT_FLOOR_LENGTHS 130
typedef struct fit_floor {
    htc_ns start[FIT_FLOOR_WIDTHS][FIT_FLOOR_LENGTHS];
} fit_floor;

typedef struct fit_plan {
    fit_point *points;
    fit_floor *floor;
    size_t    *order; /* room to sort all jobs */
    size_t     points_cap, order_cap;
    uint64_t   points_ever;
    uint32_t   root, unused, used; /* unused: a list through left; used: of the array, from the front */
    htc_ns     made;               /* when it was made */
    htc_ns     overdue_ends;       /* running jobs that were overdue then count as ending so */
    uint32_t   broken;             /* something takes longer or is wider than planned */
    uint32_t   loose;              /* something planned is not needed any more */
} fit_plan;

struct htc_fit {
    const htc_env *env;
    htc_fit_policy policy;
    fit_slot      *slots;
    uint32_t      *table; /* id -> slot, open addressing, a power of two long; FIT_NONE: empty */
    size_t         cap, table_cap, jobs_max;
    uint32_t       unused, used;     /* as in fit_plan */
    uint32_t       waiting, running; /* roots */
    uint32_t       nodes, busy;
    uint64_t       sequence;
    htc_ns         now;
    uint32_t       asked;
    uint32_t      *asking;   /* &asked, which who only looks sets too. 1: the policy is being asked: nothing changes meanwhile */
    fit_plan       plan;     /* HTC_FIT_PROMISE_ALL */
};

/* Room for so many jobs. */
htc_status htc__fit_plan_reserve(const htc_env *env, fit_plan *plan, size_t jobs);
void       htc__fit_plan_free(const htc_env *env, fit_plan *plan);
/* Does what is planned still hold? */
int htc__fit_plan_holds(const htc_fit *fit, htc_ns now);
/* Reserve a start for one more job, in a plan that holds. */
void htc__fit_plan_add(htc_fit *fit, htc_ns now, uint32_t at);
/* A running job that was to end at one moment ends, or is now to end, at another. */
void htc__fit_plan_moved(htc_fit *fit, htc_ns end, htc_ns to);
/* Make the plan again if it does not hold. */
void htc__fit_plan_refresh(htc_fit *fit, htc_ns now);
/* The first moment from now on that leaves fewer than so many nodes; HTC_NEVER: none. */
htc_ns htc__fit_plan_short(const htc_fit *fit, htc_ns now, uint32_t nodes);

/* ---- fit_floor.c: bounds for the search of a start. ---- */

/* No start is earlier than this; a start that was found for a job; and a plan made again from nothing. */
htc_ns htc__fit_floor(const fit_floor *floor, const htc_fit_job *job);
void   htc__fit_floor_found(fit_floor *floor, const htc_fit_job *job, htc_ns start);
void   htc__fit_floor_forget(fit_floor *floor);

/* ---- fit.c ---- */

uint32_t htc__fit_slot_of(const htc_fit *fit, uint64_t id);
/* An id that is not in it; there is room. */
void htc__fit_table_add(htc_fit *fit, uint32_t slot);
static inline uint32_t htc__fit_free(const htc_fit *fit)
{
    return fit->nodes > fit->busy ? fit->nodes - fit->busy : 0;
}
/* Every call with a moment: HTC_EINVAL for one before the last. */
static inline htc_status htc__fit_check(const htc_fit *fit, htc_ns now)
{
    return !fit || now < fit->now || now == HTC_NEVER ? HTC_EINVAL : HTC_OK;
}
/* Every call that changes something: HTC_EINVAL also from inside the policy. */
static inline htc_status htc__fit_may_change(const htc_fit *fit, htc_ns now)
{
    return fit && *fit->asking ? HTC_EINVAL : htc__fit_check(fit, now);
}
void       htc__fit_run(htc_fit *fit, htc_ns now, uint32_t at);
htc_status htc__fit_clone(const htc_fit *fit, htc_fit **out);

/* ---- fit_policy.c: what keeps the promise. ---- */

extern const htc__builtin htc__fit_builtin[];

/* A policy of any version, checked; NULL is EASY. */
htc_status htc__fit_policy_copy(htc_fit_policy *out, const htc_fit_policy *in);

/* The job that goes first may start as soon as its nodes are free, others within bounds. */
typedef struct fit_rule {
    uint32_t   first;
    fit_bounds bounds;
} fit_rule;

fit_rule htc__fit_rule(const htc_fit *fit, htc_ns now);
/* The first that is not set aside. */
uint32_t htc__fit_head(const htc_fit *fit);
/* htc_fit_shadow of at most fit->nodes nodes, and the running job whose end it is. */
void htc__fit_shadow(const htc_fit *fit, htc_ns now, uint32_t nodes, htc_ns *when, uint32_t *spare, uint32_t *job);

/* now + duration, HTC_NEVER if that is beyond all time. */
static inline htc_ns htc__fit_later(htc_ns now, htc_ns duration)
{
    return duration < HTC_NEVER - now ? now + duration : HTC_NEVER;
}

#endif
