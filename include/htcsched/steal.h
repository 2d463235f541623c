/**
 * @file htcsched/steal.h
 * @brief Whom to rob, how many tasks to take and when to try again: the choices of adaptive work stealing.
 *
 * An idle worker (the thief) asks a few others for their load, all at once, takes a share from the most loaded one, and
 * after a round that brought nothing waits twice as long as before (Algorithm 2). This header chooses; asking and
 * moving tasks is the caller's. From the single rules upwards:
 *
 *     htc_steal_pick, htc_steal_nearest, htc_steal_mesh       neighbours, each by one rule
 *     htc_steal_victim, htc_steal_amount, htc_steal_least     who is robbed, of how many and which tasks
 *     htc_steal_whom_to_nudge                                 who hears of tasks that wait
 *     htc_steal_policy, htc_steal_register, htc_steal_find    rules of your own, and all of them by name
 *     htc_steal_start, _ask, _settle, _nudge, _give           one thief's rounds, under a policy
 *
 * Functions of what is passed in: no clock, no allocation, no state but htc_rng and htc_steal_thief, which the caller
 * keeps. Threads: pure; two threads do not share one htc_rng or one htc_steal_thief. Workers of a group of n are
 * numbered 0 to n - 1. Source: doc/papers.md#steal, MATRIX, Algorithms 1 and 2.
 */
#ifndef HTCSCHED_STEAL_H
#define HTCSCHED_STEAL_H

#include "htcsched/env.h"
#include "htcsched/registry.h"

