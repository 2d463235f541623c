/* Workers in a world: a bag or a graph over several workers and one store, whose messages are lost and doubled, whose connections break, and
 * who are killed, stopped and asked to leave. After every commit of the store each task is in exactly one place: live in one ledger, in one
 * note that is not accepted yet, or counted. Of a graph no task runs before its parents have ended as it asks, what has ended stays as it
 * ended, and a task is counted when its children know. In the end the flow has ended, each task as it ends when a plain loop runs them one
 * by one.
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

#include "core/fault.h"
#include "core/util.h"
#include "htcsched/calls.h"
#include "htcsched/kv_server.h"
#include "htcsched/sim.h"
#include "htcsched/work.h"
#include "kvs/cell/cell.h"
#include "kvs/cell/record.h"
#include "kvs/storage/batch.h"
#include "roles/runtime/agent_wire.h"
#include "roles/worker/flow.h"
#include "roles/worker/graph_task.h"
#include "htcsched/worker.h"

#define SEEDS       (getenv("HTC_TEST_FULL") ? 20000 : 450)
#define SEEDS_LIGHT 30
#define WORKERS_MAX 8
#define TASKS_MAX   4000
#define GRAPH_MAX   (getenv("HTC_TEST_FULL") ? 3000 : 500)
#define LEDGERS_MAX 64
#define PARENTS_MAX 8
#define FLOW        7

typedef struct world world;

typedef struct host_of {
    world        *of;
    htc_sim_node *node;
    uint32_t      self, peers; /* connections that were made, over all lives */
    uint64_t      runs;        /* asked for, over all lives */
    struct {
        uint64_t run, task;
    } staged[256];
} host_of;

/* What will become of a task. */
typedef enum fate { GOES_WELL, FAILS_ONCE, FAILS_ALWAYS } fate;

typedef struct task_of {
    uint8_t  fate, n_parents, rules[PARENTS_MAX];
    uint32_t parents[PARENTS_MAX];
    uint32_t runs;
    uint8_t  expected; /* graph_state */
    /* as it is stored */
    uint8_t    placed, known;
    graph_task stored; /* without slices */
    uint8_t    bits[PARENTS_MAX];
    uint64_t   version;
} task_of;

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
    uint32_t      tries;
    uint64_t      tasks, seed;
    htc_rng       rng;
    htc_registry *registry;
    htc_steal_options steal;
    htc_ns        trouble_until, longest; /* a task's run time, at most */
    int           ended, kill_thief, thieves_killed;
    uint64_t      moved; /* most tasks that were on their way at once */
    ledger_counts counts, expected;
    task_of      *task;
    uint64_t      n_ledgers;
    ledger        ledgers[LEDGERS_MAX];
    flow          header;
    int           has_header;
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

/* ---- what is to come out ---- */

/* Each task in turn, as a plain loop would run them. */
static void run_one_by_one(world *w)
{
    for (uint64_t id = 0; id < w->tasks; id++) {
        task_of *t = &w->task[id];
        t->expected = t->fate == FAILS_ALWAYS ? GRAPH_FAILED : GRAPH_DONE;
        for (uint32_t i = 0; i < t->n_parents; i++) {
            int ok = w->task[t->parents[i]].expected == GRAPH_DONE;
            if ((t->rules[i] == GRAPH_RULE_OK && !ok) || (t->rules[i] == GRAPH_RULE_FAILED && ok))
                t->expected = GRAPH_CANCELLED;
        }
        w->expected.done += t->expected == GRAPH_DONE;
        w->expected.failed += t->expected == GRAPH_FAILED;
        w->expected.cancelled += t->expected == GRAPH_CANCELLED;
    }
}

