/* A span as it is asked for, and as it is answered. The first byte says which; what is taken is written back the same. */
#include "check.h"
#include "htcsched/bytes.h"
#include "roles/runtime/span_wire.h"

static void try_request(htc_bytes bytes)
{
    htc__span_request r;
    htc_buf           b;
    htc_status        status = htc__span_request_read(bytes, &r);
    CHECK(status == HTC_OK || status == HTC_EPROTO);
    if (status != HTC_OK)
        return;
    CHECK(r.from < r.to && (!r.inputs || r.inputs == r.to - r.from));
    htc_buf_init(&b, NULL, 0);
    htc__span_request_write(&b, &r);
    CHECK(htc_bytes_equal(htc_buf_bytes(&b), bytes));
    htc_buf_free(&b);
}

static void try_answer(htc_bytes bytes)
{
    htc__span_answer a;
    htc_buf          b;
    htc_status       status = htc__span_answer_read(bytes, &a);
    CHECK(status == HTC_OK || status == HTC_EPROTO);
    if (status != HTC_OK)
        return;
    htc_reader failed = htc_reader_of(a.failed_list), ranges = htc_reader_of(a.range_list), outputs = htc_reader_of(a.output_list);
    uint64_t   from, to;
    for (uint64_t i = 0; i < a.failed; i++) {
        htc__span_failure f;
        htc__span_get_failure(&failed, &f);
        CHECK(f.status != HTC_OK);
    }
    for (uint64_t i = 0; i < a.ranges; i++) {
        htc__span_get_range(&ranges, &from, &to);
        CHECK(from < to);
    }
    for (uint64_t i = 0; i < a.outputs; i++)
        CHECK(htc__span_get_output(&outputs, &from).len <= HTC__SPAN_OUTPUT_MAX);
    CHECK(htc_reader_done(&failed) == HTC_OK && htc_reader_done(&ranges) == HTC_OK && htc_reader_done(&outputs) == HTC_OK);
    htc_buf_init(&b, NULL, 0);
    htc__span_answer_write(&b, &a);
    CHECK(htc_bytes_equal(htc_buf_bytes(&b), bytes));
    htc_buf_free(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    if (data[0] & 1)
        try_answer((htc_bytes){ data + 1, size - 1 });
    else
        try_request((htc_bytes){ data + 1, size - 1 });
    return 0;
}
