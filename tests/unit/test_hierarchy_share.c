/* Queues of one level share load without flapping; and the hierarchy follows what it measures. */
#include "expect.h"
#include <math.h>

#include "hierarchy_fixture.h"
#include "property.h"

#define DAY (86400 * HTC_SECOND)

static htc_hierarchy_decision arrive_with(htc_hierarchy *h, uint32_t queue, htc_hierarchy_job job, htc_ns now)
{
    htc_hierarchy_decision d = { 0 };
    job.size = sizeof job;
    cr_assert(eq(int, htc_hierarchy_arrive(h, queue, &job, now, &d), HTC_OK));
    return d;
}

static size_t share(htc_hierarchy *h, uint32_t queue, htc_ns now, const htc_hierarchy_decision **d)
{
    size_t n = 0;
    cr_assert(eq(int, htc_hierarchy_share(h, queue, now, d, &n), HTC_OK));
    return n;
}

static htc_hierarchy_job_info look_at(const htc_hierarchy *h, uint64_t id, htc_ns now)
{
    htc_hierarchy_job_info info = { 0 };
    cr_assert(eq(int, htc_hierarchy_get_job(h, id, now, &info), HTC_OK));
    return info;
}

static double expected(const htc_hierarchy *h, uint64_t id, uint32_t queue)
{
    double seconds = -1;
    cr_assert(eq(int, htc_hierarchy_expected(h, id, queue, 0, &seconds), HTC_OK));
    return seconds;
}

/* The formula of 3.6, by hand. */
Test(hierarchy_share, expected_completion_is_latency_and_work_over_cpus)
{
    pair p;
    pair_init(&p);
    htc_hierarchy *h = pair_open(&p);
    arrive(h, 0, 1, 1000, 0);
    arrive(h, 0, 2, 500, 0);
    arrive_with(h, 0, (htc_hierarchy_job){ .id = 3, .kflop = 100, .tasks = 4 }, 0);
    cr_expect(eq(dbl, expected(h, 1, 0), 20 + 1000 / 10.0), "before a sample: all its CPUs");
    htc_hierarchy_sample(h, 0, 5, 0, 0);
    cr_expect(eq(dbl, expected(h, 1, 0), 20 + 1000 / 5.0), "the first sample as it is");
    cr_expect(eq(dbl, expected(h, 2, 0), 20 + 1500 / 5.0), "behind the first");
    cr_expect(eq(dbl, expected(h, 2, 1), 20 + 500 / 10.0), "nothing is before it there");
    cr_expect(eq(dbl, expected(h, 3, 0), 20 + 1600 / 4.0), "no more CPUs than tasks");
    htc_hierarchy_sample(h, 0, 15, 0, 0);
    cr_expect(fabs(expected(h, 1, 0) - (20 + 1000 / 8.0)) < 1e-9, "0.3 * 15 + 0.7 * 5");
    htc_hierarchy_task t = { .size = sizeof t, .id = 1, .kflop = 100 };
    cr_assert(eq(int, htc_hierarchy_task_started(h, &t, 0), HTC_OK));
    cr_expect(fabs(expected(h, 1, 0) - (20 + 1000 / 9.0)) < 1e-9, "one of them is ours");
    for (int i = 0; i < 100; i++)
        htc_hierarchy_sample(h, 0, HTC_HIERARCHY_UNREACHABLE, 0, 0);
    cr_expect(fabs(expected(h, 2, 0) - (20 + 1500.0)) < 1e-9, "never fewer than one");
    htc_hierarchy_destroy(h);
}

/* The paper saw small jobs stay in Q2 and large ones move to Q3; that must come out of the estimate. */
Test(hierarchy_share, small_jobs_stay_and_large_ones_move)
{
    pair p;
    pair_init(&p);
    p.grids[1] = (htc_hierarchy_grid){ .cpus = 500, .latency_ns = 180 * HTC_SECOND };
    p.queues[0].cpus = 100;
    p.queues[1].cpus = 500;
    static const struct {
        double   kflop;
        uint32_t moves;
    } table[] = { { 100, 0 }, { 1000, 0 }, { 10000, 0 }, { 100000, 1 }, { 1000000, 1 } };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        htc_hierarchy                *h = pair_open(&p);
        const htc_hierarchy_decision *d;
        htc_hierarchy_sample(h, 0, 55, 0, 0);
        htc_hierarchy_sample(h, 1, 141, 0, 0);
        arrive(h, 0, 1, table[i].kflop, 0);
        cr_expect(eq(sz, share(h, 0, 0, &d), table[i].moves), "%g KFlop", table[i].kflop);
        htc_hierarchy_destroy(h);
    }
}

