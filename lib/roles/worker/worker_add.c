/* Tasks that add tasks (addition.h). A task that is done, and has added some, stays live until they can be live in its stead:
 *
 *     READ -> DRAW -> NOTE -> CREATE -> COUNT -> (counted with the next change of its ledger)
 *      |                        ^
 *      +-- it has drawn before -+
 *
 * Many draw with one change of the header. Where the header has no room for another draw, some that stand there are read: what their records say
 * already is taken out with the next draw, and what they do not say is noted for them. What is added is live in the task's own ledger if that has room,
 * else in another one of this worker's, to which a note carries it. */
#include <stdio.h>
#include <string.h>

#include "core/fault.h"
#include "htcsched/work.h"
#include "roles/worker/addition_records.h"
#include "roles/worker/worker_private.h"

#define CREATE_BYTES (256 * 1024) /* of records in one request, but for its last one */
#define DRAW_AGAIN   (5 * HTC_MS) /* where the header had no room */
#define HELPED_MAX   8
#define NOBODYS      UINT64_MAX   /* no ledger of ours: it is helped */
#define WHY_MAX      256

typedef enum addition_phase { ADD_READ, ADD_DRAW, ADD_NOTE, ADD_CREATE, ADD_COUNT } addition_phase;

struct addition {
    uint64_t       id, ledger, version, from, home;
    uint64_t       behind; /* the version of the header that was known when its record was read */
    uint32_t       n, created, asked_for;
    uint8_t        phase, asked, cancelled, sought; /* sought: whose ledger it is to go to was looked for */
    htc_ns         at; /* not before */
    uint8_t       *bytes; /* its record */
    size_t         len;
    graph_task     task; /* lies in there */
    addition_records records;
    UT_hash_handle hh;
};

static addition *find(const htc_worker *w, uint64_t id)
{
    addition *a;
    HASH_FIND(hh, w->additions, &id, sizeof id, a);
    return a;
}

/* Its node was held back for it. */
static void let_count(htc_worker *w, const addition *a)
{
    own  *o = htc__worker_own(w, a->ledger);
    node *n = o ? htc__worker_node(w, a->id) : NULL;
    if (!n || n->ledger != a->ledger || n->phase != NODE_TOLD || !n->held)
        return;
    n->held = 0;
    DL_APPEND(o->told_first, n);
}

static void addition_free(htc_worker *w, addition *a)
{
    own *o = htc__worker_own(w, a->ledger);
    if (o)
        o->n_additions--;
    htc__addition_end(&a->records, &w->env);
    HASH_DEL(w->additions, a);
    htc__free(&w->env, a->bytes, a->len);
    htc__free(&w->env, a, sizeof *a);
}

void htc__worker_additions_free(htc_worker *w)
{
    while (w->additions)
        addition_free(w, w->additions);
}

void htc__worker_addition_left(htc_worker *w, const node *n)
{
    addition *a = find(w, n->id);
    if (a && a->ledger == n->ledger)
        addition_free(w, a);
}

static addition *addition_new(htc_worker *w, uint64_t id, uint64_t number)
{
    addition *a = htc__alloc(&w->env, sizeof *a);
    own      *o = htc__worker_own(w, number);
    if (a) {
        a->id = id;
        a->ledger = number;
        HASH_ADD(hh, w->additions, id, sizeof a->id, a);
    }
    if (!a || !a->hh.tbl) {
        htc__free(&w->env, a, sizeof *a);
        htc_runtime_break(w->runtime, HTC_ENOMEM, "adding tasks");
        return NULL;
    }
    if (o)
        o->n_additions++;
    w->poked = 1;
    return a;
}

void htc__worker_addition(htc_worker *w, const node *n)
{
    addition *a = find(w, n->id);
    if (a && a->ledger == n->ledger)
        return;
    if (a) /* it was helped */
        addition_free(w, a);
    (void)addition_new(w, n->id, n->ledger);
}

/* ---- what it has printed, or left as its output ---- */

