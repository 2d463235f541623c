/* What a job and an event of the model of several grids cost, from 10^3 to 10^5 jobs of the stream (HTC_BENCH_JOBS=1e6 for more), and in the same run
 * what a hold of the event queue costs. */
#include "bench.h"
#include "hold.h"
#include "htcsched/sim_grids.h"

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
    if (o->active_max < jobs) /* FCFS does not keep up with the stream: in the end most jobs wait */
        o->active_max = jobs;
    double t = bench_cpu_seconds();
    htc_status status = htc_sim_grids_run(NULL, o, &r, NULL, NULL, NULL);
    if (status != HTC_OK || r.scale.wrong[0])
        fprintf(stderr, "%s: %s\n", htc_status_name(status), r.scale.wrong);
    bench_must(status == HTC_OK && !r.scale.wrong[0], "htc_sim_grids_run");
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
        for (uint64_t jobs = 1000, next; jobs && k < 16; jobs = next, k++) {
            char   name[64];
            double of_job, hold = hold_ns(NULL, 700, b.quick ? 300000 : 3000000);
            next = jobs == most ? 0 : jobs * 10 / 3 + 1;
            next = next > most ? most : next;
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
    return bench_close(&b);
}
