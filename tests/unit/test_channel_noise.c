/* The handshakes against the published vectors (where the folder with them is there) and against our own, which were made by
 * this code; then what is refused. Messages, transport ones too, go to and fro: message i is the initiator's if i is even. */
#include "expect.h"
#include <jansson.h>
#include <sodium.h>
#include <string.h>

#include "../data.h"
#include "channel/noise.h"
#include "noise_vectors.h"
#include "property.h"

static size_t unhex(const char *hex, uint8_t *out, size_t room)
{
    size_t n = 0;
    if (hex)
        cr_assert(sodium_hex2bin(out, room, hex, strlen(hex), NULL, &n, NULL) == 0);
    return n;
}

typedef struct side {
    htc__noise        h;
    htc__noise_cipher send, receive;
    uint8_t           own[32], ephemeral[32], peer[32], psk[32], prologue[64];
} side;

static uint32_t pattern_of(const char *name)
{
    static const char *const names[] = { "Noise_XX_25519_ChaChaPoly_SHA256", "Noise_IK_25519_ChaChaPoly_SHA256",
                                         "Noise_XXpsk3_25519_ChaChaPoly_SHA256" };
    for (uint32_t i = 0; i < 3; i++)
        if (strcmp(name, names[i]) == 0)
            return i + 1;
    return 0;
}

static void start(side *s, uint32_t pattern, int initiator, const char *prologue, const char *own,
                  const char *ephemeral, const char *peer, const char *psk)
{
    size_t len = unhex(prologue, s->prologue, sizeof s->prologue);
    unhex(own, s->own, 32);
    unhex(ephemeral, s->ephemeral, 32);
    unhex(peer, s->peer, 32);
    unhex(psk, s->psk, 32);
    htc__noise_keys keys = { s->own, s->ephemeral, peer ? s->peer : NULL, psk ? s->psk : NULL, NULL };
    cr_assert(eq(int, htc__noise_start(&s->h, pattern, initiator, (htc_bytes){ s->prologue, len }, &keys), HTC_OK));
}

static void split(side *s, const char *hash)
{
    uint8_t expected[32];
    if (hash && unhex(hash, expected, 32))
        cr_expect(memcmp(s->h.hash, expected, 32) == 0, "the hash of the handshake");
    cr_assert(eq(int, htc__noise_split(&s->h, &s->send, &s->receive), HTC_OK));
    cr_expect(sodium_is_zero(s->h.own, 32) && sodium_is_zero(s->h.ephemeral, 32) && sodium_is_zero(s->h.chain, 32));
}

/* One message from one to the other. made: what it must be, len its length; NULL: nothing to compare with. */
static void message(side *from, side *to, htc_bytes payload, const uint8_t *made, size_t len)
{
    static const htc_bytes none;
    uint8_t                sealed[256], opened[256];
    int                    transport = !from->h.tokens;
    size_t                 n = payload.len + (transport ? HTC__NOISE_TAG : htc__noise_overhead(&from->h));
    if (transport) {
        cr_assert(eq(int, htc__noise_seal(&from->send, none, payload.data, payload.len, sealed), HTC_OK));
        cr_assert(eq(int, htc__noise_open(&to->receive, none, sealed, n, opened), HTC_OK));
    } else {
        cr_assert(eq(sz, n, payload.len + htc__noise_overhead(&to->h)));
        cr_assert(eq(int, htc__noise_write(&from->h, payload, sealed), HTC_OK));
        cr_assert(eq(int, htc__noise_read(&to->h, (htc_bytes){ sealed, n }, opened), HTC_OK));
    }
    cr_expect(memcmp(opened, payload.data, payload.len) == 0);
    if (made)
        cr_expect(n == len && memcmp(sealed, made, n) == 0, "a message is not what it should be");
}

static const char *text_of(json_t *vector, const char *key)
{
    return json_string_value(json_object_get(vector, key));
}

