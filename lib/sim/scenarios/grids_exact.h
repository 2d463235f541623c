/* Several grids, message by message: what a run has in memory (htcsched/sim_grids.h), and what its files call of each other. The hierarchy and each grid are nodes of a
 * simulated network. Every time in here is virtual nanoseconds since they began; a clock of the engine is t.begin ahead of that. Draws, tables and jobs are the
 * model's (sim/models/grids.h), with a tick of 1 ns. */
#ifndef HTC_SIM_SCENARIOS_GRIDS_EXACT_H
#define HTC_SIM_SCENARIOS_GRIDS_EXACT_H

#include "sim/models/grids.h"
#include "sim/scenarios/due.h"
#include "sim/scenarios/twin.h"

__extension__ typedef unsigned __int128 grids_sum; /* CPU nanoseconds */

/* What is said. All messages have one form. */
enum {
    GRIDS_SAY_CPUS = 1, /* a grid: so many CPUs are ours from now on; flag: it is down */
    GRIDS_SAY_SUBMIT,   /* the hierarchy: run this task; flag: it was evicted before */
    GRIDS_SAY_RECALL,   /* run it no longer */
    GRIDS_SAY_STARTED,  /* a grid: it runs */
    GRIDS_SAY_DONE,     /* it has ended after so long */
    GRIDS_SAY_EVICTED,  /* it was taken from its CPU after so long */
    GRIDS_SAY_STOPPED   /* the answer to a recall of one that had not ended */
};

typedef struct grids_said {
    uint32_t type, flag;
    uint32_t attempt, slot; /* its place with the hierarchy, and with the grid */
    uint32_t number;        /* of the task in its job; GRIDS_SAY_CPUS: of the grid */
    uint64_t value;         /* GRIDS_SAY_CPUS: how many; GRIDS_SAY_SUBMIT: the job; of one that has ended: how long it ran */
    double   kflop;         /* GRIDS_SAY_SUBMIT: what is to do */
} grids_said;

typedef struct grids_exact grids_exact;

/* ---- a grid ---- */

typedef enum exact_state { EXACT_NONE = 0, EXACT_WAITS, EXACT_STARTS, EXACT_RUNS } exact_state;

typedef struct exact_task {
    uint64_t job;
    double   kflop;
    htc_ns   got, begin, length; /* got: a CPU */
    uint32_t attempt, number, next, prev; /* next, prev: of those that wait for a CPU */
    uint8_t  state, again, evicted;
} exact_task;

typedef struct exact_grid {
    grids_exact  *x;
    htc_sim_node *node;
    uint32_t      number;
    exact_task   *task; /* by slot */
    size_t        tasks_cap;
    due           due; /* of slots: a start, an end */
    uint32_t      first, last; /* that wait for a CPU; GRIDS_NONE */
    htc_ns        varies_at, outage_at; /* HTC_NEVER */
    uint64_t      used, taken, done, evicted, stopped; /* used: CPUs; taken and so on: tasks */
    htc_ns        then; /* used is accounted up to here */
    grids_sum     used_ns, held_ns, busy_ns, done_ns; /* used_ns: over time; held_ns: over tasks, with their latencies; done_ns: lengths of those that are done */
} exact_grid;

/* ---- the hierarchy ---- */

/* A task that was handed in, until it is known that it has ended. */
typedef enum attempt_state { ATTEMPT_FREE = 0, ATTEMPT_OUT, ATTEMPT_MOVED, ATTEMPT_PREEMPTED } attempt_state; /* the last two are recalled */

typedef struct exact_attempt {
    htc_ns   handed_in;
    uint32_t job, number, queue, slot;
    uint32_t next_of_job, prev_of_job; /* next_of_job: of a free place too */
    uint32_t next_of_queue, prev_of_queue;
    uint8_t  grid, state;
} exact_attempt;

