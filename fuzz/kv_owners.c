/* What a client is told of who has which key, against arbitrary bytes; and a member that is asked. The input is a list of pieces: u8 what, u8 length,
 * bytes. Whatever comes, no step fails, what is asked for is answered once, and nobody is called but at an address that was told. */
#include "check.h"
#include "htcsched/kv_server.h"
#include "kvs/wire/kv_wire.h"
#include "kvs/wire/owners_wire.h"

#define HOME  1u
#define CALLS 10u
#define MOST  3u

typedef struct world {
    htc_rng        rng;
    htc_env        env;
    htc_kv_client *client;
    htc_output    *out;
    htc_buf        message;
    uint64_t       asked, serial[CALLS + MOST]; /* the last question; the last request, by connection */
    uint32_t       count[CALLS + MOST];
    uint64_t       given, told;
} world;

static void client(world *w, uint32_t kind, uint32_t peer, htc_bytes body)
{
    htc_effect    e;
    htc_kv_result result = { .size = sizeof result };
    htc_input     in = { .size = sizeof in, .kind = kind, .peer = peer, .now = HTC_SECOND * ++w->rng.state, .body = body };
    CHECK(htc_kv_client_step(w->client, &in, w->out) == HTC_OK);
    for (size_t i = 0; htc_output_get(w->out, i, &e) == HTC_OK; i++) {
        uint16_t     type;
        uint64_t     id;
        htc__kv_head head;
        CHECK(e.peer == HOME || (e.peer >= CALLS && e.peer < CALLS + MOST) || e.kind == HTC_OUT_CALL);
        if (e.kind == HTC_OUT_CALL)
            CHECK(e.op == HTC_KV_CLIENT_DIAL && e.tag >= CALLS && e.tag < CALLS + MOST && e.body.len > 0 && !memchr(e.body.data, 0, e.body.len));
        if (e.kind != HTC_OUT_MESSAGE)
            continue;
        htc_reader r = htc_wire_open(e.body, &type, &id);
        if (type == HTC_WIRE_KV_OWNERS_ASK)
            w->asked = id;
        if (type != HTC_WIRE_KV_REQUEST)
            continue;
        htc__kv_head_read(&r, &head);
        w->serial[e.peer] = id;
        w->count[e.peer] = (uint32_t)head.count;
    }
    htc_output_clear(w->out);
    while (htc_kv_client_next(w->client, &result))
        w->told++;
    CHECK(w->told <= w->given);
}

static void ask(world *w, htc_bytes keys)
{
    htc_kv_request q[8];
    size_t         n = keys.len < 8 ? keys.len : 8;
    for (size_t i = 0; i < n; i++)
        q[i] = (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = { (const uint8_t *)keys.data + i, 1 } };
    if (n && htc_kv_client_submit(w->client, HTC_SECOND * w->rng.state, q, n, 1, w->out) == HTC_OK)
        w->given += n;
    client(w, HTC_IN_TIMEOUT, 0, (htc_bytes){ NULL, 0 });
}

static void say(world *w, uint32_t peer)
{
    if (w->message.status == HTC_OK)
        client(w, HTC_IN_MESSAGE, peer, htc_buf_bytes(&w->message));
}

static void play(world *w, uint8_t what, htc_bytes bytes)
{
    uint32_t peer = what >> 4 & 3 ? CALLS + (what >> 4 & 3) - 1 : HOME;
    switch (what & 7) {
    case 0:
        client(w, HTC_IN_MESSAGE, peer, bytes);
        break;
    case 1: /* to the question */
        htc_wire_begin(&w->message, HTC_WIRE_KV_OWNERS, w->asked);
        htc_put_raw(&w->message, bytes);
        say(w, peer);
        break;
    case 2:
        ask(w, bytes);
        break;
    case 3:
        client(w, HTC_IN_OPENED, peer, (htc_bytes){ NULL, 0 });
        htc_wire_begin(&w->message, HTC_WIRE_WELCOME, 0);
        htc_put_u16(&w->message, HTC_WIRE_VERSION);
        htc_put_raw(&w->message, bytes);
        say(w, peer);
        break;
    case 4:
        client(w, HTC_IN_CLOSED, peer, (htc_bytes){ NULL, 0 });
        break;
    case 5: { /* an answer, which may say that it was elsewhere */
        uint32_t count = w->count[peer];
        htc__kv_answer_begin(&w->message, w->serial[peer], &(htc__kv_answer_head){ .session = 5 + peer });
        for (uint32_t i = 0; i < count; i++)
            htc__kv_result_write(&w->message, &(htc_kv_result){ .size = sizeof(htc_kv_result), .status = HTC_OK });
        htc__kv_answer_end(&w->message, count, what >> 6 & HTC__KV_ELSEWHERE);
        say(w, peer);
        break;
    }
    case 6:
        client(w, HTC_IN_TIMEOUT, 0, (htc_bytes){ NULL, 0 });
        break;
    case 7: /* what can be read is read to its end */
        if (htc__kv_owners_check(htc_reader_of(bytes)) == HTC_OK) {
            htc__kv_owners_head   head;
            htc__kv_owners_at     at;
            htc__kv_owners_member member;
            htc__kv_owners_bucket bucket;
            htc__kv_owners_read(htc_reader_of(bytes), &head, &at);
            for (size_t i = 0; i < head.members; i++)
                htc__kv_owners_member_read(&at, &member);
            while (htc__kv_owners_bucket_read(&at, &bucket))
                for (uint32_t i = 0; i < bucket.n; i++)
                    CHECK(bucket.member[i] < head.members && bucket.number < UINT32_C(1) << head.bits);
            CHECK(htc_reader_done(&at.r) == HTC_OK);
        }
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    world w = { .rng = { 1 } };
    w.env = (htc_env){ .size = sizeof w.env, .rng = &w.rng };
    htc_kv_client_options co = { .size = sizeof co, .client_id = 7, .peer = HOME, .members = MOST, .member_peer = CALLS };
    CHECK(htc_kv_client_create(&w.env, &co, &w.client) == HTC_OK);
    CHECK(htc_output_create(&w.env, 0, &w.out) == HTC_OK);
    htc_buf_init(&w.message, NULL, 0);
    for (size_t at = 0; at + 2 <= size;) {
        size_t len = data[at + 1] < size - at - 2 ? data[at + 1] : size - at - 2;
        play(&w, data[at], (htc_bytes){ data + at + 2, len });
        at += 2 + len;
    }
    htc_kv_client_destroy(w.client);
    htc_output_destroy(w.out);
    htc_buf_free(&w.message);
    return 0;
}
