/* The deque's algorithm: everything that threads do to each other, and no memory management. Compiled into deque.c, and
 * by the checkers of tests/model and tests/race with other atomics and narrow indexes.
 *
 *     word = top | epoch | split        the whole public state: thieves move top up, the owner moves split both ways
 *     public items [top, split), private ones [split, bottom); item i is in slot i mod the ring's size
 *
 * One compare-and-swap claims, and what is read before it only chooses how many: the word. So a thief that sleeps
 * between looking and claiming does no harm, even if all indexes have come round meanwhile: if the word is the same,
 * the same numbers of items are public at the same places, and which items these are it learns afterwards. Slots and
 * the pointer to the ring are read only after the claim. (Read before, they would be those of an item that was taken
 * back, popped and replaced while the word came round.)
 *
 * A claimed slot must not be written before it was copied. Claims are counted by the word: they fall in the epoch that
 * its epoch bit names, and when the owner flips that bit, the top it gets back says how many the ended epoch had.
 * Thieves add what they have copied to the counter of the epoch they claimed in. Once that counter has reached the
 * number, every slot below the top of the flip is free. An epoch is begun only when the one before the last is settled,
 * so there are never three, and one bit and two counters are enough.
 *
 * The owner's own indexes are 64 bits wide and never wrap; those in the word are HTC__DEQUE_INDEX_BITS wide and do. A
 * ring has at most half as many slots as there are such indexes, so differences are never in doubt. */
#ifndef HTC_SCHED_DEQUE_CORE_H
#define HTC_SCHED_DEQUE_CORE_H

#include "sched/deque/deque_atomics.h"

#ifndef HTC__DEQUE_INDEX_BITS
#define HTC__DEQUE_INDEX_BITS 31
#endif

/* top: the lowest bits; epoch: one bit; split: the other half, whose carry falls out at the top. */
#if HTC__DEQUE_INDEX_BITS == 31
typedef uint64_t deque_word;
typedef uint32_t deque_count;
#elif HTC__DEQUE_INDEX_BITS == 7
typedef uint16_t deque_word;
typedef uint8_t  deque_count;
#elif HTC__DEQUE_INDEX_BITS == 3
typedef uint8_t deque_word;
typedef uint8_t deque_count;
#else
#error "HTC__DEQUE_INDEX_BITS is 31, or 7 or 3 for the checkers"
#endif
#define DEQUE_EPOCH    ((deque_word)((deque_word)1 << HTC__DEQUE_INDEX_BITS))
#define DEQUE_INDEXES  ((deque_word)(DEQUE_EPOCH - 1))
#define DEQUE_SPLIT_AT (HTC__DEQUE_INDEX_BITS + 1)
#define DEQUE_RING_MAX ((uint64_t)1 << (HTC__DEQUE_INDEX_BITS - 1))

typedef struct deque_ring {
    uint64_t           mask; /* slots - 1; slots is a power of two up to DEQUE_RING_MAX */
    deque_slot        *slots;
    struct deque_ring *older;  /* the one it replaced: a thief may still read there */
    void              *memory; /* what it lies in, aligned */
} deque_ring;

struct htc_env;

struct htc_deque {
    /* The owner's. Of all this thieves read bottom, as a hint. */
    DEQUE_BLOCK ATOMIC(uint64_t) bottom; /* where the next item goes */
    uint64_t    split;                   /* that of the word */
    uint64_t    limit;                   /* bottom gets no further without make_room */
    uint64_t    mask;                    /* of the ring */
    deque_slot *slots;                   /* of the ring */
    uint64_t    seen;                    /* top when the owner looked last: it is no lower now */
    uint64_t    safe;                    /* slots of all items below are free */
    uint64_t    flipped;                 /* top at the last flip */
    uint64_t    reclaim;                 /* how many to take back next time */
    uint64_t    capacity_max;
    deque_count due[2];    /* what copied[] will be when all claims of the ended epochs are copied */
    uint8_t     epoch;     /* that of the word */
    uint8_t     unsettled; /* the epoch before may still have claims that are not copied */

