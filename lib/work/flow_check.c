/* A flow as a whole: unknown tasks, cycles, parents and children in order; and what is asked of one that is checked. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "work/flow_private.h"

/* While it is checked: not yet the flow's. */
typedef struct order {
    uint32_t      *parents_at, *children_at, *mark;
    htc_flow_edge *parents, *children;
    uint32_t       edges;
} order;

static const char *name_of(const htc_flow *f, uint32_t id)
{
    return f->tasks[id].name;
}

static htc_status check_ends(const htc_flow *f, htc_error *error)
{
    for (uint32_t i = 0, intakes = 0; i < f->n; i++)
        if (f->tasks[i].builtin == HTC_FLOW_INTAKE && ++intakes > 1)
            return htc__refuse(error, HTC_EINVAL, 0, name_of(f, i), "task %s is one intake more: a flow has one at most", htc__quote(htc_bytes_of(name_of(f, i))).text);
    for (uint32_t i = 0; i < f->logged; i++) {
        const htc__flow_entry *e = &f->log[i];
        uint32_t unknown = e->parent >= f->n ? e->parent : e->child, known = e->parent >= f->n ? e->child : e->parent;
        if (unknown >= f->n)
            return htc__refuse(error, HTC_ENOTFOUND, 0, known < f->n ? name_of(f, known) : "",
                               "there is no task number %u, of %u", unknown, f->n);
        uint32_t bag = f->tasks[e->parent].count > 1 ? e->parent : e->child;
        if (f->tasks[bag].count > 1)
            return htc__refuse(error, HTC_EINVAL, 0, name_of(f, bag),
                               "task %s has a count: nothing can wait for it, and it can wait for nothing",
                               htc__quote(htc_bytes_of(name_of(f, bag))).text);
        uint32_t intake = f->tasks[e->parent].builtin == HTC_FLOW_INTAKE ? e->parent : e->child;
        if (f->tasks[intake].builtin == HTC_FLOW_INTAKE)
            return htc__refuse(error, HTC_EINVAL, 0, name_of(f, intake), "task %s is an intake: nothing can wait for it, and it can wait for nothing",
                               htc__quote(htc_bytes_of(name_of(f, intake))).text);
    }
    return HTC_OK;
}

/* Where each task's list begins: from numbers of entries to sums. */
static void sum_up(uint32_t *at, uint32_t n)
{
    for (uint32_t i = 0, sum = 0; i <= n; i++) {
        uint32_t own = at[i];
        at[i] = sum;
        sum += own;
    }
}

/* Parents by child, in the order of the log, with what was added twice. */
static void sort_parents(const htc_flow *f, order *o)
{
    for (uint32_t i = 0; i < f->logged; i++)
        o->parents_at[f->log[i].child]++;
    sum_up(o->parents_at, f->n);
    for (uint32_t i = 0; i < f->logged; i++)
        o->parents[o->parents_at[f->log[i].child]++] = (htc_flow_edge){ f->log[i].parent, f->log[i].rule };
    /* Each begin has become its end, which is the next one's begin. */
    memmove(o->parents_at + 1, o->parents_at, f->n * sizeof *o->parents_at);
    o->parents_at[0] = 0;
}

/* mark[parent] is one more than where the parent stands; it counts if that is in the list of this child. */
static htc_status drop_doubles(const htc_flow *f, order *o, htc_error *error)
{
    uint32_t kept = 0;
    for (uint32_t child = 0, from = 0; child < f->n; child++) {
        uint32_t to = o->parents_at[child + 1], begin = kept;
        for (; from < to; from++) {
            htc_flow_edge e = o->parents[from];
            uint32_t      seen = o->mark[e.task];
            if (seen > begin) {
                if (o->parents[seen - 1].rule != e.rule)
                    return htc__refuse(error, HTC_EINVAL, 0, name_of(f, child),
                                       "task %s waits for %s in two ways: %s and %s",
                                       htc__quote(htc_bytes_of(name_of(f, child))).text,
                                       htc__quote(htc_bytes_of(name_of(f, e.task))).text,
                                       htc__flow_rule_name(o->parents[seen - 1].rule), htc__flow_rule_name(e.rule));
                continue;
            }
            o->parents[kept++] = e;
            o->mark[e.task] = kept;
        }
        o->parents_at[child] = begin;
    }
    o->parents_at[f->n] = o->edges = kept;
    return HTC_OK;
}

static void sort_children(const htc_flow *f, order *o)
{
    for (uint32_t i = 0; i < o->edges; i++)
        o->children_at[o->parents[i].task]++;
    sum_up(o->children_at, f->n);
    for (uint32_t child = 0; child < f->n; child++)
        for (uint32_t i = o->parents_at[child]; i < o->parents_at[child + 1]; i++)
            o->children[o->children_at[o->parents[i].task]++] = (htc_flow_edge){ child, o->parents[i].rule };
    memmove(o->children_at + 1, o->children_at, f->n * sizeof *o->children_at);
    o->children_at[0] = 0;
}

