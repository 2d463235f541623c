/* The proxy by hand: what clients say, what the store is told, and the way back. */
#include "expect.h"
#include <stdlib.h>
#include <string.h>

#include "alloc_fail.h"
#include "htcsched/kv_members.h"
#include "htcsched/kv_proxy.h"
#include "htcsched/kv_server.h"
#include "kvs/wire/kv_wire.h"
#include "kvs/wire/watch_wire.h"
#include "property.h"

#define STORE  1u
#define SECOND 2u
#define CLIENT 10u /* the first */
#define SAID   600

/* One message that left. */
typedef struct said {
    uint32_t  peer, kind;
    uint16_t  type;
    uint64_t  id;
    htc_bytes body; /* kept */
} said;

typedef struct rig {
    htc_rng       rng;
    htc_env       env;
    htc_kv_proxy *proxy;
    htc_output   *out;
    htc_buf       message;
    htc_ns        now;
    said          said[SAID];
    size_t        said_n;
    uint64_t      session[64]; /* of clients, by peer */
} rig;

static void forget_said(rig *r)
{
    for (size_t i = 0; i < r->said_n; i++)
        free((void *)(uintptr_t)r->said[i].body.data);
    r->said_n = 0;
}

static void input(rig *r, uint32_t kind, uint32_t peer, htc_bytes body)
{
    htc_input  in = { .size = sizeof in, .now = r->now, .kind = kind, .peer = peer, .body = body };
    htc_effect e;
    HOLDS(htc_kv_proxy_ops()->step(r->proxy, &in, r->out) == HTC_OK);
    for (size_t i = 0; htc_output_get(r->out, i, &e) == HTC_OK; i++) {
        HOLDS(r->said_n < SAID);
        said *s = &r->said[r->said_n++];
        *s = (said){ .peer = e.peer, .kind = e.kind };
        if (e.kind != HTC_OUT_MESSAGE)
            continue;
        void *copy = malloc(e.body.len);
        memcpy(copy, e.body.data, e.body.len);
        s->body = (htc_bytes){ copy, e.body.len };
        htc_reader m = htc_wire_open(s->body, &s->type, &s->id);
        HOLDS(m.status == HTC_OK);
        if (s->type == HTC_WIRE_KV_ANSWER && e.peer >= CLIENT) {
            htc__kv_answer_head head;
            htc__kv_answer_read(&m, &head);
            r->session[e.peer] = head.session;
        }
    }
    htc_output_clear(r->out);
}

static void say(rig *r, uint32_t peer)
{
    htc_buf copy;
    htc_buf_init(&copy, NULL, 0);
    htc_put_raw(&copy, htc_buf_bytes(&r->message));
    input(r, HTC_IN_MESSAGE, peer, htc_buf_bytes(&copy));
    htc_buf_free(&copy);
}

static void tick(rig *r)
{
    HOLDS(htc_kv_proxy_ops()->deadline(r->proxy) <= r->now);
    input(r, HTC_IN_TIMEOUT, 0, (htc_bytes){ NULL, 0 });
}

static void begin_with(rig *r, htc_kv_proxy_options *o)
{
    static const uint32_t stores[] = { STORE, SECOND };
    *r = (rig){ .rng = { 1 }, .now = HTC_SECOND };
    r->env = (htc_env){ .size = sizeof r->env, .rng = &r->rng };
    o->size = sizeof *o;
    o->stores = stores;
    o->store_count = 2;
    htc_buf_init(&r->message, NULL, 0);
    HOLDS(htc_kv_proxy_create(&r->env, o, &r->proxy) == HTC_OK && htc_output_create(NULL, 0, &r->out) == HTC_OK);
    input(r, HTC_IN_START, 0, (htc_bytes){ NULL, 0 });
}

/* A store opens, welcomes the proxy and names its session. */
static void store_comes(rig *r, uint32_t peer, uint64_t session)
{
    input(r, HTC_IN_OPENED, peer, (htc_bytes){ NULL, 0 });
    HOLDS(r->said[r->said_n - 1].peer == peer && r->said[r->said_n - 1].type == HTC_WIRE_HELLO);
    htc_wire_welcome(&r->message, 0, HTC_WIRE_VERSION);
    say(r, peer);
    const said *asked = &r->said[r->said_n - 1];
    HOLDS(asked->peer == peer && asked->type == HTC_WIRE_KV_REQUEST);
    htc__kv_answer_begin(&r->message, asked->id, &(htc__kv_answer_head){ .clock = 40, .session = session });
    say(r, peer);
}

static void client_comes(rig *r, uint32_t peer)
{
    input(r, HTC_IN_OPENED, peer, (htc_bytes){ NULL, 0 });
    htc_wire_hello(&r->message, HTC_WIRE_ROLE_STORE_CLIENT, HTC_WIRE_VERSION);
    say(r, peer);
    HOLDS(r->said[r->said_n - 1].peer == peer && r->said[r->said_n - 1].type == HTC_WIRE_WELCOME);
    htc_wire_begin(&r->message, HTC_WIRE_KV_REQUEST, 1);
    htc__kv_head_write(&r->message, &(htc__kv_head){ .client = 100 + peer });
    say(r, peer);
    HOLDS(r->session[peer] != 0);
}

