/* The part of an owner that answers: what it does to its cell of a key when another owner (or it itself) asks.
 *
 *     READ      shows what is held and promises nothing
 *     PREPARE   promises to take nothing below a ballot, and shows what is held
 *     ACCEPT    holds a cell under a ballot, and may promise the ballot after it to the same proposer
 *     COLLECT   drops a tombstone that every owner has confirmed to hold
 *
 * Whoever calls checks the epoch of the bucket first, stores what has changed, and lets the reply leave only when that, and
 * everything older that the reply shows, is durable. */
#ifndef HTC_KVS_ACCEPTOR_H
#define HTC_KVS_ACCEPTOR_H

#include "kvs/cell/cell.h"

typedef enum htc__kv_ask_kind {
    HTC__KV_READ = 1,
    HTC__KV_PREPARE,
    HTC__KV_ACCEPT,
    HTC__KV_COLLECT /* is not answered: what it does is known by its effects */
} htc__kv_ask_kind;

typedef struct htc__kv_ask {
    uint8_t        kind;   /* htc__kv_ask_kind */
    uint8_t        next;   /* ACCEPT: promise the successor of the ballot too */
    uint64_t       round;  /* comes back with the reply; of one kind and key never used twice by a proposer */
    uint64_t       epoch;  /* of the bucket */
    htc__kv_ballot ballot; /* PREPARE, ACCEPT; COLLECT: that the tombstone was accepted with */
    htc_bytes      key;
    htc__kv_cell   cell; /* ACCEPT: its ballots mean nothing. COLLECT: only the version */
} htc__kv_ask;

typedef struct htc__kv_reply {
    uint8_t        kind;
    uint8_t        refused;
    uint64_t       round;
    htc__kv_ballot highest; /* refused: what has to be outbid; none if the version floor was in the way */
    uint64_t       floor;   /* the version floor */
    htc_bytes      key;
    htc__kv_cell   cell; /* READ, PREPARE that is not refused: what is held; the value is borrowed */
    htc_bytes      held; /* the same as it is stored, borrowed. To be written: none, then it is written from the cell. Read: there is one */
} htc__kv_reply;

/* What an owner has to do before the reply leaves. */
enum { HTC__KV_STORE_CELL = 1, HTC__KV_DROP_CELL = 2, HTC__KV_STORE_FLOORS = 4, HTC__KV_REPLY = 8 };

/* cell: as held, or htc__kv_cell_absent of the floors. Both are changed in place; a value taken over is borrowed from ask.
 * Answers the duties, or-ed. */
unsigned htc__kv_acceptor_step(htc__kv_cell *cell, htc__kv_floors *floors, const htc__kv_ask *ask,
                               htc__kv_reply *reply);

/* A cell that holds a promise and nothing else may go, if the ballot floor takes its promise over. Duties as above; 0: it may not. */
unsigned htc__kv_acceptor_fold(htc__kv_cell *cell, htc__kv_floors *floors);

void       htc__kv_ask_write(htc_buf *b, const htc__kv_ask *ask);
/* HTC_EPROTO; what it points to is borrowed, and the list of its cell stays where it is. own: this process has just written it. */
htc_status htc__kv_ask_read(htc_bytes bytes, int own, htc__kv_ask *ask);
void       htc__kv_reply_write(htc_buf *b, const htc__kv_reply *reply);
htc_status htc__kv_reply_read(htc_bytes bytes, htc__kv_reply *reply);

#endif
