/* What a member takes that joins or grows: D'Hondt's rule says how much and from whom, the domains where. */
#include <assert.h>
#include <string.h>

#include "core/util.h"
#include "sched/ring/ring_private.h"

static uint32_t rank_of(const htc_ring *r, const uint32_t *owners, uint32_t seat)
{
    uint32_t k = 0;
    while (k < r->each && owners[k] != seat)
        k++;
    return k;
}

htc_status htc__ring_gifts_reserve(const htc_ring *r, htc__ring_gifts *g)
{
    *g = (htc__ring_gifts){ .seats = r->seats_n };
    g->heap = htc__alloc(r->env, g->seats * sizeof *g->heap);
    g->give = htc__alloc(r->env, g->seats * sizeof *g->give);
    return g->heap && g->give ? HTC_OK : HTC_ENOMEM;
}

void htc__ring_gifts_free(const htc_ring *r, htc__ring_gifts *g)
{
    htc__free(r->env, g->heap, g->seats * sizeof *g->heap);
    htc__free(r->env, g->give, g->seats * sizeof *g->give);
}

static uint32_t count_of(const htc__ring_seat *s, int first)
{
    return first ? s->first : s->total;
}

/* If m's rack is in every bucket already, m can only take from the rack; else from anybody. */
static htc__ring_level donors(const htc__ring_change *c)
{
    htc__ring_level level = htc__ring_apart(c->r);
    uint64_t        total = 0;
    for (uint32_t s = 0; s < c->r->seats_n; s++)
        if (c->r->seats[s].id != 0 && htc__ring_same(&c->r->seats[s], htc__ring_sitting(c), level))
            total += c->r->seats[s].total;
    return total > htc__ring_mask(c->r) ? level : HTC__RING_ALL;
}

/* D'Hondt: m takes from the highest load until that is not above what its own would be with one more. */
static void settle(const htc__ring_change *c, htc__ring_gifts *g, int first)
{
    const htc__ring_seat *m = htc__ring_sitting(c);
    htc__ring_level       level = first ? HTC__RING_ALL : donors(c);
    uint32_t              n = 0, have = count_of(m, first);
    memset(g->give, 0, g->seats * sizeof *g->give);
    g->wanted = 0;
    for (uint32_t s = 0; s < g->seats; s++) {
        const htc__ring_seat *x = &c->r->seats[s];
        if (x->id != 0 && x != m && htc__ring_same(x, m, level))
            g->heap[n++] = (htc__ring_entry){ ~htc__ring_load(count_of(x, first), x->weight), s };
    }
    htc__ring_heap(g->heap, n);
    while (n > 0 && have + g->wanted <= htc__ring_mask(c->r) &&
           ~g->heap->load > htc__ring_load((uint64_t)have + g->wanted + 1, m->weight)) {
        const htc__ring_seat *x = &c->r->seats[g->heap->who];
        g->wanted++;
        g->give[g->heap->who]++;
        g->heap->load = ~htc__ring_load(count_of(x, first) - g->give[g->heap->who], x->weight);
        htc__ring_sink(g->heap, n, 0);
    }
    g->level = n > 0 ? ~g->heap->load : 0;
}

/* The rank, from least on, of the owner with the highest load whom m may replace; n if there is none. */
static uint32_t victim(const htc__ring_change *c, uint32_t *owners, uint32_t least)
{
    uint32_t best = c->r->each;
    uint64_t highest = 0;
    for (uint32_t k = least; k < c->r->each; k++) {
        uint32_t              seat = owners[k];
        const htc__ring_seat *s = &c->r->seats[seat];
        uint64_t              load = htc__ring_load(s->total, s->weight);
        owners[k] = c->m;
        if (load > highest && htc__ring_spread(c->r, owners)) {
            best = k;
            highest = load;
        }
        owners[k] = seat;
    }
    return best;
}

/* First places: in a bucket that m does not own yet the owner with the highest load goes, and the first one takes its
 * place. If possible that one has its due, by the level of all places: where racks leave no choice of who goes, buckets are
 * chosen. */
