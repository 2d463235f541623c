/* The messages of watches: KV_WATCH and KV_EVENTS of core/wire.h.
 *
 * A client asks, the server answers when there is something to tell: with at most one answer on its way, whoever reads slowly
 * holds nothing up but itself, and what changes meanwhile is merged into the next answer.
 *
 * KV_WATCH, id = the client's number of it, growing: u64 session, u8 1 if it is repeated because nothing was heard for a while,
 *   varint taken, wishes to the end. taken is the newest KV_EVENTS that the client has done with: it asks for what comes behind that.
 *   A number that does not grow is an old copy. Wishes are repeated in every KV_WATCH until they are heard.
 * Wish: varint watch, a number that the client never uses twice, growing; u8 htc__kv_change_request_kind; KEY: bytes key, varint version that the
 *   client holds; PREFIX: bytes prefix; END: nothing.
 * KV_EVENTS, id = the server's number of it, growing: u64 session, varint the newest KV_WATCH heard, events to the end. What a repeated
 *   KV_WATCH has not taken is told again, as it is then, in another KV_EVENTS: states may come twice, and the client tells none
 *   that is not newer than the one before.
 * Event: varint watch; u8 htc_kv_event_kind, with HTC__KV_EVENT_KEY if bytes key comes next; VALUE: varint version, bytes value;
 *   DELETED: varint version; ENDED: u32 status; CURRENT, START_OVER: nothing. */
#ifndef HTC_KVS_WATCH_WIRE_H
#define HTC_KVS_WATCH_WIRE_H

#include "core/wire.h"
#include "htcsched/kv.h"

/* Wishes in one message at most. */
#define HTC__KV_WISHES_MAX 256
#define HTC__KV_EVENT_KEY  0x80u

typedef enum htc__kv_change_request_kind { HTC__KV_WISH_END, HTC__KV_WISH_KEY, HTC__KV_WISH_PREFIX } htc__kv_change_request_kind;

typedef struct htc__kv_watch_wish {
    uint64_t  watch, held;
    uint32_t  kind;
    htc_bytes key;
} htc__kv_watch_wish;

void htc__kv_watch_begin(htc_buf *b, uint64_t serial, uint64_t session, int repeated, uint64_t taken); /* clears b first */
void htc__kv_watch_read(htc_reader *r, uint64_t *session, int *repeated, uint64_t *taken);
void htc__kv_watch_wish_write(htc_buf *b, const htc__kv_watch_wish *wish);
/* 1: there was one; 0: none is left, or r has failed. Bytes are borrowed. */
int htc__kv_watch_wish_next(htc_reader *r, htc__kv_watch_wish *wish);

void htc__kv_events_begin(htc_buf *b, uint64_t number, uint64_t session, uint64_t heard); /* clears b first */
void htc__kv_events_read(htc_reader *r, uint64_t *session, uint64_t *heard);
/* tag is the watch's number. Without a key: the watch's own. */
void htc__kv_event_write(htc_buf *b, const htc_kv_event *event);
int  htc__kv_event_next(htc_reader *r, htc_kv_event *event);

#endif
