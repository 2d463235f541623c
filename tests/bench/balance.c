/* Best fit among many partitions: the search alone, and the whole cycle of micro-tuning (search, take the entry out,
 * put the new count back). Counts and needs are drawn beforehand; each search has another need, so that nothing is in
 * the cache by habit. Beside it the peer that a textbook would take, a sorted array with binary search (which has no
 * cheap way to put an entry back). */
#include "htcsched/balance.h"
#include "bench.h"

#define ROUNDS 9
#define NEEDS  65536u

static uint32_t *needs;

static htc_balance_tree *filled(uint32_t partitions, uint32_t size, uint32_t *counts)
{
    htc_balance_tree *t = NULL;
    htc_rng           rng = { partitions };
    bench_must(htc_balance_tree_create(NULL, partitions, &t) == HTC_OK, "htc_balance_tree_create");
    for (uint32_t i = 0; i < partitions; i++) {
        counts[i] = (uint32_t)htc_rng_below(&rng, size + 1);
        bench_must(htc_balance_tree_set(t, i, counts[i]) == HTC_OK, "htc_balance_tree_set");
    }
    return t;
}

static double search_ns(htc_balance_tree *t, uint32_t turns)
{
    double   at[ROUNDS];
    uint64_t sum = 0;
    for (int round = 0; round < ROUNDS; round++) {
        double t0 = bench_cpu_seconds();
        for (uint32_t i = 0; i < turns; i++) {
            uint32_t p = 0;
            htc_balance_tree_best(t, needs[(i + (uint32_t)sum % 2) % NEEDS], &p, NULL); /* one after the other */
            sum += p;
        }
        at[round] = 1e9 * (bench_cpu_seconds() - t0) / turns;
    }
    bench_must(sum > 0, "the sum");
    return bench_median(at, ROUNDS);
}

static double cycle_ns(htc_balance_tree *t, uint32_t size, uint32_t turns)
{
    double at[ROUNDS];
    for (int round = 0; round < ROUNDS; round++) {
        double t0 = bench_cpu_seconds();
        for (uint32_t i = 0; i < turns; i++) {
            uint32_t need = needs[i % NEEDS], p = 0, free = 0;
            if (htc_balance_tree_best(t, need, &p, &free) != HTC_OK)
                continue;
            htc_balance_tree_remove(t, p);
            htc_balance_tree_set(t, p, free > need ? free - need : size - free % 7);
        }
        at[round] = 1e9 * (bench_cpu_seconds() - t0) / turns;
    }
    return bench_median(at, ROUNDS);
}

