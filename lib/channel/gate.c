/* Limits in the order of what they cost: a count; a cookie (one keyed hash, and no memory); a bucket for each source.
 *
 * Buckets stand in sets of four, found by a keyed hash. A source that is not there takes the place of the fullest bucket, whose
 * source is the one that may do most anyway: forgetting it gives little away. */
#include "channel/gate.h"

#include <sodium.h>
#include <string.h>

#include "core/util.h"

#define WAYS 4

typedef struct bucket {
    uint64_t source; /* keyed hash; 0: free */
    uint64_t level;  /* handshakes left, in 1/HTC_SECOND of one */
    htc_ns   seen;
} bucket;

struct htc_gate {
    htc_env          env;
    htc_gate_options options;
    htc_gate_counts  counts;
    uint8_t          last[32]; /* the secret before; zeros: none */
    uint8_t          places[crypto_shorthash_KEYBYTES];
    bucket          *buckets;
    size_t           bucket_count;
};

static size_t power_above(size_t n)
{
    size_t p = WAYS;
    while (p < n)
        p *= 2;
    return p;
}

htc_status htc_gate_create(const htc_env *env, const htc_gate_options *options, htc_gate **out)
{
    htc_gate_options o = { .inflight_max = 0 };
    if (!options || !out)
        return HTC_EINVAL;
    htc_status status = htc__options_copy(&o, sizeof o, options, options->size, sizeof o);
    if (status != HTC_OK)
        return status;
    if (sodium_is_zero(o.secret, sizeof o.secret) || o.sources > 1u << 20)
        return HTC_EINVAL;
    o.inflight_max = o.inflight_max ? o.inflight_max : 256;
    o.inflight_free = o.inflight_free ? o.inflight_free : (o.inflight_max + 1) / 2;
    o.rate = o.rate ? o.rate : 16;
    o.burst = o.burst ? o.burst : 64;
    size_t    count = power_above(o.sources ? o.sources : 4096);
    htc_gate *gate = htc__alloc(env, sizeof *gate);
    bucket   *buckets = htc__alloc(env, count * sizeof *buckets);
    if (!gate || !buckets) {
        htc__free(env, gate, sizeof *gate);
        htc__free(env, buckets, count * sizeof *buckets);
        return HTC_ENOMEM;
    }
    gate->env = (htc_env){ .size = sizeof gate->env, .alloc = env ? env->alloc : NULL };
    gate->options = o;
    gate->buckets = buckets;
    gate->bucket_count = count;
    crypto_generichash(gate->places, sizeof gate->places, (const uint8_t *)"places", 6, o.secret, sizeof o.secret);
    sodium_memzero(&o, sizeof o);
    *out = gate;
    return HTC_OK;
}

void htc_gate_destroy(htc_gate *gate)
{
    if (!gate)
        return;
    htc_env env = gate->env;
    htc__free(&env, gate->buckets, gate->bucket_count * sizeof *gate->buckets);
    sodium_memzero(gate, sizeof *gate);
    htc__free(&env, gate, sizeof *gate);
}

void htc_gate_turn(htc_gate *gate, const uint8_t *secret)
{
    memcpy(gate->last, gate->options.secret, sizeof gate->last);
    memcpy(gate->options.secret, secret, sizeof gate->options.secret);
}

void htc_gate_count(const htc_gate *gate, htc_gate_counts *counts)
{
    *counts = gate->counts;
}

static void bake(const uint8_t *secret, htc_bytes source, uint8_t cookie[HTC_CHANNEL_COOKIE])
{
    crypto_generichash(cookie, HTC_CHANNEL_COOKIE, source.data, source.len, secret, 32);
}

static int good(const htc_gate *gate, htc_bytes source, const uint8_t *cookie)
{
    uint8_t expected[HTC_CHANNEL_COOKIE];
    bake(gate->options.secret, source, expected);
    if (sodium_memcmp(expected, cookie, sizeof expected) == 0)
        return 1;
    if (sodium_is_zero(gate->last, sizeof gate->last))
        return 0;
    bake(gate->last, source, expected);
    return sodium_memcmp(expected, cookie, sizeof expected) == 0;
}

static void refill(const htc_gate *gate, bucket *b, htc_ns now)
{
    uint64_t full = gate->options.burst * HTC_SECOND;
    htc_ns   past = now > b->seen ? now - b->seen : 0;
    if (past >= (full - b->level) / gate->options.rate)
        b->level = full;
    else
        b->level += past * gate->options.rate;
    b->seen = now > b->seen ? now : b->seen;
}

static bucket *bucket_of(htc_gate *gate, htc_ns now, htc_bytes source)
{
    uint64_t hash;
    crypto_shorthash((uint8_t *)&hash, source.data, source.len, gate->places);
    hash += hash == 0;
    bucket *set = &gate->buckets[(size_t)(hash & (gate->bucket_count / WAYS - 1)) * WAYS], *fullest = NULL;
    for (size_t i = 0; i < WAYS; i++) {
        if (set[i].source)
            refill(gate, &set[i], now);
        if (set[i].source == hash)
            return &set[i];
        if (!fullest || (fullest->source && (!set[i].source || set[i].level > fullest->level)))
            fullest = &set[i];
    }
    *fullest = (bucket){ .source = hash, .level = gate->options.burst * HTC_SECOND, .seen = now };
    return fullest;
}

htc_status htc__gate_enter(htc_gate *gate, htc_ns now, htc_bytes source, const uint8_t *cookie,
                           uint8_t fresh[HTC_CHANNEL_COOKIE])
{
    if (gate->counts.inflight >= gate->options.inflight_max) {
        gate->counts.busy++;
        return HTC_EBUSY;
    }
    if (gate->counts.inflight >= gate->options.inflight_free && !(cookie && good(gate, source, cookie))) {
        bake(gate->options.secret, source, fresh);
        gate->counts.cookies++;
        return HTC_AGAIN;
    }
    bucket *b = bucket_of(gate, now, source);
    if (b->level < HTC_SECOND) {
        gate->counts.rate_limited++;
        return HTC_EBUSY;
    }
    b->level -= HTC_SECOND;
    gate->counts.admitted++;
    gate->counts.inflight++;
    return HTC_OK;
}

void htc__gate_leave(htc_gate *gate)
{
    gate->counts.inflight--;
}
