/* The scale model of partition controllers: exact where the figures follow from arithmetic, the same as a slow model, the same run everywhere, and
 * nothing lost. */
#include <math.h>

#include "alloc_fail.h"
#include "jobs_model.h"
#include "property.h"
#include "reel.h"

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

/* ---- from a source ---- */

typedef struct source {
    const htc_sim_jobs_job *list;
    size_t                  n, at;
    uint64_t                drawn; /* so many jobs are made up, without a list */
} source;

static htc_status next_job(void *ctx, htc_sim_jobs_job *job)
{
    source *s = ctx;
    if (s->list) {
        if (s->at == s->n)
            return HTC_AGAIN;
        *job = s->list[s->at++];
        return HTC_OK;
    }
    if (s->at == s->drawn)
        return HTC_AGAIN;
    job->nodes = 1 + (uint32_t)(s->at % 7);
    job->length = (1 + s->at % 13) * MS;
    job->arrival = s->at++ * 5 * MS;
    return HTC_OK;
}

/* One controller takes the jobs of a source as it takes those of a list; a central one too. */
Test(sim_jobs, a_source_is_a_list_that_is_not_kept)
{
    htc_sim_jobs_job jobs[200];
    for (uint32_t i = 0; i < 200; i++)
        jobs[i] = (htc_sim_jobs_job){ .size = sizeof *jobs, .nodes = 1 + i * 7 % 40, .length = (i * 31 % 50) * MS };
    for (uint32_t central = 0; central < 2; central++) {
        source               s = { .list = jobs, .n = 200 };
        htc_sim_jobs_options o = { .size = sizeof o, .seed = 3, .nodes = 64, .partition = 64, .list = jobs, .n_list = 200, .policy = policy("random"), .central = central };
        htc_sim_jobs_published(&o);
        htc_sim_jobs_report kept = run(&o);
        o.list = NULL;
        o.next_job = next_job;
        o.ctx = &s;
        htc_sim_jobs_report read = run(&o);
        cr_expect(eq(u64, read.scale.hash, kept.scale.hash) && eq(u64, read.granted, 200) && eq(u64, read.scale.ended, 200));
        cr_expect(eq(dbl, read.latency_s, kept.latency_s) && eq(u64, read.scale.makespan, kept.scale.makespan));
    }
}

/* Jobs that come 10 s after each other wait for nobody, and the memory is that of those that run. */
Test(sim_jobs, jobs_of_a_source_begin_when_they_arrive)
{
    htc_sim_jobs_job jobs[] = { { .size = sizeof *jobs, .nodes = 1, .length = 10 * MS, .arrival = 10 * HTC_SECOND }, { .size = sizeof *jobs, .nodes = 1, .length = 10 * MS, .arrival = 20 * HTC_SECOND } };
    source           s = { .list = jobs, .n = 2 };
    htc_sim_jobs_options o = { .size = sizeof o, .nodes = 8, .partition = 8, .policy = policy("random"), .next_job = next_job, .ctx = &s };
    htc_sim_jobs_published(&o);
    o.bandwidth = 0;
    htc_sim_jobs_report r = run(&o);
    cr_expect(fabs(r.latency_s - 0.006) < 1e-12 && fabs(r.latency_max_s - 0.006) < 1e-12, "%g s", r.latency_s);
    cr_expect(r.scale.span > 20 * HTC_SECOND && r.scale.span < 20 * HTC_SECOND + 40 * MS, "%llu", (unsigned long long)r.scale.span);
    uint64_t memory = 0;
    for (uint64_t n = 100; n <= 100000; n *= 1000) {
        source many = { .drawn = n };
        o.ctx = &many;
        o.policy = policy("monitored");
        o.nodes = 64;
        o.partition = 16;
        r = run(&o);
        cr_expect(eq(u64, r.granted, n));
        cr_expect(!memory || r.memory == memory, "%llu bytes, %llu before", (unsigned long long)r.memory, (unsigned long long)memory);
        memory = r.memory;
    }
}

