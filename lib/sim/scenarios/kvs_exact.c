/* An experiment of our own store with real members and clients: the exact twin of lib/sim/models/kvs_live.c (htcsched/sim_kvs.h). */
#include <stdio.h>
#include <string.h>

#include "core/util.h"
#include "core/codec.h"
#include "htcsched/kv_server.h"
#include "sim/models/kvs.h"
#include "sim/models/kvs_live.h"
#include "sim/scale/draw.h"
#include "sim/scenarios/counted.h"
#include "sim/scenarios/kvs_process.h"
#include "sim/scenarios/progress.h"

#define PATIENCE   (UINT64_C(3600) * HTC_SECOND) /* nobody suspects anybody, and nothing is said again */
#define SETUP      (UINT64_C(3600) * HTC_SECOND)
#define WARM       UINT64_MAX /* the tag of a request before the measured ones */
#define VALUE      128
#define LOOK_EVERY 256 /* events between two looks at the host */

typedef struct exact exact;

typedef struct exact_member {
    exact        *x;
    uint32_t      at;
    exact_process   process;
    htc_kv_engine engine;
    htc_buf       batch; /* that is synced */
    uint64_t      tag;
    char          address[24];
} exact_member;

typedef struct exact_client {
    htc_kv_client *kv;
    uint32_t       warm; /* requests until it knows all members */
    uint32_t       begun, done;
} exact_client;

/* Clients in one process. */
typedef struct exact_program {
    exact      *x;
    uint64_t    first, clients;
    exact_process process;
} exact_program;

struct exact {
    counted             memory;
    htc_scale_host      host; /* the caller's, as far as it goes */
    progress            progress; /* that it is told */
    htc_sim_kvs_options options;
    htc_sim            *sim;
    htc_kv_member      *listed;
    const char        **address;
    exact_member       *member;
    exact_program      *program;
    exact_client       *client;
    htc_ns             *asked; /* of each slot */
    double             *sum;   /* of the keys' weights; NULL: they are equally likely */
    uint32_t            peers; /* numbers of a client: its home, and one for each member */
    uint64_t            keys, operations, stalls, put_below; /* streams */
    kvs_cores           cores;
    uint64_t            warming, working, answered, failed; /* clients; requests */
    htc_ns              begin, last, response;
    int                 no_memory;
    double              rate, rate_squares;
};

/* ---- members ---- */

static htc_status boot_member(void *ctx, htc_sim_node *node)
{
    exact_member         *m = ctx;
    exact                *x = m->x;
    uint32_t              several = x->options.servers > 1;
    htc_kv_server        *server = NULL;
    htc_kv_server_options o = { .size = sizeof o, .engine = m->engine, .connections_max = (uint32_t)x->options.clients * 2 + 2 * x->options.servers + 16,
                                .suspect_ns = PATIENCE, .request_ns = PATIENCE, .member_retry_ns = PATIENCE };
    if (several) {
        o.self = x->listed[m->at].id;
        o.members = x->listed;
        o.member_count = x->options.servers;
        o.owners = x->options.copies;
        o.member_addresses = x->address;
    }
    htc_status status = htc_kv_server_create(htc_sim_env(node), &o, &server);
    if (status != HTC_OK)
        return status;
    m->process.ops = htc_kv_server_ops();
    m->process.machine = server;
    status = htc_sim_install(node, htc__kvs_process_ops(), &m->process);
    for (uint32_t i = 0; i < x->options.servers && status == HTC_OK; i++)
        if (i != m->at)
            status = htc_sim_dial(node, i + 1, x->member[i].process.node, NULL);
    return status;
}

static void synced(htc_sim *sim, void *ctx)
{
    exact_member *m = *(exact_member **)ctx;
    htc_status    status = m->engine.ops->apply(m->engine.ctx, htc_buf_bytes(&m->batch));
    if (status == HTC_OK)
        status = htc_sim_stored(m->process.node, 0, m->tag, HTC_OK);
    m->x->no_memory |= status == HTC_ENOMEM;
    if (status != HTC_OK)
        (void)htc_sim_fail(sim, "a member could not store a batch");
}

