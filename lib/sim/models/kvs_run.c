/* A run of the store model from its options to its report. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "core/util.h"
#include "sim/models/checked.h"
#include "sim/models/kvs.h"
#include "sim/models/kvs_live.h"

#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF /* gcc with -std=c11 does not contract */
#endif

#define CLIENTS_A_SERVER 1024u

/* ---- costs ---- */

/* Microseconds of service on the first machine, by the clients of one server. */
static const struct {
    uint32_t clients, service;
} measured[] = { { 1, 613 }, { 2, 611 }, { 4, 608 }, { 8, 601 }, { 16, 588 }, { 32, 567 }, { 64, 537 }, { 128, 509 }, { 256, 505 }, { 512, 541 }, { 1024, 637 } };

/* Nanoseconds: what was measured, a straight line between, and in proportion to the clients beyond. */
static htc_ns service_of(uint64_t clients)
{
    size_t n = sizeof measured / sizeof *measured, i = 1;
    if (clients >= measured[n - 1].clients)
        return measured[n - 1].service * clients * 1000 / measured[n - 1].clients;
    while (measured[i].clients < clients)
        i++;
    int64_t from = measured[i - 1].clients, to = measured[i].clients, low = measured[i - 1].service, high = measured[i].service;
    return (htc_ns)(1000 * low + 1000 * (high - low) * ((int64_t)clients - from) / (to - from));
}

static int one_server(const htc_sim_kvs_options *o)
{
    return o->model == HTC_SIM_KVS_CSINGLE || o->model == HTC_SIM_KVS_CTREE;
}

static void default_costs(htc_sim_kvs_options *o)
{
    int kodiak = o->machine == HTC_SIM_KVS_KODIAK;
    o->bandwidth = o->bandwidth ? o->bandwidth : kodiak ? 1000000000 : 6800000000;
    o->latency_ns = o->latency_ns ? o->latency_ns : kodiak ? 12 * HTC_US : 100 * HTC_US;
    o->pack_ns = o->pack_ns ? o->pack_ns : kodiak ? 40 * HTC_US : 50 * HTC_US;
    o->unpack_ns = o->unpack_ns ? o->unpack_ns : kodiak ? 40 * HTC_US : 50 * HTC_US;
    o->bytes = o->bytes ? o->bytes : 10240;
    if (!o->service_ns) /* the base is 500 us there, 1500 us here */
        o->service_ns = service_of(one_server(o) ? o->clients : CLIENTS_A_SERVER) * (kodiak ? 3 : 1);
}

/* ---- options ---- */

static int out_of_range(const htc_sim_kvs_options *o)
{
    return o->clients < 1 || o->clients > HTC_SIM_KVS_CLIENTS_MAX || o->servers > HTC_SIM_KVS_SERVERS_MAX || o->model > HTC_SIM_KVS_LIVE ||
           o->machine > HTC_SIM_KVS_KODIAK || o->select > HTC_SIM_KVS_SELECT_CLIENT || o->queues > HTC_SIM_KVS_PARALLEL ||
           o->consistency > HTC_SIM_KVS_MAJORITY || o->placement > HTC_SIM_KVS_RING || o->strategy > HTC_SIM_KVS_ROUND_ROBIN || o->notify > HTC_SIM_KVS_LAZY ||
           o->copies > HTC_SIM_KVS_COPIES_MAX || o->tries > 31 || o->synchronised > 1 || o->no_puts > 1 || !(o->puts >= 0 && o->puts <= 1) ||
           o->keys > UINT64_C(1) << 32 || (o->weights && !o->keys) || o->bytes > UINT64_C(1) << 32 || o->bandwidth > UINT64_C(1) << 60 ||
           o->requests > INT32_MAX || o->messages_max > UINT32_MAX || o->depth > HTC_SIM_KVS_DEPTH_MAX || o->clients * (o->depth + !o->depth) > HTC_SIM_KVS_CLIENTS_MAX ||
           o->programs > o->clients;
}

/* Operations of one client of which copies are on their way at once: one where an answer waits for all of them, and all where it waits for none. */
static uint64_t operations_at_once(const htc_sim_kvs_options *o)
{
    uint64_t n = o->requests < 4 ? o->requests : 4;
    if (o->consistency == HTC_SIM_KVS_STRONG)
        n = 1;
    else if (o->consistency == HTC_SIM_KVS_EVENTUAL && (o->reads == 1 || o->writes == 1))
        n = o->requests;
    return o->failure_ns ? 2 * n : n;
}

