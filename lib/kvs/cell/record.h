/* What stored things have in common: the list of last changes, and the seal of bytes that lie on somebody else's disk. */
#ifndef HTC_KVS_RECORD_H
#define HTC_KVS_RECORD_H

#include "core/codec.h"

#define HTC__KV_CLIENTS 16

/* The last change of a client. */
typedef struct htc__kv_seen {
    uint64_t client, sequence, version;
    int64_t  number;
} htc__kv_seen;

/* XXH3 of everything from offset `from` on, seeded with the hash of the key: bytes that were moved to another key, torn or
 * flipped are refused, never served. */
void htc__kv_seal(htc_buf *b, htc_bytes key, size_t from);
/* The bytes without their seal; HTC_ECORRUPT if they are not what was sealed under this key. */
htc_status htc__kv_unseal(htc_bytes bytes, htc_bytes key, htc_bytes *payload);

#endif