static htc_status commit(void *ctx, htc_sim_node *node, const htc_effect *effect)
{
    exact_member *m = ctx;
    (void)node;
    m->tag = effect->tag;
    htc_buf_clear(&m->batch);
    htc_put_raw(&m->batch, effect->body);
    if (m->batch.status != HTC_OK)
        return m->batch.status;
    return htc_sim_at(m->x->sim, htc_sim_now(m->x->sim) + m->x->options.sync_ns, synced, &m, sizeof m);
}

/* ---- clients ---- */

static htc_status submit(exact_client *c, htc_ns now, const char *key, int put, uint64_t tag, htc_output *out)
{
    static const char value[VALUE];
    htc_kv_request    q = { .size = sizeof q, .op = put ? HTC_KV_PUT : HTC_KV_GET, .key = htc_bytes_of(key), .value = { value, put ? sizeof value : 0 } };
    return htc_kv_client_submit(c->kv, now, &q, 1, tag, out);
}

/* So many, of as many keys, that each member is the first owner of one. */
static htc_status warm_up(exact *x, exact_client *c, htc_ns now, htc_output *out)
{
    char key[32];
    if (c->warm-- == 0) {
        c->warm = 0;
        x->warming--;
        return HTC_OK;
    }
    snprintf(key, sizeof key, "warm/%u", c->warm);
    return submit(c, now, key, 0, WARM, out);
}

/* The draws of the model. */
static htc_status ask(exact *x, uint64_t client, uint64_t slot, htc_ns now, htc_output *out)
{
    const htc_sim_kvs_options *o = &x->options;
    exact_client              *c = &x->client[client];
    char                       text[32];
    uint64_t                   request = client * o->requests + c->begun++, bits = htc__scale_draw(x->keys, request);
    uint64_t                   key = x->sum ? htc__kvs_weighted(x->sum, o->keys, bits) : kvs_below(bits, o->keys);
    snprintf(text, sizeof text, "key/%llu", (unsigned long long)key);
    x->asked[slot] = now;
    return submit(c, now, text, htc__scale_draw(x->operations, request) >> 1 < x->put_below, slot, out);
}

static htc_status answered(exact *x, uint64_t client, const htc_kv_result *r, htc_ns now, htc_output *out)
{
    exact_client *c = &x->client[client];
    if (r->tag == WARM)
        return warm_up(x, c, now, out);
    x->answered++;
    x->failed += r->status != HTC_OK && r->status != HTC_ENOTFOUND; /* it may read a key before its first put */
    x->response += now - x->asked[r->tag];
    x->last = now;
    c->done++;
    if (c->begun < x->options.requests)
        return ask(x, client, r->tag, now, out);
    if (c->done < x->options.requests)
        return HTC_OK;
    double span = (double)(now - x->begin) / 1e9, rate = span > 0 ? x->options.requests / span : 0;
    x->rate += rate;
    x->rate_squares += rate * rate;
    x->working--;
    return HTC_OK;
}

static htc_status step_client(exact *x, uint64_t client, const htc_input *in, htc_output *out)
{
    exact_client *c = &x->client[client];
    htc_kv_result r = { .size = sizeof r };
    htc_status    status = htc_kv_client_step(c->kv, in, out);
    if (status == HTC_OK && in->kind == HTC_IN_OPENED && in->peer == client * x->peers + 1 && c->warm)
        status = warm_up(x, c, in->now, out);
    while (status == HTC_OK && htc_kv_client_next(c->kv, &r))
        status = answered(x, client, &r, in->now, out);
    return status;
}

static htc_status begin_clients(exact_program *p, htc_ns now, htc_output *out)
{
    htc_status status = HTC_OK;
    uint32_t   depth = p->x->options.depth;
    for (uint64_t c = p->first; c < p->first + p->clients; c++)
        for (uint32_t d = 0; d < depth && d < p->x->options.requests && status == HTC_OK; d++)
            status = ask(p->x, c, c * depth + d, now, out);
    return status;
}

static htc_status step_program(void *self, const htc_input *in, htc_output *out)
{
    exact_program *p = self;
    htc_status     status = HTC_OK;
    if (in->kind == HTC_IN_EVENT && in->op == KVS_PROCESS_BEGIN)
        return begin_clients(p, in->now, out);
    if (in->peer)
        return step_client(p->x, (in->peer - 1) / p->x->peers, in, out);
    for (uint64_t c = p->first; c < p->first + p->clients && status == HTC_OK; c++)
        status = step_client(p->x, c, in, out);
    return status;
}

