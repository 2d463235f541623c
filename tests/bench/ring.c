/* The ring: a lookup beside a plain table of owners and beside the classic circle of points; shares; changes; memory;
 * bytes. Lookups are measured as a program has them that links the static layer with optimisation across files, and
 * once more through the shared library. */
#include <dlfcn.h>
#define XXH_INLINE_ALL
#include <sys/mman.h>
#include <xxhash.h>

#include "bench.h"
#include "htcsched/ring.h"

#define RUNS 9

/* ---- memory, counted; big pieces in huge pages, for ring and floor alike ---- */

static size_t live_bytes;

static void *big_resize(void *ctx, void *p, size_t old_size, size_t new_size)
{
    void *new = NULL;
    (void)ctx;
    if (new_size > 0) {
        new = mmap(NULL, new_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        bench_must(new != MAP_FAILED, "mmap");
        madvise(new, new_size, MADV_HUGEPAGE);
        if (p)
            memcpy(new, p, old_size < new_size ? old_size : new_size);
    }
    if (p)
        munmap(p, old_size);
    return new;
}

static void *resize(void *ctx, void *p, size_t old_size, size_t new_size)
{
    const size_t big = (size_t)1 << 20;
    (void)ctx;
    live_bytes += new_size;
    live_bytes -= p ? old_size : 0;
    if ((p && old_size >= big) != (new_size >= big) && new_size > 0 && p) { /* from small to big, or back */
        void *new = new_size >= big ? big_resize(NULL, NULL, 0, new_size) : malloc(new_size);
        memcpy(new, p, old_size < new_size ? old_size : new_size);
        if (old_size >= big)
            munmap(p, old_size);
        else
            free(p);
        return new;
    }
    if (new_size >= big || (p && old_size >= big))
        return big_resize(ctx, p, old_size, new_size);
    if (new_size == 0) {
        free(p);
        return NULL;
    }
    return realloc(p, new_size);
}

static const htc_alloc counted = { resize, NULL };
static const htc_env   env = { .size = sizeof env, .alloc = &counted };

/* ---- rings ---- */

/* The fewest bits with 50 buckets a member. */
static uint32_t bits_for(uint64_t members)
{
    uint32_t bits = 1;
    while ((UINT64_C(1) << bits) < members * HTC_RING_BUCKETS_A_MEMBER)
        bits++;
    return bits;
}

static htc_ring *ring_of(uint32_t n, uint32_t owners, uint32_t heaviest, uint32_t racks)
{
    htc_ring_options o = { sizeof o, bits_for(n + 1), owners, n + n / 20 + 16, 0 };
    htc_ring_member *m = calloc(n, sizeof *m);
    htc_ring        *r = NULL;
    htc_rng          rng = { n };
    bench_must(m != NULL, "calloc");
    for (uint32_t i = 0; i < n; i++)
        m[i] = (htc_ring_member){ .id = i + 1,
                                  .weight = 1 + (uint32_t)htc_rng_below(&rng, heaviest),
                                  .domain = racks ? 1 + i % racks : 0 };
    bench_must(htc_ring_create(&env, &o, m, n, &r) == HTC_OK, "htc_ring_create");
    free(m);
    return r;
}

/* ---- lookups ---- */

/* What htc_hash64 says of a 16-byte key, as a program has it that knows the length. */
static uint64_t hash_of(uint64_t i)
{
    uint64_t key[2] = { i, UINT64_C(0x5bd1e9955bd1e995) };
    return XXH3_64bits(key, sizeof key);
}

/* The floor: owners in an array; found through a pointer, as structures are that stand beside others, or inlined. */
typedef struct plain {
    uint32_t (*find)(const struct plain *p, uint64_t hash);
    uint32_t *owner;
    unsigned  shift;
} plain;

static uint32_t plain_find(const plain *p, uint64_t hash)
{
    return p->owner[hash >> p->shift];
}

/* The classic circle: 100 points a member in order, binary search. */
typedef struct point {
    uint64_t at;
    uint32_t member;
} point;

typedef struct circle {
    point *points;
    size_t n;
} circle;

static int by_place(const void *a, const void *b)
{
    const point *x = a, *y = b;
    return (x->at > y->at) - (x->at < y->at);
}

static circle circle_of(uint32_t members)
{
    circle c = { calloc((size_t)members * 100, sizeof(point)), (size_t)members * 100 };
    bench_must(c.points != NULL, "calloc");
    for (size_t i = 0; i < c.n; i++)
        c.points[i] = (point){ hash_of(i + (UINT64_C(1) << 40)), (uint32_t)(i / 100) };
    qsort(c.points, c.n, sizeof *c.points, by_place);
    return c;
}

__attribute__((noinline)) static uint32_t circle_find(const circle *c, uint64_t hash)
{
    size_t low = 0, high = c->n;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (c->points[mid].at < hash)
            low = mid + 1;
        else
            high = mid;
    }
    return c->points[low == c->n ? 0 : low].member;
}

