/**
 * @file htcsched/sim_dataflow.h
 * @brief Tasks that wait for tasks and read what these made: the scale model of data-aware work stealing, and of the systems it is compared with.
 *
 * Library htcsched-sim (`pkg-config --libs htcsched-sim`).
 *
 * Nodes of some cores run a graph of tasks. A task waits at a node until its parents have ended. Then htcsched/locality.h decides where it is queued: in
 * SReadyQ of that node, of which others steal (htcsched/steal.h), in LReadyQ, of which nobody does, or with the node that has its data. Live workers call the
 * same functions; their exact twin is htcsched/sim_flow.h, with which the model agrees within 5 % at 16 and 64 slots (doc/simulation.md).
 *
 *     htc_sim_dataflow_options o = { .size = sizeof o, .nodes = 100, .cores = 2, .tasks = 200000, .shape = HTC_SIM_DATAFLOW_FANOUT, .degree = 10,
 *                                    .layout = HTC_SIM_DATAFLOW_RANDOM, .length = { HTC_SCALE_UNIFORM, 0, 50e6, 1 }, .bytes = { HTC_SCALE_UNIFORM, 0, 5e6, 1 } };
 *     htc_sim_dataflow_report  report = { .size = sizeof report };
 *     if (htc_sim_dataflow_run(NULL, &o, &report, NULL) == HTC_OK)
 *         printf("efficiency %.3f, %.0f bytes moved %s\n", report.efficiency, (double)report.moved_bytes, report.scale.wrong);
 *
 * Graphs are generated on the fly: no edge is stored. Or they are a flow or a graph that is given.
 *
 * What is simplified: a task fetches what it reads one object after the other, in its core; what is on its way to a node counts as there; requests to the store are
 * booked when they are sent; loads that a thief hears of are those of one moment; the tasks of a phase all hear at once that it begins; nothing fails.
 *
 * Threads: pure: runs share nothing but what a policy's ctx does.   Allocation: through env; given back when the run is over.   Source:
 * doc/papers.md, MATRIX, chapter 5.
 */
#ifndef HTCSCHED_SIM_DATAFLOW_H
#define HTCSCHED_SIM_DATAFLOW_H

#include "htcsched/dag.h"
#include "htcsched/flow.h"
#include "htcsched/locality.h"
#include "htcsched/sim_scale.h"
#include "htcsched/steal.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A run has at most this many tasks, */
#define HTC_SIM_DATAFLOW_TASKS_MAX (UINT64_C(1) << 30)
/** this many cores, */
#define HTC_SIM_DATAFLOW_CORES_MAX (UINT64_C(1) << 24)
/** and this many phases. */
#define HTC_SIM_DATAFLOW_PHASES_MAX 256

/** Who decides where a task runs. */
typedef enum htc_sim_dataflow_system {
    HTC_SIM_DATAFLOW_WORKERS = 0, /**< each node, by htcsched/locality.h and htcsched/steal.h. What a task makes stays where it ran; others fetch it from there */
    HTC_SIM_DATAFLOW_DATADIFF,    /**< one dispatcher with one queue, dispatch_ns a task: to the node with an idle core that has most of its input. What that node lacks
                                       it reads from the file system, and keeps (data diffusion) */
    HTC_SIM_DATAFLOW_PFS,         /**< one dispatcher; all that is read and made goes through the file system, every time */
    HTC_SIM_DATAFLOW_ACTIVE,      /**< one dispatcher; everything is in the memory of every node */
    HTC_SIM_DATAFLOW_YARN         /**< two phases are a job, one job after the other. A job takes launch_ns and then a grant for each container, of which every core is one;
                                       a free container pulls its next task from the job's master, dispatch_ns each. PHASES and BAG alone */
} htc_sim_dataflow_system;

/** Which tasks wait for which. With degree d and n tasks: */
typedef enum htc_sim_dataflow_shape {
    HTC_SIM_DATAFLOW_BAG = 0,  /**< none */
    HTC_SIM_DATAFLOW_FANOUT,   /**< the children of task i are i*d+1 to i*d+d */
    HTC_SIM_DATAFLOW_FANIN,    /**< its mirror: the parents of task n-1-i are n-1-(i*d+1) to n-1-(i*d+d) */
    HTC_SIM_DATAFLOW_PIPELINE, /**< chains of d tasks */
    HTC_SIM_DATAFLOW_MAPREDUCE, /**< the last d tasks wait for all others: two phases */
    HTC_SIM_DATAFLOW_PHASES,   /**< the tasks of a phase wait for all of the phase before it (options.phases) */
    HTC_SIM_DATAFLOW_FLOW,     /**< as options.flow has it */
    HTC_SIM_DATAFLOW_DAG       /**< as options.dag has it */
} htc_sim_dataflow_shape;

