/* Several grids: options, the shape of the system, tables, and results by queue and class. The exact twin (sim/scenarios/grids_exact.h) has these too, with a tick of 1 ns. */
#include <string.h>

#include "core/util.h"
#include "sim/models/grids.h"

#define ACTIVE_DEFAULT   65536
#define ATTEMPTS_DEFAULT 10 /* as job.max_retries of the hierarchy */

/* ---- options ---- */

static htc_sim_grids_grid grid_at(const htc_sim_grids_options *o, size_t i)
{
    htc_sim_grids_grid g = { 0 };
    (void)htc__options_at(&g, sizeof g, o->grids, i, sizeof g);
    return g;
}

static htc_sim_grids_queue queue_at(const htc_sim_grids_options *o, size_t i)
{
    htc_sim_grids_queue q = { 0 };
    (void)htc__options_at(&q, sizeof q, o->queues, i, sizeof q);
    return q;
}

uint64_t htc__grids_total(const htc_sim_grids_options *o)
{
    return o->jobs ? o->n_jobs : o->stream.jobs;
}

uint64_t htc__grids_cpus(const htc_hierarchy_options *h)
{
    uint64_t cpus = 0;
    for (size_t i = 0; i < h->grid_count; i++)
        cpus += h->grids[i].cpus;
    return cpus;
}

htc_status htc__grids_options(const htc_sim_grids_options *in, htc_sim_grids_options *o)
{
    *o = (htc_sim_grids_options){ .size = sizeof *o };
    htc_status                   status = in ? htc__options_copy(o, sizeof *o, in, in->size, offsetof(htc_sim_grids_options, active_max)) : HTC_EINVAL;
    const htc_hierarchy_options *h = o->hierarchy;
    o->tick_ns = o->tick_ns ? o->tick_ns : HTC_MS;
    o->task_attempts = o->task_attempts ? o->task_attempts : ATTEMPTS_DEFAULT;
    if (status == HTC_OK && (o->reserved || o->reserved2 || o->system > HTC_SIM_GRIDS_FCFS || !h || h->size < sizeof *h || !h->grids || !h->queues || h->grid_count < 1 ||
                             h->grid_count > HTC_HIERARCHY_GRIDS_MAX || h->queue_count < 1 || h->queue_count > HTC_HIERARCHY_QUEUES_MAX || !o->grids || !o->queues ||
                             !o->classes || o->n_classes < 1 || o->n_classes > HTC_SIM_GRIDS_CLASSES_MAX || htc__grids_total(o) < 1 || htc__grids_total(o) > HTC_SIM_GRIDS_JOBS_MAX ||
                             o->active_max > HTC_SIM_GRIDS_ACTIVE_MAX || htc__grids_cpus(h) > HTC_SIM_GRIDS_CPUS_MAX))
        status = HTC_EINVAL;
    if (status == HTC_OK && o->active_max == 0)
        o->active_max = htc__grids_total(o) < ACTIVE_DEFAULT ? htc__grids_total(o) : ACTIVE_DEFAULT;
    return status;
}

static int within(double x, double least, double most)
{
    return x >= least && x <= most;
}

static htc_status check_grids(const htc_sim_grids_options *o, htc_error *error)
{
    for (size_t i = 0; i < o->hierarchy->grid_count; i++) {
        htc_sim_grids_grid g = { 0 };
        htc_status         status = htc__options_at(&g, sizeof g, o->grids, i, sizeof g);
        if (status == HTC_OK && (!within(g.kflops, 1e-6, 1e15) || !within(g.speed_cv, 0, 10) || htc_scale_law_check(&g.latency) != HTC_OK || !within(g.evict_per_h, 0, 1e9) ||
                                 !within(g.evict_part, 0, 1) || !within(g.free_mean, 0, o->hierarchy->grids[i].cpus) || !within(g.free_cv, 0, 10) ||
                                 (g.free_mean > 0 && g.free_ns / o->tick_ns < 20) || (g.outage_gap_ns && !g.outage_ns)))
            status = HTC_EINVAL;
        if (status != HTC_OK)
            return htc__error(error, status, "a number of grid %zu is out of range", i);
    }
    for (size_t i = 0; i < o->hierarchy->queue_count; i++) {
        htc_sim_grids_queue q = { 0 };
        htc_status          status = htc__options_at(&q, sizeof q, o->queues, i, sizeof q);
        if (status != HTC_OK || q.flags > 3 || q.reserved || o->hierarchy->queues[i].flags & HTC_HIERARCHY_REMOTE)
            return htc__error(error, status == HTC_OK ? HTC_EINVAL : status, "queue %zu has no such size or flags, or is remote", i);
    }
    return HTC_OK;
}

