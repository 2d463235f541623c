/* A client that asks the owners of keys themselves, before servers that say what a test wants: where its requests go. */
#include "alloc_fail.h"
#include "kvs/wire/kv_wire.h"
#include "kvs/wire/owners_wire.h"
#include "kvs/util/place.h"
#include "property.h"

#define HOME    1u
#define CALLS   10u
#define MEMBERS 4u /* connections that the driver has at most */
#define SEED    77u
#define BITS    2u
#define BUCKETS 4u
#define LINKS   (1 + MEMBERS)
#define RETRY   (100 * HTC_MS)

static uint64_t id_of(unsigned member)
{
    return 1000 + member;
}

/* What came on a connection since the last look. */
typedef struct heard {
    unsigned frames, operations, asks; /* of requests; questions who has which key */
    uint64_t ask_id, have, serial;     /* of the last ones */
    uint8_t  repeated;
    char     keys[64];
} heard;

typedef struct world {
    htc_kv_client *client;
    htc_output    *out;
    htc_buf        message;
    htc_ns         now;
    int            old, mute; /* servers of one member; say nothing about requests */
    unsigned       at[LINKS]; /* which member is at the other end, if it is open */
    int            open[LINKS];
    char           dialled[LINKS][32];
    unsigned       dials, closes;
    heard          heard[LINKS];
    uint64_t       have;              /* of the map that members have */
    unsigned       owner[BUCKETS][3]; /* who owns which */
    unsigned       named;             /* so many members are named */
    int            telling;           /* they answer the question */
    int            broken;            /* memory was refused */
} world;

static unsigned link_at(uint32_t number)
{
    return number == HOME ? 0 : number - CALLS + 1;
}

static uint32_t number_of(unsigned link)
{
    return link == 0 ? HOME : CALLS + link - 1;
}

static void serve(world *w);

static void input(world *w, uint32_t kind, unsigned link, htc_bytes body)
{
    htc_input  in = { .size = sizeof in, .kind = kind, .peer = kind == HTC_IN_TIMEOUT ? 0 : number_of(link), .now = w->now, .body = body };
    htc_status status = htc_kv_client_step(w->client, &in, w->out);
    w->broken |= status == HTC_ENOMEM;
    HOLDS(status == HTC_OK || status == HTC_ENOMEM);
    serve(w);
}

static void say(world *w, unsigned link, const htc_buf *b)
{
    if (b->status == HTC_OK)
        input(w, HTC_IN_MESSAGE, link, htc_buf_bytes(b));
}

static void tell_owners_since(world *w, unsigned link, uint64_t ask, uint64_t since)
{
    htc_buf             b;
    htc__kv_owners_head head = { .have = w->have, .seed = SEED, .bits = BITS, .members = since < w->have ? w->named : 0 };
    htc_buf_init(&b, NULL, 0);
    htc__kv_owners_begin(&b, ask, &head);
    for (unsigned i = 0; i < head.members; i++) {
        char text[16];
        snprintf(text, sizeof text, "place %u", i);
        htc__kv_owners_member_write(&b, &(htc__kv_owners_member){ id_of(i), htc_bytes_of(i == 9 ? "" : text) });
    }
    int whole = since < w->have && since == 0;
    htc__kv_owners_buckets(&b, whole, since < w->have ? BUCKETS : 0);
    for (uint32_t n = 0; n < BUCKETS && since < w->have; n++) {
        htc__kv_owners_bucket bucket = { .number = n, .n = 3 };
        for (int i = 0; i < 3; i++)
            bucket.member[i] = w->owner[n][i];
        htc__kv_owners_bucket_write(&b, whole, 0, &bucket);
    }
    say(w, link, &b);
    htc_buf_free(&b);
}

static void answer(world *w, unsigned link, uint64_t serial, size_t count, uint32_t more)
{
    htc_buf b;
    htc_buf_init(&b, NULL, 0);
    htc__kv_answer_begin(&b, serial, &(htc__kv_answer_head){ .clock = 5, .session = 100 + link });
    for (size_t i = 0; i < count; i++)
        htc__kv_result_write(&b, &(htc_kv_result){ .size = sizeof(htc_kv_result), .status = HTC_OK, .version = 5 });
    htc__kv_answer_end(&b, (uint32_t)count, more);
    say(w, link, &b);
    htc_buf_free(&b);
}

