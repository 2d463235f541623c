/* Workers in a world: a bag over several workers and one store, whose messages are lost and doubled, whose connections break, and who are
 * killed and stopped. After every commit of the store each task is in exactly one place: live in one ledger, in one note that is not
 * accepted yet, or counted. In the end the flow has ended, with as many tasks as it had.
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
#include "roles/runtime/agent_wire.h"
#include "roles/worker/flow.h"
#include "roles/worker/worker.h"

#define SEEDS       (getenv("HTC_TEST_FULL") ? 20000 : 300)
#define SEEDS_LIGHT 30
#define WORKERS_MAX 8
#define TASKS_MAX   4000
#define FLOW        7

typedef struct world world;

typedef struct host_of {
    world        *of;
    htc_sim_node *node;
    uint32_t      self;
    uint32_t      peers[WORKERS_MAX];
    uint64_t      runs; /* asked for, over all lives */
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
    uint64_t      tasks, seed;
    htc_rng       rng;
    htc_ns        trouble_until, longest; /* a task's run time, at most */
    int           ended, kill_thief, thieves_killed;
    uint64_t      moved; /* most tasks that were on their way at once */
    ledger_counts counts;
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

/* ---- what is stored ---- */

typedef struct look {
    world   *w;
    uint64_t n_ledgers;
    ledger   ledgers[64];
    flow     header;
    int      has_header;
} look;

static int see_record(void *ctx, htc_bytes key, htc_bytes value)
{
    look        *l = ctx;
    htc__kv_cell cell;
    htc_bytes    payload;
    uint64_t     number;
    flow_key     prefix = htc__flow_key_ledgers(FLOW), header = htc__flow_key_header(FLOW);
    if (key.len < 2 || *(const char *)key.data != 'k' || htc__kv_unseal(value, key, &payload) != HTC_OK ||
        htc__kv_cell_read(payload, NULL, &cell) != HTC_OK || cell.deleted)
        return 1;
    htc_bytes own = { (const char *)key.data + 1, key.len - 1 };
    if (htc__flow_key_number(own, &prefix, &number) && number < 64) {
        if (htc__ledger_read(cell.value, &l->ledgers[number]) != HTC_OK)
            fail(l->w, "ledger %llu cannot be read", (unsigned long long)number);
        l->n_ledgers = number + 1 > l->n_ledgers ? number + 1 : l->n_ledgers;
    } else if (own.len == header.len && memcmp(own.data, header.text, own.len) == 0) {
        l->has_header = htc__flow_read(cell.value, &l->header) == HTC_OK;
    }
    return 1;
}

