/**
 * @file htcsched/sim_provision.h
 * @brief Organisations lease nodes from one provider: the scale model of dynamic service provision.
 *
 * Library htcsched-sim (`pkg-config --libs htcsched-sim`).
 *
 * Each organisation has a runtime environment with a workload: jobs, from an array or one after the other from a function, or workflows. One run
 * compares nothing: it is one of the four systems (htc_sim_provision_system) over the workloads. Every decision is that of the library:
 * htc_provision_scan, htc_provision_check and htc_provision_grant lease nodes, htc_fit_next starts jobs, htc_dag_take says which tasks are ready.
 *
 *     const htc_sim_provision_job   jobs[] = { { .arrival = 0, .length = 5400 * HTC_SECOND, .nodes = 64 },
 *                                              { .arrival = 900 * HTC_SECOND, .length = 600 * HTC_SECOND, .nodes = 128 } };
 *     htc_sim_provision_environment nasa = { .size = sizeof nasa, .name = "nasa", .nodes = 128, .jobs = jobs, .n_jobs = 2, .period_ns = 14 * 86400 * HTC_SECOND };
 *     htc_sim_provision_options     o = { .size = sizeof o, .capacity = 480, .environments = &nasa, .n_environments = 1 };
 *     htc_sim_provision_report      r = { .size = sizeof r };
 *     for (o.system = HTC_SIM_PROVISION_DSP; o.system <= HTC_SIM_PROVISION_DRP; o.system++)
 *         if (htc_sim_provision_run(NULL, &o, &r, NULL, NULL) == HTC_OK)
 *             printf("%u: %llu node-hours, %llu jobs, peak %llu %s\n", o.system, (unsigned long long)r.node_units, (unsigned long long)r.completed,
 *                    (unsigned long long)r.peak, r.scale.wrong);
 *
 * Order at one moment: ends of jobs, ends of environments, arrivals, then for all environments together: schedulers, scans, grants, schedulers,
 * looks at leases; then the sample. A job that takes no time holds its nodes until all of that is over.
 *
 * What is simplified: nodes are equal and do not fail; a task of a workflow takes one node and its data no time.
 *
 * Memory is that of the jobs that wait and run: a trace may be as long as it likes.
 *
 * Threads: pure: runs share nothing.   Allocation: through env; given back when the run is over.   Source: doc/papers.md#provision.
 */
#ifndef HTCSCHED_SIM_PROVISION_H
#define HTCSCHED_SIM_PROVISION_H

#include "htcsched/fit.h"
#include "htcsched/provision.h"
#include "htcsched/sim_scale.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A run has at most this many environments, */
#define HTC_SIM_PROVISION_ENVIRONMENTS_MAX ((size_t)1 << 16)
/** and this many jobs that wait or run at one time. */
#define HTC_SIM_PROVISION_ACTIVE_MAX ((size_t)1 << 24)

/** Who owns the nodes, and who asks for them. */
typedef enum htc_sim_provision_system {
    HTC_SIM_PROVISION_DSP = 0, /**< DawningCloud: each environment leases and returns nodes as its book decides */
    HTC_SIM_PROVISION_DCS,     /**< a dedicated cluster: the environment's own nodes, and a queue */
    HTC_SIM_PROVISION_SSP,     /**< as many nodes, leased for the whole period, and a queue */
    HTC_SIM_PROVISION_DRP      /**< each end user leases: every job starts when it arrives; a workflow's user reuses nodes in the unit that is paid */
} htc_sim_provision_system;

/** A job. */
typedef struct htc_sim_provision_job {
    htc_ns   arrival;  /**< since the beginning; not before the one that came before it */
    htc_ns   length;   /**< 0 is fine */
    htc_ns   estimate; /**< what it says to the scheduler; 0: nothing */
    uint32_t nodes;    /**< at least 1 */
    uint32_t priority; /**< as htc_fit_job */
} htc_sim_provision_job;

/** Child waits for parent. */
typedef struct htc_sim_provision_edge {
    uint32_t parent; /**< a task of the workflow, from 0 */
    uint32_t child;  /**< as parent */
} htc_sim_provision_edge;

