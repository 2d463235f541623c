/* The proxy between arbitrary clients and a store: a real one, which must never have a reason to close the proxy's connection, and an arbitrary one. The
 * input is a list of pieces: u8 what, u8 length, bytes. Whatever comes, no step fails, what leaves is well-formed, and nothing is handed to a client that
 * it has not asked for. A store is sent arbitrary packs as well. */
#include <stdlib.h>
#include <string.h>

#include "htcsched/kv_proxy.h"
#include "htcsched/kv_server.h"
#include "kvs/wire/kv_wire.h"

#define STORE   1u
#define HOSTILE 2u /* at the server: a proxy that passes anything on */
#define CLIENT  10u
#define CLIENTS 4u

typedef struct world {
    htc_rng        rng;
    htc_env        env;
    htc_kv_server *server;
    htc_kv_proxy  *proxy;
    htc_output    *out;
    htc_ns         now;
    htc_buf        message, body;
    htc_buf        up, down; /* frames on their way to the server, and back */
    uint64_t       session[CLIENTS], serial[CLIENTS]; /* of clients; serial: the highest that was sent */
    uint64_t       hostile_session, hostile_serial;
    int            disowned; /* the store that the proxy sees is not the server any more */
} world;

static void must(int ok)
{
    if (!ok)
        abort();
}

static uint16_t read_type(htc_bytes message, uint64_t *id)
{
    uint16_t   type;
    htc_reader r = htc_wire_open(message, &type, id);
    must(r.status == HTC_OK && message.len <= HTC_WIRE_MESSAGE_MAX);
    return type;
}

static void to_client(world *w, const htc_effect *e)
{
    uint64_t            id;
    htc__kv_answer_head head;
    uint32_t            c = e->peer - CLIENT;
    if (read_type(e->body, &id) != HTC_WIRE_KV_ANSWER)
        return;
    htc_reader r = htc_reader_of(e->body);
    htc_get_raw(&r, 10);
    htc__kv_answer_read(&r, &head);
    must(r.status == HTC_OK && head.session != 0 && id <= w->serial[c] && (head.more & ~(uint32_t)HTC__KV_MORE) == 0);
    w->session[c] = head.session;
}

static void proxy(world *w, htc_input in)
{
    htc_effect e;
    uint64_t   id;
    in.size = sizeof in;
    in.now = w->now;
    htc_output_clear(w->out);
    must(htc_kv_proxy_ops()->step(w->proxy, &in, w->out) == HTC_OK);
    for (size_t i = 0; htc_output_get(w->out, i, &e) == HTC_OK; i++) {
        must(e.kind == HTC_OUT_MESSAGE || e.kind == HTC_OUT_CLOSE);
        if (e.peer >= CLIENT) {
            must(e.peer < CLIENT + CLIENTS);
            if (e.kind == HTC_OUT_MESSAGE)
                to_client(w, &e);
            continue;
        }
        must(e.peer == STORE && e.kind == HTC_OUT_MESSAGE);
        uint16_t type = read_type(e.body, &id);
        must(type == HTC_WIRE_HELLO || type == HTC_WIRE_KV_REQUEST || type == HTC_WIRE_KV_PACK);
        htc_put_bytes(&w->up, e.body);
    }
}

static void server(world *w, htc_input in)
{
    htc_effect          e;
    uint64_t            id;
    htc__kv_answer_head head;
    in.size = sizeof in;
    in.now = w->now;
    htc_output_clear(w->out);
    must(htc_kv_server_ops()->step(w->server, &in, w->out) == HTC_OK);
    for (size_t i = 0; htc_output_get(w->out, i, &e) == HTC_OK; i++) {
        must(e.kind == HTC_OUT_MESSAGE || (e.kind == HTC_OUT_CLOSE && e.peer == HOSTILE)); /* a proxy that looks is never closed */
        if (e.kind != HTC_OUT_MESSAGE)
            continue;
        uint16_t type = read_type(e.body, &id);
        must(e.peer == HOSTILE || type != HTC_WIRE_ERROR);
        if (e.peer == STORE)
            htc_put_bytes(&w->down, e.body);
        htc_reader r = htc_reader_of(e.body);
        htc_get_raw(&r, 10);
        if (e.peer == HOSTILE && type == HTC_WIRE_KV_ANSWER) {
            htc__kv_answer_read(&r, &head);
            w->hostile_session = head.session;
        }
    }
}

