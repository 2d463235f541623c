/* Sets of node numbers. In memory they are bits, since every operation on bits costs 64 nodes a turn whatever the set
 * looks like; ranges are how they are read, written and shown. */
#include <string.h>

#include "core/util.h"
#include "sched/record/record_private.h"

static size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* ---- Bits ---- */

/* Without the processor's own instruction, which this library may not count on. */
static uint32_t ones(uint64_t w)
{
    w -= (w >> 1) & UINT64_C(0x5555555555555555);
    w = (w & UINT64_C(0x3333333333333333)) + ((w >> 2) & UINT64_C(0x3333333333333333));
    w = (w + (w >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f);
    return (uint32_t)((w * UINT64_C(0x0101010101010101)) >> 56);
}

uint32_t htc__bits_count(const uint64_t *words, size_t n)
{
    uint32_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += ones(words[i]);
    return count;
}

/* Each run has one first bit: a one behind a zero. */
static uint32_t count_runs(const uint64_t *words, size_t n)
{
    uint32_t count = 0;
    uint64_t before = 0;
    for (size_t i = 0; i < n; i++) {
        count += ones(words[i] & ~(words[i] << 1 | before));
        before = words[i] >> 63;
    }
    return count;
}

/* The bits of word i that lie in [first, end), of which it holds at least one. */
static uint64_t mask(uint64_t i, uint64_t first, uint64_t end)
{
    uint64_t m = UINT64_MAX;
    if (first > 64 * i)
        m <<= first - 64 * i;
    if (end < 64 * i + 64)
        m &= UINT64_MAX >> (64 * i + 64 - end);
    return m;
}

void htc__bits_fill(uint64_t *words, uint64_t first, uint64_t end)
{
    for (uint64_t i = first / 64; first < end && 64 * i < end; i++)
        words[i] |= mask(i, first, end);
}

void htc__bits_wipe(uint64_t *words, uint64_t first, uint64_t end)
{
    for (uint64_t i = first / 64; first < end && 64 * i < end; i++)
        words[i] &= ~mask(i, first, end);
}

static int any_in(const uint64_t *words, uint64_t first, uint64_t end)
{
    for (uint64_t i = first / 64; 64 * i < end; i++)
        if (words[i] & mask(i, first, end))
            return 1;
    return 0;
}

/* The first bit at or after from that is `flip` ? zero : one; 64 * n if there is none. */
static uint64_t next_bit(const uint64_t *words, size_t n, uint64_t from, uint64_t flip)
{
    size_t i = (size_t)(from / 64);
    if (i >= n)
        return 64 * (uint64_t)n;
    uint64_t w = (words[i] ^ flip) & UINT64_MAX << from % 64;
    while (w == 0 && ++i < n)
        w = words[i] ^ flip;
    return w ? 64 * (uint64_t)i + (uint64_t)__builtin_ctzll(w) : 64 * (uint64_t)n;
}

int htc__bits_run(const uint64_t *words, size_t n, uint64_t from, htc__run *run)
{
    uint64_t first = next_bit(words, n, from, 0);
    if (first == 64 * (uint64_t)n)
        return 0;
    *run = (htc__run){ first, next_bit(words, n, first, UINT64_MAX) };
    return 1;
}

/* ---- Written ---- */

/* Where the ones are: words low .. high - 1, and as bytes from 64 * low on. */
typedef struct extent {
    size_t low, high, bytes;
} extent;

/* Only of a set that is not empty, if n > 0 and there is a one. */
static int extent_of(const uint64_t *words, size_t n, extent *e)
{
    size_t low = 0, high = n;
    while (high > 0 && words[high - 1] == 0)
        high--;
    if (high == 0)
        return 0;
    while (words[low] == 0)
        low++;
    size_t spare = (size_t)__builtin_clzll(words[high - 1]) / 8;
    *e = (extent){ low, high, 8 * (high - low) - spare };
    return 1;
}

static int as_ranges(uint64_t runs, uint64_t bytes)
{
    return runs <= bytes / 4;
}

/* To and from the order in which bits are written, low bytes first. */
static uint64_t little(uint64_t w)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    return __builtin_bswap64(w);
#else
    return w;
#endif
}

