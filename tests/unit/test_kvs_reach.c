/* What a connection may reach: a server over memory that asks for each who may have what, and clients of it. */
#include "expect.h"

#include <string.h>

#include "core/util.h"
#include "core/wire.h"
#include "htcsched/kv.h"
#include "htcsched/kv_engine.h"
#include "htcsched/kv_server.h"
#include "kvs/front/reach.h"

#define ANN   1001u /* reaches a/ and a2/ */
#define OWNER 1000u /* everything; who else comes is sent away */

static htc_rng        rng = { 7 };
static htc_env        env = { .size = sizeof env, .rng = &rng };
static htc_kv_engine  engine;
static htc_kv_server *server;
static htc_output    *from_server, *from_client;
static htc_ns         now = HTC_SECOND;
static uint32_t       closed;

static htc_status admit(void *ctx, htc_bytes opened, htc_kv_reach *reach)
{
    htc_peer_info who;
    (void)ctx;
    if (htc_peer_info_read(opened, &who) != HTC_OK || (who.uid != ANN && who.uid != OWNER))
        return HTC_EDENIED;
    reach->all = who.uid == OWNER;
    strcpy(reach->prefix[0], "a/");
    strcpy(reach->prefix[1], "a2/");
    reach->count = 2;
    return HTC_OK;
}

static void begin(void)
{
    htc_kv_server_options o = { .size = sizeof o, .admit = admit };
    cr_assert(eq(int, htc_kv_memory_create(NULL, &engine), HTC_OK));
    o.engine = engine;
    cr_assert(eq(int, htc_kv_server_create(&env, &o, &server), HTC_OK));
    cr_assert(eq(int, htc_output_create(NULL, 0, &from_server), HTC_OK));
    cr_assert(eq(int, htc_output_create(NULL, 0, &from_client), HTC_OK));
    htc_kv_server_ops()->step(server, &(htc_input){ .size = sizeof(htc_input), .now = now, .kind = HTC_IN_START }, from_server);
    closed = 0;
}

static void end(void)
{
    htc_kv_server_destroy(server);
    engine.ops->destroy(engine.ctx);
    htc_output_destroy(from_server);
    htc_output_destroy(from_client);
}

TestSuite(kvs_reach, .init = begin, .fini = end);

static void to_server(const htc_input *in, htc_kv_client *c)
{
    htc_effect e;
    htc_output_clear(from_server);
    cr_assert(eq(int, htc_kv_server_ops()->step(server, in, from_server), HTC_OK));
    for (size_t i = 0; htc_output_get(from_server, i, &e) == HTC_OK; i++) {
        if (e.kind == HTC_OUT_COMMIT) {
            htc_buf copy;
            htc_buf_init(&copy, NULL, 0);
            htc_status stored = engine.ops->apply(engine.ctx, e.body);
            to_server(&(htc_input){ .size = sizeof(htc_input), .now = now, .kind = HTC_IN_STORED, .tag = e.tag, .status = stored }, c);
            htc_buf_free(&copy);
            return; /* the effects before it were of that step alone */
        }
        if (e.kind == HTC_OUT_CLOSE)
            closed = e.peer;
        if (e.kind == HTC_OUT_MESSAGE)
            htc_kv_client_step(c, &(htc_input){ .size = sizeof(htc_input), .now = now, .kind = HTC_IN_MESSAGE, .peer = 1, .body = e.body }, from_client);
    }
}

/* What the client says until it says no more. */
static void carry(htc_kv_client *c, uint32_t peer)
{
    while (htc_output_count(from_client)) {
        htc_output *said = from_client;
        htc_effect  e;
        cr_assert(eq(int, htc_output_create(NULL, 0, &from_client), HTC_OK));
        for (size_t i = 0; htc_output_get(said, i, &e) == HTC_OK; i++)
            if (e.kind == HTC_OUT_MESSAGE)
                to_server(&(htc_input){ .size = sizeof(htc_input), .now = now, .kind = HTC_IN_MESSAGE, .peer = peer, .body = e.body }, c);
        htc_output_destroy(said);
    }
}

static htc_kv_client *connect_as(uint32_t uid, uint32_t peer)
{
    htc_kv_client_options o = { .size = sizeof o, .client_id = peer + 90, .peer = 1, .inflight_max = 16, .bytes_max = 1 << 20 };
    htc_kv_client        *c;
    htc_buf               b;
    htc_buf_init(&b, NULL, 0);
    cr_assert(eq(int, htc_kv_client_create(NULL, &o, &c), HTC_OK));
    htc_peer_info_write(&b, &(htc_peer_info){ .transport = HTC_TRANSPORT_UNIX, .uid = uid });
    to_server(&(htc_input){ .size = sizeof(htc_input), .now = now, .kind = HTC_IN_OPENED, .peer = peer, .body = htc_buf_bytes(&b) }, c);
    htc_kv_client_step(c, &(htc_input){ .size = sizeof(htc_input), .now = now, .kind = HTC_IN_OPENED, .peer = 1 }, from_client);
    carry(c, peer);
    htc_buf_free(&b);
    return c;
}

static htc_status ask(htc_kv_client *c, uint32_t peer, htc_kv_request q)
{
    htc_kv_result r = { .size = sizeof r, .status = HTC_EINTERNAL };
    q.size = sizeof q;
    cr_assert(eq(int, htc_kv_client_submit(c, now, &q, 1, 1, from_client), HTC_OK));
    carry(c, peer);
    return htc_kv_client_next(c, &r) ? r.status : HTC_AGAIN;
}

