/* The event queue of the scale models: a ladder on arrays (Tang, Goh and Thng, "Ladder queue: an O(1) priority queue structure for
 * large-scale discrete event simulation", ACM TOMACS 15(3), 2005), with events of 8 bytes.
 *
 * An event is a key: the tick in its high bits, the id in the others. The queue gives the least key that is pending, so that events of one
 * tick come by id. Keys that are equal are equal events.
 *
 *   top      keys from top_start on, in no order
 *   rungs    each divides what was one list into up to 2048 buckets of equal width; the next rung divides one bucket of it
 *   bottom   the keys of the bucket that was opened last, sorted
 *   side     a small heap of keys that were pushed meanwhile and belong before the next bucket
 *
 * A key is appended and read some three times on its way down, in streams, and sorted once, among a few hundred: that is why a push and a pop
 * take the same time for a thousand events and for a billion.
 *
 * Lists are chunks of one array and refer to each other by number: the whole state is arrays without pointers. */
#ifndef HTC_SIM_SCALE_LADDER_H
#define HTC_SIM_SCALE_LADDER_H

#include "htcsched/sim_scale.h"

#define LADDER_CHUNK  63u   /* keys of a chunk, which is 512 bytes */
#define LADDER_RUNGS  14u   /* each divides by more than 32: 13 are enough for 64 bits */
#define LADDER_FAN    2048u /* buckets of a rung at most, */
#define LADDER_NARROW 64u   /* and at least, where there is room */
#define LADDER_SORTED 384u  /* a bucket with so many keys is sorted, one with more is divided */
#define LADDER_FEW    24u   /* so is one with more than these, */
#define LADDER_PART   4u    /* if they are more than this part of all that is pending */
#define LADDER_SIDE   512u  /* keys of the side heap at most */
#define LADDER_KEY_MAX (UINT64_MAX >> 1) /* so that the end of a bucket is a number too */

typedef struct ladder_chunk {
    uint32_t next, n; /* next: 0: none */
    uint64_t key[LADDER_CHUNK];
} ladder_chunk;

typedef struct ladder_list {
    uint32_t head, count; /* the newest chunk first */
} ladder_list;

typedef struct ladder_rung {
    uint64_t    base;
    uint32_t    shift, current, buckets; /* current: the first that was not opened yet */
    ladder_list list[LADDER_FAN];
} ladder_rung;

typedef struct ladder {
    uint64_t count, last; /* last: the key popped last */
    uint64_t top_start, top_min, top_max;
    uint64_t limit[LADDER_RUNGS]; /* keys from here on are in the rung, as far as it goes; the others below it */
    uint32_t rungs, bottom_n, side_n;
    uint32_t chunks_used, chunk_free; /* chunk_free: the first of those that are used no more; 0: none */
    ladder_list   top;
    uint64_t      bottom[LADDER_SORTED]; /* the least is the last */
    uint64_t      other[LADDER_SORTED];  /* for sorting */
    uint64_t      side[LADDER_SIDE];
    ladder_rung   rung[LADDER_RUNGS];
    /* From here on it does not change. */
    uint64_t      count_max, id_mask;
    uint32_t      chunks;
    ladder_chunk *chunk; /* chunk 0 is none */
} ladder;

/* Bytes for so many events at once. */
uint64_t htc__ladder_memory(uint64_t count_max);
/* Empty; id_bits: low bits of a key that are its id. HTC_ENOMEM. count_max below 2^32. */
htc_status htc__ladder_create(const htc_env *env, uint64_t count_max, uint32_t id_bits, ladder **out);
void       htc__ladder_destroy(const htc_env *env, ladder *q);
/* Write all that is pending, or read it into a queue for as many events and bits: of so many ids from the first one on, and no tick before this one. HTC_ECORRUPT, after
 * which it is good for destroy alone; what the tape answers. */
