/* Compare-and-swaps of one key: who has lost waits to be let go, loses nothing by it, and not for long. */
#include "expect.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc_fail.h"
#include "core/wire.h"
#include "htcsched/kv_server.h"
#include "property.h"

#define CLIENTS 16
#define PORT    7
#define WAIT    HTC_MS /* as kvs/server/server_contention.c has it */

typedef struct client {
    char     asked[256]; /* not delivered yet */
    char     said[4096];
    size_t   said_len;
    unsigned expected, wanted; /* of the compare-and-swap that is not answered; wanted 0: none */
    htc_ns   since;
} client;

typedef struct rig {
    htc_rng        rng;
    htc_env        env;
    htc_kv_server *server;
    htc_output    *out;
    htc_ns         now;
    client         c[CLIENTS + 1];
    htc_status     status;
    int            stopped;
} rig;

static void collect(rig *r)
{
    htc_effect e;
    for (size_t i = 0; htc_output_get(r->out, i, &e) == HTC_OK; i++) {
        client *c = &r->c[e.peer];
        r->stopped |= e.kind == HTC_OUT_STOP;
        if (e.kind != HTC_OUT_BYTES)
            continue;
        cr_assert(c->said_len + e.body.len < sizeof c->said);
        memcpy(c->said + c->said_len, e.body.data, e.body.len);
        c->said_len += e.body.len;
        c->said[c->said_len] = 0;
    }
    htc_output_clear(r->out);
}

static void input(rig *r, uint32_t kind, uint32_t peer, htc_bytes body)
{
    htc_input in = { .size = sizeof in, .now = r->now, .wall = r->now, .kind = kind, .peer = peer, .body = body };
    if (r->status == HTC_OK)
        r->status = htc_kv_server_ops()->step(r->server, &in, r->out);
    collect(r);
}

/* What a driver does at the end of its turn. */
static void turn(rig *r)
{
    if (htc_kv_server_ops()->deadline(r->server) <= r->now)
        input(r, HTC_IN_TIMEOUT, 0, (htc_bytes){ NULL, 0 });
    input(r, HTC_IN_TURN, 0, (htc_bytes){ NULL, 0 });
}

static void open_one(rig *r, uint32_t peer)
{
    htc_buf body;
    htc_buf_init(&body, NULL, 0);
    htc_peer_info_write(&body, &(htc_peer_info){ .port = PORT });
    input(r, HTC_IN_OPENED, peer, htc_buf_bytes(&body));
    htc_buf_free(&body);
}

static htc_status make(rig *r, alloc_fail *f, uint64_t seed, uint32_t clients)
{
    memset(r, 0, sizeof *r);
    r->rng = (htc_rng){ seed };
    r->now = HTC_SECOND;
    r->env = (htc_env){ .size = sizeof r->env, .rng = &r->rng, .alloc = f ? alloc_fail_env(f).alloc : NULL };
    htc_kv_server_options o = { .size = sizeof o, .resp_port = PORT };
    r->status = htc_kv_server_create(&r->env, &o, &r->server);
    if (r->status == HTC_OK)
        r->status = htc_output_create(&r->env, 0, &r->out);
    if (r->status != HTC_OK)
        return r->status;
    input(r, HTC_IN_START, 0, (htc_bytes){ NULL, 0 });
    turn(r);
    for (uint32_t i = 1; i <= clients; i++)
        open_one(r, i);
    return r->status;
}

static void end(rig *r)
{
    htc_kv_server_destroy(r->server);
    htc_output_destroy(r->out);
}

static void say(rig *r, uint32_t peer, const char *text)
{
    input(r, HTC_IN_BYTES, peer, htc_bytes_of(text));
}

static int heard(rig *r, uint32_t peer, const char *text)
{
    int same = strcmp(r->c[peer].said, text) == 0;
    r->c[peer].said_len = 0;
    r->c[peer].said[0] = 0;
    return same;
}

static void cas(rig *r, uint32_t peer, unsigned expected, unsigned wanted)
{
    client *c = &r->c[peer];
    snprintf(c->asked, sizeof c->asked, "*6\r\n$3\r\nSET\r\n$1\r\nk\r\n$8\r\n%08u\r\n$4\r\nIFEQ\r\n$8\r\n%08u\r\n$3\r\nGET\r\n",
             wanted, expected);
    c->expected = expected;
    c->wanted = wanted;
    c->since = r->now;
}

