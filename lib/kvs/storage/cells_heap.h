/* The records of a member in memory: bytes under bytes, by key, by place and, if asked for, in the order of keys.
 *
 * A record is its lengths (3 bytes; 7 if the value is long), its node in the order of keys where there is one (5 bytes), the key
 * and the value, in one piece of the arena. Together with its slot a record of 168 bytes costs 186 to 189. What is said of time holds at any size: no call takes longer because there
 * is more; growing is done a little with each change. */
#ifndef HTC_KVS_CELLS_HEAP_H
#define HTC_KVS_CELLS_HEAP_H

#include "htcsched/kv_engine.h"
#include "kvs/storage/cells_arena.h"
#include "kvs/storage/cells_order.h"
#include "kvs/storage/cells_places.h"

typedef struct htc__heap_options {
    uint64_t seed;      /* of the places */
    size_t   bytes_max; /* of memory; 0: none */
    int      ordered;   /* 1: by key as well, for scan */
} htc__heap_options;

#define HTC__HEAP_FOUND 16
typedef struct htc__found {
    htc__spot spot;
    uint64_t  ref, place;
} htc__found;

typedef struct htc__heap {
    htc__budget budget;
    htc__arena  arena;
    htc__places places;
    htc__order  order;
    uint64_t    seed;
    int         ordered;
    /* What was found last, or hinted at: the look-ups that likely follow, in this order. Any move of a slot
     * forgets them all. */
    htc__found  found[HTC__HEAP_FOUND];
    size_t      found_count, found_next; /* found_next - 1 is the newest */
    uint64_t    asked;                   /* the place of the key that was looked for last, found or not */
    size_t      live; /* bytes of keys and values */
    size_t      lost; /* records that are known only to be damaged */
} htc__heap;

void htc__heap_init(htc__heap *h, const htc_env *env, const htc__heap_options *options);
void htc__heap_free(htc__heap *h);

/* *value is lent until the next change. HTC_OK, HTC_ENOTFOUND; HTC_ECORRUPT: its value was damaged where it was stored. */
htc_status htc__heap_get(htc__heap *h, htc_bytes key, htc_bytes *value);
/* value may be one that was lent. HTC_OK; HTC_ENOMEM, HTC_EFULL, HTC_ETOOBIG: as it was. */
htc_status htc__heap_put(htc__heap *h, htc_bytes key, htc_bytes value);
/* Under this key there was something, and nobody knows what. */
htc_status htc__heap_lose(htc__heap *h, htc_bytes key);
/* 1: it was there. */
int htc__heap_drop(htc__heap *h, htc_bytes key);

/* The place of the key that one of these three was about last: to compute it takes as long as to find the record. */
static inline uint64_t htc__heap_place(const htc__heap *h)
{
    return h->asked;
}

/* Damaged records are left out of both. HTC_OK; HTC_EUNSUPPORTED: not ordered. */
htc_status htc__heap_scan(const htc__heap *h, htc_bytes from, htc_kv_visit visit, void *visitor);
htc_status htc__heap_walk(const htc__heap *h, uint64_t from, uint64_t to, htc_kv_visit visit, void *visitor);
/* By the upper bits of the place, damaged ones with value.data NULL and value.len SIZE_MAX. */
void htc__heap_walk_tops(const htc__heap *h, uint64_t from, uint64_t to,
                         int (*visit)(void *ctx, uint64_t top, htc_bytes key, htc_bytes value), void *ctx);

/* These keys, the first HTC__HEAP_FOUND of them, are asked for next in this order: wait for the memory of all at once. */
void htc__heap_hint(htc__heap *h, const htc_bytes *keys, size_t n);

static inline size_t htc__heap_count(const htc__heap *h)
{
    return htc__places_count(&h->places) - h->lost;
}

static inline size_t htc__heap_used(const htc__heap *h)
{
    return h->budget.used;
}

#endif
