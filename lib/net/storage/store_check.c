/* A store that no member holds, looked at from outside: what is damaged, by file and place, and every key that can be read. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/util.h"
#include "htcsched/kv_store.h"
#include "kvs/cell/cell.h"
#include "kvs/cell/record.h"
#include "kvs/cell/siblings.h"
#include "kvs/storage/cells_heap.h"
#include "kvs/storage/schema.h"
#include "net/storage/lmdb.h"
#include "net/storage/log_check.h"
#include "net/storage/store_log.h"

typedef struct check {
    htc_kv_check_options o;
    htc_kv_check_found   found;
    htc_status           status; /* not HTC_OK: the reading cannot go on */
    htc__heap            heap;
    htc__heap            places; /* of a log: by name, where its newest damaged record is */
    htc_buf              held;   /* problems of a log that wait until all is read */
    int                  several; /* it is a member's, and others may have the same keys */
    htc__siblings        siblings;
} check;

#define DATA_NAME "data.mdb"

/* A damaged key is refused to who would write it, too: nobody knows what was promised of it. */
#define AFRESH "htc kv dump DIR FILE saves all other keys: restore FILE into an empty --dir"

static const char *mend(const check *c)
{
    return c->several ? "start it: a member takes this from the other owners by itself, and logs 'bucket N is renewed'; where it is the only one: " AFRESH
                      : AFRESH ", then this key from a backup";
}

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
    const uint8_t *end = htc__schema_is(name, HTC__SCHEMA_SIBLINGS) ? memchr(key.data, 0, key.len) : NULL;
    *space = (htc_bytes){ NULL, 0 };
    if (end) {
        *space = (htc_bytes){ key.data, (size_t)(end - (const uint8_t *)key.data) };
        key = (htc_bytes){ end + 1, key.len - space->len - 1 };
    }
    return key;
}

/* before "KEY" after, or before "KEY" of namespace "SPACE" after */
static void put_text(char *text, size_t cap, const char *before, htc_bytes name, const char *after)
{
    char      where[64] = "";
    htc_bytes space, key = key_of(name, &space);
    if (space.len)
        snprintf(where, sizeof where, " of namespace \"%.*s\"", (int)(space.len < 40 ? space.len : 40), (const char *)space.data);
    int letter = *(const uint8_t *)name.data;
    if (letter == HTC__SCHEMA_SIBLINGS || (letter == HTC__SCHEMA_CELL && !htc__kv_own_key(key)))
        snprintf(text, cap, "%s \"%.*s\"%s %s", before, (int)(key.len < 100 ? key.len : 100), (const char *)key.data, where, after);
    else
        snprintf(text, cap, "%s what the store keeps for itself (%c) %s", before, letter, after);
    htc__text_clean(text);
}

