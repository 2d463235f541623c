#include "flow_tasks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "htcsched/dag.h"

int flow_task_ran(const flow_task *t)
{
    return t->began && t->ended >= t->began;
}

void flow_figures_free(flow_figures *f)
{
    free(f->workers);
    free(f->path);
    free(f->order);
    *f = (flow_figures){ 0 };
}

static double seconds(htc_ns ns)
{
    return (double)ns / 1e9;
}

/* ---- workers and their slots ---- */

static int by_number(const void *a, const void *b)
{
    const flow_worker_figures *x = a, *y = b;
    return x->worker < y->worker ? -1 : x->worker > y->worker;
}

typedef struct begun {
    htc_ns   at;
    uint32_t task;
} begun;

static int by_beginning(const void *a, const void *b)
{
    const begun *x = a, *y = b;
    return x->at != y->at ? (x->at < y->at ? -1 : 1) : x->task < y->task ? -1 : x->task > y->task;
}

static htc_status put_in_order(const flow_graph *g, flow_figures *f)
{
    begun *all = malloc((f->ran + 1) * sizeof *all);
    size_t n = 0;
    f->order = malloc((f->ran + 1) * sizeof *f->order);
    if (all && f->order) {
        for (uint32_t i = 0; i < g->n; i++)
            if (flow_task_ran(&g->tasks[i]))
                all[n++] = (begun){ g->tasks[i].began, i };
        qsort(all, n, sizeof *all, by_beginning);
        for (size_t i = 0; i < n; i++)
            f->order[i] = all[i].task;
    }
    free(all);
    return all && f->order ? HTC_OK : HTC_ENOMEM;
}

static htc_status find_workers(flow_graph *g, flow_figures *f)
{
    uint32_t n = 0;
    f->workers = calloc(f->ran + 1, sizeof *f->workers);
    if (!f->workers)
        return HTC_ENOMEM;
    for (uint64_t i = 0; i < f->ran; i++)
        f->workers[i].worker = g->tasks[f->order[i]].worker;
    qsort(f->workers, f->ran, sizeof *f->workers, by_number);
    for (uint64_t i = 0; i < f->ran; i++)
        if (i == 0 || f->workers[i].worker != f->workers[n - 1].worker)
            f->workers[n++] = (flow_worker_figures){ .worker = f->workers[i].worker };
    f->n_workers = n;
    for (uint64_t i = 0; i < f->ran; i++) {
        flow_task          *t = &g->tasks[f->order[i]];
        flow_worker_figures key = { .worker = t->worker }, *w = bsearch(&key, f->workers, n, sizeof key, by_number);
        t->at = (uint32_t)(w - f->workers);
        w->tasks++;
        w->run_s += seconds(t->ended - t->began);
    }
    return HTC_OK;
}

/* A worker's slots are not recorded: a task is put into the first of them that is free when it begins. */
static htc_status find_slots(flow_graph *g, flow_figures *f)
{
    typedef struct lanes {
        htc_ns  *free_at;
        uint32_t cap;
    } lanes;
    lanes     *all = calloc((size_t)f->n_workers + 1, sizeof *all);
    htc_status s = all ? HTC_OK : HTC_ENOMEM;
    for (uint64_t i = 0; s == HTC_OK && i < f->ran; i++) {
        flow_task           *t = &g->tasks[f->order[i]];
        flow_worker_figures *w = &f->workers[t->at];
        lanes               *l = &all[t->at];
        uint32_t             at = 0;
        while (at < w->slots && l->free_at[at] > t->began)
            at++;
        if (at == l->cap) {
            htc_ns *grown = realloc(l->free_at, ((size_t)at * 2 + 4) * sizeof *grown);
            if (!grown) {
                s = HTC_ENOMEM;
                break;
            }
            l->free_at = grown;
            l->cap = at * 2 + 4;
        }
        w->slots = at == w->slots ? at + 1 : w->slots;
        l->free_at[at] = t->ended;
        t->lane = at;
    }
    for (uint32_t i = 0; i < f->n_workers; i++) {
        f->workers[i].first_slot = f->slots;
        f->slots += f->workers[i].slots;
        if (all)
            free(all[i].free_at);
    }
    free(all);
    for (uint64_t i = 0; s == HTC_OK && i < f->ran; i++)
        g->tasks[f->order[i]].lane += f->workers[g->tasks[f->order[i]].at].first_slot;
    return s;
}