static htc_status check_jobs(const htc_sim_grids_options *o, htc_error *error)
{
    double share = 0;
    htc_ns last = 0;
    for (size_t i = 0; i < o->n_classes; i++) {
        htc_sim_grids_class k = { 0 };
        htc_status          status = htc__options_at(&k, sizeof k, o->classes, i, sizeof k);
        if (status == HTC_OK && !o->jobs && (!within(k.share, 0, 1e9) || !within(k.kflop_min, 1e-6, 1e24) || !within(k.kflop_max, k.kflop_min, 1e24) ||
                                             !within(k.rho_mean, 0, 1e9) || !within(k.rho_cv, 0, 10)))
            status = HTC_EINVAL;
        if (status != HTC_OK)
            return htc__error(error, status, "a number of class %zu is out of range", i);
        share += k.share;
    }
    if (!o->jobs && (!(share > 0) || !within(o->stream.burst, 1, 1e9) || htc_scale_law_check(&o->stream.gap) != HTC_OK || htc_scale_law_check(&o->stream.burst_gap) != HTC_OK))
        return htc__error(error, HTC_EINVAL, "no class has a share, or a number of the stream is out of range");
    for (size_t i = 0; o->jobs && i < o->n_jobs; i++) {
        htc_sim_grids_job j = { 0 };
        htc_status        status = htc__options_at(&j, sizeof j, o->jobs, i, sizeof j);
        if (status == HTC_OK && (j.arrival < last || !within(j.kflop, 1e-6, 1e24) || (j.rho != 0 && !within(j.rho, 1, 1e9)) || j.kind >= o->n_classes || j.tasks > 1000000000))
            status = HTC_EINVAL;
        if (status != HTC_OK)
            return htc__error(error, status, "job %zu comes before the one in front of it, or a number of it is out of range", i);
        last = j.arrival;
    }
    return HTC_OK;
}

htc_status htc__grids_can_be(const htc_sim_grids_options *o, htc_error *error)
{
    htc_status status = check_grids(o, error);
    return status == HTC_OK ? check_jobs(o, error) : status;
}

/* ---- which system ---- */

/* Grids by the level of the first queue that uses them: then by number. */
static void order_grids(const htc_hierarchy_options *h, uint32_t *order)
{
    size_t n = 0;
    for (uint32_t level = 1; level <= h->queue_count && n < h->grid_count; level++)
        for (size_t q = 0; q < h->queue_count; q++)
            for (size_t i = 0; h->queues[q].level == level && h->queues[q].grids && i < h->queues[q].grid_count && i < h->grid_count; i++) {
                size_t k = 0;
                while (k < n && order[k] != h->queues[q].grids[i])
                    k++;
                if (k == n && n < h->grid_count)
                    order[n++] = h->queues[q].grids[i];
            }
    for (uint32_t g = 0; g < h->grid_count && n < h->grid_count; g++) { /* nobody's */
        size_t k = 0;
        while (k < n && order[k] != g)
            k++;
        if (k == n)
            order[n++] = g;
    }
}

static uint32_t lowest(const htc_hierarchy_options *h)
{
    uint32_t q = 0;
    for (uint32_t i = 1; i < h->queue_count; i++)
        q = h->queues[i].level > h->queues[q].level ? i : q;
    return q;
}

static void shape_system(grids *m)
{
    const htc_hierarchy_options *h = m->options.hierarchy;
    m->shape = *h;
    m->shape.size = sizeof m->shape;
    m->shape.jobs_max = m->options.active_max;
    m->shape.tasks_max = m->tasks_max;
    m->shape.queues = m->specs;
    memcpy(m->specs, h->queues, h->queue_count * sizeof *m->specs);
    order_grids(h, m->spec_grids);
    if (m->options.system == HTC_SIM_GRIDS_MQH)
        return;
    if (m->options.system != HTC_SIM_GRIDS_MQ) {
        const htc_hierarchy_queue *last = &h->queues[lowest(h)];
        m->specs[0] = (htc_hierarchy_queue){ .level = 1, .next = HTC_HIERARCHY_NOWHERE, .te_ns = 1, .tq_ns = 1, .cpus = (uint32_t)m->cpus, .kflops = last->kflops,
                                             .beta = last->beta, .policies = HTC_HIERARCHY_NO_POLICY };
        m->shape.queue_count = 1;
        m->shape.mode = HTC_HIERARCHY_SIMPLE;
    }
    for (size_t q = 0; q < m->shape.queue_count; q++) {
        m->specs[q].grids = m->spec_grids;
        m->specs[q].grid_count = h->grid_count;
        if (m->options.system == HTC_SIM_GRIDS_MQ && m->specs[q].next == HTC_HIERARCHY_NOWHERE) { /* its limits stay */
            m->specs[q].job_cpus = m->specs[q].job_cpus ? m->specs[q].job_cpus : m->specs[q].cpus;
            m->specs[q].cpus = m->cpus > m->specs[q].cpus ? (uint32_t)m->cpus : m->specs[q].cpus;
        }
    }
}

