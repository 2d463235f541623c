/* Dynamic service provision: a run from its options to its report. */
#include <stdio.h>
#include <string.h>

#include "core/util.h"
#include "sim/models/checked.h"
#include "sim/models/provision.h"

#define SLOTS_FIRST 256u

/* ---- options ---- */

htc_status htc__prov_options(const htc_sim_provision_options *in, htc_sim_provision_options *o)
{
    *o = (htc_sim_provision_options){ .size = sizeof *o };
    htc_status status = in ? htc__options_copy(o, sizeof *o, in, in->size, offsetof(htc_sim_provision_options, capacity)) : HTC_EINVAL;
    o->tick_ns = o->tick_ns ? o->tick_ns : HTC_MS;
    o->active_max = o->active_max ? o->active_max : (size_t)1 << 20;
    o->capacity = o->capacity ? o->capacity : UINT32_MAX;
    if (status == HTC_OK && (o->system > HTC_SIM_PROVISION_DRP || o->setup_delay > 1 || !o->environments || o->n_environments < 1 || o->capacity > UINT32_MAX ||
                             o->n_environments > HTC_SIM_PROVISION_ENVIRONMENTS_MAX || o->active_max > HTC_SIM_PROVISION_ACTIVE_MAX || !(o->price >= 0) ||
                             (o->shared && (o->system != HTC_SIM_PROVISION_DSP || o->setup_delay))))
        status = HTC_EINVAL;
    return status;
}

static htc_scale_options engine_of(const htc_sim_provision_options *o, prov *m)
{
    uint64_t timers = o->n_environments * PROV_KINDS + 2;
    return (htc_scale_options){ .size = sizeof(htc_scale_options), .ids = o->active_max + timers, .events_max = 2 * o->active_max + 3 * timers, .tick_ns = o->tick_ns,
                                .event = htc__prov_event, .ctx = m, .host = o->host };
}

static uint64_t tables(const htc_sim_provision_options *o)
{
    return o->n_environments * (sizeof(prov_environment) + 2 * sizeof(uint32_t) + sizeof(htc_provision_request) + 4 * sizeof(uint64_t)) + SLOTS_FIRST * sizeof(prov_slot);
}

htc_status htc_sim_provision_memory(const htc_sim_provision_options *options, uint64_t *bytes)
{
    htc_sim_provision_options o;
    htc_status                status = bytes ? htc__prov_options(options, &o) : HTC_EINVAL;
    uint64_t                  engine = 0;
    if (status == HTC_OK) {
        htc_scale_options e = engine_of(&o, NULL);
        status = htc_scale_memory(&e, &engine);
    }
    if (status == HTC_OK)
        *bytes = tables(&o) + engine;
    return status;
}

/* An environment as the run has it. */
static htc_status read_environment(prov *m, size_t i, prov_environment *e)
{
    htc_sim_provision_environment *o = &e->o;
    htc_status                     status = htc__options_at(o, sizeof *o, m->options.environments, i, offsetof(htc_sim_provision_environment, next_job));
    int                            fixed = m->options.system == HTC_SIM_PROVISION_DCS || m->options.system == HTC_SIM_PROVISION_SSP;
    if (status == HTC_OK && o->book)
        status = htc__options_copy(&e->book_options, sizeof e->book_options, o->book, o->book->size, sizeof(size_t));
    if (status != HTC_OK)
        return status;
    int flows = o->flows || o->next_flow;
    if ((o->jobs != NULL) + (o->next_job != NULL) + (o->flows != NULL) + (o->next_flow != NULL) > 1 || (o->n_jobs && !o->jobs) || (o->n_flows && !o->flows) ||
        (fixed && (o->nodes < 1 || o->nodes > UINT32_MAX)) || o->period_ns == HTC_NEVER)
        return HTC_EINVAL;
    e->book_options.size = sizeof e->book_options;
    e->book_options.kind = flows ? HTC_PROVISION_MTC : HTC_PROVISION_HTC;
    e->book_options.scan_ns = e->book_options.scan_ns ? e->book_options.scan_ns : (flows ? 3 : 60) * HTC_SECOND;
    e->unit = e->book_options.unit_ns ? e->book_options.unit_ns : 3600 * HTC_SECOND;
    e->limit = fixed ? o->nodes : m->options.system == HTC_SIM_PROVISION_DSP ? m->options.capacity : UINT32_MAX;
    return e->unit < m->tick_ns || e->unit / m->tick_ns > UINT32_MAX ? HTC_EINVAL : HTC_OK;
}

