/* The bridge between clients and a store that loses answers, makes changes late, and outlives bridges. */
#include "expect.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "htcsched/kv.h"
#include "htcsched/kv_bridge.h"
#include "kvs/wire/kv_wire.h"
#include "property.h"

#define CLIENTS 2
#define KEYS    8
#define WRITES  4096
#define CALLS   256
#define MARK    17

/* All that was ever written; 0 is no version. */
typedef struct write {
    uint32_t key;
    uint64_t mark_client;
    size_t   len;
    uint8_t  bytes[64];
} write;

typedef struct call {
    uint64_t tag;
    uint32_t bridge; /* of which bridge */
    uint32_t silent; /* its answer was lost already */
    size_t   len;
    uint8_t  body[512];
} call;

typedef struct rig {
    htc_rng        rng;
    htc_env        env;
    htc_kv_bridge *bridge;
    uint32_t       bridges, faults;
    htc_kv_client *client[CLIENTS];
    htc_output    *out, *out_bridge;
    htc_ns         now;
    write          written[WRITES];
    uint64_t       revision, at[KEYS]; /* version of each key; 0: absent */
    call           calls[CALLS];
    size_t         calls_n;
} rig;

static uint32_t key_of(htc_bytes key)
{
    HOLDS(key.len == 2);
    return (uint32_t)((const char *)key.data)[1] - '0';
}

static void from_client(rig *r, size_t i);

/* What the bridge says; and what comes of it. */
static void step_bridge(rig *r, const htc_input *given)
{
    htc_input  in = *given;
    htc_effect e;
    struct {
        size_t  client, len;
        uint8_t bytes[4096];
    } said[64];
    size_t n = 0;
    in.now = r->now;
    HOLDS(htc_kv_bridge_ops()->step(r->bridge, &in, r->out_bridge) == HTC_OK);
    for (size_t i = 0; htc_output_get(r->out_bridge, i, &e) == HTC_OK; i++) {
        if (e.kind == HTC_OUT_CALL) {
            HOLDS(e.op == HTC_KV_BRIDGE_ASK && r->calls_n < CALLS && e.body.len <= sizeof r->calls[0].body);
            call *c = &r->calls[r->calls_n++];
            *c = (call){ .tag = e.tag, .bridge = r->bridges, .len = e.body.len };
            memcpy(c->body, e.body.data, e.body.len);
        } else if (e.kind == HTC_OUT_MESSAGE) {
            HOLDS(n < 64 && e.body.len <= sizeof said[0].bytes);
            said[n].client = e.peer - 1;
            said[n].len = e.body.len;
            memcpy(said[n++].bytes, e.body.data, e.body.len);
        }
    }
    htc_output_clear(r->out_bridge);
    for (size_t i = 0; i < n; i++) {
        htc_input m = { .size = sizeof m, .now = r->now, .kind = HTC_IN_MESSAGE, .peer = (uint32_t)said[i].client + 1, .body = { said[i].bytes, said[i].len } };
        HOLDS(htc_kv_client_step(r->client[said[i].client], &m, r->out) == HTC_OK);
        from_client(r, said[i].client);
    }
}

static void from_client(rig *r, size_t client)
{
    struct {
        size_t  len;
        uint8_t bytes[4096];
    } said[64];
    htc_effect e;
    size_t     n = 0;
    for (size_t i = 0; htc_output_get(r->out, i, &e) == HTC_OK; i++) {
        if (e.kind != HTC_OUT_MESSAGE)
            continue;
        HOLDS(n < 64 && e.body.len <= sizeof said[0].bytes);
        said[n].len = e.body.len;
        memcpy(said[n++].bytes, e.body.data, e.body.len);
    }
    htc_output_clear(r->out);
    for (size_t i = 0; i < n; i++)
        step_bridge(r, &(htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_MESSAGE, .peer = (uint32_t)client + 1, .body = { said[i].bytes, said[i].len } });
}

static void tell_clients(rig *r, uint32_t kind)
{
    htc_input in = { .size = sizeof in, .kind = kind };
    for (size_t i = 0; i < CLIENTS; i++) {
        in.now = r->now;
        in.peer = kind == HTC_IN_TIMEOUT ? 0 : (uint32_t)i + 1;
        if (kind == HTC_IN_OPENED)
            step_bridge(r, &in);
        HOLDS(htc_kv_client_step(r->client[i], &in, r->out) == HTC_OK);
        from_client(r, i);
    }
}

