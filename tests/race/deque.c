/* One owner, 2 to 8 thieves, every item accounted for exactly once. Thieves have deques of their own and rob each other
 * too.
 *
 * Built three times: with the library as it is; with indexes of 7 bits, and of 3, that come round all the time. Those
 * two are "checked" builds (see lib/sched/deque/deque_atomics.h): before each access to shared memory a thread may give its
 * processor away, so thieves sleep anywhere in a steal, and slots are plain variables, so that ThreadSanitizer sees a
 * race where an order is missing. HTC_TEST_FULL in the environment: 10^9 operations, and 10^8 where each is looked at closely
 * (10^9 of those with 3 and with 7 bits take an hour on two cores, and accounted for every item). */
#include "race.h"

#include <sched.h>
#include <stdatomic.h>

#include "htcsched/deque.h"

#ifndef HTC__DEQUE_INDEX_BITS
#define HTC__DEQUE_INDEX_BITS 31
#endif

enum { THIEVES_MAX = 8, WORKERS_MAX = THIEVES_MAX + 1, ITEMS = 20000 };

/* The deques that a round is played with: one that is exactly full again and again, one that grows, one that is large.
 */
static const struct {
    uint64_t capacity, capacity_max;
} sizes[] = {
    { 2, 2 },
    { 1, HTC__DEQUE_INDEX_BITS == 3 ? 4 : 64 },
    { HTC__DEQUE_INDEX_BITS == 3 ? 4 : 32, HTC__DEQUE_INDEX_BITS == 31  ? 1 << 16
                                           : HTC__DEQUE_INDEX_BITS == 7 ? 64
                                                                        : 4 },
};

static _Thread_local htc_rng rng;

#ifdef HTC__DEQUE_CHECKED
void htc__deque_step(void);
void htc__deque_step(void)
{
    if (htc_rng_next(&rng) % 64 == 0)
        sched_yield();
}
#endif

typedef struct game {
    size_t            thieves;
    uint64_t          rounds;
    htc_deque        *deques[WORKERS_MAX]; /* 0: the owner's */
    uint8_t           taken[WORKERS_MAX][ITEMS + 1];
    pthread_barrier_t barrier;
    atomic_uint       out; /* items of this round that were taken, as far as they were counted */
} game;

typedef struct worker {
    game    *game;
    size_t   number;
    uint64_t operations, items;
    uint32_t uncounted;
} worker;

/* It is run: once in all, or the books at the end of the round say so. */
static void took(worker *w, void *item)
{
    uintptr_t i = (uintptr_t)item;
    race_check(i >= 1 && i <= ITEMS, "%zu is no item", (size_t)i);
    w->game->taken[w->number][i]++;
    w->uncounted++;
    w->items++;
}

static void count(worker *w)
{
    atomic_fetch_add(&w->game->out, w->uncounted);
    w->uncounted = 0;
}

/* Pops up to n of its own. 0: there was none. */
static int runs_own(worker *w, uint64_t n)
{
    void *item;
    int   any = 0;
    for (; n > 0; n--) {
        htc_status status = htc_deque_pop(w->game->deques[w->number], &item);
        race_check(status == HTC_OK || status == HTC_EMPTY, "pop: %s", htc_strerror(status));
        w->operations++;
        if (status == HTC_EMPTY)
            break;
        took(w, item);
        any = 1;
    }
    return any;
}

/* Rounds differ in how much of the work the owner does itself. */
static void produces(worker *w)
{
    htc_deque *own = w->game->deques[0];
    uint64_t   pops = htc_rng_below(&rng, 3) * 20 + 1;
    for (uintptr_t next = 1; next <= ITEMS;) {
        for (uint64_t burst = htc_rng_below(&rng, 40) + 1; burst > 0 && next <= ITEMS; burst--, next++) {
            htc_status status = htc_deque_push(own, (void *)next);
            w->operations++;
            if (status == HTC_OK)
                continue;
            /* No room, or none yet: what a caller does then. */
            race_check(status == HTC_EFULL || status == HTC_AGAIN, "push: %s", htc_strerror(status));
            took(w, (void *)next);
        }
        if (htc_rng_below(&rng, 3) == 0)
            htc_deque_expose(own);
        runs_own(w, htc_rng_below(&rng, pops));
        /* Or it would be done before the thieves are awake. */
        if (htc_rng_below(&rng, 16) == 0)
            sched_yield();
    }
    while (runs_own(w, ITEMS))
        ;
    count(w);
}

