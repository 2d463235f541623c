/* What an arrival and a scan cost with many jobs in many queues. The floor is what any scan must do: walk over an array of this size and
 * add up what is left of each job. */
#include "bench.h"
#include "htcsched/hierarchy.h"

#define QUEUES 16
#define LEVELS 4

/* Four levels of four queues; limits so large that everybody gets in, so that a scan looks at all of it. */
static htc_hierarchy *open_hierarchy(size_t jobs_max)
{
    htc_hierarchy_grid    grids[QUEUES];
    htc_hierarchy_queue   queues[QUEUES];
    uint32_t              lists[QUEUES];
    htc_hierarchy_options o = HTC_HIERARCHY_OPTIONS_INIT;
    htc_hierarchy        *h = NULL;
    for (uint32_t i = 0; i < QUEUES; i++) {
        uint32_t level = i / (QUEUES / LEVELS) + 1;
        lists[i] = i;
        grids[i] = (htc_hierarchy_grid){ .cpus = 500, .latency_ns = i * HTC_SECOND };
        queues[i] = (htc_hierarchy_queue){ .level = level, .next = level < LEVELS ? level * (QUEUES / LEVELS) : HTC_HIERARCHY_NOWHERE,
                                           .grids = &lists[i], .grid_count = 1, .te_ns = 100000000 * HTC_SECOND,
                                           .tq_ns = 1000000000 * HTC_SECOND, .cpus = 500, .kflops = 1e6, .policies = 62 };
    }
    o.grids = grids;
    o.queues = queues;
    o.grid_count = o.queue_count = QUEUES;
    o.jobs_max = jobs_max;
    bench_must(htc_hierarchy_create(NULL, &o, &h) == HTC_OK, "create");
    return h;
}

static uint64_t arrive(htc_hierarchy *h, uint64_t id, uint32_t queue, htc_rng *rng)
{
    htc_hierarchy_job      job = { .size = sizeof job, .id = id * UINT64_C(0x9e3779b97f4a7c15),
                                   .kflop = 1 + (double)htc_rng_below(rng, 1000000) };
    htc_hierarchy_decision d;
    bench_must(htc_hierarchy_arrive(h, queue, &job, id, &d) == HTC_OK && d.action == HTC_HIERARCHY_QUEUE, "arrive");
    return job.id;
}

/* n jobs are there, spread over all queues; one arrives and one leaves, at random. */
static double arrival_ns(size_t n, size_t rounds, double *departure)
{
    htc_hierarchy *h = open_hierarchy(n + 1);
    htc_rng        rng = { 1 };
    uint64_t      *ids = malloc(n * sizeof *ids), next = 1;
    double         in = 0, out = 0;
    bench_must(ids != NULL, "memory");
    for (size_t i = 0; i < n; i++, next++)
        ids[i] = arrive(h, next, (uint32_t)(i % QUEUES), &rng);
    enum { BATCH = 1000 };
    size_t batch = n < BATCH ? n : BATCH;
    for (size_t done = 0; done < rounds; done += batch) {
        size_t at = htc_rng_below(&rng, n - batch + 1);
        double t = bench_cpu_seconds();
        for (size_t i = 0; i < batch; i++)
            htc_hierarchy_remove(h, ids[at + i], next);
        out += bench_cpu_seconds() - t;
        t = bench_cpu_seconds();
        for (size_t i = 0; i < batch; i++, next++)
            ids[at + i] = arrive(h, next, (uint32_t)htc_rng_below(&rng, QUEUES), &rng);
        in += bench_cpu_seconds() - t;
    }
    size_t batches = (rounds + batch - 1) / batch;
    *departure = out * 1e9 / (double)(batches * batch);
    free(ids);
    htc_hierarchy_destroy(h);
    return in * 1e9 / (double)(batches * batch);
}

/* All jobs in one queue, one in a hundred of them running with one task each. Nanoseconds a job, by the median of several scans. */
static double scan_ns(size_t n, int share, size_t scans)
{
    htc_hierarchy                *h = open_hierarchy(n);
    htc_rng                       rng = { 2 };
    const htc_hierarchy_decision *d;
    double                        times[64];
    size_t                        told;
    for (size_t i = 0; i < n; i++) {
        uint64_t id = arrive(h, i + 1, 1, &rng);
        if (i % 100 == 0) {
            htc_hierarchy_task t = { .size = sizeof t, .id = id, .grid = 1, .kflop = 1 };
            bench_must(htc_hierarchy_task_started(h, &t, 0) == HTC_OK, "start");
        }
    }
    for (size_t i = 0; i < scans; i++) {
        double t = bench_cpu_seconds();
        bench_must((share ? htc_hierarchy_share(h, 1, n + i * HTC_SECOND, &d, &told) :
                            htc_hierarchy_enforce(h, 1, n + i * HTC_SECOND, &d, &told)) == HTC_OK, "scan");
        times[i] = (bench_cpu_seconds() - t) * 1e9 / (double)n;
        bench_must(share || told == 0, "everybody stays");
    }
    htc_hierarchy_destroy(h);
    return bench_median(times, scans);
}

