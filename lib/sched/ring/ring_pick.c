/* Whose load is lowest: heaps over exact loads, and the choice among those who may stand in a bucket. */
#include <string.h>

#include "core/util.h"
#include "sched/ring/ring_private.h"

static int before(const htc__ring_entry *a, const htc__ring_entry *b)
{
    return a->load != b->load ? a->load < b->load : a->who < b->who;
}

void htc__ring_sink(htc__ring_entry *heap, uint32_t n, uint32_t at)
{
    htc__ring_entry e = heap[at];
    for (size_t child; (child = 2 * (size_t)at + 1) < n; at = (uint32_t)child) {
        if (child + 1 < n && before(&heap[child + 1], &heap[child]))
            child++;
        if (!before(&heap[child], &e))
            break;
        heap[at] = heap[child];
    }
    heap[at] = e;
}

static void rise(htc__ring_entry *heap, uint32_t at)
{
    htc__ring_entry e = heap[at];
    for (; at > 0 && before(&e, &heap[(at - 1) / 2]); at = (at - 1) / 2)
        heap[at] = heap[(at - 1) / 2];
    heap[at] = e;
}

void htc__ring_heap(htc__ring_entry *heap, uint32_t n)
{
    for (uint32_t i = n / 2; i > 0; i--)
        htc__ring_sink(heap, n, i - 1);
}

/* ---- groups ---- */

typedef struct carving {
    htc__ring_entry *members[2], *groups[2];
    uint32_t        *start, *group_of, *chief, *table;
    uint32_t         table_size;
} carving;

/* For n members: entries first, so that everything is aligned. */
static size_t carve(uint8_t *memory, uint32_t n, carving *c)
{
    size_t at = 0;
    c->table_size = 2;
    while (c->table_size < 2 * n)
        c->table_size *= 2;
#define PIECE(field, count) (c->field = memory ? (void *)(memory + at) : NULL, at += (count) * sizeof *c->field)
    PIECE(members[0], (size_t)n);
    PIECE(members[1], (size_t)n);
    PIECE(groups[0], (size_t)n);
    PIECE(groups[1], (size_t)n);
    PIECE(start, (size_t)n + 1);
    PIECE(group_of, (size_t)n);
    PIECE(chief, (size_t)n);
    PIECE(table, (size_t)c->table_size);
#undef PIECE
    return at;
}

static uint32_t slot_of(const htc__ring_seat *s, htc__ring_level level, uint32_t table_size)
{
    uint64_t key = level == HTC__RING_DOMAIN && s->domain != 0 ? s->domain : ~s->process;
    return (uint32_t)((key * UINT64_C(0x9E3779B97F4A7C15)) >> 33) & (table_size - 1);
}

/* The group of a member: an old one, or the next. */
static uint32_t group_of(const htc_ring *r, carving *c, uint32_t seat, htc__ring_level level, uint32_t *groups)
{
    const htc__ring_seat *s = &r->seats[seat];
    int alone = level == HTC__RING_MEMBER || (s->process == 0 && (level == HTC__RING_PROCESS || s->domain == 0));
    if (!alone) {
        uint32_t at = slot_of(s, level, c->table_size);
        for (; c->table[at]; at = (at + 1) & (c->table_size - 1))
            if (htc__ring_same(s, &r->seats[c->chief[c->table[at] - 1]], level))
                return c->table[at] - 1;
        c->table[at] = *groups + 1;
    }
    c->chief[*groups] = seat;
    return (*groups)++;
}

htc_status htc__ring_pickers_reserve(const htc_ring *r, htc__ring_pickers *p)
{
    carving c;
    memset(p, 0, sizeof *p);
    p->env = r->env;
    p->memory_size = carve(NULL, r->members, &c);
    p->memory = htc__alloc(r->env, p->memory_size);
    return p->memory ? HTC_OK : HTC_ENOMEM;
}

