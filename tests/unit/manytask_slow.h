/* The many-task model again, slow and obvious: queues are lists of task numbers, every message is an event that carries what it says, and the next
 * event is looked for among all. The htc_steal_* functions alone are shared. */
#ifndef HTC_TEST_MANYTASK_SLOW_H
#define HTC_TEST_MANYTASK_SLOW_H

#include <stdlib.h>
#include <string.h>

#include "htcsched/sim_manytask.h"
#include "sim/scale/draw.h"

#define SLOW_NODES  64
#define SLOW_TASKS  6000
#define SLOW_EVENTS 40000
#define SLOW_CHIEFS 128

enum { SLOW_END, SLOW_STEP, SLOW_NUDGE }; /* as the model's ids have it, for the order within a tick */
enum { SLOW_TASK_ENDS, SLOW_WAIT_ENDS, SLOW_QUESTION, SLOW_REQUEST, SLOW_ANSWER, SLOW_NUDGED, SLOW_DISPATCHED, SLOW_ARRIVED };

typedef struct slow_event {
    uint64_t  tick, id;
    int       what;
    uint32_t  node, other;
    uint64_t  wait; /* number of the wait that ends */
    uint64_t  begun;
    uint64_t *loot, n;
    uint64_t  order; /* of those that happen to one thing at one moment the first one asked for comes first */
} slow_event;

typedef struct slow_node {
    uint64_t        task[SLOW_TASKS], n; /* that wait, the first one first */
    uint32_t        cores, busy;
    double          speed;
    uint64_t        ended, nudge_at, wait, stamp;
    int             waits, in_round;
    htc_steal_thief thief;
} slow_node;

typedef struct slow_chief {
    uint64_t queue, load, cores, busy;
    int      at_work;
} slow_chief;

typedef struct slow {
    const htc_sim_manytask_options *o;
    htc_steal_options               steal;
    uint32_t                        nodes;
    slow_node                       node[SLOW_NODES];
    slow_chief                      chief[8][SLOW_CHIEFS]; /* by level, the lowest first */
    uint32_t                        levels, width[8];
    slow_event                      event[SLOW_EVENTS];
    size_t                          n_events;
    uint64_t                        now, submitted, started, ended, stamps, orders;
    uint64_t                        rounds, steals, stolen, nudges, messages, last_end;
    htc_sim_manytask_task           log[SLOW_TASKS];
} slow;

static inline uint64_t slow_ticks(const slow *s, double ns)
{
    return (uint64_t)(ns / (double)s->o->tick_ns + 0.5);
}

static inline uint64_t slow_way(const slow *s, uint32_t a, uint32_t b, double bytes)
{
    uint32_t hops = 1;
    if (s->o->shape.x)
        htc_steal_hops(&s->o->shape, a, b, &hops);
    uint64_t wire = (uint64_t)(bytes * 1e9 / (double)s->o->bytes_per_s + 0.5);
    return slow_ticks(s, (double)(s->o->latency_ns * hops + wire));
}

/* One hop. */
static inline uint64_t slow_near(const slow *s, double bytes)
{
    return slow_ticks(s, (double)(s->o->latency_ns + (uint64_t)(bytes * 1e9 / (double)s->o->bytes_per_s + 0.5)));
}

static inline void slow_at(slow *s, slow_event e)
{
    if (s->n_events == SLOW_EVENTS)
        abort();
    e.order = s->orders++;
    s->event[s->n_events++] = e;
}

static inline int slow_before(const slow_event *a, const slow_event *b)
{
    return a->tick != b->tick ? a->tick < b->tick : a->id != b->id ? a->id < b->id : a->order < b->order;
}

static inline uint64_t slow_length(const slow *s, uint64_t number)
{
    htc__scale_drawer d = htc__scale_drawer_of(&s->o->length, s->o->tick_ns);
    if (s->o->lengths)
        return slow_ticks(s, (double)s->o->lengths[number % s->o->n_lengths]);
    return htc__scale_drawer_ticks(&d, htc__scale_draw(htc__scale_stream(s->o->seed, 0), number));
}