static void begin(rig *r)
{
    begin_with(r, &(htc_kv_proxy_options){ 0 });
    store_comes(r, STORE, 77);
    for (uint32_t i = 0; i < 4; i++)
        client_comes(r, CLIENT + i);
    forget_said(r);
}

static void end(rig *r)
{
    forget_said(r);
    htc_kv_proxy_destroy(r->proxy);
    htc_output_destroy(r->out);
    htc_buf_free(&r->message);
}

/* A client puts a key, as its serial-th message. */
static void write_put(rig *r, uint32_t peer, uint64_t serial, size_t len)
{
    static char value[HTC_KV_VALUE_MAX];
    htc_wire_begin(&r->message, HTC_WIRE_KV_REQUEST, serial);
    htc__kv_head_write(&r->message, &(htc__kv_head){ .session = r->session[peer], .client = 100 + peer, .since = 5 + serial, .flags = serial % 2,
                                                     .sequence = 1000 * serial, .count = 1 });
    htc__kv_op_write(&r->message, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_PUT, .key = htc_bytes_of("k"), .value = { value, len } });
}

static void put(rig *r, uint32_t peer, uint64_t serial, size_t len)
{
    write_put(r, peer, serial, len);
    say(r, peer);
}

/* The store answers one put. */
static void answered(rig *r, uint64_t serial, uint64_t session, uint32_t more)
{
    htc__kv_answer_begin(&r->message, serial, &(htc__kv_answer_head){ .clock = 41, .session = session, .count = 1, .more = more });
    htc__kv_result_write(&r->message, &(htc_kv_result){ .size = sizeof(htc_kv_result), .version = 41 });
    say(r, STORE);
}

/* The request of a client in a pack, or alone. */
static void read_request(htc_bytes bytes, htc__kv_head *head)
{
    htc_reader in = htc_reader_of(bytes);
    size_t     len;
    htc__kv_head_read_packed(&in, head);
    HOLDS(in.status == HTC_OK && htc__kv_ops_check(in, head, NULL, &len) && len == htc_reader_left(&in));
}

/* How many requests a message to the store has; their clients, in order. */
static size_t requests_of(const said *s, uint32_t *peers)
{
    uint16_t     type;
    uint64_t     id;
    htc_reader   m = htc_wire_open(s->body, &type, &id);
    htc__kv_head head;
    htc_bytes    one;
    size_t       n = 0;
    HOLDS(s->kind == HTC_OUT_MESSAGE && s->peer == STORE && htc_get_u64(&m) == 77);
    if (type == HTC_WIRE_KV_REQUEST) {
        read_request(htc_get_raw(&m, htc_reader_left(&m)), &head);
        peers[n++] = (uint32_t)head.client - 100;
        return n;
    }
    HOLDS(type == HTC_WIRE_KV_PACK);
    while (htc__kv_pack_next(&m, &one)) {
        read_request(one, &head);
        peers[n++] = (uint32_t)head.client - 100;
    }
    HOLDS(htc_reader_done(&m) == HTC_OK);
    return n;
}

static uint64_t told(const said *s, uint32_t peer, htc__kv_answer_head *head)
{
    uint16_t   type;
    uint64_t   id;
    htc_reader m = htc_wire_open(s->body, &type, &id);
    HOLDS(s->kind == HTC_OUT_MESSAGE && s->peer == peer && type == HTC_WIRE_KV_ANSWER);
    htc__kv_answer_read(&m, head);
    HOLDS(m.status == HTC_OK);
    return id;
}

/* What comes while a message is under way leaves in the next one; client, since, flags, sequence and operations are untouched, and each answer finds back. */
Test(kv_proxy, packs_what_waits)
{
    rig                 r;
    htc__kv_answer_head head;
    uint32_t            peers[8];
    htc_buf             sent[3];
    begin(&r);
    for (uint32_t i = 0; i < 3; i++) {
        put(&r, CLIENT + i, 20 + i, 10 + i);
        htc_buf_init(&sent[i], NULL, 0);
        htc_put_raw(&sent[i], htc_buf_bytes(&r.message));
    }
    cr_assert(r.said_n == 1 && r.said[0].type == HTC_WIRE_KV_REQUEST && requests_of(&r.said[0], peers) == 1 && peers[0] == CLIENT);
    cr_expect(r.said[0].body.len == sent[0].len && memcmp((const char *)r.said[0].body.data + 18, sent[0].data + 18, sent[0].len - 18) == 0);
    uint64_t first = r.said[0].id;
    answered(&r, first, 77, 0);
    cr_assert(r.said_n == 3);
    cr_expect(told(&r.said[1], CLIENT, &head) == 20 && head.session == r.session[CLIENT] && head.clock == 41 && head.count == 1);
    cr_assert(r.said[2].type == HTC_WIRE_KV_PACK && r.said[2].id == first + 1 && requests_of(&r.said[2], peers) == 2);
    cr_expect(peers[0] == CLIENT + 1 && peers[1] == CLIENT + 2);
    uint16_t   type;
    uint64_t   id;
    htc_bytes  one;
    htc_reader m = htc_wire_open(r.said[2].body, &type, &id);
    htc_get_u64(&m);
    for (uint32_t i = 1; htc__kv_pack_next(&m, &one); i++)
        cr_expect(htc_bytes_equal(one, (htc_bytes){ sent[i].data + 18, sent[i].len - 18 }));
    /* In any order; a piece that says that more comes is not the last. */
    answered(&r, first + 2, 77, HTC__KV_MORE);
    answered(&r, first + 2, 77, 0);
    answered(&r, first + 1, 77, HTC__KV_ELSEWHERE);
    answered(&r, first + 1, 77, 0);
    cr_assert(r.said_n == 6, "%zu", r.said_n);
    cr_expect(told(&r.said[3], CLIENT + 2, &head) == 22 && head.more == 1 && told(&r.said[4], CLIENT + 2, &head) == 22 && head.more == 0);
    cr_expect(told(&r.said[5], CLIENT + 1, &head) == 21 && head.more == 0, "a client that does not route is not told of other owners");
    htc_kv_proxy_stats stats = { .size = sizeof stats };
    cr_assert(htc_kv_proxy_stats_get(r.proxy, &stats) == HTC_OK);
    cr_expect(stats.requests == 3 && stats.messages == 2 && stats.answers == 4 && stats.connections == 4 && stats.unanswered == 0 && stats.store == 1);
    for (uint32_t i = 0; i < 3; i++)
        htc_buf_free(&sent[i]);
    end(&r);
}

