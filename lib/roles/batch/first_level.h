/* What a first-level scheduler is made of, as the emulator (emu.h) and the simulator's models have it: a server that starts one job after the other, a chance
 * that a job is held instead, and a metric by which a job of several clusters goes to one of them. Pure, without memory of its own.
 *
 * All times are in one unit, the caller's.   Threads: owner.   Allocation: none. */
#ifndef HTC_ROLES_FIRST_LEVEL_H
#define HTC_ROLES_FIRST_LEVEL_H

#include <stddef.h>
#include <stdint.h>

#define HTC__FIRST_LEVEL_SLOTS 16 /* of the last second */

typedef struct htc__first_level {
    double   hold, hold_rate; /* the probability that a job is held instead of started, and what each job that started or ended in the last second adds */
    uint64_t service, second; /* what the server takes for one job; a second, at least 1 */
    uint64_t ready;           /* when the server has started the last job that it was given */
    uint64_t slot;            /* the part of the last second that was written last */
    uint64_t jobs, verdicts;  /* jobs that it was given; verdicts on them */
    uint32_t recent[HTC__FIRST_LEVEL_SLOTS]; /* jobs that have started or ended */
} htc__first_level;

/* It is given a job: when it starts it, after those that it was given before. */
uint64_t htc__first_level_serve(htc__first_level *f, uint64_t now);
/* A job has ended, or one of somebody else has started. */
void htc__first_level_noted(htc__first_level *f, uint64_t now);
/* The job that would start now is held (1), or starts and is noted (0). draw: 64 random bits. Where it cannot be held draw counts for nothing. */
int htc__first_level_holds(htc__first_level *f, uint64_t now, uint64_t draw);
/* A job may be held at all: a verdict needs a draw. */
static inline int htc__first_level_may_hold(const htc__first_level *f)
{
    return f->hold > 0 || f->hold_rate > 0;
}

typedef enum htc__cluster_metric { HTC__METRIC_FREE_CORES, HTC__METRIC_QUEUE } htc__cluster_metric;

typedef struct htc__cluster_now {
    uint64_t free, queued; /* cores that run nothing; jobs that wait */
} htc__cluster_now;

/* The cluster that takes a job with all its steps: the one with most free cores, or with the shortest queue, and of equal ones with most free cores; the first
 * of these. n: at least 1. */
size_t htc__cluster_pick(const htc__cluster_now *clusters, size_t n, htc__cluster_metric metric);

#endif
