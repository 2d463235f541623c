/* Partitions by their count of free nodes.
 *
 * Counts are small numbers, so this is no tree of comparisons: for each count there is a ring of the partitions that
 * have it, and above the counts a tree of 64-way words, in which a bit says that something is below. Four levels of it
 * reach 2^20, and the next count with a partition is found by looking at no more than one word of each on the way up
 * and one on the way down. Rings and words grow with the largest count seen. */
#include <assert.h>
#include <string.h>

#include "core/util.h"
#include "sched/balance/balance_private.h"

#define LEVELS 4
#define NOBODY UINT32_MAX /* no partition; also the count of a partition that is not in the tree */

typedef struct place {
    uint32_t next, before; /* in the ring of its count */
    uint32_t free;
} place;

struct htc_balance_tree {
    const htc_env *env;
    place         *places; /* of each partition */
    uint32_t       partitions;
    uint32_t       inside;
    uint32_t      *first; /* of each count, the partition that came first; NOBODY */
    size_t         counts;
    uint64_t      *bits[LEVELS]; /* bit i of a level: there is something in word i of the level below, or at count i */
    size_t         words[LEVELS];
};

/* ---- The words above the counts ---- */

static void mark(htc_balance_tree *t, uint32_t count)
{
    for (int level = 0; level < LEVELS; level++) {
        t->bits[level][count / 64] |= UINT64_C(1) << count % 64;
        count /= 64;
    }
}

static void unmark(htc_balance_tree *t, uint32_t count)
{
    for (int level = 0; level < LEVELS; level++) {
        t->bits[level][count / 64] &= ~(UINT64_C(1) << count % 64);
        if (t->bits[level][count / 64])
            return;
        count /= 64;
    }
}

/* The lowest count from `count` on that has a partition. */
static uint32_t at_least(const htc_balance_tree *t, uint64_t count)
{
    for (int level = 0; level < LEVELS && count / 64 < t->words[level]; level++) {
        uint64_t w = t->bits[level][count / 64] & UINT64_MAX << count % 64;
        if (w) {
            count = count / 64 * 64 + (uint64_t)__builtin_ctzll(w);
            while (level-- > 0)
                count = 64 * count + (uint64_t)__builtin_ctzll(t->bits[level][count]);
            return (uint32_t)count;
        }
        count = count / 64 + 1;
    }
    return NOBODY;
}

static uint32_t highest(const htc_balance_tree *t)
{
    uint64_t count = 0;
    if (t->inside == 0)
        return NOBODY;
    for (int level = LEVELS; level-- > 0;)
        count = 64 * count + 63 - (uint64_t)__builtin_clzll(t->bits[level][count]);
    return (uint32_t)count;
}

/* Room for this count. Levels that have grown when another cannot are harmless. */
htc_status htc__balance_tree_reserve(htc_balance_tree *t, uint32_t count)
{
    size_t counts = t->counts ? t->counts : 64;
    if (count < t->counts)
        return HTC_OK;
    while (counts <= count)
        counts *= 2;
    size_t words = counts;
    for (int level = 0; level < LEVELS; level++) {
        words = (words + 63) / 64;
        if (words <= t->words[level])
            continue;
        uint64_t *grown = htc__resize(t->env, t->bits[level], t->words[level] * sizeof *grown, words * sizeof *grown);
        if (!grown)
            return HTC_ENOMEM;
        t->bits[level] = grown;
        t->words[level] = words;
    }
    uint32_t *first = htc__resize(t->env, t->first, t->counts * sizeof *first, counts * sizeof *first);
    if (!first)
        return HTC_ENOMEM;
    for (size_t i = t->counts; i < counts; i++)
        first[i] = NOBODY;
    t->first = first;
    t->counts = counts;
    return HTC_OK;
}

/* ---- Rings ---- */

static void put_in(htc_balance_tree *t, uint32_t partition, uint32_t free)
{
    place   *p = &t->places[partition];
    uint32_t first = t->first[free];
    *p = (place){ partition, partition, free };
    if (first == NOBODY) {
        t->first[free] = partition;
        mark(t, free);
    } else {
        place *f = &t->places[first];
        p->next = first;
        p->before = f->before;
        t->places[f->before].next = partition;
        f->before = partition;
    }
    t->inside++;
}

static void take_out(htc_balance_tree *t, uint32_t partition)
{
    place *p = &t->places[partition];
    if (p->next == partition) {
        t->first[p->free] = NOBODY;
        unmark(t, p->free);
    } else {
        t->places[p->next].before = p->before;
        t->places[p->before].next = p->next;
        if (t->first[p->free] == partition)
            t->first[p->free] = p->next;
    }
    p->free = NOBODY;
    assert(t->inside > 0);
    t->inside--;
}

/* ---- Outside ---- */

htc_status htc_balance_tree_create(const htc_env *env, uint32_t partitions, htc_balance_tree **out)
{
    if (partitions == 0 || partitions > HTC_BALANCE_PARTITIONS_MAX || !out)
        return HTC_EINVAL;
    htc_balance_tree *t = htc__alloc(env, sizeof *t);
    if (!t)
        return HTC_ENOMEM;
    t->env = env;
    t->partitions = partitions;
    t->places = htc__alloc(env, partitions * sizeof *t->places);
    if (!t->places || htc__balance_tree_reserve(t, 0) != HTC_OK) {
        htc_balance_tree_destroy(t);
        return HTC_ENOMEM;
    }
    for (uint32_t i = 0; i < partitions; i++)
        t->places[i].free = NOBODY;
    *out = t;
    return HTC_OK;
}

