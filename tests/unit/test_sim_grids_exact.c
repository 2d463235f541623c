/* Several grids message by message: what small runs come to by hand, what is refused, and that nothing is lost, whatever is drawn and when memory is refused.
 * tests/world/test_scale_grids.c has it beside the scale model. */
#include <math.h>
#include <string.h>

#include "alloc_fail.h"
#include "property.h"
#include "htcsched/sim_grids.h"

#define S   HTC_SECOND
#define HOP HTC_MS /* a message */

/* Two levels, a grid each. */
typedef struct one_run {
    uint32_t                    used[2];
    htc_hierarchy_grid          hierarchy_grid[2];
    htc_hierarchy_queue         hierarchy_queue[2];
    htc_hierarchy_options       hierarchy;
    htc_sim_grids_grid          grid[2];
    htc_sim_grids_queue         queue[2];
    htc_sim_grids_class         kind[1];
    htc_sim_grids_job           job[40];
    htc_sim_grids_options       o;
    htc_sim_grids_exact_options exact;
    htc_sim_grids_report        r;
    htc_sim_grids_result        by_queue[2];
    htc_sim_grids_end           end[40];
    size_t                      ends;
    htc_error                   e;
} one_run;

static void note(void *ctx, const htc_sim_grids_end *end)
{
    one_run *x = ctx;
    x->end[x->ends++] = *end;
}

/* One CPU above, two below, a KFlop a second each; jobs are known, and are one task. */
static void two_levels(one_run *x)
{
    *x = (one_run){ .used = { 0, 1 }, .exact.size = sizeof x->exact };
    for (uint32_t q = 0; q < 2; q++) {
        x->hierarchy_grid[q] = (htc_hierarchy_grid){ .cpus = q + 1 };
        x->hierarchy_queue[q] = (htc_hierarchy_queue){ .level = q + 1, .next = q ? HTC_HIERARCHY_NOWHERE : 1, .grids = &x->used[q], .grid_count = 1, .te_ns = (q ? 1000 : 10) * S,
                                                       .tq_ns = (q ? 1000 : 20) * S, .cpus = q + 1, .kflops = 1 };
        x->grid[q] = (htc_sim_grids_grid){ .size = sizeof *x->grid, .kflops = 1 };
        x->queue[q] = (htc_sim_grids_queue){ .size = sizeof *x->queue };
    }
    x->kind[0] = (htc_sim_grids_class){ .size = sizeof *x->kind };
    x->hierarchy = (htc_hierarchy_options){ .size = sizeof x->hierarchy, .grids = x->hierarchy_grid, .grid_count = 2, .queues = x->hierarchy_queue, .queue_count = 2 };
    x->o = (htc_sim_grids_options){ .size = sizeof x->o, .hierarchy = &x->hierarchy, .grids = x->grid, .queues = x->queue, .classes = x->kind, .n_classes = 1, .jobs = x->job, .end = note,
                                    .ctx = x };
}

static void job_at(one_run *x, htc_ns at, double kflop)
{
    x->job[x->o.n_jobs++] = (htc_sim_grids_job){ .size = sizeof *x->job, .arrival = at, .kflop = kflop };
}

static htc_status run(one_run *x)
{
    x->r = (htc_sim_grids_report){ .size = sizeof x->r };
    x->e = (htc_error){ 0 };
    x->ends = 0;
    return htc_sim_grids_exact(NULL, &x->o, &x->exact, &x->r, x->by_queue, NULL, &x->e);
}

static void runs(one_run *x)
{
    cr_assert(eq(int, run(x), HTC_OK), "%s", x->e.text);
    cr_expect(eq(str, x->r.scale.wrong, ""));
    cr_expect(eq(u64, x->r.scale.sent, x->r.scale.received));
    for (size_t i = 0; i < x->ends; i++) {
        const htc_sim_grids_end *e = &x->end[i];
        cr_expect(eq(u64, e->estimating + e->queued + e->grid_queued + e->running + e->moving + e->flow, e->ended - e->arrival), "job %llu", (unsigned long long)e->job);
    }
}

