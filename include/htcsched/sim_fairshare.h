/**
 * @file htcsched/sim_fairshare.h
 * @brief Many users share one or several clusters: the scale model of the gateway's fair sharing.
 *
 * Library htcsched-sim (`pkg-config --libs htcsched-sim`).
 *
 * Users with weights submit jobs of many tasks; agents, one a core, are started for a user, run one task after the other and leave. Who gets and
 * gives cores is decided by htc_allot_plan alone, as in the gateway. Its exact twin is the system scenario (htcsched/sim_system.h), in which the
 * real gateway, store and agents do the same message by message: on 16 to 256 cores both agree within 5 % (doc/simulation.md).
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
 * Several clusters have a batch system each, which takes the jobs that agents are one after the other and may hold them; agents may die; other users
 * have jobs there. The same tasks can be given to the batch systems alone, a job each, to compare.
 *
 * What is simplified: an agent has one slot; a mark to give a core back is not tied to an agent: the user's first agent to end a task leaves; the
 * gateway, its store and the network are the delays of the options.
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

/** There are at most this many clusters. */
#define HTC_SIM_FAIRSHARE_CLUSTERS_MAX 256

/** A cluster with its batch system; every field's zero but that of cores is a default. */
typedef struct htc_sim_fairshare_cluster {
    size_t        size;       /**< sizeof(htc_sim_fairshare_cluster), of all of an array the same */
    uint64_t      cores;      /**< at least 1, all together at most HTC_SIM_FAIRSHARE_CORES_MAX */
    double        speed;      /**< of its cores: a task takes its length divided by this, 0.001 to 1000; 0: 1 */
    htc_ns        service_ns; /**< the batch system starts one job after the other, and takes so long for each */
    uint32_t      batch;      /**< agents of one user that are one job, at most; 0: 1 */
    uint32_t      reserved;   /**< 0 */
    double        hold;       /**< the probability that a job is held instead of started, 0 to 1, */
    double        hold_rate;  /**< and what is added to it for each job that has started or ended in the last second. The end of an agent is that of a
                                   job if batch is 1 */
    htc_ns        life_ns;    /**< until an agent dies, on average, exponentially distributed; 0: never */
    htc_scale_law others_gap; /**< from one job of other users to the next; a job is one core for others_length. Mean 0: there are none */
    htc_scale_law others_length; /**< of these jobs */
    uint64_t      others;     /**< of these jobs that have a core in the beginning, at most cores */
} htc_sim_fairshare_cluster;

/** What became of a cluster. */
typedef struct htc_sim_fairshare_cluster_result {
    uint64_t agents; /**< that were started there */
    uint64_t jobs;   /**< that its batch system was given: agents, or batches of them, or tasks */
    uint64_t held;   /**< agents or tasks of these that were held */
    uint64_t died;   /**< agents */
    uint64_t tasks;  /**< that have begun there, without those whose agents died */
    uint64_t others; /**< jobs of other users that have started */
    double   work_s; /**< core time of these tasks */
    double   lost_s; /**< core time of tasks whose agents have died */
} htc_sim_fairshare_cluster_result;

/** On which cluster an agent is started, among those with free cores. */
typedef enum htc_sim_fairshare_choice {
    HTC_SIM_FAIRSHARE_BEST = 0,  /**< the fastest; of these the one with the most free cores */
    HTC_SIM_FAIRSHARE_FIRST = 1  /**< the first, as the gateway */
} htc_sim_fairshare_choice;

