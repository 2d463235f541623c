/* Fair sharing of one cluster: what a run has in memory (htcsched/sim_fairshare.h). All of it is arrays without pointers into each other. */
#ifndef HTC_SIM_MODELS_FAIRSHARE_H
#define HTC_SIM_MODELS_FAIRSHARE_H

#include "htcsched/sim_fairshare.h"
#include "sim/scale/draw.h"

#define FAIR_NONE UINT32_MAX /* no job */

/* A core's word: the next free core; or one of these and a user; or the job whose task it runs, a number below both. Of a free core there are no
 * events, so that nobody asks which it is. */
#define FAIR_STARTING (UINT32_C(1) << 31)
#define FAIR_LEAVING  (UINT32_C(1) << 30)

typedef struct fair_user {
    uint32_t first, last; /* jobs with tasks that wait, in the order of arrival; FAIR_NONE: there are none */
    uint32_t at;          /* place among the views; FAIR_NONE: the user has neither tasks nor agents */
    uint32_t fixed;
    uint64_t weight, last_served;
    uint64_t starting;    /* agents, marked ones included */
    uint64_t cores;       /* of agents, until they are free */
    uint64_t tasks, ended, agents_started;
    uint64_t submitted, last_end; /* ticks */
    uint64_t response;            /* ticks of all tasks */
    uint64_t held_since;          /* sum of the ticks at which cores were taken, less those at which they became free: modulo 2^64 */
    uint64_t work;                /* ticks */
} fair_user;

typedef struct fair_job {
    uint32_t          user, next; /* next: of the same user */
    uint64_t          tasks, begun;
    uint64_t          arrival, stream; /* stream: the state of its draws */
    htc__scale_drawer length;
} fair_job;

typedef struct fair {
    htc_env                   env;
    htc_sim_fairshare_options options;
    htc_allot_options         allot;
    htc_scale                *scale;
    uint64_t                  launch, pull, leave, gap, sample; /* ticks */
    uint64_t                 *held;                             /* for samples */
    size_t                   *arrivals;                         /* jobs by arrival */
    htc_allot_change         *change;
    /* What follows, and the engine, is what a checkpoint has. */
    uint32_t       *core;
    fair_user      *user;
    htc_allot_user *view; /* what the policy is told of each that has tasks or agents: these are counted here. id: the user */
    fair_job       *job;
    struct fair_state {
        uint32_t free_core, will_divide; /* free_core: the first of those that are free */
        uint64_t free, views, arrived;
        uint64_t tasks, queued, running, left; /* tasks: of all jobs; left: of these, that have not ended */
        uint64_t wanting;                      /* tasks that no agent is on its way to */
        uint64_t served, entered;              /* entered: users that were given a view, one after the other */
        uint64_t divided_at, divisions;
        uint64_t then, idle; /* then: of the event before; idle: core ticks */
        uint64_t samples;
        double   fairness;
    } now;
} fair;

/* The ids behind those of the cores. Of one tick, tasks end first, then jobs arrive, then cores are divided. */
enum { FAIR_ARRIVAL, FAIR_DIVIDE, FAIR_SAMPLE, FAIR_IDS };

void htc__fair_event(htc_scale *scale, void *ctx, uint32_t id);
void htc__fair_begin(fair *m); /* the first events */

#endif
