/* Which parallel job starts next: worked examples, the slow model, the promises, wrong use, and memory that runs out.
 */
#include "expect.h"
#include <string.h>

#include "../data.h"
#include "alloc_fail.h"
#include "fit_hand.h"
#include "fit_twins.h"
#include "property.h"

/* ---- worked examples ---- */

/* In seconds. Jobs run as long as they say but where `runs` is set. */
typedef struct row {
    int arrives, nodes, estimate, runs;
} row;

#define ROWS_MAX 4096

static int runs(const row *r)
{
    return r->runs ? r->runs : r->estimate;
}

/* Everything that happens at a moment is told before the fit decides: ends, then arrivals. */
static void play(uint32_t promise, uint32_t nodes, const row *rows, size_t n, int *starts)
{
    htc_fit    *fit = fit_of(promise, nodes);
    htc_fit_job job;
    size_t      ended = 0;
    for (size_t i = 0; i < n; i++)
        starts[i] = -1;
    for (int now = 0; ended < n;) {
        int next = INT32_MAX;
        for (size_t i = 0; i < n; i++)
            if (starts[i] >= 0 && starts[i] + runs(&rows[i]) == now) {
                cr_assert(eq(int, htc_fit_end(fit, (htc_ns)now * S, i), HTC_OK));
                ended++;
            }
        for (size_t i = 0; i < n; i++)
            if (rows[i].arrives == now) {
                job = job_of(i, (uint32_t)rows[i].nodes, (htc_ns)rows[i].estimate * S);
                cr_assert(eq(int, htc_fit_submit(fit, (htc_ns)now * S, &job), HTC_OK));
            }
        while (htc_fit_next(fit, (htc_ns)now * S, &job) == HTC_OK)
            starts[job.id] = now;
        for (size_t i = 0; i < n; i++) {
            int at = rows[i].arrives > now ? rows[i].arrives : starts[i] >= 0 ? starts[i] + runs(&rows[i]) : now;
            next = at > now && at < next ? at : next;
        }
        cr_assert(next < INT32_MAX || ended == n, "nothing will ever happen again");
        now = next;
    }
    htc_fit_destroy(fit);
}

typedef struct example {
    const char *what;
    uint32_t    nodes;
    size_t      n;
    row         rows[8];
    int         starts[5][8]; /* by promise */
} example;

static const example examples[] = {
    /* The second job is the head: it can start at 10, when 2 of the 10 nodes are left over. The third takes these, the
     * fourth ends just at 10; the last has to wait for them. */
    { "who backfills",
      10,
      5,
      { { 0, 6, 10, 0 }, { 0, 8, 5, 0 }, { 0, 2, 100, 0 }, { 0, 2, 10, 0 }, { 0, 1, 5, 0 } },
      { [HTC_FIT_PROMISE_ORDER] = { 0, 10, 10, 15, 15 },
        [HTC_FIT_PROMISE_NOTHING] = { 0, 10, 0, 0, 15 },
        [HTC_FIT_PROMISE_HEAD] = { 0, 10, 0, 0, 15 },
        [HTC_FIT_PROMISE_ALL] = { 0, 10, 0, 0, 15 } } },
    /* A second too long and wider than what is left over: only first fit starts the third, and the head pays. */
    { "a second too long",
      10,
      3,
      { { 0, 6, 10, 0 }, { 0, 8, 5, 0 }, { 0, 3, 11, 0 } },
      { [HTC_FIT_PROMISE_ORDER] = { 0, 10, 15 },
        [HTC_FIT_PROMISE_NOTHING] = { 0, 11, 0 },
        [HTC_FIT_PROMISE_HEAD] = { 0, 10, 15 },
        [HTC_FIT_PROMISE_ALL] = { 0, 10, 15 } } },
    /* EASY protects the head alone: the fourth does not delay the second, but the third. */
    { "the second in the queue",
      10,
      4,
      { { 0, 6, 10, 0 }, { 0, 8, 5, 0 }, { 0, 10, 5, 0 }, { 0, 2, 17, 0 } },
      { [HTC_FIT_PROMISE_ORDER] = { 0, 10, 15, 20 },
        [HTC_FIT_PROMISE_NOTHING] = { 0, 10, 17, 0 },
        [HTC_FIT_PROMISE_HEAD] = { 0, 10, 17, 0 },
        [HTC_FIT_PROMISE_ALL] = { 0, 10, 15, 20 } } },
    /* The first ends at 4 instead of 10. Everybody moves up; under conservative in the order of the reserved starts. */
    { "ends early",
      4,
      4,
      { { 0, 4, 10, 4 }, { 0, 3, 10, 0 }, { 0, 2, 10, 0 }, { 1, 1, 10, 0 } },
      { [HTC_FIT_PROMISE_ORDER] = { 0, 4, 14, 14 },
        [HTC_FIT_PROMISE_NOTHING] = { 0, 4, 14, 4 },
        [HTC_FIT_PROMISE_HEAD] = { 0, 4, 14, 4 },
        [HTC_FIT_PROMISE_ALL] = { 0, 4, 14, 4 } } },
    /* The first says 5 and runs 8. At 6 it counts as ending at 7: too soon for the third, which takes 2, to pass the
       second. */
    { "overdue",
      4,
      3,
      { { 0, 3, 5, 8 }, { 0, 4, 5, 0 }, { 6, 1, 2, 0 } },
      { [HTC_FIT_PROMISE_ORDER] = { 0, 8, 13 },
        [HTC_FIT_PROMISE_NOTHING] = { 0, 8, 6 },
        [HTC_FIT_PROMISE_HEAD] = { 0, 8, 13 },
        [HTC_FIT_PROMISE_ALL] = { 0, 8, 13 } } },
    /* The same, but it takes 1: a second is a second. */
    { "overdue by a second",
      4,
      3,
      { { 0, 3, 5, 8 }, { 0, 4, 5, 0 }, { 6, 1, 1, 0 } },
      { [HTC_FIT_PROMISE_ORDER] = { 0, 8, 13 },
        [HTC_FIT_PROMISE_NOTHING] = { 0, 8, 6 },
        [HTC_FIT_PROMISE_HEAD] = { 0, 8, 6 },
        [HTC_FIT_PROMISE_ALL] = { 0, 8, 6 } } },
    /* First fit starves who is wide: narrow jobs that overlap keep half of the nodes busy for ever. */
    { "starvation",
      2,
      6,
      { { 0, 1, 4, 0 }, { 1, 2, 1, 0 }, { 2, 1, 4, 0 }, { 4, 1, 4, 0 }, { 6, 1, 4, 0 }, { 8, 1, 4, 0 } },
      { [HTC_FIT_PROMISE_ORDER] = { 0, 4, 5, 5, 9, 9 },
        [HTC_FIT_PROMISE_NOTHING] = { 0, 12, 2, 4, 6, 8 },
        [HTC_FIT_PROMISE_HEAD] = { 0, 4, 5, 5, 9, 9 },
        [HTC_FIT_PROMISE_ALL] = { 0, 4, 5, 5, 9, 9 } } },
};

