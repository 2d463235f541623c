/* The scale model of provisioning beside its exact twin, where environments and the provider speak by messages: the same drawn jobs in both. The same jobs end and
 * node-hours agree within 1 %, with the library's policies and with a caller's; another policy changes both runs. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/fault.h"
#include "core/rng.h"
#include "htcsched/sim_provision.h"

#define WITHIN 0.01
#define JOBS   2000
#define TRES   3
#define HOUR   (3600 * HTC_SECOND)

static int failed;

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

/* ---- policies of one's own: twice what is missing is asked for, and half of what is idle stays; nobody gets more than 20 nodes at a time ---- */

static uint64_t ask_more(void *ctx, const htc_provision_view *view, uint32_t *reason)
{
    uint64_t waiting = view->demand->waiting_nodes;
    (void)ctx;
    *reason = 1000;
    return waiting > view->idle ? 2 * (waiting - view->idle) : 0;
}

static uint64_t keep_half(void *ctx, const htc_provision_view *view, uint64_t leased)
{
    (void)ctx;
    (void)leased;
    return view->demand->waiting_nodes ? 0 : view->idle / 2;
}

static const htc_provision_policy hoard = { .size = sizeof hoard, .name = "hoard", .request = ask_more, .release = keep_half };

static htc_status twenty(void *ctx, const htc_env *env, uint64_t free_nodes, const htc_provision_request *requests, size_t n, uint64_t *granted)
{
    (void)ctx;
    (void)env;
    for (size_t i = 0; i < n; i++) {
        granted[i] = requests[i].initial || requests[i].nodes < 20 ? requests[i].nodes : 20;
        granted[i] = granted[i] < free_nodes ? granted[i] : requests[i].initial ? 0 : free_nodes;
        free_nodes -= granted[i];
    }
    return HTC_OK;
}

static const htc_provision_granter portions = { .size = sizeof portions, .name = "portions", .grant = twenty };

/* ---- a workload ---- */

/* Jobs come in whole seconds, as those of logs do: at a scan's moment too, which is what the order at one moment is for. */
static void draw_jobs(htc_sim_provision_job *job, uint64_t seed, uint32_t widest)
{
    htc_rng  rng = { seed };
    uint64_t at = 0;
    for (size_t j = 0; j < JOBS; j++) {
        uint64_t burst = htc_rng_below(&rng, 4);
        at += burst ? htc_rng_below(&rng, 120) : htc_rng_below(&rng, 900);
        uint64_t length = htc_rng_below(&rng, 5) ? 1 + htc_rng_below(&rng, 900) : 1 + htc_rng_below(&rng, 10800);
        job[j] = (htc_sim_provision_job){ .arrival = at * HTC_SECOND, .length = length * HTC_SECOND, .estimate = 2 * length * HTC_SECOND, .nodes = 1 + (uint32_t)htc_rng_below(&rng, widest) };
    }
}

/* Each has a first task, some in the middle and a last one. */
#define FLOWS 20
#define TASKS 40

static htc_sim_provision_flow flows[FLOWS];
static htc_sim_provision_edge edges[2 * TASKS];
static htc_ns                 lengths[FLOWS][TASKS];

static void draw_flows(uint64_t seed)
{
    htc_rng  rng = { seed };
    uint64_t at = 0;
    for (uint32_t t = 1; t + 1 < TASKS; t++) {
        edges[2 * t] = (htc_sim_provision_edge){ 0, t };
        edges[2 * t + 1] = (htc_sim_provision_edge){ t, TASKS - 1 };
    }
    for (size_t f = 0; f < FLOWS; f++) {
        at += htc_rng_below(&rng, 7200);
        for (size_t t = 0; t < TASKS; t++)
            lengths[f][t] = (1 + htc_rng_below(&rng, 600)) * HTC_SECOND;
        flows[f] = (htc_sim_provision_flow){ .size = sizeof *flows, .arrival = at * HTC_SECOND, .length = lengths[f], .tasks = TASKS, .edges = edges + 2, .n_edges = 2 * (TASKS - 2) };
    }
}

typedef struct trial {
    const char                  *name;
    const htc_provision_policy  *policy;
    const htc_provision_granter *granter;
    const htc_fit_policy        *fit;
    size_t                       tres;
    uint64_t                     capacity;
    htc_ns                       period, jitter;
    int                          flows, delay; /* flows: the last environment has workflows */
} trial;

typedef struct course {
    htc_sim_provision_report report;
    htc_sim_provision_result result[TRES];
} course;

static htc_sim_provision_job jobs[TRES][JOBS];

static htc_ns phase_of(uint64_t seed)
{
    return ((7 * seed + 1) % 60 + 1) * HTC_SECOND;
}

