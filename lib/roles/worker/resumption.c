#include <assert.h>
#include <string.h>

#include "core/util.h"
#include "roles/worker/resumption.h"

#define SEEN 0x80 /* in a byte of parents: a task is this parent */

void htc__resumption_init(resumption *r, const htc_env *env)
{
    *r = (resumption){ .env = env };
}

void htc__resumption_free(resumption *r)
{
    htc__free(r->env, r->tasks, r->n_cap * sizeof *r->tasks);
    htc__free(r->env, r->parents, r->parents_cap);
    htc__free(r->env, r->edges, r->edges_cap * sizeof *r->edges);
    htc__free(r->env, r->reads, r->reads_cap * sizeof *r->reads);
    *r = (resumption){ .env = r->env };
}

/* Room for that many elements of *list. */
static htc_status room(const htc_env *env, void *list, size_t *cap, size_t want, size_t size)
{
    void *old, *grown;
    if (want <= *cap)
        return HTC_OK;
    want = want < 64 ? 64 : want + want / 2;
    memcpy(&old, list, sizeof old);
    grown = htc__resize_raw(env, old, *cap * size, want * size);
    if (!grown)
        return HTC_ENOMEM;
    memcpy(list, &grown, sizeof grown);
    *cap = want;
    return HTC_OK;
}

static htc_status add_reads(resumption *r, const graph_task *t)
{
    htc_reader at = htc_reader_of(t->reads);
    uint64_t   maker;
    htc_bytes  name;
    htc_status status = HTC_OK;
    while (status == HTC_OK && htc__graph_next_read(&at, &maker, &name)) {
        status = room(r->env, &r->reads, &r->reads_cap, r->n_reads + 1, sizeof *r->reads);
        if (status == HTC_OK && maker < RESUMPTION_NONE)
            r->reads[r->n_reads++] = (resumption_read){ r->n, (uint32_t)maker };
    }
    return status;
}

htc_status htc__resumption_add(resumption *r, uint64_t number, const graph_task *t)
{
    uint32_t children = htc__graph_n_children(t);
    size_t   cap = r->n_cap;
    if (number != r->n)
        return HTC_ECORRUPT;
    if (r->n == RESUMPTION_TASKS_MAX)
        return HTC_ETOOBIG;
    htc_status status = room(r->env, &r->tasks, &cap, (size_t)r->n + 1, sizeof *r->tasks);
    r->n_cap = (uint32_t)cap;
    if (status == HTC_OK)
        status = room(r->env, &r->parents, &r->parents_cap, r->n_parents + t->parents.len, 1);
    if (status == HTC_OK)
        status = room(r->env, &r->edges, &r->edges_cap, r->n_edges + children, sizeof *r->edges);
    size_t reads = r->n_reads;
    if (status == HTC_OK)
        status = add_reads(r, t);
    if (status != HTC_OK) {
        r->n_reads = reads;
        return status;
    }
    r->tasks[r->n++] = (resumption_task){ .done = t->state == GRAPH_DONE || t->adds == GRAPH_ADDS_INTAKE /* nothing is taken in any more */, .number = RESUMPTION_NONE, .parents = r->n_parents, .edges = r->n_edges };
    const uint8_t *p = t->parents.data;
    for (size_t i = 0; i < t->parents.len; i++)
        r->parents[r->n_parents++] = p[i];
    for (uint32_t i = 0; i < children; i++) {
        uint64_t child;
        uint32_t parent;
        htc__graph_child(t, i, &child, &parent);
        r->edges[r->n_edges++] = (resumption_edge){ child < RESUMPTION_NONE ? (uint32_t)child : RESUMPTION_NONE, parent };
    }
    return HTC_OK;
}

static size_t parents_end(const resumption *r, uint32_t task)
{
    return task + 1 < r->n ? r->tasks[task + 1].parents : r->n_parents;
}

static size_t edges_end(const resumption *r, uint32_t task)
{
    return task + 1 < r->n ? r->tasks[task + 1].edges : r->n_edges;
}

/* Will a task run whose parents that are settled have ended so? */
static int may_run(const resumption *r, uint32_t task)
{
    for (size_t i = r->tasks[task].parents; i < parents_end(r, task); i++) {
        uint8_t rule = r->parents[i] / 4, bit = r->parents[i] & 3;
        if (bit != GRAPH_NOT_TOLD && rule != GRAPH_RULE_ANY && (rule == GRAPH_RULE_OK) != (bit == GRAPH_ENDED_OK))
            return 0;
    }
    return 1;
}