/* ---- tables ---- */

uint64_t htc__grids_ticks(const grids *m, htc_ns span)
{
    htc_ns tick = m->options.tick_ns;
    return span / tick + (span % tick >= tick - tick / 2);
}

static htc__scale_drawer of_one(double mean, double cv)
{
    htc_scale_law law = { HTC_SCALE_LOGNORMAL, 0, mean * GRIDS_ONE, cv };
    return htc__scale_drawer_of(&law, 1);
}

static void fill_kinds(grids_grid *x, const htc_sim_grids_grid *g, htc_ns tick)
{
    htc__scale_drawer latency = htc__scale_drawer_of(&g->latency, tick), speed = of_one(1, g->speed_cv);
    for (uint64_t i = 0; i < GRIDS_KINDS; i++) {
        uint64_t bits = (2 * i + 1) * (UINT64_MAX / (2 * GRIDS_KINDS));
        x->latency[i] = htc__scale_drawer_ticks(&latency, bits);
        x->slowness[i] = g->speed_cv > 0 ? GRIDS_ONE / (double)(htc__scale_drawer_ticks(&speed, bits) + 1) : 1;
    }
}

static void fill_grid(grids *m, uint32_t i)
{
    htc_sim_grids_grid g = grid_at(&m->options, i);
    htc_ns             tick = m->options.tick_ns;
    htc_scale_law      hazard = { HTC_SCALE_EXPONENTIAL, 0, g.evict_per_h > 0 ? 3600e9 / g.evict_per_h : 0, 0 };
    htc_scale_law      gap = { HTC_SCALE_EXPONENTIAL, 0, (double)g.outage_gap_ns, 0 };
    grids_grid        *x = &m->grid[i];
    x->ticks_per_kflop = 1e9 / (double)tick / g.kflops;
    x->part = g.evict_part;
    x->evicts = g.evict_per_h > 0;
    x->eviction = htc__scale_drawer_of(&hazard, tick);
    x->cpus = x->ours = m->shape.grids[i].cpus;
    x->outage_gap = htc__scale_drawer_of(&gap, tick);
    fill_kinds(x, &g, tick);
    if (g.outage_gap_ns) {
        x->outage = htc__grids_ticks(m, g.outage_ns);
        x->outage += x->outage == 0;
    }
    if (g.free_mean > 0) {
        x->varies = 1;
        x->mean = g.free_mean;
        x->deviation = g.free_mean * g.free_cv;
        x->keep = 0.95122942450071402; /* e^(-1/20) */
        x->push = 0.30848467537082402; /* sqrt(1 - keep^2) */
        x->step = htc__grids_ticks(m, g.free_ns) / 20;
    }
}

static void fill_queue(grids *m, uint32_t i)
{
    const htc_hierarchy_queue *spec = &m->shape.queues[i];
    int                        single = m->options.system == HTC_SIM_GRIDS_FCFSH || m->options.system == HTC_SIM_GRIDS_FCFS;
    htc_sim_grids_queue        in = queue_at(&m->options, single ? lowest(m->options.hierarchy) : i);
    grids_queue               *q = &m->queue[i];
    *q = (grids_queue){ .rate = spec->kflops, .kflops = spec->kflops * (spec->beta > 0 ? spec->beta : 1), .target = in.target_ns, .level = spec->level,
                        .flags = single ? 0 : in.flags, .grids = (uint32_t)spec->grid_count };
    for (uint32_t k = 0; k < HTC_HIERARCHY_GRIDS_MAX; k++)
        q->running[k] = GRIDS_NONE;
    for (size_t k = 0; k < spec->grid_count; k++)
        q->grid[k] = (uint8_t)spec->grids[k];
}

