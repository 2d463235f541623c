/* What strangers may cost: handshakes in flight, cookies, the rate of each source. */
#include "channel_pair.h"

#include <sodium.h>

#include "alloc_fail.h"
#include "channel/gate.h"
#include "property.h"

static htc_gate *gate_of(const htc_gate_options *like)
{
    htc_gate_options o = *like;
    htc_gate        *gate = NULL;
    o.size = sizeof o;
    memset(o.secret, 7, sizeof o.secret);
    cr_assert(eq(int, htc_gate_create(NULL, &o, &gate), HTC_OK));
    return gate;
}

static htc_gate_counts counts(const htc_gate *gate)
{
    htc_gate_counts c;
    htc_gate_count(gate, &c);
    return c;
}

static uint8_t fresh[HTC_CHANNEL_COOKIE];

static htc_status enter(htc_gate *gate, htc_ns now, const char *source, const uint8_t *cookie)
{
    return htc__gate_enter(gate, now, htc_bytes_of(source), cookie, fresh);
}

Test(gate, options_are_checked)
{
    htc_gate_options o = { .size = sizeof o };
    htc_gate        *gate = NULL;
    cr_expect(eq(int, htc_gate_create(NULL, &o, &gate), HTC_EINVAL), "a secret of zeros");
    o.secret[0] = 1;
    o.sources = (1u << 20) + 1;
    cr_expect(eq(int, htc_gate_create(NULL, &o, &gate), HTC_EINVAL));
    cr_expect(eq(int, htc_gate_create(NULL, NULL, &gate), HTC_EINVAL));
    o.sources = 0;
    cr_expect(eq(int, htc_gate_create(NULL, &o, NULL), HTC_EINVAL));
    ALLOC_FAIL_EVERY(f, 10)
    {
        htc_env    env = alloc_fail_env(&f);
        htc_status status = htc_gate_create(&env, &o, &gate);
        cr_expect(eq(int, status, f.refused ? HTC_ENOMEM : HTC_OK));
        htc_gate_destroy(status == HTC_OK ? gate : NULL);
        cr_expect(f.live == 0 && f.wrong_sizes == 0);
    }
}

/* The first two freely, two more with a cookie of their own, no fifth; who leaves makes room. */
Test(gate, cookies_above_the_first_limit)
{
    htc_gate *gate = gate_of(&(htc_gate_options){ .inflight_max = 4, .inflight_free = 2 });
    uint8_t   mine[16], other[16], next[32];
    cr_expect(eq(int, enter(gate, 0, "a", NULL), HTC_OK));
    cr_expect(eq(int, enter(gate, 0, "b", NULL), HTC_OK));
    cr_expect(eq(int, enter(gate, 0, "c", NULL), HTC_AGAIN));
    memcpy(mine, fresh, 16);
    cr_expect(eq(int, enter(gate, 0, "d", NULL), HTC_AGAIN));
    memcpy(other, fresh, 16);
    cr_expect(memcmp(mine, other, 16) != 0);
    cr_expect(eq(int, enter(gate, 0, "c", other), HTC_AGAIN), "somebody else's cookie");
    cr_expect(memcmp(fresh, mine, 16) == 0, "no state: the same cookie again");
    cr_expect(eq(int, enter(gate, 0, "c", mine), HTC_OK));
    memset(next, 8, sizeof next);
    htc_gate_turn(gate, next);
    cr_expect(eq(int, enter(gate, 0, "d", other), HTC_OK), "good until the turn after the next");
    cr_expect(eq(int, enter(gate, 0, "c", mine), HTC_EBUSY));
    htc__gate_leave(gate);
    memset(next, 9, sizeof next);
    htc_gate_turn(gate, next);
    cr_expect(eq(int, enter(gate, 0, "c", mine), HTC_AGAIN), "too old");
    htc_gate_counts c = counts(gate);
    cr_expect(c.admitted == 4 && c.inflight == 3 && c.busy == 1 && c.cookies == 4 && c.rate_limited == 0);
    htc_gate_destroy(gate);
    htc_gate_destroy(NULL);
}

/* A source has its burst and then its rate; another one is not touched by it. A model counts. */
Test(gate, each_source_has_its_rate)
{
    PROPERTY(rng, 300)
    {
        uint32_t  rate = 1 + (uint32_t)htc_rng_below(&rng, 50), burst = 1 + (uint32_t)htc_rng_below(&rng, 20);
        htc_gate *gate = gate_of(&(htc_gate_options){ .rate = rate, .burst = burst });
        double    level[2] = { burst, burst };
        htc_ns    now = htc_rng_below(&rng, HTC_SECOND), seen[2] = { now, now };
        for (int i = 0; i < 400; i++) {
            size_t s = htc_rng_below(&rng, 4) == 0;
            now += htc_rng_below(&rng, 3) ? 0 : htc_rng_below(&rng, HTC_SECOND / rate * 4);
            level[s] += (double)(now - seen[s]) * rate / 1e9;
            level[s] = level[s] > burst ? burst : level[s];
            seen[s] = now;
            htc_status status = enter(gate, now, s ? "one" : "another", NULL);
            /* Where the two disagree by rounding there is less than a millionth of a handshake between them. */
            HOLDS(status == HTC_OK ? level[s] > 1 - 1e-6 : status == HTC_EBUSY && level[s] < 1 + 1e-6);
            if (status == HTC_OK) {
                level[s] -= 1;
                htc__gate_leave(gate);
            }
        }
        htc_gate_destroy(gate);
    }
}

