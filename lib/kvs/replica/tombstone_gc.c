/* Tombstones with several members: so many are remembered one by one, then the oldest are collected, each by its first owner
 * once all owners have confirmed to hold it. What they leave behind are the floors of their bucket (cell.h, acceptor.h).
 *
 * A message that says "collected" may be lost on the way to one owner. Its tombstone is met again when it has far too many: then it
 * collects what others should have, which makes them all hold it once more.
 *
 * t KEY, without a value, is how a tombstone is found again after a restart, when nobody remembers their age any more. */
#include <assert.h>
#include <string.h>

#include "kvs/replica/cluster_private.h"

#define AT_ONCE  16
#define PAUSE_NS (20 * HTC_MS)
/* Times suspect_ns, after rounds over all of them in which it was nobody's turn here. */
#define IDLE_MAX 16

/* In a ring, the oldest first. */
typedef struct grave {
    struct grave    *older, *newer;
    const htc__node *node; /* that holds this */
    uint8_t          asked;
} grave;

struct htc__kv_tombstones {
    htc__table   held; /* by key: grave */
    grave       *oldest, *newest;
    uint32_t     collecting; /* so many are being collected */
    htc_ns       at;         /* no others before */
    uint64_t     in_vain;    /* looked at since it was one's turn */
    htc__kv_face face;
};

static uint64_t count(const htc_kv_server *s)
{
    return s->cluster->tombstones->held.count;
}

static void unlink_grave(htc__kv_cluster *c, grave *g)
{
    *(g->older ? &g->older->newer : &c->tombstones->oldest) = g->newer;
    *(g->newer ? &g->newer->older : &c->tombstones->newest) = g->older;
    g->older = g->newer = NULL;
}

static void append_grave(htc__kv_cluster *c, grave *g)
{
    g->older = c->tombstones->newest;
    g->newer = NULL;
    *(c->tombstones->newest ? &c->tombstones->newest->newer : &c->tombstones->oldest) = g;
    c->tombstones->newest = g;
}

static void forget(htc_kv_server *s, htc_bytes key)
{
    htc__node *node = htc__table_find(&s->cluster->tombstones->held, key);
    if (!node)
        return;
    unlink_grave(s->cluster, htc__node_value(node));
    htc__table_remove(&s->cluster->tombstones->held, key);
}

static int is_first_owner(const htc_kv_server *s, htc_bytes key)
{
    uint32_t       bucket;
    htc__kv_owners owners = htc__kv_cluster_owners(s, key, &bucket);
    return owners.id[0] == s->cluster->id;
}

static htc_status remember(htc_kv_server *s, htc_bytes key)
{
    htc__kv_cluster *c = s->cluster;
    htc__node       *node = htc__table_find(&c->tombstones->held, key);
    if (node)
        return HTC_OK;
    if (!(node = htc__table_make(&c->tombstones->held, key, sizeof(grave))))
        return HTC_ENOMEM;
    htc__table_link(&c->tombstones->held, node);
    grave *g = htc__node_value(node);
    g->node = node;
    append_grave(c, g);
    if (c->tombstones->in_vain && is_first_owner(s, key)) { /* it would be long before it is met */
        c->tombstones->in_vain = 0;
        c->tombstones->at = s->now + PAUSE_NS < c->tombstones->at ? s->now + PAUSE_NS : c->tombstones->at;
    }
    return HTC_OK;
}

htc_status htc__kv_cluster_tombstone(htc_kv_server *s, htc_bytes key, int had, int has)
{
    if (!had && !has && !s->cluster->tombstones->held.count)
        return HTC_OK;
    htc__kv_name name = htc__kv_name_of(HTC__SCHEMA_TOMBSTONE, NULL, key);
    if (has) {
        htc_status status = had ? HTC_OK : htc__kv_stage(s, htc__kv_name_bytes(&name), (htc_bytes){ "", 0 });
        return status == HTC_OK ? remember(s, key) : status;
    }
    forget(s, key);
    return had ? htc__kv_stage_drop(s, htc__kv_name_bytes(&name)) : HTC_OK;
}

typedef struct loading {
    htc_kv_server *s;
    htc_status     status;
} loading;

static int load_one(void *visitor, htc_bytes name, htc_bytes value)
{
    loading *l = visitor;
    (void)value;
    if (!htc__schema_is(name, HTC__SCHEMA_TOMBSTONE))
        return 0;
    l->status = remember(l->s, (htc_bytes){ (const uint8_t *)name.data + 1, name.len - 1 });
    return l->status == HTC_OK;
}

static htc_status load(htc_kv_server *s)
{
    loading    l = { s, HTC_OK };
    htc_status status = htc__kv_scan(s, htc__schema_name(HTC__SCHEMA_TOMBSTONE), load_one, &l);
    return status == HTC_OK ? l.status : status;
}

/* ---------------------------------------------------------------- collecting */

