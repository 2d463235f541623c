/* Building a graph: tasks, edges in any order, duplicates. */
#include "htcsched/dag.h"

#include <assert.h>
#include <string.h>

#include "core/util.h"
#include "sched/dag/dag_private.h"

#define TASKS_MAX  (UINT32_C(1) << 24)
#define TASKS_CAP  64u
#define PIECES_CAP 16u
/* Memory for one task, in all arrays. */
#define TASK_BYTES (2 * sizeof(uint32_t) + sizeof(htc__dag_link) + sizeof(htc__dag_out))
/* Looking this far ahead in the log hides what memory is slow at. */
#define AHEAD 16u

void htc_dag_options_init(htc_dag_options *options, size_t size)
{
    htc__options_init(options, size);
}

htc_status htc_dag_create(const htc_env *env, const htc_dag_options *options, htc_dag **out)
{
    htc_dag_options o = HTC_DAG_OPTIONS_INIT;
    htc_status      status = htc__options_copy(&o, sizeof o, options, options ? options->size : 0, sizeof o.size);
    if (status != HTC_OK)
        return status;
    if (!out || o.tasks_max > HTC_DAG_TASKS_MAX || o.edges_max > HTC_DAG_EDGES_MAX)
        return HTC_EINVAL;
    htc_dag *d = htc__alloc(env, sizeof *d);
    if (!d)
        return HTC_ENOMEM;
    d->env = env;
    d->tasks_max = o.tasks_max ? o.tasks_max : TASKS_MAX;
    d->edges_max = o.edges_max ? o.edges_max : HTC_DAG_EDGES_MAX;
    d->first = d->last = HTC__DAG_NIL;
    *out = d;
    return HTC_OK;
}

static void free_log(htc_dag *d)
{
    for (uint32_t i = 0; i < d->logged; i += HTC__DAG_PIECE)
        htc__free(d->env, d->pieces[i / HTC__DAG_PIECE], HTC__DAG_PIECE * sizeof **d->pieces);
    htc__free(d->env, d->pieces, d->pieces_cap * sizeof *d->pieces);
    d->pieces = NULL;
    d->pieces_cap = d->logged = 0;
}

void htc_dag_destroy(htc_dag *dag)
{
    if (!htc__dag_may_change(dag))
        return;
    free_log(dag);
    htc__free(dag->env, dag->children, dag->room * sizeof *dag->children);
    htc__free(dag->env, dag->out, dag->cap * TASK_BYTES);
    htc__free(dag->env, dag, sizeof *dag);
}

/* The arrays lie one behind the other in one piece of memory, so that they grow together or not at all. */
static void lay_out(htc_dag *d, void *memory, uint32_t cap)
{
    d->out = memory;
    d->link = (htc__dag_link *)(d->out + cap);
    d->waits = (uint32_t *)(d->link + cap);
    d->mark = d->waits + cap;
    d->cap = cap;
}

htc_status htc__dag_reserve_tasks(htc_dag *d, uint32_t size)
{
    htc_dag  old = *d;
    uint64_t cap = d->cap ? d->cap : TASKS_CAP;
    if (size <= d->cap)
        return HTC_OK;
    while (cap < size)
        cap *= 2;
    void *memory = cap > SIZE_MAX / TASK_BYTES ? NULL : htc__alloc(d->env, (size_t)cap * TASK_BYTES);
    if (!memory)
        return HTC_ENOMEM;
    lay_out(d, memory, (uint32_t)cap);
    if (old.size > 0) {
        memcpy(d->out, old.out, old.size * sizeof *d->out);
        memcpy(d->link, old.link, old.size * sizeof *d->link);
        memcpy(d->waits, old.waits, old.size * sizeof *d->waits);
    }
    htc__free(d->env, old.out, old.cap * TASK_BYTES);
    return HTC_OK;
}

htc_status htc__dag_reserve_edge(htc_dag *d)
{
    uint32_t piece = d->logged / HTC__DAG_PIECE;
    if (d->logged % HTC__DAG_PIECE != 0)
        return HTC_OK;
    if (piece == d->pieces_cap) {
        uint32_t        cap = d->pieces_cap ? d->pieces_cap * 2 : PIECES_CAP;
        htc__dag_edge **grown = htc__resize(d->env, d->pieces, d->pieces_cap * sizeof *grown, cap * sizeof *grown);
        if (!grown)
            return HTC_ENOMEM;
        d->pieces = grown;
        d->pieces_cap = cap;
    }
    d->pieces[piece] = htc__alloc(d->env, HTC__DAG_PIECE * sizeof **d->pieces);
    return d->pieces[piece] ? HTC_OK : HTC_ENOMEM;
}

