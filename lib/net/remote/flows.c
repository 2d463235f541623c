/* Flows in a store: lib/roles/worker says what is written, this file writes and reads it. */
#include "htcsched/flows.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "core/util.h"
#include "htcsched/work.h"
#include "net/remote/flows_private.h"
#include "roles/worker/graph_task.h"
#include "roles/worker/submission.h"

#define FASTER 64 /* times that others may be faster with the header */

/* One request; a status that is not HTC_OK is the answer, but for those that the caller knows what to do with. */
htc_status htc__flows_ask(htc_store *store, const htc_kv_request *q, htc_kv_result *r, htc_error *error)
{
    *r = (htc_kv_result){ .size = sizeof *r };
    htc_status status = htc_store_ask(store, q, r, error);
    return status == HTC_OK ? r->status : status;
}

htc_kv_request htc__flows_of_key(uint32_t op, const flow_key *k)
{
    return (htc_kv_request){ .size = sizeof(htc_kv_request), .op = op, .key = htc__flow_key_bytes(k) };
}

static htc_status no_flow(uint64_t id, htc_error *error)
{
    return htc__error(error, HTC_ENOTFOUND, "there is no flow %llu", (unsigned long long)id);
}

/* ---- the header ---- */

htc_status htc__flows_header_get(htc_store *store, uint64_t id, flows_header *h, htc_error *error)
{
    htc_kv_result r;
    flow_key      k = htc__flow_key_header(id);
    htc_kv_request q = htc__flows_of_key(HTC_KV_GET, &k);
    htc_status    status = htc__flows_ask(store, &q, &r, error);
    htc_buf_init(&h->bytes, NULL, 0);
    if (status == HTC_ENOTFOUND)
        return no_flow(id, error);
    if (status != HTC_OK)
        return status;
    htc_put_raw(&h->bytes, r.value);
    h->version = r.version;
    status = h->bytes.status == HTC_OK ? htc__flow_read(htc_buf_bytes(&h->bytes), &h->f) : h->bytes.status;
    return status == HTC_ECORRUPT ? htc__error(error, status, "the header of flow %llu cannot be read", (unsigned long long)id) : status;
}

htc_status htc__flows_header_change(htc_store *store, uint64_t id, htc_status (*fn)(flow *f, const void *ctx, htc_error *error), const void *ctx,
                                    htc_error *error)
{
    htc_status status = HTC_MISMATCH;
    for (int i = 0; i < FASTER && status == HTC_MISMATCH; i++) {
        flows_header  h;
        htc_kv_result r;
        htc_buf       b;
        htc_buf_init(&b, NULL, 0);
        status = htc__flows_header_get(store, id, &h, error);
        if (status == HTC_OK)
            status = fn(&h.f, ctx, error);
        if (status == HTC_OK) {
            flow_key k = htc__flow_key_header(id);
            htc__flow_write(&b, &h.f);
            htc_kv_request q = htc__flows_of_key(HTC_KV_CAS_VERSION, &k);
            q.value = htc_buf_bytes(&b);
            q.version = h.version;
            status = b.status == HTC_OK ? htc__flows_ask(store, &q, &r, error) : b.status;
        }
        htc_buf_free(&b);
        htc_buf_free(&h.bytes);
    }
    return status == HTC_EEXISTS ? HTC_OK : status == HTC_MISMATCH ? htc__error(error, HTC_EBUSY, "others change flow %llu all the time", (unsigned long long)id) : status;
}

/* ---- submitted ---- */

/* Each user's flows have numbers of their own, and a counter that is within the user's reach. */
htc_status htc__flows_draw(htc_store *store, uint32_t owner, uint64_t *id, htc_error *error)
{
    char           key[24] = "g/flow";
    htc_kv_result  r;
    if (owner)
        snprintf(key, sizeof key, "g/flow/%08x", (unsigned)owner);
    htc_kv_request q = { .size = sizeof q, .op = HTC_KV_ADD, .key = htc_bytes_of(key), .delta = 1 };
    htc_status     status = htc__flows_ask(store, &q, &r, error);
    if (status == HTC_OK && (r.number < 1 || r.number > UINT32_MAX))
        status = htc__error(error, HTC_ECORRUPT, "the counter of flows is not a number of 32 bits");
    if (status == HTC_OK)
        *id = (uint64_t)owner << 32 | (uint64_t)r.number;
    return status;
}

