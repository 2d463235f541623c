/* What the files of the live host share: the host, its connections, its threads. */
#ifndef HTC_NET_HOST_PRIVATE_H
#define HTC_NET_HOST_PRIVATE_H

#include <event2/buffer.h>
#include <event2/event.h>

#include "core/codec.h"
#include "core/util.h"
#include "core/wire.h"
#include "htcsched/host.h"

/* The longest frame of somebody the machine has not welcomed. */
#define HTC_HOST_STRANGER_MAX (64u << 10)
#define HTC_HOST_TOKEN_LEN 64 /* hex digits of the TCP token */

typedef struct htc__conn     htc__conn;
typedef struct htc__listener htc__listener;
typedef struct htc__pool     htc__pool;
typedef struct htc__queued   htc__queued;
typedef struct htc__hook     htc__hook;

struct htc_host {
    const htc_env         *env;
    htc_host_options       options;
    struct event_base     *base;
    struct event          *timer;   /* the machine's deadline */
    struct event          *pump;    /* queued inputs, dead connections */
    struct event          *signals[3];
    uint32_t               signals_seen;
    htc_rng                rng;     /* jitter of redials */
    /* connections, by growing peer number */
    htc__conn            **conns;
    size_t                 conns_count, conns_cap;
    uint32_t               peer_next;
    uint32_t               incoming;
    int                    spare_fd; /* given up for a moment to refuse a connection when descriptors have run out */
    htc__conn             *dead;
    htc__listener         *listeners;
    /* the machine */
    const htc_machine_ops *ops;
    void                  *machine;
    htc_output            *out;
    int                    stepping, stopped, running;
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
    htc__hook             *hooks;
};

/* host.c */
/* Hand an input to the machine now, or when the present step has ended. body is borrowed. */
void htc__host_deliver(htc_host *host, const htc_input *in);
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
    int              deaf; /* not read from until it has read */
    htc_peer_info    info;
    struct event    *read, *write, *timer;
    struct evbuffer *in, *out;
    htc_status       why;
    char            *path;       /* dialled */
    htc_ns           pause;      /* before the next try */
    const char      *token;      /* of its listener */
    htc__conn       *next_dead;
};

htc_status htc__conn_accept(htc_host *host, int fd, const htc_peer_info *info, const char *token);
htc_status htc__conn_dial(htc_host *host, const char *path, uint32_t port, uint32_t *peer);
void       htc__conn_start_dialling(htc_host *host);
htc__conn *htc__conn_find(const htc_host *host, uint32_t peer);
void       htc__conn_send(htc__conn *c, htc_bytes message); /* buffered; htc__conn_flush writes */
void       htc__conn_flush(htc__conn *c);
/* Close after what is buffered was sent. */
void htc__conn_close(htc__conn *c, htc_status why);
void htc__conn_refuse(htc__conn *c, htc_status why, const char *text); /* ERROR frame, then close */
void htc__conn_reap(htc_host *host);
void htc__conns_flush_all(htc_host *host, htc_ns patience);
void htc__conns_free(htc_host *host);

/* listen.c */
void htc__listeners_free(htc_host *host);
int  htc__is_loopback(const char *address); /* 1: an address of this machine alone */

/* socket.c: Unix sockets of any path length. Answers a descriptor or -1 with errno. */
int htc__unix_connect(const char *path, int flags);
int htc__unix_listen(const char *path, uint32_t mode, int *in_use);

/* pool.c */
htc_status htc__pool_create(htc_host *host, uint32_t threads, htc__pool **out);
htc_status htc__pool_add(htc__pool *pool, void (*work)(void *), void (*done)(void *), void *ctx);
/* Finish all work, call every done, end the threads. */
void htc__pool_destroy(htc__pool *pool);

static inline struct timeval htc__timeval(htc_ns ns)
{
    return (struct timeval){ (time_t)(ns / HTC_SECOND), (suseconds_t)(ns % HTC_SECOND / 1000) };
}

#endif
