/* cancel, hold, release, retry, rm, shutdown. Each works through the jobs that its selector names, one after another. */
#include <assert.h>
#include <string.h>

#include "roles/gateway/gateway.h"

#define TASKS_NAMED_MAX 100000 /* of one request; whole jobs have no such limit */

static void next_job(htc_gateway *gw, request *q);

/* Among all jobs, those that cannot be changed are passed over and counted. */
static int passed_over(htc_gateway *gw, request *q)
{
    if (!q->select.all)
        return 0;
    q->left++;
    next_job(gw, q);
    return 1;
}

static void job_done(htc_gateway *gw, request *q, uint64_t changed)
{
    q->total += changed;
    next_job(gw, q);
}

/* ---- one change of a job at a time ----
 *
 * Removing a job and opening it again take several steps in the store, during which it is not in memory: whoever came
 * between would see half of it, and write over the other. */

typedef struct changing {
    uint64_t       id;
    UT_hash_handle hh;
} changing;

static changing *change_of(const htc_gateway *gw, uint64_t id)
{
    changing *c;
    HASH_FIND(hh, gw->changing, &id, sizeof id, c);
    return c;
}

int htc__gw_job_changes(const htc_gateway *gw, uint64_t id)
{
    return change_of(gw, id) != NULL;
}

/* A removal that an earlier gateway began is a change too, until it is over. */
static int is_changing(const htc_gateway *gw, uint64_t id)
{
    return change_of(gw, id) != NULL || htc__gw_removal(gw, id) != NULL;
}

static int change_begin(htc_gateway *gw, uint64_t id)
{
    changing *c = htc__alloc(&gw->env, sizeof *c);
    if (!c) {
        htc_runtime_break(gw->runtime, HTC_ENOMEM, "changing a job");
        return 0;
    }
    c->id = id;
    HASH_ADD(hh, gw->changing, id, sizeof c->id, c);
    if (!c->hh.tbl) {
        htc__free(&gw->env, c, sizeof *c);
        htc_runtime_break(gw->runtime, HTC_ENOMEM, "changing a job");
        return 0;
    }
    return 1;
}

static void change_end(htc_gateway *gw, uint64_t id)
{
    changing *c = change_of(gw, id);
    if (c) {
        HASH_DEL(gw->changing, c);
        htc__free(&gw->env, c, sizeof *c);
    }
}

void htc__gw_changing_free(htc_gateway *gw)
{
    while (gw->changing)
        change_end(gw, gw->changing->id);
}

/* ---- one task after another ---- */

typedef struct sweep {
    request *q;
    job     *job;
    uint32_t range;
    uint64_t index, changed;
    uint8_t  whole; /* all tasks of the job */
    uint8_t  full;  /* ended early: no room for more chunks that are only known by their cancelled tasks */
    uint8_t  over;  /* ended early: the quota of tasks lets no further one be tried again */
    uint32_t writes;            /* that are not durable yet */
    uint8_t  walked;
} sweep;

static void walk_end(htc_gateway *gw, job *j)
{
    assert(j->walks > 0);
    j->walks--;
    htc__gw_job_check(gw, j);
}

static void sweep_end(htc_gateway *gw, sweep *s)
{
    request *q = s->q;
    job     *j = s->job;
    uint64_t changed = s->changed;
    int      full = s->full, over = s->over;
    if (!s->walked || s->writes)
        return;
    htc_runtime_context_free(gw->runtime, s);
    walk_end(gw, j);
    if (full)
        htc__gw_req_fail(gw, q, HTC_EFULL, "cancel the whole job, or tasks that are closer to each other",
                         "%llu task%s of job %llu %s cancelled, and the others lie too far apart to be remembered",
                         (unsigned long long)(q->total + changed), htc__plural(q->total + changed), (unsigned long long)j->id, htc__are(q->total + changed));
    else if (over)
        htc__gw_req_fail(gw, q, HTC_EDENIED, "go on when some have ended, or ask the operator for more (htc quota)",
                         "%llu task%s of job %llu %s tried again, and the quota of unfinished tasks lets no more be", (unsigned long long)(q->total + changed),
                         htc__plural(q->total + changed), (unsigned long long)j->id, htc__are(q->total + changed));
    else
        job_done(gw, q, changed);
    htc__gw_job_release(gw, j);
}

