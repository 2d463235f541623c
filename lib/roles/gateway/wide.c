/* Tasks that take several slots: all of one agent, or as many of an agent on each of several nodes, at once.
 *
 * A task of N cores fits if a site gives one agent N slots and the user's share is N, or where every share is too narrow and N slots are
 * free. A site keeps slots for one such task at a time: the first in its user's turn, of the user who was served longest ago. Slots
 * that the user is given go there, to one agent, which fills them with nothing else that comes after the task; the user's other agents
 * begin nothing that comes after it either, until that one has N slots. So tasks of one slot never keep it waiting for ever.
 *
 * One that has waited for long, since others are due the slots or fill them, gets a site for itself: reserved.c.
 *
 * A gang is the same at several sites, or for several agents of one: its sites are chosen together (gangs.c). */
#include "roles/gateway/gateway.h"

task_width htc__gw_task_width(const htc_task *t)
{
    task_width w = { .slots = t->limits.cores > 1 ? t->limits.cores : 1, .members = 1 };
    w.part = w.slots;
    if (t->node_cores && t->node_cores < w.slots) {
        w.part = t->node_cores;
        w.members = w.slots / w.part;
    }
    return w;
}

static int is_on(const htc_gateway *gw)
{
    return gw->options.slots_max > 1;
}

uint32_t htc__gw_wide_room(const agent *a)
{
    uint32_t may = htc__gw_slots_may_fill(a);
    return may > a->held_slots ? may - a->held_slots : 0;
}

static int fits_share(const job *j)
{
    return j->width.slots <= j->user->fits_slots || j->width.slots <= j->user->lent_slots;
}

int htc__gw_wide_fits(const htc_gateway *gw, size_t at, const job *j)
{
    return j->width.slots <= 1 || (j->width.part <= gw->site_nodes[at].slots && fits_share(j));
}

/* One that fits nowhere goes on as if it fitted: it fails when it is handed out, and says why. */
static int fits_no_site(const htc_gateway *gw, const job *j)
{
    if (j->width.members > 1)
        return htc__gw_gang_most(gw, j->width.part, &j->counts) < j->width.members;
    for (size_t i = 0; i < gw->n_sites; i++)
        if (j->width.slots <= gw->site_nodes[i].slots && htc__gw_site_offers(gw, &j->asks, i) != OFFER_NO)
            return 0;
    return 1;
}

void htc__gw_wide_drop(htc_gateway *gw, uint64_t id)
{
    for (size_t i = 0; i < gw->n_sites; i++)
        if (gw->sites[i].wide_job == id)
            gw->sites[i].wide_job = gw->sites[i].wide_parts = 0;
}

job *htc__gw_wide_at(htc_gateway *gw, size_t at)
{
    job *j = gw->sites[at].wide_job ? htc__gw_job(gw, gw->sites[at].wide_job) : NULL;
    if (j && j->in_ready && htc__gw_job_may(gw, j, at)) {
        htc__gw_job_needs(gw, j);
        if (j->width.slots > 1 && htc__gw_wide_fits(gw, at, j) && (j->width.members == 1 || j->gang.since))
            return j;
    }
    if (gw->sites[at].wide_job)
        htc__gw_wide_drop(gw, gw->sites[at].wide_job);
    if (j)
        j->gang.since = 0; /* it was collected, and asks for something else now */
    return NULL;
}

int htc__gw_wide_may_collect(const agent *a)
{
    return a->state <= AGENT_READY && !a->draining && !a->stop && !a->one_slot;
}

/* Those of the user's agents at a site that collect them: as many as there are parts, the ones that have most slots first. */
static int collects(const htc_gateway *gw, const job *j, const agent *a)
{
    uint32_t better = 0;
    if (a->user != j->user || !htc__gw_wide_may_collect(a))
        return 0;
    for (const agent *b = gw->agents; b; b = b->hh.next)
        better += b->user == j->user && b->site == a->site && htc__gw_wide_may_collect(b) && (b->want > a->want || (b->want == a->want && b->id < a->id));
    return better < gw->sites[a->site].wide_parts;
}

