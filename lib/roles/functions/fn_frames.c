/* Frames and records, written and read. */
#include "roles/functions/fn_frames.h"

#include <string.h>

#include "core/codec.h"

static void put_strings(htc_buf *b, const htc__fn_frame *f)
{
    htc_put_u8(b, (uint8_t)f->task_kind);
    htc_put_str(b, f->function);
    htc_put_str(b, f->argument);
    htc_put_str(b, f->object);
}

static void put_portion(htc_buf *b, const htc__fn_frame *f)
{
    htc_put_u32(b, f->portion);
    htc_put_u64(b, f->from);
    htc_put_u32(b, f->n);
    htc_put_u8(b, f->with_input ? 1 : 0);
    htc_put_raw(b, f->input);
}

void htc__fn_frame_write(htc_buf *b, const htc__fn_frame *f)
{
    htc_put_u8(b, (uint8_t)f->kind);
    htc_put_u32(b, f->span);
    switch ((htc__fn_kind)f->kind) {
    case FN_HELLO:
        htc_put_u32(b, f->version);
        htc_put_u32(b, f->threads);
        break;
    case FN_OPEN: put_strings(b, f); break;
    case FN_PORTION: put_portion(b, f); break;
    case FN_STOP: htc_put_u8(b, f->cancelled ? 1 : 0); break;
    case FN_CLOSE: break;
    case FN_OPENED:
        htc_put_u32(b, (uint32_t)(int32_t)f->status);
        htc_put_str(b, f->reason);
        break;
    }
}

static uint32_t get_flag(htc_reader *r)
{
    uint8_t flag = htc_get_u8(r);
    if (flag > 1)
        htc_reader_fail(r);
    return flag;
}

static void get_portion(htc_reader *r, htc__fn_frame *f)
{
    f->portion = htc_get_u32(r);
    f->from = htc_get_u64(r);
    f->n = htc_get_u32(r);
    f->with_input = get_flag(r);
    if (f->portion >= HTC__FN_PORTIONS_MAX || f->n == 0 || f->n > HTC__FN_PORTION_TASKS || f->from > UINT64_MAX - f->n)
        htc_reader_fail(r);
    htc_reader from_here = *r;
    size_t     left = htc_reader_left(r);
    for (uint32_t i = 0; f->with_input && i < f->n && r->status == HTC_OK; i++)
        if (htc_get_bytes(r).len > HTC__FN_INPUT_MAX)
            htc_reader_fail(r);
    if (r->status == HTC_OK && htc_reader_left(r) == 0)
        f->input = htc_get_raw(&from_here, left);
}

htc_status htc__fn_frame_read(htc_bytes bytes, htc__fn_frame *out)
{
    htc_reader r = htc_reader_of(bytes);
    *out = (htc__fn_frame){ .kind = htc_get_u8(&r), .span = htc_get_u32(&r) };
    if (bytes.len > HTC__FN_FRAME_MAX || out->span >= HTC__FN_SPANS_MAX)
        return HTC_EPROTO;
    switch (out->kind) {
    case FN_HELLO:
        out->version = htc_get_u32(&r);
        out->threads = htc_get_u32(&r);
        break;
    case FN_OPEN:
        out->task_kind = htc_get_u8(&r);
        htc_get_str(&r, out->function, sizeof out->function);
        htc_get_str(&r, out->argument, sizeof out->argument);
        htc_get_str(&r, out->object, sizeof out->object);
        break;
    case FN_PORTION: get_portion(&r, out); break;
    case FN_STOP: out->cancelled = get_flag(&r); break;
    case FN_CLOSE: break;
    case FN_OPENED:
        out->status = (htc_status)(int32_t)htc_get_u32(&r);
        htc_get_str(&r, out->reason, sizeof out->reason);
        break;
    default: return HTC_EPROTO;
    }
    return htc_reader_done(&r) == HTC_OK ? HTC_OK : HTC_EPROTO;
}

static size_t filled_up(size_t n)
{
    return (n + 7) & ~(size_t)7;
}

size_t htc__fn_record_size(const htc__fn_record *r)
{
    return sizeof *r + filled_up(r->bytes);
}

static int record_is_fine(const htc__fn_record *r)
{
    if (r->portion >= HTC__FN_PORTIONS_MAX || r->count == 0 || r->count > HTC__FN_PORTION_TASKS || r->offset > HTC__FN_PORTION_TASKS - r->count)
        return 0;
    switch (r->kind) {
    case FN_ENDED:
    case FN_SKIPPED: return r->bytes == 0;
    case FN_OUTPUT: return r->count == 1 && r->bytes <= HTC__FN_OUTPUT_MAX;
    case FN_FAILED: return r->count == 1 && r->bytes < HTC__FN_REASON_MAX && r->status < 0;
    default: return 0;
    }
}

htc_status htc__fn_record_next(htc_bytes *rest, htc__fn_record *out, htc_bytes *bytes)
{
    const uint8_t *at = rest->data;
    if (rest->len == 0)
        return HTC_EMPTY;
    if (rest->len < sizeof *out)
        return HTC_EPROTO;
    memcpy(out, at, sizeof *out);
    if (!record_is_fine(out) || htc__fn_record_size(out) > rest->len)
        return HTC_EPROTO;
    *bytes = (htc_bytes){ at + sizeof *out, out->bytes };
    *rest = (htc_bytes){ at + htc__fn_record_size(out), rest->len - htc__fn_record_size(out) };
    return HTC_OK;
}
