/* What a member has in work for its own clients at once, and not more: so many requests, and so many bytes of them. What is beyond waits where
 * it is cheapest, unread in its connection; its clock starts when it is asked for.
 *
 * Long values have room of their own, so that who writes them does not make others wait; one of them is always let in. What a read takes is
 * not known before its answer: a key that was long when it was last written or read here counts as much again, every other as much as
 * reads of such keys took of late. */
#ifndef HTC_KVS_FLIGHT_H
#define HTC_KVS_FLIGHT_H

#include <stddef.h>
#include <stdint.h>

#include "htcsched/bytes.h"

#define HTC__KV_FLIGHT_COUNT 1024u              /* requests in work among several members */
#define HTC__KV_FLIGHT_SHORT ((size_t)32 << 20) /* bytes of those with values of at most HTC__KV_LONG_VALUE */
#define HTC__KV_FLIGHT_LONG  ((size_t)24 << 20) /* of the others: one of the longest */

#define HTC__KV_FLIGHT_KNOWN 512u /* long keys that are remembered at once: about, each has one place by its hash */

typedef struct htc__kv_flight {
    uint32_t count, count_max;
    size_t   short_bytes, long_bytes;
    size_t   read; /* bytes that a read of a key took of late of which nothing was known */
    struct {
        uint32_t mark, bytes; /* bytes 0: nothing is known */
    } known[HTC__KV_FLIGHT_KNOWN];
} htc__kv_flight;

/* 1: one more request with so many bytes has to wait. */
int htc__kv_flight_full(const htc__kv_flight *f, size_t bytes);
/* It is in work; it is answered. */
void htc__kv_flight_enter(htc__kv_flight *f, size_t bytes);
void htc__kv_flight_leave(htc__kv_flight *f, size_t bytes);
/* A request with so many bytes of value is in work for this key; a read of it was answered with so many. What makes a long value short is
 * not known from the request: the next read tells. */
void htc__kv_flight_asked(htc__kv_flight *f, htc_bytes key, size_t bytes);
void htc__kv_flight_read(htc__kv_flight *f, htc_bytes key, size_t bytes);
/* So many bytes a read of this key will take, as far as one can tell. */
size_t htc__kv_flight_guess(const htc__kv_flight *f, htc_bytes key);
/* So much longer than a short request alone may one of so many bytes take that comes behind all that is in work. */
htc_ns htc__kv_flight_patience(const htc__kv_flight *f, size_t bytes);

#endif
