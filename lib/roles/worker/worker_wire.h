/* What workers say to each other about a flow. Each message may be lost, doubled or late: none changes who owns a task, the ledgers alone
 * do. Who called greets with HELLO, and is welcomed. */
#ifndef HTC_ROLES_WORKER_WIRE_H
#define HTC_ROLES_WORKER_WIRE_H

#include "core/wire.h"

/* One struct for all: what each type has of it stands beside the type in core/wire.h. */
typedef struct worker_message {
    uint64_t flow;
    uint64_t seq;    /* of the thief's round: an answer to an older one is too late */
    uint64_t tasks;  /* LOAD: that wait; GIVEN: that were given, 0: none */
    uint64_t from, note, to; /* a note: the giving ledger, its number there, the taking ledger */
} worker_message;

void       htc__worker_write(htc_buf *b, uint16_t type, const worker_message *m);
htc_status htc__worker_read(htc_reader *r, worker_message *m); /* HTC_EPROTO */

#endif