/* Queues that use a grid, by level. */
static void fill_users(grids *m)
{
    for (uint32_t level = 1; level <= m->n_queues; level++)
        for (uint32_t q = 0; q < m->n_queues; q++)
            for (uint32_t k = 0; m->queue[q].level == level && k < m->queue[q].grids; k++) {
                grids_grid *g = &m->grid[m->queue[q].grid[k]];
                g->queue[g->queues++] = (uint16_t)q;
            }
}

static void fill_classes(grids *m)
{
    const htc_sim_grids_options *o = &m->options;
    double                       all = 0, sum = 0;
    for (size_t i = 0; i < 2 * o->n_classes; i++) {
        htc_sim_grids_class k = { 0 };
        (void)htc__options_at(&k, sizeof k, o->classes, i % o->n_classes, sizeof k);
        if (i < o->n_classes) {
            all += k.share;
            continue;
        }
        sum += k.share;
        m->kind[i % o->n_classes] = (grids_class){ .share = sum / all, .min = k.kflop_min, .ratio = k.kflop_min > 0 ? k.kflop_max / k.kflop_min : 1,
                                                   .rho = of_one(k.rho_mean, k.rho_cv), .known = !(k.rho_mean > 0) };
    }
}

static void fill(grids *m)
{
    const htc_sim_grids_options *o = &m->options;
    m->flow = htc__grids_ticks(m, o->flow_ns);
    m->move = htc__grids_ticks(m, o->move_ns);
    m->rest = htc__grids_ticks(m, o->rest_ns);
    m->shelter = htc__grids_ticks(m, o->shelter_ns);
    m->sample = o->sample_ns && !htc__grids_ticks(m, o->sample_ns) ? 1 : htc__grids_ticks(m, o->sample_ns);
    m->gap = htc__scale_drawer_of(&o->stream.gap, o->tick_ns);
    m->burst_gap = htc__scale_drawer_of(&o->stream.burst_gap, o->tick_ns);
    m->arrivals = htc__scale_stream(o->seed, UINT64_MAX);
    m->free_job = m->free_task = GRIDS_NONE;
    m->total = m->left = htc__grids_total(o);
    for (uint32_t g = 0; g < m->n_grids; g++)
        fill_grid(m, g);
    for (uint32_t q = 0; q < m->n_queues; q++) {
        htc_hierarchy_queue_info info = { 0 };
        fill_queue(m, q);
        (void)htc_hierarchy_get_queue(m->hierarchy, q, &info);
        m->limits |= info.policies != 0;
        m->looks_first |= (m->shape.queues[q].flags & (HTC_HIERARCHY_PREDICT | HTC_HIERARCHY_FREEZE)) != 0;
    }
    fill_users(m);
    if (!o->jobs)
        fill_classes(m);
}

/* ---- open and close ---- */

void htc__grids_close(grids *m)
{
    const htc_sim_grids_options *o = &m->options;
    size_t                       q = o->hierarchy->queue_count, g = o->hierarchy->grid_count;
    htc_hierarchy_destroy(m->hierarchy);
    htc__free(&m->env, m->specs, q * sizeof *m->specs);
    htc__free(&m->env, m->spec_grids, g * sizeof *m->spec_grids);
    htc__free(&m->env, m->queue, q * sizeof *m->queue);
    htc__free(&m->env, m->grid, g * sizeof *m->grid);
    htc__free(&m->env, m->kind, o->n_classes * sizeof *m->kind);
    htc__free(&m->env, m->by_queue, q * sizeof *m->by_queue);
    htc__free(&m->env, m->by_class, o->n_classes * sizeof *m->by_class);
    htc__free(&m->env, m->sample_queued, q * sizeof *m->sample_queued);
    htc__free(&m->env, m->sample_busy, q * sizeof *m->sample_busy);
    htc__free(&m->env, m->sample_ours, g * sizeof *m->sample_ours);
}

