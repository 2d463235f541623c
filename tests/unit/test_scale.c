/* The engine of the scale models: order, lengths, what is conserved, and what the host says. */
#include <math.h>

#include "alloc_fail.h"
#include "../scale_crowd.h"
#include "property.h"

#include "htcsched/sim_scale.h"
#include "sim/scale/draw.h"

/* ---- a farm of cores that works off a bag ---- */

typedef struct farm {
    htc_scale_law law;
    uint64_t      next, tasks, ends;
    int           loses, doubles; /* an end that is not counted, or counted twice */
    uint64_t      stop_after;
    volatile int  stop;
} farm;

static void farm_next(htc_scale *s, farm *f, uint32_t core)
{
    if (f->next < f->tasks)
        htc_scale_start(s, core, 1, htc_scale_length(s, &f->law, 1, f->next++));
}

static void farm_event(htc_scale *s, void *ctx, uint32_t core)
{
    farm *f = ctx;
    f->ends++;
    if (!f->loses || f->ends != 5)
        htc_scale_end(s);
    if (f->doubles && f->ends == 5)
        htc_scale_end(s);
    f->stop |= f->ends == f->stop_after;
    farm_next(s, f, core);
}

static htc_scale *farm_open(farm *f, uint32_t cores, const htc_scale_host *host)
{
    htc_scale_options o = { .size = sizeof o, .seed = 9, .ids = cores, .cores = cores, .event = farm_event, .ctx = f, .host = host };
    htc_scale        *s = NULL;
    cr_assert(eq(int, htc_scale_create(NULL, &o, &s, NULL), HTC_OK));
    htc_scale_submit(s, f->tasks);
    for (uint32_t i = 0; i < cores; i++)
        farm_next(s, f, i);
    return s;
}

static htc_scale_report farm_run(farm *f, uint32_t cores)
{
    htc_scale       *s = farm_open(f, cores, NULL);
    htc_scale_report r = { .size = sizeof r };
    cr_assert(eq(int, htc_scale_run(s), HTC_OK));
    cr_assert(eq(int, htc_scale_report_get(s, &r), HTC_OK));
    htc_scale_destroy(s);
    return r;
}

/* 1000 tasks of 1 s and 1 ms of delay on 100 cores: ten rounds. */
Test(scale, runs_a_farm)
{
    farm             f = { .law = { .mean_ns = 1e9 }, .tasks = 1000 };
    htc_scale_report r = farm_run(&f, 100);
    cr_expect(eq(str, r.wrong, ""));
    cr_expect(eq(u64, r.ended, 1000));
    cr_expect(eq(u64, r.makespan, 10 * (HTC_SECOND + HTC_MS)));
    cr_expect(eq(dbl, r.work_s, 1000));
    cr_expect(eq(dbl, r.busy_s, 1000));
    cr_expect(eq(dbl, r.bound_s, 10));
    cr_expect(eq(u64, r.events, 1000));
}

/* The hash is that of this seed on every machine and with every compiler; exponential lengths are made of additions, multiplications and
 * divisions alone. */
Test(scale, is_the_same_run_everywhere)
{
    static const uint64_t expected[] = { UINT64_C(8691813026658863847), UINT64_C(9452088933430891038), UINT64_C(7816921602452015672), UINT64_C(3369571073790777529),
                                         UINT64_C(8742464544805946393), UINT64_C(18162725383130823989), UINT64_C(14184745815461994) };
    for (uint32_t kind = HTC_SCALE_CONSTANT; kind <= HTC_SCALE_GAMMA; kind++) {
        farm             f = { .law = { kind, 0, 4e9, kind == HTC_SCALE_UNIFORM || kind == HTC_SCALE_LOGNORMAL || kind == HTC_SCALE_GAMMA ? 0.5 : 0 }, .tasks = 20000 };
        htc_scale_report r = farm_run(&f, 300);
        cr_expect(eq(str, r.wrong, ""));
        cr_expect(eq(u64, r.hash, expected[kind]), "kind %u", (unsigned)kind);
    }
}

static uint8_t  foretold[5000], nearer[5000]; /* of each id */
static uint64_t foreseen, fetched;

