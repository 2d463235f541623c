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
    if (j->waits || j->early)
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
    if (!j->open || j->paused || j->waits || j->early || j->cancelled || j->finished)
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
    uint64_t ready = htc__gw_job_offers(j), unfinished = j->open ? j->count - htc__gw_job_terminal(j) : 0;
    user    *u = j->user;
    int      blocked = j->paused || j->waits || j->early;
    assert(u->offered >= j->queued && u->unfinished >= j->unfinished); /* the sums hold each job's part */
    u->offered = u->offered - j->queued + ready;
    j->queued = ready;
    u->unfinished = u->unfinished - j->unfinished + unfinished;
    if (j->project)
        j->project->unfinished = j->project->unfinished - j->unfinished + unfinished;
    j->unfinished = unfinished;
    if (j->blocked && !blocked)
        j->could = gw->wall;
    j->blocked = (uint8_t)blocked;
    if (ready && !j->in_ready)
        DL_INSERT_INORDER2(u->ready, j, htc__gw_job_turn, ready_prev, ready_next);
    else if (!ready && j->in_ready)
        DL_DELETE2(u->ready, j, ready_prev, ready_next);
    j->in_ready = ready != 0;
    if (!ready)
        j->memory_since = j->counted_since = 0;
    htc__gw_user_moved(gw, u);
}

void htc__gw_user_moved(htc_gateway *gw, user *u)
{
    uint64_t queued = u->queued;
    u->queued = u->quota.room ? u->offered : 0;
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
    j->project = htc__gw_project(gw, j->wishes.project);
    if (j->project)
        DL_APPEND2(j->project->jobs, j, project_prev, project_next);
    j->user->open_jobs++;
    htc__gw_owned_add(gw, j->user, j->id);
    j->user->running += j->now.leased;
    if (j->project)
        j->project->running += j->now.leased;
    j->user->retrying += j->now.retry_wait;
    make_place(gw, j);
    htc__gw_begin_arm(gw, j);
    j->could = j->n_edges && !j->waits && gw->phase == PHASE_RECOVERING ? gw->wall : j->wishes.begin > j->submitted ? j->wishes.begin : j->submitted;
    htc__gw_quota_moved(gw, j->user, j->project);
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

static void chunk_free(htc_gateway *gw, chunk *c)
{
    htc_runtime_wake(gw->runtime, &c->write_done, HTC_ECLOSED);
    htc_runtime_wake(gw->runtime, &c->next_done, HTC_ECLOSED);
    htc__gw_puts_free(gw, &c->puts);
    htc__gw_puts_free(gw, &c->putting);
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
    htc__machine_wish_free(&gw->env, &j->asks);
    htc__free(&gw->env, j->health, j->n_health * sizeof *j->health);
    htc_buf_free(&j->content);
    htc__gw_credentials_free(j);
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
    if (j->project)
        DL_DELETE2(j->project->jobs, j, project_prev, project_next);
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

static void chunk_drop(htc_gateway *gw, chunk *c)
{
    job *j = c->job;
    HASH_DEL(j->chunks, c);
    assert(j->chunks_open > 0 || c->ahead);
    j->chunks_open -= !c->ahead;
    assert(j->chunks_ahead >= c->ahead);
    j->chunks_ahead -= c->ahead;
    chunk_free(gw, c);
    if (j->open)
        htc__gw_job_touch(gw, j);
}

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
    chunk_drop(gw, c);
}

#define ORDER_LOOKS 1024 /* at tasks that come back first */

/* In the order of the tasks, whatever order they come back in: they come mostly in that order, so the place is looked for from the end. */
static void queue_first(job *j, ready_task *r)
{
    ready_task *before = j->head ? j->head->prev : NULL; /* the last one */
    for (int looks = ORDER_LOOKS; before && before->index > r->index && looks > 0; looks--)
        before = before == j->head ? NULL : before->prev;
    if (before)
        DL_APPEND_ELEM(j->head, before, r);
    else
        DL_PREPEND(j->head, r);
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
        queue_first(j, r);
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
        if (j->project)
            j->project->running += (uint64_t)((state == TASK_LEASED) - (old == TASK_LEASED));
    }
    c->open += (uint32_t)(terminal(old) - terminal((uint8_t)state));
    t->state = (uint8_t)state;
    t->since = gw->now;
    if (state != TASK_LEASED && !(old == TASK_RETRY_WAIT && state == TASK_WAITING))
        t->failed_at = 0;
    if (j->open && state == TASK_CANCELLED)
        htc__gw_reallocate_soon(gw); /* its user asks for less, though the queue may not be empty */
    if (old == TASK_LEASED && state != TASK_LEASED)
        htc__gw_gang_over(gw, j, c->index * CHUNK_TASKS + offset);
    if (j->open && (state == TASK_LEASED || old == TASK_LEASED))
        htc__gw_quota_moved(gw, j->user, j->project);
    if (j->open)
        htc__gw_job_touch(gw, j);
}

