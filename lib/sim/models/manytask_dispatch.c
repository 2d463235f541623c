/* Queues with dispatchers: one for all nodes, or a tree of them. */
#include <assert.h>

#include "sim/models/manytask.h"

/* ---- the central dispatcher: nodes in lists by their busy cores ---- */

static void unlink_seat(many *m, uint32_t i)
{
    const many_seat *s = &m->seat[i];
    *(s->before == MANY_NONE ? &m->busy_list[s->busy] : &m->seat[s->before].next) = s->next;
    if (s->next != MANY_NONE)
        m->seat[s->next].before = s->before;
}

/* The last one comes first: it is in the cache. */
static void link_seat(many *m, uint32_t i)
{
    many_seat *s = &m->seat[i];
    s->before = MANY_NONE;
    s->next = m->busy_list[s->busy];
    if (s->next != MANY_NONE)
        m->seat[s->next].before = i;
    m->busy_list[s->busy] = i;
    if (s->busy < m->now.fewest)
        m->now.fewest = s->busy;
}

static int has_room(const many *m, uint32_t i)
{
    return m->seat[i].busy < m->group[m->seat[i].group].cores;
}

/* One that has room is in a list. */
void htc__many_seat_busy(many *m, uint32_t i, uint32_t busy)
{
    if (m->chiefs > 1) {
        m->seat[i].busy = busy;
        return;
    }
    if (has_room(m, i))
        unlink_seat(m, i);
    m->seat[i].busy = busy;
    if (has_room(m, i))
        link_seat(m, i);
}

/* ---- who is next ---- */

/* Has a fewer unfinished tasks for its cores than b? Numbers of cores are below 2^32. */
static int is_freer(uint64_t a_load, uint64_t a_cores, uint64_t b_load, uint64_t b_cores)
{
    return (double)a_load * (double)b_cores < (double)b_load * (double)a_cores;
}

uint32_t htc__many_free_seat(many *m, uint32_t chief)
{
    const many_chief *c = &m->chief[chief];
    if (m->chiefs == 1) {
        while (m->busy_list[m->now.fewest] == MANY_NONE)
            m->now.fewest++;
        return m->busy_list[m->now.fewest];
    }
    uint32_t best = MANY_NONE;
    for (uint32_t i = c->first; i < c->first + c->n; i++)
        if (has_room(m, i) && (best == MANY_NONE || m->seat[i].busy < m->seat[best].busy))
            best = i;
    assert(best != MANY_NONE);
    return best;
}

static uint32_t freest_child(const many *m, const many_chief *c)
{
    uint32_t best = c->first;
    for (uint32_t i = c->first + 1; i < c->first + c->n; i++)
        if (is_freer(m->chief[i].load, m->chief[i].cores, m->chief[best].load, m->chief[best].cores))
            best = i;
    return best;
}

/* ---- a dispatcher ---- */

static void submit(many *m)
{
    uint64_t n = htc__many_next_batch(m);
    m->chief[0].queue += n;
    m->chief[0].load += n;
}

static void send_down(many *m, uint32_t c)
{
    uint32_t child = freest_child(m, &m->chief[c]);
    m->chief[child].load++;
    htc__scale_messages(m->scale, 1, 0, 0);
    (void)htc_scale_at(m->scale, htc_scale_now(m->scale) + m->hop_task, htc__many_chief_id(m, child, MANY_ARRIVED));
}

/* The end of the task is known here, and its core free, when its result has arrived: it runs as much later as the result is on its way. */
static void send_to_node(many *m, uint32_t c)
{
    uint32_t i = htc__many_free_seat(m, c);
    uint64_t way = m->hop_task + m->hop_load;
    m->chief[c].free--;
    htc__many_seat_busy(m, i, m->seat[i].busy + 1);
    if (m->options.shape.x) {
        uint32_t hops = htc__many_hops(m, m->options.root, i);
        way = htc__many_message(m, hops, m->options.task_bytes) + htc__many_message(m, hops, m->options.load_bytes);
    }
    htc__scale_messages(m->scale, 2, 0, 0);
    htc__many_start(m, i, m->seat[i].group, m->now.started, way + m->task);
}

static void dispatch(many *m, uint32_t c)
{
    many_chief *chief = &m->chief[c];
    chief->queue--;
    if (c == 0 && chief->queue < m->below && m->now.submitted < m->options.tasks)
        submit(m);
    if (chief->lowest)
        send_to_node(m, c);
    else
        send_down(m, c);
}

