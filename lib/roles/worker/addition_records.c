#include "roles/worker/addition_records.h"

#include <string.h>

#include "core/util.h"
#include "htcsched/work.h"

static htc_status text_of(const htc_env *env, htc_bytes from, char **text)
{
    if (!from.len)
        return HTC_OK;
    *text = htc__alloc(env, from.len + 1);
    if (*text)
        memcpy(*text, from.data, from.len);
    return *text ? HTC_OK : HTC_ENOMEM;
}

static void text_free(const htc_env *env, char **text)
{
    htc__free(env, *text, *text ? strlen(*text) + 1 : 0);
    *text = NULL;
}

/* Where its own command runs, what it adds runs too. */
htc_status htc__addition_parse(addition_records *r, const htc_env *env, htc_bytes text, const flow *to, const graph_task *adds, htc_error *error)
{
    addition_source from = { .name = "stdout", .files = to->data, .intake = adds->adds == GRAPH_ADDS_INTAKE };
    htc_task       *t = NULL;
    htc_status      status = htc_task_from_bytes(env, adds->task, &t);
    if (status == HTC_OK)
        status = text_of(env, htc_bytes_of(t->directory), &r->directory);
    if (status == HTC_OK)
        status = text_of(env, to->inputs, &r->inputs);
    if (status == HTC_OK && t->kind != HTC_TASK_COMMAND)
        from.name = "output";
    htc_task_destroy(t);
    from.directory = r->directory ? r->directory : r->inputs;
    return status == HTC_OK ? htc__addition_read(env, text, &from, &r->flow, error) : status;
}

htc_status htc__addition_begin(addition_records *r, const htc_env *env, const flow *to, uint64_t id, uint64_t adder, const graph_task *adds, uint64_t from,
                               htc_error *error)
{
    return htc__submission_added(&r->submission, env, r->flow, to, id, adder, adds, from, r->directory, r->inputs, error);
}

void htc__addition_end(addition_records *r, const htc_env *env)
{
    htc__submission_free(&r->submission);
    htc_flow_destroy(r->flow);
    text_free(env, &r->directory);
    text_free(env, &r->inputs);
    *r = (addition_records){ .flow = NULL };
}

static htc_status check_bounds(const flow *to, const graph_task *adds, size_t record_len, uint64_t tasks, size_t len, htc_error *error)
{
    if (tasks > ADDITION_ALL_MAX - (to->added < ADDITION_ALL_MAX ? to->added : ADDITION_ALL_MAX))
        return htc__error(error, HTC_EFULL, "more than %llu tasks would be added to the flow", (unsigned long long)ADDITION_ALL_MAX);
    if (htc__graph_n_children(adds) + tasks > GRAPH_CHILDREN_MAX)
        return htc__error(error, HTC_EFULL, "with those that wait for it more than %d tasks would know it as a parent", GRAPH_CHILDREN_MAX);
    if (record_len + len + (size_t)htc__graph_n_makes(adds) * GRAPH_MADE_BYTES + (size_t)tasks * GRAPH_CHILD_BYTES > GRAPH_BYTES_MAX - 4096)
        return htc__error(error, HTC_ETOOBIG, "what it runs, reads, makes and adds is together longer than its record may be: 250 KiB");
    return HTC_OK;
}

static htc_status try_records(addition_records *r, const htc_env *env, const flow *to, uint64_t id, uint64_t adder, const graph_task *adds, htc_error *error)
{
    flow_key   k;
    htc_buf    b;
    htc_status status = htc__addition_begin(r, env, to, id, adder, adds, to->tasks, error);
    htc_buf_init(&b, env, 0);
    for (uint64_t i = 0; status == HTC_OK && i < htc_flow_total(r->flow); i++) {
        htc_buf_clear(&b);
        status = htc__submission_task(&r->submission, i, &k, &b);
        if (status != HTC_OK && status != HTC_ENOMEM)
            status = htc__error(error, status, "task %.100s: %s", htc_flow_get(r->flow, r->submission.entry)->name, htc_strerror(status));
    }
    htc_buf_free(&b);
    return status;
}

htc_status htc__addition_check(const htc_env *env, htc_bytes text, const flow *to, uint64_t id, uint64_t adder, const graph_task *adds, size_t len,
                               uint32_t *tasks, htc_error *error)
{
    addition_records r = { .flow = NULL };
    *tasks = 0;
    htc_status status = htc__addition_parse(&r, env, text, to, adds, error);
    uint64_t   n = r.flow ? htc_flow_total(r.flow) : 0;
    if (status == HTC_OK && n)
        status = check_bounds(to, adds, len, n, text.len, error);
    if (status == HTC_OK && n)
        status = try_records(&r, env, to, id, adder, adds, error);
    htc__addition_end(&r, env);
    if (status == HTC_OK)
        *tasks = (uint32_t)n;
    return status;
}