static void sweep_written(void *role, void *ctx, htc_status status)
{
    htc_gateway *gw = role;
    sweep *s = ctx;
    (void)status;
    if (status == HTC_ECLOSED)
        return; /* the gateway is being destroyed */
    assert(s->writes > 0);
    s->writes--;
    sweep_end(gw, s);
}

static void wait_for_chunk(htc_gateway *gw, sweep *s, chunk *c)
{
    htc_runtime_waiter *w = htc_runtime_waiter_new(gw->runtime, sweep_written, s);
    if (w) {
        s->writes++;
        htc__gw_chunk_dirty(gw, c, w);
    }
}

/* failed: only one that has failed before. */
static int cancel_task(htc_gateway *gw, chunk *c, uint32_t i, int failed)
{
    task *t = &c->tasks[i];
    if (t->state >= TASK_DONE || (failed && !t->tries))
        return 0;
    if (t->state != TASK_LEASED) {
        htc__gw_task_set(gw, c, i, TASK_CANCELLED);
        return 1;
    }
    t->cancel = 1;
    agent      *a = htc__gw_agent(gw, t->agent);
    htc_attempt at = { c->job->id, c->index * CHUNK_TASKS + i, t->attempt };
    htc_cancel_write(&gw->scratch, &at);
    if (a)
        htc_runtime_send(gw->runtime, a->peer, &gw->scratch);
    return 1;
}

static int retry_task(htc_gateway *gw, chunk *c, uint32_t i, uint8_t level)
{
    task *t = &c->tasks[i];
    if (t->state != TASK_FAILED)
        return 0;
    t->tries = t->lost = 0; /* the budget; never the attempt's number */
    if (level)
        t->level = level;
    c->job->need_of = 0; /* what its next task asks for may be another amount now */
    htc__gw_task_again(gw, c, i, 0);
    return 1;
}

static void sweep_go(htc_gateway *gw, sweep *s);

static void sweep_chunk(htc_gateway *gw, sweep *s, chunk *c, uint64_t end)
{
    int      cancel = strcmp(s->q->op, "cancel") == 0;
    uint64_t changed = 0;
    if (!cancel && s->job->cancelled) { /* while this walk was under way: nothing is tried again */
        s->index = (s->index / CHUNK_TASKS + 1) * CHUNK_TASKS;
        return;
    }
    for (; c && s->index <= end && s->index / CHUNK_TASKS == c->index; s->index++) {
        uint32_t i = (uint32_t)(s->index % CHUNK_TASKS);
        if (!cancel && c->tasks[i].state == TASK_FAILED && !htc__gw_quota_has_task(gw, s->job)) {
            s->over = 1;
            break;
        }
        changed += (uint64_t)(cancel ? cancel_task(gw, c, i, htc__gw_req_flag(s->q, "failed")) : retry_task(gw, c, i, s->q->level));
    }
    s->changed += changed;
    if (c && changed)
        wait_for_chunk(gw, s, c);
}

static void sweep_came(htc_gateway *gw, void *ctx, job *j, chunk *c, htc_status status)
{
    sweep   *s = ctx;
    uint64_t end = s->whole ? j->count - 1 : s->q->select.ranges[s->range].to;
    int      cancel = strcmp(s->q->op, "cancel") == 0;
    if (status != HTC_OK) {
        htc__log_with(&gw->env, HTC_LOG_WARN, HTC__FIELDS(HTC__NUMBER("job", j->id), HTC__STATUS(status)),
                      "job %llu: a chunk could not be read (%s) -> its tasks stay as they are",
                      (unsigned long long)j->id, htc_strerror(status));
        s->index = (s->index / CHUNK_TASKS + 1) * CHUNK_TASKS;
    } else if (!c && cancel && (j->cancelled || htc__gw_req_flag(s->q, "failed"))) {
        s->index = (s->index / CHUNK_TASKS + 1) * CHUNK_TASKS;
    } else if (!c && cancel && j->chunks_ahead >= CHUNKS_AHEAD_MAX) {
        s->full = s->walked = 1;
        sweep_end(gw, s);
        return;
    } else if (!c && cancel) {
        /* Never begun: it exists from now on, so that its cancelled tasks are remembered. */
        c = htc__gw_chunk_new(gw, j, s->index / CHUNK_TASKS);
        if (!c)
            return;
        htc__gw_chunk_ahead(gw, c, 1);
        sweep_chunk(gw, s, c, end);
    } else if (!c) {
        s->index = (s->index / CHUNK_TASKS + 1) * CHUNK_TASKS;
    } else {
        sweep_chunk(gw, s, c, end);
    }
    sweep_go(gw, s);
}