/* offset 0: the place is not known */
static void lost(check *c, const char *file, uint64_t offset, const char *before, htc_bytes name, const char *after)
{
    char text[240];
    put_text(text, sizeof text, before, name, after);
    c->found.lost++;
    problem(c, HTC_ECORRUPT, file, offset, text, mend(c));
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
    if (!htc__schema_is(name, HTC__SCHEMA_CELL))
        return 0;
    item.key = key_of(name, &item.space);
    if (!value.data || htc__kv_cell_read(value, NULL, &cell) != HTC_OK) {
        lost(c, file, 0, "the record of", name, "is damaged");
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
    if (!htc__schema_is(name, HTC__SCHEMA_SIBLINGS))
        return 0;
    item.key = key_of(name, &item.space);
    if (!item.space.len || !value.data || value.len < 2 || *(const uint8_t *)value.data != HTC__SCHEMA_SIBLINGS_FORMAT ||
        htc__siblings_read((htc_bytes){ (const uint8_t *)value.data + 1, value.len - 1 }, &c->siblings) != HTC_OK) {
        lost(c, file, 0, "the record of", name, "is damaged");
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

/* What is to be done depends on what is read behind it. */
static void log_problem(void *ctx, htc_status status, const char *file, uint64_t offset, const char *text)
{
    check *c = ctx;
    htc_put_u32(&c->held, (uint32_t)status);
    htc_put_u64(&c->held, offset);
    htc_put_bytes(&c->held, (htc_bytes){ file, strlen(file) + 1 });
    htc_put_bytes(&c->held, (htc_bytes){ text, strlen(text) + 1 });
}

static htc_status log_damaged(void *ctx, const htc__log_record *r, const char *file, uint64_t offset)
{
    check     *c = ctx;
    htc_bytes  before;
    char       text[240];
    uint8_t    place[8 + HTC__LOG_NAME] = { 0 };
    htc_status status = htc__heap_get(&c->places, r->key, &before);
    if (status == HTC_OK) {
        put_text(text, sizeof text, "an older value of", r->key, "is damaged");
        log_problem(c, HTC_MISMATCH, (const char *)before.data + 8, htc__le64_get(before.data), text);
    } else if (status != HTC_ENOTFOUND) {
        return status;
    }
    htc__le64_put(place, offset);
    snprintf((char *)place + 8, HTC__LOG_NAME, "%s", file);
    return htc__heap_put(&c->places, r->key, (htc_bytes){ place, sizeof place });
}

static int is_super(const char *file)
{
    char first[HTC__LOG_NAME], second[HTC__LOG_NAME];
    htc__log_super_name(0, first);
    htc__log_super_name(1, second);
    return strcmp(first, file) == 0 || strcmp(second, file) == 0;
}

#define NOTHING_LOST "nothing is lost; look after the disk"

static const char *next_step(const check *c, htc_status status, const char *file)
{
    if (status == HTC_EFORMAT)
        return "take the version of the program that wrote it";
    if (status == HTC_MISMATCH) /* superseded */
        return "the newer one counts; look after the disk";
    if (status == HTC_OK)
        return NOTHING_LOST;
    if (is_super(file))
        return c->found.batches ? "htc kv dump DIR FILE saves what can be read without it: restore FILE into an empty --dir" : "restore a backup into an empty --dir";
    return c->several ? "what was written there is lost: start it: a member takes all from the other owners by itself; where it is the only one: " AFRESH
                      : "what was written there is lost: " AFRESH;
}

static htc_status tell_held(check *c)
{
    htc_reader r = htc_reader_of(htc_buf_bytes(&c->held));
    while (htc_reader_left(&r) > 0) {
        htc_status  status = (htc_status)(int32_t)htc_get_u32(&r);
        uint64_t    offset = htc_get_u64(&r);
        const char *file = htc_get_bytes(&r).data, *text = htc_get_bytes(&r).data;
        if (r.status != HTC_OK) /* there was no room for more of them */
            break;
        problem(c, status == HTC_MISMATCH || status == HTC_OK ? HTC_ECORRUPT : status, file, offset, text, next_step(c, status, file));
    }
    return c->held.status == HTC_ENOMEM ? HTC_ENOMEM : HTC_OK;
}

/* Where the newest record of a key is damaged, or the newest that is: then all depends on what was written behind it. */
static int show_damaged(void *ctx, htc_bytes key, htc_bytes place)
{
    check      *c = ctx;
    char        text[240];
    htc_bytes   value;
    const char *file = (const char *)place.data + 8;
    uint64_t    offset = htc__le64_get(place.data);
    htc_status  status = htc__heap_get(&c->heap, key, &value);
    if (status == HTC_ECORRUPT) {
        lost(c, file, offset, "the value of", key, "is damaged, and nothing newer was written");
        return 1;
    }
    put_text(text, sizeof text, "an older value of", key, status == HTC_OK ? "is damaged; a newer one is whole" : "is damaged; it was removed since");
    problem(c, HTC_ECORRUPT, file, offset, text, NOTHING_LOST);
    return 1;
}

static int show_one(void *ctx, htc_bytes key, htc_bytes value)
{
    return !value.data || show(ctx, key, value, "log"); /* damaged: show_lost says so of all kinds of records */
}

static int show_one_eventual(void *ctx, htc_bytes key, htc_bytes value)
{
    return show_siblings(ctx, key, value, "log");
}

/* Those that only are known to be lost: the damage itself went with its segment. */
static int show_lost(void *ctx, uint64_t top, htc_bytes key, htc_bytes value)
{
    check *c = ctx;
    (void)top;
    if (!value.data && value.len == SIZE_MAX && htc__heap_get(&c->places, key, &value) == HTC_ENOTFOUND)
        lost(c, "log", 0, "the value of", key, "is lost, and nothing newer was written");
    return 1;
}

/* All is read: what is there, and what of it is wrong. */
static htc_status show_log(check *c)
{
    htc_bytes  value;
    c->several = htc__heap_get(&c->heap, htc__schema_name(HTC__SCHEMA_IDENTITY), &value) != HTC_ENOTFOUND;
    htc_status status = tell_held(c);
    if (status != HTC_OK)
        return status;
    htc__heap_scan(&c->places, (htc_bytes){ NULL, 0 }, show_damaged, c);
    htc__heap_scan(&c->heap, htc__schema_name(HTC__SCHEMA_CELL), show_one, c);
    if (c->status == HTC_OK)
        htc__heap_scan(&c->heap, htc__schema_name(HTC__SCHEMA_SIBLINGS), show_one_eventual, c);
    htc__heap_walk_tops(&c->heap, 0, UINT64_MAX, show_lost, c);
    return HTC_OK;
}

static htc_status check_log(check *c, htc_error *error)
{
    htc_disk_dir  *disk;
    htc__log_found found = { 0 };
    htc__log_sink  sink = { log_record, log_problem, c, log_damaged };
    htc_status     status = htc_disk_dir_open(c->o.dir, &disk, error);
    if (status != HTC_OK)
        return status;
    htc__heap_init(&c->heap, NULL, &(htc__heap_options){ .ordered = 1 });
    htc__heap_init(&c->places, NULL, &(htc__heap_options){ .ordered = 1 });
    htc_buf_init(&c->held, NULL, 0);
    status = htc__log_check(disk, &sink, &found);
    c->found.segments = found.segments;
    c->found.batches = found.frames;
    c->found.end_offset = found.end_offset;
    snprintf(c->found.end_file, sizeof c->found.end_file, "log-%016llx", (unsigned long long)found.end_segment);
    if (status == HTC_OK || status == HTC_ECORRUPT || status == HTC_ENOTFOUND) {
        status = show_log(c);
    } else {
        (void)tell_held(c); /* what was met before the end of the reading */
        if (status == HTC_EIO)
            htc_disk_dir_failure(disk, error);
        else
            htc__error(error, status, "store %s: %s", c->o.dir, htc_strerror(status));
    }
    htc__heap_free(&c->heap);
    htc__heap_free(&c->places);
    htc_buf_free(&c->held);
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

/* LMDB's own records have no seal; what the store keeps for itself is only looked at. */
static int show_sealed(void *ctx, htc_bytes key, htc_bytes value)
{
    check *c = ctx;
    char   kind = key.len ? ((const char *)key.data)[0] : HTC__SCHEMA_FORMAT;
    if (kind == HTC__SCHEMA_FORMAT)
        return 1;
    value = unsealed(c, key, value);
    if (kind == HTC__SCHEMA_CELL)
        return show(c, key, value, DATA_NAME);
    if (kind == HTC__SCHEMA_SIBLINGS)
        return show_siblings(c, key, value, DATA_NAME);
    if (!value.data)
        lost(c, DATA_NAME, 0, "the record of", key, "is damaged");
    return 1;
}

#define INDEX_NEXT "htc kv dump DIR FILE saves those that can be read, a backup has the others"

/* What the index says there is, and what is found by it. */
static void tell_walked(check *c, const htc__lmdb_walked *w)
{
    char text[200];
    if (w->seen != w->counted) {
        snprintf(text, sizeof text, "LMDB counts %llu record%s, and %llu can be reached: its index is damaged", (unsigned long long)w->counted,
                 htc__plural(w->counted), (unsigned long long)w->seen);
        c->found.lost += w->counted > w->seen ? w->counted - w->seen : 0;
        problem(c, HTC_ECORRUPT, DATA_NAME, 0, text, INDEX_NEXT);
    }
    if (w->astray) {
        snprintf(text, sizeof text, "%llu record%s %s not where LMDB looks: its index is damaged", (unsigned long long)w->astray, htc__plural(w->astray), htc__are(w->astray));
        problem(c, HTC_ECORRUPT, DATA_NAME, 0, text, INDEX_NEXT);
    }
    if (w->free_seen != w->free_counted) {
        snprintf(text, sizeof text, "LMDB's list of free pages has %llu entr%s, and %llu can be reached: a change may overwrite what is stored",
                 (unsigned long long)w->free_counted, w->free_counted == 1 ? "y" : "ies", (unsigned long long)w->free_seen);
        problem(c, HTC_ECORRUPT, DATA_NAME, 0, text, "htc kv dump DIR FILE saves all keys: restore FILE into an empty --dir");
    }
}

static htc_status check_lmdb(check *c, htc_error *error)
{
    htc_kv_lmdb_options o = { .size = sizeof o, .dir = c->o.dir };
    htc_kv_engine       engine;
    htc_status          status = htc_kv_lmdb_open(NULL, &o, &engine, error);
    if (status == HTC_ECORRUPT) {
        problem(c, status, DATA_NAME, 0, "LMDB cannot open it", "restore a backup into an empty --dir");
        return HTC_OK;
    }
    if (status != HTC_OK)
        return status;
    htc_bytes        value;
    htc__lmdb_walked walked = { 0 };
    c->several = engine.ops->get(engine.ctx, htc__schema_name(HTC__SCHEMA_IDENTITY), &value) != HTC_ENOTFOUND;
    status = htc__lmdb_walk(&engine, show_sealed, c, &walked);
    if (status == HTC_OK && c->status == HTC_OK)
        tell_walked(c, &walked);
    engine.ops->destroy(engine.ctx);
    if (status != HTC_ECORRUPT)
        return status == HTC_OK ? HTC_OK : htc__error(error, status, "store %s: %s", c->o.dir, htc_strerror(status));
    c->found.lost += walked.counted > walked.seen ? walked.counted - walked.seen : 0;
    problem(c, status, DATA_NAME, 0, "LMDB cannot read on behind the last key shown", "htc kv dump DIR FILE saves those before, a backup has the others");
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
