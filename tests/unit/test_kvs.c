/* Client and server joined by a pipe that loses, doubles, delays and reorders, over a server that is killed and started
 * again from what was committed; checked against a slow and obvious model. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "htcsched/kv_server.h"
#include "kvs/batch.h"
#include "kvs/kv_wire.h"
#include "kvs/record.h"
#include "kvs/table.h"

#include "alloc_fail.h"

#define CLIENTS 20
#define PEER 1

static htc_bytes B(const char *s)
{
    return htc_bytes_of(s);
}

/* ---------------------------------------------------------------- the world */

typedef struct packet {
    struct packet *next;
    htc_ns         at;
    int            to_server, client;
    unsigned       link; /* the connection it belongs to */
    size_t         len;
    uint8_t        data[];
} packet;

typedef struct faults {
    unsigned lose, doubled, late; /* in 1000 */
    unsigned cut, kill;           /* in 10000 turns */
    htc_ns   delay;
} faults;

typedef struct world {
    htc_rng        rng;
    htc_env        env;
    faults         f;
    htc_ns         now;
    htc_kv_engine  engine;
    htc_kv_server *server;
    htc_kv_client *client[CLIENTS];
    unsigned       link[CLIENTS]; /* 0: cut */
    unsigned       links;
    int            clients;
    packet        *packets;
    htc_output    *out;
    htc_buf        commit; /* in flight */
    uint64_t       commit_tag;
    htc_ns         commit_at; /* HTC_NEVER: none */
    htc_status     commit_status; /* what the next ones say */
    htc_status     stopped;
    unsigned       commits, kills;
    htc_kv_server_options options;
} world;

static void post(world *w, int to_server, int client, htc_bytes body, htc_ns delay)
{
    packet *p = malloc(sizeof *p + body.len), **at = &w->packets;
    *p = (packet){ .at = w->now + delay, .to_server = to_server, .client = client, .link = w->link[client], .len = body.len };
    memcpy(p->data, body.data, body.len);
    while (*at && (*at)->at <= p->at)
        at = &(*at)->next;
    p->next = *at;
    *at = p;
}

static int chance(world *w, unsigned of_thousand)
{
    return htc_rng_below(&w->rng, 1000) < of_thousand;
}

static void travel(world *w, int to_server, int client, htc_bytes body)
{
    if (!w->link[client] || chance(w, w->f.lose))
        return;
    int copies = chance(w, w->f.doubled) ? 2 : 1;
    for (int i = 0; i < copies; i++) {
        htc_ns delay = 1000 + htc_rng_below(&w->rng, w->f.delay + 1);
        post(w, to_server, client, body, chance(w, w->f.late) ? delay * 1000 : delay);
    }
}

static void close_link(world *w, int client);

static void carry_out(world *w, int client) /* -1: of the server */
{
    for (size_t i = 0; i < htc_output_count(w->out); i++) {
        htc_effect e;
        htc_output_get(w->out, i, &e);
        if (e.kind == HTC_OUT_MESSAGE)
            travel(w, client >= 0, client >= 0 ? client : (int)e.peer - 1, e.body);
        else if (e.kind == HTC_OUT_CLOSE)
            close_link(w, (int)e.peer - 1);
        else if (e.kind == HTC_OUT_STOP)
            w->stopped = e.status;
        else if (e.kind == HTC_OUT_COMMIT) {
            cr_assert(w->commit_at == HTC_NEVER, "two commits in flight");
            htc_buf_clear(&w->commit);
            htc_put_raw(&w->commit, e.body);
            w->commit_tag = e.tag;
            w->commit_at = w->now + 1000 + htc_rng_below(&w->rng, w->f.delay + 1);
        }
    }
    htc_output_clear(w->out);
}

static void server_input(world *w, htc_input in)
{
    in.now = w->now;
    if (!w->server || w->stopped != HTC_AGAIN)
        return;
    cr_assert(eq(int, htc_kv_server_ops()->step(w->server, &in, w->out), HTC_OK));
    carry_out(w, -1);
}

static void client_input(world *w, int client, htc_input in)
{
    in.now = w->now;
    cr_assert(eq(int, htc_kv_client_step(w->client[client], &in, w->out), HTC_OK));
    carry_out(w, client);
}

static void close_link(world *w, int client)
{
    if (!w->link[client])
        return;
    w->link[client] = 0;
    /* Told through the next turn: the machine that asked for it is in its step now. */
}

static void server_start(world *w)
{
    w->options.size = sizeof w->options;
    w->options.engine = w->engine;
    cr_assert(eq(int, htc_kv_server_create(&w->env, &w->options, &w->server), HTC_OK));
    w->stopped = HTC_AGAIN;
    server_input(w, (htc_input){ .kind = HTC_IN_START });
}

/* A commit in flight at the kill is on the disk or is not: nobody was told. */
static void server_kill(world *w)
{
    htc_kv_server_destroy(w->server);
    w->server = NULL;
    w->kills++;
    if (w->commit_at != HTC_NEVER && chance(w, 500))
        cr_assert(eq(int, w->engine.ops->apply(w->engine.ctx, htc_buf_bytes(&w->commit)), HTC_OK));
    w->commit_at = HTC_NEVER;
    for (int i = 0; i < w->clients; i++)
        w->link[i] = 0;
}

static void world_open(world *w, uint64_t seed, int clients, faults f)
{
    memset(w, 0, sizeof *w);
    w->rng.state = seed;
    w->f = f;
    w->clients = clients;
    w->env = (htc_env){ .size = sizeof w->env, .rng = &w->rng };
    w->commit_at = HTC_NEVER;
    htc_buf_init(&w->commit, NULL, 0);
    cr_assert(eq(int, htc_kv_memory_create(&w->env, &w->engine), HTC_OK));
    cr_assert(eq(int, htc_output_create(&w->env, 0, &w->out), HTC_OK));
    server_start(w);
    for (int i = 0; i < clients; i++) {
        htc_kv_client_options o = { .size = sizeof o, .client_id = seed * 1000 + (uint64_t)i + 1, .peer = PEER,
                                    .retry_ns = 20 * HTC_MS };
        cr_assert(eq(int, htc_kv_client_create(&w->env, &o, &w->client[i]), HTC_OK));
    }
}

static void world_close(world *w)
{
    for (packet *p = w->packets, *next; p; p = next) {
        next = p->next;
        free(p);
    }
    for (int i = 0; i < w->clients; i++)
        htc_kv_client_destroy(w->client[i]);
    htc_kv_server_destroy(w->server);
    w->engine.ops->destroy(w->engine.ctx);
    htc_output_destroy(w->out);
    htc_buf_free(&w->commit);
}