Test(fit, starts_jobs_as_the_worked_examples_say)
{
    int starts[ROWS_MAX];
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++)
        for (uint32_t p = HTC_FIT_PROMISE_NOTHING; p <= HTC_FIT_PROMISE_ALL; p++) {
            const example *e = &examples[i];
            play(p, e->nodes, e->rows, e->n, starts);
            for (size_t k = 0; k < e->n; k++)
                cr_expect(eq(int, starts[k], e->starts[p][k]), "%s, promise %u, job %zu", e->what, p, k);
        }
}

/* ---- a real log ---- */

/* Records of the Standard Workload Format: number, submit time, wait, run time, processors, ..., requested time the
 * ninth. */
static size_t read_log(FILE *f, row *rows)
{
    char   line[512];
    size_t n = 0;
    while (n < ROWS_MAX && fgets(line, sizeof line, f)) {
        double at, run, nodes, asked;
        if (sscanf(line, "%*f %lf %*f %lf %lf %*f %*f %*f %lf", &at, &run, &nodes, &asked) != 4 || run < 1 || nodes < 1)
            continue;
        asked = asked > run ? asked : run;
        rows[n++] = (row){ (int)at, (int)nodes, (int)asked, (int)run };
    }
    return n;
}

static double mean_wait(uint32_t promise, uint32_t nodes, const row *rows, size_t n)
{
    static int starts[ROWS_MAX];
    double     sum = 0;
    play(promise, nodes, rows, n, starts);
    for (size_t i = 0; i < n; i++)
        sum += starts[i] - rows[i].arrives;
    return sum / (double)n;
}

/* Two weeks of SDSC Blue Horizon, with the times its users asked for, on half of its 1152 processors, so that there is
 * a queue: backfilling is what it was invented for. */
Test(fit, backfilling_shortens_the_waits_of_a_real_log)
{
    static row rows[ROWS_MAX];
    FILE      *f = test_data("SDSC-BLUE-2000-4.2-cln.first14days.swf");
    if (!f)
        cr_skip("no examples/sim/data below or beside the working directory");
    size_t n = read_log(f, rows), kept = 0;
    fclose(f);
    for (size_t i = 0; i < n; i++)
        if (rows[i].nodes <= 576)
            rows[kept++] = rows[i];
    double fcfs = mean_wait(HTC_FIT_PROMISE_ORDER, 576, rows, kept),
           easy = mean_wait(HTC_FIT_PROMISE_HEAD, 576, rows, kept);
    double all = mean_wait(HTC_FIT_PROMISE_ALL, 576, rows, kept);
    cr_expect(gt(sz, kept, 2500));
    cr_expect(easy < fcfs / 2 && all < fcfs / 2, "mean waits in s: fcfs %.0f, easy %.0f, conservative %.0f", fcfs, easy,
              all);
}

/* ---- against the model ---- */

static void agree(uint32_t promise, uint64_t seeds)
{
    PROPERTY(rng, seeds)
    {
        twins       t;
        const char *wrong = NULL;
        HOLDS(twins_open(&t, NULL, promise, (uint32_t)htc_rng_below(&rng, 12)) == HTC_OK);
        for (int step = 0; step < 100 && !wrong; step++)
            wrong = twins_step(&t, htc_rng_next(&rng));
        cr_assert(wrong == NULL, "%s; HTC_TEST_SEED=%llu replays it", wrong, (unsigned long long)property_seed);
        htc_fit_destroy(t.fit);
    }
}

Test(fit, agrees_with_the_slow_model_first_fit)
{
    agree(HTC_FIT_PROMISE_NOTHING, 1000);
}

Test(fit, agrees_with_the_slow_model_fcfs)
{
    agree(HTC_FIT_PROMISE_ORDER, 1000);
}

Test(fit, agrees_with_the_slow_model_easy)
{
    agree(HTC_FIT_PROMISE_HEAD, 1000);
}

Test(fit, agrees_with_the_slow_model_conservative)
{
    agree(HTC_FIT_PROMISE_ALL, 1000);
}

/* ---- what is promised is kept ---- */

/* A machine on which jobs end when they like, but never later than they said. Ids are 0 .. n-1. */
typedef struct rig {
    htc_fit *fit;
    htc_ns   now, ends[ROWS_MAX];
    uint32_t running[ROWS_MAX];
    uint64_t n;
    uint32_t nodes, used;
} rig;

static void rig_arrive(rig *r, htc_rng *rng)
{
    htc_fit_job job = job_of(r->n, (uint32_t)htc_rng_below(rng, r->nodes) + 1, htc_rng_below(rng, 100) + 1);
    r->ends[r->n] = HTC_NEVER;
    HOLDS(htc_fit_submit(r->fit, r->now, &job) == HTC_OK);
    r->n++;
}

static htc_ns rig_next_end(const rig *r)
{
    htc_ns next = HTC_NEVER;
    for (uint64_t i = 0; i < r->n; i++)
        if (r->running[i] && r->ends[i] < next)
            next = r->ends[i];
    return next;
}

static void rig_end(rig *r, uint64_t i)
{
    htc_fit_info info;
    HOLDS(htc_fit_get(r->fit, i, &info) == HTC_OK && info.state == HTC_FIT_RUNNING);
    HOLDS(htc_fit_end(r->fit, r->now, i) == HTC_OK);
    r->running[i] = 0;
    r->used -= info.job.nodes;
}