/* What would be after the end of all time is not taken for something before it. */
Test(sim_grids_exact, times_do_not_wrap)
{
    one_run x;
    two_levels(&x);
    x.grid[0].outage_gap_ns = 1;
    x.grid[0].outage_ns = HTC_NEVER;
    x.hierarchy_queue[0].policies = HTC_HIERARCHY_NO_POLICY;
    job_at(&x, 10 * S, 5);
    cr_expect(eq(int, run(&x), HTC_ETOOBIG) && strstr(x.e.text, "an outage of grid 0"), "%s", x.e.text);
    two_levels(&x);
    x.o.system = HTC_SIM_GRIDS_FCFS; /* no queue has limits */
    for (uint32_t i = 0; i < 20; i++)
        job_at(&x, 0, 4e9);
    cr_expect(eq(int, run(&x), HTC_ETOOBIG) && strstr(x.e.text, "a task of grid"), "%s %s", x.e.text, x.r.scale.wrong);
}

/* A task of 5 s that the grid takes 2 s to start: its start and its end are known a message later. */
Test(sim_grids_exact, a_task_is_known_to_have_ended_when_the_message_comes)
{
    one_run x;
    two_levels(&x);
    x.grid[0].latency = (htc_scale_law){ HTC_SCALE_CONSTANT, 0, 2e9, 0 };
    x.o.flow_ns = S;
    job_at(&x, 3 * S, 5);
    runs(&x);
    cr_expect(eq(u64, x.end[0].ended, 3 * S + HOP + 2 * S + 5 * S + HOP + S));
    cr_expect(eq(u64, x.end[0].grid_queued, HOP + 2 * S + HOP));
    cr_expect(eq(u64, x.end[0].running, 5 * S));
    cr_expect(eq(u64, x.end[0].flow, S));
    cr_expect(fabs(x.r.work_s - 5) < 1e-12 && fabs(x.r.held_s - 7) < 1e-12);
    cr_expect(eq(u64, x.r.scale.sent, 2 + 3)); /* what each grid has; and the task's */
}

/* The second one is handed in when the end of the first is known: the CPU idles for two messages. */
Test(sim_grids_exact, a_cpu_is_given_again_when_it_is_known_to_be_free)
{
    one_run x;
    two_levels(&x);
    job_at(&x, 0, 4);
    job_at(&x, 0, 4);
    runs(&x);
    cr_expect(eq(u64, x.end[0].ended, HOP + 4 * S + HOP));
    cr_expect(eq(u64, x.end[1].ended, 2 * (HOP + 4 * S + HOP)));
    cr_expect(eq(u64, x.end[1].queued, HOP + 4 * S + HOP));
}

/* Each task is evicted once, at a moment that only the grid knows. */
Test(sim_grids_exact, an_eviction_is_known_when_its_message_comes)
{
    one_run x;
    two_levels(&x);
    x.grid[0].evict_part = 1;
    x.o.flow_ns = 0;
    job_at(&x, 0, 5);
    runs(&x);
    cr_expect(eq(u64, x.r.tasks, 2));
    cr_expect(eq(u64, x.r.evicted, 1));
    cr_expect(x.r.evicted_s > 0 && x.r.evicted_s <= 5);
    cr_expect(fabs((double)x.end[0].ended / 1e9 - (x.r.evicted_s + 5 + 0.004)) < 1e-9);
}

/* More than the first level's C_e: it is moved before it starts. A known one of 15 s is too much for 10 s on one CPU. */
Test(sim_grids_exact, a_job_sinks)
{
    one_run x;
    two_levels(&x);
    x.o.move_ns = S;
    job_at(&x, 0, 15);
    runs(&x);
    cr_expect(eq(u64, x.end[0].moves, 1));
    cr_expect(eq(u64, x.end[0].queue, 1));
    cr_expect(eq(u64, x.end[0].ended, S + HOP + 15 * S + HOP));
}