static void reconnect(world *w, int i)
{
    htc_buf info;
    htc_buf_init(&info, NULL, 0);
    htc_peer_info_write(&info, &(htc_peer_info){ HTC_TRANSPORT_SIM, 0, 0, 0 });
    w->link[i] = ++w->links;
    server_input(w, (htc_input){ .kind = HTC_IN_CLOSED, .peer = (uint32_t)i + 1 });
    server_input(w, (htc_input){ .kind = HTC_IN_OPENED, .peer = (uint32_t)i + 1, .body = htc_buf_bytes(&info) });
    client_input(w, i, (htc_input){ .kind = HTC_IN_CLOSED, .peer = PEER });
    client_input(w, i, (htc_input){ .kind = HTC_IN_OPENED, .peer = PEER, .body = htc_buf_bytes(&info) });
    htc_buf_free(&info);
}

static void deliver(world *w)
{
    packet *p = w->packets;
    w->packets = p->next;
    /* A copy may even wander into the next connection of the same pair. */
    if (w->link[p->client] && (w->link[p->client] == p->link || w->f.late)) {
        htc_input in = { .kind = HTC_IN_MESSAGE, .peer = PEER, .body = { p->data, p->len } };
        if (p->to_server) {
            in.peer = (uint32_t)p->client + 1;
            server_input(w, in);
        } else {
            client_input(w, p->client, in);
        }
    }
    free(p);
}

/* One thing happens. */
static void turn(world *w)
{
    for (int i = 0; i < w->clients; i++)
        if (htc_rng_below(&w->rng, 10000) < w->f.cut)
            w->link[i] = 0;
    if (htc_rng_below(&w->rng, 10000) < w->f.kill || (w->server && w->stopped != HTC_AGAIN)) {
        server_kill(w);
        w->now += htc_rng_below(&w->rng, 30 * HTC_MS);
        server_start(w);
    }
    for (int i = 0; i < w->clients; i++)
        if (!w->link[i])
            reconnect(w, i);
    htc_ns next = w->packets ? w->packets->at : HTC_NEVER;
    int    what = w->packets ? 0 : -1, who = 0;
    if (w->commit_at < next) {
        next = w->commit_at;
        what = 1;
    }
    for (int i = 0; i < w->clients; i++) {
        htc_ns d = htc_kv_client_deadline(w->client[i]);
        if (d < next) {
            next = d;
            what = 2;
            who = i;
        }
    }
    htc_ns d = htc_kv_server_ops()->deadline(w->server);
    if (d < next) {
        next = d;
        what = 3;
    }
    if (next != HTC_NEVER && next > w->now)
        w->now = next;
    if (what == 0) {
        deliver(w);
    } else if (what == 1) {
        htc_status status = w->commit_status;
        w->commits++;
        if (status == HTC_OK)
            status = w->engine.ops->apply(w->engine.ctx, htc_buf_bytes(&w->commit));
        w->commit_at = HTC_NEVER;
        server_input(w, (htc_input){ .kind = HTC_IN_STORED, .tag = w->commit_tag, .status = status });
    } else if (what == 2) {
        client_input(w, who, (htc_input){ .kind = HTC_IN_TIMEOUT });
    } else if (what == 3) {
        server_input(w, (htc_input){ .kind = HTC_IN_TIMEOUT });
    }
}

/* Submit one request and wait for its answer. The value is copied to text. */
static htc_kv_result ask(world *w, int client, htc_kv_request q, char *text, size_t cap)
{
    htc_kv_result r;
    cr_assert(eq(int, htc_kv_client_submit(w->client[client], w->now, &q, 1, 77, w->out), HTC_OK));
    carry_out(w, client);
    for (int i = 0; i < 100000; i++) {
        if (htc_kv_client_next(w->client[client], &r)) {
            cr_assert(eq(u64, r.tag, 77));
            cr_assert(eq(u32, r.last, 1));
            cr_assert(eq(u32, r.op, q.op));
            if (text && cap) {
                size_t n = r.value.len < cap - 1 ? r.value.len : cap - 1;
                if (n)
                    memcpy(text, r.value.data, n);
                text[n] = '\0';
            }
            return r;
        }
        turn(w);
    }
    cr_fatal("no answer");
}

static const faults calm = { .delay = 10 };

/* Every operation does what htcsched/kv.h says, in the order of the table of spec section 2. */
Test(kvs, every_operation_answers_as_promised)
{
    world         w;
    char          text[64];
    htc_kv_result r;
    world_open(&w, 1, 1, calm);
    r = ask(&w, 0, (htc_kv_request){ .op = HTC_KV_GET, .key = B("a") }, NULL, 0);
    cr_expect(eq(int, r.status, HTC_ENOTFOUND));
    r = ask(&w, 0, (htc_kv_request){ .op = HTC_KV_PUT, .key = B("a"), .value = B("one") }, NULL, 0);
    cr_expect(eq(int, r.status, HTC_OK));
    uint64_t v1 = r.version;
    r = ask(&w, 0, (htc_kv_request){ .op = HTC_KV_GET, .key = B("a") }, text, sizeof text);
    cr_expect(eq(str, text, "one"));
    cr_expect(eq(u64, r.version, v1));
    r = ask(&w, 0, (htc_kv_request){ .op = HTC_KV_CAS_VERSION, .key = B("a"), .version = v1 + 7, .value = B("x") }, text,
            sizeof text);
    cr_expect(eq(int, r.status, HTC_MISMATCH));
    cr_expect(eq(u64, r.version, v1));
    cr_expect(eq(str, text, "one"));
    r = ask(&w, 0, (htc_kv_request){ .op = HTC_KV_CAS_VERSION, .key = B("a"), .version = v1, .value = B("two") }, NULL, 0);
    cr_expect(eq(int, r.status, HTC_OK));
    cr_expect(r.version > v1);
    r = ask(&w, 0, (htc_kv_request){ .op = HTC_KV_CAS_VERSION, .key = B("a"), .version = 0, .value = B("x") }, NULL, 0);
    cr_expect(eq(int, r.status, HTC_MISMATCH));
    r = ask(&w, 0, (htc_kv_request){ .op = HTC_KV_CAS_VERSION, .key = B("b"), .version = 0, .value = B("x") }, NULL, 0);
    cr_expect(eq(int, r.status, HTC_OK));
    r = ask(&w, 0, (htc_kv_request){ .op = HTC_KV_CAS_VALUE, .key = B("a"), .seen = B("one"), .value = B("3") }, text,
            sizeof text);
    cr_expect(eq(int, r.status, HTC_MISMATCH));
    cr_expect(eq(str, text, "two"));
    r = ask(&w, 0, (htc_kv_request){ .op = HTC_KV_CAS_VALUE, .key = B("a"), .seen = B("two"), .value = B("3") }, NULL, 0);
    cr_expect(eq(int, r.status, HTC_OK));
    uint64_t v3 = r.version;
    r = ask(&w, 0, (htc_kv_request){ .op = HTC_KV_APPEND, .key = B("a"), .value = B("45") }, NULL, 0);
    cr_expect(eq(i64, r.number, 3));
    r = ask(&w, 0, (htc_kv_request){ .op = HTC_KV_ADD, .key = B("a"), .delta = -5 }, NULL, 0);
    cr_expect(eq(i64, r.number, 340));
    r = ask(&w, 0, (htc_kv_request){ .op = HTC_KV_ADD, .key = B("b"), .delta = 1 }, NULL, 0);
    cr_expect(eq(int, r.status, HTC_EINVAL));
    r = ask(&w, 0, (htc_kv_request){ .op = HTC_KV_ADD, .key = B("n"), .delta = -2 }, NULL, 0);
    cr_expect(eq(i64, r.number, -2));
    r = ask(&w, 0, (htc_kv_request){ .op = HTC_KV_DELETE, .key = B("a") }, NULL, 0);
    cr_expect(eq(int, r.status, HTC_OK));
    r = ask(&w, 0, (htc_kv_request){ .op = HTC_KV_DELETE, .key = B("a") }, NULL, 0);
    cr_expect(eq(int, r.status, HTC_ENOTFOUND));
    r = ask(&w, 0, (htc_kv_request){ .op = HTC_KV_PUT, .key = B("a"), .value = B("again") }, NULL, 0);
    cr_expect(r.version > v3, "versions survive deletion");
    world_close(&w);
}

