/**
 * @file htcsched/sim_jobs.h
 * @brief Jobs of several nodes on partitions: the scale model of controllers that rob each other, and of one central controller.
 *
 * Library htcsched-sim (`pkg-config --libs htcsched-sim`).
 *
 * A machine is cut into partitions. Each has a controller and a member of the store, which keeps the partition's resource record. Jobs that need
 * nodes are submitted to controllers; one that lacks nodes takes them from other partitions by compare-and-swap of their records. Where it looks is
 * decided by htc_balance_step and its policy, what a central controller starts by htc_fit_next: the model itself decides nothing. Of a partition as many
 * nodes are taken as there are, up to what is missing: which ones does not matter to a run, so it counts them. With `records` nodes have numbers, and
 * htc_record_take and htc_record_release say which are taken and given back.
 *
 *     htc_sim_jobs_options o = { .size = sizeof o, .seed = 1, .nodes = 65536, .partition = 1024, .jobs = 10000, .sizes = HTC_SIM_JOBS_TRACE };
 *     htc_sim_jobs_report  r = { .size = sizeof r };
 *     htc_error            e;
 *     htc_sim_jobs_published(&o);
 *     o.length = (htc_scale_law){ .kind = HTC_SCALE_EXPONENTIAL, .mean_ns = 5e6 };
 *     if (htc_sim_jobs_run(NULL, &o, &r, &e) != HTC_OK)
 *         return fputs(e.text, stderr), 1;
 *     printf("%.1f jobs/s, latency %.1f ms, %.1f messages a job\n", r.throughput, 1e3 * r.latency_s, r.messages);
 *
 * `htc-sim jobs` is this from the command line.
 *
 * The life of a job: its controller parses it (job_ns and node_ns of its time, one job after the other); it takes nodes, by a look-up and a
 * compare-and-swap for each try, again at once if the swap met another value; it writes the job's records, an insert each: the job's controller, the
 * partitions that take part, and for each of these the nodes. Then the job is granted, and the controller begins with its next one. The job is
 * launched down a tree of its nodes and acknowledged up the tree, it runs, its end comes up the tree, and its nodes are given back by a look-up and
 * a compare-and-swap for each partition. A member of the store serves one request after the other, store_ns each.
 *
 * What is simplified: a taking stands in its record until the job gives it back (no commit and settling); an answer that holds a census gives the
 * census as it is when the answer arrives; messages of one job's launch do not wait for those of another; nothing fails.
 *
 * Threads: pure: runs share nothing.   Allocation: through env; given back when the run is over.   Source: doc/papers.md#balance, Algorithms 4 to 8.
 */
#ifndef HTCSCHED_SIM_JOBS_H
#define HTCSCHED_SIM_JOBS_H

#include "htcsched/balance.h"
#include "htcsched/fit.h"
#include "htcsched/sim_scale.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A machine has at most this many nodes. */
#define HTC_SIM_JOBS_NODES_MAX (UINT32_C(1) << 24)
/** And a run this many jobs. */
#define HTC_SIM_JOBS_MAX (UINT64_C(1) << 31)
/** In the exact engine there are at most so many controllers. */
#define HTC_SIM_JOBS_EXACT_CONTROLLERS_MAX 64

/** How many nodes jobs need. */
typedef enum htc_sim_jobs_sizes {
    HTC_SIM_JOBS_UNIFORM = 0, /**< any number from nodes_min to nodes_max */
    HTC_SIM_JOBS_TRACE        /**< as on a Blue Gene/P of 40,960 nodes in 2009, scaled to the machine: 19.52 % of the jobs need at most 1 % of it, 90.01 % at
                                   most 5 %, 99.78 % at most 80 %, and the others all */
} htc_sim_jobs_sizes;

/** A job that is not drawn. */
typedef struct htc_sim_jobs_job {
    size_t   size;       /**< sizeof(htc_sim_jobs_job), of all of an array the same */
    uint32_t controller; /**< that it is submitted to; a controller's jobs come one after the other as they stand in the array */
    uint32_t nodes;      /**< that it needs, at least 1 */
    htc_ns   length;     /**< how long it runs */
    htc_ns   arrival;    /**< of a source: when it is there to be begun with; not before the one before it */
} htc_sim_jobs_job;

