#include "threads.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#define SPINS 4000 /* looks for the next round before a thread sleeps: rounds of a run follow each other within microseconds */

struct threads {
    pthread_mutex_t  lock;
    pthread_cond_t   go, done;
    atomic_uint_fast64_t round;
    atomic_uint      next, busy; /* the next piece; helpers that are not through yet */
    uint32_t         pieces, n;
    void (*work)(void *arg, uint32_t i);
    void            *arg;
    int              over;
    pthread_t        helper[];
};

static void do_pieces(threads *t)
{
    for (unsigned i; (i = atomic_fetch_add(&t->next, 1)) < t->pieces;)
        t->work(t->arg, i);
}

static void await_round(threads *t, uint64_t seen)
{
    for (int i = 0; i < SPINS; i++)
        if (atomic_load(&t->round) != seen)
            return;
    pthread_mutex_lock(&t->lock);
    while (atomic_load(&t->round) == seen)
        pthread_cond_wait(&t->go, &t->lock);
    pthread_mutex_unlock(&t->lock);
}

static void *help(void *ctx)
{
    threads *t = ctx;
    for (uint64_t seen = 0;; seen++) {
        await_round(t, seen);
        if (t->over)
            return NULL;
        do_pieces(t);
        if (atomic_fetch_sub(&t->busy, 1) == 1) {
            pthread_mutex_lock(&t->lock);
            pthread_cond_signal(&t->done);
            pthread_mutex_unlock(&t->lock);
        }
    }
}

static void next_round(threads *t)
{
    pthread_mutex_lock(&t->lock);
    atomic_fetch_add(&t->round, 1);
    pthread_cond_broadcast(&t->go);
    pthread_mutex_unlock(&t->lock);
}

void threads_do(void *ctx, uint32_t n, void (*work)(void *arg, uint32_t i), void *arg)
{
    threads *t = ctx;
    t->work = work;
    t->arg = arg;
    t->pieces = n;
    atomic_store(&t->next, 0);
    atomic_store(&t->busy, t->n);
    next_round(t);
    do_pieces(t);
    for (int i = 0; i < SPINS && atomic_load(&t->busy); i++) {
    }
    pthread_mutex_lock(&t->lock);
    while (atomic_load(&t->busy))
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
    t->over = 1;
    next_round(t);
    for (uint32_t i = 0; i < t->n; i++)
        pthread_join(t->helper[i], NULL);
    pthread_mutex_destroy(&t->lock);
    pthread_cond_destroy(&t->go);
    pthread_cond_destroy(&t->done);
    free(t);
}
