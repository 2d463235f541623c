/* Does a running task go on? Who looks at it gives a number that changes with all that it does (CPU time, processes, what it has written); a task of
 * which the number stays the same for too long is idle. Pure: time comes in, nothing is kept but two numbers. */
#ifndef HTC_ROLES_PROGRESS_H
#define HTC_ROLES_PROGRESS_H

#include "htcsched/env.h"

/* Begins as zeros. */
typedef struct task_progress {
    uint64_t seen;  /* the number at the last look that found it changed */
    htc_ns   since; /* when that was; 0: there was no look yet */
} task_progress;

/* A look at now, which does not go back. 1: the number has been the same for limit or longer; then it counts anew. 0: it has not, or limit is 0
 * (nobody is idle). O(1). */
int htc__progress_is_idle(task_progress *p, htc_ns limit, htc_ns now, uint64_t number);

/* The number of before, and one more thing that was seen. O(1). */
uint64_t htc__progress_mix(uint64_t number, uint64_t seen);

#endif
