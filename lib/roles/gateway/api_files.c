/* What a task has written, and the content of files: log, blob, UPLOAD, DOWNLOAD. The bytes are the host's; who may see them
 * is decided here. */
#include <sodium.h>
#include <string.h>

#include "roles/gateway/gateway.h"

#define PIECE_MAX (1u << 20)
#define LOG_MAX (256u << 10)

/* ---- one stored output, or what a running task has written so far ---- */

typedef struct reading {
    request    *q;
    job        *job;
    htc_attempt at;
    char        name[HTC_OUTPUT_NAME_MAX];
    uint64_t    offset;
    uint32_t    len;
    uint8_t     final, live;
    htc_status  failed; /* of a task that has: how */
} reading;

static void reading_end(htc_gateway *gw, reading *f)
{
    htc__gw_job_release(gw, f->job);
    htc_runtime_context_free(gw->runtime, f);
}

static void answer_log(htc_gateway *gw, reading *f, uint64_t size, htc_bytes bytes)
{
    json_t *o = json_pack("{s:I,s:I,s:I,s:b}", "size", (json_int_t)size, "offset", (json_int_t)f->offset, "attempt",
                          (json_int_t)f->at.attempt, "final", f->final);
    if (f->failed != HTC_OK)
        json_object_set_new(o, "status", json_string(htc_status_name(f->failed)));
    json_t *text = json_stringn(bytes.len ? bytes.data : "", bytes.len);
    if (text) {
        json_object_set_new(o, "text", text);
    } else {
        size_t n = sodium_base64_encoded_len(bytes.len, sodium_base64_VARIANT_ORIGINAL);
        char  *b64 = htc__alloc(&gw->env, n);
        if (b64)
            json_object_set_new(o, "base64", json_string(sodium_bin2base64(b64, n, bytes.data, bytes.len, sodium_base64_VARIANT_ORIGINAL)));
        htc__free(&gw->env, b64, n);
    }
    htc__gw_req_answer(gw, f->q, o);
}

static void answer_bytes(htc_gateway *gw, reading *f, uint64_t size, htc_bytes bytes)
{
    htc_wire_begin(&gw->scratch, HTC_WIRE_FILE_BYTES, f->q->id);
    htc_put_u64(&gw->scratch, f->offset);
    htc_put_u64(&gw->scratch, size);
    htc_put_u32(&gw->scratch, f->at.attempt);
    htc_put_bytes(&gw->scratch, bytes);
    htc_runtime_send(gw->runtime, f->q->peer, &gw->scratch);
    htc__gw_req_free(gw, f->q);
}

static void file_read(void *role, void *ctx, htc_status status, htc_bytes body)
{
    htc_gateway *gw = role;
    reading   *f = ctx;
    htc_reader r = htc_reader_of(body);
    int        log = strcmp(f->q->op, "log") == 0;
    if (status == HTC_ENOTFOUND && log) {
        answer_log(gw, f, 0, (htc_bytes){ NULL, 0 }); /* nothing was written */
    } else if (status != HTC_OK) {
        int words = status == HTC_EUNREACHABLE && body.len, may_come = words && log && htc__gw_joined_awaited(gw);
        htc__gw_req_fail(gw, f->q, may_come ? HTC_EBUSY : words ? HTC_ENOTFOUND : status,
                         may_come ? "this gateway is new to them: try again in a moment" : words ? "htc agents shows when they are back" : "", "%s of %llu.%llu: %.*s", f->name[0] ? f->name : "the outputs", (unsigned long long)f->at.job,
                         (unsigned long long)f->at.task, words ? (int)body.len : (int)strlen(htc_strerror(status)),
                         words ? (const char *)body.data : htc_strerror(status));
    } else {
        uint64_t  size = htc_get_u64(&r);
        htc_bytes bytes = htc_get_bytes(&r);
        if (log)
            answer_log(gw, f, size, bytes);
        else
            answer_bytes(gw, f, size, bytes);
    }
    reading_end(gw, f);
}

/* Without an attempt there is nothing to read: who follows a log learns whether there ever will be. */
static void not_started(htc_gateway *gw, reading *f, const job *j, const task *t, htc_status status)
{
    int fresh = !t || t->state == TASK_NEW;
    f->final = fresh ? j->cancelled || !j->open : t->state >= TASK_DONE;
    if (status == HTC_OK && strcmp(f->q->op, "log") == 0) {
        answer_log(gw, f, 0, (htc_bytes){ NULL, 0 });
        return;
    }
    htc__gw_req_fail(gw, f->q, status != HTC_OK ? status : HTC_ENOTFOUND, "htc why says what it waits for", "%llu.%llu: %s",
                     (unsigned long long)j->id, (unsigned long long)f->at.task,
                     status != HTC_OK ? htc_strerror(status) : "it has not started");
}

