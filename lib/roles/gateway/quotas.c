/* Quotas of users and projects: what may be submitted and handed out.
 *
 * q/USER: format 1, limits. A project's stand in its record. What is used is counted, never stored here: core time with the tasks,
 * bytes of outputs too, those of a user's uploads by the host (content.c), unfinished and held tasks with the open jobs. The core time of what runs counts as it is seen (htc__gw_quotas_look), so that a
 * long task is not noticed only at its end. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "roles/gateway/gateway.h"

#define LIMITS_FORMAT 1
#define HOUR_NS 3.6e12

/* ---- what is used, and what is left ---- */

static const quota_limits *site_limits(const htc_gateway *gw, const user *u)
{
    return u ? &gw->site_quota : NULL; /* projects have no defaults */
}

static const quota_holder *holder_of(const user *u, const project *p)
{
    return u ? &u->quota : &p->quota;
}

static uint64_t limit_of(const htc_gateway *gw, const user *u, const project *p, quota_kind kind)
{
    return htc__quota_limit(&holder_of(u, p)->limits, site_limits(gw, u), kind);
}

static uint64_t used_of(const user *u, const project *p, quota_kind kind)
{
    switch (kind) {
    case QUOTA_CORE: return u ? htc__quota_sum(u->core_ns, u->quota.running) : htc__quota_sum(p->core_ns, p->quota.running);
    case QUOTA_BYTES: return u ? htc__quota_sum(u->bytes, htc__quota_sum(u->uploads, u->uploading)) : p->bytes;
    case QUOTA_TASKS: return u ? u->unfinished + u->coming : p->unfinished + p->coming;
    default: return u ? u->running : p->running;
    }
}

static void text_of(const htc_gateway *gw, const user *u, const project *p, quota_kind kind, char *text, size_t cap)
{
    char who[PROJECT_NAME_BYTES + 10];
    snprintf(who, sizeof who, "%s%.32s", u ? "" : "project ", u ? u->name : p ? p->name : "");
    htc__quota_text(kind, who, used_of(u, p, kind), limit_of(gw, u, p, kind), text, cap);
}

json_t *htc__gw_quota_json(htc_gateway *gw, const user *u, const project *p)
{
    json_t *o = json_object();
    for (quota_kind kind = 0; kind < QUOTA_KINDS; kind++) {
        uint64_t limit = limit_of(gw, u, p, kind), used = used_of(u, p, kind), left = htc__quota_left(limit, used);
        json_t  *one = json_object();
        int      whole = kind != QUOTA_CORE;
        json_object_set_new(one, "used", whole ? json_integer((json_int_t)used) : json_real(htc__quota_shown(kind, used)));
        json_object_set_new(one, "limit", limit == QUOTA_NONE ? json_null() : whole ? json_integer((json_int_t)limit) : json_real(htc__quota_shown(kind, limit)));
        json_object_set_new(one, "left", left == QUOTA_NONE ? json_null() : whole ? json_integer((json_int_t)left) : json_real(htc__quota_shown(kind, left)));
        if (kind == QUOTA_BYTES && u) {
            json_object_set_new(one, "outputs", json_integer((json_int_t)u->bytes));
            json_object_set_new(one, "uploads", json_integer((json_int_t)(used - u->bytes)));
        }
        json_object_set_new(o, htc__quota_name(kind), one);
    }
    return o;
}

/* ---- what may be handed out ---- */

static int set_room(const htc_gateway *gw, user *u, project *p)
{
    quota_holder *h = u ? &u->quota : &p->quota;
    uint64_t      room = htc__quota_room(h, site_limits(gw, u), u ? u->core_ns : p->core_ns, u ? u->running : p->running);
    int           turned = (room == 0) != (h->room == 0);
    h->room = room;
    return turned;
}

/* Whether there is room is looked at, and how much when tasks are handed out: so only the first task that may be and the last one move
 * anything. A user's jobs are let through or not as one; of a project's each is another user's. */
void htc__gw_quota_moved(htc_gateway *gw, user *u, project *p)
{
    if (u && set_room(gw, u, NULL))
        htc__gw_user_moved(gw, u);
    if (p && set_room(gw, NULL, p))
        for (job *j = p->jobs; j; j = j->project_next)
            htc__gw_job_touch(gw, j);
}

