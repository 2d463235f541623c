/* An order of indices: a binary heap and heapsort that take no memory and no more than O(n log n) steps (the C library's qsort promises neither). */
#ifndef HTC_CORE_ORDER_H
#define HTC_CORE_ORDER_H

#include <stddef.h>

/* 1 if a belongs before b. */
typedef int htc__order_before(const void *ctx, size_t a, size_t b);

/* The heap's one step: the item at position at sinks until no child belongs before it. */
void htc__order_sink(size_t *heap, size_t n, size_t at, htc__order_before *before, const void *ctx);
void htc__order_heap(size_t *heap, size_t n, htc__order_before *before, const void *ctx);
void htc__order_sort(size_t *order, size_t n, htc__order_before *before, const void *ctx);

#endif