static void hear_request(world *w, unsigned link, uint64_t serial, htc_reader r)
{
    htc__kv_head   head;
    htc_kv_request q = { .size = sizeof q };
    heard         *h = &w->heard[link];
    htc__kv_head_read(&r, &head);
    if (head.session == 0) {
        answer(w, link, serial, 0, 0);
        return;
    }
    HOLDS(head.session == 100 + link);
    h->frames++;
    h->serial = serial;
    h->repeated = head.flags;
    for (size_t i = 0; i < head.count; i++) {
        htc__kv_op_read(&r, &q);
        h->operations++;
        size_t len = strlen(h->keys);
        if (q.key.len == 1 && len + 2 < sizeof h->keys)
            h->keys[len] = *(const char *)q.key.data, h->keys[len + 1] = 0;
    }
    HOLDS(htc_reader_done(&r) == HTC_OK);
    if (!w->mute)
        answer(w, link, serial, head.count, 0);
}

static void hear(world *w, unsigned link, htc_bytes body)
{
    uint16_t   type;
    uint64_t   id;
    htc_reader r = htc_wire_open(body, &type, &id);
    htc_buf    b;
    htc_buf_init(&b, NULL, 0);
    if (type == HTC_WIRE_HELLO) {
        htc__kv_welcome(&b, id, w->old ? HTC_WIRE_VERSION_OWNERS - 1 : HTC_WIRE_VERSION, w->have, id_of(w->at[link]));
        say(w, link, &b);
    } else if (type == HTC_WIRE_KV_OWNERS_ASK) {
        HOLDS(!w->old);
        w->heard[link].asks++;
        w->heard[link].ask_id = id;
        w->heard[link].have = htc_get_varint(&r);
        if (w->telling)
            tell_owners_since(w, link, id, w->heard[link].have);
    } else {
        HOLDS(type == HTC_WIRE_KV_REQUEST);
        hear_request(w, link, id, r);
    }
    htc_buf_free(&b);
}

/* All that the client said, also as an answer to what it is told meanwhile. */
static void serve(world *w)
{
    htc_output *out = w->out;
    htc_effect  e;
    if (htc_output_count(out) == 0)
        return;
    if (htc_output_create(NULL, 0, &w->out) != HTC_OK)
        abort();
    for (size_t i = 0; htc_output_get(out, i, &e) == HTC_OK; i++) {
        unsigned link = link_at(e.kind == HTC_OUT_CALL ? (uint32_t)e.tag : e.peer);
        HOLDS(link < LINKS);
        if (e.kind == HTC_OUT_CALL) {
            HOLDS(e.op == HTC_KV_CLIENT_DIAL && link > 0 && e.body.len < sizeof w->dialled[link]);
            snprintf(w->dialled[link], sizeof w->dialled[link], "%.*s", (int)e.body.len, (const char *)e.body.data);
            w->dials++;
            w->open[link] = 0;
        } else if (e.kind == HTC_OUT_CLOSE) {
            HOLDS(link > 0);
            w->closes++;
            w->open[link] = 0;
            w->dialled[link][0] = 0;
        } else if (w->open[link]) {
            hear(w, link, e.body);
        }
    }
    htc_output_destroy(out);
}

static void opens(world *w, unsigned link, unsigned member)
{
    w->open[link] = 1;
    w->at[link] = member;
    input(w, HTC_IN_OPENED, link, (htc_bytes){ NULL, 0 });
}

static void closes(world *w, unsigned link)
{
    w->open[link] = 0;
    input(w, HTC_IN_CLOSED, link, (htc_bytes){ NULL, 0 });
}

static void pass(world *w, htc_ns span)
{
    w->now += span;
    input(w, HTC_IN_TIMEOUT, 0, (htc_bytes){ NULL, 0 });
}

static htc_status begin(world *w, const htc_env *env, uint32_t members)
{
    htc_kv_client_options o = { .size = sizeof o, .client_id = 1, .peer = HOME, .retry_ns = RETRY };
    memset(w, 0, sizeof *w);
    o.members = members;
    o.member_peer = CALLS;
    w->have = 1;
    w->named = 3;
    w->telling = 1;
    w->now = HTC_SECOND;
    for (unsigned n = 0; n < BUCKETS; n++)
        for (unsigned i = 0; i < 3; i++)
            w->owner[n][i] = (n + i) % 3;
    htc_buf_init(&w->message, NULL, 0);
    htc_status status = htc_output_create(NULL, 0, &w->out);
    return status == HTC_OK ? htc_kv_client_create(env, &o, &w->client) : status;
}

