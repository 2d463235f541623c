/* Keys that are bound to a lease which has ended are gone for every reader, and still take memory. Their owners go round the bound
 * keys that they hold, a few at a time: each is asked for as by a client, which removes those that are found dead.
 *
 * b LEASE KEY, without a value, says that a key is bound. */
#include <assert.h>

#include "kvs/replica/cluster_private.h"

#define AT_ONCE  16
#define PAUSE_NS (500 * HTC_MS)

htc_status htc__kv_cluster_bound(htc_kv_server *s, htc_bytes key, uint64_t had, uint64_t has)
{
    htc_status status = HTC_OK;
    if (had == has)
        return HTC_OK;
    if (had) {
        htc__kv_name name = htc__kv_name_of(HTC__SCHEMA_BOUND, &had, key);
        status = htc__kv_stage_drop(s, htc__kv_name_bytes(&name));
    }
    if (status == HTC_OK && has) {
        htc__kv_name name = htc__kv_name_of(HTC__SCHEMA_BOUND, &has, key);
        status = htc__kv_stage(s, htc__kv_name_bytes(&name), (htc_bytes){ "", 0 });
        if (s->cluster->sweep_at == HTC_NEVER)
            s->cluster->sweep_at = s->now + PAUSE_NS;
    }
    return status;
}

static void answered(void *ctx, uint64_t conn, uint64_t slot, const htc_kv_result *result)
{
    htc_kv_server *s = ctx;
    (void)conn, (void)slot, (void)result;
    assert(s->cluster->sweeping > 0);
    s->cluster->sweeping--;
}

typedef struct some {
    size_t       count;
    htc__kv_name names[AT_ONCE];
} some;

static int take_some(void *visitor, htc_bytes name, htc_bytes value)
{
    some *p = visitor;
    (void)value;
    if (!htc__schema_is(name, HTC__SCHEMA_BOUND) || p->count == AT_ONCE)
        return 0;
    uint64_t lease = htc__kv_name_number(name);
    if (name.len > 9)
        p->names[p->count++] =
            htc__kv_name_of(HTC__SCHEMA_BOUND, &lease, (htc_bytes){ (const uint8_t *)name.data + 9, name.len - 9 });
    return 1;
}

static int comes_first(const htc_kv_server *s, htc_bytes key)
{
    uint32_t       bucket;
    htc__kv_owners owners = htc__kv_cluster_owners(s, key, &bucket);
    return owners.id[owners.first] == s->cluster->id;
}

static void ask_for(htc_kv_server *s, htc_bytes key)
{
    htc__kv_cluster *c = s->cluster;
    htc_kv_request   q = { .size = sizeof q, .op = HTC_KV_GET, .key = key };
    htc__kv_pending  *r = htc__kv_pending_own(s, &q, &c->sweep_face, 0, 0, s->now + c->request_ns);
    if (!r)
        return;
    c->sweeping++;
    htc__kv_pending_route(s, r);
}

htc_ns htc__kv_lease_gc_deadline(const htc_kv_server *s)
{
    return s->cluster->sweeping ? HTC_NEVER : s->cluster->sweep_at;
}

htc_status htc__kv_lease_gc_tick(htc_kv_server *s)
{
    htc__kv_cluster *c = s->cluster;
    if (s->now < htc__kv_lease_gc_deadline(s))
        return HTC_OK;
    some *p = htc__alloc(&s->env, sizeof *p);
    if (!p)
        return HTC_ENOMEM;
    int from_start = c->sweep_from.len == 0;
    if (from_start)
        c->sweep_from = htc__kv_name_of(HTC__SCHEMA_BOUND, NULL, (htc_bytes){ NULL, 0 });
    htc_status status = htc__kv_scan(s, htc__kv_name_bytes(&c->sweep_from), take_some, p);
    c->sweep_face = (htc__kv_face){ .answer = answered, .ctx = s };
    for (size_t i = 0; status == HTC_OK && i < p->count && s->broken == HTC_OK; i++) {
        htc_bytes key = { p->names[i].data + 9, p->names[i].len - 9 };
        if (comes_first(s, key))
            ask_for(s, key);
    }
    c->sweep_at = p->count || !from_start ? s->now + PAUSE_NS : HTC_NEVER; /* nothing is bound */
    c->sweep_from.len = 0;
    if (p->count == AT_ONCE) { /* there may be more behind the last */
        c->sweep_from = p->names[AT_ONCE - 1];
        if (c->sweep_from.len < sizeof c->sweep_from.data)
            c->sweep_from.data[c->sweep_from.len++] = 0;
    }
    htc__free(&s->env, p, sizeof *p);
    return status;
}
