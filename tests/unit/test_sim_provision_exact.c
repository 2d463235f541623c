/* Provisioning message by message: what small runs come to by hand, what is refused, and that nothing is lost when memory is. tests/world/test_provision.c has it beside
 * the scale model. */
#include <math.h>
#include <string.h>

#include "alloc_fail.h"
#include "property.h"
#include "htcsched/sim_provision.h"

#define S    HTC_SECOND
#define HOUR (3600 * HTC_SECOND)
#define ROUND (3 * HTC_MS) /* a request, the time in which it waits for others, and its answer */

static htc_provision_options book(uint64_t initial)
{
    return (htc_provision_options){ .size = sizeof(htc_provision_options), .initial = initial ? initial : HTC_PROVISION_NO_NODES };
}

typedef struct one_run {
    htc_sim_provision_options       o;
    htc_sim_provision_exact_options exact;
    htc_sim_provision_report        r;
    htc_sim_provision_result        result[3];
    htc_error                       e;
} one_run;

static htc_status run(one_run *x, const htc_sim_provision_environment *tre, size_t n, uint64_t capacity)
{
    x->o.size = sizeof x->o;
    x->o.environments = tre;
    x->o.n_environments = n;
    x->o.capacity = capacity;
    x->exact.size = sizeof x->exact;
    x->r = (htc_sim_provision_report){ .size = sizeof x->r };
    x->e = (htc_error){ 0 };
    return htc_sim_provision_exact(NULL, &x->o, &x->exact, &x->r, x->result, &x->e);
}

#define ENVIRONMENT(b, j) { .size = sizeof(htc_sim_provision_environment), .book = (b), .jobs = (j), .n_jobs = sizeof(j) / sizeof *(j) }

/* One node is there; two jobs of two nodes come at 10 s. The scan at 60 s asks; the answer is there 3 ms later, the jobs run for 100 s, and the leases last an hour. */
Test(sim_provision_exact, a_lease_begins_when_the_answer_is_there)
{
    const htc_sim_provision_job         jobs[] = { { .arrival = 10 * S, .length = 100 * S, .nodes = 2 }, { .arrival = 10 * S, .length = 4000 * S, .nodes = 2 } };
    const htc_provision_options         b = book(1);
    const htc_sim_provision_environment tre = ENVIRONMENT(&b, jobs);
    one_run                             x = { 0 };
    cr_assert(eq(int, run(&x, &tre, 1, 10), HTC_OK), "%s", x.e.text);
    cr_expect(eq(str, x.r.scale.wrong, ""));
    cr_expect(eq(u64, x.r.completed, 2));
    cr_expect(eq(u64, x.result[0].last, 60 * S + ROUND + 4000 * S));
    cr_expect(fabs(x.result[0].wait_s - 50.003) < 1e-9);
    cr_expect(eq(u64, x.result[0].granted, 1 + 3)); /* D - O = 4 - 1 */
    cr_expect(eq(u64, x.r.node_units, 2 * (1 + 3))); /* of the leases no whole one is idle after an hour */
    cr_expect(eq(u64, x.r.peak, 4));
    cr_expect(eq(u64, x.r.requests, 1));
}

/* Two ask at the same moment: the provider decides for both together, and the priority counts. */
Test(sim_provision_exact, requests_of_one_moment_are_decided_together)
{
    const htc_sim_provision_job jobs[] = { { .arrival = 0, .length = 100 * S, .nodes = 6 } };
    const htc_provision_options b = book(0);
    htc_sim_provision_environment tre[2] = { ENVIRONMENT(&b, jobs), ENVIRONMENT(&b, jobs) };
    one_run                     x = { 0 };
    for (int first = 0; first < 2; first++) {
        tre[first].priority = 1;
        tre[1 - first].priority = 0;
        cr_assert(eq(int, run(&x, tre, 2, 10), HTC_OK), "%s", x.e.text);
        cr_expect(eq(u64, x.r.completed, 2));
        cr_expect(eq(u64, x.result[first].rejected, 0));
        cr_expect(eq(u64, x.result[first].last, 60 * S + ROUND + 100 * S));
        cr_expect(x.result[1 - first].rejected > 0);
        cr_expect(gt(u64, x.result[1 - first].last, x.result[first].last));
    }
    x.o.granter = htc_provision_granter_of(HTC_PROVISION_PARTIAL);
    cr_assert(eq(int, run(&x, tre, 2, 10), HTC_OK), "%s", x.e.text);
    cr_expect(eq(u64, x.r.completed, 2));
    cr_expect(eq(u64, x.r.peak, 10)); /* the second one has four, and then two more */
}

