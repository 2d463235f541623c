/* What the files of the live host share: the host, its connections, its threads. */
#ifndef HTC_NET_HOST_PRIVATE_H
#define HTC_NET_HOST_PRIVATE_H

#include <event2/event.h>

#include "core/codec.h"
#include "core/util.h"
#include "core/wire.h"
#include "htcsched/host.h"

/* The longest frame of somebody the machine has not welcomed. */
#define HTC_HOST_STRANGER_MAX (64u << 10)
#define HTC_HOST_TOKEN_LEN 64 /* hex digits of the TCP token */
/* A closing connection may take this long to read what was sent. */
#define HTC_HOST_FLUSH_PATIENCE (5 * HTC_SECOND)
#define HTC_HOST_STREAM_IN ((size_t)64 << 10) /* read at once from a connection */
#define HTC_HOST_KEPT ((size_t)1 << 10) /* of memory for bytes on their way that an idle connection keeps */
#define HTC_HOST_RECENT 1024  /* peers found without a search */

typedef struct htc__conn     htc__conn;
typedef struct htc__listener htc__listener;
typedef struct htc__pool     htc__pool;
typedef struct htc__queued   htc__queued;
typedef struct htc__hook     htc__hook;
typedef struct htc__dealt    htc__dealt;
typedef struct htc__secure   htc__secure; /* secure.h */

struct htc_host {
    const htc_env         *env;
    htc_host_options       options;
    struct event_base     *base;
    struct event          *timer;   /* the machine's deadline */
    int                    timer_fd;
    struct event          *pump;    /* queued inputs, dead connections */
    struct event          *signals[3];
    uint32_t               signals_seen;
    htc_rng                rng;     /* jitter of redials */
    /* connections, by growing peer number */
    htc__conn            **conns;
    size_t                 conns_count, conns_cap;
    htc__conn             *recent[HTC_HOST_RECENT]; /* by peer number modulo */
    uint32_t               peer_next;
    uint32_t               incoming;
    int                  (*is_known)(void *ctx, uint32_t pid); /* a process that this program started: no stranger */
    void                  *known_ctx;
    htc_ns                 refused_at; /* the last line about a refusal, about whom, and how many since */
    uint32_t               refused_uid, refused_untold;
    int                    spare_fd; /* given up for a moment to refuse a connection when descriptors have run out */
    htc__conn             *dead;
    struct htc__guest     *guests; /* peers that are part of this program: guest.c */
    htc__listener         *listeners;
    int                    closed_doors; /* nobody is let in: htc_host_accept */
    htc_host             **dealt_to; /* hosts that get this one's connections in turn: accept_balancer.c */
    size_t                 dealt_count, dealt_next;
    htc__dealt            *outside, **outside_last; /* connections that were dealt to this host before its doors were open */
    uint32_t               outside_count;
    struct event          *hangup; /* SIGHUP: htc_host_on_hangup */
    void                 (*on_hangup)(void *ctx);
    void                  *hangup_ctx;
    uint8_t               *stream_in; /* what connections are read into, one after the other */
    size_t                 waiting_all; /* bytes to go out on incoming connections */
    struct event          *look;        /* whether they are taken: output.c */
    int                    flood;       /* it is set */
    htc__conn             *dirty, **dirty_last; /* connections that something was said to in this turn, in order */
    size_t                 said;    /* of a machine without turns: bytes since they were last written to, */
    htc_ns                 said_at; /* and when the first of them came */
    /* the machine */
    const htc_machine_ops *ops;
    void                  *machine;
    htc_output            *out;
    int                    stepping, stopped, running;
    int                    turns, turn_open; /* the machine wants HTC_IN_TURN; something was handed over since the last */
    int                    frames; /* it takes whole messages that came together at once */
    uint64_t               left;   /* of which it has left so many bytes */
    int                    lent;   /* a stream has something in the output of the present step */
    htc_ns                 armed;            /* what the timer is set to; HTC_NEVER: it is not */
    htc_status             status;
    htc__queued           *queue_first, **queue_last;
    htc_host_call_fn       call;
    void                  *call_ctx;
    htc_host_commit_fn     commit;
    void                  *commit_ctx;
    uint32_t               commit_threaded;
    int                    commit_running;
    htc_status             commit_status;
    htc_buf                commit_waiting, commit_active; /* u64 tag, bytes batch; in order */
    htc__pool             *pool;
    htc__hook             *hooks, *hooks_late; /* late: when there is no connection any more */
};