static void end(world *w)
{
    htc_kv_client_destroy(w->client);
    htc_output_destroy(w->out);
    htc_buf_free(&w->message);
}

static uint32_t bucket_of(char key)
{
    return htc__kv_bucket(htc__kv_place(SEED, (htc_bytes){ &key, 1 }), BITS);
}

/* The first key of that bucket, from a on. */
static char key_in(uint32_t bucket)
{
    char key = 'a';
    while (bucket_of(key) != bucket)
        key++;
    return key;
}

static void ask(world *w, const char *keys)
{
    htc_kv_request q[16];
    size_t         n = strlen(keys);
    for (size_t i = 0; i < n; i++)
        q[i] = (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_PUT, .key = { keys + i, 1 }, .value = htc_bytes_of("v") };
    htc_status status = htc_kv_client_submit(w->client, w->now, q, n, 3, w->out);
    w->broken |= status == HTC_ENOMEM;
    HOLDS(status == HTC_OK || status == HTC_ENOMEM);
    serve(w);
}

/* So many answers, each of another request. */
static unsigned answers(world *w)
{
    htc_kv_result r = { .size = sizeof r };
    unsigned      n = 0;
    while (htc_kv_client_next(w->client, &r)) {
        HOLDS(r.status == HTC_OK && r.tag == 3);
        n++;
    }
    return n;
}

static void forget(world *w)
{
    memset(w->heard, 0, sizeof w->heard);
}

/* Home is member 0; it knows who has what, and is connected to members 1 and 2. */
static void acquainted(world *w)
{
    HOLDS(begin(w, NULL, MEMBERS) == HTC_OK);
    opens(w, 0, 0);
    for (int i = 0; i < 4; i++)
        ask(w, "a");
    HOLDS(answers(w) == 4 && w->heard[0].asks == 1 && w->heard[0].have == 0);
    for (uint32_t n = 0; n < BUCKETS; n++)
        ask(w, (char[]){ key_in(n), 0 });
    HOLDS(w->dials == 2 && answers(w) == BUCKETS);
    for (unsigned link = 1; link <= 2; link++)
        opens(w, link, (unsigned)(w->dialled[link][6] - '0'));
    forget(w);
}

static unsigned link_to(const world *w, unsigned member)
{
    unsigned link = 0;
    while (link < LINKS && !(w->open[link] && w->at[link] == member))
        link++;
    return link;
}

/* ---------------------------------------------------------------- */

Test(kvs_direct, each_request_goes_to_the_first_owner)
{
    world w;
    acquainted(&w);
    for (uint32_t n = 0; n < BUCKETS; n++) {
        forget(&w);
        ask(&w, (char[]){ key_in(n), 0 });
        cr_expect(w.heard[link_to(&w, w.owner[n][0])].operations == 1, "bucket %u", n);
    }
    cr_expect(answers(&w) == BUCKETS && w.dials == 2 && w.closes == 0);
    end(&w);
}

/* Nothing is asked, and nobody dialled, by who asks for one thing, by a driver that makes no connections, and of an older store. */
Test(kvs_direct, nothing_changes_where_there_is_nobody_else)
{
    world w;
    HOLDS(begin(&w, NULL, MEMBERS) == HTC_OK);
    opens(&w, 0, 0);
    for (int i = 0; i < 3; i++)
        ask(&w, "a");
    cr_expect(w.heard[0].operations == 3 && w.heard[0].asks == 0 && w.dials == 0);
    end(&w);
    for (int old = 0; old < 2; old++) {
        HOLDS(begin(&w, NULL, old ? MEMBERS : 0) == HTC_OK);
        w.old = old;
        opens(&w, 0, 0);
        for (int i = 0; i < 20; i++) {
            ask(&w, "abc");
            pass(&w, RETRY);
        }
        cr_expect(w.heard[0].frames == 20 && w.heard[0].operations == 60 && w.heard[0].asks == 0 && w.dials == 0);
        end(&w);
    }
}

