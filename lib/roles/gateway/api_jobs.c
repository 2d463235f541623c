/* submit, status, wait. */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "roles/gateway/gateway.h"

/* ---- a job as JSON ---- */

static json_t *seconds(htc_ns at)
{
    return at ? json_real((double)at / 1e9) : json_null();
}

static void leased_phases(const job *j, uint64_t *leased, uint64_t *running, uint64_t *staging_out)
{
    uint64_t left = j->now.leased; /* what is not found yet: chunks without any are passed by */
    *leased = *running = *staging_out = 0;
    for (const chunk *c = j->chunks; c && left; c = c->hh.next)
        for (uint32_t i = 0; i < c->n && c->open && left; i++) {
            const task *t = &c->tasks[i];
            if (t->state != TASK_LEASED)
                continue;
            left--;
            *running += t->phase == HTC_HELD_RUNNING;
            *staging_out += t->phase > HTC_HELD_RUNNING;
            *leased += t->phase < HTC_HELD_RUNNING;
        }
}

json_t *htc__gw_job_json(htc_gateway *gw, const job *j)
{
    uint64_t leased, running, staging_out, agents = 0;
    leased_phases(j, &leased, &running, &staging_out);
    const user *u = j->user;
    uint64_t    of_user = u->agents + u->draining + u->leaving;
    if (j->open) /* a prefetching agent holds several tasks */
        agents = leased + running + staging_out < of_user ? leased + running + staging_out : of_user;
    uint64_t cancelled = j->now.cancelled + (j->cancelled ? j->now.fresh : 0);
    uint64_t waiting = j->now.waiting + (j->cancelled ? 0 : j->now.fresh);
    json_t  *tasks = json_pack("{s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I}", "waiting", (json_int_t)waiting, "leased",
                               (json_int_t)leased, "running", (json_int_t)running, "staging_out", (json_int_t)staging_out,
                               "retry_wait", (json_int_t)j->now.retry_wait, "done", (json_int_t)j->now.done, "failed",
                               (json_int_t)j->now.failed, "cancelled", (json_int_t)cancelled);
    json_t *o = json_pack("{s:I,s:s,s:s,s:s,s:o,s:o,s:o,s:I,s:o,s:I,s:I,s:I,s:I,s:I,s:I,s:s,s:s,s:i,s:I}", "id", (json_int_t)j->id,
                          "user", u->name, "name", j->name, "state", htc__gw_job_state(j), "submitted", seconds(j->submitted),
                          "started", seconds(j->started), "ended", seconds(j->ended), "count", (json_int_t)j->count, "tasks",
                          tasks, "attempts", (json_int_t)j->now.used.attempts, "lost", (json_int_t)j->now.used.losses, "duplicates",
                          (json_int_t)j->duplicates, "agents", (json_int_t)agents, "ra", (json_int_t)u->ra, "weight",
                          (json_int_t)u->weight, "output", j->output, "error_output", j->error_output, "priority",
                          (int)j->priority, "max_running", (json_int_t)j->max_running);
    char     reason[300] = "";
    uint64_t left = j->count - htc__gw_job_terminal(j);
    htc__gw_edges_broken(j, reason, sizeof reason);
    if (o) {
        json_object_set_new(o, "held_agents", json_integer((json_int_t)u->held_agents));
        json_object_set_new(o, "after", htc__gw_edges_json(j));
        json_object_set_new(o, "project", json_string(j->wishes.project));
        json_object_set_new(o, "reason", json_string(reason));
        htc__gw_wishes_json(o, j);
    }
    if (o && j->open && left && u->runs.mean_s > 0 && agents)
        json_object_set_new(o, "eta_s", json_real(ceil((double)left / (double)agents) * u->runs.mean_s));
    else if (o)
        json_object_set_new(o, "eta_s", json_null());
    (void)gw;
    return o;
}

/* ---- submit ---- */


typedef struct submission {
    request   *q;
    job       *job;
    job       *end; /* what runs at its end; NULL: nothing */
    job       *at;  /* of both, that is being stored */
    size_t     bytes;
    htc_status failed;
    uint8_t    left; /* something of it could not be deleted */
    uint8_t    undo; /* the next of what is undone */
} submission;

static uint64_t tasks_of(const job *j, const job *end)
{
    return j->count + (end ? end->count : 0);
}

/* Stored or not, it is over: what it is to count for from now on it counts for itself. */
static void coming_over(htc_gateway *gw, const submission *s)
{
    assert(gw->submitting >= s->bytes);
    gw->submitting -= s->bytes;
    htc__gw_quota_coming(s->job->user, htc__gw_project(gw, s->job->wishes.project), tasks_of(s->job, s->end), 0);
}

static void free_both(htc_gateway *gw, job *j, job *end)
{
    htc__gw_job_free(gw, j);
    if (end)
        htc__gw_job_free(gw, end);
}

