/* What a helper of functions, or the user's code in it, can say to its executor: a frame, or a ring of records. The first byte says which. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "htcsched/bytes.h"
#include "roles/functions/fn_frames.h"
#include "roles/functions/span_book.h"

static void try_frame(htc_bytes bytes)
{
    htc__fn_frame *f = calloc(1, sizeof *f);
    htc_buf        b;
    CHECK(f);
    htc_status status = htc__fn_frame_read(bytes, f);
    CHECK(status == HTC_OK || status == HTC_EPROTO);
    if (status == HTC_OK) {
        CHECK(f->span < HTC__FN_SPANS_MAX && f->portion < HTC__FN_PORTIONS_MAX && f->n <= HTC__FN_PORTION_TASKS);
        htc_buf_init(&b, NULL, 0);
        htc__fn_frame_write(&b, f);
        CHECK(htc_bytes_equal(htc_buf_bytes(&b), bytes));
        htc_buf_free(&b);
    }
    free(f);
}

/* All of them, into a book: numbers are never lost nor doubled. */
static void try_records(htc_bytes rest)
{
    htc__span_book   *book;
    htc__span_portion p;
    htc__fn_record    r;
    htc_bytes         bytes;
    CHECK(htc__span_book_create(NULL, 100, 400, &book) == HTC_OK);
    for (int i = 0; i < 3; i++)
        CHECK(htc__span_book_next(book, 80, &p) == HTC_OK);
    while (htc__fn_record_next(&rest, &r, &bytes) == HTC_OK) {
        CHECK(bytes.len <= HTC__FN_OUTPUT_MAX && r.count > 0);
        uint32_t index = r.portion % HTC__SPAN_PORTIONS;
        switch (r.kind) {
        case FN_ENDED: htc__span_book_ended(book, index, r.offset, r.count); break;
        case FN_SKIPPED: htc__span_book_skipped(book, index, r.offset, r.count); break;
        case FN_OUTPUT: htc__span_book_output(book, index, r.offset); break;
        default: htc__span_book_failed(book, index, r.offset); break;
        }
    }
    uint64_t from, to, waits = 0;
    CHECK(htc__span_book_lost(book) == HTC_OK);
    for (uint32_t i = 0; htc__span_book_range(book, i, &from, &to); i++)
        waits += to - from;
    CHECK(waits + htc__span_book_done(book) + htc__span_book_failures(book) == 300);
    htc__span_book_destroy(book);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    if (data[0] & 1)
        try_records((htc_bytes){ data + 1, size - 1 });
    else
        try_frame((htc_bytes){ data + 1, size - 1 });
    return 0;
}