/* The first answer waits for nothing: it comes before anybody is asked who has what. */
Test(kvs_direct, several_owners_get_a_frame_each)
{
    world    w;
    char     keys[9] = { 0 };
    unsigned frames = 0, operations = 0;
    acquainted(&w);
    for (uint32_t i = 0; i < 8; i++)
        keys[i] = (char)('a' + i);
    ask(&w, keys);
    for (unsigned link = 0; link < 3; link++) {
        const heard *h = &w.heard[link];
        frames += h->frames;
        operations += h->operations;
        cr_expect(h->frames <= 1);
        for (const char *k = h->keys; *k; k++)
            cr_expect(w.owner[bucket_of(*k)][0] == w.at[link]);
    }
    cr_expect(operations == 8 && frames > 1);
    /* And each answer is to its request. */
    htc_kv_result r = { .size = sizeof r };
    uint32_t      seen = 0, last = 0;
    while (htc_kv_client_next(w.client, &r)) {
        cr_expect(!(seen >> r.index & 1) && r.index < 8 && !last);
        seen |= UINT32_C(1) << r.index;
        last = r.last;
    }
    cr_expect(seen == 0xff && last);
    end(&w);
}

Test(kvs_direct, the_next_owner_after_silence)
{
    world    w;
    uint32_t n = 1; /* of members 1, 2, 0 */
    char     key[] = { 0, 0 };
    acquainted(&w);
    key[0] = key_in(n);
    w.mute = 1;
    ask(&w, key);
    unsigned first = link_to(&w, 1), second = link_to(&w, 2);
    cr_expect(w.heard[first].operations == 1 && w.heard[first].repeated == 0);
    w.mute = 0;
    pass(&w, RETRY);
    cr_expect(w.heard[second].operations == 1 && w.heard[second].repeated == HTC__KV_REPEATED && answers(&w) == 1);
    cr_expect(w.heard[0].asks + w.heard[second].asks == 1, "and asks who has it now");
    /* The late answer of the first is nobody's. */
    answer(&w, first, w.heard[first].serial, 1, 0);
    cr_expect(answers(&w) == 0);
    /* It has spoken: it is asked again. */
    forget(&w);
    ask(&w, key);
    cr_expect(w.heard[first].operations == 1 && answers(&w) == 1);
    end(&w);
}

/* What the first answers late says how long it takes, and it is waited for twice as long: also by requests that another one has answered
 * meanwhile. No longer than eight times what the user allows, and no more once it was long ago. */
Test(kvs_direct, who_was_slow_is_waited_for)
{
    world    w;
    char     key[] = { 0, 0 };
    acquainted(&w);
    key[0] = key_in(1);
    w.mute = 1;
    ask(&w, key);
    unsigned first = link_to(&w, 1), second = link_to(&w, 2);
    uint64_t serial = w.heard[first].serial;
    w.mute = 0;
    pass(&w, RETRY);
    HOLDS(w.heard[second].operations == 1 && answers(&w) == 1);
    pass(&w, RETRY);
    answer(&w, first, serial, 1, 0); /* 2 * RETRY, and nobody's */
    w.mute = 1;
    forget(&w);
    ask(&w, key);
    for (int i = 0; i < 3; i++)
        pass(&w, RETRY);
    cr_expect(w.heard[first].operations == 1 && w.heard[second].operations == 0, "it is not asked behind its back");
    pass(&w, RETRY);
    cr_expect(w.heard[second].operations == 1, "after four it is");
    answer(&w, second, w.heard[second].serial, 1, 0);
    serial = w.heard[first].serial;
    for (int i = 0; i < 16; i++)
        pass(&w, RETRY);
    answer(&w, first, serial, 1, 0);
    HOLDS(answers(&w) == 1);
    forget(&w);
    ask(&w, key);
    for (int i = 0; i < 7; i++)
        pass(&w, RETRY);
    HOLDS(w.heard[first].operations == 1 && w.heard[second].operations == 0);
    pass(&w, RETRY);
    cr_expect(w.heard[second].operations == 1, "twenty are not waited for twice");
    answer(&w, second, w.heard[second].serial, 1, 0);
    for (int i = 0; i < 16 * 8; i++)
        pass(&w, RETRY);
    HOLDS(answers(&w) == 1);
    forget(&w);
    ask(&w, key);
    HOLDS(w.heard[first].operations == 1);
    pass(&w, RETRY);
    cr_expect(w.heard[second].operations == 1, "it is forgotten");
    end(&w);
}

