/* Which job may hand out a task at which site: jobs that fail fast are slowed there (health.h), tasks are packed by the memory
 * that they ask for (memory.h), and a user's jobs take turns by priority and number. A site is one node. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "roles/gateway/gateway.h"

/* ---- jobs that fail fast ---- */

uint32_t htc__gw_job_allows(const job *j, size_t at)
{
    return j->health ? htc__health_allows(&j->health[at]) : UINT32_MAX;
}

htc_ns htc__gw_job_slowed_until(const job *j)
{
    htc_ns first = HTC_NEVER;
    for (size_t i = 0; i < j->n_health; i++) {
        if (htc__health_allows(&j->health[i]))
            return 0;
        if (j->health[i].until < first)
            first = j->health[i].until;
    }
    return j->n_health ? first : 0;
}

/* Its pause has begun there, or is over. */
static void changed(htc_gateway *gw, job *j, const health *h)
{
    if (htc__health_allows(h) == 0)
        htc__gw_due_add(gw, h->until, j->id, DUE_RESTED);
    htc__gw_job_touch(gw, j);
    htc__gw_reallocate_soon(gw);
}

void htc__gw_job_handed(htc_gateway *gw, job *j, size_t at)
{
    j->memory_since = 0;
    htc__gw_counted_handed(gw, j);
    for (size_t i = 0; i < gw->n_sites; i++)
        if (gw->sites[i].memory.kept_for == j->id) {
            htc__memory_keep(&gw->sites[i].memory, 0, 0);
            htc__gw_reallocate_soon(gw);
        }
    if (!j->health)
        return;
    if (htc__health_handed(&j->health[at], gw->now))
        changed(gw, j, &j->health[at]);
    else if (j->health[at].pause)
        htc__gw_job_touch(gw, j);
}

void htc__gw_job_ended(htc_gateway *gw, job *j, size_t at, const htc_outcome *o)
{
    health_verdict verdict = htc__health_of(htc__health_status(o->status, o->final), o->ended > o->started ? o->ended - o->started : 0);
    if (!j->health && verdict != HEALTH_FAILS_FAST)
        return;
    if (!j->health) {
        j->health = htc__alloc(&gw->env, gw->n_sites * sizeof *j->health);
        if (!j->health) {
            htc_runtime_break(gw->runtime, HTC_ENOMEM, "noting a failure");
            return;
        }
        j->n_health = gw->n_sites;
    }
    health *h = &j->health[at];
    if (!htc__health_ended(h, verdict, gw->now))
        return;
    if (verdict == HEALTH_FAILS_FAST)
        htc__log_with(&gw->env, HTC_LOG_WARN, HTC__FIELDS(HTC__NUMBER("job", j->id), HTC__TEXT("user", j->user->name), HTC__TEXT("site", gw->sites[at].name)),
                      "job %llu of %s failed %u tasks fast in a row at site %s -> its tasks are started slowly there",
                      (unsigned long long)j->id, j->user->name, h->in_a_row, gw->sites[at].name);
    changed(gw, j, h);
}

void htc__gw_job_rested(htc_gateway *gw, job *j)
{
    for (size_t i = 0; i < j->n_health; i++)
        if (htc__health_rested(&j->health[i], gw->now, gw->sites[i].cores))
            changed(gw, j, &j->health[i]);
}

/* ---- the machine ---- */

offer htc__gw_site_offers(const htc_gateway *gw, const machine_wish *w, size_t at)
{
    return htc__machine_wish_any(w) ? htc__site_offers(w, &gw->site_nodes[at]) : OFFER_YES;
}

uint32_t htc__gw_job_may(const htc_gateway *gw, const job *j, size_t at)
{
    return htc__gw_site_offers(gw, &j->asks, at) == OFFER_YES ? htc__gw_job_allows(j, at) : 0;
}

int htc__gw_agent_offers(const htc_gateway *gw, const agent *a, const machine_wish *w)
{
    return !htc__machine_wish_any(w) ||
           htc__machine_offers(w, &(machine_offer){ .site = gw->sites[a->site].name, .node = a->node, .kinds = &a->kind }) == OFFER_YES;
}

