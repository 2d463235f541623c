/* The table of cells in memory: against a slow model, by key, by place and in order; growing and shrinking; with memory
 * refused at every point; what a record costs. */
#include "expect.h"
#include <stdio.h>
#include <string.h>

#include "alloc_fail.h"
#include "cells_model.h"
#include "kvs/storage/cells_table.h"
#include "kvs/util/place.h"
#include "property.h"

#define SEED 77

static void same(htc__heap *h, const model *m, size_t key)
{
    char       text[64];
    htc_bytes  value, name = model_key(key, text);
    htc_status status = htc__heap_get(h, name, &value);
    HOLDS(status == (m->stamp[key] ? HTC_OK : HTC_ENOTFOUND));
    HOLDS(htc__heap_place(h) == htc__kv_place(SEED, name));
    if (status == HTC_OK)
        HOLDS(htc_bytes_equal(value, model_value(key, m->stamp[key])));
}

typedef struct seen {
    const model *m;
    uint64_t     last_place;
    char         last_key[64];
    size_t       last_len, count;
    uint64_t     from, to;
    int          in_order, by_place;
} seen;

static int look(void *ctx, htc_bytes key, htc_bytes value)
{
    seen    *s = ctx;
    uint64_t place = htc__kv_place(SEED, key);
    size_t   number = model_number(key);
    HOLDS(s->m->stamp[number] && htc_bytes_equal(value, model_value(number, s->m->stamp[number])));
    if (s->by_place) {
        HOLDS(place >> 34 >= s->last_place >> 34 && place >= s->from && place <= s->to);
        s->last_place = place;
    } else {
        HOLDS(s->count == 0 || htc_bytes_compare((htc_bytes){ s->last_key, s->last_len }, key) < 0);
        memcpy(s->last_key, key.data, key.len);
        s->last_len = key.len;
    }
    s->count++;
    return 1;
}

static void same_all(htc__heap *h, const model *m, htc_rng *rng)
{
    size_t n = model_count(m), in_buckets = 0;
    char   text[64];
    HOLDS(htc__heap_count(h) == n);
    for (size_t i = 0; i < MODEL_KEYS; i++)
        same(h, m, i);
    seen s = { .m = m };
    if (h->ordered) {
        HOLDS(htc__heap_scan(h, (htc_bytes){ NULL, 0 }, look, &s) == HTC_OK && s.count == n);
        /* From somewhere: exactly those that are not before it. */
        size_t    first = htc_rng_below(rng, MODEL_KEYS), behind = 0;
        htc_bytes from = model_key(first, text);
        for (size_t i = first; i < MODEL_KEYS; i++)
            behind += m->stamp[i] != 0;
        s = (seen){ .m = m };
        HOLDS(htc__heap_scan(h, from, look, &s) == HTC_OK && s.count == behind);
    } else {
        HOLDS(htc__heap_scan(h, (htc_bytes){ NULL, 0 }, look, &s) == HTC_EUNSUPPORTED && s.count == 0);
    }
    /* All buckets one after the other are all there is. */
    uint32_t k = 1 + (uint32_t)htc_rng_below(rng, 6);
    for (uint64_t b = 0; b < UINT64_C(1) << k; b++) {
        uint64_t from = b << (64 - k), to = from + (UINT64_MAX >> k);
        s = (seen){ .m = m, .by_place = 1, .from = from, .to = to };
        HOLDS(htc__heap_walk(h, from, to, look, &s) == HTC_OK);
        in_buckets += s.count;
    }
    HOLDS(in_buckets == n);
    /* And any stretch, down to one place. */
    uint64_t place = htc__kv_place(SEED, model_key(htc_rng_below(rng, MODEL_KEYS), text));
    size_t   there = 0;
    for (size_t i = 0; i < MODEL_KEYS; i++)
        there += m->stamp[i] && htc__kv_place(SEED, model_key(i, text)) == place;
    s = (seen){ .m = m, .by_place = 1, .from = place, .to = place };
    HOLDS(htc__heap_walk(h, place, place, look, &s) == HTC_OK && s.count == there);
}

