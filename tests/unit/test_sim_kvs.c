/* The scale model of key-value stores: exact where the figures follow from arithmetic, the same as a slow and obvious model, near what was published, the
 * same run everywhere, and nothing lost, whatever fails. */
#include <math.h>

#include "alloc_fail.h"
#include "kvs_slow.h"
#include "property.h"
#include "reel.h"

#define US HTC_US

static htc_sim_kvs_report run_of(const htc_sim_kvs_options *o)
{
    htc_sim_kvs_report r = { .size = sizeof r };
    htc_error          e = { 0 };
    cr_assert(eq(int, htc_sim_kvs_run(NULL, o, &r, &e), HTC_OK), "%s", e.text);
    cr_assert(eq(str, r.scale.wrong, ""), "seed %llu", (unsigned long long)property_seed);
    cr_assert(eq(u64, r.answered + r.failed, r.submitted));
    return r;
}

static double off(double ours, double theirs)
{
    return fabs(ours / theirs - 1);
}

/* ---- by arithmetic ---- */

/* One client: a request takes CS + SR + LP + SS + CR. */
Test(sim_kvs, one_request_after_the_other_takes_the_sum_of_its_parts)
{
    static const double one[] = { 50 + 112 + 50 + 613 + 50 + 112 + 50, 40 + 93.9 + 40 + 3 * 613 + 40 + 93.9 + 40 };
    for (uint32_t queues = 0; queues < 2; queues++)
        for (uint32_t machine = 0; machine < 2; machine++) {
            htc_sim_kvs_options o = { .size = sizeof o, .clients = 1, .machine = machine, .queues = queues, .synchronised = 1, .requests = 1000 };
            htc_sim_kvs_report  r = run_of(&o);
            cr_expect(off(r.time_s, one[machine] * 1000 * 1e-6) < 1e-9, "%.9f", r.time_s);
            cr_expect(eq(u64, r.requests.sent, 2000) && eq(u64, r.requests.received, 2000));
            cr_expect(off(r.response_s, one[machine] * 1e-6) < 1e-9);
        }
}

/* What one request costs a server that is never idle: the service time over this is the efficiency. Before a client's first request and
 * after its last one it is idle for a while. */
static void closed_form(const htc_sim_kvs_options *o, double us, double tolerance)
{
    htc_sim_kvs_report r = run_of(o);
    double             expected = (double)r.service_ns / 1000 / us;
    cr_expect(off(r.efficiency, expected) <= tolerance, "model %u, %u copies, consistency %u: %.4f, by the formula %.4f", o->model, o->copies, o->consistency,
              r.efficiency, expected);
}

/* From a contact to who coordinates, of whom there are so many, one after the other on the ring: a contact that is one of them does it itself. */
static double hops(uint32_t model, uint32_t n, uint32_t coordinators)
{
    double sum = 0;
    for (uint32_t d = 1; d <= n - coordinators; d++)
        sum += model == HTC_SIM_KVS_DFC ? 1 : 1 + __builtin_popcount(d - 1);
    return sum / n;
}

/* The more requests a client has, the less does its beginning and its end matter. */
static void closed_form_in_the_limit(htc_sim_kvs_options *o, double us)
{
    o->requests = 10;
    closed_form(o, us, 0.015);
    o->requests = 100;
    closed_form(o, us, 0.006);
}

Test(sim_kvs, has_the_efficiency_of_the_closed_form)
{
    htc_sim_kvs_options o = { .size = sizeof o, .clients = 1024, .synchronised = 1 };
    closed_form(&o, 637 + 100, 0.001);
    o.model = HTC_SIM_KVS_CTREE;
    closed_form(&o, 637 + 62 + 574.0 / 1024, 0.01); /* the first batch waits until all its requests are unpacked */
    o.clients = 8 * 1024;
    for (o.model = HTC_SIM_KVS_DFC; o.model <= HTC_SIM_KVS_DCHORD; o.model++)
        for (uint32_t copies = 1; copies <= 3; copies++) {
            o.copies = copies;
            o.consistency = HTC_SIM_KVS_STRONG;
            closed_form_in_the_limit(&o, 737 + 200 * hops(o.model, 8, 1) + 418.5 * (copies - 1));
            if (copies < 3)
                continue;
            o.consistency = HTC_SIM_KVS_EVENTUAL; /* any of the copies coordinates */
            closed_form_in_the_limit(&o, 737 + 200 * hops(o.model, 8, copies) + 837 * 2);
        }
}

