/* Agents: launched, registered, heard from, suspected, lost, gone.
 *
 *   submitted --launched--> starting --hello--> ready --told to exit, or bye--> leaving --process ended--> (gone)
 *   any --silent for lost_after, or stopped--> lost --process ended--> (gone);   from the store: unknown --hello--> ready
 *
 * A slot is free again only when the process of its agent is gone, or the agent has given it back: slots.c. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "roles/gateway/gateway.h"
#include "roles/gateway/nodes_closed.h"

#define LEAVE_WITHIN (10 * HTC_SECOND) /* of being told; then it is ended */
#define RESTS_MAX    16                /* heartbeats at most that an agent may leave out */

int htc__gw_agent_waits(const agent *a)
{
    return a->waits && a->state < AGENT_READY;
}

agent *htc__gw_agent(htc_gateway *gw, uint64_t id)
{
    agent *a;
    HASH_FIND(hh, gw->agents, &id, sizeof id, a);
    return a;
}

const char *htc__gw_agent_state_name(const agent *a)
{
    switch ((agent_state)a->state) {
    case AGENT_SUBMITTED: return "submitted";
    case AGENT_STARTING: return a->waits ? "queued" : "starting";
    case AGENT_UNKNOWN: return a->waits ? "queued" : "suspected";
    case AGENT_READY: return a->suspected ? "suspected" : a->draining ? "draining" : a->n_held ? "busy" : "idle";
    case AGENT_LEAVING: return "leaving";
    case AGENT_LOST: return "lost";
    }
    return "?";
}

/* Every change of an agent's state or mark stands between a -1 and a +1. */
void htc__gw_agent_counts(htc_gateway *gw, agent *a, int add)
{
    user    *u = a->user;
    uint32_t d = (uint32_t)add;
    (void)gw; /* where nothing is asserted */
    assert(add == 1 || add == -1);
    if (a->state == AGENT_LOST)
        return;
    if (htc__gw_agent_waits(a)) {
        u->waits += d * a->n_slots;
        return;
    }
    if (a->stop || a->state == AGENT_LEAVING) {
        u->leaving += d * a->n_slots;
    } else if (a->draining) {
        u->draining += d * a->n_slots;
    } else {
        u->agents += d * a->want;
        u->draining += d * (a->n_slots - a->want);
    }
    /* Below zero: what changed was not between a -1 and a +1. */
    assert(u->leaving <= gw->slots && u->draining <= gw->slots && u->agents <= gw->slots);
    /* Of the agents that count: one that is marked before it came is not awaited. */
    if ((a->state == AGENT_SUBMITTED || a->state == AGENT_STARTING) && !a->stop && !a->draining)
        u->starting += d * a->want;
    assert(u->starting <= gw->slots);
}

static void set_state(htc_gateway *gw, agent *a, agent_state state)
{
    assert(state > a->state); /* an agent only goes forward: nothing brings a lost one back */
    htc__gw_agent_counts(gw, a, -1);
    a->state = (uint8_t)state;
    a->since = gw->now;
    htc__gw_agent_counts(gw, a, 1);
}

static void set_reason(agent *a, const char *why)
{
    snprintf(a->reason, sizeof a->reason, "%s", why);
    htc__text_clean(a->reason);
}

/* ---- how its user's tasks run ---- */

uint32_t htc__gw_place(const htc_gateway *gw, const user *u)
{
    return htc__place_of(gw->options.apart, strcmp(u->name, gw->owner_name) == 0, u->uid);
}

void htc__gw_place_text(const htc_gateway *gw, const user *u, char *text, size_t cap)
{
    switch ((htc__place_kind)htc__gw_place(gw, u)) {
    case HTC_PLACE_OWNER: snprintf(text, cap, "owner"); break;
    case HTC_PLACE_CONFINED: snprintf(text, cap, "confined"); break;
    case HTC_PLACE_UID: snprintf(text, cap, "uid %u", u->uid); break;
    case HTC_PLACE_REFUSED:
        if (gw->options.apart == HTC_APART_UID)
            snprintf(text, cap, "%s has no uid here: htc user set %s --uid UID gives one", u->name, u->name);
        else
            snprintf(text, cap, "%s", gw->apart_why[0] ? gw->apart_why : "nothing keeps them apart from the owner's");
    }
}

void htc__gw_apart_text(const htc_gateway *gw, char *text, size_t cap)
{
    switch ((htc_apart)gw->options.apart) {
    case HTC_APART_UID: snprintf(text, cap, "other users' tasks run with their own uids"); break;
    case HTC_APART_CONFINED: snprintf(text, cap, "other users' tasks run confined, with the owner's uid"); break;
    case HTC_APART_REFUSED:
        snprintf(text, cap, "other users' tasks are refused: %s", gw->apart_why[0] ? gw->apart_why : "nothing keeps them apart");
    }
}

/* ---- launch ---- */