/* Keys that are used one after the other, announced or not; more than are remembered, some twice. */
typedef struct plan {
    size_t keys[HTC__HEAP_FOUND + 4], count, at;
} plan;

static size_t planned(plan *p, htc__heap *h, uint32_t keys, htc_rng *rng)
{
    char      text[HTC__HEAP_FOUND + 4][64];
    htc_bytes names[HTC__HEAP_FOUND + 4];
    if (p->at == p->count) {
        p->at = 0;
        p->count = 1 + htc_rng_below(rng, HTC__HEAP_FOUND + 4);
        for (size_t i = 0; i < p->count; i++) {
            p->keys[i] = htc_rng_below(rng, keys);
            names[i] = model_key(p->keys[i], text[i]);
        }
        if (htc_rng_below(rng, 3))
            htc__heap_hint(h, names, p->count);
    }
    return p->keys[p->at++];
}

/* Puts, overwrites, drops and look-ups in waves that fill the table and empty it again. */
Test(cells, agree_with_a_list)
{
    PROPERTY(rng, 400)
    {
        htc__heap h;
        model     m = { { 0 } };
        char      text[64];
        uint32_t  keys = 1 + (uint32_t)htc_rng_below(&rng, MODEL_KEYS), stamp = 0;
        htc__heap_init(&h, NULL, &(htc__heap_options){ .seed = SEED, .ordered = property_at % 2 });
        plan p = { .count = 0 };
        for (int wave = 0; wave < 4; wave++) {
            uint64_t drops = htc_rng_below(&rng, 100);
            for (uint64_t step = htc_rng_below(&rng, 1500); step > 0; step--) {
                size_t    i = planned(&p, &h, keys, &rng);
                htc_bytes key = model_key(i, text);
                if (htc_rng_below(&rng, 4) == 0)
                    same(&h, &m, i);
                if (htc_rng_below(&rng, 100) < drops) {
                    HOLDS(htc__heap_drop(&h, key) == (m.stamp[i] != 0));
                    m.stamp[i] = 0;
                } else {
                    HOLDS(htc__heap_put(&h, key, model_value(i, ++stamp)) == HTC_OK);
                    m.stamp[i] = stamp;
                }
                HOLDS(htc__heap_place(&h) == htc__kv_place(SEED, key));
                same(&h, &m, i);
                if (htc_rng_below(&rng, 4) == 0)
                    same(&h, &m, htc_rng_below(&rng, MODEL_KEYS));
            }
            same_all(&h, &m, &rng);
        }
        for (size_t i = 0; i < MODEL_KEYS; i++)
            htc__heap_drop(&h, model_key(i, text));
        HOLDS(htc__heap_count(&h) == 0 && h.live == 0);
        htc__heap_free(&h);
        HOLDS(h.budget.used == 0);
    }
}

/* What a get has lent may be put under another key, or under its own. */
Test(cells, a_lent_value_may_be_put)
{
    htc__heap h;
    htc_bytes value;
    htc__heap_init(&h, NULL, &(htc__heap_options){ .seed = SEED });
    PROPERTY(rng, 500)
    {
        size_t i = htc_rng_below(&rng, 40), j = htc_rng_below(&rng, 40);
        char   a[64], b[64];
        if (htc_rng_below(&rng, 2) || htc__heap_get(&h, model_key(i, a), &value) != HTC_OK) {
            HOLDS(htc__heap_put(&h, model_key(i, a), model_value(3, (uint32_t)property_seed)) == HTC_OK);
            continue;
        }
        size_t   half = htc_rng_below(&rng, value.len + 1);
        uint8_t *copy = malloc(value.len + 1);
        memcpy(copy, (const uint8_t *)value.data + half, value.len - half);
        htc_bytes part = { (const uint8_t *)value.data + half, value.len - half };
        HOLDS(htc__heap_put(&h, model_key(j, b), part) == HTC_OK);
        HOLDS(htc__heap_get(&h, model_key(j, b), &value) == HTC_OK);
        HOLDS(htc_bytes_equal(value, (htc_bytes){ copy, part.len }));
        free(copy);
    }
    htc__heap_free(&h);
}

