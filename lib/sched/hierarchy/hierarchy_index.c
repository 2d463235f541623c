/* A table from 64-bit keys to numbers: linear probing, at most half full, no tombstones. */
#include <assert.h>

#include "core/util.h"
#include "sched/hierarchy/hierarchy_private.h"

static size_t home_of(const hier_index *x, uint64_t key)
{
    key = (key ^ (key >> 32)) * UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(key ^ (key >> 32)) & (x->cap - 1);
}

/* Where the key is, or the empty cell where it would be. */
static size_t place_of(const hier_index *x, uint64_t key)
{
    size_t at = home_of(x, key);
    while (x->cells[at].filled && x->cells[at].key != key)
        at = (at + 1) & (x->cap - 1);
    return at;
}

htc_status htc__hierarchy_index_reserve(const htc_env *env, hier_index *index)
{
    if (index->n < index->cap / 2)
        return HTC_OK;
    hier_index grown = { .cap = index->cap ? index->cap * 2 : 32 };
    grown.cells = htc__alloc(env, grown.cap * sizeof *grown.cells);
    if (!grown.cells)
        return HTC_ENOMEM;
    for (size_t i = 0; i < index->cap; i++)
        if (index->cells[i].filled)
            htc__hierarchy_index_put(&grown, index->cells[i].key, index->cells[i].value);
    htc__hierarchy_index_free(env, index);
    *index = grown;
    return HTC_OK;
}

void htc__hierarchy_index_put(hier_index *index, uint64_t key, uint32_t value)
{
    index->cells[place_of(index, key)] = (hier_cell){ key, value, 1 };
    index->n++;
}

uint32_t htc__hierarchy_index_find(const hier_index *index, uint64_t key)
{
    if (index->cap == 0)
        return HIER_NONE;
    const hier_cell *c = &index->cells[place_of(index, key)];
    return c->filled ? c->value : HIER_NONE;
}

/* What follows in the same run moves up if the hole lies between its home and its place. */
void htc__hierarchy_index_drop(hier_index *index, uint64_t key)
{
    size_t mask = index->cap - 1, hole = place_of(index, key);
    for (size_t at = (hole + 1) & mask; index->cells[at].filled; at = (at + 1) & mask) {
        size_t home = home_of(index, index->cells[at].key);
        if (((at - home) & mask) >= ((at - hole) & mask)) {
            index->cells[hole] = index->cells[at];
            hole = at;
        }
    }
    index->cells[hole].filled = 0;
    assert(index->n > 0);
    index->n--;
}

void htc__hierarchy_index_free(const htc_env *env, hier_index *index)
{
    htc__free(env, index->cells, index->cap * sizeof *index->cells);
    *index = (hier_index){ 0 };
}
