/* The users' requests (doc/api.md): who asks, what for, and the answer or the error object. */
#include "htcsched/keyring.h"
#include "roles/gateway/gateway.h"
#include "roles/gateway/nodes_closed.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- answers ---- */

void htc__gw_req_free(htc_gateway *gw, request *q)
{
    DL_DELETE(gw->requests, q);
    json_decref(q->body);
    json_decref(q->answer);
    htc_buf_free(&q->raw);
    htc__free(&gw->env, q->ids, q->cap_ids * sizeof *q->ids);
    htc__free(&gw->env, q, sizeof *q);
}

static void send_json(htc_gateway *gw, uint32_t peer, uint64_t id, json_t *value)
{
    char *text = value ? json_dumps(value, JSON_COMPACT) : NULL;
    static const char fault[] = "{\"error\":\"HTC_EINTERNAL\",\"message\":\"the answer could not be written down\"}";
    if (!text)
        htc__log(&gw->env, HTC_LOG_ERROR, "an answer could not be written down -> say so");
    htc_wire_begin(&gw->scratch, HTC_WIRE_USER_ANSWER, id);
    htc_put_raw(&gw->scratch, htc_bytes_of(text ? text : fault));
    free(text);
    if (gw->scratch.status == HTC_EFULL) {
        htc_wire_begin(&gw->scratch, HTC_WIRE_USER_ANSWER, id);
        htc_put_text(&gw->scratch, "{\"error\":\"HTC_ETOOBIG\",\"message\":\"the answer is too long for one message\","
                                   "\"hint\":\"ask for fewer at a time\"}");
    }
    htc_runtime_send(gw->runtime, peer, &gw->scratch);
}

void htc__gw_req_answer(htc_gateway *gw, request *q, json_t *answer)
{
    send_json(gw, q->peer, q->id, answer);
    json_decref(answer);
    htc__gw_req_free(gw, q);
}

static json_t *error_object(const htc_error *e)
{
    json_t *o = json_pack("{s:s,s:s}", "error", htc_status_name(e->status), "message", e->text);
    json_t *where = json_object();
    if (e->line)
        json_object_set_new(where, "line", json_integer(e->line));
    if (e->column)
        json_object_set_new(where, "column", json_integer(e->column));
    if (e->where[0])
        json_object_set_new(where, "element", json_string(e->where));
    if (json_object_size(where))
        json_object_set(o, "where", where);
    if (e->hint[0])
        json_object_set_new(o, "hint", json_string(e->hint));
    json_decref(where);
    return o;
}

void htc__gw_req_error(htc_gateway *gw, request *q, const htc_error *error)
{
    json_t *o = error_object(error);
    if (!o)
        o = json_pack("{s:s,s:s}", "error", htc_status_name(error->status), "message", htc_strerror(error->status));
    htc__gw_req_answer(gw, q, o);
}

void htc__gw_req_fail(htc_gateway *gw, request *q, htc_status status, const char *hint, const char *format, ...)
{
    htc_error e = { .status = status };
    va_list   args;
    va_start(args, format);
    vsnprintf(e.text, sizeof e.text, format, args);
    va_end(args);
    htc__text_clean(e.text);
    snprintf(e.hint, sizeof e.hint, "%s", hint);
    htc__gw_req_error(gw, q, &e);
}

/* ---- parameters ---- */

const char *htc__gw_req_str(const request *q, const char *name)
{
    return json_string_value(json_object_get(q->body, name));
}

uint64_t htc__gw_req_u64(const request *q, const char *name, uint64_t otherwise)
{
    const json_t *v = json_object_get(q->body, name);
    if (!json_is_integer(v))
        return otherwise;
    return json_integer_value(v) < 0 ? UINT64_MAX : (uint64_t)json_integer_value(v);
}

double htc__gw_req_num(const request *q, const char *name, double otherwise)
{
    const json_t *v = json_object_get(q->body, name);
    return json_is_number(v) ? json_number_value(v) : otherwise;
}