htc_status htc__flows_put_header(htc_store *store, uint64_t id, htc_bytes bytes, htc_error *error)
{
    htc_kv_result  r;
    flow_key       k = htc__flow_key_header(id);
    htc_kv_request q = htc__flows_of_key(HTC_KV_PUT, &k);
    q.flags = HTC_KV_NX;
    q.value = bytes;
    return htc__flows_ask(store, &q, &r, error);
}

static htc_status put_header(htc_store *store, const submission *s, htc_error *error)
{
    htc_buf b;
    htc_buf_init(&b, NULL, 0);
    htc__submission_header(s, FLOW_BUILDING, &b);
    htc_status status = b.status == HTC_OK ? htc__flows_put_header(store, s->id, htc_buf_bytes(&b), error) : b.status;
    htc_buf_free(&b);
    return status;
}

/* Answers to what is on its way; all: until there is none. */
htc_status htc__flows_settle(htc_store *store, uint32_t *flying, uint32_t most, htc_error *error)
{
    htc_status status = HTC_OK;
    while (*flying > most) {
        htc_kv_result r = { .size = sizeof r };
        htc_status    got = htc_store_next(store, HTC_NEVER, &r);
        if (got != HTC_OK)
            return htc__error(error, got, "the store does not answer: %s", htc_strerror(got));
        *flying -= r.last != 0;
        if (r.status != HTC_OK && r.status != HTC_MISMATCH && r.status != HTC_ENOTFOUND && status == HTC_OK) /* MISMATCH: it is there */
            status = htc__error(error, r.status, "the store refuses a record: %s", htc_strerror(r.status));
    }
    return status;
}

/* ---- many records ---- */

void htc__flows_sending_begin(flows_sending *x, htc_store *store)
{
    x->store = store;
    x->n = x->flying = 0;
    for (size_t i = 0; i < FLOWS_TOGETHER; i++)
        htc_buf_init(&x->b[i], NULL, 0);
}

static htc_status send_off(flows_sending *x)
{
    htc_kv_request q[FLOWS_TOGETHER];
    for (size_t i = 0; i < x->n; i++) {
        q[i] = htc__flows_of_key(HTC_KV_PUT, &x->k[i]);
        q[i].flags = HTC_KV_NX;
        q[i].value = htc_buf_bytes(&x->b[i]);
    }
    htc_status status = x->n ? htc_store_submit(x->store, q, x->n, 1) : HTC_OK;
    x->flying += x->n && status == HTC_OK;
    x->n = 0;
    return status;
}

htc_status htc__flows_sending_room(flows_sending *x, flow_key **k, htc_buf **b, htc_error *error)
{
    htc_status status = HTC_OK;
    if (x->n == FLOWS_TOGETHER) {
        status = send_off(x);
        if (status == HTC_OK)
            status = htc__flows_settle(x->store, &x->flying, FLOWS_AHEAD, error);
    }
    *k = &x->k[x->n];
    *b = &x->b[x->n];
    return status;
}

htc_status htc__flows_sending_flush(flows_sending *x, htc_error *error)
{
    htc_status status = send_off(x);
    htc_status rest = htc__flows_settle(x->store, &x->flying, 0, status == HTC_OK ? error : NULL);
    return status == HTC_OK ? rest : status;
}

htc_status htc__flows_sending_end(flows_sending *x, htc_status status, htc_error *error)
{
    htc_status rest = status == HTC_OK ? htc__flows_sending_flush(x, error) : htc__flows_settle(x->store, &x->flying, 0, NULL);
    for (size_t i = 0; i < FLOWS_TOGETHER; i++)
        htc_buf_free(&x->b[i]);
    return status == HTC_OK ? rest : status;
}

static htc_status put_records(htc_store *store, submission *s, htc_error *error)
{
    flows_sending x;
    uint64_t      n = htc__submission_records(s);
    htc_status    status = HTC_OK;
    htc__flows_sending_begin(&x, store);
    for (uint64_t at = 0; at < n && status == HTC_OK; at++) {
        flow_key *k;
        htc_buf  *b;
        status = htc__flows_sending_room(&x, &k, &b, error);
        if (status != HTC_OK)
            break;
        status = htc__submission_record(s, at, k, b);
        if (status == HTC_OK)
            x.n++;
        else
            status = htc__error(error, status, "task %llu cannot be written: %s", (unsigned long long)(at - s->n_ledgers), htc_strerror(status));
    }
    return htc__flows_sending_end(&x, status, error);
}

