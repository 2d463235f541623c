/* What htc-transfer is asked for, what it answers, and the users and passwords that it gets. The first byte says which; what is taken is written back
 * the same, or as what reads the same. */
#include <string.h>

#include "check.h"
#include "core/netrc.h"
#include "core/url.h"
#include "htcsched/bytes.h"
#include "roles/transfer/transfer_wire.h"

static void try_request(htc_bytes bytes)
{
    transfer_request r, again;
    transfer_one     one;
    htc_buf          b;
    htc_status       status = htc__transfer_request_read(bytes, &r);
    CHECK(status == HTC_OK || status == HTC_EPROTO || status == HTC_EVERSION);
    if (status != HTC_OK)
        return;
    CHECK(r.dir.len > 0 && !memchr(r.dir.data, 0, r.dir.len));
    again = r;
    htc_buf_init(&b, NULL, 0);
    htc__transfer_request_write(&b, &r);
    for (size_t i = 0; i < r.count && status == HTC_OK; i++) {
        status = htc__transfer_one_read(&again, &one);
        CHECK(status == HTC_OK || status == HTC_EPROTO);
        if (status == HTC_OK) {
            CHECK(one.up <= TRANSFER_UP_NEW && (one.up != TRANSFER_UP_NEW || !htc__url_is_ftp(one.url)));
            CHECK(one.url.len <= HTC__URL_MAX && !htc__url_wrong(one.url) && one.name.len && !memchr(one.name.data, '/', one.name.len));
            htc__transfer_one_write(&b, &one);
        }
    }
    if (status == HTC_OK) {
        CHECK(b.status == HTC_OK && htc__transfer_request_read(htc_buf_bytes(&b), &again) == HTC_OK);
        CHECK(again.count == r.count && again.parent == r.parent && again.bytes_max == r.bytes_max && htc_bytes_equal(again.netrc, r.netrc) &&
              htc_bytes_equal(again.dir, r.dir));
        for (size_t i = 0; i < r.count; i++)
            CHECK(htc__transfer_one_read(&again, &one) == HTC_OK);
        CHECK(htc_reader_done(&again.rest) == HTC_OK);
    }
    htc_buf_free(&b);
}

static void try_answer(htc_bytes bytes)
{
    htc_status status, said;
    char       text[300], same[300];
    htc_buf    b;
    if (htc__transfer_answer_read(bytes, &status, text, sizeof text) != HTC_OK)
        return;
    CHECK(strlen(text) < sizeof text);
    htc_buf_init(&b, NULL, 0);
    htc__transfer_answer_write(&b, status, text);
    CHECK(htc__transfer_answer_read(htc_buf_bytes(&b), &said, same, sizeof same) == HTC_OK && said == status && strcmp(text, same) == 0);
    htc_buf_free(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    htc_bytes rest = { data + 1, size - 1 };
    if (data[0] % 3 == 0)
        try_request(rest);
    else if (data[0] % 3 == 1)
        try_answer(rest);
    else if (!htc__netrc_wrong(rest))
        CHECK(rest.len <= HTC__NETRC_MAX && !memchr(rest.data, 0, rest.len));
    return 0;
}
