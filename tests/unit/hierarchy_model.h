/* A naive hierarchy and a driver that plays random operations on it and on the real one. Jobs are a list in a plain array, the order
 * of a queue is a number each job draws when it is appended, all times are added up second by second of each queue's clock, and every
 * figure is computed anew from the paper's formulas whenever it is asked for. Both the unit test and the fuzzer drive it. */
#ifndef HTC_TESTS_HIERARCHY_MODEL_H
#define HTC_TESTS_HIERARCHY_MODEL_H

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "htcsched/hierarchy.h"

#define MODEL_QUEUES 5
#define MODEL_GRIDS 4
#define MODEL_JOBS 24
#define MODEL_TASKS 6

/* Where choices come from: a number below n. */
typedef struct model_source {
    uint64_t (*below)(void *ctx, uint64_t n);
    void *ctx;
} model_source;

typedef struct model_task {
    int      runs;
    uint32_t grid;
    double   kflop;
    htc_ns   started;
    uint64_t since; /* order of start */
} model_task;

typedef struct model_job {
    int        used, waits, has_started, known;
    uint64_t   id, bytes, place; /* place: order in the queue */
    uint32_t   state, queue, to, reason, memory_mb, split, tasks, tasks_first, moves, returned;
    double     left, pledged;
    htc_ns     arrived, started, until, hold_until;
    model_task task[MODEL_TASKS];
} model_job;

typedef struct model {
    htc_hierarchy        *h;
    model_source          source;
    const char           *wrong; /* what did not agree */
    htc_hierarchy_options options;
    htc_hierarchy_grid    grids[MODEL_GRIDS];
    htc_hierarchy_queue   queues[MODEL_QUEUES];
    uint32_t              lists[MODEL_QUEUES][MODEL_GRIDS];
    uint32_t              policies[MODEL_QUEUES];
    double                load[MODEL_QUEUES];
    htc_ns                clock[MODEL_QUEUES];
    double                avail[MODEL_GRIDS], latency[MODEL_GRIDS];
    int                   sampled[MODEL_GRIDS], unreachable[MODEL_GRIDS];
    model_job             jobs[MODEL_JOBS];
    htc_ns                now;
    uint64_t              next_id, next_place;
} model;

#define MODEL_SAYS(m, x)                                                                                               \
    do {                                                                                                               \
        if (!(x) && !(m)->wrong)                                                                                       \
            (m)->wrong = #x;                                                                                           \
    } while (0)

static inline uint64_t model_below(model *m, uint64_t n)
{
    return m->source.below(m->source.ctx, n);
}

/* ---- the formulas ---- */

static inline int model_suits(const model *m, uint32_t grid, const model_job *j)
{
    return m->grids[grid].memory_mb >= j->memory_mb;
}

static inline uint32_t model_cpus_for(const model *m, uint32_t queue, const model_job *j)
{
    const htc_hierarchy_queue *q = &m->queues[queue];
    uint64_t                   cpus = 0;
    uint32_t                   n = q->job_cpus ? q->job_cpus : q->cpus;
    int                        all = 1;
    for (size_t i = 0; i < q->grid_count; i++) {
        if (model_suits(m, q->grids[i], j))
            cpus += m->grids[q->grids[i]].cpus;
        else
            all = 0;
    }
    return all || cpus > n ? n : (uint32_t)cpus;
}

static inline uint32_t model_running(const model *m, const model_job *j)
{
    uint32_t n = 0;
    (void)m;
    for (int i = 0; i < MODEL_TASKS; i++)
        n += j->task[i].runs != 0;
    return n;
}

static inline double model_held(const model *m, uint32_t queue)
{
    double n = 0;
    for (int i = 0; i < MODEL_JOBS; i++)
        if (m->jobs[i].used && m->jobs[i].queue == queue)
            n += model_running(m, &m->jobs[i]);
    return n;
}

static inline uint32_t model_held_on(const model *m, uint32_t queue, uint32_t grid)
{
    uint32_t n = 0;
    for (int i = 0; i < MODEL_JOBS; i++)
        for (int k = 0; k < MODEL_TASKS; k++)
            n += m->jobs[i].used && m->jobs[i].queue == queue && m->jobs[i].task[k].runs && m->jobs[i].task[k].grid == grid;
    return n;
}

static inline double model_phi(const model *m, uint32_t queue, htc_ns t, uint32_t cpus)
{
    const htc_hierarchy_queue *q = &m->queues[queue];
    double                     n = cpus, now = model_held(m, queue), beta = q->beta > 0 ? q->beta : 1;
    for (size_t i = 0; i < q->grid_count; i++)
        now += m->avail[q->grids[i]];
    if (now < 1)
        now = 1;
    if ((q->flags & HTC_HIERARCHY_PREDICT) && now < n)
        n = now;
    return (double)t / 1e9 * (n * (q->kflops * beta));
}

