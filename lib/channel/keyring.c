/* Entries in the order they came, and two tables of their numbers: by key, and by name (the first of the name; the others
 * follow by `next`). What is in the ring was put there by its owner, so the tables need no secret. */
#include "channel/keyring.h"

#include <sodium.h>
#include <string.h>

#include "core/util.h"

#define KEYS_DEFAULT 65536
#define KEYS_MAX     ((size_t)1 << 24)

typedef struct entry {
    uint8_t  key[HTC_KEY_BYTES];
    char     name[HTC_KEY_NAME_MAX + 1];
    uint32_t role, state;
    uint32_t next; /* number + 1 of the name's next key; 0: the last */
} entry;

struct htc_keyring {
    htc_env   env;
    uint64_t  epoch;
    size_t    max;
    entry    *entries;
    size_t    count, cap;
    uint32_t *slots; /* number + 1; by key, then as many by name */
    size_t    slot_count;
};

int htc__key_name_ok(const char *name, size_t len)
{
    if (len == 0 || len > HTC_KEY_NAME_MAX || strchr("-_.", name[0]))
        return 0;
    for (size_t i = 0; i < len; i++)
        if (!((name[i] >= 'a' && name[i] <= 'z') || (name[i] >= '0' && name[i] <= '9') ||
              (name[i] && strchr("-_.", name[i]))))
            return 0;
    return 1;
}

void htc__key_hint(const uint8_t *public, uint8_t hint[HTC__KEY_HINT])
{
    uint8_t hash[crypto_hash_sha256_BYTES];
    crypto_hash_sha256(hash, public, HTC_KEY_BYTES);
    memcpy(hint, hash, HTC__KEY_HINT);
}

htc_status htc_keyring_create(const htc_env *env, size_t keys_max, htc_keyring **out)
{
    if (!out || keys_max > KEYS_MAX)
        return HTC_EINVAL;
    htc_keyring *ring = htc__alloc(env, sizeof *ring);
    if (!ring)
        return HTC_ENOMEM;
    ring->env = (htc_env){ .size = sizeof ring->env, .alloc = env ? env->alloc : NULL };
    ring->max = keys_max ? keys_max : KEYS_DEFAULT;
    *out = ring;
    return HTC_OK;
}

static void contents_free(htc_keyring *ring)
{
    htc__free(&ring->env, ring->entries, ring->cap * sizeof *ring->entries);
    htc__free(&ring->env, ring->slots, 2 * ring->slot_count * sizeof *ring->slots);
}

void htc_keyring_destroy(htc_keyring *ring)
{
    if (!ring)
        return;
    htc_env env = ring->env;
    contents_free(ring);
    htc__free(&env, ring, sizeof *ring);
}

static uint32_t *key_slot(const htc_keyring *ring, const uint8_t *key)
{
    size_t at = htc_hash64((htc_bytes){ key, HTC_KEY_BYTES }, 0) & (ring->slot_count - 1);
    while (ring->slots[at] && memcmp(ring->entries[ring->slots[at] - 1].key, key, HTC_KEY_BYTES) != 0)
        at = (at + 1) & (ring->slot_count - 1);
    return &ring->slots[at];
}

static uint32_t *name_slot(const htc_keyring *ring, const char *name)
{
    uint32_t *slots = ring->slots + ring->slot_count;
    size_t    at = htc_hash64(htc_bytes_of(name), 0) & (ring->slot_count - 1);
    while (slots[at] && strcmp(ring->entries[slots[at] - 1].name, name) != 0)
        at = (at + 1) & (ring->slot_count - 1);
    return &slots[at];
}

/* Enter entry number i, behind its name's others. */
static void enter(htc_keyring *ring, size_t i)
{
    uint32_t *at = name_slot(ring, ring->entries[i].name);
    ring->entries[i].next = 0;
    *key_slot(ring, ring->entries[i].key) = (uint32_t)i + 1;
    while (*at)
        at = &ring->entries[*at - 1].next;
    *at = (uint32_t)i + 1;
}

static void enter_all(htc_keyring *ring)
{
    memset(ring->slots, 0, 2 * ring->slot_count * sizeof *ring->slots);
    for (size_t i = 0; i < ring->count; i++)
        enter(ring, i);
}

htc_status htc__keyring_reserve(htc_keyring *ring)
{
    if (ring->count == ring->cap) {
        size_t cap = ring->cap ? ring->cap * 2 : 8;
        entry *entries = htc__resize(&ring->env, ring->entries, ring->cap * sizeof *entries, cap * sizeof *entries);
        if (!entries)
            return HTC_ENOMEM;
        ring->entries = entries;
        ring->cap = cap;
    }
    if (2 * (ring->count + 1) > ring->slot_count) {
        size_t    count = ring->slot_count ? ring->slot_count * 2 : 16;
        uint32_t *slots = htc__alloc(&ring->env, 2 * count * sizeof *slots);
        if (!slots)
            return HTC_ENOMEM;
        htc__free(&ring->env, ring->slots, 2 * ring->slot_count * sizeof *slots);
        ring->slots = slots;
        ring->slot_count = count;
        enter_all(ring);
    }
    return HTC_OK;
}

