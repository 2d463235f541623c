/* Tasks of a graph: each has a record of its own. A task that is live in a ledger of ours has a node here: its record as it was read last, and
 * how far it is.
 *
 *     unread -> waiting -> ready -> running -> ending -> telling -> told -> (counted: gone)
 *
 * It stays live until its children know that it has ended, so that whoever takes the ledger over sees what is left to be told. Tasks that
 * wait are read again when somebody says that they have news, and now and then without. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "core/fault.h"
#include "roles/worker/worker_private.h"

#define READS_AT_ONCE 4 /* requests */

/* ---- pages ---- */

task_page *htc__worker_page(const htc_worker *w, uint64_t id)
{
    task_page *p;
    uint64_t   number = id / PAGE_TASKS;
    HASH_FIND(hh, w->pages, &number, sizeof number, p);
    return p;
}

task_page *htc__worker_page_enter(htc_worker *w, uint64_t id)
{
    task_page *p = htc__worker_page(w, id);
    if (!p && (p = htc__alloc(&w->env, sizeof *p))) {
        p->number = id / PAGE_TASKS;
        HASH_ADD(hh, w->pages, number, sizeof p->number, p);
        if (!p->hh.tbl) {
            htc__free(&w->env, p, sizeof *p);
            return NULL;
        }
    }
    if (p)
        p->n++;
    return p;
}

void htc__worker_page_leave(htc_worker *w, task_page *p)
{
    assert(p->n);
    if (--p->n)
        return;
    HASH_DEL(w->pages, p);
    htc__free(&w->env, p, sizeof *p);
}

node *htc__worker_node(const htc_worker *w, uint64_t id)
{
    const task_page *p = htc__worker_page(w, id);
    return p ? p->nodes[id % PAGE_TASKS] : NULL;
}

/* ---- nodes come and go ---- */

static void unqueue(htc_worker *w, node *n)
{
    if (n->queued)
        DL_DELETE(w->to_read, n);
    n->queued = 0;
}

static void want_read(htc_worker *w, node *n)
{
    n->stale |= n->reading;
    if (n->queued || n->reading || n->phase == NODE_TOLD)
        return;
    n->queued = 1;
    DL_APPEND(w->to_read, n);
}

static void end_forget(htc_worker *w, node *n)
{
    function_end *e = n->end;
    n->end = NULL;
    if (!e)
        return;
    w->ends--;
    e->nodes--;
    htc__worker_function_end_free(w, e);
}

static void node_free(htc_worker *w, node *n)
{
    own     *o = n->of;
    running *x = n->run && !n->end ? htc__worker_run(w, n->run) : NULL;
    if (x && x->over)
        htc__worker_forget_run(w, x, 0); /* END may still be stored: then what it has stored is the result */
    end_forget(w, n);
    unqueue(w, n);
    htc__worker_place_left(w, n);
    htc__worker_addition_left(w, n);
    if (n->phase == NODE_TOLD && !n->held)
        DL_DELETE(o->told_first, n);
    DL_DELETE2(o->nodes, n, of_prev, of_next);
    task_page *p = htc__worker_page(w, n->id);
    assert(p && p->nodes[n->id % PAGE_TASKS] == n);
    p->nodes[n->id % PAGE_TASKS] = NULL;
    htc__worker_page_leave(w, p);
    htc__free(&w->env, n->bytes, n->len);
    htc__free(&w->env, n, sizeof *n);
}

static void node_new(htc_worker *w, uint64_t id, own *o)
{
    node      *n = htc__alloc(&w->env, sizeof *n);
    task_page *p = n ? htc__worker_page_enter(w, id) : NULL;
    if (!p) {
        htc__free(&w->env, n, sizeof *n);
        htc_runtime_break(w->runtime, HTC_ENOMEM, "remembering a task");
        return;
    }
    assert(!p->nodes[id % PAGE_TASKS]);
    p->nodes[id % PAGE_TASKS] = n;
    n->id = id;
    n->ledger = o->number;
    n->of = o;
    DL_APPEND2(o->nodes, n, of_prev, of_next);
    want_read(w, n);
}

void htc__worker_nodes_add(htc_worker *w, own *o, ledger_span ids)
{
    for (uint64_t id = ids.from; id < ids.to && htc_runtime_status(w->runtime) == HTC_OK; id++) {
        node *n = htc__worker_node(w, id);
        if (n && n->of != o) { /* it was in another one of ours */
            node_free(w, n);
            n = NULL;
        }
        if (!n)
            node_new(w, id, o);
    }
}

