/* One dispatcher for all nodes, and the systems that have one: data diffusion, a parallel file system, active storage, and jobs of two phases in containers. */
#include <assert.h>

#include "sim/models/dataflow.h"

/* ---- first in, first out ---- */

static void ring_put(flow *m, flow_ring *r, uint32_t what)
{
    if (r->n == r->room) {
        uint32_t  room = r->room ? 2 * r->room : 64;
        uint32_t *more = htc__alloc_raw(&m->env, (size_t)room * sizeof *more);
        if (!more) {
            htc_scale_fail(m->scale, HTC_ENOMEM);
            return;
        }
        for (uint32_t i = 0; i < r->n; i++)
            more[i] = r->at[(r->from + i) % r->room];
        htc__free(&m->env, r->at, r->room * sizeof *more);
        *r = (flow_ring){ more, 0, r->n, room };
    }
    r->at[(r->from + r->n++) % r->room] = what;
}

static uint32_t ring_take(flow_ring *r)
{
    assert(r->n > 0);
    uint32_t what = r->at[r->from];
    r->from = (r->from + 1) % r->room;
    r->n--;
    return what;
}

/* ---- the dispatcher ---- */

static int diffuses(const flow *m)
{
    return m->options.system == HTC_SIM_DATAFLOW_DATADIFF;
}

void htc__dataflow_central_work(flow *m)
{
    if (m->now.at_work || !m->queue.n || !m->now.idle)
        return;
    m->now.at_work = 1;
    (void)htc_scale_at(m->scale, htc__dataflow_now(m) + m->dispatch, (uint32_t)(m->run_id + FLOW_DISPATCHED));
}

void htc__dataflow_central_ready(flow *m, uint32_t task)
{
    ring_put(m, &m->queue, task);
    htc__dataflow_central_work(m);
}

/* Of the nodes with an idle core the one that has most of what the task reads, of equals the one with most idle cores, then the first; how much it has; 1: that is all. */
static int node_with_data(flow *m, uint32_t task, uint32_t *node, uint64_t *most)
{
    uint32_t n = htc__dataflow_inputs(m, task);
    uint64_t all = 0;
    *node = FLOW_NONE;
    *most = 0;
    for (uint32_t k = 0; k < n; k++)
        all += m->in[k].bytes;
    for (uint32_t i = 0; i < m->nodes; i++) {
        uint64_t has = 0;
        if (!m->node[i].idle)
            continue;
        for (uint32_t k = 0; k < n; k++)
            has += htc__dataflow_has(m, i, &m->in[k]) ? m->in[k].bytes : 0;
        if (*node == FLOW_NONE || has > *most || (has == *most && m->node[i].idle > m->node[*node].idle)) {
            *node = i;
            *most = has;
        }
    }
    assert(*node != FLOW_NONE);
    return *most == all && all > 0;
}

/* One of the first tasks, and where it goes. */
static uint32_t task_with_data(flow *m, uint32_t *node)
{
    flow_ring *q = &m->queue;
    uint32_t   window = m->options.window < q->n ? m->options.window : q->n, best = 0, at;
    uint64_t   most = 0, has;
    for (uint32_t k = 0; k < (window ? window : 1); k++) {
        int all = node_with_data(m, q->at[(q->from + k) % q->room], &at, &has);
        if (k == 0 || has > most || all) {
            best = k;
            most = has;
            *node = at;
        }
        if (all)
            break;
    }
    uint32_t task = q->at[(q->from + best) % q->room];
    for (uint32_t k = best; k > 0; k--)
        q->at[(q->from + k) % q->room] = q->at[(q->from + k - 1) % q->room];
    (void)ring_take(q);
    return task;
}

void htc__dataflow_dispatched(flow *m)
{
    uint32_t node, task, core;
    m->now.at_work = 0;
    m->now.idle--;
    if (diffuses(m)) {
        task = task_with_data(m, &node);
        flow_node *v = &m->node[node];
        core = v->idle_first;
        v->idle_first = m->core[core].next;
        v->idle--;
    } else {
        task = ring_take(&m->queue);
        core = ring_take(&m->free_cores);
    }
    htc__scale_messages(m->scale, 1, 0, 0);
    htc__dataflow_start(m, core, task, m->options.system == HTC_SIM_DATAFLOW_YARN ? m->hop_load + m->hop_task : m->hop_task);
    m->core[core].asked++;
    htc__dataflow_central_work(m);
}

void htc__dataflow_core_is_free(flow *m, uint32_t core)
{
    m->now.idle++;
    if (diffuses(m)) {
        htc__dataflow_idle(m, core);
    } else {
        m->core[core].task = FLOW_NONE;
        ring_put(m, &m->free_cores, core);
    }
    htc__dataflow_central_work(m);
}

/* ---- jobs in containers ---- */

/* The master runs, and then gets a container after the other, as many as its larger phase has tasks. Those of the job before were given back. */
void htc__dataflow_job_begins(flow *m)
{
    uint64_t most = m->phase[m->now.phase].tasks, at = htc__dataflow_now(m) + m->launch;
    if (m->now.phase + 1 < m->phases && m->phase[m->now.phase + 1].tasks > most)
        most = m->phase[m->now.phase + 1].tasks;
    m->free_cores.n = 0;
    m->now.idle = 0;
    most = most < m->cores ? most : m->cores;
    for (uint64_t k = 0; k < most; k++) { /* one of each node, then the next of each */
        uint64_t core = k % m->nodes * m->options.cores + k / m->nodes;
        m->core[core].task = FLOW_NONE;
        (void)htc_scale_at(m->scale, at + (k + 1) * m->grant + m->container, (uint32_t)core);
    }
    m->now.containers = (uint32_t)most;
}

void htc__dataflow_container_is_up(flow *m, uint32_t core)
{
    m->now.containers--;
    m->now.idle++;
    ring_put(m, &m->free_cores, core);
    htc__dataflow_central_work(m);
    if (m->now.containers == 0 && m->now.phase_waits) {
        m->now.phase_waits = 0;
        uint64_t now = htc__dataflow_now(m);
        (void)htc_scale_at(m->scale, m->now.phase_told > now ? m->now.phase_told : now, (uint32_t)(m->run_id + FLOW_PHASE));
    }
}
