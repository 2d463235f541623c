/* What the end of a transfer means for a task, and what htc-transfer is asked for. */
#include "expect.h"

#include <string.h>

#include "roles/transfer/judge.h"
#include "roles/transfer/transfer_wire.h"

Test(transfer, is_tried_again_where_that_can_help)
{
    static const struct {
        transfer_end end;
        unsigned     code;
        int          is_ftp;
        htc_status   status; /* HTC_EBUSY: it may pass */
    } rows[] = {
        { TRANSFER_DONE, 200, 0, HTC_OK },
        { TRANSFER_ANSWERED, 404, 0, HTC_EINPUT },
        { TRANSFER_ANSWERED, 410, 0, HTC_EINPUT },
        { TRANSFER_ANSWERED, 401, 0, HTC_EINPUT },
        { TRANSFER_ANSWERED, 403, 0, HTC_EINPUT },
        { TRANSFER_ANSWERED, 204, 0, HTC_EINPUT },
        { TRANSFER_ANSWERED, 408, 0, HTC_EBUSY },
        { TRANSFER_ANSWERED, 429, 0, HTC_EBUSY },
        { TRANSFER_ANSWERED, 500, 0, HTC_EBUSY },
        { TRANSFER_ANSWERED, 503, 0, HTC_EBUSY },
        { TRANSFER_ANSWERED, 501, 0, HTC_EINPUT },
        { TRANSFER_ANSWERED, 450, 1, HTC_EBUSY },
        { TRANSFER_ANSWERED, 550, 1, HTC_EINPUT },
        { TRANSFER_MISSING, 550, 1, HTC_EINPUT },
        { TRANSFER_MISSING, 450, 1, HTC_EBUSY },
        { TRANSFER_LOGIN, 530, 1, HTC_EINPUT },
        { TRANSFER_LOGIN, 421, 1, HTC_EBUSY },
        { TRANSFER_RESOLVE, 0, 0, HTC_EUNREACHABLE },
        { TRANSFER_CONNECT, 0, 0, HTC_EUNREACHABLE },
        { TRANSFER_TIMEOUT, 0, 0, HTC_ECLOSED },
        { TRANSFER_BROKEN, 200, 0, HTC_ECLOSED },
        { TRANSFER_CHANGED, 206, 0, HTC_EBUSY },
        { TRANSFER_OTHER, 0, 0, HTC_EBUSY },
        { TRANSFER_TLS, 0, 0, HTC_EINPUT },
        { TRANSFER_LARGE, 200, 0, HTC_EINPUT },
        { TRANSFER_ENDLESS, 200, 0, HTC_EINPUT },
        { TRANSFER_REDIRECT, 302, 0, HTC_EINPUT },
        { TRANSFER_FULL, 200, 0, HTC_ENOSPC },
        { TRANSFER_DISK, 200, 0, HTC_EIO },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        cr_expect(eq(int, htc__transfer_judge(rows[i].end, rows[i].code, rows[i].is_ftp), rows[i].status), "row %zu", i);
}

Test(transfer, has_words_for_each_end)
{
    char out[200];
    for (int end = TRANSFER_DONE; end < TRANSFER_ENDS; end++)
        for (int up = 0; up <= 1; up++) {
            htc__transfer_words((transfer_end)end, 404, 0, up, out, sizeof out);
            cr_expect(out[0] != '\0', "%d", end);
        }
    htc__transfer_words(TRANSFER_ANSWERED, 404, 0, 0, out, sizeof out);
    cr_expect(eq(str, out, "HTTP 404: it is not there"));
    htc__transfer_words(TRANSFER_ANSWERED, 418, 0, 0, out, sizeof out);
    cr_expect(eq(str, out, "HTTP 418"));
    htc__transfer_words(TRANSFER_MISSING, 550, 1, 0, out, sizeof out);
    cr_expect(eq(str, out, "FTP 550: it is not there, or not for us"));
    htc__transfer_words(TRANSFER_MISSING, 0, 1, 0, out, sizeof out);
    cr_expect(eq(str, out, "it is not there"));
}

/* What is said of a file that comes would be wrong of one that goes. */
Test(transfer, has_other_words_for_what_is_sent)
{
    static const struct {
        transfer_end end;
        unsigned     code;
        int          is_ftp;
        const char  *words;
    } rows[] = {
        { TRANSFER_ANSWERED, 403, 0, "HTTP 403: the server does not let us write there" },
        { TRANSFER_ANSWERED, 404, 0, "HTTP 404: its directory is not there" },
        { TRANSFER_ANSWERED, 405, 0, "HTTP 405: the server takes no files there (PUT)" },
        { TRANSFER_ANSWERED, 507, 0, "HTTP 507: the server has no room for it" },
        { TRANSFER_ANSWERED, 401, 0, "HTTP 401: the server wants another user and password (htc submit --credentials FILE)" },
        { TRANSFER_ANSWERED, 418, 0, "HTTP 418" },
        { TRANSFER_ANSWERED, 553, 1, "FTP 553: the server does not let us write there" },
        { TRANSFER_MISSING, 550, 1, "FTP 550: its directory is not there, or not for us to write" },
        { TRANSFER_BROKEN, 0, 0, "the connection ended before all was there" },
        { TRANSFER_REDIRECT, 302, 0, "the server sends on to where nothing is sent" },
        { TRANSFER_CONNECT, 0, 0, "no connection to its host" },
    };
    char out[200];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        htc__transfer_words(rows[i].end, rows[i].code, rows[i].is_ftp, 1, out, sizeof out);
        cr_expect(eq(str, out, (char *)(uintptr_t)rows[i].words), "row %zu", i);
    }
}