/* ---------------------------------------------------------------- histories */

/* What a client may have seen is checked against what it was told: for each key the value is a number that only its
 * changes move, so that a change applied twice, or not at all, shows in the sum. */
typedef struct history {
    world    w;
    int64_t  added[8];    /* acknowledged additions to counter k */
    int64_t  unknown[8];  /* sum of absolute values of those with an unknown outcome */
    uint64_t version[8];  /* the highest acknowledged version of it */
    int      pending[CLIENTS];
    int64_t  delta[CLIENTS];
    int      key[CLIENTS];
    int64_t  own[CLIENTS]; /* this client's private list: how many it appended */
    char     cas_seen[CLIENTS][24];
    uint64_t cas_version[CLIENTS];
    int      unknowns;
} history;

static const char *const counters[] = { "c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7" };

/* Several clients add to few counters through a bad network and a server that is killed: the sums are exact. */
static void counters_history(uint64_t seed, int clients, int keys, int rounds, faults f, htc_status disk)
{
    history *h = calloc(1, sizeof *h);
    world   *w = &h->w;
    int      left = rounds, busy = 0;
    char     text[32];
    world_open(w, seed, clients, f);
    while (left > 0 || busy > 0) {
        for (int i = 0; i < clients && left > 0; i++) {
            if (h->pending[i])
                continue;
            h->key[i] = (int)htc_rng_below(&w->rng, (uint64_t)keys);
            h->delta[i] = (int64_t)htc_rng_below(&w->rng, 100) + 1;
            htc_kv_request q = { .op = HTC_KV_ADD, .key = B(counters[h->key[i]]), .delta = h->delta[i] };
            cr_assert(eq(int, htc_kv_client_submit(w->client[i], w->now, &q, 1, 1, w->out), HTC_OK));
            carry_out(w, i);
            h->pending[i] = 1;
            busy++;
            left--;
        }
        w->commit_status = chance(w, 30) ? disk : HTC_OK;
        turn(w);
        for (int i = 0; i < clients; i++) {
            htc_kv_result r;
            while (htc_kv_client_next(w->client[i], &r)) {
                int k = h->key[i];
                cr_assert(h->pending[i], "seed %llu: an answer nobody asked for", (unsigned long long)seed);
                h->pending[i] = 0;
                busy--;
                if (r.status == HTC_EUNKNOWN) {
                    h->unknowns++;
                    h->unknown[k] += h->delta[i];
                } else if (r.status == HTC_OK) {
                    h->added[k] += h->delta[i];
                    cr_assert(r.version > 0 && r.number > 0);
                    if (r.version > h->version[k])
                        h->version[k] = r.version;
                } else
                    cr_assert(r.status == disk, "seed %llu: %s", (unsigned long long)seed, htc_status_name(r.status));
            }
        }
    }
    w->commit_status = HTC_OK;
    for (int k = 0; k < keys; k++) {
        htc_kv_result r = ask(w, 0, (htc_kv_request){ .op = HTC_KV_GET, .key = B(counters[k]) }, text, sizeof text);
        int64_t       sum = r.status == HTC_OK ? atoll(text) : 0;
        cr_assert(sum >= h->added[k] && sum <= h->added[k] + h->unknown[k],
                  "seed %llu key %d: %lld, acknowledged %lld, unknown %lld", (unsigned long long)seed, k, (long long)sum,
                  (long long)h->added[k], (long long)h->unknown[k]);
        cr_assert(r.version >= h->version[k]);
    }
    if (clients <= HTC__KV_CLIENTS)
        cr_assert(eq(int, h->unknowns, 0), "seed %llu: a list of 16 holds them all", (unsigned long long)seed);
    world_close(w);
    free(h);
}

static const faults bad = { .lose = 100, .doubled = 100, .late = 50, .cut = 30, .kill = 20, .delay = 5 * HTC_MS };

Test(kvs, additions_are_applied_exactly_once)
{
    for (uint64_t seed = 1; seed <= 400; seed++)
        counters_history(seed, 3, 2, 40, bad, HTC_OK);
}

/* More clients on one key than its record lists: outcomes may be unknown, but what is acknowledged happened, once. */
Test(kvs, more_clients_than_a_record_lists)
{
    for (uint64_t seed = 1; seed <= 60; seed++)
        counters_history(1000 + seed, CLIENTS, 1, 200, bad, HTC_OK);
}

/* A commit that fails takes its changes along, and those that were built on them; what is answered as done stays. */
Test(kvs, a_full_disk_undoes_whole_batches)
{
    for (uint64_t seed = 1; seed <= 200; seed++)
        counters_history(2000 + seed, 4, 3, 60, bad, HTC_ENOSPC);
}

/* ---------------------------------------------------------------- any operation, any order */

