/* Keys with an end of their own, with several members: every owner that has taken one counts its ttl from then on, and who
 * comes first among the owners that are there ends it, by a change on condition of the term (HTC__KV_EXPIRE). A ttl that is set
 * anew is another term, so an end that comes late changes nothing. Until the end is final the key is there for everybody,
 * and afterwards for nobody: readers need to know nothing of it.
 *
 * e KEY, without a value, is how a key with a ttl is found again after a restart; then the whole ttl is counted anew. */
#include "kvs/replica/cluster_private.h"

#define ENDS_A_STEP 64

typedef struct end {
    htc__wheel_entry entry; /* first: the wheel knows nothing else */
    htc_ns           at;
    uint64_t         term;
    uint32_t         tries;
    const htc__node *node; /* that holds this */
} end;

struct htc__kv_ends {
    htc__table   held; /* by key: end */
    htc__wheel   wheel;
    htc__kv_face face;
};

static end *find(const htc_kv_server *s, htc_bytes key)
{
    htc__node *node = s->cluster->ends->held.count ? htc__table_find(&s->cluster->ends->held, key) : NULL;
    return node ? htc__node_value(node) : NULL;
}

static void forget(htc_kv_server *s, htc_bytes key)
{
    end *e = find(s, key);
    if (!e)
        return;
    htc__wheel_remove(&s->cluster->ends->wheel, &e->entry);
    htc__table_remove(&s->cluster->ends->held, key);
}

static void again_at(htc_kv_server *s, end *e, htc_ns at)
{
    htc__wheel_remove(&s->cluster->ends->wheel, &e->entry);
    htc__wheel_add(&s->cluster->ends->wheel, &e->entry, at);
}

static htc_status begin(htc_kv_server *s, htc_bytes key, htc_ns ttl, uint64_t term)
{
    htc__table *ends = &s->cluster->ends->held;
    end        *e = find(s, key);
    if (!e) {
        htc__node *node = htc__table_make(ends, key, sizeof *e);
        if (!node)
            return HTC_ENOMEM;
        htc__table_link(ends, node);
        e = htc__node_value(node);
        e->node = node;
    }
    if (e->term == term)
        return HTC_OK;
    e->term = term;
    e->tries = 0;
    e->at = ttl > HTC_NEVER - s->now ? HTC_NEVER : s->now + ttl;
    again_at(s, e, e->at);
    return HTC_OK;
}

htc_status htc__kv_cluster_end_held(htc_kv_server *s, htc_bytes key, htc_ns ttl, uint64_t term, int had)
{
    htc_status status = HTC_OK;
    if (!ttl && !had)
        return HTC_OK;
    htc__kv_name name = htc__kv_name_of(HTC__SCHEMA_END, NULL, key);
    if (!ttl) {
        forget(s, key);
        return htc__kv_stage_drop(s, htc__kv_name_bytes(&name));
    }
    if (!had)
        status = htc__kv_stage(s, htc__kv_name_bytes(&name), (htc_bytes){ "", 0 });
    return status == HTC_OK ? begin(s, key, ttl, term) : status;
}

htc_ns htc__kv_cluster_end_left(const htc_kv_server *s, htc_bytes key, htc_ns ttl)
{
    const end *e = find(s, key);
    return !e || e->at == HTC_NEVER ? ttl : e->at > s->now ? e->at - s->now : 1;
}

/* ---------------------------------------------------------------- what is stored */

typedef struct loading {
    htc_kv_server *s;
    htc_status     status;
} loading;

static int load_one(void *visitor, htc_bytes name, htc_bytes value)
{
    loading  *l = visitor;
    htc_bytes key = { (const uint8_t *)name.data + 1, name.len - 1 };
    (void)value;
    if (!htc__schema_is(name, HTC__SCHEMA_END))
        return 0;
    l->status = begin(l->s, key, 1, UINT64_MAX); /* its term is looked up below */
    return l->status == HTC_OK;
}