    /* The thieves'. The owner comes here when it publishes, takes back, or needs slots again. */
    DEQUE_BLOCK ATOMIC(deque_word) word;
    ATOMIC(deque_count) copied[2]; /* items copied by thieves, by the epoch of their claim */
    ATOMIC(deque_ring *) ring;

    /* The request, on a line of its own: the owner reads it at every push and pop, thieves write it seldom. */
    DEQUE_BLOCK ATOMIC(uint32_t) asked;

    /* Written once. */
    DEQUE_BLOCK const struct htc_env *env;
    void                             *memory; /* what it lies in, aligned */
};

static inline deque_word word_top(deque_word w)
{
    return (deque_word)(w & DEQUE_INDEXES);
}

static inline unsigned word_epoch(deque_word w)
{
    return (w & DEQUE_EPOCH) != 0;
}

static inline uint64_t word_public(deque_word w)
{
    return (deque_word)((w >> DEQUE_SPLIT_AT) - w) & DEQUE_INDEXES;
}

/* top moved by n, nothing else touched: it wraps by itself. */
static inline deque_word word_claimed(deque_word w, uint64_t n)
{
    return (deque_word)((w & ~DEQUE_INDEXES) | ((deque_word)(w + (deque_word)n) & DEQUE_INDEXES));
}

/* What to add to a word to move split by n. */
static inline deque_word word_split(uint64_t n)
{
    return (deque_word)((deque_word)n << DEQUE_SPLIT_AT);
}

/* ---- the owner ---- */

/* An empty deque whose first item has the index start. */
static inline void deque_begin(struct htc_deque *d, deque_ring *ring, uint64_t capacity_max, uint64_t start)
{
    deque_word at = (deque_word)start & DEQUE_INDEXES;
    ATOMIC_INIT(&d->bottom, start);
    d->split = d->seen = d->safe = d->flipped = start;
    d->mask = ring->mask;
    d->slots = ring->slots;
    d->capacity_max = capacity_max;
    d->limit = start + (ring->mask < capacity_max ? ring->mask + 1 : capacity_max);
    d->reclaim = 1;
    d->due[0] = d->due[1] = 0;
    d->epoch = d->unsettled = 0;
    ATOMIC_INIT(&d->word, (deque_word)(at | word_split(at)));
    ATOMIC_INIT(&d->copied[0], 0);
    ATOMIC_INIT(&d->copied[1], 0);
    ATOMIC_INIT(&d->ring, ring);
    ATOMIC_INIT(&d->asked, 0);
}

static inline uint64_t deque_room(struct htc_deque *d)
{
    return d->limit - ATOMIC_GET(&d->bottom, relaxed);
}

static inline void deque_limit(struct htc_deque *d)
{
    d->limit = d->safe + (d->mask < d->capacity_max ? d->mask + 1 : d->capacity_max);
}

static inline void deque_publish(struct htc_deque *d, uint64_t n)
{
    ATOMIC_ADD(&d->word, word_split(n), DEQUE_PUBLISH);
    d->split += n;
}

/* A thief found nothing public: it gets n of what is private. A request that comes between the two lines is lost; the
 * thief sees what is public when it comes again. */
DEQUE_COLD static void deque_share(struct htc_deque *d, uint64_t n)
{
    deque_publish(d, n);
    ATOMIC_SET(&d->asked, 0, relaxed);
}

/* Half of what is private below b, with more = 1 rounded up. A request that cannot be met stays, so that thieves need
 * not write it again and again. */
static inline void deque_answer(struct htc_deque *d, uint64_t b, uint64_t more)
{
    if (!DEQUE_LIKELY(!ATOMIC_GET(&d->asked, relaxed)) && b - d->split + more >= 2)
        deque_share(d, (b - d->split + more) / 2);
}