static void note_soon(const void *ctx, uint32_t id)
{
    (void)ctx;
    foretold[id] = 1;
}

static void note_next(const void *ctx, uint32_t id)
{
    (void)ctx;
    nearer[id] = foretold[id];
}

static void farm_event_foreseen(htc_scale *s, void *ctx, uint32_t core)
{
    foreseen += foretold[core];
    fetched += nearer[core];
    foretold[core] = nearer[core] = 0;
    farm_event(s, ctx, core);
}

/* A model is told of most events a little earlier, and once more when they are nearer; the run is the same. */
Test(scale, looks_ahead)
{
    farm              f = { .law = { HTC_SCALE_EXPONENTIAL, 0, 1e11, 0 }, .tasks = 100000 }, plain = f;
    htc_scale_options o = { .size = sizeof o, .seed = 9, .ids = 5000, .cores = 5000, .event = farm_event_foreseen, .soon = note_soon, .next = note_next, .ctx = &f };
    htc_scale        *s = NULL;
    htc_scale_report  r = { .size = sizeof r };
    cr_assert(eq(int, htc_scale_create(NULL, &o, &s, NULL), HTC_OK));
    htc_scale_submit(s, f.tasks);
    for (uint32_t i = 0; i < 5000; i++)
        farm_next(s, &f, i);
    cr_assert(eq(int, htc_scale_run(s), HTC_OK));
    htc_scale_report_get(s, &r);
    htc_scale_destroy(s);
    cr_expect(foreseen > 80000, "%llu of 100000 events", (unsigned long long)foreseen);
    cr_expect(fetched > 80000, "%llu of 100000 events, nearer", (unsigned long long)fetched);
    cr_expect(eq(u64, r.hash, farm_run(&plain, 5000).hash));
}

Test(scale, notices_what_is_not_conserved)
{
    farm             lost = { .law = { .mean_ns = 1e9 }, .tasks = 100, .loses = 1 }, twice = { .law = { .mean_ns = 1e9 }, .tasks = 100, .doubles = 1 };
    htc_scale_report r = farm_run(&lost, 10);
    cr_expect(strstr(r.wrong, "100 tasks were submitted and 99 ended") != NULL, "%s", r.wrong);
    r = farm_run(&twice, 10);
    cr_expect(strstr(r.wrong, "101 ended") != NULL, "%s", r.wrong);
}

/* A task that is counted where another one ended is noticed by the time that cores were busy. */
static void early(htc_scale *s, void *ctx, uint32_t id)
{
    (void)ctx;
    if (id == 0)
        htc_scale_end(s); /* of the task that ends at id 1 */
}

static void each_at_its_end(htc_scale *s, void *ctx, uint32_t id)
{
    (void)ctx;
    (void)id;
    htc_scale_end(s);
}

Test(scale, notices_a_task_that_ends_at_another_time)
{
    htc_scale_options o = { .size = sizeof o, .ids = 2, .cores = 2, .event = early };
    htc_scale_report  r = { .size = sizeof r };
    htc_scale        *s = NULL;
    cr_assert(eq(int, htc_scale_create(NULL, &o, &s, NULL), HTC_OK));
    htc_scale_submit(s, 1);
    htc_scale_start(s, 1, 0, 100);
    htc_scale_at(s, 50, 0);
    cr_assert(eq(int, htc_scale_run(s), HTC_OK) && eq(int, htc_scale_report_get(s, &r), HTC_OK));
    cr_expect(strstr(r.wrong, "busy for 50 ticks, and the tasks have 100") != NULL, "%s", r.wrong);
    htc_scale_messages(s, 3, 1, 1);
    cr_assert(eq(int, htc_scale_report_get(s, &r), HTC_OK));
    cr_expect(strstr(r.wrong, "of 3 messages") != NULL, "%s", r.wrong);
    htc_scale_destroy(s);
}

/* Two tasks of 50 and 150 ticks end both after 100: what ended and what was busy agree, and the longer one had no time for it. */
static void both_at_once(htc_scale *s, void *ctx, uint32_t id)
{
    (void)ctx;
    if (id == 0) {
        htc_scale_end(s);
        htc_scale_end(s);
    }
}

