#include "kvs/storage/log.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "core/util.h"
#include "kvs/storage/log_private.h"
#include "kvs/util/place.h"

#define SEGMENT_MIN ((uint64_t)8 << 10)
#define SPARE_AGAIN HTC_SECOND
#define COPY_EACH   HTC_MS

enum { HELD_COPY = 1, HELD_CHANGES }; /* what waits for the next segment: a piece of the table alone, or changes too */

htc_status htc__wal_fail(htc__wal *l, htc_status status, const char *file, const char *text)
{
    if (l->options.problem)
        l->options.problem(l->options.problem_ctx, status, file, 0, text);
    else
        htc__log_with(&l->env, HTC_LOG_ERROR, HTC__FIELDS(HTC__TEXT("file", file), HTC__STATUS(status)),
                      "log: %s: %s -> this member ends (%s)", file, text, htc_status_name(status));
    l->state = LOG_ENDED;
    return status;
}

static htc_status fail_at(htc__wal *l, uint64_t segment, const char *text)
{
    char name[HTC__LOG_NAME];
    htc__log_segment_name(segment, name);
    return htc__wal_fail(l, HTC_EIO, name, text);
}

static uint64_t in_use(const htc__wal *l)
{
    return l->segments_count ? l->segments[l->segments_count - 1].number : l->spare;
}

htc_status htc__wal_ask(htc__wal *l, log_call call, const htc_disk_request *q, htc_output *out)
{
    uint8_t    body[HTC_DISK_HEAD_MAX + HTC__LOG_SECTOR];
    size_t     n = htc_disk_encode(q, body, sizeof body);
    uint64_t   tag = (l->calls + 1) << 8 | (uint64_t)call;
    htc_effect e = { .kind = HTC_OUT_CALL, .op = q->op, .tag = tag, .body = { body, n } };
    htc_status status = htc_output_add(out, &e);
    if (status != HTC_OK)
        return status;
    l->calls++;
    l->tags[call] = tag;
    return HTC_OK;
}

/* ---------------------------------------------------------------- reading and changing */

/* Of the key that the table was asked for last. */
static uint64_t mark_of(const htc__wal *l)
{
    return htc__heap_place(&l->heap) & 0xffff;
}

static int marked(const log_marks *m, uint64_t mark)
{
    return m->bits[mark >> 6] >> (mark & 63) & 1;
}

static htc_status log_get(void *ctx, htc_bytes key, htc_bytes *value, uint64_t *batch)
{
    htc__wal  *l = ctx;
    htc_status status = htc__heap_get(&l->heap, key, value);
    uint64_t   mark = mark_of(l);
    *batch = marked(&l->marks_open, mark)                        ? l->batch
             : l->batch_flying && marked(&l->marks_flying, mark) ? l->batch_flying
                                                                 : 0;
    return status;
}

static uint64_t newest(const htc__wal *l)
{
    return l->frame_count ? l->batch : l->batch_flying;
}

static htc_status log_scan(void *ctx, htc_bytes from, htc_kv_visit visit, void *visitor, uint64_t *batch)
{
    htc__wal *l = ctx;
    *batch = newest(l);
    return htc__heap_scan(&l->heap, from, visit, visitor);
}

static htc_status log_walk(void *ctx, uint64_t from, uint64_t to, htc_kv_visit visit, void *visitor, uint64_t *batch)
{
    htc__wal *l = ctx;
    *batch = newest(l);
    return htc__heap_walk(&l->heap, from, to, visit, visitor);
}

static uint64_t log_place(const void *ctx, htc_bytes key)
{
    return htc__kv_place(((const htc__wal *)ctx)->heap.seed, key);
}

static void log_hint(void *ctx, const htc_bytes *keys, size_t n)
{
    htc__wal *l = ctx;
    htc__heap_hint(&l->heap, keys, n);
}

static uint64_t frame_max(const htc__wal *l)
{
    uint64_t disk = HTC_DISK_WRITE_MAX - HTC__LOG_SECTOR, segment = l->options.segment_bytes - HTC__LOG_SECTOR;
    return segment < disk ? segment : disk;
}

