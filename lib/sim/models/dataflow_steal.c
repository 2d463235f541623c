/* Nodes steal from the SReadyQ of others. Whom a thief asks, whom it robs, of how many tasks and when it tries again are decisions of htcsched/steal.h. */
#include <assert.h>

#include "sim/models/dataflow.h"

/* ---- the thief as the policy knows it ---- */

static htc_steal_thief thief_of(const flow *m, uint32_t i, htc_ns due)
{
    const flow_node *v = &m->node[i];
    return htc__thief_of(m->nodes, i, v->phase, v->failures, v->nudged, due);
}

static void keep(flow_node *v, const htc_steal_thief *t)
{
    v->failures = t->failures;
    v->nudged = htc__thief_was_nudged(t);
}

static void step_at(flow *m, uint32_t i, uint32_t phase, uint64_t tick)
{
    m->node[i].phase = phase;
    m->node[i].due = tick;
    (void)htc_scale_at(m->scale, tick, htc__dataflow_node_id(m, i, FLOW_STEP));
}

static htc_rng stream_of(const flow *m, uint32_t i, uint32_t what)
{
    return (htc_rng){ htc_scale_hash(m->scale, (uint64_t)i << 3 | what, htc__dataflow_now(m)) };
}

static int has_nothing(const flow *m, uint32_t i)
{
    const flow_node *v = &m->node[i];
    return v->idle && !v->local.n && !v->shared.n;
}

/* Once all tasks have ended nobody asks any more. */
void htc__dataflow_look(flow *m, uint32_t i)
{
    if (m->node[i].phase == THIEF_NONE && has_nothing(m, i) && m->nodes > 1 && m->now.ended < m->tasks)
        step_at(m, i, THIEF_ASKED, htc__dataflow_now(m) + m->hop_load);
}

/* ---- nudges ---- */

void htc__dataflow_nudge_others(flow *m, uint32_t i)
{
    uint64_t now = htc__dataflow_now(m);
    if (!m->nudge || !m->node[i].shared.n || now < m->node[i].nudge_at || m->nodes < 2)
        return;
    uint32_t to[HTC_STEAL_NUDGES_MAX], n = 0;
    m->node[i].nudge_at = now + m->nudge;
    htc_rng rng = stream_of(m, i, FLOW_NUDGES);
    (void)htc_steal_whom_to_nudge(&rng, (uint32_t)m->nodes, i, HTC_STEAL_NUDGES_MAX, to, &n);
    for (uint32_t k = 0; k < n; k++)
        (void)htc_scale_at(m->scale, now + m->hop_load, htc__dataflow_node_id(m, to[k], FLOW_NUDGE));
    m->now.nudges += n;
    htc__scale_messages(m->scale, n, 0, 0);
}

void htc__dataflow_nudge(flow *m, uint32_t i)
{
    flow_node      *v = &m->node[i];
    htc_steal_thief t = thief_of(m, i, 0);
    v->phase = htc__thief_nudge(&t, v->phase, htc__dataflow_now_ns(m));
    keep(v, &t);
}

void htc__dataflow_nudged(flow *m, uint32_t i)
{
    htc__scale_messages(m->scale, 0, 1, 0);
    htc__dataflow_nudge(m, i);
    htc__dataflow_look(m, i);
}

/* ---- rounds ---- */

