/* Peers of different versions: both speak the lower number, a later version's operation or flag is answered, what is broken is not. */
#include "expect.h"
#include <string.h>

#include "kvs/cell/change.h"
#include "kvs/client/client.h"
#include "kvs/replica/cluster.h"
#include "kvs/peer/eventual_wire.h"
#include "kvs/wire/owners_wire.h"
#include "property.h"

#define PEER  5u
#define OTHER 2u /* the other member's, which this one has opened */
#define FROM  3u /* that by which it talks to this one */

/* A member, alone or beside another one, whose messages are kept. */
typedef struct rig {
    htc_rng        rng;
    htc_env        env;
    htc_kv_engine  engine;
    htc_kv_server *server;
    htc_output    *out;
    htc_buf        message, said[8]; /* what it has said last to that peer */
    uint32_t       told[8], closed[8];
    uint16_t       announced; /* in its greeting */
    uint64_t       session, serial;
} rig;

static void input(rig *r, uint32_t kind, uint32_t peer, uint64_t tag, htc_bytes body)
{
    htc_input  in = { .size = sizeof in, .now = HTC_SECOND, .wall = HTC_SECOND, .kind = kind, .peer = peer, .tag = tag, .body = body };
    htc_effect e;
    uint64_t   commit = 0;
    int        committing = 0;
    HOLDS(htc_kv_server_ops()->step(r->server, &in, r->out) == HTC_OK);
    for (size_t i = 0; htc_output_get(r->out, i, &e) == HTC_OK; i++) {
        uint16_t   type;
        uint64_t   id;
        htc_reader m = htc_wire_open(e.body, &type, &id);
        if (e.kind == HTC_OUT_MESSAGE && type == HTC_WIRE_HELLO) {
            htc_get_u32(&m);
            r->announced = htc_get_u16(&m);
        }
        if (e.kind == HTC_OUT_MESSAGE && e.peer < 8) {
            htc_buf_clear(&r->said[e.peer]);
            htc_put_raw(&r->said[e.peer], e.body);
            r->told[e.peer]++;
        } else if (e.kind == HTC_OUT_CLOSE && e.peer < 8) {
            r->closed[e.peer] = 1;
        } else if (e.kind == HTC_OUT_COMMIT) {
            HOLDS(r->engine.ops->apply(r->engine.ctx, e.body) == HTC_OK);
            commit = e.tag;
            committing = 1;
        }
    }
    htc_output_clear(r->out);
    if (committing)
        input(r, HTC_IN_STORED, 0, commit, (htc_bytes){ NULL, 0 });
}

static void open_rig(rig *r, int members, uint16_t speaks)
{
    static const htc_kv_member listed[2] = { { .id = 11 }, { .id = 12, .peer = OTHER } };
    htc_kv_namespace           space = { .size = sizeof space, .name = htc_bytes_of("e"), .n = 2 };
    htc_kv_server_options      o = { .size = sizeof o };
    *r = (rig){ .rng = { 3 } };
    r->env = (htc_env){ .size = sizeof r->env, .rng = &r->rng };
    HOLDS(htc_kv_memory_create(NULL, &r->engine) == HTC_OK && htc_output_create(NULL, 0, &r->out) == HTC_OK);
    o.engine = r->engine;
    if (members) {
        o.self = 11;
        o.members = listed;
        o.member_count = 2;
        o.owners = 2;
        o.bits = 4;
        o.namespaces = &space;
        o.namespace_count = 1;
    }
    htc_buf_init(&r->message, NULL, 0);
    for (size_t i = 0; i < 8; i++)
        htc_buf_init(&r->said[i], NULL, 0);
    HOLDS(htc_kv_server_create(&r->env, &o, &r->server) == HTC_OK);
    if (speaks)
        htc__kv_server_speak(r->server, speaks);
    input(r, HTC_IN_START, 0, 0, (htc_bytes){ NULL, 0 });
}

