/* Several grids, message by message: the life of a job, in the node of the hierarchy. Every decision is htc_hierarchy_...'s, from what messages have said; here it is obeyed. */
#include <string.h>

#include "core/util.h"
#include "sim/scenarios/grids_exact.h"

#define ROUNDS 1000       /* in which queues are looked at, at one moment */
#define STEP   HTC_SECOND /* an estimator is asked for its bound so often */

int htc__grids_call(grids_exact *x, htc_status status, const char *what)
{
    if (status != HTC_OK)
        htc__twin_fail(&x->t, status, "%s: %s", what, htc_strerror(status));
    return status == HTC_OK;
}

static htc_ns now_of(const grids_exact *x)
{
    return htc__twin_now(&x->t);
}

static void due_at(grids_exact *x, uint32_t job, uint8_t state, htc_ns at)
{
    x->job[job].j.state = state;
    htc__grids_call(x, htc__due_set(&x->due, job, at), "a job");
}

/* Its waiting tasks are its queue's to hand out, or no longer. */
static void list(grids_exact *x, grids_job *j, uint8_t listed)
{
    if (j->listed == listed)
        return;
    x->m.queue[j->queue].waiting += listed ? j->waiting : 0 - (uint64_t)j->waiting;
    j->listed = listed;
}

/* ---- its end ---- */

void htc__grids_exact_closes(grids_exact *x, uint32_t job)
{
    grids_job *j = &x->job[job].j;
    htc__grids_phase(j, now_of(x), GRIDS_FLOW);
    htc__grids_count_end(&x->m, j, now_of(x));
    x->last_end = now_of(x);
    j->state = GRIDS_FREE_JOB;
    j->first_task = x->m.free_job;
    x->m.free_job = job;
    x->m.active--;
    x->m.left--;
}

/* The hierarchy knows it no longer. */
static void close_job(grids_exact *x, uint32_t job, uint8_t fate)
{
    grids_job *j = &x->job[job].j;
    list(x, j, 0);
    htc__grids_phase(j, now_of(x), GRIDS_FLOW);
    j->fate = fate;
    due_at(x, job, GRIDS_CLOSES, now_of(x) + (fate == HTC_SIM_GRIDS_COMPLETED ? x->m.flow : 0));
}

static void remove_job(grids_exact *x, uint32_t job, uint8_t fate)
{
    if (htc__grids_call(x, htc_hierarchy_remove(x->m.hierarchy, job, now_of(x)), "a job that has ended"))
        close_job(x, job, fate);
}

void htc__grids_exact_done(grids_exact *x, uint32_t job)
{
    remove_job(x, job, HTC_SIM_GRIDS_COMPLETED);
}

/* It ends without its results: the tasks that still run are recalled. */
static void end_early(grids_exact *x, uint32_t job, uint8_t fate)
{
    list(x, &x->job[job].j, 0);
    htc__grids_recall_job(x, job);
    remove_job(x, job, fate);
}

void htc__grids_exact_failed(grids_exact *x, uint32_t job)
{
    end_early(x, job, HTC_SIM_GRIDS_FAILED);
}

/* ---- what it is told ---- */

static void queue_it(grids_exact *x, uint32_t job, double bound)
{
    grids_job *j = &x->job[job].j;
    htc__grids_phase(j, now_of(x), GRIDS_QUEUED);
    j->state = GRIDS_NO_EVENT;
    j->idle_since = now_of(x);
    if (!htc__grids_call(x, htc_hierarchy_split(x->m.hierarchy, job, htc__grids_parts(&x->m, j)), "a job that is split"))
        return;
    htc__grids_split(&x->m, j, bound);
    list(x, j, 1);
    htc__grids_dispatch_from(x, j->queue);
}

/* Its estimator is asked again after a while, or when its budget is used up. */
static void estimate(grids_exact *x, uint32_t job, const htc_hierarchy_decision *d)
{
    grids_job *j = &x->job[job].j;
    htc_ns     now = now_of(x);
    int        whole = x->m.queue[j->queue].flags & HTC_SIM_GRIDS_WHOLE_BUDGET;
    if (j->state != GRIDS_ESTIMATED)
        htc__grids_phase(j, now, GRIDS_ESTIMATING);
    j->estimate_cpus = d->cpus;
    j->until = d->until;
    due_at(x, job, GRIDS_ESTIMATED, j->rho == 0 ? now : !whole && d->until > now + STEP ? now + STEP : d->until);
}

static void obey(grids_exact *x, uint32_t job, const htc_hierarchy_decision *d);

