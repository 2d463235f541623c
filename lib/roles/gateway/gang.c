#include "roles/gateway/gang.h"

#include <assert.h>

static uint32_t sum_of(const gang_site *sites, size_t n, uint32_t group, int at_once, int untaken)
{
    uint32_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += sites[i].group == group && !(untaken && sites[i].taken) ? at_once ? sites[i].now : sites[i].most : 0;
    return sum;
}

uint32_t htc__gang_most(const gang_site *sites, size_t n)
{
    uint32_t most = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t its = sum_of(sites, n, sites[i].group, 0, 0);
        most = its > most ? its : most;
    }
    return most;
}

/* The group that has most of them now, of those that have enough. n: there is none. */
static size_t choose_group(const gang_site *sites, size_t n, uint32_t members, int at_once)
{
    size_t   best = n;
    uint32_t most = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t now = sum_of(sites, n, sites[i].group, 1, 1);
        if (sum_of(sites, n, sites[i].group, at_once, 1) >= members && (best == n || now > most)) {
            best = i;
            most = now;
        }
    }
    return best;
}

int htc__gang_plan(const gang_site *sites, size_t n, uint32_t members, int at_once, uint32_t *parts)
{
    size_t of = choose_group(sites, n, members, at_once);
    for (size_t i = 0; i < n; i++)
        parts[i] = 0;
    if (of == n || members == 0)
        return 0;
    for (uint32_t left = members; left;) {
        size_t best = n;
        for (size_t i = 0; i < n; i++)
            if (sites[i].group == sites[of].group && !sites[i].taken && parts[i] == 0 && (at_once ? sites[i].now : sites[i].most) &&
                (best == n || sites[i].now > sites[best].now))
                best = i;
        assert(best < n); /* the group has enough */
        uint32_t most = at_once ? sites[best].now : sites[best].most;
        parts[best] = most < left ? most : left;
        left -= parts[best];
    }
    return 1;
}

uint32_t htc__gang_choose(const gang_agent *agents, size_t n, uint32_t lead, uint32_t part, const uint32_t *parts, size_t n_sites, uint32_t *members)
{
    uint32_t count = 0, wanted = 0, led = lead < n && agents[lead].room >= part && parts[agents[lead].site];
    if (led)
        members[count++] = lead;
    for (uint32_t s = 0; s < n_sites; s++) {
        uint32_t left = parts[s] - (led && s == agents[lead].site);
        wanted += parts[s];
        for (uint32_t i = 0; i < n && left; i++)
            if (agents[i].site == s && agents[i].room >= part && !(led && i == lead)) {
                members[count++] = i;
                left--;
            }
        if (left)
            return 0;
    }
    return count == wanted ? count : 0;
}

void htc__gang_begin(gang_watch *w, htc_ns now)
{
    w->since = now;
    w->not_before = 0;
}

int htc__gang_is_late(const gang_watch *w, htc_ns now, htc_ns collect_ns)
{
    return w->since && now - w->since >= collect_ns;
}

void htc__gang_give_up(gang_watch *w, htc_ns now, htc_ns collect_ns)
{
    uint32_t doublings = w->given_up < GANG_DOUBLINGS ? w->given_up : GANG_DOUBLINGS;
    w->since = 0;
    w->not_before = now + (collect_ns << doublings);
    w->given_up++;
}

void htc__gang_done(gang_watch *w)
{
    *w = (gang_watch){ 0 };
}

int htc__gang_rests(const gang_watch *w, htc_ns now)
{
    return now < w->not_before;
}
