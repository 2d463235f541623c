/* One flow over workers and a store, without faults: what it costs (htcsched/sim_flow.h). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/util.h"
#include "htcsched/calls.h"
#include "htcsched/dag.h"
#include "htcsched/kv_engine.h"
#include "htcsched/kv_server.h"
#include "htcsched/sim.h"
#include "htcsched/sim_flow.h"
#include "htcsched/worker.h"
#include "kvs/cell/cell.h"
#include "roles/runtime/agent_wire.h"
#include "roles/runtime/span_wire.h"
#include "sim/scenarios/flow_submit.h"
#include "sim/scenarios/twin.h"

#define FLOW       1
#define PEER_STORE 1
#define JOIN_MAX   (600 * HTC_SECOND)
#define STAGED_MAX 512 /* runs of a worker that are under way */

_Static_assert(PEER_STORE + HTC_SIM_FLOW_WORKERS_MAX <= HTC_SIM_PEER_FIRST, "a worker has a number for each of the others");

typedef struct study study;

typedef struct study_worker {
    study        *of;
    uint32_t      self, last_peer;
    htc_sim_node *node;
    uint64_t      ran;
    struct {
        uint64_t run, task;
    } staged[STAGED_MAX];
} study_worker;

struct study {
    htc_env              env;
    htc_sim             *sim;
    const htc_flow      *flow;
    htc_sim_flow_options options;
    htc_kv_engine        disk;
    htc_buf              batch;
    uint64_t             tag, commits, ran;
    htc_sim_node        *store, *client;
    flow_submit         *submit;
    study_worker        *workers;
    uint32_t             busy;
    int                  no_memory, stopped; /* stopped: by the host */
    twin                 twin; /* of it the host alone */
    uint64_t             steps;
    htc_ns               begun, ended; /* durably; 0: not yet */
    htc_rng              rng;
};

/* The flow's task with this number. */
static uint32_t entry_of(const htc_flow *f, uint64_t number)
{
    uint32_t from = 0, to = htc_flow_count(f);
    while (to - from > 1) {
        uint32_t middle = from + (to - from) / 2;
        if (htc_flow_first(f, middle) <= number)
            from = middle;
        else
            to = middle;
    }
    return from;
}

static htc_ns length_of(const htc_flow *f, uint32_t entry)
{
    const htc_flow_task *t = htc_flow_get(f, entry);
    if (t->run)
        return t->run;
    return t->builtin == HTC_FLOW_SLEEP || t->builtin == HTC_FLOW_SPIN ? t->amount : 0;
}

/* ---- the store ---- */

static void see_header(study *y, htc_bytes value)
{
    flow f;
    if (htc__flow_read(value, &f) != HTC_OK)
        return;
    if (f.state == FLOW_RUNNING && !y->begun)
        y->begun = htc_sim_now(y->sim);
    if (f.state == FLOW_ENDED && !y->ended)
        y->ended = htc_sim_now(y->sim);
    if (f.state == FLOW_ENDED && f.counts.done != f.tasks)
        htc_sim_fail(y->sim, "the flow has ended, and not all of its tasks are done");
}

static void see_batch(study *y, htc_bytes batch)
{
    htc_kv_change change;
    size_t        at = 0;
    flow_key      header = htc__flow_key_header(FLOW);
    while (htc_kv_batch_next(batch, &at, &change) == 1) {
        htc__kv_cell cell;
        htc_bytes    payload;
        if (change.drop || change.key.len != header.len + 1 || memcmp((const char *)change.key.data + 1, header.text, header.len) != 0)
            continue;
        if (htc__kv_unseal(change.value, change.key, &payload) == HTC_OK && htc__kv_cell_read(payload, NULL, &cell) == HTC_OK && !cell.deleted)
            see_header(y, cell.value);
    }
}

static void durable(htc_sim *sim, void *ctx)
{
    study     *y = ctx;
    htc_bytes  batch = htc_buf_bytes(&y->batch);
    htc_status status = y->batch.status == HTC_OK ? y->disk.ops->apply(y->disk.ctx, batch) : y->batch.status;
    (void)sim;
    if (status != HTC_OK) {
        y->no_memory = 1;
        htc_sim_fail(y->sim, "the store has no memory");
    }
    see_batch(y, batch);
    htc_sim_stored(y->store, 0, y->tag, status);
}