static void published(json_t *v, uint32_t pattern)
{
    side        s[2];
    json_t     *one;
    size_t      i;
    const char *hash = text_of(v, "handshake_hash");
    start(&s[0], pattern, 1, text_of(v, "init_prologue"), text_of(v, "init_static"), text_of(v, "init_ephemeral"),
          text_of(v, "init_remote_static"), json_string_value(json_array_get(json_object_get(v, "init_psks"), 0)));
    start(&s[1], pattern, 0, text_of(v, "resp_prologue"), text_of(v, "resp_static"), text_of(v, "resp_ephemeral"), NULL,
          json_string_value(json_array_get(json_object_get(v, "resp_psks"), 0)));
    json_array_foreach(json_object_get(v, "messages"), i, one)
    {
        uint8_t payload[128], made[256];
        size_t  n = unhex(text_of(one, "payload"), payload, sizeof payload);
        size_t  m = unhex(text_of(one, "ciphertext"), made, sizeof made);
        message(&s[i % 2], &s[1 - i % 2], (htc_bytes){ payload, n }, made, m);
        if (htc__noise_done(&s[0].h)) {
            cr_expect(memcmp(s[1].h.peer, s[0].h.own_public, 32) == 0);
            cr_expect(memcmp(s[0].h.peer, s[1].h.own_public, 32) == 0);
            split(&s[0], hash);
            split(&s[1], hash);
        }
    }
    cr_expect(i >= 6 && !s[0].h.tokens, "handshake and transport messages were compared");
}

Test(channel_noise, published_vectors)
{
    size_t  i, seen = 0;
    json_t *root = NULL, *v;
    FILE   *file = test_data("noise-25519-chachapoly-sha256.json");
    if (!file)
        cr_skip("no published vectors in tests/data below or beside the working directory");
    root = json_loadf(file, 0, NULL);
    fclose(file);
    cr_assert(root != NULL);
    json_array_foreach(json_object_get(root, "vectors"), i, v)
    {
        uint32_t pattern = pattern_of(text_of(v, "protocol_name"));
        if (pattern) {
            published(v, pattern);
            seen++;
        }
    }
    json_decref(root);
    cr_expect(seen >= 3, "only %zu of XX, IK and XXpsk3", seen);
}

/* So that a clone without that folder tests something too. */
Test(channel_noise, own_vectors)
{
    for (size_t i = 0; i < sizeof own_vectors / sizeof *own_vectors; i++) {
        const own_vector *v = &own_vectors[i];
        side              s[2];
        uint8_t public[32];
        char    peer[65];
        uint8_t own[32];
        unhex(OWN_RESPONDER, own, 32);
        htc__noise_public(own, public);
        sodium_bin2hex(peer, sizeof peer, public, 32);
        start(&s[0], v->pattern, 1, OWN_PROLOGUE, OWN_INITIATOR, OWN_INITIATOR_E,
              v->pattern == HTC__NOISE_IK ? peer : NULL, v->pattern == HTC__NOISE_XXPSK3 ? OWN_PSK : NULL);
        start(&s[1], v->pattern, 0, OWN_PROLOGUE, OWN_RESPONDER, OWN_RESPONDER_E, NULL,
              v->pattern == HTC__NOISE_XXPSK3 ? OWN_PSK : NULL);
        for (size_t k = 0; v->messages[k]; k++) {
            uint8_t made[256];
            size_t  m = unhex(v->messages[k], made, sizeof made);
            char    payload[8];
            size_t  n = (size_t)snprintf(payload, sizeof payload, "%.*s", (int)k, "payload");
            message(&s[k % 2], &s[1 - k % 2], (htc_bytes){ payload, n }, made, m);
            if (htc__noise_done(&s[0].h)) {
                split(&s[0], v->hash);
                split(&s[1], v->hash);
            }
        }
    }
}

/* Two sides with keys drawn from a seed. */
static void draw(htc_rng *rng, uint8_t *out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = (uint8_t)htc_rng_next(rng);
}

