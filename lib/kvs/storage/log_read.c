#include "kvs/storage/log_read.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/fault.h"
#include "core/util.h"
#include "kvs/storage/schema.h"

#define PIECE     ((uint64_t)1 << 20)
#define FILES_MAX ((size_t)1 << 20)

enum { LISTING = 1, SUPER_0, SUPER_1, SALVAGE, FRAMES, PEEK, HOLE, DONE };

void htc__log_reader_init(htc__log_reader *r, const htc_env *env, const htc__log_sink *sink, uint64_t tag)
{
    *r = (htc__log_reader){ .sink = *sink, .tag = tag };
    if (env)
        r->env = *env;
    htc_buf_init(&r->window, env, HTC_DISK_WRITE_MAX + 2 * PIECE);
    htc_buf_init(&r->held, env, HTC_DISK_WRITE_MAX);
}

void htc__log_reader_free(htc__log_reader *r)
{
    htc__free(&r->env, r->files, r->files_cap * sizeof *r->files);
    htc_buf_free(&r->window);
    htc_buf_free(&r->held);
    r->files = NULL;
    r->files_count = r->files_cap = 0;
}

static void problem(htc__log_reader *r, htc_status status, const char *file, uint64_t offset, const char *text)
{
    if (r->sink.problem)
        r->sink.problem(r->sink.ctx, status, file, offset, text);
}

static htc_status ask(htc__log_reader *r, uint32_t state, const htc_disk_request *q, htc_output *out)
{
    uint8_t body[HTC_DISK_HEAD_MAX];
    size_t  n = htc_disk_encode(q, body, sizeof body);
    r->tag += HTC__LOG_TAG_STEP;
    htc_effect e = { .kind = HTC_OUT_CALL, .op = q->op, .tag = r->tag, .body = { body, n } };
    htc_status status = htc_output_add(out, &e);
    r->state = state;
    r->op = q->op;
    return status == HTC_OK ? HTC_AGAIN : status;
}

static htc_status ask_read(htc__log_reader *r, uint32_t state, uint64_t offset, uint64_t length, htc_output *out)
{
    htc_disk_request q = { .op = HTC_DISK_READ, .name = htc_bytes_of(r->name), .offset = offset, .length = length };
    return ask(r, state, &q, out);
}

htc_status htc__log_reader_start(htc__log_reader *r, htc_output *out)
{
    return ask(r, LISTING, &(htc_disk_request){ .op = HTC_DISK_LIST }, out);
}

/* ---------------------------------------------------------------- which files, which superblock */

static int by_number(const void *a, const void *b)
{
    const htc__log_file *x = a, *y = b;
    return (x->number > y->number) - (x->number < y->number);
}

static htc_status take_list(htc__log_reader *r, htc_bytes body)
{
    htc_disk_file f;
    size_t        at = 0;
    int           more;
    while ((more = htc_disk_file_next(body, &at, &f)) > 0) {
        uint64_t number = htc__log_segment_number(f.name);
        for (int i = 0; i < 2; i++) {
            char name[HTC__LOG_NAME];
            htc__log_super_name(i, name);
            r->super_there[i] |= htc_bytes_equal(f.name, htc_bytes_of(name));
        }
        if (number == 0)
            continue;
        if (r->files_count == r->files_cap) {
            size_t         cap = r->files_cap ? r->files_cap * 2 : 16, unit = sizeof *r->files;
            htc__log_file *files =
                cap > FILES_MAX ? NULL : htc__resize(&r->env, r->files, r->files_cap * unit, cap * unit);
            if (!files)
                return HTC_ENOMEM;
            r->files = files;
            r->files_cap = cap;
        }
        r->files[r->files_count++] = (htc__log_file){ .number = number, .length = f.length };
    }
    if (more < 0)
        return HTC_EPROTO;
    if (r->files_count)
        qsort(r->files, r->files_count, sizeof *r->files, by_number);
    return HTC_OK;
}

static htc_status read_super(htc__log_reader *r, int which, htc_output *out)
{
    htc__log_super_name(which, r->name);
    return ask_read(r, which ? SUPER_1 : SUPER_0, 0, HTC__LOG_SECTOR, out);
}