int htc__gw_req_flag(const request *q, const char *name)
{
    return json_is_true(json_object_get(q->body, name));
}

uint64_t htc__gw_req_page(const request *q, uint64_t otherwise, uint64_t *before)
{
    uint64_t limit = htc__gw_req_u64(q, "limit", otherwise);
    *before = htc__gw_req_u64(q, "before", UINT64_MAX);
    return limit < 1 ? 1 : limit > PAGE_JOBS_MAX ? PAGE_JOBS_MAX : limit;
}

json_t *htc__gw_req_next(const request *q)
{
    return q->more ? json_integer((json_int_t)(q->stopped_at ? q->stopped_at : q->ids[q->n_ids - 1])) : json_null();
}

static int parse_number(const char **p, uint64_t *out)
{
    uint64_t v = 0;
    if (**p < '0' || **p > '9')
        return 0;
    for (; **p >= '0' && **p <= '9'; ++*p) {
        if (v > UINT64_MAX / 10 - 1)
            return 0;
        v = v * 10 + (uint64_t)(**p - '0');
    }
    *out = v;
    return 1;
}

htc_status htc__gw_selector_parse(const char *text, selector *s)
{
    memset(s, 0, sizeof *s);
    if (strcmp(text, "all") == 0) {
        s->all = 1;
        return HTC_OK;
    }
    const char *p = text;
    if (strncmp(p, "last", 4) == 0) {
        s->last = 1;
        p += 4;
    } else if (!parse_number(&p, &s->job) || s->job == 0) {
        return HTC_EINVAL;
    }
    if (*p == '\0')
        return HTC_OK;
    if (*p++ != '.')
        return HTC_EINVAL;
    s->has_tasks = 1;
    for (;;) {
        uint64_t from, to;
        if (s->n_ranges == RANGES_MAX)
            return HTC_ETOOBIG;
        if (!parse_number(&p, &from))
            return HTC_EINVAL;
        to = from;
        if (*p == '-' && (++p, !parse_number(&p, &to) || to < from))
            return HTC_EINVAL;
        s->ranges[s->n_ranges].from = from;
        s->ranges[s->n_ranges++].to = to;
        if (*p == '\0')
            return HTC_OK;
        if (*p++ != ',')
            return HTC_EINVAL;
    }
}

/* ---- which jobs ---- */

int htc__gw_may_see(const request *q, const job *j)
{
    return q->operator_ || j->user == q->user;
}

void htc__gw_request_add(htc_gateway *gw, request *q, uint64_t id)
{
    if (q->n_ids == q->cap_ids) {
        size_t    cap = q->cap_ids ? q->cap_ids * 2 : 8;
        uint64_t *ids = htc__resize(&gw->env, q->ids, q->cap_ids * sizeof *ids, cap * sizeof *ids);
        if (!ids) {
            htc_runtime_break(gw->runtime, HTC_ENOMEM, "listing jobs");
            return;
        }
        q->ids = ids;
        q->cap_ids = cap;
    }
    q->ids[q->n_ids++] = id;
}

/* "last" and "all" mean the jobs of the user named; everybody's for the operator who named nobody. */
static int means_everybody(const request *q)
{
    return q->operator_ && q->select.all && !htc__gw_req_str(q, "user");
}

int htc__gw_job_unseen(htc_gateway *gw, const job *j)
{
    return htc__gw_shared(gw) && !j->finished && !j->started && !htc__gw_job(gw, j->id) && !htc__gw_job_changes(gw, j->id);
}

/* Records that one request of the store answers: at first few, since a page may be short. */
#define SELECT_READS_MAX 1000

static void select_page(void *role, void *ctx, const htc_kv_result *r);

static void select_part(htc_gateway *gw, request *q)
{
    uint64_t oldest;
    key      k = htc__gw_key_jobs(q->newest, &oldest);
    htc_runtime_scan(gw->runtime, htc__gw_key_bytes(&k), NULL, q->reads, select_page, q);
}