/** At which node a task waits for its parents. */
typedef enum htc_sim_dataflow_layout {
    HTC_SIM_DATAFLOW_ONE = 0, /**< all at node 0 */
    HTC_SIM_DATAFLOW_EACH,    /**< an equal share at each, by number */
    HTC_SIM_DATAFLOW_RANDOM   /**< each at one that is drawn */
} htc_sim_dataflow_layout;

/** Whose link a transfer takes for itself. Of two nodes it is taken for size / bytes_per_s, one transfer after the other in the order in which they are asked for. */
typedef enum htc_sim_dataflow_links {
    HTC_SIM_DATAFLOW_FREE = 0, /**< nobody's: as the published simulator */
    HTC_SIM_DATAFLOW_SOURCE,   /**< that of the node which sends */
    HTC_SIM_DATAFLOW_BOTH      /**< of both */
} htc_sim_dataflow_links;

/** Which of the files that are there at the beginning a task reads. */
typedef enum htc_sim_dataflow_inputs {
    HTC_SIM_DATAFLOW_NO_FILES = 0, /**< none */
    HTC_SIM_DATAFLOW_ONE_FILE,     /**< task t, that waits for nothing, reads file t mod files */
    HTC_SIM_DATAFLOW_PAIRS         /**< task t reads file t / h mod h and file h + t mod h, where h is half of files */
} htc_sim_dataflow_inputs;

/** A phase: its tasks wait for all tasks of the one before, and each of n tasks reads an n-th of what each of these made. */
typedef struct htc_sim_dataflow_phase {
    size_t        size;   /**< sizeof(htc_sim_dataflow_phase), of all of an array the same */
    uint64_t      tasks;  /**< at least 1 */
    htc_scale_law length; /**< of each */
    htc_scale_law bytes;  /**< that each makes: its mean_ns counts bytes */
} htc_sim_dataflow_phase;

/** How things are at a moment. */
typedef struct htc_sim_dataflow_sample {
    size_t   size;    /**< sizeof(htc_sim_dataflow_sample) */
    htc_ns   at;      /**< virtual time */
    uint64_t cores;   /**< of all nodes */
    uint64_t busy;    /**< cores that a task has, be it that it runs or still fetches what it reads */
    uint64_t waiting; /**< tasks whose parents have not all ended */
    uint64_t ready;   /**< tasks that are queued somewhere, or on their way to another queue */
    uint64_t ended;   /**< tasks */
} htc_sim_dataflow_sample;

/** A task begins. */
typedef struct htc_sim_dataflow_task {
    size_t   size;        /**< sizeof(htc_sim_dataflow_task) */
    uint64_t number;      /**< from 0 */
    uint64_t node;        /**< where it runs */
    htc_ns   taken;       /**< its core is */
    htc_ns   begin;       /**< it has all that it reads */
    htc_ns   end;         /**< at which it will end */
    uint64_t read_bytes;  /**< all that it reads */
    uint64_t moved_bytes; /**< of these, that came from elsewhere */
} htc_sim_dataflow_task;