int htc__gw_agent_is_unsuited(htc_gateway *gw, const agent *a, char *why, size_t cap)
{
    int  looks = LOOK_MAX, unsuited = 0;
    char text[160];
    for (job *j = gw->sites[a->site].agent_slots ? a->user->ready : NULL; j && looks--; j = j->ready_next) {
        htc__gw_job_needs(gw, j);
        if (htc__gw_agent_offers(gw, a, &j->asks))
            return 0;
        if (unsuited || !htc__gw_job_may(gw, j, a->site))
            continue;
        unsuited = 1;
        htc__machine_wish_text(&j->asks, text, sizeof text);
        snprintf(why, cap, "an agent began on node %.40s, and tasks that ask for %s do not run there", a->node, text);
    }
    return unsuited;
}

/* ---- memory ---- */

uint64_t htc__gw_job_task_memory(const job *j, const htc_task *t, uint32_t level)
{
    const raised *up = htc__gw_raised(j, level);
    uint64_t      named = up && up->memory ? up->memory : j->memory ? j->memory : t->limits.memory;
    return named < t->memory_min ? t->memory_min : named;
}

static uint64_t needs(htc_gateway *gw, const job *j, uint64_t index, task_width *width, counted_need *taking, machine_wish *asks, double *wall_s)
{
    htc_task    *t = NULL;
    const chunk *c = htc__gw_chunk((job *)(uintptr_t)j, index / CHUNK_TASKS);
    htc_status   status = htc_spec_task(j->spec, index, &t, NULL);
    uint32_t     level = c ? c->tasks[index % CHUNK_TASKS].level : 0;
    uint64_t     named = status == HTC_OK ? htc__gw_job_task_memory(j, t, level) : 0;
    *wall_s = status == HTC_OK ? htc__gw_job_task_wall(j, t, level) : 0;
    *width = status == HTC_OK ? htc__gw_task_width(t) : (task_width){ 1, 1, 1 };
    htc__counted_need(taking, status == HTC_OK ? t->resources : NULL, status == HTC_OK ? t->n_resources : 0);
    if (asks && status != HTC_OK)
        htc__machine_wish_free(&gw->env, asks);
    else if (asks)
        status = htc__machine_wish_set(&gw->env, asks, t);
    if (status == HTC_ENOMEM)
        htc_runtime_break(gw->runtime, status, "expanding a task");
    htc_task_destroy(t);
    return named;
}

uint64_t htc__gw_task_needs(htc_gateway *gw, const job *j, uint64_t index, task_width *width, counted_need *taking)
{
    double wall_s;
    return needs(gw, j, index, width, taking, NULL, &wall_s);
}

void htc__gw_job_needs(htc_gateway *gw, job *j)
{
    uint64_t index = htc__gw_job_next(j);
    if (j->need_of == index + 1)
        return;
    j->need = needs(gw, j, index, &j->width, &j->counts, &j->asks, &j->need_wall_s);
    j->need_of = index + 1;
}

uint64_t htc__site_needs(const site *s, uint64_t named, uint32_t slots)
{
    uint64_t default_of = s->task_memory * (slots ? slots : 1);
    return named ? named : default_of < s->memory.total ? default_of : s->memory.total;
}

static int fits_somewhere(const htc_gateway *gw, const job *j, uint64_t named, uint32_t slots)
{
    for (size_t i = 0; i < gw->n_sites; i++)
        if (htc__gw_site_offers(gw, &j->asks, i) == OFFER_NO)
            continue;
        else if (gw->sites[i].memory.total == 0 || htc__site_needs(&gw->sites[i], named, slots) <= gw->sites[i].memory.total)
            return 1;
    return 0;
}

/* One that no node could ever take goes on as if it fitted: it fails when it is handed out, and says why. */
static int fits(const htc_gateway *gw, const memory *m, size_t at, const job *j, uint64_t has)
{
    uint64_t need = htc__site_needs(&gw->sites[at], j->need, j->width.part);
    return htc__memory_fits(m, j->id, need > has ? need - has : 0) || !fits_somewhere(gw, j, j->need, j->width.part);
}