/* What is on its way arrives, until nothing is. */
static void pump(world *w)
{
    htc_buf take;
    for (int rounds = 0; rounds < 50 && (w->up.len || w->down.len); rounds++) {
        take = w->up;
        htc_buf_init(&w->up, NULL, 0);
        htc_reader r = htc_reader_of(htc_buf_bytes(&take));
        while (htc_reader_left(&r) && !w->disowned)
            server(w, (htc_input){ .kind = HTC_IN_MESSAGE, .peer = STORE, .body = htc_get_bytes(&r) });
        htc_buf_free(&take);
        take = w->down;
        htc_buf_init(&w->down, NULL, 0);
        r = htc_reader_of(htc_buf_bytes(&take));
        while (htc_reader_left(&r) && !w->disowned)
            proxy(w, (htc_input){ .kind = HTC_IN_MESSAGE, .peer = STORE, .body = htc_get_bytes(&r) });
        htc_buf_free(&take);
    }
}

static void store_comes(world *w)
{
    w->disowned = 0;
    htc_buf_clear(&w->up);
    htc_buf_clear(&w->down);
    server(w, (htc_input){ .kind = HTC_IN_CLOSED, .peer = STORE });
    server(w, (htc_input){ .kind = HTC_IN_OPENED, .peer = STORE });
    proxy(w, (htc_input){ .kind = HTC_IN_OPENED, .peer = STORE });
    pump(w);
}

static void request(world *w, uint32_t c, uint8_t flags, htc_bytes ops)
{
    htc_wire_begin(&w->message, HTC_WIRE_KV_REQUEST, ++w->serial[c]);
    htc__kv_head_write(&w->message, &(htc__kv_head){ .session = w->session[c], .client = 7 + c, .flags = flags & 1, .sequence = w->serial[c] * 16, .count = flags >> 1 & 3 });
    htc_put_raw(&w->message, ops);
    proxy(w, (htc_input){ .kind = HTC_IN_MESSAGE, .peer = CLIENT + c, .body = htc_buf_bytes(&w->message) });
}

static void client_comes(world *w, uint32_t c)
{
    proxy(w, (htc_input){ .kind = HTC_IN_OPENED, .peer = CLIENT + c });
    htc_wire_hello(&w->message, HTC_WIRE_ROLE_STORE_CLIENT, HTC_WIRE_VERSION);
    proxy(w, (htc_input){ .kind = HTC_IN_MESSAGE, .peer = CLIENT + c, .body = htc_buf_bytes(&w->message) });
    request(w, c, 0, (htc_bytes){ NULL, 0 });
}

/* From a client, with the serial of a request as it may be: what is answered must have been asked. */
static void anything(world *w, uint32_t c, htc_bytes bytes)
{
    uint16_t type;
    uint64_t id = 0;
    htc_wire_open(bytes, &type, &id);
    if (id > w->serial[c])
        w->serial[c] = id;
    proxy(w, (htc_input){ .kind = HTC_IN_MESSAGE, .peer = CLIENT + c, .body = bytes });
}

static void hostile_comes(world *w)
{
    server(w, (htc_input){ .kind = HTC_IN_OPENED, .peer = HOSTILE });
    htc_wire_hello(&w->message, HTC_WIRE_ROLE_STORE_PROXY, HTC_WIRE_VERSION);
    server(w, (htc_input){ .kind = HTC_IN_MESSAGE, .peer = HOSTILE, .body = htc_buf_bytes(&w->message) });
    htc_wire_begin(&w->message, HTC_WIRE_KV_REQUEST, ++w->hostile_serial);
    htc__kv_head_write(&w->message, &(htc__kv_head){ .client = 99 });
    server(w, (htc_input){ .kind = HTC_IN_MESSAGE, .peer = HOSTILE, .body = htc_buf_bytes(&w->message) });
}