/* Each condition by itself: the move that pays is not made if one of them fails. At home the job is behind 3000 KFlop on 10 CPUs. */
Test(hierarchy_share, a_push_has_to_pay)
{
    static const struct {
        const char       *what;
        htc_hierarchy_job job;
        uint32_t          there;   /* free CPUs */
        double            cost_s;
        uint32_t          sharing;
        size_t            moves;
    } table[] = {
        { "it pays", { .kflop = 1000 }, 10, 0, HTC_HIERARCHY_PUSH, 1 },
        { "with a grain of cost", { .kflop = 1000 }, 10, 100, HTC_HIERARCHY_PUSH, 1 },
        { "but not at 230 s of cost", { .kflop = 1000 }, 10, 230, HTC_HIERARCHY_PUSH, 0 },
        { "too slow there: 1000 / 3 is not 20 % better than 400", { .kflop = 1000 }, 3, 0, HTC_HIERARCHY_PUSH, 0 },
        { "3 pending tasks", { .kflop = 1000, .tasks = 3 }, 10, 0, HTC_HIERARCHY_PUSH, 0 },
        { "4 pending tasks", { .kflop = 1000, .tasks = 4 }, 10, 0, HTC_HIERARCHY_PUSH, 1 },
        { "it has moved twice", { .kflop = 1000, .moves = 2 }, 10, 0, HTC_HIERARCHY_PUSH, 0 },
        { "it has moved once", { .kflop = 1000, .moves = 1 }, 10, 0, HTC_HIERARCHY_PUSH, 1 },
        { "a gigabyte travels with it", { .kflop = 1000, .bytes = 1000000000 }, 10, 0, HTC_HIERARCHY_PUSH, 0 },
        { "a megabyte does", { .kflop = 1000, .bytes = 1000000 }, 10, 0, HTC_HIERARCHY_PUSH, 1 },
        { "flocking does it", { .kflop = 1000 }, 10, 0, HTC_HIERARCHY_FLOCK, 0 },
        { "a meta-scheduler does it", { .kflop = 1000 }, 10, 0, HTC_HIERARCHY_EXTERNAL, 0 },
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        pair p;
        pair_init(&p);
        p.options.sharing = table[i].sharing;
        p.options.share_cost_ns = (htc_ns)(table[i].cost_s * 1e9);
        p.grids[1].bytes_per_s = 1000000;
        htc_hierarchy                *h = pair_open(&p);
        htc_hierarchy_job             job = table[i].job;
        const htc_hierarchy_decision *d;
        htc_hierarchy_sample(h, 1, table[i].there, 0, 0);
        arrive_with(h, 0, (htc_hierarchy_job){ .id = 1, .kflop = 3000, .moves = 9 }, 0);
        job.id = 2;
        arrive_with(h, 0, job, 0);
        cr_expect(eq(sz, share(h, 0, 0, &d), table[i].moves), "%s", table[i].what);
        htc_hierarchy_destroy(h);
    }
}

/* What is too complex for the other queue does not go there, however fast it is; and 30 s have to be gained. */
Test(hierarchy_share, a_push_needs_room_and_half_a_minute)
{
    pair p;
    pair_init(&p);
    p.queues[1].te_ns = 99 * HTC_SECOND; /* C_e = 990 */
    htc_hierarchy                *h = pair_open(&p);
    const htc_hierarchy_decision *d;
    htc_hierarchy_sample(h, 0, 1, 0, 0);
    arrive(h, 0, 1, 991, 0);
    cr_expect(eq(sz, share(h, 0, 0, &d), 0));
    cr_assert(eq(int, htc_hierarchy_remove(h, 1, 0), HTC_OK));
    arrive(h, 0, 2, 33, 0);
    cr_expect(eq(sz, share(h, 0, 0, &d), 0), "33 s against 3.3 s, and 20 s for both: 29.7 s");
    cr_assert(eq(int, htc_hierarchy_remove(h, 2, 0), HTC_OK));
    arrive(h, 0, 3, 34, 0);
    cr_expect(eq(sz, share(h, 0, 0, &d), 1));
    htc_hierarchy_destroy(h);
}

/* Or all of a queue would run to where there was room for one. Ten equal jobs, equal grids: half of them go. */
Test(hierarchy_share, each_push_counts_as_load_at_once)
{
    pair p;
    pair_init(&p);
    htc_hierarchy                *h = pair_open(&p);
    const htc_hierarchy_decision *d;
    for (uint64_t id = 0; id < 10; id++)
        arrive(h, 0, id, 1000, 0);
    size_t n = share(h, 0, 0, &d);
    cr_expect(n >= 3 && n <= 5, "%zu go", n);
    cr_expect(eq(sz, share(h, 0, 0, &d), 0), "and not again while they are on their way");
    htc_hierarchy_destroy(h);
}

/* A sum of doubles less one of its terms may be a little less than the others: 700.1 + 100.3 - 700.1 < 100.3. */
Test(hierarchy_share, pushes_are_taken_back_in_any_order)
{
    static const double kflop[] = { 700.1, 100.3, 250.7 };
    for (uint64_t first = 1; first <= 3; first++) {
        pair p;
        pair_init(&p);
        htc_hierarchy                *h = pair_open(&p);
        const htc_hierarchy_decision *d;
        double                        before;
        htc_hierarchy_sample(h, 0, 0, 0, 0);
        arrive_with(h, 0, (htc_hierarchy_job){ .id = 9, .kflop = 3000, .moves = 9 }, 0);
        before = expected(h, 9, 1);
        for (uint64_t id = 1; id <= 3; id++)
            arrive(h, 0, id, kflop[id - 1], 0);
        cr_assert(eq(sz, share(h, 0, 0, &d), 3));
        for (uint64_t k = 0; k < 3; k++)
            cr_assert(eq(int, htc_hierarchy_stay(h, (first - 1 + k) % 3 + 1, 0), HTC_OK));
        cr_expect(eq(dbl, expected(h, 9, 1), before), "nothing is on its way there any longer");
        htc_hierarchy_destroy(h);
    }
}