static void waits_for_memory(htc_gateway *gw, job *j)
{
    if (!j->memory_since) {
        j->memory_since = gw->now;
        htc__gw_reallocate_soon(gw); /* it asks for no slot any more */
    }
    gw->memory_waits = 1;
}

/* The largest figures, as many as there are slots, the smallest first. */
typedef struct largest {
    uint64_t of[AGENT_SLOTS_MAX];
    uint32_t n, slots;
} largest;

static void consider(largest *l, uint64_t one)
{
    uint32_t at = 0;
    if (l->n == l->slots && (l->n == 0 || one <= l->of[0]))
        return;
    if (l->n == l->slots)
        memmove(l->of, l->of + 1, --l->n * sizeof *l->of);
    while (at < l->n && l->of[at] < one)
        at++;
    memmove(l->of + at + 1, l->of + at, (l->n++ - at) * sizeof *l->of);
    l->of[at] = one;
}

/* What its tasks, those that it is to end, and one more that asks for so much, reserve: as many run at once as there are slots, and these may be the
 * largest. */
static uint64_t reserves(const agent *a, uint32_t slots, uint64_t more)
{
    largest  l = { .slots = slots };
    uint64_t sum = 0;
    assert(slots <= AGENT_SLOTS_MAX);
    for (uint32_t i = 0; i < a->n_held; i++)
        consider(&l, a->held[i].memory);
    for (const task_hold *k = a->owed; k; k = k->next)
        consider(&l, k->memory);
    consider(&l, more);
    for (uint32_t i = 0; i < l.n; i++)
        sum += l.of[i];
    return sum;
}

/* One more takes the place of the smallest, if as many as the agent has slots reserve something. */
uint64_t htc__gw_memory_room(const htc_gateway *gw, const agent *a)
{
    const memory *m = &gw->sites[a->site].memory;
    assert(a->n_slots > 0);
    return m->total ? htc__memory_free(m) + reserves(a, a->n_slots, 0) - reserves(a, a->n_slots - 1, 0) : UINT64_MAX;
}

int htc__gw_memory_fits_slots(htc_gateway *gw, const agent *a, uint32_t slots)
{
    return htc__memory_fits(&gw->sites[a->site].memory, 0, reserves(a, slots, 0) - a->memory);
}

/* Where room is kept for another job, an agent that has a task gets no other one in its place: what it reserves would never be given
 * back. */
int htc__gw_memory_fits(htc_gateway *gw, agent *a, job *j, uint64_t named, uint32_t slots)
{
    const memory *m = &gw->sites[a->site].memory;
    uint64_t      need = htc__site_needs(&gw->sites[a->site], named, slots);
    int           holds_on = a->n_held && m->kept_for && m->kept_for != j->id && a->held_slots >= htc__gw_slots_may_fill(a);
    if (!holds_on && (htc__memory_fits(m, j->id, reserves(a, a->n_slots, need) - a->memory) || !fits_somewhere(gw, j, named, slots)))
        return 1;
    waits_for_memory(gw, j);
    return 0;
}

void htc__gw_memory_reserve(htc_gateway *gw, agent *a)
{
    uint64_t most = reserves(a, a->n_slots, 0);
    htc__memory_change(&gw->sites[a->site].memory, a->memory, most);
    if (most < a->memory)
        htc__gw_reallocate_soon(gw);
    a->memory = most;
}

/* Whose next task is to have room at this site. */
static memory_wait longest_wait(htc_gateway *gw, size_t at)
{
    memory_wait best = { 0 };
    for (job *j = gw->jobs; j; j = j->hh.next) {
        if (!j->memory_since || gw->now < j->memory_since + gw->options.memory_wait_ns || !j->in_ready || !htc__gw_quota_room(j) || !htc__gw_job_may(gw, j, at))
            continue;
        htc__gw_job_needs(gw, j);
        memory_wait w = { j->id, htc__site_needs(&gw->sites[at], j->need, j->width.part), j->memory_since };
        for (size_t i = 0; i < gw->n_sites; i++)
            if (gw->sites[i].memory.kept_for == j->id)
                w.need = UINT64_MAX;
        if (w.need <= gw->sites[at].memory.total && htc__memory_longer(&w, &best))
            best = w;
    }
    return best;
}

