#include "threads.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#define SPINS 100000 /* looks for the next round before a thread sleeps, some 0.1 ms: rounds follow each other within that, and to wake a thread takes as long */
#define LEFT  UINT64_C(0xffffffff)
#define LINE  64

/* What a thread does first: pieces i, i + n, i + 2 n of n threads, so that a piece stays with the caches of one processor. Others do what it has not begun. */
typedef struct lane {
    _Atomic uint64_t left; /* the round, and in the lower half pieces that nobody has begun. Who takes one may read the rest until it is done */
    char             apart[LINE - sizeof(uint64_t)];
} lane;

/* A round is over when its pieces are done, whoever did them: a helper that has no processor meanwhile is not waited for. */
struct threads {
    pthread_mutex_t lock;
    pthread_cond_t  go, done;
    uint32_t        pieces, n; /* n: helpers; each has a lane, and the caller has the first one */
    void (*work)(void *arg, uint32_t i);
    void            *arg;
    lane            *lanes;
    char             apart[LINE];
    _Atomic uint32_t round; /* its number */
    atomic_int       over, asleep;
    char             apart2[LINE];
    _Atomic uint32_t through; /* pieces that are done */
    char             apart3[LINE];
    pthread_t        helper[];
};

/* The last one ends the round. */
static void do_lane(threads *t, uint32_t i)
{
    uint64_t left = atomic_load(&t->lanes[i].left);
    while (left & LEFT) {
        if (!atomic_compare_exchange_weak(&t->lanes[i].left, &left, left - 1))
            continue;
        uint32_t pieces = t->pieces;
        t->work(t->arg, i + ((uint32_t)(left & LEFT) - 1) * (t->n + 1));
        if (atomic_fetch_add(&t->through, 1) + 1 == pieces) {
            pthread_mutex_lock(&t->lock);
            pthread_cond_signal(&t->done);
            pthread_mutex_unlock(&t->lock);
        }
        left = atomic_load(&t->lanes[i].left);
    }
}

static void do_pieces(threads *t, uint32_t own)
{
    for (uint32_t i = 0; i <= t->n; i++)
        do_lane(t, (own + i) % (t->n + 1));
}

static int has_round(threads *t, uint32_t seen)
{
    return atomic_load(&t->round) != seen || atomic_load(&t->over);
}

/* Until there is another round than the one that was seen. */
static uint32_t await_round(threads *t, uint32_t seen)
{
    for (int i = 0; i < SPINS; i++)
        if (has_round(t, seen))
            return atomic_load(&t->round);
    pthread_mutex_lock(&t->lock);
    atomic_fetch_add(&t->asleep, 1);
    while (!has_round(t, seen))
        pthread_cond_wait(&t->go, &t->lock);
    atomic_fetch_sub(&t->asleep, 1);
    pthread_mutex_unlock(&t->lock);
    return atomic_load(&t->round);
}

typedef struct helper {
    threads *threads;
    uint32_t own;
} helper;

static void *help(void *ctx)
{
    helper   h = *(helper *)ctx;
    uint32_t seen = 0;
    free(ctx);
    while (seen = await_round(h.threads, seen), !atomic_load(&h.threads->over))
        do_pieces(h.threads, h.own);
    return NULL;
}

/* Who is about to sleep has said so before it looks for the last time. */
static void wake(threads *t)
{
    if (!atomic_load(&t->asleep))
        return;
    pthread_mutex_lock(&t->lock);
    pthread_cond_broadcast(&t->go);
    pthread_mutex_unlock(&t->lock);
}

void threads_do(void *ctx, uint32_t n, void (*work)(void *arg, uint32_t i), void *arg)
{
    threads *t = ctx;
    uint32_t all = t->n + 1;
    if (n == 0)
        return;
    t->work = work;
    t->arg = arg;
    t->pieces = n;
    atomic_store(&t->through, 0);
    uint32_t round = atomic_load(&t->round) + 1;
    for (uint32_t i = 0; i < all && i < n; i++)
        atomic_store(&t->lanes[i].left, (uint64_t)round << 32 | (n - i + all - 1) / all);
    atomic_store(&t->round, round);
    wake(t);
    do_pieces(t, 0);
    for (int i = 0; i < SPINS; i++)
        if (atomic_load(&t->through) == n)
            return;
    pthread_mutex_lock(&t->lock);
    while (atomic_load(&t->through) < n)
        pthread_cond_wait(&t->done, &t->lock);
    pthread_mutex_unlock(&t->lock);
}

static int start_helper(threads *t)
{
    helper *h = malloc(sizeof *h);
    if (!h)
        return 0;
    *h = (helper){ t, t->n + 1 };
    if (pthread_create(&t->helper[t->n], NULL, help, h) == 0)
        return 1;
    free(h);
    return 0;
}

threads *threads_open(uint32_t n)
{
    threads *t = n > 1 ? calloc(1, sizeof *t + (n - 1) * sizeof *t->helper) : NULL;
    if (t)
        t->lanes = aligned_alloc(LINE, n * sizeof *t->lanes);
    if (!t || !t->lanes) {
        free(t);
        return NULL;
    }
    for (uint32_t i = 0; i < n; i++)
        atomic_init(&t->lanes[i].left, 0);
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->go, NULL);
    pthread_cond_init(&t->done, NULL);
    while (t->n < n - 1 && start_helper(t))
        t->n++;
    return t;
}

uint32_t threads_count(const threads *t)
{
    return t ? t->n + 1 : 1;
}

void threads_close(threads *t)
{
    if (!t)
        return;
    atomic_store(&t->over, 1);
    wake(t);
    for (uint32_t i = 0; i < t->n; i++)
        pthread_join(t->helper[i], NULL);
    pthread_mutex_destroy(&t->lock);
    pthread_cond_destroy(&t->go);
    pthread_cond_destroy(&t->done);
    free(t->lanes);
    free(t);
}
