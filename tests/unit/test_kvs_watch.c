/* Watches of one member: what watchers were told, against what is there, through loss, doubling, delay, lost connections, restarts
 * and failing commits. */
#include "kvs_world.h"

#include "alloc_fail.h"
#include "core/fault.h"
#include "htcsched/history.h"
#include "property.h"

#define KEYS     6
#define VALUES   4096
#define WATCHERS 3 /* clients that watch; the one behind them writes */
#define WATCHES  4

static const char *const keys[KEYS] = { "a", "a/1", "a/2", "a/2/x", "b", "b/1" };

static int key_number(htc_bytes key)
{
    for (int k = 0; k < KEYS; k++)
        if (htc_bytes_equal(key, B(keys[k])))
            return k;
    cr_fatal("a key that nobody wrote");
}

/* ---------------------------------------------------------------- an example */

static htc_kv_event event_of(world *w, int client)
{
    htc_kv_event e;
    for (int i = 0; i < 10000; i++) {
        if (htc_kv_client_event(w->client[client], &e))
            return e;
        turn(w);
    }
    cr_fatal("no event");
}

static void watch(world *w, int client, const char *key, uint32_t prefix, uint64_t version, uint64_t tag)
{
    htc_kv_watch x = { .size = sizeof x, .key = B(key), .prefix = prefix, .version = version, .tag = tag };
    cr_assert(eq(int, htc_kv_client_watch(w->client[client], w->now, &x, w->out), HTC_OK));
    carry_out(w, client);
}

static uint64_t put(world *w, const char *key, const char *value)
{
    return ask(w, 1, (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_PUT, .key = B(key), .value = B(value) }, NULL, 0).version;
}

static void expect(world *w, uint64_t tag, uint32_t kind, const char *key, const char *value, uint64_t version)
{
    htc_kv_event e = event_of(w, 0);
    cr_expect(eq(u64, e.tag, tag));
    cr_expect(eq(u32, e.kind, kind));
    cr_expect(htc_bytes_equal(e.key, B(key)), "%.*s, not %s", (int)e.key.len, (const char *)e.key.data, key);
    cr_expect(htc_bytes_equal(e.value, B(value)), "%.*s, not %s", (int)e.value.len, (const char *)e.value.data, value);
    cr_expect(eq(u64, e.version, version));
}

static void expect_nothing(world *w)
{
    htc_kv_event e;
    for (int i = 0; i < 300; i++, turn(w))
        cr_assert(htc_kv_client_event(w->client[0], &e) == 0, "event %u", e.kind);
}

Test(kvs_watch, a_key_is_told_as_it_is_and_as_it_becomes)
{
    world w;
    world_open(&w, 1, 2, calm);
    watch(&w, 0, "k", 0, 0, 7);
    expect(&w, 7, HTC_KV_EVENT_DELETED, "k", "", 0);
    expect(&w, 7, HTC_KV_EVENT_CURRENT, "", "", 0);
    uint64_t one = put(&w, "k", "one");
    expect(&w, 7, HTC_KV_EVENT_VALUE, "k", "one", one);
    put(&w, "another", "x");
    expect_nothing(&w);
    put(&w, "k", "two");
    uint64_t three = put(&w, "k", "three"); /* nobody has looked: what lay between may be merged */
    htc_kv_event e = event_of(&w, 0);
    if (htc_bytes_equal(e.value, B("two")))
        e = event_of(&w, 0);
    cr_expect(htc_bytes_equal(e.value, B("three")));
    cr_expect(eq(u64, e.version, three));
    htc_kv_result gone = ask(&w, 1, (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_DELETE, .key = B("k") }, NULL, 0);
    expect(&w, 7, HTC_KV_EVENT_DELETED, "k", "", gone.version);
    cr_expect(gone.version > three);
    cr_assert(eq(int, htc_kv_client_unwatch(w.client[0], w.now, 7, w.out), HTC_OK));
    carry_out(&w, 0);
    cr_assert(eq(int, htc_kv_client_unwatch(w.client[0], w.now, 7, w.out), HTC_ENOTFOUND));
    put(&w, "k", "four");
    expect_nothing(&w);
    world_close(&w);
}

