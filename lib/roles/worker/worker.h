/* A worker as a machine: it answers for the tasks of its ledgers, runs them, robs others when it has none, and gives to who asks.
 *
 * Thin so far: one flow, a bag; a fixed group, each of whom calls all others. */
#ifndef HTC_ROLES_WORKER_H
#define HTC_ROLES_WORKER_H

#include "htcsched/env.h"
#include "htcsched/machine.h"
#include "htcsched/steal.h"

typedef struct htc__worker htc__worker;

typedef struct htc__worker_options {
    uint64_t          flow;
    uint32_t          n, self;         /* size of the group, and this one's place in it; its number in records is self + 1 */
    const uint32_t   *peers;           /* n connections, each called by this one; that of self is not used */
    uint32_t          store_peer;
    uint64_t          store_client_id; /* never used before */
    uint32_t          slots;           /* 0: 1 */
    htc_ns            lease_ns;        /* for how long it is thought alive; 0: 10 s */
    htc_ns            commit_gap_ns;   /* between two changes of a ledger, at least; 0: 1 ms */
    htc_steal_options steal;           /* its zero is every default */
} htc__worker_options;

htc_status             htc__worker_create(const htc_env *env, const htc__worker_options *options, htc__worker **out);
const htc_machine_ops *htc__worker_ops(void);

/* For tests and whoever watches. */
typedef struct htc__worker_figures {
    uint64_t run, stolen, given, taken; /* tasks run and moved; ledgers taken over */
    uint32_t ledgers, running;
} htc__worker_figures;
void htc__worker_look(const htc__worker *w, htc__worker_figures *f);

#endif