/* ---- the graph ---- */

static htc_status graph_of(const flow_graph *g, htc_dag **out)
{
    htc_dag_options o = HTC_DAG_OPTIONS_INIT;
    htc_dag        *dag = NULL;
    o.tasks_max = HTC_DAG_TASKS_MAX;
    htc_status s = htc_dag_create(NULL, &o, &dag);
    for (uint32_t i = 0; s == HTC_OK && i < g->n; i++)
        s = htc_dag_add_task(dag, i);
    for (uint32_t i = 0; s == HTC_OK && i < g->n; i++)
        for (size_t e = 0; s == HTC_OK && e < g->tasks[i].n_edges; e++)
            s = htc_dag_add_edge(dag, i, g->edges[g->tasks[i].edges + e].child);
    if (s == HTC_OK)
        *out = dag;
    else
        htc_dag_destroy(dag);
    return s;
}

/* The critical path and the earliest ends of the run times as they were. */
static htc_status measure_graph(const flow_graph *g, flow_figures *f, double *mean_end_s)
{
    htc_dag      *dag = NULL;
    htc_ns       *length = calloc((size_t)g->n + 1, sizeof *length), *finish = calloc((size_t)g->n + 1, sizeof *finish), path = 0, bound;
    htc_dag_model m = HTC_DAG_MODEL_INIT;
    double        sum = 0;
    f->path = calloc((size_t)g->n + 1, sizeof *f->path);
    htc_status s = length && finish && f->path ? graph_of(g, &dag) : HTC_ENOMEM;
    for (uint32_t i = 0; s == HTC_OK && i < g->n; i++)
        length[i] = flow_task_ran(&g->tasks[i]) ? g->tasks[i].ended - g->tasks[i].began : 0;
    if (s == HTC_OK)
        s = htc_dag_critical_path(dag, g->n, length, g->n, NULL, f->path, &f->n_path, &path);
    m.tasks = g->n;
    m.exec_ns = length;
    if (s == HTC_OK)
        s = htc_dag_bound(dag, &m, finish, &bound);
    f->path_s = seconds(path);
    for (uint64_t i = 0; s == HTC_OK && i < f->ran; i++)
        sum += seconds(finish[f->order[i]]);
    *mean_end_s = f->ran ? sum / (double)f->ran : 0;
    htc_dag_destroy(dag);
    free(length);
    free(finish);
    return s;
}

/* ---- the whole ---- */

static void count(const flow_graph *g, flow_figures *f)
{
    for (uint32_t i = 0; i < g->n; i++) {
        const flow_task *t = &g->tasks[i];
        f->count[t->state < FLOW_TASK_STATES ? t->state : FLOW_TASK_PLAIN]++;
        f->repeated += t->failures - (t->state == FLOW_TASK_FAILED && t->failures > 0); /* the last failure was the end */
        if (!flow_task_ran(t))
            continue;
        f->first = f->ran == 0 || t->began < f->first ? t->began : f->first;
        f->last = t->ended > f->last ? t->ended : f->last;
        f->run_s += seconds(t->ended - t->began);
        f->ran++;
    }
}