/** What is recorded of a task, once before it begins and once when it has ended; the agent waits for both. */
typedef enum htc_sim_fairshare_records {
    HTC_SIM_FAIRSHARE_UNRECORDED = 0, /**< nothing */
    HTC_SIM_FAIRSHARE_SERIAL = 1,     /**< a server that takes record_ns for each record, one after the other */
    HTC_SIM_FAIRSHARE_GROUPED = 2     /**< every sync_ns what waits is written in record_ns, together */
} htc_sim_fairshare_records;

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
    uint64_t cores;      /**< of the cluster, 1 to HTC_SIM_FAIRSHARE_CORES_MAX; of several: clusters */
    uint32_t policy;     /**< htc_allot_policy; the gateway's default is HTC_ALLOT_MAXMIN */
    uint32_t min_agents; /**< as htc_allot_options */
    const htc_sim_fairshare_user *users; /**< borrowed */
    size_t                        n_users; /**< 1 to HTC_SIM_FAIRSHARE_USERS_MAX */
    const htc_sim_fairshare_job  *jobs; /**< in any order; borrowed. A job's place is the stream of its lengths: task i takes
                                             htc_scale_length(scale, &job.length, place, i) */
    size_t                        n_jobs; /**< 1 to HTC_SIM_FAIRSHARE_JOBS_MAX; with next_job 0 */
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
    const htc_sim_fairshare_cluster *clusters; /**< borrowed; cores is then 0, or their sum. NULL: one of so many cores, all else default. Since: 0.2 */
    size_t   n_clusters; /**< up to HTC_SIM_FAIRSHARE_CLUSTERS_MAX */
    uint32_t choice;     /**< htc_sim_fairshare_choice */
    uint32_t direct;     /**< 1: there are no agents: each task is a job of the batch system of the cluster that had the most free cores when its job arrived, in the
                              order of arrival, and one that is held stays so. policy is not looked at */
    uint32_t records;    /**< htc_sim_fairshare_records */
    uint32_t estimated;  /**< with gamma: 1: how long a user's tasks take is known before the first has ended, as a wall time limit says; 0: as those of all users */
    htc_ns   record_ns;  /**< as records says */
    htc_ns   sync_ns;    /**< HTC_SIM_FAIRSHARE_GROUPED; 0: 5 ms */
    htc_ns   held_ns;    /**< an agent that is held is cancelled after so long, and others are started; 0: 600 s */
    htc_ns   lost_ns;    /**< an agent that has died is missed so much later: its core is free again and its task is the first that waits; 0: 30 s */
    double   gamma;      /**< weights are those of htc_allot_profiled, with the weight as priority, made anew for each division; -1 to 1; 0: the weights alone */
    htc_ns   weigh_ns;   /**< with gamma: cores are divided at least this often; 0: 5 s */
    htc_sim_fairshare_cluster_result *cluster_results; /**< n_clusters of them, or one, filled when the run is over; NULL is fine */
    const htc_allot_weigher *weigher; /**< makes the weights for each division, as htc_allot_weigh says, with the weight, rounded to a whole number from 1, as priority; gamma
                                           is the weigher's then, and weigh_ns and estimated count as with gamma. Kept. NULL: as gamma says. Not of the exact engine */
    htc_ns   half_life_ns; /**< of usage, which a weigher may look at; 0: seven days */
    /**
     * A source in place of jobs, which is then NULL and n_jobs 0: give the next one, in the order of arrival. Memory grows with the jobs that have not ended, not
     * with all of them; a run has no checkpoint. A job's number from 0 is the stream of its lengths. Not of the exact engine. NULL: there is none.
     *
     * @param[in]  ctx  next_ctx
     * @param[out] job  size alone is set when called
     * @return HTC_OK; HTC_AGAIN: there are no more; anything else ends the run with it
     */
    htc_status (*next_job)(void *ctx, htc_sim_fairshare_job *job);
    void *next_ctx; /**< handed to it */
    htc_ns output_ns; /**< what each task leaves goes to a shared file system, which takes so long for one output after the other; a task has ended, and its core is
                           somebody's again, when its output is there. 0: it stays on the node. Not of the exact engine */
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
    uint64_t held;       /**< tasks that are held for good (direct) */
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
    htc_scale_report scale; /**< of the engine, its size set by the callee; wrong: what is not conserved. If direct, a task is submitted to it when it begins */
    uint64_t cores;       /**< of all clusters. Since: 0.2 */
    uint64_t held;        /**< agents that were held and started anew; if direct, tasks that are held for good */
    uint64_t died;        /**< agents that have died */
    double   lost_s;      /**< core time of tasks whose agents have died */
    double   completed;   /**< tasks that have ended, as a part of those that were submitted */
    double   response_s;  /**< from a task's submission until its end, mean of all */
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
 *         jobs, or a job of the source is not fine or comes before the one before it; HTC_EUNSUPPORTED: a checkpoint with a source; what a source
 *         answers; HTC_EFORMAT: the checkpoint is not of these options; HTC_ECORRUPT; what a tape answers; HTC_ETOOBIG: it needs more memory than host.memory_max, or more than 2^63 / cores ticks; HTC_EABI; HTC_ENOMEM
 *
 * Cost: 60 to 150 ns a task, some 100 ns a user for each division, 12.3 bytes a core.   Since: 0.2
 */