static void close_rig(rig *r)
{
    htc_kv_server_destroy(r->server);
    r->engine.ops->destroy(r->engine.ctx);
    htc_output_destroy(r->out);
    htc_buf_free(&r->message);
    for (size_t i = 0; i < 8; i++)
        htc_buf_free(&r->said[i]);
}

static void say(rig *r, uint32_t peer)
{
    input(r, HTC_IN_MESSAGE, peer, 0, htc_buf_bytes(&r->message));
}

static htc_reader said(const rig *r, uint32_t peer, uint16_t *type)
{
    uint64_t id;
    return htc_wire_open(htc_buf_bytes(&r->said[peer]), type, &id);
}

static void open_peer(rig *r, uint32_t peer)
{
    htc_buf b;
    htc_buf_init(&b, NULL, 0);
    htc_peer_info_write(&b, &(htc_peer_info){ HTC_TRANSPORT_UNIX, 0, 0, 1 });
    input(r, HTC_IN_OPENED, peer, 0, htc_buf_bytes(&b));
    htc_buf_free(&b);
}

/* Greet as a client; the number in the welcome, and what stands behind it. 0: no welcome. */
static uint16_t greet(rig *r, uint32_t peer, uint8_t role, uint16_t version, size_t *more)
{
    uint16_t type;
    open_peer(r, peer);
    htc_wire_hello(&r->message, role, version);
    say(r, peer);
    htc_reader w = said(r, peer, &type);
    uint16_t   spoken = type == HTC_WIRE_WELCOME ? htc_get_u16(&w) : 0;
    *more = htc_reader_left(&w);
    return spoken;
}

Test(kvs_versions, both_speak_the_lower_one)
{
    static const struct {
        uint16_t member, client, spoken;
        size_t   more;
    } cases[] = { { 0, HTC_WIRE_VERSION, HTC_WIRE_VERSION, 9 },
                  { 0, HTC_WIRE_VERSION + 5, HTC_WIRE_VERSION, 9 },
                  { 0, HTC_WIRE_VERSION_OWNERS - 1, HTC_WIRE_VERSION_OWNERS - 1, 0 },
                  { HTC_WIRE_VERSION_OWNERS - 1, HTC_WIRE_VERSION, HTC_WIRE_VERSION_OWNERS - 1, 0 },
                  { HTC_WIRE_VERSION_OWNERS - 1, HTC_WIRE_VERSION_OWNERS - 1, HTC_WIRE_VERSION_OWNERS - 1, 0 },
                  { 0, HTC_WIRE_VERSION_MIN - 1, 0, 0 } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rig    r;
        size_t more;
        open_rig(&r, 1, cases[i].member);
        uint16_t spoken = greet(&r, PEER, HTC_WIRE_ROLE_STORE_CLIENT, cases[i].client, &more);
        cr_expect(eq(u16, spoken, cases[i].spoken), "case %zu", i);
        cr_expect(spoken == 0 || more == cases[i].more, "case %zu: %zu bytes behind the version", i, more);
        cr_expect(r.closed[PEER] == (spoken == 0), "case %zu", i);
        close_rig(&r);
    }
}

/* A member that greets is told what both speak, and nothing else. */
Test(kvs_versions, members_speak_the_lower_one)
{
    for (uint16_t theirs = HTC_WIRE_VERSION - 1; theirs <= HTC_WIRE_VERSION + 1; theirs++)
        for (uint16_t ours = HTC_WIRE_VERSION - 1; ours <= HTC_WIRE_VERSION; ours++) {
            rig      r;
            size_t   more;
            uint16_t lower = theirs < ours ? theirs : ours;
            open_rig(&r, 1, ours);
            open_peer(&r, OTHER); /* and what it announces itself */
            cr_expect(eq(u16, r.announced, ours));
            cr_expect(greet(&r, FROM, HTC_WIRE_ROLE_STORE_MEMBER, theirs, &more) == lower && more == 0);
            close_rig(&r);
        }
}

