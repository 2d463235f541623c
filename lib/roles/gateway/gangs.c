/* Gangs: how one is collected, begins, and ends as a whole. What is decided is in gang.h.
 *
 *   collecting  its sites keep slots for it; agents that have them wait      all are there  at work
 *                                                                            collect_ns     resting
 *   resting     its user's other tasks run                                   the pause      (its turn comes again)
 *   at work     agents[0] has the task, the others hold their slots          the task is leased no more: all end
 *
 * Who its members are stands in a record, written before its chunk's. A member that is lost, or gives up, takes the whole gang with it:
 * the task waits again. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "htcsched/script.h"
#include "roles/gateway/gateway.h"

/* ---- where it could be ---- */

uint32_t htc__gw_gang_unit(const htc_gateway *gw, size_t at, uint32_t part)
{
    const site *s = &gw->sites[at];
    if (part > gw->site_nodes[at].slots)
        return 0;
    return s->agent_slots ? gw->site_nodes[at].slots : part; /* a batch system's job has its cores from its start to its end */
}

/* A site is one node, but for a batch system's. */
static gang_site site_for(const htc_gateway *gw, size_t at, uint32_t part, const counted_need *need)
{
    const site *s = &gw->sites[at];
    uint32_t    unit = htc__gw_gang_unit(gw, at, part);
    gang_site   g = { .group = s->agent_slots ? (uint32_t)at + 1 : 0 };
    if (unit)
        g.most = s->agent_slots ? (s->cores > s->used ? s->cores : s->used) / unit : 1;
    uint32_t times = need && !gw->site_nodes[at].unknown ? htc__counted_times(&s->counted, 0, need, 0) : UINT32_MAX;
    g.most = g.most < times ? g.most : times;
    return g;
}

uint32_t htc__gw_gang_most(const htc_gateway *gw, uint32_t part, const counted_need *need)
{
    uint32_t most = 0;
    for (size_t i = 0; i < gw->n_sites; i++) {
        uint32_t sum = 0, group = site_for(gw, i, part, need).group;
        for (size_t k = 0; k < gw->n_sites; k++) {
            gang_site g = site_for(gw, k, part, need);
            sum += g.group == group ? g.most : 0;
        }
        most = sum > most ? sum : most;
    }
    return most;
}

/* Members that the user could have there now: agents that are there, or could be launched in slots that are free. */
static uint32_t reach(const htc_gateway *gw, const user *u, size_t at, uint32_t part)
{
    const site *s = &gw->sites[at];
    uint32_t    unit = htc__gw_gang_unit(gw, at, part), free_slots = htc__gw_site_open(gw, s) ? s->cores - s->used : 0, n = 0;
    for (const agent *a = gw->agents; unit && a; a = a->hh.next)
        if (a->user == u && a->site == at && htc__gw_wide_may_collect(a)) {
            n += a->want >= part;
            free_slots += !s->agent_slots && a->want < part ? a->want : 0; /* it may grow */
        }
    return unit ? n + free_slots / unit : 0;
}

static int plan(htc_gateway *gw, const job *j, int at_once, int all, uint32_t *parts)
{
    for (size_t i = 0; i < gw->n_sites; i++) {
        gang_site *g = &gw->gang_sites[i];
        *g = site_for(gw, i, j->width.part, &j->counts);
        uint32_t now = reach(gw, j->user, i, j->width.part), times = htc__counted_times(&gw->sites[i].counted, j->id, &j->counts, 1);
        now = now < times ? now : times;
        if (!htc__gw_job_may(gw, j, i) || !htc__gw_site_serves(gw, j->user, i) || (all && !htc__gw_site_open(gw, &gw->sites[i])))
            g->most = 0;
        g->now = now < g->most ? now : g->most;
        g->taken = !all && gw->sites[i].wide_job && gw->sites[i].wide_job != j->id;
    }
    return htc__gang_plan(gw->gang_sites, gw->n_sites, j->width.members, at_once, parts);
}

int htc__gw_gang_plan(htc_gateway *gw, const job *j, int at_once, uint32_t *parts)
{
    return plan(gw, j, at_once, 0, parts);
}

