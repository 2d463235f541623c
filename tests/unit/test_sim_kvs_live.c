/* The scale model of our own store: exact where its figures follow from arithmetic, the same run everywhere, nothing lost, and a core is one process's at a time. How it
 * compares with the real machines is in tests/world/test_scale_kvs.c. */
#include <math.h>

#include "htcsched/sim_kvs.h"
#include "property.h"
#include "reel.h"

#define US HTC_US

static htc_sim_kvs_report run_of(const htc_sim_kvs_options *o)
{
    htc_sim_kvs_report r = { .size = sizeof r };
    htc_error          e = { 0 };
    cr_assert(eq(int, htc_sim_kvs_run(NULL, o, &r, &e), HTC_OK), "%s", e.text);
    cr_assert(eq(str, r.scale.wrong, ""), "seed %llu", (unsigned long long)property_seed);
    cr_assert(eq(u64, r.answered, r.submitted));
    return r;
}

static double off(double ours, double theirs)
{
    return fabs(ours / theirs - 1);
}

/* Each cost is another number, so that no two can be taken for each other. */
static htc_sim_kvs_options alone(void)
{
    return (htc_sim_kvs_options){ .size = sizeof(htc_sim_kvs_options), .model = HTC_SIM_KVS_LIVE, .clients = 1, .requests = 1000, .servers = 3, .copies = 3, .synchronised = 1,
                                  .no_puts = 1, .latency_ns = 100 * US, .bytes = 1000, .bandwidth = 1000000000, .pack_ns = 2 * US, .unpack_ns = 3 * US, .service_ns = 7 * US,
                                  .accept_ns = 5 * US, .client_ns = 11 * US, .turn_ns = 9 * US, .wake_ns = 4 * US, .commit_ns = 16 * US, .write_ns = US, .sync_ns = 400 * US };
}

/* There and back to the owner that is asked, and from it to the others: turns for which all have waited, frames, and what is done in them, in microseconds. A frame leaves as soon as all of it
 * is there: that to the first of the two others before that to the second, whose answer comes too late to count. */
Test(sim_kvs_live, one_request_after_the_other_takes_the_sum_of_its_parts)
{
    double way = 100 + 8, client = 13 + 3 + 11 + 2, owner = 13 + 3 + 7 + 5 + 2, other = 13 + 3 + 5, last = 13 + 3 + 5 + 2;
    htc_sim_kvs_options o = alone();
    htc_sim_kvs_report  r = run_of(&o);
    double              read = client + owner + other + 2 + last + 4 * way, write = client + owner + other + 400 + 13 + 17 + 2 + last + 4 * way;
    cr_expect(off(r.response_s, read * 1e-6) < 1e-4, "%.9f", r.response_s);
    cr_expect(eq(u64, r.requests.sent, 2000) && eq(u64, r.consistency.sent, 4000) && eq(u64, r.syncs, 0));
    o.no_puts = 0;
    o.puts = 1;
    r = run_of(&o);
    cr_expect(off(r.response_s, write * 1e-6) < 1e-4, "%.9f and %.9f", r.response_s, write);
    cr_expect(eq(u64, r.syncs, 3000));
    o.keys = 1; /* the first time it has to be prepared: once more to the others and back, and a sync */
    o.requests = 1;
    double first = run_of(&o).response_s;
    o.requests = 2;
    double both = run_of(&o).response_s * 2, second = both - first;
    cr_expect(first - second > (400 + 2 * way) * 1e-6 && first - second < (400 + 2 * way + 100) * 1e-6, "%.9f and %.9f", first, second);
}

