/* Tasks that take several slots: of one agent (wide.c), or of an agent on each of several nodes, a gang (gangs.c, gang.h). */
#ifndef HTC_ROLES_GATEWAY_WIDE_H
#define HTC_ROLES_GATEWAY_WIDE_H

#include "htcsched/gateway.h"
#include "roles/gateway/gang.h"
#include "roles/gateway/counted.h"
#include "roles/gateway/reservation.h"
#include "roles/runtime/gang_wire.h"

typedef struct user  user;
typedef struct job   job;
typedef struct chunk chunk;
typedef struct agent agent;

/* What a task takes of slots: on each of several nodes, or all on one. */
typedef struct task_width {
    uint32_t slots;   /* in all, at least 1 */
    uint32_t part;    /* on one node */
    uint32_t members; /* nodes */
} task_width;
task_width htc__gw_task_width(const htc_task *t);

/* A gang at work: agents[0] leads, the others hold their slots. */
typedef struct gang {
    htc_attempt  attempt;
    uint32_t     n;
    uint64_t     agents[HTC_TASK_NODES_MAX];
    uint64_t     devices[HTC_TASK_NODES_MAX]; /* of each, that it has (counted.h) */
    struct gang *prev, *next;
} gang;

/* wide.c */
int      htc__gw_wide_fits(const htc_gateway *gw, size_t at, const job *j); /* the site, and its user's share */
int      htc__gw_wide_takes(htc_gateway *gw, agent *a, const job *j, uint32_t slots); /* may it have the next task of j now? */
void     htc__gw_wide_handed(htc_gateway *gw, job *j, uint32_t slots);
job     *htc__gw_wide_at(htc_gateway *gw, size_t at);             /* whose next task slots of that site are kept for; NULL: nobody's */
int      htc__gw_wide_collects(htc_gateway *gw, const agent *a);  /* such slots are kept at this agent */
void     htc__gw_wide_nudge(htc_gateway *gw, const agent *a);     /* a slot of it has fallen free */
void     htc__gw_wide_keep(htc_gateway *gw);                      /* at sites that keep none */
int      htc__gw_wide_reaches(htc_gateway *gw, const job *j, size_t at); /* its next task could have its slots now, at that site among others */
void     htc__gw_wide_lend(htc_gateway *gw, user *u, size_t at);  /* beyond the share, for the first task that is wider */
uint64_t htc__gw_wide_queued(htc_gateway *gw, const user *u);     /* slots that all queued tasks would fill */
job     *htc__gw_wide_short(htc_gateway *gw, const user *u);      /* the first whose next task does not fit its share; NULL: there is none */
uint32_t htc__gw_wide_room(const agent *a);                       /* slots of it that nothing is in */
int      htc__gw_wide_may_collect(const agent *a);

uint32_t htc__gw_wide_unbegun(htc_gateway *gw, const agent *a);  /* slots that it needs for tasks of several which it has been given, and that have not begun */
void     htc__gw_wide_drop(htc_gateway *gw, uint64_t id);             /* no site keeps slots for that job any more */
uint32_t htc__gw_wide_reach(const htc_gateway *gw, const user *u, size_t at); /* slots of that site that the user has, or that are free */

/* reserved.c: of the task that has waited for long (reservation.h) */
void htc__gw_reserve(htc_gateway *gw);                           /* look who has the reservation, and of which sites it is */
void htc__gw_reserved_fill(htc_gateway *gw);                     /* its user's agents get the slots that are free there */
int  htc__gw_reserved_at(htc_gateway *gw, size_t at);            /* it is of that site */
int  htc__gw_reserved_bars(htc_gateway *gw, size_t at, const job *j); /* nothing of this job begins at that site */
int  htc__gw_reserved_user(htc_gateway *gw, const user *u);  /* it is of a task of this user */
void htc__gw_reserved_handed(htc_gateway *gw, job *j);

/* gangs.c */
uint32_t htc__gw_gang_unit(const htc_gateway *gw, size_t at, uint32_t part);  /* slots of that site which one member takes; 0: it can have none */
/* Members that a gang may have at all, of which each takes need; NULL: nothing that is counted. */
uint32_t htc__gw_gang_most(const htc_gateway *gw, uint32_t part, const counted_need *need);
int      htc__gw_gang_plan(htc_gateway *gw, const job *j, int at_once, uint32_t *parts); /* of each site so many members */
int      htc__gw_gang_plan_all(htc_gateway *gw, const job *j, uint32_t *parts); /* likewise, whatever sites keep for others, of those in service */
void     htc__gw_gang_keep(htc_gateway *gw, job *j, const uint32_t *parts);   /* those sites keep slots for it from now on */
void     htc__gw_gang_late(htc_gateway *gw);                                  /* those that are not together in time are given up */
int      htc__gw_gang_begin(htc_gateway *gw, agent *a); /* its pull completes a gang, which begins: its grant is on its way */
void     htc__gw_gang_over(htc_gateway *gw, const job *j, uint64_t index);    /* its task is leased no more: all members end */
uint64_t htc__gw_gang_leader(const htc_gateway *gw, const htc_attempt *at);   /* 0: there is none */
/* From one of its members to another: gang_wire.h. From whoever may not say it, or of a gang that is over: nothing. */
void     htc__gw_gang_word(htc_gateway *gw, const agent *from, const htc_gang_word *m);
/* As a gateway before has begun it. 0: not all of it is there any more. */
int      htc__gw_gang_again(htc_gateway *gw, const job *j, agent *leader, const htc_attempt *at, const task_width *w, const counted_need *need, uint64_t bytes);
void     htc__gw_gangs_free(htc_gateway *gw);

#endif