/* Aggregators pay from 16 clients on. */
Test(sim_kvs, an_aggregator_pays_from_16_clients_on)
{
    static const struct {
        uint32_t clients;
        double   service;
    } rows[] = { { 4, 608 }, { 8, 601 }, { 16, 588 }, { 32, 567 }, { 64, 537 } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        htc_sim_kvs_options o = { .size = sizeof o, .clients = rows[i].clients, .synchronised = 1, .requests = 1000 };
        htc_sim_kvs_report  single = run_of(&o), tree;
        o.model = HTC_SIM_KVS_CTREE;
        tree = run_of(&o);
        cr_expect(off(1e6 / single.throughput, rows[i].service + 100) < 0.002, "%u clients: %.2f us", rows[i].clients, 1e6 / single.throughput);
        cr_expect(off(1e6 / tree.throughput, rows[i].service + 62 + 574.0 / rows[i].clients) < 0.002, "%u clients: %.2f us", rows[i].clients, 1e6 / tree.throughput);
        cr_expect((tree.throughput > single.throughput) == (rows[i].clients >= 16), "%u clients", rows[i].clients);
        cr_expect(eq(u64, tree.requests.sent, 2 * tree.submitted + o.requests));
    }
}

/* ---- what was published ---- */

/* Messages of requests without copies, in thousands: the first rows of the table. */
Test(sim_kvs, has_the_published_numbers_of_messages)
{
    static const struct {
        uint32_t clients;
        double   dfc, dchord;
    } rows[] = { { 4, 143.4, 185.0 }, { 8, 307.3, 491.1 }, { 16, 634.8, 1200 }, { 32, 1300, 2800 }, { 64, 2600, 6400 }, { 128, 5200, 14300 }, { 256, 10500, 31300 }, { 1024, 41900, 146600 } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows && (rows[i].clients <= 32 || getenv("HTC_TEST_FULL")); i++) {
        htc_sim_kvs_options o = { .size = sizeof o, .seed = 1, .clients = rows[i].clients * 1024, .model = HTC_SIM_KVS_DFC, .copies = rows[i].clients < 4 ? 1 : 3 };
        htc_sim_kvs_report  r = run_of(&o);
        cr_expect(off((double)r.requests.sent / 1000, rows[i].dfc) < 0.02, "%u K: %.1f K, published %.1f K", rows[i].clients, (double)r.requests.sent / 1000, rows[i].dfc);
        uint64_t copies = r.consistency.sent; /* four for each put */
        cr_expect(copies % 4 == 0 && off((double)copies, 2.0 * (double)r.submitted) < 0.02);
        o.model = HTC_SIM_KVS_DCHORD;
        o.copies = 1;
        r = run_of(&o);
        cr_expect(off((double)r.requests.sent / 1000, rows[i].dchord) < 0.03, "%u K: %.1f K, published %.1f K", rows[i].clients, (double)r.requests.sent / 1000, rows[i].dchord);
    }
}

/* Efficiency: with as many servers as were published, in full runs; else with fewer, for which a simulation gave other figures for dchord. */
Test(sim_kvs, has_the_published_efficiencies)
{
    static const double small[2][3] = { { 67, 46, 35 }, { 42, 33, 27 } }, large[2][3] = { { 67, 46, 35 }, { 33, 27, 23 } };
    int                 full = getenv("HTC_TEST_FULL") != NULL;
    for (uint32_t k = 0; k < 2; k++)
        for (uint32_t copies = 1; copies <= 3; copies++) {
            htc_sim_kvs_options o = { .size = sizeof o, .seed = 1, .clients = full ? 1 << 20 : 1 << 16, .model = HTC_SIM_KVS_DFC + k, .copies = copies };
            htc_sim_kvs_report  r = run_of(&o);
            double              published = full ? large[k][copies - 1] : small[k][copies - 1];
            cr_expect(off(100 * r.efficiency, published) < 0.03, "model %u, %u copies: %.1f %%, published %.0f %%", o.model, copies, 100 * r.efficiency, published);
        }
}