/* What the hierarchy's node knows of a grid. */
typedef struct exact_known {
    uint32_t  peer, said, down;
    uint64_t  ours, out; /* out: tasks that have a CPU there, or will */
    htc_ns    waited;    /* from handing in to the start, of the last task that has started; 0: not known */
    uint32_t *free_slot;
    size_t    free_slots, slots_cap;
    uint32_t  slots; /* that were ever used */
} exact_known;

typedef struct exact_job {
    grids_job j;
    uint32_t  attempts; /* that have not ended, as far as is known */
    uint32_t  over;     /* it waits for the end of these alone */
} exact_job;

struct grids_exact {
    twin                        t;
    grids                       m; /* of the model: options, the hierarchy, tables, results. Nothing happens in it */
    htc_sim_grids_exact_options costs;
    htc_sim_node               *node; /* of the hierarchy */
    exact_known                 known[HTC_HIERARCHY_GRIDS_MAX];
    exact_grid                 *grid;
    size_t                      met; /* grids that have said what they have */
    exact_job                  *job;
    size_t                      jobs_cap;
    exact_attempt              *attempt;
    size_t                      attempts, attempts_cap;
    due                         due; /* of jobs */
    htc_output                 *out; /* of the step that the hierarchy is in */
    htc_hierarchy_decision     *orders; /* what a look at limits has said */
    size_t                      orders_cap;
    char                        wrong[160]; /* what did not hold after a step; "": nothing */
    uint64_t                    sent, received;
    uint64_t                    submitted, done, moved; /* attempts; evicted ones are m.evictions */
    uint64_t                    carried; /* CPU ns of tasks that were recalled for a move: until it is over the hierarchy counts them */
    grids_sum                   work_ns, evicted_ns, moved_ns, known_ns; /* known_ns: from handing in until it is known to have ended */
    htc_ns                      first_arrival, last_end, longest;
};

/* grids_exact.c */
htc_status htc__grids_say(grids_exact *x, htc_output *out, uint32_t peer, const grids_said *said);
int        htc__grids_hear(grids_exact *x, htc_bytes body, grids_said *said); /* 1; 0: the run has failed */
/* An array with room for one more than n; NULL: there is none, and the run has failed. */
void *htc__grids_room(grids_exact *x, void *array, size_t *cap, size_t each, size_t n);
static inline htc_ns htc__grids_moment(const grids_exact *x, htc_ns at) /* on the clock of the engine */
{
    return at < HTC_NEVER - x->t.begin ? x->t.begin + at : HTC_NEVER;
}
static inline htc_ns htc__grids_after(htc_ns at, htc_ns span) /* HTC_NEVER: there is no such time */
{
    return span < HTC_NEVER - at ? at + span : HTC_NEVER;
}
static inline int htc__grids_good(const grids_exact *x)
{
    return htc__twin_is_good(&x->t) && !x->wrong[0];
}

/* grids_exact_grid.c */
extern const htc_machine_ops htc__grids_grid_ops;
htc_status htc__grids_grid_open(grids_exact *x, uint32_t number);
void       htc__grids_grid_close(exact_grid *g);
void       htc__grids_grid_account(exact_grid *g);

/* grids_exact_jobs.c: the life of a job */
extern const htc_machine_ops htc__grids_hierarchy_ops;
int  htc__grids_call(grids_exact *x, htc_status status, const char *what); /* 1: it is HTC_OK; 0: the run has failed */
void htc__grids_exact_done(grids_exact *x, uint32_t job);   /* all its tasks are */
void htc__grids_exact_failed(grids_exact *x, uint32_t job);
void htc__grids_exact_closes(grids_exact *x, uint32_t job); /* nothing of it is left */

/* grids_exact_tasks.c: what the hierarchy hands in and is told */
void htc__grids_hear_of_grid(grids_exact *x, const htc_input *in);
void htc__grids_dispatch_grid(grids_exact *x, uint32_t grid);
void htc__grids_dispatch_from(grids_exact *x, uint32_t queue);
void htc__grids_recall_job(grids_exact *x, uint32_t job); /* its tasks; the hierarchy is not told */
void htc__grids_sample_grids(grids_exact *x);

#endif
