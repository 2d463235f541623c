/* Earliest finishing times (MATRIX, section 5.2.3): what a scheduler that knows everything, and looks back to the
 * parents' nodes alone, does at best. */
#include <string.h>

#include "core/util.h"
#include "sched/dag/dag_private.h"

__extension__ typedef unsigned __int128 wide;

typedef struct bounding {
    htc_dag             *dag;
    const htc_dag_model *model;
    uint32_t            *order, *parents; /* the parents of v: parents[v > 0 ? mark[v - 1] : 0] up to mark[v] */
    htc_ns              *finish;
    htc_ns               wait; /* t_q where the model names none */
} bounding;

void htc_dag_model_init(htc_dag_model *model)
{
    if (model)
        *model = (htc_dag_model)HTC_DAG_MODEL_INIT;
}

static htc_ns plus(htc_ns a, htc_ns b)
{
    return a > HTC_NEVER - b ? HTC_NEVER : a + b;
}

static htc_ns later(htc_ns a, htc_ns b)
{
    return a > b ? a : b;
}

static htc_ns sooner(htc_ns a, htc_ns b)
{
    return a < b ? a : b;
}

static htc_ns transfer(uint64_t bytes, uint64_t bandwidth)
{
    if (bytes == 0)
        return 0;
    if (bandwidth == 0)
        return HTC_NEVER;
    wide ns = (wide)bytes * HTC_SECOND / bandwidth;
    return ns > HTC_NEVER ? HTC_NEVER : (htc_ns)ns;
}

/* When the data of u is where v runs; near: v is a parent of the task in question, and the task runs where v did. */
static htc_ns arrives(const bounding *b, uint32_t u, uint32_t v, int near)
{
    const htc_dag_model *m = b->model;
    uint64_t             bytes = m->bytes ? m->bytes[u] : 0;
    if (near && u == v)
        return b->finish[u];
    if (m->between) {
        b->dag->asking = 1;
        uint64_t bandwidth = m->between(m->ctx, u, v);
        b->dag->asking = 0;
        return plus(b->finish[u], transfer(bytes, bandwidth));
    }
    return plus(b->finish[u], m->bandwidth ? transfer(bytes, m->bandwidth) : 0);
}

/* min over u of max over w, with one bandwidth for all: only for the parent whose data comes last is it better to be
 * there. */
static htc_ns at_last_parent(const bounding *b, const uint32_t *parents, uint32_t n)
{
    uint32_t last = parents[0];
    htc_ns   second = 0, first = arrives(b, last, last, 0);
    for (uint32_t i = 1; i < n; i++) {
        htc_ns when = arrives(b, parents[i], parents[i], 0);
        if (when > first) {
            second = first;
            first = when;
            last = parents[i];
        } else
            second = later(second, when);
    }
    return later(b->finish[last], second);
}

static htc_ns at_best_parent(const bounding *b, const uint32_t *parents, uint32_t n)
{
    htc_ns best = HTC_NEVER;
    if (!b->model->between)
        return at_last_parent(b, parents, n);
    for (uint32_t u = 0; u < n; u++) {
        htc_ns all = 0;
        for (uint32_t w = 0; w < n && all < best; w++)
            all = later(all, arrives(b, parents[w], parents[u], 1));
        best = sooner(best, all);
    }
    return best;
}

static htc_ns elsewhere(const bounding *b, uint32_t v, const uint32_t *parents, uint32_t n)
{
    htc_ns all = 0;
    for (uint32_t i = 0; i < n; i++)
        all = later(all, arrives(b, parents[i], v, 0));
    return all;
}

static htc_ns earliest(const bounding *b, uint32_t v)
{
    uint32_t        begin = v > 0 ? b->dag->mark[v - 1] : 0, n = b->dag->mark[v] - begin;
    const uint32_t *parents = &b->parents[begin];
    htc_ns          start = elsewhere(b, v, parents, n);
    if (n > 0)
        start = sooner(start, plus(at_best_parent(b, parents, n), b->model->move_ns));
    return plus(plus(start, b->model->wait_ns ? b->model->wait_ns[v] : b->wait), b->model->exec_ns[v]);
}

