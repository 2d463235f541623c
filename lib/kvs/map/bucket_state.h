/* What a member remembers, durably, of one bucket that it owns, owned or is to own: which epoch it serves, and what is arriving.
 *
 * It serves a bucket in an epoch only if it holds the image that was activated for it (and what was accepted since). Sealed, it
 * answers nothing of that epoch any more, for good: what it shows the mover after that cannot change. Images arrive beside
 * what is served, each under its mover's number, and count for nothing until the map names that number.
 *
 * A member without such a record (its disk was lost) answers no seal: the state it would show is older than what it has
 * confirmed.
 *
 * One whose record is damaged knows that it had one, and not what it had confirmed in which epoch. It answers nothing and is sealed, for
 * good, in every epoch, so it can say that; what there is here of the bucket counts for nothing. It is an owner again with an image that is
 * newer than all that it can have answered for: then whatever it had confirmed was read from the others, as many as meet every majority
 * (kvs/migrate/bucket_migration.h). A copy of what another one serves would not do: what was final at these two would be at one. */
#ifndef HTC_KVS_HOLD_H
#define HTC_KVS_HOLD_H

#include "core/codec.h"

typedef struct htc__kv_bucket_state {
    uint64_t epoch;    /* served, or sealed since; 0: never any. Lost: the newest that was to be sealed */
    uint64_t image;    /* what is served began as this one */
    uint64_t sealed;   /* nothing of this epoch or an older one is answered. Lost: nor of an image up to this */
    uint64_t arriving; /* the image being installed; 0: none */
    uint32_t pages;    /* of it that are there */
    uint8_t  held;     /* epoch and image mean something */
    uint8_t  complete; /* all of it is there */
    uint8_t  lost;     /* there was such a record, and it is damaged; held is 0 */
} htc__kv_bucket_state;

/* What the caller has to do before it answers, or-ed. */
enum {
    HTC__KV_BUCKET_STORE = 1,   /* the record has changed */
    HTC__KV_BUCKET_YES = 2,     /* answer that it is so */
    HTC__KV_BUCKET_CLEAR = 4,   /* what has arrived of another image goes */
    HTC__KV_BUCKET_TAKE = 8,    /* what is in this message is part of the arriving image */
    HTC__KV_BUCKET_BECOME = 16, /* the arrived image, whole, takes the place of what was served */
    HTC__KV_BUCKET_LOST = 64,   /* answer that it is sealed, and has lost what there was */
    HTC__KV_BUCKET_LATE = 32    /* an owner without the image: copy what another has, then htc__kv_bucket_state_copied */
};

/* A bucket that begins empty, with the store. */
htc__kv_bucket_state htc__kv_bucket_state_first(uint64_t epoch, uint64_t image);
/* In the place of a record that is damaged. No image will do before it is known which this member cannot have answered for. */
htc__kv_bucket_state htc__kv_bucket_state_lost(void);
/* No image above this number (of the map as it was read, by a majority, after the member had started) has ever been here. */
unsigned     htc__kv_bucket_state_known(htc__kv_bucket_state *hold, uint64_t numbers);
int          htc__kv_bucket_state_serves(const htc__kv_bucket_state *hold, uint64_t epoch);
/* It serves it, or did until it was sealed: who is late may copy it. That one has answered nothing in the epoch, so it may know what any owner
 * that has the image knows, be that all that is final or less. */
int          htc__kv_bucket_state_has(const htc__kv_bucket_state *hold, uint64_t epoch);
/* Old owner: refuse that epoch from now on, then show the state. Without YES and LOST: it cannot. */
unsigned htc__kv_bucket_state_seal(htc__kv_bucket_state *hold, uint64_t epoch);
/* New owner: page `page` (from 0) of the image of that number. Without YES: a higher number is arriving, or a page before is
 * missing. With YES, hold->pages of it are there; serving it already is having it. */
unsigned htc__kv_bucket_state_install(htc__kv_bucket_state *hold, uint64_t number, uint32_t page, int last);
/* The map says that this member owns the bucket in that epoch, and which image counts. */
unsigned htc__kv_bucket_state_learn(htc__kv_bucket_state *hold, uint64_t epoch, uint64_t image);
/* All that another owner has in that epoch has been copied, over what was here. Nothing has been answered in it before. */
unsigned htc__kv_bucket_state_copied(htc__kv_bucket_state *hold, uint64_t epoch, uint64_t image);

void       htc__kv_bucket_state_write(htc_buf *b, const htc__kv_bucket_state *hold);
htc_status htc__kv_bucket_state_read(htc_bytes bytes, htc__kv_bucket_state *hold); /* HTC_ECORRUPT */

#endif
