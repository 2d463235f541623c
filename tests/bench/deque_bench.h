/* What the benchmark of the deque consists of: what is compared, figures of several runs, and two threads that play
 * against each other. Everything is inlined into the loops. */
#ifndef HTC_TESTS_BENCH_DEQUE_H
#define HTC_TESTS_BENCH_DEQUE_H

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "bench.h"
#include "htcsched/deque.h"

#define INLINE   static inline __attribute__((always_inline))
#define RUNS_MAX 41
#define ITEM(i)  ((void *)(uintptr_t)(8 * (uint64_t)(i) + 8)) /* never NULL */

/* The other parts, each a file. Answers the textbook's single steal from another core in ns. */
double deque_thieves(const bench *b);
void   deque_one_producer(const bench *b, double textbook_steal_ns);
void   deque_fib(const bench *b, int processors);

static inline void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

static inline void *lines(size_t size)
{
    void *p = aligned_alloc(128, (size + 127) / 128 * 128);
    bench_must(p != NULL, "memory");
    memset(p, 0, size);
    return p;
}

/* ---- what is compared ---- */

/* Inlined into each loop: the functions are constants there. */
typedef struct kind {
    void *(*create)(void);
    void (*destroy)(void *);
    void (*push)(void *, void *);
    void *(*pop)(void *);   /* NULL: none */
    void *(*steal)(void *); /* NULL: none, this time */
    void (*expose)(void *);
} kind;

static inline void *our_create(void)
{
    htc_deque_options o = { .size = sizeof o, .capacity = 4096 };
    htc_deque        *d = NULL;
    bench_must(htc_deque_create(NULL, &o, &d) == HTC_OK, "a deque");
    return d;
}

static inline void our_destroy(void *q)
{
    htc_deque_destroy(q);
}

INLINE void our_push(void *q, void *item)
{
    if (htc_deque_push(q, item) != HTC_OK)
        bench_must(0, "push");
}

INLINE void *our_pop(void *q)
{
    void *item;
    return htc_deque_pop(q, &item) == HTC_OK ? item : NULL;
}

INLINE void *our_steal(void *q)
{
    void *item;
    return htc_deque_steal(q, &item) == HTC_OK ? item : NULL;
}

INLINE void our_expose(void *q)
{
    htc_deque_expose(q);
}

static const kind ours __attribute__((unused)) = { our_create, our_destroy, our_push, our_pop, our_steal, our_expose };

/* Chase and Lev's deque as Lê, Pop, Cohen and Zappa Nardelli give it for C11 (PPoPP 2013), with an array that is large
 * enough and each index on lines of its own. */
enum { TEXTBOOK_SLOTS = 4096 };

typedef struct textbook {
    _Alignas(128) _Atomic(int64_t) top;
    _Alignas(128) _Atomic(int64_t) bottom;
    _Alignas(128) _Atomic(void *) slot[TEXTBOOK_SLOTS];
} textbook;

static inline void *textbook_create(void)
{
    return lines(sizeof(textbook));
}

