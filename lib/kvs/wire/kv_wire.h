/* The store's messages: KV_REQUEST and KV_ANSWER of core/wire.h.
 *
 * The id of a KV_REQUEST is its serial: the client never uses one twice, not for a repetition either, and numbers its
 * transmissions upwards. A session is one connection as the server names it; a request of another session, or one whose
 * serial is not above all serials of its session before, is not executed. So each transmission is executed at most
 * once, and none after a later one: a copy that wandered in the network can do no harm, and the first transmission of a
 * change is known to be the first.
 *
 * KV_REQUEST: u64 session (0: name me one), u64 client, varint since, u8 flags, varint sequence of the first operation
 *   (the next ones count on), varint count, operations.
 * Operation: u8 htc_kv_op, with HTC__KV_OP_EXTRAS if {varint flags, varint ttl} come next (not both 0), and {bytes namespace, bytes
 *   context} if the flags have HTC__KV_IN_SPACE, then
 *   GET, DELETE      bytes key (DELETE with IF_VERSION: varint version)   CAS_VERSION  bytes key, varint version, bytes value
 *   PUT              bytes key, varint lease, bytes value   CAS_VALUE    bytes key, bytes seen, bytes value
 *   APPEND           bytes key, bytes value           ADD          bytes key, u64 delta
 *   SCAN             bytes prefix, bytes cursor, varint limit
 *   LEASE_GRANT      varint ttl                       LEASE_RENEW, LEASE_REVOKE   varint lease
 *   COUNT            nothing                          MEMBERS      u8 1: with the owners of each bucket
 *   CHANGE           u8 htc_kv_change_kind, u64 member, varint weight
 * KV_PACK, from a connection that has greeted as a proxy (HTC_WIRE_ROLE_STORE_PROXY): u64 session, then to the end requests, each as bytes: what
 *   stands in a KV_REQUEST after its session. The same as a KV_REQUEST for each, of that session, with the pack's id as the serial of the first, one
 *   more as that of the second and so on. Each is answered by itself. A request that is broken breaks the whole pack: nothing of it is executed.
 * KV_ANSWER, id = serial: u64 clock, u64 session, u32 count, u32 first, u8 more, answers: to count operations of that
 *   transmission from number first on. more, or-ed: 1 another KV_ANSWER goes on behind them; 2 (HTC__KV_ELSEWHERE, only to a client that has asked
 *   who has which key: owners_wire.h) some of the transmission had to be handed on to the owner of its key. Without 1, where they end before the last
 *   operation, those beyond were not executed and are to be sent again (count 0: a little later). clock is the newest
 *   durable version. Status HTC_AGAIN: no owner has tried this change, but whether another transmission of it was executed cannot be
 *   told; a client that sent it once sends it anew, not as repeated, with a newer since. Answer: u32 status, varint version, u8 fields, then u64 number, u64 lease, bytes value, {varint items,
 *   bytes cursor, bytes items}, u8 existed, varint ttl and {u64 member, bytes context} where fields says so. Item: bytes key, varint version, bytes value. */
#ifndef HTC_KVS_KV_WIRE_H
#define HTC_KVS_KV_WIRE_H

#include "core/wire.h"
#include "htcsched/kv.h"

enum { HTC__KV_REPEATED = 1 };
enum { HTC__KV_MORE = 1, HTC__KV_ELSEWHERE = 2 };
#define HTC__KV_OP_EXTRAS 0x80u
#define HTC__KV_IN_SPACE  0x80u /* of the flags on the wire: a namespace is named, which is none of the request's flags */
enum {
    HTC__KV_HAS_NUMBER = 1,
    HTC__KV_HAS_LEASE = 2,
    HTC__KV_HAS_VALUE = 4,
    HTC__KV_HAS_ITEMS = 8,
    HTC__KV_HAS_OLD = 16, /* existed; the value is HTC__KV_HAS_VALUE's */
    HTC__KV_HAS_TTL = 32,
    HTC__KV_HAS_CONTEXT = 64 /* and the member */
};

/* Where the answers begin in a KV_ANSWER. */
#define HTC__KV_ANSWER_HEAD 35
/* No answer is added to a message that would be longer than this. */
#define HTC__KV_ANSWER_MAX (HTC_WIRE_MESSAGE_MAX - 4096u)
#define HTC__KV_SCAN_LIMIT 10000

