/* The event queue of the scale models against a slow obvious one, under what ladder queues are bad at. */
#include "property.h"

#include "sim/scale/ladder.h"

#define ID_BITS 12
#define IDS     (1u << ID_BITS)
#define MOST    6000

/* All keys, descending: the least is the last. */
typedef struct slow {
    uint64_t key[MOST];
    uint32_t n;
} slow;

static void slow_push(slow *s, uint64_t key)
{
    uint32_t i = s->n++;
    for (; i && s->key[i - 1] < key; i--)
        s->key[i] = s->key[i - 1];
    s->key[i] = key;
}

/* How far ahead the next events lie. */
typedef enum shape { CONSTANT, UNIFORM, BIMODAL, GEOMETRIC, CLUSTERS, NOW, ONE_KEY, WIDE, SHRINKING, IDS_DOWN, SHAPES } shape;

static uint64_t tick_after(htc_rng *rng, shape how, uint64_t now, uint64_t step)
{
    switch (how) {
    case CONSTANT:
        return now + 1000;
    case UNIFORM:
        return now + htc_rng_below(rng, 5000);
    case BIMODAL:
        return now + (htc_rng_below(rng, 10) ? htc_rng_below(rng, 20) : 100000 + htc_rng_below(rng, 20));
    case GEOMETRIC: /* each part of the time axis holds as many as all that is behind it */
        return now + (UINT64_C(1) << htc_rng_below(rng, 45));
    case CLUSTERS:
        return (now / 4096 + 1 + htc_rng_below(rng, 3)) * 4096 + htc_rng_below(rng, 2);
    case NOW: /* nothing takes any time */
    case IDS_DOWN:
        return now + (htc_rng_below(rng, 400) == 0);
    case ONE_KEY:
        return now + (htc_rng_below(rng, 2000) == 0) * 7;
    case WIDE:
        return now + htc_rng_below(rng, UINT64_C(1) << 40);
    case SHRINKING: /* each comes before those that were pushed earlier */
        return now + (UINT64_C(1) << 40) / (1 + step % 4000);
    case SHAPES:
        break;
    }
    return now;
}

static uint32_t id_after(htc_rng *rng, shape how, uint64_t step)
{
    return how == ONE_KEY ? 5 : how == IDS_DOWN ? (uint32_t)(IDS - 1 - step % IDS) : (uint32_t)htc_rng_below(rng, IDS);
}

/* A copy by way of what a checkpoint has of it; the first one is destroyed. */
typedef struct reel {
    unsigned char data[4 << 20];
    size_t        len, at;
} reel;

static htc_status reel_write(void *ctx, void *data, size_t n)
{
    reel *r = ctx;
    cr_assert(n <= sizeof r->data - r->len);
    memcpy(r->data + r->len, data, n);
    r->len += n;
    return HTC_OK;
}

static htc_status reel_read(void *ctx, void *data, size_t n)
{
    reel *r = ctx;
    if (n > r->len - r->at)
        return HTC_EIO;
    memcpy(data, r->data + r->at, n);
    r->at += n;
    return HTC_OK;
}

static reel film;

static ladder *moved(ladder *q)
{
    ladder     *copy = NULL;
    film.len = film.at = 0;
    HOLDS(htc__ladder_move(q, &(htc_scale_tape){ .move = reel_write, .ctx = &film }, 0, 0, IDS) == HTC_OK);
    HOLDS(htc__ladder_create(NULL, q->count_max, ID_BITS, &copy) == HTC_OK);
    HOLDS(htc__ladder_move(copy, &(htc_scale_tape){ .reads = 1, .move = reel_read, .ctx = &film }, q->last >> ID_BITS, 0, IDS) == HTC_OK && film.at == film.len);
    htc__ladder_destroy(NULL, q);
    return copy;
}

/* Grows and shrinks, and is moved now and then; every key that is popped is the least that there is. */
static void agree(htc_rng *rng, shape first, shape then, uint32_t most)
{
    static slow s;
    ladder     *q = NULL;
    uint64_t    now = 0, key;
    HOLDS(htc__ladder_create(NULL, most, ID_BITS, &q) == HTC_OK);
    s.n = 0;
    for (uint64_t step = 0; step < 6u * most; step++) {
        shape    how = step < 3u * most ? first : then;
        uint64_t push = s.n < most && (step < most || htc_rng_below(rng, 100) < (step % (2 * most) < most ? 70u : 35u));
        if (push) {
            key = tick_after(rng, how, now, step) << ID_BITS | id_after(rng, how, step);
            slow_push(&s, key);
            htc__ladder_push(q, key);
        } else if (s.n) {
            HOLDS(htc__ladder_pop(q, &key) && key == s.key[--s.n]);
            now = key >> ID_BITS;
        }
        HOLDS(q->count == s.n);
        HOLDS(q->chunks_used < q->chunks);
        if (htc_rng_below(rng, 2 * most) == 0)
            q = moved(q);
    }
    while (s.n)
        HOLDS(htc__ladder_pop(q, &key) && key == s.key[--s.n]);
    HOLDS(!htc__ladder_pop(q, &key));
    htc__ladder_destroy(NULL, q);
}