/* It was refused, held or did not come. What was launched before the pause began says nothing new by failing too. */
static void launch_failed(htc_gateway *gw, const agent *a, const char *why)
{
    site  *s = &gw->sites[a->site];
    htc_ns pause = gw->options.relaunch_backoff_ns;
    a->user->held_agents++;
    s->launches_failed++;
    if (s->failures && a->launched <= s->failed)
        return;
    s->failed = gw->now;
    for (uint32_t i = 0; i < s->failures && pause < 300 * HTC_SECOND; i++)
        pause *= 2;
    if (pause > 300 * HTC_SECOND)
        pause = 300 * HTC_SECOND;
    s->failures++;
    if (s->joins && !s->host) {
        htc__gw_joined_away(s);
        return;
    }
    s->not_before = gw->now + pause;
    snprintf(s->reason, sizeof s->reason, "%s", why);
    htc__text_clean(s->reason);
    s->reason_of = a->id;
    htc__log_with(&gw->env, HTC_LOG_WARN, HTC__FIELDS(HTC__TEXT("site", s->name), HTC__TEXT("why", why)),
                  "site %s: %s (%u in a row) -> launch again in %.0f s", s->name, why, s->failures,
                  (double)pause / 1e9);
}

/* What LAUNCH and WATCH_AGENT answer. 0: nothing that could be. */
static int read_handle(agent *a, htc_bytes body)
{
    htc_reader r = htc_reader_of(body);
    htc_bytes  handle = htc_get_bytes(&r);
    char       name[HTC_HANDLE_NAME_MAX];
    htc_get_str(&r, name, sizeof name);
    if (htc_reader_done(&r) != HTC_OK || handle.len == 0 || handle.len > sizeof a->handle)
        return 0;
    htc__gw_agent_handle(a, handle);
    snprintf(a->handle_name, sizeof a->handle_name, "%s", name);
    htc__text_clean(a->handle_name);
    return 1;
}

void htc__gw_agent_launched(htc_gateway *gw, agent *a, htc_status status, htc_bytes body)
{
    if (status == HTC_OK && !read_handle(a, body)) {
        status = HTC_EPROTO;
        body = htc_bytes_of("what was launched has no name that can be read");
    }
    if (status != HTC_OK) {
        char why[REASON_MAX];
        snprintf(why, sizeof why, "an agent could not be launched: %.*s", body.len < 280 ? (int)body.len : 280,
                 body.len ? (const char *)body.data : "");
        if (status == HTC_EDENIED) { /* of this user, and no fault of the site */
            if (!a->user->denied_until)
                a->user->denied_until = htc__alloc(&gw->env, gw->n_sites * sizeof *a->user->denied_until);
            if (!a->user->denied_until) {
                htc_runtime_break(gw->runtime, HTC_ENOMEM, "noting that a site refuses a user");
                return;
            }
            a->user->denied_until[a->site] = gw->now + 60 * HTC_SECOND;
            htc__log_with(&gw->env, HTC_LOG_WARN, HTC__FIELDS(HTC__TEXT("site", gw->sites[a->site].name), HTC__TEXT("user", a->user->name)),
                          "site %s does not run tasks of %s: %s -> asked again in 60 s", gw->sites[a->site].name, a->user->name, body.len ? why : htc_strerror(status));
            htc__gw_agent_gone(gw, a, "its site does not run tasks of this user");
            return;
        }
        launch_failed(gw, a, body.len ? why : htc_strerror(status));
        htc__gw_agent_gone(gw, a, "it could not be launched");
        return;
    }
    if (a->state == AGENT_SUBMITTED)
        set_state(gw, a, AGENT_STARTING);
    htc__gw_agent_save(gw, a);
}

static void launched(void *role, void *ctx, htc_status status, htc_bytes body)
{
    htc_gateway *gw = role;
    agent       *a = htc__gw_agent(gw, *(uint64_t *)ctx);
    htc_runtime_context_free(gw->runtime, ctx);
    if (a)
        htc__gw_agent_launched(gw, a, status, body);
}

void htc__gw_agent_ids_ready(void *role, void *ctx, htc_status status)
{
    (void)ctx;
    if (status == HTC_OK)
        htc__gw_reallocate_soon(role);
}

static void agent_free(htc_gateway *gw, agent *a)
{
    htc_buf_free(&a->last_grant);
    htc__free(&gw->env, a->held, a->cap_held * sizeof *a->held);
    htc__free(&gw->env, a, sizeof *a);
}

static int seat(htc_gateway *gw, agent *a)
{
    HASH_ADD(hh, gw->agents, id, sizeof a->id, a);
    if (!a->hh.tbl) {
        htc_runtime_break(gw->runtime, HTC_ENOMEM, "making room for an agent");
        return 0;
    }
    htc__gw_slots_seat(gw, a);
    htc_buf_init(&a->last_grant, &gw->env, HTC_WIRE_MESSAGE_MAX);
    htc__gw_agent_counts(gw, a, 1);
    return 1;
}

