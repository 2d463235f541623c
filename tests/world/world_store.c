/* The store's node. Its disk is the memory engine: a batch reaches it when it is durable and not before, so a crash
 * loses exactly what was not; whether the batch under way was written is the disk's own secret. */
#include "kvs/record.h"
#include "system.h"

/* Tells of the keys that begin with this letter. */
static void tell(sys *s, htc_bytes batch, char letter)
{
    htc_kv_change change;
    size_t        at = 0;
    while (htc_kv_batch_next(batch, &at, &change) == 1) {
        htc__kv_record record;
        const char    *name = change.key.data;
        htc_bytes      key = { name + 1, change.key.len - 1 };
        if (change.drop || change.key.len < 2 || name[0] != 'k' || name[1] != letter)
            continue;
        if (htc__kv_record_read(change.value, key, &record) != HTC_OK)
            world_fail(s->w, "the store writes a record that it could not read");
        else if (!record.deleted)
            sys_committed(s, key, record.value);
    }
}

/* A batch is written entirely or not at all: results first, then the chunk records that count on them. */
static void durable(sys *s)
{
    htc_bytes batch = htc_buf_bytes(&s->commit.batch);
    s->commit.pending = 0;
    htc_status status = s->disk.ops->apply(s->disk.ctx, batch);
    if (status != HTC_OK)
        world_fail(s->w, "the disk answers %s", htc_status_name(status));
    tell(s, batch, 'r');
    tell(s, batch, 'c');
}

/* Stored, and then told, unless the store ended in between. */
typedef struct sync {
    sys     *s;
    uint64_t incarnation, tag;
} sync;

static void synced(world *w, void *ctx)
{
    sync *y = ctx;
    sys  *s = y->s;
    if (s->store->incarnation == y->incarnation && s->commit.pending && s->commit.tag == y->tag) {
        int full = world_now(w) < s->disk_full_until;
        if (full)
            s->commit.pending = 0;
        else
            durable(s);
        world_stored(s->store, 0, y->tag, full ? HTC_ENOSPC : HTC_OK);
    }
}

static void commit(world_node *node, const htc_effect *effect)
{
    sys  *s = node->ctx;
    sync *y = malloc(sizeof *y);
    if (!y)
        abort();
    if (s->commit.pending)
        world_fail(s->w, "a second commit before the first was stored");
    s->commit.pending = 1;
    s->commit.tag = effect->tag;
    htc_buf_clear(&s->commit.batch);
    htc_put_raw(&s->commit.batch, effect->body);
    *y = (sync){ s, node->incarnation, effect->tag };
    world_at_taken(
        s->w, world_now(s->w) + s->options.commit_ns + htc_rng_below(&s->rng_disk, s->options.commit_jitter_ns + 1),
        synced, y);
}

static void ended(world_node *node, htc_status status, int crashed)
{
    sys *s = node->ctx;
    if (!crashed)
        world_fail(s->w, "the store has ended: %s", htc_status_name(status));
    s->crashes++;
    s->disturbed_at = world_now(s->w);
    if (s->commit.pending && htc_rng_below(&s->rng_disk, 2))
        durable(s);
    s->commit.pending = 0;
}

static void boot(world_node *node)
{
    sys                  *s = node->ctx;
    htc_kv_server_options o = { .size = sizeof o, .engine = s->disk };
    htc_kv_server        *server;
    if (htc_kv_server_create(&node->env, &o, &server) != HTC_OK)
        abort();
    world_install(node, htc_kv_server_ops(), server);
}

world_node *sys_store_add(sys *s)
{
    static const world_host host = { .boot = boot, .commit = commit, .ended = ended };
    htc_buf_init(&s->commit.batch, NULL, 0);
    if (htc_kv_memory_create(NULL, &s->disk) != HTC_OK)
        abort();
    return world_add(s->w, "store", &host, s);
}

void sys_store_close(sys *s)
{
    htc_buf_free(&s->commit.batch);
    s->disk.ops->destroy(s->disk.ctx);
}