static htc_bytes number_key(uint64_t i, char text[17])
{
    snprintf(text, 17, "%016llx", (unsigned long long)(i * 0x9e3779b97f4a7c15));
    return (htc_bytes){ text, 16 };
}

typedef struct placed {
    uint64_t place, i;
} placed;

static int by_place(const void *a, const void *b)
{
    uint64_t x = ((const placed *)a)->place, y = ((const placed *)b)->place;
    return (x > y) - (x < y);
}

/* The table knows only the upper bits of a place. Hinted at is one key, and looked for another one that shares them. */
Test(cells, a_hint_is_of_its_own_key)
{
    enum { N = 200000 };
    htc__heap h;
    char      text[17], other[17];
    htc_bytes got;
    size_t    pairs = 0;
    placed   *all = malloc(N * sizeof *all);
    for (uint64_t i = 0; i < N; i++)
        all[i] = (placed){ htc__kv_place(SEED, number_key(i, text)), i };
    qsort(all, N, sizeof *all, by_place);
    for (size_t i = 1; i < N; i++) {
        if (htc__place_top(all[i - 1].place) != htc__place_top(all[i].place))
            continue;
        pairs++;
        htc__heap_init(&h, NULL, &(htc__heap_options){ .seed = SEED });
        for (size_t k = i - 1; k <= i; k++)
            cr_assert(htc__heap_put(&h, number_key(all[k].i, text), htc_bytes_of("v")) == HTC_OK);
        for (size_t k = 0; k < 2; k++) {
            htc_bytes hinted = number_key(all[i - k].i, other);
            htc__heap_hint(&h, &hinted, 1);
            cr_assert(htc__heap_get(&h, number_key(all[i - 1 + k].i, text), &got) == HTC_OK);
            cr_expect(htc__heap_place(&h) == all[i - 1 + k].place);
        }
        htc__heap_free(&h);
    }
    cr_expect(pairs > 4, "%zu pairs", pairs);
    free(all);
}

/* Every size on the way up and down is passed with all records there; in between, chunks of slots come and go. */
Test(cells, grow_and_shrink_with_everything_there)
{
    enum { N = 200000 };
    htc__heap h;
    char      text[17], value[168 - 16];
    htc_bytes got;
    memset(value, 'v', sizeof value);
    htc__heap_init(&h, NULL, &(htc__heap_options){ .seed = SEED });
    for (uint64_t i = 0; i < N; i++) {
        memcpy(value, &i, sizeof i);
        cr_assert(eq(int, htc__heap_put(&h, number_key(i, text), (htc_bytes){ value, sizeof value }), HTC_OK));
        for (uint64_t j = i; j > 0 && i % 64 == 0; j /= 3) {
            cr_assert(eq(int, htc__heap_get(&h, number_key(j, text), &got), HTC_OK));
            cr_assert(memcmp(got.data, &j, sizeof j) == 0);
        }
    }
    /* 16 + 152 bytes are kept in at most 190. */
    cr_expect(htc__heap_used(&h) <= 190 * (size_t)N + (1 << 20), "%.1f bytes a record", (double)htc__heap_used(&h) / N);
    for (uint64_t i = 0; i < N; i++) {
        cr_assert(eq(int, htc__heap_drop(&h, number_key(i, text)), 1));
        if (i % 64 == 0 && i + 1 < N) {
            uint64_t j = i + 1 + i % (N - i - 1);
            cr_assert(eq(int, htc__heap_get(&h, number_key(j, text), &got), HTC_OK));
            cr_assert(memcmp(got.data, &j, sizeof j) == 0);
            cr_assert(eq(int, htc__heap_get(&h, number_key(i, text), &got), HTC_ENOTFOUND));
        }
    }
    cr_expect(htc__heap_used(&h) < (size_t)4 << 20, "%zu bytes for nothing", htc__heap_used(&h));
    htc__heap_free(&h);
}