static htc_status run(const trial *t, uint64_t seed, int exactly, course *c, htc_error *e)
{
    htc_provision_options           book[TRES];
    htc_sim_provision_environment   tre[TRES];
    htc_sim_provision_exact_options costs = { .size = sizeof costs, .seed = seed, .jitter_ns = t->jitter };
    htc_sim_provision_options       o = { .size = sizeof o, .capacity = t->capacity, .granter = t->granter, .setup_delay = t->delay > 0, .environments = tre, .n_environments = t->tres };
    for (size_t i = 0; i < t->tres; i++) {
        draw_jobs(jobs[i], 10 * seed + i, 48);
        book[i] = (htc_provision_options){ .size = sizeof *book, .policy = t->policy, .initial = 20, .phase_ns = phase_of(seed) };
        tre[i] = (htc_sim_provision_environment){ .size = sizeof *tre, .book = &book[i], .fit = t->fit, .priority = (int32_t)(i % 2), .weight = i + 1, .period_ns = t->period, .jobs = jobs[i], .n_jobs = JOBS };
    }
    if (t->flows) {
        draw_flows(seed);
        tre[t->tres - 1].jobs = NULL;
        tre[t->tres - 1].n_jobs = 0;
        tre[t->tres - 1].flows = flows;
        tre[t->tres - 1].n_flows = FLOWS;
        book[t->tres - 1].initial = 10;
    }
    *c = (course){ .report = { .size = sizeof c->report } };
    *e = (htc_error){ 0 };
    return exactly ? htc_sim_provision_exact(NULL, &o, &costs, &c->report, c->result, e) : htc_sim_provision_run(NULL, &o, &c->report, c->result, e);
}

static double apart(double a, double b)
{
    return b > 0 ? a / b - 1 : a > 0;
}

static void both(const trial *t, uint64_t seed, course *exact, course *scale)
{
    htc_error  e;
    htc_status status = run(t, seed, 1, exact, &e);
    expect(status == HTC_OK && !exact->report.scale.wrong[0], "%s, exact: %s %s %s", t->name, htc_strerror(status), e.text, exact->report.scale.wrong);
    status = run(t, seed, 0, scale, &e);
    expect(status == HTC_OK && !scale->report.scale.wrong[0], "%s, scale: %s %s %s", t->name, htc_strerror(status), e.text, scale->report.scale.wrong);
}

/* The sums of several seeds. Where environments contend for nodes one message's time decides who gets some, and from then on two runs go their own ways. */
static void beside(const trial *t, uint64_t seeds)
{
    uint64_t hours[2] = { 0 }, ended[2] = { 0 }, adjusted[2] = { 0 };
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        course c[2];
        both(t, seed, &c[1], &c[0]);
        for (int k = 0; k < 2; k++) {
            hours[k] += c[k].report.node_units;
            ended[k] += c[k].report.completed;
            adjusted[k] += c[k].report.granted + c[k].report.returned;
        }
        for (size_t i = 0; i < t->tres; i++) {
            const htc_sim_provision_result *x = &c[1].result[i], *s = &c[0].result[i];
            expect(x->submitted == s->submitted && x->refused == s->refused && x->completed > 0, "seed %llu, environment %zu: jobs that were submitted", (unsigned long long)seed, i);
            expect(t->period || x->completed == s->completed, "seed %llu, environment %zu: %llu jobs, and %llu in the model", (unsigned long long)seed, i, (unsigned long long)x->completed,
                   (unsigned long long)s->completed);
        }
    }
    double more = apart((double)hours[1], (double)hours[0]), done = apart((double)ended[1], (double)ended[0]);
    printf("  %-26s %llu jobs exact, %llu scale (%+.2f %%); %llu node-hours and %llu (%+.2f %%); %llu adjusted and %llu\n", t->name, (unsigned long long)ended[1], (unsigned long long)ended[0],
           100 * done, (unsigned long long)hours[1], (unsigned long long)hours[0], 100 * more, (unsigned long long)adjusted[1], (unsigned long long)adjusted[0]);
    expect(fabs(more) <= WITHIN, "node-hours");
    expect(fabs(done) <= WITHIN, "jobs that have ended");
}

/* One that asks and gives back otherwise leads both engines elsewhere, by more than they are apart. */
static void another_policy_is_another_run(void)
{
    trial  t = { .name = "another policy", .tres = 2, .capacity = 2000 };
    course exact, scale, exact_other, scale_other;
    both(&t, 1, &exact, &scale);
    t.policy = &hoard;
    both(&t, 1, &exact_other, &scale_other);
    double in_exact = apart((double)exact_other.report.node_units, (double)exact.report.node_units);
    double in_scale = apart((double)scale_other.report.node_units, (double)scale.report.node_units);
    printf("  another policy: %+.1f %% node-hours exact, %+.1f %% scale\n", 100 * in_exact, 100 * in_scale);
    expect(fabs(in_exact) > 3 * WITHIN && fabs(in_scale) > 3 * WITHIN && fabs(in_exact - in_scale) <= 2 * WITHIN, "a policy of one's own is asked in both");
    expect(exact_other.report.scale.hash != exact.report.scale.hash, "the same messages");
}

