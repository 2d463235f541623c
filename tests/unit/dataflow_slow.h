/* The model of tasks that wait for tasks again, slow and obvious: edges and events are written down and searched, queues are lists of tasks, what a victim gives is
 * chosen by htc_steal_least. What decides is the library's in both. */
#ifndef TESTS_UNIT_DATAFLOW_SLOW_H
#define TESTS_UNIT_DATAFLOW_SLOW_H

#include <stdlib.h>
#include <string.h>

#include "htcsched/sim_dataflow.h"
#include "sim/scale/draw.h"

#define SLOW_TASKS  600
#define SLOW_NODES  24
#define SLOW_CORES  100
#define SLOW_FILES  40
#define SLOW_EDGES  40000
#define SLOW_EVENTS 20000
#define SLOW_READS  (SLOW_TASKS + 2)

enum { SLOW_FETCH, SLOW_ENDS, SLOW_UP, SLOW_WAIT_ENDS, SLOW_QUESTION, SLOW_REQUEST, SLOW_ANSWER, SLOW_NUDGED, SLOW_HEARS, SLOW_ARRIVES, SLOW_PHASE, SLOW_DISPATCHED };

typedef struct slow_event {
    uint64_t  tick, id, begun;
    uint32_t  what, node, task, other, wait;
    uint32_t *loot, n;
} slow_event;

typedef struct slow_list {
    uint32_t at[SLOW_TASKS], n;
} slow_list;

typedef struct slow_input {
    uint64_t bytes;
    uint32_t object, node; /* object UINT32_MAX: of a phase */
} slow_input;

typedef struct slow_node {
    slow_list             local, shared;
    uint64_t              copy_bytes[SLOW_TASKS + SLOW_FILES];
    uint32_t              copy[SLOW_TASKS + SLOW_FILES], copies; /* by use, the oldest first */
    htc_locality         *policy;
    htc_locality_lengths *lengths;
    htc_steal_thief       thief;
    uint64_t              nudge_at, store_free, out_free, in_free, ended;
    uint32_t              in_round, waits, wait, idle;
} slow_node;

typedef struct slow_task {
    uint64_t length, size, need;
    uint32_t phase, left, ran, waits_for_phase, parents;
    uint64_t begin, end, read, moved; /* ticks; bytes */
} slow_task;

typedef struct slow {
    const htc_sim_dataflow_options *o;
    htc_steal_options               steal;
    slow_node                       node[SLOW_NODES];
    slow_task                       task[SLOW_TASKS];
    uint32_t                        edge[SLOW_EDGES][2], edges, tasks, phases, nodes;
    uint32_t                        phase_first[300], file_at[SLOW_FILES], pair[SLOW_TASKS];
    uint32_t                        core_task[SLOW_CORES], core_free[SLOW_CORES], cores; /* core_free: the order in which it became idle, 0: it is not */
    slow_event                      event[SLOW_EVENTS];
    size_t                          n_events;
    slow_list                       queue;
    uint64_t                        now, ended, pfs_free, last_end, rounds, stolen, steals, nudges, pushed, freed, messages;
    uint64_t                        read, local, cached, moved, phase_told;
    uint32_t                        phase, phase_left, phase_from, has_data, at_work, containers, phase_waits, stamps;
} slow;

static inline uint64_t slow_ticks(const slow *s, double ns)
{
    return (uint64_t)(ns / (double)s->o->tick_ns + 0.5);
}

static inline uint64_t slow_way(const slow *s, double bytes)
{
    return slow_ticks(s, (double)(s->o->latency_ns + (htc_ns)(bytes * 1e9 / (double)s->o->bytes_per_s + 0.5)));
}

static inline uint64_t slow_cost(const slow *s, htc_ns ns)
{
    return ns == HTC_NEVER ? 0 : slow_ticks(s, (double)ns);
}

static inline uint64_t slow_carry(const slow *s, uint64_t bytes, uint64_t per_s)
{
    return per_s ? (uint64_t)((double)bytes / ((double)per_s / (1e9 / (double)s->o->tick_ns)) + 0.5) : 0;
}

static inline void slow_at(slow *s, slow_event e)
{
    if (s->n_events == SLOW_EVENTS)
        abort();
    s->event[s->n_events++] = e;
}

static inline uint64_t slow_task_id(const slow *s, uint32_t t)
{
    return s->cores + s->nodes * UINT64_C(2) + t;
}

static inline uint64_t slow_run_id(const slow *s, uint32_t what)
{
    return slow_task_id(s, s->tasks) + what;
}

static inline uint32_t slow_drawn(const slow *s, uint64_t stream, uint64_t i, uint64_t n)
{
    return (uint32_t)((htc__scale_draw(htc__scale_stream(s->o->seed, stream), i) >> 32) * n >> 32);
}

static inline int slow_is_central(const slow *s)
{
    return s->o->system != HTC_SIM_DATAFLOW_WORKERS;
}

