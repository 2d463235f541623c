/* Places that a search has visited: a table of fingerprints. */
#include "sim/history/history_private.h"

#include "core/util.h"

static size_t slot_of(const history_fingerprint *seen, size_t cap, history_fingerprint f)
{
    size_t slot = f.a & (cap - 1);
    while ((seen[slot].a || seen[slot].b) && (seen[slot].a != f.a || seen[slot].b != f.b))
        slot = (slot + 1) & (cap - 1);
    return slot;
}

int htc__history_places_room(history_places *p)
{
    size_t cap = p->cap ? p->cap * 2 : 256;
    if ((p->n + 1) * 4 <= p->cap * 3)
        return 1;
    if (cap * sizeof *p->seen > p->bytes_max)
        return 0;
    history_fingerprint *bigger = htc__alloc(p->env, cap * sizeof *bigger);
    if (!bigger)
        return -1;
    for (size_t i = 0; i < p->cap; i++)
        if (p->seen[i].a || p->seen[i].b)
            bigger[slot_of(bigger, cap, p->seen[i])] = p->seen[i];
    htc__free(p->env, p->seen, p->cap * sizeof *p->seen);
    p->seen = bigger;
    p->cap = cap;
    return 1;
}

int htc__history_places_visit(history_places *p, history_fingerprint f)
{
    f.a |= !f.a && !f.b; /* all zero is an empty slot */
    size_t slot = slot_of(p->seen, p->cap, f);
    if (p->seen[slot].a || p->seen[slot].b)
        return 0;
    p->seen[slot] = f;
    p->n++;
    return 1;
}

void htc__history_places_free(history_places *p)
{
    htc__free(p->env, p->seen, p->cap * sizeof *p->seen);
    p->seen = NULL;
    p->cap = p->n = 0;
}