static void deliver(rig *r, uint32_t peer)
{
    say(r, peer, r->c[peer].asked);
    r->c[peer].asked[0] = 0;
}

/* 1: it is answered: *seen is what was there. */
static int answered(rig *r, uint32_t peer, unsigned *seen)
{
    client *c = &r->c[peer];
    if (c->said_len == 0)
        return 0;
    HOLDS(sscanf(c->said, "$8\r\n%8u\r\n", seen) == 1 && c->said_len == 14);
    c->said_len = 0;
    c->said[0] = 0;
    c->wanted = 0;
    return 1;
}

static const char *put_0 = "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$8\r\n00000000\r\n";
static const char *get_k = "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n";

/* Every value is wanted once, so what became of each is known: next[v] replaced v, and place[v] says when. */
typedef struct chain {
    unsigned *next, *place, newest;
} chain;

static void won(chain *h, unsigned expected, unsigned wanted)
{
    HOLDS(h->next[expected] == 0);
    h->next[expected] = wanted;
}

/* Clients of all kinds: some come back at once, some late, some never, some ask for more behind, some break off. */
Test(kvs_contention, one_order_fits_all_answers)
{
    enum { VALUES = 4000 };
    PROPERTY (rng, 300) {
        rig      r;
        unsigned steps = 400, last = 0, clients = 2 + (unsigned)htc_rng_below(&rng, CLIENTS - 1), seen, bound = 0;
        chain    h = { .next = calloc(VALUES, sizeof(unsigned)), .place = calloc(VALUES, sizeof(unsigned)) };
        unsigned known[CLIENTS + 1] = { 0 }, floor[CLIENTS + 1] = { 0 }, wanted[CLIENTS + 1], expected[CLIENTS + 1];
        unsigned shown_to[VALUES], shown_floor[VALUES], shown[VALUES], shows = 0, highest = 0;
        unsigned lazy = (unsigned)htc_rng_below(&rng, 4);
        cr_assert(make(&r, NULL, property_seed, clients) == HTC_OK);
        say(&r, 1, put_0);
        turn(&r);
        HOLDS(heard(&r, 1, "+OK\r\n"));
        for (unsigned step = 0; step < steps || bound; step++) {
            bound = 0;
            for (uint32_t i = 1; i <= clients; i++) {
                client *c = &r.c[i];
                if (!c->wanted && step < steps && htc_rng_below(&rng, 1 + lazy) == 0 && last + 1 < VALUES) {
                    cas(&r, i, known[i], ++last);
                    wanted[i] = last;
                    expected[i] = known[i];
                }
                if (c->asked[0] && htc_rng_below(&rng, 2)) {
                    floor[i] = highest;
                    c->since = r.now;
                    deliver(&r, i);
                }
                bound += c->wanted != 0;
            }
            r.now += htc_rng_below(&rng, 60) * HTC_US;
            turn(&r);
            for (uint32_t i = 1; i <= clients; i++) {
                htc_ns since = r.c[i].since;
                if (!r.c[i].wanted || !answered(&r, i, &seen))
                    continue;
                HOLDS(r.now - since <= (clients + 1) * (WAIT + 60 * HTC_US));
                known[i] = seen;
                if (seen == expected[i]) {
                    won(&h, expected[i], wanted[i]);
                    known[i] = wanted[i];
                } else {
                    shown[shows] = seen;
                    shown_floor[shows] = floor[i];
                    shown_to[shows++] = expected[i];
                }
                /* The order is found by walking what has been replaced. */
                for (; h.next[h.newest]; h.newest = h.next[h.newest])
                    h.place[h.next[h.newest]] = h.place[h.newest] + 1;
                highest = h.place[h.newest];
            }
        }
        HOLDS(r.status == HTC_OK && htc_kv_server_ops()->deadline(r.server) > r.now + WAIT);
        for (unsigned v = 0; v <= last; v++) /* what was won is in the one order */
            HOLDS(h.next[v] == 0 || v == 0 || h.place[v] > 0);
        for (unsigned k = 0; k < shows; k++) /* shown: something else than expected, and not older than what had been answered */
            HOLDS(shown[k] != shown_to[k] && (shown[k] == 0 || h.place[shown[k]] > 0) &&
                  h.place[shown[k]] >= shown_floor[k]);
        free(h.next);
        free(h.place);
        end(&r);
    }
}