/* Who speaks version 1 knows nothing of owners: that question ends the connection, as any unknown message does. */
Test(kvs_versions, owners_are_of_version_two)
{
    for (uint16_t version = HTC_WIRE_VERSION_OWNERS - 1; version <= HTC_WIRE_VERSION_OWNERS; version++) {
        rig      r;
        size_t   more;
        uint16_t type;
        open_rig(&r, 1, 0);
        HOLDS(greet(&r, PEER, HTC_WIRE_ROLE_STORE_CLIENT, version, &more) == version);
        htc__kv_owners_ask(&r.message, 1, 0);
        say(&r, PEER);
        said(&r, PEER, &type);
        int knows = version >= HTC_WIRE_VERSION_OWNERS;
        cr_expect(type == (knows ? HTC_WIRE_KV_OWNERS : HTC_WIRE_ERROR) && r.closed[PEER] == !knows);
        close_rig(&r);
    }
}

/* ---------------------------------------------------------------- what a later version has */

static void begin_session(rig *r)
{
    size_t   more;
    uint16_t type;
    HOLDS(greet(r, PEER, HTC_WIRE_ROLE_STORE_CLIENT, HTC_WIRE_VERSION, &more) == HTC_WIRE_VERSION);
    htc_wire_begin(&r->message, HTC_WIRE_KV_REQUEST, ++r->serial);
    htc__kv_head_write(&r->message, &(htc__kv_head){ .client = 1 });
    say(r, PEER);
    htc__kv_answer_head head;
    htc_reader          a = said(r, PEER, &type);
    htc__kv_answer_read(&a, &head);
    HOLDS(type == HTC_WIRE_KV_ANSWER && head.session);
    r->session = head.session;
}

static void begin_request(rig *r, size_t count)
{
    htc_wire_begin(&r->message, HTC_WIRE_KV_REQUEST, ++r->serial);
    htc__kv_head_write(&r->message, &(htc__kv_head){ .session = r->session, .client = 1, .sequence = 100 * r->serial, .count = count });
}

static void put(rig *r, const char *key)
{
    htc__kv_op_write(&r->message, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_PUT, .key = htc_bytes_of(key), .value = htc_bytes_of("v") });
}

/* How many operations were answered, the status of the last of them; SIZE_MAX: the connection is closed. */
static size_t asked(rig *r, htc_status *last)
{
    uint16_t            type;
    htc__kv_answer_head head;
    uint32_t            before = r->told[PEER];
    say(r, PEER);
    for (int i = 0; i < 9; i++)
        input(r, HTC_IN_TIMEOUT, 0, 0, (htc_bytes){ NULL, 0 });
    if (r->closed[PEER])
        return SIZE_MAX;
    HOLDS(r->told[PEER] == before + 1);
    htc_reader a = said(r, PEER, &type);
    htc__kv_answer_read(&a, &head);
    HOLDS(type == HTC_WIRE_KV_ANSWER && !(head.more & HTC__KV_MORE) && head.first == 0);
    for (uint32_t i = 0; i < head.count; i++) {
        htc_kv_result one = { .size = sizeof one };
        htc__kv_result_read(&a, &one);
        *last = one.status;
    }
    HOLDS(htc_reader_done(&a) == HTC_OK);
    return head.count;
}

/* An operation that nobody has yet, or a put with a flag that nobody has: whatever stands behind is its own affair. */
static void later(rig *r, int flag)
{
    htc_put_u8(&r->message, flag ? HTC_KV_PUT | HTC__KV_OP_EXTRAS : HTC_KV_CHANGE + 1);
    if (flag) {
        htc_put_varint(&r->message, UINT64_C(1) << flag);
        htc_put_varint(&r->message, 0);
    }
    htc_put_raw(&r->message, htc_bytes_of("\xff\xff\xff who knows"));
}

