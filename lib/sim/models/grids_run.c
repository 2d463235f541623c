/* A run of the model of several grids from its options to its report. */
#include <stdio.h>
#include <string.h>

#include "core/util.h"
#include "sim/models/checked.h"
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

static uint64_t total_of(const htc_sim_grids_options *o)
{
    return o->jobs ? o->n_jobs : o->stream.jobs;
}

static uint64_t cpus_of(const htc_hierarchy_options *h)
{
    uint64_t cpus = 0;
    for (size_t i = 0; i < h->grid_count; i++)
        cpus += h->grids[i].cpus;
    return cpus;
}

static htc_status known(const htc_sim_grids_options *in, htc_sim_grids_options *o)
{
    *o = (htc_sim_grids_options){ .size = sizeof *o };
    htc_status                   status = in ? htc__options_copy(o, sizeof *o, in, in->size, offsetof(htc_sim_grids_options, active_max)) : HTC_EINVAL;
    const htc_hierarchy_options *h = o->hierarchy;
    o->tick_ns = o->tick_ns ? o->tick_ns : HTC_MS;
    o->task_attempts = o->task_attempts ? o->task_attempts : ATTEMPTS_DEFAULT;
    if (status == HTC_OK && (o->reserved || o->reserved2 || o->system > HTC_SIM_GRIDS_FCFS || !h || h->size < sizeof *h || !h->grids || !h->queues || h->grid_count < 1 ||
                             h->grid_count > HTC_HIERARCHY_GRIDS_MAX || h->queue_count < 1 || h->queue_count > HTC_HIERARCHY_QUEUES_MAX || !o->grids || !o->queues ||
                             !o->classes || o->n_classes < 1 || o->n_classes > HTC_SIM_GRIDS_CLASSES_MAX || total_of(o) < 1 || total_of(o) > HTC_SIM_GRIDS_JOBS_MAX ||
                             o->active_max > HTC_SIM_GRIDS_ACTIVE_MAX || cpus_of(h) > HTC_SIM_GRIDS_CPUS_MAX))
        status = HTC_EINVAL;
    if (status == HTC_OK && o->active_max == 0)
        o->active_max = total_of(o) < ACTIVE_DEFAULT ? total_of(o) : ACTIVE_DEFAULT;
    return status;
}

/* Places of tasks: one a CPU, and as many again for those that are taken from their CPUs before their time. */
static uint64_t places_of(const htc_sim_grids_options *o)
{
    return 4 * cpus_of(o->hierarchy) + 1024;
}

static uint64_t tables(const htc_sim_grids_options *o)
{
    size_t q = o->hierarchy->queue_count, g = o->hierarchy->grid_count;
    return places_of(o) * sizeof(grids_task) + o->active_max * (sizeof(grids_job) + sizeof(htc_hierarchy_decision)) +
           q * (sizeof(grids_queue) + sizeof(htc_hierarchy_queue) + sizeof(grids_tally) + 2 * sizeof(uint64_t)) +
           g * (sizeof(grids_grid) + sizeof(uint32_t) + sizeof(uint64_t)) + o->n_classes * (sizeof(grids_class) + sizeof(grids_tally));
}

static htc_scale_options engine_of(const htc_sim_grids_options *o, grids *m)
{
    uint64_t ids = places_of(o) + o->active_max + GRIDS_ID_GRID + 2 * o->hierarchy->grid_count;
    return (htc_scale_options){ .size = sizeof(htc_scale_options), .seed = o->seed, .ids = ids, .events_max = ids + 2 * HTC_HIERARCHY_QUEUES_MAX + 4, .tick_ns = o->tick_ns,
                                .tasks = total_of(o), .event = htc__grids_event, .ctx = m, .host = o->host };
}

