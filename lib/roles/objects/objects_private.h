/* The inside of the objects: objects.c has what is here and who wants it, objects_fetch.c brings what is not, objects_serve.c sends others what
 * is.
 *
 *              want let in          its turn           room            all pieces written
 *     IDLE, PART ------> QUEUED --------------> ROOM -------> FETCH ----------------------> FINISH -----> HERE
 *       ^                  ^                     |  \ it is there already                     |   right    |
 *       |                  +----- disk was full, wrong hash: again ---------------------------+            |
 *       |     nobody wants it any more, or no source is left (the wants are told)                          |
 *       +--------------------------------------------------------------------------------------------------+ evicted */
#ifndef HTC_ROLES_OBJECTS_PRIVATE_H
#define HTC_ROLES_OBJECTS_PRIVATE_H

#define HASH_NONFATAL_OOM 1
#include <uthash.h>
#include <utlist.h>

#include "core/util.h"
#include "htcsched/calls.h"
#include "roles/objects/objects.h"

#define WINDOW       16 /* pieces of one object that are asked for or being written: also what its host holds back, at most */
#define SOURCE_ASKS  8  /* of these, asked of one worker */
#define ASKS_MAX     64 /* pieces asked for, of all objects */
#define READS_MAX    16 /* pieces that are being read for others */
#define SERVES_MAX   1024 /* that wait to be */
#define SERVES_PEER  32 /* of these, one connection's */
#define CACHED_MAX   65536 /* objects that are kept though nobody wants them */
#define WRONGS_MAX   4
#define BUSY_NS      (100 * HTC_MS)

typedef enum entry_state {
    ENTRY_IDLE = 1,
    ENTRY_PART, /* not wanted; some bytes of it are on the disk, from a life before */
    ENTRY_QUEUED,
    ENTRY_ROOM,
    ENTRY_FETCH,
    ENTRY_FINISH,
    ENTRY_HERE
} entry_state;

typedef struct entry entry;
typedef struct want  want;

/* One object of a want. */
typedef struct want_link {
    want             *of;
    entry            *e;
    struct want_link *prev, *next; /* of the entry */
} want_link;

typedef enum want_state { WANT_WAITING = 1, WANT_FETCHING, WANT_DECIDED, WANT_TOLD } want_state;

struct want {
    uint64_t       id;
    uint32_t       state, n, n_links, missing, which; /* n: of its links, those that are linked */
    int            let_in; /* its objects are reserved */
    htc_status     status;
    want          *prev, *next; /* in the list of its state */
    UT_hash_handle hh;
    want_link      links[];
};

typedef struct pin {
    uint64_t    job;
    struct pin *next;
} pin;

typedef enum source_state { SOURCE_GOOD = 0, SOURCE_GONE, SOURCE_BAD } source_state; /* bad: what came from it was wrong */

typedef struct source {
    uint64_t worker;
    uint8_t  state;
    uint32_t asks, misses;
    htc_ns   silent_since; /* HTC_NEVER: it is not waited for */
    htc_ns   not_before;
} source;

typedef enum slot_state { SLOT_FREE = 0, SLOT_ASKED, SLOT_WRITING, SLOT_WRITTEN } slot_state;

typedef struct slot {
    uint8_t  state, source;
    uint32_t peer;
    htc_ns   asked_at;
} slot;

/* What an object that somebody wants has beside: who has it, and how far it has come. */
typedef struct fetch {
    source   sources[OBJECT_SOURCES_MAX];
    uint32_t n_sources, turn;
    uint32_t from;   /* sources whose bytes are in it, as bits */
    int      resumed; /* some bytes are of a life before */
    int      tight;   /* it was begun when nothing else was */
    int      alone;   /* of several sources one was wrong: one is asked at a time */
    uint32_t wrongs;
    uint64_t start;   /* pieces are counted from here */
    uint64_t base, pieces; /* the first that is not written, all of them */
    slot     slots[WINDOW]; /* of piece p: p % WINDOW, for base <= p < base + WINDOW */
} fetch;

