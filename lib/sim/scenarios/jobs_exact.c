/* Partition controllers with the real store behind messages: the exact twin of lib/sim/models/jobs.c (htcsched/sim_jobs.h). Here is a run from its options to its
 * report. */
#include "sim/scenarios/jobs_exact.h"

#include <stdio.h>
#include <string.h>

#include "core/util.h"

#define SLOW  (60 * HTC_SECOND)
#define SETUP (UINT64_C(3600) * HTC_SECOND)

/* No event of its own, so that the run is the same without: what was so before this one. */
void htc__jobs_exact_sample(jobs_exact *x)
{
    jobs                       *m = &x->m;
    const htc_sim_jobs_options *o = &m->options;
    htc_ns                      now = htc__twin_now(&x->t);
    if (!o->sample || !o->sample_ns || x->t.begin == HTC_NEVER || m->now.sampled > now)
        return;
    o->sample(o->ctx, &(htc_sim_jobs_sample){ .size = sizeof(htc_sim_jobs_sample), .at = m->now.sampled, .waiting = m->now.submitted - m->now.granted, .running = m->now.running,
                                              .ended = m->jobs - m->left, .busy = m->now.busy, .taken = m->taken });
    m->now.sampled = (now / o->sample_ns + 1) * o->sample_ns;
}

/* ---- what it is given ---- */

static const char *cannot(const htc_sim_jobs_options *o)
{
    if (o->central)
        return "the exact engine has controllers of partitions, and no central one";
    return o->resume || o->checkpoint ? "a run of the exact engine has no checkpoint" : NULL;
}

static htc_status read_options(jobs_exact *x, const htc_sim_jobs_options *in, const htc_sim_jobs_exact_options *costs)
{
    htc_sim_jobs_options *o = &x->m.options;
    htc_error             why = { 0 };
    htc_status            status = htc__jobs_known(in, o);
    x->costs = (htc_sim_jobs_exact_options){ .size = sizeof x->costs };
    if (status == HTC_OK && costs)
        status = htc__options_copy(&x->costs, sizeof x->costs, costs, costs->size, sizeof(size_t));
    if (status == HTC_OK)
        status = htc__twin_host(&x->t, o->host);
    if (status != HTC_OK)
        return htc__twin_refuse(&x->t, status, "the options of the run are out of range");
    if (cannot(o))
        return htc__twin_refuse(&x->t, HTC_EUNSUPPORTED, "%s", cannot(o));
    if (o->latency_ns > SLOW || o->pack_ns > SLOW || x->costs.jitter_ns > SLOW || o->store_ns > SLOW)
        return htc__twin_refuse(&x->t, HTC_EINVAL, "a message or a request takes more than a minute");
    o->records = 1;
    htc__jobs_fill(&x->m);
    if (x->m.parts > HTC_SIM_JOBS_EXACT_CONTROLLERS_MAX)
        return htc__twin_refuse(&x->t, HTC_ETOOBIG, "the exact engine has at most %d controllers, and these are %u", HTC_SIM_JOBS_EXACT_CONTROLLERS_MAX, x->m.parts);
    status = htc__jobs_check_list(&x->m, &why);
    return status == HTC_OK ? HTC_OK : htc__twin_refuse(&x->t, status, "%s", why.text);
}

/* ---- its world ---- */

static htc_status open_network(jobs_exact *x)
{
    const htc_sim_jobs_options *o = &x->m.options;
    htc_ns                      hop = o->latency_ns + 2 * o->pack_ns;
    htc_sim_net                 net = { .size = sizeof net, .latency_ns = hop ? hop : 1, .jitter_ns = x->costs.jitter_ns };
    if (o->bandwidth > 0)
        net.bytes_per_s = o->bandwidth < 1 ? 1 : o->bandwidth < 1e18 ? (uint64_t)o->bandwidth : 0;
    htc_sim_options s = { .size = sizeof s, .seed = o->seed, .net = &net };
    return htc_sim_create(&x->t.memory.env, &s, &x->t.w);
}

static htc_status add_node(jobs_exact *x, const char *kind, uint32_t number, const htc_sim_host *host, void *ctx, htc_sim_node **node)
{
    char name[32];
    snprintf(name, sizeof name, "%s%u", kind, (unsigned)number);
    return htc_sim_add(x->t.w, &(htc_sim_node_options){ .size = sizeof(htc_sim_node_options), .name = name, .host = host, .ctx = ctx }, node);
}

/* A controller's own member is beside it. */
static htc_status set_beside(jobs_exact *x, uint32_t i)
{
    htc_sim_net  net = { .size = sizeof net, .latency_ns = 1 };
    htc_sim_node *caller = x->caller[i].node, *member = x->member[i].node;
    htc_status   status = htc_sim_set_net(x->t.w, caller, member, &net);
    return status == HTC_OK ? htc_sim_set_net(x->t.w, member, caller, &net) : status;
}