htc_status htc_flows_submit(htc_store *store, const htc_flow *given, const htc_flows_options *options, uint64_t *id, htc_error *error)
{
    submission s = { 0 };
    uint64_t   number = 0;
    uint32_t   workers;
    if (!store || !given || !id)
        return htc__error(error, HTC_EINVAL, "no store, or no flow");
    htc_status status = htc__submission_options(&s, options, &workers, error);
    if (status == HTC_OK)
        status = htc__submission_init(&s, NULL, given, 0, workers, error);
    if (status == HTC_OK)
        status = htc__flows_draw(store, s.owner, &number, error);
    s.id = number;
    if (status == HTC_OK)
        status = put_header(store, &s, error);
    if (number)
        *id = number;
    if (status == HTC_OK)
        status = put_records(store, &s, error);
    htc__submission_free(&s);
    return status;
}

static htc_status started(flow *f, const void *ctx, htc_error *error)
{
    if (f->state == FLOW_RUNNING)
        return HTC_EEXISTS;
    if (f->state != FLOW_BUILDING)
        return htc__error(error, HTC_EBUSY, "the flow has ended");
    f->state = FLOW_RUNNING;
    f->job = *(const uint64_t *)ctx;
    return HTC_OK;
}

htc_status htc_flows_start(htc_store *store, uint64_t id, uint64_t job, htc_error *error)
{
    return store ? htc__flows_header_change(store, id, started, &job, error) : HTC_EINVAL;
}

typedef struct new_policies {
    const char         *policy, *steal;
    const htc_registry *policies;
} new_policies;

static htc_status policies_set(flow *f, const void *ctx, htc_error *error)
{
    const new_policies *p = ctx;
    if (f->state != FLOW_RUNNING && f->state != FLOW_BUILDING)
        return htc__error(error, HTC_EBUSY, "the flow has ended");
    return htc__submission_policy(f, p->policy, p->steal, p->policies, error);
}

htc_status htc_flows_set(htc_store *store, uint64_t id, const char *policy, const char *steal, htc_error *error)
{
    return htc_flows_set_of(store, id, policy, steal, NULL, error);
}

htc_status htc_flows_set_of(htc_store *store, uint64_t id, const char *policy, const char *steal, const htc_registry *policies, htc_error *error)
{
    return store ? htc__flows_header_change(store, id, policies_set, &(new_policies){ policy, steal, policies }, error) : HTC_EINVAL;
}

/* ---- looked at ---- */

/* all: also those behind whose prefix stands something else than a number. */
static htc_status walk(htc_store *store, const flow_key *prefix, int all, flows_item_fn *fn, flows_page_fn *page, void *ctx, htc_error *error)
{
    htc_buf    cursor;
    htc_status status;
    int        more = 1;
    htc_buf_init(&cursor, NULL, 0);
    do {
        htc_kv_result  r;
        htc_kv_item    item;
        size_t         at = 0;
        uint64_t       number = 0;
        htc_kv_request q = htc__flows_of_key(HTC_KV_SCAN, prefix);
        q.cursor = htc_buf_bytes(&cursor);
        status = htc__flows_ask(store, &q, &r, error);
        while (status == HTC_OK && more && htc_kv_result_item(&r, &at, &item) == HTC_OK)
            if (htc__flow_key_number(item.key, prefix, &number) || all)
                more = fn(ctx, number, &item);
        if (status == HTC_OK) {
            htc_buf_clear(&cursor);
            htc_put_raw(&cursor, r.cursor);
            status = page ? page(ctx, error) : HTC_OK;
        }
    } while (status == HTC_OK && more && cursor.len);
    htc_buf_free(&cursor);
    return status;
}

htc_status htc__flows_walk(htc_store *store, const flow_key *prefix, flows_item_fn *fn, flows_page_fn *page, void *ctx, htc_error *error)
{
    return walk(store, prefix, 0, fn, page, ctx, error);
}

static int see_ledger(void *ctx, uint64_t number, const htc_kv_item *item)
{
    htc_flows_view *v = ctx;
    ledger          l;
    (void)number;
    if (htc__ledger_read(item->value, &l) != HTC_OK)
        return 1;
    v->ledgers++;
    v->done += l.counts.done;
    v->failed += l.counts.failed;
    v->cancelled += l.counts.cancelled;
    return 1;
}