static void sweep_go(htc_gateway *gw, sweep *s)
{
    job *j = s->job;
    for (; !s->whole && s->range < s->q->select.n_ranges; s->range++) {
        if (s->index < s->q->select.ranges[s->range].from)
            s->index = s->q->select.ranges[s->range].from;
        if (s->index <= s->q->select.ranges[s->range].to && s->index < j->count)
            break;
    }
    /* next is where fresh tasks are looked for: it is moved on when one is, and may lie before a task that was handed out. */
    int begun = s->index < j->next || (s->index < j->count && htc__gw_chunk(j, s->index / CHUNK_TASKS));
    int more = s->whole ? begun : s->range < s->q->select.n_ranges;
    if (more && !s->over && htc_runtime_status(gw->runtime) == HTC_OK) {
        htc__gw_chunk_load(gw, j, s->index / CHUNK_TASKS, sweep_came, s);
        return;
    }
    s->walked = 1;
    sweep_end(gw, s);
}

/* Ends one of j's walks, now or later. */
static void sweep_start(htc_gateway *gw, request *q, job *j, int whole)
{
    uint64_t named = 0;
    for (uint32_t i = 0; !whole && i < q->select.n_ranges; i++) {
        if (q->select.ranges[i].from >= j->count) {
            htc__gw_req_fail(gw, q, HTC_ENOTFOUND, "its tasks count from 0", "job %llu has %llu task%s, and none with index %llu",
                             (unsigned long long)j->id, (unsigned long long)j->count, htc__plural(j->count), (unsigned long long)q->select.ranges[i].from);
            walk_end(gw, j);
            return;
        }
        uint64_t to = q->select.ranges[i].to < j->count ? q->select.ranges[i].to : j->count - 1;
        q->select.ranges[i].to = to;
        named += to - q->select.ranges[i].from + 1;
    }
    if (named > TASKS_NAMED_MAX) {
        htc__gw_req_fail(gw, q, HTC_ETOOBIG, "name the whole job, or fewer tasks", "%llu tasks are named, and at most %d may be",
                         (unsigned long long)named, TASKS_NAMED_MAX);
        walk_end(gw, j);
        return;
    }
    sweep *s = htc_runtime_context(gw->runtime, sizeof *s);
    if (!s)
        return;
    *s = (sweep){ .q = q, .job = j, .whole = whole != 0 };
    htc__gw_job_hold(j);
    sweep_go(gw, s);
}

/* ---- cancel ---- */

/* A change that one write of the job's record makes durable. */
typedef struct job_change {
    request *q;
    uint64_t changed;
} job_change;

static void change_written(void *role, void *ctx, htc_status status)
{
    htc_gateway *gw = role;
    job_change c = *(job_change *)ctx;
    if (status == HTC_ECLOSED)
        return;
    htc_runtime_context_free(gw->runtime, ctx);
    job_done(gw, c.q, c.changed);
}

static void tell_agents(htc_gateway *gw, const job *j)
{
    for (const chunk *c = j->chunks; c; c = c->hh.next) {
        for (uint32_t i = 0; i < c->n; i++) {
            const task *t = &c->tasks[i];
            agent      *a = t->state == TASK_LEASED ? htc__gw_agent(gw, t->agent) : NULL;
            if (!a)
                continue;
            htc_cancel_write(&gw->scratch, &(htc_attempt){ j->id, c->index * CHUNK_TASKS + i, t->attempt });
            htc_runtime_send(gw->runtime, a->peer, &gw->scratch);
        }
    }
}

static void cancel_job(htc_gateway *gw, request *q, job *j)
{
    if (is_changing(gw, j->id)) {
        if (!passed_over(gw, q))
            htc__gw_req_fail(gw, q, HTC_EBUSY, "try again in a moment", "job %llu is just being changed", (unsigned long long)j->id);
        return;
    }
    if (!j->open || j->finished) {
        job_done(gw, q, 0); /* it has ended: nothing to do, and that is fine */
        return;
    }
    if (q->select.has_tasks || htc__gw_req_flag(q, "failed")) {
        j->walks++;
        sweep_start(gw, q, j, !q->select.has_tasks);
        return;
    }
    job_change *c = htc_runtime_context(gw->runtime, sizeof *c);
    htc_runtime_waiter     *w = c ? htc_runtime_waiter_new(gw->runtime, change_written, c) : NULL;
    if (!w)
        return;
    *c = (job_change){ q, j->count - htc__gw_job_terminal(j) };
    htc__gw_job_cancel(gw, j);
    htc__gw_job_dirty(gw, j, w);
    tell_agents(gw, j);
}

