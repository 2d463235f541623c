/* An experiment of fair sharing with the real gateway, store and agents: the exact twin of lib/sim/models/fairshare.c (htcsched/sim_fairshare.h). */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/order.h"
#include "htcsched/sim_fairshare.h"
#include "roles/gateway/gateway.h"
#include "sim/models/fairshare.h"
#include "sim/scenarios/counted.h"
#include "sim/scenarios/progress.h"
#include "sim/scenarios/system_private.h"

#define WORLD_END (UINT64_C(400) * 24 * 3600 * HTC_SECOND) /* no run takes longer */
#define HOUR      (3600 * HTC_SECOND)
#define TIMEOUT   (600 * HTC_SECOND) /* the gateway's launch_timeout_ns */

/* What a job is in the system, and what its tasks' lengths are drawn with. */
typedef struct exact_job {
    htc_sim_fairshare_job job;
    htc__scale_drawer     length;
    uint64_t              stream;
    sys_job              *made;
} exact_job;

typedef struct exact_user {
    char                     name[24];
    uint64_t                 weight, cores, core_ns;
    htc_sim_fairshare_result result;
    htc_ns                   last_end;
    double                   response_s;
} exact_user;

typedef struct exact {
    counted                         memory;
    htc_scale_host                  host;
    progress                        progress; /* that it is told */
    htc_sim_fairshare_options       options;
    htc_sim_fairshare_exact_options costs;
    exact_job                      *job;
    exact_user                     *user;
    const char                    **fair_users; /* of static; NULL at the end */
    uint64_t                       *cores;      /* of each user, for a sample */
    size_t                         *arrivals, arrived;
    uint64_t                        arrived_tasks, moved; /* moved: tasks that had ended when the last one did */
    htc_ns                          moved_at, patience; /* patience: a task ends within this, or none will */
    int                             is_stuck;
    uint64_t                        tasks, ended, work_ns, longest, samples;
    htc_ns                          begin, every;
    double                          fairness;
    sys                            *s;
} exact;

/* ---- what it is given ---- */

static htc_status options_of(exact *x, const htc_sim_fairshare_options *in, const htc_sim_fairshare_exact_options *costs)
{
    htc_sim_fairshare_options *o = &x->options;
    htc_status                 status = htc__fair_options(in, o);
    x->costs = (htc_sim_fairshare_exact_options){ .size = sizeof x->costs };
    if (status == HTC_OK && costs)
        status = htc__options_copy(&x->costs, sizeof x->costs, costs, costs->size, sizeof x->costs);
    x->host = (htc_scale_host){ .size = sizeof x->host };
    if (status == HTC_OK && o->host)
        status = htc__options_copy(&x->host, sizeof x->host, o->host, o->host->size, sizeof(size_t));
    if (status != HTC_OK)
        return status;
    x->costs.commit_ns = x->costs.commit_ns ? x->costs.commit_ns : 2 * HTC_MS;
    x->costs.stage_ns = x->costs.stage_ns ? x->costs.stage_ns : HTC_MS;
    x->costs.jitter_ns = x->costs.jitter_ns ? x->costs.jitter_ns : 20 * HTC_US;
    x->costs.slots = x->costs.slots ? x->costs.slots : 1;
    if (x->costs.commit_ns > HOUR || x->costs.stage_ns > HOUR || x->costs.jitter_ns > HOUR)
        return HTC_EINVAL;
    x->every = !o->sample_ns ? HTC_SECOND : o->sample_ns > o->tick_ns ? o->sample_ns : o->tick_ns;
    if (o->cores > HTC_SIM_FAIRSHARE_EXACT_CORES_MAX || o->n_users > HTC_SIM_FAIRSHARE_EXACT_USERS_MAX || o->n_jobs > HTC_SIM_FAIRSHARE_EXACT_USERS_MAX)
        return HTC_ETOOBIG;
    return o->n_clusters > SYS_SITES_MAX || o->direct || o->records || o->estimated || o->output_ns || o->resume || o->checkpoint || o->weigher || o->next_job ? HTC_EUNSUPPORTED : HTC_OK;
}

