/* Uploaded content: which jobs name it, and when nobody does.
 *
 * A job's record of content (b/JOB) lists the hashes that stand in its document. Once an hour all of these lists are read, and
 * the host removes what is in none of them and was not asked for within the grace. A submission asks for what it names before
 * its list is written, so nothing is removed between the two. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "roles/gateway/gateway.h"

#define HEX_LEN 64
#define SWEEP_EVERY_MAX (3600 * HTC_SECOND)

/* ---- what a document names ---- */

static int hex_value(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static void put_hash(htc_buf *out, const char *hex)
{
    uint8_t hash[32];
    for (size_t i = 0; i < sizeof hash; i++)
        hash[i] = (uint8_t)(hex_value(hex[2 * i]) << 4 | hex_value(hex[2 * i + 1]));
    htc_put_raw(out, (htc_bytes){ hash, sizeof hash });
}

static int by_bytes(const void *a, const void *b)
{
    return memcmp(a, b, 32);
}

static void sort_unique(htc_buf *b)
{
    size_t n = b->len / 32, kept = 0;
    if (n)
        qsort(b->data, n, 32, by_bytes);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || memcmp(b->data + i * 32, b->data + (kept - 1) * 32, 32) != 0)
            memmove(b->data + kept++ * 32, b->data + i * 32, 32);
    b->len = kept * 32;
}

/* Every run of 64 hex digits, be it part of a URI or a value that a sweep makes one of. A hash that is put together of parts is
 * not found, and its content not kept. */
void gw_content_find(htc_bytes document, htc_buf *hashes)
{
    const char *p = document.data;
    for (size_t i = 0, run = 0; i <= document.len; i++) {
        if (i < document.len && hex_value(p[i]) >= 0) {
            run++;
            continue;
        }
        if (run == HEX_LEN)
            put_hash(hashes, p + i - run);
        run = 0;
    }
    if (hashes->status == HTC_OK)
        sort_unique(hashes);
}

/* ---- what none names ---- */

static htc_ns every(const htc_gateway *gw)
{
    htc_ns part = gw->options.content_grace_ns / 24;
    return part < SWEEP_EVERY_MAX ? part : SWEEP_EVERY_MAX;
}

static void swept(void *role, void *ctx, htc_status status, htc_bytes body)
{
    htc_gateway *gw = role;
    htc_reader r = htc_reader_of(body);
    uint64_t   files = htc_get_u64(&r), bytes = htc_get_u64(&r);
    (void)ctx;
    gw->content_busy = 0;
    if (status != HTC_OK)
        htc__log_with(&gw->env, HTC_LOG_WARN, HTC__FIELDS(HTC__STATUS(status)),
                      "uploads that no job names could not be removed (%s) -> look again later", htc_strerror(status));
    else if (files)
        htc__log_with(&gw->env, HTC_LOG_INFO, HTC__FIELDS(HTC__NUMBER("files", files), HTC__NUMBER("bytes", bytes)),
                      "%llu uploads of %llu bytes are named by no job -> removed", (unsigned long long)files,
                      (unsigned long long)bytes);
}

static void marks_page(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    htc_kv_item item;
    size_t      at = 0;
    (void)ctx;
    gw->content_busy = 0;
    if (r->status != HTC_OK)
        return; /* the next look does it */
    htc_runtime_cursor next = htc_runtime_next_page(gw->runtime, r);
    for (uint32_t i = 0; i < r->items && htc_kv_result_item(r, &at, &item) == HTC_OK; i++)
        htc_put_raw(&gw->marks, item.value);
    if (gw->marks.status != HTC_OK || gw->marks.len % 32 != 8)
        return; /* what is not known entirely removes nothing */
    gw->content_busy = 1;
    if (next.len) {
        htc_runtime_scan(gw->runtime, htc_bytes_of("b/"), &next, 0, marks_page, NULL);
        return;
    }
    htc_runtime_call(gw->runtime, HTC_CALL_CONTENT_SWEEP, htc_buf_bytes(&gw->marks), swept, NULL);
    htc_buf_free(&gw->marks);
}

void gw_content_look(htc_gateway *gw)
{
    if (gw->content_busy || gw->now < gw->content_at)
        return;
    int first = gw->content_at == 0;
    gw->content_at = gw->now + every(gw);
    if (first)
        return;
    gw->content_busy = 1;
    htc_buf_free(&gw->marks);
    htc_buf_init(&gw->marks, &gw->env, 0);
    htc_put_u64(&gw->marks, gw->options.content_grace_ns);
    htc_runtime_scan(gw->runtime, htc_bytes_of("b/"), NULL, 0, marks_page, NULL);
}

/* ---- who holds what ---- */

typedef struct holding {
    request *q;
    job     *job;
} holding;

static void next_job(htc_gateway *gw, request *q);