Test(scale, notices_a_makespan_that_is_too_short)
{
    for (uint64_t cores = 0; cores <= 2; cores++) { /* 0: it is not known how many there are */
        htc_scale_options o = { .size = sizeof o, .ids = 3, .cores = cores, .event = both_at_once };
        htc_scale_report  r = { .size = sizeof r };
        htc_scale        *s = NULL;
        cr_assert(eq(int, htc_scale_create(NULL, &o, &s, NULL), HTC_OK));
        htc_scale_submit(s, 2);
        htc_scale_start(s, 1, 0, 50);
        htc_scale_start(s, 2, 0, 150);
        htc_scale_at(s, 100, 0);
        cr_assert(eq(int, htc_scale_run(s), HTC_OK) && eq(int, htc_scale_report_get(s, &r), HTC_OK));
        cr_expect(strstr(r.wrong, "a makespan of 100 ticks, where one task has 150") != NULL, "%s", r.wrong);
        htc_scale_destroy(s);
    }
}

/* Three tasks of 100 ticks at once are more than two cores can do. */
Test(scale, notices_more_work_than_cores_can_do)
{
    htc_scale_options o = { .size = sizeof o, .ids = 3, .cores = 2, .event = each_at_its_end };
    htc_scale_report  r = { .size = sizeof r };
    htc_scale        *s = NULL;
    cr_assert(eq(int, htc_scale_create(NULL, &o, &s, NULL), HTC_OK));
    htc_scale_submit(s, 3);
    for (uint32_t i = 0; i < 3; i++)
        htc_scale_start(s, i, 0, 100);
    cr_assert(eq(int, htc_scale_run(s), HTC_OK) && eq(int, htc_scale_report_get(s, &r), HTC_OK));
    cr_expect(strstr(r.wrong, "a makespan of 100 ticks, where 2 cores have 300 ticks of work") != NULL, "%s", r.wrong);
    htc_scale_destroy(s);
}

/* ---- the host ---- */

typedef struct watcher {
    htc_ns   now;
    uint64_t told, done;
    double   rate;
} watcher;

static htc_ns clock_of(void *ctx)
{
    return ((watcher *)ctx)->now += 300 * HTC_MS;
}

static void note(void *ctx, const htc_scale_progress *p)
{
    watcher *w = ctx;
    w->told++;
    cr_expect(p->done >= w->done && p->done <= p->total);
    w->done = p->done;
    w->rate = p->rate;
}

Test(scale, is_stopped_and_goes_on_to_the_same_end)
{
    farm             whole = { .law = { HTC_SCALE_EXPONENTIAL, 0, 1e9, 0 }, .tasks = 200000 }, f = whole;
    watcher          w = { 0 };
    htc_scale_host   host = { .size = sizeof host, .stop = &f.stop, .clock = clock_of, .progress = note, .ctx = &w };
    htc_scale_report expected = farm_run(&whole, 100), part = { .size = sizeof part }, r = part;
    f.stop_after = 70000;
    htc_scale *s = farm_open(&f, 100, &host);
    cr_assert(eq(int, htc_scale_run(s), HTC_AGAIN));
    cr_assert(eq(int, htc_scale_report_get(s, &part), HTC_OK));
    cr_expect(eq(u32, part.finished, 0) && eq(str, part.wrong, ""));
    cr_expect(part.ended >= 70000 && part.ended < 70000 + 20000 && part.busy_s > 0 && part.busy_s <= part.work_s);
    cr_expect(w.told > 2 && w.rate > 0);
    f.stop = 0;
    cr_assert(eq(int, htc_scale_run(s), HTC_OK));
    cr_assert(eq(int, htc_scale_report_get(s, &r), HTC_OK));
    cr_expect(eq(u64, r.hash, expected.hash) && eq(u64, r.makespan, expected.makespan));
    htc_scale_destroy(s);
}

