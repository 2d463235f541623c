/* Projects: users who share slots by what their project has used before.
 *
 * A project's weight is made of its shares and its decayed usage by the weigher "fair-share" (htcsched/allot.h); the users of it that
 * divide at the moment have it together, each in proportion to the own weight. A user's project is that of the job whose tasks go next.
 *
 * p/NAME: format 1, name, shares, users, decayed usage and its moment, limits. Usage is written with that of days. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "roles/gateway/gateway.h"

#define PROJECT_FORMAT 1

project *htc__gw_project(const htc_gateway *gw, const char *name)
{
    project *p = NULL;
    if (name && name[0])
        HASH_FIND_STR(gw->projects, name, p);
    return p && !p->gone ? p : NULL;
}

int htc__gw_project_has(const project *p, const char *user_name)
{
    for (uint32_t i = 0; i < p->n_users; i++)
        if (strcmp(p->users[i], user_name) == 0)
            return 1;
    return 0;
}

project *htc__gw_project_of(htc_gateway *gw, const char *user_name)
{
    project *best = NULL;
    for (project *p = gw->projects; p; p = p->hh.next)
        if (!p->gone && htc__gw_project_has(p, user_name) && (!best || strcmp(p->name, best->name) < 0))
            best = p;
    return best;
}

static void project_free(htc_gateway *gw, project *p)
{
    htc__free(&gw->env, p->users, p->n_users * sizeof *p->users);
    htc__free(&gw->env, p, sizeof *p);
}

void htc__gw_projects_free(htc_gateway *gw)
{
    project *p, *next;
    HASH_ITER(hh, gw->projects, p, next)
    {
        HASH_DEL(gw->projects, p);
        project_free(gw, p);
    }
}

static project *project_new(htc_gateway *gw, const char *name)
{
    project *p = htc__alloc(&gw->env, sizeof *p);
    if (!p) {
        htc_runtime_break(gw->runtime, HTC_ENOMEM, "making room for a project");
        return NULL;
    }
    snprintf(p->name, sizeof p->name, "%s", name);
    p->shares = 1;
    p->quota.room = QUOTA_NONE;
    HASH_ADD_STR(gw->projects, name, p);
    if (!p->hh.tbl)
        htc_runtime_break(gw->runtime, HTC_ENOMEM, "making room for a project");
    return p;
}

/* Nothing refers to it any more. */
static void forget(htc_gateway *gw, project *p)
{
    for (user *u = gw->users; u; u = u->hh.next)
        u->project = u->project == p ? NULL : u->project;
    HASH_DEL(gw->projects, p);
    project_free(gw, p);
}

/* ---- the record ---- */

void htc__gw_limits_write(htc_buf *b, const quota_limits *l)
{
    for (int i = 0; i < QUOTA_KINDS; i++)
        htc_put_u64(b, l->at[i]);
}

void htc__gw_limits_read(htc_reader *r, quota_limits *l)
{
    for (int i = 0; i < QUOTA_KINDS; i++)
        l->at[i] = htc_get_u64(r);
}

void htc__gw_record_project_write(htc_buf *b, const project *p)
{
    htc_runtime_record_begin(b, PROJECT_FORMAT);
    htc_put_str(b, p->name);
    htc_put_u64(b, p->shares);
    htc_put_varint(b, p->n_users);
    for (uint32_t i = 0; i < p->n_users; i++)
        htc_put_str(b, p->users[i]);
    htc_put_f64(b, p->usage.slot_s);
    htc_put_u64(b, p->usage.at);
    htc__gw_limits_write(b, &p->quota.limits);
}