static inline void deque_expose(struct htc_deque *d)
{
    uint64_t n = ATOMIC_GET(&d->bottom, relaxed) - d->split;
    /* "Expose, pop once, go away" is to hide nothing. */
    d->reclaim = 1;
    if (n == 0)
        return;
    deque_publish(d, n);
    if (ATOMIC_GET(&d->asked, relaxed))
        ATOMIC_SET(&d->asked, 0, relaxed);
}

/* 0: there is no room. */
static inline int deque_push(struct htc_deque *d, void *item)
{
    uint64_t b = ATOMIC_GET(&d->bottom, relaxed);
    if (!DEQUE_LIKELY(b != d->limit))
        return 0;
    SLOT_SET(&d->slots[b & d->mask], item);
    ATOMIC_SET(&d->bottom, b + 1, relaxed);
    deque_answer(d, b + 1, 0);
    return 1;
}

/* Make some of what is public private again. 0: nothing is public. */
DEQUE_COLD static int deque_reclaim(struct htc_deque *d)
{
    if (d->seen == d->split)
        return 0;
    deque_word w = ATOMIC_GET(&d->word, relaxed);
    for (;;) {
        uint64_t shown = word_public(w), n = shown / 2 < d->reclaim ? (shown + 1) / 2 : d->reclaim;
        d->seen = d->split - shown;
        if (shown == 0)
            return 0;
        /* Fails only where a thief took some of them. */
        if (ATOMIC_CAS(&d->word, &w, (deque_word)(w - word_split(n)), relaxed)) {
            d->split -= n;
            if (d->reclaim < DEQUE_RING_MAX)
                d->reclaim *= 2;
            return 1;
        }
    }
}

/* 0: empty. */
static inline int deque_pop(struct htc_deque *d, void **item)
{
    uint64_t b = ATOMIC_GET(&d->bottom, relaxed);
    if (!DEQUE_LIKELY(b != d->split) && !deque_reclaim(d))
        return 0;
    b--;
    ATOMIC_SET(&d->bottom, b, relaxed);
    *item = SLOT_GET(&d->slots[b & d->mask]);
    /* It has one in hand: of a single other it keeps none. */
    deque_answer(d, b, 1);
    return 1;
}

/* End the epoch. 0: nothing was claimed since the last slots were freed. */
static inline int deque_flip(struct htc_deque *d)
{
    deque_word w = ATOMIC_GET(&d->word, relaxed);
    if (d->split - word_public(w) == d->safe)
        return 0;
    w = ATOMIC_ADD(&d->word, d->epoch ? (deque_word)(0 - DEQUE_EPOCH) : DEQUE_EPOCH, relaxed);
    uint64_t top = d->split - word_public(w);
    d->due[d->epoch] = (deque_count)(d->due[d->epoch] + (deque_count)(top - d->flipped));
    d->flipped = top;
    d->epoch ^= 1;
    d->unsettled = 1;
    return 1;
}

static inline int deque_settled(struct htc_deque *d)
{
    for (int i = 0; i < DEQUE_PATIENCE; i++) {
        if (ATOMIC_GET(&d->copied[d->epoch ^ 1], DEQUE_COLLECT) == d->due[d->epoch ^ 1])
            return 1;
        DEQUE_PAUSE();
    }
    return 0;
}

/* Free slots that thieves have copied, until there is room for n. Twice: the first time ends what a call before this
 * began. */
DEQUE_COLD static void deque_collect(struct htc_deque *d, uint64_t n)
{
    for (int round = 0; round < 2 && deque_room(d) < n; round++) {
        if (!d->unsettled && !deque_flip(d))
            return;
        if (!deque_settled(d))
            return;
        d->safe = d->flipped;
        d->unsettled = 0;
        deque_limit(d);
    }
}

/* Move to a larger ring, with every item that a thief may still copy. The old one stays as it is for those who hold it.
 */
DEQUE_COLD static void deque_grow(struct htc_deque *d, deque_ring *ring)
{
    uint64_t b = ATOMIC_GET(&d->bottom, relaxed);
    for (uint64_t i = d->safe; i != b; i++)
        SLOT_SET(&ring->slots[i & ring->mask], SLOT_GET(&d->slots[i & d->mask]));
    ATOMIC_SET(&d->ring, ring, DEQUE_RING_SET);
    d->slots = ring->slots;
    d->mask = ring->mask;
    deque_limit(d);
}