/* By itself, after exactly so many events; then again after as many. */
Test(scale, stops_after_so_many_events)
{
    farm             f = { .law = { HTC_SCALE_EXPONENTIAL, 0, 1e9, 0 }, .tasks = 20000 }, whole = f;
    htc_scale_host   host = { .size = sizeof host, .stop_after = 7001 };
    htc_scale_report expected = farm_run(&whole, 100), r = { .size = sizeof r };
    htc_scale       *s = farm_open(&f, 100, &host);
    uint64_t         events = 0;
    htc_status       status;
    while ((status = htc_scale_run(s)) == HTC_AGAIN) {
        cr_assert(eq(int, htc_scale_report_get(s, &r), HTC_OK));
        cr_expect(eq(u64, r.events, events += 7001) && eq(u64, r.events_here, 7001) && eq(str, r.wrong, ""));
    }
    cr_assert(eq(int, status, HTC_OK) && eq(int, htc_scale_report_get(s, &r), HTC_OK));
    cr_expect(events > 7001 && r.ended_here < r.ended && eq(u64, r.events_here, r.events - events) && eq(u64, r.hash, expected.hash) && eq(u64, r.events, expected.events));
    htc_scale_destroy(s);
}

Test(scale, says_what_it_needs_and_refuses_more_than_is_allowed)
{
    htc_scale_host    host = { .size = sizeof host, .memory_max = 64 << 20 };
    htc_scale_options o = { .size = sizeof o, .ids = 100000000, .event = early, .host = &host };
    htc_scale        *s = NULL;
    htc_error         e = { 0 };
    uint64_t          bytes = 0;
    cr_assert(eq(int, htc_scale_memory(&o, &bytes), HTC_OK));
    cr_expect(bytes > 8u * 100000000u && bytes < 9u * 100000000u);
    cr_expect(eq(int, htc_scale_create(NULL, &o, &s, &e), HTC_ETOOBIG));
    cr_expect(strstr(e.text, "64 MiB are allowed") != NULL && s == NULL, "%s", e.text);
    o.ids = 1000;
    cr_assert(eq(int, htc_scale_create(NULL, &o, &s, &e), HTC_OK));
    htc_scale_destroy(s);
}

Test(scale, refuses_wrong_use)
{
    htc_scale_options o = { .size = sizeof o, .ids = 4, .events_max = 2, .event = early };
    htc_scale        *s = NULL;
    cr_expect(eq(int, htc_scale_create(NULL, NULL, &s, NULL), HTC_EINVAL));
    o.ids = 0;
    cr_expect(eq(int, htc_scale_create(NULL, &o, &s, NULL), HTC_EINVAL));
    o.ids = 4;
    o.event = NULL;
    cr_expect(eq(int, htc_scale_create(NULL, &o, &s, NULL), HTC_EINVAL));
    o.event = early;
    cr_assert(eq(int, htc_scale_create(NULL, &o, &s, NULL), HTC_OK));
    cr_expect(eq(int, htc_scale_at(s, 5, 4), HTC_EINVAL));
    cr_expect(eq(int, htc_scale_at(s, UINT64_C(1) << 62, 3), HTC_ETOOBIG));
    cr_expect(eq(int, htc_scale_at(s, 5, 3), HTC_OK) && eq(int, htc_scale_at(s, 5, 2), HTC_OK));
    cr_expect(eq(int, htc_scale_at(s, 5, 1), HTC_EFULL));
    cr_expect(eq(int, htc_scale_run(s), HTC_EINVAL), "the first mistake is what the run answers");
    htc_scale_destroy(s);
    htc_scale_destroy(NULL);
    cr_expect(eq(int, htc_scale_law_check(&(htc_scale_law){ HTC_SCALE_UNIFORM, 0, 5, 1.5 }), HTC_EINVAL));
    cr_expect(eq(int, htc_scale_law_check(&(htc_scale_law){ HTC_SCALE_LOGNORMAL, 0, 5, 1.5 }), HTC_OK));
    cr_expect(eq(int, htc_scale_law_check(&(htc_scale_law){ HTC_SCALE_GAMMA, 0, 5, 10 }), HTC_OK));
    cr_expect(eq(int, htc_scale_law_check(&(htc_scale_law){ HTC_SCALE_GAMMA, 0, 5, 10.5 }), HTC_EINVAL));
    cr_expect(eq(int, htc_scale_law_check(&(htc_scale_law){ HTC_SCALE_MTC, 0, 5, 0 }), HTC_OK));
    cr_expect(eq(int, htc_scale_law_check(&(htc_scale_law){ HTC_SCALE_MTC, 0, 5, 1 }), HTC_EINVAL));
    cr_expect(eq(int, htc_scale_law_check(&(htc_scale_law){ HTC_SCALE_GAMMA + 1, 0, 5, 0 }), HTC_EINVAL));
}

