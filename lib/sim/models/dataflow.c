/* Tasks that wait for tasks and read what these made: events, and the life of a task. */
#include <assert.h>

#include "sim/models/dataflow.h"

/* What is fetched ahead of a node's policy and of what it knows of lengths. Too little costs time alone. */
#define LINE          64
#define POLICY_BYTES  320
#define LENGTHS_BYTES 128

/* ---- records ---- */

uint32_t htc__dataflow_home(const flow *m, uint32_t task)
{
    if (m->options.layout == HTC_SIM_DATAFLOW_RANDOM)
        return (uint32_t)((htc__scale_draw(m->layout_stream, task) >> 32) * m->nodes >> 32);
    return m->options.layout == HTC_SIM_DATAFLOW_ONE ? 0 : (uint32_t)(task * m->nodes / m->tasks);
}

static uint64_t message(const flow *m, uint64_t from, uint64_t to)
{
    return from == to ? 0 : m->hop_load;
}

static uint32_t member_of(const flow *m, uint32_t task)
{
    return (uint32_t)((htc__scale_draw(m->records_stream, task) >> 32) * m->nodes >> 32);
}

/* Node asks the member that has a task's record at this tick: when the change is durable, and which member that is. The caller counts the messages. */
static uint64_t ask_store(flow *m, uint32_t node, uint32_t task, uint64_t at, uint32_t *member)
{
    *member = member_of(m, task);
    flow_node *v = &m->node[*member];
    uint64_t   begin = at + message(m, node, *member);
    begin = begin > v->store_free ? begin : v->store_free;
    v->store_free = begin + m->store;
    return v->store_free + m->commit;
}

/* ---- a task is ready ---- */

void htc__dataflow_put(flow *m, flow_queue *q, flow_entry e)
{
    if (!htc__dataflow_queue_put(&m->env, q, e))
        htc_scale_fail(m->scale, HTC_ENOMEM);
}

static void place(flow *m, uint32_t i, uint32_t task)
{
    flow_node         *v = &m->node[i];
    uint32_t           n = htc__dataflow_inputs(m, task);
    htc_locality_task  t = { .inputs = m->input, .inputs_n = n };
    htc_locality_place to = { 0 };
    flow_entry         e = { .task = task };
    for (uint32_t k = 0; k < n; k++) {
        m->input[k] = (htc_locality_input){ m->in[k].bytes, htc__dataflow_has(m, i, &m->in[k]) ? i : m->in[k].node };
        e.bytes += m->in[k].bytes;
    }
    (void)htc_locality_estimate(v->lengths, htc__dataflow_kind(m, task), NULL, &t.est_ns);
    htc_status status = htc_locality_place_task(v->policy, &t, &to);
    if (status == HTC_OK && to.queue == HTC_LOCALITY_PUSH && to.worker >= m->nodes)
        status = HTC_EINVAL;
    if (status != HTC_OK) {
        htc_scale_fail(m->scale, status);
    } else if (to.queue == HTC_LOCALITY_PUSH && to.worker != i) {
        m->where[task] = to.worker;
        m->now.pushed++;
        htc__scale_messages(m->scale, 1, 0, 0);
        (void)htc_scale_at(m->scale, htc__dataflow_now(m) + m->hop_task, (uint32_t)(m->task_id + task));
        return;
    } else {
        htc__dataflow_put(m, to.queue == HTC_LOCALITY_LOCAL ? &v->local : &v->shared, e);
    }
    htc__dataflow_start_all(m, i);
    htc__dataflow_nudge(m, i);
    htc__dataflow_nudge_others(m, i);
}

void htc__dataflow_ready(flow *m, uint32_t task)
{
    m->now.ready++;
    m->now.ready_sum += (double)htc__dataflow_now(m);
    if (htc__dataflow_is_central(m))
        htc__dataflow_central_ready(m, task);
    else
        place(m, htc__dataflow_home(m, task), task);
}

static void arrives(flow *m, uint32_t task)
{
    uint32_t   i = m->where[task], n = htc__dataflow_inputs(m, task);
    flow_node *v = &m->node[i];
    flow_entry e = { .task = task };
    for (uint32_t k = 0; k < n; k++)
        e.bytes += m->in[k].bytes;
    htc__scale_messages(m->scale, 0, 1, 0);
    htc__dataflow_put(m, htc_locality_in_force(v->policy)->rule == HTC_LOCALITY_MLB ? &v->shared : &v->local, e);
    htc__dataflow_start_all(m, i);
    htc__dataflow_nudge(m, i);
    htc__dataflow_nudge_others(m, i);
}

