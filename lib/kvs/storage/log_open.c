/* How a log is opened: read, tidied, made durable, and begun anew under the next epoch. */
#include <string.h>

#include "core/util.h"
#include "kvs/storage/log_private.h"

static htc_status on_record(void *ctx, const htc__log_record *r)
{
    htc__wal *l = ctx;
    switch (r->kind) {
    case HTC__LOG_PUT:
        return htc__heap_put(&l->heap, r->key, r->value);
    case HTC__LOG_LOST:
        return htc__heap_lose(&l->heap, r->key);
    default:
        htc__heap_drop(&l->heap, r->key);
        return HTC_OK;
    }
}

static void on_problem(void *ctx, htc_status status, const char *file, uint64_t offset, const char *text)
{
    htc__wal *l = ctx;
    if (l->options.problem)
        l->options.problem(l->options.problem_ctx, status, file, offset, text);
    else
        htc__log_with(&l->env, HTC_LOG_ERROR, HTC__FIELDS(HTC__TEXT("file", file), HTC__NUMBER("offset", offset), HTC__STATUS(status)),
                      "log: %s at %llu: %s (%s)", file, (unsigned long long)offset, text,
                      htc_status_name(status));
}

htc_status htc__wal_segment_add(htc__wal *l, uint64_t number, uint64_t first_sequence)
{
    if (l->segments_count == l->segments_cap) {
        size_t       cap = l->segments_cap ? l->segments_cap * 2 : 16, unit = sizeof *l->segments;
        log_segment *more = htc__resize(&l->env, l->segments, l->segments_cap * unit, cap * unit);
        if (!more)
            return HTC_ENOMEM;
        l->segments = more;
        l->segments_cap = cap;
    }
    l->segments[l->segments_count++] = (log_segment){ number, first_sequence };
    return HTC_OK;
}

htc_status htc__wal_open_start(htc__wal *l, htc_output *out)
{
    htc__log_sink sink = { .record = on_record, .problem = on_problem, .ctx = l };
    l->state = LOG_READING;
    htc__log_reader_init(&l->reader, &l->env, &sink, LOG_READ);
    l->reader.lenient = l->options.others;
    htc_status status = htc__log_reader_start(&l->reader, out);
    l->tags[LOG_READ] = l->reader.tag;
    return status;
}

/* ---------------------------------------------------------------- an empty directory */

/* Superblocks that are missing are made. In an empty directory one may be there already, of any length, if the power went while this was
 * done before: it goes first. */
static htc_status make_next(htc__wal *l, htc_output *out)
{
    char name[HTC__LOG_NAME];
    for (; l->making < 4; l->making++) {
        int              which = l->making / 2, remove = l->making % 2 == 0;
        htc_disk_request q = { .op = remove ? HTC_DISK_REMOVE : HTC_DISK_CREATE,
                               .length = remove ? 0 : HTC__LOG_SECTOR };
        if (remove ? !l->reader.fresh || !l->reader.super_there[which]
                   : !l->reader.fresh && l->reader.super_there[which])
            continue;
        htc__log_super_name(which, name);
        q.name = htc_bytes_of(name);
        return htc__wal_ask(l, LOG_CREATE, &q, out);
    }
    l->state = LOG_OPENING;
    return htc__wal_super_write(l, out);
}

static htc_status make_begin(htc__wal *l, htc_output *out)
{
    l->super =
        (htc__log_super){ .member = l->options.member, .seed = l->options.seed, .first = 1, .first_sequence = 1, .flags = HTC__LOG_CLEAN };
    l->found = l->super;
    memcpy(l->super.boot, l->options.boot, HTC__LOG_BOOT);
    l->super.durability = l->options.durability;
    l->super.epoch = 1;
    l->next_number = 1;
    l->heap.seed = l->options.seed;
    l->state = LOG_MAKING;
    return make_next(l, out);
}

/* ---------------------------------------------------------------- a log that was read */

/* What counts is how it last ran, not how it is asked to run from now on. */
static int has_lost(const htc__wal *l)
{
    uint32_t ran = l->found.durability ? l->found.durability : l->options.durability;
    return ran != HTC__LOG_SYNC && memcmp(l->found.boot, l->options.boot, HTC__LOG_BOOT) != 0;
}

static htc_status open_super(htc__wal *l, htc_output *out)
{
    uint64_t epoch = l->found.epoch > l->reader.last.epoch ? l->found.epoch : l->reader.last.epoch;
    l->super.epoch = epoch + 1;
    l->lost = has_lost(l);
    l->super.flags = HTC__LOG_CLEAN | (l->damaged ? HTC__LOG_DAMAGED : 0); /* nothing is written but to segments that are begun */
    if (!l->lost || !l->options.guarded) { /* all that was read is synced by now, however it was written */
        memcpy(l->super.boot, l->options.boot, HTC__LOG_BOOT);
        l->super.durability = l->options.durability;
    }
    l->written = l->synced = l->sequence;
    l->state = LOG_MAKING;
    return make_next(l, out);
}