#define SMALL_VARINT_MAX 3 /* bytes, for numbers up to HTC_RECORD_NODES_MAX */

static uint8_t *put_small(uint8_t *p, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        *p++ = (uint8_t)(v | 0x80);
    *p++ = (uint8_t)v;
    return p;
}

static void put_ranges(htc_buf *b, const uint64_t *words, size_t n, uint32_t runs)
{
    size_t   room = 2 * SMALL_VARINT_MAX * (size_t)runs;
    uint8_t *start = htc_buf_extend(b, room), *p = start;
    htc__run run;
    if (!p)
        return;
    for (uint64_t at = 0; htc__bits_run(words, n, at, &run); at = run.end) {
        p = put_small(p, run.first - at);
        p = put_small(p, run.end - run.first);
    }
    b->len -= room - (size_t)(p - start);
}

static void put_bits(htc_buf *b, const uint64_t *words, const extent *e)
{
    htc_put_varint(b, e->low);
    uint8_t *p = htc_buf_extend(b, e->bytes);
    if (!p)
        return;
    for (size_t i = 0; i < e->bytes / 8; i++) {
        uint64_t w = little(words[e->low + i]);
        memcpy(p + 8 * i, &w, 8);
    }
    if (e->bytes % 8) {
        uint64_t w = little(words[e->high - 1]);
        memcpy(p + (e->bytes - e->bytes % 8), &w, e->bytes % 8);
    }
}

void htc__bits_put(htc_buf *b, const uint64_t *words, size_t n)
{
    extent e;
    if (!extent_of(words, n, &e)) {
        htc_put_varint(b, 0);
        return;
    }
    uint32_t runs = count_runs(words + e.low, e.high - e.low);
    int      ranges = as_ranges(runs, e.bytes);
    htc_put_varint(b, ranges ? (uint64_t)runs << 1 : (uint64_t)e.bytes << 1 | 1);
    if (ranges)
        put_ranges(b, words, n, runs);
    else
        put_bits(b, words, &e);
}

/* Most gaps and lengths take one byte. */
static uint64_t get_small(htc_reader *r)
{
    if (r->status == HTC_OK && r->p < r->end && *r->p < 0x80)
        return *r->p++;
    return htc_get_varint(r);
}

static void get_ranges(htc_reader *r, uint64_t runs, uint64_t *words, uint32_t nodes)
{
    uint64_t at = 0, first_word = 0;
    for (uint64_t i = 0; i < runs; i++) {
        uint64_t gap = get_small(r), length = get_small(r);
        if (r->status != HTC_OK || (i > 0 && gap == 0) || gap >= nodes - at || length == 0 ||
            length > nodes - at - gap) {
            htc_reader_fail(r);
            return;
        }
        at += gap;
        if (i == 0)
            first_word = at / 64;
        if (any_in(words, at, at + length)) {
            htc_reader_fail(r);
            return;
        }
        htc__bits_fill(words, at, at + length);
        at += length;
    }
    if (!as_ranges(runs, (at - 1) / 8 + 1 - 8 * first_word))
        htc_reader_fail(r);
}

/* What get_bits has to know of all the words it has read. */
typedef struct tally {
    uint64_t last, common;
    uint32_t runs;
} tally;

static void get_word(tally *t, uint64_t w, uint64_t *word)
{
    t->runs += ones(w & ~(w << 1 | t->last >> 63));
    t->common |= *word & w;
    t->last = w;
    *word |= w;
}

static void get_bits(htc_reader *r, uint64_t bytes, uint64_t *words, uint32_t nodes)
{
    uint64_t       low = htc_get_varint(r), n = htc__bits_words(nodes), w = 0;
    htc_bytes      raw = htc_get_raw(r, (size_t)bytes);
    const uint8_t *p = raw.data;
    tally          t = { 0, 0, 0 };
    if (r->status != HTC_OK || low >= n || bytes > 8 * (n - low) || p[bytes - 1] == 0) {
        htc_reader_fail(r);
        return;
    }
    for (size_t i = 0; i < bytes / 8; i++) {
        memcpy(&w, p + 8 * i, 8);
        get_word(&t, little(w), &words[low + i]);
    }
    if (bytes % 8) {
        w = 0;
        memcpy(&w, p + (bytes - bytes % 8), bytes % 8);
        get_word(&t, little(w), &words[low + bytes / 8]);
    }
    /* The last byte is not zero, so the last word is not; the first one may be only if it is not the last. */
    static const uint8_t zeros[8] = { 0 };
    uint64_t             end = 64 * (low + (bytes + 7) / 8) - (uint64_t)__builtin_clzll(t.last);
    if ((bytes > 8 && memcmp(p, zeros, 8) == 0) || t.common || end > nodes || as_ranges(t.runs, bytes))
        htc_reader_fail(r);
}