static htc_status load(htc_kv_server *s)
{
    htc__wheel_init(&s->cluster->ends->wheel, s->now, HTC_MS);
    loading    l = { s, HTC_OK };
    htc_status status = htc__kv_scan(s, htc__schema_name(HTC__SCHEMA_END), load_one, &l);
    if (status == HTC_OK)
        status = l.status;
    for (htc__node *node = s->cluster->ends->held.head[0], *next; status == HTC_OK && node; node = next) {
        htc_bytes    key = htc__node_key(node), value;
        htc__kv_name name = htc__kv_name_of(HTC__SCHEMA_CELL, NULL, key);
        htc__kv_cell cell;
        next = node->next[0];
        status = htc__kv_read(s, htc__kv_name_bytes(&name), &value);
        if (status == HTC_OK)
            status = htc__kv_cell_read(value, NULL, &cell);
        if (status == HTC_OK && !cell.deleted && cell.ttl) {
            status = begin(s, key, cell.ttl, cell.term);
        } else if (status == HTC_OK || status == HTC_ENOTFOUND || status == HTC_ECORRUPT) {
            forget(s, key);
            status = HTC_OK;
        }
    }
    return status;
}

/* ---------------------------------------------------------------- the end */

/* What became of it is seen in the cell. */
static void answered(void *ctx, uint64_t conn, uint64_t slot, const htc_kv_result *result)
{
    htc_kv_server *s = ctx;
    (void)conn, (void)slot;
    s->counts.expired += result->status == HTC_OK;
}

/* How many owners that are there come before this one. */
static uint32_t rank(const htc_kv_server *s, htc_bytes key)
{
    uint32_t       bucket, before = 0;
    htc__kv_owners owners = htc__kv_cluster_owners(s, key, &bucket);
    for (uint32_t i = 0; i < owners.n && owners.id[i] != s->cluster->id; i++)
        before += !htc__kv_cluster_suspected(s, htc__kv_cluster_peer(s->cluster, owners.id[i]));
    return before;
}

static void carry_out(htc_kv_server *s, end *e)
{
    htc__kv_cluster *c = s->cluster;
    htc_bytes        key = htc__node_key(e->node);
    if (!htc__kv_route_has(c, htc__kv_cluster_bucket(c, key), c->id)) {
        forget(s, key); /* it is others' now */
        return;
    }
    htc_ns turn = e->at + rank(s, key) * c->suspect_ns;
    if (turn > s->now) {
        again_at(s, e, turn);
        return;
    }
    /* Answered or not, it is looked at again: later and later, since the cell here may be older than the truth. */
    again_at(s, e, s->now + (c->request_ns << (e->tries < 6 ? e->tries : 6)));
    e->tries++;
    htc_kv_request q = { .size = sizeof q, .op = HTC__KV_EXPIRE, .key = key, .version = e->term };
    c->ends->face = (htc__kv_face){ .answer = answered, .ctx = s };
    htc__kv_pending *r = htc__kv_pending_own(s, &q, &c->ends->face, 0, 0, s->now + c->request_ns);
    if (r)
        htc__kv_pending_propose(s, r, &q);
}

static void tick(htc_kv_server *s)
{
    for (int i = 0; i < ENDS_A_STEP && htc__wheel_next(&s->cluster->ends->wheel) <= s->now && !htc__kv_full(s); i++) {
        htc__wheel_entry *entry = htc__wheel_take(&s->cluster->ends->wheel, s->now);
        if (entry)
            carry_out(s, (end *)entry);
    }
}

/* It changes keys, which waits for room. */
static htc_ns deadline(const htc_kv_server *s)
{
    return htc__kv_full(s) ? HTC_NEVER : htc__wheel_next(&s->cluster->ends->wheel);
}

static htc_status make(htc_kv_server *s)
{
    struct htc__kv_ends *x = s->cluster->ends = htc__alloc(&s->env, sizeof *x);
    if (!x)
        return HTC_ENOMEM;
    htc__table_init(&x->held, &s->env);
    return HTC_OK;
}

static void unmake(htc_kv_server *s)
{
    struct htc__kv_ends *x = s->cluster->ends;
    if (!x)
        return;
    htc__table_free(&x->held);
    htc__free(&s->env, x, sizeof *x);
    s->cluster->ends = NULL;
}

const htc__kv_component htc__kv_component_ends = { .make = make, .free = unmake, .load = load, .tick = tick, .deadline = deadline, .needs_map = 1 };