int htc__gw_wide_collects(htc_gateway *gw, const agent *a)
{
    const job *j = htc__gw_wide_at(gw, a->site);
    return j && collects(gw, j, a);
}

/* Every one of them has the slots that it needs. */
static int has_slots(const htc_gateway *gw, const job *j)
{
    for (size_t i = 0; i < gw->n_sites; i++) {
        uint32_t n = 0;
        if (gw->sites[i].wide_job != j->id)
            continue;
        for (const agent *a = gw->agents; a; a = a->hh.next)
            n += a->site == i && a->want >= j->width.part && collects(gw, j, a);
        if (n < gw->sites[i].wide_parts)
            return 0;
    }
    return 1;
}

/* Which site keeps slots for a task of this user; n_sites: none does. */
static size_t site_of(htc_gateway *gw, const user *u, job **of)
{
    size_t at = 0;
    while (at < gw->n_sites && !((*of = htc__gw_wide_at(gw, at)) && (*of)->user == u))
        at++;
    return at;
}

int htc__gw_wide_takes(htc_gateway *gw, agent *a, const job *j, uint32_t slots)
{
    job *kept = NULL;
    if (!is_on(gw) || fits_no_site(gw, j))
        return 1;
    if (htc__gw_reserved_bars(gw, a->site, j))
        return 0;
    size_t at = site_of(gw, a->user, &kept);
    if (at < gw->n_sites && kept != j && kept->id != gw->reserved && htc__gw_job_turn(kept, j) < 0 && (htc__gw_wide_collects(gw, a) || !has_slots(gw, kept)))
        return 0;
    if (j->width.members > 1)
        return 0; /* a gang begins when all of it is there: gangs.c */
    return slots <= 1 || (htc__gw_wide_fits(gw, a->site, j) && slots <= htc__gw_wide_room(a));
}

void htc__gw_wide_handed(htc_gateway *gw, job *j, uint32_t slots)
{
    if (slots <= 1)
        return;
    htc__gw_wide_drop(gw, j->id);
    htc__gw_reserved_handed(gw, j);
    htc__gang_done(&j->gang);
    j->user->lent_slots = 0;
    htc__gw_reallocate_soon(gw);
}

uint32_t htc__gw_wide_unbegun(htc_gateway *gw, const agent *a)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < a->n_held; i++) {
        const held  *h = &a->held[i];
        job         *j = h->slots > 1 || gw->gangs ? htc__gw_job(gw, h->attempt.job) : NULL;
        const chunk *c = j ? htc__gw_chunk(j, h->attempt.task / CHUNK_TASKS) : NULL;
        const task  *t = c ? &c->tasks[h->attempt.task % CHUNK_TASKS] : NULL;
        if (t && t->phase < HTC_HELD_RUNNING && h->slots > most && (h->slots > 1 || htc__gw_gang_leader(gw, &h->attempt)))
            most = h->slots;
    }
    return most;
}

void htc__gw_wide_nudge(htc_gateway *gw, const agent *a)
{
    const job *j = gw->sites[a->site].wide_job && htc__gw_wide_collects(gw, a) ? htc__gw_wide_at(gw, a->site) : NULL;
    if (!j || j->width.part > htc__gw_wide_room(a))
        return;
    htc_nudge_write(&gw->scratch);
    htc_runtime_send(gw->runtime, a->peer, &gw->scratch);
}

uint64_t htc__gw_wide_queued(htc_gateway *gw, const user *u)
{
    uint64_t n = htc__gw_queued(u);
    int      looks = LOOK_MAX;
    for (job *j = is_on(gw) ? u->ready : NULL; j && looks--; j = j->ready_next) {
        htc__gw_job_needs(gw, j);
        n += htc__gw_job_ready(j) * (j->width.slots - 1);
    }
    return n;
}

