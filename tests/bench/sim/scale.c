/* What an event of the scale models costs: the hold model (take the earliest event, push it again later) on the ladder queue and, in the same
 * run, on a binary heap of 16-byte events, from 10^3 to 10^7 pending ones; HTC_BENCH_PENDING=N adds larger ones up to N, on the ladder alone
 * from 10^8 on. And a task of the farm in htcsched/sim_scale.h, through the public calls. */
#include "bench.h"
#include "hold.h"
#include "htcsched/sim_scale.h"

#define ID_BITS 30
#define TABLE   65536

/* Increments come from a table, so that drawing one costs the same few ns for both. */
static uint32_t table[TABLE];
static uint64_t rng_state;

static uint32_t increment(void)
{
    rng_state = rng_state * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return table[rng_state >> 48];
}

static void fill_table(int bimodal, double mean)
{
    uint64_t s = 12345;
    double   sum = 0;
    static double all[TABLE];
    for (int i = 0; i < TABLE; i++) {
        s = s * UINT64_C(6364136223846793005) + 1442695040888963407u;
        double u = ((double)(s >> 11) + 0.5) * 0x1p-53;
        all[i] = bimodal ? 10 * u + (i % 10 ? 0 : 10) : -log(u);
        sum += all[i];
    }
    for (int i = 0; i < TABLE; i++)
        table[i] = (uint32_t)(all[i] * TABLE / sum * mean) + 1;
}

static uint64_t checksum;

/* ---- the ladder ---- */

static double ladder_ns(uint64_t n, uint64_t holds)
{
    ladder  *q = NULL;
    uint64_t key = 0;
    bench_must(htc__ladder_create(&huge, n, ID_BITS, &q) == HTC_OK, "htc__ladder_create");
    for (uint64_t i = 0; i < n; i++)
        htc__ladder_push(q, (uint64_t)increment() << ID_BITS | i);
    double t = 0;
    for (uint64_t i = 0, warm = holds / 4; i < holds + warm; i++) {
        if (i == warm)
            t = bench_cpu_seconds();
        htc__ladder_pop(q, &key);
        checksum += key;
        htc__ladder_push(q, key + ((uint64_t)increment() << ID_BITS));
    }
    t = bench_cpu_seconds() - t;
    htc__ladder_destroy(&huge, q);
    return t * 1e9 / (double)holds;
}

/* ---- the heap ---- */

typedef struct slot {
    uint64_t at, id;
} slot;

static void sink(slot *heap, uint64_t n, uint64_t i, slot s)
{
    for (uint64_t child; (child = 2 * i + 1) < n; i = child) {
        child += child + 1 < n && heap[child + 1].at < heap[child].at;
        if (heap[child].at >= s.at)
            break;
        heap[i] = heap[child];
    }
    heap[i] = s;
}

static double heap_ns(uint64_t n, uint64_t holds)
{
    slot *heap = huge_resize(NULL, NULL, 0, n * sizeof *heap);
    bench_must(heap != NULL, "the heap");
    for (uint64_t i = 0; i < n; i++)
        heap[i] = (slot){ increment(), i };
    for (uint64_t i = n / 2 + 1; i-- > 0;)
        if (i < n)
            sink(heap, n, i, heap[i]);
    double t = 0;
    for (uint64_t i = 0, warm = holds / 4; i < holds + warm; i++) {
        if (i == warm)
            t = bench_cpu_seconds();
        slot s = heap[0];
        checksum += s.id;
        s.at += increment();
        sink(heap, n, 0, s);
    }
    t = bench_cpu_seconds() - t;
    huge_resize(NULL, heap, n * sizeof *heap, 0);
    return t * 1e9 / (double)holds;
}

static void holds(const bench *b, const char *what, int bimodal, uint64_t most)
{
    double size[16], cost[16];
    size_t k = 0;
    for (uint64_t n = 1000; n <= most && k < 16; n *= 10, k++) {
        char     name[64];
        uint64_t times = b->quick ? 1000000 : n < 10000000 ? 5000000 : n < 100000000 ? 20000000 : n < 300000000 ? n : 300000000;
        double   ladder_runs[3], heap_runs[3], ratio[3];
        int      runs = n > 10000000 ? 1 : 3;
        fill_table(bimodal, n < 100000 ? 0x1p16 : 0x1p25 / 16);
        for (int i = 0; i < runs; i++) {
            ladder_runs[i] = ladder_ns(n, times);
            heap_runs[i] = n < 100000000 ? heap_ns(n, b->quick ? times : 3000000) : 0;
            ratio[i] = heap_runs[i] / ladder_runs[i];
        }
        size[k] = (double)n;
        cost[k] = bench_median(ladder_runs, (size_t)runs);
        snprintf(name, sizeof name, "hold, %s", what);
        bench_row(b, &(bench_figure){ .what = name, .n = n, .unit = "ns", .value = cost[k], .goal = 45 });
        if (n >= 100000000)
            continue;
        snprintf(name, sizeof name, "hold of a binary heap, %s", what);
        bench_row(b, &(bench_figure){ .what = name, .n = n, .unit = "ns", .value = bench_median(heap_runs, (size_t)runs) });
        snprintf(name, sizeof name, "heap / ladder, %s", what);
        bench_row(b, &(bench_figure){ .what = name, .n = n, .unit = "1", .value = bench_median(ratio, (size_t)runs), .more = 1 });
    }
    bench_growth(b, what, size, cost, k);
}

/* ---- a task ---- */

typedef struct farm {
    htc_scale_law law;
    uint64_t      next, tasks;
} farm;

static void next(htc_scale *s, farm *f, uint32_t core)
{
    if (f->next < f->tasks)
        htc_scale_start(s, core, 0, htc_scale_length(s, &f->law, 1, f->next++));
}

static void event(htc_scale *s, void *ctx, uint32_t core)
{
    htc_scale_end(s);
    next(s, ctx, core);
}

static void tasks(const bench *b, uint32_t kind, const char *what)
{
    for (uint32_t cores = 1000; cores <= (b->quick ? 100000u : 10000000u); cores *= 100) {
        farm              f = { .law = { kind, 0, 1e12, kind == HTC_SCALE_UNIFORM }, .tasks = b->quick ? 2000000 : 50000000 };
        htc_scale_options o = { .size = sizeof o, .ids = cores, .cores = cores, .event = event, .ctx = &f };
        htc_scale        *s = NULL;
        bench_must(htc_scale_create(&huge, &o, &s, NULL) == HTC_OK, "htc_scale_create");
        htc_scale_submit(s, f.tasks);
        for (uint32_t i = 0; i < cores; i++)
            next(s, &f, i);
        double t = bench_cpu_seconds();
        bench_must(htc_scale_run(s) == HTC_OK, "htc_scale_run");
        t = bench_cpu_seconds() - t;
        htc_scale_destroy(s);
        bench_row(b, &(bench_figure){ .what = what, .n = cores, .unit = "ns", .value = t * 1e9 / (double)f.tasks });
    }
}

int main(int argc, char **argv)
{
    bench       b = bench_open("sim_scale", argc, argv);
    const char *more = getenv("HTC_BENCH_PENDING");
    uint64_t    most = more ? (uint64_t)strtod(more, NULL) : b.quick ? 1000000 : 10000000;
    holds(&b, "exponential", 0, most);
    holds(&b, "bimodal", 1, most);
    tasks(&b, HTC_SCALE_UNIFORM, "task of a farm, uniform");
    tasks(&b, HTC_SCALE_EXPONENTIAL, "task of a farm, exponential");
    return bench_close(&b) + (checksum == 42);
}
