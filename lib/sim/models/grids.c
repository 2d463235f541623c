/* Several grids: CPUs and the tasks on them. Which job gets a CPU is htc_hierarchy_dispatch's decision. */
#include "sim/models/grids.h"

#include <assert.h>

#include "core/util.h"

#define GRANTS 64

/* A task's draws. */
enum { DRAW_KIND, DRAW_EVICTION, DRAW_MOMENT, DRAWS };
/* Streams that are no job's: jobs have those from 0 on. */
#define STREAM_GRIDS (UINT64_MAX - 2 * HTC_HIERARCHY_GRIDS_MAX)

static int ok(grids *m, htc_status status)
{
    if (status != HTC_OK)
        htc_scale_fail(m->scale, status);
    return status == HTC_OK;
}

static double unit(uint64_t bits)
{
    return ((double)(bits >> 11) + 0.5) * 0x1p-53;
}

static uint64_t free_of(const grids_grid *g)
{
    uint64_t ours = g->down ? 0 : g->ours;
    return ours > g->busy ? ours - g->busy : 0;
}

/* ---- a task gets a CPU ---- */

static void link_task(grids *m, uint32_t t)
{
    grids_task *x = &m->task[t];
    grids_job  *j = &m->job[x->job];
    uint32_t   *first = &m->queue[j->queue].running[x->grid];
    x->prev_of_job = x->prev_of_queue = GRIDS_NONE;
    x->next_of_job = j->first_task;
    x->next_of_queue = *first;
    if (j->first_task != GRIDS_NONE)
        m->task[j->first_task].prev_of_job = t;
    if (*first != GRIDS_NONE)
        m->task[*first].prev_of_queue = t;
    j->first_task = *first = t;
}

static void unlink_task(grids *m, uint32_t t)
{
    const grids_task *x = &m->task[t];
    grids_job        *j = &m->job[x->job];
    if (x->prev_of_job != GRIDS_NONE)
        m->task[x->prev_of_job].next_of_job = x->next_of_job;
    else
        j->first_task = x->next_of_job;
    if (x->next_of_job != GRIDS_NONE)
        m->task[x->next_of_job].prev_of_job = x->prev_of_job;
    if (x->prev_of_queue != GRIDS_NONE)
        m->task[x->prev_of_queue].next_of_queue = x->next_of_queue;
    else
        m->queue[j->queue].running[x->grid] = x->next_of_queue;
    if (x->next_of_queue != GRIDS_NONE)
        m->task[x->next_of_queue].prev_of_queue = x->prev_of_queue;
}

static uint32_t take_place(grids *m)
{
    uint32_t t = m->free_task;
    if (t != GRIDS_NONE)
        m->free_task = m->task[t].next_of_job;
    else if (m->tasks_made < m->tasks_max)
        t = (uint32_t)m->tasks_made++;
    return t;
}

grids_draw htc__grids_draw_task(const grids_grid *g, uint64_t stream, uint32_t number, double part, int again)
{
    uint64_t   at = (uint64_t)number * DRAWS;
    uint64_t   kinds = htc__scale_draw(stream, at + DRAW_KIND);
    double     ticks = part * g->ticks_per_kflop * g->slowness[kinds % GRIDS_KINDS];
    grids_draw x = { .latency = g->latency[(kinds >> 32) % GRIDS_KINDS], .length = ticks < 4e18 ? (uint64_t)(ticks + 0.5) : (uint64_t)4e18 };
    x.length += x.length == 0;
    if (g->part > 0 && !again && unit(htc__scale_draw(stream, at + DRAW_EVICTION)) < g->part) {
        x.length = 1 + (uint64_t)(unit(htc__scale_draw(stream, at + DRAW_MOMENT)) * (double)(x.length - 1));
        x.evicted = 1;
    } else if (g->evicts) {
        uint64_t bits = htc__scale_draw(stream, at + DRAW_EVICTION);
        /* an exponential moment is -mean ln u; since e^-x > 1 - x most need no logarithm */
        uint64_t comes = (1 - unit(bits)) * g->eviction.a >= (double)x.length + 1 ? UINT64_MAX : htc__scale_drawer_ticks(&g->eviction, bits);
        x.evicted = comes < x.length;
        x.length = x.evicted ? comes + 1 : x.length;
    }
    return x;
}

