/* The deque with one thread, so that every answer is determined: worked examples, a plain array as its model, thieves
 * that stop in the middle of a steal, rings that grow, indexes that wrap. What threads do to it is in tests/race and
 * tests/model. */
#include "expect.h"
#include <string.h>

#include "alloc_fail.h"
#include "property.h"
#include "sched/deque/deque_core.h"
#include "sched/deque/deque_private.h"

/* Items are numbers. */
static void *item_of(uintptr_t n)
{
    return (void *)n;
}

static htc_deque *deque_of(uint64_t capacity, uint64_t capacity_max)
{
    htc_deque_options o = { .size = sizeof o, .capacity = capacity, .capacity_max = capacity_max };
    htc_deque        *d = NULL;
    cr_assert(eq(int, htc_deque_create(NULL, &o, &d), HTC_OK));
    return d;
}

static void push(htc_deque *d, uintptr_t first, uintptr_t last)
{
    for (uintptr_t i = first; i <= last; i++)
        cr_assert(eq(int, htc_deque_push(d, item_of(i)), HTC_OK));
}

/* The item, or the status where there is none. */
static intptr_t pop(htc_deque *d)
{
    void      *item;
    htc_status status = htc_deque_pop(d, &item);
    return status == HTC_OK ? (intptr_t)item : -(intptr_t)status;
}

static intptr_t steal(htc_deque *d)
{
    void      *item;
    htc_status status = htc_deque_steal(d, &item);
    return status == HTC_OK ? (intptr_t)item : -(intptr_t)status;
}

/* ---- worked examples ---- */

/* a-z push, P pop, S steal, H steal half, E expose; said: what came back, '.' where the answer was HTC_EMPTY. */
static const struct {
    const char *script, *said, *why;
} examples[] = {
    { "P", ".", "nothing was ever there" },
    { "S", ".", "nor for a thief" },
    { "H", ".", "nor half of it" },
    { "abcPPPP", "cba.", "the owner takes the newest" },
    { "abcESSSS", "abc.", "thieves the oldest" },
    { "abcdeESPSPSP", "aebdc.", "both until they meet" },
    { "abcS", ".", "what is private cannot be stolen" },
    { "abcSdSS", ".ab", "but the owner hears of it: a push publishes half, four's is two" },
    { "abSS", "..", "no operation of the owner, no answer" },
    { "abSPS", ".ba", "a pop leaves itself none of a single other: it has one in hand" },
    { "SaSbS", "..a", "a push keeps a single item: the request stays until there are two" },
    { "abcSdPPPPP", ".dcba.", "what was published and not stolen comes back" },
    { "abEPS", "ba", "expose, pop once: the other one can be stolen" },
    { "abEcS", "a", "a push behind what is public" },
    { "abEcPPP", "cba", "and back over the split" },
    { "aEPS", "a.", "of one, one is taken back" },
    { "aEH", "a", "half of one is one" },
    { "abEHH", "ab", "of two one, and of one one" },
    { "abcEH", "ab", "of three two" },
    { "abcdefghEHHHHH", "abcdefgh.", "four, two, one and one" },
    { "abcdSPH", ".dab", "half of the three there are, private or not, is public already" },
    { "abcdSeH", ".ab", "half of five are three, of which two are public" },
    { "abcdefEPPPPPP", "fedcba", "taking back 1, 2, 2 and 1" },
};

/* Appends to said. */
static void example_step(htc_deque *d, char op, char *said)
{
    void      *items[32];
    size_t     n = 1;
    htc_status status = op == 'P'   ? htc_deque_pop(d, items)
                        : op == 'S' ? htc_deque_steal(d, items)
                        : op == 'H' ? htc_deque_steal_half_out(d, 32, items, &n)
                        : op == 'E' ? htc_deque_expose(d)
                                    : htc_deque_push(d, item_of((uintptr_t)op));
    said += strlen(said);
    if (op == 'E' || (op >= 'a' && op <= 'z'))
        cr_assert(eq(int, status, HTC_OK));
    else if (status == HTC_EMPTY)
        *said = '.';
    else
        for (size_t i = 0; i < n; i++)
            said[i] = (char)(uintptr_t)items[i];
}

