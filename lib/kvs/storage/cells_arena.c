#include "kvs/storage/cells_arena.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/util.h"

#define PAGE_BYTES  (HTC__ARENA_PAGE_UNITS * HTC__ARENA_UNIT)
#define SMALL_MAX   ((HTC__ARENA_CLASSES - 1) * HTC__ARENA_UNIT)
#define REGIONS_MAX (HTC__ARENA_BIG >> HTC__ARENA_REGION_SHIFT)
#define CHUNK       ((size_t)1 << HTC__ARENA_BIG_SHIFT)

/* A page is called by region << 6 | page; 0 is none, for regions count from 1. */
typedef struct page {
    uint16_t units; /* of each piece */
    uint16_t taken;
    uint16_t fresh;      /* pieces from here on were never taken */
    uint16_t free;       /* 1 + number of a piece that was given back, which holds the next; 0: none */
    uint32_t next, prev; /* among those with room for this size */
} page;

typedef struct htc__region {
    uint64_t free_pages; /* a bit each */
    uint32_t count;      /* of pages */
    uint32_t next, prev; /* open list; vacant list: next alone */
    uint32_t listed;     /* 1: in the open list */
    page     pages[];
} region;

/* ---------------------------------------------------------------- what is asked of the env */

void *htc__budget_take(htc__budget *b, size_t size)
{
    if (b->max && (size > b->max || b->used > b->max - size)) {
        b->why = HTC_EFULL;
        return NULL;
    }
    void *p = htc__alloc_raw(&b->env, size);
    if (!p) {
        b->why = HTC_ENOMEM;
        return NULL;
    }
    b->used += size;
    return p;
}

void htc__budget_give(htc__budget *b, void *p, size_t size)
{
    if (!p)
        return;
    htc__free(&b->env, p, size);
    assert(b->used >= size);
    b->used -= size;
}

/* An array of pointers, twice as long; 1: done. */
static int grow_pointers(htc__budget *b, void ***array, size_t *cap, size_t least)
{
    size_t wanted = *cap ? *cap * 2 : least;
    void **more = htc__budget_take(b, wanted * sizeof *more);
    if (!more)
        return 0;
    if (*cap)
        memcpy(more, *array, *cap * sizeof *more);
    htc__budget_give(b, *array, *cap * sizeof *more);
    *array = more;
    *cap = wanted;
    return 1;
}

/* ---------------------------------------------------------------- regions */

/* The first are smaller, so that never much more than an eighth of all is there for nothing yet. */
static uint32_t pages_of(size_t number)
{
    return number < 32 ? 4u << number / 8 : HTC__ARENA_REGION_PAGES;
}

static size_t region_size(uint32_t pages)
{
    return sizeof(region) + pages * sizeof(page);
}

static int grow_regions(htc__arena *a)
{
    size_t cap = a->cap, wanted = cap ? cap * 2 : 16;
    /* Both arrays or none. */
    uint8_t **base = htc__budget_take(a->budget, wanted * sizeof *base);
    region  **regions = base ? htc__budget_take(a->budget, wanted * sizeof *regions) : NULL;
    if (!regions) {
        htc__budget_give(a->budget, base, wanted * sizeof *base);
        return 0;
    }
    if (cap) {
        memcpy(base, a->base, cap * sizeof *base);
        memcpy(regions, a->regions, cap * sizeof *regions);
    }
    htc__budget_give(a->budget, a->base, cap * sizeof *base);
    htc__budget_give(a->budget, a->regions, cap * sizeof *regions);
    a->base = base;
    a->regions = regions;
    a->cap = wanted;
    return 1;
}

static void region_link(htc__arena *a, uint32_t number)
{
    region *r = a->regions[number];
    r->next = a->open;
    r->prev = 0;
    r->listed = 1;
    if (a->open)
        a->regions[a->open]->prev = number;
    a->open = number;
}

static void region_unlink(htc__arena *a, uint32_t number)
{
    region *r = a->regions[number];
    if (r->prev)
        a->regions[r->prev]->next = r->next;
    else
        a->open = r->next;
    if (r->next)
        a->regions[r->next]->prev = r->prev;
    r->listed = 0;
}

static int region_empty(const region *r)
{
    return r->free_pages == (r->count == 64 ? UINT64_MAX : (UINT64_C(1) << r->count) - 1);
}