static void draw_task(world *w, uint64_t id, uint64_t shape)
{
    task_of *t = &w->task[id];
    uint64_t dice = htc_rng_below(&w->rng, 40), n = 0;
    t->fate = dice == 0 ? FAILS_ALWAYS : dice < 3 ? (w->tries > 1 ? FAILS_ONCE : FAILS_ALWAYS) : GOES_WELL;
    if (!w->graph || id == 0)
        return;
    switch (shape) {
    case 0: n = 1, t->parents[0] = (uint32_t)((id - 1) / 4); break;                 /* fan-out */
    case 1: n = id % 50 ? 1 : 0, t->parents[0] = (uint32_t)id - 1; break;           /* chains */
    case 2:                                                                         /* levels of 20, each task of four of the level before */
        for (n = 0; n < 4 && id >= 20; n++)
            t->parents[n] = (uint32_t)(id / 20 * 20 - 20 + (id + n * 5) % 20);
        break;
    default:
        n = htc_rng_below(&w->rng, PARENTS_MAX + 1);
        for (uint64_t i = 0; i < n; i++)
            t->parents[i] = (uint32_t)(id - 1 - htc_rng_below(&w->rng, id < 60 ? id : 60));
        break;
    }
    for (uint64_t i = 0; i < n; i++) {
        dice = htc_rng_below(&w->rng, 20);
        t->rules[i] = dice == 0 ? GRAPH_RULE_FAILED : dice < 4 ? GRAPH_RULE_ANY : GRAPH_RULE_OK;
        for (uint64_t k = 0; k < i; k++)
            if (t->parents[k] == t->parents[i]) { /* once is enough */
                t->parents[i--] = t->parents[--n];
                break;
            }
    }
    t->n_parents = (uint8_t)n;
}

/* ---- what is stored ---- */

static void mark(world *w, ledger_span s, const char *where)
{
    for (uint64_t id = s.from; id < s.to && id < w->tasks; id++) {
        if (w->task[id].placed & 1)
            fail(w, "task %llu is in two places, one of them %s", (unsigned long long)id, where);
        w->task[id].placed |= 1;
    }
}

static int satisfied(uint8_t rule, uint8_t bit)
{
    return bit && (rule == GRAPH_RULE_ANY || (rule == GRAPH_RULE_OK) == (bit == GRAPH_ENDED_OK));
}

/* Its parents have ended as it asks, and it knows. */
static int may_run(const world *w, uint64_t id)
{
    const task_of *t = &w->task[id];
    for (uint32_t i = 0; i < t->n_parents; i++) {
        const task_of *p = &w->task[t->parents[i]];
        if (p->stored.state == GRAPH_OPEN || !satisfied(t->rules[i], p->stored.state == GRAPH_DONE ? GRAPH_ENDED_OK : GRAPH_ENDED_BAD) || !t->bits[i])
            return 0;
    }
    return 1;
}

static void see_task(world *w, uint64_t id, htc_bytes value)
{
    graph_task g;
    if (id >= w->tasks || htc__graph_read(value, &g) != HTC_OK) {
        fail(w, "a task that nobody wrote");
        return;
    }
    task_of       *t = &w->task[id];
    const uint8_t *parents = g.parents.data;
    for (uint32_t i = 0; i < t->n_parents && g.parents.len == t->n_parents; i++) {
        if (t->bits[i] && t->bits[i] != (parents[i] & 3))
            fail(w, "task %llu was told of parent %u, and now knows something else", (unsigned long long)id, i);
        t->bits[i] = parents[i] & 3;
    }
    if (t->known && t->stored.state != GRAPH_OPEN &&
        (g.state != t->stored.state || g.outcome.attempt != t->stored.outcome.attempt || g.outcome.worker != t->stored.outcome.worker))
        fail(w, "task %llu has ended twice", (unsigned long long)id);
    if ((g.state == GRAPH_DONE || g.state == GRAPH_FAILED) && !may_run(w, id))
        fail(w, "task %llu has ended before its parents", (unsigned long long)id);
    t->stored = g;
    t->stored.name = t->stored.parents = t->stored.children = t->stored.task = htc_bytes_of(NULL);
    t->known = 1;
}

static void see_record(world *w, htc_bytes key, htc_bytes value)
{
    htc__kv_cell cell;
    htc_bytes    payload;
    uint64_t     number;
    flow_key     ledgers = htc__flow_key_ledgers(FLOW), tasks = htc__flow_key_tasks(FLOW), header = htc__flow_key_header(FLOW);
    if (key.len < 2 || *(const char *)key.data != 'k' || htc__kv_unseal(value, key, &payload) != HTC_OK ||
        htc__kv_cell_read(payload, NULL, &cell) != HTC_OK || cell.deleted)
        return;
    htc_bytes own = { (const char *)key.data + 1, key.len - 1 };
    if (htc__flow_key_number(own, &ledgers, &number) && number < LEDGERS_MAX) {
        if (htc__ledger_read(cell.value, &w->ledgers[number]) != HTC_OK)
            fail(w, "ledger %llu cannot be read", (unsigned long long)number);
        w->n_ledgers = number + 1 > w->n_ledgers ? number + 1 : w->n_ledgers;
    } else if (htc__flow_key_number(own, &tasks, &number)) {
        see_task(w, number, cell.value);
    } else if (own.len == header.len && memcmp(own.data, header.text, own.len) == 0) {
        w->has_header = htc__flow_read(cell.value, &w->header) == HTC_OK;
        w->header.task = htc_bytes_of(NULL);
    }
}