/* What was read may have been on its way to the disk when the process before was killed: the superblock that counts, which has to outlive
 * the writing of the other one, and the last segment. */
static htc_status sync_next(htc__wal *l, htc_output *out)
{
    char name[HTC__LOG_NAME];
    if (l->super_synced++ == 0)
        htc__log_super_name(!l->super_older, name);
    else if (l->super_synced == 2 && l->segments_count)
        htc__log_segment_name(l->segments[l->segments_count - 1].number, name);
    else
        return open_super(l, out);
    l->state = LOG_SYNCING;
    return htc__wal_ask(l, LOG_SYNC, &(htc_disk_request){ .op = HTC_DISK_SYNC, .name = htc_bytes_of(name) }, out);
}

/* None is given twice: what was lost may come to light again. */
static uint64_t next_number(const htc__log_reader *r)
{
    uint64_t last = r->files_count ? r->files[r->files_count - 1].number : r->super.first - 1;
    return 1 + (r->super.last > last ? r->super.last : last);
}

/* The others of several members have what is lost (htc__log_is_damaged). */
static int may_open(const htc__wal *l, htc_status status)
{
    return status == HTC_OK || (status == HTC_ECORRUPT && l->options.others && l->reader.holes && l->reader.super.generation);
}

static htc_status reading_done(htc__wal *l, htc_output *out)
{
    htc__log_reader *r = &l->reader;
    if (r->fresh)
        return make_begin(l, out);
    l->found = l->super = r->super;
    l->super_older = r->super_status[0] == HTC_OK &&
                     (r->super_status[1] != HTC_OK || r->supers[1].generation < r->supers[0].generation);
    l->heap.seed = r->super.seed;
    l->sequence = r->last.sequence;
    l->last_sum = r->last.sum;
    l->offset = l->length = r->end_offset;
    l->damaged = r->holes > 0 || (r->super.flags & HTC__LOG_DAMAGED && l->options.others);
    l->next_number = next_number(r);
    l->super.last = l->super.last_length = 0;
    for (size_t i = 0; i < r->files_count && i <= r->end_file; i++) {
        htc_status status = HTC_OK;
        uint64_t   first = r->files[i].first_sequence ? r->files[i].first_sequence : r->last.sequence + 1; /* none of its frames was there */
        if (r->files[i].number >= r->super.first)
            status = htc__wal_segment_add(l, r->files[i].number, first);
        if (status != HTC_OK)
            return status;
        l->super.last = r->files[i].number >= r->super.first ? r->files[i].number : l->super.last;
        l->super.last_length = r->files[i].length;
    }
    l->found_last = l->next_number - 1;
    r->at_file = 0;
    return sync_next(l, out);
}

/* Segments before the first and behind the end are not of the log: the first were about to be removed, the others were spare, or
 * hold what was never durable. None may ever be taken for a part of it. Not before both superblocks are written: one that is older may
 * begin with a segment that goes, and the newer one, if the process before was killed, need not have been durable. */
static htc_status clear_next(htc__wal *l, htc_output *out)
{
    htc__log_reader *r = &l->reader;
    char             name[HTC__LOG_NAME];
    for (; r->at_file < r->files_count; r->at_file++) {
        uint64_t number = r->files[r->at_file].number;
        if (number >= l->found.first && r->at_file <= r->end_file)
            continue;
        htc__log_segment_name(number, name);
        l->state = LOG_CLEARING;
        return htc__wal_ask(l, LOG_REMOVE, &(htc_disk_request){ .op = HTC_DISK_REMOVE, .name = htc_bytes_of(name) },
                            out);
    }
    htc__log_reader_free(r);
    l->state = LOG_SPARING;
    return htc__wal_segment_ask(l, out);
}

htc_status htc__wal_open_answer(htc__wal *l, log_call call, htc_status status, htc_bytes body, htc_output *out)
{
    switch (l->state) {
    case LOG_READING:
        /* The seed of the places stands in the superblock, which is read before the first record. */
        status = htc__log_reader_answer(&l->reader, status, body, out);
        if (status == HTC_AGAIN) {
            l->heap.seed = l->reader.super.seed;
            l->tags[LOG_READ] = l->reader.tag;
            return HTC_OK;
        }
        return may_open(l, status) ? reading_done(l, out) : status;
    case LOG_MAKING:
        if (status != HTC_OK)
            return status;
        l->making++;
        return make_next(l, out);
    case LOG_CLEARING:
        if (status != HTC_OK && status != HTC_ENOTFOUND)
            return status;
        l->reader.at_file++;
        return clear_next(l, out);
    case LOG_SYNCING:
        return status == HTC_OK ? sync_next(l, out) : status;
    case LOG_OPENING:
        status = htc__wal_super_answer(l, status, out);
        if (status == HTC_AGAIN)
            return HTC_OK;
        return status == HTC_OK ? clear_next(l, out) : status;
    default:
        (void)call;
        return HTC_EINTERNAL;
    }
}
