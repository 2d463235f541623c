#include "kvs/front/watch_names.h"

#include <string.h>

void htc__kv_watch_names_init(htc__kv_watch_names *names, const htc_env *env)
{
    *names = (htc__kv_watch_names){ .length_count = 0 };
    htc__table_init(&names->table, env);
}

void htc__kv_watch_names_free(htc__kv_watch_names *names)
{
    htc__table_free(&names->table);
    memset(names->lengths, 0, sizeof names->lengths);
    names->length_count = 0;
}

htc_bytes htc__kv_watch_name_of(htc__kv_watch_name *name, int prefix, htc_bytes key)
{
    name->data[0] = prefix ? '*' : '=';
    if (key.len)
        memcpy(name->data + 1, key.data, key.len);
    name->len = 1 + key.len;
    return (htc_bytes){ name->data, name->len };
}

int htc__kv_watch_name_prefix(const htc__node *node)
{
    return ((const uint8_t *)htc__node_key(node).data)[0] == '*';
}

htc_bytes htc__kv_watch_name_key(const htc__node *node)
{
    htc_bytes full = htc__node_key(node);
    return (htc_bytes){ (const uint8_t *)full.data + 1, full.len - 1 };
}

htc__node *htc__kv_watch_names_find(const htc__kv_watch_names *names, int prefix, htc_bytes key)
{
    htc__kv_watch_name name;
    return htc__table_find(&names->table, htc__kv_watch_name_of(&name, prefix, key));
}

static void count_length(htc__kv_watch_names *names, size_t length, int by)
{
    names->lengths[length] += (uint32_t)by;
    names->length_count = 0;
    for (uint32_t i = 0; i <= HTC_KV_KEY_MAX; i++)
        if (names->lengths[i])
            names->length[names->length_count++] = (uint16_t)i;
}

htc__node *htc__kv_watch_names_add(htc__kv_watch_names *names, int prefix, htc_bytes key, size_t value_len)
{
    htc__kv_watch_name name;
    htc_bytes          full = htc__kv_watch_name_of(&name, prefix, key);
    htc__node         *node = htc__table_find(&names->table, full);
    if (node || !(node = htc__table_make(&names->table, full, value_len)))
        return node;
    htc__table_link(&names->table, node);
    if (prefix)
        count_length(names, key.len, 1);
    return node;
}

void htc__kv_watch_names_remove(htc__kv_watch_names *names, htc__node *node)
{
    if (htc__kv_watch_name_prefix(node))
        count_length(names, htc__node_key(node).len - 1, -1);
    htc__table_remove(&names->table, htc__node_key(node));
}

htc__node *htc__kv_watch_names_under(const htc__kv_watch_names *names, htc_bytes key, uint32_t *at)
{
    htc__node *node = NULL;
    while (!node && *at <= names->length_count) {
        uint32_t i = (*at)++;
        if (i == 0)
            node = htc__kv_watch_names_find(names, 0, key);
        else if (names->length[i - 1] <= key.len)
            node = htc__kv_watch_names_find(names, 1, (htc_bytes){ key.data, names->length[i - 1] });
    }
    return node;
}