static void see_batch(world *w)
{
    htc_reader r = htc_reader_of(htc_buf_bytes(&w->batch));
    while (htc_reader_left(&r) && r.status == HTC_OK) {
        uint8_t   kind = htc_get_u8(&r);
        htc_bytes key = htc_get_bytes(&r), value = kind == HTC__KV_BATCH_PUT ? htc_get_bytes(&r) : htc_bytes_of(NULL);
        if (kind == HTC__KV_BATCH_PUT && r.status == HTC_OK)
            see_record(w, key, value);
    }
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
    htc_sim_at(w->sim, htc_sim_now(w->sim) + later, boot_again, &node, sizeof node);
}

static void print_ledgers(world *w)
{
    for (uint64_t j = 0; j < w->n_ledgers; j++) {
        const ledger *x = &w->ledgers[j];
        printf("ledger %llu of worker %llu:", (unsigned long long)j, (unsigned long long)x->worker);
        for (uint32_t i = 0; i < x->live.n; i++)
            printf(" live %llu..%llu", (unsigned long long)x->live.at[i].from, (unsigned long long)x->live.at[i].to);
        for (uint32_t i = 0; i < x->n_out; i++)
            printf(" note %llu to %llu of %llu..%llu", (unsigned long long)x->out[i].note, (unsigned long long)x->out[i].ledger,
                   (unsigned long long)x->out[i].ids[0].from, (unsigned long long)x->out[i].ids[0].to);
        for (uint32_t i = 0; i < x->n_in; i++)
            printf(" in (%llu, %llu)", (unsigned long long)x->in[i].ledger, (unsigned long long)x->in[i].note);
        printf("\n");
        for (uint64_t id = 0; w->graph && id < w->tasks; id++)
            if (htc__ids_has(&x->live, (ledger_span){ id, id + 1 })) {
                const task_of *t = &w->task[id];
                printf("  task %llu state %u home %llu parents", (unsigned long long)id, t->stored.state, (unsigned long long)t->stored.home);
                for (uint32_t i = 0; i < t->n_parents; i++)
                    printf(" %u:%u/%u", t->parents[i], t->rules[i], t->bits[i]);
                printf("\n");
            }
    }
}

/* A task that has just been counted: its record says how it ended, and each of its children knows. */
static void check_counted(world *w)
{
    for (uint64_t id = 0; id < w->tasks; id++) {
        const task_of *t = &w->task[id];
        if (t->placed == 2 && t->stored.state == GRAPH_OPEN)
            fail(w, "task %llu is counted, and has not ended", (unsigned long long)id);
        for (uint32_t i = 0; i < t->n_parents; i++)
            if (w->task[t->parents[i]].placed == 2 && !t->bits[i] && t->stored.state == GRAPH_OPEN)
                fail(w, "task %u is counted, and its child %llu does not know", t->parents[i], (unsigned long long)id);
    }
}