void htc__dag_set_state(htc_dag *d, uint32_t task, uint32_t state)
{
    uint32_t was = d->waits[task] % HTC__DAG_PARENT;
    assert(d->count[was] > 0);
    d->count[was]--;
    d->count[state]++;
    d->waits[task] += state - was;
}

void htc__dag_make_ready(htc_dag *d, uint32_t task, int at_front)
{
    htc__dag_link *me = &d->link[task];
    htc__dag_set_state(d, task, HTC_DAG_READY);
    me->before = at_front ? HTC__DAG_NIL : d->last;
    me->after = at_front ? d->first : HTC__DAG_NIL;
    *(me->before == HTC__DAG_NIL ? &d->first : &d->link[me->before].after) = task;
    *(me->after == HTC__DAG_NIL ? &d->last : &d->link[me->after].before) = task;
}

void htc__dag_unready(htc_dag *d, uint32_t task)
{
    const htc__dag_link *me = &d->link[task];
    if (htc__dag_state(d, task) != HTC_DAG_READY)
        return;
    *(me->before == HTC__DAG_NIL ? &d->first : &d->link[me->before].after) = me->after;
    *(me->after == HTC__DAG_NIL ? &d->last : &d->link[me->after].before) = me->before;
}

/* There is room for it; from now on it has been named. */
static void name_task(htc_dag *d, uint32_t task)
{
    if (task >= d->size) {
        d->count[HTC_DAG_NONE] += task + 1 - d->size;
        d->size = task + 1;
    }
    if (htc__dag_state(d, task) == HTC_DAG_NONE)
        htc__dag_set_state(d, task, HTC_DAG_NAMED);
}

htc_status htc_dag_add_task(htc_dag *dag, uint32_t task)
{
    if (!htc__dag_may_change(dag))
        return HTC_EINVAL;
    if (task >= dag->tasks_max)
        return HTC_EFULL;
    uint32_t state = htc__dag_state(dag, task);
    if (state > HTC_DAG_NAMED)
        return state == HTC_DAG_CANCELLED ? HTC_ECANCELLED : HTC_EEXISTS;
    htc_status status = htc__dag_reserve_tasks(dag, task + 1);
    if (status != HTC_OK)
        return status;
    name_task(dag, task);
    htc__dag_set_state(dag, task, HTC_DAG_WAITING);
    if (dag->waits[task] == HTC_DAG_WAITING)
        htc__dag_make_ready(dag, task, 0);
    return HTC_OK;
}

htc_status htc_dag_add_edge(htc_dag *dag, uint32_t parent, uint32_t child)
{
    if (!htc__dag_may_change(dag))
        return HTC_EINVAL;
    if (parent == child)
        return HTC_ECYCLE;
    uint32_t to = htc__dag_state(dag, child), from = htc__dag_state(dag, parent),
             larger = parent > child ? parent : child;
    if (larger >= dag->tasks_max || dag->n + dag->logged >= dag->edges_max)
        return HTC_EFULL;
    if (from == HTC_DAG_CANCELLED || to == HTC_DAG_CANCELLED)
        return HTC_ECANCELLED;
    if (to == HTC_DAG_RUNNING || to == HTC_DAG_DONE)
        return HTC_EINVAL;
    htc_status status = htc__dag_reserve_tasks(dag, larger + 1);
    if (status == HTC_OK)
        status = htc__dag_reserve_edge(dag);
    if (status != HTC_OK)
        return status;
    name_task(dag, parent);
    name_task(dag, child);
    htc__dag_out *out = &dag->out[parent];
    *htc__dag_edge_at(dag, dag->logged) = (htc__dag_edge){ parent, child, out->newest };
    out->newest = ++dag->logged;
    out->more++;
    if (from == HTC_DAG_DONE)
        return HTC_OK;
    dag->waits[child] += HTC__DAG_PARENT;
    if (to == HTC_DAG_READY) {
        htc__dag_unready(dag, child);
        htc__dag_set_state(dag, child, HTC_DAG_WAITING);
    }
    return HTC_OK;
}

/* Those in order move to where they belong, with a gap behind for those of the log. out->n counts what is there. */
static void spread_children(htc_dag *d, uint32_t *children)
{
    uint32_t at = 0;
    for (uint32_t t = 0; t < d->size; t++) {
        htc__dag_out *out = &d->out[t];
        if (out->n > 0)
            memcpy(&children[at], &d->children[out->begin], out->n * sizeof *children);
        out->begin = at;
        at += out->n + out->more;
    }
}

