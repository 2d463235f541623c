/* Many tasks on many nodes: what a checkpoint says can be. Each core that is busy has the event of its end, each queue and each list has what is counted of it. */
#include <string.h>

#include "sim/models/checked.h"
#include "sim/models/manytask.h"

typedef struct audit {
    const many    *m;
    const uint8_t *events;
    checked_lists  spans, seats;
    uint64_t       waiting, running; /* tasks in queues and on their way to others; cores that are busy */
    uint32_t      *asked;            /* Falkon: executors of each node that wait for a task, and those that were notified */
} audit;

/* Events of an id are so many, or more than are counted. */
static int has_events(const audit *a, uint64_t id, uint64_t n)
{
    return a->events[id] == (n < UINT8_MAX ? n : UINT8_MAX);
}

static uint32_t group_of(const many *m, uint64_t node)
{
    uint32_t g = 0;
    while (g + 1 < m->options.n_groups && m->group[g + 1].first <= node)
        g++;
    return g;
}

/* ---- queues with the nodes ---- */

static int span_can_be(const many *m, uint64_t first, uint64_t n)
{
    return n > 0 && first <= m->now.submitted && n <= m->now.submitted - first;
}

/* A list of spans: of a queue it goes back, too. */
static int spans_can_be(audit *a, uint32_t first, uint32_t end, int back, uint64_t *tasks)
{
    const many *m = a->m;
    uint32_t    last, before = MANY_NONE;
    if (!htc__checked_list(&a->spans, first, &last, NULL) || (end != last && (back || last != MANY_NONE)))
        return 0;
    for (uint32_t s = first; s != MANY_NONE; before = s, s = m->span[s].next) {
        if (!span_can_be(m, m->span[s].first, m->span[s].n) || (back && m->span[s].before != before))
            return 0;
        *tasks += m->span[s].n;
    }
    return 1;
}

static int node_can_be(audit *a, uint32_t i)
{
    const many      *m = a->m;
    const many_node *v = &m->node[i];
    uint64_t         queued = v->front, loot = 0, sparrow = m->options.architecture == HTC_SIM_MANYTASK_SPARROW;
    uint32_t         first = MANY_NONE, last = MANY_NONE;
    if (v->group != group_of(m, i) || v->idle > m->group[v->group].cores || (v->front ? !span_can_be(m, v->first, v->front) : v->more != MANY_NONE) ||
        !spans_can_be(a, v->more, v->last, 1, &queued) || queued != m->waiting[i])
        return 0;
    if (v->phase > THIEF_BACK || v->nudged > 1 || (!sparrow && v->phase >= THIEF_TOLD && v->other != MANY_NONE && v->other >= m->nodes) || (v->phase == THIEF_TOLD && v->other == MANY_NONE))
        return 0;
    if (sparrow || (v->phase == THIEF_BACK && v->other != MANY_NONE))
        first = v->loot;
    last = sparrow ? v->other : MANY_NONE;
    if (sparrow ? !spans_can_be(a, first, first == MANY_NONE ? MANY_NONE : last, 0, &loot) || (first != MANY_NONE && (last >= m->now.spans_used || m->span[last].next != MANY_NONE)) :
                  !htc__checked_list(&a->spans, first, NULL, NULL))
        return 0;
    for (uint32_t s = first; s != MANY_NONE && !sparrow; s = m->span[s].next) {
        if (!span_can_be(m, m->span[s].first, m->span[s].n))
            return 0;
        loot += m->span[s].n;
    }
    a->waiting += queued + loot;
    a->running += m->group[v->group].cores - v->idle;
    return has_events(a, htc__many_id(m, i, MANY_END), m->group[v->group].cores - v->idle) && (!sparrow || has_events(a, htc__many_id(m, i, MANY_STEP), loot));
}

static int nodes_can_be(audit *a)
{
    const many *m = a->m;
    for (uint32_t p = 0; p < m->options.parts; p++)
        if (!htc__checked_list(&a->spans, m[p].now.span_free, NULL, NULL))
            return 0;
    for (uint32_t i = 0; i < m->nodes; i++)
        if (!node_can_be(a, i))
            return 0;
    return 1;
}

/* ---- seats ---- */

static int falkon(const many *m)
{
    return m->options.architecture == HTC_SIM_MANYTASK_FALKON || m->options.architecture == HTC_SIM_MANYTASK_FALKON_TREE;
}

