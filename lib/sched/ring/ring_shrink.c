/* What a member gives that leaves or shrinks, and to whom: the lowest load that may stand there. */
#include <string.h>

#include "sched/ring/ring_private.h"

/* What m has in excess of others; everything, if it leaves. */
static uint64_t pressure(const htc__ring_change *c, uint32_t count, int leaves)
{
    return leaves ? UINT64_MAX : htc__ring_load(count, htc__ring_sitting(c)->weight);
}

/* The loop is one the compiler can do eight cells at a time. */
static int is_in_row(const htc_ring *r, uint32_t rank, uint32_t bucket, uint32_t seat)
{
    uint16_t      cells[HTC__RING_ROW], wanted, hit = 0;
    const uint8_t low_first[2] = { (uint8_t)seat, (uint8_t)(seat >> 8) };
    memcpy(cells, htc__ring_cell(r, rank, bucket), sizeof cells);
    memcpy(&wanted, low_first, sizeof wanted);
    for (int k = 0; k < HTC__RING_ROW; k++)
        hit |= (uint16_t)(cells[k] == wanted);
    return hit;
}

uint32_t htc__ring_next_of(const htc__ring_change *c, uint32_t rank, uint32_t i)
{
    const htc_ring *r = c->r;
    int             by_row = r->width == 2 && htc__ring_mask(r) >= HTC__RING_ROW - 1;
    while (i <= htc__ring_mask(r)) {
        uint32_t b = htc__ring_bucket_of(c, i);
        if (by_row && i % HTC__RING_ROW == 0 && !is_in_row(r, rank, b, c->m))
            i += HTC__RING_ROW;
        else if (htc__ring_get(r, rank, b) == c->m)
            return i;
        else
            i++;
    }
    return i;
}

/* Give first places to the member with the lowest load of those that own the bucket or may come; if equal, an owner: it has
 * the data. */
static void give_first_places(const htc__ring_change *c, htc__ring_pickers *p, int leaves)
{
    uint32_t owners[HTC_RING_OWNERS_MAX];
    for (uint32_t i = 0; (i = htc__ring_next_of(c, 0, i)) <= htc__ring_mask(c->r); i++) {
        uint32_t b = htc__ring_bucket_of(c, i), rank = 0;
        uint64_t limit = pressure(c, htc__ring_sitting(c)->first, leaves), lowest = UINT64_MAX;
        if (limit <= htc__ring_lowest(&p->first))
            return;
        htc__ring_owners(c->r, b, owners);
        for (uint32_t k = 1; k < c->r->each; k++) {
            const htc__ring_seat *s = &c->r->seats[owners[k]];
            uint64_t              load = htc__ring_load((uint64_t)s->first + 1, s->weight);
            if (load < lowest) {
                lowest = load;
                rank = k;
            }
        }
        uint32_t comes = htc__ring_pick(&p->first, owners, 0);
        if (comes != HTC_RING_NONE) {
            const htc__ring_seat *s = &c->r->seats[comes];
            uint64_t              load = htc__ring_load((uint64_t)s->first + 1, s->weight);
            if (load < lowest) {
                lowest = load;
                rank = 0;
            } else
                comes = HTC_RING_NONE;
        }
        if (lowest >= limit)
            continue;
        if (comes != HTC_RING_NONE)
            htc__ring_exchange(c, b, 0, comes);
        else
            htc__ring_promote(c, b, rank);
    }
}

static void give_other_places(const htc__ring_change *c, htc__ring_pickers *p, int leaves)
{
    uint32_t owners[HTC_RING_OWNERS_MAX];
    for (uint32_t rank = 1; rank < c->r->each; rank++)
        for (uint32_t i = 0; (i = htc__ring_next_of(c, rank, i)) <= htc__ring_mask(c->r); i++) {
            uint32_t b = htc__ring_bucket_of(c, i);
            uint64_t limit = pressure(c, htc__ring_sitting(c)->total, leaves);
            if (limit <= htc__ring_lowest(&p->total))
                return;
            htc__ring_owners(c->r, b, owners);
            uint32_t comes = htc__ring_pick(&p->total, owners, rank);
            if (comes == HTC_RING_NONE)
                continue;
            const htc__ring_seat *s = &c->r->seats[comes];
            if (htc__ring_load((uint64_t)s->total + 1, s->weight) < limit)
                htc__ring_exchange(c, b, rank, comes);
        }
}

void htc__ring_shrink(const htc__ring_change *c, htc__ring_pickers *p, int leaves)
{
    htc__ring_pickers_fill(c->r, c->m, p);
    give_first_places(c, p, leaves);
    give_other_places(c, p, leaves);
}

void htc__ring_exit_all(const htc__ring_change *c)
{
    htc_ring *r = c->r;
    uint32_t  owners[HTC_RING_OWNERS_MAX], last = r->each - 1;
    for (uint32_t b = 0; b <= htc__ring_mask(r); b++) {
        uint32_t best = 1;
        htc__ring_owners(r, b, owners);
        for (uint32_t k = 2; owners[0] == c->m && k <= last; k++) {
            const htc__ring_seat *s = &r->seats[owners[k]], *t = &r->seats[owners[best]];
            if (htc__ring_load((uint64_t)s->first + 1, s->weight) < htc__ring_load((uint64_t)t->first + 1, t->weight))
                best = k;
        }
        if (owners[0] == c->m && last > 0)
            htc__ring_promote(c, b, best);
        for (uint32_t k = 0, out = 0; k <= last; k++) {
            uint32_t seat = htc__ring_get(r, k, b);
            if (seat != c->m)
                htc__ring_put(r, out++, b, seat);
        }
        r->changed[b] = r->epoch;
    }
}