static void begin_bridge(rig *r)
{
    r->bridges++;
    HOLDS(htc_kv_bridge_create(&r->env, &(htc_kv_bridge_options){ .size = sizeof(htc_kv_bridge_options) }, &r->bridge) == HTC_OK);
    step_bridge(r, &(htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_START });
    tell_clients(r, HTC_IN_OPENED);
}

static void kill_bridge(rig *r)
{
    htc_kv_bridge_destroy(r->bridge);
    r->bridge = NULL;
    tell_clients(r, HTC_IN_CLOSED);
    begin_bridge(r);
}

static void begin(rig *r, uint64_t seed, uint32_t faults)
{
    memset(r, 0, sizeof *r);
    r->rng = (htc_rng){ seed * 0x9e3779b97f4a7c15u };
    r->env = (htc_env){ .size = sizeof r->env, .rng = &r->rng };
    r->faults = faults;
    r->now = HTC_SECOND;
    HOLDS(htc_output_create(NULL, 0, &r->out) == HTC_OK && htc_output_create(NULL, 0, &r->out_bridge) == HTC_OK);
    for (size_t i = 0; i < CLIENTS; i++)
        HOLDS(htc_kv_client_create(NULL, &(htc_kv_client_options){ .size = sizeof(htc_kv_client_options), .client_id = 100 + i, .peer = (uint32_t)i + 1 }, &r->client[i]) ==
              HTC_OK);
    begin_bridge(r);
}

static void end(rig *r)
{
    htc_kv_bridge_destroy(r->bridge);
    for (size_t i = 0; i < CLIENTS; i++)
        htc_kv_client_destroy(r->client[i]);
    htc_output_destroy(r->out);
    htc_output_destroy(r->out_bridge);
}

static htc_bytes value_at(rig *r, uint64_t version)
{
    return (htc_bytes){ r->written[version].bytes, r->written[version].len };
}

/* What the store makes of a request. items: room. */
static htc_kv_result carry_out(rig *r, const htc_kv_request *q, htc_buf *items)
{
    htc_kv_result a = { .size = sizeof a, .op = q->op };
    if (q->op == HTC_KV_SCAN) {
        for (uint32_t k = 0; k < KEYS; k++) {
            char name[3];
            snprintf(name, sizeof name, "k%u", k);
            if (r->at[k]) {
                htc__kv_item_write(items, htc_bytes_of(name), r->at[k], value_at(r, r->at[k]));
                a.items++;
            }
        }
        a.items_bytes = htc_buf_bytes(items);
        return a;
    }
    uint32_t k = key_of(q->key);
    a.version = r->at[k];
    a.value = a.version ? value_at(r, a.version) : (htc_bytes){ NULL, 0 };
    if (q->op == HTC_KV_GET) {
        a.status = a.version ? HTC_OK : HTC_ENOTFOUND;
    } else if (q->version != r->at[k]) {
        a.status = HTC_MISMATCH;
    } else {
        HOLDS(q->op == HTC_KV_CAS_VERSION || (q->op == HTC_KV_DELETE && q->flags == HTC_KV_IF_VERSION));
        HOLDS(r->revision + 1 < WRITES);
        a = (htc_kv_result){ .size = sizeof a, .op = q->op, .version = ++r->revision };
        write *w = &r->written[r->revision];
        w->key = k;
        if (q->op == HTC_KV_CAS_VERSION) {
            HOLDS(q->value.len <= sizeof w->bytes && q->value.len >= MARK);
            w->len = q->value.len;
            memcpy(w->bytes, q->value.data, q->value.len);
            htc_reader m = htc_reader_of((htc_bytes){ w->bytes + w->len - MARK, MARK });
            w->mark_client = htc_get_u64(&m);
        }
        r->at[k] = q->op == HTC_KV_DELETE ? 0 : r->revision;
    }
    return a;
}

static void answer(rig *r, const call *c, htc_status status, const htc_kv_result *result)
{
    htc_buf body;
    if (c->bridge != r->bridges || c->silent)
        return;
    htc_buf_init(&body, NULL, 0);
    if (result)
        htc_kv_bridge_answer_write(&body, result);
    step_bridge(r, &(htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_RESULT, .op = HTC_KV_BRIDGE_ASK, .tag = c->tag, .status = status, .body = htc_buf_bytes(&body) });
    htc_buf_free(&body);
}

