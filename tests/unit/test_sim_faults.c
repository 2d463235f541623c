/* The swarm: what seeds draw, that it takes place, that it ends, and that a system comes through it. */
#include "alloc_fail.h"
#include "htcsched/sim_faults.h"
#include "sim_probe.h"

#define NODES 5

/* Each node sends to every node above it; each has a disk, of which one may be damaged. */
typedef struct ring {
    htc_sim         *sim;
    probe           *p;
    htc_sim_disk    *disk[NODES];
    htc_sim_trouble *trouble;
    uint64_t         until; /* all have got so many */
} ring;

static void ring_open(ring *r, uint64_t seed, const htc_sim_faults *faults)
{
    htc_sim_target targets[NODES] = { 0 };
    char           name[8];
    *r = (ring){ .sim = probe_sim(seed, NULL), .p = calloc(NODES, sizeof(probe)) };
    for (int i = 0; i < NODES; i++) {
        snprintf(name, sizeof name, "n%d", i);
        r->p[i].beat = 20 * HTC_MS;
        r->p[i].peer = 1;
        probe_add(r->sim, name, &r->p[i]);
        htc_sim_disk_create(r->sim, &(htc_sim_disk_options){ .size = sizeof(htc_sim_disk_options), .name = name },
                            &r->disk[i]);
        targets[i] = (htc_sim_target){ .node = r->p[i].node, .disk = r->disk[i], .damage = i == 0, .safe = i == 4 };
    }
    for (int i = 0; i < NODES; i++)
        htc_sim_dial(r->p[i].node, 1, r->p[(i + 1) % NODES].node, NULL);
    cr_assert(htc_sim_trouble_start(r->sim, faults, targets, NODES, &r->trouble) == HTC_OK);
}

static void ring_close(ring *r)
{
    htc_sim_destroy(r->sim);
    htc_sim_trouble_destroy(r->trouble);
    for (int i = 0; i < NODES; i++) {
        htc_sim_disk_destroy(r->disk[i]);
        htc_buf_free(&r->p[i].stream);
    }
    free(r->p);
}

/* Redials when it was down: probes dial only once, in ring_open, so that a node that crashed has to be dialled for anew. */
static int all_have_more(void *ctx)
{
    ring *r = ctx;
    for (int i = 0; i < NODES; i++)
        if (r->p[i].n_got < r->until)
            return 0;
    return 1;
}

Test(sim_faults, draws_each_kind_in_half_of_the_runs)
{
    size_t loss = 0, crash = 0, clog = 0, flip = 0, power = 0, small = 0, drift = 0, cut = 0;
    for (uint64_t seed = 1; seed <= 1000; seed++) {
        htc_rng        rng = { seed }, again = { seed };
        htc_sim_faults f, g;
        cr_assert(htc_sim_faults_draw(&rng, &f) == HTC_OK && htc_sim_faults_draw(&again, &g) == HTC_OK);
        cr_assert(f.net.loss_ppm == g.net.loss_ppm && f.disk.slow_ns == g.disk.slow_ns && rng.state == again.state);
        cr_assert(f.net.loss_ppm <= 300001 && f.net.duplicate_ppm <= 500001 && f.net.break_ppm <= 1001 &&
                  f.disk.flip_ppm <= 10001 && f.disk.unsynced_ppm >= 800000 && f.disk.unsynced_ppm <= 1000000 &&
                  f.crash_gap_ns <= 20 * HTC_SECOND && f.crash_span_ns <= 6 * HTC_SECOND && f.drift_ppm <= 1000);
        loss += f.net.loss_ppm > 0;
        small += f.net.loss_ppm > 0 && f.net.loss_ppm < 10000;
        crash += f.crash_gap_ns > 0;
        clog += f.clog_gap_ns > 0;
        flip += f.disk.flip_ppm > 0;
        power += f.power_ppm > 0;
        drift += f.drift_ppm > 0;
        cut += f.net.cut_ppm > 0;
    }
    /* 500 each, six standard deviations are 95 */
    const size_t n[] = { loss, crash, clog, flip, power, drift, cut };
    for (size_t i = 0; i < sizeof n / sizeof n[0]; i++)
        cr_expect(n[i] > 405 && n[i] < 595, "kind %zu in %zu of 1000 runs", i, n[i]);
    cr_expect(small > 50, "%zu small rates of loss", small);
}

/* One more or one less kind shifts nothing behind it: the stream goes on by the same amount. */
Test(sim_faults, drawing_advances_the_stream_by_the_same)
{
    uint64_t first = 0;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        htc_rng        rng = { seed };
        htc_sim_faults f;
        htc_sim_faults_draw(&rng, &f);
        cr_assert(first == 0 || rng.state - seed == first);
        first = rng.state - seed;
    }
}

static htc_sim_faults everything(void)
{
    return (htc_sim_faults){ .size = sizeof(htc_sim_faults),
                             .net = { .size = sizeof(htc_sim_net), .loss_ppm = 10000 },
                             .clog_gap_ns = HTC_SECOND,
                             .clog_span_ns = HTC_SECOND,
                             .partition_gap_ns = HTC_SECOND,
                             .partition_span_ns = HTC_SECOND,
                             .one_way_ppm = 500000,
                             .break_gap_ns = HTC_SECOND,
                             .crash_gap_ns = HTC_SECOND,
                             .crash_span_ns = HTC_SECOND,
                             .power_ppm = 500000,
                             .wipe_ppm = 500000,
                             .pause_gap_ns = HTC_SECOND,
                             .pause_span_ns = HTC_SECOND,
                             .jump_gap_ns = HTC_SECOND,
                             .jump_span_ns = 100 * HTC_SECOND,
                             .drift_ppm = 1000,
                             .full_gap_ns = HTC_SECOND,
                             .full_span_ns = HTC_SECOND };
}

