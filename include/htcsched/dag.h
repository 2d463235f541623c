/**
 * @file htcsched/dag.h
 * @brief Tasks that wait for tasks: what is ready, cycles, cancellation, critical path, a lower bound.
 *
 * Tasks are numbers below tasks_max; memory grows to the largest one named, so number them from 0. Tasks and edges are
 * added in any order, before and while others run: an edge may name a task that is added later, and holds back until
 * then what waits for it. Then htc_dag_take hands out what is ready and htc_dag_done frees what waited:
 *
 *     none -> named -> waiting <-> ready <-> running -> done        each but done may become cancelled
 *
 * Threads: owner.   Allocation: through env, about 32 bytes a task and 4 an edge, 16 while edges come in.
 * Source: doc/papers.md#dag, MATRIX, sections 2 to 4.
 */
#ifndef HTCSCHED_DAG_H
#define HTCSCHED_DAG_H

#include "htcsched/env.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Numbers of tasks are below this, whatever the options. */
#define HTC_DAG_TASKS_MAX (UINT32_C(1) << 30)
/** No more edges than this, whatever the options; duplicates count until they are found. */
#define HTC_DAG_EDGES_MAX (UINT32_C(1) << 28)

/** Where a task stands. */
typedef enum htc_dag_state {
    HTC_DAG_NONE = 0, /**< nobody has named it */
    HTC_DAG_NAMED,    /**< an edge names it, but it was not added yet */
    HTC_DAG_WAITING,  /**< for parents that are not done */
    HTC_DAG_READY,    /**< every parent is done */
    HTC_DAG_RUNNING,  /**< handed out by htc_dag_take */
    HTC_DAG_DONE,     /**< its result is there */
    HTC_DAG_CANCELLED /**< it will never run, nor will what depends on it */
} htc_dag_state;

/** Tasks that depend on one another. */
typedef struct htc_dag htc_dag;

/** Limits. Every field's zero is its default. */
typedef struct htc_dag_options {
    size_t   size;      /**< sizeof(htc_dag_options) */
    uint32_t tasks_max; /**< numbers of tasks are below it; 0: 2^24; at most HTC_DAG_TASKS_MAX */
    uint32_t edges_max; /**< 0: HTC_DAG_EDGES_MAX, and at most that */
} htc_dag_options;

/** Options with every default. */
#define HTC_DAG_OPTIONS_INIT { sizeof(htc_dag_options), 0, 0 }

/** How many tasks there are in each state. */
typedef struct htc_dag_counts {
    uint32_t named;     /**< HTC_DAG_NAMED: still to be added */
    uint32_t waiting;   /**< HTC_DAG_WAITING */
    uint32_t ready;     /**< HTC_DAG_READY */
    uint32_t running;   /**< HTC_DAG_RUNNING */
    uint32_t done;      /**< HTC_DAG_DONE */
    uint32_t cancelled; /**< HTC_DAG_CANCELLED */
} htc_dag_counts;

/**
 * Fill in every default, for languages that cannot use HTC_DAG_OPTIONS_INIT.
 *
 * @param[out] options  NULL is fine
 * @param[in]  size     sizeof *options as the caller was built: no more than this is written; 0: nothing
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API void htc_dag_options_init(htc_dag_options *options, size_t size);

/**
 * Create an empty graph.
 *
 * @param[in]  env      kept; NULL: malloc
 * @param[in]  options  borrowed; NULL: every default
 * @param[out] out      gives the graph: htc_dag_destroy; untouched on failure
 * @return HTC_OK; HTC_EINVAL if out is NULL or a limit is too large; HTC_EABI; HTC_ENOMEM
 *
 * Cost: one allocation.   Since: 0.2
 */
HTC_API htc_status htc_dag_create(const htc_env *env, const htc_dag_options *options, htc_dag **out);

/**
 * Free a graph.
 *
 * @param[in] dag  NULL is fine
 *
 * Cost: O(edges) at most.   Since: 0.2
 */
HTC_API void htc_dag_destroy(htc_dag *dag);

