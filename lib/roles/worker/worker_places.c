/* Where a ready task waits, in flows whose tasks read each other's files: in SReadyQ, of which others may steal, in LReadyQ, of which nobody does,
 * or at the worker that has most of what it reads (htcsched/locality.h, Algorithm 3). What waits begins in the order of its queue, LReadyQ first, of
 * each queue the task with most data first; what is stolen is that with least.
 *
 * A task is placed when it becomes ready here. What was stolen is shared, whatever it reads, and what was pushed here is local: else it would
 * travel for ever. Both are memory: who takes a ledger over places its tasks anew. */
#include <stdlib.h>
#include <string.h>

#include "htcsched/locality.h"
#include "roles/worker/worker_private.h"

struct places {
    htc_locality         *policy;
    htc_locality_lengths *lengths;
    uint32_t              rule; /* of the header, in force */
    node                **heap; /* ready, the next one to begin first */
    size_t                n, cap, local;
    int                   pushes; /* some are to be pushed */
};

/* ---- the queues ---- */

/* What is to go elsewhere is last: it does not begin here. */
static int before(const node *a, const node *b)
{
    if ((a->push != 0) != (b->push != 0))
        return a->push == 0;
    if ((a->place == PLACE_LOCAL) != (b->place == PLACE_LOCAL))
        return a->place == PLACE_LOCAL;
    return a->task.data != b->task.data ? a->task.data > b->task.data : a->id < b->id;
}

static void put(places *p, node *n, size_t at)
{
    p->heap[at] = n;
    n->heap = at + 1;
}

static void sift_down(places *p, node *n, size_t at)
{
    for (;;) {
        size_t next = 2 * at + 1;
        if (next + 1 < p->n && before(p->heap[next + 1], p->heap[next]))
            next++;
        if (next >= p->n || !before(p->heap[next], n))
            break;
        put(p, p->heap[next], at);
        at = next;
    }
    put(p, n, at);
}

static void sift(places *p, node *n, size_t at)
{
    while (at > 0 && before(n, p->heap[(at - 1) / 2])) {
        put(p, p->heap[(at - 1) / 2], at);
        at = (at - 1) / 2;
    }
    sift_down(p, n, at);
}

static htc_status enter(htc_worker *w, node *n)
{
    places *p = w->places;
    if (n->heap)
        return HTC_OK;
    if (p->n == p->cap) {
        size_t cap = p->cap ? 2 * p->cap : 64;
        node **more = htc__resize_raw(&w->env, p->heap, p->cap * sizeof *more, cap * sizeof *more);
        if (!more)
            return HTC_ENOMEM;
        p->heap = more;
        p->cap = cap;
    }
    p->n++;
    p->local += n->place == PLACE_LOCAL;
    sift(p, n, p->n - 1);
    return HTC_OK;
}

void htc__worker_place_left(htc_worker *w, node *n)
{
    places *p = w->places;
    if (!p || !n->heap)
        return;
    size_t at = n->heap - 1;
    node  *last = p->heap[--p->n];
    p->local -= n->place == PLACE_LOCAL;
    n->heap = 0;
    n->push = 0;
    if (last != n)
        sift(p, last, at);
}

/* ---- Algorithm 3 ---- */

/* The workers that have its inputs are numbered from 1 as they come, this one is 0. */
static void decide(htc_worker *w, node *n)
{
    htc_locality_input inputs[GRAPH_KNOWN_MAX];
    uint64_t           workers[GRAPH_KNOWN_MAX];
    graph_object       o;
    htc_reader         reads = htc_reader_of(n->task.reads);
    uint64_t           maker;
    htc_bytes          name;
    htc_locality_task  t = { .inputs = inputs };
    htc_locality_place place = { 0 };
    for (uint32_t i = 0; htc__graph_next_read(&reads, &maker, &name) && t.inputs_n < GRAPH_KNOWN_MAX; i++) {
        if (htc__graph_known(&n->task, i, &o) != HTC_OK)
            continue;
        workers[t.inputs_n] = o.worker;
        inputs[t.inputs_n] = (htc_locality_input){ o.size, o.worker == w->id ? 0 : (uint32_t)t.inputs_n + 1 };
        t.inputs_n++;
    }
    /* kinds are few: a clash of their hashes would mix two estimates */
    (void)htc_locality_estimate(w->places->lengths, htc_hash64(n->task.kind, 0), NULL, &t.est_ns);
    n->place = PLACE_SHARED;
    n->push = 0;
    if (htc_locality_place_task(w->places->policy, &t, &place) != HTC_OK)
        return;
    if (place.queue == HTC_LOCALITY_LOCAL)
        n->place = PLACE_LOCAL;
    else if (place.queue == HTC_LOCALITY_PUSH && place.worker && place.worker <= t.inputs_n && htc__worker_peer(w, workers[place.worker - 1])) {
        n->push = workers[place.worker - 1];
        w->places->pushes = 1;
    }
}

