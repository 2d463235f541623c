/* The same experiment with several grids, but run: tasks are processes of this machine, and time is its clock. */
#ifndef HTC_SIM_STUDY_GRIDS_LIVE_H
#define HTC_SIM_STUDY_GRIDS_LIVE_H

#include <sys/types.h>

#include "grids.h"

/* ---- the grids: pools of processes (grids_pool.c) ----
 *
 * A job is a sum over all values of POOL_VARIABLES variables of two values of a product of functions of three of them each. It is computed in POOL_PARTS parts,
 * each of which fixes some of the variables. A task has some of these parts: its process waits for the grid's latency, computes them, and sleeps until as
 * much time is over as they take one CPU of the grid. So more CPUs run here than the machine has. */
#define POOL_VARIABLES 16u
#define POOL_PARTS     1024u

typedef struct pool_task {
    pid_t    pid;
    int      fd; /* the result comes there */
    uint32_t job, number, grid, piece;
    htc_ns   begin, length, evicted; /* ns of the run: when it begins to run, for how long; when it is evicted, HTC_NEVER: it is not */
} pool_task;

/* The sum of these parts of a job's product. */
uint64_t pool_sum(uint64_t job, const uint16_t *parts, size_t n);
/* A process for it, that ends at t->begin + t->length of the clock that began at `zero`. 1; 0: there can be none, errno says why. */
int pool_start(pool_task *t, uint64_t job, const uint16_t *parts, size_t n, htc_ns zero);
/* Its result, once fd can be read. 1; 0: the process has failed. It is gone in either case. */
int  pool_result(pool_task *t, uint64_t *sum);
void pool_stop(pool_task *t); /* killed, and its place is free */

/* ---- jobs ---- */

/* As htc_sim_grids_run, of g->options, in real time. 1; 0: error says why. */
int grids_live_run(grids_run *g, htc_error *error);

#endif
