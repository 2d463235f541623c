/* Many tasks on many nodes: what a run has in memory (htcsched/sim_manytask.h). All of it is arrays without pointers into each other. */
#ifndef HTC_SIM_MODELS_MANYTASK_H
#define HTC_SIM_MODELS_MANYTASK_H

#include "htcsched/sim_manytask.h"
#include "sim/models/asked.h"
#include "sim/models/thief.h"
#include "sim/scale/scale_private.h"

#define MANY_NONE  UINT32_MAX
#define MANY_AHEAD 16u /* events before an end of a task at which its node is fetched into the cache */
#define MANY_LONG  32u /* events that the front of the queue has at least for that */

/* A node has so many ids; of one tick, node after node, tasks end first. Behind those of the nodes two for each dispatcher, and that of the samples. */
enum { MANY_END, MANY_STEP, MANY_NUDGE, MANY_NODE_IDS = 4 };
enum { MANY_DISPATCHED, MANY_ARRIVED, MANY_CHIEF_IDS };

/* Draws: the lengths of tasks, and by node whom a thief asks, where tasks are put, whom a node nudges. */
enum { MANY_LENGTHS, MANY_THIEVES, MANY_LAYOUT, MANY_NUDGES };
#define MANY_SCHEDULERS (UINT64_C(1) << 40) /* behind all nodes; 65536 of each grid */

/* A node with a queue; a cache line. The queue is a span, and others in the pool. */
typedef struct many_node {
    uint64_t first, front; /* the number of the first task, and how many follow from there */
    uint64_t ended;
    uint64_t due;      /* when its thief's event happens: others are stale */
    uint64_t nudge_at; /* the earliest */
    uint32_t more, last; /* other spans, the second and the last; MANY_NONE: none */
    uint32_t idle;       /* cores */
    uint32_t other;      /* who is robbed */
    uint32_t loot;       /* spans that are on their way; MANY_NONE: none. Until the victim is told: how many answers are */
    uint16_t failures;
    uint8_t  phase : 4, nudged : 4;
    uint8_t  group;
} many_node;

typedef struct many_span {
    uint64_t first, n;
    uint32_t before, next;
} many_span;

/* A node without a queue, in the list of those of its dispatcher that are as busy. */
typedef struct many_seat {
    uint64_t ended;
    uint32_t before, next;
    uint32_t busy;
    uint32_t group;
} many_seat;

/* A dispatcher; the first one is the root. */
typedef struct many_chief {
    uint64_t queue;      /* tasks that wait here */
    uint64_t load;       /* tasks that were sent here and have not ended; Falkon: tasks of the queue that an executor was notified of; Sparrow: the first one of queue */
    uint64_t cores;      /* of its nodes */
    uint64_t free;       /* of these, that nothing runs on: of a lowest one alone */
    uint64_t ring, head, asked; /* Falkon: its requests, of which there is room for cores; Sparrow: ring is where its targets are */
    uint32_t up;         /* MANY_NONE: it is the root */
    uint32_t first, n;   /* its children: dispatchers, or nodes of a lowest one */
    uint16_t lowest, at_work;
} many_chief;

typedef struct many_group {
    uint64_t first; /* its first node */
    uint32_t cores, reserved;
    double   speed;
} many_group;

struct many_ahead;

/* One grid, or one part of a grid; they stand in an array, and its first one has what is of all. Nodes, spans and tasks that wait are of all parts. */
typedef struct many {
    htc_env                  env;
    htc_sim_manytask_options options;
    htc_steal_options        steal;
    asked_steal              asked_policy;
    char                     answer[ASKED_TEXT]; /* of the policy, that is not allowed; "": there was none */
    htc_scale               *scale;
    many_group               group[255];
    uint64_t                 nodes, cores, chiefs, levels;
    double                   power; /* cores times their speeds */
    uint64_t                 below, dispatch, task, give, nudge, sample, hand, store; /* ticks, but for below */
    uint64_t                 ring_size, servers; /* of the tables below */
    uint64_t                 grid, ids, first_id, first_node, first_task; /* ids: of a grid; the others: what comes before in the grids before */
    uint64_t                 hop_load, hop_task; /* a message to a place one hop away */
    htc__scale_drawer        length;
    uint64_t                 stream, id_mask;
    uint64_t                 drawn, drawn_of; /* central: the length of that task, drawn before it begins; one more than its number, 0: none */
    uint32_t                *asked; /* for one round */
    uint64_t                *load;
    uint32_t                *tile;
    uint64_t                 batches; /* whose submission is noted; 0: that of none is told */
    void                    *node_block; /* node, before it was aligned */
    struct many             *home;    /* where spans, submissions and samples are counted: the first of the parts, or itself */
    struct many_ahead       *ahead;   /* of a grid in parts; NULL: it has one */
    uint64_t                 at;      /* of a part: the event that happens now */
    uint32_t                 block_bits; /* of a grid in parts: so many nodes, as a power of two, lie in one part together */
    /* What follows, and the engine, is what a checkpoint has. */
    many_node  *node;
    uint64_t   *waiting; /* tasks of each node that have not begun */
    many_span  *span;
    many_seat  *seat;
    many_chief *chief;
    uint32_t   *busy_list; /* central: the first seat with so many busy cores */
    uint32_t   *ring;     /* Falkon: executors that have asked; Sparrow: nodes that tasks go to */
    uint64_t   *until;    /* CloudKon: each server of the queue has something to do until then */
    uint64_t   *batch_at; /* when each batch was submitted; NULL: nobody asks */
    struct many_state {
        uint64_t submitted, started, ended;
        uint64_t work; /* lengths of tasks that have begun, in ticks, before a node's speed */
        uint64_t rounds, steals, stolen, nudges, placed; /* placed: tasks that a scheduler has taken, or a first dispatcher handed on */
        uint64_t sampled_at, sampled_ended, sample_next;
        uint64_t last_end; /* of a part: the last key of an end of a task that it ever asked for */
        uint32_t spans, span_free, spans_used, fewest; /* spans: there is room for; fewest: nobody has a list below that */
    } now;
    char apart[128]; /* parts follow each other in an array */
} many;

