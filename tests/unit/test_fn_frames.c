/* Frames and records of functions: what was written comes back, and nothing that is cut off or out of bounds is taken. */
#include "expect.h"

#include <stdlib.h>
#include <string.h>

#include "roles/functions/fn_frames.h"
#include "roles/runtime/span_wire.h"

static htc__fn_frame *read_back(const htc_buf *b)
{
    htc__fn_frame *out = calloc(1, sizeof *out);
    cr_assert(eq(int, htc__fn_frame_read(htc_buf_bytes(b), out), HTC_OK));
    for (size_t n = 0; n < b->len; n++) {
        htc__fn_frame *cut = calloc(1, sizeof *cut);
        cr_expect(eq(int, htc__fn_frame_read((htc_bytes){ b->data, n }, cut), HTC_EPROTO), "the first %zu bytes", n);
        free(cut);
    }
    return out;
}

Test(fn_frames, come_back_as_they_went)
{
    static const htc__fn_frame frames[] = {
        { .kind = FN_HELLO, .version = 1, .threads = 7 },
        { .kind = FN_OPEN, .span = 63, .task_kind = 2, .function = "f", .argument = "a b", .object = "/x" },
        { .kind = FN_PORTION, .span = 1, .portion = 255, .from = UINT64_MAX - HTC__FN_PORTION_TASKS, .n = HTC__FN_PORTION_TASKS },
        { .kind = FN_STOP, .span = 2, .cancelled = 1 },
        { .kind = FN_CLOSE, .span = 3 },
        { .kind = FN_OPENED, .span = 4, .status = HTC_EVERSION, .reason = "why" },
    };
    for (size_t i = 0; i < sizeof frames / sizeof *frames; i++) {
        htc_buf b;
        htc_buf_init(&b, NULL, 0);
        htc__fn_frame_write(&b, &frames[i]);
        htc__fn_frame *out = read_back(&b);
        cr_expect(eq(sz, out->input.len, 0));
        out->input.data = NULL;
        cr_expect(memcmp(out, &frames[i], sizeof *out) == 0, "frame %zu", i);
        free(out);
        htc_put_u8(&b, 0);
        out = calloc(1, sizeof *out);
        cr_expect(eq(int, htc__fn_frame_read(htc_buf_bytes(&b), out), HTC_EPROTO), "one byte more, frame %zu", i);
        free(out);
        htc_buf_free(&b);
    }
}

Test(fn_frames, inputs)
{
    htc_buf b, in;
    htc_buf_init(&b, NULL, 0);
    htc_buf_init(&in, NULL, 0);
    for (int i = 0; i < 3; i++)
        htc_put_bytes(&in, (htc_bytes){ "abcdef", (size_t)i * 2 });
    htc__fn_frame *f = calloc(1, sizeof *f), *out;
    *f = (htc__fn_frame){ .kind = FN_PORTION, .from = 9, .n = 3, .with_input = 1, .input = htc_buf_bytes(&in) };
    htc__fn_frame_write(&b, f);
    out = read_back(&b);
    cr_expect(htc_bytes_equal(out->input, f->input));
    free(out);
    free(f);
    htc_buf_free(&b);
    htc_buf_free(&in);
}

Test(fn_frames, out_of_bounds)
{
    static const htc__fn_frame bad[] = {
        { .kind = 0 },
        { .kind = 7 },
        { .kind = FN_CLOSE, .span = HTC__FN_SPANS_MAX },
        { .kind = FN_PORTION, .portion = HTC__FN_PORTIONS_MAX, .n = 1 },
        { .kind = FN_PORTION, .n = 0 },
        { .kind = FN_PORTION, .n = HTC__FN_PORTION_TASKS + 1 },
        { .kind = FN_PORTION, .from = UINT64_MAX, .n = 1 },
    };
    htc__fn_frame *out = calloc(1, sizeof *out);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        htc_buf b;
        htc_buf_init(&b, NULL, 0);
        htc__fn_frame_write(&b, &bad[i]);
        cr_expect(eq(int, htc__fn_frame_read(htc_buf_bytes(&b), out), HTC_EPROTO), "frame %zu", i);
        htc_buf_free(&b);
    }
    free(out);
}

