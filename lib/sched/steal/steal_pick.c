/* Neighbours drawn at random (MATRIX, Algorithm 1), in O(k) without a bitmap of n and without memory beside the answer.
 *
 * Up to a thousand: draw and reject repeats, found by a small set of bits on the stack. More of a large group: how many fall
 * into each of 256 equal parts is found by drawing places and remembering only counts; each part is then a smaller
 * problem of the same kind with its own piece of the answer. More than half: walk through all and choose each with the
 * right chance. */
#include <string.h>

#include "core/rng.h"
#include "htcsched/steal.h"

/* Up to this many are compared one by one. */
#define FEW 8
/* Up to this many have a set of bits beside them; a power of two. */
#define SOME 1024
/* A large group has this many parts, so there are at most four levels of them in 2^32 places. */
#define PARTS 256

/* In [0, n), n > 0: the high half of a product; the low half tells the draws that would make some answers likelier. */
static uint32_t below(htc_rng *rng, uint32_t n)
{
    uint64_t product = (htc__rng_next(rng) >> 32) * n;
    if ((uint32_t)product < n) {
        uint32_t skip = (0 - n) % n;
        while ((uint32_t)product < skip)
            product = (htc__rng_next(rng) >> 32) * n;
    }
    return (uint32_t)(product >> 32);
}

static int is_among(const uint32_t *out, uint32_t n, uint32_t x)
{
    for (uint32_t i = 0; i < n; i++)
        if (out[i] == x)
            return 1;
    return 0;
}

static void draw_few(htc_rng *rng, uint32_t first, uint32_t m, uint32_t k, uint32_t *out)
{
    for (uint32_t drawn = 0; drawn < k;) {
        uint32_t x = first + below(rng, m);
        if (!is_among(out, drawn, x))
            out[drawn++] = x;
    }
}

/* A bit for each class of numbers, at least 64 times as many as are drawn: a number is looked for among the others only if its bit is set already. */
static void draw_some(htc_rng *rng, uint32_t first, uint32_t m, uint32_t k, uint32_t *out)
{
    uint64_t seen[SOME];
    uint32_t words = FEW;
    while (words < k)
        words *= 2;
    memset(seen, 0, words * sizeof *seen);
    for (uint32_t drawn = 0; drawn < k;) {
        uint32_t  x = below(rng, m);
        uint64_t *word = &seen[x / 64 & (words - 1)], bit = UINT64_C(1) << x % 64;
        if ((*word & bit) && is_among(out, drawn, first + x))
            continue;
        *word |= bit;
        out[drawn++] = first + x;
    }
}

/* Knuth, volume 2, Algorithm S. */
static void draw_most(htc_rng *rng, uint32_t first, uint32_t m, uint32_t k, uint32_t *out)
{
    for (uint32_t i = 0; k > 0; i++)
        if (below(rng, m - i) < k) {
            *out++ = first + i;
            k--;
        }
}

/* Part p of m places begins here. */
static uint32_t part_begin(uint32_t m, uint32_t p)
{
    return (uint32_t)((uint64_t)m * p / PARTS);
}

static uint32_t part_of(uint32_t m, uint32_t x)
{
    return (uint32_t)((((uint64_t)x + 1) * PARTS - 1) / m);
}

static void draw(htc_rng *rng, uint32_t first, uint32_t m, uint32_t k, uint32_t *out);

/* Which places of a part are taken does not matter to the other parts, only how many: let them be its first ones. */
static void draw_many(htc_rng *rng, uint32_t first, uint32_t m, uint32_t k, uint32_t *out)
{
    uint32_t count[PARTS] = { 0 };
    for (uint32_t drawn = 0; drawn < k;) {
        uint32_t x = below(rng, m), p = part_of(m, x);
        if (x - part_begin(m, p) >= count[p]) {
            count[p]++;
            drawn++;
        }
    }
    for (uint32_t p = 0; p < PARTS; out += count[p++])
        if (count[p] > 0)
            draw(rng, first + part_begin(m, p), part_begin(m, p + 1) - part_begin(m, p), count[p], out);
}

/* k distinct of first .. first + m - 1: every set equally likely, in no particular order. */
static void draw(htc_rng *rng, uint32_t first, uint32_t m, uint32_t k, uint32_t *out)
{
    if (k > m / 2)
        draw_most(rng, first, m, k, out);
    else if (k <= FEW)
        draw_few(rng, first, m, k, out);
    else if (k <= SOME)
        draw_some(rng, first, m, k, out);
    else
        draw_many(rng, first, m, k, out);
}

static void shuffle(htc_rng *rng, uint32_t k, uint32_t *out)
{
    for (uint32_t i = k; i > 1; i--) {
        uint32_t j = below(rng, i), swap = out[j];
        out[j] = out[i - 1];
        out[i - 1] = swap;
    }
}

htc_status htc_steal_pick(htc_rng *rng, uint32_t n, uint32_t self, uint32_t k, uint32_t *out)
{
    if (!rng || !out || self >= n || k == 0 || k >= n)
        return HTC_EINVAL;
    draw(rng, 0, n - 1, k, out);
    if (k > SOME || k > (n - 1) / 2)
        shuffle(rng, k, out);
    /* From the caller's place on, so that equal streams do not send all thieves to one victim. */
    for (uint32_t i = 0; i < k; i++)
        out[i] = out[i] < n - 1 - self ? out[i] + self + 1 : out[i] - (n - 1 - self);
    return HTC_OK;
}

htc_status htc_steal_whom_to_nudge(htc_rng *rng, uint32_t n, uint32_t self, uint32_t cap, uint32_t *out,
                                   uint32_t *count)
{
    uint32_t k = htc_steal_neighbours(HTC_STEAL_SQRT, n);
    if (!rng || !out || !count || self >= n || cap == 0)
        return HTC_EINVAL;
    if (k == 0)
        return HTC_AGAIN;
    k = k < HTC_STEAL_NUDGES_MAX ? k : HTC_STEAL_NUDGES_MAX;
    *count = k < cap ? k : cap;
    return htc_steal_pick(rng, n, self, *count, out);
}