void htc__gw_quota_coming(user *u, project *p, uint64_t tasks, int on)
{
    uint64_t more = on ? tasks : -tasks;
    u->coming += more;
    if (p)
        p->coming += more;
}

uint64_t htc__gw_quota_room(const job *j)
{
    uint64_t of_user = j->user->quota.room, of_project = j->project ? j->project->quota.room : QUOTA_NONE;
    return of_user < of_project ? of_user : of_project;
}

/* Slots that tasks of the user would fill which quotas let be handed out; QUOTA_NONE: they do not limit that. */
uint64_t htc__gw_quota_demand(htc_gateway *gw, const user *u)
{
    uint64_t n = 0;
    int      limited = u->quota.room != QUOTA_NONE;
    for (job *j = u->ready; j; j = j->ready_next)
        if (j->project && j->project->quota.room != QUOTA_NONE) {
            limited = 1;
            j->project->counted = 0;
        }
    if (!limited)
        return QUOTA_NONE;
    for (job *j = u->ready; j; j = j->ready_next) {
        uint64_t ready = htc__gw_job_ready(j);
        if (j->project && j->project->quota.room != QUOTA_NONE) {
            uint64_t left = j->project->quota.room - j->project->counted;
            ready = ready < left ? ready : left;
            j->project->counted += ready;
        }
        htc__gw_job_needs(gw, j);
        n += ready * (j->width.slots ? j->width.slots : 1);
    }
    uint64_t most = u->quota.room > UINT64_MAX / AGENT_SLOTS_MAX ? n : u->quota.room * (u->ready && u->ready->width.slots ? u->ready->width.slots : 1);
    return n < most ? n : most;
}

/* Its agents hand back what they have not begun, and leave when the rest has ended. */
static void drain_agents(htc_gateway *gw, const user *u)
{
    agent *a, *next;
    HASH_ITER(hh, gw->agents, a, next)
    if (a->user == u && !a->draining && !a->stop && a->state < AGENT_LEAVING)
        htc__gw_agent_drain(gw, a, 1);
}

static int is_spent(const htc_gateway *gw, const user *u, const project *p)
{
    return htc__quota_left(limit_of(gw, u, p, QUOTA_CORE), used_of(u, p, QUOTA_CORE)) == 0;
}

int htc__gw_quota_spent(const htc_gateway *gw, const user *u)
{
    return htc__quota_left(htc__quota_limit(&u->quota.limits, site_limits(gw, u), QUOTA_CORE), u->core_ns + u->quota.running) == 0;
}

void htc__gw_quotas_look(htc_gateway *gw)
{
    for (user *u = gw->users; u; u = u->hh.next)
        u->quota.running = 0;
    for (project *p = gw->projects; p; p = p->hh.next)
        p->quota.running = 0;
    for (const agent *a = gw->agents; a; a = a->hh.next)
        for (uint32_t i = 0; i < a->n_held; i++) {
            const held  *h = &a->held[i];
            const job   *j = htc__gw_job(gw, h->attempt.job);
            const chunk *c = j ? htc__gw_chunk((job *)j, h->attempt.task / CHUNK_TASKS) : NULL;
            const task  *t = c ? &c->tasks[h->attempt.task % CHUNK_TASKS] : NULL;
            uint64_t     ran = t && t->state == TASK_LEASED && t->phase >= HTC_HELD_RUNNING && gw->now > t->since ? (gw->now - t->since) * h->slots : 0;
            a->user->quota.running += ran;
            if (j && j->project)
                j->project->quota.running += ran;
        }
    for (project *p = gw->projects; p; p = p->hh.next)
        htc__gw_quota_moved(gw, NULL, p);
    for (user *u = gw->users; u; u = u->hh.next) {
        htc__gw_quota_moved(gw, u, NULL);
        if (u->agents && is_spent(gw, u, NULL))
            drain_agents(gw, u);
    }
}

