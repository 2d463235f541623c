/**
 * @file htcsched/balance.h
 * @brief Where to look for free nodes: random stealing, and best fit in a tree that a monitor keeps filled.
 *
 * A job needs nodes of several partitions at once. Its controller takes what its own partition has and robs others for
 * the rest, by compare-and-swap of their records (htcsched/record.h), never by talking to their controllers. This
 * module says which partition is next, how long to wait, and when to give everything back, so that two half-satisfied
 * jobs do not wait for each other for ever. It takes nothing itself:
 *
 *     htc_balance_answer answer = HTC_BALANCE_ANSWER_INIT;
 *     while (htc_balance_step(request, now, &rng, &answer, &next) == HTC_OK && next.kind != HTC_BALANCE_DONE)
 *         switch (next.kind) {
 *         case HTC_BALANCE_TAKE:      take 1 to next.nodes nodes of next.partition; fill in answer
 *         case HTC_BALANCE_RELEASE:   give back all that was taken for this request
 *         case HTC_BALANCE_WAIT:      come back at next.until, or earlier and be told the same
 *         }
 *
 * Three parts, each a step function that never blocks: requests (Algorithms 5 and 8), which share one htc_balance for
 * each controller; its tree of free counts, pulled from the census (7); and the monitor that writes the census (6).
 * Where to look is a policy, found by name: "random" and "monitored", or one of your own.
 *
 * A controller has one htc_balance for each class of partitions that jobs ask for (with GPUs, without).
 *
 * Threads: owner; a balance and its requests belong to one thread.   Allocation: through env; steps allocate nothing
 * but what the tree grows by.   Source: doc/papers.md#balance, Algorithms 5 to 8.
 */
#ifndef HTCSCHED_BALANCE_H
#define HTCSCHED_BALANCE_H

#include "htcsched/env.h"
#include "htcsched/registry.h"

