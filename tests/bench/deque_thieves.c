/* What a thief costs the owner, and what a steal costs the thief. */
#include "deque_bench.h"

/* Steals without rest until told to stop. */
INLINE void *hammers(const kind *k, void *arg)
{
    match   *m = arg;
    void    *q = m->q;
    uint64_t got = 0;
    pin_second();
    atomic_store(&m->go, 1);
    while (!atomic_load_explicit(&m->stop, memory_order_acquire)) {
        if (k->steal(q))
            got++;
        else
            relax();
    }
    m->got = got;
    return NULL;
}

static void *hammers_ours(void *arg)
{
    return hammers(&ours, arg);
}

static void *hammers_peer(void *arg)
{
    return hammers(&peer, arg);
}

/* The owner pushes bursts and pops until nothing is left. Nanoseconds of its processor an item. */
INLINE double hammered(const kind *k, void *(*thief)(void *), uint64_t burst, uint64_t items, double *stolen)
{
    match     m = { .q = k->create() };
    pthread_t thread;
    uint64_t  mine = 0, rounds = items / burst;
    start_second(&thread, thief, &m);
    double start = bench_cpu_seconds();
    for (uint64_t r = 0; r < rounds; r++) {
        for (uint64_t i = 0; i < burst; i++)
            k->push(m.q, ITEM(i));
        while (k->pop(m.q))
            mine++;
    }
    double seconds = bench_cpu_seconds() - start;
    atomic_store(&m.stop, 1);
    pthread_join(thread, NULL);
    while (k->pop(m.q))
        mine++;
    bench_must(mine + m.got == rounds * burst, "every item once");
    *stolen = (double)m.got / (double)(rounds * burst);
    k->destroy(m.q);
    return 1e9 * seconds / (double)(rounds * burst);
}

static void while_a_thief_hammers(const bench *b)
{
    static const struct {
        uint64_t    burst, items;
        double      goal, of_textbook;
        const char *name, *peer_name, *share;
    } cases[] = {
        { 1, 2000000, 15, 0, "hammered, depth 1", "hammered textbook, depth 1", "hammered, depth 1: stolen share" },
        { 64, 2000000, 15, 0.5, "hammered, bursts of 64", "hammered textbook, bursts of 64",
          "hammered, bursts of 64: stolen share" },
        { 1000, 2000000, 15, 0, "hammered, bursts of 1000", "hammered textbook, bursts of 1000",
          "hammered, bursts of 1000: stolen share" },
    };
    for (size_t c = 0; c < 3; c++) {
        runs     us = { .n = 0 }, them = { .n = 0 }, share = { .n = 0 };
        uint64_t items = cases[c].items / (b->quick ? 4 : 1);
        for (int i = 0; i < (b->quick ? 7 : 15); i++) {
            double stolen;
            add(&us, hammered(&ours, hammers_ours, cases[c].burst, items, &stolen));
            add(&share, stolen);
            add(&them, hammered(&peer, hammers_peer, cases[c].burst, items / 4, &stolen));
        }
        say_runs(b, cases[c].name, cases[c].burst, "ns", &us,
                 larger(cases[c].goal, cases[c].of_textbook * median(&them)), 0);
        say(b, cases[c].peer_name, cases[c].burst, "ns", median(&them), 0);
        say(b, cases[c].share, cases[c].burst, "1", median(&share), 0);
    }
}

/* Steals what the other core has just pushed: batch single steals, timed together. */
INLINE void *steals_batches(const kind *k, void *arg)
{
    match *m = arg;
    pin_second();
    atomic_store(&m->go, 1);
    for (unsigned r = 2; r < 2 + m->rounds; r++) {
        wait_for(&m->go, r);
        double start = bench_seconds();
        for (uint64_t i = 0; i < m->batch; i++)
            if (!k->steal(m->q))
                bench_must(0, "a steal nobody disturbs");
        m->each[r - 2] = bench_seconds() - start;
        atomic_store_explicit(&m->stop, r, memory_order_release);
    }
    return NULL;
}