/* With failures, 5 a minute, three copies: the first copy of the first server that fails does twice the work of others. */
Test(sim_kvs, has_the_published_efficiencies_with_failures)
{
    static const double published[] = { 23, 18 };
    for (uint32_t k = 0; k < 2; k++) {
        double sum = 0;
        for (uint64_t seed = 1; seed <= 3; seed++) {
            htc_sim_kvs_options o = { .size = sizeof o, .seed = seed, .clients = 1 << 15, .model = HTC_SIM_KVS_DFC, .copies = 3, .consistency = k, .failure_ns = 12 * HTC_SECOND };
            htc_sim_kvs_report  r = run_of(&o);
            sum += 100 * r.efficiency;
            cr_expect(eq(u64, r.failed, 0), "a copy of every key is up");
            cr_expect(r.flips >= 3 && r.failures.sent >= 3 * 32 && r.failures.sent <= (uint64_t)r.flips * (32 + 7), "%llu messages of %u failures",
                      (unsigned long long)r.failures.sent, r.flips);
        }
        cr_expect(off(sum / 3, published[k]) < 0.1, "consistency %u: %.1f %%, published %.0f %%", k, sum / 3, published[k]);
    }
}

/* A server that leaves costs n + 1 messages, and 6 more with two extra copies. */
Test(sim_kvs, a_failure_costs_as_many_messages_as_was_published)
{
    for (uint32_t copies = 1; copies <= 3; copies += 2)
        for (uint32_t n = 8; n <= 64; n *= 2) {
            htc_sim_kvs_options o = { .size = sizeof o, .clients = n * 8, .servers = n, .model = HTC_SIM_KVS_DFC, .copies = copies, .failure_ns = 1000 * HTC_SECOND };
            htc_sim_kvs_report  r = run_of(&o);
            cr_expect(eq(u32, r.flips, 1) && eq(u64, r.failures.sent, n + 1 + (copies > 1 ? 6 : 0)), "%u servers: %llu", n, (unsigned long long)r.failures.sent);
        }
}

/* In dchord they grow as the square of the logarithm. */
Test(sim_kvs, a_failure_in_dchord_costs_the_square_of_the_logarithm)
{
    for (uint32_t bits = 3; bits <= 12; bits++) {
        htc_sim_kvs_options o = { .size = sizeof o, .clients = 2u << bits, .servers = 1u << bits, .requests = 1, .model = HTC_SIM_KVS_DCHORD, .failure_ns = 1000 * HTC_SECOND };
        htc_sim_kvs_report  r = run_of(&o);
        /* it looks up who is 2^i before the failed one: bits of its distance, there and back; then tells it */
        cr_expect(r.failures.sent >= bits && r.failures.sent <= 2 + 2 * bits * bits, "2^%u servers: %llu", bits, (unsigned long long)r.failures.sent);
        cr_expect(r.failures.sent >= bits * bits, "2^%u servers: %llu", bits, (unsigned long long)r.failures.sent);
    }
}

/* ---- a slow and obvious model ---- */

