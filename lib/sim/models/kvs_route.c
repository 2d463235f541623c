/* Which server owns a key, which servers one believes to be up, and the way through fingers. */
#include "sim/models/kvs.h"

/* ---- keys ---- */

/* The first key whose sum is above x of all weights. */
uint64_t htc__kvs_weighted(const double *sum, uint64_t keys, uint64_t bits)
{
    double   x = (double)(bits >> 11) * 0x1p-53 * sum[keys - 1];
    uint64_t low = 0, high = keys - 1;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (sum[middle] > x)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

uint64_t htc__kvs_key(const kvs *m, uint32_t c, uint32_t request, uint64_t *index)
{
    uint64_t bits = htc__scale_draw(m->keys, (uint64_t)c * m->options.requests + request);
    if (!m->options.keys)
        return bits;
    uint64_t key = m->sum ? htc__kvs_weighted(m->sum, m->options.keys, bits) : kvs_below(bits, m->options.keys);
    if (index)
        *index = key;
    return htc__scale_mix(m->keys ^ (key + 1) * UINT64_C(0x9e3779b97f4a7c15));
}

uint32_t htc__kvs_place(const kvs *m, uint64_t key)
{
    switch (m->options.model) {
    case HTC_SIM_KVS_DFC:
        return m->ring ? htc_ring_bucket(m->ring, key) : kvs_modulo(m, key);
    case HTC_SIM_KVS_DCHORD: /* ids are evenly spaced: an arc each */
        return (uint32_t)((key >> 32) * m->servers >> 32);
    default:
        return 0;
    }
}

uint32_t htc__kvs_at(const kvs *m, uint32_t place, uint32_t i)
{
    if (m->ring) {
        uint32_t seats[HTC_RING_OWNERS_MAX];
        return i < htc_ring_owners(m->ring, place, seats) ? seats[i] : KVS_NONE;
    }
    uint64_t at = (uint64_t)place + i;
    return (uint32_t)(at >= m->servers ? at - m->servers : at);
}

/* ---- who is up ---- */

int htc__kvs_sees_up(const kvs *m, uint32_t s, uint32_t x)
{
    uint32_t known = m->server[s].known, up = m->server[x].up;
    if (known == m->now.flips || s == x)
        return s == x || up;
    if (m->now.flips - known > KVS_FLIPS)
        known = m->now.flips - KVS_FLIPS;
    for (uint32_t v = m->now.flips; v-- > known;)
        up ^= m->now.flip[v % KVS_FLIPS] == x;
    return (int)up;
}

uint32_t htc__kvs_members(const kvs *m, uint32_t s, uint32_t place, uint32_t most, uint32_t *out)
{
    uint32_t n = 0, seats = m->copies > 1 ? m->seats : 1; /* without copies nobody else has the key */
    if (m->now.flips == 0) {
        for (; n < most && n < seats; n++)
            out[n] = htc__kvs_at(m, place, n);
        return n;
    }
    for (uint32_t i = 0; i < seats && n < most; i++) {
        uint32_t x = htc__kvs_at(m, place, i);
        if (htc__kvs_sees_up(m, s, x))
            out[n++] = x;
    }
    return n;
}

uint32_t htc__kvs_after(const kvs *m, uint32_t s, uint32_t x, uint32_t i)
{
    for (uint32_t d = 1; d < m->servers; d++) {
        uint32_t y = (uint32_t)(((uint64_t)x + d) % m->servers);
        if (htc__kvs_sees_up(m, s, y) && i-- == 0)
            return y;
    }
    return KVS_NONE;
}

/* ---- fingers ---- */

static uint32_t distance(const kvs *m, uint32_t from, uint32_t to)
{
    return to >= from ? to - from : to + m->servers - from;
}

static uint32_t ahead(const kvs *m, uint32_t from, uint32_t d)
{
    uint64_t at = (uint64_t)from + d;
    return (uint32_t)(at >= m->servers ? at - m->servers : at);
}

/* Finger i is the first server that is up at a + 2^i or after it. The largest step that stays before goal is the closest preceding finger. */
uint32_t htc__kvs_next_hop(const kvs *m, uint32_t a, uint32_t goal)
{
    uint32_t d = distance(m, a, goal), reach = d ? d - 1 : 0;
    if (reach == 0)
        return KVS_NONE;
    uint32_t i = 31 - (uint32_t)__builtin_clz(reach);
    if (m->now.flips == 0)
        return ahead(m, a, UINT32_C(1) << i);
    for (i++; i-- > 0;)
        for (uint32_t step = UINT32_C(1) << i; step <= reach; step++)
            if (htc__kvs_sees_up(m, a, ahead(m, a, step)))
                return ahead(m, a, step);
    return KVS_NONE;
}

/* Where the look-up came to a from. If servers have failed the path is gone through again; what is not on it answers straight to `from`. */
uint32_t htc__kvs_hop_before(const kvs *m, uint32_t from, uint32_t a, uint32_t goal)
{
    uint32_t d = distance(m, from, a);
    if (m->now.flips == 0) /* steps are the bits of the distance, the highest first */
        return ahead(m, from, d & (d - 1));
    for (uint32_t at = from, next; (next = htc__kvs_next_hop(m, at, goal)) != KVS_NONE; at = next)
        if (next == a)
            return at;
    return from;
}