static htc_ns deadline_of_program(const void *self)
{
    const exact_program *p = self;
    htc_ns               at = HTC_NEVER;
    for (uint64_t c = p->first; c < p->first + p->clients; c++) {
        htc_ns its = htc_kv_client_deadline(p->x->client[c].kv);
        at = its < at ? its : at;
    }
    return at;
}

static htc_status boot_program(void *ctx, htc_sim_node *node)
{
    static const htc_machine_ops ops = { sizeof ops, step_program, deadline_of_program, NULL, 0 };
    exact_program               *p = ctx;
    exact                       *x = p->x;
    p->process.ops = &ops;
    p->process.machine = p;
    htc_status status = htc_sim_install(node, htc__kvs_process_ops(), &p->process);
    for (uint64_t c = p->first; c < p->first + p->clients && status == HTC_OK; c++) {
        uint32_t              home = (uint32_t)c * x->peers + 1;
        htc_kv_client_options o = { .size = sizeof o, .client_id = c + 1, .peer = home, .members = x->options.servers > 1 ? x->options.servers : 0, .member_peer = home + 1, .retry_ns = PATIENCE };
        status = htc_kv_client_create(htc_sim_env(node), &o, &x->client[c].kv);
        if (status == HTC_OK)
            status = htc_sim_dial(node, home, x->member[c % x->options.servers].process.node, NULL);
    }
    return status;
}

static htc_status call(void *ctx, htc_sim_node *node, const htc_effect *effect)
{
    const exact *x = ((exact_program *)ctx)->x;
    if (effect->op != HTC_KV_CLIENT_DIAL)
        return HTC_EUNSUPPORTED;
    for (uint32_t i = 0; i < x->options.servers; i++)
        if (htc_bytes_equal(effect->body, htc_bytes_of(x->address[i])))
            return htc_sim_dial(node, (uint32_t)effect->tag, x->member[i].process.node, NULL);
    return HTC_ENOTFOUND;
}

/* ---- the world ---- */

static htc_status add_process(exact *x, exact_process *p, const char *kind, uint64_t number, const htc_sim_host *host, void *ctx)
{
    char                 name[32];
    htc_sim_node_options n = { .size = sizeof n, .name = name, .host = host, .ctx = ctx };
    snprintf(name, sizeof name, "%s%llu", kind, (unsigned long long)number);
    p->env = &x->memory.env;
    p->o = &x->options;
    p->cores = &x->cores;
    htc_status status = htc__kvs_process_open(p);
    return status == HTC_OK ? htc_sim_add(x->sim, &n, &p->node) : status;
}

static htc_status open_members(exact *x)
{
    static const htc_sim_host host = { .size = sizeof host, .boot = boot_member, .commit = commit };
    htc_rng                   rng = htc_sim_rng(x->sim, "members");
    htc_status                status = HTC_OK;
    for (uint32_t i = 0; i < x->options.servers && status == HTC_OK; i++) {
        exact_member *m = &x->member[i];
        m->x = x;
        m->at = i;
        m->process.members = x->options.servers;
        snprintf(m->address, sizeof m->address, "sim:%u", i);
        x->address[i] = m->address;
        x->listed[i] = (htc_kv_member){ .id = htc_rng_next(&rng) | 1, .peer = i + 1 };
        htc_buf_init(&m->batch, &x->memory.env, 0);
        status = htc_kv_memory_create(&x->memory.env, &m->engine);
        if (status == HTC_OK)
            status = add_process(x, &m->process, "m", i, &host, m);
    }
    for (uint32_t i = 0; i < x->options.servers && status == HTC_OK; i++)
        status = htc_sim_boot(x->member[i].process.node);
    return status == HTC_OK ? htc_sim_run(x->sim, HTC_SECOND) : status;
}

