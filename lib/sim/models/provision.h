/* Dynamic service provision: what a run has in memory (htcsched/sim_provision.h), and what its files call of each other. */
#ifndef HTC_SIM_MODELS_PROVISION_H
#define HTC_SIM_MODELS_PROVISION_H

#include "sim/scale/scale_private.h"
#include "htcsched/dag.h"
#include "htcsched/sim_provision.h"
#include "sim/models/asked.h"

#define PROV_NONE UINT32_MAX /* no slot, no workflow */

__extension__ typedef unsigned __int128 prov_sum; /* node ticks */

/* A slot is a thing that events happen to: a job, which is also what a fit knows it by; nodes that are being set up; or with DRP a lease. Each has one
 * event pending at most, but for a leased node of a workflow's user, which has two: the end of its task and the end of the unit that is paid. */
typedef enum prov_state {
    PROV_FREE = 0,
    PROV_WAITING, /* in the queue; no event is pending */
    PROV_RUNNING, /* until ends */
    PROV_CHARGED, /* DRP, a job: it has ended, and its lease lasts until ends */
    PROV_TASK,    /* DRP, a node of a workflow's user: it runs a task until ends */
    PROV_SPARE,   /* the same: nothing runs, and it is paid until ends */
    PROV_SETUP    /* nodes that will be usable */
} prov_state;

typedef struct prov_slot {
    uint64_t at;     /* tick of its arrival, if it waits, else of its start */
    uint64_t leased; /* DRP: tick of the lease */
    uint64_t length; /* ticks */
    uint64_t ends;   /* tick */
    uint64_t check;  /* a leased node: until when it has an event for the end of a unit */
    uint32_t units;  /* DRP: charged for each of its nodes */
    uint32_t nodes;
    uint32_t environment;
    uint32_t state;
    uint32_t flow, task; /* flow PROV_NONE: a job */
    uint32_t next, previous; /* among free slots (next alone), or spare nodes of an environment */
} prov_slot;

/* A workflow that is under way. */
typedef struct prov_flow {
    htc_dag  *dag; /* NULL: the place is free */
    uint64_t *length; /* ticks of each task */
    uint32_t  tasks, done;
} prov_flow;

/* A task that has ended at this moment: of one moment they are told to the graphs in order. */
typedef struct prov_done {
    uint32_t environment, flow, task;
} prov_done;

typedef struct prov_environment {
    htc_sim_provision_environment o;
    htc_provision_options         book_options;
    asked_fit                     asked_order;
    htc_ns                        unit;
    uint64_t                      limit; /* no job is larger */
    htc_provision *book; /* NULL: shared, or DRP */
    htc_fit       *fit;  /* NULL: DRP, or it has ended */
    prov_flow              *flows;
    size_t                  flows_cap;
    htc_sim_provision_flow  next_flow;
    /* What follows, and these four, is what a checkpoint has. */
    uint32_t marked, due, granted_now, ended;
    /* its workload: what arrives next */
    uint32_t                to_come, reserved;
    uint64_t                next_at; /* tick */
    size_t                  taken;   /* of the arrays, or of its source */
    htc_ns                  before;  /* arrival of the one before */
    htc_sim_provision_job   job;
    size_t                  flows_n;
    /* what it holds */
    uint64_t held, busy;
    uint64_t settling;  /* nodes being set up */
    uint64_t cancelled; /* of these, that have been returned */
    uint32_t spare;     /* DRP: the first spare node */
    uint32_t starved;
    uint64_t then;      /* held and busy are accounted up to this tick */
    prov_sum held_ticks, busy_ticks;
    prov_sum started_ticks; /* nodes * length of the jobs that were started */
    prov_sum cut_ticks;     /* of these, after the end */
    /* what became of it */
    uint64_t running, waiting, blocked; /* running: until the end; waiting, blocked: set by the end */
    uint64_t submitted, completed, refused, started;
    uint64_t first, last, wait; /* ticks; UINT64_MAX: never. wait: all together */
    uint64_t peak, busy_peak, units, granted, returned, requests, rejected;
    htc_ns   setup_ns;
} prov_environment;

typedef struct prov {
    htc_env                   env; /* counts memory */
    htc_alloc                 counting;
    const htc_env            *base;
    uint64_t                  memory, memory_peak, memory_max;
    uint32_t                  too_big; /* memory_max has refused */
    htc_sim_provision_options options;
    htc_scale                *scale;
    prov_environment         *environment;
    size_t                    n;
    uint64_t                  tick_ns, sample, capacity;
    prov_slot *slot;
    uint32_t   slots_cap, slots_max;
    uint32_t  *list; /* environments to which something has happened */
    prov_done *done;
    size_t     dones_cap;
    size_t    *order; /* of done */
    size_t     order_cap;
    htc_provision_request *request;
    uint64_t              *grant;
    uint32_t              *asks; /* who has asked for request i */
    uint64_t              *numbers; /* for samples: three for each environment */
    htc_provision *book; /* shared */
    htc_fit_policy policies[2]; /* of jobs, of workflows */
    htc_error      why; /* of the first failure */
    asked_granter  asked_grant;
    char           answer[ASKED_TEXT]; /* of a policy, that is not allowed; "": there was none */
    /* What follows, and slots, environments, list, done, book and engine, is what a checkpoint has. */
    uint32_t pass_wanted, pass_pending; /* pending: it is an event, since others happen at this tick before it */
    uint32_t slots, free_slot; /* slots: that were ever used */
    size_t   listed, dones;
    uint64_t held, busy, peak, busy_peak, scans;
    uint64_t changed;  /* the tick at which something happened but scans */
    uint64_t worked;   /* the tick at which a job began, ended or came */
    uint64_t running, to_come; /* jobs; environments with something to come */
    uint64_t bounded; /* environments with a period that have not ended */
    uint64_t live;    /* environments that have not ended */
    /* shared */
    uint64_t idle, blank; /* nodes that no job runs on; of these, that are set up for no environment */
    uint64_t units, then, granted, returned, requests, rejected;
    prov_sum held_ticks;
} prov;

