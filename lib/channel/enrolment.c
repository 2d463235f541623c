/* Open one-time secrets: few, so a plain array. A secret is taken when a handshake has shown it and burnt when the keys are
 * pinned; in between it can be given back, for a line that breaks there has pinned nothing here. */
#include <sodium.h>
#include <string.h>

#include "channel/keyring.h"
#include "core/util.h"

#define OPEN_DEFAULT 64
#define OPEN_MAX     4096

struct htc_enrolment {
    htc_env    env;
    size_t     max;
    htc__once *places;
};

void htc__once_hint(const uint8_t *secret, uint8_t hint[HTC__KEY_HINT])
{
    static const uint8_t what[] = "htcsched once";
    uint8_t              mac[crypto_auth_hmacsha256_BYTES];
    crypto_auth_hmacsha256(mac, what, sizeof what - 1, secret);
    memcpy(hint, mac, HTC__KEY_HINT);
    sodium_memzero(mac, sizeof mac);
}

htc_status htc_enrolment_create(const htc_env *env, size_t secrets_max, htc_enrolment **out)
{
    if (!out || secrets_max > OPEN_MAX)
        return HTC_EINVAL;
    size_t         max = secrets_max ? secrets_max : OPEN_DEFAULT;
    htc_enrolment *e = htc__alloc(env, sizeof *e);
    htc__once     *places = htc__alloc(env, max * sizeof *places);
    if (!e || !places) {
        htc__free(env, e, sizeof *e);
        htc__free(env, places, max * sizeof *places);
        return HTC_ENOMEM;
    }
    e->env = (htc_env){ .size = sizeof e->env, .alloc = env ? env->alloc : NULL };
    e->max = max;
    e->places = places;
    *out = e;
    return HTC_OK;
}

void htc_enrolment_destroy(htc_enrolment *e)
{
    if (!e)
        return;
    htc_env env = e->env;
    sodium_memzero(e->places, e->max * sizeof *e->places);
    htc__free(&env, e->places, e->max * sizeof *e->places);
    htc__free(&env, e, sizeof *e);
}

static void clear(htc__once *o)
{
    sodium_memzero(o, sizeof *o);
}

htc_status htc_enrolment_open(htc_enrolment *e, htc_ns now, const uint8_t *secret, const char *name, uint32_t role,
                              htc_ns expires)
{
    htc__once *free_place = NULL;
    uint8_t    hint[HTC__KEY_HINT];
    if (!e || !secret || !name || !htc__key_name_ok(name, strlen(name)) || role < HTC_KEY_MEMBER ||
        role > HTC_KEY_USER || expires <= now || sodium_is_zero(secret, HTC_KEY_BYTES))
        return HTC_EINVAL;
    htc__once_hint(secret, hint);
    for (size_t i = 0; i < e->max; i++) {
        htc__once *o = &e->places[i];
        if (o->role && !o->taken && o->expires <= now)
            clear(o);
        if (o->role && memcmp(o->hint, hint, sizeof hint) == 0)
            return HTC_EEXISTS;
        if (!o->role && !free_place)
            free_place = o;
    }
    if (!free_place)
        return HTC_EFULL;
    memcpy(free_place->hint, hint, sizeof hint);
    memcpy(free_place->secret, secret, HTC_KEY_BYTES);
    memcpy(free_place->name, name, strlen(name) + 1);
    free_place->role = role;
    free_place->expires = expires;
    free_place->stale = 0;
    return HTC_OK;
}

void htc__enrolment_mark(htc_enrolment *e)
{
    for (size_t i = 0; i < e->max; i++)
        e->places[i].stale = 1;
}

void htc__enrolment_keep(htc_enrolment *e, const uint8_t *secret)
{
    uint8_t hint[HTC__KEY_HINT];
    htc__once_hint(secret, hint);
    for (size_t i = 0; i < e->max; i++)
        if (e->places[i].role && memcmp(e->places[i].hint, hint, sizeof hint) == 0)
            e->places[i].stale = 0;
}

void htc__enrolment_sweep(htc_enrolment *e)
{
    for (size_t i = 0; i < e->max; i++)
        if (e->places[i].role && e->places[i].stale)
            clear(&e->places[i]);
}

size_t htc_enrolment_cancel(htc_enrolment *e, const char *name)
{
    size_t n = 0;
    for (size_t i = 0; i < e->max; i++)
        if (e->places[i].role && (!name || strcmp(e->places[i].name, name) == 0)) {
            clear(&e->places[i]);
            n++;
        }
    return n;
}

size_t htc_enrolment_count(const htc_enrolment *e, htc_ns now)
{
    size_t n = 0;
    for (size_t i = 0; i < e->max; i++)
        n += e->places[i].role && (e->places[i].taken || e->places[i].expires > now);
    return n;
}

static htc__once *place_of(htc_enrolment *e, const uint8_t hint[HTC__KEY_HINT])
{
    for (size_t i = 0; i < e->max; i++)
        if (e->places[i].role && memcmp(e->places[i].hint, hint, HTC__KEY_HINT) == 0)
            return &e->places[i];
    return NULL;
}

htc__once *htc__enrolment_find(htc_enrolment *e, htc_ns now, const uint8_t hint[HTC__KEY_HINT])
{
    htc__once *o = place_of(e, hint);
    return o && !o->taken && o->expires > now ? o : NULL;
}

void htc__enrolment_take(htc__once *o)
{
    o->taken = 1;
}

void htc__enrolment_release(htc_enrolment *e, const uint8_t hint[HTC__KEY_HINT])
{
    htc__once *o = place_of(e, hint);
    if (o)
        o->taken = 0;
}

const htc__once *htc__enrolment_taken(htc_enrolment *e, const uint8_t hint[HTC__KEY_HINT])
{
    htc__once *o = place_of(e, hint);
    return o && o->taken ? o : NULL;
}

void htc__enrolment_burn(htc_enrolment *e, const uint8_t hint[HTC__KEY_HINT])
{
    htc__once *o = place_of(e, hint);
    if (o && o->taken)
        clear(o);
}