static inline double model_ce(const model *m, uint32_t queue, const model_job *j)
{
    return model_phi(m, queue, m->queues[queue].te_ns, model_cpus_for(m, queue, j));
}

/* Running tasks less their progress, the latest first as they are listed. */
static inline double model_remaining(const model *m, const model_job *j)
{
    const htc_hierarchy_queue *q = &m->queues[j->queue];
    double                     left = j->left, beta = q->beta > 0 ? q->beta : 1;
    uint64_t                   before = UINT64_MAX;
    for (;;) {
        const model_task *latest = NULL;
        for (int i = 0; i < MODEL_TASKS; i++)
            if (j->task[i].runs && j->task[i].since < before && (!latest || j->task[i].since > latest->since))
                latest = &j->task[i];
        if (!latest)
            return left > 0 ? left : 0;
        before = latest->since;
        double done = (double)(m->now - latest->started) / 1e9 * (1 * (q->kflops * beta)), most = 0.95 * latest->kflop;
        left -= done < most ? done : most;
    }
}

/* The next job of a queue behind a place; places begin at 1. */
static inline model_job *model_behind(model *m, uint32_t queue, uint64_t place)
{
    model_job *next = NULL;
    for (int i = 0; i < MODEL_JOBS; i++) {
        model_job *j = &m->jobs[i];
        if (j->used && j->queue == queue && !j->waits && j->place > place && (!next || j->place < next->place))
            next = j;
    }
    return next;
}

static inline double model_ect(const model *m, uint32_t queue, const model_job *j, double before, double left)
{
    const htc_hierarchy_queue *q = &m->queues[queue];
    double cpus = model_held(m, queue), latency = -1, first = -1, beta = q->beta > 0 ? q->beta : 1;
    for (size_t i = 0; i < q->grid_count; i++)
        if (model_suits(m, q->grids[i], j)) {
            cpus += m->avail[q->grids[i]];
            first = first < 0 ? m->latency[q->grids[i]] : first;
            if (latency < 0 && m->avail[q->grids[i]] >= 1)
                latency = m->latency[q->grids[i]];
        }
    cpus = cpus < q->cpus ? cpus : q->cpus;
    if (j->split && j->tasks < cpus)
        cpus = j->tasks;
    latency = latency < 0 ? first : latency;
    return (latency > 0 ? latency : 0) + (before + left) / ((cpus > 1 ? cpus : 1) * (q->kflops * beta));
}

static inline double model_ahead(model *m, const model_job *j)
{
    double ahead = 0;
    for (model_job *k = model_behind(m, j->queue, 0); k && k != j; k = model_behind(m, j->queue, k->place))
        if (k->state != HTC_HIERARCHY_LEAVING)
            ahead += model_remaining(m, k);
    return ahead;
}

/* ---- what happens ---- */

static inline int model_on(const model *m, uint32_t queue, uint32_t reason)
{
    return (m->policies[queue] >> reason) & 1;
}

static inline uint32_t model_state(const model_job *j)
{
    return !j->waits ? (j->has_started ? HTC_HIERARCHY_RUNNING : HTC_HIERARCHY_QUEUED) : j->until ? HTC_HIERARCHY_ESTIMATING : 0;
}

static inline htc_hierarchy_decision model_decision(const model *m, const model_job *j, uint32_t action)
{
    int leaves = j->state == HTC_HIERARCHY_LEAVING, estimates = action == HTC_HIERARCHY_ESTIMATE;
    return (htc_hierarchy_decision){ .id = j->id,
                                     .action = action,
                                     .reason = leaves ? j->reason : 0,
                                     .from = j->queue,
                                     .to = leaves ? j->to : HTC_HIERARCHY_NOWHERE,
                                     .kflop = j->left,
                                     .limit = model_ce(m, j->queue, j),
                                     .until = estimates ? j->until : 0,
                                     .cpus = estimates ? (m->queues[j->queue].level == 1 ? 1 : model_cpus_for(m, j->queue, j)) : 0,
                                     .state = model_state(j) };
}

static inline htc_hierarchy_decision model_leave(model *m, model_job *j, uint32_t reason, uint32_t to)
{
    j->state = HTC_HIERARCHY_LEAVING;
    j->reason = reason;
    j->to = to;
    return model_decision(m, j, to == HTC_HIERARCHY_NOWHERE ? HTC_HIERARCHY_TERMINATE : HTC_HIERARCHY_MIGRATE);
}

static inline uint32_t model_below_of(const model *m, const model_job *j)
{
    uint32_t found = HTC_HIERARCHY_NOWHERE;
    for (uint32_t to = m->queues[j->queue].next; to != HTC_HIERARCHY_NOWHERE; to = m->queues[to].next) {
        if (model_cpus_for(m, to, j) == 0)
            continue;
        found = to;
        if (m->options.migrate == HTC_HIERARCHY_NEXT || j->left == 0 || j->left <= model_ce(m, to, j))
            return to;
    }
    return found;
}