void htc__gw_use(chunk *c, usage more)
{
    usage *sums[] = { &c->used, &c->job->now.used };
    for (size_t i = 0; i < 2; i++) {
        sums[i]->core_ns = htc__quota_sum(sums[i]->core_ns, more.core_ns);
        sums[i]->attempts += more.attempts;
        sums[i]->losses += more.losses;
        sums[i]->bytes += more.bytes;
    }
    c->job->user->core_ns = htc__quota_sum(c->job->user->core_ns, more.core_ns);
    c->job->user->bytes += more.bytes;
    if (c->job->project)
        c->job->project->bytes += more.bytes;
}

void htc__gw_unuse_left(chunk *c, task *t)
{
    uint64_t *sums[] = { &c->used.bytes, &c->job->now.used.bytes, &c->job->user->bytes, c->job->project ? &c->job->project->bytes : NULL };
    uint64_t  bytes = t->left[1];
    assert(t->state != TASK_DONE && c->used.bytes >= bytes);
    for (size_t i = 0; i < 4; i++)
        if (sums[i])
            *sums[i] -= bytes < *sums[i] ? bytes : *sums[i];
    t->left[1] = 0;
}

void htc__gw_task_again(htc_gateway *gw, chunk *c, uint32_t offset, int first)
{
    htc__gw_task_queue(gw, c->job, c->index * CHUNK_TASKS + offset, first);
    c->tasks[offset].cancel = 0;
    htc__gw_task_set(gw, c, offset, TASK_WAITING);
}

static void list_drop(htc_gateway *gw, ready_task **list, ready_task *r)
{
    DL_DELETE(*list, r);
    htc__free(&gw->env, r, sizeof *r);
}

static chunk *waits_in(job *j, uint64_t index)
{
    chunk *c = htc__gw_chunk(j, index / CHUNK_TASKS);
    return c && c->tasks[index % CHUNK_TASKS].state == TASK_WAITING ? c : NULL;
}

ready_task *htc__gw_job_listed(htc_gateway *gw, job *j, ready_task **list, ready_task *from)
{
    ready_task *next;
    for (; from && !waits_in(j, from->index); from = next) {
        next = from->next;
        list_drop(gw, list, from);
    }
    return from;
}

static int peek_listed(htc_gateway *gw, job *j, ready_task **list, chunk **out, uint32_t *offset)
{
    ready_task *r = htc__gw_job_listed(gw, j, list, *list);
    if (!r)
        return 0;
    *out = waits_in(j, r->index);
    *offset = (uint32_t)(r->index % CHUNK_TASKS);
    return 1;
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
        list_drop(gw, &j->head, j->head);
    else if (j->tail && j->tail->index == index)
        list_drop(gw, &j->tail, j->tail);
    if (HTC__BROKEN(after_granted) && j->now.fresh + j->now.waiting + j->now.retry_wait == 1) /* this one */
        htc__gw_parent_ended(gw, j);
}

