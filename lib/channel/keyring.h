/* What the layer's files share of key ring, identity and enrolment. */
#ifndef HTC_CHANNEL_KEYRING_H
#define HTC_CHANNEL_KEYRING_H

#include "htcsched/keyring.h"

#define HTC__KEY_HINT 8 /* bytes that say which key or secret is meant, and nothing about a secret one */

/* 1 if it may be a name, of len bytes. */
int htc__key_name_ok(const char *name, size_t len);
/* Which key is meant: the first bytes of its SHA-256. */
void htc__key_hint(const uint8_t *public, uint8_t hint[HTC__KEY_HINT]);

/* Room for one more key, so that the next htc_keyring_set does not fail for want of memory. */
htc_status htc__keyring_reserve(htc_keyring *ring);

/* For loading: give each other their keys; the first ring's epoch goes on. */
void           htc__keyring_swap(htc_keyring *ring, htc_keyring *other);
size_t         htc__keyring_max(const htc_keyring *ring);
const htc_env *htc__keyring_env(const htc_keyring *ring);

typedef struct htc__pair {
    uint8_t secret[HTC_KEY_BYTES];
    uint8_t public[HTC_KEY_BYTES];
    uint8_t hint[HTC__KEY_HINT];
} htc__pair;

/* The pair in use where hint is NULL, else the one that is meant; NULL: there is none. */
const htc__pair *htc__identity_pair(const htc_identity *identity, const uint8_t *hint);

/* Which one-time secret is meant: the first bytes of a keyed hash of it. */
void htc__once_hint(const uint8_t *secret, uint8_t hint[HTC__KEY_HINT]);

/* An open secret; lent. NULL: unknown, expired, or somebody uses it now. */
typedef struct htc__once {
    uint8_t  hint[HTC__KEY_HINT];
    uint8_t  secret[HTC_KEY_BYTES];
    char     name[HTC_KEY_NAME_MAX + 1];
    uint32_t role;  /* 0: this place is free */
    uint32_t taken; /* by an enrolment that is on its way */
    uint32_t stale; /* not seen since htc__enrolment_mark */
    htc_ns   expires;
} htc__once;

/* To have those of a file alone: mark all, keep or open those that are in it, sweep the others. */
void htc__enrolment_mark(htc_enrolment *enrolment);
void htc__enrolment_keep(htc_enrolment *enrolment, const uint8_t *secret);
void htc__enrolment_sweep(htc_enrolment *enrolment);

htc__once *htc__enrolment_find(htc_enrolment *enrolment, htc_ns now, const uint8_t hint[HTC__KEY_HINT]);
/* Between take and release or burn nobody else finds it. release and burn of what was cancelled meanwhile do nothing. */
void htc__enrolment_take(htc__once *once);
void htc__enrolment_release(htc_enrolment *enrolment, const uint8_t hint[HTC__KEY_HINT]);
/* The taken secret, also if it has expired meanwhile. NULL: cancelled. */
const htc__once *htc__enrolment_taken(htc_enrolment *enrolment, const uint8_t hint[HTC__KEY_HINT]);
void             htc__enrolment_burn(htc_enrolment *enrolment, const uint8_t hint[HTC__KEY_HINT]);

#endif
