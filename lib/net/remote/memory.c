/* A store inside the handle: a client and a server machine that hand each other their messages. */
#include <time.h>

#include "core/util.h"
#include "htcsched/host.h"
#include "htcsched/kv_server.h"
#include "kvs/client/client.h"
#include "net/remote/stores.h"

#define PEER 1

typedef struct memory {
    htc_env        env, server_env;
    htc_rng        rng;
    htc_kv_engine  engine;
    htc_kv_server *server;
    htc_kv_client *client;
    htc_output    *to_server, *to_client;
} memory;

static void close_memory(void *ctx)
{
    memory *m = ctx;
    htc_env env = m->env;
    htc_kv_client_destroy(m->client);
    htc_kv_server_destroy(m->server);
    if (m->engine.ops)
        m->engine.ops->destroy(m->engine.ctx);
    htc_output_destroy(m->to_server);
    htc_output_destroy(m->to_client);
    htc__free(&env, m, sizeof *m);
}

static htc_input input_of(uint32_t kind)
{
    return (htc_input){ .size = sizeof(htc_input), .now = htc_host_now(), .wall = htc_host_wall(), .kind = kind, .peer = PEER };
}

static htc_status step_server(memory *m, const htc_input *in)
{
    return htc_kv_server_ops()->step(m->server, in, m->to_client);
}

/* What the client wants to send goes to the server. */
static htc_status deliver_to_server(memory *m)
{
    htc_effect e;
    htc_status status = HTC_OK;
    for (size_t i = 0; status == HTC_OK && htc_output_get(m->to_server, i, &e) == HTC_OK; i++) {
        htc_input in = input_of(HTC_IN_MESSAGE);
        in.body = e.body;
        if (e.kind == HTC_OUT_MESSAGE)
            status = step_server(m, &in);
    }
    htc_output_clear(m->to_server);
    return status;
}

/* What the server asks for: commits are done at once, messages go to the client. */
static htc_status deliver_to_client(memory *m)
{
    htc_effect e;
    htc_status status = HTC_OK;
    for (size_t i = 0; status == HTC_OK && htc_output_get(m->to_client, i, &e) == HTC_OK; i++) {
        if (e.kind == HTC_OUT_MESSAGE) {
            htc_input in = input_of(HTC_IN_MESSAGE);
            in.body = e.body;
            status = htc_kv_client_step(m->client, &in, m->to_server);
        } else if (e.kind == HTC_OUT_COMMIT) {
            htc_input in = input_of(HTC_IN_STORED);
            in.tag = e.tag;
            in.status = m->engine.ops->apply(m->engine.ctx, e.body);
            status = step_server(m, &in);
        } else if (e.kind == HTC_OUT_STOP) {
            status = e.status == HTC_OK ? HTC_EINTERNAL : e.status;
        }
    }
    htc_output_clear(m->to_client);
    return status;
}

static htc_status settle(memory *m)
{
    htc_status status = HTC_OK;
    while (status == HTC_OK && (htc_output_count(m->to_server) || htc_output_count(m->to_client))) {
        status = deliver_to_server(m);
        if (status == HTC_OK)
            status = deliver_to_client(m);
    }
    return status;
}

static htc_status start(memory *m)
{
    htc_input  start = input_of(HTC_IN_START), opened = input_of(HTC_IN_OPENED);
    htc_status status = step_server(m, &start);
    if (status == HTC_OK)
        status = step_server(m, &opened);
    if (status == HTC_OK)
        status = htc_kv_client_step(m->client, &opened, m->to_server);
    return status == HTC_OK ? settle(m) : status;
}

static htc_status open_memory(const htc_env *env, const htc_store_options *options, const char *rest, void **ctx,
                              htc_error *error)
{
    htc_kv_client_options client = { .size = sizeof client, .client_id = 1, .peer = PEER, .timeout_ns = options->timeout_ns };
    htc_kv_server_options server = { .size = sizeof server };
    memory               *m = htc__alloc(env, sizeof *m);
    if (!m)
        return htc__error(error, HTC_ENOMEM, "out of memory");
    m->env = m->server_env = *env;
    htc_host_random(&m->rng, sizeof m->rng);
    htc_host_random(&client.client_id, sizeof client.client_id);
    m->server_env.rng = &m->rng;
    htc_status status = *rest ? HTC_EINVAL : htc_kv_memory_create(env, &m->engine);
    server.engine = m->engine;
    if (status == HTC_OK)
        status = htc_kv_server_create(&m->server_env, &server, &m->server);
    if (status == HTC_OK)
        status = htc_kv_client_create(env, &client, &m->client);
    if (status == HTC_OK)
        status = htc_output_create(env, 0, &m->to_server);
    if (status == HTC_OK)
        status = htc_output_create(env, 0, &m->to_client);
    if (status == HTC_OK)
        status = start(m);
    if (status != HTC_OK) {
        close_memory(m);
        return htc__error(error, status, "memory:%s: %s", rest, htc_strerror(status));
    }
    *ctx = m;
    return HTC_OK;
}

