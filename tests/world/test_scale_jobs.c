/* The scale model of partition controllers beside its exact twin, in which controllers and the monitor ask real members of the store by messages: the same drawn jobs in
 * both. Throughput agrees within 5 % in the mean of some seeds; nodes and messages are conserved; planted mistakes are noticed. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/alloc_fail.h"
#include "core/fault.h"
#include "core/rng.h"
#include "htcsched/sim_jobs.h"

#define WITHIN 0.05

static int      failed;
static uint64_t events, hash; /* of all exact runs: ./check compares those of two compilers */

static void expect(int good, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void expect(int good, const char *format, ...)
{
    va_list args;
    if (good)
        return;
    failed++;
    va_start(args, format);
    printf("  WRONG: ");
    vprintf(format, args);
    printf("\n");
    va_end(args);
}

static int is_light(void)
{
    return getenv("HTC_TEST_LIGHT") != NULL;
}

/* ---- trials ---- */

typedef struct trial {
    const char *policy;
    uint32_t    controllers, partition, published;
    htc_ns      jitter;
} trial;

static const htc_balance_policy *policy_of(const char *name)
{
    static htc_registry      *registry;
    const htc_balance_policy *policy = NULL;
    if (!registry && (htc_registry_create(NULL, &registry) != HTC_OK || htc_registry_add_builtin(registry) != HTC_OK))
        abort();
    if (htc_balance_find(registry, name, &policy) != HTC_OK)
        abort();
    return policy;
}

/* As examples/sim/slurmpp-fig98-live.ini; or with the costs of the published simulator. */
static htc_sim_jobs_options options_of(const trial *t, uint64_t seed, uint64_t jobs)
{
    htc_sim_jobs_options o = { .size = sizeof o, .seed = seed, .nodes = t->controllers * t->partition, .partition = t->partition, .jobs = jobs, .sizes = HTC_SIM_JOBS_UNIFORM,
                               .nodes_min = 1, .nodes_max = t->partition, .length = { HTC_SCALE_EXPONENTIAL, 0, 1e8, 0 }, .policy = policy_of(t->policy), .wait_ns = HTC_MS,
                               .wait_ns_max = 100 * HTC_MS, .pull_ns = 10 * HTC_MS, .monitor_ns = HTC_MS, .latency_ns = 20 * HTC_US, .pack_ns = 5 * HTC_US, .store_ns = 20 * HTC_US,
                               .bandwidth = 125e6, .node_bytes = 30 };
    if (t->published) {
        htc_sim_jobs_published(&o);
        o.wait_ns_max = 100 * HTC_MS;
    }
    return o;
}

static htc_sim_jobs_report exactly(const htc_sim_jobs_options *o, htc_ns jitter)
{
    htc_sim_jobs_report        r = { .size = sizeof r };
    htc_sim_jobs_exact_options x = { .size = sizeof x, .jitter_ns = jitter };
    htc_error                  e = { 0 };
    htc_status                 status = htc_sim_jobs_exact(NULL, o, &x, &r, &e);
    expect(status == HTC_OK && !r.scale.wrong[0], "the exact engine: %s %s %s", htc_status_name(status), e.text, r.scale.wrong);
    expect(r.granted == r.scale.ended && r.scale.submitted == r.granted && (o->next_job || r.granted == (o->list ? o->n_list : o->jobs)) && r.scale.sent == r.scale.received && r.scale.finished,
           "%llu jobs had nodes, %llu have ended", (unsigned long long)r.granted, (unsigned long long)r.scale.ended);
    events += r.scale.events;
    hash = hash * 31 + r.scale.hash;
    return r;
}

static htc_sim_jobs_report modelled(const htc_sim_jobs_options *o)
{
    htc_sim_jobs_report r = { .size = sizeof r };
    htc_error           e = { 0 };
    htc_status          status = htc_sim_jobs_run(NULL, o, &r, &e);
    expect(status == HTC_OK && !r.scale.wrong[0], "the model: %s %s %s", htc_status_name(status), e.text, r.scale.wrong);
    return r;
}

static double apart(double a, double b)
{
    return b > 0 ? a / b - 1 : a > 0;
}

typedef struct figures {
    double throughput, latency, messages, steals, conflicts, utilisation;
} figures;

static void add(figures *f, const htc_sim_jobs_report *r, uint64_t seeds)
{
    double n = (double)seeds;
    f->throughput += r->throughput / n;
    f->latency += 1e3 * r->latency_s / n;
    f->messages += r->messages_all / n;
    f->steals += (double)r->steals / (double)r->granted / n;
    f->conflicts += (r->swaps ? (double)r->conflicts / (double)r->swaps : 0) / n;
    f->utilisation += r->utilisation / n;
}

/* The means of several seeds: a message's time decides who takes a node, and from then on two runs go their own ways. */
static void beside(const trial *t)
{
    uint64_t seeds = is_light() ? 3 : 10, jobs = is_light() ? 500 : 1500;
    figures  twin = { 0 }, ours = { 0 };
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        htc_sim_jobs_options o = options_of(t, seed, jobs);
        htc_sim_jobs_report  exact = exactly(&o, t->jitter), scale = modelled(&o);
        o.records = 1;
        htc_sim_jobs_report records = modelled(&o);
        expect(records.throughput == scale.throughput && records.requests == scale.requests, "with records it is another run");
        expect(memcmp(exact.sized, scale.sized, sizeof exact.sized) == 0 && fabs(apart(exact.scale.work_s, scale.scale.work_s)) < 1e-12, "these are other jobs");
        add(&twin, &exact, seeds);
        add(&ours, &scale, seeds);
    }
    printf("%-9s %u of %u nodes%s%s: %.2f and %.2f jobs/s (%+.1f %%), latency %.2f and %.2f ms, messages %.2f and %.2f, steals %.2f and %.2f, conflicts %.4f and %.4f, utilisation %.3f and %.3f\n",
           t->policy, t->controllers, t->partition, t->published ? ", published costs" : "", t->jitter ? ", jitter" : "", twin.throughput, ours.throughput,
           100 * apart(ours.throughput, twin.throughput), twin.latency, ours.latency, twin.messages, ours.messages, twin.steals, ours.steals, twin.conflicts, ours.conflicts, twin.utilisation,
           ours.utilisation);
    expect(fabs(apart(ours.throughput, twin.throughput)) <= WITHIN, "throughputs are apart");
}