/* The first of its jobs whose next task takes several slots, more than the share or not. */
static job *first_of(htc_gateway *gw, const user *u, int beyond)
{
    int looks = LOOK_MAX;
    for (job *j = is_on(gw) ? u->ready : NULL; j && looks--; j = j->ready_next) {
        htc__gw_job_needs(gw, j);
        if (j->width.slots > 1 && (j->width.slots > u->fits_slots) == beyond && !fits_no_site(gw, j) && !htc__gang_rests(&j->gang, gw->now))
            return j;
    }
    return NULL;
}

job *htc__gw_wide_short(htc_gateway *gw, const user *u)
{
    return first_of(gw, u, 1);
}

uint32_t htc__gw_wide_reach(const htc_gateway *gw, const user *u, size_t at)
{
    const site *s = &gw->sites[at];
    uint32_t    n = htc__gw_site_open(gw, s) ? s->cores - s->used : 0;
    for (const agent *a = gw->agents; a; a = a->hh.next)
        n += a->user == u && a->site == at && !a->draining && !a->stop && a->state <= AGENT_READY ? a->want : 0;
    return n;
}

int htc__gw_wide_reaches(htc_gateway *gw, const job *j, size_t at)
{
    if (j->width.members == 1)
        return j->width.slots <= gw->site_nodes[at].slots && htc__gw_job_may(gw, j, at) && htc__gw_wide_reach(gw, j->user, at) >= j->width.slots;
    return htc__gw_gang_plan(gw, j, 1, gw->parts) && gw->parts[at];
}

/* Whose task a site that keeps none begins to keep slots for. enough: it has them for it, or for the user's own tasks, now. */
static job *next_at(htc_gateway *gw, size_t at, int enough)
{
    job *best = NULL;
    for (user *u = gw->users; u; u = u->hh.next) {
        job   *kept = NULL, *j = u->queued ? first_of(gw, u, 0) : NULL;
        size_t now = j ? site_of(gw, u, &kept) : gw->n_sites;
        int    better = now == gw->n_sites ||
                     (enough && kept->id != gw->reserved && kept->width.members == 1 && htc__gw_wide_reach(gw, u, now) < kept->width.slots); /* than the site that keeps them */
        j = kept ? kept : j;
        if (!j || !better || (best && u->last_served >= best->user->last_served) || !htc__gw_wide_fits(gw, at, j) || !htc__gw_job_may(gw, j, at))
            continue;
        if (j->width.members > 1 ? htc__gw_gang_plan(gw, j, enough, gw->parts) && gw->parts[at] : !enough || htc__gw_wide_reach(gw, u, at) >= j->width.slots)
            best = j;
    }
    return best;
}

static void keep_at(htc_gateway *gw, size_t at, job *j, int enough)
{
    htc__gw_wide_drop(gw, j->id);
    if (j->width.members > 1 && htc__gw_gang_plan(gw, j, enough, gw->parts)) {
        htc__gw_gang_keep(gw, j, gw->parts);
    } else if (j->width.members == 1) {
        gw->sites[at].wide_job = j->id;
        gw->sites[at].wide_parts = 1;
    }
}

void htc__gw_wide_keep(htc_gateway *gw)
{
    htc__gw_gang_late(gw);
    if (is_on(gw))
        htc__gw_reserve(gw);
    for (int enough = is_on(gw); enough >= 0; enough--)
        for (size_t i = 0; is_on(gw) && i < gw->n_sites; i++) {
            job *j = htc__gw_wide_at(gw, i) ? NULL : next_at(gw, i, enough);
            if (j)
                keep_at(gw, i, j, enough);
        }
}

void htc__gw_wide_lend(htc_gateway *gw, user *u, size_t at)
{
    job *j = first_of(gw, u, 1);
    u->lent_slots = j->width.slots;
    keep_at(gw, at, j, 1);
}