Test(sim_jobs, refuses_a_source_that_cannot_be)
{
    htc_sim_jobs_job     wide = { .size = sizeof wide, .nodes = 9 }, back[] = { { .size = sizeof wide, .nodes = 1, .arrival = 9 }, { .size = sizeof wide, .nodes = 1, .arrival = 8 } };
    source               s = { .list = &wide, .n = 1 };
    htc_sim_jobs_options o = { .size = sizeof o, .nodes = 8, .partition = 8, .next_job = next_job, .ctx = &s, .tick_ns = 1 };
    htc_sim_jobs_report  r = { .size = sizeof r };
    htc_error            e = { 0 };
    cr_expect(eq(int, htc_sim_jobs_run(NULL, &o, &r, &e), HTC_EINVAL) && strstr(e.text, "job 0 of the source needs 9 nodes"), "%s", e.text);
    s = (source){ .list = back, .n = 2 };
    cr_expect(eq(int, htc_sim_jobs_run(NULL, &o, &r, &e), HTC_EINVAL) && strstr(e.text, "arrives before"), "%s", e.text);
    o.list = &wide;
    o.n_list = 1;
    cr_expect(eq(int, htc_sim_jobs_run(NULL, &o, &r, &e), HTC_EINVAL), "a list and a source");
    reel tape = { 0 };
    htc_scale_tape t = { .size = sizeof t, .move = reel_write, .ctx = &tape };
    o.list = NULL;
    o.checkpoint = &t;
    cr_expect(eq(int, htc_sim_jobs_run(NULL, &o, &r, &e), HTC_EUNSUPPORTED));
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
    o->tries += parts / 4; /* a job of all nodes that gives back sooner is never done */
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
        o.records = (uint32_t)htc_rng_below(&rng, 2);
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
        HOLDS(htc_sim_jobs_run(NULL, &o, &r, NULL) == HTC_OK);
        o.records = 1; /* with nodes that have numbers the run is the same */
        HOLDS(htc_sim_jobs_run(NULL, &o, &again, NULL) == HTC_OK);
        cr_assert(eq(str, r.scale.wrong, "") && eq(str, again.scale.wrong, ""), "seed %llu", (unsigned long long)property_seed);
        HOLDS(r.scale.hash == again.scale.hash && r.granted == o.n_list && r.scale.ended == o.n_list);
        HOLDS(r.scale.sent == r.scale.received && r.scale.lost == 0);
        HOLDS(o.central ? !r.services && !r.requests : r.services > 0);
    }
}

/* ---- checkpoints and samples ---- */

static void count_sample(void *ctx, const htc_sim_jobs_sample *s)
{
    uint64_t *sums = ctx;
    cr_expect(s->at % MS == 0 && s->at >= sums[0] && s->busy <= s->taken);
    sums[0] = s->at + MS;
    sums[1] += s->waiting;
    sums[2] += s->busy + s->taken;
    sums[3] += s->running + s->ended;
}