void htc__worker_nodes_came(htc_worker *w, ledger_span ids, node_came how)
{
    for (uint64_t id = ids.from; id < ids.to; id++) {
        node *n = htc__worker_node(w, id);
        if (n)
            n->came = (uint8_t)how;
    }
}

void htc__worker_nodes_gone(htc_worker *w, own *o, ledger_span ids)
{
    for (uint64_t id = ids.from; id < ids.to; id++) {
        node *n = htc__worker_node(w, id);
        if (n && n->of == o)
            node_free(w, n);
    }
}

void htc__worker_nodes_lost(htc_worker *w, own *o)
{
    while (o->nodes)
        node_free(w, o->nodes);
}

/* What is live has a node, what is not has none. What was on its way in a change that was refused is here still, or gone. */
void htc__worker_nodes_anew(htc_worker *w, own *o)
{
    node *n, *next;
    o->ready.n = 0;
    for (n = o->nodes; n; n = next) {
        next = n->of_next;
        if (!htc__ids_has(&o->now.live, (ledger_span){ n->id, n->id + 1 })) {
            htc__worker_order(w, o->number, n->id, ORDER_REVOKE);
            node_free(w, n);
        } else if (n->phase == NODE_GIVEN) {
            n->phase = NODE_READY;
            (void)htc__worker_place(w, n);
        }
    }
    for (uint32_t i = 0; i < o->now.live.n; i++)
        htc__worker_nodes_add(w, o, o->now.live.at[i]);
    EACH_NODE(o, n)
    if (n->phase == NODE_READY && n->place == PLACE_SHARED && !n->push)
        (void)htc__ids_add(&o->ready, (ledger_span){ n->id, n->id + 1 });
}

/* ---- what a record says ---- */

static void ready(htc_worker *w, node *n)
{
    own *o = n->of;
    n->phase = NODE_READY;
    if (htc__worker_place(w, n) && htc__ids_add(&o->ready, (ledger_span){ n->id, n->id + 1 }) != HTC_OK)
        o->news_at = w->now + AGAIN_NS; /* too scattered: seen again then */
    htc_steal_nudge(&w->thief, w->now);
}

static void unready(htc_worker *w, node *n)
{
    own *o = n->of;
    htc__worker_place_left(w, n);
    if (htc__ids_has(&o->ready, (ledger_span){ n->id, n->id + 1 }))
        (void)htc__ids_remove(&o->ready, (ledger_span){ n->id, n->id + 1 });
}

void htc__worker_node_told(htc_worker *w, node *n)
{
    assert(n->phase == NODE_TELLING);
    unqueue(w, n);
    n->phase = NODE_TOLD;
    n->held = htc__worker_addition_waits(w, n) && !HTC__BROKEN(counted_before_created);
    if (!n->held)
        DL_APPEND(n->of->told_first, n);
}

void htc__worker_count_told(htc_worker *w, own *o)
{
    node    *n, *next;
    uint32_t i = 0, had = o->n_ended;
    DL_FOREACH_SAFE(o->told_first, n, next)
    {
        if (o->n_ended == ENDED_MAX)
            break;
        while (i < had && o->ended[i].id != n->id)
            i++;
        if (i == had) {
            ended_task e = { .id = n->id, .to = n->id + 1, .how = n->task.state };
            htc__worker_addition_counts(w, n, &e);
            o->ended[o->n_ended++] = e;
        }
        i = 0;
    }
}

/* Terminal: its children are told, each; then it is counted. */
static void tell_children(htc_worker *w, node *n)
{
    graph_bit bit = htc__graph_told_as(&n->task);
    uint32_t  count = htc__graph_n_children(&n->task), parent;
    uint64_t  task;
    n->phase = NODE_TELLING;
    if (n->task.n_added)
        htc__worker_addition(w, n);
    n->telling = ++w->last_telling;
    n->untold = 0;
    for (uint32_t i = 0; i < count; i++) {
        htc__graph_child(&n->task, i, &task, &parent);
        n->untold += !htc__graph_has_added(&n->task, task); /* those know */
    }
    if (n->untold == 0 || HTC__BROKEN(counted_before_told))
        htc__worker_node_told(w, n);
    for (uint32_t i = 0; i < count; i++) {
        htc__graph_child(&n->task, i, &task, &parent);
        if (!htc__graph_has_added(&n->task, task))
            htc__worker_tell(w, task, n, parent, bit);
    }
}

