/* Fair sharing of clusters: what a run has in memory (htcsched/sim_fairshare.h). All of it is arrays without pointers into each other. */
#ifndef HTC_SIM_MODELS_FAIRSHARE_H
#define HTC_SIM_MODELS_FAIRSHARE_H

#include "htcsched/sim_fairshare.h"
#include "roles/batch/first_level.h"
#include "sim/scale/draw.h"

#define FAIR_NONE UINT32_MAX /* no job */

/* A core's word: the next free core; or the job whose task it runs; or one of these with a number in the low bits. Of a free core there are no events,
 * so that nobody asks which it is. */
#define FAIR_STATE    (UINT32_C(15) << 28)
#define FAIR_STARTING (UINT32_C(1) << 28) /* a user: an agent is on its way */
#define FAIR_LEAVING  (UINT32_C(2) << 28) /* a user */
#define FAIR_HELD     (UINT32_C(3) << 28) /* a user: the batch system does not start the agent */
#define FAIR_RECORDS  (UINT32_C(4) << 28) /* a user: a task has ended, and that is being recorded */
#define FAIR_DYING    (UINT32_C(5) << 28) /* an attempt: the agent will die in it */
#define FAIR_MISSED   (UINT32_C(6) << 28) /* an attempt: the agent has died, and nobody knows yet */
#define FAIR_OTHERS   (UINT32_C(7) << 28) /* a job of other users */
#define FAIR_WRITES   (UINT32_C(8) << 28) /* a job: the output of its task is being written */

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
    uint64_t held;                /* tasks, for good */
    htc_allot_profile runs;       /* of tasks that have ended */
    htc_allot_usage   usage;      /* with a weigher: of cores, up to the division before; */
    uint64_t          counted;    /* core ticks that are in it */
} fair_user;

typedef struct fair_job {
    uint32_t          user, next; /* next: of the same user */
    uint64_t          tasks, begun;
    uint64_t          arrival, stream; /* stream: the state of its draws */
    htc__scale_drawer length;
    uint32_t          again;   /* the first of its attempts that are to be made again; FAIR_NONE: there are none */
    uint32_t          cluster; /* whose batch system has the tasks, if there are no agents */
    double            mean_s;  /* of the length */
    uint64_t          left;    /* of its tasks, that have not ended; a source's: its place is then free */
} fair_job;

/* A task whose agent dies: until then, and until the task begins again. */
typedef struct fair_attempt {
    uint32_t job, next; /* next: of the job, or of those that are free */
    uint64_t number;    /* of the task */
    uint64_t begun;     /* tick */
} fair_attempt;

typedef struct fair_cluster {
    uint64_t          base, cores, free;
    uint32_t          free_core, batch; /* free_core: the first of those that are free */
    double            speed;
    htc__first_level  system;                        /* its batch system; in ticks */
    uint64_t          division, taken;               /* the job that more agents may join: of this division, and how many it has */
    uint64_t          starts;                        /* and when it starts */
    uint32_t          joined, verdict;               /* of this user; verdict: the last job that has started was held */
    uint64_t          verdict_at;                    /* tick + 1 */
    uint64_t          others_first, others, others_waiting, others_came, others_begun; /* others: that have a core */
    htc__scale_drawer life, others_gap, others_length;
    uint64_t          lives;                         /* that were drawn */
    uint64_t          agents, held, died, ended, work, lost;
} fair_cluster;