static htc_status take_workload(exact *x)
{
    const htc_sim_fairshare_options *o = &x->options;
    for (size_t k = 0; k < o->n_clusters; k++) {
        htc_sim_fairshare_cluster c = htc__fair_cluster_at(o, k);
        if (c.speed != 1 || c.service_ns || c.hold > 0 || c.hold_rate > 0 || c.life_ns || c.others || c.others_gap.mean_ns > 0)
            return HTC_EUNSUPPORTED;
    }
    for (size_t u = 0; u < o->n_users; u++) {
        double weight = htc__fair_user_at(o, u).weight;
        x->user[u].weight = weight > 0 ? (uint64_t)weight : 1;
        if (weight > 0 && (double)x->user[u].weight != weight)
            return HTC_EUNSUPPORTED;
        snprintf(x->user[u].name, sizeof x->user[u].name, "u%zu", u);
        x->user[u].result.submitted = HTC_NEVER;
    }
    for (size_t j = 0; j < o->n_jobs; j++) {
        exact_job *e = &x->job[j];
        e->job = htc__fair_job_at(o, j);
        e->length = htc__scale_drawer_of(&e->job.length, o->tick_ns);
        e->stream = htc__scale_stream(o->seed, j);
        exact_user *u = &x->user[e->job.user];
        u->result.tasks += e->job.tasks;
        u->result.submitted = e->job.arrival < u->result.submitted ? e->job.arrival : u->result.submitted;
        x->tasks += e->job.tasks;
        x->arrivals[j] = j;
    }
    return x->tasks > HTC_SIM_FAIRSHARE_EXACT_TASKS_MAX ? HTC_ETOOBIG : HTC_OK;
}

/* ---- its world ---- */

static htc_ns length_of(const exact *x, size_t j, uint64_t number)
{
    return htc__scale_drawer_ticks(&x->job[j].length, htc__scale_draw(x->job[j].stream, number)) * x->options.tick_ns;
}

static void run_task(sys *s, const char *whose, const htc_attempt *a, sys_run *run)
{
    exact *x = s->options.ctx;
    (void)whose;
    for (size_t j = 0; j < x->options.n_jobs; j++)
        if (x->job[j].made && x->job[j].made->id == a->job) {
            run->span = length_of(x, j, a->task);
            return;
        }
}

/* 1: at best it takes longer than a run may. Else it is known how long to wait for a task at most, with room for waits of the gateway. */
static int takes_too_long(exact *x)
{
    const htc_sim_fairshare_options *o = &x->options;
    htc_ns                           longest = WORLD_END / o->tick_ns;
    double                           work = 0;
    for (size_t j = 0; j < o->n_jobs; j++) {
        const exact_job *e = &x->job[j];
        if (e->job.arrival > WORLD_END)
            return 1;
        for (uint64_t i = 0; i < e->job.tasks; i++) {
            htc_ns ticks = htc__scale_drawer_ticks(&e->length, htc__scale_draw(e->stream, i));
            if (ticks > longest || ticks * o->tick_ns > WORLD_END - e->job.arrival)
                return 1;
            work += (double)ticks;
            x->patience = ticks * o->tick_ns > x->patience ? ticks * o->tick_ns : x->patience;
        }
    }
    x->patience = 2 * (x->patience + (o->launch_ns < WORLD_END ? o->launch_ns : WORLD_END) + 2 * x->costs.stage_ns + 20 * (x->costs.commit_ns + x->costs.jitter_ns)) + HOUR;
    return o->launch_ns > WORLD_END || work * (double)o->tick_ns / (double)o->cores > (double)WORLD_END;
}

static htc_status open_world(exact *x)
{
    static const char *const policies[] = { "eq1", "static", "maxmin", "fcfs" };
    static const char *const names[SYS_SITES_MAX] = { "one", "two", "three", "four" };
    const htc_sim_fairshare_options *o = &x->options;
    sys_options                      w = { .sim = { .seed = o->seed },
                                           .net = { .jitter_ns = x->costs.jitter_ns },
                                           .commit_ns = x->costs.commit_ns,
                                           .launch_ns = o->launch_ns,
                                           .stage_ns = x->costs.stage_ns,
                                           .n_sites = (uint32_t)o->n_clusters,
                                           .run = run_task,
                                           .ctx = x,
                                           .check_every = 50,
                                           .gateway = { .policy = policies[o->policy], .slots_max = x->costs.slots, .prefetch_max = x->costs.prefetch, .min_agents = o->min_agents,
                                                        .heartbeat_ns = 100 * HTC_SECOND, .lost_after_ns = 300 * HTC_SECOND, .launch_timeout_ns = TIMEOUT + o->launch_ns,
                                                        .weight_profiled = o->gamma != 0, .gamma = o->gamma,
                                                        .fair_users = o->policy == HTC_ALLOT_STATIC ? x->fair_users : NULL } };
    for (size_t k = 0; k < o->n_clusters; k++)
        w.sites[k] = (htc_site_options){ .size = sizeof(htc_site_options), .name = names[k], .cores = (uint32_t)htc__fair_cluster_at(o, k).cores };
    htc_status status = htc__sys_open(&x->memory.env, &w, &x->s);
    if (status != HTC_OK)
        return status;
    for (size_t u = 0; u < o->n_users; u++)
        htc__sys_add_account(x->s, x->user[u].name, x->user[u].weight);
    while (!htc__sys_accounts_ready(x->s) && htc_sim_next(x->s->w) == HTC_OK)
        ;
    htc__sys_watch_jobs(x->s, HTC_SECOND);
    x->begin = htc_sim_now(x->s->w);
    return HTC_OK;
}

