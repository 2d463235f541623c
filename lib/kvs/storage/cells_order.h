/* References in the order of their keys: a skip list (Pugh 1990) whose nodes come from the arena, 17 bytes a record, and 5 in the record that say which is its own. How high a
 * node stands follows from the place of its key, not from chance. */
#ifndef HTC_KVS_CELLS_ORDER_H
#define HTC_KVS_CELLS_ORDER_H

#include "kvs/storage/cells_arena.h"

#define HTC__ORDER_LEVELS 20

typedef struct htc__order_link5 {
    uint8_t bytes[5]; /* of a reference, the lowest first */
} htc__order_link5;

static inline uint64_t htc__order_link_get(const htc__order_link5 *link)
{
    const uint8_t *b = link->bytes;
    return b[0] | (uint64_t)b[1] << 8 | (uint64_t)b[2] << 16 | (uint64_t)b[3] << 24 | (uint64_t)b[4] << 32;
}

static inline void htc__order_link_set(htc__order_link5 *link, uint64_t to)
{
    for (size_t i = 0; i < sizeof link->bytes; i++)
        link->bytes[i] = (uint8_t)(to >> (8 * i));
}

typedef struct htc__order {
    htc__arena *arena;
    htc_bytes (*key_of)(const htc__arena *arena, uint64_t ref);
    htc__order_link5 head[HTC__ORDER_LEVELS]; /* nodes; 0: none */
} htc__order;

void htc__order_init(htc__order *o, htc__arena *arena, htc_bytes (*key_of)(const htc__arena *, uint64_t));

/* A node for a record, not linked; 0: refused. */
uint64_t htc__order_make(htc__order *o, uint64_t place);
void     htc__order_discard(htc__order *o, uint64_t node, uint64_t place);
void     htc__order_link(htc__order *o, uint64_t node, uint64_t place, htc_bytes key, uint64_t ref);
/* The record of this node is called ref from now on. */
void htc__order_rename(htc__order *o, uint64_t node, uint64_t ref);
void htc__order_remove(htc__order *o, uint64_t place, htc_bytes key);

/* The first node whose key is not before `key`, and the one behind a node; 0: none. */
uint64_t htc__order_seek(const htc__order *o, htc_bytes key);
uint64_t htc__order_next(const htc__order *o, uint64_t node);
uint64_t htc__order_ref(const htc__order *o, uint64_t node);

#endif