/* A driver with turns: what came in one turn leaves together, the first time too. */
Test(kv_proxy, what_came_together_leaves_together)
{
    rig      r;
    uint32_t peers[8];
    begin(&r);
    input(&r, HTC_IN_TURN, 0, (htc_bytes){ NULL, 0 });
    for (uint32_t i = 0; i < 4; i++)
        put(&r, CLIENT + i, 20, 10);
    cr_assert(r.said_n == 0);
    input(&r, HTC_IN_TURN, 0, (htc_bytes){ NULL, 0 });
    cr_assert(r.said_n == 1 && requests_of(&r.said[0], peers) == 4);
    end(&r);
}

/* One request that takes long holds nobody up for longer than linger_ns. */
Test(kv_proxy, a_slow_answer_holds_nobody_up)
{
    rig      r;
    uint32_t peers[8];
    begin(&r);
    put(&r, CLIENT, 20, 10);
    put(&r, CLIENT + 1, 20, 10);
    cr_assert(r.said_n == 1 && htc_kv_proxy_ops()->deadline(r.proxy) == r.now + 10 * HTC_MS);
    r.now += 10 * HTC_MS;
    tick(&r);
    cr_assert(r.said_n == 2 && requests_of(&r.said[1], peers) == 1 && peers[0] == CLIENT + 1);
    answered(&r, r.said[1].id, 77, 0);
    answered(&r, r.said[0].id, 77, 0);
    cr_expect(r.said_n == 4 && r.said[2].peer == CLIENT + 1 && r.said[3].peer == CLIENT);
    end(&r);
}

/* Clients take turns; one has no more than its share, and is told to send again. */
Test(kv_proxy, clients_take_turns_and_are_pushed_back)
{
    rig                 r;
    uint32_t            peers[32];
    htc__kv_answer_head head;
    begin_with(&r, &(htc_kv_proxy_options){ .inflight_max = 8 });
    store_comes(&r, STORE, 77);
    for (uint32_t i = 0; i < 3; i++)
        client_comes(&r, CLIENT + i);
    forget_said(&r);
    put(&r, CLIENT, 20, 10);
    for (uint64_t i = 0; i < 10; i++)
        put(&r, CLIENT + 1, 20 + i, 10);
    put(&r, CLIENT + 2, 20, 10);
    cr_assert(r.said_n == 3);
    for (size_t i = 1; i < 3; i++)
        cr_expect(told(&r.said[i], CLIENT + 1, &head) == 27 + i && head.count == 0 && head.more == 0 && head.session == r.session[CLIENT + 1]);
    answered(&r, r.said[0].id, 77, 0);
    cr_assert(r.said_n == 5 && requests_of(&r.said[4], peers) == 9);
    cr_expect(peers[0] == CLIENT + 1 && peers[1] == CLIENT + 2 && peers[2] == CLIENT + 1);
    /* It has room again, one for each answer. */
    answered(&r, r.said[4].id, 77, 0);
    put(&r, CLIENT + 1, 40, 10);
    put(&r, CLIENT + 1, 41, 10);
    cr_assert(r.said_n == 7);
    cr_expect(told(&r.said[6], CLIENT + 1, &head) == 41 && head.count == 0);
    end(&r);
}

