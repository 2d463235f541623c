/* The reservation (reservation.h) of this gateway: who waits, which sites it is of, and what falls free there goes to the task.
 *
 * It is one of those that sites keep slots for (wide.c), and gw->reserved has its job: at these sites nothing else begins, so agents of others find
 * nothing and leave. Its user is lent the slots, beyond the share. In memory alone: a gateway that starts again counts the waiting anew. */
#include <assert.h>
#include <string.h>

#include "roles/gateway/gateway.h"

int htc__gw_reserved_at(htc_gateway *gw, size_t at)
{
    return gw->reserved && gw->sites[at].wide_job == gw->reserved && htc__gw_wide_at(gw, at);
}

int htc__gw_reserved_bars(htc_gateway *gw, size_t at, const job *j)
{
    const job *kept = j->id != gw->reserved && htc__gw_reserved_at(gw, at) ? htc__gw_wide_at(gw, at) : NULL;
    return kept && (kept->user != j->user || htc__gw_job_turn(kept, j) < 0);
}

static job *holder(htc_gateway *gw)
{
    return gw->reserved ? htc__gw_job(gw, gw->reserved) : NULL;
}

int htc__gw_reserved_user(htc_gateway *gw, const user *u)
{
    const job *j = holder(gw);
    return j && j->user == u;
}

/* ---- who waits ---- */

/* Slots, memory and what is counted: as much as it asks for is there, taken or not. */
static int could_at(const htc_gateway *gw, const job *j, size_t at)
{
    const site *s = &gw->sites[at];
    const user *u = j->user;
    return htc__gw_site_open(gw, s) && !(u->denied_until && u->denied_until[at] > gw->now) && htc__gw_site_serves(gw, u, at) && htc__gw_job_may(gw, j, at) && j->width.part <= gw->site_nodes[at].slots &&
           (s->memory.total == 0 || htc__site_needs(s, j->need, j->width.part) <= s->memory.total) && !htc__counted_never(&s->counted, &j->counts);
}

static int could_run(htc_gateway *gw, const job *j)
{
    if (j->width.members > 1)
        return htc__gw_gang_plan_all(gw, j, gw->parts);
    for (size_t i = 0; i < gw->n_sites; i++)
        if (could_at(gw, j, i))
            return 1;
    return 0;
}

/* A static share has no slots but its own. */
static int share_allows(const htc_gateway *gw, const job *j)
{
    return gw->policy != HTC_ALLOT_STATIC || j->width.slots <= j->user->fits_slots;
}

/* There is a site that is what it asks for and does not slow it. */
static int may_somewhere(const htc_gateway *gw, const job *j)
{
    for (size_t i = 0; i < gw->n_sites; i++)
        if (htc__gw_job_may(gw, j, i))
            return 1;
    return 0;
}

/* The user's first task of several slots that could have it. What comes before it in the user's order, and could begin, goes first. */
static job *first_of(htc_gateway *gw, user *u)
{
    int looks = LOOK_MAX, behind = 0;
    for (job *j = u->ready; j && looks--; j = j->ready_next) {
        htc__gw_job_needs(gw, j);
        if (j->width.slots <= 1) {
            behind |= !j->memory_since && !j->counted_since && may_somewhere(gw, j);
            continue;
        }
        int could = htc__gw_quota_room(j) && htc__gw_place(gw, u) != HTC_PLACE_REFUSED && share_allows(gw, j) && could_run(gw, j);
        if (!could)
            continue;
        j->wide_since = j->wide_since ? j->wide_since : gw->now;
        return behind ? NULL : j;
    }
    return NULL;
}

/* ---- which sites ---- */

static size_t best_site(htc_gateway *gw, const job *j)
{
    for (size_t i = 0; i < gw->n_sites; i++)
        gw->reservation_sites[i] = (reservation_site){ .most = could_at(gw, j, i) ? gw->site_nodes[i].slots : 0, .now = htc__gw_wide_reach(gw, j->user, i) };
    return htc__reservation_site(gw->reservation_sites, gw->n_sites, j->width.slots);
}

/* They are still what it takes. */
static int has_sites(const htc_gateway *gw, const job *j)
{
    uint32_t parts = 0;
    for (size_t i = 0; i < gw->n_sites; i++) {
        const site *s = &gw->sites[i];
        if (s->wide_job != j->id)
            continue;
        if (s->closed || s->leaving || s->not_before == HTC_NEVER || j->width.part > gw->site_nodes[i].slots || !htc__gw_job_may(gw, j, i))
            return 0;
        parts += s->wide_parts;
    }
    return parts == j->width.members;
}

/* Whoever slots are kept for there, of a gang at all its sites, begins anew. */
static void part_with(htc_gateway *gw, size_t at)
{
    job *other = htc__gw_wide_at(gw, at);
    if (!other)
        return;
    other->gang.since = 0;
    other->user->lent_slots = 0;
    htc__gw_wide_drop(gw, other->id);
}