/* ---- what surrounds it ---- */

static void *count_memory(void *ctx, void *p, size_t old_size, size_t new_size)
{
    prov *m = ctx;
    if (new_size > old_size && m->memory_max && new_size - old_size > m->memory_max - m->memory) {
        m->too_big = 1;
        return NULL;
    }
    void *answer = NULL;
    if (new_size == 0)
        htc__free(m->base, p, old_size);
    else
        answer = p ? htc__resize_raw(m->base, p, old_size, new_size) : htc__alloc_raw(m->base, new_size);
    if (new_size && !answer)
        return NULL;
    m->memory = m->memory - old_size + new_size;
    m->memory_peak = m->memory > m->memory_peak ? m->memory : m->memory_peak;
    return answer;
}

static htc_status open_environment(prov *m, prov_environment *e)
{
    uint32_t              system = m->options.system;
    int                   flows = e->o.flows || e->o.next_flow, owned = system == HTC_SIM_PROVISION_DCS || system == HTC_SIM_PROVISION_SSP;
    htc_provision_usage   u = { 0 };
    htc_provision_options book = e->book_options;
    htc_status            status = HTC_OK;
    if (owned) { /* initial nodes, and no scan ever */
        book = (htc_provision_options){ .size = sizeof book, .initial = e->o.nodes, .unit_ns = e->unit };
    }
    if (owned || (system == HTC_SIM_PROVISION_DSP && !m->options.shared)) {
        status = htc_provision_create(&m->env, &book, 0, &e->book);
        if (status == HTC_OK)
            status = htc_provision_usage_at(e->book, 0, &u);
    }
    if (status == HTC_OK && u.owned > UINT32_MAX)
        status = HTC_EINVAL;
    if (status != HTC_OK || system == HTC_SIM_PROVISION_DRP)
        return status;
    const htc_fit_policy *policy = e->o.fit ? e->o.fit : &m->policies[flows];
    return htc_fit_create(&m->env, &(htc_fit_options){ .size = sizeof(htc_fit_options), .policy = htc__asked_fit(&e->asked_order, policy, m->answer), .jobs_max = m->options.active_max, .nodes = (uint32_t)u.owned },
                          &e->fit);
}

static htc_status open_shared(prov *m)
{
    htc_provision_usage   u = { 0 };
    htc_provision_options o = { 0 };
    htc_status            status = htc__options_copy(&o, sizeof o, m->options.shared, m->options.shared->size, sizeof(size_t));
    o.size = sizeof o;
    for (size_t i = 0; i < m->n; i++) {
        m->environment[i].unit = o.unit_ns ? o.unit_ns : 3600 * HTC_SECOND;
        m->environment[i].book_options.scan_ns = o.scan_ns ? o.scan_ns : 60 * HTC_SECOND;
    }
    if (status == HTC_OK)
        status = htc_provision_create(&m->env, &o, 0, &m->book);
    if (status == HTC_OK)
        status = htc_provision_usage_at(m->book, 0, &u);
    return status == HTC_OK && u.owned > m->capacity ? HTC_ENOFIT : status;
}

