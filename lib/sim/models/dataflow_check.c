/* Tasks that wait for tasks: what a checkpoint says can be. Each task waits, or is in one place, or has ended; and it waits for as many parents as have not ended or are
 * about to tell it. */
#include "sim/models/checked.h"
#include "sim/models/dataflow.h"

typedef struct audit {
    flow          *m;
    const uint8_t *events;
    checked_lists  cores, tasks; /* idle cores; tasks that are in some place */
    uint32_t      *expected;     /* parents of each task that have not ended */
} audit;

/* ---- cores ---- */

static int is_diffusing(const flow *m)
{
    return m->options.system == HTC_SIM_DATAFLOW_DATADIFF;
}

/* Cores that have no task and are listed as such: with their nodes, or with the dispatcher. */
static int idle_cores_can_be(audit *a)
{
    const flow *m = a->m;
    uint64_t    n = 0;
    for (uint32_t i = 0; i < m->nodes && (!htc__dataflow_is_central(m) || is_diffusing(m)); i++) {
        const flow_node *v = &m->node[i];
        uint32_t         left = v->idle;
        for (uint32_t c = v->idle_first; left; left--, c = m->core[c].next, n++)
            if (!htc__checked_take(&a->cores, c) || c / m->options.cores != i || m->core[c].task != FLOW_NONE)
                return 0;
    }
    for (uint32_t k = 0; k < m->free_cores.n; k++, n++) {
        uint32_t c = m->free_cores.at[(m->free_cores.from + k) % m->free_cores.room];
        if (!htc__dataflow_is_central(m) || is_diffusing(m) || !htc__checked_take(&a->cores, c) || m->core[c].task != FLOW_NONE)
            return 0;
    }
    return !htc__dataflow_is_central(m) || m->now.idle == n;
}

/* One that has a task has an event, and one without has none, but for a container on its way. */
static int cores_can_be(audit *a)
{
    const flow *m = a->m;
    uint64_t    busy = 0, containers = 0;
    int         yarn = m->options.system == HTC_SIM_DATAFLOW_YARN;
    if (!idle_cores_can_be(a))
        return 0;
    for (uint32_t c = 0; c < m->cores; c++) {
        int idle = htc__checked_was_taken(&a->cores, c), has_task = m->core[c].task != FLOW_NONE;
        if (has_task ? idle || a->events[c] != 1 || !htc__checked_take(&a->tasks, m->core[c].task) : a->events[c] > (yarn && !idle) || (!idle && !yarn))
            return 0;
        busy += has_task;
        containers += !has_task && a->events[c];
    }
    return m->now.started - m->now.ended == busy && m->now.containers == containers && m->now.phase_waits <= (uint32_t)yarn;
}

/* ---- tasks ---- */

static int queue_can_be(audit *a, const flow_queue *q)
{
    for (uint32_t i = 0; i < q->n; i++)
        if (!htc__checked_take(&a->tasks, htc__dataflow_queue_task(q, i)))
            return 0;
    return 1;
}

static int queues_can_be(audit *a)
{
    const flow *m = a->m;
    uint64_t    busy = a->tasks.found, stolen = 0;
    for (uint32_t i = 0; i < m->nodes; i++) {
        const flow_node *v = &m->node[i];
        const uint8_t   *of = a->events + htc__dataflow_node_id(m, i, 0);
        if (htc__dataflow_is_central(m) && (v->local.n || v->shared.n || v->loot.n || v->phase != THIEF_NONE || of[FLOW_STEP] || of[FLOW_NUDGE]))
            return 0;
        if (!queue_can_be(a, &v->local) || !queue_can_be(a, &v->shared) || !queue_can_be(a, &v->loot))
            return 0;
        stolen += v->loot.n;
    }
    for (uint32_t k = 0; k < m->queue.n; k++)
        if (!htc__dataflow_is_central(m) || !htc__checked_take(&a->tasks, m->queue.at[(m->queue.from + k) % m->queue.room]))
            return 0;
    for (uint32_t t = 0; t < m->tasks; t++) /* one that waits for nobody hears that it has been pushed */
        if (!m->waits[t] && a->events[m->task_id + t] && (htc__dataflow_is_central(m) || a->events[m->task_id + t] > 1 || !htc__checked_take(&a->tasks, t)))
            return 0;
    return stolen <= m->tasks && m->now.ready == a->tasks.found - busy;
}