static int there(rig *r, const char *key)
{
    htc_status last = HTC_AGAIN;
    begin_request(r, 1);
    htc__kv_op_write(&r->message, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = htc_bytes_of(key) });
    HOLDS(asked(r, &last) == 1);
    return last == HTC_OK;
}

Test(kvs_versions, an_unknown_operation_is_answered)
{
    static const int flags[] = { 0, 10, 31, 40, 62 };
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        rig        r;
        htc_status last = HTC_AGAIN;
        open_rig(&r, 0, 0);
        begin_session(&r);
        begin_request(&r, 1);
        later(&r, flags[i]);
        cr_expect(asked(&r, &last) == 1 && last == HTC_EUNSUPPORTED, "flag %d", flags[i]);
        /* Behind others, which are carried out; it is to come again with what is behind it. */
        begin_request(&r, 4);
        put(&r, "a");
        put(&r, "b");
        later(&r, flags[i]);
        put(&r, "c");
        cr_expect(asked(&r, &last) == 2 && last == HTC_OK);
        begin_request(&r, 2);
        later(&r, flags[i]);
        put(&r, "c");
        cr_expect(asked(&r, &last) == 1 && last == HTC_EUNSUPPORTED);
        begin_request(&r, 1);
        put(&r, "c");
        cr_expect(asked(&r, &last) == 1 && last == HTC_OK);
        cr_expect(there(&r, "a") && there(&r, "b") && there(&r, "c") && !there(&r, "d"));
        close_rig(&r);
    }
}

/* More operations than are read ahead: the same. */
Test(kvs_versions, an_unknown_operation_behind_many_is_answered)
{
    enum { MANY = 40 };
    rig        r;
    char       key[8];
    htc_status last = HTC_AGAIN;
    open_rig(&r, 0, 0);
    begin_session(&r);
    begin_request(&r, MANY + 2);
    for (int i = 0; i < MANY; i++) {
        snprintf(key, sizeof key, "k%d", i);
        put(&r, key);
    }
    later(&r, 0);
    put(&r, "behind");
    cr_expect(asked(&r, &last) == MANY && last == HTC_OK);
    cr_expect(there(&r, "k0") && there(&r, "k39") && !there(&r, "behind"));
    close_rig(&r);
}

/* What no version would say ends the connection, and nothing of the message is done. */
Test(kvs_versions, a_broken_operation_is_not_answered)
{
    for (int how = 0; how < 4; how++) {
        rig        r;
        uint16_t   type;
        htc_status last = HTC_AGAIN;
        open_rig(&r, 0, 0);
        begin_session(&r);
        begin_request(&r, 2);
        put(&r, "a");
        if (how == 0) {
            htc_put_u8(&r.message, 0); /* no number of an operation */
        } else if (how == 1) {
            htc_put_u8(&r.message, HTC_KV_GET); /* cut off */
        } else if (how == 2) {
            htc_put_u8(&r.message, HTC_KV_GET | HTC__KV_OP_EXTRAS); /* a known flag where it has no place */
            htc_put_varint(&r.message, HTC_KV_NX);
            htc_put_varint(&r.message, 0);
            htc_put_bytes(&r.message, htc_bytes_of("a"));
        } else {
            htc_put_u8(&r.message, HTC_KV_PUT | HTC__KV_OP_EXTRAS); /* flags that do not end */
            for (int i = 0; i < 11; i++)
                htc_put_u8(&r.message, 0xff);
        }
        cr_expect(asked(&r, &last) == SIZE_MAX, "case %d", how);
        htc_reader e = said(&r, PEER, &type);
        htc_status why = (htc_status)(int32_t)htc_get_u32(&e);
        cr_expect(type == HTC_WIRE_ERROR && why == HTC_EPROTO);
        r.closed[PEER] = 0;
        begin_session(&r);
        int done = there(&r, "a");
        cr_expect(done == 0);
        close_rig(&r);
    }
}

/* ---------------------------------------------------------------- between members */