static int region_open(htc__arena *a)
{
    size_t number = a->vacant ? a->vacant : a->count;
    if (number >= REGIONS_MAX) {
        a->budget->why = HTC_EFULL;
        return 0;
    }
    if (number >= a->cap && !grow_regions(a))
        return 0;
    uint32_t pages = a->vacant ? a->regions[number]->count : pages_of(number);
    uint8_t *base = htc__budget_take(a->budget, pages * PAGE_BYTES);
    region  *r = a->vacant ? a->regions[number] : NULL;
    if (base && !r)
        r = htc__budget_take(a->budget, region_size(pages));
    if (!base || !r) {
        htc__budget_give(a->budget, base, pages * PAGE_BYTES);
        return 0;
    }
    if (a->vacant)
        a->vacant = r->next;
    else
        a->count++;
    memset(r, 0, region_size(pages));
    r->count = pages;
    r->free_pages = pages == 64 ? UINT64_MAX : (UINT64_C(1) << pages) - 1;
    a->base[number] = base;
    a->regions[number] = r;
    region_link(a, (uint32_t)number);
    return 1;
}

/* ---------------------------------------------------------------- pages */

static page *page_at(const htc__arena *a, uint32_t id)
{
    return &a->regions[id >> 6]->pages[id & 63];
}

static void page_link(htc__arena *a, uint32_t id)
{
    page     *p = page_at(a, id);
    uint32_t *head = &a->partial[p->units];
    p->prev = 0;
    p->next = *head;
    if (*head)
        page_at(a, *head)->prev = id;
    *head = id;
}

static void page_unlink(htc__arena *a, uint32_t id)
{
    page *p = page_at(a, id);
    if (p->prev)
        page_at(a, p->prev)->next = p->next;
    else
        a->partial[p->units] = p->next;
    if (p->next)
        page_at(a, p->next)->prev = p->prev;
}

static int page_open(htc__arena *a, uint32_t units)
{
    /* A region whose pages are all taken leaves the list when it is met. */
    while (a->open && a->regions[a->open]->free_pages == 0)
        region_unlink(a, a->open);
    if (!a->open && !region_open(a))
        return 0;
    region  *r = a->regions[a->open];
    uint32_t n = (uint32_t)__builtin_ctzll(r->free_pages);
    if (a->empty == a->open)
        a->empty = 0;
    r->free_pages &= r->free_pages - 1;
    r->pages[n] = (page){ .units = (uint16_t)units };
    page_link(a, a->open << 6 | n);
    return 1;
}

static void region_close(htc__arena *a, uint32_t number)
{
    region *r = a->regions[number];
    region_unlink(a, number);
    htc__budget_give(a->budget, a->base[number], r->count * PAGE_BYTES);
    a->base[number] = NULL;
    r->next = a->vacant;
    a->vacant = number;
}

static void page_close(htc__arena *a, uint32_t id)
{
    uint32_t number = id >> 6;
    region  *r = a->regions[number];
    page_unlink(a, id);
    r->free_pages |= UINT64_C(1) << (id & 63);
    if (!r->listed)
        region_link(a, number);
    /* One empty region stays at hand, or a piece taken and given at the edge would move a region each time. */
    if (!region_empty(r))
        return;
    if (a->empty && a->empty != number)
        region_close(a, number);
    else
        a->empty = number;
}

static void *cell_at(const htc__arena *a, uint32_t id, uint32_t cell)
{
    size_t unit = (size_t)(id & 63) * HTC__ARENA_PAGE_UNITS + (size_t)cell * page_at(a, id)->units;
    return a->base[id >> 6] + unit * HTC__ARENA_UNIT;
}

static uint64_t small_take(htc__arena *a, uint32_t units)
{
    if (!a->partial[units] && !page_open(a, units))
        return 0;
    uint32_t id = a->partial[units], cell;
    page    *p = page_at(a, id);
    if (p->free) {
        cell = p->free - 1u;
        memcpy(&p->free, cell_at(a, id, cell), sizeof p->free);
    } else {
        cell = p->fresh++;
    }
    if (++p->taken == HTC__ARENA_PAGE_UNITS / units)
        page_unlink(a, id);
    return (uint64_t)(id >> 6) << HTC__ARENA_REGION_SHIFT | (uint64_t)(id & 63) * HTC__ARENA_PAGE_UNITS |
           (uint64_t)cell * units;
}