/* Another connection is another life, which may be on another machine. */
Test(kvs_direct, how_slow_it_was_is_forgotten_with_the_connection)
{
    world w;
    char  key[] = { key_in(1), 0 };
    acquainted(&w);
    w.mute = 1;
    ask(&w, key);
    unsigned first = link_to(&w, 1), second = link_to(&w, 2);
    w.now += RETRY - 1;
    answer(&w, first, w.heard[first].serial, 1, 0);
    HOLDS(answers(&w) == 1);
    closes(&w, first);
    opens(&w, first, 1);
    forget(&w);
    ask(&w, key);
    HOLDS(w.heard[first].operations == 1 && w.heard[second].operations == 0);
    pass(&w, RETRY);
    cr_expect(w.heard[second].operations == 1);
    end(&w);
}

Test(kvs_direct, the_next_owner_when_a_connection_breaks)
{
    world w;
    char  key[] = { key_in(1), 0 };
    acquainted(&w);
    w.mute = 1;
    ask(&w, key);
    unsigned first = link_to(&w, 1), second = link_to(&w, 2);
    w.mute = 0;
    closes(&w, first);
    cr_expect(w.heard[second].operations == 1 && w.heard[second].repeated == HTC__KV_REPEATED && answers(&w) == 1);
    closes(&w, second);
    forget(&w);
    ask(&w, key);
    cr_expect(w.heard[0].operations == 1 && answers(&w) == 1);
    /* Home too: the driver has its other connections still. */
    opens(&w, first, 1);
    closes(&w, 0);
    forget(&w);
    ask(&w, (char[]){ key_in(0), 0 });
    cr_expect(w.heard[first].operations == 1 && answers(&w) == 1);
    end(&w);
}

/* What a member had to hand on says that there is something to learn; where nothing is new, it is asked less and less. */
Test(kvs_direct, a_newer_map_is_learned_from_answers)
{
    world w;
    char  key[] = { key_in(0), 0 };
    acquainted(&w);
    w.mute = 1;
    ask(&w, key);
    for (unsigned n = 0; n < BUCKETS; n++)
        for (unsigned i = 0; i < 3; i++)
            w.owner[n][i] = (n + i + 1) % 3;
    w.have = 7;
    answer(&w, 0, w.heard[0].serial, 1, HTC__KV_ELSEWHERE);
    pass(&w, RETRY);
    cr_expect(w.heard[0].asks == 1 && w.heard[0].have == 1);
    forget(&w);
    w.mute = 0;
    ask(&w, key);
    cr_expect(w.heard[link_to(&w, 1)].operations == 1);
    /* Somebody is suspected there: all is said to be elsewhere, and nothing is new. */
    forget(&w);
    unsigned asks = 0;
    for (int i = 0; i < 400; i++) {
        w.mute = 1;
        ask(&w, key);
        unsigned link = link_to(&w, 1);
        answer(&w, link, w.heard[link].serial, 1, HTC__KV_ELSEWHERE);
        pass(&w, RETRY / 8);
    }
    for (unsigned link = 0; link < LINKS; link++)
        asks += w.heard[link].asks;
    cr_expect(asks > 2 && asks < 20, "%u", asks);
    end(&w);
}

Test(kvs_direct, whoever_is_gone_is_called_no_more)
{
    world w;
    acquainted(&w);
    w.have = 9;
    w.named = 2;
    for (unsigned n = 0; n < BUCKETS; n++)
        for (unsigned i = 0; i < 3; i++)
            w.owner[n][i] = 1 - n % 2;
    unsigned gone = link_to(&w, 2);
    closes(&w, gone); /* who has left ends */
    pass(&w, RETRY);
    cr_expect(w.closes == 1 && w.dialled[gone][0] == 0);
    forget(&w);
    for (uint32_t n = 0; n < BUCKETS; n++)
        ask(&w, (char[]){ key_in(n), 0 });
    cr_expect(w.heard[gone].frames == 0 && w.heard[link_to(&w, 1)].frames == 2 && w.heard[0].frames == 2 && w.dials == 2);
    end(&w);
}

/* Another member, or another store, at an address is not taken for the one that was named. */
Test(kvs_direct, somebody_else_at_an_address_is_not_asked)
{
    world w;
    acquainted(&w);
    unsigned link = link_to(&w, 1);
    closes(&w, link);
    opens(&w, link, 2);
    cr_expect(w.closes == 1);
    forget(&w);
    ask(&w, (char[]){ key_in(1), 0 });
    cr_expect(w.heard[link].frames == 0 && w.heard[link_to(&w, 2)].frames == 1 && w.dials == 2);
    end(&w);
}

