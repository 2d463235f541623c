/**
 * @file htcsched/keyring.h
 * @brief Whose keys are whose: pinned public keys, one's own key pairs, one-time secrets for enrolment.
 *
 * Every host and every user has key pairs of its own (X25519); nothing here is shared by all. A **key ring** pins names to
 * public keys and is what a channel (htcsched/channel.h) asks who the other end is. A name has one role and up to
 * HTC_KEYRING_LIVE_MAX keys that count at the same time, so that keys rotate without a stop:
 *
 *   1. the owner makes a pair, and its public key is added everywhere as `next` (by hand, or announced over a channel that the
 *      current key has opened: htc_channel_announce);
 *   2. the owner puts the new pair first in its htc_identity; both keys are accepted everywhere meanwhile;
 *   3. the new key is set to `current`, the old one is revoked. Channels that it has opened end when they are used next.
 *
 * A revoked key stays in the ring as revoked, so that it does not come back by an old copy or an announcement. Files hold a
 * line a key, `ROLE NAME STATE KEY`, blanks between, `#` begins a comment:
 *
 *     member  store-1  current  pub-04hm6q8c-…-….
 *
 * **Keys as text**: `pub-`, `key-` (secret) or `once-` (one-time secret), then 7 groups of 8 of the digits
 * 0123456789abcdefghjkmnpqrstvwxyz, 5 bits each, the highest first: 32 bytes and 3 of a checksum, the first of
 * SHA-256("htcsched key" | kind, one byte 1, 2 or 3 | the 32 bytes). Read in any case, o as 0, i and l as 1, dashes between the
 * digits are optional.
 *
 * **Enrolment**: an htc_enrolment holds a bounded number of open one-time secrets of 256 bits; see htcsched/channel.h for
 * how one is used.
 *
 * Threads: owner, an object and the channels that keep it together.   Allocation: through env.
 */
#ifndef HTCSCHED_KEYRING_H
#define HTCSCHED_KEYRING_H

#include "htcsched/env.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Bytes of a key, public or secret, and of a one-time secret. */
#define HTC_KEY_BYTES 32
/** Room for a key as text, its end included. */
#define HTC_KEY_TEXT_MAX 72
/** The longest name. Names consist of a-z, 0-9, dash, underscore and dot and begin with none of the last three. */
#define HTC_KEY_NAME_MAX 63
/** Keys of a name that are not revoked. */
#define HTC_KEYRING_LIVE_MAX 4
/** Key pairs of an identity. */
#define HTC_IDENTITY_MAX 4

/** What 32 bytes are. */
typedef enum htc_key_kind {
    HTC_KEY_PUBLIC = 1, /**< `pub-`: for everybody to see */
    HTC_KEY_SECRET,     /**< `key-`: for nobody to see */
    HTC_KEY_ONCE        /**< `once-`: for two to see, until it is used */
} htc_key_kind;

/** What the owner of a key may be. */
typedef enum htc_key_role {
    HTC_KEY_MEMBER = 1, /**< of the store */
    HTC_KEY_HOST,       /**< a machine of the system: gateway, agent */
    HTC_KEY_USER        /**< a person or a program of theirs */
} htc_key_role;

/** What a pinned key counts for. */
typedef enum htc_key_state {
    HTC_KEY_CURRENT = 1, /**< in use */
    HTC_KEY_NEXT,        /**< will be in use; accepted already */
    HTC_KEY_REVOKED      /**< refused for ever */
} htc_key_state;

/** Pinned keys. */
typedef struct htc_keyring htc_keyring;

/** One of them. */
typedef struct htc_keyring_entry {
    const char    *name;  /**< whose; lent until the ring is changed */
    uint32_t       role;  /**< htc_key_role */
    uint32_t       state; /**< htc_key_state */
    const uint8_t *key;   /**< HTC_KEY_BYTES; lent until the ring is changed */
} htc_keyring_entry;

/**
 * A key as text.
 *
 * @param[in]  kind  htc_key_kind
 * @param[in]  key   HTC_KEY_BYTES
 * @param[out] out   room for HTC_KEY_TEXT_MAX bytes; untouched on failure
 * @return HTC_OK; HTC_EINVAL
 *
 * Cost: under a microsecond.   Since: 0.2
 */
HTC_API htc_status htc_key_write(uint32_t kind, const uint8_t *key, char *out);

/**
 * A key from text.
 *
 * @param[in]  kind   htc_key_kind: what it must be
 * @param[in]  text   borrowed; blanks around it are no part of it
 * @param[out] key    HTC_KEY_BYTES; untouched on failure
 * @param[out] error  why it was refused, never with the text of a secret in it; may be NULL
 * @return HTC_OK; HTC_EINVAL: it is none, or of another kind, or its checksum is wrong
 *
 * Cost: under a microsecond.   Since: 0.2
 */
HTC_API htc_status htc_key_read(uint32_t kind, htc_bytes text, uint8_t *key, htc_error *error);

