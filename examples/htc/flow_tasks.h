/* All tasks of a flow at once, with the edges between them; and what they come to: figures of a run. Nothing here asks anybody: flow_gather.c
 * fills it in, flow_report.c and flow_render.c draw it. */
#ifndef HTC_EXAMPLES_FLOW_TASKS_H
#define HTC_EXAMPLES_FLOW_TASKS_H

#include <stddef.h>
#include <stdint.h>

#include "htcsched/env.h"

typedef enum flow_task_state { FLOW_TASK_PLAIN, FLOW_TASK_WAITING, FLOW_TASK_READY, FLOW_TASK_DONE, FLOW_TASK_FAILED, FLOW_TASK_CANCELLED, FLOW_TASK_STATES } flow_task_state;

#define FLOW_NOBODY UINT32_MAX

/* One thing that a task waits for. */
typedef struct flow_wait {
    uint32_t parent; /* its number; FLOW_NOBODY: nobody has it as a child */
    uint8_t  rule;   /* htc_flow_rule */
    uint8_t  ended;  /* as htc_flows_parent */
} flow_wait;

typedef struct flow_edge {
    uint32_t child, place; /* which of the child's waits this is */
} flow_edge;

typedef struct flow_task {
    char    *name, *reason, *kind; /* kind: ""; not known */
    uint64_t data, moved; /* bytes that it reads of what others make; of these, that came from other workers */
    uint8_t  intake; /* it stands where tasks are added from outside */
    uint8_t  state; /* flow_task_state; PLAIN: of a flow that was never submitted */
    uint32_t failures, attempt;
    uint64_t worker, count; /* whose it was; so many equal tasks */
    uint64_t stored; /* the number by which its outputs are stored */
    htc_ns   began, ended;  /* 0: it never ran */
    size_t   waits, edges;  /* where they begin in those of the flow */
    uint32_t n_waits, n_edges;
    uint32_t at, lane;      /* of figures: which worker it was, and which of all slots */
} flow_task;

typedef struct flow_graph {
    uint32_t   n, cap;
    flow_task *tasks;
    size_t     n_waits, waits_cap, n_edges, edges_cap;
    flow_wait *waits;
    flow_edge *edges;
} flow_graph;

void flow_graph_cut(flow_graph *g, uint32_t n); /* the first n tasks stay, n <= g->n */

/* A worker, by what it ran. */
typedef struct flow_worker_figures {
    uint64_t worker;
    uint32_t tasks, slots, first_slot; /* slots: as many as it had busy at once; they are numbered through */
    double   run_s;
} flow_worker_figures;

typedef struct flow_figures {
    uint64_t count[FLOW_TASK_STATES];
    uint64_t ran, repeated;           /* tasks with a beginning and an end; attempts that failed and were repeated */
    htc_ns   first, last;             /* beginning, end */
    double   makespan_s, run_s;       /* run_s: of all tasks together */
    uint32_t slots;                   /* of all workers */
    double   path_s, area_s, bound_s; /* critical path of the run times as they were; run_s / slots; the larger of both */
    double   efficiency, utilisation; /* bound_s and area_s over the makespan */
    double   turnaround_s, ideal_turnaround_s, delay_ratio;
    double   tasks_cv;                /* coefficient of variation of tasks by worker */
    uint32_t n_workers, n_path;
    flow_worker_figures *workers;     /* by number */
    uint32_t *path, *order;           /* order: those that ran, by their beginning */
} flow_figures;

/* flow_inserted.c. The edges of every task anew, from what each waits for. HTC_ENOMEM. */
htc_status flow_edges_of(flow_graph *g);
/* The tasks from own on were inserted: they go, and what they stood between is tied together. HTC_ECORRUPT: they wait for each other;
 * HTC_ENOMEM. Nothing but flow_graph_free may be done to the graph then. */
htc_status flow_leave_out(flow_graph *g, uint32_t own);

/* HTC_ECYCLE, HTC_ETOOBIG, HTC_ENOMEM. Fills at and lane in. Then flow_figures_free. */
htc_status flow_figures_of(flow_graph *g, flow_figures *f);
void       flow_figures_free(flow_figures *f);
int        flow_task_ran(const flow_task *t);
/* Mean number of slots that were busy in each of n equal parts of the makespan. at: of this worker; FLOW_NOBODY: of all. */
void       flow_busy(const flow_graph *g, const flow_figures *f, uint32_t at, size_t n, double *busy);
/* How many edges lie between a task and the furthest task without parents. depth: an element a task. HTC_ECYCLE, HTC_ENOMEM. */
htc_status flow_depths(const flow_graph *g, uint32_t *depth, uint32_t *largest);

#endif
