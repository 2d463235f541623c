/* Tasks that take several slots: all of one agent, at once.
 *
 * A task of N cores fits if a site gives one agent N slots and the user's share is N, or where every share is too narrow and N slots are
 * free. A site keeps slots for one such task at a time: the first in its user's turn, of the user who was served longest ago. Slots
 * that the user is given go there, to one agent, which fills them with nothing else that comes after the task; the user's other agents
 * begin nothing that comes after it either, until that one has N slots. So tasks of one slot never keep it waiting for ever. */
#include "roles/gateway/gateway.h"

static uint32_t room(const agent *a)
{
    uint32_t may = htc__gw_slots_may_fill(a);
    return may > a->held_slots ? may - a->held_slots : 0;
}

int htc__gw_wide_fits(const htc_gateway *gw, const user *u, size_t at, uint32_t slots)
{
    return slots <= 1 || (slots <= gw->site_nodes[at].slots && (slots <= u->fits_slots || slots <= u->lent_slots));
}

/* One that fits nowhere goes on as if it fitted: it fails when it is handed out, and says why. */
static int fits_no_site(const htc_gateway *gw, uint32_t slots)
{
    for (size_t i = 0; i < gw->n_sites; i++)
        if (slots <= gw->site_nodes[i].slots)
            return 0;
    return 1;
}

job *htc__gw_wide_at(htc_gateway *gw, size_t at)
{
    job *j = gw->sites[at].wide_job ? htc__gw_job(gw, gw->sites[at].wide_job) : NULL;
    if (j && j->in_ready && htc__gw_job_allows(j, at)) {
        htc__gw_job_needs(gw, j);
        if (j->need_slots > 1 && htc__gw_wide_fits(gw, j->user, at, j->need_slots))
            return j;
    }
    gw->sites[at].wide_job = 0;
    return NULL;
}

/* The user's agent there that collects them; NULL: there is none yet. */
static const agent *collector(const htc_gateway *gw, const user *u, size_t at)
{
    const agent *best = NULL;
    for (const agent *a = gw->agents; a; a = a->hh.next)
        if (a->user == u && a->site == at && a->state <= AGENT_READY && !a->draining && !a->stop && !a->one_slot &&
            (!best || a->want > best->want || (a->want == best->want && a->id < best->id)))
            best = a;
    return best;
}

int htc__gw_wide_collects(htc_gateway *gw, const agent *a)
{
    const job *j = htc__gw_wide_at(gw, a->site);
    return j && j->user == a->user && collector(gw, a->user, a->site) == a;
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
    if (gw->options.slots_max <= 1 || fits_no_site(gw, slots))
        return 1;
    size_t at = site_of(gw, a->user, &kept);
    if (at < gw->n_sites && kept != j && htc__gw_job_turn(kept, j) < 0) {
        const agent *c = collector(gw, a->user, at);
        if (c == a || !c || c->want < kept->need_slots)
            return 0;
    }
    return slots <= 1 || (htc__gw_wide_fits(gw, a->user, a->site, slots) && slots <= room(a));
}

void htc__gw_wide_handed(htc_gateway *gw, const job *j, uint32_t slots)
{
    if (slots <= 1)
        return;
    for (size_t i = 0; i < gw->n_sites; i++)
        if (gw->sites[i].wide_job == j->id)
            gw->sites[i].wide_job = 0;
    j->user->lent_slots = 0;
    htc__gw_reallocate_soon(gw);
}

void htc__gw_wide_nudge(htc_gateway *gw, const agent *a)
{
    const job *j = gw->sites[a->site].wide_job && htc__gw_wide_collects(gw, a) ? htc__gw_wide_at(gw, a->site) : NULL;
    if (!j || j->need_slots > room(a))
        return;
    htc_nudge_write(&gw->scratch);
    htc_runtime_send(gw->runtime, a->peer, &gw->scratch);
}

uint64_t htc__gw_wide_queued(htc_gateway *gw, const user *u)
{
    uint64_t n = u->queued;
    int      looks = LOOK_MAX;
    for (job *j = gw->options.slots_max > 1 ? u->ready : NULL; j && looks--; j = j->ready_next) {
        htc__gw_job_needs(gw, j);
        n += htc__gw_job_ready(j) * (j->need_slots - 1);
    }
    return n;
}

/* The first of its jobs whose next task takes several slots, more than the share or not. */
static job *first_of(htc_gateway *gw, const user *u, int beyond)
{
    int looks = LOOK_MAX;
    for (job *j = gw->options.slots_max > 1 ? u->ready : NULL; j && looks--; j = j->ready_next) {
        htc__gw_job_needs(gw, j);
        if (j->need_slots > 1 && (j->need_slots > u->fits_slots) == beyond && !fits_no_site(gw, j->need_slots))
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

/* Whose task a site that keeps none begins to keep slots for. enough: it has them for it, or for the user's own tasks, now. */
static job *next_at(htc_gateway *gw, size_t at, int enough)
{
    job *best = NULL;
    for (user *u = gw->users; u; u = u->hh.next) {
        job   *kept = NULL, *j = u->queued ? first_of(gw, u, 0) : NULL;
        size_t now = j ? site_of(gw, u, &kept) : gw->n_sites;
        int    better = now == gw->n_sites ||
                     (enough && htc__gw_wide_reach(gw, u, now) < kept->need_slots); /* than the site that keeps them */
        j = kept ? kept : j;
        if (j && better && htc__gw_wide_fits(gw, u, at, j->need_slots) && htc__gw_job_allows(j, at) &&
            (!enough || htc__gw_wide_reach(gw, u, at) >= j->need_slots) &&
            (!best || u->last_served < best->user->last_served))
            best = j;
    }
    return best;
}

void htc__gw_wide_keep(htc_gateway *gw)
{
    for (int enough = gw->options.slots_max > 1; enough >= 0; enough--)
        for (size_t i = 0; gw->options.slots_max > 1 && i < gw->n_sites; i++) {
            job *j = htc__gw_wide_at(gw, i) ? NULL : next_at(gw, i, enough);
            for (size_t k = 0; j && k < gw->n_sites; k++)
                gw->sites[k].wide_job = gw->sites[k].wide_job == j->id ? 0 : gw->sites[k].wide_job;
            if (j)
                gw->sites[i].wide_job = j->id;
        }
}

void htc__gw_wide_lend(htc_gateway *gw, user *u, size_t at)
{
    const job *j = first_of(gw, u, 1);
    u->lent_slots = j->need_slots;
    gw->sites[at].wide_job = j->id;
}
