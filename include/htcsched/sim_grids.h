/**
 * @file htcsched/sim_grids.h
 * @brief Several grids that nobody coordinates: the scale model of the grid execution hierarchy.
 *
 * Library htcsched-sim (`pkg-config --libs htcsched-sim`).
 *
 * Jobs of unknown size arrive, are estimated, queued, split into tasks, run, evicted, moved and ended on a hierarchy of grids (htcsched/hierarchy.h), or
 * on one of the three simpler systems that the paper compares it with. Each decision is a call of htc_hierarchy_arrive, _bound, _enforce, _share, _moved,
 * _dispatch and so on: the model has no policy of its own.
 *
 *     htc_sim_grids_profile *p = NULL;
 *     htc_sim_grids_report   report = { .size = sizeof report };
 *     htc_sim_grids_result   queue[4];
 *     if (htc_sim_grids_superlink(NULL, HTC_SIM_GRIDS_STREAM, &p) == HTC_OK) {
 *         htc_sim_grids_options *o = htc_sim_grids_profile_options(p);
 *         o->seed = 1;
 *         htc_sim_grids_run(NULL, o, &report, queue, NULL, NULL);
 *         printf("%.0f s in Q1 on average\n", queue[0].response_s);
 *         htc_sim_grids_profile_destroy(p);
 *     }
 *
 * `htc-sim grids` is this from the command line.
 *
 * As in htcsched/hierarchy.h a *job* is what a user submitted (the paper's task); a *task* is what runs on one CPU (the paper's job).
 *
 * What is simplified: a task holds its CPU from when it is handed to the grid, and t_e begins then; a job's tasks have equal complexity at each split, and their
 * lengths differ by the speeds of the CPUs; a grid has 1024 latencies and as many speeds, the quantiles of their laws; estimators take no CPUs; a sideways move
 * takes no time; while an outage lasts nothing starts, and what ran is lost.
 *
 * A job whose tasks are longer than any time without an eviction would never end: it fails after task_attempts.
 *
 * Threads: pure: runs share nothing.   Allocation: through env; given back when the run is over.   Source: doc/papers.md#hierarchy, "Scheduling Mixed
 * Workloads in Multi-grids: The Grid Execution Hierarchy" (HPDC 2006), sections 5 and 6.
 */
#ifndef HTCSCHED_SIM_GRIDS_H
#define HTCSCHED_SIM_GRIDS_H

#include "htcsched/hierarchy.h"
#include "htcsched/sim_scale.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A run has at most this many CPUs in all grids, */
#define HTC_SIM_GRIDS_CPUS_MAX (UINT64_C(1) << 24)
/** as many jobs in all, */
#define HTC_SIM_GRIDS_JOBS_MAX (UINT64_C(1) << 40)
/** as many at once, */
#define HTC_SIM_GRIDS_ACTIVE_MAX (UINT64_C(1) << 24)
/** and classes of jobs. */
#define HTC_SIM_GRIDS_CLASSES_MAX 256

/** Which system schedules (section 6.1, table 1). */
typedef enum htc_sim_grids_system {
    HTC_SIM_GRIDS_MQH = 0, /**< multilevel queues with the hierarchy: the paper's */
    HTC_SIM_GRIDS_MQ,      /**< the same queues and limits, each on all grids; a job of the lowest may have all CPUs */
    HTC_SIM_GRIDS_FCFSH,   /**< one list without limits and estimates; grids fill up level by level */
    HTC_SIM_GRIDS_FCFS     /**< one list; the grid with the most free CPUs first */
} htc_sim_grids_system;

/** How a grid behaves, beside its htc_hierarchy_grid. Every field's zero: nothing of the kind happens. */
typedef struct htc_sim_grids_grid {
    size_t        size;          /**< sizeof(htc_sim_grids_grid), of all of an array the same */
    double        kflops;        /**< KFlop a second of its mean CPU, above 0 */
    double        speed_cv;      /**< coefficient of variation of the CPUs' speeds (lognormal, a draw a task), at most 10 */
    htc_scale_law latency;       /**< from handing a task in to its start */
    double        evict_per_h;   /**< evictions in an hour of run time of a task */
    double        evict_part;    /**< besides: part of the tasks that are evicted, once, at a moment of their run that is uniform, at most 1 */
    double        free_mean;     /**< CPUs that we may have on average, at most all; 0: always all */
    double        free_cv;       /**< coefficient of variation of these over time (Ornstein-Uhlenbeck, in steps of free_ns / 20) */
    htc_ns        free_ns;       /**< its relaxation; at least 20 ticks if free_mean is given */
    htc_ns        outage_gap_ns; /**< from one outage to the next, on average (exponential); 0: there are none */
    htc_ns        outage_ns;     /**< how long one lasts */
} htc_sim_grids_grid;