/* A move loses what the running tasks have done: elsewhere all of the job is to do. 1000 s of work of which 900 are done used to be pushed
 * as if 100 were left, into a queue that then found it too complex and sent it down. */
Test(hierarchy_share, a_push_counts_what_it_loses)
{
    pair p;
    pair_init(&p);
    p.queues[1].te_ns = 99 * HTC_SECOND; /* C_e = 990 */
    htc_hierarchy                *h = pair_open(&p);
    const htc_hierarchy_decision *d;
    double                        seconds;
    htc_hierarchy_sample(h, 0, 0, 0, 0);
    arrive_with(h, 0, (htc_hierarchy_job){ .id = 1, .kflop = 3000, .moves = 9 }, 0);
    arrive(h, 0, 2, 1000, 0);
    htc_hierarchy_task t = { .size = sizeof t, .id = 2, .kflop = 1000 };
    cr_assert(eq(int, htc_hierarchy_task_started(h, &t, 0), HTC_OK));
    cr_expect(eq(int, htc_hierarchy_expected(h, 2, 1, 900 * HTC_SECOND, &seconds), HTC_OK));
    cr_expect(eq(dbl, seconds, 20 + 1000 / 10.0));
    cr_expect(eq(int, htc_hierarchy_expected(h, 2, 0, 900 * HTC_SECOND, &seconds), HTC_OK));
    cr_expect(eq(dbl, seconds, 20 + 3100));
    cr_expect(eq(sz, share(h, 0, 900 * HTC_SECOND, &d), 0), "there it would be 1000, and C_e is 990");
    htc_hierarchy_destroy(h);
}

/* A job on its way somewhere is not before itself there. */
Test(hierarchy_share, a_push_is_not_before_itself)
{
    pair p;
    pair_init(&p);
    htc_hierarchy                *h = pair_open(&p);
    const htc_hierarchy_decision *d;
    htc_hierarchy_sample(h, 0, 1, 0, 0);
    arrive(h, 0, 1, 1000, 0);
    cr_expect(eq(dbl, expected(h, 1, 1), 20 + 1000 / 10.0));
    cr_assert(eq(sz, share(h, 0, 0, &d), 1));
    cr_expect(eq(dbl, expected(h, 1, 1), 20 + 1000 / 10.0));
    htc_hierarchy_destroy(h);
}

/* 3.6: on arrival both sides are looked at afresh. Not better any longer: back once, in its old place, and held for five minutes; the next time
 * it is kept. */
Test(hierarchy_share, a_push_is_looked_at_again_on_arrival)
{
    pair p;
    pair_init(&p);
    htc_hierarchy                *h = pair_open(&p);
    const htc_hierarchy_decision *d;
    uint64_t                      ids[3];
    size_t                        cursor = 0;
    htc_hierarchy_sample(h, 0, 1, 0, 0);
    for (uint64_t id = 1; id <= 3; id++)
        arrive_with(h, 0, (htc_hierarchy_job){ .id = id, .kflop = 1000, .moves = id == 2 ? 0 : 9 }, 0);
    cr_assert(eq(sz, share(h, 0, 60 * HTC_SECOND, &d), 1));
    cr_expect(eq(u64, d->id, 2));
    cr_expect(eq(u32, d->to, 1));
    arrive(h, 1, 9, 50000, 61 * HTC_SECOND);
    htc_hierarchy_decision back = moved(h, 2, 70 * HTC_SECOND);
    cr_expect(eq(u32, back.action, HTC_HIERARCHY_STAY));
    cr_expect(eq(u32, back.reason, HTC_HIERARCHY_SHARE));
    cr_expect(eq(u32, back.from, 0));
    cr_expect(eq(sz, htc_hierarchy_jobs(h, 0, &cursor, ids, 3), 3));
    cr_expect(eq(u64, ids[1], 2), "in its old place");
    htc_hierarchy_job_info info = look_at(h, 2, 70 * HTC_SECOND);
    cr_expect(eq(u64, info.tq_ns, 70 * HTC_SECOND), "with its times");
    cr_expect(eq(u64, info.hold_ns, 300 * HTC_SECOND));
    cr_expect(eq(u32, info.moves, 0));
    cr_assert(eq(int, htc_hierarchy_remove(h, 9, 71 * HTC_SECOND), HTC_OK));
    size_t n;
    cr_assert(eq(int, htc_hierarchy_enforce(h, 1, 71 * HTC_SECOND, &d, &n), HTC_OK));
    cr_expect(eq(sz, share(h, 0, 369 * HTC_SECOND, &d), 0), "held");
    cr_assert(eq(sz, share(h, 0, 370 * HTC_SECOND, &d), 1));
    arrive(h, 1, 10, 50000, 370 * HTC_SECOND);
    cr_expect(eq(u32, moved(h, 2, 371 * HTC_SECOND).action, HTC_HIERARCHY_QUEUE), "the second time it is kept");
    info = look_at(h, 2, 371 * HTC_SECOND);
    cr_expect(eq(u32, info.queue, 1));
    cr_expect(eq(u64, info.tq_ns, 0));
    cr_expect(eq(u32, info.moves, 1));
    htc_hierarchy_queue_info q;
    cr_assert(eq(int, htc_hierarchy_get_queue(h, 1, &q), HTC_OK));
    cr_expect(eq(u64, q.shared_in, 1));
    htc_hierarchy_destroy(h);
}