/** A job that has ended. */
typedef struct htc_sim_jobs_ended {
    size_t   size;       /**< sizeof(htc_sim_jobs_ended) */
    uint64_t job;        /**< its number: as they are drawn, of the list or of the source, from 0 on */
    uint32_t controller; /**< that it was submitted to; 0 of a central one */
    uint32_t nodes;      /**< that it had */
    htc_ns   submitted;  /**< virtual time at which its controller began with it, from which its latency counts */
    htc_ns   started;    /**< it had its nodes and was launched on all of them */
    htc_ns   ended;      /**< its length later */
} htc_sim_jobs_ended;

/** How things are at a moment. */
typedef struct htc_sim_jobs_sample {
    size_t   size;    /**< sizeof(htc_sim_jobs_sample) */
    htc_ns   at;      /**< virtual time */
    uint64_t waiting; /**< jobs that controllers look for nodes for, or that wait in the queue of the central one */
    uint64_t running; /**< jobs that have their nodes and have not ended */
    uint64_t ended;   /**< jobs */
    uint64_t busy;    /**< nodes of those that run */
    uint64_t taken;   /**< nodes that are not free: also those of jobs that still look for more, and of ended ones until they are given back */
} htc_sim_jobs_sample;

/** What is run. A cost of zero is none; htc_sim_jobs_published fills in those of the published simulator. */
typedef struct htc_sim_jobs_options {
    size_t   size;      /**< sizeof(htc_sim_jobs_options) */
    uint64_t seed;      /**< of all that is drawn */
    uint32_t nodes;     /**< of the machine, 1 to HTC_SIM_JOBS_NODES_MAX */
    uint32_t partition; /**< nodes of each, at most HTC_RECORD_NODES_MAX; the last one has what is left; 0: 1024 */
    uint64_t jobs;      /**< 1 to HTC_SIM_JOBS_MAX; job j is submitted to controller j modulo their number */
    uint32_t sizes;     /**< htc_sim_jobs_sizes */
    uint32_t nodes_min; /**< of a job, if uniform; 0: 1 */
    uint32_t nodes_max; /**< of a job; 0: nodes_min if uniform, else all. One of the trace that needs more needs so many */
    uint32_t central;   /**< 1: one controller has all nodes and starts jobs by `fit`; partitions then say how many jobs are submitted at a time */
    htc_scale_law length; /**< of the jobs */
    const htc_sim_jobs_job *list; /**< in place of what is drawn; borrowed; NULL: jobs are drawn */
    size_t   n_list;    /**< jobs in it */
    const htc_balance_policy *policy; /**< where controllers look; borrowed; NULL: "monitored" */
    const htc_fit_policy     *fit;    /**< of the central controller; borrowed; NULL: "easy" */
    double   used;      /**< so much of each partition is out of use throughout, 0 to below 1 */
    uint32_t tries;     /**< as htc_balance_options; UINT32_MAX: a round never ends */
    uint32_t fanout;    /**< of the tree that launches, at least 2; 0: 2 */
    htc_ns   wait_ns;     /**< as htc_balance_options */
    htc_ns   wait_ns_max; /**< as htc_balance_options */
    htc_ns   pull_ns;     /**< as htc_balance_options */
    htc_ns   monitor_ns;  /**< from the end of a census to the beginning of the next; 0: 100 ms */
    htc_ns   tick_ns;     /**< length of a tick; 0: 1 us */
    htc_ns   latency_ns;  /**< of a message */
    htc_ns   pack_ns;     /**< of a message, at the sender and again at the receiver */
    htc_ns   store_ns;    /**< of a member's time, for a request */
    htc_ns   job_ns;      /**< of a controller's time, for a job */
    htc_ns   node_ns;     /**< and for each of its nodes */
    htc_ns   scan_ns;     /**< of the central controller's time, for a job, and each node of the machine */
    htc_ns   launch_ns;   /**< at each level of the tree */
    double   bandwidth;   /**< of a link, bytes a second; 0: without bound */
    uint32_t node_bytes;  /**< of a record that is sent, for each free node */
    uint32_t records;     /**< 1: each partition has a resource record, and nodes are taken and given back by name; 0: how many are free. The run is the same */
    const htc_scale_host *host; /**< borrowed; NULL: every default */
    htc_ns   sample_ns;   /**< sample is called for the multiples of this, but once until the next event, for until then all stays so; 0: it is not */
    /**
     * Take a sample. NULL: none.
     *
     * @param[in] ctx     of the options
     * @param[in] sample  lent for the call
     */
    void (*sample)(void *ctx, const htc_sim_jobs_sample *sample);
    void *ctx; /**< handed to it, to next_job and to ended */
    const htc_scale_tape *resume;     /**< borrowed; it reads a checkpoint of the same options, and the run goes on from there. NULL: it begins */
    const htc_scale_tape *checkpoint; /**< borrowed; a run that the host stops is written there. NULL: nowhere */
    /**
     * A source, in place of what is drawn: give the next job to a controller that has none, whatever controller the job says. The controller begins with it
     * when it arrives. Memory does not grow with the number of jobs; a run has no checkpoint. NULL: there is none.
     *
     * @param[in]  ctx  of the options
     * @param[out] job  size alone is set when called
     * @return HTC_OK; HTC_AGAIN: there are no more; anything else ends the run with it
     */
    htc_status (*next_job)(void *ctx, htc_sim_jobs_job *job);
    /**
     * Take a job that has ended. A run that goes on from a checkpoint tells those that end from there on. NULL: nobody wants to know.
     *
     * @param[in] ctx  of the options
     * @param[in] job  lent for the call
     */
    void (*ended)(void *ctx, const htc_sim_jobs_ended *job);
} htc_sim_jobs_options;