static void ask_for_file(htc_gateway *gw, reading *f, const agent *a)
{
    f->live = a != NULL;
    htc_buf_clear(&gw->scratch);
    if (f->live) {
        htc_put_str(&gw->scratch, gw->sites[a->site].name);
        htc_put_u32(&gw->scratch, a->slots[0]);
        htc_write_attempt(&gw->scratch, &f->at);
    } else {
        htc_put_u64(&gw->scratch, f->at.job);
        htc_put_u64(&gw->scratch, f->at.task);
        htc_put_u32(&gw->scratch, f->at.attempt);
    }
    htc_put_str(&gw->scratch, f->name);
    htc_put_u64(&gw->scratch, f->offset);
    htc_put_u32(&gw->scratch, f->len);
    htc__gw_file_ask(gw, f->live ? HTC_CALL_LIVE_READ : HTC_CALL_FILE_READ, a, file_read, f);
}

static void task_known(htc_gateway *gw, void *ctx, job *j, chunk *c, htc_status status)
{
    reading    *f = ctx;
    const task *t = c ? &c->tasks[f->at.task % CHUNK_TASKS] : NULL;
    int         begun = t && t->attempt != 0;
    if (status != HTC_OK || (!begun && f->at.attempt == 0)) {
        not_started(gw, f, j, t, status);
        reading_end(gw, f);
        return;
    }
    if (f->at.attempt == 0)
        f->at.attempt = t->attempt;
    f->final = !begun || t->state >= TASK_DONE;
    if (begun && t->state == TASK_FAILED)
        f->failed = (htc_status)t->status;
    ask_for_file(gw, f, begun && t->state == TASK_LEASED && f->at.attempt == t->attempt ? htc__gw_agent(gw, t->agent) : NULL);
}

/* A flow's tasks leave their outputs with its job, whose own tasks are the seats: fewer than the flow's tasks, so that an attempt that is named is
 * looked for whatever the job knows. */
static void start_reading(htc_gateway *gw, request *q, job *j, reading wanted)
{
    int of_flow = wanted.at.task >= j->count;
    if (of_flow && wanted.at.attempt == 0) {
        htc__gw_req_fail(gw, q, HTC_ENOTFOUND, "its tasks count from 0", "job %llu has %llu task%s, and none with index %llu",
                         (unsigned long long)j->id, (unsigned long long)j->count, htc__plural(j->count), (unsigned long long)wanted.at.task);
        return;
    }
    reading *f = htc_runtime_context(gw->runtime, sizeof *f);
    if (!f)
        return;
    *f = wanted;
    f->q = q;
    f->job = j;
    f->at.job = j->id;
    htc__gw_job_hold(j);
    if (of_flow) {
        f->final = 1;
        ask_for_file(gw, f, NULL);
        return;
    }
    htc__gw_chunk_load(gw, j, f->at.task / CHUNK_TASKS, task_known, f);
}

static void log_job(htc_gateway *gw, request *q, job *j)
{
    const char *stream = htc__gw_req_str(q, "stream");
    reading     f = { .offset = htc__gw_req_u64(q, "offset", 0) };
    uint64_t    length = htc__gw_req_u64(q, "length", LOG_MAX);
    f.len = length > LOG_MAX ? LOG_MAX : (uint32_t)length;
    if (stream && strcmp(stream, "stdout") != 0 && strcmp(stream, "stderr") != 0) {
        htc__gw_req_fail(gw, q, HTC_EINVAL, "stdout or stderr", "there is no stream '%s'", stream);
        return;
    }
    if (!q->select.has_tasks && j->count > 1) {
        htc__gw_req_fail(gw, q, HTC_EINVAL, "name one as ID.0", "job %llu has %llu tasks", (unsigned long long)j->id,
                         (unsigned long long)j->count);
        return;
    }
    if (q->select.n_ranges > 1 || (q->select.n_ranges && q->select.ranges[0].from != q->select.ranges[0].to)) {
        htc__gw_req_fail(gw, q, HTC_EINVAL, "name one task", "a log is of one task at a time");
        return;
    }
    f.at.task = q->select.has_tasks ? q->select.ranges[0].from : 0;
    strcpy(f.name, stream ? stream : "stdout");
    start_reading(gw, q, j, f);
}

static void log_selected(htc_gateway *gw, request *q, const uint64_t *ids, size_t n)
{
    if (n == 1)
        htc__gw_with_job(gw, q, ids[0], log_job);
    else
        htc__gw_req_fail(gw, q, HTC_EINVAL, "name one task", "a log is of one task at a time");
}

static void download_job(htc_gateway *gw, request *q, job *j)
{
    htc_reader r = htc_reader_of(htc_buf_bytes(&q->raw));
    reading    f = { 0 };
    htc_get_u64(&r);
    f.at.task = htc_get_u64(&r);
    f.at.attempt = htc_get_u32(&r);
    htc_get_str(&r, f.name, sizeof f.name);
    f.offset = htc_get_u64(&r);
    f.len = htc_get_u32(&r);
    if (htc_reader_done(&r) != HTC_OK)
        htc__gw_req_fail(gw, q, HTC_EPROTO, "", "the message is damaged");
    else if (f.name[0] && !htc__gw_name_stays(f.name)) /* none: the manifest */
        htc__gw_req_fail(gw, q, HTC_EPATH, "", "'%s' is not the name of an output", f.name);
    else if (f.len == 0 || f.len > PIECE_MAX)
        htc__gw_req_fail(gw, q, HTC_EINVAL, "at most 1 MiB at a time", "a piece of %u bytes", f.len);
    else
        start_reading(gw, q, j, f);
}