static int start_task(grids *m, uint32_t job, uint32_t grid)
{
    grids_job  *j = &m->job[job];
    grids_grid *g = &m->grid[grid];
    uint32_t    t = take_place(m);
    uint64_t    now = htc__scale_time(m->scale);
    if (t == GRIDS_NONE)
        return ok(m, HTC_EFULL);
    grids_task *x = &m->task[t];
    grids_draw  drawn = htc__grids_draw_task(g, j->stream, j->next_number, j->part, j->again > 0);
    *x = (grids_task){ .job = job, .number = j->next_number++, .grid = (uint8_t)grid, .begin = now + drawn.latency, .length = drawn.length, .evicted = drawn.evicted };
    htc_hierarchy_task told = { .size = sizeof told, .id = job, .task = x->number, .grid = grid, .kflop = j->nominal, .waited_ns = drawn.latency * m->options.tick_ns };
    if (!ok(m, htc_hierarchy_task_started(m->hierarchy, &told, htc__grids_now(m))) || !ok(m, htc_scale_at(m->scale, x->begin + x->length, t)))
        return 0;
    link_task(m, t);
    if (j->phase == GRIDS_QUEUED) {
        htc__grids_phase(j, now, GRIDS_RUNNING);
        j->first_start = UINT64_MAX;
    }
    j->first_start = x->begin < j->first_start ? x->begin : j->first_start;
    if (m->shelter && j->running == 0 && now - j->idle_since >= m->rest)
        j->safe_until = now + m->shelter;
    j->again -= j->again > 0;
    j->waiting--;
    j->running++;
    j->started++;
    htc__grids_look_at_cpus(j);
    m->queue[j->queue].waiting--;
    m->queue[j->queue].busy++;
    g->busy++;
    m->handed_in++;
    m->by_queue[j->queue].r.started++;
    m->begins += x->begin;
    m->held -= now;
    return 1;
}

/* It has no CPU any longer. Answers for how long it ran. */
static inline uint64_t stop_task(grids *m, uint32_t t)
{
    const grids_task *x = &m->task[t];
    grids_job        *j = &m->job[x->job];
    uint64_t          now = htc__scale_time(m->scale), end = now > x->begin ? now : x->begin;
    unlink_task(m, t);
    j->running--;
    if (j->running == 0)
        j->idle_since = now;
    m->queue[j->queue].busy--;
    m->grid[x->grid].busy--;
    m->ends += end;
    m->held += now;
    return end - x->begin;
}

static void free_place(grids *m, uint32_t t)
{
    m->task[t].next_of_job = m->free_task;
    m->free_task = t;
}

/* One that was stopped before it began to run is not the first that did. */
static void first_start_without(grids *m, grids_job *j, uint64_t begin)
{
    uint64_t first = UINT64_MAX;
    if (begin != j->first_start || begin <= htc__scale_time(m->scale))
        return;
    for (uint32_t t = j->first_task; t != GRIDS_NONE && first > begin; t = m->task[t].next_of_job)
        first = m->task[t].begin < first ? m->task[t].begin : first;
    j->first_start = first;
}

/* It will be done again. */
static void lose_task(grids *m, uint32_t t)
{
    uint32_t   job = m->task[t].job;
    grids_job *j = &m->job[job];
    uint64_t   ran = stop_task(m, t);
    first_start_without(m, j, m->task[t].begin);
    j->evicted += ran;
    j->evictions++;
    j->again++;
    j->waiting++;
    m->evicted += ran;
    m->evictions++;
    m->by_queue[j->queue].r.evicted++;
    m->by_queue[j->queue].r.evicted_s += (double)ran;
    if (j->listed)
        m->queue[j->queue].waiting++;
    htc__grids_look_at_cpus(j);
    if (!ok(m, htc_hierarchy_task_lost(m->hierarchy, job, m->task[t].number, htc__grids_now(m))))
        return;
    j->in_vain++;
    if (m->options.task_attempts != UINT32_MAX && j->in_vain >= (uint64_t)m->options.task_attempts * j->tasks)
        htc__grids_job_failed(m, job);
}

