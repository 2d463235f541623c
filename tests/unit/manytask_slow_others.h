/* The systems that the many-task model is compared with, slow and obvious: lists of who has asked, of who gets what, and an event for every message. */
#ifndef HTC_TEST_MANYTASK_SLOW_OTHERS_H
#define HTC_TEST_MANYTASK_SLOW_OTHERS_H

#include "manytask_slow.h"

#define SLOW_CORES 512

enum { SLOW_ENDED, SLOW_ASKS, SLOW_SERVED, SLOW_HANDED, SLOW_COMES, SLOW_LOADS, SLOW_PUSHES, SLOW_PUSHED, SLOW_PULLS };

typedef struct slow_dispatcher {
    uint64_t tasks, promised; /* that wait here; that somebody was told of */
    uint32_t asking[SLOW_CORES], n;
    int      at_work;
} slow_dispatcher;

typedef struct slow_others {
    slow           *s;
    slow_dispatcher root, leaf[SLOW_NODES];
    uint32_t        leaves, next;
    uint64_t        left, number; /* Sparrow: tasks that no scheduler has, and the first of them */
    uint64_t        until[SLOW_NODES];
    uint64_t        dispatch, hand;
} slow_others;

static inline int slow_is_tree(const slow *s)
{
    return s->o->architecture == HTC_SIM_MANYTASK_FALKON_TREE;
}

static inline uint64_t slow_to(const slow *s, uint32_t i, double bytes)
{
    return slow_way(s, (uint32_t)s->o->root, i, bytes);
}

/* The next batches, until as many tasks wait as are wanted. */
static inline void slow_more(slow *s, uint64_t *waiting)
{
    uint64_t below = s->o->batch ? s->o->below ? s->o->below : (s->o->batch + 4) / 5 : 1;
    while (s->submitted < s->o->tasks && *waiting < below) {
        uint64_t n = s->o->batch && s->o->batch < s->o->tasks - s->submitted ? s->o->batch : s->o->tasks - s->submitted;
        s->submitted += n;
        *waiting += n;
    }
}

/* ---- Falkon ---- */

static inline void slow_tell(slow_others *x, uint32_t k)
{
    slow            *s = x->s;
    slow_dispatcher *d = &x->leaf[k];
    uint32_t         i;
    while (d->tasks > d->promised && (i = slow_node_for(s, k)) != UINT32_MAX) {
        d->promised++;
        s->node[i].busy++;
        s->node[i].stamp = ++s->stamps;
        s->messages += 2;
        slow_at(s, (slow_event){ .tick = s->now + 2 * slow_to(s, i, s->o->load_bytes), .id = i * UINT64_C(4) + SLOW_STEP, .what = SLOW_ASKS, .node = i, .other = k });
    }
}

static inline void slow_serve(slow_others *x, uint32_t k);

static inline void slow_give_task(slow_others *x, uint32_t k)
{
    slow            *s = x->s;
    slow_dispatcher *d = &x->leaf[k];
    uint32_t         i = d->asking[0];
    memmove(d->asking, d->asking + 1, --d->n * sizeof *d->asking);
    d->tasks--;
    d->promised--;
    if (!slow_is_tree(s))
        slow_more(s, &d->tasks);
    s->messages += 2; /* the task, and its result, whose way is before its beginning here */
    s->node[i].busy--;
    slow_start(s, i, s->started, slow_to(s, i, s->o->task_bytes) + slow_to(s, i, s->o->load_bytes) + slow_ticks(s, (double)s->o->task_ns));
    slow_tell(x, k);
}

static inline void slow_serve(slow_others *x, uint32_t k)
{
    slow_dispatcher *d = &x->leaf[k];
    while (!d->at_work && d->n) {
        if (x->dispatch) {
            d->at_work = 1;
            slow_at(x->s, (slow_event){ .tick = x->s->now + x->dispatch, .id = x->s->nodes * UINT64_C(4) + 2 * (k + (uint64_t)slow_is_tree(x->s)), .what = SLOW_SERVED, .other = k });
        } else {
            slow_give_task(x, k);
        }
    }
}

