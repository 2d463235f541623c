/* Open jobs: their counts, their chunks, what is handed out next, and the writes that keep the store up with it. */
#include <assert.h>
#include <string.h>

#include "core/fault.h"
#include "roles/gateway/gateway.h"

/* ---- counts ---- */

static uint64_t *count_of(counts *c, uint8_t state)
{
    switch ((task_state)state) {
    case TASK_NEW: return &c->fresh;
    case TASK_WAITING: return &c->waiting;
    case TASK_LEASED: return &c->leased;
    case TASK_RETRY_WAIT: return &c->retry_wait;
    case TASK_DONE: return &c->done;
    case TASK_FAILED: return &c->failed;
    case TASK_CANCELLED: return &c->cancelled;
    }
    return NULL;
}

static int terminal(uint8_t state)
{
    return state >= TASK_DONE;
}

uint64_t htc__gw_job_chunks(const job *j)
{
    return (j->count - 1) / CHUNK_TASKS + 1;
}

uint32_t htc__gw_job_chunk_size(const job *j, uint64_t index)
{
    uint64_t left = j->count - index * CHUNK_TASKS;
    return left < CHUNK_TASKS ? (uint32_t)left : CHUNK_TASKS;
}

uint64_t htc__gw_job_terminal(const job *j)
{
    return j->now.done + j->now.failed + j->now.cancelled + (j->cancelled ? j->now.fresh : 0);
}

void htc__gw_job_counts_from_record(job *j)
{
    j->now = j->base;
    if (!j->finished)
        j->now.fresh = j->count - j->now.done - j->now.failed - j->now.cancelled;
}

const char *htc__gw_job_state(const job *j)
{
    /* The end is said when it is durable: a gateway that starts again does not take it back. */
    if (htc__gw_job_terminal(j) == j->count && !j->open) {
        if (j->cancelled)
            return "cancelled";
        return j->now.failed ? "done_with_failures" : j->now.done ? "done" : "cancelled";
    }
    if (j->paused)
        return "paused";
    if (j->waits)
        return "waiting";
    return j->started ? "running" : "queued";
}

/* No fresh chunk is begun while too many are unfinished: the retries have to go first. */
static int fresh_ready(const job *j)
{
    return j->chunks_open < CHUNKS_OPEN_MAX || htc__gw_chunk((job *)j, j->next / CHUNK_TASKS) != NULL;
}

uint64_t htc__gw_job_waiting(const job *j)
{
    if (!j->open || j->paused || j->waits || j->cancelled || j->finished)
        return 0;
    return j->now.waiting + (fresh_ready(j) ? j->now.fresh : 0);
}

/* ---- the tables ---- */

job *htc__gw_job(htc_gateway *gw, uint64_t id)
{
    job *j;
    HASH_FIND(hh, gw->jobs, &id, sizeof id, j);
    return j;
}

job *htc__gw_job_new(htc_gateway *gw)
{
    job *j = htc__alloc(&gw->env, sizeof *j);
    if (!j) {
        htc_runtime_break(gw->runtime, HTC_ENOMEM, "making room for a job");
        return NULL;
    }
    DL_APPEND2(gw->all_jobs, j, all_prev, all_next);
    return j;
}

/* Keep the user's sum and list of jobs with something to hand out; call after every change of what htc__gw_job_ready() looks
 * at. What is in the sum is remembered, so that a change that was not told is put right by the next call. */
void htc__gw_job_touch(htc_gateway *gw, job *j)
{
    uint64_t ready = htc__gw_job_ready(j);
    user    *u = j->user;
    uint64_t queued = u->queued;
    assert(queued >= j->queued); /* the sum holds each job's part */
    u->queued = u->queued - j->queued + ready;
    j->queued = ready;
    if (ready && !j->in_ready)
        DL_INSERT_INORDER2(u->ready, j, htc__gw_job_turn, ready_prev, ready_next);
    else if (!ready && j->in_ready)
        DL_DELETE2(u->ready, j, ready_prev, ready_next);
    j->in_ready = ready != 0;
    if (!ready)
        j->memory_since = 0;
    if (queued == 0 && u->queued)
        u->arrival = ++gw->arrivals;
    if (u->queued > queued || (queued && !u->queued))
        htc__gw_reallocate_soon(gw);
}