static inline htc_hierarchy_decision model_append(model *m, model_job *j)
{
    htc_hierarchy_decision d = model_decision(m, j, HTC_HIERARCHY_QUEUE);
    j->waits = 0;
    j->has_started = 0;
    j->state = HTC_HIERARCHY_QUEUED;
    j->place = ++m->next_place;
    m->load[j->queue] += j->left;
    return d;
}

static inline htc_hierarchy_decision model_refuse(model *m, model_job *j, uint32_t reason)
{
    uint32_t to = model_below_of(m, j);
    if (reason == HTC_HIERARCHY_OVERLOAD && (m->queues[j->queue].flags & HTC_HIERARCHY_REJECTS))
        to = HTC_HIERARCHY_NOWHERE;
    htc_hierarchy_decision d = model_leave(m, j, reason, to);
    if (to == HTC_HIERARCHY_NOWHERE) {
        model_job plain = { 0 };
        d.action = HTC_HIERARCHY_REJECT;
        d.limit = 0;
        for (uint32_t i = 0; i < m->options.queue_count; i++)
            if (model_ce(m, i, &plain) > d.limit)
                d.limit = model_ce(m, i, &plain);
        j->used = 0;
    }
    return d;
}

static inline int model_overloaded(const model *m, uint32_t queue)
{
    return model_on(m, queue, HTC_HIERARCHY_OVERLOAD) &&
           m->load[queue] > model_phi(m, queue, m->queues[queue].tq_ns, m->queues[queue].cpus);
}

static inline int model_fits(const model *m, const model_job *j)
{
    return (j->known || (j->split && j->tasks == 0)) && j->left <= model_ce(m, j->queue, j);
}

/* Figure 1 up to the estimation. */
static inline htc_hierarchy_decision model_process(model *m, model_job *j)
{
    const htc_hierarchy_queue *q = &m->queues[j->queue];
    j->state = HTC_HIERARCHY_QUEUED;
    if (m->options.mode == HTC_HIERARCHY_SIMPLE)
        return model_append(m, j);
    if (model_overloaded(m, j->queue))
        return model_refuse(m, j, HTC_HIERARCHY_OVERLOAD);
    if (model_fits(m, j))
        return model_append(m, j);
    htc_ns budget = (htc_ns)((q->alpha > 0 ? q->alpha : 0.06) * (double)q->te_ns);
    j->state = HTC_HIERARCHY_ESTIMATING;
    j->until = 0;
    htc_hierarchy_decision d = model_decision(m, j, HTC_HIERARCHY_ESTIMATE);
    d.until = j->until = m->now + (budget ? budget : 1);
    return d;
}

static inline htc_hierarchy_decision model_conclude(model *m, model_job *j)
{
    if (model_fits(m, j) || !model_on(m, j->queue, HTC_HIERARCHY_MISMATCH))
        return model_append(m, j);
    return model_refuse(m, j, HTC_HIERARCHY_MISMATCH);
}

/* Figure 2. */
static inline size_t model_enforce(model *m, uint32_t queue, htc_hierarchy_decision *out)
{
    const htc_hierarchy_queue *q = &m->queues[queue];
    double                     load = 0, cq = model_phi(m, queue, q->tq_ns, q->cpus);
    size_t                     n = 0, here = 0;
    for (model_job *j = model_behind(m, queue, 0); j; j = model_behind(m, queue, j->place))
        here += j->state != HTC_HIERARCHY_LEAVING;
    for (model_job *j = model_behind(m, queue, 0); j; j = model_behind(m, queue, j->place)) {
        if (j->state == HTC_HIERARCHY_LEAVING)
            continue;
        htc_ns   tq = m->clock[queue] - j->arrived, te = j->has_started ? m->clock[queue] - j->started : 0;
        double   c = model_remaining(m, j);
        uint32_t reason = 0, cpus = model_cpus_for(m, queue, j), alone = here == 1;
        int      delayed = alone && m->options.sole == HTC_HIERARCHY_SOLE_ALL;
        if ((tq > q->tq_ns || te > q->te_ns) && model_on(m, queue, HTC_HIERARCHY_OVERDUE)) {
            if (alone && m->options.sole != HTC_HIERARCHY_SOLE_NONE)
                delayed = 1;
            else
                reason = HTC_HIERARCHY_OVERDUE;
        }
        if (!reason && !delayed && model_on(m, queue, HTC_HIERARCHY_JOB_POTENTIAL) &&
            (c > model_phi(m, queue, te < q->te_ns ? q->te_ns - te : 0, cpus) ||
             c > model_phi(m, queue, tq < q->tq_ns ? q->tq_ns - tq : 0, cpus)))
            reason = HTC_HIERARCHY_JOB_POTENTIAL;
        if (!reason && !delayed && model_on(m, queue, HTC_HIERARCHY_QUEUE_POTENTIAL) && load + c > cq)
            reason = HTC_HIERARCHY_QUEUE_POTENTIAL;
        if (reason)
            out[n++] = model_leave(m, j, reason, model_below_of(m, j));
        else
            load += c;
    }
    m->load[queue] = load;
    return n;
}

