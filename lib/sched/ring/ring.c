/* Consistent hashing over fixed buckets: the table, its members, and what differs between two epochs. */
#include "htcsched/ring.h"

#include <string.h>

#include "core/util.h"
#include "sched/ring/ring_private.h"

/* ---- members and the index of their ids ---- */

static uint32_t place_of(const htc_ring *r, uint64_t id)
{
    uint64_t h = id * UINT64_C(0x9E3779B97F4A7C15);
    return (uint32_t)(h >> 32) & (r->index_cap - 1);
}

static uint32_t next_place(const htc_ring *r, uint32_t at)
{
    return (at + 1) & (r->index_cap - 1);
}

/* Where id is in the index, or the empty place where it would be. */
static uint32_t find_place(const htc_ring *r, uint64_t id)
{
    uint32_t at = place_of(r, id);
    while (r->index[at] && r->seats[r->index[at] - 1].id != id)
        at = next_place(r, at);
    return at;
}

void htc__ring_index_add(htc_ring *r, uint32_t seat)
{
    r->index[find_place(r, r->seats[seat].id)] = seat + 1;
}

/* Those behind move up, so that no place has to be marked as once used. */
void htc__ring_index_remove(htc_ring *r, uint32_t seat)
{
    uint32_t hole = find_place(r, r->seats[seat].id), mask = r->index_cap - 1;
    for (uint32_t at = next_place(r, hole); r->index[at]; at = next_place(r, at)) {
        uint32_t home = place_of(r, r->seats[r->index[at] - 1].id);
        if (((at - home) & mask) >= ((at - hole) & mask)) {
            r->index[hole] = r->index[at];
            hole = at;
        }
    }
    r->index[hole] = 0;
}

htc_status htc__ring_reserve(htc_ring *r, uint32_t seats, uint32_t members)
{
    if (seats > r->seats_cap) {
        uint64_t cap = r->seats_cap ? r->seats_cap : 4;
        while (cap < seats)
            cap *= 2;
        if (cap > r->members_max)
            cap = r->members_max;
        htc__ring_seat *grown =
            htc__resize(r->env, r->seats, r->seats_cap * sizeof *grown, (size_t)cap * sizeof *grown);
        if (!grown)
            return HTC_ENOMEM;
        r->seats = grown;
        r->seats_cap = (uint32_t)cap;
    }
    if (!r->index || members > r->index_cap / 2) {
        uint32_t cap = 8;
        while (members > cap / 2)
            cap *= 2;
        uint32_t *index = htc__alloc(r->env, cap * sizeof *index);
        if (!index)
            return HTC_ENOMEM;
        htc__free(r->env, r->index, r->index_cap * sizeof *index);
        r->index = index;
        r->index_cap = cap;
        for (uint32_t s = 0; s < r->seats_n; s++)
            if (r->seats[s].id != 0)
                htc__ring_index_add(r, s);
    }
    return HTC_OK;
}

htc_status htc__ring_member_check(const htc_ring *r, const htc_ring_member *m)
{
    if (m->id == 0 || m->weight == 0 || m->weight > HTC_RING_WEIGHT_MAX || m->reserved != 0)
        return HTC_EINVAL;
    if (htc_ring_seat(r, m->id) != HTC_RING_NONE)
        return HTC_EEXISTS;
    return r->members >= r->members_max ? HTC_EFULL : HTC_OK;
}

void htc__ring_sit(htc_ring *r, uint32_t seat, const htc_ring_member *m)
{
    r->seats[seat] = (htc__ring_seat){
        .id = m->id, .process = m->process, .domain = m->domain, .weight = m->weight, .changed = r->epoch
    };
    if (seat >= r->seats_n)
        r->seats_n = seat + 1;
    r->members++;
    htc__ring_index_add(r, seat);
}

/* ---- distance ---- */