/* An environment that ends between its request and the answer gives back what it is granted. */
Test(sim_provision_exact, nodes_that_come_too_late_go_back)
{
    const htc_sim_provision_job   jobs[] = { { .arrival = 0, .length = 100 * S, .nodes = 6 } };
    const htc_provision_options   b = book(0);
    htc_sim_provision_environment tre = ENVIRONMENT(&b, jobs);
    one_run                       x = { 0 };
    tre.period_ns = 60 * S + HTC_MS;
    cr_assert(eq(int, run(&x, &tre, 1, 10), HTC_OK), "%s", x.e.text);
    cr_expect(eq(str, x.r.scale.wrong, ""));
    cr_expect(eq(u64, x.r.completed, 0));
    cr_expect(eq(u64, x.r.unfinished, 1));
    cr_expect(eq(u64, x.result[0].granted, 6));
    cr_expect(eq(u64, x.result[0].returned, 6));
    cr_expect(eq(u64, x.r.node_units, 0)); /* its book is closed */
}

/* Jobs that can never run do not keep it for ever; larger ones than the provider are refused. */
Test(sim_provision_exact, what_cannot_run_is_left)
{
    const htc_sim_provision_job         wide[] = { { .nodes = 11, .length = S }, { .nodes = 8, .length = S } }, keeps[] = { { .length = 10 * S, .nodes = 1 } };
    const htc_provision_options         none = book(0), four = book(4);
    htc_sim_provision_environment       tre[2] = { ENVIRONMENT(&none, wide), ENVIRONMENT(&four, keeps) };
    one_run                             x = { 0 };
    tre[1].period_ns = HOUR;
    cr_assert(eq(int, run(&x, tre, 2, 10), HTC_OK), "%s", x.e.text);
    cr_expect(eq(u64, x.result[0].refused, 1));
    cr_expect(eq(u64, x.result[0].completed, 1)); /* when the other one has ended */
    cr_expect(eq(u64, x.result[0].starved, 1));
    const htc_sim_provision_job   never[] = { { .nodes = 10, .length = S } };
    htc_sim_provision_environment two[2] = { ENVIRONMENT(&four, never), ENVIRONMENT(&four, never) };
    cr_assert(eq(int, run(&x, two, 2, 10), HTC_OK), "%s", x.e.text); /* each has initial nodes that the other one lacks */
    cr_expect(eq(str, x.r.scale.wrong, ""));
    cr_expect(eq(u64, x.r.unfinished + x.r.completed, 2));
    cr_expect(x.r.unfinished > 0);
}

static void expect_refused(one_run *x, const htc_sim_provision_environment *tre, size_t n, htc_status status, const char *text)
{
    cr_expect(eq(int, run(x, tre, n, 10), status));
    cr_expect(strstr(x->e.text, text) != NULL, "\"%s\" is not in \"%s\"", text, x->e.text);
}