/* Of what a checkpoint has some numbers are others: it is refused, or it is a queue, which gives as many keys as it says, none before one that it gave. */
Test(ladder, is_sound_or_refused_whatever_is_read)
{
    uint64_t refused = 0, taken = 0;
    PROPERTY (rng, 3000) {
        shape    how = (shape)htc_rng_below(&rng, SHAPES);
        uint32_t most = 1 + (uint32_t)htc_rng_below(&rng, 900);
        uint64_t key = 0, now = 0;
        ladder  *q = NULL, *copy = NULL;
        HOLDS(htc__ladder_create(NULL, most, ID_BITS, &q) == HTC_OK);
        for (uint32_t i = 0; i < 3 * most; i++) {
            if (q->count == most || (q->count && htc_rng_below(&rng, 3) == 0)) {
                HOLDS(htc__ladder_pop(q, &key));
                now = key >> ID_BITS;
            }
            htc__ladder_push(q, tick_after(&rng, how, now, i) << ID_BITS | id_after(&rng, how, i));
        }
        film.len = film.at = 0;
        HOLDS(htc__ladder_move(q, &(htc_scale_tape){ .move = reel_write, .ctx = &film }, now, 0, IDS) == HTC_OK);
        htc__ladder_destroy(NULL, q);
        for (uint64_t n = 1 + htc_rng_below(&rng, 3); n; n--) {
            size_t   head = offsetof(ladder, rung), at = (htc_rng_below(&rng, 2) ? htc_rng_below(&rng, head) : htc_rng_below(&rng, film.len)) & ~(size_t)3;
            uint32_t word;
            memcpy(&word, film.data + at, sizeof word);
            word = htc_rng_below(&rng, 2) ? (uint32_t)htc_rng_next(&rng) >> htc_rng_below(&rng, 32) : word + 1 - 2 * (uint32_t)htc_rng_below(&rng, 2);
            memcpy(film.data + at, &word, sizeof word);
        }
        HOLDS(htc__ladder_create(NULL, most, ID_BITS, &copy) == HTC_OK);
        if (htc__ladder_move(copy, &(htc_scale_tape){ .reads = 1, .move = reel_read, .ctx = &film }, now, 0, IDS) == HTC_OK) {
            uint64_t there = copy->count, before = now << ID_BITS;
            for (uint32_t i = 0; i < most && copy->count < most; i++, there++)
                htc__ladder_push(copy, tick_after(&rng, how, now, i) << ID_BITS | id_after(&rng, how, i));
            for (; there; there--) {
                HOLDS(htc__ladder_pop(copy, &key) && key >= before && copy->chunks_used < copy->chunks);
                before = key;
            }
            HOLDS(!htc__ladder_pop(copy, &key));
            taken++;
        } else {
            refused++;
        }
        htc__ladder_destroy(NULL, copy);
    }
    cr_expect(getenv("HTC_TEST_SEED") || (refused > 20 && taken > 20), "%llu refused, %llu taken", (unsigned long long)refused, (unsigned long long)taken);
}

Test(ladder, agrees_with_a_sorted_array)
{
    PROPERTY (rng, 240) {
        shape    first = (shape)htc_rng_below(&rng, SHAPES), then = (shape)htc_rng_below(&rng, SHAPES);
        uint32_t most = htc_rng_below(&rng, 8) ? (uint32_t)htc_rng_below(&rng, 1500) + 1 : MOST;
        agree(&rng, first, then, most);
    }
}

/* The hold model: as many as there may be are pending all the time. */
Test(ladder, holds_as_many_as_it_has_room_for)
{
    PROPERTY (rng, 60) {
        static slow s;
        shape       how = (shape)htc_rng_below(&rng, SHAPES);
        uint32_t    most = 1 + (uint32_t)htc_rng_below(&rng, 3000);
        ladder     *q = NULL;
        uint64_t    key;
        HOLDS(htc__ladder_create(NULL, most, ID_BITS, &q) == HTC_OK);
        s.n = 0;
        for (uint32_t i = 0; i < most; i++) {
            key = tick_after(&rng, how, 0, i) << ID_BITS | id_after(&rng, how, i);
            slow_push(&s, key);
            htc__ladder_push(q, key);
        }
        for (uint32_t i = 0; i < 4 * most; i++) {
            HOLDS(htc__ladder_pop(q, &key) && key == s.key[--s.n]);
            key = tick_after(&rng, how, key >> ID_BITS, i) << ID_BITS | id_after(&rng, how, i);
            slow_push(&s, key);
            htc__ladder_push(q, key);
            HOLDS(q->chunks_used < q->chunks);
        }
        htc__ladder_destroy(NULL, q);
    }
}