static void draw_small(htc_rng *rng, htc_sim_kvs_options *o)
{
    *o = (htc_sim_kvs_options){ .size = sizeof *o, .seed = htc_rng_next(rng), .model = (uint32_t)htc_rng_below(rng, 4), .clients = 1 + htc_rng_below(rng, SLOW_CLIENTS),
                                .servers = 1 + (uint32_t)htc_rng_below(rng, SLOW_SERVERS), .requests = 1 + (uint32_t)htc_rng_below(rng, 12),
                                .machine = (uint32_t)htc_rng_below(rng, 2), .select = (uint32_t)htc_rng_below(rng, 2), .queues = (uint32_t)htc_rng_below(rng, 2),
                                .consistency = (uint32_t)htc_rng_below(rng, 3), .placement = (uint32_t)htc_rng_below(rng, 2),
                                .synchronised = (uint32_t)htc_rng_below(rng, 2), .puts = (double)htc_rng_below(rng, 5) / 4 };
    o->copies = 1 + (uint32_t)htc_rng_below(rng, o->servers < 5 ? o->servers : 5);
    o->reads = 1 + (uint32_t)htc_rng_below(rng, o->copies);
    o->writes = 1 + (uint32_t)htc_rng_below(rng, o->copies);
    o->stall_ns = 1 + htc_rng_below(rng, 20 * HTC_MS);
    o->puts = o->puts > 0 ? o->puts : 0.5;
    o->messages_max = SLOW_MESSAGES;
}

static void run_slow(slow *w, const htc_sim_kvs_options *o, htc_ns service)
{
    static const double pack[] = { 500, 400 }, latency[] = { 1000, 120 }, gigabits[] = { 6.8, 1.0 };
    int                 one = o->model < HTC_SIM_KVS_DFC;
    memset(w, 0, sizeof *w);
    w->o = o;
    w->n = one ? (int)o->copies : (int)o->servers;
    w->copies = (int)o->copies;
    w->aggregators = o->model == HTC_SIM_KVS_CTREE;
    w->wire = 10240 * 8 / gigabits[o->machine] / 100;
    w->latency = (uint64_t)latency[o->machine];
    w->transmit = w->latency + (uint64_t)(w->wire + 0.5);
    w->pack = w->unpack = (uint64_t)pack[o->machine];
    w->service = service / 100;
    if (o->model == HTC_SIM_KVS_DFC && o->placement == HTC_SIM_KVS_RING) {
        htc_ring_member  member[SLOW_SERVERS];
        htc_ring_options ring = HTC_RING_OPTIONS_INIT;
        for (int i = 0; i < w->n; i++)
            member[i] = (htc_ring_member){ .id = (uint64_t)i + 1, .weight = 1 };
        ring.owners = w->n < HTC_RING_OWNERS_MAX ? (uint32_t)w->n : HTC_RING_OWNERS_MAX;
        ring.members_max = (uint32_t)w->n;
        cr_assert(eq(int, htc_ring_create(NULL, &ring, member, (size_t)w->n, &w->ring), HTC_OK));
    }
    for (int c = 0; c < (int)o->clients; c++) {
        uint64_t longest = (o->stall_ns + 50) / 100, draw = slow_draw(w, KVS_STREAM_STALLS, (uint64_t)c);
        slow_ask(w, c, o->synchronised ? 0 : (uint64_t)((kvs_wide)draw * (longest + 1) >> 64));
    }
    slow_run(w);
    htc_ring_destroy(w->ring);
}

Test(sim_kvs, is_the_same_as_a_slow_and_obvious_model)
{
    static slow w;
    PROPERTY (rng, 400) {
        htc_sim_kvs_options o;
        draw_small(&rng, &o);
        htc_sim_kvs_report r = run_of(&o);
        run_slow(&w, &o, r.service_ns);
        HOLDS(eq(u64, r.answered, w.answered));
        HOLDS(eq(u64, r.requests.sent, w.requests_sent));
        HOLDS(eq(u64, r.consistency.sent, w.consistency_sent));
        HOLDS(r.time_s == (double)w.last * 100 / 1e9);
        HOLDS(r.response_s == (double)w.response * 100 / 1e9 / (double)w.answered);
    }
}

/* ---- any run ---- */

static void draw_run(htc_rng *rng, htc_sim_kvs_options *o)
{
    draw_small(rng, o);
    o->clients = 1 + htc_rng_below(rng, 3000);
    o->messages_max = 0;
    o->strategy = (uint32_t)htc_rng_below(rng, 3);
    o->notify = (uint32_t)htc_rng_below(rng, 2);
    o->tries = (uint32_t)htc_rng_below(rng, 5);
    o->keys = htc_rng_below(rng, 2) * (1 + htc_rng_below(rng, 200));
    if (htc_rng_below(rng, 4)) {
        o->bytes = htc_rng_below(rng, 2) ? 0 : 256;
        o->failure_ns = (o->bytes ? 60 * HTC_MS : 4 * HTC_SECOND) << htc_rng_below(rng, 4); /* data is back before the next one */
        o->first_failure_ns = 1 + htc_rng_below(rng, 100 * HTC_MS);
        o->messages_max = 2 * o->copies * o->clients + 100000;
    }
}

