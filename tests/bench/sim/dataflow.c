/* What a task of the model of dependent tasks with data costs: each shape on 8, 64, 512, 4 K and 16 K nodes of two cores (--quick: to 512), 200 tasks a core of 0 to
 * 100 ms that make 0 to 10 MB, degree 10. A hold of the event queue in the same run is what a task is compared with. */
#include "bench.h"
#include "hold.h"
#include "htcsched/sim_dataflow.h"

/* A task, ns. */
static double cost(const bench *b, const char *shape, uint32_t number, uint64_t nodes)
{
    char                     name[80];
    htc_sim_dataflow_options o = { .size = sizeof o, .seed = 1, .shape = number, .degree = 10, .nodes = nodes, .cores = 2, .tasks = nodes * 400, .layout = HTC_SIM_DATAFLOW_RANDOM,
                                   .length = { HTC_SCALE_UNIFORM, 0, 50e6, 1 }, .bytes = { HTC_SCALE_UNIFORM, 0, 5e6, 1 }, .expected_ns = 50 * HTC_MS };
    htc_sim_dataflow_report  r = { .size = sizeof r };
    double                   t = bench_cpu_seconds();
    bench_must(htc_sim_dataflow_run(NULL, &o, &r, NULL) == HTC_OK && !r.scale.wrong[0], "htc_sim_dataflow_run");
    t = (bench_cpu_seconds() - t) * 1e9 / (double)o.tasks;
    snprintf(name, sizeof name, "%s: a task", shape);
    bench_row(b, &(bench_figure){ .what = name, .n = nodes, .unit = "ns", .value = t });
    snprintf(name, sizeof name, "%s: all memory, a task", shape);
    bench_row(b, &(bench_figure){ .what = name, .n = nodes, .unit = "B", .value = (double)r.memory / (double)o.tasks });
    return t;
}

int main(int argc, char **argv)
{
    static const char *const shapes[] = { "bag", "fan-out", "fan-in", "pipelines" }; /* in the order of htc_sim_dataflow_shape */
    static const uint64_t    sizes[] = { 8, 64, 512, 4096, 16384 };
    bench  b = bench_open("sim_dataflow", argc, argv);
    size_t n = b.quick ? 3 : 5;
    double size[5], ns[5];
    for (uint32_t s = 0; s < 4; s++) {
        for (size_t i = 0; i < n; i++) {
            size[i] = (double)sizes[i];
            ns[i] = cost(&b, shapes[s], s, sizes[i]);
        }
        bench_growth(&b, shapes[s], size, ns, n);
    }
    for (uint64_t pending = 1000; pending <= (b.quick ? 100000u : 10000000u); pending *= 100)
        bench_row(&b, &(bench_figure){ .what = "hold", .n = pending, .unit = "ns", .value = hold_ns(NULL, pending, b.quick ? 1000000 : 10000000) });
    return bench_close(&b);
}
