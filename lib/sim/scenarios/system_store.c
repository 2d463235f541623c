/* The store's node. Its disk is the memory engine: a batch reaches it when it is durable and not before, so a crash
 * loses exactly what was not; whether the batch under way was written is the disk's own secret. */
#include "kvs/cell/cell.h"
#include "sim/scenarios/system_private.h"

/* Of what attempts have (h/), that it is no more. */
static void tell_forgotten(sys *s, htc_bytes batch)
{
    htc_kv_change change;
    size_t        at = 0;
    while (htc_kv_batch_next(batch, &at, &change) == 1) {
        htc__kv_cell cell;
        htc_bytes    payload;
        const char  *name = change.key.data;
        if (change.key.len < 2 || name[0] != 'k' || name[1] != 'h')
            continue;
        if (change.drop || (htc__kv_unseal(change.value, change.key, &payload) == HTC_OK && htc__kv_cell_read(payload, NULL, &cell) == HTC_OK && cell.deleted))
            htc__sys_forgotten(s, (htc_bytes){ name + 1, change.key.len - 1 });
    }
}

/* Tells of the keys that begin with this letter. */
static void tell(sys *s, htc_bytes batch, char letter)
{
    htc_kv_change change;
    size_t        at = 0;
    while (htc_kv_batch_next(batch, &at, &change) == 1) {
        htc__kv_cell cell;
        htc_bytes    payload;
        const char  *name = change.key.data;
        htc_bytes    key = { name + 1, change.key.len - 1 };
        if (change.drop || change.key.len < 2 || name[0] != 'k' || name[1] != letter)
            continue;
        if (htc__kv_unseal(change.value, change.key, &payload) != HTC_OK ||
            htc__kv_cell_read(payload, NULL, &cell) != HTC_OK)
            htc__sys_fail(s, "the store writes a record that it could not read");
        else if (!cell.deleted)
            htc__sys_committed(s, key, cell.value);
    }
}

/* A batch is written entirely or not at all: results first, then the chunk records that count on them. */
void htc__sys_store_durable(sys *s, htc_bytes batch)
{
    htc_status status = s->disk.ops->apply(s->disk.ctx, batch);
    if (status != HTC_OK)
        htc__sys_refused(s, status, "the disk does not take a batch");
    htc__sys_flows_stored(s, batch);
    tell(s, batch, 'r');
    tell(s, batch, 'c');
    tell(s, batch, 'j');
    tell_forgotten(s, batch);
}

static void durable(sys *s)
{
    s->commit.pending = 0;
    htc__sys_store_durable(s, htc_buf_bytes(&s->commit.batch));
}

/* Stored, and then told, unless the store ended in between. */
typedef struct sync {
    sys     *s;
    uint64_t incarnation, tag;
} sync;

static void synced(htc_sim *w, void *ctx)
{
    sync *y = ctx;
    sys  *s = y->s;
    if (htc_sim_incarnation(s->store) == y->incarnation && s->commit.pending && s->commit.tag == y->tag) {
        int full = htc_sim_now(w) < s->disk_full_until;
        if (full)
            s->commit.pending = 0;
        else
            durable(s);
        htc_sim_stored(s->store, 0, y->tag, full ? HTC_ENOSPC : HTC_OK);
    }
}

static htc_status commit(void *ctx, htc_sim_node *node, const htc_effect *effect)
{
    sys   *s = ctx;
    sync   y = { s, htc_sim_incarnation(node), effect->tag };
    htc_ns span = s->options.commit_ns + htc_rng_below(&s->rng_disk, s->options.commit_jitter_ns + 1);
    if (s->commit.pending)
        htc__sys_fail(s, "a second commit before the first was stored");
    s->commit.pending = 1;
    s->commit.tag = effect->tag;
    htc_buf_clear(&s->commit.batch);
    htc_put_raw(&s->commit.batch, effect->body);
    if (s->commit.batch.status != HTC_OK)
        htc__sys_no_memory(s);
    return htc_sim_at(s->w, htc_sim_now(s->w) + span, synced, &y, sizeof y);
}

