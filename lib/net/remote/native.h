/* A client of members of ours behind sockets: native.c is the kind of store, native_link.c its connections. */
#ifndef HTC_NET_STORES_NATIVE_H
#define HTC_NET_STORES_NATIVE_H

#include <netinet/in.h>

#include "core/codec.h"
#include "htcsched/kv.h"
#include "net/loop/address.h"
#include "net/remote/poll_set.h"
#include "net/loop/sealed.h"

#define HTC__NATIVE_PLACES_MAX 16
/* Connections to owners of keys, beside the one to the place that was named. */
#define HTC__NATIVE_MEMBERS 15
#define HTC__NATIVE_HOME    1u /* the client's number of that one; those of the others count on */

/* Where a member answers. */
typedef struct htc__place {
    char    *path; /* Unix socket; NULL: TCP */
    char     host[HTC__HOST_NAME_MAX];
    uint16_t port;
} htc__place;

struct htc__native;

typedef struct htc__native_link {
    struct htc__native *native;
    uint32_t            number;
    int                 called;     /* not home: the client wants it */
    int                 fd;         /* -1: no connection */
    int                 connecting; /* it is not there yet */
    int                 open;       /* of a channel: the handshake is done */
    htc_buf             in, out;    /* bytes of frames: not taken apart yet, not written yet */
    htc_ns              redial, pause;
    htc__sealed        *sealed; /* TCP with keys; else NULL */
    htc__place          place;  /* not home */
} htc__native_link;

typedef struct htc__native {
    htc_env          env;
    htc_kv_client   *client;
    htc_output      *effects;
    htc__native_link links[1 + HTC__NATIVE_MEMBERS]; /* the first is home */
    htc_status       refused; /* what the other side said before it closed */
    char            *token_path, *key_path, *ring_path;
    uint32_t         role;
    htc__place       places[HTC__NATIVE_PLACES_MAX]; /* of home */
    uint32_t         count, at; /* of places; the one whose turn it is */
    uint32_t         misses;    /* connections of home that were lost or not made since the last answer */
    uint64_t         dials;     /* sockets made so far */
    htc_ns           patience;
} htc__native;

void       htc__native_init(htc__native *c);
void       htc__native_end(htc__native *c);
/* Home: to the place whose turn it is, now and with patience. 0, or -1 with errno. Then the greeting. */
int        htc__native_dial(htc__native *c);
htc_status htc__native_greet(htc__native *c);
htc_status htc__native_hang_up(htc__native_link *link);
/* One turn: until something can be read or written, or the moment has come. */
htc_status htc__native_turn(htc__native *c, htc_ns end);
/* The sockets there are and what each waits for; when the next turn is due though none says anything. */
uint32_t   htc__native_sockets(const htc__native *c, htc__poll_socket *sockets);
htc_ns     htc__native_deadline(const htc__native *c);
/* What the client wants done: its messages into buffers, whom it calls noted. */
void       htc__native_carry_out(htc__native *c);
/* The client takes up again what it was doing. */
void       htc__native_answered(htc__native *c);

#endif