/* ---- its course ---- */

static void count_cores(exact *x)
{
    const htc_gateway *gw = htc_sim_machine(x->s->gateway);
    for (size_t u = 0; u < x->options.n_users; u++)
        x->cores[u] = 0;
    for (const agent *a = gw ? gw->agents : NULL; a; a = a->hh.next)
        x->cores[strtoul(a->user->name + 1, NULL, 10)] += a->n_slots;
}

/* Jain's index over users with tasks that wait. */
static uint64_t add_fairness(exact *x)
{
    const htc_gateway *gw = htc_sim_machine(x->s->gateway);
    double             sum = 0, squares = 0, n = 0;
    uint64_t           queued = 0;
    for (const user *u = gw ? gw->users : NULL; u; u = u->hh.next) {
        queued += u->queued;
        if (u->name[0] == 'u' && u->queued) {
            double share = (double)x->cores[strtoul(u->name + 1, NULL, 10)] / (double)u->weight;
            sum += share;
            squares += share * share;
            n++;
        }
    }
    if (squares > 0) {
        x->fairness += sum * sum / (n * squares);
        x->samples++;
    }
    return queued;
}

static void take_sample(exact *x)
{
    count_cores(x);
    uint64_t queued = add_fairness(x), all = 0;
    for (size_t u = 0; u < x->options.n_users; u++) {
        x->user[u].core_ns += x->cores[u] * x->every;
        all += x->cores[u];
    }
    if (x->options.sample)
        x->options.sample(x->options.sample_ctx,
                          &(htc_sim_fairshare_sample){ .size = sizeof(htc_sim_fairshare_sample), .at = htc_sim_now(x->s->w) - x->begin, .queued = queued, .running = all,
                                                       .ended = x->s->committed, .cores = x->cores, .n_users = x->options.n_users });
}

static void submit_due(exact *x)
{
    for (htc_ns at = htc_sim_now(x->s->w) - x->begin; x->arrived < x->options.n_jobs; x->arrived++) {
        exact_job *j = &x->job[x->arrivals[x->arrived]];
        char       name[24];
        if (j->job.arrival > at)
            return;
        snprintf(name, sizeof name, "%zu", x->arrivals[x->arrived]);
        x->arrived_tasks += j->job.tasks;
        x->moved_at = at;
        j->made = htc__sys_submit(x->s, x->user[j->job.user].name, name, j->job.tasks);
    }
}

static void tell_progress(exact *x)
{
    htc__progress_tell(&x->progress, &x->host, (htc_scale_progress){ .done = x->s->committed, .total = x->tasks, .events = htc_sim_events(x->s->w),
                                                                     .at = htc_sim_now(x->s->w) - x->begin });
}

/* Tasks wait, and for long none has ended: then none will. */
static int is_stuck(exact *x)
{
    htc_ns at = htc_sim_now(x->s->w) - x->begin;
    if (x->s->committed != x->moved || x->s->committed == x->arrived_tasks) {
        x->moved = x->s->committed;
        x->moved_at = at;
    }
    x->is_stuck = at - x->moved_at > x->patience;
    return x->is_stuck;
}

static int is_stopped(const exact *x)
{
    const htc_scale_host *h = &x->host;
    return (h->stop && *h->stop) || (h->stop_after && htc_sim_events(x->s->w) >= h->stop_after);
}

