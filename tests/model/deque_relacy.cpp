/* The deque's algorithm, the same text that the library is made of, under relacy: random schedules, and loads that
 * answer old values wherever the memory model allows it. Indexes of 3 bits, begun just below their wrap; rings of two
 * slots, or of two that grow to four. Then each memory order is weakened to relaxed, and has to be missed: the table
 * that is printed.
 *
 *     deque_relacy [iterations]       HTC_TEST_FULL in the environment: twenty times as many */
#define HTC__DEQUE_ATOMICS    "model/deque_relacy.hpp"
#define HTC__DEQUE_INDEX_BITS 3
#include "sched/deque/deque_core.h"

#include <cstdio>
#include <cstdlib>
#include <ostream>
#include <streambuf>

enum { ITEMS = 8, TRIES = 5 };

/* One owner and some thieves. The first thief steals half into a deque of its own, which the next one robs. */
template <int slots_max, int thieves>
struct deque_suite : rl::test_suite<deque_suite<slots_max, thieves>, thieves + 1> {
    struct one {
        htc_deque  deque;
        deque_ring ring[2];
        deque_slot slots[2], more[4];

        void begin(uint64_t start)
        {
            ring[0].mask = 1;
            ring[0].slots = slots;
            ring[1].mask = 3;
            ring[1].slots = more;
            deque_begin(&deque, &ring[0], slots_max, start);
        }

        /* As make_room in deque.c does. */
        bool room(uint64_t n)
        {
            deque_collect(&deque, n);
            if (deque_room(&deque) < n && deque.mask + 1 < (uint64_t)slots_max)
                deque_grow(&deque, &ring[1]);
            return deque_room(&deque) > 0;
        }
    };
    one      victim, own;
    unsigned taken[ITEMS + 1];
    size_t   pushed;

    void before()
    {
        victim.begin(6);
        own.begin(7);
        for (unsigned &t : taken)
            t = 0;
        pushed = 0;
    }

    void take(void *item)
    {
        uintptr_t i = (uintptr_t)item;
        RL_ASSERT(i >= 1 && i <= ITEMS && taken[i] == 0);
        taken[i] = 1;
    }

    void drain(one &from)
    {
        void *item;
        while (deque_pop(&from.deque, &item))
            take(item);
    }

    void after()
    {
        drain(victim);
        drain(own);
        for (size_t i = 1; i <= pushed; i++)
            RL_ASSERT(taken[i] == 1);
    }

    void owner()
    {
        void *item;
        for (int step = 0; step < 2 * ITEMS; step++)
            switch (rl::rand(5)) {
            case 0:
            case 1:
            case 2:
                if (pushed < ITEMS && (deque_room(&victim.deque) > 0 || victim.room(1)))
                    if (deque_push(&victim.deque, (void *)(uintptr_t)(pushed + 1)))
                        pushed++;
                break;
            case 3:
                if (deque_pop(&victim.deque, &item))
                    take(item);
                break;
            default:
                deque_expose(&victim.deque);
            }
    }

    void half()
    {
        deque_word w = deque_look(&victim.deque);
        uint64_t   n = deque_half(&victim.deque, w);
        if (n > deque_room(&own.deque) && !own.room(n))
            return;
        n = n < deque_room(&own.deque) ? n : deque_room(&own.deque);
        if (n == 0)
            deque_ask(&victim.deque);
        else if (deque_claim(&victim.deque, w, n))
            deque_move(&victim.deque, w, n, &own.deque);
    }

    void thread(unsigned index)
    {
        void *item;
        if (index == 0)
            owner();
        for (int i = 0; index > 0 && i < TRIES; i++) {
            if (index == 1 && rl::rand(2))
                half();
            else if (index == 1 && deque_pop(&own.deque, &item))
                take(item);
            else if (deque_steal(index == 2 && rl::rand(2) ? &own.deque : &victim.deque, &item) > 0)
                take(item);
        }
    }
};

typedef bool simulation(rl::test_params &);

static simulation *const simulations[] = {
    rl::simulate<deque_suite<2, 1>>,
    rl::simulate<deque_suite<4, 1>>,
    rl::simulate<deque_suite<2, 2>>,
    rl::simulate<deque_suite<4, 2>>,
};

/* Relacy talks. */
struct nobody : std::streambuf {
    int overflow(int c)
    {
        return c;
    }
};

/* What was found: NULL if nothing was. */
static const char *find(unsigned long iterations, unsigned long *at)
{
    static nobody       listens;
    static std::ostream nowhere(&listens);
    *at = 0;
    for (simulation *simulate : simulations) {
        rl::test_params p;
        p.iteration_count = iterations;
        p.search_type = rl::random_scheduler_type;
        p.output_stream = p.progress_stream = &nowhere;
        p.execution_depth_limit = 10000;
        if (simulate(p)) {
            *at += iterations;
            continue;
        }
        *at += (unsigned long)p.stop_iteration;
        return rl::test_result_str(p.test_result);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    static const struct {
        const char       *name;
        rl::memory_order *order;
    } orders[] = {
        { "publish", &order_publish },   { "claim", &order_claim },   { "ring_set", &order_ring_set },
        { "ring_get", &order_ring_get }, { "copied", &order_copied }, { "collect", &order_collect },
    };
    unsigned long iterations = argc > 1 ? strtoul(argv[1], NULL, 10) : 50000, at;
    int           failed = 0;
    if (getenv("HTC_TEST_FULL"))
        iterations *= 20;
    const char *found = find(iterations, &at);
    printf("as it is: %s, %lu schedules\n", found ? found : "nothing found", at);
    failed |= found != NULL;
    for (auto &o : orders) {
        rl::memory_order kept = *o.order;
        *o.order = rl::mo_relaxed;
        found = find(iterations, &at);
        *o.order = kept;
        printf("%-8s relaxed: %s, %lu schedules\n", o.name, found ? found : "NOT NOTICED", at);
        failed |= found == NULL;
    }
    return failed;
}