/**
 * Add a task. It is ready at once if it waits for nothing: give its edges first, or do not take before they are given.
 *
 * @param[in,out] dag   as it was on failure
 * @param[in]     task  its number
 * @return HTC_OK; HTC_EINVAL if dag is NULL; HTC_EEXISTS if it was added before; HTC_ECANCELLED if it is cancelled, be
 *         it for a task that it depends on; HTC_EFULL if the number is not below tasks_max; HTC_ENOMEM
 *
 * Cost: O(1) amortised.   Since: 0.2
 */
HTC_API htc_status htc_dag_add_task(htc_dag *dag, uint32_t task);

/**
 * Let child wait for parent. The same edge again changes nothing.
 *
 * A ready child waits again; a parent that is done holds nothing back. Cycles are not looked for here, but for the
 * shortest: see htc_dag_check.
 *
 * @param[in,out] dag     as it was on failure
 * @param[in]     parent  added or not
 * @param[in]     child   added or not; not yet taken
 * @return HTC_OK; HTC_EINVAL if dag is NULL, or the child is running or done; HTC_ECYCLE if both are the same;
 *         HTC_ECANCELLED if either is cancelled; HTC_EFULL beyond tasks_max or edges_max; HTC_ENOMEM
 *
 * Cost: O(1) amortised.   Since: 0.2
 */
HTC_API htc_status htc_dag_add_edge(htc_dag *dag, uint32_t parent, uint32_t child);

/**
 * Is it a graph that can be run to its end?
 *
 * @param[in,out] dag  edges are put in order on the way, which no other call can see
 * @param[in]     cap  room in out
 * @param[out]    out  what is wrong, its first cap numbers: a cycle, each task a parent of the next and the last of the
 *                     first, beginning with its smallest; or the tasks that edges name and nobody added; may be NULL
 *                     if cap is 0
 * @param[out]    n    how many numbers there would be, also beyond cap; may be NULL
 * @return HTC_OK, n 0; HTC_ECYCLE; HTC_ENOTFOUND if tasks are missing; HTC_EINVAL if dag is NULL, or out and cap is not
 *         0; HTC_ENOMEM. out and n are untouched by HTC_EINVAL and HTC_ENOMEM.
 *
 * Cost: O(tasks + edges), 4 bytes a task while it runs.   Since: 0.2
 */
HTC_API htc_status htc_dag_check(htc_dag *dag, uint32_t cap, uint32_t *out, uint32_t *n);

/**
 * Hand out a ready task, those first that have been ready longest.
 *
 * @param[in,out] dag   as it was on failure
 * @param[out]    task  now running; untouched unless HTC_OK
 * @return HTC_OK; HTC_AGAIN if none is ready; HTC_EINVAL if a pointer is NULL
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_dag_take(htc_dag *dag, uint32_t *task);

/**
 * Make a running task ready again, before all others: its attempt was lost.
 *
 * @param[in,out] dag   as it was on failure
 * @param[in]     task  running
 * @return HTC_OK; HTC_EINVAL if dag is NULL or the task is not running
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_dag_put_back(htc_dag *dag, uint32_t task);

/**
 * A task's result is there: children whose last parent it was become ready.
 *
 * Usually the task is running. One that is ready or waiting may be done as well: from a checkpoint, say.
 *
 * @param[in,out] dag   as it was on failure
 * @param[in]     task  ready, running or waiting
 * @return HTC_OK; HTC_EINVAL if dag is NULL or the task is none of these
 *
 * Cost: O(children); the first after many edges were added puts these in order, O(tasks + edges).   Since: 0.2
 */
HTC_API htc_status htc_dag_done(htc_dag *dag, uint32_t task);

/**
 * Told of each task that htc_dag_cancel cancels. It may not change the graph: calls that would are HTC_EINVAL.
 *
 * @param[in] ctx   as given
 * @param[in] task  its number
 * @param[in] was   htc_dag_state before: what was HTC_DAG_RUNNING is to be killed
 */
typedef void htc_dag_cancelled(void *ctx, uint32_t task, uint32_t was);

/**
 * Cancel a task and all that can no longer run because of it: its subtree. So too when it has failed for good.
 *
 * @param[in,out] dag   as it was on failure
 * @param[in]     task  named, waiting, ready or running
 * @param[in]     each  called for the task and then for each task that depends on it; NULL is fine
 * @param[in]     ctx   handed to each
 * @return HTC_OK; HTC_EINVAL if dag is NULL or the task is none of these
 *
 * Cost: O(tasks cancelled and their children). No memory is needed.   Since: 0.2
 */