static void default_sizes(htc_sim_kvs_options *o)
{
    uint64_t by_clients = o->clients / CLIENTS_A_SERVER ? o->clients / CLIENTS_A_SERVER : 1;
    o->copies = o->copies ? o->copies : 1;
    o->requests = o->requests ? o->requests : 10;
    o->servers = one_server(o) ? o->copies : o->servers ? o->servers : (uint32_t)by_clients;
    o->reads = o->reads ? o->reads : o->copies < 2 ? o->copies : 2;
    o->writes = o->writes ? o->writes : o->copies < 2 ? o->copies : 2;
    o->tries = o->tries ? o->tries : 3;
    o->puts = o->puts > 0 ? o->puts : 0.5;
    o->stall_ns = o->stall_ns ? o->stall_ns : 100 * HTC_MS;
    o->timeout_ns = o->timeout_ns ? o->timeout_ns : HTC_SECOND;
    o->first_failure_ns = o->first_failure_ns ? o->first_failure_ns : 5 * HTC_MS;
    o->tick_ns = o->tick_ns ? o->tick_ns : 100;
    if (!o->messages_max)
        o->messages_max = operations_at_once(o) * (o->copies - 1) * o->clients + (o->failure_ns ? 4 * (uint64_t)o->servers + 1024 : 0);
}

htc_status htc__kvs_known(const htc_sim_kvs_options *in, htc_sim_kvs_options *o)
{
    *o = (htc_sim_kvs_options){ .size = sizeof *o };
    htc_status status = in ? htc__options_copy(o, sizeof *o, in, in->size, offsetof(htc_sim_kvs_options, model)) : HTC_EINVAL;
    if (status == HTC_OK && out_of_range(o))
        status = HTC_EINVAL;
    if (status != HTC_OK)
        return status;
    if (o->model == HTC_SIM_KVS_LIVE)
        htc__live_defaults(o);
    default_sizes(o);
    default_costs(o);
    return o->copies > o->servers || o->reads > o->copies || o->writes > o->copies || o->servers > HTC_SIM_KVS_SERVERS_MAX || o->messages_max > UINT32_MAX ? HTC_EINVAL : HTC_OK;
}

static uint32_t aggregators_of(const htc_sim_kvs_options *o)
{
    return o->model != HTC_SIM_KVS_CTREE ? 0 : o->clients < CLIENTS_A_SERVER ? 1 : (uint32_t)(o->clients / CLIENTS_A_SERVER);
}

/* How many copies of all have clocks: keys that are few, in the eventual mode. */
static uint64_t clocks_of(const htc_sim_kvs_options *o)
{
    return o->keys && o->copies > 1 && o->consistency == HTC_SIM_KVS_EVENTUAL ? o->copies : 0;
}

static uint64_t ids_of(const htc_sim_kvs_options *o)
{
    return o->clients + aggregators_of(o) + 1 + o->messages_max;
}

static uint64_t tables(const htc_sim_kvs_options *o)
{
    uint64_t aggregators = aggregators_of(o), clocks = clocks_of(o);
    return (o->clients + 1) * sizeof(kvs_client) + (o->servers + aggregators) * sizeof(kvs_server) + o->messages_max * sizeof(kvs_message) +
           aggregators * sizeof(kvs_aggregator) + (aggregators ? o->clients * sizeof(uint32_t) : 0) + o->keys * clocks * clocks * sizeof(uint32_t) +
           o->messages_max * clocks * sizeof(uint32_t) + (o->weights ? o->keys * sizeof(double) : 0);
}

static htc_scale_options engine_of(const htc_sim_kvs_options *o, kvs *m)
{
    return (htc_scale_options){ .size = sizeof(htc_scale_options), .seed = o->seed, .ids = ids_of(o), .tick_ns = o->tick_ns, .tasks = o->clients * o->requests,
                                .event = htc__kvs_event, .soon = htc__kvs_soon, .ctx = m, .host = o->host };
}

htc_status htc_sim_kvs_memory(const htc_sim_kvs_options *options, uint64_t *bytes)
{
    htc_sim_kvs_options o;
    htc_status          status = bytes ? htc__kvs_known(options, &o) : HTC_EINVAL;
    uint64_t            engine = 0;
    if (status == HTC_OK && o.model == HTC_SIM_KVS_LIVE) {
        *bytes = htc__live_memory(&o);
        return HTC_OK;
    }
    if (status == HTC_OK) {
        htc_scale_options e = engine_of(&o, NULL);
        status = htc_scale_memory(&e, &engine);
    }
    if (status == HTC_OK)
        *bytes = sizeof(kvs) + tables(&o) + engine;
    return status;
}

