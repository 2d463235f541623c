/* The model of our own store beside its exact twin, real members and clients over simulated links and disks: throughput and response agree within 5 % at 3, 5 and
 * 7 members, and would not if the model had another protocol. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/codec.h"
#include "htcsched/kv_server.h"
#include "htcsched/sim.h"
#include "htcsched/sim_kvs.h"

#define WITHIN      0.05
#define MEMBERS_MAX 7
#define CLIENTS_MAX 64
#define KEYS        1024
#define LATENCY_NS  (UINT64_C(101370)) /* with the syncs no multiples of each other: else all would happen at the same moments */
#define FIRST_CALL  100

static int failed;

static void expect(int good, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void expect(int good, const char *format, ...)
{
    va_list args;
    if (good)
        return;
    failed++;
    va_start(args, format);
    printf("  WRONG: ");
    vprintf(format, args);
    printf("\n");
    va_end(args);
}

static void must(htc_status status, const char *what)
{
    if (status == HTC_OK)
        return;
    fprintf(stderr, "%s: %s\n", what, htc_status_name(status));
    exit(1);
}

typedef struct trial {
    uint32_t members, owners, clients, depth;
    double   puts;
    htc_ns   sync;
    uint64_t keys;
} trial;

typedef struct figures {
    double throughput, response;
} figures;

/* ---- exact ---- */

typedef struct world world;

typedef struct member {
    world        *w;
    uint32_t      at;
    htc_sim_node *node;
    htc_kv_engine engine;
    htc_buf       batch;
    uint64_t      tag;
} member;

typedef struct client {
    world         *w;
    htc_sim_node  *node;
    htc_kv_client *kv;
    htc_rng        rng;
    uint32_t       on_way, fill; /* fill: keys that it has still to write first */
    uint64_t       next_key;
    htc_ns         asked[CLIENTS_MAX];
} client;

struct world {
    const trial  *t;
    htc_sim      *sim;
    htc_env       env;
    htc_kv_member listed[MEMBERS_MAX];
    member        member[MEMBERS_MAX];
    client        client[CLIENTS_MAX];
    uint64_t      answered, failures;
    htc_ns        response;
    int           measures, began;
};

static const char *const address[MEMBERS_MAX] = { "sim:0", "sim:1", "sim:2", "sim:3", "sim:4", "sim:5", "sim:6" };

static htc_status boot_member(void *ctx, htc_sim_node *node)
{
    member               *m = ctx;
    world                *w = m->w;
    htc_kv_server        *server = NULL;
    htc_kv_server_options o = { .size = sizeof o, .engine = m->engine, .self = w->listed[m->at].id, .members = w->listed, .member_count = w->t->members,
                                .owners = w->t->owners, .member_addresses = address, .suspect_ns = 60 * HTC_SECOND, .request_ns = 60 * HTC_SECOND,
                                .member_retry_ns = 10 * HTC_SECOND };
    must(htc_kv_server_create(htc_sim_env(node), &o, &server), "server");
    must(htc_sim_install(node, htc_kv_server_ops(), server), "install");
    for (uint32_t i = 0; i < w->t->members; i++)
        if (i != m->at)
            must(htc_sim_dial(node, i + 1, w->member[i].node, NULL), "dial");
    return HTC_OK;
}

static void synced(htc_sim *sim, void *ctx)
{
    member *m = *(member **)ctx;
    (void)sim;
    must(m->engine.ops->apply(m->engine.ctx, htc_buf_bytes(&m->batch)), "apply");
    must(htc_sim_stored(m->node, 0, m->tag, HTC_OK), "stored");
}

static htc_status commit(void *ctx, htc_sim_node *node, const htc_effect *effect)
{
    member *m = ctx;
    (void)node;
    m->tag = effect->tag;
    htc_buf_clear(&m->batch);
    htc_put_raw(&m->batch, effect->body);
    return htc_sim_at(m->w->sim, htc_sim_now(m->w->sim) + m->w->t->sync, synced, &m, sizeof m);
}

static htc_status call(void *ctx, htc_sim_node *node, const htc_effect *effect)
{
    client *c = ctx;
    if (effect->op != HTC_KV_CLIENT_DIAL)
        return HTC_EUNSUPPORTED;
    for (uint32_t i = 0; i < c->w->t->members; i++)
        if (htc_bytes_equal(effect->body, htc_bytes_of(address[i])))
            return htc_sim_dial(node, (uint32_t)effect->tag, c->w->member[i].node, NULL);
    return HTC_ENOTFOUND;
}

static htc_status submit(client *c, htc_ns now, uint32_t slot, htc_output *out)
{
    char           key[24];
    static char    value[128];
    htc_kv_request q = { .size = sizeof q, .op = HTC_KV_PUT, .value = { value, sizeof value } };
    if (c->fill) {
        c->fill--;
    } else {
        c->next_key = htc_rng_below(&c->rng, c->w->t->keys);
        q.op = htc_rng_below(&c->rng, 1000000) < c->w->t->puts * 1e6 ? HTC_KV_PUT : HTC_KV_GET;
    }
    if (q.op == HTC_KV_GET)
        q.value.len = 0;
    snprintf(key, sizeof key, "key/%llu", (unsigned long long)c->next_key);
    c->next_key += c->w->t->clients;
    q.key = htc_bytes_of(key);
    c->asked[slot] = now;
    c->on_way++;
    return htc_kv_client_submit(c->kv, now, &q, 1, slot, out);
}

static htc_status step_client(void *self, const htc_input *in, htc_output *out)
{
    client       *c = self;
    htc_kv_result r = { .size = sizeof r };
    htc_status    status = htc_kv_client_step(c->kv, in, out);
    if (status == HTC_OK && in->kind == HTC_IN_OPENED && in->peer == 1)
        for (uint32_t slot = 0; slot < c->w->t->depth && status == HTC_OK; slot++)
            status = submit(c, in->now, slot, out);
    while (status == HTC_OK && htc_kv_client_next(c->kv, &r)) {
        c->on_way--;
        c->w->failures += r.status != HTC_OK && r.status != HTC_ENOTFOUND; /* it may read a key before its first put */
        c->w->answered += (uint64_t)c->w->measures;
        if (c->w->measures)
            c->w->response += in->now - c->asked[r.tag];
        status = submit(c, in->now, (uint32_t)r.tag, out);
    }
    return status;
}

static htc_ns deadline_of_client(const void *self)
{
    return htc_kv_client_deadline(((const client *)self)->kv);
}

static void destroy_client(void *self)
{
    htc_kv_client_destroy(((client *)self)->kv);
}

static htc_status boot_client(void *ctx, htc_sim_node *node)
{
    static const htc_machine_ops ops = { sizeof ops, step_client, deadline_of_client, destroy_client, 0 };
    client                      *c = ctx;
    htc_kv_client_options        o = { .size = sizeof o, .client_id = htc_rng_next(&c->rng), .peer = 1, .members = c->w->t->members, .member_peer = FIRST_CALL,
                                       .retry_ns = 60 * HTC_SECOND };
    must(htc_kv_client_create(htc_sim_env(node), &o, &c->kv), "client");
    must(htc_sim_install(node, &ops, c), "install");
    return htc_sim_dial(node, 1, c->w->member[htc_rng_below(&c->rng, c->w->t->members)].node, NULL);
}

static const htc_sim_host member_host = { .size = sizeof member_host, .boot = boot_member, .commit = commit };
static const htc_sim_host client_host = { .size = sizeof client_host, .boot = boot_client, .call = call };

static void open_world(world *w, const trial *t)
{
    htc_sim_net     net = { .size = sizeof net, .latency_ns = LATENCY_NS };
    htc_sim_options o = { .size = sizeof o, .seed = 1, .net = &net };
    *w = (world){ .t = t };
    must(htc_sim_create(NULL, &o, &w->sim), "simulation");
    htc_rng rng = htc_sim_rng(w->sim, "test");
    for (uint32_t i = 0; i < t->members; i++) {
        member              *m = &w->member[i];
        char                 name[16];
        htc_sim_node_options n = { .size = sizeof n, .name = name, .host = &member_host, .ctx = m };
        snprintf(name, sizeof name, "m%u", i);
        *m = (member){ .w = w, .at = i };
        w->listed[i] = (htc_kv_member){ .id = htc_rng_next(&rng) | 1, .peer = i + 1 };
        htc_buf_init(&m->batch, &w->env, 0);
        must(htc_kv_memory_create(NULL, &m->engine), "engine");
        must(htc_sim_add(w->sim, &n, &m->node), "node");
    }
    for (uint32_t i = 0; i < t->members; i++)
        must(htc_sim_boot(w->member[i].node), "boot");
    must(htc_sim_run(w->sim, HTC_SECOND), "run");
    for (uint32_t i = 0; i < t->clients; i++) {
        client              *c = &w->client[i];
        char                 name[16];
        htc_sim_node_options n = { .size = sizeof n, .name = name, .host = &client_host, .ctx = c };
        snprintf(name, sizeof name, "c%u", i);
        *c = (client){ .w = w, .fill = (uint32_t)(t->keys / t->clients), .next_key = i, .rng = htc_rng_fork(&rng, name) };
        must(htc_sim_add(w->sim, &n, &c->node), "node");
        must(htc_sim_boot(c->node), "boot");
    }
}

static figures exact(const trial *t)
{
    static world w;
    htc_ns       span = getenv("HTC_TEST_LIGHT") ? 500 * HTC_MS : 2 * HTC_SECOND;
    open_world(&w, t);
    must(htc_sim_run(w.sim, 2 * HTC_SECOND), "warm up");
    for (uint32_t i = 0; i < t->clients; i++)
        expect(w.client[i].fill == 0, "client %u has keys left to write first", i);
    w.measures = 1;
    must(htc_sim_run(w.sim, span), "run");
    expect(w.failures == 0, "%llu requests have failed", (unsigned long long)w.failures);
    figures f = { (double)w.answered / ((double)span / 1e9), (double)w.response / 1e9 / (double)w.answered };
    htc_sim_destroy(w.sim);
    for (uint32_t i = 0; i < t->members; i++) {
        htc_buf_free(&w.member[i].batch);
        w.member[i].engine.ops->destroy(w.member[i].engine.ctx);
    }
    return f;
}

/* ---- the model ---- */

static figures model(const trial *t, uint64_t requests)
{
    htc_sim_kvs_options o = { .size = sizeof o, .seed = 1, .model = HTC_SIM_KVS_LIVE, .clients = t->clients, .requests = (uint32_t)(requests / t->clients), .depth = t->depth,
                              .servers = t->members, .copies = t->owners, .puts = t->puts, .no_puts = !(t->puts > 0), .keys = t->keys, .stall_ns = HTC_MS,
                              .latency_ns = LATENCY_NS, .pack_ns = 1, .unpack_ns = 1, .service_ns = 1, .accept_ns = 1, .client_ns = 1, .turn_ns = 1, .wake_ns = 1, .commit_ns = 1, .write_ns = 1,
                              .sync_ns = t->sync, .bandwidth = UINT64_C(1) << 60, .tick_ns = 10 };
    htc_sim_kvs_report  r = { .size = sizeof r };
    htc_error           e = { 0 };
    htc_status          status = htc_sim_kvs_run(NULL, &o, &r, &e);
    expect(status == HTC_OK && !r.scale.wrong[0], "the model: %s %s", e.text, r.scale.wrong);
    return (figures){ r.throughput, r.response_s };
}

static double apart(double a, double b)
{
    return fabs(a - b) / a;
}

static void beside(const trial *t)
{
    figures twin = exact(t), ours = model(t, 1500000); /* the first put of each key, which takes two round trips, is lost among them */
    printf("%u members, %u owners, %2u clients of %2u, %3.0f %% puts, sync %3llu us: %8.0f and %8.0f requests a second (%+.1f %%), %.3f and %.3f ms\n", t->members, t->owners,
           t->clients, t->depth, 100 * t->puts, (unsigned long long)(t->sync / HTC_US), twin.throughput, ours.throughput, 100 * (ours.throughput / twin.throughput - 1),
           1e3 * twin.response, 1e3 * ours.response);
    expect(apart(twin.throughput, ours.throughput) <= WITHIN, "throughputs are apart");
    expect(apart(twin.response, ours.response) <= WITHIN, "responses are apart");
}

int main(void)
{
    static const trial trials[] = {
        { 3, 3, 8, 1, 0.5, 487310, KEYS }, { 5, 3, 16, 1, 1, 487310, KEYS },   { 7, 5, 16, 4, 0.5, 293570, KEYS },
        { 3, 3, 32, 1, 0.5, 487310, 16 }, /* requests wait for their key. Up to here it is the short form */
        { 3, 3, 32, 1, 1, 293570, KEYS },  { 3, 3, 16, 8, 0.5, 487310, KEYS }, { 5, 5, 32, 2, 0.5, 487310, KEYS }, { 7, 3, 32, 1, 0, 487310, KEYS },
        { 7, 7, 32, 4, 0.2, 713130, KEYS },
    };
    size_t n = getenv("HTC_TEST_LIGHT") ? 4 : sizeof trials / sizeof *trials;
    for (size_t i = 0; i < n; i++)
        beside(&trials[i]);
    /* What is seen is the protocol: with one owner more to wait for, or no sync, the model is far away. */
    trial   other = trials[0];
    figures twin = model(&trials[0], 20000);
    other.owners = 1;
    expect(apart(twin.throughput, model(&other, 20000).throughput) > 3 * WITHIN, "one owner is as good as three");
    other = trials[0];
    other.sync = 0;
    expect(apart(twin.throughput, model(&other, 20000).throughput) > 3 * WITHIN, "a sync is not seen");
    printf("%s\n", failed ? "WRONG" : "as the exact store does");
    return failed != 0;
}
