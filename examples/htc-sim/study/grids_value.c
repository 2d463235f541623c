/* What a run of several grids came to, by name: queue.Q1.response, class.small.completed, level.1.below. */
#include <math.h>
#include <string.h>

#include "grids.h"

/* ---- what is kept of each job ---- */

/* The level of the first queue on its way down that takes a job of this complexity, or of the last one. */
static size_t level_of(const grids_run *g, double kflop)
{
    const htc_hierarchy_queue *q = g->hierarchy.queues;
    while (q->level > 1 && q + 1 < g->hierarchy.queues + g->hierarchy.queue_count)
        q++;
    for (;;) {
        double cpus = q->job_cpus ? q->job_cpus : q->cpus, beta = q->beta > 0 ? q->beta : 1;
        if (q->next == HTC_HIERARCHY_NOWHERE || kflop <= (double)q->te_ns / 1e9 * cpus * q->kflops * beta)
            return q->level - 1 < GRIDS_LEVELS ? q->level - 1 : GRIDS_LEVELS - 1;
        q = &g->hierarchy.queues[q->next];
    }
}

static size_t level_at(const grids_run *g, uint32_t queue)
{
    size_t level = g->report.n_queues == 1 ? 0 : g->hierarchy.queues[queue].level - 1;
    return level < GRIDS_LEVELS ? level : GRIDS_LEVELS - 1;
}

/* The CPUs of a queue that others leave it, at most N. */
static double cpus_left(const grids_run *g, uint32_t queue)
{
    const htc_hierarchy_queue *q = &g->hierarchy.queues[queue];
    double                     sum = 0;
    for (size_t i = 0; i < q->grid_count; i++)
        sum += g->options.grids[q->grids[i]].free_mean > 0 ? g->options.grids[q->grids[i]].free_mean : g->hierarchy.grids[q->grids[i]].cpus;
    return sum < q->cpus ? sum : q->cpus;
}

static void note_parallel(grids_run *g, const htc_sim_grids_end *e)
{
    double cpus = cpus_left(g, e->queue), used = e->tasks < cpus ? e->tasks : cpus;
    g->ends.queue[e->queue].wanted += e->cpus > 0;
    g->ends.queue[e->queue].part += e->cpus / e->tasks;
    g->ends.queue[e->queue].running += (double)e->running / 1e9;
    g->ends.queue[e->queue].response += (double)(e->ended - e->arrival) / 1e9;
    g->ends.queue[e->queue].alone += e->work_s / used;
}

void grids_note_end(void *run, const htc_sim_grids_end *e)
{
    grids_run  *g = run;
    grids_ends *k = &g->ends;
    double      response = (double)(e->ended - e->arrival) / 1e9;
    int         single = g->options.system == HTC_SIM_GRIDS_FCFS || g->options.system == HTC_SIM_GRIDS_FCFSH;
    size_t      at = single ? 0 : level_at(g, e->queue), own = level_of(g, e->kflop);
    if (!single && at + 1 == g->levels)
        k->waited = (double)e->queued / 1e9;
    k->by_fate[e->fate] += e->work_s + e->evicted_s + e->moved_s;
    if (e->fate != HTC_SIM_GRIDS_COMPLETED)
        return;
    k->jobs[own][at]++;
    if (!single && e->tasks > 1)
        note_parallel(g, e);
    k->wall[at] += response;
    k->work[at] += e->work_s;
    if (at == 0) {
        double x = response, y = k->waited;
        k->n++;
        k->x += x;
        k->y += y;
        k->xx += x * x;
        k->yy += y * y;
        k->xy += x * y;
    }
}

/* ---- by name ---- */

static int result_value(const htc_sim_grids_result *r, const char *field, double *out)
{
    double overhead = r->response_s - r->running_s, all = r->work_s + r->evicted_s + r->moved_s;
    const struct {
        const char *name;
        double      value;
    } known[] = { { "completed", (double)r->completed },
                  { "rejected", (double)r->rejected },
                  { "terminated", (double)r->terminated },
                  { "failed", (double)r->failed },
                  { "response", r->response_s },
                  { "response_50", r->response_50_s },
                  { "response_95", r->response_95_s },
                  { "response_max", r->response_max_s },
                  { "estimating", r->estimating_s },
                  { "queued", r->queued_s },
                  { "grid_queued", r->grid_queued_s },
                  { "running", r->running_s },
                  { "moving", r->moving_s },
                  { "flow", r->flow_s },
                  { "overhead", r->response_s > 0 ? overhead / r->response_s : 0 },
                  { "waiting", overhead > 0 ? r->queued_s / overhead : 0 },
                  { "before", r->response_s > 0 ? (r->estimating_s + r->grid_queued_s) / r->response_s : 0 },
                  { "tasks", r->tasks },
                  { "cpus", r->cpus },
                  { "task_s", r->started > r->evicted ? r->work_s / (double)(r->started - r->evicted) : 0 },
                  { "work", r->work_s },
                  { "lost", all > 0 ? r->evicted_s / all : 0 },
                  { "moved", all > 0 ? r->moved_s / all : 0 },
                  { "started", (double)r->started },
                  { "evicted", r->started ? (double)r->evicted / (double)r->started : 0 },
                  { "overdue", (double)r->out[HTC_HIERARCHY_OVERDUE] },
                  { "potential", (double)(r->out[HTC_HIERARCHY_JOB_POTENTIAL] + r->out[HTC_HIERARCHY_QUEUE_POTENTIAL]) },
                  { "mismatch", (double)r->out[HTC_HIERARCHY_MISMATCH] },
                  { "overload", (double)r->out[HTC_HIERARCHY_OVERLOAD] } };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].name, field) == 0) {
            *out = known[i].value;
            return 1;
        }
    return 0;
}