static inline uint32_t htc__many_id(const many *m, uint64_t node, uint32_t what)
{
    return (uint32_t)(m->first_id + node * MANY_NODE_IDS + what);
}

static inline uint32_t htc__many_chief_id(const many *m, uint32_t chief, uint32_t what)
{
    return (uint32_t)(m->first_id + m->nodes * MANY_NODE_IDS + chief * (uint64_t)MANY_CHIEF_IDS + what);
}

static inline uint32_t htc__many_sample_id(const many *m)
{
    return htc__many_chief_id(m, (uint32_t)m->chiefs, 0);
}

/* Ticks of a task, on a node of speed 1. */
static inline uint64_t htc__many_length(const many *m, uint64_t number)
{
    const htc_sim_manytask_options *o = &m->options;
    return o->lengths                ? htc_scale_ticks(m->scale, o->lengths[(m->first_task + number) % o->n_lengths]) :
           m->drawn_of == number + 1 ? m->drawn :
                                       htc__scale_drawer_ticks(&m->length, htc__scale_draw(m->stream, m->first_task + number));
}

/* And on nodes of this group. */
static inline uint64_t htc__many_length_on(const many *m, uint64_t length, uint32_t group)
{
    double speed = m->group[group].speed;
    if (speed == 1)
        return length;
    double slower = (double)length / speed;
    return slower < 4e18 ? (uint64_t)(slower + 0.5) : UINT64_MAX / 4;
}

/* So many of the next tasks are submitted now. */
static inline uint64_t htc__many_next_batch(many *m)
{
    const htc_sim_manytask_options *o = &m->options;
    uint64_t                        left = o->tasks - m->home->now.submitted, n = o->batch && o->batch < left ? o->batch : left;
    if (m->batch_at)
        m->batch_at[m->home->now.submitted / o->batch] = htc__scale_time(m->scale);
    m->home->now.submitted += n;
    htc_scale_submit(m->scale, n);
    return n;
}

/* Start the task with this number, delay ticks from now. */
static inline void htc__many_start(many *m, uint64_t node, uint32_t group, uint64_t number, uint64_t delay)
{
    uint64_t length = htc__many_length(m, number), end;
    m->now.work += length;
    length = htc__many_length_on(m, length, group);
    m->now.started++;
    (void)htc_scale_start(m->scale, htc__many_id(m, node, MANY_END), delay, length);
    end = (htc_scale_now(m->scale) + delay + length) << m->scale->id_bits | htc__many_id(m, node, MANY_END);
    m->now.last_end = end > m->now.last_end ? end : m->now.last_end;
    if (m->options.begun) {
        htc_ns begin = (htc__scale_time(m->scale) + delay) * m->options.tick_ns;
        m->options.begun(m->options.ctx, &(htc_sim_manytask_task){ .size = sizeof(htc_sim_manytask_task), .number = number, .node = node, .begin = begin,
                                                                   .end = begin + length * m->options.tick_ns,
                                                                   .grid = m->grid, .submitted = m->batch_at && number < m->options.tasks ? m->batch_at[number / m->options.batch] * m->options.tick_ns : 0 });
    }
}

/* Ticks of a message of so many bytes over so many hops. */
uint64_t htc__many_message(const many *m, uint64_t hops, double bytes);
/* Hops between two nodes. */
uint32_t htc__many_hops(const many *m, uint64_t a, uint64_t b);

