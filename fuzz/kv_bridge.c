/* The bridge between arbitrary clients and a store of others that answers anything. The input is a list of pieces: u8 what, u8 length, bytes. Whatever comes,
 * no step fails, what leaves is well-formed, each request to the store can be read, and nothing is handed to a client that it has not asked for. */
#include <string.h>

#include "check.h"
#include "htcsched/kv_bridge.h"
#include "kvs/wire/kv_wire.h"

#define CLIENTS 3u
#define CALLS   64u

typedef struct world {
    htc_rng        rng;
    htc_env        env;
    htc_kv_bridge *bridge;
    htc_output    *out;
    htc_ns         now;
    htc_buf        message;
    uint64_t       session[CLIENTS], serial[CLIENTS]; /* serial: the highest that was sent */
    uint64_t       calls[CALLS];                      /* of the store, not answered: their tags */
    uint32_t       n_calls;
} world;

static void to_client(world *w, const htc_effect *e)
{
    uint64_t            id;
    uint16_t            type;
    htc__kv_answer_head head;
    htc_reader          r = htc_wire_open(e->body, &type, &id);
    CHECK(r.status == HTC_OK && e->body.len <= HTC_WIRE_MESSAGE_MAX && e->peer < CLIENTS);
    if (type != HTC_WIRE_KV_ANSWER)
        return;
    r = htc_reader_of(e->body);
    htc_get_raw(&r, 10);
    htc__kv_answer_read(&r, &head);
    CHECK(r.status == HTC_OK && head.session != 0 && id <= w->serial[e->peer]);
    w->session[e->peer] = head.session;
}

static void bridge(world *w, htc_input in)
{
    htc_effect e;
    in.size = sizeof in;
    in.now = w->now;
    htc_output_clear(w->out);
    CHECK(htc_kv_bridge_ops()->step(w->bridge, &in, w->out) == HTC_OK);
    for (size_t i = 0; htc_output_get(w->out, i, &e) == HTC_OK; i++) {
        htc_kv_request q = { .size = sizeof q };
        switch (e.kind) {
        case HTC_OUT_MESSAGE:
            to_client(w, &e);
            break;
        case HTC_OUT_CLOSE:
            CHECK(e.peer < CLIENTS);
            break;
        case HTC_OUT_CALL:
            CHECK(e.op == HTC_KV_BRIDGE_ASK && htc_kv_bridge_ask_read(e.body, &q) == HTC_OK);
            CHECK(q.value.len <= HTC_KV_VALUE_MAX && w->n_calls < CALLS);
            w->calls[w->n_calls++] = e.tag;
            break;
        default:
            CHECK(0);
        }
    }
}

static void from_client(world *w, uint32_t c)
{
    bridge(w, (htc_input){ .kind = HTC_IN_MESSAGE, .peer = c, .body = htc_buf_bytes(&w->message) });
}

static void request(world *w, uint32_t c, uint8_t flags, htc_bytes ops)
{
    htc_wire_begin(&w->message, HTC_WIRE_KV_REQUEST, ++w->serial[c]);
    htc__kv_head_write(&w->message, &(htc__kv_head){ .session = w->session[c], .client = 7 + c, .flags = flags & 1, .sequence = w->serial[c] * 16, .count = flags >> 1 & 3 });
    htc_put_raw(&w->message, ops);
    from_client(w, c);
}

/* A well-formed operation on one of four keys, so that several are about the same one. */
static void operation(world *w, uint32_t c, uint8_t how, htc_bytes value)
{
    static const uint8_t ops[] = { HTC_KV_GET, HTC_KV_PUT, HTC_KV_DELETE, HTC_KV_ADD, HTC_KV_CAS_VERSION, HTC_KV_SCAN, HTC_KV_COUNT, HTC_KV_CAS_VALUE };
    const char          *key[] = { "a", "b", "c", "d" };
    htc_kv_request       q = { .size = sizeof q, .op = ops[how & 7], .key = htc_bytes_of(key[how >> 3 & 3]) };
    if (q.op == HTC_KV_PUT || q.op == HTC_KV_CAS_VERSION)
        q.value = value;
    if (q.op == HTC_KV_CAS_VERSION || (q.op == HTC_KV_DELETE && how & 0x20)) {
        q.version = how >> 5;
        q.flags = q.op == HTC_KV_DELETE ? HTC_KV_IF_VERSION : 0;
    }
    q.delta = q.op == HTC_KV_ADD ? how : 0;
    q.limit = q.op == HTC_KV_SCAN ? 4 : 0;
    htc_buf body;
    htc_buf_init(&body, NULL, 0);
    htc__kv_op_write(&body, &q);
    request(w, c, 1 << 1, htc_buf_bytes(&body));
    htc_buf_free(&body);
}

