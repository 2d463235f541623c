/* Jobs that wait for other jobs of their user (htc submit --after).
 *
 * An edge leads from a job to a parent, which was there before it: numbers are drawn at submission and the parent's is smaller, so there
 * are no circles. It is linked before anybody looks whether the parent has ended, and stays linked until its outcome is durable in
 * the record of the job that waits:
 *
 *   linked, open --the parent's end is durable--> outcome known --the record is written--> met: the job waits for this one no more
 *                                                       |
 *                                                       +--> broken: it can never be met, and the job is cancelled
 *
 * Whatever the parent does later (it is tried again, it is removed) changes nothing. A parent that somebody is linked to is not removed,
 * so that a gateway that finds an open edge at its start finds the parent too. */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/fault.h"
#include "roles/gateway/gateway.h"

#define EDGE_BYTES 10 /* u64 parent, u8 rule, u8 outcome */
#define NAMED_MAX  4  /* edges that a sentence names */

static const char *const rule_names[AFTER_RULES] = { "ok", "any", "failed", "end" };
static const char *const outcome_names[PARENT_OUTCOMES] = { "", "ok", "failed", "cancelled", "gone" };

/* ---- one edge ---- */

int htc__gw_edge_is_met(const edge *e)
{
    switch ((edge_rule)e->rule) {
    case AFTER_OK:
        return e->outcome == PARENT_OK;
    case AFTER_ANY:
        return e->outcome != PARENT_OPEN;
    case AFTER_FAILED:
        return e->outcome == PARENT_FAILED || e->outcome == PARENT_CANCELLED;
    case AFTER_END:
        return e->outcome != PARENT_OPEN && e->outcome != PARENT_GONE;
    case AFTER_RULES:
        break;
    }
    return 0;
}

int htc__gw_edge_is_broken(const edge *e)
{
    return e->outcome != PARENT_OPEN && !htc__gw_edge_is_met(e);
}

const char *htc__gw_edge_rule(const edge *e)
{
    return rule_names[e->rule];
}

/* How a job has ended whose record says so. */
static uint8_t outcome_of(const job *j)
{
    return j->base.failed ? PARENT_FAILED : j->base.cancelled ? PARENT_CANCELLED : PARENT_OK;
}

/* ---- in the record ---- */

static edge edge_in(htc_bytes bytes, uint32_t i)
{
    edge       e = { 0 };
    htc_reader r = htc_reader_of((htc_bytes){ (const uint8_t *)bytes.data + (size_t)i * EDGE_BYTES, EDGE_BYTES });
    e.parent = htc_get_u64(&r);
    e.rule = htc_get_u8(&r);
    e.outcome = htc_get_u8(&r);
    return e;
}

edge htc__gw_edge(const job *j, uint32_t i)
{
    assert(i < j->n_edges);
    return j->edges ? j->edges[i] : edge_in(j->edges_read, i);
}

void htc__gw_edges_write(htc_buf *b, const job *j)
{
    htc_put_u8(b, (uint8_t)j->n_edges);
    for (uint32_t i = 0; i < j->n_edges; i++) {
        edge e = htc__gw_edge(j, i);
        htc_put_u64(b, e.parent);
        htc_put_u8(b, e.rule);
        htc_put_u8(b, e.outcome);
    }
}

void htc__gw_edges_read(htc_reader *r, job *j, uint32_t least)
{
    uint32_t  n = htc_get_u8(r);
    htc_bytes bytes = htc_get_raw(r, (size_t)n * EDGE_BYTES);
    if (n < least || n > AFTER_MAX)
        htc_reader_fail(r);
    for (uint32_t i = 0; i < n && r->status == HTC_OK; i++) {
        edge e = edge_in(bytes, i);
        if (e.parent == 0 || e.parent >= j->id || e.rule >= AFTER_RULES || e.outcome >= PARENT_OUTCOMES)
            htc_reader_fail(r);
        j->waits |= !htc__gw_edge_is_met(&e);
    }
    if (r->status != HTC_OK)
        return;
    j->edges_read = bytes;
    j->n_edges = n;
}

static edge *edges_new(htc_gateway *gw, uint32_t n)
{
    edge *edges = htc__alloc(&gw->env, n * sizeof *edges);
    if (!edges)
        htc_runtime_break(gw->runtime, HTC_ENOMEM, "noting what a job waits for");
    return edges;
}

void htc__gw_edges_keep(htc_gateway *gw, job *j)
{
    edge *edges = j->n_edges && !j->edges ? edges_new(gw, j->n_edges) : NULL;
    for (uint32_t i = 0; edges && i < j->n_edges; i++) {
        edges[i] = edge_in(j->edges_read, i);
        edges[i].job = j;
    }
    if (edges)
        j->edges = edges;
    else if (!j->edges)
        j->n_edges = 0; /* none, or the gateway ends */
    j->edges_read = (htc_bytes){ 0 };
}