/* Those with room, by how many of their cores are busy. */
static int seat_lists_can_be(audit *a)
{
    const many *m = a->m;
    uint32_t    least = MANY_NONE, most = 0;
    for (size_t g = 0; g < m->options.n_groups; g++)
        most = m->group[g].cores > most ? m->group[g].cores : most;
    for (uint32_t busy = 0; busy <= most; busy++) {
        uint32_t before = MANY_NONE;
        if (!htc__checked_list(&a->seats, m->busy_list[busy], NULL, NULL))
            return 0;
        for (uint32_t i = m->busy_list[busy]; i != MANY_NONE; before = i, i = m->seat[i].next)
            if (m->seat[i].busy != busy || m->seat[i].before != before)
                return 0;
        least = m->busy_list[busy] != MANY_NONE && least == MANY_NONE ? busy : least;
    }
    for (uint32_t i = 0; i < m->nodes; i++)
        if (htc__checked_was_taken(&a->seats, i) != (m->seat[i].busy < m->group[m->seat[i].group].cores))
            return 0;
    return m->now.fewest <= (least == MANY_NONE ? most : least);
}

static int seats_can_be(audit *a)
{
    const many *m = a->m;
    for (uint32_t i = 0; i < m->nodes; i++) {
        const many_seat *s = &m->seat[i];
        uint64_t         ends = a->events[htc__many_id(m, i, MANY_END)], steps = a->events[htc__many_id(m, i, MANY_STEP)];
        if (s->group != group_of(m, i) || s->busy > m->group[s->group].cores || a->events[htc__many_id(m, i, MANY_NUDGE)])
            return 0;
        if (falkon(m) ? ends + steps + a->asked[i] != s->busy && ends < UINT8_MAX && steps < UINT8_MAX : !has_events(a, htc__many_id(m, i, MANY_END), s->busy))
            return 0;
        if (!falkon(m) && (m->options.architecture == HTC_SIM_MANYTASK_CLOUDKON ? ends + steps > m->group[s->group].cores : steps > 0))
            return 0;
        a->running += s->busy - (falkon(m) ? steps + a->asked[i] : 0);
    }
    return m->chiefs > 1 || m->options.architecture == HTC_SIM_MANYTASK_CLOUDKON || seat_lists_can_be(a);
}

/* ---- dispatchers ---- */

static int falkon_can_ask(const audit *a, const many_chief *c)
{
    const many *m = a->m;
    if (c->head >= c->cores + !c->cores || c->asked > c->load || c->asked > c->cores || c->load > c->queue)
        return 0;
    for (uint64_t k = 0; k < c->asked; k++) {
        uint32_t i = m->ring[c->ring + (c->head + k) % c->cores];
        if (i < c->first || i - c->first >= c->n)
            return 0;
        a->asked[i]++;
    }
    return 1;
}

static int sparrow_can_place(const audit *a, uint32_t chief)
{
    const many       *m = a->m;
    const many_chief *c = &m->chief[chief];
    uint8_t           probes = a->events[htc__many_chief_id(m, chief, MANY_DISPATCHED)], places = a->events[htc__many_chief_id(m, chief, MANY_ARRIVED)];
    if (probes + places > 1 || c->queue > m->options.placed || c->load > m->options.tasks || c->queue > m->options.tasks - c->load)
        return 0;
    for (uint64_t t = 0; places && t < c->queue; t++)
        if (m->ring[c->ring + t] >= m->nodes)
            return 0;
    return 1;
}

static int chief_can_be(audit *a, uint32_t chief)
{
    const many       *m = a->m;
    const many_chief *c = &m->chief[chief];
    uint64_t          free = 0, notified = 0;
    int               hands_on = !c->lowest, busy = a->events[htc__many_chief_id(m, chief, MANY_DISPATCHED)], saturated = 0;
    if (m->options.architecture == HTC_SIM_MANYTASK_SPARROW)
        return sparrow_can_place(a, chief);
    if (m->options.architecture == HTC_SIM_MANYTASK_CLOUDKON)
        return !busy && !a->events[htc__many_chief_id(m, chief, MANY_ARRIVED)];
    for (uint32_t i = c->first; c->lowest && i < c->first + c->n; i++) {
        free += m->group[m->seat[i].group].cores - m->seat[i].busy;
        notified += a->events[htc__many_id(m, i, MANY_STEP)];
        saturated |= a->events[htc__many_id(m, i, MANY_STEP)] == UINT8_MAX;
    }
    a->waiting += c->queue + a->events[htc__many_chief_id(m, chief, MANY_ARRIVED)];
    if (c->at_work > 1 || busy != c->at_work || (c->lowest && c->free != free) || (chief == 0 && a->events[htc__many_chief_id(m, chief, MANY_ARRIVED)]))
        return 0;
    if (falkon(m) && c->lowest && !saturated && c->load != c->asked + notified)
        return 0;
    if (c->at_work && falkon(m) && c->lowest)
        return c->asked > 0;
    return !c->at_work || (c->queue && (hands_on || falkon(m) || c->free));
}

