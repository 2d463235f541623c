/* What is ready, what runs, what has ended and is not counted yet. A bag is begun lowest number first, so that what is live stays one tail
 * and a span for each running task. */
#include <assert.h>
#include <string.h>

#include "htcsched/work.h"
#include "roles/worker/worker_private.h"

static htc_worker *worker_of(attempt_holder *h)
{
    return (htc_worker *)(void *)h;
}

static running *running_of(attempt *t)
{
    return (running *)(void *)t;
}

uint64_t htc__worker_waiting(const htc_worker *w)
{
    uint64_t   n = 0;
    const own *o;
    EACH_OWN(w, o)
    n += htc__ids_count(&o->ready);
    return n;
}

running *htc__worker_run(htc_worker *w, uint64_t run)
{
    running *x;
    DL_FOREACH(w->runs, x)
    if (x->attempt.run == run)
        return x;
    return NULL;
}

uint32_t htc__worker_idle(const htc_worker *w)
{
    return w->options.slots > w->n_runs ? w->options.slots - w->n_runs : 0;
}

static void forget(htc_worker *w, running *x, int drop)
{
    htc__attempt_free(&w->holder, &x->attempt, drop);
    DL_DELETE(w->runs, x);
    w->n_runs -= x->over ? 0 : x->slots;
    htc__free(&w->env, x, sizeof *x);
}

void htc__worker_forget_run(htc_worker *w, running *x, int drop)
{
    forget(w, x, drop);
}

void htc__worker_tasks_free(htc_worker *w)
{
    while (w->runs)
        forget(w, w->runs, 0);
}

static void take_out(ledger_ids *s, uint64_t id)
{
    if (htc__ids_has(s, (ledger_span){ id, id + 1 }))
        (void)htc__ids_remove(s, (ledger_span){ id, id + 1 }); /* without room it stays: then it is run twice, and counted once */
}

void htc__worker_untouched(const htc_worker *w, const own *o, ledger_ids *ids)
{
    const running *x;
    *ids = o->now.live;
    DL_FOREACH(w->runs, x)
    if (x->ledger == o->number)
        take_out(ids, x->id);
    for (uint32_t i = 0; i < o->n_ended; i++)
        take_out(ids, o->ended[i].id);
}

void htc__worker_ready_anew(htc_worker *w, own *o)
{
    htc__worker_untouched(w, o, &o->ready);
}

/* Of those that have ended some may be counted already, or be somebody else's now: they are not live. */
void htc__worker_forget_counted(own *o)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < o->n_ended; i++)
        if (htc__ids_has(&o->now.live, (ledger_span){ o->ended[i].id, o->ended[i].id + 1 }))
            o->ended[n++] = o->ended[i];
    o->n_ended = n;
    o->ended_sent = 0;
}

void htc__worker_drop_runs(htc_worker *w, uint64_t number)
{
    running *x, *next;
    DL_FOREACH_SAFE(w->runs, x, next)
    if (x->ledger == number && !x->over)
        htc__attempt_order(&w->holder, &x->attempt, ORDER_REVOKE);
    else if (x->ledger == number)
        forget(w, x, 0); /* END may still be stored: then what it has stored is the result */
}

void htc__worker_order(htc_worker *w, uint64_t number, uint64_t id, attempt_order order)
{
    running *x, *next;
    DL_FOREACH_SAFE(w->runs, x, next)
    if (x->ledger == number && x->id == id && !x->over)
        htc__attempt_order(&w->holder, &x->attempt, order);
}

/* ---- how an attempt ends ---- */

/* A task of a bag that has failed is tried again as often as the flow says. What is noted of that is a hint: when it is lost it is tried more
 * often. */
static int try_again(htc_worker *w, own *o, const running *x)
{
    uint64_t failures = htc__ledger_failures(&o->now, x->id) + 1;
    for (uint32_t i = 0; i < o->n_again; i++)
        failures += o->again[i] == x->id;
    if (failures >= w->flow.tries || x->attempt.outcome.final || o->n_again == SLOTS_MAX || htc__ids_add(&o->ready, (ledger_span){ x->id, x->id + 1 }) != HTC_OK)
        return 0;
    o->again[o->n_again++] = x->id;
    return 1;
}

static void ended(attempt_holder *h, attempt *t)
{
    htc_worker *w = worker_of(h);
    running     *x = running_of(t);
    own         *o = htc__worker_own(w, x->ledger);
    node        *n = w->flow.kind == FLOW_GRAPH ? htc__worker_node(w, x->id) : NULL;
    int          good = t->outcome.status == HTC_OK;
    w->figures.run++;
    if (o && n && n->run == t->run) {
        x->over = 1;
        w->n_runs -= x->slots;
        htc__worker_node_ended(w, n);
        return;
    }
    if (!o || w->flow.kind == FLOW_GRAPH) {
        forget(w, x, 1); /* it is somebody else's now */
        return;
    }
    int again = !good && t->outcome.status != HTC_ECANCELLED && try_again(w, o, x);
    if (!again && o->n_ended < ENDED_MAX)
        o->ended[o->n_ended++] = (ended_task){ x->id, good ? GRAPH_DONE : t->outcome.status == HTC_ECANCELLED ? GRAPH_CANCELLED : GRAPH_FAILED };
    forget(w, x, again);
}