/* A scan at which all have to leave: the dearest one. Between two of them all are told to stay. */
static double leave_ns(size_t n, size_t scans)
{
    htc_hierarchy                *h = open_hierarchy(n);
    htc_rng                       rng = { 3 };
    const htc_hierarchy_decision *d;
    double                        times[64];
    size_t                        told;
    for (size_t i = 0; i < n; i++)
        arrive(h, i + 1, 1, &rng);
    for (size_t i = 0; i < scans; i++) {
        double t = bench_cpu_seconds();
        bench_must(htc_hierarchy_enforce(h, 1, HTC_HIERARCHY_TIME_MAX, &d, &told) == HTC_OK && told == n, "all leave");
        times[i] = (bench_cpu_seconds() - t) * 1e9 / (double)n;
        for (uint64_t id = 1; id <= n; id++)
            bench_must(htc_hierarchy_stay(h, id * UINT64_C(0x9e3779b97f4a7c15), HTC_HIERARCHY_TIME_MAX) == HTC_OK, "stay");
    }
    htc_hierarchy_destroy(h);
    return bench_median(times, scans);
}

/* The floor: the same number of entries of the same size, one sum. */
static double floor_ns(size_t n, size_t scans)
{
    struct place {
        double   left;
        uint64_t words[4];
    }     *places = calloc(n, sizeof *places);
    double times[64], sum = 0;
    bench_must(places != NULL, "memory");
    for (size_t i = 0; i < n; i++)
        places[i].left = (double)i;
    for (size_t k = 0; k < scans; k++) {
        double t = bench_cpu_seconds();
        for (size_t i = 0; i < n; i++)
            if (places[i].words[3] == 0)
                sum += places[i].left;
        times[k] = (bench_cpu_seconds() - t) * 1e9 / (double)n;
        bench_must(sum >= 0, "sum");
        places[0].words[0] = k;
    }
    free(places);
    return bench_median(times, scans);
}

int main(int argc, char **argv)
{
    bench               b = bench_open("hierarchy", argc, argv);
    static const size_t sizes[] = { 1000, 10000, 31623, 100000, 316228, 1000000 };
    enum { SIZES = sizeof sizes / sizeof *sizes, GOAL_AT = 3 };
    double size[SIZES], arrival[SIZES], scan[SIZES], departure;
    size_t rounds = b.quick ? 100000 : 1000000, scans = b.quick ? 9 : 31;
    for (size_t i = 0; i < SIZES; i++) {
        size[i] = (double)sizes[i];
        arrival[i] = arrival_ns(sizes[i], rounds, &departure);
        bench_row(&b, &(bench_figure){ .what = "arrival", .n = sizes[i], .unit = "ns", .value = arrival[i],
                                       .goal = i == GOAL_AT ? 2000 : 0 });
        bench_row(&b, &(bench_figure){ .what = "departure", .n = sizes[i], .unit = "ns", .value = departure });
    }
    bench_growth(&b, "arrival", size, arrival, SIZES);
    for (size_t i = 0; i < SIZES; i++) {
        scan[i] = scan_ns(sizes[i], 0, scans);
        bench_row(&b, &(bench_figure){ .what = "scan that keeps all, a job", .n = sizes[i], .unit = "ns", .value = scan[i], .goal = 20 });
        bench_row(&b, &(bench_figure){ .what = "floor of a scan, a job", .n = sizes[i], .unit = "ns",
                                       .value = floor_ns(sizes[i], scans) });
        bench_row(&b, &(bench_figure){ .what = "scan that all have to leave at, a job", .n = sizes[i], .unit = "ns",
                                       .value = leave_ns(sizes[i], 5), .goal = 20 });
        bench_row(&b, &(bench_figure){ .what = "load sharing among four queues, a job", .n = sizes[i], .unit = "ns",
                                       .value = scan_ns(sizes[i], 1, 5) });
    }
    bench_growth(&b, "scan, a job", size, scan, SIZES);
    return bench_close(&b);
}