/* From 2000 records on no size costs more, whatever stage of growth it is in. */
static void cost_at_most(double limit, size_t bytes, int ordered)
{
    htc__heap h;
    char      text[17], value[152] = { 0 };
    double    most = 0;
    size_t    most_at = 0;
    htc__heap_init(&h, NULL, &(htc__heap_options){ .seed = SEED, .ordered = ordered });
    for (uint64_t i = 0; i < 400000; i++) {
        cr_assert(eq(int, htc__heap_put(&h, number_key(i, text), (htc_bytes){ value, bytes - 16 }), HTC_OK));
        /* A region of 1 MiB is asked for as a whole: what of it holds nothing yet is no cost of these records. */
        double each = ((double)htc__heap_used(&h) - (1 << 20)) / (double)(i + 1);
        if (i > 2000 && each > most) {
            most = each;
            most_at = i;
        }
    }
    cr_expect(most <= limit, "%.2f bytes at %zu records", most, most_at);
    printf("# at most %.2f bytes, at %zu records\n", most, most_at);
    htc__heap_free(&h);
}

Test(cells, a_record_of_168_bytes_costs_at_most_190)
{
    cost_at_most(190, 168, 0);
}

/* Name, version and value of a user's record of 144 bytes, with its node in the order of keys. */
Test(cells, a_record_in_order_of_152_bytes_costs_at_most_191)
{
    cost_at_most(191, 152, 1);
}

/* Memory is refused at the nth request: that change is refused, all is as it was, and later ones go on. */
static void scenario(alloc_fail *f, int ordered)
{
    htc_env   env = alloc_fail_env(f);
    htc__heap h;
    model     m = { { 0 } };
    htc_rng   rng = { 5 };
    char      text[64];
    htc__heap_init(&h, &env, &(htc__heap_options){ .seed = SEED, .ordered = ordered });
    for (uint32_t step = 1; step < 900; step++) {
        size_t     i = htc_rng_below(&rng, 300), refused = f->refused;
        htc_status status = htc__heap_put(&h, model_key(i, text), model_value(i, step));
        if (status == HTC_OK)
            m.stamp[i] = step;
        else
            cr_assert(status == HTC_ENOMEM && f->refused > refused, "step %u: %d", step, (int)status);
        if (step % 3 == 0) {
            size_t j = htc_rng_below(&rng, 300);
            cr_assert(htc__heap_drop(&h, model_key(j, text)) == (m.stamp[j] != 0));
            m.stamp[j] = 0;
        }
        if (step % 100 == 0 || f->refused > refused)
            same(&h, &m, i);
    }
    same_all(&h, &m, &rng);
    htc__heap_free(&h);
    cr_assert(f->live == 0 && f->wrong_sizes == 0 && h.budget.used == 0);
}

Test(cells, refused_memory_leaves_them_as_they_were)
{
    ALLOC_FAIL_EVERY(f, 2000)
    scenario(&f, f.fail_at % 2);
    ALLOC_FAIL_ONCE(f, 2000)
    scenario(&f, 1);
}

Test(cells, a_ceiling_is_kept)
{
    htc__heap h;
    char      text[17], value[100] = { 0 };
    htc_bytes got;
    uint64_t  n = 0;
    htc__heap_init(&h, NULL, &(htc__heap_options){ .seed = SEED, .bytes_max = 1 << 20, .ordered = 1 });
    htc_status status;
    while ((status = htc__heap_put(&h, number_key(n, text), (htc_bytes){ value, sizeof value })) == HTC_OK)
        n++;
    cr_assert(eq(int, status, HTC_EFULL));
    cr_assert(n > 4000 && htc__heap_used(&h) <= 1 << 20, "%llu records", (unsigned long long)n);
    for (uint64_t i = 0; i < n; i++)
        cr_assert(eq(int, htc__heap_get(&h, number_key(i, text), &got), HTC_OK));
    cr_assert(eq(int, htc__heap_put(&h, number_key(0, text), (htc_bytes){ value, sizeof value }), HTC_OK));
    /* What goes makes room. */
    for (uint64_t i = 0; i < n / 2; i++)
        htc__heap_drop(&h, number_key(i, text));
    for (uint64_t i = 0; i < n / 4; i++)
        cr_assert(eq(int, htc__heap_put(&h, number_key(i, text), (htc_bytes){ value, sizeof value }), HTC_OK));
    htc__heap_free(&h);
}