static uint64_t room_here(const htc__wal *l)
{
    return l->length > l->offset ? l->length - l->offset : 0;
}

/* For the open frame: what the segment in use has left, or else a new one. */
uint64_t htc__wal_room(const htc__wal *l)
{
    uint64_t here = room_here(l), most = frame_max(l);
    return l->spare || here > most ? most : here;
}

/* For so many bytes of records more. */
static htc_status log_room(const void *ctx, size_t length)
{
    const htc__wal *l = ctx;
    uint64_t        size = htc__log_frame_size(l->frame.len - LOG_FRONT + length);
    if (l->state != LOG_READY)
        return l->state == LOG_ENDED ? HTC_EIO : HTC_EBUSY;
    if (htc__log_frame_size(length) > frame_max(l))
        return HTC_ETOOBIG;
    if (l->held_back)
        return HTC_EBUSY; /* the open batch was handed over, and is written behind a sync */
    if (size <= htc__wal_room(l))
        return HTC_OK;
    if (size > frame_max(l) && (l->spare || room_here(l) >= frame_max(l)))
        return HTC_EBUSY; /* there is room, but not in one batch */
    return l->spare_status == HTC_ENOSPC ? HTC_ENOSPC : HTC_EBUSY;
}

/* The same of what may make the table longer: room that is set aside is not for it, and more is before it is longer. */
static htc_status log_room_to_grow(const void *ctx, size_t length)
{
    htc_status status = log_room(ctx, length);
    return status == HTC_OK ? htc__wal_may_grow(ctx, length) : status;
}

/* Room for one more record, before anything is changed. */
static htc_status log_admit(const htc__wal *l, htc_bytes key, htc_bytes value)
{
    if (l->state == LOG_READY && key.len == 0)
        return HTC_EINVAL;
    return key.len > HTC_KV_ENGINE_KEY_MAX ? HTC_ETOOBIG : log_room(l, htc__log_record_size(key, value));
}

static htc_status log_change(htc__wal *l, uint32_t kind, htc_bytes key, htc_bytes value)
{
    htc_status status = log_admit(l, key, value);
    if (status != HTC_OK)
        return status;
    size_t before = l->frame.len;
    htc__log_record_put(&l->frame, kind, key, value);
    status = l->frame.status;
    if (status == HTC_OK && kind == HTC__LOG_PUT)
        status = htc__heap_put(&l->heap, key, value);
    else if (status == HTC_OK)
        htc__heap_drop(&l->heap, key);
    if (status != HTC_OK) {
        l->frame.len = before;
        l->frame.status = HTC_OK;
        return status;
    }
    uint64_t mark = mark_of(l);
    l->marks_open.bits[mark >> 6] |= UINT64_C(1) << (mark & 63);
    l->frame_count++;
    return HTC_OK;
}

static htc_status log_put(void *ctx, htc_bytes key, htc_bytes value)
{
    return log_change(ctx, HTC__LOG_PUT, key, value);
}

static htc_status log_drop(void *ctx, htc_bytes key)
{
    htc__wal *l = ctx;
    htc_bytes value;
    if (l->state == LOG_READY && htc__heap_get(&l->heap, key, &value) == HTC_ENOTFOUND)
        return HTC_OK;
    return log_change(l, HTC__LOG_DROP, key, (htc_bytes){ NULL, 0 });
}

/* ---------------------------------------------------------------- writing */

static htc_status sync_now(htc__wal *l, htc_output *out)
{
    char name[HTC__LOG_NAME];
    htc__log_segment_name(l->segments[l->segments_count - 1].number, name);
    htc_status status =
        htc__wal_ask(l, LOG_SYNC, &(htc_disk_request){ .op = HTC_DISK_SYNC, .name = htc_bytes_of(name) }, out);
    if (status == HTC_OK)
        l->syncing = l->written;
    return status;
}