static htc_bytes request_of(htc_buf *b, const char *dir, const char *url, const char *name)
{
    htc_buf_init(b, NULL, 0);
    htc__transfer_request_write(b, &(transfer_request){ .parent = 7, .dir = htc_bytes_of(dir), .bytes_max = 10, .connect = 2, .stall = 3, .ca = htc_bytes_of("ca"),
                                                        .proxy = htc_bytes_of(""), .netrc = htc_bytes_of("machine h"), .count = 1 });
    htc__transfer_one_write(b, &(transfer_one){ .url = htc_bytes_of(url), .name = htc_bytes_of(name) });
    return htc_buf_bytes(b);
}

Test(transfer, asks_as_it_is_asked)
{
    htc_buf          b;
    transfer_request r;
    transfer_one     one;
    htc_bytes        all = request_of(&b, "/d", "http://h/x", "0");
    cr_assert(eq(int, htc__transfer_request_read(all, &r), HTC_OK));
    cr_expect(eq(u32, r.parent, 7) && eq(u64, r.bytes_max, 10) && eq(u64, r.connect, 2) && eq(u64, r.stall, 3) && eq(sz, r.count, 1) && eq(sz, r.netrc.len, 9));
    cr_assert(eq(int, htc__transfer_one_read(&r, &one), HTC_OK));
    cr_expect(one.up == TRANSFER_DOWN && one.url.len == 10 && one.name.len == 1 && htc_reader_done(&r.rest) == HTC_OK);
    for (size_t n = 0; n < all.len; n++) { /* cut off anywhere, it is none */
        htc_status status = htc__transfer_request_read((htc_bytes){ all.data, n }, &r);
        cr_expect(status != HTC_OK || htc__transfer_one_read(&r, &one) != HTC_OK, "%zu bytes", n);
    }
    ((uint8_t *)b.data)[0] ^= 1;
    cr_expect(eq(int, htc__transfer_request_read(htc_buf_bytes(&b), &r), HTC_EVERSION));
    htc_buf_free(&b);
}

Test(transfer, leaves_its_folder_for_no_name)
{
    static const char *const names[] = { "", ".", "..", "a/b", "../x", ".hidden" };
    htc_buf                  b;
    transfer_request         r;
    transfer_one             one;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        htc_bytes all = request_of(&b, "/d", "http://h/x", names[i]);
        cr_expect(htc__transfer_request_read(all, &r) == HTC_OK && eq(int, htc__transfer_one_read(&r, &one), HTC_EPROTO), "%s", names[i]);
        htc_buf_free(&b);
    }
    htc_bytes all = request_of(&b, "/d", "file:///etc/passwd", "0");
    cr_expect(htc__transfer_request_read(all, &r) == HTC_OK && eq(int, htc__transfer_one_read(&r, &one), HTC_EPROTO));
    htc_buf_free(&b);
    cr_expect(eq(int, htc__transfer_request_read(request_of(&b, "", "http://h/x", "0"), &r), HTC_EPROTO));
    htc_buf_free(&b);
}

Test(transfer, knows_which_way)
{
    static const struct {
        const char *url;
        uint8_t     up;
        htc_status  status;
    } rows[] = {
        { "http://h/x", TRANSFER_UP, HTC_OK },
        { "http://h/x", TRANSFER_UP_NEW, HTC_OK },
        { "ftp://h/x", TRANSFER_UP, HTC_OK },
        { "ftp://h/x", TRANSFER_UP_NEW, HTC_EPROTO }, /* the server would replace what is there */
        { "http://h/x", TRANSFER_UP_NEW + 1, HTC_EPROTO },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        htc_buf          b;
        transfer_request r;
        transfer_one     one;
        htc_buf_init(&b, NULL, 0);
        htc__transfer_request_write(&b, &(transfer_request){ .dir = htc_bytes_of("/d"), .count = 1 });
        htc__transfer_one_write(&b, &(transfer_one){ .up = rows[i].up, .url = htc_bytes_of(rows[i].url), .name = htc_bytes_of("0") });
        cr_assert(eq(int, htc__transfer_request_read(htc_buf_bytes(&b), &r), HTC_OK));
        cr_expect(eq(int, htc__transfer_one_read(&r, &one), rows[i].status), "row %zu", i);
        cr_expect(eq(int, one.up, rows[i].up));
        htc_buf_free(&b);
    }
}

Test(transfer, answers)
{
    htc_buf    b;
    htc_status status;
    char       text[20];
    htc_buf_init(&b, NULL, 0);
    htc__transfer_answer_write(&b, HTC_EINPUT, "not there");
    cr_assert(eq(int, htc__transfer_answer_read(htc_buf_bytes(&b), &status, text, sizeof text), HTC_OK));
    cr_expect(eq(int, status, HTC_EINPUT) && eq(str, text, "not there"));
    cr_expect(eq(int, htc__transfer_answer_read((htc_bytes){ b.data, b.len - 1 }, &status, text, sizeof text), HTC_EPROTO));
    htc_buf_free(&b);
}