static inline void htc__many_fetch(const many *m, uint64_t key)
{
    uint64_t node = ((key & m->id_mask) - m->first_id) / MANY_NODE_IDS;
    if (node >= m->nodes)
        return;
    if (m->node) {
        __builtin_prefetch(&m->node[node], 1);
        __builtin_prefetch(&m->waiting[node], 1);
    } else {
        __builtin_prefetch(&m->seat[node], 1);
    }
}

/* The nodes of events that happen soon, while others do: of a long bottom each some events before it, of a short one those that come after it. */
static inline void htc__many_look_ahead(const many *m)
{
    const ladder   *q = m->scale->queue;
    const uint64_t *next;
    if (q->bottom_n > MANY_LONG) {
        htc__many_fetch(m, q->bottom[q->bottom_n - MANY_AHEAD]);
        return;
    }
    uint32_t n = htc__ladder_next_keys(q, &next);
    for (uint32_t i = 2 * q->bottom_n; i < n && i < 2 * q->bottom_n + 2; i++)
        htc__many_fetch(m, next[i]);
}

/* manytask_tape.c: a grid written, or read. manytask_check.c: what was read of it can be. HTC_ECORRUPT; HTC_ENOMEM. manytask_run.c: of the node that has most. */
htc_status htc__many_move_grid(many *m, const htc_scale_tape *tape);
htc_status htc__many_check(const many *m, const uint8_t *events);
uint32_t   htc__many_cores_max(const many *m);

/* manytask_steal.c: queues with the nodes. The next batch is to be submitted, or not; the first one too. */
void htc__many_end_queued(many *m, uint32_t node);
void htc__many_step(many *m, uint32_t node);
void htc__many_nudged(many *m, uint32_t node);
void htc__many_submit_queued(many *m);
void htc__many_begin_queued(many *m);

/* manytask_dispatch.c: queues with the dispatchers. */
void htc__many_end_seated(many *m, uint32_t node);
void htc__many_dispatched(many *m, uint32_t chief);
void htc__many_arrived(many *m, uint32_t chief);
void htc__many_begin_seated(many *m);
/* Dispatchers of a tree over so many nodes; and each of them. */
uint64_t htc__many_chiefs(uint64_t nodes, uint64_t fanout, uint64_t *levels);
void     htc__many_seat(many *m);

/* The one that the next task of a lowest dispatcher goes to: there is one with room. And so many of its cores are busy now. */
uint32_t htc__many_free_seat(many *m, uint32_t chief);
void     htc__many_seat_busy(many *m, uint32_t node, uint32_t busy);
/* A task is on its way to a node's queue; the first that is has arrived there. A task of a node that does not steal has ended. */
void htc__many_send_one(many *m, uint32_t node, uint64_t number);
void htc__many_take_one(many *m, uint32_t node);
void htc__many_end_kept(many *m, uint32_t node);

/* manytask_others.c: the systems that the paper compares with. */
void htc__many_begin_other(many *m);
void htc__many_other_step(many *m, uint32_t node);
void htc__many_other_ends(many *m, uint32_t node);
void htc__many_other_dispatched(many *m, uint32_t chief);
void htc__many_other_arrived(many *m, uint32_t chief);

static inline int htc__many_is_other(const many *m)
{
    return m->options.architecture >= HTC_SIM_MANYTASK_FALKON;
}

void htc__many_event(htc_scale *scale, void *ctx, uint32_t id);
void htc__many_soon(const void *ctx, uint32_t id); /* of one grid alone, as next */
void htc__many_next(const void *ctx, uint32_t id);
void htc__many_grid_event(htc_scale *scale, void *ctx, uint32_t id); /* of several grids */
void htc__many_begin(many *m);

/* manytask_ahead.c: a grid in parts, whose nodes go ahead of each other as long as they only end tasks and start the next ones that wait there. Parts take
 * blocks of nodes in turn, of as many as leave each part two: what two threads write lies apart then, and is fetched for one alone. */
#define MANY_BLOCK_BITS 4u
#define MANY_BLOCK_MOST 10u

static inline uint32_t htc__many_parts(const many *m)
{
    return m->options.parts;
}

/* The part that has this node. */
static inline many *htc__many_part(many *m, uint32_t node)
{
    return m->ahead ? m->home + (node >> m->block_bits) % m->options.parts : m;
}

/* Nodes below this number that a part has. */
uint64_t   htc__many_nodes_of(const many *m, uint32_t part, uint64_t below);
uint64_t   htc__many_ahead_memory(const many *m);
htc_status htc__many_ahead_open(many *all);
void       htc__many_ahead_close(many *all);
/* As run.turn has it. */
int        htc__many_turn(run *r, uint64_t events);
/* Every task has ended, as of the event that happens now. */
int        htc__many_all_ended(const many *m);
/* Of all parts. */
struct many_state htc__many_total(const many *m);

#endif
