/* Tasks of some 180 ns from one producer, on two cores. */
#include "deque_bench.h"

/* About 180 ns of work that nobody can shorten. */
static uint64_t work_units = 160;

INLINE void work(void)
{
    uint64_t x = 1;
    for (uint64_t i = 0; i < work_units; i++)
        x = x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    __asm__ volatile("" : : "r"(x));
}

static double work_ns(void)
{
    double best = 1e9;
    for (int i = 0; i < 20; i++) {
        double start = bench_cpu_seconds();
        for (int j = 0; j < 5000; j++)
            work();
        double ns = 1e9 * (bench_cpu_seconds() - start) / 5000;
        best = ns < best ? ns : best;
    }
    return best;
}

enum { BURST = 1024 };

static void *works_half(void *arg)
{
    match *m = arg;
    pin_second();
    atomic_store(&m->go, 1);
    wait_for(&m->go, 2);
    for (uint64_t i = 0; i < m->rounds * BURST / 2; i++)
        work();
    m->end = bench_seconds();
    return NULL;
}

/* Two loops that know nothing of each other: what two cores can do. */
static double independent(uint64_t rounds)
{
    match     m = { .rounds = rounds };
    pthread_t thread;
    start_second(&thread, works_half, &m);
    double start = bench_seconds();
    atomic_store(&m.go, 2);
    for (uint64_t i = 0; i < rounds * BURST / 2; i++)
        work();
    double end = bench_seconds();
    pthread_join(thread, NULL);
    return larger(end, m.end) - start;
}

/* Our thief takes half into its own deque. */
static void *works_for_ours(void *arg)
{
    match   *m = arg;
    void    *victim = m->q, *own = m->own;
    uint64_t got = 0;
    pin_second();
    atomic_store(&m->go, 1);
    for (;;) {
        if (our_pop(own)) {
            work();
            got++;
        } else if (htc_deque_steal_half(victim, own, SIZE_MAX, NULL) != HTC_OK) {
            if (atomic_load_explicit(&m->stop, memory_order_acquire))
                break;
            relax();
        }
    }
    m->end = bench_seconds();
    m->got = got;
    return NULL;
}

static void *works_for_peer(void *arg)
{
    match   *m = arg;
    void    *victim = m->q;
    uint64_t got = 0;
    pin_second();
    atomic_store(&m->go, 1);
    while (!atomic_load_explicit(&m->stop, memory_order_acquire)) {
        if (textbook_steal(victim)) {
            work();
            got++;
        } else {
            relax();
        }
    }
    m->end = bench_seconds();
    m->got = got;
    return NULL;
}

/* Until the last task is done, by whomever. */
INLINE double produced(const kind *k, void *(*thief)(void *), uint64_t rounds, double *stolen)
{
    match     m = { .q = k->create(), .own = our_create() };
    pthread_t thread;
    uint64_t  mine = 0;
    start_second(&thread, thief, &m);
    double start = bench_seconds();
    for (uint64_t r = 0; r < rounds; r++) {
        for (uint64_t i = 0; i < BURST; i++)
            k->push(m.q, ITEM(i));
        while (k->pop(m.q)) {
            work();
            mine++;
        }
    }
    double end = bench_seconds();
    atomic_store(&m.stop, 1);
    pthread_join(thread, NULL);
    bench_must(mine + m.got == rounds * BURST, "every item once");
    *stolen = (double)m.got / (double)(rounds * BURST);
    k->destroy(m.q);
    our_destroy(m.own);
    return larger(end, m.end) - start;
}

void deque_one_producer(const bench *b, double textbook_steal_ns)
{
    runs     us = { .n = 0 }, them = { .n = 0 }, share = { .n = 0 };
    uint64_t rounds = b->quick ? 200 : 500;
    work_units = (uint64_t)((double)work_units * 180 / work_ns());
    for (int i = 0; i < (b->quick ? 11 : 31); i++) {
        double stolen, alone = independent(rounds), with_us = produced(&ours, works_for_ours, rounds, &stolen);
        add(&us, (alone + independent(rounds)) / 2 / with_us);
        add(&share, stolen);
        add(&them, alone / produced(&peer, works_for_peer, rounds, &stolen));
    }
    say(b, "task of the speed-up", 0, "ns", work_ns(), 0);
    say_runs(b, "speed-up of 2 cores, of two independent loops", BURST, "1", &us, textbook_steal_ns <= 130 ? 0.95 : 0.9,
             1);
    say_more(b, "speed-up of 2 cores, of two independent loops, textbook", BURST, median(&them), 0);
    say(b, "speed-up of 2 cores: stolen share", BURST, "1", median(&share), 0);
}