/* Its record is durable: now its process may be. Without it, a gateway that starts again would take the slot for free. */
static void noted(void *role, void *ctx, const htc_kv_result *r)
{
    htc_gateway *gw = role;
    agent *a = htc__gw_agent(gw, *(uint64_t *)ctx);
    if (htc__gw_fenced(gw, r))
        return;
    if (a && r->status == HTC_OK)
        a->version = r->version;
    else if (r->status == HTC_OK)
        htc__gw_delete_of(gw, htc__gw_key_agent(*(uint64_t *)ctx), r->version);
    if (a)
        a->saving = 0;
    if (a && a->save_again && (r->status == HTC_OK || a->state != AGENT_SUBMITTED)) /* it was given up meanwhile */
        htc__gw_agent_save(gw, a);
    if (!a || a->state != AGENT_SUBMITTED || r->status != HTC_OK) {
        htc_runtime_context_free(gw->runtime, ctx);
        if (a && a->state == AGENT_SUBMITTED)
            htc__gw_agent_gone(gw, a, "it could not be noted");
        return;
    }
    a->noted = a->n_slots;
    a->told = htc__gw_slots_may_fill(a);
    if (gw->sites[a->site].joins)
        htc_wire_begin(&gw->scratch, HTC_WIRE_JOINED_LAUNCH, 0);
    else
        htc_buf_clear(&gw->scratch);
    htc_put_str(&gw->scratch, gw->sites[a->site].name);
    htc_put_u64(&gw->scratch, a->id);
    htc_put_u32(&gw->scratch, a->slots[0]);
    htc_put_str(&gw->scratch, a->user->name);
    htc_put_u8(&gw->scratch, (uint8_t)htc__gw_place(gw, a->user));
    htc_put_u32(&gw->scratch, a->user->uid);
    htc_put_u32(&gw->scratch, a->user->gid);
    if (gw->options.slots_max > 1)
        htc_put_u32(&gw->scratch, a->told);
    if (gw->sites[a->site].joins) {
        htc_runtime_context_free(gw->runtime, ctx);
        htc__gw_joined_launch(gw, a);
        return;
    }
    htc_runtime_call(gw->runtime, HTC_CALL_LAUNCH, htc_buf_bytes(&gw->scratch), launched, ctx);
}

uint32_t htc__gw_agent_launch(htc_gateway *gw, user *u, uint32_t site_index, uint32_t slots)
{
    const site *s = &gw->sites[site_index];
    assert(gw->phase == PHASE_READY); /* before, slots of agents that are still to be read look free */
    if (htc__gw_place(gw, u) == HTC_PLACE_REFUSED)
        return 0;
    uint64_t id = slots && s->used < s->cores ? htc_runtime_id(gw->agent_ids) : 0;
    if (!id)
        return 0;
    agent    *a = htc__alloc(&gw->env, sizeof *a);
    uint64_t *ctx = a ? htc_runtime_context(gw->runtime, sizeof *ctx) : NULL;
    if (!ctx) {
        htc__free(&gw->env, a, sizeof *a);
        htc_runtime_break(gw->runtime, HTC_ENOMEM, "launching an agent");
        return 0;
    }
    *a = (agent){ .id = id, .user = u, .site = site_index, .state = AGENT_SUBMITTED, .claim = ++gw->claims, .saving = 1,
                  .launched = gw->now, .heard = gw->now, .since = gw->now, .launched_wall = gw->wall };
    a->n_slots = a->want = htc__gw_slots_find(gw, a, slots < gw->site_nodes[site_index].slots ? slots : gw->site_nodes[site_index].slots);
    *ctx = id;
    if (!seat(gw, a))
        return 0;
    u->last_served = ++gw->served;
    gw->sites[site_index].launched++;
    key k = htc__gw_key_agent(id);
    htc__gw_record_agent_write(&gw->scratch, a);
    htc__gw_write(gw, k, htc__gw_record_bytes(gw, &gw->scratch), 0, noted, ctx);
    return a->n_slots;
}

void htc__gw_agent_ended(htc_gateway *gw, agent *a, const char *how)
{
    char why[256];
    snprintf(why, sizeof why, "its process has ended%s%s", how[0] ? ": " : "", how);
    htc__text_clean(why);
    if (a->state == AGENT_SUBMITTED || a->state == AGENT_STARTING)
        launch_failed(gw, a, GW_ENDED_EARLY " (see its log)");
    htc__gw_agent_gone(gw, a, why);
}

static void watched(void *role, void *ctx, htc_status status, htc_bytes body)
{
    htc_gateway *gw = role;
    agent       *a = htc__gw_agent(gw, *(uint64_t *)ctx);
    htc_runtime_context_free(gw->runtime, ctx);
    if (!a)
        return;
    if (status == HTC_OK && !a->handle_len && read_handle(a, body))
        htc__gw_agent_save(gw, a);
    else if (status == HTC_ENOTFOUND)
        htc__gw_agent_ended(gw, a, "");
}

/* pid: of whoever speaks for it; 0: nobody does. */
static void watch(htc_gateway *gw, const agent *a, uint32_t pid)
{
    uint64_t *ctx = htc_runtime_context(gw->runtime, sizeof *ctx);
    if (!ctx)
        return;
    *ctx = a->id;
    htc_buf_clear(&gw->scratch);
    htc_put_u64(&gw->scratch, a->id);
    htc_put_bytes(&gw->scratch, (htc_bytes){ a->handle, a->handle_len });
    htc_put_u32(&gw->scratch, pid);
    htc_runtime_call(gw->runtime, HTC_CALL_WATCH_AGENT, htc_buf_bytes(&gw->scratch), watched, ctx);
}

