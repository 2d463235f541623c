/* The scale model of partition controllers: exact where the figures follow from arithmetic, the same as a slow model, the same run everywhere, and
 * nothing lost. */
#include <math.h>

#include "alloc_fail.h"
#include "jobs_model.h"
#include "property.h"

#include "htcsched/registry.h"

#define MS HTC_MS

static htc_registry *registry;

static const htc_balance_policy *policy(const char *name)
{
    const htc_balance_policy *found = NULL;
    if (!registry)
        cr_assert(htc_registry_create(NULL, &registry) == HTC_OK && htc_registry_add_builtin(registry) == HTC_OK);
    cr_assert(eq(int, htc_balance_find(registry, name, &found), HTC_OK));
    return found;
}

static htc_sim_jobs_report run(const htc_sim_jobs_options *o)
{
    htc_sim_jobs_report r = { .size = sizeof r };
    htc_error           e = { 0 };
    cr_assert(eq(int, htc_sim_jobs_run(NULL, o, &r, &e), HTC_OK), "%s", e.text);
    cr_expect(eq(str, r.scale.wrong, ""));
    return r;
}

/* ---- by hand ---- */

/* One job, alone, of one node of its own partition: 1 ms to read it, then a look-up, a compare-and-swap and three inserts at its own member, 1 ms each.
 * Launch and acknowledgement are a message each, 200 us; it runs 10 ms. */
Test(sim_jobs, a_job_alone_takes_what_its_messages_take)
{
    const htc_sim_jobs_job job = { .size = sizeof job, .controller = 0, .nodes = 1, .length = 10 * MS };
    htc_sim_jobs_options   o = { .size = sizeof o, .nodes = 8, .partition = 8, .list = &job, .n_list = 1, .policy = policy("random") };
    htc_sim_jobs_published(&o);
    o.bandwidth = 0;
    htc_sim_jobs_report r = run(&o);
    cr_expect(fabs(r.latency_s - 0.006) < 1e-12);
    cr_expect(eq(u64, r.scale.makespan, 16400000));
    cr_expect(eq(dbl, r.messages, 5) && eq(dbl, r.messages_all, 7));
    cr_expect(eq(u64, r.swaps, 2) && eq(u64, r.conflicts, 0) && eq(u64, r.steals, 0));
}

/* 7 nodes of two partitions of 4: the second half costs two messages there and back, 200 us each way. Of the 4 inserts some are remote. A binary
 * tree of 7 nodes has 3 levels. */
Test(sim_jobs, a_thief_pays_for_the_way)
{
    const htc_sim_jobs_job job = { .size = sizeof job, .controller = 0, .nodes = 7, .length = 0 };
    htc_sim_jobs_options   o = { .size = sizeof o, .nodes = 8, .partition = 4, .list = &job, .n_list = 1, .policy = policy("random") };
    htc_sim_jobs_published(&o);
    o.bandwidth = 0;
    htc_sim_jobs_report r = run(&o);
    double              remote = r.latency_s * 1e6 - 1000 - 4 * 1000 - 4 * 1000 - 4 * 200; /* us */
    cr_expect(remote > -0.5 && remote < 4 * 400 + 0.5 && fabs(remainder(remote, 400)) < 0.5, "%f", remote);
    cr_expect(eq(u64, r.scale.makespan, (uint64_t)(r.latency_s * 1e9 + 0.5) + 3 * 400000));
    cr_expect(eq(u64, r.steals, 1) && eq(u64, r.swaps, 4) && eq(dbl, r.messages, 8) && eq(dbl, r.messages_all, 12));
}