/* Who comes back with a version is told only what is newer; who was cut off goes on as if it had not been. */
Test(kvs_watch, a_key_goes_on_where_it_was)
{
    world w;
    world_open(&w, 2, 2, calm);
    uint64_t one = put(&w, "k", "one");
    watch(&w, 0, "k", 0, one, 1);
    expect(&w, 1, HTC_KV_EVENT_CURRENT, "", "", 0);
    w.link[0] = 0;
    turn(&w);
    expect_nothing(&w);
    server_kill(&w);
    server_start(&w);
    uint64_t two = put(&w, "k", "two");
    expect(&w, 1, HTC_KV_EVENT_VALUE, "k", "two", two);
    expect_nothing(&w);
    world_close(&w);
}

Test(kvs_watch, a_prefix_is_told_page_by_page_and_starts_over_after_a_cut)
{
    world    w;
    char     key[16];
    uint64_t version[2500];
    world_open(&w, 3, 2, calm);
    for (int i = 0; i < 2500; i++) {
        snprintf(key, sizeof key, "p%04d", i);
        version[i] = put(&w, key, "v");
    }
    put(&w, "q", "not under it");
    watch(&w, 0, "p", 1, 0, 9);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 2500; i++) {
            snprintf(key, sizeof key, "p%04d", i);
            expect(&w, 9, HTC_KV_EVENT_VALUE, key, "v", version[i]);
        }
        expect(&w, 9, HTC_KV_EVENT_CURRENT, "", "", 0);
        if (round == 0) {
            w.link[0] = 0;
            turn(&w);
            expect(&w, 9, HTC_KV_EVENT_START_OVER, "", "", 0);
        }
    }
    htc_kv_result gone = ask(&w, 1, (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_DELETE, .key = B("p0007") }, NULL, 0);
    expect(&w, 9, HTC_KV_EVENT_DELETED, "p0007", "", gone.version);
    expect_nothing(&w);
    world_close(&w);
}

/* What one message cannot say waits until the server has heard some of it, in a new session too; saying the same again brings nothing. */
Test(kvs_watch, more_watches_than_a_message_says)
{
    enum { MANY = 600 };
    world w;
    char  key[16];
    world_open(&w, 6, 2, calm);
    for (int i = 0; i < MANY; i++) {
        snprintf(key, sizeof key, "k%03d", i);
        watch(&w, 0, key, 0, 0, (uint64_t)i + 1);
    }
    for (int current = 0; current < MANY;)
        current += event_of(&w, 0).kind == HTC_KV_EVENT_CURRENT;
    w.link[0] = 0;
    turn(&w);
    for (int i = 0; i < MANY; i += 100) {
        snprintf(key, sizeof key, "k%03d", MANY - 1 - i);
        uint64_t version = put(&w, key, "v");
        expect(&w, (uint64_t)(MANY - i), HTC_KV_EVENT_VALUE, key, "v", version);
    }
    expect_nothing(&w);
    world_close(&w);
}

/* A key that ends by itself, with its ttl or with its lease, is a deletion like any other. */
Test(kvs_watch, an_end_by_itself_is_told)
{
    world w;
    world_open(&w, 4, 2, calm);
    watch(&w, 0, "", 1, 0, 1);
    expect(&w, 1, HTC_KV_EVENT_CURRENT, "", "", 0);
    uint64_t lease = ask(&w, 1, (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_LEASE_GRANT, .ttl = 50 * HTC_MS }, NULL, 0).lease;
    htc_kv_result r = ask(
        &w, 1, (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_PUT, .key = B("bound"), .value = B("x"), .lease = lease }, NULL, 0);
    expect(&w, 1, HTC_KV_EVENT_VALUE, "bound", "x", r.version);
    htc_kv_event e = event_of(&w, 0);
    cr_expect(eq(u32, e.kind, HTC_KV_EVENT_DELETED));
    cr_expect(e.version > r.version);
    r = ask(&w, 1, (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_PUT, .key = B("short"), .value = B("y"), .ttl = 50 * HTC_MS }, NULL, 0);
    expect(&w, 1, HTC_KV_EVENT_VALUE, "short", "y", r.version);
    e = event_of(&w, 0);
    cr_expect(eq(u32, e.kind, HTC_KV_EVENT_DELETED));
    cr_expect(e.version > r.version);
    cr_expect(htc_bytes_equal(e.key, B("short")));
    world_close(&w);
}

/* ---------------------------------------------------------------- limits */

