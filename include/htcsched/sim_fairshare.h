/**
 * @file htcsched/sim_fairshare.h
 * @brief Many users share one cluster: the scale model of the gateway's fair sharing.
 *
 * Library htcsched-sim (`pkg-config --libs htcsched-sim`).
 *
 * Users with weights submit jobs of many tasks; agents, one a core, are started for a user, run one task after the other and leave. Who gets and
 * gives cores is decided by htc_allot_plan alone, as in the gateway. Its exact twin is the system scenario (htcsched/sim_system.h), in which the
 * real gateway, store and agents do the same message by message: on 16 cores both agree within 5 % (doc/simulation.md).
 *
 *     htc_sim_fairshare_user   users[] = { { .size = sizeof *users, .weight = 1 }, { .size = sizeof *users, .weight = 2 } };
 *     htc_sim_fairshare_job    jobs[] = { { .size = sizeof *jobs, .user = 0, .tasks = 1000, .length = { .mean_ns = 60e9 } },
 *                                         { .size = sizeof *jobs, .user = 1, .tasks = 500, .length = { .mean_ns = 60e9 }, .arrival = 600 * HTC_SECOND } };
 *     htc_sim_fairshare_options o = { .size = sizeof o, .cores = 360, .users = users, .n_users = 2, .jobs = jobs, .n_jobs = 2 };
 *     htc_sim_fairshare_run(NULL, &o, &report, NULL, NULL);
 *     printf("%.0f s\n", (double)report.scale.makespan / 1e9);
 *
 * `htc-sim fairshare` is this from the command line.
 *
 * What is simplified: an agent has one slot; a mark to give a core back is not tied to an agent: the user's first agent to end a task leaves; nothing
 * fails; the gateway, its store and the network are the delays of the options.
 *
 * Threads: pure: runs share nothing.   Allocation: through env; given back when the run is over.   Source: doc/papers.md#allot, equation 1.
 */
#ifndef HTCSCHED_SIM_FAIRSHARE_H
#define HTCSCHED_SIM_FAIRSHARE_H

#include "htcsched/allot.h"
#include "htcsched/sim_scale.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A run has at most this many cores. */
#define HTC_SIM_FAIRSHARE_CORES_MAX (UINT64_C(1) << 30)
/** And as many jobs, */
#define HTC_SIM_FAIRSHARE_JOBS_MAX ((size_t)1 << 24)
/** and users. */
#define HTC_SIM_FAIRSHARE_USERS_MAX ((size_t)1 << 20)

/** A user. */
typedef struct htc_sim_fairshare_user {
    size_t   size;     /**< sizeof(htc_sim_fairshare_user), of all of an array the same */
    double   weight;   /**< above 0; 0: 1 */
    uint32_t fixed;    /**< HTC_ALLOT_STATIC: 1 for the users who share */
    uint32_t reserved; /**< 0 */
} htc_sim_fairshare_user;

/** A job. */
typedef struct htc_sim_fairshare_job {
    size_t        size;     /**< sizeof(htc_sim_fairshare_job), of all of an array the same */
    uint32_t      user;     /**< its number */
    uint32_t      reserved; /**< 0 */
    uint64_t      tasks;    /**< at least 1 */
    htc_ns        arrival;  /**< when it is submitted, since the beginning */
    htc_scale_law length;   /**< of a task */
} htc_sim_fairshare_job;

/** How things are at a moment. */
typedef struct htc_sim_fairshare_sample {
    size_t          size;    /**< sizeof(htc_sim_fairshare_sample) */
    htc_ns          at;      /**< virtual time */
    uint64_t        queued;  /**< tasks that wait */
    uint64_t        running; /**< tasks that run */
    uint64_t        ended;   /**< tasks */
    const uint64_t *cores;   /**< that each user's agents hold, by number; lent for the call */
    size_t          n_users; /**< how many these are */
} htc_sim_fairshare_sample;