int htc__gw_gang_plan_all(htc_gateway *gw, const job *j, uint32_t *parts)
{
    return plan(gw, j, 0, 1, parts);
}

void htc__gw_gang_keep(htc_gateway *gw, job *j, const uint32_t *parts)
{
    for (size_t i = 0; i < gw->n_sites; i++)
        if (parts[i]) {
            gw->sites[i].wide_job = j->id;
            gw->sites[i].wide_parts = parts[i];
        }
    htc__gang_begin(&j->gang, gw->now);
}

void htc__gw_gang_late(htc_gateway *gw)
{
    for (size_t i = 0; i < gw->n_sites; i++) {
        job *j = gw->sites[i].wide_job ? htc__gw_job(gw, gw->sites[i].wide_job) : NULL;
        if (!j || j->id == gw->reserved || !htc__gang_is_late(&j->gang, gw->now, gw->options.gang_collect_ns))
            continue;
        htc__gang_give_up(&j->gang, gw->now, gw->options.gang_collect_ns);
        j->user->lent_slots = 0;
        for (size_t k = 0; k < gw->n_sites; k++)
            if (gw->sites[k].wide_job == j->id)
                gw->sites[k].wide_job = gw->sites[k].wide_parts = 0;
        htc__log_with(&gw->env, HTC_LOG_INFO, HTC__FIELDS(HTC__NUMBER("job", j->id), HTC__TEXT("user", j->user->name)),
                      "%u nodes for a task of job %llu of %s are not together in time -> it is tried again in %.0f s", j->width.members,
                      (unsigned long long)j->id, j->user->name, (double)(j->gang.not_before - gw->now) / 1e9);
    }
}

/* ---- at work ---- */

static gang *find(const htc_gateway *gw, uint64_t id, uint64_t index)
{
    gang *g;
    DL_FOREACH(gw->gangs, g)
    if (g->attempt.job == id && g->attempt.task == index)
        return g;
    return NULL;
}

uint64_t htc__gw_gang_leader(const htc_gateway *gw, const htc_attempt *at)
{
    const gang *g = find(gw, at->job, at->task);
    return g && g->attempt.attempt == at->attempt ? g->agents[0] : 0;
}

static gang *gang_new(htc_gateway *gw, const htc_attempt *at)
{
    gang *g = htc__alloc(&gw->env, sizeof *g);
    if (!g) {
        htc_runtime_break(gw->runtime, HTC_ENOMEM, "noting a gang");
        return NULL;
    }
    g->attempt = *at;
    DL_APPEND(gw->gangs, g);
    return g;
}

/* A member ends at once. That a message is lost costs no more than a heartbeat, which lists what is nobody's. */
static void end_member(htc_gateway *gw, uint64_t id, const htc_attempt *at)
{
    agent *a = htc__gw_agent(gw, id);
    if (!a || !htc__gw_agent_held(a, at))
        return;
    htc__gw_agent_disown(gw, a, at);
    htc_revoke_write(&gw->scratch, at);
    htc_runtime_send(gw->runtime, a->peer, &gw->scratch);
    htc__gw_wide_nudge(gw, a);
}

void htc__gw_gang_over(htc_gateway *gw, const job *j, uint64_t index)
{
    gang *g = gw->gangs ? find(gw, j->id, index) : NULL;
    if (!g)
        return;
    DL_DELETE(gw->gangs, g);
    for (uint32_t i = g->n; i > 0; i--)
        end_member(gw, g->agents[i - 1], &g->attempt);
    htc__gw_taken_forget(gw, &g->attempt, 0);
    htc__free(&gw->env, g, sizeof *g);
    htc__gw_reallocate_soon(gw);
}