static void client_anew(world *w, int i, uint32_t watches_max, uint32_t keys_max)
{
    htc_kv_client_options o = { .size = sizeof o, .client_id = 99, .peer = PEER, .retry_ns = 20 * HTC_MS,
                                .watches_max = watches_max, .watch_keys_max = keys_max };
    htc_kv_client_destroy(w->client[i]);
    cr_assert(eq(int, htc_kv_client_create(&w->env, &o, &w->client[i]), HTC_OK));
    w->link[i] = 0;
}

Test(kvs_watch, limits_are_refused_in_words)
{
    world        w;
    htc_kv_watch x = { .size = sizeof x, .key = B("c"), .tag = 3 };
    world_open(&w, 5, 2, calm);
    server_kill(&w);
    w.options.watches_max = 2;
    server_start(&w);
    client_anew(&w, 0, 3, 2);
    watch(&w, 0, "a", 0, 0, 1);
    watch(&w, 0, "b", 0, 0, 2);
    cr_expect(eq(int, htc_kv_client_watch(w.client[0], 0, &(htc_kv_watch){ .size = sizeof x, .key = B("z"), .tag = 1 }, w.out), HTC_EEXISTS));
    watch(&w, 0, "c", 0, 0, 3);
    cr_expect(eq(int, htc_kv_client_watch(w.client[0], 0, &(htc_kv_watch){ .size = sizeof x, .key = B("z"), .tag = 4 }, w.out), HTC_EFULL));
    htc_kv_event e;
    do
        e = event_of(&w, 0);
    while (e.kind != HTC_KV_EVENT_ENDED);
    cr_expect(eq(u64, e.tag, 3));
    cr_expect(eq(int, e.status, HTC_EFULL));
    while (htc_kv_client_event(w.client[0], &e)) {
    }
    cr_assert(eq(int, htc_kv_client_unwatch(w.client[0], w.now, 1, w.out), HTC_OK));
    carry_out(&w, 0);
    watch(&w, 0, "", 1, 0, 3); /* its tag is free, and so is a place at the server */
    do
        e = event_of(&w, 0);
    while (e.kind != HTC_KV_EVENT_CURRENT || e.tag != 3);
    put(&w, "1", "x");
    cr_expect(eq(u32, event_of(&w, 0).kind, HTC_KV_EVENT_VALUE));
    put(&w, "2", "x");
    cr_expect(eq(u32, event_of(&w, 0).kind, HTC_KV_EVENT_VALUE));
    ask(&w, 1, (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_DELETE, .key = B("1") }, NULL, 0);
    cr_expect(eq(u32, event_of(&w, 0).kind, HTC_KV_EVENT_DELETED));
    put(&w, "3", "x"); /* a deleted one makes room for it */
    cr_expect(eq(u32, event_of(&w, 0).kind, HTC_KV_EVENT_VALUE));
    put(&w, "4", "x");
    e = event_of(&w, 0);
    cr_expect(eq(u32, e.kind, HTC_KV_EVENT_ENDED), "three keys of two");
    cr_expect(eq(int, e.status, HTC_EFULL));
    x.key = (htc_bytes){ NULL, 0 };
    cr_expect(eq(int, htc_kv_client_watch(w.client[0], 0, &x, w.out), HTC_EINVAL));
    x.prefix = 1;
    x.version = 1;
    cr_expect(eq(int, htc_kv_client_watch(w.client[0], 0, &x, w.out), HTC_EINVAL));
    world_close(&w);
}

/* ---------------------------------------------------------------- any order */

/* What a user of a watch knows. */
typedef struct known {
    uint64_t version;
    int      there;
    char     value[16];
} known;

typedef struct view {
    int      used, prefix, current;
    char     key[8];
    uint64_t tag;
    known    known[KEYS];
} view;

typedef struct story {
    world    w;
    htc_history *history;
    uint32_t key[KEYS];
    int      tolerant, noticed; /* what should not be is noted, not failed */
    view     views[WATCHERS][WATCHES];
    char     value[VALUES][16]; /* by version; "": not seen yet, "-": deleted */
    uint64_t tags;
    int      written, busy;
    uint64_t lease;
    size_t   events, overs;
} story;

#define RIGHT(s, ...)                                                                                                  \
    do {                                                                                                               \
        if ((s)->tolerant)                                                                                             \
            (s)->noticed |= !(__VA_ARGS__);                                                                            \
        else                                                                                                           \
            HOLDS(__VA_ARGS__);                                                                                        \
    } while (0)