/* The slow and obvious model: everything that was asked and told is written down, and compared in pairs at the end.
 * Every value written is written by one request only, so a value names its change, and what is told about versions says in
 * which order the changes of a key took place. */
typedef struct noted {
    int           client, key, order;
    uint32_t      op;
    char          value[24], seen[24]; /* what it writes; what CAS_VALUE expects */
    uint64_t      expected;            /* CAS_VERSION */
    unsigned      asked, told;         /* turns; told 0: not yet */
    htc_status    status;
    uint64_t      version; /* of the change, or observed; 0: absent */
    char          got[24]; /* observed */
} noted;

#define OPS 400
#define KEYS 3

typedef struct log_of {
    noted    ops[OPS + OPS * KEYS]; /* a scan is noted as a read of each key */
    int      n;
    unsigned turn;
    int      deletes[KEYS];
} log_of;

static const char *const keys[KEYS] = { "key", "key2", "other" };

static int is_write(const noted *o)
{
    return htc__kv_is_change(o->op);
}

static void check_pair(uint64_t seed, const log_of *l, const noted *a, const noted *b)
{
    int read_a = a->got[0] != 0, read_b = b->got[0] != 0;
    if (a->key != b->key)
        return;
    /* One version of a key, one value. */
    if (read_a && read_b && a->version == b->version)
        cr_assert(strcmp(a->got, b->got) == 0, "seed %lu: version %lu is %s and %s", seed, a->version, a->got, b->got);
    /* Done once: its value stands under one version, the acknowledged one; not done: nowhere. */
    if (is_write(a) && a->value[0] && read_b && strcmp(a->value, b->got) == 0) {
        cr_assert(a->status == HTC_OK || a->status == HTC_EUNKNOWN, "seed %lu: %s was refused (%s) and is there", seed,
                  a->value, htc_status_name(a->status));
        if (a->status == HTC_OK)
            cr_assert(a->version == b->version, "seed %lu: %s is version %lu, told %lu", seed, a->value, b->version, a->version);
    }
    if (a != b && read_a && read_b && strcmp(a->got, b->got) == 0)
        cr_assert(a->version == b->version, "seed %lu: %s has versions %lu, %lu", seed, a->got, a->version, b->version);
    if (a != b && is_write(a) && is_write(b) && a->status == HTC_OK && b->status == HTC_OK)
        cr_assert(a->version != b->version, "seed %lu: two changes, one version", seed);
    /* What was told before something was asked comes before it; and so does what the same client changed before. */
    int before = a->told < b->asked || (a->client == b->client && a->order < b->order && is_write(a));
    int a_known = a->status == HTC_OK || a->status == HTC_MISMATCH, b_ok = b->status == HTC_OK && is_write(b);
    if (!before || !a_known || a->version == 0)
        return;
    if (b->version && b->status != HTC_EUNKNOWN)
        cr_assert(b_ok ? b->version > a->version || a == b : b->version >= a->version,
                  "seed %lu: op %d saw or wrote %lu, op %d later %lu", seed, (int)(a - l->ops), a->version,
                  (int)(b - l->ops), b->version);
    else if (b->status == HTC_ENOTFOUND)
        cr_assert(l->deletes[b->key], "seed %lu: nobody deleted it, and it is gone", seed);
}

static void note_answer(uint64_t seed, log_of *l, noted *o, const htc_kv_result *r)
{
    o->told = l->turn;
    o->status = r->status;
    o->version = r->version;
    cr_assert(eq(u32, r->op, o->op));
    if (r->status == HTC_MISMATCH || (r->status == HTC_OK && o->op == HTC_KV_GET))
        memcpy(o->got, r->value.data ? r->value.data : "", r->value.len < 23 ? r->value.len : 23);
    if (r->status == HTC_MISMATCH && o->op == HTC_KV_CAS_VALUE)
        cr_assert(r->version == 0 || strcmp(o->got, o->seen) != 0, "seed %lu: mismatch, and the same", seed);
    if (r->status == HTC_MISMATCH && o->op == HTC_KV_CAS_VERSION)
        cr_assert(r->version != o->expected, "seed %lu: mismatch, and the same version", seed);
    if (r->status == HTC_OK && is_write(o) && o->op != HTC_KV_DELETE)
        strcpy(o->got, o->value); /* the change itself says what its version is */
    if (o->op != HTC_KV_SCAN)
        return;
    size_t      at = 0;
    htc_kv_item item;
    int         seen[KEYS] = { 0 };
    for (uint32_t i = 0; i < r->items; i++) {
        cr_assert(eq(int, htc_kv_result_item(r, &at, &item), HTC_OK));
        for (int k = 0; k < KEYS; k++)
            if (htc_bytes_equal(item.key, B(keys[k]))) {
                noted *read = &l->ops[l->n++];
                *read = *o;
                read->op = HTC_KV_GET;
                read->key = k;
                read->version = item.version;
                memcpy(read->got, item.value.data, item.value.len < 23 ? item.value.len : 23);
                seen[k]++;
            }
    }
    for (int k = 0; k < 2; k++) /* those under the prefix */
        cr_assert(seen[k] == 1 || (seen[k] == 0), "seed %lu: twice in one page", seed);
    o->key = KEYS; /* its reads stand for it */
}

