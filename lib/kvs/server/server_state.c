/* What a member keeps in its cells: records, clock and floor, tombstones. */
#include <assert.h>
#include <string.h>

#include "core/util.h"
#include "kvs/server/server.h"

#define STORE_FORMAT 2

uint64_t htc__kv_open(const htc_kv_server *s)
{
    return s->cells.ops->open(s->cells.ctx);
}

uint64_t htc__kv_stored(const htc_kv_server *s)
{
    return s->cells.ops->stored(s->cells.ctx);
}

size_t htc__kv_staged(const htc_kv_server *s)
{
    return s->cells.ops->staged(s->cells.ctx);
}

int htc__kv_in_flight(const htc_kv_server *s)
{
    return htc__kv_open(s) > htc__kv_stored(s) + 1;
}

int htc__kv_may_commit(const htc_kv_server *s)
{
    return s->cells.ops->may_commit ? s->cells.ops->may_commit(s->cells.ctx) : !htc__kv_in_flight(s);
}

/* A cell without its value; what joins a batch when it is closed. */
#define CELL_MAX  1024
#define CLOSE_MAX 2048

/* For each the cell, its lease before and now, its end, its place in the queue of tombstones. */
static size_t bytes_of(size_t changes, size_t keys, size_t values)
{
    size_t bare = htc__cells_cost(1, CELL_MAX) + 4 * htc__cells_cost(9, 0);
    return CLOSE_MAX + changes * bare + 9 * keys + values;
}

htc_status htc__kv_room_of(const htc_kv_server *s, size_t changes, size_t puts, size_t keys, size_t values)
{
    const htc__cells_ops *ops = s->cells.ops;
    size_t                bytes = bytes_of(changes, keys, values);
    if (puts && ops->room_to_grow)
        return ops->room_to_grow(s->cells.ctx, bytes);
    return ops->room ? ops->room(s->cells.ctx, bytes) : HTC_OK;
}

htc_status htc__kv_room(const htc_kv_server *s, size_t key, size_t value)
{
    return htc__kv_room_of(s, 1, 0, key, value);
}

htc_status htc__kv_room_to_grow(const htc_kv_server *s, size_t key, size_t value)
{
    return htc__kv_room_of(s, 1, 1, key, value);
}

static void touch(htc_kv_server *s, uint64_t batch)
{
    if (batch > s->touched)
        s->touched = batch;
}

htc_status htc__kv_read(htc_kv_server *s, htc_bytes name, htc_bytes *value)
{
    uint64_t   batch = 0;
    htc_status status = s->cells.ops->get(s->cells.ctx, name, value, &batch);
    touch(s, batch);
    return status;
}

htc_status htc__kv_scan(htc_kv_server *s, htc_bytes from, htc_kv_visit visit, void *visitor)
{
    uint64_t   batch = 0;
    htc_status status = s->cells.ops->scan(s->cells.ctx, from, visit, visitor, &batch);
    touch(s, batch);
    return status;
}

htc_status htc__kv_stage(htc_kv_server *s, htc_bytes name, htc_bytes value)
{
    touch(s, htc__kv_open(s));
    return s->cells.ops->put(s->cells.ctx, name, value);
}

htc_status htc__kv_stage_drop(htc_kv_server *s, htc_bytes name)
{
    touch(s, htc__kv_open(s));
    return s->cells.ops->drop(s->cells.ctx, name);
}

static htc__kv_floors floors_of(const htc_kv_server *s)
{
    return (htc__kv_floors){ .version = s->floor };
}

htc_status htc__kv_show(htc_kv_server *s, htc_bytes key, htc_bytes value, uint64_t client, htc__kv_cell *cell)
{
    htc__kv_floors floors = floors_of(s);
    htc_status     status = value.data ? htc__kv_cell_read_for(value, &floors, client, cell) : HTC_ECORRUPT;
    if (status != HTC_OK || !(cell->lease || cell->ttl))
        return status;
    if (cell->lease && htc__kv_lease_unknown(s, cell->lease))
        return HTC_ECORRUPT; /* is the key there? */
    /* A key exists only while its lease does, and until its end. */
    if ((cell->lease && !htc__kv_lease_alive(s, cell->lease)) || (cell->ttl && htc__kv_end_passed(s, key, cell))) {
        cell->deleted = 1;
        cell->value = (htc_bytes){ NULL, 0 };
    }
    return status;
}

