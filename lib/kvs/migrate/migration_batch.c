#include "kvs/migrate/migration_batch.h"

#include "core/util.h"

struct htc__kv_migration_batch {
    const htc_env     *env;
    htc__kv_migration_host host; /* of whoever made the batch */
    uint32_t           count, ready;
    size_t             bytes;
    uint32_t          *bucket;
    htc__kv_migration    **mover;
};

/* ---- the movers' host ---- */

static void seal(void *ctx, uint64_t to, uint32_t bucket, uint64_t epoch, htc_bytes after)
{
    const htc__kv_migration_batch *b = ctx;
    b->host.seal(b->host.ctx, to, bucket, epoch, after);
}

static void install(void *ctx, uint64_t to, uint32_t bucket, uint64_t number, uint32_t page, int last,
                    const htc__kv_floors *floors, htc_bytes entries)
{
    const htc__kv_migration_batch *b = ctx;
    b->host.install(b->host.ctx, to, bucket, number, page, last, floors, entries);
}

static void activate(void *ctx, uint64_t number)
{
    htc__kv_migration_batch *b = ctx;
    b->ready++;
    if (b->ready == b->count)
        b->host.activate(b->host.ctx, number);
}

/* ---- life ---- */

static htc_status make_movers(htc__kv_migration_batch *b, const htc__kv_migration_options *options, const htc__kv_map_move *moves, uint64_t number,
                              htc_ns now)
{
    htc__kv_migration_host host = { .seal = seal, .install = install, .activate = activate, .ctx = b };
    htc_status         status = HTC_OK;
    for (uint32_t i = 0; i < b->count && status == HTC_OK; i++) {
        b->bucket[i] = moves[i].bucket;
        status = htc__kv_migration_create(b->env, options, &host, &moves[i], number, now, &b->mover[i]);
    }
    return status;
}

htc_status htc__kv_migration_batch_create(const htc_env *env, const htc__kv_migration_options *options, const htc__kv_migration_host *host,
                                const htc__kv_map_move *moves, uint32_t count, uint64_t number, htc_ns now, htc__kv_migration_batch **out)
{
    htc__kv_migration_batch *b = htc__alloc(env, sizeof *b);
    if (!b)
        return HTC_ENOMEM;
    b->env = env;
    b->host = *host;
    b->count = count;
    b->bucket = htc__alloc(env, count * sizeof *b->bucket);
    b->mover = htc__alloc(env, count * sizeof(htc__kv_migration *));
    htc_status status = b->bucket && b->mover ? make_movers(b, options, moves, number, now) : HTC_ENOMEM;
    if (status != HTC_OK) {
        htc__kv_migration_batch_destroy(b);
        return status;
    }
    *out = b;
    return HTC_OK;
}

void htc__kv_migration_batch_destroy(htc__kv_migration_batch *b)
{
    if (!b)
        return;
    for (uint32_t i = 0; b->mover && i < b->count; i++)
        htc__kv_migration_destroy(b->mover[i]);
    htc__free(b->env, b->mover, b->count * sizeof(htc__kv_migration *));
    htc__free(b->env, b->bucket, b->count * sizeof *b->bucket);
    htc__free(b->env, b, sizeof *b);
}

/* ---- what it is told ---- */

static htc__kv_migration *mover_of(const htc__kv_migration_batch *b, uint32_t bucket)
{
    uint32_t low = 0, high = b->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (b->bucket[middle] < bucket)
            low = middle + 1;
        else
            high = middle;
    }
    return low < b->count && b->bucket[low] == bucket ? b->mover[low] : NULL;
}

/* With these, for more than one bucket. */
static int is_too_much(htc__kv_migration_batch *b, htc_bytes entries)
{
    b->bytes += entries.len;
    return b->count > 1 && b->bytes > HTC__KV_MOVERS_MOST;
}

htc_status htc__kv_migration_batch_shown(htc__kv_migration_batch *b, htc_ns now, uint64_t from, uint32_t bucket, htc_bytes after,
                               const htc__kv_floors *floors, htc_bytes entries, int last)
{
    htc__kv_migration *mover = mover_of(b, bucket);
    if (!mover)
        return HTC_OK;
    return is_too_much(b, entries) ? HTC_EFULL : htc__kv_migration_shown(mover, now, from, after, floors, entries, last);
}

htc_status htc__kv_migration_batch_lost(htc__kv_migration_batch *b, htc_ns now, uint64_t from, uint32_t bucket)
{
    htc__kv_migration *mover = mover_of(b, bucket);
    return mover ? htc__kv_migration_lost(mover, now, from) : HTC_OK;
}

htc_status htc__kv_migration_batch_shown_eventual(htc__kv_migration_batch *b, htc_ns now, uint64_t from, uint32_t bucket, htc_bytes after,
                                        htc_bytes entries, int last)
{
    htc__kv_migration *mover = mover_of(b, bucket);
    if (!mover)
        return HTC_OK;
    return is_too_much(b, entries) ? HTC_EFULL : htc__kv_migration_shown_eventual(mover, now, from, after, entries, last);
}

void htc__kv_migration_batch_installed(htc__kv_migration_batch *b, htc_ns now, uint64_t from, uint32_t bucket, uint64_t number, uint32_t pages)
{
    htc__kv_migration *mover = mover_of(b, bucket);
    if (mover)
        htc__kv_migration_installed(mover, now, from, number, pages);
}

htc_status htc__kv_migration_batch_timeout(htc__kv_migration_batch *b, htc_ns now)
{
    htc_status status = HTC_OK;
    for (uint32_t i = 0; i < b->count && status == HTC_OK; i++)
        status = htc__kv_migration_timeout(b->mover[i], now);
    return status;
}

htc_ns htc__kv_migration_batch_deadline(const htc__kv_migration_batch *b)
{
    htc_ns first = HTC_NEVER;
    for (uint32_t i = 0; i < b->count; i++) {
        htc_ns at = htc__kv_migration_deadline(b->mover[i]);
        first = at < first ? at : first;
    }
    return first;
}

uint32_t htc__kv_migration_batch_count(const htc__kv_migration_batch *b)
{
    return b->count;
}

size_t htc__kv_migration_batch_bytes(const htc__kv_migration_batch *b)
{
    return b->bytes;
}

uint32_t htc__kv_migration_batch_next(uint32_t count, size_t bytes)
{
    uint64_t fit = bytes ? (uint64_t)count * HTC__KV_MOVERS_BYTES / bytes : UINT32_MAX;
    uint64_t next = fit < 2 * (uint64_t)count ? fit : 2 * (uint64_t)count;
    return next < 1 ? 1 : next > HTC__KV_MOVERS_BUCKETS ? HTC__KV_MOVERS_BUCKETS : (uint32_t)next;
}
