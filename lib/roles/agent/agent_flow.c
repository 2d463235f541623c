/* Seats at flows. A seat is a task whose program is htc:flow and whose argument is the number of a flow: as long as it runs, this agent is a
 * worker of that flow (lib/roles/worker), with as many slots as it holds seats there. So a flow stands under the same shares, limits and
 * drains as any other job: the gateway knows seats, the workers know the flow's tasks.
 *
 *     RUN of a seat              the worker has a slot more; there is one worker a flow, made with the first seat
 *     the flow has ended         all its seats end, well if none of its tasks failed
 *     drained, or fewer slots    the worker gives a slot up when nothing runs in it, and the seat is given back
 *     cancelled                  the flow is, as a whole
 *
 * A member of a gang is held in the same way: its RUN is asked of nobody, and is over when the gang is (agent_gang.c).
 *
 * The host is asked for nothing that concerns a seat itself. What the worker asks of it bears numbers of the worker's own. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "core/fault.h"
#include "core/wire.h"
#include "htcsched/calls.h"
#include "roles/agent/agent_private.h"

#define NUMBERS       56                    /* bits below the number of a worker, in numbers of its calls */
#define DIAL_TAG      (UINT64_C(1) << 55)   /* the agent's own calls that are no run's */
#define NUMBERS_MAX   255                   /* of workers: each life has one that no other had lately */
#define TRY_AGAIN     HTC_SECOND

typedef struct agent_flow {
    uint64_t           flow, number;
    uint32_t           store_peer; /* 0: not yet */
    htc_worker       *worker;     /* NULL: not yet, or not any more */
    uint8_t            dialling, leaving;
    htc_ns             not_before; /* the next worker */
    struct agent_flow *prev, *next;
} agent_flow;

/* ---- what a seat is ---- */

int htc__agent_is_seat(htc_agent *a, agent_held *t)
{
    htc_task  *task = NULL;
    htc_status status = htc_task_from_bytes(&a->env, t->attempt.task, &task);
    if (status == HTC_ENOMEM)
        a->holder.failed = status;
    if (status != HTC_OK)
        return 0; /* refused elsewhere */
    if (task->executable && strcmp(task->executable, HTC_FLOW_EXECUTABLE) == 0 && task->n_args == 1)
        t->flow = strtoull(task->args[0], NULL, 10);
    t->member = (uint8_t)task->member;
    if (t->member)
        t->attempt.wall = 0; /* the leader's is the gang's */
    htc_task_destroy(task);
    return t->flow != 0;
}

int htc__agent_has_seat(const htc_agent *a)
{
    for (uint32_t i = 0; i < a->count; i++)
        if (a->held[i]->flow && !htc__attempt_is_over(&a->held[i]->attempt))
            return 1;
    return 0;
}

int htc__agent_rests(const htc_agent *a)
{
    htc_worker_figures f = { .size = sizeof f };
    const agent_flow  *x;
    for (uint32_t i = 0; i < a->count; i++)
        if (a->held[i]->seat != SEAT_AT_WORK)
            return 0;
    DL_FOREACH(a->flows, x)
    if (!x->worker || htc_worker_look(x->worker, &f) != HTC_OK || f.running || f.ready)
        return 0;
    return a->flows != NULL;
}

static uint32_t seats(const htc_agent *a, uint64_t flow, seat_phase phase)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < a->count; i++)
        n += a->held[i]->flow && (flow == 0 || a->held[i]->flow == flow) && a->held[i]->seat == (uint8_t)phase;
    return n;
}

static agent_flow *flow_of(const htc_agent *a, uint64_t flow)
{
    agent_flow *f;
    DL_SEARCH_SCALAR(a->flows, f, flow, flow);
    return f;
}

/* ---- answers of the host that is not asked ---- */

static void answer(htc_agent *a, agent_held *t, uint32_t op, htc_status status, const htc_buf *body)
{
    htc_input in = { .size = sizeof in, .now = a->holder.now, .kind = HTC_IN_RESULT, .op = op, .tag = t->attempt.run, .status = status };
    if (body)
        in.body = htc_buf_bytes(body);
    htc__attempt_result(&a->holder, &t->attempt, &in);
}