/* host.c */
/* Hand an input to the machine now, or when the present step has ended. body is borrowed. */
void htc__host_deliver(htc_host *host, const htc_input *in);
/* HTC_IN_FRAMES: how many bytes of it were taken. 0: none of it was handed over, for the machine wants each by itself or is in a step. */
size_t htc__host_deliver_frames(htc_host *host, const htc_input *in);
/* fn(ctx) is called by htc_host_destroy while the base still exists, after all work was done. */
struct htc__hook {
    void (*fn)(void *ctx);
    void      *ctx;
    htc__hook *next;
};
void htc__host_hook(htc_host *host, htc__hook *hook);
void htc__host_pump(htc_host *host);

/* conn.c */
typedef enum htc__conn_state {
    CONN_IDLE = 1, /* dialled: waits for the next try */
    CONN_TOKEN,    /* TCP: the first frame has to be the token */
    CONN_CONNECTING, /* dialled through a secure channel: there is no socket yet, or it does not answer yet */
    CONN_SHAKE,      /* through a secure channel: neither knows the other yet */
    CONN_OPEN,
    CONN_FLUSHING, /* nothing is read any more; closes when all is sent */
    CONN_DEAD
} htc__conn_state;

struct htc__conn {
    htc_host        *host;
    uint32_t         peer;
    int              fd;
    uint32_t         state; /* htc__conn_state */
    int              dialled, welcomed, told; /* told: the machine knows it as open */
    int              hung_up; /* a dialled one that is wanted no more */
    uint32_t         refused_op; /* a dialled one: the event when nobody listens there any more; 0: none */
    int              was_open;   /* and there was somebody, as far as was told */
    int              refused_told;
    int              stranger; /* of another uid, and none of the processes that this program started */
    int              deaf; /* not read from until it has read */
    htc_peer_info    info;
    struct event    *read, *write, *timer;
    htc_buf          in; /* frames that are not whole yet, or not heard yet */
    htc_status       why;
    char            *path;       /* dialled */
    htc_ns           pause;      /* before the next try */
    htc_ns           opened_at;  /* dialled */
    const char      *token;      /* of its listener */
    htc__secure     *secure;     /* through a secure channel; NULL: as it is */
    htc__conn       *next_dead;
    int              reading, writing; /* what its events wait for */
    htc_buf          waiting;    /* to be sent, as it is: of a secure one the channel has it */
    size_t           waiting_at; /* so much of it has left */
    size_t           counted;    /* of an incoming one, in the host's waiting_all: all that waits */
    htc_ns           took_at;    /* when some of it last left, or the first of it came */
    int              dirty;      /* in the host's list: something leaves when the turn ends */
    htc__conn       *next_dirty;
    /* streams alone (stream.c) */
    int              stream, held, ended;
    htc_bytes        lent; /* to be sent behind what waits: in the present step's output, not copied yet */
    uint64_t         sent_tag;
};

htc_status htc__conn_accept(htc_host *host, int fd, const htc_peer_info *info, int stranger, const char *token);
htc_status htc__conn_dial(htc_host *host, const char *path, uint32_t port, uint32_t *peer);
void       htc__conn_start_dialling(htc_host *host);
htc__conn *htc__conn_find(htc_host *host, uint32_t peer);
void       htc__conn_send(htc__conn *c, htc_bytes message); /* written when the turn ends */
void       htc__conn_send_frames(htc__conn *c, htc_bytes frames); /* the same of whole messages with their lengths */
void       htc__conn_flush(htc__conn *c);
/* Close after what is buffered was sent. */
void htc__conn_close(htc__conn *c, htc_status why);
void htc__conn_refuse(htc__conn *c, htc_status why, const char *text); /* ERROR frame, then close */
void htc__conn_reap(htc_host *host);
htc__conn *htc__conn_after(htc_host *host, uint32_t peer); /* the first with a higher number; NULL: none */
htc_status htc__conn_attach(htc__conn *c, int fd);         /* events for a socket that is open */
void       htc__conn_wait_for(htc__conn *c, int reading, int writing);
/* For stream.c. */
htc__conn *htc__conn_new(htc_host *host, int stream);
void       htc__conn_forget(htc__conn *c); /* one that the machine was never told of */
void       htc__conn_credentials(int fd, htc_peer_info *info);
void       htc__conn_tell(htc__conn *c, uint32_t kind, htc_status status, uint64_t tag, htc_bytes body);
void       htc__conn_tell_opened(htc__conn *c);
void       htc__conn_drop(htc__conn *c, htc_status why);
void       htc__conn_set_timer(htc__conn *c, htc_ns after);
void       htc__conn_tell_refused(htc__conn *c, int why); /* errno of a try that failed */
void htc__conns_flush_all(htc_host *host, htc_ns patience);
void htc__conns_free(htc_host *host);