/** A workflow: each task takes one node. */
typedef struct htc_sim_provision_flow {
    size_t                        size;    /**< sizeof(htc_sim_provision_flow), of all of an array the same */
    htc_ns                        arrival; /**< since the beginning; not before the one that came before it */
    const htc_ns                 *length;  /**< of each task */
    const htc_sim_provision_edge *edges;   /**< NULL is fine if there are none */
    uint32_t                      tasks;   /**< at least 1 */
    uint32_t                      n_edges; /**< of edges */
} htc_sim_provision_flow;

/** A runtime environment and its workload: exactly one of jobs, next_job, flows and next_flow. */
typedef struct htc_sim_provision_environment {
    size_t   size;  /**< sizeof(htc_sim_provision_environment), of all of an array the same */
    const char *name; /**< for messages; borrowed; NULL: its number */
    uint64_t nodes; /**< DCS and SSP: of the cluster, 1 to 2^32 - 1 */
    const htc_provision_options *book; /**< DSP: B, R, policy, scan; borrowed. NULL: every default. The lease unit counts for all systems; the kind is
                                            that of the workload, whatever it says */
    const htc_fit_policy *fit; /**< how jobs are chosen; borrowed. NULL: first fit for jobs, FCFS for workflows */
    int32_t  priority; /**< of its requests, higher first */
    uint32_t reserved; /**< 0 */
    uint64_t weight;   /**< of its requests, where the granter divides; 0: 1 */
    htc_ns   period_ns; /**< it is destroyed then: what runs is cut off, what arrives then is not submitted. 0: when all its work has ended */
    const htc_sim_provision_job *jobs; /**< in the order of arrival; borrowed */
    size_t   n_jobs; /**< 0 is fine */
    const htc_sim_provision_flow *flows; /**< in the order of arrival; borrowed */
    size_t   n_flows; /**< 0 is fine */
    /**
     * Give the next job, one ahead of what has arrived. NULL: jobs.
     *
     * @param[in]  ctx  of the environment
     * @param[out] job  all zero when called
     * @return HTC_OK; HTC_AGAIN: there are no more; anything else ends the run with it
     */
    htc_status (*next_job)(void *ctx, htc_sim_provision_job *job);
    /**
     * Give the next workflow, one ahead of what has arrived. NULL: flows.
     *
     * @param[in]  ctx   of the environment
     * @param[out] flow  size alone is set when called; what it points to is lent until the next call
     * @return as next_job
     */
    htc_status (*next_flow)(void *ctx, htc_sim_provision_flow *flow);
    void *ctx; /**< handed to both */
} htc_sim_provision_environment;

/** How things are at a moment. Arrays have a number for each environment and are lent for the call. */
typedef struct htc_sim_provision_sample {
    size_t          size;           /**< sizeof(htc_sim_provision_sample) */
    htc_ns          at;             /**< virtual time */
    const uint64_t *held;           /**< nodes; DRP: under charge; shared: set up for it, idle ones too */
    const uint64_t *busy;           /**< nodes that jobs run on */
    const uint64_t *waiting;        /**< jobs, or ready tasks */
    size_t          n_environments; /**< of each array */
    uint64_t        all_held;       /**< nodes held by all */
    uint64_t        node_units;     /**< charged so far, as if all leases ended now */
    double          cost;           /**< of these, as htc_sim_provision_report */
} htc_sim_provision_sample;