/* ---------------------------------------------------------------- */

Test(kvs_direct, what_is_written_is_read)
{
    PROPERTY(rng, 300)
    {
        htc_buf               b;
        htc__kv_owners_bucket buckets[16];
        uint8_t               bits = (uint8_t)(1 + htc_rng_below(&rng, 4));
        uint32_t              all = UINT32_C(1) << bits, n = 0, before = 0;
        int                   whole = htc_rng_below(&rng, 2) == 0;
        uint64_t              id;
        uint16_t              type;
        htc__kv_owners_head   head = { .have = 1 + htc_rng_below(&rng, 1000), .seed = htc_rng_next(&rng), .bits = bits }, got;
        head.members = 1 + htc_rng_below(&rng, 5);
        for (uint32_t i = 0; i < all; i++) {
            if (!whole && htc_rng_below(&rng, 3))
                continue;
            buckets[n] = (htc__kv_owners_bucket){ .number = i, .n = (uint32_t)htc_rng_below(&rng, HTC_RING_OWNERS_MAX + 1) };
            for (uint32_t j = 0; j < buckets[n].n; j++)
                buckets[n].member[j] = (uint32_t)htc_rng_below(&rng, head.members);
            n++;
        }
        htc_buf_init(&b, NULL, 0);
        htc__kv_owners_begin(&b, 12, &head);
        for (size_t i = 0; i < head.members; i++)
            htc__kv_owners_member_write(&b, &(htc__kv_owners_member){ i + 1, { "address", i } });
        htc__kv_owners_buckets(&b, whole, n);
        for (uint32_t i = 0; i < n; before = buckets[i].number + 1, i++)
            htc__kv_owners_bucket_write(&b, whole, buckets[i].number - before, &buckets[i]);
        htc__kv_owners_at at;
        htc_reader        r = htc_wire_open(htc_buf_bytes(&b), &type, &id);
        HOLDS(type == HTC_WIRE_KV_OWNERS && id == 12 && htc__kv_owners_check(r) == HTC_OK);
        htc__kv_owners_read(r, &got, &at);
        HOLDS(got.have == head.have && got.seed == head.seed && got.bits == bits && got.members == head.members);
        for (size_t i = 0; i < head.members; i++) {
            htc__kv_owners_member m;
            htc__kv_owners_member_read(&at, &m);
            HOLDS(m.id == i + 1 && htc_bytes_equal(m.address, (htc_bytes){ "address", i }));
        }
        htc__kv_owners_bucket bucket;
        for (uint32_t i = 0; i < n; i++) {
            HOLDS(htc__kv_owners_bucket_read(&at, &bucket) && bucket.number == buckets[i].number && bucket.n == buckets[i].n);
            HOLDS(memcmp(bucket.member, buckets[i].member, bucket.n * sizeof *bucket.member) == 0);
        }
        HOLDS(!htc__kv_owners_bucket_read(&at, &bucket));
        /* No part of it passes for the whole. */
        for (size_t len = 10; len < b.len; len++)
            HOLDS(htc__kv_owners_check(htc_wire_open((htc_bytes){ b.data, len }, &type, &id)) == HTC_EPROTO);
        htc_buf_free(&b);
    }
}

/* Refused memory costs a way round, or breaks the client with HTC_ENOMEM, and no more. */
Test(kvs_direct, every_allocation_may_be_refused)
{
    for (int once = 0; once < 2; once++)
        for (alloc_fail f = { .once = once }; alloc_fail_next(&f, 2000);) {
            htc_env env = alloc_fail_env(&f);
            world   w;
            if (begin(&w, &env, MEMBERS) == HTC_OK) {
                opens(&w, 0, 0);
                for (int i = 0; i < 12 && !w.broken; i++) {
                    ask(&w, "abcdefgh");
                    if (i == 6) {
                        w.have = 5;
                        w.named = 4;
                        w.owner[0][0] = 3;
                        closes(&w, 0);
                        opens(&w, 0, 1);
                    }
                    pass(&w, RETRY);
                    answers(&w);
                    for (unsigned link = 1; link < LINKS; link++)
                        if (w.dialled[link][0] && !w.open[link])
                            opens(&w, link, (unsigned)(w.dialled[link][6] - '0'));
                }
            }
            end(&w);
            cr_assert(f.live == 0 && f.wrong_sizes == 0, "allocation %zu: leak", f.fail_at);
        }
}
