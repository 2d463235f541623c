/* All tasks of a flow: from the store, or from a file that was read. */
#include "flow.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void flow_graph_free(flow_graph *g)
{
    flow_graph_cut(g, 0);
    free(g->tasks);
    free(g->waits);
    free(g->edges);
    *g = (flow_graph){ 0 };
}

static flow_task *add_task(flow_graph *g, const char *name, const char *reason, const char *kind)
{
    if (g->n == g->cap)
        g->tasks = must(realloc(g->tasks, (g->cap = g->cap * 2 + 64) * sizeof *g->tasks));
    flow_task *t = &g->tasks[g->n++];
    *t = (flow_task){ .name = must_dup(name), .reason = must_dup(reason), .kind = must_dup(kind ? kind : ""), .count = 1, .waits = g->n_waits, .edges = g->n_edges };
    return t;
}

static void add_wait(flow_graph *g, flow_task *t, uint32_t rule, uint32_t ended)
{
    if (g->n_waits == g->waits_cap)
        g->waits = must(realloc(g->waits, (g->waits_cap = g->waits_cap * 2 + 64) * sizeof *g->waits));
    g->waits[g->n_waits++] = (flow_wait){ FLOW_NOBODY, (uint8_t)rule, (uint8_t)ended };
    t->n_waits++;
}

static void add_edge(flow_graph *g, flow_task *t, uint64_t child, uint64_t place)
{
    if (g->n_edges == g->edges_cap)
        g->edges = must(realloc(g->edges, (g->edges_cap = g->edges_cap * 2 + 64) * sizeof *g->edges));
    g->edges[g->n_edges++] = (flow_edge){ child < FLOW_NOBODY ? (uint32_t)child : FLOW_NOBODY, place < FLOW_NOBODY ? (uint32_t)place : FLOW_NOBODY };
    t->n_edges++;
}

/* Who each wait is for; 0: an edge leads nowhere. grows: some may lead to tasks that are being added. */
static int tie(flow_graph *g, int grows)
{
    for (uint32_t i = 0; i < g->n; i++)
        for (size_t e = g->tasks[i].edges; e < g->tasks[i].edges + g->tasks[i].n_edges; e++) {
            const flow_task *child = g->edges[e].child < g->n ? &g->tasks[g->edges[e].child] : NULL;
            if (grows && (!child || !child->name[0]))
                continue;
            if (!child || g->edges[e].place >= child->n_waits)
                return 0;
            g->waits[child->waits + g->edges[e].place].parent = i;
        }
    return 1;
}

static const char *const state_names[FLOW_TASK_STATES] = { "", "waiting", "ready", "done", "failed", "cancelled" };

const char *flow_task_state_name(uint32_t state)
{
    return state < FLOW_TASK_STATES ? state_names[state] : "?";
}

void flow_put_json(flow_call *k, json_t *value)
{
    put_json(k->c, value);
    json_decref(value);
}

htc_status flow_which(flow_call *k, const char *word, uint64_t *id, char **task)
{
    char      *copy = must_dup(word), *dot = strchr(copy, '.');
    htc_status s;
    if (dot)
        *dot = '\0';
    s = flow_number(k, copy, id);
    *task = s == HTC_OK && dot ? must_dup(dot + 1) : NULL;
    free(copy);
    return s;
}

htc_status flow_find_task(flow_call *k, uint64_t id, const flow_graph *g, const char *task, uint32_t *number)
{
    char    *end;
    uint64_t n = strtoull(task, &end, 10);
    for (uint32_t i = 0; i < g->n; i++)
        if (strcmp(g->tasks[i].name, task) == 0) { /* a name goes before a number */
            *number = i;
            return HTC_OK;
        }
    if (*task && !*end && n < g->n) {
        *number = (uint32_t)n;
        return HTC_OK;
    }
    return cli_error(k->c, HTC_ENOTFOUND, "", "htc flow tasks lists numbers and names", "flow %" PRIu64 " has no task %.60s", id, task);
}

typedef struct gathering {
    flow_graph *g;
    int         gap;
    uint64_t    wanted; /* of a bag */
} gathering;

static flow_task *add_seen(flow_graph *g, const htc_flows_task *from)
{
    flow_task *t = add_task(g, from->name, from->reason, from->kind);
    t->data = from->data;
    t->moved = from->moved;
    t->intake = from->intake != 0;
    for (uint8_t s = FLOW_TASK_WAITING; s < FLOW_TASK_STATES; s++)
        if (strcmp(from->state, state_names[s]) == 0)
            t->state = s;
    t->stored = from->stored;
    t->failures = from->failures;
    t->attempt = from->attempt;
    t->worker = from->worker;
    t->began = from->worker ? from->began : 0;
    t->ended = from->ended;
    return t;
}

