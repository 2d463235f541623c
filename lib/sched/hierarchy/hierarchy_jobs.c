/* Jobs and their running tasks: who is where in which queue, and how much is left to do. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "core/util.h"
#include "sched/hierarchy/hierarchy_private.h"

/* A running task counts as done in part, but never by more than this: it is not done before it says so. */
#define PROGRESS_MAX 0.95

/* ---- the pool of jobs ---- */

/* Room for one more job, and for a decision about each. */
static htc_status reserve_job(htc_hierarchy *h)
{
    htc_status status = htc__hierarchy_index_reserve(h->env, &h->by_id);
    if (status != HTC_OK || h->jobs_n < h->jobs_cap)
        return status;
    size_t cap = h->jobs_cap ? h->jobs_cap * 2 : 64;
    if (cap > h->options.jobs_max)
        cap = h->options.jobs_max;
    if (h->decisions_cap < cap) {
        htc_hierarchy_decision *decisions = htc__resize(h->env, h->decisions, h->decisions_cap * sizeof *decisions,
                                                        cap * sizeof *decisions);
        if (!decisions)
            return HTC_ENOMEM;
        h->decisions = decisions;
        h->decisions_cap = cap;
    }
    hier_job *jobs = htc__resize(h->env, h->jobs, h->jobs_cap * sizeof *jobs, cap * sizeof *jobs);
    if (!jobs)
        return HTC_ENOMEM;
    h->jobs = jobs;
    for (size_t i = cap; i > h->jobs_cap; i--) {
        jobs[i - 1].next_free = h->free_job;
        h->free_job = (uint32_t)(i - 1);
    }
    h->jobs_cap = cap;
    return HTC_OK;
}

void htc__hierarchy_wake(const htc_hierarchy *h, hier_queue *q, htc_ns now)
{
    if (q->enforce_at == HTC_NEVER)
        q->enforce_at = htc__hierarchy_after(now, q->period_ns);
    if (q->share_at == HTC_NEVER && q->peers > 0 && h->options.sharing == HTC_HIERARCHY_PUSH)
        q->share_at = htc__hierarchy_after(now, h->options.share_period_ns);
}

void htc__hierarchy_look_anew(htc_hierarchy *h)
{
    for (size_t i = 0; i < h->options.queue_count; i++) {
        hier_queue *q = &h->queues[i];
        if (q->live + q->waiting == 0)
            continue;
        htc__hierarchy_wake(h, q, h->now);
        q->enforce_at = h->now;
    }
}

void htc__hierarchy_joined(htc_hierarchy *h, hier_queue *q, htc_ns now)
{
    q->waiting++;
    htc__hierarchy_wake(h, q, now);
}

htc_status htc__hierarchy_check_job(const htc_hierarchy_job *in, htc_hierarchy_job *out)
{
    *out = (htc_hierarchy_job){ .size = sizeof *out };
    htc_status status = in ? htc__options_copy(out, sizeof *out, in, in->size, sizeof in->size) : HTC_EINVAL;
    if (status != HTC_OK)
        return status;
    if (!(out->kflop >= 0 && out->kflop <= HTC_HIERARCHY_KFLOP_MAX) || out->tq_ns > HTC_HIERARCHY_TIME_MAX ||
        out->te_ns > out->tq_ns)
        return HTC_EINVAL;
    return HTC_OK;
}

htc_status htc__hierarchy_add(htc_hierarchy *h, uint32_t queue, const htc_hierarchy_job *in, htc_ns now, uint32_t *out)
{
    hier_queue *q = &h->queues[queue];
    hier_job    fresh = { .id = in->id,
                          .left = in->kflop,
                          .bytes = in->bytes,
                          .features = in->features,
                          .arrived = htc__hierarchy_clock(q, now),
                          .memory_mb = in->memory_mb,
                          .queue = queue,
                          .at = HIER_NONE,
                          .to = HTC_HIERARCHY_NOWHERE,
                          .split = in->tasks > 0,
                          .tasks = in->tasks,
                          .tasks_first = in->tasks,
                          .first_task = HIER_NONE,
                          .moves = in->moves,
                          .state = HTC_HIERARCHY_QUEUED,
                          .returned = in->returned != 0,
                          .known = in->kflop > 0 };
    if (htc__hierarchy_find(h, in->id) != HIER_NONE)
        return HTC_EEXISTS;
    fresh.cpus = htc__hierarchy_cpus_for(h, q, &fresh);
    if (fresh.cpus == 0)
        return HTC_ENOFIT;
    if (h->jobs_n >= h->options.jobs_max)
        return HTC_EFULL;
    htc_status status = reserve_job(h);
    if (status == HTC_OK)
        status = htc__hierarchy_reserve(h, q);
    if (status != HTC_OK)
        return status;
    uint32_t job = h->free_job;
    h->free_job = h->jobs[job].next_free;
    h->jobs[job] = fresh;
    h->jobs_n++;
    htc__hierarchy_index_fill(&h->by_id, htc__hierarchy_index_place(&h->by_id, in->id), in->id, job);
    htc__hierarchy_joined(h, q, now);
    *out = job;
    return HTC_OK;
}