/* One of the calls, in any order, with or without its answer; or its answer is lost, and it comes later. */
static void turn(rig *r)
{
    if (r->calls_n == 0) {
        r->now += 100 * HTC_MS;
        step_bridge(r, &(htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_TIMEOUT });
        tell_clients(r, HTC_IN_TIMEOUT);
        return;
    }
    uint64_t chance = r->faults ? htc_rng_next(&r->rng) % 100 : 99;
    size_t   i = (size_t)(htc_rng_next(&r->rng) % r->calls_n);
    if (chance < 10 && !r->calls[i].silent) {
        call c = r->calls[i];
        r->calls[i].silent = 1;
        answer(r, &c, HTC_OK, &(htc_kv_result){ .size = sizeof(htc_kv_result), .status = HTC_EUNKNOWN });
        return;
    }
    call c = r->calls[i];
    r->calls[i] = r->calls[--r->calls_n];
    if (chance < 15) {
        answer(r, &c, HTC_ETIMEDOUT, NULL); /* not made */
        return;
    }
    htc_kv_request q = { .size = sizeof q };
    htc_buf        items;
    htc_buf_init(&items, NULL, 0);
    HOLDS(htc_kv_bridge_ask_read((htc_bytes){ c.body, c.len }, &q) == HTC_OK);
    htc_kv_result a = carry_out(r, &q, &items);
    if (chance < 25)
        answer(r, &c, HTC_EUNKNOWN, NULL); /* made, and not answered */
    else
        answer(r, &c, HTC_OK, &a);
    htc_buf_free(&items);
    if (chance == 25)
        kill_bridge(r);
}

static htc_kv_result ask(rig *r, size_t client, const htc_kv_request *q)
{
    htc_kv_result a = { .size = sizeof a };
    HOLDS(htc_kv_client_submit(r->client[client], r->now, q, 1, 1, r->out) == HTC_OK);
    from_client(r, client);
    for (size_t i = 0; !htc_kv_client_next(r->client[client], &a); i++) {
        HOLDS(i < 100000);
        turn(r);
    }
    return a;
}

#define REQUEST(...) (&(htc_kv_request){ .size = sizeof(htc_kv_request), __VA_ARGS__ })
#define TEXT(a, text) htc_bytes_equal((a).value, htc_bytes_of(text))

Test(kv_bridge, does_what_a_store_does)
{
    rig *r = malloc(sizeof *r);
    begin(r, 1, 0);
    htc_bytes k = htc_bytes_of("k1");
    cr_assert(ask(r, 0, REQUEST(.op = HTC_KV_GET, .key = k)).status == HTC_ENOTFOUND);
    cr_assert(ask(r, 0, REQUEST(.op = HTC_KV_PUT, .key = k, .value = htc_bytes_of("one"))).version == 1);
    htc_kv_result a = ask(r, 1, REQUEST(.op = HTC_KV_GET, .key = k));
    cr_assert(a.status == HTC_OK && a.version == 1 && TEXT(a, "one"));
    cr_assert(ask(r, 1, REQUEST(.op = HTC_KV_PUT, .key = k, .value = htc_bytes_of("two"))).version == 2);
    a = ask(r, 0, REQUEST(.op = HTC_KV_CAS_VERSION, .key = k, .version = 1, .value = htc_bytes_of("three")));
    cr_assert(a.status == HTC_MISMATCH && a.version == 2 && TEXT(a, "two"));
    cr_assert(ask(r, 0, REQUEST(.op = HTC_KV_CAS_VERSION, .key = k, .version = 2, .value = htc_bytes_of("three"))).version == 3);
    a = ask(r, 0, REQUEST(.op = HTC_KV_CAS_VERSION, .key = k, .value = htc_bytes_of("new")));
    cr_assert(a.status == HTC_MISMATCH && a.version == 3 && TEXT(a, "three"));
    cr_assert(ask(r, 0, REQUEST(.op = HTC_KV_ADD, .key = htc_bytes_of("k2"), .delta = 5)).number == 5);
    cr_assert(ask(r, 1, REQUEST(.op = HTC_KV_ADD, .key = htc_bytes_of("k2"), .delta = 5)).number == 10);
    a = ask(r, 0, REQUEST(.op = HTC_KV_SCAN, .key = htc_bytes_of("k")));
    htc_kv_item item;
    size_t      at = 0;
    cr_assert(a.items == 2 && htc_kv_result_item(&a, &at, &item) == HTC_OK && htc_bytes_equal(item.value, htc_bytes_of("three")) && item.version == 3);
    a = ask(r, 0, REQUEST(.op = HTC_KV_DELETE, .key = k, .flags = HTC_KV_IF_VERSION, .version = 2));
    cr_assert(a.status == HTC_MISMATCH && a.version == 3);
    cr_assert(ask(r, 0, REQUEST(.op = HTC_KV_DELETE, .key = k, .flags = HTC_KV_IF_VERSION, .version = 3)).status == HTC_OK);
    cr_assert(ask(r, 0, REQUEST(.op = HTC_KV_DELETE, .key = k)).status == HTC_ENOTFOUND);
    cr_assert(ask(r, 0, REQUEST(.op = HTC_KV_PUT, .key = k, .value = htc_bytes_of("x"), .ttl = HTC_SECOND)).status == HTC_EUNSUPPORTED);
    cr_assert(ask(r, 0, REQUEST(.op = HTC_KV_LEASE_GRANT, .ttl = HTC_SECOND)).status == HTC_EUNSUPPORTED);
    cr_assert(ask(r, 0, REQUEST(.op = HTC_KV_APPEND, .key = k, .value = htc_bytes_of("x"))).status == HTC_EUNSUPPORTED);
    end(r);
    free(r);
}

