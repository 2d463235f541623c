/* What a task and a node of the many-task model cost: at 1, 64, 4 K, 64 K and 256 K nodes (HTC_BENCH_NODES=N adds sizes up to N) of 40 cores (HTC_BENCH_CORES=N),
 * with four tasks a core, and twenty million at least. In the row "stealing" all begin with one node, so that with few tasks a node most of the time goes into
 * rounds: what one costs is a row of its own. A hold of the event queue in the same run is what a task is compared with.
 * Two grids on two threads are compared with two runs of one grid at the same time; one machine in two parts on two threads with two such machines, each in
 * one part, at the same time, which have twice its work; and on one thread with the same machine in one part: the best of five. */
#include "bench.h"
#include "hold.h"
#include "scale_crowd.h"
#include "../../../examples/htc-sim/study/threads.h"
#include "htcsched/sim_manytask.h"

typedef struct form {
    const char *name;
    uint32_t    architecture, layout;
    htc_ns      dispatch_ns;
    double      goal;
} form;

/* A task, ns. */
static double cost(const bench *b, const form *f, uint64_t nodes, uint32_t cores, uint64_t tasks, uint64_t *rounds)
{
    char                     name[80];
    htc_sim_manytask_group   g = { .size = sizeof g, .nodes = nodes, .cores = cores };
    htc_sim_manytask_options o = { .size = sizeof o, .seed = 1, .architecture = f->architecture, .layout = f->layout, .groups = &g, .n_groups = 1, .tasks = tasks,
                                   .length = { HTC_SCALE_UNIFORM, 0, 5000e9, 1 }, .dispatch_ns = f->dispatch_ns };
    htc_sim_manytask_report  r = { .size = sizeof r };
    double                   t = bench_cpu_seconds();
    bench_must(htc_sim_manytask_run(&huge, &o, &r, NULL, NULL) == HTC_OK && !r.scale.wrong[0], "htc_sim_manytask_run");
    t = (bench_cpu_seconds() - t) * 1e9;
    snprintf(name, sizeof name, "%s: a task", f->name);
    bench_row(b, &(bench_figure){ .what = name, .n = nodes, .unit = "ns", .value = t / (double)tasks, .goal = f->goal });
    snprintf(name, sizeof name, "%s: all memory, a node", f->name);
    bench_row(b, &(bench_figure){ .what = name, .n = nodes, .unit = "B", .value = (double)r.memory / (double)nodes });
    *rounds = r.rounds;
    return t / (double)tasks;
}

/* ---- two threads ---- */

static double run_grids(uint32_t grids, uint64_t tasks, const htc_scale_host *host)
{
    htc_sim_manytask_group   g = { .size = sizeof g, .nodes = 1024, .cores = 100 };
    htc_sim_manytask_options o = { .size = sizeof o, .seed = 1, .architecture = HTC_SIM_MANYTASK_DISTRIBUTED, .groups = &g, .n_groups = 1, .tasks = tasks, .grids = grids, .host = host,
                                   .length = { HTC_SCALE_UNIFORM, 0, 5000e9, 1 } };
    htc_sim_manytask_report  r = { .size = sizeof r };
    double                   t = bench_seconds();
    bench_must(htc_sim_manytask_run(&huge, &o, &r, NULL, NULL) == HTC_OK && !r.scale.wrong[0], "grids");
    return bench_seconds() - t;
}

static void *run_alone(void *tasks)
{
    run_grids(1, *(const uint64_t *)tasks, NULL);
    return NULL;
}

/* What two threads do with two grids, as a part of what two runs side by side do with one each. */
static void two_threads(const bench *b)
{
    uint64_t tasks = b->quick ? 1000000 : 10000000;
    double   together = 1e9, apart = 1e9;
    for (int i = 0; i < 5; i++) {
        pair           p;
        pthread_t      other;
        htc_scale_host host = { .size = sizeof host, .parallel = in_pair, .ctx = &p };
        bench_must(pair_open(&p) == 0, "threads");
        double t = run_grids(2, tasks, &host);
        pair_close(&p);
        together = t < together ? t : together;
        t = bench_seconds();
        bench_must(pthread_create(&other, NULL, run_alone, &tasks) == 0, "threads");
        run_alone(&tasks);
        pthread_join(other, NULL);
        t = bench_seconds() - t;
        apart = t < apart ? t : apart;
    }
    bench_row(b, &(bench_figure){ .what = "two grids on two threads, of two runs side by side", .n = 1024, .unit = "1", .value = apart / together, .goal = 0.85, .more = 1 });
}

/* ---- one machine on two threads ---- */

typedef struct machine {
    uint64_t        nodes, tasks;
    uint32_t        parts;
    htc_scale_host *host;
    uint64_t        hash;
} machine;