/* One central controller: 3 jobs that need the whole machine, 2 ms each to deal with, 10 ms to run. */
Test(sim_jobs, a_central_controller_starts_what_fits)
{
    const htc_sim_jobs_job jobs[] = { { .size = sizeof *jobs, .controller = 0, .nodes = 4, .length = 10 * MS }, { .size = sizeof *jobs, .controller = 0, .nodes = 4, .length = 10 * MS },
                                      { .size = sizeof *jobs, .controller = 1, .nodes = 4, .length = 10 * MS } };
    htc_sim_jobs_options   o = { .size = sizeof o, .nodes = 4, .partition = 2, .list = jobs, .n_list = 3, .central = 1, .job_ns = MS, .node_ns = MS / 4 };
    htc_sim_jobs_report    r = run(&o);
    cr_expect(eq(u64, r.scale.makespan, 36 * MS) && eq(u32, r.controllers, 1) && eq(u64, r.requests, 0));
    cr_expect(fabs(r.latency_s - (0.002 + 0.014 + 0.024) / 3) < 1e-12);
    cr_expect(fabs(r.utilisation - 30.0 / 36) < 1e-12);
}

/* ---- any run ---- */

static void draw_run(htc_rng *rng, htc_sim_jobs_job *jobs, htc_sim_jobs_options *o)
{
    *o = (htc_sim_jobs_options){ .size = sizeof *o, .seed = htc_rng_next(rng), .nodes = 1 + (uint32_t)htc_rng_below(rng, SLOW_NODES), .list = jobs,
                                 .n_list = 1 + htc_rng_below(rng, 60), .policy = policy("random"), .tries = 1 + (uint32_t)htc_rng_below(rng, 8),
                                 .wait_ns = 1 + htc_rng_below(rng, 3 * MS), .wait_ns_max = 2000 * MS, .fanout = 2 + (uint32_t)htc_rng_below(rng, 3),
                                 .node_bytes = (uint32_t)htc_rng_below(rng, 2) * 30, .bandwidth = 1e6 };
    htc_ns *costs[] = { &o->latency_ns, &o->pack_ns, &o->store_ns, &o->job_ns, &o->node_ns, &o->launch_ns };
    for (size_t i = 0; i < sizeof costs / sizeof *costs; i++)
        *costs[i] = htc_rng_below(rng, 3) * htc_rng_below(rng, 600) * HTC_US;
    o->partition = 1 + (uint32_t)htc_rng_below(rng, o->nodes);
    uint32_t parts = (o->nodes + o->partition - 1) / o->partition, most = 1 + (uint32_t)htc_rng_below(rng, o->nodes);
    for (size_t j = 0; j < o->n_list; j++)
        jobs[j] = (htc_sim_jobs_job){ .size = sizeof *jobs, .controller = (uint32_t)htc_rng_below(rng, parts), .nodes = 1 + (uint32_t)htc_rng_below(rng, most),
                                      .length = htc_rng_below(rng, 20) * MS };
}

Test(sim_jobs, agrees_with_the_slow_model)
{
    static slow_model m;
    uint64_t          conflicts = 0, rounds = 0;
    PROPERTY (rng, 300) {
        htc_sim_jobs_job     jobs[SLOW_JOBS];
        htc_sim_jobs_options o;
        htc_sim_jobs_report  r = { .size = sizeof r };
        draw_run(&rng, jobs, &o);
        slow_run(&m, &o);
        HOLDS(htc_sim_jobs_run(NULL, &o, &r, NULL) == HTC_OK);
        cr_assert(eq(str, r.scale.wrong, ""), "seed %llu", (unsigned long long)property_seed);
        HOLDS(m.ended == o.n_list && r.scale.ended == o.n_list && r.granted == o.n_list);
        HOLDS(r.requests == m.requests && r.swaps == m.swaps && r.conflicts == m.conflicts);
        HOLDS(r.steals == m.steals && r.rounds == m.rounds);
        HOLDS(r.scale.makespan == m.makespan * 1000);
        HOLDS(fabs(r.latency_s * 1e6 * (double)o.n_list - (double)m.latency) < 0.5);
        conflicts += m.conflicts;
        rounds += m.rounds;
    }
    cr_expect(getenv("HTC_TEST_SEED") || (conflicts > 100 && rounds > 20), "%llu, %llu", (unsigned long long)conflicts, (unsigned long long)rounds);
}