/* What is seen is what they do: a store that takes long for a request is another run in both, by more than they are apart. */
static void another_cost_is_another_run(void)
{
    trial   t = { "monitored", 4, 16, 0, 0 };
    figures twin[2] = { { 0 } }, ours[2] = { { 0 } };
    for (uint64_t seed = 1; seed <= 4; seed++)
        for (int slow = 0; slow < 2; slow++) {
            htc_sim_jobs_options o = options_of(&t, seed, 500);
            o.store_ns = slow ? 2 * HTC_MS : o.store_ns;
            htc_sim_jobs_report exact = exactly(&o, 0), scale = modelled(&o);
            add(&twin[slow], &exact, 4);
            add(&ours[slow], &scale, 4);
        }
    printf("a slow store: %.2f and %.2f jobs/s\n", twin[1].throughput, ours[1].throughput);
    expect(twin[0].throughput > (1 + 3 * WITHIN) * twin[1].throughput && ours[0].throughput > (1 + 3 * WITHIN) * ours[1].throughput, "what the store takes is not seen");
    expect(fabs(apart(ours[1].throughput, twin[1].throughput)) <= WITHIN, "with a slow store throughputs are apart");
}

/* ---- by hand ---- */

/* One controller whose member is beside it, 1 ns away: it reads the job, looks, swaps, writes three records; three nodes are two levels of the tree. */
static void by_hand(void)
{
    htc_sim_jobs_job     list[] = { { .size = sizeof *list, .nodes = 3, .length = 7 * HTC_MS }, { .size = sizeof *list, .nodes = 4, .length = HTC_MS } };
    htc_sim_jobs_options o = { .size = sizeof o, .nodes = 4, .partition = 4, .list = list, .n_list = 1, .policy = policy_of("random"), .latency_ns = 100 * HTC_US, .pack_ns = 50 * HTC_US,
                               .store_ns = HTC_MS, .job_ns = 2 * HTC_MS, .node_ns = HTC_MS, .launch_ns = 10 * HTC_US };
    htc_sim_jobs_report  r = exactly(&o, 0);
    htc_ns               latency = 5 * HTC_MS + 5 * (HTC_MS + 2), launch = 2 * (2 * 200 * HTC_US + 10 * HTC_US);
    expect(fabs(r.latency_s - (double)latency / 1e9) < 1e-12 && r.messages == 5 && r.messages_all == 7 && r.swaps == 2 && r.conflicts == 0 && r.steals == 0 && r.services == 0,
           "latency %.9f, %g messages, %g in all", r.latency_s, r.messages, r.messages_all);
    expect(r.scale.makespan == latency + launch + 7 * HTC_MS, "makespan %llu", (unsigned long long)r.scale.makespan);
    expect(r.controllers == 1 && r.sized[3] == 0 && r.scale.longest == 7 * HTC_MS && fabs(r.utilisation - 3 * 7e6 / 4 / (double)r.scale.makespan) < 1e-9, "utilisation %g", r.utilisation);
    o.n_list = 2; /* the second one needs all: it waits until the first has given back */
    r = exactly(&o, 0);
    expect(r.granted == 2 && r.rounds > 0 && r.scale.makespan > latency + launch + 7 * HTC_MS + HTC_MS, "the second job does not wait");
}