typedef struct shown {
    size_t all, without_value;
} shown;

static int visit(void *ctx, htc_bytes key, htc_bytes value)
{
    shown *s = ctx;
    s->all++;
    s->without_value += !value.data && htc_bytes_equal(key, htc_bytes_of("a"));
    return 1;
}

/* A damaged record is known, refused, and shown without a value, until it is written or dropped. Whoever left it out would make others
 * believe that it never was. */
Test(cells, what_is_lost_is_not_served)
{
    htc__heap h;
    htc_bytes got, a = htc_bytes_of("a"), b = htc_bytes_of("b");
    shown     s = { 0, 0 };
    htc__heap_init(&h, NULL, &(htc__heap_options){ .seed = SEED, .ordered = 1 });
    cr_assert(htc__heap_put(&h, a, b) == HTC_OK && htc__heap_put(&h, b, a) == HTC_OK);
    cr_assert(eq(int, htc__heap_lose(&h, a), HTC_OK));
    cr_expect(eq(int, htc__heap_get(&h, a, &got), HTC_ECORRUPT));
    cr_expect(htc__heap_count(&h) == 1 && h.lost == 1);
    htc__heap_scan(&h, (htc_bytes){ NULL, 0 }, visit, &s);
    cr_expect(s.all == 2 && s.without_value == 1);
    htc__heap_walk(&h, 0, UINT64_MAX, visit, &s);
    cr_expect(s.all == 4 && s.without_value == 2);
    cr_assert(eq(int, htc__heap_put(&h, a, a), HTC_OK));
    cr_expect(htc__heap_get(&h, a, &got) == HTC_OK && h.lost == 0);
    cr_assert(htc__heap_lose(&h, b) == HTC_OK && htc__heap_drop(&h, b) == 1 && h.lost == 0);
    htc__heap_free(&h);
}

/* ---- the parts ---- */

/* Places that crowd, of which hashes make none: runs of hundreds, at the very end too. Against a sorted list. */
Test(places, agree_with_a_sorted_list)
{
    PROPERTY(rng, 300)
    {
        htc__budget b = { .max = 0 };
        htc__places p;
        enum { MOST = 900 };
        static uint64_t have[MOST]; /* top << 34 | ref */
        size_t          n = 0;
        uint64_t        ref = 1, tops = 1 + htc_rng_below(&rng, 40), base = htc_rng_below(&rng, 3);
        htc__places_init(&p, &b);
        for (int step = 0; step < 1200; step++) {
            uint64_t  low = htc_rng_below(&rng, tops), top = base == 0   ? low
                                                             : base == 1 ? (1u << 30) - 1 - low
                                                                         : low * 7919 % (1u << 30);
            uint64_t  place = top << 34 | (htc_rng_next(&rng) >> 30);
            htc__spot spot;
            if (n < MOST && htc_rng_below(&rng, 100) < (step < 700 ? 70 : 30)) {
                htc_status status = htc__places_reserve(&p);
                HOLDS(status == HTC_OK);
                status = htc__places_insert(&p, place, ref);
                HOLDS(status == HTC_OK || (status == HTC_ENOMEM && n > 64));
                if (status == HTC_OK)
                    have[n++] = top << 34 | ref++;
            } else if (n > 0) {
                size_t   i = htc_rng_below(&rng, n);
                uint64_t want = have[i] & ((UINT64_C(1) << 34) - 1), got;
                place = have[i];
                for (got = htc__places_first(&p, place, &spot); got && got != want;)
                    got = htc__places_again(place, &spot);
                HOLDS(got == want);
                htc__places_erase(&p, &spot);
                have[i] = have[--n];
                htc__places_settle(&p);
            }
            HOLDS(htc__places_count(&p) == n);
            if (step % 50)
                continue;
            for (size_t i = 0; i < n; i++) {
                uint64_t want = have[i] & ((UINT64_C(1) << 34) - 1), got;
                for (got = htc__places_first(&p, have[i], &spot); got && got != want;)
                    got = htc__places_again(have[i], &spot);
                HOLDS(got == want);
            }
        }
        htc__places_free(&p);
        HOLDS(b.used == 0);
    }
}

