/* What every benchmark of a primitive needs: seconds, one JSON line a figure, how a cost grows with size.
 *
 *     int main(int argc, char **argv)
 *     {
 *         bench b = bench_open("ring", argc, argv);            knows --quick and --help
 *         double t = bench_seconds();
 *         ...n times...
 *         bench_row(&b, &(bench_figure){ .what = "lookup", .n = members, .unit = "ns", .value = ns, .goal = 10 });
 *         bench_growth(&b, "lookup", sizes, costs, 5);         cost ~ size^value
 *         return bench_close(&b);
 *     }
 *
 * A missed goal is no failure of the program: a slower machine is not a bug. */
#ifndef HTC_TESTS_BENCH_H
#define HTC_TESTS_BENCH_H

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct bench {
    const char *name;
    int         quick; /* under a minute in all */
} bench;

typedef struct bench_figure {
    const char *what;
    uint64_t    n; /* the size it was measured at */
    const char *unit;
    double      value;
    double      goal; /* 0: none */
    int         more; /* the more the better */
} bench_figure;

static inline double bench_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* CPU seconds of this thread: what a busy machine takes away does not count. */
static inline double bench_cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline bench bench_open(const char *name, int argc, char **argv)
{
    bench b = { .name = name };
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--quick") == 0) {
            b.quick = 1;
            continue;
        }
        int help = strcmp(argv[i], "--help") == 0;
        fprintf(help ? stdout : stderr, "%susage: %s [--quick]\nMeasures %s and prints one JSON line a figure.\n",
                help ? "" : "unknown argument\n", argv[0], name);
        exit(help ? 0 : 1);
    }
    return b;
}

static inline void bench_row(const bench *b, const bench_figure *f)
{
    printf("{\"bench\":\"%s\",\"case\":\"%s\",\"n\":%llu,\"unit\":\"%s\",\"value\":%.4g", b->name, f->what,
           (unsigned long long)f->n, f->unit, f->value);
    if (f->goal > 0)
        printf(",\"goal\":%.4g", f->goal);
    printf(",\"better\":\"%s\"}\n", f->more ? "more" : "less");
    fflush(stdout);
}

/* The exponent of cost = c * size^exponent, by least squares over the logarithms. */
static inline void bench_growth(const bench *b, const char *what, const double *size, const double *cost, size_t n)
{
    double sx = 0, sy = 0, sxx = 0, sxy = 0;
    char   name[128];
    for (size_t i = 0; i < n; i++) {
        double x = log(size[i]), y = log(cost[i]);
        sx += x;
        sy += y;
        sxx += x * x;
        sxy += x * y;
    }
    snprintf(name, sizeof name, "%s: growth exponent", what);
    bench_row(b, &(bench_figure){ .what = name,
                                  .n = (uint64_t)size[n - 1],
                                  .unit = "1",
                                  .value = ((double)n * sxy - sx * sy) / ((double)n * sxx - sx * sx) });
}

static inline int bench_by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts what it is given. Two things are compared by the median of the ratios of interleaved runs. */
static inline double bench_median(double *values, size_t n)
{
    qsort(values, n, sizeof *values, bench_by_value);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

/* For a benchmark's own set-up: what must not fail. */
static inline void bench_must(int ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "%s failed\n", what);
        exit(1);
    }
}

static inline int bench_close(const bench *b)
{
    (void)b;
    return ferror(stdout) ? 1 : 0;
}

#endif
