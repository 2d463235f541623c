/* What runs when a job has ended (htc submit --on-end): a job of one task of the same user, which waits for that end.
 *
 * It is stored before the job whose end it waits for, under the next number, with an edge of a rule of its own (AFTER_END): a gateway that ends between the
 * two leaves one whose parent is gone, and that one never runs. So it runs once for each job that was accepted. How the job ended stands in its record
 * from when that is durable, and its task is told. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "roles/gateway/gateway.h"

int htc__gw_end_parse(htc_gateway *gw, request *q, const job *parent, job **out)
{
    const json_t    *text = json_object_get(q->body, "on_end");
    htc_error        error = { 0 };
    htc_spec_options limits = { .size = sizeof limits };
    *out = NULL;
    if (!text || json_is_null(text))
        return 1;
    if (!json_is_string(text)) {
        htc__gw_req_fail(gw, q, HTC_EINVAL, "see doc/api.md", "on_end: a document");
        return 0;
    }
    job *j = htc__gw_job_new(gw);
    edge *e = j ? htc__alloc(&gw->env, sizeof *e) : NULL;
    if (!e) {
        htc_runtime_break(gw->runtime, HTC_ENOMEM, "making room for a job");
        return 0;
    }
    j->edges = e;
    j->n_edges = 1;
    j->waits = 1;
    j->edges[0] = (edge){ .rule = AFTER_END, .job = j };
    j->user = parent->user;
    memcpy(j->wishes.project, parent->wishes.project, sizeof j->wishes.project);
    htc_bytes  xml = { json_string_value(text), json_string_length(text) };
    htc_status status = htc_spec_parse(&gw->env, xml, &limits, &j->spec, &error);
    char       why[256];
    htc_task  *t = NULL;
    j->max_attempts = 1; /* once */
    j->submitted = gw->wall;
    j->count = j->now.fresh = 1;
    const htc_wish *more;
    if (status == HTC_OK && htc_spec_wishes(j->spec, &more))
        status = htc__error(&error, HTC_EUNSUPPORTED, "on_end: a document without a Submission");
    if (status == HTC_OK && htc_spec_count(j->spec) != 1)
        status = htc__error(&error, HTC_EINVAL, "on_end: a document of one task, and this has %llu", (unsigned long long)htc_spec_count(j->spec));
    if (status == HTC_OK)
        status = htc_spec_task(j->spec, 0, &t, &error);
    if (status == HTC_OK && (status = htc__gw_fits(gw, j, t, 0, why, sizeof why)) != HTC_OK)
        htc__error(&error, status, "on_end: the task %s", why);
    htc_task_destroy(t);
    if (status == HTC_OK) {
        htc_buf_init(&j->content, &gw->env, HTC_KV_VALUE_MAX);
        htc__gw_content_find(xml, &j->content);
        status = j->content.status;
    }
    if (status == HTC_OK && !htc__gw_credentials_share(gw, j, parent))
        status = HTC_ENOMEM;
    if (status != HTC_OK) {
        error.status = status;
        htc__gw_req_error(gw, q, &error);
        htc__gw_job_free(gw, j);
        return 0;
    }
    *out = j;
    return 1;
}

void htc__gw_end_number(job *end, job *parent, uint64_t id)
{
    end->id = id;
    end->edges[0].parent = parent->id;
    parent->wishes.end_job = id;
    snprintf(end->name, sizeof end->name, "end of %.100s", parent->name[0] ? parent->name : "a job");
    htc__text_clean(end->name);
}

static void linked(htc_gateway *gw, void *ctx, htc_status status, uint64_t parent)
{
    job *end = ctx;
    (void)status, (void)parent;
    htc__gw_job_add(gw, end);
    htc__gw_edges_opened(gw, end);
}

void htc__gw_end_add(htc_gateway *gw, job *end)
{
    assert(htc__gw_job(gw, end->edges[0].parent)); /* so that it is linked at once */
    htc__gw_edges_look(gw, end, 0, linked, end);
}

void htc__gw_end_note(job *end, const job *parent)
{
    end_counts *c = &end->wishes.end;
    *c = (end_counts){ .known = 1, .done = parent->base.done, .failed = parent->base.failed, .cancelled = parent->base.cancelled };
    snprintf(c->name, sizeof c->name, "%s", parent->name);
}

#define TOLD 7

const char **htc__gw_end_env(htc_gateway *gw, const job *j, const char *const *env, size_t *n, size_t *bytes)
{
    edge              e = j->n_edges == 1 ? htc__gw_edge(j, 0) : (edge){ 0 };
    const end_counts *c = &j->wishes.end;
    char              text[TOLD][160];
    if (e.rule != AFTER_END || !c->known)
        return NULL;
    const char *state = e.outcome == PARENT_OK ? "done" : e.outcome == PARENT_FAILED ? "done_with_failures" : "cancelled";
    snprintf(text[0], sizeof text[0], "HTC_JOB_ID=%llu", (unsigned long long)e.parent);
    snprintf(text[1], sizeof text[1], "HTC_JOB_STATE=%s", state);
    snprintf(text[2], sizeof text[2], "HTC_JOB_NAME=%s", c->name);
    snprintf(text[3], sizeof text[3], "HTC_JOB_TASKS=%llu", (unsigned long long)(c->done + c->failed + c->cancelled));
    snprintf(text[4], sizeof text[4], "HTC_JOB_DONE=%llu", (unsigned long long)c->done);
    snprintf(text[5], sizeof text[5], "HTC_JOB_FAILED=%llu", (unsigned long long)c->failed);
    snprintf(text[6], sizeof text[6], "HTC_JOB_CANCELLED=%llu", (unsigned long long)c->cancelled);
    *bytes = (*n + TOLD + 1) * sizeof *env + sizeof text;
    const char **list = htc__alloc(&gw->env, *bytes);
    if (!list) {
        htc_runtime_break(gw->runtime, HTC_ENOMEM, "telling a task how a job ended");
        return NULL;
    }
    char(*kept)[160] = (char(*)[160])(void *)(list + *n + TOLD + 1);
    memcpy(kept, text, sizeof text);
    for (size_t i = 0; i < *n; i++)
        list[i] = env[i];
    for (size_t i = 0; i < TOLD; i++)
        list[(*n)++] = kept[i];
    list[*n] = NULL;
    return list;
}
