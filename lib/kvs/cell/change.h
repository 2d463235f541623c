/* What a request does to a cell: one pure function for a key with one owner and for a round of its register.
 *
 *     cell --request, stamp--> new cell and answer, or the answer alone
 *
 * A change is applied once for each (client, sequence): doc/design/clients.md. Requests without a client
 * (stamp client 0) are repeated by nobody and noted nowhere. */
#ifndef HTC_KVS_CHANGE_H
#define HTC_KVS_CHANGE_H

#include "kvs/cell/cell.h"
#include "kvs/cell/face.h"

/* An operation of the owners themselves: the end of a key whose ttl has passed. version is the term that ended; HTC_MISMATCH
 * if the key has another one by now. Never from a connection. */
#define HTC__KV_EXPIRE 100u
/* The same of a key that is bound to the lease of this number (version), which has ended; HTC_MISMATCH if it is not any more. */
#define HTC__KV_UNBIND 102u
/* The same of a lease's record; HTC_MISMATCH if it has another version by now. */
#define HTC__KV_END 103u

/* Versions end: who says it has seen more is refused. */
#define HTC__KV_SINCE_MAX (UINT64_MAX >> 2)
/* And a client that says it has seen one so far above all that its member knows: no change may use them up by a lie. More than all changes
 * of a store in its life, for a member that has just started knows of few. */
#define HTC__KV_LEAP_MAX (UINT64_C(1) << 48)

typedef enum htc__kv_effect {
    HTC__KV_CHANGED = 1, /* to is the cell to be stored; the answer is given once it is */
    HTC__KV_UNCHANGED, /* a read, or a change that failed: as the cell is, or HTC_EINVAL, HTC_ETOOBIG of the request */
    HTC__KV_LISTED,    /* done before: the answer is the one of then */
    HTC__KV_UNKNOWN,   /* HTC_EUNKNOWN: perhaps done before */
    HTC__KV_NO_MEMORY  /* of scratch; nothing was done */
} htc__kv_effect;

typedef struct htc__kv_changed {
    htc__kv_effect effect;
    uint8_t        fields;   /* HTC__KV_HAS_... of kvs/wire/kv_wire.h: which of the answer are meant */
    uint64_t       observed; /* the version looked at, tombstones and floors included; after a change the new one */
    htc_kv_result  result;   /* status, version (0: no such key), number, value */
    htc__kv_cell   to;       /* HTC__KV_CHANGED: ballots as in the cell before, for the caller to set */
} htc__kv_changed;

/* The term of a ttl: that of the change that has set it, and of no other. Two owners may each accept another change under one version, of which
 * one becomes final: who holds the other one must not end the key. */
uint64_t htc__kv_term(uint64_t version, const htc__kv_stamp *stamp);

/* Any request about one key: GET, PUT, DELETE, APPEND, CAS_VERSION, CAS_VALUE, ADD, HTC__KV_EXPIRE,
 * HTC__KV_UNBIND, HTC__KV_END.
 *
 * at_least: the new version is above it (a clock of the caller's, or the highest floor answered); it is above the cell's version
 * and stamp->since in any case, so that since may be any number the client has seen as a version, of whatever key.
 * stamp->fresh is believed: with several owners it has to be 0.
 * Values are not copied: those of *out point into cell, request, or scratch, which is cleared first. Whether a lease that a
 * PUT names is alive is the caller's to ask beforehand. */
void htc__kv_change(const htc__kv_cell *cell, const htc_kv_request *request, const htc__kv_stamp *stamp,
                    uint64_t at_least, htc_buf *scratch, htc__kv_changed *out);
/* The same where no value becomes longer than value_max, which is HTC_ETOOBIG; one that is longer already may stay. */
void htc__kv_change_within(const htc__kv_cell *cell, const htc_kv_request *request, const htc__kv_stamp *stamp,
                           uint64_t at_least, size_t value_max, htc_buf *scratch, htc__kv_changed *out);

#endif
