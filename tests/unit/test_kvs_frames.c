/* Messages that came together are the same as each by itself: two members, one seed, the same frames, cut differently. */
#include "expect.h"
#include <string.h>

#include "core/wire.h"
#include "htcsched/kv_server.h"
#include "kvs/wire/kv_wire.h"
#include "property.h"

#define PEERS 3
#define KEYS  40

typedef struct rig {
    htc_rng        rng;
    htc_env        env;
    htc_kv_engine  engine; /* ops NULL: everything is answered at once */
    htc_kv_server *server;
    htc_output    *out;
    htc_ns         now;
    htc_buf        said; /* peer, what (message 1, closed 2), bytes; in order */
    int            closed[PEERS + 1];
    uint64_t       session[PEERS + 1], commit, left;
    int            committing;
    size_t         frames, cuts; /* HTC_OUT_FRAMES and HTC_OUT_LEFT seen */
} rig;

static void note(rig *r, uint32_t peer, uint8_t what, htc_bytes bytes)
{
    uint16_t            type;
    uint64_t            id;
    htc__kv_answer_head head;
    htc_put_u32(&r->said, peer);
    htc_put_u8(&r->said, what);
    htc_put_bytes(&r->said, bytes);
    htc_reader m = htc_wire_open(bytes, &type, &id);
    if (what == 1 && m.status == HTC_OK && type == HTC_WIRE_KV_ANSWER) {
        htc__kv_answer_read(&m, &head);
        r->session[peer] = head.session;
    }
    r->closed[peer] |= what == 2;
}

static void collect(rig *r)
{
    htc_effect e;
    r->left = 0;
    for (size_t i = 0; htc_output_get(r->out, i, &e) == HTC_OK; i++) {
        htc_reader f = htc_reader_of(e.body);
        switch (e.kind) {
        case HTC_OUT_MESSAGE:
            note(r, e.peer, 1, e.body);
            break;
        case HTC_OUT_FRAMES:
            r->frames++;
            while (htc_reader_left(&f))
                note(r, e.peer, 1, htc_get_raw(&f, htc_get_u32(&f)));
            HOLDS(f.status == HTC_OK);
            break;
        case HTC_OUT_LEFT:
            r->cuts++;
            r->left = e.tag;
            break;
        case HTC_OUT_CLOSE:
            note(r, e.peer, 2, (htc_bytes){ NULL, 0 });
            break;
        case HTC_OUT_COMMIT:
            HOLDS(r->engine.ops->apply(r->engine.ctx, e.body) == HTC_OK);
            r->commit = e.tag;
            r->committing = 1;
            break;
        default:
            HOLDS(0);
        }
    }
    htc_output_clear(r->out);
}

static void input(rig *r, uint32_t kind, uint32_t peer, uint64_t tag, htc_bytes body)
{
    htc_input in = { .size = sizeof in, .now = r->now, .wall = r->now, .kind = kind, .peer = peer, .tag = tag, .body = body };
    HOLDS(htc_kv_server_ops()->step(r->server, &in, r->out) == HTC_OK);
    collect(r);
}

static void turn(rig *r)
{
    if (r->committing) {
        r->committing = 0;
        input(r, HTC_IN_STORED, 0, r->commit, (htc_bytes){ NULL, 0 });
    }
    if (htc_kv_server_ops()->deadline(r->server) <= r->now)
        input(r, HTC_IN_TIMEOUT, 0, 0, (htc_bytes){ NULL, 0 });
    input(r, HTC_IN_TURN, 0, 0, (htc_bytes){ NULL, 0 });
}

