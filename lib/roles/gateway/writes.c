/* Open jobs: the writes that keep the store up with their memory, one at a time of each record. */
#include <assert.h>
#include <string.h>

#include "core/fault.h"
#include "roles/gateway/gateway.h"

void htc__gw_puts_free(htc_gateway *gw, extra_put **list)
{
    while (*list) {
        extra_put *p = *list;
        *list = p->next;
        htc_buf_free(&p->key);
        htc_buf_free(&p->value);
        htc__free(&gw->env, p, sizeof *p);
    }
}

static void store_refuses(htc_gateway *gw, htc_status status)
{
    if (gw->store_status == HTC_OK)
        htc__log_with(&gw->env, HTC_LOG_ERROR, HTC__FIELDS(HTC__STATUS(status)),
                      "the store answers %s (%s) -> hold new work, try again every second",
                      htc_status_name(status), htc_strerror(status));
    gw->store_status = status;
    if (gw->store_retry_at == HTC_NEVER)
        gw->store_retry_at = gw->now + HTC_SECOND;
}

static void store_accepts(htc_gateway *gw)
{
    if (gw->store_status != HTC_OK)
        htc__log(&gw->env, HTC_LOG_INFO, "the store takes changes again -> go on");
    gw->store_status = HTC_OK;
    gw->store_retry_at = HTC_NEVER;
}

/* It is tried again, and goes on from there. */
static int refusal(const htc_gateway *gw, htc_status status)
{
    return status == HTC_ENOSPC || status == HTC_EFULL || status == HTC_ESTORE || status == HTC_ETIMEDOUT ||
           status == HTC_EBUSY || htc__gw_outcome_unknown(gw, status);
}

static void chunk_written(htc_gateway *gw, chunk *c, const htc_kv_result *r)
{
    assert(c->writing && c->puts_pending == 0); /* one write, answered once, and after all that it counts */
    c->writing = 0;
    htc__gw_job_hold(c->job);
    job *j = c->job;
    if (r->status == HTC_OK) {
        c->version = r->version;
        c->unsure = 0;
        htc__gw_puts_free(gw, &c->putting);
        store_accepts(gw);
        htc_runtime_wake(gw->runtime, &c->write_done, HTC_OK);
        if (c->dirty || c->next_done)
            htc__gw_chunk_dirty(gw, c, NULL);
        htc__gw_chunk_settle(gw, c);
        if (j->open)
            htc__gw_job_check(gw, j);
    } else if (refusal(gw, r->status)) {
        c->unsure |= (uint8_t)htc__gw_outcome_unknown(gw, r->status);
        /* All of it waits for the next try, in the same order. */
        htc_runtime_waiter *later = c->next_done;
        c->next_done = c->write_done;
        c->write_done = NULL;
        htc_runtime_wait(&c->next_done, later);
        LL_CONCAT(c->putting, c->puts);
        c->puts = c->putting;
        c->putting = NULL;
        store_refuses(gw, r->status);
        htc__gw_chunk_dirty(gw, c, NULL);
    } else {
        htc_runtime_break(gw->runtime, r->status == HTC_MISMATCH ? HTC_ELOCKED : r->status, "a chunk record was changed by somebody else");
    }
    htc__gw_job_release(gw, j);
}

static void chunk_put_answer(void *role, void *ctx, const htc_kv_result *r);

static void chunk_cas(htc_gateway *gw, chunk *c)
{
    key k = htc__gw_key_chunk(c->job->id, c->index);
    htc_runtime_ask(gw->runtime,
                    &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_CAS_VERSION, .key = htc__gw_key_bytes(&k), .value = htc_buf_bytes(&c->image),
                                   .version = c->version }, 1, chunk_put_answer, c);
    if (!htc__gw_shared(gw) || (c->version && !c->unsure))
        htc_buf_free(&c->image); /* else it may be in the place of another one: see found_other */
}

static void chunk_confirmed(void *role, void *ctx, htc_status status)
{
    if (status == HTC_OK)
        chunk_cas(role, ctx);
}

/* The record was there already, of a gateway before this one that wrote it after this one had read what there is: by the gate no grant of it has left.
 * Or it is another one than was read, and a write of this gateway that was not answered has made it. It is written over by its version, when this
 * gateway is confirmed: then what was seen is of no later one. */
static int found_other(htc_gateway *gw, uint64_t *version, int unsure, const htc_kv_result *r, htc_runtime_wait_fn again, void *ctx)
{
    if (!htc__gw_shared(gw) || r->status != HTC_MISMATCH || (*version && !unsure) || !r->version)
        return 0;
    *version = r->version;
    htc__gw_confirm(gw, again, ctx);
    return 1;
}