/* ---- a run ---- */

static uint64_t at_least_one(const kvs *m, htc_ns span)
{
    uint64_t n = htc_scale_ticks(m->scale, span);
    return span && !n ? 1 : n;
}

static void fill_numbers(kvs *m)
{
    const htc_sim_kvs_options *o = &m->options;
    m->copies = o->copies;
    m->reads = o->reads;
    m->writes = o->writes;
    m->parallel = o->queues == HTC_SIM_KVS_PARALLEL;
    m->chord = o->model == HTC_SIM_KVS_DCHORD;
    m->lazy = o->notify == HTC_SIM_KVS_LAZY;
    m->clients_a_server = one_server(o) ? UINT32_MAX : (uint32_t)((o->clients + o->servers - 1) / o->servers);
    m->bytes_ticks = (double)o->bytes * 8e9 / (double)o->bandwidth / (double)o->tick_ns;
    m->latency = htc_scale_ticks(m->scale, o->latency_ns);
    m->transmit = m->latency + (uint64_t)(m->bytes_ticks + 0.5);
    m->pack = htc_scale_ticks(m->scale, o->pack_ns);
    m->unpack = htc_scale_ticks(m->scale, o->unpack_ns);
    m->service = htc_scale_ticks(m->scale, o->service_ns);
    m->stall = htc_scale_ticks(m->scale, o->stall_ns);
    m->timeout = htc_scale_ticks(m->scale, o->timeout_ns);
    m->failure = at_least_one(m, o->failure_ns);
    m->first_failure = htc_scale_ticks(m->scale, o->first_failure_ns);
    m->put_below = o->no_puts ? 0 : (uint64_t)(o->puts * 0x1p63);
    m->keys = htc__scale_stream(o->seed, KVS_STREAM_KEYS);
    m->operations = htc__scale_stream(o->seed, KVS_STREAM_OPERATIONS);
    m->coordinators = htc__scale_stream(o->seed, KVS_STREAM_COORDINATORS);
    m->stalls = htc__scale_stream(o->seed, KVS_STREAM_STALLS);
    m->flips = htc__scale_stream(o->seed, KVS_STREAM_FLIPS);
    m->part = UINT64_MAX / m->servers; /* of 1 it is 2^64 - 1, which is near enough */
    m->first_batch = (uint32_t)o->clients;
    m->monitor = m->first_batch + m->aggregators;
    m->first_message = m->monitor + 1;
}

htc_status htc__kvs_sum_weights(const htc_sim_kvs_options *o, double *sums)
{
    double sum = 0;
    for (uint64_t i = 0; o->weights && i < o->keys; i++) {
        if (!(o->weights[i] >= 0 && o->weights[i] < 1e300))
            return HTC_EINVAL;
        sums[i] = sum += o->weights[i];
    }
    return o->weights && !(sum > 0) ? HTC_EINVAL : HTC_OK;
}

_Static_assert(sizeof(kvs_client) == 32, "a client is half a line of the cache");

static htc_status fill(kvs *m)
{
    const htc_sim_kvs_options *o = &m->options;
    fill_numbers(m);
    m->now.free_message = KVS_NONE;
    m->now.clients = o->clients;
    for (uint32_t s = 0; s < m->servers + m->aggregators; s++)
        m->server[s].up = 1;
    for (uint32_t a = 0; a < m->aggregators; a++) { /* client c belongs to aggregator c * aggregators / clients, rounded down */
        uint64_t first = (a * o->clients + m->aggregators - 1) / m->aggregators, next = ((a + 1) * o->clients + m->aggregators - 1) / m->aggregators;
        m->aggregator[a] = (kvs_aggregator){ .first = (uint32_t)first, .clients = (uint32_t)(next - first), .active = (uint32_t)(next - first) };
    }
    return htc__kvs_sum_weights(o, m->sum);
}

htc_status htc__kvs_open_ring(const htc_env *env, uint32_t n, uint32_t owners, htc_ring **out)
{
    htc_ring_options ring = HTC_RING_OPTIONS_INIT;
    htc_ring_member *member = htc__alloc(env, n * sizeof *member);
    if (!member)
        return HTC_ENOMEM;
    for (uint32_t i = 0; i < n; i++) /* in this order, so that member i has seat i */
        member[i] = (htc_ring_member){ .id = i + 1, .weight = 1 };
    ring.bits = 12;
    while (ring.bits < HTC_RING_BITS_MAX && UINT64_C(1) << ring.bits < (uint64_t)HTC_RING_BUCKETS_A_MEMBER * n)
        ring.bits++;
    ring.owners = owners;
    ring.members_max = n;
    htc_status status = htc_ring_create(env, &ring, member, n, out);
    htc__free(env, member, n * sizeof *member);
    return status;
}

