/* Memory for a store of millions of records: in pages of 2 MiB, so that finding one needs no walk through page tables that are nowhere near
 * (htcsched/env.h: where memory comes from is the host's choice). What is small stays with malloc. */
#ifndef HTC_EXAMPLES_HUGE_H
#define HTC_EXAMPLES_HUGE_H

#include <pthread.h>

#include "htcsched/env.h"

typedef struct huge {
    htc_alloc       alloc; /* for an env */
    pthread_mutex_t lock;
    void           *spare; /* halves of pages that were given back; each holds the next */
    void           *other; /* half of the newest page */
} huge;

/* It outlives all that came from it, and is kept until the process ends: a region that is given back serves again. */
void huge_init(huge *h);

#endif