/* ---- who waits for whom ---- */

static awaited *awaited_of(const htc_gateway *gw, uint64_t id)
{
    awaited *w;
    HASH_FIND(hh, gw->awaited, &id, sizeof id, w);
    return w;
}

const edge *htc__gw_awaited(const htc_gateway *gw, uint64_t id)
{
    const awaited *w = awaited_of(gw, id);
    return w ? w->edges : NULL;
}

static void link_edge(htc_gateway *gw, edge *e)
{
    awaited *w = awaited_of(gw, e->parent);
    assert(!e->linked && e->outcome == PARENT_OPEN);
    if (!w) {
        w = htc__alloc(&gw->env, sizeof *w);
        if (w) {
            w->id = e->parent;
            HASH_ADD(hh, gw->awaited, id, sizeof w->id, w);
        }
        if (!w || !w->hh.tbl) {
            htc__free(&gw->env, w, sizeof *w);
            htc_runtime_break(gw->runtime, HTC_ENOMEM, "noting what a job waits for");
            return;
        }
    }
    DL_APPEND(w->edges, e);
    e->linked = 1;
}

static void unlink_edge(htc_gateway *gw, edge *e)
{
    awaited *w = e->linked ? awaited_of(gw, e->parent) : NULL;
    if (!w)
        return;
    DL_DELETE(w->edges, e);
    e->linked = 0;
    if (w->edges)
        return;
    HASH_DEL(gw->awaited, w);
    htc__free(&gw->env, w, sizeof *w);
}

void htc__gw_edges_end(htc_gateway *gw, job *j)
{
    for (uint32_t i = 0; j->edges && i < j->n_edges; i++)
        unlink_edge(gw, &j->edges[i]);
}

void htc__gw_edges_free(htc_gateway *gw, job *j)
{
    htc__gw_edges_end(gw, j);
    htc__free(&gw->env, j->edges, j->n_edges * sizeof *j->edges);
    j->edges = NULL;
    j->n_edges = 0;
}

static void link_edges(htc_gateway *gw, job *j)
{
    for (uint32_t i = 0; i < j->n_edges && htc_runtime_status(gw->runtime) == HTC_OK; i++)
        if (j->edges[i].outcome == PARENT_OPEN && !j->edges[i].linked)
            link_edge(gw, &j->edges[i]);
}

/* ---- outcomes ---- */

static int is_broken(const job *j)
{
    for (uint32_t i = 0; i < j->n_edges; i++) {
        edge e = htc__gw_edge(j, i);
        if (htc__gw_edge_is_broken(&e))
            return 1;
    }
    return 0;
}

static void cancel(htc_gateway *gw, job *j)
{
    char why[300];
    htc__gw_job_cancel(gw, j);
    htc__gw_edges_broken(j, why, sizeof why);
    htc__log_with(&gw->env, HTC_LOG_INFO, HTC__FIELDS(HTC__NUMBER("job", j->id), HTC__TEXT("user", j->user->name)),
                  "job %llu of %s is cancelled: %s", (unsigned long long)j->id, j->user->name, why);
}

/* Of a job that was cancelled for another reason the outcomes stay as they were: what is in its record is that reason. */
static void settle(htc_gateway *gw, edge *e, uint8_t outcome, const job *parent)
{
    job *j = e->job;
    if (e->outcome != PARENT_OPEN || j->cancelled || j->finished)
        return;
    e->outcome = outcome;
    if (e->rule == AFTER_END && parent)
        htc__gw_end_note(j, parent);
    j->edges_late |= j->id != 0; /* its record is written already, or is on its way */
    if (!j->open)
        return;
    if (htc__gw_edge_is_broken(e))
        cancel(gw, j);
    else
        htc__gw_job_dirty(gw, j, NULL);
}

void htc__gw_parent_ended(htc_gateway *gw, const job *j)
{
    awaited *w = awaited_of(gw, j->id);
    edge    *e;
    uint8_t  outcome = outcome_of(j);
    if (!w)
        return;
    DL_FOREACH(w->edges, e)
    settle(gw, e, outcome, j);
}

void htc__gw_edges_written(htc_gateway *gw, job *j)
{
    int met = 1;
    if (!j->waits || j->cancelled)
        return;
    for (uint32_t i = 0; i < j->n_edges; i++) {
        met &= htc__gw_edge_is_met(&j->edges[i]);
        if (j->edges[i].outcome != PARENT_OPEN)
            unlink_edge(gw, &j->edges[i]);
    }
    j->edges_late = 0;
    if (met) {
        j->waits = 0;
        htc__gw_job_touch(gw, j);
    }
}

