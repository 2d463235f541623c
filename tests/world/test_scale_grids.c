/* The scale model of several grids beside its exact twin, where the hierarchy and the grids speak by messages: the same jobs in both. Throughput and the mean response agree
 * within a bound, nothing is lost, the same seed is the same run, and planted mistakes are noticed. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/fault.h"
#include "htcsched/sim_grids.h"

#define S HTC_SECOND

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

/* ---- the pools and jobs of examples/sim/grid-live.ini ---- */

static const uint32_t             pool[3] = { 0, 1, 2 };
static const htc_hierarchy_grid   live_hierarchy_grids[3] = { { .cpus = 1 }, { .cpus = 4, .latency_ns = S }, { .cpus = 8, .latency_ns = 5 * S } };
static const htc_hierarchy_queue  live_hierarchy_queues[3] = {
    { .level = 1, .next = 1, .grids = &pool[0], .grid_count = 1, .te_ns = 3 * S, .tq_ns = 6 * S, .cpus = 1, .kflops = 1000 },
    { .level = 2, .next = 2, .grids = &pool[1], .grid_count = 1, .te_ns = 30 * S, .tq_ns = 60 * S, .cpus = 4, .kflops = 1000 },
    { .level = 3, .next = HTC_HIERARCHY_NOWHERE, .grids = &pool[2], .grid_count = 1, .te_ns = 300 * S, .tq_ns = 300 * S, .cpus = 8, .kflops = 1000 },
};
static const htc_hierarchy_options live_hierarchy = { .size = sizeof live_hierarchy, .grids = live_hierarchy_grids, .grid_count = 3, .queues = live_hierarchy_queues, .queue_count = 3 };
static const htc_sim_grids_grid    live_grids[3] = {
    { .size = sizeof *live_grids, .kflops = 1000 },
    { .size = sizeof *live_grids, .kflops = 1000, .latency = { HTC_SCALE_CONSTANT, 0, 1e9, 0 }, .evict_part = 0.01 },
    { .size = sizeof *live_grids, .kflops = 1000, .latency = { HTC_SCALE_CONSTANT, 0, 5e9, 0 }, .evict_part = 0.07 },
};
static const htc_sim_grids_queue live_queues[3] = {
    { .size = sizeof *live_queues, .flags = HTC_SIM_GRIDS_WHOLE_BUDGET },
    { .size = sizeof *live_queues, .target_ns = 6 * S, .flags = HTC_SIM_GRIDS_WHOLE_BUDGET },
    { .size = sizeof *live_queues, .target_ns = 8 * S, .flags = HTC_SIM_GRIDS_WHOLE_BUDGET },
};
static const htc_sim_grids_class live_classes[3] = { { .size = sizeof *live_classes }, { .size = sizeof *live_classes }, { .size = sizeof *live_classes } };
static htc_sim_grids_job         live_jobs[25];

static void name_jobs(void)
{
    static const struct {
        htc_ns   at, every;
        uint32_t count;
        double   kflop, rho;
    } kinds[3] = { { 2 * S, 7 * S, 15, 1500, 1.2 }, { 6 * S, 8 * S, 7, 60000, 4 }, { S, 25 * S, 3, 200000, 3 } };
    uint32_t next[3] = { 0 };
    for (int j = 0; j < 25; j++) {
        int first = -1;
        for (int k = 0; k < 3; k++)
            if (next[k] < kinds[k].count && (first < 0 || kinds[k].at + next[k] * kinds[k].every < kinds[first].at + next[first] * kinds[first].every))
                first = k;
        live_jobs[j] = (htc_sim_grids_job){ .size = sizeof *live_jobs, .arrival = kinds[first].at + next[first]++ * kinds[first].every, .kflop = kinds[first].kflop, .rho = kinds[first].rho,
                                            .kind = (uint32_t)first };
    }
}

static const htc_sim_grids_options live = { .size = sizeof live, .hierarchy = &live_hierarchy, .grids = live_grids, .queues = live_queues, .classes = live_classes, .n_classes = 3,
                                            .jobs = live_jobs, .n_jobs = 25, .move_ns = 200 * HTC_MS, .rest_ns = 60 * S, .shelter_ns = 10 * S };

/* ---- runs ---- */

typedef struct trial {
    const char *name;
    uint32_t    experiment; /* htc_sim_grids_experiment, or LIVE */
    uint32_t    system;
    uint64_t    jobs;      /* of the stream */
    htc_ns      latency, jitter;
    double      within;
    int         preempts; /* 1: waiting in the grids is compared too. Elsewhere it is one latency a job, and its mean that of few numbers */
} trial;

