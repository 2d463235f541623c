/* What members say to each other about the map and about buckets that move: more items of KV_MEMBERS (kvs/peer/members.h).
 *
 *   HAVE       varint have: the version of the newest map this member has seen, plus one; 0: it has none
 *   WANT       varint have: send a newer one, if there is
 *   MAP        varint version, map (kvs/map/map.h) to the end
 *   SEAL       varint number, varint bucket, varint epoch, bytes after; then u8 1 if eventual keys are to be shown
 *   SHOWN      varint number, varint bucket, bytes after, floors, u8 1: last, 4: of eventual keys, or-ed, entries (kvs/migrate/bucket_migration.h) to the end
 *   INSTALL    varint number, varint bucket, varint page, u8 1: last, 4: of eventual keys, or-ed, floors, entries to the end
 *   INSTALLED  varint number, varint bucket, varint pages
 *   COPY       as SEAL, number being the epoch: nothing is sealed, what is served is shown
 *   COPIED     as SHOWN, number being the epoch
 *   JOIN       u64 id, u64 process, u64 domain, varint weight, bytes address, u64 instead of whom (0: of nobody): the sender wants to
 *              be a member
 *   REFUSED    u32 status: why the sender is not let in now; what it has to say again
 *   CATCH      varint round, bytes after, bytes to, u64 root: of the tree of what the sender holds behind one key up to another
 *   LEAVES     varint round, bytes after, bytes to, 256 u64: another tree, perhaps of less; none: it is the same
 *   KEYS       varint round, bytes after, bytes to, 32 bytes which leaves are meant, {bytes key, ballot} of what is held in them, to the end
 *   CAUGHT     varint round, bytes after, bytes to: so far all that is newer was sent
 *   RECORD     varint epoch of its bucket, bytes key, cell to the end
 *   AS_OF      varint numbers: the newest number of the map that the sender had heard of when it said what follows in the same message, JOIN or
 *              REFUSED; 0: of none
 *
 * floors: varint version, ballot. The bucket of the map itself is HTC__KV_OWN_BUCKET; its number is its next epoch. */
#ifndef HTC_KVS_MAP_ITEMS_H
#define HTC_KVS_MAP_ITEMS_H

#include "kvs/cell/cell.h"
#include "kvs/map/map.h"

#define HTC__KV_OWN_BUCKET (UINT32_C(1) << HTC__KV_MAP_BITS)

enum {
    HTC__KV_ITEM_HAVE = 64,
    HTC__KV_ITEM_WANT,
    HTC__KV_ITEM_MAP,
    HTC__KV_ITEM_SEAL,
    HTC__KV_ITEM_SHOWN,
    HTC__KV_ITEM_INSTALL,
    HTC__KV_ITEM_INSTALLED,
    HTC__KV_ITEM_COPY,
    HTC__KV_ITEM_COPIED,
    HTC__KV_ITEM_JOIN,
    HTC__KV_ITEM_REFUSED,
    HTC__KV_ITEM_CATCH, /* these: migrate/catchup.c */
    HTC__KV_ITEM_LEAVES,
    HTC__KV_ITEM_KEYS,
    HTC__KV_ITEM_CAUGHT,
    HTC__KV_ITEM_RECORD,
    HTC__KV_ITEM_AS_OF
};

#define HTC__KV_UNSAID UINT64_MAX /* of AS_OF: it was not there, as an older version does not say it */

/* SEAL, COPY. What it points to is borrowed, here and below. */
typedef struct htc__kv_seal_ask {
    uint64_t  number, epoch;
    uint32_t  bucket;
    htc_bytes after;
    uint8_t   eventual; /* of these keys */
} htc__kv_seal_ask;

/* Of a page that is shown: its owner is sealed, and has lost what it held. */
#define HTC__KV_PAGE_LOST 2

/* SHOWN, COPIED, INSTALL; INSTALLED: only number, bucket and page, which is how many there are. */
typedef struct htc__kv_page {
    uint64_t       number;
    uint32_t       bucket, page;
    uint8_t        last, eventual; /* last: of SHOWN also HTC__KV_PAGE_LOST */
    htc_bytes      after;
    htc__kv_floors floors;
    htc_bytes      entries;
} htc__kv_page;

/* All readers: HTC_EPROTO. */
void       htc__kv_have_write(htc_buf *b, uint64_t have);
htc_status htc__kv_have_read(htc_bytes bytes, uint64_t *have);
void       htc__kv_seal_ask_write(htc_buf *b, const htc__kv_seal_ask *seal);
htc_status htc__kv_seal_ask_read(htc_bytes bytes, htc__kv_seal_ask *seal);
void       htc__kv_shown_write(htc_buf *b, const htc__kv_page *page);
htc_status htc__kv_shown_read(htc_bytes bytes, htc__kv_page *page);
void       htc__kv_install_write(htc_buf *b, const htc__kv_page *page);
htc_status htc__kv_install_read(htc_bytes bytes, htc__kv_page *page);
void       htc__kv_installed_write(htc_buf *b, const htc__kv_page *page);
htc_status htc__kv_installed_read(htc_bytes bytes, htc__kv_page *page);
void       htc__kv_join_write(htc_buf *b, const htc__kv_map_member *member, uint64_t instead);
htc_status htc__kv_join_read(htc_bytes bytes, htc__kv_map_member *member, uint64_t *instead);
void       htc__kv_as_of_write(htc_buf *b, uint64_t numbers);
htc_status htc__kv_as_of_read(htc_bytes bytes, uint64_t *numbers);

/* As they are stored, too. */
void           htc__kv_floors_write(htc_buf *b, const htc__kv_floors *floors);
htc__kv_floors htc__kv_floors_read(htc_reader *r);

#endif