static void refuse_start(htc_gateway *gw, const agent *leader, const htc_gang_word *m, const char *node)
{
    htc_gang_end e = { .status = HTC_EUNSUPPORTED };
    htc_buf      b;
    snprintf(e.reason, sizeof e.reason, "the agent on %.60s is of an earlier version, and starts nothing for another node", node);
    htc_buf_init(&b, &gw->env, 0);
    htc_gang_end_write(&b, &e);
    htc_gang_word_write(&gw->scratch, &(htc_gang_word){ .agent = m->agent, .attempt = m->attempt, .member = m->member, .start = m->start, .kind = HTC_GANG_ENDED,
                                                       .body = htc_buf_bytes(&b) });
    htc_runtime_send(gw->runtime, leader->peer, &gw->scratch);
    htc_buf_free(&b);
}

void htc__gw_gang_word(htc_gateway *gw, const agent *from, const htc_gang_word *m)
{
    const gang *g = gw->gangs ? find(gw, m->attempt.job, m->attempt.task) : NULL;
    if (!g || g->attempt.attempt != m->attempt.attempt || m->member >= g->n)
        return;
    int      by_leader = m->kind == HTC_GANG_START || m->kind == HTC_GANG_STOP || m->kind == HTC_GANG_SEEN;
    uint64_t says = g->agents[by_leader ? 0 : m->member];
    agent   *to = says == from->id ? htc__gw_agent(gw, g->agents[by_leader ? m->member : 0]) : NULL;
    if (!to || !to->peer || !htc__gw_agent_held(to, &m->attempt))
        return; /* it is said again */
    if (to->speaks < HTC_WIRE_VERSION_GANGS) {
        if (m->kind == HTC_GANG_START || m->kind == HTC_GANG_STOP)
            refuse_start(gw, from, m, to->node);
        return;
    }
    htc_gang_word_write(&gw->scratch, m);
    htc_runtime_send(gw->runtime, to->peer, &gw->scratch);
}

void htc__gw_gangs_free(htc_gateway *gw)
{
    while (gw->gangs) {
        gang *g = gw->gangs;
        DL_DELETE(gw->gangs, g);
        htc__free(&gw->env, g, sizeof *g);
    }
}

/* ---- its beginning ---- */

static int could_join(htc_gateway *gw, const job *j, const agent *b)
{
    htc_ns until;
    return b->user == j->user && gw->sites[b->site].wide_job == j->id && b->state == AGENT_READY && b->peer && htc__gw_wide_may_collect(b) && !b->expires &&
           b->grant_pending == 0 && b->seen == b->grant && htc__gw_agent_offers(gw, b, &j->asks) && !htc__gw_node_aside(gw, b->node, &until);
}

/* Agents of this user that wait for it; the one that asks among them. */
static uint32_t gather(htc_gateway *gw, const job *j, const agent *a, agent **list, gang_agent *views, uint32_t cap, uint32_t *lead)
{
    uint32_t n = 0;
    *lead = UINT32_MAX;
    for (agent *b = gw->agents; b && n < cap; b = b->hh.next)
        if (could_join(gw, j, b)) {
            *lead = b == a ? n : *lead;
            views[n] = (gang_agent){ b->site, htc__gw_wide_room(b) };
            list[n++] = b;
        }
    return n;
}

#define ASKED_MAX 1024 /* agents that are looked at */

typedef struct starting {
    agent     *list[ASKED_MAX];
    gang_agent views[ASKED_MAX];
    uint32_t   members[HTC_TASK_NODES_MAX];
    char       nodes[HTC_TASK_NODES_MAX * 65];
    counted_need taking; /* of each member */
    task_hold   *holds[HTC_TASK_NODES_MAX];
    uint64_t     memory[HTC_TASK_NODES_MAX];
    htc_grant  grant;
} starting;

