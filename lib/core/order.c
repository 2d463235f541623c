#include "core/order.h"

void htc__order_sink(size_t *heap, size_t n, size_t at, htc__order_before *before, const void *ctx)
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

void htc__order_heap(size_t *heap, size_t n, htc__order_before *before, const void *ctx)
{
    for (size_t i = n / 2; i > 0; i--)
        htc__order_sink(heap, n, i - 1, before, ctx);
}

typedef struct reversed {
    htc__order_before *before;
    const void *ctx;
} reversed;

static int after(const void *ctx, size_t a, size_t b)
{
    const reversed *r = ctx;
    return r->before(r->ctx, b, a);
}

void htc__order_sort(size_t *order, size_t n, htc__order_before *before, const void *ctx)
{
    /* The last one of those left is at the top of a reversed heap: it goes to the end. */
    reversed r = { before, ctx };
    htc__order_heap(order, n, after, &r);
    for (size_t left = n; left > 1; left--) {
        size_t last = order[0];
        order[0] = order[left - 1];
        order[left - 1] = last;
        htc__order_sink(order, left - 1, 0, after, &r);
    }
}
