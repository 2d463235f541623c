/* The reservation for a task of several slots that has waited for long. Shares and the order of a user's tasks alone would let it wait for ever: tasks of
 * one slot of other users fill every slot that falls free, and a gang that is not together in time gives its slots back (gang.h).
 *
 * One task at a time has it, of the whole system. It is of a site, or for a gang of members at sites. Until the task has begun, nothing else
 * begins at these sites, whoever is due the slots, and what falls free there is the task's, also beyond its user's share.
 *
 * The bound. W is wait_ns. No task of a site runs for longer than T, and S is the longest time from a slot that falls free to an agent that fills it: a
 * launch, and fair.tick_s. N users have tasks of several slots. A user's first task of several slots has waited for W when it may have the
 * reservation. Before it go those that wait for longer: one of each other user at most, since a user's next one counts from when the one
 * before has begun. Each of them has begun T + S after it got the reservation. So the task begins at most
 *
 *     W + N (T + S)
 *
 * after it has become the first of its user, if from then on nothing of its user goes before it (tasks of jobs that are earlier in the user's order do),
 * quotas let it run, and its sites stay in service. Memory alone: no clock, no allocation. */
#ifndef HTC_ROLES_GATEWAY_RESERVATION_H
#define HTC_ROLES_GATEWAY_RESERVATION_H

#include <stddef.h>

#include "htcsched/machine.h"

/* The first task of several slots of a user. */
typedef struct reservation_wait {
    uint64_t job;   /* whose next task it is; not 0 */
    htc_ns   since; /* it is that since then */
    uint8_t  could; /* there is a site that it could run at, and nothing of its user goes before it */
} reservation_wait;

/* Who has the reservation now: the one that has it already (holder: its job; 0: nobody) while it waits and could; else, of those that could and have
 * waited for wait_ns, the one that waits longest, the lowest job among equals. Its place in waits; n: nobody. O(n). */
size_t htc__reservation_next(const reservation_wait *waits, size_t n, uint64_t holder, htc_ns now, htc_ns wait_ns);

typedef struct reservation_site {
    uint32_t most; /* slots that one agent could have there one day; 0: none */
    uint32_t now;  /* that the user has there, or that are free */
} reservation_site;

/* Where a task of slots is to run, in one agent: the site that lacks fewest of them now, of those that could have them; then the one with most now, then
 * the first. n: there is none. O(n). */
size_t htc__reservation_site(const reservation_site *sites, size_t n, uint32_t slots);

#endif