static int make_room(grids *m)
{
    const htc_sim_grids_options *o = &m->options;
    size_t                       q = o->hierarchy->queue_count, g = o->hierarchy->grid_count;
    m->specs = htc__alloc(&m->env, q * sizeof *m->specs);
    m->spec_grids = htc__alloc(&m->env, g * sizeof *m->spec_grids);
    m->queue = htc__alloc(&m->env, q * sizeof *m->queue);
    m->grid = htc__alloc(&m->env, g * sizeof *m->grid);
    m->kind = htc__alloc(&m->env, o->n_classes * sizeof *m->kind);
    m->by_queue = htc__alloc(&m->env, q * sizeof *m->by_queue);
    m->by_class = htc__alloc(&m->env, o->n_classes * sizeof *m->by_class);
    m->sample_queued = htc__alloc(&m->env, q * sizeof *m->sample_queued);
    m->sample_busy = htc__alloc(&m->env, q * sizeof *m->sample_busy);
    m->sample_ours = htc__alloc(&m->env, g * sizeof *m->sample_ours);
    return m->specs && m->spec_grids && m->queue && m->grid && m->kind && m->by_queue && m->by_class && m->sample_queued && m->sample_busy && m->sample_ours;
}

htc_status htc__grids_open(grids *m, htc_error *error)
{
    m->cpus = htc__grids_cpus(m->options.hierarchy);
    if (!make_room(m))
        return htc__error(error, HTC_ENOMEM, "no memory for the model");
    shape_system(m);
    m->n_queues = (uint32_t)m->shape.queue_count;
    m->n_grids = (uint32_t)m->shape.grid_count;
    htc_status status = htc_hierarchy_create(&m->env, &m->shape, &m->hierarchy);
    if (status != HTC_OK)
        return htc__error(error, status, status == HTC_ENOMEM ? "no memory for the model" : "queues, levels and grids are no hierarchy");
    fill(m);
    return HTC_OK;
}

/* ---- results ---- */

uint64_t htc__grids_held_by_queues(const grids *m)
{
    uint64_t held = 0;
    for (uint32_t q = 0; q < m->n_queues; q++) {
        htc_hierarchy_queue_info info = { 0 };
        (void)htc_hierarchy_get_queue(m->hierarchy, q, &info);
        if (info.busy_ns == HTC_NEVER || held > UINT64_MAX - info.busy_ns)
            return HTC_NEVER;
        held += info.busy_ns;
    }
    return held;
}

double htc__grids_seconds(const grids *m, uint64_t n)
{
    return (double)n * (double)m->options.tick_ns / 1e9;
}

/* The upper end of the bin in which this part of the jobs is. */
static double quantile(const grids *m, const grids_tally *t, double part)
{
    uint64_t wanted = (uint64_t)(part * (double)t->r.completed), seen = 0;
    for (uint32_t b = 0; b < GRIDS_BINS; b++) {
        seen += t->bin[b];
        if (seen > wanted || (seen && seen == t->r.completed)) {
            double x = (8 + (double)(b % 8) + 0.5) / 8;
            for (uint32_t k = 0; k < b / 8; k++)
                x *= 2;
            return x * (double)m->options.tick_ns / 1e9;
        }
    }
    return 0;
}

static void tell_result(const grids *m, const grids_tally *t, int of_queue, htc_sim_grids_result *out)
{
    double n = t->r.completed ? (double)t->r.completed : 1, tick = of_queue ? (double)m->options.tick_ns / 1e9 : 1;
    *out = t->r;
    out->response_50_s = quantile(m, t, 0.5);
    out->response_95_s = quantile(m, t, 0.95);
    double *means[] = { &out->response_s, &out->estimating_s, &out->queued_s, &out->grid_queued_s, &out->running_s, &out->moving_s, &out->flow_s, &out->tasks };
    for (size_t i = 0; i < sizeof means / sizeof *means; i++)
        *means[i] /= n;
    out->cpus /= t->cpus_n ? (double)t->cpus_n : 1;
    out->work_s *= tick;
    out->evicted_s *= tick;
    out->moved_s *= tick;
}

void htc__grids_tell_results(const grids *m, htc_sim_grids_result *queues, htc_sim_grids_result *classes)
{
    for (uint32_t q = 0; queues && q < m->n_queues; q++) {
        htc_hierarchy_queue_info info = { 0 };
        tell_result(m, &m->by_queue[q], 1, &queues[q]);
        (void)htc_hierarchy_get_queue(m->hierarchy, q, &info);
        memcpy(queues[q].out, info.out, sizeof info.out);
    }
    for (size_t k = 0; classes && k < m->options.n_classes; k++)
        tell_result(m, &m->by_class[k], 0, &classes[k]);
    /* of a class, sums of ticks */
    for (size_t k = 0; classes && k < m->options.n_classes; k++) {
        classes[k].work_s *= (double)m->options.tick_ns / 1e9;
        classes[k].evicted_s *= (double)m->options.tick_ns / 1e9;
        classes[k].moved_s *= (double)m->options.tick_ns / 1e9;
    }
}
