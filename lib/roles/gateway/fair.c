/* Who gets slots and who gives them: gathers what htc_allot_plan wants to know, and does what it says. */
#include <string.h>

#include "roles/gateway/gateway.h"

void htc__gw_reallocate_soon(htc_gateway *gw)
{
    gw->reallocate_wanted = 1;
}

/* Where slots are kept for another user they are needed most. */
static uint32_t rank_of(htc_gateway *gw, const agent *a)
{
    const job *j = htc__gw_wide_at(gw, a->site);
    return (j && j->user != a->user ? 0 : 2) + (htc__gw_slots_idle(a) == 0);
}

/* Of whose slots one is expected to be free first: an agent with an idle one, one that has not registered, else the one whose task began
 * first. */
static agent *to_drain(htc_gateway *gw, const user *u)
{
    agent *a, *next, *best = NULL;
    HASH_ITER(hh, gw->agents, a, next)
    {
        if (a->user != u || a->draining || a->stop || a->state > AGENT_READY)
            continue;
        if ((htc__gw_reserved_at(gw, a->site) && htc__gw_wide_collects(gw, a)) || a->want <= htc__gw_wide_unbegun(gw, a))
            continue; /* it would give the task back */
        uint32_t mine = rank_of(gw, a), its = best ? rank_of(gw, best) : 0;
        if (!best || mine < its || (mine == its && (a->since < best->since || (a->since == best->since && a->id < best->id))))
            best = a;
    }
    return best;
}

static agent *newest_drain(htc_gateway *gw, const user *u)
{
    agent *a, *next, *best = NULL;
    HASH_ITER(hh, gw->agents, a, next)
    if (a->user == u && (a->draining || a->want < a->n_slots) && !a->stop && !a->expires && !gw->sites[a->site].leaving && !gw->sites[a->site].closed && a->state <= AGENT_READY &&
        (!best || a->drain_order > best->drain_order))
        best = a;
    return best;
}

uint64_t htc__gw_takers(const htc_gateway *gw, const user *u, size_t at)
{
    uint64_t n = 0;
    for (const agent *a = gw->agents; a; a = a->hh.next)
        n += a->user == u && a->site == at ? htc__gw_slots_idle(a) : 0;
    return n;
}

/* One slot of it is to be given back, or no longer. The last one is the agent itself. */
static void drain_one(htc_gateway *gw, agent *a)
{
    if (a->want > 1)
        htc__gw_slots_want(gw, a, a->want - 1);
    else
        htc__gw_agent_drain(gw, a, 1);
}

/* Not those that leave since the core hours of their user are spent: nobody is owed their slots, and they go all the same. */
static void undrain(htc_gateway *gw, const user *u, uint64_t n)
{
    if (htc__gw_quota_spent(gw, u))
        return;
    for (agent *a; n > 0 && (a = newest_drain(gw, u)) != NULL; n--)
        if (a->draining)
            htc__gw_agent_drain(gw, a, 0);
        else
            htc__gw_slots_want(gw, a, a->want + 1);
}

/* Tasks that wait at an agent for one of its slots: with more slots they would start there, and nowhere else. */
static uint32_t ahead_of(htc_gateway *gw, const agent *a)
{
    uint32_t ahead = htc__gw_slots_may_grow(gw, a) && a->held_slots > a->n_slots ? a->held_slots - a->n_slots : 0;
    if (ahead > gw->options.slots_max - a->n_slots)
        ahead = gw->options.slots_max - a->n_slots;
    while (ahead && !htc__gw_memory_fits_slots(gw, a, a->n_slots + ahead))
        ahead--;
    return ahead;
}

static uint64_t ahead_at(htc_gateway *gw, const user *u, size_t at)
{
    uint64_t n = 0;
    for (const agent *a = gw->agents; a; a = a->hh.next)
        n += a->user == u && a->site == at ? ahead_of(gw, a) : 0;
    return n;
}

/* Slots for n tasks that are handed out ahead, or for others: an agent that is there grows, the one that
 * collects slots for a wide one first, then the one with the most ahead; for others
 * a new one is launched if none can. */