/* Kahn: how many parents of each task are not yet placed goes to mark; the queue is only ever as long as what it has room for. */
static uint32_t place_all(const htc_flow *f, order *o, uint32_t *queue)
{
    uint32_t head = 0, tail = 0;
    for (uint32_t i = 0; i < f->n; i++) {
        o->mark[i] = o->parents_at[i + 1] - o->parents_at[i];
        if (o->mark[i] == 0)
            queue[tail++] = i;
    }
    while (head < tail) {
        uint32_t task = queue[head++];
        for (uint32_t i = o->children_at[task]; i < o->children_at[task + 1]; i++)
            if (--o->mark[o->children[i].task] == 0)
                queue[tail++] = o->children[i].task;
    }
    return tail;
}

static uint32_t unplaced_parent(const order *o, uint32_t task)
{
    uint32_t i = o->parents_at[task];
    while (o->mark[o->parents[i].task] == 0)
        i++;
    return o->parents[i].task;
}

/* "a waits for b, b for c, c for a", as much of it as there is room for. */
static void tell_cycle(const htc_flow *f, const order *o, uint32_t first, htc_error *error)
{
    char     text[sizeof error->text];
    size_t   used = 0;
    uint32_t task = first, told = 0, left = 0;
    do {
        uint32_t parent = unplaced_parent(o, task);
        char     part[200];
        int      n = snprintf(part, sizeof part, "%s%s %s %s", told + left ? ", " : "",
                              htc__quote(htc_bytes_of(name_of(f, task))).text, told + left ? "for" : "waits for",
                              htc__quote(htc_bytes_of(name_of(f, parent))).text);
        if (left == 0 && n > 0 && used + (size_t)n + 30 < sizeof text) {
            memcpy(text + used, part, (size_t)n);
            used += (size_t)n;
            told++;
        } else {
            left++;
        }
        task = parent;
    } while (task != first);
    text[used] = '\0';
    if (left)
        htc__refuse(error, HTC_ECYCLE, 0, name_of(f, first), "%s, and %u more of the circle", text, left);
    else
        htc__refuse(error, HTC_ECYCLE, 0, name_of(f, first), "%s", text);
    snprintf(error->hint, sizeof error->hint, "take out one of these dependencies");
}

/* Each task that is not placed has a parent that is not placed: going from one to the next comes round. The smallest of the circle begins. */
static htc_status refuse_cycle(const htc_flow *f, const order *o, uint32_t *visited, htc_error *error)
{
    uint32_t task = 0, first;
    if (!error)
        return HTC_ECYCLE;
    memset(visited, 0, f->n * sizeof *visited);
    while (o->mark[task] == 0)
        task++;
    for (; !visited[task]; task = unplaced_parent(o, task))
        visited[task] = 1;
    first = task;
    for (uint32_t t = unplaced_parent(o, task); t != task; t = unplaced_parent(o, t))
        first = t < first ? t : first;
    tell_cycle(f, o, first, error);
    return HTC_ECYCLE;
}

static htc_status find_order(const htc_flow *f, order *o, uint32_t *queue, htc_error *error)
{
    sort_parents(f, o);
    htc_status status = drop_doubles(f, o, error);
    if (status != HTC_OK)
        return status;
    sort_children(f, o);
    return place_all(f, o, queue) == f->n ? HTC_OK : refuse_cycle(f, o, queue, error);
}

/* The lists were made for all that was added; doubles leave room, which is given back. */
static htc_status shrink(const htc_flow *f, htc_flow_edge **list, uint32_t edges)
{
    if (edges == f->logged)
        return HTC_OK;
    htc_flow_edge *less = htc__resize_raw(f->env, *list, f->logged * sizeof **list, edges * sizeof **list);
    if (less)
        *list = less;
    return less ? HTC_OK : HTC_ENOMEM;
}

htc_status htc_flow_check(htc_flow *flow, htc_error *error)
{
    if (!flow)
        return htc__refuse(error, HTC_EINVAL, 0, "", "no flow");
    if (flow->checked)
        return HTC_OK;
    htc_status status = check_ends(flow, error);
    if (status != HTC_OK)
        return status;
    const htc_env *env = flow->env;
    size_t         tasks = (flow->n + (size_t)1) * sizeof(uint32_t), edges = flow->logged * sizeof(htc_flow_edge);
    order          o = { htc__alloc(env, tasks), htc__alloc(env, tasks), htc__alloc(env, tasks),
                         htc__alloc(env, edges), htc__alloc(env, edges), 0 };
    uint32_t      *queue = htc__alloc(env, tasks);
    status = o.parents_at && o.children_at && o.mark && o.parents && o.children && queue
                 ? find_order(flow, &o, queue, error)
                 : HTC_ENOMEM;
    size_t parents_size = edges;
    if (status == HTC_OK) {
        status = shrink(flow, &o.parents, o.edges);
        parents_size = status == HTC_OK ? o.edges * sizeof(htc_flow_edge) : edges;
    }
    if (status == HTC_OK)
        status = shrink(flow, &o.children, o.edges);
    htc__free(env, o.mark, tasks);
    htc__free(env, queue, tasks);
    if (status == HTC_ENOMEM)
        htc__refuse(error, status, 0, "", "%s", htc_strerror(status));
    if (status != HTC_OK) {
        htc__free(env, o.parents_at, tasks);
        htc__free(env, o.children_at, tasks);
        htc__free(env, o.parents, parents_size);
        htc__free(env, o.children, edges);
        return status;
    }
    flow->parents_at = o.parents_at;
    flow->children_at = o.children_at;
    flow->parents = o.parents;
    flow->children = o.children;
    flow->edges = o.edges;
    flow->checked = 1;
    return HTC_OK;
}