/* What the member answers to this item of the other one. */
static htc_status told_to_member(rig *r, uint8_t kind, uint8_t answer, htc_bytes item, uint64_t tag)
{
    uint16_t  type;
    htc_bytes found;
    uint8_t   its;
    htc__kv_members_begin(&r->message, ++r->serial, 12, 11);
    htc_put_u8(&r->message, kind);
    htc_put_bytes(&r->message, item);
    say(r, FROM);
    for (int i = 0; i < 9; i++)
        input(r, HTC_IN_TIMEOUT, 0, 0, (htc_bytes){ NULL, 0 });
    htc_reader m = said(r, OTHER, &type);
    if (type != HTC_WIRE_KV_MEMBERS)
        return HTC_EMPTY;
    htc_get_u64(&m);
    htc_get_u64(&m);
    while (htc__kv_members_next(&m, &its, &found)) {
        htc__kv_forwarded f;
        htc_kv_result     result = { .size = sizeof result };
        uint64_t          whose;
        if (its != answer)
            continue;
        if (kind == HTC__KV_ITEM_FORWARD) {
            HOLDS(htc__kv_forwarded_read(found, &f) == HTC_OK && f.tag == tag && f.to == 0);
            return f.result.status;
        }
        HOLDS(htc__kv_passed_read(found, &whose, &result) == HTC_OK && whose == tag);
        return result.status;
    }
    return HTC_EMPTY;
}

Test(kvs_versions, members_answer_what_they_do_not_know)
{
    for (uint8_t tried = 0; tried <= 1; tried++) {
        rig            r;
        size_t         more;
        htc_buf        item;
        htc_kv_request q = { .size = sizeof q, .op = HTC_KV_PUT, .key = htc_bytes_of("k"), .value = htc_bytes_of("v") };
        open_rig(&r, 1, 0);
        open_peer(&r, OTHER);
        HOLDS(greet(&r, FROM, HTC_WIRE_ROLE_STORE_MEMBER, HTC_WIRE_VERSION, &more) == HTC_WIRE_VERSION);
        htc_buf_init(&item, NULL, 0);
        htc__kv_forward_write(&item, &(htc__kv_forward){ .tag = 77, .tried = tried, .epoch = 1, .stamp = { .client = 9, .sequence = 1 }, .request = q });
        htc_buf whole = item;
        size_t  op = item.len - (1 + 1 + 1 + 1 + 1 + 1); /* number, key, no lease, value */
        HOLDS(whole.data[op] == HTC_KV_PUT);
        whole.data[op] = HTC_KV_CHANGE + 1;
        cr_expect(told_to_member(&r, HTC__KV_ITEM_FORWARD, HTC__KV_ITEM_ANSWER, htc_buf_bytes(&whole), 77) ==
                  (tried ? HTC_EUNKNOWN : HTC_EUNSUPPORTED));
        htc_buf_clear(&item);
        q.space = htc_bytes_of("e");
        htc__kv_pass_write(&item, &(htc__kv_pass){ .tag = 78, .stamp = { .client = 9, .sequence = 2 }, .request = q });
        op = 8 + 8 + 1;
        HOLDS(item.data[op] == (HTC_KV_PUT | HTC__KV_OP_EXTRAS) && item.data[op + 1] == HTC__KV_IN_SPACE);
        item.data[op] = (HTC_KV_CHANGE + 2) | HTC__KV_OP_EXTRAS;
        cr_expect(told_to_member(&r, HTC__KV_ITEM_PASS, HTC__KV_ITEM_PASSED, htc_buf_bytes(&item), 78) == HTC_EUNSUPPORTED);
        htc_buf_free(&item);
        close_rig(&r);
    }
}

/* ---------------------------------------------------------------- the client */

typedef struct asker {
    htc_kv_client *client;
    htc_output    *out;
    htc_buf        message;
    uint64_t       serial;
    uint32_t       hellos, requests;
    uint16_t       announced;
} asker;

