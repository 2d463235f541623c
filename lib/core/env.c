#include "htcsched/env.h"

/* SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014). */
static uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

uint64_t htc_rng_next(htc_rng *rng)
{
    return mix(rng->state += UINT64_C(0x9e3779b97f4a7c15));
}

uint64_t htc_rng_below(htc_rng *rng, uint64_t n)
{
    if (n == 0)
        return 0;
    /* The lowest 2^64 mod n values would make small answers likelier: draw again. */
    uint64_t skip = (0 - n) % n, x;
    do
        x = htc_rng_next(rng);
    while (x < skip);
    return x % n;
}

htc_rng htc_rng_fork(const htc_rng *rng, const char *name)
{
    return (htc_rng){ mix(rng->state ^ htc_hash64(htc_bytes_of(name), 0)) };
}
