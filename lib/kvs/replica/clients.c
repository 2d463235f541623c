/* What clients are told of the map, so that each request goes to the owner that proposes its key's changes (owners_wire.h). An old map
 * does no harm here either: who is asked for a key that is another's hands the request on, and says so. */
#include "kvs/replica/cluster_private.h"
#include "kvs/wire/owners_wire.h"

#define NOT_SHOWN UINT32_MAX

uint64_t htc__kv_cluster_have(const htc_kv_server *s, uint64_t *member)
{
    const htc__kv_cluster *c = s->cluster;
    *member = c->id;
    return c->map ? c->map_version + 1 : 0;
}

/* Places in the list of members, by peer. */
static uint32_t number_members(const htc__kv_cluster *c, uint32_t *at)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < c->count; i++)
        at[i] = c->peers[i].listed && htc__kv_map_find(c->map, c->peers[i].id) ? n++ : NOT_SHOWN;
    return n;
}

static uint32_t changed_since(const htc__kv_cluster *c, uint64_t have)
{
    uint32_t n = 0;
    for (uint32_t b = 0; b < c->buckets; b++)
        n += c->route[b].turned >= have;
    return n;
}

static void put_buckets(const htc__kv_cluster *c, const uint32_t *at, uint64_t have, int whole, htc_buf *b)
{
    uint32_t behind = 0; /* the first that is not said yet */
    for (uint32_t n = 0; n < c->buckets; n++) {
        const htc__kv_route  *route = &c->route[n];
        htc__kv_owners_bucket bucket = { .number = n };
        if (!whole && route->turned < have)
            continue;
        for (uint32_t i = 0; i < route->n; i++)
            if (at[route->peer[i]] != NOT_SHOWN)
                bucket.member[bucket.n++] = at[route->peer[i]];
        htc__kv_owners_bucket_write(b, whole, n - behind, &bucket);
        behind = n + 1;
    }
}

static void put_members(const htc__kv_cluster *c, const uint32_t *at, htc_buf *b)
{
    for (uint32_t i = 0; i < c->count; i++) {
        const htc__kv_map_member *m = at[i] == NOT_SHOWN ? NULL : htc__kv_map_find(c->map, c->peers[i].id);
        if (m)
            htc__kv_owners_member_write(b, &(htc__kv_owners_member){ m->id, htc_bytes_of(m->address) });
    }
}

/* Nothing, what has changed since, or all: whichever is short. */
htc_status htc__kv_cluster_tell_owners(htc_kv_server *s, uint64_t id, uint64_t have, htc_buf *b)
{
    htc__kv_cluster    *c = s->cluster;
    htc__kv_owners_head head = { .have = c->map_version + 1, .seed = c->seed };
    uint32_t           *at = htc__alloc(&s->env, c->count * sizeof *at);
    if (!at)
        return HTC_ENOMEM;
    uint32_t members = number_members(c, at), changed = have ? changed_since(c, have) : c->buckets;
    int      news = have < head.have, whole = news && changed > c->buckets / 2;
    while (UINT32_C(1) << head.bits < c->buckets)
        head.bits++;
    head.members = news ? members : 0;
    htc__kv_owners_begin(b, id, &head);
    if (news)
        put_members(c, at, b);
    htc__kv_owners_buckets(b, whole, news ? changed : 0);
    if (news)
        put_buckets(c, at, have, whole, b);
    htc__free(&s->env, at, c->count * sizeof *at);
    return b->status;
}
