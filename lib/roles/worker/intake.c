#include "roles/worker/intake.h"

#include <stdio.h>
#include <string.h>

#include "core/fault.h"
#include "core/util.h"
#include "htcsched/work.h"
#include "roles/worker/addition_records.h"

/* "intake", "intake.2", "intake.3" */
static void next_name(htc_bytes name, char *out, size_t room)
{
    const char *p = name.data;
    size_t      at = name.len;
    uint64_t    number = 0, unit = 1;
    while (at > 0 && p[at - 1] >= '0' && p[at - 1] <= '9' && unit < UINT64_C(1000000000000)) {
        number += unit * (uint64_t)(p[--at] - '0');
        unit *= 10;
    }
    int numbered = at > 1 && p[at - 1] == '.' && unit > 1 && p[at] != '0';
    (void)snprintf(out, room, "%.*s.%llu", (int)(numbered ? at - 1 : name.len), p, (unsigned long long)(numbered ? number + 1 : 2));
}

static htc_status refuse(htc_error *error, htc_status status, const char *hint, const char *text)
{
    if (error) {
        (void)htc__error(error, status, "%s", text);
        (void)snprintf(error->hint, sizeof error->hint, "%s", hint);
    }
    return status;
}

static htc_status too_big(htc_error *error, const char *text)
{
    return refuse(error, HTC_ETOOBIG, "tasks that do not wait for each other can be added one part after another", text);
}

static htc_status take_alone(const htc_flow *f, htc_error *error)
{
    for (uint32_t i = 0; i < htc_flow_count(f); i++)
        if (htc_flow_get(f, i)->builtin == HTC_FLOW_INTAKE)
            return htc__error(error, HTC_EINVAL, "task %.100s is an intake: the flow that it would be added to has one", htc_flow_get(f, i)->name);
    return HTC_OK;
}

htc_status htc__intake_text(const htc_flow *given, htc_bytes name, int last, htc_buf *text, uint32_t *tasks, htc_error *error)
{
    char       next[HTC_FLOW_NAME_MAX + 24], words[96];
    uint64_t   n = given ? htc_flow_total(given) : 0;
    htc_status status = given ? take_alone(given, error) : HTC_OK;
    if (status != HTC_OK)
        return status;
    n += !last;
    if (n > ADDITION_TASKS_MAX) {
        (void)snprintf(words, sizeof words, "%llu tasks are added at once: at most %d are", (unsigned long long)n - !last, ADDITION_TASKS_MAX - 1);
        return too_big(error, words);
    }
    htc_bytes bytes = { NULL, 0 };
    if (given && htc_flow_total(given))
        status = htc_flow_write(NULL, given, HTC_FLOW_JSONL, &bytes);
    htc_put_raw(text, bytes);
    htc_work_free(NULL, bytes);
    next_name(name, next, sizeof next);
    if (status == HTC_OK && !last)
        htc_put_text(text, "{\"name\": \"%s\", \"builtin\": \"intake\"}\n", next);
    *tasks = (uint32_t)n;
    if (status == HTC_OK && text->len > ADDITION_TEXT_MAX) {
        (void)snprintf(words, sizeof words, "what is added at once has %zu bytes as JSON lines: at most %d are added", text->len, ADDITION_TEXT_MAX);
        return too_big(error, words);
    }
    return status == HTC_OK ? text->status : status;
}

htc_status htc__intake_look(const flow *f, const graph_task *t, htc_error *error)
{
    static const char another[] = "htc flow run --open begins another one";
    if (f->state != FLOW_RUNNING)
        return f->state == FLOW_BUILDING ? refuse(error, HTC_EBUSY, "try again when it runs", "the flow has not been started") :
                                           refuse(error, HTC_EBUSY, another, "the flow has ended, and takes no more tasks");
    if (!f->intake)
        return f->news ? refuse(error, HTC_EBUSY, another, "the flow was closed, and takes no more tasks") :
                         refuse(error, HTC_EUNSUPPORTED, another, "the flow was not submitted as an open one, and takes no tasks");
    int marked = htc__flow_is_marked(f, f->intake - 1);
    if (marked || (t && (t->state == GRAPH_CANCELLED || t->state == GRAPH_FAILED)))
        return refuse(error, HTC_EBUSY, another, "the flow's intake was cancelled: it takes no more tasks");
    if (!t || t->state == GRAPH_OPEN)
        return HTC_OK;
    return t->added_intake ? htc__error(error, HTC_AGAIN, "what was added before is being taken up: try again in some milliseconds") :
                             refuse(error, HTC_EBUSY, another, "the flow was closed, and takes no more tasks");
}

htc_status htc__intake_add(const htc_env *env, const flow *f, uint64_t flow_id, graph_task *t, size_t len, htc_bytes text, int last, uint64_t worker,
                           uint64_t nonce, htc_ns wall, htc_error *error)
{
    graph_outcome outcome = { .epoch = nonce, .ended = wall };
    uint32_t      n = 0;
    htc_status    status = htc__addition_check(env, text, f, flow_id, f->intake - 1, t, len, &n, error);
    return status == HTC_OK ? htc__graph_take_in(t, text, n, !last, worker, &outcome) : status;
}

int htc__intake_is_mine(const graph_task *t, uint64_t nonce)
{
    return t->adds == GRAPH_ADDS_INTAKE && t->state == GRAPH_DONE && t->outcome.epoch == nonce && !HTC__BROKEN(intake_unread);
}

htc_status htc__intake_news(flow *f, uint64_t intake, int last)
{
    if (f->news >= intake) /* the next one has a higher number */
        return HTC_EEXISTS;
    f->news = intake;
    if (last && f->intake == intake)
        f->intake = 0;
    return HTC_OK;
}
