/* What a job and an event of the model of several grids cost, from 10^3 to 10^5 jobs of the stream (HTC_BENCH_JOBS=1e6 for more), and in the same run
 * what a hold of the event queue costs. */
#include "bench.h"
#include "htcsched/sim_grids.h"
#include "sim/scale/ladder.h"

#define ID_BITS 17

static uint64_t checksum;

/* Take the earliest event, push it again later: among as many as the model has pending. */
static double hold_ns(uint64_t holds)
{
    ladder  *q = NULL;
    uint64_t key = 0, rng = 1, n = 700;
    bench_must(htc__ladder_create(NULL, n, ID_BITS, &q) == HTC_OK, "htc__ladder_create");
    for (uint64_t i = 0; i < n; i++)
        htc__ladder_push(q, (rng = rng * UINT64_C(6364136223846793005) + 1) >> 44 << ID_BITS | i);
    double t = bench_cpu_seconds();
    for (uint64_t i = 0; i < holds; i++) {
        htc__ladder_pop(q, &key);
        checksum += key;
        rng = rng * UINT64_C(6364136223846793005) + 1442695040888963407u;
        htc__ladder_push(q, key + ((rng >> 44) << ID_BITS));
    }
    t = bench_cpu_seconds() - t;
    htc__ladder_destroy(NULL, q);
    return t * 1e9 / (double)holds;
}

static double event_ns(const bench *b, uint32_t system, uint64_t jobs, double *of_job)
{
    htc_sim_grids_profile *p = NULL;
    htc_sim_grids_report   r = { .size = sizeof r };
    bench_must(htc_sim_grids_superlink(NULL, HTC_SIM_GRIDS_STREAM, &p) == HTC_OK, "htc_sim_grids_superlink");
    htc_sim_grids_options *o = htc_sim_grids_profile_options(p);
    (void)b;
    o->seed = 1;
    o->system = system;
    o->stream.jobs = jobs;
    double t = bench_cpu_seconds();
    bench_must(htc_sim_grids_run(NULL, o, &r, NULL, NULL, NULL) == HTC_OK && !r.scale.wrong[0], "htc_sim_grids_run");
    t = bench_cpu_seconds() - t;
    htc_sim_grids_profile_destroy(p);
    *of_job = t * 1e9 / (double)jobs;
    return t * 1e9 / (double)r.scale.events;
}

int main(int argc, char **argv)
{
    static const char *const systems[] = { "MQ+H", "MQ", "FCFS+H", "FCFS" };
    bench                    b = bench_open("sim_grids", argc, argv);
    const char              *more = getenv("HTC_BENCH_JOBS");
    uint64_t                 most = more ? (uint64_t)strtod(more, NULL) : b.quick ? 3000 : 100000;
    for (uint32_t system = 0; system < 4; system += 3) {
        double size[16], cost[16];
        size_t k = 0;
        for (uint64_t jobs = 1000; jobs <= most && k < 16; jobs = jobs * 10 / 3 + 1, k++) {
            char   name[64];
            double of_job, hold = hold_ns(b.quick ? 300000 : 3000000);
            size[k] = (double)jobs;
            cost[k] = event_ns(&b, system, jobs, &of_job);
            snprintf(name, sizeof name, "event, %s", systems[system]);
            bench_row(&b, &(bench_figure){ .what = name, .n = jobs, .unit = "ns", .value = cost[k] });
            snprintf(name, sizeof name, "event / hold, %s", systems[system]);
            bench_row(&b, &(bench_figure){ .what = name, .n = jobs, .unit = "1", .value = cost[k] / hold, .goal = 4 });
            snprintf(name, sizeof name, "job, %s", systems[system]);
            bench_row(&b, &(bench_figure){ .what = name, .n = jobs, .unit = "ns", .value = of_job });
        }
        bench_growth(&b, systems[system], size, cost, k);
    }
    return bench_close(&b) + (checksum == 42);
}