int htc__gw_quota_why(const htc_gateway *gw, const job *j, char *text, size_t cap)
{
    if (!j->open || j->waits || j->paused || htc__gw_job_waiting(j) == 0 || htc__gw_quota_room(j) > 0)
        return 0;
    const user    *u = j->user->quota.room == 0 ? j->user : NULL;
    const project *p = u ? NULL : j->project;
    int            spent = is_spent(gw, u, p);
    char           what[160];
    text_of(gw, u, p, spent ? QUOTA_CORE : QUOTA_PROCESSES, what, sizeof what);
    snprintf(text, cap, "the quota of %s; %s", what, spent ? "it goes on when the operator raises it (htc quota)" : "the next one starts when one ends");
    return 1;
}

/* ---- what may be kept ---- */

static int takes(const htc_gateway *gw, const user *u, const project *p, uint64_t bytes, char *why, size_t cap)
{
    char text[160];
    /* What an upload has only announced costs no result: it may never come. */
    uint64_t used = u ? htc__quota_sum(u->bytes, u->uploads) : used_of(u, p, QUOTA_BYTES);
    if (htc__quota_left(limit_of(gw, u, p, QUOTA_BYTES), used) >= bytes)
        return 1;
    text_of(gw, u, p, QUOTA_BYTES, text, sizeof text);
    snprintf(why, cap, "%llu bytes exceed the quota of %s, and were not kept", (unsigned long long)bytes, text);
    return 0;
}

int htc__gw_quota_takes(const htc_gateway *gw, const job *j, uint64_t bytes, char *why, size_t cap)
{
    return takes(gw, j->user, NULL, bytes, why, cap) && (!j->project || takes(gw, NULL, j->project, bytes, why, cap));
}

/* An upload has its room from its first piece on, which the host sets aside: two at a time do not come to more. Outputs that are taken after
 * that piece was sent and before it is answered may. */
uint64_t htc__gw_quota_uploads(const htc_gateway *gw, const user *u)
{
    return htc__quota_left(limit_of(gw, u, NULL, QUOTA_BYTES), u->bytes);
}

#define FREES_BYTES "remove jobs with their outputs (htc rm), after which their uploads go in time, or ask the operator for more (htc quota)"

void htc__gw_quota_refuses_upload(htc_gateway *gw, request *q, htc_bytes left)
{
    char       text[160];
    htc_reader r = htc_reader_of(htc_buf_bytes(&q->raw));
    htc_get_raw(&r, 32);
    text_of(gw, q->user, NULL, QUOTA_BYTES, text, sizeof text);
    htc__gw_req_fail(gw, q, HTC_EDENIED, FREES_BYTES, "an upload of %llu bytes exceeds the quota of %s: %.*s", (unsigned long long)htc_get_u64(&r), text,
                     (int)left.len, left.len ? (const char *)left.data : "");
}

/* ---- what may be submitted ---- */

static int admits(htc_gateway *gw, request *q, const user *u, const project *p, uint64_t tasks)
{
    char text[160];
    for (quota_kind kind = 0; kind < QUOTA_KINDS; kind++) {
        /* Uploads are bounded where they are written: those of this very submission may have taken what was left. */
        uint64_t used = kind == QUOTA_BYTES && u ? u->bytes : used_of(u, p, kind);
        uint64_t limit = limit_of(gw, u, p, kind), left = htc__quota_left(limit, used);
        if (kind == QUOTA_PROCESSES || (kind == QUOTA_TASKS ? left >= tasks : left > 0))
            continue;
        text_of(gw, u, p, kind, text, sizeof text);
        if (kind == QUOTA_TASKS)
            htc__gw_req_fail(gw, q, HTC_EDENIED, "submit fewer, wait until some have ended, or ask the operator for more (htc quota)",
                             "%llu task%s %s more than the quota of %s", (unsigned long long)tasks, htc__plural(tasks), htc__are(tasks), text);
        else
            htc__gw_req_fail(gw, q, HTC_EDENIED, kind == QUOTA_BYTES ? FREES_BYTES : "ask the operator for more (htc quota)",
                             "nothing is left of the quota of %s", text);
        return 0;
    }
    return 1;
}

int htc__gw_quota_has_task(const htc_gateway *gw, const job *j)
{
    const user    *u = j->user;
    const project *p = j->project;
    return htc__quota_left(limit_of(gw, u, NULL, QUOTA_TASKS), used_of(u, NULL, QUOTA_TASKS)) > 0 &&
           (!p || htc__quota_left(limit_of(gw, NULL, p, QUOTA_TASKS), used_of(NULL, p, QUOTA_TASKS)) > 0);
}

