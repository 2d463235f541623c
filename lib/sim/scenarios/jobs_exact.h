/* Partition controllers, message by message: what a run has in memory (htcsched/sim_jobs.h), and what its files call of each other. Controllers
 * (jobs_exact_control.c), the monitor (jobs_exact_monitor.c) and the members of the store (jobs_exact_store.c) are nodes of a simulated network. */
#ifndef HTC_SIM_SCENARIOS_JOBS_EXACT_H
#define HTC_SIM_SCENARIOS_JOBS_EXACT_H

#include "htcsched/kv.h"
#include "htcsched/kv_server.h"
#include "htcsched/sim.h"
#include "sim/models/jobs.h"
#include "sim/scenarios/twin.h"

typedef struct jobs_exact        jobs_exact;
typedef struct jobs_exact_caller jobs_exact_caller;

/* HTC_IN_EVENT of a caller, and the tag of a request. */
enum {
    JOBS_EXACT_BEGIN = 1, /* time counts from now on */
    JOBS_EXACT_MEET,      /* before that: a caller makes its connections */
    JOBS_EXACT_PULL,      /* a controller reads the census */
    JOBS_EXACT_LOOK,      /* the monitor goes on */
    JOBS_EXACT_AUDIT,     /* after the last job: a controller reads its record again */
    JOBS_EXACT_JOB        /* and so on: a controller's jobs by their places */
};

/* What is next of a job. */
typedef enum jobs_exact_phase {
    JOBS_EXACT_FREE,    /* there is none in this place */
    JOBS_EXACT_PARSED,  /* its controller has read it */
    JOBS_EXACT_LOOKED,  /* the answer of a look-up */
    JOBS_EXACT_SWAPPED, /* of a compare-and-swap */
    JOBS_EXACT_WRITTEN, /* of an insert */
    JOBS_EXACT_WAITED,  /* a wait is over */
    JOBS_EXACT_RAN,     /* it has ended */
    JOBS_EXACT_KNOWN    /* its controller knows */
} jobs_exact_phase;

/* A job on its way from its submission until it has given back all. */
typedef struct jobs_exact_job {
    uint64_t             number, length, asked; /* length: ticks; asked: messages */
    htc_ns               begun, starts;
    htc_balance_request *request; /* NULL: it has its nodes */
    htc_record_set      *got;     /* nodes of the last swap */
    uint32_t             need, holdings, phase;
    uint32_t             target, want; /* want: take at most so many; of inserts, how many are left */
    uint32_t             taken, free;  /* by the swap on its way; free after it */
    uint32_t             gives, given; /* gives: all goes back; given: the ledger has this partition's nodes already */
    uint32_t             next;         /* of the free places */
    uint32_t             held[];       /* nodes of each partition */
} jobs_exact_job;

/* A member of the store. It serves one request after the other. */
typedef struct jobs_exact_member {
    jobs_exact            *x;
    htc_sim_node          *node;
    const htc_machine_ops *ops;
    htc_kv_server         *server;
    htc_output            *inner;
    htc_ns                 serves; /* until then */
} jobs_exact_member;

/* Who asks the store, a controller or the monitor: a machine with a client for each member, whose peers are counted from 1. */
struct jobs_exact_caller {
    jobs_exact     *x;
    htc_sim_node   *node;
    htc_kv_client **kv;
    uint32_t        number; /* of the controller, and of the member beside it; the monitor's is the number of controllers */
    htc_output     *out;    /* of the step that it is in */
    htc_ns          now;
    /* An answer, an event. What is answered is lent until the client is asked again. */
    htc_status (*answered)(jobs_exact_caller *c, const htc_kv_result *r);
    htc_status (*happened)(jobs_exact_caller *c, uint32_t event);
    /* of a controller */
    htc_balance     *balance;
    htc_rng          rng;
    jobs_exact_job **job;
    uint32_t         jobs, room, free_job; /* free_job: JOBS_NONE */
};

struct jobs_exact {
    twin                       t;
    jobs                       m; /* of the model: its options and draws, its books. Nothing happens in it */
    htc_sim_jobs_exact_options costs;
    uint32_t                   met;     /* callers that have begun to make connections */
    uint32_t                   callers; /* controllers, and the monitor behind them if there is one; members likewise */
    jobs_exact_caller         *caller;
    jobs_exact_member         *member;
    uint64_t                   asking;               /* requests that are not answered */
    uint64_t                   sent, received;       /* messages */
    uint64_t                   worked, longest;      /* node ticks of jobs that have ended; ticks of the longest */
    uint64_t                   work;                 /* ticks of all jobs that were started */
    uint64_t                   audited, source_at;   /* controllers; the last arrival, in ticks */
    htc_ns                     last_end;
};

/* jobs_exact.c */
void       htc__jobs_exact_sample(jobs_exact *x);

/* jobs_exact_store.c */
htc_status htc__jobs_exact_member_boot(void *ctx, htc_sim_node *node);
htc_status htc__jobs_exact_caller_boot(void *ctx, htc_sim_node *node);
htc_status htc__jobs_exact_ask(jobs_exact_caller *c, uint32_t member, const htc_kv_request *q, uint64_t tag);
htc_status htc__jobs_exact_read(jobs_exact_caller *c, uint32_t member, const char *key, uint64_t tag);
htc_status htc__jobs_exact_write(jobs_exact_caller *c, uint32_t member, const char *key, htc_bytes value, uint64_t tag);
/* Room for the key of a record. */
#define JOBS_EXACT_KEY 64
void       htc__jobs_exact_key(char *key, const char *kind, uint64_t number);
htc_status htc__jobs_exact_free_in(jobs_exact *x, htc_bytes record, uint32_t *free);

/* jobs_exact_control.c */
htc_status htc__jobs_exact_control_open(jobs_exact_caller *c);
void       htc__jobs_exact_control_close(jobs_exact_caller *c);

/* jobs_exact_monitor.c: the census. */
htc_status htc__jobs_exact_monitor_open(jobs_exact_caller *c);
htc_status htc__jobs_exact_pull(jobs_exact_caller *c);
htc_status htc__jobs_exact_pulled(jobs_exact_caller *c, const htc_kv_result *r);

#endif
