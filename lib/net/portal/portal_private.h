/* The portal (doc/portal.md): one request a connection; whatever says who somebody is comes from the gateway.
 *
 *   portal.c         connections, their bounds, who may ask what from where, the page's own files
 *   portal_ask.c     one request of a user to the gateway, and its answer; an output that is downloaded
 *   portal_archive.c all outputs of a job, as one archive that is made while it goes (tar_head.c: what stands in it)
 *   portal_events.c  streams of events: one feed for all pages of a login that look at the same job
 *
 * A request passes: Host names this portal (an address that somebody's name was pointed at is refused), the path is known, and where
 * something may change: the page's own header is there and Origin and Sec-Fetch-Site, if the browser says them, are this portal's. Host decides
 * which of its two names it was asked by, its own address or the public origin; Origin has to be the same. Then the session's cookie is
 * handed to the gateway as the token of the request. A cookie is a claim: what takes much room (a large body, an archive) gets it when the gateway has
 * said whose session it is, and each user has a part of the room. Threads: the loop's. */
#ifndef HTC_NET_PORTAL_PRIVATE_H
#define HTC_NET_PORTAL_PRIVATE_H

#include "htcsched/gateway_host.h"
#include "net/loop/address.h"
#include "net/loop/guest.h"
#include "net/loop/host_private.h"
#include "net/loop/http_request.h"

#define PORTAL_HEAD_MAX 8192
#define PORTAL_BODY_MAX ((size_t)16 << 20)      /* of somebody with a session */
#define PORTAL_BODY_STRANGER ((size_t)8 << 10)  /* of anybody */
#define PORTAL_BODY_SMALL ((size_t)64 << 10)    /* such ones always have room: the number of connections bounds them */
#define PORTAL_BODIES_MAX ((size_t)64 << 20)    /* announced by all larger ones that are open, */
#define PORTAL_BODIES_OF_USER PORTAL_BODY_MAX /* and by those of one user */
#define PORTAL_VISITORS_MAX 96   /* more than logins that wait at the gateway */
#define PORTAL_STREAMS_MAX 32
#define PORTAL_STREAMS_OF_SESSION 8
#define PORTAL_ASKS_OF_SESSION 8 /* of others than streams */
#define PORTAL_ARCHIVES_MAX 8
#define PORTAL_ARCHIVES_OF_USER 2
#define PORTAL_UPLOAD_PIECE ((size_t)1 << 20) /* what the gateway takes at once */
#define PORTAL_PATIENCE (60 * HTC_SECOND)       /* for a request to come, an answer to be made, and a piece of it to be taken */
#define PORTAL_STEP ((uint64_t)2 << 20)         /* and for so much of a download */
#define PORTAL_TOKEN_LEN 64
#define PORTAL_USER_MAX 72 /* more than a name has */

typedef struct portal  portal;
typedef struct visitor visitor;
typedef struct feed    feed;
typedef struct archive archive;

typedef enum visitor_state {
    VISITOR_READS = 1, /* its request comes */
    VISITOR_ASKS,      /* the gateway is asked */
    VISITOR_TAKES,     /* the answer goes; DOWNLOAD asks for more of it when it has gone */
    VISITOR_STREAMS,   /* events go */
    VISITOR_ENDS       /* all is said: its own end is waited for */
} visitor_state;

typedef enum portal_ask_kind { PORTAL_ASK_API = 1, PORTAL_ASK_LOGIN, PORTAL_ASK_LOGOUT, PORTAL_ASK_DOWNLOAD, PORTAL_ASK_ARCHIVE, PORTAL_ASK_WHO } portal_ask_kind;

struct visitor {
    visitor      *next; /* a later one */
    portal       *portal;
    int           fd;
    uint32_t      state; /* visitor_state */
    struct event *read, *write, *timer, *later;
    htc_buf       in, out;
    size_t        sent, announced; /* announced: bytes of body that it counts for */
    int           head_only;
    int           plain;     /* HTTP/1.0: knows no chunks */
    int           is_public; /* it came by the public origin: through a proxy with TLS */
    /* portal_ask.c */
    htc__guest    guest;
    uint32_t      ask; /* portal_ask_kind */
    htc_buf       answer;
    int           answered; /* 1: answer is whole; -1: there is none to come */
    uint64_t      job, task, offset, size; /* download */
    int           begun;
    htc_ns        began;
    htc_buf       name;
    char          token[PORTAL_TOKEN_LEN + 1];
    char          user[PORTAL_USER_MAX]; /* whose session it is, as the gateway has said; "": it was not asked */
    archive      *archive; /* portal_archive.c */
    /* portal_events.c */
    feed         *feed;
    visitor      *next_listener;
    uint32_t      dirty; /* topics that it has not been told, a bit for each */
    htc_ns        said_at;
};