static void make(rig *r, uint64_t seed, int stored)
{
    *r = (rig){ .rng = { seed }, .now = HTC_SECOND };
    r->env = (htc_env){ .size = sizeof r->env, .rng = &r->rng };
    htc_buf_init(&r->said, NULL, (size_t)256 << 20);
    if (stored)
        HOLDS(htc_kv_memory_create(&r->env, &r->engine) == HTC_OK);
    htc_kv_server_options o = { .size = sizeof o, .engine = r->engine, .inflight_max = 8 };
    HOLDS(htc_kv_server_create(&r->env, &o, &r->server) == HTC_OK && htc_output_create(NULL, 0, &r->out) == HTC_OK);
    input(r, HTC_IN_START, 0, 0, (htc_bytes){ NULL, 0 });
    turn(r);
}

static void open_one(rig *r, uint32_t peer)
{
    htc_buf body;
    htc_buf_init(&body, NULL, 0);
    htc_peer_info_write(&body, &(htc_peer_info){ .port = 1 });
    r->closed[peer] = 0;
    input(r, HTC_IN_OPENED, peer, 0, htc_buf_bytes(&body));
    htc_buf_free(&body);
}

static void end(rig *r)
{
    htc_kv_server_destroy(r->server);
    htc_output_destroy(r->out);
    htc_buf_free(&r->said);
    if (r->engine.ops)
        r->engine.ops->destroy(r->engine.ctx);
}

/* As drivers do that know nothing of frames. */
static void one_by_one(rig *r, uint32_t peer, htc_bytes frames)
{
    htc_reader f = htc_reader_of(frames);
    while (htc_reader_left(&f) && !r->closed[peer])
        input(r, HTC_IN_MESSAGE, peer, 0, htc_get_raw(&f, htc_get_u32(&f)));
}

static void together(rig *r, uint32_t peer, htc_bytes frames)
{
    while (frames.len && !r->closed[peer]) {
        input(r, HTC_IN_FRAMES, peer, 0, frames);
        HOLDS(r->left < frames.len);
        frames = (htc_bytes){ (const uint8_t *)frames.data + (frames.len - r->left), r->left };
    }
}

/* ---------------------------------------------------------------- what is said */

static void random_op(htc_buf *b, htc_rng *rng, char *value, size_t longest, char key[4])
{
    htc_kv_request q = { .size = sizeof q, .op = (uint32_t[]){ HTC_KV_GET, HTC_KV_GET, HTC_KV_PUT, HTC_KV_CAS_VERSION, HTC_KV_ADD, HTC_KV_APPEND,
                                             HTC_KV_DELETE, HTC_KV_SCAN, HTC_KV_COUNT }[htc_rng_below(rng, 9)] };
    snprintf(key, 4, "%c%02u", q.op == HTC_KV_ADD ? 'n' : 'k', (unsigned)htc_rng_below(rng, KEYS));
    if (q.op != HTC_KV_COUNT)
        q.key = (htc_bytes){ key, 3 };
    if (q.op == HTC_KV_SCAN)
        q.key.len = htc_rng_below(rng, 3);
    if (q.op == HTC_KV_PUT || q.op == HTC_KV_CAS_VERSION || q.op == HTC_KV_APPEND)
        q.value = (htc_bytes){ value, htc_rng_below(rng, 20) ? htc_rng_below(rng, 200) : htc_rng_below(rng, longest) };
    q.delta = q.op == HTC_KV_ADD;
    htc__kv_op_write(b, &q);
}

static void random_frame(htc_buf *b, htc_rng *rng, const rig *r, uint32_t peer, uint64_t *serial, char *value)
{
    size_t   at = b->len;
    uint32_t kind = (uint32_t)htc_rng_below(rng, 100);
    char     key[4];
    htc_put_u32(b, 0);
    htc_put_u16(b, kind == 0 ? 77 : kind == 1 ? HTC_WIRE_HELLO : HTC_WIRE_KV_REQUEST);
    htc_put_u64(b, kind == 2 ? *serial : ++*serial);
    if (kind == 1) {
        htc_put_u32(b, HTC_WIRE_MAGIC);
        htc_put_u16(b, HTC_WIRE_VERSION);
        htc_put_u8(b, HTC_WIRE_ROLE_STORE_CLIENT);
    } else {
        size_t count = kind < 70 ? 1 : htc_rng_below(rng, kind < 95 ? 6 : 40);
        htc__kv_head_write(b, &(htc__kv_head){ .session = r->session[peer] + (kind == 3),
                                               .client = peer,
                                               .since = 1,
                                               .sequence = *serial * 64,
                                               .flags = kind == 4 ? HTC__KV_REPEATED : 0,
                                               .count = count });
        for (size_t i = 0; i < count; i++)
            random_op(b, rng, value, 300000, key);
        if (kind == 5)
            htc_put_u8(b, 1); /* more than a request */
    }
    htc_patch_u32(b, at, (uint32_t)(b->len - at - 4));
}