int htc__ring_spread(const htc_ring *r, const uint32_t *owners)
{
    uint32_t domains = 0, processes = 0;
    for (uint32_t i = 0; i < r->each; i++) {
        const htc__ring_seat *a = &r->seats[owners[i]];
        int                   new_domain = 1, new_process = 1;
        for (uint32_t j = 0; j < i; j++) {
            const htc__ring_seat *b = &r->seats[owners[j]];
            if (a == b)
                return 0;
            new_process &= !htc__ring_same_process(a, b);
            new_domain &= !htc__ring_same_domain(a, b);
        }
        domains += (uint32_t)new_domain;
        processes += (uint32_t)new_process;
    }
    return domains >= r->domains && processes >= r->processes;
}

/* How many groups there are, counted up to enough. */
static uint32_t count_groups(const htc_ring *r, uint32_t except, htc__ring_level level, uint32_t enough)
{
    uint32_t chiefs[HTC_RING_OWNERS_MAX], n = 0;
    for (uint32_t s = 0; s < r->seats_n && n < enough; s++) {
        uint32_t k = 0;
        if (r->seats[s].id == 0 || s == except)
            continue;
        while (k < n && !htc__ring_same(&r->seats[s], &r->seats[chiefs[k]], level))
            k++;
        if (k == n)
            chiefs[n++] = s;
    }
    return n;
}

static size_t cells_size(const htc_ring *r)
{
    return ((size_t)r->wanted << r->bits) * r->width + 4;
}

static size_t changed_size(const htc_ring *r)
{
    return ((size_t)1 << r->bits) * sizeof *r->changed;
}

void htc__ring_demand(htc_ring *r, uint32_t except)
{
    uint32_t members = r->members - (except != HTC_RING_NONE);
    r->each = members < r->wanted ? members : r->wanted;
    /* Nobody's ring is full of ones: what a lookup finds there is HTC_RING_NONE. */
    if (r->each == 0)
        memset(r->cells, 0xff, cells_size(r));
    r->seat_mask = r->each == 0 ? UINT32_MAX : r->width == 2 ? 0xffff : 0xffffff;
    r->domains = count_groups(r, except, HTC__RING_DOMAIN, r->each);
    r->processes = count_groups(r, except, HTC__RING_PROCESS, r->each);
}

void htc__ring_recount(htc_ring *r)
{
    for (uint32_t s = 0; s < r->seats_n; s++)
        r->seats[s].first = r->seats[s].total = 0;
    for (uint32_t k = 0; k < r->each; k++)
        for (uint32_t b = 0; b <= htc__ring_mask(r); b++) {
            htc__ring_seat *s = &r->seats[htc__ring_get(r, k, b)];
            s->total++;
            s->first += k == 0;
        }
}

/* ---- birth and death ---- */

void htc_ring_options_init(htc_ring_options *options, size_t size)
{
    htc__options_init(options, size);
}

static htc_status options_check(const htc_ring_options *in, htc_ring_options *o)
{
    htc_ring_options_init(o, sizeof(htc_ring_options));
    htc_status status = htc__options_copy(o, sizeof *o, in, in ? in->size : 0, sizeof in->size);
    if (status != HTC_OK)
        return status;
    if (o->bits > HTC_RING_BITS_MAX || o->owners > HTC_RING_OWNERS_MAX || o->reserved != 0)
        return HTC_EINVAL;
    o->bits = o->bits ? o->bits : 12;
    o->owners = o->owners ? o->owners : 3;
    uint32_t buckets = (uint32_t)1 << o->bits;
    if (o->members_max == 0)
        o->members_max = buckets < HTC_RING_BUCKETS_A_MEMBER ? 1 : buckets / HTC_RING_BUCKETS_A_MEMBER;
    /* Three bytes hold a seat, and one number that is none. */
    return o->members_max > buckets || o->members_max > 0xfffffe ? HTC_EINVAL : HTC_OK;
}

htc_status htc__ring_new(const htc_env *env, const htc_ring_options *o, htc_ring **out)
{
    /* What a table may need, where size_t has 32 bits. */
    if ((((uint64_t)o->owners * 3 + 4) << o->bits) > SIZE_MAX / 2)
        return HTC_ENOMEM;
    htc_ring *r = htc__alloc(env, sizeof *r);
    if (!r)
        return HTC_ENOMEM;
    r->env = env;
    r->bits = o->bits;
    r->wanted = o->owners;
    r->members_max = o->members_max;
    r->shift = 64 - o->bits;
    r->width = o->members_max <= 0xfffe ? 2 : 3;
    r->cells = htc__alloc(env, cells_size(r));
    r->changed = r->cells ? htc__alloc(env, changed_size(r)) : NULL;
    if (!r->changed || htc__ring_reserve(r, 0, 0) != HTC_OK) {
        htc_ring_destroy(r);
        return HTC_ENOMEM;
    }
    htc__ring_demand(r, HTC_RING_NONE);
    *out = r;
    return HTC_OK;
}

