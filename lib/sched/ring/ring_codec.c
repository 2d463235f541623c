/* A ring, or what changed since an epoch, as bytes; and back, from anybody.
 *
 *     u8 version; u8 bits; u8 owners wanted; varint members_max, since, epoch
 *     varint seats; varint changed seats, each:
 *         varint gap (from the last one listed), age (epochs ago), weight; if that is not 0: u64 id; varint process, domain
 *     varint changed buckets, each:
 *         varint gap (left out if all are listed), age; n varint seats
 *
 * n is min(owners wanted, members). All else follows from this, and is checked after it was read. */
#include <string.h>

#include "core/codec.h"
#include "core/util.h"
#include "sched/ring/ring_private.h"

#define VERSION 1

/* ---- writing ---- */

/* Counts what does not fit. */
typedef struct sink {
    uint8_t *p;
    size_t   size, len;
} sink;

static void put_u8(sink *s, uint8_t v)
{
    if (s->len < s->size)
        s->p[s->len] = v;
    s->len++;
}

static void put_varint(sink *s, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        put_u8(s, (uint8_t)(v | 0x80));
    put_u8(s, (uint8_t)v);
}

static void put_u64(sink *s, uint64_t v)
{
    for (int i = 0; i < 8; i++)
        put_u8(s, (uint8_t)(v >> (8 * i)));
}

static void put_seats(const htc_ring *r, uint32_t since, sink *out)
{
    uint32_t n = 0, next = 0;
    for (uint32_t s = 0; s < r->seats_n; s++)
        n += r->seats[s].changed > since;
    put_varint(out, r->seats_n);
    put_varint(out, n);
    for (uint32_t s = 0; s < r->seats_n; s++) {
        const htc__ring_seat *x = &r->seats[s];
        if (x->changed <= since)
            continue;
        put_varint(out, s - next);
        next = s + 1;
        put_varint(out, r->epoch - x->changed);
        put_varint(out, x->weight);
        if (x->weight == 0)
            continue;
        put_u64(out, x->id);
        put_varint(out, x->process);
        put_varint(out, x->domain);
    }
}

static void put_buckets(const htc_ring *r, uint32_t since, sink *out)
{
    uint32_t n = 0, next = 0, all = htc__ring_mask(r) + 1;
    for (uint32_t b = 0; b < all; b++)
        n += r->changed[b] > since;
    put_varint(out, n);
    for (uint32_t b = 0; b < all; b++) {
        if (r->changed[b] <= since)
            continue;
        if (n < all)
            put_varint(out, b - next);
        next = b + 1;
        put_varint(out, r->epoch - r->changed[b]);
        for (uint32_t k = 0; k < r->each; k++)
            put_varint(out, htc__ring_get(r, k, b));
    }
}

static void put_ring(const htc_ring *r, uint32_t since, sink *out)
{
    since = since < r->epoch ? since : r->epoch;
    put_u8(out, VERSION);
    put_u8(out, (uint8_t)r->bits);
    put_u8(out, (uint8_t)r->wanted);
    put_varint(out, r->members_max);
    put_varint(out, since);
    put_varint(out, r->epoch);
    put_seats(r, since, out);
    put_buckets(r, since, out);
}

size_t htc_ring_encoded_size(const htc_ring *ring, uint32_t since)
{
    sink out = { 0 };
    if (ring)
        put_ring(ring, since, &out);
    return out.len;
}

htc_status htc_ring_encode(const htc_ring *ring, uint32_t since, void *out, size_t size, size_t *len)
{
    sink s = { out, size, 0 };
    if (!ring || !out || !len)
        return HTC_EINVAL;
    put_ring(ring, since, &s);
    if (s.len > size)
        return HTC_EFULL;
    *len = s.len;
    return HTC_OK;
}

/* ---- reading ---- */

typedef struct head {
    htc_ring_options options;
    uint32_t         since, epoch;
} head;

static uint32_t get_u32(htc_reader *in, uint32_t max)
{
    uint64_t v = htc_get_varint(in);
    if (v > max)
        htc_reader_fail(in);
    return v > max ? 0 : (uint32_t)v;
}