/* Of jobs of several tasks: CPUs that they had of those that they wanted; how many times as long they took as alone. */
static int parallel_value(const grids_run *g, size_t q, const char *field, double *out)
{
    double wanted = g->ends.queue[q].wanted, alone = g->ends.queue[q].alone;
    if (strcmp(field, "cpus_part") == 0)
        *out = wanted > 0 ? g->ends.queue[q].part / wanted : 0;
    else if (strcmp(field, "stretch") == 0)
        *out = alone > 0 ? g->ends.queue[q].response / alone : 0;
    else if (strcmp(field, "stretch_running") == 0)
        *out = alone > 0 ? g->ends.queue[q].running / alone : 0;
    else
        return 0;
    return 1;
}

static int level_value(const grids_run *g, size_t level, const char *field, double *out)
{
    const grids_ends *k = &g->ends;
    double            own = 0, ended = 0, below = 0, above = 0, all = 0, wall = 0, work = 0;
    for (size_t i = 0; i < g->levels; i++) {
        wall += k->wall[i];
        work += k->work[i];
        for (size_t at = 0; at < g->levels; at++) {
            double jobs = (double)k->jobs[i][at];
            all += jobs;
            ended += at == level ? jobs : 0;
            own += i == level ? jobs : 0;
            below += i == level && at > level ? jobs : 0;
            above += i == level && at < level ? jobs : 0;
        }
    }
    if (strcmp(field, "wall") == 0)
        *out = wall > 0 ? k->wall[level] / wall : 0;
    else if (strcmp(field, "work") == 0)
        *out = work > 0 ? k->work[level] / work : 0;
    else if (strcmp(field, "ended") == 0)
        *out = all > 0 ? ended / all : 0;
    else if (strcmp(field, "own") == 0)
        *out = all > 0 ? own / all : 0;
    else if (strcmp(field, "below") == 0)
        *out = own > 0 ? below / own : 0;
    else if (strcmp(field, "above") == 0)
        *out = own > 0 ? above / own : 0;
    else
        return 0;
    return 1;
}

static double correlation(const grids_ends *k)
{
    double n = k->n > 0 ? k->n : 1, xx = k->xx - k->x * k->x / n, yy = k->yy - k->y * k->y / n, xy = k->xy - k->x * k->y / n;
    return xx > 0 && yy > 0 ? xy / sqrt(xx * yy) : 0;
}

/* KIND.NAME.FIELD: where the field begins, if NAME is this one. */
static const char *field_of(const char *rest, const char *name)
{
    size_t len = strlen(name);
    return strncmp(rest, name, len) == 0 && rest[len] == '.' ? rest + len + 1 : NULL;
}

/* The part of all CPU time that jobs with this fate had. */
static int fate_value(const grids_ends *k, const char *fate, double *out)
{
    static const char *const known[] = { "completed", "rejected", "terminated", "failed" }; /* in the order of htc_sim_grids_fate */
    double                   all = 0;
    for (int i = 0; i <= HTC_SIM_GRIDS_FAILED; i++)
        all += k->by_fate[i];
    for (int i = 0; i <= HTC_SIM_GRIDS_FAILED; i++)
        if (strcmp(known[i], fate) == 0) {
            *out = all > 0 ? k->by_fate[i] / all : 0;
            return 1;
        }
    return 0;
}

int grids_value(const void *run, const char *name, double *out)
{
    const grids_run *g = run;
    const char      *field;
    if (strcmp(name, "top.correlation") == 0) {
        *out = correlation(&g->ends);
        return 1;
    }
    if (strncmp(name, "fate.", 5) == 0)
        return fate_value(&g->ends, name + 5, out);
    if (strncmp(name, "queue.", 6) == 0)
        for (size_t q = 0; q < g->report.n_queues; q++)
            if ((field = field_of(name + 6, g->report.n_queues == 1 ? "all" : g->queue_names[q])))
                return parallel_value(g, q, field, out) || result_value(&g->by_queue[q], field, out);
    if (strncmp(name, "class.", 6) == 0)
        for (size_t k = 0; k < g->options.n_classes; k++)
            if ((field = field_of(name + 6, g->class_names[k])))
                return result_value(&g->by_class[k], field, out);
    if (strncmp(name, "level.", 6) == 0 && name[6] >= '1' && (size_t)(name[6] - '1') < g->levels && name[7] == '.')
        return level_value(g, (size_t)(name[6] - '1'), name + 8, out);
    return 0;
}