static void hostile(world *w, uint8_t how, htc_bytes bytes)
{
    htc__kv_pack_begin(&w->message, ++w->hostile_serial, w->hostile_session);
    w->hostile_serial += 8;
    if (how & 1) {
        htc_buf_clear(&w->body);
        htc__kv_head_write_packed(&w->body, &(htc__kv_head){ .client = 99, .sequence = w->hostile_serial * 16, .count = how >> 1 & 3 });
        htc_put_raw(&w->body, bytes);
        htc_put_bytes(&w->message, htc_buf_bytes(&w->body));
        htc_put_bytes(&w->message, htc_buf_bytes(&w->body));
    } else {
        htc_put_raw(&w->message, bytes);
    }
    server(w, (htc_input){ .kind = HTC_IN_MESSAGE, .peer = HOSTILE, .body = htc_buf_bytes(&w->message) });
    if (how & 8)
        hostile_comes(w);
}

static void play(world *w, uint8_t what, htc_bytes bytes)
{
    uint32_t c = what >> 3 & 3;
    switch (what & 7) {
    case 0:
        anything(w, c, bytes);
        break;
    case 1:
    case 2:
        request(w, c, what >> 5, bytes);
        break;
    case 3:
        pump(w);
        break;
    case 4:
        if (what & 0x80)
            store_comes(w);
        else if (what & 0x40)
            proxy(w, (htc_input){ .kind = HTC_IN_CLOSED, .peer = what & 0x20 ? STORE : CLIENT + c });
        else
            client_comes(w, c);
        break;
    case 5: /* from a store that says anything; the real one is not asked any more until it comes again */
        w->disowned = 1;
        htc_buf_clear(&w->up);
        proxy(w, (htc_input){ .kind = HTC_IN_MESSAGE, .peer = STORE, .body = bytes });
        break;
    case 6:
        hostile(w, what >> 3, bytes);
        break;
    case 7:
        w->now += (what >> 3) * (htc_ns)(what & 0x80 ? 5 * HTC_SECOND : HTC_MS);
        proxy(w, (htc_input){ .kind = what & 0x40 ? HTC_IN_TURN : HTC_IN_TIMEOUT });
        server(w, (htc_input){ .kind = HTC_IN_TIMEOUT });
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint32_t stores[] = { STORE };
    world                 w = { .rng = { 1 }, .now = HTC_SECOND };
    w.env = (htc_env){ .size = sizeof w.env, .rng = &w.rng };
    htc_kv_proxy_options  po = { .size = sizeof po, .stores = stores, .store_count = 1, .inflight_max = 8, .inflight_all = 16 };
    htc_kv_server_options so = { .size = sizeof so, .tombstones_max = 2 };
    must(htc_kv_server_create(&w.env, &so, &w.server) == HTC_OK && htc_kv_proxy_create(&w.env, &po, &w.proxy) == HTC_OK);
    must(htc_output_create(&w.env, 0, &w.out) == HTC_OK);
    htc_buf_init(&w.message, NULL, 0);
    htc_buf_init(&w.body, NULL, 0);
    htc_buf_init(&w.up, NULL, 0);
    htc_buf_init(&w.down, NULL, 0);
    server(&w, (htc_input){ .kind = HTC_IN_START });
    proxy(&w, (htc_input){ .kind = HTC_IN_START });
    store_comes(&w);
    hostile_comes(&w);
    for (uint32_t c = 0; c < CLIENTS; c++)
        client_comes(&w, c);
    for (size_t at = 0; at + 2 <= size;) {
        size_t len = data[at + 1] < size - at - 2 ? data[at + 1] : size - at - 2;
        play(&w, data[at], (htc_bytes){ data + at + 2, len });
        at += 2 + len;
    }
    pump(&w);
    htc_kv_proxy_destroy(w.proxy);
    htc_kv_server_destroy(w.server);
    htc_output_destroy(w.out);
    htc_buf_free(&w.message);
    htc_buf_free(&w.body);
    htc_buf_free(&w.up);
    htc_buf_free(&w.down);
    return 0;
}