/* A segment's own frame in front of the batch; answers where what is written begins. */
static uint8_t *segment_frame(htc__wal *l, uint8_t *batch_head, uint64_t *sum)
{
    uint8_t         *at = batch_head - HTC__LOG_SECTOR;
    htc__log_segment s = { .number = l->spare, .length = l->options.segment_bytes, .member = l->super.member };
    htc__log_frame   f = { .type = HTC__LOG_SEGMENT,
                           .length = HTC__LOG_SEGMENT_PAYLOAD,
                           .epoch = l->super.epoch,
                           .sequence = l->sequence + 1,
                           .synced = l->synced,
                           .previous = l->last_sum };
    if (l->segments_count) {
        s.before = l->segments[l->segments_count - 1].number;
        s.before_end = l->offset;
    }
    memset(at, 0, HTC__LOG_SECTOR);
    htc__log_segment_write(&s, at + HTC__LOG_HEAD);
    htc__log_frame_seal(at, &f, l->super.member);
    *sum = f.sum;
    return at;
}

/* The request in front of what is written, so that nothing is copied but into the output. */
static htc_status ask_write(htc__wal *l, uint8_t *from, size_t length, const char *name, uint64_t offset,
                            htc_output *out)
{
    uint8_t          head[HTC_DISK_HEAD_MAX];
    htc_disk_request q = { .op = HTC_DISK_WRITE,
                           .sync = l->options.durability == HTC__LOG_SYNC,
                           .name = htc_bytes_of(name),
                           .offset = offset,
                           .data = { NULL, length } };
    size_t           n = htc_disk_encode(&q, head, sizeof head);
    memcpy(from - n, head, n);
    uint64_t   tag = (l->calls + 1) << 8 | LOG_WRITE;
    htc_effect e = { .kind = HTC_OUT_CALL, .op = q.op, .tag = tag, .body = { from - n, n + length } };
    htc_status status = htc_output_add(out, &e);
    if (status != HTC_OK)
        return status;
    l->calls++;
    l->tags[LOG_WRITE] = tag;
    return HTC_OK;
}

static void frame_reset(htc__wal *l)
{
    l->frame.len = LOG_FRONT;
    l->frame_count = 0;
}

/* The open frame goes out. HTC_OK; else it is still open, and nothing has changed. */
static htc_status frame_write(htc__wal *l, int begins, htc_output *out)
{
    size_t   length = l->frame.len - LOG_FRONT, size = (size_t)htc__log_frame_size(length), payload_end = l->frame.len;
    uint64_t number = begins ? l->spare : l->segments[l->segments_count - 1].number;
    char     name[HTC__LOG_NAME];
    /* Zeros up to the next sector. */
    uint8_t *pad = htc_buf_extend(&l->frame, size - HTC__LOG_HEAD - length);
    if (l->frame.status != HTC_OK) {
        l->frame.status = HTC_OK;
        return HTC_ENOMEM;
    }
    if (pad)
        memset(pad, 0, size - HTC__LOG_HEAD - length);
    if (begins && l->segments_count == l->segments_cap) {
        htc_status grown = htc__wal_segment_add(l, number, l->sequence + 1);
        if (grown != HTC_OK) {
            l->frame.len = payload_end;
            return grown;
        }
        assert(l->segments_count > 0);
        l->segments_count--;
    }
    uint8_t       *head = l->frame.data + LOG_FRONT - HTC__LOG_HEAD, *from = head;
    htc__log_frame f = { .type = HTC__LOG_BATCH,
                         .length = (uint32_t)length,
                         .count = l->frame_count,
                         .epoch = l->super.epoch,
                         .sequence = l->sequence + 1 + (uint64_t)begins,
                         .synced = l->synced,
                         .previous = l->last_sum };
    if (begins)
        from = segment_frame(l, head, &f.previous);
    htc__log_frame_seal(head, &f, l->super.member);
    htc__log_segment_name(number, name);
    size_t     all = size + (size_t)(head - from);
    htc_status status = ask_write(l, from, all, name, begins ? 0 : l->offset, out);
    if (status != HTC_OK) {
        l->frame.len = payload_end;
        return status;
    }
    if (begins) {
        htc__wal_segment_add(l, number, l->sequence + 1); /* there is room for it */
        htc__wal_spare_used(l);
        l->offset = 0;
        l->length = l->options.segment_bytes;
    }
    l->offset += all;
    l->sequence = l->flying = f.sequence;
    l->last_sum = f.sum;
    return HTC_OK;
}

