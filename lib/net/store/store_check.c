/* A store that no member holds, looked at from outside: what is damaged, by file and place, and every key that can be read. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/util.h"
#include "htcsched/kv_store.h"
#include "kvs/cell.h"
#include "kvs/cells_heap.h"
#include "kvs/eventual.h"
#include "kvs/record.h"
#include "net/store/log_check.h"
#include "net/store/store_log.h"

typedef struct check {
    htc_kv_check_options o;
    htc_kv_check_found   found;
    htc_status           status; /* not HTC_OK: the reading cannot go on */
    htc__heap            heap;
    htc__siblings        siblings;
} check;

#define MEND "write the key again, or restore it from a backup; one of several members: let a new one take its place"

static void problem(check *c, htc_status status, const char *file, uint64_t offset, const char *text, const char *next)
{
    htc_kv_problem p = { .status = status, .file = file, .offset = offset, .text = text, .next = next };
    c->found.problems++;
    if (c->o.problem)
        c->o.problem(c->o.ctx, &p);
}

/* The user's key of a cell, and the eventual namespace that it is in, if it is. */
static htc_bytes key_of(htc_bytes name, htc_bytes *space)
{
    htc_bytes      key = { (const uint8_t *)name.data + 1, name.len - 1 };
    const uint8_t *end = *(const uint8_t *)name.data == 'n' ? memchr(key.data, 0, key.len) : NULL;
    *space = (htc_bytes){ NULL, 0 };
    if (end) {
        *space = (htc_bytes){ key.data, (size_t)(end - (const uint8_t *)key.data) };
        key = (htc_bytes){ end + 1, key.len - space->len - 1 };
    }
    return key;
}

/* before "KEY" after, or before "KEY" of namespace "SPACE" after */
static void lost(check *c, const char *file, const char *before, htc_bytes name, const char *after)
{
    char      text[240], where[64] = "";
    htc_bytes space, key = key_of(name, &space);
    if (space.len)
        snprintf(where, sizeof where, " of namespace \"%.*s\"", (int)(space.len < 40 ? space.len : 40), (const char *)space.data);
    snprintf(text, sizeof text, "%s \"%.*s\"%s %s", before, (int)(key.len < 100 ? key.len : 100), (const char *)key.data, where, after);
    htc__text_clean(text);
    c->found.lost++;
    problem(c, HTC_ECORRUPT, file, 0, text, MEND);
}

static int tell(check *c, const htc_kv_check_item *item)
{
    if (c->o.item)
        c->status = c->o.item(c->o.ctx, item);
    else if (c->o.record && !item->space.len)
        c->status = c->o.record(c->o.ctx, item->key, item->version, item->value);
    return c->status == HTC_OK;
}

/* One that is there as the members know it: bytes of a cell under 'k' and the user's key. What members keep there for themselves is nobody
 * else's: clients cannot write it, so that a dump with it could not be restored. */
static int show(check *c, htc_bytes name, htc_bytes value, const char *file)
{
    htc_kv_check_item item = { .version = 0 };
    htc__kv_cell      cell;
    if (((const uint8_t *)name.data)[0] != 'k')
        return 0;
    item.key = key_of(name, &item.space);
    if (!value.data || htc__kv_cell_read(value, NULL, &cell) != HTC_OK) {
        lost(c, file, "the record of", name, "is damaged");
        return 1;
    }
    if (!cell.present || cell.deleted || htc__kv_own_key(item.key))
        return 1;
    c->found.keys++;
    item.value = cell.value;
    item.version = cell.version;
    item.ttl = cell.ttl;
    item.lease = cell.lease;
    return tell(c, &item);
}

/* One of an eventual namespace: under 'n' the format, then siblings. */
static int show_siblings(check *c, htc_bytes name, htc_bytes value, const char *file)
{
    htc_kv_check_item item = { .version = 0 };
    int               there = 0;
    if (((const uint8_t *)name.data)[0] != 'n')
        return 0;
    item.key = key_of(name, &item.space);
    if (!item.space.len || !value.data || value.len < 2 || *(const uint8_t *)value.data != HTC__KV_EVENTUAL_FORMAT ||
        htc__siblings_read((htc_bytes){ (const uint8_t *)value.data + 1, value.len - 1 }, &c->siblings) != HTC_OK) {
        lost(c, file, "the record of", name, "is damaged");
        return 1;
    }
    for (uint32_t i = 0; i < c->siblings.values; i++) {
        if (c->siblings.value[i].deleted)
            continue;
        there = 1;
        item.value = c->siblings.value[i].value;
        if (!tell(c, &item))
            return 0;
    }
    c->found.eventual += there != 0;
    return 1;
}

/* ---------------------------------------------------------------- a log */

static htc_status log_record(void *ctx, const htc__log_record *r)
{
    check *c = ctx;
    if (r->kind == HTC__LOG_PUT)
        return htc__heap_put(&c->heap, r->key, r->value);
    if (r->kind == HTC__LOG_DROP) {
        htc__heap_drop(&c->heap, r->key);
        return HTC_OK;
    }
    return htc__heap_lose(&c->heap, r->key);
}

static void log_problem(void *ctx, htc_status status, const char *file, uint64_t offset, const char *text)
{
    problem(ctx, status, file, offset, text,
            status == HTC_EFORMAT ? "take the version of the program that wrote it"
                                  : "what was written there is lost, all else is read: htc kv dump saves it");
}

