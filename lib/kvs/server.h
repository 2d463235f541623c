/* The server's inside, shared by its files:
 *   server.c        peers, sessions, answers held back, commits: the machine
 *   server_state.c  what is staged over what the engine has; clock and floor; tombstones
 *   server_exec.c   the operations on keys
 *   server_lease.c  leases and what hangs on them
 *
 * What lies in the engine, by the first byte of its key:
 *   k KEY             a user's record (record.h)
 *   l ID              a lease: u8 ended, varint ttl, u64 client, varint sequence
 *   b ID KEY          KEY is bound to lease ID; no value
 *   t VERSION         the tombstone of this version is that of the key in the value: the queue of their collection
 *   m                 u8 format, varint clock, varint floor
 * ID and VERSION are 8 bytes, high byte first, so that their order is the order of numbers. */
#ifndef HTC_KVS_SERVER_H
#define HTC_KVS_SERVER_H

#include "htcsched/kv_server.h"
#include "kvs/kv_wire.h"
#include "kvs/record.h"
#include "kvs/table.h"

typedef struct htc__kv_held htc__kv_held;

typedef struct htc__kv_conn {
    uint64_t session;
    uint64_t serial; /* the highest executed */
    size_t   held, held_bytes;
    uint32_t peer;
    uint32_t welcomed;
} htc__kv_conn;

typedef struct htc__kv_lease {
    uint64_t id;
    htc_ns   ttl, expires;
    uint64_t made_batch;  /* the batch that holds it, or 0 */
    uint64_t ended_batch; /* 0: alive; else the batch that holds its end */
    uint64_t gone_batch;  /* 0, or the batch that removed it with its last key */
    uint64_t client, sequence;
} htc__kv_lease;

typedef struct htc__kv_list {
    htc__kv_held *first, **last;
} htc__kv_list;

struct htc_kv_server {
    htc_env               env;
    htc_kv_server_options options;
    htc_kv_server_stats   stats;
    htc__table            conns; /* by peer: htc__kv_conn */

    /* Batches are numbered from 1. `open` is being staged; open - 1 may be in flight; all below are stored. */
    htc__table   overlay; /* staged records by engine key: struct staged */
    uint64_t     open;
    int          in_flight;
    size_t       staged, staged_bytes; /* of the open batch */
    htc__kv_list waiting_flight, waiting_open, ready;
    htc_buf      body;

    uint64_t clock, clock_flight, clock_stored; /* newest version given, sent to be stored, stored */
    uint64_t floor, floor_flight, floor_stored; /* version of an absent key, and its forgot */
    size_t   tombstones, tombstones_flight, tombstones_stored;

    htc__table leases;     /* by id: htc__kv_lease */
    htc_ns     lease_next; /* no lease ends before */
    uint64_t   sweeping;   /* ended leases whose keys are not all removed */
    htc_ns     sweep_after;
    uint64_t   gone;  /* removed leases whose removal is not stored yet */
    uint64_t   swept; /* the batch that holds the newest slice of a sweep */

    uint64_t   touched; /* the newest batch that what is executed now has looked at or changed */
    htc_status refuse;  /* not HTC_OK: changes are answered with it (a batch has failed, reads are being repeated) */
    htc_buf    scratch, scratch_items;
    htc_ns     now;
    int        started, stopping, stopped;
};

/* Keys of the engine. */
typedef struct htc__kv_name {
    size_t  len;
    uint8_t data[HTC_KV_ENGINE_KEY_MAX];
} htc__kv_name;

htc__kv_name htc__kv_name_of(char kind, const uint64_t *number, htc_bytes key);
htc_bytes    htc__kv_name_bytes(const htc__kv_name *name);
uint64_t     htc__kv_name_number(htc_bytes name); /* the eight bytes after the first; 0 if they are not there */

/* server_state.c. Reading notes in touched which batch was looked at. */
htc_status htc__kv_read(htc_kv_server *s, htc_bytes name, htc_bytes *value); /* lent until the next read or stage */
htc_status htc__kv_scan(htc_kv_server *s, htc_bytes from, htc_kv_visit visit, void *visitor);
htc_status htc__kv_stage(htc_kv_server *s, htc_bytes name, htc_bytes value);
htc_status htc__kv_stage_drop(htc_kv_server *s, htc_bytes name);
/* The record of a user's key. An absent or expired one is `deleted`, with the version it would have. */
htc_status htc__kv_load(htc_kv_server *s, htc_bytes key, htc__kv_record *record);
htc_status htc__kv_save(htc_kv_server *s, htc_bytes key,
                        const htc__kv_record *record); /* a deleted one joins the queue */
htc_status htc__kv_collect(htc_kv_server *s);          /* the oldest tombstones, while there are too many */
htc_status htc__kv_state_load(htc_kv_server *s);
htc_status htc__kv_batch_close(htc_kv_server *s); /* body holds the open batch; the next one is open */
void       htc__kv_batch_stored(htc_kv_server *s);
void       htc__kv_batch_undone(htc_kv_server *s);

/* server_exec.c: execute operations until the answer or the batch is full; *done says how many. */
htc_status htc__kv_execute(htc_kv_server *s, const htc__kv_head *head, htc_reader *ops, htc_buf *answer, size_t *done,
                           int fresh);

/* server_lease.c */
htc_status htc__kv_leases_load(htc_kv_server *s);
htc_status htc__kv_lease_op(htc_kv_server *s, const htc_kv_request *q, uint64_t client, uint64_t sequence,
                            htc_kv_result *result);
int        htc__kv_lease_alive(htc_kv_server *s, uint64_t id);
htc_status htc__kv_lease_bind(htc_kv_server *s, htc_bytes key, uint64_t old_lease, uint64_t new_lease);
htc_status
     htc__kv_leases_tick(htc_kv_server *s); /* end those that are over, remove keys of ended ones, a slice at a time */
void htc__kv_leases_stored(htc_kv_server *s);
void htc__kv_leases_undone(htc_kv_server *s);

#endif