static inline double model_load_of(const model *m, uint32_t queue)
{
    double sum = 0;
    for (int i = 0; i < MODEL_JOBS; i++)
        if (m->jobs[i].used && m->jobs[i].state == HTC_HIERARCHY_LEAVING && m->jobs[i].reason == HTC_HIERARCHY_SHARE &&
            m->jobs[i].to == queue)
            sum += m->jobs[i].pledged;
    return m->load[queue] + sum;
}

/* Section 3.3, in whole KFlop so that sums do not depend on their order. */
static inline size_t model_share(model *m, uint32_t queue, htc_hierarchy_decision *out)
{
    size_t n = 0;
    for (model_job *j = model_behind(m, queue, 0); j; j = model_behind(m, queue, j->place)) {
        double   best = 0, left = model_remaining(m, j), home = model_ect(m, queue, j, model_ahead(m, j), left);
        uint32_t to = HTC_HIERARCHY_NOWHERE, pending = j->tasks - model_running(m, j);
        if (j->state == HTC_HIERARCHY_LEAVING || left == 0 || j->moves >= 2 || m->now < j->hold_until ||
            (j->split && (pending < 4 || pending < 0.1 * j->tasks_first)))
            continue;
        for (uint32_t i = 0; i < m->options.queue_count; i++) {
            if (i == queue || m->queues[i].level != m->queues[queue].level || model_cpus_for(m, i, j) == 0 ||
                j->left > model_ce(m, i, j))
                continue;
            double there = model_ect(m, i, j, model_load_of(m, i), j->left);
            if (to == HTC_HIERARCHY_NOWHERE || there < best) {
                best = there;
                to = i;
            }
        }
        if (to != HTC_HIERARCHY_NOWHERE && home > pow(1 + 0.2, j->moves + 1) * best && home - best >= 30) {
            out[n++] = model_leave(m, j, HTC_HIERARCHY_SHARE, to);
            j->pledged = j->left;
        }
    }
    return n;
}

static inline void model_stay(model *m, model_job *j)
{
    if (j->reason == HTC_HIERARCHY_SHARE) {
        j->returned = 1;
        j->hold_until = m->now + 300 * HTC_SECOND;
    }
    j->pledged = 0;
    j->state = HTC_HIERARCHY_QUEUED;
    if (j->waits)
        model_append(m, j);
}

static inline htc_hierarchy_decision model_moved(model *m, model_job *j)
{
    uint32_t to = j->to, reason = j->reason, from_level = m->queues[j->queue].level, to_level = m->queues[to].level;
    int      stays = to_level < from_level || model_cpus_for(m, to, j) == 0;
    if (!stays && to_level == from_level && reason == HTC_HIERARCHY_SHARE) {
        double before = model_load_of(m, to) - j->pledged;
        stays = model_overloaded(m, to) ||
                (!j->returned && model_ect(m, to, j, before, j->left) >= model_ect(m, j->queue, j, model_ahead(m, j), model_remaining(m, j)));
    }
    if (stays) {
        model_stay(m, j);
        htc_hierarchy_decision d = model_decision(m, j, HTC_HIERARCHY_STAY);
        d.reason = reason;
        return d;
    }
    memset(j->task, 0, sizeof j->task);
    j->moves = to_level == from_level ? j->moves + 1 : 0;
    j->returned = to_level == from_level ? j->returned : 0;
    j->queue = to;
    j->pledged = 0;
    j->waits = 1;
    j->until = 0;
    j->arrived = m->clock[to];
    return model_process(m, j);
}

/* ---- the world ---- */