void htc__bits_get(htc_reader *r, uint64_t *words, uint32_t nodes)
{
    uint64_t head = htc_get_varint(r);
    if (r->status != HTC_OK || head == 0)
        return;
    if (head >> 1 == 0 || head >> 1 > htc_reader_left(r))
        htc_reader_fail(r);
    else if (head & 1)
        get_bits(r, head >> 1, words, nodes);
    else
        get_ranges(r, head >> 1, words, nodes);
}

/* An upper bound for the numbers of a written set, so that reading one costs what it holds. Whatever the bytes are. */
static uint32_t bound_of(htc_reader r)
{
    uint64_t head = htc_get_varint(&r), bound = 0;
    if (head & 1)
        bound = 64 * (htc_get_varint(&r) % HTC_RECORD_NODES_MAX) + 8 * (head >> 1);
    for (uint64_t i = 0; !(head & 1) && i < head >> 1 && r.status == HTC_OK && bound < HTC_RECORD_NODES_MAX; i++) {
        bound += get_small(&r) % (HTC_RECORD_NODES_MAX + 1);
        bound += get_small(&r) % (HTC_RECORD_NODES_MAX + 1);
    }
    return bound < HTC_RECORD_NODES_MAX ? (uint32_t)bound : HTC_RECORD_NODES_MAX;
}

htc_status htc__record_take_bytes(const htc_env *env, htc_buf *b, htc_bytes *out)
{
    htc_status status = b->status;
    uint8_t   *data = status == HTC_OK ? htc__resize(env, b->data, b->cap, b->len) : NULL;
    if (!data) {
        htc_buf_free(b);
        return status == HTC_OK ? HTC_ENOMEM : status;
    }
    *out = (htc_bytes){ data, b->len };
    return HTC_OK;
}

void htc_record_free(const htc_env *env, htc_bytes bytes)
{
    /* The const is only the borrower's. */
    htc__free(env, (void *)(uintptr_t)bytes.data, bytes.len);
}

/* ---- Sets ---- */

htc_status htc_record_set_create(const htc_env *env, htc_record_set **out)
{
    if (!out)
        return HTC_EINVAL;
    htc_record_set *set = htc__alloc(env, sizeof *set);
    if (!set)
        return HTC_ENOMEM;
    set->env = env;
    *out = set;
    return HTC_OK;
}

void htc_record_set_destroy(htc_record_set *set)
{
    if (!set)
        return;
    htc__free(set->env, set->words, set->n * sizeof *set->words);
    htc__free(set->env, set, sizeof *set);
}

void htc_record_set_clear(htc_record_set *set)
{
    if (set && set->n)
        memset(set->words, 0, set->n * sizeof *set->words);
}

htc_status htc__record_set_reserve(htc_record_set *set, size_t n)
{
    if (n <= set->n)
        return HTC_OK;
    size_t    grown = min_size(htc__bits_words(HTC_RECORD_NODES_MAX), n > 2 * set->n ? n : 2 * set->n);
    uint64_t *words = htc__resize(set->env, set->words, set->n * sizeof *words, grown * sizeof *words);
    if (!words)
        return HTC_ENOMEM;
    set->words = words;
    set->n = grown;
    return HTC_OK;
}

void htc__record_set_assign(htc_record_set *set, const uint64_t *words, size_t n)
{
    size_t k = min_size(n, set->n);
    if (k)
        memcpy(set->words, words, k * sizeof *words);
    if (set->n > k)
        memset(set->words + k, 0, (set->n - k) * sizeof *words);
}