/* The longest value goes alone, untouched; of bytes a client has a share too. */
Test(kv_proxy, long_values_go_alone)
{
    rig                 r;
    uint32_t            peers[8];
    htc__kv_answer_head head;
    begin(&r);
    put(&r, CLIENT, 20, 10);
    put(&r, CLIENT + 1, 20, HTC_KV_VALUE_MAX);
    put(&r, CLIENT + 2, 20, 10);
    put(&r, CLIENT + 3, 20, 10);
    put(&r, CLIENT + 1, 21, HTC_KV_VALUE_MAX);
    cr_assert(r.said_n == 2);
    cr_expect(told(&r.said[1], CLIENT + 1, &head) == 21 && head.count == 0);
    answered(&r, r.said[0].id, 77, 0);
    cr_assert(r.said_n == 4 && r.said[3].type == HTC_WIRE_KV_REQUEST && requests_of(&r.said[3], peers) == 1 && peers[0] == CLIENT + 1);
    cr_expect(r.said[3].body.len > HTC_KV_VALUE_MAX && r.said[3].body.len <= HTC_WIRE_MESSAGE_MAX);
    answered(&r, r.said[3].id, 77, 0);
    cr_assert(r.said_n == 6 && requests_of(&r.said[5], peers) == 2);
    end(&r);
}

/* What the store has not answered is bounded: beyond, everything waits, however long. */
Test(kv_proxy, a_silent_store_is_not_flooded)
{
    rig    r;
    size_t passed = 0;
    begin_with(&r, &(htc_kv_proxy_options){ .sent_max = 1000, .inflight_all = 5 });
    store_comes(&r, STORE, 77);
    for (uint32_t i = 0; i < 20; i++)
        client_comes(&r, CLIENT + i);
    forget_said(&r);
    for (uint32_t i = 0; i < 20; i++)
        put(&r, CLIENT + i, 20, 10);
    for (int i = 0; i < 100; i++) {
        r.now += 100 * HTC_MS;
        input(&r, HTC_IN_TIMEOUT, 0, (htc_bytes){ NULL, 0 });
    }
    for (size_t i = 0; i < r.said_n; i++) {
        uint32_t peers[32];
        passed += requests_of(&r.said[i], peers);
    }
    cr_expect(passed == 5, "%zu", passed);
    /* In the end what is not answered is nobody's, and others have their turn. */
    r.now += 60 * HTC_SECOND;
    size_t before = r.said_n;
    tick(&r);
    cr_assert(r.said_n == before + 1);
    answered(&r, r.said[0].id, 77, 0);
    cr_expect(r.said_n == before + 1, "an answer that nobody waits for is dropped");
    end(&r);
}

/* Without a store nobody is let in; when it is lost all are closed, and nothing of before is passed on to the next one. */
Test(kv_proxy, a_lost_store_closes_all_clients)
{
    rig    r;
    size_t closed = 0;
    begin(&r);
    for (uint32_t i = 0; i < 4; i++)
        put(&r, CLIENT + i, 20, 10);
    uint64_t first = r.said[0].id;
    forget_said(&r);
    input(&r, HTC_IN_CLOSED, STORE, (htc_bytes){ NULL, 0 });
    for (size_t i = 0; i < r.said_n; i++)
        closed += r.said[i].kind == HTC_OUT_CLOSE && r.said[i].peer >= CLIENT;
    cr_expect(closed == 4 && r.said_n == 4);
    cr_expect(htc_kv_proxy_ops()->deadline(r.proxy) == HTC_NEVER);
    forget_said(&r);
    input(&r, HTC_IN_OPENED, CLIENT, (htc_bytes){ NULL, 0 });
    htc_wire_hello(&r.message, HTC_WIRE_ROLE_STORE_CLIENT, HTC_WIRE_VERSION);
    say(&r, CLIENT);
    cr_assert(r.said_n == 2 && r.said[0].type == HTC_WIRE_ERROR && r.said[1].kind == HTC_OUT_CLOSE);
    uint16_t   type;
    uint64_t   id;
    htc_reader m = htc_wire_open(r.said[0].body, &type, &id);
    cr_expect((htc_status)(int32_t)htc_get_u32(&m) == HTC_EUNREACHABLE);
    forget_said(&r);
    store_comes(&r, STORE, 77);
    cr_expect(r.said_n == 2, "a greeting and a question, and nothing of before");
    client_comes(&r, CLIENT);
    forget_said(&r);
    answered(&r, first, 77, 0);
    cr_expect(r.said_n == 0, "an answer to what went over the connection before is nobody's");
    put(&r, CLIENT, 20, 10);
    cr_expect(r.said_n == 1 && r.said[0].id > first);
    end(&r);
}

/* Another session of the store on the same connection: it has started anew, or its opening was not told. */
Test(kv_proxy, another_session_is_another_store)
{
    rig r;
    begin(&r);
    put(&r, CLIENT, 20, 10);
    uint64_t serial = r.said[0].id;
    forget_said(&r);
    htc__kv_answer_begin(&r.message, serial, &(htc__kv_answer_head){ .clock = 41, .session = 78 });
    say(&r, STORE);
    cr_expect(r.said_n == 4 && r.said[0].kind == HTC_OUT_CLOSE);
    client_comes(&r, CLIENT);
    put(&r, CLIENT, 20, 10);
    const said *s = &r.said[r.said_n - 1];
    cr_expect(s->peer == STORE && htc__le64_get((const uint8_t *)s->body.data + 10) == 78);
    end(&r);
}