Test(scale, ends_without_memory)
{
    htc_scale_options o = { .size = sizeof o, .ids = 4, .event = early };
    for (size_t n = 1; n <= 3; n++) {
        alloc_fail f = alloc_fail_at(n);
        htc_env    env = alloc_fail_env(&f);
        htc_scale *s = NULL;
        cr_expect(eq(int, htc_scale_create(&env, &o, &s, NULL), HTC_ENOMEM));
        cr_expect(eq(sz, f.live, 0) && eq(sz, f.wrong_sizes, 0));
    }
}

/* ---- lengths ---- */

/* 10^5 draws: the mean of n independent ones with deviation d is off by 6 d / sqrt(n) once in 10^9; the seed is fixed. */
Test(scale, lengths_have_their_mean_and_spread)
{
    static const struct {
        htc_scale_law law;
        double        cv;
    } cases[] = { { { HTC_SCALE_CONSTANT, 0, 5e9, 0 }, 0 },         { { HTC_SCALE_UNIFORM, 0, 5e9, 1 }, 0.57735 },
                  { { HTC_SCALE_EXPONENTIAL, 0, 5e9, 0 }, 1 },      { { HTC_SCALE_LOGNORMAL, 0, 5e9, 0.3 }, 0.3 },
                  { { HTC_SCALE_LOGNORMAL, 0, 5e9, 0.8 }, 0.8 },    { { HTC_SCALE_GAMMA, 0, 5e9, 0.005 }, 0.005 },
                  { { HTC_SCALE_GAMMA, 0, 5e9, 0.3 }, 0.3 },        { { HTC_SCALE_GAMMA, 0, 5e9, 1 }, 1 },
                  { { HTC_SCALE_GAMMA, 0, 5e9, 2 }, 2 },            { { HTC_SCALE_GAMMA, 0, 5e9, 0 }, 0 } };
    htc_scale_options o = { .size = sizeof o, .ids = 1, .event = early, .tick_ns = HTC_US };
    htc_scale        *s = NULL;
    const int         n = 100000;
    cr_assert(eq(int, htc_scale_create(NULL, &o, &s, NULL), HTC_OK));
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        double sum = 0, squares = 0;
        for (int i = 0; i < n; i++) {
            double x = (double)htc_scale_length(s, &cases[k].law, k, (uint64_t)i) * 1e3;
            sum += x;
            squares += x * x;
        }
        double mean = sum / n, cv = sqrt(fmax(0, squares / n - mean * mean)) / mean;
        cr_expect(fabs(mean / 5e9 - 1) <= 6 * cases[k].cv / sqrt(n) + 1e-6, "case %zu: mean %g", k, mean);
        cr_expect(fabs(cv - cases[k].cv) < 0.03, "case %zu: cv %g", k, cv);
    }
    htc_scale_destroy(s);
}

/* With shapes that are whole numbers n the distribution function is 1 - e^-x (1 + x + ... + x^(n - 1) / (n - 1)!), with 1 / 2 it is erf(sqrt(x)); the third moment is
 * (1 + cv^2) (1 + 2 cv^2). The numbers that are drawn are spread evenly, from the least to the largest: lengths grow with them. */