/* Sixteen that always come back: without an order among them, fifteen of sixteen requests are lost. With it, of three: the first one, which
 * is answered when it is its turn; and one of the two that come back with what they were shown then. Of these it is always the one with the
 * higher number that comes second: it has its share all the same. */
Test(kvs_contention, few_requests_are_lost)
{
    rig      r;
    unsigned value[CLIENTS + 1] = { 0 }, last = 0, wins = 0, requests = 0, each[CLIENTS + 1] = { 0 }, seen;
    cr_assert(make(&r, NULL, 1, CLIENTS) == HTC_OK);
    say(&r, 1, put_0);
    turn(&r);
    cr_assert(heard(&r, 1, "+OK\r\n"));
    for (uint32_t i = 1; i <= CLIENTS; i++)
        cas(&r, i, 0, ++last);
    for (int step = 0; step < 2000; step++) {
        for (uint32_t i = 1; i <= CLIENTS; i++)
            if (r.c[i].asked[0]) {
                deliver(&r, i);
                requests++;
            }
        r.now += 20 * HTC_US;
        turn(&r);
        for (uint32_t i = 1; i <= CLIENTS; i++) {
            unsigned expected = r.c[i].expected, wanted = r.c[i].wanted;
            if (!answered(&r, i, &seen))
                continue;
            value[i] = seen == expected ? wanted : seen;
            wins += seen == expected;
            each[i] += seen == expected;
            cas(&r, i, value[i], ++last);
        }
    }
    cr_expect(requests <= 3 * wins + CLIENTS, "%u requests for %u changes", requests, wins);
    for (uint32_t i = 1; i <= CLIENTS; i++)
        cr_expect(each[i] >= wins / CLIENTS / 4, "client %u: %u of %u changes", i, each[i], wins);
    end(&r);
}

/* A lock: whoever has not got it tries again and again for what is not there, and who has got it gives it back in the same way. It waits
 * behind others that lose, and is heard. */
Test(kvs_contention, a_lock_is_given_back)
{
    enum { SPINNERS = 5 };
    rig      r;
    htc_rng  rng = { 1 };
    unsigned got[SPINNERS + 1] = { 0 }, rounds = 0, seen;
    uint32_t holder = 0;
    cr_assert(make(&r, NULL, 1, SPINNERS) == HTC_OK);
    say(&r, 1, put_0);
    turn(&r);
    cr_assert(heard(&r, 1, "+OK\r\n"));
    for (uint32_t i = 1; i <= SPINNERS; i++)
        cas(&r, i, 0, i);
    while (rounds < 200) {
        uint32_t first_heard = (uint32_t)htc_rng_below(&rng, SPINNERS);
        for (uint32_t k = 0; k < SPINNERS; k++) {
            uint32_t i = 1 + (first_heard + k) % SPINNERS;
            if (r.c[i].asked[0])
                deliver(&r, i);
        }
        r.now += 100 * HTC_US;
        turn(&r);
        for (uint32_t k = 0, first = holder; k <= SPINNERS; k++) { /* who gives it back comes before who gets it */
            uint32_t i = k ? k : first;
            if (i == 0)
                continue;
            unsigned expected = r.c[i].expected;
            cr_assert(r.now - r.c[i].since < 20 * HTC_MS, "client %u waits for its answer after %u rounds", i, rounds);
            if (!answered(&r, i, &seen))
                continue;
            if (expected) { /* it is given back */
                cr_assert(seen == i && holder == i);
                holder = 0;
                rounds++;
            } else if (seen == 0) {
                cr_assert(holder == 0);
                holder = i;
                got[i]++;
            }
            cas(&r, i, holder == i ? i : 0, holder == i ? 0 : i);
        }
    }
    for (uint32_t i = 1; i <= SPINNERS; i++)
        cr_expect(got[i] >= 10, "client %u has had it %u times", i, got[i]);
    end(&r);
}

