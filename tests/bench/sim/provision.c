/* What a job of the scale model of provisioning costs, by the length of the trace: jobs of some 20 minutes and 16 nodes on 480, one every half minute or so, as a
 * stream. And the memory of the run, which is that of the jobs that wait and run. */
#include "bench.h"
#include "htcsched/sim_provision.h"

typedef struct stream {
    uint64_t n;
    htc_rng  rng;
    htc_ns   at;
} stream;

static htc_status next_job(void *ctx, htc_sim_provision_job *job)
{
    stream *s = ctx;
    if (s->n-- == 0)
        return HTC_AGAIN;
    s->at += htc_rng_below(&s->rng, 80 * HTC_SECOND);
    *job = (htc_sim_provision_job){ .arrival = s->at, .length = htc_rng_below(&s->rng, 900 * HTC_SECOND), .nodes = UINT32_C(1) << htc_rng_below(&s->rng, 6) };
    return HTC_OK;
}

int main(int argc, char **argv)
{
    static const char *const names[] = { "DSP", "DCS", "SSP", "DRP" };
    bench                    b = bench_open("sim_provision", argc, argv);
    char                     what[64];
    for (uint32_t system = HTC_SIM_PROVISION_DSP; system <= HTC_SIM_PROVISION_DRP; system++) {
        double size[5], cost[5];
        size_t k = 0;
        if (system == HTC_SIM_PROVISION_SSP) /* as DCS */
            continue;
        for (uint64_t n = 1000; n <= (b.quick ? 100000u : 10000000u); n *= 10, k++) {
            stream                        s = { .n = n, .rng = { 5 } };
            htc_sim_provision_environment e = { .size = sizeof e, .nodes = 480, .next_job = next_job, .ctx = &s };
            htc_sim_provision_options     o = { .size = sizeof o, .system = system, .environments = &e, .n_environments = 1, .capacity = 480, .active_max = 65536 };
            htc_sim_provision_report      r = { .size = sizeof r };
            double                        t = bench_cpu_seconds();
            bench_must(htc_sim_provision_run(NULL, &o, &r, NULL, NULL) == HTC_OK && r.completed == n && !r.scale.wrong[0], "a run");
            size[k] = (double)n;
            cost[k] = (bench_cpu_seconds() - t) * 1e9 / (double)n;
            snprintf(what, sizeof what, "a job, %s", names[system]);
            bench_row(&b, &(bench_figure){ .what = what, .n = n, .unit = "ns", .value = cost[k], .goal = 2000 });
            snprintf(what, sizeof what, "memory, %s", names[system]);
            bench_row(&b, &(bench_figure){ .what = what, .n = n, .unit = "KiB", .value = (double)r.memory / 1024 });
        }
        snprintf(what, sizeof what, "a job, %s", names[system]);
        bench_growth(&b, what, size, cost, k);
    }
    return bench_close(&b);
}