static inline void slow_start(slow *s, uint32_t i, uint64_t number, uint64_t delay)
{
    uint64_t length = slow_length(s, number);
    if (s->node[i].speed != 1)
        length = (uint64_t)((double)length / s->node[i].speed + 0.5);
    s->node[i].busy++;
    s->log[s->started++] = (htc_sim_manytask_task){ .number = number, .node = i, .begin = (s->now + delay) * s->o->tick_ns, .end = (s->now + delay + length) * s->o->tick_ns };
    slow_at(s, (slow_event){ .tick = s->now + delay + length, .id = i * UINT64_C(4) + SLOW_END, .what = SLOW_TASK_ENDS, .node = i });
}

static inline htc_rng slow_rng(const slow *s, uint32_t i, uint32_t what)
{
    return (htc_rng){ htc__scale_draw(htc__scale_stream(s->o->seed, (uint64_t)i << 2 | what), s->now) };
}

/* ---- nodes that steal ---- */

static inline int slow_hungry(const slow *s, uint32_t i)
{
    return s->node[i].busy < s->node[i].cores && s->node[i].n == 0;
}

static inline void slow_look(slow *s, uint32_t i)
{
    slow_node *v = &s->node[i];
    if (!slow_hungry(s, i) || s->nodes < 2 || s->ended == s->o->tasks || v->waits || v->in_round || htc_steal_due(&v->thief) > s->now * s->o->tick_ns)
        return;
    v->in_round = 1;
    slow_at(s, (slow_event){ .tick = s->now + slow_near(s, s->o->load_bytes), .id = i * UINT64_C(4) + SLOW_STEP, .what = SLOW_QUESTION, .node = i, .begun = s->now });
}

static inline void slow_start_all(slow *s, uint32_t i)
{
    slow_node *v = &s->node[i];
    while (v->n && v->busy < v->cores) {
        slow_start(s, i, v->task[0], slow_ticks(s, (double)s->o->task_ns));
        memmove(v->task, v->task + 1, --v->n * sizeof *v->task);
    }
}

static inline void slow_nudge_others(slow *s, uint32_t i)
{
    uint32_t to[32], n = htc_steal_neighbours(HTC_STEAL_SQRT, s->nodes);
    if (!s->o->nudge_ns || !s->node[i].n || s->now < s->node[i].nudge_at || s->nodes < 2)
        return;
    s->node[i].nudge_at = s->now + slow_ticks(s, (double)s->o->nudge_ns);
    htc_rng rng = slow_rng(s, i, 3);
    htc_steal_pick(&rng, s->nodes, i, n < 32 ? n : 32, to);
    for (uint32_t k = 0; k < n && k < 32; k++) {
        s->nudges++;
        s->messages++;
        slow_at(s, (slow_event){ .tick = s->now + slow_way(s, i, to[k], s->o->load_bytes), .id = to[k] * UINT64_C(4) + SLOW_NUDGE, .what = SLOW_NUDGED, .node = to[k] });
    }
}

/* A nudge before a round was begun in earnest comes within it. */
static inline void slow_nudge(slow *s, uint32_t i)
{
    slow_node *v = &s->node[i];
    if (v->in_round && v->thief.round == 0)
        v->thief.round = 2;
    else
        htc_steal_nudge(&v->thief, s->now * s->o->tick_ns);
    v->waits = 0;
    v->wait++;
}

static inline void slow_place(slow *s, uint32_t i, uint64_t number, uint64_t n)
{
    slow_node *v = &s->node[i];
    if (!n)
        return;
    for (uint64_t t = number; t < number + n; t++)
        v->task[v->n++] = t;
    slow_start_all(s, i);
    slow_nudge(s, i);
    slow_nudge_others(s, i);
}

static inline void slow_submit(slow *s)
{
    const htc_sim_manytask_options *o = s->o;
    uint64_t below = o->batch ? o->below ? o->below : (o->batch + 4) / 5 : 0;
    if (o->layout != HTC_SIM_MANYTASK_ONE)
        below = (below + s->nodes - 1) / s->nodes;
    while (s->submitted < o->tasks && (s->submitted == 0 || s->node[o->root].n < below)) {
        uint64_t first = s->submitted, n = o->batch && o->batch < o->tasks - first ? o->batch : o->tasks - first, count[SLOW_NODES] = { 0 };
        s->submitted += n;
        for (uint64_t t = 0; t < n; t++) {
            uint32_t to = (uint32_t)o->root;
            if (o->layout == HTC_SIM_MANYTASK_EACH)
                to = (uint32_t)(t % s->nodes);
            if (o->layout == HTC_SIM_MANYTASK_RANDOM)
                to = (uint32_t)((htc__scale_draw(htc__scale_stream(o->seed, 2), first + t) >> 32) * s->nodes >> 32);
            count[to]++;
        }
        for (uint32_t i = 0; i < s->nodes; first += count[i++])
            slow_place(s, i, first, count[i]);
    }
}

