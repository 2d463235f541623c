/* The portal (doc/portal.md): one request a connection; whatever says who somebody is comes from the gateway.
 *
 *   portal.c         connections, their bounds, who may ask what from where, the page's own files
 *   portal_ask.c     one request of a user to the gateway, and its answer; an output that is downloaded
 *   portal_events.c  streams of events: one feed for all pages of a login that look at the same job
 *
 * A request passes: Host names this portal (an address that somebody's name was pointed at is refused), the path is known, and where
 * something may change: the page's own header is there and Origin, if the browser says it, is this portal. Then the session's cookie is
 * handed to the gateway as the token of the request. Threads: the loop's. */
#ifndef HTC_NET_PORTAL_PRIVATE_H
#define HTC_NET_PORTAL_PRIVATE_H

#include "htcsched/gateway_host.h"
#include "net/loop/guest.h"
#include "net/loop/host_private.h"
#include "net/loop/http_request.h"

#define PORTAL_HEAD_MAX 8192
#define PORTAL_BODY_MAX ((size_t)16 << 20)      /* of somebody with a session */
#define PORTAL_BODY_STRANGER ((size_t)8 << 10)  /* of anybody */
#define PORTAL_BODIES_MAX ((size_t)64 << 20)    /* announced by all requests that are open */
#define PORTAL_VISITORS_MAX 96   /* more than logins that wait at the gateway */
#define PORTAL_STREAMS_MAX 32
#define PORTAL_STREAMS_OF_SESSION 8
#define PORTAL_ASKS_OF_SESSION 8 /* of others than streams */
#define PORTAL_PATIENCE (60 * HTC_SECOND)       /* for a request to come, an answer to be made, and a piece of it to be taken */
#define PORTAL_STEP ((uint64_t)2 << 20)         /* and for so much of a download */
#define PORTAL_TOKEN_LEN 64

typedef struct portal  portal;
typedef struct visitor visitor;
typedef struct feed    feed;

typedef enum visitor_state {
    VISITOR_READS = 1, /* its request comes */
    VISITOR_ASKS,      /* the gateway is asked */
    VISITOR_TAKES,     /* the answer goes; DOWNLOAD asks for more of it when it has gone */
    VISITOR_STREAMS,   /* events go */
    VISITOR_ENDS       /* all is said: its own end is waited for */
} visitor_state;

typedef enum portal_ask_kind { PORTAL_ASK_API = 1, PORTAL_ASK_LOGIN, PORTAL_ASK_LOGOUT, PORTAL_ASK_DOWNLOAD } portal_ask_kind;

struct visitor {
    visitor      *next; /* a later one */
    portal       *portal;
    int           fd;
    uint32_t      state; /* visitor_state */
    struct event *read, *write, *timer, *later;
    htc_buf       in, out;
    size_t        sent, announced; /* announced: bytes of body that it counts for */
    int           head_only;
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
    visitor         *first;
    uint32_t         count, streams;
    size_t           bodies;
    htc_ns           patience;
    feed            *feeds;
    struct event    *tick;
    htc__hook        hook;
};

/* The page's files. */
extern const htc_bytes htc__portal_index_html, htc__portal_portal_js, htc__portal_portal_css;

/* portal.c */
/* The answer, from now on it is sent. cookie: "" none is set. */
void htc__portal_answer(visitor *v, int status, const char *type, htc_bytes body, const char *cookie);
void htc__portal_head(visitor *v, int status, const char *type, uint64_t length, const char *more); /* the head alone, appended to out */
void htc__portal_refuse(visitor *v, htc_status status, const char *hint, const char *format, ...) __attribute__((format(printf, 4, 5)));
int  htc__portal_http_status(htc_status status);
void htc__portal_push(visitor *v); /* may free v */
int  htc__portal_is_host(const char *host, htc_bytes value); /* NODE:PORT, where a browser leaves port 80 out */
void htc__portal_free(visitor *v);
void htc__portal_patience(visitor *v); /* from now on; a download has what all of it has left, if that is less */

/* portal_ask.c */
/* body: an object of JSON without "op" and "token", which are put in front. */
void htc__portal_ask(visitor *v, uint32_t kind, const char *op, htc_bytes body);
void htc__portal_download(visitor *v, htc_bytes query);
void htc__portal_ask_go_on(visitor *v); /* something of the gateway has come; may free v */
void htc__portal_taken(visitor *v);     /* all of out has gone; may free v */
void htc__portal_hello(htc__guest *guest);

/* portal_events.c */
void htc__portal_listen(visitor *v, htc_bytes query); /* to events; answers it */
void htc__portal_unlisten(visitor *v);
void htc__portal_speak(visitor *v); /* what it has not been told, once all has gone; may free v */
void htc__portal_tick(evutil_socket_t fd, short what, void *arg);
int  htc__portal_number(htc_bytes text, uint64_t *number); /* 1: digits alone, below 2^53 */

#endif
