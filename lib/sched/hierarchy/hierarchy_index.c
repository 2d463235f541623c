/* A table from 64-bit keys to numbers: linear probing, at most half full, no tombstones. */
#include "core/util.h"
#include "sched/hierarchy/hierarchy_private.h"

htc_status htc__hierarchy_index_grow(const htc_env *env, hier_index *index)
{
    hier_index grown = { .cap = index->cap ? index->cap * 2 : 32 };
    grown.cells = htc__alloc(env, grown.cap * sizeof *grown.cells);
    if (!grown.cells)
        return HTC_ENOMEM;
    for (size_t i = 0; i < index->cap; i++)
        if (index->cells[i].filled)
            htc__hierarchy_index_fill(&grown, htc__hierarchy_index_place(&grown, index->cells[i].key), index->cells[i].key, index->cells[i].value);
    htc__hierarchy_index_free(env, index);
    *index = grown;
    return HTC_OK;
}

/* What follows in the same run moves up if the hole lies between its home and its place. */
void htc__hierarchy_index_close(hier_index *index, size_t hole)
{
    size_t mask = index->cap - 1;
    for (size_t at = (hole + 1) & mask; index->cells[at].filled; at = (at + 1) & mask) {
        size_t home = htc__hierarchy_index_home(index, index->cells[at].key);
        if (((at - home) & mask) >= ((at - hole) & mask)) {
            index->cells[hole] = index->cells[at];
            index->cells[at].filled = 0;
            hole = at;
        }
    }
}

void htc__hierarchy_index_free(const htc_env *env, hier_index *index)
{
    htc__free(env, index->cells, index->cap * sizeof *index->cells);
    *index = (hier_index){ 0 };
}