/* How long jobs run: at most what they said; exactly that if exact. */
static void rig_decide(rig *r, htc_rng *rng, int exact)
{
    htc_fit_job job;
    while (htc_fit_next(r->fit, r->now, &job) == HTC_OK) {
        r->used += job.nodes;
        HOLDS(r->used <= r->nodes);
        r->running[job.id] = 1;
        r->ends[job.id] =
            r->now + (exact || htc_rng_below(rng, 2) ? job.estimate : htc_rng_below(rng, job.estimate) + 1);
    }
}

/* Something arrives or something ends. */
static void rig_step(rig *r, htc_rng *rng, int exact)
{
    htc_ns next = rig_next_end(r);
    htc_ns soon = r->now + htc_rng_below(rng, 30);
    if (next > soon && r->n < 60) {
        r->now = soon;
        rig_arrive(r, rng);
    } else if (next < HTC_NEVER) {
        r->now = next;
        for (uint64_t i = 0; i < r->n; i++)
            if (r->running[i] && r->ends[i] == next)
                rig_end(r, i);
    }
    rig_decide(r, rng, exact);
}

/* Whoever comes to stand at the head is told a start, and starts no later, whatever is backfilled: estimates are upper
 * bounds. */
Test(fit, easy_never_delays_the_head)
{
    PROPERTY(rng, 2000)
    {
        rig          r = { .nodes = (uint32_t)htc_rng_below(&rng, 30) + 1 };
        htc_ns       promised[60];
        htc_fit_job  head;
        htc_fit_info info;
        for (size_t i = 0; i < 60; i++)
            promised[i] = HTC_NEVER;
        r.fit = fit_of(HTC_FIT_PROMISE_HEAD, r.nodes);
        for (int step = 0; step < 200; step++) {
            rig_step(&r, &rng, 0);
            if (htc_fit_at(r.fit, 0, &head) == HTC_OK) {
                htc_ns   start;
                uint32_t reserved;
                HOLDS(htc_fit_when(r.fit, r.now, head.id, &start, &reserved) == HTC_OK && reserved == 1);
                HOLDS(start <= promised[head.id]);
                promised[head.id] = start;
            }
            for (uint64_t i = 0; i < r.n; i++)
                if (htc_fit_get(r.fit, i, &info) == HTC_OK && info.state == HTC_FIT_RUNNING)
                    HOLDS(info.started <= promised[i]);
        }
        HOLDS(r.n == 60 && rig_next_end(&r) == HTC_NEVER);
        htc_fit_destroy(r.fit);
    }
}

/* Each job is told a start on arrival; it may only move forward. */
Test(fit, conservative_never_delays_anybody)
{
    PROPERTY(rng, 2000)
    {
        rig          r = { .nodes = (uint32_t)htc_rng_below(&rng, 30) + 1 };
        htc_ns       promised[60];
        htc_fit_info info;
        for (size_t i = 0; i < 60; i++)
            promised[i] = HTC_NEVER;
        r.fit = fit_of(HTC_FIT_PROMISE_ALL, r.nodes);
        for (int step = 0; step < 200; step++) {
            rig_step(&r, &rng, 0);
            for (uint64_t i = 0; i < r.n; i++) {
                htc_ns   start;
                uint32_t reserved;
                if (htc_fit_get(r.fit, i, &info) != HTC_OK)
                    continue;
                if (info.state == HTC_FIT_WAITING) {
                    HOLDS(htc_fit_when(r.fit, r.now, i, &start, &reserved) == HTC_OK && reserved == 1);
                    HOLDS(start >= r.now && start <= promised[i]);
                    promised[i] = start;
                } else {
                    HOLDS(info.started <= promised[i]);
                }
            }
        }
        HOLDS(r.n == 60 && rig_next_end(&r) == HTC_NEVER);
        htc_fit_destroy(r.fit);
    }
}

/* What is foretold happens, if jobs run as long as they say and nobody else comes. */
Test(fit, forecasts_come_true)
{
    PROPERTY(rng, 1000)
    {
        rig         r = { .nodes = (uint32_t)htc_rng_below(&rng, 30) + 1 };
        htc_ns      starts[60];
        uint64_t    ids[60];
        htc_fit_job job;
        size_t      n = 0;
        r.fit = fit_of((uint32_t)(property_seed % 4) + HTC_FIT_PROMISE_NOTHING, r.nodes);
        while (r.n < 60)
            rig_step(&r, &rng, 1);
        for (; htc_fit_at(r.fit, n, &job) == HTC_OK; n++)
            ids[n] = job.id;
        HOLDS(htc_fit_forecast(r.fit, r.now, starts, n) == HTC_OK);
        while (rig_next_end(&r) < HTC_NEVER) {
            for (size_t i = 0; i < n; i++) {
                htc_fit_info info;
                if (htc_fit_get(r.fit, ids[i], &info) == HTC_OK && info.state == HTC_FIT_RUNNING)
                    HOLDS(info.started == starts[i]);
            }
            rig_step(&r, &rng, 1);
        }
        htc_fit_destroy(r.fit);
    }
}

/* ---- a policy of one's own ---- */

/* Of all that may start, the shortest. */
static htc_status shortest(void *ctx, const htc_fit *fit, htc_ns now, uint64_t *id)
{
    htc_fit_job job, best = { .estimate = 0 };
    htc_status  status = htc_fit_candidate(fit, now, NULL, &job);
    for (; status == HTC_OK; status = htc_fit_candidate(fit, now, &job, &job))
        if (best.estimate == 0 || job.estimate < best.estimate)
            best = job;
    *(int *)ctx += 1;
    *id = best.id;
    return best.estimate ? HTC_OK : HTC_AGAIN;
}

