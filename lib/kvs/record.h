/* What is stored under a user's key: its value, version and lease, and what makes a repeated change harmless.
 *
 * The last change of each of at most HTC__KV_CLIENTS clients stands in the record itself, so it is as durable as the
 * change, needs no table of its own, and goes where the key goes. `forgot` is the version written by the newest change
 * that was dropped from the list: a change first sent when its client had already seen that version (or a later one)
 * and not listed was never applied. A deleted key leaves its record without a value (a tombstone).
 *
 * Stored: u8 format, u8 flags, varint version, forgot, lease, u8 count, count x {u64 client, varint sequence, version,
 * u64 number}, value up to the checksum, u64 XXH3 of all before it, seeded with the hash of the key: a record that was
 * moved to another key, torn or flipped is refused, never served. */
#ifndef HTC_KVS_RECORD_H
#define HTC_KVS_RECORD_H

#include "core/codec.h"

#define HTC__KV_CLIENTS       16
#define HTC__KV_RECORD_FORMAT 1

typedef struct htc__kv_seen {
    uint64_t client, sequence, version;
    int64_t  number;
} htc__kv_seen;

typedef struct htc__kv_record {
    uint8_t      deleted;
    uint8_t      count;
    uint64_t     version, forgot, lease;
    htc__kv_seen seen[HTC__KV_CLIENTS]; /* oldest change first */
    htc_bytes    value;                 /* borrowed */
} htc__kv_record;

/* Append what is stored under key. */
void htc__kv_record_write(htc_buf *b, htc_bytes key, const htc__kv_record *record);
/* HTC_ECORRUPT if these bytes are not a record of this key. record->value is borrowed from bytes. */
htc_status htc__kv_record_read(htc_bytes bytes, htc_bytes key, htc__kv_record *record);

/* The entry of a client; NULL if it is not listed. */
const htc__kv_seen *htc__kv_record_find(const htc__kv_record *record, uint64_t client);
/* Note a change: the client's older entry goes, or with a full list the oldest one, which raises forgot. */
void htc__kv_record_note(htc__kv_record *record, const htc__kv_seen *seen);

/* Small stored things that are not records of users: payload and the same checksum. */
void       htc__kv_seal(htc_buf *b, htc_bytes key, size_t from); /* over everything from offset `from` on */
htc_status htc__kv_unseal(htc_bytes bytes, htc_bytes key, htc_bytes *payload);

#endif