/* Where its outputs go. Agents make none: what one of them stores late would bring back the place of a job that was removed. */
static void make_place(htc_gateway *gw, const job *j)
{
    int apart = htc__gw_place(gw, j->user) == HTC_PLACE_UID;
    htc_buf_clear(&gw->scratch);
    htc_put_u64(&gw->scratch, j->id);
    htc_put_u32(&gw->scratch, apart ? j->user->uid : 0);
    htc_put_u32(&gw->scratch, apart ? j->user->gid : 0);
    htc_runtime_call(gw->runtime, HTC_CALL_JOB_PLACE, htc_buf_bytes(&gw->scratch), NULL, NULL);
}

void htc__gw_job_places(htc_gateway *gw)
{
    job *j, *next;
    HASH_ITER(hh, gw->jobs, j, next)
    if (!j->finished)
        make_place(gw, j);
}

static int are_seats(const job *j)
{
    htc_task *t = NULL;
    if (!j->spec || htc_spec_task(j->spec, 0, &t, NULL) != HTC_OK)
        return 0; /* what cannot be expanded fails when its turn comes */
    int seats = t->executable && strcmp(t->executable, HTC_FLOW_EXECUTABLE) == 0;
    htc_task_destroy(t);
    return seats;
}

void htc__gw_job_add(htc_gateway *gw, job *j)
{
    assert(!j->open && !htc__gw_job(gw, j->id)); /* two openings of one job would count its tasks twice */
    j->open = 1;
    j->seats = (uint8_t)are_seats(j);
    HASH_ADD(hh, gw->jobs, id, sizeof j->id, j);
    if (!j->hh.tbl)
        htc_runtime_break(gw->runtime, HTC_ENOMEM, "making room for a job");
    j->user->open_jobs++;
    j->user->running += j->now.leased;
    j->user->retrying += j->now.retry_wait;
    make_place(gw, j);
    htc__gw_job_touch(gw, j);
}

static void free_list(htc_gateway *gw, ready_task **list)
{
    ready_task *r, *next;
    DL_FOREACH_SAFE(*list, r, next)
    {
        DL_DELETE(*list, r);
        htc__free(&gw->env, r, sizeof *r);
    }
}

static void free_puts(htc_gateway *gw, extra_put **list)
{
    while (*list) {
        extra_put *p = *list;
        *list = p->next;
        htc_buf_free(&p->key);
        htc_buf_free(&p->value);
        htc__free(&gw->env, p, sizeof *p);
    }
}

static void chunk_free(htc_gateway *gw, chunk *c)
{
    htc_runtime_wake(gw->runtime, &c->write_done, HTC_ECLOSED);
    htc_runtime_wake(gw->runtime, &c->next_done, HTC_ECLOSED);
    free_puts(gw, &c->puts);
    free_puts(gw, &c->putting);
    htc_buf_free(&c->image);
    htc_buf_free(&c->nodes);
    if (c->dirty)
        DL_DELETE2(gw->dirty_chunks, c, dirty_prev, dirty_next);
    htc__free(&gw->env, c, sizeof *c + c->n * sizeof c->tasks[0]);
}

void htc__gw_job_free(htc_gateway *gw, job *j)
{
    chunk *c, *next;
    HASH_ITER(hh, j->chunks, c, next)
    {
        HASH_DEL(j->chunks, c);
        assert(!c->writing || j->open); /* its answer would find it gone; an open one goes with the gateway and all answers */
        chunk_free(gw, c);
    }
    htc_runtime_wake(gw->runtime, &j->write_done, HTC_ECLOSED);
    htc_runtime_wake(gw->runtime, &j->next_done, HTC_ECLOSED);
    free_list(gw, &j->head);
    free_list(gw, &j->tail);
    htc_spec_destroy(j->spec);
    htc__free(&gw->env, j->health, j->n_health * sizeof *j->health);
    htc_buf_free(&j->content);
    htc__gw_edges_free(gw, j);
    DL_DELETE2(gw->all_jobs, j, all_prev, all_next);
    htc__free(&gw->env, j, sizeof *j);
}

