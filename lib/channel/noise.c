#include "channel/noise.h"

#include <sodium.h>
#include <string.h>

_Static_assert(crypto_scalarmult_curve25519_BYTES == HTC__NOISE_KEY, "a shared secret is as long as a key");
_Static_assert(crypto_hash_sha256_BYTES == HTC__NOISE_KEY, "and so is a hash");

/* A pattern is its messages' tokens, the initiator's first; each message ends with END. es and se name whose keys: the
 * initiator's first. */
enum { END, E, S, EE, ES, SE, SS, PSK };

typedef struct pattern {
    const char *name;
    uint8_t     messages;
    uint8_t     peer_known; /* pre-message "<- s" */
    uint8_t     psk_mode;
    uint8_t     tokens[16];
} pattern;

static const pattern patterns[] = {
    [HTC__NOISE_XX] = { "Noise_XX_25519_ChaChaPoly_SHA256", 3, 0, 0, { E, END, E, EE, S, ES, END, S, SE, END } },
    [HTC__NOISE_IK] = { "Noise_IK_25519_ChaChaPoly_SHA256", 2, 1, 0, { E, ES, S, SS, END, E, EE, SE, END } },
    [HTC__NOISE_XXPSK3] = { "Noise_XXpsk3_25519_ChaChaPoly_SHA256",
                            3,
                            0,
                            1,
                            { E, END, E, EE, S, ES, END, S, SE, PSK, END } },
};

/* HKDF of the specification, section 4.3: two outputs, or three where third is not NULL. An output may be where ck is. */
static void hkdf(const uint8_t *ck, const uint8_t *material, size_t len, uint8_t *first, uint8_t *second,
                 uint8_t *third)
{
    crypto_auth_hmacsha256_state state;
    uint8_t                      temp[HTC__NOISE_KEY];
    uint8_t                     *outs[3] = { first, second, third };
    uint8_t                      last[HTC__NOISE_KEY];
    crypto_auth_hmacsha256_init(&state, ck, HTC__NOISE_KEY);
    crypto_auth_hmacsha256_update(&state, material, len);
    crypto_auth_hmacsha256_final(&state, temp);
    for (uint8_t i = 0; i < 3 && outs[i]; i++) {
        uint8_t number = (uint8_t)(i + 1);
        crypto_auth_hmacsha256_init(&state, temp, sizeof temp);
        if (i > 0)
            crypto_auth_hmacsha256_update(&state, last, sizeof last);
        crypto_auth_hmacsha256_update(&state, &number, 1);
        crypto_auth_hmacsha256_final(&state, last);
        memcpy(outs[i], last, sizeof last);
    }
    sodium_memzero(&state, sizeof state);
    sodium_memzero(temp, sizeof temp);
    sodium_memzero(last, sizeof last);
}

static void mix_hash(htc__noise *h, const void *data, size_t len)
{
    crypto_hash_sha256_state state;
    crypto_hash_sha256_init(&state);
    crypto_hash_sha256_update(&state, h->hash, sizeof h->hash);
    if (len)
        crypto_hash_sha256_update(&state, data, len);
    crypto_hash_sha256_final(&state, h->hash);
}

static void key_set(htc__noise_cipher *c, const uint8_t *key)
{
    if (key != c->key)
        memcpy(c->key, key, sizeof c->key);
    c->n = 0;
    c->keyed = 1;
}

static void mix_key(htc__noise *h, const uint8_t *material)
{
    hkdf(h->chain, material, HTC__NOISE_KEY, h->chain, h->cipher.key, NULL);
    key_set(&h->cipher, h->cipher.key);
}

static void mix_key_and_hash(htc__noise *h, const uint8_t *material)
{
    uint8_t hash[HTC__NOISE_KEY];
    hkdf(h->chain, material, HTC__NOISE_KEY, h->chain, hash, h->cipher.key);
    mix_hash(h, hash, sizeof hash);
    key_set(&h->cipher, h->cipher.key);
    sodium_memzero(hash, sizeof hash);
}

/* A public key of low order gives zeros whatever our secret is: libsodium refuses it, and so do we. */
static htc_status mix_dh(htc__noise *h, const uint8_t *secret, const uint8_t *public)
{
    uint8_t shared[HTC__NOISE_KEY];
    int     bad = crypto_scalarmult_curve25519(shared, secret, public);
    if (!bad)
        mix_key(h, shared);
    sodium_memzero(shared, sizeof shared);
    return bad ? HTC_EPROTO : HTC_OK;
}