static htc_status store_commit(void *ctx, htc_sim_node *node, const htc_effect *effect)
{
    study *y = ctx;
    (void)node;
    y->tag = effect->tag;
    y->commits++;
    htc_buf_clear(&y->batch);
    htc_put_raw(&y->batch, effect->body);
    return htc_sim_at(y->sim, htc_sim_now(y->sim) + y->options.commit_ns, durable, y, 0);
}

static htc_status store_boot(void *ctx, htc_sim_node *node)
{
    study                *y = ctx;
    htc_kv_server_options o = { .size = sizeof o, .engine = y->disk, .connections_max = y->options.workers + 1 };
    htc_kv_server        *server = NULL;
    htc_status            status = htc_kv_server_create(htc_sim_env(node), &o, &server);
    return status != HTC_OK ? status : htc_sim_install(node, htc_kv_server_ops(), server);
}

/* ---- workers and what their hosts do ---- */

static htc_status dial(study_worker *w, htc_sim_node *node, const htc_effect *effect)
{
    char       address[32];
    htc_reader r = htc_reader_of(effect->body);
    uint8_t    room[8];
    htc_buf    b = { .data = room, .cap = sizeof room, .max = sizeof room };
    htc_get_str(&r, address, sizeof address);
    unsigned long other = strtoul(address, NULL, 10);
    uint32_t      peer = PEER_STORE + ++w->last_peer;
    if (other >= w->of->options.workers)
        return HTC_EUNSUPPORTED;
    htc_status status = htc_sim_dial(node, peer, w->of->workers[other].node,
                                     &(htc_sim_dial_options){ .size = sizeof(htc_sim_dial_options), .refused = HTC_EVENT_REFUSED });
    if (status == HTC_EINVAL) /* a worker goes on without who cannot be called, and the figures would be of another group */
        return htc_sim_fail(w->of->sim, "a worker cannot be dialled");
    htc_put_u32(&b, peer);
    return status != HTC_OK ? status : htc_sim_result(node, 0, effect, HTC_OK, htc_buf_bytes(&b));
}

typedef struct task_end { /* of a run */
    study_worker *w;
    htc_effect    call;
    htc_ns        started;
    uint64_t      tasks; /* of a span */
} task_end;

static void run_ends(htc_sim *sim, void *ctx)
{
    task_end   *e = ctx;
    study      *y = e->w->of;
    htc_outcome o = { .status = HTC_OK, .started = e->started, .ended = htc_sim_wall(sim) };
    htc_buf     b;
    y->busy--;
    y->ran++;
    e->w->ran++;
    if (!htc_sim_up(e->w->node))
        return;
    htc_buf_init(&b, &y->env, 0);
    htc_outcome_write(&b, &o);
    htc_sim_result(e->w->node, 0, &e->call, b.status, htc_buf_bytes(&b));
    htc_buf_free(&b);
}

/* Functions: those of one call one after the other. */
static void span_ends(htc_sim *sim, void *ctx)
{
    task_end        *e = ctx;
    study           *y = e->w->of;
    htc__span_answer a = { .why = HTC_OK, .begin = e->started, .end = htc_sim_wall(sim), .done = e->tasks };
    htc_buf          b;
    y->busy--;
    y->ran += e->tasks;
    e->w->ran += e->tasks;
    if (!htc_sim_up(e->w->node))
        return;
    htc_buf_init(&b, &y->env, 0);
    htc__span_answer_write(&b, &a);
    htc_sim_result(e->w->node, 0, &e->call, b.status, htc_buf_bytes(&b));
    htc_buf_free(&b);
}

static htc_status run_span(study_worker *w, const htc_effect *effect)
{
    study            *y = w->of;
    htc__span_request q;
    task_end          e = { .w = w, .call = *effect, .started = htc_sim_wall(y->sim) };
    htc_ns            length = 0;
    if (htc__span_request_read(effect->body, &q) != HTC_OK)
        return htc_sim_fail(y->sim, "a span that cannot be read");
    for (uint64_t id = q.from; id < q.to && id < htc_flow_total(y->flow); id++, e.tasks++) /* those behind were inserted: empty, and not counted */
        length += length_of(y->flow, entry_of(y->flow, id));
    e.call.body = htc_bytes_of(NULL);
    y->busy++;
    return htc_sim_at(y->sim, htc_sim_now(y->sim) + y->options.start_ns + length, span_ends, &e, sizeof e);
}