/* sure: nothing of it is stored. Else the key stays known, and who repeats the submission finds out. */
static void given_up(htc_gateway *gw, submission *s, int sure)
{
    htc_status said = s->failed == HTC_ENOSPC || s->failed == HTC_EFULL ? s->failed : HTC_ESTORE;
    job       *j = s->job;
    coming_over(gw, s);
    if (j->key[0] && sure)
        htc__gw_known_key_drop(gw, j->user->name, j->key);
    else if (j->key[0])
        htc__gw_known_key_set(gw, j->user->name, j->key, j->id);
    if (sure)
        htc__gw_req_fail(gw, s->q, said, "nothing was accepted; try again when there is room", "the job could not be stored: %s",
                         htc_strerror(s->failed));
    else
        htc__gw_req_fail(gw, s->q, HTC_ETIMEDOUT, "submit it again with the same key", "it is not known whether the job is stored: %s",
                         htc_strerror(s->failed));
    free_both(gw, j, s->end);
    htc_runtime_context_free(gw->runtime, s);
}

static void undone(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    submission *s = ctx;
    s->left |= r->status != HTC_OK && r->status != HTC_ENOTFOUND;
    if (r->last)
        given_up(gw, s, !s->left);
}

static void undo_next(htc_gateway *gw, submission *s);

static void undo_answered(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    submission  *s = ctx;
    if (htc__gw_fenced(gw, r))
        return;
    s->left |= r->status != HTC_OK && r->status != HTC_ENOTFOUND;
    if (s->left)
        given_up(gw, s, 0);
    else
        undo_next(gw, s);
}

/* Where other gateways may be, one after the other and by their versions. The job's mark first: as long as it was this gateway's, no other one had seen the
 * job. Then what runs at its end: a gateway that starts in between finds that its parent is gone. */
static void undo_next(htc_gateway *gw, submission *s)
{
    const job *j = s->job, *end = s->end;
    const struct {
        key      k;
        uint64_t version; /* 0: it was not written */
    } of[] = { { htc__gw_key_open(j->id), j->open_version },
               { htc__gw_key_job(end ? end->id : 0), end ? end->version : 0 },
               { htc__gw_key_open(end ? end->id : 0), end ? end->open_version : 0 } };
    while (s->undo < sizeof of / sizeof *of && !of[s->undo].version)
        s->undo++;
    if (s->undo < sizeof of / sizeof *of) {
        htc_kv_request rq = htc__gw_delete_op(gw, &of[s->undo].k, of[s->undo].version);
        s->undo++;
        htc_runtime_ask(gw->runtime, &rq, 1, undo_answered, s);
        return;
    }
    for (const job *one = j; one; one = one == j ? end : NULL) { /* of numbers that are nobody's any more */
        htc__gw_delete(gw, htc__gw_key_spec(one->id));
        htc__gw_delete(gw, htc__gw_key_content(one->id));
        htc__gw_delete(gw, htc__gw_key_mail(one->id));
        if (one->wishes.credentials)
            htc__gw_delete(gw, htc__gw_key_credentials(one->id));
    }
    given_up(gw, s, 1);
}

static void give_up(htc_gateway *gw, submission *s, htc_status status)
{
    const job     *both[2] = { s->job, s->end };
    key            keys[12];
    htc_kv_request rq[12];
    size_t         n = 0;
    s->failed = status;
    if (!s->job->id) {
        given_up(gw, s, 1);
        return;
    }
    if (htc__gw_shared(gw)) { /* whether the job is stored is known when all is read again */
        if (status != HTC_ENOSPC && status != HTC_EFULL && status != HTC_ETOOBIG)
            htc_runtime_break(gw->runtime, status, "storing a job");
        else
            undo_next(gw, s);
        return;
    }
    for (size_t i = 0; i < 2 && both[i]; i++) { /* some of it may be stored, and nobody shall find it */
        uint64_t id = both[i]->id;
        key      of[6] = { htc__gw_key_job(id), htc__gw_key_open(id), htc__gw_key_spec(id), htc__gw_key_content(id), htc__gw_key_mail(id), htc__gw_key_credentials(id) };
        for (size_t k = 0; k < 5u + both[i]->wishes.credentials; k++)
            keys[n++] = of[k];
    }
    for (size_t i = 0; i < n; i++)
        rq[i] = (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_DELETE, .key = htc__gw_key_bytes(&keys[i]) };
    htc_runtime_ask(gw->runtime, rq, n, undone, s);
}

static void answer_submitted(htc_gateway *gw, request *q, const job *j, int repeated)
{
    htc__gw_req_answer(gw, q,
                       json_pack("{s:I,s:I,s:s,s:o,s:b}", "id", (json_int_t)j->id, "count", (json_int_t)j->count, "name", j->name,
                         "warnings", htc__gw_spec_warnings(j->spec), "repeated", repeated));
}

/* The last of several writes has ended, and none has failed; else more are to come, or the submission is given up. */
static int all_written(htc_gateway *gw, submission *s, const htc_kv_result *r)
{
    if (htc__gw_fenced(gw, r))
        return 0;
    if (r->status != HTC_OK && s->failed == HTC_OK)
        s->failed = r->status;
    if (!r->last)
        return 0;
    if (s->failed == HTC_OK)
        return 1;
    give_up(gw, s, s->failed);
    return 0;
}