static htc_status open_model(prov *m, htc_error *error)
{
    size_t            n = m->options.n_environments;
    htc_scale_options e = engine_of(&m->options, m);
    htc_scale_host    host = { .size = sizeof host };
    htc_status        status = m->options.host ? htc__options_copy(&host, sizeof host, m->options.host, m->options.host->size, sizeof(size_t)) : HTC_OK;
    if (status == HTC_OK && m->options.host) {
        uint64_t bytes = 0;
        (void)htc_sim_provision_memory(&m->options, &bytes);
        m->memory_max = host.memory_max;
        if (m->memory_max && bytes > m->memory_max)
            return htc__error(error, HTC_ETOOBIG, "%zu job%s at one time and %zu environment%s need %llu MiB, and %llu MiB are allowed", m->options.active_max, htc__plural(m->options.active_max), n, htc__plural(n),
                              (unsigned long long)(bytes >> 20), (unsigned long long)(m->memory_max >> 20));
    }
    if (status != HTC_OK)
        return htc__error(error, status, "the host is not one");
    m->tick_ns = m->options.tick_ns;
    m->options.granter = htc__asked_granter(&m->asked_grant, m->options.granter, m->answer);
    m->capacity = m->options.system == HTC_SIM_PROVISION_DSP || m->options.system == HTC_SIM_PROVISION_SSP ? m->options.capacity : UINT64_MAX; /* else nobody's */
    m->n = m->live = n;
    m->slots_max = (uint32_t)m->options.active_max;
    m->slots_cap = m->slots_max < SLOTS_FIRST ? m->slots_max : SLOTS_FIRST;
    m->free_slot = PROV_NONE;
    for (uint32_t flows = 0; flows < 2; flows++)
        m->policies[flows] = (htc_fit_policy){ .size = sizeof *m->policies, .promise = flows ? HTC_FIT_PROMISE_ORDER : HTC_FIT_PROMISE_NOTHING };
    m->sample = m->options.sample && m->options.sample_ns ? htc__prov_ticks_up(m, m->options.sample_ns) : 0;
    m->environment = htc__alloc(&m->env, n * sizeof *m->environment);
    m->slot = htc__alloc_raw(&m->env, m->slots_cap * sizeof *m->slot);
    m->list = htc__alloc_raw(&m->env, n * sizeof *m->list);
    m->asks = htc__alloc_raw(&m->env, n * sizeof *m->asks);
    m->request = htc__alloc_raw(&m->env, n * sizeof *m->request);
    m->grant = htc__alloc_raw(&m->env, n * sizeof *m->grant);
    m->numbers = htc__alloc_raw(&m->env, 3 * n * sizeof *m->numbers);
    if (!m->environment || !m->slot || !m->list || !m->asks || !m->request || !m->grant || !m->numbers)
        return htc__error(error, HTC_ENOMEM, "no memory for the model");
    for (size_t i = 0; i < n; i++) {
        prov_environment *env = &m->environment[i];
        env->spare = PROV_NONE;
        env->first = env->last = UINT64_MAX;
        status = read_environment(m, i, env);
        if (status == HTC_OK)
            status = open_environment(m, env);
        e.tasks += env->o.n_jobs;
        if (status != HTC_OK)
            return htc__error(error, status, "environment %zu cannot be: %s", i,
                              status == HTC_EINVAL ? "a number is out of range, its cluster has no nodes, or there is more than one workload" : htc_strerror(status));
    }
    status = m->options.shared ? open_shared(m) : HTC_OK;
    if (status != HTC_OK)
        return htc__error(error, status, "the shared book cannot be: %s", htc_strerror(status));
    return htc_scale_create(&m->env, &e, &m->scale, error);
}

static void close_model(prov *m)
{
    for (size_t i = 0; m->environment && i < m->n; i++) {
        prov_environment *e = &m->environment[i];
        htc_provision_destroy(e->book);
        htc_fit_destroy(e->fit);
        for (size_t f = 0; f < e->flows_n; f++) {
            htc_dag_destroy(e->flows[f].dag);
            htc__free(&m->env, e->flows[f].length, e->flows[f].tasks * sizeof *e->flows[f].length);
        }
        htc__free(&m->env, e->flows, e->flows_cap * sizeof *e->flows);
    }
    htc_provision_destroy(m->book);
    htc_scale_destroy(m->scale);
    htc__free(&m->env, m->environment, m->n * sizeof *m->environment);
    htc__free(&m->env, m->slot, m->slots_cap * sizeof *m->slot);
    htc__free(&m->env, m->list, m->n * sizeof *m->list);
    htc__free(&m->env, m->asks, m->n * sizeof *m->asks);
    htc__free(&m->env, m->request, m->n * sizeof *m->request);
    htc__free(&m->env, m->grant, m->n * sizeof *m->grant);
    htc__free(&m->env, m->numbers, 3 * m->n * sizeof *m->numbers);
    htc__free(&m->env, m->done, m->dones_cap * sizeof *m->done);
    htc__free(&m->env, m->order, m->order_cap * sizeof *m->order);
}

/* ---- what is told ---- */

static double seconds(const prov *m, prov_sum ticks)
{
    return (double)ticks * (double)m->tick_ns / 1e9;
}