static htc_status grant_to(htc_gateway *gw, starting *s, uint32_t which, const htc_task *t, const job *j, chunk *c, const htc_attempt *at, uint64_t bytes)
{
    agent      *b = s->list[s->members[which]];
    htc_task    copy = *t;
    htc_granted *g = &s->grant.tasks[0];
    char         devices[3 * COUNTED_DEVICES_MAX];
    htc__counted_devices(s->holds[which] ? s->holds[which]->devices : 0, devices, sizeof devices);
    copy.limits.cores = j->width.part;
    copy.nodes = s->nodes;
    copy.member = which;
    copy.devices = devices[0] ? devices : NULL;
    copy.credentials = which == 0 ? htc__gw_credentials_of(j, t) : NULL;
    htc__gw_task_limits(j, t, c->tasks[at->task % CHUNK_TASKS].level, &copy.limits);
    memset(g, 0, sizeof *g);
    htc_status status = htc_task_to_bytes(&gw->env, &copy, &g->task);
    if (status != HTC_OK)
        return status;
    g->attempt = *at;
    g->count = j->count;
    g->compat = j->compat;
    if (j->wishes.signal[0] && which == 0)
        htc_signal_parse(j->wishes.signal, &g->signal, &g->signal_s);
    snprintf(g->user, sizeof g->user, "%s", j->user->name);
    s->grant.kind = HTC_GRANT_TASKS;
    s->grant.count = 1;
    s->grant.seq = b->pull_seq; /* the answer to that may have been lost, and its agent asks again by the same number */
    s->grant.grant = ++b->grant;
    b->pushed = b->grant;
    htc_buf_clear(&b->last_grant);
    htc_grant_write(&b->last_grant, &s->grant);
    htc_work_free(&gw->env, g->task);
    b->grant_pending = 1;
    b->since = gw->now;
    if (!htc__gw_agent_hold(gw, b, at, b->grant, bytes, j->width.part))
        return HTC_ENOMEM;
    b->held[b->n_held - 1].member = (uint8_t)which;
    b->held[b->n_held - 1].taken = s->holds[which];
    htc__gw_grant_with(gw, c, b);
    return HTC_OK;
}

static void note(htc_gateway *gw, chunk *c, const gang *g, const uint64_t *bytes, const counted_need *taking)
{
    htc_buf b;
    htc_buf_init(&b, &gw->env, 0);
    htc__gw_hold_write(&b, g->n, g->agents, g->devices, bytes, taking);
    htc__gw_chunk_put(gw, c, htc__gw_key_taken(&g->attempt), &b);
    htc_buf_free(&b);
}

static int start(htc_gateway *gw, starting *s, uint32_t n, job *j, chunk *c, uint32_t offset, const htc_task *t)
{
    task        *its = &c->tasks[offset];
    htc_attempt  at = { j->id, c->index * CHUNK_TASKS + offset, its->attempt + 1 };
    uint64_t     named = htc__gw_job_task_memory(j, t, its->level);
    agent       *leader = s->list[s->members[0]];
    htc_status   status = HTC_OK;
    gang        *g = gang_new(gw, &at);
    size_t       len = 0;
    task_width   w = j->width;
    if (!g)
        return 0;
    for (uint32_t i = 0; i < n; i++) {
        const agent *b = s->list[s->members[i]];
        s->holds[i] = htc__gw_take(gw, b->site, &at, &s->taking);
        g->devices[g->n] = s->holds[i] ? s->holds[i]->devices : 0;
        s->memory[i] = gw->sites[b->site].memory.total ? htc__site_needs(&gw->sites[b->site], named, w.part) : 0;
        g->agents[g->n++] = b->id;
        len += (size_t)snprintf(s->nodes + len, sizeof s->nodes - len, "%s%s", i ? " " : "", b->node[0] && !strchr(b->node, ' ') ? b->node : "localhost");
    }
    assert(its->state == TASK_NEW || its->state == TASK_WAITING);
    htc_ns waited = htc__gw_job_waited(gw, j, its);
    its->attempt++;
    its->agent = leader->id;
    its->phase = HTC_HELD_WAITING;
    note(gw, c, g, s->memory, &s->taking);
    for (uint32_t i = 0; i < n && status == HTC_OK; i++)
        status = grant_to(gw, s, i, t, j, c, &at, htc__site_needs(&gw->sites[s->list[s->members[i]]->site], named, w.part));
    if (status != HTC_OK) {
        htc_runtime_break(gw->runtime, status, "granting a task to a gang");
        return 0;
    }
    htc__gw_wide_handed(gw, j, w.slots);
    htc__gw_job_taken(gw, j, at.task);
    htc__gw_task_set(gw, c, offset, TASK_LEASED);
    htc__gw_use(c, (usage){ .attempts = 1 });
    htc__gw_account(gw, j, gw->sites[leader->site].name, (day_sums){ .begun = 1, .wait_ns = waited });
    htc__gw_job_handed(gw, j, leader->site);
    j->user->last_served = ++gw->served;
    if (!j->started) {
        j->started = gw->wall;
        htc__gw_job_dirty(gw, j, NULL);
    }
    return 1;
}