/** What is run; every field's zero is a default. */
typedef struct htc_sim_fairshare_options {
    size_t   size;       /**< sizeof(htc_sim_fairshare_options) */
    uint64_t seed;       /**< of the lengths */
    uint64_t cores;      /**< of the cluster, 1 to HTC_SIM_FAIRSHARE_CORES_MAX */
    uint32_t policy;     /**< htc_allot_policy; the gateway's default is HTC_ALLOT_MAXMIN */
    uint32_t min_agents; /**< as htc_allot_options */
    const htc_sim_fairshare_user *users; /**< borrowed */
    size_t                        n_users; /**< 1 to HTC_SIM_FAIRSHARE_USERS_MAX */
    const htc_sim_fairshare_job  *jobs; /**< in any order; borrowed. A job's place is the stream of its lengths: task i takes
                                             htc_scale_length(scale, &job.length, place, i) */
    size_t                        n_jobs; /**< 1 to HTC_SIM_FAIRSHARE_JOBS_MAX */
    htc_ns   tick_ns;     /**< length of a tick; 0: 1 ms */
    htc_ns   launch_ns;   /**< from the decision to start an agent until it has its first task */
    htc_ns   pull_ns;     /**< from the end of a task until the agent's next one begins */
    htc_ns   leave_ns;    /**< from the end of an agent's last task until its core is free */
    htc_ns   gap_ns;      /**< the least time between two divisions (the gateway: 50 ms) */
    htc_ns   sample_ns;   /**< between calls of sample; 0: none, and no fairness is computed */
    /**
     * Take a sample. NULL: none.
     *
     * @param[in] ctx     sample_ctx
     * @param[in] sample  lent for the call
     */
    void (*sample)(void *ctx, const htc_sim_fairshare_sample *sample);
    void *sample_ctx; /**< handed to it */
    const htc_scale_host *host; /**< borrowed; NULL: every default */
    const htc_scale_tape *resume;     /**< borrowed; it reads a checkpoint of the same options, and the run goes on from there. NULL: it begins */
    const htc_scale_tape *checkpoint; /**< borrowed; a run that the host stops is written there. NULL: nowhere */
} htc_sim_fairshare_options;

/** How one user fared. */
typedef struct htc_sim_fairshare_result {
    uint64_t tasks;      /**< submitted */
    uint64_t ended;      /**< of these */
    htc_ns   submitted;  /**< the first job's arrival; HTC_NEVER: there was none */
    htc_ns   makespan;   /**< from then until the last task ended */
    double   response_s; /**< from a task's submission until its end, on average */
    double   core_s;     /**< core time that agents held, in core seconds */
    double   work_s;     /**< core time of the tasks that were started */
    uint64_t agents;     /**< that were started */
} htc_sim_fairshare_result;

/** How it went. */
typedef struct htc_sim_fairshare_report {
    size_t   size;        /**< sizeof(htc_sim_fairshare_report), set by the caller */
    uint32_t interrupted; /**< 1: the host has stopped it, and this is what there was */
    uint32_t reserved;    /**< 0 */
    uint64_t divisions;   /**< calls of htc_allot_plan */
    uint64_t agents;      /**< that were started */
    uint64_t memory;      /**< bytes of the model and the engine */
    double   throughput;  /**< tasks a second of the makespan */
    double   efficiency;  /**< work, as a part of cores times makespan */
    double   idle_s;      /**< core time that was nobody's while a task waited, in core seconds */
    double   fairness;    /**< Jain's index of cores / weight over users with waiting tasks, mean of the samples; 1: none was taken */
    htc_scale_report scale; /**< of the engine, its size set by the callee; wrong: what is not conserved */
} htc_sim_fairshare_report;

/**
 * What a run needs, before it is begun.
 *
 * @param[in]  options  borrowed
 * @param[out] bytes    of memory; untouched on failure
 * @return HTC_OK; HTC_EINVAL if a pointer is NULL or a number out of range; HTC_EABI
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_sim_fairshare_memory(const htc_sim_fairshare_options *options, uint64_t *bytes);

/**
 * Run until every task has ended, or the host stops it.
 *
 * @param[in]  env      its allocator alone is looked at (NULL: malloc)
 * @param[in]  options  borrowed
 * @param[out] report   filled as far as its size says
 * @param[out] results  n_users of them, caller-allocated; NULL is fine
 * @param[out] error    why; NULL is fine
 * @return HTC_OK, whatever became of the run; HTC_EINVAL if something is missing or out of range, or a user whom the policy gives nothing has
 *         jobs; HTC_EFORMAT: the checkpoint is not of these options; HTC_ECORRUPT; what a tape answers; HTC_ETOOBIG: it needs more memory than host.memory_max, or more than 2^63 / cores ticks; HTC_EABI; HTC_ENOMEM
 *
 * Cost: 60 to 150 ns a task, some 100 ns a user for each division, 12.3 bytes a core.   Since: 0.2
 */
HTC_API htc_status htc_sim_fairshare_run(const htc_env *env, const htc_sim_fairshare_options *options, htc_sim_fairshare_report *report,
                                         htc_sim_fairshare_result *results, htc_error *error);

#ifdef __cplusplus
}
#endif
#endif