static void close_model(kvs *m)
{
    const htc_sim_kvs_options *o = &m->options;
    uint64_t                   clocks = clocks_of(o);
    htc_scale_destroy(m->scale);
    htc_ring_destroy(m->ring);
    htc__free(&m->env, m->client_room, (o->clients + 1) * sizeof *m->client);
    htc__free(&m->env, m->server, (m->servers + m->aggregators) * sizeof *m->server);
    htc__free(&m->env, m->message, o->messages_max * sizeof *m->message);
    htc__free(&m->env, m->aggregator, m->aggregators * sizeof *m->aggregator);
    htc__free(&m->env, m->batch, o->clients * sizeof *m->batch);
    htc__free(&m->env, m->clock, o->keys * clocks * clocks * sizeof *m->clock);
    htc__free(&m->env, m->sent_clock, o->messages_max * clocks * sizeof *m->sent_clock);
    htc__free(&m->env, m->sum, o->keys * sizeof *m->sum);
}

static htc_status open_model(kvs *m, htc_error *error)
{
    const htc_sim_kvs_options *o = &m->options;
    htc_scale_options          e = engine_of(o, m);
    uint64_t                   clocks = clocks_of(o);
    m->servers = o->servers;
    m->aggregators = aggregators_of(o);
    m->messages_max = o->messages_max;
    m->seats = o->placement == HTC_SIM_KVS_RING && o->servers > HTC_RING_OWNERS_MAX ? HTC_RING_OWNERS_MAX : o->servers;
    htc_status status = htc_scale_create(&m->env, &e, &m->scale, error);
    if (status != HTC_OK)
        return status;
    m->client_room = htc__alloc(&m->env, (o->clients + 1) * sizeof *m->client);
    if (m->client_room)
        m->client = (kvs_client *)(((uintptr_t)m->client_room + sizeof *m->client - 1) / sizeof *m->client * sizeof *m->client);
    m->server = htc__alloc(&m->env, (m->servers + m->aggregators) * sizeof *m->server);
    if (o->messages_max)
        m->message = htc__alloc_raw(&m->env, o->messages_max * sizeof *m->message);
    if (m->aggregators) {
        m->aggregator = htc__alloc(&m->env, m->aggregators * sizeof *m->aggregator);
        m->batch = htc__alloc(&m->env, o->clients * sizeof *m->batch);
    }
    if (clocks) {
        m->clock = htc__alloc(&m->env, o->keys * clocks * clocks * sizeof *m->clock);
        m->sent_clock = htc__alloc_raw(&m->env, o->messages_max * clocks * sizeof *m->sent_clock);
    }
    if (o->weights)
        m->sum = htc__alloc(&m->env, o->keys * sizeof *m->sum);
    if (o->model == HTC_SIM_KVS_DFC && o->placement == HTC_SIM_KVS_RING)
        status = htc__kvs_open_ring(&m->env, m->servers, m->seats, &m->ring);
    if (status != HTC_OK || !m->client || !m->server || (o->messages_max && !m->message) || (m->aggregators && (!m->aggregator || !m->batch)) ||
        (clocks && (!m->clock || !m->sent_clock)) || (o->weights && !m->sum))
        return htc__error(error, HTC_ENOMEM, "no memory for the model");
    status = fill(m);
    return status == HTC_OK ? HTC_OK : htc__error(error, status, "the weights of the keys are no numbers of which one is above 0");
}

/* ---- a checkpoint ---- */

/* What an experiment is: another one's checkpoint is refused. */
static uint64_t print_of(const kvs *m)
{
    const htc_sim_kvs_options *o = &m->options;
    uint64_t numbers[] = { o->clients, o->model, o->servers, o->requests, o->select, o->queues, o->consistency, o->copies, o->reads, o->writes, o->placement,
                           o->strategy, o->tries, o->notify, o->synchronised, m->put_below, o->keys, m->stall, m->timeout, m->failure, m->first_failure,
                           m->transmit, m->latency, m->pack, m->unpack, m->service, o->bytes, o->bandwidth, o->messages_max };
    uint64_t print = htc_hash64((htc_bytes){ numbers, sizeof numbers }, o->seed);
    return o->weights ? htc_hash64((htc_bytes){ m->sum, o->keys * sizeof *m->sum }, print) : print;
}