#define ASK(c, peer, ...) ask(c, peer, (htc_kv_request){ __VA_ARGS__ })
#define TEXT(t)           htc_bytes_of(t)

Test(kvs_reach, a_key_is_reached_by_whom_it_is_for)
{
    htc_kv_client *ann = connect_as(ANN, 5), *owner = connect_as(OWNER, 6);
    static const struct { const char *key; htc_status of_ann; } keys[] = {
        { "a/x", HTC_OK }, { "a2/x", HTC_OK }, { "a", HTC_EDENIED }, { "a1/x", HTC_EDENIED }, { "b/x", HTC_EDENIED }, { "A/x", HTC_EDENIED },
    };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        cr_expect(eq(int, ASK(owner, 6, .op = HTC_KV_PUT, .key = TEXT(keys[i].key), .value = TEXT("v")), HTC_OK));
        cr_expect(eq(int, ASK(ann, 5, .op = HTC_KV_GET, .key = TEXT(keys[i].key)), keys[i].of_ann), "get %s", keys[i].key);
        cr_expect(eq(int, ASK(ann, 5, .op = HTC_KV_PUT, .key = TEXT(keys[i].key), .value = TEXT("w")), keys[i].of_ann), "put %s", keys[i].key);
        cr_expect(eq(int, ASK(ann, 5, .op = HTC_KV_SCAN, .key = TEXT(keys[i].key)), keys[i].of_ann), "scan %s", keys[i].key);
        cr_expect(eq(int, ASK(ann, 5, .op = HTC_KV_DELETE, .key = TEXT(keys[i].key)), keys[i].of_ann), "delete %s", keys[i].key);
    }
    /* What others have is as it was: nothing of what was refused was done. */
    cr_expect(eq(int, ASK(owner, 6, .op = HTC_KV_CAS_VALUE, .key = TEXT("b/x"), .seen = TEXT("v"), .value = TEXT("z")), HTC_OK));
    htc_kv_client_destroy(ann);
    htc_kv_client_destroy(owner);
}

/* Each operation there is, with a key and without. What looks at all of the store, or at who keeps it, is not for it. */
Test(kvs_reach, nothing_else_is_reached)
{
    htc_kv_reach reach = { .count = 1, .prefix = { "a/" } };
    for (uint32_t op = HTC_KV_GET; op <= HTC_KV_CHANGE + 3; op++) {
        htc_kv_request q = { .size = sizeof q, .op = op, .key = TEXT("a/x") };
        int            lease = op == HTC_KV_LEASE_GRANT || op == HTC_KV_LEASE_RENEW || op == HTC_KV_LEASE_REVOKE, on_key = op <= HTC_KV_SCAN;
        cr_expect(eq(int, htc__kv_reach_allows(&reach, &q), on_key || lease), "operation %u", op);
        q.key = (htc_bytes){ NULL, 0 };
        cr_expect(eq(int, htc__kv_reach_allows(&reach, &q), lease), "operation %u without a key", op);
        q.key = TEXT("a/x");
        q.space = TEXT("other");
        cr_expect(eq(int, htc__kv_reach_allows(&reach, &q), lease), "operation %u in a namespace", op);
    }
    htc_kv_request scan = { .size = sizeof scan, .op = HTC_KV_SCAN, .key = TEXT("a/"), .flags = HTC_KV_PLACES };
    cr_expect(eq(int, htc__kv_reach_allows(&reach, &scan), 0));
    scan.flags = HTC_KV_EVENTUAL;
    cr_expect(eq(int, htc__kv_reach_allows(&reach, &scan), 0));
    htc_kv_reach none = { 0 };
    scan.flags = 0;
    cr_expect(eq(int, htc__kv_reach_allows(&none, &scan), 0));
    htc_kv_reach empty = { .count = 1 }; /* a prefix of nothing is none */
    cr_expect(eq(int, htc__kv_reach_allows(&empty, &scan), 0));
}

Test(kvs_reach, who_is_not_known_is_sent_away)
{
    htc_kv_client *other = connect_as(4711, 7);
    cr_expect(eq(u32, closed, 7));
    cr_expect(eq(int, ASK(other, 7, .op = HTC_KV_GET, .key = TEXT("a/x")), HTC_AGAIN), "it is answered");
    htc_kv_client_destroy(other);
}

static void watch(htc_kv_client *c, uint32_t peer, uint64_t tag, const char *key, uint32_t prefix)
{
    htc_kv_watch w = { .size = sizeof w, .tag = tag, .key = TEXT(key), .prefix = prefix };
    cr_assert(eq(int, htc_kv_client_watch(c, now, &w, from_client), HTC_OK));
    carry(c, peer);
}

Test(kvs_reach, watches_are_bound_too)
{
    static const struct { const char *key; uint32_t prefix; } beyond[] = { { "b/x", 0 }, { "b/", 1 }, { "a", 1 }, { "", 1 } };
    htc_kv_client *ann = connect_as(ANN, 5);
    watch(ann, 5, 1, "a/x", 0);
    watch(ann, 5, 2, "a2/", 1);
    cr_assert(eq(int, htc_kv_client_unwatch(ann, now, 1, from_client), HTC_OK));
    carry(ann, 5);
    cr_expect(eq(u32, closed, 0));
    htc_kv_client_destroy(ann);
    for (uint32_t i = 0; i < sizeof beyond / sizeof *beyond; i++) {
        ann = connect_as(ANN, 10 + i);
        watch(ann, 10 + i, 3, beyond[i].key, beyond[i].prefix);
        cr_expect(eq(u32, closed, 10 + i), "\"%s\" is watched", beyond[i].key);
        htc_kv_client_destroy(ann);
    }
}