static uint32_t give(htc_gateway *gw, user *u, uint32_t at, uint32_t n, int others)
{
    agent *best = NULL;
    for (agent *a = gw->agents; a; a = a->hh.next)
        if (a->user == u && a->site == at && htc__gw_slots_may_grow(gw, a) &&
            (!best || ahead_of(gw, a) > ahead_of(gw, best)))
            best = a;
    for (agent *a = gw->agents; a; a = a->hh.next)
        if (a->user == u && a->site == at && htc__gw_slots_may_grow(gw, a) && htc__gw_wide_collects(gw, a))
            best = a;
    uint32_t given = best ? htc__gw_slots_grow(gw, best, n) : 0;
    return given || !others ? given : htc__gw_agent_launch(gw, u, at, n);
}

/* What of the uploads that the user's next task reads is at the sites. Where no host has joined, all are at every site alike. */
static void rank_inputs(htc_gateway *gw, const user *u)
{
    const job *j = u->ready;
    htc_task  *t = NULL;
    int        joins = 0;
    for (size_t i = 0; i < gw->n_sites; i++)
        joins |= gw->sites[i].host != 0;
    if (!j || !joins || htc_spec_task(j->spec, htc__gw_job_next(j), &t, NULL) != HTC_OK)
        return; /* it only decides between sites that are equally good */
    for (size_t i = 0; i < gw->n_sites; i++)
        gw->ranks[i].there = htc__gw_content_there(gw, u, t, i);
    htc_task_destroy(t);
}

/* Which site comes first for a user's next agent: one that keeps slots for a task of the user, then the best one. */
static void order_sites(htc_gateway *gw, const user *u)
{
    uint32_t n = (uint32_t)gw->n_sites, first = n;
    for (uint32_t i = 0; i < n; i++) {
        const site *s = &gw->sites[i];
        const job  *j = htc__gw_wide_at(gw, i);
        first = j && j->user == u ? i : first;
        gw->ranks[i] = (site_rank){ .speed = s->speed, .free = s->cores - s->used, .start_ns = s->start_ns };
    }
    for (const agent *a = gw->agents; a; a = a->hh.next)
        if (a->state < AGENT_UNKNOWN && gw->now - a->launched > gw->ranks[a->site].waits_ns)
            gw->ranks[a->site].waits_ns = gw->now - a->launched;
    rank_inputs(gw, u);
    htc__site_order(gw->ranks, n, gw->order);
    for (uint32_t k = n; first < n && k-- > 1;)
        if (gw->order[k] == first) {
            gw->order[k] = gw->order[k - 1];
            gw->order[k - 1] = first;
        }
}

static uint32_t give_somewhere(htc_gateway *gw, user *u, uint64_t n)
{
    order_sites(gw, u);
    for (uint32_t k = 0; k < gw->n_sites; k++) {
        uint32_t i = gw->order[k];
        site    *s = &gw->sites[i];
        site_now now = { .free = s->cores - s->used, .usable = htc__gw_site_open(gw, s) != 0 };
        int      barred = htc__gw_reserved_at(gw, i) && !htc__gw_reserved_user(gw, u);
        if (now.free == 0 || !now.usable || barred || (u->denied_until && u->denied_until[i] > gw->now))
            continue;
        uint64_t ahead = ahead_at(gw, u, i), least = ahead < n ? ahead : n;
        uint32_t given = least ? give(gw, u, i, (uint32_t)(least < now.free ? least : now.free), 0) : 0;
        now.startable = given ? 0 : htc__gw_startable(gw, u, i);
        now.takers = htc__gw_takers(gw, u, i);
        uint64_t wants = htc__site_wants_slots(&now);
        if (wants)
            given = give(gw, u, i, (uint32_t)(wants < n ? wants : n), 1);
        if (wants || given)
            return given;
    }
    return 0;
}

static uint64_t give_slots(htc_gateway *gw, user *u, uint64_t n)
{
    uint64_t given = 0;
    for (uint32_t more = 1; given < n && more; given += more)
        more = give_somewhere(gw, u, n - given);
    return given;
}

/* Answers how many slots could not be given. */
static uint64_t carry_out(htc_gateway *gw, user *u, const htc_allot_change *change)
{
    undrain(gw, u, change->undrain);
    uint64_t left = change->grant - give_slots(gw, u, change->grant);
    for (uint64_t i = 0; i < change->drain; i++) {
        agent *a = to_drain(gw, u);
        if (!a)
            break;
        drain_one(gw, a);
    }
    return left;
}