/* Before there is a next segment, what is in the full one is durable, and both superblocks say that the next one was begun: so it is missed
 * if it goes, and so is every frame before it. */
static int may_begin(const htc__wal *l)
{
    return l->super_last == l->spare && (l->synced == l->written || !l->segments_count);
}

static htc_status prepare_begin(htc__wal *l, htc_output *out)
{
    if (l->synced < l->written && l->segments_count)
        return l->tags[LOG_SYNC] ? HTC_OK : sync_now(l, out);
    if (l->super.last != l->spare) {
        l->super.last = l->spare;
        l->super.last_length = l->options.segment_bytes;
        l->super.flags &= ~(uint32_t)HTC__LOG_CLEAN;
        l->super_dirty = 1;
    }
    return l->super_dirty && !l->tags[LOG_SUPER] ? htc__wal_super_write(l, out) : HTC_OK;
}

/* Changes are there, or a piece of the table: write them out. */
static htc_status write_out(htc__wal *l, htc_output *out)
{
    int changes = l->held_back ? l->held_back == HELD_CHANGES : l->frame_count > 0;
    if (!l->held_back)
        htc__wal_copy_piece(l);
    if (l->frame_count == 0) {
        /* Not one record more has room: the copy goes on once there is a spare. */
        l->copy_at = !l->copying ? l->copy_at : l->spare ? l->now + COPY_EACH : HTC_NEVER;
        return HTC_OK;
    }
    int begins = htc__log_frame_size(l->frame.len - LOG_FRONT) > room_here(l);
    if (begins && !may_begin(l)) {
        htc_status status = prepare_begin(l, out);
        l->held_back = status != HTC_OK ? 0 : changes ? HELD_CHANGES : HELD_COPY;
        return status;
    }
    l->held_back = 0;
    htc_status status = frame_write(l, begins, out);
    if (status != HTC_OK)
        return status;
    if (l->copy_done == UINT64_MAX)
        l->copy_done = l->flying;
    frame_reset(l);
    l->batch_flying = 0;
    if (changes) {
        l->batch_flying = l->batch++;
        l->marks_flying = l->marks_open;
        memset(&l->marks_open, 0, sizeof l->marks_open);
    }
    return HTC_OK;
}

static int log_may_commit(const void *ctx)
{
    const htc__wal *l = ctx;
    return l->state == LOG_READY && !l->flying && !l->held_back && !l->ending;
}

static htc_status log_commit(void *ctx, htc_output *out)
{
    htc__wal *l = ctx;
    return log_may_commit(l) && l->frame_count ? write_out(l, out) : HTC_OK;
}

/* ---------------------------------------------------------------- completions */

static htc_status on_written(htc__wal *l, htc_status status)
{
    if (status != HTC_OK)
        return fail_at(l, in_use(l), "a batch cannot be written");
    l->written = l->flying;
    if (l->options.durability == HTC__LOG_SYNC)
        l->synced = l->written;
    else if (l->options.durability == HTC__LOG_INTERVAL && l->sync_at == HTC_NEVER)
        l->sync_at = l->now + l->options.interval_ns;
    if (l->batch_flying)
        l->batch_stored = l->batch_flying;
    l->batch_flying = 0;
    l->flying = 0;
    l->copy_at = l->now + COPY_EACH;
    return HTC_OK;
}

