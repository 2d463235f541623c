/* A member of three, and what another one can make it do that says anything: keep no more than so much, never end, and tell whoever sends what
 * is no message. The third is silent, and the disk may be, so that whatever waits for them stays. fuzz/kv_hostile.c looks for other things. */
#include "expect.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "htcsched/kv_server.h"
#include "kvs/replica/cluster_private.h"
#include "kvs/peer/eventual_wire.h"
#include "kvs/peer/watch_items.h"
#include "kvs/wire/watch_wire.h"
#include "property.h"

enum { SELF = 11, SILENT = 22, THIRD = 33, TO_SILENT = 100, TO_THIRD, FROM_THIRD = 1000, USER = 2000 };

typedef struct world {
    htc_rng        rng;
    htc_env        env;
    htc_alloc      alloc;
    size_t         used, most;
    htc_ns         now;
    htc_kv_engine  engine;
    htc_kv_server *s;
    htc_output    *out;
    htc_buf        message, item, commit;
    uint64_t       tag, session, serial, heard; /* of the commit in flight; of the user's conversation; of the third's messages */
    htc_status     told;                        /* the third, before it was hung up on */
    int            hung_up, stalled, answers;
    uint64_t       list_tag; /* of the last LIST that the third was asked for; 0: none since */
} world;

static void *resize(void *ctx, void *p, size_t old_size, size_t new_size)
{
    world *w = ctx;
    w->used += new_size - old_size;
    w->most = w->used > w->most ? w->used : w->most;
    if (new_size)
        return realloc(p, new_size);
    free(p);
    return NULL;
}

static void to_third(world *w, htc_reader r)
{
    uint8_t   kind;
    htc_bytes item;
    (void)htc_get_u64(&r);
    (void)htc_get_u64(&r);
    while (htc__kv_members_next(&r, &kind, &item)) {
        htc_reader tag = htc_reader_of(item);
        if (kind == HTC__KV_ITEM_LIST)
            w->list_tag = htc_get_u64(&tag);
    }
}

static void step_once(world *w, htc_input in)
{
    htc_effect          e;
    htc__kv_answer_head head;
    in.now = w->now;
    htc_output_clear(w->out);
    HOLDS(htc_kv_server_ops()->step(w->s, &in, w->out) == HTC_OK);
    for (size_t i = 0; htc_output_get(w->out, i, &e) == HTC_OK; i++) {
        uint16_t   type = 0;
        uint64_t   id;
        htc_reader r = htc_reader_of((htc_bytes){ NULL, 0 });
        if (e.kind == HTC_OUT_MESSAGE)
            r = htc_wire_open(e.body, &type, &id);
        if (e.peer == FROM_THIRD && type == HTC_WIRE_ERROR)
            w->told = (htc_status)(int32_t)htc_get_u32(&r);
        else if (e.peer == TO_THIRD && type == HTC_WIRE_KV_MEMBERS)
            to_third(w, r);
        else if (e.peer == USER && type == HTC_WIRE_KV_ANSWER) {
            htc__kv_answer_read(&r, &head);
            w->session = head.session;
            w->answers++;
        }
        if (e.kind == HTC_OUT_CLOSE)
            w->hung_up |= e.peer == FROM_THIRD;
        if (e.kind == HTC_OUT_COMMIT) {
            w->tag = e.tag;
            htc_buf_clear(&w->commit);
            htc_put_raw(&w->commit, e.body);
        }
        HOLDS(e.kind != HTC_OUT_STOP);
    }
}

static void store(world *w)
{
    uint64_t tag = w->tag;
    w->tag = 0;
    HOLDS(w->engine.ops->apply(w->engine.ctx, htc_buf_bytes(&w->commit)) == HTC_OK);
    step_once(w, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_STORED, .tag = tag });
}

static void step(world *w, htc_input in)
{
    step_once(w, in);
    while (w->tag && !w->stalled)
        store(w);
}

static void say(world *w, uint32_t peer)
{
    HOLDS(w->message.status == HTC_OK);
    step(w, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_MESSAGE, .peer = peer, .body = htc_buf_bytes(&w->message) });
}

static void pass_time(world *w, htc_ns ns)
{
    w->now += ns;
    step(w, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_TIMEOUT });
}

