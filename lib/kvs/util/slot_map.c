#include "kvs/util/slot_map.h"

#include <assert.h>
#include <string.h>

#include "core/util.h"

#define PLACE_BITS 24
#define PLACES     ((size_t)1 << PLACE_BITS)

struct htc__slot_map_place {
    uint64_t number; /* of a free one: the next free one, as in htc__slot_map */
    void    *thing;  /* NULL: it is free */
};

void htc__slot_map_free(htc__slot_map *t)
{
    htc__free(t->env, t->place, t->cap * sizeof *t->place);
    *t = (htc__slot_map){ .env = t->env };
}

uint64_t htc__slot_map_next(const htc__slot_map *t)
{
    return (t->came + 1) << PLACE_BITS | (t->free ? t->free - 1 : t->used);
}

static int grow(htc__slot_map *t)
{
    size_t                      cap = t->cap ? t->cap * 2 : 16;
    struct htc__slot_map_place *more = cap <= PLACES ? htc__alloc(t->env, cap * sizeof *more) : NULL;
    if (!more)
        return 0;
    if (t->used)
        memcpy(more, t->place, t->used * sizeof *more);
    htc__free(t->env, t->place, t->cap * sizeof *more);
    t->place = more;
    t->cap = cap;
    return 1;
}

int htc__slot_map_add(htc__slot_map *t, void *thing)
{
    uint64_t number = htc__slot_map_next(t);
    if (!t->free && t->used == t->cap && !grow(t))
        return 0;
    struct htc__slot_map_place *p = &t->place[number & (PLACES - 1)];
    if (t->free)
        t->free = (size_t)p->number;
    else
        t->used++;
    *p = (struct htc__slot_map_place){ number, thing };
    t->came++;
    t->count++;
    return 1;
}

static struct htc__slot_map_place *place_of(const htc__slot_map *t, uint64_t number)
{
    size_t i = number & (PLACES - 1);
    return i < t->used && t->place[i].thing && t->place[i].number == number ? &t->place[i] : NULL;
}

void *htc__slot_map_find(const htc__slot_map *t, uint64_t number)
{
    const struct htc__slot_map_place *p = place_of(t, number);
    return p ? p->thing : NULL;
}

void htc__slot_map_remove(htc__slot_map *t, uint64_t number)
{
    struct htc__slot_map_place *p = place_of(t, number);
    if (!p)
        return;
    *p = (struct htc__slot_map_place){ .number = t->free };
    t->free = (size_t)(p - t->place) + 1;
    assert(t->count > 0);
    t->count--;
}

void *htc__slot_map_any(const htc__slot_map *t)
{
    for (size_t i = 0; i < t->used; i++)
        if (t->place[i].thing)
            return t->place[i].thing;
    return NULL;
}