void htc__gw_edges_opened(htc_gateway *gw, job *j)
{
    if (!j->n_edges || j->cancelled)
        return;
    if (HTC__BROKEN(after_linked_late))
        link_edges(gw, j);
    if (is_broken(j))
        cancel(gw, j);
    else if (j->edges_late)
        htc__gw_job_dirty(gw, j, NULL);
    else
        htc__gw_edges_written(gw, j);
}

/* ---- parents that have ended already ---- */

typedef struct looking {
    job     *job;
    edges_fn fn;
    void    *ctx;
    uint32_t at;
    int      ask;
} looking;

static void look_next(htc_gateway *gw, looking *l);

static void look_ends(htc_gateway *gw, looking *l, htc_status status, uint64_t parent)
{
    looking over = *l;
    htc_runtime_context_free(gw->runtime, l);
    over.fn(gw, over.ctx, status, parent);
}

/* A number that was drawn once, and has no record: such a job is gone. */
static void newest_known(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    looking     *l = ctx;
    uint64_t     parent = l->job->edges[l->at].parent;
    if (r->status != HTC_OK)
        look_ends(gw, l, r->status, parent);
    else
        look_ends(gw, l, r->number > 0 && parent <= (uint64_t)r->number ? HTC_EMPTY : HTC_ENOTFOUND, parent);
}

static void look_missing(htc_gateway *gw, looking *l)
{
    if (l->ask) {
        htc_runtime_ask(
            gw->runtime,
            &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_ADD, .key = htc_bytes_of("g/job") }, 1,
            newest_known, l);
        return;
    }
    settle(gw, &l->job->edges[l->at++], PARENT_GONE, NULL);
    look_next(gw, l);
}

static void parent_read(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    looking     *l = ctx;
    edge        *e = &l->job->edges[l->at];
    char         owner[NAME_MAX_BYTES];
    job          parent;
    memset(&parent, 0, sizeof parent);
    int absent = r->status == HTC_ENOTFOUND || (r->status == HTC_OK && htc__gw_record_job_void(r->value));
    if (absent && e->outcome == PARENT_OPEN) {
        look_missing(gw, l);
        return;
    }
    htc_status status = r->status == HTC_ENOTFOUND ? HTC_OK : r->status;
    if (r->status == HTC_OK && !absent && htc__gw_record_job_read(r->value, &parent, owner) != HTC_OK)
        status = HTC_ECORRUPT;
    else if (r->status == HTC_OK && !absent && strcmp(owner, l->job->user->name) != 0)
        status = HTC_EMPTY; /* as if it were removed: of another user's nothing is told */
    if (status != HTC_OK) {
        look_ends(gw, l, status, e->parent);
        return;
    }
    if (parent.finished)
        settle(gw, e, outcome_of(&parent), &parent);
    l->at++;
    look_next(gw, l);
}

static void look_next(htc_gateway *gw, looking *l)
{
    for (; l->at < l->job->n_edges; l->at++) {
        const edge *e = &l->job->edges[l->at];
        const job  *parent = htc__gw_job(gw, e->parent);
        if (parent && parent->user != l->job->user) {
            look_ends(gw, l, HTC_EMPTY, e->parent);
            return;
        }
        if (parent || e->outcome != PARENT_OPEN || (!l->ask && HTC__BROKEN(after_not_looked)))
            continue;
        key k = htc__gw_key_job(e->parent);
        htc_runtime_ask(
            gw->runtime,
            &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = htc__gw_key_bytes(&k) }, 1,
            parent_read, l);
        return;
    }
    look_ends(gw, l, HTC_OK, 0);
}

void htc__gw_edges_look(htc_gateway *gw, job *j, int ask, edges_fn fn, void *ctx)
{
    looking *l = htc_runtime_context(gw->runtime, sizeof *l);
    if (!l)
        return;
    *l = (looking){ .job = j, .fn = fn, .ctx = ctx, .ask = ask };
    if (!j->cancelled && !HTC__BROKEN(after_linked_late))
        link_edges(gw, j);
    if (htc_runtime_status(gw->runtime) == HTC_OK)
        look_next(gw, l);
}

/* ---- a request's words ---- */

static int parse_edge(const json_t *said, edge *e)
{
    const json_t *id = json_object_get(said, "id"), *when = json_object_get(said, "when");
    const char   *rule = when ? json_string_value(when) : rule_names[AFTER_OK];
    if (!json_is_integer(id) || json_integer_value(id) < 1 || !rule)
        return 0;
    *e = (edge){ .parent = (uint64_t)json_integer_value(id) };
    while (e->rule < AFTER_END && strcmp(rule, rule_names[e->rule]) != 0)
        e->rule++;
    return e->rule < AFTER_END;
}