Test(sim_kvs, loses_nothing_and_is_the_same_again)
{
    uint64_t failed = 0, refused = 0, conflicts = 0, write_backs = 0, lost[3] = { 0 };
    PROPERTY (rng, 400) {
        htc_sim_kvs_options o;
        draw_run(&rng, &o);
        htc_sim_kvs_report r = run_of(&o), again = run_of(&o);
        HOLDS(r.scale.hash == again.scale.hash && memcmp(&r, &again, sizeof r) == 0);
        HOLDS(r.submitted == o.clients * o.requests + r.write_backs);
        HOLDS(o.failure_ns || (r.requests.lost == 0 && r.consistency.lost == 0 && r.failures.sent == 0 && r.refused == 0));
        HOLDS(o.copies > 1 || r.consistency.sent == 0);
        HOLDS(o.failure_ns || o.consistency == HTC_SIM_KVS_EVENTUAL || r.failed == 0);
        failed += r.failed;
        refused += r.refused;
        conflicts += r.conflicts;
        write_backs += r.write_backs;
        lost[0] += r.requests.lost;
        lost[1] += r.consistency.lost;
        lost[2] += r.failures.lost;
    }
    cr_expect(failed && refused && conflicts && write_backs && lost[0] && lost[1] && lost[2]);
}

Test(sim_kvs, is_the_same_run_everywhere)
{
    static const uint64_t hashes[] = { 0x71cc2e7090df2f91, 0xa340564ffe2033e6, 0xd3439e2c92daaa46, 0x9573577cd6264582 };
    for (uint32_t k = 0; k < 4; k++) {
        static const double weights[] = { 5, 1, 0.5, 3, 8 };
        htc_sim_kvs_options o = { .size = sizeof o, .seed = 7, .clients = 2500, .model = k, .servers = 9, .copies = 3, .consistency = k % 3, .queues = k / 2,
                                  .failure_ns = 300 * HTC_MS, .notify = k % 2, .keys = 5, .weights = weights };
        htc_sim_kvs_report  r = run_of(&o);
        cr_expect(eq(u64, r.scale.hash, hashes[k]), "model %u: 0x%llx", k, (unsigned long long)r.scale.hash);
    }
}

/* Keys without weight are never drawn, and equal weights are as good as none. */
Test(sim_kvs, keys_are_drawn_by_weight)
{
    static const double one[] = { 0, 7, 0 }, same[] = { 2, 2, 2, 2 }, skewed[] = { 1, 0.1, 0.1, 0.1 };
    htc_sim_kvs_options o = { .size = sizeof o, .clients = 640, .servers = 8, .model = HTC_SIM_KVS_DFC, .keys = 3, .weights = one };
    htc_sim_kvs_report  r = run_of(&o), all;
    cr_expect(r.efficiency < 1.0 / 8, "one server has them all");
    o.keys = 4;
    o.weights = same;
    all = run_of(&o);
    o.weights = NULL;
    cr_expect(eq(u64, run_of(&o).scale.hash, all.scale.hash));
    o.weights = skewed;
    cr_expect(run_of(&o).time_s > 1.5 * all.time_s);
}

/* ---- clocks ---- */

