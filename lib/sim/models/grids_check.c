/* Several grids: what a checkpoint says can be. Each place is free or in use, each task that holds a CPU is in the lists of its job and of its queue, and what is counted
 * is there. */
#include <math.h>

#include "sim/models/checked.h"
#include "sim/models/grids.h"

typedef struct audit {
    const grids   *m;
    const uint8_t *events;
    checked_lists  jobs, tasks, of_jobs, of_queues; /* jobs, tasks: free ones; the others: tasks in lists */
} audit;

static int is_amount(double x)
{
    return isfinite(x) && x >= 0;
}

/* ---- tasks ---- */

static int tasks_can_be(audit *a)
{
    const grids *m = a->m;
    if (!htc__checked_list(&a->tasks, m->free_task, NULL, NULL))
        return 0;
    for (uint64_t t = 0; t < m->tasks_max; t++) {
        const grids_task *x = &m->task[t];
        int               used = t < m->tasks_made && !htc__checked_was_taken(&a->tasks, (uint32_t)t);
        if (a->events[t] != used || (used && (x->job >= m->jobs_made || x->grid >= m->n_grids || x->cut > 1 || x->evicted > 1)))
            return 0;
    }
    return 1;
}

/* ---- jobs ---- */

/* Its tasks, one after the other and back. */
static int job_list_can_be(audit *a, uint32_t job)
{
    const grids *m = a->m;
    uint64_t     n = 0;
    uint32_t     prev = GRIDS_NONE;
    if (!htc__checked_list(&a->of_jobs, m->job[job].first_task, NULL, &n) || n != m->job[job].running)
        return 0;
    for (uint32_t t = m->job[job].first_task; t != GRIDS_NONE; prev = t, t = m->task[t].next_of_job)
        if (m->task[t].job != job || m->task[t].prev_of_job != prev || m->task[t].cut || htc__checked_was_taken(&a->tasks, t))
            return 0;
    return 1;
}

static int job_can_be(audit *a, uint32_t job)
{
    const grids     *m = a->m;
    const grids_job *j = &m->job[job];
    int              waits = j->state == GRIDS_ESTIMATED || j->state == GRIDS_ARRIVES || j->state == GRIDS_CLOSES;
    if ((!waits && j->state != GRIDS_NO_EVENT) || a->events[m->tasks_max + job] != waits || j->number >= m->next || j->queue >= m->n_queues || j->to >= m->n_queues ||
        j->kind >= m->options.n_classes || j->phase >= GRIDS_PHASES || j->fate > HTC_SIM_GRIDS_FAILED || j->listed > 1)
        return 0;
    if (!is_amount(j->kflop) || !(j->kflop > 0) || !isfinite(j->left) || !(j->left >= -j->kflop && j->left <= 2 * j->kflop) || !is_amount(j->part) || !is_amount(j->nominal) ||
        !is_amount(j->rho) || !is_amount(j->spent_s))
        return 0;
    return job_list_can_be(a, job);
}

static int jobs_can_be(audit *a)
{
    const grids *m = a->m;
    uint64_t     active = 0;
    for (uint32_t j = m->free_job; j != GRIDS_NONE; j = m->job[j].first_task)
        if (!htc__checked_take(&a->jobs, j) || m->job[j].state != GRIDS_FREE_JOB || a->events[m->tasks_max + j])
            return 0;
    for (uint32_t j = 0; j < m->jobs_made; j++) {
        if (htc__checked_was_taken(&a->jobs, j))
            continue;
        if (!job_can_be(a, j))
            return 0;
        active++;
    }
    for (uint64_t j = m->jobs_made; j < m->options.active_max; j++)
        if (a->events[m->tasks_max + j])
            return 0;
    return active == m->active && m->left == m->total - m->next + active;
}

/* ---- queues and grids ---- */