/* So many of a user's jobs are read with one request. */
#define SELECT_OWN_MAX 64

static void select_own(htc_gateway *gw, request *q);

/* Where the page begins: what is newer is not read, but at most 255 of them, so that few prefixes cover the rest. */
static void select_begin(htc_gateway *gw, request *q)
{
    uint64_t before, most = htc__gw_req_page(q, q->usual, &before), newer = 0;
    q->newest = UINT64_MAX;
    if (!means_everybody(q)) {
        q->newest = q->select.last ? UINT64_MAX : before - (before > 0);
        select_own(gw, q);
        return;
    }
    if (before < UINT64_C(1) << 48) {
        q->newest = (before > 0 ? before - 1 : 0) | 255;
        newer = q->newest - before + 1;
    }
    most = q->filter.on ? SELECT_READS_MAX : most + newer + 1; /* one more: does another page follow? */
    q->reads = most < SELECT_READS_MAX ? (uint32_t)most : SELECT_READS_MAX;
    select_part(gw, q);
}

static int select_full(const request *q)
{
    return q->more || (q->select.last && q->n_ids);
}

/* The next one, as its record has it: is it meant? */
static void select_look(htc_gateway *gw, request *q, htc_bytes record)
{
    char     owner[NAME_MAX_BYTES];
    job      j;
    uint64_t before, most = htc__gw_req_page(q, q->usual, &before);
    if (q->select.last)
        before = UINT64_MAX;
    memset(&j, 0, sizeof j);
    if (htc__gw_record_job_read(record, &j, owner) != HTC_OK || j.id >= before || !(j.user = htc__gw_user(gw, owner)) ||
        (!means_everybody(q) && j.user != q->user) || htc__gw_job_unseen(gw, &j))
        return;
    if (q->filter.on && !q->select.last && q->looked++ == FILTER_LOOKED_MAX) {
        q->more = 1;
        q->stopped_at = j.id + 1; /* this one was not looked at */
        return;
    }
    if (q->filter.on && !htc__gw_filter_takes(gw, q, &j))
        return;
    q->more = q->n_ids == most;
    if (!q->more) {
        htc__gw_request_add(gw, q, j.id);
        if (q->listed)
            q->listed(gw, q, &j);
    }
}

static void select_end(htc_gateway *gw, request *q)
{
    if (q->n_ids == 0 && q->select.last)
        htc__gw_req_fail(gw, q, HTC_ENOTFOUND, q->filter.on ? "htc status lists your jobs" : "submit one: htc submit -- COMMAND",
                         q->filter.on ? "%s has no such job" : "%s has no job yet", q->user->name);
    else
        q->selected(gw, q, q->ids, q->n_ids);
}

static void select_fail(htc_gateway *gw, request *q, htc_status status)
{
    htc__gw_req_fail(gw, q, status, "", "the jobs could not be read: %s", htc_strerror(status));
}

static void select_page(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    request    *q = ctx;
    htc_kv_item item;
    size_t      at = 0;
    uint64_t    oldest;
    key         k = htc__gw_key_jobs(q->newest, &oldest);
    if (r->status != HTC_OK) {
        select_fail(gw, q, r->status);
        return;
    }
    htc_runtime_cursor next = htc_runtime_next_page(gw->runtime, r);
    for (uint32_t i = 0; i < r->items && !select_full(q) && htc_kv_result_item(r, &at, &item) == HTC_OK; i++)
        select_look(gw, q, item.value);
    if (htc_runtime_status(gw->runtime) != HTC_OK)
        return;
    q->reads = q->reads > SELECT_READS_MAX / 2 ? SELECT_READS_MAX : q->reads * 2;
    if (!select_full(q) && next.len) {
        htc_runtime_scan(gw->runtime, htc__gw_key_bytes(&k), &next, q->reads, select_page, q);
    } else if (!select_full(q) && oldest) {
        q->newest = oldest - 1;
        select_part(gw, q);
    } else {
        select_end(gw, q);
    }
}

