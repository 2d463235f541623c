#include "core/rng.h"

uint64_t htc_rng_next(htc_rng *rng)
{
    return htc__rng_next(rng);
}

uint64_t htc_rng_below(htc_rng *rng, uint64_t n)
{
    if (n == 0)
        return 0;
    /* The lowest 2^64 mod n values would make small answers likelier: draw again. They are below n, as few are. */
    uint64_t x;
    do
        x = htc__rng_next(rng);
    while (x < n && x < (0 - n) % n);
    return x % n;
}

htc_rng htc_rng_fork(const htc_rng *rng, const char *name)
{
    return (htc_rng){ htc__rng_mix(rng->state ^ htc_hash64(htc_bytes_of(name), 0)) };
}