Test(scale, gamma_lengths_have_the_distribution)
{
    static const double shapes[] = { 0.01, 0.5, 1, 2, 5, 40, 400 };
    const int           n = 20000;
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
        double            shape = shapes[k], cv = sqrt(1 / shape), last = -1, sum = 0, squares = 0, cubes = 0;
        htc__scale_drawer d = htc__scale_drawer_of(&(htc_scale_law){ HTC_SCALE_GAMMA, 0, 1e12, cv }, 1);
        for (int i = 0; i < n; i++) {
            double p = (i + 0.5) / n, x = (double)htc__scale_drawer_ticks(&d, (uint64_t)(p * 0x1p64)) / 1e12, at = x * shape, term = 1, all = 1;
            for (int j = 1; j < shape; j++)
                all += term *= at / j;
            double found = shape == 0.5 ? erf(sqrt(at)) : 1 - exp(-at) * all;
            cr_assert(x >= last && (shape < 0.5 || fabs(found - p) < 1e-7), "shape %g: %.12g of the lengths are below %.12g", shape, found, x);
            last = x;
            sum += x;
            squares += x * x;
            cubes += x * x * x;
        }
        double v = cv * cv, off = shape < 0.5 ? 0.05 : 0.005; /* what lies beyond the last of so many */
        cr_expect(fabs(sum / n - 1) < off && fabs(squares / n / (1 + v) - 1) < 2 * off && fabs(cubes / n / (1 + v) / (1 + 2 * v) - 1) < 4 * off,
                  "shape %g: moments %g, %g and %g", shape, sum / n, squares / n, cubes / n);
        double least = (double)htc__scale_drawer_ticks(&d, 0), most = (double)htc__scale_drawer_ticks(&d, UINT64_MAX);
        cr_expect(least <= 1e12 && most >= last * 1e12 && most < 1e12 * (1 + 40 * v + 10 * cv), "shape %g: from %g to %g", shape, least, most);
    }
}

/* The published numbers of the trace, and those of its tasks below a second: 10^6 draws. */
Test(scale, many_task_lengths_are_those_of_the_trace)
{
    static const double at_most[] = { 1, 10.63, 30, 81.03, 240.8, 474.0, 1022.1 }, part[] = { 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99 };
    htc_scale_law       all = { HTC_SCALE_MTC, 0, HTC_SCALE_MTC_MEAN_NS, 0 }, short_ones = { HTC_SCALE_MTC_SUBSECOND, 0, HTC_SCALE_MTC_SUBSECOND_MEAN_NS, 0 };
    htc_scale_options   o = { .size = sizeof o, .ids = 1, .event = early, .tick_ns = HTC_US };
    htc_scale          *s = NULL;
    const int           n = 1000000;
    double              sum = 0, squares = 0, sum_short = 0, squares_short = 0, most = 0, most_short = 0, below[7] = { 0 };
    cr_assert(eq(int, htc_scale_create(NULL, &o, &s, NULL), HTC_OK));
    for (int i = 0; i < n; i++) {
        double x = (double)htc_scale_length(s, &all, 0, (uint64_t)i) * 1e-6, y = (double)htc_scale_length(s, &short_ones, 1, (uint64_t)i) * 1e-6;
        sum += x;
        squares += x * x;
        sum_short += y;
        squares_short += y * y;
        most = fmax(most, x);
        most_short = fmax(most_short, y);
        for (int k = 0; k < 7; k++)
            below[k] += x <= at_most[k];
    }
    double mean = sum / n, mean_short = sum_short / n;
    cr_expect(fabs(mean - 95.2) < 6 * 188.08 / sqrt(n), "mean %g s", mean);
    cr_expect(fabs(sqrt(squares / n - mean * mean) - 188.08) < 1.5, "deviation %g s", sqrt(squares / n - mean * mean));
    cr_expect(fabs(mean_short - 0.34399) < 6 * 0.266 / sqrt(n), "mean %g s", mean_short);
    cr_expect(fabs(sqrt(squares_short / n - mean_short * mean_short) - 0.26598) < 0.001, "deviation %g s", sqrt(squares_short / n - mean_short * mean_short));
    cr_expect(most <= 1469.62 && most > 1400 && most_short <= 1.0001, "%g and %g s", most, most_short);
    for (int k = 0; k < 7; k++)
        cr_expect(fabs(below[k] / n - part[k]) < 0.003, "%g of the tasks take at most %g s", below[k] / n, at_most[k]);
    all.mean_ns = 1e9;
    cr_expect(eq(u64, htc_scale_length(s, &all, 0, 7), (uint64_t)((double)htc_scale_length(s, &(htc_scale_law){ HTC_SCALE_MTC, 0, 1e12, 0 }, 0, 7) / 1000 + 0.5)), "stretched");
    htc_scale_destroy(s);
}

