/* du: what disk jobs hold, and uploads. */
#include <string.h>

#include "roles/gateway/gateway.h"

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
        char      hex[2 * 32 + 1];
        for (size_t i = 0; i < hash.len; i++)
            snprintf(hex + 2 * i, 3, "%02x", ((const uint8_t *)hash.data)[i]);
        if (r.status == HTC_OK)
            json_array_append_new(content, json_pack("{s:s,s:I}", "hash", hex, "size", (json_int_t)size));
    }
    if (status == HTC_OK)
        json_array_append_new(h.q->answer,
                              json_pack("{s:I,s:s,s:s,s:s,s:I,s:I,s:o}", "id", (json_int_t)h.job->id, "user", h.job->user->name,
                                        "name", h.job->name, "state", htc__gw_job_state(h.job), "outputs", (json_int_t)bytes, "files",
                                        (json_int_t)files, "content", content));
    else
        json_decref(content);
    htc__gw_job_release(gw, h.job);
    if (status == HTC_OK)
        next_job(gw, h.q);
    else
        htc__gw_req_fail(gw, h.q, status, "try again in a moment", "the files could not be counted: %s", htc_strerror(status));
}

static void content_read(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    holding *h = ctx;
    htc_buf_clear(&gw->scratch);
    htc_put_u64(&gw->scratch, h->job->id);
    htc_put_str(&gw->scratch, h->job->user->name);
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
    htc__gw_job_hold(j);
    key k = htc__gw_key_content(j->id);
    htc_runtime_ask(gw->runtime,
                    &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = htc__gw_key_bytes(&k) }, 1, content_read, h);
}

/* One that was removed since the list was read is passed over. */
static void next_job(htc_gateway *gw, request *q)
{
    if (q->at < q->n_ids) {
        htc__gw_with_job(gw, q, q->ids[q->at++], measure);
        return;
    }
    json_t *jobs = q->answer;
    q->answer = NULL;
    htc__gw_req_answer(gw, q, json_pack("{s:o,s:o}", "jobs", jobs, "next", htc__gw_req_next(q)));
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
        htc__gw_req_fail(gw, q, status != HTC_OK ? status : HTC_EINTERNAL, "try again in a moment", "the files could not be counted: %s",
                         htc_strerror(status));
    else
        htc__gw_req_answer(gw, q,
                           json_pack("{s:{s:I,s:I},s:{s:I,s:I},s:{s:I,s:I}}", "outputs", "bytes", (json_int_t)n[0], "files", (json_int_t)n[1],
                             "content", "bytes", (json_int_t)n[2], "files", (json_int_t)n[3], "uploads", "bytes", (json_int_t)n[4],
                             "files", (json_int_t)n[5]));
}

void htc__gw_api_du(htc_gateway *gw, request *q)
{
    if (htc__gw_req_flag(q, "total") && !q->operator_) {
        htc__gw_req_fail(gw, q, HTC_EDENIED, "leave it away for your own jobs", "only the operator may see what all hold");
    } else if (htc__gw_req_flag(q, "total")) {
        htc_buf_clear(&gw->scratch);
        htc_put_u64(&gw->scratch, 0);
        htc_runtime_call(gw->runtime, HTC_CALL_DISK_USE, htc_buf_bytes(&gw->scratch), total_measured, q);
    } else if (json_object_get(q->body, "id")) {
        htc__gw_select(gw, q, jobs_selected);
    } else {
        htc__gw_list_jobs(gw, q, 50, NULL, jobs_selected);
    }
}
