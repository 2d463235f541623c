/**
 * @file htcsched/sim_manytask.h
 * @brief Many tasks on many nodes: the scale model of central, distributed and hierarchical scheduling.
 *
 * Library htcsched-sim (`pkg-config --libs htcsched-sim`).
 *
 * A bag of independent tasks is submitted to nodes of many cores. It waits with one dispatcher, or with the nodes, which steal from each other by
 * the functions of htcsched/steal.h: the same that live workers call. Their exact twin is htcsched/sim_flow.h, in which the real workers do the same
 * message by message: with 16 to 256 slots both agree within 5 % (doc/simulation.md).
 *
 *     htc_sim_manytask_group   nodes = { .size = sizeof nodes, .nodes = 1024, .cores = 1000 };
 *     htc_sim_manytask_options o = { .size = sizeof o, .groups = &nodes, .n_groups = 1, .tasks = 10240000,
 *                                    .architecture = HTC_SIM_MANYTASK_DISTRIBUTED, .length = { HTC_SCALE_UNIFORM, 0, 5000e9, 1 } };
 *     htc_sim_manytask_report  report = { .size = sizeof report };
 *     if (htc_sim_manytask_run(NULL, &o, &report, NULL, NULL) == HTC_OK)
 *         printf("efficiency %.3f, %.0f tasks a second %s\n", report.efficiency, report.throughput, report.scale.wrong);
 *
 * What is simplified: a node's tasks begin as soon as a core is idle, each after task_ns; the loads that a thief hears of are those of one moment, one
 * message after the round has begun; nothing fails. Tasks have no data and do not wait for each other.
 *
 * Threads: pure: runs share nothing but what a policy's ctx does.   Allocation: through env; given back when the run is over.   Source:
 * doc/papers.md, MATRIX, chapter 4 (SimMatrix).
 */
#ifndef HTCSCHED_SIM_MANYTASK_H
#define HTCSCHED_SIM_MANYTASK_H

#include "htcsched/sim_scale.h"
#include "htcsched/steal.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A run has at most this many nodes, */
#define HTC_SIM_MANYTASK_NODES_MAX (UINT64_C(1) << 28)
/** and this many cores. */
#define HTC_SIM_MANYTASK_CORES_MAX (UINT64_C(1) << 31)

/** Who decides where a task runs. */
typedef enum htc_sim_manytask_architecture {
    HTC_SIM_MANYTASK_CENTRAL = 0,  /**< one dispatcher with one queue, first in, first out: dispatch_ns a task, to the node with the fewest busy cores that has a free
                                        one. It waits if there is none. Nodes have no queues */
    HTC_SIM_MANYTASK_DISTRIBUTED,  /**< a queue with each node; nodes with an idle core and no task that waits steal */
    HTC_SIM_MANYTASK_HIERARCHICAL, /**< a tree of dispatchers, each with a queue and dispatch_ns a task: a task goes down to the child with the fewest unfinished tasks
                                        for its cores; the lowest have fanout nodes each, and behave as a central one */
    /* Systems that the paper compares with. */
    HTC_SIM_MANYTASK_FALKON,      /**< a dispatcher notifies an idle executor, of which each core is one, for each task that waits; that asks, gets the task after
                                       dispatch_ns, returns its result, and is acknowledged: two messages more before each task than a central dispatcher */
    HTC_SIM_MANYTASK_FALKON_TREE, /**< a first dispatcher hands tasks on, hand_ns each, to dispatchers with fanout nodes each, in turn whatever these have to do; they
                                       behave as the former. Nothing balances between them */
    HTC_SIM_MANYTASK_SPARROW,     /**< schedulers take placed tasks at a time, ask probes times as many nodes that they draw for their loads (waiting tasks less idle cores),
                                       and after dispatch_ns for each push each task to the least loaded of them; a node's tasks are never moved */
    HTC_SIM_MANYTASK_CLOUDKON     /**< each core pulls one task after the other from a queue on servers, which take dispatch_ns a task, and writes its state to a store, which takes
                                       store_ns, before it asks again */
} htc_sim_manytask_architecture;

/** Where tasks are submitted to, if they wait with the nodes. */
typedef enum htc_sim_manytask_layout {
    HTC_SIM_MANYTASK_ONE = 0, /**< all to the node root: the worst case */
    HTC_SIM_MANYTASK_EACH,    /**< an equal share to each: the best case, if they are as long */
    HTC_SIM_MANYTASK_RANDOM   /**< each to a node that is drawn */
} htc_sim_manytask_layout;

/** Nodes that are alike. */
typedef struct htc_sim_manytask_group {
    size_t   size;     /**< sizeof(htc_sim_manytask_group), of all of an array the same */
    uint64_t nodes;    /**< at least 1; numbers go from group to group */
    uint32_t cores;    /**< of each, at least 1 */
    uint32_t reserved; /**< 0 */
    double   speed;    /**< a task of length t takes t / speed; 0: 1 */
} htc_sim_manytask_group;

