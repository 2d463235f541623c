/* The proxy's inside.
 *
 *   proxy.c        clients: greeting, sessions, what waits; the machine
 *   proxy_store.c  the store behind it: which one, what leaves together, what comes back
 *
 *   client                       proxy                              store
 *     KV_REQUEST serial 5, s1 ->  waits, in its client's turn
 *     KV_REQUEST serial 9, s2 ->  waits
 *                                 KV_PACK serial 70: both     ->    executes 70, 71
 *     KV_ANSWER serial 5, s1  <-  htc__proxy_sent[0]          <-    KV_ANSWER serial 70
 *     KV_ANSWER serial 9, s2  <-  htc__proxy_sent[1]          <-    KV_ANSWER serial 71
 *
 * A transmission of a client is passed on once, in the order of its connection, over one connection to the store: what the store promises of serials
 * (each executed at most once, and none after a later one) holds from end to end. When that connection is lost, so is everything that went over it or
 * waits for it, and all clients are closed: they send again what they know to be unanswered, as repeated. */
#ifndef HTC_KVS_PROXY_H
#define HTC_KVS_PROXY_H

#include "core/wire.h"
#include "htcsched/kv_proxy.h"
#include "kvs/util/table.h"
#include "kvs/wire/kv_wire.h"

/* A request that waits: what a KV_PACK has of it. */
typedef struct htc__proxy_request {
    struct htc__proxy_request *next;
    uint64_t                   serial; /* its client's */
    size_t                     len;
    uint8_t                    bytes[];
} htc__proxy_request;

typedef struct htc__proxy_client {
    struct htc__proxy_client *next; /* of those with requests that wait */
    uint64_t                  session, serial; /* serial: the highest that was taken */
    uint64_t                  events; /* messages about watches */
    uint32_t                  peer;
    uint16_t                  welcomed; /* 0: not yet */
    uint32_t                  held; /* messages of it that wait or are not answered */
    size_t                    bytes; /* of those that wait */
    htc__proxy_request       *first, *last;
} htc__proxy_client;

/* A request that was passed on. */
typedef struct htc__proxy_sent {
    uint64_t session, serial; /* its client's; session 0: the proxy itself has asked */
    htc_ns   at;
    size_t   len;
    uint32_t peer;
    uint32_t open; /* not answered entirely, and not forgotten */
} htc__proxy_sent;

typedef struct htc__proxy_store {
    uint32_t peer;
    uint32_t connected, welcomed;
    uint64_t session; /* 0: not named yet */
    uint64_t serial, serial_first; /* the last one used; the first of this connection */
    htc_ns   greet_due, heard; /* heard: at last */
} htc__proxy_store;

struct htc_kv_proxy {
    htc_env              env;
    htc_kv_proxy_options options;
    htc__proxy_store     stores[HTC_KV_PROXY_STORES_MAX];
    htc__proxy_store    *store; /* that gets everything; NULL: there is none */
    uint64_t             clock; /* the newest durable version that a store told */
    htc_ns               now;
    htc_buf              message;
    htc_kv_proxy_stats   stats;
    uint32_t             turns, stopped;

    htc__table           clients; /* by peer */
    htc__proxy_client   *turn, *turn_last; /* those with requests that wait, whose turn is next first */
    size_t               waiting, waiting_bytes;

    htc__proxy_sent     *sent; /* a ring: of the serials from sent_first on */
    size_t               sent_cap, sent_at, sent_count;
    uint64_t             sent_first;
    size_t               sent_bytes, unanswered; /* of those that are open */
    uint64_t             newest;      /* the first serial of the newest message */
    size_t               newest_open; /* of its requests, those that are */
    htc_ns               newest_at;
    htc_ns               doubted, doubt_due; /* since when the store has to show that it is there; 0: it has not */
};

/* proxy.c */
htc_status         htc__proxy_send(htc_kv_proxy *p, uint32_t peer, htc_output *out); /* what stands in p->message */
htc__proxy_client *htc__proxy_client_of(const htc_kv_proxy *p, uint32_t peer);
/* The next request to be passed on, out of turn; NULL: none waits. It is freed with htc__proxy_request_free. */
htc__proxy_request *htc__proxy_request_take(htc_kv_proxy *p, uint32_t *peer);
size_t              htc__proxy_request_next(const htc_kv_proxy *p); /* its length; 0: none waits */
void                htc__proxy_request_free(htc_kv_proxy *p, htc__proxy_request *q);
htc_status          htc__proxy_clients_close(htc_kv_proxy *p, htc_output *out);

/* proxy_store.c */
htc__proxy_store *htc__proxy_store_of(htc_kv_proxy *p, uint32_t peer); /* NULL: it is a client */
htc_status        htc__proxy_store_input(htc_kv_proxy *p, htc__proxy_store *s, const htc_input *in, htc_output *out);
/* Greet again, forget, and pass on what may leave now. */
htc_status        htc__proxy_store_turn(htc_kv_proxy *p, htc_output *out);
htc_ns            htc__proxy_store_deadline(const htc_kv_proxy *p);

#endif
