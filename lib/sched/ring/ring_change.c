/* Changes of membership: one member joins, leaves, is weighed anew or replaced, and nobody else's buckets change. */
#include <assert.h>

#include "core/util.h"
#include "sched/ring/ring_private.h"

static void begin(htc__ring_change *c, htc_ring *r, uint32_t seat)
{
    *c = (htc__ring_change){ .r = r, .m = seat };
    r->epoch++;
    htc_rng rng = { r->seats[seat].id ^ r->epoch };
    c->start = (uint32_t)htc_rng_next(&rng) & ~(HTC__RING_ROW - 1u);
    c->step = ((uint32_t)htc_rng_next(&rng) & ~(HTC__RING_ROW - 1u)) | HTC__RING_ROW;
    r->seats[seat].changed = r->epoch;
}

void htc__ring_exchange(const htc__ring_change *c, uint32_t bucket, uint32_t rank, uint32_t seat)
{
    htc__ring_seat *gone = &c->r->seats[htc__ring_get(c->r, rank, bucket)], *new = &c->r->seats[seat];
    assert(gone->total > 0);
    gone->total--;
    new->total++;
    if (rank == 0) {
        assert(gone->first > 0);
        gone->first--;
        new->first++;
    }
    htc__ring_put(c->r, rank, bucket, seat);
    c->r->changed[bucket] = c->r->epoch;
}

void htc__ring_promote(const htc__ring_change *c, uint32_t bucket, uint32_t rank)
{
    uint32_t first = htc__ring_get(c->r, 0, bucket), seat = htc__ring_get(c->r, rank, bucket);
    if (rank == 0)
        return;
    assert(c->r->seats[first].first > 0);
    c->r->seats[first].first--;
    c->r->seats[seat].first++;
    htc__ring_put(c->r, 0, bucket, seat);
    htc__ring_put(c->r, rank, bucket, first);
    c->r->changed[bucket] = c->r->epoch;
}

/* Members of one process stand in one domain. */
static int domain_fits(const htc_ring *r, const htc_ring_member *m)
{
    for (uint32_t s = 0; m->process != 0 && s < r->seats_n; s++)
        if (r->seats[s].id != 0 && r->seats[s].process == m->process)
            return r->seats[s].domain == m->domain;
    return 1;
}

static uint32_t free_seat(const htc_ring *r)
{
    uint32_t s = 0;
    if (r->members == r->seats_n)
        return r->seats_n;
    while (r->seats[s].id != 0)
        s++;
    return s;
}

htc_status htc_ring_join(htc_ring *ring, const htc_ring_member *member)
{
    htc__ring_gifts  g;
    htc__ring_change c;
    if (!ring || !member)
        return HTC_EINVAL;
    htc_status status = htc__ring_member_check(ring, member);
    if (status != HTC_OK)
        return status;
    if (!domain_fits(ring, member))
        return HTC_EINVAL;
    if (ring->epoch == UINT32_MAX)
        return HTC_EFULL;
    uint32_t seat = free_seat(ring);
    status = htc__ring_reserve(ring, seat + 1, ring->members + 1);
    if (status != HTC_OK)
        return status;
    uint32_t seats_n = ring->seats_n;
    ring->seats_n = seat < seats_n ? seats_n : seat + 1;
    status = htc__ring_gifts_reserve(ring, &g);
    if (status == HTC_OK) {
        uint32_t each = ring->each, domains = ring->domains, processes = ring->processes;
        htc__ring_sit(ring, seat, member);
        begin(&c, ring, seat);
        if (each < ring->wanted) {
            htc__ring_enter_all(&c);
            htc__ring_demand(ring, HTC_RING_NONE);
        } else {
            htc__ring_demand(ring, HTC_RING_NONE);
            if (ring->domains > domains || ring->processes > processes)
                htc__ring_enter_each(&c);
        }
        htc__ring_grow(&c, &g);
    } else
        ring->seats_n = seats_n;
    htc__ring_gifts_free(ring, &g);
    return status;
}

static void vacate(const htc__ring_change *c)
{
    htc__ring_index_remove(c->r, c->m);
    *htc__ring_sitting(c) = (htc__ring_seat){ .changed = c->r->epoch };
    assert(c->r->members > 0);
    c->r->members--;
}

htc_status htc_ring_leave(htc_ring *ring, uint64_t id)
{
    htc__ring_pickers p;
    htc__ring_change  c;
    uint32_t          seat = htc_ring_seat(ring, id);
    if (!ring)
        return HTC_EINVAL;
    if (seat == HTC_RING_NONE)
        return HTC_ENOTFOUND;
    if (ring->epoch == UINT32_MAX)
        return HTC_EFULL;
    htc_status status = htc__ring_pickers_reserve(ring, &p);
    if (status == HTC_OK) {
        begin(&c, ring, seat);
        if (ring->members <= ring->wanted) {
            htc__ring_exit_all(&c);
            htc__ring_demand(ring, seat);
        } else {
            htc__ring_demand(ring, seat);
            htc__ring_shrink(&c, &p, 1);
        }
        vacate(&c);
    }
    htc__ring_pickers_free(&p);
    return status;
}

