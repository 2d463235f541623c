/* A run of the fair-share model from its options to its report. */
#include <stdio.h>
#include <string.h>

#include "core/order.h"
#include "core/util.h"
#include "sim/models/checked.h"
#include "sim/models/fairshare.h"

/* ---- options ---- */

htc_sim_fairshare_cluster htc__fair_cluster_at(const htc_sim_fairshare_options *o, size_t i)
{
    htc_sim_fairshare_cluster c = { .cores = o->cores };
    if (o->clusters)
        (void)htc__options_at(&c, sizeof c, o->clusters, i, offsetof(htc_sim_fairshare_cluster, speed));
    c.speed = c.speed > 0 ? c.speed : 1;
    c.batch = c.batch ? c.batch : 1;
    return c;
}

static int is_cluster(const htc_sim_fairshare_cluster *c)
{
    return c->cores >= 1 && c->cores <= HTC_SIM_FAIRSHARE_CORES_MAX && c->speed >= 0.001 && c->speed <= 1000 && c->hold >= 0 && c->hold <= 1 && c->hold_rate >= 0 &&
           c->hold_rate <= 1 && c->others <= c->cores && htc_scale_law_check(&c->others_gap) == HTC_OK && htc_scale_law_check(&c->others_length) == HTC_OK;
}

/* All cores; one cluster of them if none is named. */
static htc_status known_clusters(htc_sim_fairshare_options *o)
{
    uint64_t cores = 0;
    if ((o->clusters ? o->n_clusters == 0 : o->n_clusters > 1) || o->n_clusters > HTC_SIM_FAIRSHARE_CLUSTERS_MAX)
        return HTC_EINVAL;
    for (size_t i = 0; o->clusters && i < o->n_clusters; i++) {
        htc_sim_fairshare_cluster c = { 0 };
        htc_status                status = htc__options_at(&c, sizeof c, o->clusters, i, offsetof(htc_sim_fairshare_cluster, speed));
        c = htc__fair_cluster_at(o, i);
        if (status != HTC_OK || !is_cluster(&c))
            return status != HTC_OK ? status : HTC_EINVAL;
        cores += c.cores;
    }
    if (o->clusters && o->cores && o->cores != cores)
        return HTC_EINVAL;
    o->cores = o->clusters ? cores : o->cores;
    o->n_clusters = o->clusters ? o->n_clusters : 1;
    return HTC_OK;
}

static int have_others(const htc_sim_fairshare_options *o)
{
    for (size_t i = 0; i < o->n_clusters; i++)
        if (htc__fair_cluster_at(o, i).others_gap.mean_ns > 0)
            return 1;
    return 0;
}

htc_status htc__fair_options(const htc_sim_fairshare_options *in, htc_sim_fairshare_options *o)
{
    *o = (htc_sim_fairshare_options){ .size = sizeof *o };
    htc_status status = in ? htc__options_copy(o, sizeof *o, in, in->size, offsetof(htc_sim_fairshare_options, tick_ns)) : HTC_EINVAL;
    o->tick_ns = o->tick_ns ? o->tick_ns : HTC_MS;
    o->sync_ns = o->sync_ns ? o->sync_ns : 5 * HTC_MS;
    o->weigh_ns = o->weigh_ns ? o->weigh_ns : 5 * HTC_SECOND;
    o->held_ns = o->held_ns ? o->held_ns : 600 * HTC_SECOND;
    o->lost_ns = o->lost_ns ? o->lost_ns : 30 * HTC_SECOND;
    if (status == HTC_OK)
        status = known_clusters(o);
    if (status == HTC_OK && (o->choice > HTC_SIM_FAIRSHARE_FIRST || o->direct > 1 || o->records > HTC_SIM_FAIRSHARE_GROUPED || o->estimated > 1 || !(o->gamma >= -1 && o->gamma <= 1)))
        status = HTC_EINVAL;
    if (status == HTC_OK && (o->cores < 1 || o->cores > HTC_SIM_FAIRSHARE_CORES_MAX || !o->users || o->n_users < 1 || o->n_users > HTC_SIM_FAIRSHARE_USERS_MAX ||
                             (o->next_job ? o->jobs || o->n_jobs : !o->jobs || o->n_jobs < 1) || o->n_jobs > HTC_SIM_FAIRSHARE_JOBS_MAX || o->policy > HTC_ALLOT_FCFS))
        status = HTC_EINVAL;
    return status;
}

