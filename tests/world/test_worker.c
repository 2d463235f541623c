/* Workers in a world: a bag or a graph over several workers and one store, whose messages are lost and doubled, whose connections break, and
 * who are killed, stopped and asked to leave. After every commit of the store each task is in exactly one place: live in one ledger, in one
 * note that is not accepted yet, or counted. Of a graph no task runs before its parents have ended as it asks, what has ended stays as it
 * ended, and a task is counted when its children know. In the end the flow has ended, each task as it ends when a plain loop runs them one
 * by one.
 *
 * Some bags go on (bag_resumption.h): what was done before does not run.
 *
 * The policies of stealing take turns, so that each meets each kind of faults.
 *
 * Then each of the rules that keep it so is left out (lib/core/fault.h), and some seed has to notice.
 *
 * HTC_SEED=n runs one seed and prints its trace, with HTC_BROKEN=rule without that rule; HTC_TEST_LIGHT=1 runs a tenth. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/codec.h"
#include "core/fault.h"
#include "core/util.h"
#include "htcsched/calls.h"
#include "htcsched/kv_server.h"
#include "htcsched/sim.h"
#include "htcsched/work.h"
#include "roles/runtime/agent_wire.h"
#include "htcsched/worker.h"
#include "roles/runtime/span_wire.h"
#include "sim/scenarios/flow_audit.h"
#include "sim/scenarios/flow_disk.h"
#include "sim/scenarios/flow_intake.h"
#include "sim/scenarios/flow_remove.h"
#include "sim/scenarios/flow_submit.h"
#include "worker_rules.h"

#define SEEDS       (getenv("HTC_TEST_FULL") ? 20000 : 450)
#define SEEDS_LIGHT 30
#define WORKERS_MAX 8
#define CLIENTS_MAX 3 /* who add tasks to an open flow */
#define TASKS_MAX   4000
#define GRAPH_MAX   500
#define GRAPH_FULL  3000
#define GRAPH_LARGE 10000 /* of one seed in fifty of the full form */
#define FLOW        7
#define DOOMED      8  /* a flow that is removed while it is submitted */
#define FIRST_PEER  10 /* of a worker's connections to others */

typedef struct world world;

typedef struct host_of {
    world        *of;
    htc_sim_node *node;
    uint32_t      self, peers; /* connections that were made, over all lives */
    uint64_t      runs;        /* asked for, over all lives */
    uint8_t       dialled[256]; /* which worker, by the connection's number */
    flow_disk    *disk;
    struct {
        uint64_t run, task;
    } staged[256];
} host_of;

struct world {
    htc_sim      *sim;
    htc_env       env;
    htc_kv_engine disk;
    htc_buf       batch;
    uint64_t      tag;
    int           committing;
    htc_sim_node *store;
    host_of       workers[WORKERS_MAX];
    uint32_t      n;
    int           graph, cancels;
    flow_work     work; /* functions are asked for in spans */
    flow_places   places;
    uint64_t      cache; /* of each worker; 0: as large as by default */
    uint32_t      tries;
    uint64_t      tasks, seed;
    htc_rng       rng;
    htc_registry *registry;
    htc_steal_options steal;
    htc_ns        trouble_until, longest; /* a task's run time, at most */
    int           kill_thief, thieves_killed, quiet;
    int           harry, harried; /* those whose tasks add tasks: so often; so often it was done */
    htc_flow     *flow;
    flow_audit   *audit;
    bag_resumption before; /* of a bag that goes on */
    htc_sim_node *client;
    flow_submit  *submit;
    int           cancelled, switching;
    uint32_t      n_adding;
    struct adding {
        world        *of;
        htc_sim_node *node;
        flow_intake  *machine;
    } adding[CLIENTS_MAX];
    struct {
        htc_flow     *flow; /* NULL: there is none */
        flow_audit   *audit;
        htc_sim_node *client, *remover;
        flow_submit  *submit; /* NULL: it is not up */
        flow_remove  *remove;
        uint32_t      looks; /* of the remover, still to come */
    } doomed;
};

static void __attribute__((format(printf, 2, 3))) fail(world *w, const char *format, ...)
{
    char    text[300];
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    htc_sim_fail(w->sim, text);
}

static host_of *owner_of(world *w, const ledger *l)
{
    return l->worker && l->worker <= w->n ? &w->workers[l->worker - 1] : NULL;
}

static void boot_again(htc_sim *sim, void *ctx)
{
    (void)sim;
    htc_sim_boot(*(htc_sim_node **)ctx);
}

static void kill_and_boot(world *w, htc_sim_node *node, htc_ns later)
{
    htc_sim_crash(node);
    for (uint32_t i = 0; i < w->n; i++)
        if (w->workers[i].node == node) {
            htc__flow_disk_crash(w->workers[i].disk);
            if (htc_rng_below(&w->rng, 3) == 0)
                htc__flow_disk_lose(w->workers[i].disk, &w->rng);
        }
    htc_sim_at(w->sim, htc_sim_now(w->sim) + later, boot_again, &node, sizeof node);
}

/* Between GIVE and ACCEPT: who the first note is for ends now. */
static void kill_thief(world *w)
{
    const flow_audit *a = w->audit;
    for (uint64_t j = 0; j < a->n_ledgers; j++)
        for (uint32_t i = 0; i < a->ledgers[j]->n_out && w->kill_thief; i++) {
            const ledger_note *note = &a->ledgers[j]->out[i];
            const ledger      *to = note->ledger < a->n_ledgers ? a->ledgers[note->ledger] : NULL;
            host_of           *thief = to && !htc__ledger_accepted(to, j, note->note) ? owner_of(w, to) : NULL;
            if (thief && htc_sim_up(thief->node)) {
                w->kill_thief--;
                w->thieves_killed++;
                kill_and_boot(w, thief->node, w->kill_thief % 2 ? 50 * HTC_MS : 30 * HTC_SECOND);
            }
        }
}

