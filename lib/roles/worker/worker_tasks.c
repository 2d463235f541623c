/* What is ready, what runs, what has ended and is not counted yet. A bag is begun lowest number first, so that what is live stays one tail
 * and a span for each running task. */
#include <assert.h>
#include <string.h>

#include "htcsched/work.h"
#include "roles/worker/worker_private.h"

#define EQUAL_MAX  1024

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

running *htc__worker_run(const htc_worker *w, uint64_t run)
{
    running *x;
    HASH_FIND(hh, w->by_run, &run, sizeof run, x);
    return x;
}

int htc__worker_add_run(htc_worker *w, running *x)
{
    HASH_ADD(hh, w->by_run, attempt.run, sizeof x->attempt.run, x);
    if (!x->hh.tbl) {
        htc_runtime_break(w->runtime, HTC_ENOMEM, "noting a run");
        return 0;
    }
    if (x->over)
        DL_APPEND(w->over_runs, x);
    else
        DL_APPEND(w->runs, x);
    return 1;
}

/* END is asked for: it holds no slot, and no time runs for it. */
void htc__worker_run_over(htc_worker *w, running *x)
{
    DL_DELETE(w->runs, x);
    DL_APPEND(w->over_runs, x);
    w->n_runs -= x->slots;
    x->over = 1;
}

uint32_t htc__worker_idle(const htc_worker *w)
{
    return w->options.slots > w->n_runs ? w->options.slots - w->n_runs : 0;
}

static void forget(htc_worker *w, running *x, int drop)
{
    htc__worker_data_free(w, x);
    htc__attempt_free(&w->holder, &x->attempt, drop);
    if (x->over)
        DL_DELETE(w->over_runs, x);
    else
        DL_DELETE(w->runs, x);
    HASH_DEL(w->by_run, x);
    w->n_runs -= x->over ? 0 : x->slots;
    htc__free(&w->env, x->added, x->added_len);
    htc__free(&w->env, x->answer, x->answer_len);
    htc__free(&w->env, x, sizeof *x);
}

void htc__worker_forget_run(htc_worker *w, running *x, int drop)
{
    forget(w, x, drop);
}

int htc__worker_quiet(const htc_worker *w)
{
    return !w->runs && !w->over_runs && !w->ends;
}

void htc__worker_tasks_free(htc_worker *w)
{
    while (w->runs)
        forget(w, w->runs, 0);
    while (w->over_runs)
        forget(w, w->over_runs, 0);
}

/* What of it is in there; without room it stays: then it is run twice, and counted once. */
static void take_out(ledger_ids *s, uint64_t from, uint64_t to)
{
    for (uint32_t i = 0; i < s->n && s->at[i].from < to;) {
        ledger_span x = { s->at[i].from > from ? s->at[i].from : from, s->at[i].to < to ? s->at[i].to : to };
        uint32_t    before = s->n;
        if (x.from >= x.to || htc__ids_remove(s, x) != HTC_OK || s->n >= before)
            i++; /* else the next one has its place */
    }
}

void htc__worker_untouched(const htc_worker *w, const own *o, ledger_ids *ids)
{
    const running *x;
    *ids = o->now.live;
    DL_FOREACH(w->runs, x)
    if (x->ledger == o->number)
        take_out(ids, x->id, x->to);
    for (uint32_t i = 0; i < o->n_ended; i++)
        take_out(ids, o->ended[i].id, o->ended[i].to);
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
        if (htc__ids_has(&o->now.live, (ledger_span){ o->ended[i].id, o->ended[i].to }))
            o->ended[n++] = o->ended[i];
    o->n_ended = n;
    o->ended_sent = 0;
}

void htc__worker_drop_runs(htc_worker *w, uint64_t number)
{
    running *x, *next;
    DL_FOREACH_SAFE(w->runs, x, next)
    if (x->ledger == number && x->function)
        htc__worker_function_order(w, x, ORDER_REVOKE);
    else if (x->ledger == number)
        htc__attempt_order(&w->holder, &x->attempt, ORDER_REVOKE);
    DL_FOREACH_SAFE(w->over_runs, x, next)
    if (x->ledger == number)
        forget(w, x, 0); /* END may still be stored: then what it has stored is the result */
}