/* Answers to the results and to the record's own write; a result that was refused holds the record back. */
static void chunk_put_answer(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    chunk *c = ctx;
    if (r->op == HTC_KV_CAS_VERSION) {
        if (found_other(gw, &c->version, c->unsure, r, chunk_confirmed, c))
            return;
        htc_buf_free(&c->image);
        chunk_written(gw, c, r);
        return;
    }
    assert(c->writing && (c->puts_pending & INT32_MAX) > 0);
    if (r->status != HTC_OK)
        c->puts_pending |= UINT32_C(1) << 31;
    if (--c->puts_pending == 0)
        chunk_cas(gw, c);
    else if (c->puts_pending == UINT32_C(1) << 31) {
        c->puts_pending = 0;
        chunk_written(gw, c, &(htc_kv_result){ .size = sizeof(htc_kv_result), .op = HTC_KV_CAS_VERSION, .status = refusal(gw, r->status) ? r->status : HTC_ESTORE });
    }
}

/* Where other gateways may be: what lies there already is of one before, and is written over by its version. It was read before this
 * gateway is confirmed to be the active one: so it is of no later one. */
static void result_write(htc_gateway *gw, chunk *c, extra_put *p);

static void result_confirmed(void *role, void *ctx, htc_status status)
{
    extra_put *p = ctx;
    if (status == HTC_OK)
        result_write(role, p->chunk, p);
}

static void result_written(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    extra_put   *p = ctx;
    if (r->status == HTC_MISMATCH && r->version != p->version) {
        p->version = r->version;
        htc__gw_confirm(gw, result_confirmed, p);
        return;
    }
    htc_kv_result as_put = *r;
    as_put.op = HTC_KV_PUT;
    chunk_put_answer(gw, p->chunk, &as_put);
}

static void result_write(htc_gateway *gw, chunk *c, extra_put *p)
{
    htc_kv_request rq = { .size = sizeof rq, .op = HTC__BROKEN(gateway_writes_blind) ? HTC_KV_PUT : HTC_KV_CAS_VERSION, .key = htc_buf_bytes(&p->key),
                          .value = htc_buf_bytes(&p->value) };
    rq.version = rq.op == HTC_KV_PUT ? 0 : p->version;
    p->chunk = c;
    htc_runtime_ask(gw->runtime, &rq, 1, result_written, p);
}

#define TOGETHER_MAX 64

/* The results first, then the record that counts them. It is written down now: what is counted while the results are on
 * their way has its results in the next write, and must not be in this record. */
static void chunk_write(htc_gateway *gw, chunk *c)
{
    htc_kv_request rq[TOGETHER_MAX + 1];
    size_t         n = 0, bytes = 0;
    uint32_t       puts = 0;
    extra_put     *p;
    assert(c->dirty && !c->writing);
    assert(!c->write_done && !c->putting); /* else the waiters and results of the write before would be lost */
    c->dirty = 0;
    DL_DELETE2(gw->dirty_chunks, c, dirty_prev, dirty_next);
    c->writing = 1;
    htc__gw_record_chunk_write(&c->image, c);
    if (c->image.status != HTC_OK)
        htc_runtime_break(gw->runtime, c->image.status, "writing down a chunk");
    c->write_done = c->next_done;
    c->next_done = NULL;
    c->putting = c->puts;
    c->puts = NULL;
    LL_FOREACH(c->putting, p)
    {
        puts++;
        bytes += p->value.len;
    }
    c->puts_pending = puts;
    if (puts && htc__gw_shared(gw)) {
        LL_FOREACH(c->putting, p)
        result_write(gw, c, p);
        return;
    }
    LL_FOREACH(c->putting, p)
    {
        rq[n++] = (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_PUT, .key = htc_buf_bytes(&p->key), .value = htc_buf_bytes(&p->value) };
        if (n == TOGETHER_MAX && p->next) {
            htc_runtime_ask(gw->runtime, rq, n, chunk_put_answer, c);
            n = 0;
        }
    }
    if (n == 0) {
        chunk_cas(gw, c);
    } else {
        (void)bytes;
        htc_runtime_ask(gw->runtime, rq, n, chunk_put_answer, c);
    }
}

void htc__gw_chunk_dirty(htc_gateway *gw, chunk *c, htc_runtime_waiter *w)
{
    htc_runtime_wait(&c->next_done, w);
    if (!c->dirty)
        DL_APPEND2(gw->dirty_chunks, c, dirty_prev, dirty_next);
    c->dirty = 1;
}

void htc__gw_task_durable(htc_gateway *gw, const htc_attempt *at, htc_runtime_wait_fn fn, void *ctx)
{
    job   *j = htc__gw_job(gw, at->job);
    chunk *c = j && !j->finished ? htc__gw_chunk(j, at->task / CHUNK_TASKS) : NULL;
    if (c)
        htc__gw_chunk_dirty(gw, c, htc_runtime_waiter_new(gw->runtime, fn, ctx));
    else
        fn(gw, ctx, HTC_OK); /* a chunk leaves memory when all of it is durable */
}