/* Moves begin to count anew one level down. */
Test(hierarchy_share, moves_count_by_level)
{
    pair p;
    pair_init(&p);
    htc_hierarchy         *h = pair_open(&p);
    htc_hierarchy_decision d;
    arrive_with(h, 0, (htc_hierarchy_job){ .id = 1, .kflop = 1000, .moves = 2, .returned = 1 }, 0);
    cr_assert(eq(int, htc_hierarchy_send(h, 1, 2, 0, &d), HTC_OK));
    moved(h, 1, 0);
    cr_expect(eq(u32, look_at(h, 1, 0).moves, 0));
    cr_expect(eq(u32, look_at(h, 1, 0).returned, 0));
    htc_hierarchy_destroy(h);
}

/* Done means 9: a square wave of two samples, in the worst phase on both grids, any number of jobs, any moment: nobody moves twice. The
 * averages have settled when the jobs come; nobody runs, so nothing but the wave changes. */
Test(hierarchy_share, a_square_wave_moves_nobody_twice)
{
    PROPERTY (rng, 300) {
        pair p;
        pair_init(&p);
        htc_hierarchy *h = NULL;
        HOLDS(htc_hierarchy_create(NULL, &p.options, &h) == HTC_OK);
        uint32_t jobs = (uint32_t)htc_rng_below(&rng, 12) + 1, both = (uint32_t)htc_rng_below(&rng, 2);
        uint32_t begin = 20 + (uint32_t)htc_rng_below(&rng, 3), delay = (uint32_t)htc_rng_below(&rng, 3);
        for (uint32_t k = 0; k < 400; k++) {
            htc_ns now = k * 60 * HTC_SECOND;
            htc_hierarchy_sample(h, 0, k % 2 ? 10 : 0, 0, now);
            htc_hierarchy_sample(h, 1, both ? (k % 2 ? 0 : 10) : 5, 0, now);
            for (uint64_t id = 0; k == begin && id < jobs; id++)
                arrive(h, 0, id, (double)htc_rng_below(&rng, 5000) + 1, now);
            for (uint32_t q = 0; k >= begin && q < 2; q++) {
                const htc_hierarchy_decision *d;
                uint64_t                      ids[16];
                size_t                        n = share(h, q, now, &d);
                for (size_t i = 0; i < n; i++)
                    ids[i] = d[i].id;
                for (size_t i = 0; i < n; i++)
                    moved(h, ids[i], now + delay * HTC_SECOND);
            }
        }
        for (uint64_t id = 0; id < jobs; id++)
            HOLDS(look_at(h, id, 0).moves <= 1);
        htc_hierarchy_destroy(h);
    }
}

/* Two processes with a queue each: the pushing one sees the other's load, the other one decides at its door. */
Test(hierarchy_share, a_queue_may_belong_to_another_process)
{
    pair p;
    pair_init(&p);
    p.queues[1].flags = HTC_HIERARCHY_REMOTE;
    htc_hierarchy *home = pair_open(&p);
    p.queues[1].flags = 0;
    p.queues[0].flags = HTC_HIERARCHY_REMOTE;
    htc_hierarchy                *there = pair_open(&p);
    const htc_hierarchy_decision *d;
    htc_hierarchy_decision        out = { 0 };
    htc_hierarchy_job             job = { .size = sizeof job, .id = 2, .kflop = 1000 };
    size_t                        n;
    arrive_with(home, 0, (htc_hierarchy_job){ .id = 1, .kflop = 5000, .moves = 9 }, 0);
    arrive(home, 0, 2, 1000, 0);
    cr_assert(eq(int, htc_hierarchy_peer(home, 1, 9000), HTC_OK));
    cr_expect(eq(sz, share(home, 0, 0, &d), 0));
    cr_assert(eq(int, htc_hierarchy_peer(home, 1, 0), HTC_OK));
    cr_assert(eq(sz, share(home, 0, 0, &d), 1));
    cr_expect(eq(u32, d->to, 1));
    cr_expect(eq(int, htc_hierarchy_moved(home, 2, 0, &out), HTC_EINVAL), "it is not ours to accept");

    arrive(there, 1, 7, 90000, 0);
    cr_assert(eq(int, htc_hierarchy_offer(there, 1, &job, 0, 5000, 0, &out), HTC_OK));
    cr_expect(eq(u32, out.action, HTC_HIERARCHY_STAY), "it has work of its own by now");
    cr_expect(eq(int, htc_hierarchy_remove(there, 2, 0), HTC_ENOTFOUND));
    cr_assert(eq(int, htc_hierarchy_stay(home, 2, 0), HTC_OK));
    cr_expect(eq(u32, look_at(home, 2, 0).returned, 1));
    cr_expect(eq(u64, look_at(home, 2, 0).hold_ns, 300 * HTC_SECOND));

    job.returned = 1;
    cr_assert(eq(int, htc_hierarchy_offer(there, 1, &job, 0, 5000, 0, &out), HTC_OK));
    cr_expect(eq(u32, out.action, HTC_HIERARCHY_QUEUE), "sent back once only");
    cr_expect(eq(u32, look_at(there, 2, 0).moves, 1));
    cr_assert(eq(int, htc_hierarchy_remove(home, 2, 0), HTC_OK));
    job.id = 3;
    job.moves = UINT32_MAX;
    cr_assert(eq(int, htc_hierarchy_offer(there, 1, &job, 0, 5000, 0, &out), HTC_OK));
    cr_expect(eq(u32, look_at(there, 3, 0).moves, UINT32_MAX), "a peer's count does not begin anew");
    cr_expect(eq(int, htc_hierarchy_enforce(home, 1, 0, &d, &n), HTC_EINVAL), "a remote queue is not ours to scan");
    htc_hierarchy_destroy(home);
    htc_hierarchy_destroy(there);
}