static htc_status move_model(kvs *m, const htc_scale_tape *tape)
{
    const htc_sim_kvs_options *o = &m->options;
    uint64_t                   clocks = clocks_of(o), head[] = { print_of(m), sizeof m->now, sizeof *m->client, sizeof *m->message }, found[4];
    uint8_t                   *events = NULL;
    memcpy(found, head, sizeof head);
    htc_status status = tape->move(tape->ctx, found, sizeof found);
    if (status == HTC_OK && memcmp(found, head, sizeof head) != 0)
        status = HTC_EFORMAT;
    status = htc__checked_piece(tape, status, &m->now, sizeof m->now);
    if (status == HTC_OK && m->now.messages > o->messages_max)
        status = HTC_ECORRUPT;
    status = htc__checked_piece(tape, status, m->client, o->clients * sizeof *m->client);
    status = htc__checked_piece(tape, status, m->server, (m->servers + m->aggregators) * sizeof *m->server);
    status = htc__checked_piece(tape, status, m->message, m->now.messages * sizeof *m->message);
    status = htc__checked_piece(tape, status, m->aggregator, m->aggregators * sizeof *m->aggregator);
    status = htc__checked_piece(tape, status, m->batch, m->aggregators ? o->clients * sizeof *m->batch : 0);
    status = htc__checked_piece(tape, status, m->clock, o->keys * clocks * clocks * sizeof *m->clock);
    status = htc__checked_piece(tape, status, m->sent_clock, m->now.messages * clocks * sizeof *m->sent_clock);
    if (status == HTC_OK)
        status = htc__checked_engine(m->scale, tape, &events);
    if (status == HTC_OK && tape->reads)
        status = htc__kvs_check(m, events);
    htc__checked_forget(m->scale, events);
    return status;
}

/* ---- what is told ---- */

static double seconds(const kvs *m, uint64_t n)
{
    return (double)n * (double)m->options.tick_ns / 1e9;
}

/* The square root, of the four operations alone: the same everywhere. */
double htc__kvs_root(double x)
{
    double r = x > 1 ? x : 1;
    for (int i = 0; i < 200 && x > 0; i++)
        r = (r + x / r) / 2;
    return x > 0 ? r : 0;
}

/* Whether the servers' clocks have gone on by no less than what was done. */
static int had_time(const kvs *m)
{
    uint64_t communicated = 0, processed = 0, both = 0, packing = m->now.received * m->unpack + m->now.packed * m->pack, serving = m->now.served * m->service;
    for (uint32_t s = 0; s < m->servers + m->aggregators; s++) {
        communicated += m->server[s].f;
        processed += m->server[s].p;
        both += kvs_later(m->server[s].f, m->server[s].p);
    }
    return packing <= communicated && serving <= processed && (m->parallel || packing + serving <= both);
}

static void check(const kvs *m, htc_sim_kvs_report *r)
{
    static const char *const kind[] = { "of requests", "between copies", "about failures" };
    char  *wrong = r->scale.wrong;
    size_t size = sizeof r->scale.wrong;
    if (r->interrupted || wrong[0])
        return;
    for (int i = 0; i < KVS_KINDS && !wrong[0]; i++) {
        const htc_sim_kvs_count *n = &m->now.count[i];
        if (n->sent != n->received + n->lost)
            snprintf(wrong, size, "of %llu messages %s %llu were received and %llu lost", (unsigned long long)n->sent, kind[i], (unsigned long long)n->received,
                     (unsigned long long)n->lost);
    }
    if (!wrong[0] && r->answered + r->failed != r->submitted)
        snprintf(wrong, size, "of %llu requests %llu were answered and %llu failed", (unsigned long long)r->submitted, (unsigned long long)r->answered,
                 (unsigned long long)r->failed);
    else if (!wrong[0] && (m->now.clients || m->now.live || m->now.batch_pending))
        snprintf(wrong, size, "in the end %llu clients, %llu in batches, and %u messages wait", (unsigned long long)m->now.clients,
                 (unsigned long long)m->now.batch_pending, m->now.live);
    else if (!wrong[0] && !had_time(m))
        snprintf(wrong, size, "servers worked longer than there was time");
}

