/* The memory of an exact run: counted, and refused beyond what the host allows. */
#ifndef HTC_SIM_SCENARIOS_COUNTED_H
#define HTC_SIM_SCENARIOS_COUNTED_H

#include "htcsched/env.h"

typedef struct counted {
    htc_env        env; /* for the run: an allocator and nothing else */
    htc_alloc      alloc;
    const htc_env *base; /* the caller's, of which the allocator alone is looked at; NULL: malloc */
    uint64_t       bytes, peak, max; /* max 0: no bound; the caller may set it later */
    int            too_big; /* max has refused */
} counted;

/* It stays where it is, and so does base, until all is given back. */
void htc__counted_open(counted *c, const htc_env *base, uint64_t max);

#endif