void htc_balance_tree_destroy(htc_balance_tree *tree)
{
    if (!tree)
        return;
    for (int level = 0; level < LEVELS; level++)
        htc__free(tree->env, tree->bits[level], tree->words[level] * sizeof *tree->bits[level]);
    htc__free(tree->env, tree->first, tree->counts * sizeof *tree->first);
    htc__free(tree->env, tree->places, tree->partitions * sizeof *tree->places);
    htc__free(tree->env, tree, sizeof *tree);
}

htc_status htc_balance_tree_set(htc_balance_tree *tree, uint32_t partition, uint32_t free)
{
    if (!tree || partition >= tree->partitions || free > HTC_BALANCE_FREE_MAX)
        return HTC_EINVAL;
    if (tree->places[partition].free == free)
        return HTC_OK;
    htc_status status = htc__balance_tree_reserve(tree, free);
    if (status != HTC_OK)
        return status;
    if (tree->places[partition].free != NOBODY)
        take_out(tree, partition);
    put_in(tree, partition, free);
    return HTC_OK;
}

htc_status htc_balance_tree_remove(htc_balance_tree *tree, uint32_t partition)
{
    if (!tree || partition >= tree->partitions)
        return HTC_EINVAL;
    if (tree->places[partition].free == NOBODY)
        return HTC_ENOTFOUND;
    take_out(tree, partition);
    return HTC_OK;
}

void htc__balance_tree_enter(htc_balance_tree *tree, uint32_t partition, uint32_t free)
{
    assert(free < tree->counts && tree->places[partition].free == NOBODY);
    put_in(tree, partition, free);
}

void htc_balance_tree_clear(htc_balance_tree *tree)
{
    if (!tree || tree->inside == 0)
        return;
    for (uint32_t i = 0; i < tree->partitions; i++) { /* there may be far fewer of them than counts */
        uint32_t count = tree->places[i].free;
        if (count == NOBODY)
            continue;
        tree->places[i].free = NOBODY;
        tree->first[count] = NOBODY;
        for (int level = 0; level < LEVELS && tree->bits[level][count / 64]; level++) {
            count /= 64;
            tree->bits[level][count] = 0;
        }
    }
    tree->inside = 0;
}

htc_status htc_balance_tree_best(const htc_balance_tree *tree, uint64_t need, uint32_t *partition, uint32_t *free)
{
    if (!tree || need == 0 || !partition)
        return HTC_EINVAL;
    uint32_t count = at_least(tree, need);
    if (count == NOBODY)
        count = highest(tree);
    if (count == NOBODY || count == 0)
        return HTC_AGAIN;
    *partition = tree->first[count];
    if (free)
        *free = count;
    return HTC_OK;
}

htc_status htc_balance_tree_get(const htc_balance_tree *tree, uint32_t partition, uint32_t *free)
{
    if (!tree || partition >= tree->partitions)
        return HTC_EINVAL;
    if (tree->places[partition].free == NOBODY)
        return HTC_ENOTFOUND;
    if (free)
        *free = tree->places[partition].free;
    return HTC_OK;
}

uint32_t htc_balance_tree_count(const htc_balance_tree *tree)
{
    return tree ? tree->inside : 0;
}

/* What was read may be anybody's: each partition that is in the tree is in the ring of its count, and in no other. */
static int rings_are_sound(const htc_balance_tree *t)
{
    uint32_t seen = 0, counted = 0;
    for (size_t c = 0; c < t->counts; c++) {
        uint32_t at = t->first[c];
        while (at != NOBODY) {
            if (at >= t->partitions || t->places[at].free != c || seen++ == t->inside)
                return 0;
            uint32_t next = t->places[at].next;
            if (next >= t->partitions || t->places[next].before != at)
                return 0;
            at = next != t->first[c] ? next : NOBODY;
        }
    }
    for (uint32_t p = 0; p < t->partitions; p++)
        counted += t->places[p].free != NOBODY;
    return seen == t->inside && counted == t->inside;
}

static void mark_all(htc_balance_tree *t)
{
    for (int level = 0; level < LEVELS; level++)
        memset(t->bits[level], 0, t->words[level] * sizeof *t->bits[level]);
    for (size_t c = 0; c < t->counts; c++)
        if (t->first[c] != NOBODY)
            mark(t, (uint32_t)c);
}

htc_status htc__balance_tree_tape(htc_balance_tree *tree, const htc_tape *tape)
{
    uint64_t   head[] = { tree->counts, tree->inside };
    htc_status status = tape->move(tape->ctx, head, sizeof head);
    if (status == HTC_OK && (head[0] == 0 || head[0] > 2 * (uint64_t)HTC_BALANCE_FREE_MAX + 64 || head[1] > tree->partitions))
        status = HTC_ECORRUPT;
    if (status != HTC_OK)
        return status;
    if (tape->reads) {
        htc_balance_tree_clear(tree);
        status = htc__balance_tree_reserve(tree, (uint32_t)head[0] - 1);
        tree->inside = (uint32_t)head[1];
    }
    if (status == HTC_OK)
        status = tape->move(tape->ctx, tree->places, tree->partitions * sizeof *tree->places);
    if (status == HTC_OK)
        status = tape->move(tape->ctx, tree->first, (size_t)head[0] * sizeof *tree->first);
    size_t words = (size_t)head[0];
    for (int level = 0; level < LEVELS && status == HTC_OK; level++) {
        words = (words + 63) / 64;
        status = tape->move(tape->ctx, tree->bits[level], words * sizeof *tree->bits[level]);
    }
    if (status != HTC_OK || !tape->reads)
        return status;
    if (!rings_are_sound(tree))
        return HTC_ECORRUPT;
    mark_all(tree);
    return HTC_OK;
}