int htc__worker_place(htc_worker *w, node *n)
{
    if (!w->places)
        return 1;
    if (n->came == CAME_HERE)
        decide(w, n);
    else
        n->place = n->came == CAME_PUSHED && w->places->rule != HTC_LOCALITY_MLB ? PLACE_LOCAL : PLACE_SHARED;
    if (enter(w, n) != HTC_OK)
        htc_runtime_break(w->runtime, HTC_ENOMEM, "queueing a task");
    return n->place != PLACE_LOCAL && !n->push;
}

/* ---- the next one ---- */

static int least_data(const void *a, const void *b)
{
    const node *x = *(node *const *)a, *y = *(node *const *)b;
    if (x->task.data != y->task.data)
        return x->task.data < y->task.data ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* Those of LReadyQ with the least data are anybody's. */
static void move_some(htc_worker *w, uint64_t n)
{
    places *p = w->places;
    size_t  room = p->local, some = 0;
    node  **local = htc__alloc_raw(&w->env, room * sizeof *local);
    if (!local) {
        htc_runtime_break(w->runtime, HTC_ENOMEM, "moving tasks");
        return;
    }
    for (size_t i = 0; i < p->n; i++)
        if (p->heap[i]->place == PLACE_LOCAL)
            local[some++] = p->heap[i];
    qsort(local, some, sizeof *local, least_data);
    for (size_t i = 0; i < some && i < n; i++) {
        own *o = local[i]->of;
        htc__worker_place_left(w, local[i]);
        local[i]->place = PLACE_SHARED;
        (void)enter(w, local[i]); /* it had a place */
        (void)htc__ids_add(&o->ready, (ledger_span){ local[i]->id, local[i]->id + 1 });
    }
    htc__free(&w->env, local, room * sizeof *local);
}

void htc__worker_move_excess(htc_worker *w)
{
    places  *p = w->places;
    uint64_t move = 0;
    if (htc_locality_move(p->policy, w->now, p->local, &move) == HTC_OK && move)
        move_some(w, move);
}

node *htc__worker_next_node(const htc_worker *w)
{
    const places *p = w->places;
    return p->n && !p->heap[0]->push ? p->heap[0] : NULL;
}

/* ---- given away ---- */

static int by_id(const void *a, const void *b)
{
    const node *x = *(node *const *)a, *y = *(node *const *)b;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* As spans; what a note has no room for stays. */
static uint32_t as_spans(node **nodes, size_t n, ledger_span *ids)
{
    uint32_t spans = 0;
    qsort(nodes, n, sizeof *nodes, by_id);
    for (size_t i = 0; i < n; i++) {
        if (spans && ids[spans - 1].to == nodes[i]->id)
            ids[spans - 1].to++;
        else if (spans < LEDGER_NOTE_MAX)
            ids[spans++] = (ledger_span){ nodes[i]->id, nodes[i]->id + 1 };
        else
            break;
    }
    return spans;
}

static size_t collect(const htc_worker *w, const own *o, uint64_t push, node **nodes)
{
    const places *p = w->places;
    size_t        n = 0;
    for (size_t i = 0; i < p->n; i++)
        if (p->heap[i]->ledger == o->number && p->heap[i]->push == push && (push || htc__ids_has(&o->ready, (ledger_span){ p->heap[i]->id, p->heap[i]->id + 1 })))
            nodes[n++] = p->heap[i];
    return n;
}

uint32_t htc__worker_cheapest(htc_worker *w, const own *o, uint64_t amount, ledger_span *ids)
{
    size_t   room = w->places->n, n;
    node   **nodes = htc__alloc_raw(&w->env, room * sizeof *nodes);
    uint32_t spans = 0;
    if (nodes) {
        n = collect(w, o, 0, nodes);
        qsort(nodes, n, sizeof *nodes, least_data);
        spans = as_spans(nodes, n < amount ? n : (size_t)amount, ids);
    }
    htc__free(&w->env, nodes, room * sizeof *nodes);
    return spans;
}

uint32_t htc__worker_pushed(htc_worker *w, const own *o, uint64_t to, ledger_span *ids)
{
    size_t   room = w->places->n;
    node   **nodes = htc__alloc_raw(&w->env, room * sizeof *nodes);
    uint32_t spans = nodes ? as_spans(nodes, collect(w, o, to, nodes), ids) : 0;
    htc__free(&w->env, nodes, room * sizeof *nodes);
    return spans;
}

int htc__worker_pushes(const htc_worker *w, const own *o)
{
    const places *p = w->places;
    for (size_t i = 0; p && p->pushes && i < p->n; i++)
        if (p->heap[i]->push && p->heap[i]->ledger == o->number)
            return 1;
    return 0;
}

/* A ledger that this worker is thought to own; no: there is none. */
static int ledger_of(const htc_worker *w, uint64_t worker, uint64_t *number)
{
    const owner *x;
    for (x = w->owners; x; x = x->hh.next)
        if (x->worker == worker) {
            *number = x->ledger;
            return 1;
        }
    return 0;
}

/* One ask for each worker that tasks of this ledger are to go to; those for whom there is no way stay, as anybody's. */
void htc__worker_push_asks(htc_worker *w, own *o)
{
    places *p = w->places;
    for (size_t i = 0; p && p->pushes && i < p->n; i++) {
        node    *n = p->heap[i];
        uint64_t to, number;
        uint32_t k = 0, peer;
        if (!n->push || n->ledger != o->number)
            continue;
        to = n->push;
        while (k < o->n_asks && o->asks[k].push != to)
            k++;
        peer = htc__worker_peer(w, to);
        if (k < o->n_asks)
            continue;
        if (peer && o->n_asks < ASKS_MAX && ledger_of(w, to, &number))
            o->asks[o->n_asks++] = (thief_ask){ .peer = peer, .to = number, .push = to };
    }
}

void htc__worker_pushes_over(htc_worker *w, own *o)
{
    places *p = w->places;
    if (!p || !p->pushes)
        return;
    p->pushes = 0;
    for (size_t i = 0; i < p->n; i++) {
        node *n = p->heap[i];
        if (n->push && n->ledger == o->number) { /* there was no way, or no room: it stays, as anybody's */
            n->push = 0;
            (void)htc__ids_add(&o->ready, (ledger_span){ n->id, n->id + 1 });
        }
        p->pushes |= n->push != 0;
    }
    for (size_t i = p->n / 2; i > 0; i--)
        sift_down(p, p->heap[i - 1], i - 1);
}

/* ---- what is learnt ---- */

void htc__worker_place_learn(htc_worker *w, const graph_task *t, const htc_outcome *o, uint64_t needed, uint64_t moved)
{
    if (!w->places)
        return;
    if (o->status == HTC_OK && o->ended > o->started)
        (void)htc_locality_learn(w->places->lengths, htc_hash64(t->kind, 0), o->ended - o->started, 1);
    (void)htc_locality_finished(w->places->policy, w->now, needed, moved < needed ? moved : needed);
}

void htc__worker_place_steal_failed(htc_worker *w)
{
    if (w->places && htc_locality_steal_failed(w->places->policy) == HTC_AGAIN)
        htc_steal_nudge(&w->thief, w->now);
}

void htc__worker_place_progress(htc_worker *w, uint64_t done)
{
    if (w->places && done <= w->flow.tasks)
        (void)htc_locality_progress(w->places->policy, done, w->flow.tasks);
}

uint64_t htc__worker_local(const htc_worker *w)
{
    return w->places ? w->places->local : 0;
}

/* ---- begin and end ---- */

static htc_status places_new(htc_worker *w)
{
    htc_locality_options o = HTC_LOCALITY_OPTIONS_INIT;
    places              *p = htc__alloc(&w->env, sizeof *p);
    if (!p)
        return HTC_ENOMEM;
    o.policy = htc_locality_builtin(w->flow.places.rule);
    o.tt_rule = w->flow.places.tt_rule;
    o.tt_ns = w->flow.places.tt_ns;
    o.ratio = w->flow.places.ratio;
    o.bytes_per_s = w->flow.places.bytes_per_s;
    p->rule = w->flow.places.rule;
    w->places = p;
    htc_status status = htc_locality_create(&w->env, &o, &p->policy);
    return status == HTC_OK ? htc_locality_lengths_create(&w->env, NULL, &p->lengths) : status;
}

/* The header was read: another policy may be in force. */
void htc__worker_places(htc_worker *w)
{
    htc_status status = HTC_OK;
    if (!w->flow.data || w->flow.kind != FLOW_GRAPH)
        return;
    if (!w->places)
        status = places_new(w);
    else if (w->places->rule != w->flow.places.rule)
        status = htc_locality_switch(w->places->policy, htc_locality_builtin(w->flow.places.rule));
    if (status != HTC_OK)
        htc_runtime_break(w->runtime, status == HTC_ENOMEM ? status : HTC_ECORRUPT, "placing tasks");
    else
        w->places->rule = w->flow.places.rule;
}

void htc__worker_places_free(htc_worker *w)
{
    places *p = w->places;
    if (!p)
        return;
    htc_locality_destroy(p->policy);
    htc_locality_lengths_destroy(p->lengths);
    htc__free(&w->env, p->heap, p->cap * sizeof *p->heap);
    htc__free(&w->env, p, sizeof *p);
    w->places = NULL;
}
