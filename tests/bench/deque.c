/* The deque beside a textbook one of the same process, and beside a plain stack. Linked as the static layer, optimised
 * across files: that is how a program that spawns millions of tasks a second uses it. Rows with "shared library" call
 * the same through libhtcsched.so.
 *
 * What two threads do is timed on two processors, ours and the textbook's in turn, and compared by the median of the
 * ratios: whether two virtual processors are near or far from each other changes from second to second. */
#include <dlfcn.h>

#include "deque_bench.h"

cpu_set_t deque_processors;

/* The same calls, found in the shared library. */
static htc_status (*shared_push_call)(htc_deque *, void *);
static htc_status (*shared_pop_call)(htc_deque *, void **);

INLINE void shared_push(void *q, void *item)
{
    if (shared_push_call(q, item) != HTC_OK)
        bench_must(0, "push");
}

INLINE void *shared_pop(void *q)
{
    void *item;
    return shared_pop_call(q, &item) == HTC_OK ? item : NULL;
}

static const kind shared = { our_create, our_destroy, shared_push, shared_pop, our_steal, our_expose };

/* A stack whose index lives in memory: less than this nobody can do who may be interrupted by a thief. */
enum { STACK_SLOTS = 1 << 17 };

typedef struct stack {
    _Atomic(uint64_t) n;
    void             *slot[STACK_SLOTS];
} stack;

static void *stack_create(void)
{
    return lines(sizeof(stack));
}

INLINE void stack_push(void *q, void *item)
{
    stack   *s = q;
    uint64_t n = atomic_load_explicit(&s->n, memory_order_relaxed);
    s->slot[n % STACK_SLOTS] = item;
    atomic_store_explicit(&s->n, n + 1, memory_order_relaxed);
}

INLINE void *stack_pop(void *q)
{
    stack   *s = q;
    uint64_t n = atomic_load_explicit(&s->n, memory_order_relaxed);
    if (n == 0)
        return NULL;
    atomic_store_explicit(&s->n, n - 1, memory_order_relaxed);
    return s->slot[(n - 1) % STACK_SLOTS];
}

static const kind floor_stack = { stack_create, free, stack_push, stack_pop, stack_pop, exposes_nothing };

INLINE double push_pop(const kind *k, uint64_t depth, uint64_t pairs)
{
    void    *q = k->create();
    uint64_t turns = pairs / depth;
    double   start = bench_cpu_seconds();
    for (uint64_t t = 0; t < turns; t++) {
        for (uint64_t i = 0; i < depth; i++)
            k->push(q, ITEM(i));
        for (uint64_t i = 0; i < depth; i++)
            k->pop(q);
    }
    double ns = 1e9 * (bench_cpu_seconds() - start) / (double)(turns * depth);
    k->destroy(q);
    return ns;
}

static void owner_alone(const bench *b, uint64_t depth, double goal)
{
    uint64_t pairs = b->quick ? 2000000 : 10000000;
    runs     us = { .n = 0 }, them = { .n = 0 }, plain = { .n = 0 }, called = { .n = 0 };
    for (int i = 0; i < (b->quick ? 5 : 11); i++) {
        add(&us, push_pop(&ours, depth, pairs));
        add(&them, push_pop(&peer, depth, pairs / 4));
        add(&plain, push_pop(&floor_stack, depth, pairs));
        if (shared_push_call)
            add(&called, push_pop(&shared, depth, pairs));
    }
    say(b, "push + pop", depth, "ns", median(&us), larger(goal, 2 * median(&plain)));
    say(b, "push + pop of a stack", depth, "ns", median(&plain), 0);
    say(b, "push + pop of the textbook", depth, "ns", median(&them), 0);
    if (shared_push_call)
        say(b, "push + pop through the shared library", depth, "ns", median(&called), 0);
}

INLINE double empty_steals(const kind *k, uint64_t times)
{
    void  *q = k->create();
    double start = bench_cpu_seconds();
    for (uint64_t i = 0; i < times; i++)
        if (k->steal(q))
            bench_must(0, "an empty deque");
    double ns = 1e9 * (bench_cpu_seconds() - start) / (double)times;
    k->destroy(q);
    return ns;
}

static void nothing_to_steal(const bench *b)
{
    uint64_t times = b->quick ? 2000000 : 10000000;
    runs     us = { .n = 0 }, them = { .n = 0 };
    for (int i = 0; i < 7; i++) {
        add(&us, empty_steals(&ours, times));
        add(&them, empty_steals(&peer, times / 4));
    }
    say(b, "empty steal", 0, "ns", median(&us), 2);
    say(b, "empty steal of the textbook", 0, "ns", median(&them), 0);
}

