/* A run of the fair-share model from its options to its report. */
#include <stdio.h>
#include <string.h>

#include "core/order.h"
#include "core/util.h"
#include "sim/models/fairshare.h"

/* ---- options ---- */

static htc_status known(const htc_sim_fairshare_options *in, htc_sim_fairshare_options *o)
{
    *o = (htc_sim_fairshare_options){ .size = sizeof *o };
    htc_status status = in ? htc__options_copy(o, sizeof *o, in, in->size, offsetof(htc_sim_fairshare_options, tick_ns)) : HTC_EINVAL;
    o->tick_ns = o->tick_ns ? o->tick_ns : HTC_MS;
    if (status == HTC_OK && (o->cores < 1 || o->cores > HTC_SIM_FAIRSHARE_CORES_MAX || !o->users || o->n_users < 1 || o->n_users > HTC_SIM_FAIRSHARE_USERS_MAX ||
                             !o->jobs || o->n_jobs < 1 || o->n_jobs > HTC_SIM_FAIRSHARE_JOBS_MAX || o->policy > HTC_ALLOT_FCFS))
        status = HTC_EINVAL;
    return status;
}

/* User and job i, once these are checked. */
static htc_sim_fairshare_user user_at(const htc_sim_fairshare_options *o, size_t i)
{
    htc_sim_fairshare_user u = { 0 };
    (void)htc__options_at(&u, sizeof u, o->users, i, offsetof(htc_sim_fairshare_user, reserved));
    return u;
}

static htc_sim_fairshare_job job_at(const htc_sim_fairshare_options *o, size_t i)
{
    htc_sim_fairshare_job j = { 0 };
    (void)htc__options_at(&j, sizeof j, o->jobs, i, sizeof j);
    return j;
}

static uint64_t tables(const htc_sim_fairshare_options *o)
{
    return o->cores * sizeof(uint32_t) + o->n_users * (sizeof(fair_user) + sizeof(htc_allot_user) + sizeof(htc_allot_change) + sizeof(uint64_t)) +
           o->n_jobs * (sizeof(fair_job) + sizeof(size_t));
}

static htc_scale_options engine_of(const htc_sim_fairshare_options *o, fair *m)
{
    return (htc_scale_options){ .size = sizeof(htc_scale_options), .seed = o->seed, .ids = o->cores + FAIR_IDS, .cores = o->cores, .tick_ns = o->tick_ns,
                                .event = htc__fair_event, .ctx = m, .host = o->host };
}

htc_status htc_sim_fairshare_memory(const htc_sim_fairshare_options *options, uint64_t *bytes)
{
    htc_sim_fairshare_options o;
    htc_status                status = bytes ? known(options, &o) : HTC_EINVAL;
    uint64_t                  engine = 0;
    if (status == HTC_OK) {
        htc_scale_options e = engine_of(&o, NULL);
        status = htc_scale_memory(&e, &engine);
    }
    if (status == HTC_OK)
        *bytes = sizeof(fair) + tables(&o) + engine;
    return status;
}

static htc_status check_users(const htc_sim_fairshare_options *o, htc_error *error)
{
    for (size_t i = 0; i < o->n_users; i++) {
        htc_sim_fairshare_user u = { 0 };
        htc_status             status = htc__options_at(&u, sizeof u, o->users, i, offsetof(htc_sim_fairshare_user, reserved));
        if (status == HTC_OK && (!(u.weight >= 0) || u.weight > (double)HTC_ALLOT_WEIGHT_MAX / (double)HTC_ALLOT_WEIGHT_ONE || u.fixed > 1))
            status = HTC_EINVAL;
        if (status != HTC_OK)
            return htc__error(error, status, "the size or the weight of user %zu is out of range", i);
    }
    return HTC_OK;
}

