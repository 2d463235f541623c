/* What a decision costs: a job ends on a full machine, and whoever may start now is started, while so many others wait.
 * Beside it the textbook's way in the same run: the running jobs sorted by their ends, and a walk through the whole
 * queue. */
#include "htcsched/fit.h"
#include "bench.h"

#define SIZES   5
#define NODES   4096
#define GOAL_US 1000

/* A machine in steady state: for each job that starts another one arrives. */
typedef struct site {
    htc_fit *fit;
    htc_rng  rng;
    htc_ns   now;
    uint64_t id;
    uint64_t running[NODES]; /* ids, in no order */
    htc_ns   ends[NODES];
    size_t   n;
    int      exact; /* jobs run as long as they say; else any part of it */
} site;

/* Widths from 1 to 512, most of them powers of two; estimates from a minute to a day, as many in each octave. */
static htc_fit_job draw(site *s)
{
    uint32_t width = UINT32_C(1) << htc_rng_below(&s->rng, 10);
    if (htc_rng_below(&s->rng, 4) == 0)
        width = (uint32_t)htc_rng_below(&s->rng, width) + 1;
    double minutes = exp((double)htc_rng_below(&s->rng, 1000) / 1000 * log(1440));
    return (htc_fit_job){ .id = s->id++, .nodes = width, .estimate = (htc_ns)(minutes * 60e9) };
}

static void arrive(site *s)
{
    htc_fit_job job = draw(s);
    bench_must(htc_fit_submit(s->fit, s->now, &job) == HTC_OK, "submit");
}

/* Starts who may start; how many. */
static size_t decide(site *s)
{
    size_t      n = 0;
    htc_fit_job job;
    for (; htc_fit_next(s->fit, s->now, &job) == HTC_OK; n++) {
        s->running[s->n] = job.id;
        s->ends[s->n++] = s->now + (s->exact ? job.estimate : htc_rng_below(&s->rng, job.estimate) + 1);
    }
    return n;
}

/* The next end; its job. */
static uint64_t next_end(site *s)
{
    size_t first = 0;
    for (size_t i = 1; i < s->n; i++)
        if (s->ends[i] < s->ends[first])
            first = i;
    uint64_t id = s->running[first];
    s->now = s->ends[first];
    s->n--;
    s->running[first] = s->running[s->n];
    s->ends[first] = s->ends[s->n];
    return id;
}

/* As many arrive as have started, and as start because of that. */
static void refill(site *s, size_t started)
{
    for (; started > 0; started = decide(s))
        for (size_t i = 0; i < started; i++)
            arrive(s);
}

static void open_site(site *s, uint32_t promise, size_t waiting, int exact)
{
    htc_fit_policy  policy = { .size = sizeof policy, .promise = promise };
    htc_fit_options options = { .size = sizeof options, .policy = &policy, .nodes = NODES };
    *s = (site){ .rng = { 42 }, .exact = exact };
    bench_must(htc_fit_create(NULL, &options, &s->fit) == HTC_OK, "create");
    for (size_t i = 0; i < waiting; i++)
        arrive(s);
    refill(s, decide(s));
}

/* us for an end and the decisions after it, over so many events; the slowest too. */
static double decision_us(site *s, size_t events, double *slowest)
{
    double sum = 0;
    *slowest = 0;
    for (size_t i = 0; i < events; i++) {
        uint64_t id = next_end(s);
        double   t = bench_cpu_seconds();
        bench_must(htc_fit_end(s->fit, s->now, id) == HTC_OK, "end");
        size_t started = decide(s);
        t = bench_cpu_seconds() - t;
        sum += t;
        *slowest = t > *slowest ? t : *slowest;
        refill(s, started);
    }
    *slowest *= 1e6;
    return sum * 1e6 / (double)events;
}

/* ---- the textbook ---- */

typedef struct plain_job {
    uint32_t nodes;
    htc_ns   time; /* its estimate, or its end */
} plain_job;

static int by_time(const void *a, const void *b)
{
    htc_ns x = ((const plain_job *)a)->time, y = ((const plain_job *)b)->time;
    return (x > y) - (x < y);
}

/* One pass of EASY over plain arrays that starts nothing, as most passes end. */
static double textbook_us(const site *s, size_t waiting, size_t passes)
{
    plain_job *queue = malloc(waiting * sizeof *queue), *running = malloc(s->n * sizeof *running);
    size_t     found = 0;
    bench_must(queue && running, "malloc");
    htc_fit_job job;
    for (size_t i = 0; i < waiting && htc_fit_at(s->fit, i, &job) == HTC_OK; i++)
        queue[i] = (plain_job){ job.nodes, job.estimate };
    double t = bench_cpu_seconds();
    for (size_t pass = 0; pass < passes; pass++) {
        uint32_t     free_nodes = NODES;
        htc_fit_info info;
        for (size_t i = 0; i < s->n; i++)
            if (htc_fit_get(s->fit, s->running[i], &info) == HTC_OK) {
                running[i] = (plain_job){ info.job.nodes, info.ends };
                free_nodes -= info.job.nodes;
            }
        qsort(running, s->n, sizeof *running, by_time);
        uint32_t then = free_nodes;
        size_t   r = 0;
        while (r < s->n && then < queue[0].nodes)
            then += running[r++].nodes;
        htc_ns   shadow = r ? running[r - 1].time : s->now;
        uint32_t spare = then - queue[0].nodes;
        for (size_t i = 1; i < waiting; i++)
            found += queue[i].nodes <= free_nodes && (s->now + queue[i].time <= shadow || queue[i].nodes <= spare);
    }
    t = (bench_cpu_seconds() - t) * 1e6 / (double)passes;
    bench_must(found < SIZE_MAX, "pass");
    free(queue);
    free(running);
    return t;
}