/** flags of a htc_sim_grids_queue */
typedef enum htc_sim_grids_flag {
    HTC_SIM_GRIDS_WHOLE_BUDGET = 1, /**< estimators use all of their budget, though the bound is small enough */
    HTC_SIM_GRIDS_PREEMPTS = 2      /**< its tasks take CPUs from tasks of lower levels on the same grid */
} htc_sim_grids_flag;

/** How a queue splits and estimates, beside its htc_hierarchy_queue. */
typedef struct htc_sim_grids_queue {
    size_t   size;      /**< sizeof(htc_sim_grids_queue), of all of an array the same */
    htc_ns   target_ns; /**< a job is split until a task takes no longer on the queue's mean CPU; 0: it is not split */
    uint32_t flags;     /**< htc_sim_grids_flag */
    uint32_t reserved;  /**< 0 */
} htc_sim_grids_queue;

/** A job. */
typedef struct htc_sim_grids_job {
    size_t   size;    /**< sizeof(htc_sim_grids_job), of all of an array the same */
    htc_ns   arrival; /**< when it is submitted; not before that of the job before it in the array */
    double   kflop;   /**< C: its complexity, above 0, at most 1e24 */
    double   rho;     /**< the estimator's first bound is so many times C, at least 1; 0: C is known from the beginning */
    uint32_t tasks;   /**< it always has so many; 0: as the queue splits it */
    uint32_t kind;    /**< its class, below n_classes */
} htc_sim_grids_job;

/** A class of jobs; with a stream, what they are like. */
typedef struct htc_sim_grids_class {
    size_t   size;       /**< sizeof(htc_sim_grids_class), of all of an array the same */
    double   share;      /**< part of the jobs, relative to the other classes */
    double   kflop_min;  /**< C is log-uniform from here, above 0, */
    double   kflop_max;  /**< to here, at most 1e24 */
    double   rho_mean;   /**< rho is lognormal with this mean, and at least 1; 0: C is known */
    double   rho_cv;     /**< and this coefficient of variation, at most 10 */
} htc_sim_grids_class;

/** Jobs that are drawn as they arrive: bursts with geometric sizes. */
typedef struct htc_sim_grids_stream {
    uint64_t      jobs;      /**< in all; 0: there is no stream */
    double        burst;     /**< jobs of a burst on average, at least 1 */
    htc_scale_law gap;       /**< from one job of a burst to the next */
    htc_scale_law burst_gap; /**< from the last job of a burst to the first of the next */
} htc_sim_grids_stream;

/** What became of a job. */
typedef enum htc_sim_grids_fate {
    HTC_SIM_GRIDS_COMPLETED = 0,
    HTC_SIM_GRIDS_REJECTED,  /**< no level takes it */
    HTC_SIM_GRIDS_TERMINATED, /**< overdue on the lowest level, with partial results */
    HTC_SIM_GRIDS_FAILED     /**< its tasks were lost too often: task_attempts */
} htc_sim_grids_fate;

/** A job at its end. Times add up to ended - arrival. */
typedef struct htc_sim_grids_end {
    size_t   size;        /**< sizeof(htc_sim_grids_end) */
    uint64_t job;         /**< its number, in the order of arrival */
    uint32_t kind;        /**< its class */
    uint32_t fate;        /**< htc_sim_grids_fate */
    uint32_t queue;       /**< the last it was in */
    uint32_t moves;       /**< queue to queue */
    double   kflop;       /**< C */
    htc_ns   arrival;     /**< when it was submitted */
    htc_ns   ended;       /**< now */
    htc_ns   estimating;  /**< complexity estimation */
    htc_ns   queued;      /**< local queueing: none of its tasks has been handed in */
    htc_ns   grid_queued; /**< from handing in the first task until one starts */
    htc_ns   running;     /**< from there until the last task is done */
    htc_ns   moving;      /**< on its way to another queue */
    htc_ns   flow;        /**< flow control, after the last task */
    double   work_s;      /**< CPU time of tasks that were done */
    double   evicted_s;   /**< CPU time lost by evictions, preemptions and outages */
    double   moved_s;     /**< CPU time lost by moves, or by its termination or failure */
    uint64_t started;     /**< tasks that were handed in, in all queues */
    uint64_t evicted;     /**< of these */
    uint32_t tasks;       /**< that it was split into, where it ended */
    uint32_t reserved;    /**< 0 */
    double   cpus;        /**< CPUs that it had while it wanted more: mean over starts and ends of tasks; 0: it never wanted more */
} htc_sim_grids_end;