static inline void slow_hand(slow_others *x)
{
    slow *s = x->s;
    x->root.tasks--;
    slow_more(s, &x->root.tasks);
    s->messages++;
    slow_at(s, (slow_event){ .tick = s->now + slow_near(s, s->o->task_bytes), .id = s->nodes * UINT64_C(4) + 2 * (x->next + 1) + 1, .what = SLOW_COMES, .other = x->next });
    x->next = (x->next + 1) % x->leaves;
}

static inline void slow_hand_all(slow_others *x)
{
    while (!x->root.at_work && x->root.tasks) {
        if (x->hand) {
            x->root.at_work = 1;
            slow_at(x->s, (slow_event){ .tick = x->s->now + x->hand, .id = x->s->nodes * UINT64_C(4), .what = SLOW_HANDED });
        } else {
            slow_hand(x);
        }
    }
}

/* ---- Sparrow ---- */

static inline void slow_probe(slow_others *x, uint32_t scheduler)
{
    slow    *s = x->s;
    uint64_t n = x->left < s->o->placed ? x->left : s->o->placed;
    if (!n)
        return;
    x->left -= n;
    slow_at(s, (slow_event){ .tick = s->now + slow_near(s, s->o->load_bytes), .id = s->nodes * UINT64_C(4) + 2 * scheduler, .what = SLOW_LOADS, .other = scheduler, .wait = x->number, .n = n });
    x->number += n;
}

static inline void slow_loads(slow_others *x, const slow_event *e)
{
    slow    *s = x->s;
    uint32_t asked[SLOW_NODES], n = s->o->probes * e->n < s->nodes ? (uint32_t)(s->o->probes * e->n) : s->nodes;
    int64_t  load[SLOW_NODES];
    htc_rng  rng = { htc__scale_draw(htc__scale_stream(s->o->seed, ((UINT64_C(1) << 40) + e->other) << 2 | 1), e->wait) };
    slow_event push = *e;
    htc_steal_pick(&rng, s->nodes + 1, s->nodes, n, asked);
    s->messages += 2 * n;
    for (uint32_t k = 0; k < n; k++)
        load[k] = (int64_t)s->node[asked[k]].n - (int64_t)(s->node[asked[k]].cores - s->node[asked[k]].busy);
    push.loot = malloc(e->n * sizeof *push.loot);
    for (uint64_t t = 0; t < e->n; t++) {
        uint32_t best = 0;
        for (uint32_t k = 0; k < n; k++)
            best = load[k] < load[best] ? k : best;
        load[best]++;
        push.loot[t] = asked[best];
    }
    push.what = SLOW_PUSHES;
    push.id++;
    push.tick = s->now + slow_near(s, s->o->load_bytes) + e->n * x->dispatch;
    slow_at(s, push);
}

static inline void slow_pushes(slow_others *x, const slow_event *e)
{
    slow *s = x->s;
    for (uint64_t t = 0; t < e->n; t++, s->messages++)
        slow_at(s, (slow_event){ .tick = s->now + slow_near(s, s->o->task_bytes), .id = e->loot[t] * 4 + SLOW_STEP, .what = SLOW_PUSHED, .node = (uint32_t)e->loot[t], .wait = e->wait + t });
    free(e->loot);
    slow_probe(x, e->other);
}

/* ---- CloudKon ---- */

static inline void slow_pull(slow_others *x, uint32_t i, uint64_t after)
{
    x->s->messages++;
    slow_at(x->s, (slow_event){ .tick = x->s->now + after + slow_near(x->s, x->s->o->load_bytes), .id = i * UINT64_C(4) + SLOW_STEP, .what = SLOW_PULLS, .node = i });
}

static inline void slow_pulled(slow_others *x, uint32_t i)
{
    slow    *s = x->s;
    uint64_t waiting = s->submitted - s->started;
    s->messages++; /* the task, or that there is none */
    if (!waiting)
        return;
    uint64_t *until = &x->until[(htc__scale_draw(htc__scale_stream(s->o->seed, 2), s->started) >> 32) * s->o->servers >> 32];
    *until = (*until < s->now ? s->now : *until) + x->dispatch;
    slow_start(s, i, s->started, *until - s->now + slow_near(s, s->o->task_bytes) + slow_ticks(s, (double)s->o->task_ns));
    waiting--;
    slow_more(s, &waiting);
}