/** What the exact engine has beside the model; every field's zero is a default. */
typedef struct htc_sim_jobs_exact_options {
    size_t size;      /**< sizeof(htc_sim_jobs_exact_options) */
    htc_ns jitter_ns; /**< of a message between two machines, at most, drawn evenly, beside latency_ns and pack_ns */
} htc_sim_jobs_exact_options;

/** How it went. Messages are requests to the store: look-ups, inserts, compare-and-swaps, each counted once. */
typedef struct htc_sim_jobs_report {
    size_t   size;        /**< sizeof(htc_sim_jobs_report), set by the caller */
    uint32_t interrupted; /**< 1: the host has stopped it, and this is what there was */
    uint32_t controllers; /**< how many there were */
    uint64_t granted;     /**< jobs that had their nodes */
    uint64_t requests;    /**< messages of jobs */
    uint64_t services;    /**< messages of the monitor, and of controllers that read what it has written */
    uint64_t swaps;       /**< compare-and-swaps */
    uint64_t conflicts;   /**< of these, that met another value */
    uint64_t steals;      /**< tries at other partitions, of jobs that were granted */
    uint64_t rounds;      /**< of these jobs, that ended without enough, so that all was given back */
    uint64_t sized[4];    /**< jobs granted that need at most 1, 5, 80 % of the machine's nodes, and that need all */
    uint64_t memory;      /**< bytes of the model and the engine */
    double   throughput;  /**< jobs a second of the makespan */
    double   latency_s;   /**< from a job's submission until it was granted, on average */
    double   latency_max_s; /**< the longest */
    double   messages;    /**< of a job until it was granted, on average */
    double   messages_all;  /**< of a job until it had given all back, on average */
    double   utilisation; /**< of all nodes' time, in which jobs ran */
    htc_scale_report scale; /**< of the engine, its size set by the callee; wrong: what is not conserved. A task is a job */
} htc_sim_jobs_report;