/* Of several stores the first is asked until it is lost, then the next that is there. */
Test(kv_proxy, the_next_store_takes_over)
{
    rig r;
    begin_with(&r, &(htc_kv_proxy_options){ 0 });
    store_comes(&r, SECOND, 88);
    store_comes(&r, STORE, 77);
    client_comes(&r, CLIENT);
    put(&r, CLIENT, 20, 10);
    cr_expect(r.said[r.said_n - 1].peer == SECOND, "whoever answers first has everything");
    input(&r, HTC_IN_CLOSED, SECOND, (htc_bytes){ NULL, 0 });
    cr_expect(r.said[r.said_n - 1].kind == HTC_OUT_CLOSE && r.said[r.said_n - 1].peer == CLIENT);
    client_comes(&r, CLIENT);
    put(&r, CLIENT, 20, 10);
    cr_expect(r.said[r.said_n - 1].peer == STORE && htc__le64_get((const uint8_t *)r.said[r.said_n - 1].body.data + 10) == 77);
    end(&r);
}

/* Another store answers what the proxy asks it. */
static void shows_itself(rig *r, uint32_t peer, uint64_t session)
{
    for (size_t i = r->said_n; i-- > 0;)
        if (r->said[i].peer == peer && r->said[i].type == HTC_WIRE_KV_REQUEST) {
            htc__kv_answer_begin(&r->message, r->said[i].id, &(htc__kv_answer_head){ .clock = 40, .session = session });
            say(r, peer);
            return;
        }
    HOLDS(0);
}

/* One whose host is cut off without a word, or that stands still, is left for one that answers; not while nobody does, nor if it says anything. */
Test(kv_proxy, a_silent_store_is_left)
{
    rig r;
    begin_with(&r, &(htc_kv_proxy_options){ 0 });
    store_comes(&r, STORE, 77);
    store_comes(&r, SECOND, 88);
    client_comes(&r, CLIENT);
    r.now += 100 * HTC_SECOND;
    put(&r, CLIENT, 20, 10);
    const said *passed = &r.said[r.said_n - 1];
    uint64_t    serial = passed->id;
    cr_assert(passed->peer == STORE);
    forget_said(&r);
    r.now += HTC_SECOND - 1;
    input(&r, HTC_IN_TIMEOUT, 0, (htc_bytes){ NULL, 0 });
    cr_expect(r.said_n == 0, "an answer may take a while");
    r.now++;
    tick(&r);
    cr_assert(r.said_n == 2 && r.said[0].peer == STORE && r.said[1].peer == SECOND, "both are asked");
    shows_itself(&r, STORE, 77); /* it is slow, no more */
    for (int i = 0; i < 5; i++) {
        r.now += HTC_SECOND;
        tick(&r);
        shows_itself(&r, STORE, 77);
        shows_itself(&r, SECOND, 88);
    }
    for (size_t i = 0; i < r.said_n; i++)
        cr_expect(r.said[i].kind == HTC_OUT_MESSAGE && r.said[i].peer < CLIENT, "nothing is lost: %zu", i);
    answered(&r, serial, 77, 0);
    cr_expect(r.said[r.said_n - 1].peer == CLIENT, "what it answers late is handed back");
    cr_expect(htc_kv_proxy_ops()->deadline(r.proxy) == HTC_NEVER, "nothing is asked where no answer is owed");
    r.now += HTC_SECOND;

    put(&r, CLIENT, 21, 10);
    for (int i = 0; i < 10; i++) { /* nobody answers: to whom would it go? */
        r.now += HTC_SECOND;
        tick(&r);
    }
    for (size_t i = 0; i < r.said_n; i++)
        cr_expect(r.said[i].kind == HTC_OUT_MESSAGE, "nothing is lost: %zu", i);
    shows_itself(&r, SECOND, 88);
    r.now += 20 * HTC_SECOND; /* the proxy itself stood still: the answer may have come */
    tick(&r);
    cr_assert(r.said[r.said_n - 1].kind == HTC_OUT_MESSAGE && r.said[r.said_n - 2].kind == HTC_OUT_MESSAGE);
    r.now += HTC_SECOND;
    tick(&r);
    cr_assert(r.said[r.said_n - 2].kind == HTC_OUT_CLOSE && r.said[r.said_n - 2].peer == STORE);
    cr_assert(r.said[r.said_n - 1].kind == HTC_OUT_CLOSE && r.said[r.said_n - 1].peer == CLIENT);
    client_comes(&r, CLIENT);
    put(&r, CLIENT, 20, 10);
    cr_expect(r.said[r.said_n - 1].peer == SECOND);
    input(&r, HTC_IN_CLOSED, SECOND, (htc_bytes){ NULL, 0 });
    store_comes(&r, STORE, 79);
    client_comes(&r, CLIENT);
    put(&r, CLIENT, 20, 10);
    cr_expect(r.said[r.said_n - 1].peer == STORE, "one that is back is taken again");
    end(&r);
}

