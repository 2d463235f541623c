/* Keys and prefixes by name, and which of them a key falls under: of a server's own watchers (watch.h), and of what other members
 * watch (replica/watch_notify.c). One probe for the key, and one for each length that a prefix has. */
#ifndef HTC_KVS_WATCH_NAMES_H
#define HTC_KVS_WATCH_NAMES_H

#include "htcsched/kv.h"
#include "kvs/util/table.h"

/* As they stand in the table: '=' KEY or '*' PREFIX. */
typedef struct htc__kv_watch_name {
    size_t  len;
    uint8_t data[1 + HTC_KV_KEY_MAX];
} htc__kv_watch_name;

typedef struct htc__kv_watch_names {
    htc__table table;
    uint32_t   lengths[HTC_KV_KEY_MAX + 1]; /* so many prefixes of this length */
    uint16_t   length[HTC_KV_KEY_MAX + 1];  /* the lengths that there are */
    uint32_t   length_count;
} htc__kv_watch_names;

void htc__kv_watch_names_init(htc__kv_watch_names *names, const htc_env *env);
void htc__kv_watch_names_free(htc__kv_watch_names *names);

htc_bytes  htc__kv_watch_name_of(htc__kv_watch_name *name, int prefix, htc_bytes key); /* lends name */
int        htc__kv_watch_name_prefix(const htc__node *node);
htc_bytes  htc__kv_watch_name_key(const htc__node *node);
htc__node *htc__kv_watch_names_find(const htc__kv_watch_names *names, int prefix, htc_bytes key); /* NULL: it is none of them */
/* Found or made, its value zero; NULL: no memory. */
htc__node *htc__kv_watch_names_add(htc__kv_watch_names *names, int prefix, htc_bytes key, size_t value_len);
void       htc__kv_watch_names_remove(htc__kv_watch_names *names, htc__node *node);
/* Those that the key falls under, one after the other, none of which is added or removed meanwhile: *at begins at 0; NULL: that was all. */
htc__node *htc__kv_watch_names_under(const htc__kv_watch_names *names, htc_bytes key, uint32_t *at);

#endif