Test(deque, worked_examples)
{
    for (size_t e = 0; e < sizeof examples / sizeof *examples; e++) {
        char       said[64] = { 0 };
        htc_deque *d = deque_of(0, 0);
        for (const char *op = examples[e].script; *op; op++)
            example_step(d, *op, said);
        cr_expect(eq(str, said, (char *)examples[e].said), "%s: %s", examples[e].script, examples[e].why);
        htc_deque_destroy(d);
    }
}

/* The reason for htc_deque_expose: an owner that is busy for long hides nothing. */
Test(deque, an_owner_that_pops_once_and_never_calls_again_loses_all_other_items)
{
    for (uintptr_t n = 1; n <= 1000; n = n * 3 / 2 + 1) {
        htc_deque *d = deque_of(0, 0);
        push(d, 1, n);
        /* Even one that had got used to taking back much at once. */
        cr_assert(eq(int, htc_deque_expose(d), HTC_OK));
        for (uintptr_t i = 0; i < n / 2; i++)
            pop(d);
        push(d, n - n / 2 + 1, n);
        cr_assert(eq(int, htc_deque_expose(d), HTC_OK));
        cr_expect(eq(long, pop(d), (long)n));
        for (uintptr_t i = 1; i < n; i++)
            cr_expect(eq(long, steal(d), (long)i));
        cr_expect(eq(long, steal(d), -HTC_EMPTY));
        htc_deque_destroy(d);
    }
}

Test(deque, takes_back_twice_as_many_each_time_and_at_most_half)
{
    static const size_t public_after[] = { 15, 13, 13, 9, 9, 9, 9, 4, 4, 4, 4, 4, 2, 2, 1, 0 };
    htc_deque          *d = deque_of(0, 0);
    push(d, 1, 16);
    cr_assert(eq(int, htc_deque_expose(d), HTC_OK));
    for (size_t i = 0; i < 16; i++) {
        cr_assert(eq(long, pop(d), (long)(16 - i)));
        cr_expect(eq(sz, htc_deque_size_public(d), public_after[i]), "after pop %zu", i + 1);
        cr_expect(eq(sz, htc_deque_size(d), 15 - i));
    }
    htc_deque_destroy(d);
}

Test(deque, a_request_is_met_once)
{
    htc_deque *d = deque_of(0, 0);
    push(d, 1, 8);
    cr_expect(eq(long, steal(d), -HTC_EMPTY));
    push(d, 9, 9);
    cr_expect(eq(sz, htc_deque_size_public(d), 4));
    push(d, 10, 20);
    cr_expect(eq(sz, htc_deque_size_public(d), 4), "nobody asked again");
    cr_assert(eq(int, htc_deque_expose(d), HTC_OK));
    for (long i = 1; i <= 20; i++)
        cr_expect(eq(long, steal(d), i));
    cr_expect(eq(long, steal(d), -HTC_EMPTY));
    push(d, 21, 30);
    cr_expect(ge(sz, htc_deque_size_public(d), 1), "somebody did");
    cr_assert(eq(int, htc_deque_expose(d), HTC_OK));
    htc_deque_destroy(d);
    d = deque_of(0, 0);
    push(d, 1, 1);
    cr_expect(eq(long, steal(d), -HTC_EMPTY));
    cr_assert(eq(int, htc_deque_expose(d), HTC_OK));
    push(d, 2, 9);
    cr_expect(eq(sz, htc_deque_size_public(d), 1), "an expose meets it too");
    htc_deque_destroy(d);
}

Test(deque, every_way_of_stealing_asks)
{
    for (int way = 0; way < 3; way++) {
        htc_deque *d = deque_of(0, 0), *own = deque_of(0, 0);
        void      *items[4];
        size_t     taken;
        push(d, 1, 8);
        cr_expect(eq(int,
                     way == 0   ? htc_deque_steal(d, items)
                     : way == 1 ? htc_deque_steal_half(d, own, 4, &taken)
                                : htc_deque_steal_half_out(d, 4, items, &taken),
                     HTC_EMPTY));
        push(d, 9, 9);
        cr_expect(eq(sz, htc_deque_size_public(d), 4), "way %d", way);
        htc_deque_destroy(d);
        htc_deque_destroy(own);
    }
}