/* ---- other forms of work ---- */

typedef struct source {
    uint64_t n, samples, ended;
    htc_ns   at;
} source;

static htc_status next_of(void *ctx, htc_sim_jobs_job *job)
{
    source *s = ctx;
    if (s->n == 200)
        return HTC_AGAIN;
    job->nodes = 1 + (uint32_t)(s->n * 7 % 20);
    job->length = (1 + s->n % 13) * HTC_MS;
    job->arrival = s->n++ * 3 * HTC_MS;
    return HTC_OK;
}

static void count_sample(void *ctx, const htc_sim_jobs_sample *s)
{
    source *all = ctx;
    expect(s->at >= all->at && s->taken >= s->busy && s->taken <= 64, "a sample that cannot be");
    all->at = s->at;
    all->samples++;
}

static void count_ended(void *ctx, const htc_sim_jobs_ended *j)
{
    ((source *)ctx)->ended++;
    expect(j->submitted < j->started && j->started < j->ended && j->controller < 4, "a job that cannot be");
}

/* A source, nodes that are out of use, samples, jobs that are told of. */
static void takes_what_the_model_takes(void)
{
    trial                t = { "monitored", 4, 16, 0, 0 };
    htc_sim_jobs_options o = options_of(&t, 1, 1);
    source               exact = { 0 }, scale = { 0 };
    o.next_job = next_of;
    o.used = 0.25;
    o.sample = count_sample;
    o.sample_ns = 10 * HTC_MS;
    o.ended = count_ended;
    o.ctx = &exact;
    htc_sim_jobs_report r = exactly(&o, 0);
    o.ctx = &scale;
    htc_sim_jobs_report ours = modelled(&o);
    expect(r.granted == 200 && exact.ended == 200 && exact.samples > 50, "%llu jobs, %llu samples", (unsigned long long)exact.ended, (unsigned long long)exact.samples);
    expect(fabs(apart(ours.throughput, r.throughput)) <= WITHIN, "of a source %g and %g jobs/s", r.throughput, ours.throughput);
    printf("a source: %.2f and %.2f jobs/s\n", r.throughput, ours.throughput);
}

/* ---- drawn runs ---- */

#define DRAWN_JOBS 40

static htc_ns draw_span(htc_rng *rng, htc_ns most)
{
    return htc_rng_below(rng, 3) ? htc_rng_below(rng, most) : 0;
}

