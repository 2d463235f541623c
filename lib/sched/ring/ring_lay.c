/* The first table: shares by D'Hondt's rule under the domains' limits, laid out so that no limit can be broken.
 *
 * All places of all buckets are one line of n * 2^k positions, and bucket b has the positions b, b + 2^k, b + 2 * 2^k,
 * ... Each member gets a stretch as long as its share, racks side by side, processes side by side within them. A rack
 * whose stretch is at most 2^k long meets no bucket twice; one that is at least as long misses none. That is all there
 * is to keeping owners apart; shuffling then stays within stretches that may be mixed. (Systematic sampling.) */
#include <assert.h>

#include "core/util.h"
#include "sched/ring/ring_private.h"

__extension__ typedef unsigned __int128 wide;

/* More than anybody may have, and little enough to be added up. */
#define SHARE_MAX (UINT64_C(2) << HTC_RING_BITS_MAX)

/* One member on the line, with keys that sort and say who is in one group: equal keys of a level are one group. */
typedef struct stretch {
    uint64_t domain[2], process[2]; /* what kind of number, and the number */
    uint64_t id;
    uint32_t seat, weight;
    uint64_t share;
} stretch;

typedef struct line {
    htc_ring       *ring;
    stretch        *at, *spare; /* n of each */
    uint32_t        n;
    htc__ring_level apart;    /* groups of this level have at most 2^k positions */
    htc__ring_level together; /* and those of this one at least */
} line;

static int compare(const uint64_t *a, const uint64_t *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (a[i] != b[i])
            return a[i] < b[i] ? -1 : 1;
    return 0;
}

static int by_domain(const stretch *x, const stretch *y)
{
    int c = compare(x->domain, y->domain, 2);
    c = c ? c : compare(x->process, y->process, 2);
    return c ? c : compare(&x->id, &y->id, 1);
}

static int by_process(const stretch *x, const stretch *y)
{
    return compare(x->process, y->process, 2);
}

/* Merge runs of doubling length. (The C library's qsort takes memory of its own.) */
static void sort(line *l, int (*order)(const stretch *, const stretch *))
{
    for (size_t run = 1; run < l->n; run *= 2) {
        for (size_t from = 0; from < l->n; from += 2 * run) {
            size_t mid = from + run < l->n ? from + run : l->n, to = mid + run < l->n ? mid + run : l->n;
            for (size_t a = from, b = mid, out = from; out < to; out++)
                l->spare[out] = b >= to || (a < mid && order(&l->at[a], &l->at[b]) <= 0) ? l->at[a++] : l->at[b++];
        }
        stretch *swap = l->at;
        l->at = l->spare;
        l->spare = swap;
    }
}

static void open_line(line *l)
{
    for (uint32_t s = 0; s < l->n; s++) {
        const htc__ring_seat *m = &l->ring->seats[s];
        stretch              *x = &l->at[s];
        *x = (stretch){ .id = m->id, .seat = s, .weight = m->weight };
        x->process[0] = m->process == 0;
        x->process[1] = m->process ? m->process : m->id;
        x->domain[0] = m->domain ? 0 : 1 + x->process[0];
        x->domain[1] = m->domain ? m->domain : x->process[1];
    }
}

/* Members of one process are in one domain. */
static int consistent(line *l)
{
    sort(l, by_process);
    for (uint32_t i = 1; i < l->n; i++)
        if (by_process(&l->at[i - 1], &l->at[i]) == 0 && compare(l->at[i - 1].domain, l->at[i].domain, 2) != 0)
            return 0;
    return 1;
}

/* The end of the group of this level that begins at i. */
static uint32_t group_end(const line *l, uint32_t i, uint32_t end, htc__ring_level level)
{
    const stretch *first = &l->at[i];
    if (level == HTC__RING_ALL)
        return end;
    for (i++; i < end && level != HTC__RING_MEMBER; i++)
        if (level == HTC__RING_DOMAIN ? compare(first->domain, l->at[i].domain, 2) != 0
                                      : compare(first->process, l->at[i].process, 2) != 0)
            break;
    return i;
}

/* ---- shares ---- */

/* D'Hondt: weight * level rounded down. The level counts in 2^-32: finer than any two quotients lie apart. */
static uint64_t at_level(const stretch *x, uint64_t level)
{
    wide share = (wide)level * x->weight >> 32;
    return share > SHARE_MAX ? SHARE_MAX : (uint64_t)share;
}