void htc__gw_chunk_put(htc_gateway *gw, chunk *c, key k, const htc_buf *value)
{
    htc_bytes  bytes = htc__gw_record_bytes(gw, value);
    extra_put *p = htc_runtime_status(gw->runtime) == HTC_OK ? htc__alloc(&gw->env, sizeof *p) : NULL;
    if (!p) {
        htc_runtime_break(gw->runtime, HTC_ENOMEM, "keeping a result");
        return;
    }
    htc_buf_init(&p->key, &gw->env, 0);
    htc_buf_init(&p->value, &gw->env, HTC_KV_VALUE_MAX);
    htc_put_raw(&p->key, htc__gw_key_bytes(&k));
    htc_put_raw(&p->value, bytes);
    if (p->key.status != HTC_OK || p->value.status != HTC_OK)
        htc_runtime_break(gw->runtime, HTC_ENOMEM, "keeping a result");
    LL_APPEND(c->puts, p);
}

static void job_cas(htc_gateway *gw, job *j);

static void job_confirmed(void *role, void *ctx, htc_status status)
{
    if (status == HTC_OK)
        job_cas(role, ctx);
}

static void job_written(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    job *j = ctx;
    assert(j->writing && j->uses > 0);
    if (j->unsure && found_other(gw, &j->version, 1, r, job_confirmed, j))
        return;
    j->writing = 0;
    if (r->status == HTC_OK) {
        j->version = r->version;
        j->unsure = 0;
        store_accepts(gw);
        htc_runtime_wake(gw->runtime, &j->write_done, HTC_OK);
        if (j->next_done)
            htc__gw_job_dirty(gw, j, NULL);
        if (j->open && !j->dirty)
            htc__gw_edges_written(gw, j);
        if (j->finished && j->open && !j->dirty) {
            htc__gw_delete_of(gw, htc__gw_key_open(j->id), j->open_version);
            htc__gw_parent_ended(gw, j);
            if (j->wishes.mail_to[0])
                htc__gw_mail_add(gw, j->id);
            htc__gw_job_drop(gw, j);
            gw->jobs_ended = 1;
        }
    } else if (refusal(gw, r->status)) {
        j->unsure |= (uint8_t)htc__gw_outcome_unknown(gw, r->status);
        htc_runtime_waiter *later = j->next_done;
        j->next_done = j->write_done;
        j->write_done = NULL;
        htc_runtime_wait(&j->next_done, later);
        store_refuses(gw, r->status);
        htc__gw_job_dirty(gw, j, NULL);
    } else {
        htc_runtime_break(gw->runtime, r->status == HTC_MISMATCH ? HTC_ELOCKED : r->status, "a job record was changed by somebody else");
    }
    htc__gw_job_release(gw, j);
}

static void job_cas(htc_gateway *gw, job *j)
{
    key k = htc__gw_key_job(j->id);
    htc__gw_record_job_write(&gw->scratch, j);
    htc_runtime_ask(gw->runtime,
                    &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_CAS_VERSION, .key = htc__gw_key_bytes(&k), .value = htc__gw_record_bytes(gw, &gw->scratch),
                                   .version = j->version }, 1, job_written, j);
}

static void job_write(htc_gateway *gw, job *j)
{
    assert(j->dirty && !j->writing && !j->write_done);
    DL_DELETE2(gw->dirty_jobs, j, dirty_prev, dirty_next);
    j->dirty = 0;
    j->writing = 1;
    j->write_done = j->next_done;
    j->next_done = NULL;
    htc__gw_job_hold(j);
    job_cas(gw, j);
}

void htc__gw_job_dirty(htc_gateway *gw, job *j, htc_runtime_waiter *w)
{
    htc_runtime_wait(&j->next_done, w);
    if (!j->dirty)
        DL_APPEND2(gw->dirty_jobs, j, dirty_prev, dirty_next);
    j->dirty = 1;
}

void htc__gw_flush(htc_gateway *gw)
{
    chunk *c, *cn;
    job   *j, *jn;
    if (htc_runtime_status(gw->runtime) != HTC_OK || gw->store_retry_at != HTC_NEVER)
        return;
    if (!htc__gw_active_holds(gw) || (htc__gw_shared(gw) && gw->phase == PHASE_RECOVERING))
        return; /* all of it is written anew when it is read */
    DL_FOREACH_SAFE2(gw->dirty_chunks, c, cn, dirty_next)
    if (!c->writing)
        chunk_write(gw, c);
    DL_FOREACH_SAFE2(gw->dirty_jobs, j, jn, dirty_next)
    if (!j->writing)
        job_write(gw, j);
}
