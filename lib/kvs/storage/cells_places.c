#include "kvs/storage/cells_places.h"

#include <assert.h>
#include <string.h>

#define REF_MASK        ((UINT64_C(1) << HTC__ARENA_REF_BITS) - 1)
#define HOMES_MIN       64
#define SLACK_MIN       64
#define SLACK_MAX       4096
#define CHUNK_SHIFT_MIN 6
#define CHUNK_SHIFT_MAX 14 /* 128 KiB */
/* Between these the table stays as long as it is. At 0.85 a look-up meets 3.8 slots and a change pushes some 20 on. */
#define LOAD_MAX  0.85
#define LOAD_MIN  0.25
#define LOAD_LAST 0.96 /* as far as it goes while no memory for more is to be had */
#define GROWTH    1.25
#define STEP      48 /* slots looked at for each change; a pass takes place within length / STEP changes */

static uint64_t top_of(uint64_t slot)
{
    return slot >> HTC__ARENA_REF_BITS;
}

static uint64_t home_of(const htc__slots *s, uint64_t top)
{
    return top * s->homes >> HTC__PLACE_BITS; /* there are less than 2^34 homes, as there are references */
}

/* ---------------------------------------------------------------- slots */

static uint64_t *slot_at(const htc__slots *s, uint64_t index)
{
    uint64_t *chunk = index < s->size ? s->chunks[index >> s->shift] : NULL;
    return chunk ? chunk + (index & ((UINT64_C(1) << s->shift) - 1)) : NULL;
}

static uint64_t value_at(const htc__slots *s, uint64_t index)
{
    const uint64_t *slot = slot_at(s, index);
    return slot ? *slot : 0;
}

/* The next slot, which lies beside this one but at the end of a chunk. */
static uint64_t *slot_next(const htc__slots *s, uint64_t *slot, uint64_t *index)
{
    ++*index;
    return *index & ((UINT64_C(1) << s->shift) - 1) ? slot + 1 : slot_at(s, *index);
}

static htc_status chunk_need(htc__slots *s, htc__budget *b, uint64_t index)
{
    size_t n = (size_t)(index >> s->shift), bytes = sizeof(uint64_t) << s->shift;
    if (s->chunks[n])
        return HTC_OK;
    s->chunks[n] = htc__budget_take(b, bytes);
    if (!s->chunks[n])
        return b->why;
    memset(s->chunks[n], 0, bytes);
    return HTC_OK;
}

static void slots_free(htc__slots *s, htc__budget *b)
{
    for (size_t i = 0; i < s->chunks_max; i++)
        htc__budget_give(b, s->chunks[i], sizeof(uint64_t) << s->shift);
    htc__budget_give(b, s->chunks, s->chunks_max * sizeof *s->chunks);
    *s = (htc__slots){ .homes = 0 };
}

static htc_status slots_init(htc__slots *s, htc__budget *b, uint64_t homes)
{
    uint64_t slack = homes / 16 + SLACK_MIN < SLACK_MAX ? homes / 16 + SLACK_MIN : SLACK_MAX;
    *s = (htc__slots){ .homes = homes, .size = homes + slack, .shift = CHUNK_SHIFT_MIN };
    while (s->shift < CHUNK_SHIFT_MAX && (UINT64_C(32) << s->shift) < homes)
        s->shift++;
    s->chunks_max = (size_t)((s->size >> s->shift) + 1);
    s->size = (uint64_t)s->chunks_max << s->shift;
    s->chunks = htc__budget_take(b, s->chunks_max * sizeof *s->chunks);
    if (!s->chunks) {
        *s = (htc__slots){ .homes = 0 };
        return b->why;
    }
    memset(s->chunks, 0, s->chunks_max * sizeof *s->chunks);
    return HTC_OK;
}

