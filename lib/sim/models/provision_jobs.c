/* Dynamic service provision: jobs and tasks from their arrival to their end, and the end of an environment. */
#include <assert.h>

#include "core/order.h"
#include "core/util.h"
#include "sim/models/provision.h"

/* ---- slots ---- */

int htc__prov_slots_room(prov *m, uint32_t n)
{
    prov_slot *grown = htc__resize_raw(&m->env, m->slot, m->slots_cap * sizeof *grown, n * sizeof *grown);
    if (!grown) {
        htc__prov_fail(m, HTC_ENOMEM, "no memory for %u jobs", n);
        return 0;
    }
    m->slot = grown;
    m->slots_cap = n;
    return 1;
}

uint32_t htc__prov_slot(prov *m)
{
    uint32_t s = m->free_slot;
    if (s != PROV_NONE) {
        m->free_slot = m->slot[s].next;
        return s;
    }
    if (m->slots == m->slots_max) {
        htc__prov_fail(m, HTC_EFULL, "more than %u jobs wait and run at one time", m->slots_max);
        return PROV_NONE;
    }
    if (m->slots == m->slots_cap && !htc__prov_slots_room(m, m->slots_cap > m->slots_max / 2 ? m->slots_max : 2 * m->slots_cap))
        return PROV_NONE;
    return m->slots++;
}

void htc__prov_slot_free(prov *m, uint32_t s)
{
    m->slot[s].state = PROV_FREE;
    m->slot[s].next = m->free_slot;
    m->free_slot = s;
}

/* ---- what arrives next ---- */

static int next_job(prov *m, prov_environment *e)
{
    htc_status status = e->taken < e->o.n_jobs ? HTC_OK : HTC_AGAIN;
    if (e->o.next_job) {
        e->job = (htc_sim_provision_job){ 0 };
        status = e->o.next_job(e->o.ctx, &e->job);
    } else if (status == HTC_OK) {
        e->job = e->o.jobs[e->taken];
    }
    if (status == HTC_OK && (e->job.nodes == 0 || e->job.arrival < e->before))
        status = HTC_EINVAL;
    if (status != HTC_OK && status != HTC_AGAIN)
        htc__prov_fail(m, status, "job %zu of environment %u: %s", e->taken, htc__prov_number(m, e),
                       status != HTC_EINVAL ? htc_strerror(status) : e->job.nodes ? "it arrives before the one that came before it" : "it has no nodes");
    e->before = e->job.arrival;
    return status == HTC_OK;
}

static int next_flow(prov *m, prov_environment *e)
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
        htc__prov_fail(m, status, "workflow %zu of environment %u: %s", e->taken, htc__prov_number(m, e),
                       status == HTC_EINVAL ? "it has no tasks or no lengths, or arrives before the one that came before it" : htc_strerror(status));
    e->before = f->arrival;
    return status == HTC_OK;
}

void htc__prov_next(prov *m, prov_environment *e)
{
    int flows = e->o.flows || e->o.next_flow, more = flows ? next_flow(m, e) : next_job(m, e);
    e->next_at = more ? htc_scale_ticks(m->scale, e->before) : 0;
    if (more && e->o.period_ns && e->before >= e->o.period_ns)
        more = 0;
    e->taken += (size_t)more;
    m->to_come += (uint64_t)more;
    e->to_come = (uint32_t)more;
    if (more)
        htc_scale_at(m->scale, e->next_at, m->slots_max + PROV_ARRIVAL * (uint32_t)m->n + htc__prov_number(m, e));
}

/* ---- arrivals ---- */

/* A job, or a task of a workflow. */
static void queue(prov *m, prov_environment *e, uint64_t length, uint32_t flow, uint32_t task, const htc_fit_job *job)
{
    uint32_t s = htc__prov_slot(m);
    if (s == PROV_NONE)
        return;
    m->slot[s] = (prov_slot){ .at = htc__scale_time(m->scale), .length = length, .nodes = job->nodes, .environment = htc__prov_number(m, e), .state = PROV_WAITING,
                              .flow = flow, .task = task };
    if (m->options.system == HTC_SIM_PROVISION_DRP) {
        htc__prov_lease_job(m, s);
        return;
    }
    htc_status status = htc_fit_submit(e->fit, htc__prov_now(m), &(htc_fit_job){ .id = s, .estimate = job->estimate ? job->estimate : HTC_NEVER, .nodes = job->nodes,
                                                                                 .priority = job->priority });
    if (status != HTC_OK)
        htc__prov_fail(m, status, "a job could not be submitted: %s", htc_strerror(status));
    htc__prov_mark(m, e);
}

