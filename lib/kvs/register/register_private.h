/* What register.c (keys, queues, counters, deadlines) and register_round.c (what is said and concluded) share. */
#ifndef HTC_KVS_REGISTER_PRIVATE_H
#define HTC_KVS_REGISTER_PRIVATE_H

#include "core/fault.h"
#include "core/util.h"
#include "kvs/register/register.h"
#include "kvs/util/wheel.h"

/* Beside the operations of htcsched/kv.h. */
#define OP_COLLECT 101u

typedef struct asked {
    struct asked  *next;
    uint64_t       tag;
    htc__kv_owners owners;
    htc__kv_stamp  stamp;
    htc_kv_request q; /* value and seen stand behind this struct */
    htc_ns         until;
    uint32_t       losses;
    size_t         value_max;
    uint8_t        tried;
    htc__kv_ballot first, last; /* ballots under which this very change was tried */
    uint64_t       version;     /* the lowest it made of the key then */
    uint8_t        late; /* rounds of it that ran out of time: each has twice as long */
    size_t         size;
} asked;

typedef enum phase { IDLE, RESERVING, PAUSING, READING, PREPARING, ACCEPTING } phase;

/* What one owner showed. */
typedef struct shown {
    uint8_t        present;
    uint32_t       where; /* whose bytes are the same */
    uint64_t       floor;
    uint64_t       hash; /* of the bytes */
    htc__kv_ballot accepted;
} shown;

/* One attempt at the request at the head of a key's queue; its memory is used again. */
typedef struct htc__kv_round {
    struct htc__kv_round *spare;
    phase                 phase;
    uint8_t               next;   /* the accept asks for the next promise */
    uint32_t              joined; /* reads behind the head that get the same answer */
    uint64_t              number; /* of a read its own; else the ballot's */
    htc__kv_ballot        ballot;
    uint32_t              answered, refused; /* bits of owners */
    uint32_t              again;             /* how often it was said again */
    htc_ns                begun;             /* when it was said first */
    htc_ns                retry_at, end_at, grace_at;
    shown                 shown[HTC_RING_OWNERS_MAX];
    htc_buf               bytes[HTC_RING_OWNERS_MAX]; /* cells as written, promises left out */
    htc_buf               before, after;
    htc__kv_outcome       out; /* given when the accept is final; its value is that of `before` */
} htc__kv_round;

/* A key with requests, or with a cell that is cached. */
typedef struct entry {
    htc__wheel_entry timer; /* first: the wheel knows nothing else. In it while there are requests, not after the deadline */
    htc_ns           timer_at;
    struct entry  *chain;
    struct entry  *older, *newer; /* while idle */
    asked         *head, *tail;
    htc__kv_round *r;       /* while there are requests */
    uint8_t        cached; /* `cell` was final when its accept was; its promise is ours */
    uint64_t       epoch;
    htc_buf        cell;
    size_t         longest; /* value that was seen of it, while it is known here */
    uint64_t       hash;
    size_t         key_len;
    uint8_t        key[];
} entry;

struct htc__kv_register {
    const htc_env           *env;
    htc__kv_register_options o;
    htc__kv_register_host    host;
    htc_rng                  rng;
    htc__kv_register_counts  counts;
    uint64_t                 counter;  /* the last one drawn */
    uint64_t                 reserved; /* up to here they may be drawn */
    uint64_t                 reserving;
    entry                  **table; /* a power of two */
    size_t                   slots, entries;
    htc__wheel               wheel; /* of keys with requests, by the deadline of their rounds */
    htc_ns                   trip, trip_varies; /* how long a round took of late, and by how much that varies */
    entry                   *oldest, *newest;
    size_t                   cache_bytes;
    size_t                   asked_n;
    htc__kv_round           *spare;
    size_t                   spare_n;
    htc_buf                  scratch;
};

/* register.c */
int    htc__kv_register_draw(htc__kv_register *reg, uint64_t *number); /* 0: not before more are reserved */
void   htc__kv_register_outbid(htc__kv_register *reg, const htc__kv_ballot *highest);
asked *htc__kv_register_pop(htc__kv_register *reg, entry *e);
void   htc__kv_register_free_asked(htc__kv_register *reg, asked *a);

/* register_round.c: each leaves the key waiting for something with r->..._at set, or its queue empty. */
void   htc__kv_round_begin(htc__kv_register *reg, entry *e, htc_ns now);
void   htc__kv_round_reply(htc__kv_register *reg, entry *e, htc_ns now, uint32_t from, const htc__kv_reply *reply);
void   htc__kv_round_timeout(htc__kv_register *reg, entry *e, htc_ns now);
htc_ns htc__kv_round_deadline(const entry *e);
htc_ns htc__kv_round_retry(const htc__kv_register *reg); /* when what was not answered is said again */
void   htc__kv_round_yield(htc__kv_register *reg, entry *e); /* of a collection: HTC_EBUSY, once another request waits */

#endif