struct entry {
    uint8_t    hash[32];
    uint8_t    content[32]; /* of one that has a name of its own: its hash */
    int        named;       /* it has */
    uint64_t   size;
    uint64_t   part; /* PART: bytes on the disk */
    int        sized; /* 0: a part of which nobody has said how large the whole is */
    uint64_t   life; /* changes with each try: answers of the host to another one mean nothing */
    uint64_t   counted; /* bytes of it in cached */
    uint32_t   state, reserved; /* wants let in */
    uint32_t   adopting;
    want_link *links;
    pin       *pins;
    fetch     *fetch;
    entry    **list; /* which one it is in: unused, queue, active; NULL: none */
    entry     *prev, *next;
    UT_hash_handle hh;
};

typedef struct serve {
    uint32_t      peer, len;
    uint64_t      offset;
    uint8_t       hash[32];
    struct serve *prev, *next;
} serve;

struct htc__objects {
    htc_env              env;
    htc__objects_options options;
    htc_runtime         *runtime;
    htc_ns               now;
    int                  listed; /* what is left from before is known */
    entry               *entries;
    entry               *unused; /* may be evicted, the one used longest ago first */
    entry               *queue, *active; /* QUEUED; ROOM, FETCH, FINISH */
    uint32_t             n_unused, n_active, asks, reads;
    uint32_t             dropping; /* what has gone and still takes room on the disk: nothing new begins meanwhile */
    uint64_t             cached, unused_bytes, lives;
    int                  roomier; /* there may be room for a want that had none */
    int                  tight;   /* the disk was full for several at once */
    want                *wants;
    want                *waiting, *fetching, *decided, *told; /* wants by state, each in order */
    serve               *serves;
    uint32_t             n_serves;
    htc_buf              buf;
    htc__objects_figures figures;
};

/* What a call to the host is answered to. */
typedef struct object_asked {
    htc__objects *o;
    uint8_t       hash[32];
    uint64_t      life, number; /* number: a piece, a flow */
    uint32_t      peer;
} object_asked;

/* objects.c */
entry *htc__objects_find(const htc__objects *o, const uint8_t hash[32]);
void   htc__objects_call(htc__objects *o, const entry *e, uint32_t op, htc_bytes body, htc_runtime_call_fn fn, uint64_t number);
/* The entry that an answer is for, and the context is freed; NULL: it is in another life. */
entry *htc__objects_answered(void *ctx, htc__objects **o, uint64_t *number);
void   htc__objects_drop_file(htc__objects *o, const entry *e);
htc_bytes htc__objects_names(htc__objects *o, const entry *e); /* the body of FINISH and DROP; until o->buf is written anew */
/* After its state, its pins or its wants have changed: counts and files it anew; frees it if nothing is left of it. */
void   htc__objects_settle(htc__objects *o, entry *e);
void   htc__objects_move(entry **list, entry *e); /* to the end of a list; NULL: out of all */
int    htc__objects_evict(htc__objects *o);       /* one; 0: there is none */
void   htc__objects_vanished(htc__objects *o, entry *e); /* its file is not what it should be: it goes, if nobody uses it */
void   htc__objects_arrived(htc__objects *o, entry *e);
void   htc__objects_failed(htc__objects *o, entry *e, htc_status why);

/* objects_fetch.c */
htc_status htc__fetch_sources(htc__objects *o, entry *e, const htc__object *from);
void       htc__fetch_cancel(htc__objects *o, entry *e); /* of QUEUED to FINISH: IDLE again; its bytes are removed */
void       htc__fetch_end(htc__objects *o, entry *e);    /* the same, but that they stay */
void       htc__fetch_again(htc__objects *o, entry *e);
void       htc__fetch_run(htc__objects *o);
htc_ns     htc__fetch_deadline(const htc__objects *o);
void       htc__fetch_bytes(htc__objects *o, uint32_t peer, const object_message *m, htc_bytes payload);
void       htc__fetch_none(htc__objects *o, uint32_t peer, const object_message *m);
void       htc__fetch_closed(htc__objects *o, uint32_t peer);
void       htc__fetch_gone(htc__objects *o, uint64_t worker);

/* objects_serve.c */
void htc__serve_ask(htc__objects *o, uint32_t peer, const object_message *m);
void htc__serve_closed(htc__objects *o, uint32_t peer);

#endif