INLINE void textbook_push(void *q, void *item)
{
    textbook *d = q;
    int64_t   bottom = atomic_load_explicit(&d->bottom, memory_order_relaxed);
    int64_t   top = atomic_load_explicit(&d->top, memory_order_acquire);
    bench_must(bottom - top < TEXTBOOK_SLOTS, "the textbook's array");
    atomic_store_explicit(&d->slot[bottom & (TEXTBOOK_SLOTS - 1)], item, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    atomic_store_explicit(&d->bottom, bottom + 1, memory_order_relaxed);
}

INLINE int textbook_wins(textbook *d, int64_t top)
{
    return atomic_compare_exchange_strong_explicit(&d->top, &top, top + 1, memory_order_seq_cst, memory_order_relaxed);
}

INLINE void *textbook_pop(void *q)
{
    textbook *d = q;
    int64_t   bottom = atomic_load_explicit(&d->bottom, memory_order_relaxed) - 1;
    void     *item = NULL;
    atomic_store_explicit(&d->bottom, bottom, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
    int64_t top = atomic_load_explicit(&d->top, memory_order_relaxed);
    if (top <= bottom)
        item = atomic_load_explicit(&d->slot[bottom & (TEXTBOOK_SLOTS - 1)], memory_order_relaxed);
    if (top < bottom)
        return item;
    if (top == bottom && !textbook_wins(d, top))
        item = NULL;
    atomic_store_explicit(&d->bottom, bottom + 1, memory_order_relaxed);
    return item;
}

INLINE void *textbook_steal(void *q)
{
    textbook *d = q;
    int64_t   top = atomic_load_explicit(&d->top, memory_order_acquire);
    atomic_thread_fence(memory_order_seq_cst);
    int64_t bottom = atomic_load_explicit(&d->bottom, memory_order_acquire);
    if (top >= bottom)
        return NULL;
    void *item = atomic_load_explicit(&d->slot[top & (TEXTBOOK_SLOTS - 1)], memory_order_relaxed);
    return textbook_wins(d, top) ? item : NULL;
}

static inline void exposes_nothing(void *q)
{
    (void)q;
}

static const kind peer
    __attribute__((unused)) = { textbook_create, free, textbook_push, textbook_pop, textbook_steal, exposes_nothing };

/* ---- figures ---- */

typedef struct runs {
    double value[RUNS_MAX];
    size_t n;
} runs;

static inline void add(runs *r, double value)
{
    r->value[r->n++] = value;
}

static inline double median(const runs *r)
{
    runs sorted = *r;
    return bench_median(sorted.value, sorted.n);
}

static inline runs ratios(const runs *a, const runs *b)
{
    runs r = { .n = a->n };
    for (size_t i = 0; i < a->n; i++)
        r.value[i] = a->value[i] / b->value[i];
    return r;
}

static inline void say(const bench *b, const char *what, uint64_t n, const char *unit, double value, double goal)
{
    bench_row(b, &(bench_figure){ .what = what, .n = n, .unit = unit, .value = value, .goal = goal });
}

static inline void say_more(const bench *b, const char *what, uint64_t n, double value, double goal)
{
    bench_row(b, &(bench_figure){ .what = what, .n = n, .unit = "1", .value = value, .goal = goal, .more = 1 });
}

/* The median, and how far the runs were apart. */
static inline void say_runs(const bench *b, const char *what, uint64_t n, const char *unit, const runs *r, double goal,
                            int more)
{
    char name[128];
    runs sorted = *r;
    bench_row(b, &(bench_figure){ .what = what,
                                  .n = n,
                                  .unit = unit,
                                  .value = bench_median(sorted.value, sorted.n),
                                  .goal = goal,
                                  .more = more });
    snprintf(name, sizeof name, "%s: lowest of %zu runs", what, r->n);
    bench_row(b, &(bench_figure){ .what = name, .n = n, .unit = unit, .value = sorted.value[0], .more = more });
    snprintf(name, sizeof name, "%s: highest of %zu runs", what, r->n);
    bench_row(b, &(bench_figure){ .what = name, .n = n, .unit = unit, .value = sorted.value[r->n - 1], .more = more });
}

static inline double larger(double a, double b)
{
    return a > b ? a : b;
}

/* ---- two threads ---- */

static inline void pin(size_t cpu)
{
    cpu_set_t all, one;
    size_t    nth = 0;
    if (pthread_getaffinity_np(pthread_self(), sizeof all, &all) != 0)
        return;
    CPU_ZERO(&one);
    for (size_t i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &all) && nth++ == cpu)
            CPU_SET(i, &one);
    pthread_setaffinity_np(pthread_self(), sizeof one, &one);
}

/* What the program may run on; main is pinned to the first of them. */
extern cpu_set_t deque_processors;

static inline void pin_second(void)
{
    pthread_setaffinity_np(pthread_self(), sizeof deque_processors, &deque_processors);
    pin(1);
}

/* What both threads see. Each figure of one thread is on lines of its own: beside the pointer to the deque, a counter
 * would cost more than the steal. */
typedef struct match {
    _Alignas(128) void *q;
    void    *own; /* the thief's, where it has one */
    uint64_t rounds, batch;
    _Alignas(128) atomic_uint go;
    _Alignas(128) atomic_uint stop;
    _Alignas(128) uint64_t got;
    double  end;
    double *each; /* seconds of each round */
} match;

static inline void start_second(pthread_t *thread, void *(*fn)(void *), match *m)
{
    bench_must(pthread_create(thread, NULL, fn, m) == 0, "a thread");
    while (!atomic_load(&m->go))
        sched_yield();
}

static inline void wait_for(atomic_uint *flag, unsigned value)
{
    while (atomic_load_explicit(flag, memory_order_acquire) != value)
        ;
}

#endif