/**
 * The public key of a secret one.
 *
 * @param[in]  secret  HTC_KEY_BYTES
 * @param[out] out     HTC_KEY_BYTES
 *
 * Cost: one multiplication on the curve, tens of microseconds.   Since: 0.2
 */
HTC_API void htc_key_public(const uint8_t *secret, uint8_t *out);

/**
 * Create an empty ring.
 *
 * @param[in]  env       copied, its allocator is kept; NULL: malloc
 * @param[in]  keys_max  how many it may hold, revoked ones included; 0: 65536, at most 2^24
 * @param[out] out       gives the ring: htc_keyring_destroy, after all channels that keep it
 * @return HTC_OK; HTC_EINVAL; HTC_ENOMEM
 *
 * Cost: one allocation.   Since: 0.2
 */
HTC_API htc_status htc_keyring_create(const htc_env *env, size_t keys_max, htc_keyring **out);

/**
 * Free a ring.
 *
 * @param[in] ring  NULL is fine
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API void htc_keyring_destroy(htc_keyring *ring);

/**
 * Pin a key, or change the state of a pinned one.
 *
 * @param[in,out] ring   as it was on failure
 * @param[in]     name   whose; copied
 * @param[in]     role   htc_key_role
 * @param[in]     state  htc_key_state
 * @param[in]     key    HTC_KEY_BYTES, public; copied
 * @return HTC_OK; HTC_EINVAL; HTC_EEXISTS: the name has another role, or the key is another name's; HTC_EDENIED: the key is
 *         revoked; HTC_EFULL: the name has HTC_KEYRING_LIVE_MAX keys, or the ring has keys_max; HTC_ENOMEM
 *
 * Cost: O(keys of the name), amortised.   Since: 0.2
 */
HTC_API htc_status htc_keyring_set(htc_keyring *ring, const char *name, uint32_t role, uint32_t state,
                                   const uint8_t *key);

/**
 * Revoke a key. Channels whose other end has it fail with HTC_EDENIED when they are used next.
 *
 * @param[in,out] ring  as it was on failure
 * @param[in]     key   HTC_KEY_BYTES
 * @return HTC_OK, also if it was revoked before; HTC_EINVAL; HTC_ENOTFOUND: it is not pinned
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_keyring_revoke(htc_keyring *ring, const uint8_t *key);

/**
 * Remove all trace of a key. It is a stranger's from now on: refused, but it could be pinned again.
 *
 * @param[in,out] ring  as it was on failure
 * @param[in]     key   HTC_KEY_BYTES
 * @return HTC_OK; HTC_EINVAL; HTC_ENOTFOUND
 *
 * Cost: O(keys).   Since: 0.2
 */
HTC_API htc_status htc_keyring_forget(htc_keyring *ring, const uint8_t *key);

/**
 * Whose is a key?
 *
 * @param[in]  ring   borrowed
 * @param[in]  key    HTC_KEY_BYTES
 * @param[out] entry  lent until the ring is changed; untouched on failure
 * @return HTC_OK, also for a revoked one: look at the state; HTC_EINVAL; HTC_ENOTFOUND
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_keyring_find(const htc_keyring *ring, const uint8_t *key, htc_keyring_entry *entry);

/**
 * The keys of a name, one after another, oldest first.
 *
 * @param[in]  ring   borrowed
 * @param[in]  name   whose
 * @param[in]  i      from 0
 * @param[out] entry  lent until the ring is changed; untouched on failure
 * @return HTC_OK; HTC_EINVAL; HTC_ENOTFOUND behind the last
 *
 * Cost: O(i).   Since: 0.2
 */
HTC_API htc_status htc_keyring_of(const htc_keyring *ring, const char *name, size_t i, htc_keyring_entry *entry);

/**
 * All keys, one after another.
 *
 * @param[in]  ring   borrowed
 * @param[in]  i      from 0
 * @param[out] entry  lent until the ring is changed; untouched on failure
 * @return HTC_OK; HTC_EINVAL; HTC_ENOTFOUND behind the last
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_keyring_at(const htc_keyring *ring, size_t i, htc_keyring_entry *entry);

/**
 * A number that every change of the ring raises.
 *
 * @param[in] ring  not NULL
 * @return the number
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API uint64_t htc_keyring_epoch(const htc_keyring *ring);

/**
 * Replace all that is in the ring by what a file says. Channels go on, but for those whose other end is no longer in it.
 *
 * @param[in,out] ring   as it was on failure
 * @param[in]     text   borrowed
 * @param[in]     where  what to call it in an error
 * @param[out]    error  line, column and reason; may be NULL
 * @return HTC_OK; HTC_EINVAL; HTC_ECONFIG with line and reason; HTC_EFULL; HTC_ENOMEM
 *
 * Cost: O(bytes).   Since: 0.2
 */
HTC_API htc_status htc_keyring_load(htc_keyring *ring, htc_bytes text, const char *where, htc_error *error);