/* The longest spans there are: they do not come round to the shortest. */
Test(sim_faults, a_span_may_be_as_long_as_time)
{
    ring           r;
    htc_sim_faults f = { .size = sizeof f,
                         .net = { .size = sizeof f.net },
                         .clog_gap_ns = HTC_NEVER,
                         .clog_span_ns = HTC_NEVER,
                         .pause_gap_ns = HTC_SECOND,
                         .pause_span_ns = HTC_NEVER };
    size_t         paused = 0;
    ring_open(&r, 7, &f);
    htc_sim_run(r.sim, 100 * HTC_SECOND);
    for (int i = 0; i < NODES; i++)
        paused += htc_sim_paused(r.p[i].node) != 0;
    cr_expect(eq(sz, paused, NODES - 1), "all but the safe one");
    ring_close(&r);
    f.jump_span_ns = (htc_ns)INT64_MAX + 1;
    htc_sim_trouble *t = NULL;
    htc_sim         *sim = probe_sim(1, NULL);
    probe            p = { 0 };
    probe_add(sim, "p", &p);
    htc_sim_target target = { .node = p.node };
    cr_expect(eq(int, htc_sim_trouble_start(sim, &f, &target, 1, &t), HTC_EINVAL), "by no number that a jump can be");
    htc_sim_destroy(sim);
}

Test(sim_faults, every_kind_takes_place_and_none_that_is_off)
{
    htc_sim_faults all = everything();
    uint64_t       counts[9];
    for (int off = -1; off < 9; off++) {
        htc_sim_faults f = all;
        htc_ns        *gaps[9] = { &f.clog_gap_ns, &f.partition_gap_ns, &f.break_gap_ns, &f.crash_gap_ns, NULL,
                                   NULL,           &f.pause_gap_ns,     &f.jump_gap_ns,  &f.full_gap_ns };
        if (off == 4)
            f.power_ppm = 0;
        else if (off == 5)
            f.wipe_ppm = 0;
        else if (off >= 0)
            *gaps[off] = 0;
        ring r;
        ring_open(&r, 5, &f);
        cr_assert(htc_sim_run(r.sim, 60 * HTC_SECOND) == HTC_OK, "%s", htc_sim_failure(r.sim));
        htc_sim_trouble_counts(r.trouble, counts);
        for (int i = 0; i < 9; i++)
            if (i == off || (off == 3 && (i == 4 || i == 5)))
                cr_expect(counts[i] == 0, "kind %d is off and took place %d times", i, (int)counts[i]);
            else
                cr_expect(counts[i] > 0, "kind %d never took place", i);
        cr_expect(r.p[4].boots == 1 && !r.p[4].backwards, "the safe one was never killed");
        ring_close(&r);
    }
}

Test(sim_faults, never_more_are_down_than_may_be)
{
    PROPERTY(rng, 20)
    {
        htc_sim_faults f = everything();
        ring           r;
        f.crash_gap_ns = 50 * HTC_MS;
        f.down_max = 2;
        ring_open(&r, rng.state, &f);
        for (int i = 0; i < 500; i++) {
            size_t down = 0;
            htc_sim_run(r.sim, 20 * HTC_MS);
            for (int n = 0; n < NODES; n++)
                down += !htc_sim_up(r.p[n].node);
            HOLDS(down <= 2);
        }
        ring_close(&r);
    }
}

/* After healing nothing is left of it: everybody is up, every link passes, and there is progress within a bound. */
Test(sim_faults, heals)
{
    PROPERTY(rng, 300)
    {
        htc_sim_faults f;
        ring           r;
        htc_rng        draw = htc_rng_fork(&rng, "faults");
        uint64_t       before[9], after[9];
        htc_sim_faults_draw(&draw, &f);
        ring_open(&r, rng.state, &f);
        HOLDS(htc_sim_run(r.sim, 10 * HTC_SECOND) == HTC_OK);
        HOLDS(htc_sim_trouble_heal(r.trouble) == HTC_OK);
        htc_sim_trouble_counts(r.trouble, before);
        for (int i = 0; i < NODES; i++) {
            HOLDS(htc_sim_up(r.p[i].node) && !htc_sim_paused(r.p[i].node));
            for (int j = 0; j < NODES; j++)
                HOLDS(htc_sim_passes(r.p[i].node, r.p[j].node));
            htc_sim_break(r.p[i].node, r.p[(i + 1) % NODES].node);
            htc_sim_dial(r.p[i].node, 2, r.p[(i + 1) % NODES].node, NULL);
            r.p[i].peer = 2;
            r.p[i].n_got = 0;
        }
        r.until = 20;
        HOLDS(htc_sim_settle(r.sim, 2 * HTC_SECOND, "twenty messages", all_have_more, &r) == HTC_OK);
        HOLDS(htc_sim_run(r.sim, 10 * HTC_SECOND) == HTC_OK);
        htc_sim_trouble_counts(r.trouble, after);
        HOLDS(memcmp(before, after, sizeof before) == 0);
        ring_close(&r);
    }
}

Test(sim_faults, same_seed_same_trouble)
{
    PROPERTY(rng, 100)
    {
        uint64_t hash[2];
        for (int i = 0; i < 2; i++) {
            htc_sim_faults f;
            ring           r;
            htc_rng        draw = htc_rng_fork(&rng, "faults");
            htc_sim_faults_draw(&draw, &f);
            ring_open(&r, rng.state, &f);
            htc_sim_run(r.sim, 5 * HTC_SECOND);
            hash[i] = htc_sim_hash(r.sim);
            ring_close(&r);
        }
        HOLDS(hash[0] == hash[1]);
    }
}