/* A store that does not greet is greeted again. */
Test(kv_proxy, a_lost_greeting_is_repeated)
{
    rig r;
    begin_with(&r, &(htc_kv_proxy_options){ .retry_ns = HTC_MS });
    input(&r, HTC_IN_OPENED, STORE, (htc_bytes){ NULL, 0 });
    r.now += HTC_MS;
    tick(&r);
    cr_assert(r.said_n == 2 && r.said[1].type == HTC_WIRE_HELLO && r.said[1].peer == STORE);
    htc_wire_welcome(&r.message, 0, HTC_WIRE_VERSION);
    say(&r, STORE);
    say(&r, STORE);
    r.now += HTC_MS;
    tick(&r);
    cr_assert(r.said_n == 4 && r.said[3].type == HTC_WIRE_KV_REQUEST && r.said[3].id == r.said[2].id + 1);
    htc__kv_answer_begin(&r.message, r.said[2].id, &(htc__kv_answer_head){ .session = 77 });
    say(&r, STORE);
    cr_expect(htc_kv_proxy_ops()->deadline(r.proxy) == HTC_NEVER);
    client_comes(&r, CLIENT);
    end(&r);
}

/* Each transmission once, in its order: copies, and what a later one has overtaken, are dropped here as at a store. */
Test(kv_proxy, old_copies_are_dropped)
{
    rig r;
    begin(&r);
    put(&r, CLIENT, 21, 10);
    put(&r, CLIENT, 21, 10);
    put(&r, CLIENT, 20, 10);
    htc_kv_proxy_stats stats = { .size = sizeof stats };
    cr_assert(htc_kv_proxy_stats_get(r.proxy, &stats) == HTC_OK);
    cr_expect(stats.unanswered == 1 && stats.waiting == 0);
    /* Of another session: the right one is named. */
    htc__kv_answer_head head;
    r.session[CLIENT] ^= 1;
    put(&r, CLIENT, 22, 10);
    cr_assert(r.said_n == 2 && told(&r.said[1], CLIENT, &head) == 22);
    cr_expect(head.count == 0 && head.session == r.session[CLIENT]);
    /* A client that is gone is answered nothing, and what it has waiting is not passed on. */
    put(&r, CLIENT, 23, 10);
    put(&r, CLIENT + 1, 20, 10);
    input(&r, HTC_IN_CLOSED, CLIENT, (htc_bytes){ NULL, 0 });
    answered(&r, r.said[0].id, 77, 0);
    uint32_t peers[8];
    cr_expect(r.said_n == 3 && requests_of(&r.said[2], peers) == 1 && peers[0] == CLIENT + 1);
    end(&r);
}

/* What is broken ends its own connection, and the store never sees it. */
Test(kv_proxy, a_broken_request_harms_nobody_else)
{
    rig r;
    begin(&r);
    write_put(&r, CLIENT, 20, 10);
    htc_put_u8(&r.message, 1);
    say(&r, CLIENT);
    cr_assert(r.said_n == 2 && r.said[0].type == HTC_WIRE_ERROR && r.said[1].kind == HTC_OUT_CLOSE && r.said[1].peer == CLIENT);
    static const uint16_t types[] = { HTC_WIRE_KV_OWNERS_ASK, HTC_WIRE_KV_PACK, HTC_WIRE_KV_MEMBERS, HTC_WIRE_KV_ANSWER, 9 };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        client_comes(&r, CLIENT);
        forget_said(&r);
        htc_wire_begin(&r.message, types[i], 30);
        htc_put_u64(&r.message, 0);
        say(&r, CLIENT);
        cr_expect(r.said_n == 2 && r.said[1].kind == HTC_OUT_CLOSE && r.said[1].peer == CLIENT, "%u", types[i]);
    }
    /* Nor does it serve members and other proxies. */
    static const uint8_t roles[] = { HTC_WIRE_ROLE_STORE_MEMBER, HTC_WIRE_ROLE_STORE_PROXY, HTC_WIRE_ROLE_USER };
    for (size_t i = 0; i < sizeof roles; i++) {
        forget_said(&r);
        input(&r, HTC_IN_OPENED, CLIENT, (htc_bytes){ NULL, 0 });
        htc_wire_hello(&r.message, roles[i], HTC_WIRE_VERSION);
        say(&r, CLIENT);
        cr_expect(r.said_n == 2 && r.said[0].type == HTC_WIRE_ERROR && r.said[1].kind == HTC_OUT_CLOSE);
    }
    forget_said(&r);
    put(&r, CLIENT + 1, 20, 10);
    cr_expect(r.said_n == 1 && r.said[0].peer == STORE);
    end(&r);
}

