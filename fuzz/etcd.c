/* What etcd answers, from somebody who need not be etcd: whatever comes, a request is answered once, with what its caller can
 * rely on; nothing is read beyond an answer's end. First byte: which request; then answers: u8 whose bit 7 says that it comes with
 * an error's status, and whose others of value 127 that the connection breaks; u16 length, bytes. */
#include <string.h>

#include <jansson.h>

#include "check.h"
#include "kvs/wire/kv_wire.h"
#include "net/remote/etcd.h"

static const char *const prefix = "p/";

static htc_kv_request request_of(uint8_t which)
{
    htc_kv_request q = { .size = sizeof q, .op = which % 12 + 1, .key = htc_bytes_of("k"), .value = htc_bytes_of("7"), .limit = 3 };
    if (q.op == HTC_KV_SCAN && which & 64)
        q.cursor = htc_bytes_of("kk");
    if (q.op == HTC_KV_PUT || q.op == HTC_KV_DELETE)
        q.flags = which & 64 ? HTC_KV_WANT_OLD : 0;
    if (q.op == HTC_KV_PUT && which & 128)
        q.flags |= HTC_KV_NX;
    q.seen = q.op == HTC_KV_CAS_VALUE ? htc_bytes_of("6") : q.seen;
    q.lease = 3;
    q.ttl = q.op == HTC_KV_LEASE_GRANT ? HTC_SECOND : 0;
    q.delta = 1;
    return q;
}

static void judge(const htc_kv_request *q, const htc_kv_result *r)
{
    htc_kv_item item;
    size_t      at = 0;
    htc_bytes   last = q->cursor;
    CHECK(r->op == q->op && r->last && r->cursor.len <= HTC_KV_KEY_MAX && r->value.len <= HTC__ETCD_BODY_MAX);
    CHECK(r->items <= 3 && (r->items == 0 || q->op == HTC_KV_SCAN));
    CHECK(r->version <= INT64_MAX && r->lease <= INT64_MAX);
    for (uint32_t i = 0; i < r->items; i++) {
        CHECK(htc_kv_result_item(r, &at, &item) == HTC_OK && item.key.len <= HTC_KV_KEY_MAX && item.version > 0);
        CHECK(memcmp(item.key.data, q->key.data, q->key.len) == 0 && htc_bytes_compare(item.key, last) > 0);
        last = item.key;
    }
    CHECK(r->cursor.len == 0 || htc_bytes_compare(r->cursor, q->cursor) > 0);
    CHECK(r->status != HTC_EUNKNOWN || htc__kv_is_change(q->op));
}

/* 1: more of data is for later answers. */
static int next_answer(const uint8_t **data, size_t *size, int *how, htc_bytes *body)
{
    if (*size < 3)
        return 0;
    size_t len = (*data)[1] | (size_t)(*data)[2] << 8;
    *how = (*data)[0];
    *data += 3, *size -= 3;
    len = len < *size ? len : *size;
    *body = (htc_bytes){ *data, len };
    *data += len, *size -= len;
    return 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    htc__etcd_words w = { .env = { .size = sizeof(htc_env) } };
    htc_kv_request  q = request_of(size ? data[0] : 0);
    htc_kv_result   r = { .size = sizeof r };
    htc_bytes       body;
    htc_buf         said;
    htc__etcd_next  next = HTC__ETCD_SEND;
    const char     *path;
    int             how;
    strcpy(w.prefix, prefix);
    htc__window_init(&w.window, &w.env, 1, HTC_NEVER);
    htc_buf_init(&w.kept, NULL, 0);
    htc_buf_init(&w.scratch, NULL, 0);
    htc_buf_init(&said, NULL, 0);
    CHECK(htc__window_submit(&w.window, &q, 1, 0) == HTC_OK);
    htc__ask *ask = htc__window_start(&w.window);
    data += size > 0, size -= size > 0;
    while (next != HTC__ETCD_ANSWERED && next_answer(&data, &size, &how, &body)) {
        htc_buf_clear(&said);
        CHECK(htc__etcd_say(&w, ask, &said, &path) == HTC_OK && path);
        json_t *valid = json_loadb((const char *)said.data, said.len, 0, NULL);
        CHECK(json_is_object(valid));
        json_decref(valid);
        htc_status status = (how & 127) == 127
                                ? htc__etcd_lost(&w, ask, how >> 7, HTC_ECLOSED, &next)
                                : htc__etcd_heard(&w, ask, how & 128 ? 400 + (how & 127) : 200, body, &next);
        CHECK(status == HTC_OK);
    }
    CHECK(htc__window_next(&w.window, &r) == (next == HTC__ETCD_ANSWERED));
    if (next == HTC__ETCD_ANSWERED)
        judge(&q, &r);
    htc__window_free(&w.window);
    htc_buf_free(&w.kept);
    htc_buf_free(&w.scratch);
    htc_buf_free(&said);
    return 0;
}
