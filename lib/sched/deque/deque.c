/* The deque's public door: options, memory, wrong use. What threads do to each other is in deque_core.h. */
#include <string.h>

#include "core/util.h"
#include "sched/deque/deque_core.h"
#include "sched/deque/deque_private.h"

#define CAPACITY_DEFAULT     UINT64_C(256)
#define CAPACITY_MAX_DEFAULT (UINT64_C(1) << 20)

/* ---- memory ---- */

/* Zeroed memory at a multiple of a block; *memory is what to free. */
static void *alloc_block(const htc_env *env, size_t size, void **memory)
{
    *memory = htc__alloc(env, size + DEQUE_BLOCK_BYTES);
    if (!*memory)
        return NULL;
    uintptr_t behind = (uintptr_t)*memory % DEQUE_BLOCK_BYTES;
    return (char *)*memory + (behind ? DEQUE_BLOCK_BYTES - behind : 0);
}

/* The ring's head has a block to itself: thieves read it, and the owner writes the slots. */
static size_t ring_bytes(uint64_t slots)
{
    return DEQUE_BLOCK_BYTES + (size_t)slots * sizeof(deque_slot);
}

static deque_ring *ring_create(const htc_env *env, uint64_t slots)
{
    void       *memory;
    deque_ring *ring = slots > SIZE_MAX / 2 / sizeof(deque_slot) ? NULL : alloc_block(env, ring_bytes(slots), &memory);
    if (!ring)
        return NULL;
    ring->mask = slots - 1;
    ring->slots = (deque_slot *)((char *)ring + DEQUE_BLOCK_BYTES);
    ring->memory = memory;
    return ring;
}

static void ring_destroy(const htc_env *env, deque_ring *ring)
{
    htc__free(env, ring->memory, ring_bytes(ring->mask + 1) + DEQUE_BLOCK_BYTES);
}

static uint64_t power_of_two(uint64_t at_least)
{
    uint64_t power = 1;
    while (power < at_least)
        power *= 2;
    return power;
}

/* Free slots, or a larger ring, until there is room for n more. HTC_OK: there is room for at least one. */
DEQUE_COLD static htc_status make_room(htc_deque *d, uint64_t n)
{
    deque_collect(d, n);
    if (deque_room(d) >= n)
        return HTC_OK;
    uint64_t slots = d->mask + 1, used = ATOMIC_GET(&d->bottom, relaxed) - d->safe;
    int      refused = 0;
    if (slots < d->capacity_max) {
        uint64_t    want = n < d->capacity_max - used ? used + n : d->capacity_max;
        deque_ring *ring = ring_create(d->env, power_of_two(want > slots ? want : slots + 1));
        refused = !ring;
        if (ring) {
            ring->older = ATOMIC_GET(&d->ring, relaxed);
            deque_grow(d, ring);
        }
    }
    if (deque_room(d) > 0)
        return HTC_OK;
    return refused ? HTC_ENOMEM : d->unsettled ? HTC_AGAIN : HTC_EFULL;
}

/* ---- creation ---- */

void htc_deque_options_init(htc_deque_options *options, size_t size)
{
    htc__options_init(options, size);
}

/* Options with every default filled in. */
static htc_status options_of(const htc_deque_options *options, htc_deque_options *o)
{
    uint64_t most = HTC_DEQUE_CAPACITY_MAX < DEQUE_RING_MAX ? HTC_DEQUE_CAPACITY_MAX : DEQUE_RING_MAX;
    *o = (htc_deque_options){ 0 };
    if (options) {
        htc_status status = htc__options_copy(o, sizeof *o, options, options->size, sizeof o->size);
        if (status != HTC_OK)
            return status;
    }
    if (o->capacity > most || o->capacity_max > most || (o->capacity_max > 0 && o->capacity > o->capacity_max))
        return HTC_EINVAL;
    if (o->capacity_max == 0)
        o->capacity_max = o->capacity > CAPACITY_MAX_DEFAULT ? o->capacity : CAPACITY_MAX_DEFAULT;
    if (o->capacity_max > most)
        o->capacity_max = most;
    if (o->capacity == 0)
        o->capacity = o->capacity_max < CAPACITY_DEFAULT ? o->capacity_max : CAPACITY_DEFAULT;
    return HTC_OK;
}