void htc__gw_jobs_free(htc_gateway *gw)
{
    HASH_CLEAR(hh, gw->jobs);
    while (gw->all_jobs)
        htc__gw_job_free(gw, gw->all_jobs);
}

void htc__gw_job_hold(job *j)
{
    j->uses++;
}

void htc__gw_job_release(htc_gateway *gw, job *j)
{
    assert(j->uses > 0);
    if (--j->uses == 0 && !j->open)
        htc__gw_job_free(gw, j);
}

void htc__gw_job_drop(htc_gateway *gw, job *j)
{
    if (!j->open)
        return;
    assert(j->finished && !j->writing); /* its end is durable */
    j->open = 0;
    htc__gw_edges_end(gw, j);
    htc__gw_job_touch(gw, j);
    HASH_DEL(gw->jobs, j);
    assert(j->user->open_jobs > 0);
    j->user->open_jobs--;
    if (j->dirty)
        DL_DELETE2(gw->dirty_jobs, j, dirty_prev, dirty_next);
    j->dirty = 0;
    if (j->uses == 0)
        htc__gw_job_free(gw, j);
}

/* ---- chunks ---- */

chunk *htc__gw_chunk(job *j, uint64_t index)
{
    chunk *c;
    HASH_FIND(hh, j->chunks, &index, sizeof index, c);
    return c;
}

chunk *htc__gw_chunk_new(htc_gateway *gw, job *j, uint64_t index)
{
    assert(index < htc__gw_job_chunks(j));
    uint32_t n = htc__gw_job_chunk_size(j, index);
    chunk   *c = htc__alloc(&gw->env, sizeof *c + n * sizeof c->tasks[0]);
    if (!c) {
        htc_runtime_break(gw->runtime, HTC_ENOMEM, "making room for a chunk");
        return NULL;
    }
    c->job = j;
    c->index = index;
    c->n = n;
    c->open = n;
    htc_buf_init(&c->image, &gw->env, 0);
    htc_buf_init(&c->nodes, &gw->env, 0);
    HASH_ADD(hh, j->chunks, index, sizeof c->index, c);
    if (!c->hh.tbl)
        htc_runtime_break(gw->runtime, HTC_ENOMEM, "making room for a chunk");
    j->chunks_open++;
    htc__gw_job_touch(gw, j);
    return c;
}

void htc__gw_chunk_ahead(htc_gateway *gw, chunk *c, int on)
{
    job     *j = c->job;
    if (c->ahead == (on != 0))
        return;
    c->ahead = on != 0;
    if (on) {
        assert(j->chunks_open > 0);
        j->chunks_open--;
        j->chunks_ahead++;
    } else {
        assert(j->chunks_ahead > 0);
        j->chunks_ahead--;
        j->chunks_open++;
    }
    htc__gw_job_touch(gw, j);
}

static void low_advance(htc_gateway *gw, job *j);

void htc__gw_chunk_settle(htc_gateway *gw, chunk *c)
{
    job *j = c->job;
    if (c->open || c->dirty || c->writing || c->next_done || c->write_done)
        return;
    if (j->open) {
        low_advance(gw, j);
        /* One that lies ahead of the place where fresh tasks are taken would be begun a second time. */
        if (c->index * CHUNK_TASKS + c->n > j->next)
            return;
    }
    HASH_DEL(j->chunks, c);
    assert(j->chunks_open > 0 || c->ahead);
    j->chunks_open -= !c->ahead;
    assert(j->chunks_ahead >= c->ahead);
    j->chunks_ahead -= c->ahead;
    chunk_free(gw, c);
    if (j->open)
        htc__gw_job_touch(gw, j);
}

void htc__gw_task_queue(htc_gateway *gw, job *j, uint64_t index, int first)
{
    ready_task *r = htc__alloc(&gw->env, sizeof *r);
    if (!r) {
        htc_runtime_break(gw->runtime, HTC_ENOMEM, "queueing a task");
        return;
    }
    r->index = index;
    if (first)
        DL_APPEND(j->head, r);
    else
        DL_APPEND(j->tail, r);
}