static htc_status on_synced(htc__wal *l, htc_status status)
{
    if (status != HTC_OK)
        return fail_at(l, in_use(l), "it cannot be synced");
    l->synced = l->syncing > l->synced ? l->syncing : l->synced;
    l->sync_at = l->synced < l->written && l->options.durability == HTC__LOG_INTERVAL ? l->now + l->options.interval_ns
                                                                                      : HTC_NEVER;
    return HTC_OK;
}

static htc_status too_small(htc__wal *l)
{
    char text[160];
    snprintf(text, sizeof text, "the disk is too small: three segments of %llu KiB have to fit, one to write and two to delete with when it is full",
             (unsigned long long)(l->options.segment_bytes >> 10));
    return htc__wal_fail(l, HTC_ENOSPC, "log", text);
}

static htc_status on_spare(htc__wal *l, htc_status status)
{
    l->spare_status = status == HTC_EEXISTS ? HTC_OK : status;
    if (l->state == LOG_SPARING && l->segments_count == 0 && status == HTC_ENOSPC)
        return too_small(l);
    htc__wal_say_full(l, status);
    if (status == HTC_OK || status == HTC_EEXISTS) {
        if (status == HTC_OK) {
            status = htc__wal_segment_made(l, l->next_number);
            l->copy_at = l->copy_at == HTC_NEVER ? l->now : l->copy_at;
            if (status != HTC_OK)
                return status;
        }
        l->next_number++;
        l->spare_at = l->now;
    } else if (status == HTC_ENOSPC || status == HTC_ENOMEM || status == HTC_EBUSY) {
        l->spare_at = l->now + SPARE_AGAIN;
    } else {
        return fail_at(l, l->next_number, "it cannot be made");
    }
    /* A new log is not ready before it is known to fit the disk. */
    if (l->state == LOG_SPARING && (l->segments_count || l->reserve_n >= 2 || l->spare_status != HTC_OK))
        l->state = LOG_READY;
    return HTC_OK;
}

static htc_status on_answer(htc__wal *l, log_call call, const htc_input *in, htc_output *out)
{
    if (l->state < LOG_SPARING)
        return htc__wal_open_answer(l, call, in->status, in->body, out);
    switch (call) {
    case LOG_WRITE:
        return on_written(l, in->status);
    case LOG_SYNC:
        return on_synced(l, in->status);
    case LOG_SUPER: {
        htc_status status = htc__wal_super_answer(l, in->status, out);
        return status == HTC_AGAIN ? HTC_OK : status;
    }
    case LOG_CREATE: {
        htc_status status = on_spare(l, in->status);
        return status == HTC_OK && l->state == LOG_SPARING ? htc__wal_segment_ask(l, out) : status;
    }
    case LOG_REMOVE:
        if (in->status != HTC_OK && in->status != HTC_ENOTFOUND)
            return htc__wal_fail(l, HTC_EIO, "log", "a segment cannot be removed");
        l->spare_at = l->spare_at < l->now ? l->spare_at : l->now; /* there may be room again */
        return HTC_OK;
    default:
        return HTC_OK;
    }
}

static int on_its_way(const htc__wal *l)
{
    return l->flying || l->held_back || l->tags[LOG_SYNC] || l->tags[LOG_SUPER] || l->tags[LOG_REMOVE];
}

/* The last that is written: all of it is durable, and this is where it ends. */
static htc_status log_end(void *ctx, htc_output *out, int *ended)
{
    htc__wal *l = ctx;
    *ended = l->state != LOG_READY || (!on_its_way(l) && l->super.flags & HTC__LOG_CLEAN && !l->super_dirty);
    if (*ended || on_its_way(l))
        return HTC_OK;
    l->ending = 1;
    if (l->synced < l->written && l->segments_count)
        return sync_now(l, out);
    l->super.flags |= HTC__LOG_CLEAN;
    return htc__wal_super_write(l, out);
}