/* With time limits alone it runs above until it is overdue. It is recalled, the recall takes a message, and what it ran until then is lost. */
Test(sim_grids_exact, a_task_runs_until_its_recall_comes)
{
    one_run x;
    two_levels(&x);
    x.hierarchy.mode = HTC_HIERARCHY_SIMPLE;
    x.hierarchy.sole = HTC_HIERARCHY_SOLE_NONE;
    job_at(&x, 0, 100);
    runs(&x);
    cr_expect(eq(u64, x.r.moves, 1));
    double overdue = (double)x.end[0].ended / 1e9 - 100 - 0.002; /* when it left */
    cr_expect(overdue > 10 && overdue <= 11.001, "%.9f s", overdue);
    cr_expect(fabs(x.r.moved_s - overdue) < 1e-9); /* handed in and recalled, a message later each */
    cr_expect(fabs(x.end[0].moved_s - overdue) < 1e-9);
}

/* Messages of 2 s: the task has ended when its recall comes, and its result is too late. */
Test(sim_grids_exact, a_result_that_comes_too_late_is_lost_by_the_move)
{
    one_run x;
    two_levels(&x);
    x.hierarchy.mode = HTC_HIERARCHY_SIMPLE;
    x.hierarchy.sole = HTC_HIERARCHY_SOLE_NONE;
    x.exact.latency_ns = 2 * S;
    job_at(&x, 0, 8); /* ends at 10 s, which is known at 12 s; t_e is over at 11 s at the latest */
    runs(&x);
    cr_expect(eq(u64, x.r.moves, 1));
    cr_expect(eq(u64, x.r.completed, 1));
    cr_expect(fabs(x.r.moved_s - 8) < 1e-12 && fabs(x.r.work_s - 8) < 1e-12);
}

/* The lower job's task is preempted while the grid still starts it, and waits in the grid until its next try begins: in the model too. */
Test(sim_grids_exact, what_is_preempted_before_it_runs_has_not_begun)
{
    one_run x;
    two_levels(&x);
    x.used[1] = 0;
    x.hierarchy_queue[0].te_ns = x.hierarchy_queue[0].tq_ns = 30 * S;
    x.hierarchy_queue[1].cpus = 1;
    x.queue[0].flags = HTC_SIM_GRIDS_PREEMPTS;
    x.grid[0].latency = (htc_scale_law){ HTC_SCALE_CONSTANT, 0, 10e9, 0 };
    job_at(&x, 0, 100); /* more than the upper queue takes */
    job_at(&x, 5 * S, 5);
    runs(&x);
    cr_expect(eq(u64, x.end[1].evicted, 1));
    cr_expect(eq(u64, x.end[0].ended, 5 * S + HOP + 10 * S + 5 * S + HOP));
    cr_expect(eq(u64, x.end[1].grid_queued, x.end[0].ended + HOP + 10 * S + HOP));
    cr_expect(eq(u64, x.end[1].running, 100 * S));
    x.ends = 0;
    cr_assert(eq(int, htc_sim_grids_run(NULL, &x.o, &x.r, NULL, NULL, &x.e), HTC_OK), "%s", x.e.text);
    cr_expect(eq(u64, x.end[1].grid_queued, 30 * S));
    cr_expect(eq(u64, x.end[1].running, 100 * S));
}

/* Of what others leave, the hierarchy knows what it has been told; what it hands in beyond that waits with the grid. */
Test(sim_grids_exact, a_task_waits_with_the_grid_for_a_cpu_that_is_ours)
{
    one_run x;
    two_levels(&x);
    x.hierarchy_grid[0].cpus = 4;
    x.hierarchy_queue[0].cpus = 4;
    x.grid[0].free_mean = 2;
    x.grid[0].free_cv = 1;
    x.grid[0].free_ns = 20 * S;
    x.exact.latency_ns = 3 * S;
    for (int i = 0; i < 40; i++)
        job_at(&x, (htc_ns)i * S, 4);
    for (uint64_t seed = 1; seed <= 5; seed++) {
        x.o.seed = seed;
        runs(&x);
        cr_expect(eq(u64, x.r.completed + x.r.rejected + x.r.terminated, 40));
    }
}

