/* Keys as text that a person can copy: 35 bytes are exactly 56 digits of 5 bits. */
#include <sodium.h>
#include <string.h>

#include "channel/keyring.h"
#include "core/util.h"

#define SUM    3
#define DIGITS 56
#define GROUP  8

static const char        digits[] = "0123456789abcdefghjkmnpqrstvwxyz";
static const char *const prefixes[] = { NULL, "pub-", "key-", "once-" };

static void checksum(uint32_t kind, const uint8_t *key, uint8_t out[SUM])
{
    crypto_hash_sha256_state state;
    uint8_t                  hash[crypto_hash_sha256_BYTES], one = (uint8_t)kind;
    crypto_hash_sha256_init(&state);
    crypto_hash_sha256_update(&state, (const uint8_t *)"htcsched key", 12);
    crypto_hash_sha256_update(&state, &one, 1);
    crypto_hash_sha256_update(&state, key, HTC_KEY_BYTES);
    crypto_hash_sha256_final(&state, hash);
    memcpy(out, hash, SUM);
    sodium_memzero(&state, sizeof state);
    sodium_memzero(hash, sizeof hash);
}

htc_status htc_key_write(uint32_t kind, const uint8_t *key, char *out)
{
    uint8_t  bytes[HTC_KEY_BYTES + SUM];
    uint32_t bits = 0, held = 0;
    size_t   at = 0, written = 0;
    if (kind < HTC_KEY_PUBLIC || kind > HTC_KEY_ONCE || !key || !out)
        return HTC_EINVAL;
    memcpy(bytes, key, HTC_KEY_BYTES);
    checksum(kind, key, bytes + HTC_KEY_BYTES);
    size_t len = strlen(prefixes[kind]);
    memcpy(out, prefixes[kind], len);
    out += len;
    for (; written < DIGITS; written++) {
        if (held < 5) {
            bits = bits << 8 | bytes[at++];
            held += 8;
        }
        held -= 5;
        if (written && written % GROUP == 0)
            *out++ = '-';
        *out++ = digits[bits >> held & 31];
    }
    *out = 0;
    sodium_memzero(bytes, sizeof bytes);
    return HTC_OK;
}

static int digit_of(char c)
{
    if (c >= 'A' && c <= 'Z')
        c = (char)(c - 'A' + 'a');
    if (c == 'o')
        c = '0';
    if (c == 'i' || c == 'l')
        c = '1';
    const char *found = c ? strchr(digits, c) : NULL;
    return found ? (int)(found - digits) : -1;
}

static htc_bytes trimmed(htc_bytes text)
{
    const char *p = text.data;
    while (text.len && strchr(" \t\r\n", p[text.len - 1]) && p[text.len - 1])
        text.len--;
    while (text.len && strchr(" \t\r\n", *p) && *p) {
        p++;
        text.len--;
    }
    return (htc_bytes){ p, text.len };
}

static int begins(htc_bytes text, const char *prefix)
{
    size_t len = strlen(prefix);
    if (text.len < len)
        return 0;
    for (size_t i = 0; i < len; i++) {
        char c = ((const char *)text.data)[i];
        if ((c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c) != prefix[i])
            return 0;
    }
    return 1;
}

/* 0, or why not. */
static const char *decode(htc_bytes text, uint8_t bytes[HTC_KEY_BYTES + SUM])
{
    const char *p = text.data;
    uint32_t    bits = 0, held = 0;
    size_t      at = 0, n = 0;
    for (size_t i = 0; i < text.len; i++) {
        if (p[i] == '-' && n > 0 && n < DIGITS && p[i - 1] != '-')
            continue;
        int digit = digit_of(p[i]);
        if (digit < 0)
            return "a key has only 0 to 9 and letters without u, in groups of eight";
        if (++n > DIGITS)
            return "the key is too long";
        bits = (bits << 5 | (uint32_t)digit) & 0xfff;
        held += 5;
        if (held >= 8) {
            held -= 8;
            bytes[at++] = (uint8_t)(bits >> held);
        }
    }
    return n < DIGITS ? "the key is too short" : NULL;
}

htc_status htc_key_read(uint32_t kind, htc_bytes text, uint8_t *key, htc_error *error)
{
    static const char *const names[] = { NULL, "a public key (pub-)", "a secret key (key-)",
                                         "a one-time secret (once-)" };
    uint8_t                  bytes[HTC_KEY_BYTES + SUM] = { 0 }, sum[SUM];
    const char              *why = NULL;
    if (kind < HTC_KEY_PUBLIC || kind > HTC_KEY_ONCE || !key || (text.len && !text.data))
        return htc__error(error, HTC_EINVAL, "a kind of key, a text and room for the key are needed");
    text = trimmed(text);
    if (!begins(text, prefixes[kind])) {
        for (uint32_t other = HTC_KEY_PUBLIC; other <= HTC_KEY_ONCE; other++)
            if (begins(text, prefixes[other]))
                return htc__error(error, HTC_EINVAL, "%s is needed, this is %s", names[kind], names[other]);
        return htc__error(error, HTC_EINVAL, "%s is needed", names[kind]);
    }
    size_t len = strlen(prefixes[kind]);
    why = decode((htc_bytes){ (const char *)text.data + len, text.len - len }, bytes);
    if (!why) {
        checksum(kind, bytes, sum);
        if (sodium_memcmp(sum, bytes + HTC_KEY_BYTES, SUM) != 0)
            why = "the key's checksum is wrong: a character is not as it was";
    }
    if (!why)
        memcpy(key, bytes, HTC_KEY_BYTES);
    sodium_memzero(bytes, sizeof bytes);
    return why ? htc__error(error, HTC_EINVAL, "%s", why) : HTC_OK;
}

void htc_key_public(const uint8_t *secret, uint8_t *out)
{
    crypto_scalarmult_curve25519_base(out, secret);
}
