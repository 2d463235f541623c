/* A world for the store's tests: clients and a server joined by a pipe that loses, doubles, delays and reorders, over a
 * server that is killed and started again from what was committed. One seed, one history. */
#ifndef HTC_TESTS_KVS_WORLD_H
#define HTC_TESTS_KVS_WORLD_H

#include "expect.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "htcsched/kv_server.h"
#include "kvs/storage/batch.h"
#include "kvs/wire/kv_wire.h"
#include "kvs/cell/record.h"

#define CLIENTS 20
#define PEER    1

static inline htc_bytes B(const char *s)
{
    return htc_bytes_of(s);
}

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
    htc_rng               rng;
    htc_env               env;
    faults                f;
    htc_ns                now;
    htc_kv_engine         engine;
    htc_kv_server        *server;
    htc_kv_client        *client[CLIENTS];
    unsigned              link[CLIENTS]; /* 0: cut */
    unsigned              links;
    int                   clients;
    packet               *packets;
    htc_output           *out;
    htc_buf               commit; /* in flight */
    uint64_t              commit_tag;
    htc_ns                commit_at;     /* HTC_NEVER: none */
    htc_ns                disk_ns;       /* so much longer the disk takes for each */
    htc_status            commit_status; /* what the next ones say */
    htc_status            stopped;
    unsigned              commits, kills;
    htc_kv_server_options options;
} world;

static inline void post(world *w, int to_server, int client, htc_bytes body, htc_ns delay)
{
    packet *p = malloc(sizeof *p + body.len), **at = &w->packets;
    *p = (packet){
        .at = w->now + delay, .to_server = to_server, .client = client, .link = w->link[client], .len = body.len
    };
    memcpy(p->data, body.data, body.len);
    while (*at && (*at)->at <= p->at)
        at = &(*at)->next;
    p->next = *at;
    *at = p;
}

static inline int chance(world *w, unsigned of_thousand)
{
    return htc_rng_below(&w->rng, 1000) < of_thousand;
}

static inline void travel(world *w, int to_server, int client, htc_bytes body)
{
    if (!w->link[client] || chance(w, w->f.lose))
        return;
    int copies = chance(w, w->f.doubled) ? 2 : 1;
    for (int i = 0; i < copies; i++) {
        htc_ns delay = 1000 + htc_rng_below(&w->rng, w->f.delay + 1);
        post(w, to_server, client, body, chance(w, w->f.late) ? delay * 1000 : delay);
    }
}

static inline void close_link(world *w, int client);

static inline void carry_out(world *w, int client) /* -1: of the server */
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
            w->commit_at = w->now + w->disk_ns + 1000 + htc_rng_below(&w->rng, w->f.delay + 1);
        }
    }
    htc_output_clear(w->out);
}

static inline void server_input(world *w, htc_input in)
{
    in.now = w->now;
    if (!w->server || w->stopped != HTC_AGAIN)
        return;
    cr_assert(eq(int, htc_kv_server_ops()->step(w->server, &in, w->out), HTC_OK));
    carry_out(w, -1);
}

static inline void client_input(world *w, int client, htc_input in)
{
    in.now = w->now;
    cr_assert(eq(int, htc_kv_client_step(w->client[client], &in, w->out), HTC_OK));
    carry_out(w, client);
}

static inline void close_link(world *w, int client)
{
    if (!w->link[client])
        return;
    w->link[client] = 0;
    /* Told through the next turn: the machine that asked for it is in its step now. */
}

static inline void server_start(world *w)
{
    w->options.size = sizeof w->options;
    w->options.engine = w->engine;
    cr_assert(eq(int, htc_kv_server_create(&w->env, &w->options, &w->server), HTC_OK));
    w->stopped = HTC_AGAIN;
    server_input(w, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_START });
}

/* A commit in flight at the kill is on the disk or is not: nobody was told. */
static inline void server_kill(world *w)
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

static inline void world_open(world *w, uint64_t seed, int clients, faults f)
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
        htc_kv_client_options o = {
            .size = sizeof o, .client_id = seed * 1000 + (uint64_t)i + 1, .peer = PEER, .retry_ns = 20 * HTC_MS
        };
        cr_assert(eq(int, htc_kv_client_create(&w->env, &o, &w->client[i]), HTC_OK));
    }
}

static inline void world_close(world *w)
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

static inline void reconnect(world *w, int i)
{
    htc_buf info;
    htc_buf_init(&info, NULL, 0);
    htc_peer_info_write(&info, &(htc_peer_info){ HTC_TRANSPORT_SIM, 0, 0, 0 });
    w->link[i] = ++w->links;
    server_input(w, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_CLOSED, .peer = (uint32_t)i + 1 });
    server_input(w, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_OPENED, .peer = (uint32_t)i + 1, .body = htc_buf_bytes(&info) });
    client_input(w, i, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_CLOSED, .peer = PEER });
    client_input(w, i, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_OPENED, .peer = PEER, .body = htc_buf_bytes(&info) });
    htc_buf_free(&info);
}

static inline void deliver(world *w)
{
    packet *p = w->packets;
    w->packets = p->next;
    /* A copy may even wander into the next connection of the same pair. */
    if (w->link[p->client] && (w->link[p->client] == p->link || w->f.late)) {
        htc_input in = { .size = sizeof in, .kind = HTC_IN_MESSAGE, .peer = PEER, .body = { p->data, p->len } };
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
static inline void turn(world *w)
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
        server_input(w, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_STORED, .tag = w->commit_tag, .status = status });
    } else if (what == 2) {
        client_input(w, who, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_TIMEOUT });
    } else if (what == 3) {
        server_input(w, (htc_input){ .size = sizeof(htc_input), .kind = HTC_IN_TIMEOUT });
    }
}

/* Submit one request and wait for its answer. The value is copied to text. */
static inline htc_kv_result ask(world *w, int client, htc_kv_request q, char *text, size_t cap)
{
    htc_kv_result r = { .size = sizeof r };
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

static const faults calm __attribute__((unused)) = { .delay = 10 };
static const faults bad
    __attribute__((unused)) = { .lose = 100, .doubled = 100, .late = 50, .cut = 30, .kill = 20, .delay = 5 * HTC_MS };

#endif
