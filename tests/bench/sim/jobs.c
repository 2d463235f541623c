/* What an event of the model of partition controllers costs, beside a hold of the event queue (tests/bench/sim/scale.c) at as many pending events in the same
 * run: 10 K jobs on partitions of 1024 nodes, and ten jobs for each of many controllers of one node. */
#include "bench.h"
#include "hold.h"
#include "htcsched/registry.h"
#include "htcsched/sim_jobs.h"

static void runs(const bench *b, const char *what, const htc_sim_jobs_options *options, const uint32_t *nodes, size_t n, uint64_t jobs_a_node)
{
    double size[8], cost[8];
    for (size_t i = 0; i < n; i++) {
        char                 name[96];
        htc_sim_jobs_options o = *options;
        htc_sim_jobs_report  r = { .size = sizeof r };
        double               ns[3], holds[3];
        o.nodes = nodes[i];
        o.jobs = jobs_a_node ? jobs_a_node * nodes[i] : 10000;
        o.nodes_max = o.sizes == HTC_SIM_JOBS_TRACE ? nodes[i] / 20 : 2;
        for (int k = 0; k < 3; k++) {
            double t = bench_cpu_seconds();
            bench_must(htc_sim_jobs_run(NULL, &o, &r, NULL) == HTC_OK && !r.scale.wrong[0], "htc_sim_jobs_run");
            t = bench_cpu_seconds() - t;
            ns[k] = t * 1e9 / (double)r.scale.events;
            holds[k] = ns[k] / hold_ns(NULL, 2ull * r.controllers + 64, 2000000);
        }
        size[i] = (double)nodes[i];
        cost[i] = bench_median(ns, 3);
        bench_row(b, &(bench_figure){ .what = what, .n = nodes[i], .unit = "ns", .value = cost[i] });
        snprintf(name, sizeof name, "%s, holds", what);
        bench_row(b, &(bench_figure){ .what = name, .n = nodes[i], .unit = "1", .value = bench_median(holds, 3), .goal = 2 });
        snprintf(name, sizeof name, "%s, at most", what);
        bench_row(b, &(bench_figure){ .what = name, .n = nodes[i], .unit = "MiB", .value = (double)r.memory / 1048576, .goal = 1024 });
        snprintf(name, sizeof name, "%s, the run", what);
        bench_row(b, &(bench_figure){ .what = name, .n = nodes[i], .unit = "s", .value = cost[i] * (double)r.scale.events / 1e9, .goal = 60 });
    }
    bench_growth(b, what, size, cost, n);
}

int main(int argc, char **argv)
{
    /* On 1 M nodes a job takes thousands of random steals, and 10 K jobs the better part of an hour. */
    static const uint32_t large[] = { 4096, 16384, 65536, 131072, 262144 }, single[] = { 1024, 4096, 16384, 65536, 262144 };
    bench                 b = bench_open("sim_jobs", argc, argv);
    htc_registry         *registry = NULL;
    htc_sim_jobs_options  o = { .size = sizeof o, .seed = 1, .partition = 1024, .sizes = HTC_SIM_JOBS_TRACE, .length = { HTC_SCALE_EXPONENTIAL, 0, 5e6, 0 } };
    htc_sim_jobs_published(&o);
    o.wait_ns = 10 * HTC_MS;
    o.wait_ns_max = HTC_SECOND;
    bench_must(htc_registry_create(NULL, &registry) == HTC_OK && htc_registry_add_builtin(registry) == HTC_OK, "htc_registry_create");
    bench_must(htc_balance_find(registry, "random", &o.policy) == HTC_OK, "htc_balance_find");
    runs(&b, "an event, 1024:1, random", &o, large, b.quick ? 3 : 5, 0);
    o.records = 1;
    runs(&b, "an event, 1024:1, random, with records", &o, large, b.quick ? 3 : 5, 0);
    o.records = 0;
    o.policy = NULL;
    runs(&b, "an event, 1024:1, monitored", &o, large, b.quick ? 3 : 5, 0);
    o.partition = 1;
    o.sizes = HTC_SIM_JOBS_UNIFORM;
    o.length = (htc_scale_law){ 0, 0, 0, 0 };
    o.wait_ns = HTC_MS;
    bench_must(htc_balance_find(registry, "random", &o.policy) == HTC_OK, "htc_balance_find");
    runs(&b, "an event, 1:1, random", &o, single, b.quick ? 3 : 5, 10);
    htc_registry_destroy(registry);
    return bench_close(&b);
}
