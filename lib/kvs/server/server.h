/* The server's inside, shared by its files:
 *   server.c        the machine: which face an input is for, commits, the end
 *   server_backlog.c   the backend of the faces: requests that wait for room, or for others
 *   server_deferred.c    answers held back until what they rest on is stored
 *   server_contention.c compare-and-swaps of one key that are let go one by one
 *   server_state.c  reading and staging of cells; clock and floor; tombstones
 *   server_exec.c   the operations on keys, one at a time
 *   server_places.c keys in the order of their places
 *   server_lease.c  leases and what hangs on them
 *   server_ttl.c    keys with an end of their own
 *   server_metrics.c  what it counts, for monitors
 *   cluster.h       instead of these three (exec, lease, ttl): a member among several
 *
 * What lies in the cells, by the first byte of its key:
 *   k KEY             a user's key (cell.h)
 *   l ID              a lease: u8 ended, varint ttl, u64 client, varint sequence
 *   b ID KEY          KEY is bound to lease ID; no value
 *   e KEY             KEY has an end of its own; no value
 *   t VERSION         the tombstone of this version is that of the key in the value: the queue of their collection
 *   m                 u8 format, varint clock, varint floor, varint keys
 * ID and VERSION are 8 bytes, high byte first, so that their order is the order of numbers. */
#ifndef HTC_KVS_SERVER_H
#define HTC_KVS_SERVER_H

#include <string.h>

#include "htcsched/kv_server.h"
#include "kvs/storage/cells.h"
#include "kvs/storage/schema.h"
#include "kvs/cell/change.h"
#include "kvs/util/counts.h"
#include "kvs/front/flight.h"
#include "kvs/storage/log_format.h"
#include "kvs/front/native.h"
#include "kvs/resp/resp.h"
#include "kvs/util/table.h"
#include "kvs/util/wheel.h"

/* A batch is not added to beyond this; one more change may stand on top. */
#define HTC__KV_STAGED_MAX ((size_t)16 << 20)
#define HTC__KV_ROOM_AGAIN (100 * HTC_MS) /* what the server does by itself is tried again so much later if there was no room */

typedef struct htc__kv_contest  htc__kv_contest;
typedef struct htc__kv_cluster  htc__kv_cluster;
typedef struct htc__kv_past_end htc__kv_past_end;

typedef struct htc__kv_lease {
    htc__wheel_entry      entry; /* first: the wheel knows nothing else. In it while the lease has not ended */
    struct htc__kv_lease *next;  /* of those that have ended, or are gone */
    uint64_t id;
    htc_ns   ttl, expires;
    uint32_t ended, gone;             /* its end was staged; it was removed with its last key */
    uint32_t unknown;                 /* its record is damaged */
    uint64_t made_batch, ended_batch; /* the batches that hold this; 0: stored long ago */
    uint64_t gone_batch;
    uint64_t client, sequence;
} htc__kv_lease;

/* A queue of them. */
typedef struct htc__kv_leases {
    htc__kv_lease *first, **last;
} htc__kv_leases;

/* Where an answer belongs. */
typedef struct htc__kv_whose {
    const htc__kv_face *face;
    uint64_t            conn, slot;
    htc__kv_stamp       stamp;
} htc__kv_whose;

/* A request that is executed later, or again. */
typedef struct htc__kv_backlog {
    struct htc__kv_backlog *next;
    htc__kv_whose        whose;
    htc_kv_request       request;
    size_t               size; /* of data */
    uint8_t              data[];
} htc__kv_backlog;

typedef struct htc__kv_list {
    htc__kv_backlog *first, **last;
} htc__kv_list;

typedef struct htc__kv_deferred_reply htc__kv_deferred_reply;
typedef struct htc__kv_deferred_replies {
    htc__kv_deferred_reply *first, **last;
} htc__kv_deferred_replies;

