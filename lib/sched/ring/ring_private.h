/* What the files of the ring share: the table, the order of loads, and who may stand beside whom. */
#ifndef HTC_SCHED_RING_PRIVATE_H
#define HTC_SCHED_RING_PRIVATE_H

#include "htcsched/ring.h"

typedef struct htc__ring_seat {
    uint64_t id; /* 0: nobody sits here */
    uint64_t process, domain;
    uint32_t weight;
    uint32_t changed; /* epoch of the last change of which member is here and of its weight */
    uint32_t first, total;
} htc__ring_seat;

struct htc_ring {
    const htc_env *env;
    /* The table by rank: all first owners, then all second ones, ... so that a lookup touches the smallest memory there
     * is. A cell is a seat in width bytes, low byte first. */
    uint8_t  *cells;
    size_t    width;
    uint32_t  seat_mask; /* what of four bytes is the cell */
    uint32_t  shift;     /* 64 - bits */
    uint32_t  bits;
    uint32_t  each;      /* n = min(wanted, members): owners that every bucket has */
    uint32_t  domains;   /* what a bucket's owners are spread over: min(n, D) domains */
    uint32_t  processes; /* and min(n, P) processes */
    uint32_t  wanted;    /* N */
    uint32_t  members, members_max;
    uint32_t  epoch;
    uint32_t *changed; /* by bucket: the epoch of its last change */

    htc__ring_seat *seats;
    uint32_t        seats_n, seats_cap;
    uint32_t       *index; /* open addressing by id: seat + 1, 0 is empty; never more than half full */
    uint32_t        index_cap;
};

/* ---- the table ---- */

static inline uint32_t htc__ring_mask(const htc_ring *r)
{
    return ((uint32_t)1 << r->bits) - 1;
}

static inline uint8_t *htc__ring_cell(const htc_ring *r, uint32_t rank, uint32_t bucket)
{
    return r->cells + (((size_t)rank << r->bits) + bucket) * r->width;
}

