/* Things that come and go, each found by a number that no other one ever has: its place, which is given anew, and how many came before it. In no order:
 * to put one in, find it and take it out is a step each, however many there are. */
#ifndef HTC_KVS_NUMBERED_H
#define HTC_KVS_NUMBERED_H

#include "htcsched/env.h"

typedef struct htc__slot_map {
    const htc_env                *env; /* kept */
    struct htc__slot_map_place   *place;
    size_t                        cap, used; /* places that there is memory for, that were ever taken */
    size_t                        free;      /* one that is free again, plus one; 0: none */
    uint64_t                      came;
    size_t                        count;
} htc__slot_map;

/* Nothing of the things themselves is freed. */
void htc__slot_map_free(htc__slot_map *t);
/* The number that the next one gets; never 0. */
uint64_t htc__slot_map_next(const htc__slot_map *t);
/* 1; 0: no memory, or more than 2^24 at once. thing is kept, and is not NULL. */
int   htc__slot_map_add(htc__slot_map *t, void *thing);
void *htc__slot_map_find(const htc__slot_map *t, uint64_t number); /* NULL: it is not there */
void  htc__slot_map_remove(htc__slot_map *t, uint64_t number);
/* Any of them; NULL: there is none. */
void *htc__slot_map_any(const htc__slot_map *t);

#endif