static htc_status run(study_worker *w, const htc_effect *effect)
{
    study     *y = w->of;
    htc_reader r = htc_reader_of(effect->body);
    uint64_t   number = htc_get_u64(&r);
    task_end   e = { .w = w, .call = *effect, .started = htc_sim_wall(y->sim) };
    if (w->staged[number % STAGED_MAX].run != number)
        return htc_sim_fail(y->sim, "a run that was not staged in");
    htc_ns length = length_of(y->flow, entry_of(y->flow, w->staged[number % STAGED_MAX].task));
    e.call.body = htc_bytes_of(NULL);
    y->busy++;
    return htc_sim_at(y->sim, htc_sim_now(y->sim) + y->options.start_ns + length, run_ends, &e, sizeof e);
}

static htc_status worker_call(void *ctx, htc_sim_node *node, const htc_effect *effect)
{
    study_worker *w = ctx;
    htc_stored    stored = { 0 };
    htc_reader    r = htc_reader_of(effect->body);
    htc_buf       b;
    htc_status    status = HTC_OK;
    uint64_t      number;
    switch (effect->op) {
    case HTC_CALL_DIAL:
        return dial(w, node, effect);
    case HTC_CALL_STAGE_IN:
        number = htc_get_u64(&r);
        (void)htc_get_varint(&r); /* job */
        w->staged[number % STAGED_MAX].run = number;
        w->staged[number % STAGED_MAX].task = htc_get_varint(&r);
        return htc_sim_result(node, w->of->options.stage_ns, effect, HTC_OK, htc_bytes_of(NULL));
    case HTC_CALL_RUN:
        return run(w, effect);
    case HTC_CALL_RUN_SPAN:
        return run_span(w, effect);
    case HTC_CALL_STAGE_OUT:
        htc_buf_init(&b, &w->of->env, 0);
        htc_stored_write(&b, &stored);
        status = htc_sim_result(node, w->of->options.stage_ns, effect, b.status, htc_buf_bytes(&b));
        htc_buf_free(&b);
        return status;
    case HTC_CALL_OUTPUT_READ: /* nothing is printed here: it adds nothing */
        return htc_sim_result(node, w->of->options.stage_ns, effect, HTC_ENOTFOUND, htc_bytes_of(NULL));
    case HTC_CALL_HANG_UP:
        return htc_sim_hang_up(node, htc_get_u32(&r));
    default: /* CLEAN, SIGNAL: what runs goes on to its end */
        return HTC_OK;
    }
}

static htc_status worker_boot(void *ctx, htc_sim_node *node)
{
    study_worker       *w = ctx;
    study              *y = w->of;
    htc_worker        *machine = NULL;
    char                address[16];
    htc_worker_options o = { .size = sizeof o, .flow = FLOW, .id = w->self + 1, .address = address, .store_peer = PEER_STORE, .store_client_id = htc_rng_next(&y->rng) | 1,
                              .slots = y->options.slots };
    if (y->options.steal)
        o.steal = y->options.steal;
    snprintf(address, sizeof address, "%u", (unsigned)w->self);
    htc_status status = htc_worker_create(htc_sim_env(node), &o, &machine);
    if (status == HTC_OK)
        status = htc_sim_install(node, htc_worker_ops(), machine);
    return status == HTC_OK ? htc_sim_dial(node, PEER_STORE, y->store, NULL) : status;
}

static htc_status client_boot(void *ctx, htc_sim_node *node)
{
    study              *y = ctx;
    flow_submit_options o = { .given = y->flow, .number = FLOW, .tries = 1, .user = "user", .peer = PEER_STORE, .client_id = htc_rng_next(&y->rng) | 1,
                              .workers = y->options.layout == HTC_SIM_FLOW_EACH ? y->options.workers : 1, .held = 1 };
    htc_status          status = htc__flow_submit_create(htc_sim_env(node), &o, &y->submit);
    if (status == HTC_OK)
        status = htc_sim_install(node, htc__flow_submit_ops(), y->submit);
    return status == HTC_OK ? htc_sim_dial(node, PEER_STORE, y->store, NULL) : status;
}

/* ---- a run ---- */

static htc_status add(study *y, const char *name, const htc_sim_host *host, void *ctx, htc_sim_node **out)
{
    htc_sim_node_options o = { .size = sizeof o, .name = name, .host = host, .ctx = ctx };
    return htc_sim_add(y->sim, &o, out);
}

