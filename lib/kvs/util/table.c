#include "kvs/util/table.h"

#include <assert.h>
#include <string.h>

#include "core/util.h"

void htc__table_init(htc__table *t, const htc_env *env)
{
    *t = (htc__table){ 0 };
    if (env)
        t->env = *env;
}

static size_t node_size(const htc__node *node)
{
    return sizeof *node + node->levels * sizeof node->next[0] + node->value_len + node->key_len;
}

void htc__table_free(htc__table *t)
{
    for (htc__node *node = t->head[0], *next; node; node = next) {
        next = node->next[0];
        htc__free(&t->env, node, node_size(node));
    }
    htc__free(&t->env, t->slots, t->slot_count * sizeof *t->slots);
    htc_env env = t->env;
    htc__table_init(t, &env);
}

void *htc__node_value(const htc__node *node)
{
    return (uint8_t *)(uintptr_t)(node->next + node->levels);
}

htc_bytes htc__node_key(const htc__node *node)
{
    return (htc_bytes){ (uint8_t *)htc__node_value(node) + node->value_len, node->key_len };
}

/* Each level holds a quarter of the one below: a third of a pointer more than a plain list. */
static uint32_t levels_of(uint64_t hash)
{
    uint32_t levels = 1;
    for (hash >>= 32; levels < HTC__TABLE_LEVELS && (hash & 3) == 0; hash >>= 2)
        levels++;
    return levels;
}

htc__node *htc__table_make(htc__table *t, htc_bytes key, size_t value_len)
{
    uint64_t   hash = htc_hash64(key, 0);
    uint32_t   levels = levels_of(hash);
    htc__node *node = htc__alloc(&t->env, sizeof *node + levels * sizeof node->next[0] + value_len + key.len);
    if (!node)
        return NULL;
    node->hash = hash;
    node->levels = levels;
    node->value_len = value_len;
    node->key_len = (uint32_t)key.len;
    if (key.len)
        memcpy((uint8_t *)htc__node_value(node) + value_len, key.data, key.len);
    return node;
}

void htc__table_discard(htc__table *t, htc__node *node)
{
    if (node)
        htc__free(&t->env, node, node_size(node));
}

/* Where the search for key steps down: link[l] is the pointer at level l behind the last node below key. */
static void descend(htc__table *t, htc_bytes key, htc__node ***link)
{
    htc__node **row = t->head;
    for (unsigned l = HTC__TABLE_LEVELS; l-- > 0;) {
        while (row[l] && htc_bytes_compare(htc__node_key(row[l]), key) < 0)
            row = row[l]->next;
        link[l] = &row[l];
    }
}

static void slots_grow(htc__table *t)
{
    size_t      n = t->slot_count ? t->slot_count * 2 : 64;
    htc__node **slots = htc__alloc(&t->env, n * sizeof *slots);
    if (!slots)
        return; /* longer chains, or none at all: slower, never wrong */
    for (htc__node *node = t->head[0]; node; node = node->next[0]) {
        node->chain = slots[node->hash & (n - 1)];
        slots[node->hash & (n - 1)] = node;
    }
    htc__free(&t->env, t->slots, t->slot_count * sizeof *t->slots);
    t->slots = slots;
    t->slot_count = n;
}

static void unlink_node(htc__table *t, htc__node *node, htc__node ***link)
{
    for (uint32_t l = 0; l < node->levels; l++)
        *link[l] = node->next[l];
    if (t->slots) {
        htc__node **at = &t->slots[node->hash & (t->slot_count - 1)];
        while (*at != node)
            at = &(*at)->chain;
        *at = node->chain;
    }
    assert(t->count > 0);
    t->count--;
    t->bytes -= node_size(node);
    htc__free(&t->env, node, node_size(node));
}

static htc__node *there(htc__node ***link, htc_bytes key)
{
    htc__node *node = *link[0];
    return node && htc_bytes_equal(htc__node_key(node), key) ? node : NULL;
}

void htc__table_link(htc__table *t, htc__node *node)
{
    htc__node **link[HTC__TABLE_LEVELS];
    htc_bytes   key = htc__node_key(node);
    descend(t, key, link);
    htc__node *old = there(link, key);
    if (old)
        unlink_node(t, old, link);
    if (t->count >= t->slot_count)
        slots_grow(t);
    for (uint32_t l = 0; l < node->levels; l++) {
        node->next[l] = *link[l];
        *link[l] = node;
    }
    if (t->slots) {
        htc__node **slot = &t->slots[node->hash & (t->slot_count - 1)];
        node->chain = *slot;
        *slot = node;
    }
    t->count++;
    t->bytes += node_size(node);
}

int htc__table_remove(htc__table *t, htc_bytes key)
{
    htc__node **link[HTC__TABLE_LEVELS];
    descend(t, key, link);
    htc__node *node = there(link, key);
    if (!node)
        return 0;
    unlink_node(t, node, link);
    return 1;
}

htc__node *htc__table_seek(const htc__table *t, htc_bytes key)
{
    htc__node *const *row = t->head;
    for (unsigned l = HTC__TABLE_LEVELS; l-- > 0;)
        while (row[l] && htc_bytes_compare(htc__node_key(row[l]), key) < 0)
            row = row[l]->next;
    return row[0];
}

htc__node *htc__table_find(const htc__table *t, htc_bytes key)
{
    if (!t->slots) {
        htc__node *node = htc__table_seek(t, key);
        return node && htc_bytes_equal(htc__node_key(node), key) ? node : NULL;
    }
    uint64_t hash = htc_hash64(key, 0);
    for (htc__node *node = t->slots[hash & (t->slot_count - 1)]; node; node = node->chain)
        if (node->hash == hash && htc_bytes_equal(htc__node_key(node), key))
            return node;
    return NULL;
}