static htc_status open_programs(exact *x)
{
    static const htc_sim_host  host = { .size = sizeof host, .boot = boot_program, .call = call };
    const htc_sim_kvs_options *o = &x->options;
    htc_status                 status = HTC_OK;
    for (uint64_t c = 0; c < o->clients; c++)
        x->client[c].warm = 8 * o->servers + 1;
    for (uint32_t i = 0; i < o->programs && status == HTC_OK; i++) {
        exact_program *p = &x->program[i];
        p->x = x;
        p->first = (i * o->clients + o->programs - 1) / o->programs; /* as the model divides them */
        p->clients = ((i + UINT64_C(1)) * o->clients + o->programs - 1) / o->programs - p->first;
        p->process.begins = (uint32_t)p->clients * o->depth;
        status = add_process(x, &p->process, "c", i, &host, p);
        if (status == HTC_OK)
            status = htc_sim_boot(p->process.node);
    }
    return status;
}

static htc_status open_world(exact *x)
{
    const htc_sim_kvs_options *o = &x->options;
    htc_sim_net                net = { .size = sizeof net, .latency_ns = o->latency_ns };
    htc_sim_options            s = { .size = sizeof s, .seed = o->seed, .net = &net };
    x->member = htc__alloc(&x->memory.env, o->servers * sizeof *x->member);
    x->listed = htc__alloc(&x->memory.env, o->servers * sizeof *x->listed);
    x->address = htc__alloc(&x->memory.env, o->servers * sizeof *x->address);
    x->program = htc__alloc(&x->memory.env, o->programs * sizeof *x->program);
    x->client = htc__alloc(&x->memory.env, o->clients * sizeof *x->client);
    x->asked = htc__alloc(&x->memory.env, o->clients * o->depth * sizeof *x->asked);
    x->sum = o->weights ? htc__alloc(&x->memory.env, o->keys * sizeof *x->sum) : NULL;
    if (!x->member || !x->listed || !x->address || !x->program || !x->client || !x->asked || (o->weights && !x->sum))
        return HTC_ENOMEM;
    x->peers = o->servers + 1;
    x->keys = htc__scale_stream(o->seed, KVS_STREAM_KEYS);
    x->operations = htc__scale_stream(o->seed, KVS_STREAM_OPERATIONS);
    x->stalls = htc__scale_stream(o->seed, KVS_STREAM_STALLS);
    x->put_below = o->no_puts ? 0 : (uint64_t)(o->puts * 0x1p63);
    x->cores.cores = o->cores;
    x->warming = x->working = o->clients;
    htc_status status = htc__kvs_sum_weights(o, x->sum);
    if (status == HTC_OK)
        status = htc_sim_create(&x->memory.env, &s, &x->sim);
    if (status == HTC_OK)
        status = open_members(x);
    return status == HTC_OK ? open_programs(x) : status;
}

static void close_world(exact *x)
{
    const htc_sim_kvs_options *o = &x->options;
    htc_sim_destroy(x->sim);
    for (uint32_t i = 0; x->program && i < o->programs; i++)
        if (x->program[i].x)
            htc__kvs_process_close(&x->program[i].process);
    for (uint64_t c = 0; x->client && c < o->clients; c++)
        htc_kv_client_destroy(x->client[c].kv);
    for (uint32_t i = 0; x->member && i < o->servers; i++) {
        exact_member *m = &x->member[i];
        if (!m->x)
            continue;
        htc__kvs_process_close(&m->process);
        htc_buf_free(&m->batch);
        if (m->engine.ops)
            m->engine.ops->destroy(m->engine.ctx);
    }
    htc__free(&x->memory.env, x->member, o->servers * sizeof *x->member);
    htc__free(&x->memory.env, x->listed, o->servers * sizeof *x->listed);
    htc__free(&x->memory.env, x->address, o->servers * sizeof *x->address);
    htc__free(&x->memory.env, x->program, o->programs * sizeof *x->program);
    htc__free(&x->memory.env, x->client, o->clients * sizeof *x->client);
    htc__free(&x->memory.env, x->asked, o->clients * o->depth * sizeof *x->asked);
    htc__free(&x->memory.env, x->sum, o->keys * sizeof *x->sum);
}

/* ---- a run ---- */

