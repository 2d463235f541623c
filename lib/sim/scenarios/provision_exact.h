/* Dynamic service provision, message by message: what a run has in memory (htcsched/sim_provision.h), and what its files call of each other. Every time in here is
 * virtual nanoseconds since the environments began; a clock of the engine is `begin` ahead of that. */
#ifndef HTC_SIM_SCENARIOS_PROVISION_EXACT_H
#define HTC_SIM_SCENARIOS_PROVISION_EXACT_H

#include "htcsched/dag.h"
#include "htcsched/sim.h"
#include "htcsched/sim_provision.h"
#include "sim/models/asked.h"
#include "sim/scenarios/twin.h"

__extension__ typedef unsigned __int128 exact_sum; /* node nanoseconds */

/* What is said: a type, the number of an environment, nodes; an application has a priority and a weight behind that. */
enum {
    EXACT_APPLY = 1, /* an environment wants to begin with so many nodes, maybe none */
    EXACT_REQUEST,   /* it wants so many more */
    EXACT_ANSWER,    /* the provider: so many are its own from now on, 0: refused */
    EXACT_RELEASE    /* so many go back */
};

typedef enum exact_state { EXACT_FREE = 0, EXACT_WAITING, EXACT_RUNNING } exact_state;

/* A job that waits or runs; a fit knows it by its place. */
typedef struct exact_job {
    htc_ns   at; /* of its arrival, if it waits, else of its start */
    htc_ns   length, ends;
    uint32_t nodes, state;
    uint32_t flow, task; /* flow EXACT_NONE: a job */
    size_t   next;       /* of the free ones */
} exact_job;

#define EXACT_NONE UINT32_MAX

/* A workflow that is under way. */
typedef struct exact_flow {
    htc_dag *dag; /* NULL: the place is free */
    htc_ns  *length; /* of each task */
    uint32_t tasks, done;
} exact_flow;

/* Nodes that are being set up. */
typedef struct exact_setting {
    uint64_t nodes;
    htc_ns   at; /* when they can be used */
} exact_setting;

typedef struct exact exact;

/* A runtime environment: the machine of a node. */
typedef struct exact_tre {
    exact                        *x;
    htc_sim_node                 *node;
    htc_sim_provision_environment o;
    htc_provision_options         book_options;
    asked_fit                     asked_order;
    htc_ns                        unit;
    uint64_t                      initial;
    uint32_t                      number;
    uint32_t                      begun, ended, starved;
    uint32_t                      asking;   /* a request is under way */
    uint32_t                      yielding; /* a look at leases waits for what else comes at this moment */
    htc_provision                *book;
    htc_fit                      *fit;
    exact_job                    *job;
    size_t                        jobs, jobs_cap, free_job; /* jobs: places that were ever used */
    size_t                       *ends; /* those that run, a heap by their end */
    size_t                        running, ends_cap;
    /* its workload: what arrives next, a job or a workflow, at before */
    htc_sim_provision_job  next;
    htc_sim_provision_flow next_flow;
    uint32_t               has_flows, to_come;
    size_t                 taken;
    htc_ns                 before;
    exact_flow            *flow;
    size_t                 flows, flows_cap;
    uint64_t              *done; /* flow << 32 | task: tasks that have ended at this moment are told to the graphs in order */
    size_t                *done_order;
    size_t                 dones, dones_cap, order_cap;
    /* nodes that are being set up, first in, first out; of these, cancelled ones have gone back */
    exact_setting *setting;
    size_t         settings, settings_cap;
    uint64_t       settling, cancelled;
    /* what it holds, and what became of it */
    uint64_t  held, busy, waiting;
    htc_ns    then; /* held and busy are accounted up to here */
    exact_sum held_ns, busy_ns, started_ns, cut_ns, wait_ns;
    uint64_t  submitted, completed, refused, started, left_waiting, left_running, left_blocked;
    htc_ns    first, last; /* HTC_NEVER: never */
    uint64_t  peak, busy_peak, units, granted, returned, requests, rejected;
    htc_ns    setup_ns;
} exact_tre;

/* The resource provider: the machine of a node. */
typedef struct exact_provider {
    exact                 *x;
    htc_sim_node          *node;
    uint64_t               held;
    htc_ns                 then;
    exact_sum              held_ns;
    uint32_t              *peer; /* of each environment */
    htc_provision_request *terms; /* of each: its weight and priority */
    htc_provision_request *request; /* those that are open */
    uint64_t              *grant;
    size_t                 n, applied;
    htc_ns                 decide_at; /* HTC_NEVER: nothing is open */
} exact_provider;

struct exact {
    twin                            t;
    htc_sim_provision_options       options;
    htc_sim_provision_exact_options costs;
    exact_provider                  provider;
    exact_tre                      *tre;
    size_t                          n, ready, live; /* ready: know their first nodes; live: have not ended */
    uint64_t                       *numbers; /* for samples: three for each environment */
    asked_granter                   asked_grant;
    htc_fit_policy                  policies[2]; /* of jobs, of workflows */
    char                            answer[ASKED_TEXT];
    /* of all environments */
    uint64_t  held, busy, peak, busy_peak, scans, running, to_come, bounded, started, completed;
    uint64_t  asking;  /* requests that are not answered yet */
    uint64_t  transit; /* nodes between the provider's books and an environment's */
    htc_ns    transit_then;
    exact_sum transit_ns;
    htc_ns    changed, worked, first_start, last_end, longest;
    double    work_s;
};

/* provision_exact.c */
void       htc__exact_transit(exact *x, uint64_t sent, uint64_t arrived);
htc_status htc__exact_say(exact *x, htc_output *out, uint32_t peer, uint32_t type, const exact_tre *e, uint64_t nodes);
int        htc__exact_hear(exact *x, htc_bytes body, uint32_t *type, htc_provision_request *q); /* 1; 0: the run has failed */

/* provision_exact_tre.c */
extern const htc_machine_ops htc__exact_tre_ops;
htc_status htc__exact_tre_open(exact *x, size_t i);
void       htc__exact_tre_close(exact_tre *e);
void       htc__exact_tre_account(exact_tre *e);
void       htc__exact_tre_verify(exact_tre *e);
void       htc__exact_tre_queue(exact_tre *e, const htc_sim_provision_job *in, uint32_t flow, uint32_t task); /* a job, or a task that is ready */

/* provision_exact_flow.c */
int      htc__exact_flow_next(exact_tre *e);    /* 1: next_flow is one */
uint64_t htc__exact_flow_arrives(exact_tre *e); /* its tasks */
void     htc__exact_flow_done(exact_tre *e, uint32_t flow, uint32_t task);
void     htc__exact_flow_tell(exact_tre *e);    /* the graphs of what has ended at this moment */
uint64_t htc__exact_flow_blocked(const exact_tre *e); /* tasks that are in no queue yet */
void     htc__exact_flow_close(exact_tre *e);

/* provision_exact_provider.c */
extern const htc_machine_ops htc__exact_provider_ops;
htc_status htc__exact_provider_open(exact *x);
void       htc__exact_provider_close(exact *x);
void       htc__exact_provider_account(exact_provider *p);

#endif