/* The others are told that it is gone, which it is not: it goes on, a moment later, with what it was about. */
static void give_up(world *w, const host_of *n)
{
    uint8_t number[4];
    htc_sim_pause(n->node, 20 * HTC_MS + htc_rng_below(&w->rng, 600 * HTC_MS));
    for (uint32_t i = 0; i < w->n; i++)
        for (uint32_t peer = w->workers[i].peers; peer > 0 && peer + 16 > w->workers[i].peers; peer--)
            if (&w->workers[i] != n && htc_sim_up(w->workers[i].node) && w->workers[i].dialled[(peer - 1) % 256] == n->self) {
                htc__le32_put(number, FIRST_PEER + peer - 1);
                htc_sim_event(w->workers[i].node, 0, HTC_EVENT_REFUSED, HTC_OK, (htc_bytes){ number, sizeof number });
            }
}

/* Between DRAW and NOTE, or NOTE and CREATE, before it knows that it has done so: it does not hear of it, is given up, or ends. */
static void harry(world *w)
{
    host_of *n = NULL;
    for (uint64_t j = 0; j < w->audit->n_ledgers && !n; j++)
        if (htc__ids_has(&w->audit->ledgers[j]->live, (ledger_span){ w->audit->stirred, w->audit->stirred + 1 }))
            n = owner_of(w, w->audit->ledgers[j]);
    if (!n || !htc_sim_up(n->node) || htc_sim_paused(n->node) || htc_rng_below(&w->rng, 4) == 0)
        return;
    w->harry--;
    w->harried++;
    switch (htc_rng_below(&w->rng, 5)) {
    case 0: kill_and_boot(w, n->node, htc_rng_below(&w->rng, 200 * HTC_MS)); break;
    case 1:
    case 2: htc_sim_break(n->node, w->store); break;
    default: give_up(w, n); break;
    }
}

/* ---- the store ---- */

static void durable(htc_sim *sim, void *ctx)
{
    world *w = *(world **)ctx;
    (void)sim;
    if (!w->committing)
        return;
    w->committing = 0;
    if (w->disk.ops->apply(w->disk.ctx, htc_buf_bytes(&w->batch)) != HTC_OK)
        fail(w, "the disk does not take a batch");
    if (htc__flow_audit_batch(w->audit, htc_buf_bytes(&w->batch)) < 0)
        abort();
    if (w->doomed.audit && htc__flow_audit_batch(w->doomed.audit, htc_buf_bytes(&w->batch)) < 0)
        abort();
    if (w->kill_thief && w->audit->moving)
        kill_thief(w);
    if (w->harry && w->audit->stirred != UINT64_MAX)
        harry(w);
    htc_sim_stored(w->store, 0, w->tag, HTC_OK);
}

static htc_status store_commit(void *ctx, htc_sim_node *node, const htc_effect *effect)
{
    world *w = ctx;
    (void)node;
    w->committing = 1;
    w->tag = effect->tag;
    htc_buf_clear(&w->batch);
    htc_put_raw(&w->batch, effect->body);
    return htc_sim_at(w->sim, htc_sim_now(w->sim) + 200 * HTC_US + htc_rng_below(&w->rng, HTC_MS), durable, &w, sizeof w);
}

static htc_status store_boot(void *ctx, htc_sim_node *node)
{
    world                *w = ctx;
    htc_kv_server_options o = { .size = sizeof o, .engine = w->disk };
    htc_kv_server        *server = NULL;
    htc_status            status = htc_kv_server_create(htc_sim_env(node), &o, &server);
    return status != HTC_OK ? status : htc_sim_install(node, htc_kv_server_ops(), server);
}

/* ---- a worker's host ---- */

static void stage_in(host_of *n, const htc_effect *effect)
{
    htc_reader r = htc_reader_of(effect->body);
    uint64_t   run = htc_get_u64(&r);
    (void)htc_get_varint(&r); /* job */
    n->staged[run % 256].run = run;
    n->staged[run % 256].task = htc_get_varint(&r);
}

/* It ends well, or not. */
static void run(host_of *n, htc_sim_node *at, const htc_effect *effect, htc_outcome *o)
{
    world     *w = n->of;
    htc_reader r = htc_reader_of(effect->body);
    uint64_t   number = htc_get_u64(&r), id = n->staged[number % 256].task;
    (void)at;
    if (n->staged[number % 256].run != number || id >= w->audit->tasks) {
        fail(w, "a run that was not staged in");
        return;
    }
    n->runs++;
    if (w->work == FLOW_FILES)
        htc__flow_disk_run(n->disk, w->audit, number);
    o->status = htc__flow_audit_begins(w->audit, id);
    if (w->audit->stopped && w->audit->task[id].state == GRAPH_DONE && htc_rng_below(&w->rng, 2))
        o->status = HTC_EEXIT;
    o->exit_code = o->status == HTC_OK ? 0 : 7;
}

