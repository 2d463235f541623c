/* An experiment with several grids, run: the life of its jobs as in the model (lib/sim/models/grids_jobs.c), with the same calls of htc_hierarchy_..., in real
 * time. Tasks are processes (grids_pool.c). */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "grids_live.h"

#define STEP HTC_SECOND /* an estimator is asked for its bound so often */
#define CPUS 256        /* of all grids together, at most */

enum { ESTIMATING, QUEUED, GRID, RUNNING, MOVING, FLOW, PHASES };
enum { IDLE, IS_ESTIMATED, IS_MOVED, IS_CLOSED, ENDED }; /* what is due at `at` */

typedef struct live_job {
    uint32_t queue, to, moves, state, phase, cpus, number, fate; /* cpus: of its estimator; number: of its next task */
    htc_ns   at, since, first, in[PHASES], until;
    double   left, spent_s, nominal; /* left: complexity that is still to do */
    uint16_t part[POOL_PARTS];       /* those that are still to do when it was last split: a task's are next to each other */
    uint8_t  done[POOL_PARTS];
    uint32_t piece[POOL_PARTS + 1], waiting[POOL_PARTS]; /* where each task's begin; tasks that wait, the last one first */
    uint32_t tasks, n_waiting, running, split, again; /* again: waiting ones that were evicted, which happens to a task once */
    uint64_t sum, started, evicted;
    double   response_s, work_s, evicted_s, moved_s;
} live_job;

typedef struct live {
    grids_run    *g;
    htc_hierarchy *h;
    live_job     *job;
    pool_task     task[CPUS]; /* those that run, in no order */
    htc_hierarchy_decision orders[GRIDS_JOBS_LIVE]; /* what a look at limits has said: it is lent until the next call */
    size_t        n_tasks, n_jobs, next, left;
    uint32_t      busy[HTC_HIERARCHY_GRIDS_MAX];
    htc_ns        zero;
    htc_rng       rng;
    htc_status    status; /* of the first call that failed */
    int           broken; /* a process could not be started, or has failed: errno */
} live;

static htc_ns clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (htc_ns)t.tv_sec * HTC_SECOND + (htc_ns)t.tv_nsec;
}

static htc_ns now_of(const live *l)
{
    return clock_ns() - l->zero;
}

static int ok(live *l, htc_status status)
{
    l->status = l->status == HTC_OK ? status : l->status;
    return status == HTC_OK;
}

static void phase(const live *l, live_job *j, uint32_t next)
{
    htc_ns now = now_of(l), since = j->since;
    if (j->phase == RUNNING) { /* its first task has begun meanwhile, or has not */
        htc_ns begun = j->first < now ? j->first : now;
        begun = begun > since ? begun : since;
        j->in[GRID] += begun - since;
        since = begun;
    }
    j->in[j->phase] += now - since;
    j->since = now;
    j->phase = next;
}

/* ---- its end ---- */

static void add(htc_sim_grids_result *r, const live_job *j)
{
    r->completed += j->fate == HTC_SIM_GRIDS_COMPLETED;
    r->rejected += j->fate == HTC_SIM_GRIDS_REJECTED;
    r->terminated += j->fate == HTC_SIM_GRIDS_TERMINATED;
    r->failed += j->fate == HTC_SIM_GRIDS_FAILED;
    if (j->fate != HTC_SIM_GRIDS_COMPLETED)
        return;
    r->response_s += j->response_s;
    r->response_max_s = fmax(r->response_max_s, j->response_s);
    r->estimating_s += (double)j->in[ESTIMATING] / 1e9;
    r->queued_s += (double)j->in[QUEUED] / 1e9;
    r->grid_queued_s += (double)j->in[GRID] / 1e9;
    r->running_s += (double)j->in[RUNNING] / 1e9;
    r->moving_s += (double)j->in[MOVING] / 1e9;
    r->flow_s += (double)j->in[FLOW] / 1e9;
    r->tasks += j->split;
}

