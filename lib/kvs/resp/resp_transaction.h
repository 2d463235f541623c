/* MULTI and WATCH of a connection, and the commands whose effect the face works out itself (resp_edit.c). */
#ifndef HTC_KVS_RESP_TRANSACTION_H
#define HTC_KVS_RESP_TRANSACTION_H

#include "kvs/resp/resp_private.h"
#include "kvs/util/table.h"

#define HTC__RESP_QUEUE_COMMANDS 32768u
#define HTC__RESP_QUEUE_BYTES    ((size_t)24 << 20)
#define HTC__RESP_WATCHES_MAX    1024u
#define HTC__RESP_REPLIES_MAX    ((size_t)16 << 20) /* of one transaction, but for its last reply */

typedef struct htc__resp_watch {
    size_t   at, len; /* of keys */
    uint64_t version; /* 0: there was no such key */
} htc__resp_watch;

struct htc__resp_transaction {
    uint64_t         id;
    int              multi;  /* MULTI was said: commands are queued */
    int              bare;   /* it is one command, whose reply is its own */
    int              failed; /* one of them could not be */
    int              unread; /* a watched key could not be read */
    int              begun;  /* its replies' head is said */
    int              worked; /* its commands were executed before, and its key has changed since */
    uint32_t         waits;  /* watched keys that are not read yet */
    uint32_t         count;
    htc_buf          queue; /* htc__resp_pack each */
    htc_buf          keys;  /* watched */
    htc__resp_watch *watches;
    uint32_t         watch_count, watch_cap;
    size_t           counted; /* bytes of these, in htc__resp.queued */
    htc_bytes        key; /* with several members: what it is about; in queue or keys */
};

/* A key that was looked at for a change. */
typedef struct htc__resp_draft_key {
    htc__resp_state was, now;
    uint64_t        term; /* of its time: 1 as it was */
    int             changed;
    size_t          counted; /* bytes of it in the draft's */
    htc_buf         value[2]; /* one of them is now.value */
    int             which;
} htc__resp_draft_key;

/* The keys of a transaction while it is worked out: as they will be. Of the store nothing is changed meanwhile. */
typedef struct htc__resp_draft {
    htc__resp      *f;
    htc__kv_backend store; /* whom to ask how a key is */
    htc__table      keys;  /* of those that are changed: struct draft_key */
    htc_buf         scratch;
    size_t          bytes; /* of values that will be written */
    size_t          held;  /* memory of all values; that of keys is the table's */
    htc__resp_draft_key *last; /* what its value was before is still lent; may be NULL */
    int             reads; /* something was read of the store */
    int             too_much;
    htc_status      failed; /* memory was refused */
} htc__resp_draft;

void htc__resp_draft_init(htc__resp_draft *d, htc__resp *f);
void htc__resp_draft_free(htc__resp_draft *d);
/* How a key is in the store, for a store that cannot be asked at once; copied. NULL: memory was refused, or it is too much. */
htc__resp_draft_key *htc__resp_draft_put(htc__resp_draft *d, htc_bytes key, const htc__resp_state *was);
/* The store as it will be, for commands. */
htc__kv_backend htc__resp_draft_backend(htc__resp_draft *d);
/* What is to be written of a key, to.value lent as long as the draft. */
void htc__resp_draft_change(const htc__resp_draft_key *k, htc__resp_change *to);

void      htc__resp_transaction_free(htc__resp *f, htc__resp_transaction *tx); /* NULL is fine */
htc_bytes htc__resp_transaction_key(const htc__resp_transaction *tx);

#endif