/* How those of its parents have ended that are not run again is known of all of them. */
static int is_told(const resumption *r, uint32_t task)
{
    for (size_t i = r->tasks[task].parents; i < parents_end(r, task); i++)
        if ((r->parents[i] & 3) == GRAPH_NOT_TOLD)
            return 0;
    return 1;
}

/* Each edge is a parent of its child, and the only one in its place. A parent that is nobody's here was settled when the old flow began: what
 * was told of it holds. */
static htc_status find_parents(resumption *r)
{
    for (size_t i = 0; i < r->n_edges; i++) {
        resumption_edge e = r->edges[i];
        if (e.child >= r->n || e.parent >= parents_end(r, e.child) - r->tasks[e.child].parents)
            return HTC_ECORRUPT;
        uint8_t *p = &r->parents[r->tasks[e.child].parents + e.parent];
        if (*p & SEEN)
            return HTC_ECORRUPT;
        *p = SEEN | GRAPH_EDGE(*p / 4);
        r->tasks[e.child].waits++;
    }
    for (size_t i = 0; i < r->n_parents; i++) {
        if (!(r->parents[i] & SEEN) && (r->parents[i] & 3) == GRAPH_NOT_TOLD)
            return HTC_ECORRUPT;
        r->parents[i] &= (uint8_t)~SEEN;
    }
    return HTC_OK;
}

/* Its children learn how it stands; those that now know of all their parents are next. */
static void tell(resumption *r, uint32_t task, graph_bit bit, uint32_t *queue, uint32_t *tail)
{
    for (size_t i = r->tasks[task].edges; i < edges_end(r, task); i++) {
        resumption_edge e = r->edges[i];
        uint8_t        *p = &r->parents[r->tasks[e.child].parents + e.parent];
        int again = r->tasks[task].again || r->tasks[task].passes;
        r->tasks[e.child].passes |= again && r->tasks[e.child].done && htc__flow_is_inserted(&r->old, e.child);
        if (!r->tasks[e.child].again)
            *p |= (uint8_t)bit;
        else if (!again) /* what let it run once lets it run again */
            *p |= *p / 4 == GRAPH_RULE_FAILED ? GRAPH_ENDED_BAD : GRAPH_ENDED_OK;
        if (--r->tasks[e.child].waits == 0)
            queue[(*tail)++] = e.child;
    }
}

/* Which of them run: number is 0 then. */
static htc_status see_who_runs(resumption *r, uint32_t *queue)
{
    uint32_t   head = 0, tail = 0;
    htc_status status = find_parents(r);
    for (uint32_t i = 0; i < r->n && status == HTC_OK; i++)
        if (r->tasks[i].waits == 0)
            queue[tail++] = i;
    for (; head < tail; head++) {
        resumption_task *t = &r->tasks[queue[head]];
        int              passes = t->done && htc__flow_is_inserted(&r->old, queue[head]) && !is_told(r, queue[head]);
        int              runs = t->again || passes || (!t->done && may_run(r, queue[head]));
        t->number = runs ? 0 : RESUMPTION_NONE;
        tell(r, queue[head], runs ? GRAPH_NOT_TOLD : t->done ? GRAPH_ENDED_OK : GRAPH_ENDED_BAD, queue, &tail);
    }
    return status == HTC_OK && head < r->n ? HTC_ECORRUPT /* they wait for each other */ : status;
}

/* What is read by one that runs is made again. 1: that is more than before. */
static int make_again(resumption *r)
{
    int more = 0;
    for (size_t i = r->n_reads; i-- > 0;) { /* makers stand before their readers, most often */
        resumption_task *maker = r->reads[i].maker < r->n ? &r->tasks[r->reads[i].maker] : NULL;
        if (!maker || !maker->done || maker->again || r->tasks[r->reads[i].task].number == RESUMPTION_NONE)
            continue;
        maker->again = 1;
        more = 1;
        maker->number = 0;
    }
    return more;
}