void htc__grids_cut_job(grids *m, uint32_t job)
{
    grids_job *j = &m->job[job];
    while (j->first_task != GRIDS_NONE) {
        uint32_t t = j->first_task;
        m->task[t].cut = 1;
        uint64_t ran = stop_task(m, t);
        j->moved += ran;
        m->moved += ran;
        m->by_queue[j->queue].r.moved_s += (double)ran;
        j->waiting++;
    }
}

static void task_event(grids *m, uint32_t t)
{
    grids_task *x = &m->task[t];
    uint32_t    job = x->job, grid = x->grid;
    if (x->cut) {
        free_place(m, t);
        return;
    }
    if (x->evicted) {
        lose_task(m, t);
        free_place(m, t);
    } else {
        grids_job *j = &m->job[job];
        uint64_t   length = x->length;
        (void)stop_task(m, t);
        free_place(m, t);
        j->tasks--;
        j->in_vain = 0;
        j->left -= j->part;
        j->work += length;
        m->work += length;
        m->longest = length > m->longest ? length : m->longest;
        m->by_queue[j->queue].r.work_s += (double)length;
        htc__grids_look_at_cpus(j);
        if (!ok(m, htc_hierarchy_task_done(m->hierarchy, job, x->number, htc__grids_now(m))))
            return;
        if (j->tasks == 0)
            htc__grids_job_done(m, job);
    }
    htc__grids_dispatch(m, grid);
}

/* ---- who gets CPUs ---- */

/* The latest task of a lower level that may be stopped. */
static int preempt(grids *m, uint32_t grid, uint32_t level)
{
    const grids_grid *g = &m->grid[grid];
    uint64_t          now = htc__scale_time(m->scale);
    for (uint32_t i = g->queues; i-- > 0 && m->queue[g->queue[i]].level > level;)
        for (uint32_t t = m->queue[g->queue[i]].running[grid]; t != GRIDS_NONE; t = m->task[t].next_of_queue)
            if (m->job[m->task[t].job].safe_until <= now) {
                m->task[t].cut = 1;
                lose_task(m, t);
                return 1;
            }
    return 0;
}

static uint64_t below(const grids *m, uint32_t grid, uint32_t level)
{
    const grids_grid *g = &m->grid[grid];
    uint64_t          busy = 0;
    for (uint32_t i = g->queues; i-- > 0 && m->queue[g->queue[i]].level > level;)
        busy += m->queue[g->queue[i]].running[grid] != GRIDS_NONE ? m->queue[g->queue[i]].busy : 0;
    return busy;
}

/* The job has a task that waits in this queue; not, if a checkpoint has told the hierarchy something else. */
static int may_start(grids *m, uint64_t job, uint32_t queue)
{
    const grids_job *j = job < m->jobs_made ? &m->job[job] : NULL;
    return (j && j->state != GRIDS_FREE_JOB && j->listed && j->queue == queue && j->waiting) || ok(m, HTC_ECORRUPT);
}

