/* The slow, obvious table of cells: a list of what is there. Keys are numbered, values follow from (key, stamp). */
#ifndef HTC_TESTS_CELLS_MODEL_H
#define HTC_TESTS_CELLS_MODEL_H

#include <stdio.h>
#include <string.h>

#include "htcsched/env.h"

#define MODEL_KEYS      512
#define MODEL_VALUE_MAX 70000

typedef struct model {
    uint32_t stamp[MODEL_KEYS]; /* 0: not there */
} model;

/* "k007", some longer, so that no two have the same length class by chance alone. */
static inline htc_bytes model_key(size_t i, char text[64])
{
    int n = snprintf(text, 64, "k%03zu%.*s", i, (int)(i * 7 % 40), "........................................");
    return (htc_bytes){ text, (size_t)n };
}

static inline size_t model_number(htc_bytes key)
{
    const char *p = key.data;
    return (size_t)((p[1] - '0') * 100 + (p[2] - '0') * 10 + (p[3] - '0'));
}

static inline size_t model_value_len(size_t key, uint32_t stamp)
{
    uint64_t h = htc_hash64((htc_bytes){ &stamp, sizeof stamp }, key);
    switch (h % 50) {
    case 0:
        return h / 50 % MODEL_VALUE_MAX;
    case 1:
    case 2:
        return h / 50 % 2000;
    case 3:
        return 0;
    default:
        return h / 50 % 300;
    }
}

/* Lends bytes that the next call overwrites. */
static inline htc_bytes model_value(size_t key, uint32_t stamp)
{
    static uint8_t bytes[MODEL_VALUE_MAX];
    size_t         n = model_value_len(key, stamp);
    for (size_t i = 0; i < n; i++)
        bytes[i] = (uint8_t)(stamp * 31 + key * 7 + i);
    return (htc_bytes){ bytes, n };
}

static inline size_t model_count(const model *m)
{
    size_t n = 0;
    for (size_t i = 0; i < MODEL_KEYS; i++)
        n += m->stamp[i] != 0;
    return n;
}

#endif
