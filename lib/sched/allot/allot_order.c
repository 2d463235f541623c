/* Order without allocation: a heap of indices, heapsort, ties. */
#include "sched/allot/allot_private.h"

void htc__heap_sink(size_t *heap, size_t n, size_t at, htc_before *before, const void *ctx)
{
    for (size_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && before(ctx, heap[child + 1], heap[child]))
            child++;
        if (!before(ctx, heap[child], heap[at]))
            return;
        size_t swap = heap[at];
        heap[at] = heap[child];
        heap[child] = swap;
    }
}

void htc__heap_make(size_t *heap, size_t n, htc_before *before, const void *ctx)
{
    for (size_t i = n / 2; i > 0; i--)
        htc__heap_sink(heap, n, i - 1, before, ctx);
}

typedef struct reversed {
    htc_before *before;
    const void *ctx;
} reversed;

static int after(const void *ctx, size_t a, size_t b)
{
    const reversed *r = ctx;
    return r->before(r->ctx, b, a);
}

void htc__sort(size_t *order, size_t n, htc_before *before, const void *ctx)
{
    /* The last one of those left is at the top of a reversed heap: it goes to the end. */
    reversed r = { before, ctx };
    htc__heap_make(order, n, after, &r);
    for (size_t left = n; left > 1; left--) {
        size_t last = order[0];
        order[0] = order[left - 1];
        order[left - 1] = last;
        htc__heap_sink(order, left - 1, 0, after, &r);
    }
}

int htc__before_tie(const htc_allot_user *a, const htc_allot_user *b)
{
    if (a->last_served != b->last_served)
        return a->last_served < b->last_served;
    if (a->arrival != b->arrival)
        return a->arrival < b->arrival;
    return a->id < b->id;
}