static void *steals_batches_of_ours(void *arg)
{
    return steals_batches(&ours, arg);
}

static void *steals_batches_of_peer(void *arg)
{
    return steals_batches(&peer, arg);
}

/* Half of what the other core has just pushed, in one call. */
static void *steals_half(void *arg)
{
    match *m = arg;
    size_t taken = 0;
    pin_second();
    atomic_store(&m->go, 1);
    for (unsigned r = 2; r < 2 + m->rounds; r++) {
        wait_for(&m->go, r);
        double     start = bench_seconds();
        htc_status status = htc_deque_steal_half(m->q, m->own, SIZE_MAX, &taken);
        m->each[r - 2] = bench_seconds() - start;
        bench_must(status == HTC_OK && taken == (m->batch + 1) / 2, "half");
        while (our_pop(m->own))
            ;
        atomic_store_explicit(&m->stop, r, memory_order_release);
    }
    return NULL;
}

static double clock_ns(void)
{
    double start = bench_seconds();
    for (int i = 0; i < 100000; i++)
        bench_seconds();
    return 1e9 * (bench_seconds() - start) / 100000;
}

/* Nanoseconds of a thief's round, without those of the clock: the median, so that a round in which somebody else had
 * the processor does not count. */
INLINE double one_round(const kind *k, void *(*thief)(void *), uint64_t batch, uint64_t rounds)
{
    static double each[20000];
    match         m = { .q = k->create(), .own = our_create(), .rounds = rounds, .batch = batch, .each = each };
    pthread_t     thread;
    bench_must(rounds <= 20000, "room for the rounds");
    start_second(&thread, thief, &m);
    for (unsigned r = 2; r < 2 + rounds; r++) {
        for (uint64_t i = 0; i < batch; i++)
            k->push(m.q, ITEM(i));
        k->expose(m.q);
        atomic_store_explicit(&m.go, r, memory_order_release);
        wait_for(&m.stop, r);
        while (k->pop(m.q))
            ;
    }
    pthread_join(thread, NULL);
    k->destroy(m.q);
    our_destroy(m.own);
    return 1e9 * bench_median(each, rounds) - clock_ns();
}

static double from_another_core(const bench *b)
{
    runs     one = { .n = 0 }, one_peer = { .n = 0 }, many = { .n = 0 }, many_peer = { .n = 0 }, half = { .n = 0 };
    uint64_t rounds = b->quick ? 5000 : 20000;
    for (int i = 0; i < (b->quick ? 9 : 21); i++) {
        add(&one, one_round(&ours, steals_batches_of_ours, 1, rounds));
        add(&one_peer, one_round(&peer, steals_batches_of_peer, 1, rounds));
        add(&half, one_round(&ours, steals_half, 64, rounds / 4));
        add(&many, one_round(&ours, steals_batches_of_ours, 1000, rounds / 100) / 1000);
        add(&many_peer, one_round(&peer, steals_batches_of_peer, 1000, rounds / 100) / 1000);
    }
    runs to_peer = ratios(&one, &one_peer), many_to_peer = ratios(&many, &many_peer), to_one = ratios(&half, &one);
    say(b, "steal one from another core", 1, "ns", median(&one), 0);
    say(b, "steal one from another core, textbook", 1, "ns", median(&one_peer), 0);
    say_runs(b, "steal one from another core, of the textbook's", 1, "1", &to_peer, 0.8, 0);
    say(b, "steal one of many from another core", 1000, "ns", median(&many), 0);
    say(b, "steal one of many from another core, textbook", 1000, "ns", median(&many_peer), 0);
    say(b, "steal one of many from another core, of the textbook's", 1000, "1", median(&many_to_peer), 0);
    say(b, "steal half of 64 from another core", 64, "ns", median(&half), 0);
    say_runs(b, "steal half of 64 from another core, of one single steal", 64, "1", &to_one, 1.6, 0);
    return median(&one_peer);
}

double deque_thieves(const bench *b)
{
    while_a_thief_hammers(b);
    return from_another_core(b);
}