/* ---- following what is measured ---- */

/* So many tasks of a job start on a grid after waiting so long, and are done in a second. */
static void runs_on(htc_hierarchy *h, uint64_t id, uint32_t grid, uint32_t tasks, htc_ns waited, double kflop, htc_ns now)
{
    for (uint32_t i = 0; i < tasks; i++) {
        htc_hierarchy_task t = { .size = sizeof t, .id = id, .task = i, .grid = grid, .kflop = kflop, .waited_ns = waited };
        cr_assert(eq(int, htc_hierarchy_task_started(h, &t, now), HTC_OK));
        cr_assert(eq(int, htc_hierarchy_task_done(h, id, i, now + HTC_SECOND), HTC_OK));
    }
}

Test(hierarchy_adapt, what_is_as_configured_stays)
{
    superlink                     s = superlink_2005();
    htc_hierarchy_proposal        plan[4];
    const htc_hierarchy_proposal *d;
    size_t                        n;
    htc_hierarchy *h = superlink_open(&s);
    cr_assert(eq(int, htc_hierarchy_plan(h, plan, 4), HTC_OK));
    for (uint32_t q = 0; q < 4; q++) {
        cr_expect(eq(dbl, plan[q].change, 0), "queue %u changes by %g", q, plan[q].change);
        cr_expect(eq(u32, plan[q].level, s.queues[q].level));
        cr_expect(eq(u32, plan[q].next, s.queues[q].next));
        cr_expect(eq(u64, plan[q].te_ns, s.queues[q].te_ns));
        cr_expect(eq(u64, plan[q].tq_ns, s.queues[q].tq_ns));
        cr_expect(eq(u32, plan[q].cpus, s.queues[q].cpus));
    }
    for (int day = 0; day < 5; day++) {
        cr_assert(eq(int, htc_hierarchy_adapt(h, day * DAY, &d, &n), HTC_OK));
        cr_expect(eq(sz, n, 0));
    }
    htc_hierarchy_destroy(h);
}

/* The general rule of 3.1, where nothing else is said: ten times the latency one level down, rounded: 200 s are 3 min. */
Test(hierarchy_adapt, limits_are_ten_times_the_latency_below)
{
    superlink              s = superlink_2005();
    htc_hierarchy_proposal plan[4];
    for (int q = 0; q < 3; q++)
        s.queues[q].te_factor = 10;
    htc_hierarchy *h = superlink_open(&s);
    cr_assert(eq(int, htc_hierarchy_plan(h, plan, 4), HTC_OK));
    cr_expect(eq(u64, plan[0].te_ns, 3 * MIN));
    cr_expect(eq(u64, plan[0].tq_ns, 6 * MIN));
    cr_expect(eq(u64, plan[1].te_ns, 30 * MIN));
    cr_expect(eq(u64, plan[1].tq_ns, 60 * MIN), "T_q / T_e as it was");
    cr_expect(eq(u64, plan[3].te_ns, 2880 * MIN), "nothing is below");
    htc_hierarchy_destroy(h);
}