/* Of what sites count each member takes its own, at its site. */
static int counts_fit(htc_gateway *gw, const starting *s, job *j)
{
    for (size_t i = 0; i < gw->n_sites; i++)
        if (gw->parts[i] > htc__counted_times(&gw->sites[i].counted, j->id, &s->taking, 1)) {
            htc__gw_counted_waits(gw, j);
            return 0;
        }
    return 1;
}

static int begin(htc_gateway *gw, starting *s, agent *a, job *j)
{
    uint32_t  lead, n = gather(gw, j, a, s->list, s->views, ASKED_MAX, &lead), offset;
    chunk    *c;
    htc_task *t = NULL;
    for (size_t i = 0; i < gw->n_sites; i++)
        gw->parts[i] = gw->sites[i].wide_job == j->id ? gw->sites[i].wide_parts : 0;
    n = lead == UINT32_MAX ? 0 : htc__gang_choose(s->views, n, lead, j->width.part, gw->parts, gw->n_sites, s->members);
    if (n != j->width.members || !htc__gw_job_peek(gw, j, &c, &offset))
        return 0;
    for (uint32_t i = 0; i < n; i++)
        if (!htc__gw_memory_fits(gw, s->list[s->members[i]], j, j->need, j->width.part))
            return 0;
    if (htc_spec_task(j->spec, c->index * CHUNK_TASKS + offset, &t, NULL) != HTC_OK)
        return 0; /* it fails as others do, when its turn comes */
    task_width w = htc__gw_task_width(t);
    htc__counted_need(&s->taking, t->resources, t->n_resources);
    int begun = counts_fit(gw, s, j) && w.members == n && w.part == j->width.part && start(gw, s, n, j, c, offset, t);
    htc_task_destroy(t);
    return begun;
}

int htc__gw_gang_begin(htc_gateway *gw, agent *a)
{
    job *j = gw->sites[a->site].wide_job ? htc__gw_wide_at(gw, a->site) : NULL;
    if (!j || j->width.members == 1 || j->user != a->user || !htc__gw_job_readable(j, a) || gw->store_status != HTC_OK || !could_join(gw, j, a))
        return 0;
    starting *s = htc__alloc(&gw->env, sizeof *s);
    if (!s) {
        htc_runtime_break(gw->runtime, HTC_ENOMEM, "beginning a gang");
        return 0;
    }
    int begun = begin(gw, s, a, j);
    htc__free(&gw->env, s, sizeof *s);
    return begun;
}

/* ---- a new start ---- */

int htc__gw_gang_again(htc_gateway *gw, const job *j, agent *leader, const htc_attempt *at, const task_width *w, const counted_need *need, uint64_t bytes)
{
    gang *g = gang_new(gw, at);
    int   whole = g && htc__gw_gang_found(gw, g) && g->n == w->members && g->agents[0] == leader->id;
    if (whole)
        htc__gw_retake(gw, leader, at, need, g->devices[0]);
    for (uint32_t i = 1; whole && i < g->n; i++) {
        agent *b = htc__gw_agent(gw, g->agents[i]);
        whole = b && b->user == j->user && htc__gw_agent_hold(gw, b, at, 0, bytes, w->part);
        if (whole) {
            b->held[b->n_held - 1].member = (uint8_t)i;
            htc__gw_retake(gw, b, at, need, g->devices[i]);
        }
    }
    if (whole) /* else its members owe what they have */
        htc__gw_taken_claim(gw, at);
    return whole;
}