/* A span: some of it may be left undone, and asked for again. */
static void run_span(host_of *n, htc_sim_node *at, const htc_effect *effect, htc_ns span)
{
    world            *w = n->of;
    htc__span_request q;
    htc__span_answer  a = { .why = HTC_OK, .begin = htc_sim_wall(w->sim), .end = htc_sim_wall(w->sim) + span };
    htc_buf           failures, ranges, outputs, text, b;
    htc_buf_init(&failures, NULL, 0);
    htc_buf_init(&ranges, NULL, 0);
    htc_buf_init(&outputs, NULL, 0);
    htc_buf_init(&text, NULL, 0);
    htc_buf_init(&b, NULL, 0);
    if (htc__span_request_read(effect->body, &q) != HTC_OK || q.to > w->audit->tasks) {
        fail(w, "a span that nobody could run");
        return;
    }
    uint64_t left = htc_rng_below(&w->rng, 8) || w->quiet ? q.to : q.from + htc_rng_below(&w->rng, q.to - q.from + 1);
    for (uint64_t id = q.from; id < left; id++) {
        n->runs++;
        if (htc__flow_audit_begins(w->audit, id) == HTC_OK) {
            a.done++;
            htc_buf_clear(&text);
            if (w->graph && htc__flow_audit_task(w->audit, id)->adds)
                htc__flow_audit_text(w->audit, id, &text);
            if (text.len) {
                htc__span_put_output(&outputs, id, htc_buf_bytes(&text));
                a.outputs++;
            }
            continue;
        }
        htc__span_put_failure(&failures, &(htc__span_failure){ .number = id, .status = HTC_EEXIT, .reason = "it said so" });
        a.failed++;
    }
    if (left < q.to) {
        htc__span_put_range(&ranges, left, q.to);
        a.ranges = 1;
        a.why = HTC_AGAIN;
    }
    a.failed_list = htc_buf_bytes(&failures);
    a.range_list = htc_buf_bytes(&ranges);
    a.output_list = htc_buf_bytes(&outputs);
    htc__span_answer_write(&b, &a);
    htc_sim_result(at, span, effect, HTC_OK, htc_buf_bytes(&b));
    htc_buf_free(&failures);
    htc_buf_free(&ranges);
    htc_buf_free(&outputs);
    htc_buf_free(&text);
    htc_buf_free(&b);
}

static void printed(host_of *n, htc_sim_node *at, const htc_effect *effect)
{
    htc_reader  r = htc_reader_of(effect->body);
    htc_attempt attempt;
    htc_buf     text, b;
    htc_read_attempt(&r, &attempt);
    htc_buf_init(&text, NULL, 0);
    htc_buf_init(&b, NULL, 0);
    htc__flow_audit_text(n->of->audit, attempt.task, &text);
    htc_put_bytes(&b, htc_buf_bytes(&text));
    htc_sim_result(at, 50 * HTC_US, effect, HTC_OK, htc_buf_bytes(&b));
    htc_buf_free(&text);
    htc_buf_free(&b);
}

static void dial(host_of *n, htc_sim_node *at, const htc_effect *effect)
{
    world     *w = n->of;
    char       address[64];
    htc_reader r = htc_reader_of(effect->body);
    htc_buf    b;
    htc_get_str(&r, address, sizeof address);
    uint32_t   peer = FIRST_PEER + n->peers++, whom = (uint32_t)strtoul(address, NULL, 10);
    n->dialled[(peer - FIRST_PEER) % 256] = (uint8_t)whom;
    htc_status status = htc_sim_dial(at, peer, w->workers[whom].node,
                                     &(htc_sim_dial_options){ .size = sizeof(htc_sim_dial_options), .refused = HTC_EVENT_REFUSED });
    if (status == HTC_EINVAL)
        htc_sim_fail(w->sim, "a worker cannot be dialled");
    htc_buf_init(&b, NULL, 0);
    htc_put_u32(&b, peer);
    htc_sim_result(at, 0, effect, status, htc_buf_bytes(&b));
    htc_buf_free(&b);
}

static htc_status worker_call(void *ctx, htc_sim_node *at, const htc_effect *effect)
{
    host_of    *n = ctx;
    htc_outcome o = { .status = HTC_OK, .started = htc_sim_wall(n->of->sim) };
    htc_stored  stored = { 0 };
    htc_buf     b;
    htc_ns      span = htc_rng_below(&n->of->rng, n->of->longest + 1);
    htc_reader  r = htc_reader_of(effect->body);
    if (n->of->work == FLOW_FILES && htc__flow_disk_call(n->disk, at, effect, 20 * HTC_US + htc_rng_below(&n->of->rng, HTC_MS)))
        return HTC_OK;
    htc_buf_init(&b, NULL, 0);
    switch (effect->op) {
    case HTC_CALL_DIAL: dial(n, at, effect); break;
    case HTC_CALL_RUN_SPAN: run_span(n, at, effect, span); break;
    case HTC_CALL_STAGE_IN:
        stage_in(n, effect);
        htc_sim_result(at, 50 * HTC_US, effect, n->of->work == FLOW_FILES ? htc__flow_disk_stage_in(n->disk, effect) : HTC_OK, htc_bytes_of(NULL));
        break;
    case HTC_CALL_RUN:
        run(n, at, effect, &o);
        o.ended = o.started + span;
        htc_outcome_write(&b, &o);
        htc_sim_result(at, span, effect, HTC_OK, htc_buf_bytes(&b));
        break;
    case HTC_CALL_STAGE_OUT:
        if (n->of->work == FLOW_FILES)
            htc__flow_disk_stage_out(n->disk, n->of->audit, htc_get_u64(&r));
        htc_stored_write(&b, &stored);
        htc_sim_result(at, 50 * HTC_US, effect, HTC_OK, htc_buf_bytes(&b));
        break;
    case HTC_CALL_OUTPUT_READ: printed(n, at, effect); break;
    case HTC_CALL_CLEAN:
        if (n->of->work == FLOW_FILES)
            htc__flow_disk_clean(n->disk, effect);
        break;
    default: break; /* HANG_UP, SIGNAL: a task that is to end goes on to its end here */
    }
    htc_buf_free(&b);
    return HTC_OK;
}