/* Done means 22: a grid whose latency grows fivefold gets new limits within two days, and no job is lost. */
Test(hierarchy_adapt, a_fivefold_latency_is_in_force_after_a_day)
{
    superlink                     s = superlink_2005();
    const htc_hierarchy_proposal *d;
    htc_hierarchy_queue_info      info;
    size_t                        n;
    s.options.adapt = 1;
    htc_hierarchy *h = superlink_open(&s);
    arrive(h, 1, 1, 1e11, 0);
    arrive(h, 0, 2, 1e8, 0);
    runs_on(h, 1, 1, 200, 100 * HTC_SECOND, 0, 0);
    cr_assert(eq(int, htc_hierarchy_adapt(h, HTC_SECOND, &d, &n), HTC_OK));
    cr_expect(eq(sz, n, 0), "not yet for a day");
    cr_assert(eq(int, htc_hierarchy_adapt(h, DAY, &d, &n), HTC_OK));
    cr_expect(eq(sz, n, 0));
    cr_assert(eq(int, htc_hierarchy_adapt(h, DAY + HTC_SECOND, &d, &n), HTC_OK));
    cr_assert(eq(sz, n, 4));
    cr_expect(fabs(d[0].change - 4) < 0.1, "five times as long: %g", d[0].change);
    cr_expect(eq(u32, d[1].level, 2), "100 s is still before 180 s");
    cr_assert(eq(int, htc_hierarchy_get_queue(h, 0, &info), HTC_OK));
    cr_expect(eq(u64, info.te_ns, 15 * MIN));
    cr_expect(eq(dbl, info.ce_kflop, htc_hierarchy_phi(info.te_ns, 2, 817477, 1)));
    cr_expect(eq(u64, info.enforce_at, DAY + HTC_SECOND), "the jobs there are looked at by the new limits");
    cr_expect(eq(u32, look_at(h, 1, 0).queue, 1));
    cr_expect(eq(u32, look_at(h, 2, 0).queue, 0));
    cr_assert(eq(int, htc_hierarchy_adapt(h, 3 * DAY, &d, &n), HTC_OK));
    cr_expect(eq(sz, n, 0), "now it is as it should be");
    htc_hierarchy_destroy(h);
}

/* The same for its size, and for the speed of its CPUs; a change that goes away within the day leaves no trace. */
Test(hierarchy_adapt, size_and_speed_are_followed_if_they_last)
{
    superlink                     s = superlink_2005();
    const htc_hierarchy_proposal *d;
    htc_hierarchy_grid_info       grid;
    size_t                        n;
    htc_hierarchy *h = superlink_open(&s);
    for (int i = 0; i < 50; i++)
        htc_hierarchy_sample(h, 1, 50, 500, 0);
    cr_assert(eq(int, htc_hierarchy_adapt(h, 0, &d, &n), HTC_OK));
    for (int i = 0; i < 50; i++)
        htc_hierarchy_sample(h, 1, 50, 100, DAY / 2);
    cr_assert(eq(int, htc_hierarchy_adapt(h, DAY / 2, &d, &n), HTC_OK));
    for (int i = 0; i < 50; i++)
        htc_hierarchy_sample(h, 1, 50, 500, DAY / 2);
    cr_assert(eq(int, htc_hierarchy_adapt(h, DAY, &d, &n), HTC_OK));
    cr_expect(eq(sz, n, 0), "it began anew");
    arrive(h, 1, 1, 1e11, DAY);
    runs_on(h, 1, 1, 200, 0, 2 * 775251, DAY);
    cr_assert(eq(int, htc_hierarchy_get_grid(h, 1, &grid), HTC_OK));
    cr_expect(fabs(grid.kflops / (2 * 775251) - 1) < 1e-9);
    cr_assert(eq(int, htc_hierarchy_adapt(h, 2 * DAY, &d, &n), HTC_OK));
    cr_assert(eq(sz, n, 4));
    cr_expect(eq(u32, d[1].cpus, 500));
    cr_expect(fabs(d[1].kflops / (2 * 775251) - 1) < 1e-9);
    cr_expect(eq(u32, d[2].cpus, 500), "no more than the front end may run");
    htc_hierarchy_queue_info info;
    cr_assert(eq(int, htc_hierarchy_get_queue(h, 1, &info), HTC_OK));
    cr_expect(eq(u32, info.cpus, 100), "proposed, not applied");
    htc_hierarchy_destroy(h);
}

/* Whatever times and sizes are told, what is measured is a speed that could have been configured. */
Test(hierarchy_adapt, no_measured_speed_is_beyond_the_largest)
{
    static const double beta[] = { 1, 1e-300 };
    for (size_t i = 0; i < sizeof beta / sizeof *beta; i++) {
        superlink                     s = superlink_2005();
        const htc_hierarchy_proposal *d;
        htc_hierarchy_queue_info      info;
        htc_hierarchy_task            t = { .size = sizeof t, .id = 1, .grid = 1, .kflop = HTC_HIERARCHY_KFLOP_MAX };
        size_t                        n;
        s.options.adapt = 1;
        s.queues[1].beta = beta[i];
        htc_hierarchy    *h = superlink_open(&s);
        htc_hierarchy_job job = { .size = sizeof job, .id = 1, .kflop = 1 };
        cr_assert(eq(int, htc_hierarchy_restore(h, 1, &job, 0), HTC_OK));
        for (t.task = 0; t.task < 3; t.task++) {
            cr_assert(eq(int, htc_hierarchy_task_started(h, &t, t.task), HTC_OK));
            cr_assert(eq(int, htc_hierarchy_task_done(h, 1, t.task, t.task + 1), HTC_OK));
        }
        cr_assert(eq(int, htc_hierarchy_adapt(h, DAY, &d, &n), HTC_OK));
        cr_assert(eq(int, htc_hierarchy_adapt(h, 2 * DAY, &d, &n), HTC_OK));
        cr_assert(eq(sz, n, 4));
        cr_assert(eq(int, htc_hierarchy_get_queue(h, 1, &info), HTC_OK));
        cr_expect(eq(dbl, info.kflops, 1e15), "row %zu", i);
        htc_hierarchy_destroy(h);
    }
}