/* The ids behind those of the slots, PROV_KINDS for each environment but the last two. At one moment they happen in this order. */
enum { PROV_END, PROV_ARRIVAL, PROV_TIMER, PROV_KINDS };

/* provision.c: events, schedulers, scans, grants, leases */
void htc__prov_event(htc_scale *scale, void *ctx, uint32_t id);
void htc__prov_begin(prov *m); /* the first events */
void htc__prov_mark(prov *m, prov_environment *e);
void htc__prov_account(prov *m, prov_environment *e); /* before held or busy change */
void htc__prov_hold(prov *m, prov_environment *e, uint64_t nodes);   /* more */
void htc__prov_return(prov *m, prov_environment *e, uint64_t nodes); /* fewer */
void htc__prov_set_up(prov *m, prov_environment *e, uint32_t assign, uint64_t nodes, htc_ns *delay); /* count it; delay: of one node, or NULL */
void htc__prov_start_jobs(prov *m, prov_environment *e);
htc_provision_demand htc__prov_demand(const prov_environment *e);
void htc__prov_timer(prov *m, const prov_environment *e, const htc_provision *book);
/* An environment without a period ends if nothing runs, nothing comes, none will end by its period, and for two units nothing but scans has happened: its jobs
 * would wait for ever. */
void htc__prov_give_up(prov *m, const prov_environment *e);
void htc__prov_fail(prov *m, htc_status status, const char *format, ...) __attribute__((format(printf, 3, 4)));
uint64_t htc__prov_ticks_up(const prov *m, htc_ns at); /* the first tick that is not before */
htc_ns   htc__prov_now(const prov *m);
static inline uint32_t htc__prov_number(const prov *m, const prov_environment *e)
{
    return (uint32_t)(e - m->environment);
}

/* provision_jobs.c: slots, arrivals, starts and ends */
uint32_t htc__prov_slot(prov *m); /* PROV_NONE: the run has failed */
int      htc__prov_slots_room(prov *m, uint32_t n); /* for as many. 0: the run has failed */
void     htc__prov_slot_free(prov *m, uint32_t s);
void     htc__prov_next(prov *m, prov_environment *e); /* take what arrives next from the workload */
void     htc__prov_arrivals(prov *m, prov_environment *e);
void     htc__prov_begin_job(prov *m, uint32_t s); /* it runs from now on */
void     htc__prov_job_ends(prov *m, uint32_t s);
void     htc__prov_task_done(prov *m, const prov_environment *e, uint32_t flow, uint32_t task);
void     htc__prov_tell_graphs(prov *m); /* of the tasks that have ended at this moment */
void     htc__prov_maybe_over(prov *m, prov_environment *e); /* an environment without a period ends with its work */
void     htc__prov_end(prov *m, prov_environment *e);

/* provision_run.c: as a run has them, defaults filled in. HTC_EINVAL; HTC_EABI */
htc_status htc__prov_options(const htc_sim_provision_options *in, htc_sim_provision_options *o);

/* provision_direct.c: leases of end users (DRP) */
void     htc__prov_lease_job(prov *m, uint32_t s);
void     htc__prov_lease_task(prov *m, prov_environment *e, uint32_t flow, uint32_t task, uint64_t length);
void     htc__prov_lease_event(prov *m, uint32_t s);
uint64_t htc__prov_lease_units(const prov *m, const prov_environment *e); /* charged so far for leases that are open */

/* provision_tape.c. What tells this run's options from others. */
uint64_t   htc__prov_print(const prov *m);
/* Write, or read into a run that was opened and not begun. HTC_EFORMAT: of other options; HTC_ECORRUPT; what the tape answers. */
htc_status htc__prov_tape(prov *m, const htc_scale_tape *tape);

/* provision_check.c: what was read of a checkpoint can be. HTC_ECORRUPT; HTC_ENOMEM. */
htc_status htc__prov_check(const prov *m, const uint8_t *events);

/* provision_shared.c: environments that lend each other nodes */
void htc__prov_shared_pass(prov *m);
void htc__prov_shared_end(prov *m, prov_environment *e);

/* ---- what the exact engine (sim/scenarios/provision_exact.h) decides and adds up in the same way ---- */

/* Nodes come and go, and no job begins: for so many times as long as it takes to see that none come is this borne. */
#define PROV_SHUFFLES 100

/* Nothing but scans since changed, or no job that began, ended or came since worked: all of one unit of time. */
static inline int htc__prov_in_vain(uint64_t now, uint64_t changed, uint64_t worked, uint64_t unit, uint64_t scan)
{
    uint64_t patience = 2 * unit + 2 * scan;
    return now - changed > patience || (now - worked) / PROV_SHUFFLES > patience;
}

static inline void htc__prov_add_up(htc_sim_provision_report *r, const htc_sim_provision_result *one)
{
    r->submitted += one->submitted;
    r->completed += one->completed;
    r->unfinished += one->unfinished;
    r->refused += one->refused;
    r->node_units += one->node_units;
    r->granted += one->granted;
    r->returned += one->returned;
    r->requests += one->requests;
    r->rejected += one->rejected;
    r->setup_ns = r->setup_ns > UINT64_MAX - one->setup_ns ? UINT64_MAX : r->setup_ns + one->setup_ns;
    r->held_s += one->held_s;
    r->busy_s += one->busy_s;
}

#endif