/* ---- arrivals ---- */

static htc_scale *draws_of(htc_ns tick_ns)
{
    htc_scale_options o = { .size = sizeof o, .ids = 1, .event = early, .tick_ns = tick_ns };
    htc_scale        *s = NULL;
    cr_assert(eq(int, htc_scale_create(NULL, &o, &s, NULL), HTC_OK));
    return s;
}

/* A Poisson process has its mean, and as many in each part of the day; with a swing a part has what the rate's integral over it says. */
Test(scale, arrivals_follow_the_day)
{
    static const double swings[] = { 0, 0.5, 0.99 };
    htc_scale          *s = draws_of(HTC_MS);
    for (int k = 0; k < 3; k++) {
        htc_scale_arrivals a = { .size = sizeof a, .gap = { HTC_SCALE_EXPONENTIAL, 0, 60e9, 0 }, .swing = swings[k], .peak_ns = 14 * 3600 * HTC_SECOND };
        double             part[8] = { 0 };
        uint64_t           at = 0, day = 86400000, n = 1440 * 400;
        cr_assert(eq(int, htc_scale_arrivals_check(&a), HTC_OK));
        for (uint64_t i = 0; i < n; i++) {
            uint64_t next = htc_scale_arrival(s, &a, 1, i, at);
            cr_assert(next >= at);
            at = next;
            part[(at + 22 * 3600000) % day * 8 / day] += 1.0 / (double)n; /* from 2 o'clock on, when least come */
        }
        cr_expect(fabs((double)at / 86400000 / 400 - 1) < 0.01, "%g days", (double)at / 86400000);
        for (int i = 0; i < 8; i++) {
            double x = (i < 4 ? i : 7 - i) / 8.0, y = x + 0.125; /* rate 1 - swing + 4 swing x */
            double share = (1 - swings[k]) * 0.125 + 2 * swings[k] * (y * y - x * x);
            cr_expect(fabs(part[i] - share) < 0.003, "swing %g, part %d: %g, not %g", swings[k], i, part[i], share);
        }
    }
    htc_scale_destroy(s);
}

Test(scale, arrivals_come_in_bursts)
{
    htc_scale         *s = draws_of(HTC_MS);
    htc_scale_arrivals a = { .size = sizeof a, .gap = { HTC_SCALE_CONSTANT, 0, 1e9, 0 }, .burst = 12, .burst_gap = { HTC_SCALE_CONSTANT, 0, 1000e9, 0 } };
    uint64_t           at = 0, bursts = 0, n = 120000, hash = 0;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t next = htc_scale_arrival(s, &a, 3, i, at);
        cr_assert(next - at == 1000 || next - at == 1000000);
        bursts += next - at == 1000000;
        at = next;
        hash = hash * UINT64_C(1099511628211) + at;
    }
    cr_expect(fabs((double)n / (double)bursts - 12) < 0.5, "%g jobs a burst", (double)n / (double)bursts);
    a.swing = 0.7;
    a.gap.kind = a.burst_gap.kind = HTC_SCALE_EXPONENTIAL;
    for (uint64_t i = 0; i < n; i++) {
        at = htc_scale_arrival(s, &a, 3, i, at);
        hash = hash * UINT64_C(1099511628211) + at;
    }
    cr_expect(eq(u64, hash, UINT64_C(5038085402957267988)), "the same everywhere");
    htc_scale_destroy(s);
}