Test(deque, any_pointer_is_an_item)
{
    void      *item = &item;
    htc_deque *d = deque_of(0, 0);
    cr_assert(eq(int, htc_deque_push(d, NULL), HTC_OK));
    cr_assert(eq(int, htc_deque_push(d, (void *)UINTPTR_MAX), HTC_OK));
    cr_expect(eq(int, htc_deque_pop(d, &item), HTC_OK));
    cr_expect(item == (void *)UINTPTR_MAX);
    cr_expect(eq(int, htc_deque_pop(d, &item), HTC_OK));
    cr_expect(item == NULL);
    htc_deque_destroy(d);
}

Test(deque, half_goes_to_ones_own_in_order_above_what_was_there)
{
    htc_deque *d = deque_of(0, 0), *own = deque_of(2, 0);
    size_t     n = 0;
    push(d, 1, 100);
    push(own, 1000, 1000);
    cr_assert(eq(int, htc_deque_expose(d), HTC_OK));
    cr_expect(eq(int, htc_deque_steal_half(d, own, SIZE_MAX, &n), HTC_OK));
    cr_expect(eq(sz, n, 50));
    cr_expect(eq(sz, htc_deque_size(own), 51));
    cr_expect(eq(sz, htc_deque_size_public(own), 0), "they are its owner's, and private");
    cr_expect(eq(int, htc_deque_steal_half(d, own, 7, NULL), HTC_OK));
    for (long i = 57; i >= 1; i--)
        cr_expect(eq(long, pop(own), i));
    cr_expect(eq(long, pop(own), 1000));
    cr_expect(eq(long, pop(own), -HTC_EMPTY));
    for (long i = 58; i <= 100; i++)
        cr_expect(eq(long, steal(d), i));
    htc_deque_destroy(own);
    htc_deque_destroy(d);
}

Test(deque, a_thief_whose_own_is_full_takes_nothing)
{
    htc_deque *d = deque_of(0, 0), *own = deque_of(4, 4);
    size_t     n = 77;
    push(d, 1, 100);
    push(own, 1, 3);
    cr_assert(eq(int, htc_deque_expose(d), HTC_OK));
    cr_expect(eq(int, htc_deque_steal_half(d, own, SIZE_MAX, &n), HTC_OK));
    cr_expect(eq(sz, n, 1), "as many as there is room for");
    n = 77;
    cr_expect(eq(int, htc_deque_steal_half(d, own, SIZE_MAX, &n), HTC_EFULL));
    cr_expect(eq(sz, n, 77));
    cr_expect(eq(sz, htc_deque_size(d), 99));
    htc_deque_destroy(own);
    htc_deque_destroy(d);
}

/* A thief asked its own for more while it was busy stealing: what it brings is shared at once. */
Test(deque, what_was_stolen_can_be_stolen_on)
{
    htc_deque *d = deque_of(0, 0), *own = deque_of(0, 0);
    push(d, 1, 8);
    cr_assert(eq(int, htc_deque_expose(d), HTC_OK));
    cr_expect(eq(long, steal(own), -HTC_EMPTY));
    cr_expect(eq(int, htc_deque_steal_half(d, own, SIZE_MAX, NULL), HTC_OK));
    cr_expect(eq(long, steal(own), 1));
    cr_expect(eq(long, steal(own), 2));
    cr_expect(eq(long, steal(own), -HTC_EMPTY));
    htc_deque_destroy(own);
    htc_deque_destroy(d);
}

/* ---- limits and wrong use ---- */

Test(deque, is_full_at_its_maximum_whatever_that_is)
{
    for (uint64_t max = 1; max <= 70; max++) {
        htc_deque *d = deque_of(1, max);
        push(d, 1, max);
        cr_expect(eq(int, htc_deque_push(d, NULL), HTC_EFULL));
        cr_expect(eq(sz, htc_deque_size(d), max));
        cr_expect(eq(long, pop(d), (long)max));
        push(d, max, max);
        cr_assert(eq(int, htc_deque_expose(d), HTC_OK));
        cr_expect(eq(int, htc_deque_push(d, NULL), HTC_EFULL));
        cr_expect(eq(long, steal(d), 1));
        push(d, max + 1, max + 1);
        cr_expect(eq(int, htc_deque_push(d, NULL), HTC_EFULL));
        for (uint64_t i = max + 1; i > 1; i--)
            cr_expect(eq(long, pop(d), (long)i));
        cr_expect(eq(long, pop(d), -HTC_EMPTY));
        htc_deque_destroy(d);
    }
}