/* How many tasks it adds, and a copy of the text if that is some. HTC_ESTAGEOUT: why it adds none; HTC_ENOMEM: that has been said. */
static htc_status keep_text(htc_worker *w, const node *n, htc_bytes text, uint8_t **copy, uint32_t *n_added, char why[WHY_MAX])
{
    htc_error  e = { .status = HTC_OK };
    char       line[24] = "";
    htc_status status = htc__addition_check(&w->env, text, &w->flow, w->options.flow, n->id, &n->task, n->len, n_added, &e);
    if (status == HTC_OK && *n_added) {
        *copy = htc__alloc(&w->env, text.len);
        if (*copy)
            memcpy(*copy, text.data, text.len);
        status = *copy ? HTC_OK : HTC_ENOMEM;
    }
    if (status == HTC_ENOMEM) {
        htc_runtime_break(w->runtime, status, "adding tasks");
        *n_added = 0;
    }
    if (status == HTC_OK || status == HTC_ENOMEM)
        return status;
    if (e.line)
        (void)snprintf(line, sizeof line, "line %u: ", e.line);
    (void)snprintf(why, WHY_MAX, "%s%.50s%s%.110s%s%.60s", line, e.where, e.where[0] ? ": " : "", e.text[0] ? e.text : htc_strerror(status),
                   e.hint[0] ? "; " : "", e.hint);
    return HTC_ESTAGEOUT;
}

static void refuse(htc_worker *w, running *x, const char *why)
{
    x->attempt.outcome.status = HTC_OK; /* or the words would stay those of before */
    htc__attempt_outcome_set(&w->holder, &x->attempt, HTC_ESTAGEOUT, "what it printed adds no tasks: %s", why);
}

static void text_known(void *role, void *ctx, htc_status status, htc_bytes body)
{
    htc_worker *w = role;
    uint64_t    run = *(uint64_t *)ctx;
    running    *x = htc__worker_run(w, run);
    node       *n = x ? htc__worker_node(w, x->id) : NULL;
    htc_reader  r = htc_reader_of(body);
    char        too_long[40], why[WHY_MAX];
    htc_runtime_context_free(w->runtime, ctx);
    if (!n || n->run != run)
        return;
    (void)snprintf(too_long, sizeof too_long, "it has more than %d bytes", ADDITION_TEXT_MAX);
    htc_bytes text = status == HTC_OK ? htc_get_bytes(&r) : htc_bytes_of(NULL);
    if (status == HTC_OK && htc_reader_done(&r) != HTC_OK)
        status = HTC_EPROTO;
    if (status == HTC_OK && keep_text(w, n, text, &x->added, &x->n_added, why) == HTC_ESTAGEOUT)
        refuse(w, x, why);
    else if (status == HTC_ETOOBIG)
        refuse(w, x, too_long);
    else if (status != HTC_OK && status != HTC_ENOTFOUND) /* an empty one is not stored */
        refuse(w, x, htc_strerror(status));
    x->added_len = x->added ? text.len : 0;
    htc__worker_run_kept(w, x);
}

void htc__worker_addition_output(htc_worker *w, node *n, const running *x, htc_bytes output, htc_ns began, htc_ns ended)
{
    char          why[WHY_MAX], reason[WHY_MAX] = "";
    uint8_t      *added = NULL;
    uint32_t      n_added = 0;
    htc_status    status = keep_text(w, n, output, &added, &n_added, why);
    if (status == HTC_ENOMEM)
        return;
    if (status != HTC_OK)
        (void)snprintf(reason, sizeof reason, "its output adds no tasks: %.220s", why);
    function_end *e = htc__worker_function_end(w, x, status, reason, began, ended);
    if (!e) {
        htc__free(&w->env, added, added ? output.len : 0);
        return;
    }
    e->added = added;
    e->added_len = added ? output.len : 0;
    e->n_added = n_added;
    htc__worker_function_ended(w, n, e);
}

int htc__worker_addition_text(htc_worker *w, running *x, const graph_task *t)
{
    uint64_t *run = t->adds ? htc_runtime_context(w->runtime, sizeof *run) : NULL;
    if (!run)
        return 0;
    *run = x->attempt.run;
    htc_buf_clear(&w->buf);
    htc_write_attempt(&w->buf, &x->attempt.id);
    htc_put_str(&w->buf, "stdout");
    htc_put_u32(&w->buf, ADDITION_TEXT_MAX);
    if (htc__worker_written(w, "reading what tasks are added"))
        htc_runtime_call(w->runtime, HTC_CALL_OUTPUT_READ, htc_buf_bytes(&w->buf), text_known, run);
    return 1;
}

/* ---- READ ---- */

typedef struct reads {
    uint32_t n;
    uint64_t behind, ids[READS_MAX];
} reads;