/* Parents of each task one after the other. A task that is done may have a cancelled parent: that one does not count.
 */
static void turn_edges(const bounding *b)
{
    const htc_dag *d = b->dag;
    uint32_t       before = 0;
    memset(d->mark, 0, d->size * sizeof *d->mark);
    for (uint32_t t = 0; t < d->size; t++)
        for (uint32_t i = 0; i < d->out[t].n && htc__dag_state(d, t) != HTC_DAG_CANCELLED; i++)
            d->mark[d->children[d->out[t].begin + i]]++;
    for (uint32_t t = 0; t < d->size; t++) {
        uint32_t n = d->mark[t];
        d->mark[t] = before;
        before += n;
    }
    for (uint32_t t = 0; t < d->size; t++)
        for (uint32_t i = 0; i < d->out[t].n && htc__dag_state(d, t) != HTC_DAG_CANCELLED; i++)
            b->parents[d->mark[d->children[d->out[t].begin + i]]++] = t;
}

/* (k - 1) l / 2, l the mean of those that were placed. */
static htc_ns mean_wait(const bounding *b, uint32_t placed)
{
    wide     sum = 0;
    uint64_t others = b->model->tasks_per_slot ? b->model->tasks_per_slot - 1 : 0;
    for (uint32_t i = 0; i < placed; i++)
        sum += b->model->exec_ns[b->order[i]];
    wide mean = placed ? sum / placed : 0, wait = mean * others / 2;
    return wait > HTC_NEVER ? HTC_NEVER : (htc_ns)wait;
}

static htc_status bound_all(bounding *b, htc_ns *bound)
{
    uint32_t   placed;
    htc_ns     last = 0;
    htc_status status = htc__dag_order(b->dag, b->order, &placed);
    if (status != HTC_OK)
        return status;
    b->wait = mean_wait(b, placed);
    turn_edges(b);
    for (uint32_t i = 0; i < placed; i++) {
        uint32_t v = b->order[i];
        b->finish[v] = earliest(b, v);
        last = later(last, b->finish[v]);
    }
    *bound = last;
    return HTC_OK;
}

htc_status htc_dag_bound(htc_dag *dag, const htc_dag_model *model, htc_ns *finish, htc_ns *bound)
{
    htc_dag_model m = HTC_DAG_MODEL_INIT;
    if (!htc__dag_may_change(dag) || !model || !bound)
        return HTC_EINVAL;
    htc_status status = htc__options_copy(&m, sizeof m, model, model->size, sizeof m.size);
    if (status != HTC_OK)
        return status;
    if (m.tasks < dag->size || (dag->size > 0 && !m.exec_ns))
        return HTC_EINVAL;
    status = htc__dag_settle(dag);
    if (status != HTC_OK)
        return status;
    size_t   size = dag->size, edges = dag->n;
    bounding b = { .dag = dag, .model = &m };
    b.order = htc__alloc(dag->env, size * sizeof *b.order);
    b.parents = htc__alloc(dag->env, edges * sizeof *b.parents);
    b.finish = htc__alloc(dag->env, size * sizeof *b.finish);
    if (!b.order || !b.parents || !b.finish)
        status = HTC_ENOMEM;
    else if (size == 0)
        *bound = 0;
    else
        status = bound_all(&b, bound);
    if (status == HTC_OK && finish && size > 0)
        memcpy(finish, b.finish, size * sizeof *finish);
    htc__free(dag->env, b.finish, size * sizeof *b.finish);
    htc__free(dag->env, b.parents, edges * sizeof *b.parents);
    htc__free(dag->env, b.order, size * sizeof *b.order);
    return status;
}