void htc__worker_node_record(htc_worker *w, node *n, htc_bytes value, uint64_t version)
{
    uint8_t *bytes = htc__alloc(&w->env, value.len);
    if (!bytes) {
        htc_runtime_break(w->runtime, HTC_ENOMEM, "reading a task");
        return;
    }
    memcpy(bytes, value.data, value.len);
    htc__free(&w->env, n->bytes, n->len);
    n->bytes = bytes;
    n->len = value.len;
    n->version = version;
    if (htc__graph_read((htc_bytes){ bytes, value.len }, &n->task) != HTC_OK) {
        memset(&n->task, 0, sizeof n->task);
        htc_runtime_break(w->runtime, HTC_ECORRUPT, "reading a task");
        return;
    }
    if (n->phase > NODE_READY)
        return; /* whoever asked goes on */
    if (htc__graph_is_terminal(&n->task)) {
        unready(w, n);
        tell_children(w, n);
    } else if (htc__flow_is_marked(&w->flow, n->id)) {
        unready(w, n);
        n->phase = NODE_WAITING;
        htc__worker_node_cancel(w, n);
    } else if (htc__graph_is_ready(&n->task) && n->phase != NODE_READY && n->phase != NODE_LACKING) {
        ready(w, n);
    } else if (n->phase == NODE_UNREAD) {
        n->phase = NODE_WAITING;
    }
}

/* ---- reading ---- */

typedef struct reads {
    uint32_t n;
    uint64_t ids[READS_MAX];
} reads;

static void ending_read(htc_worker *w, node *n);

static void was_read(void *role, void *ctx, const htc_kv_result *r)
{
    htc_worker *w = role;
    reads       *a = ctx;
    uint64_t     id = a->ids[r->index]; /* several owners of keys, and answers that are asked for again, come in any order */
    node        *n = htc__worker_node(w, id);
    if (r->last) {
        htc_runtime_context_free(w->runtime, a);
        w->reads--;
    }
    if (!n || !n->reading)
        return;
    n->reading = 0;
    if (r->status == HTC_OK) {
        if (r->version >= n->version)
            htc__worker_node_record(w, n, r->value, r->version);
        if (n->phase == NODE_ENDING && htc_runtime_status(w->runtime) == HTC_OK)
            ending_read(w, n);
    } else if (r->status == HTC_ENOTFOUND) {
        htc__log_with(&w->env, HTC_LOG_ERROR, HTC__FIELDS(HTC__NUMBER("task", n->id)), "task %llu has no record -> leave it",
                      (unsigned long long)n->id);
    } else {
        w->read_at = w->now + AGAIN_NS;
        want_read(w, n);
    }
    if ((n = htc__worker_node(w, id)) && n->stale) {
        n->stale = 0;
        htc__worker_node_news(w, n);
    }
}

static void read_some(htc_worker *w)
{
    htc_kv_request q[READS_MAX];
    flow_key       k[READS_MAX];
    reads         *a = htc_runtime_context(w->runtime, sizeof *a);
    if (!a)
        return;
    while (w->to_read && a->n < READS_MAX) {
        node *n = w->to_read;
        unqueue(w, n);
        n->reading = 1;
        k[a->n] = htc__flow_key_task(w->options.flow, n->id);
        q[a->n] = (htc_kv_request){ .size = sizeof q[0], .op = HTC_KV_GET, .key = htc__flow_key_bytes(&k[a->n]) };
        a->ids[a->n++] = n->id;
    }
    w->reads++;
    htc_runtime_ask(w->runtime, q, a->n, was_read, a);
}

void htc__worker_node_news(htc_worker *w, node *n)
{
    own *o = n->of;
    if (n->phase <= NODE_READY)
        want_read(w, n);
    if (o->news_gap > NEWS_AFTER) {
        o->news_gap = NEWS_AFTER;
        o->news_at = w->now + o->news_gap;
    }
}

static void look_for_news(htc_worker *w, own *o)
{
    node *n;
    o->news_at = w->now + o->news_gap;
    o->news_gap = o->news_gap * 2 < NEWS_MAX ? o->news_gap * 2 : NEWS_MAX;
    EACH_NODE(o, n)
    if (n->phase == NODE_WAITING)
        want_read(w, n);
    else if (n->phase == NODE_READY && n->place == PLACE_SHARED && !n->push)
        (void)htc__ids_add(&o->ready, (ledger_span){ n->id, n->id + 1 });
}