static htc_status open_member(jobs_exact *x, uint32_t i)
{
    static const htc_sim_host host = { .size = sizeof host, .boot = htc__jobs_exact_member_boot };
    jobs_exact_member        *m = &x->member[i];
    m->x = x;
    htc_status status = htc_output_create(&x->t.memory.env, 0, &m->inner);
    if (status == HTC_OK)
        status = add_node(x, "member", i, &host, m, &m->node);
    return status == HTC_OK ? htc_sim_boot(m->node) : status;
}

static htc_status open_caller(jobs_exact *x, uint32_t i)
{
    static const htc_sim_host host = { .size = sizeof host, .boot = htc__jobs_exact_caller_boot };
    jobs_exact_caller        *c = &x->caller[i];
    c->x = x;
    c->number = i;
    c->kv = htc__alloc(&x->t.memory.env, x->callers * sizeof(htc_kv_client *));
    htc_status status = c->kv ? add_node(x, i < x->m.parts ? "controller" : "monitor", i, &host, c, &c->node) : HTC_ENOMEM;
    if (status == HTC_OK)
        status = i < x->m.parts ? htc__jobs_exact_control_open(c) : htc__jobs_exact_monitor_open(c);
    if (status == HTC_OK)
        status = set_beside(x, i);
    return status == HTC_OK ? htc_sim_boot(c->node) : status;
}

static htc_status open_books(jobs_exact *x)
{
    jobs *m = &x->m;
    m->env = x->t.memory.env;
    m->part = htc__alloc(&m->env, m->parts * sizeof *m->part);
    m->held = htc__alloc(&m->env, m->parts * m->part_words * sizeof *m->held);
    x->member = htc__alloc(&m->env, x->callers * sizeof *x->member);
    x->caller = htc__alloc(&m->env, x->callers * sizeof *x->caller);
    htc_status status = m->part && m->held && x->member && x->caller ? htc__jobs_order_list(m) : HTC_ENOMEM;
    return status == HTC_OK ? htc_record_set_create(&m->env, &m->got) : status;
}

static htc_status open_world(jobs_exact *x)
{
    const htc_balance_policy *policy = x->m.options.policy;
    x->callers = x->m.parts + (!policy || policy->pull);
    x->m.options.policy = htc__asked_balance(&x->m.asked_place, policy, x->m.answer);
    htc_status status = open_books(x);
    if (status == HTC_OK)
        status = open_network(x);
    for (uint32_t i = 0; i < x->callers && status == HTC_OK; i++)
        status = open_member(x, i);
    for (uint32_t i = 0; i < x->callers && status == HTC_OK; i++)
        status = open_caller(x, i);
    return status;
}

static void close_world(jobs_exact *x)
{
    jobs *m = &x->m;
    htc_sim_destroy(x->t.w);
    for (uint32_t i = 0; x->caller && i < x->callers; i++) {
        jobs_exact_caller *c = &x->caller[i];
        for (uint32_t p = 0; c->kv && p < x->callers; p++)
            htc_kv_client_destroy(c->kv[p]);
        if (c->x)
            htc__jobs_exact_control_close(c);
        if (c->kv)
            htc__free(&m->env, c->kv, x->callers * sizeof(htc_kv_client *));
    }
    for (uint32_t i = 0; x->member && i < x->callers; i++)
        htc_output_destroy(x->member[i].inner);
    htc_balance_monitor_destroy(m->monitor);
    htc_record_set_destroy(m->got);
    htc__free(&m->env, x->caller, x->callers * sizeof *x->caller);
    htc__free(&m->env, x->member, x->callers * sizeof *x->member);
    htc__free(&m->env, m->after, m->jobs * sizeof *m->after);
    htc__free(&m->env, m->held, m->parts * m->part_words * sizeof *m->held);
    htc__free(&m->env, m->part, m->parts * sizeof *m->part);
}

/* ---- its course ---- */

static int has_met(const jobs_exact *x)
{
    return x->met == x->callers && x->asking == 0;
}

static int has_ended(const jobs_exact *x)
{
    return x->m.ended == x->m.jobs && x->asking == 0;
}

static int is_audited(const jobs_exact *x)
{
    return x->audited == x->m.parts;
}

/* HTC_AGAIN: the host has stopped it. */
static htc_status run_until(jobs_exact *x, int (*done)(const jobs_exact *))
{
    for (uint64_t events = 0; htc__twin_is_good(&x->t) && !done(x); events++) {
        if (htc__twin_is_stopped(&x->t, events, x->m.ended, x->m.options.next_job ? 0 : x->m.jobs))
            return HTC_AGAIN;
        if (!htc__twin_step(&x->t))
            htc__twin_fail(&x->t, HTC_EINTERNAL, "nothing will happen any more, and jobs have not ended");
        else if (x->t.begin == HTC_NEVER && htc_sim_now(x->t.w) > HTC_SIM_BEGIN + SETUP)
            htc__twin_fail(&x->t, HTC_EINTERNAL, "controllers do not reach the store");
    }
    return x->t.why.status;
}

static htc_status tell_all(jobs_exact *x, uint32_t callers, uint32_t event)
{
    htc_status status = HTC_OK;
    for (uint32_t i = 0; i < callers && status == HTC_OK; i++)
        status = htc_sim_event(x->caller[i].node, 0, event, HTC_OK, (htc_bytes){ 0 });
    return status;
}

