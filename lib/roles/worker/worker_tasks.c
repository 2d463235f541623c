/* What is ready, what runs, what has ended and is not counted yet. A bag is begun lowest number first, so that what is live stays one tail
 * and a span for each running task. */
#include <assert.h>
#include <string.h>

#include "htcsched/work.h"
#include "roles/worker/worker_private.h"

static htc__worker *worker_of(attempt_holder *h)
{
    return (htc__worker *)(void *)h;
}

static running *running_of(attempt *t)
{
    return (running *)(void *)t;
}

uint64_t htc__worker_waiting(const htc__worker *w)
{
    uint64_t   n = 0;
    const own *o;
    DL_FOREACH2(w->owns, o, next_own)
    n += htc__ids_count(&o->ready);
    return n;
}

uint32_t htc__worker_idle(const htc__worker *w)
{
    return w->options.slots > w->n_runs ? w->options.slots - w->n_runs : 0;
}

static void forget(htc__worker *w, running *x, int drop)
{
    htc__attempt_free(&w->holder, &x->attempt, drop);
    DL_DELETE(w->runs, x);
    w->n_runs--;
    htc__free(&w->env, x, sizeof *x);
}

void htc__worker_tasks_free(htc__worker *w)
{
    while (w->runs)
        forget(w, w->runs, 0);
}

static void take_out(ledger_ids *s, uint64_t id)
{
    if (htc__ids_has(s, (ledger_span){ id, id + 1 }))
        (void)htc__ids_remove(s, (ledger_span){ id, id + 1 }); /* without room it stays: then it is run twice, and counted once */
}

void htc__worker_ready_anew(htc__worker *w, own *o)
{
    const running *x;
    o->ready = o->now.live;
    DL_FOREACH(w->runs, x)
    if (x->ledger == o->number)
        take_out(&o->ready, x->id);
    for (uint32_t i = 0; i < o->n_ended; i++)
        take_out(&o->ready, o->ended[i].id);
}

/* Of those that have ended some may be counted already, or be somebody else's now: they are not live. */
static void forget_counted(own *o)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < o->n_ended; i++)
        if (htc__ids_has(&o->now.live, (ledger_span){ o->ended[i].id, o->ended[i].id + 1 }))
            o->ended[n++] = o->ended[i];
    o->n_ended = n;
    o->ended_sent = 0;
}

void htc__worker_counted(htc__worker *w, own *o)
{
    (void)w;
    forget_counted(o);
}

static void drop_run(htc__worker *w, running *x)
{
    htc__attempt_order(&w->holder, &x->attempt, ORDER_REVOKE);
}

void htc__worker_drop_runs(htc__worker *w, uint64_t number)
{
    running *x, *next;
    DL_FOREACH_SAFE(w->runs, x, next)
    if (x->ledger == number)
        drop_run(w, x);
}

/* ---- how an attempt ends ---- */

static void ended(attempt_holder *h, attempt *t)
{
    htc__worker *w = worker_of(h);
    running     *x = running_of(t);
    own         *o = htc__worker_own(w, x->ledger);
    w->figures.run++;
    if (o && o->n_ended < ENDED_MAX)
        o->ended[o->n_ended++] = (ended_task){ x->id, t->outcome.status != HTC_OK };
    forget(w, x, o == NULL);
}

static void returned(attempt_holder *h, attempt *t)
{
    htc__worker *w = worker_of(h);
    running     *x = running_of(t);
    own         *o = htc__worker_own(w, x->ledger);
    uint64_t     id = x->id;
    forget(w, x, 1);
    if (o && htc__ids_has(&o->now.live, (ledger_span){ id, id + 1 }))
        (void)htc__ids_add(&o->ready, (ledger_span){ id, id + 1 });
}

static void dropped(attempt_holder *h, attempt *t)
{
    forget(worker_of(h), running_of(t), 1);
}

static void node_failed(attempt_holder *h, htc_status status, const char *reason)
{
    htc__worker *w = worker_of(h);
    htc__log_with(&w->env, HTC_LOG_WARN, HTC__FIELDS(HTC__STATUS(status)), "%s -> this worker ends", reason);
    htc__worker_stop(w, status);
}

const attempt_holder_ops htc__worker_holder = { ended, returned, dropped, node_failed };

/* ---- the beginning ---- */

static htc_status task_bytes(htc__worker *w, uint64_t id, htc_bytes *bytes)
{
    htc_task  *t = NULL;
    htc_status status = htc_task_from_bytes(&w->env, w->flow.task, &t);
    if (status != HTC_OK)
        return status;
    htc_task copy = *t;
    copy.index = id;
    status = htc_task_to_bytes(&w->env, &copy, bytes);
    htc_task_destroy(t);
    return status;
}

static void begin(htc__worker *w, own *o, uint64_t id)
{
    htc_granted g = { .attempt = { w->options.flow, id, (uint32_t)(w->epoch << 16 | ((w->last_run + 1) & 0xffff)) }, .count = w->flow.tasks };
    running    *x = htc__alloc(&w->env, sizeof *x);
    htc_status  status = x ? task_bytes(w, id, &g.task) : HTC_ENOMEM;
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
    DL_APPEND(w->runs, x);
    w->n_runs++;
    htc__attempt_read(&w->holder, &x->attempt);
    const running *there;
    DL_SEARCH_SCALAR(w->runs, there, attempt.run, w->last_run); /* one that cannot be read has ended */
    if (there && x->attempt.phase == ATTEMPT_WAITING)
        htc__attempt_begin(&w->holder, &x->attempt, 0);
}

void htc__worker_begin(htc__worker *w)
{
    own *o;
    DL_FOREACH2(w->owns, o, next_own)
    while (w->n_runs < w->options.slots && o->ready.n && o->n_ended + w->n_runs < ENDED_MAX && o->ready.n + w->n_runs < LEDGER_LIVE_MAX / 2) {
        uint64_t id = o->ready.at[0].from;
        if (htc__ids_remove(&o->ready, (ledger_span){ id, id + 1 }) != HTC_OK)
            break;
        begin(w, o, id);
    }
}
