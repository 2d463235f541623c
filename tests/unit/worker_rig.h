/* A worker by hand, over a real store in one process: everything is delivered at once and in order, time stands still until the test lets it
 * pass, and the test answers what is asked of the host, unless it leaves that to the rig. Faults of many workers together are the world's
 * business (tests/world/test_worker.c). */
#ifndef WORKER_RIG_H
#define WORKER_RIG_H

#include <stdlib.h>
#include <string.h>

#include "alloc_fail.h"
#include "core/wire.h"
#include "htcsched/client.h"
#include "htcsched/calls.h"
#include "htcsched/kv_server.h"
#include "htcsched/work.h"
#include "htcsched/worker.h"
#include "kvs/wire/kv_wire.h"
#include "roles/runtime/agent_wire.h"
#include "roles/runtime/span_wire.h"
#include "roles/worker/flow.h"
#include "roles/worker/graph_task.h"
#include "roles/runtime/objects_wire.h"
#include "roles/worker/worker_wire.h"

#define RIG_FLOW   7u
#define RIG_STORE  1u /* the worker's number of the store; the store knows it by the same */
#define RIG_CLIENT 2u /* the test's own */
#define RIG_KEPT   256u
#define RIG_ADDS   2 /* for data: tasks add tasks */

typedef struct rig_post {
    uint8_t          to; /* 0: the store, else RIG_STORE: the worker, RIG_CLIENT: the test */
    htc_input        in; /* its body is a copy */
    struct rig_post *next;
} rig_post;

typedef struct rig_said {
    uint32_t       peer;
    uint16_t       type;
    worker_message m;
} rig_said;

typedef struct rig {
    htc_rng        rng, worker_rng;
    alloc_fail    *fail; /* of the worker; NULL: none fails */
    htc_env        env, worker_env;
    htc_kv_server *server;
    htc_worker    *worker;
    htc_kv_client *client;
    htc_output    *out, *worker_out;
    htc_ns         now;
    rig_post      *posts;
    int            busy;
    flow_places    places;  /* of the header that is written */
    const char    *printed; /* what tasks print that add others, and what each function leaves; NULL: nothing */
    /* How a function goes, and what it leaves: HTC_OK; HTC_AGAIN: it is not run now; else it fails so. NULL: all end well. */
    htc_status (*function)(struct rig *r, uint64_t id, const char **leaves);
    int            here;    /* every object that is wanted is on the disk */
    int            held;    /* calls for room for objects are left to the test, too */
    uint32_t       left;    /* calls of the host are left to the test: rig_answer; else all ends well */
    uint32_t       n_calls, n_said;
    htc_effect     calls[RIG_KEPT]; /* the last ones; bodies: the run alone, in tag */
    uint64_t       runs[RIG_KEPT];
    rig_said       said[RIG_KEPT]; /* to other workers */
    uint32_t       asked[80];      /* calls, by op */
    uint32_t       last_peer;
    uint64_t       steps; /* of the worker */
    int            ended; /* HTC_OUT_STOP, or a step that answered an error */
    htc_status     status;
    /* What the store answers is answered otherwise: the status of operation i. */
    htc_status (*answers)(void *ctx, uint32_t i, htc_status status);
    void *ctx;
} rig;

static inline void rig_post_to(rig *r, uint8_t to, htc_input in)
{
    rig_post *p = calloc(1, sizeof *p), **end = &r->posts;
    uint8_t  *bytes = malloc(in.body.len + 1);
    if (!p || !bytes)
        abort();
    in.size = sizeof in;
    if (in.body.len)
        memcpy(bytes, in.body.data, in.body.len);
    in.body.data = bytes;
    *p = (rig_post){ .to = to, .in = in };
    while (*end)
        end = &(*end)->next;
    *end = p;
}

static inline void rig_store_step(rig *r, const htc_input *in)
{
    htc_effect e;
    htc_output_clear(r->out);
    if (htc_kv_server_ops()->step(r->server, in, r->out) != HTC_OK)
        abort();
    for (size_t i = 0; htc_output_get(r->out, i, &e) == HTC_OK; i++)
        if (e.kind == HTC_OUT_COMMIT)
            rig_post_to(r, 0, (htc_input){ .kind = HTC_IN_STORED, .tag = e.tag });
        else if (e.kind == HTC_OUT_MESSAGE)
            rig_post_to(r, (uint8_t)e.peer, (htc_input){ .kind = HTC_IN_MESSAGE, .peer = e.peer, .body = e.body });
}