/** What is run; every field's zero is a default. */
typedef struct htc_sim_provision_options {
    size_t   size;     /**< sizeof(htc_sim_provision_options) */
    uint32_t system;   /**< htc_sim_provision_system */
    uint32_t setup_delay; /**< DSP: 1: a node can be used only when it is set up; 0: at once, setup is counted alone. Not with shared */
    const htc_sim_provision_environment *environments; /**< borrowed */
    size_t   n_environments; /**< 1 to HTC_SIM_PROVISION_ENVIRONMENTS_MAX */
    uint64_t capacity; /**< nodes of the provider, for DSP and SSP; 0: 2^32 - 1 */
    const htc_provision_granter *granter; /**< borrowed; NULL: "all_or_reject". HTC_PROVISION_PARTIAL: partial grants */
    const htc_provision_setup   *setup;   /**< borrowed; NULL: "packages" */
    /** DSP: environments lend each other nodes: one book with these options leases for the demand of all of them, its idle nodes go to whoever has jobs that
     *  wait, divided by weight within a priority (HTC_PROVISION_PARTIAL), and no environment has a book of its own. A node stays set up for whoever used it last. Borrowed. NULL: each has its own. */
    const htc_provision_options *shared;
    double   price;      /**< of a node for a unit, in any currency */
    const htc_provision_owning *owning; /**< DCS: what the clusters cost; borrowed. NULL: price counts */
    htc_ns   tick_ns;    /**< times are rounded to ticks; 0: 1 ms */
    size_t   active_max; /**< jobs that wait or run at one time, and leases of DRP; 0: 2^20 */
    htc_ns   sample_ns;  /**< between calls of sample; 0: none */
    /**
     * Take a sample. NULL: none.
     *
     * @param[in] ctx     sample_ctx
     * @param[in] sample  lent for the call
     */
    void (*sample)(void *ctx, const htc_sim_provision_sample *sample);
    void *sample_ctx; /**< handed to it */
    const htc_scale_host *host; /**< borrowed; NULL: every default. memory_max is of all that the run has at one time */
    const htc_scale_tape *resume;     /**< borrowed; it reads a checkpoint of the same options, and the run goes on from there: next_job is asked for the job after
                                           those that it had given until then. NULL: it begins */
    const htc_scale_tape *checkpoint; /**< borrowed; a run that the host stops is written there. NULL: nowhere */
} htc_sim_provision_options;

/** How one environment fared. */
typedef struct htc_sim_provision_result {
    uint64_t submitted;  /**< jobs, or tasks */
    uint64_t completed;  /**< of these, in the period */
    uint64_t unfinished; /**< of these, that ran, waited or depended on others in the end */
    uint64_t refused;    /**< of these, larger than the environment can ever be */
    uint64_t node_units; /**< charged: node-hours, if the unit is an hour. Shared: 0, the report has them */
    uint64_t peak;       /**< the most nodes held at one time; DRP: under charge */
    uint64_t busy_peak;  /**< the most nodes that jobs ran on at one time */
    uint64_t granted;    /**< nodes taken over; granted + returned are the adjustments. DCS: 0 */
    uint64_t returned;   /**< nodes given back */
    uint64_t requests;   /**< of its book */
    uint64_t rejected;   /**< of these */
    uint64_t starved;    /**< 1: so many were rejected in a row that the alarm was raised */
    htc_ns   setup_ns;   /**< of all adjusted nodes, one after the other */
    htc_ns   first;      /**< the first arrival; HTC_NEVER: there was none */
    htc_ns   last;       /**< the last end in the period; HTC_NEVER: there was none */
    double   held_s;     /**< node seconds held */
    double   busy_s;     /**< node seconds that jobs ran */
    double   wait_s;     /**< from arrival, or from when the task was ready, to the start: the mean; of those that did not start, to the end */
    double   rate;       /**< completed jobs a second from first to last */
} htc_sim_provision_result;

/** How it went. */
typedef struct htc_sim_provision_report {
    size_t   size;        /**< sizeof(htc_sim_provision_report), set by the caller */
    uint32_t interrupted; /**< 1: the host has stopped it, and this is what there was */
    uint32_t reserved;    /**< 0 */
    uint64_t submitted;   /**< as in the results, all environments together; so are those down to setup_ns */
    uint64_t completed;   /**< in the period */
    uint64_t unfinished;  /**< in the end */
    uint64_t refused;     /**< never queued */
    uint64_t node_units;  /**< charged */
    uint64_t granted;     /**< nodes */
    uint64_t returned;    /**< nodes */
    uint64_t requests;    /**< of all books */
    uint64_t rejected;    /**< of these */
    htc_ns   setup_ns;    /**< of all adjusted nodes */
    uint64_t peak;        /**< the most nodes that all held at one time */
    uint64_t busy_peak;   /**< the most nodes that jobs of all ran on at one time */
    uint64_t scans;       /**< calls of htc_provision_scan */
    uint64_t memory;      /**< the most bytes at one time */
    double   held_s;      /**< node seconds held; shared: idle ones included */
    double   busy_s;      /**< node seconds that jobs ran */
    double   cost;        /**< price for each unit; with owning: that of the longest period, in cents, months having 30 days */
    htc_scale_report scale; /**< of the engine, which counts jobs from their start; its size set by the callee; wrong: what is not conserved */
} htc_sim_provision_report;