/** What is run; every field's zero is a default. The costs' defaults are those of the published data-aware simulator; HTC_NEVER as a cost: no time. */
typedef struct htc_sim_dataflow_options {
    size_t   size;    /**< sizeof(htc_sim_dataflow_options) */
    uint64_t seed;    /**< of everything that is drawn */
    uint32_t system;  /**< htc_sim_dataflow_system */
    uint32_t shape;   /**< htc_sim_dataflow_shape */
    uint32_t degree;  /**< d; 0: 2, of MAPREDUCE 1 */
    uint32_t layout;  /**< htc_sim_dataflow_layout; of WORKERS alone */
    uint64_t nodes;   /**< at least 1 */
    uint32_t cores;   /**< of each, at least 1 */
    uint32_t in_turn; /**< 1: a thief asks one neighbour after the other, as the papers do; 0: all at once */
    uint64_t tasks;   /**< at least 1; not of PHASES, FLOW and DAG, which know themselves */
    htc_scale_law length; /**< of task i: htc_scale_length(scale, &length, 0, i) */
    htc_scale_law bytes;  /**< that it makes, and its children read: its mean_ns counts bytes; 0: nothing */
    const htc_sim_dataflow_phase *phases; /**< of PHASES; borrowed */
    size_t   n_phases;    /**< 1 to HTC_SIM_DATAFLOW_PHASES_MAX */
    const htc_flow *flow; /**< of FLOW, checked; borrowed. A task takes as long as it was recorded to, else as its builtin sleeps or spins, and makes all its out
                               files as one object. Children read the whole of it; what no task makes is not read. No child waits for a failure */
    htc_dag *dag;         /**< of DAG, numbered from 0 without gaps; borrowed: its edges are put in order */
    const htc_ns   *dag_ns;    /**< the length of each task; borrowed */
    const uint64_t *dag_bytes; /**< that each makes; borrowed; NULL: nothing */
    uint64_t files;       /**< that are there at the beginning; file f lies with node f mod nodes */
    uint64_t file_bytes;  /**< size of each */
    uint32_t inputs;      /**< htc_sim_dataflow_inputs */
    uint32_t links;       /**< htc_sim_dataflow_links */
    uint32_t window;      /**< DATADIFF: the dispatcher looks at so many of the first tasks that wait: the first that has all of its input at an idle node goes there, else the one
                               that has most; 0: at one, which goes to the idle node that has most of its input */
    uint32_t reserved;    /**< 0 */
    uint32_t scattered;   /**< 1: each file lies with a node that is drawn */
    uint32_t shuffled;    /**< 1: PAIRS: tasks go through the pairs in a mixed order, so that those that are near each other read other files */
    uint64_t cache_bytes; /**< a node keeps so much of what it fetched, and drops what was used longest ago; 0: nothing; UINT64_MAX: all */
    const htc_steal_options    *steal;    /**< borrowed; NULL: every default, but the first wait is 10 ms */
    const htc_locality_options *locality; /**< borrowed; NULL: every default. self, and bytes_per_s if it is 0, are set by the run */
    htc_ns   expected_ns; /**< a task is thought to run so long at a node where none of its kind has ended; 0: 1 s */
    htc_ns   latency_ns;  /**< of a message; 0: 10 us */
    uint64_t bytes_per_s; /**< of a link; 0: 10 Gb/s */
    uint64_t disk_bytes_per_s; /**< what a node has, it reads at this rate; 0: at once */
    uint32_t load_bytes;  /**< size of a message about loads; 0: 100 */
    uint32_t task_bytes;  /**< size of a message with tasks; 0: 1024 */
    htc_ns   task_ns;     /**< a core is taken for a task for so long before it fetches what it reads; 0: 1 ms */
    htc_ns   store_ns;    /**< a member of the store takes for a request, one after the other; each node has a member, and records are spread over them; 0: 1 ms */
    htc_ns   commit_ns;   /**< from then until a change is durable, for any number of changes at once */
    htc_ns   give_ns;     /**< a victim takes until stolen tasks are on their way */
    htc_ns   nudge_ns;    /**< a node that has tasks waiting to be stolen tells sqrt(n) others, at most 32, at most once in this time; 0: it does not */
    htc_ns   dispatch_ns; /**< a dispatcher, or a job's master, takes for a task; 0: 1 ms */
    uint64_t pfs_bytes_per_s; /**< of the file system, for all its readers together, one after the other; 0: 1 GB/s */
    htc_ns   launch_ns;   /**< YARN: until a job's master runs */
    htc_ns   grant_ns;    /**< YARN: the resource manager takes for a container, one after the other */
    htc_ns   container_ns; /**< YARN: until a container runs */
    htc_ns   tick_ns;     /**< length of a tick; 0: 1 us */
    htc_ns   sample_ns;   /**< between calls of sample; 0: none */
    /**
     * Take a sample. NULL: none.
     *
     * @param[in] ctx     of the options
     * @param[in] sample  lent for the call
     */
    void (*sample)(void *ctx, const htc_sim_dataflow_sample *sample);
    /**
     * Be told of each task. NULL: none.
     *
     * @param[in] ctx   of the options
     * @param[in] task  lent for the call
     */
    void (*begun)(void *ctx, const htc_sim_dataflow_task *task);
    void *ctx;                  /**< handed to both */
    const htc_scale_host *host; /**< borrowed; NULL: every default */
    const htc_scale_tape *resume;     /**< borrowed; it reads a checkpoint of the same options, and the run goes on from there. NULL: it begins */
    const htc_scale_tape *checkpoint; /**< borrowed; a run that the host stops is written there. NULL: nowhere */
} htc_sim_dataflow_options;