static uint64_t sum_of(const line *l, uint32_t from, uint32_t to, uint64_t level)
{
    uint64_t sum = 0;
    for (uint32_t i = from; i < to; i++)
        sum += at_level(&l->at[i], level);
    return sum;
}

static uint64_t buckets(const line *l)
{
    return (uint64_t)1 << l->ring->bits;
}

static uint64_t capped_sum(const line *l, uint32_t from, uint32_t to, htc__ring_level apart, uint64_t level)
{
    uint64_t sum = 0;
    for (uint32_t c = from, end; c < to; c = end) {
        end = group_end(l, c, to, apart);
        uint64_t group = sum_of(l, c, end, level);
        sum += apart != HTC__RING_ALL && group > buckets(l) ? buckets(l) : group;
    }
    return sum;
}

static uint64_t whole_sum(const line *l, uint32_t from, uint32_t to, htc__ring_level apart, htc__ring_level together,
                          uint64_t level)
{
    uint64_t sum = 0;
    for (uint32_t f = from, end; f < to; f = end) {
        end = group_end(l, f, to, together);
        uint64_t group = capped_sum(l, f, end, apart, level);
        sum += together != HTC__RING_ALL && group < buckets(l) ? buckets(l) : group;
    }
    return sum;
}

static uint64_t min64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static void divide(line *l, uint32_t from, uint32_t to, uint64_t amount, htc__ring_level apart,
                   htc__ring_level together);

/* Shares within one group that is not lifted: at the level, one more for those that a step more would give it while
 * there is something left; a group that is cut off divides what it may have by itself. */
static void divide_capped(line *l, uint32_t from, uint32_t to, htc__ring_level apart, uint64_t level, uint64_t *left)
{
    for (uint32_t c = from, end; c < to; c = end) {
        end = group_end(l, c, to, apart);
        uint64_t group = sum_of(l, c, end, level);
        if (apart != HTC__RING_ALL && group > buckets(l)) {
            divide(l, c, end, buckets(l), HTC__RING_ALL, HTC__RING_ALL);
            continue;
        }
        for (uint32_t i = c; i < end; i++) {
            stretch *x = &l->at[i];
            x->share = at_level(x, level);
            if (*left > 0 && (apart == HTC__RING_ALL || group < buckets(l)) && at_level(x, level + 1) > x->share) {
                x->share++;
                group++;
                --*left;
            }
        }
    }
}

/* Divide amount among a part of the line: the highest level that does not give out more, groups cut off at 2^k and
 * lifted to it. */
static void divide(line *l, uint32_t from, uint32_t to, uint64_t amount, htc__ring_level apart,
                   htc__ring_level together)
{
    uint64_t low = 0, high = (amount + 1) << 32;
    while (high - low > 1) {
        uint64_t level = low + (high - low) / 2;
        if (whole_sum(l, from, to, apart, together, level) <= amount)
            low = level;
        else
            high = level;
    }
    uint64_t left = amount - whole_sum(l, from, to, apart, together, low);
    for (uint32_t f = from, end; f < to; f = end) {
        end = group_end(l, f, to, together);
        if (together != HTC__RING_ALL && capped_sum(l, f, end, apart, low) < buckets(l)) {
            uint64_t next = capped_sum(l, f, end, apart, low + 1);
            uint64_t more = next > buckets(l) ? min64(next - buckets(l), left) : 0;
            left -= more;
            divide(l, f, end, buckets(l) + more, apart, HTC__RING_ALL);
        } else
            divide_capped(l, f, end, apart, low, &left);
    }
}

/* ---- layout ---- */

/* Where position p of the line is in the table. Buckets are renumbered by a golden step, so that everybody's lie all
 * over the table: a walk that looks for one of somebody's finds it soon. */
static uint32_t bucket_at(const htc_ring *r, uint64_t p)
{
    uint32_t step = (uint32_t)(UINT64_C(0x9E3779B97F4A7C15) >> (64 - r->bits)) | 1;
    return (uint32_t)p * step & htc__ring_mask(r);
}

static void swap_cells(htc_ring *r, uint32_t rank_a, uint32_t a, uint32_t rank_b, uint32_t b)
{
    uint32_t seat = htc__ring_get(r, rank_a, a);
    htc__ring_put(r, rank_a, a, htc__ring_get(r, rank_b, b));
    htc__ring_put(r, rank_b, b, seat);
}

/* Mix positions that are n apart from each other: those that will be first stay so, and with them everybody's number of
 * first places. */