static void work_out(const flow_graph *g, flow_figures *f, double mean_end_s)
{
    double ran = (double)f->ran, turnaround = 0, off = 0;
    f->makespan_s = seconds(f->last - f->first);
    f->area_s = f->run_s / f->slots;
    f->bound_s = fmax(f->path_s, f->area_s);
    f->efficiency = f->makespan_s > 0 ? f->bound_s / f->makespan_s : 1;
    f->utilisation = f->makespan_s > 0 ? f->area_s / f->makespan_s : 1;
    for (uint64_t i = 0; i < f->ran; i++)
        turnaround += seconds(g->tasks[f->order[i]].ended - f->first);
    f->turnaround_s = turnaround / ran;
    /* Of k tasks a slot, each of the mean length l, the mean ends at (k + 1) l / 2; what waits for parents cannot end before they have. */
    f->ideal_turnaround_s = fmax(mean_end_s, (fmax(ran / f->slots, 1) + 1) * f->run_s / ran / 2);
    f->delay_ratio = f->ideal_turnaround_s > 0 ? (f->turnaround_s - f->ideal_turnaround_s) / f->ideal_turnaround_s : 0;
    double mean = ran / f->n_workers;
    for (uint32_t i = 0; i < f->n_workers; i++)
        off += (f->workers[i].tasks - mean) * (f->workers[i].tasks - mean);
    f->tasks_cv = sqrt(off / f->n_workers) / mean;
}

htc_status flow_figures_of(flow_graph *g, flow_figures *f)
{
    double mean_end_s = 0;
    *f = (flow_figures){ 0 };
    count(g, f);
    htc_status s = put_in_order(g, f);
    if (s == HTC_OK)
        s = find_workers(g, f);
    if (s == HTC_OK)
        s = find_slots(g, f);
    if (s == HTC_OK)
        s = measure_graph(g, f, &mean_end_s);
    if (s == HTC_OK && f->ran)
        work_out(g, f, mean_end_s);
    if (s != HTC_OK)
        flow_figures_free(f);
    return s;
}

void flow_busy(const flow_graph *g, const flow_figures *f, uint32_t at, size_t n, double *busy)
{
    double width = f->makespan_s / (double)n;
    memset(busy, 0, n * sizeof *busy);
    for (uint64_t i = 0; width > 0 && i < f->ran; i++) {
        const flow_task *t = &g->tasks[f->order[i]];
        double           from = seconds(t->began - f->first) / width, to = fmin(seconds(t->ended - f->first) / width, (double)n);
        for (size_t b = (size_t)from; (at == FLOW_NOBODY || t->at == at) && b < n && (double)b < to; b++)
            busy[b] += fmax(0, fmin((double)b + 1, to) - fmax((double)b, from));
    }
}

htc_status flow_depths(const flow_graph *g, uint32_t *depth, uint32_t *largest)
{
    uint32_t *queue = malloc(((size_t)g->n + 1) * sizeof *queue), *waits = calloc((size_t)g->n + 1, sizeof *waits), head = 0, tail = 0;
    htc_status s = queue && waits ? HTC_OK : HTC_ENOMEM;
    *largest = 0;
    for (uint32_t i = 0; s == HTC_OK && i < g->n; i++) {
        depth[i] = 0;
        for (size_t e = 0; e < g->tasks[i].n_edges; e++)
            waits[g->edges[g->tasks[i].edges + e].child]++;
    }
    for (uint32_t i = 0; s == HTC_OK && i < g->n; i++)
        if (waits[i] == 0)
            queue[tail++] = i;
    for (; s == HTC_OK && head < tail; head++) {
        const flow_task *t = &g->tasks[queue[head]];
        *largest = depth[queue[head]] > *largest ? depth[queue[head]] : *largest;
        for (size_t e = 0; e < t->n_edges; e++) {
            uint32_t child = g->edges[t->edges + e].child;
            depth[child] = depth[queue[head]] + 1 > depth[child] ? depth[queue[head]] + 1 : depth[child];
            if (--waits[child] == 0)
                queue[tail++] = child;
        }
    }
    free(queue);
    free(waits);
    return s != HTC_OK ? s : head < g->n ? HTC_ECYCLE : HTC_OK;
}