/* A length that trembles by less than a unit moves its piece once at most; one that shrinks by much gives memory back. */
Test(arena, what_trembles_stays)
{
    htc__budget b = { .max = 0 };
    htc__arena  a;
    htc__arena_init(&a, &b);
    uint64_t ref = htc__arena_take(&a, 10 * HTC__ARENA_UNIT);
    cr_assert(ref != 0);
    size_t before = 10 * HTC__ARENA_UNIT;
    for (size_t size = 9 * HTC__ARENA_UNIT - 15; size <= 10 * HTC__ARENA_UNIT; size++) {
        cr_expect(htc__arena_fits(&a, ref, before, size), "%zu for %zu", size, before);
        cr_expect(htc__arena_fits(&a, ref, size, before), "%zu again after %zu", before, size);
        before = size;
    }
    cr_expect(htc__arena_fits(&a, ref, before, 10 * HTC__ARENA_UNIT + 1) == 0, "it would not hold that");
    cr_expect(htc__arena_fits(&a, ref, before, 8 * HTC__ARENA_UNIT) == 0, "two units would be lost");
    htc__arena_give(&a, ref, 9 * HTC__ARENA_UNIT);
    htc__arena_free(&a);
    cr_expect(eq(sz, b.used, 0));
}

/* No two pieces overlap, whatever was taken and given before, and whatever they were found fit to serve since; a marked piece keeps
 * its marks. */
Test(arena, pieces_do_not_overlap)
{
    PROPERTY(rng, 200)
    {
        enum { PIECES = 300 };
        static struct {
            uint64_t ref;
            size_t   size;
        } have[PIECES];
        htc__budget b = { .max = 0 };
        htc__arena  a;
        size_t      n = 0;
        htc__arena_init(&a, &b);
        for (int step = 0; step < 1500; step++) {
            if (n < PIECES && htc_rng_below(&rng, 100) < 55) {
                size_t   size = 1 + htc_rng_below(&rng, htc_rng_below(&rng, 20) ? 400 : 5000);
                uint64_t ref = htc__arena_take(&a, size);
                HOLDS(ref != 0 && ref >> HTC__ARENA_REF_BITS == 0);
                memset(htc__arena_at(&a, ref), (int)(ref * 37 + size), size);
                have[n].ref = ref;
                have[n++].size = size;
            } else if (n > 0) {
                size_t         i = htc_rng_below(&rng, n), size = have[i].size;
                const uint8_t *p = htc__arena_at(&a, have[i].ref);
                for (size_t j = 0; j < size; j++)
                    HOLDS(p[j] == (uint8_t)(have[i].ref * 37 + size));
                size_t other = size + htc_rng_below(&rng, 61), to = other > 30 ? other - 30 : 1;
                if (htc__arena_fits(&a, have[i].ref, size, to)) {
                    memset(htc__arena_at(&a, have[i].ref), (int)(have[i].ref * 37 + to), to);
                    have[i].size = to;
                    continue;
                }
                htc__arena_give(&a, have[i].ref, size);
                have[i] = have[--n];
            }
        }
        while (n > 0) {
            n--;
            htc__arena_give(&a, have[n].ref, have[n].size);
        }
        /* All regions but one are given back, with what is known of them. */
        HOLDS(b.used <= (size_t)(1 << 20) + 40000);
        htc__arena_free(&a);
        HOLDS(b.used == 0);
    }
}
