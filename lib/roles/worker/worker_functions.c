/* Function tasks: the host calls them in processes that live on, many in one call (HTC_CALL_RUN_SPAN). There are as many calls at a time as
 * slots. Each is for as many tasks as take some 20 ms, so that asking costs nothing beside them, and what is asked for is not missed by thieves for
 * long: of a graph, ready ones with numbers in a row that are the same but for these. */
#include <string.h>

#include "htcsched/work.h"
#include "roles/runtime/span_wire.h"
#include "roles/worker/worker_private.h"

#define CALLS_MAX  48 /* at a time: a host takes 64 */
#define SPAN_MAX   (UINT64_C(1) << 20)
#define SPAN_SHORT (10 * HTC_MS)
#define SPAN_LONG  (40 * HTC_MS)

uint64_t htc__worker_span(const htc_worker *w, uint32_t kind, uint64_t ready)
{
    uint64_t least = (w->options.slots + CALLS_MAX - 1) / CALLS_MAX, n = w->span > least ? w->span : least;
    if (kind == HTC_TASK_COMMAND)
        return 1;
    return n < ready ? n : ready;
}

static void learn(htc_worker *w, const running *x)
{
    uint64_t n = x->to - x->id;
    htc_ns   took = w->now - x->begun;
    if (n < w->span / 2)
        return; /* what was left says little */
    if (took < SPAN_SHORT && n * 4 <= SPAN_MAX)
        w->span = took < SPAN_SHORT / 4 ? n * 4 : n * 2;
    else if (took > SPAN_LONG)
        w->span = n / 2 ? n / 2 : 1;
}

int htc__worker_can_call(const htc_worker *w)
{
    const running *x;
    uint32_t       n = 0;
    DL_FOREACH(w->runs, x)
    n += x->function;
    return n < CALLS_MAX;
}

htc_status htc__worker_call_function(htc_worker *w, running *x, htc_bytes task)
{
    htc__span_request r = { .run = x->attempt.run, .from = x->id, .to = x->to, .task = task };
    memcpy(r.user, w->flow.user[0] ? w->flow.user : w->user, sizeof r.user); /* whose uploads its objects are */
    htc_buf_clear(&w->holder.buf);
    htc__span_request_write(&w->holder.buf, &r);
    if (w->holder.buf.status != HTC_OK)
        return w->holder.buf.status;
    return htc_output_add(w->holder.out, &(htc_effect){ .kind = HTC_OUT_CALL, .op = HTC_CALL_RUN_SPAN, .tag = x->attempt.run, .body = htc_buf_bytes(&w->holder.buf) });
}

static void ask(htc_worker *w, const running *x, uint32_t op, uint32_t signal, htc_status why)
{
    htc_buf_clear(&w->holder.buf);
    htc_put_u64(&w->holder.buf, x->attempt.run);
    if (op == HTC_CALL_SIGNAL) {
        htc_put_u32(&w->holder.buf, signal);
        htc_put_u32(&w->holder.buf, (uint32_t)why);
    }
    htc_status status = htc_output_add(w->holder.out, &(htc_effect){ .kind = HTC_OUT_CALL, .op = op, .tag = x->attempt.run, .body = htc_buf_bytes(&w->holder.buf) });
    if (status != HTC_OK)
        w->holder.failed = status;
}

void htc__worker_function_order(htc_worker *w, running *x, attempt_order order)
{
    if (x->answer) { /* it is over */
        if (order == ORDER_REVOKE)
            htc__worker_forget_run(w, x, 1);
        return;
    }
    switch (order) {
    case ORDER_REVOKE:
        x->dropped = 1;
        ask(w, x, HTC_CALL_SIGNAL, 9, HTC_EKILLED);
        break;
    case ORDER_STOP: ask(w, x, HTC_CALL_SIGNAL, 9, HTC_EKILLED); break;
    case ORDER_CANCEL: ask(w, x, HTC_CALL_SIGNAL, 15, HTC_ECANCELLED); break;
    case ORDER_DRAIN: ask(w, x, HTC_CALL_TAKE_BACK, 0, HTC_OK); break;
    default: break;
    }
}

/* ---- the answer ---- */

/* One task of a graph. END may be asked for again and again. */
static void node_outcome(htc_worker *w, const running *of, node *n, const htc__span_answer *a, htc_status status, const char *reason)
{
    function_end *e = htc__worker_function_end(w, of, status, reason, a->begin, a->end);
    if (e)
        htc__worker_function_ended(w, n, e);
}

static void node_not_run(htc_worker *w, node *n)
{
    n->phase = NODE_WAITING;
    n->run = 0;
    htc__worker_node_news(w, n); /* what it is now is read anew */
}

static node *node_of(const htc_worker *w, const running *x, uint64_t id)
{
    node *n = id >= x->id && id < x->to ? htc__worker_node(w, id) : NULL;
    return n && n->run == x->attempt.run && n->phase == NODE_RUNNING ? n : NULL;
}