static void stored(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    submission *s = ctx;
    job        *j = s->job;
    if (!all_written(gw, s, r))
        return;
    coming_over(gw, s);
    j->version = r->version;
    htc_buf_free(&j->content);
    htc__gw_job_add(gw, j);
    if (s->end)
        htc__gw_end_add(gw, s->end);
    htc__gw_edges_opened(gw, j);
    htc__log_with(&gw->env, HTC_LOG_INFO,
                  HTC__FIELDS(HTC__TEXT("user", j->user->name), HTC__NUMBER("job", j->id), HTC__NUMBER("tasks", j->count)),
                  "%s submits job %llu (%s): %llu task%s", j->user->name, (unsigned long long)j->id, j->name,
                  (unsigned long long)j->count, htc__plural(j->count));
    if (j->key[0])
        htc__gw_known_key_set(gw, j->user->name, j->key, j->id);
    answer_submitted(gw, s->q, j, 0);
    htc_runtime_context_free(gw->runtime, s);
}

static void end_stored(void *role, void *ctx, const htc_kv_result *r);

/* Where other gateways may be, the job's own record comes last: none is there without the mark by which the next gateway finds it. */
static void mark_stored(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    submission  *s = ctx;
    job         *j = s->at;
    if (htc__gw_fenced(gw, r))
        return;
    if (r->index == 0 && r->status == HTC_OK)
        j->open_version = r->version;
    if (r->status != HTC_OK && s->failed == HTC_OK)
        s->failed = r->status;
    if (!r->last)
        return;
    if (s->failed != HTC_OK) {
        give_up(gw, s, s->failed);
        return;
    }
    htc__gw_record_job_write(&gw->scratch, j);
    htc__gw_write(gw, htc__gw_key_job(j->id), htc__gw_record_bytes(gw, &gw->scratch), 0, j == s->end ? end_stored : stored, s);
}

/* What is stored beside its mark and its record: keys and requests of at most PARTS. */
#define PARTS 4

static size_t put_parts(const job *j, key keys[PARTS], htc_kv_request *rq)
{
    htc_bytes values[PARTS] = { htc_spec_bytes(j->spec), htc_buf_bytes(&j->content), htc_bytes_of(j->wishes.mail_to[0] ? "1" : ""), htc__gw_credentials_bytes(j) };
    size_t    n = 0;
    keys[0] = htc__gw_key_spec(j->id);
    keys[1] = htc__gw_key_content(j->id);
    keys[2] = htc__gw_key_mail(j->id);
    keys[3] = htc__gw_key_credentials(j->id);
    for (size_t i = 0; i < PARTS; i++)
        if (values[i].len)
            rq[n++] = (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_PUT, .key = htc__gw_key_bytes(&keys[i]), .value = values[i] };
    return n;
}

static void store_mark(htc_gateway *gw, submission *s)
{
    const job     *j = s->at;
    key            open_key = htc__gw_key_open(j->id), keys[PARTS];
    htc_kv_request rq[1 + PARTS];
    htc__gw_record_open_write(&gw->scratch, gw->active.own.term, 0);
    rq[0] = htc__gw_write_op(gw, &open_key, htc__gw_record_bytes(gw, &gw->scratch), 0);
    htc_runtime_ask(gw->runtime, rq, 1 + put_parts(j, keys, rq + 1), mark_stored, s);
}

/* The record last: a job whose record is there is whole. */
static void store_one(htc_gateway *gw, submission *s, job *j)
{
    s->at = j;
    if (htc__gw_shared(gw)) {
        store_mark(gw, s);
        return;
    }
    key            open_key = htc__gw_key_open(j->id), job_key = htc__gw_key_job(j->id), keys[PARTS];
    htc_kv_request rq[2 + PARTS];
    htc__gw_record_job_write(&gw->scratch, j);
    rq[0] = (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_PUT, .key = htc__gw_key_bytes(&open_key), .value = htc_bytes_of("1") };
    size_t n = 1 + put_parts(j, keys, rq + 1);
    rq[n++] = (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_CAS_VERSION, .key = htc__gw_key_bytes(&job_key), .value = htc__gw_record_bytes(gw, &gw->scratch) };
    htc_runtime_ask(gw->runtime, rq, n, j == s->end ? end_stored : stored, s);
}

/* What runs at its end is stored first: without the job it never runs. */
static void end_stored(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    submission  *s = ctx;
    if (!all_written(gw, s, r))
        return;
    s->end->version = r->version;
    htc_buf_free(&s->end->content);
    store_one(gw, s, s->job);
}

static void numbered(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    submission *s = ctx;
    job        *j = s->job;
    if (r->status != HTC_OK || r->number < 1 + (s->end != NULL)) {
        give_up(gw, s, r->status != HTC_OK ? r->status : HTC_ESTORE);
        return;
    }
    j->id = (uint64_t)r->number - (s->end != NULL);
    if (!j->name[0])
        snprintf(j->name, sizeof j->name, "job-%llu", (unsigned long long)j->id);
    if (s->end)
        htc__gw_end_number(s->end, j, (uint64_t)r->number);
    store_one(gw, s, s->end ? s->end : j);
}

