/* Watches at the server and in the client against arbitrary messages. The input is a list of pieces: u8 what, u8 length, bytes.
 * Whatever comes, no step fails, what leaves is well-formed, and versions that the client tells of a key only rise. */
#include "check.h"
#include "htcsched/kv_server.h"
#include "kvs/wire/kv_wire.h"
#include "kvs/wire/watch_wire.h"

#define SESSION 99 /* of the client's own conversation */

typedef struct world {
    htc_rng        rng;
    htc_env        env;
    htc_kv_server *server;
    htc_kv_client *client;
    htc_output    *out;
    htc_buf        message;
    uint64_t       session, serial, told; /* at the server */
    uint64_t       number;                /* at the client */
    uint64_t       version;               /* of the key k, as told */
} world;

static void server(world *w, htc_input in)
{
    htc_effect e;
    htc_output_clear(w->out);
    CHECK(htc_kv_server_ops()->step(w->server, &in, w->out) == HTC_OK);
    for (size_t i = 0; htc_output_get(w->out, i, &e) == HTC_OK; i++) {
        uint16_t            type;
        uint64_t            id, session, heard;
        htc__kv_answer_head head;
        htc_kv_event        event;
        if (e.kind != HTC_OUT_MESSAGE)
            continue;
        htc_reader r = htc_wire_open(e.body, &type, &id);
        CHECK(r.status == HTC_OK && e.body.len <= HTC_WIRE_MESSAGE_MAX);
        if (type == HTC_WIRE_KV_ANSWER) {
            htc__kv_answer_read(&r, &head);
            w->session = head.session;
        }
        if (type != HTC_WIRE_KV_EVENTS)
            continue;
        htc__kv_events_read(&r, &session, &heard);
        CHECK(session == w->session && id > w->told && heard <= w->serial);
        w->told = id;
        while (htc__kv_event_next(&r, &event)) {
        }
        CHECK(htc_reader_done(&r) == HTC_OK);
    }
}

static void say(world *w)
{
    server(w, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_MESSAGE, .peer = 1, .body = htc_buf_bytes(&w->message) });
}

static void greet(world *w)
{
    w->serial = w->told = 0;
    server(w, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_OPENED, .peer = 1 });
    htc_wire_hello(&w->message, HTC_WIRE_ROLE_STORE_CLIENT, HTC_WIRE_VERSION);
    say(w);
    htc_wire_begin(&w->message, HTC_WIRE_KV_REQUEST, ++w->serial);
    htc__kv_head_write(&w->message, &(htc__kv_head){ .client = 7 });
    say(w);
}

static void change(world *w, htc_bytes bytes)
{
    htc_kv_request q = { .size = sizeof q, .op = bytes.len > 2 ? HTC_KV_PUT : HTC_KV_DELETE, .key = { bytes.data, bytes.len < 3 ? bytes.len : 3 } };
    q.value = bytes.len > 2 ? bytes : (htc_bytes){ NULL, 0 };
    if (bytes.len == 0)
        return;
    htc_wire_begin(&w->message, HTC_WIRE_KV_REQUEST, ++w->serial);
    htc__kv_head_write(&w->message, &(htc__kv_head){ .session = w->session, .client = 7, .sequence = w->serial, .count = 1 });
    htc__kv_op_write(&w->message, &q);
    say(w);
}

/* Wishes, behind a right head. */
static void wishes(world *w, htc_bytes bytes, int repeated, uint64_t back)
{
    htc__kv_watch_begin(&w->message, ++w->serial, w->session, repeated, back < w->told ? w->told - back : w->told);
    htc_put_raw(&w->message, bytes);
    say(w);
}

static void client(world *w, uint32_t kind, htc_bytes body)
{
    htc_kv_event e;
    htc_input    in = { .size = sizeof in, .kind = kind, .peer = 1, .body = body };
    htc_output_clear(w->out);
    CHECK(htc_kv_client_step(w->client, &in, w->out) == HTC_OK);
    while (htc_kv_client_event(w->client, &e)) {
        CHECK(e.tag == 1 || e.tag == 2);
        if (e.tag == 2 && (e.kind == HTC_KV_EVENT_VALUE || e.kind == HTC_KV_EVENT_DELETED)) {
            CHECK(e.key.len == 1 && (e.version > w->version || (e.version == 0 && w->version == 0)));
            w->version = e.version;
        }
    }
}

static void events(world *w, htc_bytes bytes, uint64_t heard)
{
    htc__kv_events_begin(&w->message, ++w->number, SESSION, heard);
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
        wishes(w, bytes, what >> 3 & 1, what >> 4);
        break;
    case 2:
        change(w, bytes);
        break;
    case 3:
        greet(w);
        break;
    case 4:
        client(w, HTC_IN_MESSAGE, bytes);
        break;
    case 5:
        events(w, bytes, what >> 3 & 3);
        break;
    case 6:
        client(w, HTC_IN_TIMEOUT, (htc_bytes){ NULL, 0 });
        break;
    case 7:
        (void)htc_kv_client_unwatch(w->client, 0, what >> 3 & 3, w->out);
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    world w = { .rng = { 1 } };
    w.env = (htc_env){ .size = sizeof w.env, .rng = &w.rng };
    htc_kv_client_options co = { .size = sizeof co, .client_id = 7, .peer = 1, .watch_keys_max = 4 };
    htc_kv_server_options so = { .size = sizeof so, .watches_max = 4, .watch_marks_max = 4 };
    htc_kv_watch          all = { .size = sizeof all, .prefix = 1, .tag = 1 }, one = { .size = sizeof one, .key = { "k", 1 }, .tag = 2 };
    CHECK(htc_kv_server_create(&w.env, &so, &w.server) == HTC_OK);
    CHECK(htc_kv_client_create(&w.env, &co, &w.client) == HTC_OK);
    CHECK(htc_output_create(&w.env, 0, &w.out) == HTC_OK);
    htc_buf_init(&w.message, NULL, 0);
    server(&w, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_START });
    greet(&w);
    CHECK(htc_kv_client_watch(w.client, 0, &all, w.out) == HTC_OK && htc_kv_client_watch(w.client, 0, &one, w.out) == HTC_OK);
    client(&w, HTC_IN_OPENED, (htc_bytes){ NULL, 0 });
    htc_wire_welcome(&w.message, 0, HTC_WIRE_VERSION);
    client(&w, HTC_IN_MESSAGE, htc_buf_bytes(&w.message));
    htc__kv_answer_begin(&w.message, 1, &(htc__kv_answer_head){ 5, SESSION, 0, 0, 0 });
    client(&w, HTC_IN_MESSAGE, htc_buf_bytes(&w.message));
    for (size_t at = 0; at + 2 <= size;) {
        size_t len = data[at + 1] < size - at - 2 ? data[at + 1] : size - at - 2;
        play(&w, data[at], (htc_bytes){ data + at + 2, len });
        at += 2 + len;
    }
    htc_kv_client_destroy(w.client);
    htc_kv_server_destroy(w.server);
    htc_output_destroy(w.out);
    htc_buf_free(&w.message);
    return 0;
}