static void expect_refused(one_run *x, htc_status status, const char *text)
{
    cr_expect(eq(int, run(x), status));
    cr_expect(strstr(x->e.text, text) != NULL, "\"%s\" is not in \"%s\"", text, x->e.text);
}

static htc_status never(void *ctx, void *data, uint64_t bytes)
{
    (void)ctx;
    (void)data;
    (void)bytes;
    return HTC_EIO;
}

Test(sim_grids_exact, what_it_does_not_have_is_refused_by_name)
{
    one_run              x;
    const htc_scale_tape tape = { .size = sizeof tape, .move = never };
    two_levels(&x);
    job_at(&x, 0, 4);
    cr_expect(eq(int, htc_sim_grids_exact(NULL, &x.o, NULL, NULL, NULL, NULL, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_sim_grids_exact(NULL, NULL, NULL, &x.r, NULL, NULL, NULL), HTC_EINVAL));
    x.o.checkpoint = &tape;
    expect_refused(&x, HTC_EUNSUPPORTED, "checkpoint");
    x.o.checkpoint = NULL;
    x.o.resume = &tape;
    expect_refused(&x, HTC_EUNSUPPORTED, "resume");
    x.o.resume = NULL;
    x.exact.jitter_ns = 3601 * S;
    expect_refused(&x, HTC_EINVAL, "more than an hour");
    x.exact.jitter_ns = 0;
    x.grid[1].kflops = 0;
    expect_refused(&x, HTC_EINVAL, "grid 1");
    x.grid[1].kflops = 1;
    x.hierarchy_queue[0].next = HTC_HIERARCHY_NOWHERE;
    expect_refused(&x, HTC_EINVAL, "no hierarchy");
    x.hierarchy_queue[0].next = 1;
    job_at(&x, 0, 4);
    x.o.active_max = 1;
    expect_refused(&x, HTC_EFULL, "active_max");
}

Test(sim_grids_exact, the_host_bounds_its_memory_and_stops_it)
{
    one_run        x;
    htc_scale_host host = { .size = sizeof host, .memory_max = 1 << 14 };
    two_levels(&x);
    job_at(&x, 0, 4);
    x.o.host = &host;
    expect_refused(&x, HTC_ETOOBIG, "");
    host = (htc_scale_host){ .size = sizeof host, .stop_after = 5 };
    cr_assert(eq(int, run(&x), HTC_OK));
    cr_expect(eq(u64, x.r.interrupted, 1));
    cr_expect(eq(u64, x.r.completed, 0));
    cr_expect(eq(str, x.r.scale.wrong, ""));
}

/* ---- drawn runs: everything at once, in small numbers ---- */

static void draw(htc_rng *rng, one_run *x)
{
    two_levels(x);
    x->o.seed = htc_rng_next(rng);
    x->o.system = (uint32_t)htc_rng_below(rng, 4);
    x->o.move_ns = htc_rng_below(rng, 3) * 700 * HTC_MS;
    x->o.rest_ns = htc_rng_below(rng, 2) * 5 * S;
    x->o.shelter_ns = htc_rng_below(rng, 2) * 9 * S;
    x->o.task_attempts = (uint32_t)htc_rng_below(rng, 4);
    x->exact.latency_ns = 1 + htc_rng_below(rng, 3) * htc_rng_below(rng, 900) * HTC_MS;
    x->exact.jitter_ns = htc_rng_below(rng, 2) * htc_rng_below(rng, 900) * HTC_MS;
    x->hierarchy.mode = (uint32_t)htc_rng_below(rng, 2);
    x->hierarchy.migrate = (uint32_t)htc_rng_below(rng, 2);
    x->hierarchy.share_gain_ns = S;
    x->hierarchy.share_period_ns = 3 * S;
    if (htc_rng_below(rng, 3) == 0) { /* side by side: load is shared */
        x->hierarchy_queue[0].next = HTC_HIERARCHY_NOWHERE;
        x->hierarchy_queue[1].level = 1;
    }
    if (htc_rng_below(rng, 3) == 0) /* the lower queue on the upper one's grid: it is preempted */
        x->used[1] = 0;
    for (uint32_t q = 0; q < 2; q++) {
        x->hierarchy_grid[q].cpus = 1 + (uint32_t)htc_rng_below(rng, 6);
        x->hierarchy_queue[q].cpus = 1 + (uint32_t)htc_rng_below(rng, 6);
        x->hierarchy_queue[q].flags = htc_rng_below(rng, 4) ? 0 : HTC_HIERARCHY_PREDICT;
        x->queue[q].target_ns = htc_rng_below(rng, 3) * S;
        x->queue[q].flags = (uint32_t)htc_rng_below(rng, 4);
        x->grid[q].latency = (htc_scale_law){ HTC_SCALE_EXPONENTIAL, 0, (double)htc_rng_below(rng, 2) * 1e9, 0 };
        x->grid[q].evict_per_h = (double)htc_rng_below(rng, 2) * 600;
        x->grid[q].evict_part = (double)htc_rng_below(rng, 2) * 0.3;
        x->grid[q].free_mean = htc_rng_below(rng, 2) ? 1 : 0;
        x->grid[q].free_cv = 1;
        x->grid[q].free_ns = 20 * S;
        x->grid[q].outage_gap_ns = htc_rng_below(rng, 2) * 30 * S;
        x->grid[q].outage_ns = 4 * S;
    }
    htc_ns at = 0;
    for (uint64_t n = 1 + htc_rng_below(rng, 39); n--;) {
        at += htc_rng_below(rng, 3) * htc_rng_below(rng, 4000) * HTC_MS;
        job_at(x, at, 1 + (double)htc_rng_below(rng, 30));
        x->job[x->o.n_jobs - 1].rho = htc_rng_below(rng, 2) ? 1 + (double)htc_rng_below(rng, 5) : 0;
        x->job[x->o.n_jobs - 1].tasks = htc_rng_below(rng, 4) ? 0 : 1 + (uint32_t)htc_rng_below(rng, 9);
    }
}

Test(sim_grids_exact, nothing_is_lost_whatever_happens)
{
    uint64_t moved = 0, evicted = 0, failed = 0;
    PROPERTY (rng, 2000) {
        static one_run x;
        draw(&rng, &x);
        htc_status status = run(&x);
        HOLDS(status == HTC_OK && !x.r.scale.wrong[0]);
        HOLDS(x.ends == x.o.n_jobs && x.r.scale.sent == x.r.scale.received);
        uint64_t hash = x.r.scale.hash;
        HOLDS(run(&x) == HTC_OK && x.r.scale.hash == hash);
        moved += x.r.moved_s > 0;
        evicted += x.r.evicted;
        failed += x.r.failed;
    }
    if (!getenv("HTC_TEST_SEED"))
        cr_expect(moved > 20 && evicted > 100 && failed > 10);
}

Test(sim_grids_exact, refused_memory_is_told_and_nothing_is_kept)
{
    static one_run x;
    htc_rng        rng = { 5 };
    draw(&rng, &x);
    x.o.end = NULL;
    for (size_t n = 1;; n++) {
        alloc_fail f = alloc_fail_at(n);
        htc_env    env = alloc_fail_env(&f);
        x.r = (htc_sim_grids_report){ .size = sizeof x.r };
        htc_status status = htc_sim_grids_exact(&env, &x.o, &x.exact, &x.r, x.by_queue, NULL, &x.e);
        cr_expect(eq(sz, f.live, 0) && eq(sz, f.wrong_sizes, 0), "allocation %zu", n);
        if (!f.refused) {
            cr_expect(eq(int, status, HTC_OK));
            break;
        }
        cr_expect(eq(int, status, HTC_ENOMEM), "allocation %zu: %s", n, htc_strerror(status));
    }
}