static inline void slow_question(slow *s, const slow_event *e)
{
    uint32_t   asked[SLOW_NODES], n = 0, place = 0, i = e->node;
    uint64_t   load[SLOW_NODES], trip = 2 * slow_near(s, s->o->load_bytes), sum = 0;
    slow_node *v = &s->node[i];
    htc_rng    rng = slow_rng(s, i, 1);
    uint32_t   nudged = v->thief.round;
    if (s->ended == s->o->tasks) {
        v->in_round = 0;
        return;
    }
    v->thief.round = 0;
    htc_status status = htc_steal_ask(&v->thief, &s->steal, e->begun * s->o->tick_ns, &rng, s->nodes - 1, asked, &n);
    if (status == HTC_AGAIN) {
        v->in_round = 0;
        return;
    }
    if (status != HTC_OK)
        abort();
    if (nudged)
        v->thief.round = nudged;
    s->rounds++;
    s->messages += 2 * n;
    for (uint32_t k = 0; k < n; k++) {
        load[k] = s->node[asked[k]].n;
        uint64_t there = 2 * slow_way(s, i, asked[k], s->o->load_bytes);
        trip = there > trip ? there : trip;
        sum += there;
    }
    if (s->o->in_turn)
        trip = sum;
    slow_event next = { .tick = e->begun + trip, .id = i * UINT64_C(4) + SLOW_STEP, .what = SLOW_ANSWER, .node = i, .other = UINT32_MAX };
    if (htc_steal_victim(load, n, &place) == HTC_OK) {
        next.what = SLOW_REQUEST;
        next.other = asked[place];
        next.tick += slow_way(s, i, next.other, s->o->load_bytes);
        s->messages++;
    }
    slow_at(s, next);
}

static inline void slow_request(slow *s, const slow_event *e)
{
    slow_node *v = &s->node[e->other];
    uint64_t   amount = 0;
    slow_event next = { .id = e->node * UINT64_C(4) + SLOW_STEP, .what = SLOW_ANSWER, .node = e->node, .other = e->other };
    if (htc_steal_give(&s->steal, v->n, v->cores - v->busy, &amount) != HTC_OK)
        abort();
    v->n -= amount;
    next.n = amount;
    next.loot = malloc((amount + 1) * sizeof *next.loot);
    memcpy(next.loot, v->task + v->n, amount * sizeof *next.loot);
    s->messages++;
    next.tick = s->now + slow_way(s, e->other, e->node, amount ? s->o->task_bytes + (double)s->o->each_bytes * (double)(amount - 1) : s->o->load_bytes) +
                (amount ? slow_ticks(s, (double)s->o->give_ns) : 0);
    slow_at(s, next);
    if (e->other == s->o->root)
        slow_submit(s);
}

/* The loot keeps the order of its spans, of which the last one comes first: by itself a list of numbers does not know where spans begin, so the order in
 * which they were put together is that of the numbers' runs. */
static inline void slow_take(slow_node *v, const slow_event *e)
{
    uint64_t end = e->n;
    while (end) {
        uint64_t begin = end - 1;
        while (begin && e->loot[begin - 1] + 1 == e->loot[begin])
            begin--;
        for (uint64_t k = begin; k < end; k++)
            v->task[v->n++] = e->loot[k];
        end = begin;
    }
}

static inline void slow_answer(slow *s, const slow_event *e)
{
    slow_node *v = &s->node[e->node];
    uint64_t   now = s->now * s->o->tick_ns;
    slow_take(v, e);
    free(e->loot);
    s->steals += e->n > 0;
    s->stolen += e->n;
    if (htc_steal_settle(&v->thief, &s->steal, now, e->n ? e->other : HTC_STEAL_NOBODY, e->n) != HTC_OK)
        abort();
    v->in_round = 0;
    slow_start_all(s, e->node);
    slow_nudge_others(s, e->node);
    if (!slow_hungry(s, e->node) || s->ended == s->o->tasks)
        return;
    htc_ns due = htc_steal_due(&v->thief);
    if (due != HTC_NEVER && due > now) {
        uint64_t wait = slow_ticks(s, (double)(due - now));
        v->waits = 1;
        slow_at(s, (slow_event){ .tick = s->now + (wait ? wait : 1), .id = e->node * UINT64_C(4) + SLOW_STEP, .what = SLOW_WAIT_ENDS, .node = e->node, .wait = ++v->wait });
    }
    slow_look(s, e->node);
}