/* Of an operation of a later version nobody here knows where it ends: what stands before it is passed on, it alone is unsupported. */
Test(kv_proxy, an_unknown_operation_is_cut_off)
{
    rig                 r;
    htc__kv_answer_head head;
    uint16_t            type;
    uint64_t            id;
    begin(&r);
    htc_wire_begin(&r.message, HTC_WIRE_KV_REQUEST, 20);
    htc__kv_head_write(&r.message, &(htc__kv_head){ .session = r.session[CLIENT], .client = 100 + CLIENT, .sequence = 1, .count = 3 });
    htc__kv_op_write(&r.message, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = htc_bytes_of("k") });
    htc_put_u8(&r.message, HTC_KV_CHANGE + 1);
    htc_put_u8(&r.message, 200);
    say(&r, CLIENT);
    cr_assert(r.said_n == 1 && r.said[0].peer == STORE);
    htc_reader   m = htc_wire_open(r.said[0].body, &type, &id);
    htc__kv_head sent;
    size_t       len;
    htc__kv_head_read(&m, &sent);
    cr_expect(sent.count == 1 && htc__kv_ops_check(m, &sent, NULL, &len) && !sent.unknown);
    htc_wire_begin(&r.message, HTC_WIRE_KV_REQUEST, 21);
    htc__kv_head_write(&r.message, &(htc__kv_head){ .session = r.session[CLIENT], .client = 100 + CLIENT, .sequence = 2, .count = 2 });
    htc_put_u8(&r.message, HTC_KV_CHANGE + 1);
    htc_put_u8(&r.message, 200);
    say(&r, CLIENT);
    htc_kv_result result = { .size = sizeof result };
    cr_assert(r.said_n == 2 && told(&r.said[1], CLIENT, &head) == 21 && head.count == 1);
    m = htc_wire_open(r.said[1].body, &type, &id);
    htc_get_raw(&m, HTC__KV_ANSWER_HEAD - 10);
    htc__kv_result_read(&m, &result);
    cr_expect(result.status == HTC_EUNSUPPORTED);
    end(&r);
}

/* A watch ends in as many words, and once: nobody waits for events that never come. */
Test(kv_proxy, has_no_watches)
{
    rig          r;
    htc_kv_event e;
    uint16_t     type;
    uint64_t     id, session, heard;
    begin(&r);
    htc__kv_watch_begin(&r.message, 30, r.session[CLIENT], 0, 0);
    htc__kv_watch_wish_write(&r.message, &(htc__kv_watch_wish){ .watch = 3, .kind = HTC__KV_WISH_KEY, .key = htc_bytes_of("k") });
    htc__kv_watch_wish_write(&r.message, &(htc__kv_watch_wish){ .watch = 4, .kind = HTC__KV_WISH_PREFIX });
    htc__kv_watch_wish_write(&r.message, &(htc__kv_watch_wish){ .watch = 2, .kind = HTC__KV_WISH_END });
    say(&r, CLIENT);
    cr_assert(r.said_n == 1 && r.said[0].type == HTC_WIRE_KV_EVENTS && r.said[0].id == 1);
    htc_reader m = htc_wire_open(r.said[0].body, &type, &id);
    htc__kv_events_read(&m, &session, &heard);
    cr_expect(session == r.session[CLIENT] && heard == 30);
    for (uint64_t watch = 3; watch <= 4; watch++)
        cr_expect(htc__kv_event_next(&m, &e) == 1 && e.tag == watch && e.kind == HTC_KV_EVENT_ENDED && e.status == HTC_EUNSUPPORTED);
    cr_expect(htc__kv_event_next(&m, &e) == 0 && htc_reader_done(&m) == HTC_OK);
    htc__kv_watch_begin(&r.message, 31, r.session[CLIENT], 0, 1);
    say(&r, CLIENT);
    cr_expect(r.said_n == 1);
    end(&r);
}

/* Behind a real store: a proxy's clients change no members, whoever they are. */
Test(kv_proxy, the_store_changes_no_members_for_it)
{
    rig                   r = { .rng = { 1 } };
    htc_kv_server        *server = NULL;
    htc_kv_server_options o = { .size = sizeof o };
    htc_effect            e;
    uint16_t              type;
    uint64_t              id, session = 0;
    htc__kv_answer_head   head;
    r.env = (htc_env){ .size = sizeof r.env, .rng = &r.rng };
    htc_buf_init(&r.message, NULL, 0);
    HOLDS(htc_kv_server_create(&r.env, &o, &server) == HTC_OK && htc_output_create(NULL, 0, &r.out) == HTC_OK);
    for (int i = 0; i < 5; i++) {
        htc_input in = { .size = sizeof in, .kind = i == 0 ? HTC_IN_START : i == 1 ? HTC_IN_OPENED : HTC_IN_MESSAGE, .peer = i ? 1 : 0 };
        if (i == 2)
            htc_wire_hello(&r.message, HTC_WIRE_ROLE_STORE_PROXY, HTC_WIRE_VERSION);
        if (i >= 3) {
            htc_wire_begin(&r.message, HTC_WIRE_KV_REQUEST, (uint64_t)i);
            htc__kv_head_write(&r.message, &(htc__kv_head){ .session = session, .client = 1, .count = i - 3 });
        }
        if (i == 4)
            htc__kv_op_write(&r.message, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_CHANGE, .limit = HTC_KV_CHANGE_BACK });
        in.body = htc_buf_bytes(&r.message);
        htc_output_clear(r.out);
        HOLDS(htc_kv_server_ops()->step(server, &in, r.out) == HTC_OK);
        if (i < 3)
            continue;
        HOLDS(htc_output_get(r.out, 0, &e) == HTC_OK && e.kind == HTC_OUT_MESSAGE);
        htc_reader m = htc_wire_open(e.body, &type, &id);
        htc__kv_answer_read(&m, &head);
        session = head.session;
        if (i < 4)
            continue;
        htc_kv_result result = { .size = sizeof result };
        htc__kv_result_read(&m, &result);
        cr_expect(head.count == 1 && result.status == HTC_EDENIED && result.value.len > 0);
    }
    htc_kv_server_destroy(server);
    htc_output_destroy(r.out);
    htc_buf_free(&r.message);
}

