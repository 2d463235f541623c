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
    struct many_state       all = htc__many_total(m);
    double                  span = (double)(now - all.sampled_at) * (double)m->options.tick_ns / 1e9;
    htc_sim_manytask_sample s = { .size = sizeof s, .at = now * m->options.tick_ns, .cores = m->cores, .busy = all.started - all.ended,
                                  .queued = all.submitted - all.started, .ended = all.ended, .nodes = m->nodes, .grid = m->grid };
    s.rate = span > 0 ? (double)(all.ended - all.sampled_ended) / span : 0;
    m->home->now.sampled_at = now;
    m->home->now.sampled_ended = all.ended;
    m->home->now.sample_next = now + m->sample;
    if (m->tile) {
        fill_tiles(m);
        s.busy_of = m->tile;
    }
    if (m->options.sample)
        m->options.sample(m->options.ctx, &s);
    if (all.ended < m->options.tasks)
        htc_scale_at(m->scale, now + m->sample, htc__many_sample_id(m));
}

/* ---- events ---- */

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

void htc__many_soon(const void *ctx, uint32_t id)
{
    htc__many_fetch(ctx, id);
}

/* The neighbours of a node in its list of the central dispatcher: when it leaves they are linked to each other. */
void htc__many_next(const void *ctx, uint32_t id)
{
    const many *m = ctx;
    if (id >= m->nodes * MANY_NODE_IDS)
        return;
    const many_seat *s = &m->seat[id / MANY_NODE_IDS];
    if (s->before != MANY_NONE)
        __builtin_prefetch(&m->seat[s->before], 1);
    if (s->next != MANY_NONE)
        __builtin_prefetch(&m->seat[s->next], 1);
}

void htc__many_grid_event(htc_scale *scale, void *ctx, uint32_t id)
{
    many *m = ctx;
    m += scale - m->scale; /* parts of the engine, and grids or their parts, have the same order */
    m->at = scale->now << scale->id_bits | id;
    htc__many_look_ahead(m);
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