/* User and job i, once these are checked. */
htc_sim_fairshare_user htc__fair_user_at(const htc_sim_fairshare_options *o, size_t i)
{
    htc_sim_fairshare_user u = { 0 };
    (void)htc__options_at(&u, sizeof u, o->users, i, offsetof(htc_sim_fairshare_user, reserved));
    return u;
}

htc_sim_fairshare_job htc__fair_job_at(const htc_sim_fairshare_options *o, size_t i)
{
    htc_sim_fairshare_job j = { 0 };
    (void)htc__options_at(&j, sizeof j, o->jobs, i, sizeof j);
    return j;
}

static uint64_t tables(const htc_sim_fairshare_options *o)
{
    return o->cores * sizeof(uint32_t) + o->n_users * (sizeof(fair_user) + sizeof(htc_allot_user) + sizeof(htc_allot_change) + sizeof(uint64_t)) +
           o->n_jobs * (sizeof(fair_job) + sizeof(size_t)) + o->n_clusters * sizeof(fair_cluster) +
           (htc__fair_weighs(o) ? o->cores * sizeof(uint64_t) + o->n_users * (2 * sizeof(uint64_t) + sizeof(double)) : 0) + (o->weigher ? o->n_users * sizeof(htc_allot_facts) : 0);
}

static htc_scale_options engine_of(const htc_sim_fairshare_options *o, fair *m)
{
    return (htc_scale_options){ .size = sizeof(htc_scale_options), .seed = o->seed, .ids = o->cores + FAIR_IDS + (have_others(o) ? o->n_clusters : 0) + htc__fair_weighs(o), .cores = o->cores, .tick_ns = o->tick_ns,
                                .event = htc__fair_event, .ctx = m, .host = o->host };
}

htc_status htc_sim_fairshare_memory(const htc_sim_fairshare_options *options, uint64_t *bytes)
{
    htc_sim_fairshare_options o;
    htc_status                status = bytes ? htc__fair_options(options, &o) : HTC_EINVAL;
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
        if (status == HTC_OK && htc__fair_weighs(o) && u.weight > 4194304.0) /* a priority, in units of 1/1024 */
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
        if (o->policy == HTC_ALLOT_STATIC && fixed && !htc__fair_user_at(o, j.user).fixed)
            return htc__error(error, HTC_EINVAL, "job %zu would never run: its user has no share under the policy static", i);
        tasks += j.tasks;
    }
    if (o->policy == HTC_ALLOT_STATIC && (fixed ? fixed : o->n_users) > o->cores)
        return htc__error(error, HTC_EINVAL, "%llu core%s cannot be split among %llu users for good", (unsigned long long)o->cores,
                          htc__plural(o->cores), (unsigned long long)(fixed ? fixed : o->n_users));
    return HTC_OK;
}

static uint64_t fixed_of(const htc_sim_fairshare_options *o)
{
    uint64_t fixed = 0;
    for (size_t u = 0; u < o->n_users; u++)
        fixed += htc__fair_user_at(o, u).fixed;
    return fixed;
}