/**
 * Costs of the published simulator: 100 us a message, 50 us to pack and to unpack it, 1 Gb/s, 30 bytes a free node, 1 ms for each job and for each
 * request to the store, a binary tree; and its waits: 1 ms that do not grow.
 *
 * @param[in,out] options  these fields are set, and no others; NULL is fine
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API void htc_sim_jobs_published(htc_sim_jobs_options *options);

/**
 * What a run needs, before it is begun.
 *
 * @param[in]  options  borrowed
 * @param[out] bytes    of memory, at most; untouched on failure
 * @return HTC_OK; HTC_EINVAL if a pointer is NULL or a number out of range; HTC_EABI
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_sim_jobs_memory(const htc_sim_jobs_options *options, uint64_t *bytes);

/**
 * Run until every job has ended, or the host stops it.
 *
 * @param[in]  env      its allocator alone is looked at (NULL: malloc)
 * @param[in]  options  borrowed
 * @param[out] report   filled as far as its size says
 * @param[out] error    why; NULL is fine
 * @return HTC_OK, whatever became of the run; HTC_EINVAL if something is missing or out of range, or a job needs more nodes than can be taken;
 *         HTC_ETOOBIG: it needs more memory than host.memory_max, or more ticks than there are; HTC_EFORMAT: the checkpoint is
 *         not of these options; HTC_EUNSUPPORTED: its policy has no tape; HTC_ECORRUPT; what a tape or a policy answers; HTC_EABI; HTC_ENOMEM
 *
 * Cost: two events a message, and with `records` that of htc_record_take for each taking and giving back; 70 bytes a node and some 600 a controller, with a policy that pulls a
 *       census 20 bytes more for each pair of controllers.   Since: 0.2
 */
HTC_API htc_status htc_sim_jobs_run(const htc_env *env, const htc_sim_jobs_options *options, htc_sim_jobs_report *report, htc_error *error);

/**
 * Run the same experiment in the exact engine, message by message (htcsched/sim.h). Each controller is a node of the simulated network, and so are the monitor of a
 * policy that pulls a census, and beside each of them a member of the store: a real server (htc_kv_server) in memory, which has the record of the partition.
 * Controllers ask members as real clients do (htc_kv_client). What they take and give back are nodes by name, htc_record_take and htc_record_release, by
 * compare-and-swap of what they have read; a job's records are written to the members that the model draws. The same jobs are drawn as in the model.
 *
 * A message takes latency_ns and pack_ns twice, to the member beside a controller nothing; messages have the size that they have, so that node_bytes is not looked at, and
 * neither is records. Of the tree that launches a job the time is counted, as in the model. Before the run callers and members meet; after it each controller reads
 * its record again.
 *
 * After each step no node is taken twice. In the end jobs granted = ended = submitted, messages sent = received, node time = lengths times nodes, and by the store's
 * records all nodes are free; else scale.wrong says what is not so.
 *
 * @param[in]  env            its allocator alone is looked at (NULL: malloc)
 * @param[in]  options        borrowed; of host stop, stop_after, progress and memory_max
 * @param[in]  exact_options  borrowed; NULL: the defaults
 * @param[out] report         filled as far as its size says
 * @param[out] error          why; NULL is fine
 * @return HTC_OK, whatever became of the run; HTC_EUNSUPPORTED: a central controller or a checkpoint; HTC_ETOOBIG: more controllers than
 *         HTC_SIM_JOBS_EXACT_CONTROLLERS_MAX, or more than host.memory_max bytes; HTC_EFULL: more jobs hold nodes of one partition than a record has takings;
 *         HTC_EINVAL if something is missing or out of range; what a source or a policy answers; HTC_EABI; HTC_ENOMEM
 *
 * Cost: some 4 us a request to the store; 300 bytes a job, whose records stay there.   Since: 0.2
 */
HTC_API htc_status htc_sim_jobs_exact(const htc_env *env, const htc_sim_jobs_options *options, const htc_sim_jobs_exact_options *exact_options,
                                      htc_sim_jobs_report *report, htc_error *error);

#ifdef __cplusplus
}
#endif
#endif
