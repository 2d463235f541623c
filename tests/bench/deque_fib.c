/* fib(30) with a spawn for each call: what a task costs that does nothing. */
#include "deque_bench.h"

enum { FIB_N = 30, FIB_RESULT = 832040, FIB_SPAWNS = 1346268 };

/* Lives on the stack of who spawned it. */
typedef struct fib_task {
    uint64_t    n, result;
    atomic_uint done;
} fib_task;

typedef struct fib_worker {
    htc_deque *own, *other; /* other: NULL if it is alone */
} fib_worker;

static uint64_t fib(const fib_worker *w, uint64_t n);

static void fib_helps(const fib_worker *w)
{
    void *stolen;
    if (!w->other || htc_deque_steal(w->other, &stolen) != HTC_OK) {
        relax();
        return;
    }
    fib_task *task = stolen;
    task->result = fib(w, task->n);
    atomic_store_explicit(&task->done, 1, memory_order_release);
}

static uint64_t fib_waits(const fib_worker *w, fib_task *task)
{
    while (!atomic_load_explicit(&task->done, memory_order_acquire))
        fib_helps(w);
    return task->result;
}

/* What it spawned last comes back first, or was stolen with all before it: then the deque is empty. */
static uint64_t fib(const fib_worker *w, uint64_t n)
{
    if (n < 2)
        return n;
    fib_task spawned = { .n = n - 2 };
    void    *back;
    our_push(w->own, &spawned);
    uint64_t called = fib(w, n - 1);
    if (htc_deque_pop(w->own, &back) == HTC_OK)
        return called + fib(w, spawned.n);
    return called + fib_waits(w, &spawned);
}

static void *fib_second(void *arg)
{
    match     *m = arg;
    fib_worker w = { m->own, m->q };
    pin_second();
    atomic_store(&m->go, 1);
    while (!atomic_load_explicit(&m->stop, memory_order_acquire))
        fib_helps(&w);
    return NULL;
}

static double fib_ns(int threads, int times)
{
    match      m = { .q = our_create(), .own = our_create() };
    fib_worker w = { m.q, threads == 2 ? m.own : NULL };
    pthread_t  thread;
    if (threads == 2)
        start_second(&thread, fib_second, &m);
    double (*clock)(void) = threads == 1 ? bench_cpu_seconds : bench_seconds;
    double start = clock();
    for (int i = 0; i < times; i++)
        bench_must(fib(&w, FIB_N) == FIB_RESULT, "fib");
    double seconds = clock() - start;
    atomic_store(&m.stop, 1);
    if (threads == 2)
        pthread_join(thread, NULL);
    our_destroy(m.q);
    our_destroy(m.own);
    return 1e9 * seconds / times / FIB_SPAWNS;
}

static uint64_t fib_serial(uint64_t n)
{
    return n < 2 ? n : fib_serial(n - 1) + fib_serial(n - 2);
}

void deque_fib(const bench *b, int processors)
{
    runs one = { .n = 0 }, both = { .n = 0 }, serial = { .n = 0 };
    int  times = b->quick ? 2 : 5;
    for (int i = 0; i < (b->quick ? 7 : 15); i++) {
        volatile uint64_t n = FIB_N;
        double            start = bench_cpu_seconds();
        for (int t = 0; t < times; t++)
            bench_must(fib_serial(n) == FIB_RESULT, "fib");
        add(&serial, 1e9 * (bench_cpu_seconds() - start) / times / FIB_SPAWNS);
        add(&one, fib_ns(1, times));
        if (processors > 1)
            add(&both, fib_ns(2, times));
    }
    say(b, "fib(30), a serial call", 1, "ns", median(&serial), 0);
    say_runs(b, "fib(30), a task, 1 thread", 1, "ns", &one, 10, 0);
    if (processors > 1)
        say_runs(b, "fib(30), a task, 2 threads", 2, "ns", &both, 6, 0);
}