/* The number of the page that a piece lies in. */
static uint32_t page_of(uint64_t ref)
{
    return (uint32_t)(ref >> HTC__ARENA_REGION_SHIFT) << 6 |
           (uint32_t)(ref & ((1u << HTC__ARENA_REGION_SHIFT) - 1)) / HTC__ARENA_PAGE_UNITS;
}

static void small_give(htc__arena *a, uint64_t ref)
{
    uint32_t id = page_of(ref);
    page    *p = page_at(a, id);
    uint32_t cell = (uint32_t)(ref % HTC__ARENA_PAGE_UNITS) / p->units;
    if (p->taken == HTC__ARENA_PAGE_UNITS / p->units)
        page_link(a, id);
    memcpy(cell_at(a, id, cell), &p->free, sizeof p->free);
    p->free = (uint16_t)(cell + 1);
    if (--p->taken == 0)
        page_close(a, id);
}

/* ---------------------------------------------------------------- the env's own pieces */

static uint64_t big_take(htc__arena *a, size_t size)
{
    if (!a->big_free && a->big_fresh == a->big_chunks * CHUNK) {
        if (a->big_chunks == a->big_cap) {
            void **chunks = (void **)a->big;
            if (!grow_pointers(a->budget, &chunks, &a->big_cap, 8))
                return 0;
            a->big = (void ***)chunks;
        }
        void **chunk = htc__budget_take(a->budget, CHUNK * sizeof *chunk);
        if (!chunk)
            return 0;
        a->big[a->big_chunks++] = chunk;
    }
    void *p = htc__budget_take(a->budget, size);
    if (!p)
        return 0;
    uint64_t number = a->big_free ? a->big_free - 1 : a->big_fresh++;
    void   **slot = &a->big[number >> HTC__ARENA_BIG_SHIFT][number & (CHUNK - 1)];
    if (a->big_free)
        a->big_free = (uint64_t)(uintptr_t)*slot;
    *slot = p;
    return HTC__ARENA_BIG | number;
}

static void big_give(htc__arena *a, uint64_t ref, size_t size)
{
    uint64_t number = ref & ~HTC__ARENA_BIG;
    void   **slot = &a->big[number >> HTC__ARENA_BIG_SHIFT][number & (CHUNK - 1)];
    htc__budget_give(a->budget, *slot, size);
    *slot = (void *)(uintptr_t)a->big_free;
    a->big_free = number + 1;
}

/* ---------------------------------------------------------------- pieces */

static uint32_t units_of(size_t size)
{
    return (uint32_t)((size + HTC__ARENA_UNIT - 1) / HTC__ARENA_UNIT);
}

uint64_t htc__arena_take(htc__arena *a, size_t size)
{
    return size > SMALL_MAX ? big_take(a, size) : small_take(a, units_of(size));
}

void htc__arena_give(htc__arena *a, uint64_t ref, size_t size)
{
    if (ref & HTC__ARENA_BIG)
        big_give(a, ref, size);
    else
        small_give(a, ref);
}

int htc__arena_fits(const htc__arena *a, uint64_t ref, size_t before, size_t size)
{
    uint32_t wanted = units_of(size);
    if (ref & HTC__ARENA_BIG || size > SMALL_MAX)
        return before == size;
    if (wanted == units_of(before))
        return 1;
    uint32_t units = page_at(a, page_of(ref))->units;
    return wanted <= units && units - wanted <= 1 + wanted / 16;
}

void htc__arena_init(htc__arena *a, htc__budget *budget)
{
    *a = (htc__arena){ .budget = budget, .count = 1 };
}

void htc__arena_free(htc__arena *a)
{
    for (size_t i = 1; i < a->count; i++) {
        htc__budget_give(a->budget, a->base[i], a->regions[i]->count * PAGE_BYTES);
        htc__budget_give(a->budget, a->regions[i], region_size(a->regions[i]->count));
    }
    for (size_t i = 0; i < a->big_chunks; i++)
        htc__budget_give(a->budget, a->big[i], CHUNK * sizeof **a->big);
    htc__budget_give(a->budget, a->big, a->big_cap * sizeof *a->big);
    htc__budget_give(a->budget, a->base, a->cap * sizeof *a->base);
    htc__budget_give(a->budget, a->regions, a->cap * sizeof *a->regions);
    htc__arena_init(a, a->budget);
}