void htc__worker_graph(htc_worker *w)
{
    own *o;
    if (w->flow.kind != FLOW_GRAPH)
        return;
    EACH_OWN(w, o)
    if (w->now >= o->news_at && o->now.live.n)
        look_for_news(w, o);
    if (w->now >= w->read_at)
        w->read_at = HTC_NEVER;
    while (w->to_read && w->reads < READS_AT_ONCE && w->read_at == HTC_NEVER && htc_runtime_status(w->runtime) == HTC_OK)
        read_some(w);
}

htc_ns htc__worker_graph_deadline(const htc_worker *w)
{
    htc_ns     at = w->to_read ? w->read_at : HTC_NEVER;
    const own *o;
    if (w->flow.kind != FLOW_GRAPH)
        return HTC_NEVER;
    if (w->to_tell && w->tell_at < at)
        at = w->tell_at;
    EACH_OWN(w, o)
    if (o->now.live.n && o->news_at < at)
        at = o->news_at;
    return at;
}

/* ---- END and CANCEL ---- */

typedef struct end_of {
    uint64_t id, run;
    size_t   len;
    uint8_t  bytes[]; /* what is written */
} end_of;

static void write_end(htc_worker *w, node *n);

/* Its attempt is not needed any more; keep: what it has stored is the result. */
static void attempt_over(htc_worker *w, node *n, int keep)
{
    running *x = n->run && !n->end ? htc__worker_run(w, n->run) : NULL;
    n->run = 0;
    end_forget(w, n);
    if (x)
        htc__worker_forget_run(w, x, !keep);
}

static int is_ours(const htc_worker *w, const node *n, const graph_outcome *o)
{
    const running *x = n->run && !n->end ? htc__worker_run((htc_worker *)(uintptr_t)w, n->run) : NULL;
    return (x || n->end) && o->worker == w->id && o->epoch == w->epoch && o->attempt == (n->end ? n->end->attempt : x->attempt.id.attempt);
}

/* The record says what became of it. */
static void ending_read(htc_worker *w, node *n)
{
    const graph_task *t = &n->task;
    if (htc__graph_is_terminal(t)) {
        attempt_over(w, n, is_ours(w, n, &t->outcome));
        w->figures.ends++;
        tell_children(w, n);
    } else if (n->run == 0 || t->failures == n->failures) {
        write_end(w, n);
    } else { /* another try has been noted, this one or somebody else's */
        attempt_over(w, n, 0);
        n->phase = NODE_WAITING;
        htc__worker_node_record(w, n, (htc_bytes){ n->bytes, n->len }, n->version);
    }
}

static void end_answered(void *role, void *ctx, const htc_kv_result *r)
{
    htc_worker *w = role;
    end_of      *a = ctx;
    node        *n = htc__worker_node(w, a->id);
    if (n && n->phase == NODE_ENDING && n->run == a->run) {
        int known = r->status == HTC_OK || (r->status == HTC_MISMATCH && r->version);
        if (known)
            htc__worker_node_record(w, n, r->status == HTC_OK ? (htc_bytes){ a->bytes, a->len } : r->value, r->version);
        if (known && htc_runtime_status(w->runtime) == HTC_OK)
            ending_read(w, n);
        else if (!known)
            want_read(w, n);
    }
    htc_runtime_context_free(w->runtime, ctx);
}

static void outcome_of_function(const htc_worker *w, const node *n, graph_outcome *o)
{
    const function_end *e = n->end;
    htc_ns              share = e->to > e->from && e->ended > e->began ? (e->ended - e->began) / (e->to - e->from) : 0, before = (n->id - e->from) * share;
    *o = (graph_outcome){ .worker = w->id, .epoch = w->epoch, .attempt = e->attempt, .status = (uint32_t)e->status, .exit_code = e->status != HTC_OK,
                          .began = e->began + before, .ended = e->began + before + share };
    (void)snprintf(o->reason, sizeof o->reason, "%s", e->reason);
}

static void outcome_of(const htc_worker *w, const running *x, graph_outcome *o)
{
    const htc_outcome *from = &x->attempt.outcome;
    *o = (graph_outcome){ .worker = w->id,
                          .epoch = w->epoch,
                          .attempt = x->attempt.id.attempt,
                          .status = (uint32_t)from->status,
                          .exit_code = from->exit_code,
                          .signal = from->signal,
                          .began = from->started,
                          .ended = from->ended };
    (void)snprintf(o->reason, sizeof o->reason, "%s", from->reason);
}

