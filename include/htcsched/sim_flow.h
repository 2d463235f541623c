/**
 * @file htcsched/sim_flow.h
 * @brief One flow over workers in virtual time: how well it is spread, how long it takes, what it costs.
 *
 * Library htcsched-sim (`pkg-config --libs htcsched-sim`).
 *
 * The machines are those that run live: a store, and workers that take ledgers, steal, run and count (doc/design/workers.md), message by
 * message. What the world costs is given: the way of a message, a commit of the store, and what a task takes beside its own length. No
 * machine takes time to think; on a real one that is part of these costs. Nothing fails.
 *
 *     htc_sim_flow_report report = { .size = sizeof report };
 *     htc_sim_flow_run(NULL, flow, &(htc_sim_flow_options){ .size = sizeof(htc_sim_flow_options), .workers = 8 }, &report);
 *     printf("efficiency %.3f\n", report.efficiency);
 *
 * `htc-sim flow` is this from the command line.
 *
 * Threads: pure: runs share nothing.   Allocation: through env; given back when the run is over.
 */
#ifndef HTCSCHED_SIM_FLOW_H
#define HTCSCHED_SIM_FLOW_H

#include "htcsched/env.h"
#include "htcsched/flow.h"
#include "htcsched/sim_scale.h"
#include "htcsched/steal.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The most workers of a run. */
#define HTC_SIM_FLOW_WORKERS_MAX 1024

/** Where the tasks are at the beginning. */
typedef enum htc_sim_flow_layout {
    HTC_SIM_FLOW_ONE = 0, /**< all with one worker, as far as one ledger may have them: the worst case */
    HTC_SIM_FLOW_EACH     /**< an equal share with each, by number: the best case, if they are as long */
} htc_sim_flow_layout;

/** How it goes at a moment. */
typedef struct htc_sim_flow_sample {
    size_t   size;  /**< sizeof(htc_sim_flow_sample) */
    htc_ns   at;    /**< since the flow was started */
    uint32_t busy;  /**< slots in which a task runs */
    uint64_t ended; /**< tasks that have run */
} htc_sim_flow_sample;

/** What is run; every field's zero is its default. */
typedef struct htc_sim_flow_options {
    size_t                   size;    /**< sizeof(htc_sim_flow_options) */
    uint64_t                 seed;    /**< of everything that is drawn */
    uint32_t                 workers; /**< at most HTC_SIM_FLOW_WORKERS_MAX; 0: 1 */
    uint32_t                 slots;   /**< of each, at most 128; 0: 1 */
    uint32_t                 layout;  /**< htc_sim_flow_layout */
    const htc_steal_options *steal;   /**< borrowed; NULL: every default */
    htc_ns                   latency_ns;  /**< of each message; 0: 50 us */
    htc_ns                   jitter_ns;   /**< up to so much more, drawn */
    uint64_t                 bytes_per_s; /**< of a link; 0: any number at once */
    htc_ns                   commit_ns;   /**< from a change of the store to the moment at which it is durable */
    htc_ns                   start_ns;    /**< a task's slot is taken for so long beside the task's own length */
    htc_ns                   stage_ns;    /**< before a task and after it, each, in its slot */
    htc_ns                   sample_ns;   /**< between calls of sample; 0: none */
    /**
     * Take a sample. NULL: none.
     *
     * @param[in] ctx     sample_ctx
     * @param[in] sample  lent for the call
     */
    void (*sample)(void *ctx, const htc_sim_flow_sample *sample);
    void *sample_ctx; /**< handed to it */
    const htc_scale_host *host; /**< borrowed: it is told how the run goes, and may stop it. Its memory_max is not looked at. NULL: every default of it */
} htc_sim_flow_options;

/** How it went. */
typedef struct htc_sim_flow_report {
    size_t   size;       /**< sizeof(htc_sim_flow_report), set by the caller */
    uint32_t failed;     /**< 1: text says why */
    uint32_t slots;      /**< of all workers */
    uint64_t tasks;      /**< in all */
    uint64_t runs;       /**< of tasks */
    uint64_t stolen;     /**< tasks that a thief was given */
    uint64_t events;     /**< delivered */
    uint64_t commits;    /**< of the store */
    uint64_t hash;       /**< htc_sim_hash: the same for the same seed */
    htc_ns   span;       /**< from the start until the store says that the flow has ended */
    htc_ns   work;       /**< all lengths together */
    htc_ns   longest;    /**< the longest path of tasks that wait for each other */
    htc_ns   idle;       /**< of all slots: in which no task's own length passed */
    double   efficiency; /**< what an ideal machine with so many slots takes at least, the larger of work / slots and longest, as a part of span */
    double   utilisation; /**< work as a part of slots times span */
    double   throughput; /**< tasks a second */
    double   cv;         /**< coefficient of variation of the tasks that each worker ran */
    char     text[400];  /**< why it failed */
    uint32_t interrupted; /**< 1: the host has stopped it, and this is what there was: span is until then, and efficiency, utilisation and idle are 0 */
    uint32_t reserved;    /**< 0 */
} htc_sim_flow_report;

/**
 * Run a flow until it has ended, or the host stops it.
 *
 * @param[in]  env      its allocator alone is looked at (NULL: malloc)
 * @param[in]  flow     checked; borrowed. A task takes as long as it was recorded to (run), else as its builtin sleeps or spins, else no time
 * @param[in]  options  borrowed; NULL: every default
 * @param[out] report   filled as far as its size says
 * @return HTC_OK, whatever became of the run; HTC_EINVAL: a pointer is NULL, the flow is empty, or an option is out of range; HTC_ETOOBIG: as
 *         htc_flows_submit; HTC_EABI; HTC_ENOMEM
 *
 * Cost: some 30 us a task, more with many workers.   Since: 0.2
 */
HTC_API htc_status htc_sim_flow_run(const htc_env *env, const htc_flow *flow, const htc_sim_flow_options *options,
                                    htc_sim_flow_report *report);

#ifdef __cplusplus
}
#endif
#endif
