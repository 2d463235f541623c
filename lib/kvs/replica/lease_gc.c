/* Keys that are bound to a lease which has ended are gone for every reader, and still take memory. Their owners go round the bound
 * keys that they hold, a few at a time: each is asked for as by a client, which removes those that are found dead.
 *
 * b LEASE KEY, without a value, says that a key is bound. */
#include <assert.h>

#include "kvs/replica/cluster_private.h"

#define AT_ONCE  16
#define PAUSE_NS (500 * HTC_MS)

struct htc__kv_lease_sweep {
    htc__kv_name from;  /* where its next look begins; empty: at the first */
    uint32_t     asked; /* keys asked for */
    htc_ns       at;
    htc__kv_face face;
};

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
        if (s->cluster->lease_sweep->at == HTC_NEVER)
            s->cluster->lease_sweep->at = s->now + PAUSE_NS;
    }
    return status;
}

static void answered(void *ctx, uint64_t conn, uint64_t slot, const htc_kv_result *result)
{
    htc_kv_server *s = ctx;
    (void)conn, (void)slot, (void)result;
    assert(s->cluster->lease_sweep->asked > 0);
    s->cluster->lease_sweep->asked--;
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
    htc__kv_pending  *r = htc__kv_pending_own(s, &q, &c->lease_sweep->face, 0, 0, s->now + c->request_ns);
    if (!r)
        return;
    c->lease_sweep->asked++;
    htc__kv_pending_route(s, r);
}

static htc_ns deadline(const htc_kv_server *s)
{
    return s->cluster->lease_sweep->asked ? HTC_NEVER : s->cluster->lease_sweep->at;
}

static htc_status go_round(htc_kv_server *s)
{
    htc__kv_cluster *c = s->cluster;
    if (s->now < deadline(s))
        return HTC_OK;
    some *p = htc__alloc(&s->env, sizeof *p);
    if (!p)
        return HTC_ENOMEM;
    int from_start = c->lease_sweep->from.len == 0;
    if (from_start)
        c->lease_sweep->from = htc__kv_name_of(HTC__SCHEMA_BOUND, NULL, (htc_bytes){ NULL, 0 });
    htc_status status = htc__kv_scan(s, htc__kv_name_bytes(&c->lease_sweep->from), take_some, p);
    c->lease_sweep->face = (htc__kv_face){ .answer = answered, .ctx = s };
    for (size_t i = 0; status == HTC_OK && i < p->count && s->broken == HTC_OK; i++) {
        htc_bytes key = { p->names[i].data + 9, p->names[i].len - 9 };
        if (comes_first(s, key))
            ask_for(s, key);
    }
    c->lease_sweep->at = p->count || !from_start ? s->now + PAUSE_NS : HTC_NEVER; /* nothing is bound */
    c->lease_sweep->from.len = 0;
    if (p->count == AT_ONCE) { /* there may be more behind the last */
        c->lease_sweep->from = p->names[AT_ONCE - 1];
        if (c->lease_sweep->from.len < sizeof c->lease_sweep->from.data)
            c->lease_sweep->from.data[c->lease_sweep->from.len++] = 0;
    }
    htc__free(&s->env, p, sizeof *p);
    return status;
}

static void tick(htc_kv_server *s)
{
    htc_status status = go_round(s);
    if (status != HTC_OK)
        htc__kv_cluster_broken(s, status);
}

static htc_status make(htc_kv_server *s)
{
    struct htc__kv_lease_sweep *x = s->cluster->lease_sweep = htc__alloc(&s->env, sizeof *x);
    return x ? HTC_OK : HTC_ENOMEM;
}

static void unmake(htc_kv_server *s)
{
    struct htc__kv_lease_sweep *x = s->cluster->lease_sweep;
    htc__free(&s->env, x, sizeof *x);
    s->cluster->lease_sweep = NULL;
}

const htc__kv_component htc__kv_component_lease_sweep = { .make = make, .free = unmake, .tick = tick, .deadline = deadline, .needs_map = 1 };