void htc__gw_task_set(htc_gateway *gw, chunk *c, uint32_t offset, task_state state)
{
    job     *j = c->job;
    task    *t = &c->tasks[offset];
    uint8_t  old = t->state;
    assert(offset < c->n);
    assert(old < TASK_WAITING || old > TASK_RETRY_WAIT || *count_of(&j->now, old) > 0); /* those are in memory, each counted */
    --*count_of(&j->now, old);
    ++*count_of(&j->now, (uint8_t)state);
    if (j->open) {
        j->user->running += (uint64_t)((state == TASK_LEASED) - (old == TASK_LEASED));
        j->user->retrying += (uint64_t)((state == TASK_RETRY_WAIT) - (old == TASK_RETRY_WAIT));
        j->user->tasks_done += (uint64_t)((state == TASK_DONE) - (old == TASK_DONE));
        gw->ended[0] += state == TASK_DONE && old != TASK_DONE;
        gw->ended[1] += state == TASK_FAILED && old != TASK_FAILED;
    }
    c->open += (uint32_t)(terminal(old) - terminal((uint8_t)state));
    t->state = (uint8_t)state;
    t->since = gw->now;
    if (j->open)
        htc__gw_job_touch(gw, j);
}

void htc__gw_use(chunk *c, usage more)
{
    usage *sums[] = { &c->used, &c->job->now.used };
    for (size_t i = 0; i < 2; i++) {
        sums[i]->core_ns += more.core_ns;
        sums[i]->attempts += more.attempts;
        sums[i]->losses += more.losses;
    }
    c->job->user->core_ns += more.core_ns;
}

void htc__gw_task_again(htc_gateway *gw, chunk *c, uint32_t offset, int first)
{
    htc__gw_task_queue(gw, c->job, c->index * CHUNK_TASKS + offset, first);
    c->tasks[offset].cancel = 0;
    htc__gw_task_set(gw, c, offset, TASK_WAITING);
}

static void list_drop(htc_gateway *gw, ready_task **list)
{
    ready_task *r = *list;
    DL_DELETE(*list, r);
    htc__free(&gw->env, r, sizeof *r);
}

static int peek_listed(htc_gateway *gw, job *j, ready_task **list, chunk **out, uint32_t *offset)
{
    while (*list) {
        ready_task *r = *list;
        chunk      *c = htc__gw_chunk(j, r->index / CHUNK_TASKS);
        *offset = (uint32_t)(r->index % CHUNK_TASKS);
        if (c && c->tasks[*offset].state == TASK_WAITING) {
            *out = c;
            return 1;
        }
        list_drop(gw, list); /* cancelled meanwhile: its place in the list is stale */
    }
    return 0;
}

static int peek_fresh_from(htc_gateway *gw, job *j, chunk **out, uint32_t *offset)
{
    while (j->now.fresh && j->next < j->count) {
        uint64_t index = j->next / CHUNK_TASKS;
        chunk   *c = htc__gw_chunk(j, index);
        if (!c && j->chunks_open >= CHUNKS_OPEN_MAX)
            return 0;
        if (!c)
            c = htc__gw_chunk_new(gw, j, index);
        if (!c)
            return 0;
        htc__gw_chunk_ahead(gw, c, 0);
        while (c->cursor < c->n && c->tasks[c->cursor].state != TASK_NEW)
            c->cursor++;
        j->next = c->index * CHUNK_TASKS + c->cursor;
        if (c->cursor < c->n) {
            *out = c;
            *offset = c->cursor;
            return 1;
        }
        htc__gw_chunk_settle(gw, c);
    }
    return 0;
}

/* Going from one chunk to the next may bring the job to its limit of open chunks: then nothing fresh is ready any more. */
static int peek_fresh(htc_gateway *gw, job *j, chunk **out, uint32_t *offset)
{
    int found = peek_fresh_from(gw, j, out, offset);
    htc__gw_job_touch(gw, j);
    return found;
}

