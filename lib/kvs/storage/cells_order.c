#include "kvs/storage/cells_order.h"

/* A reference takes five bytes, so that a node of one level or two, which 15 in 16 are, is one unit of the arena: the
 * record's, then the next node on each level. */
typedef struct node {
    htc__order_link5 ref;
    htc__order_link5 next[];
} node;

_Static_assert(HTC__ARENA_REF_BITS <= 40 && sizeof(node) + 2 * sizeof(htc__order_link5) <= HTC__ARENA_UNIT,
               "five bytes hold a reference, a unit three of them");

static node *node_at(const htc__order *o, uint64_t ref)
{
    return htc__arena_at(o->arena, ref);
}

/* The lower bits of the place, which the order of places does not depend on: one node in four reaches the next level. */
static uint32_t levels_of(uint64_t place)
{
    uint32_t levels = 1;
    for (; levels < HTC__ORDER_LEVELS && (place & 3) == 3; place >>= 2)
        levels++;
    return levels;
}

static size_t size_of(uint64_t place)
{
    return sizeof(node) + levels_of(place) * sizeof(htc__order_link5);
}

void htc__order_init(htc__order *o, htc__arena *arena, htc_bytes (*key_of)(const htc__arena *, uint64_t))
{
    *o = (htc__order){ .arena = arena, .key_of = key_of };
}

uint64_t htc__order_make(htc__order *o, uint64_t place)
{
    return htc__arena_take(o->arena, size_of(place));
}

void htc__order_discard(htc__order *o, uint64_t at, uint64_t place)
{
    htc__arena_give(o->arena, at, size_of(place));
}

/* Where the pointers to the first node not before key stand, on every level; that node. */
static uint64_t path(htc__order *o, htc_bytes key, htc__order_link5 *links[HTC__ORDER_LEVELS])
{
    htc__order_link5 *link = o->head;
    for (int level = HTC__ORDER_LEVELS - 1; level >= 0; level--) {
        for (uint64_t at; (at = htc__order_link_get(&link[level])) != 0;) {
            node *n = node_at(o, at);
            if (htc_bytes_compare(o->key_of(o->arena, htc__order_link_get(&n->ref)), key) >= 0)
                break;
            link = n->next;
        }
        links[level] = &link[level];
    }
    return htc__order_link_get(links[0]);
}

void htc__order_link(htc__order *o, uint64_t at, uint64_t place, htc_bytes key, uint64_t ref)
{
    htc__order_link5 *links[HTC__ORDER_LEVELS];
    node             *n = node_at(o, at);
    path(o, key, links);
    htc__order_link_set(&n->ref, ref);
    for (uint32_t level = 0; level < levels_of(place); level++) {
        n->next[level] = *links[level];
        htc__order_link_set(links[level], at);
    }
}

void htc__order_rename(htc__order *o, uint64_t at, uint64_t ref)
{
    htc__order_link_set(&node_at(o, at)->ref, ref);
}

void htc__order_remove(htc__order *o, uint64_t place, htc_bytes key)
{
    htc__order_link5 *links[HTC__ORDER_LEVELS];
    uint64_t          at = path(o, key, links);
    for (uint32_t level = 0; level < levels_of(place); level++)
        *links[level] = node_at(o, at)->next[level];
    htc__order_discard(o, at, place);
}

uint64_t htc__order_seek(const htc__order *o, htc_bytes key)
{
    const htc__order_link5 *link = o->head;
    for (int level = HTC__ORDER_LEVELS - 1; level >= 0; level--)
        for (uint64_t at; (at = htc__order_link_get(&link[level])) != 0;) {
            const node *n = node_at(o, at);
            if (htc_bytes_compare(o->key_of(o->arena, htc__order_link_get(&n->ref)), key) >= 0)
                break;
            link = n->next;
        }
    return htc__order_link_get(&link[0]);
}

uint64_t htc__order_next(const htc__order *o, uint64_t at)
{
    return htc__order_link_get(&node_at(o, at)->next[0]);
}

uint64_t htc__order_ref(const htc__order *o, uint64_t at)
{
    return htc__order_link_get(&node_at(o, at)->ref);
}
