/* Dynamic service provision, message by message: workflows of an environment. A task is a job of one node that is queued when htc_dag_take says that it is ready. */
#include "core/order.h"
#include "core/util.h"
#include "sim/scenarios/provision_exact.h"

int htc__exact_flow_next(exact_tre *e)
{
    htc_sim_provision_flow *f = &e->next_flow;
    htc_status              status = e->taken < e->o.n_flows ? HTC_OK : HTC_AGAIN;
    *f = (htc_sim_provision_flow){ .size = sizeof *f };
    if (e->o.next_flow)
        status = e->o.next_flow(e->o.ctx, f);
    else if (status == HTC_OK)
        status = htc__options_at(f, sizeof *f, e->o.flows, e->taken, sizeof *f);
    if (status == HTC_OK && (!f->length || !f->tasks || f->tasks > HTC_DAG_TASKS_MAX || (f->n_edges && !f->edges) || f->arrival < e->before))
        status = HTC_EINVAL;
    if (status != HTC_OK && status != HTC_AGAIN)
        htc__twin_fail(&e->x->t, status, "workflow %zu of environment %u: %s", e->taken, e->number,
                        status == HTC_EINVAL ? "it has no tasks or no lengths, or arrives before the one that came before it" : htc_strerror(status));
    return status == HTC_OK;
}

static void close_flow(exact_tre *e, exact_flow *f)
{
    htc_dag_destroy(f->dag);
    htc__free(&e->x->t.memory.env, f->length, f->tasks * sizeof *f->length);
    *f = (exact_flow){ 0 };
}

/* The place of a workflow that is over, or a new one; SIZE_MAX: no memory. */
static size_t place_of_flow(exact_tre *e)
{
    for (size_t i = 0; i < e->flows; i++)
        if (!e->flow[i].dag)
            return i;
    if (e->flows == e->flows_cap) {
        size_t      cap = e->flows_cap ? 2 * e->flows_cap : 4;
        exact_flow *grown = htc__resize(&e->x->t.memory.env, e->flow, e->flows_cap * sizeof *grown, cap * sizeof *grown);
        if (!grown)
            return SIZE_MAX;
        e->flow = grown;
        e->flows_cap = cap;
    }
    return e->flows++;
}

static htc_status build(exact_tre *e, const htc_sim_provision_flow *in, exact_flow *f)
{
    const htc_env *env = &e->x->t.memory.env;
    f->length = htc__alloc_raw(env, in->tasks * sizeof *f->length);
    f->tasks = f->length ? in->tasks : 0;
    htc_status status = f->length ? htc_dag_create(env, &(htc_dag_options){ .size = sizeof(htc_dag_options), .tasks_max = in->tasks }, &f->dag) : HTC_ENOMEM;
    for (uint32_t i = 0; status == HTC_OK && i < in->n_edges; i++)
        status = htc_dag_add_edge(f->dag, in->edges[i].parent, in->edges[i].child);
    for (uint32_t i = 0; status == HTC_OK && i < in->tasks; i++) {
        f->length[i] = in->length[i];
        status = htc_dag_add_task(f->dag, i);
    }
    return status == HTC_OK ? htc_dag_check(f->dag, 0, NULL, NULL) : status;
}

static void take_ready(exact_tre *e, size_t f)
{
    uint32_t task;
    while (htc__twin_is_good(&e->x->t) && htc_dag_take(e->flow[f].dag, &task) == HTC_OK)
        htc__exact_tre_queue(e, &(htc_sim_provision_job){ .length = e->flow[f].length[task], .nodes = 1 }, (uint32_t)f, task);
}

uint64_t htc__exact_flow_arrives(exact_tre *e)
{
    exact_flow flow = { 0 };
    htc_status status = build(e, &e->next_flow, &flow);
    size_t     f = status == HTC_OK ? place_of_flow(e) : SIZE_MAX;
    if (f == SIZE_MAX) {
        close_flow(e, &flow);
        status = status == HTC_OK ? HTC_ENOMEM : status == HTC_EFULL ? HTC_EINVAL : status;
        htc__twin_fail(&e->x->t, status, "workflow %zu of environment %u: %s", e->taken - 1, e->number,
                        status == HTC_EINVAL ? "an edge names a task that it does not have" : htc_strerror(status));
        return 0;
    }
    e->flow[f] = flow;
    take_ready(e, f);
    return flow.tasks;
}

void htc__exact_flow_done(exact_tre *e, uint32_t flow, uint32_t task)
{
    if (e->dones == e->dones_cap) {
        size_t    cap = e->dones_cap ? 2 * e->dones_cap : 64, bytes = e->dones_cap * sizeof *e->done;
        uint64_t *done = htc__resize_raw(&e->x->t.memory.env, e->done, bytes, cap * sizeof *done);
        e->done = done ? done : e->done;
        size_t *order = done ? htc__resize_raw(&e->x->t.memory.env, e->done_order, e->order_cap * sizeof *order, cap * sizeof *order) : NULL;
        e->dones_cap = done ? cap : e->dones_cap;
        if (!order) {
            htc__twin_fail(&e->x->t, HTC_ENOMEM, "no memory for %zu tasks", cap);
            return;
        }
        e->done_order = order;
        e->order_cap = cap;
    }
    e->done[e->dones++] = (uint64_t)flow << 32 | task;
}

static int done_before(const void *ctx, size_t a, size_t b)
{
    const uint64_t *done = ctx;
    return done[a] < done[b];
}

void htc__exact_flow_tell(exact_tre *e)
{
    size_t n = e->dones;
    e->dones = 0;
    for (size_t i = 0; i < n; i++)
        e->done_order[i] = i;
    htc__order_sort(e->done_order, n, done_before, e->done);
    for (size_t i = 0; i < n && htc__twin_is_good(&e->x->t); i++) {
        uint64_t    d = e->done[e->done_order[i]];
        exact_flow *f = &e->flow[d >> 32];
        htc_status  status = htc_dag_done(f->dag, (uint32_t)d);
        if (status != HTC_OK)
            htc__twin_fail(&e->x->t, status, "a task could not be ended: %s", htc_strerror(status));
        f->done++;
        if (i + 1 < n && e->done[e->done_order[i + 1]] >> 32 == d >> 32)
            continue;
        if (f->done == f->tasks)
            close_flow(e, f);
        else
            take_ready(e, d >> 32);
    }
}

uint64_t htc__exact_flow_blocked(const exact_tre *e)
{
    uint64_t blocked = 0;
    for (size_t i = 0; i < e->flows; i++) {
        htc_dag_counts c = { 0 };
        if (e->flow[i].dag && htc_dag_count(e->flow[i].dag, &c) == HTC_OK)
            blocked += c.waiting + c.ready;
    }
    return blocked;
}

void htc__exact_flow_close(exact_tre *e)
{
    const htc_env *env = &e->x->t.memory.env;
    for (size_t i = 0; i < e->flows; i++)
        close_flow(e, &e->flow[i]);
    htc__free(env, e->flow, e->flows_cap * sizeof *e->flow);
    htc__free(env, e->done, e->dones_cap * sizeof *e->done);
    htc__free(env, e->done_order, e->order_cap * sizeof *e->done_order);
}