/* ---- a thief ---- */

static inline deque_word deque_look(const struct htc_deque *d)
{
    return ATOMIC_GET(&d->word, relaxed);
}

/* Nothing is public: ask for some. */
static inline void deque_ask(struct htc_deque *d)
{
    if (!ATOMIC_GET(&d->asked, relaxed))
        ATOMIC_SET(&d->asked, 1, relaxed);
}

/* All items, the private ones too. bottom may be older or newer than w: it is a hint. */
static inline uint64_t deque_all(const struct htc_deque *d, deque_word w)
{
    uint64_t shown = word_public(w), all = (ATOMIC_GET(&d->bottom, relaxed) - w) & DEQUE_INDEXES;
    return all < shown || all > DEQUE_RING_MAX ? shown : all;
}

/* Half of them, as far as they are public. bottom is not looked at where nothing is: thieves come here again and again,
 * and would take its line from the owner. */
static inline uint64_t deque_half(const struct htc_deque *d, deque_word w)
{
    uint64_t shown = word_public(w), all = shown ? deque_all(d, w) : 0;
    return all - all / 2 < shown ? all - all / 2 : shown;
}

/* Have the lines of n items on the way before the claim, which waits for a line of its own. What a slot says then is not
 * looked at. */
static inline void deque_expect(struct htc_deque *d, deque_word w, uint64_t n)
{
    deque_ring *ring = ATOMIC_GET(&d->ring, DEQUE_RING_GET);
    for (uint64_t i = 0; i < n && i < DEQUE_PREFETCH_MAX; i += 8)
        DEQUE_PREFETCH(&ring->slots[(w + i) & ring->mask]);
}

/* Take n of the items that w shows. 0: w is no longer so. */
static inline int deque_claim(struct htc_deque *d, deque_word w, uint64_t n)
{
    return ATOMIC_CAS(&d->word, &w, word_claimed(w, n), DEQUE_CLAIM);
}

/* The ring in which the items of a claim that succeeded are: any ring since then has them. */
static inline deque_ring *deque_claimed_in(struct htc_deque *d)
{
    return ATOMIC_GET(&d->ring, DEQUE_RING_GET);
}

static inline void *deque_claimed_item(deque_ring *ring, deque_word w, uint64_t i)
{
    return SLOT_GET(&ring->slots[(word_top(w) + i) & ring->mask]);
}

/* All n items of the claim that w was taken by are copied. */
static inline void deque_copied(struct htc_deque *d, deque_word w, uint64_t n)
{
    ATOMIC_ADD(&d->copied[word_epoch(w)], (deque_count)n, DEQUE_COPIED);
}

/* 1: taken; 0: nothing is public; -1: somebody else was faster. */
static inline int deque_steal(struct htc_deque *d, void **item)
{
    deque_word w = deque_look(d);
    if (word_public(w) == 0) {
        deque_ask(d);
        return 0;
    }
    deque_expect(d, w, 1);
    if (!deque_claim(d, w, 1))
        return -1;
    *item = deque_claimed_item(deque_claimed_in(d), w, 0);
    deque_copied(d, w, 1);
    return 1;
}

/* Move the n items of a claim to own, which has room for them. */
static inline void deque_move(struct htc_deque *d, deque_word w, uint64_t n, struct htc_deque *own)
{
    deque_ring *ring = deque_claimed_in(d);
    uint64_t    b = ATOMIC_GET(&own->bottom, relaxed);
    for (uint64_t i = 0; i < n; i++)
        SLOT_SET(&own->slots[(b + i) & own->mask], deque_claimed_item(ring, w, i));
    deque_copied(d, w, n);
    ATOMIC_SET(&own->bottom, b + n, relaxed);
    deque_answer(own, b + n, 0);
}

#endif