static void pair(htc_rng *rng, uint32_t pattern, side *a, side *b)
{
    static const htc_bytes prologue = { "prologue", 8 };
    draw(rng, a->own, 32);
    draw(rng, b->own, 32);
    draw(rng, a->ephemeral, 32);
    draw(rng, b->ephemeral, 32);
    draw(rng, a->psk, 32);
    htc__noise_public(b->own, a->peer);
    const uint8_t  *psk = pattern == HTC__NOISE_XXPSK3 ? a->psk : NULL;
    htc__noise_keys ka = { a->own, a->ephemeral, pattern == HTC__NOISE_IK ? a->peer : NULL, psk, NULL };
    htc__noise_keys kb = { b->own, b->ephemeral, NULL, psk, NULL };
    cr_assert(eq(int, htc__noise_start(&a->h, pattern, 1, prologue, &ka), HTC_OK));
    cr_assert(eq(int, htc__noise_start(&b->h, pattern, 0, prologue, &kb), HTC_OK));
}

static int wiped(const side *s)
{
    return sodium_is_zero((const uint8_t *)&s->h, sizeof s->h);
}

/* One byte of one message of the handshake is changed, cut off or added: the handshake fails at the latest with the next
 * message, and the side that saw it keeps no secret. */
Test(channel_noise, a_damaged_handshake_fails)
{
    PROPERTY(rng, 600)
    {
        uint32_t pattern = 1 + (uint32_t)htc_rng_below(&rng, 3);
        side     s[2];
        pair(&rng, pattern, &s[0], &s[1]);
        size_t     victim = htc_rng_below(&rng, s[0].h.messages);
        htc_status status = HTC_OK;
        for (size_t i = 0; status == HTC_OK && i <= victim + 1 && !htc__noise_done(&s[i % 2].h); i++) {
            uint8_t bytes[256], out[256];
            size_t  n = htc__noise_overhead(&s[i % 2].h);
            status = htc__noise_write(&s[i % 2].h, (htc_bytes){ NULL, 0 }, bytes);
            HOLDS(status == HTC_OK);
            if (i == victim) {
                uint64_t how = htc_rng_below(&rng, 4);
                size_t   at = htc_rng_below(&rng, n);
                /* The highest bit of a public key does not count in a product; it does in the hash, and so below. */
                if (how == 0)
                    n = at;
                else if (how == 1)
                    bytes[n++] = (uint8_t)htc_rng_next(&rng);
                else
                    bytes[at] ^= (uint8_t)(1u << htc_rng_below(&rng, 8));
            }
            status = htc__noise_read(&s[1 - i % 2].h, (htc_bytes){ bytes, n }, out);
            HOLDS(status == HTC_OK || wiped(&s[1 - i % 2]));
        }
        HOLDS(status == HTC_EPROTO);
    }
}

Test(channel_noise, the_prologue_and_the_secret_count)
{
    static const char other[] = "prologuf";
    for (uint32_t pattern = 1; pattern <= 3; pattern++)
        for (int what = 0; what < 2; what++) {
            htc_rng    rng = { pattern };
            side       s[2];
            uint8_t    bytes[256], out[256];
            htc_status status = HTC_OK;
            pair(&rng, pattern, &s[0], &s[1]);
            if (what == 1 && pattern != HTC__NOISE_XXPSK3)
                continue;
            htc__noise_keys kb = { s[1].own, s[1].ephemeral, NULL, pattern == HTC__NOISE_XXPSK3 ? s[0].psk : NULL,
                                   NULL };
            s[0].psk[0] ^= (uint8_t)what;
            cr_assert(eq(int, htc__noise_start(&s[1].h, pattern, 0, (htc_bytes){ what ? "prologue" : other, 8 }, &kb),
                         HTC_OK));
            for (size_t i = 0; status == HTC_OK && !htc__noise_done(&s[i % 2].h); i++) {
                size_t n = htc__noise_overhead(&s[i % 2].h);
                cr_assert(eq(int, htc__noise_write(&s[i % 2].h, (htc_bytes){ NULL, 0 }, bytes), HTC_OK));
                status = htc__noise_read(&s[1 - i % 2].h, (htc_bytes){ bytes, n }, out);
            }
            cr_expect(eq(int, status, HTC_EPROTO));
        }
}

