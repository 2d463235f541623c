/* How a graph is kept, for the files that build it, run it and measure it.
 *
 * Children stand one after the other, parent by parent, in `children`. Edges that came since are in a log, in the order
 * they came, and chained for each parent, so that nothing has to wait for them to be put in order. */
#ifndef HTC_SCHED_DAG_PRIVATE_H
#define HTC_SCHED_DAG_PRIVATE_H

#include "htcsched/dag.h"

/* Nobody, in chains of tasks. */
#define HTC__DAG_NIL UINT32_MAX
/* Edges in a piece of the log. */
#define HTC__DAG_PIECE 1024u

typedef struct htc__dag_edge {
    uint32_t parent, child;
    uint32_t older; /* place + 1 of the edge of this parent that was logged before; 0: none */
} htc__dag_edge;

typedef struct htc__dag_out {
    uint32_t begin, n;     /* children in order */
    uint32_t newest, more; /* children in the log: place + 1 of the newest, how many */
} htc__dag_out;

/* Neighbours in the list of ready tasks. A task that is not ready may be in one other list, for the length of a call.
 */
typedef struct htc__dag_link {
    uint32_t before, after;
} htc__dag_link;

struct htc_dag {
    const htc_env  *env;
    uint32_t        tasks_max, edges_max;
    uint32_t        size, cap; /* tasks */
    htc__dag_out   *out;       /* where the one piece of memory for all of these begins */
    htc__dag_link  *link;
    uint32_t       *waits; /* unfinished parents * HTC__DAG_PARENT + state */
    uint32_t       *mark;  /* anybody's, for the length of a call */
    uint32_t        count[HTC_DAG_CANCELLED + 1];
    uint32_t        first, last; /* ready */
    uint32_t       *children;
    uint32_t        n, room; /* children, and what there is memory for */
    htc__dag_edge **pieces;  /* of the log */
    uint32_t        logged, pieces_cap;
    uint32_t        asking; /* 1: the caller's function is being called; nothing changes meanwhile */
};

/* May it change? Not from inside a function that it calls. */
static inline int htc__dag_may_change(const htc_dag *d)
{
    return d && !d->asking;
}

/* In waits, the state in the low bits: a task becomes ready when this leaves nothing but HTC_DAG_WAITING. */
#define HTC__DAG_PARENT 8u

static inline uint32_t htc__dag_state(const htc_dag *d, uint32_t task)
{
    return task < d->size ? d->waits[task] % HTC__DAG_PARENT : HTC_DAG_NONE;
}

static inline htc__dag_edge *htc__dag_edge_at(const htc_dag *d, uint32_t place)
{
    return &d->pieces[place / HTC__DAG_PIECE][place % HTC__DAG_PIECE];
}

void htc__dag_set_state(htc_dag *d, uint32_t task, uint32_t state);
/* Into the list of ready tasks: at the end, or at the front. */
void htc__dag_make_ready(htc_dag *d, uint32_t task, int at_front);
/* Out of the list, if it is ready; its state is still to be set. */
void htc__dag_unready(htc_dag *d, uint32_t task);

/* Room for tasks below size. HTC_OK, HTC_ENOMEM: as it was. */
htc_status htc__dag_reserve_tasks(htc_dag *d, uint32_t size);
/* Room for one more edge in the log. The same. */
htc_status htc__dag_reserve_edge(htc_dag *d);

/* Every edge in order and once. HTC_OK, HTC_ENOMEM or, while a function of the caller's runs, HTC_EINVAL: then nothing has
 * changed. */
htc_status htc__dag_settle(htc_dag *d);
/* Settled: the tasks that are not cancelled, parents before children, into order (room for d->size). Answers how many
 * were placed; HTC_ECYCLE if that is not all, then mark is above 0 for those that were not; HTC_ENOTFOUND if some are
 * not added. */
htc_status htc__dag_order(htc_dag *d, uint32_t *order, uint32_t *placed);

#endif