static htc_status check_jobs(const htc_sim_fairshare_options *o, uint64_t fixed, htc_error *error)
{
    uint64_t tasks = 0;
    for (size_t i = 0; i < o->n_jobs; i++) {
        htc_sim_fairshare_job j = { 0 };
        htc_status            status = htc__options_at(&j, sizeof j, o->jobs, i, sizeof j);
        if (status == HTC_OK && (j.user >= o->n_users || j.tasks == 0 || htc_scale_law_check(&j.length) != HTC_OK || j.tasks > UINT64_MAX / 2 - tasks))
            status = HTC_EINVAL;
        if (status != HTC_OK)
            return htc__error(error, status, "job %zu has no size, no such user, no tasks, or lengths that are no distribution", i);
        if (o->policy == HTC_ALLOT_STATIC && fixed && !user_at(o, j.user).fixed)
            return htc__error(error, HTC_EINVAL, "job %zu would never run: its user has no share under the policy static", i);
        tasks += j.tasks;
    }
    if (o->policy == HTC_ALLOT_STATIC && (fixed ? fixed : o->n_users) > o->cores)
        return htc__error(error, HTC_EINVAL, "%llu cores cannot be split among %llu users for good", (unsigned long long)o->cores,
                          (unsigned long long)(fixed ? fixed : o->n_users));
    return HTC_OK;
}

/* ---- a run ---- */

static uint64_t ticks(const fair *m, htc_ns span)
{
    return htc_scale_ticks(m->scale, span);
}

static int before_arrival(const void *ctx, size_t a, size_t b)
{
    const fair_job *job = ctx;
    return job[a].arrival != job[b].arrival ? job[a].arrival < job[b].arrival : a < b;
}

static void fill(fair *m, uint64_t fixed)
{
    const htc_sim_fairshare_options *o = &m->options;
    m->launch = ticks(m, o->launch_ns);
    m->pull = ticks(m, o->pull_ns);
    m->leave = ticks(m, o->leave_ns);
    m->gap = ticks(m, o->gap_ns);
    m->sample = o->sample_ns && !ticks(m, o->sample_ns) ? 1 : ticks(m, o->sample_ns);
    for (uint64_t c = 0; c < o->cores; c++)
        m->core[c] = (uint32_t)c + 1;
    m->now.free = o->cores;
    for (size_t i = 0; i < o->n_users; i++) {
        htc_sim_fairshare_user u = user_at(o, i);
        m->user[i] = (fair_user){ .first = FAIR_NONE, .at = FAIR_NONE, .submitted = UINT64_MAX, .fixed = !fixed || u.fixed,
                                  .weight = htc_allot_weight(u.weight > 0 ? u.weight : 1) };
    }
    for (size_t i = 0; i < o->n_jobs; i++) {
        htc_sim_fairshare_job j = job_at(o, i);
        m->job[i] = (fair_job){ .user = j.user, .next = FAIR_NONE, .tasks = j.tasks, .arrival = ticks(m, j.arrival),
                                .stream = htc__scale_stream(o->seed, i), .length = htc__scale_drawer_of(&j.length, o->tick_ns) };
        m->arrivals[i] = i;
        m->now.tasks += j.tasks;
    }
    m->now.left = m->now.tasks;
    htc__order_sort(m->arrivals, o->n_jobs, before_arrival, m->job);
}

static void close_model(fair *m)
{
    size_t users = m->options.n_users, jobs = m->options.n_jobs;
    htc_scale_destroy(m->scale);
    htc__free(&m->env, m->core, m->options.cores * sizeof *m->core);
    htc__free(&m->env, m->user, users * sizeof *m->user);
    htc__free(&m->env, m->view, users * sizeof *m->view);
    htc__free(&m->env, m->change, users * sizeof *m->change);
    htc__free(&m->env, m->held, users * sizeof *m->held);
    htc__free(&m->env, m->job, jobs * sizeof *m->job);
    htc__free(&m->env, m->arrivals, jobs * sizeof *m->arrivals);
}