static void any_history(uint64_t seed, int clients, int ops, int deletes, faults f, htc_status disk)
{
    world  *w = calloc(1, sizeof *w);
    log_of *l = calloc(1, sizeof *l);
    int     left = ops, pending = 0, asked = 0;
    char    last[KEYS][24] = { "" };
    world_open(w, seed, clients, f);
    if (deletes == 2)
        w->options.tombstones_max = 1;
    while (left > 0 || pending > 0) {
        int i = (int)htc_rng_below(&w->rng, (uint64_t)clients);
        l->turn++;
        if (left > 0 && htc_kv_client_pending(w->client[i]) < 4 && chance(w, 300)) {
            htc_kv_request q[3] = { { 0 } };
            noted         *o[3];
            int            n = 1 + (int)htc_rng_below(&w->rng, left < 3 ? (uint64_t)left : 3);
            for (int j = 0; j < n; j++) {
                static const uint32_t mix[] = { HTC_KV_GET, HTC_KV_GET, HTC_KV_PUT, HTC_KV_CAS_VALUE, HTC_KV_CAS_VALUE,
                                                HTC_KV_CAS_VERSION, HTC_KV_SCAN, HTC_KV_DELETE };
                o[j] = &l->ops[l->n++];
                o[j]->client = i;
                o[j]->order = (int)(o[j] - l->ops);
                o[j]->key = (int)htc_rng_below(&w->rng, KEYS);
                o[j]->op = mix[htc_rng_below(&w->rng, deletes ? 8 : 7)];
                o[j]->asked = l->turn;
                o[j]->told = UINT_MAX;
                o[j]->status = HTC_EUNKNOWN;
                l->deletes[o[j]->key] |= o[j]->op == HTC_KV_DELETE;
                if (is_write(o[j]) && o[j]->op != HTC_KV_DELETE)
                    snprintf(o[j]->value, sizeof o[j]->value, "v%d", ++asked);
                strcpy(o[j]->seen, last[o[j]->key]);
                for (int m = 0; m < l->n; m++)
                    if (l->ops[m].key == o[j]->key && l->ops[m].version > o[j]->expected && chance(w, 900))
                        o[j]->expected = l->ops[m].version;
                q[j] = (htc_kv_request){ .op = o[j]->op, .key = o[j]->op == HTC_KV_SCAN ? B("key") : B(keys[o[j]->key]),
                                         .value = B(o[j]->value), .seen = B(o[j]->seen), .version = o[j]->expected };
            }
            cr_assert(eq(int, htc_kv_client_submit(w->client[i], w->now, q, (size_t)n, (uint64_t)(o[0] - l->ops), w->out), HTC_OK));
            carry_out(w, i);
            left -= n;
            pending += n;
        }
        w->commit_status = chance(w, 30) ? disk : HTC_OK;
        turn(w);
        for (i = 0; i < clients; i++) {
            htc_kv_result r;
            while (htc_kv_client_next(w->client[i], &r)) {
                noted *o = &l->ops[r.tag + r.index];
                cr_assert(o->client == i && o->told == UINT_MAX, "seed %lu: answered twice", seed);
                note_answer(seed, l, o, &r);
                if (o->key < KEYS && o->got[0])
                    strcpy(last[o->key], o->got);
                pending--;
            }
        }
    }
    for (int a = 0; a < l->n; a++)
        for (int b = 0; b < l->n; b++)
            check_pair(seed, l, &l->ops[a], &l->ops[b]);
    world_close(w);
    free(l);
    free(w);
}

Test(kvs, every_history_is_linearizable)
{
    for (uint64_t seed = 1; seed <= 1500; seed++)
        any_history(seed, 1 + (int)(seed % 4), 100, (int)(seed % 3), bad, seed % 5 ? HTC_OK : HTC_ENOSPC);
}

/* ---------------------------------------------------------------- leases */

static void pass(world *w, htc_ns ns)
{
    for (htc_ns until = w->now + ns; w->now < until;) {
        htc_ns d = htc_kv_server_ops()->deadline(w->server);
        if (!w->packets && w->commit_at == HTC_NEVER && d > until) {
            w->now = until;
            return;
        }
        turn(w);
    }
}

static htc_status get(world *w, const char *key)
{
    return ask(w, 0, (htc_kv_request){ .op = HTC_KV_GET, .key = B(key) }, NULL, 0).status;
}

/* A key lives as long as its lease: through renewals, not beyond its end, whole terms anew after a restart. More keys than
 * one slice of the sweep, so that it takes several batches. */
Test(kvs, keys_vanish_with_their_lease)
{
    world w;
    char  key[16];
    world_open(&w, 5, 1, calm);
    uint64_t lease = ask(&w, 0, (htc_kv_request){ .op = HTC_KV_LEASE_GRANT, .ttl = HTC_SECOND }, NULL, 0).lease;
    cr_assert(lease != 0);
    for (int i = 0; i < 600; i++) {
        snprintf(key, sizeof key, "k%03d", i);
        cr_assert(eq(int, ask(&w, 0, (htc_kv_request){ .op = HTC_KV_PUT, .key = B(key), .value = B("x"), .lease = lease }, NULL, 0).status, HTC_OK));
    }
    /* Bound again without a lease, this one stays. */
    ask(&w, 0, (htc_kv_request){ .op = HTC_KV_PUT, .key = B("k000"), .value = B("y") }, NULL, 0);
    pass(&w, 600 * HTC_MS);
    cr_expect(eq(int, ask(&w, 0, (htc_kv_request){ .op = HTC_KV_LEASE_RENEW, .lease = lease }, NULL, 0).status, HTC_OK));
    pass(&w, 900 * HTC_MS);
    cr_expect(eq(int, get(&w, "k599"), HTC_OK), "renewed 0.9 s ago");
    server_kill(&w);
    server_start(&w);
    cr_expect(eq(int, get(&w, "k599"), HTC_OK));
    pass(&w, 900 * HTC_MS);
    cr_expect(eq(int, get(&w, "k599"), HTC_OK), "the term counts anew from the restart");
    pass(&w, 200 * HTC_MS);
    cr_expect(eq(int, get(&w, "k001"), HTC_ENOTFOUND));
    cr_expect(eq(int, get(&w, "k599"), HTC_ENOTFOUND));
    cr_expect(eq(int, get(&w, "k000"), HTC_OK));
    cr_expect(eq(int, ask(&w, 0, (htc_kv_request){ .op = HTC_KV_LEASE_RENEW, .lease = lease }, NULL, 0).status, HTC_ENOTFOUND));
    cr_expect(eq(int, ask(&w, 0, (htc_kv_request){ .op = HTC_KV_PUT, .key = B("z"), .lease = lease }, NULL, 0).status, HTC_ENOTFOUND));
    pass(&w, HTC_SECOND);
    htc_kv_server_stats stats = { .size = sizeof stats };
    htc_kv_server_stats_get(w.server, &stats);
    cr_expect(eq(u64, stats.leases, 0), "its last key takes it along");
    cr_expect(eq(u64, stats.tombstones, 599));
    world_close(&w);
}

/* Revoked: gone at once for whoever asks after the answer, also when the sweep is interrupted by a kill. */
Test(kvs, a_revoked_lease_takes_its_keys_through_restarts)
{
    for (uint64_t seed = 1; seed <= 100; seed++) {
        world w;
        char  key[16];
        world_open(&w, seed, 1, (faults){ .lose = 50, .doubled = 50, .late = 20, .cut = 10, .kill = 5, .delay = HTC_MS });
        uint64_t lease = ask(&w, 0, (htc_kv_request){ .op = HTC_KV_LEASE_GRANT, .ttl = 3600 * HTC_SECOND }, NULL, 0).lease;
        for (int i = 0; i < 20; i++) {
            snprintf(key, sizeof key, "k%d", i);
            ask(&w, 0, (htc_kv_request){ .op = HTC_KV_PUT, .key = B(key), .value = B("x"), .lease = lease }, NULL, 0);
        }
        htc_status status = ask(&w, 0, (htc_kv_request){ .op = HTC_KV_LEASE_REVOKE, .lease = lease }, NULL, 0).status;
        cr_expect(status == HTC_OK || status == HTC_EUNKNOWN);
        htc_kv_result r = ask(&w, 0, (htc_kv_request){ .op = HTC_KV_SCAN, .key = B("k") }, NULL, 0);
        cr_expect(eq(u32, r.items, 0), "seed %lu", seed);
        world_close(&w);
    }
}

