/* A store that no member holds, looked at from outside: what is damaged, by file and place, and every key that can be read. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/util.h"
#include "htcsched/kv_store.h"
#include "kvs/cell.h"
#include "kvs/cells_heap.h"
#include "kvs/record.h"
#include "net/store/log_check.h"
#include "net/store/store_log.h"

typedef struct check {
    htc_kv_check_options o;
    htc_kv_check_found   found;
    htc_status           status; /* not HTC_OK: the reading cannot go on */
    htc__heap            heap;
} check;

#define MEND "write the key again, or restore it from a backup; one of several members: let a new one take its place"

static void problem(check *c, htc_status status, const char *file, uint64_t offset, const char *text, const char *next)
{
    htc_kv_problem p = { .status = status, .file = file, .offset = offset, .text = text, .next = next };
    c->found.problems++;
    if (c->o.problem)
        c->o.problem(c->o.ctx, &p);
}

/* One that is there as the members know it: bytes of a cell under 'k' and the user's key. */
static int show(check *c, htc_bytes name, htc_bytes value, const char *file)
{
    htc_bytes    key = { (const uint8_t *)name.data + 1, name.len - 1 };
    htc__kv_cell cell;
    char         text[160];
    if (((const uint8_t *)name.data)[0] != 'k')
        return 0;
    if (!value.data || htc__kv_cell_read(value, NULL, &cell) != HTC_OK) {
        snprintf(text, sizeof text, "the record of \"%.*s\" is damaged", (int)(key.len < 100 ? key.len : 100), (const char *)key.data);
        htc__text_clean(text);
        c->found.lost++;
        problem(c, HTC_ECORRUPT, file, 0, text, MEND);
        return 1;
    }
    if (!cell.present || cell.deleted)
        return 1;
    c->found.keys++;
    if (c->o.record)
        c->status = c->o.record(c->o.ctx, key, cell.version, cell.value);
    return c->status == HTC_OK;
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

/* Those that only are known to be lost. */
static int show_lost(void *ctx, uint64_t top, htc_bytes key, htc_bytes value)
{
    check *c = ctx;
    char   text[160];
    (void)top;
    if (value.data || value.len != SIZE_MAX)
        return 1;
    c->found.lost++;
    snprintf(text, sizeof text, "the value of \"%.*s\" is lost, and nothing newer was written", (int)(key.len < 101 ? key.len - 1 : 100), (const char *)key.data + 1);
    htc__text_clean(text);
    problem(c, HTC_ECORRUPT, "log", 0, text, MEND);
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

static int show_sealed(void *ctx, htc_bytes key, htc_bytes value)
{
    check *c = ctx;
    if (htc__kv_unseal(value, key, &value) != HTC_OK)
        value = (htc_bytes){ NULL, 0 };
    c->found.batches++;
    return show(c, key, value, "data.mdb");
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