/* Small round numbers: limits are met exactly, and sums are exact. */
static inline void model_draw(model *m, size_t queues, size_t grids)
{
    uint32_t levels = (uint32_t)model_below(m, queues < 3 ? queues : 3) + 1;
    for (uint32_t i = 0; i < grids; i++) {
        m->grids[i] = (htc_hierarchy_grid){ .cpus = (uint32_t)model_below(m, 8) + 1,
                                            .memory_mb = (uint32_t)model_below(m, 3) * 512,
                                            .latency_ns = model_below(m, 4) * 32 * HTC_SECOND };
        m->grids[i].tasks_max = m->grids[i].cpus % 4;
    }
    for (uint32_t i = 0; i < queues; i++) {
        htc_hierarchy_queue *q = &m->queues[i];
        /* The first ones make sure that no level is empty. */
        uint32_t level = i < levels ? i + 1 : (uint32_t)model_below(m, levels) + 1;
        *q = (htc_hierarchy_queue){ .level = level,
                                    .next = level < levels ? level : HTC_HIERARCHY_NOWHERE,
                                    .grids = m->lists[i],
                                    .grid_count = model_below(m, grids) + 1,
                                    .te_ns = (model_below(m, 64) + 1) * HTC_SECOND,
                                    .cpus = (uint32_t)model_below(m, 8) + 1,
                                    .kflops = (double)(1 << model_below(m, 3)),
                                    .beta = model_below(m, 2) ? 0.5 : 0,
                                    .alpha = model_below(m, 2) ? 0.25 : 0,
                                    .flags = (uint32_t)model_below(m, 8) };
        uint32_t first = (uint32_t)model_below(m, grids);
        for (size_t k = 0; k < q->grid_count; k++)
            m->lists[i][k] = (uint32_t)((first + k) % grids);
        q->tq_ns = q->te_ns * (model_below(m, 2) + 1);
        q->job_cpus = model_below(m, 2) ? (uint32_t)model_below(m, q->cpus + 1) : 0;
        m->policies[i] = level == levels ? 14 : 62;
        if (model_below(m, 2)) {
            m->policies[i] = (uint32_t)model_below(m, 32) << 1;
            q->policies = m->policies[i] | HTC_HIERARCHY_NO_POLICY;
        }
        if (m->options.mode == HTC_HIERARCHY_SIMPLE)
            m->policies[i] &= 1u << HTC_HIERARCHY_OVERDUE;
    }
}

static inline void model_open(model *m, model_source source)
{
    memset(m, 0, sizeof *m);
    m->source = source;
    m->options = (htc_hierarchy_options){ .size = sizeof m->options,
                                          .grids = m->grids,
                                          .grid_count = model_below(m, MODEL_GRIDS) + 1,
                                          .queues = m->queues,
                                          .queue_count = model_below(m, MODEL_QUEUES) + 1,
                                          .jobs_max = MODEL_JOBS,
                                          .mode = model_below(m, 8) == 0,
                                          .migrate = model_below(m, 4) == 0,
                                          .sole = (uint32_t)model_below(m, 3) };
    model_draw(m, m->options.queue_count, m->options.grid_count);
    for (size_t i = 0; i < m->options.grid_count; i++) {
        m->avail[i] = m->grids[i].cpus;
        m->latency[i] = (double)m->grids[i].latency_ns / 1e9;
    }
    MODEL_SAYS(m, htc_hierarchy_create(NULL, &m->options, &m->h) == HTC_OK);
}

static inline void model_close(model *m)
{
    htc_hierarchy_destroy(m->h);
}

static inline int model_frozen(const model *m, uint32_t queue)
{
    if (!(m->queues[queue].flags & HTC_HIERARCHY_FREEZE))
        return 0;
    for (uint32_t i = 0; i < m->options.queue_count; i++)
        for (size_t k = 0; m->queues[i].level == m->queues[queue].level && k < m->queues[i].grid_count; k++)
            if (!m->unreachable[m->queues[i].grids[k]])
                return 0;
    return 1;
}

static inline void model_advance(model *m, htc_ns by)
{
    for (uint32_t i = 0; i < m->options.queue_count; i++)
        if (!model_frozen(m, i))
            m->clock[i] += by;
    m->now += by;
}

static inline model_job *model_any(model *m)
{
    model_job *used[MODEL_JOBS];
    size_t     n = 0;
    for (int i = 0; i < MODEL_JOBS; i++)
        if (m->jobs[i].used)
            used[n++] = &m->jobs[i];
    return n ? used[model_below(m, n)] : NULL;
}

static inline int model_same(const htc_hierarchy_decision *a, const htc_hierarchy_decision *b)
{
    return a->id == b->id && a->action == b->action && a->reason == b->reason && a->from == b->from && a->to == b->to &&
           a->kflop == b->kflop && a->limit == b->limit && a->until == b->until && a->cpus == b->cpus && a->state == b->state;
}

/* Never upwards, whatever the reason. */
static inline void model_downwards(model *m, const htc_hierarchy_decision *d)
{
    if (d->action == HTC_HIERARCHY_MIGRATE && d->reason == HTC_HIERARCHY_SHARE)
        MODEL_SAYS(m, m->queues[d->to].level == m->queues[d->from].level);
    else if (d->action == HTC_HIERARCHY_MIGRATE && d->reason != HTC_HIERARCHY_SENT)
        MODEL_SAYS(m, m->queues[d->to].level > m->queues[d->from].level);
}