/* However often a run is interrupted, written down and gone on with, it comes to the same end; and samples do not change it. */
Test(sim_jobs, goes_on_from_a_checkpoint_to_the_same_end)
{
    static const char *const orders[] = { "easy", "fcfs", "first_fit", "conservative" };
    int stops = 0;
    PROPERTY (rng, 200) {
        htc_sim_jobs_job     jobs[SLOW_JOBS];
        htc_sim_jobs_options o;
        htc_sim_jobs_report  whole = { .size = sizeof whole }, part = whole;
        uint64_t             sums[4] = { 0 }, sums_part[4] = { 0 };
        draw_run(&rng, jobs, &o);
        o.policy = htc_rng_below(&rng, 2) ? policy("random") : NULL;
        o.records = (uint32_t)htc_rng_below(&rng, 2);
        o.central = htc_rng_below(&rng, 3) == 0;
        cr_assert(eq(int, htc_fit_find(registry ? registry : (policy("random"), registry), orders[htc_rng_below(&rng, 4)], &o.fit), HTC_OK));
        o.pull_ns = 1 + htc_rng_below(&rng, 50 * MS);
        o.monitor_ns = 1 + htc_rng_below(&rng, 50 * MS);
        if (htc_rng_below(&rng, 4)) { /* there is a look at the host each thousand events */
            o.list = NULL;
            o.jobs = 500 + htc_rng_below(&rng, 500);
            o.nodes_max = 1 + (uint32_t)htc_rng_below(&rng, (o.nodes + 2) / 3);
            o.length = (htc_scale_law){ HTC_SCALE_EXPONENTIAL, 0, 5e6, 0 };
        }
        htc_error why = { 0 };
        cr_assert(eq(int, htc_sim_jobs_run(NULL, &o, &whole, &why), HTC_OK), "seed %llu: %s", (unsigned long long)property_seed, why.text);
        uint64_t hash = whole.scale.hash;
        o.sample_ns = MS;
        o.sample = count_sample;
        o.ctx = sums;
        HOLDS(htc_sim_jobs_run(NULL, &o, &whole, NULL) == HTC_OK && whole.scale.hash == hash);
        o.ctx = sums_part;
        stopper        halt = { .rng = { htc_rng_next(&rng) }, .one_in = 1 + htc_rng_below(&rng, 200) };
        htc_scale_host host = { .size = sizeof host, .stop = &halt.stop, .clock = stopper_clock, .ctx = &halt };
        reel           from = { 0 }, to = { 0 };
        htc_scale_tape resume = { .size = sizeof resume, .reads = 1, .move = reel_read, .ctx = &from }, checkpoint = { .size = sizeof checkpoint, .move = reel_write, .ctx = &to };
        o.host = &host;
        o.checkpoint = &checkpoint;
        for (part.interrupted = 1; part.interrupted; stops += (int)part.interrupted) {
            htc_error e = { 0 };
            halt.stop = 0;
            to.len = from.at = 0;
            cr_assert(eq(int, htc_sim_jobs_run(NULL, &o, &part, &e), HTC_OK), "seed %llu: %s", (unsigned long long)property_seed, e.text);
            cr_assert(eq(str, part.scale.wrong, ""), "seed %llu", (unsigned long long)property_seed);
            reel other = from;
            from = to;
            to = other;
            o.resume = &resume;
        }
        HOLDS(part.scale.hash == hash && part.requests == whole.requests && part.rounds == whole.rounds && part.latency_s == whole.latency_s);
        HOLDS(part.services == whole.services && part.utilisation == whole.utilisation && memcmp(sums, sums_part, sizeof sums) == 0);
        free(from.data);
        free(to.data);
    }
    cr_expect(getenv("HTC_TEST_SEED") || stops > (int)property_times(100), "%d stops", stops);
}

static volatile int stop;