static void mark(world *w, uint8_t *seen, ledger_span s, const char *where)
{
    for (uint64_t id = s.from; id < s.to && id < TASKS_MAX; id++) {
        if (seen[id])
            fail(w, "task %llu is in two places, one of them %s", (unsigned long long)id, where);
        seen[id] = 1;
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
    look l = { .w = w };
    w->disk.ops->scan(w->disk.ctx, htc_bytes_of(NULL), see_record, &l);
    for (uint64_t j = 0; j < l.n_ledgers; j++) {
        const ledger *x = &l.ledgers[j];
        printf("ledger %llu of worker %llu:", (unsigned long long)j, (unsigned long long)x->worker);
        for (uint32_t i = 0; i < x->live.n; i++)
            printf(" live %llu..%llu", (unsigned long long)x->live.at[i].from, (unsigned long long)x->live.at[i].to);
        for (uint32_t i = 0; i < x->n_out; i++)
            printf(" note %llu to %llu of %llu..%llu", (unsigned long long)x->out[i].note, (unsigned long long)x->out[i].ledger,
                   (unsigned long long)x->out[i].ids.from, (unsigned long long)x->out[i].ids.to);
        for (uint32_t i = 0; i < x->n_in; i++)
            printf(" in (%llu, %llu)", (unsigned long long)x->in[i].ledger, (unsigned long long)x->in[i].note);
        printf("\n");
    }
}

static void check_stored(world *w)
{
    static uint8_t seen[TASKS_MAX];
    look           l = { .w = w };
    uint64_t       placed = 0, moving = 0;
    memset(seen, 0, sizeof seen);
    w->disk.ops->scan(w->disk.ctx, htc_bytes_of(NULL), see_record, &l);
    ledger_counts c = { 0 };
    for (uint64_t j = 0; j < l.n_ledgers; j++) {
        const ledger *x = &l.ledgers[j];
        for (uint32_t i = 0; i < x->live.n; i++)
            mark(w, seen, x->live.at[i], "live");
        for (uint32_t i = 0; i < x->n_out; i++)
            if (!htc__ledger_accepted(&l.ledgers[x->out[i].ledger], j, x->out[i].note)) {
                mark(w, seen, x->out[i].ids, "on its way");
                moving += x->out[i].ids.to - x->out[i].ids.from;
            }
        c.done += x->counts.done;
        c.failed += x->counts.failed;
        c.cancelled += x->counts.cancelled;
    }
    for (uint64_t id = 0; id < w->tasks; id++)
        placed += seen[id];
    if (l.has_header && l.header.state >= FLOW_RUNNING && placed + c.done + c.failed + c.cancelled != w->tasks)
        fail(w, "%llu tasks have a place and %llu are counted, of %llu", (unsigned long long)placed,
             (unsigned long long)(c.done + c.failed + c.cancelled), (unsigned long long)w->tasks);
    if (l.has_header && l.header.state == FLOW_ENDED) {
        w->ended = 1;
        w->counts = l.header.counts;
    }
    w->moved = moving > w->moved ? moving : w->moved;
    if (!w->kill_thief || !moving)
        return;
    /* Between GIVE and ACCEPT: who the first note is for ends now. */
    for (uint64_t j = 0; j < l.n_ledgers; j++)
        for (uint32_t i = 0; i < l.ledgers[j].n_out && w->kill_thief; i++) {
            const ledger_note *note = &l.ledgers[j].out[i];
            host_of           *thief = owner_of(w, &l.ledgers[note->ledger]);
            if (!htc__ledger_accepted(&l.ledgers[note->ledger], j, note->note) && thief && htc_sim_up(thief->node)) {
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

static htc_status worker_call(void *ctx, htc_sim_node *at, const htc_effect *effect)
{
    host_of    *n = ctx;
    htc_outcome o = { .status = HTC_OK, .started = htc_sim_wall(n->of->sim) };
    htc_stored  stored = { 0 };
    htc_buf     b;
    htc_ns      span = htc_rng_below(&n->of->rng, n->of->longest + 1);
    htc_buf_init(&b, NULL, 0);
    switch (effect->op) {
    case HTC_CALL_STAGE_IN: htc_sim_result(at, 50 * HTC_US, effect, HTC_OK, htc_bytes_of(NULL)); break;
    case HTC_CALL_RUN:
        n->runs++;
        o.ended = o.started + span;
        htc_outcome_write(&b, &o);
        htc_sim_result(at, span, effect, HTC_OK, htc_buf_bytes(&b));
        break;
    case HTC_CALL_STAGE_OUT:
        htc_stored_write(&b, &stored);
        htc_sim_result(at, 50 * HTC_US, effect, HTC_OK, htc_buf_bytes(&b));
        break;
    default: break; /* CLEAN, SIGNAL: a task that is to end goes on to its end here */
    }
    htc_buf_free(&b);
    return HTC_OK;
}

static htc_status worker_boot(void *ctx, htc_sim_node *at)
{
    host_of            *n = ctx;
    world              *w = n->of;
    htc__worker        *machine = NULL;
    htc__worker_options o = { .flow = FLOW, .n = w->n, .self = n->self, .peers = n->peers, .store_peer = 1, .store_client_id = htc_rng_next(&w->rng) | 1,
                              .slots = 2, .lease_ns = 3 * HTC_SECOND,
                              .steal = { .poll_ns_max = HTC_SECOND, .at_ceiling = HTC_STEAL_GO_ON } };
    htc_status          status = htc__worker_create(htc_sim_env(at), &o, &machine);
    if (status == HTC_OK)
        status = htc_sim_install(at, htc__worker_ops(), machine);
    if (status == HTC_OK)
        status = htc_sim_dial(at, 1, w->store, NULL);
    for (uint32_t i = 0; i < w->n && status == HTC_OK; i++)
        if (i != n->self)
            status = htc_sim_dial(at, n->peers[i], w->workers[i].node, NULL);
    return status;
}

/* Its lease is gone: the next life has another one. */
static void worker_ended(void *ctx, htc_sim_node *at, htc_status status, int crashed)
{
    host_of *n = ctx;
    if (crashed)
        return;
    if (status != HTC_ELOST)
        fail(n->of, "worker %u has ended: %s", n->self, htc_status_name(status));
    htc_sim_at(n->of->sim, htc_sim_now(n->of->sim) + 100 * HTC_MS, boot_again, &at, sizeof at);
}

/* ---- the flow ---- */


/* A client that submits: the ledger, then the header. In the order of the protocol the header comes first, as building; here both are one
 * request, of which a worker sees all or nothing. */
typedef struct submitter {
    htc_kv_client *client;
    world         *of;
    int            asked;
} submitter;

static htc_status submit_step(void *self, const htc_input *in, htc_output *out)
{
    submitter *s = self;
    htc_status    status = htc_kv_client_step(s->client, in, out);
    htc_kv_result result = { .size = sizeof result };
    while (htc_kv_client_next(s->client, &result))
        ;
    htc_task   task = { .executable = "/bin/true", .values_json = "{}", .limits = { .cores = 1 } };
    flow       f = { .state = FLOW_RUNNING, .tasks = s->of->tasks, .user = "ada" };
    ledger     l;
    htc_buf    header, first;
    if (status != HTC_OK || s->asked || in->kind != HTC_IN_OPENED)
        return status;
    s->asked = 1;
    htc_buf_init(&header, NULL, 0);
    htc_buf_init(&first, NULL, 0);
    if (htc_task_to_bytes(NULL, &task, &f.task) != HTC_OK)
        return HTC_ENOMEM;
    htc__flow_write(&header, &f);
    htc_work_free(NULL, f.task);
    htc__ledger_init(&l, (ledger_span){ 0, s->of->tasks });
    htc__ledger_write(&first, &l);
    flow_key       keys[2] = { htc__flow_key_ledger(FLOW, 0), htc__flow_key_header(FLOW) };
    htc_kv_request q[2] = { { .size = sizeof q[0], .op = HTC_KV_PUT, .key = htc__flow_key_bytes(&keys[0]), .value = htc_buf_bytes(&first) },
                            { .size = sizeof q[0], .op = HTC_KV_PUT, .key = htc__flow_key_bytes(&keys[1]), .value = htc_buf_bytes(&header) } };
    status = htc_kv_client_submit(s->client, in->now, q, 2, 1, out);
    htc_buf_free(&header);
    htc_buf_free(&first);
    return status;
}

static htc_ns submit_deadline(const void *self)
{
    return htc_kv_client_deadline(((const submitter *)self)->client);
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
    switch (htc_rng_below(&w->rng, 4)) {
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

typedef struct sums {
    uint64_t tasks, runs, stolen, taken, events, thieves;
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

/* seed % 4: 0 no faults, 1 thieves are killed between GIVE and ACCEPT, 2 messages, 3 everything. */
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
    w->n = 2 + (uint32_t)htc_rng_below(&w->rng, WORKERS_MAX - 1);
    w->tasks = 1 + htc_rng_below(&w->rng, htc_rng_below(&w->rng, 4) ? 400 : TASKS_MAX - 1);
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
        for (uint32_t k = 0; k < w->n; k++)
            n->peers[k] = 10 + k;
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
    if (!htc_sim_failure(w->sim) && (w->counts.done != w->tasks || w->counts.failed || w->counts.cancelled))
        fail(w, "%llu of %llu tasks are done", (unsigned long long)w->counts.done, (unsigned long long)w->tasks);
    if (!htc_sim_failure(w->sim) && kind == 0) {
        uint64_t runs = 0;
        for (uint32_t i = 0; i < w->n; i++)
            runs += w->workers[i].runs;
        if (runs != w->tasks)
            fail(w, "%llu runs of %llu tasks without a fault", (unsigned long long)runs, (unsigned long long)w->tasks);
    }
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
        htc__worker_figures f = { 0 };
        total->runs += w->workers[i].runs;
        if (htc_sim_up(w->workers[i].node))
            htc__worker_look(htc_sim_machine(w->workers[i].node), &f);
        total->stolen += f.stolen;
        total->taken += f.taken;
    }
    htc_sim_destroy(w->sim);
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
           "events; %llu failed\n",
           (unsigned long long)seeds, (unsigned long long)total.tasks, (unsigned long long)total.runs, (unsigned long long)total.stolen,
           (unsigned long long)total.taken, (unsigned long long)total.thieves, (unsigned long long)total.events, (unsigned long long)failed);
    for (size_t i = 0; !getenv("HTC_TEST_LIGHT") && i < sizeof rules / sizeof *rules; i++)
        failed += !is_noticed(rules[i]);
    return failed != 0;
}