static htc_status get_head(htc_reader *in, head *h)
{
    htc_ring_options_init(&h->options, sizeof(htc_ring_options));
    if (htc_get_u8(in) != VERSION)
        return in->status == HTC_OK ? HTC_EVERSION : HTC_EPROTO;
    h->options.bits = htc_get_u8(in);
    h->options.owners = htc_get_u8(in);
    if (h->options.bits < 1 || h->options.bits > HTC_RING_BITS_MAX || h->options.owners < 1 ||
        h->options.owners > HTC_RING_OWNERS_MAX)
        return HTC_EPROTO;
    uint32_t buckets = (uint32_t)1 << h->options.bits;
    h->options.members_max = get_u32(in, buckets < 0xfffffe ? buckets : 0xfffffe);
    h->since = get_u32(in, UINT32_MAX);
    h->epoch = get_u32(in, UINT32_MAX);
    if (in->status != HTC_OK || h->options.members_max == 0 || h->epoch == 0 || h->since > h->epoch)
        return HTC_EPROTO;
    return HTC_OK;
}

/* The epoch of a change that is to lie after since. */
static uint32_t get_changed(htc_reader *in, const head *h)
{
    uint32_t age = get_u32(in, UINT32_MAX);
    if (age >= h->epoch - h->since)
        htc_reader_fail(in);
    return age >= h->epoch - h->since ? 0 : h->epoch - age;
}

static void get_seat(htc_reader *in, htc__ring_seat *x)
{
    *x = (htc__ring_seat){ .weight = get_u32(in, HTC_RING_WEIGHT_MAX) };
    if (x->weight == 0)
        return;
    x->id = htc_get_u64(in);
    x->process = htc_get_varint(in);
    x->domain = htc_get_varint(in);
    if (x->id == 0)
        htc_reader_fail(in);
}

/* The index is rebuilt from nothing: an id may have changed its seat. */
static htc_status index_all(htc_ring *r)
{
    htc_status status = htc__ring_reserve(r, 0, r->members);
    if (status != HTC_OK)
        return status;
    memset(r->index, 0, r->index_cap * sizeof *r->index);
    for (uint32_t s = 0; s < r->seats_n; s++) {
        if (r->seats[s].id == 0)
            continue;
        if (htc_ring_seat(r, r->seats[s].id) != HTC_RING_NONE)
            return HTC_EPROTO;
        htc__ring_index_add(r, s);
    }
    return HTC_OK;
}

static htc_status get_seats(htc_reader *in, const head *h, htc_ring *r)
{
    uint32_t old = r->seats_n, total = get_u32(in, r->members_max), next = 0, fresh = 0;
    size_t   n = htc_get_count(in, 3);
    if (in->status != HTC_OK || total < old || total - old > n)
        return HTC_EPROTO;
    memset(r->index, 0, r->index_cap * sizeof *r->index); /* until they are all there nobody is found */
    r->members = 0;
    r->seats_n = 0;
    htc_status status = htc__ring_reserve(r, total, 0);
    if (status != HTC_OK)
        return status;
    r->seats_n = total;
    for (size_t i = 0; i < n && in->status == HTC_OK; i++) {
        uint32_t gap = get_u32(in, UINT32_MAX);
        if (next >= total || gap >= total - next)
            return HTC_EPROTO;
        uint32_t s = next + gap, changed = get_changed(in, h);
        get_seat(in, &r->seats[s]);
        r->seats[s].changed = changed;
        fresh += s >= old;
        next = s + 1;
    }
    if (in->status != HTC_OK || fresh != total - old)
        return HTC_EPROTO;
    for (uint32_t s = 0; s < total; s++)
        r->members += r->seats[s].id != 0;
    return index_all(r);
}

static htc_status get_buckets(htc_reader *in, const head *h, htc_ring *r)
{
    uint32_t all = htc__ring_mask(r) + 1, next = 0;
    size_t   n = htc_get_count(in, 1 + r->each);
    if (in->status != HTC_OK || n > all || (h->since == 0 && n != all))
        return HTC_EPROTO;
    for (size_t i = 0; i < n; i++) {
        uint32_t gap = n < all ? get_u32(in, UINT32_MAX) : 0;
        if (next >= all || gap >= all - next)
            return HTC_EPROTO;
        uint32_t b = next + gap;
        next = b + 1;
        r->changed[b] = get_changed(in, h);
        for (uint32_t k = 0; k < r->each; k++)
            htc__ring_put(r, k, b, get_u32(in, r->seats_n - 1));
        if (in->status != HTC_OK)
            return HTC_EPROTO;
    }
    return htc_reader_done(in);
}

/* Members of one process stand in one domain: for each, against the first of its process that a table of chiefs knows.
 */
