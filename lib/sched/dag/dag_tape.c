/* The state of a graph, written and read: arrays whose elements name each other by their places. What is read has been looked through before anybody uses it. */
#include <string.h>

#include "core/util.h"
#include "sched/dag/dag_private.h"

static htc_status move(const htc_tape *tape, htc_status status, void *data, size_t n)
{
    return status == HTC_OK && n ? tape->move(tape->ctx, data, n) : status;
}

static htc_status move_tasks(htc_dag *d, const htc_tape *tape, uint32_t size)
{
    htc_status status = size > d->tasks_max ? HTC_ECORRUPT : htc__dag_reserve_tasks(d, size);
    d->size = status == HTC_OK ? size : d->size;
    status = move(tape, status, d->out, (size_t)size * sizeof *d->out);
    status = move(tape, status, d->link, (size_t)size * sizeof *d->link);
    return move(tape, status, d->waits, (size_t)size * sizeof *d->waits);
}

static htc_status move_children(htc_dag *d, const htc_tape *tape, uint32_t n)
{
    size_t     room = d->room;
    htc_status status = HTC_OK;
    d->children = htc__tape_array(tape, d->env, d->children, &room, sizeof *d->children, 2 * (size_t)d->edges_max, &status);
    d->room = (uint32_t)room;
    if (status == HTC_OK && n > d->room)
        status = HTC_ECORRUPT;
    d->n = status == HTC_OK ? n : 0;
    return status;
}

/* The log is read edge by edge into new pieces. */
static htc_status move_log(htc_dag *d, const htc_tape *tape, uint32_t logged)
{
    htc_status status = logged > d->edges_max ? HTC_ECORRUPT : HTC_OK;
    for (uint32_t i = 0; i < logged && status == HTC_OK; i++) {
        if (tape->reads && (status = htc__dag_reserve_edge(d)) != HTC_OK)
            return status;
        d->logged = tape->reads ? i + 1 : d->logged;
        status = move(tape, status, htc__dag_edge_at(d, i), sizeof(htc__dag_edge));
    }
    return status;
}

/* ---- what is read ---- */

/* The children of a task are there; those that it still holds back count it. */
static int has_children(htc_dag *d, uint32_t task)
{
    const htc__dag_out *out = &d->out[task];
    uint32_t            more = 0, holds = htc__dag_state(d, task) != HTC_DAG_DONE;
    if (out->begin > d->n || out->n > d->n - out->begin || out->newest > d->logged)
        return 0;
    for (uint32_t i = 0; i < out->n; i++) {
        uint32_t child = d->children[out->begin + i];
        if (child >= d->size)
            return 0;
        d->mark[child] += holds;
    }
    for (uint32_t place = out->newest; place > 0; more++) {
        const htc__dag_edge *e = htc__dag_edge_at(d, place - 1);
        if (e->parent != task || e->child >= d->size || e->older >= place)
            return 0;
        d->mark[e->child] += holds;
        place = e->older;
    }
    return more == out->more;
}

/* Every task waits for as many as hold it back, and those that wait for nobody are ready. */
static int is_counted(htc_dag *d)
{
    memset(d->count, 0, sizeof d->count);
    memset(d->mark, 0, d->size * sizeof *d->mark);
    for (uint32_t t = 0; t < d->size; t++)
        if (d->waits[t] % HTC__DAG_PARENT > HTC_DAG_CANCELLED || !has_children(d, t))
            return 0;
    for (uint32_t t = 0; t < d->size; t++) {
        uint32_t state = htc__dag_state(d, t), waits = d->waits[t] / HTC__DAG_PARENT;
        d->count[state]++;
        if (waits != d->mark[t] || (state == HTC_DAG_READY && waits) || (state == HTC_DAG_WAITING && !waits))
            return 0;
    }
    return 1;
}

/* The list of ready tasks has each of them once. */
static int is_listed(const htc_dag *d)
{
    uint32_t n = 0, before = HTC__DAG_NIL;
    for (uint32_t t = d->first; t != HTC__DAG_NIL; t = d->link[t].after) {
        if (t >= d->size || d->link[t].before != before || htc__dag_state(d, t) != HTC_DAG_READY || ++n > d->count[HTC_DAG_READY])
            return 0;
        before = t;
    }
    return before == d->last && n == d->count[HTC_DAG_READY];
}

htc_status htc_dag_tape(htc_dag *dag, const htc_tape *tape)
{
    htc_dag   *d = dag;
    htc_status status = htc__dag_may_change(d) ? htc__tape_check(tape) : HTC_EINVAL;
    if (status == HTC_OK && tape->reads && (d->size || d->logged))
        status = HTC_EINVAL;
    if (status != HTC_OK)
        return status;
    uint32_t head[] = { sizeof *d, sizeof *d->out, d->tasks_max, d->edges_max, d->size, d->n, d->logged, d->first, d->last }, found[sizeof head / sizeof *head];
    memcpy(found, head, sizeof head);
    status = tape->move(tape->ctx, found, sizeof found);
    if (status == HTC_OK && memcmp(found, head, 4 * sizeof *head) != 0)
        status = HTC_EFORMAT;
    if (status == HTC_OK)
        status = move_tasks(d, tape, found[4]);
    if (status == HTC_OK)
        status = move_children(d, tape, found[5]);
    if (status == HTC_OK)
        status = move_log(d, tape, found[6]);
    if (status != HTC_OK || !tape->reads)
        return status;
    d->first = found[7];
    d->last = found[8];
    return is_counted(d) && is_listed(d) ? HTC_OK : HTC_ECORRUPT;
}
