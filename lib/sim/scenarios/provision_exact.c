/* Dynamic service provision with the real policies behind messages: the exact twin of lib/sim/models/provision.c (htcsched/sim_provision.h). Environments
 * (provision_exact_tre.c) and the provider (provision_exact_provider.c) are nodes of a simulated network; here is a run from its options to its report. */
#include <stdio.h>

#include "core/codec.h"
#include "core/util.h"
#include "sim/models/provision.h"
#include "sim/scenarios/provision_exact.h"

void htc__exact_transit(exact *x, uint64_t sent, uint64_t arrived)
{
    htc_ns now = htc__twin_now(&x->t);
    x->transit_ns += (exact_sum)x->transit * (now - x->transit_then);
    x->transit_then = now;
    if (arrived > x->transit)
        htc__twin_fail(&x->t, HTC_EINTERNAL, "%llu nodes arrive, and %llu are on their way", (unsigned long long)arrived, (unsigned long long)x->transit);
    x->transit = x->transit + sent - (arrived < x->transit ? arrived : x->transit);
}

/* ---- messages ---- */

htc_status htc__exact_say(exact *x, htc_output *out, uint32_t peer, uint32_t type, const exact_tre *e, uint64_t nodes)
{
    uint8_t data[32];
    size_t  n = 13;
    (void)x;
    data[0] = (uint8_t)type;
    htc__le32_put(data + 1, e->number);
    htc__le64_put(data + 5, nodes);
    if (type == EXACT_APPLY) {
        htc__le32_put(data + 13, (uint32_t)e->o.priority);
        htc__le64_put(data + 17, e->o.weight);
        n = 25;
    }
    return htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_MESSAGE, .peer = peer, .body = { data, n } });
}

int htc__exact_hear(exact *x, htc_bytes body, uint32_t *type, htc_provision_request *q)
{
    htc_reader r = htc_reader_of(body);
    *type = htc_get_u8(&r);
    *q = (htc_provision_request){ .id = htc_get_u32(&r) };
    q->nodes = htc_get_u64(&r);
    if (*type == EXACT_APPLY) {
        q->priority = (int32_t)htc_get_u32(&r);
        q->weight = htc_get_u64(&r);
    }
    if (htc_reader_done(&r) == HTC_OK && *type >= EXACT_APPLY && *type <= EXACT_RELEASE && q->id < x->n)
        return 1;
    htc__twin_fail(&x->t, HTC_EPROTO, "a message that cannot be read");
    return 0;
}

/* ---- what it is given ---- */

static htc_status read_options(exact *x, const htc_sim_provision_options *in, const htc_sim_provision_exact_options *costs)
{
    htc_sim_provision_options *o = &x->options;
    htc_status                 status = htc__prov_options(in, o);
    x->costs = (htc_sim_provision_exact_options){ .size = sizeof x->costs };
    if (status == HTC_OK && costs)
        status = htc__options_copy(&x->costs, sizeof x->costs, costs, costs->size, sizeof x->costs);
    if (status == HTC_OK)
        status = htc__twin_host(&x->t, o->host);
    if (status != HTC_OK)
        return htc__twin_refuse(&x->t, status, "the options of the run are out of range");
    x->costs.latency_ns = x->costs.latency_ns ? x->costs.latency_ns : HTC_MS;
    x->costs.gather_ns = x->costs.gather_ns ? x->costs.gather_ns : HTC_MS;
    if (x->costs.latency_ns > 3600 * HTC_SECOND || x->costs.jitter_ns > 3600 * HTC_SECOND || x->costs.gather_ns > 3600 * HTC_SECOND)
        return htc__twin_refuse(&x->t, HTC_EINVAL, "a message takes more than an hour");
    if (o->n_environments > HTC_SIM_PROVISION_EXACT_ENVIRONMENTS_MAX)
        return htc__twin_refuse(&x->t, HTC_ETOOBIG, "the exact engine has at most %u environments", HTC_SIM_PROVISION_EXACT_ENVIRONMENTS_MAX);
    if (o->system != HTC_SIM_PROVISION_DSP || o->shared || o->resume || o->checkpoint)
        return htc__twin_refuse(&x->t, HTC_EUNSUPPORTED, "the exact engine has the system DSP alone, without shared nodes or checkpoints");
    return HTC_OK;
}

