/* A run of the model of this library's own store, from its options to its report. */
#include <stdio.h>
#include <string.h>

#include "core/util.h"
#include "sim/models/checked.h"
#include "sim/models/kvs.h"
#include "sim/models/kvs_live.h"

#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF /* gcc with -std=c11 does not contract */
#endif

/* Measured by htc-sim calibrate on an EPYC of 2026, over Unix sockets. */
void htc__live_defaults(htc_sim_kvs_options *o)
{
    o->servers = o->servers ? o->servers : 3;
    o->copies = o->copies ? o->copies : o->servers < 3 ? o->servers : 3;
    o->depth = o->depth ? o->depth : 1;
    o->programs = o->programs ? o->programs : (uint32_t)o->clients;
    o->bandwidth = o->bandwidth ? o->bandwidth : 10000000000;
    o->bytes = o->bytes ? o->bytes : 200;
    o->latency_ns = o->latency_ns ? o->latency_ns : 20 * HTC_US;
    o->pack_ns = o->pack_ns ? o->pack_ns : 2 * HTC_US;
    o->unpack_ns = o->unpack_ns ? o->unpack_ns : HTC_US;
    o->service_ns = o->service_ns ? o->service_ns : 2 * HTC_US;
    o->accept_ns = o->accept_ns ? o->accept_ns : HTC_US;
    o->client_ns = o->client_ns ? o->client_ns : HTC_US;
    o->turn_ns = o->turn_ns ? o->turn_ns : HTC_US;
    o->wake_ns = o->wake_ns ? o->wake_ns : 4 * HTC_US;
    o->commit_ns = o->commit_ns ? o->commit_ns : 10 * HTC_US;
    o->write_ns = o->write_ns ? o->write_ns : HTC_US;
    o->tick_ns = o->tick_ns ? o->tick_ns : 10;
    if (!o->messages_max) /* what a request has on its way at once, and what is late of earlier ones */
        o->messages_max = o->clients * o->depth * (3 * o->copies + 2) + 1024;
}

/* ---- its memory ---- */

static uint64_t operations_of(const htc_sim_kvs_options *o)
{
    return o->clients * o->depth;
}

static uint64_t ids_of(const htc_sim_kvs_options *o)
{
    return 2 * (uint64_t)o->servers + o->programs + o->messages_max;
}

static htc_scale_options engine_of(const htc_sim_kvs_options *o, live *m)
{
    return (htc_scale_options){ .size = sizeof(htc_scale_options), .seed = o->seed, .ids = ids_of(o), .tick_ns = o->tick_ns, .tasks = o->clients * o->requests,
                                .event = htc__live_event, .ctx = m, .host = o->host };
}

uint64_t htc__live_memory(const htc_sim_kvs_options *o)
{
    uint64_t          engine = 0, processes = (uint64_t)o->servers + o->programs;
    htc_scale_options e = engine_of(o, NULL);
    (void)htc_scale_memory(&e, &engine);
    return sizeof(live) + engine + operations_of(o) * sizeof(live_op) + o->clients * sizeof(live_client) + processes * sizeof(live_process) + (o->servers + o->clients) * sizeof(uint32_t) +
           o->messages_max * (sizeof(live_item) + sizeof(live_frame)) + o->keys * (sizeof(live_key) + (o->weights ? sizeof(double) : 0));
}

static void close_model(live *m)
{
    const htc_sim_kvs_options *o = &m->options;
    uint64_t                   processes = (uint64_t)o->servers + o->programs;
    htc_scale_destroy(m->scale);
    htc_ring_destroy(m->ring);
    htc__free(&m->env, m->op, operations_of(o) * sizeof *m->op);
    htc__free(&m->env, m->client, o->clients * sizeof *m->client);
    htc__free(&m->env, m->process, processes * sizeof *m->process);
    htc__free(&m->env, m->frame_of, (o->servers + o->clients) * sizeof *m->frame_of);
    htc__free(&m->env, m->item, o->messages_max * sizeof *m->item);
    htc__free(&m->env, m->frame, o->messages_max * sizeof *m->frame);
    htc__free(&m->env, m->key, o->keys * sizeof *m->key);
    htc__free(&m->env, m->sum, o->keys * sizeof *m->sum);
}