/* ---- hold and release: of a paused job nothing starts; what has been handed to an agent runs on ---- */

static void set_paused(htc_gateway *gw, request *q, job *j, uint8_t paused)
{
    if (!j->open || j->finished || j->cancelled || j->paused == paused) {
        job_done(gw, q, 0);
        return;
    }
    job_change *c = htc_runtime_context(gw->runtime, sizeof *c);
    htc_runtime_waiter     *w = c ? htc_runtime_waiter_new(gw->runtime, change_written, c) : NULL;
    if (!w)
        return;
    *c = (job_change){ q, 1 };
    j->paused = paused;
    htc__gw_job_touch(gw, j);
    htc__gw_reallocate_soon(gw);
    htc__gw_job_dirty(gw, j, w);
}

static void hold_job(htc_gateway *gw, request *q, job *j)
{
    set_paused(gw, q, j, 1);
}

static void release_job(htc_gateway *gw, request *q, job *j)
{
    set_paused(gw, q, j, 0);
}

/* ---- retry ---- */

static void retry_opened(htc_gateway *gw, void *ctx, job *j)
{
    request *q = ctx;
    change_end(gw, q->ids[q->at - 1]);
    if (!j) {
        htc__gw_req_fail(gw, q, HTC_ENOTFOUND, "", "the job is gone");
        return;
    }
    sweep_start(gw, q, j, !q->select.has_tasks);
}

static void retry_reopened(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    request *q = ctx;
    uint64_t id = q->ids[q->at - 1];
    if (!r->last)
        return;
    if (r->status != HTC_OK) {
        change_end(gw, id);
        htc__gw_req_fail(gw, q, r->status, "", "the job could not be opened again: %s", htc_strerror(r->status));
        return;
    }
    htc__gw_job_open(gw, id, retry_opened, q);
}

typedef struct reopening {
    request *q;
    uint64_t id, version;
    uint64_t mark; /* the version of what stands in the place of the mark */
    size_t   len; /* of the record; 0: it is under way */
    uint8_t  record[];
} reopening;

static void reopened(void *role, void *ctx, const htc_kv_result *r);

static void write_mark(void *role, void *ctx, htc_status status)
{
    htc_gateway *gw = role;
    reopening   *o = ctx;
    if (status != HTC_OK)
        return;
    htc__gw_record_open_write(&gw->scratch, gw->active.own.term, 1);
    htc__gw_write(gw, htc__gw_key_open(o->id), htc__gw_record_bytes(gw, &gw->scratch), o->mark, reopened, o);
}

static void reopened(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    reopening   *o = ctx;
    request     *q = o->q;
    size_t       len = o->len;
    if (len && r->status == HTC_OK) {
        o->len = 0;
        htc__gw_write(gw, htc__gw_key_job(o->id), (htc_bytes){ o->record, len }, o->version, reopened, o);
        return;
    }
    uint64_t id = o->id, term = gw->active.own.term;
    int      again;
    if (len && r->status == HTC_MISMATCH)
        htc__gw_record_open_read(r->value, &term, &again);
    if (term < gw->active.own.term) { /* of a gateway whose term was over: it was answered by nobody, and the job is as it was read */
        o->mark = r->version;
        htc__gw_confirm(gw, write_mark, o);
        return;
    }
    if (!len && htc__gw_fenced(gw, r))
        return;
    htc_runtime_context_free(gw->runtime, o);
    if (r->status == HTC_MISMATCH) { /* that it was open before is just being deleted */
        change_end(gw, id);
        htc__gw_req_fail(gw, q, HTC_EBUSY, "try again in a moment", "job %llu is just ending", (unsigned long long)id);
        return;
    }
    retry_reopened(gw, q, r);
}

