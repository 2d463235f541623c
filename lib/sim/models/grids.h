/* Several grids: what a run has in memory (htcsched/sim_grids.h). Jobs in the system and tasks that hold a CPU are arrays; a list goes through places of them. */
#ifndef HTC_SIM_MODELS_GRIDS_H
#define HTC_SIM_MODELS_GRIDS_H

#include "htcsched/sim_grids.h"
#include "sim/scale/scale_private.h"

#define GRIDS_NONE UINT32_MAX
#define GRIDS_BINS 512 /* of response times: eight an octave */
#define GRIDS_KINDS 1024 /* latencies and speeds that a grid has: the quantiles of their laws */
#define GRIDS_ONE  1048576.0 /* ticks of a drawer that stand for 1 */

/* Where a job's time goes. */
enum { GRIDS_ESTIMATING, GRIDS_QUEUED, GRIDS_GRID, GRIDS_RUNNING, GRIDS_MOVING, GRIDS_FLOW, GRIDS_PHASES };

/* A task that holds a CPU, or did: one that is cut keeps its place until its event has happened. */
typedef struct grids_task {
    uint64_t begin, length; /* ticks: when it starts to run, and for how long it will */
    uint32_t job, number;
    uint32_t next_of_job, prev_of_job;     /* next_of_job: of a free place too */
    uint32_t next_of_queue, prev_of_queue; /* those of one queue on one grid, the latest first */
    uint8_t  grid;
    uint8_t  evicted; /* when its event happens it is, else it is done */
    uint8_t  cut;
} grids_task;

/* A job in the system. */
typedef struct grids_job {
    uint64_t number, stream; /* stream: the state of its draws */
    double   kflop, left;    /* true complexity, and what is still to do of it */
    double   part, nominal;  /* of a task: truly, and as the hierarchy is told */
    double   rho, spent_s;   /* of its estimator */
    uint64_t arrival, since; /* ticks; since: of the phase */
    uint64_t in[GRIDS_PHASES];
    uint64_t first_start;    /* of its tasks in this queue */
    uint64_t idle_since, safe_until;
    uint64_t work, evicted, moved; /* CPU ticks */
    uint64_t until;                /* of its estimation */
    uint64_t had, looks;           /* had: CPUs, summed over looks */
    uint64_t started;              /* tasks handed in */
    uint32_t evictions, again, fixed, in_vain; /* in_vain: tasks lost since one was done; again: waiting tasks that were evicted; fixed: tasks that it always has; 0: it is split */
    uint32_t tasks, waiting, running; /* of these tasks: still to do, of those no CPU, with a CPU */
    uint32_t split, first_task, next_number;
    uint32_t queue, to, kind, moves;
    uint32_t estimate_cpus;
    uint8_t  phase, fate, listed, state; /* listed: its waiting tasks count in its queue */
} grids_job;

/* What the event of a job means. */
enum { GRIDS_FREE_JOB, GRIDS_NO_EVENT, GRIDS_ESTIMATED, GRIDS_ARRIVES, GRIDS_CLOSES };

typedef struct grids_tally {
    htc_sim_grids_result r;    /* sums, until it is told */
    uint64_t             cpus_n;
    uint64_t             bin[GRIDS_BINS];
} grids_tally;

typedef struct grids_queue {
    double   kflops;   /* P * beta */
    double   rate;     /* P */
    uint64_t target;   /* ns; 0: not split */
    uint64_t waiting;  /* tasks */
    uint64_t busy;     /* CPUs */
    uint32_t flags, level;
    uint8_t  grid[HTC_HIERARCHY_GRIDS_MAX]; /* in the order in which they are tried */
    uint32_t grids;
    uint32_t running[HTC_HIERARCHY_GRIDS_MAX]; /* the latest task on each */
} grids_queue;

typedef struct grids_grid {
    double            ticks_per_kflop;
    htc__scale_drawer eviction;
    uint64_t          latency[GRIDS_KINDS]; /* ticks */
    double            slowness[GRIDS_KINDS]; /* of a CPU, 1 on average: one over its speed */
    double            part; /* evicted at a uniform moment */
    uint32_t          evicts;
    uint64_t          cpus, ours, busy; /* ours: that we may have now */
    double            mean, deviation, keep, push, state; /* of those that are ours: an autoregressive process */
    uint64_t          step, steps, outages;
    htc__scale_drawer outage_gap;
    uint64_t          outage; /* ticks */
    uint32_t          down, varies;
    uint16_t          queue[HTC_HIERARCHY_QUEUES_MAX]; /* who uses it, highest level first */
    uint32_t          queues;
} grids_grid;

typedef struct grids_class {
    double            share, min, ratio; /* share: the sum up to this class, of 1 */
    htc__scale_drawer rho;
    uint32_t          known;
} grids_class;

