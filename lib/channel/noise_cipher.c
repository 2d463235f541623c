#include <sodium.h>
#include <string.h>

#include "channel/noise.h"

_Static_assert(crypto_aead_chacha20poly1305_IETF_KEYBYTES == HTC__NOISE_KEY, "a key is a key");
_Static_assert(crypto_aead_chacha20poly1305_IETF_ABYTES == HTC__NOISE_TAG, "a tag is a tag");

/* ChaChaPoly of the specification: 32 bits of zeros, then the number, little-endian. */
static void nonce_of(uint64_t n, uint8_t nonce[crypto_aead_chacha20poly1305_IETF_NPUBBYTES])
{
    memset(nonce, 0, 4);
    for (int i = 0; i < 8; i++)
        nonce[4 + i] = (uint8_t)(n >> (8 * i));
}

htc_status htc__noise_seal(htc__noise_cipher *c, htc_bytes ad, const uint8_t *text, size_t text_len, uint8_t *out)
{
    uint8_t nonce[crypto_aead_chacha20poly1305_IETF_NPUBBYTES];
    if (!c->keyed)
        return HTC_EINVAL;
    if (text_len > HTC__NOISE_MESSAGE_MAX - HTC__NOISE_TAG)
        return HTC_ETOOBIG;
    if (c->n == UINT64_MAX)
        return HTC_EFULL;
    nonce_of(c->n++, nonce);
    crypto_aead_chacha20poly1305_ietf_encrypt(out, NULL, text, text_len, ad.data, ad.len, NULL, nonce, c->key);
    return HTC_OK;
}

htc_status htc__noise_open(htc__noise_cipher *c, htc_bytes ad, const uint8_t *sealed, size_t len, uint8_t *out)
{
    uint8_t nonce[crypto_aead_chacha20poly1305_IETF_NPUBBYTES];
    if (!c->keyed)
        return HTC_EINVAL;
    if (len > HTC__NOISE_MESSAGE_MAX)
        return HTC_ETOOBIG;
    if (len < HTC__NOISE_TAG)
        return HTC_EPROTO;
    if (c->n == UINT64_MAX)
        return HTC_EFULL;
    nonce_of(c->n, nonce);
    if (crypto_aead_chacha20poly1305_ietf_decrypt(out, NULL, NULL, sealed, len, ad.data, ad.len, nonce, c->key) != 0)
        return HTC_EPROTO;
    c->n++;
    return HTC_OK;
}

void htc__noise_rekey(htc__noise_cipher *c)
{
    static const uint8_t zeros[HTC__NOISE_KEY];
    uint8_t              nonce[crypto_aead_chacha20poly1305_IETF_NPUBBYTES];
    uint8_t              sealed[HTC__NOISE_KEY + HTC__NOISE_TAG];
    nonce_of(UINT64_MAX, nonce);
    crypto_aead_chacha20poly1305_ietf_encrypt(sealed, NULL, zeros, sizeof zeros, NULL, 0, NULL, nonce, c->key);
    memcpy(c->key, sealed, HTC__NOISE_KEY);
    sodium_memzero(sealed, sizeof sealed);
}