/* Free CPUs of a grid for one queue. 0: there is none left that it may have. */
static int dispatch_to(grids *m, uint32_t queue, uint32_t grid)
{
    grids_queue        *q = &m->queue[queue];
    grids_grid         *g = &m->grid[grid];
    htc_hierarchy_grant grant[GRANTS];
    size_t              n = GRANTS;
    while (q->waiting && n == GRANTS) {
        uint64_t cpus = free_of(g);
        if (q->flags & HTC_SIM_GRIDS_PREEMPTS && !g->down)
            cpus += below(m, grid, q->level);
        if (cpus == 0)
            return 0;
        if (!ok(m, htc_hierarchy_dispatch(m->hierarchy, queue, grid, cpus < UINT32_MAX ? (uint32_t)cpus : UINT32_MAX, grant, GRANTS, &n)))
            return 0;
        for (size_t i = 0; i < n; i++)
            for (uint32_t k = 0; k < grant[i].cpus; k++)
                if (!may_start(m, grant[i].id, queue) || (free_of(g) == 0 && !preempt(m, grid, q->level)) || !start_task(m, (uint32_t)grant[i].id, grid))
                    return 0;
    }
    return 1;
}

void htc__grids_dispatch(grids *m, uint32_t grid)
{
    const grids_grid *g = &m->grid[grid];
    for (uint32_t i = 0; i < g->queues; i++)
        if (m->queue[g->queue[i]].waiting)
            dispatch_to(m, g->queue[i], grid);
}

void htc__grids_dispatch_queue(grids *m, uint32_t queue)
{
    const grids_queue *q = &m->queue[queue];
    uint64_t           tried = 0;
    if (m->options.system == HTC_SIM_GRIDS_MQH || m->options.system == HTC_SIM_GRIDS_FCFSH) {
        for (uint32_t i = 0; i < q->grids && q->waiting; i++)
            dispatch_to(m, queue, q->grid[i]);
        return;
    }
    for (uint32_t k = 0; k < q->grids && q->waiting; k++) { /* flat */
        uint32_t best = GRIDS_NONE;
        for (uint32_t i = 0; i < q->grids; i++)
            if (!(tried >> q->grid[i] & 1) && (best == GRIDS_NONE || free_of(&m->grid[q->grid[i]]) > free_of(&m->grid[best])))
                best = q->grid[i];
        tried |= UINT64_C(1) << best;
        dispatch_to(m, queue, best);
    }
}

/* ---- grids come and go ---- */

/* About a standard normal: the sum of eight uniform numbers. */
static double deviate(uint64_t a, uint64_t b)
{
    double sum = 0;
    for (int i = 0; i < 4; i++)
        sum += (double)(a >> (16 * i) & 0xffff) + (double)(b >> (16 * i) & 0xffff) + 1;
    return (sum / 65536 - 4) * 1.2247448713915890; /* sqrt(12 / 8) */
}

static void set_ours(grids_grid *g)
{
    double ours = g->mean + g->deviation * g->state;
    g->ours = ours < 0 ? 0 : ours > (double)g->cpus ? g->cpus : (uint64_t)(ours + 0.5);
}

void htc__grids_first_ours(const grids *m, uint32_t grid)
{
    uint64_t stream = htc__scale_stream(m->options.seed, STREAM_GRIDS + 2 * grid);
    m->grid[grid].state = deviate(htc__scale_draw(stream, UINT64_MAX), htc__scale_draw(stream, UINT64_MAX - 1));
    set_ours(&m->grid[grid]);
}

void htc__grids_next_ours(const grids *m, uint32_t grid)
{
    grids_grid *g = &m->grid[grid];
    uint64_t    stream = htc__scale_stream(m->options.seed, STREAM_GRIDS + 2 * grid);
    g->state = g->keep * g->state + g->push * deviate(htc__scale_draw(stream, 2 * g->steps), htc__scale_draw(stream, 2 * g->steps + 1));
    g->steps++;
    set_ours(g);
}

uint64_t htc__grids_next_outage(const grids *m, uint32_t grid)
{
    grids_grid *g = &m->grid[grid];
    uint64_t    stream = htc__scale_stream(m->options.seed, STREAM_GRIDS + 2 * grid + 1);
    uint64_t    gap = htc__scale_drawer_ticks(&g->outage_gap, htc__scale_draw(stream, g->outages++));
    uint64_t    span = g->down ? g->outage : gap;
    return span + (span < UINT64_MAX);
}