int htc__gw_job_next_is_retry(const job *j)
{
    return !j->head && j->tail && !(j->now.fresh && fresh_ready(j));
}

uint64_t htc__gw_job_next(const job *j)
{
    if (j->head)
        return j->head->index;
    if (htc__gw_job_next_is_retry(j))
        return j->tail->index;
    return j->next < j->count ? j->next : j->count - 1;
}

/* ---- the end of chunks and jobs ---- */

void htc__gw_chunk_count(counts *sum, const chunk *c)
{
    for (uint32_t i = 0; i < c->n; i++)
        ++*count_of(sum, c->tasks[i].state);
    sum->used.core_ns = htc__quota_sum(sum->used.core_ns, c->used.core_ns);
    sum->used.attempts += c->used.attempts;
    sum->used.losses += c->used.losses;
    sum->used.bytes += c->used.bytes;
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
    htc__gw_reallocate_soon(gw); /* likewise: tasks that no chunk has are many */
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
    job       *job;
    uint64_t   index;
    chunk_fn   fn;
    void      *ctx;
    htc_status status;  /* of the read, */
    uint64_t   version; /* and what it gave */
    size_t     len;
    uint8_t    record[];
} loading;

static void chunk_given(htc_gateway *gw, const loading *l, const htc_kv_result *r)
{
    chunk     *c = htc__gw_chunk(l->job, l->index);
    htc_status status = HTC_OK;
    if (!c && r->status == HTC_OK) {
        c = htc__gw_chunk_new(gw, l->job, l->index);
        if (c) {
            status = htc__gw_record_chunk_read(r->value, c);
            htc__gw_chunk_read_done(gw, c);
            c->version = r->version;
            c->open = 0;
            for (uint32_t i = 0; i < c->n; i++)
                c->open += !terminal(c->tasks[i].state);
        }
        if (c && status != HTC_OK) { /* as one that the store cannot read */
            chunk_drop(gw, c);
            c = NULL;
        }
    } else if (!c && r->status != HTC_ENOTFOUND) {
        status = r->status;
    }
    l->fn(gw, l->ctx, l->job, c, status);
    c = htc__gw_chunk(l->job, l->index);
    if (c)
        htc__gw_chunk_settle(gw, c);
    htc__gw_job_release(gw, l->job);
}

static void chunk_confirmed(void *role, void *ctx, htc_status status)
{
    htc_gateway *gw = role;
    loading     *l = ctx;
    if (status != HTC_OK)
        return;
    chunk_given(gw, l, &(htc_kv_result){ .size = sizeof(htc_kv_result), .status = l->status, .version = l->version, .value = { l->record, l->len } });
    htc_runtime_context_free(gw->runtime, l);
}

/* Where other gateways may be, what was read may be of a later term, and would be written on: that is looked at first. */
static void chunk_loaded(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    loading      l = *(loading *)ctx;
    htc_runtime_context_free(gw->runtime, ctx);
    if (!htc__gw_shared(gw)) {
        chunk_given(gw, &l, r);
        return;
    }
    size_t   len = r->status == HTC_OK ? r->value.len : 0;
    loading *kept = htc_runtime_context(gw->runtime, sizeof *kept + len);
    if (!kept)
        return;
    *kept = l;
    kept->status = r->status;
    kept->version = r->version;
    kept->len = len;
    if (len)
        memcpy(kept->record, r->value.data, len);
    htc__gw_confirm(gw, chunk_confirmed, kept);
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
    *l = (loading){ .job = j, .index = index, .fn = fn, .ctx = ctx };
    htc__gw_job_hold(j);
    key k = htc__gw_key_chunk(j->id, index);
    htc_runtime_ask(gw->runtime,
                    &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = htc__gw_key_bytes(&k) }, 1, chunk_loaded, l);
}