static htc_status open_model(fair *m, htc_error *error)
{
    size_t            users = m->options.n_users, jobs = m->options.n_jobs;
    htc_scale_options e = engine_of(&m->options, m);
    for (size_t j = 0; j < jobs; j++)
        e.tasks += job_at(&m->options, j).tasks;
    htc_status status = htc_scale_create(&m->env, &e, &m->scale, error);
    if (status != HTC_OK)
        return status;
    m->core = htc__alloc_raw(&m->env, m->options.cores * sizeof *m->core);
    m->user = htc__alloc_raw(&m->env, users * sizeof *m->user);
    m->view = htc__alloc_raw(&m->env, users * sizeof *m->view);
    m->change = htc__alloc_raw(&m->env, users * sizeof *m->change);
    m->held = htc__alloc_raw(&m->env, users * sizeof *m->held);
    m->job = htc__alloc_raw(&m->env, jobs * sizeof *m->job);
    m->arrivals = htc__alloc_raw(&m->env, jobs * sizeof *m->arrivals);
    if (!m->core || !m->user || !m->view || !m->change || !m->held || !m->job || !m->arrivals)
        return htc__error(error, HTC_ENOMEM, "no memory for the model");
    return HTC_OK;
}

/* ---- a checkpoint ---- */

/* What an experiment is: another one's checkpoint is refused. */
static uint64_t print_of(const fair *m)
{
    const htc_sim_fairshare_options *o = &m->options;
    uint64_t numbers[] = { o->cores, o->policy, o->min_agents, o->n_users, o->n_jobs, m->launch, m->pull, m->leave, m->gap, m->sample };
    uint64_t print = htc_hash64((htc_bytes){ numbers, sizeof numbers }, o->seed);
    for (size_t i = 0; i < o->n_users; i++)
        print = htc_hash64((htc_bytes){ &m->user[i].weight, sizeof m->user[i].weight }, print + m->user[i].fixed);
    for (size_t i = 0; i < o->n_jobs; i++) {
        htc_sim_fairshare_job j = job_at(o, i);
        print = htc_hash64((htc_bytes){ &j.user, sizeof j - offsetof(htc_sim_fairshare_job, user) }, print);
    }
    return print;
}

static htc_status move_model(fair *m, const htc_scale_tape *tape)
{
    const htc_sim_fairshare_options *o = &m->options;
    uint64_t                         head[] = { print_of(m), sizeof m->now, sizeof *m->user, sizeof *m->job }, found[4];
    memcpy(found, head, sizeof head);
    htc_status status = tape->move(tape->ctx, found, sizeof found);
    if (status == HTC_OK && memcmp(found, head, sizeof head) != 0)
        status = HTC_EFORMAT;
    if (status == HTC_OK)
        status = tape->move(tape->ctx, &m->now, sizeof m->now);
    if (status == HTC_OK && (m->now.views > o->n_users || m->now.arrived > o->n_jobs || m->now.free > o->cores))
        status = HTC_ECORRUPT;
    if (status == HTC_OK)
        status = tape->move(tape->ctx, m->core, o->cores * sizeof *m->core);
    if (status == HTC_OK)
        status = tape->move(tape->ctx, m->user, o->n_users * sizeof *m->user);
    if (status == HTC_OK)
        status = tape->move(tape->ctx, m->view, m->now.views * sizeof *m->view);
    if (status == HTC_OK)
        status = tape->move(tape->ctx, m->job, o->n_jobs * sizeof *m->job);
    return status == HTC_OK ? htc_scale_move(m->scale, tape) : status;
}

/* ---- what is told ---- */

static double seconds(const fair *m, uint64_t n)
{
    return (double)n * (double)m->options.tick_ns / 1e9;
}

static void tell_users(const fair *m, htc_sim_fairshare_result *results)
{
    uint64_t now = htc_scale_now(m->scale);
    for (size_t u = 0; results && u < m->options.n_users; u++) {
        const fair_user *user = &m->user[u];
        results[u] = (htc_sim_fairshare_result){ .tasks = user->tasks, .ended = user->ended, .submitted = HTC_NEVER, .agents = user->agents_started,
                                                 .core_s = seconds(m, user->cores * now - user->held_since), .work_s = seconds(m, user->work) };
        if (user->tasks)
            results[u].submitted = user->submitted * m->options.tick_ns;
        if (user->ended) {
            results[u].makespan = (user->last_end - user->submitted) * m->options.tick_ns;
            results[u].response_s = seconds(m, user->response) / (double)user->ended;
        }
    }
}