/* stream.c */
htc_status htc__stream_accept(htc_host *host, int fd, const htc_peer_info *info);
void       htc__stream_send(htc__conn *c, htc_bytes bytes, uint64_t tag); /* written when the turn ends */
void       htc__stream_hold(htc__conn *c, int hold);
void       htc__stream_close(htc__conn *c, htc_status why);
void       htc__stream_flush(htc__conn *c);
size_t     htc__stream_waiting(const htc__conn *c);
void       htc__conn_spoken_to(htc__conn *c); /* something leaves when the turn ends */
void       htc__stream_gone(htc__conn *c); /* its socket is */
/* The effects of a step are carried out: write to those it spoke to (now), or keep what they are to be sent. */
void htc__streams_settle(htc_host *host, int now);

/* output.c */
void htc__output_note(htc__conn *c, size_t waiting); /* so much waits for it now */
void htc__output_settle(htc_host *host);             /* a step is carried out */
void htc__output_flooded(htc_host *host);            /* much may be free: it is looked at in a moment */

/* listen.c */
void htc__listeners_free(htc_host *host);
/* Takes a socket over, which is not blocking. */
typedef void (*htc__visit_fn)(void *ctx, int fd);
/* Connections that the machine knows nothing of: let in also while others wait, and not counted among them. Loopback or unix:PATH. */
htc_status htc__listen_visitors(htc_host *host, const char *address, uint32_t mode, htc__visit_fn visit, void *ctx,
                                uint16_t *bound, htc_error *error);
int  htc__is_loopback(const char *address); /* 1: an address of this machine alone */
/* There is no room for this connection: say so, and close it. text: of a stream; NULL: nothing. */
void htc__no_room(int fd, int stream, const char *text);

/* accept_balancer.c */
/* To the next host; fd is taken. refusal: of the listener; NULL: none. */
void htc__accept_balancer(htc_host *host, int fd, const htc_peer_info *info, int stream, const char *refusal);
void htc__accept_balancer_doors_open(htc_host *host);
void htc__accept_balancer_free(htc_host *host);

/* socket.c: Unix sockets of any path length. Answers a descriptor or -1 with errno. */
int htc__unix_connect(const char *path, int flags);
int htc__unix_listen(const char *path, uint32_t mode, int *in_use);
/* A peer whose host or whose way is gone says nothing, and a TCP connection to it would last for ever: an idle one ends when its kernel has answered nothing for so long.
 * takes: so does one whose data it has not taken for so long, be it gone or slow; otherwise that is left to TCP's own patience. */
void htc__socket_watch(int fd, int silent_s, int takes);
#define HTC__SILENT_S 60 /* where those at both ends have periods of their own */

/* pool.c */
htc_status htc__pool_create(htc_host *host, uint32_t threads, htc__pool **out);
htc_status htc__pool_add(htc__pool *pool, void (*work)(void *), void (*done)(void *), void *ctx);
htc_status htc__pool_post(htc__pool *pool, void (*fn)(void *), void *ctx); /* in the loop's thread; from any */
/* Finish all work, call every done and all that was posted, end the threads. */
void htc__pool_destroy(htc__pool *pool);

static inline struct timeval htc__timeval(htc_ns ns)
{
    return (struct timeval){ (time_t)(ns / HTC_SECOND), (suseconds_t)(ns % HTC_SECOND / 1000) };
}

/* listen.c: the token in this file, which is made (0600, random) where there is none. */
htc_status htc__token_file(const char *path, char token[HTC_HOST_TOKEN_LEN + 1], htc_error *error);

#endif