void htc__gw_agent_adopt(htc_gateway *gw, agent *a)
{
    assert(gw->phase == PHASE_RECOVERING);
    a->state = a->given_up ? AGENT_LOST : AGENT_UNKNOWN;
    a->noted = a->want = a->n_slots;
    gw->claims = a->claim > gw->claims ? a->claim : gw->claims;
    a->heard = a->launched = a->since = gw->now;
    if (seat(gw, a) && a->handle_len && !gw->sites[a->site].joins)
        watch(gw, a, 0);
    if (a->given_up)
        htc__gw_agent_end_process(gw, a);
}

/* ---- the end of an agent ---- */

/* What they reserved and took stays so until the process of the agent is gone: of memory, what as many of them as it has slots reserve at most. */
static void lose_tasks(htc_gateway *gw, agent *a, int ended, const char *why)
{
    htc__gw_held_sort(a);
    while (a->n_held) {
        held     h = a->held[a->n_held - 1];
        uint64_t leader = h.member ? htc__gw_gang_leader(gw, &h.attempt) : a->id;
        a->held_slots -= h.slots;
        if (--a->n_held >= a->n_slots)
            h.memory = 0;
        if (ended)
            htc__gw_taken_end(gw, h.taken);
        else
            htc__gw_taken_owe(gw, a, &h, 1);
        htc__gw_task_lost(gw, &h.attempt, leader, why);
    }
    htc_buf_clear(&a->last_grant);
    a->grant_pending = 0;
}

static void unbind(htc_gateway *gw, agent *a)
{
    conn *c;
    HASH_FIND(hh, gw->conns, &a->peer, sizeof a->peer, c);
    if (c)
        c->agent = 0;
    a->peer = 0;
}

void htc__gw_agent_gone(htc_gateway *gw, agent *a, const char *why)
{
    lose_tasks(gw, a, 1, why);
    unbind(gw, a);
    htc__gw_taken_settle(gw, a);
    htc__gw_agent_counts(gw, a, -1);
    htc__gw_slots_leave(gw, a);
    HASH_DEL(gw->agents, a);
    if (!a->saving) /* else when that is answered */
        htc__gw_delete_of(gw, htc__gw_key_agent(a->id), a->version);
    htc__log_with(&gw->env, HTC_LOG_DEBUG,
                  HTC__FIELDS(HTC__NUMBER("agent", a->id), HTC__TEXT("user", a->user->name), HTC__TEXT("why", why)),
                  "agent %llu of %s is gone: %s", (unsigned long long)a->id, a->user->name, why);
    agent_free(gw, a);
    htc__gw_reallocate_soon(gw);
}

void htc__gw_agent_end_process(htc_gateway *gw, agent *a)
{
    a->ending = 0;
    a->since = gw->now;
    if (gw->sites[a->site].joins) {
        htc__gw_joined_kill(gw, a);
    } else if (a->handle_len) {
        htc_buf_clear(&gw->scratch);
        htc_put_u64(&gw->scratch, a->id);
        htc_put_bytes(&gw->scratch, (htc_bytes){ a->handle, a->handle_len });
        htc_runtime_call(gw->runtime, HTC_CALL_KILL_AGENT, htc_buf_bytes(&gw->scratch), NULL, NULL);
    }
}

/* Another gateway may go on with it, and give it tasks, as long as its record does not say that it is lost. */
static void end_later(htc_gateway *gw, agent *a)
{
    if (!htc__gw_shared(gw) || a->one_slot) {
        htc__gw_agent_end_process(gw, a);
        return;
    }
    a->ending = a->given_up = 1;
    htc__gw_agent_save(gw, a);
}

void htc__gw_agent_lost(htc_gateway *gw, agent *a, const char *why)
{
    if (a->state == AGENT_LOST)
        return;
    htc__log_with(&gw->env, HTC_LOG_WARN, HTC__FIELDS(HTC__NUMBER("agent", a->id), HTC__TEXT("user", a->user->name), HTC__TEXT("why", why)),
                  "agent %llu of %s: %s -> it is lost, its tasks wait again, its process is ended",
                  (unsigned long long)a->id, a->user->name, why);
    uint32_t peer = a->peer;
    lose_tasks(gw, a, 0, why);
    set_state(gw, a, AGENT_LOST);
    set_reason(a, why);
    unbind(gw, a);
    if (peer)
        htc_runtime_close(gw->runtime, peer, HTC_ETIMEDOUT);
    end_later(gw, a);
    htc__gw_reallocate_soon(gw);
}

/* ---- what it is told ---- */

/* One that waits in a queue is not waited for: it is taken out. */
void htc__gw_agent_cancel(htc_gateway *gw, agent *a, const char *why)
{
    htc__log_with(&gw->env, HTC_LOG_DEBUG, HTC__FIELDS(HTC__NUMBER("agent", a->id), HTC__TEXT("user", a->user->name), HTC__TEXT("why", why)),
                  "agent %llu of %s: %s -> it is taken out of the queue", (unsigned long long)a->id, a->user->name, why);
    set_state(gw, a, AGENT_LOST);
    set_reason(a, why);
    end_later(gw, a);
}

