/* The engine in memory, and how a batch is read. */
#include <string.h>

#include "core/util.h"
#include "htcsched/kv_engine.h"
#include "kvs/storage/batch.h"
#include "kvs/util/table.h"

void htc__kv_batch_put(htc_buf *b, htc_bytes key, htc_bytes value)
{
    htc_put_u8(b, HTC__KV_BATCH_PUT);
    htc_put_bytes(b, key);
    htc_put_bytes(b, value);
}

void htc__kv_batch_drop(htc_buf *b, htc_bytes key)
{
    htc_put_u8(b, HTC__KV_BATCH_DROP);
    htc_put_bytes(b, key);
}

int htc_kv_batch_next(htc_bytes batch, size_t *at, htc_kv_change *change)
{
    if (*at >= batch.len)
        return *at == batch.len ? 0 : -1;
    htc_reader r = htc_reader_of((htc_bytes){ (const uint8_t *)batch.data + *at, batch.len - *at });
    uint8_t    kind = htc_get_u8(&r);
    *change = (htc_kv_change){ .drop = kind == HTC__KV_BATCH_DROP, .key = htc_get_bytes(&r) };
    if (kind == HTC__KV_BATCH_PUT)
        change->value = htc_get_bytes(&r);
    else if (kind != HTC__KV_BATCH_DROP)
        return -1;
    if (r.status != HTC_OK || change->key.len == 0 || change->key.len > HTC_KV_ENGINE_KEY_MAX)
        return -1;
    *at = batch.len - htc_reader_left(&r);
    return 1;
}

typedef struct memory {
    htc_env    env;
    htc__table table;
} memory;

static htc_status memory_get(void *ctx, htc_bytes key, htc_bytes *value)
{
    memory    *m = ctx;
    htc__node *node = htc__table_find(&m->table, key);
    if (!node)
        return HTC_ENOTFOUND;
    *value = (htc_bytes){ htc__node_value(node), node->value_len };
    return HTC_OK;
}

static htc_status memory_scan(void *ctx, htc_bytes from, htc_kv_visit visit, void *visitor)
{
    memory *m = ctx;
    for (htc__node *node = htc__table_seek(&m->table, from); node; node = node->next[0])
        if (!visit(visitor, htc__node_key(node), (htc_bytes){ htc__node_value(node), node->value_len }))
            break;
    return HTC_OK;
}

static void discard_all(memory *m, htc__node *nodes)
{
    for (htc__node *next; nodes; nodes = next) {
        next = nodes->chain;
        htc__table_discard(&m->table, nodes);
    }
}

/* First make every node, which may fail; then link and remove, which cannot. */
static htc_status memory_apply(void *ctx, htc_bytes batch)
{
    memory       *m = ctx;
    htc__node    *made = NULL, **tail = &made;
    htc_kv_change change;
    size_t        at = 0;
    int           more;
    while ((more = htc_kv_batch_next(batch, &at, &change)) > 0) {
        if (change.drop)
            continue;
        htc__node *node = htc__table_make(&m->table, change.key, change.value.len);
        if (!node) {
            discard_all(m, made);
            return HTC_ENOMEM;
        }
        if (change.value.len)
            memcpy(htc__node_value(node), change.value.data, change.value.len);
        *tail = node;
        tail = &node->chain;
    }
    if (more < 0) {
        discard_all(m, made);
        return HTC_ECORRUPT;
    }
    for (at = 0; htc_kv_batch_next(batch, &at, &change) > 0;) {
        if (change.drop) {
            htc__table_remove(&m->table, change.key);
            continue;
        }
        htc__node *node = made;
        made = made->chain;
        htc__table_link(&m->table, node);
    }
    return HTC_OK;
}

static size_t memory_used(const void *ctx)
{
    const memory *m = ctx;
    return m->table.bytes + m->table.slot_count * sizeof *m->table.slots;
}

static void memory_destroy(void *ctx)
{
    memory *m = ctx;
    if (!m)
        return;
    htc_env env = m->env;
    htc__table_free(&m->table);
    htc__free(&env, m, sizeof *m);
}

htc_status htc_kv_memory_create(const htc_env *env, htc_kv_engine *engine)
{
    static const htc_kv_engine_ops ops = {
        .size = sizeof ops,
        .get = memory_get,
        .scan = memory_scan,
        .apply = memory_apply,
        .used = memory_used,
        .destroy = memory_destroy,
    };
    if (!engine)
        return HTC_EINVAL;
    memory *m = htc__alloc(env, sizeof *m);
    if (!m)
        return HTC_ENOMEM;
    if (env)
        m->env = *env;
    htc__table_init(&m->table, env);
    *engine = (htc_kv_engine){ &ops, m };
    return HTC_OK;
}
