/* Several grids: the life of a job. Every decision is htc_hierarchy_...'s; here it is obeyed. */
#include "sim/models/grids.h"

#include <string.h>

#include "core/util.h"

#define STREAM_ARRIVALS UINT64_MAX
#define ROUNDS        1000        /* in which queues are looked at, at one moment */
#define ESTIMATE_STEP   HTC_SECOND /* an estimator is asked for its bound so often */

static int ok(grids *m, htc_status status)
{
    if (status != HTC_OK)
        htc_scale_fail(m->scale, status);
    return status == HTC_OK;
}

static uint32_t id_of(const grids *m, uint32_t job)
{
    return (uint32_t)m->tasks_max + job;
}

/* Its waiting tasks are its queue's to hand out, or no longer. */
static void list(grids *m, grids_job *j, uint8_t listed)
{
    if (j->listed == listed)
        return;
    m->queue[j->queue].waiting += listed ? j->waiting : 0 - (uint64_t)j->waiting;
    j->listed = listed;
}

/* ---- its end ---- */

static void forget(grids *m, uint32_t job)
{
    grids_job *j = &m->job[job];
    j->state = GRIDS_FREE_JOB;
    j->first_task = m->free_job;
    m->free_job = job;
    m->active--;
    m->left--;
}

static void closes(grids *m, uint32_t job)
{
    grids_job *j = &m->job[job];
    htc__grids_phase(j, htc__scale_time(m->scale), GRIDS_FLOW);
    htc__scale_end(m->scale);
    htc_scale_mark(m->scale, j->number << 8 ^ (uint64_t)j->queue << 56 ^ j->fate);
    htc__grids_count_end(m, j, htc__scale_time(m->scale));
    forget(m, job);
}

/* The hierarchy knows it no longer. */
static void close_job(grids *m, uint32_t job, uint8_t fate)
{
    grids_job *j = &m->job[job];
    list(m, j, 0);
    htc__grids_phase(j, htc__scale_time(m->scale), GRIDS_FLOW);
    j->fate = fate;
    j->state = GRIDS_CLOSES;
    ok(m, htc_scale_start(m->scale, id_of(m, job), 0, fate == HTC_SIM_GRIDS_COMPLETED ? m->flow : 0));
}

void htc__grids_job_done(grids *m, uint32_t job)
{
    if (ok(m, htc_hierarchy_remove(m->hierarchy, job, htc__grids_now(m))))
        close_job(m, job, HTC_SIM_GRIDS_COMPLETED);
}

/* It ends without its results: the tasks that still run are stopped. */
static void end_early(grids *m, uint32_t job, uint8_t fate)
{
    list(m, &m->job[job], 0);
    htc__grids_cut_job(m, job);
    if (ok(m, htc_hierarchy_remove(m->hierarchy, job, htc__grids_now(m))))
        close_job(m, job, fate);
}

void htc__grids_job_failed(grids *m, uint32_t job)
{
    end_early(m, job, HTC_SIM_GRIDS_FAILED);
}

/* ---- what it is told ---- */

static void split(grids *m, uint32_t job, double bound)
{
    grids_job *j = &m->job[job];
    if (ok(m, htc_hierarchy_split(m->hierarchy, job, htc__grids_parts(m, j))))
        htc__grids_split(m, j, bound);
}

static void queue_it(grids *m, uint32_t job, double bound)
{
    grids_job *j = &m->job[job];
    htc__grids_phase(j, htc__scale_time(m->scale), GRIDS_QUEUED);
    j->state = GRIDS_NO_EVENT;
    j->idle_since = htc__scale_time(m->scale);
    split(m, job, bound);
    list(m, j, 1);
    htc__grids_dispatch_queue(m, j->queue);
}

/* Its bound is told when it is small enough, or the budget is used up. */
static void estimate(grids *m, uint32_t job, const htc_hierarchy_decision *d)
{
    grids_job *j = &m->job[job];
    htc_ns     tick = m->options.tick_ns;
    uint64_t   now = htc__scale_time(m->scale), budget = d->until / tick + (d->until % tick != 0) - now;
    uint64_t   step = ESTIMATE_STEP / tick ? ESTIMATE_STEP / tick : 1, low = 0, high = budget / step;
    htc__grids_phase(j, htc__scale_time(m->scale), GRIDS_ESTIMATING);
    j->state = GRIDS_ESTIMATED;
    j->estimate_cpus = d->cpus;
    if (j->rho == 0) {
        budget = 0;
    } else if (!(m->queue[j->queue].flags & HTC_SIM_GRIDS_WHOLE_BUDGET) && htc__grids_bound_after(m, j, high * step) <= d->limit) {
        while (low < high) {
            uint64_t middle = (low + high) / 2;
            if (htc__grids_bound_after(m, j, middle * step) <= d->limit)
                high = middle;
            else
                low = middle + 1;
        }
        budget = high * step;
    }
    j->until = now + budget;
    ok(m, htc_scale_at(m->scale, j->until, id_of(m, job)));
}

