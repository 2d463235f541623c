/* The table of cells in memory: what a get, an overwrite and a put cost from 10^4 to 10^7 records of 16 + 128 bytes with 24 of what
 * the server writes around them, one by one and 16 asked for together; bytes a record, by our own count and by what the
 * process takes; the longest pause of one change while the table grows.
 *
 * "whole" is what a server does for a request besides: it is asked by a request that was read, hashes the key, seals the
 * record and writes an answer; here a hash and two copies of the record through buffers that stand for them.
 *
 * --huge: regions come from memory advised to be huge pages, as a host may do. */
#include <sys/mman.h>
#include <unistd.h>

#include "bench.h"
#include "kvs/storage/cells_heap.h"

enum { KEY = 16, VALUE = 152, BATCH = 16 };

static void *huge_resize(void *ctx, void *p, size_t old_size, size_t new_size)
{
    (void)ctx;
    enum { HUGE_PAGE = 2 << 20, LARGE = 64 << 10 };
    /* What is large is cut from stretches of 1 GiB; what is given back of it is lost: the benchmark gives nothing back. */
    static char *at, *end;
    if (new_size == 0) {
        if (old_size < LARGE)
            free(p);
        return NULL;
    }
    if (p || new_size < LARGE)
        return realloc(p, new_size);
    if ((size_t)(end - at) < new_size) {
        char *more =
            mmap(NULL, (size_t)1 << 30, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (more == MAP_FAILED)
            return NULL;
        madvise(more, (size_t)1 << 30, MADV_HUGEPAGE);
        at = more + (-(uintptr_t)more % HUGE_PAGE);
        end = more + ((size_t)1 << 30);
    }
    char *taken = at;
    at += (new_size + 63) / 64 * 64;
    return taken;
}

static uint64_t mix(uint64_t i)
{
    return (i ^ i >> 31) * UINT64_C(0x9e3779b97f4a7c15);
}

static htc_bytes key_of(uint64_t i, uint64_t key[2])
{
    key[0] = mix(i + 1);
    key[1] = i;
    return (htc_bytes){ key, KEY };
}

static double rss_bytes(void)
{
    long  pages = 0, all;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%ld %ld", &all, &pages) != 2)
        pages = 0;
    if (f)
        fclose(f);
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

static uint64_t sink;

typedef enum job { GET, OVERWRITE } job;

/* n operations on random keys of `records`; nanoseconds of CPU each. together: keys hinted at once. whole: with the work around. */
static double run(htc__heap *h, job what, uint64_t records, uint64_t n, size_t together, int whole, htc_rng *rng)
{
    uint64_t  keys[BATCH][2];
    htc_bytes asked[BATCH], value;
    char      in[VALUE + 64] = { 0 }, out[VALUE + 64];
    double    start = bench_cpu_seconds();
    for (uint64_t done = 0; done < n; done += together) {
        for (size_t i = 0; i < together; i++)
            asked[i] = key_of(htc_rng_below(rng, records), keys[i]);
        if (together > 1)
            htc__heap_hint(h, asked, together);
        for (size_t i = 0; i < together; i++) {
            if (whole || what == OVERWRITE)
                bench_must(htc__heap_get(h, asked[i], &value) == HTC_OK, "get");
            else if (htc__heap_get(h, asked[i], &value) == HTC_OK)
                sink += *(const uint8_t *)value.data;
            if (whole) {
                memcpy(out, value.data, value.len);
                sink += htc_hash64((htc_bytes){ out, VALUE }, done);
            }
            if (what == OVERWRITE) {
                in[0] = (char)done;
                if (whole)
                    sink += htc_hash64((htc_bytes){ in, VALUE }, done);
                bench_must(htc__heap_put(h, asked[i], (htc_bytes){ in, VALUE }) == HTC_OK, "put");
            }
        }
    }
    return 1e9 * (bench_cpu_seconds() - start) / (double)n;
}

typedef struct costs {
    double get, get_together, overwrite, overwrite_together, whole, put, bytes, rss, pause;
} costs;

static double best(htc__heap *h, job what, uint64_t records, uint64_t n, size_t together, int whole, htc_rng *rng)
{
    double least = 0;
    for (int i = 0; i < 3; i++) {
        double t = run(h, what, records, n, together, whole, rng);
        least = i == 0 || t < least ? t : least;
    }
    return least;
}

static void measure(const bench *b, const htc_env *env, uint64_t records, costs *c)
{
    htc__heap h;
    htc_rng   rng = { 1 };
    uint64_t  key[2];
    char      value[VALUE] = { 0 };
    double    before = rss_bytes(), longest = 0;
    uint64_t  n = b->quick ? 200000 : 2000000;
    htc__heap_init(&h, env, &(htc__heap_options){ .seed = 9 });
    double start = bench_cpu_seconds();
    for (uint64_t i = 0; i < records; i++)
        bench_must(htc__heap_put(&h, key_of(i, key), (htc_bytes){ value, VALUE }) == HTC_OK, "put");
    c->put = 1e9 * (bench_cpu_seconds() - start) / (double)records;
    c->bytes = (double)htc__heap_used(&h) / (double)records;
    c->rss = (rss_bytes() - before) / (double)records;
    c->get = best(&h, GET, records, n, 1, 0, &rng);
    c->get_together = best(&h, GET, records, n, BATCH, 0, &rng);
    c->overwrite = best(&h, OVERWRITE, records, n, 1, 0, &rng);
    c->overwrite_together = best(&h, OVERWRITE, records, n, BATCH, 0, &rng);
    c->whole = best(&h, OVERWRITE, records, n, BATCH, 1, &rng);
    /* More records, each change timed for itself by this thread's CPU: what a busy machine takes away is no pause of ours. */
    for (uint64_t i = records; i < records + records / 2; i++) {
        double t = bench_cpu_seconds();
        bench_must(htc__heap_put(&h, key_of(i, key), (htc_bytes){ value, VALUE }) == HTC_OK, "put");
        t = bench_cpu_seconds() - t;
        longest = t > longest ? t : longest;
    }
    c->pause = 1e6 * longest;
    htc__heap_free(&h);
}

int main(int argc, char **argv)
{
    htc_alloc huge = { huge_resize, NULL };
    htc_env   env = { .size = sizeof env };
    if (argc > 1 && strcmp(argv[argc - 1], "--huge") == 0) {
        env.alloc = &huge;
        argc--;
    }
    bench  b = bench_open("table", argc, argv);
    double size[4];
    costs  c[4];
    size_t sizes = b.quick ? 3 : 4;
    for (size_t i = 0; i < sizes; i++) {
        uint64_t n = (uint64_t)(1e4 * pow(10, (double)i) + 0.5);
        size[i] = (double)n;
        measure(&b, &env, n, &c[i]);
        const bench_figure rows[] = {
            { "get", n, "ns", c[i].get, 0, 0 },
            { "get, 16 together", n, "ns", c[i].get_together, 0, 0 },
            { "overwrite", n, "ns", c[i].overwrite, 0, 0 },
            { "overwrite, 16 together", n, "ns", c[i].overwrite_together, 0, 0 },
            { "whole overwrite, 16 together", n, "ns", c[i].whole, 0, 0 },
            { "put of a new record", n, "ns", c[i].put, 0, 0 },
            { "bytes of a record of 168", n, "B", c[i].bytes, 190, 0 },
            { "the same, as the process grows", n, "B", c[i].rss, 0, 0 },
            { "longest put while growing", n, "us", c[i].pause, 0, 0 },
        };
        for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
            bench_row(&b, &rows[r]);
    }
#define GROWTH(field, name)                                                                                            \
    do {                                                                                                               \
        double cost[4];                                                                                                \
        for (size_t i = 0; i < sizes; i++)                                                                             \
            cost[i] = c[i].field;                                                                                      \
        bench_growth(&b, name, size, cost, sizes);                                                                     \
        bench_row(&b, &(bench_figure){ name ": largest over smallest", (uint64_t)size[sizes - 1], "1",                 \
                                       cost[sizes - 1] / cost[0], 1.5, 0 });                                           \
    } while (0)
    GROWTH(get, "get");
    GROWTH(get_together, "get, 16 together");
    GROWTH(overwrite_together, "overwrite, 16 together");
    GROWTH(whole, "whole overwrite, 16 together");
    return bench_close(&b) || sink == 1;
}