static void grid_event(grids *m, uint32_t grid)
{
    htc__grids_next_ours(m, grid);
    if (m->left)
        htc_scale_at(m->scale, htc__scale_time(m->scale) + m->grid[grid].step, htc__grids_id(m, GRIDS_ID_GRID + grid));
    htc__grids_dispatch(m, grid);
}

static void next_outage(grids *m, uint32_t grid)
{
    htc_scale_at(m->scale, htc__scale_time(m->scale) + htc__grids_next_outage(m, grid), htc__grids_id(m, GRIDS_ID_GRID + m->n_grids + grid));
}

static void outage_event(grids *m, uint32_t grid)
{
    grids_grid *g = &m->grid[grid];
    g->down = !g->down;
    for (uint32_t i = 0; g->down && i < g->queues; i++)
        for (uint32_t t; (t = m->queue[g->queue[i]].running[grid]) != GRIDS_NONE;) {
            m->task[t].cut = 1;
            lose_task(m, t);
        }
    if (m->left || g->down)
        next_outage(m, grid);
    htc__grids_dispatch(m, grid);
}

void htc__grids_look(grids *m)
{
    for (uint32_t g = 0; g < m->n_grids; g++)
        ok(m, htc_hierarchy_sample(m->hierarchy, g, m->grid[g].down ? HTC_HIERARCHY_UNREACHABLE : (uint32_t)free_of(&m->grid[g]),
                                   m->grid[g].down ? 0 : (uint32_t)m->grid[g].ours, htc__grids_now(m)));
}

/* ---- all ---- */

static void take_sample(grids *m)
{
    for (uint32_t q = 0; q < m->n_queues; q++) {
        m->sample_queued[q] = m->queue[q].waiting;
        m->sample_busy[q] = m->queue[q].busy;
    }
    for (uint32_t g = 0; g < m->n_grids; g++)
        m->sample_ours[g] = m->grid[g].down ? 0 : m->grid[g].ours;
    if (m->options.sample)
        m->options.sample(m->options.ctx, &(htc_sim_grids_sample){ .size = sizeof(htc_sim_grids_sample), .at = htc__grids_now(m), .jobs = m->active, .ended = m->total - m->left,
                                                                   .queued = m->sample_queued, .busy = m->sample_busy, .n_queues = m->n_queues, .ours = m->sample_ours,
                                                                   .n_grids = m->n_grids });
    if (m->left)
        htc_scale_at(m->scale, htc__scale_time(m->scale) + m->sample, htc__grids_id(m, GRIDS_ID_SAMPLE));
}

void htc__grids_event(htc_scale *scale, void *ctx, uint32_t id)
{
    grids   *m = ctx;
    uint32_t first = htc__grids_id(m, 0);
    (void)scale;
    if (id < m->tasks_max)
        task_event(m, id);
    else if (id < first)
        htc__grids_job_event(m, id - (uint32_t)m->tasks_max);
    else if (id == first + GRIDS_ID_ARRIVAL)
        htc__grids_arrivals(m);
    else if (id == first + GRIDS_ID_TIMER)
        m->timers--;
    else if (id == first + GRIDS_ID_SAMPLE)
        take_sample(m);
    else if (id - first - GRIDS_ID_GRID < m->n_grids)
        grid_event(m, id - first - GRIDS_ID_GRID);
    else
        outage_event(m, id - first - GRIDS_ID_GRID - m->n_grids);
    if (m->limits)
        htc__grids_limits(m);
}

void htc__grids_begin(grids *m)
{
    htc__grids_next_arrival(m);
    if (m->sample)
        htc_scale_at(m->scale, 0, htc__grids_id(m, GRIDS_ID_SAMPLE));
    for (uint32_t g = 0; g < m->n_grids; g++) {
        if (m->grid[g].varies) {
            htc__grids_first_ours(m, g);
            htc_scale_at(m->scale, m->grid[g].step, htc__grids_id(m, GRIDS_ID_GRID + g));
        }
        if (m->grid[g].outage)
            next_outage(m, g);
    }
}