/* Two of them are on their way back, two wait. */
static void four_lose(rig *r)
{
    say(r, 1, put_0);
    turn(r);
    cr_assert(heard(r, 1, "+OK\r\n"));
    for (uint32_t i = 1; i <= 5; i++) {
        cas(r, i, i == 1 ? 0 : 999, i);
        deliver(r, i);
    }
    turn(r);
    cr_assert(heard(r, 1, "$8\r\n00000000\r\n"));
    cr_assert(heard(r, 2, "$8\r\n00000001\r\n") && heard(r, 3, "$8\r\n00000001\r\n")); /* the first are shown what is there */
    cr_assert(heard(r, 4, "") && heard(r, 5, ""));
}

Test(kvs_contention, nobody_waits_for_one_that_gives_up)
{
    rig r;
    cr_assert(make(&r, NULL, 1, 5) == HTC_OK);
    four_lose(&r);
    r.now += WAIT - 1;
    turn(&r);
    cr_expect(heard(&r, 4, "") && heard(&r, 5, ""));
    cr_expect(htc_kv_server_ops()->deadline(r.server) == r.now + 1);
    r.now += 1;
    turn(&r);
    cr_expect(heard(&r, 4, "$8\r\n00000001\r\n") && heard(&r, 5, "$8\r\n00000001\r\n"));
    end(&r);
}

Test(kvs_contention, whoever_waits_may_win)
{
    rig r;
    cr_assert(make(&r, NULL, 1, 5) == HTC_OK);
    four_lose(&r);
    cas(&r, 3, 1, 999);
    deliver(&r, 3); /* back, and wins */
    turn(&r);
    cr_expect(heard(&r, 3, "$8\r\n00000001\r\n"));
    cr_expect(heard(&r, 4, "$8\r\n00000999\r\n")); /* what it expected is there now */
    cr_expect(heard(&r, 5, "$8\r\n00000004\r\n"));
    cas(&r, 2, 1, 6);
    deliver(&r, 2); /* back, and loses: it does not wait behind anybody */
    turn(&r);
    cr_expect(heard(&r, 2, "$8\r\n00000004\r\n"));
    end(&r);
}

Test(kvs_contention, what_is_asked_behind_keeps_its_order)
{
    rig r;
    cr_assert(make(&r, NULL, 1, 5) == HTC_OK);
    four_lose(&r);
    say(&r, 4, get_k);
    turn(&r);
    cr_expect(heard(&r, 4, "$8\r\n00000001\r\n$8\r\n00000001\r\n"));
    cr_expect(heard(&r, 5, ""));
    /* Two at once are never made to wait. */
    char both[512];
    cas(&r, 4, 999, 8);
    snprintf(both, sizeof both, "%s%s", r.c[4].asked, get_k);
    say(&r, 4, both);
    turn(&r);
    cr_expect(heard(&r, 4, "$8\r\n00000001\r\n$8\r\n00000001\r\n"));
    end(&r);
}

Test(kvs_contention, an_end_and_a_broken_connection_leave_nobody_waiting)
{
    rig r;
    cr_assert(make(&r, NULL, 1, 5) == HTC_OK);
    four_lose(&r);
    input(&r, HTC_IN_CLOSED, 4, (htc_bytes){ NULL, 0 });
    htc_input in = { .size = sizeof in, .now = r.now, .wall = r.now, .kind = HTC_IN_EVENT, .op = HTC_KV_SERVER_SHUTDOWN };
    cr_assert(htc_kv_server_ops()->step(r.server, &in, r.out) == HTC_OK);
    turn(&r);
    cr_expect(heard(&r, 5, "$8\r\n00000001\r\n"));
    turn(&r);
    cr_expect(r.stopped);
    end(&r);
}

Test(kvs_contention, refused_memory_leaves_nobody_waiting)
{
    ALLOC_FAIL_ONCE (f, 3000) {
        rig r;
        if (make(&r, &f, 1, 4) == HTC_OK) {
            say(&r, 1, put_0);
            for (uint32_t i = 1; i <= 4; i++) {
                cas(&r, i, 999, i);
                deliver(&r, i);
            }
            turn(&r);
            r.now += WAIT;
            turn(&r);
            for (uint32_t i = 2; i <= 4 && r.status == HTC_OK && !f.refused; i++)
                cr_expect(heard(&r, i, "$8\r\n00000000\r\n"));
            cr_expect(r.status == HTC_OK || r.status == HTC_ENOMEM);
        }
        end(&r);
        cr_expect(f.live == 0 && f.wrong_sizes == 0);
    }
}
