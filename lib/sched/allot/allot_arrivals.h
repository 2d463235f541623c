/* The users of a book in the order in which they came, with sums of the weights of those who divide.
 *
 * Each user has a place; whoever comes takes the next one. Places left behind by those who went are used again when all
 * move up, which happens once none is left and makes room for at least half as many users as stay. */
#ifndef HTC_SCHED_ALLOT_ARRIVALS_H
#define HTC_SCHED_ALLOT_ARRIVALS_H

#include "sched/allot/allot_private.h"

/* Places in a stretch. A change writes one weight and the sums of a few stretches, which stay in the cache; with sums of
 * single places each would be a miss of its own. */
#define HTC__ARRIVAL_STRETCH 32

typedef struct htc__arrivals {
    uint32_t *users;      /* by place; HTC_ALLOT_NOBODY: the user left. The arrays are the caller's */
    uint64_t *weights;    /* by place: of a user that divides, else 0 */
    uint64_t *sums;       /* by stretch (Fenwick): over it and some of those before it. None can overflow: see
                           * htc__breakpoint_sums */
    uint32_t  used, room; /* in places; used: also those of who went */
} htc__arrivals;

/* Places enough for so many users. */
uint32_t htc__arrivals_places_for(uint32_t users);
uint32_t htc__arrivals_stretches_for(uint32_t places);

/* There may be room for more now; what is behind the old room is zero. */
void htc__arrivals_widen(htc__arrivals *a, uint32_t room);
/* The last place; there must be one left. */
uint32_t htc__arrivals_come(htc__arrivals *a, uint32_t user);
/* He must not be counted. */
void htc__arrivals_go(htc__arrivals *a, uint32_t place);
/* Who has this place is about to be counted: fetch it into the cache. */
void htc__arrivals_expect(const htc__arrivals *a, uint32_t place);
/* Count the user with this weight, or with 0 no longer. */
void htc__arrivals_count(htc__arrivals *a, uint32_t place, uint64_t weight);
/* The weights of all users that came before and are counted. */
uint64_t htc__arrivals_before(const htc__arrivals *a, uint32_t place);

/* After any changes to weights and places by hand: sum them up anew. */
void htc__arrivals_sum_up(htc__arrivals *a);

#endif