static void fill(live *m)
{
    const htc_sim_kvs_options *o = &m->options;
    m->members = o->servers;
    m->programs = o->programs;
    m->owners = o->copies;
    m->majority = o->copies / 2 + 1;
    m->depth = o->depth;
    m->first_sync = (uint32_t)o->messages_max;
    m->first_process = m->first_sync + m->members;
    m->items_max = m->frames_max = (uint32_t)o->messages_max;
    m->byte_ticks = (double)o->bytes * 8e9 / (double)o->bandwidth / (double)o->tick_ns;
    m->latency = htc_scale_ticks(m->scale, o->latency_ns);
    m->pack = htc_scale_ticks(m->scale, o->pack_ns);
    m->unpack = htc_scale_ticks(m->scale, o->unpack_ns);
    m->service = htc_scale_ticks(m->scale, o->service_ns);
    m->accept = htc_scale_ticks(m->scale, o->accept_ns);
    m->client_cost = htc_scale_ticks(m->scale, o->client_ns);
    m->turn = htc_scale_ticks(m->scale, o->turn_ns);
    m->wake = htc_scale_ticks(m->scale, o->wake_ns);
    m->idle = htc_scale_ticks(m->scale, o->idle_ns);
    m->commit = htc_scale_ticks(m->scale, o->commit_ns);
    m->write = htc_scale_ticks(m->scale, o->write_ns);
    m->sync = htc_scale_ticks(m->scale, o->sync_ns);
    m->stall = htc_scale_ticks(m->scale, o->stall_ns);
    m->put_below = o->no_puts ? 0 : (uint64_t)(o->puts * 0x1p63);
    m->keys = htc__scale_stream(o->seed, KVS_STREAM_KEYS);
    m->operations = htc__scale_stream(o->seed, KVS_STREAM_OPERATIONS);
    m->stalls = htc__scale_stream(o->seed, KVS_STREAM_STALLS);
    m->now.free_item = m->now.free_frame = LIVE_NONE;
    m->now.ready = (live_list){ LIVE_NONE, LIVE_NONE };
    m->now.clients = o->clients;
    for (uint32_t p = 0; p < m->members + m->programs; p++) {
        live_list none = { LIVE_NONE, LIVE_NONE };
        m->process[p] = (live_process){ .inbox = none, .staged = none, .syncing = none, .out = LIVE_NONE, .next = LIVE_NONE };
    }
    for (uint64_t link = 0; link < m->members + o->clients; link++)
        m->frame_of[link] = LIVE_NONE;
    for (uint64_t k = 0; k < o->keys; k++)
        m->key[k] = (live_key){ .first = LIVE_NONE, .last = LIVE_NONE, .busy = LIVE_NONE };
}

static htc_status open_model(live *m, htc_error *error)
{
    const htc_sim_kvs_options *o = &m->options;
    htc_scale_options          e = engine_of(o, m);
    uint64_t                   processes = (uint64_t)o->servers + o->programs;
    htc_status                 status = htc_scale_create(&m->env, &e, &m->scale, error);
    if (status != HTC_OK)
        return status;
    m->op = htc__alloc(&m->env, operations_of(o) * sizeof *m->op);
    m->client = htc__alloc(&m->env, o->clients * sizeof *m->client);
    m->process = htc__alloc(&m->env, processes * sizeof *m->process);
    m->frame_of = htc__alloc(&m->env, (o->servers + o->clients) * sizeof *m->frame_of);
    m->item = htc__alloc_raw(&m->env, o->messages_max * sizeof *m->item);
    m->frame = htc__alloc_raw(&m->env, o->messages_max * sizeof *m->frame);
    m->key = o->keys ? htc__alloc(&m->env, o->keys * sizeof *m->key) : NULL;
    m->sum = o->weights ? htc__alloc(&m->env, o->keys * sizeof *m->sum) : NULL;
    status = htc__kvs_open_ring(&m->env, o->servers, o->copies, &m->ring);
    if (status != HTC_OK || !m->op || !m->client || !m->process || !m->frame_of || !m->item || !m->frame || (o->keys && !m->key) || (o->weights && !m->sum))
        return htc__error(error, HTC_ENOMEM, "no memory for the model");
    fill(m);
    status = htc__kvs_sum_weights(o, m->sum);
    return status == HTC_OK ? HTC_OK : htc__error(error, status, "the weights of the keys are no numbers of which one is above 0");
}

/* ---- a checkpoint ---- */

static uint64_t print_of(const live *m)
{
    const htc_sim_kvs_options *o = &m->options;
    uint64_t numbers[] = { o->clients, o->servers, o->requests, o->copies, o->depth, o->programs, o->cores, o->keys, m->put_below, o->synchronised, m->stall, m->latency, m->pack,
                           m->unpack, m->service, m->accept, m->client_cost, m->turn, m->wake, m->idle, m->commit, m->write, m->sync, o->bytes, o->bandwidth, o->messages_max };
    uint64_t print = htc_hash64((htc_bytes){ numbers, sizeof numbers }, o->seed);
    return o->weights ? htc_hash64((htc_bytes){ m->sum, o->keys * sizeof *m->sum }, print) : print;
}