htc_status htc__kv_load(htc_kv_server *s, htc_bytes key, uint64_t client, htc__kv_cell *cell)
{
    htc__kv_name name;
    htc_bytes    value;
    htc__kv_name_key(&name, key);
    htc_status status = htc__kv_read(s, htc__kv_name_bytes(&name), &value);
    if (status == HTC_ENOTFOUND) {
        htc__kv_floors floors = floors_of(s);
        *cell = htc__kv_cell_absent(&floors);
        return HTC_OK;
    }
    if (status == HTC_OK)
        status = htc__kv_show(s, key, value, client, cell);
    /* Gone is gone: the removal is staged before anybody is told. While nothing can be stored it is told all the same. */
    if (status != HTC_OK || !(cell->deleted && cell->ttl) || s->refuse != HTC_OK || htc__kv_room(s, key.len, 0) != HTC_OK)
        return status;
    status = htc__kv_end_carry_out(s, key);
    if (status == HTC_OK)
        status = htc__kv_read(s, htc__kv_name_bytes(&name), &value);
    return status == HTC_OK ? htc__kv_cell_read_for(value, NULL, client, cell) : status;
}

/* Also one that is only shown as deleted: then what it hung on is still there. */
static int exists(const htc__kv_cell *cell)
{
    return cell->present && (!cell->deleted || cell->lease || cell->ttl);
}

htc_status htc__kv_save(htc_kv_server *s, htc_bytes key, const htc__kv_cell *cell, const htc__kv_cell *old)
{
    htc__kv_name name;
    htc__kv_name_key(&name, key);
    htc_buf_clear(&s->scratch);
    htc__kv_cell_write(&s->scratch, cell);
    if (s->scratch.status != HTC_OK)
        return s->scratch.status;
    htc_status status = htc__kv_stage(s, htc__kv_name_bytes(&name), htc_buf_bytes(&s->scratch));
    if (status == HTC_OK && old->lease != cell->lease)
        status = htc__kv_lease_bind(s, key, old->lease, cell->lease);
    if (status == HTC_OK && (s->ends.count || cell->ttl))
        status = htc__kv_end_set(s, key, cell);
    s->keys += (uint64_t)(exists(cell) - exists(old));
    htc__kv_watches_changed(&s->native.watches, key);
    if (status != HTC_OK || !cell->deleted)
        return status;
    htc__kv_name queue = htc__kv_name_of(HTC__SCHEMA_TOMBSTONE, &cell->version, (htc_bytes){ NULL, 0 });
    s->tombstones++;
    return htc__kv_stage(s, htc__kv_name_bytes(&queue), key);
}

typedef struct oldest {
    htc__kv_name queue, key;
} oldest;

static int take_oldest(void *visitor, htc_bytes name, htc_bytes value)
{
    oldest *o = visitor;
    if (!htc__schema_is(name, HTC__SCHEMA_TOMBSTONE) || name.len != 9 || value.len > HTC_KV_KEY_MAX)
        return 0;
    if (!value.data)
        return 1; /* damaged: it stays, and so does the tombstone it was about */
    uint64_t version = htc__kv_name_number(name);
    o->queue = htc__kv_name_of(HTC__SCHEMA_TOMBSTONE, &version, (htc_bytes){ NULL, 0 });
    o->key = htc__kv_name_of(HTC__SCHEMA_CELL, NULL, value);
    return 0;
}

/* A tombstone that is collected leaves its version in the floor, so that no version of its key ever comes again and no
 * change that it had listed is applied anew. Two are taken for one that is added, until they are few enough. */