struct htc_kv_server {
    htc_env               env;
    htc_kv_server_options options;
    htc_kv_server_stats   stats;
    htc__kv_counts        counts;
    htc__kv_native        native;
    htc__resp            *resp; /* NULL: no connection speaks RESP */

    htc__kv_cluster *cluster; /* NULL: the only member */
    int              alone;   /* the cluster's members are shards of one process */

    htc__kv_flight flight; /* what is in work for clients */

    htc__cells   cells;
    htc__kv_deferred_replies due_flight, due_open;         /* answers that wait for the batch on its way, for the open one */
    htc__kv_deferred_reply *deferred_spare;
    size_t       deferred_spare_count;
    htc__kv_list delayed;                      /* requests that wait for room in a batch, in the order they came */
    size_t       delayed_bytes;
    htc__table       contests; /* by key: htc__kv_contest */
    htc__kv_contest *contest;  /* the newest of them */
    uint32_t         rivals;   /* so many wait */

    uint64_t clock, clock_flight, clock_stored; /* newest version given, sent to be stored, stored */
    uint64_t floor, floor_flight, floor_stored; /* version of an absent key, and its forgot */
    uint64_t keys, keys_flight, keys_stored;    /* how many there are */
    size_t   tombstones, tombstones_flight, tombstones_stored;

    htc__table leases; /* by id: htc__kv_lease */
    htc__wheel lease_wheel;
    htc_ns     lease_after; /* none is ended before: there was no room, or a batch has failed */
    htc__kv_leases ended, removed; /* the first is swept next; those whose removal is not stored yet */
    uint64_t   sweeping;   /* ended leases whose keys are not all removed */
    htc_ns     sweep_after;
    uint64_t   gone;  /* removed leases whose removal is not stored yet */
    uint64_t   swept; /* the batch that holds the newest slice of a sweep */

    htc__table        ends; /* by key: struct end of server_ttl.c */
    htc__kv_past_end *past, **past_last;
    htc__wheel        wheel;
    htc_ns            ends_after; /* none is carried out before: a batch has failed */

    uint64_t     touched; /* the newest batch that what is executed now has looked at or changed */
    htc_status   refuse;  /* not HTC_OK: changes are answered with it (a batch has failed, reads are being repeated) */
    htc_status   broken;  /* not HTC_OK: something could not be carried out; the machine ends with its step */
    htc_buf      scratch, scratch_items;
    htc__kv_name page_last; /* of the newest page of a scan */
    htc_ns       now, wall;
    int          wait;    /* what was executed has changed nothing and is to be executed again when there is room */
    int          started, loaded, serving, turns, stopping, stopped;
};

/* server_state.c. Reading notes in touched which batch was looked at. */
htc_status htc__kv_read(htc_kv_server *s, htc_bytes name, htc_bytes *value); /* lent until the next read or stage */
htc_status htc__kv_scan(htc_kv_server *s, htc_bytes from, htc_kv_visit visit, void *visitor);
htc_status htc__kv_stage(htc_kv_server *s, htc_bytes name, htc_bytes value);
htc_status htc__kv_stage_drop(htc_kv_server *s, htc_bytes name);
/* What is held of a user's key, for a change by this client (0: nobody's), lent as the bytes are. One whose lease or ttl has ended is
 * shown as deleted. HTC_ECORRUPT: it is damaged. htc__kv_load carries an end out that has passed; htc__kv_show only shows it, with the ttl that it had. */
htc_status htc__kv_load(htc_kv_server *s, htc_bytes key, uint64_t client, htc__kv_cell *cell);
/* The same of bytes at hand; HTC_ECORRUPT also without any. */
htc_status htc__kv_show(htc_kv_server *s, htc_bytes key, htc_bytes value, uint64_t client, htc__kv_cell *cell);
/* With all that hangs on it: lease, end, the queue of tombstones. old: as it was loaded. */
htc_status htc__kv_save(htc_kv_server *s, htc_bytes key, const htc__kv_cell *cell, const htc__kv_cell *old);
/* Is there room for a change of such a key to such a value, with all that hangs on it? Asked before anything is staged. HTC_OK;
 * HTC_EBUSY: in a moment; HTC_ENOSPC; HTC_ETOOBIG. */