htc_status htc__gw_record_project_read(const htc_env *env, htc_bytes bytes, project *p)
{
    htc_reader r;
    memset(p, 0, sizeof *p);
    htc_runtime_record_open(bytes, PROJECT_FORMAT, PROJECT_FORMAT, &r);
    htc_get_str(&r, p->name, sizeof p->name);
    p->shares = htc_get_u64(&r);
    size_t n = htc_get_count(&r, 1);
    if (n > PROJECT_USERS_MAX)
        htc_reader_fail(&r);
    if (n && r.status == HTC_OK) {
        p->users = htc__alloc(env, n * sizeof *p->users);
        if (!p->users)
            return HTC_ENOMEM;
        p->n_users = (uint32_t)n;
    }
    for (uint32_t i = 0; i < p->n_users; i++) {
        htc_get_str(&r, p->users[i], sizeof p->users[i]);
        if (i && strcmp(p->users[i - 1], p->users[i]) >= 0)
            htc_reader_fail(&r);
    }
    p->usage.slot_s = htc_get_f64(&r);
    p->usage.at = htc_get_u64(&r);
    htc__gw_limits_read(&r, &p->quota.limits);
    p->quota.room = QUOTA_NONE;
    if (!htc__gw_user_name_ok(p->name) || p->shares < 1 || p->shares > PROJECT_SHARES_MAX || !(p->usage.slot_s >= 0 && p->usage.slot_s < 1e300))
        htc_reader_fail(&r);
    htc_status status = htc_runtime_record_end(&r);
    if (status != HTC_OK) {
        htc__free(env, p->users, p->n_users * sizeof *p->users);
        p->users = NULL;
        p->n_users = 0;
    }
    return status;
}

void htc__gw_project_found(htc_gateway *gw, const htc_kv_item *item)
{
    project read;
    if (htc__gw_record_project_read(&gw->env, item->value, &read) != HTC_OK || htc__gw_project(gw, read.name)) {
        htc__gw_unreadable(gw, "reading the record of a project");
        return;
    }
    project *p = project_new(gw, read.name);
    if (!p) {
        htc__free(&gw->env, read.users, read.n_users * sizeof *read.users);
        return;
    }
    p->shares = read.shares;
    p->users = read.users;
    p->n_users = read.n_users;
    p->usage = read.usage;
    p->quota.limits = read.quota.limits;
    p->version = item->version;
}

/* ---- writes: memory runs ahead, and whoever asked for a change is told when it is durable ---- */

static json_t *project_json(htc_gateway *gw, const request *q, const project *p);
static void    project_write(htc_gateway *gw, project *p);

static void project_put(htc_gateway *gw, project *p);

/* A project of this name was there, of a gateway before this one that was answered by nobody. */
static void create_confirmed(void *role, void *ctx, htc_status status)
{
    if (status == HTC_OK)
        project_put(role, ctx);
}

static void project_written(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    project     *p = ctx;
    request     *q = p->told;
    int          deleted = p->deleting;
    if (r->status == HTC_MISMATCH && !p->version && r->version && htc__gw_shared(gw)) {
        p->version = r->version;
        htc__gw_confirm(gw, create_confirmed, p);
        return;
    }
    p->writing = p->deleting = 0;
    p->told = NULL;
    if (r->status == HTC_MISMATCH) {
        htc_runtime_break(gw->runtime, HTC_ELOCKED, "the record of a project was changed by somebody else");
        return;
    }
    if (gw->phase == PHASE_SEALING && r->status != HTC_OK) {
        htc_runtime_break(gw->runtime, r->status, "writing down anew a project");
        return;
    }
    if (deleted) {
        if (r->status == HTC_OK || r->status == HTC_ENOTFOUND) {
            if (q)
                htc__gw_req_answer(gw, q, json_pack("{s:s}", "name", p->name));
            forget(gw, p);
            htc__gw_reallocate_soon(gw);
            return;
        }
        p->gone = 0;
    } else if (r->status == HTC_OK) {
        p->version = r->version;
        if (q)
            htc__gw_req_answer(gw, q, project_json(gw, q, p));
        if (p->asks)
            project_write(gw, p);
        return;
    }
    if (q)
        htc__gw_req_fail(gw, q, r->status, "ask again: what was said may count already, and be forgotten with a restart", "project %s could not be stored: %s", p->name, htc_strerror(r->status));
    htc__gw_project_dirty(gw, p);
}

