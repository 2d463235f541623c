/* Is a job's work worth handing out at once? A bag that fails everywhere would go through its tasks, and the slots, as fast as
 * they can be started. From the fifth fast failure in a row on, it gets one round of tasks after each pause, and pauses double.
 * Anything but a fast failure ends that. One state for each job and site; no clock: the moment is an argument.
 *
 *   well --fifth fast failure in a row--> pausing --time--> trying --round handed out--> pausing (twice as long)
 *   any --a task that does not fail fast--> well */
#ifndef HTC_ROLES_GATEWAY_HEALTH_H
#define HTC_ROLES_GATEWAY_HEALTH_H

#include "htcsched/env.h"
#include "htcsched/machine.h"

#define HEALTH_FAST (2 * HTC_SECOND) /* a failure within this time is a fast one */
#define HEALTH_LIMIT 5u              /* fast failures in a row */
#define HEALTH_PAUSE_FIRST (100 * HTC_MS)
#define HEALTH_PAUSE_MAX (5 * HTC_SECOND)

typedef enum health_verdict { HEALTH_NO_SIGN = 0, HEALTH_WORKS, HEALTH_FAILS_FAST } health_verdict;

/* All zero: well. */
typedef struct health {
    uint32_t in_a_row; /* fast failures since the last task that was none */
    uint32_t left;     /* tasks that may be handed out before the next pause */
    htc_ns   pause;    /* the length of the last one; 0: well */
    htc_ns   until;    /* its end */
} health;

/* The status by which a task's end is judged: an input that is not there is known without running anything, and is not tried again. */
htc_status htc__health_status(htc_status status, int final);
/* What the end of a task says; it ran for this long. */
health_verdict htc__health_of(htc_status status, htc_ns ran);
/* Each answers 1 if tasks may be handed out where they could not before, or the other way round. */
int htc__health_ended(health *h, health_verdict verdict, htc_ns now);
int htc__health_handed(health *h, htc_ns now);                 /* one task more is with an agent */
int htc__health_rested(health *h, htc_ns now, uint32_t round); /* time has passed: a round of so many tasks, at least 1, may begin */
/* How many tasks may be handed out now; UINT32_MAX: any number. */
uint32_t htc__health_allows(const health *h);

#endif