static htc_status worker_boot(void *ctx, htc_sim_node *at)
{
    host_of            *n = ctx;
    world              *w = n->of;
    htc_worker        *machine = NULL;
    char                address[16];
    htc_worker_options o = { .size = sizeof o, .flow = FLOW, .id = n->self + 1, .address = address, .store_peer = 1, .store_client_id = htc_rng_next(&w->rng) | 1,
                              .slots = 2, .lease_ns = 3 * HTC_SECOND, .steal = &w->steal, .cache_bytes = w->cache };
    snprintf(address, sizeof address, "%u", n->self);
    htc_status status = htc_worker_create(htc_sim_env(at), &o, &machine);
    if (status == HTC_OK)
        status = htc_sim_install(at, htc_worker_ops(), machine);
    return status == HTC_OK ? htc_sim_dial(at, 1, w->store, NULL) : status;
}

/* Its lease is gone, or it was asked to leave: the next life has another one. */
static void worker_ended(void *ctx, htc_sim_node *at, htc_status status, int crashed)
{
    host_of *n = ctx;
    if (crashed || n->of->audit->ended)
        return;
    if (status != HTC_ELOST && status != HTC_OK)
        fail(n->of, "worker %u has ended: %s", n->self, htc_status_name(status));
    htc_sim_at(n->of->sim, htc_sim_now(n->of->sim) + 100 * HTC_MS, boot_again, &at, sizeof at);
}

/* ---- the flow ---- */

static htc_status submit_boot(void *ctx, htc_sim_node *at)
{
    world              *w = ctx;
    flow_submit_options o = { .given = w->flow, .number = FLOW, .tries = w->tries, .user = "ada", .places = w->places, .peer = 1, .client_id = 99,
                              /* more ledgers than there have to be, so that they are taken by several */
                              .workers = w->graph ? 1 + (uint32_t)(w->tasks / 100) : 1,
                              .goes_on = w->before.n ? &w->before : NULL };
    htc_status          status = htc__flow_submit_create(htc_sim_env(at), &o, &w->submit);
    if (status == HTC_OK)
        status = htc_sim_install(at, htc__flow_submit_ops(), w->submit);
    return status == HTC_OK ? htc_sim_dial(at, 1, w->store, NULL) : status;
}

/* All others have added what they had. */
static int closes(void *ctx)
{
    const world *w = ctx;
    for (uint32_t i = 1; i < w->n_adding; i++)
        if (!w->adding[i].machine || !htc__flow_intake_done(w->adding[i].machine))
            return 0;
    return 1;
}

static htc_status adding_boot(void *ctx, htc_sim_node *at)
{
    struct adding      *x = ctx;
    world              *w = x->of;
    flow_intake_options o = { .audit = w->audit, .rng = &w->rng, .work = w->work, .peer = 1, .client_id = 200 + (uint64_t)(x - w->adding), .workers = w->n,
                              .additions = 1 + (uint32_t)htc_rng_below(&w->rng, 8),
                              .closes = x == w->adding ? closes : NULL, .ctx = w };
    o.gap = htc_rng_below(&w->rng, 2) ? 5 * HTC_MS : HTC_SECOND; /* one draw behind the other: initializers have no order */
    htc_status          status = htc__flow_intake_create(htc_sim_env(at), &o, &x->machine);
    if (status == HTC_OK)
        status = htc_sim_install(at, htc__flow_intake_ops(), x->machine);
    return status == HTC_OK ? htc_sim_dial(at, 1, w->store, NULL) : status;
}

/* Of some graphs: tasks are added from outside, by several. */
static htc_status open_flow(world *w)
{
    const htc_flow_task intake = { .size = sizeof intake, .name = "intake", .builtin = HTC_FLOW_INTAKE };
    if (!w->graph || w->seed % 7 != 3)
        return HTC_OK;
    w->n_adding = 1 + (uint32_t)htc_rng_below(&w->rng, CLIENTS_MAX);
    w->tasks++;
    htc_status status = htc_flow_add(w->flow, &intake, NULL, NULL);
    return status == HTC_OK ? htc_flow_check(w->flow, NULL) : status;
}

/* Some of the flow is wanted no more. */
static void cancel(htc_sim *sim, void *ctx)
{
    world   *w = *(world **)ctx;
    uint64_t from = htc_rng_below(&w->rng, w->tasks), to = from + 1 + htc_rng_below(&w->rng, w->tasks - from);
    (void)sim;
    htc__flow_submit_cancel(w->submit, (ledger_span){ from, to });
    htc_sim_event(w->client, 0, 0, HTC_OK, htc_bytes_of(NULL)); /* so that it looks */
}

/* Tasks are placed otherwise from now on. */
static void switch_policy(htc_sim *sim, void *ctx)
{
    world *w = *(world **)ctx;
    htc__flow_submit_rule(w->submit, (uint8_t)htc_rng_below(&w->rng, 4));
    htc_sim_event(w->client, 0, 0, HTC_OK, htc_bytes_of(NULL));
    if (!w->audit->ended)
        htc_sim_at(sim, htc_sim_now(sim) + htc_rng_below(&w->rng, HTC_SECOND), switch_policy, &w, sizeof w);
}

/* ---- another flow, which is removed while it is submitted ---- */