/* ---- its world ---- */

static htc_status boot_tre(void *ctx, htc_sim_node *node)
{
    exact_tre *e = ctx;
    htc_status status = htc_sim_install(node, &htc__exact_tre_ops, e);
    return status == HTC_OK ? htc_sim_dial(node, 1, e->x->provider.node, NULL) : status;
}

static htc_status boot_provider(void *ctx, htc_sim_node *node)
{
    return htc_sim_install(node, &htc__exact_provider_ops, ctx);
}

/* A moment is over for a machine when all that was on its way to it has come: what was sent before is delivered before this. */
static htc_status call(void *ctx, htc_sim_node *node, const htc_effect *effect)
{
    (void)ctx;
    return htc_sim_result(node, 0, effect, HTC_OK, htc_bytes_of(NULL));
}

/* Nodes of the provider are somewhere: with an environment, or on their way. */
static void verify(exact *x)
{
    if (htc__twin_is_good(&x->t) && (x->provider.held != x->held + x->transit || x->provider.held > x->options.capacity))
        htc__twin_fail(&x->t, HTC_EINTERNAL, "nodes are not conserved: the provider has given %llu of %llu, environments hold %llu and %llu are on their way",
                        (unsigned long long)x->provider.held, (unsigned long long)x->options.capacity, (unsigned long long)x->held, (unsigned long long)x->transit);
}

static void checked_tre(void *ctx, htc_sim_node *node)
{
    exact_tre *e = ctx;
    (void)node;
    htc__exact_tre_verify(e);
    verify(e->x);
}

static void checked_provider(void *ctx, htc_sim_node *node)
{
    exact_provider *p = ctx;
    (void)node;
    verify(p->x);
}

static htc_status open_nodes(exact *x)
{
    static const htc_sim_host providers = { .size = sizeof providers, .boot = boot_provider, .checked = checked_provider };
    static const htc_sim_host tres = { .size = sizeof tres, .boot = boot_tre, .call = call, .checked = checked_tre };
    const htc_sim_net         net = { .size = sizeof net, .latency_ns = x->costs.latency_ns, .jitter_ns = x->costs.jitter_ns };
    htc_status                status = htc_sim_create(&x->t.memory.env, &(htc_sim_options){ .size = sizeof(htc_sim_options), .seed = x->costs.seed, .net = &net }, &x->t.w);
    if (status == HTC_OK)
        status = htc_sim_add(x->t.w, &(htc_sim_node_options){ .size = sizeof(htc_sim_node_options), .name = "provider", .host = &providers, .ctx = &x->provider }, &x->provider.node);
    if (status == HTC_OK)
        status = htc_sim_boot(x->provider.node);
    for (size_t i = 0; i < x->n && status == HTC_OK; i++) {
        char name[32];
        snprintf(name, sizeof name, "environment%zu", i);
        status = htc_sim_add(x->t.w, &(htc_sim_node_options){ .size = sizeof(htc_sim_node_options), .name = name, .host = &tres, .ctx = &x->tre[i] }, &x->tre[i].node);
        if (status == HTC_OK)
            status = htc_sim_boot(x->tre[i].node);
    }
    return status == HTC_OK ? HTC_OK : htc__twin_refuse(&x->t, status, "the network of the run: %s", htc_strerror(status));
}

static htc_status open_exact(exact *x)
{
    x->first_start = HTC_NEVER;
    x->t.answer = x->answer;
    x->options.granter = htc__asked_granter(&x->asked_grant, x->options.granter, x->answer);
    for (uint32_t flows = 0; flows < 2; flows++)
        x->policies[flows] = (htc_fit_policy){ .size = sizeof *x->policies, .promise = flows ? HTC_FIT_PROMISE_ORDER : HTC_FIT_PROMISE_NOTHING };
    x->n = x->live = x->options.n_environments;
    x->tre = htc__alloc(&x->t.memory.env, x->n * sizeof *x->tre);
    x->numbers = htc__alloc(&x->t.memory.env, 3 * x->n * sizeof *x->numbers);
    htc_status status = x->tre && x->numbers ? htc__exact_provider_open(x) : HTC_ENOMEM;
    if (status != HTC_OK)
        return htc__twin_refuse(&x->t, status, "no memory for the run");
    for (size_t i = 0; i < x->n && status == HTC_OK; i++) {
        status = htc__exact_tre_open(x, i);
        x->bounded += x->tre[i].o.period_ns > 0;
    }
    return status == HTC_OK ? open_nodes(x) : status;
}