static int see_worker(void *ctx, const htc_flows_worker *w)
{
    htc_flows_view *v = ctx;
    v->workers++;
    v->slots += w->slots;
    return 1;
}

typedef struct workers_walk {
    htc_flows_worker_fn fn;
    void               *ctx;
} workers_walk;

static int tell_worker(void *ctx, uint64_t number, const htc_kv_item *item)
{
    workers_walk *x = ctx;
    flow_worker   w;
    if (htc__flow_worker_read(item->value, &w) != HTC_OK)
        return 1;
    return x->fn(x->ctx, &(htc_flows_worker){ .size = sizeof(htc_flows_worker), .number = number, .slots = w.slots, .node = w.node, .address = w.address });
}

htc_status htc_flows_workers(htc_store *store, uint64_t id, htc_flows_worker_fn fn, void *ctx, htc_error *error)
{
    flow_key k = htc__flow_key_workers(id);
    return store && fn ? htc__flows_walk(store, &k, tell_worker, NULL, &(workers_walk){ fn, ctx }, error) : HTC_EINVAL;
}

/* Of those that were inserted, as their records say; one that is gone, since the flow is being removed, was done. */
static htc_status count_inserted(htc_store *store, uint64_t id, const flow *f, ledger_counts *c, htc_error *error)
{
    htc_status status = HTC_OK;
    uint64_t   end = htc__flow_submitted(f) + f->inserted;
    for (uint64_t at = end - f->inserted; at < end && status == HTC_OK; at += FLOWS_TOGETHER) {
        htc_kv_request q[FLOWS_TOGETHER];
        flow_key       k[FLOWS_TOGETHER];
        htc_kv_result  r = { .size = sizeof r };
        size_t         n = 0;
        for (; n < FLOWS_TOGETHER && at + n < end; n++) {
            k[n] = htc__flow_key_task(id, at + n);
            q[n] = htc__flows_of_key(HTC_KV_GET, &k[n]);
        }
        htc_status got = status = htc_store_submit(store, q, n, 1);
        for (size_t i = 0; i < n && got == HTC_OK; i++) {
            graph_task t;
            got = htc_store_next(store, HTC_NEVER, &r);
            if (got != HTC_OK)
                return htc__error(error, got, "the store does not answer: %s", htc_strerror(got));
            if (r.status != HTC_OK && r.status != HTC_ENOTFOUND)
                status = htc__error(error, r.status, "the store refuses a record: %s", htc_strerror(r.status));
            int known = r.status == HTC_OK && htc__graph_read(r.value, &t) == HTC_OK;
            c->failed += known && t.state == GRAPH_FAILED;
            c->cancelled += known && t.state == GRAPH_CANCELLED;
        }
    }
    c->done = f->inserted - c->failed - c->cancelled;
    return status;
}

static uint64_t less(uint64_t count, uint64_t by)
{
    return count > by ? count - by : 0;
}

/* Counts of the tasks that were submitted alone. While it runs it is not known how many of the inserted ones are among each. */
static htc_status leave_inserted_out(htc_store *store, uint64_t id, const flow *f, htc_flows_view *v, htc_error *error)
{
    ledger_counts c = { f->inserted, 0, f->inserted };
    htc_status    status = HTC_OK;
    v->inserted = f->inserted;
    v->tasks -= f->inserted;
    v->added = f->added;
    v->adds = f->adds;
    v->open = f->intake != 0 && f->state == FLOW_RUNNING;
    if (f->state == FLOW_ENDED) {
        c = (ledger_counts){ f->inserted, 0, 0 };
        if (f->inserted && (v->failed || v->cancelled))
            status = count_inserted(store, id, f, &c, error);
    }
    v->done = less(v->done, c.done);
    v->failed = less(v->failed, c.failed);
    v->cancelled = less(v->cancelled, c.cancelled);
    return status;
}