/* The newest one that has not begun; at: of that site, or of any (n_sites). */
static agent *newest_waiting(htc_gateway *gw, const user *u, size_t at, uint64_t *slots)
{
    agent *best = NULL;
    *slots = 0;
    for (agent *a = gw->agents; a; a = a->hh.next) {
        if (a->user != u || !htc__gw_agent_waits(a) || (at < gw->n_sites && a->site != at))
            continue;
        *slots += a->n_slots;
        best = !best || a->id > best->id ? a : best;
    }
    return best;
}

void htc__gw_agents_trim(htc_gateway *gw, user *u)
{
    uint64_t queued = htc__gw_wide_queued(gw, u), slots;
    agent   *a;
    for (size_t i = 0; i < gw->n_sites && u->waits; i++)
        while ((a = newest_waiting(gw, u, i, &slots)) && slots - a->n_slots >= queued)
            htc__gw_agent_cancel(gw, a, "nothing is left for it to do");
}

uint64_t htc__gw_agents_yield(htc_gateway *gw, user *u, uint64_t most)
{
    uint64_t given = 0, slots;
    agent   *a;
    if (htc__gw_reserved_user(gw, u))
        return 0;
    while (u->agents + u->waits > u->ra && given < most && (a = newest_waiting(gw, u, gw->n_sites, &slots)) && u->agents + u->waits - a->n_slots >= u->ra) {
        given += a->n_slots;
        htc__gw_agent_cancel(gw, a, "its slots are another user's now");
    }
    return given;
}

void htc__gw_agent_drain(htc_gateway *gw, agent *a, int on)
{
    if (on && htc__gw_agent_waits(a)) {
        htc__gw_agent_cancel(gw, a, "its slots are another user's now");
        return;
    }
    htc__gw_agent_counts(gw, a, -1);
    a->draining = on != 0;
    a->drain_order = on ? ++gw->drains : 0;
    htc__gw_agent_counts(gw, a, 1);
    htc_drain_write(&gw->scratch, on);
    htc_runtime_send(gw->runtime, a->peer, &gw->scratch);
}

void htc__gw_agents_stop(htc_gateway *gw, int at_once)
{
    agent *a, *next;
    HASH_ITER(hh, gw->agents, a, next)
    {
        if (htc__gw_agent_waits(a)) {
            htc__gw_agent_cancel(gw, a, "the system ends");
        } else if (at_once && !a->stop) {
            htc__gw_agent_counts(gw, a, -1);
            a->stop = 1;
            htc__gw_agent_counts(gw, a, 1);
            htc_stop_write(&gw->scratch);
            htc_runtime_send(gw->runtime, a->peer, &gw->scratch);
        } else if (!at_once && !a->draining && a->state != AGENT_LEAVING && a->state != AGENT_LOST) {
            htc__gw_agent_drain(gw, a, 1);
        }
    }
}

/* ---- what it says ---- */

static void answer_heartbeat(htc_gateway *gw, agent *a, const htc_heartbeat *m)
{
    htc_heartbeat_answer *answer = htc__alloc(&gw->env, sizeof *answer);
    if (!answer) {
        htc_runtime_break(gw->runtime, HTC_ENOMEM, "answering a heartbeat");
        return;
    }
    answer->seq = m->seq;
    htc__gw_reconcile(gw, a, m, answer);
    answer->flags = (a->draining ? HTC_AGENT_DRAIN : 0u) | (a->stop ? HTC_AGENT_STOP : 0u);
    htc_heartbeat_answer_write(&gw->scratch, answer);
    htc_runtime_send(gw->runtime, a->peer, &gw->scratch);
    htc__gw_slots_remind(gw, a);
    htc__free(&gw->env, answer, sizeof *answer);
}

static void heard_from(htc_gateway *gw, agent *a)
{
    a->heard = gw->now;
    if (a->suspected)
        htc__log_with(&gw->env, HTC_LOG_INFO, HTC__FIELDS(HTC__NUMBER("agent", a->id)),
                      "agent %llu answers again -> no longer suspected", (unsigned long long)a->id);
    a->suspected = 0;
}

/* Agents of other hosts are told where the store is, and where they may store outputs. */
static void welcome(htc_gateway *gw, uint32_t peer, htc_status status, const agent *a)
{
    htc_agent_welcome m = { .status = status, .heartbeat_ns = gw->options.heartbeat_ns, .lost_after_ns = gw->options.lost_after_ns };
    if (a && gw->sites[a->site].joins)
        memcpy(m.store, gw->store_join, strnlen(gw->store_join, sizeof m.store - 1));
    if (a && gw->sites[a->site].joins && a->speaks >= HTC_WIRE_VERSION_OUTPUTS) {
        memcpy(m.outputs, gw->outputs, sizeof m.outputs);
        memcpy(m.outputs_id, gw->outputs_id, sizeof m.outputs_id);
    }
    htc_agent_welcome_write(&gw->scratch, &m);
    htc_runtime_send(gw->runtime, peer, &gw->scratch);
}