static void draw_number(htc_gateway *gw, submission *s)
{
    htc_runtime_ask(gw->runtime,
                    &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_ADD, .key = htc_bytes_of("g/job"), .delta = 1 + (s->end != NULL) }, 1, numbered, s);
}

/* What it names is kept from now on: its list is written before the grace ends. */
static void touched(void *role, void *ctx, htc_status status, htc_bytes body)
{
    htc_gateway *gw = role;
    (void)body;
    if (status == HTC_OK)
        draw_number(gw, ctx);
    else
        give_up(gw, ctx, status);
}

/* The parents, before anything is stored: what may not be waited for is refused. */
static void parents_looked(htc_gateway *gw, void *ctx, htc_status status, uint64_t parent)
{
    submission        *s = ctx;
    job               *j = s->job;
    unsigned long long id = parent;
    if (status == HTC_OK && j->content.len) {
        htc_buf_clear(&gw->scratch);
        htc_put_str(&gw->scratch, j->user->name);
        htc_put_raw(&gw->scratch, htc_buf_bytes(&j->content));
        htc_runtime_call(gw->runtime, HTC_CALL_CONTENT_TOUCH, htc_buf_bytes(&gw->scratch), touched, s);
        return;
    }
    if (status == HTC_OK) {
        draw_number(gw, s);
        return;
    }
    assert(!j->id);
    coming_over(gw, s);
    if (j->key[0])
        htc__gw_known_key_drop(gw, j->user->name, j->key);
    if (status == HTC_ENOTFOUND)
        htc__gw_req_fail(gw, s->q, status, "htc status lists the jobs that can be waited for", "there is no job %llu to wait for", id);
    else if (status == HTC_EMPTY)
        htc__gw_req_fail(gw, s->q, HTC_ENOTFOUND, "leave it out, if it was yours and ended as it should", "job %llu is removed or never was yours, and how it ended is not known", id);
    else
        htc__gw_req_fail(gw, s->q, status, "try again in a moment", "job %llu, to wait for, could not be read: %s", id, htc_strerror(status));
    free_both(gw, j, s->end);
    htc_runtime_context_free(gw->runtime, s);
}

static int option_text(htc_gateway *gw, request *q, const char *name, char *out, size_t cap)
{
    const char *value = htc__gw_req_str(q, name);
    if (value && strlen(value) >= cap) {
        htc__gw_req_fail(gw, q, HTC_ETOOBIG, "", "'%s' is longer than %zu bytes", name, cap - 1);
        return 0;
    }
    snprintf(out, cap, "%s", value ? value : "");
    return 1;
}

static int options(htc_gateway *gw, request *q, job *j)
{
    const char *compat = htc__gw_req_str(q, "compat");
    uint64_t    retries = htc__gw_req_u64(q, "retries", gw->options.max_attempts - 1);
    uint64_t    max_running = htc__gw_req_u64(q, "max_running", 0);
    double      limit = htc__gw_req_num(q, "time_limit", 0), priority = htc__gw_req_num(q, "priority", 0);
    if (!option_text(gw, q, "name", j->name, sizeof j->name) || !option_text(gw, q, "output", j->output, sizeof j->output) ||
        !option_text(gw, q, "error_output", j->error_output, sizeof j->error_output) ||
        !option_text(gw, q, "submit_dir", j->submit_dir, sizeof j->submit_dir))
        return 0;
    if (retries > 1000 || !(limit >= 0 && limit < 1e9)) {
        htc__gw_req_fail(gw, q, HTC_EINVAL, "", retries > 1000 ? "retries: 0 to 1000" : "time_limit: 0 to 1e9 seconds");
        return 0;
    }
    if (!(fabs(priority) <= JOB_PRIORITY_MAX) || priority != floor(priority) || max_running > INT64_MAX) {
        htc__gw_req_fail(gw, q, HTC_EINVAL, "", max_running > INT64_MAX ? "max_running: 0 or more" : "priority: -%d to %d", JOB_PRIORITY_MAX, JOB_PRIORITY_MAX);
        return 0;
    }
    if (compat && strcmp(compat, "slurm") != 0 && strcmp(compat, "sge") != 0) {
        htc__gw_req_fail(gw, q, HTC_EINVAL, "slurm or sge", "there is no compatible environment called '%s'", compat);
        return 0;
    }
    j->compat = !compat ? HTC_COMPAT_NONE : strcmp(compat, "slurm") == 0 ? HTC_COMPAT_SLURM : HTC_COMPAT_SGE;
    j->max_attempts = (uint32_t)retries + 1;
    j->time_limit_s = limit;
    j->priority = (int32_t)priority;
    j->max_running = max_running;
    j->memory = htc__gw_req_u64(q, "memory", 0);
    j->paused = htc__gw_req_flag(q, "paused") != 0;
    return 1;
}

