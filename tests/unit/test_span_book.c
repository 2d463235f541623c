/* The book of a span against the slow one: an array that says of each number what has become of it. */
#include "expect.h"

#include <string.h>

#include "alloc_fail.h"
#include "core/util.h"
#include "roles/functions/fn_frames.h"
#include "roles/functions/span_book.h"

enum { N = 3000, BASE = 1000 };

typedef enum fate { WAITS, OUT, DONE, FAILED } fate;

typedef struct model {
    uint8_t           fate[N];
    uint8_t           suspect[N];
    uint8_t           again[N]; /* it waits, but its portion is still out */
    htc__span_portion out[HTC__SPAN_PORTIONS];
    uint8_t           is_out[HTC__SPAN_PORTIONS];
    uint8_t           closed[HTC__SPAN_PORTIONS][N];
} model;

static uint32_t count(const model *m, fate what)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < N; i++)
        n += m->fate[i] == what;
    return n;
}

static void expect_same(const htc__span_book *b, const model *m)
{
    uint32_t out = 0, suspects = 0;
    for (uint32_t i = 0; i < HTC__SPAN_PORTIONS; i++)
        out += m->is_out[i];
    for (uint32_t i = 0; i < N; i++)
        suspects += m->suspect[i];
    cr_assert(eq(u64, htc__span_book_done(b), count(m, DONE)));
    cr_assert(eq(u64, htc__span_book_failures(b), count(m, FAILED)));
    cr_assert(eq(u32, htc__span_book_out(b), out));
    cr_assert(eq(u32, htc__span_book_suspects(b), suspects));
    cr_assert(eq(int, htc__span_book_over(b), count(m, DONE) + count(m, FAILED) == N));
    if (out)
        return;
    uint8_t  waits[N] = { 0 };
    uint64_t from, to, before = 0;
    for (uint32_t i = 0; htc__span_book_range(b, i, &from, &to); i++) {
        cr_assert(from < to && from >= BASE && to <= BASE + N && (!i || from > before), "in order, and no two touch");
        for (uint64_t k = from; k < to; k++)
            waits[k - BASE] = 1;
        before = to;
    }
    for (uint32_t i = 0; i < N; i++)
        cr_assert(eq(int, waits[i], m->fate[i] == WAITS), "number %u", i);
}

static uint32_t place(const model *m, uint32_t p, uint32_t offset)
{
    return (uint32_t)(m->out[p].from - BASE) + offset;
}

static void next(htc__span_book *b, model *m, htc_rng *rng)
{
    htc__span_portion p;
    uint32_t          most = 1 + (uint32_t)htc_rng_below(rng, 700), any_out = 0, any_suspect = 0, full = 1;
    for (uint32_t i = 0; i < HTC__SPAN_PORTIONS; i++) {
        any_out |= m->is_out[i];
        full &= m->is_out[i];
    }
    for (uint32_t i = 0; i < N; i++)
        any_suspect |= m->suspect[i];
    htc_status status = htc__span_book_next(b, most, &p);
    if (full || (any_suspect && any_out) || !count(m, WAITS)) {
        cr_assert(eq(int, status, HTC_EMPTY));
        return;
    }
    cr_assert(eq(int, status, HTC_OK));
    cr_assert(p.index < HTC__SPAN_PORTIONS && !m->is_out[p.index] && p.n >= 1 && p.n <= most);
    cr_assert(eq(u32, p.alone, any_suspect));
    m->out[p.index] = p;
    m->is_out[p.index] = 1;
    memset(m->closed[p.index], 0, N);
    for (uint32_t i = 0; i < p.n; i++) {
        uint32_t at = place(m, p.index, i);
        cr_assert(eq(int, m->fate[at], WAITS));
        cr_assert(any_suspect ? m->suspect[at] && p.n == 1 : 1);
        m->fate[at] = OUT;
        m->suspect[at] = 0;
    }
}

