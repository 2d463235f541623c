/* What members of one store say to each other: KV_MEMBERS of core/wire.h, many items in one message.
 *
 * A member sends on the connection it has opened itself, and reads what comes in on any that greeted as a member; so the
 * message names both ends. The id of a message counts those of its connection: one that was doubled or overtaken is dropped,
 * so that nothing is executed twice. Anything may be lost, or late.
 *
 * KV_MEMBERS: u64 from, u64 to, items. Item: u8 kind, bytes:
 *   ASK      as htc__kv_ask_write
 *   REPLY    as htc__kv_reply_write
 *   FORWARD  u64 tag, u8 tried, u8 kind (below), varint epoch, u64 lease, u64 alive, u64 client, varint sequence, varint since, operation
 *            (kv_wire.h): DELETE of an UNBIND, GET of the lease's record of a RENEW or REVOKE
 *   ANSWER   u64 tag, u8 tried, u64 give to (0: it is the answer; else the member that is to get the request),
 *            varint observed, result (kv_wire.h)
 *   LIST     u64 tag, u8 flags (1: with values, 2: of a watch), varint limit, bytes prefix, bytes after; of a watch then u64 life, varint
 *            stream, varint wish (watch_items.h): whoever does not know these, or no such wish yet, does not answer
 *   LISTED   u64 tag, u8 more, varint version of the map, varint count, so many varint buckets that it cannot speak for, bytes up to (empty unless more), then for each cell with that prefix that is held behind `after`, in
 *            the order of keys: bytes key, u8 flags (1: tombstone, 2: with its value, 4: it says nothing, read the key), varint version, u64 digest of
 *            the cell without its promise, and the value as bytes if the flags say so */
#ifndef HTC_KVS_MEMBERS_H
#define HTC_KVS_MEMBERS_H

#include "kvs/register/acceptor.h"
#include "kvs/cell/change.h"
#include "kvs/wire/kv_wire.h"

enum {
    HTC__KV_ITEM_ASK = 1,
    HTC__KV_ITEM_REPLY,
    HTC__KV_ITEM_FORWARD,
    HTC__KV_ITEM_ANSWER,
    HTC__KV_ITEM_LIST,
    HTC__KV_ITEM_LISTED
};

typedef enum htc__kv_forward_kind {
    HTC__KV_FORWARD_PLAIN,
    HTC__KV_FORWARD_UNBIND, /* the key from the lease, which has ended */
    HTC__KV_FORWARD_RENEW,
    HTC__KV_FORWARD_REVOKE
} htc__kv_forward_kind;

typedef struct htc__kv_forward {
    uint64_t       tag;
    uint8_t        tried, kind;
    uint64_t       epoch; /* of the key's bucket, as whoever forwards it knows it */
    uint64_t       lease;
    htc__kv_stamp  stamp;
    htc_kv_request request; /* what it points to is borrowed */
} htc__kv_forward;

typedef struct htc__kv_forwarded {
    uint64_t      tag, to, observed;
    uint8_t       tried;
    htc_kv_result result; /* what it points to is borrowed */
} htc__kv_forwarded;

enum { HTC__KV_LIST_VALUES = 1, HTC__KV_LIST_WATCHED = 2 };
enum { HTC__KV_LISTED_TOMBSTONE = 1, HTC__KV_LISTED_VALUE = 2, HTC__KV_LISTED_UNSAID = 4 };

typedef struct htc__kv_list_ask {
    uint64_t  tag;
    uint8_t   flags;
    uint64_t  limit;
    htc_bytes prefix, after; /* borrowed */
    uint64_t  life, stream, wish; /* WATCHED: what of watch_items.h has to be known to whoever lists */
} htc__kv_list_ask;

/* What one owner holds of one key. */
typedef struct htc__kv_listed {
    htc_bytes key, value; /* borrowed */
    uint8_t   flags;
    uint64_t  version, digest;
} htc__kv_listed;

void htc__kv_members_begin(htc_buf *b, uint64_t id, uint64_t from, uint64_t to);
/* The next item; 0: the end, or r has failed. */
int htc__kv_members_next(htc_reader *r, uint8_t *kind, htc_bytes *item);

void       htc__kv_forward_write(htc_buf *b, const htc__kv_forward *f);
/* HTC_EPROTO; HTC_EUNSUPPORTED: an operation or a flag that is not known here; all but the request is read. */
htc_status htc__kv_forward_read(htc_bytes bytes, htc__kv_forward *f);
void       htc__kv_forwarded_write(htc_buf *b, const htc__kv_forwarded *f);
htc_status htc__kv_forwarded_read(htc_bytes bytes, htc__kv_forwarded *f); /* HTC_EPROTO */

void       htc__kv_list_write(htc_buf *b, const htc__kv_list_ask *ask);
htc_status htc__kv_list_read(htc_bytes bytes, htc__kv_list_ask *ask); /* HTC_EPROTO */
void       htc__kv_listed_write(htc_buf *b, const htc__kv_listed *cell);
int        htc__kv_listed_next(htc_reader *r, htc__kv_listed *cell); /* 0: the end, or r has failed */

#endif