static void free_contents(htc_ring *r)
{
    htc__free(r->env, r->cells, cells_size(r));
    htc__free(r->env, r->changed, changed_size(r));
    htc__free(r->env, r->seats, r->seats_cap * sizeof *r->seats);
    htc__free(r->env, r->index, r->index_cap * sizeof *r->index);
}

void htc_ring_destroy(htc_ring *ring)
{
    if (!ring)
        return;
    free_contents(ring);
    htc__free(ring->env, ring, sizeof *ring);
}

void htc__ring_become(htc_ring *ring, htc_ring *other)
{
    free_contents(ring);
    *ring = *other;
    htc__free(ring->env, other, sizeof *other);
}

htc_status htc_ring_create(const htc_env *env, const htc_ring_options *options, const htc_ring_member *members,
                           size_t n, htc_ring **out)
{
    htc_ring_options o;
    htc_ring        *r;
    htc_status       status = options_check(options, &o);
    if (status != HTC_OK)
        return status;
    if (!out || (n > 0 && !members))
        return HTC_EINVAL;
    if (n > o.members_max)
        return HTC_EFULL;
    status = htc__ring_new(env, &o, &r);
    if (status != HTC_OK)
        return status;
    r->epoch = 1;
    status = htc__ring_reserve(r, (uint32_t)n, (uint32_t)n);
    for (size_t i = 0; i < n && status == HTC_OK; i++)
        if ((status = htc__ring_member_check(r, &members[i])) == HTC_OK)
            htc__ring_sit(r, (uint32_t)i, &members[i]);
    if (status == HTC_OK)
        status = htc__ring_lay(r);
    if (status != HTC_OK) {
        htc_ring_destroy(r);
        return status;
    }
    *out = r;
    return HTC_OK;
}

htc_status htc_ring_copy(const htc_ring *ring, const htc_env *env, htc_ring **out)
{
    htc_ring *r;
    if (!ring || !out)
        return HTC_EINVAL;
    htc_ring_options o = HTC_RING_OPTIONS_INIT;
    o.bits = ring->bits;
    o.owners = ring->wanted;
    o.members_max = ring->members_max;
    htc_status status = htc__ring_new(env, &o, &r);
    if (status != HTC_OK)
        return status;
    status = htc__ring_reserve(r, ring->seats_n, ring->members);
    if (status != HTC_OK) {
        htc_ring_destroy(r);
        return status;
    }
    memcpy(r->cells, ring->cells, cells_size(r));
    memcpy(r->changed, ring->changed, changed_size(r));
    if (ring->seats_n)
        memcpy(r->seats, ring->seats, ring->seats_n * sizeof *r->seats);
    r->seats_n = ring->seats_n;
    r->each = ring->each;
    r->seat_mask = ring->seat_mask;
    r->domains = ring->domains;
    r->processes = ring->processes;
    r->members = ring->members;
    r->epoch = ring->epoch;
    for (uint32_t s = 0; s < r->seats_n; s++)
        if (r->seats[s].id != 0)
            htc__ring_index_add(r, s);
    *out = r;
    return HTC_OK;
}

/* ---- looking up ---- */

uint32_t htc_ring_find(const htc_ring *ring, uint64_t hash)
{
    if (!ring)
        return HTC_RING_NONE;
    return htc__ring_get(ring, 0, (uint32_t)(hash >> ring->shift));
}

uint32_t htc_ring_bucket(const htc_ring *ring, uint64_t hash)
{
    return ring ? (uint32_t)(hash >> ring->shift) : 0;
}

uint32_t htc_ring_owners(const htc_ring *ring, uint32_t bucket, uint32_t *seats)
{
    if (!ring || !seats || bucket > htc__ring_mask(ring))
        return 0;
    htc__ring_owners(ring, bucket, seats);
    return ring->each;
}

