/* The keys of a transaction as they will be: its commands are executed on these, answered at once, and what they have made of each key is
 * written afterwards, once. So nothing of a transaction that cannot be carried out as a whole is carried out at all. */
#include "core/util.h"
#include "kvs/cell/change.h"
#include "kvs/resp/resp_transaction.h"

/* Values that one transaction writes, and memory for all keys that it looks at for a change. */
#define VALUES_MAX ((size_t)32 << 20)
#define HELD_MAX   ((size_t)64 << 20)
#define KEPT_MAX   1024 /* of a value that is no more: the next one's place */

void htc__resp_draft_init(htc__resp_draft *d, htc__resp *f)
{
    *d = (htc__resp_draft){ .f = f, .store = f->backend };
    htc__table_init(&d->keys, &f->env);
    htc_buf_init(&d->scratch, &f->env, 0);
}

void htc__resp_draft_free(htc__resp_draft *d)
{
    for (htc__node *n = d->keys.head[0]; n; n = n->next[0]) {
        htc__resp_draft_key *k = htc__node_value(n);
        htc_buf_free(&k->value[0]);
        htc_buf_free(&k->value[1]);
    }
    htc__table_free(&d->keys);
    htc_buf_free(&d->scratch);
}

static htc__resp_draft_key *find(const htc__resp_draft *d, htc_bytes key)
{
    htc__node *node = htc__table_find(&d->keys, key);
    return node ? htc__node_value(node) : NULL;
}

static void look_at_size(htc__resp_draft *d, size_t more)
{
    d->too_much |= d->bytes > VALUES_MAX || d->held + d->keys.bytes + more > HELD_MAX;
}

/* Its value is this from now on; the one before it stays until the next request. */
static int keep(htc__resp_draft *d, htc__resp_draft_key *k, htc_bytes value)
{
    htc_buf *to = &k->value[k->which ^= 1];
    size_t   cap = to->cap;
    if (k->changed)
        d->bytes += value.len - k->counted;
    k->counted = k->changed ? value.len : 0;
    look_at_size(d, value.len > cap ? value.len - cap : 0);
    htc_buf_clear(to);
    if (!d->too_much)
        htc_put_raw(to, value);
    d->held += to->cap - cap;
    look_at_size(d, 0);
    if (to->status != HTC_OK)
        d->failed = to->status;
    k->now.value = htc_buf_bytes(to);
    return !d->too_much && to->status == HTC_OK;
}

static void release_old(htc__resp_draft *d)
{
    htc_buf *old = d->last ? &d->last->value[d->last->which ^ 1] : NULL;
    if (old && old->cap > KEPT_MAX) {
        d->held -= old->cap;
        htc_buf_free(old);
    }
    d->last = NULL;
}

htc__resp_draft_key *htc__resp_draft_put(htc__resp_draft *d, htc_bytes key, const htc__resp_state *was)
{
    htc__node *node = d->too_much ? NULL : htc__table_make(&d->keys, key, sizeof(htc__resp_draft_key));
    if (d->too_much)
        return NULL;
    if (!node) {
        d->failed = HTC_ENOMEM;
        return NULL;
    }
    htc__resp_draft_key *k = htc__node_value(node);
    *k = (htc__resp_draft_key){ .was = *was, .now = *was, .term = 1 };
    htc_buf_init(&k->value[0], &d->f->env, 0);
    htc_buf_init(&k->value[1], &d->f->env, 0);
    k->now.value = k->was.value = (htc_bytes){ NULL, 0 };
    htc__table_link(&d->keys, node);
    return keep(d, k, was->value) ? k : NULL;
}

static htc__kv_cell cell_of(const htc__resp_draft_key *k)
{
    const htc__resp_state *now = &k->now;
    htc__kv_cell           cell = { .present = 1, .deleted = !now->there, .version = now->version };
    if (now->there) {
        cell.value = now->value;
        cell.ttl = now->ttl;
        cell.lease = now->lease;
        cell.term = k->term;
    }
    return cell;
}

static void change(htc__resp_draft *d, htc__resp_draft_key *k, const htc_kv_request *q, htc_kv_result *result)
{
    static const htc__kv_stamp nobody = { .fresh = 1 };
    htc__kv_cell               cell = cell_of(k);
    htc__kv_changed            out;
    htc__kv_change_within(&cell, q, &nobody, 0, d->f->options.value_max, &d->scratch, &out);
    *result = out.result;
    if (out.effect == HTC__KV_NO_MEMORY)
        d->failed = HTC_ENOMEM;
    if (out.effect != HTC__KV_CHANGED)
        return;
    k->changed = 1;
    d->last = k;
    if (!keep(d, k, out.to.deleted ? (htc_bytes){ NULL, 0 } : out.to.value))
        return;
    k->now.there = !out.to.deleted;
    k->now.version = out.to.version;
    k->now.ttl = out.to.ttl;
    k->now.lease = out.to.lease;
    k->term = out.to.term;
}

/* As it is in the store, for a change; NULL: it cannot be had, which *result says. */
static htc__resp_draft_key *load(htc__resp_draft *d, htc_bytes key, htc_kv_result *result)
{
    htc_kv_result a = { .size = sizeof a, .status = HTC_EINTERNAL };
    if (d->store.look)
        a.status = d->store.look(d->store.ctx, key, &a);
    htc__resp_state      was = htc__resp_state_of(&a);
    htc__resp_draft_key *k = a.status == HTC_OK || a.status == HTC_ENOTFOUND ? htc__resp_draft_put(d, key, &was) : NULL;
    if (!k)
        result->status = a.status == HTC_OK || a.status == HTC_ENOTFOUND ? HTC_ENOMEM : a.status;
    return k;
}

static int draft_ask(void *ctx, const htc_kv_request *q, const htc__kv_stamp *stamp, const htc__kv_face *face,
                     uint64_t conn, uint64_t slot, htc_kv_result *result)
{
    htc__resp_draft     *d = ctx;
    htc__resp_draft_key *k = find(d, q->key);
    (void)stamp, (void)face, (void)conn, (void)slot;
    release_old(d);
    *result = (htc_kv_result){ .size = sizeof(htc_kv_result), .op = q->op };
    if (q->op == HTC_KV_GET && !k) { /* what is only read is not kept */
        d->reads = 1;
        result->status = d->store.look ? d->store.look(d->store.ctx, q->key, result) : HTC_EINTERNAL;
        result->op = q->op;
        return 1;
    }
    if (!k && !(k = load(d, q->key, result)))
        return 1;
    d->reads = 1;
    change(d, k, q, result);
    return 1;
}

htc__kv_backend htc__resp_draft_backend(htc__resp_draft *d)
{
    return (htc__kv_backend){ .ask = draft_ask, .ctx = d };
}

void htc__resp_draft_change(const htc__resp_draft_key *k, htc__resp_change *to)
{
    to->what = !k->changed || (!k->now.there && !k->was.there) ? HTC__RESP_STAYS
               : k->now.there                                  ? HTC__RESP_BECOMES
                                                               : HTC__RESP_GOES;
    to->value = k->now.value;
    to->keeps = k->was.there && k->term == 1;
    to->ttl = to->keeps ? 0 : k->now.ttl;
}
