#include "huge.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE ((size_t)2 << 20)
#define HALF (PAGE / 2) /* a region of the table of records (at most) */

typedef enum kind { SMALL, HALVES, PAGES } kind;

static kind kind_of(size_t size)
{
    return size > HALF ? PAGES : size > HALF / 2 ? HALVES : SMALL;
}

static size_t whole_pages(size_t size)
{
    return (size + PAGE - 1) / PAGE * PAGE;
}

/* Aligned to a page; a kernel that has no such pages to give takes small ones. */
static void *map(size_t size)
{
    size_t wanted = whole_pages(size);
    if (wanted < size || wanted > SIZE_MAX - PAGE)
        return NULL;
    char *all = mmap(NULL, wanted + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED)
        return NULL;
    size_t before = -(uintptr_t)all % PAGE;
    if (before)
        munmap(all, before);
    if (PAGE - before)
        munmap(all + before + wanted, PAGE - before);
    (void)madvise(all + before, wanted, MADV_HUGEPAGE);
    return all + before;
}

static void *half(huge *h)
{
    void *p;
    pthread_mutex_lock(&h->lock);
    if ((p = h->spare)) {
        h->spare = *(void **)p;
    } else if ((p = h->other)) {
        h->other = NULL;
    } else if ((p = map(PAGE))) {
        h->other = (char *)p + HALF;
    }
    pthread_mutex_unlock(&h->lock);
    return p;
}

static void *take(huge *h, size_t size)
{
    kind k = kind_of(size);
    return k == PAGES ? map(size) : k == HALVES ? half(h) : malloc(size);
}

static void give(huge *h, void *p, size_t size)
{
    kind k = kind_of(size);
    if (k == PAGES) {
        munmap(p, whole_pages(size));
    } else if (k == SMALL) {
        free(p);
    } else {
        pthread_mutex_lock(&h->lock);
        *(void **)p = h->spare;
        h->spare = p;
        pthread_mutex_unlock(&h->lock);
    }
}

static void *resize(void *ctx, void *p, size_t old_size, size_t new_size)
{
    huge *h = ctx;
    if (new_size == 0) {
        if (p)
            give(h, p, old_size);
        return NULL;
    }
    if (!p)
        return take(h, new_size);
    kind from = kind_of(old_size), to = kind_of(new_size);
    if (from == SMALL && to == SMALL)
        return realloc(p, new_size);
    if (from == to && (to == HALVES || whole_pages(old_size) == whole_pages(new_size)))
        return p;
    void *q = take(h, new_size);
    if (!q)
        return NULL;
    memcpy(q, p, old_size < new_size ? old_size : new_size);
    give(h, p, old_size);
    return q;
}

void huge_init(huge *h)
{
    *h = (huge){ .alloc = { resize, h } };
    pthread_mutex_init(&h->lock, NULL);
}