static void closes(live *l, size_t job)
{
    live_job                *j = &l->job[job];
    const htc_sim_grids_job *in = &l->g->jobs[job];
    htc_sim_grids_report    *r = &l->g->report;
    htc_sim_grids_result    *kind = &l->g->by_class[in->kind];
    phase(l, j, FLOW);
    j->state = ENDED;
    l->left--;
    j->response_s = (double)(j->since - in->arrival) / 1e9;
    add(&l->g->by_queue[j->queue], j);
    add(kind, j);
    kind->work_s += j->work_s;
    kind->evicted_s += j->evicted_s;
    kind->moved_s += j->moved_s;
    kind->started += j->started;
    kind->evicted += j->evicted;
    r->completed += j->fate == HTC_SIM_GRIDS_COMPLETED;
    r->rejected += j->fate == HTC_SIM_GRIDS_REJECTED;
    r->terminated += j->fate == HTC_SIM_GRIDS_TERMINATED;
    r->failed += j->fate == HTC_SIM_GRIDS_FAILED;
    if (j->fate == HTC_SIM_GRIDS_COMPLETED) {
        uint16_t all[POOL_PARTS];
        for (uint16_t p = 0; p < POOL_PARTS; p++)
            all[p] = p;
        if (pool_sum(job, all, POOL_PARTS) != j->sum && !r->scale.wrong[0])
            snprintf(r->scale.wrong, sizeof r->scale.wrong, "the result of job %zu is not that of its whole sum", job);
    }
    grids_note_end(l->g, &(htc_sim_grids_end){ .size = sizeof(htc_sim_grids_end), .job = job, .kind = in->kind, .fate = j->fate, .queue = j->queue, .moves = j->moves, .kflop = in->kflop,
                                               .arrival = in->arrival, .ended = j->since, .queued = j->in[QUEUED], .work_s = j->work_s, .evicted_s = j->evicted_s,
                                               .moved_s = j->moved_s });
}

static void close_job(live *l, live_job *j, uint32_t fate)
{
    phase(l, j, FLOW);
    j->fate = fate;
    j->state = IS_CLOSED;
    j->at = j->since + (fate == HTC_SIM_GRIDS_COMPLETED ? l->g->options.flow_ns : 0);
}

/* ---- tasks ---- */

static void forget_task(live *l, size_t t)
{
    live_job *j = &l->job[l->task[t].job];
    l->busy[l->task[t].grid]--;
    j->running--;
    l->task[t] = l->task[--l->n_tasks];
}

static double ran_s(const live *l, const pool_task *t)
{
    htc_ns now = now_of(l);
    return now > t->begin ? (double)(now - t->begin) / 1e9 : 0;
}

/* All tasks of a job are stopped, since it leaves. */
static void cut(live *l, size_t job)
{
    live_job *j = &l->job[job];
    for (size_t t = 0; t < l->n_tasks;) {
        if (l->task[t].job != job) {
            t++;
            continue;
        }
        double ran = ran_s(l, &l->task[t]);
        j->moved_s += ran;
        l->g->report.moved_s += ran;
        l->g->by_queue[j->queue].moved_s += ran;
        pool_stop(&l->task[t]);
        forget_task(l, t);
    }
}

static void start_task(live *l, size_t job, uint32_t grid)
{
    live_job                 *j = &l->job[job];
    const htc_sim_grids_grid *spec = &l->g->options.grids[grid];
    pool_task                *t = &l->task[l->n_tasks];
    htc_ns                    now = now_of(l), latency = (htc_ns)spec->latency.mean_ns;
    uint32_t                  piece = j->waiting[j->n_waiting - 1], n = j->piece[piece + 1] - j->piece[piece];
    double                    u = (double)htc_rng_below(&l->rng, 1u << 30) / (1u << 30), when = (double)htc_rng_below(&l->rng, 1u << 30) / (1u << 30);
    *t = (pool_task){ .job = (uint32_t)job, .number = j->number++, .grid = grid, .piece = piece, .begin = now + latency, .evicted = HTC_NEVER };
    t->length = (htc_ns)(l->g->jobs[job].kflop * n / POOL_PARTS / spec->kflops * 1e9);
    if (u < spec->evict_part && j->again == 0)
        t->evicted = t->begin + (htc_ns)(when * (double)t->length);
    htc_hierarchy_task told = { .size = sizeof told, .id = job, .task = t->number, .grid = grid, .kflop = j->nominal, .waited_ns = latency };
    if (!ok(l, htc_hierarchy_task_started(l->h, &told, now)))
        return;
    if (!pool_start(t, job, &j->part[j->piece[piece]], n, l->zero)) {
        l->broken = errno;
        return;
    }
    l->n_tasks++;
    l->busy[grid]++;
    if (j->phase == QUEUED) {
        phase(l, j, RUNNING);
        j->first = HTC_NEVER;
    }
    j->first = t->begin < j->first ? t->begin : j->first;
    j->again -= j->again > 0;
    j->n_waiting--;
    j->running++;
    j->started++;
    l->g->report.tasks++;
    l->g->by_queue[j->queue].started++;
}