/* Nodes of 1000 cores, in ticks of 1 ms. */
static void *run_machine(void *ctx)
{
    machine                 *m = ctx;
    htc_sim_manytask_group   g = { .size = sizeof g, .nodes = m->nodes, .cores = 1000 };
    htc_steal_options        steal = { .size = sizeof steal, .poll_ns = 10 * HTC_MS, .at_ceiling = HTC_STEAL_GO_ON };
    htc_sim_manytask_options o = { .size = sizeof o, .seed = 1, .architecture = HTC_SIM_MANYTASK_DISTRIBUTED, .groups = &g, .n_groups = 1, .tasks = m->tasks, .tick_ns = HTC_MS,
                                   .steal = &steal, .host = m->host, .parts = m->parts, .length = { HTC_SCALE_UNIFORM, 0, 5000e9, 1 } };
    htc_sim_manytask_report  r = { .size = sizeof r };
    bench_must(htc_sim_manytask_run(&huge, &o, &r, NULL, NULL) == HTC_OK && !r.scale.wrong[0], "a machine");
    m->hash = r.scale.hash;
    return NULL;
}

static void keep_least(double *least, double since)
{
    double t = bench_seconds() - since;
    *least = t < *least ? t : *least;
}

static void one_machine(const bench *b, uint64_t nodes)
{
    machine one = { .nodes = nodes, .tasks = nodes * 10000, .parts = 1 }, other = one, cut = one, cut_alone = one;
    double  together = 1e9, apart = 1e9, alone = 1e9, both_alone = 1e9;
    cut.parts = cut_alone.parts = 2;
    for (int i = 0; i < 5; i++) {
        pthread_t      thread;
        threads       *two = threads_open(2);
        htc_scale_host host = { .size = sizeof host, .parallel = threads_do, .ctx = two };
        bench_must(two != NULL && threads_count(two) == 2, "threads");
        cut.host = &host;
        double t = bench_seconds();
        run_machine(&cut);
        keep_least(&together, t);
        threads_close(two);
        t = bench_seconds();
        bench_must(pthread_create(&thread, NULL, run_machine, &other) == 0, "threads");
        run_machine(&one);
        pthread_join(thread, NULL);
        keep_least(&apart, t);
        t = bench_cpu_seconds();
        run_machine(&one);
        t = bench_cpu_seconds() - t;
        alone = t < alone ? t : alone;
        t = bench_cpu_seconds();
        run_machine(&cut_alone);
        t = bench_cpu_seconds() - t;
        both_alone = t < both_alone ? t : both_alone;
    }
    bench_must(cut.hash == one.hash && cut_alone.hash == one.hash, "the same run");
    bench_row(b, &(bench_figure){ .what = "one machine on two threads, of two runs side by side", .n = nodes, .unit = "1", .value = apart / 2 / together, .goal = 0.85, .more = 1 });
    bench_row(b, &(bench_figure){ .what = "one machine in two parts on one thread, of one part", .n = nodes, .unit = "1", .value = both_alone / alone });
}

int main(int argc, char **argv)
{
    static const form forms[] = { { "central, 1 ms", HTC_SIM_MANYTASK_CENTRAL, 0, 0, 60 },
                                  { "central, no time", HTC_SIM_MANYTASK_CENTRAL, 0, HTC_NEVER, 100 },
                                  { "with each", HTC_SIM_MANYTASK_DISTRIBUTED, HTC_SIM_MANYTASK_EACH, 0, 100 },
                                  { "stealing", HTC_SIM_MANYTASK_DISTRIBUTED, HTC_SIM_MANYTASK_ONE, 0, 0 } };
    static const uint64_t sizes[] = { 1, 64, 4096, 65536, 262144, 1048576 };
    bench    b = bench_open("sim_manytask", argc, argv);
    uint64_t nodes_max = getenv("HTC_BENCH_NODES") ? strtoull(getenv("HTC_BENCH_NODES"), NULL, 10) : b.quick ? 4096 : 262144;
    uint32_t cores = getenv("HTC_BENCH_CORES") ? (uint32_t)strtoul(getenv("HTC_BENCH_CORES"), NULL, 10) : 40;
    double   size[6], each[6];
    uint64_t rounds[2] = { 0 };
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        double ns[6];
        size_t k = 0;
        for (; k < 6 && sizes[k] <= nodes_max; k++) {
            uint64_t least = b.quick ? 1000000 : 20000000, tasks = sizes[k] * cores * 4 < least ? least : sizes[k] * cores * 4;
            size[k] = (double)sizes[k];
            ns[k] = cost(&b, &forms[i], sizes[k], cores, tasks, &rounds[i == 3]);
            if (i == 2)
                each[k] = ns[k];
            if (i == 3 && sizes[k] > 1) /* the difference to tasks that begin where they run */
                bench_row(&b, &(bench_figure){ .what = "stealing: a round", .n = sizes[k], .unit = "ns", .value = (ns[k] - each[k]) * (double)tasks / (double)rounds[1] });
            if (i == 3 && sizes[k] > 1)
                bench_row(&b, &(bench_figure){ .what = "stealing: rounds a node", .n = sizes[k], .unit = "1", .value = (double)rounds[1] / (double)sizes[k] });
        }
        if (i < 3)
            bench_growth(&b, forms[i].name, size, ns, k);
    }
    two_threads(&b);
    for (uint64_t n = 1024; n <= (b.quick ? 1024u : 16384u); n *= 4)
        one_machine(&b, n);
    for (uint64_t n = 1000; n <= (b.quick ? 100000u : 10000000u); n *= 100)
        bench_row(&b, &(bench_figure){ .what = "hold", .n = n, .unit = "ns", .value = hold_ns(&huge, n, b.quick ? 1000000 : 20000000) });
    return bench_close(&b);
}