static void watch(asker *a)
{
    htc_effect e;
    for (size_t i = 0; htc_output_get(a->out, i, &e) == HTC_OK; i++) {
        uint16_t   type;
        uint64_t   id;
        htc_reader r = htc_wire_open(e.body, &type, &id);
        if (e.kind != HTC_OUT_MESSAGE)
            continue;
        a->hellos += type == HTC_WIRE_HELLO;
        a->requests += type == HTC_WIRE_KV_REQUEST;
        a->serial = type == HTC_WIRE_KV_REQUEST ? id : a->serial;
        htc_get_u32(&r);
        a->announced = type == HTC_WIRE_HELLO ? htc_get_u16(&r) : a->announced;
    }
    htc_output_clear(a->out);
}

static void hears(asker *a, htc_ns now, uint32_t kind, htc_bytes body)
{
    htc_input in = { .size = sizeof in, .now = now, .kind = kind, .peer = 1, .body = body };
    HOLDS(htc_kv_client_step(a->client, &in, a->out) == HTC_OK);
    watch(a);
}

static void answer(asker *a, htc_ns now, int with, htc_status status)
{
    htc__kv_answer_begin(&a->message, a->serial, &(htc__kv_answer_head){ .session = 42 });
    if (with)
        htc__kv_result_write(&a->message, &(htc_kv_result){ .size = sizeof(htc_kv_result), .status = status });
    htc__kv_answer_end(&a->message, with != 0, 0);
    hears(a, now, HTC_IN_MESSAGE, htc_buf_bytes(&a->message));
}

static void begin_asking(asker *a, uint16_t speaks)
{
    htc_kv_client_options o = { .size = sizeof o, .client_id = 9, .peer = 1, .retry_ns = HTC_SECOND };
    *a = (asker){ .serial = 0 };
    HOLDS(htc_kv_client_create(NULL, &o, &a->client) == HTC_OK && htc_output_create(NULL, 0, &a->out) == HTC_OK);
    if (speaks)
        htc__kv_client_speak(a->client, speaks);
    htc_buf_init(&a->message, NULL, 0);
    hears(a, 1, HTC_IN_OPENED, (htc_bytes){ NULL, 0 });
}

static void end_asking(asker *a)
{
    htc_kv_client_destroy(a->client);
    htc_output_destroy(a->out);
    htc_buf_free(&a->message);
}

/* It announces what it is told to, and is not welcome with a number that it has not. */
Test(kvs_versions, a_client_announces_its_version)
{
    for (uint16_t speaks = HTC_WIRE_VERSION - 1; speaks <= HTC_WIRE_VERSION; speaks++)
        for (uint16_t said = 0; said <= HTC_WIRE_VERSION + 1; said++) {
            asker a;
            begin_asking(&a, speaks);
            cr_expect(eq(u16, a.announced, speaks));
            htc_wire_welcome(&a.message, 0, said);
            hears(&a, 2, HTC_IN_MESSAGE, htc_buf_bytes(&a.message));
            cr_expect(htc_kv_client_connected(a.client) == (said >= HTC_WIRE_VERSION_MIN && said <= speaks), "%u for %u", said, speaks);
            end_asking(&a);
        }
}

/* Of a version that it does not speak itself it reads nothing behind the number. */
Test(kvs_versions, a_client_of_version_one_is_told_no_owners)
{
    for (uint16_t speaks = HTC_WIRE_VERSION_OWNERS - 1; speaks <= HTC_WIRE_VERSION_OWNERS; speaks++) {
        asker a;
        begin_asking(&a, speaks);
        htc__kv_welcome(&a.message, 0, HTC_WIRE_VERSION_OWNERS - 1, 1, 11);
        cr_expect(eq(sz, a.message.len, 12));
        htc__kv_welcome(&a.message, 0, speaks, 1, 11);
        hears(&a, 2, HTC_IN_MESSAGE, htc_buf_bytes(&a.message));
        cr_expect(a.client->links[0].knows == (speaks >= HTC_WIRE_VERSION_OWNERS));
        end_asking(&a);
    }
}