int htc__gw_quota_retries(htc_gateway *gw, request *q, const job *j)
{
    const project *p = htc__gw_project(gw, j->wishes.project);
    return htc__gw_quota_admits(gw, q, j->user, p, 1);
}

int htc__gw_quota_admits(htc_gateway *gw, request *q, const user *u, const project *p, uint64_t tasks)
{
    return admits(gw, q, u, NULL, tasks) && (!p || admits(gw, q, NULL, p, tasks));
}

/* ---- the record of a user's ---- */

void htc__gw_quota_found(htc_gateway *gw, const htc_kv_item *item)
{
    char       name[NAME_MAX_BYTES];
    htc_reader r;
    size_t     n = item->key.len - 2;
    quota_limits limits;
    htc_runtime_record_open(item->value, LIMITS_FORMAT, LIMITS_FORMAT, &r);
    htc__gw_limits_read(&r, &limits);
    if (htc_runtime_record_end(&r) != HTC_OK || n >= sizeof name) {
        htc__gw_unreadable(gw, "reading a quota");
        return;
    }
    memcpy(name, (const char *)item->key.data + 2, n);
    name[n] = '\0';
    user *u = htc__gw_user(gw, name);
    if (!u) { /* removed, and a quota is nobody else's who has the name later */
        htc__gw_delete_of(gw, htc__gw_key_quota(name), item->version);
        return;
    }
    u->quota.limits = limits;
    u->quota.version = item->version;
}

typedef struct setting {
    request     *q;
    char         name[NAME_MAX_BYTES];
    quota_limits limits;
    uint64_t     version; /* of what it replaces */
} setting;

static void setting_write(htc_gateway *gw, setting *s);

/* A record was there, of a gateway before this one that was answered by nobody; or another request has just made it. */
static void create_confirmed(void *role, void *ctx, htc_status status)
{
    if (status == HTC_OK)
        setting_write(role, ctx);
}

static void limits_stored(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    setting      s = *(setting *)ctx;
    user        *u = htc__gw_user(gw, s.name);
    if (r->status == HTC_MISMATCH && !s.version && r->version && htc__gw_shared(gw)) {
        ((setting *)ctx)->version = r->version;
        htc__gw_confirm(gw, create_confirmed, ctx);
        return;
    }
    htc_runtime_context_free(gw->runtime, ctx);
    if (u)
        u->changing = 0;
    if (r->status != HTC_OK || !u) {
        htc__gw_req_fail(gw, s.q, r->status != HTC_OK ? r->status : HTC_ENOTFOUND, "try again in a moment", "the quota of %s could not be stored: %s", s.name,
                         htc_strerror(r->status != HTC_OK ? r->status : HTC_ENOTFOUND));
        return;
    }
    u->quota.limits = s.limits;
    u->quota.version = r->version;
    htc__gw_quota_moved(gw, u, NULL);
    htc__gw_quotas_look(gw);
    htc__gw_reallocate_soon(gw);
    htc__gw_req_answer(gw, s.q, json_pack("{s:s,s:o}", "name", u->name, "quota", htc__gw_quota_json(gw, u, NULL)));
}

/* Nobody removes the user meanwhile, and so nobody else has the name when it is written. */
static void store_limits(htc_gateway *gw, request *q, user *u, const quota_limits *limits)
{
    setting *s = htc_runtime_context(gw->runtime, sizeof *s);
    if (!s)
        return;
    *s = (setting){ .q = q, .limits = *limits, .version = u->quota.version };
    snprintf(s->name, sizeof s->name, "%s", u->name);
    u->changing = 1;
    setting_write(gw, s);
}

static void limits_write(htc_gateway *gw, const char *name, const quota_limits *limits, uint64_t version, htc_runtime_store_fn fn, void *ctx)
{
    htc_runtime_record_begin(&gw->scratch, LIMITS_FORMAT);
    htc__gw_limits_write(&gw->scratch, limits);
    key k = htc__gw_key_quota(name);
    htc__gw_ask_write(gw,
                      &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_CAS_VERSION, .key = htc__gw_key_bytes(&k),
                                         .value = htc__gw_record_bytes(gw, &gw->scratch), .version = version },
                      fn, ctx);
}

