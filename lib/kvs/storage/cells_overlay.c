#include "kvs/storage/cells_overlay.h"

#include <string.h>

#include "core/util.h"
#include "kvs/storage/batch.h"
#include "kvs/cell/record.h"
#include "kvs/util/table.h"

typedef struct staged {
    uint64_t batch;
    uint64_t drop;
} staged; /* then the value */

typedef struct overlay {
    htc_env       env;
    htc_kv_engine engine;
    htc__table    table; /* staged entries, of the open batch and of the one on its way */
    uint64_t      open, stored;
    uint64_t      tag; /* of the commit on its way: no two commits share one, also when a batch is undone */
    size_t        bytes;
    htc_status    failed;
    htc_buf       body, sealed;
} overlay;

static htc_bytes staged_value(const htc__node *node)
{
    return (htc_bytes){ (uint8_t *)htc__node_value(node) + sizeof(staged), node->value_len - sizeof(staged) };
}

static htc_status overlay_get(void *ctx, htc_bytes key, htc_bytes *value, uint64_t *batch)
{
    overlay   *o = ctx;
    htc__node *node = htc__table_find(&o->table, key);
    *batch = 0;
    if (!node) {
        htc_status status = o->engine.ops->get(o->engine.ctx, key, value);
        return status == HTC_OK ? htc__kv_unseal(*value, key, value) : status;
    }
    const staged *entry = htc__node_value(node);
    *batch = entry->batch;
    if (entry->drop)
        return HTC_ENOTFOUND;
    *value = staged_value(node);
    return HTC_OK;
}

static htc_status stage(overlay *o, htc_bytes key, htc_bytes value, uint64_t drop)
{
    htc__node *node = htc__table_make(&o->table, key, sizeof(staged) + value.len);
    if (!node)
        return HTC_ENOMEM;
    staged *entry = htc__node_value(node);
    *entry = (staged){ o->open, drop };
    if (value.len)
        memcpy(entry + 1, value.data, value.len);
    htc__table_link(&o->table, node);
    o->bytes += key.len + value.len + 16;
    return HTC_OK;
}

static htc_status overlay_put(void *ctx, htc_bytes key, htc_bytes value)
{
    return stage(ctx, key, value, 0);
}

static htc_status overlay_drop(void *ctx, htc_bytes key)
{
    return stage(ctx, key, (htc_bytes){ NULL, 0 }, 1);
}

typedef struct merge {
    htc__node   *node; /* next of what is staged */
    htc_kv_visit visit;
    void        *visitor;
    uint64_t     batch;
    int          ended;
} merge;

static int visit_staged(merge *m)
{
    const staged *entry = htc__node_value(m->node);
    htc__node    *node = m->node;
    m->batch = entry->batch > m->batch ? entry->batch : m->batch;
    m->node = node->next[0];
    if (!entry->drop && !m->visit(m->visitor, htc__node_key(node), staged_value(node)))
        m->ended = 1;
    return !m->ended;
}

static int visit_committed(void *visitor, htc_bytes key, htc_bytes value)
{
    merge *m = visitor;
    int    order = -1;
    while (m->node && (order = htc_bytes_compare(htc__node_key(m->node), key)) <= 0) {
        if (!visit_staged(m))
            return 0;
        if (order == 0)
            return 1; /* what is staged hides what is committed */
    }
    if (htc__kv_unseal(value, key, &value) != HTC_OK)
        value = (htc_bytes){ NULL, 0 };
    if (!m->visit(m->visitor, key, value))
        m->ended = 1;
    return !m->ended;
}

static htc_status overlay_scan(void *ctx, htc_bytes from, htc_kv_visit visit, void *visitor, uint64_t *batch)
{
    overlay   *o = ctx;
    merge      m = { htc__table_seek(&o->table, from), visit, visitor, 0, 0 };
    htc_status status = o->engine.ops->scan(o->engine.ctx, from, visit_committed, &m);
    while (status == HTC_OK && !m.ended && m.node)
        visit_staged(&m);
    *batch = m.batch;
    return status;
}

static htc_status overlay_walk(void *ctx, uint64_t from, uint64_t to, htc_kv_visit visit, void *visitor,
                               uint64_t *batch)
{
    (void)ctx, (void)from, (void)to, (void)visit, (void)visitor, (void)batch;
    return HTC_EUNSUPPORTED;
}

static uint64_t overlay_open(const void *ctx)
{
    return ((const overlay *)ctx)->open;
}

static uint64_t overlay_stored(const void *ctx)
{
    return ((const overlay *)ctx)->stored;
}

