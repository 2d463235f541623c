/* DxHash: a walk over unit slots, for those who cannot ship a table (DxHash, arXiv 2107.07930; doc/papers.md). */
#include "htcsched/ring.h"

/* A walk is cut off after this many times the number of slots; then the slots are gone through in order. */
#define WALK_FACTOR 8

typedef struct walk {
    const uint32_t *slots;
    uint64_t        state, left;
    uint32_t        mask;
} walk;

static walk walk_of(const uint32_t *slots, uint32_t bits, uint64_t hash)
{
    uint64_t n = (uint64_t)1 << bits;
    return (walk){ slots, hash, (WALK_FACTOR + 1) * n, (uint32_t)(n - 1) };
}

/* The next number of the walk that is a member's; HTC_RING_NONE at its end. */
static uint32_t step(walk *w)
{
    uint64_t in_order = (uint64_t)w->mask + 1;
    while (w->left > 0) {
        uint32_t slot;
        w->left--;
        if (w->left >= in_order) {
            /* The stream SplitMix64 that begins at the hash. */
            htc_rng rng = { w->state };
            slot = (uint32_t)(htc_rng_next(&rng) >> 32) & w->mask;
            w->state = rng.state;
        } else
            slot = (uint32_t)w->left;
        if (w->slots[slot] != HTC_RING_NONE)
            return w->slots[slot];
    }
    return HTC_RING_NONE;
}

uint32_t htc_ring_dx_find(const uint32_t *slots, uint32_t bits, uint64_t hash)
{
    if (!slots || bits > HTC_RING_DX_BITS_MAX)
        return HTC_RING_NONE;
    walk w = walk_of(slots, bits, hash);
    return step(&w);
}

uint32_t htc_ring_dx_owners(const uint32_t *slots, uint32_t bits, uint64_t hash, uint32_t n, uint32_t *owners)
{
    uint32_t found = 0;
    if (!slots || !owners || bits > HTC_RING_DX_BITS_MAX || n == 0 || n > HTC_RING_OWNERS_MAX)
        return 0;
    walk w = walk_of(slots, bits, hash);
    for (uint32_t member; found < n && (member = step(&w)) != HTC_RING_NONE;) {
        uint32_t k = 0;
        while (k < found && owners[k] != member)
            k++;
        if (k == found)
            owners[found++] = member;
    }
    return found;
}

htc_status htc_ring_dx_set(uint32_t *slots, uint32_t bits, uint32_t member, uint32_t units)
{
    uint32_t held = 0, empty = 0;
    if (!slots || bits > HTC_RING_DX_BITS_MAX || member == HTC_RING_NONE)
        return HTC_EINVAL;
    uint32_t n = (uint32_t)1 << bits;
    for (uint32_t i = 0; i < n; i++) {
        held += slots[i] == member;
        empty += slots[i] == HTC_RING_NONE;
    }
    if (units > held && units - held > empty)
        return HTC_EFULL;
    for (uint32_t i = 0; held < units; i++)
        if (slots[i] == HTC_RING_NONE) {
            slots[i] = member;
            held++;
        }
    for (uint32_t i = n; held > units; i--)
        if (slots[i - 1] == member) {
            slots[i - 1] = HTC_RING_NONE;
            held--;
        }
    return HTC_OK;
}
