/* Logins that end, and users who go. */
#include <stdio.h>
#include <string.h>

#include "roles/gateway/gateway.h"

/* ---- logout ---- */

static void logged_out(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    request *q = ctx;
    if (r->status != HTC_OK && r->status != HTC_ENOTFOUND)
        htc__gw_req_fail(gw, q, r->status, "try again in a moment", "the login could not be ended: %s", htc_strerror(r->status));
    else
        htc__gw_req_answer(gw, q, json_pack("{s:s}", "name", q->user->name));
}

static void log_out(htc_gateway *gw, request *q)
{
    if (htc__gw_req_flag(q, "all")) {
        htc__gw_tokens_end(gw, q, q->user);
    } else if (!q->by_token) {
        htc__gw_req_fail(gw, q, HTC_EINVAL, "htc logout --user NAME --all ends those of a user", "there is no login to end: the operator and who comes with a key have none");
    } else {
        key k = htc__gw_key_token_of(htc__gw_req_str(q, "token"));
        htc_runtime_ask(gw->runtime,
                        &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_DELETE, .key = htc__gw_key_bytes(&k) }, 1, logged_out, q);
    }
}

/* ---- a user of whom nothing is here: no request, no agent, no job, ended ones too ---- */

typedef struct quiet {
    request    *q;
    char        name[NAME_MAX_BYTES];
    const char *what;
    void (*then)(void *role, void *ctx, htc_status status);
    void *ctx;
} quiet;

static int has_agents(const htc_gateway *gw, const user *u)
{
    for (const agent *a = gw->agents; a; a = a->hh.next)
        if (a->user == u)
            return 1;
    return 0;
}

static int has_requests(const htc_gateway *gw, const request *except, const user *u)
{
    const request *r;
    DL_FOREACH(gw->requests, r)
    if (r != except && r->user == u)
        return 1;
    return 0;
}

/* Jobs in memory, whatever for, and those whose files are being deleted. */
static int has_jobs(const htc_gateway *gw, const user *u)
{
    for (const job *j = gw->all_jobs; j; j = j->all_next)
        if (j->user == u)
            return 1;
    return htc__gw_removal_of(gw, u->name);
}

static void not_quiet(htc_gateway *gw, quiet *s, htc_status status, const char *hint, const char *why)
{
    user *u = htc__gw_user(gw, s->name);
    if (u)
        u->changing = u->removing = 0;
    htc__gw_req_fail(gw, s->q, status, hint, "user %s cannot be %s: %s", s->name, s->what, why);
    s->then(gw, s->ctx, status);
    htc_runtime_context_free(gw->runtime, s);
}

static void jobs_page(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    quiet      *s = ctx;
    htc_kv_item item;
    size_t      at = 0;
    if (r->status != HTC_OK) {
        not_quiet(gw, s, r->status, "try again in a moment", htc_strerror(r->status));
        return;
    }
    htc_runtime_cursor next = htc_runtime_next_page(gw->runtime, r);
    for (uint32_t i = 0; i < r->items && htc_kv_result_item(r, &at, &item) == HTC_OK; i++) {
        char owner[NAME_MAX_BYTES];
        job  j;
        memset(&j, 0, sizeof j);
        if (htc__gw_record_job_read(item.value, &j, owner) == HTC_OK && strcmp(owner, s->name) == 0) {
            not_quiet(gw, s, HTC_EBUSY, "htc rm all --user NAME removes them, htc cancel all --user NAME ends them first", "there are jobs");
            return;
        }
    }
    if (next.len) {
        htc_runtime_scan(gw->runtime, htc_bytes_of("j/"), &next, 0, jobs_page, s);
        return;
    }
    s->then(gw, s->ctx, HTC_OK);
    htc_runtime_context_free(gw->runtime, s);
}