Test(fit, lets_a_policy_of_ones_own_choose_within_the_promise)
{
    int            asked = 0;
    htc_fit_policy policy = {
        .size = sizeof policy, .promise = HTC_FIT_PROMISE_HEAD, .choose = shortest, .ctx = &asked
    };
    htc_fit_options options = { .size = sizeof options, .policy = &policy, .nodes = 4 };
    htc_fit        *fit;
    htc_fit_job     job;
    htc_ns          starts[4];
    cr_assert(eq(int, htc_fit_create(NULL, &options, &fit), HTC_OK));
    const htc_fit_job jobs[] = { job_of(1, 3, 10 * S), job_of(2, 4, 10 * S), job_of(3, 1, 9 * S), job_of(4, 1, 5 * S),
                                 job_of(5, 1, 11 * S) };
    cr_assert(eq(int, htc_fit_submit(fit, 0, &jobs[0]), HTC_OK));
    cr_assert(eq(int, htc_fit_next(fit, 0, &job), HTC_OK));
    for (size_t i = 1; i < 5; i++)
        cr_assert(eq(int, htc_fit_submit(fit, 0, &jobs[i]), HTC_OK));
    /* 2 waits for 10 s; then 4 before 3, and 5 never before 2, for it runs longer than 2 is to wait. */
    cr_assert(eq(int, htc_fit_forecast(fit, 0, starts, 4), HTC_OK));
    cr_expect(eq(u64, starts[0], 10 * S));
    cr_expect(eq(u64, starts[1], 20 * S));
    cr_expect(eq(u64, starts[2], 0));
    cr_expect(eq(u64, starts[3], 20 * S));
    cr_expect(eq(int, htc_fit_next(fit, 0, &job), HTC_OK));
    cr_expect(eq(u64, job.id, 4));
    cr_expect(eq(int, htc_fit_next(fit, 0, &job), HTC_AGAIN));
    cr_expect(asked > 2);
    htc_fit_destroy(fit);
}

static htc_status stubborn(void *ctx, const htc_fit *fit, htc_ns now, uint64_t *id)
{
    (void)fit, (void)now;
    if (*(uint64_t *)ctx != 0) /* 0: says nothing */
        *id = *(uint64_t *)ctx;
    return *(uint64_t *)ctx == 99 ? HTC_EIO : HTC_OK;
}

/* What it is told when it asks for the start of the second in the queue, and for all of them. */
typedef struct curious {
    htc_status when, forecast;
    htc_ns     start;
} curious;

static htc_status ask_for_starts(void *ctx, const htc_fit *fit, htc_ns now, uint64_t *id)
{
    curious       *c = ctx;
    htc_fit_counts counts;
    htc_fit_job    job;
    htc_ns         starts[3];
    htc_fit_count(fit, &counts);
    if (htc_fit_at(fit, 1, &job) == HTC_OK && counts.waiting <= 3) {
        c->when = htc_fit_when(fit, now, job.id, &c->start, NULL);
        c->forecast = htc_fit_forecast(fit, now, starts, counts.waiting);
    }
    htc_status status = htc_fit_candidate(fit, now, NULL, &job);
    if (status == HTC_OK)
        *id = job.id;
    return status;
}

/* A start that is imagined is what the policy would answer: a policy that asked for one was asked by it, without end.
 * Reserved starts are there to be asked for. */
Test(fit, does_not_ask_a_policy_what_the_policy_asks)
{
    for (uint32_t promise = HTC_FIT_PROMISE_NOTHING; promise <= HTC_FIT_PROMISE_ALL; promise++) {
        curious         c = { .when = HTC_EIO, .forecast = HTC_EIO };
        htc_fit_policy  policy = { .size = sizeof policy, .promise = promise, .choose = ask_for_starts, .ctx = &c };
        htc_fit_options options = { .size = sizeof options, .policy = &policy, .nodes = 4 };
        int             reserved = promise == HTC_FIT_PROMISE_ALL;
        htc_fit        *fit;
        htc_fit_job     job;
        htc_ns          start;
        cr_assert(eq(int, htc_fit_create(NULL, &options, &fit), HTC_OK));
        for (uint64_t id = 1; id <= 3; id++)
            cr_assert(
                eq(int, htc_fit_submit(fit, 0, &(htc_fit_job){ .id = id, .nodes = 3, .estimate = 10 * S }), HTC_OK));
        cr_expect(eq(int, htc_fit_next(fit, 0, &job), HTC_OK));
        cr_expect(eq(u64, job.id, 1));
        cr_expect(eq(int, c.when, reserved ? HTC_OK : HTC_EINVAL), "promise %u", promise);
        cr_expect(eq(int, c.forecast, reserved ? HTC_OK : HTC_EINVAL), "promise %u", promise);
        cr_expect(reserved == 0 || c.start == 10 * S);
        cr_expect(eq(int, htc_fit_when(fit, 0, 3, &start, NULL), HTC_OK), "from outside all can be asked");
        cr_expect(eq(u64, start, 20 * S));
        htc_fit_destroy(fit);
    }
}

/* A policy cannot break the promise, start what is not there, or start what does not fit. */
Test(fit, refuses_a_choice_that_would_break_the_promise)
{
    uint64_t        choice = 0;
    htc_fit_policy  policy = { .size = sizeof policy, .choose = stubborn, .ctx = &choice };
    htc_fit_options options = { .size = sizeof options, .policy = &policy, .nodes = 5 };
    for (policy.promise = HTC_FIT_PROMISE_NOTHING; policy.promise <= HTC_FIT_PROMISE_ALL; policy.promise++) {
        /* 1 and 5 run, 2 waits for their end, 3 fits but is too long, 4 fits. 5 would fit once more. */
        static const uint64_t choices[] = { 1, 2, 3, 5, 77, 99, 0 };
        const htc_fit_job     jobs[] = { job_of(1, 3, 10 * S), job_of(5, 1, 10 * S), job_of(2, 5, 10 * S),
                                         job_of(3, 1, 11 * S), job_of(4, 1, 5 * S) };
        htc_fit              *fit;
        htc_fit_job           job = { 0 };
        cr_assert(eq(int, htc_fit_create(NULL, &options, &fit), HTC_OK));
        for (size_t i = 0; i < 5; i++)
            cr_assert(eq(int, htc_fit_submit(fit, 0, &jobs[i]), HTC_OK));
        cr_assert(htc_fit_start(fit, 0, 1) == HTC_OK && htc_fit_start(fit, 0, 5) == HTC_OK);
        for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
            choice = choices[i];
            if (choice == 3 && policy.promise == HTC_FIT_PROMISE_NOTHING)
                continue;
            cr_expect(eq(int, htc_fit_next(fit, 0, &job), choice == 99 ? HTC_EIO : HTC_EINVAL), "%u %llu",
                      policy.promise, (unsigned long long)choice);
        }
        cr_expect(eq(u64, job.id, 0), "untouched");
        choice = 4;
        cr_expect(eq(int, htc_fit_next(fit, 0, &job), policy.promise == HTC_FIT_PROMISE_ORDER ? HTC_EINVAL : HTC_OK));
        htc_fit_destroy(fit);
    }
}