static size_t note(story *s, htc_history_op op)
{
    size_t at;
    HOLDS(htc_history_add(s->history, &op, &at) == HTC_OK);
    return at;
}

static htc_history_op op_of(const story *s, uint32_t kind, int k, uint64_t process)
{
    htc_history_op op = HTC_HISTORY_OP_INIT;
    op.kind = kind;
    op.key = s->key[k];
    op.process = process;
    op.invoked = s->w.now;
    return op;
}

/* Of a single key: the rule does not know that a prefix tells by its CURRENT what is not there. */
static void note_watch(story *s, const view *v, uint32_t kind)
{
    if (v->prefix)
        return;
    htc_history_op op = op_of(s, kind, key_number(B(v->key)), v->tag + 1000);
    op.outcome = HTC_HISTORY_DONE;
    op.returned = s->w.now;
    note(s, op);
}

static void note_event(story *s, const view *v, int k, const htc_kv_event *e)
{
    htc_history_op op = op_of(s, HTC_HISTORY_EVENT, k, v->tag + 1000);
    op.outcome = HTC_HISTORY_DONE;
    op.returned = s->w.now;
    op.version = e->version;
    op.observed = (htc_history_value){ 0, HTC_HISTORY_ABSENT, HTC_HISTORY_NO_NUMBER };
    if (e->kind == HTC_KV_EVENT_VALUE)
        op.observed = htc_history_value_of(e->value);
    if (e->version && !v->prefix) /* 0: nothing that is known of: no state in a history */
        note(s, op);
}

static int watched(const view *v, int k)
{
    return v->prefix ? strncmp(keys[k], v->key, strlen(v->key)) == 0 : strcmp(keys[k], v->key) == 0;
}

/* Whoever is told a version is told the same of it. */
static void agrees(story *s, uint64_t version, htc_bytes value, int deleted)
{
    char text[16] = "-";
    HOLDS(version < VALUES);
    if (!deleted)
        snprintf(text, sizeof text, "%.*s", (int)value.len, (const char *)value.data);
    if (deleted && s->value[version][0] == 0)
        return; /* a floor is the version of other keys too */
    if (s->value[version][0])
        HOLDS(deleted || strcmp(s->value[version], text) == 0);
    memcpy(s->value[version], text, sizeof text);
}

static void told(story *s, int c, const htc_kv_event *e)
{
    view *v = NULL;
    for (int i = 0; i < WATCHES; i++)
        if (s->views[c][i].used && s->views[c][i].tag == e->tag)
            v = &s->views[c][i];
    HOLDS(v != NULL);
    s->events++;
    if (e->kind == HTC_KV_EVENT_START_OVER) {
        HOLDS(v->prefix);
        memset(v->known, 0, sizeof v->known);
        v->current = 0;
        s->overs++;
        return;
    }
    if (e->kind == HTC_KV_EVENT_CURRENT) {
        HOLDS(v->prefix || !v->current);
        v->current = 1;
        return;
    }
    HOLDS(e->kind == HTC_KV_EVENT_VALUE || e->kind == HTC_KV_EVENT_DELETED);
    int    k = key_number(e->key), deleted = e->kind == HTC_KV_EVENT_DELETED;
    known *n = &v->known[k];
    HOLDS(watched(v, k));
    note_event(s, v, k, e);
    RIGHT(s, e->version > n->version || (deleted && e->version == 0 && n->version == 0 && !n->there));
    agrees(s, e->version, e->value, deleted);
    n->version = e->version;
    n->there = !deleted;
    snprintf(n->value, sizeof n->value, "%.*s", (int)e->value.len, (const char *)e->value.data);
}

static void look(story *s, int c)
{
    htc_kv_event e;
    while (htc_kv_client_event(s->w.client[c], &e))
        told(s, c, &e);
}