static void obey(grids *m, uint32_t job, const htc_hierarchy_decision *first);

/* Off to another queue. */
static void arrives(grids *m, uint32_t job)
{
    grids_job             *j = &m->job[job];
    htc_hierarchy_decision d;
    if (!ok(m, htc_hierarchy_moved(m->hierarchy, job, htc__grids_now(m), &d)))
        return;
    if (d.action != HTC_HIERARCHY_STAY) {
        list(m, j, 0);
        htc__grids_cut_job(m, job); /* one that is pushed sideways runs until here */
        j->queue = j->to;
        j->moves++;
        m->moves++;
    }
    obey(m, job, &d);
}

static void leaves(grids *m, uint32_t job, const htc_hierarchy_decision *d)
{
    grids_job *j = &m->job[job];
    if (d->to >= m->n_queues) { /* as a checkpoint has it */
        htc_scale_fail(m->scale, HTC_ECORRUPT);
        return;
    }
    j->to = d->to;
    if (d->reason == HTC_HIERARCHY_SHARE) {
        arrives(m, job);
        return;
    }
    list(m, j, 0);
    m->carried += j->running * m->move;
    htc__grids_cut_job(m, job);
    htc__grids_phase(j, htc__scale_time(m->scale), GRIDS_MOVING);
    j->state = GRIDS_ARRIVES;
    ok(m, htc_scale_at(m->scale, htc__scale_time(m->scale) + m->move, id_of(m, job)));
}

static void obey(grids *m, uint32_t job, const htc_hierarchy_decision *d)
{
    grids_job *j = &m->job[job];
    htc_scale_mark(m->scale, j->number << 16 ^ (uint64_t)d->action << 8 ^ d->reason ^ (uint64_t)d->to << 48);
    switch ((htc_hierarchy_action)d->action) {
    case HTC_HIERARCHY_QUEUE:
        queue_it(m, job, d->kflop);
        break;
    case HTC_HIERARCHY_ESTIMATE:
        estimate(m, job, d);
        break;
    case HTC_HIERARCHY_MIGRATE:
        leaves(m, job, d);
        break;
    case HTC_HIERARCHY_REJECT:
        close_job(m, job, HTC_SIM_GRIDS_REJECTED);
        break;
    case HTC_HIERARCHY_TERMINATE:
        end_early(m, job, HTC_SIM_GRIDS_TERMINATED);
        break;
    case HTC_HIERARCHY_STAY:
        break;
    }
}

static void estimated(grids *m, uint32_t job)
{
    grids_job             *j = &m->job[job];
    htc_hierarchy_decision d;
    htc_status             status = HTC_OK;
    uint64_t               spent = htc__scale_time(m->scale) - j->since;
    j->state = GRIDS_NO_EVENT;
    if (j->rho > 0) {
        status = htc_hierarchy_bound(m->hierarchy, job, htc__grids_bound_after(m, j, spent), htc__grids_now(m), &d);
        j->spent_s += htc__grids_seconds(m, spent) * j->estimate_cpus;
    }
    /* known before, or as good as it gets */
    if (status == HTC_OK && (j->rho == 0 || d.action == HTC_HIERARCHY_ESTIMATE))
        status = htc_hierarchy_estimated(m->hierarchy, job, htc__grids_now(m), &d);
    if (ok(m, status))
        obey(m, job, &d);
}

void htc__grids_job_event(grids *m, uint32_t job)
{
    switch (m->job[job].state) {
    case GRIDS_ESTIMATED:
        estimated(m, job);
        break;
    case GRIDS_ARRIVES:
        arrives(m, job);
        break;
    default:
        closes(m, job);
        break;
    }
}

/* ---- it comes ---- */

