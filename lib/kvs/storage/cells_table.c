#include "kvs/storage/cells_table.h"

#include "core/util.h"
#include "kvs/util/place.h"

typedef struct table {
    htc_env   env;
    htc__heap heap;
} table;

static htc_status table_get(void *ctx, htc_bytes key, htc_bytes *value, uint64_t *batch)
{
    table *t = ctx;
    *batch = 0;
    return htc__heap_get(&t->heap, key, value);
}

static htc_status table_put(void *ctx, htc_bytes key, htc_bytes value)
{
    table *t = ctx;
    return htc__heap_put(&t->heap, key, value);
}

static htc_status table_drop(void *ctx, htc_bytes key)
{
    table *t = ctx;
    htc__heap_drop(&t->heap, key);
    return HTC_OK;
}

static htc_status table_scan(void *ctx, htc_bytes from, htc_kv_visit visit, void *visitor, uint64_t *batch)
{
    table *t = ctx;
    *batch = 0;
    return htc__heap_scan(&t->heap, from, visit, visitor);
}

static htc_status table_walk(void *ctx, uint64_t from, uint64_t to, htc_kv_visit visit, void *visitor, uint64_t *batch)
{
    table *t = ctx;
    *batch = 0;
    return htc__heap_walk(&t->heap, from, to, visit, visitor);
}

static uint64_t table_place(const void *ctx, htc_bytes key)
{
    return htc__kv_place(((const table *)ctx)->heap.seed, key);
}

static void table_hint(void *ctx, const htc_bytes *keys, size_t n)
{
    table *t = ctx;
    htc__heap_hint(&t->heap, keys, n);
}

/* There is one batch, always open and always stored. */
static uint64_t table_batch(const void *ctx)
{
    (void)ctx;
    return 1;
}

static size_t table_staged(const void *ctx)
{
    (void)ctx;
    return 0;
}

static size_t table_used(const void *ctx)
{
    const table *t = ctx;
    return htc__heap_used(&t->heap);
}

static size_t table_count(const void *ctx)
{
    const table *t = ctx;
    return htc__heap_count(&t->heap);
}

static htc_status table_step(void *ctx, const htc_input *in, htc_output *out, int *ready)
{
    (void)ctx;
    (void)in;
    (void)out;
    *ready = 1;
    return HTC_OK;
}

static htc_status table_commit(void *ctx, htc_output *out)
{
    (void)ctx;
    (void)out;
    return HTC_OK;
}

static htc_ns table_deadline(const void *ctx)
{
    (void)ctx;
    return HTC_NEVER;
}

static void table_destroy(void *ctx)
{
    table *t = ctx;
    if (!t)
        return;
    htc_env env = t->env;
    htc__heap_free(&t->heap);
    htc__free(&env, t, sizeof *t);
}

htc_status htc__cells_table_create(const htc_env *env, const htc__heap_options *options, htc__cells *cells)
{
    static const htc__cells_ops ops = {
        .get = table_get,
        .put = table_put,
        .drop = table_drop,
        .scan = table_scan,
        .walk = table_walk,
        .place = table_place,
        .hint = table_hint,
        .open = table_batch,
        .stored = table_batch,
        .staged = table_staged,
        .used = table_used,
        .count = table_count,
        .step = table_step,
        .commit = table_commit,
        .deadline = table_deadline,
        .destroy = table_destroy,
    };
    table *t = htc__alloc(env, sizeof *t);
    if (!t)
        return HTC_ENOMEM;
    if (env)
        t->env = *env;
    htc__heap_init(&t->heap, env, options);
    *cells = (htc__cells){ &ops, t };
    return HTC_OK;
}