htc_status htc__fair_check(const htc_sim_fairshare_options *o, htc_error *error)
{
    htc_status status = check_users(o, error);
    return status == HTC_OK ? check_jobs(o, fixed_of(o), error) : status;
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

static htc__scale_drawer drawer(const fair *m, const htc_scale_law *law)
{
    return htc__scale_drawer_of(law, m->options.tick_ns);
}

/* What the options say of a cluster, a user and a job. */
static fair_cluster cluster_of(const fair *m, size_t i, uint64_t base)
{
    htc_sim_fairshare_cluster c = htc__fair_cluster_at(&m->options, i);
    htc_scale_law             life = { HTC_SCALE_EXPONENTIAL, 0, (double)c.life_ns, 0 };
    uint64_t                  second = ticks(m, HTC_SECOND) ? ticks(m, HTC_SECOND) : 1;
    return (fair_cluster){ .base = base, .cores = c.cores, .batch = c.batch, .speed = c.speed,
                           .system = { .hold = c.hold, .hold_rate = c.hold_rate, .service = ticks(m, c.service_ns), .second = second }, .life = drawer(m, &life),
                           .others_first = c.others, .others_gap = drawer(m, &c.others_gap), .others_length = drawer(m, &c.others_length) };
}

static fair_job job_of(const fair *m, size_t i)
{
    htc_sim_fairshare_job j = htc__fair_job_at(&m->options, i);
    return (fair_job){ .user = j.user, .mean_s = j.length.mean_ns / 1e9, .tasks = j.tasks, .arrival = ticks(m, j.arrival), .stream = htc__scale_stream(m->options.seed, i),
                       .length = drawer(m, &j.length) };
}

static void fill_clusters(fair *m)
{
    const htc_sim_fairshare_options *o = &m->options;
    uint64_t                         base = 0;
    m->record = ticks(m, o->record_ns);
    m->output = ticks(m, o->output_ns);
    m->sync = ticks(m, o->sync_ns) ? ticks(m, o->sync_ns) : 1;
    m->held = ticks(m, o->held_ns);
    m->lost = ticks(m, o->lost_ns);
    m->have_others = have_others(o);
    m->weigh = ticks(m, o->weigh_ns) ? ticks(m, o->weigh_ns) : 1;
    m->weigh_id = (uint32_t)(o->cores + FAIR_IDS + (m->have_others ? o->n_clusters : 0));
    for (size_t i = 0; i < o->n_clusters; i++) {
        fair_cluster *k = &m->cluster[i];
        *k = cluster_of(m, i, base);
        k->free = k->cores;
        k->free_core = (uint32_t)base;
        k->division = UINT64_MAX;
        m->may_die |= htc__fair_cluster_at(o, i).life_ns > 0;
        for (uint64_t at = base; at < base + k->cores; at++)
            m->core[at] = (uint32_t)at + 1;
        base += k->cores;
    }
}

static void fill(fair *m, uint64_t fixed)
{
    const htc_sim_fairshare_options *o = &m->options;
    m->launch = ticks(m, o->launch_ns);
    m->pull = ticks(m, o->pull_ns);
    m->leave = ticks(m, o->leave_ns);
    m->gap = ticks(m, o->gap_ns);
    m->sample = o->sample_ns && !ticks(m, o->sample_ns) ? 1 : ticks(m, o->sample_ns);
    fill_clusters(m);
    m->now.free = o->cores;
    m->now.free_attempt = FAIR_NONE;
    for (size_t i = 0; i < o->n_users; i++) {
        htc_sim_fairshare_user u = htc__fair_user_at(o, i);
        m->user[i] = (fair_user){ .first = FAIR_NONE, .at = FAIR_NONE, .submitted = UINT64_MAX, .fixed = !fixed || u.fixed,
                                  .weight = htc_allot_weight(u.weight > 0 ? u.weight : 1) };
    }
    for (size_t i = 0; i < o->n_jobs; i++) {
        fair_job *j = &m->job[i];
        *j = job_of(m, i);
        j->next = j->again = FAIR_NONE;
        m->arrivals[i] = i;
        m->now.tasks += j->tasks;
    }
    m->now.left = m->now.tasks;
    m->source.free_job = FAIR_NONE;
    htc__order_sort(m->arrivals, o->n_jobs, before_arrival, m->job);
}

static void close_model(fair *m)
{
    size_t users = m->options.n_users;
    htc_scale_destroy(m->scale);
    htc__free(&m->env, m->core, m->options.cores * sizeof *m->core);
    htc__free(&m->env, m->user, users * sizeof *m->user);
    htc__free(&m->env, m->view, users * sizeof *m->view);
    htc__free(&m->env, m->change, users * sizeof *m->change);
    htc__free(&m->env, m->samples, users * sizeof *m->samples);
    htc__free(&m->env, m->job, m->jobs * sizeof *m->job);
    htc__free(&m->env, m->arrivals, m->options.n_jobs * sizeof *m->arrivals);
    htc__free(&m->env, m->cluster, m->options.n_clusters * sizeof *m->cluster);
    htc__free(&m->env, m->attempt, m->attempts * sizeof *m->attempt);
    htc__free(&m->env, m->begun, m->options.cores * sizeof *m->begun);
    htc__free(&m->env, m->priority, users * sizeof *m->priority);
    htc__free(&m->env, m->weighed, users * sizeof *m->weighed);
    htc__free(&m->env, m->facts, users * sizeof *m->facts);
    htc__free(&m->env, m->amount, users * sizeof *m->amount);
}

static htc_status open_model(fair *m, htc_error *error)
{
    size_t            users = m->options.n_users, jobs = m->options.n_jobs;
    htc_scale_options e = engine_of(&m->options, m);
    for (size_t j = 0; j < jobs; j++)
        e.tasks += htc__fair_job_at(&m->options, j).tasks;
    htc_status status = htc_scale_create(&m->env, &e, &m->scale, error);
    if (status != HTC_OK)
        return status;
    m->core = htc__alloc_raw(&m->env, m->options.cores * sizeof *m->core);
    m->user = htc__alloc_raw(&m->env, users * sizeof *m->user);
    m->view = htc__alloc_raw(&m->env, users * sizeof *m->view);
    m->change = htc__alloc_raw(&m->env, users * sizeof *m->change);
    m->samples = htc__alloc_raw(&m->env, users * sizeof *m->samples);
    m->job = jobs ? htc__alloc_raw(&m->env, jobs * sizeof *m->job) : NULL;
    m->jobs = m->job ? jobs : 0;
    m->arrivals = jobs ? htc__alloc_raw(&m->env, jobs * sizeof *m->arrivals) : NULL;
    m->cluster = htc__alloc_raw(&m->env, m->options.n_clusters * sizeof *m->cluster);
    if (htc__fair_weighs(&m->options)) {
        m->begun = htc__alloc_raw(&m->env, m->options.cores * sizeof *m->begun);
        m->priority = htc__alloc_raw(&m->env, users * sizeof *m->priority);
        m->weighed = htc__alloc_raw(&m->env, users * sizeof *m->weighed);
        m->amount = htc__alloc_raw(&m->env, users * sizeof *m->amount);
        m->facts = m->options.weigher ? htc__alloc_raw(&m->env, users * sizeof *m->facts) : NULL;
    }
    if (!m->core || !m->user || !m->view || !m->change || !m->samples || (jobs && (!m->job || !m->arrivals)) || !m->cluster ||
        (htc__fair_weighs(&m->options) && (!m->begun || !m->priority || !m->weighed || !m->amount || (m->options.weigher && !m->facts))))
        return htc__error(error, HTC_ENOMEM, "no memory for the model");
    return HTC_OK;
}

/* ---- a checkpoint ---- */

/* What an experiment is: another one's checkpoint is refused. */
static uint64_t print_of(const fair *m)
{
    const htc_sim_fairshare_options *o = &m->options;
    uint64_t numbers[] = { o->cores, o->policy, o->min_agents, o->n_users, o->n_jobs, m->launch, m->pull, m->leave, m->gap, m->sample,
                           o->n_clusters, o->choice, o->direct, o->records, o->estimated, m->record, m->sync, m->held, m->lost, m->weigh, m->output };
    uint64_t print = htc_hash64((htc_bytes){ numbers, sizeof numbers }, o->seed);
    for (size_t i = 0; i < o->n_users; i++)
        print = htc_hash64((htc_bytes){ &m->user[i].weight, sizeof m->user[i].weight }, print + m->user[i].fixed);
    for (size_t i = 0; i < o->n_jobs; i++) {
        htc_sim_fairshare_job j = htc__fair_job_at(o, i);
        print = htc_hash64((htc_bytes){ &j.user, sizeof j - offsetof(htc_sim_fairshare_job, user) }, print);
    }
    for (size_t i = 0; i < o->n_clusters; i++) {
        htc_sim_fairshare_cluster c = htc__fair_cluster_at(o, i);
        print = htc_hash64((htc_bytes){ &c.cores, sizeof c - offsetof(htc_sim_fairshare_cluster, cores) }, print);
    }
    print = htc_hash64((htc_bytes){ &o->gamma, sizeof o->gamma }, print);
    if (!o->weigher)
        return print;
    const char *name = o->weigher->name ? o->weigher->name : "";
    return htc_hash64((htc_bytes){ name, strlen(name) }, print + o->half_life_ns);
}

/* What the options say is so, whatever was read. */
static void keep_options(fair *m, uint64_t tasks)
{
    uint64_t base = 0;
    for (size_t i = 0; i < m->options.n_jobs; i++) {
        const fair_job read = m->job[i];
        m->job[i] = job_of(m, i);
        m->job[i].next = read.next;
        m->job[i].begun = read.begun;
        m->job[i].again = read.again;
        m->job[i].cluster = read.cluster;
    }
    for (size_t i = 0; i < m->options.n_clusters; i++) {
        fair_cluster      *k = &m->cluster[i];
        const fair_cluster is = cluster_of(m, i, base);
        k->base = base;
        k->cores = is.cores;
        k->batch = is.batch;
        k->speed = is.speed;
        k->system.hold = is.system.hold;
        k->system.hold_rate = is.system.hold_rate;
        k->system.service = is.system.service;
        k->system.second = is.system.second;
        k->life = is.life;
        k->others_first = is.others_first;
        k->others_gap = is.others_gap;
        k->others_length = is.others_length;
        base += k->cores;
    }
    m->now.tasks = tasks;
}

/* As many as the tape has are made room for, no more. */
static htc_status move_attempts(fair *m, const htc_scale_tape *tape)
{
    htc_status status = HTC_OK;
    uint64_t   n = 0;
    for (uint64_t more; n < m->now.attempts && status == HTC_OK; n += more) {
        more = m->now.attempts - n < 64 ? m->now.attempts - n : 64;
        if (tape->reads)
            status = htc__fair_attempts_room(m, n + more);
        status = htc__checked_piece(tape, status, status == HTC_OK ? m->attempt + n : NULL, more * sizeof *m->attempt);
    }
    return status;
}

/* Weights and who is fixed are the options' too. */
static htc_status move_users(fair *m, const htc_scale_tape *tape)
{
    htc_status status = HTC_OK;
    for (size_t i = 0; i < m->options.n_users && status == HTC_OK; i++) {
        const fair_user is = m->user[i];
        status = tape->move(tape->ctx, &m->user[i], sizeof m->user[i]);
        m->user[i].weight = is.weight;
        m->user[i].fixed = is.fixed;
    }
    return htc__checked_piece(tape, status, m->view, m->now.views * sizeof *m->view);
}

static htc_status move_model(fair *m, const htc_scale_tape *tape)
{
    const htc_sim_fairshare_options *o = &m->options;
    uint64_t                         head[] = { print_of(m), sizeof m->now, sizeof *m->user, sizeof *m->job, sizeof *m->cluster }, found[5], tasks = m->now.tasks;
    uint8_t                         *events = NULL;
    memcpy(found, head, sizeof head);
    htc_status status = tape->move(tape->ctx, found, sizeof found);
    if (status == HTC_OK && memcmp(found, head, sizeof head) != 0)
        status = HTC_EFORMAT;
    status = htc__checked_piece(tape, status, &m->now, sizeof m->now);
    if (status == HTC_OK && (m->now.views > o->n_users || m->now.arrived > o->n_jobs || m->now.free > o->cores))
        status = HTC_ECORRUPT;
    status = htc__checked_piece(tape, status, m->core, o->cores * sizeof *m->core);
    if (status == HTC_OK)
        status = move_users(m, tape);
    status = htc__checked_piece(tape, status, m->job, o->n_jobs * sizeof *m->job);
    status = htc__checked_piece(tape, status, m->cluster, o->n_clusters * sizeof *m->cluster);
    status = htc__checked_piece(tape, status, m->begun, m->begun ? o->cores * sizeof *m->begun : 0);
    if (status == HTC_OK)
        status = move_attempts(m, tape);
    if (status == HTC_OK && tape->reads)
        keep_options(m, tasks);
    if (status == HTC_OK)
        status = htc__checked_engine(m->scale, tape, &events);
    if (status == HTC_OK && tape->reads)
        status = htc__fair_read_can_be(m, events);
    htc__checked_forget(m->scale, events);
    return status;
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
                                                 .core_s = seconds(m, user->cores * now - user->held_since), .work_s = seconds(m, user->work), .held = user->held };
        if (user->tasks)
            results[u].submitted = user->submitted * m->options.tick_ns;
        if (user->ended) {
            results[u].makespan = (user->last_end - user->submitted) * m->options.tick_ns;
            results[u].response_s = seconds(m, user->response) / (double)user->ended;
        }
    }
}