/* The loads as they are when the first question arrives; the round goes on when all answers are there. */
static void hear_loads(flow *m, uint32_t i)
{
    flow_node *v = &m->node[i];
    uint64_t   begun = htc__dataflow_now(m) - m->hop_load, trip = 2 * m->hop_load;
    uint32_t   n = 0, place_of = 0;
    htc_rng    rng = stream_of(m, i, FLOW_THIEVES);
    v->phase = THIEF_NONE;
    if (m->now.ended == m->tasks)
        return;
    htc_steal_thief t = thief_of(m, i, begun * m->options.tick_ns);
    htc_status      status = htc_steal_ask(&t, &m->steal, begun * m->options.tick_ns, &rng, (uint32_t)m->nodes - 1, m->asked, &n);
    if (status == HTC_AGAIN) {
        v->phase = THIEF_RESTING;
        return;
    }
    if (status != HTC_OK) {
        htc_scale_fail(m->scale, status);
        return;
    }
    m->now.rounds++;
    htc__scale_messages(m->scale, 2 * (uint64_t)n, n, 0); /* the questions have arrived, the answers are on their way */
    v->answers = n;
    for (uint32_t k = 0; k < n; k++)
        m->load[k] = m->node[m->asked[k]].shared.n;
    if (m->options.in_turn)
        trip *= n;
    v->other = FLOW_NONE;
    if (htc_steal_victim(m->load, n, &place_of) != HTC_OK) {
        step_at(m, i, THIEF_BACK, begun + trip);
        return;
    }
    v->other = m->asked[place_of];
    htc__scale_messages(m->scale, 1, 0, 0);
    step_at(m, i, THIEF_TOLD, begun + trip + m->hop_load);
}

/* The victim hears of it: all answers were there before that. Those with least input go. */
static void give(flow *m, uint32_t i)
{
    flow_node *thief = &m->node[i], *v = &m->node[thief->other];
    uint64_t   amount = 0;
    htc_status status = htc_steal_give(&m->steal, v->shared.n, v->idle, &amount);
    if (status != HTC_OK)
        htc_scale_fail(m->scale, status);
    for (uint64_t k = 0; k < amount; k++)
        htc__dataflow_put(m, &thief->loot, htc__dataflow_queue_last(&v->shared));
    htc__scale_messages(m->scale, 1, thief->answers + UINT64_C(1), 0);
    htc_scale_mark(m->scale, (uint64_t)i << 32 ^ amount);
    step_at(m, i, THIEF_BACK, htc__dataflow_now(m) + (amount ? m->give + m->hop_task : m->hop_load));
}

/* A steal that brought nothing may let tt become small: then who rests begins anew. */
static void learn(flow *m, uint32_t i, uint64_t got)
{
    if (got == 0 && htc_locality_steal_failed(m->node[i].policy) == HTC_AGAIN)
        htc__dataflow_nudge(m, i);
}

/* The round is over. */
static void settle(flow *m, uint32_t i)
{
    flow_node      *v = &m->node[i];
    uint64_t        got = v->loot.n, now = htc__dataflow_now(m), ticks = 0;
    uint32_t        other = v->other;
    htc_steal_thief t = thief_of(m, i, HTC_NEVER);
    while (v->loot.n)
        htc__dataflow_put(m, &v->shared, htc__dataflow_queue_first(&v->loot));
    htc__scale_messages(m->scale, 0, other == FLOW_NONE ? v->answers : 1, 0);
    m->now.steals += got > 0;
    m->now.stolen += got;
    htc_status status = htc_steal_settle(&t, &m->steal, htc__dataflow_now_ns(m), got ? other : HTC_STEAL_NOBODY, got);
    if (status != HTC_OK)
        htc_scale_fail(m->scale, status);
    v->phase = THIEF_NONE;
    keep(v, &t);
    htc__dataflow_start_all(m, i);
    htc__dataflow_nudge_others(m, i);
    if (has_nothing(m, i) && m->now.ended < m->tasks) {
        v->phase = htc__thief_pauses(m->scale, &t, htc__dataflow_now_ns(m), &ticks);
        if (v->phase == THIEF_WAITING)
            step_at(m, i, THIEF_WAITING, now + ticks);
    }
    learn(m, i, got);
    htc__dataflow_look(m, i);
}

void htc__dataflow_step(flow *m, uint32_t i)
{
    flow_node *v = &m->node[i];
    if (v->due != htc__dataflow_now(m)) /* it was nudged meanwhile */
        return;
    switch (v->phase) {
    case THIEF_WAITING:
        v->phase = THIEF_NONE;
        htc__dataflow_look(m, i);
        break;
    case THIEF_ASKED:
        hear_loads(m, i);
        break;
    case THIEF_TOLD:
        give(m, i);
        break;
    case THIEF_BACK:
        settle(m, i);
        break;
    default:
        break;
    }
}