static void open_connection(world *w, uint32_t peer, int role)
{
    htc_buf info;
    htc_buf_init(&info, NULL, 0);
    htc_peer_info_write(&info, &(htc_peer_info){ HTC_TRANSPORT_SIM, 0, 0, 0 });
    step(w, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_OPENED, .peer = peer, .body = htc_buf_bytes(&info) });
    htc_buf_free(&info);
    if (role < 0)
        return;
    htc_wire_hello(&w->message, (uint8_t)role, HTC_WIRE_VERSION);
    say(w, peer);
}

/* An item of the third's at a time, until there are enough for a message. */
static void begin(world *w)
{
    htc__kv_members_begin(&w->message, ++w->heard, THIRD, SELF);
}

static void add_item(world *w, uint8_t kind)
{
    HOLDS(w->item.status == HTC_OK);
    htc_put_u8(&w->message, kind);
    htc_put_bytes(&w->message, htc_buf_bytes(&w->item));
    htc_buf_clear(&w->item);
    if (w->message.len < (size_t)1 << 20)
        return;
    say(w, FROM_THIRD);
    begin(w);
}

static world *open_world(uint32_t bits)
{
    world                *w = calloc(1, sizeof *w);
    htc_kv_namespace      space = { .size = sizeof space, .name = htc_bytes_of("e") };
    htc_kv_member         members[3] = { { .id = SELF }, { .id = SILENT, .peer = TO_SILENT }, { .id = THIRD, .peer = TO_THIRD } };
    htc_kv_server_options o = { .size = sizeof o,
                                .self = SELF,
                                .members = members,
                                .member_count = 3,
                                .owners = 3,
                                .bits = bits,
                                .suspect_ns = 40 * HTC_MS,
                                .request_ns = 2 * HTC_SECOND,
                                .member_retry_ns = 4 * HTC_MS,
                                .namespaces = &space,
                                .namespace_count = 1 };
    HOLDS(w != NULL);
    w->rng.state = 1;
    w->now = HTC_SECOND;
    w->alloc = (htc_alloc){ .resize = resize, .ctx = w };
    w->env = (htc_env){ .size = sizeof w->env, .rng = &w->rng, .alloc = &w->alloc };
    htc_buf_init(&w->message, NULL, 0);
    htc_buf_init(&w->item, NULL, 0);
    htc_buf_init(&w->commit, NULL, 0);
    HOLDS(htc_kv_memory_create(&w->env, &w->engine) == HTC_OK && htc_output_create(NULL, 0, &w->out) == HTC_OK);
    o.engine = w->engine;
    HOLDS(htc_kv_server_create(&w->env, &o, &w->s) == HTC_OK);
    step(w, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_START });
    open_connection(w, TO_THIRD, -1);
    open_connection(w, FROM_THIRD, HTC_WIRE_ROLE_STORE_MEMBER);
    open_connection(w, USER, HTC_WIRE_ROLE_STORE_CLIENT);
    htc_wire_begin(&w->message, HTC_WIRE_KV_REQUEST, ++w->serial);
    htc__kv_head_write(&w->message, &(htc__kv_head){ .client = 7 });
    say(w, USER);
    begin(w);
    say(w, FROM_THIRD);
    return w;
}

static void close_world(world *w)
{
    htc_kv_server_destroy(w->s);
    w->engine.ops->destroy(w->engine.ctx);
    htc_output_destroy(w->out);
    htc_buf_free(&w->message);
    htc_buf_free(&w->item);
    htc_buf_free(&w->commit);
    HOLDS(w->used == 0);
    free(w);
}

/* ---------------------------------------------------------------- much of each */

/* Where each allocation costs ten times as much, fewer of each: what is touched is right then, and the bounds other builds have shown. */
static int light(void)
{
    return getenv("HTC_TEST_LIGHT") != NULL;
}

static uint8_t  long_value[64 << 10];
static uint64_t numbered;

static htc_bytes key(uint32_t i, size_t len)
{
    static char bytes[HTC_KV_KEY_MAX];
    memset(bytes, 'k', sizeof bytes);
    HOLDS(len <= sizeof bytes);
    snprintf(bytes, sizeof bytes, "%010u", i);
    bytes[10] = 'k';
    return (htc_bytes){ bytes, len };
}