static htc_status steals(worker *w, htc_deque *victim)
{
    htc_deque *own = w->game->deques[w->number];
    void      *items[8];
    size_t     n = 0;
    htc_status status;
    switch (htc_rng_below(&rng, 3)) {
    case 0:
        status = htc_deque_steal(victim, items);
        n = status == HTC_OK;
        break;
    case 1:
        status = htc_deque_steal_half_out(victim, 8, items, &n);
        break;
    default:
        status = htc_deque_steal_half(victim, own, SIZE_MAX, NULL);
    }
    for (size_t i = 0; i < n; i++)
        took(w, items[i]);
    w->operations++;
    return status;
}

static void robs(worker *w)
{
    game *g = w->game;
    while (atomic_load(&g->out) < ITEMS) {
        size_t     other = htc_rng_below(&rng, 4) ? 0 : htc_rng_below(&rng, g->thieves + 1);
        htc_status status = other == w->number ? HTC_EMPTY : steals(w, g->deques[other]);
        race_check(status == HTC_OK || status == HTC_AGAIN || status == HTC_EMPTY || status == HTC_EFULL, "steal: %s",
                   htc_strerror(status));
        runs_own(w, htc_rng_below(&rng, 8) + (status != HTC_OK));
        if (htc_rng_below(&rng, 16) == 0)
            htc_deque_expose(g->deques[w->number]);
        if (status == HTC_EMPTY) {
            count(w);
            sched_yield();
        }
    }
}

static void *works(void *arg)
{
    worker *w = arg;
    rng.state = w->number + 1000 * w->game->thieves;
    for (uint64_t round = 0; round < w->game->rounds; round++) {
        pthread_barrier_wait(&w->game->barrier);
        if (w->number == 0)
            produces(w);
        robs(w);
        pthread_barrier_wait(&w->game->barrier);
        if (w->number > 0)
            continue;
        for (size_t i = 1; i <= ITEMS; i++) {
            unsigned times = 0;
            for (size_t t = 0; t <= w->game->thieves; t++)
                times += w->game->taken[t][i];
            race_check(times == 1, "round %llu: item %zu was taken %u times", (unsigned long long)round, i, times);
        }
        memset(w->game->taken, 0, sizeof w->game->taken);
        atomic_store(&w->game->out, 0);
    }
    return NULL;
}

/* Adds up operations, and items that a thief took. */
static void play(size_t thieves, size_t size, uint64_t rounds, uint64_t *operations, uint64_t *stolen)
{
    static game       g;
    worker            workers[WORKERS_MAX];
    pthread_t         threads[WORKERS_MAX];
    htc_deque_options o = { sizeof o, sizes[size].capacity, sizes[size].capacity_max };
    memset(&g, 0, sizeof g);
    g.thieves = thieves;
    g.rounds = rounds;
    race_check(pthread_barrier_init(&g.barrier, NULL, (unsigned)thieves + 1) == 0, "a barrier");
    for (size_t i = 0; i <= thieves; i++) {
        race_check(htc_deque_create(NULL, &o, &g.deques[i]) == HTC_OK, "a deque");
        workers[i] = (worker){ .game = &g, .number = i };
    }
    race_threads(threads, thieves + 1, works, workers, sizeof *workers);
    race_threads_join(threads, thieves + 1);
    for (size_t i = 0; i <= thieves; i++) {
        race_check(htc_deque_size(g.deques[i]) == 0, "an item is left");
        htc_deque_destroy(g.deques[i]);
        *operations += workers[i].operations;
        *stolen += i > 0 ? workers[i].items : 0;
    }
    pthread_barrier_destroy(&g.barrier);
}

int main(void)
{
    uint64_t goal = getenv("HTC_TEST_FULL") ? 1000000000 : 30000000, done = 0, items = 0, stolen = 0;
    /* What looks closer is slower. */
#if defined(__SANITIZE_THREAD__) || defined(HTC__DEQUE_CHECKED)
    goal /= 10;
#endif
    while (done < goal)
        for (size_t thieves = 2; thieves <= THIEVES_MAX; thieves += 2)
            for (size_t size = 0; size < sizeof sizes / sizeof *sizes; size++) {
                uint64_t rounds = goal > 100000000 ? 20 : 1;
                play(thieves, size, rounds, &done, &stolen);
                items += rounds * ITEMS;
            }
    printf("%llu operations, %llu items, %llu stolen\n", (unsigned long long)done, (unsigned long long)items,
           (unsigned long long)stolen);
    race_check(stolen > items / 20, "too few to say anything");
    race_said("every item was taken once");
    return 0;
}
