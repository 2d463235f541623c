/* htc_rng_next without a call, for loops that draw a lot. */
#ifndef HTC_CORE_RNG_H
#define HTC_CORE_RNG_H

#include "htcsched/env.h"

/* SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014). */
static inline uint64_t htc__rng_mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static inline uint64_t htc__rng_next(htc_rng *rng)
{
    return htc__rng_mix(rng->state += UINT64_C(0x9e3779b97f4a7c15));
}

#endif