static int fixed_user(const htc_gateway *gw, const char *name)
{
    for (size_t i = 0; i < gw->n_fair_users; i++)
        if (strcmp(gw->fair_users[i], name) == 0)
            return 1;
    return 0;
}

/* Tasks that could start now, in slots that are free or that the user's agents wait in. */
static uint64_t startable_now(htc_gateway *gw, const user *u)
{
    uint64_t n = 0;
    for (size_t i = 0; i < gw->n_sites; i++) {
        const site *s = &gw->sites[i];
        uint64_t    could = htc__gw_startable(gw, u, i), seats = htc__gw_takers(gw, u, i) + (htc__gw_site_open(gw, s) ? s->cores - s->used : 0);
        n += could < seats ? could : seats;
    }
    return n;
}

/* What a user asks for. now: only tasks that could start beside all that run; else those too that could start in slots of others
 * and in what these reserve. A slot that the user could not use is no demand. Where nothing more could start, the next task needs
 * the slot of one that runs: that one counts as queued, so that the user still divides. */
static void view(htc_gateway *gw, const user *u, uint64_t id, int now, htc_allot_user *v)
{
    int      refused = htc__gw_place(gw, u) == HTC_PLACE_REFUSED;
    uint64_t queued = refused ? 0 : now ? startable_now(gw, u) : u->usable;
    uint64_t all = htc__gw_wide_queued(gw, u);
    uint64_t most = htc__gw_quota_demand(gw, u);
    queued = queued < all ? queued : all;
    queued = queued < most ? queued : most;
    for (size_t i = 0; i < gw->n_sites && !refused && gw->options.slots_max > 1; i++) {
        const site *s = &gw->sites[i];
        uint64_t    ahead = ahead_at(gw, u, i), seats = htc__gw_site_open(gw, s) ? s->cores - s->used : 0;
        queued += now && seats < ahead ? seats : ahead;
    }
    uint64_t in_turn = queued == 0 && u->queued && u->busy && !refused;
    uint64_t running = u->busy - in_turn;
    if (htc__gw_quota_spent(gw, u)) /* its agents leave (htc__gw_quotas_look): it is due no share */
        queued = in_turn = running = 0;
    *v = (htc_allot_user){ .weight = u->weight_used, .queued = queued + in_turn, .running = running,
                           .agents = u->agents, .draining = u->draining, .starting = u->starting,
                           .last_served = u->last_served, .arrival = u->arrival, .id = id,
                           .fixed = (uint64_t)fixed_user(gw, u->name) };
}

/* What a task of a user takes of whom none has ended: the wall-time limit that the tasks name which wait, on average over the first jobs. */
#define LIMIT_LOOKS 16

static double limit_of(htc_gateway *gw, user *u)
{
    double sum = 0, tasks = 0;
    int    looks = LIMIT_LOOKS;
    for (job *j = u->ready; j && looks--; j = j->ready_next) {
        double n = (double)htc__gw_job_ready(j);
        htc__gw_job_needs(gw, j);
        sum += j->need_wall_s > 0 ? n * j->need_wall_s : 0;
        tasks += j->need_wall_s > 0 ? n : 0;
    }
    if (tasks > 0)
        u->limit_s = sum / tasks;
    return u->limit_s;
}

/* The weight of each as it is set, or also by what the unfinished tasks will take: their number times the mean run time of the
 * user's tasks so far. As long as none of these has ended it is their wall-time limit, or else the mean of all users. */