/* An agent has the uid that it was launched with: no user's process speaks for another user's agent. One of another host comes with the
 * key of that. */
static int is_its_uid(const htc_gateway *gw, const conn *c, const agent *a)
{
    if (!htc__gw_site_is_of(&gw->sites[a->site], c))
        return 0;
    uint32_t uid = htc__gw_place(gw, a->user) == HTC_PLACE_UID ? a->user->uid : gw->options.owner_uid;
    return c->info.transport != HTC_TRANSPORT_UNIX || c->info.uid == uid;
}

static void hello(htc_gateway *gw, conn *c, const htc_agent_hello *m)
{
    agent *a = htc__gw_agent(gw, m->agent);
    if (a && !is_its_uid(gw, c, a)) {
        htc__log_with(&gw->env, HTC_LOG_WARN, HTC__FIELDS(HTC__NUMBER("agent", m->agent), HTC__NUMBER("uid", c->info.uid)),
                      "uid %u registers as agent %llu of %s -> sent away", c->info.uid, (unsigned long long)m->agent,
                      a->user->name);
        a = NULL;
    }
    if (!a || a->state == AGENT_LOST) {
        htc__log_with(&gw->env, HTC_LOG_INFO, HTC__FIELDS(HTC__NUMBER("agent", m->agent)),
                      "agent %llu registers and is not known (any more) -> sent away",
                      (unsigned long long)m->agent);
        welcome(gw, c->peer, HTC_ENOTFOUND, NULL);
        return;
    }
    if (c->agent && c->agent != a->id) {
        htc__log_with(&gw->env, HTC_LOG_WARN, HTC__FIELDS(HTC__NUMBER("agent", m->agent), HTC__NUMBER("uid", c->info.uid)),
                      "agent %llu registers on the connection of agent %llu -> closed", (unsigned long long)m->agent,
                      (unsigned long long)c->agent);
        htc_runtime_close(gw->runtime, c->peer, HTC_EPROTO);
        return;
    }
    if (a->peer && a->peer != c->peer) {
        uint32_t old = a->peer;
        unbind(gw, a);
        htc_runtime_close(gw->runtime, old, HTC_ECLOSED);
    }
    a->peer = c->peer;
    a->speaks = c->speaks;
    c->agent = a->id;
    heard_from(gw, a);
    snprintf(a->node, sizeof a->node, "%s", m->node);
    a->kind.n = 0;
    htc__machine_add(&a->kind, &c->machine);
    htc__machine_add(&gw->sites[a->site].kinds, &c->machine);
    htc__gw_node_seen(gw, a->node);
    if (!a->handle_len && c->info.pid && !gw->sites[a->site].joins)
        watch(gw, a, c->info.pid);
    if (a->grant < m->last_grant)
        a->grant = m->last_grant; /* of a gateway before this one */
    if (a->state < AGENT_READY) {
        site *s = &gw->sites[a->site];
        char  unsuited[REASON_MAX];
        if (a->state < AGENT_UNKNOWN)
            s->start_ns = s->start_ns ? (3 * s->start_ns + (gw->now - a->launched)) / 4 : gw->now - a->launched;
        set_state(gw, a, AGENT_READY);
        if (htc__gw_node_closed(gw, a->node)) {
            char why[128];
            snprintf(why, sizeof why, "an agent began on node %.60s, which is out of service", a->node);
            launch_failed(gw, a, why);
        } else if (htc__gw_agent_is_unsuited(gw, a, unsuited, sizeof unsuited)) {
            launch_failed(gw, a, unsuited); /* the next one may begin on the same node: not at once */
        } else {
            s->failures = 0;
            if (s->not_before != HTC_NEVER && !s->disk_failed)
                s->reason[0] = '\0';
        }
        if (!s->joins)
            snprintf(s->node, sizeof s->node, "%s", a->node);
        if (gw->shutdown)
            htc__gw_agents_stop(gw, gw->stop_now);
    }
    welcome(gw, c->peer, HTC_OK, a);
    if (htc__gw_node_closed(gw, a->node))
        htc__gw_node_leave(gw, a);
    htc__gw_slots_greet(gw, a, m->slots);
    if (m->seq >= a->hb_seq) {
        htc_heartbeat beat = { .agent = a->id, .seq = m->seq, .last_grant = m->last_grant, .held = m->held };
        a->hb_seq = m->seq;
        a->rests = 0;
        answer_heartbeat(gw, a, &beat);
    }
    htc__gw_reallocate_soon(gw);
}

static void bye(htc_gateway *gw, agent *a, const htc_bye *m)
{
    if (a->state == AGENT_LOST)
        return;
    if (a->state != AGENT_LEAVING)
        set_state(gw, a, AGENT_LEAVING);
    set_reason(a, m->reason);
    if (m->status != HTC_OK) {
        site *s = &gw->sites[a->site];
        if (s->not_before != HTC_NEVER)
            s->not_before = gw->now + 10 * HTC_SECOND;
        if (m->status == HTC_ENOSPC)
            s->disk_failed = gw->now;
        snprintf(s->reason, sizeof s->reason, "%s", m->reason);
        htc__text_clean(s->reason);
        htc__log_with(&gw->env, HTC_LOG_WARN, HTC__FIELDS(HTC__NUMBER("agent", a->id), HTC__TEXT("site", s->name), HTC__STATUS(m->status)),
                      "agent %llu leaves: %s (%s) -> site %s gets no agent for 10 s",
                      (unsigned long long)a->id, m->reason, htc_status_name(m->status), s->name);
    }
    htc__gw_reallocate_soon(gw);
}