/**
 * The ring as a file, a line a key.
 *
 * @param[in]  ring  borrowed
 * @param[out] out   gets at most room bytes, no end behind them; may be NULL if room is 0
 * @param[in]  room  of out in bytes
 * @return how many bytes the whole takes: more than room means that it did not fit
 *
 * Cost: O(keys).   Since: 0.2
 */
HTC_API size_t htc_keyring_text(const htc_keyring *ring, char *out, size_t room);

/** One's own key pairs. */
typedef struct htc_identity htc_identity;

/**
 * Create an identity.
 *
 * The first pair is the one that is shown to others; the other ones still answer who knows only them.
 *
 * @param[in]  env      copied, its allocator is kept; NULL: malloc
 * @param[in]  secrets  n secret keys of HTC_KEY_BYTES, one behind another; copied
 * @param[in]  n        1 to HTC_IDENTITY_MAX
 * @param[out] out      gives the identity: htc_identity_destroy, after all channels that keep it
 * @return HTC_OK; HTC_EINVAL; HTC_ENOMEM
 *
 * Cost: O(n) multiplications on the curve.   Since: 0.2
 */
HTC_API htc_status htc_identity_create(const htc_env *env, const uint8_t *secrets, size_t n, htc_identity **out);

/**
 * Wipe and free an identity.
 *
 * @param[in] identity  NULL is fine
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API void htc_identity_destroy(htc_identity *identity);

/**
 * Use other pairs from now on. Channels that are open, and handshakes that are on their way, go on with those that they
 * began with.
 *
 * @param[in,out] identity  as it was on failure
 * @param[in]     secrets   n secret keys; copied
 * @param[in]     n         1 to HTC_IDENTITY_MAX
 * @return HTC_OK; HTC_EINVAL
 *
 * Cost: O(n) multiplications on the curve.   Since: 0.2
 */
HTC_API htc_status htc_identity_set(htc_identity *identity, const uint8_t *secrets, size_t n);

/**
 * The public key of a pair.
 *
 * @param[in]  identity  borrowed
 * @param[in]  i         from 0, which is the one in use
 * @param[out] out       HTC_KEY_BYTES; untouched on failure
 * @return HTC_OK; HTC_EINVAL; HTC_ENOTFOUND behind the last
 *
 * Cost: O(1).   Since: 0.2
 */
HTC_API htc_status htc_identity_public(const htc_identity *identity, size_t i, uint8_t *out);

/** One-time secrets that somebody may still use. */
typedef struct htc_enrolment htc_enrolment;

/**
 * Create an empty table.
 *
 * @param[in]  env          copied, its allocator is kept; NULL: malloc
 * @param[in]  secrets_max  how many may be open at once; 0: 64, at most 4096
 * @param[out] out          gives the table: htc_enrolment_destroy, after all channels that keep it
 * @return HTC_OK; HTC_EINVAL; HTC_ENOMEM
 *
 * Cost: one allocation.   Since: 0.2
 */
HTC_API htc_status htc_enrolment_create(const htc_env *env, size_t secrets_max, htc_enrolment **out);

/**
 * Wipe and free a table.
 *
 * @param[in] enrolment  NULL is fine
 *
 * Cost: O(secrets_max).   Since: 0.2
 */
HTC_API void htc_enrolment_destroy(htc_enrolment *enrolment);

/**
 * Let whoever has a secret be pinned, once, under a name and a role.
 *
 * @param[in,out] enrolment  as it was on failure
 * @param[in]     now        the moment, on the clock of the channels; what has expired makes room
 * @param[in]     secret     HTC_KEY_BYTES, never used before: drawn from the system's source of randomness; copied
 * @param[in]     name       copied
 * @param[in]     role       htc_key_role
 * @param[in]     expires    a moment on the clock of now, later than now
 * @return HTC_OK; HTC_EINVAL; HTC_EEXISTS: this secret is open; HTC_EFULL: secrets_max are
 *
 * Cost: O(secrets_max).   Since: 0.2
 */
HTC_API htc_status htc_enrolment_open(htc_enrolment *enrolment, htc_ns now, const uint8_t *secret, const char *name,
                                      uint32_t role, htc_ns expires);

/**
 * Close the secrets of a name before they are used; an enrolment that is on its way fails.
 *
 * @param[in,out] enrolment  not NULL
 * @param[in]     name       whose; NULL: all
 * @return how many there were
 *
 * Cost: O(secrets_max).   Since: 0.2
 */
HTC_API size_t htc_enrolment_cancel(htc_enrolment *enrolment, const char *name);

/**
 * How many secrets are open.
 *
 * @param[in] enrolment  not NULL
 * @param[in] now        the moment: what has expired is not open
 * @return their number
 *
 * Cost: O(secrets_max).   Since: 0.2
 */
HTC_API size_t htc_enrolment_count(const htc_enrolment *enrolment, htc_ns now);

#ifdef __cplusplus
}
#endif
#endif
