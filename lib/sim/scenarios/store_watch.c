/* What the histories of clients would show late or never: a look at what members store. One ballot of a key carries one change,
 * whichever member stores it and in whichever of its lives it was drawn. */
#include <string.h>

#include "kvs/cell/cell.h"
#include "sim/scenarios/store_private.h"

#define MARKS (UINT32_C(1) << 14)

struct store_mark {
    uint64_t id, sum; /* of key and ballot; of the change. id 0: free */
};

static uint64_t id_of(htc_bytes key, const htc__kv_ballot *b)
{
    uint64_t words[] = { htc_hash64(key, 0), b->epoch, b->counter, b->proposer };
    return htc_hash64((htc_bytes){ words, sizeof words }, 0) | 1;
}

static uint64_t sum_of(const htc__kv_cell *cell)
{
    uint64_t words[] = { cell->version, cell->forgot, cell->deleted, cell->count, htc_hash64(cell->value, 0) };
    return htc_hash64((htc_bytes){ words, sizeof words }, 0);
}

static void cell_stored(store *s, const store_member *m, htc_bytes key, const htc__kv_cell *cell)
{
    uint64_t id = id_of(key, &cell->accepted), sum = sum_of(cell);
    uint32_t i = (uint32_t)id & (MARKS - 1);
    while (s->marks[i].id && s->marks[i].id != id)
        i = (i + 1) & (MARKS - 1);
    if (s->marks[i].id == id && s->marks[i].sum != sum)
        htc__store_fail(s, "%s stores %.*s: ballot %llu.%llu of %016llx carries two changes", htc_sim_name(m->node),
                        (int)key.len, (const char *)key.data, (unsigned long long)cell->accepted.epoch,
                        (unsigned long long)cell->accepted.counter, (unsigned long long)cell->accepted.proposer);
    if (s->marks[i].id == 0 && s->marks_count < MARKS / 4 * 3) {
        s->marks[i] = (store_mark){ id, sum };
        s->marks_count++;
    }
}

void htc__store_watch(store *s, const store_member *m, htc_bytes name, htc_bytes bytes)
{
    htc__kv_cell cell;
    const char  *first = name.data;
    if (name.len < 2 || first[0] != 'k')
        return;
    if (htc__kv_cell_read(bytes, NULL, &cell) != HTC_OK)
        htc__store_fail(s, "%s stores a cell that it could not read", htc_sim_name(m->node));
    else if (cell.present && cell.accepted.counter) /* 0: the map itself, as it was known to be final when it came to other keepers */
        cell_stored(s, m, (htc_bytes){ first + 1, name.len - 1 }, &cell);
}

htc_status htc__store_watch_open(store *s)
{
    s->marks = htc__alloc(&s->env, MARKS * sizeof *s->marks);
    return s->marks ? HTC_OK : HTC_ENOMEM;
}

void htc__store_watch_close(store *s)
{
    htc__free(&s->env, s->marks, MARKS * sizeof *s->marks);
}