#ifdef __cplusplus
extern "C" {
#endif

/** At most this many partitions. */
#define HTC_BALANCE_PARTITIONS_MAX (UINT32_C(1) << 20)
/** A partition has at most this many free nodes. */
#define HTC_BALANCE_FREE_MAX (UINT32_C(1) << 20)
/** As a number of free nodes: not known. */
#define HTC_BALANCE_UNKNOWN UINT32_MAX
/** As an own partition: there is none. */
#define HTC_BALANCE_NONE UINT32_MAX

/* ---- The tree: best fit among free counts ---- */

/** Partitions by their count of free nodes. */
typedef struct htc_balance_tree htc_balance_tree;

/**
 * Create an empty tree.
 *
 * @param[in]  env         kept; NULL: malloc
 * @param[in]  partitions  they are numbered 0 .. partitions - 1; 1 to HTC_BALANCE_PARTITIONS_MAX
 * @param[out] out         gives the tree: htc_balance_tree_destroy
 * @return HTC_OK; HTC_EINVAL; HTC_ENOMEM
 *
 * Cost: O(partitions): 12 bytes each, and 4 for each possible count up to the largest seen.   Since: 0.2
 */
HTC_API htc_status htc_balance_tree_create(const htc_env *env, uint32_t partitions, htc_balance_tree **out);

/**
 * Free a tree.
 *
 * @param[in] tree  NULL is fine
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API void htc_balance_tree_destroy(htc_balance_tree *tree);

/**
 * Put a partition in, or change its count (insert). The count that it has already changes nothing.
 *
 * @param[in,out] tree       as it was on failure
 * @param[in]     partition  its number
 * @param[in]     free       its free nodes, 0 to HTC_BALANCE_FREE_MAX
 * @return HTC_OK; HTC_EINVAL; HTC_ENOMEM if the count is the largest ever and there is no memory for it
 *
 * Cost: O(1), amortised growth.   Since: 0.2
 */
HTC_API htc_status htc_balance_tree_set(htc_balance_tree *tree, uint32_t partition, uint32_t free);

/**
 * Take a partition out (delete).
 *
 * @param[in,out] tree       see htc_balance_tree_create
 * @param[in]     partition  its number
 * @return HTC_OK; HTC_ENOTFOUND if it is not in the tree; HTC_EINVAL
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_balance_tree_remove(htc_balance_tree *tree, uint32_t partition);

/**
 * Take all out (delete_all).
 *
 * @param[in,out] tree  NULL is fine
 *
 * Cost: O(partitions + largest count / 64).   Since: 0.2
 */
HTC_API void htc_balance_tree_clear(htc_balance_tree *tree);

/**
 * The best partition (search_best): of those with at least `need` free nodes the one with the fewest; if there is none,
 * the one with the most. Of equals the one whose count was set first. It stays in the tree.
 *
 * @param[in]  tree       borrowed
 * @param[in]  need       nodes that are missing, at least 1
 * @param[out] partition  its number; untouched on failure
 * @param[out] free       its count, at least 1; untouched on failure; may be NULL
 * @return HTC_OK; HTC_AGAIN if no partition in the tree has a free node; HTC_EINVAL
 *
 * Cost: O(1): at most four words of each direction; 65,536 partitions: below 300 ns.   Since: 0.2
 */
HTC_API htc_status htc_balance_tree_best(const htc_balance_tree *tree, uint64_t need, uint32_t *partition,
                                         uint32_t *free);

/**
 * The count of a partition (search_exact).
 *
 * @param[in]  tree       borrowed
 * @param[in]  partition  its number
 * @param[out] free       its count; untouched on failure; may be NULL
 * @return HTC_OK; HTC_ENOTFOUND if it is not in the tree; HTC_EINVAL
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_balance_tree_get(const htc_balance_tree *tree, uint32_t partition, uint32_t *free);

/**
 * How many partitions are in a tree.
 *
 * @param[in] tree  borrowed
 * @return their count; 0 if tree is NULL
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API uint32_t htc_balance_tree_count(const htc_balance_tree *tree);

/* ---- Policies: where to look ---- */

typedef struct htc_balance_policy htc_balance_policy;

/** How a controller looks for nodes. Zero is the default of every field but partitions and own. */
typedef struct htc_balance_options {
    size_t                    size;        /**< sizeof(htc_balance_options) */
    const htc_balance_policy *policy;      /**< kept; NULL: "monitored" */
    uint32_t                  partitions;  /**< 1 to HTC_BALANCE_PARTITIONS_MAX */
    uint32_t                  own;         /**< the controller's own partition, or HTC_BALANCE_NONE */
    const uint32_t           *near;        /**< near_count distinct partitions, robbed before distant ones; copied */
    uint32_t                  near_count;  /**< 0: all are equally near */
    uint32_t                  tries;       /**< fruitless tries in a row before all is given back; 0: the policy's */
    htc_ns                    wait_ns;     /**< the first wait, doubled from one to the next; 0: 1 ms */
    htc_ns                    wait_ns_max; /**< no wait is longer; 0: 100 ms, or wait_ns if that is more */
    htc_ns                    pull_ns;     /**< pause between two pulls of the census; 0: 100 ms */
} htc_balance_options;

/** Options with their size set and all else zero. */
#define HTC_BALANCE_OPTIONS_INIT                                                                                       \
    {                                                                                                                  \
        sizeof(htc_balance_options), 0, 0, 0, 0, 0, 0, 0, 0, 0                                                         \
    }

/**
 * HTC_BALANCE_OPTIONS_INIT as a function.
 *
 * @param[out] options  caller-allocated; NULL is fine
 * @param[in]  size     sizeof *options as the caller was built: no more than this is written; 0: nothing
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API void htc_balance_options_init(htc_balance_options *options, size_t size);

/** What a policy knows when it is asked where to look. */
typedef struct htc_balance_view {
    uint64_t missing;    /**< nodes the request still needs, at least 1 */
    uint64_t taken;      /**< nodes it holds */
    uint32_t partitions; /**< as in the options */
    uint32_t own;        /**< as in the options; it has been asked already in this round */
    uint32_t fruitless;  /**< tries in a row that brought nothing */
    uint32_t tries;      /**< so many are the end of the round */
} htc_balance_view;

/**
 * Where to look for free nodes. One state for each htc_balance, shared by its requests. While one of its functions is
 * called, every call that would change the balance or its requests is HTC_EINVAL; htc_balance_end and
 * htc_balance_destroy do nothing.
 */
struct htc_balance_policy {
    size_t      size;  /**< sizeof(htc_balance_policy) */
    const char *name;  /**< kept; as htc_registry_add wants it; NULL is fine for a policy that is in no registry */
    void       *ctx;   /**< kept; handed to open, and where there is no open to the others as their state */
    uint32_t    tries; /**< the default of htc_balance_options; at least 1 */
    uint32_t    waits; /**< 1: wait after each fruitless try (Algorithm 5); 0: only when all was given back (Algorithm 8) */
    /** Create the state for these options, which are checked, complete, and borrowed. NULL: ctx is the state of all. */
    htc_status (*open)(void *ctx, const htc_env *env, const htc_balance_options *options, void **state);
    /** Free the state. NULL is fine if open is. */
    void (*close)(void *state);
    /** The partition to try next; HTC_AGAIN if none is known to have a free node. Any other answer ends the step. */
    htc_status (*pick)(void *state, const htc_balance_view *view, htc_rng *rng, uint32_t *partition);
    /** What is known of a partition now: its free nodes, or HTC_BALANCE_UNKNOWN. Every pick is followed by one. NULL:
     * it is not interested. */
    void (*learn)(void *state, uint32_t partition, uint32_t free);
    /** A new census: n counts, HTC_BALANCE_UNKNOWN among them. NULL: it needs none. */
    htc_status (*pull)(void *state, const uint32_t *free, uint32_t n, htc_rng *rng);
    /** Write the state, or read it into one that was opened with the same options. NULL: there is no htc_balance_tape with this policy. */
    htc_status (*tape)(void *state, const htc_tape *tape);
};

/**
 * Add a policy under its name.
 *
 * @param[in,out] registry  as it was on failure
 * @param[in]     policy    kept: outlives the registry
 * @return HTC_OK; HTC_EINVAL if a pointer, pick or tries is missing, or the name is not one; HTC_EABI if the policy is
 * newer than this library; HTC_EEXISTS; HTC_EFULL; HTC_ENOMEM
 *
 * Cost: O(entries).   Since: 0.2
 */
HTC_API htc_status htc_balance_register(htc_registry *registry, const htc_balance_policy *policy);

/**
 * Find a policy by its name; htc_registry_add_builtin adds "random" and "monitored".
 *
 * @param[in]  registry  borrowed
 * @param[in]  name      borrowed
 * @param[out] policy    what was registered; untouched on failure
 * @return HTC_OK; HTC_EINVAL if a pointer is NULL; HTC_ENOTFOUND
 *
 * Cost: O(log entries).   Since: 0.2
 */
HTC_API htc_status htc_balance_find(const htc_registry *registry, const char *name, const htc_balance_policy **policy);

/* ---- A controller's knowledge ---- */

/** What one controller knows of its partitions. */
typedef struct htc_balance htc_balance;

/**
 * Create what a controller knows: nothing yet.
 *
 * @param[in]  env      kept; NULL: malloc
 * @param[in]  options  borrowed
 * @param[out] out      gives it: htc_balance_destroy
 * @return HTC_OK; HTC_EINVAL; HTC_EABI; HTC_ENOMEM; what the policy's open answers
 *
 * Cost: O(partitions).   Since: 0.2
 */
HTC_API htc_status htc_balance_create(const htc_env *env, const htc_balance_options *options, htc_balance **out);

/**
 * Free it. Its requests are freed before.
 *
 * @param[in] balance  NULL is fine
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API void htc_balance_destroy(htc_balance *balance);

/**
 * Tell what a record said: after a release, a taking for somebody else, any compare-and-swap, also one that failed.
 *
 * @param[in,out] balance    see htc_balance_create
 * @param[in]     partition  its number
 * @param[in]     free       its free nodes, or HTC_BALANCE_UNKNOWN if it cannot be read
 * @return HTC_OK; HTC_EINVAL
 *
 * Cost: O(1) with the policies here.   Since: 0.2
 */
HTC_API htc_status htc_balance_learn(htc_balance *balance, uint32_t partition, uint32_t free);

/**
 * Macro-tuning (Algorithm 7): all entries out, those of the census in. Partitions that a request of this controller is
 * trying right now come back with what it finds instead.
 *
 * @param[in,out] balance  as it was on failure
 * @param[in]     now      the caller's clock; the next pull is due pull_ns later
 * @param[in,out] rng      two controllers with different streams prefer different ones among equal partitions
 * @param[in]     census   what stands under the monitor's key; borrowed; anything may stand there. Partitions that are
 *                         not in it are unknown, those beyond the options' are ignored
 * @return HTC_OK; HTC_EINVAL; HTC_ECORRUPT; HTC_EVERSION; HTC_EUNSUPPORTED if the policy needs no census; HTC_ENOMEM; what
 *         else the policy's pull answers
 *
 * Cost: O(partitions).   Since: 0.2
 */
HTC_API htc_status htc_balance_pull(htc_balance *balance, htc_ns now, htc_rng *rng, htc_bytes census);

/**
 * When the next pull is due: at once after creation, then pull_ns after each.
 *
 * @param[in] balance  borrowed
 * @return a moment of the caller's clock; HTC_NEVER if the policy needs no census, or balance is NULL
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_ns htc_balance_pull_due(const htc_balance *balance);

/**
 * Write what a controller knows, or read it into one that was created with the same options. Its requests have tapes of their own.
 *
 * @param[in,out] balance  read: as it was if the first piece is not of these options; on any later failure good for htc_balance_destroy alone
 * @param[in]     tape     borrowed
 * @return HTC_OK; HTC_EINVAL; HTC_EUNSUPPORTED: its policy cannot; HTC_EFORMAT: what is read is not of these options; HTC_ECORRUPT; what the tape or
 *         the policy answers; HTC_EABI; HTC_ENOMEM
 *
 * Cost: "monitored": 13 bytes a partition and 4 for each count up to the largest one; "random": 24 bytes.   Since: 0.2
 */
HTC_API htc_status htc_balance_tape(htc_balance *balance, const htc_tape *tape);

/* ---- Requests: one job's nodes ---- */

/** What is to be done next. */
typedef enum htc_balance_kind {
    HTC_BALANCE_TAKE = 1, /**< take 1 to `nodes` nodes of `partition`, as many as there are; then step with an answer */
    HTC_BALANCE_RELEASE,  /**< give back all that was taken for this request; then step */
    HTC_BALANCE_WAIT,     /**< nothing before `until`; a step before is harmless */
    HTC_BALANCE_DONE,     /**< the request has all its nodes */
    HTC_BALANCE_LOOK,     /**< monitor: read the record of `partition`; then step with its free nodes */
    HTC_BALANCE_PUBLISH   /**< monitor: write `body` under the census's key; then step */
} htc_balance_kind;

/** One thing to do. */
typedef struct htc_balance_action {
    uint32_t  kind;      /**< htc_balance_kind */
    uint32_t  partition; /**< take, look */
    uint32_t  nodes;     /**< take: at most so many, at least 1 */
    htc_ns    until;     /**< wait: a moment of the caller's clock */
    htc_bytes body;      /**< publish; lent until the next htc_balance_monitor_step or destroy */
} htc_balance_action;

/** How the last action went. Only take and look have an answer; it is ignored after any other. */
typedef struct htc_balance_answer {
    uint32_t taken; /**< take: nodes taken, 0 to the action's nodes */
    uint32_t free;  /**< what the record says is free now (after the taking), or HTC_BALANCE_UNKNOWN */
} htc_balance_answer;

/** An answer that says nothing. */
#define HTC_BALANCE_ANSWER_INIT                                                                                        \
    {                                                                                                                  \
        0, HTC_BALANCE_UNKNOWN                                                                                         \
    }

/** One job's search for nodes. */
typedef struct htc_balance_request htc_balance_request;

/** How far a request has come: for whoever asks why a job waits. */
typedef struct htc_balance_progress {
    uint64_t need;      /**< nodes asked for */
    uint64_t taken;     /**< nodes held */
    uint64_t steals;    /**< tries at other partitions so far, fruitful or not */
    uint32_t fruitless; /**< the last of them that brought nothing, in a row */
    uint32_t rounds;    /**< ended without enough, so that all was given back */
} htc_balance_progress;

/**
 * Begin to look for nodes for a job. One that needs more than the machine has is never done: refuse it, or end it when
 * its progress shows enough rounds.
 *
 * @param[in,out] balance  keeps the request's balance: outlives the request
 * @param[in]     need     nodes, 1 to 2^40
 * @param[out]    out      gives the request: htc_balance_end
 * @return HTC_OK; HTC_EINVAL; HTC_ENOMEM
 *
 * Cost: one allocation.   Since: 0.2
 */
HTC_API htc_status htc_balance_begin(htc_balance *balance, uint64_t need, htc_balance_request **out);

/**
 * End a request: it is done, or given up. What it holds is the caller's to keep or to give back.
 *
 * @param[in] request  NULL is fine; in the middle of a taking too
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API void htc_balance_end(htc_balance_request *request);

/**
 * The next thing to do (Algorithm 5 or 8): own partition first, then where the policy says, min(missing, free) each. A
 * number of fruitless tries in a row is the end of a round: all is given back, and after a wait it begins anew. So is, with a policy whose waits
 * is 0, that no partition is known to have a free node: such a request holds nothing while it waits. Waits
 * double from one to the next; each is drawn from the upper half of what it may be. A success resets the tries and the
 * waits between them, not those between rounds.
 *
 * A conflict, a compare-and-swap that met another value, is no answer: try again at once with the value returned, until
 * nodes were taken or none is free.
 *
 * @param[in,out] request  as it was on failure; after one of the policy's the answer has been taken in
 * @param[in]     now      the caller's clock, which never runs backwards
 * @param[in,out] rng      stream to draw from
 * @param[in]     answer   how the last action went; borrowed; may be NULL if that was no take
 * @param[out]    action   what to do next; untouched on failure
 * @return HTC_OK; HTC_EINVAL if a pointer is NULL or the answer cannot be; what the policy's pick answers
 *
 * Cost: O(1) with the policies here.   Since: 0.2
 */
HTC_API htc_status htc_balance_step(htc_balance_request *request, htc_ns now, htc_rng *rng,
                                    const htc_balance_answer *answer, htc_balance_action *action);

/**
 * How far a request has come.
 *
 * @param[in]  request   borrowed
 * @param[out] progress  caller-allocated; untouched on failure
 * @return HTC_OK; HTC_EINVAL if a pointer is NULL
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_balance_progress_of(const htc_balance_request *request, htc_balance_progress *progress);

/**
 * Write how far a request is, or read it into one of the same balance.
 *
 * @param[in,out] request  as it was on failure
 * @param[in]     tape     borrowed
 * @return HTC_OK; HTC_EINVAL; HTC_ECORRUPT; what the tape answers; HTC_EABI
 *
 * Cost: 90 bytes.   Since: 0.2
 */
HTC_API htc_status htc_balance_request_tape(htc_balance_request *request, const htc_tape *tape);

/**
 * A pause that grows: the n-th is drawn from the upper half of first_ns * 2^n, at most max_ns.
 *
 * @param[in]     first_ns  the first pause
 * @param[in]     max_ns    no pause is longer
 * @param[in]     n         which pause, from 0
 * @param[in,out] rng       stream to draw from; NULL: the longest that could be drawn
 * @return nanoseconds
 *
 * Cost: O(log(max_ns / first_ns)).   Since: 0.2
 */
HTC_API htc_ns htc_balance_pause(htc_ns first_ns, htc_ns max_ns, uint32_t n, htc_rng *rng);

/* ---- The monitor ---- */

/** The monitoring service (Algorithm 6). One controller runs it at a time; who, a lease decides. */
typedef struct htc_balance_monitor htc_balance_monitor;

/**
 * Create a monitor.
 *
 * @param[in]  env          kept; NULL: malloc
 * @param[in]  partitions   1 to HTC_BALANCE_PARTITIONS_MAX
 * @param[in]  interval_ns  pause between the end of a census and the beginning of the next; 0: 100 ms
 * @param[out] out          gives it: htc_balance_monitor_destroy
 * @return HTC_OK; HTC_EINVAL; HTC_ENOMEM
 *
 * Cost: O(partitions): 8 bytes each.   Since: 0.2
 */
HTC_API htc_status htc_balance_monitor_create(const htc_env *env, uint32_t partitions, htc_ns interval_ns,
                                              htc_balance_monitor **out);

/**
 * Free a monitor.
 *
 * @param[in] monitor  NULL is fine
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API void htc_balance_monitor_destroy(htc_balance_monitor *monitor);

/**
 * The next thing to do: look at each record in turn, publish the census, wait, and again.
 *
 * @param[in,out] monitor  as it was on failure
 * @param[in]     now      the caller's clock
 * @param[in]     answer   its `free` is what the record looked at says; may be NULL if the last action was no look
 * @param[out]    action   look, publish or wait; untouched on failure
 * @return HTC_OK; HTC_EINVAL if a pointer is NULL or the answer cannot be
 *
 * Cost: O(1); the step that answers publish O(partitions).   Since: 0.2
 */
HTC_API htc_status htc_balance_monitor_step(htc_balance_monitor *monitor, htc_ns now, const htc_balance_answer *answer,
                                            htc_balance_action *action);

/**
 * Write where a monitor is, or read it into one of as many partitions. What it has published is the caller's to keep.
 *
 * @param[in,out] monitor  read: as it was if the first piece is not of as many partitions; on a later failure good for htc_balance_monitor_destroy alone
 * @param[in]     tape     borrowed
 * @return HTC_OK; HTC_EINVAL; HTC_EFORMAT; HTC_ECORRUPT; what the tape answers; HTC_EABI
 *
 * Cost: 4 bytes a partition.   Since: 0.2
 */
HTC_API htc_status htc_balance_monitor_tape(htc_balance_monitor *monitor, const htc_tape *tape);

/* ---- Why random stealing fails ---- */

/**
 * The chance that a second full-scale job fails at every step while the first completes: the product of held[i] /
 * nodes.
 *
 * @param[in]  held   nodes that the first job holds after step i, each at most nodes
 * @param[in]  steps  how many steps
 * @param[in]  nodes  of the whole machine, at least 1
 * @param[out] p      0 to 1; 1 for no steps; untouched on failure
 * @return HTC_OK; HTC_EINVAL
 *
 * Cost: O(steps).   Since: 0.2
 */
HTC_API htc_status htc_balance_blocked(const uint64_t *held, size_t steps, uint64_t nodes, double *p);

#ifdef __cplusplus
}
#endif
#endif