/* Where other gateways may be: the mark first, as when it was submitted. */
static void write_reopening(htc_gateway *gw, reopening *o)
{
    if (htc__gw_shared(gw)) {
        htc__gw_confirm(gw, write_mark, o); /* the job was read now: by then its record may have been a later term's */
        return;
    }
    key            open_key = htc__gw_key_open(o->id), job_key = htc__gw_key_job(o->id);
    htc_kv_request rq[2] = {
        { .size = sizeof(htc_kv_request), .op = HTC_KV_PUT, .key = htc__gw_key_bytes(&open_key), .value = htc_bytes_of("1") },
        { .size = sizeof(htc_kv_request), .op = HTC_KV_CAS_VERSION, .key = htc__gw_key_bytes(&job_key), .value = { o->record, o->len }, .version = o->version },
    };
    htc_runtime_ask(gw->runtime, rq, 2, retry_reopened, o->q);
    htc_runtime_context_free(gw->runtime, o);
}

static void reopening_probed(htc_gateway *gw, void *ctx, htc_status status, const char *what)
{
    reopening *o = ctx;
    if (status == HTC_OK) {
        write_reopening(gw, o);
        return;
    }
    request *q = o->q;
    uint64_t id = o->id;
    htc_runtime_context_free(gw->runtime, o);
    change_end(gw, id);
    htc__gw_req_fail(gw, q, status, "htc resubmit runs it as a new job", "job %llu cannot be opened again, since %s cannot be read: %s", (unsigned long long)id, what, htc_strerror(status));
}

static void reopen(htc_gateway *gw, request *q, const job *j)
{
    htc__gw_record_job_write(&gw->scratch, j);
    htc_bytes  record = htc__gw_record_bytes(gw, &gw->scratch);
    reopening *o = htc_runtime_context(gw->runtime, sizeof *o + record.len);
    if (!o)
        return;
    *o = (reopening){ .q = q, .id = j->id, .version = j->version, .len = record.len };
    if (record.len)
        memcpy(o->record, record.data, record.len);
    htc__gw_job_probe(gw, j, reopening_probed, o);
}

/* Its record says that it is open, and it is not: a gateway before this one wrote that when this one had read which jobs are open, and could tell nobody. One
 * that is just being submitted is in memory. */
static int is_left_open(const htc_gateway *gw, const job *j)
{
    if (!htc__gw_shared(gw) || j->open || j->finished)
        return 0;
    for (const job *other = gw->all_jobs; other; other = other->all_next)
        if (other->id == j->id && other != j)
            return 0;
    return 1;
}

typedef struct lowering {
    request *q;
    job     *job;
} lowering;

static void lowered(void *role, void *ctx, htc_status status)
{
    htc_gateway *gw = role;
    lowering l = *(lowering *)ctx;
    if (status == HTC_ECLOSED)
        return; /* the gateway is being destroyed */
    htc_runtime_context_free(gw->runtime, ctx);
    sweep_start(gw, l.q, l.job, !l.q->select.has_tasks);
    htc__gw_job_release(gw, l.job);
}

/* The chunks that were counted as complete may open again. First the record has to say that none is: a restart would not
 * look for waiting tasks among those that it says are complete. */
static void retry_open_job(htc_gateway *gw, request *q, job *j)
{
    lowering *l = htc_runtime_context(gw->runtime, sizeof *l);
    htc_runtime_waiter   *w = l ? htc_runtime_waiter_new(gw->runtime, lowered, l) : NULL;
    if (!w)
        return;
    *l = (lowering){ q, j };
    htc__gw_job_hold(j);
    j->walks++;
    j->low = 0;
    j->base = (counts){ 0 };
    htc__gw_job_dirty(gw, j, w);
}

static void retry_job(htc_gateway *gw, request *q, job *j)
{
    if ((j->cancelled || is_changing(gw, j->id)) && q->select.all) {
        passed_over(gw, q);
    } else if (j->cancelled) {
        htc__gw_req_fail(gw, q, HTC_EINVAL, "submit it again", "job %llu was cancelled", (unsigned long long)j->id);
    } else if (!q->select.has_tasks && !htc__gw_req_flag(q, "failed")) {
        htc__gw_req_fail(gw, q, HTC_EINVAL, "add --failed, or name tasks as ID.7", "retry needs to know what to retry");
    } else if (gw->shutdown) {
        htc__gw_req_fail(gw, q, HTC_EBUSY, "", "the system is ending");
    } else if (is_changing(gw, j->id)) {
        htc__gw_req_fail(gw, q, HTC_EBUSY, "try again in a moment", "job %llu is just being changed", (unsigned long long)j->id);
    } else if (j->now.failed == 0 && !is_left_open(gw, j) && !(j->open && !j->finished && q->select.has_tasks)) { /* nor is it looked through for none */
        job_done(gw, q, 0);
    } else if (!htc__gw_quota_retries(gw, q, j) || !htc__gw_raise(gw, q, j)) {
        return;
    } else if (j->open && !j->finished) {
        retry_open_job(gw, q, j);
    } else if (j->open) {
        htc__gw_req_fail(gw, q, HTC_EBUSY, "try again in a moment", "job %llu is just ending", (unsigned long long)j->id);
    } else if (change_begin(gw, j->id)) {
        j->finished = 0;
        j->ended = 0;
        j->low = 0;
        j->base = (counts){ 0 };
        reopen(gw, q, j);
    }
}