static void greet(rig *one, rig *all, uint32_t peer)
{
    htc_buf b;
    htc_buf_init(&b, NULL, 0);
    htc_wire_hello(&b, HTC_WIRE_ROLE_STORE_CLIENT, HTC_WIRE_VERSION);
    open_one(one, peer);
    open_one(all, peer);
    input(one, HTC_IN_MESSAGE, peer, 0, htc_buf_bytes(&b));
    input(all, HTC_IN_MESSAGE, peer, 0, htc_buf_bytes(&b));
    htc_wire_begin(&b, HTC_WIRE_KV_REQUEST, 0);
    htc__kv_head_write(&b, &(htc__kv_head){ .client = peer });
    input(one, HTC_IN_MESSAGE, peer, 0, htc_buf_bytes(&b));
    input(all, HTC_IN_MESSAGE, peer, 0, htc_buf_bytes(&b));
    htc_buf_free(&b);
}

Test(kvs_frames, are_the_same_as_each_by_itself)
{
    static char value[300000];
    size_t      gathered = 0, cut = 0;
    memset(value, 'v', sizeof value);
    PROPERTY(rng, 40)
    {
        rig      one, all;
        htc_buf  b;
        uint64_t serial = 0, seed = htc_rng_next(&rng);
        htc_buf_init(&b, NULL, (size_t)256 << 20);
        make(&one, seed, property_at % 2);
        make(&all, seed, property_at % 2);
        for (int round = 0; round < 30; round++) {
            for (uint32_t peer = 1; peer <= PEERS; peer++) {
                if (round == 0 || one.closed[peer])
                    greet(&one, &all, peer);
                htc_buf_clear(&b);
                for (uint64_t n = htc_rng_below(&rng, 60); n > 0; n--)
                    random_frame(&b, &rng, &one, peer, &serial, value);
                one_by_one(&one, peer, htc_buf_bytes(&b));
                together(&all, peer, htc_buf_bytes(&b));
            }
            one.now = all.now += HTC_MS;
            turn(&one);
            turn(&all);
            HOLDS(htc_bytes_equal(htc_buf_bytes(&one.said), htc_buf_bytes(&all.said)));
            htc_buf_clear(&one.said);
            htc_buf_clear(&all.said);
        }
        gathered += all.frames;
        cut += all.cuts;
        htc_buf_free(&b);
        end(&one);
        end(&all);
    }
    cr_expect(gathered > property_times(1000) && cut > property_times(10), "%zu, %zu", gathered, cut);
    printf("# %zu times answers left together, %zu times frames were left\n", gathered, cut);
}

/* A put of one key. 1: a commit was asked for by it, which is durable now. */
static int commits(rig *r, uint64_t serial)
{
    htc_buf b;
    htc_buf_init(&b, NULL, 0);
    htc_wire_begin(&b, HTC_WIRE_KV_REQUEST, serial);
    htc__kv_head_write(&b, &(htc__kv_head){ .session = r->session[1], .client = 1, .since = 1, .sequence = serial * 64, .count = 1 });
    htc__kv_op_write(&b, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_PUT, .key = htc_bytes_of("k"), .value = htc_bytes_of("v") });
    input(r, HTC_IN_MESSAGE, 1, 0, htc_buf_bytes(&b));
    htc_buf_free(&b);
    return r->committing;
}