/* Many more than fit one sorted bucket, all the same: each is given once, and none costs a search. */
Test(ladder, gives_equal_events_one_by_one)
{
    ladder  *q = NULL;
    uint64_t key = 0;
    cr_assert(eq(int, htc__ladder_create(NULL, 100000, ID_BITS, &q), HTC_OK));
    for (int i = 0; i < 50000; i++)
        htc__ladder_push(q, 7u << ID_BITS | 3);
    for (int i = 0; i < 50000; i++)
        htc__ladder_push(q, (7u + (i & 1)) << ID_BITS | 3);
    for (int i = 0; i < 100000; i++) {
        cr_assert(htc__ladder_pop(q, &key));
        cr_assert(eq(u64, key, (i < 75000 ? 7u : 8u) << ID_BITS | 3));
    }
    cr_expect(!htc__ladder_pop(q, &key));
    htc__ladder_destroy(NULL, q);
}

/* So that many rungs are needed, and are all given back. */
Test(ladder, goes_down_to_single_keys)
{
    ladder  *q = NULL;
    uint64_t before = 0, key;
    htc_rng  rng = { 3 };
    cr_assert(eq(int, htc__ladder_create(NULL, 200000, ID_BITS, &q), HTC_OK));
    for (int i = 0; i < 200000; i++)
        htc__ladder_push(q, (UINT64_C(1) << (i % 51)) + htc_rng_below(&rng, 600));
    for (int i = 0; i < 200000; i++) {
        cr_assert(htc__ladder_pop(q, &key) && key >= before);
        before = key;
    }
    cr_expect(eq(u64, q->count, 0));
    htc__ladder_destroy(NULL, q);
}

/* Bursts of events for ids just before the one that is now, at the same tick: each time another rung is needed, until there is none left. */
Test(ladder, has_no_end_of_rungs)
{
    PROPERTY (rng, 40) {
        static slow s;
        ladder     *q = NULL;
        uint64_t    last = (UINT64_C(1) << 30) - 1, key;
        uint32_t    reach = 1 + (uint32_t)htc_rng_below(&rng, 5000);
        HOLDS(htc__ladder_create(NULL, MOST, 30, &q) == HTC_OK);
        s.n = 0;
        while (s.n + 700 < MOST) {
            for (int i = 0; i < 700; i++) {
                key = last - (last ? htc_rng_below(&rng, last < reach ? last : reach) : 0);
                slow_push(&s, key);
                htc__ladder_push(q, key);
            }
            for (uint32_t i = 1 + (uint32_t)htc_rng_below(&rng, 3); i; i--) {
                HOLDS(htc__ladder_pop(q, &last) && last == s.key[--s.n]);
                HOLDS(q->rungs <= LADDER_RUNGS && q->chunks_used < q->chunks);
            }
        }
        while (s.n)
            HOLDS(htc__ladder_pop(q, &key) && key == s.key[--s.n]);
        htc__ladder_destroy(NULL, q);
    }
}

/* The side heap is for what belongs before the next bucket. Of a few hundred pending events that is a small part. */
Test(ladder, a_small_queue_is_no_heap)
{
    static const shape    shapes[] = { UNIFORM, WIDE };
    static const uint32_t sizes[] = { 60, 130, 370 };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
            htc_rng  rng = { 1 };
            ladder  *q = NULL;
            uint64_t key = 0, aside = 0, holds = 50u * sizes[k];
            cr_assert(htc__ladder_create(NULL, sizes[k], ID_BITS, &q) == HTC_OK);
            for (uint32_t n = 0; n < sizes[k]; n++)
                htc__ladder_push(q, tick_after(&rng, shapes[i], 0, n) << ID_BITS | n);
            for (uint64_t n = 0; n < holds; n++) {
                cr_assert(htc__ladder_pop(q, &key));
                uint32_t side = q->side_n;
                htc__ladder_push(q, tick_after(&rng, shapes[i], key >> ID_BITS, n) << ID_BITS | (key & (IDS - 1)));
                aside += q->side_n > side;
            }
            cr_assert(aside < holds / 10, "%llu of %llu", (unsigned long long)aside, (unsigned long long)holds);
            htc__ladder_destroy(NULL, q);
        }
}
