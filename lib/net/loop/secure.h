/* Connections through a secure channel: what conn.c and listen.c ask of secure.c, and host_keys.c of both.
 *
 *     accepted:  SHAKE -> OPEN                      a stranger until its key is known
 *     dialled:   IDLE -> CONNECTING -> SHAKE -> OPEN
 *
 * The channel takes the place of the connection's output buffer; what comes out of it lands in its input buffer. */
#ifndef HTC_NET_SECURE_H
#define HTC_NET_SECURE_H

#include <sys/socket.h>

#include "htcsched/channel.h"
#include "htcsched/host_keys.h"
#include "net/loop/address.h"
#include "net/loop/host_private.h"

#define HTC__SLOTS 256 /* of addresses of strangers, by a keyed hash */

/* What tells one state of a file from another; all 0: there is none. */
typedef struct htc__keys_seen {
    int64_t  changed_s, changed_ns;
    uint64_t size, inode;
} htc__keys_seen;

struct htc_host_keys {
    htc_host             *host;
    htc_host_keys_options options; /* its strings are the ones below */
    char                 *key_path, *ring_path, *once_path;
    htc_identity         *identity;
    htc_keyring          *ring;
    htc_enrolment        *enrolment;
    htc_gate             *gate;
    struct event         *hangup, *turn;     /* SIGHUP; the gate's next secret */
    struct event         *look;              /* at the files; NULL: it is not */
    htc__keys_seen        seen[3];           /* as they were when they were read: key, ring, secrets */
    htc__secure          *oldest, *youngest; /* strangers */
    uint32_t              slots[HTC__SLOTS];
    uint8_t               places[16]; /* key of the hash */
    htc_host_keys_counts  counts;
    uint32_t              changing, load_wanted; /* files that are being written */
    uint32_t              asking, asked; /* a name is being asked for; the last connection whose name was */
    htc_ns                said;                  /* the last line about somebody who was refused */
    uint32_t              unsaid;
    htc__hook             hook;
};

struct htc__secure {
    htc_host_keys *keys;
    htc__conn     *conn;
    htc_channel   *channel;   /* from the moment that it is connected */
    char           where[64];                  /* the other end, for logs */
    char           peer[HTC_KEY_NAME_MAX + 1]; /* who it is, once that is known */
    /* dialled */
    char     node[HTC__HOST_NAME_MAX]; /* the one at hand */
    uint16_t tcp_port;
    char    *addresses; /* all, with commas between */
    size_t   next;      /* where the one after it begins there */
    uint32_t waiting; /* its name has to be asked for */
    uint32_t tries; /* the next of the addresses that the name has */
    uint32_t spoke; /* on this socket */
    char     name[HTC_KEY_NAME_MAX + 1]; /* who has to answer; "": anybody of peer_role */
    uint32_t peer_role, only_xx, has_cookie;
    uint8_t  cookie[HTC_CHANNEL_COOKIE];
    void   (*refused)(void *ctx, htc_status why, const char *reason);
    void    *refused_ctx;
    /* accepted */
    uint32_t     accept;
    uint8_t      source[16];
    uint32_t     source_len;
    uint32_t     stranger, slot;
    htc__secure *older, *younger;
};

/* --- secure.c --- */

/* The address that is tried next. 0: it is none. */
int htc__secure_turn(htc__secure *s);

/* Somebody has come in; fd is taken. */
htc_status htc__secure_accept(htc_host_keys *keys, int fd, const htc_peer_info *info, uint32_t accept);
/* Close a stranger so that somebody else has room. 0: there is none. */
int htc__secure_crowd_out(htc_host_keys *keys);
/* The time for the next try has come. */
void htc__secure_dial(htc__conn *c);
/* A dialled connection can be written to: it is there, or failed. */
void htc__secure_connected(htc__conn *c);
/* Read from the socket into c->in. 1: go on with what is there; 0: the peer has said all; -1: the connection is at its end. */
int htc__secure_read(htc__conn *c);
/* The time for the handshake is over. */
void htc__secure_late(htc__conn *c);
/* It has said something beside the handshake: a caller thinks a connection open before it knows that it is let in. */
int htc__secure_spoke(const htc__conn *c);
/* The channel failed, or its key is not known any more: tell the other end if that is possible, and close. */
void htc__secure_fail(htc__conn *c, htc_status why, const char *reason);
/* Its socket is gone; it is. */
void htc__secure_gone(htc__conn *c);
void htc__secure_free(htc__conn *c);

/* --- listen.c --- */

/* For those whose keys are known. */
htc_status htc__listen_secure(htc_host_keys *keys, const char *address, uint32_t port, uint32_t accept, uint16_t *bound,
                              htc_error *error);

/* --- host_keys.c --- */

/* A key has been pinned: write it to the ring file. enrolled: its one-time secrets are used up. */
void htc__host_keys_pinned(htc_host_keys *keys, const char *name, uint32_t role, uint32_t state, const uint8_t *key,
                           int enrolled);
/* A line to the log about who was refused, but not one for each stranger. */
void htc__host_keys_say(htc_host_keys *keys, const htc__secure *s, const char *reason);

#endif
