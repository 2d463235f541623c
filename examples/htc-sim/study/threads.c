#include "threads.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#define SPINS 4000 /* looks for the next round before a thread sleeps: rounds of a run follow each other within microseconds */
#define LEFT  UINT64_C(0xffffffff)

/* A round is over when its pieces are done, whoever did them: a helper that has no processor meanwhile is not waited for. */
struct threads {
    pthread_mutex_t lock;
    pthread_cond_t  go, done;
    _Atomic uint64_t round; /* its number, and in the lower half pieces that nobody has begun. Who takes one may read the rest until it is done */
    _Atomic uint32_t through; /* pieces that are done */
    uint32_t         pieces, n;
    void (*work)(void *arg, uint32_t i);
    void            *arg;
    atomic_int       over;
    pthread_t        helper[];
};

/* The last one ends the round. */
static void do_pieces(threads *t)
{
    uint64_t round = atomic_load(&t->round);
    while (round & LEFT) {
        if (!atomic_compare_exchange_weak(&t->round, &round, round - 1))
            continue;
        uint32_t pieces = t->pieces;
        t->work(t->arg, (uint32_t)(pieces - (round & LEFT)));
        if (atomic_fetch_add(&t->through, 1) + 1 == pieces) {
            pthread_mutex_lock(&t->lock);
            pthread_cond_signal(&t->done);
            pthread_mutex_unlock(&t->lock);
        }
        round = atomic_load(&t->round);
    }
}

static int has_work(threads *t)
{
    return (atomic_load(&t->round) & LEFT) || atomic_load(&t->over);
}

static void await_work(threads *t)
{
    for (int i = 0; i < SPINS; i++)
        if (has_work(t))
            return;
    pthread_mutex_lock(&t->lock);
    while (!has_work(t))
        pthread_cond_wait(&t->go, &t->lock);
    pthread_mutex_unlock(&t->lock);
}

static void *help(void *ctx)
{
    threads *t = ctx;
    for (;;) {
        await_work(t);
        if (atomic_load(&t->over))
            return NULL;
        do_pieces(t);
    }
}

static void wake(threads *t)
{
    pthread_mutex_lock(&t->lock);
    pthread_cond_broadcast(&t->go);
    pthread_mutex_unlock(&t->lock);
}

void threads_do(void *ctx, uint32_t n, void (*work)(void *arg, uint32_t i), void *arg)
{
    threads *t = ctx;
    if (n == 0)
        return;
    t->work = work;
    t->arg = arg;
    t->pieces = n;
    atomic_store(&t->through, 0);
    atomic_store(&t->round, ((atomic_load(&t->round) >> 32) + 1) << 32 | n);
    wake(t);
    do_pieces(t);
    for (int i = 0; i < SPINS && atomic_load(&t->through) < n; i++) {
    }
    pthread_mutex_lock(&t->lock);
    while (atomic_load(&t->through) < n)
        pthread_cond_wait(&t->done, &t->lock);
    pthread_mutex_unlock(&t->lock);
}

threads *threads_open(uint32_t n)
{
    threads *t = n > 1 ? calloc(1, sizeof *t + (n - 1) * sizeof *t->helper) : NULL;
    if (!t)
        return NULL;
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->go, NULL);
    pthread_cond_init(&t->done, NULL);
    while (t->n < n - 1 && pthread_create(&t->helper[t->n], NULL, help, t) == 0)
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
    free(t);
}
