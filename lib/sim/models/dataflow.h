/* Tasks that wait for tasks and read what these made: what a run has in memory (htcsched/sim_dataflow.h). */
#ifndef HTC_SIM_MODELS_DATAFLOW_H
#define HTC_SIM_MODELS_DATAFLOW_H

#include "core/util.h"
#include "htcsched/sim_dataflow.h"
#include "sim/models/asked.h"
#include "sim/models/thief.h"
#include "sim/scale/scale_private.h"

#define FLOW_NONE UINT32_MAX

/* Ids: a core, whose task ends or whose container is there; two for each node; a task, which hears that a parent has ended or arrives where it was
 * pushed to; and those of the whole run. */
enum { FLOW_STEP, FLOW_NUDGE, FLOW_NODE_IDS };
enum { FLOW_SAMPLE, FLOW_PHASE, FLOW_DISPATCHED, FLOW_RUN_IDS };

/* Draws: lengths, sizes, and by node whom a thief asks, whom a node nudges; where tasks and files are, which member has a record. */
enum { FLOW_LENGTHS, FLOW_THIEVES, FLOW_NUDGES, FLOW_SIZES, FLOW_LAYOUT, FLOW_FILES, FLOW_RECORDS };

/* ---- queues: the task with most input first, of equals the smallest number; at the other end that with least ---- */

typedef struct flow_entry {
    uint64_t bytes;
    uint32_t task, pad;
} flow_entry;

typedef struct flow_ring {
    uint32_t *at, from, n, room;
} flow_ring;

/* What comes in order, as most does at first, stands in a line; the rest in a heap. */
typedef struct flow_queue {
    flow_entry *line, *heap;
    uint32_t    n;                       /* in both */
    uint32_t    line_from, line_n, line_room; /* a ring; its room is a power of two, or 0 */
    uint32_t    heap_n, heap_room;
} flow_queue;

/* A larger piece of memory with the same content; NULL: none, and the old one is as it was. Hosts may have memory that cannot grow in its place. */
void      *htc__dataflow_grown(const htc_env *env, void *old, size_t old_size, size_t size);
int        htc__dataflow_queue_put(const htc_env *env, flow_queue *q, flow_entry e); /* 0: no memory */
flow_entry htc__dataflow_queue_first(flow_queue *q);                                 /* taken; it is not empty */
flow_entry htc__dataflow_queue_last(flow_queue *q);
uint32_t   htc__dataflow_queue_task(const flow_queue *q, uint32_t i);                /* that of the i-th of all, in no order */
int        htc__dataflow_queue_has_order(const flow_queue *q);
size_t     htc__dataflow_queue_bytes(const flow_queue *q);
void       htc__dataflow_queue_free(const htc_env *env, flow_queue *q);

/* ---- the parts of a run ---- */

/* What a task reads: of a task, of a file (tasks + its number), or of a phase (object FLOW_NONE). */
typedef struct flow_input {
    uint64_t bytes;
    uint32_t object, node;
} flow_input;

typedef struct flow_core {
    uint64_t needed, moved, taken; /* bytes; the tick at which the task took it */
    uint32_t task, next;           /* next: of the idle ones of its node */
    uint32_t step;                 /* of what the task reads, it is about to fetch this; FLOW_NONE: it runs */
    uint32_t asked;                /* messages for it that have no event but its next one */
} flow_core;

typedef struct flow_node {
    flow_queue   local, shared, loot;
    htc_locality *policy;
    htc_locality_lengths *lengths;
    uint64_t     due, nudge_at, ended;
    uint64_t     store_free, out_free, in_free; /* when the member of the store and both directions of the link are free again */
    uint64_t     cached;                        /* bytes */
    uint64_t     phase_bytes;                   /* that the tasks of the phase before made here */
    uint64_t     phase_next;                    /* and those of the one that runs */
    uint32_t     newest, oldest;                /* of the cache, by use */
    uint32_t     idle, idle_first;              /* cores */
    uint32_t     other, failures;
    uint32_t     phase, nudged;                 /* of the thief */
    uint32_t     answers, reserved;             /* that it waits for, until its victim is told */
} flow_node;

/* A copy of an object. */
typedef struct flow_copy {
    uint64_t bytes;
    uint32_t node, object;
    uint32_t chain;        /* in the table */
    uint32_t newer, older; /* of the node */
} flow_copy;