/* Off to another queue. */
static void arrives(grids_exact *x, uint32_t job)
{
    grids_job             *j = &x->job[job].j;
    htc_hierarchy_decision d;
    j->state = GRIDS_NO_EVENT;
    if (!htc__grids_call(x, htc_hierarchy_moved(x->m.hierarchy, job, now_of(x), &d), "a job that has moved"))
        return;
    if (d.action != HTC_HIERARCHY_STAY) {
        list(x, j, 0);
        htc__grids_recall_job(x, job); /* one that is pushed sideways runs until here */
        j->queue = j->to;
        j->moves++;
        x->m.moves++;
    }
    obey(x, job, &d);
}

static void leaves(grids_exact *x, uint32_t job, const htc_hierarchy_decision *d)
{
    grids_job *j = &x->job[job].j;
    j->to = d->to;
    if (d->reason == HTC_HIERARCHY_SHARE) {
        arrives(x, job);
        return;
    }
    list(x, j, 0);
    x->carried += j->running * x->m.move;
    htc__grids_recall_job(x, job);
    htc__grids_phase(j, now_of(x), GRIDS_MOVING);
    due_at(x, job, GRIDS_ARRIVES, now_of(x) + x->m.move);
}

static void obey(grids_exact *x, uint32_t job, const htc_hierarchy_decision *d)
{
    if (!htc__grids_good(x))
        return;
    switch ((htc_hierarchy_action)d->action) {
    case HTC_HIERARCHY_QUEUE:
        queue_it(x, job, d->kflop);
        break;
    case HTC_HIERARCHY_ESTIMATE:
        estimate(x, job, d);
        break;
    case HTC_HIERARCHY_MIGRATE:
        leaves(x, job, d);
        break;
    case HTC_HIERARCHY_REJECT:
        close_job(x, job, HTC_SIM_GRIDS_REJECTED);
        break;
    case HTC_HIERARCHY_TERMINATE:
        end_early(x, job, HTC_SIM_GRIDS_TERMINATED);
        break;
    case HTC_HIERARCHY_STAY:
        break;
    }
}

static void estimated(grids_exact *x, uint32_t job)
{
    grids_job             *j = &x->job[job].j;
    htc_ns                 now = now_of(x), spent = now - j->since;
    htc_hierarchy_decision d = { .action = HTC_HIERARCHY_ESTIMATE };
    if (j->rho > 0 && !htc__grids_call(x, htc_hierarchy_bound(x->m.hierarchy, job, htc__grids_bound_after(&x->m, j, spent), now, &d), "a bound"))
        return;
    if (d.action == HTC_HIERARCHY_ESTIMATE && j->rho > 0 && now < j->until) {
        estimate(x, job, &d);
        return;
    }
    j->spent_s += htc__grids_seconds(&x->m, spent) * j->estimate_cpus;
    j->state = GRIDS_NO_EVENT;
    /* known before, or as good as it gets */
    if (d.action != HTC_HIERARCHY_ESTIMATE || htc__grids_call(x, htc_hierarchy_estimated(x->m.hierarchy, job, now, &d), "an estimation that is over"))
        obey(x, job, &d);
}

static void job_event(grids_exact *x, uint32_t job)
{
    exact_job *e = &x->job[job];
    htc__due_clear(&x->due, job);
    if (e->j.state == GRIDS_ESTIMATED)
        estimated(x, job);
    else if (e->j.state == GRIDS_ARRIVES)
        arrives(x, job);
    else if (e->attempts)
        e->over = 1; /* what was recalled is still on its way */
    else
        htc__grids_exact_closes(x, job);
}

/* ---- it comes ---- */

static int take_job(grids_exact *x, uint32_t *job)
{
    grids *m = &x->m;
    *job = m->free_job;
    if (*job != GRIDS_NONE) {
        m->free_job = x->job[*job].j.first_task;
        return 1;
    }
    if (m->jobs_made >= m->options.active_max) {
        htc__twin_fail(&x->t, HTC_EFULL, "%llu jobs are in the system, and no more may be: is it overloaded? Else raise active_max", (unsigned long long)m->active);
        return 0;
    }
    exact_job *all = htc__grids_room(x, x->job, &x->jobs_cap, sizeof *all, m->jobs_made);
    if (!all)
        return 0;
    x->job = all;
    *job = (uint32_t)m->jobs_made++;
    return 1;
}