htc_status htc__resumption_settle(resumption *r, const flow *old, uint32_t workers)
{
    htc_status status = old->tasks == 0 || old->tasks != r->n || old->inserted >= old->tasks ? HTC_ECORRUPT : HTC_OK;
    if (status != HTC_OK)
        return status;
    r->old = (flow){ .tasks = old->tasks, .inserted = old->inserted, .added = old->added };
    uint32_t *queue = htc__alloc_raw(r->env, r->n * sizeof *queue);
    if (!queue)
        return HTC_ENOMEM;
    do
        status = see_who_runs(r, queue);
    while (status == HTC_OK && make_again(r));
    htc__free(r->env, queue, r->n * sizeof *queue);
    if (status != HTC_OK)
        return status;
    for (uint32_t i = 0; i < r->n; i++)
        if (r->tasks[i].number == 0) {
            r->tasks[i].number = r->again++;
            r->inserted += htc__flow_is_inserted(&r->old, i) != 0;
            r->added += i >= old->tasks - old->added;
        }
    if (r->again == r->inserted)
        return HTC_EEXISTS;
    workers = workers ? workers : 1;
    r->home = ((uint64_t)r->again - 1) / workers + 1;
    r->home = r->home > LEDGER_HOME ? LEDGER_HOME : r->home;
    r->n_ledgers = (r->again - 1) / r->home + 1;
    return HTC_OK;
}

/* ---- what is written ---- */

void htc__resumption_header(const resumption *r, const flow *old, uint64_t from, uint32_t tries, uint64_t max_fails, htc_buf *b)
{
    flow f = { .state = FLOW_BUILDING, .kind = FLOW_GRAPH, .data = old->data, .tasks = r->again, .tries = tries ? tries : old->tries, .max_fails = max_fails ? max_fails : old->max_fails,
               .inserted = r->inserted, .adds = old->adds, .added = r->added, .inputs = old->inputs, .from = from };
    memcpy(f.user, old->user, sizeof f.user);
    f.places = old->places;
    memcpy(f.steal, old->steal, sizeof f.steal);
    htc__flow_write(b, &f);
}

void htc__resumption_ledger(const resumption *r, uint64_t i, htc_buf *b)
{
    ledger   l;
    uint64_t from = i * r->home, to = from + r->home;
    assert(i < r->n_ledgers);
    htc__ledger_init(&l, (ledger_span){ from, to < r->again ? to : r->again });
    htc__ledger_write(b, &l);
}

/* Who makes what it reads, by new numbers. */
static void put_reads(const resumption *r, const graph_task *old, htc_buf *b)
{
    htc_reader at = htc_reader_of(old->reads);
    uint64_t   maker;
    htc_bytes  name;
    while (htc__graph_next_read(&at, &maker, &name)) {
        uint32_t now = maker < r->n ? r->tasks[maker].number : RESUMPTION_NONE;
        htc_put_u64(b, now == RESUMPTION_NONE ? GRAPH_NOBODY : now);
        htc_put_bytes(b, name);
    }
}

htc_status htc__resumption_task(const resumption *r, uint64_t number, const graph_task *old, htc_buf *b)
{
    const resumption_task *t = number < r->n ? &r->tasks[number] : NULL;
    htc_buf                children, reads;
    if (!t || t->number == RESUMPTION_NONE)
        return HTC_ENOTFOUND;
    if (old->parents.len != parents_end(r, (uint32_t)number) - t->parents || (old->state == GRAPH_DONE && !t->again && !htc__flow_is_inserted(&r->old, number)))
        return HTC_ECORRUPT;
    htc_buf_init(&children, r->env, 0);
    htc_buf_init(&reads, r->env, 0);
    put_reads(r, old, &reads);
    for (size_t i = t->edges; i < edges_end(r, (uint32_t)number); i++) {
        uint32_t child = r->tasks[r->edges[i].child].number;
        if (child == RESUMPTION_NONE)
            continue;
        htc_put_u64(&children, child);
        htc_put_u32(&children, r->edges[i].parent);
    }
    htc_bytes parents = { old->parents.len ? r->parents + t->parents : NULL, old->parents.len };
    htc__graph_write(b, &(graph_task){ .state = GRAPH_OPEN, .home = t->number / r->home, .name = old->name, .parents = parents,
                                       .children = htc_buf_bytes(&children), .task = old->task, .kind = old->kind, .reads = htc_buf_bytes(&reads),
                                       .makes = old->makes, .adds = old->state == GRAPH_DONE ? GRAPH_ADDS_NOTHING : old->adds }); /* what it has added is there */
    htc_status status = children.status != HTC_OK ? children.status : reads.status != HTC_OK ? reads.status : b->status;
    htc_buf_free(&children);
    htc_buf_free(&reads);
    return status;
}
