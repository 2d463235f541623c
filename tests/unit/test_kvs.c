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

Test(kvs, additions_are_applied_exactly_once, .timeout = 120)
{
    for (uint64_t seed = 1; seed <= 400; seed++)
        counters_history(seed, 3, 2, 40, bad, HTC_OK);
}

/* More clients on one key than its record lists: outcomes may be unknown, but what is acknowledged happened, once. */
Test(kvs, more_clients_than_a_record_lists, .timeout = 120)
{
    for (uint64_t seed = 1; seed <= 60; seed++)
        counters_history(1000 + seed, CLIENTS, 1, 200, bad, HTC_OK);
}

/* A commit that fails takes its changes along, and those that were built on them; what is answered as done stays. */
Test(kvs, a_full_disk_undoes_whole_batches, .timeout = 120)
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

Test(kvs, every_history_is_linearizable, .timeout = 250)
{
    for (uint64_t seed = 1; seed <= 1500; seed++)
        any_history(seed, 1 + (int)(seed % 4), 100, (int)(seed % 3), bad, seed % 5 ? HTC_OK : HTC_ENOSPC);
}
