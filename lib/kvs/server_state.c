/* What is staged, over what the engine has. */
#include <string.h>

#include "core/util.h"
#include "kvs/batch.h"
#include "kvs/server.h"

#define STORE_FORMAT 1

typedef struct staged {
    uint64_t batch;
    uint64_t drop;
} staged; /* then the value */

htc__kv_name htc__kv_name_of(char kind, const uint64_t *number, htc_bytes key)
{
    htc__kv_name name = { .len = 1 };
    name.data[0] = (uint8_t)kind;
    for (int shift = 56; number && shift >= 0; shift -= 8)
        name.data[name.len++] = (uint8_t)(*number >> shift);
    if (key.len)
        memcpy(name.data + name.len, key.data, key.len);
    name.len += key.len;
    return name;
}

htc_bytes htc__kv_name_bytes(const htc__kv_name *name)
{
    return (htc_bytes){ name->data, name->len };
}

uint64_t htc__kv_name_number(htc_bytes name)
{
    uint64_t v = 0;
    for (size_t i = 1; name.len >= 9 && i < 9; i++)
        v = v << 8 | ((const uint8_t *)name.data)[i];
    return v;
}

static void touch(htc_kv_server *s, uint64_t batch)
{
    if (batch > s->touched)
        s->touched = batch;
}

static htc_bytes staged_value(const htc__node *node)
{
    return (htc_bytes){ (uint8_t *)htc__node_value(node) + sizeof(staged), node->value_len - sizeof(staged) };
}

htc_status htc__kv_read(htc_kv_server *s, htc_bytes name, htc_bytes *value)
{
    htc__node *node = htc__table_find(&s->overlay, name);
    if (!node)
        return s->options.engine.ops->get(s->options.engine.ctx, name, value);
    const staged *entry = htc__node_value(node);
    touch(s, entry->batch);
    if (entry->drop)
        return HTC_ENOTFOUND;
    *value = staged_value(node);
    return HTC_OK;
}

typedef struct merge {
    htc_kv_server *s;
    htc__node     *node; /* next of the overlay */
    htc_kv_visit   visit;
    void          *visitor;
    int            ended;
} merge;

static int visit_staged(merge *m)
{
    const staged *entry = htc__node_value(m->node);
    htc__node    *node = m->node;
    touch(m->s, entry->batch);
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
    if (!m->visit(m->visitor, key, value))
        m->ended = 1;
    return !m->ended;
}

htc_status htc__kv_scan(htc_kv_server *s, htc_bytes from, htc_kv_visit visit, void *visitor)
{
    merge      m = { s, htc__table_seek(&s->overlay, from), visit, visitor, 0 };
    htc_status status = s->options.engine.ops->scan(s->options.engine.ctx, from, visit_committed, &m);
    while (status == HTC_OK && !m.ended && m.node)
        visit_staged(&m);
    return status;
}

static htc_status stage(htc_kv_server *s, htc_bytes name, htc_bytes value, uint64_t drop)
{
    htc__node *node = htc__table_make(&s->overlay, name, sizeof(staged) + value.len);
    if (!node)
        return HTC_ENOMEM;
    staged *entry = htc__node_value(node);
    *entry = (staged){ s->open, drop };
    if (value.len)
        memcpy(entry + 1, value.data, value.len);
    htc__table_link(&s->overlay, node);
    touch(s, s->open);
    s->staged++;
    s->staged_bytes += name.len + value.len + 16;
    return HTC_OK;
}

htc_status htc__kv_stage(htc_kv_server *s, htc_bytes name, htc_bytes value)
{
    return stage(s, name, value, 0);
}

htc_status htc__kv_stage_drop(htc_kv_server *s, htc_bytes name)
{
    return stage(s, name, (htc_bytes){ NULL, 0 }, 1);
}

htc_status htc__kv_load(htc_kv_server *s, htc_bytes key, htc__kv_record *record)
{
    htc__kv_name name = htc__kv_name_of('k', NULL, key);
    htc_bytes    value;
    htc_status   status = htc__kv_read(s, htc__kv_name_bytes(&name), &value);
    if (status == HTC_ENOTFOUND) {
        record->deleted = 1;
        record->count = 0;
        record->version = record->forgot = s->floor;
        record->lease = 0;
        record->value = (htc_bytes){ NULL, 0 };
        return HTC_OK;
    }
    if (status != HTC_OK)
        return status;
    status = htc__kv_record_read(value, key, record);
    /* A key exists only while its lease does; removing it later only frees memory. */
    if (status == HTC_OK && !record->deleted && record->lease && !htc__kv_lease_alive(s, record->lease)) {
        record->deleted = 1;
        record->value = (htc_bytes){ NULL, 0 };
    }
    return status;
}

htc_status htc__kv_save(htc_kv_server *s, htc_bytes key, const htc__kv_record *record)
{
    htc__kv_name name = htc__kv_name_of('k', NULL, key);
    htc_buf_clear(&s->scratch);
    htc__kv_record_write(&s->scratch, key, record);
    if (s->scratch.status != HTC_OK)
        return s->scratch.status;
    htc_status status = htc__kv_stage(s, htc__kv_name_bytes(&name), htc_buf_bytes(&s->scratch));
    if (status != HTC_OK || !record->deleted)
        return status;
    htc__kv_name queue = htc__kv_name_of('t', &record->version, (htc_bytes){ NULL, 0 });
    s->tombstones++;
    return htc__kv_stage(s, htc__kv_name_bytes(&queue), key);
}

typedef struct oldest {
    htc__kv_name queue, key;
} oldest;

