/* Sums in order of arrival: a tree of Fenwick (1994) over stretches of places. */
#include "sched/allot/allot_arrivals.h"

uint32_t htc__arrivals_places_for(uint32_t users)
{
    return users + users / 2 + HTC__ARRIVAL_STRETCH;
}

uint32_t htc__arrivals_stretches_for(uint32_t places)
{
    return (places + HTC__ARRIVAL_STRETCH - 1) / HTC__ARRIVAL_STRETCH;
}

/* Sums over more stretches lie elsewhere in the tree. */
void htc__arrivals_widen(htc__arrivals *a, uint32_t room)
{
    if (room == a->room)
        return;
    a->room = room;
    htc__arrivals_sum_up(a);
}

uint32_t htc__arrivals_come(htc__arrivals *a, uint32_t user)
{
    a->users[a->used] = user;
    return a->used++;
}

void htc__arrivals_go(htc__arrivals *a, uint32_t place)
{
    a->users[place] = HTC_ALLOT_NOBODY;
}

void htc__arrivals_expect(const htc__arrivals *a, uint32_t place)
{
    __builtin_prefetch(&a->weights[place], 1);
    __builtin_prefetch(&a->users[place], 1);
}

void htc__arrivals_count(htc__arrivals *a, uint32_t place, uint64_t weight)
{
    uint32_t stretches = htc__arrivals_stretches_for(a->room);
    uint64_t more = weight - a->weights[place]; /* less wraps around, and so do the sums */
    a->weights[place] = weight;
    for (uint32_t s = place / HTC__ARRIVAL_STRETCH; s < stretches; s |= s + 1)
        a->sums[s] += more;
}

uint64_t htc__arrivals_before(const htc__arrivals *a, uint32_t place)
{
    uint64_t before = 0;
    for (uint32_t i = place / HTC__ARRIVAL_STRETCH * HTC__ARRIVAL_STRETCH; i < place; i++)
        before += a->weights[i];
    for (uint32_t s = place / HTC__ARRIVAL_STRETCH; s > 0; s &= s - 1)
        before += a->sums[s - 1];
    return before;
}

void htc__arrivals_sum_up(htc__arrivals *a)
{
    uint32_t stretches = htc__arrivals_stretches_for(a->room);
    for (uint32_t s = 0; s < stretches; s++)
        a->sums[s] = 0;
    for (uint32_t i = 0; i < a->used; i++)
        a->sums[i / HTC__ARRIVAL_STRETCH] += a->weights[i];
    for (uint32_t s = 0; s < stretches; s++)
        if ((s | (s + 1)) < stretches)
            a->sums[s | (s + 1)] += a->sums[s];
}
