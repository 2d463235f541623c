/* Many tasks on many nodes: events and who they belong to, the cost of messages, samples. */
#include "sim/models/manytask.h"

uint64_t htc__many_message(const many *m, uint64_t hops, double bytes)
{
    double sent = bytes * 1e9 / (double)m->options.bytes_per_s;
    return htc_scale_ticks(m->scale, m->options.latency_ns * hops + (htc_ns)(sent + 0.5));
}

uint32_t htc__many_hops(const many *m, uint64_t a, uint64_t b)
{
    uint32_t hops = 1;
    if (m->options.shape.x)
        (void)htc_steal_hops(&m->options.shape, (uint32_t)a, (uint32_t)b, &hops);
    return hops;
}

/* ---- samples ---- */

static void fill_tiles(many *m)
{
    for (uint64_t i = 0; i < m->nodes; i++)
        m->tile[i] = m->seat ? m->seat[i].busy : m->group[m->node[i].group].cores - m->node[i].idle;
}

static void take_sample(many *m)
{
    uint64_t                now = htc__scale_time(m->scale);
    double                  span = (double)(now - m->now.sampled_at) * (double)m->options.tick_ns / 1e9;
    htc_sim_manytask_sample s = { .size = sizeof s, .at = now * m->options.tick_ns, .cores = m->cores, .busy = m->now.started - m->now.ended,
                                  .queued = m->now.submitted - m->now.started, .ended = m->now.ended, .nodes = m->nodes, .grid = m->grid };
    s.rate = span > 0 ? (double)(m->now.ended - m->now.sampled_ended) / span : 0;
    m->now.sampled_at = now;
    m->now.sampled_ended = m->now.ended;
    if (m->tile) {
        fill_tiles(m);
        s.busy_of = m->tile;
    }
    if (m->options.sample)
        m->options.sample(m->options.ctx, &s);
    if (m->now.ended < m->options.tasks)
        htc_scale_at(m->scale, now + m->sample, htc__many_sample_id(m));
}

/* ---- events ---- */

static inline void fetch(const many *m, uint64_t key)
{
    uint64_t node = ((key & m->id_mask) - m->first_id) / MANY_NODE_IDS;
    if (node >= m->nodes)
        return;
    if (m->node) {
        __builtin_prefetch(&m->node[node], 1);
        __builtin_prefetch(&m->waiting[node], 1);
    } else {
        __builtin_prefetch(&m->seat[node], 1);
    }
}

/* The nodes of events that happen soon, while others do: of a long bottom each some events before it, of a short one those that come after it. */
static inline void look_ahead(const many *m)
{
    const ladder   *q = m->scale->queue;
    const uint64_t *next;
    if (q->bottom_n > MANY_LONG) {
        fetch(m, q->bottom[q->bottom_n - MANY_AHEAD]);
        return;
    }
    uint32_t n = htc__ladder_next_keys(q, &next);
    for (uint32_t i = 2 * q->bottom_n; i < n && i < 2 * q->bottom_n + 2; i++)
        fetch(m, next[i]);
}

static void node_event(many *m, uint32_t node, uint32_t what)
{
    if (what == MANY_END) {
        htc__scale_end(m->scale);
        m->now.ended++;
        if (htc__many_is_other(m))
            htc__many_other_ends(m, node);
        else if (m->node)
            htc__many_end_queued(m, node);
        else
            htc__many_end_seated(m, node);
    } else if (what == MANY_STEP) {
        if (htc__many_is_other(m))
            htc__many_other_step(m, node);
        else
            htc__many_step(m, node);
    } else {
        htc__many_nudged(m, node);
    }
}

static void chief_event(many *m, uint32_t chief, uint64_t what)
{
    if (htc__many_is_other(m))
        (what == MANY_DISPATCHED ? htc__many_other_dispatched : htc__many_other_arrived)(m, chief);
    else
        (what == MANY_DISPATCHED ? htc__many_dispatched : htc__many_arrived)(m, chief);
}

static inline void happen(many *m, uint32_t id)
{
    look_ahead(m);
    if (id < m->nodes * MANY_NODE_IDS) {
        node_event(m, id / MANY_NODE_IDS, id % MANY_NODE_IDS);
        return;
    }
    uint64_t behind = id - m->nodes * MANY_NODE_IDS;
    if (behind == m->chiefs * MANY_CHIEF_IDS)
        take_sample(m);
    else
        chief_event(m, (uint32_t)(behind / MANY_CHIEF_IDS), behind % MANY_CHIEF_IDS);
}

void htc__many_event(htc_scale *scale, void *ctx, uint32_t id)
{
    (void)scale;
    happen(ctx, id);
}

void htc__many_grid_event(htc_scale *scale, void *ctx, uint32_t id)
{
    many *m = ctx;
    m += scale - m->scale; /* parts and grids have the same order */
    happen(m, (uint32_t)(id - m->first_id));
}

void htc__many_begin(many *m)
{
    if (htc__many_is_other(m))
        htc__many_begin_other(m);
    else if (m->node)
        htc__many_begin_queued(m);
    else
        htc__many_begin_seated(m);
    if (m->sample)
        htc_scale_at(m->scale, 0, htc__many_sample_id(m));
}