static void graph_answer(htc_worker *w, running *x, const htc__span_answer *a)
{
    node      *n;
    htc_reader r = htc_reader_of(a->failed_list);
    for (uint64_t i = 0; i < a->failed; i++) {
        htc__span_failure f;
        htc__span_get_failure(&r, &f);
        if ((n = node_of(w, x, f.number)))
            node_outcome(w, x, n, a, f.status, f.reason);
    }
    r = htc_reader_of(a->range_list);
    for (uint64_t i = 0; i < a->ranges; i++) {
        uint64_t from, to;
        htc__span_get_range(&r, &from, &to);
        for (uint64_t id = from > x->id ? from : x->id; id < to && id < x->to; id++) {
            if (!(n = node_of(w, x, id)))
                continue;
            if (a->why == HTC_ECANCELLED && htc__flow_is_marked(&w->flow, id))
                node_outcome(w, x, n, a, HTC_ECANCELLED, "cancelled");
            else
                node_not_run(w, n);
        }
    }
    r = htc_reader_of(a->output_list); /* what adds tasks and has left nothing adds none */
    for (uint64_t i = 0; i < a->outputs; i++) {
        uint64_t  number;
        htc_bytes output = htc__span_get_output(&r, &number);
        if ((n = node_of(w, x, number)) && n->task.adds)
            htc__worker_addition_output(w, n, x, output, a->begin, a->end);
    }
    function_end *good = htc__worker_function_end(w, x, HTC_OK, "", a->begin, a->end);
    if (good)
        good->nodes = 1; /* as long as nodes are given it */
    for (uint64_t id = x->id; good && id < x->to; id++)
        if ((n = node_of(w, x, id)))
            htc__worker_function_ended(w, n, good);
    if (good)
        good->nodes--;
    htc__worker_function_end_free(w, good);
    w->figures.run += a->done + a->failed;
}

/* It is tried again: what is noted of that is a hint, and without room it is tried more often. 0: it has failed for good. */
static int tried_again(htc_worker *w, own *o, uint64_t id)
{
    uint64_t failures = htc__ledger_failures(&o->now, id) + 1;
    for (uint32_t i = 0; i < o->n_again; i++)
        failures += o->again[i] == id;
    if (failures >= w->flow.tries)
        return 0;
    if (o->n_again < SLOTS_MAX)
        o->again[o->n_again++] = id;
    if (htc__ids_add(&o->ready, (ledger_span){ id, id + 1 }) != HTC_OK)
        o->unsure = 1; /* looked at anew, with what is live */
    return 1;
}

static void end(own *o, const running *x, ledger_span s, graph_state how, htc_status status, htc_ns began, htc_ns ended)
{
    htc__worker_ended(o, &(ended_task){ .id = s.from, .to = s.to, .how = (uint8_t)how, .exit_code = how != GRAPH_DONE, .status = status,
                                        .attempt = x->attempt.id.attempt, .began = began, .ended = ended });
}

/* r: where it was found last, of a list that is most often in order. */
static htc_status why_failed(const htc__span_answer *a, htc_reader *r, uint64_t id)
{
    htc__span_failure f;
    for (uint64_t i = 0; i < a->failed; i++) {
        if (htc_reader_left(r) == 0)
            *r = htc_reader_of(a->failed_list);
        htc__span_get_failure(r, &f);
        if (f.number == id)
            return f.status;
    }
    return HTC_EEXIT;
}

/* What has failed, in order, and with it what is done: so what leaves the ledger leaves it from one end. */
static void end_in_order(htc_worker *w, own *o, const running *x, const htc__span_answer *a, const ledger_ids *done, const ledger_ids *failed)
{
    htc_reader r = htc_reader_of(a->failed_list);
    uint32_t   d = 0, f = 0;
    while (d < done->n || f < failed->n) {
        int         well = f == failed->n || (d < done->n && done->at[d].from < failed->at[f].from);
        ledger_span s = well ? done->at[d++] : failed->at[f++];
        w->figures.run += s.to - s.from;
        if (well)
            end(o, x, s, GRAPH_DONE, HTC_OK, a->begin, a->end);
        for (uint64_t id = s.from; !well && id < s.to; id++)
            end(o, x, (ledger_span){ id, id + 1 }, GRAPH_FAILED, why_failed(a, &r, id), a->begin, a->end);
    }
}