Test(sim_kvs, clocks_conflict_where_operations_meet)
{
    htc_sim_kvs_options o = { .size = sizeof o, .clients = 1, .servers = 5, .model = HTC_SIM_KVS_DFC, .copies = 3, .consistency = HTC_SIM_KVS_EVENTUAL, .reads = 2,
                              .writes = 3, .keys = 1, .requests = 200 };
    htc_sim_kvs_report  r = run_of(&o);
    cr_expect(eq(u64, r.failed, 0) && eq(u64, r.conflicts, 0), "one client after its own operations");
    o.clients = 100;
    r = run_of(&o);
    cr_expect(r.conflicts > 0 && r.write_backs > 0 && r.failed > 0, "%llu conflicts", (unsigned long long)r.conflicts);
    o.no_puts = 1;
    r = run_of(&o);
    cr_expect(eq(u64, r.conflicts, 0) && eq(u64, r.failed, 0));
    o.no_puts = 0;
    o.keys = 0;
    r = run_of(&o);
    cr_expect(eq(u64, r.conflicts, 0) && eq(u64, r.failed, 0), "each request has a key of its own");
}

/* ---- failures ---- */

/* The one server goes down at once, and for good. */
Test(sim_kvs, a_strategy_takes_the_time_that_it_says)
{
    static const double wait[] = { 2 * (50 + 112 + 112), 1e6, 0 }; /* besides the first refusal */
    for (uint32_t strategy = 0; strategy < 3; strategy++) {
        htc_sim_kvs_options o = { .size = sizeof o, .clients = 1, .synchronised = 1, .copies = 2, .requests = 1, .no_puts = 1, .strategy = strategy, .tries = 3,
                                  .failure_ns = 1000 * HTC_SECOND, .first_failure_ns = 1 };
        for (o.seed = 0;; o.seed++) { /* it is the first of the two */
            htc_sim_kvs_report r = run_of(&o);
            if (r.refused == 0)
                continue;
            cr_expect(eq(u64, r.refused, strategy == HTC_SIM_KVS_MULTI_TRIAL ? 3 : 1) && eq(u64, r.failed, 0) && eq(u64, r.requests.lost, r.refused));
            double us = 50 + 112 + 112 + wait[strategy] + 50 + 112 + 50 + 613 + 50 + 112 + 50 + 50; /* the last: it unpacks what the monitor says */
            cr_expect(fabs(r.time_s * 1e6 - us) < 51, "strategy %u: %.1f us, expected %.1f us", strategy, r.time_s * 1e6, us);
            break;
        }
    }
}

Test(sim_kvs, what_goes_to_a_dead_server_without_copies_fails)
{
    htc_sim_kvs_options o = { .size = sizeof o, .clients = 8 * 64, .servers = 8, .model = HTC_SIM_KVS_DFC, .failure_ns = 1000 * HTC_SECOND, .first_failure_ns = 1 };
    for (uint32_t model = HTC_SIM_KVS_DFC; model <= HTC_SIM_KVS_DCHORD; model++) {
        o.model = model;
        htc_sim_kvs_report r = run_of(&o);
        /* an eighth of the clients is served by nobody; for the others an eighth of the keys is nowhere, and in dchord some look-ups fail */
        double expected = 1.0 / 8 + 7.0 / 64, part = (double)r.failed / (double)r.submitted;
        cr_expect(part > expected - 0.03 && part < (model == HTC_SIM_KVS_DFC ? expected + 0.03 : 0.7), "model %u: %.3f", model, part);
        o.notify = HTC_SIM_KVS_LAZY;
        htc_sim_kvs_report lazy = run_of(&o);
        cr_expect(lazy.failures.sent < r.failures.sent && off((double)lazy.failed, (double)r.failed) < 0.1);
        o.notify = HTC_SIM_KVS_EAGER;
    }
}

/* ---- interrupted ---- */

static volatile int stop;

static void stop_at_once(void *ctx, const htc_scale_progress *p)
{
    (void)ctx;
    cr_expect(eq(u64, p->total, 200000));
    stop = 1;
}

Test(sim_kvs, says_what_it_had_when_it_is_stopped)
{
    htc_scale_host      host = { .size = sizeof host, .stop = &stop, .progress = stop_at_once };
    htc_sim_kvs_options o = { .size = sizeof o, .clients = 20000, .model = HTC_SIM_KVS_DFC, .host = &host };
    htc_sim_kvs_report  r = { .size = sizeof r };
    cr_assert(eq(int, htc_sim_kvs_run(NULL, &o, &r, NULL), HTC_OK));
    cr_expect(eq(u32, r.interrupted, 1) && eq(str, r.scale.wrong, "") && r.answered < r.submitted && r.requests.received < r.requests.sent);
}

