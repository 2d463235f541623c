/* Many runs, in processes. */
#ifndef HTC_SIM_STUDY_POOL_H
#define HTC_SIM_STUDY_POOL_H

#include "model.h"

typedef struct pool {
    uint64_t    n;          /* runs, numbered from 0 */
    uint32_t    jobs;       /* processes; 0: as many as there are processors */
    uint64_t    memory_max; /* of all together, bytes; 0: three quarters of this machine's */
    int         quiet;      /* no progress */
    /* One of them, in a process; o is zero before. */
    void      (*one)(const void *ctx, uint64_t index, watch *w, outcome *o);
    const void *ctx;
} pool;

/* Outcome i is that of run i. 0: all are done; 1: interrupted; -1: a process has died, and it is said. */
int pool_run(const pool *all, outcome *outcomes);

#endif