/* A change that was sent once is not done; one that was sent twice may have been done by a member that knew it. */
Test(kvs_versions, a_repeated_change_that_is_not_known_may_be_done)
{
    static const struct {
        uint32_t   op;
        int        twice;
        htc_status status;
    } cases[] = { { HTC_KV_PUT, 0, HTC_EUNSUPPORTED }, { HTC_KV_PUT, 1, HTC_EUNKNOWN }, { HTC_KV_GET, 1, HTC_EUNSUPPORTED } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        asker          a;
        htc_kv_request q = { .size = sizeof q, .op = cases[i].op, .key = htc_bytes_of("k") };
        htc_kv_result  r = { .size = sizeof r, .status = HTC_AGAIN };
        begin_asking(&a, 0);
        htc_wire_welcome(&a.message, 0, HTC_WIRE_VERSION);
        hears(&a, 2, HTC_IN_MESSAGE, htc_buf_bytes(&a.message));
        answer(&a, 3, 0, HTC_OK);
        HOLDS(htc_kv_client_submit(a.client, 4, &q, 1, 7, a.out) == HTC_OK);
        watch(&a);
        uint32_t once = a.requests;
        if (cases[i].twice)
            hears(&a, 4 + 2 * HTC_SECOND, HTC_IN_TIMEOUT, (htc_bytes){ NULL, 0 });
        HOLDS(a.requests == once + (uint32_t)cases[i].twice);
        answer(&a, 5 + 2 * HTC_SECOND, 1, HTC_EUNSUPPORTED);
        HOLDS(htc_kv_client_next(a.client, &r) == 1);
        cr_expect(eq(int, r.status, cases[i].status), "case %zu", i);
        end_asking(&a);
    }
}

/* ---------------------------------------------------------------- a client that has seen too much */

static htc_status ask_since(rig *r, uint64_t since, uint32_t op)
{
    htc_status last = HTC_OK;
    htc_wire_begin(&r->message, HTC_WIRE_KV_REQUEST, ++r->serial);
    htc__kv_head_write(&r->message, &(htc__kv_head){ .session = r->session, .client = 1, .since = since, .sequence = 100 * r->serial, .count = 1 });
    htc__kv_op_write(&r->message, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = op, .key = htc_bytes_of("k"), .value = htc_bytes_of(op == HTC_KV_PUT ? "v" : "") });
    HOLDS(asked(r, &last) == 1);
    return last;
}

/* Every later change is above it: one near the end of all versions would be the last of the store. */
Test(kvs_versions, no_client_uses_the_versions_up)
{
    static const uint64_t lies[] = { UINT64_MAX, HTC__KV_SINCE_MAX + 1, HTC__KV_SINCE_MAX, HTC__KV_LEAP_MAX + 1 };
    rig                   r;
    open_rig(&r, 0, 0);
    begin_session(&r);
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        cr_expect(eq(int, ask_since(&r, lies[i], HTC_KV_PUT), HTC_EINVAL));
        cr_expect(eq(int, ask_since(&r, lies[i], HTC_KV_GET), HTC_ENOTFOUND));
    }
    cr_expect(eq(int, ask_since(&r, HTC__KV_LEAP_MAX, HTC_KV_PUT), HTC_OK)); /* perhaps seen before this member started */
    cr_expect(eq(int, ask_since(&r, 2 * HTC__KV_LEAP_MAX, HTC_KV_PUT), HTC_OK)); /* above that one */
    cr_expect(eq(int, ask_since(&r, HTC__KV_SINCE_MAX, HTC_KV_PUT), HTC_EINVAL));
    cr_expect(eq(int, ask_since(&r, 0, HTC_KV_GET), HTC_OK));
    close_rig(&r);
}