Test(kv_bridge, what_others_have_written_is_refused)
{
    rig *r = malloc(sizeof *r);
    begin(r, 1, 0);
    r->revision = r->at[3] = 1;
    r->written[1] = (write){ .key = 3, .len = 40 };
    cr_assert(ask(r, 0, REQUEST(.op = HTC_KV_GET, .key = htc_bytes_of("k3"))).status == HTC_ECORRUPT);
    cr_assert(ask(r, 0, REQUEST(.op = HTC_KV_PUT, .key = htc_bytes_of("k3"), .value = htc_bytes_of("x"))).status == HTC_ECORRUPT);
    cr_assert(ask(r, 0, REQUEST(.op = HTC_KV_SCAN, .key = htc_bytes_of("k"))).status == HTC_ECORRUPT);
    end(r);
    free(r);
}

Test(kv_bridge, counts_for_monitors)
{
    static const char *const lines[] = { "htc_kv_bridge_connections 2", "htc_kv_bridge_requests_held 0", "htc_kv_bridge_bytes_held 0", "htc_kv_bridge_answers_total 2",
                                         "htc_kv_bridge_calls_total 3", "htc_kv_bridge_repeats_total 1", "htc_kv_bridge_mismatches_total 1", "htc_kv_bridge_corrupt_total 0" };
    rig        *r = malloc(sizeof *r);
    htc_metrics *page;
    htc_bytes    text, k = htc_bytes_of("k1"), v = htc_bytes_of("one");
    begin(r, 1, 0);
    cr_assert(ask(r, 0, REQUEST(.op = HTC_KV_PUT, .key = k, .value = v)).version == 1);
    HOLDS(htc_kv_client_submit(r->client[0], r->now, REQUEST(.op = HTC_KV_CAS_VERSION, .key = k, .version = 1, .value = v), 1, 1, r->out) == HTC_OK);
    from_client(r, 0);
    cr_assert(r->calls_n == 1);
    call           c = r->calls[--r->calls_n];
    htc_kv_request q = { .size = sizeof q };
    HOLDS(htc_kv_bridge_ask_read((htc_bytes){ c.body, c.len }, &q) == HTC_OK);
    cr_assert(carry_out(r, &q, NULL).version == 2);
    answer(r, &c, HTC_EUNKNOWN, NULL); /* asked again, it finds its own mark */
    htc_kv_result a = { .size = sizeof a };
    for (int i = 0; !htc_kv_client_next(r->client[0], &a) && i < 100; i++)
        turn(r);
    cr_assert(a.status == HTC_OK && a.version == 2);
    cr_assert(htc_metrics_create(NULL, 64 << 10, &page) == HTC_OK);
    htc_kv_bridge_metrics(r->bridge, page);
    cr_assert(htc_metrics_end(page, &text) == HTC_OK);
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        const char *at = strstr(text.data, lines[i]);
        cr_expect(at && at[strlen(lines[i])] == '\n', "%s in %.*s", lines[i], (int)text.len, (const char *)text.data);
    }
    htc_metrics_destroy(page);
    end(r);
    free(r);
}