/* ---- rm ---- */

static void change_over(htc_gateway *gw, request *q, uint64_t id, htc_status status)
{
    change_end(gw, id);
    if (status == HTC_OK)
        job_done(gw, q, 1);
    else
        htc__gw_req_fail(gw, q, status, "run it again", "job %llu could not be removed: %s", (unsigned long long)id, htc_strerror(status));
}

static void rm_job(htc_gateway *gw, request *q, job *j)
{
    removal *m = htc__gw_removal(gw, j->id);
    if (j->open || change_of(gw, j->id) || (m && m->stage > REMOVE_HIDE)) {
        if (!passed_over(gw, q))
            htc__gw_req_fail(gw, q, HTC_EBUSY, j->open && !j->finished ? "htc cancel ends it first" : "try again in a moment",
                             j->open && !j->finished ? "job %llu has not ended" : "job %llu is just being changed", (unsigned long long)j->id);
        return;
    }
    const edge *child = htc__gw_awaited(gw, j->id);
    if (child) { /* how it ended is not in the record of who waited for it yet: nobody could tell when this one is gone */
        if (!passed_over(gw, q))
            htc__gw_req_fail(gw, q, HTC_EBUSY, "try again in a moment", "the end of job %llu is just being noted for a job that waits for it", (unsigned long long)j->id);
        return;
    }
    if (!change_begin(gw, j->id))
        return;
    if (m)
        htc__gw_remove_join(m, change_over, q);
    else
        htc__gw_remove(gw, j, change_over, q);
}

/* ---- all ---- */

static const struct {
    const char *op, *answer;
    job_fn      fn;
} changes[] = {
    { "cancel", "cancelled", cancel_job },
    { "hold", "held", hold_job },
    { "release", "released", release_job },
    { "retry", "retried", retry_job },
    { "rm", "removed", rm_job },
};

static const char *answer_key(const request *q)
{
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++)
        if (strcmp(changes[i].op, q->op) == 0)
            return changes[i].answer;
    return "changed";
}

static void next_job(htc_gateway *gw, request *q)
{
    if (q->at == q->n_ids) {
        htc__gw_req_answer(gw, q, json_pack("{s:I,s:I,s:o}", answer_key(q), (json_int_t)q->total, "left", (json_int_t)q->left, "next",
                                    htc__gw_req_next(q)));
        return;
    }
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++)
        if (strcmp(changes[i].op, q->op) == 0) {
            htc__gw_with_job(gw, q, q->ids[q->at++], changes[i].fn);
            return;
        }
}

static void control_passed(htc_gateway *gw, request *q, const uint64_t *ids, size_t n)
{
    (void)ids;
    (void)n;
    next_job(gw, q);
}

static void control_selected(htc_gateway *gw, request *q, const uint64_t *ids, size_t n)
{
    q->passed = control_passed;
    q->at = 0;
    control_passed(gw, q, ids, n);
}

void htc__gw_api_control(htc_gateway *gw, request *q)
{
    if (strcmp(q->op, "cancel") == 0 || strcmp(q->op, "retry") == 0) {
        htc__gw_select(gw, q, control_selected);
        return;
    }
    if (strcmp(q->op, "shutdown") != 0) {
        htc__gw_select_jobs(gw, q, control_selected, "name the job alone");
        return;
    }
    if (!q->operator_) {
        htc__gw_req_fail(gw, q, HTC_EDENIED, "ask the operator", "only the operator may end the system");
        return;
    }
    uint64_t running = 0;
    for (const user *u = gw->users; u; u = u->hh.next)
        running += u->running;
    int at_once = htc__gw_req_flag(q, "now");
    htc__gw_req_answer(gw, q, json_pack("{s:I}", "running", (json_int_t)running));
    htc__gw_shutdown(gw, at_once);
}