static void tell_clusters(const fair *m)
{
    htc_sim_fairshare_cluster_result *results = m->options.cluster_results;
    for (size_t i = 0; results && i < m->options.n_clusters; i++) {
        const fair_cluster *k = &m->cluster[i];
        results[i] = (htc_sim_fairshare_cluster_result){ .agents = k->agents, .jobs = k->system.jobs, .held = k->held, .died = k->died, .tasks = k->ended,
                                                         .others = k->others_begun, .work_s = seconds(m, k->work), .lost_s = seconds(m, k->lost) };
    }
}

/* From the first submission to the last end. */
static uint64_t direct_makespan(const fair *m)
{
    uint64_t first = UINT64_MAX, last = 0;
    for (size_t u = 0; u < m->options.n_users; u++) {
        first = m->user[u].tasks && m->user[u].submitted < first ? m->user[u].submitted : first;
        last = m->user[u].last_end > last ? m->user[u].last_end : last;
    }
    return last > first ? last - first : 0;
}

static void tell(const fair *m, htc_sim_fairshare_report *r)
{
    uint64_t engine = 0;
    htc_scale_report_get(m->scale, &r->scale);
    (void)htc_sim_fairshare_memory(&m->options, &engine);
    r->memory = engine + (m->options.next_job ? m->jobs * sizeof *m->job : 0);
    r->divisions = m->now.divisions;
    for (size_t u = 0; u < m->options.n_users; u++)
        r->agents += m->user[u].agents_started;
    r->cores = m->options.cores;
    r->held = m->now.held;
    for (size_t i = 0; i < m->options.n_clusters; i++) {
        const fair_cluster *k = &m->cluster[i];
        r->held += m->options.direct ? 0 : k->held;
        r->died += k->died;
        r->lost_s += seconds(m, k->lost);
    }
    if (m->options.direct || m->output) /* the engine has heard of a task when it began, and of its end before its output was there */
        r->scale.makespan = direct_makespan(m) * m->options.tick_ns;
    r->completed = r->scale.ended ? (double)r->scale.ended / (double)(m->options.direct ? r->scale.submitted + m->now.held : r->scale.submitted) : 0;
    double span = (double)r->scale.makespan / 1e9;
    r->throughput = span > 0 ? (double)r->scale.ended / span : 0;
    r->efficiency = span > 0 ? r->scale.busy_s / ((double)m->options.cores * span) : 0;
    r->idle_s = seconds(m, m->now.idle);
    r->fairness = m->now.samples ? m->now.fairness / (double)m->now.samples : 1;
    uint64_t response = 0;
    for (size_t u = 0; u < m->options.n_users; u++)
        response += m->user[u].response;
    r->response_s = r->scale.ended ? seconds(m, response) / (double)r->scale.ended : 0;
    if (!r->interrupted && !r->scale.wrong[0] && (m->now.free != m->options.cores || m->now.queued || m->now.running))
        snprintf(r->scale.wrong, sizeof r->scale.wrong, "%llu of %llu cores are free in the end", (unsigned long long)m->now.free, (unsigned long long)m->options.cores);
    else if (!r->interrupted && !r->scale.wrong[0] && r->scale.ended + m->now.held != m->now.tasks)
        snprintf(r->scale.wrong, sizeof r->scale.wrong, "%llu tasks have ended, %llu are held, and there were %llu", (unsigned long long)r->scale.ended,
                 (unsigned long long)m->now.held, (unsigned long long)m->now.tasks);
}