/* However often a run is interrupted, written down and gone on with, it comes to the same end. */
Test(sim_kvs, goes_on_from_a_checkpoint_to_the_same_end)
{
    int stops = 0;
    PROPERTY (rng, 60) {
        htc_sim_kvs_options o;
        draw_run(&rng, &o);
        htc_sim_kvs_report whole = run_of(&o), part = { .size = sizeof part };
        stopper            halt = { .rng = { htc_rng_next(&rng) }, .one_in = 1 + htc_rng_below(&rng, 20000) };
        htc_scale_host     host = { .size = sizeof host, .stop = &halt.stop, .clock = stopper_clock, .ctx = &halt };
        reel               from = { 0 }, to = { 0 };
        htc_scale_tape     resume = { .size = sizeof resume, .reads = 1, .move = reel_read, .ctx = &from }, checkpoint = { .size = sizeof checkpoint, .move = reel_write, .ctx = &to };
        o.host = &host;
        o.checkpoint = &checkpoint;
        for (part.interrupted = 1; part.interrupted; stops += (int)part.interrupted) {
            halt.stop = 0;
            to.len = from.at = 0;
            HOLDS(htc_sim_kvs_run(NULL, &o, &part, NULL) == HTC_OK);
            cr_assert(eq(str, part.scale.wrong, ""), "seed %llu", (unsigned long long)property_seed);
            reel other = from;
            from = to;
            to = other;
            o.resume = &resume;
        }
        part.scale.events_here = whole.scale.events_here; /* of the last piece */
        part.scale.ended_here = whole.scale.ended_here;
        HOLDS(memcmp(&part, &whole, sizeof part) == 0);
        free(from.data);
        free(to.data);
    }
    cr_expect(stops > (int)property_times(20), "%d stops", stops);
}

Test(sim_kvs, refuses_what_is_no_checkpoint_of_the_experiment)
{
    htc_scale_host      host = { .size = sizeof host, .stop = &stop };
    reel                film = { 0 };
    htc_scale_tape      resume = { .size = sizeof resume, .reads = 1, .move = reel_read, .ctx = &film }, checkpoint = { .size = sizeof checkpoint, .move = reel_write, .ctx = &film };
    htc_sim_kvs_options o = { .size = sizeof o, .clients = 2000, .model = HTC_SIM_KVS_DFC, .servers = 4, .copies = 2, .host = &host, .checkpoint = &checkpoint };
    htc_sim_kvs_report  r = { .size = sizeof r };
    stop = 1;
    cr_assert(eq(int, htc_sim_kvs_run(NULL, &o, &r, NULL), HTC_OK) && r.interrupted && film.len > 5000);
    o.checkpoint = NULL;
    o.resume = &resume;
    stop = 0;
    size_t whole = film.len;
    for (film.len = 0; film.len < whole; film.len += 1 + film.len / 7) { /* cut short anywhere */
        film.at = 0;
        cr_assert(eq(int, htc_sim_kvs_run(NULL, &o, &r, NULL), HTC_EIO), "%zu bytes", film.len);
    }
    film.len = whole;
    film.at = 0;
    o.copies = 3;
    cr_expect(eq(int, htc_sim_kvs_run(NULL, &o, &r, NULL), HTC_EFORMAT));
    o.copies = 2;
    film.at = 0;
    cr_expect(eq(int, htc_sim_kvs_run(NULL, &o, &r, NULL), HTC_OK) && eq(u64, r.answered, 20000));
    free(film.data);
}

/* ---- what cannot be run ---- */