Test(fit, finds_policies_by_name)
{
    static const struct {
        const char *name;
        uint32_t    promise;
    } rows[] = { { "fcfs", HTC_FIT_PROMISE_ORDER },
                 { "first_fit", HTC_FIT_PROMISE_NOTHING },
                 { "easy", HTC_FIT_PROMISE_HEAD },
                 { "conservative", HTC_FIT_PROMISE_ALL } };
    static const htc_fit_policy mine = { .size = sizeof mine, .name = "shortest", .promise = HTC_FIT_PROMISE_HEAD, .choose = shortest };
    static const htc_fit_policy none = { .size = sizeof none, .name = "none" };
    const htc_fit_policy       *found = NULL;
    htc_registry               *r;
    cr_assert(eq(int, htc_registry_create(NULL, &r), HTC_OK));
    cr_assert(eq(int, htc_registry_add_builtin(r), HTC_OK));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        cr_expect(eq(int, htc_fit_find(r, rows[i].name, &found), HTC_OK));
        cr_expect(eq(u32, found->promise, rows[i].promise));
    }
    cr_expect(eq(int, htc_fit_register(r, &mine), HTC_OK));
    cr_expect(eq(int, htc_fit_find(r, "shortest", &found), HTC_OK));
    cr_expect(found == &mine);
    cr_expect(eq(int, htc_fit_register(r, &mine), HTC_EEXISTS));
    cr_expect(eq(int, htc_fit_register(r, &none), HTC_EINVAL));
    cr_expect(eq(int, htc_fit_register(r, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_fit_find(r, "none", &found), HTC_ENOTFOUND));
    cr_expect(eq(int, htc_fit_find(r, "easy", NULL), HTC_EINVAL));
    cr_expect(found == &mine);
    htc_registry_destroy(r);
}

/* A job that is overdue when the plan is made counts as ending in a second; when it goes on, in another. */
Test(fit, plans_with_an_overdue_job_from_second_to_second)
{
    htc_fit          *fit = fit_of(HTC_FIT_PROMISE_ALL, 2);
    const htc_fit_job late = job_of(1, 1, 5 * S), wide = job_of(2, 2, 5 * S);
    htc_ns            start;
    uint32_t          reserved;
    cr_assert(eq(int, htc_fit_submit(fit, 0, &late), HTC_OK));
    cr_assert(eq(int, htc_fit_next(fit, 0, NULL), HTC_OK));
    cr_assert(eq(int, htc_fit_next(fit, 6 * S, NULL), HTC_AGAIN));
    cr_assert(eq(int, htc_fit_submit(fit, 10 * S, &wide), HTC_OK));
    cr_assert(eq(int, htc_fit_when(fit, 10 * S, 2, &start, &reserved), HTC_OK));
    cr_expect(start == 11 * S && reserved == 1);
    cr_assert(eq(int, htc_fit_end(fit, 12 * S, 1), HTC_OK));
    cr_expect(eq(int, htc_fit_next(fit, 12 * S, NULL), HTC_OK));
    htc_fit_destroy(fit);
}

/* ---- nodes that go, and what is told of jobs ---- */

Test(fit, drains_nodes_and_sets_wide_jobs_aside)
{
    htc_fit          *fit = fit_of(HTC_FIT_PROMISE_HEAD, 8);
    htc_fit_counts    c;
    htc_fit_job       job;
    htc_fit_info      info;
    const htc_fit_job jobs[] = { job_of(1, 6, 10 * S), job_of(2, 8, 10 * S), job_of(3, 3, 20 * S) };
    for (size_t i = 0; i < 3; i++)
        cr_assert(eq(int, htc_fit_submit(fit, 0, &jobs[i]), HTC_OK));
    cr_expect(htc_fit_next(fit, 0, &job) == HTC_OK && job.id == 1);
    cr_expect(eq(int, htc_fit_remove_nodes(fit, S, 4), HTC_OK));
    htc_fit_count(fit, &c);
    cr_expect(c.nodes == 4 && c.busy == 6 && c.free == 0 && c.waiting == 2 && c.running == 1);
    cr_expect(c.waiting_nodes == 11 && c.widest == 8);
    cr_expect(eq(int, htc_fit_next(fit, S, &job), HTC_AGAIN));
    cr_expect(eq(int, htc_fit_get(fit, 1, &info), HTC_OK));
    cr_expect(info.state == HTC_FIT_RUNNING && info.submitted == 0 && info.started == 0 && info.ends == 10 * S);
    cr_expect(eq(int, htc_fit_get(fit, 2, &info), HTC_OK));
    cr_expect(info.state == HTC_FIT_WAITING && info.started == HTC_NEVER && info.ends == HTC_NEVER);
    /* 2 is too wide now: 3 is the head. A node lost under a running job: it is the first again. */
    cr_expect(eq(int, htc_fit_requeue(fit, 2 * S, 1), HTC_OK));
    cr_expect(htc_fit_at(fit, 0, &job) == HTC_OK && job.id == 1);
    cr_expect(htc_fit_next(fit, 2 * S, &job) == HTC_OK && job.id == 3);
    cr_expect(eq(int, htc_fit_add_nodes(fit, 3 * S, 4), HTC_OK));
    cr_expect(htc_fit_next(fit, 3 * S, &job) == HTC_AGAIN);
    cr_expect(eq(int, htc_fit_end(fit, 4 * S, 3), HTC_OK));
    cr_expect(htc_fit_next(fit, 4 * S, &job) == HTC_OK && job.id == 1);
    htc_fit_destroy(fit);
}