static void run_ended(htc_agent *a, agent_held *t, const htc_outcome *o)
{
    htc_buf b;
    htc_buf_init(&b, &a->env, 0);
    htc_outcome_write(&b, o);
    t->seat = SEAT_NONE;
    if (b.status != HTC_OK)
        a->holder.failed = b.status;
    else
        answer(a, t, HTC_CALL_RUN, HTC_OK, &b);
    htc_buf_free(&b);
}

/* It is somebody else's from now on. */
static void run_given_up(htc_agent *a, agent_held *t)
{
    t->seat = SEAT_NONE;
    answer(a, t, HTC_CALL_RUN, HTC_AGAIN, NULL);
}

static void seat_failed(htc_agent *a, agent_held *t, htc_status status, const char *reason)
{
    htc_outcome o = { .status = status, .started = a->wall, .ended = a->wall };
    snprintf(o.reason, sizeof o.reason, "%s", reason);
    memcpy(o.node, a->holder.node, sizeof o.node);
    run_ended(a, t, &o);
}

int htc__agent_carries_out(attempt_holder *h, attempt *x, uint32_t op, htc_bytes body)
{
    htc_agent  *a = (htc_agent *)(void *)h;
    agent_held *t = (agent_held *)(void *)x;
    agent_flow *f = t->flow ? flow_of(a, t->flow) : NULL;
    htc_reader  r = htc_reader_of(body);
    if ((!t->flow && !t->member) || (t->member && (op == HTC_CALL_STAGE_IN || op == HTC_CALL_CLEAN)))
        return 0; /* a member has its own scratch directory, with the inputs */
    switch (op) {
    case HTC_CALL_STAGE_IN: t->seat = SEAT_ENTERED; break;
    case HTC_CALL_RUN: t->seat = SEAT_WANTED; break;
    case HTC_CALL_STAGE_OUT: t->seat = SEAT_OVER; break;
    case HTC_CALL_SIGNAL:
        (void)htc_get_u64(&r);
        if (x->order == ORDER_CANCEL && f && f->worker && htc_get_u32(&r) != 9)
            htc_worker_cancel(f->worker);
        else if (t->seat == SEAT_WANTED || t->seat == SEAT_AT_WORK)
            t->seat = SEAT_LEFT;
        break;
    default: break;
    }
    return 1;
}

/* ---- workers ---- */

static void dial_store(htc_agent *a, agent_flow *f)
{
    htc_buf_clear(&a->buf);
    htc_put_str(&a->buf, a->store);
    f->dialling = 1;
    htc__agent_emit(a, &(htc_effect){ .kind = HTC_OUT_CALL, .op = HTC_CALL_DIAL, .tag = DIAL_TAG | f->number, .body = htc_buf_bytes(&a->buf) });
}

static void hang_up(htc_agent *a, uint32_t peer)
{
    htc_buf_clear(&a->buf);
    htc_put_u32(&a->buf, peer);
    if (peer)
        htc__agent_emit(a, &(htc_effect){ .kind = HTC_OUT_CALL, .op = HTC_CALL_HANG_UP, .body = htc_buf_bytes(&a->buf) });
}

/* What the host still answers to the worker before is nobody's then. */
static uint64_t next_number(htc_agent *a)
{
    agent_flow *f;
    do {
        a->last_flow = a->last_flow % NUMBERS_MAX + 1;
        DL_SEARCH_SCALAR(a->flows, f, number, a->last_flow);
    } while (f);
    return a->last_flow;
}

static agent_flow *flow_new(htc_agent *a, uint64_t flow)
{
    agent_flow *f = htc__alloc(&a->env, sizeof *f);
    if (!f) {
        a->holder.failed = HTC_ENOMEM;
        return NULL;
    }
    f->flow = flow;
    f->number = next_number(a);
    DL_APPEND(a->flows, f);
    return f;
}

