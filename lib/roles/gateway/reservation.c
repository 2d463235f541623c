#include "roles/gateway/reservation.h"

static int longer(const reservation_wait *a, const reservation_wait *b)
{
    return a->since < b->since || (a->since == b->since && a->job < b->job);
}

size_t htc__reservation_next(const reservation_wait *waits, size_t n, uint64_t holder, htc_ns now, htc_ns wait_ns)
{
    size_t best = n;
    for (size_t i = 0; i < n; i++) {
        if (!waits[i].could)
            continue;
        if (holder && waits[i].job == holder)
            return i;
        if (now >= waits[i].since && now - waits[i].since >= wait_ns && (best == n || longer(&waits[i], &waits[best])))
            best = i;
    }
    return best;
}

size_t htc__reservation_site(const reservation_site *sites, size_t n, uint32_t slots)
{
    size_t   best = n;
    uint32_t lacks = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t its = slots > sites[i].now ? slots - sites[i].now : 0;
        if (sites[i].most >= slots && (best == n || its < lacks || (its == lacks && sites[i].now > sites[best].now))) {
            best = i;
            lacks = its;
        }
    }
    return best;
}