static void close_exact(exact *x)
{
    htc_sim_destroy(x->t.w);
    for (size_t i = 0; x->tre && i < x->n; i++)
        htc__exact_tre_close(&x->tre[i]);
    htc__exact_provider_close(x);
    htc__free(&x->t.memory.env, x->tre, x->n * sizeof *x->tre);
    htc__free(&x->t.memory.env, x->numbers, 3 * x->n * sizeof *x->numbers);
}

/* ---- its course ---- */

static uint64_t units_of(const exact_tre *e)
{
    htc_provision_usage u;
    return e->book && htc_provision_usage_at(e->book, htc__twin_now(&e->x->t), &u) == HTC_OK ? u.node_units : e->units;
}

static void take_sample(htc_sim *w, void *ctx)
{
    exact                   *x = ctx;
    htc_sim_provision_sample s = { .size = sizeof s, .at = htc__twin_now(&x->t), .held = x->numbers, .busy = x->numbers + x->n, .waiting = x->numbers + 2 * x->n,
                                   .n_environments = x->n, .all_held = x->held };
    for (size_t i = 0; i < x->n; i++) {
        x->numbers[i] = x->tre[i].held;
        x->numbers[x->n + i] = x->tre[i].busy;
        x->numbers[2 * x->n + i] = x->tre[i].waiting;
        s.node_units += units_of(&x->tre[i]);
    }
    s.cost = (double)s.node_units * x->options.price;
    x->options.sample(x->options.sample_ctx, &s);
    if (x->live)
        (void)htc_sim_at(w, htc_sim_now(w) + x->options.sample_ns, take_sample, x, 0);
}

static void step_world(exact *x)
{
    if (!htc__twin_step(&x->t))
        htc__twin_fail(&x->t, HTC_EINTERNAL, "nothing will happen any more, and %zu environment%s not ended", x->live, x->live == 1 ? " has" : "s have");
}

/* All have their first nodes: from now on time counts. */
static void begin(exact *x)
{
    x->t.begin = htc_sim_now(x->t.w) + HTC_SECOND;
    for (size_t i = 0; i < x->n; i++)
        (void)htc_sim_event(x->tre[i].node, 0, 0, HTC_OK, htc_bytes_of(NULL));
    if (x->options.sample && x->options.sample_ns)
        (void)htc_sim_at(x->t.w, x->t.begin, take_sample, x, 0);
}

/* 1: it has ended; 0: the host has stopped it. */
static int run_world(exact *x)
{
    while (x->ready < x->n && htc__twin_is_good(&x->t))
        step_world(x);
    if (htc__twin_is_good(&x->t))
        begin(x);
    for (uint64_t events = 0; htc__twin_is_good(&x->t) && (x->live || x->asking || x->transit); events++) {
        if (htc__twin_is_stopped(&x->t, events, x->completed, 0))
            return 0;
        step_world(x);
    }
    return 1;
}

/* ---- what is told ---- */

static double seconds(exact_sum ns)
{
    return (double)ns / 1e9;
}

static htc_sim_provision_result result_of(const exact_tre *e)
{
    htc_provision_usage      u;
    htc_sim_provision_result r = { .submitted = e->submitted, .completed = e->completed, .refused = e->refused, .peak = e->peak, .busy_peak = e->busy_peak, .granted = e->granted,
                                   .returned = e->returned, .requests = e->requests, .rejected = e->rejected, .starved = e->starved, .setup_ns = e->setup_ns, .first = e->first,
                                   .last = e->last, .held_s = seconds(e->held_ns), .busy_s = seconds(e->busy_ns), .node_units = units_of(e) };
    uint64_t waits = e->started + e->left_waiting;
    if (e->book && htc_provision_usage_at(e->book, htc__twin_now(&e->x->t), &u) == HTC_OK) {
        r.requests = u.requests;
        r.rejected = u.rejected;
    }
    r.unfinished = e->submitted - e->completed - e->refused;
    r.wait_s = seconds(e->wait_ns) / (double)(waits ? waits : 1);
    if (e->completed && r.last > r.first)
        r.rate = (double)r.completed * 1e9 / (double)(r.last - r.first);
    return r;
}