/* ---------------------------------------------------------------- pages, multi, limits */

Test(kvs, a_scan_is_read_page_by_page_in_order)
{
    world w;
    char  key[16], cursor[HTC_KV_KEY_MAX];
    world_open(&w, 7, 1, calm);
    for (int i = 0; i < 250; i++) {
        snprintf(key, sizeof key, "p/%03d", (i * 37) % 250);
        ask(&w, 0, (htc_kv_request){ .op = HTC_KV_PUT, .key = B(key), .value = B(key) }, NULL, 0);
    }
    ask(&w, 0, (htc_kv_request){ .op = HTC_KV_PUT, .key = B("p0"), .value = B("beyond") }, NULL, 0);
    int    n = 0, pages = 0;
    size_t cursor_len = 0;
    do {
        htc_kv_result r = ask(&w, 0, (htc_kv_request){ .op = HTC_KV_SCAN, .key = B("p/"), .cursor = { cursor, cursor_len }, .limit = 100 }, NULL, 0);
        htc_kv_item   item;
        for (size_t at = 0; htc_kv_result_item(&r, &at, &item) == HTC_OK; n++) {
            snprintf(key, sizeof key, "p/%03d", n);
            cr_assert(htc_bytes_equal(item.key, B(key)) && htc_bytes_equal(item.value, B(key)));
        }
        cursor_len = r.cursor.len;
        if (cursor_len)
            memcpy(cursor, r.cursor.data, cursor_len);
        pages++;
    } while (cursor_len);
    cr_expect(eq(int, n, 250));
    cr_expect(eq(int, pages, 3));
    world_close(&w);
}

/* Big values: pages and multi answers are cut at the frame, and the client asks for the rest by itself. */
Test(kvs, sixteen_mebibytes_travel_in_pieces_that_fit)
{
    world         w;
    htc_kv_result r;
    char          name[4][4] = { "b0", "b1", "b2", "b3" };
    htc_bytes     big = { calloc(1, HTC_KV_VALUE_MAX), HTC_KV_VALUE_MAX };
    world_open(&w, 8, 1, calm);
    htc_kv_request q[4], g[4];
    for (int i = 0; i < 4; i++) {
        q[i] = (htc_kv_request){ .op = HTC_KV_PUT, .key = B(name[i]), .value = { big.data, big.len - 20u * 1024 * 1024 / 2 } };
        g[i] = (htc_kv_request){ .op = HTC_KV_GET, .key = B(name[i]) };
    }
    cr_assert(eq(int, htc_kv_client_submit(w.client[0], 0, q, 4, 1, w.out), HTC_OK));
    carry_out(&w, 0);
    cr_assert(eq(int, htc_kv_client_submit(w.client[0], 0, g, 4, 2, w.out), HTC_OK));
    carry_out(&w, 0);
    int of_tag[3] = { 0 };
    for (int got = 0, turns = 0; got < 8; turns++) {
        turn(&w);
        while (htc_kv_client_next(w.client[0], &r)) {
            cr_assert(eq(int, r.status, HTC_OK));
            cr_assert(r.tag == 1 || r.value.len == q[0].value.len);
            of_tag[r.tag]++;
            cr_assert(eq(u32, r.last, of_tag[r.tag] == 4));
            got++;
        }
        cr_assert(turns < 9999);
    }
    q[0].value = big;
    cr_expect(eq(int, ask(&w, 0, q[0], NULL, 0).status, HTC_OK));
    r = ask(&w, 0, (htc_kv_request){ .op = HTC_KV_SCAN, .key = B("b") }, NULL, 0);
    cr_expect(eq(u32, r.items, 1), "one item is always given");
    cr_expect(r.cursor.len == 2);
    q[1].op = HTC_KV_APPEND;
    q[1].key = B("b0");
    cr_expect(eq(int, ask(&w, 0, q[1], NULL, 0).status, HTC_ETOOBIG));
    world_close(&w);
    free((void *)big.data);
}

/* Beyond the ceiling what grows is refused, what shrinks or reads is not. */
Test(kvs, a_memory_ceiling_refuses_growth_only)
{
    world w;
    char  key[16];
    int   n = 0;
    world_open(&w, 9, 1, calm);
    server_kill(&w);
    w.options.memory_max = 100 << 10;
    server_start(&w);
    htc_status status;
    char      *kb = calloc(1, 1024);
    do {
        snprintf(key, sizeof key, "k%d", n++);
        status = ask(&w, 0, (htc_kv_request){ .op = HTC_KV_PUT, .key = B(key), .value = { kb, 1024 } }, NULL, 0).status;
    } while (status == HTC_OK);
    cr_expect(eq(int, status, HTC_EFULL));
    cr_expect(n > 60 && n < 110);
    cr_expect(eq(int, get(&w, "k0"), HTC_OK));
    cr_expect(eq(int, ask(&w, 0, (htc_kv_request){ .op = HTC_KV_PUT, .key = B("k0"), .value = { kb, 10 } }, NULL, 0).status, HTC_OK));
    for (int i = 1; i < 10; i++) {
        snprintf(key, sizeof key, "k%d", i);
        cr_expect(eq(int, ask(&w, 0, (htc_kv_request){ .op = HTC_KV_DELETE, .key = B(key) }, NULL, 0).status, HTC_OK));
    }
    cr_expect(eq(int, ask(&w, 0, (htc_kv_request){ .op = HTC_KV_PUT, .key = B("new"), .value = { kb, 1024 } }, NULL, 0).status, HTC_OK));
    free(kb);
    world_close(&w);
}