/* Its first task, when nothing differs between tasks that could matter, stands for all: what can never fit any node is
 * said now, not when its turn comes. */
static int first_task_fits(htc_gateway *gw, request *q, const job *j)
{
    htc_error  error = { 0 };
    char       why[256];
    htc_task  *t = NULL;
    htc_status status = htc_spec_task(j->spec, 0, &t, &error);
    if (status != HTC_OK) {
        error.status = status;
        htc__gw_req_error(gw, q, &error);
        return 0;
    }
    status = htc__gw_fits(gw, j, t, 0, why, sizeof why);
    htc_task_destroy(t);
    if (status != HTC_OK)
        htc__gw_req_fail(gw, q, status, status == HTC_EDENIED ? "" : "ask for what a site has (htc sites, htc agents), or add one that has it", "the task %s", why);
    return status == HTC_OK;
}

/* Is anything accepted now, of this user? 0: q has been answered. */
static int takes_work(htc_gateway *gw, request *q, const user *u)
{
    if (gw->shutdown || gw->store_status != HTC_OK) {
        htc__gw_req_fail(gw, q, gw->shutdown ? HTC_EBUSY : gw->store_status, "", "no job is accepted now: %s",
                         gw->shutdown ? "the system is ending" : htc_strerror(gw->store_status));
        return 0;
    }
    if (htc__gw_place(gw, u) == HTC_PLACE_REFUSED) {
        char why[200];
        htc__gw_place_text(gw, u, why, sizeof why);
        htc__gw_req_fail(gw, q, HTC_EDENIED, "htc.ini(5), task.others_as_owner; htc(1), htc user", "tasks of %s are refused: %s", u->name, why);
        return 0;
    }
    return 1;
}

/* Its specification, options and content are there: number it and store it. */
static void take_on(htc_gateway *gw, request *q, job *j, job *end)
{
    size_t     bytes = htc_spec_bytes(j->spec).len + (end ? htc_spec_bytes(end->spec).len : 0);
    htc_status admitted = htc__admission_of_spec(bytes, gw->submitting);
    project   *p = htc__gw_project(gw, j->wishes.project);
    int        gone = j->wishes.project[0] && !p; /* while its document was read */
    if (gone)
        htc__gw_req_fail(gw, q, HTC_EDENIED, "htc project list lists yours", "%s is in no project '%.64s'", j->user->name, j->wishes.project);
    if (gone || !htc__gw_quota_admits(gw, q, j->user, p, tasks_of(j, end))) {
        free_both(gw, j, end);
        return;
    }
    if (admitted != HTC_OK) {
        int never = admitted == HTC_ETOOBIG;
        htc__gw_req_fail(gw, q, admitted, never ? "submit it in parts" : "try again in a moment",
                         never ? "the job needs %zu bytes, more than one record holds"
                       : "too many large jobs are being submitted for one of %zu bytes more",
                         bytes);
        free_both(gw, j, end);
        return;
    }
    const char *key_text = htc__gw_req_str(q, "key");
    snprintf(j->key, sizeof j->key, "%s", key_text ? key_text : "");
    if (key_text)
        htc__gw_known_key_set(gw, j->user->name, j->key, 0);
    json_object_del(q->body, "jsdl"); /* what was said of it is in the specification */
    json_object_del(q->body, "on_end");
    json_object_del(q->body, "credentials"); /* the job has them */
    submission *s = htc_runtime_context(gw->runtime, sizeof *s);
    if (!s)
        return;
    *s = (submission){ .q = q, .job = j, .end = end, .bytes = bytes };
    gw->submitting += bytes;
    htc__gw_quota_coming(j->user, p, tasks_of(j, end), 1);
    htc__gw_edges_look(gw, j, 1, parents_looked, s);
}

/* The one that is asked for, or that the document names, or the user's first. 0: q has been answered. */
static int take_project(htc_gateway *gw, request *q, job *j)
{
    const char *asked = htc__gw_req_str(q, "project"), *name = asked ? asked : htc_spec_project(j->spec);
    project    *p = name[0] ? htc__gw_project(gw, name) : asked ? NULL : htc__gw_project_of(gw, q->user->name);
    if (name[0] && (!p || !htc__gw_project_has(p, q->user->name))) { /* what others work on is not told */
        htc__gw_req_fail(gw, q, HTC_EDENIED, "htc project list lists yours", "%s is in no project '%.64s'", q->user->name, name);
        return 0;
    }
    snprintf(j->wishes.project, sizeof j->wishes.project, "%s", p ? p->name : "");
    return 1;
}