/* A parent has ended, or it arrives where it was pushed to. */
static void hears(flow *m, uint32_t task)
{
    if (m->waits[task] == 0) {
        arrives(m, task);
        return;
    }
    if (--m->waits[task] > 0)
        return;
    m->now.waiting--;
    htc__dataflow_ready(m, task);
}

/* The store was told, and its member tells the task's home. */
static void told(flow *m, uint32_t task)
{
    if (m->waits[task] && !htc__dataflow_is_central(m))
        htc__scale_messages(m->scale, 0, 2, 0);
    hears(m, task);
}

/* ---- it begins ---- */

/* It has all that it reads at that tick. */
static void runs(flow *m, uint32_t core, uint64_t at)
{
    flow_core *c = &m->core[core];
    uint64_t   now = htc__dataflow_now(m), length = htc__dataflow_length(m, c->task), tick = m->options.tick_ns;
    c->step = FLOW_NONE;
    m->now.work += (double)length;
    m->now.held += (double)(at + length - c->taken);
    (void)htc_scale_start(m->scale, core, at - now, length);
    if (htc__dataflow_is_central(m)) { /* the dispatcher hears of its end */
        htc__scale_messages(m->scale, 1, 0, 0);
        c->asked++;
    }
    if (m->options.begun)
        m->options.begun(m->options.ctx, &(htc_sim_dataflow_task){ .size = sizeof(htc_sim_dataflow_task), .number = c->task, .node = core / m->options.cores, .taken = c->taken * tick,
                                                                   .begin = at * tick, .end = (at + length) * tick, .read_bytes = c->needed, .moved_bytes = c->moved });
}

/* What was on its way to it is there. */
static void has_come(flow *m, flow_core *c)
{
    htc__scale_messages(m->scale, 0, c->asked, 0);
    c->asked = 0;
}

/* A transfer begins when the one before it is over: others may take the links in between. Behind what is read, at step n, is what is written. */
void htc__dataflow_fetch_next(flow *m, uint32_t core)
{
    flow_core *c = &m->core[core];
    uint64_t   now = htc__dataflow_now(m), at = now;
    uint32_t   node = core / m->options.cores, n = htc__dataflow_inputs(m, c->task), writes = m->options.system == HTC_SIM_DATAFLOW_PFS && m->has_data;
    has_come(m, c);
    while (c->step < n + writes) {
        if (at > now && (c->step == n || htc__dataflow_is_far(m, node, &m->in[c->step]))) {
            (void)htc_scale_at(m->scale, at, core);
            return;
        }
        at = c->step == n ? htc__dataflow_written(m, c, htc__dataflow_size(m, c->task), at) : htc__dataflow_fetch(m, node, c, &m->in[c->step], at);
        c->step++;
    }
    runs(m, core, at);
}

void htc__dataflow_start(flow *m, uint32_t core, uint32_t task, uint64_t delay)
{
    uint32_t   node = core / m->options.cores, n = htc__dataflow_inputs(m, task);
    flow_core *c = &m->core[core];
    uint64_t   at = htc__dataflow_now(m) + delay + m->task;
    *c = (flow_core){ .task = task, .next = FLOW_NONE, .taken = htc__dataflow_now(m) };
    for (uint32_t k = 0; k < n; k++)
        c->needed += m->in[k].bytes;
    m->where[task] = node;
    m->now.started++;
    m->now.ready--;
    if (m->has_data && htc__dataflow_is_contended(m)) {
        (void)htc_scale_at(m->scale, at, core);
        return;
    }
    for (uint32_t k = 0; k < n; k++)
        at = htc__dataflow_fetch(m, node, c, &m->in[k], at);
    runs(m, core, at);
}

/* What LReadyQ will not be done with in time becomes anybody's. */
static void free_some(flow *m, uint32_t i)
{
    flow_node *v = &m->node[i];
    uint64_t   move = 0;
    htc_status status = HTC_OK;
    if (m->locality.tt_rule == HTC_LOCALITY_TT_MOVE)
        status = htc_locality_progress(v->policy, m->now.ended, m->tasks);
    if (status == HTC_OK)
        status = htc_locality_move(v->policy, htc__dataflow_now_ns(m), v->local.n, &move);
    if (status != HTC_OK)
        htc_scale_fail(m->scale, status);
    m->now.freed += move;
    for (; move; move--)
        htc__dataflow_put(m, &v->shared, htc__dataflow_queue_last(&v->local));
}