/* ---- what a task reads ---- */

static inline uint32_t slow_inputs(const slow *s, uint32_t t, slow_input *in)
{
    const htc_sim_dataflow_options *o = s->o;
    const slow_task                *x = &s->task[t];
    uint32_t                        n = 0, h = (uint32_t)o->files / 2;
    if (s->phases > 1 && x->phase > 0) { /* an equal part of what each node has of the phase before; nodes in the order in which they had some */
        uint64_t bytes[SLOW_NODES] = { 0 };
        uint32_t order[SLOW_NODES], k = 0, of = s->phase_first[x->phase + 1] - s->phase_first[x->phase];
        for (uint32_t done = 0; done < s->phase_first[x->phase] - s->phase_first[x->phase - 1]; done++) {
            uint32_t u = 0, found = 0; /* the one that ended so early */
            for (uint32_t c = s->phase_first[x->phase - 1]; c < s->phase_first[x->phase]; c++)
                if (s->task[c].need == done + 1) {
                    u = c;
                    found = 1;
                }
            if (!found || !s->task[u].size)
                continue;
            if (!bytes[s->task[u].ran])
                order[k++] = s->task[u].ran;
            bytes[s->task[u].ran] += s->task[u].size;
        }
        for (uint32_t i = 0; i < k; i++)
            in[n++] = (slow_input){ bytes[order[i]] / of, UINT32_MAX, order[i] };
    }
    for (uint32_t e = 0; e < s->edges; e++)
        if (s->edge[e][1] == t)
            in[n++] = (slow_input){ s->task[s->edge[e][0]].size, s->edge[e][0], s->task[s->edge[e][0]].ran };
    if (o->inputs == HTC_SIM_DATAFLOW_ONE_FILE && x->parents == 0)
        in[n++] = (slow_input){ o->file_bytes, s->tasks + t % (uint32_t)o->files, s->file_at[t % o->files] };
    if (o->inputs == HTC_SIM_DATAFLOW_PAIRS) {
        uint32_t pair = s->pair[t];
        in[n++] = (slow_input){ o->file_bytes, s->tasks + pair / h % h, s->file_at[pair / h % h] };
        in[n++] = (slow_input){ o->file_bytes, s->tasks + h + pair % h, s->file_at[h + pair % h] };
    }
    return n;
}

static inline uint32_t slow_copy(const slow_node *v, uint32_t object)
{
    for (uint32_t c = 0; c < v->copies; c++)
        if (v->copy[c] == object)
            return c;
    return UINT32_MAX;
}

static inline void slow_drop(slow_node *v, uint32_t c)
{
    v->copies--;
    memmove(v->copy + c, v->copy + c + 1, (v->copies - c) * sizeof *v->copy);
    memmove(v->copy_bytes + c, v->copy_bytes + c + 1, (v->copies - c) * sizeof *v->copy_bytes);
}

static inline void slow_keep(const slow *s, slow_node *v, const slow_input *in)
{
    uint64_t has = 0;
    if (in->object == UINT32_MAX || in->bytes > s->o->cache_bytes)
        return;
    for (uint32_t c = 0; c < v->copies; c++)
        has += v->copy_bytes[c];
    for (; has > s->o->cache_bytes - in->bytes; slow_drop(v, 0))
        has -= v->copy_bytes[0];
    v->copy[v->copies] = in->object;
    v->copy_bytes[v->copies++] = in->bytes;
}

static inline int slow_has(const slow *s, uint32_t i, const slow_input *in)
{
    return in->node == i || (in->object != UINT32_MAX && slow_copy(&s->node[i], in->object) != UINT32_MAX);
}