static void project_put(htc_gateway *gw, project *p)
{
    key k = htc__gw_key_project(p->name);
    p->dirty = 0;
    htc__gw_record_project_write(&gw->scratch, p);
    p->deleting = p->gone;
    htc_kv_request rq = p->gone ? htc__gw_delete_op(gw, &k, p->version)
                                : (htc_kv_request){ .size = sizeof rq, .op = HTC_KV_CAS_VERSION, .key = htc__gw_key_bytes(&k),
                                                    .value = htc__gw_record_bytes(gw, &gw->scratch), .version = p->version };
    htc__gw_ask_write(gw, &rq, project_written, p);
}

static void project_write(htc_gateway *gw, project *p)
{
    p->writing = 1;
    p->told = p->asks;
    p->asks = NULL;
    project_put(gw, p);
}

void htc__gw_projects_seal(htc_gateway *gw)
{
    for (project *p = gw->projects; p; p = p->hh.next)
        project_write(gw, p);
}

void htc__gw_project_save(htc_gateway *gw, request *q, project *p)
{
    p->asks = q;
    if (!p->writing)
        project_write(gw, p);
}

void htc__gw_project_dirty(htc_gateway *gw, project *p)
{
    p->dirty = 1;
    if (gw->usage_at == HTC_NEVER)
        gw->usage_at = gw->now + HTC_SECOND;
}

void htc__gw_projects_flush(htc_gateway *gw)
{
    project *p, *next;
    HASH_ITER(hh, gw->projects, p, next)
    {
        if (p->dirty && !p->writing)
            project_write(gw, p);
        else if (p->dirty)
            htc__gw_project_dirty(gw, p);
    }
}

/* ---- weights ---- */

static htc_status weigh_projects(htc_gateway *gw)
{
    size_t             n = HASH_COUNT(gw->projects), i = 0;
    htc_allot_weighing how = { .size = sizeof how, .now = gw->wall, .half_life_ns = gw->options.half_life_ns };
    htc_allot_facts   *facts = htc__alloc(&gw->env, n * sizeof *facts);
    uint64_t          *weights = htc__alloc(&gw->env, n * sizeof *weights);
    htc_status         status = facts && weights ? HTC_OK : HTC_ENOMEM;
    for (const project *p = gw->projects; status == HTC_OK && p; p = p->hh.next)
        facts[i++] = (htc_allot_facts){ .priority = p->shares, .usage = p->usage };
    if (status == HTC_OK)
        status = htc_allot_weigh(&gw->env, gw->fair_share, &how, facts, n, weights, NULL);
    i = 0;
    for (project *p = gw->projects; status == HTC_OK && p; p = p->hh.next)
        p->weight = weights[i++];
    htc__free(&gw->env, facts, n * sizeof *facts);
    htc__free(&gw->env, weights, n * sizeof *weights);
    return status;
}

static int divides(const htc_gateway *gw, const user *u)
{
    return u->queued || (gw->policy != HTC_ALLOT_EQ1 && u->running);
}

htc_status htc__gw_project_weights(htc_gateway *gw, user **who, size_t n)
{
    if (!gw->projects)
        return HTC_OK;
    htc_status status = weigh_projects(gw);
    for (project *p = gw->projects; p; p = p->hh.next)
        p->weighed = 0;
    for (size_t i = 0; i < n; i++) {
        who[i]->project = who[i]->ready ? who[i]->ready->project : who[i]->project;
        if (who[i]->project && divides(gw, who[i]))
            who[i]->project->weighed += who[i]->weight_used;
    }
    for (size_t i = 0; status == HTC_OK && i < n; i++) {
        const project *p = who[i]->project;
        if (p && p->weighed)
            who[i]->weight_used = htc_allot_weight((double)p->weight / (double)HTC_ALLOT_WEIGHT_ONE * (double)who[i]->weight_used / (double)p->weighed);
    }
    return status;
}