static void begin_or_end(story *s, int c)
{
    static const char *const prefixes[] = { "", "a", "a/", "a/2", "b/", "c" };
    world                   *w = &s->w;
    view                    *v = &s->views[c][htc_rng_below(&w->rng, WATCHES)];
    if (v->used) {
        v->used = 0;
        HOLDS(htc_kv_client_unwatch(w->client[c], w->now, v->tag, w->out) == HTC_OK);
        carry_out(w, c);
        note_watch(s, v, HTC_HISTORY_UNWATCH);
        return;
    }
    memset(v, 0, sizeof *v);
    v->used = 1;
    v->tag = ++s->tags;
    v->prefix = chance(w, 500);
    snprintf(v->key, sizeof v->key, "%s", v->prefix ? prefixes[htc_rng_below(&w->rng, 6)] : keys[htc_rng_below(&w->rng, KEYS)]);
    watch(w, c, v->key, (uint32_t)v->prefix, 0, v->tag);
    note_watch(s, v, HTC_HISTORY_WATCH);
}

static void write_something(story *s)
{
    world         *w = &s->w;
    char           value[16];
    int            k = (int)htc_rng_below(&w->rng, KEYS);
    htc_kv_request q = { .size = sizeof q, .op = HTC_KV_PUT, .key = B(keys[k]) };
    htc_history_op op = op_of(s, HTC_HISTORY_PUT, k, 1);
    size_t         at = SIZE_MAX;
    snprintf(value, sizeof value, "v%d", ++s->written);
    q.value = B(value);
    switch (htc_rng_below(&w->rng, 8)) {
    case 0:
    case 1:
        q = (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_DELETE, .key = q.key };
        break;
    case 2:
        q.op = HTC_KV_APPEND;
        break;
    case 3:
        q.ttl = (1 + htc_rng_below(&w->rng, 40)) * HTC_MS;
        break;
    case 4:
        if (s->lease)
            q.lease = s->lease;
        else
            q = (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_LEASE_GRANT, .ttl = (1 + htc_rng_below(&w->rng, 100)) * HTC_MS };
        break;
    default:
        break;
    }
    if (q.op == HTC_KV_DELETE)
        op.kind = HTC_HISTORY_DELETE;
    else if (q.op == HTC_KV_APPEND)
        op.kind = HTC_HISTORY_APPEND;
    if (q.op != HTC_KV_DELETE)
        op.argument = htc_history_value_of(q.value);
    if (q.op != HTC_KV_LEASE_GRANT)
        at = note(s, op);
    HOLDS(htc_kv_client_submit(w->client[WATCHERS], w->now, &q, 1, at, w->out) == HTC_OK);
    carry_out(w, WATCHERS);
    s->busy++;
}

static void take_answers(story *s)
{
    htc_kv_result r = { .size = sizeof r };
    while (htc_kv_client_next(s->w.client[WATCHERS], &r)) {
        s->busy--;
        if (r.tag != SIZE_MAX && r.status != HTC_EUNKNOWN) {
            htc_history_op op = HTC_HISTORY_OP_INIT;
            op.outcome = r.status == HTC_OK ? HTC_HISTORY_DONE : r.status == HTC_ENOTFOUND ? HTC_HISTORY_MISSED : HTC_HISTORY_REFUSED;
            op.returned = s->w.now;
            op.version = r.status == HTC_OK ? r.version : 0;
            op.number = r.op == HTC_KV_APPEND && r.status == HTC_OK ? r.number : HTC_HISTORY_NO_NUMBER;
            HOLDS(htc_history_answer(s->history, r.tag, &op) == HTC_OK);
        }
        if (r.op == HTC_KV_LEASE_GRANT && r.status == HTC_OK)
            s->lease = r.lease;
        else if (r.status == HTC_ENOTFOUND && r.op == HTC_KV_PUT)
            s->lease = 0;
    }
}

/* Appends make long values, of which the beginning is compared. */
static void judge(story *s, const view *v)
{
    for (int k = 0; k < KEYS; k++) {
        char          text[16];
        const known  *n = &v->known[k];
        htc_kv_result r = ask(&s->w, WATCHERS, (htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_GET, .key = B(keys[k]) }, text, sizeof text);
        if (!watched(v, k))
            HOLDS(n->version == 0);
        else if (r.status == HTC_OK)
            RIGHT(s, n->there && n->version == r.version && strcmp(n->value, text) == 0);
        else
            RIGHT(s, r.status == HTC_ENOTFOUND && !n->there);
    }
    HOLDS(v->current);
}