static void setting_write(htc_gateway *gw, setting *s)
{
    limits_write(gw, s->name, &s->limits, s->version, limits_stored, s);
}

static void limits_sealed(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    user        *u = ctx;
    if (r->status == HTC_OK)
        u->quota.version = r->version;
    else if (!htc__gw_fenced(gw, r))
        htc_runtime_break(gw->runtime, r->status, "writing down anew a quota");
}

void htc__gw_quotas_seal(htc_gateway *gw)
{
    for (user *u = gw->users; u; u = u->hh.next)
        if (u->quota.version)
            limits_write(gw, u->name, &u->quota.limits, u->quota.version, limits_sealed, u);
}

/* ---- the request ---- */

/* A number in the unit of people, 0: no limit; null: what htc.ini says. -1: it is none. */
static int take_limit(const request *q, quota_kind kind, quota_limits *limits)
{
    const json_t *v = json_object_get(q->body, htc__quota_name(kind));
    double        n = json_number_value(v), most = kind == QUOTA_CORE ? 5e6 : 9e18; /* 64 bits of nanoseconds hold 5.1 million hours */
    if (!v)
        return 0;
    if (json_is_null(v)) {
        limits->at[kind] = 0;
        return 1;
    }
    if (!json_is_number(v) || !(n >= 0) || n > most || (kind != QUOTA_CORE && n != floor(n)))
        return -1;
    limits->at[kind] = (kind == QUOTA_CORE ? (uint64_t)(n * HOUR_NS) : (uint64_t)n) + 1;
    if (n > 0 && limits->at[kind] == 1)
        limits->at[kind] = 2;
    return 1;
}

void htc__gw_api_quota(htc_gateway *gw, request *q)
{
    const char  *name = htc__gw_req_str(q, "name"), *project_name = htc__gw_req_str(q, "project");
    project     *p = htc__gw_project(gw, project_name);
    user        *u = project_name ? NULL : name ? htc__gw_user(gw, name) : q->user;
    int          said = 0, wrong = 0;
    quota_limits limits = u ? u->quota.limits : p ? p->quota.limits : (quota_limits){ { 0 } };
    for (quota_kind kind = 0; kind < QUOTA_KINDS && !wrong; kind++) {
        int one = take_limit(q, kind, &limits);
        wrong = one < 0;
        said |= one > 0;
        if (wrong)
            htc__gw_req_fail(gw, q, HTC_EINVAL, "a number, 0: no limit, null: what htc.ini says", "%s is no limit", htc__quota_name(kind));
    }
    if (wrong)
        return;
    /* Who may not see it does not learn whether it is there. */
    if (!q->operator_ && (said || (project_name ? !p || !htc__gw_project_has(p, q->user->name) : u != q->user)))
        htc__gw_req_fail(gw, q, HTC_EDENIED, "ask the operator", said ? "only the operator may set quotas" : "you may see your own quota, and those of your projects");
    else if (!u && !p)
        htc__gw_req_fail(gw, q, HTC_ENOTFOUND, project_name ? "htc project list lists them" : "htc users lists them", "there is no %s %s",
                         project_name ? "project" : "user", project_name ? project_name : name ? name : "");
    else if (said && u && (u->changing || u->removing))
        htc__gw_req_fail(gw, q, HTC_EBUSY, "try again in a moment", "user %s is just being changed", u->name);
    else if (said && u)
        store_limits(gw, q, u, &limits);
    else if (said && p->asks)
        htc__gw_req_fail(gw, q, HTC_EBUSY, "try again in a moment", "project %s is just being written down", p->name);
    else if (said) {
        p->quota.limits = limits;
        htc__gw_quota_moved(gw, NULL, p);
        htc__gw_quotas_look(gw);
        htc__gw_reallocate_soon(gw);
        htc__gw_project_save(gw, q, p);
    } else {
        htc__gw_req_answer(gw, q, json_pack("{s:s,s:o}", u ? "name" : "project", u ? u->name : p->name, "quota", htc__gw_quota_json(gw, u, p)));
    }
}
