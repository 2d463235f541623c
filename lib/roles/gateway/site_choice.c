#include "roles/gateway/site_choice.h"

#include <stdio.h>
#include <string.h>

#define GIB (1 << 30)

htc_status htc__site_fits(const site_wish *wish, const site_nodes *sites, size_t n, double wall_max_s, char *why, size_t cap)
{
    uint64_t memory = 0;
    uint32_t cores = 0, slots = 0, named = 0;
    for (size_t i = 0; i < n; i++) {
        const site_nodes *s = &sites[i];
        if (wish->host && strcmp(wish->host, s->name) != 0)
            continue;
        named++;
        if (s->memory == 0)
            memory = UINT64_MAX;
        else if (s->memory > memory)
            memory = s->memory;
        if (s->cores > cores)
            cores = s->cores;
        if (s->slots > slots)
            slots = s->slots;
    }
    if (!named)
        snprintf(why, cap, "asks for host %s, and no site has that name", wish->host ? wish->host : "?");
    else if (wish->memory > memory)
        snprintf(why, cap, "asks for %.1f GiB of memory, and the largest node has %.1f GiB", (double)wish->memory / GIB, (double)memory / GIB);
    else if (wish->cores > cores)
        snprintf(why, cap, "asks for %u cores, and the largest node has %u", wish->cores, cores);
    else if (wall_max_s > 0 && wish->wall_s > wall_max_s)
        snprintf(why, cap, "asks for a wall time of %.0f s, and the sites allow %.0f s", wish->wall_s, wall_max_s);
    else if (wish->cores > slots && wish->cores > 1)
        snprintf(why, cap, "asks for %u cores, and an agent has %u slot%s at most", wish->cores, slots, slots == 1 ? "" : "s");
    else
        return HTC_OK;
    return HTC_ENOFIT;
}

uint64_t htc__site_wants_slots(const site_now *s)
{
    uint64_t wants = s->usable && s->startable > s->takers ? s->startable - s->takers : 0;
    return wants < s->free ? wants : s->free;
}
