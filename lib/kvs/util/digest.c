#include "kvs/util/digest.h"

#define FAN_OUT (HTC__DIGEST_LEAVES / HTC__DIGEST_BRANCHES)

uint32_t htc__digest_leaf(uint64_t place, uint32_t k)
{
    return (uint32_t)(place << k >> 56);
}

uint64_t htc__digest_record(htc_bytes key, htc_bytes state)
{
    return htc_hash64(state, htc_hash64(key, 0));
}

void htc__digest_add(htc__digest *d, uint32_t leaf, uint64_t record)
{
    d->leaf[leaf] += record;
}

void htc__digest_remove(htc__digest *d, uint32_t leaf, uint64_t record)
{
    d->leaf[leaf] -= record;
}

uint64_t htc__digest_words(const uint64_t *words, size_t n, uint64_t seed)
{
    uint8_t bytes[HTC__DIGEST_LEAVES * 8];
    for (size_t i = 0; i < n; i++) {
        for (unsigned j = 0; j < 8; j++)
            bytes[8 * i + j] = (uint8_t)(words[i] >> 8 * j);
    }
    return htc_hash64((htc_bytes){ bytes, 8 * n }, seed);
}

/* Hashed, not summed: a record that is in the wrong leaf has to show above. */
static uint64_t hash_of(const uint64_t *numbers, size_t n)
{
    return htc__digest_words(numbers, n, 0);
}

uint64_t htc__digest_branch(const htc__digest *d, uint32_t branch)
{
    return hash_of(d->leaf + branch * FAN_OUT, FAN_OUT);
}

uint64_t htc__digest_root(const htc__digest *d)
{
    uint64_t branches[HTC__DIGEST_BRANCHES];
    for (uint32_t i = 0; i < HTC__DIGEST_BRANCHES; i++)
        branches[i] = htc__digest_branch(d, i);
    return hash_of(branches, HTC__DIGEST_BRANCHES);
}