/* ---- requests ---- */

static json_t *project_json(htc_gateway *gw, const request *q, const project *p)
{
    json_t *users = json_array();
    for (uint32_t i = 0; i < p->n_users; i++)
        if (q->operator_ || strcmp(p->users[i], q->user->name) == 0)
            json_array_append_new(users, json_string(p->users[i]));
    return json_pack("{s:s,s:I,s:o,s:f,s:f,s:f,s:I,s:I,s:o}", "name", p->name, "shares", (json_int_t)p->shares, "users", users, "weight_used",
                     (double)(p->weight ? p->weight : p->shares * HTC_ALLOT_WEIGHT_ONE) / (double)HTC_ALLOT_WEIGHT_ONE, "usage_s",
                     htc_allot_usage_now(&p->usage, gw->wall, gw->options.half_life_ns), "core_s", (double)p->core_ns / 1e9, "running",
                     (json_int_t)p->running, "unfinished", (json_int_t)p->unfinished, "quota", htc__gw_quota_json(gw, NULL, p));
}

static int in_order(const project *a, const project *b)
{
    return strcmp(a->name, b->name);
}

static void list_projects(htc_gateway *gw, request *q)
{
    json_t *list = json_array();
    if (gw->projects && weigh_projects(gw) != HTC_OK)
        htc_runtime_break(gw->runtime, HTC_ENOMEM, "listing projects");
    HASH_SORT(gw->projects, in_order);
    for (const project *p = gw->projects; p; p = p->hh.next)
        if (!p->gone && (q->operator_ || htc__gw_project_has(p, q->user->name)))
            json_array_append_new(list, project_json(gw, q, p));
    htc__gw_req_answer(gw, q, json_pack("{s:o,s:f}", "projects", list, "half_life_s", (double)gw->options.half_life_ns / 1e9));
}

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* p's users become those that it has, and add, without rm. 0: q has been answered. */
static int change_users(htc_gateway *gw, request *q, project *p, const json_t *add, const json_t *rm)
{
    size_t  most = p->n_users + json_array_size(add), n = 0, i;
    json_t *one;
    char  (*users)[PROJECT_NAME_BYTES] = htc__alloc(&gw->env, most * sizeof *users);
    if (most && !users) {
        htc_runtime_break(gw->runtime, HTC_ENOMEM, "changing a project");
        return 0;
    }
    for (; n < p->n_users; n++)
        memcpy(users[n], p->users[n], sizeof users[n]);
    json_array_foreach(add, i, one)
        snprintf(users[n++], sizeof *users, "%s", json_string_value(one));
    json_array_foreach(rm, i, one)
        for (size_t k = 0; k < n; k++)
            if (strcmp(users[k], json_string_value(one)) == 0) {
                n--;
                memmove(users[k], users[n], sizeof users[n]);
                k--;
            }
    if (n)
        qsort(users, n, sizeof *users, by_name);
    size_t kept = 0;
    for (size_t k = 0; k < n; k++)
        if (k == 0 || strcmp(users[k], users[kept - 1]) != 0)
            memmove(users[kept++], users[k], sizeof *users);
    char (*fit)[PROJECT_NAME_BYTES] = kept && kept <= PROJECT_USERS_MAX ? htc__alloc(&gw->env, kept * sizeof *fit) : NULL;
    if (fit)
        memcpy(fit, users, kept * sizeof *fit);
    htc__free(&gw->env, users, most * sizeof *users);
    if (kept > PROJECT_USERS_MAX) {
        htc__gw_req_fail(gw, q, HTC_ETOOBIG, "make several projects", "a project has at most %d users", PROJECT_USERS_MAX);
        return 0;
    }
    if (kept && !fit) {
        htc_runtime_break(gw->runtime, HTC_ENOMEM, "changing a project");
        return 0;
    }
    htc__free(&gw->env, p->users, p->n_users * sizeof *p->users);
    p->users = fit;
    p->n_users = (uint32_t)kept;
    return 1;
}