static entry *found(const htc_keyring *ring, const uint8_t *key)
{
    uint32_t number = ring->slot_count ? *key_slot(ring, key) : 0;
    return number ? &ring->entries[number - 1] : NULL;
}

/* May a name of this role have one more live key? */
static htc_status name_takes(const htc_keyring *ring, const char *name, uint32_t role, uint32_t state)
{
    size_t live = 0;
    for (uint32_t n = ring->slot_count ? *name_slot(ring, name) : 0; n; n = ring->entries[n - 1].next) {
        if (ring->entries[n - 1].role != role)
            return HTC_EEXISTS;
        live += ring->entries[n - 1].state != HTC_KEY_REVOKED;
    }
    return state != HTC_KEY_REVOKED && live >= HTC_KEYRING_LIVE_MAX ? HTC_EFULL : HTC_OK;
}

static htc_status change(htc_keyring *ring, entry *e, const char *name, uint32_t role, uint32_t state)
{
    if (strcmp(e->name, name) != 0 || e->role != role)
        return HTC_EEXISTS;
    if (e->state == HTC_KEY_REVOKED && state != HTC_KEY_REVOKED)
        return HTC_EDENIED;
    ring->epoch += e->state != state;
    e->state = state;
    return HTC_OK;
}

htc_status htc_keyring_set(htc_keyring *ring, const char *name, uint32_t role, uint32_t state, const uint8_t *key)
{
    if (!ring || !name || !key || !htc__key_name_ok(name, strlen(name)) || role < HTC_KEY_MEMBER ||
        role > HTC_KEY_USER || state < HTC_KEY_CURRENT || state > HTC_KEY_REVOKED)
        return HTC_EINVAL;
    entry *e = found(ring, key);
    if (e)
        return change(ring, e, name, role, state);
    htc_status status = name_takes(ring, name, role, state);
    if (status == HTC_OK && ring->count >= ring->max)
        status = HTC_EFULL;
    if (status == HTC_OK)
        status = htc__keyring_reserve(ring);
    if (status != HTC_OK)
        return status;
    e = &ring->entries[ring->count];
    memset(e, 0, sizeof *e);
    memcpy(e->key, key, HTC_KEY_BYTES);
    memcpy(e->name, name, strlen(name));
    e->role = role;
    e->state = state;
    enter(ring, ring->count++);
    ring->epoch++;
    return HTC_OK;
}

htc_status htc_keyring_revoke(htc_keyring *ring, const uint8_t *key)
{
    if (!ring || !key)
        return HTC_EINVAL;
    entry *e = found(ring, key);
    return e ? change(ring, e, e->name, e->role, HTC_KEY_REVOKED) : HTC_ENOTFOUND;
}

htc_status htc_keyring_forget(htc_keyring *ring, const uint8_t *key)
{
    if (!ring || !key)
        return HTC_EINVAL;
    entry *e = found(ring, key);
    if (!e)
        return HTC_ENOTFOUND;
    memmove(e, e + 1, (size_t)(ring->entries + ring->count - (e + 1)) * sizeof *e);
    ring->count--;
    enter_all(ring);
    ring->epoch++;
    return HTC_OK;
}

static htc_status show(const entry *e, htc_keyring_entry *out)
{
    *out = (htc_keyring_entry){ e->name, e->role, e->state, e->key };
    return HTC_OK;
}

htc_status htc_keyring_find(const htc_keyring *ring, const uint8_t *key, htc_keyring_entry *out)
{
    if (!ring || !key || !out)
        return HTC_EINVAL;
    const entry *e = found(ring, key);
    return e ? show(e, out) : HTC_ENOTFOUND;
}

htc_status htc_keyring_of(const htc_keyring *ring, const char *name, size_t i, htc_keyring_entry *out)
{
    if (!ring || !name || !out)
        return HTC_EINVAL;
    uint32_t n = ring->slot_count ? *name_slot(ring, name) : 0;
    for (; n && i; i--)
        n = ring->entries[n - 1].next;
    return n ? show(&ring->entries[n - 1], out) : HTC_ENOTFOUND;
}

htc_status htc_keyring_at(const htc_keyring *ring, size_t i, htc_keyring_entry *out)
{
    if (!ring || !out)
        return HTC_EINVAL;
    return i < ring->count ? show(&ring->entries[i], out) : HTC_ENOTFOUND;
}

uint64_t htc_keyring_epoch(const htc_keyring *ring)
{
    return ring->epoch;
}

void htc__keyring_swap(htc_keyring *ring, htc_keyring *other)
{
    htc_keyring kept = *ring;
    ring->entries = other->entries;
    ring->count = other->count;
    ring->cap = other->cap;
    ring->slots = other->slots;
    ring->slot_count = other->slot_count;
    ring->epoch++;
    other->entries = kept.entries;
    other->count = kept.count;
    other->cap = kept.cap;
    other->slots = kept.slots;
    other->slot_count = kept.slot_count;
}

size_t htc__keyring_max(const htc_keyring *ring)
{
    return ring->max;
}

const htc_env *htc__keyring_env(const htc_keyring *ring)
{
    return &ring->env;
}