static void is_noted(htc_worker *w, uint64_t id)
{
    for (uint32_t i = 0; i < w->n_noted; i++)
        if (w->noted[i] == id)
            return;
    if (htc__flow_drawn(&w->flow, id) && w->n_noted < FLOW_DRAWN_MAX)
        w->noted[w->n_noted++] = id;
}

static void note_is_known(htc_worker *w, addition *a, const graph_task *t)
{
    is_noted(w, a->id);
    if (a->ledger == NOBODYS) {
        addition_free(w, a);
        return;
    }
    a->from = t->added_from;
    a->home = t->added_home;
    a->cancelled = t->added_cancelled;
    a->task.added_home = a->home;
    a->task.added_cancelled = a->cancelled;
    a->phase = ADD_CREATE;
}

static void record_is(htc_worker *w, addition *a, htc_bytes value, uint64_t version)
{
    uint8_t *bytes = htc__alloc(&w->env, value.len);
    if (!bytes) {
        htc_runtime_break(w->runtime, HTC_ENOMEM, "adding tasks");
        return;
    }
    memcpy(bytes, value.data, value.len);
    htc__free(&w->env, a->bytes, a->len);
    a->bytes = bytes;
    a->len = value.len;
    a->version = version;
    if (htc__graph_read((htc_bytes){ bytes, value.len }, &a->task) != HTC_OK || a->task.state != GRAPH_DONE || a->task.n_added == 0) {
        htc_runtime_break(w->runtime, HTC_ECORRUPT, "reading a task that adds tasks");
        return;
    }
    a->n = a->task.n_added;
    if (a->task.added_from)
        note_is_known(w, a, &a->task);
    else
        a->phase = ADD_DRAW;
}

static void was_read(void *role, void *ctx, const htc_kv_result *r)
{
    htc_worker *w = role;
    reads      *q = ctx;
    addition   *a = find(w, q->ids[r->index]);
    uint64_t    behind = q->behind;
    if (r->last)
        htc_runtime_context_free(w->runtime, q);
    if (!a || !a->asked || a->phase != ADD_READ)
        return;
    a->asked = 0;
    a->behind = behind;
    if (r->status == HTC_OK)
        record_is(w, a, r->value, r->version);
    else
        a->at = w->now + AGAIN_NS;
}

static void read_some(htc_worker *w)
{
    htc_kv_request q[READS_MAX];
    flow_key       k[READS_MAX];
    reads         *x = NULL;
    addition      *a;
    for (a = w->additions; a; a = a->hh.next) {
        if (a->phase != ADD_READ || a->asked || w->now < a->at)
            continue;
        if (!x && !(x = htc_runtime_context(w->runtime, sizeof *x)))
            return;
        k[x->n] = htc__flow_key_task(w->options.flow, a->id);
        q[x->n] = (htc_kv_request){ .size = sizeof q[0], .op = HTC_KV_GET, .key = htc__flow_key_bytes(&k[x->n]) };
        x->ids[x->n++] = a->id;
        a->asked = 1;
        if (x->n == READS_MAX)
            break;
    }
    if (!x)
        return;
    x->behind = w->header_version;
    htc_runtime_ask(w->runtime, q, x->n, was_read, x);
}

/* ---- DRAW ---- */

typedef struct draw {
    uint32_t n;
    uint64_t ids[FLOW_DRAWN_MAX];
    size_t   len;
    uint8_t  bytes[]; /* the header */
} draw;

static void forget_noted(htc_worker *w)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < w->n_noted; i++)
        if (htc__flow_drawn(&w->flow, w->noted[i]))
            w->noted[n++] = w->noted[i];
    w->n_noted = n;
}

static void drawn(void *role, void *ctx, const htc_kv_result *r)
{
    htc_worker *w = role;
    draw       *d = ctx;
    w->ending = 0;
    if (r->status == HTC_OK) {
        htc__worker_header_is(w, (htc_bytes){ d->bytes, d->len }, r->version);
        forget_noted(w);
    } else if (r->status == HTC_MISMATCH && r->version) {
        htc__worker_header_is(w, r->value, r->version);
    }
    for (uint32_t i = 0; i < d->n; i++) {
        addition *a = find(w, d->ids[i]);
        if (!a || a->phase != ADD_DRAW)
            continue;
        a->asked = 0;
        a->at = r->status == HTC_OK || r->status == HTC_MISMATCH ? w->now : w->now + AGAIN_NS;
        if (!htc__flow_drawn(&w->flow, a->id) && !HTC__BROKEN(drawn_unread))
            a->phase = ADD_READ;
    }
    if (htc__worker_collects(w))
        w->collect_at = w->now; /* whether the flow has ended was not looked at meanwhile */
    htc_runtime_context_free(w->runtime, d);
}