static void dispatch(live *l)
{
    const htc_hierarchy_options *o = l->g->options.hierarchy;
    for (uint32_t level = 1; level <= o->queue_count; level++)
        for (uint32_t q = 0; q < o->queue_count; q++)
            for (size_t k = 0; o->queues[q].level == level && k < o->queues[q].grid_count; k++) {
                htc_hierarchy_grant grant[CPUS];
                uint32_t            grid = o->queues[q].grids[k], idle = o->grids[grid].cpus - l->busy[grid];
                size_t              n = 0;
                if (!idle || !ok(l, htc_hierarchy_dispatch(l->h, q, grid, idle, grant, CPUS, &n)))
                    continue;
                for (size_t i = 0; i < n; i++)
                    for (uint32_t c = 0; c < grant[i].cpus && l->job[grant[i].id].n_waiting && l->status == HTC_OK && !l->broken; c++)
                        start_task(l, grant[i].id, grid);
            }
}

static void lose(live *l, size_t t)
{
    pool_task task = l->task[t];
    live_job *j = &l->job[task.job];
    double    ran = ran_s(l, &task);
    pool_stop(&l->task[t]);
    forget_task(l, t);
    j->evicted_s += ran;
    j->evicted++;
    l->g->report.evicted_s += ran;
    l->g->report.evicted++;
    l->g->by_queue[j->queue].evicted_s += ran;
    l->g->by_queue[j->queue].evicted++;
    j->waiting[j->n_waiting++] = task.piece;
    j->again++;
    ok(l, htc_hierarchy_task_lost(l->h, task.job, task.number, now_of(l)));
}

static void done(live *l, size_t t)
{
    pool_task task = l->task[t];
    live_job *j = &l->job[task.job];
    uint64_t  sum = 0;
    double    ran = ran_s(l, &task);
    if (!pool_result(&l->task[t], &sum))
        l->broken = ECHILD;
    forget_task(l, t);
    j->sum += sum;
    for (uint32_t p = j->piece[task.piece]; p < j->piece[task.piece + 1]; p++)
        j->done[j->part[p]] = 1;
    j->left -= l->g->jobs[task.job].kflop * (j->piece[task.piece + 1] - j->piece[task.piece]) / POOL_PARTS;
    j->tasks--;
    j->work_s += ran;
    l->g->report.work_s += ran;
    l->g->by_queue[j->queue].work_s += ran;
    if (ok(l, htc_hierarchy_task_done(l->h, task.job, task.number, now_of(l))) && j->tasks == 0 && ok(l, htc_hierarchy_remove(l->h, task.job, now_of(l))))
        close_job(l, j, HTC_SIM_GRIDS_COMPLETED);
}

/* ---- what a job is told ---- */

/* Into tasks of as many parts each, of those that are still to do. */
static void queue_it(live *l, size_t job, double bound)
{
    live_job                  *j = &l->job[job];
    const htc_hierarchy_queue *q = &l->g->options.hierarchy->queues[j->queue];
    double                     whole = (double)l->g->options.queues[j->queue].target_ns / 1e9 * q->kflops * (q->beta > 0 ? q->beta : 1);
    uint32_t                   parts = 0, n = l->g->jobs[job].tasks ? l->g->jobs[job].tasks : whole > 0 ? (uint32_t)fmin(ceil(j->left / whole), POOL_PARTS) : 1;
    phase(l, j, QUEUED);
    j->state = IDLE;
    for (uint16_t p = 0; p < POOL_PARTS; p++)
        if (!j->done[p])
            j->part[parts++] = p;
    n = n < 1 ? 1 : n > parts ? parts : n;
    for (uint32_t i = 0; i <= n; i++)
        j->piece[i] = (uint32_t)((uint64_t)parts * i / n);
    for (uint32_t i = 0; i < n; i++)
        j->waiting[i] = n - 1 - i;
    j->tasks = j->n_waiting = j->split = n;
    j->nominal = bound / n;
    ok(l, htc_hierarchy_split(l->h, job, n));
}