static void check_stored(world *w)
{
    uint64_t      placed = 0, moving = 0;
    ledger_counts c = { 0 };
    see_batch(w);
    for (uint64_t id = 0; id < w->tasks; id++)
        w->task[id].placed = w->task[id].placed & 1 ? 2 : 0; /* 2: it was in a place */
    for (uint64_t j = 0; j < w->n_ledgers; j++) {
        const ledger *x = &w->ledgers[j];
        for (uint32_t i = 0; i < x->live.n; i++)
            mark(w, x->live.at[i], "live");
        for (uint32_t i = 0; i < x->n_out; i++)
            if (!htc__ledger_accepted(&w->ledgers[x->out[i].ledger], j, x->out[i].note)) {
                for (uint32_t k = 0; k < x->out[i].n; k++)
                    mark(w, x->out[i].ids[k], "on its way");
                moving += htc__ledger_note_tasks(&x->out[i]);
            }
        c.done += x->counts.done;
        c.failed += x->counts.failed;
        c.cancelled += x->counts.cancelled;
    }
    for (uint64_t id = 0; id < w->tasks; id++)
        placed += w->task[id].placed & 1;
    int runs = w->has_header && (w->header.state == FLOW_RUNNING || w->header.state == FLOW_ENDED);
    if (runs && placed + c.done + c.failed + c.cancelled != w->tasks)
        fail(w, "%llu tasks have a place and %llu are counted, of %llu", (unsigned long long)placed,
             (unsigned long long)(c.done + c.failed + c.cancelled), (unsigned long long)w->tasks);
    if (runs && w->graph)
        check_counted(w);
    if (runs && w->header.state == FLOW_ENDED) {
        w->ended = 1;
        w->counts = w->header.counts;
    }
    w->moved = moving > w->moved ? moving : w->moved;
    if (!w->kill_thief || !moving)
        return;
    /* Between GIVE and ACCEPT: who the first note is for ends now. */
    for (uint64_t j = 0; j < w->n_ledgers; j++)
        for (uint32_t i = 0; i < w->ledgers[j].n_out && w->kill_thief; i++) {
            const ledger_note *note = &w->ledgers[j].out[i];
            host_of           *thief = owner_of(w, &w->ledgers[note->ledger]);
            if (!htc__ledger_accepted(&w->ledgers[note->ledger], j, note->note) && thief && htc_sim_up(thief->node)) {
                w->kill_thief--;
                w->thieves_killed++;
                kill_and_boot(w, thief->node, w->kill_thief % 2 ? 50 * HTC_MS : 30 * HTC_SECOND);
            }
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
    check_stored(w);
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
    if (n->staged[number % 256].run != number || id >= w->tasks) {
        fail(w, "a run that was not staged in");
        return;
    }
    n->runs++;
    if (w->graph && !may_run(w, id))
        fail(w, "task %llu runs before its parents have ended", (unsigned long long)id);
    task_of *t = &w->task[id];
    if (t->fate == FAILS_ALWAYS || (t->fate == FAILS_ONCE && t->runs == 0)) {
        o->status = HTC_EEXIT;
        o->exit_code = 7;
    }
    t->runs++;
}

static void dial(host_of *n, htc_sim_node *at, const htc_effect *effect)
{
    world     *w = n->of;
    char       address[64];
    htc_reader r = htc_reader_of(effect->body);
    htc_buf    b;
    htc_get_str(&r, address, sizeof address);
    uint32_t   peer = 10 + n->peers++;
    htc_status status = htc_sim_dial(at, peer, w->workers[strtoul(address, NULL, 10)].node, NULL);
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
    htc_buf_init(&b, NULL, 0);
    switch (effect->op) {
    case HTC_CALL_DIAL: dial(n, at, effect); break;
    case HTC_CALL_STAGE_IN:
        stage_in(n, effect);
        htc_sim_result(at, 50 * HTC_US, effect, HTC_OK, htc_bytes_of(NULL));
        break;
    case HTC_CALL_RUN:
        run(n, at, effect, &o);
        o.ended = o.started + span;
        htc_outcome_write(&b, &o);
        htc_sim_result(at, span, effect, HTC_OK, htc_buf_bytes(&b));
        break;
    case HTC_CALL_STAGE_OUT:
        htc_stored_write(&b, &stored);
        htc_sim_result(at, 50 * HTC_US, effect, HTC_OK, htc_buf_bytes(&b));
        break;
    default: break; /* CLEAN, HANG_UP, SIGNAL: a task that is to end goes on to its end here */
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
                              .slots = 2, .lease_ns = 3 * HTC_SECOND, .steal = &w->steal };
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
    if (crashed || n->of->ended)
        return;
    if (status != HTC_ELOST && status != HTC_OK)
        fail(n->of, "worker %u has ended: %s", n->self, htc_status_name(status));
    htc_sim_at(n->of->sim, htc_sim_now(n->of->sim) + 100 * HTC_MS, boot_again, &at, sizeof at);
}

/* ---- the flow ---- */

/* A client that submits: the header as building, the ledgers and tasks, the header as running. It may cancel some of it later. */
typedef struct submitter {
    htc_kv_client *client;
    world         *of;
    int            began, done;
    uint64_t       next; /* record: ledgers, then tasks */
    uint64_t       version;
    htc_ns         cancel_at;
} submitter;

static void ask(submitter *s, const htc_input *in, htc_output *out, const htc_kv_request *q, size_t n)
{
    if (htc_kv_client_submit(s->client, in->now, q, n, n, out) != HTC_OK)
        abort();
}

static void write_header(const world *w, htc_buf *b, flow_state state)
{
    htc_task task = { .executable = "/bin/true", .values_json = "{}", .limits = { .cores = 1 } };
    flow     f = { .state = (uint8_t)state, .kind = w->graph ? FLOW_GRAPH : FLOW_BAG, .tasks = w->tasks, .tries = w->tries, .max_fails = UINT64_MAX, .user = "ada" };
    if (w->header.n_marks) {
        f.n_marks = w->header.n_marks;
        memcpy(f.marks, w->header.marks, sizeof f.marks);
    }
    if (htc_task_to_bytes(NULL, &task, &f.task) != HTC_OK)
        abort();
    htc__flow_write(b, &f);
    htc_work_free(NULL, f.task);
}

static uint64_t n_homes(const world *w)
{
    return w->graph ? 1 + w->tasks / 100 : 1; /* more than has to be, so that they are taken by several */
}

static void write_task(const world *w, uint64_t id, htc_buf *b)
{
    const task_of *t = &w->task[id];
    uint8_t        parents[PARENTS_MAX];
    htc_buf        children;
    graph_task     g = { .state = GRAPH_OPEN, .home = id * n_homes(w) / w->tasks, .parents = { parents, t->n_parents } };
    for (uint32_t i = 0; i < t->n_parents; i++)
        parents[i] = GRAPH_EDGE(t->rules[i]);
    htc_buf_init(&children, NULL, 0);
    for (uint64_t c = id + 1; c < w->tasks; c++)
        for (uint32_t i = 0; i < w->task[c].n_parents; i++)
            if (w->task[c].parents[i] == id) {
                htc_put_u64(&children, c);
                htc_put_u32(&children, i);
            }
    g.children = htc_buf_bytes(&children);
    htc__graph_write(b, &g);
    htc_buf_free(&children);
}

static void write_ledger(const world *w, uint64_t number, htc_buf *b)
{
    uint64_t from = 0, to = w->tasks;
    ledger   l;
    if (w->graph) {
        while (from < w->tasks && from * n_homes(w) / w->tasks < number)
            from++;
        to = from;
        while (to < w->tasks && to * n_homes(w) / w->tasks == number)
            to++;
    }
    htc__ledger_init(&l, (ledger_span){ from, to });
    htc__ledger_write(b, &l);
}

static void submit_some(submitter *s, const htc_input *in, htc_output *out)
{
    world         *w = s->of;
    htc_kv_request q[32];
    flow_key       k[32];
    htc_buf        b[32];
    size_t         n = 0;
    uint64_t       records = n_homes(w) + (w->graph ? w->tasks : 0);
    for (; n < 32 && s->next < records; n++, s->next++) {
        htc_buf_init(&b[n], NULL, 0);
        if (s->next < n_homes(w))
            write_ledger(w, s->next, &b[n]);
        else
            write_task(w, s->next - n_homes(w), &b[n]);
        k[n] = s->next < n_homes(w) ? htc__flow_key_ledger(FLOW, s->next) : htc__flow_key_task(FLOW, s->next - n_homes(w));
        q[n] = (htc_kv_request){ .size = sizeof q[0], .op = HTC_KV_PUT, .flags = HTC_KV_NX, .key = htc__flow_key_bytes(&k[n]), .value = htc_buf_bytes(&b[n]) };
    }
    if (n == 0) {
        htc_buf_init(&b[0], NULL, 0);
        write_header(w, &b[0], FLOW_RUNNING);
        k[0] = htc__flow_key_header(FLOW);
        q[0] = (htc_kv_request){ .size = sizeof q[0], .op = HTC_KV_CAS_VERSION, .key = htc__flow_key_bytes(&k[0]), .value = htc_buf_bytes(&b[0]), .version = s->version };
        n = s->done = 1;
    }
    ask(s, in, out, q, n);
    for (size_t i = 0; i < n; i++)
        htc_buf_free(&b[i]);
}

static void begin_flow(submitter *s, const htc_input *in, htc_output *out)
{
    htc_buf  b;
    flow_key k = htc__flow_key_header(FLOW);
    htc_buf_init(&b, NULL, 0);
    write_header(s->of, &b, FLOW_BUILDING);
    ask(s, in, out, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_PUT, .flags = HTC_KV_NX, .key = htc__flow_key_bytes(&k), .value = htc_buf_bytes(&b) }, 1);
    htc_buf_free(&b);
    s->began = 1;
}