static int choose_sites(htc_gateway *gw, job *j)
{
    size_t at = j->width.members > 1 ? 0 : best_site(gw, j);
    if (at == gw->n_sites || (j->width.members > 1 && !htc__gw_gang_plan_all(gw, j, gw->parts)))
        return 0;
    htc__gw_wide_drop(gw, j->id);
    for (size_t i = 0; i < gw->n_sites; i++)
        if (j->width.members > 1 ? gw->parts[i] != 0 : i == at)
            part_with(gw, i);
    if (j->width.members > 1) {
        htc__gw_gang_keep(gw, j, gw->parts);
    } else {
        gw->sites[at].wide_job = j->id;
        gw->sites[at].wide_parts = 1;
    }
    return 1;
}

/* What is kept there for others would never be given to them: nothing of theirs begins. */
static void nothing_else(htc_gateway *gw, const job *j)
{
    for (size_t i = 0; i < gw->n_sites; i++) {
        if (gw->sites[i].wide_job != j->id)
            continue;
        if (gw->sites[i].memory.kept_for != j->id)
            htc__memory_keep(&gw->sites[i].memory, 0, 0);
        if (gw->sites[i].counted.kept_for != j->id)
            htc__counted_keep(&gw->sites[i].counted, 0, NULL);
    }
}

static void let_go(htc_gateway *gw, job *had)
{
    if (had) {
        had->user->lent_slots = 0;
        htc__gw_wide_drop(gw, had->id);
        had->gang.since = 0;
    }
    gw->reserved = 0;
}

void htc__gw_reserve(htc_gateway *gw)
{
    size_t            users = HASH_COUNT(gw->users), n = 0;
    job             **jobs = htc__alloc(&gw->env, (users + 1) * sizeof *jobs), *had = holder(gw);
    reservation_wait *waits = htc__alloc(&gw->env, (users + 1) * sizeof *waits);
    for (user *u = jobs && waits ? gw->users : NULL; u; u = u->hh.next) {
        job *j = u->queued ? first_of(gw, u) : NULL;
        if (!j)
            continue;
        jobs[n] = j;
        waits[n++] = (reservation_wait){ .job = j->id, .since = j->wide_since, .could = 1 };
    }
    if (!jobs || !waits)
        htc_runtime_break(gw->runtime, HTC_ENOMEM, "reserving slots");
    size_t next = htc__reservation_next(waits, n, gw->reserved, gw->now, gw->options.wide_wait_ns);
    job   *j = next < n ? jobs[next] : NULL;
    htc__free(&gw->env, jobs, (users + 1) * sizeof *jobs);
    htc__free(&gw->env, waits, (users + 1) * sizeof *waits);
    if (gw->reserved && (!j || j != had))
        let_go(gw, had);
    if (!j)
        return;
    int fresh = gw->reserved != j->id;
    gw->reserved = j->id;
    j->gang.not_before = 0;
    if ((fresh || !has_sites(gw, j)) && !choose_sites(gw, j)) {
        let_go(gw, j);
        return;
    }
    j->user->lent_slots = j->width.slots;
    nothing_else(gw, j);
    if (fresh)
        htc__log_with(&gw->env, HTC_LOG_INFO, HTC__FIELDS(HTC__NUMBER("job", j->id), HTC__TEXT("user", j->user->name)),
                      "a task of job %llu of %s has waited for %u slots for %.0f s -> those that fall free at its sites are kept for it alone", (unsigned long long)j->id,
                      j->user->name, j->width.slots, (double)(gw->now - j->wide_since) / 1e9);
}

/* ---- its slots ---- */

/* One agent that collects them gets what it lacks. */
static void grow(htc_gateway *gw, const job *j, size_t at)
{
    for (agent *a = gw->agents; a; a = a->hh.next)
        if (a->site == at && a->user == j->user && a->want < j->width.part && htc__gw_slots_may_grow(gw, a) && htc__gw_wide_collects(gw, a))
            htc__gw_slots_grow(gw, a, j->width.part - a->want);
}

/* Agents for the members that have none. */
static void launch(htc_gateway *gw, const job *j, size_t at)
{
    const site *s = &gw->sites[at];
    uint32_t    n = 0, unit = htc__gw_gang_unit(gw, at, j->width.part);
    for (const agent *a = gw->agents; a; a = a->hh.next)
        n += a->site == at && a->user == j->user && htc__gw_wide_may_collect(a);
    for (uint32_t free_now = s->cores - s->used; n < s->wide_parts && free_now && (!s->agent_slots || free_now >= unit); n++, free_now = s->cores - s->used)
        if (!htc__gw_agent_launch(gw, j->user, (uint32_t)at, unit))
            return;
}

void htc__gw_reserved_fill(htc_gateway *gw)
{
    const job *j = holder(gw);
    for (size_t i = 0; j && i < gw->n_sites; i++)
        if (htc__gw_reserved_at(gw, i) && htc__gw_site_open(gw, &gw->sites[i])) {
            grow(gw, j, i);
            launch(gw, j, i);
        }
}

void htc__gw_reserved_handed(htc_gateway *gw, job *j)
{
    j->wide_since = 0;
    if (gw->reserved == j->id)
        gw->reserved = 0;
}
