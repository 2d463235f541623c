/* A hold of the event queue, what the benches of the models compare their figures with: take the earliest of n pending events and push it again
 * later. And memory as htc-sim has it: each block in huge pages of its own. */
#ifndef HTC_BENCH_SIM_HOLD_H
#define HTC_BENCH_SIM_HOLD_H

#include <sys/mman.h>

#include "bench.h"
#include "sim/scale/ladder.h"

#define HOLD_ID_BITS 30

static inline void *huge_resize(void *ctx, void *p, size_t old_size, size_t new_size)
{
    void *fresh = NULL;
    (void)ctx;
    if (new_size) {
        fresh = mmap(NULL, new_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (fresh == MAP_FAILED)
            return NULL;
        madvise(fresh, new_size, MADV_HUGEPAGE);
        if (p)
            memcpy(fresh, p, old_size < new_size ? old_size : new_size);
    }
    if (p)
        munmap(p, old_size);
    return fresh;
}

static const htc_alloc huge_alloc = { huge_resize, NULL };
static const htc_env   huge = { .size = sizeof huge, .alloc = &huge_alloc };

/* ns of CPU a hold, with n pending events, fewer than 2^30. env: where the queue's memory comes from; NULL: the default.
 * Increments are uniform, below 2^24 ticks, or a smaller power of two, so that the last key is still one (LADDER_KEY_MAX). */
static inline double hold_ns(const htc_env *env, uint64_t n, uint64_t holds)
{
    ladder  *q = NULL;
    uint64_t key = 0, sum = 0, rng = 1;
    unsigned shift = 40;
    while ((holds / n + 2) << (64 - shift) > LADDER_KEY_MAX >> HOLD_ID_BITS)
        shift++;
    bench_must(htc__ladder_create(env, n, HOLD_ID_BITS, &q) == HTC_OK, "htc__ladder_create");
    for (uint64_t i = 0; i < n; i++) {
        rng = rng * UINT64_C(6364136223846793005) + 1442695040888963407u;
        htc__ladder_push(q, rng >> shift << HOLD_ID_BITS | i);
    }
    double t = bench_cpu_seconds();
    for (uint64_t i = 0; i < holds; i++) {
        rng = rng * UINT64_C(6364136223846793005) + 1442695040888963407u;
        htc__ladder_pop(q, &key);
        sum += key;
        htc__ladder_push(q, key + (rng >> shift << HOLD_ID_BITS));
    }
    t = bench_cpu_seconds() - t;
    bench_must(sum > 0 && key <= LADDER_KEY_MAX, "holds");
    htc__ladder_destroy(env, q);
    return t * 1e9 / (double)holds;
}

#endif