static void flow_end(htc_agent *a, agent_flow *f)
{
    DL_DELETE(a->flows, f);
    htc_worker_ops()->destroy(f->worker);
    if (a->holder.out)
        hang_up(a, f->store_peer);
    htc__free(&a->env, f, sizeof *f);
}

void htc__agent_flows_free(htc_agent *a)
{
    while (a->flows)
        flow_end(a, a->flows);
}

/* The next one has a connection to the store of its own, which it is told of when it is opened. */
static void worker_gone(htc_agent *a, agent_flow *f, htc_ns not_before)
{
    htc_worker_ops()->destroy(f->worker);
    f->worker = NULL;
    if (!HTC__BROKEN(worker_connection_kept)) {
        hang_up(a, f->store_peer);
        f->store_peer = 0;
    }
    f->number = next_number(a);
    f->not_before = not_before;
}

/* Whose seats these are: the gateway gives nobody any at another user's flow. */
static const char *user_of(const htc_agent *a, uint64_t flow)
{
    for (uint32_t i = 0; i < a->count; i++)
        if (a->held[i]->flow == flow)
            return a->held[i]->attempt.user;
    return NULL;
}

static void worker_begin(htc_agent *a, agent_flow *f)
{
    htc_worker_options o = { .size = sizeof o, .flow = f->flow, .id = a->id, .address = a->address, .store_peer = f->store_peer,
                              .store_client_id = htc_rng_next(a->env.rng) | 1, .node = a->holder.node, .calls_from = f->number << NUMBERS, .within = 1, .cache_bytes = a->cache_bytes,
                              .user = user_of(a, f->flow), .policies = a->policies };
    htc_status          status = htc_worker_create(&a->env, &o, &f->worker);
    f->leaving = 0;
    if (status != HTC_OK)
        a->holder.failed = status;
    else
        htc__log_with(&a->env, HTC_LOG_INFO, HTC__FIELDS(HTC__NUMBER("flow", f->flow)), "works at flow %" PRIu64, f->flow);
}

static void each_seat(htc_agent *a, uint64_t flow, void (*fn)(htc_agent *a, agent_held *t, const void *ctx), const void *ctx)
{
    for (uint32_t i = a->count; i > 0; i--) {
        agent_held *t = i <= a->count ? a->held[i - 1] : NULL; /* what ends may be gone */
        if (t && t->flow == flow && t->seat >= SEAT_WANTED && t->seat <= SEAT_LEFT)
            fn(a, t, ctx);
    }
}

static void seat_with_outcome(htc_agent *a, agent_held *t, const void *ctx)
{
    htc_outcome o = *(const htc_outcome *)ctx;
    if (t->attempt.order == ORDER_CANCEL) {
        o.status = HTC_ECANCELLED;
        o.final = 0;
    }
    run_ended(a, t, &o);
}

static void seat_left(htc_agent *a, agent_held *t, const void *ctx)
{
    (void)ctx;
    if (t->seat != SEAT_LEFT)
        return;
    if (t->attempt.order == ORDER_CANCEL)
        seat_failed(a, t, HTC_ECANCELLED, "cancelled");
    else
        run_given_up(a, t);
}

static void flow_ended(htc_agent *a, agent_flow *f, uint64_t done, uint64_t failed, uint64_t cancelled)
{
    htc_outcome o = { .status = failed ? HTC_EEXIT : cancelled ? HTC_ECANCELLED : HTC_OK, .exit_code = failed != 0, .started = a->wall, .ended = a->wall,
                      .final = 1 };
    memcpy(o.node, a->holder.node, sizeof o.node);
    if (failed || cancelled)
        snprintf(o.reason, sizeof o.reason, "of %" PRIu64 " task%s of flow %" PRIu64 " %" PRIu64 " failed and %" PRIu64 " %s cancelled",
                 done + failed + cancelled, htc__plural(done + failed + cancelled), f->flow, failed, cancelled, cancelled == 1 ? "was" : "were");
    each_seat(a, f->flow, seat_with_outcome, &o);
}