static htc_status weigh(htc_gateway *gw, user **who, size_t n)
{
    uint64_t  *priority = htc__alloc(&gw->env, n * sizeof *priority), *weight = htc__alloc(&gw->env, n * sizeof *weight);
    double    *work = htc__alloc(&gw->env, n * sizeof *work);
    double     sum = 0;
    uint32_t   known = 0;
    htc_status status = priority && weight && work ? HTC_OK : HTC_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        known += who[i]->runs.count > 0;
        sum += who[i]->runs.mean_s;
    }
    for (size_t i = 0; status == HTC_OK && i < n; i++) {
        double limit = gw->options.weight_profiled && !who[i]->runs.count ? limit_of(gw, who[i]) : 0;
        double mean = who[i]->runs.count ? who[i]->runs.mean_s : limit > 0 ? limit : known ? sum / known : 0;
        priority[i] = who[i]->weight;
        work[i] = (double)(htc__gw_queued(who[i]) + who[i]->running) * mean;
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

/* Tasks that were handed out ahead run one after the other on their agent: they need no slot of their own. But as soon as their agent has
 * more slots they run in these: whoever gives some counts again before more are given. */
static void count_busy(htc_gateway *gw)
{
    for (user *u = gw->users; u; u = u->hh.next)
        u->busy = 0;
    for (const agent *a = gw->agents; a; a = a->hh.next)
        a->user->busy += htc__gw_slots_filled(a);
}

static void count_usable(htc_gateway *gw)
{
    for (user *u = gw->users; u; u = u->hh.next)
        u->usable = 0;
    for (uint32_t i = 0; i < gw->n_sites; i++) {
        for (user *u = gw->users; u; u = u->hh.next)
            u->reserved = 0;
        for (const agent *a = gw->agents; a; a = a->hh.next)
            a->user->reserved += a->site == i ? a->memory : 0;
        for (user *u = gw->users; u; u = u->hh.next)
            u->usable += u->queued ? htc__gw_usable(gw, u, i) : 0;
    }
}

/* One division among n users. */
typedef struct division {
    htc_allot_user   *views;
    htc_allot_change *changes;
    user            **who;
    size_t            n;
} division;

static htc_status divide(htc_gateway *gw, division *d, int now)
{
    htc_allot_options options = { .size = sizeof options, .policy = gw->policy, .min_agents = gw->options.min_agents,
                                  .fixed_users = gw->n_fair_users };
    uint64_t slots = 0, free_slots = 0;
    for (size_t i = 0; i < gw->n_sites; i++) {
        const site *s = &gw->sites[i];
        slots += htc__gw_site_open(gw, s) ? s->cores : s->used;
        free_slots += htc__gw_site_open(gw, s) ? s->cores - s->used : 0;
    }
    for (size_t i = 0; i < d->n; i++)
        view(gw, d->who[i], i, now, &d->views[i]);
    return d->n ? htc_allot_plan(&gw->env, &options, d->views, d->n, slots, free_slots, d->changes) : HTC_OK;
}

/* Where every share is too narrow for the tasks that wait, slots that are free are lent for one of them, whose user was served longest
 * ago. */
static void lend(htc_gateway *gw, division *d)
{
    user    *best = NULL;
    uint32_t at = 0;
    for (size_t i = 0; i < d->n; i++) {
        user      *u = d->who[i];
        const job *j = htc__gw_wide_short(gw, u);
        uint32_t   reach = 0;
        for (uint32_t k = 0; j && k < gw->n_sites; k++) {
            if (!htc__gw_wide_reaches(gw, j, k))
                continue;
            reach = 1;
            if (u->lent_slots == 0 && gw->free && !htc__gw_wide_at(gw, k) && (!best || u->last_served < best->last_served)) {
                best = u;
                at = k;
            }
        }
        if (!reach && !htc__gw_reserved_user(gw, u))
            u->lent_slots = 0;
    }
    if (!best)
        return;
    htc__gw_wide_lend(gw, best, at);
    for (uint32_t k = 0; k < gw->n_sites; k++) {
        const job *j = htc__gw_wide_at(gw, k);
        uint32_t   wanted = j && j->user == best ? gw->sites[k].wide_parts * (j->width.members > 1 ? htc__gw_gang_unit(gw, k, j->width.part) : j->width.slots) : 0;
        uint32_t   idle = (uint32_t)htc__gw_takers(gw, best, k);
        for (uint32_t given = 1; wanted > idle && given; idle += given)
            given = give(gw, best, k, wanted - idle, 1);
    }
}

/* Agents that wait in queues hold slots and are nobody's gain: those of users with more than their share make room for those with less. */
static void yield(htc_gateway *gw, division *d)
{
    uint64_t missing = 0, free_slots = 0;
    for (size_t i = 0; i < gw->n_sites; i++)
        free_slots += htc__gw_site_open(gw, &gw->sites[i]) ? gw->sites[i].cores - gw->sites[i].used : 0;
    for (size_t i = 0; i < d->n; i++) {
        const user *u = d->who[i];
        uint64_t    has = (uint64_t)u->agents + u->waits;
        missing += u->queued && u->ra > has ? u->ra - has : 0;
    }
    missing = missing > free_slots ? missing - free_slots : 0;
    for (size_t i = 0; i < d->n && missing; i++) {
        uint64_t given = d->who[i]->waits ? htc__gw_agents_yield(gw, d->who[i], missing) : 0;
        missing -= given < missing ? given : missing;
    }
}

/* Slots that are free, and that whoever is due them could not use, go to those who can. */
static htc_status divide_and_launch(htc_gateway *gw, division *d)
{
    uint64_t   left = 0;
    htc_status status = divide(gw, d, 0);
    int        again = 0;
    for (size_t i = 0; status == HTC_OK && i < d->n; i++) {
        d->who[i]->fits_slots = d->changes[i].share.ra < UINT32_MAX ? (uint32_t)d->changes[i].share.ra : UINT32_MAX;
        again |= htc__gw_wide_short(gw, d->who[i]) != NULL;
    }
    if (again) { /* tasks that take more than the share are no demand */
        count_usable(gw);
        status = status == HTC_OK ? divide(gw, d, 0) : status;
    }
    htc__gw_wide_keep(gw);
    for (size_t i = 0; status == HTC_OK && i < d->n; i++) {
        d->who[i]->ra = d->changes[i].share.ra;
        d->who[i]->base = d->changes[i].share.base;
        uint64_t missing = carry_out(gw, d->who[i], &d->changes[i]);
        if (missing)
            htc__gw_memory_note(gw, d->who[i], 1);
        left += missing;
    }
    if (status == HTC_OK && left) {
        count_busy(gw);
        status = divide(gw, d, 1);
    }
    for (size_t i = 0; status == HTC_OK && left && i < d->n; i++) {
        uint64_t marked = gw->options.slots_max > 1 ? d->changes[i].undrain : 0, n = d->changes[i].grant + marked;
        n -= give_slots(gw, d->who[i], n); /* those that are marked are waited for */
        undrain(gw, d->who[i], n < marked ? n : marked);
    }
    if (status == HTC_OK && gw->options.slots_max > 1)
        lend(gw, d);
    htc__gw_reserved_fill(gw);
    yield(gw, d);
    for (size_t i = 0; i < d->n; i++)
        htc__gw_agents_trim(gw, d->who[i]);
    htc__gw_slots_tell_all(gw);
    return status;
}

void htc__gw_reallocate(htc_gateway *gw)
{
    size_t users = HASH_COUNT(gw->users);
    gw->reallocate_wanted = 0;
    gw->reallocated = gw->now;
    if (gw->shutdown || users == 0)
        return;
    division   d = { .views = htc__alloc(&gw->env, users * sizeof *d.views),
                     .changes = htc__alloc(&gw->env, users * sizeof *d.changes),
                     .who = htc__alloc(&gw->env, users * sizeof *d.who) };
    htc_status status = d.views && d.changes && d.who ? HTC_OK : HTC_ENOMEM;
    if (status == HTC_OK) {
        for (const user *u = gw->users; u; u = u->hh.next)
            if (gw->policy != HTC_ALLOT_STATIC || fixed_user(gw, u->name)) /* nobody else ever has a slot */
                htc__gw_memory_note(gw, u, 0);
        htc__gw_memory_keep(gw);
        htc__gw_counted_keep(gw);
        for (user *u = gw->users; u; u = u->hh.next)
            u->fits_slots = UINT32_MAX;
        count_busy(gw);
        count_usable(gw);
        for (user *u = gw->users; u; u = u->hh.next) {
            u->ra = u->base = 0;
            if (u->queued || u->running || u->agents || u->draining || u->waits)
                d.who[d.n++] = u;
        }
        status = weigh(gw, d.who, d.n);
    }
    if (status == HTC_OK)
        status = htc__gw_project_weights(gw, d.who, d.n);
    if (status == HTC_OK)
        status = divide_and_launch(gw, &d);
    htc__free(&gw->env, d.views, users * sizeof *d.views);
    htc__free(&gw->env, d.changes, users * sizeof *d.changes);
    htc__free(&gw->env, d.who, users * sizeof *d.who);
    if (status != HTC_OK)
        htc_runtime_break(gw->runtime, status, "dividing the slots");
}
