/* An allocator that refuses: the nth allocation alone, or it and all after it. It also knows what was not given back, and what was
 * given back with another size than it was taken with.
 *
 *     alloc_fail f = alloc_fail_at(0);            never fails, counts
 *     htc_env env = alloc_fail_env(&f);
 *     ... ; cr_expect(eq(sz, f.live, 0));
 *
 *     ALLOC_FAIL_EVERY (f, 1000) { env ...; status = thing(&env); ...; }   n = 1, 2, ... until nothing is refused: the
 *                                                                          nth and all after it
 *     ALLOC_FAIL_ONCE (f, 1000) { ... }                                    the nth alone */
#ifndef HTC_TESTS_ALLOC_FAIL_H
#define HTC_TESTS_ALLOC_FAIL_H

#include <stdlib.h>
#include <string.h>

#include "htcsched/env.h"

typedef struct alloc_fail {
    size_t    fail_at; /* 0: never */
    int       once;    /* that one alone */
    size_t    calls;   /* allocations asked for */
    size_t    refused;
    size_t    live; /* pieces of memory not given back */
    size_t    wrong_sizes;
    htc_alloc alloc;
} alloc_fail;

/* In front of each piece, aligned for anything. */
typedef union alloc_fail_head {
    size_t      size;
    max_align_t align;
} alloc_fail_head;

static inline void *alloc_fail_resize(void *ctx, void *p, size_t old_size, size_t new_size)
{
    alloc_fail      *f = ctx;
    alloc_fail_head *old = p ? (alloc_fail_head *)p - 1 : NULL;
    if (old && old->size != old_size)
        f->wrong_sizes++;
    if (new_size == 0) {
        if (old)
            f->live--;
        free(old);
        return NULL;
    }
    f->calls++;
    if (f->fail_at && (f->once ? f->calls == f->fail_at : f->calls >= f->fail_at)) {
        f->refused++;
        return NULL;
    }
    /* Always another place, so that a pointer kept to the old one is found out; and never zeroed. */
    alloc_fail_head *new = malloc(sizeof *new + new_size);
    if (!new)
        abort();
    memset(new + 1, 0xa5, new_size);
    new->size = new_size;
    f->live++;
    if (old) {
        memcpy(new + 1, old + 1, old->size < new_size ? old->size : new_size);
        free(old);
        f->live--;
    }
    return new + 1;
}

static inline alloc_fail alloc_fail_at(size_t nth)
{
    return (alloc_fail){ .fail_at = nth };
}

/* f must outlive the env and stay where it is. */
static inline htc_env alloc_fail_env(alloc_fail *f)
{
    f->alloc = (htc_alloc){ alloc_fail_resize, f };
    return (htc_env){ .size = sizeof(htc_env), .alloc = &f->alloc };
}

static inline int alloc_fail_next(alloc_fail *f, size_t limit)
{
    if (f->fail_at > 0 && f->refused == 0)
        return 0;
    if (f->fail_at >= limit)
        abort(); /* a scenario that never gets through */
    *f = (alloc_fail){ .fail_at = f->fail_at + 1, .once = f->once };
    return 1;
}

/* The body runs once for each allocation of the scenario with that one and all after it refused, and once with none. */
#define ALLOC_FAIL_EVERY(f, limit) for (alloc_fail f = { 0 }; alloc_fail_next(&f, limit);)
/* The same with that one alone refused. */
#define ALLOC_FAIL_ONCE(f, limit) for (alloc_fail f = { .once = 1 }; alloc_fail_next(&f, limit);)

#endif