static void count_arrival(prov *m, prov_environment *e, uint64_t jobs)
{
    uint64_t now = htc__scale_time(m->scale);
    e->first = e->first < now ? e->first : now;
    e->submitted += jobs;
}

static void job_arrives(prov *m, prov_environment *e)
{
    const htc_sim_provision_job *job = &e->job;
    count_arrival(m, e, 1);
    if (job->nodes > e->limit) {
        e->refused++;
        return;
    }
    queue(m, e, htc_scale_ticks(m->scale, job->length), PROV_NONE, 0,
          &(htc_fit_job){ .estimate = job->estimate, .nodes = job->nodes, .priority = job->priority });
}

static void take_ready(prov *m, prov_environment *e, uint32_t f)
{
    uint32_t task;
    while (htc_dag_take(e->flows[f].dag, &task) == HTC_OK && m->why.status == HTC_OK) {
        uint64_t length = e->flows[f].length[task];
        if (m->options.system == HTC_SIM_PROVISION_DRP)
            htc__prov_lease_task(m, e, f, task, length);
        else
            queue(m, e, length, f, task, &(htc_fit_job){ .nodes = 1 });
    }
}

static void close_flow(prov *m, prov_flow *f)
{
    htc_dag_destroy(f->dag);
    htc__free(&m->env, f->length, f->tasks * sizeof *f->length);
    *f = (prov_flow){ 0 };
}

/* The place of a workflow that is over, or a new one. */
static uint32_t place_of_flow(prov *m, prov_environment *e)
{
    for (size_t i = 0; i < e->flows_n; i++)
        if (!e->flows[i].dag)
            return (uint32_t)i;
    if (e->flows_n == e->flows_cap) {
        size_t     cap = e->flows_cap ? 2 * e->flows_cap : 4;
        prov_flow *grown = htc__resize(&m->env, e->flows, e->flows_cap * sizeof *grown, cap * sizeof *grown);
        if (!grown)
            return PROV_NONE;
        e->flows = grown;
        e->flows_cap = cap;
    }
    return (uint32_t)e->flows_n++;
}

static htc_status build_flow(prov *m, const htc_sim_provision_flow *in, prov_flow *f)
{
    f->length = htc__alloc_raw(&m->env, in->tasks * sizeof *f->length);
    f->tasks = f->length ? in->tasks : 0;
    htc_status status = f->length ? htc_dag_create(&m->env, &(htc_dag_options){ .size = sizeof(htc_dag_options), .tasks_max = in->tasks }, &f->dag) : HTC_ENOMEM;
    for (uint32_t i = 0; status == HTC_OK && i < in->n_edges; i++)
        status = htc_dag_add_edge(f->dag, in->edges[i].parent, in->edges[i].child);
    for (uint32_t i = 0; status == HTC_OK && i < in->tasks; i++) {
        f->length[i] = htc_scale_ticks(m->scale, in->length[i]);
        status = htc_dag_add_task(f->dag, i);
    }
    return status == HTC_OK ? htc_dag_check(f->dag, 0, NULL, NULL) : status;
}

static void flow_arrives(prov *m, prov_environment *e)
{
    prov_flow  flow = { 0 };
    htc_status status = build_flow(m, &e->next_flow, &flow);
    uint32_t   f = status == HTC_OK ? place_of_flow(m, e) : PROV_NONE;
    if (f == PROV_NONE) {
        close_flow(m, &flow);
        status = status == HTC_OK ? HTC_ENOMEM : status == HTC_EFULL ? HTC_EINVAL : status;
        htc__prov_fail(m, status, "workflow %zu of environment %u: %s", e->taken - 1, htc__prov_number(m, e),
                       status == HTC_EINVAL ? "an edge names a task that it does not have" : htc_strerror(status));
        return;
    }
    e->flows[f] = flow;
    count_arrival(m, e, flow.tasks);
    take_ready(m, e, f);
}