static inline void slow_ends_queued(slow *s, uint32_t i)
{
    slow_node *v = &s->node[i];
    v->busy--;
    if (v->n) {
        slow_start_all(s, i);
        slow_nudge_others(s, i);
    }
    slow_look(s, i);
    if (i == s->o->root)
        slow_submit(s);
}

/* ---- dispatchers ---- */

static inline uint64_t slow_chief_id(const slow *s, uint32_t level, uint32_t k)
{
    uint64_t before = 0;
    for (uint32_t l = s->levels; l-- > level + 1;)
        before += s->width[l];
    return s->nodes * UINT64_C(4) + 2 * (before + k);
}

static inline uint32_t slow_node_for(const slow *s, uint32_t k)
{
    uint32_t first = s->levels == 1 ? 0 : k * s->o->fanout, end = s->levels == 1 ? s->nodes : first + s->o->fanout, best = UINT32_MAX;
    for (uint32_t i = first; i < end && i < s->nodes; i++) {
        const slow_node *v = &s->node[i];
        if (v->busy == v->cores)
            continue;
        if (best == UINT32_MAX || v->busy < s->node[best].busy || (s->levels == 1 && v->busy == s->node[best].busy && v->stamp > s->node[best].stamp))
            best = i;
    }
    return best;
}

static inline void slow_work(slow *s, uint32_t level, uint32_t k);

static inline void slow_dispatch(slow *s, uint32_t level, uint32_t k)
{
    slow_chief *c = &s->chief[level][k];
    uint64_t    below = s->o->batch ? s->o->below ? s->o->below : (s->o->batch + 4) / 5 : 0;
    c->queue--;
    if (level == s->levels - 1 && c->queue < below && s->submitted < s->o->tasks) {
        uint64_t left = s->o->tasks - s->submitted, n = s->o->batch < left ? s->o->batch : left;
        s->submitted += n;
        c->queue += n;
        c->load += n;
    }
    if (level == 0) {
        uint32_t i = slow_node_for(s, k);
        uint64_t way = slow_near(s, s->o->task_bytes) + slow_near(s, s->o->load_bytes);
        if (s->o->shape.x)
            way = slow_way(s, (uint32_t)s->o->root, i, s->o->task_bytes) + slow_way(s, (uint32_t)s->o->root, i, s->o->load_bytes);
        c->busy++;
        s->messages += 2;
        s->node[i].stamp = ++s->stamps;
        slow_start(s, i, s->started, way + slow_ticks(s, (double)s->o->task_ns));
        return;
    }
    uint32_t best = k * s->o->fanout;
    for (uint32_t x = best + 1; x < (k + 1) * s->o->fanout && x < s->width[level - 1]; x++) {
        const slow_chief *a = &s->chief[level - 1][x], *b = &s->chief[level - 1][best];
        if (a->load * b->cores < b->load * a->cores)
            best = x;
    }
    s->chief[level - 1][best].load++;
    s->messages++;
    slow_at(s, (slow_event){ .tick = s->now + slow_near(s, s->o->task_bytes), .id = slow_chief_id(s, level - 1, best) + 1, .what = SLOW_ARRIVED, .node = best, .other = level - 1 });
}

static inline void slow_work(slow *s, uint32_t level, uint32_t k)
{
    slow_chief *c = &s->chief[level][k];
    uint64_t    ticks = s->o->dispatch_ns == HTC_NEVER ? 0 : slow_ticks(s, (double)s->o->dispatch_ns);
    while (!c->at_work && c->queue && (level > 0 || c->busy < c->cores)) {
        if (ticks) {
            c->at_work = 1;
            slow_at(s, (slow_event){ .tick = s->now + ticks, .id = slow_chief_id(s, level, k), .what = SLOW_DISPATCHED, .node = k, .other = level });
        } else {
            slow_dispatch(s, level, k);
        }
    }
}

