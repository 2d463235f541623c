/* Resource records: what a change of the bytes costs, all of it: reading, checking, changing, writing. The goal is for
 * 65,536 nodes, half of them free in random order. */
#include "htcsched/record.h"
#include "bench.h"

#define NODES  65536u
#define ROUNDS 9

static htc_record_set *new_set(void)
{
    htc_record_set *set = NULL;
    bench_must(htc_record_set_create(NULL, &set) == HTC_OK, "htc_record_set_create");
    return set;
}

/* A record of so many nodes, each free by chance. */
static htc_bytes half_free(uint32_t nodes, uint64_t seed)
{
    htc_rng         rng = { seed };
    htc_record_set *busy = new_set();
    htc_record_ask  ask = HTC_RECORD_ASK_INIT;
    htc_bytes       all, taken, settled;
    for (uint32_t i = 0; i < nodes; i++)
        if (htc_rng_below(&rng, 2))
            bench_must(htc_record_set_add(busy, i, 1) == HTC_OK, "htc_record_set_add");
    ask.job = htc_bytes_of("busy");
    ask.attempt = 1;
    ask.most = htc_record_set_count(busy);
    ask.among = busy;
    bench_must(htc_record_create(NULL, nodes, 1, &all) == HTC_OK, "htc_record_create");
    bench_must(htc_record_take(NULL, all, &ask, &taken, NULL) == HTC_OK, "htc_record_take");
    bench_must(htc_record_settle(NULL, taken, ask.job, 1, &settled) == HTC_OK, "htc_record_settle");
    htc_record_free(NULL, all);
    htc_record_free(NULL, taken);
    htc_record_set_destroy(busy);
    return settled;
}

typedef struct costs {
    double take, settle, give, count;
} costs;

/* Microseconds each: take so many of a half-free record, settle them, give them back; and count. */
static costs measure(htc_bytes record, uint32_t most, int turns)
{
    htc_record_set    *got = new_set();
    htc_record_ask     ask = HTC_RECORD_ASK_INIT;
    htc_record_summary s;
    double             at[4][ROUNDS];
    ask.job = htc_bytes_of("1234567890");
    ask.attempt = 1;
    ask.most = most;
    for (int round = 0; round < ROUNDS; round++) {
        double spent[4] = { 0 };
        for (int i = 0; i < turns; i++) {
            htc_bytes a, b, c;
            double    t0 = bench_cpu_seconds();
            bench_must(htc_record_take(NULL, record, &ask, &a, got) == HTC_OK, "htc_record_take");
            double t1 = bench_cpu_seconds();
            bench_must(htc_record_settle(NULL, a, ask.job, 1, &b) == HTC_OK, "htc_record_settle");
            double t2 = bench_cpu_seconds();
            bench_must(htc_record_give(NULL, b, got, &c) == HTC_OK, "htc_record_give");
            double t3 = bench_cpu_seconds();
            bench_must(htc_record_count(NULL, c, &s) == HTC_OK, "htc_record_count");
            double t4 = bench_cpu_seconds();
            bench_must(htc_bytes_equal(c, record), "giving back what was taken");
            htc_record_free(NULL, a);
            htc_record_free(NULL, b);
            htc_record_free(NULL, c);
            spent[0] += t1 - t0;
            spent[1] += t2 - t1;
            spent[2] += t3 - t2;
            spent[3] += t4 - t3;
        }
        for (int k = 0; k < 4; k++)
            at[k][round] = 1e6 * spent[k] / turns;
    }
    htc_record_set_destroy(got);
    return (costs){ bench_median(at[0], ROUNDS), bench_median(at[1], ROUNDS), bench_median(at[2], ROUNDS),
                    bench_median(at[3], ROUNDS) };
}

static void rows(const bench *b, const char *what, htc_bytes record, uint32_t most, int turns)
{
    char  name[64];
    costs c = measure(record, most, turns);
    const struct {
        const char *op;
        double      us, goal;
    } list[] = { { "take", c.take, 20 }, { "settle", c.settle, 20 }, { "give", c.give, 20 }, { "count", c.count, 0 } };
    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof name, "%s %s", list[i].op, what);
        bench_row(b,
                  &(bench_figure){ .what = name, .n = NODES, .unit = "us", .value = list[i].us, .goal = list[i].goal });
    }
    bench_row(b, &(bench_figure){
                     .what = "half free", .n = NODES, .unit = "bytes", .value = (double)record.len, .goal = 8256 });
}

static void growth(const bench *b, int turns)
{
    double size[6], take[6], give[6];
    for (int i = 0; i < 6; i++) {
        uint32_t  nodes = 1024u << 2 * i;
        htc_bytes record = half_free(nodes, 7);
        costs     c = measure(record, nodes / 64, turns > 64 >> i ? turns * 4 >> i : turns);
        size[i] = nodes;
        take[i] = c.take;
        give[i] = c.give;
        bench_row(b, &(bench_figure){ .what = "take 1/64", .n = nodes, .unit = "us", .value = c.take });
        bench_row(b, &(bench_figure){ .what = "give 1/64", .n = nodes, .unit = "us", .value = c.give });
        htc_record_free(NULL, record);
    }
    bench_growth(b, "take 1/64", size, take, 6);
    bench_growth(b, "give 1/64", size, give, 6);
}

static void texts(const bench *b)
{
    htc_record_names *names = NULL;
    htc_record_set   *set = new_set();
    htc_bytes         record = half_free(NODES, 3), text;
    double            t0 = bench_cpu_seconds();
    bench_must(htc_record_names_parse(NULL, htc_bytes_of("n[00001-65536]"), 0, &names, NULL) == HTC_OK, "parse");
    double t1 = bench_cpu_seconds();
    bench_must(htc_record_nodes(NULL, record, HTC_RECORD_FREE, set) == HTC_OK, "htc_record_nodes");
    bench_must(htc_record_names_text(NULL, names, set, &text) == HTC_OK, "htc_record_names_text");
    double t2 = bench_cpu_seconds();
    bench_must(htc_record_names_set(names, text, set, NULL) == HTC_OK, "htc_record_names_set");
    double t3 = bench_cpu_seconds();
    bench_row(b, &(bench_figure){ .what = "parse a node list", .n = NODES, .unit = "ms", .value = 1e3 * (t1 - t0) });
    bench_row(b,
              &(bench_figure){ .what = "text of a half-free set", .n = NODES, .unit = "ms", .value = 1e3 * (t2 - t1) });
    bench_row(b, &(bench_figure){ .what = "read that text", .n = NODES, .unit = "ms", .value = 1e3 * (t3 - t2) });
    htc_record_free(NULL, text);
    htc_record_free(NULL, record);
    htc_record_set_destroy(set);
    htc_record_names_destroy(names);
}

int main(int argc, char **argv)
{
    bench     b = bench_open("record", argc, argv);
    int       turns = b.quick ? 100 : 1000;
    htc_bytes record = half_free(NODES, 1), free_run;
    rows(&b, "1 node", record, 1, turns);
    rows(&b, "1024 nodes", record, 1024, turns);
    rows(&b, "all that are free", record, 32000, turns);
    htc_record_free(NULL, record);
    bench_must(htc_record_create(NULL, NODES, UINT64_MAX, &free_run) == HTC_OK, "htc_record_create");
    bench_row(&b, &(bench_figure){
                      .what = "one free run", .n = NODES, .unit = "bytes", .value = (double)free_run.len, .goal = 64 });
    htc_record_free(NULL, free_run);
    growth(&b, turns);
    texts(&b);
    return bench_close(&b);
}