static void arrive(grids *m)
{
    uint32_t job = m->free_job, entry;
    if (job != GRIDS_NONE)
        m->free_job = m->job[job].first_task;
    else if (m->jobs_made < m->options.active_max)
        job = (uint32_t)m->jobs_made++;
    if (job == GRIDS_NONE) {
        htc_scale_fail(m->scale, HTC_EFULL);
        return;
    }
    grids_job *j = &m->job[job];
    uint64_t   now = htc__scale_time(m->scale);
    *j = (grids_job){ .number = m->next, .stream = htc__scale_stream(m->options.seed, m->next), .arrival = now, .since = now, .first_task = GRIDS_NONE, .state = GRIDS_NO_EVENT };
    m->next++;
    htc__grids_draw_job(m, j);
    m->active++;
    m->active_most = m->active > m->active_most ? m->active : m->active_most;
    htc_scale_submit(m->scale, 1);
    htc_hierarchy_job      in = { .size = sizeof in, .id = job, .kflop = j->rho > 0 ? 0 : j->kflop };
    htc_hierarchy_decision d;
    if (ok(m, htc_hierarchy_entry(m->hierarchy, &in, &entry)) && ok(m, htc_hierarchy_arrive(m->hierarchy, entry, &in, htc__grids_now(m), &d))) {
        j->queue = entry;
        obey(m, job, &d);
    }
}

void htc__grids_next_arrival(grids *m)
{
    if (m->next == m->total)
        return;
    htc__grids_draw_arrival(m);
    htc_scale_at(m->scale, m->next_at, htc__grids_id(m, GRIDS_ID_ARRIVAL));
}

void htc__grids_arrivals(grids *m)
{
    arrive(m);
    htc__grids_next_arrival(m);
}

/* ---- limits and sharing, when they are due ---- */

static int enforce_or_share(grids *m, uint32_t queue, int shares)
{
    const htc_hierarchy_decision *out;
    size_t                        n = 0;
    if (shares || m->looks_first)
        htc__grids_look(m);
    htc_status status = shares ? htc_hierarchy_share(m->hierarchy, queue, htc__grids_now(m), &out, &n) :
                                 htc_hierarchy_enforce(m->hierarchy, queue, htc__grids_now(m), &out, &n);
    if (!ok(m, status))
        return 0;
    memcpy(m->orders, out, n * sizeof *out); /* what is lent ends with the next call */
    for (size_t i = 0; i < n; i++) {
        if (m->orders[i].id >= m->jobs_made || m->job[m->orders[i].id].state == GRIDS_FREE_JOB) { /* a checkpoint has told the hierarchy of another job */
            htc_scale_fail(m->scale, HTC_ECORRUPT);
            return 0;
        }
        obey(m, (uint32_t)m->orders[i].id, &m->orders[i]);
    }
    for (uint32_t g = 0; n && g < m->n_grids; g++)
        htc__grids_dispatch(m, g);
    return 1;
}

/* The pending looks are a stack, the earliest on top: one is added only if it is earlier than all. */
void htc__grids_limits(grids *m)
{
    htc_ns   due;
    uint32_t rounds = 0;
    while ((due = htc_hierarchy_deadline(m->hierarchy)) <= htc__grids_now(m)) {
        if (rounds++ > ROUNDS) { /* whatever is done, something stays due: a checkpoint has it so */
            htc_scale_fail(m->scale, HTC_ECORRUPT);
            return;
        }
        for (uint32_t q = 0; q < m->n_queues; q++) {
            htc_hierarchy_queue_info info;
            if (!ok(m, htc_hierarchy_get_queue(m->hierarchy, q, &info)) || (info.enforce_at <= htc__grids_now(m) && !enforce_or_share(m, q, 0)) ||
                (info.share_at <= htc__grids_now(m) && !enforce_or_share(m, q, 1)))
                return;
        }
    }
    if (due == HTC_NEVER)
        return;
    uint64_t at = due / m->options.tick_ns + (due % m->options.tick_ns != 0);
    if (m->timers && m->timer[m->timers - 1] <= at)
        return;
    if (m->timers >= sizeof m->timer / sizeof *m->timer) { /* there are no more than these, if they are in order */
        htc_scale_fail(m->scale, HTC_ECORRUPT);
        return;
    }
    m->timer[m->timers++] = at;
    htc_scale_at(m->scale, at, htc__grids_id(m, GRIDS_ID_TIMER));
}