static void tell(kvs *m, htc_sim_kvs_report *r)
{
    const struct kvs_state *now = &m->now;
    uint64_t                bytes = 0, ended = now->answered + now->failed, done = m->options.clients - now->clients;
    for (int i = 0; i < KVS_KINDS; i++)
        htc__scale_messages(m->scale, now->count[i].sent, now->count[i].received, now->count[i].lost);
    htc_scale_report_get(m->scale, &r->scale);
    (void)htc_sim_kvs_memory(&m->options, &bytes);
    r->memory = bytes;
    r->servers = m->servers;
    r->aggregators = m->aggregators;
    r->flips = now->flips;
    r->submitted = r->scale.submitted;
    r->answered = now->answered;
    r->failed = now->failed;
    r->write_backs = now->write_backs;
    r->conflicts = now->conflicts;
    r->refused = now->refused;
    r->requests = now->count[KVS_REQUESTS];
    r->consistency = now->count[KVS_COPIES];
    r->failures = now->count[KVS_FAILURES];
    r->service_ns = m->service * m->options.tick_ns;
    r->time_s = seconds(m, now->last);
    double room = (double)now->last * m->servers, all = (double)kvs_later(htc__scale_time(m->scale), now->last) * (m->servers + m->aggregators);
    if (now->last) {
        r->throughput = (double)now->answered / r->time_s;
        r->efficiency = (double)now->answered * (double)m->service / room;
        r->busy = ((double)now->received * (double)m->unpack + (double)now->served * (double)m->service + (double)now->packed * (double)m->pack) / all;
    }
    if (ended && !r->interrupted)
        r->response_s = seconds(m, now->response) / (double)ended;
    if (done) {
        r->client_rate = now->rate / (double)done;
        r->client_rate_deviation = htc__kvs_root(now->rate_squares / (double)done - r->client_rate * r->client_rate);
    }
    check(m, r);
}

/* ---- all ---- */

static htc_status go(kvs *m, htc_sim_kvs_report *r, htc_error *error)
{
    if (!m->options.resume)
        htc__kvs_begin(m);
    else {
        htc_status status = move_model(m, m->options.resume);
        if (status != HTC_OK)
            return htc__checked_error(m->scale, error, status);
    }
    htc_status status = htc_scale_run(m->scale);
    r->interrupted = status == HTC_AGAIN;
    if (r->interrupted)
        status = m->options.checkpoint ? move_model(m, m->options.checkpoint) : HTC_OK;
    if (status == HTC_OK)
        return HTC_OK;
    if (r->interrupted)
        return htc__error(error, status, "the checkpoint could not be written");
    return htc__error(error, status, "the run cannot go on: %s", status == HTC_ETOOBIG ? "it takes more ticks than there are; make them longer"
                                     : status == HTC_EFULL ? "more messages are on their way than messages_max"
                                                           : htc_strerror(status));
}

htc_status htc_sim_kvs_run(const htc_env *env, const htc_sim_kvs_options *options, htc_sim_kvs_report *report, htc_error *error)
{
    htc_sim_kvs_report r = { .size = sizeof r, .scale.size = sizeof r.scale };
    kvs                m = { 0 };
    uint64_t           bytes = 0;
    htc_status         status = report && report->size >= offsetof(htc_sim_kvs_report, scale) ? htc__kvs_known(options, &m.options) : HTC_EINVAL;
    if (status == HTC_OK)
        status = htc_sim_kvs_memory(&m.options, &bytes);
    if (status != HTC_OK)
        return htc__error(error, status, "the options of the run are out of range");
    if (m.options.host && m.options.host->memory_max && bytes > m.options.host->memory_max)
        return htc__error(error, HTC_ETOOBIG, "%llu client%s and %u server%s need %llu MiB, and %llu MiB are allowed", (unsigned long long)m.options.clients, htc__plural(m.options.clients),
                          m.options.servers, htc__plural(m.options.servers), (unsigned long long)(bytes >> 20), (unsigned long long)(m.options.host->memory_max >> 20));
    if (env)
        m.env = *env;
    if (m.options.model == HTC_SIM_KVS_LIVE) {
        r.memory = bytes;
        status = htc__live_run(&m.env, &m.options, &r, error);
    } else {
        status = open_model(&m, error);
        if (status == HTC_OK)
            status = go(&m, &r, error);
        if (status == HTC_OK)
            tell(&m, &r);
        close_model(&m);
    }
    return status == HTC_OK ? htc__options_give(report, &r, sizeof r, offsetof(htc_sim_kvs_report, scale)) : status;
}
