/* What a task of a flow has written. Its outputs are kept with the flow's job, under the number of the attempt whose end counts. */
#include "flow.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "htcsched/codec.h"

#define JSON_TEXT_MAX ((size_t)16 << 20)
#define TAIL 400

static htc_status show(flow_call *k, uint64_t job, uint64_t task, uint32_t attempt, const char *name, htc_buf *text)
{
    uint64_t  size = 1, at = 0;
    htc_error kept = k->c->error;
    while (at < size) {
        htc_bytes  piece = { 0 };
        htc_status s = api_read(k->c, job, task, attempt, name, at, &piece, &size);
        if (s == HTC_ENOTFOUND && at == 0) { /* it has written nothing */
            k->c->error = kept;
            return HTC_OK;
        }
        if (s != HTC_OK || !piece.len)
            return s;
        if (text)
            htc_put_raw(text, piece);
        else if (fwrite(piece.data, 1, piece.len, stdout) != piece.len)
            return cli_error(k->c, write_status(errno), "standard output", "", "cannot be written: %s", strerror(errno));
        at += piece.len;
    }
    return HTC_OK;
}

/* Is the flow's job there still? Else what was written is gone. */
static htc_status has_job(flow_call *k, uint64_t job)
{
    json_t    *answer = NULL;
    char      *number = must_print("%" PRIu64, job);
    htc_status s = api_ask(k->c, json_pack("{s:s, s:s}", "op", "status", "id", number), 0, 30, &answer);
    json_decref(answer);
    free(number);
    return s;
}

/* The last TAIL bytes, or fewer, of its standard error; HTC_ENOTFOUND: it has written nothing. */
static htc_status read_tail(flow_call *k, uint64_t job, uint64_t task, uint32_t attempt, char tail[TAIL + 1])
{
    uint64_t   size = 0;
    htc_bytes  piece = { 0 };
    htc_status s = api_read(k->c, job, task, attempt, "stderr", 0, &piece, &size);
    if (s == HTC_OK && size > piece.len && size > TAIL)
        s = api_read(k->c, job, task, attempt, "stderr", size - TAIL, &piece, &size);
    size_t n = s != HTC_OK ? 0 : piece.len < TAIL ? piece.len : TAIL;
    if (n)
        memcpy(tail, (const char *)piece.data + piece.len - n, n);
    tail[n] = '\0';
    return s;
}

char *flow_failure(flow_call *k, uint64_t job, const htc_flows_task *t)
{
    char      tail[TAIL + 1] = "";
    htc_error kept = k->c->error;
    if (t->attempt && t->worker && !k->mute) {
        htc_status s = read_tail(k, job, t->stored, t->attempt, tail);
        k->mute = s != HTC_OK && s != HTC_ENOTFOUND; /* nobody is to be waited for once more */
    }
    k->c->error = kept;
    size_t len = strlen(tail);
    while (len && (tail[len - 1] == '\n' || tail[len - 1] == '\r'))
        tail[--len] = '\0';
    const char *line = strrchr(tail, '\n') ? strrchr(tail, '\n') + 1 : tail;
    return must_print("%s%s%.100s", t->reason, line[0] ? ": " : "", line);
}

static htc_status show_task(flow_call *k, uint64_t id, const htc_flows_view *v, const flow_task *t, uint64_t number)
{
    const char *name = k->errors ? "stderr" : "stdout";
    htc_buf     text;
    char       *what = v->graph ? must_print("%" PRIu64 ".%s", id, t->name) : must_print("%" PRIu64 ".%" PRIu64, id, number);
    htc_status  s = HTC_OK;
    if (!t->attempt && t->state < FLOW_TASK_DONE)
        s = cli_error(k->c, HTC_ENOTFOUND, what, "htc flow why says what it waits for", "it has not ended");
    else if (!t->attempt)
        s = cli_error(k->c, HTC_ENOTFOUND, what, "htc flow why says why", "it never ran");
    free(what);
    if (s == HTC_OK)
        s = has_job(k, v->job);
    if (s != HTC_OK)
        return s;
    htc_buf_init(&text, NULL, JSON_TEXT_MAX);
    s = show(k, v->job, v->graph ? t->stored : number, t->attempt, name, k->c->json ? &text : NULL);
    if (s == HTC_OK && k->c->json) {
        json_t *written = text.status == HTC_OK ? json_stringn(text.len ? (const char *)text.data : "", text.len) : NULL;
        if (written)
            flow_put_json(k, json_pack("{s:I, s:I, s:s, s:s, s:o}", "flow", (json_int_t)id, "task", (json_int_t)number, "name", t->name, "stream", name, "text", written));
        else
            s = cli_error(k->c, HTC_EUNSUPPORTED, "--json", "leave --json out", "what it has written is no UTF-8, or longer than %zu MiB", JSON_TEXT_MAX >> 20);
    }
    htc_buf_free(&text);
    return s;
}

htc_status flow_logs(flow_call *k)
{
    htc_flows_view v;
    flow_graph     g = { 0 };
    uint64_t       id = 0, at = 0;
    uint32_t       number = 0;
    char          *task = NULL;
    htc_status     s = flow_which(k, k->w.at[0], &id, &task);
    if (s == HTC_OK && !task)
        s = cli_error(k->c, HTC_EUSAGE, k->w.at[0], "7.3 or 7.NAME is a task of flow 7", "that names no task");
    if (s == HTC_OK)
        s = flow_gather(k, id, &v, &g);
    if (s == HTC_OK && v.graph)
        s = flow_find_task(k, id, &g, task, &number);
    else if (s == HTC_OK)
        s = flow_gather_ended(k, &id, &v, task, &g, &at);
    if (s == HTC_OK && !g.n)
        s = cli_error(k->c, HTC_ENOTFOUND, k->w.at[0], "", "it has not ended");
    if (s == HTC_OK)
        s = show_task(k, id, &v, &g.tasks[number], v.graph ? number : at);
    flow_graph_free(&g);
    free(task);
    return s;
}