/* What is done is what is left of the span. */
static void bag_answer(htc_worker *w, running *x, own *o, const htc__span_answer *a)
{
    ledger_ids left = { .n = 1, .at = { { x->id, x->to } } }, bad = { .n = 0 };
    htc_reader r = htc_reader_of(a->failed_list);
    for (uint64_t i = 0; i < a->failed; i++) {
        htc__span_failure f;
        htc__span_get_failure(&r, &f);
        ledger_span one = { f.number, f.number + 1 };
        if (f.number < x->id || f.number >= x->to || htc__ids_remove(&left, one) != HTC_OK)
            continue;
        if (f.status == HTC_ECANCELLED && htc__flow_is_marked(&w->flow, f.number))
            end(o, x, one, GRAPH_CANCELLED, f.status, a->begin, a->end);
        else if (!tried_again(w, o, f.number))
            (void)htc__ids_add(&bad, one); /* at most HTC__SPAN_FAILED_MAX: there is room */
    }
    r = htc_reader_of(a->range_list);
    for (uint64_t i = 0; i < a->ranges; i++) {
        uint64_t from, to;
        htc__span_get_range(&r, &from, &to);
        if (from < x->id || to > x->to || htc__ids_remove(&left, (ledger_span){ from, to }) != HTC_OK)
            continue;
        if (htc__ids_add(&o->ready, (ledger_span){ from, to }) != HTC_OK) /* what is marked is cancelled from there */
            o->unsure = 1;
    }
    end_in_order(w, o, x, a, &left, &bad);
}

static int has_room(const own *o, const htc__span_answer *a)
{
    return o->n_ended + 2 * a->failed + 2 * a->ranges + 1 <= ENDED_MAX;
}

static void keep_answer(htc_worker *w, running *x, htc_bytes body)
{
    x->answer = htc__alloc(&w->env, body.len);
    if (!x->answer) {
        htc_runtime_break(w->runtime, HTC_ENOMEM, "keeping what became of function tasks");
        return;
    }
    memcpy(x->answer, body.data, body.len);
    x->answer_len = body.len;
}

void htc__worker_answers(htc_worker *w)
{
    running *x, *next;
    DL_FOREACH_SAFE(w->runs, x, next)
    {
        own             *o = x->answer ? htc__worker_own(w, x->ledger) : NULL;
        htc__span_answer a;
        if (!o || htc__span_answer_read((htc_bytes){ x->answer, x->answer_len }, &a) != HTC_OK || !has_room(o, &a))
            continue;
        bag_answer(w, x, o, &a);
        htc__worker_forget_run(w, x, 0);
    }
}

static const char *text_of(htc_bytes body, char *text, size_t cap)
{
    size_t n = body.len < cap ? body.len : cap - 1;
    memcpy(text, n ? body.data : "", n);
    text[n] = '\0';
    return text;
}

/* Nothing was run: for the function's own sake it has failed, for the node's another worker is to run it. */
static void not_run(htc_worker *w, running *x, own *o, const htc_input *in)
{
    char             text[200];
    htc__span_answer a = { .begin = in->wall, .end = in->wall };
    int              node_fault = in->status == HTC_EREFUSED || in->status == HTC_ENOSPC || in->status == HTC_EIO || in->status == HTC_ENOMEM || in->status == HTC_EBUSY;
    text_of(in->body, text, sizeof text);
    for (uint64_t id = x->id; w->flow.kind == FLOW_GRAPH && id < x->to; id++) {
        node *n = node_of(w, x, id);
        if (n && node_fault)
            node_not_run(w, n);
        else if (n)
            node_outcome(w, x, n, &a, in->status, text[0] ? text : htc_strerror(in->status));
    }
    if (w->flow.kind == FLOW_BAG && node_fault)
        o->unsure = 1;
    else if (w->flow.kind == FLOW_BAG)
        end(o, x, (ledger_span){ x->id, x->to }, GRAPH_FAILED, in->status, 0, 0);
    htc__log_with(&w->env, HTC_LOG_WARN, HTC__FIELDS(HTC__STATUS(in->status)), "functions were not called: %s: %s", htc_strerror(in->status), text);
    if (node_fault && in->status != HTC_EBUSY)
        htc__worker_stop(w, in->status);
    htc__worker_forget_run(w, x, 1);
}

void htc__worker_function_result(htc_worker *w, running *x, const htc_input *in)
{
    own             *o = htc__worker_own(w, x->ledger);
    htc__span_answer a = { 0 };
    if (x->over || x->answer)
        return;
    if (x->dropped || !o) {
        htc__worker_forget_run(w, x, 1);
        return;
    }
    if (in->status != HTC_OK) {
        not_run(w, x, o, in);
        return;
    }
    if (htc__span_answer_read(in->body, &a) != HTC_OK) {
        htc_runtime_break(w->runtime, HTC_EPROTO, "reading what became of function tasks");
        return;
    }
    learn(w, x);
    if (w->flow.kind == FLOW_GRAPH) {
        graph_answer(w, x, &a);
    } else if (has_room(o, &a)) {
        bag_answer(w, x, o, &a);
    } else {
        keep_answer(w, x, in->body);
        return;
    }
    htc__worker_forget_run(w, x, 0);
}
