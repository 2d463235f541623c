/* Gangs: tasks of the same number of cores on each of several nodes, all held at once. Which sites their members are to come from, which agents
 * they are, and when a gang that is being collected is given up. The members of one gang are of one group: the nodes of one batch system, or
 * this machine and the hosts that have joined it. A plan is made for all members together, so two gangs never wait for each other's
 * halves; one that is not together in time gives back what it has, and comes again after a pause that doubles. Memory alone: no clock,
 * no allocation. */
#ifndef HTC_ROLES_GATEWAY_GANG_H
#define HTC_ROLES_GATEWAY_GANG_H

#include <stddef.h>

#include "htcsched/machine.h"

typedef struct gang_site {
    uint32_t group;
    uint32_t most;  /* members that it could have one day; 0: none */
    uint32_t now;   /* that it could have now, at most most */
    uint8_t  taken; /* its slots are kept for another task */
} gang_site;

/* How many members the largest group could have, taken or not. */
uint32_t htc__gang_most(const gang_site *sites, size_t n);
/* So many members of one group, from sites that are not taken: those that have most of them now first. at_once: no more from each than now.
 * 1: parts has, of each of the n sites, how many; 0: there is no such plan, and parts is 0. */
int htc__gang_plan(const gang_site *sites, size_t n, uint32_t members, int at_once, uint32_t *parts);

typedef struct gang_agent {
    uint32_t site, room; /* room: slots of it that nothing is in */
} gang_agent;

/* parts[s] agents of each site s of n_sites that have room for part slots, agents[lead] first if it is one of them. The number of members, in
 * members as places in agents; 0: not all are there yet. members: room for the sum of parts. */
uint32_t htc__gang_choose(const gang_agent *agents, size_t n, uint32_t lead, uint32_t part, const uint32_t *parts, size_t n_sites, uint32_t *members);

typedef struct gang_watch {
    htc_ns   since;      /* it is being collected; 0: it is not */
    htc_ns   not_before; /* it rests until then; 0: it does not */
    uint32_t given_up;   /* in a row */
} gang_watch;

#define GANG_DOUBLINGS 5 /* of the pause, which is collect_ns at first */

void htc__gang_begin(gang_watch *w, htc_ns now);
int  htc__gang_is_late(const gang_watch *w, htc_ns now, htc_ns collect_ns);
void htc__gang_give_up(gang_watch *w, htc_ns now, htc_ns collect_ns);
void htc__gang_done(gang_watch *w); /* it is together, or asks for nothing any more */
int  htc__gang_rests(const gang_watch *w, htc_ns now);

#endif