htc_status htc_sim_grids_memory(const htc_sim_grids_options *options, uint64_t *bytes)
{
    htc_sim_grids_options o;
    htc_status            status = bytes ? known(options, &o) : HTC_EINVAL;
    uint64_t              engine = 0;
    if (status == HTC_OK) {
        htc_scale_options e = engine_of(&o, NULL);
        status = htc_scale_memory(&e, &engine);
    }
    if (status == HTC_OK) /* the hierarchy has some 350 bytes a job and 88 a task */
        *bytes = sizeof(grids) + tables(&o) + engine + 350 * o.active_max + 88 * cpus_of(o.hierarchy);
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

/* ---- a run ---- */

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
        x->outage = htc_scale_ticks(m->scale, g.outage_ns);
        x->outage += x->outage == 0;
    }
    if (g.free_mean > 0) {
        x->varies = 1;
        x->mean = g.free_mean;
        x->deviation = g.free_mean * g.free_cv;
        x->keep = 0.95122942450071402; /* e^(-1/20) */
        x->push = 0.30848467537082402; /* sqrt(1 - keep^2) */
        x->step = htc_scale_ticks(m->scale, g.free_ns) / 20;
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
    m->flow = htc_scale_ticks(m->scale, o->flow_ns);
    m->move = htc_scale_ticks(m->scale, o->move_ns);
    m->rest = htc_scale_ticks(m->scale, o->rest_ns);
    m->shelter = htc_scale_ticks(m->scale, o->shelter_ns);
    m->sample = o->sample_ns && !htc_scale_ticks(m->scale, o->sample_ns) ? 1 : htc_scale_ticks(m->scale, o->sample_ns);
    m->gap = htc__scale_drawer_of(&o->stream.gap, o->tick_ns);
    m->burst_gap = htc__scale_drawer_of(&o->stream.burst_gap, o->tick_ns);
    m->arrivals = htc__scale_stream(o->seed, UINT64_MAX);
    m->free_job = m->free_task = GRIDS_NONE;
    m->total = m->left = total_of(o);
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

static void close_model(grids *m)
{
    const htc_sim_grids_options *o = &m->options;
    size_t                       q = o->hierarchy->queue_count, g = o->hierarchy->grid_count;
    htc_scale_destroy(m->scale);
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
    htc__free(&m->env, m->job, o->active_max * sizeof *m->job);
    htc__free(&m->env, m->task, m->tasks_max * sizeof *m->task);
    htc__free(&m->env, m->orders, o->active_max * sizeof *m->orders);
}

static htc_status open_model(grids *m, htc_error *error)
{
    const htc_sim_grids_options *o = &m->options;
    size_t                       q = o->hierarchy->queue_count, g = o->hierarchy->grid_count;
    htc_scale_options            e = engine_of(o, m);
    m->tasks_max = places_of(o);
    m->cpus = cpus_of(o->hierarchy);
    htc_status status = htc_scale_create(&m->env, &e, &m->scale, error);
    if (status != HTC_OK)
        return status;
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
    m->job = htc__alloc_raw(&m->env, o->active_max * sizeof *m->job);
    m->task = htc__alloc_raw(&m->env, m->tasks_max * sizeof *m->task);
    m->orders = htc__alloc_raw(&m->env, o->active_max * sizeof *m->orders);
    if (!m->specs || !m->spec_grids || !m->queue || !m->grid || !m->kind || !m->by_queue || !m->by_class || !m->sample_queued || !m->sample_busy || !m->sample_ours || !m->job ||
        !m->task || !m->orders)
        return htc__error(error, HTC_ENOMEM, "no memory for the model");
    shape_system(m);
    m->n_queues = (uint32_t)m->shape.queue_count;
    m->n_grids = (uint32_t)g;
    status = htc_hierarchy_create(&m->env, &m->shape, &m->hierarchy);
    if (status != HTC_OK)
        return htc__error(error, status, status == HTC_ENOMEM ? "no memory for the model" : "queues, levels and grids are no hierarchy");
    return HTC_OK;
}

/* ---- what is told ---- */

static double seconds(const grids *m, uint64_t n)
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

static void tell_results(const grids *m, htc_sim_grids_result *queues, htc_sim_grids_result *classes)
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

/* CPU time as the hierarchy has counted it for itself; HTC_NEVER: more than it counts. */
static uint64_t held_by_queues(const grids *m)
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

static void check(const grids *m, htc_sim_grids_report *r)
{
    uint64_t busy = 0, held = held_by_queues(m), span = (uint64_t)r->scale.makespan / m->options.tick_ns, lost = m->evicted + m->moved;
    for (uint32_t g = 0; g < m->n_grids; g++)
        busy += m->grid[g].busy;
    if (r->interrupted || r->scale.wrong[0])
        return;
    if (m->left || m->active || m->completed + m->rejected + m->terminated + m->failed != m->total)
        snprintf(r->scale.wrong, sizeof r->scale.wrong, "of %llu jobs %llu were completed, %llu rejected, %llu terminated, and %llu failed", (unsigned long long)m->total,
                 (unsigned long long)m->completed, (unsigned long long)m->rejected, (unsigned long long)m->terminated, (unsigned long long)m->failed);
    else if (busy)
        snprintf(r->scale.wrong, sizeof r->scale.wrong, "%llu CPUs are busy in the end", (unsigned long long)busy);
    else if (m->ends - m->begins != m->work + lost)
        snprintf(r->scale.wrong, sizeof r->scale.wrong, "CPUs were busy for %llu ticks, of which tasks that were done had %llu and lost ones %llu",
                 (unsigned long long)(m->ends - m->begins), (unsigned long long)m->work, (unsigned long long)lost);
    else if (held != HTC_NEVER && held != (m->held + m->carried) * m->options.tick_ns)
        snprintf(r->scale.wrong, sizeof r->scale.wrong, "tasks held CPUs for %llu ticks, and the hierarchy counts %llu ns", (unsigned long long)m->held, (unsigned long long)held);
    else if (!(m->undone <= 1e-6 * (double)m->total))
        snprintf(r->scale.wrong, sizeof r->scale.wrong, "of the completed jobs %g of one was not done, or done twice", m->undone);
    else if (span < m->longest)
        snprintf(r->scale.wrong, sizeof r->scale.wrong, "a makespan of %llu ticks, where one task has %llu", (unsigned long long)span, (unsigned long long)m->longest);
    else if (span < m->held / m->cpus)
        snprintf(r->scale.wrong, sizeof r->scale.wrong, "a makespan of %llu ticks, where %llu CPUs were held for %llu", (unsigned long long)span, (unsigned long long)m->cpus,
                 (unsigned long long)m->held);
}

static void tell(const grids *m, htc_sim_grids_report *r)
{
    htc_scale_report_get(m->scale, &r->scale);
    (void)htc_sim_grids_memory(&m->options, &r->memory);
    r->n_queues = m->n_queues;
    r->completed = m->completed;
    r->rejected = m->rejected;
    r->terminated = m->terminated;
    r->failed = m->failed;
    r->moves = m->moves;
    r->tasks = m->handed_in;
    r->evicted = m->evictions;
    r->active_most = m->active_most;
    r->work_s = seconds(m, m->work);
    r->evicted_s = seconds(m, m->evicted);
    r->moved_s = seconds(m, m->moved);
    uint64_t running = 0; /* tasks that have not ended: if the run was stopped */
    for (uint32_t q = 0; q < m->n_queues; q++)
        running += m->queue[q].busy;
    r->held_s = seconds(m, m->held + running * htc__scale_time(m->scale));
    r->busy_s = r->work_s + r->evicted_s + r->moved_s;
    check(m, r);
}

htc_status htc_sim_grids_run(const htc_env *env, const htc_sim_grids_options *options, htc_sim_grids_report *report, htc_sim_grids_result *queues,
                             htc_sim_grids_result *classes, htc_error *error)
{
    htc_sim_grids_report r = { .size = sizeof r, .scale.size = sizeof r.scale };
    grids                m = { 0 };
    uint64_t             bytes = 0;
    htc_status           status = report && report->size >= offsetof(htc_sim_grids_report, scale) ? known(options, &m.options) : HTC_EINVAL;
    if (status != HTC_OK)
        return htc__error(error, status, "the options of the run are out of range");
    status = check_grids(&m.options, error);
    if (status == HTC_OK)
        status = check_jobs(&m.options, error);
    if (status != HTC_OK)
        return status;
    (void)htc_sim_grids_memory(&m.options, &bytes);
    if (m.options.host && m.options.host->memory_max && bytes > m.options.host->memory_max)
        return htc__error(error, HTC_ETOOBIG, "%llu CPU%s and %llu job%s at once need %llu MiB, and %llu MiB are allowed", (unsigned long long)cpus_of(m.options.hierarchy),
                          htc__plural(cpus_of(m.options.hierarchy)), (unsigned long long)m.options.active_max, htc__plural(m.options.active_max), (unsigned long long)(bytes >> 20), (unsigned long long)(m.options.host->memory_max >> 20));
    if (env)
        m.env = *env;
    status = open_model(&m, error);
    if (status == HTC_OK) {
        fill(&m);
        m.print = htc__grids_print(&m);
        if (!m.options.resume)
            htc__grids_begin(&m);
        else if ((status = htc__grids_tape(&m, m.options.resume)) != HTC_OK)
            htc__checked_error(m.scale, error, status);
    }
    if (status == HTC_OK) {
        status = htc_scale_run(m.scale);
        r.interrupted = status == HTC_AGAIN;
        if (r.interrupted && m.options.checkpoint && (status = htc__grids_tape(&m, m.options.checkpoint)) != HTC_OK)
            htc__error(error, status, "the checkpoint could not be written");
        else if (status == HTC_EFULL)
            htc__error(error, status, m.active >= m.options.active_max ? "%llu jobs are in the system, and no more may be: is it overloaded? Else raise active_max" :
                                                                        "there are %llu jobs, and too many tasks were taken from their CPUs before their time",
                       (unsigned long long)m.active);
        else if (status < 0 && status != HTC_AGAIN)
            htc__error(error, status, "the run cannot go on: %s", status == HTC_ETOOBIG ? "it takes more ticks than there are; make them longer" : htc_strerror(status));
        status = status == HTC_AGAIN ? HTC_OK : status;
    }
    if (status == HTC_OK) {
        tell(&m, &r);
        tell_results(&m, queues, classes);
        status = htc__options_give(report, &r, sizeof r, offsetof(htc_sim_grids_report, scale));
    }
    close_model(&m);
    return status;
}
