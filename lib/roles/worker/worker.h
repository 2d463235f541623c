/* A worker as a machine: it answers for the tasks of its ledgers, runs them, robs others when it has none, and gives to who asks.
 *
 * One flow. Its group is who has a key of that flow's; each calls all others. */
#ifndef HTC_ROLES_WORKER_H
#define HTC_ROLES_WORKER_H

#include "htcsched/env.h"
#include "htcsched/machine.h"
#include "htcsched/steal.h"

typedef struct htc__worker htc__worker;

typedef struct htc__worker_options {
    uint64_t          flow;
    uint64_t          id;              /* in its group; not 0 */
    const char       *address;         /* where the others reach it (HTC_CALL_DIAL), at most 255 bytes; copied */
    uint32_t          store_peer;
    uint64_t          store_client_id; /* never used before */
    uint32_t          slots;           /* 0: 1; at most 128 */
    const char       *node;            /* host name, for outcomes; NULL: none */
    htc_ns            lease_ns;        /* for how long it is thought alive; 0: 10 s */
    htc_ns            commit_gap_ns;   /* between two changes of a ledger, at least; 0: 1 ms */
    htc_steal_options steal;           /* its zero is every default */
    uint64_t          calls_from;      /* its calls of the host bear numbers above this, and below 2^56 more: of several workers of one host
                                          no two share any */
    uint8_t           within;          /* it is part of another role: it says no HTC_OUT_STOP, and htc__worker_stopped says when it has ended */
} htc__worker_options;

/* It ends (HTC_OUT_STOP): HTC_OK when the flow has ended, or when it was asked to leave (HTC_EVENT_SHUTDOWN) and has handed over what it
 * had; HTC_ELOST when the others have given it up. */
htc_status             htc__worker_create(const htc_env *env, const htc__worker_options *options, htc__worker **out);
const htc_machine_ops *htc__worker_ops(void);

/* For the role that it is part of. */
void htc__worker_slots(htc__worker *w, uint32_t slots); /* from now on; with fewer, what runs goes on */
/* Nobody wants the flow any more: said in its header, so that all of its workers end. With the next step. */
void htc__worker_cancel_all(htc__worker *w);
int  htc__worker_stopped(const htc__worker *w, htc_status *status); /* 1: it has ended */
/* The flow as it ended: 1, or 0 if it has not. */
int  htc__worker_flow_ended(const htc__worker *w, uint64_t *done, uint64_t *failed, uint64_t *cancelled);

/* For tests and whoever watches. */
typedef struct htc__worker_figures {
    uint64_t run, stolen, given, taken; /* tasks run and moved; ledgers taken over */
    uint64_t ended, told, cancelled;    /* records of a graph: changed by END, by TELL, by CANCEL */
    uint64_t waiting, ready;            /* tasks, now */
    uint32_t ledgers, running, members; /* now */
} htc__worker_figures;
void htc__worker_look(const htc__worker *w, htc__worker_figures *f);

#endif