static void write_end(htc_worker *w, node *n)
{
    graph_task     t = n->task;
    const running *x = n->run && !n->end ? htc__worker_run(w, n->run) : NULL;
    graph_outcome  outcome;
    end_of        *a;
    htc_status     status;
    htc_buf        made;
    htc_buf_init(&made, &w->env, 0);
    if (x || n->end) {
        if (n->end)
            outcome_of_function(w, n, &outcome);
        else
            outcome_of(w, x, &outcome);
        int cancelled = outcome.status == (uint32_t)HTC_ECANCELLED, final = n->end ? n->end->final : x->attempt.outcome.final;
        status = cancelled ? htc__graph_cancel(&t, outcome.reason) :
                             htc__graph_end(&t, outcome.status == (uint32_t)HTC_OK, n->failures, final ? 0 : w->flow.tries, &outcome);
        uint64_t needed;
        if (x)
            htc__worker_data_read(x, &needed, &t.moved);
        if (t.state == GRAPH_DONE && x)
            htc__worker_data_put_made(x, &made);
        t.made = htc_buf_bytes(&made);
        t.made_by = made.len ? w->id : 0;
        if (t.state == GRAPH_DONE) {
            t.added = n->end ? (htc_bytes){ n->end->added, n->end->added_len } : (htc_bytes){ x->added, x->added_len };
            t.n_added = n->end ? n->end->n_added : x->n_added;
        }
    } else {
        status = htc__graph_cancel(&t, "cancelled by its user");
    }
    if (status != HTC_OK) { /* it may not end yet: the record that it began with is not that which stands there */
        htc_buf_free(&made);
        attempt_over(w, n, 0);
        n->phase = NODE_WAITING;
        want_read(w, n);
        return;
    }
    flow_key k = htc__flow_key_task(w->options.flow, n->id);
    htc__graph_write(&w->buf, &t);
    status = made.status != HTC_OK ? made.status : w->buf.status;
    htc_buf_free(&made);
    a = htc_runtime_context(w->runtime, sizeof *a + w->buf.len);
    if (!a || status != HTC_OK) {
        htc_runtime_break(w->runtime, status == HTC_OK ? HTC_ENOMEM : status, "writing a task");
        return;
    }
    a->id = n->id;
    a->run = n->run;
    a->len = w->buf.len;
    memcpy(a->bytes, w->buf.data, w->buf.len);
    htc__worker_ask_together(w, &k, HTC__BROKEN(task_unversioned) ? HTC_KV_PUT : HTC_KV_CAS_VERSION, (htc_bytes){ a->bytes, a->len }, n->version, end_answered, a);
}

void htc__worker_node_ended(htc_worker *w, node *n)
{
    unqueue(w, n);
    n->phase = NODE_ENDING;
    write_end(w, n);
}

function_end *htc__worker_function_end(htc_worker *w, const running *x, htc_status status, const char *reason, htc_ns began, htc_ns ended)
{
    size_t        size = sizeof(function_end) + strlen(reason) + 1;
    function_end *e = htc__alloc(&w->env, size);
    if (!e) {
        htc_runtime_break(w->runtime, HTC_ENOMEM, "noting how a function task ended");
        return NULL;
    }
    *e = (function_end){ .attempt = x->attempt.id.attempt, .status = status, .began = began, .ended = ended, .from = x->id, .to = x->to, .size = size };
    e->final = status == HTC_EINVAL || status == HTC_ENOTFOUND || status == HTC_EINPUT || status == HTC_ECORRUPT || status == HTC_EVERSION || status == HTC_EUNSUPPORTED;
    memcpy(e->reason, reason, size - sizeof *e);
    return e;
}

void htc__worker_function_end_free(htc_worker *w, function_end *end)
{
    if (!end || end->nodes)
        return;
    htc__free(&w->env, end->added, end->added_len);
    htc__free(&w->env, end, end->size);
}

void htc__worker_function_ended(htc_worker *w, node *n, function_end *end)
{
    assert(!n->end);
    n->run = ++w->last_run;
    n->end = end;
    end->nodes++;
    w->ends++;
    htc__worker_node_ended(w, n);
}

void htc__worker_node_cancel(htc_worker *w, node *n)
{
    if (n->phase != NODE_WAITING && n->phase != NODE_LACKING && n->phase != NODE_READY)
        return; /* not read yet, then it is seen; or it runs, and is told to end */
    unready(w, n);
    unqueue(w, n);
    n->phase = NODE_ENDING;
    n->run = 0;
    w->figures.cancels++;
    write_end(w, n);
}

void htc__worker_graph_free(htc_worker *w)
{
    own *o;
    EACH_OWN(w, o)
    htc__worker_nodes_lost(w, o);
    assert(!w->pages);
}