static void give_up(htc_worker *w, running *x)
{
    own     *o = htc__worker_own(w, x->ledger);
    node    *n = w->flow.kind == FLOW_GRAPH ? htc__worker_node(w, x->id) : NULL;
    uint64_t id = x->id, run = x->attempt.run;
    forget(w, x, 1);
    if (!o || !htc__ids_has(&o->now.live, (ledger_span){ id, id + 1 }))
        return;
    if (n && n->run == run) {
        n->phase = NODE_WAITING;
        n->run = 0;
        htc__worker_node_news(w, n); /* what it is now is read anew */
    } else if (w->flow.kind == FLOW_BAG) {
        (void)htc__ids_add(&o->ready, (ledger_span){ id, id + 1 });
    }
}

static void returned(attempt_holder *h, attempt *t)
{
    give_up(worker_of(h), running_of(t));
}

static void dropped(attempt_holder *h, attempt *t)
{
    give_up(worker_of(h), running_of(t));
}

static void node_failed(attempt_holder *h, htc_status status, const char *reason)
{
    htc_worker *w = worker_of(h);
    htc__log_with(&w->env, HTC_LOG_WARN, HTC__FIELDS(HTC__STATUS(status)), "%s -> this worker ends", reason);
    htc__worker_stop(w, status);
}

const attempt_holder_ops htc__worker_holder = { ended, returned, dropped, node_failed, NULL };

/* ---- the beginning ---- */

static htc_status task_bytes(htc_worker *w, htc_bytes from, uint64_t id, htc_bytes *bytes)
{
    htc_task  *t = NULL;
    htc_status status = htc_task_from_bytes(&w->env, from, &t);
    if (status != HTC_OK)
        return status == HTC_ENOMEM ? status : HTC_ECORRUPT;
    htc_task copy = *t;
    copy.index = id;
    status = htc_task_to_bytes(&w->env, &copy, bytes);
    htc_task_destroy(t);
    return status;
}

/* Unique in this life of this worker; other lives have another epoch. */
static uint32_t attempt_number(const htc_worker *w)
{
    return (uint32_t)(w->epoch << 16 | ((w->last_run + 1) & 0xffff));
}

static void begin(htc_worker *w, own *o, uint64_t id, node *n)
{
    htc_granted g = { .attempt = { w->flow.job ? w->flow.job : w->options.flow, id, attempt_number(w) }, .count = w->flow.tasks };
    running    *x = htc__alloc(&w->env, sizeof *x);
    htc_status  status = x ? task_bytes(w, n && n->task.task.len ? n->task.task : w->flow.task, id, &g.task) : HTC_ENOMEM;
    memcpy(g.user, w->flow.user, sizeof g.user);
    if (status == HTC_OK) {
        status = htc__attempt_init(&w->holder, &x->attempt, &g, w->last_run + 1);
        htc_work_free(&w->env, g.task);
    }
    if (status != HTC_OK) {
        htc__free(&w->env, x, sizeof *x);
        htc_runtime_break(w->runtime, status, "beginning a task");
        return;
    }
    w->last_run++;
    x->ledger = o->number;
    x->id = id;
    if (n) {
        n->phase = NODE_RUNNING;
        n->run = w->last_run;
        n->failures = n->task.failures;
    }
    DL_APPEND(w->runs, x);
    x->slots = 1;
    w->n_runs++;
    htc__attempt_read(&w->holder, &x->attempt);
    x = htc__worker_run(w, w->last_run); /* one that cannot be read has ended */
    if (!x)
        return;
    w->n_runs += x->attempt.cores - x->slots; /* one that asks for more than there are takes all, beside what runs */
    x->slots = x->attempt.cores;
    if (x->attempt.phase == ATTEMPT_WAITING)
        htc__attempt_begin(&w->holder, &x->attempt, 0);
}

/* What a ledger can still note: of a bag also how scattered its tasks are. */
static int can_begin(const htc_worker *w, const own *o)
{
    return w->n_runs < w->options.slots && o->ready.n && o->n_ended + w->n_runs < ENDED_MAX &&
           (w->flow.kind == FLOW_GRAPH || o->ready.n + w->n_runs < LEDGER_LIVE_MAX / 2);
}

void htc__worker_begin(htc_worker *w)
{
    own *o;
    EACH_OWN(w, o)
    while (can_begin(w, o) && htc_runtime_status(w->runtime) == HTC_OK) {
        uint64_t id = o->ready.at[0].from;
        node    *n = w->flow.kind == FLOW_GRAPH ? htc__worker_node(w, id) : NULL;
        if (htc__ids_remove(&o->ready, (ledger_span){ id, id + 1 }) != HTC_OK)
            break;
        if (w->flow.kind == FLOW_BAG && htc__flow_is_marked(&w->flow, id))
            o->marked = 1;
        else if (w->flow.kind == FLOW_BAG || (n && n->phase == NODE_READY))
            begin(w, o, id, n);
    }
}
