/* What a member has in work for its own clients at once, and not more: so many requests, and so many bytes of them. What is beyond waits where
 * it is cheapest, unread in its connection; its clock starts when it is asked for.
 *
 * Long values have room of their own, so that who writes them does not make others wait; one of them is always let in. What a read takes is
 * not known before its answer: it counts as much as reads took of late. */
#ifndef HTC_KVS_FLIGHT_H
#define HTC_KVS_FLIGHT_H

#include <stddef.h>
#include <stdint.h>

#define HTC__KV_FLIGHT_COUNT 1024u              /* requests in work among several members */
#define HTC__KV_FLIGHT_SHORT ((size_t)32 << 20) /* bytes of those with values of at most HTC__KV_LONG_VALUE */
#define HTC__KV_FLIGHT_LONG  ((size_t)24 << 20) /* of the others: one of the longest */

typedef struct htc__kv_flight {
    uint32_t count, count_max;
    size_t   short_bytes, long_bytes;
    size_t   read; /* bytes that a read took of late */
} htc__kv_flight;

/* 1: one more request with so many bytes has to wait. */
int htc__kv_flight_full(const htc__kv_flight *f, size_t bytes);
/* It is in work; it is answered. */
void htc__kv_flight_enter(htc__kv_flight *f, size_t bytes);
void htc__kv_flight_leave(htc__kv_flight *f, size_t bytes);
/* A read was answered with so many bytes. */
void htc__kv_flight_read(htc__kv_flight *f, size_t bytes);

#endif