static htc_status doomed_boot(void *ctx, htc_sim_node *at)
{
    world              *w = ctx;
    flow_submit_options o = { .given = w->doomed.flow, .number = DOOMED, .tries = 1, .user = "bob", .peer = 1, .client_id = 98, .workers = 3, .removable = 1 };
    htc_status          status = htc__flow_submit_create(htc_sim_env(at), &o, &w->doomed.submit);
    if (status == HTC_OK)
        status = htc_sim_install(at, htc__flow_submit_ops(), w->doomed.submit);
    return status == HTC_OK ? htc_sim_dial(at, 1, w->store, NULL) : status;
}

static htc_status remover_boot(void *ctx, htc_sim_node *at)
{
    world     *w = ctx;
    htc_status status = htc__flow_remove_create(htc_sim_env(at), DOOMED, 1, 97, &w->doomed.remove);
    if (status == HTC_OK)
        status = htc_sim_install(at, htc__flow_remove_ops(), w->doomed.remove);
    return status == HTC_OK ? htc_sim_dial(at, 1, w->store, NULL) : status;
}

/* Whoever submits it is slow, or ends. */
static void hold_up(htc_sim *sim, void *ctx)
{
    world *w = *(world **)ctx;
    (void)sim;
    if (htc_rng_below(&w->rng, 4)) {
        htc_sim_pause(w->doomed.client, htc_rng_below(&w->rng, 100 * HTC_MS));
    } else {
        w->doomed.submit = NULL;
        htc_sim_crash(w->doomed.client);
    }
}

static void remove_doomed(htc_sim *sim, void *ctx)
{
    world *w = *(world **)ctx;
    if (htc__flow_remove_rests(w->doomed.remove)) {
        w->doomed.looks--;
        htc__flow_remove_look(w->doomed.remove);
        htc_sim_event(w->doomed.remover, 0, 0, HTC_OK, htc_bytes_of(NULL));
    }
    if (w->doomed.looks)
        htc_sim_at(sim, htc_sim_now(sim) + htc_rng_below(&w->rng, 60 * HTC_MS), remove_doomed, &w, sizeof w);
}

static void doom(world *w)
{
    htc_rng  rng = htc_sim_rng(w->sim, "doomed");
    uint64_t tasks = 1 + htc_rng_below(&rng, 300);
    int      graph = htc_rng_below(&rng, 4) != 0;
    if (w->seed % 5 != 3)
        return;
    if (htc__flow_draw(NULL, &rng, tasks, graph, htc_rng_below(&rng, 6), FLOW_FUNCTIONS, 0, &w->doomed.flow) != HTC_OK ||
        htc__flow_audit_create(NULL, w->sim, w->doomed.flow, DOOMED, 1, &w->doomed.audit) != HTC_OK)
        abort();
    w->doomed.looks = 6;
}

static void doomed_begin(world *w)
{
    if (!w->doomed.flow)
        return;
    htc_sim_boot(w->doomed.client);
    htc_sim_boot(w->doomed.remover);
    htc_sim_at(w->sim, htc_sim_now(w->sim) + htc_rng_below(&w->rng, 20 * HTC_MS), hold_up, &w, sizeof w);
    htc_sim_at(w->sim, htc_sim_now(w->sim) + htc_rng_below(&w->rng, 40 * HTC_MS), remove_doomed, &w, sizeof w);
}

/* It runs with all its records, or has been removed. */
static int doomed_ended(const world *w)
{
    return !w->doomed.flow || (!w->doomed.looks && htc__flow_remove_rests(w->doomed.remove) && (!w->doomed.submit || htc__flow_submit_done(w->doomed.submit)));
}

static void doomed_check(world *w)
{
    const flow_audit *a = w->doomed.audit;
    if (a && a->has_header && a->header.state != FLOW_RUNNING)
        fail(w, "flow %d does not run, and was not removed", DOOMED);
}

static void doomed_free(world *w)
{
    htc__flow_audit_destroy(w->doomed.audit);
    htc_flow_destroy(w->doomed.flow);
}

/* ---- trouble ---- */

static void trouble(htc_sim *sim, void *ctx)
{
    world *w = *(world **)ctx;
    host_of *n = &w->workers[htc_rng_below(&w->rng, w->n)];
    uint8_t  number[4];
    htc_sim_node *other;
    if (htc_sim_now(sim) >= w->trouble_until)
        return;
    switch (htc_rng_below(&w->rng, w->seed % 8 == 7 ? 6 : 5)) { /* in half of the troubled worlds nobody is wrong about who is gone */
    case 5: /* it is told that another one is gone, which may live */
        htc__le32_put(number, FIRST_PEER + (uint32_t)htc_rng_below(&w->rng, n->peers + 1));
        if (htc_sim_up(n->node))
            htc_sim_event(n->node, 0, HTC_EVENT_REFUSED, HTC_OK, (htc_bytes){ number, sizeof number });
        break;
    case 4: /* it leaves, and comes back */
        if (htc_sim_up(n->node))
            htc_sim_event(n->node, 0, HTC_EVENT_SHUTDOWN, htc_rng_below(&w->rng, 2) ? HTC_OK : HTC_EKILLED, htc_bytes_of(NULL));
        break;
    case 0:
        if (htc_sim_up(n->node))
            kill_and_boot(w, n->node, htc_rng_below(&w->rng, 2) ? htc_rng_below(&w->rng, 200 * HTC_MS) : htc_rng_below(&w->rng, 8 * HTC_SECOND));
        break;
    case 1:
        if (htc_sim_up(n->node) && !htc_sim_paused(n->node))
            htc_sim_pause(n->node, htc_rng_below(&w->rng, htc_rng_below(&w->rng, 3) ? 300 * HTC_MS : 6 * HTC_SECOND));
        break;
    case 2:
        other = htc_rng_below(&w->rng, 2) ? w->store : w->workers[htc_rng_below(&w->rng, w->n)].node;
        htc_sim_clog(n->node, other, htc_rng_below(&w->rng, HTC_SECOND));
        break;
    default: htc_sim_break(n->node, htc_rng_below(&w->rng, 2) ? w->store : w->workers[htc_rng_below(&w->rng, w->n)].node); break;
    }
    htc_sim_at(sim, htc_sim_now(sim) + htc_rng_below(&w->rng, 400 * HTC_MS), trouble, &w, sizeof w);
}