/* Collected, its cell is gone, and this with it; else it waits for its turn once more. */
static void answered(void *ctx, uint64_t conn, uint64_t slot, const htc_kv_result *result)
{
    htc_kv_server   *s = ctx;
    htc__kv_cluster *c = s->cluster;
    (void)conn, (void)slot;
    assert(c->tombstones->collecting > 0);
    c->tombstones->collecting--;
    if (result->status != HTC_OK && result->status != HTC_EBUSY && c->tombstones->at < s->now + c->suspect_ns)
        c->tombstones->at = s->now + c->suspect_ns;
}

static void collect(htc_kv_server *s, htc_bytes key)
{
    htc__kv_cluster *c = s->cluster;
    uint32_t         bucket;
    htc__kv_owners   owners = htc__kv_cluster_owners(s, key, &bucket);
    htc_kv_request   q = { .size = sizeof q, .op = HTC__KV_EXPIRE, .key = key }; /* an owner's own business */
    c->tombstones->face = (htc__kv_face){ .answer = answered, .ctx = s };
    htc__kv_pending *r = htc__kv_pending_own(s, &q, &c->tombstones->face, 0, 0, s->now + c->request_ns);
    if (!r)
        return;
    c->tombstones->collecting++;
    r->target = c->id;
    htc_status status = htc__kv_register_collect(c->reg, s->now, &owners, key, r->tag);
    if (status == HTC_ENOMEM)
        htc__kv_cluster_broken(s, status);
    else if (status != HTC_OK)
        htc__kv_pending_tell(s, r, &(htc__kv_forwarded){ .result = { .op = q.op, .status = status } });
}

/* One owner collects, so that they do not outbid each other: the first in the list. Without all of them nothing is collected: while
 * one is thought to be away nobody is asked in vain. */
static int its_turn(const htc_kv_server *s, htc_bytes key)
{
    uint32_t       bucket;
    htc__kv_owners owners = htc__kv_cluster_owners(s, key, &bucket);
    if (!htc__kv_route_has(s->cluster, bucket, s->cluster->id))
        return 0; /* it is others' now */
    for (uint32_t i = 0; i < owners.n; i++)
        if (htc__kv_cluster_suspected(s, htc__kv_cluster_peer(s->cluster, owners.id[i])))
            return 0;
    return owners.id[0] == s->cluster->id || count(s) > 4 * (uint64_t)s->options.tombstones_max;
}

static int wanted(const htc_kv_server *s)
{
    return count(s) > s->options.tombstones_max && s->cluster->tombstones->collecting < AT_ONCE && !htc__kv_full(s);
}

static htc_ns deadline(const htc_kv_server *s)
{
    return wanted(s) ? s->cluster->tombstones->at : HTC_NEVER;
}

/* What is too many may all be for others to collect, or an owner may be away: the longer that has been so, the more seldom it is
 * looked at. Not before all have been looked at: the one whose turn it is may stand behind any number of others. */
static htc_ns pause(const htc_kv_server *s, uint64_t in_vain)
{
    uint64_t looks = in_vain > count(s) ? (in_vain - count(s)) / AT_ONCE : 0;
    if (in_vain < count(s))
        return PAUSE_NS;
    return s->cluster->suspect_ns * (looks < IDLE_MAX ? 1 + looks : IDLE_MAX);
}

static void tick(htc_kv_server *s)
{
    htc__kv_cluster *c = s->cluster;
    if (s->now < deadline(s))
        return;
    for (int i = 0; i < AT_ONCE && wanted(s) && s->broken == HTC_OK; i++) {
        grave *g = c->tombstones->oldest;
        unlink_grave(c, g);
        append_grave(c, g);
        if (its_turn(s, htc__node_key(g->node))) {
            collect(s, htc__node_key(g->node));
            c->tombstones->in_vain = 0;
        } else {
            c->tombstones->in_vain++;
        }
    }
    c->tombstones->at = s->now + pause(s, c->tombstones->in_vain);
}

/* ---------------------------------------------------------------- the component */

static htc_status make(htc_kv_server *s)
{
    struct htc__kv_tombstones *x = s->cluster->tombstones = htc__alloc(&s->env, sizeof *x);
    if (!x)
        return HTC_ENOMEM;
    htc__table_init(&x->held, &s->env);
    return HTC_OK;
}

static void unmake(htc_kv_server *s)
{
    struct htc__kv_tombstones *x = s->cluster->tombstones;
    if (!x)
        return;
    htc__table_free(&x->held);
    htc__free(&s->env, x, sizeof *x);
    s->cluster->tombstones = NULL;
}

uint64_t htc__kv_tombstones_count(const htc_kv_server *s)
{
    return count(s);
}

const htc__kv_component htc__kv_component_tombstones = { .make = make, .free = unmake, .load = load, .tick = tick, .deadline = deadline, .needs_map = 1 };