static htc_status take_super(htc__log_reader *r, int which, htc_status status, htc_bytes body)
{
    uint32_t format = 0;
    char     text[96];
    if (status != HTC_OK && status != HTC_ENOTFOUND)
        return status;
    r->super_status[which] = status == HTC_OK ? htc__log_super_read(body, &r->supers[which], &format) : status;
    if (r->super_status[which] == HTC_EFORMAT) {
        snprintf(text, sizeof text, "format %u; this program reads %u", format, HTC__LOG_FORMAT);
        problem(r, HTC_EFORMAT, r->name, 0, text);
        return HTC_EFORMAT;
    }
    return HTC_OK;
}

static htc_status frames_begin(htc__log_reader *r, size_t file, uint64_t offset)
{
    r->at_file = r->end_file = file;
    r->end_offset = r->window_at = offset;
    htc_buf_clear(&r->window);
    htc__log_segment_name(r->files[file].number, r->name);
    r->state = FRAMES;
    return HTC_AGAIN;
}

static void hole_begin(htc__log_reader *r)
{
    htc__log_segment_name(r->files[r->at_file].number, r->name);
    r->state = HOLE;
    r->evidence = r->super.durable;
    r->resumes = 0;
    r->window_at = r->end_offset;
    htc_buf_clear(&r->window);
}

/* Frames that were durable are not there. */
static void lost_frames(htc__log_reader *r, const char *file, uint64_t offset, const char *text)
{
    problem(r, HTC_ECORRUPT, file, offset, text);
    r->damaged++;
    r->holes++;
}

/* The first frame that can be read is somewhere behind the beginning. */
static htc_status search_all(htc__log_reader *r)
{
    r->at_file = r->end_file = 0;
    r->end_offset = 0;
    hole_begin(r);
    return HTC_AGAIN;
}

static htc_status first_is_missing(htc__log_reader *r)
{
    htc__log_segment_name(r->super.first, r->name);
    lost_frames(r, r->name, 0, "the segment that the superblock begins with is missing");
    return r->lenient && r->files_count ? search_all(r) : HTC_ECORRUPT;
}

static htc_status ask_salvage(htc__log_reader *r, htc_output *out)
{
    while (r->at_file < r->files_count && r->files[r->at_file].length < HTC__LOG_SECTOR)
        r->at_file++;
    if (r->at_file == r->files_count)
        return HTC_ECORRUPT;
    htc__log_segment_name(r->files[r->at_file].number, r->name);
    return ask_read(r, SALVAGE, 0, HTC__LOG_SECTOR, out);
}

/* A segment's own frame says whose frames these are, as the superblock did. HTC_AGAIN: read on; HTC_EMPTY: this one does not. */
static htc_status take_salvage(htc__log_reader *r, htc_bytes body)
{
    htc__log_segment s;
    htc__log_frame   f;
    const uint8_t   *at = body.data;
    if (body.len < HTC__LOG_SECTOR)
        return HTC_EMPTY;
    htc__log_segment_read(at + HTC__LOG_HEAD, &s);
    if (!htc__log_frame_read(at, s.member, &f) || f.type != HTC__LOG_SEGMENT || s.number != r->files[r->at_file].number ||
        !htc__log_frame_whole(&f, (htc_bytes){ at + HTC__LOG_HEAD, f.length }))
        return HTC_EMPTY;
    r->super = (htc__log_super){ .member = s.member, .first = s.number, .first_sequence = f.sequence };
    if (r->at_file)
        return search_all(r);
    r->last = (htc__log_frame){ .sequence = f.sequence - 1 };
    return frames_begin(r, 0, 0);
}