/* One member alone: a read is answered at once, a change after its sync. */
Test(sim_kvs_live, one_member_asks_nobody)
{
    htc_sim_kvs_options o = alone();
    o.servers = o.copies = 1;
    htc_sim_kvs_report r = run_of(&o);
    cr_expect(off(r.response_s, (13 + 3 + 11 + 2 + 13 + 3 + 7 + 2 + 2 * 108) * 1e-6) < 1e-4, "%.9f", r.response_s);
    o.no_puts = 0;
    o.puts = 1;
    o.keys = 7;
    r = run_of(&o);
    cr_expect(off(r.response_s, (13 + 3 + 11 + 2 + 13 + 3 + 7 + 400 + 9 + 17 + 2 + 2 * 108) * 1e-6) < 1e-4, "%.9f", r.response_s);
    cr_expect(eq(u64, r.consistency.sent, 0) && eq(u64, r.syncs, 1000));
}

/* It syncs in its own thread: it works, or syncs, or waits. */
Test(sim_kvs_live, a_member_alone_takes_nothing_while_it_syncs)
{
    htc_sim_kvs_options o = alone();
    o.servers = o.copies = 1;
    o.no_puts = 0;
    o.puts = 0.5;
    o.clients = 64;
    htc_sim_kvs_report one = run_of(&o);
    cr_expect(one.time_s > (double)one.syncs * 400e-6 + one.members_s, "%.6f", one.time_s);
    o.servers = 2; /* each has one copy, and a thread for its syncs */
    htc_sim_kvs_report two = run_of(&o);
    cr_expect(2 * two.time_s < (double)two.syncs * 400e-6 + two.members_s, "%.6f", two.time_s);
}

/* Each of four turns, and with a change a fifth after the sync, is on a core that waited. Meanwhile the last of two answers comes, which is taken in one turn with the first. */
Test(sim_kvs_live, a_core_that_had_nothing_to_do_begins_later)
{
    htc_sim_kvs_options o = alone();
    for (int puts = 0; puts < 2; puts++) {
        o.no_puts = !puts;
        o.puts = puts;
        o.idle_ns = 0;
        htc_sim_kvs_report before = run_of(&o);
        o.idle_ns = 30 * US;
        htc_sim_kvs_report r = run_of(&o);
        cr_expect(off(r.response_s - before.response_s, ((4 + puts) * 30 + 3 + 5) * 1e-6) < 1e-3, "%.9f and %.9f", r.response_s, before.response_s);
        cr_expect(off((before.members_s - r.members_s) / (double)r.answered, 9e-6) < 1e-3, "it is no work: %.9f and %.9f", r.members_s, before.members_s);
    }
}

/* All that came meanwhile is synced together. */
Test(sim_kvs_live, a_sync_is_of_all_that_wait)
{
    htc_sim_kvs_options o = alone();
    o.no_puts = 0;
    o.puts = 1;
    o.clients = 64;
    o.synchronised = 0;
    o.requests = 200;
    htc_sim_kvs_report r = run_of(&o);
    cr_expect(r.syncs < 64 * 200 / 2, "%llu syncs", (unsigned long long)r.syncs);
    o.depth = 8;
    htc_sim_kvs_report deep = run_of(&o);
    cr_expect(deep.syncs < r.syncs && deep.throughput > r.throughput);
}

/* On few cores there is as much work as they have time for, and where there is only work they have no rest. */
Test(sim_kvs_live, processes_share_the_cores)
{
    htc_sim_kvs_options o = alone();
    o.clients = 32;
    o.requests = 400;
    double before = 0;
    for (o.cores = 1; o.cores <= 4; o.cores *= 2) {
        htc_sim_kvs_report r = run_of(&o);
        cr_expect(before == 0 || (r.throughput > 1.5 * before && r.throughput < 2.7 * before), "%u cores: %.0f and %.0f", o.cores, r.throughput, before);
        before = r.throughput;
    }
    o.cores = 0;
    cr_expect(run_of(&o).throughput > before);
}