/* One of the user's own; all that were asked for are answered, whether they are needed or not. */
static void select_owned(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    request     *q = ctx;
    if (r->status == HTC_OK && !select_full(q) && !htc__gw_record_job_void(r->value))
        select_look(gw, q, r->value);
    else if (r->status != HTC_OK && r->status != HTC_ENOTFOUND)
        q->select_failed = r->status;
    if (!r->last || htc_runtime_status(gw->runtime) != HTC_OK)
        return;
    if (q->select_failed != HTC_OK)
        select_fail(gw, q, q->select_failed);
    else if (select_full(q))
        select_end(gw, q);
    else
        select_own(gw, q);
}

static void select_own(htc_gateway *gw, request *q)
{
    htc_kv_request rq[SELECT_OWN_MAX];
    key            keys[SELECT_OWN_MAX];
    owned_jobs    *l = &q->user->owned;
    uint64_t       before, left = q->select.last ? 1 : htc__gw_req_page(q, q->usual, &before) - q->n_ids + 1; /* one more: does another page follow? */
    size_t         below = htc__gw_owned_below(l, q->newest == UINT64_MAX ? UINT64_MAX : q->newest + 1), n = 0;
    for (; n < SELECT_OWN_MAX && n < below && (q->filter.on || n < left); n++) {
        keys[n] = htc__gw_key_job(l->ids[below - n - 1]);
        rq[n] = (htc_kv_request){ .size = sizeof rq[n], .op = HTC_KV_GET, .key = htc__gw_key_bytes(&keys[n]) };
    }
    if (n == 0) {
        select_end(gw, q);
        return;
    }
    q->newest = l->ids[below - n] - 1;
    htc_runtime_ask(gw->runtime, rq, n, select_owned, q);
}

void htc__gw_list_jobs(htc_gateway *gw, request *q, uint64_t usual, job_fn listed, select_fn fn)
{
    q->select.all = 1;
    if (!htc__gw_filter_parse(gw, q))
        return;
    q->usual = usual;
    q->listed = listed;
    q->selected = fn;
    select_begin(gw, q);
}

void htc__gw_select(htc_gateway *gw, request *q, select_fn fn)
{
    const json_t *v = json_object_get(q->body, "id");
    char          number[32];
    const char   *text = json_string_value(v);
    if (json_is_integer(v)) {
        snprintf(number, sizeof number, "%lld", (long long)json_integer_value(v));
        text = number;
    }
    htc_status status = text ? htc__gw_selector_parse(text, &q->select) : HTC_EINVAL;
    if (status == HTC_ETOOBIG) {
        htc__gw_req_fail(gw, q, status, "name them in several requests", "the selector has more than %d ranges of tasks", RANGES_MAX);
        return;
    }
    if (status != HTC_OK) {
        htc__gw_req_fail(gw, q, HTC_EINVAL, "say ID, ID.7, ID.1-10, last or all", "'%s' names no job or task", text ? text : "");
        return;
    }
    if (!htc__gw_filter_parse(gw, q))
        return;
    q->usual = PAGE_JOBS_MAX;
    q->selected = fn;
    if (q->select.job) {
        htc__gw_request_add(gw, q, q->select.job);
        if (htc_runtime_status(gw->runtime) == HTC_OK)
            fn(gw, q, q->ids, q->n_ids);
        return;
    }
    select_begin(gw, q);
}

void htc__gw_select_jobs(htc_gateway *gw, request *q, select_fn fn, const char *instead)
{
    const char *text = htc__gw_req_str(q, "id");
    if (text && strchr(text, '.') && htc__gw_selector_parse(text, &q->select) == HTC_OK)
        htc__gw_req_fail(gw, q, HTC_EINVAL, instead, "'%.60s' names tasks, and this is done to whole jobs", text);
    else
        htc__gw_select(gw, q, fn);
}