/* An answer of the store to the worker, as the test wants it to be. */
static inline void rig_change_answer(rig *r, htc_input *in, htc_buf *b)
{
    uint16_t            type;
    uint64_t            id;
    htc__kv_answer_head head;
    htc_reader          at = htc_wire_open(in->body, &type, &id);
    if (!r->answers || at.status != HTC_OK || type != HTC_WIRE_KV_ANSWER)
        return;
    htc__kv_answer_read(&at, &head);
    htc__kv_answer_begin(b, id, &head);
    for (uint32_t i = 0; i < head.count && at.status == HTC_OK; i++) {
        htc_kv_result result = { .size = sizeof result };
        htc__kv_result_read(&at, &result);
        htc_status status = r->answers(r->ctx, i, result.status);
        if (status != result.status)
            result = (htc_kv_result){ .size = sizeof result, .status = status };
        htc__kv_result_write(b, &result);
    }
    if (at.status != HTC_OK)
        return;
    htc__kv_answer_end(b, head.count, head.more);
    in->body = htc_buf_bytes(b);
}

static inline void rig_answer(rig *r, const htc_effect *e, htc_status status, htc_bytes body)
{
    rig_post_to(r, RIG_STORE, (htc_input){ .kind = HTC_IN_RESULT, .op = e->op, .tag = e->tag, .status = status, .body = body });
}

/* What a task has left is an object from then on, and whatever is staged in is here. */
static inline void rig_object_call(rig *r, const htc_effect *e)
{
    htc_reader in = htc_reader_of(e->body);
    uint8_t    hash[32];
    htc_buf    b;
    htc_buf_init(&b, NULL, 0);
    if (e->op == HTC_CALL_OBJECT_OUTPUT) {
        htc_attempt attempt;
        htc_read_attempt(&in, &attempt);
        htc_content_hash(htc_get_bytes(&in), hash);
        htc_put_raw(&b, (htc_bytes){ hash, sizeof hash });
        htc_put_u64(&b, 5);
    }
    if (e->op == HTC_CALL_OBJECT_ROOM)
        htc_put_u64(&b, 0);
    rig_answer(r, e, e->op == HTC_CALL_OBJECT_ROOM && r->here ? HTC_EEXISTS : HTC_OK, htc_buf_bytes(&b));
    htc_buf_free(&b);
}

/* A run that ends so. */
static inline void rig_ends(rig *r, const htc_effect *run, htc_status how)
{
    htc_outcome o = { .status = how, .exit_code = how == HTC_EEXIT ? 7 : 0, .started = r->now + 1, .ended = r->now + 1 };
    htc_buf     b;
    htc_buf_init(&b, NULL, 0);
    htc_outcome_write(&b, &o);
    rig_answer(r, run, HTC_OK, htc_buf_bytes(&b));
    htc_buf_free(&b);
}

static inline void rig_span_ends(rig *r, const htc_effect *e)
{
    htc__span_request q;
    htc__span_answer  a = { .begin = r->now + 1, .end = r->now + 1 };
    htc_buf           failed, ranges, outputs, b;
    htc_buf_init(&failed, NULL, 0);
    htc_buf_init(&ranges, NULL, 0);
    htc_buf_init(&outputs, NULL, 0);
    htc_buf_init(&b, NULL, 0);
    if (htc__span_request_read(e->body, &q) != HTC_OK)
        abort();
    for (uint64_t id = q.from; id < q.to; id++) {
        const char *leaves = r->printed;
        htc_status  status = r->function ? r->function(r, id, &leaves) : HTC_OK;
        a.done += status == HTC_OK;
        a.failed += status != HTC_OK && status != HTC_AGAIN;
        if (status == HTC_AGAIN) { /* nor is what comes after it */
            htc__span_put_range(&ranges, id, q.to);
            a.ranges = 1;
            a.why = HTC_AGAIN;
            break;
        }
        if (status != HTC_OK)
            htc__span_put_failure(&failed, &(htc__span_failure){ .number = id, .status = status, .reason = "it said so" });
        else if (leaves && ++a.outputs)
            htc__span_put_output(&outputs, id, htc_bytes_of(leaves));
    }
    a.failed_list = htc_buf_bytes(&failed);
    a.range_list = htc_buf_bytes(&ranges);
    a.output_list = htc_buf_bytes(&outputs);
    htc__span_answer_write(&b, &a);
    rig_answer(r, e, HTC_OK, htc_buf_bytes(&b));
    htc_buf_free(&failed);
    htc_buf_free(&ranges);
    htc_buf_free(&outputs);
    htc_buf_free(&b);
}

