/* What the store has of a flow beside its ledgers: the header, and the keys. */
#ifndef HTC_ROLES_FLOW_H
#define HTC_ROLES_FLOW_H

#include "core/codec.h"
#include "roles/worker/ledger.h"

typedef enum flow_state { FLOW_BUILDING = 1, FLOW_RUNNING, FLOW_ENDED } flow_state;

typedef struct flow {
    uint8_t       state; /* flow_state */
    uint64_t      tasks;
    char          user[64];
    htc_bytes     task;   /* htc_task_to_bytes: that of every task but for its index; lies in the bytes that were read */
    ledger_counts counts; /* of one that has ended */
} flow;

void       htc__flow_write(htc_buf *b, const flow *f);
htc_status htc__flow_read(htc_bytes bytes, flow *f); /* HTC_ECORRUPT */

typedef struct flow_key {
    char   text[64];
    size_t len;
} flow_key;

flow_key  htc__flow_key_header(uint64_t id);               /* f/ID/h */
flow_key  htc__flow_key_ledger(uint64_t id, uint64_t number); /* f/ID/l/NUMBER */
flow_key  htc__flow_key_ledgers(uint64_t id);              /* what the keys of all begin with */
flow_key  htc__flow_key_collector(uint64_t id);            /* f/ID/c: bound to a lease: who looks for the end */
flow_key  htc__flow_key_worker(uint64_t worker);           /* w/WORKER: bound to a lease: this epoch lives */
flow_key  htc__flow_key_workers(void);
htc_bytes htc__flow_key_bytes(const flow_key *k);
int       htc__flow_key_number(htc_bytes key, const flow_key *prefix, uint64_t *number); /* 1: what stands behind the prefix */

#endif
