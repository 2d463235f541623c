#include "roles/gateway/site_choice.h"

#include <stdio.h>
#include <string.h>

#include "core/util.h"

#define GIB (1 << 30)

offer htc__site_offers(const machine_wish *w, const site_nodes *s)
{
    static const machine_kinds none;
    return htc__machine_offers(w, &(machine_offer){ .site = s->name, .node = s->node ? s->node : "", .kinds = s->kinds ? s->kinds : &none, .many = s->many });
}

/* It is known to be another machine than the task asks for. */
static int is_none(const site_wish *wish, const site_nodes *s)
{
    return wish->asks && htc__site_offers(wish->asks, s) == OFFER_NO;
}

static void refuse_machine(const machine_wish *w, char *why, size_t cap)
{
    char text[200];
    htc__machine_wish_text(w, text, sizeof text);
    snprintf(why, cap, "asks for %s, and no site is that", text);
}

/* Is there too little of something at every site? Then why says of what. */
static int counts_too_much(const site_wish *wish, const site_nodes *sites, size_t n, char *why, size_t cap)
{
    const htc_resource *lack = NULL;
    uint32_t            most = 0;
    for (size_t i = 0; wish->counts && wish->counts->n && i < n; i++) {
        if (is_none(wish, &sites[i]))
            continue;
        const htc_resource *its = sites[i].unknown ? NULL : sites[i].counted ? htc__counted_never(sites[i].counted, wish->counts) : &wish->counts->of[0];
        uint32_t            total = its && sites[i].counted ? htc__counted_total(sites[i].counted, its->name) : 0;
        if (!its)
            return 0;
        if (!lack || total > most) {
            lack = its;
            most = total;
        }
    }
    if (lack)
        snprintf(why, cap, most ? "asks for %u of %s, and no site has more than %u" : "asks for %u of %s, and no site has it", lack->count, lack->name, most);
    return lack != NULL;
}

htc_status htc__site_fits(const site_wish *wish, const site_nodes *sites, size_t n, double wall_max_s, char *why, size_t cap)
{
    uint64_t memory = 0;
    uint32_t cores = 0, slots = 0, named = 0;
    for (size_t i = 0; i < n; i++) {
        const site_nodes *s = &sites[i];
        if (is_none(wish, s))
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
    if (!named && !wish->asks)
        snprintf(why, cap, "can run nowhere: there is no site");
    else if (!named)
        refuse_machine(wish->asks, why, cap);
    else if (wish->memory > memory)
        snprintf(why, cap, "asks for %.1f GiB of memory, and the largest node has %.1f GiB", (double)wish->memory / GIB, (double)memory / GIB);
    else if (wish->cores > cores)
        snprintf(why, cap, "asks for %u core%s, and the largest node has %u", wish->cores, htc__plural(wish->cores), cores);
    else if (wall_max_s > 0 && wish->wall_s > wall_max_s)
        snprintf(why, cap, "asks for a wall time of %.0f s, and the sites allow %.0f s", wish->wall_s, wall_max_s);
    else if (wish->cores > slots && wish->cores > 1)
        snprintf(why, cap, "asks for %u cores, and an agent has %u slot%s at most", wish->cores, slots, slots == 1 ? "" : "s");
    else if (counts_too_much(wish, sites, n, why, cap))
        return HTC_ENOFIT;
    else
        return HTC_OK;
    return HTC_ENOFIT;
}

uint64_t htc__site_wants_slots(const site_now *s)
{
    uint64_t wants = s->usable && s->startable > s->takers ? s->startable - s->takers : 0;
    return wants < s->free ? wants : s->free;
}

#define AT_ONCE (10 * HTC_SECOND) /* a wait that is none */

static htc_ns wait_of(const site_rank *s)
{
    return s->start_ns > s->waits_ns ? s->start_ns : s->waits_ns;
}

static int is_better(const site_rank *a, const site_rank *b)
{
    htc_ns wait = wait_of(a), its = wait_of(b);
    if ((wait >= AT_ONCE) != (its >= AT_ONCE))
        return wait < AT_ONCE;
    double cost = (double)wait / a->speed, its_cost = (double)its / b->speed;
    if (wait >= AT_ONCE)
        return cost != its_cost ? cost < its_cost : a->there > b->there;
    if (a->speed != b->speed)
        return a->speed > b->speed;
    return a->there != b->there ? a->there > b->there : a->free > b->free;
}

void htc__site_order(const site_rank *sites, uint32_t n, uint32_t *order)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = i;
        for (; at > 0 && is_better(&sites[i], &sites[order[at - 1]]); at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
}