/* The superblock that counts; HTC_AGAIN: read on. */
static htc_status choose_super(htc__log_reader *r)
{
    int which = -1;
    for (int i = 0; i < 2; i++)
        if (r->super_status[i] == HTC_OK && (which < 0 || r->supers[i].generation > r->supers[which].generation))
            which = i;
    if (which >= 0 && r->super_status[!which] == HTC_ECORRUPT && HTC__BROKEN(copy_unread))
        return HTC_ECORRUPT;
    if (which < 0 && (r->files_count == 0 || HTC__BROKEN(rotten_taken_for_new))) {
        /* Segments are made after both superblocks are there: nothing was kept yet. */
        r->fresh = 1;
        return HTC_OK;
    }
    for (int i = 0; i < 2; i++) {
        char name[HTC__LOG_NAME];
        htc__log_super_name(i, name);
        if (r->super_status[i] != HTC_OK)
            problem(r, which < 0 ? HTC_ECORRUPT : HTC_OK, name, 0,
                    which < 0 ? "no superblock can be read" : "cannot be read; the other superblock counts");
    }
    r->damaged += which < 0;
    if (which < 0)
        return r->salvage ? HTC_EMPTY : HTC_ECORRUPT;
    r->super = r->supers[which];
    r->last = (htc__log_frame){ .sequence = r->super.first_sequence - 1 };
    for (size_t i = 0; i < r->files_count; i++)
        if (r->files[i].number == r->super.first)
            return frames_begin(r, i, 0);
    /* The first segment is made after the superblocks, too. */
    if (r->files_count == 0 && r->super.first_sequence == 1 && r->super.durable == 0 && r->super.last == 0)
        return HTC_OK;
    return first_is_missing(r);
}

/* ---------------------------------------------------------------- frames */

/* The bytes of the segment at offset: n of them; NULL: they have to be read first, or (beyond its end) are not there. */
static const uint8_t *bytes_at(const htc__log_reader *r, uint64_t offset, uint64_t n)
{
    return offset >= r->window_at && offset - r->window_at + n <= r->window.len
               ? r->window.data + (offset - r->window_at)
               : NULL;
}

static htc_status read_on(htc__log_reader *r, uint64_t offset, htc_output *out)
{
    uint64_t end = r->files[r->at_file].length, from = r->window_at + r->window.len;
    if (offset > r->window_at && offset <= from) {
        htc_buf_consume(&r->window, (size_t)(offset - r->window_at));
        r->window_at = offset;
    }
    return ask_read(r, r->state, from, end - from < PIECE ? end - from : PIECE, out);
}

/* Users' keys stand behind a letter, which says nothing to them. */
static htc_status say_damaged(htc__log_reader *r, const htc__log_record *record, const char *name, uint64_t offset)
{
    char      text[160];
    htc_bytes key = record->key;
    if (r->sink.damaged)
        return r->sink.damaged(r->sink.ctx, record, name, offset);
    if (key.len > 1 && htc__schema_is(key, HTC__SCHEMA_CELL))
        key = (htc_bytes){ (const uint8_t *)key.data + 1, key.len - 1 };
    snprintf(text, sizeof text, "the value of \"%.*s\" is damaged", key.len < 100 ? (int)key.len : 100, (const char *)key.data);
    htc__text_clean(text);
    problem(r, HTC_ECORRUPT, name, offset, text);
    return HTC_OK;
}

static htc_status give_records(htc__log_reader *r, htc_bytes payload, const char *name, uint64_t offset)
{
    htc__log_record record;
    size_t          at = 0, from = 0;
    htc_status      status = HTC_OK;
    for (; status == HTC_OK && htc__log_record_next(payload, &at, &record) > 0; from = at) {
        if (record.damaged) {
            status = say_damaged(r, &record, name, offset + HTC__LOG_HEAD + from);
            record.kind = HTC__LOG_LOST;
            r->damaged++;
        }
        if (record.kind == HTC__LOG_LOST)
            record.value = (htc_bytes){ NULL, 0 };
        if (status == HTC_OK)
            status = r->sink.record(r->sink.ctx, &record);
    }
    return status;
}

/* Can every record be found, so that only values are damaged? */
static int records_found(htc_bytes payload, uint32_t count)
{
    htc__log_record record;
    size_t          at = 0;
    uint32_t        n = 0;
    int             more;
    while ((more = htc__log_record_next(payload, &at, &record)) > 0)
        n++;
    return more == 0 && n == count;
}

/* What was held was durable once: its good values count, the others are lost. */
static htc_status give_held(htc__log_reader *r)
{
    char name[HTC__LOG_NAME];
    r->holding = 0;
    htc__log_segment_name(r->files[r->held_file].number, name);
    return give_records(r, htc_buf_bytes(&r->held), name, r->held_offset);
}