/* ---- a run ---- */

static int  silent;
static char why[300]; /* of the last run that failed */

static const char *const policies[] = { "random", "static", "mesh-2d", "near", "mesh-3d", "one", "two", "log2", "sqrt" };
#define POLICIES        (sizeof policies / sizeof *policies)
#define POLICY_OF(seed) ((seed) / 12 % POLICIES) /* each in turn, with every kind of faults */

typedef struct sums {
    uint64_t tasks, runs, stolen, taken, told, cancelled, events, thieves, made, fetched, lost, remade, pushed, added, taken_in, removed, submitted;
    uint64_t by_policy[POLICIES]; /* stolen */
} sums;

static uint64_t graph_max(uint64_t seed)
{
    return !getenv("HTC_TEST_FULL") ? GRAPH_MAX : seed % 50 == 1 ? GRAPH_LARGE : GRAPH_FULL;
}

static htc_sim_node *add(world *w, const char *name, const htc_sim_host *host, void *ctx)
{
    htc_sim_node        *node = NULL;
    htc_sim_node_options o = { .size = sizeof o, .name = name, .host = host, .ctx = ctx };
    if (htc_sim_add(w->sim, &o, &node) != HTC_OK)
        abort();
    return node;
}

static void print_line(void *ctx, const char *line)
{
    (void)ctx;
    puts(line);
}

static void choose_policy(world *w)
{
    w->steal.size = sizeof w->steal;
    if (htc_registry_create(NULL, &w->registry) != HTC_OK || htc_registry_add_builtin(w->registry) != HTC_OK ||
        htc_steal_find(w->registry, policies[POLICY_OF(w->seed)], &w->steal.policy) != HTC_OK)
        abort();
    w->steal.amount = w->seed % 7 == 6 ? HTC_STEAL_ONE : HTC_STEAL_BY_DEFAULT;
    if (w->seed % 5 == 4)
        w->steal.shape = (htc_steal_shape){ .x = 2, .y = 2 }; /* of a mesh with more than four workers none */
}

/* Of some graphs: no task has more than two parents or three children, for inserted ones stand between. */
static htc_status narrow(world *w)
{
    htc_flow  *given = w->flow, *out = NULL;
    htc_status status = w->graph && w->seed % 8 == 5 ? htc_flow_narrow(NULL, given, 2, 3, &out, NULL) : HTC_OK;
    if (out) {
        w->flow = out;
        w->tasks = htc_flow_total(out);
        htc_flow_destroy(given);
    }
    return status;
}

/* A network on which files of a few hundred bytes take as long as tasks. */
static void draw_places(world *w)
{
    w->places.rule = (uint8_t)htc_rng_below(&w->rng, 4);
    w->places.tt_rule = (uint8_t)htc_rng_below(&w->rng, 3);
    w->places.tt_ns = htc_rng_below(&w->rng, 2) ? 0 : HTC_MS + htc_rng_below(&w->rng, 100 * HTC_MS);
    w->places.bytes_per_s = 1000 + htc_rng_below(&w->rng, 100000);
}

/* seed % 8 == 5: a graph is narrowed. seed % 3: 0 a bag, else a graph; seed % 9: 3 a bag that goes on. seed % 5: 0 some workers join late. seed % 4: 0 no faults, 1 thieves are killed between GIVE and ACCEPT, 2 messages, 3 everything.
 * seed % 5: 2 tasks of a graph add tasks, 3 another flow is removed while it is submitted. */