static int has_ended(const audit *a, uint32_t t)
{
    return !a->m->waits[t] && !htc__checked_was_taken(&a->tasks, t);
}

static void expect(flow *m, uint32_t child, uint64_t arg)
{
    uint32_t *expected = (uint32_t *)(uintptr_t)arg;
    (void)m;
    expected[child]++;
}

static int waiting_can_be(audit *a)
{
    flow    *m = a->m;
    uint64_t waiting = 0, ended = 0, left = 0;
    for (uint32_t t = 0; t < m->tasks; t++) {
        waiting += m->waits[t] > 0;
        ended += (uint64_t)has_ended(a, t);
        if (m->waits[t] && htc__checked_was_taken(&a->tasks, t))
            return 0;
        if (!m->phases && !has_ended(a, t))
            htc__dataflow_children(m, t, expect, (uint64_t)(uintptr_t)a->expected);
        if (m->phases && (m->waits[t] > 0) != (htc__dataflow_phase_of(m, t) > m->now.phase))
            return 0;
        left += m->phases && htc__dataflow_phase_of(m, t) == m->now.phase && !has_ended(a, t);
    }
    for (uint32_t t = 0; t < m->tasks && !m->phases; t++)
        if (m->waits[t] ? m->waits[t] != a->expected[t] + a->events[m->task_id + t] && a->events[m->task_id + t] < UINT8_MAX : a->expected[t])
            return 0;
    for (uint32_t t = 0; t < m->tasks && m->phases; t++)
        if (m->waits[t] && a->events[m->task_id + t])
            return 0;
    return waiting == m->now.waiting && ended == m->now.ended && (!m->phases || left == m->now.phase_left);
}

/* ---- of the whole run ---- */

static int events_can_be(const audit *a)
{
    const flow    *m = a->m;
    const uint8_t *of = a->events + m->run_id;
    int            goes_on = m->phases && m->now.phase < m->phases && !m->now.phase_left;
    if (of[FLOW_DISPATCHED] != m->now.at_work || m->now.at_work > 1 || of[FLOW_SAMPLE] > (m->sample > 0))
        return 0;
    return of[FLOW_PHASE] == (goes_on && !m->now.phase_waits);
}

htc_status htc__dataflow_check(flow *m, const uint8_t *events)
{
    audit      a = { .m = m, .events = events, .expected = htc__alloc(&m->env, m->tasks * sizeof *a.expected) };
    htc_status status = htc__checked_open(&a.cores, &m->env, &m->core->next, sizeof *m->core, m->cores);
    if (status == HTC_OK)
        status = htc__checked_open(&a.tasks, &m->env, m->waits, sizeof *m->waits, m->tasks);
    if (!a.expected)
        status = HTC_ENOMEM;
    if (status == HTC_OK)
        status = htc__checked_that(m->scale, cores_can_be(&a), "cores");
    if (status == HTC_OK)
        status = htc__checked_that(m->scale, queues_can_be(&a), "queues");
    if (status == HTC_OK)
        status = htc__checked_that(m->scale, waiting_can_be(&a), "tasks");
    if (status == HTC_OK)
        status = htc__checked_that(m->scale, events_can_be(&a), "events");
    htc__checked_close(&a.cores);
    htc__checked_close(&a.tasks);
    htc__free(&m->env, a.expected, m->tasks * sizeof *a.expected);
    return status;
}
