/* An ordered table of bytes under bytes: a skip list for order, a hash beside it for exact look-ups.
 *
 * A node is made first (the only step that can fail) and linked later (which cannot): so a batch of changes is prepared
 * as a whole and then takes place as a whole. How high a node stands follows from the hash of its key, not from chance.
 */
#ifndef HTC_KVS_TABLE_H
#define HTC_KVS_TABLE_H

#include "htcsched/env.h"

#define HTC__TABLE_LEVELS 16

typedef struct htc__node {
    struct htc__node *chain; /* next in its hash slot; free for the maker's use until linked */
    uint64_t          hash;
    size_t            value_len;
    uint32_t          key_len;
    uint32_t          levels;
    struct htc__node *next[]; /* then the value, then the key */
} htc__node;

typedef struct htc__table {
    htc_env     env;
    htc__node  *head[HTC__TABLE_LEVELS];
    htc__node **slots; /* NULL while none could be had: the skip list finds things too */
    size_t      slot_count;
    size_t      count;
    size_t      bytes; /* of all linked nodes */
} htc__table;

void htc__table_init(htc__table *t, const htc_env *env);
void htc__table_free(htc__table *t);

/* An unlinked node with a zeroed value, aligned for any integer; NULL when memory is refused. */
htc__node *htc__table_make(htc__table *t, htc_bytes key, size_t value_len);
void       htc__table_discard(htc__table *t, htc__node *node); /* a node that was never linked */
void       htc__table_link(htc__table *t, htc__node *node);    /* replaces the node of the same key */
int        htc__table_remove(htc__table *t, htc_bytes key);    /* 1 if there was one */

htc__node *htc__table_find(const htc__table *t, htc_bytes key);
htc__node *htc__table_seek(const htc__table *t, htc_bytes key); /* the first >= key; next[0] leads on */

void     *htc__node_value(const htc__node *node);
htc_bytes htc__node_key(const htc__node *node);

#endif
