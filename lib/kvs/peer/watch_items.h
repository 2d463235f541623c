/* What members say to each other about watches: items of KV_MEMBERS (members.h).
 *
 *   WATCH  u64 life, varint stream, varint from, varint taken, then wishes, those that have come first first: varint number, above the one
 *          before and above `from`; u8 1: of a prefix, 2: it has ended; bytes key or prefix
 *   MARKS  u64 life, varint stream, u8 1: the stream is known, varint have, varint number, then marks: bytes key, varint version, u64 digest
 *
 * A WATCH goes from the member that watchers are connected to, the host, to each other member; a MARKS goes back. life is drawn when the
 * host starts, and its streams to a member are counted from 1 in it: a stream is what that member knows without a gap. from says which wishes
 * the host takes for heard; a member that has heard fewer does not know the stream, and says so. have is the newest wish heard; number
 * counts the messages with marks (0: there is none), and taken is the newest of them that the host has carried out. */
#ifndef HTC_KVS_WATCH_ITEMS_H
#define HTC_KVS_WATCH_ITEMS_H

#include "core/codec.h"
#include "htcsched/kv.h"

enum { HTC__KV_ITEM_WATCH = 96, HTC__KV_ITEM_MARKS };
enum { HTC__KV_WATCH_PREFIX = 1, HTC__KV_WATCH_ENDED = 2 };

typedef struct htc__kv_watch_item {
    uint64_t life, stream, from, taken;
} htc__kv_watch_item;

typedef struct htc__kv_wanted {
    uint64_t  number;
    uint8_t   flags;
    htc_bytes key; /* borrowed */
} htc__kv_wanted;

typedef struct htc__kv_marks_item {
    uint64_t life, stream, have, number;
    uint8_t  known;
} htc__kv_marks_item;

/* An owner holds this of the key now: its version (0: nothing), and a digest of version and ballot. */
typedef struct htc__kv_marked {
    htc_bytes key; /* borrowed */
    uint64_t  version, digest;
} htc__kv_marked;

void htc__kv_watch_item_write(htc_buf *b, const htc__kv_watch_item *item);
void htc__kv_watch_item_read(htc_reader *r, htc__kv_watch_item *item);
void htc__kv_wanted_write(htc_buf *b, const htc__kv_wanted *wanted);
/* 1: there was one; 0: none is left, or r has failed. */
int htc__kv_wanted_next(htc_reader *r, htc__kv_wanted *wanted);

void htc__kv_marks_item_write(htc_buf *b, const htc__kv_marks_item *item);
void htc__kv_marks_item_read(htc_reader *r, htc__kv_marks_item *item);
void htc__kv_marked_write(htc_buf *b, const htc__kv_marked *marked);
int  htc__kv_marked_next(htc_reader *r, htc__kv_marked *marked);

#endif