/* ---- uploads ---- */

/* Of what others have uploaded nothing is told, not even that it is there. most: see BLOB_WRITE; QUOTA_NONE: it is not said. */
static void ask_as_user(htc_gateway *gw, request *q, uint32_t op, htc_bytes rest, uint64_t most, htc_runtime_call_fn fn)
{
    htc_buf_clear(&gw->scratch);
    htc_put_str(&gw->scratch, q->user->name);
    htc_put_raw(&gw->scratch, rest);
    if (most != QUOTA_NONE)
        htc_put_u64(&gw->scratch, most);
    htc_runtime_call(gw->runtime, op, htc_buf_bytes(&gw->scratch), fn, q);
}

static void piece_written(void *role, void *ctx, htc_status status, htc_bytes body)
{
    htc_gateway *gw = role;
    request   *q = ctx;
    htc_reader sums = htc_reader_of(body);
    if (status != HTC_OK)
        htc__gw_uploads_ask(gw, q->user);
    if (status == HTC_OK) {
        htc__gw_uploads_are(q->user, &sums);
        htc__gw_req_answer(gw, q, json_object());
    } else if (status == HTC_EDENIED) {
        htc__gw_quota_refuses_upload(gw, q, body);
    } else {
        htc__gw_req_fail(gw, q, status, status == HTC_ENOSPC ? "free some space and try again" : "", "the upload was refused: %.*s",
                         body.len ? (int)body.len : (int)strlen(htc_strerror(status)),
                         body.len ? (const char *)body.data : htc_strerror(status));
    }
}

static void upload(htc_gateway *gw, request *q)
{
    if (gw->options.uploads_refused) {
        htc__gw_req_fail(gw, q, HTC_EUNSUPPORTED, "htc.ini(5), data.shared; or let tasks read what is on their hosts",
                         "uploads are refused: they would be lost with this gateway's host");
        return;
    }
    htc_reader r = htc_reader_of(htc_buf_bytes(&q->raw));
    htc_get_raw(&r, 32);
    uint64_t  size = htc_get_u64(&r), offset = htc_get_u64(&r);
    htc_bytes piece = htc_get_bytes(&r);
    if (htc_reader_done(&r) != HTC_OK)
        htc__gw_req_fail(gw, q, HTC_EPROTO, "", "the message is damaged");
    else if (piece.len > PIECE_MAX || offset > size || piece.len > size - offset)
        htc__gw_req_fail(gw, q, HTC_EINVAL, "at most 1 MiB at a time", "the piece does not lie within the file");
    else
        ask_as_user(gw, q, HTC_CALL_BLOB_WRITE, htc_buf_bytes(&q->raw), htc__gw_quota_uploads(gw, q->user), piece_written);
}

static void blob_known(void *role, void *ctx, htc_status status, htc_bytes body)
{
    htc_gateway *gw = role;
    request   *q = ctx;
    htc_reader r = htc_reader_of(body);
    if (status == HTC_OK)
        htc__gw_req_answer(gw, q, json_pack("{s:I}", "size", (json_int_t)htc_get_u64(&r)));
    else
        htc__gw_req_fail(gw, q, status, "", "no such content here");
}

static void blob(htc_gateway *gw, request *q)
{
    const char   *hex = htc__gw_req_str(q, "hash");
    unsigned char hash[32];
    size_t        n = 0;
    if (!hex || sodium_hex2bin(hash, sizeof hash, hex, strlen(hex), NULL, &n, NULL) != 0 || n != 32 || strlen(hex) != 64) {
        htc__gw_req_fail(gw, q, HTC_EINVAL, "64 hex digits", "this is not a content hash");
        return;
    }
    ask_as_user(gw, q, HTC_CALL_BLOB_STAT, (htc_bytes){ hash, sizeof hash }, QUOTA_NONE, blob_known);
}

void htc__gw_api_files(htc_gateway *gw, request *q)
{
    int binary = q->raw.len != 0;
    if (strcmp(q->op, "log") == 0) {
        htc__gw_select(gw, q, log_selected);
    } else if (strcmp(q->op, "blob") == 0) {
        blob(gw, q);
    } else if (!binary) {
        htc__gw_req_fail(gw, q, HTC_EUNSUPPORTED, "see doc/api.md", "'%s' is a binary message", q->op);
    } else if (strcmp(q->op, "upload") == 0) {
        upload(gw, q);
    } else {
        htc_reader r = htc_reader_of(htc_buf_bytes(&q->raw));
        htc__gw_with_job(gw, q, htc_get_u64(&r), download_job);
    }
}