/* A graph that is given: children and parents of task t are those from first[t] on. */
typedef struct flow_graph {
    uint32_t *child_first, *child, *parent_first, *parent;
    uint64_t *length_ns, *bytes, *kind;
    uint32_t  tasks, edges, most_parents;
} flow_graph;

typedef struct flow_phase {
    uint64_t          first, tasks;
    htc__scale_drawer length, bytes;
} flow_phase;

typedef struct flow {
    htc_env                  env;
    htc_sim_dataflow_options options;
    htc_steal_options        steal;
    htc_locality_options     locality;
    asked_steal              asked_thief;
    asked_locality           asked_place;
    char                     answer[ASKED_TEXT]; /* of a policy, that is not allowed; "": there was none */
    htc_scale               *scale;
    flow_phase               phase[HTC_SIM_DATAFLOW_PHASES_MAX];
    uint32_t                 phases; /* 0: the graph has none */
    flow_graph               graph;
    uint64_t                 nodes, cores, tasks, edges, half, stride; /* half: of the files; stride: from a pair to that of the next task */
    uint64_t                 hop_load, hop_task, task, store, commit, give, nudge, dispatch, sample, launch, grant, container; /* ticks */
    double                   tick_bytes, disk_tick_bytes, pfs_tick_bytes; /* bytes a tick; 0: at once */
    htc__scale_drawer        length, bytes;
    uint64_t                 lengths_stream, sizes_stream, layout_stream, records_stream;
    uint64_t                 node_id, task_id, run_id; /* the first of each kind */
    int                      has_data;
    flow_node               *node;
    flow_core               *core;
    uint32_t                *waits; /* parents of a task that it has not heard of */
    uint32_t                *where; /* where a task ran, or is pushed to; and where files lie */
    uint32_t                *holder; /* nodes with output of the phase before */
    uint32_t                *asked;  /* for one round */
    uint64_t                *load;
    flow_input              *in;     /* of one task */
    htc_locality_input      *input;
    size_t                   inputs_room;
    flow_copy               *copy;
    uint32_t                *bucket;
    uint32_t                 copies, copies_room, copy_free, buckets;
    flow_ring                queue, free_cores; /* of a dispatcher: tasks, and cores unless data diffuses */
    uint32_t                 teller;            /* whose task's children are told */
    struct flow_state {
        uint64_t started, ended, ready; /* ready: queued, or on their way to a queue */
        uint64_t waiting;               /* tasks that have not heard of all parents */
        uint64_t phase_left, phase_told; /* tasks of the phase that have not ended; when the last one's end is stored */
        uint64_t pfs_free;
        uint64_t rounds, steals, stolen, nudges, pushed, freed;
        uint64_t read_bytes, local_bytes, cached_bytes, moved_bytes;
        uint64_t idle; /* cores, with a dispatcher */
        double   work, held, ready_sum, end_sum; /* ticks: lengths, time in a core, when tasks became ready, when they ended */
        uint32_t phase, holders, next_holders, at_work;
        uint32_t containers;  /* that are not up yet */
        uint32_t phase_waits; /* for these: the job has ended without them */
    } now;
} flow;

static inline uint64_t htc__dataflow_now(const flow *m)
{
    return htc__scale_time(m->scale);
}

static inline htc_ns htc__dataflow_now_ns(const flow *m)
{
    return htc__dataflow_now(m) * m->options.tick_ns;
}

static inline uint32_t htc__dataflow_node_id(const flow *m, uint32_t node, uint32_t what)
{
    return (uint32_t)(m->node_id + node * (uint64_t)FLOW_NODE_IDS + what);
}

static inline int htc__dataflow_is_central(const flow *m)
{
    return m->options.system != HTC_SIM_DATAFLOW_WORKERS;
}

/* ---- dataflow_run.c ---- */

/* What is the same for the whole run, but for the engine. The graph is to be closed, whatever is answered. */
htc_status htc__dataflow_known(const htc_env *env, const htc_sim_dataflow_options *options, flow *m, htc_error *error);

/* ---- dataflow_tape.c ---- */

/* Write, or read into a run that was opened and not begun. HTC_EFORMAT: of other options; HTC_ECORRUPT; what the tape answers. */
htc_status htc__dataflow_tape(flow *m, const htc_scale_tape *tape);

/* ---- dataflow_check.c ---- */