htc_status htc__kv_collect(htc_kv_server *s)
{
    for (int i = 0; i < 2 && s->tombstones > s->options.tombstones_max; i++) {
        oldest     o = { .queue.len = 0 };
        htc_bytes  value;
        htc_status status = htc__kv_scan(s, htc__schema_name(HTC__SCHEMA_TOMBSTONE), take_oldest, &o);
        if (status != HTC_OK || o.queue.len == 0)
            return status;
        uint64_t     version = htc__kv_name_number(htc__kv_name_bytes(&o.queue));
        htc__kv_cell cell;
        assert(s->tombstones > 0);
        s->tombstones--;
        if ((status = htc__kv_stage_drop(s, htc__kv_name_bytes(&o.queue))) != HTC_OK)
            return status;
        status = htc__kv_read(s, htc__kv_name_bytes(&o.key), &value);
        if (status == HTC_ENOTFOUND || status == HTC_ECORRUPT)
            continue;
        if (status != HTC_OK)
            return status;
        /* Created again since, or damaged: then that record is not ours to remove. */
        if (htc__kv_cell_read(value, NULL, &cell) != HTC_OK || !cell.deleted || cell.version != version)
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
    s->tombstones += htc__schema_is(name, HTC__SCHEMA_TOMBSTONE);
    return htc__schema_is(name, HTC__SCHEMA_TOMBSTONE);
}

static htc_status meta_load(htc_kv_server *s)
{
    htc_bytes  stored;
    htc_status status = htc__kv_read(s, htc__schema_name(HTC__SCHEMA_META), &stored);
    if (status != HTC_OK)
        return status == HTC_ENOTFOUND ? HTC_OK : status;
    htc_reader r = htc_reader_of(stored);
    uint8_t    format = htc_get_u8(&r);
    if (format != STORE_FORMAT) {
        htc__log(&s->env, HTC_LOG_ERROR, "the store has format %u, this program reads %u -> stop", format,
                 STORE_FORMAT);
        return HTC_EFORMAT;
    }
    s->clock = s->clock_flight = s->clock_stored = htc_get_varint(&r);
    s->floor = s->floor_stored = htc_get_varint(&r);
    s->keys = s->keys_stored = htc_get_varint(&r);
    return htc_reader_done(&r) == HTC_OK ? HTC_OK : HTC_ECORRUPT;
}

htc_status htc__kv_state_load(htc_kv_server *s)
{
    htc_status status = meta_load(s);
    if (status == HTC_OK)
        status = htc__kv_scan(s, htc__schema_name(HTC__SCHEMA_TOMBSTONE), count_tombstone, s);
    s->tombstones_flight = s->tombstones_stored = s->tombstones;
    if (status == HTC_OK)
        status = htc__kv_leases_load(s);
    return status == HTC_OK ? htc__kv_ends_load(s) : status;
}

htc_status htc__kv_batch_close(htc_kv_server *s)
{
    htc_bytes name = htc__schema_name(HTC__SCHEMA_META);
    htc_buf_clear(&s->scratch);
    htc_put_u8(&s->scratch, STORE_FORMAT);
    htc_put_varint(&s->scratch, s->clock);
    htc_put_varint(&s->scratch, s->floor);
    htc_put_varint(&s->scratch, s->keys);
    if (s->scratch.status != HTC_OK)
        return s->scratch.status;
    s->clock_flight = s->clock;
    s->tombstones_flight = s->tombstones;
    s->floor_flight = s->floor;
    s->keys_flight = s->keys;
    return s->cells.ops->put(s->cells.ctx, name, htc_buf_bytes(&s->scratch));
}

void htc__kv_batch_stored(htc_kv_server *s)
{
    s->clock_stored = s->clock_flight;
    s->floor_stored = s->floor_flight;
    s->keys_stored = s->keys_flight;
    s->tombstones_stored = s->tombstones_flight;
    htc__kv_ends_stored(s);
}

/* The clock only ever grows. */
htc_status htc__kv_batch_undone(htc_kv_server *s)
{
    s->floor = s->floor_stored;
    s->keys = s->keys_stored;
    s->tombstones = s->tombstones_stored;
    htc__kv_leases_undone(s);
    return htc__kv_ends_undone(s);
}