static inline void rig_call(rig *r, const htc_effect *e)
{
    htc_stored stored = { 0 };
    htc_buf    b;
    htc_buf_init(&b, NULL, 0);
    r->calls[r->n_calls++ % RIG_KEPT] = (htc_effect){ .kind = e->kind, .op = e->op, .tag = e->tag };
    r->asked[e->op % 80]++;
    if (e->op == HTC_CALL_DIAL) {
        htc_put_u32(&b, 10 + ++r->last_peer);
        rig_answer(r, e, HTC_OK, htc_buf_bytes(&b));
        rig_post_to(r, RIG_STORE, (htc_input){ .kind = HTC_IN_OPENED, .peer = 10 + r->last_peer });
    } else if (e->op == HTC_CALL_OBJECT_ROOM && r->held) {
        ; /* the test answers */
    } else if (e->op >= HTC_CALL_OBJECT_ROOM && e->op <= HTC_CALL_OBJECT_OUTPUT) {
        rig_object_call(r, e);
    } else if (e->op == HTC_CALL_OUTPUT_READ) {
        htc_put_bytes(&b, htc_bytes_of(r->printed));
        rig_answer(r, e, r->printed ? HTC_OK : HTC_ENOTFOUND, htc_buf_bytes(&b));
    } else if (e->op == HTC_CALL_STAGE_IN && !r->left) {
        rig_answer(r, e, HTC_OK, htc_bytes_of(NULL));
    } else if (e->op == HTC_CALL_RUN && !r->left) {
        rig_ends(r, e, HTC_OK);
    } else if (e->op == HTC_CALL_RUN_SPAN && !r->left) {
        rig_span_ends(r, e);
    } else if (e->op == HTC_CALL_STAGE_OUT && !r->left) {
        htc_stored_write(&b, &stored);
        rig_answer(r, e, HTC_OK, htc_buf_bytes(&b));
    }
    htc_buf_free(&b);
}

static inline void rig_hear(rig *r, const htc_effect *e)
{
    rig_said   s = { .peer = e->peer };
    uint64_t   id;
    htc_reader in = htc_wire_open(e->body, &s.type, &id);
    if (s.type >= HTC_WIRE_WORKER_LOAD_ASK && s.type < HTC_WIRE_OBJECT_ASK && htc__worker_read(&in, &s.m) != HTC_OK)
        abort();
    if (s.type == HTC_WIRE_OBJECT_ASK) { /* no other worker here has any */
        object_message m;
        htc_buf        b;
        htc_buf_init(&b, NULL, 0);
        if (htc__object_read(&in, s.type, &m) != HTC_OK)
            abort();
        m.status = HTC_ENOTFOUND;
        htc__object_write(&b, HTC_WIRE_OBJECT_NONE, &m);
        rig_post_to(r, RIG_STORE, (htc_input){ .kind = HTC_IN_MESSAGE, .peer = e->peer, .body = htc_buf_bytes(&b) });
        htc_buf_free(&b);
    }
    r->said[r->n_said++ % RIG_KEPT] = s;
}

static inline void rig_worker_step(rig *r, const htc_input *given)
{
    htc_input  in = *given;
    htc_effect e;
    htc_buf    b;
    if (!r->worker || r->ended)
        return;
    r->steps++;
    htc_buf_init(&b, NULL, 0);
    if (in.kind == HTC_IN_MESSAGE && in.peer == RIG_STORE)
        rig_change_answer(r, &in, &b);
    htc_output_clear(r->worker_out);
    htc_status status = htc_worker_ops()->step(r->worker, &in, r->worker_out);
    if (status != HTC_OK) {
        r->ended = 1;
        r->status = status;
    }
    for (size_t i = 0; htc_output_get(r->worker_out, i, &e) == HTC_OK; i++)
        if (e.kind == HTC_OUT_MESSAGE && e.peer == RIG_STORE) {
            rig_post_to(r, 0, (htc_input){ .kind = HTC_IN_MESSAGE, .peer = RIG_STORE, .body = e.body });
        } else if (e.kind == HTC_OUT_MESSAGE) {
            rig_hear(r, &e);
        } else if (e.kind == HTC_OUT_CALL) {
            rig_call(r, &e);
        } else if (e.kind == HTC_OUT_STOP) {
            r->ended = 1;
            r->status = e.status;
        }
    htc_buf_free(&b);
}