/* What stands in the header for others is looked at: one that was noted makes room. */
static void help(htc_worker *w)
{
    uint32_t first = (uint32_t)htc_rng_below(w->env.rng, w->flow.n_drawn);
    for (uint32_t i = 0; i < HELPED_MAX; i++) { /* others help others */
        uint64_t id = w->flow.drawn[(first + i) % w->flow.n_drawn].task;
        if (!find(w, id))
            (void)addition_new(w, id, NOBODYS);
    }
    w->draw_at = w->now + DRAW_AGAIN;
}

static void draw_numbers(htc_worker *w)
{
    draw      d = { .n = 0 };
    flow      f;
    uint64_t  from;
    addition *a;
    if (w->ending || w->now < w->draw_at)
        return;
    f = w->flow;
    for (uint32_t i = 0; i < w->n_noted; i++)
        htc__flow_draw_is_noted(&f, w->noted[i]);
    for (a = w->additions; a && d.n < FLOW_DRAWN_MAX; a = a->hh.next) {
        if (a->phase != ADD_DRAW || a->asked || w->now < a->at || a->ledger == NOBODYS)
            continue;
        if (a->behind != w->header_version && !HTC__BROKEN(drawn_unread)) {
            a->phase = ADD_READ; /* whether it has drawn is to be known behind the version that is changed */
            continue;
        }
        int full = w->flow.n_drawn > 0 && HTC__FAULT(&w->env, draw_header_full);
        if (full || htc__flow_draw_numbers(&f, a->id, a->n, &from) == HTC_EFULL) {
            help(w);
            break;
        }
        if (a->task.adds == GRAPH_ADDS_INTAKE)
            htc__flow_intake_has_drawn(&f, a->id, a->task.added_intake);
        d.ids[d.n++] = a->id;
    }
    if (d.n == 0)
        return;
    flow_key k = htc__flow_key_header(w->options.flow);
    htc__flow_write(&w->buf, &f);
    draw *kept = w->buf.status == HTC_OK ? htc_runtime_context(w->runtime, sizeof *kept + w->buf.len) : NULL;
    if (!kept) {
        (void)htc__worker_written(w, "drawing numbers for tasks that are added");
        return;
    }
    *kept = d;
    kept->len = w->buf.len;
    memcpy(kept->bytes, w->buf.data, w->buf.len);
    for (uint32_t i = 0; i < d.n; i++)
        find(w, d.ids[i])->asked = 1;
    w->ending = 1;
    htc_runtime_ask(w->runtime,
                    &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_CAS_VERSION, .key = htc__flow_key_bytes(&k), .value = htc_buf_bytes(&w->buf),
                                       .version = w->header_version }, 1, drawn, kept);
}

/* ---- NOTE ---- */

/* What its text says. */
static int parsed(htc_worker *w, addition *a)
{
    htc_flow *const *f = &a->records.flow;
    htc_status       status = *f ? HTC_OK : htc__addition_parse(&a->records, &w->env, a->task.added, &w->flow, &a->task, NULL);
    if (status == HTC_OK && (!*f || htc_flow_total(*f) != a->n))
        status = HTC_ECORRUPT;
    if (status != HTC_OK)
        htc_runtime_break(w->runtime, status == HTC_ENOMEM ? status : HTC_ECORRUPT, "adding tasks");
    return status == HTC_OK;
}

static void noted(void *role, void *ctx, const htc_kv_result *r)
{
    htc_worker *w = role;
    addition   *a = find(w, *(uint64_t *)ctx);
    htc_runtime_context_free(w->runtime, ctx);
    if (!a || a->phase != ADD_NOTE || !a->asked)
        return;
    a->asked = 0;
    if (r->status == HTC_OK) {
        note_is_known(w, a, &(graph_task){ .added_from = a->from, .added_home = a->home, .added_cancelled = a->cancelled });
        return;
    }
    a->phase = ADD_READ;
    a->at = r->status == HTC_MISMATCH ? w->now : w->now + AGAIN_NS;
}