static htc_status hold(htc__log_reader *r, const htc__log_frame *f, htc_bytes payload)
{
    htc_buf_clear(&r->held);
    htc_put_raw(&r->held, payload);
    if (r->held.status != HTC_OK)
        return r->held.status;
    r->holding = 1;
    r->held_frame = *f;
    r->held_last = r->last;
    r->held_file = r->at_file;
    r->held_offset = r->end_offset;
    return HTC_OK;
}

/* Does the frame continue what was read? */
static int follows(const htc__log_frame *last, const htc__log_frame *f)
{
    return f->sequence == last->sequence + 1 && f->epoch >= last->epoch && (last->sum == 0 || f->previous == last->sum);
}

/* What a file that was cut has lost is found by its frames: they are missing. Of the last one, see judge. */
static void say_length(htc__log_reader *r, const htc__log_file *file, uint64_t made)
{
    char text[96];
    if (file->length == made || file->number == r->super.last)
        return;
    snprintf(text, sizeof text, "it is %llu bytes long, and was made %llu long", (unsigned long long)file->length, (unsigned long long)made);
    problem(r, HTC_OK, r->name, file->length, text);
}

static int segment_ok(const htc__log_reader *r, const htc__log_frame *f, const uint8_t *at, uint64_t offset)
{
    htc__log_segment s;
    if ((f->type == HTC__LOG_SEGMENT) != (offset == 0))
        return 0;
    if (offset != 0)
        return 1;
    htc__log_segment_read(at + HTC__LOG_HEAD, &s);
    return s.number == r->files[r->at_file].number &&
           htc__log_frame_whole(f, (htc_bytes){ at + HTC__LOG_HEAD, f->length });
}

/* The frame at the end of what was read. HTC_OK: taken; HTC_AGAIN: asked for; HTC_EMPTY: there is none that follows. */
static htc_status take_frame(htc__log_reader *r, htc_output *out)
{
    const htc__log_file *file = &r->files[r->at_file];
    htc__log_frame       f;
    uint64_t             offset = r->end_offset, room = file->length - offset;
    if (file->length < offset || room < HTC__LOG_SECTOR)
        return HTC_EMPTY;
    const uint8_t *at = bytes_at(r, offset, HTC__LOG_SECTOR);
    if (!at)
        return read_on(r, offset, out);
    if (!htc__log_frame_read(at, r->super.member, &f) || !follows(&r->last, &f) ||
        htc__log_frame_size(f.length) > room || f.length > HTC_DISK_WRITE_MAX)
        return HTC_EMPTY;
    at = bytes_at(r, offset, htc__log_frame_size(f.length));
    if (!at)
        return read_on(r, offset, out);
    htc_bytes  payload = { at + HTC__LOG_HEAD, f.length };
    htc_status status = HTC_OK;
    int        whole = htc__log_frame_whole(&f, payload);
    if (!segment_ok(r, &f, at, offset) || (f.type == HTC__LOG_BATCH && !records_found(payload, f.count)))
        return HTC_EMPTY;
    if (r->holding && f.synced < r->held_frame.sequence)
        return HTC_EMPTY;
    if (r->holding)
        status = give_held(r);
    if (status == HTC_OK && f.type == HTC__LOG_BATCH)
        status = whole ? give_records(r, payload, r->name, offset) : hold(r, &f, payload);
    if (status != HTC_OK)
        return status;
    if (offset == 0) {
        htc__log_segment s;
        htc__log_segment_read((const uint8_t *)payload.data, &s);
        say_length(r, file, s.length);
        r->files[r->at_file].first_sequence = f.sequence;
    }
    r->last = f;
    r->frames++;
    r->end_offset += htc__log_frame_size(f.length);
    return HTC_OK;
}

/* No frame here: perhaps the log goes on in the next segment. */
static int peek_possible(const htc__log_reader *r)
{
    return r->at_file + 1 < r->files_count && r->files[r->at_file + 1].length >= HTC__LOG_SECTOR;
}

static htc_status peek(htc__log_reader *r, htc_output *out)
{
    htc__log_segment_name(r->files[r->at_file + 1].number, r->name);
    return ask_read(r, PEEK, 0, HTC__LOG_SECTOR, out);
}