static void submit_new(htc_gateway *gw, request *q)
{
    htc_error        error = { 0 };
    const json_t    *text = json_object_get(q->body, "jsdl");
    htc_spec_options limits = { .size = sizeof limits, .tasks_max = gw->options.tasks_max };
    if (!json_is_string(text)) {
        htc__gw_req_fail(gw, q, HTC_EINVAL, "see doc/api.md", "submit needs a \"jsdl\" document");
        return;
    }
    if (!takes_work(gw, q, q->user))
        return;
    job *j = htc__gw_job_new(gw);
    if (!j)
        return;
    j->user = q->user;
    htc_bytes  xml = { json_string_value(text), json_string_length(text) };
    htc_status status = htc_spec_parse(&gw->env, xml, &limits, &j->spec, &error);
    if (status != HTC_OK) {
        error.status = status;
        htc__gw_req_error(gw, q, &error);
        htc__gw_job_free(gw, j);
        return;
    }
    j->count = htc_spec_count(j->spec);
    j->now.fresh = j->count;
    j->submitted = gw->wall;
    if (!htc__gw_note_asked(gw, q, j))
        return;
    htc__gw_wishes_of_document(q, j->spec);
    if (!options(gw, q, j) || !htc__gw_wishes_parse(gw, q, j) || !take_project(gw, q, j) || !htc__gw_edges_parse(gw, q, j) || !first_task_fits(gw, q, j)) {
        htc__gw_job_free(gw, j);
        return;
    }
    if (!j->name[0])
        snprintf(j->name, sizeof j->name, "%s", htc_spec_name(j->spec));
    htc__text_clean(j->name);
    htc_buf_init(&j->content, &gw->env, HTC_KV_VALUE_MAX);
    htc__gw_content_find(xml, &j->content);
    job *end;
    if (!htc__gw_end_parse(gw, q, j, &end)) {
        htc__gw_job_free(gw, j);
        return;
    }
    if (end) /* one request keeps all of it */
        htc__gw_content_find(htc_bytes_of(htc__gw_req_str(q, "on_end")), &j->content);
    if (j->content.status != HTC_OK) {
        htc_runtime_break(gw->runtime, j->content.status, "noting what a job names");
        return;
    }
    take_on(gw, q, j, end);
}

/* ---- resubmit: a new job of the document and the inputs of one that was submitted ---- */

typedef struct anew {
    request   *q;
    job       *job;
    uint64_t   of;
    htc_status status;
} anew;

static void again_goes(htc_gateway *gw, anew *a)
{
    request *q = a->q;
    job     *j = a->job;
    if (a->status == HTC_OK && htc_spec_count(j->spec) != j->count)
        a->status = HTC_ECORRUPT;
    if (a->status != HTC_OK) {
        htc__gw_req_fail(gw, q, a->status, a->status == HTC_ENOTFOUND ? "it was removed meanwhile" : "try again in a moment", "the document of job %llu could not be read: %s",
                         (unsigned long long)a->of, htc_strerror(a->status));
        htc__gw_job_free(gw, j);
    } else if (!first_task_fits(gw, q, j)) {
        htc__gw_job_free(gw, j);
    } else {
        take_on(gw, q, j, NULL);
    }
    htc_runtime_context_free(gw->runtime, a);
}

static void again_read(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    anew        *a = ctx;
    job         *j = a->job;
    htc_status   status = r->status;
    if (r->index == 0 && status == HTC_OK)
        status = htc_spec_from_bytes(&gw->env, r->value, &j->spec);
    else if (r->index == 1 && status == HTC_OK)
        htc_put_raw(&j->content, r->value);
    else if (r->index == 1 && status == HTC_ENOTFOUND)
        status = HTC_OK; /* its document names no uploaded content */
    else if (r->index == 2 && status == HTC_OK)
        status = htc__gw_credentials_read(gw, j, r->value);
    if (status == HTC_OK)
        status = j->content.status;
    if (a->status == HTC_OK)
        a->status = status;
    if (r->last)
        again_goes(gw, a);
}

static void copy_options(job *to, const job *from)
{
    to->count = to->now.fresh = from->count;
    to->time_limit_s = from->time_limit_s;
    to->memory = from->memory;
    to->max_attempts = from->max_attempts;
    to->compat = from->compat;
    to->priority = from->priority;
    to->max_running = from->max_running;
    memcpy(to->name, from->name, sizeof to->name);
    memcpy(to->output, from->output, sizeof to->output);
    memcpy(to->error_output, from->error_output, sizeof to->error_output);
    memcpy(to->submit_dir, from->submit_dir, sizeof to->submit_dir);
    memcpy(to->wishes.array, from->wishes.array, sizeof to->wishes.array);
    memcpy(to->wishes.signal, from->wishes.signal, sizeof to->wishes.signal);
    memcpy(to->wishes.project, from->wishes.project, sizeof to->wishes.project);
}