static uint64_t charged(const prov *m, const htc_provision *book, uint64_t closed)
{
    htc_provision_usage u;
    return book && htc_provision_usage_at(book, htc__prov_now(m), &u) == HTC_OK ? u.node_units : closed;
}

static htc_sim_provision_result result_of(prov *m, prov_environment *e)
{
    htc_provision_usage      u;
    htc_sim_provision_result r = { .submitted = e->submitted, .completed = e->completed, .refused = e->refused, .peak = e->peak, .busy_peak = e->busy_peak,
                                   .granted = e->granted, .returned = e->returned, .requests = e->requests, .rejected = e->rejected, .starved = e->starved,
                                   .setup_ns = e->setup_ns, .first = HTC_NEVER, .last = HTC_NEVER };
    if (!e->ended || e->held)
        htc__prov_account(m, e); /* it was interrupted */
    if (e->book && htc_provision_usage_at(e->book, htc__prov_now(m), &u) == HTC_OK) {
        r.requests = u.requests;
        r.rejected = u.rejected;
    }
    r.unfinished = e->submitted - e->completed - e->refused;
    r.node_units = charged(m, e->book, e->units) + htc__prov_lease_units(m, e);
    r.held_s = seconds(m, e->held_ticks);
    r.busy_s = seconds(m, e->busy_ticks);
    if (e->submitted > e->refused)
        r.wait_s = seconds(m, e->wait) / (double)(e->started + e->waiting ? e->started + e->waiting : 1);
    if (e->first != UINT64_MAX)
        r.first = e->first * m->tick_ns;
    if (e->last != UINT64_MAX)
        r.last = e->last * m->tick_ns;
    if (e->completed && r.last > r.first)
        r.rate = (double)r.completed * 1e9 / (double)(r.last - r.first);
    return r;
}

/* What is false, of an environment that has ended. */
static const char *wrong_with(const prov *m, const prov_environment *e)
{
    prov_sum unit = e->unit / m->tick_ns, paid = (prov_sum)e->units * unit;
    int      whole = e->unit % m->tick_ns == 0 && !m->options.shared, direct = m->options.system == HTC_SIM_PROVISION_DRP;
    if (e->submitted != e->completed + e->refused + e->running + e->waiting + e->blocked)
        return "submitted jobs are neither completed nor left";
    if (e->busy_ticks + e->cut_ticks != e->started_ticks)
        return "node time is not the sum of the jobs";
    if (e->busy_ticks > e->held_ticks)
        return "more node time was used than held";
    if (e->held || (m->options.system != HTC_SIM_PROVISION_DCS && e->granted != e->returned))
        return "not every node has gone back";
    if (whole && (paid < e->held_ticks || paid > e->held_ticks + (e->granted + e->o.nodes) * unit || (direct && paid != e->held_ticks)))
        return "the units that are charged are not those of the leases";
    return NULL;
}

/* What ran until its environment ended may have had its nodes given to others since: what counts is for how long it was busy. */
static void check_makespan(const prov *m, htc_scale_report *r)
{
    uint64_t span = r->makespan / m->tick_ns;
    prov_sum busy = 0;
    for (size_t i = 0; i < m->n; i++)
        busy += m->environment[i].busy_ticks;
    if (busy > (prov_sum)m->peak * span)
        snprintf(r->wrong, sizeof r->wrong, "a makespan of %llu ticks, where jobs ran for %.0f node ticks on at most %llu node%s", (unsigned long long)span, (double)busy,
                 (unsigned long long)m->peak, htc__plural(m->peak));
}

static void check(const prov *m, htc_sim_provision_report *r)
{
    for (size_t i = 0; i < m->n && !r->scale.wrong[0]; i++) {
        const char *wrong = wrong_with(m, &m->environment[i]);
        if (wrong)
            snprintf(r->scale.wrong, sizeof r->scale.wrong, "environment %zu: %s", i, wrong);
    }
    if (!r->scale.wrong[0] && (m->held || m->busy || m->running || (m->options.shared && m->granted != m->returned)))
        snprintf(r->scale.wrong, sizeof r->scale.wrong, "%llu nodes are held in the end, and %llu busy", (unsigned long long)m->held, (unsigned long long)m->busy);
    if (!r->scale.wrong[0])
        check_makespan(m, &r->scale);
}