void htc__flow_forget(htc_flow *f)
{
    size_t tasks = (f->n + (size_t)1) * sizeof(uint32_t), edges = f->edges * sizeof(htc_flow_edge);
    if (!f->checked)
        return;
    htc__free(f->env, f->parents_at, tasks);
    htc__free(f->env, f->children_at, tasks);
    htc__free(f->env, f->parents, edges);
    htc__free(f->env, f->children, edges);
    f->parents_at = f->children_at = NULL;
    f->parents = f->children = NULL;
    f->edges = 0;
    f->checked = 0;
}

uint32_t htc_flow_count(const htc_flow *flow)
{
    return flow ? flow->n : 0;
}

uint64_t htc_flow_total(const htc_flow *flow)
{
    return flow ? flow->total : 0;
}

size_t htc_flow_edges(const htc_flow *flow)
{
    return flow ? flow->edges : 0;
}

const htc_flow_task *htc_flow_get(const htc_flow *flow, uint32_t id)
{
    return flow && id < flow->n ? &flow->tasks[id] : NULL;
}

uint64_t htc_flow_first(const htc_flow *flow, uint32_t id)
{
    return flow && id < flow->n ? flow->first[id] : htc_flow_total(flow);
}

static size_t list_of(const htc_flow *f, uint32_t id, const uint32_t *at, const htc_flow_edge *list,
                      const htc_flow_edge **edges)
{
    assert(at[id] <= at[id + 1] && at[id + 1] <= f->edges);
    (void)f;
    size_t n = at[id + 1] - at[id];
    if (n && edges)
        *edges = list + at[id];
    return n;
}

size_t htc_flow_parents(const htc_flow *flow, uint32_t id, const htc_flow_edge **edges)
{
    return flow && flow->checked && id < flow->n ? list_of(flow, id, flow->parents_at, flow->parents, edges) : 0;
}

size_t htc_flow_children(const htc_flow *flow, uint32_t id, const htc_flow_edge **edges)
{
    return flow && flow->checked && id < flow->n ? list_of(flow, id, flow->children_at, flow->children, edges) : 0;
}

/* ---- a task for its executor ---- */

/* What an executor is told of a builtin or a call: the one place that knows it. argument has room for 32 bytes. */
static htc_status builtin_of(const htc_flow_task *task, htc_task *out, char *argument)
{
    static const char *const names[] = { [HTC_FLOW_NOOP] = "noop", [HTC_FLOW_SLEEP] = "sleep", [HTC_FLOW_SPIN] = "spin", [HTC_FLOW_WRITE] = "write" };
    if (task->builtin == HTC_FLOW_PROGRAM)
        return HTC_OK;
    if (task->builtin == HTC_FLOW_READ)
        return HTC_EUNSUPPORTED;
    if (task->builtin == HTC_FLOW_INTAKE) { /* nobody runs it; as a command it says in which directory those run that it adds */
        out->executable = HTC__FLOW_INTAKE_PROGRAM;
        return HTC_OK;
    }
    if (task->builtin == HTC_FLOW_CALL) {
        out->kind = HTC_TASK_FUNCTION;
        out->object = task->object;
        out->function = task->function;
        out->argument = task->argument;
        return HTC_OK;
    }
    out->kind = HTC_TASK_BUILTIN;
    out->function = names[task->builtin];
    if (task->builtin == HTC_FLOW_WRITE)
        snprintf(argument, 32, "%llu", (unsigned long long)task->amount);
    else if (task->builtin != HTC_FLOW_NOOP)
        snprintf(argument, 32, "%llu.%09llu", (unsigned long long)(task->amount / HTC_SECOND), (unsigned long long)(task->amount % HTC_SECOND));
    out->argument = argument;
    return HTC_OK;
}

htc_status htc_flow_task_bytes(const htc_env *env, const htc_flow *flow, uint32_t id, uint64_t copy, htc_bytes *out)
{
    const htc_flow_task *task = htc_flow_get(flow, id);
    char                 argument[32] = "";
    if (!task || !out || copy >= task->count)
        return HTC_EINVAL;
    htc_task   t = { .index = flow->first[id] + copy,
                     .executable = task->executable,
                     .args = task->args,
                     .n_args = task->n_args,
                     .env = task->env,
                     .n_env = task->n_env,
                     .limits = { .wall = task->wall, .memory = task->memory, .cores = task->cores } };
    htc_status status = builtin_of(task, &t, argument);
    return status == HTC_OK ? htc_task_to_bytes(env, &t, out) : status;
}