/* A list of names of users that there are. 0: q has been answered. */
static int names_ok(htc_gateway *gw, request *q, const char *field, int exist)
{
    const json_t *list = json_object_get(q->body, field);
    size_t        i;
    json_t       *one;
    int           good = !list || (json_is_array(list) && json_array_size(list) <= PROJECT_USERS_MAX);
    if (!good)
        htc__gw_req_fail(gw, q, HTC_EINVAL, "", "'%s' is not a list of at most %d users", field, PROJECT_USERS_MAX);
    if (good)
        json_array_foreach(list, i, one)
            if (!json_is_string(one) || (exist && !htc__gw_user(gw, json_string_value(one)))) {
                htc__gw_req_fail(gw, q, HTC_ENOTFOUND, "htc users lists them", "there is no user %s", json_is_string(one) ? json_string_value(one) : "without a name");
                return 0;
            }
    return good;
}

static void change_project(htc_gateway *gw, request *q, project *p, uint64_t shares)
{
    if (!change_users(gw, q, p, json_object_get(q->body, "add"), json_object_get(q->body, "rm")))
        return;
    p->shares = shares;
    htc__gw_project_save(gw, q, p);
    htc__gw_reallocate_soon(gw);
}

static int is_going(const htc_gateway *gw, const char *name)
{
    project *p;
    HASH_FIND_STR(gw->projects, name, p);
    return p != NULL;
}

static void set_project(htc_gateway *gw, request *q, int add)
{
    const char *name = htc__gw_req_str(q, "name");
    project    *p = htc__gw_project(gw, name);
    uint64_t    shares = htc__gw_req_u64(q, "shares", p ? p->shares : 1);
    int         rm = strcmp(q->op, "project.rm") == 0;
    if (!q->operator_) {
        htc__gw_req_fail(gw, q, HTC_EDENIED, "ask the operator", "only the operator may change projects");
    } else if (!name || !htc__gw_user_name_ok(name)) {
        htc__gw_req_fail(gw, q, HTC_EINVAL, "use 1 to 32 letters, digits, '.', '_' or '-'", "'%s' is no name of a project", name ? name : "");
    } else if (add && p) {
        htc__gw_req_fail(gw, q, HTC_EEXISTS, "htc project set changes one", "project %s exists already", name);
    } else if (!add && !p) {
        htc__gw_req_fail(gw, q, HTC_ENOTFOUND, "htc project list lists them", "there is no project %s", name);
    } else if (shares < 1 || shares > PROJECT_SHARES_MAX) {
        htc__gw_req_fail(gw, q, HTC_EINVAL, "a whole number from 1 to 4294967296", "the shares are out of range");
    } else if (add && HASH_COUNT(gw->projects) >= PROJECTS_MAX) {
        htc__gw_req_fail(gw, q, HTC_EFULL, "remove one", "there are %d projects, and no more can be", PROJECTS_MAX);
    } else if (p ? p->asks != NULL : is_going(gw, name)) {
        htc__gw_req_fail(gw, q, HTC_EBUSY, "try again in a moment", "project %s is just being written down", name);
    } else if (rm && (p->jobs || p->coming)) { /* one that is being stored will be in it */
        htc__gw_req_fail(gw, q, HTC_EBUSY, "htc status lists them", "jobs of project %s have not ended", name);
    } else if (rm) {
        p->gone = 1;
        htc__gw_project_save(gw, q, p);
    } else if (names_ok(gw, q, "add", 1) && names_ok(gw, q, "rm", 0)) {
        p = p ? p : project_new(gw, name);
        if (p)
            change_project(gw, q, p, shares);
    }
}

void htc__gw_api_projects(htc_gateway *gw, request *q)
{
    if (strcmp(q->op, "projects") == 0)
        list_projects(gw, q);
    else
        set_project(gw, q, strcmp(q->op, "project.add") == 0);
}