static int run_seed(uint64_t seed, int traced, sums *total)
{
    static const htc_sim_host stores = { .size = sizeof stores, .boot = store_boot, .commit = store_commit };
    static const htc_sim_host hosts = { .size = sizeof hosts, .boot = worker_boot, .call = worker_call, .ended = worker_ended };
    static const htc_sim_host adds = { .size = sizeof adds, .boot = adding_boot };
    static const htc_sim_host submits = { .size = sizeof submits, .boot = submit_boot };
    static const htc_sim_host doomed = { .size = sizeof doomed, .boot = doomed_boot }, removers = { .size = sizeof removers, .boot = remover_boot };
    world          *w = calloc(1, sizeof *w);
    uint64_t        kind = seed % 4;
    int             adders = seed % 5 != 2 ? 0 : kind && seed / 5 % 2 ? 2 : 1;
    htc_sim_net     net = { .size = sizeof net, .jitter_ns = 200 * HTC_US };
    htc_sim_options o = { .size = sizeof o, .seed = seed, .net = &net, .points_ppm = kind ? 300000 : 0, .trace = traced ? print_line : NULL };
    if (kind >= 2) {
        net.loss_ppm = 20000;
        net.duplicate_ppm = 20000;
        net.reorder_ppm = 20000;
        net.break_ppm = 500;
    }
    if (!w || htc_sim_create(NULL, &o, &w->sim) != HTC_OK || htc_kv_memory_create(NULL, &w->disk) != HTC_OK)
        abort();
    w->rng = htc_sim_rng(w->sim, "world");
    w->seed = seed;
    choose_policy(w);
    w->n = 2 + (uint32_t)htc_rng_below(&w->rng, WORKERS_MAX - 1);
    w->graph = seed % 3 != 0;
    w->tasks = 1 + htc_rng_below(&w->rng, w->graph ? graph_max(seed) : htc_rng_below(&w->rng, 4) ? 400 : TASKS_MAX - 1);
    w->tries = 1 + (uint32_t)htc_rng_below(&w->rng, 3);
    w->cancels = kind > 0 && htc_rng_below(&w->rng, 4) == 0;
    w->work = htc_rng_below(&w->rng, 3) == 0 ? FLOW_FUNCTIONS : w->graph && htc_rng_below(&w->rng, 2) ? FLOW_FILES : FLOW_COMMANDS;
    w->cache = htc_rng_below(&w->rng, 3) ? 0 : 3000000; /* room for a few of the largest that a task reads */
    w->quiet = kind == 0;
    if (htc__flow_draw(NULL, &w->rng, w->tasks, w->graph, htc_rng_below(&w->rng, 6), w->work, adders, &w->flow) != HTC_OK ||
        open_flow(w) != HTC_OK || narrow(w) != HTC_OK || htc__flow_audit_create(NULL, w->sim, w->flow, FLOW, w->tries, &w->audit) != HTC_OK)
        abort();
    w->audit->functions = 1;
    w->audit->few = adders > 1;
    w->harry = adders && kind ? 4 + (int)htc_rng_below(&w->rng, 16) : 0;
    htc__flow_audit_fates(w->audit, &w->rng);
    htc__bag_resumption_init(&w->before, NULL);
    if (!w->graph && seed / 3 % 3 == 1 && htc__flow_audit_goes_on(w->audit, &w->rng, &w->before) != HTC_OK)
        abort();
    if (w->work == FLOW_FILES)
        draw_places(w);
    w->audit->stopped = w->work == FLOW_FILES && seed % 8 == 3; /* what is made again may fail: how its readers end is not known then */
    w->longest = htc_rng_below(&w->rng, 2) ? 2 * HTC_MS : 100 * HTC_MS;
    w->kill_thief = kind == 1 ? 3 : 0;
    htc_buf_init(&w->batch, NULL, 0);
    w->store = add(w, "store", &stores, w);
    w->client = add(w, "client", &submits, w);
    for (uint32_t i = 0; i < w->n; i++) {
        char  name[16];
        host_of *n = &w->workers[i];
        snprintf(name, sizeof name, "worker%u", i);
        *n = (host_of){ .of = w, .self = i };
        n->node = add(w, name, &hosts, n);
        if (!(n->disk = htc__flow_disk_create(w->sim, NULL)))
            abort();
    }
    doom(w);
    if (w->doomed.flow) {
        w->doomed.client = add(w, "doomed", &doomed, w);
        w->doomed.remover = add(w, "remover", &removers, w);
    }
    htc_sim_boot(w->store);
    htc_sim_boot(w->client);
    for (uint32_t i = 0; i < w->n_adding; i++) {
        w->adding[i].of = w;
        w->adding[i].node = add(w, "adds", &adds, &w->adding[i]);
        htc_sim_boot(w->adding[i].node);
    }
    doomed_begin(w);
    for (uint32_t i = 0; i < w->n; i++)
        if (seed % 5 == 0 && htc_rng_below(&w->rng, 2))
            htc_sim_at(w->sim, htc_sim_now(w->sim) + htc_rng_below(&w->rng, 3 * HTC_SECOND), boot_again, &w->workers[i].node, sizeof(htc_sim_node *));
        else
            htc_sim_boot(w->workers[i].node);
    w->trouble_until = htc_sim_now(w->sim) + (kind == 3 ? 20 * HTC_SECOND : 0);
    htc_sim_at(w->sim, htc_sim_now(w->sim) + 50 * HTC_MS, trouble, &w, sizeof w);
    htc_ns end = htc_sim_now(w->sim) + 600 * HTC_SECOND;
    while ((!w->audit->ended || !doomed_ended(w)) && htc_sim_now(w->sim) < end && htc_sim_next(w->sim) == HTC_OK) {
        if (htc_sim_now(w->sim) > w->trouble_until + 60 * HTC_SECOND)
            htc_sim_net_faults(w->sim, 0);
        if (w->work == FLOW_FILES && !w->switching && seed % 7 == 0 && htc__flow_submit_done(w->submit)) {
            w->switching = 1;
            htc_sim_at(w->sim, htc_sim_now(w->sim) + htc_rng_below(&w->rng, HTC_SECOND), switch_policy, &w, sizeof w);
        }
        if (w->cancels && !w->cancelled && htc__flow_submit_done(w->submit)) {
            w->cancelled = 1;
            htc_sim_at(w->sim, htc_sim_now(w->sim) + htc_rng_below(&w->rng, HTC_SECOND), cancel, &w, sizeof w);
        }
    }
    if (!htc_sim_failure(w->sim) && !w->audit->ended) {
        if (traced)
            htc__flow_audit_print(w->audit, print_line, NULL);
        fail(w, "the flow has not ended");
    }
    if (!htc_sim_failure(w->sim))
        htc__flow_audit_end(w->audit);
    if (!htc_sim_failure(w->sim))
        doomed_check(w);
    uint64_t first = w->graph ? 1 + w->tasks / 100 : 1, ledgers = htc__flow_audit_ledgers(w->audit);
    if (!htc_sim_failure(w->sim) && !w->audit->n_added && ledgers > first + 4 * w->n + 4) /* of each worker's lives there are many more */
        fail(w, "%llu ledgers for %u workers", (unsigned long long)ledgers, w->n);
    if (!htc_sim_failure(w->sim) && kind == 0)
        htc__flow_audit_runs(w->audit);
    const char *failure = htc_sim_failure(w->sim);
    snprintf(why, sizeof why, "%s", failure ? failure : "");
    if (failure && !silent)
        printf("seed %llu at %.6f s: %s   (HTC_SEED=%llu shows the trace)\n", (unsigned long long)seed, (double)htc_sim_now(w->sim) / 1e9, failure,
               (unsigned long long)seed);
    int bad = failure != NULL;
    total->tasks += w->audit->tasks;
    total->added += w->audit->tasks - w->tasks;
    for (uint32_t i = 0; i < w->n_adding; i++)
        total->taken_in += w->adding[i].machine ? htc__flow_intake_added(w->adding[i].machine) : 0;
    total->events += htc_sim_events(w->sim);
    total->thieves += (uint64_t)w->thieves_killed;
    total->remade += w->audit->remade;
    total->removed += w->doomed.audit && !w->doomed.audit->has_header;
    total->submitted += w->doomed.audit && w->doomed.audit->has_header;
    for (uint32_t i = 0; i < w->n; i++) {
        htc_worker_figures f = { .size = sizeof f };
        total->runs += w->workers[i].runs;
        if (htc_sim_up(w->workers[i].node))
            (void)htc_worker_look(htc_sim_machine(w->workers[i].node), &f);
        total->stolen += f.stolen;
        total->taken += f.taken;
        total->told += f.tells;
        total->cancelled += f.cancels;
        total->made += f.made;
        total->fetched += f.fetched;
        total->pushed += f.pushed;
        total->lost += htc__flow_disk_lost(w->workers[i].disk);
        htc__flow_disk_destroy(w->workers[i].disk);
        total->by_policy[POLICY_OF(seed)] += f.stolen;
    }
    htc_sim_destroy(w->sim);
    htc_registry_destroy(w->registry);
    htc__bag_resumption_free(&w->before);
    htc__flow_audit_destroy(w->audit);
    htc_flow_destroy(w->flow);
    doomed_free(w);
    htc_buf_free(&w->batch);
    w->disk.ops->destroy(w->disk.ctx);
    free(w);
    return bad;
}