static void commit_is_stored(rig *r)
{
    size_t before = r->said.len;
    r->committing = 0;
    input(r, HTC_IN_STORED, 0, r->commit, (htc_bytes){ NULL, 0 });
    input(r, HTC_IN_TIMEOUT, 0, 0, (htc_bytes){ NULL, 0 });
    HOLDS(r->said.len > before);
}

/* htcsched/machine.h: a driver that hands over no turn gets a commit with the step that asks for it, and the first turn decides for good. */
Test(kvs_frames, the_first_turn_decides_for_good)
{
    rig     r = { .rng = { 1 }, .now = HTC_SECOND };
    htc_buf b;
    r.env = (htc_env){ .size = sizeof r.env, .rng = &r.rng };
    htc_buf_init(&r.said, NULL, 0);
    htc_buf_init(&b, NULL, 0);
    HOLDS(htc_kv_memory_create(&r.env, &r.engine) == HTC_OK);
    HOLDS(htc_kv_server_create(&r.env, &(htc_kv_server_options){ .size = sizeof(htc_kv_server_options), .engine = r.engine }, &r.server) == HTC_OK);
    HOLDS(htc_output_create(NULL, 0, &r.out) == HTC_OK);
    input(&r, HTC_IN_START, 0, 0, (htc_bytes){ NULL, 0 });
    open_one(&r, 1);
    htc_wire_hello(&b, HTC_WIRE_ROLE_STORE_CLIENT, HTC_WIRE_VERSION);
    input(&r, HTC_IN_MESSAGE, 1, 0, htc_buf_bytes(&b));
    htc_wire_begin(&b, HTC_WIRE_KV_REQUEST, 0);
    htc__kv_head_write(&b, &(htc__kv_head){ .client = 1 });
    input(&r, HTC_IN_MESSAGE, 1, 0, htc_buf_bytes(&b));
    HOLDS(r.session[1] != 0);
    for (uint64_t serial = 1; serial < 4; serial++) {
        HOLDS(commits(&r, serial));
        commit_is_stored(&r);
    }
    input(&r, HTC_IN_TURN, 0, 0, (htc_bytes){ NULL, 0 });
    for (uint64_t serial = 4; serial < 7; serial++) {
        HOLDS(!commits(&r, serial));
        input(&r, HTC_IN_TURN, 0, 0, (htc_bytes){ NULL, 0 });
        HOLDS(r.committing);
        r.committing = 0;
        input(&r, HTC_IN_STORED, 0, r.commit, (htc_bytes){ NULL, 0 });
        input(&r, HTC_IN_TURN, 0, 0, (htc_bytes){ NULL, 0 });
    }
    htc_buf_free(&b);
    end(&r);
}

/* ---------------------------------------------------------------- packs of a proxy */

static void greet_as(rig *r, uint32_t peer, uint8_t role)
{
    htc_buf b;
    htc_buf_init(&b, NULL, 0);
    open_one(r, peer);
    htc_wire_hello(&b, role, HTC_WIRE_VERSION);
    input(r, HTC_IN_MESSAGE, peer, 0, htc_buf_bytes(&b));
    htc_wire_begin(&b, HTC_WIRE_KV_REQUEST, 0);
    htc__kv_head_write(&b, &(htc__kv_head){ .client = peer });
    input(r, HTC_IN_MESSAGE, peer, 0, htc_buf_bytes(&b));
    htc_buf_free(&b);
}