Test(fit, tells_candidates_from_the_head_unless_behind_one_that_waits)
{
    htc_fit          *fit = fit_of(HTC_FIT_PROMISE_NOTHING, 4);
    const htc_fit_job jobs[] = { job_of(1, 3, S), job_of(2, 3, S), job_of(3, 1, 9 * S) };
    htc_fit_job       job;
    for (int i = 0; i < 3; i++)
        htc_fit_submit(fit, 0, &jobs[i]);
    cr_assert(htc_fit_next(fit, 0, &job) == HTC_OK && htc_fit_next(fit, 0, &job) == HTC_OK && job.id == 3);
    htc_fit_end(fit, S, 1);
    cr_expect(htc_fit_candidate(fit, S, &jobs[2], &job) == HTC_OK && job.id == 2);
    htc_fit_destroy(fit);
}

/* A job that is due at this very moment has not said so: who can start without its nodes is foreseen to start now, as
 * the decision would have it. At later moments what ends comes first. */
Test(fit, foresees_now_what_would_be_decided_now)
{
    static const struct {
        uint32_t    promise;
        htc_fit_job waiting[3]; /* while the first, 3 of the 8 nodes, is due */
        htc_ns      starts[3];
    } cases[] = {
        /* The second passes the first, who would start if the nodes were back. */
        { HTC_FIT_PROMISE_NOTHING,
          { { 2, 10 * S, 8, 0 }, { 3, 4 * S, 5, 0 }, { 4, 1 * S, 8, 0 } },
          { 13 * S, 9 * S, 23 * S } },
        /* The third takes what the first leaves over; if that one ran already, it would have to wait for the second. */
        { HTC_FIT_PROMISE_HEAD,
          { { 2, 3 * S, 6, 0 }, { 3, 10 * S, 8, 0 }, { 4, 100 * S, 2, 0 } },
          { 9 * S, 109 * S, 9 * S } },
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        htc_fit          *fit = fit_of(cases[c].promise, 8);
        const htc_fit_job runs = job_of(1, 3, 9 * S);
        htc_fit_job       job;
        htc_ns            starts[3], when;
        cr_assert(eq(int, htc_fit_submit(fit, 0, &runs), HTC_OK));
        cr_assert(eq(int, htc_fit_next(fit, 0, &job), HTC_OK));
        for (size_t i = 0; i < 3; i++)
            cr_assert(eq(int, htc_fit_submit(fit, 9 * S, &cases[c].waiting[i]), HTC_OK));
        cr_assert(eq(int, htc_fit_forecast(fit, 9 * S, starts, 3), HTC_OK));
        for (size_t i = 0; i < 3; i++) {
            cr_expect(starts[i] == cases[c].starts[i], "case %zu, job %zu: %g s", c, i, (double)starts[i] / S);
            cr_expect(htc_fit_when(fit, 9 * S, 2 + i, &when, NULL) == HTC_OK && when == starts[i]);
        }
        cr_expect(htc_fit_next(fit, 9 * S, &job) == HTC_OK && job.id == 3 + c);
        htc_fit_destroy(fit);
    }
}

/* ---- wrong use ---- */