void htc__worker_order(htc_worker *w, uint64_t number, uint64_t id, attempt_order order)
{
    running *x, *next;
    DL_FOREACH_SAFE(w->runs, x, next)
    if (x->ledger == number && x->id == id && x->function) {
        if (x->to == x->id + 1) /* of several the others go on, and what becomes of this one is nobody's affair */
            htc__worker_function_order(w, x, order);
    } else if (x->ledger == number && x->id == id)
        htc__attempt_order(&w->holder, &x->attempt, order);
}

/* ---- how an attempt ends ---- */

/* To be counted. Without room it is run again when the ledger is looked at, and counted then. */
void htc__worker_ended(own *o, const ended_task *e)
{
    if (o->n_ended < ENDED_MAX)
        o->ended[o->n_ended++] = *e;
    else
        o->unsure = 1;
}

/* A task of a bag that has failed is tried again as often as the flow says. What is noted of that is a hint: when it is lost it is tried more
 * often. */
static int try_again(htc_worker *w, own *o, const running *x)
{
    uint64_t failures = htc__ledger_failures(&o->now, x->id) + 1;
    for (uint32_t i = 0; i < o->n_again; i++)
        failures += o->again[i] == x->id;
    if (failures >= w->flow.tries || x->attempt.outcome.final || htc__ids_add(&o->ready, (ledger_span){ x->id, x->id + 1 }) != HTC_OK)
        return 0;
    if (o->n_again < SLOTS_MAX)
        o->again[o->n_again++] = x->id;
    return 1;
}

void htc__worker_run_kept(htc_worker *w, running *x)
{
    node *n = htc__worker_node(w, x->id);
    if (x->attempt.outcome.status != HTC_OK || !htc__worker_data_keep(w, x, &n->task))
        htc__worker_node_ended(w, n);
}

static void ended(attempt_holder *h, attempt *t)
{
    htc_worker *w = worker_of(h);
    running     *x = running_of(t);
    own         *o = htc__worker_own(w, x->ledger);
    node        *n = w->flow.kind == FLOW_GRAPH ? htc__worker_node(w, x->id) : NULL;
    int          good = t->outcome.status == HTC_OK;
    w->figures.run++;
    w->lasts = htc__attempt_lately(w->lasts, &t->outcome);
    if (x->remake) {
        htc__worker_remake_ended(w, x);
        return;
    }
    if (o && n && n->run == t->run) {
        uint64_t needed, moved;
        htc__worker_data_read(x, &needed, &moved);
        htc__worker_place_learn(w, &n->task, &t->outcome, needed, moved);
        htc__worker_run_over(w, x);
        if (!good || !htc__worker_addition_text(w, x, &n->task))
            htc__worker_run_kept(w, x);
        return;
    }
    if (!o || w->flow.kind == FLOW_GRAPH) {
        forget(w, x, 1); /* it is somebody else's now */
        return;
    }
    int again = !good && t->outcome.status != HTC_ECANCELLED && try_again(w, o, x);
    if (!again)
        htc__worker_ended(o, &(ended_task){ .id = x->id, .to = x->to, .how = good ? GRAPH_DONE : t->outcome.status == HTC_ECANCELLED ? GRAPH_CANCELLED : GRAPH_FAILED,
                                            .signal = (uint8_t)t->outcome.signal, .exit_code = (uint16_t)t->outcome.exit_code, .status = t->outcome.status,
                                            .attempt = t->id.attempt, .began = t->outcome.started, .ended = t->outcome.ended });
    forget(w, x, again);
}

void htc__worker_give_up(htc_worker *w, running *x)
{
    if (x->remake)
        htc__worker_remake_not_run(w, x);
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
    worker_of(h)->lasts = ATTEMPT_AHEAD_SPAN + 1; /* what runs is longer than was thought */
    htc__worker_give_up(worker_of(h), running_of(t));
}

static void dropped(attempt_holder *h, attempt *t)
{
    htc__worker_give_up(worker_of(h), running_of(t));
}

static void node_failed(attempt_holder *h, htc_status status, const char *reason)
{
    htc_worker *w = worker_of(h);
    htc__log_with(&w->env, HTC_LOG_WARN, HTC__FIELDS(HTC__STATUS(status)), "%s -> this worker ends", reason);
    htc__worker_stop(w, status);
}

const attempt_holder_ops htc__worker_holder = { ended, returned, dropped, node_failed, NULL };

/* ---- the beginning ---- */

