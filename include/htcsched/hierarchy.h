/**
 * @file htcsched/hierarchy.h
 * @brief A grid execution hierarchy: jobs of unknown size on several grids, short ones answered fast all the same.
 *
 * Grids are ordered from small and responsive (level 1) to large and slow. Each level has one or more queues, each queue one or more
 * grids. A job enters at the top with an upper bound of its complexity, estimated for a while if need be, and sinks for one of five
 * reasons: the queue is overloaded, the job is too complex for it, it is overdue, it will be overdue, or the queue will be. Queues of
 * one level share load. Nothing ever moves up. The object decides and remembers; the caller runs tasks, estimators and transfers:
 *
 *     htc_hierarchy_arrive     what to do with a new job (ProcessNewTask)      -> estimate, queue, migrate or reject
 *     htc_hierarchy_bound      the estimator has a better bound                -> the same
 *     htc_hierarchy_enforce    every queue's limits (EnforceQueueLimits)       -> who has to leave, and why
 *     htc_hierarchy_moved      the job has been handed over: it arrives        -> as htc_hierarchy_arrive
 *     htc_hierarchy_stay       the target would not take it: it stays
 *
 * A *job* is what a user submitted (the paper's task); a *task* is what runs on one CPU (the paper's job). Complexity is in thousands of
 * operations, KFlop; 0 is "not known". Queues, grids and jobs are numbers: the first two index the arrays of the options, the third is
 * the caller's own. Moments are the caller's clock: one that runs backwards counts as standing still.
 *
 * Threads: owner.   Allocation: through env, about 300 bytes a job, at most jobs_max jobs and tasks_max running tasks; only what
 * says HTC_ENOMEM needs memory, and then the object is as it was.   Source: doc/papers.md#hierarchy, "Scheduling Mixed Workloads in
 * Multi-grids: The Grid Execution Hierarchy" (HPDC 2006).
 */
#ifndef HTCSCHED_HIERARCHY_H
#define HTCSCHED_HIERARCHY_H

#include "htcsched/env.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A hierarchy has at most this many queues. */
#define HTC_HIERARCHY_QUEUES_MAX 256
/** A hierarchy has at most this many grids. */
#define HTC_HIERARCHY_GRIDS_MAX 64
/** No queue: the next of those on the lowest level. */
#define HTC_HIERARCHY_NOWHERE UINT32_MAX
/** The free CPUs of a grid that does not answer. */
#define HTC_HIERARCHY_UNREACHABLE UINT32_MAX
/** Time limits and elapsed times are at most this, about a hundred years. */
#define HTC_HIERARCHY_TIME_MAX (UINT64_C(1) << 61)
/** Complexities are at most this many KFlop. */
#define HTC_HIERARCHY_KFLOP_MAX 1e30
/** jobs_max and tasks_max are at most this. */
#define HTC_HIERARCHY_ENTRIES_MAX ((size_t)1 << 28)

/** Why a job has to go. The first five are the paper's; policies is a set of bits 1 << reason of those. */
typedef enum htc_hierarchy_reason {
    HTC_HIERARCHY_NO_REASON = 0,
    HTC_HIERARCHY_OVERLOAD = 1,        /**< the queue held more than C_q when the job arrived */
    HTC_HIERARCHY_MISMATCH = 2,        /**< complexity mismatch: more than C_e, or no bound at all, when its estimation ended */
    HTC_HIERARCHY_OVERDUE = 3,         /**< longer than T_q in the queue, or than T_e in execution */
    HTC_HIERARCHY_JOB_POTENTIAL = 4,   /**< *task potential overdue*: it cannot be done within T_e or T_q */
    HTC_HIERARCHY_QUEUE_POTENTIAL = 5, /**< with this job and those before it the queue holds more than C_q */
    HTC_HIERARCHY_SHARE = 6,           /**< a queue of the same level would be done with it sooner */
    HTC_HIERARCHY_SENT = 7             /**< htc_hierarchy_send */
} htc_hierarchy_reason;

/** How many reasons there are, HTC_HIERARCHY_NO_REASON among them. */
#define HTC_HIERARCHY_REASONS 8
/** policies: every reason of the paper that would apply is switched off. */
#define HTC_HIERARCHY_NO_POLICY UINT32_C(1)

/** What to do with a job. */
typedef enum htc_hierarchy_action {
    HTC_HIERARCHY_QUEUE = 1, /**< it is in the queue: run its tasks when its turn comes */
    HTC_HIERARCHY_ESTIMATE,  /**< run its estimator until `until` on `cpus` CPUs, tell each bound */
    HTC_HIERARCHY_MIGRATE,   /**< stop it if it runs, hand it over to `to`, then htc_hierarchy_moved (or _stay, or _remove if
                                  another process is its owner now) */
    HTC_HIERARCHY_REJECT,    /**< it never ran and no level takes it; it is forgotten already */
    HTC_HIERARCHY_TERMINATE, /**< stop it, keep its partial results, then htc_hierarchy_remove */
    HTC_HIERARCHY_STAY       /**< it stays where it is: the move did not pay any longer, or would be upwards now */
} htc_hierarchy_action;

/** Where a job is in its life, as far as the hierarchy knows it. */
typedef enum htc_hierarchy_state {
    HTC_HIERARCHY_ESTIMATING = 1, /**< its estimator runs; it is not in the queue yet */
    HTC_HIERARCHY_QUEUED,         /**< none of its tasks has started here */
    HTC_HIERARCHY_RUNNING,        /**< one of its tasks has: t_e counts */
    HTC_HIERARCHY_LEAVING         /**< told to migrate or to end; still here until the caller says so */
} htc_hierarchy_state;

/** Algorithm: the paper's, or one of its ablations. */
typedef enum htc_hierarchy_mode {
    HTC_HIERARCHY_FULL = 0,  /**< all of it */
    HTC_HIERARCHY_SIMPLE = 1 /**< time limits alone (section 3.2.1): no estimation, no overload, no potential overdue */
} htc_hierarchy_mode;