static void tell(const fair *m, htc_sim_fairshare_report *r)
{
    uint64_t engine = 0;
    htc_scale_report_get(m->scale, &r->scale);
    (void)htc_sim_fairshare_memory(&m->options, &engine);
    r->memory = engine;
    r->divisions = m->now.divisions;
    for (size_t u = 0; u < m->options.n_users; u++)
        r->agents += m->user[u].agents_started;
    double span = (double)r->scale.makespan / 1e9;
    r->throughput = span > 0 ? (double)r->scale.ended / span : 0;
    r->efficiency = span > 0 ? r->scale.busy_s / ((double)m->options.cores * span) : 0;
    r->idle_s = seconds(m, m->now.idle);
    r->fairness = m->now.samples ? m->now.fairness / (double)m->now.samples : 1;
    if (!r->interrupted && !r->scale.wrong[0] && (m->now.free != m->options.cores || m->now.queued || m->now.running))
        snprintf(r->scale.wrong, sizeof r->scale.wrong, "%llu of %llu cores are free in the end", (unsigned long long)m->now.free, (unsigned long long)m->options.cores);
}

htc_status htc_sim_fairshare_run(const htc_env *env, const htc_sim_fairshare_options *options, htc_sim_fairshare_report *report,
                                 htc_sim_fairshare_result *results, htc_error *error)
{
    htc_sim_fairshare_report r = { .size = sizeof r, .scale.size = sizeof r.scale };
    fair                     m = { 0 };
    uint64_t                 bytes = 0, fixed = 0;
    htc_status               status = report && report->size >= offsetof(htc_sim_fairshare_report, scale) ? known(options, &m.options) : HTC_EINVAL;
    if (status != HTC_OK)
        return htc__error(error, status, "the options of the run are out of range");
    status = check_users(&m.options, error);
    for (size_t u = 0; status == HTC_OK && u < m.options.n_users; u++)
        fixed += user_at(&m.options, u).fixed;
    if (status == HTC_OK)
        status = check_jobs(&m.options, fixed, error);
    if (status != HTC_OK)
        return status;
    (void)htc_sim_fairshare_memory(&m.options, &bytes);
    if (m.options.host && m.options.host->memory_max && bytes > m.options.host->memory_max)
        return htc__error(error, HTC_ETOOBIG, "%llu cores, %zu users and %zu jobs need %llu MiB, and %llu MiB are allowed", (unsigned long long)m.options.cores,
                          m.options.n_users, m.options.n_jobs, (unsigned long long)(bytes >> 20), (unsigned long long)(m.options.host->memory_max >> 20));
    if (env)
        m.env = *env;
    m.allot = (htc_allot_options){ .size = sizeof m.allot, .policy = m.options.policy, .min_agents = m.options.min_agents,
                                   .fixed_users = fixed ? fixed : m.options.n_users };
    status = open_model(&m, error);
    if (status == HTC_OK) {
        fill(&m, fixed);
        if (!m.options.resume)
            htc__fair_begin(&m);
        else if ((status = move_model(&m, m.options.resume)) != HTC_OK)
            htc__error(error, status, "the checkpoint is not of this experiment");
    }
    if (status == HTC_OK) {
        status = htc_scale_run(m.scale);
        r.interrupted = status == HTC_AGAIN;
        if (r.interrupted && m.options.checkpoint && (status = move_model(&m, m.options.checkpoint)) != HTC_OK)
            htc__error(error, status, "the checkpoint could not be written");
        else if (status < 0)
            htc__error(error, status, "the run cannot go on: %s", status == HTC_ETOOBIG ? "it takes more ticks than there are; make them longer" : htc_strerror(status));
        status = status == HTC_AGAIN ? HTC_OK : status;
    }
    if (status == HTC_OK) {
        tell(&m, &r);
        tell_users(&m, results);
        status = htc__options_give(report, &r, sizeof r, offsetof(htc_sim_fairshare_report, scale));
    }
    close_model(&m);
    return status;
}