/* With its number, and what it is. */
static htc_status task_bytes(htc_worker *w, htc_bytes from, uint64_t id, htc_bytes *bytes, uint32_t *kind)
{
    htc_task  *t = NULL;
    htc_status status = htc_task_from_bytes(&w->env, from, &t);
    if (status != HTC_OK)
        return status == HTC_ENOMEM ? status : HTC_ECORRUPT;
    htc_task copy = *t;
    copy.index = htc__flow_shown(&w->flow, id);
    *kind = t->kind;
    status = htc_task_to_bytes(&w->env, &copy, bytes);
    htc_task_destroy(t);
    return status;
}

/* Unique in this life of this worker; other lives have another epoch. */
static uint32_t attempt_number(const htc_worker *w)
{
    return (uint32_t)(w->epoch << 16 | ((w->last_run + 1) & 0xffff));
}

static htc_status note_begun(htc_worker *w, uint64_t number, running *x, uint64_t id, uint64_t to, int graph)
{
    if (!htc__worker_add_run(w, x))
        return HTC_ENOMEM;
    w->last_run++;
    x->ledger = number;
    x->id = id;
    x->to = to;
    x->begun = w->now;
    for (uint64_t i = id; graph && i < to; i++) {
        node *n = htc__worker_node(w, i);
        htc__worker_place_left(w, n);
        n->phase = NODE_RUNNING;
        n->run = w->last_run;
        n->failures = n->task.failures;
    }
    x->slots = 1;
    w->n_runs++;
    return HTC_OK;
}

static htc_status begin_function(htc_worker *w, uint64_t number, running *x, const htc_granted *g, uint64_t to, int graph)
{
    x->function = 1;
    x->attempt = (attempt){ .id = g->attempt, .run = w->last_run + 1, .phase = ATTEMPT_ENDED, .wall_at = HTC_NEVER, .kill_at = HTC_NEVER, .retry_at = HTC_NEVER,
                            .back_at = HTC_NEVER, .signal_at = HTC_NEVER };
    htc_status status = htc__worker_call_function(w, x, g->task);
    return status == HTC_OK ? note_begun(w, number, x, g->attempt.task, to, graph) : status;
}

/* n, r: whose task it is; of a bag neither. */
static htc_status begin_command(htc_worker *w, uint64_t number, running *x, const htc_granted *g, node *n, remake *r)
{
    htc_status status = htc__attempt_init(&w->holder, &x->attempt, g, w->last_run + 1);
    if (status != HTC_OK)
        return status;
    status = note_begun(w, number, x, g->attempt.task, g->attempt.task + 1, n != NULL);
    if (status != HTC_OK) {
        htc__attempt_free(&w->holder, &x->attempt, 1);
        return status;
    }
    if (r) {
        x->remake = 1;
        r->run = w->last_run;
        r->phase = REMAKE_RUNNING;
    }
    htc__attempt_read(&w->holder, &x->attempt);
    if (w->holder.failed != HTC_OK) /* this step is the last one */
        return HTC_OK;
    x = htc__worker_run(w, w->last_run); /* one that cannot be read has ended */
    if (!x)
        return HTC_OK;
    w->n_runs += x->attempt.cores - x->slots; /* one that asks for more than there are takes all, beside what runs */
    x->slots = x->attempt.cores;
    if (x->attempt.phase != ATTEMPT_WAITING)
        return HTC_OK;
    const graph_task *t = n ? &n->task : r ? &r->task : NULL;
    if (n && n->hopeless) {
        n->hopeless = 0;
        htc__attempt_refuse(&w->holder, &x->attempt, HTC_EINPUT, 1, "what it reads of task %llu was lost, and could not be made again", (unsigned long long)n->lacks);
    } else if (t && t->reads.len)
        htc__worker_data_begin(w, x, t);
    else
        htc__attempt_begin(&w->holder, &x->attempt, w->n_runs > w->options.slots);
    return HTC_OK;
}

/* Of a graph: so many ready ones from this one on are the same, but for their numbers. */
static uint64_t equal_nodes(const htc_worker *w, const node *first, uint64_t ready)
{
    uint64_t n = 1;
    for (; n < ready && n < EQUAL_MAX; n++) {
        const node *x = htc__worker_node(w, first->id + n);
        if (!x || x->phase != NODE_READY || !htc_bytes_equal(x->task.task, first->task.task))
            break;
    }
    return n;
}

