/* Running a graph: what is ready, what becomes ready, what can never run. */
#include <assert.h>

#include "sched/dag/dag_private.h"

htc_status htc_dag_take(htc_dag *dag, uint32_t *task)
{
    if (!htc__dag_may_change(dag) || !task)
        return HTC_EINVAL;
    uint32_t next = dag->first;
    if (next == HTC__DAG_NIL)
        return HTC_AGAIN;
    assert(htc__dag_state(dag, next) == HTC_DAG_READY);
    htc__dag_unready(dag, next);
    htc__dag_set_state(dag, next, HTC_DAG_RUNNING);
    *task = next;
    return HTC_OK;
}

htc_status htc_dag_put_back(htc_dag *dag, uint32_t task)
{
    if (!htc__dag_may_change(dag) || htc__dag_state(dag, task) != HTC_DAG_RUNNING)
        return HTC_EINVAL;
    htc__dag_make_ready(dag, task, 1);
    return HTC_OK;
}

/* One parent less. */
static void release(htc_dag *d, uint32_t child)
{
    assert(d->waits[child] >= HTC__DAG_PARENT);
    d->waits[child] -= HTC__DAG_PARENT;
    if (d->waits[child] == HTC_DAG_WAITING)
        htc__dag_make_ready(d, child, 0);
}

htc_status htc_dag_done(htc_dag *dag, uint32_t task)
{
    uint32_t state = htc__dag_may_change(dag) ? htc__dag_state(dag, task) : HTC_DAG_NONE;
    if (state != HTC_DAG_WAITING && state != HTC_DAG_READY && state != HTC_DAG_RUNNING)
        return HTC_EINVAL;
    /* Only when much has come: then it costs no more than adding did. Without memory the log does as well. */
    if (dag->out[task].more > 0 && dag->logged >= (dag->size + dag->n) / 4)
        (void)htc__dag_settle(dag);
    htc__dag_unready(dag, task);
    htc__dag_set_state(dag, task, HTC_DAG_DONE);
    const htc__dag_out *out = &dag->out[task];
    for (uint32_t i = 0; i < out->n; i++)
        __builtin_prefetch(&dag->waits[dag->children[out->begin + i]], 1);
    for (uint32_t i = 0; i < out->n; i++)
        release(dag, dag->children[out->begin + i]);
    for (uint32_t place = out->newest; place > 0; place = htc__dag_edge_at(dag, place - 1)->older)
        release(dag, htc__dag_edge_at(dag, place - 1)->child);
    return HTC_OK;
}

typedef struct cancelling {
    htc_dag           *dag;
    htc_dag_cancelled *each;
    void              *ctx;
    uint32_t           last; /* of those whose children are still to be looked at */
} cancelling;

/* Cancelled tasks are in no list of ready ones: their links make the list of those whose turn is to come. */
static void cancel_one(cancelling *c, uint32_t task)
{
    htc_dag *d = c->dag;
    uint32_t was = htc__dag_state(d, task);
    if (was == HTC_DAG_DONE || was == HTC_DAG_CANCELLED)
        return;
    htc__dag_unready(d, task);
    htc__dag_set_state(d, task, HTC_DAG_CANCELLED);
    d->link[task].after = HTC__DAG_NIL;
    if (c->last != HTC__DAG_NIL)
        d->link[c->last].after = task;
    c->last = task;
    if (!c->each)
        return;
    d->asking = 1;
    c->each(c->ctx, task, was);
    d->asking = 0;
}

htc_status htc_dag_cancel(htc_dag *dag, uint32_t task, htc_dag_cancelled *each, void *ctx)
{
    uint32_t state = htc__dag_may_change(dag) ? htc__dag_state(dag, task) : HTC_DAG_NONE;
    if (state == HTC_DAG_NONE || state == HTC_DAG_DONE || state == HTC_DAG_CANCELLED)
        return HTC_EINVAL;
    cancelling c = { dag, each, ctx, HTC__DAG_NIL };
    cancel_one(&c, task);
    for (uint32_t t = task; t != HTC__DAG_NIL; t = dag->link[t].after) {
        const htc__dag_out *out = &dag->out[t];
        for (uint32_t i = 0; i < out->n; i++)
            cancel_one(&c, dag->children[out->begin + i]);
        for (uint32_t place = out->newest; place > 0; place = htc__dag_edge_at(dag, place - 1)->older)
            cancel_one(&c, htc__dag_edge_at(dag, place - 1)->child);
    }
    return HTC_OK;
}