htc_status htc__deque_create_at(const htc_env *env, const htc_deque_options *options, uint64_t start, htc_deque **out)
{
    htc_deque_options o;
    void             *memory;
    if (!out)
        return HTC_EINVAL;
    htc_status status = options_of(options, &o);
    if (status != HTC_OK)
        return status;
    deque_ring *ring = ring_create(env, power_of_two(o.capacity));
    htc_deque  *d = ring ? alloc_block(env, sizeof *d, &memory) : NULL;
    if (!d) {
        if (ring)
            ring_destroy(env, ring);
        return HTC_ENOMEM;
    }
    d->env = env;
    d->memory = memory;
    deque_begin(d, ring, o.capacity_max, start);
    *out = d;
    return HTC_OK;
}

htc_status htc_deque_create(const htc_env *env, const htc_deque_options *options, htc_deque **out)
{
    return htc__deque_create_at(env, options, 0, out);
}

void htc_deque_destroy(htc_deque *deque)
{
    if (!deque)
        return;
    for (deque_ring *ring = ATOMIC_GET(&deque->ring, relaxed), *older; ring; ring = older) {
        older = ring->older;
        ring_destroy(deque->env, ring);
    }
    htc__free(deque->env, deque->memory, sizeof *deque + DEQUE_BLOCK_BYTES);
}

/* ---- the owner ---- */

/* A wish of gcc's, for programs that link this layer with optimisation across files; clang inlines by itself, and warns. */
#ifdef __clang__
#define ACROSS_FILES
#else
#define ACROSS_FILES inline
#endif

ACROSS_FILES htc_status htc_deque_push(htc_deque *deque, void *item)
{
    if (!DEQUE_LIKELY(deque))
        return HTC_EINVAL;
    if (DEQUE_LIKELY(deque_push(deque, item)))
        return HTC_OK;
    htc_status status = make_room(deque, 1);
    if (status == HTC_OK)
        deque_push(deque, item);
    return status;
}

ACROSS_FILES htc_status htc_deque_pop(htc_deque *deque, void **item)
{
    if (!DEQUE_LIKELY(deque && item))
        return HTC_EINVAL;
    return deque_pop(deque, item) ? HTC_OK : HTC_EMPTY;
}

htc_status htc_deque_expose(htc_deque *deque)
{
    if (!deque)
        return HTC_EINVAL;
    deque_expose(deque);
    return HTC_OK;
}

/* ---- thieves ---- */

ACROSS_FILES htc_status htc_deque_steal(htc_deque *victim, void **item)
{
    if (!DEQUE_LIKELY(victim && item))
        return HTC_EINVAL;
    int got = deque_steal(victim, item);
    return got > 0 ? HTC_OK : got < 0 ? HTC_AGAIN : HTC_EMPTY;
}

htc_status htc_deque_steal_half(htc_deque *victim, htc_deque *own, size_t max, size_t *taken)
{
    if (!victim || !own || victim == own || max == 0)
        return HTC_EINVAL;
    deque_word w = deque_look(victim);
    uint64_t   n = deque_half(victim, w);
    n = n < max ? n : max;
    if (n > deque_room(own)) {
        htc_status status = make_room(own, n);
        if (status != HTC_OK)
            return status;
        /* That took its time. */
        w = deque_look(victim);
        n = deque_half(victim, w);
        n = n < max ? n : max;
        n = n < deque_room(own) ? n : deque_room(own);
    }
    if (n == 0) {
        deque_ask(victim);
        return HTC_EMPTY;
    }
    deque_expect(victim, w, n);
    if (!deque_claim(victim, w, n))
        return HTC_AGAIN;
    deque_move(victim, w, n, own);
    if (taken)
        *taken = n;
    return HTC_OK;
}

htc_status htc_deque_steal_half_out(htc_deque *victim, size_t max, void **items, size_t *taken)
{
    if (!victim || max == 0 || !items || !taken)
        return HTC_EINVAL;
    deque_word w = deque_look(victim);
    uint64_t   n = deque_half(victim, w);
    n = n < max ? n : max;
    if (n == 0) {
        deque_ask(victim);
        return HTC_EMPTY;
    }
    deque_expect(victim, w, n);
    if (!deque_claim(victim, w, n))
        return HTC_AGAIN;
    deque_ring *ring = deque_claimed_in(victim);
    for (uint64_t i = 0; i < n; i++)
        items[i] = deque_claimed_item(ring, w, i);
    deque_copied(victim, w, n);
    *taken = n;
    return HTC_OK;
}

/* ---- anybody ---- */

size_t htc_deque_size(const htc_deque *deque)
{
    return deque ? deque_all(deque, deque_look(deque)) : 0;
}

size_t htc_deque_size_public(const htc_deque *deque)
{
    return deque ? word_public(deque_look(deque)) : 0;
}