#define LIVE 100

typedef struct course {
    htc_sim_grids_report report;
    htc_sim_grids_result queue[4], kind[4];
} course;

static htc_status run(const trial *t, uint64_t seed, int exactly, course *c, htc_error *e)
{
    htc_sim_grids_exact_options costs = { .size = sizeof costs, .seed = seed, .latency_ns = t->latency, .jitter_ns = t->jitter };
    htc_sim_grids_profile      *p = NULL;
    htc_sim_grids_options       o = live;
    if (t->experiment != LIVE) {
        if (htc_sim_grids_superlink(NULL, t->experiment, &p) != HTC_OK)
            return HTC_ENOMEM;
        o = *htc_sim_grids_profile_options(p);
        o.stream.jobs = t->jobs;
    }
    o.system = t->system;
    o.seed = seed;
    *c = (course){ .report = { .size = sizeof c->report } };
    *e = (htc_error){ 0 };
    htc_status status = exactly ? htc_sim_grids_exact(NULL, &o, &costs, &c->report, c->queue, c->kind, e) : htc_sim_grids_run(NULL, &o, &c->report, c->queue, c->kind, e);
    htc_sim_grids_profile_destroy(p);
    return status;
}

/* Sums over seeds. */
typedef struct figures {
    double jobs, response, grid_queued, makespan, work, lost, moves;
} figures;

static void add(figures *f, const course *c)
{
    for (int k = 0; k < 4; k++) {
        f->response += c->kind[k].response_s * (double)c->kind[k].completed;
        f->grid_queued += c->kind[k].grid_queued_s * (double)c->kind[k].completed;
    }
    f->jobs += (double)c->report.completed;
    f->makespan += (double)c->report.scale.makespan / 1e9;
    f->work += c->report.work_s;
    f->lost += c->report.evicted_s + c->report.moved_s;
    f->moves += (double)c->report.moves;
}

static double apart(double a, double b)
{
    return b > 0 ? a / b - 1 : a > 0;
}

static void holds(const trial *t, uint64_t seed, int exactly, course *c)
{
    htc_error  e;
    htc_status status = run(t, seed, exactly, c, &e);
    expect(status == HTC_OK && !c->report.scale.wrong[0], "%s, %s, seed %llu: %s %s %s", t->name, exactly ? "exact" : "scale", (unsigned long long)seed, htc_strerror(status), e.text,
           c->report.scale.wrong);
    expect(!exactly || (c->report.scale.sent == c->report.scale.received && c->report.scale.sent >= 2 * c->report.tasks), "%s: messages", t->name);
}

static void beside(const trial *t, uint64_t seeds)
{
    figures f[2] = { { .jobs = 0 } };
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        course c[2];
        for (int exactly = 0; exactly < 2; exactly++) {
            holds(t, seed, exactly, &c[exactly]);
            add(&f[exactly], &c[exactly]);
        }
        expect(c[1].report.scale.submitted == c[0].report.scale.submitted, "%s, seed %llu: other jobs", t->name, (unsigned long long)seed);
    }
    double throughput = apart(f[1].jobs / f[1].makespan, f[0].jobs / f[0].makespan), response = apart(f[1].response / f[1].jobs, f[0].response / f[0].jobs);
    double grid_queued = apart(f[1].grid_queued / f[1].jobs, f[0].grid_queued / f[0].jobs);
    printf("  %-28s %.0f jobs exact, %.0f scale; throughput %+.2f %%; response %.1f s and %.1f (%+.2f %%), %.2f and %.2f of it in the grid's queue; work %+.2f %%, lost %+.2f %%, moves %.0f and "
           "%.0f\n",
           t->name, f[1].jobs, f[0].jobs, 100 * throughput, f[1].response / f[1].jobs, f[0].response / f[0].jobs, 100 * response, f[1].grid_queued / f[1].jobs, f[0].grid_queued / f[0].jobs,
           100 * apart(f[1].work, f[0].work), 100 * apart(f[1].lost, f[0].lost), f[1].moves, f[0].moves);
    expect(fabs(throughput) <= t->within, "throughput");
    expect(fabs(response) <= t->within, "response");
    expect(!t->preempts || fabs(grid_queued) <= t->within, "in the grid's queue");
}