static htc_status add_all(study *y)
{
    static const htc_sim_host stores = { .size = sizeof stores, .boot = store_boot, .commit = store_commit };
    static const htc_sim_host clients = { .size = sizeof clients, .boot = client_boot };
    static const htc_sim_host hosts = { .size = sizeof hosts, .boot = worker_boot, .call = worker_call };
    htc_status                status = add(y, "store", &stores, y, &y->store);
    if (status == HTC_OK)
        status = add(y, "client", &clients, y, &y->client);
    for (uint32_t i = 0; i < y->options.workers && status == HTC_OK; i++) {
        char name[24];
        snprintf(name, sizeof name, "worker%u", (unsigned)i);
        y->workers[i].of = y;
        y->workers[i].self = i;
        status = add(y, name, &hosts, &y->workers[i], &y->workers[i].node);
    }
    if (status == HTC_OK)
        status = htc_sim_boot(y->store);
    if (status == HTC_OK)
        status = htc_sim_boot(y->client);
    for (uint32_t i = 0; i < y->options.workers && status == HTC_OK; i++)
        status = htc_sim_boot(y->workers[i].node);
    return status;
}

/* It is stored, and every worker knows every other. */
static int is_ready(const study *y)
{
    for (uint32_t i = 0; i < y->options.workers; i++) {
        htc_worker_figures f = { .size = sizeof f };
        (void)htc_worker_look(htc_sim_machine(y->workers[i].node), &f);
        if (f.members < y->options.workers)
            return 0;
    }
    return htc__flow_submit_stored(y->submit);
}

static void take_sample(htc_sim *sim, void *ctx)
{
    study              *y = ctx;
    htc_sim_flow_sample s = { .size = sizeof s, .at = htc_sim_now(sim) - y->begun, .busy = y->busy, .ended = y->ran };
    if (y->ended)
        return;
    y->options.sample(y->options.sample_ctx, &s);
    htc_sim_at(sim, htc_sim_now(sim) + y->options.sample_ns, take_sample, y, 0);
}

/* Before event number n. */
static int goes_on(study *y, uint64_t n)
{
    y->stopped |= htc__twin_is_stopped(&y->twin, n, y->ran, htc_flow_total(y->flow));
    return !y->stopped;
}

/* An event. */
static int step(study *y)
{
    return goes_on(y, y->steps++) && htc_sim_next(y->sim) == HTC_OK;
}

static void run_study(study *y)
{
    htc_ns end = htc_sim_now(y->sim) + JOIN_MAX;
    while (!is_ready(y) && htc_sim_now(y->sim) < end && goes_on(y, 0) && htc_sim_run(y->sim, 10 * HTC_MS) == HTC_OK)
        ;
    if (y->stopped)
        return;
    if (htc_sim_now(y->sim) >= end)
        htc_sim_fail(y->sim, "the workers have not come together");
    htc__flow_submit_start(y->submit);
    htc_sim_event(y->client, 0, 0, HTC_OK, htc_bytes_of(NULL)); /* so that it looks */
    while (!y->begun && step(y))
        ;
    if (y->begun && y->options.sample && y->options.sample_ns)
        take_sample(y->sim, y);
    while (!y->ended && step(y))
        ;
}

/* ---- what is told ---- */

static htc_status longest_path(const study *y, htc_ns *longest)
{
    uint32_t             n = htc_flow_count(y->flow);
    htc_dag_options      options = HTC_DAG_OPTIONS_INIT;
    htc_ns              *length = htc__alloc(&y->env, n * sizeof *length);
    htc_dag             *dag = NULL;
    const htc_flow_edge *edge;
    options.tasks_max = HTC_DAG_TASKS_MAX;
    htc_status status = length ? htc_dag_create(&y->env, &options, &dag) : HTC_ENOMEM;
    for (uint32_t i = 0; status == HTC_OK && i < n; i++) {
        length[i] = length_of(y->flow, i);
        status = htc_dag_add_task(dag, i);
    }
    for (uint32_t i = 0; status == HTC_OK && i < n; i++) {
        size_t children = htc_flow_children(y->flow, i, &edge);
        for (size_t k = 0; status == HTC_OK && k < children; k++)
            status = htc_dag_add_edge(dag, i, edge[k].task);
    }
    if (status == HTC_OK)
        status = htc_dag_critical_path(dag, n, length, 0, NULL, NULL, NULL, longest);
    htc_dag_destroy(dag);
    htc__free(&y->env, length, n * sizeof *length);
    return status;
}

static double root(double x)
{
    double r = x > 1 ? x : 1;
    for (int i = 0; i < 60; i++)
        r = (r + x / r) / 2;
    return r;
}