Test(sim_jobs, loses_nothing_and_is_the_same_again)
{
    PROPERTY (rng, 200) {
        htc_sim_jobs_job     jobs[SLOW_JOBS];
        htc_sim_jobs_options o;
        htc_sim_jobs_report  r = { .size = sizeof r }, again = r;
        draw_run(&rng, jobs, &o);
        o.policy = NULL;
        o.pull_ns = 1 + htc_rng_below(&rng, 50 * MS);
        o.monitor_ns = 1 + htc_rng_below(&rng, 50 * MS);
        o.central = (uint32_t)htc_rng_below(&rng, 2);
        HOLDS(htc_sim_jobs_run(NULL, &o, &r, NULL) == HTC_OK && htc_sim_jobs_run(NULL, &o, &again, NULL) == HTC_OK);
        cr_assert(eq(str, r.scale.wrong, ""), "seed %llu", (unsigned long long)property_seed);
        HOLDS(r.scale.hash == again.scale.hash && r.granted == o.n_list && r.scale.ended == o.n_list);
        HOLDS(r.scale.sent == r.scale.received && r.scale.lost == 0);
        HOLDS(o.central ? !r.services && !r.requests : r.services > 0);
    }
}

/* 40 partitions of 24 nodes: the hashes that gcc and clang, optimised and sanitised, come to. */
Test(sim_jobs, is_the_same_run_everywhere)
{
    static const uint64_t hash[3] = { UINT64_C(9452809012058631968), UINT64_C(6241479137673899140), UINT64_C(6443497799832466723) };
    for (uint32_t i = 0; i < 3; i++) {
        htc_sim_jobs_options o = { .size = sizeof o, .seed = 7, .nodes = 960, .partition = 24, .jobs = 800, .nodes_min = 1, .nodes_max = 40,
                                   .length = { HTC_SCALE_EXPONENTIAL, 0, 20e6, 0 }, .policy = i == 0 ? policy("random") : NULL, .central = i == 2 };
        htc_sim_jobs_published(&o);
        o.wait_ns_max = 100 * MS;
        htc_sim_jobs_report r = run(&o);
        cr_expect(eq(u64, r.scale.hash, hash[i]), "%u", i);
    }
}

/* ---- the policy decides ---- */

static uint32_t asked;

/* Always the next one: it knows nothing. */
static htc_status pick_next(void *state, const htc_balance_view *view, htc_rng *rng, uint32_t *partition)
{
    (void)state;
    (void)rng;
    asked++;
    *partition = (view->own + 1) % view->partitions;
    return HTC_OK;
}

Test(sim_jobs, another_policy_is_another_run)
{
    static const htc_balance_policy next = { .size = sizeof next, .name = "next", .tries = 5, .waits = 1, .pick = pick_next };
    htc_sim_jobs_options            o = { .size = sizeof o, .seed = 3, .nodes = 256, .partition = 8, .jobs = 320, .nodes_min = 1, .nodes_max = 12,
                                          .length.mean_ns = 10e6, .policy = policy("random") };
    htc_sim_jobs_published(&o);
    o.wait_ns_max = 100 * MS;
    htc_sim_jobs_report random = run(&o);
    o.policy = &next;
    htc_sim_jobs_report other = run(&o);
    cr_expect(asked > 300 && other.steals > 300 && other.scale.hash != random.scale.hash);
    cr_expect(other.latency_s > 1.2 * random.latency_s || random.latency_s > 1.2 * other.latency_s, "%f %f", other.latency_s, random.latency_s);
}

Test(sim_jobs, another_order_is_another_run)
{
    const htc_fit_policy *fcfs = NULL, *first_fit = NULL;
    (void)policy("random");
    cr_assert(htc_fit_find(registry, "fcfs", &fcfs) == HTC_OK && htc_fit_find(registry, "first_fit", &first_fit) == HTC_OK);
    htc_sim_jobs_options o = { .size = sizeof o, .seed = 3, .nodes = 100, .partition = 5, .jobs = 400, .nodes_min = 1, .nodes_max = 100, .central = 1,
                               .length.mean_ns = 1e9, .job_ns = MS, .fit = fcfs };
    htc_sim_jobs_report  slow = run(&o);
    o.fit = first_fit;
    htc_sim_jobs_report fast = run(&o);
    cr_expect(fast.utilisation > 1.05 * slow.utilisation, "%f %f", fast.utilisation, slow.utilisation);
}