static void note(htc_worker *w, addition *a)
{
    graph_task t = a->task;
    flow_key   k = htc__flow_key_task(w->options.flow, a->id);
    htc_buf    children;
    uint64_t  *ctx = parsed(w, a) ? htc_runtime_context(w->runtime, sizeof *ctx) : NULL;
    if (!ctx)
        return;
    *ctx = a->id;
    htc_buf_init(&children, &w->env, 0);
    htc__addition_children(&a->task, a->records.flow, a->from, &children);
    (void)htc__graph_note_added(&t, a->from, a->home, a->cancelled, htc_buf_bytes(&children));
    htc__graph_write(&w->buf, &t);
    if (children.status != HTC_OK)
        w->buf.status = children.status;
    htc_buf_free(&children);
    if (!htc__worker_written(w, "noting what numbers added tasks have"))
        return;
    a->asked = 1;
    htc_runtime_ask(w->runtime,
                    &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC__BROKEN(note_unversioned) ? HTC_KV_PUT : HTC_KV_CAS_VERSION,
                                       .key = htc__flow_key_bytes(&k), .value = htc_buf_bytes(&w->buf), .version = a->version }, 1, noted, ctx);
}

/* ---- CREATE ---- */

typedef struct creating {
    uint64_t id;
    uint32_t good;
} creating;

static void created(void *role, void *ctx, const htc_kv_result *r)
{
    htc_worker *w = role;
    creating   *c = ctx;
    addition   *a = find(w, c->id);
    c->good += r->status == HTC_OK || (r->status == HTC_MISMATCH && r->version); /* it is there: somebody has made it before */
    if (!r->last)
        return;
    uint32_t good = c->good;
    htc_runtime_context_free(w->runtime, c);
    if (!a || a->phase != ADD_CREATE || !a->asked)
        return;
    a->asked = 0;
    if (good != a->asked_for) {
        a->at = w->now + AGAIN_NS;
        return;
    }
    a->created += good;
    if (a->created == a->n) {
        htc__addition_end(&a->records, &w->env);
        a->phase = ADD_COUNT;
        let_count(w, a);
    }
}

/* The next records. Each stands in all, one behind the other. */
static uint32_t next_records(htc_worker *w, addition *a, htc_buf *all, flow_key *k, size_t *at)
{
    uint32_t n = 0;
    while (n < READS_MAX && a->created + n < a->n && all->len < CREATE_BYTES && htc_runtime_status(w->runtime) == HTC_OK) {
        htc_status status = htc__submission_task(&a->records.submission, a->created + n, &k[n], &w->buf);
        at[n] = all->len;
        htc_put_raw(all, htc_buf_bytes(&w->buf));
        status = status != HTC_OK ? status : all->status;
        if (status != HTC_OK)
            htc_runtime_break(w->runtime, status, "adding tasks");
        at[++n] = all->len;
    }
    return n;
}

static void create(htc_worker *w, addition *a)
{
    htc_kv_request q[READS_MAX];
    flow_key       k[READS_MAX];
    size_t         at[READS_MAX + 1];
    htc_buf        all;
    if (!parsed(w, a))
        return;
    htc_status status = a->records.submission.flow ? HTC_OK : htc__addition_begin(&a->records, &w->env, &w->flow, w->options.flow, a->id, &a->task, a->from, NULL);
    creating  *c = status == HTC_OK ? htc_runtime_context(w->runtime, sizeof *c) : NULL;
    if (status != HTC_OK)
        htc_runtime_break(w->runtime, status == HTC_ENOMEM ? status : HTC_ECORRUPT, "adding tasks");
    if (!c)
        return;
    htc_buf_init(&all, &w->env, 0);
    uint32_t n = next_records(w, a, &all, k, at);
    int good = htc_runtime_status(w->runtime) == HTC_OK;
    for (uint32_t i = 0; i < n && good; i++)
        q[i] = (htc_kv_request){ .size = sizeof q[0], .op = HTC_KV_PUT, .flags = HTC_KV_NX, .key = htc__flow_key_bytes(&k[i]),
                                 .value = { all.data + at[i], at[i + 1] - at[i] } };
    *c = (creating){ .id = a->id };
    a->asked = 1;
    a->asked_for = n;
    if (good)
        htc_runtime_ask(w->runtime, q, n, created, c);
    htc_buf_free(&all);
}

