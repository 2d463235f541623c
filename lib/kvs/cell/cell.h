/* What one owner stores of one key: the value with its version, what makes a repeated change harmless, and what the owner
 * has promised.
 *
 * The last change of each of at most HTC__KV_CLIENTS clients stands in the cell itself, so it is as durable as the
 * change and goes where the key goes. `forgot` is the version written by the newest change that was dropped from the list: a
 * change not listed, whose client had seen that version or a later one when it first sent it, was never applied. A deleted
 * key leaves a tombstone: present, without a value. A cell that is not present holds a promise and nothing else, or nothing
 * at all: then version and forgot are the version floor of its bucket, and no byte of it is stored.
 *
 * Where a key has one owner there are no ballots (both none), and a cell costs a few bytes. With several, a cell that only
 * one proposer ever touched has `promise` as the successor of `accepted`, which is one bit.
 *
 * Stored: u8 format, u8 flags, then as the flags say: varint version (present), accepted {varint epoch, counter, u64
 * proposer}, promise (the same), varint forgot, life {varint lease, ttl, term}, list {varint bytes, the newest change first {varint versions
 * below the one before, the first below the cell's, u64 client, varint sequence, varint zig-zag number}}, and the value to the end.
 * Numbers have their shortest form and flags are set only for what is not zero: one cell has one form. A reader of the value steps over
 * the list, and a change of the cell leaves most of the list's bytes as they are. No checksum: engines below have theirs, and an LMDB
 * overlay seals it as htc__kv_seal does.
 *
 * Format 2, with another form of the list, is read too and never written: an owner keeps such a cell until it is changed, and shows it as it
 * stands. So stored bytes are never compared: whoever compares cells compares what was read, or that written anew. */
#ifndef HTC_KVS_CELL_H
#define HTC_KVS_CELL_H

#include "kvs/cell/ballot.h"
#include "kvs/cell/record.h"

#define HTC__KV_CELL_FORMAT 3

/* A list that stays where it is stored, for a change by one client. */
/* Keys with this prefix are the store's own: the map, leases. No client may name one. */
#define HTC__KV_OWN_PREFIX "\0htc\0"
static inline int htc__kv_own_key(htc_bytes key)
{
    size_t len = sizeof HTC__KV_OWN_PREFIX - 1;
    return key.len >= len && memcmp(key.data, HTC__KV_OWN_PREFIX, len) == 0;
}

typedef struct htc__kv_left_list {
    htc_bytes    bytes;   /* its entries, borrowed as the value is; none: the cell's own list is all there is */
    uint64_t     version; /* that the first of them lies below */
    htc__kv_seen own;     /* of that client; client 0: it has none */
    /* What goes from it when that client's next change is noted: its own entry, or of a full list the oldest. */
    size_t   cut_at, cut_end;
    uint64_t cut_below, cut_version;
} htc__kv_left_list;

typedef struct htc__kv_cell {
    uint8_t           present; /* a value or a tombstone; else version and forgot are the floor */
    uint8_t           deleted;
    uint8_t           count;
    uint64_t          version, forgot;
    htc__kv_ballot    accepted; /* of what is present; none with one owner */
    htc__kv_ballot    promise;  /* never below accepted */
    uint64_t          lease;    /* bound to that lease; 0: none */
    htc_ns            ttl;      /* a lease of its own; 0: none */
    uint64_t          term;     /* of the ttl: of the change that set it, htc__kv_term */
    htc_bytes         value;    /* borrowed */
    htc__kv_left_list listed;   /* where the list was not taken apart; then seen is what was noted since, one at most */
    htc__kv_seen      seen[HTC__KV_CLIENTS]; /* newest change first; no version above the cell's or the one before */
} htc__kv_cell;

/* What a bucket remembers of the keys it holds no cell of; both only rise, durably. */
typedef struct htc__kv_floors {
    uint64_t       version; /* an absent key has this version, and this forgot */
    htc__kv_ballot ballot;  /* an absent key has promised this */
} htc__kv_floors;

/* A key that this bucket holds no cell of. */
htc__kv_cell htc__kv_cell_absent(const htc__kv_floors *floors);
/* What is written anew without a change, a write-back or a record of an image, comes above the highest version floor answered with "absent":
 * somebody may have been told that one. A key without a record becomes a tombstone. The list stays: a change keeps the version it was made
 * with, which others may have seen. */
void htc__kv_cell_lift(htc__kv_cell *cell, uint64_t floor);
/* Is there something of it to store? */
int htc__kv_cell_empty(const htc__kv_cell *cell);

void htc__kv_cell_write(htc_buf *b, const htc__kv_cell *cell);
/* What was read from these bytes, written with no promise but what it was accepted with: the same whatever format they have. */
void htc__kv_cell_write_unpromised(htc_buf *b, htc_bytes bytes, const htc__kv_cell *cell);
/* HTC_ECORRUPT if these bytes are not what htc__kv_cell_write makes, or made in format 2. cell->value is borrowed from bytes. floors: of the
 * bucket, for a cell that is not present; NULL: zero. */
htc_status htc__kv_cell_read(htc_bytes bytes, const htc__kv_floors *floors, htc__kv_cell *cell);
/* The same for who is about to replace the cell: without list and value, which are not looked at. */
htc_status htc__kv_cell_head(htc_bytes bytes, const htc__kv_floors *floors, htc__kv_cell *cell);

/* The same for a change by this client: the list is looked at, and stays where it is (but for format 2). Of such a cell htc__kv_cell_find and
 * htc__kv_cell_note know that client alone, and it is not to be compared. */
htc_status htc__kv_cell_read_for(htc_bytes bytes, const htc__kv_floors *floors, uint64_t client, htc__kv_cell *cell);

/* The same of bytes that this process has written itself a moment ago, for who only stores them: the list is not looked at. */
htc_status htc__kv_cell_read_own(htc_bytes bytes, htc__kv_cell *cell);

/* The cell of most keys: a value, its version, what was forgotten and the list, on which neither lease nor end nor ballots hang. 1: it is
 * one, and a reader needs to know no more (the list is stepped over, whatever it is); 0: read it whole. */
int htc__kv_cell_plain(htc_bytes bytes, uint64_t *version, htc_bytes *value);
/* As an assignment, without the unused entries of the list, which are most of a cell. */
void htc__kv_cell_copy(htc__kv_cell *to, const htc__kv_cell *from);

/* The same change: accepted ballot, version, list, life and value are equal; promises do not matter. */
int htc__kv_cell_same(const htc__kv_cell *a, const htc__kv_cell *b);

/* The entry of a client; NULL if it is not listed. */
const htc__kv_seen *htc__kv_cell_find(const htc__kv_cell *cell, uint64_t client);
/* Note a change: the client's older entry goes, or with a full list the oldest one, which raises forgot. */
void htc__kv_cell_note(htc__kv_cell *cell, const htc__kv_seen *seen);

void           htc__kv_ballot_write(htc_buf *b, const htc__kv_ballot *ballot);
htc__kv_ballot htc__kv_ballot_read(htc_reader *r);

#endif