static void worker_ended(htc_agent *a, agent_flow *f, htc_status status)
{
    htc_worker_figures figures = { .size = sizeof figures };
    (void)htc_worker_look(f->worker, &figures);
    int ended = figures.flow_ended != 0;
    htc__log_with(&a->env, HTC_LOG_INFO,
                  HTC__FIELDS(HTC__NUMBER("flow", f->flow), HTC__NUMBER("run", figures.run), HTC__NUMBER("stolen", figures.stolen),
                              HTC__NUMBER("made", figures.made), HTC__NUMBER("fetched_bytes", figures.fetched_bytes), HTC__NUMBER("remade", figures.remade),
                              HTC__STATUS(status)),
                  "works no more at flow %" PRIu64 ": %s; run=%" PRIu64 " stolen=%" PRIu64 " made=%" PRIu64 " fetched_bytes=%" PRIu64 " remade=%" PRIu64 " pushed=%" PRIu64,
                  f->flow, ended ? "it has ended" : htc_strerror(status), figures.run, figures.stolen, figures.made, figures.fetched_bytes, figures.remade, figures.pushed);
    worker_gone(a, f, a->holder.now + (ended || status == HTC_OK || status == HTC_ELOST ? 0 : TRY_AGAIN));
    if (ended)
        flow_ended(a, f, figures.done, figures.failed, figures.cancelled);
    else
        each_seat(a, f->flow, seat_left, NULL);
}

/* Seats that are to go: all when this agent ends, those above its slots else. */
static void choose_who_leaves(htc_agent *a)
{
    uint32_t at_work = seats(a, 0, SEAT_AT_WORK) + seats(a, 0, SEAT_WANTED), may = htc__agent_ending(a) ? 0 : a->slots;
    for (uint32_t i = a->count; i > 0 && at_work > may; i--) {
        agent_held *t = a->held[i - 1];
        if (t->seat != SEAT_AT_WORK && t->seat != SEAT_WANTED)
            continue;
        t->seat = SEAT_LEFT;
        at_work--;
    }
}

static void flow_run(htc_agent *a, agent_flow *f)
{
    htc_worker_figures figures = { .size = sizeof figures };
    htc_status          status;
    uint32_t            at_work = seats(a, f->flow, SEAT_AT_WORK) + seats(a, f->flow, SEAT_WANTED), left = seats(a, f->flow, SEAT_LEFT);
    if (f->worker && htc_worker_stopped(f->worker, &status)) {
        worker_ended(a, f, status);
        return;
    }
    if (!f->worker) {
        each_seat(a, f->flow, seat_left, NULL);
        if (at_work && f->store_peer)
            worker_begin(a, f);
        else if (at_work && !f->dialling && a->holder.now >= f->not_before)
            dial_store(a, f);
        else if (!at_work && !f->dialling)
            flow_end(a, f);
        return;
    }
    for (uint32_t i = 0; i < a->count; i++)
        if (a->held[i]->flow == f->flow && a->held[i]->seat == SEAT_WANTED) {
            a->held[i]->seat = SEAT_AT_WORK;
            if (htc__attempt_started(&a->holder, &a->held[i]->attempt) && a->registered)
                htc__agent_say_started(a, &a->held[i]->attempt);
        }
    htc_worker_slots(f->worker, at_work);
    htc_worker_ahead(f->worker, at_work == a->slots); /* the host knows the slots of the agent, not the seats of a flow */
    if (left && at_work) {
        (void)htc_worker_look(f->worker, &figures); /* it looks at every task that is known here: not in each step */
        if (figures.running <= at_work)
            each_seat(a, f->flow, seat_left, NULL);
    }
}

/* ---- the step ---- */