static void take_first_places(const htc__ring_change *c, htc__ring_gifts *g)
{
    uint32_t owners[HTC_RING_OWNERS_MAX];
    settle(c, g, 0);
    uint64_t level = g->level;
    settle(c, g, 1);
    for (uint64_t i = 0; g->wanted > 0 && i < 2 * ((uint64_t)htc__ring_mask(c->r) + 1); i++) {
        uint32_t b = htc__ring_bucket_of(c, (uint32_t)i), first = htc__ring_get(c->r, 0, b);
        if (g->give[first] == 0)
            continue;
        htc__ring_owners(c->r, b, owners);
        uint32_t rank = rank_of(c->r, owners, c->m);
        if (rank == c->r->each) {
            rank = victim(c, owners, 0);
            if (rank == c->r->each)
                continue;
            const htc__ring_seat *s = &c->r->seats[owners[rank]];
            if (i <= htc__ring_mask(c->r) && htc__ring_load((uint64_t)s->total + 1, s->weight) < level)
                continue;
            htc__ring_exchange(c, b, rank, c->m);
        }
        htc__ring_promote(c, b, rank);
        assert(g->give[first] > 0);
        g->give[first]--;
        assert(g->wanted > 0);
        g->wanted--;
    }
}

static int is_given(const htc__ring_change *c, const htc__ring_gifts *g, uint32_t bucket)
{
    for (uint32_t k = 1; k < c->r->each; k++)
        if (g->give[htc__ring_get(c->r, k, bucket)] > 0)
            return 1;
    return 0;
}

/* All other places: from those that are to give; where domains forbid it, from whoever has a higher load than m would.
 */
static void take_other_places(const htc__ring_change *c, htc__ring_gifts *g)
{
    uint32_t owners[HTC_RING_OWNERS_MAX];
    settle(c, g, 0);
    for (uint32_t i = 0; g->wanted > 0 && i <= htc__ring_mask(c->r); i++) {
        uint32_t b = htc__ring_bucket_of(c, i);
        if (!is_given(c, g, b))
            continue;
        htc__ring_owners(c->r, b, owners);
        for (uint32_t k = 1; k < c->r->each && rank_of(c->r, owners, c->m) == c->r->each; k++) {
            uint32_t seat = owners[k];
            owners[k] = c->m;
            if (g->give[seat] > 0 && htc__ring_spread(c->r, owners)) {
                htc__ring_exchange(c, b, k, c->m);
                assert(g->give[seat] > 0);
                g->give[seat]--;
                assert(g->wanted > 0);
                g->wanted--;
            } else
                owners[k] = seat;
        }
    }
    for (uint32_t i = 0; g->wanted > 0 && i <= htc__ring_mask(c->r); i++) {
        uint32_t b = htc__ring_bucket_of(c, i);
        htc__ring_owners(c->r, b, owners);
        uint32_t rank = rank_of(c->r, owners, c->m) < c->r->each ? c->r->each : victim(c, owners, 1);
        if (rank == c->r->each)
            continue;
        const htc__ring_seat *s = &c->r->seats[owners[rank]], *m = htc__ring_sitting(c);
        if (htc__ring_load(s->total, s->weight) > htc__ring_load((uint64_t)m->total + 1, m->weight))
            htc__ring_exchange(c, b, rank, c->m);
    }
}

void htc__ring_grow(const htc__ring_change *c, htc__ring_gifts *g)
{
    take_first_places(c, g);
    if (c->r->each > 1)
        take_other_places(c, g);
}

void htc__ring_enter_all(const htc__ring_change *c)
{
    uint32_t rank = c->r->each++;
    for (uint32_t b = 0; b <= htc__ring_mask(c->r); b++) {
        htc__ring_put(c->r, rank, b, c->m);
        c->r->changed[b] = c->r->epoch;
    }
    htc__ring_sitting(c)->total = htc__ring_mask(c->r) + 1;
    htc__ring_sitting(c)->first = rank == 0 ? htc__ring_mask(c->r) + 1 : 0;
}

/* How many owners that are not first m may replace. */
static uint32_t choices(const htc__ring_change *c, uint32_t *owners)
{
    uint32_t n = 0;
    for (uint32_t k = 1; k < c->r->each; k++) {
        uint32_t seat = owners[k];
        owners[k] = c->m;
        n += (uint32_t)htc__ring_spread(c->r, owners);
        owners[k] = seat;
    }
    return n;
}

/* A new domain or process where there were too few: every bucket must have it, in place of one of two that stand
 * together. One of those is not first. Buckets that leave no choice come first, so that the others make up for it. */
void htc__ring_enter_each(const htc__ring_change *c)
{
    uint32_t owners[HTC_RING_OWNERS_MAX];
    for (int choose = 0; choose <= 1; choose++)
        for (uint32_t b = 0; b <= htc__ring_mask(c->r); b++) {
            htc__ring_owners(c->r, b, owners);
            if (rank_of(c->r, owners, c->m) < c->r->each || (!choose && choices(c, owners) > 1))
                continue;
            uint32_t rank = victim(c, owners, 1);
            if (rank < c->r->each)
                htc__ring_exchange(c, b, rank, c->m);
        }
}