static inline void rig_client_sends(rig *r)
{
    htc_effect e;
    for (size_t i = 0; htc_output_get(r->out, i, &e) == HTC_OK; i++)
        rig_post_to(r, 0, (htc_input){ .kind = HTC_IN_MESSAGE, .peer = RIG_CLIENT, .body = e.body });
}

static inline void rig_client_step(rig *r, const htc_input *in)
{
    htc_output_clear(r->out);
    if (htc_kv_client_step(r->client, in, r->out) != HTC_OK)
        abort();
    rig_client_sends(r);
}

/* One input; 0: there is none. */
static inline int rig_one(rig *r)
{
    rig_post *p = r->posts;
    if (!p)
        return 0;
    r->posts = p->next;
    p->in.now = p->in.wall = r->now;
    if (p->to == 0)
        rig_store_step(r, &p->in);
    else if (p->to == RIG_STORE)
        rig_worker_step(r, &p->in);
    else
        rig_client_step(r, &p->in);
    free((void *)(uintptr_t)p->in.body.data);
    free(p);
    return 1;
}

static inline void rig_run(rig *r)
{
    while (rig_one(r))
        ;
}

/* Let span pass: worker and store are woken when they want to be. */
static inline void rig_pass(rig *r, htc_ns span)
{
    htc_ns end = r->now + span;
    rig_run(r);
    for (;;) {
        htc_ns of_worker = r->worker && !r->ended ? htc_worker_ops()->deadline(r->worker) : HTC_NEVER, of_store = htc_kv_server_ops()->deadline(r->server);
        htc_ns at = of_worker < of_store ? of_worker : of_store;
        if (at > end)
            break;
        r->now = at > r->now ? at : r->now;
        rig_post_to(r, (uint8_t)(at == of_store ? 0 : RIG_STORE), (htc_input){ .kind = HTC_IN_TIMEOUT });
        rig_run(r);
    }
    r->now = end;
}

/* ---- the test's own requests ---- */

static inline htc_status rig_ask(rig *r, const htc_kv_request *q, htc_kv_result *result)
{
    htc_kv_result own = { .size = sizeof own }, *to = result ? result : &own;
    htc_output_clear(r->out);
    if (htc_kv_client_submit(r->client, r->now, q, 1, 1, r->out) != HTC_OK)
        abort();
    rig_client_sends(r);
    to->size = sizeof *to;
    while (!htc_kv_client_next(r->client, to))
        if (!rig_one(r))
            abort();
    return to->status;
}

static inline void rig_put(rig *r, const flow_key *k, htc_bytes value)
{
    if (rig_ask(r, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_PUT, .key = htc__flow_key_bytes(k), .value = value }, NULL) != HTC_OK)
        abort();
}

static inline void rig_put_bound(rig *r, const flow_key *k, htc_bytes value, uint64_t lease)
{
    if (rig_ask(r, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_PUT, .key = htc__flow_key_bytes(k), .value = value, .lease = lease }, NULL) != HTC_OK)
        abort();
}

static inline void rig_delete(rig *r, const flow_key *k)
{
    (void)rig_ask(r, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_DELETE, .key = htc__flow_key_bytes(k) }, NULL);
}

static inline void rig_write_header(rig *r, const flow *f)
{
    flow_key k = htc__flow_key_header(RIG_FLOW);
    htc_buf  b;
    htc_buf_init(&b, NULL, 0);
    htc__flow_write(&b, f);
    rig_put(r, &k, htc_buf_bytes(&b));
    htc_buf_free(&b);
}

static inline void rig_put_header_of(rig *r, flow_state state, flow_kind kind, uint64_t tasks, int data)
{
    htc_task task = { .executable = "/bin/true", .values_json = "{}", .limits = { .cores = 1 } };
    flow     f = { .places = r->places, .state = (uint8_t)state, .kind = (uint8_t)kind, .data = (uint8_t)data, .tasks = tasks, .tries = 2, .max_fails = UINT64_MAX,
                   .user = "ada" };
    if (htc_task_to_bytes(NULL, &task, &f.task) != HTC_OK)
        abort();
    f.adds = data == RIG_ADDS;
    f.data = data == 1;
    rig_write_header(r, &f);
    htc_work_free(NULL, f.task);
}