/* ---- where they are live ---- */

/* As many as a ledger is home to, with those that are on their way to it. */
static int has_room(const htc_worker *w, const own *o, uint32_t n)
{
    uint64_t        live = htc__ids_count(&o->now.live);
    const addition *a;
    for (a = w->additions; a; a = a->hh.next)
        live += a->home == o->number && a->phase >= ADD_NOTE ? a->n : 0;
    return live + n <= LEDGER_HOME && o->now.n_in < LEDGER_IN_MAX / 2;
}

static int is_member(const htc_worker *w, uint64_t worker)
{
    for (uint32_t i = 0; i < w->n_members; i++)
        if (w->members[i].id == worker)
            return 1;
    return 0;
}

/* Of one that nobody here answers for: the ledger that it waited in itself. Of an intake, one of the worker
 * that was named if that has room. 0: one more of ours is wanted first. */
static int choose_home(htc_worker *w, addition *a)
{
    own *o = htc__worker_own(w, a->ledger);
    a->home = a->ledger == NOBODYS ? a->task.home : a->ledger;
    if (o && a->task.added_to && a->task.added_to != w->id) {
        if (htc__worker_ledger_of(w, a->task.added_to, a->n, &a->home))
            return 1;
        if (!a->sought && is_member(w, a->task.added_to)) { /* it may have one, or room in one, since the ledgers were looked at */
            a->sought = 1;
            htc__worker_survey_soon(w, 0);
            a->at = w->now + AGAIN_NS;
            return 0;
        }
    }
    if (!o || has_room(w, o, a->n))
        return 1;
    EACH_OWN(w, o)
    if (has_room(w, o, a->n)) {
        a->home = o->number;
        return 1;
    }
    w->wants_ledger = 1;
    htc__worker_survey_soon(w, 0);
    a->at = w->now + AGAIN_NS;
    return 0;
}

/* ---- COUNT ---- */

int htc__worker_addition_waits(const htc_worker *w, const node *n)
{
    const addition *a = find(w, n->id);
    return a && a->ledger == n->ledger && a->phase != ADD_COUNT;
}

void htc__worker_addition_counts(const htc_worker *w, const node *n, ended_task *e)
{
    const addition *a = find(w, n->id);
    if (!a || a->ledger != n->ledger)
        return;
    e->added_from = a->from;
    e->added_home = a->home;
    e->n_added = a->n;
}

void htc__worker_added(htc_worker *w, own *o, const ended_task *e)
{
    own *home = htc__worker_own(w, e->added_home);
    w->figures.added += e->n_added;
    if (!e->added_note)
        htc__worker_nodes_add(w, o, (ledger_span){ e->added_from, e->added_from + e->n_added });
    else if (home)
        htc__worker_accept(w, home, o->number, e->added_note, 0, 1);
    else
        o->notes_at = w->now; /* whoever has it is reminded */
}

/* ---- the steps ---- */

static void step_one(htc_worker *w, addition *a)
{
    const flow_drawn *d;
    if (a->asked || w->now < a->at || htc_runtime_status(w->runtime) != HTC_OK)
        return;
    if (a->phase == ADD_DRAW && (d = htc__flow_drawn(&w->flow, a->id))) {
        if (!choose_home(w, a))
            return;
        a->from = d->from;
        a->cancelled = d->cancelled;
        a->phase = ADD_NOTE;
    } else if (a->phase == ADD_DRAW && a->ledger == NOBODYS) {
        addition_free(w, a); /* it has gone from the header: noted, then */
        return;
    }
    if (a->phase == ADD_NOTE)
        note(w, a);
    else if (a->phase == ADD_CREATE)
        create(w, a);
}

void htc__worker_additions(htc_worker *w)
{
    addition *a, *next;
    if (!w->additions)
        return;
    HASH_ITER(hh, w->additions, a, next)
    step_one(w, a);
    draw_numbers(w);
    read_some(w);
}

htc_ns htc__worker_additions_deadline(const htc_worker *w)
{
    htc_ns          at = HTC_NEVER;
    const addition *a;
    for (a = w->additions; a; a = a->hh.next) {
        htc_ns of = a->phase == ADD_DRAW && w->draw_at > a->at ? w->draw_at : a->at;
        if (!a->asked && a->phase != ADD_COUNT && !(a->phase == ADD_DRAW && w->ending) && of < at)
            at = of;
    }
    return at;
}