void htc__dataflow_start_all(flow *m, uint32_t i)
{
    flow_node *v = &m->node[i];
    if (v->local.n || v->idle)
        free_some(m, i);
    while (v->idle && (v->local.n || v->shared.n)) {
        uint32_t core = v->idle_first;
        v->idle--;
        v->idle_first = m->core[core].next;
        htc__dataflow_start(m, core, htc__dataflow_queue_first(v->local.n ? &v->local : &v->shared).task, 0);
    }
}

/* ---- and ends ---- */

static void tell_child(flow *m, uint32_t child, uint64_t at)
{
    uint32_t member, node = m->teller;
    uint64_t heard = at;
    if (!htc__dataflow_is_central(m)) {
        heard = ask_store(m, node, child, at, &member);
        htc__scale_messages(m->scale, 2, 0, 0);
        heard += message(m, member, htc__dataflow_home(m, child));
    }
    (void)htc_scale_at(m->scale, heard, (uint32_t)(m->task_id + child));
}

static void tell_children(flow *m, uint32_t node, uint32_t task)
{
    uint32_t member = node;
    uint64_t at = htc__dataflow_now(m) + m->hop_load;
    if (!htc__dataflow_is_central(m)) {
        at = ask_store(m, node, task, htc__dataflow_now(m), &member) + message(m, member, node);
        htc__scale_messages(m->scale, 2, 2, 0); /* there is no event for the answer: the children are told at that tick */
    }
    m->teller = node;
    if (m->phases == 0) {
        htc__dataflow_children(m, task, tell_child, at);
        return;
    }
    htc__dataflow_made(m, node, task);
    m->now.phase_told = at > m->now.phase_told ? at : m->now.phase_told;
    if (--m->now.phase_left > 0)
        return;
    if (m->now.containers && m->now.phase % 2) /* the next job begins when it has none left on their way */
        m->now.phase_waits = 1;
    else
        (void)htc_scale_at(m->scale, m->now.phase_told, (uint32_t)(m->run_id + FLOW_PHASE));
}

/* All tasks of a phase hear of it at once. */
static void phase_begins(flow *m)
{
    const flow_phase *p = &m->phase[++m->now.phase];
    if (m->now.phase >= m->phases)
        return;
    htc__dataflow_next_phase(m);
    m->now.phase_left = p->tasks;
    m->now.phase_told = 0;
    if (m->options.system == HTC_SIM_DATAFLOW_YARN && m->now.phase % 2 == 0)
        htc__dataflow_job_begins(m);
    for (uint64_t t = p->first; t < p->first + p->tasks; t++)
        hears(m, (uint32_t)t);
}

void htc__dataflow_idle(flow *m, uint32_t core)
{
    flow_node *v = &m->node[core / m->options.cores];
    m->core[core] = (flow_core){ .task = FLOW_NONE, .next = v->idle_first };
    v->idle_first = core;
    v->idle++;
}

static void ends(flow *m, uint32_t core)
{
    flow_core *c = &m->core[core];
    uint32_t   i = core / m->options.cores, task = c->task;
    flow_node *v = &m->node[i];
    htc__scale_end(m->scale);
    has_come(m, c);
    m->now.ended++;
    m->now.end_sum += (double)htc__dataflow_now(m);
    v->ended++;
    if (!htc__dataflow_is_central(m)) {
        htc_status status = htc_locality_finished(v->policy, htc__dataflow_now_ns(m), c->needed, c->moved);
        if (status == HTC_OK)
            status = htc_locality_learn(v->lengths, htc__dataflow_kind(m, task), htc__dataflow_length(m, task) * m->options.tick_ns, 1);
        if (status != HTC_OK)
            htc_scale_fail(m->scale, status);
    }
    tell_children(m, i, task);
    if (htc__dataflow_is_central(m)) {
        htc__dataflow_core_is_free(m, core);
        return;
    }
    htc__dataflow_idle(m, core);
    htc__dataflow_start_all(m, i);
    htc__dataflow_nudge_others(m, i);
    htc__dataflow_look(m, i);
}

/* ---- samples ---- */

static void take_sample(flow *m)
{
    uint64_t                now = htc__dataflow_now(m);
    htc_sim_dataflow_sample s = { .size = sizeof s, .at = now * m->options.tick_ns, .cores = m->cores, .busy = m->now.started - m->now.ended, .waiting = m->now.waiting,
                                  .ready = m->now.ready, .ended = m->now.ended };
    m->options.sample(m->options.ctx, &s);
    if (m->now.ended < m->tasks)
        (void)htc_scale_at(m->scale, now + m->sample, (uint32_t)(m->run_id + FLOW_SAMPLE));
}