void htc__prov_arrivals(prov *m, prov_environment *e)
{
    m->worked = htc__scale_time(m->scale);
    m->to_come--;
    if (e->o.flows || e->o.next_flow)
        flow_arrives(m, e);
    else
        job_arrives(m, e);
    htc__prov_next(m, e);
    htc__prov_maybe_over(m, e);
}

/* ---- starts and ends ---- */

void htc__prov_begin_job(prov *m, uint32_t s)
{
    prov_slot        *slot = &m->slot[s];
    prov_environment *e = &m->environment[slot->environment];
    uint64_t          now = htc__scale_time(m->scale);
    assert(slot->state == PROV_WAITING);
    htc__prov_account(m, e);
    e->wait += now - slot->at;
    slot->at = now;
    slot->ends = now + slot->length;
    slot->state = PROV_RUNNING;
    e->busy += slot->nodes;
    e->busy_peak = e->busy > e->busy_peak ? e->busy : e->busy_peak;
    m->busy += slot->nodes;
    m->busy_peak = m->busy > m->busy_peak ? m->busy : m->busy_peak;
    e->running++;
    e->started++;
    m->running++;
    m->worked = htc__scale_time(m->scale);
    e->started_ticks += (prov_sum)slot->nodes * slot->length;
    htc_scale_submit(m->scale, 1);
    htc_scale_start(m->scale, s, 0, slot->length);
}

void htc__prov_task_done(prov *m, const prov_environment *e, uint32_t flow, uint32_t task)
{
    if (m->dones == m->dones_cap) {
        size_t     cap = m->dones_cap ? 2 * m->dones_cap : 64;
        prov_done *grown = htc__resize_raw(&m->env, m->done, m->dones_cap * sizeof *grown, cap * sizeof *grown);
        if (!grown) {
            htc__prov_fail(m, HTC_ENOMEM, "no memory for %zu tasks", cap);
            return;
        }
        m->done = grown;
        m->dones_cap = cap;
    }
    m->done[m->dones++] = (prov_done){ htc__prov_number(m, e), flow, task };
}

void htc__prov_job_ends(prov *m, uint32_t s)
{
    prov_slot        *slot = &m->slot[s];
    prov_environment *e = &m->environment[slot->environment];
    htc__scale_end(m->scale);
    if (m->options.system == HTC_SIM_PROVISION_DRP) {
        htc__prov_lease_event(m, s);
        return;
    }
    if (!e->ended) {
        htc_status status = htc_fit_end(e->fit, htc__prov_now(m), s);
        if (status != HTC_OK)
            htc__prov_fail(m, status, "a job could not be ended: %s", htc_strerror(status));
        htc__prov_account(m, e);
        e->busy -= slot->nodes;
        m->busy -= slot->nodes;
        e->running--;
        m->running--;
        e->completed++;
        e->last = m->worked = htc__scale_time(m->scale);
        if (slot->flow != PROV_NONE)
            htc__prov_task_done(m, e, slot->flow, slot->task);
        htc__prov_mark(m, e);
        htc__prov_maybe_over(m, e);
    }
    htc__prov_slot_free(m, s);
}

static int done_before(const void *ctx, size_t a, size_t b)
{
    const prov_done *x = (const prov_done *)ctx + a, *y = (const prov_done *)ctx + b;
    if (x->environment != y->environment)
        return x->environment < y->environment;
    return x->flow != y->flow ? x->flow < y->flow : x->task < y->task;
}

void htc__prov_tell_graphs(prov *m)
{
    if (m->dones > m->order_cap) {
        size_t *grown = htc__resize_raw(&m->env, m->order, m->order_cap * sizeof *grown, m->dones_cap * sizeof *grown);
        if (!grown) {
            htc__prov_fail(m, HTC_ENOMEM, "no memory for %zu tasks", m->dones);
            return;
        }
        m->order = grown;
        m->order_cap = m->dones_cap;
    }
    size_t n = m->dones;
    if (n == 0)
        return;
    for (size_t i = 0; i < n; i++)
        m->order[i] = i;
    htc__order_sort(m->order, n, done_before, m->done);
    for (size_t i = 0; i < n && m->why.status == HTC_OK; i++) {
        prov_done         d = m->done[m->order[i]];
        prov_environment *e = &m->environment[d.environment];
        if (e->ended)
            continue;
        htc_status status = htc_dag_done(e->flows[d.flow].dag, d.task);
        if (status != HTC_OK)
            htc__prov_fail(m, status, "a task could not be ended: %s", htc_strerror(status));
        e->flows[d.flow].done++;
        const prov_done *next = i + 1 < n ? &m->done[m->order[i + 1]] : NULL;
        if (next && next->environment == d.environment && next->flow == d.flow)
            continue;
        if (e->flows[d.flow].done == e->flows[d.flow].tasks)
            close_flow(m, &e->flows[d.flow]);
        else
            take_ready(m, e, d.flow);
    }
    m->dones = 0;
}