/* By the rule for watches, which knows nothing of this test: what a watch that is not ended has to have told by now. */
static void judge_history(story *s)
{
    htc_history_verdict v;
    htc_history_rules   rules = { .size = sizeof rules, .settle_ns = 3600 * HTC_SECOND };
    s->w.now += 7200 * HTC_SECOND;
    for (int k = 0; k < KEYS; k++) { /* with this every key ends */
        htc_history_op op = op_of(s, HTC_HISTORY_PUT, k, 1);
        op.outcome = HTC_HISTORY_REFUSED;
        op.returned = s->w.now;
        note(s, op);
    }
    HOLDS(htc_history_watched(s->history, &rules, &v) == HTC_OK);
    RIGHT(s, v.answer != HTC_HISTORY_BROKEN);
}

/* 1: something was noticed, which fails the test unless it is tolerant. */
static int run_story(uint64_t seed, faults f, htc_status disk, uint32_t marks_max, int tolerant, size_t *events, size_t *overs)
{
    story *s = calloc(1, sizeof *s);
    world *w = &s->w;
    s->tolerant = tolerant;
    HOLDS(htc_history_create(NULL, NULL, &s->history) == HTC_OK);
    for (int k = 0; k < KEYS; k++)
        HOLDS(htc_history_key(s->history, B(keys[k]), &s->key[k]) == HTC_OK);
    world_open(w, seed, WATCHERS + 1, f);
    server_kill(w);
    w->options.watch_marks_max = marks_max;
    w->options.tombstones_max = 3;
    server_start(w);
    for (int i = 0; i < 600 || s->busy; i++) {
        int c = (int)htc_rng_below(&w->rng, WATCHERS);
        if (i < 600 && chance(w, 60))
            begin_or_end(s, c);
        if (i < 600 && s->busy < 4 && chance(w, 400))
            write_something(s);
        if (chance(w, 300))
            look(s, c);
        w->commit_status = chance(w, 30) ? disk : HTC_OK;
        turn(w);
        take_answers(s);
    }
    w->commit_status = HTC_OK;
    w->f = calm;
    for (int i = 0; i < 1500; i++, turn(w)) /* each of which is something that happens, or nothing that could */
        for (int c = 0; c < WATCHERS; c++)
            look(s, c);
    for (int c = 0; c < WATCHERS; c++)
        for (int i = 0; i < WATCHES; i++)
            if (s->views[c][i].used)
                judge(s, &s->views[c][i]);
    judge_history(s);
    *events += s->events;
    *overs += s->overs;
    int noticed = s->noticed;
    htc_history_destroy(s->history);
    world_close(w);
    free(s);
    return noticed;
}

/* Whatever happens on the way, in the end every watch has told the last state of all that it watches, versions of each key only rose,
 * and nobody was told two values of one version. */
Test(kvs_watch, the_last_state_always_comes)
{
    size_t events = 0, overs = 0;
    PROPERTY_ALL (rng, 60)
        run_story(rng.state, bad, HTC_OK, 0, 0, &events, &overs);
    cr_expect(events > 1000 && overs > 10, "%zu events, %zu of them to start over", events, overs);
}

Test(kvs_watch, the_last_state_comes_after_batches_that_failed)
{
    size_t events = 0, overs = 0;
    PROPERTY (rng, 40)
        run_story(rng.state + 5000, bad, HTC_ENOSPC, 0, 0, &events, &overs);
}

/* So few marks that a watch of many keys starts over again and again: without any fault that is the only reason for it. */
Test(kvs_watch, too_many_marks_make_a_prefix_start_over)
{
    size_t events = 0, overs = 0;
    PROPERTY_ALL (rng, 40)
        run_story(rng.state + 9000, (faults){ .delay = HTC_MS }, HTC_OK, 2, 0, &events, &overs);
    cr_expect(overs > 10, "%zu", overs);
}

/* What would be a mistake is one that this test sees. */
Test(kvs_watch, a_broken_rule_is_noticed)
{
    static const char *const rules[] = { "mark_lost", "state_told_twice" };
    for (size_t i = 0; i < mistakes_of(sizeof rules / sizeof *rules); i++) {
        size_t   events = 0, overs = 0;
        uint64_t seed = 1;
        htc__broken_set(htc__broken_find(rules[i]), 1);
        while (seed <= 200 && !run_story(seed, bad, HTC_OK, 0, 1, &events, &overs))
            seed++;
        htc__broken_set(htc__broken_find(rules[i]), 0);
        cr_assert(seed <= 200, "%s was not noticed", rules[i]);
    }
}