static inline void model_arrives(model *m)
{
    uint32_t          queue = (uint32_t)model_below(m, m->options.queue_count);
    model_job        *j = NULL, fresh = { .used = 1,
                                          .waits = 1,
                                          .id = ++m->next_id,
                                          .queue = queue,
                                          .left = (double)model_below(m, 4) * (double)model_below(m, 512),
                                          .memory_mb = model_below(m, 3) ? 0 : (uint32_t)model_below(m, 1200),
                                          .split = (uint32_t)model_below(m, 2),
                                          .arrived = m->clock[queue] };
    htc_ns            tq = (model_below(m, 64) + 1) * HTC_SECOND, te = model_below(m, tq / HTC_SECOND) * HTC_SECOND;
    int               restored = model_below(m, 8) == 0;
    fresh.known = fresh.left > 0;
    fresh.tasks = fresh.tasks_first = fresh.split ? (uint32_t)model_below(m, 40) + 1 : 0;
    htc_hierarchy_job job = { .size = sizeof job, .id = fresh.id, .kflop = fresh.left, .memory_mb = fresh.memory_mb,
                              .tasks = fresh.tasks, .tq_ns = tq, .te_ns = te };
    for (int i = 0; i < MODEL_JOBS && !j; i++)
        if (!m->jobs[i].used)
            j = &m->jobs[i];
    htc_hierarchy_decision d, expected;
    htc_status status = restored ? htc_hierarchy_restore(m->h, queue, &job, m->now) : htc_hierarchy_arrive(m->h, queue, &job, m->now, &d);
    if (model_cpus_for(m, queue, &fresh) == 0) {
        MODEL_SAYS(m, status == HTC_ENOFIT);
        return;
    }
    if (!j) {
        MODEL_SAYS(m, status == HTC_EFULL);
        return;
    }
    MODEL_SAYS(m, status == HTC_OK);
    *j = fresh;
    if (restored) {
        model_append(m, j);
        j->arrived = m->clock[queue] - tq;
        j->started = m->clock[queue] - te;
        j->has_started = te > 0;
        return;
    }
    expected = model_process(m, j);
    MODEL_SAYS(m, model_same(&d, &expected));
    model_downwards(m, &d);
}

static inline void model_bounds(model *m, model_job *j)
{
    htc_hierarchy_decision d, expected;
    if (model_below(m, 3) == 0) {
        htc_status status = htc_hierarchy_estimated(m->h, j->id, m->now, &d);
        MODEL_SAYS(m, status == (j->state == HTC_HIERARCHY_ESTIMATING ? HTC_OK : HTC_EINVAL));
        if (status == HTC_OK) {
            expected = model_conclude(m, j);
            MODEL_SAYS(m, model_same(&d, &expected));
        }
        return;
    }
    double bound = (double)model_below(m, 1024);
    int    left_before = j->state == HTC_HIERARCHY_LEAVING; /* an old decision, the hierarchy may be another one now */
    MODEL_SAYS(m, htc_hierarchy_bound(m->h, j->id, bound, m->now, &d) == (bound > 0 ? HTC_OK : HTC_EINVAL));
    if (bound == 0)
        return;
    int done = j->split && j->tasks == 0; /* ignored, then */
    if (!done && (!j->known || bound < j->left))
        j->left = bound;
    j->known |= !done;
    if (j->state == HTC_HIERARCHY_LEAVING)
        expected = model_decision(m, j, j->to == HTC_HIERARCHY_NOWHERE ? HTC_HIERARCHY_TERMINATE : HTC_HIERARCHY_MIGRATE);
    else if (j->state == HTC_HIERARCHY_QUEUED)
        expected = model_decision(m, j, HTC_HIERARCHY_QUEUE);
    else if (m->now >= j->until || j->left <= model_ce(m, j->queue, j))
        expected = model_conclude(m, j);
    else
        expected = model_decision(m, j, HTC_HIERARCHY_ESTIMATE);
    MODEL_SAYS(m, model_same(&d, &expected));
    if (!left_before)
        model_downwards(m, &d);
}

static inline void model_scans(model *m, uint32_t queue, int share)
{
    htc_hierarchy_decision        expected[MODEL_JOBS];
    const htc_hierarchy_decision *d;
    size_t                        n, told;
    if (share) {
        MODEL_SAYS(m, htc_hierarchy_share(m->h, queue, m->now, &d, &told) == HTC_OK);
        n = model_share(m, queue, expected);
    } else {
        MODEL_SAYS(m, htc_hierarchy_enforce(m->h, queue, m->now, &d, &told) == HTC_OK);
        n = model_enforce(m, queue, expected);
    }
    MODEL_SAYS(m, n == told);
    for (size_t i = 0; i < n && !m->wrong; i++) {
        MODEL_SAYS(m, model_same(&d[i], &expected[i]));
        model_downwards(m, &d[i]);
    }
}