static void job_measured(void *role, void *ctx, htc_status status, htc_bytes body)
{
    htc_gateway *gw = role;
    holding    h = *(holding *)ctx;
    htc_reader r = htc_reader_of(body);
    uint64_t   bytes = htc_get_u64(&r), files = htc_get_u64(&r);
    json_t    *content = json_array();
    htc_runtime_context_free(gw->runtime, ctx);
    while (status == HTC_OK && r.status == HTC_OK && htc_reader_left(&r)) {
        htc_bytes hash = htc_get_raw(&r, 32);
        uint64_t  size = htc_get_u64(&r);
        char      hex[HEX_LEN + 1];
        for (size_t i = 0; i < hash.len; i++)
            snprintf(hex + 2 * i, 3, "%02x", ((const uint8_t *)hash.data)[i]);
        if (r.status == HTC_OK)
            json_array_append_new(content, json_pack("{s:s,s:I}", "hash", hex, "size", (json_int_t)size));
    }
    if (status == HTC_OK)
        json_array_append_new(h.q->answer,
                              json_pack("{s:I,s:s,s:s,s:s,s:I,s:I,s:o}", "id", (json_int_t)h.job->id, "user", h.job->user->name,
                                        "name", h.job->name, "state", job_state(h.job), "outputs", (json_int_t)bytes, "files",
                                        (json_int_t)files, "content", content));
    else
        json_decref(content);
    gw_job_release(gw, h.job);
    if (status == HTC_OK)
        next_job(gw, h.q);
    else
        req_fail(gw, h.q, status, "try again in a moment", "the files could not be counted: %s", htc_strerror(status));
}

static void content_read(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    holding *h = ctx;
    htc_buf_clear(&gw->scratch);
    htc_put_u64(&gw->scratch, h->job->id);
    if (r->status == HTC_OK)
        htc_put_raw(&gw->scratch, r->value);
    htc_runtime_call(gw->runtime, HTC_CALL_DISK_USE, htc_buf_bytes(&gw->scratch), job_measured, h);
}

static void measure(htc_gateway *gw, request *q, job *j)
{
    holding *h = htc_runtime_context(gw->runtime, sizeof *h);
    if (!h)
        return;
    *h = (holding){ q, j };
    gw_job_hold(j);
    key k = key_content(j->id);
    htc_runtime_ask(gw->runtime,
                    &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = key_bytes(&k) }, 1, content_read, h);
}

/* One that was removed since the list was read is passed over. */
static void next_job(htc_gateway *gw, request *q)
{
    if (q->at < q->n_ids) {
        gw_with_job(gw, q, q->ids[q->at++], measure);
        return;
    }
    json_t *jobs = q->answer;
    q->answer = NULL;
    req_answer(gw, q, json_pack("{s:o,s:o}", "jobs", jobs, "next", req_next(q)));
}

static void next_is(htc_gateway *gw, request *q, const uint64_t *ids, size_t n)
{
    (void)ids;
    (void)n;
    next_job(gw, q);
}

static void jobs_selected(htc_gateway *gw, request *q, const uint64_t *ids, size_t n)
{
    q->answer = json_array();
    q->at = 0;
    q->passed = next_is; /* one that is removed meanwhile holds nothing */
    next_is(gw, q, ids, n);
}

static void total_measured(void *role, void *ctx, htc_status status, htc_bytes body)
{
    htc_gateway *gw = role;
    request   *q = ctx;
    htc_reader r = htc_reader_of(body);
    uint64_t   n[6];
    for (size_t i = 0; i < 6; i++)
        n[i] = htc_get_u64(&r);
    if (status != HTC_OK || r.status != HTC_OK)
        req_fail(gw, q, status != HTC_OK ? status : HTC_EINTERNAL, "try again in a moment", "the files could not be counted: %s",
                 htc_strerror(status));
    else
        req_answer(gw, q,
                   json_pack("{s:{s:I,s:I},s:{s:I,s:I},s:{s:I,s:I}}", "outputs", "bytes", (json_int_t)n[0], "files", (json_int_t)n[1],
                             "content", "bytes", (json_int_t)n[2], "files", (json_int_t)n[3], "uploads", "bytes", (json_int_t)n[4],
                             "files", (json_int_t)n[5]));
}

void api_du(htc_gateway *gw, request *q)
{
    if (req_flag(q, "total") && !q->operator_) {
        req_fail(gw, q, HTC_EDENIED, "leave it away for your own jobs", "only the operator may see what all hold");
    } else if (req_flag(q, "total")) {
        htc_buf_clear(&gw->scratch);
        htc_put_u64(&gw->scratch, 0);
        htc_runtime_call(gw->runtime, HTC_CALL_DISK_USE, htc_buf_bytes(&gw->scratch), total_measured, q);
    } else if (json_object_get(q->body, "id")) {
        gw_select(gw, q, jobs_selected);
    } else {
        gw_list_jobs(gw, q, 50, NULL, jobs_selected);
    }
}
