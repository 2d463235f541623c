/* Keys with an end of their own, asked for at the backend as a face asks, against a plain model. */
#include "expect.h"
#include <stdio.h>
#include <string.h>

#include "kvs/server/server.h"
#include "property.h"

#define KEYS 5

typedef struct member {
    htc_rng        rng;
    htc_env        env;
    htc_kv_engine  engine;
    htc_kv_server *server;
    htc_output    *out;
    htc_ns         now;
    htc_status     disk; /* what the next commits say */
    htc_kv_result  answer;
    int            answers;
} member;

static void step(member *m, htc_input in)
{
    htc_effect e;
    in.now = m->now;
    HOLDS(htc_kv_server_ops()->step(m->server, &in, m->out) == HTC_OK);
    htc_input stored = { .size = sizeof stored };
    for (size_t i = 0; htc_output_get(m->out, i, &e) == HTC_OK; i++) {
        HOLDS(e.kind == HTC_OUT_COMMIT && !stored.kind);
        stored = (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_STORED, .tag = e.tag, .status = m->disk };
        if (m->disk == HTC_OK)
            HOLDS(m->engine.ops->apply(m->engine.ctx, e.body) == HTC_OK);
    }
    htc_output_clear(m->out);
    if (stored.kind)
        step(m, stored);
}

static void start(member *m)
{
    htc_kv_server_options o = { .size = sizeof o, .engine = m->engine };
    cr_assert(eq(int, htc_kv_server_create(&m->env, &o, &m->server), HTC_OK));
    step(m, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_START });
}

static void open_member(member *m, uint64_t seed)
{
    *m = (member){ .rng = { seed } };
    m->env = (htc_env){ .size = sizeof m->env, .rng = &m->rng };
    cr_assert(eq(int, htc_kv_memory_create(NULL, &m->engine), HTC_OK));
    cr_assert(eq(int, htc_output_create(NULL, 0, &m->out), HTC_OK));
    start(m);
}

static void close_member(member *m)
{
    htc_kv_server_destroy(m->server);
    m->engine.ops->destroy(m->engine.ctx);
    htc_output_destroy(m->out);
}

static void answered(void *ctx, uint64_t conn, uint64_t slot, const htc_kv_result *result)
{
    member *m = ctx;
    HOLDS(conn == 3 && slot == 4);
    m->answer = *result;
    m->answers++;
}

/* The status of the answer; its bytes are gone by then. */
static htc_status ask(member *m, htc_kv_request q)
{
    static const htc__kv_stamp nobody = { 0 };
    htc__kv_face               face = { .answer = answered, .ctx = m };
    htc__kv_backend            backend = htc__kv_backend_of(m->server);
    m->answers = 0;
    m->server->now = m->now;
    int at_once = backend.ask(backend.ctx, &q, &nobody, &face, 3, 4, &m->answer);
    HOLDS(m->answers == 0);
    step(m, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_TIMEOUT });
    HOLDS(m->answers == !at_once);
    return m->answer.status;
}

static htc_bytes key_of(int k)
{
    static const char *const names[KEYS] = { "a", "b", "c", "d", "e" };
    return htc_bytes_of(names[k]);
}

typedef struct model {
    int    there;
    htc_ns ttl, end; /* ttl 0: none */
} model;

static void some_change(member *m, model *x, int k, htc_rng *rng)
{
    htc_ns         ttl = (1 + htc_rng_below(rng, 50)) * HTC_MS;
    htc_kv_request q = { .size = sizeof q, .op = HTC_KV_PUT, .key = key_of(k), .value = htc_bytes_of("1") };
    htc_status     expected = HTC_OK;
    switch (htc_rng_below(rng, 7)) {
    case 0:
        q.op = HTC_KV_DELETE;
        expected = x->there ? HTC_OK : HTC_ENOTFOUND;
        x->there = 0;
        break;
    case 1:
        *x = (model){ .there = 1 };
        break;
    case 2:
        q.flags = HTC_KV_KEEP_TTL;
        x->ttl = x->there ? x->ttl : 0;
        x->there = 1;
        break;
    case 3:
        q.op = HTC_KV_ADD;
        q.delta = 1;
        x->ttl = x->there ? x->ttl : 0;
        x->there = 1;
        break;
    case 4:
        q.flags = HTC_KV_TOUCH;
        q.value = htc_bytes_of("");
        q.ttl = ttl;
        expected = x->there ? HTC_OK : HTC_ENOTFOUND;
        if (x->there)
            *x = (model){ 1, ttl, m->now + ttl };
        break;
    default:
        q.ttl = ttl;
        *x = (model){ 1, ttl, m->now + ttl };
    }
    HOLDS(ask(m, q) == expected);
}

