/* One's own pairs; their public keys and hints are worked out once, not for each stranger. */
#include <sodium.h>
#include <string.h>

#include "channel/keyring.h"
#include "core/util.h"

struct htc_identity {
    htc_env   env;
    size_t    count;
    htc__pair pairs[HTC_IDENTITY_MAX];
};

htc_status htc_identity_set(htc_identity *identity, const uint8_t *secrets, size_t n)
{
    htc__pair fresh[HTC_IDENTITY_MAX] = { 0 };
    if (!identity || !secrets || n < 1 || n > HTC_IDENTITY_MAX)
        return HTC_EINVAL;
    for (size_t i = 0; i < n; i++) {
        memcpy(fresh[i].secret, secrets + i * HTC_KEY_BYTES, HTC_KEY_BYTES);
        if (sodium_is_zero(fresh[i].secret, HTC_KEY_BYTES)) { /* nobody draws this: it was never filled in */
            sodium_memzero(fresh, sizeof fresh);
            return HTC_EINVAL;
        }
        htc_key_public(fresh[i].secret, fresh[i].public);
        htc__key_hint(fresh[i].public, fresh[i].hint);
    }
    memcpy(identity->pairs, fresh, sizeof fresh);
    identity->count = n;
    sodium_memzero(fresh, sizeof fresh);
    return HTC_OK;
}

htc_status htc_identity_create(const htc_env *env, const uint8_t *secrets, size_t n, htc_identity **out)
{
    if (!out)
        return HTC_EINVAL;
    htc_identity *identity = htc__alloc(env, sizeof *identity);
    if (!identity)
        return HTC_ENOMEM;
    identity->env = (htc_env){ .size = sizeof identity->env, .alloc = env ? env->alloc : NULL };
    htc_status status = htc_identity_set(identity, secrets, n);
    if (status != HTC_OK)
        htc_identity_destroy(identity);
    else
        *out = identity;
    return status;
}

void htc_identity_destroy(htc_identity *identity)
{
    if (!identity)
        return;
    htc_env env = identity->env;
    sodium_memzero(identity, sizeof *identity);
    htc__free(&env, identity, sizeof *identity);
}

htc_status htc_identity_public(const htc_identity *identity, size_t i, uint8_t *out)
{
    if (!identity || !out)
        return HTC_EINVAL;
    if (i >= identity->count)
        return HTC_ENOTFOUND;
    memcpy(out, identity->pairs[i].public, HTC_KEY_BYTES);
    return HTC_OK;
}

const htc__pair *htc__identity_pair(const htc_identity *identity, const uint8_t *hint)
{
    if (!hint)
        return &identity->pairs[0];
    for (size_t i = 0; i < identity->count; i++)
        if (memcmp(identity->pairs[i].hint, hint, HTC__KEY_HINT) == 0)
            return &identity->pairs[i];
    return NULL;
}