static double bound_of(const live *l, size_t job)
{
    const live_job          *j = &l->job[job];
    const htc_sim_grids_job *in = &l->g->jobs[job];
    double                   spent = j->spent_s + (double)(now_of(l) - j->since) / 1e9 * j->cpus;
    return htc_hierarchy_synthetic(in->kflop, l->g->options.hierarchy->queues[j->queue].kflops, in->rho, spent) * (j->left / in->kflop);
}

static void estimate(live *l, size_t job, const htc_hierarchy_decision *d)
{
    live_job *j = &l->job[job];
    int       early = !(l->g->options.queues[j->queue].flags & HTC_SIM_GRIDS_WHOLE_BUDGET);
    if (j->phase != ESTIMATING || j->state == IDLE)
        phase(l, j, ESTIMATING);
    j->state = IS_ESTIMATED;
    j->cpus = d->cpus;
    j->until = d->until;
    j->at = l->g->jobs[job].rho == 0 ? j->since : early && now_of(l) + STEP < d->until ? now_of(l) + STEP : d->until;
}

static void obey(live *l, size_t job, const htc_hierarchy_decision *d);

static void arrives(live *l, size_t job)
{
    live_job              *j = &l->job[job];
    htc_hierarchy_decision d;
    if (!ok(l, htc_hierarchy_moved(l->h, job, now_of(l), &d)))
        return;
    if (d.action != HTC_HIERARCHY_STAY) {
        cut(l, job); /* one that is pushed sideways runs until here */
        j->queue = j->to;
        j->moves++;
        l->g->report.moves++;
        j->state = IDLE;
    }
    obey(l, job, &d);
}

static void estimated(live *l, size_t job)
{
    live_job              *j = &l->job[job];
    double                 rho = l->g->jobs[job].rho;
    htc_hierarchy_decision d = { .action = HTC_HIERARCHY_ESTIMATE };
    if (rho > 0 && !ok(l, htc_hierarchy_bound(l->h, job, bound_of(l, job), now_of(l), &d)))
        return;
    if (d.action == HTC_HIERARCHY_ESTIMATE && rho > 0 && now_of(l) < j->until) {
        estimate(l, job, &d);
        return;
    }
    j->spent_s += (double)(now_of(l) - j->since) / 1e9 * j->cpus;
    j->state = IDLE;
    if (d.action != HTC_HIERARCHY_ESTIMATE || ok(l, htc_hierarchy_estimated(l->h, job, now_of(l), &d)))
        obey(l, job, &d);
}

static void obey(live *l, size_t job, const htc_hierarchy_decision *d)
{
    live_job *j = &l->job[job];
    switch ((htc_hierarchy_action)d->action) {
    case HTC_HIERARCHY_QUEUE:
        queue_it(l, job, d->kflop);
        break;
    case HTC_HIERARCHY_ESTIMATE:
        estimate(l, job, d);
        break;
    case HTC_HIERARCHY_MIGRATE:
        j->to = d->to;
        if (d->reason == HTC_HIERARCHY_SHARE) {
            arrives(l, job);
            break;
        }
        cut(l, job);
        phase(l, j, MOVING);
        j->state = IS_MOVED;
        j->at = j->since + l->g->options.move_ns;
        break;
    case HTC_HIERARCHY_REJECT:
        close_job(l, j, HTC_SIM_GRIDS_REJECTED);
        break;
    case HTC_HIERARCHY_TERMINATE:
        cut(l, job);
        if (ok(l, htc_hierarchy_remove(l->h, job, now_of(l))))
            close_job(l, j, HTC_SIM_GRIDS_TERMINATED);
        break;
    case HTC_HIERARCHY_STAY:
        break;
    }
}

/* ---- what is due ---- */