/* Put a slot where its place wants it; everything behind it moves on by one up to the next empty slot. */
static htc_status slots_insert(htc__slots *s, htc__budget *b, uint64_t slot)
{
    uint64_t top = top_of(slot), index = home_of(s, top), end, v;
    while ((v = value_at(s, index)) != 0 && top_of(v) <= top)
        index++;
    for (end = index; value_at(s, end) != 0; end++)
        continue;
    if (end >= s->size) {
        b->why = HTC_ENOMEM;
        return HTC_ENOMEM;
    }
    htc_status status = chunk_need(s, b, end);
    if (status != HTC_OK)
        return status;
    for (; end > index; end--)
        *slot_at(s, end) = value_at(s, end - 1);
    *slot_at(s, index) = slot;
    s->used++;
    return HTC_OK;
}

/* Everything behind it moves back by one, up to what stands at its home. */
static void slots_erase(htc__slots *s, uint64_t index)
{
    uint64_t v;
    for (; (v = value_at(s, index + 1)) != 0 && home_of(s, top_of(v)) <= index; index++)
        *slot_at(s, index) = v;
    *slot_at(s, index) = 0;
    assert(s->used > 0);
    s->used--;
}

/* ---------------------------------------------------------------- growth */

/* The first place whose home is at or behind index. */
static uint64_t place_at(const htc__slots *s, uint64_t index)
{
    return ((index << HTC__PLACE_BITS) + s->homes - 1) / s->homes;
}

static htc_status move_begin(htc__places *p, double load)
{
    double     wanted = (double)p->now.used / load;
    htc_status status = slots_init(&p->next, p->budget, wanted < HOMES_MIN ? HOMES_MIN : (uint64_t)wanted);
    if (status != HTC_OK)
        return status;
    p->moving = 1;
    p->at = 0;
    p->frontier = 0;
    return HTC_OK;
}

static void move_end(htc__places *p)
{
    slots_free(&p->now, p->budget);
    p->now = p->next;
    p->next = (htc__slots){ .homes = 0 };
    p->moving = 0;
}

/* Some slots further, and on to an empty one: whatever has its home before an empty slot stands before it as well, so
 * that the table is cut where no look-up crosses. A refused chunk ends the step at the last such cut. */
static htc_status move_step(htc__places *p, uint64_t slots)
{
    htc__slots *now = &p->now;
    uint64_t    from = p->at, until = from + slots, end = from, v;
    while (end < now->size && (end < until || value_at(now, end) != 0))
        end++;
    /* Behind the empty slot, where the next home begins. */
    end = end < now->size ? end + 1 : now->size;
    for (uint64_t i = from; i < end; i++) {
        if ((v = value_at(now, i)) == 0)
            continue;
        if (slots_insert(&p->next, p->budget, v) != HTC_OK) {
            /* Take back what this step has moved: it is still in its old slots. */
            for (uint64_t j = from; j < i; j++) {
                if ((v = value_at(now, j)) == 0)
                    continue;
                uint64_t k = home_of(&p->next, top_of(v));
                while (value_at(&p->next, k) != v)
                    k++;
                slots_erase(&p->next, k);
                now->used++;
            }
            return p->budget->why;
        }
        assert(now->used > 0);
        now->used--;
    }
    for (uint64_t c = from >> now->shift; c < end >> now->shift; c++) {
        htc__budget_give(p->budget, now->chunks[c], sizeof(uint64_t) << now->shift);
        now->chunks[c] = NULL;
    }
    p->at = end;
    if (end >= now->homes)
        move_end(p);
    else
        p->frontier = place_at(now, end);
    return HTC_OK;
}

void htc__places_settle(htc__places *p)
{
    if (p->moving)
        (void)move_step(p, STEP);
    else if (p->now.homes > HOMES_MIN && (double)p->now.used < LOAD_MIN * (double)p->now.homes)
        (void)move_begin(p, LOAD_MAX / GROWTH / GROWTH);
}

htc_status htc__places_reserve(htc__places *p)
{
    htc_status status = HTC_OK;
    if (!p->now.homes)
        return slots_init(&p->now, p->budget, HOMES_MIN);
    if (!p->moving && (double)(p->now.used + 1) > LOAD_MAX * (double)p->now.homes)
        status = move_begin(p, LOAD_MAX / GROWTH);
    if (p->moving)
        status = move_step(p, STEP);
    /* Without memory to grow it goes on for a while. */
    uint64_t left = p->now.homes - (p->moving ? p->at : 0);
    return status != HTC_OK && (double)p->now.used >= LOAD_LAST * (double)left ? status : HTC_OK;
}