HTC_API htc_status htc_sim_fairshare_run(const htc_env *env, const htc_sim_fairshare_options *options, htc_sim_fairshare_report *report,
                                         htc_sim_fairshare_result *results, htc_error *error);

/** What the exact engine has in place of pull_ns and leave_ns; every field's zero is a default. */
typedef struct htc_sim_fairshare_exact_options {
    size_t   size;      /**< sizeof(htc_sim_fairshare_exact_options) */
    htc_ns   commit_ns; /**< until what is stored is durable, at most an hour; 0: 2 ms */
    htc_ns   stage_ns;  /**< what staging takes before and after a task, each, at most an hour; 0: 1 ms */
    htc_ns   jitter_ns; /**< of a message, drawn, up to this, at most an hour; 0: 20 us */
    uint32_t prefetch;  /**< tasks that an agent is given at a time, at most; 0: as many as the gateway likes */
    uint32_t slots;     /**< that one agent fills at most, 1 to 64; 0: 1, as in the model */
} htc_sim_fairshare_exact_options;

/** The most cores of such a run, */
#define HTC_SIM_FAIRSHARE_EXACT_CORES_MAX 16384
/** tasks, */
#define HTC_SIM_FAIRSHARE_EXACT_TASKS_MAX 10000000
/** users, and jobs. */
#define HTC_SIM_FAIRSHARE_EXACT_USERS_MAX 1024

/**
 * The same experiment with the real gateway, store and agents, message by message: what htc_sim_fairshare_run is compared with. A task has the same
 * length in both. launch_ns is the time until an agent's process is there; gap_ns is the gateway's; weights are whole numbers. sample_ns is at least tick_ns, and
 * the host is looked at with each sample. A run whose tasks wait ends when for long none has ended, and scale.wrong says so: the gateway gives up what takes minutes
 * to be stored.
 *
 * @param[in]  env      its allocator alone is looked at (NULL: malloc)
 * @param[in]  options  borrowed. Clusters, 4 at most, have cores alone, no others and no checkpoints; direct, records and estimated are 0
 * @param[in]  exact    borrowed; NULL: the defaults
 * @param[out] report   filled as far as its size says; divisions, idle_s and events of tasks that were held are 0; scale.hash: htc_sim_hash; scale.wrong:
 *                      what the checks of the system scenario say
 * @param[out] results  n_users of them, caller-allocated; core_s is a sum of samples, of sample_ns or a second. NULL is fine
 * @param[out] error    why; NULL is fine
 * @return HTC_OK, whatever became of the run; HTC_EINVAL; HTC_EUNSUPPORTED: the exact engine has no such thing; HTC_ETOOBIG: also if the
 *         tasks take more than 400 days of virtual time at best, or the run needs more memory than host.memory_max; HTC_EABI; HTC_ENOMEM
 *
 * Cost: some 100 us a task and 2 KiB, and some 0.3 s an hour of virtual time.   Since: 0.2
 */
HTC_API htc_status htc_sim_fairshare_exact(const htc_env *env, const htc_sim_fairshare_options *options, const htc_sim_fairshare_exact_options *exact,
                                           htc_sim_fairshare_report *report, htc_sim_fairshare_result *results, htc_error *error);

#ifdef __cplusplus
}
#endif
#endif