htc_status htc_flows_look(htc_store *store, uint64_t id, htc_flows_view *view, htc_error *error)
{
    flows_header h;
    if (!store || !view || view->size < offsetof(htc_flows_view, job))
        return htc__error(error, HTC_EINVAL, "no store, or no room for what is seen");
    htc_status     status = htc__flows_header_get(store, id, &h, error);
    htc_flows_view v = { .size = view->size };
    if (status == HTC_OK) {
        v.state = h.f.state;
        v.graph = h.f.kind == FLOW_GRAPH;
        v.job = h.f.job;
        v.tasks = h.f.tasks;
        v.tries = h.f.tries;
        v.max_fails = h.f.max_fails == UINT64_MAX ? 0 : h.f.max_fails;
        memcpy(v.user, h.f.user, sizeof v.user);
        v.data = h.f.data;
        v.from = h.f.from;
        (void)snprintf(v.policy, sizeof v.policy, "%s", htc__submission_rule(h.f.places.rule));
        memcpy(v.steal, h.f.steal, sizeof v.steal);
        flow_key ledgers = htc__flow_key_ledgers(id);
        status = htc__flows_walk(store, &ledgers, see_ledger, NULL, &v, error);
        if (status == HTC_OK)
            status = htc_flows_workers(store, id, see_worker, &v, error);
        if (h.f.state == FLOW_ENDED) {
            v.done = h.f.counts.done;
            v.failed = h.f.counts.failed;
            v.cancelled = h.f.counts.cancelled;
        }
        if (status == HTC_OK)
            status = leave_inserted_out(store, id, &h.f, &v, error);
    }
    htc_buf_free(&h.bytes);
    if (status == HTC_OK)
        memcpy(view, &v, view->size < sizeof v ? view->size : sizeof v);
    return status;
}

typedef struct tasks_walk {
    htc_flows_task_fn fn;
    void             *ctx;
    htc_status        status;
    uint64_t          number;
    const flow       *flow;
    uint64_t          next; /* of the tasks that were added: the records of some are not written yet */
    int               inserted; /* now these */
    htc_flows_parent *parents; /* GRAPH_PARENTS_MAX, then GRAPH_CHILDREN_MAX: of the task at hand */
    htc_flows_child  *children;
    htc_flows_file   *files; /* GRAPH_READS_MAX */
} tasks_walk;

static const char *state_name(const graph_task *t)
{
    switch ((graph_state)t->state) {
    case GRAPH_OPEN: return htc__graph_is_ready(t) ? "ready" : "waiting";
    case GRAPH_DONE: return "done";
    case GRAPH_FAILED: return "failed";
    case GRAPH_CANCELLED: return "cancelled";
    }
    return "?";
}

static void text_of(htc_bytes from, char *text, size_t room)
{
    size_t len = from.len < room ? from.len : room - 1;
    if (len)
        memcpy(text, from.data, len);
    text[len] = 0;
}

static int is_read(const graph_task *g, const char *name)
{
    htc_reader r = htc_reader_of(g->makes);
    while (htc_reader_left(&r))
        if (htc_bytes_equal(htc_get_bytes(&r), htc_bytes_of(name)))
            return 1;
    return 0;
}

/* What it makes is what is stored of it, by names of its own. Of one that adds tasks all is kept for those, read or not: it counts as results. */
static uint32_t files_of(const graph_task *g, const htc_task *task, htc_flows_file *files)
{
    uint32_t n = 0;
    for (size_t i = 0; task && i < task->n_out && n < GRAPH_READS_MAX; i++) {
        graph_object made = { .size = 0 };
        if (strcmp(task->out[i].name, task->out[i].uri) != 0)
            continue;
        (void)htc__graph_made(g, htc_bytes_of(task->out[i].name), &made);
        files[n++] = (htc_flows_file){ task->out[i].name, made.size, (uint32_t)(is_read(g, task->out[i].name) && !g->adds) };
    }
    return n;
}

/* Their records are being written. */
static int tell_missing(tasks_walk *w, uint64_t to)
{
    int more = 1;
    for (; w->next < to && more; w->next++) {
        htc_flows_task t = { .size = sizeof t, .number = htc__flow_shown(w->flow, w->next), .name = "", .state = "waiting", .reason = "", .kind = "", .stored = w->next };
        more = w->fn(w->ctx, &t);
    }
    return more;
}