/* In the order they came. What will be written is fetched ahead, in two steps: where it is to go, then that place. */
static void gather_log(htc_dag *d, uint32_t *children)
{
    for (uint32_t i = 0; i < d->logged; i++) {
        if (i + 2 * AHEAD < d->logged)
            __builtin_prefetch(&d->out[htc__dag_edge_at(d, i + 2 * AHEAD)->parent], 1);
        if (i + AHEAD < d->logged) {
            const htc__dag_out *soon = &d->out[htc__dag_edge_at(d, i + AHEAD)->parent];
            __builtin_prefetch(&children[soon->begin + soon->n], 1);
        }
        const htc__dag_edge *e = htc__dag_edge_at(d, i);
        htc__dag_out        *out = &d->out[e->parent];
        children[out->begin + out->n++] = e->child;
    }
}

/* Of the same edge the first stays. A parent that is done holds nobody back, so then there is nothing to count. */
static void drop_duplicates(htc_dag *d, uint32_t *children)
{
    uint32_t to = 0;
    memset(d->mark, 0, d->size * sizeof *d->mark);
    for (uint32_t t = 0; t < d->size; t++) {
        htc__dag_out *out = &d->out[t];
        uint32_t      begin = to, end = out->begin + out->n;
        int           holds = htc__dag_state(d, t) != HTC_DAG_DONE;
        for (uint32_t i = out->begin; i < end; i++) {
            uint32_t child = children[i];
            if (d->mark[child] != t + 1) {
                d->mark[child] = t + 1;
                children[to++] = child;
            } else if (holds)
                d->waits[child] -= HTC__DAG_PARENT;
        }
        *out = (htc__dag_out){ .begin = begin, .n = to - begin };
    }
    d->n = to;
}

htc_status htc__dag_settle(htc_dag *d)
{
    uint32_t room = d->n + d->logged;
    if (d->logged == 0)
        return HTC_OK;
    if (d->asking)
        return HTC_EINVAL;
    uint32_t *children = htc__alloc(d->env, room * sizeof *children);
    if (!children)
        return HTC_ENOMEM;
    spread_children(d, children);
    gather_log(d, children);
    drop_duplicates(d, children);
    htc__free(d->env, d->children, d->room * sizeof *children);
    d->children = children;
    d->room = room;
    free_log(d);
    return HTC_OK;
}

uint32_t htc_dag_state_of(const htc_dag *dag, uint32_t task)
{
    return dag ? htc__dag_state(dag, task) : HTC_DAG_NONE;
}

uint32_t htc_dag_size(const htc_dag *dag)
{
    return dag ? dag->size : 0;
}

htc_status htc_dag_count(const htc_dag *dag, htc_dag_counts *counts)
{
    if (!dag || !counts)
        return HTC_EINVAL;
    const uint32_t *n = dag->count;
    *counts = (htc_dag_counts){ .named = n[HTC_DAG_NAMED],
                                .waiting = n[HTC_DAG_WAITING],
                                .ready = n[HTC_DAG_READY],
                                .running = n[HTC_DAG_RUNNING],
                                .done = n[HTC_DAG_DONE],
                                .cancelled = n[HTC_DAG_CANCELLED] };
    return HTC_OK;
}

htc_status htc_dag_edges(htc_dag *dag, uint32_t *n)
{
    if (!dag || !n)
        return HTC_EINVAL;
    htc_status status = htc__dag_settle(dag);
    if (status == HTC_OK)
        *n = dag->n;
    return status;
}

htc_status htc_dag_children(htc_dag *dag, uint32_t task, const uint32_t **children, uint32_t *n)
{
    if (!dag || !children || !n)
        return HTC_EINVAL;
    htc_status status = htc__dag_settle(dag);
    if (status != HTC_OK)
        return status;
    int known = task < dag->size;
    *n = known ? dag->out[task].n : 0;
    *children = *n ? &dag->children[dag->out[task].begin] : NULL;
    return HTC_OK;
}

htc_status htc_dag_waits(htc_dag *dag, uint32_t task, uint32_t *n)
{
    if (!dag || !n)
        return HTC_EINVAL;
    htc_status status = htc__dag_settle(dag);
    if (status != HTC_OK)
        return status;
    uint32_t state = htc__dag_state(dag, task);
    *n = state == HTC_DAG_NONE || state == HTC_DAG_DONE || state == HTC_DAG_CANCELLED
             ? 0
             : dag->waits[task] / HTC__DAG_PARENT;
    return HTC_OK;
}