/* ---- the array of a queue ---- */

hier_entry *htc__hierarchy_entry_of(const htc_hierarchy *h, const hier_job *j)
{
    return j->at == HIER_NONE ? NULL : &h->queues[j->queue].entries[j->at];
}

double htc__hierarchy_left(const htc_hierarchy *h, const hier_job *j)
{
    const hier_entry *e = htc__hierarchy_entry_of(h, j);
    return e ? e->left : j->left;
}

void htc__hierarchy_compact(htc_hierarchy *h, hier_queue *q)
{
    size_t to = 0;
    for (size_t i = q->first; i < q->end; i++)
        if (q->entries[i].place != HIER_HOLE) {
            h->jobs[q->entries[i].job].at = (uint32_t)to;
            q->entries[to++] = q->entries[i];
        }
    q->first = 0;
    q->end = to;
}

htc_status htc__hierarchy_reserve(htc_hierarchy *h, hier_queue *q)
{
    if (q->end + q->waiting < q->cap)
        return HTC_OK;
    if (q->live + q->waiting < q->cap / 2) {
        htc__hierarchy_compact(h, q);
        return HTC_OK;
    }
    size_t      cap = q->cap ? q->cap * 2 : 16;
    hier_entry *grown = htc__resize(h->env, q->entries, q->cap * sizeof *grown, cap * sizeof *grown);
    if (!grown)
        return HTC_ENOMEM;
    q->entries = grown;
    q->cap = cap;
    return HTC_OK;
}

void htc__hierarchy_append(htc_hierarchy *h, uint32_t job)
{
    hier_job   *j = &h->jobs[job];
    hier_queue *q = &h->queues[j->queue];
    j->at = (uint32_t)q->end;
    j->state = HTC_HIERARCHY_QUEUED;
    q->entries[q->end++] = (hier_entry){ .left = j->left, .arrived = j->arrived, .job = job, .cpus = j->cpus,
                                         .place = HIER_HERE };
    q->live++;
    assert(q->waiting > 0);
    q->waiting--;
    q->load += j->left;
}

/* ---- running tasks ---- */

static uint64_t task_key(uint32_t job, uint32_t task)
{
    return (uint64_t)job << 32 | task;
}

static htc_status grow_tasks(htc_hierarchy *h)
{
    size_t cap = h->tasks_cap ? h->tasks_cap * 2 : 64;
    if (cap > h->options.tasks_max)
        cap = h->options.tasks_max;
    hier_task *tasks = htc__resize(h->env, h->tasks, h->tasks_cap * sizeof *tasks, cap * sizeof *tasks);
    if (!tasks)
        return HTC_ENOMEM;
    h->tasks = tasks;
    for (size_t i = cap; i > h->tasks_cap; i--) {
        tasks[i - 1].next = h->free_task;
        h->free_task = (uint32_t)(i - 1);
    }
    h->tasks_cap = cap;
    return HTC_OK;
}

static htc_status reserve_task(htc_hierarchy *h)
{
    if (h->tasks_n >= h->options.tasks_max)
        return HTC_EFULL;
    htc_status status = htc__hierarchy_index_reserve(h->env, &h->by_task);
    return status != HTC_OK || h->tasks_n < h->tasks_cap ? status : grow_tasks(h);
}