/* Anything that a machine of some nodes can be: costs of nothing, so that all happens at one moment, jobs without length, partitions of one node, nodes out of use. */
static htc_sim_jobs_options draw(uint64_t seed, htc_sim_jobs_job *list, htc_ns *jitter)
{
    htc_rng              rng = { seed };
    htc_sim_jobs_options o = { .size = sizeof o, .seed = seed, .nodes = 1 + (uint32_t)htc_rng_below(&rng, 24), .policy = policy_of(htc_rng_below(&rng, 2) ? "random" : "monitored") };
    o.partition = 1 + (uint32_t)htc_rng_below(&rng, 8);
    o.jobs = 1 + htc_rng_below(&rng, DRAWN_JOBS);
    o.nodes_max = 1 + (uint32_t)htc_rng_below(&rng, o.nodes);
    o.length = (htc_scale_law){ .kind = (uint32_t)htc_rng_below(&rng, 3), .mean_ns = (double)draw_span(&rng, 50 * HTC_MS) };
    o.used = htc_rng_below(&rng, 3) || o.nodes_max > o.nodes / 2 ? 0 : 0.3;
    o.tries = (uint32_t)htc_rng_below(&rng, 4);
    o.fanout = 2 + (uint32_t)htc_rng_below(&rng, 3);
    o.wait_ns = draw_span(&rng, 5 * HTC_MS);
    o.wait_ns_max = o.wait_ns + draw_span(&rng, 100 * HTC_MS);
    o.pull_ns = draw_span(&rng, 20 * HTC_MS);
    o.monitor_ns = draw_span(&rng, 20 * HTC_MS);
    o.latency_ns = draw_span(&rng, HTC_MS);
    o.pack_ns = draw_span(&rng, HTC_MS);
    o.store_ns = draw_span(&rng, HTC_MS);
    o.job_ns = draw_span(&rng, HTC_MS);
    o.node_ns = draw_span(&rng, HTC_MS);
    o.launch_ns = draw_span(&rng, HTC_MS);
    o.bandwidth = (double)draw_span(&rng, 10000000);
    *jitter = draw_span(&rng, HTC_MS);
    uint32_t controllers = (o.nodes + o.partition - 1) / o.partition;
    for (size_t i = 0; i < DRAWN_JOBS; i++)
        list[i] = (htc_sim_jobs_job){ .size = sizeof *list, .controller = (uint32_t)htc_rng_below(&rng, controllers), .nodes = 1 + (uint32_t)htc_rng_below(&rng, o.nodes_max), .length = draw_span(&rng, 50 * HTC_MS) };
    if (htc_rng_below(&rng, 2)) {
        o.list = list;
        o.n_list = o.jobs;
    }
    return o;
}

/* What a run checks after each step and in the end holds, and it does what it is given. Jobs that want most of the machine may keep each other waiting for long. */
static void holds_in_drawn_runs(void)
{
    uint64_t runs = is_light() ? 60 : getenv("HTC_TEST_FULL") ? 3000 : 500, ended = 0;
    for (uint64_t seed = 1; seed <= runs; seed++) {
        htc_sim_jobs_job           list[DRAWN_JOBS];
        htc_sim_jobs_exact_options x = { .size = sizeof x };
        htc_sim_jobs_options       o = draw(seed, list, &x.jitter_ns);
        htc_scale_host             host = { .size = sizeof host, .stop_after = 100000 };
        htc_sim_jobs_report        r = { .size = sizeof r };
        htc_error                  e = { 0 };
        o.host = &host;
        htc_status status = htc_sim_jobs_exact(NULL, &o, &x, &r, &e);
        if (status == HTC_EINVAL) { /* more nodes than can be taken, or a longest wait below the first */
            htc_sim_jobs_report ours = { .size = sizeof ours };
            expect(htc_sim_jobs_run(NULL, &o, &ours, NULL) == HTC_EINVAL && e.text[0], "seed %llu: the model does not refuse it: %s", (unsigned long long)seed, e.text);
            continue;
        }
        expect(status == HTC_OK && !r.scale.wrong[0], "seed %llu: %s %s %s", (unsigned long long)seed, htc_status_name(status), e.text, r.scale.wrong);
        expect(r.interrupted || status != HTC_OK || (r.granted == (o.list ? o.n_list : o.jobs) && r.scale.ended == r.granted), "seed %llu: %llu jobs had nodes", (unsigned long long)seed,
               (unsigned long long)r.granted);
        ended += status == HTC_OK && !r.interrupted;
        events += r.scale.events;
        hash = hash * 31 + r.scale.hash;
    }
    printf("%llu of %llu drawn runs have ended\n", (unsigned long long)ended, (unsigned long long)runs);
    expect(ended > runs * 9 / 10, "too few of them have ended");
}

/* ---- the same seed; what is refused; the host ---- */

static void the_same_seed_is_the_same_run(void)
{
    for (int jitter = 0; jitter < 2; jitter++) {
        trial                t = { jitter ? "random" : "monitored", 4, 16, 0, 0 };
        htc_sim_jobs_options o = options_of(&t, 3, 100), other = options_of(&t, 4, 100);
        htc_ns               span = (htc_ns)jitter * 10 * HTC_US;
        uint64_t             first = exactly(&o, span).scale.hash;
        expect(first == exactly(&o, span).scale.hash && first != exactly(&other, span).scale.hash && (!jitter || first != exactly(&o, 0).scale.hash), "a run is not of its seed");
    }
}

static volatile int stops;