HTC_API htc_status htc_dag_cancel(htc_dag *dag, uint32_t task, htc_dag_cancelled *each, void *ctx);

/**
 * Where a task stands.
 *
 * @param[in] dag   NULL is fine
 * @param[in] task  any number
 * @return htc_dag_state; HTC_DAG_NONE for a number nobody has named
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API uint32_t htc_dag_state_of(const htc_dag *dag, uint32_t task);

/**
 * How many tasks there are in each state.
 *
 * @param[in]  dag     borrowed
 * @param[out] counts  untouched on failure
 * @return HTC_OK; HTC_EINVAL if a pointer is NULL
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_dag_count(const htc_dag *dag, htc_dag_counts *counts);

/**
 * One more than the largest number named: what arrays that are indexed by task need.
 *
 * @param[in] dag  NULL is fine: 0
 * @return 0 to tasks_max
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API uint32_t htc_dag_size(const htc_dag *dag);

/**
 * How many distinct edges there are.
 *
 * @param[in,out] dag  edges are put in order on the way
 * @param[out]    n    untouched on failure
 * @return HTC_OK; HTC_EINVAL if a pointer is NULL; HTC_ENOMEM
 *
 * Cost: O(1); after edges were added, O(tasks + edges).   Since: 0.2
 */
HTC_API htc_status htc_dag_edges(htc_dag *dag, uint32_t *n);

/**
 * The tasks that wait, or waited, for a task.
 *
 * @param[in,out] dag       edges are put in order on the way
 * @param[in]     task      any number
 * @param[out]    children  lends them, each once, in the order their edges were added; untouched on failure
 * @param[out]    n         how many; untouched on failure
 * @return HTC_OK; HTC_EINVAL if a pointer is NULL; HTC_ENOMEM
 *
 * Cost: O(1); after edges were added, O(tasks + edges).   Since: 0.2
 */
HTC_API htc_status htc_dag_children(htc_dag *dag, uint32_t task, const uint32_t **children, uint32_t *n);

/**
 * For how many parents a task waits (num_wait_parent of the paper).
 *
 * @param[in,out] dag   edges are put in order on the way
 * @param[in]     task  any number
 * @param[out]    n     distinct parents that are not done; 0 for a task that is done or cancelled; untouched on failure
 * @return HTC_OK; HTC_EINVAL if a pointer is NULL; HTC_ENOMEM
 *
 * Cost: O(1); after edges were added, O(tasks + edges).   Since: 0.2
 */
HTC_API htc_status htc_dag_waits(htc_dag *dag, uint32_t task, uint32_t *n);

/**
 * The critical path: the chain of tasks whose lengths add up to most. No number of slots runs the graph in less.
 *
 *     left(v) = length(v) + max over children c of left(c);   total = max over v of left(v)
 *
 * Tasks that are cancelled do not count; give 0 as the length of those that are done and are not to count.
 *
 * @param[in,out] dag     edges are put in order on the way
 * @param[in]     tasks   entries of length and left, at least htc_dag_size
 * @param[in]     length  of each task, in ns
 * @param[in]     cap     room in path
 * @param[out]    left    left(v) for each task below htc_dag_size, 0 for numbers without one: the rank by which list
 *                        schedulers start tasks; may be NULL
 * @param[out]    path    its first cap tasks, in the order they run; of equal paths, through the smallest numbers; may
 *                        be NULL if cap is 0
 * @param[out]    n       how many tasks the path has, also beyond cap; may be NULL
 * @param[out]    total   its length in ns
 * @return HTC_OK; HTC_EINVAL if a pointer is NULL or there are too few entries; HTC_ECYCLE; HTC_ENOTFOUND if an edge
 *         names a task that was not added; HTC_ETOOBIG if a sum exceeds 2^64 - 1; HTC_ENOMEM. Outputs are untouched on
 *         failure.
 *
 * Cost: O(tasks + edges), 12 bytes a task while it runs.   Since: 0.2
 */
HTC_API htc_status htc_dag_critical_path(htc_dag *dag, size_t tasks, const htc_ns *length, uint32_t cap, htc_ns *left,
                                         uint32_t *path, uint32_t *n, htc_ns *total);