/* Nanoseconds for one steal of half of n, all in one processor's cache: victims enough that the clock does not count.
 */
static double half_on_one_core(uint64_t n, uint64_t victims, uint64_t turns)
{
    htc_deque        *victim[16], *own;
    htc_deque_options room = { .size = sizeof room, .capacity = victims * n };
    double            seconds = 0;
    void             *item;
    bench_must(victims <= 16 && htc_deque_create(NULL, &room, &own) == HTC_OK, "a deque");
    for (uint64_t v = 0; v < victims; v++) {
        htc_deque_options o = { .size = sizeof o, .capacity = n };
        bench_must(htc_deque_create(NULL, &o, &victim[v]) == HTC_OK, "a deque");
    }
    for (uint64_t t = 0; t < turns; t++) {
        size_t taken = 0;
        for (uint64_t v = 0; v < victims; v++) {
            for (uint64_t i = 0; i < n; i++)
                our_push(victim[v], ITEM(i));
            htc_deque_expose(victim[v]);
        }
        double start = bench_seconds();
        for (uint64_t v = 0; v < victims; v++) {
            bench_must(htc_deque_steal_half(victim[v], own, SIZE_MAX, &taken) == HTC_OK && taken == n / 2, "half");
        }
        seconds += bench_seconds() - start;
        for (uint64_t v = 0; v < victims; v++)
            while (htc_deque_pop(victim[v], &item) == HTC_OK)
                ;
        while (htc_deque_pop(own, &item) == HTC_OK)
            ;
    }
    for (uint64_t v = 0; v < victims; v++)
        htc_deque_destroy(victim[v]);
    htc_deque_destroy(own);
    return 1e9 * seconds / (double)(turns * victims);
}

static void steal_half_here(const bench *b)
{
    static const struct {
        uint64_t n, victims;
        double   goal;
    } sizes[] = { { 64, 16, 5 }, { 256, 8, 0 }, { 1024, 4, 3 }, { 4096, 1, 0 }, { 16384, 1, 0 }, { 65536, 1, 0 } };
    double size[6], cost[6];
    for (size_t s = 0; s < 6; s++) {
        runs r = { .n = 0 };
        for (int i = 0; i < 7; i++)
            add(&r, half_on_one_core(sizes[s].n, sizes[s].victims,
                                     (b->quick ? 400000 : 2000000) / (sizes[s].n * sizes[s].victims) + 1));
        size[s] = (double)sizes[s].n;
        cost[s] = median(&r);
        say(b, "steal half on one core, an item", sizes[s].n, "ns", cost[s] / (size[s] / 2), sizes[s].goal);
    }
    bench_growth(b, "steal half on one core", size, cost, 6);
}

static void growth_with_depth(const bench *b)
{
    double size[6], cost[6];
    for (size_t s = 0; s < 6; s++) {
        runs r = { .n = 0 };
        size[s] = pow(10, (double)s);
        for (int i = 0; i < 3; i++)
            add(&r, push_pop(&ours, (uint64_t)size[s], b->quick ? 1000000 : 4000000));
        cost[s] = median(&r);
    }
    bench_growth(b, "push + pop", size, cost, 6);
}

static void find_shared_library(void)
{
#ifdef SHARED_LIBRARY
    void *library = dlopen(SHARED_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (library) {
        *(void **)&shared_push_call = dlsym(library, "htc_deque_push");
        *(void **)&shared_pop_call = dlsym(library, "htc_deque_pop");
    }
#endif
    if (!shared_push_call)
        fprintf(stderr, "no shared library: its rows are left out\n");
}

int main(int argc, char **argv)
{
    bench b = bench_open("deque", argc, argv);
    bench_must(pthread_getaffinity_np(pthread_self(), sizeof deque_processors, &deque_processors) == 0,
               "the list of processors");
    int processors = CPU_COUNT(&deque_processors);
    pin(0);
    find_shared_library();
    owner_alone(&b, 1, 3);
    owner_alone(&b, 1000, 5);
    growth_with_depth(&b);
    nothing_to_steal(&b);
    steal_half_here(&b);
    if (processors > 1) {
        deque_one_producer(&b, deque_thieves(&b));
    } else {
        fprintf(stderr, "one processor: what two threads do is left out\n");
    }
    deque_fib(&b, processors);
    return bench_close(&b);
}