/* What a KV_PACK has of a request of some client; now and then with an operation that is not known here. */
static void random_packed(htc_buf *b, htc_rng *rng, uint64_t sequence, char *value)
{
    char   key[4];
    size_t count = htc_rng_below(rng, 10) ? 1 : htc_rng_below(rng, 40);
    int    strange = count > 0 && htc_rng_below(rng, 30) == 0;
    htc_buf_clear(b);
    htc__kv_head_write_packed(b, &(htc__kv_head){ .client = 1 + htc_rng_below(rng, 50),
                                                  .since = 1,
                                                  .flags = htc_rng_below(rng, 20) == 0 ? HTC__KV_REPEATED : 0,
                                                  .sequence = sequence,
                                                  .count = count + (size_t)strange });
    for (size_t i = 0; i < count; i++)
        random_op(b, rng, value, 300, key);
    if (strange)
        htc_put_u8(b, HTC_KV_CHANGE + 1);
}

Test(kvs_frames, a_pack_is_the_same_as_each_by_itself)
{
    static char value[300];
    size_t      answers = 0;
    memset(value, 'v', sizeof value);
    PROPERTY(rng, 40)
    {
        rig      one, all;
        htc_buf  b, packed, message;
        uint64_t serial = 1, seed = htc_rng_next(&rng);
        htc_buf_init(&b, NULL, (size_t)256 << 20);
        htc_buf_init(&packed, NULL, (size_t)256 << 20);
        htc_buf_init(&message, NULL, (size_t)256 << 20);
        make(&one, seed, property_at % 2);
        make(&all, seed, property_at % 2);
        greet_as(&one, 1, HTC_WIRE_ROLE_STORE_PROXY);
        greet_as(&all, 1, HTC_WIRE_ROLE_STORE_PROXY);
        for (int round = 0; round < 30; round++) {
            uint64_t session = one.session[1] + (htc_rng_below(&rng, 20) == 0);
            htc__kv_pack_begin(&packed, serial, session);
            for (uint64_t n = 1 + htc_rng_below(&rng, 40); n > 0 && packed.len < 2000000; n--, serial++) {
                random_packed(&b, &rng, serial * 64, value);
                htc_put_bytes(&packed, htc_buf_bytes(&b));
                htc_wire_begin(&message, HTC_WIRE_KV_REQUEST, serial);
                htc_put_u64(&message, session);
                htc_put_raw(&message, htc_buf_bytes(&b));
                input(&one, HTC_IN_MESSAGE, 1, 0, htc_buf_bytes(&message));
            }
            input(&all, HTC_IN_MESSAGE, 1, 0, htc_buf_bytes(&packed));
            one.now = all.now += HTC_MS;
            turn(&one);
            turn(&all);
            HOLDS(!one.closed[1] && htc_bytes_equal(htc_buf_bytes(&one.said), htc_buf_bytes(&all.said)));
            answers += all.said.len;
            htc_buf_clear(&one.said);
            htc_buf_clear(&all.said);
        }
        htc_buf_free(&b);
        htc_buf_free(&packed);
        htc_buf_free(&message);
        end(&one);
        end(&all);
    }
    cr_expect(answers > property_times(100000), "%zu", answers);
}