/* Lost tasks return to the head of the queue; retries wait at its tail. */
int htc__gw_job_peek(htc_gateway *gw, job *j, chunk **c, uint32_t *offset)
{
    return htc__gw_job_ready(j) && (peek_listed(gw, j, &j->head, c, offset) || peek_fresh(gw, j, c, offset) ||
                            peek_listed(gw, j, &j->tail, c, offset));
}

void htc__gw_job_taken(htc_gateway *gw, job *j, uint64_t index)
{
    if (j->head && j->head->index == index)
        list_drop(gw, &j->head);
    else if (j->tail && j->tail->index == index)
        list_drop(gw, &j->tail);
    if (HTC__BROKEN(after_granted) && j->now.fresh + j->now.waiting + j->now.retry_wait == 1) /* this one */
        htc__gw_parent_ended(gw, j);
}

uint64_t htc__gw_job_next(const job *j)
{
    if (j->head)
        return j->head->index;
    if (j->tail && !(j->now.fresh && fresh_ready(j)))
        return j->tail->index;
    return j->next < j->count ? j->next : j->count - 1;
}

/* ---- writes ---- */

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

static int refusal(htc_status status)
{
    return status == HTC_ENOSPC || status == HTC_EFULL || status == HTC_ESTORE || status == HTC_ETIMEDOUT ||
           status == HTC_EBUSY;
}