static htc_status processes_fit(const htc_ring *r)
{
    uint32_t  cap = 2, n = 0;
    int       fit = 1;
    uint32_t *chiefs;
    for (uint32_t s = 0; s < r->seats_n; s++)
        n += r->seats[s].process != 0;
    if (n == 0)
        return HTC_OK;
    while (cap < 2 * n)
        cap *= 2;
    if (!(chiefs = htc__alloc(r->env, cap * sizeof *chiefs)))
        return HTC_ENOMEM;
    for (uint32_t s = 0; s < r->seats_n; s++) {
        const htc__ring_seat *x = &r->seats[s];
        uint32_t              at = (uint32_t)(x->process * UINT64_C(0x9E3779B97F4A7C15) >> 32) & (cap - 1);
        if (x->process == 0)
            continue;
        while (chiefs[at] && r->seats[chiefs[at] - 1].process != x->process)
            at = (at + 1) & (cap - 1);
        fit &= chiefs[at] == 0 || r->seats[chiefs[at] - 1].domain == x->domain;
        chiefs[at] = s + 1;
    }
    htc__free(r->env, chiefs, cap * sizeof *chiefs);
    return fit ? HTC_OK : HTC_EPROTO;
}

/* What every bucket promises. */
static htc_status check_table(const htc_ring *r)
{
    uint32_t owners[HTC_RING_OWNERS_MAX];
    for (uint32_t b = 0; b <= htc__ring_mask(r); b++) {
        htc__ring_owners(r, b, owners);
        for (uint32_t k = 0; k < r->each; k++)
            if (owners[k] >= r->seats_n || r->seats[owners[k]].id == 0)
                return HTC_EPROTO;
        if (!htc__ring_spread(r, owners))
            return HTC_EPROTO;
    }
    return HTC_OK;
}

/* Into a ring that nobody else sees yet. */
static htc_status get_ring(htc_reader *in, const head *h, htc_ring *r)
{
    htc_status status = get_seats(in, h, r);
    if (status == HTC_OK)
        status = processes_fit(r);
    if (status != HTC_OK)
        return status;
    htc__ring_demand(r, HTC_RING_NONE);
    status = get_buckets(in, h, r);
    if (status == HTC_OK)
        status = check_table(r);
    if (status != HTC_OK)
        return status;
    r->epoch = h->epoch;
    htc__ring_recount(r);
    return HTC_OK;
}

/* A ring to read into: an empty one for all of it, a copy for a difference. */
static htc_status open_ring(const htc_env *env, const htc_ring *from, const head *h, htc_reader *in, htc_ring **out)
{
    if (h->since > 0)
        return htc_ring_copy(from, env, out);
    /* Each bucket is one byte at least: memory is reserved for what may be there. */
    if (htc_reader_left(in) < (size_t)1 << h->options.bits)
        return HTC_EPROTO;
    return htc__ring_new(env, &h->options, out);
}

htc_status htc_ring_decode(const htc_env *env, htc_bytes bytes, htc_ring **out)
{
    htc_reader in = htc_reader_of(bytes);
    htc_ring  *r;
    head       h;
    if (!out)
        return HTC_EINVAL;
    htc_status status = get_head(&in, &h);
    if (status == HTC_OK && h.since > 0)
        status = HTC_MISMATCH;
    if (status == HTC_OK)
        status = open_ring(env, NULL, &h, &in, &r);
    if (status != HTC_OK)
        return status;
    status = get_ring(&in, &h, r);
    if (status != HTC_OK)
        htc_ring_destroy(r);
    else
        *out = r;
    return status;
}

htc_status htc_ring_apply(htc_ring *ring, htc_bytes bytes)
{
    htc_reader in = htc_reader_of(bytes);
    htc_ring  *later;
    head       h;
    if (!ring)
        return HTC_EINVAL;
    htc_status status = get_head(&in, &h);
    if (status != HTC_OK)
        return status;
    if (h.options.bits != ring->bits || h.options.owners != ring->wanted ||
        h.options.members_max != ring->members_max || h.since > ring->epoch)
        return HTC_MISMATCH;
    if (h.epoch <= ring->epoch)
        return HTC_OK;
    status = open_ring(ring->env, ring, &h, &in, &later);
    if (status != HTC_OK)
        return status;
    status = get_ring(&in, &h, later);
    if (status != HTC_OK)
        htc_ring_destroy(later);
    else
        htc__ring_become(ring, later);
    return status;
}