/** Where a job that has to go goes. */
typedef enum htc_hierarchy_migrate {
    HTC_HIERARCHY_NEXT = 0,  /**< one level down, where a larger budget tightens its bound */
    HTC_HIERARCHY_DIRECT = 1 /**< the first queue downwards whose C_e holds its bound */
} htc_hierarchy_migrate;

/** Who balances the queues of one level. */
typedef enum htc_hierarchy_sharing {
    HTC_HIERARCHY_PUSH = 0,    /**< htc_hierarchy_share */
    HTC_HIERARCHY_FLOCK = 1,   /**< nobody: each queue has an ordered list of grids */
    HTC_HIERARCHY_EXTERNAL = 2 /**< a meta-scheduler behind the grids */
} htc_hierarchy_sharing;

/** Does the only job of a queue have to leave? */
typedef enum htc_hierarchy_sole {
    HTC_HIERARCHY_SOLE_OVERDUE = 0, /**< not for being overdue, until another job comes */
    HTC_HIERARCHY_SOLE_ALL = 1,     /**< not for any reason */
    HTC_HIERARCHY_SOLE_NONE = 2     /**< like any other */
} htc_hierarchy_sole;

/** flags of a queue. */
typedef enum htc_hierarchy_flag {
    HTC_HIERARCHY_REJECTS = 1, /**< an overloaded queue rejects jobs instead of passing them down */
    HTC_HIERARCHY_PREDICT = 2, /**< phi counts the CPUs that are to be had now (free by htc_hierarchy_sample, and our own), not all N */
    HTC_HIERARCHY_FREEZE = 4,  /**< while no grid of the level can be reached, t_q and t_e stand still */
    HTC_HIERARCHY_REMOTE = 8   /**< another process has this queue; its load is told by htc_hierarchy_peer */
} htc_hierarchy_flag;

/** One grid: a pool of CPUs with a scheduler of its own. What differs among its CPUs so that it matters to jobs makes two grids. */
typedef struct htc_hierarchy_grid {
    uint32_t cpus;        /**< CPUs that it has for us, at least 1 */
    uint32_t tasks_max;   /**< of these at most so many run tasks of one queue; 0: all */
    uint32_t memory_mb;   /**< of a CPU */
    uint32_t reserved;    /**< 0 */
    uint64_t features;    /**< what else a CPU offers, a bit each */
    htc_ns   latency_ns;  /**< from handing a task in to its start, at most HTC_HIERARCHY_TIME_MAX; 0: not known */
    uint64_t bytes_per_s; /**< inputs and programs get there at this rate; 0: at once */
} htc_hierarchy_grid;

/** One queue. Limits are C_e = phi(T_e) and C_q = phi(T_q), with phi(T) = T * N * P * beta. */
typedef struct htc_hierarchy_queue {
    uint32_t        level;      /**< from 1, the highest; no level without a queue */
    uint32_t        next;       /**< the queue below, on a lower level; HTC_HIERARCHY_NOWHERE on the lowest level and there alone */
    const uint32_t *grids;      /**< its grids, tried in this order; copied */
    size_t          grid_count; /**< at least 1 */
    htc_ns          te_ns;      /**< T_e, at least 1 */
    htc_ns          tq_ns;      /**< T_q, at least T_e, at most HTC_HIERARCHY_TIME_MAX */
    uint32_t        cpus;       /**< N: CPUs for one job, at least 1 */
    uint32_t        job_cpus;   /**< N as it counts for C_e and for a job's potential overdue, at most cpus; 0: cpus */
    double          kflops;     /**< P: KFlop a second of one CPU, above 0, at most 1e15 */
    double          beta;       /**< efficiency of the application on one CPU, at most 1; 0: 1 */
    double          alpha;      /**< part of T_e spent on estimating, below 1; 0: 0.06 */
    uint32_t        policies;   /**< bits 1 << reason that apply, or HTC_HIERARCHY_NO_POLICY; 0: all, but on the lowest level without
                                     the two potential ones */
    uint32_t        flags;      /**< htc_hierarchy_flag */
    htc_ns          period_ns;  /**< of htc_hierarchy_enforce; 0: T_e / 60, at least 1 s, at most 300 s */
    double          te_factor;  /**< htc_hierarchy_plan: T_e is so many times the latency one level down; 0: what te_ns and that
                                     latency are at the start, 10 if it is not known */
} htc_hierarchy_queue;

/** All of a hierarchy. */
typedef struct htc_hierarchy_options {
    size_t                     size;            /**< sizeof(htc_hierarchy_options) */
    const htc_hierarchy_grid  *grids;           /**< copied */
    size_t                     grid_count;      /**< 1 to HTC_HIERARCHY_GRIDS_MAX */
    const htc_hierarchy_queue *queues;          /**< copied; jobs enter at the first of level 1 */
    size_t                     queue_count;     /**< 1 to HTC_HIERARCHY_QUEUES_MAX */
    size_t                     jobs_max;        /**< jobs held at once; 0: 2^20 */
    size_t                     tasks_max;       /**< running tasks known at once; 0: 2^20 */
    uint32_t                   mode;            /**< htc_hierarchy_mode */
    uint32_t                   migrate;         /**< htc_hierarchy_migrate */
    uint32_t                   sharing;         /**< htc_hierarchy_sharing */
    uint32_t                   sole;            /**< htc_hierarchy_sole */
    htc_ns                     share_period_ns; /**< of htc_hierarchy_share; 0: 60 s */
    double                     share_lambda;    /**< weight of the latest sample, at most 1; 0: 0.3 */
    double                     share_margin;    /**< a move must pay by this part, at most 1000; 0: 0.2 */
    htc_ns                     share_gain_ns;   /**< ... and by this time; 0: 30 s */
    htc_ns                     share_hold_ns;   /**< a job that came back is not pushed again for so long; 0: 5 min */
    htc_ns                     share_cost_ns;   /**< of a move, besides the transfer of the job's bytes */
    uint32_t                   share_moves_max; /**< of one job on one level; 0: 2 */
    uint32_t                   adapt;           /**< 1: htc_hierarchy_adapt applies what it proposes */
    double                     adapt_ratio;     /**< limits that differ by less are as good; 0: 0.25 */
    htc_ns                     adapt_after_ns;  /**< they have to differ for so long; 0: one day */
} htc_hierarchy_options;