#define RULE_SEEDS 20000

/* What only some worlds can show is looked for there: seed % 5 is 2 where tasks add tasks. */
static uint64_t first_seed(const char *rule, uint64_t *step)
{
    static const char *const adding[] = { "counted_before_created", "drawn_unread", "note_unversioned", "record_deleted" };
    for (size_t i = 0; i < sizeof adding / sizeof *adding; i++)
        if (strcmp(rule, adding[i]) == 0) {
            *step = 5;
            return 2;
        }
    return *step = 1;
}

static int is_noticed(const char *rule)
{
    sums     total = { 0 };
    uint64_t step, seed = first_seed(rule, &step);
    silent = 1;
    htc__broken_set(htc__broken_find(rule), 1);
    while (seed <= RULE_SEEDS && !run_seed(seed, 0, &total))
        seed += step;
    htc__broken_set(htc__broken_find(rule), 0);
    silent = 0;
    if (seed > RULE_SEEDS) {
        printf("%s: nobody notices it in %d seeds\n", rule, RULE_SEEDS);
        return 0;
    }
    printf("%s: seed %llu: %s\n", rule, (unsigned long long)seed, why);
    return run_seed(seed, 0, &total) == 0;
}

int main(void)
{
    const char *one = getenv("HTC_SEED"), *rule = getenv("HTC_BROKEN");
    uint64_t    seeds = getenv("HTC_TEST_LIGHT") ? SEEDS_LIGHT : SEEDS, failed = 0;
    sums        total = { 0 };
    if (rule && one)
        htc__broken_set(htc__broken_find(rule), 1);
    if (one)
        return run_seed(strtoull(one, NULL, 10), 1, &total);
    if (rule)
        return !is_noticed(rule);
    for (uint64_t seed = 1; seed <= seeds; seed++)
        failed += run_seed(seed, 0, &total) != 0;
    printf("%llu seeds: %llu tasks, run %llu times, %llu stolen by those who lived, %llu ledgers taken by them, %llu thieves killed on the way, %llu "
           "children told, %llu events; %llu objects made, %llu fetched by those who lived, %llu lost, %llu tasks made again, %llu pushed, %llu added, some of them in %llu additions from outside; %llu submissions removed, %llu too late; %llu failed\n",
           (unsigned long long)seeds, (unsigned long long)total.tasks, (unsigned long long)total.runs, (unsigned long long)total.stolen,
           (unsigned long long)total.taken, (unsigned long long)total.thieves, (unsigned long long)total.told, (unsigned long long)total.events, (unsigned long long)total.made,
           (unsigned long long)total.fetched, (unsigned long long)total.lost, (unsigned long long)total.remade,
           (unsigned long long)total.pushed, (unsigned long long)total.added, (unsigned long long)total.taken_in,
           (unsigned long long)total.removed, (unsigned long long)total.submitted, (unsigned long long)failed);
    failed += seeds > 100 && (total.pushed < 100 || total.added < 1000 || total.taken_in < 100 || total.remade < 100 || total.fetched < 100 || total.removed < 10 || total.submitted < 10) &&
              printf("too little was pushed, fetched, added, made again, removed or submitted\n");
    for (size_t i = 0; i < POLICIES && seeds > 12 * POLICIES; i++)
        failed += total.by_policy[i] == 0 && printf("by %s nobody steals\n", policies[i]);
    for (size_t i = 0; !getenv("HTC_TEST_LIGHT") && i < sizeof rules / sizeof *rules; i++)
        failed += !is_noticed(rules[i]);
    return failed != 0;
}