Test(deque, refuses_wrong_use)
{
    htc_deque *d = deque_of(0, 0), *own = deque_of(0, 0);
    void      *items[4] = { 0 };
    size_t     n = 77;
    push(d, 1, 4);
    cr_assert(eq(int, htc_deque_expose(d), HTC_OK));
    const htc_status answers[] = {
        htc_deque_create(NULL, NULL, NULL),
        htc_deque_push(NULL, NULL),
        htc_deque_pop(NULL, items),
        htc_deque_pop(d, NULL),
        htc_deque_expose(NULL),
        htc_deque_steal(NULL, items),
        htc_deque_steal(d, NULL),
        htc_deque_steal_half(NULL, own, 1, &n),
        htc_deque_steal_half(d, NULL, 1, &n),
        htc_deque_steal_half(d, d, 1, &n),
        htc_deque_steal_half(d, own, 0, &n),
        htc_deque_steal_half_out(NULL, 4, items, &n),
        htc_deque_steal_half_out(d, 0, items, &n),
        htc_deque_steal_half_out(d, 4, NULL, &n),
        htc_deque_steal_half_out(d, 4, items, NULL),
    };
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++)
        cr_expect(eq(int, answers[i], HTC_EINVAL), "call %zu", i);
    cr_expect(eq(sz, htc_deque_size(NULL), 0));
    cr_expect(eq(sz, htc_deque_size_public(NULL), 0));
    cr_expect(eq(sz, htc_deque_size_public(d), 4));
    cr_expect(eq(sz, n, 77));
    htc_deque_destroy(own);
    htc_deque_destroy(d);
    htc_deque_destroy(NULL);
}

Test(deque, takes_options_of_any_version_and_refuses_sizes_out_of_range)
{
    static const struct {
        uint64_t capacity, max;
        int      status;
    } rows[] = {
        { 0, 0, HTC_OK },
        { 1, 1, HTC_OK },
        { 300, 0, HTC_OK },
        { 300, 300, HTC_OK },
        { 0, HTC_DEQUE_CAPACITY_MAX, HTC_OK },
        { 2, 1, HTC_EINVAL },
        { 0, HTC_DEQUE_CAPACITY_MAX + 1, HTC_EINVAL },
        { HTC_DEQUE_CAPACITY_MAX + 1, 0, HTC_EINVAL },
        { UINT64_MAX, UINT64_MAX, HTC_EINVAL },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        htc_deque_options o = { sizeof o, rows[i].capacity, rows[i].max };
        htc_deque        *d = NULL;
        cr_expect(eq(int, htc_deque_create(NULL, &o, &d), rows[i].status), "row %zu", i);
        cr_expect(eq(int, d != NULL, rows[i].status == HTC_OK));
        htc_deque_destroy(d);
    }
    struct {
        htc_deque_options known;
        uint64_t          later;
    } newer = { { sizeof newer, 0, 0 }, 0 };
    htc_deque_options o = { 0 };
    htc_deque        *d = NULL;
    cr_expect(eq(int, htc_deque_create(NULL, &o, &d), HTC_EINVAL));
    htc_deque_options_init(NULL, 8);
    htc_deque_options_init(&o, sizeof o);
    cr_expect(o.size == sizeof o && o.capacity == 0 && o.capacity_max == 0);
    cr_expect(eq(int, htc_deque_create(NULL, &newer.known, &d), HTC_OK));
    htc_deque_destroy(d);
    newer.later = 1;
    cr_expect(eq(int, htc_deque_create(NULL, &newer.known, &d), HTC_EABI));
}