static void shuffle(htc_ring *r, uint64_t from, uint64_t to, htc_rng *rng)
{
    uint32_t rank = (uint32_t)(from >> r->bits);
    for (uint64_t p = from; p < to; p++) {
        uint64_t q = p - htc_rng_below(rng, (p - from) / r->each + 1) * r->each;
        swap_cells(r, rank, bucket_at(r, p), rank, bucket_at(r, q));
    }
}

/* Groups that lie whole within a rank may be mixed with their neighbours, as long as these have to be in no bucket more
 * than once together either; one that goes on in the next rank only within its part. */
static void mix(line *l)
{
    htc_ring *r = l->ring;
    htc_rng   rng = { r->bits };
    uint64_t  at = 0;
    for (uint32_t f = 0, f_end; f < l->n; f = f_end) {
        uint64_t from = at, to = at; /* what is to be mixed next */
        f_end = group_end(l, f, l->n, l->together);
        for (uint32_t c = f, c_end; c < f_end; c = c_end) {
            uint64_t end = at;
            c_end = group_end(l, c, f_end, l->apart);
            for (uint32_t i = c; i < c_end; i++)
                end += l->at[i].share;
            if (end == at)
                continue;
            int whole = at >> r->bits == (end - 1) >> r->bits;
            if (!whole || at >> r->bits != from >> r->bits) {
                shuffle(r, from, to, &rng);
                from = at;
            }
            if (!whole) {
                uint64_t border = (end - 1) >> r->bits << r->bits;
                shuffle(r, at, border, &rng);
                shuffle(r, border, end, &rng);
                from = end;
            }
            at = to = end;
        }
        shuffle(r, from, to, &rng);
    }
}

/* Within each bucket the first place goes to the one with the lowest load, until no exchange helps anybody. */
static void even_first_places(htc_ring *r)
{
    for (int pass = 0, changed = 1; pass < 16 && changed; pass++) {
        changed = 0;
        for (uint32_t b = 0; b <= htc__ring_mask(r); b++) {
            htc__ring_seat *first = &r->seats[htc__ring_get(r, 0, b)];
            uint64_t        best = htc__ring_load(first->first, first->weight);
            uint32_t        rank = 0;
            for (uint32_t k = 1; k < r->each; k++) {
                const htc__ring_seat *s = &r->seats[htc__ring_get(r, k, b)];
                uint64_t              load = htc__ring_load((uint64_t)s->first + 1, s->weight);
                if (load < best) {
                    best = load;
                    rank = k;
                }
            }
            if (rank > 0) {
                assert(first->first > 0);
                first->first--;
                r->seats[htc__ring_get(r, rank, b)].first++;
                swap_cells(r, 0, b, rank, b);
                changed = 1;
            }
        }
    }
}

static void lay(line *l)
{
    htc_ring *r = l->ring;
    uint64_t  at = 0;
    for (uint32_t i = 0; i < l->n; i++)
        for (uint64_t end = at + l->at[i].share; at < end; at++)
            htc__ring_put(r, (uint32_t)(at >> r->bits), bucket_at(r, at), l->at[i].seat);
    if (r->each > 1)
        mix(l);
    for (uint32_t p = 0; p <= htc__ring_mask(r); p++)
        if (p % r->each != 0)
            swap_cells(r, 0, bucket_at(r, p), p % r->each, bucket_at(r, p));
    htc__ring_recount(r);
    if (r->each > 1)
        even_first_places(r);
}

htc_status htc__ring_lay(htc_ring *r)
{
    line       l = { .ring = r, .n = r->members };
    htc_status status = HTC_EINVAL;
    for (uint32_t b = 0; b <= htc__ring_mask(r); b++)
        r->changed[b] = r->epoch;
    if (l.n == 0)
        return HTC_OK;
    stretch *memory = htc__alloc(r->env, 2 * (size_t)l.n * sizeof *memory);
    if (!memory)
        return HTC_ENOMEM;
    l.at = memory;
    l.spare = memory + l.n;
    open_line(&l);
    if (consistent(&l)) {
        sort(&l, by_domain);
        htc__ring_demand(r, HTC_RING_NONE);
        l.apart = htc__ring_apart(r);
        l.together = l.apart == HTC__RING_DOMAIN    ? HTC__RING_ALL
                     : l.apart == HTC__RING_PROCESS ? HTC__RING_DOMAIN
                                                    : HTC__RING_PROCESS;
        divide(&l, 0, l.n, buckets(&l) * r->each, l.apart, l.together);
        lay(&l);
        status = HTC_OK;
    }
    htc__free(r->env, memory, 2 * (size_t)l.n * sizeof *memory);
    return status;
}