/* Some of the flow is wanted no more: a mark in the header. */
static void cancel(submitter *s, const htc_input *in, htc_output *out)
{
    world   *w = s->of;
    htc_buf  b;
    flow_key k = htc__flow_key_header(FLOW);
    uint64_t from = htc_rng_below(&w->rng, w->tasks), to = from + 1 + htc_rng_below(&w->rng, w->tasks - from);
    s->cancel_at = HTC_NEVER;
    if (!htc__flow_mark(&w->header, (ledger_span){ from, to }))
        return;
    htc_buf_init(&b, NULL, 0);
    write_header(w, &b, FLOW_RUNNING);
    ask(s, in, out, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_CAS_VERSION, .key = htc__flow_key_bytes(&k), .value = htc_buf_bytes(&b), .version = s->version }, 1);
    htc_buf_free(&b);
}

static htc_status submit_step(void *self, const htc_input *in, htc_output *out)
{
    submitter    *s = self;
    htc_status    status = htc_kv_client_step(s->client, in, out);
    htc_kv_result r = { .size = sizeof r };
    int           answered = 0;
    while (htc_kv_client_next(s->client, &r)) {
        answered |= r.last && !s->done;
        if (r.last && s->next == 0)
            s->version = r.version;
        if (r.last && s->done && r.status == HTC_OK) {
            s->version = r.version;
            if (s->of->cancels && s->cancel_at == 0)
                s->cancel_at = in->now + htc_rng_below(&s->of->rng, HTC_SECOND);
        }
    }
    if (status != HTC_OK)
        return status;
    if (!s->began && in->kind == HTC_IN_OPENED)
        begin_flow(s, in, out);
    else if (answered)
        submit_some(s, in, out);
    if (s->cancel_at && in->now >= s->cancel_at && s->of->has_header && s->of->header.state == FLOW_RUNNING)
        cancel(s, in, out);
    return HTC_OK;
}

