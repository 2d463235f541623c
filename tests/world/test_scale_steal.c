/* The many-task model beside its exact twin, the real workers that steal through the real store (htcsched/sim_flow.h): bags of sleeps on 16 to 1,024 slots, all
 * submitted to one worker, with the same lengths in both. Throughput and efficiency agree within 5 %.
 *
 * What costs is the end of a bag whose lengths differ: all workers without tasks ask one another through the exact store, more than 15 s of processor time for a run
 * of 256. Such bags have 64 workers, 256 with HTC_TEST_FULL; bags of equal lengths have 256, and 1,024 (some 25 s and 2.5 GB for a run). */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "htcsched/sim_flow.h"
#include "htcsched/sim_manytask.h"
#include "sim/scale/draw.h"

#define WITHIN    0.05
#define TASKS_MAX 50000

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

typedef struct trial {
    uint32_t          workers, slots;
    uint64_t          tasks; /* of a slot */
    htc_scale_law     law;
    uint64_t          seed;
    htc_steal_options steal;
    uint32_t          layout; /* of both: ONE and EACH */
} trial;

/* The costs of the exact world. A task is staged in and out in its slot; that it has ended is committed later. What a victim gives it commits before it tells the
 * thief, who reads the note and commits that it is the thief's: two commits, and six messages from and to the store. */
#define LATENCY_NS (100 * HTC_US)
#define COMMIT_NS  HTC_MS
#define STAGE_NS   (50 * HTC_US)
#define GIVE_NS    (2 * COMMIT_NS + 6 * LATENCY_NS)
#define NUDGE_NS   (10 * HTC_MS)

static htc_ns lengths[TASKS_MAX];

static void draw_lengths(const trial *t, uint64_t n)
{
    htc__scale_drawer d = htc__scale_drawer_of(&t->law, HTC_MS);
    for (uint64_t i = 0; i < n; i++)
        lengths[i] = htc__scale_drawer_ticks(&d, htc__scale_draw(htc__scale_stream(t->seed, 0), i)) * HTC_MS;
}

static htc_flow *flow_of(const trial *t, uint64_t n)
{
    htc_flow     *f = NULL;
    htc_flow_task task = { .size = sizeof task, .builtin = HTC_FLOW_SLEEP, .count = n, .amount = lengths[0] };
    htc_status    status = htc_flow_create(NULL, NULL, &f);
    if (t->law.kind == HTC_SCALE_CONSTANT && status == HTC_OK)
        status = htc_flow_add(f, &task, NULL, NULL);
    for (uint64_t i = 0; i < n && t->law.kind != HTC_SCALE_CONSTANT && status == HTC_OK; i++) {
        task.count = 1;
        task.amount = lengths[i];
        status = htc_flow_add(f, &task, NULL, NULL);
    }
    if (status == HTC_OK)
        status = htc_flow_check(f, NULL);
    if (status != HTC_OK)
        abort();
    return f;
}

typedef struct pair {
    double exact, scale;
} pair;

static void run_both(const trial *t, pair *throughput, pair *efficiency)
{
    uint64_t                 n = t->tasks * t->workers * t->slots;
    htc_sim_flow_options     fo = { .size = sizeof fo, .seed = t->seed, .workers = t->workers, .slots = t->slots, .layout = t->layout, .steal = &t->steal, .latency_ns = LATENCY_NS,
                                    .commit_ns = COMMIT_NS, .stage_ns = STAGE_NS };
    htc_sim_flow_report      exact = { .size = sizeof exact };
    htc_sim_manytask_group   g = { .size = sizeof g, .nodes = t->workers, .cores = t->slots };
    htc_sim_manytask_options o = { .size = sizeof o, .seed = t->seed, .architecture = HTC_SIM_MANYTASK_DISTRIBUTED, .layout = t->layout, .groups = &g, .n_groups = 1, .tasks = n,
                                   .lengths = lengths, .n_lengths = n, .steal = &t->steal, .latency_ns = LATENCY_NS, .bytes_per_s = UINT64_MAX, .task_ns = 2 * STAGE_NS,
                                   .give_ns = GIVE_NS, .nudge_ns = NUDGE_NS };
    htc_sim_manytask_report  scale = { .size = sizeof scale };
    if (n > TASKS_MAX)
        abort();
    draw_lengths(t, n);
    htc_flow  *f = flow_of(t, n);
    htc_status status = htc_sim_flow_run(NULL, f, &fo, &exact);
    expect(status == HTC_OK && !exact.failed, "exact: %s", exact.text);
    htc_flow_destroy(f);
    status = htc_sim_manytask_run(NULL, &o, &scale, NULL, NULL);
    expect(status == HTC_OK && !scale.scale.wrong[0], "scale: %s", scale.scale.wrong);
    expect(exact.tasks == scale.scale.ended, "%llu tasks have ended, and %llu in the model", (unsigned long long)exact.tasks, (unsigned long long)scale.scale.ended);
    *throughput = (pair){ throughput->exact + exact.throughput, throughput->scale + scale.throughput };
    *efficiency = (pair){ efficiency->exact + exact.efficiency, efficiency->scale + scale.efficiency };
}