static inline void rig_put_header(rig *r, flow_state state, flow_kind kind, uint64_t tasks)
{
    rig_put_header_of(r, state, kind, tasks, 0);
}

static inline void rig_put_ledger(rig *r, uint64_t number, const ledger *l)
{
    flow_key k = htc__flow_key_ledger(RIG_FLOW, number);
    htc_buf  b;
    htc_buf_init(&b, NULL, 0);
    htc__ledger_write(&b, l);
    rig_put(r, &k, htc_buf_bytes(&b));
    htc_buf_free(&b);
}

static inline int rig_get_ledger(rig *r, uint64_t number, ledger *l)
{
    flow_key      k = htc__flow_key_ledger(RIG_FLOW, number);
    htc_kv_result result = { 0 };
    return rig_ask(r, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = htc__flow_key_bytes(&k) }, &result) == HTC_OK &&
           htc__ledger_read(result.value, l) == HTC_OK;
}

static inline int rig_get_header(rig *r, flow *f)
{
    flow_key      k = htc__flow_key_header(RIG_FLOW);
    htc_kv_result result = { 0 };
    return rig_ask(r, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = htc__flow_key_bytes(&k) }, &result) == HTC_OK &&
           htc__flow_read(result.value, f) == HTC_OK;
}

/* A bag of so many tasks in ledger 0. */
static inline void rig_put_bag(rig *r, uint64_t tasks)
{
    ledger l;
    htc__ledger_init(&l, (ledger_span){ 0, tasks });
    rig_put_ledger(r, 0, &l);
    rig_put_header(r, FLOW_RUNNING, FLOW_BAG, tasks);
}

/* A chain of so many tasks in ledger 0: each waits for the one before it. */
static inline void rig_put_chain(rig *r, uint64_t tasks)
{
    ledger l;
    htc__ledger_init(&l, (ledger_span){ 0, tasks });
    rig_put_ledger(r, 0, &l);
    for (uint64_t id = 0; id < tasks; id++) {
        uint8_t    parent = GRAPH_EDGE(GRAPH_RULE_OK);
        flow_key   k = htc__flow_key_task(RIG_FLOW, id);
        htc_buf    b, child;
        graph_task t = { .state = GRAPH_OPEN, .parents = { &parent, id > 0 } };
        htc_buf_init(&b, NULL, 0);
        htc_buf_init(&child, NULL, 0);
        htc_put_u64(&child, id + 1);
        htc_put_u32(&child, 0);
        if (id + 1 < tasks)
            t.children = htc_buf_bytes(&child);
        htc__graph_write(&b, &t);
        rig_put(r, &k, htc_buf_bytes(&b));
        htc_buf_free(&b);
        htc_buf_free(&child);
    }
    rig_put_header(r, FLOW_RUNNING, FLOW_GRAPH, tasks);
}

static inline void rig_put_task(rig *r, uint64_t id, const graph_task *t)
{
    flow_key k = htc__flow_key_task(RIG_FLOW, id);
    htc_buf  b;
    htc_buf_init(&b, NULL, 0);
    htc__graph_write(&b, t);
    rig_put(r, &k, htc_buf_bytes(&b));
    htc_buf_free(&b);
}

/* t lies in bytes. */
static inline int rig_get_task(rig *r, uint64_t id, htc_buf *bytes, graph_task *t)
{
    flow_key      k = htc__flow_key_task(RIG_FLOW, id);
    htc_kv_result result = { 0 };
    htc_buf_clear(bytes);
    if (rig_ask(r, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = htc__flow_key_bytes(&k) }, &result) != HTC_OK)
        return 0;
    htc_put_raw(bytes, result.value);
    return htc__graph_read(htc_buf_bytes(bytes), t) == HTC_OK;
}

#define RIG_ADDED "first: /bin/true\nsecond: after=first:any /bin/true\nthird: /bin/true\n"