/* What is to be done besides: a spare, a sync that is due, the superblock, the next piece of the copy. */
static htc_status tend(htc__wal *l, htc_output *out)
{
    htc_status status = HTC_OK;
    if (l->ending)
        return HTC_OK;
    if (htc__wal_wants_segment(l) && !l->tags[LOG_CREATE] && l->now >= l->spare_at)
        status = htc__wal_segment_ask(l, out);
    int copied = l->copy_done && l->copy_done <= l->written && l->synced < l->copy_done;
    if (status == HTC_OK && !l->tags[LOG_SYNC] && l->segments_count && l->synced < l->written &&
        (l->now >= l->sync_at || copied || l->held_back))
        status = sync_now(l, out);
    if (status == HTC_OK)
        status = htc__wal_copy_step(l, out);
    if (status == HTC_OK && l->super_dirty && !l->tags[LOG_SUPER])
        status = htc__wal_super_write(l, out);
    if (status == HTC_OK && !l->flying && (l->held_back || (l->now >= l->copy_at && l->frame_count == 0)))
        status = write_out(l, out);
    return status;
}

static htc_status log_step(void *ctx, const htc_input *in, htc_output *out, int *ready)
{
    htc__wal  *l = ctx;
    htc_status status = HTC_OK;
    l->now = in->now;
    if (l->state == LOG_ENDED)
        return HTC_EIO;
    if (in->kind == HTC_IN_START && l->state == LOG_NEW) {
        status = htc__wal_open_start(l, out);
        status = status == HTC_AGAIN ? HTC_OK : status;
    } else if (in->kind == HTC_IN_RESULT) {
        log_call call = (log_call)(in->tag & 0xff);
        /* An answer to nothing that is on its way is not ours, or came twice. */
        if (call < LOG_CALLS && in->tag && l->tags[call] == in->tag) {
            l->tags[call] = 0;
            status = on_answer(l, call, in, out);
        }
    }
    if (status == HTC_OK && l->state == LOG_READY)
        status = tend(l, out);
    if (status != HTC_OK)
        l->state = LOG_ENDED;
    *ready = l->state == LOG_READY;
    return status;
}

/* What waits for an answer of the disk is not due. */
static htc_ns log_deadline(const void *ctx)
{
    const htc__wal *l = ctx;
    htc_ns          at = l->tags[LOG_SYNC] ? HTC_NEVER : l->sync_at;
    if (l->state != LOG_READY || l->ending)
        return HTC_NEVER;
    if (htc__wal_wants_segment(l) && !l->tags[LOG_CREATE] && l->spare_at < at)
        at = l->spare_at;
    if (l->copying && !l->flying && !l->held_back && l->copy_at < at)
        at = l->copy_at;
    return at;
}

/* ---------------------------------------------------------------- the rest of cells */

static uint64_t log_open_batch(const void *ctx)
{
    return ((const htc__wal *)ctx)->batch;
}

static uint64_t log_stored(const void *ctx)
{
    return ((const htc__wal *)ctx)->batch_stored;
}

static size_t log_staged(const void *ctx)
{
    const htc__wal *l = ctx;
    return l->frame_count ? l->frame.len - LOG_FRONT : 0;
}

static size_t log_used(const void *ctx)
{
    return htc__heap_used(&((const htc__wal *)ctx)->heap);
}

static size_t log_count(const void *ctx)
{
    return htc__heap_count(&((const htc__wal *)ctx)->heap);
}

static void log_destroy(void *ctx)
{
    htc__wal *l = ctx;
    if (!l)
        return;
    htc_env env = l->env;
    htc__log_reader_free(&l->reader);
    htc__heap_free(&l->heap);
    htc_buf_free(&l->frame);
    htc__free(&env, l->segments, l->segments_cap * sizeof *l->segments);
    htc__free(&env, l->reserve, l->reserve_cap * sizeof *l->reserve);
    htc__free(&env, l, sizeof *l);
}