uint32_t htc_ring_epoch(const htc_ring *ring)
{
    return ring ? ring->epoch : 0;
}

uint32_t htc_ring_bucket_epoch(const htc_ring *ring, uint32_t bucket)
{
    return ring && bucket <= htc__ring_mask(ring) ? ring->changed[bucket] : 0;
}

uint32_t htc_ring_buckets(const htc_ring *ring)
{
    return ring ? (uint32_t)1 << ring->bits : 0;
}

uint32_t htc_ring_members(const htc_ring *ring)
{
    return ring ? ring->members : 0;
}

uint32_t htc_ring_seats(const htc_ring *ring)
{
    return ring ? ring->seats_n : 0;
}

uint32_t htc_ring_seat(const htc_ring *ring, uint64_t id)
{
    if (!ring || id == 0)
        return HTC_RING_NONE;
    uint32_t place = ring->index[find_place(ring, id)];
    return place ? place - 1 : HTC_RING_NONE;
}

static htc_status seat_check(const htc_ring *ring, uint32_t seat, const void *out)
{
    if (!ring || !out)
        return HTC_EINVAL;
    return seat < ring->seats_n && ring->seats[seat].id != 0 ? HTC_OK : HTC_ENOTFOUND;
}

htc_status htc_ring_member_at(const htc_ring *ring, uint32_t seat, htc_ring_member *out)
{
    htc_status status = seat_check(ring, seat, out);
    if (status != HTC_OK)
        return status;
    const htc__ring_seat *s = &ring->seats[seat];
    *out = (htc_ring_member){ s->id, s->process, s->domain, s->weight, 0 };
    return HTC_OK;
}

htc_status htc_ring_share_at(const htc_ring *ring, uint32_t seat, htc_ring_share *out)
{
    htc_status status = seat_check(ring, seat, out);
    if (status == HTC_OK)
        *out = (htc_ring_share){ ring->seats[seat].first, ring->seats[seat].total };
    return status;
}

/* ---- what differs ---- */

static uint32_t ids_of(const htc_ring *r, uint32_t bucket, uint64_t *ids)
{
    for (uint32_t k = 0; k < r->each; k++)
        ids[k] = r->seats[htc__ring_get(r, k, bucket)].id;
    return r->each;
}

/* Those of a that are not in b. */
static uint32_t without(const uint64_t *a, uint32_t a_n, const uint64_t *b, uint32_t b_n, uint64_t *out)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < a_n; i++) {
        uint32_t j = 0;
        while (j < b_n && b[j] != a[i])
            j++;
        if (j == b_n)
            out[n++] = a[i];
    }
    return n;
}

static int differs(const htc_ring *before, const htc_ring *after, uint32_t bucket, htc_ring_move *move)
{
    uint64_t old[HTC_RING_OWNERS_MAX], new[HTC_RING_OWNERS_MAX];
    uint32_t old_n = ids_of(before, bucket, old), new_n = ids_of(after, bucket, new);
    if (old_n == new_n && memcmp(old, new, old_n * sizeof *old) == 0)
        return 0;
    memset(move, 0, sizeof *move);
    move->bucket = bucket;
    move->came_n = without(new, new_n, old, old_n, move->came);
    move->went_n = without(old, old_n, new, new_n, move->went);
    move->first_changed = old_n == 0 || new_n == 0 || old[0] != new[0];
    return 1;
}

htc_status htc_ring_move_next(const htc_ring *before, const htc_ring *after, uint32_t bucket, htc_ring_move *move)
{
    if (!before || !after || !move || before->bits != after->bits || before->wanted != after->wanted)
        return HTC_EINVAL;
    /* In one history a bucket differs only if it has changed since the earlier of both. */
    const htc_ring *later = before->epoch > after->epoch ? before : after;
    uint32_t        since = later == after ? before->epoch : after->epoch;
    for (; bucket <= htc__ring_mask(later); bucket++)
        if (later->changed[bucket] > since && differs(before, after, bucket, move))
            return HTC_OK;
    return HTC_ENOTFOUND;
}