/* Tasks that wait for nothing; the first prints what is to be added, or of functions, which are equal, leaves it. */
static inline void rig_put_adder_of(rig *r, uint64_t tasks, int functions)
{
    htc_task  task = { .executable = "/bin/true", .values_json = "{}", .limits = { .cores = 1 } };
    ledger    l;
    htc_bytes bytes;
    if (functions)
        task = (htc_task){ .values_json = "{}", .limits = { .cores = 1 }, .kind = HTC_TASK_FUNCTION, .object = "/lib/f.so", .function = "f", .directory = "/work" };
    if (htc_task_to_bytes(NULL, &task, &bytes) != HTC_OK)
        abort();
    htc__ledger_init(&l, (ledger_span){ 0, tasks });
    rig_put_ledger(r, 0, &l);
    for (uint64_t id = 0; id < tasks; id++)
        rig_put_task(r, id, &(graph_task){ .state = GRAPH_OPEN, .name = htc_bytes_of(id ? "other" : "adder"), .task = bytes, .adds = id == 0 });
    htc_work_free(NULL, bytes);
    r->printed = RIG_ADDED;
    rig_put_header_of(r, FLOW_RUNNING, FLOW_GRAPH, tasks, RIG_ADDS);
}

static inline void rig_put_adder(rig *r, uint64_t tasks)
{
    rig_put_adder_of(r, tasks, 0);
}

#define RIG_MAKER 77u /* the worker that ran task 0 of a chain of files, and is gone */

/* A chain in which each task reads "out" of the one before and makes its own. done: the first has run, at RIG_MAKER. */
static inline void rig_put_files(rig *r, uint64_t tasks, int done)
{
    htc_task     task = { .executable = "/bin/true", .values_json = "{}", .limits = { .cores = 1 } };
    graph_object object = { .size = 5 };
    ledger       l;
    htc_bytes    bytes;
    if (htc_task_to_bytes(NULL, &task, &bytes) != HTC_OK)
        abort();
    htc_content_hash(htc_bytes_of("out"), object.hash);
    htc__ledger_init(&l, (ledger_span){ done != 0, tasks });
    l.counts.done = done != 0;
    rig_put_ledger(r, 0, &l);
    for (uint64_t id = 0; id < tasks; id++) {
        uint8_t    parent = GRAPH_EDGE(GRAPH_RULE_OK) | (done && id == 1 ? GRAPH_ENDED_OK : GRAPH_NOT_TOLD);
        htc_buf    child, reads, makes, made;
        graph_task t = { .state = done && id == 0 ? GRAPH_DONE : GRAPH_OPEN, .parents = { &parent, id > 0 }, .task = bytes };
        htc_buf_init(&child, NULL, 0);
        htc_buf_init(&reads, NULL, 0);
        htc_buf_init(&makes, NULL, 0);
        htc_buf_init(&made, NULL, 0);
        htc_put_u64(&child, id + 1);
        htc_put_u32(&child, 0);
        if (id) {
            htc_put_u64(&reads, id - 1);
            htc_put_str(&reads, "out");
        }
        htc_put_str(&makes, "out");
        if (t.state == GRAPH_DONE) {
            htc__graph_put_made(&made, &object);
            t.outcome = (graph_outcome){ .worker = RIG_MAKER, .epoch = 5, .attempt = 1, .ended = 1 };
            t.made_by = RIG_MAKER;
        }
        if (id + 1 < tasks)
            t.children = htc_buf_bytes(&child);
        t.reads = htc_buf_bytes(&reads);
        t.makes = htc_buf_bytes(&makes);
        t.made = htc_buf_bytes(&made);
        rig_put_task(r, id, &t);
        htc_buf_free(&child);
        htc_buf_free(&reads);
        htc_buf_free(&makes);
        htc_buf_free(&made);
    }
    htc_work_free(NULL, bytes);
    rig_put_header_of(r, FLOW_RUNNING, FLOW_GRAPH, tasks, 1);
}

/* ---- another worker ---- */

/* It is there, and has called. Its number as a peer of the worker is the answer. */
static inline uint32_t rig_other_bound(rig *r, uint64_t id, uint64_t epoch, uint64_t lease)
{
    flow_key    k = htc__flow_key_worker(RIG_FLOW, id);
    flow_worker f = { .epoch = epoch, .slots = 1, .address = "there" };
    htc_buf     b;
    htc_buf_init(&b, NULL, 0);
    htc__flow_worker_write(&b, &f);
    rig_put_bound(r, &k, htc_buf_bytes(&b), lease);
    rig_run(r);
    htc_buf_free(&b);
    return 10 + r->last_peer;
}

static inline uint32_t rig_other_worker(rig *r, uint64_t id, uint64_t epoch)
{
    return rig_other_bound(r, id, epoch, 0);
}