/* What was counted before is none of the run's. */
static htc_status begin_run(exact *x)
{
    const htc_sim_kvs_options *o = &x->options;
    htc_status                 status = HTC_OK;
    x->begin = htc_sim_now(x->sim);
    for (uint32_t i = 0; i < o->servers; i++)
        x->member[i].process.told = (kvs_told){ 0 };
    for (uint32_t i = 0; i < o->programs && status == HTC_OK; i++) {
        htc_ns stall = o->synchronised ? 0 : kvs_below(htc__scale_draw(x->stalls, o->servers + i), o->stall_ns + 1);
        x->program[i].process.told = (kvs_told){ 0 };
        status = htc_sim_event(x->program[i].process.node, stall, KVS_PROCESS_BEGIN, HTC_OK, (htc_bytes){ 0 });
    }
    return status;
}

static int stopped(const exact *x, uint64_t events)
{
    const htc_scale_host *h = &x->host;
    return (events % LOOK_EVERY == 0 && h->stop && *h->stop) || (h->stop_after && htc_sim_events(x->sim) >= h->stop_after);
}

static void tell_progress(exact *x)
{
    htc__progress_tell(&x->progress, &x->host, (htc_scale_progress){ .done = x->answered, .total = x->options.clients * x->options.requests,
                                                                     .events = htc_sim_events(x->sim), .at = htc_sim_now(x->sim) - x->begin });
}

/* Until there is nothing left of *count. HTC_AGAIN: the host has stopped it. */
static htc_status run_until_none(exact *x, const uint64_t *count)
{
    htc_status status = HTC_OK;
    for (uint64_t n = 1; *count && status == HTC_OK; n++) {
        status = htc_sim_next(x->sim);
        if (stopped(x, n))
            return HTC_AGAIN;
        if (n % (64 * LOOK_EVERY) == 0 && x->begin)
            tell_progress(x);
        if (!x->begin && htc_sim_now(x->sim) > HTC_SIM_BEGIN + SETUP) {
            (void)htc_sim_fail(x->sim, "the clients do not reach the members");
            return HTC_OK;
        }
    }
    return status;
}

static void add(htc_sim_kvs_count *to, const htc_sim_kvs_count *n)
{
    to->sent += n->sent;
    to->received += n->received;
}

static void add_process_told(const exact_process *p, htc_sim_kvs_report *r, double *busy_s, uint64_t *served)
{
    *busy_s += (double)p->told.busy / 1e9;
    *served += p->told.served;
    r->turns += p->told.turns;
    r->syncs += p->told.syncs;
    add(&r->requests, &p->told.requests);
    add(&r->consistency, &p->told.between);
}

static void tell(const exact *x, htc_sim_kvs_report *r)
{
    const htc_sim_kvs_options *o = &x->options;
    const char                *wrong = htc_sim_failure(x->sim);
    uint64_t                   served = 0, done = o->clients - x->working;
    for (uint32_t i = 0; i < o->servers; i++)
        add_process_told(&x->member[i].process, r, &r->members_s, &served);
    for (uint32_t i = 0; i < o->programs; i++)
        add_process_told(&x->program[i].process, r, &r->programs_s, &served);
    r->servers = o->servers;
    r->submitted = r->scale.submitted = o->clients * o->requests;
    r->scale.ended = r->scale.ended_here = x->answered;
    r->answered = x->answered - x->failed;
    r->failed = x->failed;
    r->service_ns = o->service_ns;
    r->memory = r->scale.memory = x->memory.peak;
    r->scale.finished = !r->interrupted;
    r->scale.events = r->scale.events_here = htc_sim_events(x->sim);
    r->scale.hash = htc_sim_hash(x->sim);
    r->scale.span = x->begin ? htc_sim_now(x->sim) - x->begin : 0;
    r->scale.makespan = x->last ? x->last - x->begin : 0;
    r->time_s = (double)r->scale.makespan / 1e9;
    if (x->answered && r->time_s > 0) {
        r->throughput = (double)r->answered / r->time_s;
        r->efficiency = (double)served * (double)o->service_ns / 1e9 / (r->time_s * o->servers);
        r->busy = r->members_s / (r->time_s * o->servers);
        r->response_s = (double)x->response / 1e9 / (double)x->answered;
    }
    if (done) {
        r->client_rate = x->rate / (double)done;
        r->client_rate_deviation = htc__kvs_root(x->rate_squares / (double)done - r->client_rate * r->client_rate);
    }
    if (wrong)
        snprintf(r->scale.wrong, sizeof r->scale.wrong, "%s", wrong);
    else if (!r->interrupted && x->answered != r->submitted)
        snprintf(r->scale.wrong, sizeof r->scale.wrong, "of %llu requests %llu were answered", (unsigned long long)r->submitted, (unsigned long long)x->answered);
}