/* The one that room is kept for may have been given a task elsewhere, or be gone, or its next task asks for something else. */
static void keep_at(htc_gateway *gw, size_t at)
{
    memory  *m = &gw->sites[at].memory;
    job     *j = m->kept_for ? htc__gw_job(gw, m->kept_for) : NULL;
    if (j)
        htc__gw_job_needs(gw, j);
    uint64_t need = j && j->memory_since && j->in_ready && htc__gw_job_may(gw, j, at) ? htc__site_needs(&gw->sites[at], j->need, j->width.part) : UINT64_MAX;
    htc__memory_keep(m, need <= m->total ? m->kept_for : 0, need);
    memory_wait w = m->kept_for || !gw->memory_waits ? (memory_wait){ 0 } : longest_wait(gw, at);
    if (w.job)
        htc__memory_keep(m, w.job, w.need);
}

void htc__gw_memory_keep(htc_gateway *gw)
{
    int waits = 0;
    for (size_t i = 0; i < gw->n_sites; i++)
        if (gw->sites[i].memory.total)
            keep_at(gw, i);
    for (const job *j = gw->memory_waits ? gw->jobs : NULL; j && !waits; j = j->hh.next)
        waits = j->memory_since != 0;
    gw->memory_waits = waits != 0;
}

/* ---- whose turn it is ---- */

int htc__gw_job_turn(const job *a, const job *b)
{
    if (a->priority != b->priority)
        return a->priority > b->priority ? -1 : 1;
    return a->id < b->id ? -1 : a->id > b->id;
}

/* While it is slowed at every site, no more than all of these allow. */
static uint64_t slowed(const job *j, uint64_t ready)
{
    uint64_t allowed = 0;
    for (size_t i = 0; i < j->n_health; i++)
        allowed += htc__gw_job_allows(j, i);
    return j->n_health == 0 || allowed > ready ? ready : allowed;
}

/* Of those that wait: no more than may run beside what agents hold. */
static uint64_t capped(const job *j, uint64_t waiting)
{
    uint64_t left = j->max_running > j->now.leased ? j->max_running - j->now.leased : 0;
    return j->max_running == 0 || left > waiting ? waiting : left;
}

int htc__gw_job_is_full(const job *j)
{
    uint64_t waiting = htc__gw_job_waiting(j);
    return waiting && capped(j, waiting) == 0;
}

uint64_t htc__gw_job_offers(const job *j)
{
    return j->project && j->project->quota.room == 0 ? 0 : slowed(j, capped(j, htc__gw_job_waiting(j)));
}

uint64_t htc__gw_job_ready(const job *j)
{
    uint64_t ready = htc__gw_job_offers(j), room = htc__gw_quota_room(j);
    return ready < room ? ready : room;
}

uint64_t htc__gw_queued(const user *u)
{
    return u->queued < u->quota.room ? u->queued : u->quota.room;
}

htc_ns htc__gw_job_waited(const htc_gateway *gw, const job *j, const task *t)
{
    htc_ns since = t->state == TASK_WAITING ? gw->wall - (gw->now - t->since) : j->submitted;
    since = since > j->could ? since : j->could;
    return gw->wall > since ? gw->wall - since : 0;
}

/* An agent of an earlier version takes a grant with a signal, and a task with credentials, for a malformed one, and does not say on which machine it is. */
int htc__gw_job_readable(const job *j, const agent *a)
{
    if ((j->asks.system[0] || j->asks.architecture[0]) && !a->kind.n)
        return 0;
    return (!j->wishes.signal[0] && !j->wishes.credentials) || a->speaks >= HTC_WIRE_VERSION_GANGS;
}

job *htc__gw_job_for(htc_gateway *gw, agent *a)
{
    int looks = a->user->quota.room ? LOOK_MAX : 0;
    a->spares = 0;
    for (job *j = a->user->ready; j && looks--; j = j->ready_next) {
        if (htc__gw_job_allows(j, a->site) == 0 || !htc__gw_job_readable(j, a))
            continue;
        if (htc__gw_passes_over(gw, j, a)) {
            a->spares = 1;
            continue;
        }
        htc__gw_job_needs(gw, j);
        if (htc__gw_agent_offers(gw, a, &j->asks) && htc__gw_wide_takes(gw, a, j, j->width.slots) && htc__gw_memory_fits(gw, a, j, j->need, j->width.part) &&
            htc__gw_counted_fits(gw, a->site, j, &j->counts))
            return j;
    }
    return NULL;
}