/* However many are stolen at once: what there is and what comes are more than it may hold. */
Test(deque, the_ring_is_never_larger_than_the_capacity)
{
    for (size_t max = 1; max <= 12; max++) {
        htc_deque *victim = deque_of(64, 64), *own = deque_of(4, 8);
        size_t     taken = 0;
        push(own, 1, 3);
        push(victim, 1, 50);
        cr_assert(eq(int, htc_deque_expose(victim), HTC_OK));
        cr_assert(eq(int, htc_deque_steal_half(victim, own, max, &taken), HTC_OK));
        cr_expect(eq(sz, taken, max < 5 ? max : 5), "%zu", max);
        cr_expect(eq(u64, own->mask + 1, max == 1 ? 4 : 8), "%zu", max);
        cr_expect(eq(sz, htc_deque_size(own), 3 + taken));
        htc_deque_destroy(victim);
        htc_deque_destroy(own);
    }
}

/* ---- thieves that stop half-way ---- */

/* What htc_deque_steal does, in its steps. */
typedef struct slow_thief {
    htc_deque  *victim;
    deque_word  w;
    uint64_t    n;
    deque_ring *ring; /* NULL: not looked for yet */
} slow_thief;

static slow_thief slow_claim(htc_deque *d, uint64_t n)
{
    slow_thief t = { d, deque_look(d), n, NULL };
    cr_assert(ge(u64, word_public(t.w), n));
    cr_assert(deque_claim(d, t.w, n));
    return t;
}

/* Its items are first and the following. */
static void slow_finish(slow_thief *t, uintptr_t first)
{
    deque_ring *ring = t->ring ? t->ring : deque_claimed_in(t->victim);
    for (uint64_t i = 0; i < t->n; i++)
        cr_expect(eq(ptr, deque_claimed_item(ring, t->w, i), item_of(first + i)));
    deque_copied(t->victim, t->w, t->n);
}

/* Everything the owner can do goes on; its slots are not written. */
Test(deque, a_thief_that_stops_after_its_claim_loses_nothing_and_keeps_nobody_waiting)
{
    htc_deque *d = deque_of(8, 8);
    push(d, 1, 8);
    cr_assert(eq(int, htc_deque_expose(d), HTC_OK));
    slow_thief t = slow_claim(d, 2);
    cr_expect(eq(int, htc_deque_push(d, item_of(99)), HTC_AGAIN), "two are free, but not yet");
    cr_expect(eq(long, steal(d), 3));
    cr_expect(eq(int, htc_deque_push(d, item_of(99)), HTC_AGAIN), "behind the slow thief, none is free");
    cr_expect(eq(long, pop(d), 8));
    push(d, 8, 8);
    cr_expect(eq(int, htc_deque_push(d, item_of(99)), HTC_AGAIN));
    slow_finish(&t, 1);
    push(d, 9, 11);
    cr_expect(eq(int, htc_deque_push(d, item_of(99)), HTC_EFULL));
    for (long i = 11; i >= 4; i--)
        cr_expect(eq(long, pop(d), i));
    cr_expect(eq(long, pop(d), -HTC_EMPTY));
    htc_deque_destroy(d);
}

/* One claim in each of the two epochs, and a third epoch is not begun before the first is settled. */
Test(deque, two_epochs_of_slow_thieves_are_told_apart)
{
    htc_deque *d = deque_of(4, 4);
    push(d, 1, 4);
    cr_assert(eq(int, htc_deque_expose(d), HTC_OK));
    slow_thief first = slow_claim(d, 1);
    cr_expect(eq(int, htc_deque_push(d, item_of(99)), HTC_AGAIN));
    slow_thief second = slow_claim(d, 1);
    cr_expect(ne(uint, word_epoch(first.w), word_epoch(second.w)));
    cr_expect(eq(int, htc_deque_push(d, item_of(99)), HTC_AGAIN));
    slow_finish(&second, 2);
    cr_expect(eq(int, htc_deque_push(d, item_of(99)), HTC_AGAIN), "the second is done, the first is not");
    slow_finish(&first, 1);
    push(d, 5, 6);
    cr_expect(eq(int, htc_deque_push(d, item_of(99)), HTC_EFULL));
    for (long i = 3; i <= 4; i++)
        cr_expect(eq(long, steal(d), i));
    htc_deque_destroy(d);
}