/* ---------------------------------------------------------------- look-ups */

static htc__slots *slots_of(const htc__places *p, uint64_t top)
{
    return (htc__slots *)(uintptr_t)(p->moving && top < p->frontier ? &p->next : &p->now);
}

static uint64_t seek(htc__spot *spot, uint64_t top)
{
    while (spot->slot && *spot->slot && top_of(*spot->slot) < top)
        spot->slot = slot_next(spot->slots, spot->slot, &spot->index);
    return spot->slot && *spot->slot && top_of(*spot->slot) == top ? *spot->slot & REF_MASK : 0;
}

uint64_t htc__places_first(htc__places *p, uint64_t place, htc__spot *spot)
{
    uint64_t top = htc__place_top(place);
    spot->slots = slots_of(p, top);
    if (!spot->slots->homes)
        return 0;
    spot->index = home_of(spot->slots, top);
    spot->slot = slot_at(spot->slots, spot->index);
    return seek(spot, top);
}

uint64_t htc__places_again(uint64_t place, htc__spot *spot)
{
    spot->slot = slot_next(spot->slots, spot->slot, &spot->index);
    return seek(spot, htc__place_top(place));
}

htc_status htc__places_insert(htc__places *p, uint64_t place, uint64_t ref)
{
    uint64_t top = htc__place_top(place);
    return slots_insert(slots_of(p, top), p->budget, top << HTC__ARENA_REF_BITS | ref);
}

void htc__places_replace(htc__spot *spot, uint64_t ref)
{
    *spot->slot = (*spot->slot & ~REF_MASK) | ref;
}

void htc__places_erase(htc__places *p, htc__spot *spot)
{
    (void)p;
    slots_erase(spot->slots, spot->index);
}

void htc__places_hint(const htc__places *p, uint64_t place)
{
    uint64_t          top = htc__place_top(place);
    const htc__slots *s = slots_of(p, top);
    if (s->homes)
        __builtin_prefetch(slot_at(s, home_of(s, top)));
}

static int walk_slots(const htc__slots *s, uint64_t index, uint64_t from, uint64_t to, htc__places_visit visit,
                      void *ctx)
{
    uint64_t last = home_of(s, to); /* behind it and behind an empty slot there is none */
    for (; index < s->size; index++) {
        uint64_t v = value_at(s, index), top = top_of(v);
        if (!v || top < from) {
            if (!v && index >= last)
                return 1;
            if (!s->chunks[index >> s->shift])
                index |= (UINT64_C(1) << s->shift) - 1;
            continue;
        }
        if (top > to)
            return 1;
        if (!visit(ctx, top, v & REF_MASK))
            return 0;
    }
    return 1;
}

int htc__places_walk(const htc__places *p, uint64_t from, uint64_t to, htc__places_visit visit, void *ctx)
{
    uint64_t most = (UINT64_C(1) << HTC__PLACE_BITS) - 1;
    to = to < most ? to : most;
    if (!p->now.homes || from > to)
        return 1;
    if (p->moving && from < p->frontier) {
        uint64_t last = to < p->frontier ? to : p->frontier - 1;
        if (!walk_slots(&p->next, home_of(&p->next, from), from, last, visit, ctx))
            return 0;
        from = p->frontier;
    }
    return from > to || walk_slots(&p->now, home_of(&p->now, from), from, to, visit, ctx);
}

void htc__places_init(htc__places *p, htc__budget *budget)
{
    *p = (htc__places){ .budget = budget };
}

void htc__places_free(htc__places *p)
{
    slots_free(&p->now, p->budget);
    slots_free(&p->next, p->budget);
}

size_t htc__places_count(const htc__places *p)
{
    return p->now.used + p->next.used;
}
