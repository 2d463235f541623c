/* What judging a history costs: linearizability by versions and by search, the last reads, reading the file. */
#include "htcsched/history.h"
#include "bench/bench.h"

/* Eight clients take turns at many keys; every tenth operation overlaps the next. */
static htc_history *history_of(size_t ops, uint32_t keys, unsigned unknown_ppm)
{
    const htc_history_op init = HTC_HISTORY_OP_INIT;
    htc_history         *h = NULL;
    htc_rng              rng = { 7 };
    uint64_t            *version = calloc(keys, sizeof *version);
    htc_history_value   *value = calloc(keys, sizeof *value);
    uint32_t             key = 0;
    bench_must(version && value && htc_history_create(NULL, NULL, &h) == HTC_OK, "htc_history_create");
    for (uint32_t k = 0; k < keys; k++) {
        char name[16];
        snprintf(name, sizeof name, "key%u", k);
        bench_must(htc_history_key(h, htc_bytes_of(name), &key) == HTC_OK, "htc_history_key");
    }
    for (size_t i = 0; i < ops; i++) {
        htc_history_op op = init;
        char           text[24];
        op.key = (uint32_t)htc_rng_below(&rng, keys);
        op.process = i % 8;
        op.invoked = 10 * i;
        op.returned = 10 * i + (i % 10 ? 5 : 12);
        op.outcome = HTC_HISTORY_DONE;
        op.kind = version[op.key] && htc_rng_below(&rng, 2) ? HTC_HISTORY_GET : HTC_HISTORY_PUT;
        if (op.kind == HTC_HISTORY_PUT) {
            int n = snprintf(text, sizeof text, "value %zu", i);
            op.argument = value[op.key] = htc_history_value_of((htc_bytes){ text, (size_t)n });
            op.version = version[op.key] += 2;
            if (htc_rng_below(&rng, 1000000) < unknown_ppm) {
                op.outcome = HTC_HISTORY_UNKNOWN;
                op.returned = HTC_NEVER;
                op.version = 0;
            }
        } else {
            op.observed = value[op.key];
            op.version = version[op.key];
        }
        bench_must(htc_history_add(h, &op, NULL) == HTC_OK, "htc_history_add");
    }
    free(version);
    free(value);
    return h;
}

static void linear(const bench *b, size_t ops, uint32_t keys, unsigned unknown_ppm, const char *what, double *seconds)
{
    htc_history        *h = history_of(ops, keys, unknown_ppm);
    htc_history_verdict v;
    double              t = bench_cpu_seconds();
    bench_must(htc_history_linear(h, NULL, &v) == HTC_OK && v.answer == HTC_HISTORY_HOLDS, "htc_history_linear");
    t = bench_cpu_seconds() - t;
    if (seconds)
        *seconds = t;
    bench_row(b, &(bench_figure){ .what = what, .n = ops, .unit = "ops/s", .value = (double)ops / t, .more = 1 });
    htc_history_destroy(h);
}

static void growth(const bench *b)
{
    double size[5], cost[5];
    int    sizes = b->quick ? 4 : 5;
    for (int i = 0; i < sizes; i++) {
        size_t ops = (size_t)10000 << 2 * i;
        size[i] = (double)ops;
        linear(b, ops, 100, 0, "linear by versions, 100 keys", &cost[i]);
    }
    bench_growth(b, "linear by versions", size, cost, (size_t)sizes);
}

static void search(const bench *b, size_t ops)
{
    htc_history        *h = history_of(ops, 1, 0);
    htc_history_rules   rules = { .size = sizeof rules, .search_max = UINT64_MAX };
    htc_history_verdict v;
    double              t = bench_cpu_seconds();
    bench_must(htc_history_search(h, 0, &rules, &v) == HTC_OK && v.answer == HTC_HISTORY_HOLDS, "htc_history_search");
    t = bench_cpu_seconds() - t;
    bench_row(b,
              &(bench_figure){
                  .what = "linear by search, 1 key", .n = ops, .unit = "ops/s", .value = (double)ops / t, .more = 1 });
    htc_history_destroy(h);
}

static void text(const bench *b, size_t ops)
{
    static char  line[HTC_HISTORY_LINE_MAX];
    htc_history *h = history_of(ops, 100, 0), *again = NULL;
    char        *all = malloc(ops * 200);
    size_t       len = 0;
    bench_must(all != NULL && htc_history_create(NULL, NULL, &again) == HTC_OK, "memory");
    double t0 = bench_cpu_seconds();
    for (size_t i = 0; i < ops; i++) {
        size_t n = htc_history_line(h, i, line, sizeof line);
        memcpy(all + len, line, n);
        len += n;
        all[len++] = '\n';
    }
    double t1 = bench_cpu_seconds();
    bench_must(htc_history_read(again, (htc_bytes){ all, len }, NULL) == HTC_OK, "htc_history_read");
    double t2 = bench_cpu_seconds();
    bench_row(b, &(bench_figure){
                     .what = "write lines", .n = ops, .unit = "ops/s", .value = (double)ops / (t1 - t0), .more = 1 });
    bench_row(b, &(bench_figure){
                     .what = "read lines", .n = ops, .unit = "ops/s", .value = (double)ops / (t2 - t1), .more = 1 });
    free(all);
    htc_history_destroy(h);
    htc_history_destroy(again);
}

int main(int argc, char **argv)
{
    bench  b = bench_open("history", argc, argv);
    size_t ops = b.quick ? 100000 : 1000000;
    linear(&b, ops, 1, 0, "linear by versions, 1 key", NULL);
    linear(&b, ops, 10000, 0, "linear by versions, 10000 keys", NULL);
    linear(&b, ops, 10000, 1000, "linear by versions, 10000 keys, one in 1000 unknown", NULL);
    growth(&b);
    search(&b, ops / 10);
    text(&b, ops / 10);
    return bench_close(&b);
}
