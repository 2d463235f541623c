/* References in the order of the places of their keys: open addressing in which nothing ever stands before what has a
 * smaller place (Robin Hood hashing with the hash itself as the home, Celis 1986; the sorted linear probing of Amble and
 * Knuth 1974). So a look-up ends early, a bucket is one contiguous stretch, and growing is one pass from left to right,
 * made a stretch at a time: what lies below `frontier` is in the new table already.
 *
 * A slot holds the upper 30 bits of the place and the reference, and moves without a look at what it refers to. */
#ifndef HTC_KVS_CELLS_PLACES_H
#define HTC_KVS_CELLS_PLACES_H

#include "kvs/storage/cells_arena.h"

#define HTC__PLACE_BITS (64 - HTC__ARENA_REF_BITS) /* what kvs/storage/cells.h promises */

/* Slots come in chunks, so that no step of growth takes or clears much at once. */
typedef struct htc__slots {
    uint64_t **chunks;     /* of chunk_size slots; NULL: not there yet, or not any more; all its slots are empty */
    size_t     chunks_max; /* length of the array */
    uint64_t   homes;      /* slots that can be a home; behind the last is room for what is pushed on */
    uint64_t   size;       /* all slots */
    uint32_t   shift;      /* log2 of chunk_size */
    size_t     used;
} htc__slots;

typedef struct htc__places {
    htc__budget *budget;
    htc__slots   now, next;
    int          moving;
    uint64_t     at;       /* slots of now below it have been moved */
    uint64_t     frontier; /* the first place (30 bits) that is not in next; with moving */
} htc__places;

/* Where a look-up is. */
typedef struct htc__spot {
    htc__slots *slots;
    uint64_t    index;
    uint64_t   *slot;
} htc__spot;

static inline uint64_t htc__place_top(uint64_t place)
{
    return place >> HTC__ARENA_REF_BITS;
}

void   htc__places_init(htc__places *p, htc__budget *budget);
void   htc__places_free(htc__places *p);
size_t htc__places_count(const htc__places *p);

/* The references under this place, one after the other: 0 when there is no more. */
uint64_t htc__places_first(htc__places *p, uint64_t place, htc__spot *spot);
uint64_t htc__places_again(uint64_t place, htc__spot *spot);

/* Room for one more and a step of growth; HTC_OK, HTC_ENOMEM, HTC_EFULL. It moves slots: a spot is no longer one. */
htc_status htc__places_reserve(htc__places *p);
/* HTC_OK; HTC_ENOMEM, HTC_EFULL: as it was. Reserve first. */
htc_status htc__places_insert(htc__places *p, uint64_t place, uint64_t ref);
void       htc__places_replace(htc__spot *spot, uint64_t ref);
void       htc__places_erase(htc__places *p, htc__spot *spot);
/* A step of growth or shrinking, if there is one to make. */
void htc__places_settle(htc__places *p);

/* Ask the memory for the slots of this place. */
void htc__places_hint(const htc__places *p, uint64_t place);

/* In order, those with from <= top(place) <= to, until visit answers 0 (then the answer is 0). */
typedef int (*htc__places_visit)(void *ctx, uint64_t top, uint64_t ref);
int htc__places_walk(const htc__places *p, uint64_t from, uint64_t to, htc__places_visit visit, void *ctx);

#endif
