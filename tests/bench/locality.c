/* What a decision costs: placing a task by its number of inputs, estimating by the number of kinds, one report and one
 * look at the moving rule. There is no goal: these are to vanish beside a queue operation. */
#include "htcsched/locality.h"
#include "bench.h"

#define SIZES 6

static uint64_t sink;

static double place_ns(const bench *b, size_t inputs, htc_rng *rng)
{
    enum { TASKS = 64 };
    size_t              rounds = (b->quick ? 400000 : 4000000) / (TASKS * (inputs + 4)) + 1;
    htc_locality_input *in = malloc(TASKS * inputs * sizeof *in);
    htc_locality       *worker;
    bench_must(in && htc_locality_create(NULL, NULL, &worker) == HTC_OK, "a worker");
    for (size_t i = 0; i < TASKS * inputs; i++)
        in[i] = (htc_locality_input){ htc_rng_below(rng, 200000000) / inputs, (uint32_t)htc_rng_below(rng, 4) };
    double began = bench_cpu_seconds();
    for (size_t r = 0; r < rounds; r++)
        for (size_t t = 0; t < TASKS; t++) {
            htc_locality_task  task = { in + t * inputs, inputs, HTC_SECOND };
            htc_locality_place place;
            htc_locality_place_task(worker, &task, &place);
            sink += place.queue;
        }
    double ns = (bench_cpu_seconds() - began) * 1e9 / (double)(rounds * TASKS);
    htc_locality_destroy(worker);
    free(in);
    return ns;
}

static double estimate_ns(const bench *b, uint32_t estimator, uint32_t kinds, htc_rng *rng)
{
    size_t                       n = b->quick ? 200000 : 2000000;
    htc_locality_lengths_options o = HTC_LOCALITY_LENGTHS_OPTIONS_INIT;
    htc_locality_lengths        *lengths;
    htc_ns                       est;
    o.estimator = estimator;
    o.kinds_max = kinds;
    bench_must(htc_locality_lengths_create(NULL, &o, &lengths) == HTC_OK, "an estimator");
    for (uint32_t k = 0; k < kinds; k++)
        for (int i = 0; i < 10; i++)
            bench_must(htc_locality_learn(lengths, k, htc_rng_below(rng, 100 * HTC_SECOND), 1) == HTC_OK, "learning");
    double began = bench_cpu_seconds();
    for (size_t i = 0; i < n; i++) {
        htc_locality_estimate(lengths, htc_rng_below(rng, kinds), NULL, &est);
        sink += est;
    }
    double ns = (bench_cpu_seconds() - began) * 1e9 / (double)n;
    htc_locality_lengths_destroy(lengths);
    return ns;
}

static double worker_ns(const bench *b)
{
    size_t        n = b->quick ? 1000000 : 10000000;
    htc_locality *worker;
    uint64_t      move;
    bench_must(htc_locality_create(NULL, NULL, &worker) == HTC_OK, "a worker");
    double began = bench_cpu_seconds();
    for (size_t i = 0; i < n; i++) {
        htc_locality_finished(worker, i * HTC_MS, i, i / 2);
        htc_locality_move(worker, i * HTC_MS, 50000, &move);
        sink += move;
    }
    double ns = (bench_cpu_seconds() - began) * 1e9 / (double)n;
    htc_locality_destroy(worker);
    return ns;
}

int main(int argc, char **argv)
{
    static const uint32_t inputs[SIZES] = { 1, 4, 16, 64, 256, 1024 }, kinds[SIZES] = { 1, 8, 64, 512, 4096, 32768 };
    bench                 b = bench_open("locality", argc, argv);
    double                size[SIZES], cost[SIZES];
    htc_rng               rng = { 1 };
    for (size_t i = 0; i < SIZES; i++) {
        size[i] = inputs[i];
        cost[i] = place_ns(&b, inputs[i], &rng);
        bench_row(&b, &(bench_figure){
                          .what = "place a task with n inputs", .n = inputs[i], .unit = "ns", .value = cost[i] });
    }
    bench_growth(&b, "place", size, cost, SIZES);
    for (size_t i = 0; i < SIZES; i++) {
        size[i] = kinds[i];
        cost[i] = estimate_ns(&b, HTC_LOCALITY_MEAN, kinds[i], &rng);
        bench_row(&b,
                  &(bench_figure){ .what = "mean of one of n kinds", .n = kinds[i], .unit = "ns", .value = cost[i] });
    }
    bench_growth(&b, "mean", size, cost, SIZES);
    bench_row(&b, &(bench_figure){ .what = "median of one of n kinds",
                                   .n = 512,
                                   .unit = "ns",
                                   .value = estimate_ns(&b, HTC_LOCALITY_QUANTILE, 512, &rng) });
    bench_row(&b,
              &(bench_figure){
                  .what = "one task finished and one look at the rule", .n = 1, .unit = "ns", .value = worker_ns(&b) });
    bench_must(sink != 42, "keeping what was measured");
    return bench_close(&b);
}