static int chiefs_can_be(audit *a)
{
    const many *m = a->m;
    for (uint32_t c = 0; c < m->chiefs; c++)
        if (!chief_can_be(a, c))
            return 0;
    return 1;
}

/* ---- all ---- */

static int counts_can_be(const audit *a)
{
    const many       *m = a->m;
    struct many_state all = htc__many_total(m);
    int               saturated = 0;
    for (uint32_t c = 0; c < m->chiefs; c++)
        saturated |= a->events[htc__many_chief_id(m, c, MANY_ARRIVED)] == UINT8_MAX;
    if (m->options.architecture == HTC_SIM_MANYTASK_SPARROW)
        return all.placed <= m->options.tasks && all.started - all.ended == a->running;
    if (m->options.architecture != HTC_SIM_MANYTASK_CLOUDKON && !saturated && all.submitted - all.started != a->waiting)
        return 0;
    return all.started <= all.submitted && all.submitted <= m->options.tasks && (falkon(m) || all.started - all.ended == a->running) && a->events[htc__many_sample_id(m)] <= (m->sample > 0);
}

/* Of a machine in parts each has the events of its own nodes, and the first one those of none. */
static int parts_can_be(const many *m)
{
    const run *r = m->scale->run;
    uint8_t   *of = htc__alloc(&m->env, r->options.ids);
    int        can_be = of != NULL;
    for (uint32_t p = 1; p < m->options.parts && can_be; p++) {
        memset(of, 0, r->options.ids);
        htc__ladder_count_ids(r->part[p].queue, of);
        for (uint64_t id = 0; id < r->options.ids && can_be; id++)
            can_be = !of[id] || (id < m->nodes * MANY_NODE_IDS && (id / MANY_NODE_IDS >> m->block_bits) % m->options.parts == p);
    }
    if (can_be) {
        memset(of, 0, r->options.ids);
        htc__ladder_count_ids(r->part[0].queue, of);
    }
    for (uint64_t id = 0; id < m->nodes * MANY_NODE_IDS && can_be; id++)
        can_be = !of[id] || (id / MANY_NODE_IDS >> m->block_bits) % m->options.parts == 0;
    if (of)
        htc__free(&m->env, of, r->options.ids);
    return can_be;
}

htc_status htc__many_check(const many *m, const uint8_t *events)
{
    audit      a = { .m = m, .events = events, .asked = htc__alloc(&m->env, m->nodes * sizeof *a.asked) };
    htc_status status = htc__checked_open(&a.spans, &m->env, m->span ? &m->span->next : NULL, sizeof *m->span, m->node ? m->now.spans_used : 0);
    if (status == HTC_OK)
        status = htc__checked_open(&a.seats, &m->env, m->seat ? &m->seat->next : NULL, sizeof *m->seat, m->seat ? m->nodes : 0);
    if (!a.asked)
        status = HTC_ENOMEM;
    for (uint32_t c = 0; c < m->chiefs && status == HTC_OK && falkon(m); c++)
        if (m->chief[c].lowest)
            status = htc__checked_that(m->scale, falkon_can_ask(&a, &m->chief[c]), "executors");
    if (status == HTC_OK)
        status = htc__checked_that(m->scale, m->node ? nodes_can_be(&a) : seats_can_be(&a), "nodes");
    if (status == HTC_OK)
        status = htc__checked_that(m->scale, chiefs_can_be(&a), "dispatchers");
    if (status == HTC_OK)
        status = htc__checked_that(m->scale, counts_can_be(&a) && (m->options.parts < 2 || parts_can_be(m)), "counts");
    htc__checked_close(&a.spans);
    htc__checked_close(&a.seats);
    if (a.asked)
        htc__free(&m->env, a.asked, m->nodes * sizeof *a.asked);
    return status;
}