void htc__ring_pickers_free(htc__ring_pickers *p)
{
    htc__free(p->env, p->memory, p->memory_size);
}

static uint64_t load_with_one_more(const htc__ring_picker *p, uint32_t seat)
{
    const htc__ring_seat *s = &p->ring->seats[seat];
    return htc__ring_load((uint64_t)(p->by_first ? s->first : s->total) + 1, s->weight);
}

static void fill(htc__ring_picker *p, uint32_t groups)
{
    for (uint32_t i = 0; i < p->start[groups]; i++)
        p->members[i].load = load_with_one_more(p, p->members[i].who);
    for (uint32_t g = 0; g < groups; g++) {
        htc__ring_entry *heap = p->members + p->start[g];
        htc__ring_heap(heap, p->start[g + 1] - p->start[g]);
        p->groups[g] = (htc__ring_entry){ heap->load, g };
    }
    p->n = groups;
    htc__ring_heap(p->groups, groups);
}

void htc__ring_pickers_fill(const htc_ring *r, uint32_t except, htc__ring_pickers *p)
{
    htc__ring_level level = htc__ring_apart(r);
    uint32_t        groups = 0, n = 0;
    carving         c;
    carve(p->memory, r->members, &c);
    for (uint32_t s = 0; s < r->seats_n; s++)
        if (r->seats[s].id != 0 && s != except) {
            uint32_t g = group_of(r, &c, s, level, &groups);
            c.group_of[n++] = g;
            c.start[g]++;
        }
    for (uint32_t g = 0, at = 0; g <= groups; g++) { /* from sizes to ends */
        at += g < groups ? c.start[g] : 0;
        c.start[g] = at;
    }
    for (uint32_t s = r->seats_n; s-- > 0;) /* which turns ends into beginnings */
        if (r->seats[s].id != 0 && s != except)
            c.members[0][--c.start[c.group_of[--n]]].who = s;
    memcpy(c.members[1], c.members[0], c.start[groups] * sizeof *c.members[0]);
    p->first = (htc__ring_picker){ r, c.members[0], c.groups[0], c.start, 0, 1 };
    p->total = (htc__ring_picker){ r, c.members[1], c.groups[1], c.start, 0, 0 };
    fill(&p->first, groups);
    fill(&p->total, groups);
}

/* Bring the top of the heap up to date. */
static void mend(htc__ring_picker *p)
{
    for (;;) {
        uint32_t         g = p->groups[0].who;
        htc__ring_entry *heap = p->members + p->start[g];
        uint64_t         load = load_with_one_more(p, heap->who);
        if (heap->load != load) {
            heap->load = load;
            htc__ring_sink(heap, p->start[g + 1] - p->start[g], 0);
        } else if (p->groups[0].load != load) {
            p->groups[0].load = load;
            htc__ring_sink(p->groups, p->n, 0);
        } else
            return;
    }
}

uint64_t htc__ring_lowest(htc__ring_picker *p)
{
    if (p->n == 0)
        return UINT64_MAX;
    mend(p);
    return p->groups[0].load;
}

uint32_t htc__ring_pick(htc__ring_picker *p, const uint32_t *owners, uint32_t hole)
{
    uint32_t seats[HTC_RING_OWNERS_MAX], found = HTC_RING_NONE, n = p->n;
    memcpy(seats, owners, p->ring->each * sizeof *seats);
    while (p->n > 0 && found == HTC_RING_NONE) {
        mend(p);
        seats[hole] = p->members[p->start[p->groups[0].who]].who;
        if (htc__ring_spread(p->ring, seats)) {
            found = seats[hole];
        } else { /* put aside behind the heap */
            htc__ring_entry aside = p->groups[0];
            p->groups[0] = p->groups[--p->n];
            htc__ring_sink(p->groups, p->n, 0);
            p->groups[p->n] = aside;
        }
    }
    while (p->n < n)
        rise(p->groups, p->n++);
    return found;
}