/* Tasks from id; how many is said, and of functions may be several. */
static uint64_t begin(htc_worker *w, const own *o, uint64_t id, uint64_t ready, node *n)
{
    htc_granted g = { .attempt = { w->flow.job ? w->flow.job : w->options.flow, id, attempt_number(w) }, .count = w->flow.tasks - w->flow.added };
    running    *x = htc__alloc(&w->env, sizeof *x);
    uint32_t    kind = HTC_TASK_COMMAND;
    htc_status  status = x ? task_bytes(w, n && n->task.task.len ? n->task.task : w->flow.task, id, &g.task, &kind) : HTC_ENOMEM;
    uint64_t    n_tasks = htc__worker_span(w, kind, n ? equal_nodes(w, n, ready) : ready);
    memcpy(g.user, w->flow.user[0] ? w->flow.user : w->user, sizeof g.user);
    if (status == HTC_OK) {
        if (kind != HTC_TASK_COMMAND) {
            x->to = id + n_tasks;
            x->id = id;
            status = begin_function(w, o->number, x, &g, id + n_tasks, n != NULL);
        } else {
            status = begin_command(w, o->number, x, &g, n, NULL);
        }
        htc_work_free(&w->env, g.task);
    }
    if (status != HTC_OK) {
        htc__free(&w->env, x, sizeof *x);
        htc_runtime_break(w->runtime, status, "beginning a task");
    }
    return n_tasks;
}

void htc__worker_begin_remake(htc_worker *w, remake *r)
{
    htc_granted g = { .attempt = { w->flow.job ? w->flow.job : w->options.flow, r->id, attempt_number(w) }, .count = w->flow.tasks - w->flow.added };
    running    *x = htc__alloc(&w->env, sizeof *x);
    uint32_t    kind = HTC_TASK_COMMAND;
    htc_status  status = x ? task_bytes(w, r->task.task.len ? r->task.task : w->flow.task, r->id, &g.task, &kind) : HTC_ENOMEM;
    memcpy(g.user, w->flow.user[0] ? w->flow.user : w->user, sizeof g.user);
    if (status == HTC_OK) {
        status = kind == HTC_TASK_COMMAND ? begin_command(w, UINT64_MAX, x, &g, NULL, r) : HTC_ECORRUPT;
        htc_work_free(&w->env, g.task);
    }
    if (status != HTC_OK) {
        htc__free(&w->env, x, sizeof *x);
        htc_runtime_break(w->runtime, status, "beginning a task");
    }
}

static uint32_t most_at_once(const htc_worker *w)
{
    return w->ahead ? htc__attempt_most(w->lasts, w->options.slots) : w->options.slots;
}

/* What a ledger can still note: of a bag also how scattered its tasks are. */
static int can_begin(const htc_worker *w, const own *o)
{
    return w->n_runs < most_at_once(w) && o->ready.n && htc__worker_can_call(w) && o->n_ended + o->n_additions + w->n_runs < ENDED_FULL &&
           (w->flow.kind == FLOW_GRAPH || o->ready.n + w->n_runs < LEDGER_LIVE_MAX / 2);
}

/* In the order of the queues. */
static void begin_by_place(htc_worker *w)
{
    node *n;
    htc__worker_move_excess(w); /* also where every slot is busy: thieves wait for it */
    while (w->n_runs < most_at_once(w) && htc__worker_can_call(w) && htc_runtime_status(w->runtime) == HTC_OK && (n = htc__worker_next_node(w))) {
        own     *o = n->of;
        uint64_t id = n->id;
        if (o->n_ended + o->n_additions + w->n_runs >= ENDED_FULL)
            return;
        (void)begin(w, o, id, 1, n);
        if (htc__ids_has(&o->ready, (ledger_span){ id, id + 1 }))
            (void)htc__ids_remove(&o->ready, (ledger_span){ id, id + 1 });
    }
}

void htc__worker_begin(htc_worker *w)
{
    own *o;
    htc__worker_answers(w);
    if (w->places) {
        begin_by_place(w);
        return;
    }
    EACH_OWN(w, o)
    while (can_begin(w, o) && htc_runtime_status(w->runtime) == HTC_OK) {
        ledger_span first = o->ready.at[0];
        uint64_t    id = first.from, begun = 1;
        node       *n = w->flow.kind == FLOW_GRAPH ? htc__worker_node(w, id) : NULL;
        if (w->flow.kind == FLOW_BAG && htc__flow_is_marked(&w->flow, id))
            o->marked = 1;
        else if (w->flow.kind == FLOW_BAG || (n && n->phase == NODE_READY))
            begun = begin(w, o, id, first.to - first.from, n);
        if (htc__ids_remove(&o->ready, (ledger_span){ id, id + begun }) != HTC_OK)
            break;
    }
}