static inline void model_leaves(model *m, model_job *j)
{
    htc_hierarchy_decision d, expected;
    int                    moves = j->state == HTC_HIERARCHY_LEAVING && j->to != HTC_HIERARCHY_NOWHERE;
    if (model_below(m, 4) == 0) {
        MODEL_SAYS(m, htc_hierarchy_stay(m->h, j->id, m->now) == (j->state == HTC_HIERARCHY_LEAVING ? HTC_OK : HTC_EINVAL));
        if (j->state == HTC_HIERARCHY_LEAVING)
            model_stay(m, j);
        return;
    }
    MODEL_SAYS(m, htc_hierarchy_moved(m->h, j->id, m->now, &d) == (moves ? HTC_OK : HTC_EINVAL));
    if (moves) {
        expected = model_moved(m, j);
        MODEL_SAYS(m, model_same(&d, &expected));
        model_downwards(m, &d);
    }
}

static inline void model_is_sent(model *m, model_job *j)
{
    uint32_t               to = (uint32_t)model_below(m, m->options.queue_count);
    htc_hierarchy_decision d, expected;
    htc_status             status = htc_hierarchy_send(m->h, j->id, to, m->now, &d);
    if (j->state == HTC_HIERARCHY_LEAVING || to == j->queue || m->queues[to].level < m->queues[j->queue].level) {
        MODEL_SAYS(m, status == HTC_EINVAL);
    } else if (model_cpus_for(m, to, j) == 0) {
        MODEL_SAYS(m, status == HTC_ENOFIT);
    } else {
        expected = model_leave(m, j, HTC_HIERARCHY_SENT, to);
        MODEL_SAYS(m, status == HTC_OK && model_same(&d, &expected));
    }
}

static inline void model_runs(model *m, model_job *j)
{
    const htc_hierarchy_queue *q = &m->queues[j->queue];
    uint32_t                   number = (uint32_t)model_below(m, MODEL_TASKS);
    model_task                *t = &j->task[number];
    htc_hierarchy_task         task = { .size = sizeof task, .id = j->id, .task = number,
                                        .grid = q->grids[model_below(m, q->grid_count)], .kflop = 20 * (double)model_below(m, 8) };
    htc_status                 status;
    switch (model_below(m, 4)) {
    case 0:
        status = htc_hierarchy_task_done(m->h, j->id, number, m->now);
        MODEL_SAYS(m, status == (t->runs ? HTC_OK : HTC_ENOTFOUND));
        if (t->runs) {
            j->left = j->left > t->kflop ? j->left - t->kflop : 0;
            j->tasks -= j->split;
            t->runs = 0;
        }
        return;
    case 1:
        status = htc_hierarchy_task_lost(m->h, j->id, number, m->now);
        MODEL_SAYS(m, status == (t->runs ? HTC_OK : HTC_ENOTFOUND));
        t->runs = 0;
        return;
    default:
        status = htc_hierarchy_task_started(m->h, &task, m->now);
        if (j->waits) {
            MODEL_SAYS(m, status == HTC_EINVAL);
        } else if (t->runs) {
            MODEL_SAYS(m, status == HTC_EEXISTS);
        } else if (j->split && model_running(m, j) >= j->tasks) {
            MODEL_SAYS(m, status == HTC_EINVAL);
        } else {
            MODEL_SAYS(m, status == HTC_OK);
            *t = (model_task){ .runs = 1, .grid = task.grid, .kflop = task.kflop, .started = m->now, .since = ++m->next_place };
            if (!j->has_started) {
                j->has_started = 1;
                j->started = m->clock[j->queue];
            }
        }
    }
}

static inline void model_is_looked_at(model *m)
{
    for (uint32_t q = 0; q < m->options.queue_count && !m->wrong; q++) {
        htc_hierarchy_queue_info info;
        size_t                   cursor = 0, n = 0;
        uint64_t                 id;
        MODEL_SAYS(m, htc_hierarchy_get_queue(m->h, q, &info) == HTC_OK);
        MODEL_SAYS(m, info.load_kflop == m->load[q] && info.policies == m->policies[q] && (double)info.running == model_held(m, q));
        for (model_job *j = model_behind(m, q, 0); j; j = model_behind(m, q, j->place), n++)
            MODEL_SAYS(m, htc_hierarchy_jobs(m->h, q, &cursor, &id, 1) == 1 && id == j->id);
        MODEL_SAYS(m, htc_hierarchy_jobs(m->h, q, &cursor, &id, 1) == 0 && info.jobs == n);
    }
    for (int i = 0; i < MODEL_JOBS && !m->wrong; i++) {
        htc_hierarchy_job_info info;
        const model_job       *j = &m->jobs[i];
        if (!j->used)
            continue;
        MODEL_SAYS(m, htc_hierarchy_get_job(m->h, j->id, m->now, &info) == HTC_OK);
        MODEL_SAYS(m, info.queue == j->queue && info.kflop == j->left && info.remaining == model_remaining(m, j));
        MODEL_SAYS(m, info.tq_ns == m->clock[j->queue] - j->arrived);
        MODEL_SAYS(m, info.te_ns == (!j->waits && j->has_started ? m->clock[j->queue] - j->started : 0));
        MODEL_SAYS(m, info.running == model_running(m, j) && info.tasks == j->tasks && info.moves == j->moves &&
                          info.returned == j->returned);
    }
}

