/* What the choices of a thief cost: picking k of n, beside a bitmap of n that is cleared each time (as published) and
 * beside k draws alone, the floor; a whole round; a mesh; half of a queue by least data. */
#include "htcsched/steal.h"
#include "bench.h"

#define SIZES 6

static uint64_t sink; /* what was computed is used, or it would not be computed */

/* ns a neighbour, of as many picks as take a while. */
static double pick_ns(uint32_t n, uint32_t k, uint64_t draws, uint32_t *out)
{
    htc_rng  rng = { n };
    uint64_t turns = draws / k + 1;
    double   t = bench_cpu_seconds();
    for (uint64_t i = 0; i < turns; i++) {
        bench_must(htc_steal_pick(&rng, n, (uint32_t)i % n, k, out) == HTC_OK, "pick");
        sink += out[0];
    }
    return (bench_cpu_seconds() - t) * 1e9 / ((double)turns * k);
}

static double draws_ns(uint32_t n, uint32_t k, uint64_t draws, uint32_t *out)
{
    htc_rng  rng = { n };
    uint64_t turns = draws / k + 1;
    double   t = bench_cpu_seconds();
    for (uint64_t i = 0; i < turns; i++) {
        for (uint32_t j = 0; j < k; j++)
            out[j] = (uint32_t)htc_rng_below(&rng, n);
        sink += out[0];
    }
    return (bench_cpu_seconds() - t) * 1e9 / ((double)turns * k);
}

static double bitmap_ns(uint32_t n, uint32_t k, uint64_t draws, uint32_t *out)
{
    htc_rng  rng = { n };
    uint8_t *chosen = malloc(n / 8 + 1);
    uint64_t turns = draws / (k + n / 64) + 1;
    bench_must(chosen != NULL, "malloc");
    double t = bench_cpu_seconds();
    for (uint64_t i = 0; i < turns; i++) {
        memset(chosen, 0, n / 8 + 1);
        for (uint32_t j = 0; j < k;) {
            uint32_t x = (uint32_t)htc_rng_below(&rng, n);
            if (!(chosen[x / 8] >> x % 8 & 1)) {
                chosen[x / 8] |= (uint8_t)(1 << x % 8);
                out[j++] = x;
            }
        }
        sink += out[0];
    }
    t = (bench_cpu_seconds() - t) * 1e9 / ((double)turns * k);
    free(chosen);
    return t;
}

static void row(const bench *b, const char *what, uint64_t n, const char *unit, double value)
{
    bench_row(b, &(bench_figure){ .what = what, .n = n, .unit = unit, .value = value });
}

static void picks(const bench *b, uint64_t draws)
{
    double    sizes[SIZES], whole[SIZES];
    uint32_t *out = malloc(sizeof *out << 20);
    bench_must(out != NULL, "malloc");
    for (uint32_t i = 0, n = 100; i < SIZES; i++, n *= 16) { /* 16 of up to 100 million */
        sizes[i] = n;
        whole[i] = 16 * pick_ns(n, 16, draws, out);
        row(b, "pick 16 of n", n, "ns", whole[i]);
        row(b, "pick 16 of n, bitmap of n", n, "ns", 16 * bitmap_ns(n, 16, draws, out));
    }
    bench_growth(b, "pick 16 of n", sizes, whole, SIZES);
    for (uint32_t i = 0, n = 1024; i < SIZES; i++, n *= 4) {
        uint32_t k = htc_steal_neighbours(HTC_STEAL_SQRT, n);
        row(b, "pick sqrt(n) of n, each", n, "ns", pick_ns(n, k, draws, out));
        row(b, "sqrt(n) draws of n alone, each", n, "ns", draws_ns(n, k, draws, out));
    }
    for (uint32_t i = 0, k = 1; i < SIZES; i++, k *= 16) { /* up to a million of four million */
        sizes[i] = k;
        whole[i] = k * pick_ns(1 << 22, k, draws, out);
        row(b, "pick n of 4194304", k, "ns", whole[i]);
    }
    bench_growth(b, "pick n of 4194304", sizes, whole, SIZES);
    free(out);
}

/* A round of Algorithm 2 as the thief pays for it, messages apart. */
static void rounds(const bench *b, const htc_registry *registry, const char *name, uint64_t draws)
{
    static uint32_t   out[4096];
    static uint64_t   load[4096];
    htc_steal_options o = HTC_STEAL_OPTIONS_INIT;
    double            sizes[SIZES], costs[SIZES];
    char              what[64];
    bench_must(htc_steal_find(registry, name, &o.policy) == HTC_OK, "find");
    snprintf(what, sizeof what, "round, %s", name);
    for (uint32_t i = 0, n = 1024; i < SIZES; i++, n *= 4) {
        htc_steal_thief t;
        htc_rng         rng = { n };
        uint32_t        count = 0, victim = 0;
        uint64_t        turns = draws / htc_steal_neighbours(HTC_STEAL_SQRT, n) + 1;
        bench_must(htc_steal_start(n, n / 2 + 7, 0, &t) == HTC_OK, "start");
        double began = bench_cpu_seconds();
        for (uint64_t turn = 0; turn < turns; turn++) {
            bench_must(htc_steal_ask(&t, &o, turn, &rng, 4096, out, &count) == HTC_OK, "ask");
            load[turn % count] = turn;
            bench_must(htc_steal_victim(load, count, &victim) >= HTC_OK, "victim");
            bench_must(htc_steal_settle(&t, &o, turn, out[victim], 1) == HTC_OK, "settle");
        }
        sizes[i] = n;
        costs[i] = (bench_cpu_seconds() - began) * 1e9 / (double)turns;
        row(b, what, n, "ns", costs[i]);
    }
    bench_growth(b, what, sizes, costs, SIZES);
}

static void least(const bench *b, uint64_t draws)
{
    static uint64_t bytes[1 << 16];
    static uint32_t out[1 << 15];
    double          sizes[SIZES], costs[SIZES];
    htc_rng         rng = { 1 };
    for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++)
        bytes[i] = htc_rng_next(&rng);
    for (uint32_t i = 0, n = 64; i < SIZES; i++, n *= 4) {
        uint64_t turns = draws / 4 / n + 1;
        double   t = bench_cpu_seconds();
        for (uint64_t turn = 0; turn < turns; turn++) {
            bench_must(htc_steal_least(bytes, n, n / 2, out) == HTC_OK, "least");
            sink += out[0];
        }
        sizes[i] = n;
        costs[i] = (bench_cpu_seconds() - t) * 1e9 / (double)turns;
        row(b, "half of n by least data", n, "ns", costs[i]);
    }
    bench_growth(b, "half of n by least data", sizes, costs, SIZES);
}

int main(int argc, char **argv)
{
    bench         b = bench_open("steal", argc, argv);
    uint64_t      draws = b.quick ? 2000000 : 20000000;
    htc_registry *registry;
    bench_must(htc_registry_create(NULL, &registry) == HTC_OK && htc_registry_add_builtin(registry) == HTC_OK,
               "registry");
    picks(&b, draws);
    rounds(&b, registry, "one", draws);
    rounds(&b, registry, "sqrt", draws);
    rounds(&b, registry, "static", draws);
    rounds(&b, registry, "near", draws);
    rounds(&b, registry, "mesh-2d", draws);
    least(&b, draws);
    htc_registry_destroy(registry);
    return bench_close(&b) + (sink == 1);
}