/* A step is the time until the next sample or arrival. 1: it has ended; 0: the host has stopped it. */
static int run_world(exact *x)
{
    const htc_sim_fairshare_options *o = &x->options;
    for (htc_ns sample = 0; sample < WORLD_END; sample += x->every) {
        while (x->arrived < o->n_jobs && x->job[x->arrivals[x->arrived]].job.arrival <= sample) {
            htc__sys_run_until(x->s, x->begin + x->job[x->arrivals[x->arrived]].job.arrival);
            submit_due(x);
        }
        htc__sys_run_until(x->s, x->begin + sample);
        take_sample(x);
        tell_progress(x);
        if (htc_sim_failure(x->s->w) || x->s->no_memory || x->memory.too_big || (x->arrived == o->n_jobs && htc__sys_all_finished(x->s)) || is_stuck(x))
            return 1;
        if (is_stopped(x))
            return 0;
    }
    return 1;
}

/* ---- what is told ---- */

static void gather_task(exact *x, size_t j, uint64_t number)
{
    const exact_job *e = &x->job[j];
    exact_user      *u = &x->user[e->job.user];
    const sys_task  *done = htc__sys_task_of(x->s, e->made->id, number);
    if (!done->committed)
        return;
    htc_ns length = length_of(x, j, number), ended = done->ended - x->begin;
    x->ended++;
    x->work_ns += length;
    x->longest = length > x->longest ? length : x->longest;
    u->result.ended++;
    u->result.work_s += (double)length / 1e9;
    u->response_s += (double)(ended - e->job.arrival) / 1e9;
    u->last_end = ended > u->last_end ? ended : u->last_end;
}

static void gather(exact *x, htc_sim_fairshare_result *results)
{
    for (size_t j = 0; j < x->options.n_jobs; j++)
        for (uint64_t i = 0; x->job[j].made && x->job[j].made->id && i < x->job[j].job.tasks; i++)
            gather_task(x, j, i);
    for (size_t i = 0; i < x->options.n_users; i++) {
        exact_user *u = &x->user[i];
        u->result.core_s = (double)u->core_ns / 1e9;
        u->result.makespan = u->result.ended ? u->last_end - u->result.submitted : 0;
        u->result.response_s = u->result.ended ? u->response_s / (double)u->result.ended : 0;
        if (results)
            results[i] = u->result;
    }
}

static void tell(const exact *x, htc_sim_fairshare_report *r)
{
    htc_scale_report *s = &r->scale;
    htc_ns            first = HTC_NEVER, last = 0;
    const char       *wrong = htc_sim_failure(x->s->w);
    r->cores = x->options.cores;
    r->agents = x->s->agents_launched;
    for (size_t u = 0; u < x->options.n_users; u++) {
        first = x->user[u].result.submitted < first ? x->user[u].result.submitted : first;
        last = x->user[u].last_end > last ? x->user[u].last_end : last;
        r->response_s += x->user[u].response_s;
    }
    s->finished = !r->interrupted;
    s->events = s->events_here = htc_sim_events(x->s->w);
    s->submitted = x->tasks;
    s->ended = s->ended_here = x->ended;
    s->hash = htc_sim_hash(x->s->w);
    s->memory = r->memory = x->memory.peak;
    s->span = htc_sim_now(x->s->w) - x->begin;
    s->makespan = last > first ? last - first : 0;
    s->longest = x->longest;
    s->work_s = s->busy_s = (double)x->work_ns / 1e9;
    s->bound_s = s->work_s / (double)x->options.cores;
    s->bound_s = s->bound_s > (double)x->longest / 1e9 ? s->bound_s : (double)x->longest / 1e9;
    double span = (double)s->makespan / 1e9;
    r->throughput = span > 0 ? (double)x->ended / span : 0;
    r->efficiency = span > 0 ? s->work_s / ((double)x->options.cores * span) : 0;
    r->completed = (double)x->ended / (double)x->tasks;
    r->response_s = x->ended ? r->response_s / (double)x->ended : 0;
    r->fairness = x->samples ? x->fairness / (double)x->samples : 1;
    if (wrong)
        snprintf(s->wrong, sizeof s->wrong, "%s", wrong);
    else if (x->is_stuck)
        snprintf(s->wrong, sizeof s->wrong, "%" PRIu64 " of %" PRIu64 " tasks have ended, and none in the last %.0f s: are costs too high?", x->ended, x->tasks, (double)x->patience / 1e9);
    else if (!r->interrupted && x->ended != x->tasks)
        snprintf(s->wrong, sizeof s->wrong, "%" PRIu64 " of %" PRIu64 " tasks have ended, after %.0f s", x->ended, x->tasks, (double)s->span / 1e9);
}