/* The next gateway writes the same bytes: who was first must not take them for its own. */
Test(kv_bridge, equal_bytes_of_another_are_not_its_own)
{
    rig *r = malloc(sizeof *r);
    begin(r, 1, 0);
    htc_bytes k = htc_bytes_of("k1"), v = htc_bytes_of("same");
    cr_assert(ask(r, 0, REQUEST(.op = HTC_KV_CAS_VERSION, .key = k, .value = v)).version == 1);
    HOLDS(htc_kv_client_submit(r->client[0], r->now, REQUEST(.op = HTC_KV_CAS_VERSION, .key = k, .version = 1, .value = v), 1, 1, r->out) == HTC_OK);
    from_client(r, 0);
    cr_assert(r->calls_n == 1);
    call           c = r->calls[--r->calls_n];
    htc_kv_request q = { .size = sizeof q };
    HOLDS(htc_kv_bridge_ask_read((htc_bytes){ c.body, c.len }, &q) == HTC_OK);
    cr_assert(carry_out(r, &q, NULL).version == 2); /* made; no answer yet */
    r->written[3] = r->written[2];                  /* another one seals it: the same value, its own mark */
    r->written[3].bytes[r->written[3].len - MARK] ^= 1;
    r->at[1] = r->revision = 3;
    answer(r, &c, HTC_EUNKNOWN, NULL);
    htc_kv_result a = { .size = sizeof a };
    for (int i = 0; !htc_kv_client_next(r->client[0], &a) && i < 100; i++)
        turn(r);
    cr_assert(a.status == HTC_MISMATCH && a.version == 3);
    end(r);
    free(r);
}

Test(kv_bridge, lost_answers_late_changes_and_killed_bridges)
{
    rig *r = malloc(sizeof *r);
    for (uint64_t seed = 1; seed <= 200; seed++) {
        begin(r, seed, 1);
        int64_t  sum = 0;
        uint64_t ok = 0;
        for (int i = 0; i < 30; i++) {
            char name[3], text[24];
            snprintf(name, sizeof name, "k%d", (int)(htc_rng_next(&r->rng) % 3));
            snprintf(text, sizeof text, "%d", i);
            size_t        client = (size_t)(htc_rng_next(&r->rng) % CLIENTS);
            htc_kv_result a = ask(r, client, REQUEST(.op = HTC_KV_GET, .key = htc_bytes_of(name)));
            uint64_t      version = a.status == HTC_OK ? a.version : 0;
            if (htc_rng_next(&r->rng) % 4 == 0 && version) {
                a = ask(r, client, REQUEST(.op = HTC_KV_DELETE, .key = htc_bytes_of(name), .flags = HTC_KV_IF_VERSION, .version = version));
                cr_assert(a.status == HTC_OK, "seed %d: a delete: %d", (int)seed, (int)a.status);
            } else {
                a = ask(r, client, REQUEST(.op = HTC_KV_CAS_VERSION, .key = htc_bytes_of(name), .version = version, .value = htc_bytes_of(text)));
                /* What was sent late by an earlier bridge may have created the key anew. */
                cr_assert(a.status == HTC_OK || (a.status == HTC_MISMATCH && version == 0), "seed %d: a swap: %d", (int)seed, (int)a.status);
                if (a.status == HTC_OK) {
                    const write *w = &r->written[a.version];
                    cr_assert(w->mark_client == 100 + client && htc_bytes_equal((htc_bytes){ w->bytes, w->len - MARK }, htc_bytes_of(text)), "seed %d", (int)seed);
                    ok++;
                }
            }
            a = ask(r, 0, REQUEST(.op = HTC_KV_ADD, .key = htc_bytes_of("k7"), .delta = 3));
            sum += 3;
            cr_assert(a.status == HTC_OK && a.number == sum, "seed %d: %d of %d", (int)seed, (int)a.number, (int)sum);
        }
        cr_assert(ok > 0);
        end(r);
    }
    free(r);
}