/* N of a job grows with N where it was the same, keeps its own value where it was less, and never exceeds N. */
Test(hierarchy_adapt, n_of_a_job_follows_n)
{
    static const struct {
        uint32_t job_cpus, cpus; /* the grid has so many now; it had 100 */
        uint32_t after;
    } table[] = { { 0, 500, 500 }, { 40, 500, 40 }, { 0, 20, 20 }, { 40, 20, 20 } };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        superlink                     s = superlink_2005();
        const htc_hierarchy_proposal *d;
        htc_hierarchy_queue_info      info;
        size_t                        n;
        s.options.adapt = 1;
        s.queues[1].job_cpus = table[i].job_cpus;
        htc_hierarchy *h = superlink_open(&s);
        for (int k = 0; k < 100; k++)
            htc_hierarchy_sample(h, 1, 1, table[i].cpus, 0);
        cr_assert(eq(int, htc_hierarchy_adapt(h, 0, &d, &n), HTC_OK));
        cr_assert(eq(int, htc_hierarchy_adapt(h, DAY, &d, &n), HTC_OK));
        cr_assert(eq(sz, n, 4));
        cr_assert(eq(int, htc_hierarchy_get_queue(h, 1, &info), HTC_OK));
        cr_expect(eq(u32, info.cpus, table[i].cpus));
        cr_expect(eq(dbl, info.ce_kflop, htc_hierarchy_phi(info.te_ns, table[i].after, 775251, 1)), "row %zu", i);
        htc_hierarchy_destroy(h);
    }
}

/* Section 8: the order itself. Q2 becomes the slowest of all: it goes to the bottom, Q3 and Q4 come up; jobs stay where they are and sink by
 * the new order from there. */
Test(hierarchy_adapt, the_order_follows_the_latency)
{
    superlink                     s = superlink_2005();
    const htc_hierarchy_proposal *d;
    const htc_hierarchy_decision *told;
    size_t                        n;
    s.options.adapt = 1;
    htc_hierarchy *h = superlink_open(&s);
    arrive(h, 1, 1, 1e11, 0);
    arrive(h, 2, 2, 1e11, 0);
    runs_on(h, 1, 1, 200, 900 * HTC_SECOND, 0, 0);
    cr_assert(eq(int, htc_hierarchy_adapt(h, HTC_SECOND, &d, &n), HTC_OK));
    cr_assert(eq(int, htc_hierarchy_adapt(h, 2 * DAY, &d, &n), HTC_OK));
    cr_assert(eq(sz, n, 4));
    static const uint32_t levels[] = { 1, 3, 2, 2 }, next[] = { 2, HTC_HIERARCHY_NOWHERE, 1, 1 };
    for (uint32_t q = 0; q < 4; q++) {
        cr_expect(eq(u32, d[q].level, levels[q]), "queue %u", q);
        cr_expect(eq(u32, d[q].next, next[q]), "queue %u", q);
    }
    cr_expect(eq(u64, d[1].te_ns, 2880 * MIN), "the longest limit is at the bottom");
    cr_expect(eq(u32, look_at(h, 1, 0).queue, 1));
    cr_assert(eq(int, htc_hierarchy_enforce(h, 2, 9 * DAY, &told, &n), HTC_OK));
    cr_assert(eq(int, htc_hierarchy_enforce(h, 1, 9 * DAY, &told, &n), HTC_OK));
    cr_expect(eq(sz, n, 0), "the sole job of the lowest level overstays");
    htc_hierarchy_destroy(h);
}

/* A latency that nobody knows is not a latency of nothing: the large grid below, never measured, used to become the top. */
Test(hierarchy_adapt, what_is_not_known_changes_no_order)
{
    pair                   p;
    htc_hierarchy_proposal plan[3];
    for (uint32_t unknown = 0; unknown < 3; unknown++) {
        pair_init(&p);
        p.grids[unknown].latency_ns = 0;
        for (int q = 0; q < 3; q++)
            p.queues[q].te_factor = 5000;
        htc_hierarchy *h = pair_open(&p);
        cr_assert(eq(int, htc_hierarchy_plan(h, plan, 3), HTC_OK));
        for (int q = 0; q < 3; q++)
            cr_expect(eq(u32, plan[q].level, p.queues[q].level), "queue %d, grid %u is not known", q, unknown);
        cr_expect(eq(u64, plan[0].te_ns, unknown == 2 ? 100000 * HTC_SECOND : 16667 * MIN), "nor a limit");
        htc_hierarchy_destroy(h);
    }
    /* Beside one that is known it does not make a queue faster than that is. */
    static const uint32_t both[] = { 2, 1 };
    pair_init(&p);
    p.grids[1].latency_ns = 0;
    p.queues[2].grids = both;
    p.queues[2].grid_count = 2;
    p.queues[0].te_factor = 5000;
    htc_hierarchy *h = pair_open(&p);
    cr_assert(eq(int, htc_hierarchy_plan(h, plan, 3), HTC_OK));
    cr_expect(eq(u64, plan[0].te_ns, 16667 * MIN));
    htc_hierarchy_destroy(h);
}