typedef struct grids {
    htc_env               env;
    htc_sim_grids_options options;
    htc_hierarchy_options shape; /* of the system */
    htc_hierarchy_queue  *specs; /* of the shape */
    uint32_t             *spec_grids;
    htc_hierarchy        *hierarchy;
    htc_scale            *scale;
    grids_queue          *queue;
    grids_grid           *grid;
    grids_class          *kind;
    grids_tally          *by_queue, *by_class;
    grids_job            *job;
    grids_task           *task;
    htc_hierarchy_decision *orders; /* what a scan has said */
    uint64_t             *sample_queued, *sample_busy, *sample_ours;
    uint32_t              n_queues, n_grids;
    uint64_t              tasks_max, cpus;
    uint64_t              flow, move, rest, shelter, sample; /* ticks */
    htc__scale_drawer     gap, burst_gap;
    uint64_t              arrivals; /* the state of their draws */
    uint32_t              limits;   /* 1: some queue has some policy, or there is something to share */
    uint32_t              looks_first; /* 1: the grids are looked at before limits are */
    uint64_t              print;    /* of the experiment */
    /* What changes, and what a checkpoint has. */
    uint32_t free_job, free_task;
    uint64_t jobs_made, tasks_made;    /* places that were ever used */
    uint64_t active, active_most;
    uint64_t next, next_at, total;     /* the next job to arrive */
    uint64_t left;                     /* jobs that have not ended */
    uint64_t timer[2 * HTC_HIERARCHY_QUEUES_MAX + 4]; /* ticks of pending looks at limits, the earliest last */
    uint32_t timers;
    uint64_t begins, ends;             /* sums of ticks of tasks that ran, modulo 2^64 */
    uint64_t work, evicted, moved, held; /* CPU ticks */
    uint64_t longest;                    /* ticks of the longest task that was done */
    uint64_t carried;                    /* of tasks that were cut for a move: until it is over the hierarchy counts them */
    uint64_t completed, rejected, terminated, failed, moves, handed_in, evictions;
    double   undone;                   /* KFlop of completed jobs that no task did, or that were done twice; relative */
} grids;

/* Ids: places of tasks, then places of jobs, then these, of which _GRID and _OUTAGE have one for each grid. */
enum { GRIDS_ID_ARRIVAL, GRIDS_ID_TIMER, GRIDS_ID_SAMPLE, GRIDS_ID_GRID };

static inline htc_ns htc__grids_now(const grids *m)
{
    return htc__scale_time(m->scale) * m->options.tick_ns;
}
static inline uint32_t htc__grids_id(const grids *m, uint32_t what)
{
    return (uint32_t)(m->tasks_max + m->options.active_max) + what;
}

/* grids_setup.c: what the exact twin (sim/scenarios/grids_exact.h) has too, with a tick of 1 ns */
htc_status htc__grids_options(const htc_sim_grids_options *in, htc_sim_grids_options *o); /* with defaults */
htc_status htc__grids_can_be(const htc_sim_grids_options *o, htc_error *error);
uint64_t   htc__grids_total(const htc_sim_grids_options *o); /* jobs */
uint64_t   htc__grids_cpus(const htc_hierarchy_options *h);
uint64_t   htc__grids_ticks(const grids *m, htc_ns span);
double     htc__grids_seconds(const grids *m, uint64_t ticks);
htc_status htc__grids_open(grids *m, htc_error *error); /* env, options and tasks_max are set: the hierarchy and all tables but those of jobs and tasks */
void       htc__grids_close(grids *m);
void       htc__grids_tell_results(const grids *m, htc_sim_grids_result *queues, htc_sim_grids_result *classes);
uint64_t   htc__grids_held_by_queues(const grids *m); /* CPU time as the hierarchy has counted it for itself; HTC_NEVER: more than it counts */

/* grids_job.c: likewise */
void     htc__grids_draw_arrival(grids *m);                    /* next_at, of the next job */
void     htc__grids_draw_job(const grids *m, grids_job *j);    /* what follows from its number */
uint32_t htc__grids_parts(const grids *m, const grids_job *j); /* tasks that its queue splits it into */
void     htc__grids_split(const grids *m, grids_job *j, double bound);
double   htc__grids_bound_after(const grids *m, const grids_job *j, uint64_t ticks); /* of what is still to do: what its estimator has after so many more */
void     htc__grids_phase(grids_job *j, uint64_t now, uint8_t phase);
void     htc__grids_count_end(grids *m, const grids_job *j, uint64_t now);
/* CPUs that it has while it wants more. */
static inline void htc__grids_look_at_cpus(grids_job *j)
{
    if (j->waiting) {
        j->had += j->running;
        j->looks++;
    }
}

/* grids.c: likewise. How long a task takes on a grid, and whether it is evicted before. */
typedef struct grids_draw {
    uint64_t latency, length; /* ticks */
    uint8_t  evicted;         /* at the end of length, else it is done */
} grids_draw;
grids_draw htc__grids_draw_task(const grids_grid *g, uint64_t stream, uint32_t number, double part, int again);
void       htc__grids_first_ours(const grids *m, uint32_t grid);
void       htc__grids_next_ours(const grids *m, uint32_t grid);
uint64_t   htc__grids_next_outage(const grids *m, uint32_t grid); /* ticks until it goes down, or comes back */

/* grids.c: events and CPUs */
void htc__grids_event(htc_scale *scale, void *ctx, uint32_t id);
void htc__grids_begin(grids *m);
void htc__grids_dispatch(grids *m, uint32_t grid);
void htc__grids_dispatch_queue(grids *m, uint32_t queue);
void htc__grids_cut_job(grids *m, uint32_t job); /* its tasks; the hierarchy is not told */

/* grids_jobs.c: the life of a job */
void htc__grids_arrivals(grids *m);
void htc__grids_next_arrival(grids *m);
void htc__grids_job_event(grids *m, uint32_t job);
void htc__grids_job_done(grids *m, uint32_t job);
void htc__grids_job_failed(grids *m, uint32_t job);
void htc__grids_limits(grids *m); /* whatever is due */
void htc__grids_look(grids *m);   /* at all grids */

/* grids_check.c: what was read of a checkpoint can be. HTC_ECORRUPT; HTC_ENOMEM. */
htc_status htc__grids_check(const grids *m, const uint8_t *events);

/* grids_tape.c */
uint64_t   htc__grids_print(const grids *m);
htc_status htc__grids_tape(grids *m, const htc_scale_tape *tape);

#endif
