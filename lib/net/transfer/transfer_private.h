/* What the two halves of htc-transfer share: fetch.c, which gets a file from its URL, and send.c, which puts one there. */
#ifndef HTC_NET_TRANSFER_PRIVATE_H
#define HTC_NET_TRANSFER_PRIVATE_H

#include <curl/curl.h>

#include "core/url.h"
#include "net/transfer/transfer.h"
#include "roles/transfer/judge.h"
#include "roles/transfer/transfer_wire.h"

#define TAG_MAX     512     /* of what a server knows its content by */
#define IGNORED_MAX 1048576 /* of the body of an answer that is not the content */

typedef struct transfer {
    CURL            *curl;
    transfer_request r;
    int              dir, netrc; /* descriptors; netrc -1: none */
    char             netrc_path[64], ca[4096], proxy[4096];
    /* of the one that is on its way */
    char     url[HTC__URL_MAX + 1]; /* where it is now */
    char     name[80], part[88], tag_name[88];
    int      is_ftp, no_login; /* no_login: it is another host than the user named */
    int      fd;
    uint64_t at;     /* where the next byte goes, or comes from */
    uint64_t length; /* of what is sent */
    uint64_t resume; /* bytes of it that were here */
    char     known[TAG_MAX]; /* what the server called these; "": nothing */
    int      begun;  /* a byte of the content has come */
    uint64_t ignored;
    transfer_end own; /* why we have ended it; TRANSFER_DONE: we have not */
    /* of its answer */
    char     etag[TAG_MAX], modified[64], location[16];
    int      chunked, old_http;
    int64_t  range_from; /* of 206; -1 */
    unsigned code;
    int      up; /* it is sent */
    char     text[1024];
} transfer;

/* transfer.c: one request of t->url. What both ways need is set; 0: libcurl lacks something. */
int          htc__transfer_set(transfer *t);
transfer_end htc__transfer_end_of(CURLcode why);
/* A callback ends the transfer: what it answers then. */
size_t       htc__transfer_give_up(transfer *t, transfer_end why);
/* The last answer says that it is elsewhere: t->url is where, then. first: the URL that was asked for. 0: not followed. */
int          htc__transfer_is_elsewhere(unsigned code);
int          htc__transfer_follow(transfer *t, const char *first, unsigned hops);
/* How it ended, with the URL: into t->text. */
void         htc__transfer_say(transfer *t, transfer_end end, const char *first);
/* fetch.c, send.c: HTC_OK, or t->text says why not. */
htc_status   htc__transfer_fetch_one(transfer *t, const transfer_one *one);
htc_status   htc__transfer_send_one(transfer *t, const transfer_one *one);

#endif