static void the_same_seed_is_the_same_run(void)
{
    trial  t = { .name = "", .tres = 2, .capacity = 400, .jitter = 200 * HTC_US };
    course one, two;
    htc_error e;
    expect(run(&t, 3, 1, &one, &e) == HTC_OK && run(&t, 3, 1, &two, &e) == HTC_OK && one.report.scale.hash == two.report.scale.hash, "two runs of one seed differ");
}

/* ---- with a rule left out ---- */

static void a_mistake_is_noticed(htc__broken broken, const char *name)
{
    trial     t = { .name = name, .tres = 2, .capacity = 1000 };
    course    c;
    htc_error e;
    int       noticed = 0;
    for (uint64_t seed = 1; seed <= 15 && !noticed; seed++) {
        t.period = 8 * HOUR + phase_of(seed) + HTC_MS; /* between a request and its answer */
        htc_status sound = run(&t, seed, 1, &c, &e);
        expect(sound == HTC_OK && !c.report.scale.wrong[0], "%s: the sound run: %s %s", name, e.text, c.report.scale.wrong);
        htc__broken_set(broken, 1);
        htc_status status = run(&t, seed, 1, &c, &e);
        htc__broken_set(broken, 0);
        noticed = status != HTC_OK || c.report.scale.wrong[0];
        if (noticed)
            printf("  %s: seed %llu: %s%s\n", name, (unsigned long long)seed, e.text, c.report.scale.wrong);
    }
    expect(noticed, "%s was not noticed", name);
}

/* Looking at leases before the answer that comes at the same moment gives back nodes that jobs wait for. */
static void the_answer_is_waited_for(void)
{
    trial     t = { .name = "", .tres = 1, .capacity = 400, .policy = htc_provision_policy_of(HTC_PROVISION_PAPER) };
    course    sound, broken;
    htc_error e;
    expect(run(&t, 1, 1, &sound, &e) == HTC_OK, "%s", e.text);
    htc__broken_set(HTC__BROKEN_answer_unawaited, 1);
    expect(run(&t, 1, 1, &broken, &e) == HTC_OK, "%s", e.text);
    htc__broken_set(HTC__BROKEN_answer_unawaited, 0);
    expect(sound.report.scale.hash != broken.report.scale.hash, "answer_unawaited was not noticed");
}

int main(void)
{
    const htc_provision_policy  *paper = htc_provision_policy_of(HTC_PROVISION_PAPER), *perlease = htc_provision_policy_of(HTC_PROVISION_PERLEASE);
    const htc_provision_granter *partial = htc_provision_granter_of(HTC_PROVISION_PARTIAL);
    static const htc_fit_policy  fcfs = { .size = sizeof fcfs, .promise = HTC_FIT_PROMISE_ORDER };
    const trial                  trials[] = {
        { .name = "paper", .policy = paper, .tres = 1, .capacity = 400 },
        { .name = "perlease", .policy = perlease, .tres = 1, .capacity = 400 },
        { .name = "paper, FCFS", .policy = paper, .fit = &fcfs, .tres = 1, .capacity = 400 },
        { .name = "three, all or reject", .policy = paper, .tres = 3, .capacity = 1300 },
        { .name = "three, partial", .policy = paper, .granter = partial, .tres = 3, .capacity = 700 },
        { .name = "three, partial, perlease", .policy = perlease, .granter = partial, .tres = 3, .capacity = 700 },
        { .name = "three, until an hour", .policy = paper, .granter = partial, .tres = 3, .capacity = 700, .period = 20 * HOUR },
        { .name = "three, jitter", .policy = perlease, .granter = partial, .tres = 3, .capacity = 700, .jitter = 100 * HTC_US },
        { .name = "workflows", .policy = paper, .tres = 1, .capacity = 400, .flows = 1 },
        { .name = "three, with workflows", .policy = perlease, .tres = 3, .capacity = 700, .flows = 1 },
        { .name = "three, setup takes time", .policy = paper, .tres = 3, .capacity = 1300, .delay = 1 },
        { .name = "three, own policies", .policy = &hoard, .granter = &portions, .tres = 3, .capacity = 700 },
    };
    printf("the model beside environments and a provider that speak by messages:\n");
    for (size_t i = 0; i < sizeof trials / sizeof *trials; i++)
        beside(&trials[i], getenv("HTC_TEST_FULL") ? 100 : 20);
    another_policy_is_another_run();
    the_same_seed_is_the_same_run();
    a_mistake_is_noticed(HTC__BROKEN_release_untold, "release_untold");
    a_mistake_is_noticed(HTC__BROKEN_late_nodes_kept, "late_nodes_kept");
    the_answer_is_waited_for();
    return failed != 0;
}
