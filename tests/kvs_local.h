/* A client and a server in one process over one engine, nothing lost between them: for tests and benchmarks that are
 * about the engine or about speed. */
#ifndef HTC_TESTS_KVS_LOCAL_H
#define HTC_TESTS_KVS_LOCAL_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "htcsched/kv_server.h"

typedef struct kvs_local {
    htc_rng        rng;
    htc_env        env;
    htc_kv_engine  engine;
    htc_kv_server *server;
    htc_kv_client *client;
    htc_output    *to_server, *to_client;
    htc_status     stopped; /* HTC_AGAIN: runs */
} kvs_local;

static inline void kvs_local_must(htc_status status, const char *what)
{
    if (status == HTC_OK)
        return;
    fprintf(stderr, "%s: %s\n", what, htc_status_name(status));
    exit(1);
}

static inline void kvs_local_server(kvs_local *l, htc_input in)
{
    kvs_local_must(htc_kv_server_ops()->step(l->server, &in, l->to_client), "server");
}

static inline void kvs_local_client(kvs_local *l, htc_input in)
{
    in.peer = 1;
    kvs_local_must(htc_kv_client_step(l->client, &in, l->to_server), "client");
}

/* Hand over all messages, then carry out the commit they led to: group commit. */
static inline void kvs_local_pump(kvs_local *l)
{
    htc_effect e;
    while (l->stopped == HTC_AGAIN && (htc_output_count(l->to_server) || htc_output_count(l->to_client))) {
        for (size_t i = 0; htc_output_get(l->to_server, i, &e) == HTC_OK; i++)
            kvs_local_server(l, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_MESSAGE, .peer = 1, .body = e.body });
        htc_output_clear(l->to_server);
        htc_input stored = { .size = sizeof stored };
        for (size_t i = 0; htc_output_get(l->to_client, i, &e) == HTC_OK; i++) {
            if (e.kind == HTC_OUT_MESSAGE)
                kvs_local_client(l, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_MESSAGE, .body = e.body });
            else if (e.kind == HTC_OUT_STOP)
                l->stopped = e.status;
            else if (e.kind == HTC_OUT_COMMIT)
                stored = (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_STORED,
                                      .tag = e.tag,
                                      .status = l->engine.ops->apply(l->engine.ctx, e.body) };
        }
        htc_output_clear(l->to_client);
        if (stored.kind)
            kvs_local_server(l, stored);
    }
}

/* The engine stays the caller's. seed: another one each time, for the client's id comes from it. */
static inline void kvs_local_open(kvs_local *l, htc_kv_engine engine, uint64_t seed)
{
    *l = (kvs_local){ .rng = { seed }, .engine = engine, .stopped = HTC_AGAIN };
    l->env = (htc_env){ .size = sizeof l->env, .rng = &l->rng };
    htc_kv_server_options so = { .size = sizeof so, .engine = engine };
    htc_kv_client_options co = { .size = sizeof co, .client_id = htc_rng_next(&l->rng), .peer = 1 };
    kvs_local_must(htc_kv_server_create(&l->env, &so, &l->server), "server");
    kvs_local_must(htc_kv_client_create(&l->env, &co, &l->client), "client");
    kvs_local_must(htc_output_create(&l->env, 0, &l->to_server), "output");
    kvs_local_must(htc_output_create(&l->env, 0, &l->to_client), "output");
    kvs_local_server(l, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_START });
    kvs_local_server(l, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_OPENED, .peer = 1 });
    kvs_local_client(l, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_OPENED });
    kvs_local_pump(l);
}

static inline void kvs_local_close(kvs_local *l)
{
    htc_kv_client_destroy(l->client);
    htc_kv_server_destroy(l->server);
    htc_output_destroy(l->to_server);
    htc_output_destroy(l->to_client);
}

static inline void kvs_local_submit(kvs_local *l, htc_kv_request q)
{
    kvs_local_must(htc_kv_client_submit(l->client, 0, &q, 1, 0, l->to_server), "submit");
}

static inline htc_kv_result kvs_local_ask(kvs_local *l, htc_kv_request q)
{
    htc_kv_result r = { .size = sizeof r, .status = HTC_ECLOSED };
    kvs_local_submit(l, q);
    kvs_local_pump(l);
    htc_kv_client_next(l->client, &r);
    return r;
}

#endif