/* One broken request: nothing of the pack is done, and its sender is closed. So is whoever sends a pack and has not greeted as a proxy, or an empty one. */
Test(kvs_frames, a_broken_pack_changes_nothing)
{
    for (int how = 0; how < 4; how++) {
        rig     r;
        htc_buf b, packed;
        htc_buf_init(&b, NULL, 0);
        htc_buf_init(&packed, NULL, 0);
        make(&r, 1, 0);
        greet_as(&r, 1, how == 0 ? HTC_WIRE_ROLE_STORE_CLIENT : HTC_WIRE_ROLE_STORE_PROXY);
        greet_as(&r, 2, HTC_WIRE_ROLE_STORE_CLIENT);
        htc__kv_pack_begin(&packed, 1, r.session[1]);
        htc__kv_head_write_packed(&b, &(htc__kv_head){ .client = 7, .sequence = 1, .count = 1 });
        htc__kv_op_write(&b, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_PUT, .key = htc_bytes_of("k"), .value = htc_bytes_of("v") });
        if (how != 2)
            htc_put_bytes(&packed, htc_buf_bytes(&b));
        htc_put_u8(&b, 1); /* more than a request */
        if (how == 1)
            htc_put_bytes(&packed, htc_buf_bytes(&b));
        if (how == 3)
            htc_put_u8(&packed, 5); /* so many bytes, which are not there */
        input(&r, HTC_IN_MESSAGE, 1, 0, htc_buf_bytes(&packed));
        turn(&r);
        cr_expect(r.closed[1] && !r.closed[2], "%d", how);
        htc_wire_begin(&b, HTC_WIRE_KV_REQUEST, 1);
        htc__kv_head_write(&b, &(htc__kv_head){ .session = r.session[2], .client = 9, .sequence = 1, .count = 1 });
        htc__kv_op_write(&b, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = htc_bytes_of("k") });
        htc_buf_clear(&r.said);
        input(&r, HTC_IN_MESSAGE, 2, 0, htc_buf_bytes(&b));
        turn(&r);
        htc_kv_result result = { .size = sizeof result };
        htc_reader    said = htc_reader_of(htc_buf_bytes(&r.said)), answer;
        htc_get_u32(&said);
        htc_get_u8(&said);
        answer = htc_reader_of(htc_get_bytes(&said));
        htc_get_raw(&answer, HTC__KV_ANSWER_HEAD);
        htc__kv_result_read(&answer, &result);
        cr_expect(htc_reader_done(&answer) == HTC_OK && result.status == HTC_ENOTFOUND, "%d: %d", how, result.status);
        htc_buf_free(&b);
        htc_buf_free(&packed);
        end(&r);
    }
}

/* Of long values no more are answered at once than a step has room for; the rest is to be asked for again. */
Test(kvs_frames, a_pack_of_long_reads_is_answered_in_part)
{
    static char         value[1 << 20];
    rig                 r;
    htc_buf             b, packed;
    htc__kv_answer_head head;
    size_t              whole = 0, again = 0;
    htc_buf_init(&b, NULL, 0);
    htc_buf_init(&packed, NULL, 0);
    make(&r, 1, 0);
    greet_as(&r, 1, HTC_WIRE_ROLE_STORE_PROXY);
    htc_wire_begin(&b, HTC_WIRE_KV_REQUEST, 1);
    htc__kv_head_write(&b, &(htc__kv_head){ .session = r.session[1], .client = 7, .sequence = 1, .count = 1 });
    htc__kv_op_write(&b, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_PUT, .key = htc_bytes_of("k"), .value = { value, sizeof value } });
    input(&r, HTC_IN_MESSAGE, 1, 0, htc_buf_bytes(&b));
    turn(&r);
    htc__kv_pack_begin(&packed, 2, r.session[1]);
    for (uint64_t i = 0; i < 20; i++) {
        htc_buf_clear(&b);
        htc__kv_head_write_packed(&b, &(htc__kv_head){ .client = 8 + i, .sequence = 1, .count = 1 });
        htc__kv_op_write(&b, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = htc_bytes_of("k") });
        htc_put_bytes(&packed, htc_buf_bytes(&b));
    }
    htc_buf_clear(&r.said);
    input(&r, HTC_IN_MESSAGE, 1, 0, htc_buf_bytes(&packed));
    for (htc_reader said = htc_reader_of(htc_buf_bytes(&r.said)); htc_reader_left(&said);) {
        htc_get_u32(&said);
        htc_get_u8(&said);
        uint16_t   type;
        uint64_t   id;
        htc_reader m = htc_wire_open(htc_get_bytes(&said), &type, &id);
        htc__kv_answer_read(&m, &head);
        HOLDS(m.status == HTC_OK && id == 2 + whole + again);
        whole += head.count == 1;
        again += head.count == 0 && head.more == 0;
    }
    cr_expect(whole >= 4 && whole <= 5 && whole + again == 20, "%zu, %zu", whole, again);
    htc_buf_free(&b);
    htc_buf_free(&packed);
    end(&r);
}