/* Means over some seeds: when the longest task begins is chance, and decides how long the end of a bag with large differences takes. */
static void beside(trial t, uint64_t seeds)
{
    static const char *const kinds[] = { "equal", "uniform", "exponential", "lognormal" };
    pair                     throughput = { 0, 0 }, efficiency = { 0, 0 };
    for (t.seed = 1; t.seed <= seeds; t.seed++)
        run_both(&t, &throughput, &efficiency);
    double more = throughput.scale / throughput.exact - 1, better = efficiency.scale / efficiency.exact - 1;
    printf("  %3u x %u slots, %s, %s %g s: efficiency %.4f exact, %.4f scale (%+.2f %%); throughput %.1f/s and %.1f/s (%+.2f %%)\n", (unsigned)t.workers, (unsigned)t.slots,
           t.layout ? "each" : "one", kinds[t.law.kind], t.law.mean_ns / 1e9, efficiency.exact / (double)seeds, efficiency.scale / (double)seeds, 100 * better,
           throughput.exact / (double)seeds, throughput.scale / (double)seeds, 100 * more);
    expect(fabs(more) <= WITHIN, "throughput");
    expect(fabs(better) <= WITHIN, "efficiency");
}

int main(void)
{
    static const struct {
        uint32_t workers, slots;
        uint64_t tasks; /* of a slot */
        uint64_t seeds, full; /* of lengths that differ; with HTC_TEST_FULL */
    } sizes[] = { { 16, 1, 40, 12, 12 }, { 4, 4, 40, 12, 12 }, { 16, 4, 40, 12, 12 }, { 64, 1, 40, 6, 12 }, { 64, 4, 40, 2, 2 }, { 256, 1, 40, 0, 2 }, { 256, 4, 40, 0, 2 }, { 1024, 1, 10, 0, 0 } };
    const htc_scale_law     equal[] = { { HTC_SCALE_CONSTANT, 0, 1e9, 0 }, { HTC_SCALE_CONSTANT, 0, 64e6, 0 } };
    const htc_scale_law     others[] = { { HTC_SCALE_UNIFORM, 0, 2e9, 1 }, { HTC_SCALE_LOGNORMAL, 0, 1e9, 1 } };
    const htc_steal_options steal = HTC_STEAL_OPTIONS_INIT;
    htc_steal_options       few = HTC_STEAL_OPTIONS_INIT;
    int                     full = getenv("HTC_TEST_FULL") != NULL;
    size_t                  n = getenv("HTC_TEST_LIGHT") ? 3 : full ? 8 : 6;
    few.degree = HTC_STEAL_ONE;
    few.amount = HTC_STEAL_SQRT;
    printf("the model beside the real workers and store:\n");
    for (size_t s = 0; s < n; s++) {
        uint64_t seeds = full ? sizes[s].full : sizes[s].seeds;
        trial    t = { .workers = sizes[s].workers, .slots = sizes[s].slots, .tasks = sizes[s].tasks, .steal = steal };
        for (size_t l = 0; l < 2; l++) {
            t.law = equal[l];
            beside(t, 1);
        }
        for (size_t l = 0; l < 2 && seeds; l++) {
            t.law = others[l];
            beside(t, seeds);
        }
    }
    beside((trial){ 16, 1, 40, others[0], 1, few, HTC_SIM_MANYTASK_ONE }, 6);
    beside((trial){ 16, 4, 40, others[0], 1, steal, HTC_SIM_MANYTASK_EACH }, 6);
    printf("%s\n", failed ? "FAILED" : "ok");
    return failed != 0;
}