static void outputs_said(htc_gateway *gw, agent *a, const htc_agent_outputs *m)
{
    const char *at = gw->sites[a->site].name;
    a->outputs = m->status == HTC_OK ? OUTPUTS_SHARED : OUTPUTS_THERE;
    snprintf(a->outputs_why, sizeof a->outputs_why, "%.159s", m->status == HTC_OK ? "" : m->text);
    if (m->status != HTC_OK)
        htc__log_with(&gw->env, HTC_LOG_WARN, HTC__FIELDS(HTC__NUMBER("agent", a->id), HTC__TEXT("site", at), HTC__STATUS(m->status)),
                      "agent %llu of site %s cannot store outputs here: %s -> they stay there, and are asked for", (unsigned long long)a->id, at, a->outputs_why);
}

/* Messages too large for the stack live in the heap while they are read. */
typedef union message {
    htc_agent_hello hello;
    htc_heartbeat   heartbeat;
    htc_pull        pull;
    htc_started     started;
    htc_task_result result;
    htc_give_back   give_back;
    htc_bye         bye;
    htc_slots_held  slots;
    htc_content_want want;
    htc_agent_outputs outputs;
    htc_gang_word   word;
} message;

static htc_status read_message(uint16_t type, htc_reader *r, message *m, uint64_t *id)
{
    htc_status status = HTC_EPROTO;
    switch (type) {
    case HTC_WIRE_AGENT_HELLO: status = htc_agent_hello_read(r, &m->hello); *id = m->hello.agent; break;
    case HTC_WIRE_HEARTBEAT: status = htc_heartbeat_read(r, &m->heartbeat); *id = m->heartbeat.agent; break;
    case HTC_WIRE_PULL: status = htc_pull_read(r, &m->pull); *id = m->pull.agent; break;
    case HTC_WIRE_STARTED: status = htc_started_read(r, &m->started); *id = m->started.agent; break;
    case HTC_WIRE_TASK_RESULT: status = htc_task_result_read(r, &m->result); *id = m->result.agent; break;
    case HTC_WIRE_GIVE_BACK: status = htc_give_back_read(r, &m->give_back); *id = m->give_back.agent; break;
    case HTC_WIRE_BYE: status = htc_bye_read(r, &m->bye); *id = m->bye.agent; break;
    case HTC_WIRE_SLOTS_HELD: status = htc_slots_held_read(r, &m->slots); *id = m->slots.agent; break;
    case HTC_WIRE_CONTENT_WANT: status = htc_content_want_read(r, &m->want); *id = m->want.agent; break;
    case HTC_WIRE_AGENT_OUTPUTS: status = htc_agent_outputs_read(r, &m->outputs); *id = m->outputs.agent; break;
    case HTC_WIRE_GANG_WORD: status = htc_gang_word_read(r, &m->word); *id = m->word.agent; break;
    default: break;
    }
    return status;
}

static htc_ns rests_for(const htc_gateway *gw, htc_ns next)
{
    htc_ns most = gw->options.heartbeat_ns * RESTS_MAX;
    next = next < most ? next : most;
    return next > gw->options.heartbeat_ns ? next - gw->options.heartbeat_ns : 0;
}

static void act(htc_gateway *gw, conn *c, agent *a, uint16_t type, message *m)
{
    heard_from(gw, a);
    switch (type) {
    case HTC_WIRE_HEARTBEAT:
        if (m->heartbeat.seq > a->hb_seq) {
            a->hb_seq = m->heartbeat.seq;
            a->rests = rests_for(gw, m->heartbeat.next);
            answer_heartbeat(gw, a, &m->heartbeat);
        }
        break;
    case HTC_WIRE_PULL: htc__gw_pull(gw, a, &m->pull); break;
    case HTC_WIRE_STARTED: htc__gw_started(gw, a, &m->started.attempt); break;
    case HTC_WIRE_TASK_RESULT: htc__gw_result(gw, a, c->peer, &m->result); break;
    case HTC_WIRE_GIVE_BACK: htc__gw_give_back(gw, a, c->peer, &m->give_back); break;
    case HTC_WIRE_BYE: bye(gw, a, &m->bye); break;
    case HTC_WIRE_SLOTS_HELD: htc__gw_slots_heard(gw, a, &m->slots); break;
    case HTC_WIRE_CONTENT_WANT: htc__gw_content_want(gw, a, &m->want); break;
    case HTC_WIRE_AGENT_OUTPUTS: outputs_said(gw, a, &m->outputs); break;
    case HTC_WIRE_GANG_WORD: htc__gw_gang_word(gw, a, &m->word); break;
    default: break;
    }
}

