/* Who a member is: a number drawn into a fresh directory, and how it last ran. */
#ifndef HTC_EXAMPLES_IDENTITY_H
#define HTC_EXAMPLES_IDENTITY_H

#include "daemon.h"

#define MEMBERS_MAX 256

typedef struct member_address {
    uint64_t id;
    uint64_t process;      /* the id of the first of the shards of its process; 0: it is a process */
    char     path[4096];   /* of the Unix socket where it answers; "": at address */
    char     address[320]; /* HOST:PORT */
    char     name[HTC_PEER_NAME_MAX]; /* of its key; "": any member's */
    uint64_t domain; /* of identity_domain; 0: none */
    uint32_t weight; /* 0: 1 */
} member_address;

/* Refused if that is the directory of a local cluster: who looks for a store there finds the cluster's. */
htc_status identity_may_be_in(htc_daemon *d, const char *dir);
/* Draw the id of the member in d->state, once; text gets its 16 hexadecimal digits. */
htc_status identity_draw(htc_daemon *d, char text[17]);
/* Write down an id that was not drawn here. */
htc_status identity_make(htc_daemon *d, uint64_t id);
/* HTC_ENOTFOUND, without a word in d->error: nobody has drawn one. */
htc_status identity_read(htc_daemon *d, uint64_t *id);
/* Something has been stored in it. */
int identity_has_store(htc_daemon *d);
/* Refused if what it promised when it last ran may be lost. */
htc_status identity_check(htc_daemon *d);
/* It has left its store, and does not come back. */
htc_status identity_left(htc_daemon *d);
/* It is about to promise things, with this durability: to be written down before the first of them. */
htc_status identity_ran(htc_daemon *d, uint64_t id, const char *durability);
/* "ID@unix:PATH" or "ID@tcp://[NAME@]HOST:PORT", each with ",domain=NAME" and ",weight=W" behind it or not, added to *count of them. "ID,ID,...@" are the shards of a process, which answer where
 * identity_shard_path and identity_shard_address say. */
htc_status identity_parse(htc_daemon *d, const char *text, member_address list[MEMBERS_MAX], uint32_t *count);
/* The number of a failure domain of that name: 1 to 63 of a-z, A-Z, 0-9, dash, underscore, dot. 0: it is no name. */
uint64_t identity_domain(const char *name);
/* 1 to HTC_RING_WEIGHT_MAX; 0: it is no weight. */
uint32_t identity_weight(const char *text);
/* unix:PATH or tcp://[NAME@]HOST:PORT. 0: it is neither. */
int identity_where(const char *text, member_address *out);
#define ADDRESS_MAX 256 /* of htc_kv_server_options.member_addresses */
/* As the members tell each other where one answers: unix:PATH, from wherever they run, or tcp://[NAME@]HOST:PORT. 0: too long. */
int identity_address(const member_address *m, char text[ADDRESS_MAX]);
/* Where the nth shard of a process, from 1, answers that has this socket: DIR/shard-N/NAME for DIR/NAME. 0: too long. */
int identity_shard_path(const char *socket, uint32_t nth, char *out, size_t cap);
/* For HOST:PORT it is HOST:PORT+N-1. 0: there is no such port. */
int identity_shard_address(const char *address, uint32_t nth, char *out, size_t cap);

#endif
