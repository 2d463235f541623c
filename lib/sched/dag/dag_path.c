/* Looking at a graph as a whole: an order of all tasks, cycles, the critical path. */
#include <string.h>

#include "core/util.h"
#include "sched/dag/dag_private.h"

/* Kahn, "Topological sorting of large networks", 1962: a task without waits goes first, and takes one wait off its
 * children. Waits are counted in mark, whatever is done already. */
htc_status htc__dag_order(htc_dag *d, uint32_t *order, uint32_t *placed)
{
    uint32_t n = 0, tasks = 0;
    if (d->size > 0)
        memset(d->mark, 0, d->size * sizeof *d->mark);
    for (uint32_t t = 0; t < d->size; t++)
        for (uint32_t i = 0; i < d->out[t].n && htc__dag_state(d, t) != HTC_DAG_CANCELLED; i++)
            d->mark[d->children[d->out[t].begin + i]]++;
    for (uint32_t t = 0; t < d->size; t++) {
        uint32_t state = htc__dag_state(d, t);
        if (state == HTC_DAG_NONE || state == HTC_DAG_CANCELLED) {
            d->mark[t] = 0;
            continue;
        }
        tasks++;
        if (d->mark[t] == 0)
            order[n++] = t;
    }
    for (uint32_t next = 0; next < n; next++) {
        const htc__dag_out *out = &d->out[order[next]];
        for (uint32_t i = 0; i < out->n; i++) {
            uint32_t child = d->children[out->begin + i];
            if (d->mark[child] > 0 && --d->mark[child] == 0)
                order[n++] = child;
        }
    }
    *placed = n;
    return n < tasks ? HTC_ECYCLE : d->count[HTC_DAG_NAMED] > 0 ? HTC_ENOTFOUND : HTC_OK;
}

/* After HTC_ECYCLE: of each task that was not placed one parent that was not placed either. Whoever walks from parent
 * to parent is on a cycle after as many steps as there are tasks. Answers its smallest task and how many it has. */
static uint32_t find_cycle(const htc_dag *d, uint32_t *parent, uint32_t *n)
{
    uint32_t on = HTC__DAG_NIL, smallest, length = 1;
    for (uint32_t t = 0; t < d->size; t++) {
        if (d->mark[t] == 0)
            continue;
        on = t;
        for (uint32_t i = 0; i < d->out[t].n; i++)
            parent[d->children[d->out[t].begin + i]] = t;
    }
    for (uint32_t steps = 0; steps < d->size; steps++)
        on = parent[on];
    smallest = on;
    for (uint32_t t = parent[on]; t != on; t = parent[t]) {
        length++;
        smallest = t < smallest ? t : smallest;
    }
    *n = length;
    return smallest;
}

/* Parents are met in the wrong direction: the last place is filled first. */
static void write_cycle(const uint32_t *parent, uint32_t smallest, uint32_t n, uint32_t cap, uint32_t *out)
{
    uint32_t task = smallest;
    for (uint32_t place = n; place > 0; place--) {
        task = parent[task];
        if (place - 1 < cap)
            out[place - 1] = task;
    }
}

static uint32_t write_missing(const htc_dag *d, uint32_t cap, uint32_t *out)
{
    uint32_t n = 0;
    for (uint32_t t = 0; t < d->size; t++)
        if (htc__dag_state(d, t) == HTC_DAG_NAMED) {
            if (n < cap)
                out[n] = t;
            n++;
        }
    return n;
}

htc_status htc_dag_check(htc_dag *dag, uint32_t cap, uint32_t *out, uint32_t *n)
{
    uint32_t found = 0, smallest;
    if (!htc__dag_may_change(dag) || (cap > 0 && !out))
        return HTC_EINVAL;
    htc_status status = htc__dag_settle(dag);
    if (status != HTC_OK)
        return status;
    uint32_t *order = htc__alloc(dag->env, dag->size * sizeof *order);
    if (!order)
        return HTC_ENOMEM;
    status = htc__dag_order(dag, order, &found);
    if (status == HTC_ECYCLE) {
        smallest = find_cycle(dag, order, &found);
        write_cycle(order, smallest, found, cap, out);
    } else
        found = write_missing(dag, cap, out);
    if (n)
        *n = found;
    htc__free(dag->env, order, dag->size * sizeof *order);
    return status;
}