static void arrive(live *l, size_t job)
{
    live_job                *j = &l->job[job];
    const htc_sim_grids_job *in = &l->g->jobs[job];
    htc_hierarchy_job        told = { .size = sizeof told, .id = job, .kflop = in->rho > 0 ? 0 : in->kflop };
    htc_hierarchy_decision   d;
    *j = (live_job){ .left = in->kflop, .since = in->arrival, .phase = QUEUED };
    l->g->report.scale.submitted++;
    if (ok(l, htc_hierarchy_entry(l->h, &told, &j->queue)) && ok(l, htc_hierarchy_arrive(l->h, j->queue, &told, now_of(l), &d)))
        obey(l, job, &d);
}

static void look_at_limits(live *l)
{
    const htc_hierarchy_options *o = l->g->options.hierarchy;
    for (uint32_t q = 0; q < o->queue_count; q++)
        for (int shares = 0; shares < 2 && l->status == HTC_OK; shares++) {
            const htc_hierarchy_decision *out;
            htc_hierarchy_queue_info      info;
            size_t                        n = 0;
            if (!ok(l, htc_hierarchy_get_queue(l->h, q, &info)) || (shares ? info.share_at : info.enforce_at) > now_of(l))
                continue;
            for (uint32_t g = 0; shares && g < o->grid_count; g++)
                ok(l, htc_hierarchy_sample(l->h, g, o->grids[g].cpus - l->busy[g], o->grids[g].cpus, now_of(l)));
            if (!ok(l, shares ? htc_hierarchy_share(l->h, q, now_of(l), &out, &n) : htc_hierarchy_enforce(l->h, q, now_of(l), &out, &n)))
                continue;
            memcpy(l->orders, out, n * sizeof *out);
            for (size_t i = 0; i < n; i++)
                obey(l, l->orders[i].id, &l->orders[i]);
        }
}

static void whatever_is_due(live *l)
{
    while (l->next < l->n_jobs && l->g->jobs[l->next].arrival <= now_of(l))
        arrive(l, l->next++);
    for (size_t t = 0; t < l->n_tasks;)
        if (l->task[t].evicted <= now_of(l))
            lose(l, t);
        else
            t++;
    for (size_t i = 0; i < l->next; i++) {
        live_job *j = &l->job[i];
        if (j->state == IDLE || j->state == ENDED || j->at > now_of(l))
            continue;
        if (j->state == IS_ESTIMATED)
            estimated(l, i);
        else if (j->state == IS_MOVED)
            arrives(l, i);
        else
            closes(l, i);
    }
    if (htc_hierarchy_deadline(l->h) <= now_of(l))
        look_at_limits(l);
    dispatch(l);
}

static htc_ns next_of(const live *l)
{
    htc_ns due = htc_hierarchy_deadline(l->h);
    if (l->next < l->n_jobs && l->g->jobs[l->next].arrival < due)
        due = l->g->jobs[l->next].arrival;
    for (size_t t = 0; t < l->n_tasks; t++)
        due = l->task[t].evicted < due ? l->task[t].evicted : due;
    for (size_t i = 0; i < l->next; i++)
        if (l->job[i].state != IDLE && l->job[i].state != ENDED && l->job[i].at < due)
            due = l->job[i].at;
    return due;
}

/* Until something is due, or a task has ended. */
static void wait_for(live *l)
{
    struct pollfd ends[CPUS];
    htc_ns        now = now_of(l), due = next_of(l), ms = due > now ? (due - now + 999999) / 1000000 : 0;
    for (size_t t = 0; t < l->n_tasks; t++)
        ends[t] = (struct pollfd){ .fd = l->task[t].fd, .events = POLLIN };
    if (poll(ends, l->n_tasks, (int)(ms < 1000 ? ms : 1000)) <= 0)
        return;
    for (size_t t = l->n_tasks; t-- > 0;) /* backwards: what takes the place of one that has ended was looked at before */
        if (ends[t].revents)
            done(l, t);
}