static int see(void *ctx, const htc_flows_task *from)
{
    gathering *x = ctx;
    if (from->number != x->g->n || from->number >= FLOW_NOBODY) {
        x->gap = 1;
        return 0;
    }
    flow_task *t = add_seen(x->g, from);
    for (uint32_t i = 0; i < from->parents; i++)
        add_wait(x->g, t, from->waits[i].rule, from->waits[i].ended);
    for (uint32_t i = 0; i < from->n_children; i++)
        add_edge(x->g, t, from->children[i].task, from->children[i].parent);
    return 1;
}

static int see_wanted(void *ctx, const htc_flows_task *from)
{
    gathering *x = ctx;
    if (from->number == x->wanted)
        (void)add_seen(x->g, from);
    return from->number != x->wanted;
}

/* Where a bag goes on, what was done before is told by the flow in which it was done. How it failed there is no news: it runs anew. */
htc_status flow_gather_ended(flow_call *k, uint64_t *id, htc_flows_view *view, const char *task, flow_graph *g, uint64_t *number)
{
    char          *end;
    gathering      x = { .g = g, .wanted = strtoull(task, &end, 10) };
    htc_flows_view v = *view;
    uint64_t       at = *id;
    if (!*task || *end || x.wanted >= view->tasks)
        return cli_error(k->c, HTC_ENOTFOUND, "", "the tasks of a bag are numbered from 0", "flow %" PRIu64 " has no task %.60s", *id, task);
    *number = x.wanted;
    htc_status s = htc_flows_tasks(k->store, at, see_wanted, &x, &k->c->error);
    while (s == HTC_OK && !g->n && v.from && v.from < at) {
        at = v.from;
        v = (htc_flows_view){ .size = sizeof v };
        s = htc_flows_look(k->store, at, &v, &k->c->error);
        if (s == HTC_ENOTFOUND)
            return cli_error(k->c, s, "", "", "nothing is known of task %" PRIu64 ": flow %" PRIu64 " resumes flow %" PRIu64 ", which was removed", x.wanted, *id, at);
        if (s == HTC_OK)
            s = htc_flows_tasks(k->store, at, see_wanted, &x, &k->c->error);
    }
    if (s == HTC_OK && at != *id && g->n && g->tasks[0].state != FLOW_TASK_DONE) {
        flow_graph_free(g);
    } else if (s == HTC_OK && g->n) {
        *id = at;
        *view = v;
    }
    return s;
}

static int see_any(void *ctx, const htc_flows_task *from)
{
    gathering *x = ctx;
    flow_task *t = add_seen(x->g, from);
    free(t->name);
    t->name = must_print("%" PRIu64, from->number);
    return 1;
}

htc_status flow_gather_bag(flow_call *k, uint64_t id, const htc_flows_view *view, flow_graph *g)
{
    gathering x = { .g = g };
    if (view->tasks > FLOW_BAG_MAX)
        return cli_error(k->c, HTC_ETOOBIG, "", "htc flow status counts its tasks", "flow %" PRIu64 " is a bag of more than %d tasks: too many to be looked at together", id, FLOW_BAG_MAX);
    return htc_flows_tasks(k->store, id, see_any, &x, &k->c->error);
}

htc_status flow_gather(flow_call *k, uint64_t id, htc_flows_view *view, flow_graph *g)
{
    gathering  x = { .g = g };
    htc_status s = flow_open_store(k);
    *g = (flow_graph){ 0 };
    *view = (htc_flows_view){ .size = sizeof *view };
    if (s == HTC_OK)
        s = htc_flows_look(k->store, id, view, &k->c->error);
    if (s == HTC_OK && view->graph && view->state != HTC_FLOWS_BUILDING && view->state != HTC_FLOWS_ABORTED) {
        s = htc_flows_tasks(k->store, id, see, &x, &k->c->error);
        int grows = view->adds && view->state == HTC_FLOWS_RUNNING;
        if (grows && g->n > view->tasks + view->inserted) { /* since it was looked at */
            view->added += g->n - view->tasks - view->inserted;
            view->tasks = g->n - view->inserted;
        }
        if (s == HTC_OK && (x.gap || g->n != view->tasks + view->inserted || !tie(g, grows) || flow_leave_out(g, (uint32_t)view->tasks) != HTC_OK))
            s = cli_error(k->c, HTC_ECORRUPT, "", "", "the records of flow %" PRIu64 " are not whole: was it removed meanwhile?", id);
    }
    if (s != HTC_OK)
        flow_graph_free(g);
    return s;
}

void flow_gather_read(const htc_flow *flow, flow_graph *g)
{
    *g = (flow_graph){ 0 };
    for (uint32_t i = 0; i < htc_flow_count(flow); i++) {
        const htc_flow_task *from = htc_flow_get(flow, i);
        const htc_flow_edge *edges;
        flow_task           *t = add_task(g, from->name, "", from->kind);
        size_t               n = htc_flow_parents(flow, i, &edges);
        t->count = from->count;
        for (size_t p = 0; p < n; p++) {
            add_wait(g, t, edges[p].rule, 0);
            g->waits[g->n_waits - 1].parent = edges[p].task;
        }
    }
    (void)must(flow_edges_of(g) == HTC_OK ? g : NULL);
}