/* Is this the start of the segment that was begun when the log had ended there? */
static int begins_at(const htc__log_reader *r, htc_bytes body, const htc__log_frame *last, uint64_t file,
                     uint64_t offset)
{
    htc__log_frame   f;
    htc__log_segment s;
    if (body.len < HTC__LOG_SECTOR || !htc__log_frame_read(body.data, r->super.member, &f) ||
        f.type != HTC__LOG_SEGMENT || !follows(last, &f) ||
        !htc__log_frame_whole(&f, (htc_bytes){ (const uint8_t *)body.data + HTC__LOG_HEAD, f.length }))
        return 0;
    htc__log_segment_read((const uint8_t *)body.data + HTC__LOG_HEAD, &s);
    return s.before == r->files[file].number && s.before_end == offset;
}

/* What is held was never durable: the log ends, or was ended once, before it. */
static void held_drop(htc__log_reader *r)
{
    r->holding = 0;
    r->last = r->held_last;
    r->end_file = r->held_file;
    r->end_offset = r->held_offset;
}

static int goes_on(htc__log_reader *r, htc_bytes body)
{
    if (begins_at(r, body, &r->last, r->at_file, r->end_offset))
        return 1;
    if (!r->holding || !begins_at(r, body, &r->held_last, r->held_file, r->held_offset))
        return 0;
    held_drop(r);
    return 1;
}

/* ---------------------------------------------------------------- the end of the log, or a hole in it */

/* The hole itself is no place to go on from, but where the frame that stands there is a later one. */
static void saw(htc__log_reader *r, const uint8_t *at, uint64_t offset)
{
    htc__log_frame f;
    if (!htc__log_frame_read(at, r->super.member, &f) || f.sequence <= r->last.sequence || f.epoch < r->last.epoch)
        return;
    if (f.synced > r->evidence)
        r->evidence = f.synced;
    int here = r->at_file == r->end_file && offset == r->end_offset;
    if (!r->resumes && !(here && f.sequence == r->last.sequence + 1)) {
        r->resumes = 1;
        r->resume_file = r->at_file;
        r->resume_offset = offset;
        r->resume = f;
    }
}

/* Look at every sector behind the last good frame for heads of later frames. HTC_OK: all were looked at. */
static htc_status search(htc__log_reader *r, htc_output *out)
{
    for (;;) {
        const htc__log_file *file = &r->files[r->at_file];
        uint64_t             offset = r->window_at; /* everything before it has been looked at */
        if (offset + HTC__LOG_SECTOR > file->length) {
            if (r->at_file + 1 == r->files_count)
                return HTC_OK;
            r->at_file++;
            r->window_at = 0;
            htc_buf_clear(&r->window);
            htc__log_segment_name(r->files[r->at_file].number, r->name);
            continue;
        }
        size_t used = 0;
        for (; used + HTC__LOG_SECTOR <= r->window.len; used += HTC__LOG_SECTOR) {
            saw(r, r->window.data + used, r->window_at + used);
        }
        htc_buf_consume(&r->window, used);
        r->window_at += used;
        if (r->window_at + HTC__LOG_SECTOR <= file->length)
            return read_on(r, r->window_at, out);
    }
}

/* The missing frame stood where the others end; or it is the next segment's own, for it had no place there, or stands right before what is found. */
static htc_status damage(htc__log_reader *r)
{
    char     name[HTC__LOG_NAME], text[128];
    uint64_t file = r->end_file, offset = r->end_offset;
    int      full = offset + HTC__LOG_SECTOR > r->files[file].length;
    int      found = r->resumes && r->resume_file == file + 1 && r->resume_offset == HTC__LOG_SECTOR &&
                r->resume.sequence == r->last.sequence + 2;
    if ((full || found) && file + 1 < r->files_count) {
        file++;
        offset = 0;
    }
    htc__log_segment_name(r->files[file].number, name);
    snprintf(text, sizeof text, "frame %llu was durable and cannot be read", (unsigned long long)r->last.sequence + 1);
    lost_frames(r, name, offset, text);
    return HTC_ECORRUPT;
}

/* HTC_OK: the segment that was begun last is there, as long as it was made, or nothing can be lost by what is wrong with it. Where it was being
 * written to, nobody knows how much was in it. */