/** Options with all defaults; grids and queues are still to be named. */
#define HTC_HIERARCHY_OPTIONS_INIT \
    { sizeof(htc_hierarchy_options), NULL, 0, NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/** One job as it comes. */
typedef struct htc_hierarchy_job {
    size_t   size;      /**< sizeof(htc_hierarchy_job) */
    uint64_t id;        /**< the caller's number, no other job's */
    double   kflop;     /**< complexity of what is still to do, or an upper bound; 0: not known */
    uint64_t bytes;     /**< inputs and programs that travel with it */
    uint64_t features;  /**< what its tasks need, as in htc_hierarchy_grid */
    uint32_t memory_mb; /**< likewise */
    uint32_t tasks;     /**< how many tasks are still to run; 0: not split, as many as there are CPUs */
    uint32_t moves;     /**< sideways moves on this level so far */
    uint32_t returned;  /**< 1: a queue of this level has sent it back before; it is not sent back again */
    htc_ns   tq_ns;     /**< htc_hierarchy_restore: how long it has been in its queue */
    htc_ns   te_ns;     /**< htc_hierarchy_restore: how long it has been in execution; 0: not started */
} htc_hierarchy_job;

/** A hierarchy with its jobs. */
typedef struct htc_hierarchy htc_hierarchy;

/** What is decided about one job. */
typedef struct htc_hierarchy_decision {
    uint64_t id;     /**< the job */
    uint32_t action; /**< htc_hierarchy_action */
    uint32_t reason; /**< htc_hierarchy_reason; HTC_HIERARCHY_NO_REASON if it is queued or estimated */
    uint32_t from;   /**< the queue it is in */
    uint32_t to;     /**< HTC_HIERARCHY_MIGRATE: the queue it goes to; else HTC_HIERARCHY_NOWHERE */
    double   kflop;  /**< its complexity or bound, as known; 0: not known, or nothing is to do */
    double   limit;  /**< HTC_HIERARCHY_REJECT: the largest C_e there is; else C_e of `from` for this job */
    htc_ns   until;  /**< HTC_HIERARCHY_ESTIMATE: the end of its budget, alpha * T_e; else 0 */
    uint32_t cpus;   /**< HTC_HIERARCHY_ESTIMATE: CPUs to estimate on, 1 on level 1; else 0 */
    uint32_t state;  /**< htc_hierarchy_state it was in before; 0: new here */
} htc_hierarchy_decision;

/** What is known of one job. */
typedef struct htc_hierarchy_job_info {
    uint64_t id;        /**< its number */
    uint32_t state;     /**< htc_hierarchy_state */
    uint32_t queue;     /**< where it is */
    uint32_t to;        /**< HTC_HIERARCHY_LEAVING: where it is to go; else HTC_HIERARCHY_NOWHERE */
    uint32_t reason;    /**< HTC_HIERARCHY_LEAVING: htc_hierarchy_reason */
    double   kflop;     /**< of what is still to do, running tasks in full; 0: not known, or nothing is */
    double   remaining; /**< the same less the progress of running tasks (step 2a) */
    htc_ns   tq_ns;     /**< t_q */
    htc_ns   te_ns;     /**< t_e; 0 until its first task starts */
    uint32_t tasks;     /**< still to run, running ones included; 0: not split, or all are done */
    uint32_t running;   /**< tasks that run */
    uint32_t moves;     /**< sideways moves on this level */
    uint32_t returned;  /**< 1: a queue of this level has sent it back */
    uint32_t overstays; /**< 1: overdue, and here only because nobody else is */
    htc_ns   hold_ns;   /**< for so long it is not pushed again */
} htc_hierarchy_job_info;

/** What is known of one queue. */
typedef struct htc_hierarchy_queue_info {
    double   ce_kflop;    /**< C_e of a job without special needs */
    double   cq_kflop;    /**< C_q */
    double   load_kflop;  /**< Q: of the latest htc_hierarchy_enforce and of what was appended since */
    uint64_t jobs;        /**< in the queue, those that are leaving included */
    uint64_t estimating;  /**< beside them: being estimated, or refused here and not yet gone */
    uint64_t running;     /**< tasks that run */
    htc_ns   enforce_at;  /**< when htc_hierarchy_enforce is due: on its period, at once after a departure from the queue; HTC_NEVER
                               once it has found the queue empty */
    htc_ns   share_at;    /**< when htc_hierarchy_share is due; HTC_NEVER once it has found the queue empty, if there is none beside
                               it, or without push */
    uint64_t out[HTC_HIERARCHY_REASONS]; /**< jobs told to leave, by reason; taken back by htc_hierarchy_stay */
    uint64_t shared_in;   /**< jobs that came sideways */
    uint64_t busy_ns;     /**< CPU time of tasks that ended, lost ones included; at most HTC_NEVER, as is lost_ns */
    uint64_t lost_ns;     /**< of that, lost by evictions and migrations */
    uint64_t bad_bounds;  /**< bounds that rose, were none or came after the last task: ignored */
    uint32_t level;       /**< from 1 */
    uint32_t next;        /**< the queue below */
    htc_ns   te_ns;       /**< T_e */
    htc_ns   tq_ns;       /**< T_q */
    uint32_t cpus;        /**< N */
    uint32_t policies;    /**< bits 1 << reason */
    double   kflops;      /**< P */
} htc_hierarchy_queue_info;

/**
 * All defaults, for bindings.
 *
 * @param[out] options  every field its default; NULL is fine
 * @param[in]  size     sizeof *options as the caller was built: no more than this is written; 0: nothing
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API void htc_hierarchy_options_init(htc_hierarchy_options *options, size_t size);

/**
 * Create a hierarchy without jobs.
 *
 * @param[in]  env      kept; NULL: malloc
 * @param[in]  options  copied with what it points to
 * @param[out] out      gives the hierarchy: htc_hierarchy_destroy
 * @return HTC_OK; HTC_EINVAL if a number is out of range, T_q < T_e, a level has no queue, a queue no grid, a grid is not there, or
 *         next does not lead down; HTC_EABI; HTC_ENOMEM
 *
 * Cost: O(queues + grids).   Since: 0.2
 */
HTC_API htc_status htc_hierarchy_create(const htc_env *env, const htc_hierarchy_options *options, htc_hierarchy **out);

/** Free a hierarchy and forget its jobs. @param[in] hierarchy  NULL is fine. Cost: O(queues). Since: 0.2 */
HTC_API void htc_hierarchy_destroy(htc_hierarchy *hierarchy);

/**
 * phi(T) = T * N * P * beta: what N CPUs do in time T, optimistic on purpose (equation 1).
 *
 * @param[in] time_ns  T
 * @param[in] cpus     N
 * @param[in] kflops   P, KFlop a second of one CPU
 * @param[in] beta     efficiency, above 0, at most 1
 * @return KFlop; 0 if kflops or beta is not a number, not above 0 or infinite
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API double htc_hierarchy_phi(htc_ns time_ns, uint32_t cpus, double kflops, double beta);

/**
 * Where a job enters: the first queue of level 1, or the first below it with a CPU that meets the job's needs.
 *
 * @param[in]  hierarchy  borrowed
 * @param[in]  job        memory_mb and features are looked at
 * @param[out] queue      the queue; untouched on failure
 * @return HTC_OK; HTC_EINVAL; HTC_EABI; HTC_ENOFIT if no CPU on the way down meets them
 *
 * Cost: O(queues * grids).   Since: 0.2
 */
HTC_API htc_status htc_hierarchy_entry(const htc_hierarchy *hierarchy, const htc_hierarchy_job *job, uint32_t *queue);

/**
 * A job arrives at a queue: ProcessNewTask (figure 1).
 *
 *     1. Q > C_q                      overload: down, or reject; nothing is estimated
 *     2. C not known or C > C_e       estimate for alpha * T_e: htc_hierarchy_bound, htc_hierarchy_estimated
 *     3. C > C_e, or still not known  complexity mismatch: down, or reject on the lowest level
 *        else                         append
 *
 * Q does not count the job itself. One step down at a time, past queues where no CPU meets the job's needs.
 *
 * @param[in,out] hierarchy  as it was on failure
 * @param[in]     queue      where; htc_hierarchy_entry, or where another process sends it
 * @param[in]     job        copied
 * @param[in]     now        moment
 * @param[out]    out        HTC_HIERARCHY_QUEUE, _ESTIMATE, _MIGRATE or _REJECT; untouched on failure
 * @return HTC_OK; HTC_EINVAL; HTC_EABI; HTC_EEXISTS if the id is in use; HTC_ENOFIT if no CPU of the queue meets its needs;
 *         HTC_EFULL at jobs_max; HTC_ENOMEM
 *
 * Cost: O(1) amortised, O(grids) with needs.   Since: 0.2
 */
HTC_API htc_status htc_hierarchy_arrive(htc_hierarchy *hierarchy, uint32_t queue, const htc_hierarchy_job *job, htc_ns now,
                                        htc_hierarchy_decision *out);

/**
 * Put a job back into a queue as it was, after a restart: at the tail, no questions asked, with its t_q and t_e.
 *
 * @param[in,out] hierarchy  as it was on failure
 * @param[in]     queue      where it was; call in the order in which the jobs stood
 * @param[in]     job        copied
 * @param[in]     now        moment
 * @return as htc_hierarchy_arrive
 *
 * Cost: O(1) amortised.   Since: 0.2
 */
HTC_API htc_status htc_hierarchy_restore(htc_hierarchy *hierarchy, uint32_t queue, const htc_hierarchy_job *job, htc_ns now);

/**
 * An estimator has a bound. Bounds only fall: a higher one is ignored and counted, and so is any when all tasks are done.
 *
 * The estimation is over as soon as the bound is at most C_e. Bounds of jobs that are not being estimated count as well.
 *
 * @param[in,out] hierarchy  as it was on failure
 * @param[in]     id         the job
 * @param[in]     kflop      never below the true complexity of what is still to do; above 0
 * @param[in]     now        moment; from `until` on the budget is used up, this is the last bound
 * @param[out]    out        HTC_HIERARCHY_QUEUE, _ESTIMATE (go on), _MIGRATE or _REJECT; for a job that is leaving what was decided;
 *                           untouched on failure
 * @return HTC_OK; HTC_EINVAL if kflop is no such number (counted; the last good bound stands); HTC_ENOTFOUND
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_hierarchy_bound(htc_hierarchy *hierarchy, uint64_t id, double kflop, htc_ns now, htc_hierarchy_decision *out);

/**
 * An estimation is over: its budget is used up, its bound is as good as it gets, or its estimator failed.
 *
 * @param[in,out] hierarchy  as it was on failure
 * @param[in]     id         a job that is being estimated
 * @param[in]     now        moment
 * @param[out]    out        HTC_HIERARCHY_QUEUE, _MIGRATE or _REJECT; untouched on failure
 * @return HTC_OK; HTC_EINVAL if it is not being estimated; HTC_ENOTFOUND
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_hierarchy_estimated(htc_hierarchy *hierarchy, uint64_t id, htc_ns now, htc_hierarchy_decision *out);

/**
 * Who has to leave a queue: EnforceQueueLimits (figure 2), from head to tail.
 *
 *     1.  t_q > T_q or t_e > T_e                            overdue; the only job may overstay
 *     2a. C = what is still to do: running tasks less their elapsed time * P * beta, at most 95 % of each
 *     2b. C > phi(T_e - t_e) or C > phi(T_q - t_q)          job potential overdue
 *     2c. Q + C > C_q                                       queue potential overdue
 *         else Q = Q + C
 *
 * Jobs told to leave contribute nothing to Q, now and until they are gone or stay. On the lowest level they are terminated.
 *
 * @param[in,out] hierarchy  its Q is set
 * @param[in]     queue      not one that is remote
 * @param[in]     now        moment
 * @param[out]    out        lends the decisions until the next call of a function that takes the hierarchy and is not const; in the
 *                           order of the queue
 * @param[out]    n          how many
 * @return HTC_OK; HTC_EINVAL
 *
 * Cost: O(jobs of the queue + running tasks); needs no memory.   Since: 0.2
 */
HTC_API htc_status htc_hierarchy_enforce(htc_hierarchy *hierarchy, uint32_t queue, htc_ns now, const htc_hierarchy_decision **out,
                                         size_t *n);

/**
 * A job that was told to migrate has been handed over: it leaves its queue and arrives at the other.
 *
 * Its t_q and t_e begin anew, what its running tasks had done is lost, its bound stays. Then as htc_hierarchy_arrive. A job pushed
 * sideways is looked at with fresh data first: if the move does not pay any longer or the target is overloaded, the answer is
 * HTC_HIERARCHY_STAY, and the job is where it was, in its old place, with its times, and not pushed again for share_hold_ns; once a
 * level, the next time it is kept.
 *
 * @param[in,out] hierarchy  as it was on failure
 * @param[in]     id         a job whose decision was HTC_HIERARCHY_MIGRATE to a queue that is not remote
 * @param[in]     now        moment
 * @param[out]    out        as htc_hierarchy_arrive, or HTC_HIERARCHY_STAY; untouched on failure
 * @return HTC_OK; HTC_EINVAL if it is not to migrate, or to a remote queue (htc_hierarchy_remove); HTC_ENOTFOUND; HTC_ENOMEM
 *
 * Cost: O(1) amortised; a sideways move O(jobs of the queue).   Since: 0.2
 */
HTC_API htc_status htc_hierarchy_moved(htc_hierarchy *hierarchy, uint64_t id, htc_ns now, htc_hierarchy_decision *out);

/**
 * A job that was told to leave stays: its target is down or does not want it. The next scan sees it as before.
 *
 * @param[in,out] hierarchy  as it was on failure
 * @param[in]     id         a job that is leaving; one refused on arrival is appended
 * @param[in]     now        moment
 * @return HTC_OK; HTC_EINVAL if it is not leaving; HTC_ENOTFOUND
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_hierarchy_stay(htc_hierarchy *hierarchy, uint64_t id, htc_ns now);

/**
 * A job is gone: completed, failed, cancelled, terminated, or taken over by another process.
 *
 * @param[in,out] hierarchy  the queue that it was in is due for htc_hierarchy_enforce
 * @param[in]     id         any job
 * @param[in]     now        moment
 * @return HTC_OK; HTC_EINVAL if hierarchy is NULL; HTC_ENOTFOUND
 *
 * Cost: O(its running tasks).   Since: 0.2
 */
HTC_API htc_status htc_hierarchy_remove(htc_hierarchy *hierarchy, uint64_t id, htc_ns now);

/**
 * Send a job to another queue because somebody says so: never upwards.
 *
 * @param[in,out] hierarchy  as it was on failure
 * @param[in]     id         a job that is not leaving
 * @param[in]     queue      on its level or below, with a CPU for it
 * @param[in]     now        moment
 * @param[out]    out        HTC_HIERARCHY_MIGRATE; untouched on failure
 * @return HTC_OK; HTC_EINVAL; HTC_ENOTFOUND; HTC_ENOFIT
 *
 * Cost: O(grids).   Since: 0.2
 */
HTC_API htc_status htc_hierarchy_send(htc_hierarchy *hierarchy, uint64_t id, uint32_t queue, htc_ns now, htc_hierarchy_decision *out);

/** CPUs for one job. */
typedef struct htc_hierarchy_grant {
    uint64_t id;   /**< the job */
    uint32_t cpus; /**< start so many of its tasks */
} htc_hierarchy_grant;

/**
 * Who gets free CPUs of a grid: first come, first served, each at most N; a later job gets what the earlier ones cannot use. With the
 * tasks of this queue that run there never more than the grid's tasks_max.
 *
 * @param[in]  hierarchy  borrowed; nothing is reserved: tell htc_hierarchy_task_started
 * @param[in]  queue      whose jobs
 * @param[in]  grid       one of the queue's
 * @param[in]  cpus       free ones
 * @param[out] out        max grants, caller-allocated
 * @param[in]  max        room for so many
 * @param[out] n          how many there are
 * @return HTC_OK; HTC_EINVAL
 *
 * Cost: O(jobs walked past until nothing is left).   Since: 0.2
 */
HTC_API htc_status htc_hierarchy_dispatch(const htc_hierarchy *hierarchy, uint32_t queue, uint32_t grid, uint32_t cpus,
                                          htc_hierarchy_grant *out, size_t max, size_t *n);

/** One task of a job. */
typedef struct htc_hierarchy_task {
    size_t   size;      /**< sizeof(htc_hierarchy_task) */
    uint64_t id;        /**< its job */
    uint32_t task;      /**< its number in the job */
    uint32_t grid;      /**< where it runs */
    double   kflop;     /**< its part of the job's complexity; 0: not known */
    htc_ns   waited_ns; /**< htc_hierarchy_task_started: from handing it in to its start; 0: not known */
} htc_hierarchy_task;

/**
 * A task has started on a grid. The first one starts t_e.
 *
 * @param[in,out] hierarchy  as it was on failure
 * @param[in]     task       borrowed
 * @param[in]     now        moment
 * @return HTC_OK; HTC_EINVAL if the grid is not one of the queue's, the job is not in a queue, or all its tasks run already;
 *         HTC_EABI; HTC_ENOTFOUND; HTC_EEXISTS if it runs; HTC_EFULL at tasks_max; HTC_ENOMEM
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_hierarchy_task_started(htc_hierarchy *hierarchy, const htc_hierarchy_task *task, htc_ns now);

/**
 * A task is done: its complexity is no longer to do. A second report finds nothing and changes nothing.
 *
 * @param[in,out] hierarchy  as it was on failure
 * @param[in]     id         its job
 * @param[in]     task       its number
 * @param[in]     now        moment
 * @return HTC_OK; HTC_EINVAL if hierarchy is NULL; HTC_ENOTFOUND if it does not run
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_hierarchy_task_done(htc_hierarchy *hierarchy, uint64_t id, uint32_t task, htc_ns now);

/**
 * A task was evicted or its worker lost: what it did is lost, it is to be done again, t_e goes on.
 *
 * @param[in,out] hierarchy  as it was on failure
 * @param[in]     id         its job
 * @param[in]     task       its number
 * @param[in]     now        moment
 * @return as htc_hierarchy_task_done
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_hierarchy_task_lost(htc_hierarchy *hierarchy, uint64_t id, uint32_t task, htc_ns now);

/**
 * A job was split into tasks, or split again.
 *
 * @param[in,out] hierarchy  as it was on failure
 * @param[in]     id         the job
 * @param[in]     tasks      how many are still to run, at least those that run; 0: as many as there are CPUs
 * @return HTC_OK; HTC_EINVAL; HTC_ENOTFOUND
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_hierarchy_split(htc_hierarchy *hierarchy, uint64_t id, uint32_t tasks);

/**
 * What is known of a job.
 *
 * @param[in]  hierarchy  borrowed
 * @param[in]  id         the job
 * @param[in]  now        moment
 * @param[out] out        untouched on failure
 * @return HTC_OK; HTC_EINVAL; HTC_ENOTFOUND
 *
 * Cost: O(its running tasks).   Since: 0.2
 */
HTC_API htc_status htc_hierarchy_get_job(const htc_hierarchy *hierarchy, uint64_t id, htc_ns now, htc_hierarchy_job_info *out);

/**
 * What is known of a queue.
 *
 * @param[in]  hierarchy  borrowed
 * @param[in]  queue      its number
 * @param[out] out        untouched on failure
 * @return HTC_OK; HTC_EINVAL
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_hierarchy_get_queue(const htc_hierarchy *hierarchy, uint32_t queue, htc_hierarchy_queue_info *out);

/**
 * The jobs of a queue in their order, a piece at a time.
 *
 * @param[in]     hierarchy  borrowed
 * @param[in]     queue      its number
 * @param[in,out] cursor     0 for the first piece; good until the hierarchy changes
 * @param[out]    ids        max ids, caller-allocated
 * @param[in]     max        room for so many
 * @return how many; 0: there are no more, or an argument is wrong
 *
 * Cost: O(max) amortised.   Since: 0.2
 */
HTC_API size_t htc_hierarchy_jobs(const htc_hierarchy *hierarchy, uint32_t queue, size_t *cursor, uint64_t *ids, size_t max);

/**
 * Switch a reason on or off for one queue.
 *
 * @param[in,out] hierarchy  as it was on failure
 * @param[in]     queue      its number
 * @param[in]     reason     one of the paper's five
 * @param[in]     on         1 or 0
 * @return HTC_OK; HTC_EINVAL
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_hierarchy_policy(htc_hierarchy *hierarchy, uint32_t queue, uint32_t reason, uint32_t on);

/**
 * The next moment at which htc_hierarchy_enforce or htc_hierarchy_share of some queue is due.
 *
 * @param[in] hierarchy  NULL: HTC_NEVER
 * @return a moment; the budgets of estimators (`until`) are not among them
 *
 * Cost: O(queues).   Since: 0.2
 */
HTC_API htc_ns htc_hierarchy_deadline(const htc_hierarchy *hierarchy);

/**
 * A grid was looked at: avail = lambda * free + (1 - lambda) * avail, the first sample as it is.
 *
 * @param[in,out] hierarchy  as it was on failure
 * @param[in]     grid       its number
 * @param[in]     free_cpus  for us, or HTC_HIERARCHY_UNREACHABLE: counts as 0
 * @param[in]     cpus       how many it has for us in all, busy or not; 0: not known
 * @param[in]     now        moment
 * @return HTC_OK; HTC_EINVAL
 *
 * Cost: O(queues * grids).   Since: 0.2
 */
HTC_API htc_status htc_hierarchy_sample(htc_hierarchy *hierarchy, uint32_t grid, uint32_t free_cpus, uint32_t cpus, htc_ns now);

/**
 * The load of a remote queue, as its process says.
 *
 * @param[in,out] hierarchy   as it was on failure
 * @param[in]     queue       a remote one
 * @param[in]     load_kflop  its Q, 0 or more
 * @return HTC_OK; HTC_EINVAL
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_hierarchy_peer(htc_hierarchy *hierarchy, uint32_t queue, double load_kflop);

/**
 * When a job would be done in a queue, in seconds from now (section 3.3).
 *
 *     ECT(j, g) = lat_g + (Q_g before j + C_j) / (max(1, min(avail_g + held by us, N_g, tasks of j)) * P_g * beta)
 *
 * C_j is what is still to do, elsewhere without the progress of its running tasks, which a move loses. Q_g before j is what stands in front
 * of it where it is, all of Q elsewhere. Of several grids the free CPUs add up, and lat_g is that of the first with a free CPU, else of the
 * first.
 *
 * @param[in]  hierarchy  borrowed
 * @param[in]  id         a job
 * @param[in]  queue      where
 * @param[in]  now        moment
 * @param[out] seconds    untouched on failure
 * @return HTC_OK; HTC_EINVAL; HTC_ENOTFOUND; HTC_ENOFIT
 *
 * Cost: O(jobs of its queue).   Since: 0.2
 */
HTC_API htc_status htc_hierarchy_expected(const htc_hierarchy *hierarchy, uint64_t id, uint32_t queue, htc_ns now, double *seconds);

/**
 * Which jobs of a queue would be done sooner beside it: pushes to the best queue of the same level.
 *
 * A job is pushed if ECT(here) > (1 + margin) * (ECT(there) + cost), at least share_gain_ns is gained and its C is at most C_e there.
 * Against flapping: samples are averaged; each further move has to pay by the margin once more; no job with fewer than max(4, 10 % of
 * its tasks) pending ones moves; share_moves_max a level; share_hold_ns after a refused move; each push counts as load at once.
 *
 * @param[in,out] hierarchy  the jobs are leaving
 * @param[in]     queue      from which; not a remote one
 * @param[in]     now        moment
 * @param[out]    out        lends the decisions until the next call of a function that takes the hierarchy and is not const; in the
 *                           order of the queue
 * @param[out]    n          how many
 * @return HTC_OK; HTC_EINVAL
 *
 * Cost: O(jobs * queues of the level + running tasks); needs no memory.   Since: 0.2
 */
HTC_API htc_status htc_hierarchy_share(htc_hierarchy *hierarchy, uint32_t queue, htc_ns now, const htc_hierarchy_decision **out,
                                       size_t *n);

/**
 * Another process pushes a job sideways to a queue of ours.
 *
 * @param[in,out] hierarchy    as it was on failure
 * @param[in]     queue        ours
 * @param[in]     job          copied
 * @param[in]     home         its queue, a remote one of the same level
 * @param[in]     ahead_kflop  what stands in front of it there
 * @param[in]     now          moment
 * @param[out]    out          as htc_hierarchy_moved: HTC_HIERARCHY_STAY refuses it, it is not ours; untouched on failure
 * @return as htc_hierarchy_arrive
 *
 * Cost: O(1) amortised.   Since: 0.2
 */
HTC_API htc_status htc_hierarchy_offer(htc_hierarchy *hierarchy, uint32_t queue, const htc_hierarchy_job *job, uint32_t home,
                                       double ahead_kflop, htc_ns now, htc_hierarchy_decision *out);

/** What a grid is like, measured by htc_hierarchy_task_… and htc_hierarchy_sample; until then as configured. */
typedef struct htc_hierarchy_grid_info {
    double   latency_s;   /**< from handing a task in to its start, averaged over about the last twenty */
    double   cpus;        /**< CPUs for us, averaged */
    double   free_cpus;   /**< avail: free ones, averaged */
    double   kflops;      /**< KFlop a second of a task, averaged over about the last twenty; 0: none done yet */
    double   lost_per_h;  /**< evictions in an hour of CPU time */
    uint32_t unreachable; /**< 1: the latest sample did not find it */
} htc_hierarchy_grid_info;

/**
 * What a grid is like.
 *
 * @param[in]  hierarchy  borrowed
 * @param[in]  grid       its number
 * @param[out] out        untouched on failure
 * @return HTC_OK; HTC_EINVAL
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_hierarchy_get_grid(const htc_hierarchy *hierarchy, uint32_t grid, htc_hierarchy_grid_info *out);

/** A queue as it should be, by what was measured. */
typedef struct htc_hierarchy_proposal {
    uint32_t queue;  /**< its number */
    uint32_t level;  /**< from 1 */
    uint32_t next;   /**< the queue below */
    uint32_t cpus;   /**< N */
    htc_ns   te_ns;  /**< T_e */
    htc_ns   tq_ns;  /**< T_q */
    double   kflops; /**< P */
    double   change; /**< the largest relative change of a number against what is in force; 1 or more if level or next changes */
} htc_hierarchy_proposal;

/**
 * The order and the limits that the measurements call for (section 8, the paper's future work).
 *
 * Queues are sorted by the latency of their grids, then by size; two that differ by at most adapt_ratio keep their order, and so do two
 * of which one's latency is not known. The levels there are go to them in this order; who has to leads to the first queue of the level
 * below. T_e is te_factor times the latency of the next queue, in whole minutes (below two: seconds), if that is known; on the lowest
 * level it is the longest there was. T_q keeps its ratio to T_e. N is what the grids have, P what their tasks reach.
 *
 * @param[in]  hierarchy  borrowed
 * @param[out] out        one for each queue, caller-allocated, by number
 * @param[in]  max        room for so many
 * @return HTC_OK; HTC_EINVAL, also if max is less than the number of queues
 *
 * Cost: O(queues^2).   Since: 0.2
 */
HTC_API htc_status htc_hierarchy_plan(const htc_hierarchy *hierarchy, htc_hierarchy_proposal *out, size_t max);

/**
 * Compare what is in force with htc_hierarchy_plan; call it now and then.
 *
 * Once a queue has differed by more than adapt_ratio for adapt_after_ns, the plan is proposed, and with `adapt` it is in force when
 * this returns.
 *
 * @param[in,out] hierarchy  its own order and limits, if adapt is 1
 * @param[in]     now        moment
 * @param[out]    out        lends the proposals of all queues until the next call of a function that takes the hierarchy and is not const
 * @param[out]    n          how many; 0: all is well, or not yet for long enough
 * @return HTC_OK; HTC_EINVAL
 *
 * Cost: O(queues^2), and O(jobs * grids) when applied; needs no memory.   Since: 0.2
 */
HTC_API htc_status htc_hierarchy_adapt(htc_hierarchy *hierarchy, htc_ns now, const htc_hierarchy_proposal **out, size_t *n);

/**
 * Change the hierarchy while it runs: other levels, limits, grids, more of each. No job is lost and none moves.
 *
 * Queues and grids keep their numbers and measurements; new ones come behind. Jobs stay in their queues, wherever these are now; the next
 * htc_hierarchy_enforce looks at the new limits.
 *
 * @param[in,out] hierarchy  as it was on failure
 * @param[in]     options    copied; at least as many queues and grids as there are; jobs_max and tasks_max not below what is in use
 * @param[in]     now        moment
 * @return HTC_OK; as htc_hierarchy_create
 *
 * Cost: O(jobs * grids).   Since: 0.2
 */
HTC_API htc_status htc_hierarchy_reorder(htc_hierarchy *hierarchy, const htc_hierarchy_options *options, htc_ns now);

/**
 * Write the state, or read it into a hierarchy that was created with the same options: it goes on from there.
 *
 * @param[in,out] hierarchy  read: as it was if the first piece is not of these options; on any later failure good for htc_hierarchy_destroy alone
 * @param[in]     tape       borrowed
 * @return HTC_OK; HTC_EINVAL; HTC_EFORMAT: what is read is not of these options; HTC_ECORRUPT; what the tape answers; HTC_EABI; HTC_ENOMEM
 *
 * Cost: some 250 bytes for each job, and 80 for each task, that there was ever room for.   Since: 0.2
 */
HTC_API htc_status htc_hierarchy_tape(htc_hierarchy *hierarchy, const htc_tape *tape);

/* ---- estimators: anything that tells bounds; these two come along ---- */

/**
 * The bound that a modelled estimator has reached, for simulations: C * max(1, rho * 2^(-t / h)), h = 4 s * max(1, C / 60 CPU-s)^(1/4).
 *
 * @param[in] kflop    C, the true complexity; above 0
 * @param[in] kflops   P of the CPU it is estimated on
 * @param[in] rho      how far the first guess is above the truth (drawn once a job: lognormal, median 14, sigma 0.8)
 * @param[in] spent_s  t, CPU time spent on estimating so far
 * @return KFlop, never below C; 0 if an argument is not a number or out of range
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API double htc_hierarchy_synthetic(double kflop, double kflops, double rho, double spent_s);

/** Variables of an elimination at most. */
#define HTC_HIERARCHY_VARIABLES_MAX 4096

/** What is to be computed: the sum over all variables of a product of functions of some of them (equation 2). */
typedef struct htc_hierarchy_product {
    size_t          size;         /**< sizeof(htc_hierarchy_product) */
    const uint32_t *domains;      /**< how many values each variable has, at least 1 */
    size_t          variables;    /**< 1 to HTC_HIERARCHY_VARIABLES_MAX */
    const uint32_t *scopes;       /**< the variables of the first function, then those of the second, ... */
    const size_t   *scope_sizes;  /**< how many each function has */
    size_t          functions;    /**< how many functions */
} htc_hierarchy_product;

/** A search for a good order of elimination: its cost so far is an upper bound that only falls. */
typedef struct htc_hierarchy_order htc_hierarchy_order;

/**
 * Begin a search (section 4.2 of the paper; finding the best order is NP-complete).
 *
 * @param[in]  env      kept; NULL: malloc
 * @param[in]  product  borrowed
 * @param[out] out      gives the search: htc_hierarchy_order_destroy
 * @return HTC_OK; HTC_EINVAL if a domain is 0 or a variable is not there; HTC_EABI; HTC_ENOMEM
 *
 * Cost: O(variables^2 + scopes^2); about a quarter of a byte for each pair of variables.   Since: 0.2
 */
HTC_API htc_status htc_hierarchy_order_create(const htc_env *env, const htc_hierarchy_product *product, htc_hierarchy_order **out);

/** End a search. @param[in] order  NULL is fine. Cost: O(1). Since: 0.2 */
HTC_API void htc_hierarchy_order_destroy(htc_hierarchy_order *order);

/**
 * Search on: stochastic greedy. Each attempt eliminates one of the three cheapest variables after the other, with probability
 * proportional to 1 / cost, and is given up once it is dearer than the best order so far.
 *
 * Call it with a few attempts at a time and look at the clock in between: that is all there is to being interrupted. Searches with
 * streams of their own may run on many CPUs; htc_hierarchy_order_learn brings their results together.
 *
 * @param[in,out] order     the best order so far
 * @param[in,out] rng       stream to draw from
 * @param[in]     attempts  how many
 * @param[out]    kflop     the bound now; NULL is fine
 * @return HTC_OK; HTC_EINVAL
 *
 * Cost: O(variables^2) an attempt for sparse products, O(variables^3) at worst.   Since: 0.2
 */
HTC_API htc_status htc_hierarchy_order_improve(htc_hierarchy_order *order, htc_rng *rng, uint64_t attempts, double *kflop);

/**
 * Take over an order found elsewhere or earlier, if it is better: the state of a search is its best order.
 *
 * @param[in,out] order      as it was if the other is not better
 * @param[in]     variables  each variable once, in the order of elimination
 * @param[in]     n          how many
 * @param[out]    kflop      the bound now; NULL is fine
 * @return HTC_OK; HTC_EINVAL if it is no order of all variables
 *
 * Cost: as an attempt.   Since: 0.2
 */
HTC_API htc_status htc_hierarchy_order_learn(htc_hierarchy_order *order, const uint32_t *variables, size_t n, double *kflop);

/**
 * The best order so far.
 *
 * @param[in]  order  borrowed
 * @param[out] n      how many variables; 0 before the first attempt
 * @param[out] kflop  its cost: for each variable the product of the domains of it and its neighbours at that time, in thousands; 0
 *                    before the first attempt. NULL is fine
 * @return lends the variables until the next call of a function that takes this search and is not const; NULL if order or n is NULL
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API const uint32_t *htc_hierarchy_order_best(const htc_hierarchy_order *order, size_t *n, double *kflop);

#ifdef __cplusplus
}
#endif
#endif
