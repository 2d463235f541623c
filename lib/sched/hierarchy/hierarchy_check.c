/* What was read of a tape may be anybody's: places are places, lists are lists, and what is counted is there. */
#include <math.h>
#include <string.h>

#include "core/util.h"
#include "sched/hierarchy/hierarchy_private.h"

typedef struct audit {
    htc_hierarchy *h;
    uint8_t       *job, *task; /* 1: it is free, or in a list */
    size_t         jobs, tasks;
    uint32_t       waiting, leaving, live, running, running_on[HTC_HIERARCHY_GRIDS_MAX], out[HTC_HIERARCHY_REASONS]; /* of one queue */
} audit;

static int is_amount(double x)
{
    return isfinite(x) && x >= 0;
}

/* ---- what is free ---- */

static int free_jobs_can_be(audit *a)
{
    const htc_hierarchy *h = a->h;
    for (uint32_t i = h->free_job; i != HIER_NONE; i = h->jobs[i].next_free, a->jobs++)
        if (i >= h->jobs_cap || a->job[i]++ || h->jobs[i].state)
            return 0;
    return h->jobs_n <= h->jobs_cap && a->jobs == h->jobs_cap - h->jobs_n;
}

static int free_tasks_can_be(audit *a)
{
    const htc_hierarchy *h = a->h;
    for (uint32_t i = h->free_task; i != HIER_NONE; i = h->tasks[i].next, a->tasks++)
        if (i >= h->tasks_cap || a->task[i]++)
            return 0;
    return h->tasks_n <= h->tasks_cap && a->tasks == h->tasks_cap - h->tasks_n;
}

/* ---- jobs ---- */

/* How many: its tasks; UINT32_MAX: they are no list. */
static uint32_t tasks_of(audit *a, uint32_t job)
{
    const htc_hierarchy *h = a->h;
    const hier_queue    *q = &h->queues[h->jobs[job].queue];
    uint32_t             n = 0, prev = HIER_NONE;
    for (uint32_t i = h->jobs[job].first_task; i != HIER_NONE; prev = i, i = h->tasks[i].next, n++) {
        if (i >= h->tasks_cap || a->task[i]++)
            return UINT32_MAX;
        const hier_task *t = &h->tasks[i];
        if (t->job != job || t->prev != prev || t->grid >= h->options.grid_count || !(q->grids >> t->grid & 1) || !is_amount(t->kflop))
            return UINT32_MAX;
        a->running_on[t->grid]++;
        a->tasks++;
    }
    a->running += n;
    return n;
}

static int job_can_be(audit *a, uint32_t job)
{
    const htc_hierarchy *h = a->h;
    const hier_job      *j = &h->jobs[job];
    const hier_queue    *q = &h->queues[j->queue];
    uint32_t             running = tasks_of(a, job);
    int                  leaves = j->state == HTC_HIERARCHY_LEAVING;
    if ((j->state != HTC_HIERARCHY_ESTIMATING && j->state != HTC_HIERARCHY_QUEUED && !leaves) || !is_amount(j->left) || !is_amount(j->pledged) || running == UINT32_MAX ||
        j->reason >= HTC_HIERARCHY_REASONS || (j->to != HTC_HIERARCHY_NOWHERE && j->to >= h->options.queue_count) ||
        (leaves && j->reason == HTC_HIERARCHY_SHARE && j->to == HTC_HIERARCHY_NOWHERE))
        return 0;
    a->out[j->reason] += (uint32_t)leaves;
    if (j->at == HIER_NONE) {
        a->waiting++;
        return running == 0;
    }
    if (j->at < q->first || j->at >= q->end)
        return 0;
    const hier_entry *e = &q->entries[j->at];
    a->live++;
    a->leaving += (uint32_t)leaves;
    return e->job == job && e->place == (leaves ? HIER_LEAVING : HIER_HERE) && e->running == running && is_amount(e->left);
}

/* ---- queues ---- */

/* Entries that are no holes are those of its jobs: there are as many. */
static int entries_can_be(const audit *a, const hier_queue *q)
{
    size_t n = 0;
    for (size_t i = q->first; i < q->end; i++)
        n += q->entries[i].place != HIER_HOLE;
    return n == a->live && q->live == a->live && q->leaving == a->leaving && q->waiting == a->waiting && q->running == a->running && q->frozen <= 1;
}