/* What is false, of an environment that has ended. */
static const char *wrong_with(const exact_tre *e)
{
    exact_sum paid = (exact_sum)e->units * e->unit;
    if (e->submitted != e->completed + e->refused + e->left_running + e->left_waiting + e->left_blocked)
        return "submitted jobs are neither completed nor left";
    if (e->busy_ns + e->cut_ns != e->started_ns)
        return "node time is not the sum of the jobs";
    if (e->busy_ns > e->held_ns)
        return "more node time was used than held";
    if (e->held || e->granted != e->returned)
        return "not every node has gone back";
    if (paid < e->held_ns || paid > e->held_ns + (exact_sum)e->granted * e->unit)
        return "the units that are charged are not those of the leases";
    return NULL;
}

static void check(exact *x, htc_scale_report *s)
{
    exact_sum held = 0;
    htc__exact_provider_account(&x->provider);
    htc__exact_transit(x, 0, 0);
    for (size_t i = 0; i < x->n && !s->wrong[0]; i++) {
        const char *wrong = wrong_with(&x->tre[i]);
        held += x->tre[i].held_ns;
        if (wrong)
            snprintf(s->wrong, sizeof s->wrong, "environment %zu: %s", i, wrong);
    }
    if (!s->wrong[0] && (x->held || x->busy || x->running || x->provider.held))
        snprintf(s->wrong, sizeof s->wrong, "%llu nodes are held in the end, %llu busy, and %llu given", (unsigned long long)x->held, (unsigned long long)x->busy,
                 (unsigned long long)x->provider.held);
    if (!s->wrong[0] && x->provider.held_ns != held + x->transit_ns)
        snprintf(s->wrong, sizeof s->wrong, "the provider has given %.0f node seconds, and environments have held %.0f, beside %.0f on their way", seconds(x->provider.held_ns), seconds(held),
                 seconds(x->transit_ns));
}

static void tell(exact *x, htc_sim_provision_report *r, htc_sim_provision_result *results)
{
    htc_scale_report *s = &r->scale;
    for (size_t i = 0; i < x->n; i++) {
        if (r->interrupted && !x->tre[i].ended && x->tre[i].begun)
            htc__exact_tre_account(&x->tre[i]);
        htc_sim_provision_result one = result_of(&x->tre[i]);
        if (results)
            results[i] = one;
        htc__prov_add_up(r, &one);
    }
    r->peak = x->peak;
    r->busy_peak = x->busy_peak;
    r->scans = x->scans;
    r->memory = x->t.memory.peak;
    r->cost = (double)r->node_units * x->options.price;
    s->finished = !r->interrupted;
    s->events = s->events_here = htc_sim_events(x->t.w);
    s->submitted = x->started;
    s->ended = s->ended_here = x->completed;
    s->hash = htc_sim_hash(x->t.w);
    s->span = htc__twin_now(&x->t);
    s->makespan = x->completed ? x->last_end - x->first_start : 0;
    s->longest = x->longest;
    s->work_s = x->work_s;
    s->busy_s = r->busy_s;
    s->memory = x->t.memory.peak;
    if (!r->interrupted)
        check(x, s);
}

/* ---- all ---- */

htc_status htc_sim_provision_exact(const htc_env *env, const htc_sim_provision_options *options, const htc_sim_provision_exact_options *exact_options,
                                   htc_sim_provision_report *report, htc_sim_provision_result *results, htc_error *error)
{
    htc_sim_provision_report r = { .size = sizeof r, .scale.size = sizeof r.scale };
    exact                    x = { 0 };
    htc_status               status = HTC_EINVAL;
    if (!report || report->size < offsetof(htc_sim_provision_report, scale))
        return htc__error(error, status, "the options of the run are out of range");
    htc__twin_open(&x.t, env);
    status = read_options(&x, options, exact_options);
    if (status == HTC_OK)
        status = open_exact(&x);
    if (status == HTC_OK)
        r.interrupted = !run_world(&x);
    status = x.t.why.status;
    if (status == HTC_OK) {
        tell(&x, &r, results);
        status = htc__options_give(report, &r, sizeof r, offsetof(htc_sim_provision_report, scale));
    } else if (error) {
        *error = x.t.why;
    }
    close_exact(&x);
    return status;
}