/** How things are at a moment. */
typedef struct htc_sim_manytask_sample {
    size_t          size;     /**< sizeof(htc_sim_manytask_sample) */
    htc_ns          at;       /**< virtual time */
    uint64_t        cores;    /**< of all nodes */
    uint64_t        busy;     /**< cores */
    uint64_t        queued;   /**< tasks that are submitted and have not begun */
    uint64_t        ended;    /**< tasks */
    double          rate;     /**< tasks that have ended since the sample before, a second */
    const uint32_t *busy_of;  /**< cores of each node that are busy, by number (options.tiles); lent for the call; NULL: not asked for */
    uint64_t        nodes;    /**< how many these are */
    uint64_t        grid;     /**< all of this is of this one alone */
} htc_sim_manytask_sample;

/** A task has begun, or its core is taken for it. */
typedef struct htc_sim_manytask_task {
    size_t   size;   /**< sizeof(htc_sim_manytask_task) */
    uint64_t number; /**< from 0, in the order of submission; hierarchical: in which they begin */
    uint64_t node;   /**< where it runs */
    htc_ns   begin;  /**< virtual time */
    htc_ns   end;    /**< at which it will end */
    htc_ns   submitted; /**< at which its batch was; 0: at the beginning */
    uint64_t grid;   /**< of which number and node are */
} htc_sim_manytask_task;

/** What is run; every field's zero is a default. The costs' defaults are those of the published simulator. */
typedef struct htc_sim_manytask_options {
    size_t   size;         /**< sizeof(htc_sim_manytask_options) */
    uint64_t seed;         /**< of everything that is drawn */
    uint32_t architecture; /**< htc_sim_manytask_architecture */
    uint32_t layout;       /**< htc_sim_manytask_layout; distributed alone */
    const htc_sim_manytask_group *groups; /**< borrowed */
    size_t   n_groups;     /**< 1 to 255 */
    uint64_t tasks;        /**< at least 1 */
    htc_scale_law length;  /**< of a task: task i takes htc_scale_length(scale, &length, 0, i) */
    const htc_ns *lengths; /**< task i takes lengths[i mod n_lengths] instead; borrowed. NULL: as length says */
    size_t   n_lengths;    /**< at least 1 with lengths */
    uint64_t batch;        /**< tasks are submitted in such batches, (the papers: 1,000,000); 0: all at once. Sparrow's schedulers have all tasks at the beginning */
    uint64_t below;        /**< the next batch comes when fewer wait with the dispatcher, or with the node root (the papers: 200,000); where tasks go to all nodes, a
                                node's share of that. 0: a fifth of batch */
    uint64_t root;         /**< the number of that node */
    const htc_steal_options *steal; /**< borrowed; NULL: every default, but the first wait is 10 ms */
    htc_steal_shape shape; /**< a message takes latency_ns for each hop between two points of this mesh; the dispatchers stand at root. x = 0: every two are one hop apart */
    htc_ns   latency_ns;   /**< of a message; 0: 100 us */
    uint64_t bytes_per_s;  /**< of a link; 0: 6.8 Gb/s */
    uint32_t load_bytes;   /**< size of a message about loads; 0: 100 */
    uint32_t task_bytes;   /**< size of a message with tasks; 0: 1024 */
    uint32_t each_bytes;   /**< and of each further task in it */
    uint32_t in_turn;      /**< 1: a thief asks one neighbour after the other, as the papers do; 0: all at once */
    htc_ns   dispatch_ns;  /**< a dispatcher takes for a task; 0: 1 ms; HTC_NEVER: no time */
    htc_ns   task_ns;      /**< a core is taken for a task for so long before it begins */
    htc_ns   give_ns;      /**< a victim takes until stolen tasks are on their way */
    htc_ns   nudge_ns;     /**< a node that has tasks waiting tells sqrt(n) others, at most 32, at most once in this time (live workers: 10 ms); 0: it does not */
    uint32_t fanout;       /**< hierarchical: children of a dispatcher, at least 2; Falkon's tree: nodes of one; 0: 32 */
    uint32_t tiles;        /**< 1: samples have busy_of */
    htc_ns   tick_ns;      /**< length of a tick; 0: 1 us */
    htc_ns   sample_ns;    /**< between calls of sample; 0: none */
    /**
     * Take a sample. NULL: none. Those of several grids are taken at the same time, if the host has threads; so are tasks told.
     *
     * @param[in] ctx     of the options
     * @param[in] sample  lent for the call
     */
    void (*sample)(void *ctx, const htc_sim_manytask_sample *sample);
    /**
     * Be told of each task. NULL: none.
     *
     * @param[in] ctx   of the options
     * @param[in] task  lent for the call
     */
    void (*begun)(void *ctx, const htc_sim_manytask_task *task);
    void *ctx;                        /**< handed to both */
    const htc_scale_host *host;       /**< borrowed; NULL: every default */
    const htc_scale_tape *resume;     /**< borrowed; it reads a checkpoint of the same options, and the run goes on from there. NULL: it begins */
    const htc_scale_tape *checkpoint; /**< borrowed; a run that the host stops is written there. NULL: nowhere */
    htc_ns   hand_ns;      /**< Falkon's tree: the first dispatcher takes for a task; 0: dispatch_ns; HTC_NEVER: no time */
    htc_ns   store_ns;     /**< CloudKon: the store takes for the state of a task */
    uint32_t schedulers;   /**< Sparrow: how many, at most 65536; 0: 8 */
    uint32_t probes;       /**< Sparrow: nodes that are asked for each task, at most 1024; 0: 2 */
    uint32_t placed;       /**< Sparrow: tasks that are placed at a time, at most 65536; 0: 16 */
    uint32_t servers;      /**< CloudKon: of the queue; 0: as many as nodes */
    uint32_t grids;        /**< so many machines of these groups side by side, each with so many tasks and its own dispatchers or thieves; they share nothing, and run at
                                the same time if the host has threads. At most 256; 0: 1 */
    uint32_t parts;        /**< distributed: the nodes are so many parts, which run at the same time if the host has threads. The run and its hash are those of one part; a
                                checkpoint goes on in as many as it was written with. With several grids, nudge_ns, begun, or a policy that has ctx or settled it is one
                                part; another policy is called by several threads at once. At most 256; 0: 1 */
} htc_sim_manytask_options;