static void resubmit_job(htc_gateway *gw, request *q, job *j)
{
    double limit = htc__gw_req_num(q, "time_limit", 0);
    if (j->user != q->user) {
        htc__gw_req_fail(gw, q, HTC_EDENIED, "act for that user (-u)", "job %llu is of %s, and its copy would be", (unsigned long long)j->id, j->user->name);
        return;
    }
    if (!(limit >= 0 && limit < 1e9)) {
        htc__gw_req_fail(gw, q, HTC_EINVAL, "", "time_limit: 0 to 1e9 seconds");
        return;
    }
    if (!takes_work(gw, q, j->user))
        return;
    const project *p = htc__gw_project(gw, j->wishes.project);
    if (j->wishes.project[0] && (!p || !htc__gw_project_has(p, q->user->name))) {
        htc__gw_req_fail(gw, q, HTC_EDENIED, "submit it in another project", "%s is in project %s no longer", q->user->name, j->wishes.project);
        return;
    }
    job   *n = htc__gw_job_new(gw);
    anew  *a = n ? htc_runtime_context(gw->runtime, sizeof *a) : NULL;
    if (!a)
        return;
    *a = (anew){ .q = q, .job = n, .of = j->id };
    n->user = j->user;
    n->submitted = gw->wall;
    if (!htc__gw_note_asked(gw, q, n))
        return;
    copy_options(n, j);
    n->memory = htc__gw_req_u64(q, "memory", n->memory);
    n->time_limit_s = limit > 0 ? limit : n->time_limit_s;
    n->paused = htc__gw_req_flag(q, "paused") != 0;
    htc_buf_init(&n->content, &gw->env, HTC_KV_VALUE_MAX);
    key            spec_key = htc__gw_key_spec(j->id), content_key = htc__gw_key_content(j->id), secret_key = htc__gw_key_credentials(j->id);
    htc_kv_request rq[3] = {
        { .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = htc__gw_key_bytes(&spec_key) },
        { .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = htc__gw_key_bytes(&content_key) },
        { .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = htc__gw_key_bytes(&secret_key) },
    };
    htc_runtime_ask(gw->runtime, rq, j->wishes.credentials ? 3 : 2, again_read, a);
}

static void resubmit_selected(htc_gateway *gw, request *q, const uint64_t *ids, size_t n)
{
    if (n == 1 && !q->select.has_tasks)
        htc__gw_with_job(gw, q, ids[0], resubmit_job);
    else
        htc__gw_req_fail(gw, q, HTC_EINVAL, "name one job", n ? "one job is submitted anew at a time, as a whole" : "there is no job");
}

static void make_new(htc_gateway *gw, request *q)
{
    if (strcmp(q->op, "resubmit") == 0)
        htc__gw_select(gw, q, resubmit_selected);
    else
        submit_new(gw, q);
}

/* ---- a submission that is repeated ---- */

static void repeat_ask(htc_gateway *gw, request *q, uint64_t id);

typedef struct repeated {
    request *q;
    uint64_t id;
} repeated;

/* It was stored, and this gateway had taken it for not stored. Where it cannot be opened its record has changed since it was read: it has
 * ended, or it is being removed. To forget the key then would make one submission two jobs. */
static void repeat_opened(htc_gateway *gw, void *ctx, job *j)
{
    repeated again = *(repeated *)ctx;
    request *q = again.q;
    htc_runtime_context_free(gw->runtime, ctx);
    if (!j) {
        htc__gw_known_key_set(gw, q->user->name, htc__gw_req_str(q, "key"), again.id);
        if (htc__gw_removal(gw, again.id))
            htc__gw_req_fail(gw, q, HTC_EBUSY, "try again in a moment", "the job of this submission is just being removed");
        else
            repeat_ask(gw, q, again.id);
        return;
    }
    htc__gw_known_key_set(gw, j->user->name, j->key, j->id);
    answer_submitted(gw, q, j, 1);
    assert(j->walks > 0);
    j->walks--;
}

static void repeat_of(htc_gateway *gw, request *q, const job *j)
{
    uint8_t asked[16];
    if (!htc__gw_request_hash(q, asked))
        htc_runtime_break(gw->runtime, HTC_ENOMEM, "taking a submission");
    else if (j->user != q->user || strcmp(j->key, htc__gw_req_str(q, "key")) != 0 || memcmp(asked, j->asked, sizeof asked) != 0)
        htc__gw_req_fail(gw, q, HTC_EEXISTS, "take another key for another job", "the key is that of job %llu, which is something else",
                         (unsigned long long)j->id);
    else if (j->finished || htc__gw_job(gw, j->id))
        answer_submitted(gw, q, htc__gw_job(gw, j->id) ? htc__gw_job(gw, j->id) : j, 1);
    else {
        repeated *again = htc_runtime_context(gw->runtime, sizeof *again);
        if (!again)
            return;
        *again = (repeated){ q, j->id };
        htc__gw_known_key_set(gw, q->user->name, j->key, 0); /* nobody else opens it meanwhile */
        htc__gw_job_open(gw, j->id, repeat_opened, again);
    }
}

static void repeat_read(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    request *q = ctx;
    char     owner[NAME_MAX_BYTES];
    job      j;
    memset(&j, 0, sizeof j);
    if (r->status == HTC_ENOTFOUND || (r->status == HTC_OK && htc__gw_record_job_void(r->value))) { /* it was removed, or never stored */
        htc__gw_known_key_drop(gw, q->user->name, htc__gw_req_str(q, "key"));
        make_new(gw, q);
    } else if (r->status != HTC_OK) {
        htc__gw_req_fail(gw, q, r->status, "try again in a moment", "the job of this key could not be read: %s", htc_strerror(r->status));
    } else if (htc__gw_record_job_read(r->value, &j, owner) != HTC_OK) {
        htc__gw_req_fail(gw, q, HTC_ECORRUPT, "", "the record of this key's job is damaged");
    } else {
        j.user = htc__gw_user(gw, owner);
        repeat_of(gw, q, &j);
    }
}