Test(fit, refuses_wrong_use)
{
    htc_fit          *fit = fit_of(HTC_FIT_PROMISE_HEAD, 4), *other = NULL;
    const htc_fit_job good = job_of(1, 1, S), no_nodes = job_of(2, 0, S), no_time = job_of(2, 1, 0),
                      unknown = job_of(9, 1, S);
    htc_fit_job     job;
    htc_fit_info    info;
    htc_fit_reason  reason;
    htc_fit_policy  policy = { .size = sizeof policy, .promise = 5 };
    htc_fit_options options = { .size = sizeof options, .policy = &policy };
    htc_ns          when;
    uint32_t        n;
    cr_expect(eq(int, htc_fit_create(NULL, NULL, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_fit_create(NULL, &options, &other), HTC_EINVAL));
    policy.promise = 0;
    cr_expect(eq(int, htc_fit_create(NULL, &options, &other), HTC_EINVAL));
    policy.size = 3;
    cr_expect(eq(int, htc_fit_create(NULL, &options, &other), HTC_EINVAL));
    options = (htc_fit_options){ .size = sizeof options, .jobs_max = HTC_FIT_JOBS_MAX + 1 };
    cr_expect(eq(int, htc_fit_create(NULL, &options, &other), HTC_EINVAL));
    options = (htc_fit_options){ .size = 0 };
    cr_expect(eq(int, htc_fit_create(NULL, &options, &other), HTC_EINVAL));
    struct {
        htc_fit_options known;
        uint64_t        more;
    } newer = { { .size = sizeof newer, .nodes = 1 }, 1 };
    cr_expect(eq(int, htc_fit_create(NULL, &newer.known, &other), HTC_EABI));
    cr_expect(other == NULL);
    cr_expect(eq(int, htc_fit_submit(fit, 5, &good), HTC_OK));
    cr_expect(eq(int, htc_fit_submit(fit, 4, &unknown), HTC_EINVAL), "before the last moment");
    cr_expect(eq(int, htc_fit_submit(fit, HTC_NEVER, &unknown), HTC_EINVAL));
    cr_expect(eq(int, htc_fit_submit(fit, 5, &no_nodes), HTC_EINVAL));
    cr_expect(eq(int, htc_fit_submit(fit, 5, &no_time), HTC_EINVAL));
    cr_expect(eq(int, htc_fit_submit(fit, 5, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_fit_submit(NULL, 5, &good), HTC_EINVAL));
    cr_expect(eq(int, htc_fit_submit(fit, 5, &good), HTC_EEXISTS));
    cr_expect(eq(int, htc_fit_change(fit, 5, &no_time), HTC_EINVAL));
    cr_expect(eq(int, htc_fit_change(fit, 5, &unknown), HTC_ENOTFOUND));
    cr_expect(eq(int, htc_fit_change(fit, 5, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_fit_start(fit, 5, 9), HTC_ENOTFOUND));
    cr_expect(eq(int, htc_fit_end(fit, 5, 9), HTC_ENOTFOUND));
    cr_expect(eq(int, htc_fit_end(fit, 4, 1), HTC_EINVAL));
    cr_expect(eq(int, htc_fit_requeue(fit, 5, 9), HTC_ENOTFOUND));
    cr_expect(eq(int, htc_fit_requeue(fit, 5, 1), HTC_EINVAL), "it waits");
    cr_expect(eq(int, htc_fit_add_nodes(fit, 5, UINT32_MAX), HTC_EINVAL));
    cr_expect(eq(int, htc_fit_remove_nodes(fit, 5, 5), HTC_EINVAL));
    cr_expect(eq(int, htc_fit_add_nodes(NULL, 5, 1), HTC_EINVAL));
    cr_expect(eq(int, htc_fit_remove_nodes(NULL, 5, 1), HTC_EINVAL));
    cr_expect(eq(int, htc_fit_get(fit, 9, &info), HTC_ENOTFOUND));
    cr_expect(eq(int, htc_fit_get(fit, 1, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_fit_get(NULL, 1, &info), HTC_EINVAL));
    cr_expect(eq(int, htc_fit_at(fit, 1, &job), HTC_ENOTFOUND));
    cr_expect(eq(int, htc_fit_at(NULL, 0, &job), HTC_EINVAL));
    cr_expect(eq(int, htc_fit_candidate(fit, 5, NULL, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_fit_candidate(NULL, 5, NULL, &job), HTC_EINVAL));
    cr_expect(eq(int, htc_fit_shadow(fit, 5, 1, NULL, &n), HTC_EINVAL));
    cr_expect(eq(int, htc_fit_shadow(fit, 5, 1, &when, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_fit_when(fit, 5, 9, &when, NULL), HTC_ENOTFOUND));
    cr_expect(eq(int, htc_fit_when(fit, 5, 1, NULL, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_fit_forecast(fit, 5, NULL, 1), HTC_EINVAL));
    cr_expect(eq(int, htc_fit_forecast(fit, 5, &when, 2), HTC_EINVAL));
    cr_expect(eq(int, htc_fit_explain(fit, 5, 1, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_fit_explain(fit, 5, 9, &reason), HTC_ENOTFOUND));
    cr_expect(eq(int, htc_fit_next(NULL, 5, &job), HTC_EINVAL));
    cr_expect(eq(int, htc_fit_next(fit, 4, &job), HTC_EINVAL));
    cr_expect(eq(int, htc_fit_next(fit, 5, &job), HTC_OK));
    cr_expect(eq(int, htc_fit_start(fit, 5, 1), HTC_EINVAL), "it runs");
    cr_expect(eq(int, htc_fit_change(fit, 5, &(htc_fit_job){ .id = 1, .nodes = 2, .estimate = S }), HTC_EINVAL));
    cr_expect(eq(int, htc_fit_when(fit, 5, 1, &when, NULL), HTC_EINVAL), "it runs");
    htc_fit_count(NULL, &(htc_fit_counts){ 0 });
    htc_fit_count(fit, NULL);
    htc_fit_options_init(NULL, 8);
    htc_fit_destroy(fit);
    htc_fit_destroy(NULL);
}

Test(fit, holds_as_many_jobs_as_it_was_told)
{
    htc_fit_options options;
    htc_fit        *fit;
    htc_fit_options_init(&options, sizeof options);
    options.jobs_max = 20;
    options.nodes = 10;
    cr_assert(eq(int, htc_fit_create(NULL, &options, &fit), HTC_OK));
    for (uint64_t id = 0; id < 20; id++)
        cr_expect(eq(int, htc_fit_submit(fit, 0, &(htc_fit_job){ .id = id, .nodes = 1, .estimate = 1 }), HTC_OK));
    cr_expect(eq(int, htc_fit_next(fit, 0, NULL), HTC_OK));
    cr_expect(eq(int, htc_fit_submit(fit, 0, &(htc_fit_job){ .id = 20, .nodes = 1, .estimate = 1 }), HTC_EFULL));
    cr_expect(eq(int, htc_fit_end(fit, 0, 0), HTC_OK));
    cr_expect(eq(int, htc_fit_submit(fit, 0, &(htc_fit_job){ .id = 20, .nodes = 1, .estimate = 1 }), HTC_OK));
    htc_fit_destroy(fit);
}

/* The ends of the numbers: the most nodes, the last moment, the longest estimate that is one. */
Test(fit, takes_the_largest_numbers)
{
    for (uint32_t p = HTC_FIT_PROMISE_NOTHING; p <= HTC_FIT_PROMISE_ALL; p++) {
        htc_fit          *fit = fit_of(p, UINT32_MAX);
        htc_ns            last = HTC_NEVER - 1, starts[2];
        htc_fit_job       job;
        const htc_fit_job all = {
            .id = UINT64_MAX, .nodes = UINT32_MAX, .estimate = HTC_NEVER - 1, .priority = UINT32_MAX
        };
        const htc_fit_job more[] = { job_of(1, UINT32_MAX, 1), job_of(2, 1, HTC_NEVER) };
        cr_assert(eq(int, htc_fit_submit(fit, 7, &all), HTC_OK));
        cr_expect(eq(int, htc_fit_next(fit, 7, &job), HTC_OK));
        cr_expect(eq(int, htc_fit_submit(fit, 7, &more[0]), HTC_OK));
        cr_expect(eq(int, htc_fit_submit(fit, 7, &more[1]), HTC_OK));
        cr_expect(eq(int, htc_fit_forecast(fit, 7, starts, 2), HTC_OK));
        cr_expect(eq(u64, starts[0], HTC_NEVER));
        cr_expect(eq(int, htc_fit_next(fit, last, &job), HTC_AGAIN));
        cr_expect(eq(int, htc_fit_remove_nodes(fit, last, UINT32_MAX), HTC_OK));
        cr_expect(eq(int, htc_fit_next(fit, last, &job), HTC_AGAIN));
        cr_expect(eq(int, htc_fit_explain(fit, last, 1, &(htc_fit_reason){ 0 }), HTC_OK));
        cr_expect(eq(int, htc_fit_add_nodes(fit, last, UINT32_MAX), HTC_OK));
        cr_expect(eq(int, htc_fit_end(fit, last, UINT64_MAX), HTC_OK));
        cr_expect(eq(int, htc_fit_next(fit, last, &job), HTC_OK));
        htc_fit_destroy(fit);
    }
}

/* ---- memory ---- */

/* Arrivals, decisions and forecasts until memory is refused: what failed has changed nothing, and all goes on. */
static void without_memory(alloc_fail *f, uint32_t promise)
{
    htc_env env = alloc_fail_env(f);
    twins   t;
    htc_rng rng = { promise };
    if (twins_open(&t, &env, promise, 6) != HTC_OK)
        return;
    for (int i = 0; i < 40; i++) {
        htc_ns      now = model_ns(t.now), starts[64];
        htc_fit_job job = job_of((uint64_t)i, (uint32_t)htc_rng_below(&rng, 6) + 1, (htc_rng_below(&rng, 9) + 1) * S);
        if (t.model.n < MODEL_JOBS) {
            htc_status status = htc_fit_submit(t.fit, now, &job);
            cr_assert(status == HTC_OK || status == HTC_ENOMEM);
            if (status == HTC_OK)
                model_submit(&t.model, t.now, job.id, (int)job.nodes, (int)(job.estimate / S), 0);
        }
        const char *wrong = twins_decide(&t);
        wrong = wrong ? wrong : twins_compare(&t);
        cr_assert(wrong == NULL, "%s", wrong);
        htc_fit_counts c;
        htc_fit_count(t.fit, &c);
        starts[0] = 1;
        htc_status status = htc_fit_forecast(t.fit, now, starts, c.waiting);
        cr_assert(status == HTC_OK || (status == HTC_ENOMEM && starts[0] == 1));
        if (c.waiting > 0) {
            cr_assert(htc_fit_at(t.fit, c.waiting - 1, &job) == HTC_OK);
            htc_ns start = 1;
            status = htc_fit_when(t.fit, now, job.id, &start, NULL);
            cr_assert(status == HTC_OK || (status == HTC_ENOMEM && start == 1));
        }
        t.now += i % 3;
        wrong = twins_due(&t, ~UINT64_C(0));
        cr_assert(wrong == NULL, "%s", wrong);
    }
    htc_fit_destroy(t.fit);
}

Test(fit, stays_as_it_was_without_memory)
{
    for (uint32_t p = HTC_FIT_PROMISE_NOTHING; p <= HTC_FIT_PROMISE_ALL; p++) {
        ALLOC_FAIL_EVERY(f, 2000)
        {
            without_memory(&f, p);
            cr_expect(eq(sz, f.live, 0));
            cr_expect(eq(sz, f.wrong_sizes, 0));
        }
        ALLOC_FAIL_ONCE(f, 2000)
        {
            without_memory(&f, p);
            cr_expect(eq(sz, f.live, 0));
            cr_expect(eq(sz, f.wrong_sizes, 0));
        }
    }
}

/* ---- many that run ---- */

#define MANY 90u

/* When so many nodes are free, and how many more: by going through all that run. */
static void shadow_by_hand(const htc_fit *fit, htc_ns now, uint32_t nodes, htc_ns *when, uint32_t *spare)
{
    htc_fit_counts c;
    htc_fit_info   x, y;
    htc_fit_count(fit, &c);
    *when = nodes <= c.free ? now : HTC_NEVER;
    *spare = nodes <= c.free ? c.free - nodes : 0;
    for (uint64_t a = 0; a < MANY && nodes > c.free; a++) {
        if (htc_fit_get(fit, a, &x) != HTC_OK)
            continue;
        htc_ns   end = x.ends < now ? now + HTC_FIT_OVERDUE_NS : x.ends;
        uint32_t free = c.free;
        for (uint64_t b = 0; b < MANY; b++)
            if (htc_fit_get(fit, b, &y) == HTC_OK && (y.ends < now ? now + HTC_FIT_OVERDUE_NS : y.ends) <= end)
                free += y.job.nodes;
        if (free >= nodes && end < *when) {
            *when = end;
            *spare = free - nodes;
        }
    }
}

/* Few running jobs are a list, more are a treap, and fewer are a list again: what is told of them stays right. */
Test(fit, tells_when_nodes_are_free_however_many_jobs_run)
{
    PROPERTY(rng, 10)
    {
        htc_fit_options options = { .size = sizeof options, .nodes = 3 * MANY };
        htc_fit        *fit = NULL;
        htc_ns          now = 0, when = 0, expected = 0;
        uint32_t        spare = 0, left = 0, most = 0, least = MANY;
        HOLDS(htc_fit_create(NULL, &options, &fit) == HTC_OK);
        for (uint32_t step = 0; step < 1200; step++) {
            uint64_t    id = htc_rng_below(&rng, MANY);
            uint32_t    fewer = step / 300 % 2; /* they come, and they go */
            htc_fit_job job = job_of(id, 1 + (uint32_t)htc_rng_below(&rng, 3), (1 + htc_rng_below(&rng, 20)) * S);
            htc_fit_info info;
            now += htc_rng_below(&rng, 3) * S / 8;
            if (htc_fit_get(fit, id, &info) == HTC_OK && htc_rng_below(&rng, 4) < 1 + 3 * fewer)
                HOLDS(htc_fit_end(fit, now, id) == HTC_OK);
            else if (htc_fit_get(fit, id, &info) == HTC_ENOTFOUND && !fewer)
                HOLDS(htc_fit_submit(fit, now, &job) == HTC_OK && htc_fit_start(fit, now, id) == HTC_OK);
            htc_fit_counts c;
            htc_fit_count(fit, &c);
            most = c.running > most ? c.running : most;
            least = step > 300 && c.running < least ? c.running : least;
            uint32_t nodes = (uint32_t)htc_rng_below(&rng, 3 * MANY + 1);
            if (step % 4)
                continue;
            HOLDS(htc_fit_shadow(fit, now, nodes, &when, &spare) == HTC_OK);
            shadow_by_hand(fit, now, nodes, &expected, &left);
            HOLDS(when == expected && spare == left);
        }
        HOLDS(most > 40 && least < 10);
        htc_fit_destroy(fit);
    }
}