static void ended(void *ctx, htc_sim_node *node, htc_status status, int crashed)
{
    sys *s = ctx;
    (void)node;
    if (!crashed)
        htc__sys_fail(s, "the store has ended: %s", htc_status_name(status));
    s->crashes++;
    s->disturbed_at = htc_sim_now(s->w);
    if (s->commit.pending && htc_rng_below(&s->rng_disk, 2))
        durable(s);
    s->commit.pending = 0;
}

static htc_status boot(void *ctx, htc_sim_node *node)
{
    sys                  *s = ctx;
    htc_kv_server_options o = { .size = sizeof o, .engine = s->disk };
    htc_kv_server        *server;
    htc_status            status = htc_kv_server_create(htc_sim_env(node), &o, &server);
    if (status != HTC_OK)
        return status;
    return htc_sim_install(node, htc_kv_server_ops(), server);
}

htc_sim_node *htc__sys_store_add(sys *s)
{
    static const htc_sim_host host = { .size = sizeof host, .boot = boot, .commit = commit, .ended = ended };
    htc_buf_init(&s->commit.batch, &s->env, 0);
    if (s->options.members)
        return htc__sys_members_add(s);
    if (htc_kv_memory_create(&s->env, &s->disk) != HTC_OK) {
        htc__sys_no_memory(s);
        return NULL;
    }
    return htc__sys_node(s, "store", &host, s, 0);
}

static int is_stored(htc_bytes key, htc_bytes value)
{
    htc__kv_cell cell;
    htc_bytes    payload;
    return htc__kv_unseal(value, key, &payload) == HTC_OK && htc__kv_cell_read(payload, NULL, &cell) == HTC_OK && !cell.deleted && !htc__sys_is_void(cell.value);
}

htc_status htc__sys_store_value(sys *s, const char *key, htc_bytes *value)
{
    char         name[128];
    htc__kv_cell cell;
    htc_bytes    stored, payload;
    snprintf(name, sizeof name, "k%s", key);
    htc_status status = s->disk.ops->get(s->disk.ctx, htc_bytes_of(name), &stored);
    if (status == HTC_OK)
        status = htc__kv_unseal(stored, htc_bytes_of(name), &payload);
    if (status == HTC_OK)
        status = htc__kv_cell_read(payload, NULL, &cell);
    if (status == HTC_OK && cell.deleted)
        status = HTC_ENOTFOUND;
    if (status == HTC_OK)
        *value = cell.value;
    return status;
}

static int count_job(void *ctx, htc_bytes key, htc_bytes value)
{
    *(uint64_t *)ctx += key.len > 3 && memcmp(key.data, "kj/", 3) == 0 && is_stored(key, value);
    return 1;
}

uint64_t htc__sys_store_jobs(sys *s)
{
    uint64_t n = 0;
    s->disk.ops->scan(s->disk.ctx, htc_bytes_of(NULL), count_job, &n);
    return n;
}

typedef struct left {
    uint64_t job;
    char     key[64];
} left;

/* Jobs count down in the keys of their own records. */
static int is_left(void *ctx, htc_bytes key, htc_bytes value)
{
    left              *l = ctx;
    char               text[64];
    unsigned long long id = 0;
    if (key.len < 3 || key.len >= sizeof text)
        return 1;
    memcpy(text, key.data, key.len);
    text[key.len] = '\0';
    if (text[0] != 'k' || text[2] != '/' || sscanf(text + 3, "%16llx", &id) != 1)
        return 1;
    id = text[1] == 'j' ? UINT64_MAX - id : id;
    if (id != l->job || !strchr("crsodjb", text[1]) || !is_stored(key, value))
        return 1;
    snprintf(l->key, sizeof l->key, "%s", text + 1);
    return 0;
}

const char *htc__sys_store_left(sys *s, uint64_t job)
{
    left l = { .job = job };
    s->disk.ops->scan(s->disk.ctx, htc_bytes_of(NULL), is_left, &l);
    memcpy(s->left, l.key, sizeof s->left);
    return s->left[0] ? s->left : NULL;
}

void htc__sys_store_close(sys *s)
{
    htc_buf_free(&s->commit.batch);
    htc__sys_members_close(s);
    if (s->disk.ops)
        s->disk.ops->destroy(s->disk.ctx);
}
