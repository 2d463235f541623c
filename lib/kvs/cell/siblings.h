/* What an eventual namespace keeps under a key: the values that no later write has seen, and what is known of the past.
 *
 * A dotted version vector set (Almeida, Baquero, Goncalves, Preguica, Fonte, "Scalable and Accurate Causality Tracking for
 * Eventually Consistent Stores", 2014). For each member that ever coordinated a write of the key there is one line: how many
 * writes of it are known, and the values of the newest of them that nobody has replaced. The counters alone are the vector
 * clock; a line with counter n and k values holds the writes n, n - 1, ... n - k + 1. Compared with a vector clock on each
 * value, two clients that write through one member at the same time are told apart, and neither loses.
 *
 * A context (what a client got with its last get and gives back with its put) is the same thing without values. A put
 * replaces just the values its context covers.
 *
 * Stored: varint lines, then for each in the order of members u64 member, varint counter, varint count, count x {u8 flags,
 * u64 client, varint sequence, bytes value}. */
#ifndef HTC_KVS_SIBLINGS_H
#define HTC_KVS_SIBLINGS_H

#include "core/codec.h"

/* A put that would leave more values than this is refused: its client has to reconcile first. */
#define HTC__SIBLINGS_MAX 16
/* Bounds of what is read and merged. Members of one bucket are few; those that left stay in the clock. */
#define HTC__SIBLINGS_LINES  64
#define HTC__SIBLINGS_VALUES 256
/* No honest counter comes near it, and one more always fits. */
#define HTC__SIBLINGS_COUNTER (UINT64_MAX >> 2)
/* How far above what a member holds a context may count: more than all writes of a store and what is left out where disks were lost. */
#define HTC__SIBLINGS_LEAP (UINT64_C(1) << 48)

typedef struct htc__sibling {
    uint64_t  client, sequence; /* who wrote it: a repeated put can leave the same value twice */
    uint8_t   deleted;
    htc_bytes value; /* borrowed */
} htc__sibling;

typedef struct htc__siblings_line {
    uint64_t member, counter;
    uint32_t first, count; /* its values, newest first */
} htc__siblings_line;

typedef struct htc__siblings {
    uint32_t           lines, values;
    htc__siblings_line line[HTC__SIBLINGS_LINES]; /* members ascending */
    htc__sibling       value[HTC__SIBLINGS_VALUES];
} htc__siblings;

typedef enum htc__causal {
    HTC__CAUSAL_SAME,
    HTC__CAUSAL_BEFORE,
    HTC__CAUSAL_AFTER,
    HTC__CAUSAL_CONCURRENT
} htc__causal;

/* HTC_EPROTO for bytes that are no such set. Values are borrowed from the bytes; *s is undefined on failure. No bytes: empty. */
htc_status htc__siblings_read(htc_bytes bytes, htc__siblings *s);
void       htc__siblings_write(htc_buf *b, const htc__siblings *s);
void       htc__siblings_write_context(htc_buf *b, const htc__siblings *s);

/* Everything both know: commutative, associative, idempotent. HTC_EFULL beyond the bounds. out is neither of them. */
htc_status htc__siblings_merge(htc__siblings *out, const htc__siblings *a, const htc__siblings *b);
/* How a stands to b: BEFORE: b knows all that a does, and more. */
htc__causal htc__siblings_compare(const htc__siblings *a, const htc__siblings *b);

/* A context counts so far above all that is held, and above floor, that no honest client has it: numbers are not to be used up by a lie. */
int htc__siblings_leaps(const htc__siblings *context, const htc__siblings *held, uint64_t floor);

/* A write by member, of a client that had seen context. HTC_EFULL: too many siblings; HTC_EINVAL: no honest context.
 * out is neither of them; undefined on failure. */
htc_status htc__siblings_put(htc__siblings *out, const htc__siblings *s, const htc__siblings *context, uint64_t member,
                             const htc__sibling *value);

/* The value that largest-wins chooses: the greatest by htc_bytes_compare, any value before a deletion. NULL: none. */
const htc__sibling *htc__siblings_largest(const htc__siblings *s);

#endif