/* The task of that cell of by_task, one of job j, no longer runs; answers for how long it did. */
static inline htc_ns end_task(htc_hierarchy *h, hier_job *j, size_t cell)
{
    uint32_t    task = h->by_task.cells[cell].value;
    hier_task  *t = &h->tasks[task];
    hier_queue *q = &h->queues[j->queue];
    htc_ns      ran = h->now - t->started;
    if (t->prev != HIER_NONE)
        h->tasks[t->prev].next = t->next;
    else
        j->first_task = t->next;
    if (t->next != HIER_NONE)
        h->tasks[t->next].prev = t->prev;
    assert(h->by_task.n > 0);
    htc__hierarchy_index_clear(&h->by_task, cell);
    h->grids[t->grid].busy_ns = htc__hierarchy_after(h->grids[t->grid].busy_ns, ran);
    assert(q->entries[j->at].running > 0);
    q->entries[j->at].running--;
    assert(q->running > 0);
    q->running--;
    assert(q->running_on[t->grid] > 0);
    q->running_on[t->grid]--;
    q->busy_ns = htc__hierarchy_after(q->busy_ns, ran);
    t->next = h->free_task;
    h->free_task = task;
    assert(h->tasks_n > 0);
    h->tasks_n--;
    return ran;
}

void htc__hierarchy_detach(htc_hierarchy *h, uint32_t job)
{
    hier_job   *j = &h->jobs[job];
    hier_queue *q = &h->queues[j->queue];
    while (j->first_task != HIER_NONE) {
        htc_ns ran = end_task(h, j, htc__hierarchy_index_place(&h->by_task, task_key(job, h->tasks[j->first_task].task)));
        if (j->state == HTC_HIERARCHY_LEAVING && j->to != HTC_HIERARCHY_NOWHERE)
            q->lost_ns = htc__hierarchy_after(q->lost_ns, ran);
    }
    htc__hierarchy_unpledge(h, j);
    if (j->at == HIER_NONE) {
        assert(q->waiting > 0);
        q->waiting--;
    } else {
        hier_entry *e = &q->entries[j->at];
        j->left = e->left;
        assert(q->live > 0);
        q->live--;
        assert(q->leaving > 0 || e->place != HIER_LEAVING);
        q->leaving -= e->place == HIER_LEAVING;
        e->place = HIER_HOLE;
        while (q->first < q->end && q->entries[q->first].place == HIER_HOLE)
            q->first++;
        while (q->end > q->first && q->entries[q->end - 1].place == HIER_HOLE)
            q->end--;
        if (q->first == q->end)
            q->first = q->end = 0;
        j->at = HIER_NONE;
        q->enforce_at = h->now; /* one that waited outside was no load: nobody's chances are better now */
    }
}

void htc__hierarchy_forget(htc_hierarchy *h, uint32_t job)
{
    hier_job *j = &h->jobs[job];
    assert(h->by_id.n > 0);
    htc__hierarchy_index_clear(&h->by_id, htc__hierarchy_index_place(&h->by_id, j->id));
    *j = (hier_job){ .next_free = h->free_job };
    h->free_job = job;
    assert(h->jobs_n > 0);
    h->jobs_n--;
}

htc_status htc_hierarchy_remove(htc_hierarchy *h, uint64_t id, htc_ns now)
{
    if (!h)
        return HTC_EINVAL;
    uint32_t job = htc__hierarchy_find(h, id);
    if (job == HIER_NONE)
        return HTC_ENOTFOUND;
    htc__hierarchy_now(h, now);
    htc__hierarchy_detach(h, job);
    htc__hierarchy_forget(h, job);
    return HTC_OK;
}

static int has_grid(const hier_queue *q, uint32_t grid)
{
    return grid < HTC_HIERARCHY_GRIDS_MAX && (q->grids >> grid & 1);
}

/* About the last twenty count. */
static void average(double *mean, double value)
{
    *mean += *mean > 0 ? (value - *mean) / 20 : value;
}