static void arrive(grids_exact *x)
{
    grids                 *m = &x->m;
    htc_ns                 now = now_of(x);
    uint32_t               job, entry;
    htc_hierarchy_decision d;
    if (!take_job(x, &job))
        return;
    grids_job *j = &x->job[job].j;
    x->job[job] = (exact_job){ .j = { .number = m->next, .stream = htc__scale_stream(m->options.seed, m->next), .arrival = now, .since = now, .first_task = GRIDS_NONE, .state = GRIDS_NO_EVENT } };
    x->first_arrival = m->next ? x->first_arrival : now;
    m->next++;
    htc__grids_draw_job(m, j);
    m->active++;
    m->active_most = m->active > m->active_most ? m->active : m->active_most;
    if (m->next < m->total)
        htc__grids_draw_arrival(m);
    htc_hierarchy_job in = { .size = sizeof in, .id = job, .kflop = j->rho > 0 ? 0 : j->kflop };
    if (htc__grids_call(x, htc_hierarchy_entry(m->hierarchy, &in, &entry), "a job that comes") &&
        htc__grids_call(x, htc_hierarchy_arrive(m->hierarchy, entry, &in, now, &d), "a job that comes")) {
        j->queue = entry;
        obey(x, job, &d);
    }
}

/* ---- limits and sharing, when they are due ---- */

static int enforce_or_share(grids_exact *x, uint32_t queue, int shares)
{
    const htc_hierarchy_decision *out;
    size_t                        n = 0;
    if (shares || x->m.looks_first)
        htc__grids_sample_grids(x);
    if (!htc__grids_call(x, shares ? htc_hierarchy_share(x->m.hierarchy, queue, now_of(x), &out, &n) : htc_hierarchy_enforce(x->m.hierarchy, queue, now_of(x), &out, &n), "limits of a queue"))
        return 0;
    while (n > x->orders_cap) {
        htc_hierarchy_decision *all = htc__grids_room(x, x->orders, &x->orders_cap, sizeof *all, x->orders_cap);
        if (!all)
            return 0;
        x->orders = all;
    }
    if (n)
        memcpy(x->orders, out, n * sizeof *out); /* what is lent ends with the next call */
    for (size_t i = 0; i < n; i++)
        obey(x, (uint32_t)x->orders[i].id, &x->orders[i]);
    for (uint32_t g = 0; n && g < x->m.n_grids && htc__grids_good(x); g++)
        htc__grids_dispatch_grid(x, g);
    return htc__grids_good(x);
}

static void look_at_limits(grids_exact *x)
{
    for (uint32_t rounds = 0; x->m.limits && htc__grids_good(x) && htc_hierarchy_deadline(x->m.hierarchy) <= now_of(x); rounds++) {
        if (rounds > ROUNDS) {
            htc__twin_fail(&x->t, HTC_EINTERNAL, "limits stay due, whatever is done");
            return;
        }
        for (uint32_t q = 0; q < x->m.n_queues; q++) {
            htc_hierarchy_queue_info info;
            if (!htc__grids_call(x, htc_hierarchy_get_queue(x->m.hierarchy, q, &info), "a queue") || (info.enforce_at <= now_of(x) && !enforce_or_share(x, q, 0)) ||
                (info.share_at <= now_of(x) && !enforce_or_share(x, q, 1)))
                return;
        }
    }
}

/* ---- the machine ---- */

static htc_ns next_arrival(const grids_exact *x)
{
    return x->m.next < x->m.total ? x->m.next_at : HTC_NEVER;
}

static void whatever_is_due(grids_exact *x)
{
    htc_ns   now = now_of(x);
    uint32_t job;
    look_at_limits(x);
    while (htc__grids_good(x) && (htc__due_first(&x->due, &job) <= now || next_arrival(x) <= now)) {
        if (htc__due_first(&x->due, &job) <= now)
            job_event(x, job);
        else
            arrive(x);
        look_at_limits(x);
    }
}

static htc_status step(void *self, const htc_input *in, htc_output *out)
{
    grids_exact *x = self;
    if (!htc__grids_good(x))
        return HTC_OK;
    x->out = out;
    if (in->kind == HTC_IN_MESSAGE)
        htc__grids_hear_of_grid(x, in);
    if (in->now >= x->t.begin)
        whatever_is_due(x);
    return HTC_OK;
}

static htc_ns deadline(const void *self)
{
    const grids_exact *x = self;
    htc_ns             at = htc__due_first(&x->due, NULL), limits = x->m.limits ? htc_hierarchy_deadline(x->m.hierarchy) : HTC_NEVER;
    if (x->t.begin == HTC_NEVER || !htc__grids_good(x) || !x->m.left)
        return HTC_NEVER;
    at = limits < at ? limits : at;
    at = next_arrival(x) < at ? next_arrival(x) : at;
    return htc__grids_moment(x, at);
}

const htc_machine_ops htc__grids_hierarchy_ops = { .size = sizeof(htc_machine_ops), .step = step, .deadline = deadline };