/* ---- all ---- */

static int before_arrival(const void *ctx, size_t a, size_t b)
{
    const exact_job *e = ctx;
    return e[a].job.arrival != e[b].job.arrival ? e[a].job.arrival < e[b].job.arrival : a < b;
}

static htc_status open_exact(exact *x)
{
    const htc_sim_fairshare_options *o = &x->options;
    uint64_t                         fixed = 0, shares = 0;
    x->job = htc__alloc(&x->memory.env, o->n_jobs * sizeof *x->job);
    x->user = htc__alloc(&x->memory.env, o->n_users * sizeof *x->user);
    x->cores = htc__alloc(&x->memory.env, o->n_users * sizeof *x->cores);
    x->arrivals = htc__alloc(&x->memory.env, o->n_jobs * sizeof *x->arrivals);
    x->fair_users = htc__alloc(&x->memory.env, (o->n_users + 1) * sizeof *x->fair_users);
    if (!x->job || !x->user || !x->cores || !x->arrivals || !x->fair_users)
        return HTC_ENOMEM;
    htc_status status = take_workload(x);
    if (status != HTC_OK)
        return status;
    if (takes_too_long(x))
        return HTC_ETOOBIG;
    htc__order_sort(x->arrivals, o->n_jobs, before_arrival, x->job);
    for (size_t u = 0; u < o->n_users; u++)
        fixed += htc__fair_user_at(o, u).fixed;
    for (size_t u = 0; u < o->n_users; u++)
        if (!fixed || htc__fair_user_at(o, u).fixed)
            x->fair_users[shares++] = x->user[u].name;
    return open_world(x);
}

static void close_exact(exact *x)
{
    const htc_sim_fairshare_options *o = &x->options;
    if (x->s)
        htc__sys_close(x->s);
    htc__free(&x->memory.env, x->job, o->n_jobs * sizeof *x->job);
    htc__free(&x->memory.env, x->user, o->n_users * sizeof *x->user);
    htc__free(&x->memory.env, x->cores, o->n_users * sizeof *x->cores);
    htc__free(&x->memory.env, x->arrivals, o->n_jobs * sizeof *x->arrivals);
    htc__free(&x->memory.env, x->fair_users, (o->n_users + 1) * sizeof *x->fair_users);
}

static htc_status say_why(const exact *x, htc_status status, htc_error *error)
{
    if (x->memory.too_big)
        return htc__error(error, HTC_ETOOBIG, "the run needs more than the %" PRIu64 " MiB of memory that are allowed", x->host.memory_max >> 20);
    return htc__error(error, status, "%s", status == HTC_EUNSUPPORTED ? "the exact engine has up to four clusters of equal cores, whole weights, agents and the real store, and nothing else" :
           status == HTC_ETOOBIG      ? "the exact engine runs at most 16384 cores, 1024 users, 1024 jobs, 10 million tasks, and 400 days of virtual time" :
           status == HTC_ENOMEM       ? "no memory for the system" :
                                        "the options of the run are out of range");
}

htc_status htc_sim_fairshare_exact(const htc_env *env, const htc_sim_fairshare_options *options, const htc_sim_fairshare_exact_options *exact_options,
                                   htc_sim_fairshare_report *report, htc_sim_fairshare_result *results, htc_error *error)
{
    htc_sim_fairshare_report r = { .size = sizeof r, .scale.size = sizeof r.scale };
    exact                    x = { 0 };
    htc_status               status = report && report->size >= offsetof(htc_sim_fairshare_report, scale) ? options_of(&x, options, exact_options) : HTC_EINVAL;
    if (status == HTC_OK)
        status = htc__fair_check(&x.options, error);
    else
        (void)say_why(&x, status, error);
    if (status != HTC_OK)
        return status;
    htc__counted_open(&x.memory, env, x.host.memory_max);
    htc__progress_begin(&x.progress, &x.host);
    status = open_exact(&x);
    if (status == HTC_OK) {
        r.interrupted = !run_world(&x);
        status = x.s->no_memory || x.memory.too_big || htc_sim_status(x.s->w) == HTC_ENOMEM ? HTC_ENOMEM : HTC_OK;
    }
    if (status != HTC_OK) {
        status = say_why(&x, status, error);
    } else {
        gather(&x, results);
        tell(&x, &r);
        status = htc__options_give(report, &r, sizeof r, offsetof(htc_sim_fairshare_report, scale));
    }
    close_exact(&x);
    return status;
}
