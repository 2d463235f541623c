/* Tasks that were inserted where one had too many dependencies (htc_flow_narrow) left out of what is shown: each task waits for those that it
 * was submitted to wait for. Asks nobody. */
#include "flow_tasks.h"

#include <stdlib.h>
#include <string.h>

#define DEEP_MAX 64 /* inserted tasks behind each other: no tree is as deep */

htc_status flow_edges_of(flow_graph *g)
{
    size_t n = 0, at = 0;
    for (uint32_t i = 0; i < g->n; i++)
        g->tasks[i].n_edges = 0;
    for (size_t i = 0; i < g->n_waits; i++)
        if (g->waits[i].parent < g->n) {
            g->tasks[g->waits[i].parent].n_edges++;
            n++;
        }
    flow_edge *edges = malloc((n + 1) * sizeof *edges);
    if (!edges)
        return HTC_ENOMEM;
    for (uint32_t i = 0; i < g->n; i++) {
        g->tasks[i].edges = at;
        at += g->tasks[i].n_edges;
        g->tasks[i].n_edges = 0;
    }
    for (uint32_t i = 0; i < g->n; i++)
        for (uint32_t place = 0; place < g->tasks[i].n_waits; place++) {
            uint32_t parent = g->waits[g->tasks[i].waits + place].parent;
            if (parent < g->n)
                edges[g->tasks[parent].edges + g->tasks[parent].n_edges++] = (flow_edge){ i, place };
        }
    free(g->edges);
    g->edges = edges;
    g->n_edges = n;
    g->edges_cap = n + 1;
    return HTC_OK;
}

typedef struct leaving {
    const flow_graph *g;
    uint32_t          own;
    flow_wait        *waits;
    size_t            n, cap;
} leaving;

static htc_status keep(leaving *x, flow_wait w)
{
    if (x->n == x->cap) {
        flow_wait *more = realloc(x->waits, (x->cap * 2 + 64) * sizeof *more);
        if (!more)
            return HTC_ENOMEM;
        x->waits = more;
        x->cap = x->cap * 2 + 64;
    }
    x->waits[x->n++] = w;
    return HTC_OK;
}

/* What the task waits for, an inserted one for what that waits for: in the order in which it was submitted. */
static htc_status expand(leaving *x, uint32_t task, int deep)
{
    const flow_task *t = &x->g->tasks[task];
    htc_status       s = deep < DEEP_MAX ? HTC_OK : HTC_ECORRUPT;
    for (uint32_t i = 0; i < t->n_waits && s == HTC_OK; i++) {
        flow_wait w = x->g->waits[t->waits + i];
        s = w.parent >= x->own && w.parent < x->g->n ? expand(x, w.parent, deep + 1) : keep(x, w);
    }
    return s;
}

void flow_graph_cut(flow_graph *g, uint32_t n)
{
    for (uint32_t i = n; i < g->n; i++) {
        free(g->tasks[i].name);
        free(g->tasks[i].reason);
        free(g->tasks[i].kind);
    }
    g->n = n;
}

htc_status flow_leave_out(flow_graph *g, uint32_t own)
{
    leaving    x = { .g = g, .own = own };
    size_t    *at = own < g->n ? malloc(((size_t)own + 1) * sizeof *at) : NULL;
    htc_status s = HTC_OK;
    if (own >= g->n)
        return HTC_OK;
    s = at ? HTC_OK : HTC_ENOMEM;
    for (uint32_t i = 0; i < own && s == HTC_OK; i++) {
        at[i] = x.n;
        s = expand(&x, i, 0);
    }
    if (s != HTC_OK) {
        free(x.waits);
        free(at);
        return s;
    }
    flow_graph_cut(g, own);
    for (uint32_t i = 0; i < own; i++) {
        g->tasks[i].waits = at[i];
        g->tasks[i].n_waits = (uint32_t)((i + 1 < own ? at[i + 1] : x.n) - at[i]);
    }
    free(at);
    free(g->waits);
    g->waits = x.waits;
    g->n_waits = x.n;
    g->waits_cap = x.cap;
    return flow_edges_of(g);
}