static htc_ns submit_deadline(const void *self)
{
    const submitter *s = self;
    htc_ns           at = htc_kv_client_deadline(s->client);
    return s->cancel_at && s->cancel_at < at ? s->cancel_at : at;
}

static void submit_end(void *self)
{
    htc_kv_client_destroy(((submitter *)self)->client);
}

static htc_status submit_boot(void *ctx, htc_sim_node *at)
{
    static const htc_machine_ops ops = { sizeof ops, submit_step, submit_deadline, submit_end, 0 };
    submitter                   *s = ctx;
    htc_kv_client_options        o = { .size = sizeof o, .client_id = 99, .peer = 1 };
    htc_status                   status = htc_kv_client_create(htc_sim_env(at), &o, &s->client);
    if (status == HTC_OK)
        status = htc_sim_install(at, &ops, s);
    return status == HTC_OK ? htc_sim_dial(at, 1, s->of->store, NULL) : status;
}

/* ---- trouble ---- */

static void trouble(htc_sim *sim, void *ctx)
{
    world *w = *(world **)ctx;
    host_of *n = &w->workers[htc_rng_below(&w->rng, w->n)];
    if (htc_sim_now(sim) >= w->trouble_until)
        return;
    switch (htc_rng_below(&w->rng, 5)) {
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
    case 2: htc_sim_clog(n->node, htc_rng_below(&w->rng, 2) ? w->store : w->workers[htc_rng_below(&w->rng, w->n)].node, htc_rng_below(&w->rng, HTC_SECOND)); break;
    default: htc_sim_break(n->node, htc_rng_below(&w->rng, 2) ? w->store : w->workers[htc_rng_below(&w->rng, w->n)].node); break;
    }
    htc_sim_at(sim, htc_sim_now(sim) + htc_rng_below(&w->rng, 400 * HTC_MS), trouble, &w, sizeof w);
}

/* ---- a run ---- */

static int  quiet;
static char why[300]; /* of the last run that failed */