static int see_task(void *ctx, uint64_t number, const htc_kv_item *item)
{
    tasks_walk *w = ctx;
    graph_task  g;
    htc_task   *task = NULL;
    char        name[256], kind[256];
    if (htc__flow_is_inserted(w->flow, number) != w->inserted || (w->flow->adds && number >= w->flow->tasks))
        return 1; /* later; or it was added since the header was read */
    if (number >= w->next && w->flow->adds && !w->inserted) {
        if (!tell_missing(w, number))
            return 0;
        w->next = number + 1;
    }
    w->number = number;
    w->status = htc__graph_read(item->value, &g);
    if (w->status != HTC_OK)
        return 0;
    text_of(g.name, name, sizeof name);
    text_of(g.kind, kind, sizeof kind);
    if (g.task.len && (w->status = htc_task_from_bytes(NULL, g.task, &task)) != HTC_OK)
        return 0;
    htc_flows_task t = { .size = sizeof t, .number = htc__flow_shown(w->flow, number), .name = name, .state = state_name(&g), .reason = g.outcome.reason,
                         .parents = (uint32_t)g.parents.len, .failures = g.failures, .attempt = g.outcome.attempt,
                         .status = (htc_status)(int32_t)g.outcome.status, .exit_code = g.outcome.exit_code, .signal = g.outcome.signal,
                         .worker = g.outcome.worker, .began = g.outcome.began, .ended = g.outcome.ended, .inserted = (uint32_t)w->inserted, .stored = number,
                         .intake = g.adds == GRAPH_ADDS_INTAKE };
    const uint8_t *p = g.parents.data;
    for (size_t i = 0; i < g.parents.len; i++) {
        t.untold += (p[i] & 3) == GRAPH_NOT_TOLD;
        w->parents[i] = (htc_flows_parent){ p[i] / 4u, p[i] & 3u };
    }
    t.waits = w->parents;
    t.children = w->children;
    t.n_children = htc__graph_n_children(&g);
    for (uint32_t i = 0; i < t.n_children; i++) {
        uint32_t parent;
        htc__graph_child(&g, i, &w->children[i].task, &parent);
        w->children[i].task = htc__flow_shown(w->flow, w->children[i].task);
        w->children[i].parent = parent;
    }
    t.kind = kind;
    t.data = g.data;
    t.moved = g.moved;
    t.files = w->files;
    t.n_files = files_of(&g, task, w->files);
    int more = w->fn(w->ctx, &t);
    htc_task_destroy(task);
    return more;
}

htc_status htc_flows_tasks(htc_store *store, uint64_t id, htc_flows_task_fn fn, void *ctx, htc_error *error)
{
    tasks_walk   w = { .fn = fn, .ctx = ctx };
    flow_key     k = htc__flow_key_tasks(id);
    flows_header h = { .version = 0 };
    if (!store || !fn)
        return HTC_EINVAL;
    htc_status status = htc__flows_header_get(store, id, &h, error);
    w.flow = &h.f;
    w.next = h.f.tasks - h.f.added;
    int bag = status == HTC_OK && h.f.kind == FLOW_BAG;
    if (bag)
        status = htc__flows_bag_tasks(store, id, &h.f, fn, ctx, error);
    if (status != HTC_OK || bag) {
        htc_buf_free(&h.bytes);
        return status;
    }
    w.parents = htc__alloc(NULL, GRAPH_PARENTS_MAX * sizeof *w.parents);
    w.children = htc__alloc(NULL, GRAPH_CHILDREN_MAX * sizeof *w.children);
    w.files = htc__alloc(NULL, GRAPH_READS_MAX * sizeof *w.files);
    status = w.parents && w.children && w.files ? htc__flows_walk(store, &k, see_task, NULL, &w, error) : HTC_ENOMEM;
    int all = status == HTC_OK && w.status == HTC_OK && (!h.f.adds || tell_missing(&w, h.f.tasks));
    w.inserted = 1;
    if (all && h.f.inserted)
        status = htc__flows_walk(store, &k, see_task, NULL, &w, error);
    htc__free(NULL, w.parents, GRAPH_PARENTS_MAX * sizeof *w.parents);
    htc__free(NULL, w.children, GRAPH_CHILDREN_MAX * sizeof *w.children);
    htc__free(NULL, w.files, GRAPH_READS_MAX * sizeof *w.files);
    if (status == HTC_OK && w.status != HTC_OK)
        status = htc__error(error, w.status, "the record of task %llu of flow %llu cannot be read", (unsigned long long)w.number, (unsigned long long)id);
    htc_buf_free(&h.bytes);
    return status;
}