static int ascending(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static double sorted_ns(uint32_t *counts, uint32_t n, uint32_t turns)
{
    uint64_t sum = 0;
    qsort(counts, n, sizeof *counts, ascending);
    double t0 = bench_cpu_seconds();
    for (uint32_t i = 0; i < turns; i++) {
        uint32_t need = needs[(i + (uint32_t)sum % 2) % NEEDS], low = 0, high = n;
        while (low < high) {
            uint32_t mid = (low + high) / 2;
            if (counts[mid] < need)
                low = mid + 1;
            else
                high = mid;
        }
        sum += low;
    }
    bench_must(sum > 0, "the sum");
    return 1e9 * (bench_cpu_seconds() - t0) / turns;
}

static double pull_ns(uint32_t partitions, const htc_rng *seed)
{
    htc_balance_options  o = HTC_BALANCE_OPTIONS_INIT;
    htc_balance         *b = NULL;
    htc_balance_monitor *m = NULL;
    htc_balance_action   a = { .kind = 0 };
    htc_balance_answer   answer = HTC_BALANCE_ANSWER_INIT;
    htc_rng              rng = *seed;
    o.partitions = partitions;
    bench_must(htc_balance_create(NULL, &o, &b) == HTC_OK, "htc_balance_create");
    bench_must(htc_balance_monitor_create(NULL, partitions, 0, &m) == HTC_OK, "htc_balance_monitor_create");
    while (a.kind != HTC_BALANCE_PUBLISH) {
        bench_must(htc_balance_monitor_step(m, 0, &answer, &a) == HTC_OK, "htc_balance_monitor_step");
        answer.free = (uint32_t)htc_rng_below(&rng, 1025);
    }
    bench_must(htc_balance_pull(b, 0, &rng, a.body) == HTC_OK, "htc_balance_pull");
    double t0 = bench_cpu_seconds();
    bench_must(htc_balance_pull(b, 0, &rng, a.body) == HTC_OK, "htc_balance_pull");
    double ns = 1e9 * (bench_cpu_seconds() - t0);
    htc_balance_monitor_destroy(m);
    htc_balance_destroy(b);
    return ns;
}

/* Nanoseconds a steal: one job that takes the whole machine, partition by partition. */
static double steal_ns(uint32_t partitions)
{
    htc_balance_options  o = HTC_BALANCE_OPTIONS_INIT;
    htc_balance         *b = NULL;
    htc_balance_request *r = NULL;
    htc_balance_action   a = { .kind = 0 };
    htc_balance_answer   answer = { 0, 0 };
    htc_rng              rng = { 5 };
    uint64_t             nodes = 0;
    o.partitions = partitions;
    o.own = HTC_BALANCE_NONE;
    bench_must(htc_balance_create(NULL, &o, &b) == HTC_OK, "htc_balance_create");
    for (uint32_t i = 0; i < partitions; i++) {
        uint32_t free = 1 + (uint32_t)htc_rng_below(&rng, 1024);
        bench_must(htc_balance_learn(b, i, free) == HTC_OK, "htc_balance_learn");
        nodes += free;
    }
    bench_must(htc_balance_begin(b, partitions, &r) == HTC_OK && nodes >= partitions, "htc_balance_begin");
    double t0 = bench_cpu_seconds();
    while (a.kind != HTC_BALANCE_DONE) {
        bench_must(htc_balance_step(r, 0, &rng, &answer, &a) == HTC_OK, "htc_balance_step");
        answer.taken = 1; /* of each, whatever it was said to have */
    }
    double ns = 1e9 * (bench_cpu_seconds() - t0) / partitions;
    htc_balance_end(r);
    htc_balance_destroy(b);
    return ns;
}

int main(int argc, char **argv)
{
    bench    b = bench_open("balance", argc, argv);
    uint32_t turns = b.quick ? 200000 : 2000000, size = 1024;
    double   sizes[6], search[6], cycle[6];
    htc_rng  rng = { 1 };
    needs = malloc(NEEDS * sizeof *needs);
    bench_must(needs != NULL, "malloc");
    for (uint32_t i = 0; i < NEEDS; i++)
        needs[i] = 1 + (uint32_t)htc_rng_below(&rng, size);
    for (int i = 0; i < 6; i++) {
        uint32_t  n = 1024u << 2 * i;
        uint32_t *counts = malloc(n * sizeof *counts);
        bench_must(counts != NULL, "malloc");
        htc_balance_tree *t = filled(n, size, counts);
        double            goal = n == 65536 ? 300 : 0;
        sizes[i] = n;
        search[i] = search_ns(t, turns);
        cycle[i] = cycle_ns(t, size, turns);
        double sorted = sorted_ns(counts, n, turns);
        bench_row(&b, &(bench_figure){ .what = "best fit", .n = n, .unit = "ns", .value = search[i], .goal = goal });
        bench_row(&b,
                  &(bench_figure){
                      .what = "best fit, out and in again", .n = n, .unit = "ns", .value = cycle[i], .goal = goal });
        bench_row(&b,
                  &(bench_figure){ .what = "peer: sorted array, search alone", .n = n, .unit = "ns", .value = sorted });
        bench_row(&b,
                  &(bench_figure){
                      .what = "pull of a census, a partition", .n = n, .unit = "ns", .value = pull_ns(n, &rng) / n });
        bench_row(&b, &(bench_figure){ .what = "step of a request", .n = n, .unit = "ns", .value = steal_ns(n) });
        htc_balance_tree_destroy(t);
        free(counts);
    }
    bench_growth(&b, "best fit", sizes, search, 6);
    bench_growth(&b, "best fit, out and in again", sizes, cycle, 6);
    /* Partitions of up to a million nodes: four levels of words instead of two. */
    uint32_t *counts = malloc(65536 * sizeof *counts);
    bench_must(counts != NULL, "malloc");
    htc_balance_tree *t = filled(65536, HTC_BALANCE_FREE_MAX, counts);
    for (uint32_t i = 0; i < NEEDS; i++)
        needs[i] = 1 + (uint32_t)htc_rng_below(&rng, HTC_BALANCE_FREE_MAX);
    bench_row(
        &b,
        &(bench_figure){
            .what = "best fit, counts to 2^20", .n = 65536, .unit = "ns", .value = search_ns(t, turns), .goal = 300 });
    bench_row(&b, &(bench_figure){ .what = "best fit, counts to 2^20, out and in again",
                                   .n = 65536,
                                   .unit = "ns",
                                   .value = cycle_ns(t, HTC_BALANCE_FREE_MAX, turns),
                                   .goal = 300 });
    htc_balance_tree_destroy(t);
    free(counts);
    free(needs);
    return bench_close(&b);
}