typedef struct with_job {
    request *q;
    uint64_t id;
    job_fn   fn;
} with_job;

static void job_absent(htc_gateway *gw, const with_job *w)
{
    if (w->q->select.all && w->q->passed)
        w->q->passed(gw, w->q, w->q->ids, w->q->n_ids);
    else
        htc__gw_req_fail(gw, w->q, HTC_ENOTFOUND, "htc status lists your jobs", "there is no job %llu", (unsigned long long)w->id);
}

/* Of another user's nothing is told, not even that it is there. */
static void use_job(htc_gateway *gw, const with_job *w, job *j)
{
    htc__gw_job_hold(j);
    if (htc__gw_may_see(w->q, j))
        w->fn(gw, w->q, j);
    else
        job_absent(gw, w);
    htc__gw_job_release(gw, j);
}

static void job_found(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    with_job w = *(with_job *)ctx;
    char     owner[NAME_MAX_BYTES];
    htc_runtime_context_free(gw->runtime, ctx);
    job *j = htc__gw_job(gw, w.id); /* opened again meanwhile */
    if (j) {
        use_job(gw, &w, j);
        return;
    }
    if (r->status == HTC_ENOTFOUND || (r->status == HTC_OK && htc__gw_record_job_void(r->value))) {
        job_absent(gw, &w);
        return;
    }
    j = r->status == HTC_OK ? htc__gw_job_new(gw) : NULL;
    if (!j) {
        htc__gw_req_fail(gw, w.q, r->status, "", "job %llu could not be read: %s", (unsigned long long)w.id, htc_strerror(r->status));
        return;
    }
    if (htc__gw_record_job_read(r->value, j, owner) != HTC_OK || !(j->user = htc__gw_user(gw, owner))) {
        htc__gw_job_free(gw, j);
        htc__gw_req_fail(gw, w.q, HTC_ECORRUPT, "", "the record of job %llu is damaged", (unsigned long long)w.id);
        return;
    }
    if (htc__gw_job_unseen(gw, j)) {
        htc__gw_job_free(gw, j);
        job_absent(gw, &w);
        return;
    }
    htc__gw_edges_keep(gw, j);
    j->version = r->version;
    htc__gw_job_counts_from_record(j);
    j->next = j->count;
    use_job(gw, &w, j);
}

void htc__gw_with_job(htc_gateway *gw, request *q, uint64_t id, job_fn fn)
{
    job *j = htc__gw_job(gw, id);
    if (j) {
        use_job(gw, &(with_job){ q, id, fn }, j);
        return;
    }
    with_job *w = htc_runtime_context(gw->runtime, sizeof *w);
    if (!w)
        return;
    *w = (with_job){ q, id, fn };
    key k = htc__gw_key_job(id);
    htc_runtime_ask(gw->runtime,
                    &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = htc__gw_key_bytes(&k) }, 1, job_found, w);
}

/* ---- dispatch ---- */

static const struct {
    const char *op;
    void (*fn)(htc_gateway *gw, request *q);
} ops[] = {
    { "ping", htc__gw_api_listing },     { "user.add", htc__gw_api_accounts }, { "user.set", htc__gw_api_accounts }, { "login", htc__gw_api_accounts },
    { "site.drain", htc__gw_api_sites }, { "site.resume", htc__gw_api_sites },
    { "node.drain", htc__gw_api_nodes }, { "node.resume", htc__gw_api_nodes },
    { "logout", htc__gw_api_leave },     { "user.rm", htc__gw_api_leave },
    { "submit", htc__gw_api_submit },    { "resubmit", htc__gw_api_submit },    { "status", htc__gw_api_status },     { "wait", htc__gw_api_status },       { "tasks", htc__gw_api_tasks },
    { "results", htc__gw_api_results },  { "why", htc__gw_api_why },           { "cancel", htc__gw_api_control },    { "retry", htc__gw_api_control },
    { "hold", htc__gw_api_control },     { "release", htc__gw_api_control },  { "history", htc__gw_api_history },
    { "du", htc__gw_api_du },            { "report", htc__gw_api_report },     { "quota", htc__gw_api_quota },
    { "projects", htc__gw_api_projects }, { "project.add", htc__gw_api_projects }, { "project.set", htc__gw_api_projects }, { "project.rm", htc__gw_api_projects },
    { "generate", htc__gw_api_generate }, { "validate", htc__gw_api_generate },
    { "rm", htc__gw_api_control },       { "shutdown", htc__gw_api_control },  { "users", htc__gw_api_listing },     { "agents", htc__gw_api_listing },
    { "log", htc__gw_api_files },        { "blob", htc__gw_api_files },        { "upload", htc__gw_api_files },      { "download", htc__gw_api_files },
};