static void maybe_over(model *m, uint32_t p)
{
    for (uint32_t i = 0; i < m->out[p].n; i++)
        if (!m->closed[p][i])
            return;
    m->is_out[p] = 0;
    for (uint32_t i = 0; i < m->out[p].n; i++)
        m->again[place(m, p, i)] = 0;
}

/* Something is said of numbers of a portion, the same more than once too. Of one that is over it is refused. */
static void said(htc__span_book *b, model *m, htc_rng *rng)
{
    uint32_t p = (uint32_t)htc_rng_below(rng, HTC__SPAN_PORTIONS), n = m->is_out[p] ? m->out[p].n : 1;
    uint32_t offset = (uint32_t)htc_rng_below(rng, n), many = 1 + (uint32_t)htc_rng_below(rng, n - offset), kind = (uint32_t)htc_rng_below(rng, 5);
    uint32_t at = m->is_out[p] ? place(m, p, offset) : 0;
    int      open = m->is_out[p] && m->fate[at] == OUT && !m->again[at];
    htc_status one = !m->is_out[p] ? HTC_EPROTO : open ? HTC_OK : HTC_EEXISTS;
    cr_assert(eq(int, htc__span_book_is_out(b, p, offset), open));
    if (kind < 2) {
        cr_assert(eq(int, kind ? htc__span_book_ended(b, p, offset, many) : htc__span_book_skipped(b, p, offset, many), m->is_out[p] ? HTC_OK : HTC_EPROTO));
        for (uint32_t i = offset; m->is_out[p] && i < offset + many; i++) {
            uint32_t k = place(m, p, i);
            if (m->fate[k] == OUT && !m->again[k])
                m->fate[k] = kind ? DONE : WAITS;
            m->again[k] |= m->fate[k] == WAITS;
            m->closed[p][i] = 1;
        }
        if (m->is_out[p])
            maybe_over(m, p);
        return;
    }
    cr_assert(eq(int, kind == 2 ? htc__span_book_output(b, p, offset) : kind == 3 ? htc__span_book_failed(b, p, offset) : htc__span_book_put_off(b, p, offset), one));
    if (open) {
        m->fate[at] = kind == 2 ? DONE : kind == 3 ? FAILED : WAITS;
        m->again[at] = kind == 4;
    }
}

/* The process dies; some of those that were under way are suspected. */
static void dies(htc__span_book *b, model *m, htc_rng *rng)
{
    for (uint32_t p = 0; p < HTC__SPAN_PORTIONS; p++)
        for (uint32_t tries = 0; m->is_out[p] && tries < 2; tries++) {
            uint32_t offset = (uint32_t)htc_rng_below(rng, m->out[p].n), at = place(m, p, offset);
            int      open = m->fate[at] == OUT && !m->suspect[at];
            if (open)
                cr_assert(eq(int, htc__span_book_suspect(b, p, offset), HTC_OK));
            m->suspect[at] |= (uint8_t)open;
        }
    cr_assert(eq(int, htc__span_book_lost(b), HTC_OK));
    for (uint32_t i = 0; i < N; i++)
        if (m->fate[i] == OUT)
            m->fate[i] = WAITS;
    memset(m->is_out, 0, sizeof m->is_out);
    memset(m->again, 0, sizeof m->again);
}

/* What waits again may go out once more while its old portion is not over: the model keeps to what an executor does, and hands out nothing
 * then. */
static int some_again(const model *m)
{
    for (uint32_t i = 0; i < N; i++)
        if (m->again[i])
            return 1;
    return 0;
}

Test(span_book, against_the_slow_one)
{
    static model m;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        htc_rng         rng = { seed };
        htc__span_book *b;
        memset(&m, 0, sizeof m);
        cr_assert(eq(int, htc__span_book_create(NULL, BASE, BASE + N, &b), HTC_OK));
        for (uint32_t step = 0; step < 3000 && !htc__span_book_over(b); step++) {
            uint64_t what = htc_rng_below(&rng, 40);
            if (what == 0)
                dies(b, &m, &rng);
            else if (what < 12 && !some_again(&m))
                next(b, &m, &rng);
            else
                said(b, &m, &rng);
            expect_same(b, &m);
        }
        htc__span_book_destroy(b);
    }
}

