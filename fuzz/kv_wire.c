/* The store's server and client against arbitrary messages. The input is a list of pieces: u8 what, u8 length, bytes.
 * Whatever comes, no step fails, what leaves is well-formed, and at most one commit is in flight. */
#include <stdlib.h>

#include "htcsched/kv_server.h"
#include "kvs/cell/change.h"
#include "kvs/wire/kv_wire.h"

typedef struct world {
    htc_rng        rng;
    htc_env        env;
    htc_kv_engine  engine;
    htc_kv_server *server;
    htc_kv_client *client;
    htc_output    *out;
    htc_buf        message, batch;
    uint64_t       tag; /* of the commit in flight; 0: none */
    uint64_t       session, serial;
} world;

static void must(int ok)
{
    if (!ok)
        abort();
}

static void server(world *w, htc_input in)
{
    htc_effect e;
    htc_output_clear(w->out);
    must(htc_kv_server_ops()->step(w->server, &in, w->out) == HTC_OK);
    for (size_t i = 0; htc_output_get(w->out, i, &e) == HTC_OK; i++) {
        if (e.kind == HTC_OUT_COMMIT) {
            must(w->tag == 0);
            w->tag = e.tag;
            htc_buf_clear(&w->batch);
            htc_put_raw(&w->batch, e.body);
        } else if (e.kind == HTC_OUT_MESSAGE) {
            uint16_t   type;
            uint64_t   id;
            htc_reader r = htc_wire_open(e.body, &type, &id);
            must(r.status == HTC_OK && e.body.len <= HTC_WIRE_MESSAGE_MAX);
            if (type == HTC_WIRE_KV_ANSWER) {
                htc__kv_answer_head head;
                htc__kv_answer_read(&r, &head);
                w->session = head.session;
            }
        }
    }
}

/* A message with a right head in front of the bytes, so that they reach the operations. */
static void request(world *w, htc_bytes bytes, uint8_t flags)
{
    htc_wire_begin(&w->message, HTC_WIRE_KV_REQUEST, ++w->serial);
    htc__kv_head_write(&w->message, &(htc__kv_head){ .session = w->session,
                                                     .client = 7,
                                                     .since = (const uint64_t[]){ 1, HTC__KV_LEAP_MAX, HTC__KV_SINCE_MAX, UINT64_MAX }[flags >> 3 & 3],
                                                     .flags = flags & 1,
                                                     .sequence = w->serial * 16,
                                                     .count = (flags >> 1) & 3 });
    htc_put_raw(&w->message, bytes);
    server(w, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_MESSAGE, .peer = 1, .body = htc_buf_bytes(&w->message) });
}

static void stored(world *w, htc_status status)
{
    uint64_t tag = w->tag;
    w->tag = 0;
    if (status == HTC_OK && tag)
        must(w->engine.ops->apply(w->engine.ctx, htc_buf_bytes(&w->batch)) == HTC_OK);
    server(w, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_STORED, .tag = tag, .status = status });
}

static void greet(world *w)
{
    w->serial = 0;
    server(w, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_OPENED, .peer = 1 });
    htc_wire_hello(&w->message, HTC_WIRE_ROLE_STORE_CLIENT, HTC_WIRE_VERSION);
    server(w, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_MESSAGE, .peer = 1, .body = htc_buf_bytes(&w->message) });
    request(w, (htc_bytes){ NULL, 0 }, 0);
}

static void client(world *w, uint32_t kind, htc_bytes body)
{
    htc_kv_result result = { .size = sizeof result };
    htc_kv_item   item;
    htc_input     in = { .size = sizeof in, .kind = kind, .peer = 1, .body = body };
    htc_output_clear(w->out);
    must(htc_kv_client_step(w->client, &in, w->out) == HTC_OK);
    while (htc_kv_client_next(w->client, &result))
        for (size_t at = 0; htc_kv_result_item(&result, &at, &item) == HTC_OK;)
            must(at <= result.items_bytes.len);
}

/* An answer to what the client sent last, with the bytes in it. */
static void answer(world *w, htc_bytes bytes, uint32_t count, uint32_t more)
{
    htc_kv_request q[] = { { .size = sizeof(htc_kv_request), .op = HTC_KV_SCAN }, { .size = sizeof(htc_kv_request), .op = HTC_KV_ADD, .key = { "n", 1 } } };
    htc_effect     e = { .kind = 0 };
    uint16_t       type;
    uint64_t       serial = 0;
    htc_output_clear(w->out);
    htc_status status = htc_kv_client_submit(w->client, 0, q, 2, 1, w->out);
    must(status == HTC_OK || status == HTC_EFULL);
    for (size_t i = 0; htc_output_get(w->out, i, &e) == HTC_OK; i++)
        htc_wire_open(e.body, &type, &serial);
    htc__kv_answer_begin(&w->message, serial, &(htc__kv_answer_head){ 5, 99, count, 0, more });
    htc_put_raw(&w->message, bytes);
    client(w, HTC_IN_MESSAGE, htc_buf_bytes(&w->message));
}

static void play(world *w, uint8_t what, htc_bytes bytes)
{
    switch (what & 7) {
    case 0:
        server(w, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_MESSAGE, .peer = 1, .body = bytes });
        break;
    case 1:
    case 2:
        request(w, bytes, what >> 3);
        break;
    case 3:
        stored(w, what & 8 ? HTC_ENOSPC : HTC_OK);
        break;
    case 4:
        greet(w);
        break;
    case 5:
        client(w, HTC_IN_MESSAGE, bytes);
        break;
    case 6:
        answer(w, bytes, what >> 3 & 3, what >> 5 & 1);
        break;
    case 7:
        server(w, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_TIMEOUT, .now = (htc_ns)what * HTC_SECOND });
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    world w = { .rng = { 1 } };
    w.env = (htc_env){ .size = sizeof w.env, .rng = &w.rng };
    htc_kv_client_options co = { .size = sizeof co, .client_id = 7, .peer = 1, .inflight_max = 64 };
    must(htc_kv_memory_create(&w.env, &w.engine) == HTC_OK);
    htc_kv_server_options so = { .size = sizeof so, .engine = w.engine, .tombstones_max = 2 };
    must(htc_kv_server_create(&w.env, &so, &w.server) == HTC_OK);
    must(htc_kv_client_create(&w.env, &co, &w.client) == HTC_OK);
    must(htc_output_create(&w.env, 0, &w.out) == HTC_OK);
    htc_buf_init(&w.message, NULL, 0);
    htc_buf_init(&w.batch, NULL, 0);
    server(&w, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_START });
    greet(&w);
    client(&w, HTC_IN_OPENED, (htc_bytes){ NULL, 0 });
    htc_wire_welcome(&w.message, 0, HTC_WIRE_VERSION);
    client(&w, HTC_IN_MESSAGE, htc_buf_bytes(&w.message));
    /* Names the session 99. */
    htc__kv_answer_begin(&w.message, 1, &(htc__kv_answer_head){ 5, 99, 0, 0, 0 });
    client(&w, HTC_IN_MESSAGE, htc_buf_bytes(&w.message));
    for (size_t at = 0; at + 2 <= size;) {
        size_t len = data[at + 1] < size - at - 2 ? data[at + 1] : size - at - 2;
        play(&w, data[at], (htc_bytes){ data + at + 2, len });
        at += 2 + len;
    }
    htc_kv_client_destroy(w.client);
    htc_kv_server_destroy(w.server);
    w.engine.ops->destroy(w.engine.ctx);
    htc_output_destroy(w.out);
    htc_buf_free(&w.message);
    htc_buf_free(&w.batch);
    return 0;
}