void htc__gw_request_run(htc_gateway *gw, request *q)
{
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        if (strcmp(ops[i].op, q->op) == 0) {
            ops[i].fn(gw, q);
            return;
        }
    }
    htc__gw_req_fail(gw, q, HTC_EUNSUPPORTED, "see doc/api.md", "there is no request '%s'", q->op);
}

/* The operator acts for whom they name, else for the owner. */
static void run_for_operator(htc_gateway *gw, request *q)
{
    const char *wanted = htc__gw_req_str(q, "user") ? htc__gw_req_str(q, "user") : gw->owner_name;
    q->operator_ = 1;
    q->user = htc__gw_user(gw, wanted);
    if (q->user && q->user->removing)
        htc__gw_req_fail(gw, q, HTC_EBUSY, "try again in a moment", "user %s is just being changed or removed", wanted);
    else if (q->user)
        htc__gw_request_run(gw, q);
    else
        htc__gw_req_fail(gw, q, HTC_ENOTFOUND, "htc user add NAME creates one", "there is no user %s", wanted);
}

/* Peers that have neither a uid nor a key are not told apart: their logins wait among all others. */
static int too_many_logins(const htc_gateway *gw, const request *q)
{
    const request *r;
    uint32_t       n = 0;
    if (q->caller == UINT32_MAX)
        return 0;
    DL_FOREACH(gw->requests, r)
    n += r != q && r->caller == q->caller && strcmp(r->op, "login") == 0;
    return !htc__admission_of_login(n);
}

static int has_users_key(const conn *c)
{
    return c->info.transport == HTC_TRANSPORT_SECURE && c->key.role == HTC_KEY_USER;
}

/* Keys are told apart by 31 bits of theirs: two that agree in these share what one may have. */
static uint32_t caller_of(const conn *c)
{
    uint32_t number;
    memcpy(&number, c->key.key, sizeof number);
    return has_users_key(c) ? (number >> 2) | UINT32_C(1) << 31 : c->info.uid;
}

/* A key is its user's for as long as it is pinned here: it was revoked if it is not. It never makes an operator. */
static void run_for_key(htc_gateway *gw, const conn *c, request *q)
{
    const char *wanted = htc__gw_req_str(q, "user");
    q->user = htc__gw_user(gw, c->key.name);
    if (!q->user)
        htc__gw_req_fail(gw, q, HTC_EDENIED, "log in: htc login NAME; or the operator makes the user: htc user add", "the key of %s is no user's here, and no token was sent", c->key.name);
    else if (q->user->removing)
        htc__gw_req_fail(gw, q, HTC_EBUSY, "try again in a moment", "user %s is just being changed or removed", c->key.name);
    else if (wanted && strcmp(wanted, q->user->name) != 0)
        htc__gw_req_fail(gw, q, HTC_EDENIED, "leave --user away, or log in as that user", "the key is %s's, not %s's", c->key.name, wanted);
    else
        htc__gw_request_run(gw, q);
}

