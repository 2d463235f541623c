/* The part of an owner that proposes: one linearizable register for each key, by CASPaxos.
 *
 * Requests of one key are taken one after another; one ballot carries one change. In the normal case, the key's first owner
 * proposes alone and knows (ballot, value): a change is one round trip, and so is a read that a majority answers alike. All else
 * is two: prepare, then accept. What was asked is answered exactly once: done, or handed over to another owner.
 *
 *            READ ──a majority says the same──────────────────────────▶ answer (reads; changes that fail)
 *              │ not the same, or it is to be changed
 *              ▼
 *     draw a ballot ──▶ PREPARE ──majority──▶ change what has the highest ballot ──▶ ACCEPT ──majority──▶ answer
 *              ▲                                                     cached ────────▶   │
 *              └── back off, draw a higher one ◀── refused ─────────────────────────────┘
 *
 * Ballots and rounds are drawn from one counter, in blocks: a block is durable before one of it is used (reserve), and the next
 * life begins behind it. Nothing here waits for a disk, a network or a clock: moments are handed in. */
#ifndef HTC_KVS_REGISTER_H
#define HTC_KVS_REGISTER_H

#include "htcsched/ring.h"
#include "kvs/register/acceptor.h"
#include "kvs/cell/change.h"


typedef struct htc__kv_register htc__kv_register;

/* Of a key's bucket. */
typedef struct htc__kv_owners {
    uint64_t epoch; /* in which they last changed */
    uint32_t n;     /* 1 to HTC_RING_OWNERS_MAX */
    uint32_t first; /* index of the one that is to propose: the first that is not suspected */
    uint64_t id[HTC_RING_OWNERS_MAX];
} htc__kv_owners;

typedef struct htc__kv_outcome {
    htc_kv_result result;   /* lent; HTC_ETIMEDOUT: given up, whatever has become of it, and HTC_EUNKNOWN of a request without a
                               client is the same; HTC_AGAIN: the key is bound to result.lease:
                               once that is known to live, ask again with it as stamp->alive */
    uint8_t       fields;   /* HTC__KV_HAS_... of kvs/wire/kv_wire.h */
    uint8_t       tried;    /* an owner may have sent an accept for it: goes with HTC_EUNKNOWN */
    uint8_t       listed;   /* it was done before: perhaps by another owner, who wrote its own value under that version */
    uint64_t      observed; /* the version of the key, deleted ones included */
} htc__kv_outcome;

/* What it asks of whoever runs it. None of these calls the register. */
typedef struct htc__kv_register_host {
    /* To each owner whose bit is set in mask, this member too. What fails or is lost is said again. ask is lent. */
    void (*send)(void *ctx, const htc__kv_owners *owners, uint32_t mask, const htc__kv_ask *ask);
    void (*done)(void *ctx, uint64_t tag, const htc__kv_outcome *outcome);
    /* Give the request of this tag to that owner, with the mark whether it was tried. */
    void (*hand_over)(void *ctx, uint64_t tag, uint64_t to, int tried);
    /* Make this number durable, then call htc__kv_register_reserved. Asked again only for a higher one. */
    void (*reserve)(void *ctx, uint64_t counter);
    void *ctx;
} htc__kv_register_host;

typedef struct htc__kv_register_options {
    uint64_t self;       /* the member's id */
    uint64_t counter;    /* the last one that was made durable; 0: there is none */
    uint64_t seed;       /* of the random pauses */
    htc_ns   retry_ns;   /* say it again to who has not answered; 0: 50 ms */
    htc_ns   round_ns;   /* then with a new ballot, if one of them has refused it; 0: 4 * retry_ns */
    htc_ns   grace_ns;   /* a majority has answered, differently: wait for the others so long; 0: retry_ns / 8 */
    htc_ns   pause_ns;   /* after the first lost round, doubling; 0: retry_ns / 8 */
    uint32_t losses_max; /* lost rounds after which the first owner gets it; 0: 3 */
    uint32_t asked_max;  /* requests held; 0: 65536 */
    size_t   value_max;  /* of a key of a user; 0: HTC_KV_VALUE_MAX */
    size_t   cache_max;  /* bytes of cached cells; 0: 16 MiB */
    uint64_t block;      /* numbers reserved at once; 0: 2^20 */
} htc__kv_register_options;

/* For monitors. */
typedef struct htc__kv_register_counts {
    uint64_t reads, prepares, accepts; /* rounds that were begun */
    uint64_t said_again;               /* messages repeated to owners that had not answered */
    uint64_t lost;                     /* rounds refused by so many that they could not win: a higher ballot was about */
    uint64_t handed_over;              /* requests given to another owner after such losses */
    uint64_t overdue;                  /* rounds that not enough owners answered in time */
    uint64_t given_up;                 /* requests answered HTC_ETIMEDOUT */
} htc__kv_register_counts;

/* HTC_OK; HTC_EINVAL; HTC_ENOMEM. It reserves its first block at once. */
htc_status htc__kv_register_create(const htc_env *env, const htc__kv_register_options *options,
                                   const htc__kv_register_host *host, htc__kv_register **out);
void       htc__kv_register_destroy(htc__kv_register *reg);

/* One request about one key, given up at `until` (HTC_NEVER: never). tried: another owner has handed it on after trying.
 * HTC_OK: it will be answered, perhaps before this returns; HTC_EFULL; HTC_ENOMEM. All bytes are copied. */
htc_status htc__kv_register_ask(htc__kv_register *reg, htc_ns now, const htc__kv_owners *owners,
                                const htc_kv_request *request, const htc__kv_stamp *stamp, int tried, htc_ns until,
                                uint64_t tag);
/* Collect the key's tombstone if every owner holds it. done: HTC_OK, every owner was told; HTC_MISMATCH: it is alive;
 * HTC_ENOTFOUND; HTC_EUNREACHABLE: not all confirmed, later perhaps; HTC_EBUSY: something else is asked of the key meanwhile, and
 * that goes first. The same is answered at once where something is being asked already. */
htc_status htc__kv_register_collect(htc__kv_register *reg, htc_ns now, const htc__kv_owners *owners, htc_bytes key,
                                    uint64_t tag);
void       htc__kv_register_reply(htc__kv_register *reg, htc_ns now, uint64_t from, const htc__kv_reply *reply);
void       htc__kv_register_reserved(htc__kv_register *reg, htc_ns now, uint64_t counter);
void       htc__kv_register_timeout(htc__kv_register *reg, htc_ns now);
htc_ns     htc__kv_register_deadline(const htc__kv_register *reg);
const htc__kv_register_counts *htc__kv_register_counted(const htc__kv_register *reg);

/* The map has changed: ask for the owners of each key that is known here. What is under way starts anew in the bucket's new
 * epoch; what is no longer this member's is handed over. */
void htc__kv_register_moved(htc__kv_register *reg, htc_ns                                              now,
                            void (*owners_of)(void *ctx, htc_bytes key, htc__kv_owners *owners), void *ctx);

#endif