/* It looks for the end. */
static inline void rig_put_collector(rig *r, uint64_t id, uint64_t epoch)
{
    flow_key k = htc__flow_key_collector(RIG_FLOW);
    htc_buf  b;
    htc_buf_init(&b, NULL, 0);
    htc_put_u64(&b, id);
    htc_put_u64(&b, epoch);
    rig_put(r, &k, htc_buf_bytes(&b));
    htc_buf_free(&b);
}

static inline void rig_say(rig *r, uint32_t peer, uint16_t type, worker_message m)
{
    htc_buf b;
    htc_buf_init(&b, NULL, 0);
    m.flow = m.flow ? m.flow : RIG_FLOW;
    htc__worker_write(&b, type, &m);
    rig_post_to(r, RIG_STORE, (htc_input){ .kind = HTC_IN_MESSAGE, .peer = peer, .body = htc_buf_bytes(&b) });
    htc_buf_free(&b);
    rig_run(r);
}

/* The last message of that type; NULL: none was said. */
static inline const rig_said *rig_heard(const rig *r, uint16_t type)
{
    for (uint32_t i = r->n_said; i > 0 && i + RIG_KEPT > r->n_said; i--)
        if (r->said[(i - 1) % RIG_KEPT].type == type)
            return &r->said[(i - 1) % RIG_KEPT];
    return NULL;
}

/* ---- begin and end ---- */

/* A connection between the store and the worker, or the test. */
static inline void rig_connect(rig *r, uint32_t peer)
{
    htc_buf b;
    htc_buf_init(&b, NULL, 0);
    htc_peer_info_write(&b, &(htc_peer_info){ .transport = HTC_TRANSPORT_SIM });
    rig_post_to(r, 0, (htc_input){ .kind = HTC_IN_OPENED, .peer = peer, .body = htc_buf_bytes(&b) });
    rig_post_to(r, (uint8_t)peer, (htc_input){ .kind = HTC_IN_OPENED, .peer = peer, .body = htc_buf_bytes(&b) });
    htc_buf_free(&b);
}

static inline void rig_open(rig *r, uint64_t seed)
{
    htc_kv_server_options o = { .size = sizeof o };
    htc_kv_client_options c = { .size = sizeof c, .client_id = 4711, .peer = RIG_CLIENT };
    *r = (rig){ .rng = { seed }, .worker_rng = { seed + 1 }, .now = HTC_SECOND };
    r->env = (htc_env){ .size = sizeof r->env, .rng = &r->rng };
    if (htc_kv_server_create(&r->env, &o, &r->server) != HTC_OK || htc_kv_client_create(&r->env, &c, &r->client) != HTC_OK ||
        htc_output_create(NULL, 0, &r->out) != HTC_OK || htc_output_create(NULL, 0, &r->worker_out) != HTC_OK)
        abort();
    rig_post_to(r, 0, (htc_input){ .kind = HTC_IN_START });
    rig_connect(r, RIG_CLIENT);
    rig_run(r);
}

static inline htc_worker_options rig_options(void)
{
    htc_worker_options o = HTC_WORKER_OPTIONS_INIT;
    o.flow = RIG_FLOW;
    o.id = 1;
    o.address = "here";
    o.store_client_id = 4712;
    o.store_peer = RIG_STORE;
    o.slots = 2;
    return o;
}

/* f: its allocations; NULL: none is refused. */
static inline void rig_start(rig *r, const htc_worker_options *o, alloc_fail *f)
{
    r->worker_env = f ? alloc_fail_env(f) : (htc_env){ .size = sizeof r->worker_env };
    r->worker_env.rng = &r->worker_rng;
    r->status = htc_worker_create(&r->worker_env, o, &r->worker);
    r->ended = r->status != HTC_OK;
    rig_post_to(r, RIG_STORE, (htc_input){ .kind = HTC_IN_START });
    rig_connect(r, RIG_STORE);
    rig_run(r);
}

static inline void rig_end(rig *r, htc_worker **worker)
{
    htc_worker_ops()->destroy(*worker);
    *worker = NULL;
    rig_post_to(r, 0, (htc_input){ .kind = HTC_IN_CLOSED, .peer = RIG_STORE });
    rig_run(r);
}

static inline void rig_close(rig *r)
{
    if (r->worker)
        rig_end(r, &r->worker);
    htc_kv_client_destroy(r->client);
    htc_kv_server_ops()->destroy(r->server);
    htc_output_destroy(r->out);
    htc_output_destroy(r->worker_out);
}

#endif