/* What is no place in a portion is refused, whatever the numbers are. */
Test(span_book, numbers_of_strangers)
{
    htc__span_book   *b;
    htc__span_portion p;
    cr_assert(eq(int, htc__span_book_create(NULL, 0, 100, &b), HTC_OK));
    cr_assert(eq(int, htc__span_book_next(b, 10, &p), HTC_OK));
    static const struct {
        uint32_t index, offset, count;
    } table[] = { { 1, 0, 1 }, { 4, 0, 1 }, { UINT32_MAX, 0, 1 }, { 0, 10, 1 }, { 0, 9, 2 }, { 0, 0, 11 }, { 0, 0, 0 }, { 0, UINT32_MAX, 1 }, { 0, 1, UINT32_MAX } };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        cr_expect(eq(int, htc__span_book_ended(b, table[i].index, table[i].offset, table[i].count), HTC_EPROTO), "row %zu", i);
        cr_expect(eq(int, htc__span_book_skipped(b, table[i].index, table[i].offset, table[i].count), HTC_EPROTO), "row %zu", i);
    }
    cr_expect(eq(int, htc__span_book_suspect(b, 0, 10), HTC_EPROTO));
    cr_expect(eq(u64, htc__span_book_done(b), 0));
    htc__span_book_destroy(b);
}

/* The whole range of a u64, and a portion that is settled one number at a time is out until the helper is behind it. */
Test(span_book, a_portion_is_over_when_the_helper_says_so)
{
    htc__span_book   *b;
    htc__span_portion p;
    cr_assert(eq(int, htc__span_book_create(NULL, UINT64_MAX - 4, UINT64_MAX, &b), HTC_OK));
    cr_assert(eq(int, htc__span_book_next(b, HTC__FN_PORTION_TASKS, &p), HTC_OK));
    cr_expect(eq(u32, p.n, 4));
    for (uint32_t i = 0; i < 4; i++)
        cr_expect(eq(int, htc__span_book_output(b, p.index, i), HTC_OK));
    cr_expect(htc__span_book_over(b) && htc__span_book_out(b) == 1);
    cr_expect(eq(int, htc__span_book_ended(b, p.index, 0, 4), HTC_OK));
    cr_expect(eq(u32, htc__span_book_out(b), 0));
    cr_expect(eq(u64, htc__span_book_done(b), 4));
    htc__span_book_destroy(b);
}

/* Without memory nothing changes. */
Test(span_book, without_memory)
{
    ALLOC_FAIL_EVERY (f, 200) {
        htc_env           env = alloc_fail_env(&f);
        htc__span_book   *b = NULL;
        htc__span_portion p;
        if (htc__span_book_create(&env, 0, 1000, &b) == HTC_OK) {
            uint64_t waits = 1000;
            for (int i = 0; i < 3; i++)
                if (htc__span_book_next(b, 100, &p) == HTC_OK) {
                    waits -= 100;
                    for (uint32_t k = 0; k < 100; k += 2)
                        if (htc__span_book_skipped(b, p.index, k, 1) == HTC_OK)
                            waits++;
                }
            uint64_t before = htc__span_book_done(b);
            uint32_t out = htc__span_book_out(b);
            if (htc__span_book_lost(b) == HTC_OK) {
                uint64_t from, to, all = 0;
                for (uint32_t i = 0; htc__span_book_range(b, i, &from, &to); i++)
                    all += to - from;
                cr_expect(eq(u64, all, 1000));
            } else {
                cr_expect(eq(u32, htc__span_book_out(b), out));
            }
            cr_expect(eq(u64, htc__span_book_done(b), before));
            htc__span_book_destroy(b);
        }
        cr_expect(f.live == 0 && f.wrong_sizes == 0);
    }
}