/** How things are at a moment. */
typedef struct htc_sim_grids_sample {
    size_t          size;    /**< sizeof(htc_sim_grids_sample) */
    htc_ns          at;      /**< virtual time */
    uint64_t        jobs;    /**< in the system */
    uint64_t        ended;   /**< jobs */
    const uint64_t *queued;  /**< tasks that wait, by queue; lent for the call */
    const uint64_t *busy;    /**< CPUs that each queue's tasks hold */
    size_t          n_queues; /**< how many these are; with HTC_SIM_GRIDS_FCFS and _FCFSH 1 */
    const uint64_t *ours;    /**< CPUs that we may have, by grid */
    size_t          n_grids; /**< how many these are */
} htc_sim_grids_sample;

/** What is run; every field's zero is a default. */
typedef struct htc_sim_grids_options {
    size_t   size;     /**< sizeof(htc_sim_grids_options) */
    uint64_t seed;     /**< of everything that is drawn */
    uint32_t system;   /**< htc_sim_grids_system */
    uint32_t reserved; /**< 0 */
    const htc_hierarchy_options *hierarchy; /**< its grids and queues; jobs_max and tasks_max are the model's; no queue is remote; borrowed */
    const htc_sim_grids_grid    *grids;   /**< as many as the hierarchy has; borrowed */
    const htc_sim_grids_queue   *queues;  /**< likewise */
    const htc_sim_grids_class   *classes; /**< borrowed */
    size_t                       n_classes; /**< 1 to HTC_SIM_GRIDS_CLASSES_MAX */
    const htc_sim_grids_job     *jobs;    /**< borrowed; NULL: stream */
    size_t                       n_jobs;  /**< how many these are */
    htc_sim_grids_stream         stream;  /**< if there are no jobs */
    uint64_t active_max;  /**< jobs in the system at once; 0: all, at most 65536 */
    htc_ns   tick_ns;     /**< length of a tick; 0: 1 ms */
    htc_ns   flow_ns;     /**< flow control: from the end of a job's last task until this is noticed */
    htc_ns   move_ns;     /**< a move down takes so long */
    htc_ns   rest_ns;     /**< a job without a running task for so long ... */
    htc_ns   shelter_ns;  /**< ... is not preempted for so long from its next start on; 0: it may always be */
    htc_ns   sample_ns;   /**< between calls of sample; 0: none */
    /**
     * Take a sample. NULL: none.
     *
     * @param[in] ctx     of the options
     * @param[in] sample  lent for the call
     */
    void (*sample)(void *ctx, const htc_sim_grids_sample *sample);
    /**
     * A job has ended. NULL: nobody is told.
     *
     * @param[in] ctx  of the options
     * @param[in] end  lent for the call
     */
    void (*end)(void *ctx, const htc_sim_grids_end *end);
    void *ctx; /**< handed to both */
    const htc_scale_host *host; /**< borrowed; NULL: every default */
    uint32_t task_attempts; /**< a job fails when tasks of it were lost (to evictions, preemptions and outages) so often for each task that it has
                                 still to do, and none was done meanwhile; 0: 10; UINT32_MAX: never */
    uint32_t reserved2;     /**< 0 */
    const htc_scale_tape *resume;     /**< borrowed; it reads a checkpoint of the same options, and the run goes on from there. NULL: it begins */
    const htc_scale_tape *checkpoint; /**< borrowed; a run that the host stops is written there. NULL: nowhere */
} htc_sim_grids_options;

/** Jobs that ended in one queue, or that are of one class. Means are those of the completed ones. */
typedef struct htc_sim_grids_result {
    uint64_t completed;    /**< jobs */
    uint64_t rejected;     /**< jobs */
    uint64_t terminated;   /**< jobs */
    uint64_t failed;       /**< jobs */
    double   response_s;   /**< from submission until the end */
    double   response_50_s; /**< half of them took at most so long, within 9 % */
    double   response_95_s; /**< likewise 95 % */
    double   response_max_s; /**< and all */
    double   estimating_s; /**< of response_s, as in htc_sim_grids_end */
    double   queued_s;     /**< likewise */
    double   grid_queued_s; /**< likewise */
    double   running_s;    /**< likewise */
    double   moving_s;     /**< likewise */
    double   flow_s;       /**< likewise */
    double   tasks;        /**< of a job */
    double   cpus;         /**< that a job of several tasks had, as in htc_sim_grids_end; over those that wanted more */
    double   work_s;       /**< CPU time of tasks that were done, all jobs together */
    double   evicted_s;    /**< CPU time lost by evictions, preemptions and outages; of a queue: there */
    double   moved_s;      /**< CPU time lost by moves, terminations and failures; of a queue: there */
    uint64_t started;      /**< tasks handed in; of a queue: there */
    uint64_t evicted;      /**< of these */
    uint64_t out[HTC_HIERARCHY_REASONS]; /**< of a queue: jobs told to leave, by reason */
} htc_sim_grids_result;

