#include <string.h>

#include "core/util.h"
#include "htcsched/work.h"
#include "roles/worker/graph_task.h"
#include "roles/worker/submission.h"

/* One entry that no other waits for stands for all its tasks. */
static int is_bag(const htc_flow *f)
{
    return htc_flow_count(f) == 1 && htc_flow_edges(f) == 0;
}

static htc_status too_wide(const htc_flow *f, uint32_t id, htc_error *error)
{
    const htc_flow_edge *edges;
    size_t               parents = htc_flow_parents(f, id, &edges), children = htc_flow_children(f, id, &edges);
    if (parents > GRAPH_PARENTS_MAX)
        return htc__error(error, HTC_ETOOBIG, "task %s waits for %zu tasks, and %u are the most: put tasks between that gather some of them each",
                          htc_flow_get(f, id)->name, parents, GRAPH_PARENTS_MAX);
    if (children > GRAPH_CHILDREN_MAX)
        return htc__error(error, HTC_ETOOBIG, "%zu tasks wait for task %s, and %u are the most: put tasks between that some of them wait for each",
                          children, htc_flow_get(f, id)->name, GRAPH_CHILDREN_MAX);
    return HTC_OK;
}

/* What is executed. */
static htc_status task_of(const submission *s, uint32_t entry, uint64_t copy, htc_bytes *out)
{
    htc_task  *t = NULL;
    htc_bytes  bytes;
    htc_status status = htc_flow_task_bytes(s->env, s->flow, entry, copy, &bytes);
    int        command = htc_flow_get(s->flow, entry)->builtin == HTC_FLOW_PROGRAM;
    if (status != HTC_OK || (command && !s->directory)) {
        *out = bytes;
        return status;
    }
    status = htc_task_from_bytes(s->env, bytes, &t);
    htc_work_free(s->env, bytes);
    if (status != HTC_OK)
        return status;
    htc_task stored = *t;
    if (command)
        stored.directory = s->directory;
    else
        stored.index = 0; /* so that equal functions are equal bytes: a worker asks for several at once, and says the numbers */
    status = htc_task_to_bytes(s->env, &stored, out);
    htc_task_destroy(t);
    return status;
}

htc_status htc__submission_init(submission *s, const htc_env *env, const htc_flow *given, uint64_t id, uint32_t workers, htc_error *error)
{
    uint64_t tasks = htc_flow_total(given);
    s->env = env;
    s->flow = given;
    s->id = id;
    s->task = (htc_bytes){ NULL, 0 };
    s->entry = 0;
    if (tasks == 0)
        return htc__error(error, HTC_EINVAL, "the flow has no task");
    s->header.tasks = tasks;
    s->header.kind = is_bag(given) ? FLOW_BAG : FLOW_GRAPH;
    workers = workers ? workers : 1;
    s->home = (tasks - 1) / workers + 1;
    if (s->header.kind == FLOW_GRAPH && s->home > LEDGER_HOME)
        s->home = LEDGER_HOME;
    s->n_ledgers = (tasks - 1) / s->home + 1;
    if (s->header.kind == FLOW_BAG)
        return task_of(s, 0, 0, &s->task);
    htc_status status = HTC_OK;
    for (uint32_t i = 0; i < htc_flow_count(given) && status == HTC_OK; i++)
        status = too_wide(given, i, error);
    return status;
}

void htc__submission_free(submission *s)
{
    if (s->task.data)
        htc_work_free(s->env, s->task);
    s->task = (htc_bytes){ NULL, 0 };
}

void htc__submission_header(const submission *s, flow_state state, htc_buf *b)
{
    flow f = s->header;
    f.state = (uint8_t)state;
    f.task = s->task;
    htc__flow_write(b, &f);
}

uint64_t htc__submission_records(const submission *s)
{
    return s->n_ledgers + (s->header.kind == FLOW_GRAPH ? s->header.tasks : 0);
}

/* ---- tasks ---- */

static uint32_t which_parent(const htc_flow *f, uint32_t child, uint32_t parent)
{
    const htc_flow_edge *edges;
    size_t               n = htc_flow_parents(f, child, &edges);
    uint32_t             i = 0;
    while (i < n && edges[i].task != parent)
        i++;
    return i;
}

static void put_children(const submission *s, uint32_t entry, htc_buf *b)
{
    const htc_flow_edge *edges;
    size_t               n = htc_flow_children(s->flow, entry, &edges);
    for (size_t i = 0; i < n; i++) {
        htc_put_u64(b, htc_flow_first(s->flow, edges[i].task));
        htc_put_u32(b, which_parent(s->flow, edges[i].task, entry));
    }
}

static htc_status task_record(submission *s, uint64_t number, htc_buf *b)
{
    uint8_t              parents[GRAPH_PARENTS_MAX];
    const htc_flow_edge *edges;
    htc_buf              children;
    htc_bytes            task;
    uint32_t             n = htc_flow_count(s->flow);
    if (s->entry >= n || htc_flow_first(s->flow, s->entry) > number)
        s->entry = 0;
    while (s->entry + 1 < n && htc_flow_first(s->flow, s->entry + 1) <= number)
        s->entry++;
    const htc_flow_task *t = htc_flow_get(s->flow, s->entry);
    size_t               count = htc_flow_parents(s->flow, s->entry, &edges);
    for (size_t i = 0; i < count; i++)
        parents[i] = GRAPH_EDGE(edges[i].rule == HTC_FLOW_OK ? GRAPH_RULE_OK : edges[i].rule == HTC_FLOW_ANY ? GRAPH_RULE_ANY : GRAPH_RULE_FAILED);
    htc_status status = task_of(s, s->entry, number - htc_flow_first(s->flow, s->entry), &task);
    if (status != HTC_OK)
        return status;
    htc_buf_init(&children, s->env, 0);
    put_children(s, s->entry, &children);
    htc__graph_write(b, &(graph_task){ .state = GRAPH_OPEN, .home = number / s->home, .name = htc_bytes_of(t->name), .parents = { parents, count },
                                       .children = htc_buf_bytes(&children), .task = task });
    status = children.status != HTC_OK ? children.status : b->status == HTC_EFULL ? HTC_ETOOBIG : b->status;
    htc_buf_free(&children);
    htc_work_free(s->env, task);
    return status;
}

htc_status htc__submission_record(submission *s, uint64_t i, flow_key *key, htc_buf *b)
{
    if (i >= s->n_ledgers) {
        *key = htc__flow_key_task(s->id, i - s->n_ledgers);
        return task_record(s, i - s->n_ledgers, b);
    }
    ledger   l;
    uint64_t from = i * s->home, to = from + s->home;
    htc__ledger_init(&l, (ledger_span){ from, to < s->header.tasks ? to : s->header.tasks });
    *key = htc__flow_key_ledger(s->id, i);
    htc__ledger_write(b, &l);
    return b->status;
}