/* Those of a queue on a grid, the latest first. */
static int queue_list_can_be(audit *a, uint32_t queue, uint32_t grid, uint64_t *n)
{
    const grids *m = a->m;
    uint32_t     prev = GRIDS_NONE;
    if (!htc__checked_list(&a->of_queues, m->queue[queue].running[grid], NULL, n))
        return 0;
    for (uint32_t t = m->queue[queue].running[grid]; t != GRIDS_NONE; prev = t, t = m->task[t].next_of_queue)
        if (!htc__checked_was_taken(&a->of_jobs, t) || m->task[t].grid != grid || m->task[t].prev_of_queue != prev || m->job[m->task[t].job].queue != queue)
            return 0;
    return 1;
}

static int queues_can_be(audit *a)
{
    const grids *m = a->m;
    uint64_t     busy[HTC_HIERARCHY_GRIDS_MAX] = { 0 };
    for (uint32_t q = 0; q < m->n_queues; q++) {
        uint64_t of_queue = 0, waiting = 0;
        for (uint32_t g = 0; g < HTC_HIERARCHY_GRIDS_MAX; g++) {
            uint64_t n = 0;
            if (!queue_list_can_be(a, q, g, &n))
                return 0;
            of_queue += n;
            busy[g] += n;
        }
        for (uint32_t j = 0; j < m->jobs_made; j++)
            waiting += m->job[j].state != GRIDS_FREE_JOB && m->job[j].queue == q && m->job[j].listed ? m->job[j].waiting : 0;
        if (m->queue[q].busy != of_queue || m->queue[q].waiting != waiting)
            return 0;
    }
    for (uint32_t g = 0; g < m->n_grids; g++) {
        const grids_grid *x = &m->grid[g];
        if (x->busy != busy[g] || x->ours > x->cpus || x->down > 1 || !(x->state > -1e3 && x->state < 1e3))
            return 0;
    }
    return a->of_jobs.found == a->of_queues.found;
}

static int events_can_be(const audit *a)
{
    const grids   *m = a->m;
    const uint8_t *of = a->events + htc__grids_id(m, 0);
    if (of[GRIDS_ID_ARRIVAL] != (m->next < m->total) || of[GRIDS_ID_TIMER] != m->timers || of[GRIDS_ID_SAMPLE] > (m->sample > 0))
        return 0;
    for (uint32_t g = 0; g < m->n_grids; g++)
        if (of[GRIDS_ID_GRID + g] > m->grid[g].varies || of[GRIDS_ID_GRID + m->n_grids + g] > (m->grid[g].outage_gap.a > 0))
            return 0;
    return 1;
}

htc_status htc__grids_check(const grids *m, const uint8_t *events)
{
    audit      a = { .m = m, .events = events };
    htc_status status = htc__checked_open(&a.jobs, &m->env, &m->job->first_task, sizeof *m->job, m->jobs_made);
    if (status == HTC_OK)
        status = htc__checked_open(&a.tasks, &m->env, &m->task->next_of_job, sizeof *m->task, m->tasks_made);
    if (status == HTC_OK)
        status = htc__checked_open(&a.of_jobs, &m->env, &m->task->next_of_job, sizeof *m->task, m->tasks_made);
    if (status == HTC_OK)
        status = htc__checked_open(&a.of_queues, &m->env, &m->task->next_of_queue, sizeof *m->task, m->tasks_made);
    if (status == HTC_OK)
        status = htc__checked_that(m->scale, tasks_can_be(&a), "tasks");
    if (status == HTC_OK)
        status = htc__checked_that(m->scale, jobs_can_be(&a), "jobs");
    if (status == HTC_OK)
        status = htc__checked_that(m->scale, queues_can_be(&a), "queues");
    if (status == HTC_OK)
        status = htc__checked_that(m->scale, events_can_be(&a), "events");
    htc__checked_close(&a.jobs);
    htc__checked_close(&a.tasks);
    htc__checked_close(&a.of_jobs);
    htc__checked_close(&a.of_queues);
    return status;
}