htc_status htc_ring_reweight(htc_ring *ring, uint64_t id, uint32_t weight)
{
    htc__ring_pickers p;
    htc__ring_gifts   g;
    htc__ring_change  c;
    uint32_t          seat = htc_ring_seat(ring, id);
    if (!ring || weight == 0 || weight > HTC_RING_WEIGHT_MAX)
        return HTC_EINVAL;
    if (seat == HTC_RING_NONE)
        return HTC_ENOTFOUND;
    uint32_t old = ring->seats[seat].weight;
    if (weight == old)
        return HTC_OK;
    if (ring->epoch == UINT32_MAX)
        return HTC_EFULL;
    htc_status status = weight > old ? htc__ring_gifts_reserve(ring, &g) : htc__ring_pickers_reserve(ring, &p);
    if (status == HTC_OK) {
        begin(&c, ring, seat);
        ring->seats[seat].weight = weight;
        if (weight > old)
            htc__ring_grow(&c, &g);
        else
            htc__ring_shrink(&c, &p, 0);
    }
    if (weight > old)
        htc__ring_gifts_free(ring, &g);
    else
        htc__ring_pickers_free(&p);
    return status;
}

/* ---- others ---- */

htc_status htc_ring_replace(htc_ring *ring, uint64_t id, uint64_t new_id)
{
    htc__ring_change c;
    uint32_t         seat = htc_ring_seat(ring, id);
    if (!ring || new_id == 0)
        return HTC_EINVAL;
    if (seat == HTC_RING_NONE)
        return HTC_ENOTFOUND;
    if (htc_ring_seat(ring, new_id) != HTC_RING_NONE)
        return HTC_EEXISTS;
    if (ring->epoch == UINT32_MAX)
        return HTC_EFULL;
    begin(&c, ring, seat);
    htc__ring_index_remove(ring, seat);
    ring->seats[seat].id = new_id;
    htc__ring_index_add(ring, seat);
    for (uint32_t rank = 0; rank < ring->each; rank++)
        for (uint32_t i = 0; (i = htc__ring_next_of(&c, rank, i)) <= htc__ring_mask(ring); i++)
            ring->changed[htc__ring_bucket_of(&c, i)] = ring->epoch;
    return HTC_OK;
}

static int same_seat(const htc_ring *a, const htc_ring *b, uint32_t seat)
{
    static const htc__ring_seat nobody;
    const htc__ring_seat       *x = seat < a->seats_n ? &a->seats[seat] : &nobody;
    const htc__ring_seat       *y = seat < b->seats_n ? &b->seats[seat] : &nobody;
    return x->id == y->id && x->process == y->process && x->domain == y->domain && x->weight == y->weight;
}

static int same_bucket(const htc_ring *a, const htc_ring *b, uint32_t bucket)
{
    int same = a->each == b->each;
    for (uint32_t k = 0; same && k < a->each; k++) {
        uint32_t seat = htc__ring_get(a, k, bucket);
        same = seat == htc__ring_get(b, k, bucket) && a->seats[seat].id == b->seats[seat].id;
    }
    return same;
}

/* The copy becomes the ring; what both have alike keeps the epoch it has in the ring. */
htc_status htc_ring_revert(htc_ring *ring, const htc_ring *earlier)
{
    htc_ring *copy;
    if (!ring || !earlier || ring->bits != earlier->bits || ring->wanted != earlier->wanted ||
        ring->members_max != earlier->members_max)
        return HTC_EINVAL;
    if (ring->epoch == UINT32_MAX)
        return HTC_EFULL;
    htc_status status = htc_ring_copy(earlier, ring->env, &copy);
    uint32_t   seats = ring->seats_n > earlier->seats_n ? ring->seats_n : earlier->seats_n;
    if (status == HTC_OK && (status = htc__ring_reserve(copy, seats, 0)) != HTC_OK)
        htc_ring_destroy(copy);
    if (status != HTC_OK)
        return status;
    copy->seats_n = seats; /* a seat that was given once is known for good */
    copy->epoch = ring->epoch + 1;
    for (uint32_t b = 0; b <= htc__ring_mask(ring); b++)
        copy->changed[b] = same_bucket(ring, earlier, b) ? ring->changed[b] : copy->epoch;
    for (uint32_t s = 0; s < seats; s++)
        copy->seats[s].changed =
            same_seat(ring, earlier, s) && s < ring->seats_n ? ring->seats[s].changed : copy->epoch;
    htc__ring_become(ring, copy);
    return HTC_OK;
}