void htc__gw_user_quiet(htc_gateway *gw, request *q, user *u, const char *what, void (*then)(void *role, void *ctx, htc_status status),
                        void *ctx)
{
    const char *hint = "try again in a moment", *why = NULL;
    if (u->changing || u->folding || has_requests(gw, q, u)) {
        why = "something is just being done for that user";
    } else if (has_jobs(gw, u)) {
        why = "there are jobs";
        hint = "htc cancel all --user NAME ends them, htc rm all --user NAME removes them";
    } else if (has_agents(gw, u)) {
        why = "agents of that user are leaving";
    }
    quiet *s = why ? NULL : htc_runtime_context(gw->runtime, sizeof *s);
    if (why)
        htc__gw_req_fail(gw, q, HTC_EBUSY, hint, "user %s cannot be %s: %s", u->name, what, why);
    if (!s) {
        then(gw, ctx, why ? HTC_EBUSY : HTC_ENOMEM);
        return;
    }
    u->changing = u->removing = 1;
    *s = (quiet){ .q = q, .what = what, .then = then, .ctx = ctx };
    snprintf(s->name, sizeof s->name, "%s", u->name);
    htc_runtime_scan(gw->runtime, htc_bytes_of("j/"), NULL, 0, jobs_page, s);
}

/* ---- a user is removed ---- */

typedef struct leaving {
    request *q;
    char     name[NAME_MAX_BYTES];
} leaving;

static void gone(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    leaving *l = ctx;
    user    *u = htc__gw_user(gw, l->name);
    if (htc__gw_fenced(gw, r))
        return;
    if (r->status != HTC_OK && r->status != HTC_ENOTFOUND) {
        u->changing = u->removing = 0;
        htc__gw_req_fail(gw, l->q, r->status, "try again in a moment", "user %s cannot be removed: %s", l->name, htc_strerror(r->status));
    } else {
        if (u->quota.version)
            htc__gw_delete_of(gw, htc__gw_key_quota(u->name), u->quota.version);
        HASH_DEL(gw->users, u);
        htc__gw_user_free(gw, u);
        htc__log_with(&gw->env, HTC_LOG_INFO, HTC__FIELDS(HTC__TEXT("user", l->name)), "user %s is removed", l->name);
        htc__gw_req_answer(gw, l->q, json_pack("{s:s}", "name", l->name));
    }
    htc_runtime_context_free(gw->runtime, l);
}

static void may_go(void *role, void *ctx, htc_status status)
{
    htc_gateway *gw = role;
    leaving *l = ctx;
    key      k = htc__gw_key_user(l->name);
    if (status != HTC_OK)
        htc_runtime_context_free(gw->runtime, l);
    else {
        const user    *u = htc__gw_user(gw, l->name);
        htc_kv_request rq = htc__gw_delete_op(gw, &k, u ? u->version : 0);
        htc_runtime_ask(gw->runtime, &rq, 1, gone, l);
    }
}

static void remove_user(htc_gateway *gw, request *q)
{
    const char *name = htc__gw_req_str(q, "name");
    user       *u = htc__gw_user(gw, name);
    if (!q->operator_) {
        htc__gw_req_fail(gw, q, HTC_EDENIED, "ask the operator", "only the operator may remove users");
    } else if (!u) {
        htc__gw_req_fail(gw, q, HTC_ENOTFOUND, "htc users lists them", "there is no user %s", name ? name : "");
    } else if (strcmp(u->name, gw->owner_name) == 0) {
        htc__gw_req_fail(gw, q, HTC_EDENIED, "", "%s is the owner of this system", name);
    } else if (htc__gw_project_of(gw, name)) { /* who has the name later would have its rights */
        const project *p = htc__gw_project_of(gw, name);
        char           hint[120];
        snprintf(hint, sizeof hint, "htc project set %s --rm %s", p->name, name);
        htc__gw_req_fail(gw, q, HTC_EBUSY, hint, "user %s is in the project %s", name, p->name);
    } else {
        leaving *l = htc_runtime_context(gw->runtime, sizeof *l);
        if (!l)
            return;
        l->q = q;
        snprintf(l->name, sizeof l->name, "%s", u->name);
        /* Whoever acted for this user as well would be told of nobody when it is gone. */
        q->user = htc__gw_user(gw, gw->owner_name);
        htc__gw_user_quiet(gw, q, u, "removed", may_go, l);
    }
}

void htc__gw_api_leave(htc_gateway *gw, request *q)
{
    if (strcmp(q->op, "logout") == 0)
        log_out(gw, q);
    else
        remove_user(gw, q);
}