htc_status htc_hierarchy_task_started(htc_hierarchy *h, const htc_hierarchy_task *task, htc_ns now)
{
    htc_hierarchy_task other;
    htc_status         status = HTC_OK;
    if (!h || !task)
        return HTC_EINVAL;
    if (task->size != sizeof *task) { /* of another version */
        other = (htc_hierarchy_task){ .size = sizeof other };
        status = htc__options_copy(&other, sizeof other, task, task->size, sizeof task->size);
        task = &other;
    }
    if (status != HTC_OK)
        return status;
    uint32_t job = htc__hierarchy_find(h, task->id);
    if (job == HIER_NONE)
        return HTC_ENOTFOUND;
    hier_job   *j = &h->jobs[job];
    hier_queue *q = &h->queues[j->queue];
    if (j->at == HIER_NONE || !has_grid(q, task->grid) || !(task->kflop >= 0 && task->kflop <= HTC_HIERARCHY_KFLOP_MAX) ||
        task->waited_ns > HTC_HIERARCHY_TIME_MAX)
        return HTC_EINVAL;
    uint64_t key = task_key(job, task->task);
    size_t   cell = h->by_task.cap ? htc__hierarchy_index_place(&h->by_task, key) : 0, cap = h->by_task.cap;
    if (cap && h->by_task.cells[cell].filled)
        return HTC_EEXISTS;
    hier_entry *e = &q->entries[j->at];
    if (j->split && e->running >= j->tasks)
        return HTC_EINVAL;
    status = reserve_task(h);
    if (status != HTC_OK)
        return status;
    now = htc__hierarchy_now(h, now);
    uint32_t slot = h->free_task;
    h->free_task = h->tasks[slot].next;
    h->tasks[slot] = (hier_task){ .kflop = task->kflop, .started = now, .job = job, .task = task->task, .grid = task->grid,
                                  .next = j->first_task, .prev = HIER_NONE };
    if (j->first_task != HIER_NONE)
        h->tasks[j->first_task].prev = slot;
    j->first_task = slot;
    h->tasks_n++;
    if (h->by_task.cap != cap)
        cell = htc__hierarchy_index_place(&h->by_task, key);
    htc__hierarchy_index_fill(&h->by_task, cell, key, slot);
    if (!e->has_started) {
        e->has_started = 1;
        e->started = htc__hierarchy_clock(q, now);
    }
    e->running++;
    q->running++;
    q->running_on[task->grid]++;
    if (task->waited_ns > 0)
        average(&h->grids[task->grid].latency_s, (double)task->waited_ns / 1e9);
    return HTC_OK;
}

/* Its job, and its cell in by_task. NULL: it does not run. */
static inline hier_job *find_task(const htc_hierarchy *h, uint64_t id, uint32_t task, size_t *cell)
{
    uint32_t job = htc__hierarchy_find(h, id);
    if (job == HIER_NONE || h->by_task.cap == 0)
        return NULL;
    *cell = htc__hierarchy_index_place(&h->by_task, task_key(job, task));
    return h->by_task.cells[*cell].filled ? &h->jobs[job] : NULL;
}

htc_status htc_hierarchy_task_done(htc_hierarchy *h, uint64_t id, uint32_t task, htc_ns now)
{
    size_t    cell;
    hier_job *j = h ? find_task(h, id, task, &cell) : NULL;
    if (!j)
        return h ? HTC_ENOTFOUND : HTC_EINVAL;
    htc__hierarchy_now(h, now);
    const hier_task  *t = &h->tasks[h->by_task.cells[cell].value];
    const hier_queue *q = &h->queues[j->queue];
    hier_entry       *e = &q->entries[j->at];
    htc_ns            ran = end_task(h, j, cell); /* its record is free, and as it was but for next */
    e->left = e->left > t->kflop ? e->left - t->kflop : 0;
    if (j->split)
        j->tasks--;
    if (ran > 0 && t->kflop > 0)
        average(&h->grids[t->grid].kflops, htc__hierarchy_least(t->kflop / ((double)ran / 1e9) / q->spec.beta, HIER_KFLOPS_MAX));
    return HTC_OK;
}

htc_status htc_hierarchy_task_lost(htc_hierarchy *h, uint64_t id, uint32_t task, htc_ns now)
{
    size_t    cell;
    hier_job *j = h ? find_task(h, id, task, &cell) : NULL;
    if (!j)
        return h ? HTC_ENOTFOUND : HTC_EINVAL;
    htc__hierarchy_now(h, now);
    hier_queue *q = &h->queues[j->queue];
    h->grids[h->tasks[h->by_task.cells[cell].value].grid].lost++;
    q->lost_ns = htc__hierarchy_after(q->lost_ns, end_task(h, j, cell));
    return HTC_OK;
}

htc_status htc_hierarchy_split(htc_hierarchy *h, uint64_t id, uint32_t tasks)
{
    if (!h)
        return HTC_EINVAL;
    uint32_t job = htc__hierarchy_find(h, id);
    if (job == HIER_NONE)
        return HTC_ENOTFOUND;
    hier_job         *j = &h->jobs[job];
    const hier_entry *e = htc__hierarchy_entry_of(h, j);
    if (tasks > 0 && e && e->running > tasks)
        return HTC_EINVAL;
    j->split = tasks > 0;
    j->tasks = j->tasks_first = tasks;
    return HTC_OK;
}