static void repeat_ask(htc_gateway *gw, request *q, uint64_t id)
{
    key k = htc__gw_key_job(id);
    htc_runtime_ask(gw->runtime,
                    &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = htc__gw_key_bytes(&k) }, 1, repeat_read, q);
}

void htc__gw_api_submit(htc_gateway *gw, request *q)
{
    const char      *text = htc__gw_req_str(q, "key");
    const known_key *known = text && htc__gw_known_key_ok(text) ? htc__gw_known_key(gw, q->user->name, text) : NULL;
    if (json_object_get(q->body, "key") && !(text && htc__gw_known_key_ok(text))) {
        htc__gw_req_fail(gw, q, HTC_EINVAL, "1 to 64 letters, digits, '.', '_' or '-'", "this cannot be the key of a submission");
    } else if (!known) {
        make_new(gw, q);
    } else if (!known->job) {
        htc__gw_req_fail(gw, q, HTC_EBUSY, "try again in a moment", "the submission of this key is under way");
    } else {
        repeat_ask(gw, q, known->job);
    }
}

/* ---- status ---- */

static void list_answer(htc_gateway *gw, request *q)
{
    json_t *jobs = q->answer;
    q->answer = NULL;
    htc__gw_req_answer(gw, q, json_pack("{s:o,s:b,s:o}", "jobs", jobs, "more", (int)q->more, "next", htc__gw_req_next(q)));
}

/* A job of the list: its record says all, unless it is open. */
static void list_one(htc_gateway *gw, request *q, job *read)
{
    const job *open_job = htc__gw_job(gw, read->id);
    htc__gw_job_counts_from_record(read);
    json_array_append_new(q->answer, htc__gw_job_json(gw, open_job ? open_job : read));
}

static void list_ends(htc_gateway *gw, request *q, const uint64_t *ids, size_t n)
{
    (void)ids;
    (void)n;
    list_answer(gw, q);
}

static void status_next(htc_gateway *gw, request *q);

static void status_one(htc_gateway *gw, request *q, job *j)
{
    json_array_append_new(q->answer, htc__gw_job_json(gw, j));
    status_next(gw, q);
}

static void status_next(htc_gateway *gw, request *q)
{
    if (q->at < q->n_ids)
        htc__gw_with_job(gw, q, q->ids[q->at++], status_one);
    else
        list_answer(gw, q);
}

static void status_passed(htc_gateway *gw, request *q, const uint64_t *ids, size_t n)
{
    (void)ids;
    (void)n;
    status_next(gw, q);
}

static void status_selected(htc_gateway *gw, request *q, const uint64_t *ids, size_t n)
{
    (void)ids;
    (void)n;
    q->passed = status_passed;
    q->answer = json_array();
    q->at = 0;
    status_next(gw, q);
}

/* ---- wait: answered when every job named has ended, which is when none of them is open ---- */

static void wait_selected(htc_gateway *gw, request *q, const uint64_t *ids, size_t n)
{
    double timeout = htc__gw_req_num(q, "timeout", 1e9);
    (void)ids;
    (void)n;
    q->until = timeout >= 1e9 ? HTC_NEVER : timeout > 0 ? gw->now + (htc_ns)(timeout * 1e9) : gw->now;
    q->until += q->until == 0; /* which says that it does not wait */
    htc__gw_waits_check(gw);
}

void htc__gw_waits_check(htc_gateway *gw)
{
    request *q, *next;
    DL_FOREACH_SAFE(gw->requests, q, next)
    {
        int open_jobs = 0;
        if (!q->until)
            continue;
        for (size_t i = 0; i < q->n_ids && !open_jobs; i++) {
            const job *j = htc__gw_job(gw, q->ids[i]);
            open_jobs = j && htc__gw_may_see(q, j) && !(j->finished && !j->dirty && !j->writing); /* another user's is not there */
        }
        if (!open_jobs) {
            q->until = 0;
            status_selected(gw, q, q->ids, q->n_ids);
        } else if (gw->now >= q->until) {
            q->until = 0;
            htc__gw_req_fail(gw, q, HTC_ETIMEDOUT, "htc status shows how far they are", "not all jobs have ended in this time");
        }
    }
}

void htc__gw_api_status(htc_gateway *gw, request *q)
{
    if (strcmp(q->op, "wait") == 0) {
        htc__gw_select_jobs(gw, q, wait_selected, "name the job alone");
    } else if (json_object_get(q->body, "id")) {
        htc__gw_select_jobs(gw, q, status_selected, "htc tasks lists them");
    } else {
        q->answer = json_array();
        htc__gw_list_jobs(gw, q, 50, list_one, list_ends);
    }
}