static uint64_t sink;

#define NS_OF(find)                                                                                                    \
    do {                                                                                                               \
        double start = bench_cpu_seconds();                                                                            \
        for (uint64_t i = 0; i < keys; i++)                                                                            \
            sink += (find);                                                                                            \
        ns = (bench_cpu_seconds() - start) / (double)keys * 1e9;                                                       \
    } while (0)

/* The same ring by the code of the shared library. */
static double shared_lookup(const htc_ring *r, uint64_t keys)
{
    uint32_t (*find)(const htc_ring *, uint64_t) = NULL;
    uint64_t (*hash)(htc_bytes, uint64_t) = NULL;
    uint64_t key[2] = { 0, UINT64_C(0x5bd1e9955bd1e995) };
    double   ns;
    void    *library = dlopen(SHARED_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    bench_must(library != NULL, SHARED_LIBRARY);
    *(void **)&find = dlsym(library, "htc_ring_find");
    *(void **)&hash = dlsym(library, "htc_hash64");
    bench_must(find != NULL && hash != NULL, "dlsym");
    bench_must(hash((htc_bytes){ key, sizeof key }, 0) == hash_of(0), "the same hash");
    NS_OF((key[0] = i, find(r, hash((htc_bytes){ key, sizeof key }, 0))));
    dlclose(library);
    return ns;
}

static double lookups(const bench *b, uint32_t n)
{
    uint32_t  owners = n > 100000 ? 1 : 3, bits = bits_for(n + 1);
    htc_ring *r = ring_of(n, owners, 1, 0);
    uint64_t  keys = b->quick ? 1000000 : 4000000;
    double    ring[RUNS], ratio[RUNS], inlined[RUNS], ns, called_ns;
    plain     floor = { plain_find, resize(NULL, NULL, 0, sizeof(uint32_t) << bits), 64 - bits };
    for (uint32_t i = 0; i < 1u << bits; i++)
        floor.owner[i] = htc_ring_find(r, (uint64_t)i << floor.shift);
    const plain *volatile hidden = &floor;
    const plain *called = hidden;
    for (int run = 0; run < RUNS; run++) {
        NS_OF(called->find(called, hash_of(i + (uint64_t)run * keys)));
        called_ns = ns;
        NS_OF(plain_find(&floor, hash_of(i + (uint64_t)run * keys)));
        inlined[run] = ns;
        NS_OF(htc_ring_find(r, hash_of(i + (uint64_t)run * keys)));
        ring[run] = ns;
        ratio[run] = ns / called_ns;
        inlined[run] = ns / inlined[run];
    }
    double value = bench_median(ring, RUNS);
    double goal = n == 100 ? 6 : n == 10000 ? 10 : n == 1000000 ? 30 : 0;
    bench_row(b, &(bench_figure){ .what = "lookup", .n = n, .unit = "ns", .value = value, .goal = goal });
    bench_row(b, &(bench_figure){ .what = "lookup, of a plain table of owners",
                                  .n = n,
                                  .unit = "1",
                                  .value = bench_median(ratio, RUNS),
                                  .goal = 1.2 });
    bench_row(
        b, &(bench_figure){
               .what = "lookup, of a plain table inlined", .n = n, .unit = "1", .value = bench_median(inlined, RUNS) });
    bench_row(b,
              &(bench_figure){
                  .what = "lookup through the shared library", .n = n, .unit = "ns", .value = shared_lookup(r, keys) });
    resize(NULL, floor.owner, sizeof(uint32_t) << bits, 0);
    htc_ring_destroy(r);
    return value;
}

static void other_lookups(const bench *b, uint32_t n)
{
    uint64_t  keys = b->quick ? 500000 : 2000000;
    htc_ring *r = ring_of(n, 3, 1, 0);
    circle    c = circle_of(n);
    uint32_t  bits = 0, seats[HTC_RING_OWNERS_MAX];
    double    ns;
    while ((UINT64_C(1) << bits) < n)
        bits++;
    uint32_t *slots = malloc(sizeof *slots << bits);
    bench_must(slots != NULL, "malloc");
    for (uint32_t i = 0; i < 1u << bits; i++)
        slots[i] = i < n ? i : HTC_RING_NONE;
    NS_OF(hash_of(i));
    bench_row(b, &(bench_figure){ .what = "hash of 16 bytes alone", .n = n, .unit = "ns", .value = ns });
    NS_OF((htc_ring_owners(r, htc_ring_bucket(r, hash_of(i)), seats), seats[0] + seats[2]));
    bench_row(b, &(bench_figure){ .what = "lookup of three owners", .n = n, .unit = "ns", .value = ns });
    NS_OF(circle_find(&c, hash_of(i)));
    bench_row(b, &(bench_figure){ .what = "peer: classic circle, 100 points each", .n = n, .unit = "ns", .value = ns });
    NS_OF(htc_ring_dx_find(slots, bits, hash_of(i)));
    bench_row(b, &(bench_figure){ .what = "lookup by DxHash, a slot each", .n = n, .unit = "ns", .value = ns });
    free(slots);
    free(c.points);
    htc_ring_destroy(r);
}

/* ---- shares and moves ---- */

static double worst(const htc_ring *r, int first)
{
    double highest = 0, weights = 0, count = 0;
    for (uint32_t s = 0; s < htc_ring_seats(r); s++) {
        htc_ring_member m;
        htc_ring_share  share;
        if (htc_ring_member_at(r, s, &m) != HTC_OK || htc_ring_share_at(r, s, &share) != HTC_OK)
            continue;
        double own = first ? share.first : share.total;
        highest = fmax(highest, own / m.weight);
        weights += m.weight;
        count += own;
    }
    return highest / (count / weights);
}

/* Buckets that changed for no reason in a change about member id, who grows or shrinks. */
static uint64_t needless(const htc_ring *before, const htc_ring *after, uint64_t id, int grows, uint64_t *moved)
{
    htc_ring_move move;
    uint64_t      n = 0;
    *moved = 0;
    for (uint32_t bucket = 0; htc_ring_move_next(before, after, bucket, &move) == HTC_OK; bucket = move.bucket + 1) {
        uint32_t        seats[HTC_RING_OWNERS_MAX];
        htc_ring_member first = { 0 }, was = { 0 };
        int needed = grows ? move.came_n == 1 && move.came[0] == id : move.went_n == 1 && move.went[0] == id;
        htc_ring_owners(before, move.bucket, seats);
        htc_ring_member_at(before, seats[0], &was);
        htc_ring_owners(after, move.bucket, seats);
        htc_ring_member_at(after, seats[0], &first);
        if (move.came_n == 0 && move.went_n == 0) /* the order alone */
            needed = grows ? first.id == id : was.id == id;
        n += move.came_n > 1 || !needed;
        ++*moved;
    }
    return n;
}

typedef struct costs {
    double join, leave, reweight;
} costs;

/* One member after the other leaves, a new one joins, one is weighed anew; every change is checked at a distance. */
static costs changes(const bench *b, uint32_t n, uint32_t heaviest, uint32_t racks, int check)
{
    int       times = n > 20000 ? 7 : b->quick ? 25 : 101;
    htc_ring *r = ring_of(n, 3, heaviest, racks), *before = NULL;
    double    join[128], leave[128], reweight[128];
    uint64_t  bad = 0, moved, copies = 0;
    for (int i = 0; i < times; i++) {
        htc_ring_member m = { .id = UINT64_C(1000000000) + (uint64_t)i,
                              .weight = 1 + (uint32_t)i % heaviest,
                              .domain = racks ? 1 + (uint64_t)i % racks : 0 };
        uint64_t        gone = 1 + (uint64_t)i * 7919 % n;
        int             looked_at = check && i % 5 == 0;
        if (looked_at)
            bench_must(htc_ring_copy(r, &env, &before) == HTC_OK, "htc_ring_copy");
        double start = bench_cpu_seconds();
        bench_must(htc_ring_join(r, &m) == HTC_OK, "htc_ring_join");
        join[i] = (bench_cpu_seconds() - start) * 1e6;
        if (looked_at) {
            bad += needless(before, r, m.id, 1, &moved);
            copies = moved;
            htc_ring_destroy(before);
            bench_must(htc_ring_copy(r, &env, &before) == HTC_OK, "htc_ring_copy");
        }
        start = bench_cpu_seconds();
        htc_status status = htc_ring_leave(r, gone);
        leave[i] = (bench_cpu_seconds() - start) * 1e6;
        bench_must(status == HTC_OK || status == HTC_ENOTFOUND, "htc_ring_leave");
        if (looked_at) {
            bad += needless(before, r, gone, 0, &moved);
            htc_ring_destroy(before);
        }
        start = bench_cpu_seconds();
        bench_must(htc_ring_reweight(r, m.id, m.weight + 1) == HTC_OK, "htc_ring_reweight");
        reweight[i] = (bench_cpu_seconds() - start) * 1e6;
        bench_must(htc_ring_reweight(r, m.id, m.weight) == HTC_OK, "htc_ring_reweight");
    }
    if (check) {
        const char *kind = racks ? "in racks" : heaviest > 1 ? "weights 1:10" : "equal weights";
        double      goal = heaviest > 1 ? 1.05 : 1.02;
        char        what[96];
        bench_row(
            b, &(bench_figure){ .what = "needless moves (goal: 0)", .n = n, .unit = "buckets", .value = (double)bad });
        bench_row(b, &(bench_figure){ .what = "moves at a join", .n = n, .unit = "buckets", .value = (double)copies });
        snprintf(what, sizeof what, "max/mean share after changes, %s, first owners", kind);
        bench_row(b, &(bench_figure){ .what = what, .n = n, .unit = "1", .value = worst(r, 1), .goal = goal });
        snprintf(what, sizeof what, "max/mean share after changes, %s, all owners", kind);
        bench_row(b, &(bench_figure){ .what = what, .n = n, .unit = "1", .value = worst(r, 0), .goal = goal });
    }
    htc_ring_destroy(r);
    return (costs){ bench_median(join, (size_t)times), bench_median(leave, (size_t)times),
                    bench_median(reweight, (size_t)times) };
}

static void shares(const bench *b, uint32_t n, uint32_t heaviest)
{
    htc_ring   *r = ring_of(n, 3, heaviest, 0);
    const char *kind = heaviest > 1 ? "weights 1:10" : "equal weights";
    double      goal = heaviest > 1 ? 1.05 : 1.02;
    char        what[96];
    snprintf(what, sizeof what, "max/mean share, %s, first owners", kind);
    bench_row(b, &(bench_figure){ .what = what, .n = n, .unit = "1", .value = worst(r, 1), .goal = goal });
    snprintf(what, sizeof what, "max/mean share, %s, all owners", kind);
    bench_row(b, &(bench_figure){ .what = what, .n = n, .unit = "1", .value = worst(r, 0), .goal = goal });
    htc_ring_destroy(r);
}

/* ---- size, on the machine and on the way ---- */

static void sizes(const bench *b, uint32_t n)
{
    size_t    before = live_bytes;
    double    start = bench_cpu_seconds();
    htc_ring *r = ring_of(n, 3, 1, 0);
    double    created = bench_cpu_seconds() - start;
    bench_row(b, &(bench_figure){ .what = "memory a member, three owners",
                                  .n = n,
                                  .unit = "B",
                                  .value = (double)(live_bytes - before) / n,
                                  .goal = 1024 });
    bench_row(b, &(bench_figure){ .what = "create", .n = n, .unit = "ms", .value = created * 1e3 });
    if (n > 100000) {
        htc_ring_destroy(r);
        return;
    }
    htc_ring *old = NULL, *decoded = NULL;
    size_t    size = htc_ring_encoded_size(r, 0), len;
    uint8_t  *bytes = malloc(size);
    bench_must(bytes && htc_ring_copy(r, &env, &old) == HTC_OK, "htc_ring_copy");
    start = bench_cpu_seconds();
    bench_must(htc_ring_encode(r, 0, bytes, size, &len) == HTC_OK, "htc_ring_encode");
    bench_row(
        b, &(bench_figure){ .what = "encode all", .n = n, .unit = "ms", .value = (bench_cpu_seconds() - start) * 1e3 });
    bench_row(b, &(bench_figure){ .what = "bytes of all, a member", .n = n, .unit = "B", .value = (double)len / n });
    start = bench_cpu_seconds();
    bench_must(htc_ring_decode(&env, (htc_bytes){ bytes, len }, &decoded) == HTC_OK, "htc_ring_decode");
    bench_row(
        b, &(bench_figure){ .what = "decode all", .n = n, .unit = "ms", .value = (bench_cpu_seconds() - start) * 1e3 });
    bench_must(htc_ring_leave(r, n / 2) == HTC_OK, "htc_ring_leave");
    start = bench_cpu_seconds();
    bench_must(htc_ring_encode(r, 1, bytes, size, &len) == HTC_OK, "htc_ring_encode");
    bench_row(b, &(bench_figure){
                     .what = "encode a leave", .n = n, .unit = "us", .value = (bench_cpu_seconds() - start) * 1e6 });
    bench_row(b, &(bench_figure){ .what = "bytes of a leave", .n = n, .unit = "B", .value = (double)len });
    start = bench_cpu_seconds();
    bench_must(htc_ring_apply(decoded, (htc_bytes){ bytes, len }) == HTC_OK, "htc_ring_apply");
    bench_row(b, &(bench_figure){
                     .what = "apply a leave", .n = n, .unit = "ms", .value = (bench_cpu_seconds() - start) * 1e3 });
    uint64_t moved;
    start = bench_cpu_seconds();
    needless(old, r, n / 2, 0, &moved);
    bench_row(b, &(bench_figure){ .what = "list the moves of a leave",
                                  .n = n,
                                  .unit = "us",
                                  .value = (bench_cpu_seconds() - start) * 1e6 });
    free(bytes);
    htc_ring_destroy(r);
    htc_ring_destroy(old);
    htc_ring_destroy(decoded);
}

int main(int argc, char **argv)
{
    static const uint32_t at[] = { 100, 1000, 10000, 100000, 1000000 },
                          changed_at[] = { 100, 316, 1000, 3162, 10000, 31623 };
    bench  b = bench_open("ring", argc, argv);
    double size[6], cost[6], leave[6];
    for (size_t i = 0; i < 5; i++) {
        size[i] = at[i];
        cost[i] = lookups(&b, at[i]);
    }
    bench_growth(&b, "lookup", size, cost, 5);
    other_lookups(&b, 100);
    other_lookups(&b, 10000);
    for (uint32_t n = 100; n <= 10000; n *= 100) {
        shares(&b, n, 1);
        shares(&b, n, 10);
        sizes(&b, n);
    }
    for (size_t i = 0; i < 6; i++) {
        costs  c = changes(&b, changed_at[i], 1, 0, changed_at[i] == 100 || changed_at[i] == 10000);
        double goal = changed_at[i] == 10000 ? 1000 : 0;
        size[i] = changed_at[i];
        cost[i] = c.join;
        leave[i] = c.leave;
        bench_row(&b,
                  &(bench_figure){ .what = "join", .n = changed_at[i], .unit = "us", .value = c.join, .goal = goal });
        bench_row(&b,
                  &(bench_figure){ .what = "leave", .n = changed_at[i], .unit = "us", .value = c.leave, .goal = goal });
        bench_row(&b, &(bench_figure){
                          .what = "reweight", .n = changed_at[i], .unit = "us", .value = c.reweight, .goal = goal });
    }
    bench_growth(&b, "join", size, cost, 6);
    bench_growth(&b, "leave", size, leave, 6);
    costs weighted = changes(&b, 10000, 10, 0, 1), racked = changes(&b, 10000, 1, 100, 1);
    bench_row(&b, &(bench_figure){
                      .what = "join, weights 1:10", .n = 10000, .unit = "us", .value = weighted.join, .goal = 1000 });
    bench_row(&b, &(bench_figure){
                      .what = "leave, weights 1:10", .n = 10000, .unit = "us", .value = weighted.leave, .goal = 1000 });
    bench_row(
        &b, &(bench_figure){ .what = "join, 100 racks", .n = 10000, .unit = "us", .value = racked.join, .goal = 1000 });
    bench_row(&b, &(bench_figure){
                      .what = "leave, 100 racks", .n = 10000, .unit = "us", .value = racked.leave, .goal = 1000 });
    if (!b.quick)
        sizes(&b, 1000000);
    if (sink == 42)
        puts("");
    return bench_close(&b);
}