/* ---- events ---- */

void htc__dataflow_soon(const void *ctx, uint32_t id)
{
    const flow *m = ctx;
    if (id < m->node_id) {
        __builtin_prefetch(&m->core[id], 1);
        __builtin_prefetch(&m->node[id / m->options.cores], 1);
    } else if (id < m->task_id) {
        __builtin_prefetch(&m->node[(id - m->node_id) / FLOW_NODE_IDS], 1);
    } else if (id < m->run_id) {
        uint32_t task = (uint32_t)(id - m->task_id);
        __builtin_prefetch(&m->waits[task], 1);
        if (!htc__dataflow_is_central(m))
            __builtin_prefetch(&m->node[htc__dataflow_home(m, task)], 1);
        if (m->has_data && !m->phases && htc__dataflow_parents(m, task))
            __builtin_prefetch(&m->where[htc__dataflow_parent(m, task, 0)]);
    }
}

/* A node's policy, what it knows of lengths, and where the queue is taken from. */
static void fetch_node(const flow_node *v)
{
    const char       *policy = (const char *)v->policy, *lengths = (const char *)v->lengths;
    const flow_queue *q = &v->shared;
    for (size_t at = 0; at < POLICY_BYTES; at += LINE)
        __builtin_prefetch(policy + at, 1);
    for (size_t at = 0; at < LENGTHS_BYTES; at += LINE)
        __builtin_prefetch(lengths + at, 1);
    __builtin_prefetch(q->heap, 1);
    if (q->line_room)
        __builtin_prefetch(&q->line[q->line_from & (q->line_room - 1)], 1);
}

void htc__dataflow_next(const void *ctx, uint32_t id)
{
    const flow *m = ctx;
    if (htc__dataflow_is_central(m))
        return;
    if (id < m->node_id) {
        fetch_node(&m->node[id / m->options.cores]);
        if (m->core[id].task != FLOW_NONE)
            __builtin_prefetch(&m->node[member_of(m, m->core[id].task)].store_free, 1);
    } else if (id >= m->task_id && id < m->run_id && m->waits[id - m->task_id] == 1) {
        fetch_node(&m->node[htc__dataflow_home(m, (uint32_t)(id - m->task_id))]);
    }
}

static void run_event(flow *m, uint32_t what)
{
    switch (what) {
    case FLOW_SAMPLE:
        take_sample(m);
        break;
    case FLOW_PHASE:
        phase_begins(m);
        break;
    default:
        htc__dataflow_dispatched(m);
    }
}

void htc__dataflow_event(htc_scale *scale, void *ctx, uint32_t id)
{
    flow *m = ctx;
    (void)scale;
    if (id < m->node_id) {
        if (m->core[id].task == FLOW_NONE)
            htc__dataflow_container_is_up(m, id);
        else if (m->core[id].step != FLOW_NONE)
            htc__dataflow_fetch_next(m, id);
        else
            ends(m, id);
    } else if (id < m->task_id) {
        uint32_t node = (uint32_t)((id - m->node_id) / FLOW_NODE_IDS);
        if ((id - m->node_id) % FLOW_NODE_IDS == FLOW_STEP)
            htc__dataflow_step(m, node);
        else
            htc__dataflow_nudged(m, node);
    } else if (id < m->run_id) {
        told(m, (uint32_t)(id - m->task_id));
    } else {
        run_event(m, (uint32_t)(id - m->run_id));
    }
}

void htc__dataflow_begin(flow *m)
{
    htc_scale_submit(m->scale, m->tasks);
    m->now.phase_left = m->phases ? m->phase[0].tasks : 0;
    for (uint64_t t = 0; t < m->tasks; t++)
        m->now.waiting += (m->waits[t] = htc__dataflow_parents(m, (uint32_t)t)) > 0;
    if (m->options.sample && m->sample)
        (void)htc_scale_at(m->scale, 0, (uint32_t)(m->run_id + FLOW_SAMPLE));
    if (m->options.system == HTC_SIM_DATAFLOW_YARN)
        htc__dataflow_job_begins(m);
    for (uint64_t t = 0; t < m->tasks && m->scale->status == HTC_OK; t++)
        if (m->waits[t] == 0)
            htc__dataflow_ready(m, (uint32_t)t);
    for (uint32_t i = 0; i < m->nodes && !htc__dataflow_is_central(m); i++)
        htc__dataflow_look(m, i);
}