/* A value beyond so many bytes takes a while to be sent, written and answered: for each byte more, who waits for it waits so much longer before
 * it is said again, or it would come to wait behind itself. */
#define HTC__KV_LONG_VALUE ((size_t)64 << 10)
#define HTC__KV_BYTE_NS    128u /* 16 MiB: 2.1 s */

static inline htc_ns htc__kv_patience(size_t value_len)
{
    return value_len > HTC__KV_LONG_VALUE ? (value_len - HTC__KV_LONG_VALUE) * HTC__KV_BYTE_NS : 0;
}

typedef struct htc__kv_head {
    uint64_t session, client, since, sequence;
    uint8_t  flags;
    uint8_t  unknown; /* not on the wire: the first operation is one that is not known here */
    size_t   count;
} htc__kv_head;

void htc__kv_head_write(htc_buf *b, const htc__kv_head *head);
void htc__kv_head_read(htc_reader *r, htc__kv_head *head);
/* The same without the session, which stays as it is: of a request in a KV_PACK. */
void htc__kv_head_write_packed(htc_buf *b, const htc__kv_head *head);
void htc__kv_head_read_packed(htc_reader *r, htc__kv_head *head);

/* Bytes of a KV_REQUEST before what a KV_PACK has of it: type, serial, session. */
#define HTC__KV_REQUEST_HEAD 18
void htc__kv_pack_begin(htc_buf *b, uint64_t serial, uint64_t session); /* clears b first; then htc_put_bytes for each request */
/* The bytes of the next request. 1: there was one; 0: none is left, or r has failed. */
int  htc__kv_pack_next(htc_reader *r, htc_bytes *request);
/* Give a KV_REQUEST or a KV_ANSWER that is one as a whole another serial and session, in place. */
void htc__kv_request_rename(uint8_t *message, uint64_t serial, uint64_t session);
void htc__kv_answer_rename(uint8_t *message, uint64_t serial, uint64_t session);

/* HTC_OK if the request keeps the limits of htcsched/kv.h, else HTC_EINVAL or HTC_ETOOBIG. */
htc_status htc__kv_op_check(const htc_kv_request *request);
void       htc__kv_op_write(htc_buf *b, const htc_kv_request *request);
/* Bytes are borrowed; fails the reader for anything that htc__kv_op_check refuses. */
void htc__kv_op_read(htc_reader *r, htc_kv_request *request);
/* r stands at an operation: a later version may have made it, for its number or one of its flags is not known here. Where it ends cannot be
 * told then. */
int  htc__kv_op_unknown(htc_reader r);
/* Read all operations behind a head. 1: they are well-formed, nothing stands behind them, and *len bytes are those that count: where one that is not
 * known here ends nobody can tell, so what stands before it is a request by itself, head->count is so many, and the client sends the rest again; if
 * it is the first, head->unknown is set. read: head->count requests are kept, borrowed; NULL: none. 0: it is broken. */
int  htc__kv_ops_check(htc_reader ops, htc__kv_head *head, htc_kv_request *read, size_t *len);
int  htc__kv_is_change(uint32_t op); /* of a key: leases are not */
int  htc__kv_space_name_fits(htc_bytes name);

typedef struct htc__kv_answer_head {
    uint64_t clock, session;
    uint32_t count, first, more;
} htc__kv_answer_head;

void htc__kv_answer_begin(htc_buf *b, uint64_t serial, const htc__kv_answer_head *head); /* clears b first */
void htc__kv_answer_end(htc_buf *b, uint32_t count, uint32_t more); /* when its answers are behind the head */
/* The same of an answer behind what is in b already, at `at`. */
void htc__kv_answer_append(htc_buf *b, uint64_t serial, const htc__kv_answer_head *head);
void htc__kv_answer_end_at(htc_buf *b, size_t at, uint32_t count, uint32_t more);
void htc__kv_answer_read(htc_reader *r, htc__kv_answer_head *head);

/* status, version, and of number, lease, value, items, cursor and items_bytes what is there. */
void htc__kv_result_write(htc_buf *b, const htc_kv_result *result);
void htc__kv_result_read(htc_reader *r, htc_kv_result *result);
void htc__kv_item_write(htc_buf *b, htc_bytes key, uint64_t version, htc_bytes value);

#endif