/** How it went. */
typedef struct htc_sim_dataflow_report {
    size_t   size;         /**< sizeof(htc_sim_dataflow_report), set by the caller */
    uint32_t interrupted;  /**< 1: the host has stopped it, and this is what there was */
    uint32_t reserved;     /**< 0 */
    uint64_t cores;        /**< of all nodes */
    uint64_t tasks;        /**< of the graph */
    uint64_t edges;        /**< of the graph; between phases one a task */
    uint64_t memory;       /**< bytes of the model and the engine, the most that there were */
    uint64_t rounds;       /**< of thieves, in which somebody was asked */
    uint64_t steals;       /**< of these, that brought tasks */
    uint64_t stolen;       /**< tasks, each time that one was */
    uint64_t nudges;       /**< that were sent */
    uint64_t pushed;       /**< tasks that went to the node which has their data */
    uint64_t freed;        /**< tasks that went from LReadyQ to SReadyQ */
    uint64_t read_bytes;   /**< by all tasks that have begun */
    uint64_t local_bytes;  /**< of these, where they were made or lay at the beginning */
    uint64_t cached_bytes; /**< of these, that were fetched before */
    uint64_t moved_bytes;  /**< of these, that came from elsewhere */
    double   throughput;   /**< tasks a second of the makespan */
    double   efficiency;   /**< ideal_s as a part of the makespan; 0 if it was interrupted */
    double   utilisation;  /**< busy core time, as a part of cores times makespan */
    double   cv;           /**< coefficient of variation over all nodes of the tasks that each has ended */
    double   ideal_s;      /**< the larger of all lengths divided by the cores and the longest path; of phases the sum of these */
    double   held_s;       /**< core time from when a task takes its core to its end, all together; beyond busy_s of the engine it waited for data there */
    double   turnaround_s; /**< mean, from when a task could begin (its parents had ended) to its end */
    double   delay_ratio;  /**< what is beyond (k + 1) l / 2, as a part of it, with k tasks of length l a core in each phase; of others than BAG and phases 0 */
    htc_scale_report scale; /**< of the engine, its size set by the callee; wrong: what is not conserved */
} htc_sim_dataflow_report;

/**
 * What a run needs at least, before it is begun.
 *
 * @param[in]  options  borrowed
 * @param[out] bytes    of memory; untouched on failure. What a cache holds, and loot that is on its way, is not in it
 * @return HTC_OK; HTC_EINVAL if a pointer is NULL or a number out of range; HTC_EABI; HTC_ENOMEM
 *
 * Cost: O(1); O(tasks) of FLOW and DAG.   Since: 0.2
 */
HTC_API htc_status htc_sim_dataflow_memory(const htc_sim_dataflow_options *options, uint64_t *bytes);

/**
 * Run until every task has ended, or the host stops it.
 *
 * @param[in]  env      its allocator alone is looked at (NULL: malloc)
 * @param[in]  options  borrowed
 * @param[out] report   filled as far as its size says
 * @param[out] error    why; NULL is fine
 * @return HTC_OK, whatever became of the run; HTC_EINVAL if something is missing or out of range, or what a policy chooses is; what a policy answers;
 *         HTC_ECYCLE: the graph has one; HTC_ETOOBIG: it needs more memory than host.memory_max, or more ticks than there are; HTC_EFULL: more events wait than
 *         fit; HTC_EFORMAT: the checkpoint is not of these options; HTC_ECORRUPT; what a tape answers; HTC_EABI; HTC_ENOMEM
 *
 * Cost: 0.2 to 1 us a task and an edge; a round some 10 ns a neighbour. 8 bytes a task, 16 one that is ready, 16 an event; some 700 bytes a node.   Since: 0.2
 */
HTC_API htc_status htc_sim_dataflow_run(const htc_env *env, const htc_sim_dataflow_options *options, htc_sim_dataflow_report *report, htc_error *error);

/**
 * The makespan that a scheduler which knows everything and looks back to the parents' nodes alone would need, by earliest finishing times (htc_dag_bound).
 *
 * BAG, FANOUT, FANIN and PIPELINE are gone through task by task; for the others the graph is built.
 *
 * @param[in]  env             its allocator alone is looked at (NULL: malloc)
 * @param[in]  options         borrowed; the graph, lengths, sizes, bytes_per_s, latency_ns and task_bytes (C_move is such a message) count
 * @param[in]  tasks_per_slot  k of the mean wait (k - 1) l / 2 of each task; 0: 1, nobody waits
 * @param[out] bound           in ns; untouched on failure
 * @return HTC_OK; HTC_EINVAL; HTC_EFULL: of phases there are more than HTC_DAG_EDGES_MAX edges; as htc_dag_bound
 *
 * Cost: O(tasks + edges); 8 bytes a task while it runs.   Since: 0.2
 */
HTC_API htc_status htc_sim_dataflow_bound(const htc_env *env, const htc_sim_dataflow_options *options, uint64_t tasks_per_slot, htc_ns *bound);

#ifdef __cplusplus
}
#endif
#endif
