/* What the owners of eventual keys say to each other: items of KV_MEMBERS (members.h), whose kinds begin at 32.
 *
 *   PASS      u64 tag, u64 client, varint sequence, operation (kv_wire.h): a request for an owner to coordinate
 *   PASSED    u64 tag, result (kv_wire.h): its answer
 *   FETCH     u64 tag, varint epoch, u64 digest of what the asker holds (0: it has nothing to compare), bytes key
 *   FETCHED   u64 tag, u8 1: that is what is held here; else state
 *   STORE     u64 tag (0: no word of it is wanted), varint epoch, bytes key, state: what is held there is to know all of it
 *   STORED    u64 tag: it does, durably
 *   TREE      u32 bucket, u8 level, u64 sums: of level 0 the root; of 1 each branch; of 2 u16 which branches, and the leaves of these
 *   ENTRIES   u32 bucket, 32 bytes: a bit for each leaf that differs, then for each record in these bytes key, u64 digest
 *   PULL      bytes key, one after the other: STORE them here
 *   COLLECT   u64 tag, varint epoch, u8 1: forget it, 0: do you hold it?, u64 digest of the deleted record, bytes key
 *   COLLECTED u64 tag, u8 1 if it is held
 *   SETTLED   varint have: the version of the map by which the sender holds no record that is only others' (eventual/orphan_handoff.c), plus one
 *
 * epoch: of the key's bucket, as the sender knows it; whoever does not serve it in that one does nothing. key: the name of the namespace, a zero byte, the user's key. state: what stands in the cell (eventual.h). Anything may be lost,
 * and may come twice: all of it is merged, which does nothing the second time. */
#ifndef HTC_KVS_EVENTUAL_WIRE_H
#define HTC_KVS_EVENTUAL_WIRE_H

#include "kvs/util/digest.h"
#include "kvs/cell/face.h"
#include "kvs/wire/kv_wire.h"

enum {
    HTC__KV_ITEM_PASS = 32,
    HTC__KV_ITEM_PASSED,
    HTC__KV_ITEM_FETCH,
    HTC__KV_ITEM_FETCHED,
    HTC__KV_ITEM_STORE,
    HTC__KV_ITEM_STORED,
    HTC__KV_ITEM_TREE,
    HTC__KV_ITEM_ENTRIES,
    HTC__KV_ITEM_PULL,
    HTC__KV_ITEM_COLLECT,
    HTC__KV_ITEM_COLLECTED,
    HTC__KV_ITEM_SETTLED
};

typedef struct htc__kv_pass {
    uint64_t       tag;
    htc__kv_stamp  stamp;   /* client and sequence */
    htc_kv_request request; /* what it points to is borrowed */
} htc__kv_pass;

/* All but PASS and PASSED: what of it there is. */
typedef struct htc__kv_copy {
    uint64_t  tag, epoch, digest;
    uint8_t   flag;
    htc_bytes key, state; /* borrowed */
} htc__kv_copy;

#define HTC__KV_TREE_FAN (HTC__DIGEST_LEAVES / HTC__DIGEST_BRANCHES)

typedef struct htc__kv_tree {
    uint32_t bucket;
    uint8_t  level;
    uint16_t branches;                /* level 2: a bit for each that follows */
    uint64_t sum[HTC__DIGEST_LEAVES]; /* level 0: [0]; 1: by branch; 2: by leaf, those of other branches undefined */
} htc__kv_tree;

typedef struct htc__kv_summed {
    htc_bytes key; /* borrowed */
    uint64_t  digest;
} htc__kv_summed;

void       htc__kv_pass_write(htc_buf *b, const htc__kv_pass *p);
/* HTC_EPROTO, as all of them; HTC_EUNSUPPORTED: an operation or a flag that is not known here; the tag is read. */
htc_status htc__kv_pass_read(htc_bytes bytes, htc__kv_pass *p);
void       htc__kv_passed_write(htc_buf *b, uint64_t tag, const htc_kv_result *result);
htc_status htc__kv_passed_read(htc_bytes bytes, uint64_t *tag, htc_kv_result *result);

/* kind: FETCH, FETCHED, STORE, STORED, COLLECT, COLLECTED. */
void       htc__kv_copy_write(htc_buf *b, uint8_t kind, const htc__kv_copy *c);
htc_status htc__kv_copy_read(uint8_t kind, htc_bytes bytes, htc__kv_copy *c);

void       htc__kv_tree_write(htc_buf *b, const htc__kv_tree *t);
htc_status htc__kv_tree_read(htc_bytes bytes, htc__kv_tree *t);

typedef struct htc__kv_leaves {
    uint8_t bit[HTC__DIGEST_LEAVES / 8];
} htc__kv_leaves;

static inline int htc__kv_leaf_in(const htc__kv_leaves *l, uint32_t leaf)
{
    return l->bit[leaf / 8] >> leaf % 8 & 1;
}

void       htc__kv_summed_begin(htc_buf *b, uint32_t bucket, const htc__kv_leaves *leaves);
void       htc__kv_summed_write(htc_buf *b, const htc__kv_summed *entry);
htc_status htc__kv_summed_read(htc_reader *r, uint32_t *bucket, htc__kv_leaves *leaves); /* then the entries */
int        htc__kv_summed_next(htc_reader *r, htc__kv_summed *entry); /* 0: the end, or r has failed */
int        htc__kv_pulled_next(htc_reader *r, htc_bytes *key);        /* the same of PULL, written by htc_put_bytes */

/* The name of a namespace, a zero byte, a key of 1 byte or more: 400 bytes together at most. */
int htc__kv_space_key_fits(htc_bytes key);

#endif