/** What htc_dag_bound knows about tasks and machines. Arrays are indexed by task and borrowed. */
typedef struct htc_dag_model {
    size_t          size;           /**< sizeof(htc_dag_model) */
    size_t          tasks;          /**< entries of each array, at least htc_dag_size */
    const htc_ns   *exec_ns;        /**< t_exec: how long a task runs */
    const uint64_t *bytes;          /**< d: the size of what it makes; NULL: nothing */
    const htc_ns   *wait_ns;        /**< t_q: how long it waits for a slot; NULL: (k - 1) l / 2 */
    uint64_t        tasks_per_slot; /**< k of that, where l is the mean of exec_ns; 0: 1 */
    uint64_t        bandwidth;      /**< B in bytes a second; 0: data takes no time */
    /** B(u, v) between where u and v run, in bytes a second; 0: never arrives. NULL: bandwidth for all. Calls that would
     *  change the graph, or measure it again, are HTC_EINVAL meanwhile, and htc_dag_destroy does nothing. */
    uint64_t (*between)(void *ctx, uint32_t u, uint32_t v);
    void  *ctx;     /**< handed to between */
    htc_ns move_ns; /**< C_move: sending a task to where a parent ran */
} htc_dag_model;

/** A model without data, waits and costs; exec_ns and tasks are still to be filled in. */
#define HTC_DAG_MODEL_INIT { sizeof(htc_dag_model), 0, NULL, NULL, NULL, 0, 0, NULL, NULL, 0 }

/**
 * Fill in a model without data, waits and costs, for languages that cannot use HTC_DAG_MODEL_INIT.
 *
 * @param[out] model  NULL is fine
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API void htc_dag_model_init(htc_dag_model *model);

/**
 * The lower bound of the makespan, by earliest finishing times (t_ef).
 *
 *     t_ef(v) = min(t', t'') + t_exec(v)
 *     t'(v)   = max over parents u of (t_ef(u) + d(u) / B(u, v)) + t_q(v)
 *     t''(v)  = min over parents u of max over parents w of (t_ef(w) + d(w) / B(w, u)) + t_q(v) + C_move
 *     bound   = max t_ef
 *
 * t' is for a node of its own, t'' for the one where u ran.
 *
 * Data of u takes no time to where u ran. Each transfer is rounded down to ns. A scheduler that knows everything and
 * looks back to the parents' nodes alone does no better. Sums end at HTC_NEVER. Cancelled tasks do not count.
 *
 * @param[in,out] dag     edges are put in order on the way
 * @param[in]     model   borrowed
 * @param[out]    finish  t_ef of each task below htc_dag_size, 0 for numbers without one; may be NULL
 * @param[out]    bound   in ns
 * @return HTC_OK; HTC_EINVAL if a pointer is NULL that may not be, or there are too few entries; HTC_ECYCLE;
 *         HTC_ENOTFOUND if an edge names a task that was not added; HTC_EABI; HTC_ENOMEM. Outputs are untouched on
 *         failure.
 *
 * Cost: O(tasks + edges), with between O(sum of parents^2); 12 bytes a task and 4 an edge while it runs.   Since: 0.2
 */
HTC_API htc_status htc_dag_bound(htc_dag *dag, const htc_dag_model *model, htc_ns *finish, htc_ns *bound);

/**
 * Write the state, or read it into a graph without tasks that was created with the same options: it goes on from there.
 *
 * @param[in,out] dag   read: as it was if the first piece is not of these options; on any later failure good for htc_dag_destroy alone
 * @param[in]     tape  borrowed
 * @return HTC_OK; HTC_EINVAL, also from inside a function that it calls, or if what is to be read into has tasks; HTC_EFORMAT: what is read is not of
 *         these options; HTC_ECORRUPT; what the tape answers; HTC_EABI; HTC_ENOMEM
 *
 * Cost: O(tasks + edges), 28 bytes a task and 4 an edge, or 12 while it is not in order.   Since: 0.2
 */
HTC_API htc_status htc_dag_tape(htc_dag *dag, const htc_tape *tape);

#ifdef __cplusplus
}
#endif
#endif