static htc_status move_model(live *m, const htc_scale_tape *tape)
{
    const htc_sim_kvs_options *o = &m->options;
    uint64_t                   head[] = { print_of(m), sizeof m->now, sizeof *m->op, sizeof *m->process }, found[4];
    uint8_t                   *events = NULL;
    memcpy(found, head, sizeof head);
    htc_status status = tape->move(tape->ctx, found, sizeof found);
    if (status == HTC_OK && memcmp(found, head, sizeof head) != 0)
        status = HTC_EFORMAT;
    status = htc__checked_piece(tape, status, &m->now, sizeof m->now);
    if (status == HTC_OK && (m->now.items > m->items_max || m->now.frames > m->frames_max))
        status = HTC_ECORRUPT;
    status = htc__checked_piece(tape, status, m->op, operations_of(o) * sizeof *m->op);
    status = htc__checked_piece(tape, status, m->client, o->clients * sizeof *m->client);
    status = htc__checked_piece(tape, status, m->process, ((uint64_t)o->servers + o->programs) * sizeof *m->process);
    status = htc__checked_piece(tape, status, m->item, m->now.items * sizeof *m->item);
    status = htc__checked_piece(tape, status, m->frame, m->now.frames * sizeof *m->frame);
    status = htc__checked_piece(tape, status, m->key, o->keys * sizeof *m->key);
    if (status == HTC_OK)
        status = htc__checked_engine(m->scale, tape, &events);
    if (status == HTC_OK && tape->reads)
        status = htc__live_check(m, events);
    htc__checked_forget(m->scale, events);
    return status;
}

/* ---- a run ---- */

static void check(const live *m, htc_sim_kvs_report *r, uint64_t busy)
{
    char  *wrong = r->scale.wrong;
    size_t size = sizeof r->scale.wrong;
    if (r->interrupted || wrong[0])
        return;
    if (r->requests.sent != r->requests.received || r->consistency.sent != r->consistency.received)
        snprintf(wrong, size, "of %llu frames %llu were received", (unsigned long long)(r->requests.sent + r->consistency.sent),
                 (unsigned long long)(r->requests.received + r->consistency.received));
    else if (r->answered != r->submitted || m->now.clients)
        snprintf(wrong, size, "of %llu requests %llu were answered", (unsigned long long)r->submitted, (unsigned long long)r->answered);
    else if (m->options.cores && busy > (htc_scale_now(m->scale)) * m->options.cores)
        snprintf(wrong, size, "processes worked longer than there was time on %u cores", m->options.cores);
}

static void tell(live *m, htc_sim_kvs_report *r)
{
    uint64_t busy = 0, all = 0, end = htc_scale_now(m->scale), done = m->options.clients - m->now.clients;
    htc_scale_messages(m->scale, m->now.requests.sent + m->now.between.sent, m->now.requests.received + m->now.between.received, 0);
    htc_scale_report_get(m->scale, &r->scale);
    for (uint32_t p = 0; p < m->members + m->programs; p++) {
        busy += p < m->members ? m->process[p].busy : 0;
        all += m->process[p].busy;
    }
    r->servers = m->members;
    r->submitted = r->scale.submitted;
    r->answered = m->now.answered;
    r->requests = m->now.requests;
    r->consistency = m->now.between;
    r->service_ns = m->service * m->options.tick_ns;
    r->time_s = (double)m->now.last * (double)m->options.tick_ns / 1e9;
    r->syncs = m->now.syncs;
    r->turns = m->now.turns;
    r->members_s = (double)busy * (double)m->options.tick_ns / 1e9;
    r->programs_s = (double)(all - busy) * (double)m->options.tick_ns / 1e9;
    if (m->now.last) {
        r->throughput = (double)m->now.answered / r->time_s;
        r->efficiency = (double)m->now.served / ((double)m->now.last * m->members);
        r->busy = (double)busy / ((double)end * m->members);
    }
    if (m->now.answered)
        r->response_s = (double)m->now.response * (double)m->options.tick_ns / 1e9 / (double)m->now.answered;
    if (done) {
        r->client_rate = m->now.rate / (double)done;
        r->client_rate_deviation = htc__kvs_root(m->now.rate_squares / (double)done - r->client_rate * r->client_rate);
    }
    check(m, r, all);
}

static htc_status go(live *m, htc_sim_kvs_report *r, htc_error *error)
{
    htc_status status = HTC_OK;
    if (m->options.resume)
        status = move_model(m, m->options.resume);
    else
        htc__live_begin(m);
    if (status != HTC_OK)
        return htc__checked_error(m->scale, error, status);
    status = htc_scale_run(m->scale);
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

htc_status htc__live_run(const htc_env *env, const htc_sim_kvs_options *o, htc_sim_kvs_report *r, htc_error *error)
{
    live       m = { .env = *env, .options = *o };
    htc_status status = open_model(&m, error);
    if (status == HTC_OK)
        status = go(&m, r, error);
    if (status == HTC_OK)
        tell(&m, r);
    close_model(&m);
    return status;
}