/* What was said before is none of the run's, and it has arrived. */
static htc_status begin_run(jobs_exact *x)
{
    htc_status status = htc_sim_run(x->t.w, HTC_SECOND);
    x->t.begin = htc_sim_now(x->t.w);
    x->sent = x->received = 0;
    if (status == HTC_OK)
        status = tell_all(x, x->callers, JOBS_EXACT_BEGIN);
    return status == HTC_OK && x->callers > x->m.parts ? tell_all(x, x->m.parts, JOBS_EXACT_PULL) : status;
}

static htc_status run_world(jobs_exact *x)
{
    htc_status status = open_world(x);
    if (status != HTC_OK)
        return htc__twin_refuse(&x->t, status, "the run could not be made: %s", htc_strerror(status));
    status = tell_all(x, x->callers, JOBS_EXACT_MEET);
    if (status == HTC_OK)
        status = run_until(x, has_met);
    if (status == HTC_OK)
        status = begin_run(x);
    if (status == HTC_OK)
        status = run_until(x, has_ended);
    if (status == HTC_OK)
        status = tell_all(x, x->m.parts, JOBS_EXACT_AUDIT);
    return status == HTC_OK ? run_until(x, is_audited) : status;
}

/* ---- what is told ---- */

static void check(jobs_exact *x)
{
    jobs *m = &x->m;
    if (m->wrong[0])
        return;
    if (m->now.granted != m->now.submitted || m->now.submitted != m->jobs || m->left)
        snprintf(m->wrong, sizeof m->wrong, "%llu jobs were submitted of %llu, %llu had nodes and %llu have not ended", (unsigned long long)m->now.submitted, (unsigned long long)m->jobs,
                 (unsigned long long)m->now.granted, (unsigned long long)m->left);
    else if (x->sent != x->received)
        snprintf(m->wrong, sizeof m->wrong, "of %llu messages %llu were received", (unsigned long long)x->sent, (unsigned long long)x->received);
    else if (x->worked != m->now.node_ticks)
        snprintf(m->wrong, sizeof m->wrong, "nodes were busy for %llu ticks, and the jobs have %llu", (unsigned long long)x->worked, (unsigned long long)m->now.node_ticks);
    for (size_t i = 0; i < m->parts * m->part_words && !m->wrong[0]; i++)
        if (m->held[i])
            snprintf(m->wrong, sizeof m->wrong, "nodes of partition %zu have not come back", i / m->part_words);
}

static void tell(jobs_exact *x, htc_sim_jobs_report *r)
{
    jobs             *m = &x->m;
    htc_scale_report *s = &r->scale;
    double            tick = (double)m->tick_ns / 1e9;
    s->finished = !r->interrupted;
    s->memory = r->memory = x->t.memory.peak;
    s->events = s->events_here = htc_sim_events(x->t.w);
    s->hash = htc_sim_hash(x->t.w);
    s->submitted = m->now.submitted;
    s->ended = s->ended_here = m->jobs - m->left;
    s->sent = x->sent;
    s->received = x->received;
    s->span = htc__twin_now(&x->t);
    s->makespan = x->last_end;
    s->longest = x->longest * m->tick_ns;
    s->work_s = (double)x->work * tick;
    s->busy_s = (double)x->worked * tick;
    if (!r->interrupted)
        check(x);
    htc__jobs_figures(m, 1e-9, r);
}

/* ---- all ---- */

static htc_status say_why(const jobs_exact *x, htc_status status, htc_error *error)
{
    const twin *t = &x->t;
    if (status == HTC_ETOOBIG && t->memory.too_big)
        return htc__error(error, status, "the run needs more than the %llu MiB of memory that are allowed", (unsigned long long)(t->host.memory_max >> 20));
    if (htc__twin_is_good(t) || status == HTC_ENOMEM)
        return htc__error(error, status, "%s", status == HTC_ENOMEM ? "no memory for the run" : htc_strerror(status));
    if (error)
        *error = t->why;
    return status;
}

htc_status htc_sim_jobs_exact(const htc_env *env, const htc_sim_jobs_options *options, const htc_sim_jobs_exact_options *exact_options, htc_sim_jobs_report *report,
                              htc_error *error)
{
    htc_sim_jobs_report r = { .size = sizeof r, .scale.size = sizeof r.scale };
    jobs_exact          x = { 0 };
    if (!report || report->size < offsetof(htc_sim_jobs_report, scale))
        return htc__error(error, HTC_EINVAL, "the options of the run are out of range");
    htc__twin_open(&x.t, env);
    x.t.answer = x.m.answer;
    htc_status status = read_options(&x, options, exact_options);
    if (status == HTC_OK)
        status = run_world(&x);
    r.interrupted = status == HTC_AGAIN;
    if (x.t.memory.too_big)
        status = HTC_ETOOBIG;
    if (status == HTC_OK || status == HTC_AGAIN) {
        tell(&x, &r);
        status = htc__options_give(report, &r, sizeof r, offsetof(htc_sim_jobs_report, scale));
    } else {
        status = say_why(&x, status, error);
    }
    close_world(&x);
    return status;
}