/* left(v), children before parents; HTC_ETOOBIG. */
static htc_status ranks(const htc_dag *d, const uint32_t *order, uint32_t placed, const htc_ns *length, htc_ns *left)
{
    for (uint32_t at = placed; at > 0; at--) {
        uint32_t            t = order[at - 1];
        const htc__dag_out *out = &d->out[t];
        htc_ns              most = 0;
        for (uint32_t i = 0; i < out->n; i++) {
            htc_ns of_child = left[d->children[out->begin + i]]; /* 0 of the cancelled */
            most = of_child > most ? of_child : most;
        }
        if (length[t] > UINT64_MAX - most)
            return HTC_ETOOBIG;
        left[t] = length[t] + most;
    }
    return HTC_OK;
}

/* The child by which the longest way goes on; HTC__DAG_NIL at its end. */
static uint32_t next_on_path(const htc_dag *d, uint32_t task, const htc_ns *length, const htc_ns *left)
{
    const htc__dag_out *out = &d->out[task];
    uint32_t            next = HTC__DAG_NIL;
    for (uint32_t i = 0; i < out->n; i++) {
        uint32_t child = d->children[out->begin + i];
        if (htc__dag_state(d, child) != HTC_DAG_CANCELLED && left[child] == left[task] - length[task] && child < next)
            next = child;
    }
    return next;
}

/* Answers how many tasks the path has. */
static uint32_t write_path(const htc_dag *d, const htc_ns *length, const htc_ns *left, uint32_t cap, uint32_t *path)
{
    uint32_t first = HTC__DAG_NIL, n = 0;
    for (uint32_t t = 0; t < d->size; t++) {
        uint32_t state = htc__dag_state(d, t);
        if (state != HTC_DAG_NONE && state != HTC_DAG_CANCELLED && (first == HTC__DAG_NIL || left[t] > left[first]))
            first = t;
    }
    for (uint32_t t = first; t != HTC__DAG_NIL; t = next_on_path(d, t, length, left)) {
        if (n < cap)
            path[n] = t;
        n++;
    }
    return n;
}

static htc_ns longest(const htc_ns *left, uint32_t size)
{
    htc_ns most = 0;
    for (uint32_t t = 0; t < size; t++)
        most = left[t] > most ? left[t] : most;
    return most;
}

htc_status htc_dag_critical_path(htc_dag *dag, size_t tasks, const htc_ns *length, uint32_t cap, htc_ns *left,
                                 uint32_t *path, uint32_t *n, htc_ns *total)
{
    uint32_t placed;
    if (!htc__dag_may_change(dag) || !length || !total || (cap > 0 && !path) || tasks < dag->size)
        return HTC_EINVAL;
    htc_status status = htc__dag_settle(dag);
    if (status != HTC_OK)
        return status;
    size_t    size = dag->size;
    uint32_t *order = htc__alloc(dag->env, size * sizeof *order);
    htc_ns   *rank = htc__alloc(dag->env, size * sizeof *rank);
    status = order && rank ? htc__dag_order(dag, order, &placed) : HTC_ENOMEM;
    if (status == HTC_OK)
        status = ranks(dag, order, placed, length, rank);
    if (status == HTC_OK) {
        uint32_t steps = write_path(dag, length, rank, cap, path);
        if (n)
            *n = steps;
        *total = longest(rank, dag->size);
        if (left && size > 0)
            memcpy(left, rank, size * sizeof *left);
    }
    htc__free(dag->env, rank, size * sizeof *rank);
    htc__free(dag->env, order, size * sizeof *order);
    return status;
}