/* Whole minutes do not lead beyond what a hierarchy may have. */
Test(hierarchy_adapt, a_limit_stays_within_the_largest)
{
    pair                   p;
    htc_hierarchy_proposal plan[3];
    pair_init(&p);
    p.queues[0].te_factor = 1e9;
    p.grids[0].latency_ns = p.grids[1].latency_ns = HTC_SECOND;
    p.grids[2].latency_ns = HTC_HIERARCHY_TIME_MAX / 1000000000;
    htc_hierarchy *h = pair_open(&p);
    cr_assert(eq(int, htc_hierarchy_plan(h, plan, 3), HTC_OK));
    cr_expect(eq(u64, plan[0].te_ns, HTC_HIERARCHY_TIME_MAX));
    cr_expect(eq(u64, plan[0].tq_ns, HTC_HIERARCHY_TIME_MAX));
    htc_hierarchy_destroy(h);
}

/* A job that is being estimated is one of its queue too: what begins with a change has to reach it. */
Test(hierarchy_adapt, who_is_estimated_meanwhile_is_looked_at)
{
    pair p;
    pair_init(&p);
    p.options.sharing = HTC_HIERARCHY_FLOCK;
    htc_hierarchy         *h = pair_open(&p);
    htc_hierarchy_decision d = arrive(h, 0, 1, 0, 0);
    cr_assert(eq(u32, d.action, HTC_HIERARCHY_ESTIMATE));
    cr_expect(eq(u64, look(h, 0).share_at, HTC_NEVER));
    p.options.sharing = HTC_HIERARCHY_PUSH;
    p.queues[0].period_ns = HTC_SECOND;
    cr_assert(eq(int, htc_hierarchy_reorder(h, &p.options, HTC_SECOND), HTC_OK));
    cr_expect(eq(u64, look(h, 0).share_at, 61 * HTC_SECOND));
    cr_expect(eq(u64, look(h, 0).enforce_at, HTC_SECOND));
    cr_expect(eq(u64, look(h, 1).share_at, HTC_NEVER), "nobody is there");
    cr_expect(eq(u64, look(h, 1).enforce_at, HTC_NEVER));
    htc_hierarchy_destroy(h);
}

/* By hand: a level more, while jobs are there. Those on their way to a place that is above them now stay. */
Test(hierarchy_adapt, a_hierarchy_is_changed_while_it_runs)
{
    pair p;
    pair_init(&p);
    htc_hierarchy         *h = pair_open(&p);
    htc_hierarchy_decision d;
    htc_hierarchy_queue    queues[4];
    memcpy(queues, p.queues, sizeof p.queues);
    for (uint64_t id = 1; id <= 100; id++)
        arrive(h, 2, id, 100, 0);
    arrive(h, 0, 101, 100, 0);
    cr_assert(eq(int, htc_hierarchy_send(h, 101, 2, 0, &d), HTC_OK));
    /* Queue 2 becomes the top, 0 and 1 the middle, a new one the bottom. */
    queues[2].level = 1;
    queues[2].next = 0;
    queues[0].level = queues[1].level = 2;
    queues[0].next = queues[1].next = 3;
    queues[3] = queues[2];
    queues[3].level = 3;
    queues[3].next = HTC_HIERARCHY_NOWHERE;
    p.options.queues = queues;
    p.options.queue_count = 4;
    p.options.jobs_max = 100;
    cr_expect(eq(int, htc_hierarchy_reorder(h, &p.options, 1), HTC_EINVAL), "there are 101 jobs");
    p.options.jobs_max = 0;
    queues[2].flags = HTC_HIERARCHY_REMOTE;
    cr_expect(eq(int, htc_hierarchy_reorder(h, &p.options, 1), HTC_EINVAL), "it has jobs here");
    queues[2].flags = 0;
    p.options.queue_count = 2;
    cr_expect(eq(int, htc_hierarchy_reorder(h, &p.options, 1), HTC_EINVAL), "fewer queues");
    p.options.queue_count = 4;
    cr_assert(eq(int, htc_hierarchy_reorder(h, &p.options, 1), HTC_OK));
    cr_expect(eq(u32, moved(h, 101, 2).action, HTC_HIERARCHY_STAY), "that would be upwards now");
    cr_expect(eq(u32, look_at(h, 101, 2).queue, 0));
    for (uint64_t id = 1; id <= 100; id++)
        cr_expect(eq(u32, look_at(h, id, 2).queue, 2));
    cr_assert(eq(int, htc_hierarchy_send(h, 1, 3, 2, &d), HTC_OK));
    cr_expect(eq(u32, moved(h, 1, 2).action, HTC_HIERARCHY_QUEUE));
    htc_hierarchy_destroy(h);
}
