/* Where two copies of a bucket differ, told by 256 sums: a hash tree of two levels, 16 branches of 16 leaves.
 *
 * A record counts into the leaf that the place of its key names (the bits behind the bucket's), with a hash of its key and
 * of what tells its states apart (ballot and version, or clock). Sums do not depend on order, so a tree is made in one walk
 * over the bucket, or kept by adding and subtracting. Two members compare the root, then the branches, then the leaves of
 * the branches that differ, and exchange the records of those leaves only.
 *
 * It finds differences that arose by themselves; it is no defence against somebody who makes them. */
#ifndef HTC_KVS_DIGEST_H
#define HTC_KVS_DIGEST_H

#include "core/codec.h"

#define HTC__DIGEST_LEAVES   256
#define HTC__DIGEST_BRANCHES 16

typedef struct htc__digest {
    uint64_t leaf[HTC__DIGEST_LEAVES];
} htc__digest;

/* Of numbers as they stand on the wire, low byte first, whatever the machine's order; at most 256 of them. */
uint64_t htc__digest_words(const uint64_t *words, size_t n, uint64_t seed);
/* Which leaf a place counts into, for buckets named by the k top bits of places; k from 1 to 30. */
uint32_t htc__digest_leaf(uint64_t place, uint32_t k);
/* What a record in this state counts. state: whatever differs when the record does. */
uint64_t htc__digest_record(htc_bytes key, htc_bytes state);

void     htc__digest_add(htc__digest *d, uint32_t leaf, uint64_t record);
void     htc__digest_remove(htc__digest *d, uint32_t leaf, uint64_t record);
uint64_t htc__digest_branch(const htc__digest *d, uint32_t branch);
uint64_t htc__digest_root(const htc__digest *d);

#endif
