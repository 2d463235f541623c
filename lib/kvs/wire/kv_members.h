/* The value of an answer to HTC_KV_MEMBERS (htcsched/kv_members.h reads it):
 *
 *   u8 1, varint version, varint epoch, u64 asked, varint buckets, varint copies, u8 change, u8 back, varint weight, u64 comer, u64 goer,
 *   varint moved, varint to move, u64 driver, u8 settles, u8 keepers and so many u64, varint members, bytes members, bytes buckets
 *   member: u64 id, u64 process, u64 domain, varint weight, u8 state, u8 heard, varint owned, varint first, varint planned, bytes address
 *   bucket: varint epoch, u8 owners and so many u64 */
#ifndef HTC_KVS_KV_MEMBERS_H
#define HTC_KVS_KV_MEMBERS_H

#include "core/codec.h"
#include "htcsched/kv_members.h"

#define HTC__KV_MEMBERS_FORMAT 1

/* members and buckets are written into two buffers, one after the other, and then joined. */
void htc__kv_members_member(htc_buf *members, const htc_kv_member_shown *member);
void htc__kv_members_bucket(htc_buf *buckets, const htc_kv_bucket_shown *bucket);
/* members_bytes and buckets_bytes are those. */
void htc__kv_members_write(htc_buf *b, const htc_kv_members *members);

#endif