static htc_status submit(void *ctx, const htc_kv_request *requests, size_t n, uint64_t tag)
{
    memory *m = ctx;
    return htc_kv_client_submit(m->client, htc_host_now(), requests, n, tag, m->to_server);
}

static htc_ns earlier(htc_ns a, htc_ns b)
{
    return a < b ? a : b;
}

static void sleep_until(htc_ns moment)
{
    htc_ns now = htc_host_now();
    if (moment > now) {
        htc_ns          span = earlier(moment - now, HTC_SECOND);
        struct timespec t = { (time_t)(span / HTC_SECOND), (long)(span % HTC_SECOND) };
        nanosleep(&t, NULL);
    }
}

/* Nothing is under way but time: a lease that ends, a batch of answers that did not fit into one step. */
static htc_status tick(memory *m, htc_ns end)
{
    htc_input in = input_of(HTC_IN_TIMEOUT);
    sleep_until(earlier(end, earlier(htc_kv_server_ops()->deadline(m->server), htc_kv_client_deadline(m->client))));
    in.now = htc_host_now();
    htc_status status = step_server(m, &in);
    return status == HTC_OK ? htc_kv_client_step(m->client, &in, m->to_server) : status;
}

/* Until there is a result, or else an event. */
static htc_status until_told(memory *m, htc_ns end, htc_kv_result *result, htc_kv_event *event)
{
    for (;;) {
        htc_input  late = input_of(HTC_IN_TIMEOUT);
        htc_status status = step_server(m, &late); /* what has ended meanwhile is gone */
        if (status == HTC_OK && htc_kv_client_deadline(m->client) <= late.now)
            status = htc_kv_client_step(m->client, &late, m->to_server);
        if (status == HTC_OK)
            status = settle(m);
        if (status != HTC_OK)
            return status;
        if (result ? htc_kv_client_next(m->client, result) : htc_kv_client_event(m->client, event))
            return HTC_OK;
        if (htc_host_now() >= end)
            return HTC_ETIMEDOUT;
        if ((status = tick(m, end)) != HTC_OK)
            return status;
    }
}

static htc_status next(void *ctx, htc_ns end, htc_kv_result *result)
{
    return until_told(ctx, end, result, NULL);
}

static htc_status next_event(void *ctx, htc_ns end, htc_kv_event *event)
{
    return until_told(ctx, end, NULL, event);
}

static htc_status watch(void *ctx, const htc_kv_watch *w)
{
    memory *m = ctx;
    return htc_kv_client_watch(m->client, htc_host_now(), w, m->to_server);
}

static htc_status unwatch(void *ctx, uint64_t tag)
{
    memory *m = ctx;
    return htc_kv_client_unwatch(m->client, htc_host_now(), tag, m->to_server);
}

static htc_ns deadline(const void *ctx)
{
    const memory *m = ctx;
    return htc__kv_client_tells(m->client)
               ? 0
               : earlier(htc_kv_server_ops()->deadline(m->server), htc_kv_client_deadline(m->client));
}

const htc__store_kind htc__store_memory = { .scheme = "memory:",
                                            .can = HTC_STORE_LINEARIZABLE | HTC_STORE_SAFE_RETRIES | HTC_STORE_LEASES |
                                                   HTC_STORE_ORDERED_SCAN | HTC_STORE_FINE_LEASES |
                                                   HTC_STORE_LARGE_VALUES | HTC_STORE_WATCHES,
                                            .open = open_memory,
                                            .submit = submit,
                                            .next = next,
                                            .close = close_memory,
                                            .watch = watch,
                                            .unwatch = unwatch,
                                            .event = next_event,
                                            .deadline = deadline };