static int queue_can_be(audit *a, uint32_t queue)
{
    htc_hierarchy *h = a->h;
    hier_queue    *q = &h->queues[queue];
    a->waiting = a->leaving = a->live = a->running = 0;
    memset(a->running_on, 0, sizeof a->running_on);
    memset(a->out, 0, sizeof a->out);
    for (uint32_t i = 0; i < h->jobs_cap; i++)
        if (h->jobs[i].state && h->jobs[i].queue == queue && (a->job[i]++ || !job_can_be(a, i)))
            return 0;
    for (uint32_t i = 0; i < HTC_HIERARCHY_REASONS; i++)
        if (q->out[i] < a->out[i])
            return 0;
    if (memcmp(a->running_on, q->running_on, sizeof q->running_on) != 0 || !isfinite(q->load) || !is_amount(q->incoming) || !isfinite(q->peer_load))
        return 0;
    a->jobs += a->live + a->waiting;
    return (!(q->spec.flags & HTC_HIERARCHY_REMOTE) || !(a->live + a->waiting)) && entries_can_be(a, q);
}

/* Pushes on their way to a queue are counted there. */
static int pushes_can_be(const htc_hierarchy *h)
{
    for (uint32_t k = 0; k < h->options.queue_count; k++) {
        size_t n = 0;
        for (size_t i = 0; i < h->jobs_cap; i++)
            n += h->jobs[i].state == HTC_HIERARCHY_LEAVING && h->jobs[i].reason == HTC_HIERARCHY_SHARE && h->jobs[i].to == k;
        if (n != h->queues[k].incoming_n)
            return 0;
    }
    return 1;
}

static int grids_can_be(const htc_hierarchy *h)
{
    for (size_t i = 0; i < h->options.grid_count; i++) {
        const hier_grid *g = &h->grids[i];
        if (!is_amount(g->latency_s) || !is_amount(g->cpus) || !is_amount(g->avail) || !is_amount(g->kflops))
            return 0;
    }
    return 1;
}

static int can_be(audit *a)
{
    const htc_hierarchy *h = a->h;
    if (!free_jobs_can_be(a) || !free_tasks_can_be(a) || !grids_can_be(h))
        return 0;
    for (uint32_t k = 0; k < h->options.queue_count; k++)
        if (!queue_can_be(a, k))
            return 0;
    return a->jobs == h->jobs_cap && a->tasks == h->tasks_cap && pushes_can_be(h);
}

/* ---- indexes ---- */

static int put(hier_index *index, uint64_t key, uint32_t value)
{
    if (index->n >= index->cap / 2)
        return 0;
    size_t at = htc__hierarchy_index_place(index, key);
    if (index->cells[at].filled)
        return 0;
    htc__hierarchy_index_fill(index, at, key, value);
    return 1;
}

static void empty(hier_index *index)
{
    if (index->cells)
        memset(index->cells, 0, index->cap * sizeof *index->cells);
    index->n = 0;
}

/* No id, and no task of a job, is there twice. */
static int index_anew(htc_hierarchy *h)
{
    empty(&h->by_id);
    empty(&h->by_task);
    for (uint32_t i = 0; i < h->jobs_cap; i++) {
        if (!h->jobs[i].state)
            continue;
        if (!put(&h->by_id, h->jobs[i].id, i))
            return 0;
        for (uint32_t t = h->jobs[i].first_task; t != HIER_NONE; t = h->tasks[t].next)
            if (!put(&h->by_task, (uint64_t)i << 32 | h->tasks[t].task, t))
                return 0;
    }
    return 1;
}

htc_status htc__hierarchy_check(htc_hierarchy *h)
{
    audit      a = { .h = h, .job = htc__alloc(h->env, h->jobs_cap + 1), .task = htc__alloc(h->env, h->tasks_cap + 1) };
    htc_status status = !a.job || !a.task ? HTC_ENOMEM : can_be(&a) && index_anew(h) ? HTC_OK : HTC_ECORRUPT;
    htc__free(h->env, a.job, h->jobs_cap + 1);
    htc__free(h->env, a.task, h->tasks_cap + 1);
    return status;
}