/* The length of the next task is drawn now, and where its end will stand in the queue is fetched into the cache, so that the dispatch waits for neither. */
static void look_at_next(many *m)
{
    uint64_t number = m->now.started;
    if (m->options.lengths)
        return;
    m->drawn = htc__scale_drawer_ticks(&m->length, htc__scale_draw(m->stream, m->first_task + number));
    m->drawn_of = number + 1;
    htc__ladder_expect(m->scale->queue, (htc__scale_time(m->scale) + m->dispatch + m->hop_task + m->hop_load + m->task + m->drawn) << m->scale->id_bits);
}

static void work(many *m, uint32_t c)
{
    many_chief *chief = &m->chief[c];
    while (!chief->at_work && chief->queue && (!chief->lowest || chief->free) && m->scale->status == HTC_OK) {
        if (m->dispatch == 0) {
            dispatch(m, c);
            continue;
        }
        chief->at_work = 1;
        if (m->chiefs == 1)
            look_at_next(m);
        (void)htc_scale_at(m->scale, htc__scale_time(m->scale) + m->dispatch, htc__many_chief_id(m, c, MANY_DISPATCHED));
    }
}

void htc__many_dispatched(many *m, uint32_t c)
{
    m->chief[c].at_work = 0;
    dispatch(m, c);
    work(m, c);
}

void htc__many_arrived(many *m, uint32_t c)
{
    htc__scale_messages(m->scale, 0, 1, 0);
    m->chief[c].queue++;
    work(m, c);
}

void htc__many_end_seated(many *m, uint32_t i)
{
    uint32_t c = (uint32_t)(m->chiefs - 1);
    if (m->chiefs > 1)
        c = c - (uint32_t)((m->nodes - 1) / m->options.fanout - i / m->options.fanout);
    htc__scale_messages(m->scale, 0, 2, 0);
    m->seat[i].ended++;
    htc__many_seat_busy(m, i, m->seat[i].busy - 1);
    m->chief[c].free++;
    for (uint32_t up = c; up != MANY_NONE; up = m->chief[up].up)
        m->chief[up].load--;
    work(m, c);
}

void htc__many_begin_seated(many *m)
{
    submit(m);
    work(m, 0);
}

/* ---- the tree ---- */

uint64_t htc__many_chiefs(uint64_t nodes, uint64_t fanout, uint64_t *levels)
{
    uint64_t n = (nodes + fanout - 1) / fanout, all = n;
    for (*levels = 1; n > 1; ++*levels) {
        n = (n + fanout - 1) / fanout;
        all += n;
    }
    return all;
}

/* Level by level, the root first and the lowest last; those of a level have fanout children each, the last one the rest. */
static void plant(many *m)
{
    uint64_t f = m->options.fanout, below = m->nodes, end = m->chiefs, first_below = 0;
    for (uint64_t level = 0; level < m->levels; level++) {
        if (m->options.architecture == HTC_SIM_MANYTASK_FALKON_TREE && level)
            f = below; /* two levels, however many the lowest are */
        uint64_t n = (below + f - 1) / f, first = end - n;
        for (uint64_t i = 0; i < n; i++) {
            many_chief *c = &m->chief[first + i];
            uint64_t    begin = i * f, many_below = below - begin < f ? below - begin : f;
            *c = (many_chief){ .up = MANY_NONE, .first = (uint32_t)(first_below + begin), .n = (uint32_t)many_below, .lowest = level == 0 };
            for (uint32_t k = c->first; k < c->first + c->n; k++) {
                c->cores += c->lowest ? m->group[m->seat[k].group].cores : m->chief[k].cores;
                if (!c->lowest)
                    m->chief[k].up = (uint32_t)(first + i);
            }
            c->free = c->lowest ? c->cores : 0;
        }
        below = n;
        first_below = first;
        end = first;
    }
    uint64_t ring = 0;
    for (uint64_t c = 0; c < m->chiefs; c++)
        if (m->chief[c].lowest) {
            m->chief[c].ring = ring;
            ring += m->chief[c].cores;
        }
}

void htc__many_seat(many *m)
{
    if (m->options.architecture == HTC_SIM_MANYTASK_SPARROW) {
        for (uint64_t c = 0; c < m->chiefs; c++)
            m->chief[c] = (many_chief){ .up = MANY_NONE, .ring = c * m->options.placed };
        return;
    }
    if (m->chiefs > 1) {
        plant(m);
        return;
    }
    m->chief[0] = (many_chief){ .cores = m->cores, .free = m->cores, .up = MANY_NONE, .n = (uint32_t)m->nodes, .lowest = 1 };
    for (uint64_t i = m->nodes; i-- > 0;)
        link_seat(m, (uint32_t)i);
}