Test(scale, refuses_arrivals_that_cannot_be)
{
    htc_scale_arrivals good = { .size = sizeof good }, bad[] = { good, good, good, good, good, good };
    bad[0].size = 0;
    bad[1].gap.mean_ns = -1;
    bad[2].burst = 0.5;
    bad[3].swing = 1;
    bad[4].peak_ns = 86401 * HTC_SECOND;
    bad[5].burst_gap.kind = 99;
    cr_expect(eq(int, htc_scale_arrivals_check(&good), HTC_OK));
    cr_expect(eq(int, htc_scale_arrivals_check(NULL), HTC_EINVAL));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        cr_expect(eq(int, htc_scale_arrivals_check(&bad[i]), HTC_EINVAL), "%zu", i);
}

/* A stream's draws are those of no other stream, and do not depend on what was drawn before. */
Test(scale, draws_have_no_order)
{
    htc_scale_options o = { .size = sizeof o, .ids = 1, .event = early, .seed = 4 };
    htc_scale        *s = NULL;
    cr_assert(eq(int, htc_scale_create(NULL, &o, &s, NULL), HTC_OK));
    uint64_t late = htc_scale_hash(s, 2, 1000), early_ = htc_scale_hash(s, 2, 0);
    cr_expect(eq(u64, htc_scale_hash(s, 2, 0), early_) && eq(u64, htc_scale_hash(s, 2, 1000), late));
    cr_expect(late != early_ && htc_scale_hash(s, 3, 0) != early_ && htc_scale_hash(s, 1, 1000) != late);
    htc_scale_destroy(s);
}

/* ---- parts ---- */

/* One part or many, one thread or two: the same events, the same state of each node. */
Test(scale, is_the_same_run_in_parts_and_on_two_threads)
{
    static const struct {
        uint64_t part_ids;
        int      threads;
    } forms[] = { { 0, 0 }, { NODES, 0 }, { 60, 0 }, { 2, 0 }, { NODES, 1 }, { 60, 1 } };
    static crowd     c;
    htc_scale_report first = { .size = sizeof first };
    uint64_t         sum = 0;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        pair             p;
        htc_scale_host   host = { .size = sizeof host, .parallel = forms[i].threads ? in_pair : NULL, .ctx = &p, .stop_after = i % 2 ? 1000 : 0 };
        htc_scale_report r = { .size = sizeof r };
        c = (crowd){ .hops = 30, .hasty = NODES };
        cr_assert(!forms[i].threads || pair_open(&p) == 0);
        htc_scale *s = crowd_open(&c, forms[i].part_ids, &host);
        int        stops = 0;
        htc_status status = HTC_EINVAL;
        while (s && (status = htc_scale_run(s)) == HTC_AGAIN) /* between two windows */
            stops++;
        cr_assert(eq(int, status, HTC_OK) && (stops > 2) == (host.stop_after > 0));
        htc_scale_report_get(s, &r);
        htc_scale_destroy(s);
        cr_expect(!forms[i].threads || pair_close(&p) > 20);
        cr_expect(eq(str, r.wrong, ""));
        cr_expect(r.events > 5000 && r.sent == r.received && r.sent == r.ended);
        if (i == 0) {
            first = r;
            sum = crowd_sum(&c);
        }
        cr_expect(eq(u64, r.hash, first.hash) && eq(u64, r.makespan, first.makespan) && eq(u64, crowd_sum(&c), sum), "form %zu", i);
    }
}

/* What acts on another part within the window would be seen there too late. */
Test(scale, refuses_messages_that_are_faster_than_the_window)
{
    static crowd c;
    c = (crowd){ .hops = 30, .hasty = 17 };
    htc_scale *s = crowd_open(&c, 0, NULL);
    cr_expect(eq(int, htc_scale_run(s), HTC_OK), "one part has no windows");
    htc_scale_destroy(s);
    c = (crowd){ .hops = 30, .hasty = 17 };
    s = crowd_open(&c, 60, NULL);
    cr_expect(eq(int, htc_scale_run(s), HTC_EINVAL));
    htc_scale_destroy(s);
    htc_scale_options o = { .size = sizeof o, .ids = 10, .event = crowd_event, .part_ids = 5 };
    cr_expect(eq(int, htc_scale_create(NULL, &o, &s, NULL), HTC_EINVAL), "parts without a window");
}
