/* Who gets slots and who gives them: gathers what htc_allot_plan wants to know, and does what it says. */
#include <string.h>

#include "roles/gateway/gateway.h"

void gw_reallocate_soon(htc_gateway *gw)
{
    gw->reallocate_wanted = 1;
}

static int site_usable(const htc_gateway *gw, const site *s)
{
    return s->not_before <= gw->now;
}

/* The one expected to finish first: an idle one, one that has not registered, else the one whose task began first. */
static agent *to_drain(htc_gateway *gw, const user *u)
{
    agent *a, *next, *best = NULL;
    HASH_ITER(hh, gw->agents, a, next)
    {
        if (a->user != u || a->draining || a->stop || a->state > AGENT_READY)
            continue;
        uint32_t mine = a->n_held != 0, his = best && best->n_held != 0;
        if (!best || mine < his || (mine == his && (a->since < best->since || (a->since == best->since && a->id < best->id))))
            best = a;
    }
    return best;
}

static agent *newest_drain(htc_gateway *gw, const user *u)
{
    agent *a, *next, *best = NULL;
    HASH_ITER(hh, gw->agents, a, next)
    if (a->user == u && a->draining && !a->stop && a->state <= AGENT_READY && (!best || a->drain_order > best->drain_order))
        best = a;
    return best;
}

static int launch_somewhere(htc_gateway *gw, user *u)
{
    for (uint32_t i = 0; i < gw->n_sites; i++) {
        site *s = &gw->sites[i];
        if (s->used < s->cores && site_usable(gw, s) && gw_startable(gw, u, i)) {
            uint32_t used = s->used;
            gw_agent_launch(gw, u, i);
            return s->used > used;
        }
    }
    return 0;
}

static void carry_out(htc_gateway *gw, user *u, const htc_allot_change *change)
{
    for (uint64_t i = 0; i < change->undrain; i++) {
        agent *a = newest_drain(gw, u);
        if (!a)
            break;
        gw_agent_drain(gw, a, 0);
    }
    for (uint64_t i = 0; i < change->grant; i++)
        if (!launch_somewhere(gw, u))
            break;
    for (uint64_t i = 0; i < change->drain; i++) {
        agent *a = to_drain(gw, u);
        if (!a)
            break;
        gw_agent_drain(gw, a, 1);
    }
}

static int fixed_user(const htc_gateway *gw, const char *name)
{
    for (size_t i = 0; i < gw->n_fair_users; i++)
        if (strcmp(gw->fair_users[i], name) == 0)
            return 1;
    return 0;
}

/* Tasks that wait and could start somewhere. A slot that they could not use is no demand. */
static uint64_t usable(const htc_gateway *gw, const user *u)
{
    uint64_t n = 0;
    for (size_t i = 0; i < gw->n_sites && n < u->queued; i++)
        n += gw_startable(gw, u, i);
    return n < u->queued ? n : u->queued;
}

static void view(const htc_gateway *gw, const user *u, uint64_t id, htc_allot_user *v)
{
    *v = (htc_allot_user){ .weight = u->weight_used, .queued = usable(gw, u), .running = u->busy,
                           .agents = u->agents, .draining = u->draining, .starting = u->starting,
                           .last_served = u->last_served, .arrival = u->arrival, .id = id,
                           .fixed = (uint64_t)fixed_user(gw, u->name) };
}

/* The weight of each as it is set, or also by what his unfinished tasks will take: their number times the mean run time of his
 * tasks so far, or of everybody's as long as none of his has ended. */
static htc_status weigh(htc_gateway *gw, user **who, size_t n)
{
    uint64_t  *priority = htc__alloc(&gw->env, n * sizeof *priority), *weight = htc__alloc(&gw->env, n * sizeof *weight);
    double    *work = htc__alloc(&gw->env, n * sizeof *work);
    double     sum = 0;
    uint32_t   known = 0;
    htc_status status = priority && weight && work ? HTC_OK : HTC_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        known += who[i]->mean_run_s > 0;
        sum += who[i]->mean_run_s;
    }
    for (size_t i = 0; status == HTC_OK && i < n; i++) {
        double mean = who[i]->mean_run_s > 0 ? who[i]->mean_run_s : known ? sum / known : 0;
        priority[i] = who[i]->weight;
        work[i] = (double)(who[i]->queued + who[i]->running) * mean;
    }
    if (status == HTC_OK)
        status = htc_allot_profiled(&gw->env, priority, work, n, gw->options.weight_profiled ? gw->options.gamma : 0, weight);
    for (size_t i = 0; status == HTC_OK && i < n; i++)
        who[i]->weight_used = weight[i];
    htc__free(&gw->env, priority, n * sizeof *priority);
    htc__free(&gw->env, weight, n * sizeof *weight);
    htc__free(&gw->env, work, n * sizeof *work);
    return status;
}

/* Tasks that were handed out ahead run one after the other on their agent: they need no slot of their own. */
static void count_busy(htc_gateway *gw)
{
    for (user *u = gw->users; u; u = u->hh.next)
        u->busy = 0;
    for (const agent *a = gw->agents; a; a = a->hh.next)
        a->user->busy += a->n_held != 0;
}

void gw_reallocate(htc_gateway *gw)
{
    uint64_t slots = 0, free_slots = 0;
    size_t   n = 0, users = HASH_COUNT(gw->users);
    user    *u, *next;
    gw->reallocate_wanted = 0;
    gw->reallocated = gw->now;
    if (gw->shutdown || users == 0)
        return;
    for (size_t i = 0; i < gw->n_sites; i++) {
        const site *s = &gw->sites[i];
        slots += site_usable(gw, s) ? s->cores : s->used;
        free_slots += site_usable(gw, s) ? s->cores - s->used : 0;
    }
    htc_allot_user   *views = htc__alloc(&gw->env, users * sizeof *views);
    htc_allot_change *changes = htc__alloc(&gw->env, users * sizeof *changes);
    user            **who = htc__alloc(&gw->env, users * sizeof *who);
    htc_allot_options options = { .size = sizeof options, .policy = gw->policy, .min_agents = gw->options.min_agents,
                                  .fixed_users = gw->n_fair_users };
    htc_status        status = views && changes && who ? HTC_OK : HTC_ENOMEM;
    if (status == HTC_OK) {
        count_busy(gw);
        HASH_ITER(hh, gw->users, u, next)
        {
            u->ra = u->base = 0;
            if (u->queued || u->running || u->agents || u->draining) {
                who[n++] = u;
            }
        }
        status = weigh(gw, who, n);
        for (size_t i = 0; i < n; i++)
            view(gw, who[i], i, &views[i]);
    }
    if (status == HTC_OK) {
        status = n ? htc_allot_plan(&gw->env, &options, views, n, slots, free_slots, changes) : HTC_OK;
    }
    for (size_t i = 0; status == HTC_OK && i < n; i++) {
        who[i]->ra = changes[i].share.ra;
        who[i]->base = changes[i].share.base;
        carry_out(gw, who[i], &changes[i]);
    }
    htc__free(&gw->env, views, users * sizeof *views);
    htc__free(&gw->env, changes, users * sizeof *changes);
    htc__free(&gw->env, who, users * sizeof *who);
    if (status != HTC_OK)
        gw_break(gw, status, "dividing the slots");
}