static void spread(const study *y, htc_sim_flow_report *r)
{
    double n = y->options.workers, mean = (double)y->ran / n, sum = 0;
    for (uint32_t i = 0; i < y->options.workers; i++) {
        htc_worker_figures f = { .size = sizeof f };
        double              off = (double)y->workers[i].ran - mean;
        sum += off * off;
        if (!htc_sim_up(y->workers[i].node))
            continue;
        (void)htc_worker_look(htc_sim_machine(y->workers[i].node), &f);
        r->stolen += f.stolen;
    }
    r->cv = mean > 0 ? root(sum / n) / mean : 0;
}

static void fill(const study *y, htc_sim_flow_report *r)
{
    r->tasks = htc_flow_total(y->flow);
    r->slots = y->options.workers * y->options.slots;
    r->runs = y->ran;
    r->commits = y->commits;
    r->events = htc_sim_events(y->sim);
    r->hash = htc_sim_hash(y->sim);
    r->failed = htc_sim_failure(y->sim) != NULL;
    snprintf(r->text, sizeof r->text, "%s", r->failed ? htc_sim_failure(y->sim) : "");
    for (uint32_t i = 0; i < htc_flow_count(y->flow); i++)
        r->work += length_of(y->flow, i) * htc_flow_get(y->flow, i)->count;
    r->interrupted = y->stopped != 0;
    if (y->stopped && y->begun)
        r->span = htc_sim_now(y->sim) - y->begun;
    if (r->span)
        r->throughput = (double)y->ran / ((double)r->span / 1e9);
    if (!y->ended || y->ended == y->begun)
        return;
    r->span = y->ended - y->begun;
    htc_ns ideal = r->work / r->slots > r->longest ? r->work / r->slots : r->longest;
    r->efficiency = (double)ideal / (double)r->span;
    r->utilisation = (double)r->work / ((double)r->span * r->slots);
    r->throughput = (double)r->tasks / ((double)r->span / 1e9);
    r->idle = r->span * r->slots > r->work ? r->span * r->slots - r->work : 0;
    spread(y, r);
}

htc_status htc_sim_flow_run(const htc_env *env, const htc_flow *given, const htc_sim_flow_options *options, htc_sim_flow_report *report)
{
    htc_sim_flow_report r = { .size = sizeof r };
    study               y = { .flow = given };
    htc_status          status = htc__options_copy(&y.options, sizeof y.options, options, options ? options->size : 0, offsetof(htc_sim_flow_options, seed));
    if (!report || !given || htc_flow_total(given) == 0 || y.options.workers > HTC_SIM_FLOW_WORKERS_MAX || y.options.slots > 128 ||
        y.options.layout > HTC_SIM_FLOW_EACH)
        return HTC_EINVAL;
    if (status != HTC_OK)
        return status;
    if (env)
        y.env.alloc = env->alloc;
    htc__twin_open(&y.twin, &y.env);
    status = htc__twin_host(&y.twin, y.options.host);
    if (status != HTC_OK)
        return status;
    y.options.workers = y.options.workers ? y.options.workers : 1;
    y.options.slots = y.options.slots ? y.options.slots : 1;
    htc_sim_net     net = { .size = sizeof net, .latency_ns = y.options.latency_ns, .jitter_ns = y.options.jitter_ns, .bytes_per_s = y.options.bytes_per_s };
    /* Every worker may greet every other one at one moment. */
    htc_sim_options so = { .size = sizeof so, .seed = y.options.seed, .net = &net, .still_max = 200000 + 8 * y.options.workers * y.options.workers };
    htc_buf_init(&y.batch, &y.env, 0);
    y.workers = htc__alloc(&y.env, y.options.workers * sizeof *y.workers);
    status = y.workers ? htc_sim_create(&y.env, &so, &y.sim) : HTC_ENOMEM;
    if (status == HTC_OK) {
        y.twin.w = y.sim;
        y.rng = htc_sim_rng(y.sim, "study");
        status = htc_kv_memory_create(&y.env, &y.disk);
    }
    if (status == HTC_OK)
        status = longest_path(&y, &r.longest);
    if (status == HTC_OK)
        status = add_all(&y);
    if (status == HTC_OK) {
        run_study(&y);
        fill(&y, &r);
        status = y.no_memory || htc_sim_status(y.sim) == HTC_ENOMEM ? HTC_ENOMEM : HTC_OK;
    }
    htc_sim_destroy(y.sim);
    if (y.disk.ops)
        y.disk.ops->destroy(y.disk.ctx);
    htc_buf_free(&y.batch);
    htc__free(&y.env, y.workers, y.options.workers * sizeof *y.workers);
    return status == HTC_OK ? htc__options_give(report, &r, sizeof r, offsetof(htc_sim_flow_report, failed)) : status;
}