/* Records that are on their way to the disk: what shows them waits as well. */
static void hold_some(world *w)
{
    for (uint32_t i = 0; i < 40; i++) {
        htc__kv_ask ask = { .kind = HTC__KV_ACCEPT, .round = 1, .epoch = 1, .ballot = { 1, 1, THIRD }, .key = key(i, 12) };
        ask.cell = (htc__kv_cell){ .present = 1, .version = 1, .value = { long_value, 16 << 10 } };
        htc__kv_ask_write(&w->item, &ask);
        add_item(w, HTC__KV_ITEM_ASK);
    }
    say(w, FROM_THIRD);
    begin(w);
}

static uint8_t forward(htc_buf *b, uint32_t i)
{
    htc__kv_forward f = { .tag = i, .epoch = 1, .stamp = { .client = 5, .sequence = i + 1, .since = 1 } };
    f.request = (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_PUT, .key = key(i, 12), .value = { long_value, 10 } };
    htc__kv_forward_write(b, &f);
    return HTC__KV_ITEM_FORWARD;
}

static uint8_t early_forward(htc_buf *b, uint32_t i)
{
    htc__kv_forward f = { .tag = i, .epoch = 1 << 30, .request = { .op = HTC_KV_GET, .key = key(i, 300) } };
    htc__kv_forward_write(b, &f);
    return HTC__KV_ITEM_FORWARD;
}

static uint8_t read_ask(htc_buf *b, uint32_t i)
{
    htc__kv_ask_write(b, &(htc__kv_ask){ .kind = HTC__KV_READ, .round = i + 1, .epoch = 1, .key = key(i % 40, 12) });
    return HTC__KV_ITEM_ASK;
}

static uint8_t promise_ask(htc_buf *b, uint32_t i)
{
    htc__kv_ask_write(b, &(htc__kv_ask){ .kind = HTC__KV_PREPARE, .round = i + 1, .epoch = 1, .ballot = { 1, i + 2, THIRD }, .key = key(i % 40, 12) });
    return HTC__KV_ITEM_ASK;
}

static uint8_t list(htc_buf *b, uint32_t i)
{
    htc__kv_list_write(b, &(htc__kv_list_ask){ .tag = i, .flags = HTC__KV_LIST_VALUES, .limit = UINT64_MAX });
    return HTC__KV_ITEM_LIST;
}

static uint8_t seal(htc_buf *b, uint32_t i)
{
    htc__kv_seal_ask_write(b, &(htc__kv_seal_ask){ .number = 2 + i, .epoch = 1, .bucket = i % 16, .after = key(i, 300) });
    return HTC__KV_ITEM_SEAL;
}

static uint8_t copy_ask(htc_buf *b, uint32_t i)
{
    htc__kv_seal_ask_write(b, &(htc__kv_seal_ask){ .number = 1 + i, .epoch = 1, .bucket = i % 16, .after = key(i, 300) });
    return HTC__KV_ITEM_COPY;
}

static uint8_t install(htc_buf *b, uint32_t i)
{
    htc__kv_install_write(b, &(htc__kv_page){ .number = 2 + i, .bucket = i % 16, .page = 0 });
    return HTC__KV_ITEM_INSTALL;
}

static uint8_t watch(htc_buf *b, uint32_t i)
{
    htc__kv_watch_item_write(b, &(htc__kv_watch_item){ .life = 1, .stream = 1 });
    for (uint32_t j = 0; j < 20; j++)
        htc__kv_wanted_write(b, &(htc__kv_wanted){ 20 * i + j + 1, 0, key(20 * i + j, 390) });
    return HTC__KV_ITEM_WATCH;
}

static uint8_t marks(htc_buf *b, uint32_t i)
{
    htc__kv_marks_item_write(b, &(htc__kv_marks_item){ .life = 1, .stream = 1, .known = 1, .number = i + 1 });
    htc__kv_marked_write(b, &(htc__kv_marked){ key(i, 390), i, i });
    return HTC__KV_ITEM_MARKS;
}

static uint8_t catch(htc_buf *b, uint32_t i)
{
    htc_put_varint(b, i);
    htc_put_bytes(b, (htc_bytes){ NULL, 0 });
    htc_put_bytes(b, (htc_bytes){ NULL, 0 });
    htc_put_u64(b, i);
    return HTC__KV_ITEM_CATCH;
}