htc_status htc__ladder_move(ladder *q, const htc_scale_tape *tape, uint64_t tick, uint64_t first_id, uint64_t ids);
/* Add to the number of each id that is pending; 255: so many or more. */
void htc__ladder_count_ids(const ladder *q, uint8_t *of);

int      htc__ladder_refill(ladder *q);    /* the bottom is filled; 0: nothing is pending */
void     htc__ladder_side_put(ladder *q, uint64_t key);
uint64_t htc__ladder_side_take(ladder *q); /* the least */

static inline void htc__ladder_append(ladder *q, ladder_list *list, uint64_t key)
{
    ladder_chunk *c = &q->chunk[list->head];
    if (c->n == LADDER_CHUNK) { /* so is chunk 0 */
        uint32_t fresh = q->chunk_free;
        if (fresh)
            q->chunk_free = q->chunk[fresh].next;
        else
            fresh = ++q->chunks_used; /* chunks are enough: htc__ladder_memory */
        c = &q->chunk[fresh];
        c->next = list->head;
        c->n = 0;
        list->head = fresh;
    }
    c->key[c->n++] = key;
    list->count++;
}

/* At most count_max are pending; the tick of the key is not before that of the last one popped, and the key at most LADDER_KEY_MAX. */
static inline void htc__ladder_push(ladder *q, uint64_t key)
{
    q->count++;
    if (key >= q->top_start) {
        q->top_min = key < q->top_min ? key : q->top_min;
        q->top_max = key > q->top_max ? key : q->top_max;
        htc__ladder_append(q, &q->top, key);
        return;
    }
    for (uint32_t r = 0; r < q->rungs; r++)
        if (key >= q->limit[r]) {
            htc__ladder_append(q, &q->rung[r].list[(key - q->rung[r].base) >> q->rung[r].shift], key);
            return;
        }
    htc__ladder_side_put(q, key);
}

/* A key will be pushed soon: fetch where it goes into the cache. */
static inline void htc__ladder_expect(const ladder *q, uint64_t key)
{
    const ladder_list *list = NULL;
    if (key >= q->top_start)
        list = &q->top;
    for (uint32_t r = 0; !list && r < q->rungs; r++)
        if (key >= q->limit[r])
            list = &q->rung[r].list[(key - q->rung[r].base) >> q->rung[r].shift];
    if (list)
        __builtin_prefetch(&q->chunk[list->head], 1);
}

/* The least key, which stays; 0: nothing is pending. */
static inline int htc__ladder_peek(ladder *q, uint64_t *key)
{
    if (q->bottom_n == 0 && q->side_n == 0 && !htc__ladder_refill(q))
        return 0;
    *key = q->bottom_n ? q->bottom[q->bottom_n - 1] : UINT64_MAX;
    *key = q->side_n && q->side[0] < *key ? q->side[0] : *key;
    return 1;
}

/* 0: nothing is pending. */
static inline int htc__ladder_pop(ladder *q, uint64_t *key)
{
    if (q->bottom_n == 0 && q->side_n == 0 && !htc__ladder_refill(q))
        return 0;
    if (q->side_n && (q->bottom_n == 0 || q->side[0] < q->bottom[q->bottom_n - 1]))
        *key = htc__ladder_side_take(q);
    else
        *key = q->bottom[--q->bottom_n];
    q->last = *key;
    q->count--;
    return 1;
}

/* Keys of those that come after the bottom, in no order: the newest chunk of the list that is opened next. How many; 0: none is near. For a model that
 * fetches into the cache what they are about. */
static inline uint32_t htc__ladder_next_keys(const ladder *q, const uint64_t **keys)
{
    const ladder_rung *r = &q->rung[q->rungs ? q->rungs - 1 : 0];
    for (uint32_t i = r->current; q->rungs && i < r->buckets && i < r->current + 4; i++)
        if (r->list[i].count) {
            *keys = q->chunk[r->list[i].head].key;
            return q->chunk[r->list[i].head].n;
        }
    return 0;
}

#endif