static size_t overlay_staged(const void *ctx)
{
    return ((const overlay *)ctx)->bytes;
}

static size_t overlay_used(const void *ctx)
{
    const overlay *o = ctx;
    return o->engine.ops->used(o->engine.ctx) + o->table.bytes;
}

static int in_flight(const overlay *o)
{
    return o->open > o->stored + 1;
}

static htc_status overlay_commit(void *ctx, htc_output *out)
{
    overlay *o = ctx;
    if (o->bytes == 0 || in_flight(o))
        return HTC_OK;
    htc_buf_clear(&o->body);
    /* Nothing is on its way: what is staged is this batch and nothing else. */
    for (htc__node *node = o->table.head[0]; node; node = node->next[0]) {
        const staged *entry = htc__node_value(node);
        if (entry->drop) {
            htc__kv_batch_drop(&o->body, htc__node_key(node));
            continue;
        }
        htc_buf_clear(&o->sealed);
        htc_put_raw(&o->sealed, staged_value(node));
        htc__kv_seal(&o->sealed, htc__node_key(node), 0);
        if (o->sealed.status != HTC_OK)
            return o->sealed.status;
        htc__kv_batch_put(&o->body, htc__node_key(node), htc_buf_bytes(&o->sealed));
    }
    if (o->body.status != HTC_OK)
        return o->body.status;
    o->bytes = 0;
    o->open++;
    return htc_output_add(out,
                          &(htc_effect){ .kind = HTC_OUT_COMMIT, .tag = ++o->tag, .body = htc_buf_bytes(&o->body) });
}

static void settled(overlay *o)
{
    o->stored++;
    if (o->bytes == 0) {
        htc__table_free(&o->table);
        return;
    }
    for (htc__node *node = o->table.head[0], *next; node; node = next) {
        next = node->next[0];
        if (((const staged *)htc__node_value(node))->batch <= o->stored)
            htc__table_remove(&o->table, htc__node_key(node));
    }
}

static htc_status overlay_step(void *ctx, const htc_input *in, htc_output *out, int *ready)
{
    overlay *o = ctx;
    (void)out;
    *ready = 1;
    if (in->kind != HTC_IN_STORED || !in_flight(o) || in->tag != o->tag)
        return HTC_OK; /* none, or of a batch that is long settled */
    if (in->status == HTC_EIO || in->status == HTC_ECORRUPT)
        return in->status;
    if (in->status == HTC_OK) {
        settled(o);
        return HTC_OK;
    }
    /* What was staged after the failed batch was built on it: all of it goes. */
    htc__table_free(&o->table);
    o->failed = in->status;
    o->bytes = 0;
    o->open = o->stored + 1;
    return HTC_OK;
}

static htc_status overlay_undone(void *ctx)
{
    overlay   *o = ctx;
    htc_status status = o->failed;
    o->failed = HTC_OK;
    return status;
}

static htc_ns overlay_deadline(const void *ctx)
{
    (void)ctx;
    return HTC_NEVER;
}

static void overlay_destroy(void *ctx)
{
    overlay *o = ctx;
    if (!o)
        return;
    htc_env env = o->env;
    htc__table_free(&o->table);
    htc_buf_free(&o->body);
    htc_buf_free(&o->sealed);
    htc__free(&env, o, sizeof *o);
}

/* An engine cannot say how many records it has without a look at all of them. */
static size_t overlay_count(const void *ctx)
{
    (void)ctx;
    return 0;
}

htc_status htc__cells_overlay(const htc_env *env, const htc_kv_engine *engine, htc__cells *cells)
{
    static const htc__cells_ops ops = {
        .get = overlay_get,
        .put = overlay_put,
        .drop = overlay_drop,
        .scan = overlay_scan,
        .walk = overlay_walk,
        .open = overlay_open,
        .stored = overlay_stored,
        .staged = overlay_staged,
        .used = overlay_used,
        .count = overlay_count,
        .step = overlay_step,
        .commit = overlay_commit,
        .undone = overlay_undone,
        .deadline = overlay_deadline,
        .destroy = overlay_destroy,
    };
    overlay *o = htc__alloc(env, sizeof *o);
    if (!o)
        return HTC_ENOMEM;
    if (env)
        o->env = *env;
    o->engine = *engine;
    o->open = 1;
    htc__table_init(&o->table, env);
    htc_buf_init(&o->body, env, 0);
    htc_buf_init(&o->sealed, env, 0);
    *cells = (htc__cells){ &ops, o };
    return HTC_OK;
}