static inline void slow_ends_seated(slow *s, uint32_t i)
{
    uint32_t k = s->levels == 1 ? 0 : i / s->o->fanout, leaf = k;
    s->node[i].busy--;
    s->node[i].stamp = ++s->stamps;
    s->chief[0][k].busy--;
    for (uint32_t level = 0; level < s->levels; level++, k /= s->o->fanout)
        s->chief[level][k].load--;
    slow_work(s, 0, leaf);
}

static inline void slow_plant(slow *s)
{
    uint32_t below = s->nodes;
    if (s->o->architecture == HTC_SIM_MANYTASK_CENTRAL) {
        s->levels = s->width[0] = 1;
        for (uint32_t i = 0; i < s->nodes; i++) {
            s->chief[0][0].cores += s->node[i].cores;
            s->node[i].stamp = s->nodes - i;
        }
        s->stamps = s->nodes;
        return;
    }
    do {
        s->width[s->levels] = (below + s->o->fanout - 1) / s->o->fanout;
        for (uint32_t k = 0; k < below; k++)
            s->chief[s->levels][k / s->o->fanout].cores += s->levels ? s->chief[s->levels - 1][k].cores : s->node[k].cores;
        below = s->width[s->levels++];
    } while (below > 1);
}

/* ---- all ---- */

static inline void slow_happens(slow *s, const slow_event *e)
{
    slow_node *v = e->node < SLOW_NODES ? &s->node[e->node] : NULL;
    switch (e->what) {
    case SLOW_TASK_ENDS:
        s->ended++;
        v->ended++;
        s->last_end = s->now;
        if (s->o->architecture == HTC_SIM_MANYTASK_DISTRIBUTED)
            slow_ends_queued(s, e->node);
        else
            slow_ends_seated(s, e->node);
        break;
    case SLOW_WAIT_ENDS:
        if (v->waits && v->wait == e->wait) {
            v->waits = 0;
            slow_look(s, e->node);
        }
        break;
    case SLOW_QUESTION:
        slow_question(s, e);
        break;
    case SLOW_REQUEST:
        slow_request(s, e);
        break;
    case SLOW_ANSWER:
        slow_answer(s, e);
        break;
    case SLOW_NUDGED:
        slow_nudge(s, e->node);
        slow_look(s, e->node);
        break;
    case SLOW_DISPATCHED:
        s->chief[e->other][e->node].at_work = 0;
        slow_dispatch(s, e->other, e->node);
        slow_work(s, e->other, e->node);
        break;
    default:
        s->chief[e->other][e->node].queue++;
        slow_work(s, e->other, e->node);
    }
}

static inline void slow_open(slow *s, const htc_sim_manytask_options *o)
{
    memset(s, 0, sizeof *s);
    s->o = o;
    s->steal = *o->steal;
    for (size_t g = 0; g < o->n_groups; g++)
        for (uint64_t i = 0; i < o->groups[g].nodes; i++) {
            s->node[s->nodes].cores = o->groups[g].cores;
            s->node[s->nodes++].speed = o->groups[g].speed > 0 ? o->groups[g].speed : 1;
        }
    for (uint32_t i = 0; i < s->nodes; i++)
        htc_steal_start(s->nodes, i, 0, &s->node[i].thief);
}

static inline slow_event slow_next(slow *s)
{
    size_t first = 0;
    for (size_t k = 1; k < s->n_events; k++)
        if (slow_before(&s->event[k], &s->event[first]))
            first = k;
    slow_event e = s->event[first];
    s->event[first] = s->event[--s->n_events];
    s->now = e.tick;
    return e;
}

/* o has no defaults left but dispatch_ns and below. */
static inline void slow_run(slow *s, const htc_sim_manytask_options *o)
{
    slow_open(s, o);
    if (o->architecture == HTC_SIM_MANYTASK_DISTRIBUTED) {
        slow_submit(s);
        for (uint32_t i = 0; i < s->nodes; i++)
            slow_look(s, i);
    } else {
        slow_plant(s);
        slow_chief *top = &s->chief[s->levels - 1][0];
        s->submitted = top->queue = top->load = o->batch && o->batch < o->tasks ? o->batch : o->tasks;
        slow_work(s, s->levels - 1, 0);
    }
    while (s->n_events) {
        slow_event e = slow_next(s);
        slow_happens(s, &e);
    }
}

#endif
