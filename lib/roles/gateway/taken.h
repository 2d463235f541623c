/* What attempts have of what their sites count (counted.h), from the grant to the result, and what agents owe of attempts that are not theirs any more,
 * memory too: taken.c. */
#ifndef HTC_ROLES_GATEWAY_TAKEN_H
#define HTC_ROLES_GATEWAY_TAKEN_H

#include "htcsched/gateway.h"
#include "htcsched/kv.h"
#include "roles/gateway/counted.h"
#include "roles/runtime/agent_wire.h"

typedef struct job   job;
typedef struct chunk chunk;
typedef struct agent agent;
struct gang;
struct held;

/* What an attempt has of what its site counts. */
typedef struct task_hold {
    htc_attempt   attempt;
    counted_need  need;
    uint64_t      devices;
    uint32_t      site;
    uint64_t      grant;  /* of one that is owed: by which its agent got it; 0: it is of no account */
    uint64_t      memory; /* of one that is owed: bytes that are reserved for it. Of one that runs: what will be, if its record has it; else 0 */
    struct task_hold *next; /* of those that are owed */
} task_hold;

/* The record of one, as it is read. */
typedef struct hold_found {
    htc_attempt   attempt;
    uint32_t      n; /* its agents; 0: not known which one */
    uint64_t      agents[HTC_TASK_NODES_MAX];
    uint64_t      devices[HTC_TASK_NODES_MAX], memory[HTC_TASK_NODES_MAX]; /* of each */
    counted_need  need; /* of each; nothing: not known, or there is none */
} hold_found;

typedef struct hold_left    hold_left;
typedef struct owed_attempt owed_attempt;

int    htc__gw_counted_fits(htc_gateway *gw, size_t at, job *j, const counted_need *need); /* if not, the job waits for it */
void   htc__gw_counted_waits(htc_gateway *gw, job *j);
void   htc__gw_counted_keep(htc_gateway *gw); /* room for those who have waited for long */
void   htc__gw_counted_handed(htc_gateway *gw, job *j);
task_hold *htc__gw_take(htc_gateway *gw, uint32_t at, const htc_attempt *attempt, const counted_need *need); /* it fits; NULL: there is nothing to take */
void   htc__gw_hold_write(htc_buf *b, uint32_t n, const uint64_t *agents, const uint64_t *devices, const uint64_t *bytes, const counted_need *need); /* a record */
void   htc__gw_taken_note(htc_gateway *gw, chunk *c, uint64_t agent_id, const task_hold *k); /* before its lease is */
void   htc__gw_taken_end(htc_gateway *gw, task_hold *k);                  /* NULL is fine */
/* Delete the record of an attempt that has ended, when its chunk says so durably and the term holds. version: of the record; 0: not known. */
void   htc__gw_taken_forget(htc_gateway *gw, const htc_attempt *at, uint64_t version);
void   htc__gw_taken_owe(htc_gateway *gw, agent *a, const struct held *h, int lost); /* what it held: it is to end it, or is lost with it */
void   htc__gw_taken_owe_again(htc_gateway *gw, agent *a, const htc_attempt *at, uint64_t bytes); /* of an agent that is read as lost, before the sweep */
void   htc__gw_taken_settle(htc_gateway *gw, agent *a);
void   htc__gw_taken_heard(htc_gateway *gw, agent *a, const htc_heartbeat *m); /* it owes nothing of an attempt that it does not have */
void   htc__gw_taken_free(htc_gateway *gw, agent *a); /* at the end of all */
htc_status  htc__gw_taken_read(htc_bytes name, htc_bytes value, hold_found *f);
int         htc__gw_gang_found(htc_gateway *gw, struct gang *g); /* its agents, by its attempt. 0: there is no record of it */
void        htc__gw_taken_claim(htc_gateway *gw, const htc_attempt *at); /* it is held again: its record is not left over */
void        htc__gw_taken_found(htc_gateway *gw, const htc_kv_item *item);
void        htc__gw_take_again(htc_gateway *gw, agent *a, const htc_attempt *at, const counted_need *need);
void        htc__gw_retake(htc_gateway *gw, agent *a, const htc_attempt *at, const counted_need *need, uint64_t devices); /* these, of an attempt that it holds */
void        htc__gw_taken_sweep(htc_gateway *gw, int forget); /* forget: records of which nobody owes anything; else only from memory */
const char *htc__gw_taken_audit(const htc_gateway *gw); /* NULL, or what is wrong */

#endif
