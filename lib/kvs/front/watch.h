/* Watches, as a server keeps them for its own connections: who watches what, and which keys have changed that a watcher was not told
 * yet. Messages: watch_wire.h.
 *
 *     changed(key) ──▶ a mark for each watch of it ──▶ asked of the backend ──▶ told ── taken ──▶ forgotten
 *                        │        ▲                                             │
 *                        │        └──────── changed meanwhile, or lost ◀────────┘
 *                        └ too many marks under a prefix: it starts over, page by page
 *
 * A mark says only that a key is to be looked at again: however often it changes meanwhile, it is one mark. What is told is what the
 * backend answers, so it is as stable as any answer. A connection has one message of events on its way at most, and nothing is read
 * for it before it has taken that.
 *
 *   watch.c         connections: their messages, reads, pages
 *   watch_marks.c   who watches what; marks */
#ifndef HTC_KVS_WATCH_H
#define HTC_KVS_WATCH_H

#include "kvs/cell/face.h"
#include "kvs/util/table.h"
#include "kvs/front/watch_names.h"
#include "kvs/wire/watch_wire.h"

/* Reads of one connection at once. */
#define HTC__KV_WATCH_READS 32

typedef struct htc__kv_watcher  htc__kv_watcher;
typedef struct htc__kv_watching htc__kv_watching;

typedef enum htc__kv_mark_state { HTC__KV_MARK_IDLE, HTC__KV_MARK_QUEUED, HTC__KV_MARK_READING, HTC__KV_MARK_TOLD } htc__kv_mark_state;

/* A key to be looked at. */
typedef struct htc__kv_mark {
    struct htc__kv_mark *prev, *next; /* of the same state */
    htc__kv_watching    *watch;
    htc__node           *node;  /* of a prefix: that holds this and has the key; else NULL */
    uint8_t              state; /* htc__kv_mark_state */
    uint8_t              again; /* changed since it was asked for */
    uint32_t             slot;  /* READING */
} htc__kv_mark;

typedef struct htc__kv_marks {
    htc__kv_mark *first, *last;
} htc__kv_marks;

struct htc__kv_watching {
    htc__kv_watching *next, **at; /* those of the same key or prefix */
    htc__kv_watching *next_start; /* those of the connection that have to begin, or begin anew */
    htc__kv_watcher  *watcher;
    htc__node        *index; /* what it watches */
    uint64_t          id;
    uint32_t          prefix;
    uint32_t          starting; /* prefix: in that list */
    uint32_t          say_over; /* prefix: what it has told counts no more */
    htc__kv_mark      mark; /* key */
    uint32_t          begun; /* key: its first state was taken */
    uint64_t          held, told; /* key: the newest version that the client has, that is on its way */
    htc__table        marks; /* prefix: by key: htc__kv_mark */
};

/* A connection that watches. */
struct htc__kv_watcher {
    htc__kv_watcher  *next; /* of those with something to do */
    uint32_t          listed;
    uint32_t          peer;
    uint64_t          number; /* as the backend knows it; never another one's */
    uint64_t          session;
    uint64_t          heard, told; /* the newest message of the client; of ours */
    uint32_t          open;        /* it waits for one */
    uint32_t          confirm;     /* to be answered even if there is nothing to tell */
    htc__table        watches;     /* by number */
    htc__kv_marks     queued, on_way; /* to be asked for; told, and not taken yet */
    htc__kv_mark     *read[HTC__KV_WATCH_READS]; /* NULL: nobody wants that answer any more */
    uint32_t          reading;                   /* bits of read: asked for */
    size_t            reading_bytes;             /* as far as is known */
    size_t            marks;                     /* under prefixes */
    htc__kv_watching *start, **start_last;
    htc__kv_watching *scan;      /* whose pages are being asked for */
    uint32_t          page_asked, page_stale, page_turn;
    htc__kv_watching *page;      /* whose page is on its way; NULL: none, or it watches no more */
    uint32_t          page_sent; /* one is */
    size_t            cursor_len;
    uint8_t           cursor[HTC_KV_KEY_MAX];
    htc_buf           events; /* to be told */
    htc_ns            again_at; /* the backend could not answer: nothing is asked before */
};

typedef struct htc__kv_watches {
    htc_env          env;
    htc__kv_backend  backend;
    uint32_t         watches_max, marks_max; /* of one connection */
    /* Somebody watches that now, and nobody did before; not HTC_OK: the watch ends with it. Nobody does any more. May be NULL. */
    htc_status (*begun)(void *ctx, int prefix, htc_bytes key);
    void (*ended)(void *ctx, int prefix, htc_bytes key);
    void *told_ctx;

    htc__kv_face     face;
    htc__table       watchers; /* by peer */
    htc__kv_watch_names index; /* of htc__kv_watching * */
    htc__kv_watcher *busy, **busy_last;
    uint64_t         last_number;
    htc_buf          body;
    htc_ns           now;
    htc_status       broken; /* memory was refused while an answer was taken */
    uint64_t         count, events, merged, started_over, sent; /* watches; told; marks that were there; prefixes; bytes */
} htc__kv_watches;

/* Fill env, backend and the bounds first. */
void htc__kv_watches_init(htc__kv_watches *w);
void htc__kv_watches_free(htc__kv_watches *w);

/* KV_WATCH, r behind its head. HTC_EPROTO: it is broken, and nothing of it was done; HTC_ENOMEM. */
htc_status htc__kv_watches_input(htc__kv_watches *w, uint32_t peer, uint64_t session, uint64_t id, htc_reader r);
void       htc__kv_watches_closed(htc__kv_watches *w, uint32_t peer);
/* That key is about to be, or may be, another than it was: whoever asks the backend from now on is answered with that. */
void htc__kv_watches_changed(htc__kv_watches *w, htc_bytes key);
int  htc__kv_watches_want(const htc__kv_watches *w, htc_bytes key); /* somebody watches it */
/* What was told of all under that prefix counts no more. */
void htc__kv_watches_over(htc__kv_watches *w, htc_bytes prefix);
/* Ask and tell, as far as one step has room for it. */
htc_status htc__kv_watches_flush(htc__kv_watches *w, htc_ns now, htc_output *out);
htc_ns     htc__kv_watches_deadline(const htc__kv_watches *w);

/* watch_marks.c */
htc__kv_watching *htc__kv_watching_find(const htc__kv_watcher *x, uint64_t id);
htc_status        htc__kv_watching_add(htc__kv_watches *w, htc__kv_watcher *x, const htc__kv_watch_wish *wish);
void              htc__kv_watching_remove(htc__kv_watches *w, htc__kv_watching *v);
htc_bytes         htc__kv_watching_key(const htc__kv_watching *v);
htc_bytes         htc__kv_mark_key(const htc__kv_mark *m);
/* Into that state and its list. */
void htc__kv_mark_set(htc__kv_mark *m, htc__kv_mark_state state);
void htc__kv_mark_done(htc__kv_mark *m); /* looked at: forgotten, or queued if it has changed again */
/* All that a prefix has told, and what it had to tell, counts no more. */
void htc__kv_watching_start_over(htc__kv_watches *w, htc__kv_watching *v);
void htc__kv_watcher_busy(htc__kv_watches *w, htc__kv_watcher *x); /* it may have something to do */

#endif