/** How it went. */
typedef struct htc_sim_grids_report {
    size_t   size;        /**< sizeof(htc_sim_grids_report), set by the caller */
    uint32_t interrupted; /**< 1: the host has stopped it, and this is what there was */
    uint32_t n_queues;    /**< of the system: 1 without multilevel queues */
    uint64_t completed;   /**< jobs */
    uint64_t rejected;    /**< jobs */
    uint64_t terminated;  /**< jobs */
    uint64_t failed;      /**< jobs */
    uint64_t moves;       /**< of jobs, queue to queue */
    uint64_t tasks;       /**< that were handed in */
    uint64_t evicted;     /**< of these */
    uint64_t active_most; /**< jobs in the system at once */
    uint64_t memory;      /**< bytes of the model and the engine, at most */
    double   work_s;      /**< CPU time of tasks that were done, in core seconds */
    double   evicted_s;   /**< lost by evictions, preemptions and outages */
    double   moved_s;     /**< lost by moves, terminations and failures */
    double   busy_s;      /**< from starts to ends of tasks: the sum of these three */
    double   held_s;      /**< CPU time that tasks held: with their latencies */
    htc_scale_report scale; /**< of the engine, its size set by the callee; its tasks are our jobs, their length flow control. wrong: what is not conserved */
} htc_sim_grids_report;

/**
 * What a run needs, before it is begun.
 *
 * @param[in]  options  borrowed
 * @param[out] bytes    of memory at most: jobs and tasks need it as they come; untouched on failure
 * @return HTC_OK; HTC_EINVAL if a pointer is NULL or a number out of range; HTC_EABI
 *
 * Cost: O(grids + queues).   Since: 0.2
 */
HTC_API htc_status htc_sim_grids_memory(const htc_sim_grids_options *options, uint64_t *bytes);

/**
 * Run until every job has ended, or the host stops it.
 *
 * @param[in]  env      its allocator alone is looked at (NULL: malloc)
 * @param[in]  options  borrowed
 * @param[out] report   filled as far as its size says
 * @param[out] queues   one for each queue of the system (of the hierarchy is enough), caller-allocated; NULL is fine
 * @param[out] classes  n_classes of them, caller-allocated; NULL is fine
 * @param[out] error    why; NULL is fine
 * @return HTC_OK, whatever became of the run; HTC_EINVAL if something is missing or out of range; HTC_EFULL: more than active_max jobs at once, or more
 *         tasks were taken from their CPUs before their time than there is room for; HTC_ETOOBIG: it needs more memory than host.memory_max, or too many ticks;
 *         HTC_EFORMAT: the checkpoint is not of these options; HTC_ECORRUPT; what a tape answers; HTC_EABI; HTC_ENOMEM
 *
 * Cost: 150 to 300 ns a task, some us a job; 48 bytes a CPU that is ever busy, 0.6 KiB a job in the system.   Since: 0.2
 */
HTC_API htc_status htc_sim_grids_run(const htc_env *env, const htc_sim_grids_options *options, htc_sim_grids_report *report, htc_sim_grids_result *queues,
                                     htc_sim_grids_result *classes, htc_error *error);

/** What messages of the exact engine take; every field's zero is a default. */
typedef struct htc_sim_grids_exact_options {
    size_t   size;       /**< sizeof(htc_sim_grids_exact_options) */
    uint64_t seed;       /**< of the network: of jitter alone */
    htc_ns   latency_ns; /**< of a message between the hierarchy and a grid, at most an hour; 0: 1 ms. The latency of a start is the grid's own, and comes behind it */
    htc_ns   jitter_ns;  /**< up to this much more, at most an hour, drawn for each message; 0: none */
} htc_sim_grids_exact_options;