Test(sim_provision_exact, what_it_does_not_have_is_refused_by_name)
{
    const htc_sim_provision_job         jobs[] = { { .length = S, .nodes = 1 } }, bad[] = { { .arrival = S, .length = S, .nodes = 1 }, { .length = S, .nodes = 1 } };
    const htc_provision_options         b = book(4), many = book(11);
    htc_provision_options               often = book(4);
    htc_sim_provision_environment       tre = ENVIRONMENT(&b, jobs);
    const htc_sim_provision_environment wrong = ENVIRONMENT(&b, bad), greedy = ENVIRONMENT(&many, jobs);
    one_run                             x = { 0 };
    cr_expect(eq(int, htc_sim_provision_exact(NULL, &x.o, NULL, NULL, NULL, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_sim_provision_exact(NULL, NULL, NULL, &x.r, NULL, NULL), HTC_EINVAL));
    expect_refused(&x, &wrong, 1, HTC_EINVAL, "before the one that came before it");
    expect_refused(&x, &greedy, 1, HTC_ENOFIT, "is to begin with 11 nodes");
    often.scan_ns = ROUND;
    tre.book = &often;
    expect_refused(&x, &tre, 1, HTC_EINVAL, "an answer of the provider takes");
    tre.book = &b;
    x.o.system = HTC_SIM_PROVISION_DRP;
    expect_refused(&x, &tre, 1, HTC_EUNSUPPORTED, "DSP");
    x.o.system = HTC_SIM_PROVISION_DSP;
    x.o.shared = &b;
    expect_refused(&x, &tre, 1, HTC_EUNSUPPORTED, "shared");
    x.o.shared = NULL;
    x.exact.latency_ns = 2 * HOUR;
    expect_refused(&x, &tre, 1, HTC_EINVAL, "more than an hour");
    x.exact.latency_ns = 0;
    cr_expect(eq(int, run(&x, &tre, 1, 10), HTC_OK));
}

/* A diamond: its middle runs on two nodes, or one task after the other on the only one. */
Test(sim_provision_exact, a_workflow_runs_what_is_ready)
{
    const htc_ns                        lengths[] = { 10 * S, 20 * S, 20 * S, 30 * S };
    const htc_sim_provision_edge        edges[] = { { 0, 1 }, { 0, 2 }, { 1, 3 }, { 2, 3 } };
    const htc_sim_provision_flow        flow = { .size = sizeof flow, .length = lengths, .tasks = 4, .edges = edges, .n_edges = 4 };
    const htc_provision_options         b = book(2), none = book(0);
    htc_sim_provision_environment       tre = { .size = sizeof tre, .book = &b, .flows = &flow, .n_flows = 1 };
    one_run                             x = { 0 };
    cr_assert(eq(int, run(&x, &tre, 1, 10), HTC_OK), "%s", x.e.text);
    cr_expect(eq(str, x.r.scale.wrong, ""));
    cr_expect(eq(u64, x.r.completed, 4));
    cr_expect(eq(u64, x.result[0].last, 60 * S));
    cr_expect(eq(u64, x.result[0].busy_peak, 2));
    tre.book = &none;
    cr_assert(eq(int, run(&x, &tre, 1, 10), HTC_OK), "%s", x.e.text);
    cr_expect(eq(u64, x.result[0].last, 3 * S + ROUND + 80 * S)); /* one node, and the demand is never more than eight times that */
    tre.period_ns = 40 * S;
    cr_assert(eq(int, run(&x, &tre, 1, 10), HTC_OK), "%s", x.e.text);
    cr_expect(eq(str, x.r.scale.wrong, ""));
    cr_expect(eq(u64, x.r.completed, 2));
    cr_expect(eq(u64, x.r.unfinished, 2));
    const htc_sim_provision_edge circle[] = { { 0, 1 }, { 1, 0 } };
    const htc_sim_provision_flow never = { .size = sizeof never, .length = lengths, .tasks = 2, .edges = circle, .n_edges = 2 };
    tre.flows = &never;
    cr_expect(eq(int, run(&x, &tre, 1, 10), HTC_ECYCLE));
}

/* With a delay a node can be used when it is set up; it is paid from the grant on. */
Test(sim_provision_exact, nodes_are_used_when_they_are_set_up)
{
    const htc_sim_provision_job         jobs[] = { { .length = 100 * S, .nodes = 3 } };
    const htc_provision_setup           setup = { .size = sizeof setup, .assign = HTC_PROVISION_INSTALL, .reclaim = HTC_PROVISION_UNINSTALL, .node_ns = 90 * S };
    const htc_provision_options         b = book(0);
    const htc_sim_provision_environment tre = ENVIRONMENT(&b, jobs);
    one_run                             x = { .o.setup = &setup, .o.setup_delay = 1 };
    cr_assert(eq(int, run(&x, &tre, 1, 10), HTC_OK), "%s", x.e.text);
    cr_expect(eq(str, x.r.scale.wrong, ""));
    cr_expect(eq(u64, x.result[0].last, 60 * S + ROUND + 90 * S + 100 * S));
    cr_expect(eq(u64, x.r.setup_ns, 6 * 90 * S));
    cr_expect(fabs(x.r.held_s - 3 * 190) < 1e-9);
}

/* Answers that are not allowed are told with the policy's name. */
static htc_status too_much(void *ctx, const htc_env *env, uint64_t free_nodes, const htc_provision_request *requests, size_t n, uint64_t *granted)
{
    (void)ctx;
    (void)env;
    (void)free_nodes;
    for (size_t i = 0; i < n; i++)
        granted[i] = requests[i].nodes + 1;
    return HTC_OK;
}

Test(sim_provision_exact, a_policy_that_answers_what_cannot_be_is_named)
{
    const htc_sim_provision_job         jobs[] = { { .length = S, .nodes = 3 } };
    const htc_provision_options         b = book(0);
    const htc_provision_granter         mine = { .size = sizeof mine, .name = "too-much", .grant = too_much };
    const htc_sim_provision_environment tre = ENVIRONMENT(&b, jobs);
    one_run                             x = { .o.granter = &mine };
    expect_refused(&x, &tre, 1, HTC_EINTERNAL, "\"too-much\"");
}

/* ---- drawn runs: everything at once, in small numbers, so that much happens at one moment ---- */

typedef struct drawn {
    htc_sim_provision_job         job[3][24];
    htc_sim_provision_flow        flow;
    htc_sim_provision_edge        edge[12];
    htc_ns                        length[6];
    htc_provision_options         book[3];
    htc_provision_setup           setup;
    htc_sim_provision_environment tre[3];
} drawn;

static void draw_tre(htc_rng *rng, drawn *d, size_t i)
{
    htc_sim_provision_environment *e = &d->tre[i];
    uint64_t                       at = 0;
    d->book[i] = (htc_provision_options){ .size = sizeof *d->book, .policy = htc_provision_policy_of((uint32_t)htc_rng_below(rng, 2)), .scope = (uint32_t)htc_rng_below(rng, 2),
                                          .ratio = 500000 + htc_rng_below(rng, 2000000), .scan_ns = (1 + htc_rng_below(rng, 10)) * S, .unit_ns = (10 + htc_rng_below(rng, 40)) * S,
                                          .initial = htc_rng_below(rng, 4) ? htc_rng_below(rng, 5) + 1 : HTC_PROVISION_NO_NODES };
    *e = (htc_sim_provision_environment){ .size = sizeof *e, .book = &d->book[i], .priority = (int32_t)htc_rng_below(rng, 3) - 1, .weight = htc_rng_below(rng, 4) };
    e->period_ns = htc_rng_below(rng, 2) ? htc_rng_below(rng, 300 * 1000) * HTC_MS + 1 : 0;
    if (i == 2 && htc_rng_below(rng, 2)) {
        uint32_t edges = 0;
        for (uint32_t t = 0; t < 6; t++) {
            d->length[t] = htc_rng_below(rng, 20) * S;
            for (uint32_t k = 0; k < 2 && t; k++)
                d->edge[edges++] = (htc_sim_provision_edge){ (uint32_t)htc_rng_below(rng, t), t };
        }
        d->flow = (htc_sim_provision_flow){ .size = sizeof d->flow, .arrival = htc_rng_below(rng, 20) * S, .length = d->length, .tasks = 6, .edges = d->edge, .n_edges = edges };
        e->flows = &d->flow;
        e->n_flows = 1;
        return;
    }
    e->jobs = d->job[i];
    e->n_jobs = htc_rng_below(rng, 24);
    for (size_t j = 0; j < e->n_jobs; j++) {
        at += htc_rng_below(rng, 3) ? htc_rng_below(rng, 10) : 0;
        d->job[i][j] = (htc_sim_provision_job){ .arrival = at * S, .length = htc_rng_below(rng, 4) ? htc_rng_below(rng, 60) * S : 0, .nodes = 1 + (uint32_t)htc_rng_below(rng, 12) };
    }
}

/* That nothing is lost after any step is checked by the run itself. */
Test(sim_provision_exact, nothing_is_lost_whatever_happens)
{
    uint64_t ended = 0, bounded = 0, rejected = 0; /* bounded: environments that end while they ask */
    PROPERTY (rng, 2000) {
        static drawn d;
        one_run      x = { .exact = { .seed = htc_rng_next(&rng), .latency_ns = 1 + htc_rng_below(&rng, 200) * HTC_MS, .jitter_ns = htc_rng_below(&rng, 2) * 100 * HTC_MS } };
        size_t       n = 1 + htc_rng_below(&rng, 3);
        for (size_t i = 0; i < n; i++)
            draw_tre(&rng, &d, i);
        d.setup = (htc_provision_setup){ .size = sizeof d.setup, .assign = HTC_PROVISION_INSTALL, .reclaim = HTC_PROVISION_UNINSTALL, .node_ns = htc_rng_below(&rng, 30) * S };
        x.o.setup = &d.setup;
        x.o.setup_delay = (uint32_t)htc_rng_below(&rng, 2);
        x.o.granter = htc_provision_granter_of((uint32_t)htc_rng_below(&rng, 2));
        htc_status status = run(&x, d.tre, n, 15 + htc_rng_below(&rng, 20));
        HOLDS(status == HTC_OK && !x.r.scale.wrong[0]);
        HOLDS(x.r.submitted == x.r.completed + x.r.unfinished + x.r.refused && x.r.granted == x.r.returned);
        ended += x.r.completed;
        rejected += x.r.rejected;
        for (size_t i = 0; i < n; i++)
            bounded += x.result[i].requests > 0 && d.tre[i].period_ns > 0;
    }
    if (!getenv("HTC_TEST_SEED"))
        cr_expect(ended > 1000 && rejected > 100 && bounded > 100);
}

/* ---- what surrounds it ---- */

typedef struct seen {
    uint64_t samples, last_units;
} seen;

static void look(void *ctx, const htc_sim_provision_sample *s)
{
    seen *x = ctx;
    cr_expect(eq(u64, s->at, x->samples * 1800 * S));
    cr_expect(eq(u64, s->all_held, s->held[0]));
    cr_expect(s->busy[0] <= s->held[0] && s->node_units >= x->last_units);
    x->last_units = s->node_units;
    x->samples++;
}

static htc_status give(void *ctx, htc_sim_provision_job *job)
{
    uint64_t *left = ctx;
    if (*left == 0)
        return HTC_AGAIN;
    *job = (htc_sim_provision_job){ .arrival = 0, .length = HOUR, .nodes = 2 };
    --*left;
    return HTC_OK;
}

Test(sim_provision_exact, samples_and_sources_are_as_the_models)
{
    uint64_t                      left = 4;
    seen                          s = { 0 };
    const htc_provision_options   b = book(2);
    htc_sim_provision_environment tre = { .size = sizeof tre, .book = &b, .next_job = give, .ctx = &left };
    one_run                       x = { .o.sample = look, .o.sample_ctx = &s, .o.sample_ns = 1800 * S };
    cr_assert(eq(int, run(&x, &tre, 1, 2), HTC_OK), "%s", x.e.text);
    cr_expect(eq(u64, x.r.completed, 4));
    cr_expect(eq(u64, x.r.scale.makespan, 4 * HOUR));
    cr_expect(eq(u64, x.r.node_units, 2 * 4));
    cr_expect(s.samples >= 8);
    const int            stop = 1;
    const htc_scale_host host = { .size = sizeof host, .stop = &stop };
    left = 4;
    x.o.host = &host;
    x.o.sample = NULL;
    cr_assert(eq(int, run(&x, &tre, 1, 2), HTC_OK), "%s", x.e.text);
    cr_expect(eq(u32, x.r.interrupted, 1));
    cr_expect(eq(u64, x.r.completed, 0));
}

Test(sim_provision_exact, memory_that_is_refused_is_said_and_none_is_lost)
{
    const htc_sim_provision_job         jobs[] = { { .length = 100 * S, .nodes = 2 }, { .arrival = S, .length = 200 * S, .nodes = 3 } };
    const htc_ns                        lengths[] = { 10 * S, 20 * S };
    const htc_sim_provision_edge        edge = { 0, 1 };
    const htc_sim_provision_flow        flow = { .size = sizeof flow, .length = lengths, .tasks = 2, .edges = &edge, .n_edges = 1 };
    const htc_provision_options         b = book(2);
    const htc_sim_provision_environment tre[2] = { ENVIRONMENT(&b, jobs), { .size = sizeof *tre, .book = &b, .flows = &flow, .n_flows = 1 } };
    const htc_sim_provision_options     o = { .size = sizeof o, .environments = tre, .n_environments = 2, .capacity = 10, .setup_delay = 1 };
    ALLOC_FAIL_EVERY (f, 4000) {
        htc_env                  env = alloc_fail_env(&f);
        htc_sim_provision_report r = { .size = sizeof r };
        htc_error                e = { 0 };
        htc_status               status = htc_sim_provision_exact(&env, &o, NULL, &r, NULL, &e);
        cr_assert(f.refused ? status == HTC_ENOMEM : status == HTC_OK, "%s %s", htc_strerror(status), e.text);
        cr_assert(eq(sz, f.live, 0));
        cr_assert(eq(sz, f.wrong_sizes, 0));
    }
    const htc_scale_host      host = { .size = sizeof host, .memory_max = 10000 };
    htc_sim_provision_options small = o;
    htc_sim_provision_report  r = { .size = sizeof r };
    small.host = &host;
    cr_expect(eq(int, htc_sim_provision_exact(NULL, &small, NULL, &r, NULL, NULL), HTC_ETOOBIG));
}
