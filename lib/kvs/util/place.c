#include "kvs/util/place.h"

uint64_t htc__kv_place(uint64_t seed, htc_bytes key)
{
    return htc_hash64(key, seed);
}

uint32_t htc__kv_bucket(uint64_t place, uint32_t k)
{
    return (uint32_t)(place >> (64 - k));
}