/* ---- a run ---- */

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Means and quantiles of completed jobs that ended in this queue, or are of this class. */
static void means_of(const live *l, htc_sim_grids_result *r, uint32_t queue, uint32_t kind)
{
    double   all[GRIDS_JOBS_LIVE];
    double   n = r->completed ? (double)r->completed : 1;
    uint64_t found = 0;
    for (size_t i = 0; l->job && i < l->next; i++)
        if (l->job[i].state == ENDED && l->job[i].fate == HTC_SIM_GRIDS_COMPLETED && (queue == UINT32_MAX ? l->g->jobs[i].kind == kind : l->job[i].queue == queue))
            all[found++] = l->job[i].response_s;
    if (found) {
        qsort(all, found, sizeof *all, by_size);
        r->response_50_s = all[(found - 1) / 2];
        r->response_95_s = all[(size_t)ceil(0.95 * (double)found) - 1];
    }
    double *means[] = { &r->response_s, &r->estimating_s, &r->queued_s, &r->grid_queued_s, &r->running_s, &r->moving_s, &r->flow_s, &r->tasks };
    for (size_t i = 0; i < sizeof means / sizeof *means; i++)
        *means[i] /= n;
}

static int can_be_run(const grids_run *g, htc_error *e)
{
    const htc_hierarchy_options *o = g->options.hierarchy;
    int                          simple = g->options.system == HTC_SIM_GRIDS_MQH && g->cpus <= CPUS && g->options.jobs && g->options.n_jobs <= GRIDS_JOBS_LIVE;
    for (size_t i = 0; i < o->grid_count; i++) {
        const htc_sim_grids_grid *s = &g->options.grids[i];
        simple = simple && s->speed_cv <= 0 && s->evict_per_h <= 0 && s->free_mean <= 0 && !s->outage_gap_ns && s->latency.kind == HTC_SCALE_CONSTANT;
    }
    for (size_t q = 0; q < o->queue_count; q++)
        simple = simple && !(g->options.queues[q].flags & HTC_SIM_GRIDS_PREEMPTS);
    return simple || settings_refuse(e, HTC_ECONFIG, "such an experiment cannot be run live",
                                     "name its jobs, 256 CPUs at most, the system mqh, one speed and latency a grid, no preemption and outages; evict_part alone");
}

int grids_live_run(grids_run *g, htc_error *error)
{
    live                 *l = can_be_run(g, error) ? calloc(1, sizeof *l) : NULL;
    htc_hierarchy_options shape = *g->options.hierarchy;
    if (!l)
        return error->text[0] ? 0 : settings_refuse(error, HTC_ENOMEM, "no memory for the experiment", "make it smaller");
    *l = (live){ .g = g, .n_jobs = g->options.n_jobs, .left = g->options.n_jobs, .rng = { g->options.seed } };
    shape.size = sizeof shape;
    l->job = calloc(l->n_jobs, sizeof *l->job);
    ok(l, l->job ? htc_hierarchy_create(NULL, &shape, &l->h) : HTC_ENOMEM);
    l->zero = clock_ns();
    while (l->left && l->status == HTC_OK && !l->broken && !watch_stopped()) {
        whatever_is_due(l);
        if (l->left)
            wait_for(l);
    }
    g->report.interrupted = l->left > 0;
    g->report.n_queues = (uint32_t)shape.queue_count;
    g->report.scale.makespan = g->report.scale.span = now_of(l);
    g->report.busy_s = g->report.held_s = g->report.work_s + g->report.evicted_s + g->report.moved_s;
    while (l->n_tasks) {
        pool_stop(&l->task[0]);
        forget_task(l, 0);
    }
    for (size_t q = 0; q < shape.queue_count; q++) {
        htc_hierarchy_queue_info info = { 0 };
        means_of(l, &g->by_queue[q], (uint32_t)q, 0);
        if (l->h && htc_hierarchy_get_queue(l->h, (uint32_t)q, &info) == HTC_OK)
            memcpy(g->by_queue[q].out, info.out, sizeof info.out);
    }
    for (uint32_t k = 0; k < g->options.n_classes; k++)
        means_of(l, &g->by_class[k], UINT32_MAX, k);
    if (l->status != HTC_OK)
        settings_refuse(error, l->status, htc_strerror(l->status), "change its settings");
    else if (l->broken)
        settings_refuse(error, HTC_EIO, strerror(l->broken), "a task could not be run: allow more processes (ulimit -u)");
    int good = l->status == HTC_OK && !l->broken;
    htc_hierarchy_destroy(l->h);
    free(l->job);
    free(l);
    return good;
}