static void client_comes(world *w, uint32_t c)
{
    bridge(w, (htc_input){ .kind = HTC_IN_OPENED, .peer = c });
    htc_wire_hello(&w->message, HTC_WIRE_ROLE_STORE_CLIENT, HTC_WIRE_VERSION);
    from_client(w, c);
    request(w, c, 0, (htc_bytes){ NULL, 0 });
}

static void answer(world *w, uint32_t which, htc_status status, htc_bytes body)
{
    if (!w->n_calls)
        return;
    which %= w->n_calls;
    uint64_t tag = w->calls[which];
    w->calls[which] = w->calls[--w->n_calls];
    bridge(w, (htc_input){ .kind = HTC_IN_RESULT, .op = HTC_KV_BRIDGE_ASK, .tag = tag, .status = status, .body = body });
}

/* As a store does: a version and the record, which is the piece. */
static void record(world *w, uint32_t which, uint8_t how, htc_bytes bytes)
{
    static const htc_status statuses[] = { HTC_OK, HTC_MISMATCH, HTC_ENOTFOUND, HTC_EUNKNOWN };
    htc_kv_result           r = { .size = sizeof r, .status = statuses[how & 3], .version = how >> 2 & 7, .value = bytes };
    htc_buf                 body;
    htc_buf_init(&body, NULL, 0);
    htc_kv_bridge_answer_write(&body, &r);
    answer(w, which, HTC_OK, htc_buf_bytes(&body));
    htc_buf_free(&body);
}

static void anything(world *w, uint32_t c, htc_bytes bytes)
{
    uint16_t type;
    uint64_t id = 0;
    htc_wire_open(bytes, &type, &id);
    if (id > w->serial[c])
        w->serial[c] = id;
    bridge(w, (htc_input){ .kind = HTC_IN_MESSAGE, .peer = c, .body = bytes });
}

static void play(world *w, uint8_t what, htc_bytes bytes)
{
    uint32_t  c = (what >> 3 & 3) % CLIENTS;
    uint8_t   first = bytes.len ? *(const uint8_t *)bytes.data : 0;
    htc_bytes rest = bytes.len ? (htc_bytes){ (const uint8_t *)bytes.data + 1, bytes.len - 1 } : bytes;
    switch (what & 7) {
    case 0:
        anything(w, c, bytes);
        break;
    case 1:
        request(w, c, what >> 5, bytes);
        break;
    case 2:
    case 3:
        operation(w, c, first, rest);
        break;
    case 4:
        record(w, what >> 3, first, rest);
        break;
    case 5:
        answer(w, what >> 3, first & 1 ? (htc_status)(first >> 1) : HTC_OK, rest);
        break;
    case 6:
        if (what & 0x80)
            bridge(w, (htc_input){ .kind = HTC_IN_CLOSED, .peer = c });
        else
            client_comes(w, c);
        break;
    default:
        w->now += (what >> 3) * HTC_MS;
        bridge(w, (htc_input){ .kind = what & 0x80 ? HTC_IN_TURN : HTC_IN_TIMEOUT });
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    world w = { .rng = { 1 }, .now = HTC_SECOND };
    w.env = (htc_env){ .size = sizeof w.env, .rng = &w.rng };
    htc_kv_bridge_options o = { .size = sizeof o, .asks_max = CALLS / 2 };
    CHECK(htc_kv_bridge_create(&w.env, &o, &w.bridge) == HTC_OK && htc_output_create(&w.env, 0, &w.out) == HTC_OK);
    htc_buf_init(&w.message, NULL, 0);
    bridge(&w, (htc_input){ .kind = HTC_IN_START });
    for (uint32_t c = 0; c < CLIENTS; c++)
        client_comes(&w, c);
    for (size_t at = 0; at + 2 <= size;) {
        size_t len = data[at + 1] < size - at - 2 ? data[at + 1] : size - at - 2;
        play(&w, data[at], (htc_bytes){ data + at + 2, len });
        at += 2 + len;
    }
    htc_kv_bridge_destroy(w.bridge);
    htc_output_destroy(w.out);
    htc_buf_free(&w.message);
    return 0;
}
