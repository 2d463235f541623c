/* A flow that goes on: the tasks of one that has ended which are not done become a new flow. Pure.
 *
 * What is done is not run again, unless a task that is run reads what it has made: whoever kept that need not any more. It waits then for what is
 * made again alone. A task that a parent forbids which is done, since it was to run only if that failed, will never run, nor
 * will what needs it: that is settled too. All others are run, under their names and in their order; a parent that is settled stands in
 * their records as having ended. A task that was inserted between others is settled only if all that it stands for is: if a parent runs
 * again, it has to pass on how that ends.
 *
 *     htc__resumption_add       the records of all tasks, in the order of their numbers
 *     htc__resumption_settle    which of them are run again, and under which number
 *     htc__resumption_header, _ledger, _task    what is written */
#ifndef HTC_ROLES_RESUMPTION_H
#define HTC_ROLES_RESUMPTION_H

#include "roles/worker/flow.h"
#include "roles/worker/graph_task.h"

#define RESUMPTION_TASKS_MAX (UINT32_C(1) << 28)
#define RESUMPTION_NONE      UINT32_MAX /* the new number of a task that is settled */

typedef struct resumption_edge {
    uint32_t child, parent; /* its number; which of its parents */
} resumption_edge;

typedef struct resumption_task {
    uint8_t  done;
    uint8_t  again;    /* done, and run all the same: some other reads what it makes */
    uint8_t  passes;   /* inserted and done, and a parent is such a one: it has to pass on how that ends */
    uint32_t number;   /* in the new flow */
    uint32_t waits;    /* for so many of which it is not known yet whether they run */
    size_t   parents;  /* where its bytes begin */
    size_t   edges;    /* where its children begin */
} resumption_task;

typedef struct resumption_read {
    uint32_t task, maker;
} resumption_read;

typedef struct resumption {
    const htc_env   *env;
    uint32_t         n, n_cap; /* tasks of the old flow */
    resumption_task *tasks;
    size_t           n_parents, parents_cap, n_edges, edges_cap;
    uint8_t         *parents; /* rules and bits, as in the record of the new flow */
    resumption_edge *edges;
    size_t           n_reads, reads_cap;
    resumption_read *reads;
    flow             old;             /* its numbers of tasks: submitted, inserted, added */
    uint32_t         again, inserted, added; /* tasks of the new flow, and of these: in this order behind those that were submitted */
    uint64_t         home, n_ledgers;
} resumption;

void       htc__resumption_init(resumption *r, const htc_env *env);
void       htc__resumption_free(resumption *r);
/* HTC_ECORRUPT: number is not the next one; HTC_ETOOBIG; HTC_ENOMEM: nothing has changed. */
htc_status htc__resumption_add(resumption *r, uint64_t number, const graph_task *t);
/* old: the header, for how many tasks there are of each sort; workers: that are expected. HTC_ECORRUPT: some are not there, or their edges are not those of a graph;
 * HTC_EEXISTS: nothing is left to be run; HTC_ENOMEM. */
htc_status htc__resumption_settle(resumption *r, const flow *old, uint32_t workers);
/* Of the new flow, not started yet. old: the header of the flow from; tries, max_fails: 0 as there. */
void       htc__resumption_header(const resumption *r, const flow *old, uint64_t from, uint32_t tries, uint64_t max_fails, htc_buf *b);
void       htc__resumption_ledger(const resumption *r, uint64_t i, htc_buf *b);
/* The record of the task that had this number. HTC_ENOTFOUND: it is settled; HTC_ECORRUPT: old is not what was added. */
htc_status htc__resumption_task(const resumption *r, uint64_t number, const graph_task *old, htc_buf *b);

#endif