static int show_one(void *ctx, htc_bytes key, htc_bytes value)
{
    return !value.data || show(ctx, key, value, "log"); /* damaged: show_lost says so of all kinds of records */
}

static int show_one_eventual(void *ctx, htc_bytes key, htc_bytes value)
{
    return show_siblings(ctx, key, value, "log");
}

/* Those that only are known to be lost. */
static int show_lost(void *ctx, uint64_t top, htc_bytes key, htc_bytes value)
{
    (void)top;
    if (!value.data && value.len == SIZE_MAX)
        lost(ctx, "log", "the value of", key, "is lost, and nothing newer was written");
    return 1;
}

static htc_status check_log(check *c, htc_error *error)
{
    htc_disk_dir  *disk;
    htc__log_found found = { 0 };
    htc__log_sink  sink = { log_record, log_problem, c };
    htc_status     status = htc_disk_dir_open(c->o.dir, &disk, error);
    if (status != HTC_OK)
        return status;
    htc__heap_init(&c->heap, NULL, &(htc__heap_options){ .ordered = 1 });
    status = htc__log_check(disk, &sink, &found);
    c->found.segments = found.segments;
    c->found.batches = found.frames;
    c->found.end_offset = found.end_offset;
    snprintf(c->found.end_file, sizeof c->found.end_file, "log-%016llx", (unsigned long long)found.end_segment);
    if (status == HTC_OK || status == HTC_ECORRUPT || status == HTC_ENOTFOUND) {
        htc__heap_scan(&c->heap, htc_bytes_of("k"), show_one, c);
        if (c->status == HTC_OK)
            htc__heap_scan(&c->heap, htc_bytes_of("n"), show_one_eventual, c);
        htc__heap_walk_tops(&c->heap, 0, UINT64_MAX, show_lost, c);
        status = HTC_OK;
    } else if (status == HTC_EIO) {
        htc_disk_dir_failure(disk, error);
    } else {
        htc__error(error, status, "store %s: %s", c->o.dir, htc_strerror(status));
    }
    htc__heap_free(&c->heap);
    htc_disk_dir_close(disk);
    return status;
}

/* ---------------------------------------------------------------- LMDB */

static htc_bytes unsealed(check *c, htc_bytes key, htc_bytes value)
{
    if (htc__kv_unseal(value, key, &value) != HTC_OK)
        value = (htc_bytes){ NULL, 0 };
    c->found.batches++;
    return value;
}

static int show_sealed(void *ctx, htc_bytes key, htc_bytes value)
{
    return show(ctx, key, unsealed(ctx, key, value), "data.mdb");
}

static int show_sealed_eventual(void *ctx, htc_bytes key, htc_bytes value)
{
    return show_siblings(ctx, key, unsealed(ctx, key, value), "data.mdb");
}

static htc_status check_lmdb(check *c, htc_error *error)
{
    htc_kv_lmdb_options o = { .size = sizeof o, .dir = c->o.dir };
    htc_kv_engine       engine;
    htc_status          status = htc_kv_lmdb_open(NULL, &o, &engine, error);
    if (status == HTC_ECORRUPT) {
        problem(c, status, "data.mdb", 0, "LMDB cannot open it", "restore a backup into a new store");
        return HTC_OK;
    }
    if (status != HTC_OK)
        return status;
    status = engine.ops->scan(engine.ctx, htc_bytes_of("k"), show_sealed, c);
    if (status == HTC_OK && c->status == HTC_OK)
        status = engine.ops->scan(engine.ctx, htc_bytes_of("n"), show_sealed_eventual, c);
    engine.ops->destroy(engine.ctx);
    if (status != HTC_ECORRUPT)
        return status == HTC_OK ? HTC_OK : htc__error(error, status, "store %s: %s", c->o.dir, htc_strerror(status));
    problem(c, status, "data.mdb", 0, "LMDB cannot read on behind the last key shown", "htc kv dump saves those before, a backup has the others");
    return HTC_OK;
}

/* ---------------------------------------------------------------- both */

htc_status htc_kv_check(const htc_kv_check_options *options, htc_kv_check_found *found, htc_error *error)
{
    check c = { .status = HTC_OK };
    if (!options || !found || found->size < sizeof found->size)
        return htc__error(error, HTC_EINVAL, "no options");
    htc_status status =
        htc__options_copy(&c.o, sizeof c.o, options, options->size, offsetof(htc_kv_check_options, record));
    if (status == HTC_OK && (!c.o.dir || !c.o.dir[0]))
        status = HTC_EINVAL;
    if (status != HTC_OK)
        return htc__error(error, status, "%s", htc_strerror(status));
    c.found.engine = htc__store_engine_of(c.o.dir);
    switch (c.found.engine) {
    case HTC_KV_LOG:
        status = check_log(&c, error);
        break;
    case HTC_KV_LMDB:
        status = check_lmdb(&c, error);
        break;
    default:
        return htc__error(error, HTC_ENOTFOUND, "%s: there is no store", c.o.dir);
    }
    if (status == HTC_OK)
        status = c.status;
    size_t size = found->size;
    memcpy(found, &c.found, size < sizeof c.found ? size : sizeof c.found);
    found->size = size;
    return status;
}