htc_status htc__kv_room(const htc_kv_server *s, size_t key, size_t value);
/* Of so many changes, of keys and values of so many bytes in all: as htc__kv_room_to_grow where any of them is a put. */
htc_status htc__kv_room_of(const htc_kv_server *s, size_t changes, size_t puts, size_t keys, size_t values);
/* The same of a change that is no deletion, and nothing that follows from one: these go on where the disk is full. */
htc_status htc__kv_room_to_grow(const htc_kv_server *s, size_t key, size_t value);
htc_status htc__kv_collect(htc_kv_server *s); /* the oldest tombstones, while there are too many */
htc_status htc__kv_state_load(htc_kv_server *s);
htc_status htc__kv_batch_close(htc_kv_server *s); /* clock and floor join the open batch, which is about to be sent */
void       htc__kv_batch_stored(htc_kv_server *s);
htc_status htc__kv_batch_undone(htc_kv_server *s);
/* Batches: see cells.h. */
uint64_t htc__kv_open(const htc_kv_server *s);
uint64_t htc__kv_stored(const htc_kv_server *s);
size_t   htc__kv_staged(const htc_kv_server *s);
int      htc__kv_in_flight(const htc_kv_server *s);
int      htc__kv_may_commit(const htc_kv_server *s);

/* server_exec.c: execute one operation. *result is lent until the next call; touched says what it rests on. An error is one of
 * the machine, not of the request. */
htc_status htc__kv_execute(htc_kv_server *s, const htc_kv_request *request, const htc__kv_stamp *stamp,
                           htc_kv_result *result);
int        htc__kv_full(const htc_kv_server *s); /* the open batch takes no more changes */

/* Remove the keys that stand in scratch, so many, for a page that met them with their end behind them. */
htc_status htc__kv_ends_carry_out(htc_kv_server *s, size_t count);

/* server.c: announce, and speak at most, this number of the protocol instead of the highest one, before the start. Only the simulator asks
 * for it: members of two versions beside each other. */
void htc__kv_server_speak(htc_kv_server *s, uint16_t version);

/* server_places.c: SCAN with HTC_KV_PLACES; HTC_EUNSUPPORTED where cells have no order of places. */
htc_status htc__kv_scan_places(htc_kv_server *s, const htc_kv_request *q, htc_kv_result *result);

/* server_backlog.c */
htc__kv_backend htc__kv_backend_of(htc_kv_server *s);
/* With copies of the bytes of the request; in no list yet. NULL: out of memory. */
htc__kv_backlog *htc__kv_backlog_make(htc_kv_server *s, const htc__kv_whose *whose, const htc_kv_request *q);
void          htc__kv_backlog_free(htc_kv_server *s, htc__kv_backlog *held); /* NULL is fine */
/* It was executed, and undone: it is again, and answered, whatever that rests on. */
void htc__kv_backlog_repeat(htc_kv_server *s, htc__kv_backlog *held);
/* A copy at *at, which goes on behind it. */
void htc__kv_keep_bytes(uint8_t **at, htc_bytes *bytes);
/* There may be room again for what waits for it. */
void htc__kv_backlog_go_on(htc_kv_server *s);
int  htc__kv_backlog_none(const htc_kv_server *s);

/* Lists of what is held back. */
void          htc__kv_list_init(htc__kv_list *list);
void          htc__kv_list_add(htc__kv_list *list, htc__kv_backlog *held);
htc__kv_backlog *htc__kv_list_take(htc__kv_list *list);
void          htc__kv_list_free(htc_kv_server *s, htc__kv_list *list);
int htc__kv_backlog_add(htc_kv_server *s, htc__kv_list *list, const htc__kv_whose *whose, const htc_kv_request *q);
/* Execute it now, and answer it as soon as that may be; what became of it. */
htc_status htc__kv_backlog_run(htc_kv_server *s, htc__kv_backlog *held);