static void identify(htc_gateway *gw, conn *c, request *q)
{
    const char *token = htc__gw_req_str(q, "token");
    int         open_to_all = strcmp(q->op, "login") == 0 || strcmp(q->op, "ping") == 0;
    int         owner = c->info.transport != HTC_TRANSPORT_TCP && c->info.uid == gw->options.owner_uid;
    if (strcmp(q->op, "login") == 0 && too_many_logins(gw, q))
        htc__gw_req_fail(gw, q, HTC_EBUSY, "try again in a moment", "%u logins of this uid or key are not answered", ADMISSION_LOGINS);
    else if (token && htc__gw_operator_token(gw, token))
        run_for_operator(gw, q);
    else if (token)
        htc__gw_token_check(gw, q, token);
    else if (owner && !gw->operator_hash[0])
        run_for_operator(gw, q);
    else if (open_to_all)
        htc__gw_request_run(gw, q);
    else if (has_users_key(c))
        run_for_key(gw, c, q);
    else if (owner)
        htc__gw_req_fail(gw, q, HTC_EDENIED, "the token is the line in the file operator of the state directory",
                         "the operator is known by a token, and none was sent");
    else
        htc__gw_req_fail(gw, q, HTC_EDENIED, "log in: htc login NAME", "you are not the owner of this system and sent no token");
}

/* Parsed, a small number takes thirty times its room: a request that is made of many is refused as it came. */
#define PARTS_MAX 10000

static int has_too_many_parts(htc_bytes json)
{
    const char *p = json.data;
    size_t      parts = 0;
    int         in_text = 0;
    for (size_t i = 0; i < json.len && parts <= PARTS_MAX; i++) {
        if (in_text && p[i] == '\\')
            i++;
        else if (p[i] == '"')
            in_text = !in_text;
        else
            parts += !in_text && (p[i] == ',' || p[i] == '[' || p[i] == '{');
    }
    return parts > PARTS_MAX;
}

static request *request_new(htc_gateway *gw, conn *c, uint64_t id)
{
    request *q, *r;
    admission now = { 0 };
    DL_FOREACH(gw->requests, r)
    {
        now.all++;
        now.of_one += r->peer == c->peer;
        now.of_uid += r->caller == caller_of(c);
        now.of_others += r->uid != gw->options.owner_uid;
    }
    if (!htc__admission_of_request(&now, c->info.uid == gw->options.owner_uid)) {
        htc_wire_begin(&gw->scratch, HTC_WIRE_USER_ANSWER, id);
        htc_put_text(&gw->scratch, "{\"error\":\"HTC_EBUSY\",\"message\":\"too many requests are unanswered\"}");
        htc_runtime_send(gw->runtime, c->peer, &gw->scratch);
        return NULL;
    }
    q = htc__alloc(&gw->env, sizeof *q);
    if (!q) {
        htc_runtime_break(gw->runtime, HTC_ENOMEM, "taking a request");
        return NULL;
    }
    q->peer = c->peer;
    q->uid = c->info.uid;
    q->caller = caller_of(c);
    q->id = id;
    htc_buf_init(&q->raw, &gw->env, 0);
    DL_APPEND(gw->requests, q);
    return q;
}

/* UPLOAD and DOWNLOAD are binary; who asks stands in front in the same words. */
static int read_binary(request *q, uint16_t type, htc_bytes payload)
{
    char       name[NAME_MAX_BYTES], token[128];
    htc_reader r = htc_reader_of(payload);
    htc_get_str(&r, name, sizeof name);
    htc_get_str(&r, token, sizeof token);
    if (r.status != HTC_OK)
        return 0;
    htc_put_raw(&q->raw, (htc_bytes){ r.p, htc_reader_left(&r) });
    q->body = json_object();
    json_object_set_new(q->body, "op", json_string(type == HTC_WIRE_UPLOAD ? "upload" : "download"));
    if (name[0])
        json_object_set_new(q->body, "user", json_string(name));
    if (token[0])
        json_object_set_new(q->body, "token", json_string(token));
    return q->raw.status == HTC_OK;
}