static void chunk_written(htc_gateway *gw, chunk *c, const htc_kv_result *r)
{
    assert(c->writing && c->puts_pending == 0); /* one write, answered once, and after all that it counts */
    c->writing = 0;
    htc__gw_job_hold(c->job);
    job *j = c->job;
    if (r->status == HTC_OK) {
        c->version = r->version;
        free_puts(gw, &c->putting);
        store_accepts(gw);
        htc_runtime_wake(gw->runtime, &c->write_done, HTC_OK);
        if (c->dirty || c->next_done)
            htc__gw_chunk_dirty(gw, c, NULL);
        htc__gw_chunk_settle(gw, c);
        if (j->open)
            htc__gw_job_check(gw, j);
    } else if (refusal(r->status)) {
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
    htc_buf_free(&c->image);
}

/* Answers to the results and to the record's own write; a result that was refused holds the record back. */
static void chunk_put_answer(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    chunk *c = ctx;
    if (r->op == HTC_KV_CAS_VERSION) {
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
        chunk_written(gw, c, &(htc_kv_result){ .size = sizeof(htc_kv_result), .op = HTC_KV_CAS_VERSION, .status = refusal(r->status) ? r->status : HTC_ESTORE });
    }
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

static void job_written(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    job *j = ctx;
    assert(j->writing && j->uses > 0);
    j->writing = 0;
    if (r->status == HTC_OK) {
        j->version = r->version;
        store_accepts(gw);
        htc_runtime_wake(gw->runtime, &j->write_done, HTC_OK);
        if (j->next_done)
            htc__gw_job_dirty(gw, j, NULL);
        if (j->open && !j->dirty)
            htc__gw_edges_written(gw, j);
        if (j->finished && j->open && !j->dirty) {
            htc__gw_delete(gw, htc__gw_key_open(j->id));
            htc__gw_parent_ended(gw, j);
            htc__gw_job_drop(gw, j);
            gw->jobs_ended = 1;
        }
    } else if (refusal(r->status)) {
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

static void job_write(htc_gateway *gw, job *j)
{
    key k = htc__gw_key_job(j->id);
    assert(j->dirty && !j->writing && !j->write_done);
    DL_DELETE2(gw->dirty_jobs, j, dirty_prev, dirty_next);
    j->dirty = 0;
    j->writing = 1;
    j->write_done = j->next_done;
    j->next_done = NULL;
    htc__gw_job_hold(j);
    htc__gw_record_job_write(&gw->scratch, j);
    htc_runtime_ask(gw->runtime,
                    &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_CAS_VERSION, .key = htc__gw_key_bytes(&k), .value = htc__gw_record_bytes(gw, &gw->scratch),
                                   .version = j->version }, 1, job_written, j);
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
    DL_FOREACH_SAFE2(gw->dirty_chunks, c, cn, dirty_next)
    if (!c->writing)
        chunk_write(gw, c);
    DL_FOREACH_SAFE2(gw->dirty_jobs, j, jn, dirty_next)
    if (!j->writing)
        job_write(gw, j);
}

/* ---- the end of chunks and jobs ---- */

void htc__gw_chunk_count(counts *sum, const chunk *c)
{
    for (uint32_t i = 0; i < c->n; i++)
        ++*count_of(sum, c->tasks[i].state);
    sum->used.core_ns += c->used.core_ns;
    sum->used.attempts += c->used.attempts;
    sum->used.losses += c->used.losses;
}

static void low_loaded(htc_gateway *gw, void *ctx, job *j, chunk *c, htc_status status)
{
    (void)ctx;
    assert(j->low_busy);
    j->low_busy = 0;
    if (status == HTC_OK && c && c->index == j->low && c->open == 0 && !j->walks && !j->finished) {
        htc__gw_chunk_count(&j->base, c);
        j->low++;
        htc__gw_job_dirty(gw, j, NULL);
        low_advance(gw, j);
    }
}

/* low is where a restart begins to read: every chunk below is complete, and counted in base. */
static void low_advance(htc_gateway *gw, job *j)
{
    while (!j->low_busy && !j->finished && !j->walks && j->low < htc__gw_job_chunks(j) && (j->low + 1) * CHUNK_TASKS <= j->next) {
        chunk *c = htc__gw_chunk(j, j->low);
        if (!c) {
            j->low_busy = 1;
            htc__gw_chunk_load(gw, j, j->low, low_loaded, NULL);
            return;
        }
        if (c->open || c->dirty || c->writing)
            return;
        htc__gw_chunk_count(&j->base, c);
        j->low++;
        htc__gw_job_dirty(gw, j, NULL);
    }
}

void htc__gw_job_check(htc_gateway *gw, job *j)
{
    chunk *c, *next;
    if (j->finished || j->walks || htc__gw_job_terminal(j) != j->count)
        return;
    HASH_ITER(hh, j->chunks, c, next)
    if (c->dirty || c->writing)
        return;
    assert(j->now.waiting == 0 && j->now.leased == 0 && j->now.retry_wait == 0); /* what is not said to be over is not */
    j->finished = 1;
    j->ended = gw->wall;
    j->base = j->now;
    j->base.cancelled += j->base.fresh;
    j->base.fresh = 0;
    gw->ended[2] += j->base.cancelled;
    j->low = htc__gw_job_chunks(j);
    htc__log_with(&gw->env, HTC_LOG_INFO,
                  HTC__FIELDS(HTC__NUMBER("job", j->id), HTC__TEXT("user", j->user->name), HTC__NUMBER("done", j->base.done),
                              HTC__NUMBER("failed", j->base.failed),
                              HTC__NUMBER("cancelled", j->base.cancelled)),
                  "job %llu of %s has ended: %llu done, %llu failed, %llu cancelled",
                  (unsigned long long)j->id, j->user->name, (unsigned long long)j->base.done,
                  (unsigned long long)j->base.failed, (unsigned long long)j->base.cancelled);
    htc__gw_job_dirty(gw, j, NULL);
}

/* Everything that no agent holds ends at once; what one holds is asked to. The caller waits on the job's record. */
void htc__gw_job_cancel(htc_gateway *gw, job *j)
{
    chunk   *c, *next;
    j->cancelled = 1;
    htc__gw_job_touch(gw, j);
    HASH_ITER(hh, j->chunks, c, next)
    {
        for (uint32_t i = 0; i < c->n; i++) {
            task *t = &c->tasks[i];
            if (t->state == TASK_WAITING || t->state == TASK_RETRY_WAIT)
                htc__gw_task_set(gw, c, i, TASK_CANCELLED);
            else if (t->state == TASK_LEASED)
                t->cancel = 1;
        }
        htc__gw_chunk_dirty(gw, c, NULL);
    }
    htc__gw_job_dirty(gw, j, NULL);
    htc__gw_job_check(gw, j);
}

/* ---- a chunk that is not in memory ---- */

typedef struct loading {
    job     *job;
    uint64_t index;
    chunk_fn fn;
    void    *ctx;
} loading;

static void chunk_loaded(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    loading  l = *(loading *)ctx;
    htc_runtime_context_free(gw->runtime, ctx);
    chunk     *c = htc__gw_chunk(l.job, l.index);
    htc_status status = HTC_OK;
    if (!c && r->status == HTC_OK) {
        c = htc__gw_chunk_new(gw, l.job, l.index);
        if (c) {
            status = htc__gw_record_chunk_read(r->value, c);
            htc__gw_chunk_read_done(gw, c);
            c->version = r->version;
            c->open = 0;
            for (uint32_t i = 0; i < c->n; i++)
                c->open += !terminal(c->tasks[i].state);
            if (status != HTC_OK)
                htc_runtime_break(gw->runtime, status, "reading a chunk record");
        }
    } else if (!c && r->status != HTC_ENOTFOUND) {
        status = r->status;
    }
    l.fn(gw, l.ctx, l.job, c, status);
    c = htc__gw_chunk(l.job, l.index);
    if (c)
        htc__gw_chunk_settle(gw, c);
    htc__gw_job_release(gw, l.job);
}

void htc__gw_chunk_load(htc_gateway *gw, job *j, uint64_t index, chunk_fn fn, void *ctx)
{
    chunk   *c = htc__gw_chunk(j, index);
    loading *l = c ? NULL : htc_runtime_context(gw->runtime, sizeof *l);
    if (c) {
        htc__gw_job_hold(j);
        fn(gw, ctx, j, c, HTC_OK);
        htc__gw_job_release(gw, j);
        return;
    }
    if (!l)
        return;
    *l = (loading){ j, index, fn, ctx };
    htc__gw_job_hold(j);
    key k = htc__gw_key_chunk(j->id, index);
    htc_runtime_ask(gw->runtime,
                    &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = htc__gw_key_bytes(&k) }, 1, chunk_loaded, l);
}

/* ---- what is due later: a binary heap by time ---- */

void htc__gw_due_add(htc_gateway *gw, htc_ns at, uint64_t id, uint64_t index)
{
    if (gw->n_dues == gw->cap_dues) {
        size_t cap = gw->cap_dues ? gw->cap_dues * 2 : 64;
        due   *dues = htc__resize(&gw->env, gw->dues, gw->cap_dues * sizeof *dues, cap * sizeof *dues);
        if (!dues) {
            htc_runtime_break(gw->runtime, HTC_ENOMEM, "remembering a retry");
            return;
        }
        gw->dues = dues;
        gw->cap_dues = cap;
    }
    size_t i = gw->n_dues++;
    for (; i > 0 && gw->dues[(i - 1) / 2].at > at; i = (i - 1) / 2)
        gw->dues[i] = gw->dues[(i - 1) / 2];
    gw->dues[i] = (due){ at, id, index };
}

static due due_pop(htc_gateway *gw)
{
    due    top = gw->dues[0], last = gw->dues[--gw->n_dues];
    size_t i = 0;
    for (;;) {
        size_t kid = 2 * i + 1;
        if (kid >= gw->n_dues)
            break;
        if (kid + 1 < gw->n_dues && gw->dues[kid + 1].at < gw->dues[kid].at)
            kid++;
        if (gw->dues[kid].at >= last.at)
            break;
        gw->dues[i] = gw->dues[kid];
        i = kid;
    }
    if (gw->n_dues)
        gw->dues[i] = last;
    return top;
}

void htc__gw_dues_run(htc_gateway *gw)
{
    while (gw->n_dues && gw->dues[0].at <= gw->now) {
        due    d = due_pop(gw);
        job   *j = htc__gw_job(gw, d.job);
        if (j && d.index == DUE_RESTED)
            htc__gw_job_rested(gw, j);
        chunk *c = j && d.index < j->count ? htc__gw_chunk(j, d.index / CHUNK_TASKS) : NULL;
        task  *t = c ? &c->tasks[d.index % CHUNK_TASKS] : NULL;
        /* since holds when it is due: an entry of an older wait finds another time there. */
        if (t && t->state == TASK_RETRY_WAIT && t->since == d.at)
            htc__gw_task_again(gw, c, (uint32_t)(d.index % CHUNK_TASKS), 0);
    }
}
