/* Room that is set aside, as empty segments behind the spare one: as much as a copy of the table takes, for old segments go only when it is
 * whole. So a full disk takes whatever gives room back, deletions and the copy, and refuses what may grow. It costs no more disk than a
 * copy at its peak does. */
#include <string.h>

#include "core/util.h"
#include "kvs/storage/log_private.h"

#define RECORD_EACH 18

uint64_t htc__wal_table_bytes(const htc__wal *l)
{
    return l->heap.live + RECORD_EACH * (htc__heap_count(&l->heap) + l->heap.lost);
}

/* What of a segment a copy fills: a frame is a head and less than a sector longer than its piece, and where a segment ends there is no room
 * for the next record, or the one after it. */
static uint64_t filled(const htc__wal *l)
{
    uint64_t most = l->options.segment_bytes, piece = htc__wal_piece_bytes(l), count = htc__heap_count(&l->heap);
    uint64_t end = HTC__LOG_SECTOR + 2 * (count ? htc__wal_table_bytes(l) / count : 0);
    most = most / (piece + HTC__LOG_SECTOR + HTC__LOG_HEAD) * piece;
    return end < most - most / 4 ? most - end : most / 4;
}

/* For a copy of the table and so many bytes more. One besides, for deletions meanwhile. */
static size_t needed(const htc__wal *l, uint64_t more)
{
    return 1 + (size_t)((htc__wal_table_bytes(l) + more) / filled(l));
}

int htc__wal_wants_segment(const htc__wal *l)
{
    return !l->spare || l->reserve_n < needed(l, l->options.segment_bytes / 2);
}

htc_status htc__wal_may_grow(const htc__wal *l, uint64_t bytes)
{
    /* No more is waited for than is set aside without being asked for: what is longer takes the rest from the segment besides. */
    size_t here = needed(l, l->frame.len + bytes), most = needed(l, l->options.segment_bytes / 2);
    here = here < most ? here : most;
    if (l->spare && (l->reserve_n >= here || (!l->set_aside && l->spare_status != HTC_ENOSPC)))
        return HTC_OK;
    return l->spare_status == HTC_ENOSPC ? HTC_ENOSPC : HTC_EBUSY;
}

htc_status htc__wal_segment_ask(htc__wal *l, htc_output *out)
{
    char name[HTC__LOG_NAME];
    htc__log_segment_name(l->next_number, name);
    htc_disk_request q = { .op = HTC_DISK_CREATE, .name = htc_bytes_of(name), .length = l->options.segment_bytes };
    return htc__wal_ask(l, LOG_CREATE, &q, out);
}

htc_status htc__wal_segment_made(htc__wal *l, uint64_t number)
{
    if (!l->spare) {
        l->spare = number;
        return HTC_OK;
    }
    if (l->reserve_n == l->reserve_cap) {
        size_t    cap = l->reserve_cap ? l->reserve_cap * 2 : 4, unit = sizeof *l->reserve;
        uint64_t *more = htc__resize(&l->env, l->reserve, l->reserve_cap * unit, cap * unit);
        if (!more)
            return HTC_ENOMEM;
        l->reserve = more;
        l->reserve_cap = cap;
    }
    l->reserve[l->reserve_n++] = number;
    l->set_aside |= l->reserve_n >= needed(l, 0);
    return HTC_OK;
}

void htc__wal_spare_used(htc__wal *l)
{
    l->spare = l->reserve_n ? l->reserve[0] : 0;
    l->spare_at = l->spare_at < l->now ? l->spare_at : l->now;
    if (l->reserve_n)
        memmove(l->reserve, l->reserve + 1, --l->reserve_n * sizeof *l->reserve);
}

int htc__wal_is_scarce(const htc__wal *l)
{
    return l->spare_status == HTC_ENOSPC && htc__wal_wants_segment(l);
}

int htc__wal_copy_frees(const htc__wal *l)
{
    return l->spare && l->reserve_n + 1 >= needed(l, 0) && l->segments_count > 1 + needed(l, 0);
}

void htc__wal_say_full(htc__wal *l, htc_status status)
{
    if (l->full == (status == HTC_ENOSPC))
        return;
    l->full = status == HTC_ENOSPC;
    if (l->full)
        htc__log_with(&l->env, HTC_LOG_WARN, HTC__FIELDS(HTC__NUMBER("bytes", l->options.segment_bytes), HTC__STATUS(status)),
                      "log: the disk has no room for another segment of %llu KiB -> refuse what may grow, go on reading and deleting",
                      (unsigned long long)(l->options.segment_bytes >> 10));
    else
        htc__log(&l->env, HTC_LOG_INFO, "log: the disk has room again -> take all changes");
}