/* All that there is, to one that has nothing. */
static uint8_t keys(htc_buf *b, uint32_t i)
{
    uint8_t all[HTC__DIGEST_LEAVES / 8];
    memset(all, 0xff, sizeof all);
    htc_put_varint(b, i);
    htc_put_bytes(b, (htc_bytes){ NULL, 0 });
    htc_put_bytes(b, (htc_bytes){ NULL, 0 });
    htc_put_raw(b, (htc_bytes){ all, sizeof all });
    return HTC__KV_ITEM_KEYS;
}

static uint8_t put_passed_on(htc_buf *b, uint32_t i)
{
    htc__kv_pass p = { .tag = i, .stamp = { .client = 5, .sequence = i + 1 } };
    p.request = (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_PUT, .space = htc_bytes_of("e"), .key = key(i, 300), .value = { long_value, 1000 } };
    htc__kv_pass_write(b, &p);
    return HTC__KV_ITEM_PASS;
}

static uint8_t fetch(htc_buf *b, uint32_t i)
{
    htc__kv_copy_write(b, HTC__KV_ITEM_FETCH, &(htc__kv_copy){ .tag = i, .epoch = 1, .key = { "e\0k", 3 } });
    return HTC__KV_ITEM_FETCH;
}

static uint8_t collect(htc_buf *b, uint32_t i)
{
    htc__kv_copy_write(b, HTC__KV_ITEM_COLLECT, &(htc__kv_copy){ .tag = i, .key = { "e\0k", 3 }, .digest = i });
    return HTC__KV_ITEM_COLLECT;
}

/* By any bytes of a kind that has no other builder here. */
static uint8_t noise(htc_buf *b, uint32_t i)
{
    static const uint8_t kinds[] = { HTC__KV_ITEM_REPLY,     HTC__KV_ITEM_ANSWER, HTC__KV_ITEM_LISTED, HTC__KV_ITEM_SHOWN,  HTC__KV_ITEM_INSTALLED,
                                     HTC__KV_ITEM_COPIED,    HTC__KV_ITEM_JOIN,   HTC__KV_ITEM_LEAVES, HTC__KV_ITEM_CAUGHT, HTC__KV_ITEM_RECORD,
                                     HTC__KV_ITEM_PASSED,    HTC__KV_ITEM_FETCHED, HTC__KV_ITEM_STORED, HTC__KV_ITEM_TREE,  HTC__KV_ITEM_ENTRIES,
                                     HTC__KV_ITEM_PULL,      HTC__KV_ITEM_COLLECTED, HTC__KV_ITEM_REFUSED, HTC__KV_ITEM_WANT,  HTC__KV_ITEM_AS_OF,
                                     0,                      255 };
    uint64_t draw[8];
    for (size_t n = 0; n < 8; n++)
        draw[n] = htc__digest_words(&numbered, 1, numbered) >> (i % 3 ? 0 : 56), numbered++;
    htc_put_raw(b, (htc_bytes){ draw, i % sizeof draw });
    return kinds[i % sizeof kinds];
}

/* What the third can say, so often that it would take more than 200 MiB where each leaves something behind that is not bounded. The bounds that hold are those of replies that wait
 * for the disk (48 MiB), of what waits for a member (48 MiB, in a buffer that has grown to twice that), of requests forwarded (128 MiB), of
 * eventual requests (64 MiB) and of names watched (some 60 MiB), of which none comes with another in the same row. */
#define MEMORY ((size_t)200 << 20)

