/* How the tasks of a bag ended, which have no records of their own: a log of each ledger, entries in the order in which they were counted. An
 * entry is one task, or several with numbers in a row that ended alike; it is written against the one before it, in some 10 bytes.
 *
 * The newest entries stand in the ledger's own record, so the change that counts tasks is the one that says how they ended: either is
 * stored, or neither. When they are many they go into a block, a record of its own that is named by the version of the ledger's record in
 * which they stood as they are. So whoever writes a block of that name writes the same bytes, however late, and a block says nothing
 * that was not counted. Each block names the one before it, and the ledger the newest.
 *
 * Functions of what is passed in: no store, no clock, no allocation. */
#ifndef HTC_ROLES_OUTCOME_LOG_H
#define HTC_ROLES_OUTCOME_LOG_H

#include "core/codec.h"

#define OUTCOME_LOG_MAX  4096 /* bytes of entries in a ledger's record */
#define OUTCOME_LOG_FULL 1024 /* from so many on they go into a block */
#define OUTCOME_BYTES    80   /* of an entry, at most */

typedef struct bag_outcome {
    uint64_t from, to;         /* tasks */
    uint64_t worker;           /* whose they were */
    uint64_t began_us, ended_us; /* wall clock, of all of them together; 0: they never ran */
    uint64_t clock_us;         /* of the last one that ran: what times are written against */
    uint32_t attempt;
    int32_t  status; /* htc_status */
    uint32_t exit_code, signal;
    uint8_t  how; /* graph_state: done, failed or cancelled */
} bag_outcome;

typedef struct outcome_log {
    uint64_t block; /* the newest one's number; 0: there is none */
    uint32_t len;   /* of bytes */
    bag_outcome last;  /* of bytes: the next entry is written against it; all 0: there is none */
    uint8_t  bytes[OUTCOME_LOG_MAX];
} outcome_log;

htc_status htc__outcome_log_add(outcome_log *l, const bag_outcome *o); /* HTC_EFULL: it changes nothing then */
/* Its entries are in the block of that number. */
void htc__outcome_log_cut(outcome_log *l, uint64_t number);

/* One entry; *o is the one before it, all 0 at first. Fails where that is none. */
void htc__outcome_get(htc_reader *r, bag_outcome *o);

/* As part of a ledger's record. */
void htc__outcome_log_write(htc_buf *b, const outcome_log *l);
void htc__outcome_log_read(htc_reader *r, outcome_log *l);

/* A block: what l has, and the number of the one before. */
void       htc__outcome_block_write(htc_buf *b, const outcome_log *l); /* clears b first */
htc_status htc__outcome_block_read(htc_bytes bytes, uint64_t *before, htc_bytes *entries); /* lent; all are checked. HTC_ECORRUPT */

#endif
