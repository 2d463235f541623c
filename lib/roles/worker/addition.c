#include "roles/worker/addition.h"

#include <string.h>

#include "core/util.h"
#include "htcsched/work.h"

#define NUMBER_MAX 22 /* "#NUMBER/" */

static uint32_t format_of(htc_bytes text)
{
    const char *p = text.data;
    size_t      i = 0;
    while (i < text.len && (p[i] == ' ' || p[i] == '\t' || p[i] == '\r' || p[i] == '\n'))
        i++;
    return i < text.len && p[i] == '{' ? HTC_FLOW_JSONL : HTC_FLOW_TEXT;
}

/* Blank lines and comments alone. */
static int is_empty(htc_bytes text)
{
    const char *p = text.data;
    int         comment = 0;
    for (size_t i = 0; i < text.len; i++) {
        comment = p[i] == '#' || (comment && p[i] != '\n');
        if (!comment && p[i] != ' ' && p[i] != '\t' && p[i] != '\r' && p[i] != '\n')
            return 0;
    }
    return 1;
}

static htc_status check_task(const htc_env *env, const htc_flow *f, uint32_t i, htc_error *error)
{
    const htc_flow_task *t = htc_flow_get(f, i);
    htc_bytes            bytes;
    if (strchr(t->name, '/'))
        return htc__error(error, HTC_EINVAL, "task %.100s has a slash in its name: give it another name", t->name);
    if (strlen(t->name) > HTC_FLOW_NAME_MAX - NUMBER_MAX)
        return htc__error(error, HTC_ETOOBIG, "a name is longer than %d bytes: %.40s...", HTC_FLOW_NAME_MAX - NUMBER_MAX, t->name);
    htc_status status = htc_flow_task_bytes(env, f, i, 0, &bytes);
    if (status == HTC_OK)
        htc_work_free(env, bytes);
    return status == HTC_EUNSUPPORTED ? htc__error(error, status, "nothing here executes what %.100s asks for", t->name) : status;
}

htc_status htc__addition_read(const htc_env *env, htc_bytes text, const addition_source *from, htc_flow **out, htc_error *error)
{
    htc_flow_options bounds = { .size = sizeof bounds, .tasks_max = ADDITION_TASKS_MAX };
    htc_flow_reading reading = { .size = sizeof reading, .bounds = &bounds, .file = from->name, .directory = from->directory };
    htc_flow        *f = NULL;
    *out = NULL;
    if (text.len > ADDITION_TEXT_MAX)
        return htc__error(error, HTC_ETOOBIG, "it has more than %d bytes", ADDITION_TEXT_MAX);
    if (is_empty(text))
        return HTC_OK;
    htc_status status = htc_flow_read(env, text, format_of(text), &reading, &f, error);
    if (status != HTC_OK)
        return status;
    if (htc_flow_total(f) > ADDITION_TASKS_MAX)
        status = htc__error(error, HTC_ETOOBIG, "it is more than %d tasks", ADDITION_TASKS_MAX);
    if (status == HTC_OK && from->files)
        status = htc_flow_after_files(f, error);
    for (uint32_t i = 0; i < htc_flow_count(f) && status == HTC_OK; i++)
        status = htc_flow_get(f, i)->builtin == HTC_FLOW_INTAKE && (!from->intake || i + 1 < htc_flow_count(f)) ?
                     htc__error(error, HTC_EINVAL, "task %.100s is an intake: tasks add none", htc_flow_get(f, i)->name) :
                     check_task(env, f, i, error);
    if (status == HTC_OK)
        *out = f;
    else
        htc_flow_destroy(f);
    return status;
}

void htc__addition_children(const graph_task *adds, const htc_flow *added, uint64_t from, htc_buf *b)
{
    htc_put_raw(b, adds->children);
    for (uint32_t i = 0; i < htc_flow_count(added); i++) {
        uint32_t parents = (uint32_t)htc_flow_parents(added, i, NULL);
        for (uint64_t k = 0; k < htc_flow_get(added, i)->count; k++) {
            htc_put_u64(b, from++);
            htc_put_u32(b, parents);
        }
    }
}