Test(hostile, what_a_member_makes_another_one_keep_is_bounded, .timeout = 300)
{
    static const struct {
        const char *what;
        uint8_t (*make)(htc_buf *b, uint32_t i);
        uint32_t times;
    } rows[] = { { "forwards", forward, 500000 },     { "forwards of a later map", early_forward, 400000 },
                 { "reads", read_ask, 20000 },        { "promises", promise_ask, 20000 },
                 { "lists", list, 3000 },             { "seals", seal, 10000 },
                 { "copies", copy_ask, 10000 },      { "installs", install, 10000 },
                 { "watches", watch, 25000 },         { "marks", marks, 10000 },
                 { "catching up", catch, 30000 },    { "keys that differ", keys, 3000 },
                 { "eventual puts", put_passed_on, 60000 }, { "fetches", fetch, 10000 },
                 { "collections", collect, 10000 },  { "noise", noise, 50000 } };
    memset(long_value, 'v', sizeof long_value);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        world *w = open_world(4);
        w->stalled = 1;
        begin(w);
        hold_some(w);
        uint32_t times = rows[i].times / (light() ? 20 : 1);
        for (uint32_t n = 0; n < times; n++) {
            uint8_t kind = rows[i].make(&w->item, n);
            add_item(w, kind);
        }
        say(w, FROM_THIRD);
        cr_expect(w->most < MEMORY, "%s: %zu MiB", rows[i].what, w->most >> 20);
        if (getenv("HTC_TEST_TRACE"))
            fprintf(stderr, "%s: %zu MiB\n", rows[i].what, w->most >> 20);
        HOLDS(w->hung_up == 0);
        w->stalled = 0;
        for (int n = 0; n < 50; n++)
            pass_time(w, 50 * HTC_MS);
        close_world(w);
    }
}

/* Maps that name others each time: members stay known for a whole life, which has an end. Then newer maps are not taken, and the member goes on. */
Test(hostile, maps_that_name_ever_more_members_do_not_end_it, .timeout = 300)
{
    world              *w = open_world(10);
    htc__kv_map_member *members = calloc(HTC__KV_MAP_MEMBERS, sizeof *members);
    HOLDS(members != NULL);
    for (uint64_t version = 1; version < (light() ? 3 : 20); version++) {
        htc__kv_map *map;
        for (uint32_t i = 0; i < HTC__KV_MAP_MEMBERS; i++)
            members[i] = (htc__kv_map_member){ .id = i < 3 ? 11 * (i + 1) : version * 10000 + i, .weight = 1 };
        HOLDS(htc__kv_map_create(NULL, 0, 10, 3, members, HTC__KV_MAP_MEMBERS, &map) == HTC_OK);
        begin(w);
        htc_put_varint(&w->item, version);
        htc__kv_map_encode(&w->item, map);
        add_item(w, HTC__KV_ITEM_MAP);
        say(w, FROM_THIRD);
        HOLDS(w->s->cluster->count <= 16 * HTC__KV_MAP_MEMBERS);
        htc__kv_map_destroy(map);
    }
    HOLDS(light() || (w->s->cluster->count > 15 * HTC__KV_MAP_MEMBERS && w->s->cluster->map_version < 19));
    free(members);
    close_world(w);
}

/* ---------------------------------------------------------------- what is no message */

Test(hostile, what_is_no_message_of_a_member_is_told_so_and_closed)
{
    static const struct {
        const char *what;
        htc_bytes   bytes;
        htc_status  told;
    } rows[] = { { "no header", { "\1\2\3", 3 }, HTC_EPROTO },
                 { "nothing", { "", 0 }, HTC_EPROTO },
                 { "an unknown type", { "\xe7\3\1\0\0\0\0\0\0\0x", 11 }, HTC_EPROTO },
                 { "a client's", { "\x64\0\1\0\0\0\0\0\0\0x", 11 }, HTC_EPROTO },
                 { "no names", { "\x66\0\2\0\0\0\0\0\0\0x", 11 }, HTC_EPROTO },
                 { "a torn item", { "\x66\0\2\0\0\0\0\0\0\0\x21\0\0\0\0\0\0\0\x0b\0\0\0\0\0\0\0\1\x7fk", 29 }, HTC_EPROTO },
                 { "an item of absurd length", { "\x66\0\2\0\0\0\0\0\0\0\x21\0\0\0\0\0\0\0\x0b\0\0\0\0\0\0\0\1\xff\xff\xff\xff\xff\xff\xff\xff\xff\1k", 38 }, HTC_EPROTO },
                 { "an item that cannot be read", { "\x66\0\2\0\0\0\0\0\0\0\x21\0\0\0\0\0\0\0\x0b\0\0\0\0\0\0\0\1\1k", 29 }, HTC_OK },
                 { "an unknown item", { "\x66\0\2\0\0\0\0\0\0\0\x21\0\0\0\0\0\0\0\x0b\0\0\0\0\0\0\0\xfe\1k", 29 }, HTC_OK },
                 { "for another member", { "\x66\0\2\0\0\0\0\0\0\0\x21\0\0\0\0\0\0\0\x0c\0\0\0\0\0\0\0\1\x7fk", 29 }, HTC_OK } };
    _Static_assert(HTC_WIRE_KV_MEMBERS == 0x66, "as the rows have it");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        world *w = open_world(4);
        step(w, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_MESSAGE, .peer = FROM_THIRD, .body = rows[i].bytes });
        cr_expect(w->told == rows[i].told && w->hung_up == (rows[i].told != HTC_OK), "%s: told %s, %s", rows[i].what, htc_status_name(w->told),
                  w->hung_up ? "hung up" : "heard on");
        /* Until the driver has closed it, it is told nothing again. */
        w->told = HTC_OK;
        step(w, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_MESSAGE, .peer = FROM_THIRD, .body = { "\1\2\3", 3 } });
        cr_expect(w->told == (rows[i].told != HTC_OK ? HTC_OK : HTC_EPROTO), "%s: once", rows[i].what);
        close_world(w);
    }
}