/* ---- the end ---- */

void htc__prov_maybe_over(prov *m, prov_environment *e)
{
    if (!e->o.period_ns && !e->ended && !e->to_come && e->completed + e->refused == e->submitted)
        htc_scale_at(m->scale, htc__scale_time(m->scale), m->slots_max + PROV_END * (uint32_t)m->n + htc__prov_number(m, e));
}

/* Of the jobs that are left, those that wait are forgotten; those that run are cut off, and their nodes are free. */
static void leave_jobs(prov *m, prov_environment *e)
{
    uint64_t now = htc__scale_time(m->scale);
    uint32_t number = htc__prov_number(m, e);
    if (e->running == 0 && e->completed + e->refused == e->submitted)
        return;
    for (uint32_t s = 0; s < m->slots; s++) {
        prov_slot *slot = &m->slot[s];
        if (slot->state == PROV_FREE || slot->environment != number)
            continue;
        if (slot->state == PROV_RUNNING && m->options.system != HTC_SIM_PROVISION_DRP) {
            e->cut_ticks += (prov_sum)slot->nodes * (slot->ends - now);
        } else if (slot->state == PROV_WAITING) {
            e->wait += now - slot->at;
            e->waiting++;
            htc__prov_slot_free(m, s);
        }
    }
}

static void close_book(prov *m, prov_environment *e)
{
    htc_provision_usage u = { 0 };
    htc_ns              now = htc__prov_now(m);
    uint64_t            nodes = 0;
    htc_status          status = htc_provision_end(e->book, now, &nodes);
    if (status == HTC_OK)
        status = htc_provision_usage_at(e->book, now, &u);
    prov_sum held_s = e->held_ticks * m->tick_ns / HTC_SECOND;
    if (status != HTC_OK || nodes != e->held || u.node_seconds != (uint64_t)held_s || u.granted != u.returned || (e->granted && u.granted != e->granted))
        htc__prov_fail(m, status != HTC_OK ? status : HTC_EINTERNAL, "the book of environment %u does not agree: %llu nodes, %llu held; %llu node seconds, %llu counted",
                       htc__prov_number(m, e), (unsigned long long)nodes, (unsigned long long)e->held, (unsigned long long)u.node_seconds, (unsigned long long)held_s);
    e->units = u.node_units;
    e->requests = u.requests;
    e->rejected = u.rejected;
    if (e->held && m->options.system != HTC_SIM_PROVISION_DCS)
        htc__prov_set_up(m, e, 0, e->held, NULL);
    htc__prov_return(m, e, e->held);
    htc_provision_destroy(e->book);
    e->book = NULL;
}

void htc__prov_end(prov *m, prov_environment *e)
{
    htc__prov_account(m, e);
    leave_jobs(m, e);
    m->to_come -= e->to_come;
    e->to_come = 0;
    for (size_t i = 0; i < e->flows_n; i++) {
        htc_dag_counts c = { 0 };
        if (e->flows[i].dag && htc_dag_count(e->flows[i].dag, &c) == HTC_OK) {
            e->blocked += c.waiting + c.ready;
            close_flow(m, &e->flows[i]);
        }
    }
    e->ended = 1;
    m->live--;
    m->bounded -= e->o.period_ns > 0;
    if (m->options.shared)
        htc__prov_shared_end(m, e);
    if (m->options.system == HTC_SIM_PROVISION_DRP)
        return; /* leases last as long as the jobs on them */
    if (e->book)
        close_book(m, e);
    m->running -= e->running;
    m->busy -= e->busy;
    e->busy = 0;
    htc_fit_destroy(e->fit);
    e->fit = NULL;
}