Test(kv_proxy, options_are_checked)
{
    htc_rng              rng = { 1 };
    htc_env              env = { .size = sizeof env, .rng = &rng };
    htc_kv_proxy        *p = NULL;
    uint32_t             stores[17] = { 1, 2, 1 };
    htc_kv_proxy_options o = { .size = sizeof o, .stores = stores, .store_count = 2 };
    cr_assert(htc_kv_proxy_create(&env, &o, &p) == HTC_OK);
    htc_kv_proxy_destroy(p);
    htc_kv_proxy_destroy(NULL);
    cr_expect(htc_kv_proxy_create(NULL, &o, &p) == HTC_EINVAL && htc_kv_proxy_create(&env, NULL, &p) == HTC_EINVAL);
    for (uint32_t n = 0; n < 18; n++) {
        o.store_count = n;
        cr_expect(htc_kv_proxy_create(&env, &o, &p) == (n == 1 || n == 2 ? HTC_OK : HTC_EINVAL), "%u", n);
        if (n == 1 || n == 2)
            htc_kv_proxy_destroy(p);
    }
    o.store_count = 1;
    o.bytes_max = 1000;
    cr_expect(htc_kv_proxy_create(&env, &o, &p) == HTC_EINVAL);
    htc_kv_proxy_stats stats = { .size = 0 };
    cr_expect(htc_kv_proxy_stats_get(NULL, &stats) == HTC_EINVAL);
}

/* A store and three clients as far as memory goes; HTC_ENOMEM from a step breaks the machine, and nothing of it is left. */
static htc_status with_memory(htc_kv_proxy *p, htc_output *out)
{
    htc_buf    b;
    htc_status status = HTC_OK;
    htc_effect e;
    uint64_t   session = 77, serial = 1;
    htc_buf_init(&b, NULL, 0);
    for (int i = 0; status == HTC_OK && i < 30; i++) {
        uint32_t  client = CLIENT + (uint32_t)i % 3;
        htc_input in = { .size = sizeof in, .now = (htc_ns)i * HTC_MS, .kind = HTC_IN_MESSAGE, .peer = i < 3 ? STORE : client };
        if (i == 0 || (i >= 3 && i < 6))
            in.kind = HTC_IN_OPENED;
        else if (i == 1)
            htc_wire_welcome(&b, 0, HTC_WIRE_VERSION);
        else if (i == 2)
            htc__kv_answer_begin(&b, 1, &(htc__kv_answer_head){ .session = 77 });
        else if (i < 9)
            htc_wire_hello(&b, HTC_WIRE_ROLE_STORE_CLIENT, HTC_WIRE_VERSION);
        else {
            htc_wire_begin(&b, HTC_WIRE_KV_REQUEST, ++serial);
            htc__kv_head_write(&b, &(htc__kv_head){ .session = session, .client = client, .sequence = serial, .count = i > 20 });
            if (i > 20)
                htc__kv_op_write(&b, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = htc_bytes_of("k") });
        }
        in.body = in.kind == HTC_IN_MESSAGE ? htc_buf_bytes(&b) : (htc_bytes){ NULL, 0 };
        htc_output_clear(out);
        status = htc_kv_proxy_ops()->step(p, &in, out);
        for (size_t k = 0; i > 8 && htc_output_get(out, k, &e) == HTC_OK; k++)
            if (e.kind == HTC_OUT_MESSAGE && e.peer >= CLIENT)
                session = htc__le64_get((const uint8_t *)e.body.data + 18);
    }
    htc_buf_free(&b);
    return status;
}

Test(kv_proxy, gives_everything_back_when_memory_is_refused)
{
    size_t refused = 0;
    ALLOC_FAIL_EVERY (f, 1000) {
        htc_rng               rng = { 1 };
        htc_env               env = alloc_fail_env(&f);
        static const uint32_t stores[] = { STORE };
        htc_kv_proxy_options  o = { .size = sizeof o, .stores = stores, .store_count = 1 };
        htc_kv_proxy         *p = NULL;
        htc_output           *out = NULL;
        env.rng = &rng;
        HOLDS(htc_output_create(NULL, 0, &out) == HTC_OK);
        htc_status status = htc_kv_proxy_create(&env, &o, &p);
        if (status == HTC_OK)
            status = with_memory(p, out);
        cr_expect(status == (f.refused ? HTC_ENOMEM : HTC_OK), "%d", status);
        refused += status == HTC_ENOMEM;
        htc_kv_proxy_destroy(p);
        htc_output_destroy(out);
        cr_expect(f.live == 0 && f.wrong_sizes == 0, "%zu, %zu", f.live, f.wrong_sizes);
    }
    cr_expect(refused > 5, "%zu", refused);
}