/* However many sources there are, no memory is taken; one that has used up its burst is forgotten last. */
Test(gate, many_sources_take_no_memory)
{
    alloc_fail       f = alloc_fail_at(0);
    htc_env          env = alloc_fail_env(&f);
    htc_gate_options o = { .size = sizeof o, .secret = { 1 }, .sources = 64, .burst = 4, .rate = 1 };
    htc_gate        *gate = NULL;
    char             name[16];
    cr_assert(eq(int, htc_gate_create(&env, &o, &gate), HTC_OK));
    for (int i = 0; i < 4; i++) {
        cr_assert(eq(int, enter(gate, 0, "greedy", NULL), HTC_OK));
        htc__gate_leave(gate);
    }
    size_t calls = f.calls;
    for (int i = 0; i < 100000; i++) {
        snprintf(name, sizeof name, "s%d", i);
        cr_assert(eq(int, enter(gate, 0, name, NULL), HTC_OK));
        htc__gate_leave(gate);
    }
    cr_expect(eq(sz, f.calls, calls));
    cr_expect(eq(int, enter(gate, 0, "greedy", NULL), HTC_EBUSY));
    htc_gate_destroy(gate);
    cr_expect(eq(sz, f.live, 0));
}

/* The whole of it: callers that stop in the middle fill the gate, one that comes is given a cookie, comes back with it, and is let
 * in; those that never came back are timed out and make room. */
Test(gate, a_caller_comes_back_with_its_cookie)
{
    enum { LAZY = 2 };
    pair    p;
    pair    lazy[LAZY];
    uint8_t cookie[16];
    pair_open(&p, 1, 1);
    p.gate = gate_of(&(htc_gate_options){ .inflight_max = 3, .inflight_free = LAZY });
    for (int i = 0; i < LAZY; i++) {
        pair_open(&lazy[i], 2 + (uint64_t)i, 1);
        lazy[i].gate = p.gate;
        pair_dial(&lazy[i]);
        pair_say(&lazy[i], CALLER, SIZE_MAX);
        cr_assert(eq(int, pair_carry(&lazy[i], SERVER, SIZE_MAX), HTC_OK));
    }
    cr_expect(eq(u32, counts(p.gate).inflight, LAZY));
    pair_dial(&p);
    cr_expect(eq(int, htc_channel_cookie(p.e[CALLER].channel, cookie), 0));
    pair_pump(&p);
    cr_expect(p.e[SERVER].status == HTC_EBUSY && p.e[CALLER].status == HTC_EBUSY);
    cr_expect(sodium_is_zero((uint8_t *)&p.e[SERVER].channel->noise, sizeof(htc__noise)), "nothing was begun for it");
    cr_assert(eq(int, htc_channel_cookie(p.e[CALLER].channel, cookie), 1));
    pair_hang_up(&p);
    p.o[CALLER].cookie = cookie;
    pair_connect(&p);
    cr_expect(eq(u32, counts(p.gate).inflight, LAZY), "who is open is no handshake any more");
    pair_hang_up(&p);
    /* Another address has no use for it. */
    p.o[SERVER].source = (htc_bytes){ "10.0.0.9", 8 };
    pair_dial(&p);
    pair_pump(&p);
    cr_expect(p.e[CALLER].status == HTC_EBUSY);
    pair_hang_up(&p);
    for (int i = 0; i < LAZY; i++)
        cr_expect(eq(int, htc_channel_timeout(lazy[i].e[SERVER].channel, p.now + 10 * HTC_SECOND), HTC_ETIMEDOUT));
    cr_expect(eq(u32, counts(p.gate).inflight, 0));
    pair_connect(&p);
    for (int i = 0; i < LAZY; i++) {
        lazy[i].gate = NULL;
        pair_close(&lazy[i]);
    }
    pair_close(&p);
}

/* However a handshake ends, its place in the gate is given back. */
Test(gate, every_way_out_leaves_the_gate)
{
    PROPERTY(rng, 400)
    {
        pair p;
        pair_open(&p, htc_rng_next(&rng), htc_rng_below(&rng, 4) != 0);
        p.gate = gate_of(&(htc_gate_options){ .inflight_max = 3 });
        p.o[CALLER].only_xx = htc_rng_below(&rng, 2);
        p.o[CALLER].peer = htc_rng_below(&rng, 2) ? "store-1" : NULL;
        if (pair_begin(&p, CALLER, NULL) != HTC_OK) {
            pair_close(&p);
            continue;
        }
        HOLDS(pair_begin(&p, SERVER, NULL) == HTC_OK);
        if (htc_rng_below(&rng, 4) == 0)
            pair_new_key(&p, SERVER, NULL);
        for (int i = 0; i < 12; i++) {
            int k = (int)htc_rng_below(&rng, 2);
            pair_say(&p, k, 1 + htc_rng_below(&rng, 150));
            wire *w = &p.e[k].out;
            if (htc_rng_below(&rng, 8) == 0 && w->at < w->len)
                w->data[w->at] ^= 1;
            if (p.e[1 - k].status == HTC_OK)
                pair_carry(&p, 1 - k, 1 + htc_rng_below(&rng, 150));
        }
        uint32_t state = p.e[SERVER].channel->state;
        HOLDS(counts(p.gate).inflight == (p.e[SERVER].channel->in_gate != 0));
        if (state == HTC__CHANNEL_IS_OPEN || state == HTC__CHANNEL_FAILED)
            HOLDS(counts(p.gate).inflight == 0);
        pair_hang_up(&p);
        HOLDS(counts(p.gate).inflight == 0);
        pair_close(&p);
    }
}