static inline uint64_t slow_max(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static inline uint64_t slow_from_pfs(slow *s, uint64_t bytes, uint64_t at)
{
    uint64_t begin = slow_max(at + slow_way(s, s->o->load_bytes), s->pfs_free);
    s->messages += 2;
    s->pfs_free = begin + slow_carry(s, bytes, s->o->pfs_bytes_per_s);
    return s->pfs_free + slow_ticks(s, (double)s->o->latency_ns);
}

static inline uint64_t slow_fetch(slow *s, uint32_t i, const slow_input *in, uint64_t at, uint64_t *moved)
{
    const htc_sim_dataflow_options *o = s->o;
    slow_node                      *v = &s->node[i];
    uint32_t                        c = in->object == UINT32_MAX ? UINT32_MAX : slow_copy(v, in->object);
    s->read += in->bytes;
    if (in->bytes == 0)
        return at;
    if (o->system == HTC_SIM_DATAFLOW_ACTIVE || (o->system != HTC_SIM_DATAFLOW_PFS && in->node == i)) {
        s->local += in->bytes;
        return at + slow_carry(s, in->bytes, o->disk_bytes_per_s);
    }
    if (c != UINT32_MAX) {
        slow_drop(v, c);
        slow_keep(s, v, in);
        s->cached += in->bytes;
        return at + slow_carry(s, in->bytes, o->disk_bytes_per_s);
    }
    *moved += in->bytes;
    s->moved += in->bytes;
    if (o->system == HTC_SIM_DATAFLOW_PFS || (o->system == HTC_SIM_DATAFLOW_DATADIFF && in->object != UINT32_MAX && in->object >= s->tasks)) {
        at = slow_from_pfs(s, in->bytes, at);
    } else {
        slow_node *from = &s->node[in->node];
        uint64_t   begin = at + slow_way(s, o->load_bytes);
        if (o->links != HTC_SIM_DATAFLOW_FREE)
            begin = slow_max(begin, from->out_free);
        if (o->links == HTC_SIM_DATAFLOW_BOTH)
            begin = slow_max(begin, v->in_free);
        from->out_free = v->in_free = begin + slow_carry(s, in->bytes, o->bytes_per_s);
        at = from->out_free + slow_ticks(s, (double)o->latency_ns);
        s->messages += 2;
    }
    if (o->system != HTC_SIM_DATAFLOW_PFS)
        slow_keep(s, v, in);
    return at;
}

/* ---- queues ---- */

static inline uint64_t slow_need(const slow *s, uint32_t t)
{
    slow_input in[SLOW_READS];
    uint64_t   bytes = 0;
    for (uint32_t n = slow_inputs(s, t, in), k = 0; k < n; k++)
        bytes += in[k].bytes;
    return bytes;
}

static inline uint32_t slow_take(slow_list *l, uint32_t place)
{
    uint32_t t = l->at[place];
    l->n--;
    memmove(l->at + place, l->at + place + 1, (l->n - place) * sizeof *l->at);
    return t;
}

static inline uint32_t slow_first(const slow *s, slow_list *l)
{
    uint32_t best = 0;
    for (uint32_t k = 1; k < l->n; k++) {
        uint64_t a = slow_need(s, l->at[k]), b = slow_need(s, l->at[best]);
        if (a > b || (a == b && l->at[k] < l->at[best]))
            best = k;
    }
    return slow_take(l, best);
}

static inline int slow_falling(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;
    return (*x < *y) - (*x > *y);
}

/* Those with least input, of equals the largest numbers. */
static inline void slow_least(const slow *s, slow_list *from, uint32_t amount, uint32_t *out)
{
    uint64_t bytes[SLOW_TASKS];
    uint32_t place[SLOW_TASKS];
    qsort(from->at, from->n, sizeof *from->at, slow_falling);
    for (uint32_t k = 0; k < from->n; k++)
        bytes[k] = slow_need(s, from->at[k]);
    if (amount && htc_steal_least(bytes, from->n, amount, place) != HTC_OK)
        abort();
    for (uint32_t k = 0; k < amount; k++)
        out[k] = from->at[place[k]];
    for (uint32_t k = 0; k < amount; k++)
        for (uint32_t i = 0; i < from->n; i++)
            if (from->at[i] == out[k])
                slow_take(from, i--);
}

/* ---- a task begins ---- */

static inline void slow_runs(slow *s, uint32_t core, uint32_t t, uint64_t at)
{
    s->task[t].begin = at;
    s->task[t].end = at + s->task[t].length;
    slow_at(s, (slow_event){ .tick = s->task[t].end, .id = core, .what = SLOW_ENDS, .node = core, .task = t });
}

static inline int slow_far(const slow *s, uint32_t i, const slow_input *in)
{
    return in->bytes && s->o->system != HTC_SIM_DATAFLOW_ACTIVE && (s->o->system == HTC_SIM_DATAFLOW_PFS || !slow_has(s, i, in));
}

/* Input number other is next; each transfer begins when the one before it is over. */
static inline void slow_fetches(slow *s, const slow_event *e)
{
    slow_input in[SLOW_READS];
    uint32_t   i = e->node / s->o->cores, n = slow_inputs(s, e->task, in), k = e->other, write = s->o->system == HTC_SIM_DATAFLOW_PFS && s->has_data;
    slow_event again = *e;
    for (again.tick = s->now; k < n && (again.tick == s->now || !slow_far(s, i, &in[k])); k++)
        again.tick = slow_fetch(s, i, &in[k], again.tick, &s->task[e->task].moved);
    again.other = k;
    if (k < n || (write && again.tick > s->now && k == n)) {
        slow_at(s, again);
        return;
    }
    if (write && s->task[e->task].size)
        again.tick = slow_from_pfs(s, s->task[e->task].size, again.tick);
    slow_runs(s, e->node, e->task, again.tick);
}

static inline void slow_start(slow *s, uint32_t core, uint32_t t, uint64_t delay)
{
    slow_input in[SLOW_READS];
    uint32_t   i = core / s->o->cores, n = slow_inputs(s, t, in);
    uint64_t   at = s->now + delay + slow_cost(s, s->o->task_ns);
    slow_task *x = &s->task[t];
    x->ran = i;
    s->core_task[core] = t;
    s->core_free[core] = 0;
    for (uint32_t k = 0; k < n; k++)
        x->read += in[k].bytes;
    if (s->has_data && (s->o->links != HTC_SIM_DATAFLOW_FREE || s->o->system == HTC_SIM_DATAFLOW_PFS || s->o->system == HTC_SIM_DATAFLOW_DATADIFF)) {
        slow_at(s, (slow_event){ .tick = at, .id = core, .what = SLOW_FETCH, .node = core, .task = t });
        return;
    }
    for (uint32_t k = 0; k < n; k++)
        at = slow_fetch(s, i, &in[k], at, &x->moved);
    slow_runs(s, core, t, at);
}

static inline void slow_start_all(slow *s, uint32_t i)
{
    slow_node *v = &s->node[i];
    uint64_t   move = 0;
    uint32_t   out[SLOW_TASKS];
    if (v->local.n || v->idle) {
        if (s->o->locality->tt_rule == HTC_LOCALITY_TT_MOVE)
            htc_locality_progress(v->policy, s->ended, s->tasks);
        if (htc_locality_move(v->policy, s->now * s->o->tick_ns, v->local.n, &move) != HTC_OK)
            abort();
        s->freed += move;
        slow_least(s, &v->local, (uint32_t)move, out);
        for (uint64_t k = 0; k < move; k++)
            v->shared.at[v->shared.n++] = out[k];
    }
    while (v->idle && (v->local.n || v->shared.n)) {
        uint32_t best = UINT32_MAX; /* the core that became idle last */
        for (uint32_t c = i * s->o->cores; c < (i + 1) * s->o->cores; c++)
            if (s->core_free[c] && (best == UINT32_MAX || s->core_free[c] > s->core_free[best]))
                best = c;
        v->idle--;
        slow_start(s, best, slow_first(s, v->local.n ? &v->local : &v->shared), 0);
    }
}

/* ---- thieves ---- */

static inline htc_rng slow_rng(const slow *s, uint32_t i, uint32_t what)
{
    return (htc_rng){ htc__scale_draw(htc__scale_stream(s->o->seed, (uint64_t)i << 3 | what), s->now) };
}

static inline int slow_hungry(const slow *s, uint32_t i)
{
    return s->node[i].idle && !s->node[i].local.n && !s->node[i].shared.n;
}

static inline void slow_look(slow *s, uint32_t i)
{
    slow_node *v = &s->node[i];
    if (v->in_round || v->waits || v->thief.due_ns == HTC_NEVER || !slow_hungry(s, i) || s->nodes < 2 || s->ended == s->tasks)
        return;
    v->in_round = 1;
    slow_at(s, (slow_event){ .tick = s->now + slow_way(s, s->o->load_bytes), .id = s->cores + i * UINT64_C(2), .what = SLOW_QUESTION, .node = i, .begun = s->now });
}

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

static inline void slow_nudge_others(slow *s, uint32_t i)
{
    uint32_t to[32], n = htc_steal_neighbours(HTC_STEAL_SQRT, s->nodes);
    uint64_t every = s->o->nudge_ns ? slow_max(1, slow_ticks(s, (double)s->o->nudge_ns)) : 0;
    if (!every || !s->node[i].shared.n || s->now < s->node[i].nudge_at || s->nodes < 2)
        return;
    htc_rng rng = slow_rng(s, i, 2);
    s->node[i].nudge_at = s->now + every;
    htc_steal_pick(&rng, s->nodes, i, n < 32 ? n : 32, to);
    for (uint32_t k = 0; k < n && k < 32; k++) {
        s->nudges++;
        s->messages++;
        slow_at(s, (slow_event){ .tick = s->now + slow_way(s, s->o->load_bytes), .id = s->cores + to[k] * UINT64_C(2) + 1, .what = SLOW_NUDGED, .node = to[k] });
    }
}

static inline void slow_question(slow *s, const slow_event *e)
{
    uint32_t   asked[SLOW_NODES], n = 0, place = 0, i = e->node;
    uint64_t   load[SLOW_NODES], trip = 2 * slow_way(s, s->o->load_bytes);
    slow_node *v = &s->node[i];
    htc_rng    rng = slow_rng(s, i, 1);
    uint32_t   nudged = v->thief.round;
    v->thief.round = 0;
    if (s->ended == s->tasks) {
        v->in_round = 0;
        return;
    }
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
    for (uint32_t k = 0; k < n; k++)
        load[k] = s->node[asked[k]].shared.n;
    slow_event next = { .tick = e->begun + (s->o->in_turn ? n : 1) * trip, .id = s->cores + i * UINT64_C(2), .what = SLOW_ANSWER, .node = i, .other = UINT32_MAX };
    if (htc_steal_victim(load, n, &place) == HTC_OK) {
        next.what = SLOW_REQUEST;
        next.other = asked[place];
        next.tick += slow_way(s, s->o->load_bytes);
        s->messages++;
    }
    slow_at(s, next);
}

static inline void slow_request(slow *s, const slow_event *e)
{
    slow_node *v = &s->node[e->other];
    uint64_t   amount = 0;
    slow_event next = { .id = s->cores + e->node * UINT64_C(2), .what = SLOW_ANSWER, .node = e->node, .other = e->other };
    if (htc_steal_give(&s->steal, v->shared.n, v->idle, &amount) != HTC_OK)
        abort();
    next.n = (uint32_t)amount;
    next.loot = malloc((amount + 1) * sizeof *next.loot);
    slow_least(s, &v->shared, next.n, next.loot);
    s->messages++;
    next.tick = s->now + (amount ? slow_way(s, s->o->task_bytes) + slow_ticks(s, (double)s->o->give_ns) : slow_way(s, s->o->load_bytes));
    slow_at(s, next);
}

static inline void slow_answer(slow *s, const slow_event *e)
{
    slow_node *v = &s->node[e->node];
    uint64_t   now = s->now * s->o->tick_ns;
    for (uint32_t k = 0; k < e->n; k++)
        v->shared.at[v->shared.n++] = e->loot[k];
    free(e->loot);
    s->steals += e->n > 0;
    s->stolen += e->n;
    if (htc_steal_settle(&v->thief, &s->steal, now, e->n ? e->other : HTC_STEAL_NOBODY, e->n) != HTC_OK)
        abort();
    v->in_round = 0;
    slow_start_all(s, e->node);
    slow_nudge_others(s, e->node);
    htc_ns due = htc_steal_due(&v->thief);
    if (slow_hungry(s, e->node) && s->ended < s->tasks && due != HTC_NEVER && due > now) {
        uint64_t wait = slow_ticks(s, (double)(due - now));
        v->waits = 1;
        slow_at(s, (slow_event){ .tick = s->now + (wait ? wait : 1), .id = s->cores + e->node * UINT64_C(2), .what = SLOW_WAIT_ENDS, .node = e->node, .wait = ++v->wait });
    }
    if (e->n == 0 && htc_locality_steal_failed(v->policy) == HTC_AGAIN)
        slow_nudge(s, e->node);
    slow_look(s, e->node);
}

/* ---- a task is ready ---- */

static inline void slow_put(slow *s, uint32_t i, uint32_t t, int local)
{
    slow_list *l = local ? &s->node[i].local : &s->node[i].shared;
    l->at[l->n++] = t;
    slow_start_all(s, i);
    slow_nudge(s, i);
    slow_nudge_others(s, i);
}

static inline void slow_work(slow *s)
{
    uint32_t idle = 0;
    for (uint32_t c = 0; c < s->cores; c++)
        idle += s->core_free[c] > 0;
    if (s->at_work || !s->queue.n || !idle)
        return;
    s->at_work = 1;
    slow_at(s, (slow_event){ .tick = s->now + slow_cost(s, s->o->dispatch_ns), .id = slow_run_id(s, 2), .what = SLOW_DISPATCHED });
}

static inline uint32_t slow_home(const slow *s, uint32_t t)
{
    return s->o->layout == HTC_SIM_DATAFLOW_RANDOM ? slow_drawn(s, 4, t, s->nodes) : s->o->layout == HTC_SIM_DATAFLOW_ONE ? 0 : t * s->nodes / s->tasks;
}

static inline void slow_ready(slow *s, uint32_t t)
{
    slow_input         in[SLOW_READS];
    htc_locality_input input[SLOW_READS];
    uint32_t           i = slow_home(s, t);
    htc_locality_task  task = { .inputs = input };
    htc_locality_place to = { 0 };
    if (slow_is_central(s)) {
        s->queue.at[s->queue.n++] = t;
        slow_work(s);
        return;
    }
    task.inputs_n = slow_inputs(s, t, in);
    for (uint32_t k = 0; k < task.inputs_n; k++)
        input[k] = (htc_locality_input){ in[k].bytes, slow_has(s, i, &in[k]) ? i : in[k].node };
    (void)htc_locality_estimate(s->node[i].lengths, s->task[t].phase, NULL, &task.est_ns);
    if (htc_locality_place_task(s->node[i].policy, &task, &to) != HTC_OK)
        abort();
    if (to.queue != HTC_LOCALITY_PUSH) {
        slow_put(s, i, t, to.queue == HTC_LOCALITY_LOCAL);
        return;
    }
    s->pushed++;
    s->messages++;
    slow_at(s, (slow_event){ .tick = s->now + slow_way(s, s->o->task_bytes), .id = slow_task_id(s, t), .what = SLOW_ARRIVES, .node = to.worker, .task = t });
}

static inline void slow_hears(slow *s, uint32_t t)
{
    if (--s->task[t].left == 0)
        slow_ready(s, t);
}

/* ---- and ends ---- */

static inline uint64_t slow_store(slow *s, uint32_t from, uint32_t t, uint64_t at, uint32_t *member)
{
    *member = slow_drawn(s, 6, t, s->nodes);
    uint64_t begin = slow_max(at + (*member == from ? 0 : slow_way(s, s->o->load_bytes)), s->node[*member].store_free);
    s->messages += 2;
    s->node[*member].store_free = begin + slow_cost(s, s->o->store_ns);
    return s->node[*member].store_free + slow_ticks(s, (double)s->o->commit_ns);
}

static inline void slow_tell(slow *s, uint32_t i, uint32_t t)
{
    uint32_t member;
    uint64_t near = slow_way(s, s->o->load_bytes), at = s->now + near;
    if (!slow_is_central(s)) {
        at = slow_store(s, i, t, s->now, &member);
        at += member == i ? 0 : near;
    }
    if (s->phases) {
        s->task[t].need = ++s->phase_from;
        s->phase_told = slow_max(s->phase_told, at);
        if (--s->phase_left == 0 && s->containers && s->phase % 2)
            s->phase_waits = 1;
        else if (s->phase_left == 0)
            slow_at(s, (slow_event){ .tick = s->phase_told, .id = slow_run_id(s, 1), .what = SLOW_PHASE });
        return;
    }
    for (uint32_t e = 0; e < s->edges; e++) {
        uint32_t c = s->edge[e][1];
        uint64_t heard = at;
        if (s->edge[e][0] != t)
            continue;
        if (!slow_is_central(s)) {
            heard = slow_store(s, i, c, at, &member);
            heard += member == slow_home(s, c) ? 0 : near;
        }
        slow_at(s, (slow_event){ .tick = heard, .id = slow_task_id(s, c), .what = SLOW_HEARS, .task = c });
    }
}

static inline void slow_free_core(slow *s, uint32_t core)
{
    s->core_task[core] = UINT32_MAX;
    s->core_free[core] = ++s->stamps;
    if (!slow_is_central(s) || s->o->system == HTC_SIM_DATAFLOW_DATADIFF)
        s->node[core / s->o->cores].idle++;
}

static inline void slow_ends(slow *s, uint32_t core, uint32_t t)
{
    uint32_t   i = core / s->o->cores;
    slow_node *v = &s->node[i];
    slow_task *x = &s->task[t];
    s->ended++;
    v->ended++;
    s->last_end = s->now;
    if (!slow_is_central(s) && (htc_locality_finished(v->policy, s->now * s->o->tick_ns, x->read, x->moved) != HTC_OK ||
                                htc_locality_learn(v->lengths, x->phase, x->length * s->o->tick_ns, 1) != HTC_OK))
        abort();
    slow_tell(s, i, t);
    slow_free_core(s, core);
    if (slow_is_central(s)) {
        slow_work(s);
        return;
    }
    slow_start_all(s, i);
    slow_nudge_others(s, i);
    slow_look(s, i);
}

/* ---- one dispatcher ---- */

static inline void slow_dispatched(slow *s)
{
    slow_input in[SLOW_READS];
    uint32_t   best = UINT32_MAX, node = UINT32_MAX, place = 0, window = s->o->window ? s->o->window : 1;
    uint64_t   most = 0;
    s->at_work = 0;
    for (uint32_t w = 0, all = 0; w < window && w < s->queue.n && !all && s->o->system == HTC_SIM_DATAFLOW_DATADIFF; w++) {
        uint32_t n = slow_inputs(s, s->queue.at[w], in), here = UINT32_MAX;
        uint64_t here_most = 0;
        for (uint32_t i = 0; i < s->nodes; i++) {
            uint64_t has = 0;
            for (uint32_t k = 0; k < n; k++)
                has += slow_has(s, i, &in[k]) ? in[k].bytes : 0;
            if (s->node[i].idle && (here == UINT32_MAX || has > here_most || (has == here_most && s->node[i].idle > s->node[here].idle))) {
                here = i;
                here_most = has;
            }
        }
        all = here_most > 0 && here_most == slow_need(s, s->queue.at[w]);
        if (w == 0 || all || here_most > most) {
            place = w;
            node = here;
            most = here_most;
        }
    }
    uint32_t t = slow_take(&s->queue, place);
    for (uint32_t c = 0; c < s->cores; c++) /* of a node the one that became idle last, else that which has been idle longest */
        if (s->core_free[c] && (node == UINT32_MAX || c / s->o->cores == node) &&
            (best == UINT32_MAX || (node == UINT32_MAX ? s->core_free[c] < s->core_free[best] : s->core_free[c] > s->core_free[best])))
            best = c;
    if (node != UINT32_MAX)
        s->node[node].idle--;
    s->messages += 2;
    slow_start(s, best, t, slow_way(s, s->o->task_bytes) + (s->o->system == HTC_SIM_DATAFLOW_YARN ? slow_way(s, s->o->load_bytes) : 0));
    slow_work(s);
}

static inline void slow_job(slow *s)
{
    uint32_t a = s->phase_first[s->phase + 1] - s->phase_first[s->phase], b = s->phase + 1 < s->phases ? s->phase_first[s->phase + 2] - s->phase_first[s->phase + 1] : 0;
    uint32_t n = a > b ? a : b;
    memset(s->core_free, 0, sizeof s->core_free);
    n = n < s->cores ? n : s->cores;
    s->containers = n;
    for (uint32_t k = 0; k < n; k++) {
        uint32_t core = k % s->nodes * s->o->cores + k / s->nodes;
        slow_at(s, (slow_event){ .tick = s->now + slow_ticks(s, (double)s->o->launch_ns) + (k + 1) * slow_ticks(s, (double)s->o->grant_ns) + slow_ticks(s, (double)s->o->container_ns),
                                 .id = core, .what = SLOW_UP, .node = core });
    }
}

static inline void slow_up(slow *s, uint32_t core)
{
    s->containers--;
    slow_free_core(s, core);
    slow_work(s);
    if (s->containers == 0 && s->phase_waits) {
        s->phase_waits = 0;
        slow_at(s, (slow_event){ .tick = slow_max(s->now, s->phase_told), .id = slow_run_id(s, 1), .what = SLOW_PHASE });
    }
}

static inline void slow_phase(slow *s)
{
    if (++s->phase == s->phases)
        return;
    s->phase_from = 0;
    s->phase_told = 0;
    s->phase_left = s->phase_first[s->phase + 1] - s->phase_first[s->phase];
    if (s->o->system == HTC_SIM_DATAFLOW_YARN && s->phase % 2 == 0)
        slow_job(s);
    for (uint32_t t = s->phase_first[s->phase]; t < s->phase_first[s->phase + 1]; t++)
        slow_hears(s, t);
}

/* ---- all ---- */

static inline void slow_edge(slow *s, uint64_t parent, uint64_t child)
{
    if (parent >= s->tasks || child >= s->tasks)
        return;
    s->edge[s->edges][0] = (uint32_t)parent;
    s->edge[s->edges++][1] = (uint32_t)child;
    s->task[child].left++;
    s->task[child].parents++;
}

/* The edges as the header has them. Of a fan-in the parents of a task in falling order. */
static inline void slow_draw(slow *s)
{
    const htc_sim_dataflow_options *o = s->o;
    uint64_t                        n = s->tasks, d = o->degree;
    for (uint64_t i = 0; i < n; i++)
        for (uint64_t k = 1; k <= d; k++) {
            if (o->shape == HTC_SIM_DATAFLOW_FANOUT)
                slow_edge(s, i, i * d + k);
            if (o->shape == HTC_SIM_DATAFLOW_FANIN && i * d + k < n)
                slow_edge(s, n - 1 - (i * d + k), n - 1 - i);
            if (o->shape == HTC_SIM_DATAFLOW_PIPELINE && k == 1 && (i + 1) % d)
                slow_edge(s, i, i + 1);
        }
    for (uint32_t t = 0; t < n && s->phases; t++)
        s->task[t].left = s->task[t].parents = t >= s->phase_first[1];
}

static inline void slow_fill(slow *s)
{
    const htc_sim_dataflow_options *o = s->o;
    uint32_t                        last = o->degree < o->tasks ? o->degree : (uint32_t)o->tasks - 1;
    s->tasks = (uint32_t)o->tasks;
    if (o->shape == HTC_SIM_DATAFLOW_PHASES) {
        s->phases = (uint32_t)o->n_phases;
        for (uint32_t p = 0; p < s->phases; p++)
            s->phase_first[p + 1] = s->phase_first[p] + (uint32_t)o->phases[p].tasks;
        s->tasks = s->phase_first[s->phases];
    } else if (o->shape == HTC_SIM_DATAFLOW_MAPREDUCE || o->system == HTC_SIM_DATAFLOW_YARN) {
        last = o->shape == HTC_SIM_DATAFLOW_MAPREDUCE ? last : 0;
        s->phases = last ? 2 : 1;
        s->phase_first[1] = s->tasks - last;
        s->phase_first[2] = s->tasks;
    }
    for (uint32_t t = 0, p = 0; t < s->tasks; t++) {
        while (s->phases && t >= s->phase_first[p + 1])
            p++;
        const htc_scale_law *length = o->shape == HTC_SIM_DATAFLOW_PHASES ? &o->phases[p].length : &o->length, *bytes = o->shape == HTC_SIM_DATAFLOW_PHASES ? &o->phases[p].bytes : &o->bytes;
        htc__scale_drawer    l = htc__scale_drawer_of(length, o->tick_ns), b = htc__scale_drawer_of(bytes, 1);
        s->task[t].phase = p;
        s->task[t].length = htc__scale_drawer_ticks(&l, htc__scale_draw(htc__scale_stream(o->seed, 0), t));
        s->task[t].size = bytes->mean_ns > 0 ? htc__scale_drawer_ticks(&b, htc__scale_draw(htc__scale_stream(o->seed, 3), t)) : 0;
    }
    uint32_t step = (uint32_t)(s->tasks * 0.6180339887) + 1, pair = 0, seen = 0; /* the first step from there on which comes to all */
    for (; seen < s->tasks && o->shuffled; step += seen < s->tasks)
        for (seen = 0, pair = 0; seen == 0 || pair != 0; pair = (pair + step) % s->tasks)
            s->pair[seen++] = pair;
    for (uint32_t t = 0; t < s->tasks && !o->shuffled; t++)
        s->pair[t] = t;
    s->has_data = o->inputs && o->file_bytes;
    for (uint32_t p = 0; p < s->phases && o->shape == HTC_SIM_DATAFLOW_PHASES; p++)
        s->has_data |= o->phases[p].bytes.mean_ns > 0;
    s->has_data |= o->bytes.mean_ns > 0;
    for (uint32_t f = 0; f < o->files; f++)
        s->file_at[f] = o->system == HTC_SIM_DATAFLOW_PFS || o->system == HTC_SIM_DATAFLOW_DATADIFF ? UINT32_MAX : o->scattered ? slow_drawn(s, 5, f, s->nodes) : f % s->nodes;
}

static inline void slow_open(slow *s)
{
    for (uint32_t i = 0; i < s->nodes; i++) {
        htc_locality_options locality = *s->o->locality;
        htc_locality_lengths_options lengths = HTC_LOCALITY_LENGTHS_OPTIONS_INIT;
        lengths.unknown_ns = s->o->expected_ns;
        locality.self = i;
        locality.bytes_per_s = locality.bytes_per_s ? locality.bytes_per_s : s->o->bytes_per_s;
        htc_steal_start(s->nodes, i, 0, &s->node[i].thief);
        if (htc_locality_create(NULL, &locality, &s->node[i].policy) != HTC_OK || htc_locality_lengths_create(NULL, &lengths, &s->node[i].lengths) != HTC_OK)
            abort();
    }
    if (s->o->system == HTC_SIM_DATAFLOW_YARN) {
        slow_job(s);
        return;
    }
    for (uint32_t k = 0; k < s->cores; k++) /* of a node the first core begins; a dispatcher goes from node to node */
        slow_free_core(s, slow_is_central(s) && s->o->system != HTC_SIM_DATAFLOW_DATADIFF ? k % s->nodes * s->o->cores + k / s->nodes : s->cores - 1 - k);
}

static inline void slow_happens(slow *s, const slow_event *e)
{
    slow_node *v = &s->node[e->node < s->nodes ? e->node : 0];
    switch (e->what) {
    case SLOW_FETCH:
        slow_fetches(s, e);
        break;
    case SLOW_ENDS:
        slow_ends(s, e->node, e->task);
        break;
    case SLOW_UP:
        slow_up(s, e->node);
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
    case SLOW_HEARS:
        slow_hears(s, e->task);
        break;
    case SLOW_ARRIVES:
        slow_put(s, e->node, e->task, htc_locality_in_force(v->policy)->rule != HTC_LOCALITY_MLB);
        break;
    case SLOW_PHASE:
        slow_phase(s);
        break;
    default:
        slow_dispatched(s);
    }
}

/* o has no defaults left, but costs of HTC_NEVER. */
static inline void slow_run(slow *s, const htc_sim_dataflow_options *o)
{
    memset(s, 0, sizeof *s);
    s->o = o;
    s->steal = *o->steal;
    s->nodes = (uint32_t)o->nodes;
    s->cores = s->nodes * o->cores;
    slow_fill(s);
    slow_draw(s);
    s->phase_left = s->phases ? s->phase_first[1] : 0;
    slow_open(s);
    for (uint32_t t = 0; t < s->tasks; t++)
        if (s->task[t].left == 0)
            slow_ready(s, t);
    for (uint32_t i = 0; i < s->nodes && !slow_is_central(s); i++)
        slow_look(s, i);
    while (s->n_events) {
        size_t first = 0;
        for (size_t k = 1; k < s->n_events; k++)
            if (s->event[k].tick < s->event[first].tick || (s->event[k].tick == s->event[first].tick && s->event[k].id < s->event[first].id))
                first = k;
        slow_event e = s->event[first];
        s->event[first] = s->event[--s->n_events];
        s->now = e.tick;
        slow_happens(s, &e);
    }
    for (uint32_t i = 0; i < s->nodes; i++) {
        htc_locality_destroy(s->node[i].policy);
        htc_locality_lengths_destroy(s->node[i].lengths);
    }
}

#endif
