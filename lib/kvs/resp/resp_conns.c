/* Connections by their peers: open addressing. */
#include <assert.h>

#include "core/util.h"
#include "kvs/resp/resp_private.h"

static size_t place(const htc__resp *f, uint32_t peer)
{
    return (size_t)((peer * UINT32_C(2654435769)) & (f->conns_cap - 1));
}

htc__resp_conn *htc__resp_find(const htc__resp *f, uint32_t peer)
{
    if (f->conns_cap == 0)
        return NULL;
    for (size_t i = place(f, peer); f->conns[i]; i = (i + 1) & (f->conns_cap - 1))
        if ((uint32_t)f->conns[i]->id == peer)
            return f->conns[i];
    return NULL;
}

int htc__resp_owns(const htc__resp *f, uint32_t peer)
{
    return htc__resp_find(f, peer) != NULL;
}

void htc__resp_conn_insert(htc__resp *f, htc__resp_conn *c)
{
    size_t i = place(f, (uint32_t)c->id);
    while (f->conns[i])
        i = (i + 1) & (f->conns_cap - 1);
    f->conns[i] = c;
}

int htc__resp_conns_make_room(htc__resp *f)
{
    size_t           old_cap = f->conns_cap, cap = old_cap ? old_cap * 2 : 64;
    htc__resp_conn **old = f->conns;
    if (f->conns_count * 2 < old_cap)
        return 1;
    htc__resp_conn **grown = htc__alloc(&f->env, cap * sizeof *grown);
    if (!grown)
        return 0;
    f->conns = grown;
    f->conns_cap = cap;
    for (size_t i = 0; i < old_cap; i++)
        if (old[i])
            htc__resp_conn_insert(f, old[i]);
    htc__free(&f->env, old, old_cap * sizeof *old);
    return 1;
}

/* Take it out of the table; those behind it move up where they belong nearer. */
void htc__resp_conn_forget(htc__resp *f, const htc__resp_conn *c)
{
    size_t mask = f->conns_cap - 1, i = place(f, (uint32_t)c->id);
    while (f->conns[i] != c)
        i = (i + 1) & mask;
    for (size_t k = (i + 1) & mask; f->conns[k]; k = (k + 1) & mask) {
        size_t home = place(f, (uint32_t)f->conns[k]->id);
        if (((k - home) & mask) >= ((k - i) & mask)) {
            f->conns[i] = f->conns[k];
            i = k;
        }
    }
    f->conns[i] = NULL;
    assert(f->conns_count > 0);
    f->conns_count--;
}