/* In the old ring, if it had found it before; else in the new one. */
Test(deque, a_slow_thief_finds_its_items_though_the_ring_has_grown)
{
    htc_deque *d = deque_of(4, 64);
    push(d, 1, 4);
    cr_assert(eq(int, htc_deque_expose(d), HTC_OK));
    slow_thief early = slow_claim(d, 1), late = slow_claim(d, 1);
    early.ring = deque_claimed_in(d);
    push(d, 5, 40);
    cr_expect(ne(ptr, early.ring, deque_claimed_in(d)));
    slow_finish(&late, 2);
    slow_finish(&early, 1);
    for (long i = 40; i >= 3; i--)
        cr_expect(eq(long, pop(d), i));
    htc_deque_destroy(d);
}

/* The classical trap: between the look and the claim the item was taken back, popped and replaced. */
Test(deque, a_word_that_came_back_is_claimed_for_what_is_there_now)
{
    htc_deque *d = deque_of(4, 4);
    push(d, 1, 1);
    cr_assert(eq(int, htc_deque_expose(d), HTC_OK));
    deque_word w = deque_look(d);
    cr_expect(eq(long, pop(d), 1));
    push(d, 2, 2);
    cr_assert(eq(int, htc_deque_expose(d), HTC_OK));
    cr_assert(deque_claim(d, w, 1));
    cr_expect(eq(ptr, deque_claimed_item(deque_claimed_in(d), w, 0), item_of(2)));
    deque_copied(d, w, 1);
    cr_expect(eq(long, pop(d), -HTC_EMPTY));
    htc_deque_destroy(d);
}

Test(deque, a_word_that_has_changed_is_not_claimed)
{
    htc_deque *d = deque_of(4, 4);
    push(d, 1, 3);
    cr_assert(eq(int, htc_deque_expose(d), HTC_OK));
    deque_word w = deque_look(d);
    cr_expect(eq(long, steal(d), 1));
    cr_expect(not(deque_claim(d, w, 1)), "another thief was faster");
    w = deque_look(d);
    cr_expect(eq(long, pop(d), 3));
    cr_expect(not(deque_claim(d, w, 2)), "the owner took one back");
    cr_expect(eq(long, steal(d), 2));
    htc_deque_destroy(d);
}

/* ---- against a plain array ---- */

typedef struct model {
    uintptr_t items[4096];
    size_t    first, behind;
} model;

