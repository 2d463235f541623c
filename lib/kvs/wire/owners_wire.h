/* Who has which key, as clients are told: KV_OWNERS_ASK and KV_OWNERS of core/wire.h.
 *
 * A member of several says in its WELCOME, behind the version of the protocol: varint have, u64 its id. have is the version of the map
 * that it has seen, plus one; a store of one member says neither, and nor does one where both speak version 1: then nothing more is said of maps. A client
 * that wants to send each request to the owner which proposes its key's changes asks with KV_OWNERS_ASK: varint have, that of what it knows, 0:
 * nothing. It is answered with KV_OWNERS of the same id; from then on an answer to a request that the member had to hand on says
 * so (HTC__KV_ELSEWHERE in kv_wire.h), and a client that meets this asks again.
 *
 * KV_OWNERS: u8 1 (its form), varint have, u64 seed of places (kvs/util/place.h), u8 bits: there are 2^bits buckets, varint members, for each u64
 *   id, bytes address; u8 1: all buckets follow, from the first on; 0: varint how many follow, those that are others since what the client
 *   has; a bucket: (0: varint how many buckets lie between it and the one before it,) u8 owners, for each varint its place in the list of
 *   members. The first owner is the one to ask. No members: nothing is new, and no bucket follows. */
#ifndef HTC_KVS_OWNERS_WIRE_H
#define HTC_KVS_OWNERS_WIRE_H

#include "core/wire.h"
#include "htcsched/ring.h"
#include "kvs/wire/limits.h"

#define HTC__KV_OWNERS_FORM 1

typedef struct htc__kv_owners_head {
    uint64_t have, seed;
    uint8_t  bits;
    size_t   members;
} htc__kv_owners_head;

typedef struct htc__kv_owners_member {
    uint64_t  id;
    htc_bytes address; /* without zero bytes, at most HTC__KV_MAP_ADDRESS - 1; empty: nobody has said where it is */
} htc__kv_owners_member;

typedef struct htc__kv_owners_bucket {
    uint32_t number, n;
    uint32_t member[HTC_RING_OWNERS_MAX];
} htc__kv_owners_bucket;

/* Where a reader of a KV_OWNERS stands. */
typedef struct htc__kv_owners_at {
    htc_reader r;
    size_t     members, left; /* left: buckets */
    uint64_t   next;
    uint32_t   buckets;
    int        whole;
} htc__kv_owners_at;

/* version: what both speak: one of number 1 is told neither. */
void htc__kv_welcome(htc_buf *b, uint64_t id, uint16_t version, uint64_t have, uint64_t member);
/* r behind the header of a WELCOME to a client that has announced highest; 0 and 0 where nothing is said. HTC_EVERSION: no number that it
 * speaks. */
htc_status htc__kv_welcome_read(htc_reader r, uint16_t highest, uint64_t *have, uint64_t *member);

void htc__kv_owners_ask(htc_buf *b, uint64_t id, uint64_t have);
void htc__kv_owners_begin(htc_buf *b, uint64_t id, const htc__kv_owners_head *head);
void htc__kv_owners_member_write(htc_buf *b, const htc__kv_owners_member *member);
/* Behind the members. between: buckets since the one before; only of those that are others. */
void htc__kv_owners_buckets(htc_buf *b, int whole, size_t count);
void htc__kv_owners_bucket_write(htc_buf *b, int whole, uint32_t between, const htc__kv_owners_bucket *bucket);

/* HTC_OK if all of it can be read, r behind the header of the message: then what follows does not fail. HTC_EPROTO. */
htc_status htc__kv_owners_check(htc_reader r);
void       htc__kv_owners_read(htc_reader r, htc__kv_owners_head *head, htc__kv_owners_at *at);
void       htc__kv_owners_member_read(htc__kv_owners_at *at, htc__kv_owners_member *member); /* head.members times */
int        htc__kv_owners_bucket_read(htc__kv_owners_at *at, htc__kv_owners_bucket *bucket); /* 0: there is no more */

#endif