htc_status htc_sim_fairshare_run(const htc_env *env, const htc_sim_fairshare_options *options, htc_sim_fairshare_report *report,
                                 htc_sim_fairshare_result *results, htc_error *error)
{
    htc_sim_fairshare_report r = { .size = sizeof r, .scale.size = sizeof r.scale };
    fair                     m = { 0 };
    uint64_t                 bytes = 0, fixed = 0;
    htc_status               status = report && report->size >= offsetof(htc_sim_fairshare_report, scale) ? htc__fair_options(options, &m.options) : HTC_EINVAL;
    if (status != HTC_OK)
        return htc__error(error, status, "the options of the run are out of range");
    status = htc__fair_check(&m.options, error);
    fixed = fixed_of(&m.options);
    if (status != HTC_OK)
        return status;
    (void)htc_sim_fairshare_memory(&m.options, &bytes);
    if (m.options.host && m.options.host->memory_max && bytes > m.options.host->memory_max)
        return htc__error(error, HTC_ETOOBIG, "%llu core%s, %zu user%s and %zu job%s need %llu MiB, and %llu MiB are allowed",
                          (unsigned long long)m.options.cores, htc__plural(m.options.cores), m.options.n_users, htc__plural(m.options.n_users), m.options.n_jobs, htc__plural(m.options.n_jobs), (unsigned long long)(bytes >> 20), (unsigned long long)(m.options.host->memory_max >> 20));
    if (m.options.next_job && (m.options.resume || m.options.checkpoint))
        return htc__error(error, HTC_EUNSUPPORTED, "a run of a source has no checkpoint");
    if (env)
        m.env = *env;
    m.allot = (htc_allot_options){ .size = sizeof m.allot, .policy = m.options.direct ? HTC_ALLOT_FCFS : m.options.policy, .min_agents = m.options.min_agents,
                                   .fixed_users = fixed ? fixed : m.options.n_users };
    status = open_model(&m, error);
    if (status == HTC_OK) {
        fill(&m, fixed);
        if (!m.options.resume) {
            status = m.options.next_job ? htc__fair_source_next(&m) : HTC_OK;
            if (status == HTC_OK)
                htc__fair_begin(&m);
            else
                htc__error(error, status, "the source has no job that can be run: %s", htc_strerror(status));
        } else if ((status = move_model(&m, m.options.resume)) != HTC_OK)
            htc__checked_error(m.scale, error, status);
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
        tell_clusters(&m);
        status = htc__options_give(report, &r, sizeof r, offsetof(htc_sim_fairshare_report, scale));
    }
    close_model(&m);
    return status;
}