static int is_among(const job *j, const edge *e)
{
    for (uint32_t i = 0; i < j->n_edges; i++)
        if (j->edges[i].parent == e->parent && j->edges[i].rule == e->rule)
            return 1;
    return 0;
}

int htc__gw_edges_parse(htc_gateway *gw, request *q, job *j)
{
    const json_t *list = json_object_get(q->body, "after");
    size_t        n = json_array_size(list), i;
    edge          said[AFTER_MAX];
    if (list && !json_is_array(list)) {
        htc__gw_req_fail(gw, q, HTC_EINVAL, "see doc/api.md", "after: a list of {\"id\", \"when\"}");
        return 0;
    }
    if (n > AFTER_MAX) {
        htc__gw_req_fail(gw, q, HTC_ETOOBIG, "let a job of one task wait for some of them, and this one for that",
                         "a job waits for at most %d others, and %zu are named", AFTER_MAX, n);
        return 0;
    }
    for (i = 0; i < n; i++)
        if (!parse_edge(json_array_get(list, i), &said[i])) {
            htc__gw_req_fail(gw, q, HTC_EINVAL, "an id, and ok, any or failed",
                             "after: entry %zu names no job to wait for", i + 1);
            return 0;
        }
    j->edges = n ? edges_new(gw, (uint32_t)n) : NULL;
    for (i = 0; j->edges && i < n; i++) {
        said[i].job = j;
        if (!is_among(j, &said[i]))
            j->edges[j->n_edges++] = said[i];
    }
    j->waits = j->n_edges != 0;
    return n == 0 || j->edges;
}

json_t *htc__gw_edges_json(const job *j)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < j->n_edges; i++) {
        edge e = htc__gw_edge(j, i);
        json_array_append_new(list,
                              json_pack("{s:I, s:s, s:s?}", "id", (json_int_t)e.parent, "when", rule_names[e.rule],
                                        "outcome", e.outcome == PARENT_OPEN ? NULL : outcome_names[e.outcome]));
    }
    return list;
}

/* ---- for people ---- */

static void say(char *text, size_t cap, const char *format, ...) __attribute__((format(printf, 3, 4)));

static void say(char *text, size_t cap, const char *format, ...)
{
    size_t  len = strlen(text);
    va_list args;
    va_start(args, format);
    vsnprintf(text + len, cap - len, format, args);
    va_end(args);
}

int htc__gw_edges_why(const job *j, char *text, size_t cap)
{
    static const char *const wanted[AFTER_RULES] = { "to end with every task done", "to end",
                                                     "to end otherwise than well", "to end" };
    uint32_t                 open_edges = 0;
    text[0] = '\0';
    if (!j->waits || j->cancelled)
        return 0;
    for (uint32_t i = 0; i < j->n_edges; i++) {
        edge e = htc__gw_edge(j, i);
        if (e.outcome == PARENT_OPEN && open_edges++ < NAMED_MAX)
            say(text, cap, "%sjob %llu %s", open_edges > 1 ? ", for " : "it waits for ", (unsigned long long)e.parent,
                wanted[e.rule]);
    }
    if (open_edges > NAMED_MAX)
        say(text, cap, ", and for %u more", (unsigned)(open_edges - NAMED_MAX));
    if (!open_edges)
        say(text, cap, "what it waited for has ended, which is just being noted");
    return 1;
}

int htc__gw_edges_broken(const job *j, char *text, size_t cap)
{
    edge     e = { 0 };
    uint32_t i = 0;
    text[0] = '\0';
    for (; j->cancelled && i < j->n_edges && !htc__gw_edge_is_broken(&e); i++)
        e = htc__gw_edge(j, i);
    if (!htc__gw_edge_is_broken(&e))
        return 0;
    unsigned long long id = e.parent;
    if (e.outcome == PARENT_OK)
        say(text, cap, "job %llu ended well, and this job was to run if it did not (--after %llu:%s)", id, id,
            rule_names[e.rule]);
    else if (e.outcome == PARENT_GONE)
        say(text, cap, "job %llu was removed, and how it ended is not known (--after %llu:%s)", id, id,
            rule_names[e.rule]);
    else
        say(text, cap, "tasks of job %llu %s, and this job was to run if all were done (--after %llu:%s)", id,
            e.outcome == PARENT_FAILED ? "failed" : "were cancelled", id, rule_names[e.rule]);
    return 1;
}