void htc__gw_agent_message(htc_gateway *gw, conn *c, uint16_t type, htc_reader *r)
{
    uint64_t id = 0;
    message *m = htc__alloc(&gw->env, sizeof *m);
    if (!m) {
        htc_runtime_break(gw->runtime, HTC_ENOMEM, "reading an agent's message");
        return;
    }
    htc_status status = read_message(type, r, m, &id);
    if (status == HTC_ENOMEM) {
        htc_runtime_break(gw->runtime, status, "reading an agent's message");
    } else if (status != HTC_OK) {
        htc_wire_error(&gw->scratch, 0, HTC_EPROTO, "this is not a message that an agent sends");
        htc_runtime_send(gw->runtime, c->peer, &gw->scratch);
        htc_runtime_close(gw->runtime, c->peer, HTC_EPROTO);
    } else if (gw->phase == PHASE_READY) {
        agent *a = htc__gw_agent(gw, id);
        if (type == HTC_WIRE_AGENT_HELLO)
            hello(gw, c, &m->hello);
        else if (a && c->agent == id && a->state != AGENT_LOST)
            act(gw, c, a, type, m);
        else if (type != HTC_WIRE_BYE && (!a || a->state == AGENT_LOST))
            welcome(gw, c->peer, HTC_ENOTFOUND, NULL); /* one that is known registers on each connection first */
    }
    htc__free(&gw->env, m, sizeof *m);
}

void htc__gw_agent_closed(htc_gateway *gw, conn *c)
{
    agent *a = c->agent ? htc__gw_agent(gw, c->agent) : NULL;
    if (a && a->peer == c->peer)
        a->peer = 0; /* it comes back, or its process ends, or its silence is noticed */
}

/* ---- what the host says of its process ---- */

void htc__gw_agent_event(htc_gateway *gw, const htc_input *in)
{
    htc_reader r = htc_reader_of(in->body);
    uint64_t   id = htc_get_u64(&r);
    htc_bytes  handle = htc_get_bytes(&r);
    agent     *a = r.status == HTC_OK ? htc__gw_agent(gw, id) : NULL;
    char       how[100] = "";
    if (!a || (a->handle_len && !htc_bytes_equal(handle, (htc_bytes){ a->handle, a->handle_len })))
        return;
    if (in->op == HTC_EVENT_AGENT_STOPPED) {
        htc__gw_agent_lost(gw, a, "its process is in the stopped state");
        return;
    }
    htc_get_str(&r, how, sizeof how);
    htc__gw_agent_ended(gw, a, how);
}

/* ---- silence ---- */

static void check_one(htc_gateway *gw, agent *a)
{
    htc_ns      silent = gw->now - a->heard, age = gw->now - a->since;
    const site *s = &gw->sites[a->site];
    if (s->joins && !s->host && a->state < AGENT_READY && (a->waits || (a->state == AGENT_UNKNOWN && a->n_held == 0 && silent <= gw->options.launch_timeout_ns)))
        return; /* it may stand in a queue, and whoever knows is away */
    switch ((agent_state)a->state) {
    case AGENT_SUBMITTED:
    case AGENT_STARTING:
        if (age > gw->options.launch_timeout_ns) {
            launch_failed(gw, a, "an agent did not register in time");
            htc__gw_agent_lost(gw, a, "it did not register in time");
        }
        break;
    case AGENT_UNKNOWN:
    case AGENT_READY:
        if (silent > a->rests + gw->options.lost_after_ns) {
            htc__gw_agent_lost(gw, a, "it has been silent for too long");
        } else if (silent > a->rests + 2 * gw->options.heartbeat_ns && !a->suspected && a->state == AGENT_READY) {
            a->suspected = 1;
            htc__log_with(&gw->env, HTC_LOG_WARN, HTC__FIELDS(HTC__NUMBER("agent", a->id)),
                          "agent %llu has been silent for %.1f s -> suspected",
                          (unsigned long long)a->id, (double)silent / 1e9);
        }
        break;
    case AGENT_LEAVING:
        if (age > LEAVE_WITHIN && silent > LEAVE_WITHIN)
            htc__gw_agent_lost(gw, a, "it did not leave");
        break;
    case AGENT_LOST:
        if (a->ending && !a->saving)
            htc__gw_agent_save(gw, a); /* the store did not take it */
        /* The host of a site tells of it in each JOINED_HELLO until its job is gone, however long a batch system takes to cancel it. */
        if (age > LEAVE_WITHIN && !a->ending && !(s->joins && s->host && a->noted))
            htc__gw_agent_gone(gw, a, "nobody tells of its process");
        break;
    }
}

void htc__gw_agents_check(htc_gateway *gw)
{
    agent *a, *next;
    HASH_ITER(hh, gw->agents, a, next)
    check_one(gw, a);
}

void htc__gw_agents_free(htc_gateway *gw)
{
    agent *a, *next;
    HASH_ITER(hh, gw->agents, a, next)
    {
        HASH_DEL(gw->agents, a);
        htc__gw_taken_free(gw, a);
        agent_free(gw, a);
    }
}
