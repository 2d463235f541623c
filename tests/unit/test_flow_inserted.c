/* Inserted tasks left out of what is shown: what is left is the flow that was submitted. */
#include "expect.h"

#include <stdlib.h>
#include <string.h>

#include "../../examples/htc/flow_tasks.h"
#include "flow_wide.h"

TestSuite(flow_inserted);

static char *copy(const char *text)
{
    char *c = strdup(text);
    cr_assert(c != NULL);
    return c;
}

/* As it is gathered from a store. ended: what is known of a parent, worked out of its number so that it can be checked. */
static flow_graph graph_of(const htc_flow *f)
{
    flow_graph g = { .n = htc_flow_count(f), .n_waits = htc_flow_edges(f) };
    g.tasks = calloc(g.n, sizeof *g.tasks);
    g.waits = calloc(g.n_waits + 1, sizeof *g.waits);
    cr_assert(g.tasks && g.waits);
    for (uint32_t i = 0, at = 0; i < g.n; i++) {
        const htc_flow_edge *edges = NULL;
        g.tasks[i] = (flow_task){ .name = copy(htc_flow_get(f, i)->name), .reason = copy(""), .waits = at, .n_waits = (uint32_t)htc_flow_parents(f, i, &edges) };
        for (uint32_t k = 0; k < g.tasks[i].n_waits; k++)
            g.waits[at++] = (flow_wait){ edges[k].task, (uint8_t)edges[k].rule, (uint8_t)(edges[k].task % 3) };
    }
    cr_assert(eq(int, flow_edges_of(&g), HTC_OK));
    return g;
}

static void drop(flow_graph *g)
{
    for (uint32_t i = 0; i < g->n; i++) {
        free(g->tasks[i].name);
        free(g->tasks[i].reason);
    }
    free(g->tasks);
    free(g->waits);
    free(g->edges);
}

Test(flow_inserted, what_is_left_is_the_flow_that_was_submitted)
{
    uint64_t inserted = 0;
    PROPERTY(rng, 1000)
    {
        htc_flow  *given = flow_wide(&rng), *narrow = NULL;
        uint32_t   own = htc_flow_count(given);
        HOLDS(htc_flow_narrow(NULL, given, 2 + (uint32_t)htc_rng_below(&rng, 5), 3 + (uint32_t)htc_rng_below(&rng, 5), &narrow, NULL) == HTC_OK);
        flow_graph want = graph_of(given), g = graph_of(narrow ? narrow : given);
        inserted += g.n - own;
        HOLDS(flow_leave_out(&g, own) == HTC_OK);
        HOLDS(g.n == own && g.n_waits == want.n_waits && g.n_edges == want.n_edges);
        for (uint32_t i = 0; i < own; i++) {
            const flow_task *a = &g.tasks[i], *b = &want.tasks[i];
            HOLDS(strcmp(a->name, b->name) == 0 && a->n_waits == b->n_waits && a->n_edges == b->n_edges);
            for (uint32_t k = 0; k < a->n_waits; k++) {
                const flow_wait *x = &g.waits[a->waits + k], *y = &want.waits[b->waits + k];
                HOLDS(x->parent == y->parent && x->rule == y->rule && x->ended == y->ended);
            }
            for (uint32_t k = 0; k < a->n_edges; k++) {
                const flow_edge *x = &g.edges[a->edges + k], *y = &want.edges[b->edges + k];
                HOLDS(x->child == y->child && x->place == y->place);
            }
        }
        drop(&g);
        drop(&want);
        htc_flow_destroy(narrow);
        htc_flow_destroy(given);
    }
    if (!getenv("HTC_TEST_SEED"))
        cr_expect(inserted > 500, "%llu", (unsigned long long)inserted);
}

/* What nobody wrote: inserted tasks that wait for each other. */
Test(flow_inserted, a_circle_is_refused)
{
    htc_flow  *f = flow_empty();
    for (uint32_t i = 0; i < 3; i++)
        (void)flow_put(f, NULL);
    cr_assert(htc_flow_after(f, 0, 1, HTC_FLOW_OK) == HTC_OK && htc_flow_after(f, 1, 2, HTC_FLOW_OK) == HTC_OK && htc_flow_check(f, NULL) == HTC_OK);
    flow_graph g = graph_of(f);
    g.waits[1].parent = 1;
    cr_expect(eq(int, flow_leave_out(&g, 1), HTC_ECORRUPT));
    drop(&g);
    htc_flow_destroy(f);
}