#ifdef __cplusplus
extern "C" {
#endif

/** How many: of n workers as neighbours, or of the tasks that wait as loot. */
typedef enum htc_steal_rule {
    HTC_STEAL_BY_DEFAULT = 0, /**< the square root of neighbours, half of tasks */
    HTC_STEAL_ONE,            /**< 1; called "one" */
    HTC_STEAL_TWO,            /**< 2; called "two" */
    HTC_STEAL_LOG2,           /**< the logarithm; called "log2" */
    HTC_STEAL_SQRT,           /**< the square root; called "sqrt" */
    HTC_STEAL_HALF            /**< half; called "half" */
} htc_steal_rule;

/** Workers at the points of a 2-D or 3-D mesh; worker i is at (i mod x, i / x mod y, i / x / y). */
typedef struct htc_steal_shape {
    uint32_t x;    /**< points along the first axis, at least 1 */
    uint32_t y;    /**< along the second, at least 1 */
    uint32_t z;    /**< along the third; 0: 1, a 2-D mesh */
    uint32_t wrap; /**< 1: the ends of each axis are neighbours (a torus); 0: they are not */
} htc_steal_shape;

/**
 * How many neighbours to ask in a group of n.
 *
 * Logarithm and square root are rounded to the nearest; never fewer than 1 nor more than n - 1.
 *
 * @param[in] rule  htc_steal_rule; an unknown one counts as HTC_STEAL_SQRT
 * @param[in] n     size of the group, the asker included
 * @return k; 0 only if there is nobody else (n below 2)
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API uint32_t htc_steal_neighbours(uint32_t rule, uint32_t n);

/**
 * Draw k distinct neighbours, never the caller (Algorithm 1).
 *
 * Every ordered choice of k among the n - 1 others is equally likely. The draws are counted from the caller's place on,
 * so that thieves whose streams are in the same state still rob different victims.
 *
 * @param[in,out] rng   stream to draw from; how far it advances is not part of the contract
 * @param[in]     n     size of the group
 * @param[in]     self  the caller's number, below n
 * @param[in]     k     how many to draw, 1 to n - 1
 * @param[out]    out   k numbers, caller-allocated; untouched on failure
 * @return HTC_OK; HTC_EINVAL if a pointer is NULL, or if self, k or n is out of range
 *
 * Cost: O(k) expected, whatever n is.   Since: 0.2
 */
HTC_API htc_status htc_steal_pick(htc_rng *rng, uint32_t n, uint32_t self, uint32_t k, uint32_t *out);

/**
 * The k neighbours with the nearest numbers, always the same (static neighbours).
 *
 * The group is a circle: self + 1, self - 1, self + 2, self - 2, ..., modulo n.
 *
 * @param[in]  n     size of the group
 * @param[in]  self  the caller's number, below n
 * @param[in]  k     how many, 1 to n - 1
 * @param[out] out   k numbers, nearest first, caller-allocated; untouched on failure
 * @return HTC_OK; HTC_EINVAL if out is NULL, or if self, k or n is out of range
 *
 * Cost: O(k).   Since: 0.2
 */
HTC_API htc_status htc_steal_nearest(uint32_t n, uint32_t self, uint32_t k, uint32_t *out);

/**
 * The neighbours within some hops on a mesh or torus, nearest first.
 *
 * Inside a large mesh there are 2h(h + 1) of them within h hops in two dimensions, (2h + 1)(2h^2 + 2h + 3) / 3 - 1 in
 * three.
 *
 * @param[in]  shape  borrowed; points from number n on have no worker
 * @param[in]  n      size of the group, at most x * y * z
 * @param[in]  self   the caller's number, below n
 * @param[in]  hops   how far, at least 1
 * @param[in]  cap    room in out, at least 1: of more neighbours the nearest are written
 * @param[out] out    numbers, caller-allocated; untouched on failure
 * @param[out] count  how many were written; untouched on failure
 * @return HTC_OK; HTC_EINVAL if a pointer is NULL or a number is out of range
 *
 * Cost: O(points within those hops, up to the cap-th neighbour).   Since: 0.2
 */
HTC_API htc_status htc_steal_mesh(const htc_steal_shape *shape, uint32_t n, uint32_t self, uint32_t hops, uint32_t cap,
                                  uint32_t *out, uint32_t *count);

/**
 * The hops between two points of a mesh or torus: the sum of their distances along the axes.
 *
 * @param[in]  shape  borrowed
 * @param[in]  a      a point, below x * y * z
 * @param[in]  b      another
 * @param[out] hops   the distance; untouched on failure
 * @return HTC_OK; HTC_EINVAL if a pointer is NULL or a number is out of range
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_steal_hops(const htc_steal_shape *shape, uint32_t a, uint32_t b, uint32_t *hops);

/**
 * The one to rob: the most loaded of those who were asked.
 *
 * Of equals the first in the list, so that lists with the nearest first rob near before distant.
 *
 * @param[in]  load    n answers: tasks that wait in the queue that may be robbed; 0 for who did not answer
 * @param[in]  n       how many were asked; 0 is fine
 * @param[out] victim  place in load, not a worker's number; untouched unless HTC_OK
 * @return HTC_OK; HTC_AGAIN if nobody has a task; HTC_EINVAL if a pointer is NULL
 *
 * Cost: O(n).   Since: 0.2
 */
HTC_API htc_status htc_steal_victim(const uint64_t *load, uint32_t n, uint32_t *victim);

/**
 * How many tasks a victim gives away.
 *
 * The rule's part of those that wait, rounded down. If no slot of the victim is idle, half rounds up and at least one
 * goes: half of one would be none for ever. Idle slots keep a task each.
 *
 * @param[in] rule     htc_steal_rule; an unknown one counts as HTC_STEAL_HALF
 * @param[in] waiting  the victim's tasks that may be stolen
 * @param[in] idle     the victim's idle slots
 * @return 0 to waiting
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API uint64_t htc_steal_amount(uint32_t rule, uint64_t waiting, uint64_t idle);

/**
 * Which tasks a victim gives away: those with the least input data, the cheapest to move.
 *
 * @param[in]  bytes   input data of n waiting tasks
 * @param[in]  n       how many wait, up to UINT32_MAX
 * @param[in]  amount  how many to give, 0 to n
 * @param[out] out     their places in bytes, least data first, of equals the first; caller-allocated; untouched on
 *                     failure
 * @return HTC_OK; HTC_EINVAL if a pointer is NULL where something is to be read or written, or amount or n out of range
 *
 * Cost: O(n log amount).   Since: 0.2
 */
HTC_API htc_status htc_steal_least(const uint64_t *bytes, size_t n, size_t amount, uint32_t *out);

/** htc_steal_whom_to_nudge never names more. */
#define HTC_STEAL_NUDGES_MAX 32

/** A worker nudges others no more often than this, unless its program says otherwise. */
#define HTC_STEAL_NUDGE_NS (10 * HTC_MS)

/**
 * Whom a worker tells that more tasks wait with it than it can begin, so that thieves at rest ask again.
 *
 * The square root of the group, as htc_steal_neighbours counts it, drawn as by htc_steal_pick; at most
 * HTC_STEAL_NUDGES_MAX. So everybody hears of a backlog within some rounds, and a round of a large group stays cheap.
 * The caller sends what each one hands to htc_steal_nudge, and waits HTC_STEAL_NUDGE_NS before it nudges again:
 *
 *     uint32_t whom[HTC_STEAL_NUDGES_MAX], count;
 *     if (waiting > 0 && idle == 0 && now >= nudge_at &&
 *         htc_steal_whom_to_nudge(&rng, n, self, HTC_STEAL_NUDGES_MAX, whom, &count) == HTC_OK) {
 *         nudge_at = now + HTC_STEAL_NUDGE_NS;
 *         for (uint32_t i = 0; i < count; i++)
 *             send_nudge(whom[i]);
 *     }
 *
 * @param[in,out] rng    the worker's own stream; as it was on failure
 * @param[in]     n      size of the group
 * @param[in]     self   the worker's number, below n
 * @param[in]     cap    room in out, at least 1: no more are drawn
 * @param[out]    out    numbers of other workers, caller-allocated; untouched on failure
 * @param[out]    count  how many; untouched on failure
 * @return HTC_OK; HTC_AGAIN if there is nobody else; HTC_EINVAL if a pointer is NULL, self is out of range or cap is 0
 *
 * Cost: O(count) expected, whatever n is.   Since: 0.2
 */
HTC_API htc_status htc_steal_whom_to_nudge(htc_rng *rng, uint32_t n, uint32_t self, uint32_t cap, uint32_t *out,
                                           uint32_t *count);

/**
 * The rule called "one", "two", "log2", "sqrt" or "half".
 *
 * @param[in]  name  borrowed
 * @param[out] rule  htc_steal_rule; untouched on failure
 * @return HTC_OK; HTC_EINVAL if a pointer is NULL; HTC_ENOTFOUND
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_steal_rule_from_name(const char *name, uint32_t *rule);

/** What is to be decided by a policy: see htc_steal_policy. */
typedef struct htc_steal_options htc_steal_options;

/** What a thief knows when its policy is asked. */
typedef struct htc_steal_view {
    const htc_steal_options *options;  /**< with the defaults filled in */
    uint32_t                 n;        /**< size of the group */
    uint32_t                 self;     /**< the thief's number */
    uint32_t                 failures; /**< rounds in a row that brought nothing */
} htc_steal_view;

/**
 * A way to steal. Fill one in, register it, and it can be chosen by name wherever a built-in one can. Its functions
 * keep to what the library itself keeps to: no clock, no state but rng and what ctx points to. Inside them
 * htc_steal_ask and htc_steal_settle of the same thief are HTC_EINVAL, and htc_steal_nudge does nothing.
 */
typedef struct htc_steal_policy {
    size_t      size; /**< sizeof(htc_steal_policy) */
    const char *name; /**< kept; as htc_registry_add wants it */
    void       *ctx;  /**< kept; handed to each of the functions; thieves that share a policy share it */
    /** Whom to ask: write at most cap distinct numbers below n other than self, the preferred first, and how many. An
     *  error ends the round before it began. Not NULL. */
    htc_status (*choose)(void *ctx, const htc_steal_view *view, htc_rng *rng, uint32_t cap, uint32_t *out,
                         uint32_t *count);
    /** How long to wait after a round that brought nothing, view->failures counting it; HTC_NEVER: until a nudge.
     *  NULL: doubling up to the ceiling. */
    htc_ns (*wait)(void *ctx, const htc_steal_view *view);
    /** How many of the waiting tasks a victim with idle slots gives away. NULL: htc_steal_amount by options->amount. */
    uint64_t (*amount)(void *ctx, const htc_steal_options *options, uint64_t waiting, uint64_t idle);
    /** A round is over: what it brought, and from whom, as htc_steal_settle was told. view->failures counts it already;
     *  wait is called afterwards, if the round brought nothing. NULL: the policy does not learn. */
    void (*settled)(void *ctx, const htc_steal_view *view, uint32_t victim, uint64_t got);
} htc_steal_policy;

/** How a group steals. Every field's zero is its default; the built-in policies say which fields they look at. */
struct htc_steal_options {
    size_t                  size;         /**< sizeof(htc_steal_options) */
    const htc_steal_policy *policy;       /**< kept; NULL: "random" */
    htc_ns                  poll_ns;      /**< the first wait; 0: 1 ms */
    htc_ns                  poll_ns_max;  /**< the ceiling: no wait is longer; 0: 50 s */
    uint32_t                at_ceiling;   /**< htc_steal_ceiling */
    uint32_t                neighbours;   /**< how many to ask; 0: as degree says */
    uint32_t                degree;       /**< htc_steal_rule for neighbours; 0: HTC_STEAL_SQRT */
    uint32_t                amount;       /**< htc_steal_rule for tasks; 0: HTC_STEAL_HALF */
    uint32_t                near_workers; /**< "near": workers of one group of near ones; 0: the square root of n */
    uint32_t                hops;         /**< "mesh-2d", "mesh-3d"; 0: as few as give that many far from all ends */
    htc_steal_shape         shape;        /**< "mesh-2d", "mesh-3d"; x = 0: as square as can be */
};

/** What a thief does whose next wait would be longer than poll_ns_max. */
typedef enum htc_steal_ceiling {
    HTC_STEAL_STOP = 0, /**< it asks nobody until it is nudged: idle workers do not choke the end of a run */
    HTC_STEAL_GO_ON     /**< it goes on at the ceiling: for groups where a nudge may be lost */
} htc_steal_ceiling;

/** htc_steal_settle: no worker was robbed in this round. */
#define HTC_STEAL_NOBODY UINT32_MAX

/** Options with every default. */
#define HTC_STEAL_OPTIONS_INIT { sizeof(htc_steal_options), NULL, 0, 0, 0, 0, 0, 0, 0, 0, { 0, 0, 0, 0 } }

/**
 * Fill in every default, for languages that cannot use HTC_STEAL_OPTIONS_INIT.
 *
 * @param[out] options  NULL is fine
 * @param[in]  size     sizeof *options as the caller was built: no more than this is written; 0: nothing
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API void htc_steal_options_init(htc_steal_options *options, size_t size);

/**
 * Add a policy under its name.
 *
 * Built-in, added by htc_registry_add_builtin, all with doubling waits:
 *
 *     random              neighbours drawn anew each round; as many as options say
 *     one two log2 sqrt   the same with that many, whatever options say
 *     static              the nearest numbers, always the same
 *     mesh-2d mesh-3d     all within some hops, nearest first
 *     near                drawn from a group of near workers first, after each failure at once from one as many times
 *                         larger, and when all were in question with doubling waits
 *
 * @param[in,out] registry  as it was on failure
 * @param[in]     policy    kept: outlives the registry
 * @return HTC_OK; HTC_EINVAL if a pointer or choose is NULL, or the name is not one; HTC_EABI if the policy is newer
 *         than this library; HTC_EEXISTS; HTC_EFULL; HTC_ENOMEM
 *
 * Cost: as htc_registry_add.   Since: 0.2
 */
HTC_API htc_status htc_steal_register(htc_registry *registry, const htc_steal_policy *policy);

/**
 * Find a policy by its name.
 *
 * @param[in]  registry  borrowed
 * @param[in]  name      borrowed
 * @param[out] policy    what was registered; untouched on failure
 * @return HTC_OK; HTC_EINVAL if a pointer is NULL; HTC_ENOTFOUND
 *
 * Cost: as htc_registry_find.   Since: 0.2
 */
HTC_API htc_status htc_steal_find(const htc_registry *registry, const char *name, const htc_steal_policy **policy);

/** One worker as a thief. The caller keeps it, may copy it, and changes it through the functions below alone. */
typedef struct htc_steal_thief {
    htc_ns   due_ns;   /**< when the next round may begin, on the caller's clock */
    uint32_t n;        /**< size of the group */
    uint32_t self;     /**< the worker's number */
    uint32_t failures; /**< rounds in a row that brought nothing */
    uint32_t round;    /**< 0: none is under way; 1: one is; 2: one is, and a nudge came meanwhile; from 4 on: its policy
                            is being asked */
} htc_steal_thief;

/**
 * Make a thief, at the start and when the group has changed. Its first round may begin at once.
 *
 * @param[in]  n      size of the group, at least 1; alone, a thief finds nobody to ask
 * @param[in]  self   its number, below n
 * @param[in]  now    the caller's clock
 * @param[out] thief  filled in; untouched on failure
 * @return HTC_OK; HTC_EINVAL if thief is NULL or a number is out of range
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_steal_start(uint32_t n, uint32_t self, htc_ns now, htc_steal_thief *thief);

/**
 * When the next round may begin, should the worker be idle then.
 *
 * @param[in] thief  borrowed; NULL is fine
 * @return a moment of the caller's clock; HTC_NEVER during a round, at rest until a nudge, and for NULL
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_ns htc_steal_due(const htc_steal_thief *thief);

/**
 * Begin a round: whom to ask for their load, all at once.
 *
 * Call it when both ready queues are empty and a slot is idle. Send all the questions before waiting for the first
 * answer, or a round takes as many round trips as there are neighbours.
 *
 * @param[in,out] thief    after HTC_OK a round is under way; else as it was, but that with nobody to ask it rests
 * @param[in]     options  borrowed; NULL: every default
 * @param[in]     now      the caller's clock
 * @param[in,out] rng      the worker's own stream
 * @param[in]     cap      room in out, at least 1
 * @param[out]    out      numbers of other workers, the preferred first; unspecified unless HTC_OK
 * @param[out]    count    how many; untouched unless HTC_OK
 * @return HTC_OK; HTC_AGAIN if it is not due, a round is under way, or there is nobody to ask (it rests until a nudge);
 *         HTC_EINVAL if a pointer is NULL, cap is 0, the thief's policy is being asked, options do not fit each other or the group, or the policy answered
 *         something out of range, or a status above 0; HTC_EABI; what the policy's choose answers
 *
 * Cost: what choose costs; the built-in ones O(neighbours) expected.   Since: 0.2
 */
HTC_API htc_status htc_steal_ask(htc_steal_thief *thief, const htc_steal_options *options, htc_ns now, htc_rng *rng,
                                 uint32_t cap, uint32_t *out, uint32_t *count);

/**
 * End a round: what it brought, and so when the next may begin.
 *
 * After success at once; after failures poll_ns, 2 * poll_ns, 4 * poll_ns, ... and at the ceiling as at_ceiling says;
 * after a nudge during the round at once. Tasks are counted when they are the thief's, never when they are asked for:
 * tasks on the way belong to the victim until then, or a transfer that fails loses them.
 *
 * @param[in,out] thief    as it was on failure
 * @param[in]     options  borrowed; NULL: every default
 * @param[in]     now      the caller's clock
 * @param[in]     victim   the number of the worker that was robbed, not its place among those that were asked; or
 *                         HTC_STEAL_NOBODY
 * @param[in]     got      tasks that arrived; 0: nobody had any, or they did not arrive
 * @return HTC_OK; HTC_EINVAL if thief is NULL, options do not fit, no round is under way, or victim is no other worker of
 *         the group, or nobody although tasks arrived; HTC_EABI
 *
 * Cost: O(1), unless the policy has its own wait or settled.   Since: 0.2
 */
HTC_API htc_status htc_steal_settle(htc_steal_thief *thief, const htc_steal_options *options, htc_ns now, uint32_t victim,
                                    uint64_t got);

/**
 * There is work somewhere again: a resting thief may ask at once, and waits begin anew.
 *
 * @param[in,out] thief  as it was while its policy is being asked; NULL is fine
 * @param[in]     now    the caller's clock
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API void htc_steal_nudge(htc_steal_thief *thief, htc_ns now);

/**
 * The victim's side: how many tasks to give away under these options.
 *
 * @param[in]  options  borrowed; NULL: every default
 * @param[in]  waiting  tasks that may be stolen
 * @param[in]  idle     the victim's idle slots
 * @param[out] amount   0 to waiting, a policy that wants more is cut short; untouched on failure
 * @return HTC_OK; HTC_EINVAL if amount is NULL or options do not fit; HTC_EABI
 *
 * Cost: O(1), unless the policy has its own amount.   Since: 0.2
 */
HTC_API htc_status htc_steal_give(const htc_steal_options *options, uint64_t waiting, uint64_t idle, uint64_t *amount);

#ifdef __cplusplus
}
#endif
#endif