/**
 * What a run needs before its first job.
 *
 * @param[in]  options  borrowed
 * @param[out] bytes    of memory; each job that waits or runs adds some 300, each task of a workflow under way some 60; untouched on failure
 * @return HTC_OK; HTC_EINVAL if a pointer is NULL or a number out of range; HTC_EABI
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_sim_provision_memory(const htc_sim_provision_options *options, uint64_t *bytes);

/**
 * Run until every environment has ended, or the host stops it.
 *
 * An environment without a period whose jobs wait for nodes that it can never get is ended: they are unfinished. So it is when nothing has run anywhere for
 * as long as 200 units and 200 scans take, though nodes come and go.
 *
 * @param[in]  env      its allocator alone is looked at (NULL: malloc)
 * @param[in]  options  borrowed
 * @param[out] report   filled as far as its size says
 * @param[out] results  n_environments of them, caller-allocated; NULL is fine
 * @param[out] error    why; NULL is fine
 * @return HTC_OK, whatever became of the run; HTC_EINVAL if something is missing or out of range, or jobs do not come in order; HTC_ENOFIT if the initial
 *         nodes of an environment are more than the provider has left; HTC_ECYCLE: a workflow; HTC_EFULL: more than active_max jobs; HTC_ETOOBIG: it takes more
 *         memory than host.memory_max, or more ticks than there are; HTC_EFORMAT: the checkpoint is not of these options; HTC_EUNSUPPORTED: a run with
 *         next_flow has no checkpoint; HTC_ECORRUPT; what a tape, a source or a policy answers; HTC_EABI; HTC_ENOMEM
 *
 * Cost: 0.4 to 1 us a job, 0.1 us a scan of each environment.   Since: 0.2
 */
HTC_API htc_status htc_sim_provision_run(const htc_env *env, const htc_sim_provision_options *options, htc_sim_provision_report *report,
                                         htc_sim_provision_result *results, htc_error *error);

/** What messages of the exact engine take; every field's zero is a default. */
typedef struct htc_sim_provision_exact_options {
    size_t   size;       /**< sizeof(htc_sim_provision_exact_options) */
    uint64_t seed;       /**< of the network: of jitter alone */
    htc_ns   latency_ns; /**< of a message between an environment and the provider; 0: 1 ms */
    htc_ns   jitter_ns;  /**< up to this much more, drawn for each message; 0: none */
    htc_ns   gather_ns;  /**< the provider decides this long after the first request, for all that have come by then; 0: 1 ms */
} htc_sim_provision_exact_options;

/** The most environments of such a run. */
#define HTC_SIM_PROVISION_EXACT_ENVIRONMENTS_MAX 1024

/**
 * The same experiment message by message: what htc_sim_provision_run is compared with. The environments and the provider are nodes of the engine of
 * htcsched/sim.h. A request, its answer and what goes back are messages; a lease begins when the answer is there, and nodes that go back are nobody's until the
 * provider knows. The policies and books are the same, and so is the order at one moment. Times are nanoseconds: there are no ticks.
 *
 * Checked after each step: nodes that the provider has given = those that environments hold + those on their way, an environment's nodes = those of its book = those of its
 * scheduler, and its jobs. In the end also what the model checks, and that the provider's node time is that of the environments and of what was on its way.
 *
 * @param[in]  env      its allocator alone is looked at (NULL: malloc)
 * @param[in]  options  borrowed; system DSP: no shared, resume and checkpoint
 * @param[in]  exact    borrowed; NULL: the defaults
 * @param[out] report   filled as far as its size says; scale.hash: htc_sim_hash; scale.wrong: what is not conserved in the end
 * @param[out] results  n_environments of them, caller-allocated; NULL is fine
 * @param[out] error    why; NULL is fine
 * @return HTC_OK, whatever became of the run; as htc_sim_provision_run; HTC_EINVAL also if an answer could take as long as an environment's scan_ns;
 *         HTC_EUNSUPPORTED: the exact engine has no such thing; HTC_ETOOBIG also for more environments than there may be; HTC_EINTERNAL: a check after a step was not met
 *
 * Cost: some 1.5 us an event; an idle scan is one, and a job some events.   Since: 0.2
 */
HTC_API htc_status htc_sim_provision_exact(const htc_env *env, const htc_sim_provision_options *options, const htc_sim_provision_exact_options *exact,
                                           htc_sim_provision_report *report, htc_sim_provision_result *results, htc_error *error);

#ifdef __cplusplus
}
#endif
#endif
