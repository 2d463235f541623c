/* Memory of a table of cells, in pieces that are called by number: 34 bits instead of an address.
 *
 * Pieces of up to 1 KiB come from pages of 16 KiB, each cut into pieces of one size in steps of 16 bytes; pages come from
 * regions of up to 1 MiB, which is what is asked of the env. A page that is empty serves any size again, a region that is
 * empty is given back. Longer pieces are the env's own. Nothing here takes longer at a larger size. */
#ifndef HTC_KVS_CELLS_ARENA_H
#define HTC_KVS_CELLS_ARENA_H

#include "htcsched/env.h"

/* What all parts of a table take together, and the most it may be. */
typedef struct htc__budget {
    htc_env    env;
    size_t     used, max; /* max 0: none */
    htc_status why;       /* of the last refusal: HTC_ENOMEM or HTC_EFULL */
} htc__budget;

/* Not zeroed; NULL: refused, and b->why. */
void *htc__budget_take(htc__budget *b, size_t size);
void  htc__budget_give(htc__budget *b, void *p, size_t size);

#define HTC__ARENA_UNIT         ((size_t)16)
#define HTC__ARENA_PAGE_UNITS   1024
#define HTC__ARENA_REGION_PAGES 64
#define HTC__ARENA_CLASSES      65 /* by the number of units */
#define HTC__ARENA_REF_BITS     34 /* of which the highest says that the piece is the env's own */
#define HTC__ARENA_REGION_SHIFT 16 /* log2 of the units of a region */

struct htc__region;

typedef struct htc__arena {
    htc__budget         *budget;
    uint8_t            **base;    /* of each region, by its number from 1; NULL: given back */
    struct htc__region **regions; /* beside base, for what a look-up needs not */
    size_t               count, cap;
    uint32_t             partial[HTC__ARENA_CLASSES]; /* pages with room for a piece of this size */
    uint32_t             open;                        /* regions with free pages; 0: none */
    uint32_t             empty;                       /* one without a piece in it, kept for the next; 0: none */
    uint32_t             vacant;                      /* numbers of regions that were given back */
    void              ***big;                         /* chunks of pointers */
    size_t               big_chunks, big_cap, big_fresh;
    uint64_t             big_free; /* 1 + number; 0: none */
} htc__arena;

void htc__arena_init(htc__arena *a, htc__budget *budget);
void htc__arena_free(htc__arena *a); /* the env's own pieces have to be given before */

/* A piece of at least size bytes (1 or more); 0: refused, and budget->why. */
uint64_t htc__arena_take(htc__arena *a, size_t size);
void     htc__arena_give(htc__arena *a, uint64_t ref, size_t size); /* size: as it was taken, or what it served last */
/* May the piece that serves so many bytes serve so many others? A little more than these need is let be, so that what trembles
 * about a length stays where it is. */
int htc__arena_fits(const htc__arena *a, uint64_t ref, size_t before, size_t size);

#define HTC__ARENA_BIG       (UINT64_C(1) << (HTC__ARENA_REF_BITS - 1))
#define HTC__ARENA_BIG_SHIFT 12

static inline void *htc__arena_at(const htc__arena *a, uint64_t ref)
{
    if (__builtin_expect((ref & HTC__ARENA_BIG) != 0, 0)) {
        ref &= ~HTC__ARENA_BIG;
        return a->big[ref >> HTC__ARENA_BIG_SHIFT][ref & ((1u << HTC__ARENA_BIG_SHIFT) - 1)];
    }
    return a->base[ref >> HTC__ARENA_REGION_SHIFT] + (ref & ((1u << HTC__ARENA_REGION_SHIFT) - 1)) * HTC__ARENA_UNIT;
}

#endif