Test(fn_frames, records)
{
    static const struct {
        htc__fn_record r;
        htc_status     status;
    } table[] = {
        { { FN_ENDED, 0, 0, 1, 0, 0 }, HTC_OK },
        { { FN_ENDED, 255, 0, HTC__FN_PORTION_TASKS, 0, 0 }, HTC_OK },
        { { FN_ENDED, 256, 0, 1, 0, 0 }, HTC_EPROTO },
        { { FN_ENDED, 0, 1, HTC__FN_PORTION_TASKS, 0, 0 }, HTC_EPROTO },
        { { FN_ENDED, 0, UINT32_MAX, 1, 0, 0 }, HTC_EPROTO },
        { { FN_ENDED, 0, 0, 0, 0, 0 }, HTC_EPROTO },
        { { FN_ENDED, 0, 0, 1, 0, 8 }, HTC_EPROTO },
        { { FN_SKIPPED, 0, 5, 5, 0, 0 }, HTC_OK },
        { { FN_OUTPUT, 0, 5, 1, 0, HTC__FN_OUTPUT_MAX }, HTC_OK },
        { { FN_OUTPUT, 0, 5, 1, 0, 0 }, HTC_OK },
        { { FN_OUTPUT, 0, 5, 2, 0, 1 }, HTC_EPROTO },
        { { FN_OUTPUT, 0, 5, 1, 0, HTC__FN_OUTPUT_MAX + 1 }, HTC_EPROTO },
        { { FN_OUTPUT, 0, 5, 1, 0, UINT32_MAX }, HTC_EPROTO },
        { { FN_FAILED, 0, 5, 1, HTC_EEXIT, 255 }, HTC_OK },
        { { FN_FAILED, 0, 5, 1, HTC_EEXIT, 256 }, HTC_EPROTO },
        { { FN_FAILED, 0, 5, 1, HTC_OK, 5 }, HTC_EPROTO },
        { { FN_FAILED, 0, 5, 1, HTC_AGAIN, 5 }, HTC_EPROTO },
        { { 0, 0, 5, 1, 0, 0 }, HTC_EPROTO },
        { { 5, 0, 5, 1, 0, 0 }, HTC_EPROTO },
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        uint8_t        ring[2 * HTC__FN_RECORD_MAX] = { 0 };
        htc__fn_record out;
        size_t         size = htc__fn_record_size(&table[i].r);
        htc_bytes      bytes, rest = { ring, size < sizeof ring ? size : sizeof ring }, cut = { ring, rest.len - 1 };
        memcpy(ring, &table[i].r, sizeof out);
        cr_expect(eq(int, htc__fn_record_next(&cut, &out, &bytes), HTC_EPROTO), "row %zu", i);
        cr_expect(eq(int, htc__fn_record_next(&rest, &out, &bytes), table[i].status), "row %zu", i);
        if (table[i].status == HTC_OK) {
            cr_expect(memcmp(&out, &table[i].r, sizeof out) == 0 && bytes.len == out.bytes && rest.len == 0);
            cr_expect(eq(int, htc__fn_record_next(&rest, &out, &bytes), HTC_EMPTY));
        }
    }
}

/* The answer of a span, with all of its lists. */
Test(fn_frames, answers_of_spans)
{
    htc_buf          body, lists[3];
    htc__span_answer a = { .why = HTC_AGAIN, .reason = "taken back", .begin = 5, .end = 9, .done = 77, .failed = 2, .ranges = 2, .outputs = 1 }, out;
    for (int i = 0; i < 3; i++)
        htc_buf_init(&lists[i], NULL, 0);
    htc_buf_init(&body, NULL, 0);
    htc__span_put_failure(&lists[0], &(htc__span_failure){ 3, HTC_EEXIT, "x" });
    htc__span_put_failure(&lists[0], &(htc__span_failure){ 4, HTC_ESIGNAL, "" });
    htc__span_put_range(&lists[1], 10, 20);
    htc__span_put_range(&lists[1], 21, UINT64_MAX);
    htc__span_put_output(&lists[2], 7, htc_bytes_of("seven"));
    a.failed_list = htc_buf_bytes(&lists[0]);
    a.range_list = htc_buf_bytes(&lists[1]);
    a.output_list = htc_buf_bytes(&lists[2]);
    htc__span_answer_write(&body, &a);
    cr_assert(eq(int, htc__span_answer_read(htc_buf_bytes(&body), &out), HTC_OK));
    cr_expect(out.why == a.why && out.begin == 5 && out.end == 9 && out.done == 77 && strcmp(out.reason, a.reason) == 0);
    cr_expect(htc_bytes_equal(out.failed_list, a.failed_list) && htc_bytes_equal(out.range_list, a.range_list) &&
              htc_bytes_equal(out.output_list, a.output_list));
    for (size_t n = 0; n < body.len; n++)
        cr_expect(eq(int, htc__span_answer_read((htc_bytes){ body.data, n }, &out), HTC_EPROTO));
    /* Ranges that touch, or go backwards. */
    htc_buf_clear(&body);
    htc_buf_clear(&lists[1]);
    htc__span_put_range(&lists[1], 10, 20);
    htc__span_put_range(&lists[1], 20, 21);
    a.range_list = htc_buf_bytes(&lists[1]);
    htc__span_answer_write(&body, &a);
    cr_expect(eq(int, htc__span_answer_read(htc_buf_bytes(&body), &out), HTC_EPROTO));
    htc_buf_free(&body);
    for (int i = 0; i < 3; i++)
        htc_buf_free(&lists[i]);
}