/* How many slots, at most most, tasks of this job would fill that could start beside what m and c say. now: of those
 * that take several slots only the ones that slots are kept for. */
static uint64_t startable(htc_gateway *gw, memory *m, counted_pool *c, size_t at, const job *j, uint64_t most, int now)
{
    uint64_t ready = htc__gw_job_ready(j), allows = htc__gw_job_may(gw, j, at), n = 0, unit = j->width.slots;
    if (now && htc__gw_reserved_bars(gw, at, j))
        return 0;
    if (!htc__gw_site_serves(gw, j->user, at) || !htc__gw_wide_fits(gw, at, j) || (now && j->width.slots > 1 && gw->sites[at].wide_job != j->id))
        return 0;
    if (j->width.members > 1) { /* by members */
        unit = htc__gw_gang_unit(gw, at, j->width.part);
        ready = unit == 0 ? 0 : now ? gw->sites[at].wide_parts : !gw->sites[at].agent_slots ? 1 : ready * j->width.members;
        unit = unit ? unit : 1;
    }
    most = most / unit + (most % unit != 0);
    most = ready < most ? ready : most;
    most = allows < most ? allows : most;
    for (; n < most && fits(gw, m, at, j, 0) && !htc__counted_lacks(c, j->id, &j->counts); n++) {
        if (j->counts.n)
            htc__counted_take(c, &j->counts);
        if (c->kept_for == j->id)
            htc__counted_keep(c, 0, NULL);
        htc__memory_change(m, 0, htc__site_needs(&gw->sites[at], j->need, j->width.part));
        if (m->kept_for == j->id)
            htc__memory_keep(m, 0, 0);
    }
    return n * unit;
}

uint64_t htc__gw_startable(htc_gateway *gw, const user *u, size_t at)
{
    uint64_t n = 0, cores = gw->sites[at].cores;
    int      looks = LOOK_MAX;
    memory   m = gw->sites[at].memory;
    counted_pool  c = gw->sites[at].counted;
    for (job *j = u->ready; j && n < cores && looks--; j = j->ready_next) {
        htc__gw_job_needs(gw, j);
        n += startable(gw, &m, &c, at, j, cores - n, 1);
    }
    return n;
}

uint64_t htc__gw_usable(htc_gateway *gw, const user *u, size_t at)
{
    uint64_t n = 0, cores = gw->sites[at].cores;
    int      looks = LOOK_MAX;
    memory   now = gw->sites[at].memory, own = { .total = now.total, .reserved = u->reserved };
    counted_pool  all = gw->sites[at].counted; /* what others have of it is theirs until their tasks end: nobody is asked for it */
    for (job *j = u->ready; j && n < cores && looks--; j = j->ready_next) {
        htc__gw_job_needs(gw, j);
        if (!j->memory_since || fits(gw, &now, at, j, 0))
            n += startable(gw, &own, &all, at, j, cores - n, 0);
    }
    return n;
}

void htc__gw_memory_note(htc_gateway *gw, const user *u, int owed)
{
    int looks = LOOK_MAX, fit = 0;
    for (job *j = u->ready; j && !fit && looks--; j = j->ready_next) {
        int held_up = 0, counted_up = 0;
        htc__gw_job_needs(gw, j);
        for (size_t i = 0; i < gw->n_sites && !fit; i++) {
            int room = htc__gw_job_may(gw, j, i) && fits(gw, &gw->sites[i].memory, i, j, 0), empty = owed || gw->sites[i].used < gw->sites[i].cores;
            fit = room && !htc__counted_lacks(&gw->sites[i].counted, j->id, &j->counts);
            held_up |= !room && htc__gw_job_may(gw, j, i) && empty;
            counted_up |= room && !fit && empty;
        }
        if (counted_up && !fit)
            htc__gw_counted_waits(gw, j);
        else if (held_up && !fit)
            waits_for_memory(gw, j);
    }
}