static htc_status dh_token(htc__noise *h, uint8_t token)
{
    /* Seen from the responder, es and se change places. */
    if (!h->initiator && (token == ES || token == SE))
        token = token == ES ? SE : ES;
    switch (token) {
    case EE:
        return mix_dh(h, h->ephemeral, h->peer_ephemeral);
    case ES:
        return mix_dh(h, h->ephemeral, h->peer);
    case SE:
        return mix_dh(h, h->own, h->peer_ephemeral);
    case SS:
        return mix_dh(h, h->own, h->peer);
    case PSK:
        mix_key_and_hash(h, h->psk);
        return HTC_OK;
    default:
        return HTC_EINTERNAL;
    }
}

/* EncryptAndHash and DecryptAndHash: while there is no key, the text itself. */
static htc_status hash_seal(htc__noise *h, const uint8_t *text, size_t len, uint8_t *out)
{
    if (!h->cipher.keyed) {
        if (len)
            memcpy(out, text, len);
        mix_hash(h, out, len);
        return HTC_OK;
    }
    htc_status status = htc__noise_seal(&h->cipher, (htc_bytes){ h->hash, sizeof h->hash }, text, len, out);
    if (status == HTC_OK)
        mix_hash(h, out, len + HTC__NOISE_TAG);
    return status;
}

static htc_status hash_open(htc__noise *h, const uint8_t *sealed, size_t len, uint8_t *out)
{
    uint8_t before[HTC__NOISE_KEY];
    memcpy(before, h->hash, sizeof before);
    mix_hash(h, sealed, len); /* first, for out may be where sealed is */
    if (!h->cipher.keyed) {
        if (len)
            memmove(out, sealed, len);
        return HTC_OK;
    }
    return htc__noise_open(&h->cipher, (htc_bytes){ before, sizeof before }, sealed, len, out);
}

void htc__noise_wipe(htc__noise *h)
{
    sodium_memzero(h, sizeof *h);
}

static htc_status failed(htc__noise *h, htc_status status)
{
    htc__noise_wipe(h);
    return status;
}

void htc__noise_public(const uint8_t *secret, uint8_t *out)
{
    crypto_scalarmult_curve25519_base(out, secret);
}

htc_status htc__noise_start(htc__noise *h, uint32_t which, int initiator, htc_bytes prologue,
                            const htc__noise_keys *keys)
{
    sodium_memzero(h, sizeof *h);
    if (which < HTC__NOISE_XX || which > HTC__NOISE_XXPSK3)
        return HTC_EUNSUPPORTED;
    const pattern *p = &patterns[which];
    int            peer_needed = p->peer_known && initiator;
    if (!keys->own || !keys->ephemeral || !keys->peer != !peer_needed || !keys->psk != !p->psk_mode)
        return HTC_EINVAL;
    h->tokens = p->tokens;
    h->messages = p->messages;
    h->psk_mode = p->psk_mode;
    h->initiator = initiator != 0;
    memcpy(h->own, keys->own, HTC__NOISE_KEY);
    memcpy(h->ephemeral, keys->ephemeral, HTC__NOISE_KEY);
    if (keys->own_public)
        memcpy(h->own_public, keys->own_public, HTC__NOISE_KEY);
    else
        htc__noise_public(h->own, h->own_public);
    htc__noise_public(h->ephemeral, h->ephemeral_public);
    if (peer_needed)
        memcpy(h->peer, keys->peer, HTC__NOISE_KEY);
    if (p->psk_mode)
        memcpy(h->psk, keys->psk, HTC__NOISE_KEY);
    size_t len = strlen(p->name);
    if (len <= sizeof h->hash)
        memcpy(h->hash, p->name, len);
    else
        crypto_hash_sha256(h->hash, (const uint8_t *)p->name, len);
    memcpy(h->chain, h->hash, sizeof h->chain);
    mix_hash(h, prologue.data, prologue.len);
    if (p->peer_known)
        mix_hash(h, initiator ? h->peer : h->own_public, HTC__NOISE_KEY);
    return HTC_OK;
}

int htc__noise_done(const htc__noise *h)
{
    return h->tokens && h->at == h->messages;
}

size_t htc__noise_overhead(const htc__noise *h)
{
    if (!h->tokens || h->at == h->messages)
        return 0;
    size_t len = 0;
    int    keyed = h->cipher.keyed;
    for (const uint8_t *t = h->tokens; *t != END; t++) {
        if (*t == E)
            len += HTC__NOISE_KEY;
        else if (*t == S)
            len += HTC__NOISE_KEY + (keyed ? HTC__NOISE_TAG : 0);
        keyed |= *t != E && *t != S;
        keyed |= *t == E && h->psk_mode;
    }
    return len + (keyed ? HTC__NOISE_TAG : 0);
}