static htc_status last_segment(htc__log_reader *r)
{
    char                 name[HTC__LOG_NAME], text[96] = "it was begun, and is missing";
    const htc__log_file *file = r->files, *end = r->files + r->files_count;
    int                  whole = r->super.flags & HTC__LOG_CLEAN && r->last.sequence >= r->super.durable;
    while (file < end && file->number != r->super.last)
        file++;
    if (!r->super.last || (file < end && file->length == r->super.last_length))
        return HTC_OK;
    if (file < end)
        snprintf(text, sizeof text, "it is %llu bytes long, and was made %llu long", (unsigned long long)file->length,
                 (unsigned long long)r->super.last_length);
    htc__log_segment_name(r->super.last, name);
    whole |= file < end && file->length > r->super.last_length;
    if (!whole)
        lost_frames(r, name, file < end ? file->length : 0, text);
    else
        problem(r, HTC_OK, name, file < end ? file->length : 0, text);
    return whole ? HTC_OK : HTC_ECORRUPT;
}

/* HTC_OK: the log ends here; HTC_ECORRUPT: it does not, and cannot be read; HTC_AGAIN: read on behind the damage. */
static htc_status judge(htc__log_reader *r)
{
    if (r->holding && r->evidence < r->held_frame.sequence) {
        /* The damaged frame was the last and never durable: the log ends before it. */
        held_drop(r);
    } else if (r->holding) {
        htc_status status = give_held(r);
        if (status != HTC_OK)
            return status;
    }
    if (r->evidence <= r->last.sequence)
        return last_segment(r);
    if (!r->resumes && last_segment(r) != HTC_OK)
        return HTC_ECORRUPT; /* and that is where they are missing */
    htc_status status = damage(r);
    if (!r->lenient || !r->resumes)
        return status;
    r->last = (htc__log_frame){ .sequence = r->resume.sequence - 1, .epoch = r->resume.epoch };
    return frames_begin(r, (size_t)r->resume_file, r->resume_offset);
}

/* Go on until something has to be read. */
static htc_status advance(htc__log_reader *r, htc_output *out)
{
    for (;;) {
        htc_status status = r->state == FRAMES ? take_frame(r, out) : search(r, out);
        if (r->state == FRAMES && status == HTC_EMPTY) {
            r->end_file = r->at_file;
            if (peek_possible(r))
                return peek(r, out);
            hole_begin(r);
        } else if (r->state == HOLE && status == HTC_OK) {
            status = judge(r);
            if (status != HTC_AGAIN) {
                r->state = DONE;
                return status;
            }
        } else if (status != HTC_OK) {
            return status;
        }
    }
}

htc_status htc__log_reader_answer(htc__log_reader *r, htc_status status, htc_bytes body, htc_output *out)
{
    int which = r->state == SUPER_1;
    switch (r->state) {
    case LISTING:
        if (status == HTC_OK)
            status = take_list(r, body);
        return status == HTC_OK ? read_super(r, 0, out) : status;
    case SUPER_0:
    case SUPER_1:
        status = take_super(r, which, status, body);
        if (status == HTC_OK && !which)
            return read_super(r, 1, out);
        if (status == HTC_OK)
            status = choose_super(r);
        if (status == HTC_EMPTY)
            return ask_salvage(r, out);
        return status == HTC_AGAIN ? advance(r, out) : status;
    case SALVAGE:
        if (status == HTC_OK)
            status = take_salvage(r, body);
        if (status != HTC_EMPTY)
            return status == HTC_AGAIN ? advance(r, out) : status;
        r->at_file++;
        return ask_salvage(r, out);
    case PEEK:
        if (status != HTC_OK)
            return status;
        if (goes_on(r, body))
            frames_begin(r, r->at_file + 1, 0);
        else
            hole_begin(r);
        return advance(r, out);
    case FRAMES:
    case HOLE:
        if (status != HTC_OK)
            return status;
        /* Less than was asked for: the file is shorter than the list said. */
        if (body.len == 0)
            r->files[r->at_file].length = r->window_at + r->window.len;
        htc_put_raw(&r->window, body);
        return r->window.status == HTC_OK ? advance(r, out) : r->window.status;
    default:
        return HTC_EINTERNAL;
    }
}
