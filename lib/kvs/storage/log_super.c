/* The superblock, in two files written one after the other, and the copy of the table that lets old segments go. */
#include <string.h>

#include "core/util.h"
#include "kvs/storage/log_private.h"

/* ---------------------------------------------------------------- superblock */

static htc_status write_copy(htc__wal *l, htc_output *out)
{
    uint8_t bytes[HTC_DISK_SECTOR];
    char    name[HTC__LOG_NAME];
    htc__log_super_write(&l->super_flying, bytes);
    htc__log_super_name(l->super_which, name);
    htc_disk_request q = {
        .op = HTC_DISK_WRITE, .sync = 1, .name = htc_bytes_of(name), .data = { bytes, sizeof bytes }
    };
    return htc__wal_ask(l, LOG_SUPER, &q, out);
}

/* Both copies carry the same generation, and nothing counts before both are durable: then either may be damaged. The one that is
 * older, if they differ, is written first, so that at no time both are being written or behind. */
htc_status htc__wal_super_write(htc__wal *l, htc_output *out)
{
    l->super_flying = l->super;
    l->super_flying.generation++;
    l->super_flying.durable = l->synced; /* where a copy ends nothing may be behind it yet that could say so */
    l->super_which = l->super_older;
    htc_status status = write_copy(l, out);
    if (status != HTC_OK)
        return status;
    l->super.generation++;
    l->super_dirty = 0;
    l->area_writing = l->area_set;
    return HTC_OK;
}

htc_status htc__wal_super_answer(htc__wal *l, htc_status status, htc_output *out)
{
    if (status != HTC_OK)
        return htc__wal_fail(l, HTC_EIO, "super.0", "the superblock or its copy cannot be written");
    if (l->super_which == l->super_older) {
        l->super_which = !l->super_older;
        status = write_copy(l, out);
        return status == HTC_OK ? HTC_AGAIN : status;
    }
    l->area_stored = l->area_writing;
    l->super_first = l->super_flying.first;
    l->super_last = l->super_flying.last;
    return HTC_OK;
}

/* ---------------------------------------------------------------- copying */

#define PIECE_MAX   ((uint64_t)256 << 10)

uint64_t htc__wal_piece_bytes(const htc__wal *l)
{
    uint64_t eighth = l->options.segment_bytes / 8;
    return eighth < PIECE_MAX ? eighth : PIECE_MAX;
}

/* What is damaged goes with the segments that it is in: then all is in segments of this life. */
static int leaves_damage(const htc__wal *l)
{
    return l->repaired && l->segments[l->segments_count - 1].number > l->found_last;
}

static int copy_wanted(const htc__wal *l)
{
    uint64_t table = htc__wal_table_bytes(l);
    uint64_t log = l->segments_count * l->options.segment_bytes;
    if (l->damaged)
        return leaves_damage(l);
    if (l->segments_count < 2)
        return 0;
    /* A disk without room is reason enough, if old segments can be had for it. */
    if (htc__wal_is_scarce(l))
        return htc__wal_copy_frees(l);
    return log > l->options.ratio * table + 2 * l->options.segment_bytes;
}

typedef struct copier {
    htc__wal *log;
    uint64_t  top, until, room; /* the place that is copied; lengths of the frame */
    int       begun, stopped;
} copier;

static int copy_record(void *ctx, uint64_t top, htc_bytes key, htc_bytes value)
{
    copier   *c = ctx;
    htc_buf  *b = &c->log->frame;
    int       lost = !value.data && value.len == SIZE_MAX;
    htc_bytes v = lost ? (htc_bytes){ NULL, 0 } : value;
    uint64_t  length = b->len - LOG_FRONT;
    /* A place is copied whole, or again the next time. */
    if (c->begun && top != c->top && length >= c->until)
        c->stopped = 1;
    if (htc__log_frame_size(length + htc__log_record_size(key, v)) > c->room)
        c->stopped = 1;
    if (c->stopped) {
        c->top = top;
        return 0;
    }
    size_t before = b->len;
    htc__log_record_put(b, lost ? HTC__LOG_LOST : HTC__LOG_PUT, key, v);
    if (b->status != HTC_OK) {
        b->len = before;
        b->status = HTC_OK;
        c->stopped = 1;
        c->top = top;
        return 0;
    }
    c->log->frame_count++;
    c->top = top;
    c->begun = 1;
    return 1;
}

void htc__wal_copy_piece(htc__wal *l)
{
    if (!l->copying && l->copy_done == 0 && l->segments_count && l->segments[0].number >= l->super.first &&
        copy_wanted(l)) {
        l->copying = 1;
        l->copy_from = 0;
        l->copy_mark = l->segments[l->segments_count - 1].number;
    }
    if (!l->copying)
        return;
    uint64_t changes = l->frame.len - LOG_FRONT, piece = 2 * changes < htc__wal_piece_bytes(l) ? htc__wal_piece_bytes(l) : 2 * changes;
    copier   c = { .log = l, .until = changes + piece, .room = htc__wal_room(l) };
    htc__heap_walk_tops(&l->heap, l->copy_from, UINT64_MAX, copy_record, &c);
    if (c.stopped) {
        l->copy_from = c.top;
        return;
    }
    l->copying = 0;
    l->copy_done = UINT64_MAX; /* with the frame that is written next */
}

static htc_status remove_first(htc__wal *l, htc_output *out)
{
    char name[HTC__LOG_NAME];
    htc__log_segment_name(l->segments[0].number, name);
    htc_status status =
        htc__wal_ask(l, LOG_REMOVE, &(htc_disk_request){ .op = HTC_DISK_REMOVE, .name = htc_bytes_of(name) }, out);
    if (status == HTC_OK)
        memmove(l->segments, l->segments + 1, --l->segments_count * sizeof *l->segments);
    return status;
}

/* Once the whole copy is durable, reading begins with the segment it began in; once that is written down, what is before goes. */
htc_status htc__wal_copy_step(htc__wal *l, htc_output *out)
{
    if (l->copy_done && l->copy_done <= l->synced) {
        size_t i = 0;
        while (l->segments[i].number != l->copy_mark)
            i++;
        l->super.first = l->copy_mark;
        l->super.first_sequence = l->segments[i].first_sequence;
        l->super.flags &= ~(uint32_t)HTC__LOG_DAMAGED;
        l->damaged = 0;
        l->super_dirty = 1;
        l->copy_done = 0;
        l->checkpoints++;
    }
    if (!l->super_dirty && !l->tags[LOG_SUPER] && !l->tags[LOG_REMOVE] && l->segments_count > 1 &&
        l->segments[0].number < l->super_first)
        return remove_first(l, out);
    return HTC_OK;
}