/* Points of low order, and numbers above the prime that stand for them: a product with one says nothing about the secret. */
Test(channel_noise, points_of_low_order_are_refused)
{
    static const char *const low[] = {
        "0000000000000000000000000000000000000000000000000000000000000000",
        "0100000000000000000000000000000000000000000000000000000000000000",
        "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
        "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    };
    for (size_t i = 0; i < sizeof low / sizeof *low; i++) {
        htc_rng rng = { i };
        side    s[2];
        uint8_t bytes[256], out[256];
        /* IK: the first message's key is multiplied at once. */
        pair(&rng, HTC__NOISE_IK, &s[0], &s[1]);
        cr_assert(eq(int, htc__noise_write(&s[0].h, (htc_bytes){ NULL, 0 }, bytes), HTC_OK));
        unhex(low[i], bytes, 32);
        cr_expect(eq(int, htc__noise_read(&s[1].h, (htc_bytes){ bytes, 96 }, out), HTC_EPROTO));
        cr_expect(wiped(&s[1]));
        /* XX: it is kept until the answer is made. */
        pair(&rng, HTC__NOISE_XX, &s[0], &s[1]);
        cr_assert(eq(int, htc__noise_write(&s[0].h, (htc_bytes){ NULL, 0 }, bytes), HTC_OK));
        unhex(low[i], bytes, 32);
        cr_assert(eq(int, htc__noise_read(&s[1].h, (htc_bytes){ bytes, 32 }, out), HTC_OK));
        cr_expect(eq(int, htc__noise_write(&s[1].h, (htc_bytes){ NULL, 0 }, bytes), HTC_EPROTO));
        cr_expect(wiped(&s[1]));
        /* As the static key of the server that is to be called. */
        pair(&rng, HTC__NOISE_IK, &s[0], &s[1]);
        unhex(low[i], s[0].peer, 32);
        htc__noise_keys keys = { s[0].own, s[0].ephemeral, s[0].peer, NULL, NULL };
        cr_assert(eq(int, htc__noise_start(&s[0].h, HTC__NOISE_IK, 1, (htc_bytes){ "p", 1 }, &keys), HTC_OK));
        cr_expect(eq(int, htc__noise_write(&s[0].h, (htc_bytes){ NULL, 0 }, bytes), HTC_EPROTO));
        cr_expect(wiped(&s[0]));
    }
}

Test(channel_noise, wrong_uses_are_named)
{
    htc_rng           rng = { 1 };
    side              s[2];
    htc__noise_cipher c, d;
    static uint8_t    bytes[HTC__NOISE_MESSAGE_MAX + 64], out[HTC__NOISE_MESSAGE_MAX + 64];
    pair(&rng, HTC__NOISE_XX, &s[0], &s[1]);
    htc__noise_keys keys = { s[0].own, s[0].ephemeral, NULL, NULL, NULL };
    cr_expect(eq(int, htc__noise_start(&s[0].h, 0, 1, (htc_bytes){ NULL, 0 }, &keys), HTC_EUNSUPPORTED));
    cr_expect(eq(int, htc__noise_start(&s[0].h, 4, 1, (htc_bytes){ NULL, 0 }, &keys), HTC_EUNSUPPORTED));
    cr_expect(eq(int, htc__noise_start(&s[0].h, HTC__NOISE_IK, 1, (htc_bytes){ NULL, 0 }, &keys), HTC_EINVAL));
    cr_expect(eq(int, htc__noise_start(&s[0].h, HTC__NOISE_XXPSK3, 1, (htc_bytes){ NULL, 0 }, &keys), HTC_EINVAL));
    cr_expect(eq(int, htc__noise_write(&s[0].h, (htc_bytes){ NULL, 0 }, bytes), HTC_EPROTO), "never started");
    pair(&rng, HTC__NOISE_XX, &s[0], &s[1]);
    cr_expect(eq(int, htc__noise_write(&s[1].h, (htc_bytes){ NULL, 0 }, bytes), HTC_EINVAL), "not its turn");
    cr_expect(wiped(&s[1]));
    cr_expect(eq(int, htc__noise_split(&s[0].h, &c, &d), HTC_EINVAL), "not done");
    cr_expect(wiped(&s[0]));
    pair(&rng, HTC__NOISE_XX, &s[0], &s[1]);
    cr_expect(eq(int, htc__noise_write(&s[0].h, (htc_bytes){ bytes, HTC__NOISE_MESSAGE_MAX - 31 }, out), HTC_ETOOBIG));
    pair(&rng, HTC__NOISE_XX, &s[0], &s[1]);
    cr_assert(eq(int, htc__noise_write(&s[0].h, (htc_bytes){ bytes, HTC__NOISE_MESSAGE_MAX - 32 }, out), HTC_OK));
    cr_expect(eq(int, htc__noise_read(&s[1].h, (htc_bytes){ out, HTC__NOISE_MESSAGE_MAX + 1 }, bytes), HTC_ETOOBIG));
    pair(&rng, HTC__NOISE_XX, &s[0], &s[1]);
    cr_expect(eq(int, htc__noise_read(&s[0].h, (htc_bytes){ out, 48 }, bytes), HTC_EINVAL), "not the peer's turn");
}

Test(channel_noise, a_message_has_a_largest_length_and_numbers_end)
{
    static uint8_t         text[HTC__NOISE_MESSAGE_MAX], sealed[HTC__NOISE_MESSAGE_MAX + 1];
    static const htc_bytes none;
    size_t                 longest = HTC__NOISE_MESSAGE_MAX - HTC__NOISE_TAG;
    htc__noise_cipher      a = { .keyed = 1 }, b = { .keyed = 1 };
    cr_expect(eq(int, htc__noise_seal(&a, none, text, longest + 1, sealed), HTC_ETOOBIG));
    cr_expect(eq(int, htc__noise_seal(&a, none, text, longest, sealed), HTC_OK));
    cr_expect(eq(int, htc__noise_open(&b, none, sealed, longest + 17, text), HTC_ETOOBIG));
    cr_expect(eq(int, htc__noise_open(&b, none, sealed, 15, text), HTC_EPROTO));
    cr_expect(eq(int, htc__noise_open(&b, none, sealed, longest + 16, text), HTC_OK));
    a.n = b.n = UINT64_MAX - 1;
    cr_expect(eq(int, htc__noise_seal(&a, none, text, 1, sealed), HTC_OK));
    cr_expect(eq(int, htc__noise_open(&b, none, sealed, 17, text), HTC_OK));
    cr_expect(eq(int, htc__noise_seal(&a, none, text, 1, sealed), HTC_EFULL), "2^64 - 1 is for the next key alone");
    cr_expect(eq(int, htc__noise_open(&b, none, sealed, 17, text), HTC_EFULL));
}

/* Both ends go to the next key together; who does not, opens nothing more; the count goes on. */
Test(channel_noise, the_next_key)
{
    htc__noise_cipher      a = { .keyed = 1, .n = 7 }, b = a, old = a;
    static const htc_bytes none;
    uint8_t                sealed[20], text[4];
    htc__noise_rekey(&a);
    cr_expect(a.n == 7 && memcmp(a.key, old.key, 32) != 0);
    cr_assert(eq(int, htc__noise_seal(&a, none, (const uint8_t *)"text", 4, sealed), HTC_OK));
    cr_expect(eq(int, htc__noise_open(&old, none, sealed, 20, text), HTC_EPROTO));
    htc__noise_rekey(&b);
    cr_expect(eq(int, htc__noise_open(&b, none, sealed, 20, text), HTC_OK));
    cr_expect(memcmp(text, "text", 4) == 0);
}