/* ---- the hardest queue for EASY: the narrow are too long and the short too wide, so that no sum tells anything ----
 */

static double hardest_us(size_t waiting, size_t passes)
{
    htc_fit_options options = HTC_FIT_OPTIONS_INIT;
    htc_fit        *fit;
    options.nodes = 1024;
    bench_must(htc_fit_create(NULL, &options, &fit) == HTC_OK, "create");
    for (size_t i = 0; i < waiting; i++) {
        htc_fit_job job = { .id = i, .nodes = i % 2 ? 2 : 100, .estimate = (i % 2 ? 86400 : 60) * HTC_SECOND };
        if (i < 2) /* five nodes are free, the head needs all but one in an hour */
            job = (htc_fit_job){ .id = i, .nodes = i ? 1023 : 1019, .estimate = 3600 * HTC_SECOND };
        bench_must(htc_fit_submit(fit, 0, &job) == HTC_OK, "submit");
    }
    bench_must(htc_fit_next(fit, 0, NULL) == HTC_OK, "first");
    double t = bench_cpu_seconds();
    for (size_t i = 0; i < passes; i++)
        bench_must(htc_fit_next(fit, 0, NULL) == HTC_AGAIN, "pass");
    t = (bench_cpu_seconds() - t) * 1e6 / (double)passes;
    htc_fit_destroy(fit);
    return t;
}

static void row(const bench *b, const char *what, size_t n, double us, double goal)
{
    bench_row(b, &(bench_figure){ .what = what, .n = n, .unit = "us", .value = us, .goal = goal });
}

static void easy(const bench *b)
{
    static const size_t n[SIZES] = { 1000, 3162, 10000, 31623, 100000 };
    double              size[SIZES], mean[SIZES], hard[SIZES], slowest;
    size_t              events = b->quick ? 1000 : 5000;
    site               *s = malloc(sizeof *s);
    bench_must(s != NULL, "malloc");
    for (size_t i = 0; i < SIZES; i++) {
        double goal = n[i] == 10000 ? GOAL_US : 0;
        open_site(s, HTC_FIT_PROMISE_HEAD, n[i], 0);
        size[i] = (double)n[i];
        mean[i] = decision_us(s, events, &slowest);
        hard[i] = hardest_us(n[i], 50);
        row(b, "easy decision", n[i], mean[i], goal);
        row(b, "easy decision, the slowest", n[i], slowest, goal);
        row(b, "easy decision, the hardest queue", n[i], hard[i], goal);
        row(b, "one pass of the textbook", n[i], textbook_us(s, n[i], 50), 0);
        htc_fit_destroy(s->fit);
    }
    bench_growth(b, "easy decision", size, mean, SIZES);
    bench_growth(b, "easy decision, the hardest queue", size, hard, SIZES);
    free(s);
}

/* The others, what a listing of all starts costs, and conservative when all goes as estimated and when it does not. */
static void others(const bench *b)
{
    static const struct {
        const char *what;
        uint32_t    promise;
        int         exact;
    } rows[] = { { "first fit decision", HTC_FIT_PROMISE_NOTHING, 0 },
                 { "fcfs decision", HTC_FIT_PROMISE_ORDER, 0 },
                 { "conservative decision, jobs as long as estimated", HTC_FIT_PROMISE_ALL, 1 },
                 { "conservative decision, jobs end early", HTC_FIT_PROMISE_ALL, 0 } };
    static const size_t n[SIZES] = { 100, 316, 1000, 3162, 10000 };
    double              size[SIZES], mean[SIZES], slowest;
    site               *s = malloc(sizeof *s);
    htc_ns             *starts = malloc(n[SIZES - 1] * sizeof *starts);
    bench_must(s && starts, "malloc");
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        for (size_t i = 0; i < SIZES; i++) {
            int replans = rows[k].promise == HTC_FIT_PROMISE_ALL && !rows[k].exact;
            open_site(s, rows[k].promise, n[i], rows[k].exact);
            size[i] = (double)n[i];
            mean[i] = decision_us(s, (b->quick ? 200000 : 1000000) / (replans ? n[i] : 100), &slowest);
            row(b, rows[k].what, n[i], mean[i], 0);
            htc_fit_destroy(s->fit);
        }
        bench_growth(b, rows[k].what, size, mean, SIZES);
    }
    open_site(s, HTC_FIT_PROMISE_HEAD, n[SIZES - 1], 0);
    double         t = bench_cpu_seconds();
    htc_fit_counts c;
    htc_fit_count(s->fit, &c);
    bench_must(c.waiting <= n[SIZES - 1] && htc_fit_forecast(s->fit, s->now, starts, c.waiting) == HTC_OK, "forecast");
    row(b, "easy, all starts foretold", c.waiting, (bench_cpu_seconds() - t) * 1e6, 0);
    htc_fit_destroy(s->fit);
    free(starts);
    free(s);
}

int main(int argc, char **argv)
{
    bench b = bench_open("fit", argc, argv);
    easy(&b);
    others(&b);
    return bench_close(&b);
}