static void worker_step(htc_agent *a, agent_flow *f, const htc_input *in)
{
    htc_input  time = { .size = sizeof time, .now = in->now, .wall = in->wall, .kind = HTC_IN_TIMEOUT };
    htc_status status = htc_worker_ops()->step(f->worker, in->peer == a->peer || in->kind == HTC_IN_START ? &time : in, a->holder.out);
    if (status == HTC_OK || status == HTC_EUNSUPPORTED)
        return;
    worker_gone(a, f, a->holder.now + TRY_AGAIN); /* the next one starts from the store */
}

void htc__agent_flows_take_back(htc_agent *a)
{
    htc_input   time = { .size = sizeof time, .now = a->holder.now, .wall = a->wall, .kind = HTC_IN_TIMEOUT };
    agent_flow *f, *next;
    DL_FOREACH_SAFE(a->flows, f, next)
    if (f->worker) {
        htc_worker_ahead(f->worker, 0);
        worker_step(a, f, &time);
    }
}

static void greet_worker(htc_agent *a, const htc_input *in, htc_reader *r, uint64_t id)
{
    uint8_t  role;
    uint16_t version;
    if (htc_wire_read_hello(r, HTC_WIRE_VERSION, &role, &version) != HTC_OK || role != HTC_WIRE_ROLE_WORKER) {
        htc__agent_emit(a, &(htc_effect){ .kind = HTC_OUT_CLOSE, .peer = in->peer, .status = HTC_EPROTO });
        return;
    }
    htc_wire_welcome(&a->buf, id, version);
    htc__agent_emit(a, &(htc_effect){ .kind = HTC_OUT_MESSAGE, .peer = in->peer, .body = htc_buf_bytes(&a->buf) });
}

static void dialled(htc_agent *a, const htc_input *in)
{
    agent_flow *f;
    htc_reader  r = htc_reader_of(in->body);
    uint32_t    peer = htc_get_u32(&r);
    DL_SEARCH_SCALAR(a->flows, f, number, in->tag & ~DIAL_TAG);
    if (!f || in->status != HTC_OK || htc_reader_done(&r) != HTC_OK) {
        if (f) {
            f->dialling = 0;
            f->not_before = a->holder.now + TRY_AGAIN;
        }
        hang_up(a, in->status == HTC_OK ? peer : 0);
        return;
    }
    f->dialling = 0;
    f->store_peer = peer;
}

/* A worker's call that it did not live to see answered. */
static void dialled_for_nobody(htc_agent *a, const htc_input *in)
{
    agent_flow *f;
    htc_reader  r = htc_reader_of(in->body);
    uint32_t    peer = htc_get_u32(&r);
    DL_SEARCH_SCALAR(a->flows, f, number, in->tag >> NUMBERS);
    if (!(f && f->worker) && in->status == HTC_OK && htc_reader_done(&r) == HTC_OK)
        hang_up(a, peer);
}

/* Whose number is it? */
static int is_workers(const htc_input *in)
{
    htc_reader r = htc_reader_of(in->body);
    if (in->kind == HTC_IN_RESULT)
        return in->tag >> NUMBERS != 0;
    if (in->kind == HTC_IN_EVENT && in->op == HTC_EVENT_REFUSED)
        return 1; /* whichever has dialled that connection knows its number */
    return in->kind == HTC_IN_EVENT && (in->op == HTC_EVENT_STARTED || in->op == HTC_EVENT_TASK_STOPPED) && htc_get_u64(&r) >> NUMBERS != 0;
}