static int range_ok(uint32_t first, uint32_t count)
{
    return count <= HTC_RECORD_NODES_MAX && first <= HTC_RECORD_NODES_MAX - count;
}

htc_status htc_record_set_add(htc_record_set *set, uint32_t first, uint32_t count)
{
    if (!set || !range_ok(first, count))
        return HTC_EINVAL;
    if (count == 0)
        return HTC_OK;
    htc_status status = htc__record_set_reserve(set, htc__bits_words((uint64_t)first + count));
    if (status == HTC_OK)
        htc__bits_fill(set->words, first, (uint64_t)first + count);
    return status;
}

htc_status htc_record_set_remove(htc_record_set *set, uint32_t first, uint32_t count)
{
    if (!set || !range_ok(first, count))
        return HTC_EINVAL;
    uint64_t end = (uint64_t)first + count, there = 64 * (uint64_t)set->n;
    htc__bits_wipe(set->words, first, end < there ? end : there);
    return HTC_OK;
}

htc_status htc_record_set_join(htc_record_set *set, const htc_record_set *other)
{
    if (!set || !other)
        return HTC_EINVAL;
    htc_status status = htc__record_set_reserve(set, other->n);
    for (size_t i = 0; status == HTC_OK && i < other->n; i++)
        set->words[i] |= other->words[i];
    return status;
}

htc_status htc_record_set_subtract(htc_record_set *set, const htc_record_set *other)
{
    if (!set || !other)
        return HTC_EINVAL;
    for (size_t i = 0; i < set->n && i < other->n; i++)
        set->words[i] &= ~other->words[i];
    return HTC_OK;
}

htc_status htc_record_set_intersect(htc_record_set *set, const htc_record_set *other)
{
    if (!set || !other)
        return HTC_EINVAL;
    for (size_t i = 0; i < set->n; i++)
        set->words[i] &= i < other->n ? other->words[i] : 0;
    return HTC_OK;
}

int htc_record_set_has(const htc_record_set *set, uint32_t node)
{
    return set && node / 64 < set->n && (set->words[node / 64] >> node % 64 & 1);
}

uint32_t htc_record_set_count(const htc_record_set *set)
{
    return set ? htc__bits_count(set->words, set->n) : 0;
}

int htc_record_set_equal(const htc_record_set *a, const htc_record_set *b)
{
    size_t n = a ? a->n : 0, m = b ? b->n : 0;
    for (size_t i = 0; i < n || i < m; i++)
        if ((i < n ? a->words[i] : 0) != (i < m ? b->words[i] : 0))
            return 0;
    return 1;
}

htc_status htc_record_set_run(const htc_record_set *set, uint32_t from, uint32_t *first, uint32_t *count)
{
    htc__run run;
    if (!set || !first || !count)
        return HTC_EINVAL;
    if (!htc__bits_run(set->words, set->n, from, &run))
        return HTC_ENOTFOUND;
    *first = (uint32_t)run.first;
    *count = (uint32_t)(run.end - run.first);
    return HTC_OK;
}

htc_status htc_record_set_write(const htc_env *env, const htc_record_set *set, htc_bytes *out)
{
    htc_buf b;
    if (!set || !out)
        return HTC_EINVAL;
    htc_buf_init(&b, env, 0);
    htc__bits_put(&b, set->words, set->n);
    return htc__record_take_bytes(env, &b, out);
}

htc_status htc_record_set_read(htc_bytes bytes, htc_record_set *set)
{
    if (!set)
        return HTC_EINVAL;
    htc_reader r = htc_reader_of(bytes);
    uint32_t   bound = bound_of(r);
    size_t     n = htc__bits_words(bound);
    uint64_t  *words = htc__alloc(set->env, n * sizeof *words);
    if (!words)
        return HTC_ENOMEM;
    htc__bits_get(&r, words, bound);
    htc_status status = htc_reader_done(&r) == HTC_OK ? htc__record_set_reserve(set, n) : HTC_ECORRUPT;
    if (status == HTC_OK)
        htc__record_set_assign(set, words, n);
    htc__free(set->env, words, n * sizeof *words);
    return status;
}