/* Behind the END of the message that was just dealt with. */
static void turn(htc__noise *h)
{
    while (*h->tokens != END)
        h->tokens++;
    h->tokens++;
    h->at++;
}

static int our_turn(const htc__noise *h)
{
    return (h->at % 2 == 0) == h->initiator;
}

static htc_status write_token(htc__noise *h, uint8_t token, uint8_t **out)
{
    if (token == E) {
        memcpy(*out, h->ephemeral_public, HTC__NOISE_KEY);
        mix_hash(h, *out, HTC__NOISE_KEY);
        if (h->psk_mode) /* section 9.2: so that the secret alone never makes the key */
            mix_key(h, h->ephemeral_public);
        *out += HTC__NOISE_KEY;
        return HTC_OK;
    }
    if (token != S)
        return dh_token(h, token);
    size_t     len = HTC__NOISE_KEY + (h->cipher.keyed ? HTC__NOISE_TAG : 0);
    htc_status status = hash_seal(h, h->own_public, HTC__NOISE_KEY, *out);
    *out += len;
    return status;
}

htc_status htc__noise_write(htc__noise *h, htc_bytes payload, uint8_t *out)
{
    if (!h->tokens)
        return HTC_EPROTO;
    if (htc__noise_done(h) || !our_turn(h))
        return failed(h, HTC_EINVAL);
    if (payload.len > HTC__NOISE_MESSAGE_MAX - htc__noise_overhead(h))
        return failed(h, HTC_ETOOBIG);
    for (const uint8_t *t = h->tokens; *t != END; t++) {
        htc_status status = write_token(h, *t, &out);
        if (status != HTC_OK)
            return failed(h, status);
    }
    htc_status status = hash_seal(h, payload.data, payload.len, out);
    if (status != HTC_OK)
        return failed(h, status);
    turn(h);
    return HTC_OK;
}

/* What a token takes of the message was counted before: it is there. */
static htc_status read_token(htc__noise *h, uint8_t token, const uint8_t **in)
{
    if (token == E) {
        memcpy(h->peer_ephemeral, *in, HTC__NOISE_KEY);
        mix_hash(h, *in, HTC__NOISE_KEY);
        if (h->psk_mode)
            mix_key(h, h->peer_ephemeral);
        *in += HTC__NOISE_KEY;
        return HTC_OK;
    }
    if (token != S)
        return dh_token(h, token);
    size_t     len = HTC__NOISE_KEY + (h->cipher.keyed ? HTC__NOISE_TAG : 0);
    htc_status status = hash_open(h, *in, len, h->peer);
    *in += len;
    return status;
}

htc_status htc__noise_read(htc__noise *h, htc_bytes message, uint8_t *out)
{
    const uint8_t *in = message.data;
    if (!h->tokens)
        return HTC_EPROTO;
    if (htc__noise_done(h) || our_turn(h))
        return failed(h, HTC_EINVAL);
    if (message.len > HTC__NOISE_MESSAGE_MAX)
        return failed(h, HTC_ETOOBIG);
    if (message.len < htc__noise_overhead(h))
        return failed(h, HTC_EPROTO);
    for (const uint8_t *t = h->tokens; *t != END; t++) {
        htc_status status = read_token(h, *t, &in);
        if (status != HTC_OK)
            return failed(h, status);
    }
    size_t     left = message.len - (size_t)(in - (const uint8_t *)message.data);
    htc_status status = hash_open(h, in, left, out);
    if (status != HTC_OK)
        return failed(h, status);
    turn(h);
    return HTC_OK;
}

htc_status htc__noise_split(htc__noise *h, htc__noise_cipher *send, htc__noise_cipher *receive)
{
    uint8_t first[HTC__NOISE_KEY], second[HTC__NOISE_KEY];
    uint8_t hash[HTC__NOISE_KEY], peer[HTC__NOISE_KEY];
    if (!htc__noise_done(h))
        return failed(h, HTC_EINVAL);
    hkdf(h->chain, NULL, 0, first, second, NULL);
    key_set(send, h->initiator ? first : second);
    key_set(receive, h->initiator ? second : first);
    memcpy(hash, h->hash, sizeof hash);
    memcpy(peer, h->peer, sizeof peer);
    htc__noise_wipe(h);
    memcpy(h->hash, hash, sizeof hash);
    memcpy(h->peer, peer, sizeof peer);
    sodium_memzero(first, sizeof first);
    sodium_memzero(second, sizeof second);
    return HTC_OK;
}