Test(sim_jobs, refuses_what_is_no_checkpoint_of_the_experiment)
{
    htc_sim_jobs_options o = { .size = sizeof o, .seed = 3, .nodes = 960, .partition = 24, .jobs = 3000, .nodes_min = 1, .nodes_max = 40, .length.mean_ns = 20e6, .records = 1 };
    htc_scale_host       host = { .size = sizeof host, .stop = &stop };
    reel                 film = { 0 };
    htc_scale_tape       resume = { .size = sizeof resume, .reads = 1, .move = reel_read, .ctx = &film }, checkpoint = { .size = sizeof checkpoint, .move = reel_write, .ctx = &film };
    htc_sim_jobs_report  r = { .size = sizeof r };
    htc_error            e;
    htc_sim_jobs_published(&o);
    o.host = &host;
    o.checkpoint = &checkpoint;
    stop = 1;
    film.ends = 5000;
    cr_expect(eq(int, htc_sim_jobs_run(NULL, &o, &r, NULL), HTC_ENOSPC));
    film.ends = film.len = 0;
    cr_assert(eq(int, htc_sim_jobs_run(NULL, &o, &r, NULL), HTC_OK) && r.interrupted && film.len > 5000);
    htc_balance_policy blank = *policy("random");
    blank.tape = NULL;
    o.policy = &blank;
    cr_expect(eq(int, htc_sim_jobs_run(NULL, &o, &r, &e), HTC_EUNSUPPORTED) && strstr(e.text, "no tape") != NULL);
    o.policy = NULL;
    o.checkpoint = NULL;
    o.resume = &resume;
    stop = 0;
    size_t whole = film.len;
    for (film.len = 0; film.len < whole; film.len += 1 + film.len / 7) { /* cut short anywhere */
        film.at = 0;
        cr_assert(eq(int, htc_sim_jobs_run(NULL, &o, &r, NULL), HTC_EIO), "%zu bytes", film.len);
    }
    film.len = whole;
#define OTHER(place, value)                                                             \
    do {                                                                                \
        __typeof__(place) kept = place;                                                 \
        film.at = 0;                                                                    \
        place = value;                                                                  \
        cr_expect(eq(int, htc_sim_jobs_run(NULL, &o, &r, NULL), HTC_EFORMAT), #place);  \
        place = kept;                                                                   \
    } while (0)
    OTHER(o.seed, 77);
    OTHER(o.records, 0);
    OTHER(o.partition, 25);
    OTHER(o.policy, policy("random"));
    OTHER(o.length.mean_ns, 1e6);
#undef OTHER
    for (size_t n = 1; n < 500; n += 1 + n / 20) { /* without memory for it */
        alloc_fail f = alloc_fail_at(n);
        htc_env    env = alloc_fail_env(&f);
        film.at = 0;
        cr_expect(eq(int, htc_sim_jobs_run(&env, &o, &r, NULL), HTC_ENOMEM), "allocation %zu", n);
        cr_expect(eq(sz, f.live, 0) && eq(sz, f.wrong_sizes, 0), "allocation %zu", n);
    }
    film.at = 0;
    cr_expect(eq(int, htc_sim_jobs_run(NULL, &o, &r, NULL), HTC_OK) && eq(u64, r.scale.ended, 3000));
    free(film.data);
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

/* ---- published figures, at quick sizes ---- */

/* Sizes of the trace: 19.52 % of the jobs need at most 1 % of the machine, 90.01 % at most 5, 99.78 % at most 80, 0.22 % all. */
Test(sim_jobs, has_the_published_sizes)
{
    htc_sim_jobs_options o = { .size = sizeof o, .seed = 1, .nodes = 40960, .partition = 40960, .jobs = 50000, .sizes = HTC_SIM_JOBS_TRACE, .length.mean_ns = 1e6 };
    static const struct {
        double at, share;
    } point[] = { { 0.01, 0.1952 }, { 0.05, 0.9001 }, { 0.8, 0.9978 }, { 0.999, 0.9978 }, { 1, 1 } };
    /* the law itself, job by job: the mean of min(size, cap) at two caps tells the share between them */
    for (size_t i = 0; i < sizeof point / sizeof *point; i++) {
        double mean[2];
        for (int k = 0; k < 2; k++) {
            o.nodes_max = (uint32_t)(point[i].at * 40960 + 0.5) + (uint32_t)k;
            if (o.nodes_max > 40960)
                o.nodes_max = 40960;
            htc_sim_jobs_report r = run(&o);
            mean[k] = r.utilisation * 40960 * ((double)r.scale.makespan / 1e6) / 50000;
        }
        cr_expect(fabs(1 - (mean[1] - mean[0]) - point[i].share) < 0.006, "%f: %f", point[i].at, 1 - (mean[1] - mean[0]));
    }
}

/* Random steals for one job at 1 M nodes in 1024 partitions: about 8000 for the whole machine, by arithmetic 1023 times the sum of 1 / i, 7686. */
static double steals(uint32_t partitions, double size, double used)
{
    double sum = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        const htc_sim_jobs_job job = { .size = sizeof job, .controller = 0, .nodes = (uint32_t)(size * partitions * 1024) };
        htc_sim_jobs_options   o = { .size = sizeof o, .seed = seed, .nodes = partitions * 1024, .partition = 1024, .list = &job, .n_list = 1, .used = used,
                                     .policy = policy("random"), .tries = UINT32_MAX };
        htc_sim_jobs_published(&o);
        sum += (double)run(&o).steals / 20;
    }
    return sum;
}

Test(sim_jobs, has_the_published_random_steals)
{
    double whole = steals(1024, 1, 0), half = steals(1024, 0.5, 0), half_used = steals(1024, 0.5, 0.5), quarter = steals(1024, 0.25, 0);
    cr_expect(fabs(whole / 8000 - 1) < 0.1, "%f for 8000", whole);
    cr_expect(fabs(whole / 7686 - 1) < 0.1 && fabs(half / (1024 * log(2)) - 1) < 0.05 && fabs(half_used / 7686 - 1) < 0.12, "%f %f %f", whole, half, half_used);
    cr_expect(whole / half > 2 * half / quarter, "faster than linear in size: %f %f %f", quarter, half, whole);
    cr_expect(fabs(steals(256, 0.5, 0) / half - 0.25) < 0.02, "linear in partitions");
}

/* The published simulator, random stealing, partitions of one node, jobs of 1 or 2 nodes that do nothing, 10 a controller: from 4 nodes to 1 M the latency
 * grows by 41 % (233 to 329 ms), and 25.6 messages a job. Ours: 31 ms to 33, 15 messages; throughput is linear in the nodes. */
Test(sim_jobs, one_node_a_controller_is_linear)
{
    htc_sim_jobs_report r[3];
    for (int i = 0; i < 3; i++) {
        uint32_t             nodes = i == 0 ? 64 : i == 1 ? 1024 : 8192;
        htc_sim_jobs_options o = { .size = sizeof o, .seed = 1, .nodes = nodes, .partition = 1, .jobs = 10 * nodes, .nodes_min = 1, .nodes_max = 2, .policy = policy("random") };
        htc_sim_jobs_published(&o);
        r[i] = run(&o);
    }
    cr_expect(r[2].throughput > 6.5 * r[1].throughput && r[1].throughput > 12 * r[0].throughput, "%f %f %f", r[0].throughput, r[1].throughput, r[2].throughput);
    cr_expect(r[2].latency_s < 1.41 * r[0].latency_s && r[2].messages > 12 && r[2].messages < 25.6, "%f %f %f", r[0].latency_s, r[2].latency_s, r[2].messages);
}

/* 10 K jobs on 1 K nodes, one partition: 6 ms and 4 messages are published; ours write three records of a job where they have two. */
Test(sim_jobs, one_partition_needs_no_steal)
{
    htc_sim_jobs_options o = { .size = sizeof o, .seed = 1, .nodes = 1024, .partition = 1024, .jobs = 2000, .sizes = HTC_SIM_JOBS_TRACE, .nodes_max = 51,
                               .length = { HTC_SCALE_EXPONENTIAL, 0, 5e6, 0 }, .policy = policy("random") };
    htc_sim_jobs_published(&o);
    htc_sim_jobs_report r = run(&o);
    cr_expect(r.latency_s > 0.006 && r.latency_s < 0.009 && r.messages >= 5 && r.messages < 5.5 && r.steals == 0, "%f %f", r.latency_s, r.messages);
}

/* 64 K nodes in partitions of 1024, sizes up to 5 % of the machine: fewer messages and a shorter wait where a monitor says who has nodes (published at 64 K: 22 % of the
 * latency, 18.7 % of the messages; ours 57 and 34 %). */
Test(sim_jobs, a_monitor_spares_messages_and_time)
{
    htc_sim_jobs_options o = { .size = sizeof o, .seed = 1, .nodes = 65536, .partition = 1024, .jobs = 3000, .sizes = HTC_SIM_JOBS_TRACE, .nodes_max = 3277,
                               .length = { HTC_SCALE_EXPONENTIAL, 0, 5e6, 0 }, .policy = policy("random") };
    htc_sim_jobs_published(&o);
    htc_sim_jobs_report random = run(&o);
    o.policy = policy("monitored");
    o.wait_ns = 10 * MS;
    o.wait_ns_max = 1000 * MS;
    o.pull_ns = 10 * MS;
    o.monitor_ns = 1;
    htc_sim_jobs_report monitored = run(&o);
    cr_expect(monitored.latency_s < 0.8 * random.latency_s && monitored.messages < 0.6 * random.messages, "%f %f, %f %f", monitored.latency_s, random.latency_s,
              monitored.messages, random.messages);
}

/* Slurm and Slurm++ at 500 nodes in partitions of 50, with costs of a job and a node that are fitted to Slurm's one-node and full-partition jobs and to
 * Slurm++'s one-node jobs (51.6 and 4.3 jobs/s, 2.61 times Slurm). What follows from these is compared: half-partition jobs 8.5 times, full-partition jobs 10.2
 * times Slurm; one-node to full-partition jobs slow Slurm 9.3 times, Slurm++ 2.3 times. Within 11.48 %, the worst difference of the published simulator. */
static double live(uint32_t nodes, uint32_t min, uint32_t max, uint64_t jobs, int central)
{
    htc_sim_jobs_options o = { .size = sizeof o, .seed = 1, .nodes = nodes, .partition = 50, .jobs = jobs * (nodes / 50), .nodes_min = min, .nodes_max = max };
    htc_sim_jobs_published(&o);
    o.job_ns = central ? 9600 * HTC_US : 85 * MS;
    o.node_ns = central ? 4240 * HTC_US : 2500 * HTC_US;
    o.scan_ns = central ? 22 * HTC_US : 0;
    o.wait_ns = 10 * MS;
    o.wait_ns_max = 100 * MS;
    o.central = (uint32_t)central;
    return run(&o).throughput;
}

Test(sim_jobs, has_the_published_ratios_to_slurm)
{
    double one[2], half[2], full[2];
    for (int i = 0; i < 2; i++) {
        one[i] = live(500, 1, 1, 50, i);
        half[i] = live(500, 1, 50, 50, i);
        full[i] = live(500, 25, 75, 20, i);
    }
    cr_expect(fabs(one[0] / one[1] / 2.61 - 1) < 0.1148, "fitted: %f", one[0] / one[1]);
    cr_expect(fabs(half[0] / half[1] / 8.5 - 1) < 0.1148, "%f", half[0] / half[1]);
    cr_expect(fabs(full[0] / full[1] / 10.2 - 1) < 0.1148, "%f", full[0] / full[1]);
    cr_expect(fabs(one[1] / full[1] / 9.3 - 1) < 0.1148 && fabs(one[0] / full[0] / 2.3 - 1) < 0.1148, "%f %f", one[1] / full[1], one[0] / full[0]);
    cr_expect(fabs(live(250, 1, 1, 50, 1) / 51.6 - 1) < 0.1148);
    /* speed-ups grow with scale, and with job size from one node on */
    cr_expect(live(100, 1, 1, 50, 0) / live(100, 1, 1, 50, 1) < 1 && one[0] / one[1] < half[0] / half[1] && half[0] / half[1] < full[0] / full[1]);
    cr_expect(live(100, 25, 75, 20, 0) / live(100, 25, 75, 20, 1) < live(250, 25, 75, 20, 0) / live(250, 25, 75, 20, 1));
}

/* One-node jobs at 500 nodes: the smaller partitions are, the more jobs a second (3509 published at 1:1). */
Test(sim_jobs, smaller_partitions_are_faster_for_one_node_jobs)
{
    static const uint32_t size[] = { 1, 4, 16, 64, 100 };
    double                before = INFINITY;
    for (size_t i = 0; i < 5; i++) {
        htc_sim_jobs_options o = { .size = sizeof o, .seed = 1, .nodes = 500, .partition = size[i], .jobs = 4000, .nodes_max = 1 };
        htc_sim_jobs_published(&o);
        o.job_ns = 85 * MS;
        double now = run(&o).throughput;
        cr_expect(now < before, "%u: %f", size[i], now);
        before = now;
    }
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