static void stop_soon(void *ctx, const htc_scale_progress *p)
{
    (void)ctx;
    stops = p->done > 0;
}

static void refuses(void)
{
    trial                      t = { "monitored", 2, 16, 0, 0 };
    htc_sim_jobs_options       good = options_of(&t, 1, 100), o = good;
    htc_sim_jobs_exact_options x = { .size = sizeof x };
    htc_sim_jobs_report        r = { .size = sizeof r };
    htc_scale_host             host = { .size = sizeof host, .stop = &stops, .progress = stop_soon };
    htc_scale_tape             tape = { .size = sizeof tape };
    htc_error                  e;
#define REFUSED(change, status)                                                                                       \
    o = good;                                                                                                         \
    x = (htc_sim_jobs_exact_options){ .size = sizeof x };                                                             \
    e = (htc_error){ 0 };                                                                                             \
    change;                                                                                                           \
    expect(htc_sim_jobs_exact(NULL, &o, &x, &r, &e) == (status) && e.text[0], "not refused: " #change)
    REFUSED(o.central = 1, HTC_EUNSUPPORTED);
    REFUSED(o.checkpoint = &tape, HTC_EUNSUPPORTED);
    REFUSED(o.resume = &tape, HTC_EUNSUPPORTED);
    REFUSED(o.nodes = 16 * (HTC_SIM_JOBS_EXACT_CONTROLLERS_MAX + 1), HTC_ETOOBIG);
    REFUSED(o.nodes_max = 33, HTC_EINVAL);
    REFUSED(o.nodes = 0, HTC_EINVAL);
    REFUSED(x.jitter_ns = HTC_NEVER, HTC_EINVAL);
    REFUSED(x.size = 0, HTC_EINVAL);
#undef REFUSED
    o = good;
    o.nodes = 64; /* who make their connections all at once */
    o.partition = o.nodes_max = 1;
    o.jobs = 64;
    o.store_ns = 60 * HTC_SECOND;
    expect(htc_sim_jobs_exact(NULL, &o, NULL, &r, &e) == HTC_OK && r.granted == 64 && !r.scale.wrong[0], "a slow store is not reached: %s %s", e.text, r.scale.wrong);
    o = good;
    o.jobs = 1000000;
    o.host = &host;
    expect(htc_sim_jobs_exact(NULL, &o, NULL, &r, NULL) == HTC_OK && r.interrupted && r.granted > 0 && r.granted < o.jobs && !r.scale.wrong[0] && !r.scale.finished, "it does not stop");
    o.host = &(htc_scale_host){ .size = sizeof host, .stop_after = 20000 };
    expect(htc_sim_jobs_exact(NULL, &o, NULL, &r, NULL) == HTC_OK && r.interrupted && r.scale.events >= 20000 && r.scale.events < 22000, "it does not stop after so many events");
}

static htc_status pick_beyond(void *state, const htc_balance_view *view, htc_rng *rng, uint32_t *partition)
{
    (void)state;
    (void)rng;
    *partition = view->partitions;
    return HTC_OK;
}

static void says_what_a_policy_answered(void)
{
    static const htc_balance_policy beyond = { .size = sizeof beyond, .name = "beyond", .tries = 3, .pick = pick_beyond };
    trial                           t = { "random", 2, 16, 0, 0 };
    htc_sim_jobs_options            o = options_of(&t, 1, 100);
    htc_sim_jobs_report             r = { .size = sizeof r };
    htc_error                       e = { 0 };
    o.policy = &beyond;
    o.nodes_max = 32;
    htc_status status = htc_sim_jobs_exact(NULL, &o, NULL, &r, &e);
    expect(status != HTC_OK && strstr(e.text, "beyond") && strstr(e.text, "partition 2"), "%s %s", htc_status_name(status), e.text);
}

/* Of memory there is as much as the host allows, and it is all given back. */
static void keeps_within_memory(void)
{
    trial                t = { "monitored", 3, 8, 0, 0 };
    htc_sim_jobs_options o = options_of(&t, 1, 60);
    htc_sim_jobs_report  r = { .size = sizeof r };
    htc_error            e = { 0 };
    alloc_fail           f = alloc_fail_at(0);
    htc_env              env = alloc_fail_env(&f);
    expect(htc_sim_jobs_exact(&env, &o, NULL, &r, &e) == HTC_OK, "%s", e.text);
    uint64_t needed = r.memory;
    expect(needed > 50000, "%llu bytes", (unsigned long long)needed);
    for (uint64_t part = 1; part <= 32; part++) {
        uint64_t max = needed * part / 32;
        o.host = &(htc_scale_host){ .size = sizeof(htc_scale_host), .memory_max = max };
        htc_status status = htc_sim_jobs_exact(&env, &o, NULL, &r, &e);
        expect(part == 32 ? status == HTC_OK && r.memory == max : status == HTC_ETOOBIG && strstr(e.text, "MiB of memory that are allowed"), "with %llu bytes: %s %s", (unsigned long long)max,
               htc_status_name(status), e.text);
    }
    expect(f.live == 0, "%zu pieces are not given back", f.live);
}

/* Whatever piece of memory is refused, the rest is given back. */
static void has_no_memory(void)
{
    trial                t = { "monitored", 2, 2, 0, 0 };
    htc_sim_jobs_options o = options_of(&t, 1, 6);
    htc_sim_jobs_report  r = { .size = sizeof r };
    size_t               all = 0, most = is_light() ? 100 : 400;
    for (size_t n = 0, step = 1; n <= all; n += step) { /* each of the first ones, and then some of those that are alike */
        alloc_fail f = alloc_fail_at(n);
        htc_env    env = alloc_fail_env(&f);
        htc_status status = htc_sim_jobs_exact(&env, &o, NULL, &r, NULL);
        all = n ? all : f.calls;
        step = n < most ? 1 : all / most + 1;
        expect(status == (n ? HTC_ENOMEM : HTC_OK), "without piece %zu: %s", n, htc_status_name(status));
        expect(f.live == 0 && f.wrong_sizes == 0, "without piece %zu: %zu pieces are not given back, %zu with another size", n, f.live, f.wrong_sizes);
    }
}

/* ---- with a rule left out ---- */

static void a_mistake_is_noticed(htc__broken broken, const char *name)
{
    trial t = { "random", 4, 8, 0, 0 };
    int   noticed = 0;
    for (uint64_t seed = 1; seed <= 20 && !noticed; seed++) {
        htc_sim_jobs_options o = options_of(&t, seed, 12);
        htc_scale_host       host = { .size = sizeof host, .stop_after = 200000 }; /* nodes that are lost are waited for */
        htc_sim_jobs_report  r = { .size = sizeof r };
        htc_error            e = { 0 };
        o.nodes_max = 16;
        (void)exactly(&o, 0);
        o.host = &host;
        htc__broken_set(broken, 1);
        noticed = htc_sim_jobs_exact(NULL, &o, NULL, &r, &e) != HTC_OK || r.scale.wrong[0];
        htc__broken_set(broken, 0);
        if (noticed)
            printf("  %s: seed %llu: %s%s\n", name, (unsigned long long)seed, e.text, e.text[0] ? "" : r.scale.wrong);
    }
    expect(noticed, "%s was not noticed", name);
}

int main(void)
{
    static const trial trials[] = {
        { "random", 2, 16, 0, 0 },    { "monitored", 2, 16, 0, 0 }, { "random", 4, 16, 0, 0 }, { "monitored", 4, 16, 0, 0 }, { "random", 8, 16, 0, 0 },
        { "monitored", 8, 16, 0, 0 }, /* up to here it is the short form */
        { "monitored", 8, 16, 0, 10 * HTC_US }, { "random", 1, 16, 0, 0 }, { "monitored", 16, 4, 0, 0 }, { "random", 16, 4, 0, 0 },
        { "monitored", 4, 64, 1, 0 }, { "random", 4, 64, 1, 0 },
    };
    size_t n = is_light() ? 6 : sizeof trials / sizeof *trials;
    by_hand();
    for (size_t i = 0; i < n; i++)
        beside(&trials[i]);
    another_cost_is_another_run();
    takes_what_the_model_takes();
    holds_in_drawn_runs();
    the_same_seed_is_the_same_run();
    refuses();
    says_what_a_policy_answered();
    keeps_within_memory();
    has_no_memory();
    a_mistake_is_noticed(HTC__BROKEN_swap_unseen, "swap_unseen");
    a_mistake_is_noticed(HTC__BROKEN_part_not_given, "part_not_given");
    printf("%llu events, hash %016llx\n%s\n", (unsigned long long)events, (unsigned long long)hash, failed ? "WRONG" : "as the exact engine does");
    return failed != 0;
}