static void the_same_seed_is_the_same_run(void)
{
    trial     t = { .name = "one seed", .experiment = LIVE, .jitter = 200 * HTC_MS };
    course    one, two, other;
    htc_error e;
    expect(run(&t, 3, 1, &one, &e) == HTC_OK && run(&t, 3, 1, &two, &e) == HTC_OK && one.report.scale.hash == two.report.scale.hash, "two runs of one seed differ");
    expect(run(&t, 4, 1, &other, &e) == HTC_OK && one.report.scale.hash != other.report.scale.hash, "two seeds are one run");
}

/* A hierarchy that hears late decides otherwise, and no result is lost. */
static void late_messages_cost_time(void)
{
    trial  t = { .name = "messages of 2 s", .experiment = LIVE, .latency = 2 * S, .jitter = S };
    course soon, late;
    double responses[2] = { 0 };
    for (uint64_t seed = 1; seed <= 5; seed++) {
        holds(&(trial){ .name = "messages of 1 ms", .experiment = LIVE }, seed, 1, &soon);
        holds(&t, seed, 1, &late);
        responses[0] += soon.kind[0].response_s / 5;
        responses[1] += late.kind[0].response_s / 5;
    }
    printf("  small jobs take %.1f s with messages of 1 ms, and %.1f with messages of 2 to 3 s\n", responses[0], responses[1]);
    expect(responses[1] > responses[0] + 4, "messages take no time");
}

/* ---- with a rule left out ---- */

static void a_mistake_is_noticed(htc__broken broken, const trial *t)
{
    course    c;
    htc_error e;
    int       noticed = 0;
    for (uint64_t seed = 1; seed <= 15 && !noticed; seed++) {
        htc_status sound = run(t, seed, 1, &c, &e);
        expect(sound == HTC_OK && !c.report.scale.wrong[0], "%s: the sound run: %s %s", t->name, e.text, c.report.scale.wrong);
        htc__broken_set(broken, 1);
        htc_status status = run(t, seed, 1, &c, &e);
        htc__broken_set(broken, 0);
        noticed = status != HTC_OK || c.report.scale.wrong[0];
        if (noticed)
            printf("  %s: seed %llu: %s%s\n", t->name, (unsigned long long)seed, e.text, c.report.scale.wrong);
    }
    expect(noticed, "%s was not noticed", t->name);
}

int main(void)
{
    trial trials[] = {
        { .name = "FCFS, three pools", .experiment = LIVE, .system = HTC_SIM_GRIDS_FCFS, .within = 0.05 },
        { .name = "MQ+H, three pools", .experiment = LIVE, .within = 0.05 },
        { .name = "MQ+H, three pools, jitter", .experiment = LIVE, .jitter = 5 * HTC_MS, .within = 0.05 },
        { .name = "table 1, MQ+H", .experiment = HTC_SIM_GRIDS_TABLE_1, .within = 0.05 },
        { .name = "table 1, FCFS", .experiment = HTC_SIM_GRIDS_TABLE_1, .system = HTC_SIM_GRIDS_FCFS, .within = 0.05 },
        { .name = "stream, MQ+H", .experiment = HTC_SIM_GRIDS_STREAM, .jobs = 300, .within = 0.05, .preempts = 1 },
        { .name = "stream, MQ", .experiment = HTC_SIM_GRIDS_STREAM, .system = HTC_SIM_GRIDS_MQ, .jobs = 300, .within = 0.05 },
        { .name = "stream, FCFS+H", .experiment = HTC_SIM_GRIDS_STREAM, .system = HTC_SIM_GRIDS_FCFSH, .jobs = 300, .within = 0.05 },
        { .name = "stream, FCFS", .experiment = HTC_SIM_GRIDS_STREAM, .system = HTC_SIM_GRIDS_FCFS, .jobs = 300, .within = 0.05 },
    };
    int light = getenv("HTC_TEST_LIGHT") != NULL, full = getenv("HTC_TEST_FULL") != NULL;
    name_jobs();
    printf("the model beside a hierarchy and grids that speak by messages:\n");
    for (size_t i = 0; i < sizeof trials / sizeof *trials; i++) {
        trials[i].jobs /= light ? 3 : 1;
        beside(&trials[i], full ? 25 : light ? 3 : 10);
    }
    the_same_seed_is_the_same_run();
    late_messages_cost_time();
    a_mistake_is_noticed(HTC__BROKEN_recall_ignored, &(trial){ .name = "recall_ignored", .experiment = LIVE });
    a_mistake_is_noticed(HTC__BROKEN_recall_unanswered, &(trial){ .name = "recall_unanswered", .experiment = LIVE });
    a_mistake_is_noticed(HTC__BROKEN_late_result_taken, &(trial){ .name = "late_result_taken", .experiment = LIVE, .latency = S, .jitter = S });
    return failed != 0;
}