/* What was read of a checkpoint can be. HTC_ECORRUPT; HTC_ENOMEM. */
htc_status htc__dataflow_check(flow *m, const uint8_t *events);

/* ---- dataflow_graph.c ---- */

htc_status htc__dataflow_graph_open(flow *m, htc_error *error); /* sets tasks, edges, phases */
void       htc__dataflow_graph_close(flow *m);
uint32_t   htc__dataflow_parents(const flow *m, uint32_t task);
uint32_t   htc__dataflow_phase_of(const flow *m, uint32_t task); /* 0 without phases */
/* Call each for all children. Not of phases. */
void       htc__dataflow_children(flow *m, uint32_t task, void (*each)(flow *m, uint32_t child, uint64_t arg), uint64_t arg);
/* Parent number k of a task; not of phases. */
uint32_t   htc__dataflow_parent(const flow *m, uint32_t task, uint32_t k);
uint64_t   htc__dataflow_length(const flow *m, uint32_t task); /* ticks */
uint64_t   htc__dataflow_size(const flow *m, uint32_t task);   /* bytes that it makes */
uint64_t   htc__dataflow_kind(const flow *m, uint32_t task);
double     htc__dataflow_longest_path(flow *m); /* ticks; of phases the ideal makespan. -1: no memory; -2: a cycle */
uint64_t   htc__dataflow_inputs_max(const flow *m);

/* ---- dataflow_data.c ---- */

/* Fill m->in with what a task reads; how much. */
uint32_t htc__dataflow_inputs(flow *m, uint32_t task);
int      htc__dataflow_has(const flow *m, uint32_t node, const flow_input *in); /* it lies there or is cached */
/* Does it come from elsewhere? */
int      htc__dataflow_is_far(const flow *m, uint32_t node, const flow_input *in);
/* Fetch it for a core of a node, from tick at on: from when on it is there. The core counts bytes that come from elsewhere, and messages. */
uint64_t htc__dataflow_fetch(flow *m, uint32_t node, flow_core *c, const flow_input *in, uint64_t at);
/* Transfers wait for each other. */
int      htc__dataflow_is_contended(const flow *m);
/* What a task of this node made is there. */
void     htc__dataflow_made(flow *m, uint32_t node, uint32_t task);
void     htc__dataflow_next_phase(flow *m);
/* Put all copies of nodes into the table anew. */
void     htc__dataflow_table(flow *m);
/* What is made goes to the file system, from tick at on: when it is there. */
uint64_t htc__dataflow_written(flow *m, flow_core *c, uint64_t bytes, uint64_t at);
uint64_t htc__dataflow_transfer(double rate, uint64_t bytes); /* ticks */

/* ---- dataflow.c ---- */

void     htc__dataflow_event(htc_scale *scale, void *ctx, uint32_t id);
void     htc__dataflow_soon(const void *ctx, uint32_t id);
void     htc__dataflow_next(const void *ctx, uint32_t id);
void     htc__dataflow_begin(flow *m);
uint32_t htc__dataflow_home(const flow *m, uint32_t task);
void     htc__dataflow_start(flow *m, uint32_t node, uint32_t task, uint64_t delay);
void     htc__dataflow_fetch_next(flow *m, uint32_t core);
void     htc__dataflow_start_all(flow *m, uint32_t node);
void     htc__dataflow_ready(flow *m, uint32_t task); /* counted, and queued by the system */
void     htc__dataflow_put(flow *m, flow_queue *q, flow_entry e);
void     htc__dataflow_idle(flow *m, uint32_t core);

/* ---- dataflow_steal.c ---- */

void htc__dataflow_look(flow *m, uint32_t node); /* for tasks of others, if there is none here */
void htc__dataflow_step(flow *m, uint32_t node);
void htc__dataflow_nudged(flow *m, uint32_t node);
void htc__dataflow_nudge(flow *m, uint32_t node);
void htc__dataflow_nudge_others(flow *m, uint32_t node);

/* ---- dataflow_central.c ---- */

void htc__dataflow_central_ready(flow *m, uint32_t task);
void htc__dataflow_central_work(flow *m);
void htc__dataflow_dispatched(flow *m);
void htc__dataflow_core_is_free(flow *m, uint32_t core);
void htc__dataflow_job_begins(flow *m);
void htc__dataflow_container_is_up(flow *m, uint32_t core);

#endif