int htc__agent_flows_input(htc_agent *a, const htc_input *in)
{
    agent_flow *f, *next;
    uint16_t    type = 0;
    uint64_t    id = 0;
    int         others = in->peer && in->peer != a->peer, mine = is_workers(in);
    a->wall = in->wall;
    if (in->kind == HTC_IN_RESULT && in->op == HTC_CALL_DIAL && !mine) {
        dialled(a, in);
        mine = 1;
    } else if (in->kind == HTC_IN_RESULT && in->op == HTC_CALL_DIAL) {
        dialled_for_nobody(a, in);
    } else if (in->kind == HTC_IN_MESSAGE && others) {
        htc_reader r = htc_wire_open(in->body, &type, &id);
        if (r.status == HTC_OK && type == HTC_WIRE_HELLO) {
            greet_worker(a, in, &r, id);
            return 1;
        }
    }
    DL_FOREACH_SAFE(a->flows, f, next)
    if (f->worker && (others || mine || in->kind == HTC_IN_TIMEOUT || in->now >= htc_worker_ops()->deadline(f->worker)))
        worker_step(a, f, mine || others || in->kind == HTC_IN_TIMEOUT ? in : &(htc_input){ .size = sizeof *in, .now = in->now, .wall = in->wall, .kind = HTC_IN_TIMEOUT });
    return mine || (others && in->kind != HTC_IN_EVENT);
}

void htc__agent_flows_run(htc_agent *a)
{
    agent_flow *f, *next;
    htc_buf     b;
    htc_stored  nothing = { 0 };
    htc_buf_init(&b, &a->env, 0);
    for (uint32_t i = a->count; i > 0; i--) {
        agent_held *t = i <= a->count ? a->held[i - 1] : NULL;
        if (!t || (!t->flow && !t->member))
            continue;
        if (t->member && t->seat == SEAT_LEFT) {
            if (htc__agent_gang_runs(a, t) == 0)
                run_given_up(a, t);
            continue;
        }
        if (t->seat == SEAT_ENTERED) {
            t->seat = SEAT_NONE;
            answer(a, t, HTC_CALL_STAGE_IN, HTC_OK, NULL);
        }
        if (t->member)
            continue;
        if (t->seat == SEAT_WANTED && !a->store[0])
            seat_failed(a, t, HTC_EREFUSED, "this agent works at no flow: it has no way to the store");
        else if (t->seat == SEAT_WANTED && !flow_of(a, t->flow))
            (void)flow_new(a, t->flow);
        if (t->seat == SEAT_OVER) {
            t->seat = SEAT_NONE;
            htc_stored_write(&b, &nothing);
            answer(a, t, HTC_CALL_STAGE_OUT, b.status, &b);
            htc_buf_clear(&b);
        }
    }
    choose_who_leaves(a);
    DL_FOREACH_SAFE(a->flows, f, next)
    {
        uint32_t at_work = seats(a, f->flow, SEAT_AT_WORK) + seats(a, f->flow, SEAT_WANTED);
        if (f->worker && !at_work && !f->leaving) { /* nothing more begins, and what runs ends */
            f->leaving = 1;
            worker_step(a, f, &(htc_input){ .size = sizeof(htc_input), .now = a->holder.now, .wall = a->wall, .kind = HTC_IN_EVENT, .op = HTC_EVENT_SHUTDOWN,
                                            .status = a->stopping ? HTC_EKILLED : HTC_OK });
        }
        flow_run(a, f);
    }
    htc_buf_free(&b);
}

htc_ns htc__agent_flows_deadline(const htc_agent *a)
{
    htc_ns            at = HTC_NEVER;
    const agent_flow *f;
    for (uint32_t i = 0; i < a->count; i++)
        if (a->held[i]->member && a->held[i]->seat == SEAT_LEFT && htc__agent_gang_runs(a, a->held[i]) == 0)
            return a->holder.now;
    for (uint32_t i = 0; i < a->count; i++)
        if (a->held[i]->flow && (a->held[i]->seat == SEAT_ENTERED || a->held[i]->seat == SEAT_OVER || (a->held[i]->seat == SEAT_WANTED && !flow_of(a, a->held[i]->flow))))
            return a->holder.now;
    DL_FOREACH(a->flows, f)
    {
        htc_ns     own = f->worker ? htc_worker_ops()->deadline(f->worker) : f->dialling ? HTC_NEVER : f->not_before;
        htc_status status;
        if (f->worker && htc_worker_stopped(f->worker, &status))
            own = a->holder.now;
        at = own < at ? own : at;
    }
    return at < a->holder.now ? a->holder.now : at; /* a worker's may be long over: that is no stall */
}