/**
 * The same experiment message by message: what htc_sim_grids_run is compared with. The hierarchy and each grid are nodes of the engine of htcsched/sim.h. A task that is
 * handed in, its start, its end or eviction, its recall when its job moves or another preempts it, and how many CPUs a grid has for us are messages. So the hierarchy
 * decides on what it knows: it hands in where CPUs are free as far as it has been told, and a task that finds none waits with the grid. A task's result that comes when
 * its job has moved is too late, and its CPU time counts as lost by the move. What is drawn is drawn as in the model. Times are nanoseconds: there are no ticks.
 *
 * Checked after each step: no grid runs more tasks than it has CPUs. In the end: each job has ended; each task that was handed in was done, evicted or recalled, once, as the
 * hierarchy and the grids count it; CPUs were busy for as long as these ran; the tasks of a completed job add up to its complexity; the hierarchy has counted the CPU time
 * that it was told of; messages sent = received + lost; and the makespan is below neither the longest task nor the CPU time that was held, divided by all CPUs.
 *
 * @param[in]  env      its allocator alone is looked at (NULL: malloc)
 * @param[in]  options  borrowed; no resume and checkpoint; tick_ns is not looked at
 * @param[in]  exact    borrowed; NULL: the defaults
 * @param[out] report   filled as far as its size says; scale.hash: htc_sim_hash; scale.sent, received, longest, work_s and bound_s are of messages and tasks; scale.wrong: what does
 *                      not hold
 * @param[out] queues   as htc_sim_grids_run
 * @param[out] classes  likewise
 * @param[out] error    why; NULL is fine
 * @return HTC_OK, whatever became of the run; as htc_sim_grids_run; HTC_EUNSUPPORTED: the exact engine has no checkpoints
 *
 * Cost: some 0.5 us an event; a task is five of them, and an estimator one for each second of its time.   Since: 0.2
 */
HTC_API htc_status htc_sim_grids_exact(const htc_env *env, const htc_sim_grids_options *options, const htc_sim_grids_exact_options *exact, htc_sim_grids_report *report,
                                       htc_sim_grids_result *queues, htc_sim_grids_result *classes, htc_error *error);

/** The options of an experiment, with everything they point to. */
typedef struct htc_sim_grids_profile htc_sim_grids_profile;

/** Experiments of the paper. */
typedef enum htc_sim_grids_experiment {
    HTC_SIM_GRIDS_TABLE_1 = 0, /**< a job of 3000 tasks, about 6 h, and 60 s later one of 30 s: run it with each system */
    HTC_SIM_GRIDS_STREAM       /**< 2300 jobs in 214 days: figures 4 to 7 and table 3 */
} htc_sim_grids_experiment;

/**
 * The deployment of the paper (sections 5 and 6, table 2), "superlink-2005": four queues on three levels, grids of 2, 100 and 2500 CPUs.
 *
 * @param[in]  env         kept; NULL: malloc
 * @param[in]  experiment  htc_sim_grids_experiment
 * @param[out] out         gives the profile: htc_sim_grids_profile_destroy; untouched on failure
 * @return HTC_OK; HTC_EINVAL; HTC_ENOMEM
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_sim_grids_superlink(const htc_env *env, uint32_t experiment, htc_sim_grids_profile **out);

/**
 * Its options, to change and to run.
 *
 * @param[in] profile  borrowed
 * @return lends them until htc_sim_grids_profile_destroy; what they point to may be replaced, and changed through htc_sim_grids_profile_parts
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_sim_grids_options *htc_sim_grids_profile_options(htc_sim_grids_profile *profile);

/** What a profile's options point to, to change: four queues and three grids. */
typedef struct htc_sim_grids_parts {
    htc_hierarchy_options *hierarchy;        /**< lent */
    htc_hierarchy_grid    *hierarchy_grids;  /**< lent, hierarchy->grid_count */
    htc_hierarchy_queue   *hierarchy_queues; /**< lent, hierarchy->queue_count */
    htc_sim_grids_grid    *grids;            /**< lent */
    htc_sim_grids_queue   *queues;           /**< lent */
    htc_sim_grids_class   *classes;          /**< lent, n_classes of the options */
    htc_sim_grids_job     *jobs;             /**< lent, n_jobs of the options */
} htc_sim_grids_parts;

/**
 * Its parts.
 *
 * @param[in]  profile  borrowed
 * @param[out] parts    lends them until htc_sim_grids_profile_destroy
 * @return HTC_OK; HTC_EINVAL
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_sim_grids_profile_parts(htc_sim_grids_profile *profile, htc_sim_grids_parts *parts);

/** Free a profile. @param[in] profile  NULL is fine. Cost: O(1). Since: 0.2 */
HTC_API void htc_sim_grids_profile_destroy(htc_sim_grids_profile *profile);

#ifdef __cplusplus
}
#endif
#endif
