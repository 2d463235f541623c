#include "roles/batch/first_level.h"

#include <assert.h>

uint64_t htc__first_level_serve(htc__first_level *f, uint64_t now)
{
    f->ready = (f->ready > now ? f->ready : now) + f->service;
    f->jobs++;
    return f->ready;
}

static void forget_old(htc__first_level *f, uint64_t now)
{
    assert(f->second > 0);
    uint64_t slot = now / f->second * HTC__FIRST_LEVEL_SLOTS + now % f->second * HTC__FIRST_LEVEL_SLOTS / f->second, gone = slot - f->slot;
    for (uint64_t i = 1; i <= (gone < HTC__FIRST_LEVEL_SLOTS ? gone : HTC__FIRST_LEVEL_SLOTS); i++)
        f->recent[(f->slot + i) % HTC__FIRST_LEVEL_SLOTS] = 0;
    f->slot = slot;
}

void htc__first_level_noted(htc__first_level *f, uint64_t now)
{
    if (f->hold_rate > 0) {
        forget_old(f, now);
        f->recent[f->slot % HTC__FIRST_LEVEL_SLOTS]++;
    }
}

int htc__first_level_holds(htc__first_level *f, uint64_t now, uint64_t draw)
{
    uint64_t recent = 0;
    if (!htc__first_level_may_hold(f))
        return 0;
    forget_old(f, now);
    for (int i = 0; i < HTC__FIRST_LEVEL_SLOTS; i++)
        recent += f->recent[i];
    f->verdicts++;
    int held = (double)(draw >> 11) * 0x1p-53 < f->hold + f->hold_rate * (double)recent;
    if (!held)
        htc__first_level_noted(f, now);
    return held;
}

size_t htc__cluster_pick(const htc__cluster_now *clusters, size_t n, htc__cluster_metric metric)
{
    size_t found = 0;
    assert(n > 0);
    for (size_t i = 1; i < n; i++) {
        const htc__cluster_now *a = &clusters[i], *best = &clusters[found];
        if (metric == HTC__METRIC_QUEUE && a->queued != best->queued)
            found = a->queued < best->queued ? i : found;
        else if (a->free > best->free)
            found = i;
    }
    return found;
}
