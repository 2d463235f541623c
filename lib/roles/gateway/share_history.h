/* Cores by user since the gateway began, in a bounded room: when all points are taken, two of them become one and the step between points
 * doubles, so that the whole time is kept, the coarser the longer it is. Pure. Not thread safe; O(1) room.
 *
 *   0 s                        512 s                                             1,024 s
 *   |1 s|1 s|1 s| ... 512 points | -> 256 points of 2 s, and 256 more are free -> | -> 256 points of 4 s ... */
#ifndef HTC_ROLES_GATEWAY_SHARE_HISTORY_H
#define HTC_ROLES_GATEWAY_SHARE_HISTORY_H

#include <stddef.h>
#include <stdint.h>

#include "htcsched/bytes.h"

#define HISTORY_POINTS 512u /* even */
#define HISTORY_USERS 15u   /* with a line of their own: whoever had most; the others are summed up */
#define HISTORY_STEP HTC_SECOND
#define HISTORY_NAME_MAX 64

typedef struct history_line {
    char  name[HISTORY_NAME_MAX]; /* "": free */
    float cores[HISTORY_POINTS];  /* the mean over the time of a point */
    double sum;                   /* of them */
    double now;                   /* since the last change, cores */
} history_line;

typedef struct share_history {
    htc_ns       began, step;
    uint32_t     points; /* that are complete */
    history_line lines[HISTORY_USERS + 1]; /* the last: all others */
} share_history;

void htc__history_begin(share_history *h, htc_ns now);
/* 1: the time of the next point has passed, and what holds since the last change is to be said, user by user, between two calls of pass. */
int htc__history_due(const share_history *h, htc_ns now);
/* Of a user who has cores now; beyond HISTORY_USERS takes the line of the one that had least and has none now, who is summed up with the others. Cost: O(HISTORY_USERS + points). */
void htc__history_user(share_history *h, const char *name, uint32_t cores);
/* All points up to now have what was said; nobody who was not named has any. Cost: O(points that have passed, at most some thousand). */
void htc__history_pass(share_history *h, htc_ns now);

#endif