/* ---------------------------------------------------------------- memory */

/* One watcher and one writer, each input handed over by hand; refused memory ends the server with HTC_ENOMEM, and no more. */
static htc_status scenario(const htc_env *env)
{
    world      w = { .rng = { 7 }, .commit_at = HTC_NEVER };
    htc_status status = HTC_ENOMEM;
    w.env = *env;
    w.env.rng = &w.rng;
    htc_kv_engine         engine = { 0 };
    htc_kv_server_options so = { .size = sizeof so, .watch_marks_max = 4 };
    htc_kv_client_options co = { .size = sizeof co, .client_id = 5, .peer = PEER };
    htc_output           *out = NULL, *back = NULL;
    htc_kv_server        *server = NULL;
    htc_kv_client        *client = NULL;
    if (htc_output_create(env, 0, &out) != HTC_OK || htc_output_create(env, 0, &back) != HTC_OK ||
        htc_kv_server_create(&w.env, &so, &server) != HTC_OK || htc_kv_client_create(&w.env, &co, &client) != HTC_OK)
        goto end;
    htc_ns    now = 0;
    htc_input in = { .size = sizeof in, .kind = HTC_IN_START };
    if ((status = htc_kv_server_ops()->step(server, &in, out)) != HTC_OK)
        goto end;
    in = (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_OPENED, .peer = 1 };
    if ((status = htc_kv_server_ops()->step(server, &in, out)) != HTC_OK ||
        (status = htc_kv_client_step(client, &in, back)) != HTC_OK)
        goto end;
    for (int i = 0; i < 60; i++) {
        htc_effect e;
        char       key[8];
        now += HTC_MS;
        if (i % 20 == 5) {
            htc_kv_watch x = { .size = sizeof x, .key = B(i == 5 ? "k" : "k3"), .prefix = i == 5, .tag = (uint64_t)i };
            if ((status = htc_kv_client_watch(client, now, &x, back)) != HTC_OK)
                goto end;
        }
        snprintf(key, sizeof key, "k%d", i % 7);
        htc_kv_request q = { .size = sizeof q, .op = i % 3 ? HTC_KV_PUT : HTC_KV_DELETE, .key = B(key), .value = B(i % 3 ? "v" : "") };
        if ((status = htc_kv_client_submit(client, now, &q, 1, 1, back)) != HTC_OK)
            goto end;
        for (size_t j = 0; htc_output_get(back, j, &e) == HTC_OK; j++) {
            in = (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_MESSAGE, .peer = 1, .now = now, .body = e.body };
            if ((status = htc_kv_server_ops()->step(server, &in, out)) != HTC_OK)
                goto end;
        }
        htc_output_clear(back);
        for (size_t j = 0; htc_output_get(out, j, &e) == HTC_OK; j++) {
            in = (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_MESSAGE, .peer = 1, .now = now, .body = e.body };
            if ((status = htc_kv_client_step(client, &in, back)) != HTC_OK)
                goto end;
        }
        htc_output_clear(out);
        htc_kv_result r = { .size = sizeof r };
        while (htc_kv_client_next(client, &r)) {
        }
        htc_kv_event event;
        while (i % 4 == 0 && htc_kv_client_event(client, &event)) {
        }
    }
end:
    htc_kv_client_destroy(client);
    htc_kv_server_destroy(server);
    htc_output_destroy(out);
    htc_output_destroy(back);
    (void)engine;
    return status;
}

Test(kvs_watch, every_allocation_may_be_refused)
{
    ALLOC_FAIL_EVERY (f, 20000) {
        htc_env    env = alloc_fail_env(&f);
        htc_status status = scenario(&env);
        cr_assert(status == HTC_OK || status == HTC_ENOMEM, "%s", htc_status_name(status));
        cr_assert(eq(sz, f.live, 0), "allocation %zu: leak", f.fail_at);
        cr_assert(eq(sz, f.wrong_sizes, 0));
    }
    ALLOC_FAIL_ONCE (f, 20000) {
        htc_env    env = alloc_fail_env(&f);
        htc_status status = scenario(&env);
        cr_assert(status == HTC_OK || status == HTC_ENOMEM, "%s", htc_status_name(status));
        cr_assert(eq(sz, f.live, 0), "allocation %zu: leak", f.fail_at);
    }
}
