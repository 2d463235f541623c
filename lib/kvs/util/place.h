/* Where a key lies: one number for the bucket, the table and the comparison of buckets. */
#ifndef HTC_KVS_PLACE_H
#define HTC_KVS_PLACE_H

#include "htcsched/bytes.h"

/* The seed is the store's: the same for all its members and clients. */
uint64_t htc__kv_place(uint64_t seed, htc_bytes key);
/* The bucket of a place, of 2^k; k from 1 to 30. */
uint32_t htc__kv_bucket(uint64_t place, uint32_t k);

#endif