htc_status htc__log_create(const htc_env *env, const htc__log_options *options, htc__cells *cells)
{
    static const htc__cells_ops ops = {
        .get = log_get,
        .room = log_room,
        .room_to_grow = log_room_to_grow,
        .put = log_put,
        .drop = log_drop,
        .scan = log_scan,
        .walk = log_walk,
        .place = log_place,
        .hint = log_hint,
        .open = log_open_batch,
        .stored = log_stored,
        .staged = log_staged,
        .used = log_used,
        .count = log_count,
        .step = log_step,
        .may_commit = log_may_commit,
        .commit = log_commit,
        .deadline = log_deadline,
        .end = log_end,
        .destroy = log_destroy,
    };
    htc__log_options o = *options;
    o.interval_ns = o.interval_ns ? o.interval_ns : 100 * HTC_MS;
    o.segment_bytes = o.segment_bytes ? o.segment_bytes : (uint64_t)64 << 20;
    o.ratio = o.ratio ? o.ratio : 3;
    if (o.durability < HTC__LOG_SYNC || o.durability > HTC__LOG_UNSYNCED || o.segment_bytes < SEGMENT_MIN ||
        o.segment_bytes % HTC__LOG_SECTOR || o.ratio < 2 || o.segment_bytes > HTC_DISK_FILE_MAX)
        return HTC_EINVAL;
    htc__wal *l = htc__alloc(env, sizeof *l);
    if (!l)
        return HTC_ENOMEM;
    if (env)
        l->env = *env;
    l->options = o;
    l->batch = 1;
    l->sync_at = HTC_NEVER;
    htc__heap_init(&l->heap, env, &(htc__heap_options){ o.seed, o.memory_max, o.ordered });
    htc_buf_init(&l->frame, env, HTC_DISK_WRITE_MAX + 2 * LOG_FRONT);
    if (!htc_buf_extend(&l->frame, LOG_FRONT)) {
        log_destroy(l);
        return HTC_ENOMEM;
    }
    *cells = (htc__cells){ &ops, l };
    return HTC_OK;
}

const htc__log_super *htc__log_super_of(const htc__cells *cells)
{
    return &((const htc__wal *)cells->ctx)->found;
}

int htc__log_has_lost(const htc__cells *cells)
{
    return ((const htc__wal *)cells->ctx)->lost;
}

int htc__log_is_damaged(const htc__cells *cells)
{
    return ((const htc__wal *)cells->ctx)->damaged;
}

void htc__log_repaired(const htc__cells *cells)
{
    ((htc__wal *)cells->ctx)->repaired = 1;
}

const uint8_t *htc__log_area(const htc__cells *cells)
{
    return ((const htc__wal *)cells->ctx)->super.area;
}

htc_status htc__log_area_set(const htc__cells *cells, const uint8_t area[HTC__LOG_AREA], htc_output *out,
                             uint64_t *ticket)
{
    htc__wal *l = cells->ctx;
    if (l->state != LOG_READY)
        return l->state == LOG_ENDED ? HTC_EIO : HTC_EBUSY;
    uint8_t before[HTC__LOG_AREA];
    memcpy(before, l->super.area, sizeof before);
    memcpy(l->super.area, area, HTC__LOG_AREA);
    l->area_set++;
    /* One that is on its way stays as it is; this comes after it. */
    htc_status status = l->tags[LOG_SUPER] ? HTC_OK : htc__wal_super_write(l, out);
    if (status != HTC_OK) {
        memcpy(l->super.area, before, sizeof before);
        assert(l->area_set > 0);
        l->area_set--;
        return status;
    }
    l->super_dirty |= l->area_writing != l->area_set;
    *ticket = l->area_set;
    return HTC_OK;
}

uint64_t htc__log_area_stored(const htc__cells *cells)
{
    return ((const htc__wal *)cells->ctx)->area_stored;
}

void htc__log_look(const htc__cells *cells, htc__log_figures *f)
{
    const htc__wal *l = cells->ctx;
    *f = (htc__log_figures){ .segments = l->segments_count,
                             .sequence = l->sequence,
                             .epoch = l->super.epoch,
                             .checkpoints = l->checkpoints,
                             .lost = l->heap.lost,
                             .copying = l->copying,
                             .spare = l->spare != 0 };
}