/** How it went. */
typedef struct htc_sim_manytask_report {
    size_t   size;        /**< sizeof(htc_sim_manytask_report), set by the caller */
    uint32_t interrupted; /**< 1: the host has stopped it, and this is what there was */
    uint32_t reserved;    /**< 0 */
    uint64_t nodes;       /**< of all groups and grids */
    uint64_t cores;       /**< of all nodes */
    uint64_t memory;      /**< bytes of the model and the engine */
    uint64_t rounds;      /**< of thieves, in which somebody was asked */
    uint64_t steals;      /**< of these, that brought tasks */
    uint64_t stolen;      /**< tasks, each time that one was */
    uint64_t nudges;      /**< that were sent */
    double   throughput;  /**< tasks a second of the makespan */
    double   efficiency;  /**< what an ideal machine takes at least (all lengths divided by cores times speed, or the longest task as it ran), as a part of the makespan; 0 if it was interrupted */
    double   utilisation; /**< busy core time, as a part of cores times makespan */
    double   cv;          /**< coefficient of variation over all nodes of the tasks that each has ended */
    htc_scale_report scale; /**< of the engine, its size set by the callee; wrong: what is not conserved */
} htc_sim_manytask_report;

/**
 * What a run needs, before it is begun.
 *
 * @param[in]  options  borrowed
 * @param[out] bytes    of memory; untouched on failure
 * @return HTC_OK; HTC_EINVAL if a pointer is NULL or a number out of range; HTC_EABI
 *
 * Cost: O(groups).   Since: 0.2
 */
HTC_API htc_status htc_sim_manytask_memory(const htc_sim_manytask_options *options, uint64_t *bytes);

/**
 * Run until every task has ended, or the host stops it.
 *
 * @param[in]  env      its allocator alone is looked at (NULL: malloc)
 * @param[in]  options  borrowed
 * @param[out] report   filled as far as its size says
 * @param[out] ended    the tasks that each node has ended, one for each node of each grid, caller-allocated; NULL is fine
 * @param[out] error    why; NULL is fine
 * @return HTC_OK, whatever became of the run; HTC_EINVAL if something is missing or out of range, or what a policy chooses is; HTC_EFORMAT: the
 *         checkpoint is not of these options; HTC_ECORRUPT; what a tape or a policy answers; HTC_ETOOBIG: it needs more memory than host.memory_max, or more
 *         ticks than there are; HTC_EFULL: more events wait than fit; HTC_EABI; HTC_ENOMEM
 *
 * Cost: 30 to 100 ns a task; a round some 10 ns a neighbour. 8.2 bytes a core that may be busy at once, some 140 bytes a node with a queue, 24 without; Falkon takes 4 more a core; each of several parts 1 MiB and 12 bytes for
 * each node of all.   Since: 0.2
 */
HTC_API htc_status htc_sim_manytask_run(const htc_env *env, const htc_sim_manytask_options *options, htc_sim_manytask_report *report, uint64_t *ended, htc_error *error);

#ifdef __cplusplus
}
#endif
#endif