/* Wrong requests are refused at the client's door; strangers' bytes close the connection and change nothing. */
Test(kvs, garbage_is_answered_with_an_error_and_closed)
{
    world w;
    world_open(&w, 10, 1, calm);
    char long_key[HTC_KV_KEY_MAX + 1] = { 0 };
    const htc_kv_request wrong[] = {
        { .op = 0, .key = B("k") },
        { .op = 99, .key = B("k") },
        { .op = HTC_KV_GET },
        { .op = HTC_KV_GET, .key = { long_key, sizeof long_key } },
        { .op = HTC_KV_PUT, .key = B("k"), .value = { long_key, HTC_KV_VALUE_MAX + 1 } },
        { .op = HTC_KV_SCAN, .limit = 10001 },
        { .op = HTC_KV_LEASE_GRANT },
        { .op = HTC_KV_LEASE_RENEW },
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        cr_expect(eq(int, htc_kv_client_submit(w.client[0], 0, &wrong[i], 1, 1, w.out), HTC_EINVAL), "%zu", i);
    cr_expect(eq(sz, htc_kv_client_pending(w.client[0]), 0));

    const char *const garbage[] = { "", "x", "GET / HTTP/1.1\r\n\r\n" };
    for (uint32_t i = 0; i < 3; i++) {
        htc_input in = { .kind = HTC_IN_OPENED, .peer = 50 + i };
        cr_assert(eq(int, htc_kv_server_ops()->step(w.server, &in, w.out), HTC_OK));
        in = (htc_input){ .kind = HTC_IN_MESSAGE, .peer = 50 + i, .body = B(garbage[i]) };
        cr_assert(eq(int, htc_kv_server_ops()->step(w.server, &in, w.out), HTC_OK));
        htc_effect e;
        cr_assert(eq(sz, htc_output_count(w.out), 2));
        htc_output_get(w.out, 0, &e);
        uint16_t type;
        uint64_t id;
        htc_wire_open(e.body, &type, &id);
        cr_expect(eq(u16, type, HTC_WIRE_ERROR));
        htc_output_get(w.out, 1, &e);
        cr_expect(eq(u32, e.kind, HTC_OUT_CLOSE));
        cr_expect(eq(u32, e.peer, 50 + i));
        htc_output_clear(w.out);
    }
    world_close(&w);
}

/* After a failed sync nobody knows what is stored: the server says so and answers nothing more. */
Test(kvs, a_failed_sync_stops_the_server)
{
    world w;
    world_open(&w, 11, 1, calm);
    ask(&w, 0, (htc_kv_request){ .op = HTC_KV_PUT, .key = B("a"), .value = B("1") }, NULL, 0);
    htc_kv_request q = { .op = HTC_KV_PUT, .key = B("a"), .value = B("2") };
    htc_kv_client_submit(w.client[0], w.now, &q, 1, 1, w.out);
    carry_out(&w, 0);
    w.commit_status = HTC_EIO;
    for (int i = 0; i < 50 && w.stopped == HTC_AGAIN; i++)
        turn(&w);
    cr_expect(eq(int, w.stopped, HTC_EIO));
    htc_kv_result r;
    cr_expect(eq(int, htc_kv_client_next(w.client[0], &r), 0));
    world_close(&w);
}

/* A record that was damaged is refused, the others are served. */
Test(kvs, a_flipped_bit_is_never_served)
{
    world w;
    char  batch[512], key[8];
    world_open(&w, 12, 1, calm);
    for (int i = 0; i < 4; i++) {
        snprintf(key, sizeof key, "a%d", i);
        ask(&w, 0, (htc_kv_request){ .op = HTC_KV_PUT, .key = B(key), .value = B("value") }, NULL, 0);
    }
    htc_bytes stored;
    cr_assert(eq(int, w.engine.ops->get(w.engine.ctx, B("ka1"), &stored), HTC_OK));
    for (size_t bit = 0; bit < stored.len * 8; bit++) {
        memcpy(batch, stored.data, stored.len);
        batch[bit / 8] ^= (char)(1 << bit % 8);
        htc__kv_record record;
        cr_assert(eq(int, htc__kv_record_read((htc_bytes){ batch, stored.len }, B("a1"), &record), HTC_ECORRUPT));
    }
    htc__kv_record record;
    cr_expect(eq(int, htc__kv_record_read(stored, B("a2"), &record), HTC_ECORRUPT), "of another key");
    htc_buf b;
    htc_buf_init(&b, NULL, 0);
    htc__kv_batch_put(&b, B("ka1"), (htc_bytes){ batch, stored.len });
    cr_assert(eq(int, w.engine.ops->apply(w.engine.ctx, htc_buf_bytes(&b)), HTC_OK));
    cr_expect(eq(int, get(&w, "a1"), HTC_ECORRUPT));
    cr_expect(eq(int, get(&w, "a2"), HTC_OK));
    htc_kv_result r = ask(&w, 0, (htc_kv_request){ .op = HTC_KV_SCAN, .key = B("a") }, NULL, 0);
    cr_expect(eq(int, r.status, HTC_ECORRUPT));
    cr_expect(eq(u32, r.items, 3));
    htc_buf_free(&b);
    world_close(&w);
}

/* Nothing is connected, or nobody answers: requests end when their time is over, those that wait for others too. */
Test(kvs, requests_end_at_their_time)
{
    htc_rng       rng = { 1 };
    htc_env       env = { .size = sizeof env, .rng = &rng };
    htc_output   *out;
    htc_kv_result r;
    htc_kv_client *c;
    htc_kv_client_options o = { .size = sizeof o, .client_id = 1, .peer = PEER, .timeout_ns = HTC_SECOND, .inflight_max = 3 };
    htc_kv_request q = { .op = HTC_KV_PUT, .key = B("a") };
    cr_assert(eq(int, htc_output_create(&env, 0, &out), HTC_OK));
    cr_assert(eq(int, htc_kv_client_create(&env, &o, &c), HTC_OK));
    cr_expect(eq(u64, htc_kv_client_deadline(c), HTC_NEVER));
    for (uint64_t i = 0; i < 3; i++)
        cr_assert(eq(int, htc_kv_client_submit(c, i, &q, 1, i, out), HTC_OK));
    cr_expect(eq(int, htc_kv_client_submit(c, 3, &q, 1, 3, out), HTC_EFULL));
    cr_expect(eq(u64, htc_kv_client_deadline(c), HTC_SECOND));
    htc_input in = { .kind = HTC_IN_TIMEOUT, .now = HTC_SECOND + 2 };
    cr_assert(eq(int, htc_kv_client_step(c, &in, out), HTC_OK));
    for (uint64_t i = 0; i < 3; i++) {
        cr_assert(eq(int, htc_kv_client_next(c, &r), 1));
        cr_expect(eq(int, r.status, HTC_ETIMEDOUT));
        cr_expect(eq(u64, r.tag, i));
        cr_expect(eq(u32, r.last, 1));
    }
    cr_expect(eq(int, htc_kv_client_next(c, &r), 0));
    cr_expect(eq(sz, htc_kv_client_pending(c), 0));
    cr_expect(eq(u64, htc_kv_client_deadline(c), HTC_NEVER));
    htc_kv_client_destroy(c);
    htc_output_destroy(out);
}

/* ---------------------------------------------------------------- memory */

/* The scenario with every allocation refused in turn. A step that runs out of memory ends its machine, as htcsched/machine.h
 * says; what was committed is there for the next one; a submit that is refused changes nothing. */
static htc_status scenario(const htc_env *env, const htc_kv_engine *engine, uint64_t *promised)
{
    htc_kv_server         *server = NULL;
    htc_kv_client         *client = NULL;
    htc_output            *to_client = NULL, *to_server = NULL;
    htc_kv_server_options  so = { .size = sizeof so, .engine = *engine };
    htc_kv_client_options  co = { .size = sizeof co, .client_id = 9, .peer = PEER };
    htc_effect             e;
    htc_kv_result          r;
    htc_status             status = htc_kv_server_create(env, &so, &server);
    htc_kv_request         q[] = { { .op = HTC_KV_ADD, .key = B("n"), .delta = 1 }, { .op = HTC_KV_GET, .key = B("n") },
                                   { .op = HTC_KV_APPEND, .key = B("a"), .value = B("xy") }, { .op = HTC_KV_SCAN },
                                   { .op = HTC_KV_LEASE_GRANT, .ttl = HTC_SECOND }, { .op = HTC_KV_DELETE, .key = B("a") } };
    if (status == HTC_OK)
        status = htc_kv_client_create(env, &co, &client);
    if (status == HTC_OK)
        status = htc_output_create(env, 0, &to_client);
    if (status == HTC_OK)
        status = htc_output_create(env, 0, &to_server);
    if (status == HTC_OK)
        status = htc_kv_server_ops()->step(server, &(htc_input){ .kind = HTC_IN_START }, to_client);
    if (status == HTC_OK)
        status = htc_kv_server_ops()->step(server, &(htc_input){ .kind = HTC_IN_OPENED, .peer = 1 }, to_client);
    if (status == HTC_OK)
        status = htc_kv_client_step(client, &(htc_input){ .kind = HTC_IN_OPENED, .peer = PEER }, to_server);
    for (uint64_t i = 0; status == HTC_OK && i < 6; i++)
        status = htc_kv_client_submit(client, 0, &q[i], i == 2 ? 4 : 1, i, to_server);
    for (int turns = 0; status == HTC_OK && turns < 40; turns++) {
        for (size_t i = 0; status == HTC_OK && i < htc_output_count(to_server); i++) {
            htc_output_get(to_server, i, &e);
            status = htc_kv_server_ops()->step(server, &(htc_input){ .kind = HTC_IN_MESSAGE, .peer = 1, .body = e.body }, to_client);
        }
        htc_output_clear(to_server);
        for (size_t i = 0; status == HTC_OK && i < htc_output_count(to_client); i++) {
            htc_output_get(to_client, i, &e);
            if (e.kind == HTC_OUT_MESSAGE)
                status = htc_kv_client_step(client, &(htc_input){ .kind = HTC_IN_MESSAGE, .peer = PEER, .body = e.body }, to_server);
            else if (e.kind == HTC_OUT_COMMIT) {
                uint64_t   tag = e.tag;
                htc_status stored = engine->ops->apply(engine->ctx, e.body);
                cr_assert(stored == HTC_OK || stored == HTC_ENOMEM);
                status = htc_kv_server_ops()->step(server, &(htc_input){ .kind = HTC_IN_STORED, .tag = tag, .status = stored }, to_client);
            }
        }
        htc_output_clear(to_client);
        while (status == HTC_OK && htc_kv_client_next(client, &r))
            *promised += r.op == HTC_KV_ADD && r.status == HTC_OK;
    }
    htc_kv_server_destroy(server);
    htc_kv_client_destroy(client);
    htc_output_destroy(to_client);
    htc_output_destroy(to_server);
    return status;
}

Test(kvs, every_allocation_may_be_refused)
{
    ALLOC_FAIL_EVERY (f, 5000) {
        htc_rng       rng = { 3 };
        htc_env       env = alloc_fail_env(&f);
        htc_kv_engine engine;
        uint64_t      promised = 0;
        env.rng = &rng;
        if (htc_kv_memory_create(&env, &engine) != HTC_OK)
            continue;
        htc_status status = scenario(&env, &engine, &promised);
        cr_assert(status == HTC_OK || status == HTC_ENOMEM, "%s", htc_status_name(status));
        if (f.refused == 0)
            cr_assert(status == HTC_OK && promised == 1);
        /* What was promised is stored. */
        htc_bytes stored;
        if (promised)
            cr_assert(eq(int, engine.ops->get(engine.ctx, B("kn"), &stored), HTC_OK));
        engine.ops->destroy(engine.ctx);
        cr_assert(eq(sz, f.live, 0), "allocation %zu: leak", f.fail_at);
        cr_assert(eq(sz, f.wrong_sizes, 0));
    }
}

/* The table against a sorted array. */
Test(kvs, the_table_is_an_ordered_map)
{
    for (uint64_t seed = 1; seed <= 50; seed++) {
        htc_rng    rng = { seed };
        htc__table t;
        int        there[300] = { 0 };
        char       key[8];
        size_t     count = 0;
        htc__table_init(&t, NULL);
        for (int i = 0; i < 2000; i++) {
            int k = (int)htc_rng_below(&rng, 300), what = (int)htc_rng_below(&rng, 3);
            snprintf(key, sizeof key, "%03d", k);
            if (what < 2) {
                htc__node *node = htc__table_make(&t, B(key), sizeof i);
                memcpy(htc__node_value(node), &i, sizeof i);
                htc__table_link(&t, node);
                count += there[k] == 0;
                there[k] = i + 1;
            } else {
                cr_assert(eq(int, htc__table_remove(&t, B(key)), there[k] != 0));
                count -= there[k] != 0;
                there[k] = 0;
            }
            k = (int)htc_rng_below(&rng, 300);
            snprintf(key, sizeof key, "%03d", k);
            htc__node *found = htc__table_find(&t, B(key)), *next = htc__table_seek(&t, B(key));
            int        value = -1;
            if (found)
                memcpy(&value, htc__node_value(found), sizeof value);
            cr_assert(eq(int, value + 1, there[k]), "seed %lu", seed);
            while (k < 300 && !there[k])
                k++;
            snprintf(key, sizeof key, "%03d", k);
            cr_assert(k == 300 ? next == NULL : htc_bytes_equal(htc__node_key(next), B(key)), "seed %lu", seed);
            cr_assert(eq(sz, t.count, count));
        }
        htc__table_free(&t);
    }
}