/* ---------------------------------------------------------------- scans and watches */

/* A COUNT goes from page to page, with a new wait for each: a member whose lists always have more behind them and never go on would keep it,
 * and its place among the few that run, for ever. */
Test(hostile, a_list_that_does_not_go_on_ends_its_scan)
{
    world *w = open_world(4);
    htc_wire_begin(&w->message, HTC_WIRE_KV_REQUEST, ++w->serial);
    htc__kv_head_write(&w->message, &(htc__kv_head){ .session = w->session, .client = 7, .sequence = 1, .count = 1 });
    htc__kv_op_write(&w->message, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_COUNT });
    int before = w->answers, pages = 0;
    say(w, USER);
    for (int i = 0; i < 1000 && w->answers == before; i++) {
        if (!w->list_tag) {
            begin(w);
            say(w, FROM_THIRD); /* it is there */
            pass_time(w, 5 * HTC_MS);
            continue;
        }
        begin(w);
        htc_put_u64(&w->item, w->list_tag);
        htc_put_u8(&w->item, 1);     /* more */
        htc_put_varint(&w->item, 0); /* the version of its map */
        htc_put_varint(&w->item, 0); /* buckets that it cannot speak for */
        htc_put_bytes(&w->item, htc_bytes_of("a"));
        w->list_tag = 0;
        pages++;
        add_item(w, HTC__KV_ITEM_LISTED);
        say(w, FROM_THIRD);
    }
    cr_expect(w->answers == before + 1 && pages == 2, "%d answers, %d pages", w->answers - before, pages);
    close_world(w);
}

/* Watches that come and go, of which one member never says that it has heard: what has ended is kept for it, but not for ever. */
Test(hostile, watches_that_end_are_not_kept_for_a_member_that_does_not_hear_of_them, .timeout = 300)
{
    world   *w = open_world(4);
    size_t   before = w->used;
    uint32_t watches = 1;
    htc__kv_watch_begin(&w->message, ++w->serial, w->session, 0, 0);
    htc__kv_watch_wish_write(&w->message, &(htc__kv_watch_wish){ .watch = watches, .kind = HTC__KV_WISH_KEY, .key = htc_bytes_of("stays") });
    say(w, USER);
    for (int round = 0; round < (light() ? 50 : 3 * 512); round++) {
        htc__kv_watch_begin(&w->message, ++w->serial, w->session, 0, 0);
        for (int i = 0; i < 128; i++) {
            watches++;
            htc__kv_watch_wish_write(&w->message, &(htc__kv_watch_wish){ .watch = watches, .kind = HTC__KV_WISH_KEY, .key = key(watches, 390) });
        }
        for (uint32_t i = 0; i < 128; i++)
            htc__kv_watch_wish_write(&w->message, &(htc__kv_watch_wish){ .watch = watches - i, .kind = HTC__KV_WISH_END });
        say(w, USER);
        begin(w);
        say(w, FROM_THIRD);
        pass_time(w, 10 * HTC_MS);
    }
    for (int i = 0; i < 50; i++)
        pass_time(w, 50 * HTC_MS);
    /* 65536 names of 390 bytes, and what belongs to each. */
    cr_expect(w->used - before < (size_t)64 << 20, "%zu MiB for %u watches", (w->used - before) >> 20, watches);
    close_world(w);
}