/* ---- cancelled, removed ---- */

static htc_status marked(flow *f, const void *ctx, htc_error *error)
{
    ledger_span s = *(const ledger_span *)ctx;
    if (f->state != FLOW_RUNNING && f->state != FLOW_BUILDING)
        return htc__error(error, HTC_EBUSY, "the flow has ended");
    if (s.to > f->tasks)
        s.to = f->tasks;
    if (s.from >= s.to)
        return htc__error(error, HTC_EINVAL, "the flow has %llu task%s, numbered from 0", (unsigned long long)f->tasks, htc__plural(f->tasks));
    uint64_t own = htc__flow_submitted(f), last = own + f->added; /* what stands behind them was inserted, and has other numbers in the store */
    int      some = 0;
    for (uint64_t from = s.from, to; from < s.to; from = to) {
        to = from < own ? own : from < last ? last : f->tasks;
        to = to < s.to ? to : s.to;
        htc_status status = htc__flow_mark(f, (ledger_span){ htc__flow_stored(f, from), htc__flow_stored(f, to - 1) + 1 });
        if (status == HTC_EFULL)
            return htc__error(error, status, "%d ranges of tasks of the flow are cancelled already, and there is no room for one more: cancel tasks in a row together, or all",
                              FLOW_MARKS_MAX);
        some |= status == HTC_OK;
    }
    return some ? HTC_OK : HTC_EEXISTS;
}

htc_status htc_flows_cancel(htc_store *store, uint64_t id, uint64_t from, uint64_t to, htc_error *error)
{
    return store ? htc__flows_header_change(store, id, marked, &(ledger_span){ from, to }, error) : HTC_EINVAL;
}

static htc_status removable(flow *f, const void *ctx, htc_error *error)
{
    (void)ctx;
    if (f->state == FLOW_RUNNING)
        return htc__error(error, HTC_EBUSY, "the flow has not ended: cancel it first");
    if (f->state != FLOW_BUILDING)
        return HTC_EEXISTS;
    f->state = FLOW_ABORTED;
    return HTC_OK;
}

typedef struct removal {
    htc_store *store;
    flow_key   keys[FLOWS_TOGETHER];
    size_t     n;
} removal;

static int note_key(void *ctx, uint64_t number, const htc_kv_item *item)
{
    removal *m = ctx;
    (void)number;
    flow_key *k = &m->keys[m->n];
    if (item->key.len >= sizeof k->text)
        return 1;
    memcpy(k->text, item->key.data, item->key.len);
    k->len = item->key.len;
    return ++m->n < FLOWS_TOGETHER;
}

/* Noted and deleted by turns, until none is left. */
static htc_status remove_all(htc_store *store, const flow_key *prefix, htc_error *error)
{
    for (;;) {
        removal        m = { .store = store };
        htc_kv_request q[FLOWS_TOGETHER];
        uint32_t       flying = 1;
        htc_status     status = walk(store, prefix, 1, note_key, NULL, &m, error);
        if (status != HTC_OK || m.n == 0)
            return status;
        for (size_t i = 0; i < m.n; i++)
            q[i] = htc__flows_of_key(HTC_KV_DELETE, &m.keys[i]);
        status = htc_store_submit(store, q, m.n, 1);
        if (status == HTC_OK)
            status = htc__flows_settle(store, &flying, 0, error);
        if (status != HTC_OK)
            return status;
    }
}

htc_status htc_flows_remove(htc_store *store, uint64_t id, htc_error *error)
{
    flow_key tasks = htc__flow_key_tasks(id), ledgers = htc__flow_key_ledgers(id), logs = htc__flow_key_logs(id), last = htc__flow_key_header(id);
    if (!store)
        return HTC_EINVAL;
    htc_status status = htc__flows_header_change(store, id, removable, NULL, error);
    if (status == HTC_OK)
        status = remove_all(store, &tasks, error);
    if (status == HTC_OK)
        status = remove_all(store, &logs, error);
    if (status == HTC_OK)
        status = remove_all(store, &ledgers, error);
    htc_kv_result  r;
    htc_kv_request q = htc__flows_of_key(HTC_KV_DELETE, &last);
    if (status == HTC_OK)
        status = htc__flows_ask(store, &q, &r, error);
    return status == HTC_ENOTFOUND ? HTC_OK : status;
}