static double cost_of(const prov *m, const htc_sim_provision_report *r)
{
    uint64_t cents, longest = 0;
    if (m->options.system != HTC_SIM_PROVISION_DCS || !m->options.owning || htc_provision_cost_of_owning(m->options.owning, &cents) != HTC_OK)
        return (double)r->node_units * m->options.price;
    for (size_t i = 0; i < m->n; i++)
        longest = m->environment[i].then > longest ? m->environment[i].then : longest;
    return (double)cents * seconds(m, longest) / (30 * 86400.0);
}

static void tell(prov *m, htc_sim_provision_report *r, htc_sim_provision_result *results)
{
    htc_provision_usage u;
    htc_scale_report_get(m->scale, &r->scale);
    for (size_t i = 0; i < m->n; i++) {
        htc_sim_provision_result one = result_of(m, &m->environment[i]);
        if (results)
            results[i] = one;
        htc__prov_add_up(r, &one);
    }
    if (m->options.shared) {
        r->node_units = charged(m, m->book, m->units);
        r->held_s = seconds(m, m->held_ticks);
        r->requests = m->requests;
        r->rejected = m->rejected;
        if (m->book && htc_provision_usage_at(m->book, htc__prov_now(m), &u) == HTC_OK) {
            r->requests = u.requests;
            r->rejected = u.rejected;
        }
    }
    r->peak = m->peak;
    r->busy_peak = m->busy_peak;
    r->scans = m->scans;
    r->memory = m->memory_peak;
    r->cost = cost_of(m, r);
    if (!r->interrupted)
        check(m, r);
}

/* Its first events, or what a checkpoint has. */
static htc_status begin(prov *m, htc_error *error)
{
    int has_sources = 0;
    for (size_t i = 0; i < m->n; i++)
        has_sources |= m->environment[i].o.next_flow != NULL;
    if ((m->options.resume || m->options.checkpoint) && has_sources)
        return htc__error(error, HTC_EUNSUPPORTED, "a run with a source of workflows has no checkpoint");
    if (!m->options.resume) {
        htc__prov_begin(m);
        return HTC_OK;
    }
    htc_status status = htc__prov_tape(m, m->options.resume);
    return status == HTC_OK ? HTC_OK : htc__checked_error(m->scale, error, status);
}

static htc_status run_model(prov *m, htc_sim_provision_report *r, htc_error *error)
{
    htc_status status = htc_scale_run(m->scale);
    r->interrupted = status == HTC_AGAIN;
    if (r->interrupted && m->options.checkpoint && (status = htc__prov_tape(m, m->options.checkpoint)) != HTC_OK)
        return htc__error(error, status, "the checkpoint could not be written");
    if (status < 0 && m->answer[0])
        return htc__asked_error(error, status, m->answer);
    if (status < 0 && m->why.status != HTC_OK)
        return htc__error(error, status, "%s", m->why.text);
    if (status < 0)
        return htc__error(error, status, "the run cannot go on: %s", status == HTC_ETOOBIG ? "it takes more ticks than there are; make them longer" : htc_strerror(status));
    return HTC_OK;
}

htc_status htc_sim_provision_run(const htc_env *env, const htc_sim_provision_options *options, htc_sim_provision_report *report, htc_sim_provision_result *results,
                                 htc_error *error)
{
    htc_sim_provision_report r = { .size = sizeof r, .scale.size = sizeof r.scale };
    prov                     m = { .base = env };
    htc_status               status = report && report->size >= offsetof(htc_sim_provision_report, scale) ? htc__prov_options(options, &m.options) : HTC_EINVAL;
    if (status != HTC_OK)
        return htc__error(error, status, "the options of the run are out of range");
    m.counting = (htc_alloc){ count_memory, &m };
    m.env = (htc_env){ .size = sizeof m.env, .alloc = &m.counting };
    status = open_model(&m, error);
    if (status == HTC_OK)
        status = begin(&m, error);
    if (status == HTC_OK)
        status = run_model(&m, &r, error);
    else if (m.too_big)
        status = htc__error(error, HTC_ETOOBIG, "the model needs more than the %llu MiB that are allowed", (unsigned long long)(m.memory_max >> 20));
    if (status == HTC_OK) {
        tell(&m, &r, results);
        status = htc__options_give(report, &r, sizeof r, offsetof(htc_sim_provision_report, scale));
    }
    close_model(&m);
    return status;
}