/* ---- the host ---- */

static volatile int stop;

static void stop_at_once(void *ctx, const htc_scale_progress *p)
{
    (void)ctx;
    (void)p;
    stop = 1;
}

Test(sim_jobs, says_what_it_had_when_it_is_stopped)
{
    htc_scale_host       host = { .size = sizeof host, .stop = &stop, .progress = stop_at_once };
    htc_sim_jobs_options o = { .size = sizeof o, .nodes = 64, .partition = 1, .jobs = 100000, .nodes_max = 2, .length.mean_ns = 1e6, .host = &host };
    htc_sim_jobs_published(&o);
    htc_sim_jobs_report r = run(&o);
    cr_expect(eq(u32, r.interrupted, 1) && r.granted > 5 && r.granted < 50000 && r.scale.ended <= r.granted);
}

Test(sim_jobs, refuses_what_cannot_be_run)
{
    htc_scale_host       host = { .size = sizeof host, .memory_max = 1 << 20 };
    htc_sim_jobs_options o = { .size = sizeof o, .nodes = 65536, .partition = 1, .jobs = 655360, .host = &host };
    htc_sim_jobs_report  r = { .size = sizeof r };
    htc_sim_jobs_job     job = { .size = sizeof job, .nodes = 9 };
    htc_error            e;
    cr_expect(eq(int, htc_sim_jobs_run(NULL, &o, &r, &e), HTC_ETOOBIG) && strstr(e.text, "1 MiB are allowed"), "%s", e.text);
    o = (htc_sim_jobs_options){ .size = sizeof o, .nodes = 8, .partition = 4, .jobs = 1, .nodes_max = 5, .used = 0.5 };
    cr_expect(eq(int, htc_sim_jobs_run(NULL, &o, &r, &e), HTC_EINVAL) && strstr(e.text, "wait for ever"), "%s", e.text);
    o.nodes_max = 4;
    cr_expect(eq(int, htc_sim_jobs_run(NULL, &o, &r, &e), HTC_OK));
    o.list = &job;
    o.n_list = 1;
    cr_expect(eq(int, htc_sim_jobs_run(NULL, &o, &r, &e), HTC_EINVAL) && strstr(e.text, "job 0"), "%s", e.text);
    job.nodes = 1;
    job.controller = 2;
    cr_expect(eq(int, htc_sim_jobs_run(NULL, &o, &r, &e), HTC_EINVAL));
    job.controller = 1;
    cr_expect(eq(int, htc_sim_jobs_run(NULL, &o, &r, &e), HTC_OK));
    o.used = 1;
    cr_expect(eq(int, htc_sim_jobs_run(NULL, &o, &r, &e), HTC_EINVAL));
    o.used = NAN;
    cr_expect(eq(int, htc_sim_jobs_run(NULL, &o, &r, &e), HTC_EINVAL));
    o.used = 0;
    o.nodes = 0;
    cr_expect(eq(int, htc_sim_jobs_run(NULL, &o, &r, NULL), HTC_EINVAL));
}

Test(sim_jobs, ends_without_memory)
{
    for (uint32_t form = 0; form < 3; form++) {
        htc_sim_jobs_options o = { .size = sizeof o, .nodes = 6, .partition = 2, .jobs = 9, .nodes_max = 4, .length.mean_ns = 1e6,
                                   .policy = form == 0 ? policy("random") : NULL, .central = form == 2 };
        htc_sim_jobs_published(&o);
        o.wait_ns_max = 100 * MS;
        htc_status status = HTC_ENOMEM;
        for (size_t n = 1; status != HTC_OK; n++) {
            alloc_fail          f = alloc_fail_at(n);
            htc_env             env = alloc_fail_env(&f);
            htc_sim_jobs_report r = { .size = sizeof r };
            status = htc_sim_jobs_run(&env, &o, &r, NULL);
            cr_expect(status == HTC_OK || status == HTC_ENOMEM, "allocation %zu: %d", n, (int)status);
            cr_expect(eq(sz, f.live, 0) && eq(sz, f.wrong_sizes, 0), "allocation %zu", n);
        }
    }
}