/* Four bytes are read at once, whatever the width: the table ends with some to spare. */
static inline uint32_t htc__ring_get(const htc_ring *r, uint32_t rank, uint32_t bucket)
{
    const uint8_t *p = htc__ring_cell(r, rank, bucket);
    uint32_t       four = (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
    return four & r->seat_mask;
}

static inline void htc__ring_put(htc_ring *r, uint32_t rank, uint32_t bucket, uint32_t seat)
{
    uint8_t *p = htc__ring_cell(r, rank, bucket);
    p[0] = (uint8_t)seat;
    p[1] = (uint8_t)(seat >> 8);
    if (r->width == 3)
        p[2] = (uint8_t)(seat >> 16);
}

static inline void htc__ring_owners(const htc_ring *r, uint32_t bucket, uint32_t *owners)
{
    for (uint32_t k = 0; k < r->each; k++)
        owners[k] = htc__ring_get(r, k, bucket);
}

/* ---- loads ---- */

/* count / weight as a number that can be compared: different quotients of weights below 2^16 are more than 2^-32 apart,
 * so equal numbers are equal quotients and the order is exact. */
static inline uint64_t htc__ring_load(uint64_t count, uint32_t weight)
{
    return (count << 32) / weight;
}

/* ---- who may stand beside whom ---- */

static inline int htc__ring_same_process(const htc__ring_seat *a, const htc__ring_seat *b)
{
    return a == b || (a->process != 0 && a->process == b->process);
}

static inline int htc__ring_same_domain(const htc__ring_seat *a, const htc__ring_seat *b)
{
    if (a->domain != 0 || b->domain != 0)
        return a->domain == b->domain;
    return htc__ring_same_process(a, b);
}

/* What no two owners of a bucket share, the widest there are enough of. */
typedef enum htc__ring_level { HTC__RING_MEMBER, HTC__RING_PROCESS, HTC__RING_DOMAIN, HTC__RING_ALL } htc__ring_level;

static inline htc__ring_level htc__ring_apart(const htc_ring *r)
{
    return r->domains == r->each ? HTC__RING_DOMAIN : r->processes == r->each ? HTC__RING_PROCESS : HTC__RING_MEMBER;
}

static inline int htc__ring_same(const htc__ring_seat *a, const htc__ring_seat *b, htc__ring_level level)
{
    switch (level) {
    case HTC__RING_ALL:
        return 1;
    case HTC__RING_DOMAIN:
        return htc__ring_same_domain(a, b);
    case HTC__RING_PROCESS:
        return htc__ring_same_process(a, b);
    case HTC__RING_MEMBER:
        break;
    }
    return a == b;
}

/* 1 if the owners of a bucket are distinct and as far apart as this ring demands. */
int htc__ring_spread(const htc_ring *r, const uint32_t *owners);
/* Set what a bucket has to be spread over, by the members without the one on seat except. */
void htc__ring_demand(htc_ring *r, uint32_t except);

/* ---- members ---- */

htc_status htc__ring_member_check(const htc_ring *r, const htc_ring_member *m);
/* Room for one more seat and for n members in the index. */
htc_status htc__ring_reserve(htc_ring *r, uint32_t seats, uint32_t members);
/* Put a checked member on a seat that is empty and reserved. */
void htc__ring_sit(htc_ring *r, uint32_t seat, const htc_ring_member *m);
void htc__ring_index_add(htc_ring *r, uint32_t seat);
void htc__ring_index_remove(htc_ring *r, uint32_t seat);
/* Count what everybody owns from the table. */
void htc__ring_recount(htc_ring *r);
/* An empty ring in epoch 0. Options are checked and without defaults. */
htc_status htc__ring_new(const htc_env *env, const htc_ring_options *options, htc_ring **out);
/* Take over what other has and free what is left of it; both have the same options. Keeps ring's env and needs other's
 * to be equal. */
void htc__ring_become(htc_ring *ring, htc_ring *other);
/* Fill the table of a new ring whose members sit. */
htc_status htc__ring_lay(htc_ring *r);

/* ---- picking by load (ring_pick.c) ---- */

typedef struct htc__ring_entry {
    uint64_t load;
    uint32_t who;
} htc__ring_entry;

/* Heaps with the lowest load on top; equal ones by number. */
void htc__ring_sink(htc__ring_entry *heap, uint32_t n, uint32_t at);
void htc__ring_heap(htc__ring_entry *heap, uint32_t n);

/* Who would have the lowest load with one more: a heap of groups that must stay apart, each a heap of its members, so
 * that a bucket whose racks are forbidden costs a step for each of them and not one for each of their members. Loads
 * only grow while it is used, so an entry that is out of date is too low and is mended when it comes to the top. */
typedef struct htc__ring_picker {
    const htc_ring  *ring;
    htc__ring_entry *members, *groups;
    uint32_t        *start; /* members of group g: start[g] to start[g + 1] */
    uint32_t         n;     /* groups in the heap */
    int              by_first;
} htc__ring_picker;

/* Scratch for two pickers over one grouping. */
typedef struct htc__ring_pickers {
    htc__ring_picker first, total;
    const htc_env   *env;
    void            *memory;
    size_t           memory_size;
} htc__ring_pickers;

/* Memory for the members there are now; nothing else can fail later. */
htc_status htc__ring_pickers_reserve(const htc_ring *r, htc__ring_pickers *p);
/* Everybody but the one on seat except. */
void htc__ring_pickers_fill(const htc_ring *r, uint32_t except, htc__ring_pickers *p);
void htc__ring_pickers_free(htc__ring_pickers *p);
/* The lowest load anybody would have with one more; UINT64_MAX if there is nobody. */
uint64_t htc__ring_lowest(htc__ring_picker *p);
/* The one with the lowest load who may stand at rank hole of these owners; HTC_RING_NONE if nobody may. */
uint32_t htc__ring_pick(htc__ring_picker *p, const uint32_t *owners, uint32_t hole);

/* ---- changes of membership (ring_grow.c, ring_shrink.c) ---- */

/* A change under way. Whatever can fail has happened before the first cell is written. */
typedef struct htc__ring_change {
    htc_ring *r;
    uint32_t  m;     /* the seat it is about */
    uint32_t  start; /* where walks over the buckets begin, and how they go on: another way for each change */
    uint32_t  step;
} htc__ring_change;

static inline htc__ring_seat *htc__ring_sitting(const htc__ring_change *c)
{
    return &c->r->seats[c->m];
}

/* The i-th bucket of a walk: some in a row, then a step to another row, by an odd number of rows that is drawn for each
 * change. What a member takes lies all over the table then, and the next walk, which looks for a bucket of that member, finds
 * it soon. */
enum { HTC__RING_ROW = 64 };

static inline uint32_t htc__ring_bucket_of(const htc__ring_change *c, uint32_t i)
{
    return (c->start + i / HTC__RING_ROW * c->step + i % HTC__RING_ROW) & htc__ring_mask(c->r);
}

/* The owner at this rank goes, seat comes in its place. */
void htc__ring_exchange(const htc__ring_change *c, uint32_t bucket, uint32_t rank, uint32_t seat);
/* The owner at this rank becomes the first, and the former first takes its place. */
void htc__ring_promote(const htc__ring_change *c, uint32_t bucket, uint32_t rank);
/* The first bucket of the walk from the i-th on where m is at this rank; 2^k if there is none. */
uint32_t htc__ring_next_of(const htc__ring_change *c, uint32_t rank, uint32_t i);

/* What a member that grows is given, and room to find it out. */
typedef struct htc__ring_gifts {
    uint32_t        *give; /* by seat */
    htc__ring_entry *heap;
    size_t           seats;
    uint32_t         wanted;
    uint64_t         level; /* the highest load when all is given */
} htc__ring_gifts;

htc_status htc__ring_gifts_reserve(const htc_ring *r, htc__ring_gifts *g);
void       htc__ring_gifts_free(const htc_ring *r, htc__ring_gifts *g);
/* Fewer members than owners wanted: m comes last everywhere. */
void htc__ring_enter_all(const htc__ring_change *c);
/* A new domain or process where there were too few: every bucket must have it. */
void htc__ring_enter_each(const htc__ring_change *c);
/* m takes what its weight demands. */
void htc__ring_grow(const htc__ring_change *c, htc__ring_gifts *g);

/* No more members than owners wanted: m goes from everywhere, the others move up. */
void htc__ring_exit_all(const htc__ring_change *c);
/* m gives what its weight no longer demands, all of it if it leaves. */
void htc__ring_shrink(const htc__ring_change *c, htc__ring_pickers *p, int leaves);

#endif
