/* A span of function tasks: what is asked, and what came of it. */
#include "roles/runtime/span_wire.h"

#include "core/codec.h"

static void put_status(htc_buf *b, htc_status status)
{
    htc_put_u32(b, (uint32_t)(int32_t)status);
}

static htc_status get_status(htc_reader *r)
{
    return (htc_status)(int32_t)htc_get_u32(r);
}

void htc__span_request_write(htc_buf *b, const htc__span_request *r)
{
    htc_put_u64(b, r->run);
    htc_put_str(b, r->user);
    htc_put_bytes(b, r->task);
    htc_put_u64(b, r->from);
    htc_put_u64(b, r->to);
    htc_put_varint(b, r->inputs);
    htc_put_raw(b, r->input);
}

htc_status htc__span_request_read(htc_bytes body, htc__span_request *out)
{
    htc_reader r = htc_reader_of(body);
    *out = (htc__span_request){ .run = htc_get_u64(&r) };
    htc_get_str(&r, out->user, sizeof out->user);
    out->task = htc_get_bytes(&r);
    out->from = htc_get_u64(&r);
    out->to = htc_get_u64(&r);
    out->inputs = htc_get_count(&r, 1);
    if (r.status != HTC_OK || out->from >= out->to || (out->inputs && out->inputs != out->to - out->from))
        return HTC_EPROTO;
    htc_reader from_here = r;
    size_t     left = htc_reader_left(&r);
    for (uint64_t i = 0; i < out->inputs; i++)
        if (htc_get_bytes(&r).len > HTC__SPAN_INPUT_MAX)
            htc_reader_fail(&r);
    if (htc_reader_done(&r) != HTC_OK)
        return HTC_EPROTO;
    out->input = htc_get_raw(&from_here, left);
    return HTC_OK;
}

void htc__span_put_failure(htc_buf *list, const htc__span_failure *f)
{
    htc_put_u64(list, f->number);
    put_status(list, f->status);
    htc_put_str(list, f->reason);
}

void htc__span_put_range(htc_buf *list, uint64_t from, uint64_t to)
{
    htc_put_u64(list, from);
    htc_put_u64(list, to);
}

void htc__span_put_output(htc_buf *list, uint64_t number, htc_bytes bytes)
{
    htc_put_u64(list, number);
    htc_put_bytes(list, bytes);
}

void htc__span_get_failure(htc_reader *list, htc__span_failure *out)
{
    out->number = htc_get_u64(list);
    out->status = get_status(list);
    htc_get_str(list, out->reason, sizeof out->reason);
}

void htc__span_get_range(htc_reader *list, uint64_t *from, uint64_t *to)
{
    *from = htc_get_u64(list);
    *to = htc_get_u64(list);
}

htc_bytes htc__span_get_output(htc_reader *list, uint64_t *number)
{
    *number = htc_get_u64(list);
    return htc_get_bytes(list);
}

void htc__span_answer_write(htc_buf *b, const htc__span_answer *a)
{
    put_status(b, a->why);
    htc_put_str(b, a->reason);
    htc_put_u64(b, a->begin);
    htc_put_u64(b, a->end);
    htc_put_u64(b, a->done);
    htc_put_varint(b, a->failed);
    htc_put_raw(b, a->failed_list);
    htc_put_varint(b, a->ranges);
    htc_put_raw(b, a->range_list);
    htc_put_varint(b, a->outputs);
    htc_put_raw(b, a->output_list);
}

/* A list is read twice: for where it ends, and then it is lent as it stands. */
static void check_failures(htc_reader *r, uint64_t n)
{
    htc__span_failure f;
    for (uint64_t i = 0; i < n && r->status == HTC_OK; i++) {
        htc__span_get_failure(r, &f);
        if (f.status == HTC_OK)
            htc_reader_fail(r);
    }
}

static void check_ranges(htc_reader *r, uint64_t n)
{
    uint64_t from = 0, to = 0, before = 0;
    for (uint64_t i = 0; i < n && r->status == HTC_OK; i++, before = to) {
        htc__span_get_range(r, &from, &to);
        if (from >= to || (i && from <= before))
            htc_reader_fail(r);
    }
}

static void check_outputs(htc_reader *r, uint64_t n)
{
    uint64_t number;
    for (uint64_t i = 0; i < n && r->status == HTC_OK; i++)
        if (htc__span_get_output(r, &number).len > HTC__SPAN_OUTPUT_MAX)
            htc_reader_fail(r);
}

static htc_bytes checked(htc_reader *r, uint64_t n, void (*check)(htc_reader *, uint64_t))
{
    htc_reader from_here = *r;
    size_t     before = htc_reader_left(r);
    check(r, n);
    return r->status == HTC_OK ? htc_get_raw(&from_here, before - htc_reader_left(r)) : (htc_bytes){ 0 };
}

htc_status htc__span_answer_read(htc_bytes body, htc__span_answer *out)
{
    htc_reader r = htc_reader_of(body);
    *out = (htc__span_answer){ .why = get_status(&r) };
    htc_get_str(&r, out->reason, sizeof out->reason);
    out->begin = htc_get_u64(&r);
    out->end = htc_get_u64(&r);
    out->done = htc_get_u64(&r);
    out->failed = htc_get_count(&r, 13);
    out->failed_list = checked(&r, out->failed, check_failures);
    out->ranges = htc_get_count(&r, 16);
    out->range_list = checked(&r, out->ranges, check_ranges);
    out->outputs = htc_get_count(&r, 9);
    out->output_list = checked(&r, out->outputs, check_outputs);
    return htc_reader_done(&r) == HTC_OK ? HTC_OK : HTC_EPROTO;
}