typedef struct fair {
    htc_env                   env;
    htc_sim_fairshare_options options;
    htc_allot_options         allot;
    htc_scale                *scale;
    uint64_t                  launch, pull, leave, gap, sample; /* ticks */
    uint64_t                  record, sync, held, lost, weigh, output; /* ticks */
    uint32_t                  weigh_id;                         /* with gamma */
    int                       may_die, have_others;             /* in some cluster */
    uint64_t                 *priority, *weighed;               /* with gamma: one for each view */
    double                   *amount;
    htc_allot_facts          *facts;                            /* with a weigher, the same */
    uint64_t                 *samples;                          /* cores of each user, for a sample */
    size_t                   *arrivals;                         /* jobs by arrival */
    htc_allot_change         *change;
    /* What follows, and the engine, is what a checkpoint has. */
    uint32_t       *core;
    fair_user      *user;
    htc_allot_user *view; /* what the policy is told of each that has tasks or agents: these are counted here. id: the user */
    fair_job       *job;
    fair_cluster   *cluster;
    uint64_t       *begun; /* of each core, with gamma: the tick at which its task began */
    fair_attempt   *attempt;
    size_t          attempts; /* how many there is room for */
    size_t          jobs;     /* the same; those of the options, or as many as a source has had at a time */
    struct fair_source {      /* with next_job, which has no checkpoint */
        htc_sim_fairshare_job next;   /* that has not arrived */
        uint64_t              given;  /* jobs, of it */
        uint32_t              used, free_job; /* used: places that ever were; free_job: the first that is free */
        uint32_t              waits; /* next is there */
    } source;
    struct fair_state {
        uint32_t will_divide, free_attempt; /* free_attempt: the first one */
        uint64_t attempts;                  /* that were ever used */
        uint64_t others;                    /* cores of other users */
        uint64_t recorded;                  /* when the server has written what it was given */
        uint64_t written;                   /* and when the shared file system has */
        uint64_t held;                      /* tasks, for good */
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

/* The ids behind those of the cores. Of one tick, tasks end first, then jobs arrive, then cores are divided. Behind these: jobs of other users, an id
 * for each cluster, if there are any; and one for the next time that weights are made. */
enum { FAIR_ARRIVAL, FAIR_DIVIDE, FAIR_SAMPLE, FAIR_IDS };

void htc__fair_event(htc_scale *scale, void *ctx, uint32_t id);
void htc__fair_begin(fair *m); /* the first events */
void htc__fair_divide_soon(fair *m);

/* fairshare_source.c: jobs that come one after the other, and whose places are used again. */
htc_status htc__fair_source_next(fair *m);            /* the next one is known, or there are no more */
uint64_t   htc__fair_source_arrival(const fair *m);   /* tick of the next one */
uint32_t   htc__fair_source_take(fair *m);            /* it arrives; FAIR_NONE: no memory */
void       htc__fair_job_ended(fair *m, fair_job *j); /* one of its tasks has, or is held for good */

static inline int htc__fair_more(const fair *m) /* work that has not ended */
{
    return m->now.left || m->source.waits;
}

/* fairshare_cluster.c: what a batch system does. */
fair_cluster *htc__fair_find_cluster(const fair *m, uint32_t core);

static inline fair_cluster *htc__fair_cluster_of(const fair *m, uint32_t core)
{
    return m->options.n_clusters == 1 ? m->cluster : htc__fair_find_cluster(m, core);
}

/* How long it takes there. */
static inline uint64_t htc__fair_length(const fair_cluster *k, uint64_t ticks)
{
    return k->speed == 1 ? ticks : (uint64_t)((double)ticks / k->speed + 0.5);
}

/* A core for an agent of the user, on the best cluster, or on this one (FAIR_NONE: any): *starts: when the batch system starts it. 0: there is none. */
int           htc__fair_submit(fair *m, uint32_t user, uint32_t where, uint32_t *core, uint64_t *starts);
uint32_t      htc__fair_roomiest(const fair *m);
int           htc__fair_held(fair *m, fair_cluster *k); /* the job that would start now */
void          htc__fair_noted(fair *m, fair_cluster *k); /* a job has ended, or one of others started */
void          htc__fair_free_core(fair *m, uint32_t core);
void          htc__fair_others_come(fair *m, uint32_t cluster);
void          htc__fair_others_end(fair *m, uint32_t core);
void          htc__fair_others_begin(fair *m);
uint64_t      htc__fair_life(fair *m, fair_cluster *k); /* ticks until an agent dies, drawn; UINT64_MAX: it does not */
uint64_t      htc__fair_recorded(fair *m);              /* ticks until a record that is asked for now is written */
uint64_t      htc__fair_written(fair *m);               /* and until an output is that a shared file system is given */

/* Weights are made anew. */
static inline int htc__fair_weighs(const htc_sim_fairshare_options *o)
{
    return o->gamma != 0 || o->weigher;
}

/* fairshare_attempt.c: tasks whose agents die. */
uint64_t htc__fair_begin_again(fair *m, fair_job *j); /* the number of its task that begins now, of those that are to be done again */
htc_status htc__fair_attempts_room(fair *m, uint64_t n);

static inline int htc__fair_waits(const fair_job *j) /* some of its tasks do */
{
    return j->begun < j->tasks || j->again != FAIR_NONE;
}

uint32_t htc__fair_attempt(fair *m, uint32_t job, uint64_t number); /* FAIR_NONE: no memory */
void     htc__fair_dies(fair *m, uint32_t core, uint32_t attempt);
void     htc__fair_missed(fair *m, uint32_t core, uint32_t attempt);

/* fairshare_run.c: options with their defaults, checked; what stands in their lists. The exact twin has the same ones. */
htc_status                htc__fair_options(const htc_sim_fairshare_options *in, htc_sim_fairshare_options *o);
htc_status                htc__fair_check(const htc_sim_fairshare_options *o, htc_error *error);
htc_sim_fairshare_cluster htc__fair_cluster_at(const htc_sim_fairshare_options *o, size_t i);
htc_sim_fairshare_user    htc__fair_user_at(const htc_sim_fairshare_options *o, size_t i);
htc_sim_fairshare_job     htc__fair_job_at(const htc_sim_fairshare_options *o, size_t i);

/* fairshare_check.c: what was read of a checkpoint can be. HTC_ECORRUPT; HTC_ENOMEM. */
htc_status htc__fair_read_can_be(const fair *m, const uint8_t *events);

/* What fairshare.c has for these. */
htc_allot_user *htc__fair_view(const fair *m, uint32_t user);
void            htc__fair_set_free(fair *m, uint32_t core, uint32_t user);

#endif