static const char *const policies[] = { "random", "static", "mesh-2d", "near", "mesh-3d", "one", "two", "log2", "sqrt" };
#define POLICIES        (sizeof policies / sizeof *policies)
#define POLICY_OF(seed) ((seed) / 12 % POLICIES) /* each in turn, with every kind of faults */

typedef struct sums {
    uint64_t tasks, runs, stolen, taken, told, cancelled, events, thieves;
    uint64_t by_policy[POLICIES]; /* stolen */
} sums;

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

/* As a plain loop would have it; with cancelled tasks some are cancelled instead. */
static void check_end(world *w, int quiet_world)
{
    const ledger_counts *c = &w->counts, *e = &w->expected;
    uint64_t             runs = 0, needed = 0;
    if (c->done + c->failed + c->cancelled != w->tasks)
        fail(w, "%llu tasks are counted of %llu", (unsigned long long)(c->done + c->failed + c->cancelled), (unsigned long long)w->tasks);
    if (!w->cancels && (c->done != e->done || c->failed != e->failed || c->cancelled != e->cancelled))
        fail(w, "%llu done, %llu failed, %llu cancelled; to be %llu, %llu, %llu", (unsigned long long)c->done, (unsigned long long)c->failed,
             (unsigned long long)c->cancelled, (unsigned long long)e->done, (unsigned long long)e->failed, (unsigned long long)e->cancelled);
    for (uint64_t id = 0; id < w->tasks; id++) {
        const task_of *t = &w->task[id];
        if (w->graph && t->stored.state != t->expected && !w->cancels)
            fail(w, "task %llu has ended as %u, to be %u", (unsigned long long)id, t->stored.state, t->expected);
        needed += t->expected == GRAPH_CANCELLED ? 0 : t->fate == GOES_WELL ? 1 : t->fate == FAILS_ALWAYS ? w->tries : 2;
    }
    for (uint32_t i = 0; i < w->n; i++)
        runs += w->workers[i].runs;
    /* how often a task of a bag has failed is forgotten when it is stolen */
    if (quiet_world && (w->graph || w->tries == 1 ? runs != needed : runs < needed))
        fail(w, "%llu runs without a fault, to be %llu", (unsigned long long)runs, (unsigned long long)needed);
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

/* seed % 3: 0 a bag, else a graph. seed % 4: 0 no faults, 1 thieves are killed between GIVE and ACCEPT, 2 messages, 3 everything. */
static int run_seed(uint64_t seed, int traced, sums *total)
{
    static const htc_sim_host stores = { .size = sizeof stores, .boot = store_boot, .commit = store_commit };
    static const htc_sim_host hosts = { .size = sizeof hosts, .boot = worker_boot, .call = worker_call, .ended = worker_ended };
    static const htc_sim_host submits = { .size = sizeof submits, .boot = submit_boot };
    world          *w = calloc(1, sizeof *w);
    submitter       s = { .of = w };
    uint64_t        kind = seed % 4;
    htc_sim_net     net = { .size = sizeof net, .jitter_ns = 200 * HTC_US };
    htc_sim_options o = { .size = sizeof o, .seed = seed, .net = &net, .trace = traced ? print_line : NULL };
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
    w->tasks = 1 + htc_rng_below(&w->rng, w->graph ? GRAPH_MAX : htc_rng_below(&w->rng, 4) ? 400 : TASKS_MAX - 1);
    w->tries = 1 + (uint32_t)htc_rng_below(&w->rng, 3);
    w->cancels = kind > 0 && htc_rng_below(&w->rng, 4) == 0;
    w->task = calloc(w->tasks, sizeof *w->task);
    if (!w->task)
        abort();
    uint64_t shape = htc_rng_below(&w->rng, 6);
    for (uint64_t id = 0; id < w->tasks; id++)
        draw_task(w, id, shape);
    run_one_by_one(w);
    w->longest = htc_rng_below(&w->rng, 2) ? 2 * HTC_MS : 100 * HTC_MS;
    w->kill_thief = kind == 1 ? 3 : 0;
    htc_buf_init(&w->batch, NULL, 0);
    w->store = add(w, "store", &stores, w);
    htc_sim_node *client = add(w, "client", &submits, &s);
    for (uint32_t i = 0; i < w->n; i++) {
        char  name[16];
        host_of *n = &w->workers[i];
        snprintf(name, sizeof name, "worker%u", i);
        *n = (host_of){ .of = w, .self = i };
        n->node = add(w, name, &hosts, n);
    }
    htc_sim_boot(w->store);
    htc_sim_boot(client);
    for (uint32_t i = 0; i < w->n; i++)
        htc_sim_boot(w->workers[i].node);
    w->trouble_until = htc_sim_now(w->sim) + (kind == 3 ? 20 * HTC_SECOND : 0);
    htc_sim_at(w->sim, htc_sim_now(w->sim) + 50 * HTC_MS, trouble, &w, sizeof w);
    htc_ns end = htc_sim_now(w->sim) + 600 * HTC_SECOND;
    while (!w->ended && htc_sim_now(w->sim) < end && htc_sim_next(w->sim) == HTC_OK)
        if (htc_sim_now(w->sim) > w->trouble_until + 60 * HTC_SECOND)
            htc_sim_net_faults(w->sim, 0);
    if (!htc_sim_failure(w->sim) && !w->ended) {
        if (traced)
            print_ledgers(w);
        fail(w, "the flow has not ended");
    }
    if (!htc_sim_failure(w->sim))
        check_end(w, kind == 0);
    const char *failure = htc_sim_failure(w->sim);
    snprintf(why, sizeof why, "%s", failure ? failure : "");
    if (failure && !quiet)
        printf("seed %llu at %.6f s: %s   (HTC_SEED=%llu shows the trace)\n", (unsigned long long)seed, (double)htc_sim_now(w->sim) / 1e9, failure,
               (unsigned long long)seed);
    int bad = failure != NULL;
    total->tasks += w->tasks;
    total->events += htc_sim_events(w->sim);
    total->thieves += (uint64_t)w->thieves_killed;
    for (uint32_t i = 0; i < w->n; i++) {
        htc_worker_figures f = { .size = sizeof f };
        total->runs += w->workers[i].runs;
        if (htc_sim_up(w->workers[i].node))
            (void)htc_worker_look(htc_sim_machine(w->workers[i].node), &f);
        total->stolen += f.stolen;
        total->taken += f.taken;
        total->told += f.tells;
        total->cancelled += f.cancels;
        total->by_policy[POLICY_OF(seed)] += f.stolen;
    }
    htc_sim_destroy(w->sim);
    htc_registry_destroy(w->registry);
    free(w->task);
    htc_buf_free(&w->batch);
    w->disk.ops->destroy(w->disk.ctx);
    free(w);
    return bad;
}

/* What fails without each, in the words of the exploration that found the rules. */
static const char *const rules[] = {
    "note_taken_back",     /* the note is accepted all the same: two owners */
    "clear_before_accept", /* the thief ends: lost */
    "forget_before_clear", /* the note is accepted again: two owners */
    "note_read_early",     /* the note was accepted meanwhile, counted and forgotten: two owners */
    "note_number_reused",  /* an old "accepted" clears a new note: lost */
    "ledger_unversioned",  /* who was thought dead writes over its successor */
    "end_when_empty",      /* tasks move behind the reader: it ends early */
    "parents_counted",     /* told twice, it runs too early */
    "bad_bit_ignored",     /* it waits for ever */
    "counted_before_told", /* who takes over does not see that its children wait: for ever */
    "task_unversioned",    /* who was thought dead ends it once more */
};

#define RULE_SEEDS 6000

static int is_noticed(const char *rule)
{
    sums     total = { 0 };
    uint64_t seed = 1;
    quiet = 1;
    htc__broken_set(htc__broken_find(rule), 1);
    while (seed <= RULE_SEEDS && !run_seed(seed, 0, &total))
        seed++;
    htc__broken_set(htc__broken_find(rule), 0);
    quiet = 0;
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
           "children told, %llu events; %llu failed\n",
           (unsigned long long)seeds, (unsigned long long)total.tasks, (unsigned long long)total.runs, (unsigned long long)total.stolen,
           (unsigned long long)total.taken, (unsigned long long)total.thieves, (unsigned long long)total.told, (unsigned long long)total.events, (unsigned long long)failed);
    for (size_t i = 0; i < POLICIES && seeds > 12 * POLICIES; i++)
        failed += total.by_policy[i] == 0 && printf("by %s nobody steals\n", policies[i]);
    for (size_t i = 0; !getenv("HTC_TEST_LIGHT") && i < sizeof rules / sizeof *rules; i++)
        failed += !is_noticed(rules[i]);
    return failed != 0;
}
