/* What a choice of victims must be. */
#ifndef HTC_TEST_STEAL_CHOICE_H
#define HTC_TEST_STEAL_CHOICE_H

#include <stdint.h>
#include <stdlib.h>

static inline int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Sorts what it is given. */
static inline int are_distinct_others(uint32_t *out, uint32_t k, uint32_t n, uint32_t self)
{
    qsort(out, k, sizeof *out, by_number);
    for (uint32_t i = 0; i < k; i++)
        if (out[i] >= n || out[i] == self || (i > 0 && out[i] == out[i - 1]))
            return 0;
    return 1;
}

#endif