Test(sim_kvs, refuses_what_cannot_be_run)
{
    static const double none[] = { 0, 0 }, wrong[] = { 1, -1 };
    htc_scale_host      host = { .size = sizeof host, .memory_max = 1 << 20 };
    htc_sim_kvs_options good = { .size = sizeof good, .clients = 1000000, .model = HTC_SIM_KVS_DFC }, o = good;
    htc_sim_kvs_report  r = { .size = sizeof r };
    htc_error           e;
    uint64_t            bytes = 0;
    o.host = &host;
    cr_expect(eq(int, htc_sim_kvs_run(NULL, &o, &r, &e), HTC_ETOOBIG));
    cr_expect(strstr(e.text, "1 MiB are allowed") != NULL, "%s", e.text);
    cr_assert(eq(int, htc_sim_kvs_memory(&o, &bytes), HTC_OK));
    cr_expect(bytes < 60000000, "%llu bytes", (unsigned long long)bytes);
#define REFUSED(...)                                                                  \
    do {                                                                              \
        o = (htc_sim_kvs_options){ .size = sizeof o, __VA_ARGS__ };                   \
        o.clients = 10;                                                               \
        cr_expect(eq(int, htc_sim_kvs_run(NULL, &o, &r, NULL), HTC_EINVAL), #__VA_ARGS__); \
    } while (0)
    o = (htc_sim_kvs_options){ .size = sizeof o };
    cr_expect(eq(int, htc_sim_kvs_run(NULL, &o, &r, NULL), HTC_EINVAL));
    REFUSED(.model = 5);
    REFUSED(.model = HTC_SIM_KVS_LIVE, .depth = 65537);
    REFUSED(.model = HTC_SIM_KVS_LIVE, .programs = 11);
    REFUSED(.model = HTC_SIM_KVS_LIVE, .servers = 2, .copies = 3);
    REFUSED(.model = HTC_SIM_KVS_DFC, .servers = 2, .copies = 3);
    REFUSED(.copies = 9);
    REFUSED(.copies = 2, .reads = 3);
    REFUSED(.copies = 2, .writes = 3);
    REFUSED(.puts = -0.1);
    REFUSED(.puts = (double)NAN);
    REFUSED(.tries = 32);
    REFUSED(.weights = none);
    REFUSED(.keys = 2, .weights = none);
    REFUSED(.keys = 2, .weights = wrong);
    REFUSED(.consistency = 3);
#undef REFUSED
    o = (htc_sim_kvs_options){ .size = sizeof o, .clients = 10, .copies = 3, .synchronised = 1, .puts = 1, .messages_max = 3 };
    cr_expect(eq(int, htc_sim_kvs_run(NULL, &o, &r, &e), HTC_EFULL));
    cr_expect(strstr(e.text, "messages_max") != NULL, "%s", e.text);
    o = (htc_sim_kvs_options){ .size = sizeof o, .clients = 10, .tick_ns = 1, .service_ns = UINT64_C(1) << 62 };
    cr_expect(eq(int, htc_sim_kvs_run(NULL, &o, &r, &e), HTC_ETOOBIG));
    cr_expect(eq(int, htc_sim_kvs_run(NULL, NULL, &r, NULL), HTC_EINVAL) && eq(int, htc_sim_kvs_run(NULL, &good, NULL, NULL), HTC_EINVAL));
}

Test(sim_kvs, ends_without_memory)
{
    static const double weights[] = { 1, 2 };
    for (uint32_t model = 0; model < 5; model++) {
        htc_sim_kvs_options o = { .size = sizeof o, .model = model, .clients = 3, .servers = 4, .copies = 2, .keys = 2, .weights = weights, .consistency = HTC_SIM_KVS_EVENTUAL,
                                  .placement = HTC_SIM_KVS_RING, .failure_ns = HTC_SECOND };
        htc_status          status = HTC_ENOMEM;
        for (size_t n = 1; status != HTC_OK; n++) {
            alloc_fail         f = alloc_fail_at(n);
            htc_env            env = alloc_fail_env(&f);
            htc_sim_kvs_report r = { .size = sizeof r };
            status = htc_sim_kvs_run(&env, &o, &r, NULL);
            cr_expect(status == HTC_OK || status == HTC_ENOMEM, "allocation %zu", n);
            cr_expect(eq(sz, f.live, 0) && eq(sz, f.wrong_sizes, 0), "allocation %zu", n);
        }
    }
}