/* ---- all ---- */

static const char *cannot(const htc_sim_kvs_options *o)
{
    if (o->model != HTC_SIM_KVS_LIVE)
        return "the exact engine runs this library's own store, the model live, and no other";
    if (o->resume || o->checkpoint)
        return "a run of the exact engine has no checkpoint";
    return o->keys ? NULL : "the exact engine wants a number of keys: a store without one for each request keeps them all";
}

static htc_status known(exact *x, const htc_sim_kvs_options *options, const htc_sim_kvs_report *report)
{
    htc_status status = report && report->size >= offsetof(htc_sim_kvs_report, scale) ? htc__kvs_known(options, &x->options) : HTC_EINVAL;
    x->host = (htc_scale_host){ .size = sizeof x->host };
    if (status == HTC_OK && x->options.host)
        status = htc__options_copy(&x->host, sizeof x->host, x->options.host, x->options.host->size, sizeof(size_t));
    return status;
}

static htc_status run_world(exact *x)
{
    htc_status status = open_world(x);
    if (status == HTC_OK)
        status = run_until_none(x, &x->warming);
    if (status == HTC_OK)
        status = begin_run(x);
    if (status == HTC_OK)
        status = run_until_none(x, &x->working);
    if (x->memory.too_big)
        return HTC_ETOOBIG;
    return x->no_memory || htc_sim_status(x->sim) == HTC_ENOMEM ? HTC_ENOMEM : status;
}

static void say_why(const exact *x, htc_status status, htc_error *error)
{
    if (status == HTC_ETOOBIG)
        htc__error(error, status, "the run needs more than the %llu MiB of memory that are allowed", (unsigned long long)(x->host.memory_max >> 20));
    else
        htc__error(error, status, "%s",
                   status == HTC_ENOMEM ? "no memory for the store" :
                   status == HTC_EINVAL ? "the weights of the keys are no numbers of which one is above 0" :
                                          htc_strerror(status));
}

htc_status htc_sim_kvs_exact(const htc_env *env, const htc_sim_kvs_options *options, htc_sim_kvs_report *report, htc_error *error)
{
    htc_sim_kvs_report r = { .size = sizeof r, .scale.size = sizeof r.scale };
    exact              x = { 0 };
    htc_status         status = known(&x, options, report);
    const char        *why = status == HTC_OK ? cannot(&x.options) : NULL;
    if (status != HTC_OK)
        return htc__error(error, status, "the options of the run are out of range");
    if (why)
        return htc__error(error, HTC_EUNSUPPORTED, "%s", why);
    if (x.options.servers > HTC_SIM_KVS_EXACT_SERVERS_MAX || x.options.clients > HTC_SIM_KVS_EXACT_CLIENTS_MAX || x.options.depth > HTC_SIM_KVS_EXACT_DEPTH_MAX ||
        x.options.keys > HTC_SIM_KVS_EXACT_KEYS_MAX)
        return htc__error(error, HTC_ETOOBIG, "the exact engine runs at most %d members and %d clients with %d requests each on their way, and %d keys", HTC_SIM_KVS_EXACT_SERVERS_MAX,
                          HTC_SIM_KVS_EXACT_CLIENTS_MAX, HTC_SIM_KVS_EXACT_DEPTH_MAX, HTC_SIM_KVS_EXACT_KEYS_MAX);
    htc__counted_open(&x.memory, env, x.host.memory_max);
    htc__progress_begin(&x.progress, &x.host);
    status = run_world(&x);
    r.interrupted = status == HTC_AGAIN;
    if (status == HTC_OK || r.interrupted || (x.sim && htc_sim_failure(x.sim) && status != HTC_ENOMEM && status != HTC_ETOOBIG)) {
        tell(&x, &r);
        status = htc__options_give(report, &r, sizeof r, offsetof(htc_sim_kvs_report, scale));
    } else {
        say_why(&x, status, error);
    }
    close_world(&x);
    return status;
}