/* ---- all ---- */

static inline void slow_ended(slow_others *x, uint32_t i)
{
    slow      *s = x->s;
    slow_node *v = &s->node[i];
    s->ended++;
    v->ended++;
    v->busy--;
    v->stamp = ++s->stamps;
    s->last_end = s->now;
    if (s->o->architecture == HTC_SIM_MANYTASK_SPARROW)
        slow_start_all(s, i);
    if (s->o->architecture == HTC_SIM_MANYTASK_CLOUDKON) {
        s->messages += 2;
        slow_pull(x, i, slow_near(s, s->o->task_bytes) + slow_ticks(s, (double)s->o->store_ns) + slow_near(s, s->o->load_bytes));
    }
    if (s->o->architecture == HTC_SIM_MANYTASK_FALKON || slow_is_tree(s)) {
        s->messages++; /* it is acknowledged */
        slow_tell(x, slow_is_tree(s) ? i / s->o->fanout : 0);
    }
}

static inline void slow_other_happens(slow_others *x, const slow_event *e)
{
    slow *s = x->s;
    switch (e->what) {
    case SLOW_ENDED:
        slow_ended(x, e->node);
        break;
    case SLOW_ASKS:
        x->leaf[e->other].asking[x->leaf[e->other].n++] = e->node;
        slow_serve(x, e->other);
        break;
    case SLOW_SERVED:
        x->leaf[e->other].at_work = 0;
        slow_give_task(x, e->other);
        slow_serve(x, e->other);
        break;
    case SLOW_HANDED:
        x->root.at_work = 0;
        slow_hand(x);
        slow_hand_all(x);
        break;
    case SLOW_COMES:
        x->leaf[e->other].tasks++;
        slow_tell(x, e->other);
        break;
    case SLOW_LOADS:
        slow_loads(x, e);
        break;
    case SLOW_PUSHES:
        slow_pushes(x, e);
        break;
    case SLOW_PUSHED:
        s->node[e->node].task[s->node[e->node].n++] = e->wait;
        slow_start_all(s, e->node);
        break;
    default:
        slow_pulled(x, e->node);
    }
}

/* o has no defaults left but dispatch_ns, hand_ns and below. */
static inline void slow_run_other(slow *s, const htc_sim_manytask_options *o)
{
    static slow_others x;
    slow_open(s, o);
    memset(&x, 0, sizeof x);
    x.s = s;
    x.dispatch = o->dispatch_ns == HTC_NEVER ? 0 : slow_ticks(s, (double)o->dispatch_ns);
    x.hand = o->hand_ns == HTC_NEVER ? 0 : slow_ticks(s, (double)o->hand_ns);
    x.leaves = slow_is_tree(s) ? (s->nodes + o->fanout - 1) / o->fanout : 1;
    s->levels = slow_is_tree(s) ? 2 : 1;
    for (uint32_t i = 0; i < s->nodes; i++)
        s->node[i].stamp = s->nodes - i;
    s->stamps = s->nodes;
    switch (o->architecture) {
    case HTC_SIM_MANYTASK_SPARROW:
        x.left = o->tasks;
        for (uint32_t k = 0; k < o->schedulers; k++)
            slow_probe(&x, k);
        break;
    case HTC_SIM_MANYTASK_CLOUDKON: {
        uint64_t waiting = 0;
        slow_more(s, &waiting);
        for (uint32_t i = 0; i < s->nodes; i++)
            for (uint32_t k = 0; k < s->node[i].cores; k++)
                slow_pull(&x, i, 0);
        break;
    }
    case HTC_SIM_MANYTASK_FALKON_TREE:
        slow_more(s, &x.root.tasks);
        slow_hand_all(&x);
        break;
    default:
        slow_more(s, &x.leaf[0].tasks);
        slow_tell(&x, 0);
    }
    while (s->n_events) {
        slow_event e = slow_next(s);
        slow_other_happens(&x, &e);
    }
}

#endif