/* There until its end and not a moment longer, whatever the wheel has carried out by then; the full ttl anew after a restart. */
Test(kvs_ttl, a_key_lives_until_its_end)
{
    PROPERTY(rng, 300)
    {
        member m;
        model  x[KEYS] = { { 0 } };
        open_member(&m, property_seed);
        for (int i = 0; i < 200; i++) {
            uint64_t what = htc_rng_below(&rng, 20);
            if (what < 8) {
                int k = (int)htc_rng_below(&rng, KEYS);
                some_change(&m, &x[k], k, &rng);
            } else if (what < 14) {
                m.now += htc_rng_below(&rng, 12 * HTC_MS);
            } else if (what < 19) {
                htc_ns next = htc_kv_server_ops()->deadline(m.server);
                m.now = next != HTC_NEVER && next > m.now ? next : m.now;
                step(&m, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_TIMEOUT });
            } else {
                htc_kv_server_destroy(m.server);
                start(&m);
                for (int k = 0; k < KEYS; k++)
                    x[k].end = x[k].there && x[k].ttl && x[k].end > m.now ? m.now + x[k].ttl : x[k].end;
            }
            uint64_t keys = 0;
            for (int k = 0; k < KEYS; k++) {
                if (x[k].there && x[k].ttl && x[k].end <= m.now)
                    x[k].there = 0;
                HOLDS(ask(&m, (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = key_of(k) }) ==
                      (x[k].there ? HTC_OK : HTC_ENOTFOUND));
                HOLDS(m.answer.ttl == (x[k].there && x[k].ttl ? x[k].end - m.now : 0));
                keys += (uint64_t)x[k].there;
            }
            HOLDS(ask(&m, (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_COUNT }) == HTC_OK && (uint64_t)m.answer.number == keys);
        }
        close_member(&m);
    }
}

/* Nobody asks, and they go all the same: what has ended takes no memory but a tombstone, in steps of bounded work. */
Test(kvs_ttl, what_has_ended_is_removed)
{
    member m;
    char   key[8];
    int    steps = 0;
    open_member(&m, 1);
    for (int i = 0; i < 1000; i++) {
        snprintf(key, sizeof key, "%d", i);
        htc_kv_request q = { .size = sizeof q, .op = HTC_KV_PUT, .key = htc_bytes_of(key), .ttl = HTC_SECOND };
        cr_assert(eq(int, ask(&m, q), HTC_OK));
    }
    cr_expect(eq(u64, m.server->wheel.count, 1000));
    for (htc_ns next; (next = htc_kv_server_ops()->deadline(m.server)) != HTC_NEVER; steps++) {
        m.now = next > m.now ? next : m.now;
        step(&m, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_TIMEOUT });
    }
    cr_expect(m.now >= HTC_SECOND && m.now <= HTC_SECOND + HTC_MS);
    cr_expect(steps > 10 && steps < 100, "%d", steps);
    cr_expect(eq(sz, m.server->ends.count, 0));
    cr_expect(eq(sz, m.server->tombstones, 1000));
    close_member(&m);
}

/* The disk is full when ends come: they are carried out once it is not, and nobody sees the keys meanwhile. */
Test(kvs_ttl, a_full_disk_delays_the_removal_only)
{
    member m;
    open_member(&m, 1);
    cr_assert(eq(int, ask(&m, (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_PUT, .key = key_of(0), .ttl = HTC_SECOND }), HTC_OK));
    m.disk = HTC_ENOSPC;
    cr_expect(eq(int, ask(&m, (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_PUT, .key = key_of(0) }), HTC_ENOSPC));
    cr_expect(eq(int, ask(&m, (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_PUT, .key = key_of(1), .ttl = HTC_SECOND }), HTC_ENOSPC));
    cr_expect(eq(sz, m.server->ends.count, 1), "undone, and as before");
    m.now = 2 * HTC_SECOND;
    for (int i = 0; i < 5; i++) {
        m.now += HTC_SECOND;
        step(&m, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_TIMEOUT });
        cr_expect(eq(int, ask(&m, (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = key_of(0) }), HTC_ENOTFOUND));
        m.disk = i < 3 ? HTC_ENOSPC : HTC_OK;
    }
    cr_expect(eq(sz, m.server->ends.count, 0));
    cr_expect(eq(sz, m.server->tombstones, 1));
    close_member(&m);
}