static int take_oldest(void *visitor, htc_bytes name, htc_bytes value)
{
    oldest *o = visitor;
    if (((const uint8_t *)name.data)[0] != 't' || name.len != 9 || value.len > HTC_KV_KEY_MAX)
        return 0;
    uint64_t version = htc__kv_name_number(name);
    o->queue = htc__kv_name_of('t', &version, (htc_bytes){ NULL, 0 });
    o->key = htc__kv_name_of('k', NULL, value);
    return 0;
}

/* A tombstone that is collected leaves its version in the floor, so that no version of its key ever comes again and no
 * change that it had listed is applied anew. Two are taken for one that is added, until they are few enough. */
htc_status htc__kv_collect(htc_kv_server *s)
{
    for (int i = 0; i < 2 && s->tombstones > s->options.tombstones_max; i++) {
        oldest     o = { .queue.len = 0 };
        htc_bytes  value;
        htc_status status = htc__kv_scan(s, htc_bytes_of("t"), take_oldest, &o);
        if (status != HTC_OK || o.queue.len == 0)
            return status;
        uint64_t       version = htc__kv_name_number(htc__kv_name_bytes(&o.queue));
        htc_bytes      key = { o.key.data + 1, o.key.len - 1 };
        htc__kv_record record;
        s->tombstones--;
        if ((status = htc__kv_stage_drop(s, htc__kv_name_bytes(&o.queue))) != HTC_OK)
            return status;
        status = htc__kv_read(s, htc__kv_name_bytes(&o.key), &value);
        if (status == HTC_ENOTFOUND)
            continue;
        if (status != HTC_OK)
            return status;
        /* Created again since, or damaged: then that record is not ours to remove. */
        if (htc__kv_record_read(value, key, &record) != HTC_OK || !record.deleted || record.version != version)
            continue;
        if (version > s->floor)
            s->floor = version;
        if ((status = htc__kv_stage_drop(s, htc__kv_name_bytes(&o.key))) != HTC_OK)
            return status;
    }
    return HTC_OK;
}

static int count_tombstone(void *visitor, htc_bytes name, htc_bytes value)
{
    htc_kv_server *s = visitor;
    (void)value;
    s->tombstones += ((const uint8_t *)name.data)[0] == 't';
    return ((const uint8_t *)name.data)[0] == 't';
}

static htc_status meta_load(htc_kv_server *s)
{
    htc_bytes  sealed, payload, name = htc_bytes_of("m");
    htc_status status = htc__kv_read(s, name, &sealed);
    if (status != HTC_OK)
        return status == HTC_ENOTFOUND ? HTC_OK : status;
    if (htc__kv_unseal(sealed, name, &payload) != HTC_OK)
        return HTC_ECORRUPT;
    htc_reader r = htc_reader_of(payload);
    uint8_t    format = htc_get_u8(&r);
    if (format != STORE_FORMAT)
        return HTC_EFORMAT;
    s->clock = s->clock_flight = s->clock_stored = htc_get_varint(&r);
    s->floor = s->floor_stored = htc_get_varint(&r);
    return htc_reader_done(&r) == HTC_OK ? HTC_OK : HTC_ECORRUPT;
}

htc_status htc__kv_state_load(htc_kv_server *s)
{
    htc_status status = meta_load(s);
    if (status == HTC_OK)
        status = htc__kv_scan(s, htc_bytes_of("t"), count_tombstone, s);
    s->tombstones_flight = s->tombstones_stored = s->tombstones;
    return status == HTC_OK ? htc__kv_leases_load(s) : status;
}

htc_status htc__kv_batch_close(htc_kv_server *s)
{
    htc_bytes name = htc_bytes_of("m");
    htc_buf_clear(&s->scratch);
    htc_put_u8(&s->scratch, STORE_FORMAT);
    htc_put_varint(&s->scratch, s->clock);
    htc_put_varint(&s->scratch, s->floor);
    htc__kv_seal(&s->scratch, name, 0);
    htc_buf_clear(&s->body);
    htc__kv_batch_put(&s->body, name, htc_buf_bytes(&s->scratch));
    /* No commit is in flight: what is in the overlay is this batch and nothing else. */
    for (htc__node *node = s->overlay.head[0]; node; node = node->next[0]) {
        const staged *entry = htc__node_value(node);
        if (entry->drop)
            htc__kv_batch_drop(&s->body, htc__node_key(node));
        else
            htc__kv_batch_put(&s->body, htc__node_key(node), staged_value(node));
    }
    if (s->scratch.status != HTC_OK || s->body.status != HTC_OK)
        return s->scratch.status != HTC_OK ? s->scratch.status : s->body.status;
    s->clock_flight = s->clock;
    s->tombstones_flight = s->tombstones;
    s->floor_flight = s->floor;
    s->staged = s->staged_bytes = 0;
    s->open++;
    s->in_flight = 1;
    return HTC_OK;
}

void htc__kv_batch_stored(htc_kv_server *s)
{
    s->in_flight = 0;
    s->clock_stored = s->clock_flight;
    s->floor_stored = s->floor_flight;
    s->tombstones_stored = s->tombstones_flight;
    if (s->staged == 0) {
        htc__table_free(&s->overlay);
    } else {
        for (htc__node *node = s->overlay.head[0], *next; node; node = next) {
            next = node->next[0];
            if (((const staged *)htc__node_value(node))->batch < s->open)
                htc__table_remove(&s->overlay, htc__node_key(node));
        }
    }
    htc__kv_leases_stored(s);
}

/* What was staged after the failed batch was built on it: all of it goes. The clock only ever grows. */
void htc__kv_batch_undone(htc_kv_server *s)
{
    s->in_flight = 0;
    s->staged = s->staged_bytes = 0;
    s->floor = s->floor_stored;
    s->tombstones = s->tombstones_stored;
    htc__table_free(&s->overlay);
    htc__kv_leases_undone(s);
    s->open++;
}