/* server_deferred.c */
void htc__kv_deferred_init(htc_kv_server *s);
void htc__kv_deferred_free(htc_kv_server *s);
/* This answer waits for the batch that was touched. 0: out of memory. */
int  htc__kv_deferred_add(htc_kv_server *s, const htc__kv_whose *whose, const htc_kv_request *q, const htc_kv_result *a);
void htc__kv_deferred_sent(htc_kv_server *s);   /* the open batch is on its way */
void htc__kv_deferred_stored(htc_kv_server *s); /* the one on its way is stored: those who waited are answered */
/* A batch has failed: what rested on it or came after it is executed again on what is stored, its changes refused. */
void htc__kv_deferred_again(htc_kv_server *s, htc_status why);
int  htc__kv_deferred_none(const htc_kv_server *s);

/* server_contention.c */
/* Of a compare-and-swap, before and after it was executed with that result: 1: it is kept, and executed later; 0: go on. */
int  htc__kv_contention_before(htc_kv_server *s, const htc__kv_whose *whose, const htc_kv_request *q);
int  htc__kv_contention_after(htc_kv_server *s, const htc__kv_whose *whose, const htc_kv_request *q,
                          const htc_kv_result *result);
void htc__kv_contention_tick(htc_kv_server *s);
/* What waits of this client is executed now. */
void   htc__kv_contention_hurry(htc_kv_server *s, const htc__kv_face *face, uint64_t conn);
htc_ns htc__kv_contention_deadline(const htc_kv_server *s);
void   htc__kv_contention_free(htc_kv_server *s);

/* server_lease.c */
void       htc__kv_leases_init(htc_kv_server *s); /* when the clock is known */
htc_status htc__kv_leases_load(htc_kv_server *s);
htc_status htc__kv_lease_op(htc_kv_server *s, const htc_kv_request *q, uint64_t client, uint64_t sequence,
                            htc_kv_result *result);
int        htc__kv_lease_alive(htc_kv_server *s, uint64_t id);
/* 1: there is such a lease, but its record is damaged, and nobody knows whether it has ended. */
int htc__kv_lease_unknown(const htc_kv_server *s, uint64_t id);
htc_status htc__kv_lease_bind(htc_kv_server *s, htc_bytes key, uint64_t old_lease, uint64_t new_lease);
htc_status
htc__kv_leases_tick(htc_kv_server *s); /* end those that are over, remove keys of ended ones, a slice at a time */
htc_ns htc__kv_leases_deadline(const htc_kv_server *s);
void   htc__kv_leases_undone(htc_kv_server *s);

/* server_ttl.c */
void       htc__kv_ends_init(htc_kv_server *s);
void       htc__kv_ends_free(htc_kv_server *s);
htc_status htc__kv_ends_load(htc_kv_server *s);
htc_status htc__kv_end_set(htc_kv_server *s, htc_bytes key,
                           const htc__kv_cell *cell); /* as the cell says, from now on */
int        htc__kv_end_passed(htc_kv_server *s, htc_bytes key, const htc__kv_cell *cell);
htc_ns     htc__kv_end_left(htc_kv_server *s, htc_bytes key, const htc__kv_cell *cell); /* 0: it has none */
htc_status htc__kv_ends_tick(htc_kv_server *s); /* remove keys whose end has come, some at a time */
htc_ns     htc__kv_ends_deadline(const htc_kv_server *s);
htc_status htc__kv_end_carry_out(htc_kv_server *s, htc_bytes key); /* remove a key whose end has passed */
void       htc__kv_ends_stored(htc_kv_server *s);
htc_status htc__kv_ends_undone(htc_kv_server *s);

#endif