static size_t model_size(const model *m)
{
    return m->behind - m->first;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* One random operation on a victim, a thief's own deque, and their models; answers whether all is as the models say. */
static int property_step(htc_rng *rng, htc_deque *d, model *m, htc_deque *own, model *o, size_t max, uintptr_t *next)
{
    void  *items[64];
    size_t n = 0, public = htc_deque_size_public(d), most = htc_rng_below(rng, 64) + 1;
    switch (htc_rng_below(rng, 12)) {
    case 0:
    case 1:
    case 2:
    case 3: {
        htc_status status = htc_deque_push(d, item_of(*next));
        if (model_size(m) == max)
            return status == HTC_EFULL;
        m->items[m->behind++] = (*next)++;
        return status == HTC_OK;
    }
    case 4:
    case 5:
    case 6:
        if (model_size(m) == 0)
            return htc_deque_pop(d, items) == HTC_EMPTY;
        return htc_deque_pop(d, items) == HTC_OK && items[0] == item_of(m->items[--m->behind]);
    case 7:
    case 8:
        if (public == 0)
            return htc_deque_steal(d, items) == HTC_EMPTY;
        return htc_deque_steal(d, items) == HTC_OK && items[0] == item_of(m->items[m->first++]);
    case 9: {
        size_t     want = least(least(model_size(m) - model_size(m) / 2, public), most);
        htc_status status = htc_deque_steal_half_out(d, most, items, &n);
        if (want == 0)
            return status == HTC_EMPTY && n == 0;
        for (size_t i = 0; i < want; i++)
            if (items[i] != item_of(m->items[m->first++]))
                return 0;
        return status == HTC_OK && n == want;
    }
    case 10: {
        size_t     want = least(model_size(m) - model_size(m) / 2, public), room = max - model_size(o);
        htc_status status = htc_deque_steal_half(d, own, SIZE_MAX, &n);
        if (want == 0 || room == 0)
            return status == (want ? HTC_EFULL : HTC_EMPTY) && n == 0;
        for (size_t i = 0; i < least(want, room); i++)
            o->items[o->behind++] = m->items[m->first++];
        return status == HTC_OK && n == least(want, room);
    }
    default:
        return htc_deque_expose(d) == HTC_OK && htc_deque_size_public(d) == model_size(m);
    }
}

/* From any index, just below the wraps of 31 and 32 bits among them. */
Test(deque, agrees_with_an_array)
{
    static const uint64_t starts[] = { 0, (UINT64_C(1) << 31) - 20, (UINT64_C(1) << 32) - 20, 0 - UINT64_C(20) };
    static model          m[2];
    PROPERTY(rng, 4000)
    {
        size_t            max = htc_rng_below(&rng, 70) + 1;
        htc_deque_options o = { sizeof o, htc_rng_below(&rng, max) + 1, max };
        htc_deque        *d[2];
        uintptr_t         next = 1;
        m[0].first = m[0].behind = m[1].first = m[1].behind = 0;
        for (int i = 0; i < 2; i++)
            HOLDS(htc__deque_create_at(NULL, &o, starts[htc_rng_below(&rng, 4)], &d[i]) == HTC_OK);
        for (int step = 0; step < 400; step++) {
            size_t victim = htc_rng_below(&rng, 2);
            HOLDS(property_step(&rng, d[victim], &m[victim], d[!victim], &m[!victim], max, &next));
            for (int i = 0; i < 2; i++)
                HOLDS(htc_deque_size(d[i]) == model_size(&m[i]));
        }
        for (int i = 0; i < 2; i++) {
            while (model_size(&m[i]) > 0)
                HOLDS(pop(d[i]) == (intptr_t)m[i].items[--m[i].behind]);
            HOLDS(pop(d[i]) == -HTC_EMPTY);
            htc_deque_destroy(d[i]);
        }
    }
}

/* ---- without memory ---- */

/* Grows by pushing and by stealing half; whatever is refused, the numbers that are there come out in order. */
static void scenario_of_growth(alloc_fail *f)
{
    htc_env           env = alloc_fail_env(f);
    htc_deque_options o = { .size = sizeof o, .capacity = 2 };
    htc_deque        *d = NULL, *own = NULL;
    htc_status        status = htc_deque_create(&env, &o, &d);
    cr_expect(status == HTC_OK ? d != NULL : status == HTC_ENOMEM && !d && f->refused);
    status = htc_deque_create(&env, &o, &own);
    uintptr_t pushed = 0, stolen = 0;
    for (int i = 0; d && i < 40; i++) {
        status = htc_deque_push(d, item_of(pushed + 1));
        cr_assert(status == HTC_OK || (status == HTC_ENOMEM && f->refused));
        pushed += status == HTC_OK;
        cr_assert(eq(sz, htc_deque_size(d), pushed));
    }
    for (size_t n = 0; d && own && htc_deque_expose(d) == HTC_OK; stolen += n, n = 0) {
        status = htc_deque_steal_half(d, own, SIZE_MAX, &n);
        if (status == HTC_ENOMEM && f->refused && n == 0 && htc_deque_size(own) == stolen)
            break;
        if (status == HTC_EMPTY)
            break;
        cr_assert(status == HTC_OK && n > 0);
    }
    for (uintptr_t i = pushed; i > stolen; i--)
        cr_assert(eq(long, pop(d), (long)i));
    for (uintptr_t i = stolen; i > 0; i--)
        cr_assert(eq(long, pop(own), (long)i));
    cr_expect(f->refused || (pushed == 40 && stolen == 40));
    if (d) {
        push(d, 1, 2);
        cr_expect(eq(long, pop(d), 2));
    }
    htc_deque_destroy(d);
    htc_deque_destroy(own);
    cr_expect(eq(sz, f->live, 0));
    cr_expect(eq(sz, f->wrong_sizes, 0));
}

Test(deque, stays_as_it_was_without_memory)
{
    ALLOC_FAIL_EVERY(f, 100)
    scenario_of_growth(&f);
    ALLOC_FAIL_ONCE(f, 100)
    scenario_of_growth(&f);
}