/* Of this gateway itself it answers; all else is the active one's affair. */
static void waits(htc_gateway *gw, request *q)
{
    const active_claim *c = &gw->active.seen;
    int                 is_owner = q->uid == gw->options.owner_uid || htc__gw_operator_token(gw, htc__gw_req_str(q, "token") ? htc__gw_req_str(q, "token") : "");
    if (strcmp(q->op, "ping") == 0) {
        char apart[300];
        htc__gw_apart_text(gw, apart, sizeof apart);
        htc__gw_req_answer(gw, q, json_pack("{s:b,s:s,s:s,s:s}", "waiting", 1, "active", c->name, "at", c->address, "apart_text", apart));
    } else if (strcmp(q->op, "shutdown") == 0 && is_owner) {
        htc__gw_req_answer(gw, q, json_pack("{s:I}", "running", (json_int_t)0));
        htc__gw_shutdown(gw, htc__gw_req_flag(q, "now"));
    } else {
        htc__gw_req_fail(gw, q, HTC_EUNREACHABLE, "ask that one, or try again in a moment: this one goes on if it ends",
                         gw->active.known ? "this gateway waits: %s at %s is active" : "this gateway waits, and does not know yet who is active%s%s",
                         gw->active.known ? c->name : "", gw->active.known ? c->address : "");
    }
}

void htc__gw_user_message(htc_gateway *gw, conn *c, uint16_t type, uint64_t id, htc_bytes payload)
{
    json_error_t error;
    if (type != HTC_WIRE_USER_REQUEST && type != HTC_WIRE_UPLOAD && type != HTC_WIRE_DOWNLOAD) {
        htc_wire_error(&gw->scratch, id, HTC_EPROTO, "this is not a message that a user sends");
        htc_runtime_send(gw->runtime, c->peer, &gw->scratch);
        htc_runtime_close(gw->runtime, c->peer, HTC_EPROTO);
        return;
    }
    request *q = request_new(gw, c, id);
    if (!q)
        return;
    if (type == HTC_WIRE_USER_REQUEST) {
        if (has_too_many_parts(payload)) {
            htc__gw_req_fail(gw, q, HTC_ETOOBIG, "see doc/api.md", "the request has more than %d parts", PARTS_MAX);
            return;
        }
        q->body = json_loadb(payload.len ? payload.data : "", payload.len, JSON_REJECT_DUPLICATES, &error);
        if (!q->body) {
            htc__gw_req_fail(gw, q, HTC_EJSON, "", "line %d, column %d: %s", error.line, error.column, error.text);
            return;
        }
    } else if (!read_binary(q, type, payload)) {
        htc__gw_req_fail(gw, q, HTC_EPROTO, "", "the message is damaged");
        return;
    }
    const char *op = htc__gw_req_str(q, "op");
    if (!json_is_object(q->body) || !op || strlen(op) >= sizeof q->op) {
        htc__gw_req_fail(gw, q, HTC_EJSON, "see doc/api.md", "a request is an object with an \"op\"");
        return;
    }
    snprintf(q->op, sizeof q->op, "%s", op);
    if (gw->phase == PHASE_WAITING) {
        waits(gw, q);
        return;
    }
    if (gw->phase != PHASE_READY) {
        htc__gw_req_fail(gw, q, HTC_EBUSY, "try again in a moment", gw->phase == PHASE_STOPPED || gw->phase == PHASE_HANDING ? "the gateway is ending" : "the gateway is starting");
        return;
    }
    identify(gw, c, q);
}

/* Answers that are still worked on find nobody; what only waits ends here. */
void htc__gw_requests_closed(htc_gateway *gw, uint32_t peer)
{
    request *q, *next;
    DL_FOREACH_SAFE(gw->requests, q, next)
    {
        if (q->peer != peer)
            continue;
        q->peer = 0;
        if (q->until || htc__logins_leave(&gw->logins, q))
            htc__gw_req_free(gw, q);
    }
}