struct portal {
    htc_host        *host;
    htc_peer_info    info; /* of its guests */
    char             hosts[2][80]; /* what Host may be */
    char             origin[HTC__ORIGIN_MAX + 1]; /* "https://NAME[:PORT]" of the proxy in front of it; "": none */
    visitor         *first;
    uint32_t         count, streams, archives;
    size_t           bodies; /* bytes of the larger ones */
    htc_ns           patience;
    feed            *feeds;
    struct event    *tick;
    htc__hook        hook;
};

/* The page's files. */
extern const htc_bytes htc__portal_index_html, htc__portal_portal_css, htc__portal_blake2b_js, htc__portal_portal_js, htc__portal_portal_jobs_js,
    htc__portal_portal_submit_js, htc__portal_portal_system_js;

/* portal.c */
/* The answer, from now on it is sent. cookie: "" none is set. */
void htc__portal_answer(visitor *v, int status, const char *type, htc_bytes body, const char *cookie);
void htc__portal_head(visitor *v, int status, const char *type, uint64_t length, const char *more); /* the head alone, appended to out */
void htc__portal_refuse(visitor *v, htc_status status, const char *hint, const char *format, ...) __attribute__((format(printf, 4, 5)));
int  htc__portal_http_status(htc_status status);
void htc__portal_push(visitor *v); /* may free v */
int  htc__portal_is_host(const char *host, htc_bytes value); /* NODE:PORT, where a browser leaves port 80 out */
/* The field that sets the session's cookie, or takes it back (token ""). By the public origin it is Secure, and of a name that browsers take from
 * nobody but that very host. */
void htc__portal_cookie(const visitor *v, const char *token, char *out, size_t cap);
void htc__portal_free(visitor *v);
/* Whose session it is has been asked for and is known: the request, which is in v->in, is looked at again. */
void htc__portal_known(visitor *v);
void htc__portal_patience(visitor *v); /* from now on; a download has what all of it has left, if that is less */

/* portal_ask.c */
/* body: an object of JSON without "op" and "token", which are put in front. */
void htc__portal_ask(visitor *v, uint32_t kind, const char *op, htc_bytes body);
/* Whose session is it? What takes room for long waits for the answer, and of a session that the gateway does not know that is all. */
void htc__portal_ask_who(visitor *v);
void htc__portal_answer_json(visitor *v, htc_bytes json); /* what the gateway has said, with the status that it means */
/* A piece of an output: name is borrowed, at most 1 MiB. attempt 0: the newest. */
typedef struct portal_piece {
    uint64_t  job, task;
    uint32_t  attempt;
    htc_bytes name;
    uint64_t  offset;
    uint32_t  length;
} portal_piece;
void htc__portal_ask_piece(visitor *v, uint32_t kind, const portal_piece *piece);
void htc__portal_download(visitor *v, htc_bytes query);
void htc__portal_upload(visitor *v, htc_bytes query, htc_bytes piece); /* a piece of some content */
void htc__portal_ask_go_on(visitor *v); /* something of the gateway has come; may free v */
void htc__portal_taken(visitor *v);     /* all of out has gone; may free v */
void htc__portal_hello(htc__guest *guest);

/* portal_archive.c */
void htc__portal_archive(visitor *v, htc_bytes query);
void htc__portal_archive_heard(visitor *v, htc_bytes answer); /* 1 byte: it is a piece, then its message; may free v */
int  htc__portal_archive_taken(visitor *v); /* all of out has gone: 1, there is more, and v may be freed; 0: it was all */
void htc__portal_archive_free(visitor *v);

/* portal_events.c */
void htc__portal_listen(visitor *v, htc_bytes query); /* to events; answers it */
void htc__portal_unlisten(visitor *v);
void htc__portal_speak(visitor *v); /* what it has not been told, once all has gone; may free v */
void htc__portal_tick(evutil_socket_t fd, short what, void *arg);
int  htc__portal_number(htc_bytes text, uint64_t *number); /* 1: digits alone, below 2^53 */

#endif