/* Step 2a. */
double htc__hierarchy_remaining(const htc_hierarchy *h, const hier_queue *q, const hier_entry *e, htc_ns now)
{
    double left = e->left;
    if (e->running == 0)
        return left;
    for (uint32_t t = h->jobs[e->job].first_task; t != HIER_NONE; t = h->tasks[t].next) {
        const hier_task *task = &h->tasks[t];
        left -= htc__hierarchy_least(htc__hierarchy_phi(now - task->started, 1, q->unit), PROGRESS_MAX * task->kflop);
    }
    return left > 0 ? left : 0;
}

/* ---- what users see ---- */

htc_status htc_hierarchy_get_job(const htc_hierarchy *h, uint64_t id, htc_ns now, htc_hierarchy_job_info *out)
{
    if (!h || !out)
        return HTC_EINVAL;
    uint32_t job = htc__hierarchy_find(h, id);
    if (job == HIER_NONE)
        return HTC_ENOTFOUND;
    const hier_job   *j = &h->jobs[job];
    const hier_queue *q = &h->queues[j->queue];
    const hier_entry *e = htc__hierarchy_entry_of(h, j);
    now = now > h->now ? now : h->now;
    htc_ns clock = htc__hierarchy_clock(q, now);
    *out = (htc_hierarchy_job_info){ .id = id,
                                     .state = j->state,
                                     .queue = j->queue,
                                     .to = j->to,
                                     .reason = j->reason,
                                     .kflop = htc__hierarchy_left(h, j),
                                     .remaining = e ? htc__hierarchy_remaining(h, q, e, now) : j->left,
                                     .tq_ns = clock - (e ? e->arrived : j->arrived),
                                     .te_ns = e && e->has_started ? clock - e->started : 0,
                                     .tasks = j->tasks,
                                     .running = e ? e->running : 0,
                                     .moves = j->moves,
                                     .returned = j->returned,
                                     .overstays = e ? e->overstays : 0,
                                     .hold_ns = j->hold_until > now ? j->hold_until - now : 0 };
    if (j->state == HTC_HIERARCHY_QUEUED && e && e->has_started)
        out->state = HTC_HIERARCHY_RUNNING;
    return HTC_OK;
}

size_t htc_hierarchy_jobs(const htc_hierarchy *h, uint32_t queue, size_t *cursor, uint64_t *ids, size_t max)
{
    if (!h || !cursor || (max > 0 && !ids) || queue >= h->options.queue_count)
        return 0;
    const hier_queue *q = &h->queues[queue];
    size_t            n = 0, at = *cursor > q->first ? *cursor : q->first;
    for (; at < q->end && n < max; at++)
        if (q->entries[at].place != HIER_HOLE)
            ids[n++] = h->jobs[q->entries[at].job].id;
    *cursor = at;
    return n;
}

htc_status htc_hierarchy_dispatch(const htc_hierarchy *h, uint32_t queue, uint32_t grid, uint32_t cpus,
                                  htc_hierarchy_grant *out, size_t max, size_t *n)
{
    const hier_queue *q = h ? htc__hierarchy_queue(h, queue) : NULL;
    if (!q || !n || (max > 0 && !out) || !has_grid(q, grid))
        return HTC_EINVAL;
    size_t   granted = 0;
    uint32_t most = h->grids[grid].spec.tasks_max, held = q->running_on[grid];
    if (most > 0 && cpus > (most > held ? most - held : 0))
        cpus = most > held ? most - held : 0;
    for (size_t i = q->first; i < q->end && cpus > 0 && granted < max; i++) {
        const hier_entry *e = &q->entries[i];
        if (e->place != HIER_HERE || e->running >= q->spec.cpus)
            continue;
        const hier_job *j = &h->jobs[e->job];
        uint32_t        give = q->spec.cpus - e->running, pending = j->tasks - e->running;
        if (!htc__hierarchy_suits(&h->grids[grid], j))
            continue;
        if (j->split && pending < give)
            give = pending;
        if (cpus < give)
            give = cpus;
        if (give > 0)
            out[granted++] = (htc_hierarchy_grant){ j->id, give };
        cpus -= give;
    }
    *n = granted;
    return HTC_OK;
}