static inline void model_gives_cpus(model *m)
{
    uint32_t            queue = (uint32_t)model_below(m, m->options.queue_count);
    uint32_t            grid = m->queues[queue].grids[model_below(m, m->queues[queue].grid_count)];
    uint32_t            cpus = (uint32_t)model_below(m, 20), most = m->grids[grid].tasks_max, held = model_held_on(m, queue, grid);
    htc_hierarchy_grant grants[MODEL_JOBS];
    size_t              n, at = 0;
    MODEL_SAYS(m, htc_hierarchy_dispatch(m->h, queue, grid, cpus, grants, MODEL_JOBS, &n) == HTC_OK);
    while (most > 0 && cpus > 0 && held + cpus > most)
        cpus--;
    for (model_job *j = model_behind(m, queue, 0); j && !m->wrong; j = model_behind(m, queue, j->place)) {
        uint32_t running = model_running(m, j), give = m->queues[queue].cpus > running ? m->queues[queue].cpus - running : 0;
        if (j->state == HTC_HIERARCHY_LEAVING || !model_suits(m, grid, j))
            continue;
        if (j->split && give > j->tasks - running)
            give = j->tasks - running;
        give = give > cpus ? cpus : give;
        if (give > 0) {
            MODEL_SAYS(m, at < n && grants[at].id == j->id && grants[at].cpus == give);
            at++;
        }
        cpus -= give;
    }
    MODEL_SAYS(m, at == n);
}

/* Other limits, levels and grids for the same number of queues, while jobs are there. */
static inline void model_is_reordered(model *m)
{
    model_draw(m, m->options.queue_count, m->options.grid_count);
    MODEL_SAYS(m, htc_hierarchy_reorder(m->h, &m->options, m->now) == HTC_OK);
}

static inline void model_is_sampled(model *m)
{
    uint32_t grid = (uint32_t)model_below(m, m->options.grid_count), found = (uint32_t)model_below(m, 12);
    int      gone = model_below(m, 4) == 0;
    double   sample = gone ? 0 : found;
    m->avail[grid] = m->sampled[grid] ? 0.3 * sample + (1 - 0.3) * m->avail[grid] : sample;
    m->sampled[grid] = 1;
    m->unreachable[grid] = gone;
    MODEL_SAYS(m, htc_hierarchy_sample(m->h, grid, gone ? HTC_HIERARCHY_UNREACHABLE : found, 0, m->now) == HTC_OK);
}

/* One random operation. */
static inline void model_step(model *m)
{
    uint64_t   what = model_below(m, 32);
    model_job *j = model_any(m);
    uint32_t   queue = (uint32_t)model_below(m, m->options.queue_count);
    if (what < 6) {
        model_arrives(m);
    } else if (what < 9) {
        model_advance(m, model_below(m, 40) * HTC_SECOND);
    } else if (what < 14) {
        model_scans(m, queue, what == 13);
    } else if (what == 14) {
        model_is_sampled(m);
    } else if (what == 15) {
        uint32_t reason = (uint32_t)model_below(m, 5) + 1, on = (uint32_t)model_below(m, 2);
        int      simple = m->options.mode == HTC_HIERARCHY_SIMPLE && reason != HTC_HIERARCHY_OVERDUE;
        MODEL_SAYS(m, htc_hierarchy_policy(m->h, queue, reason, on) == (simple ? HTC_EINVAL : HTC_OK));
        if (!simple)
            m->policies[queue] = (m->policies[queue] & ~(1u << reason)) | on << reason;
    } else if (what == 16 && model_below(m, 4) == 0) {
        model_is_reordered(m);
    } else if (what == 17) {
        model_gives_cpus(m);
    } else if (what < 19 || !j) {
        model_is_looked_at(m);
    } else if (what < 22) {
        model_bounds(m, j);
    } else if (what < 25) {
        model_leaves(m, j);
    } else if (what < 30) {
        model_runs(m, j);
    } else if (what == 30) {
        MODEL_SAYS(m, htc_hierarchy_remove(m->h, j->id, m->now) == HTC_OK);
        MODEL_SAYS(m, htc_hierarchy_remove(m->h, j->id, m->now) == HTC_ENOTFOUND);
        j->used = 0;
    } else {
        model_is_sent(m, j);
    }
}

#endif