/* Requests of a key wait for each other; reads that wait are read together. */
Test(sim_kvs_live, requests_of_one_key_are_taken_one_after_the_other)
{
    htc_sim_kvs_options o = alone();
    o.clients = 32;
    o.requests = 100;
    o.no_puts = 0;
    o.puts = 1;
    o.keys = 1;
    htc_sim_kvs_report one = run_of(&o);
    cr_expect(one.time_s > 32 * 100 * (400 + 2 * 108) * 1e-6, "%.6f", one.time_s);
    o.keys = 0;
    cr_expect(run_of(&o).throughput > 5 * one.throughput);
    o.keys = 1;
    o.servers = o.copies = 1; /* but not those to a member that is alone */
    cr_expect(run_of(&o).throughput > 5 * one.throughput);
    o.servers = o.copies = 3;
    o.puts = 0;
    o.no_puts = 1;
    o.keys = 1;
    cr_expect(run_of(&o).throughput > 5 * one.throughput, "reads are joined");
}

static void draw_run(htc_rng *rng, htc_sim_kvs_options *o)
{
    *o = (htc_sim_kvs_options){ .size = sizeof *o, .seed = htc_rng_next(rng), .model = HTC_SIM_KVS_LIVE, .clients = 1 + htc_rng_below(rng, 100),
                                .requests = 1 + (uint32_t)htc_rng_below(rng, 60), .depth = 1 + (uint32_t)htc_rng_below(rng, 9), .servers = 1 + (uint32_t)htc_rng_below(rng, 9),
                                .puts = (double)htc_rng_below(rng, 1001) / 1000, .no_puts = htc_rng_below(rng, 5) == 0, .cores = (uint32_t)htc_rng_below(rng, 5),
                                .keys = htc_rng_below(rng, 3) * htc_rng_below(rng, 50), .sync_ns = htc_rng_below(rng, 2) * htc_rng_below(rng, HTC_MS),
                                .latency_ns = 1 + htc_rng_below(rng, 300 * US), .turn_ns = 1 + htc_rng_below(rng, 20 * US), .wake_ns = 1 + htc_rng_below(rng, 20 * US),
                                .idle_ns = htc_rng_below(rng, 2) * htc_rng_below(rng, 60 * US) };
    o->copies = 1 + (uint32_t)htc_rng_below(rng, o->servers < 7 ? o->servers : 7);
    o->programs = (uint32_t)htc_rng_below(rng, o->clients + 1);
}

Test(sim_kvs_live, loses_nothing_and_is_the_same_again)
{
    PROPERTY (rng, 300) {
        htc_sim_kvs_options o;
        draw_run(&rng, &o);
        htc_sim_kvs_report r = run_of(&o), again = run_of(&o);
        HOLDS(memcmp(&r, &again, sizeof r) == 0);
        HOLDS(r.submitted == o.clients * o.requests && r.failed == 0);
        HOLDS(r.requests.sent == r.requests.received && r.consistency.sent == r.consistency.received);
        HOLDS(o.copies > 1 || r.consistency.sent == 0);
        HOLDS(r.busy <= 1 && r.efficiency <= r.busy);
    }
}

Test(sim_kvs_live, goes_on_from_a_checkpoint_to_the_same_end)
{
    int stops = 0;
    PROPERTY (rng, 40) {
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
    cr_expect(stops > (int)property_times(10), "%d stops", stops);
}

Test(sim_kvs_live, is_the_same_run_everywhere)
{
    static const double weights[] = { 5, 1, 0.5, 3, 8 };
    htc_sim_kvs_options o = { .size = sizeof o, .seed = 7, .model = HTC_SIM_KVS_LIVE, .clients = 200, .servers = 5, .depth = 3, .programs = 20, .cores = 4, .sync_ns = 300 * US,
                              .keys = 5, .weights = weights, .requests = 100 };
    cr_expect(eq(u64, run_of(&o).scale.hash, UINT64_C(0xed6fdc3a2d9d7d9a)), "0x%llx", (unsigned long long)run_of(&o).scale.hash);
}
