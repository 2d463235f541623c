/* The gateway's books, audited: counts that are kept beside what they count, and slots that could be used. */
#include <stdio.h>
#include <string.h>

#include "roles/gateway/gateway.h"

/* Slots of a user's agents that are about to be filled: these have registered, or are on their way. */
static uint64_t takers(const htc_gateway *gw, const user *u)
{
    uint64_t     n = 0;
    const agent *a;
    for (a = gw->agents; a; a = a->hh.next)
        n += a->user == u ? htc__gw_slots_idle(a) : 0;
    return n;
}

/* Are all its tasks of one slot? Others wait for more than a slot that is free. */
static int all_narrow(const user *u)
{
    const job *j = u->ready;
    while (j && j->width.slots <= 1)
        j = j->ready_next;
    return !j;
}

/* A task of the user could start in a slot that is free. */
static int could_start(htc_gateway *gw, const user *u)
{
    for (size_t i = 0; i < gw->n_sites; i++)
        if (gw->sites[i].used < gw->sites[i].cores && htc__gw_startable(gw, u, i) > htc__gw_takers(gw, u, i))
            return 1;
    return 0;
}

/* What waits for other jobs has not begun and asks for nothing, and hears of each end that it does not know of. */
static const char *wrong_edges(const htc_gateway *gw, const job *j)
{
    uint32_t unmet = 0;
    for (uint32_t i = 0; i < j->n_edges; i++) {
        edge e = htc__gw_edge(j, i);
        unmet += !htc__gw_edge_is_met(&e);
        if (!j->cancelled && htc__gw_edge_is_broken(&e))
            return "a job that can never run is not cancelled";
        if (!j->cancelled && e.outcome == PARENT_OPEN && !(e.linked && htc__gw_awaited(gw, e.parent)))
            return "a job waits for another one whose end nobody tells it";
    }
    if (unmet && !j->waits)
        return "a job goes on before those that it waits for have ended as they should";
    return j->waits && (j->now.leased || j->queued || j->in_ready || j->started) ? "a job that waits for others has begun" : NULL;
}

static const char *wrong_count(const htc_gateway *gw)
{
    const job   *j;
    const user  *u;
    const agent *a;
    uint32_t     seated = 0;
    for (j = gw->jobs; j; j = j->hh.next) {
        const counts *c = &j->now;
        if (c->fresh + c->waiting + c->leased + c->retry_wait + c->done + c->failed + c->cancelled != j->count)
            return "the states of a job's tasks do not add up to its tasks";
        if (j->max_running && c->leased > j->max_running)
            return "more tasks of a job are held than may run";
        const char *edges = wrong_edges(gw, j);
        if (edges)
            return edges;
    }
    for (u = gw->users; u; u = u->hh.next) {
        uint64_t running = 0, held_tasks = 0, unfinished = 0, offered = 0;
        uint32_t agents = 0;
        for (j = gw->jobs; j; j = j->hh.next) {
            running += j->user == u ? j->now.leased : 0;
            unfinished += j->user == u ? j->count - htc__gw_job_terminal(j) : 0;
            offered += j->user == u ? htc__gw_job_offers(j) : 0;
        }
        for (a = gw->agents; a; a = a->hh.next)
            if (a->user == u) {
                for (uint32_t k = 0; k < a->n_held; k++)
                    held_tasks += a->held[k].member == 0;
                agents += a->state != AGENT_LOST ? a->n_slots : 0;
            }
        if (u->unfinished != unfinished)
            return "a user's unfinished tasks are not those of that user's open jobs";
        if (u->coming && !gw->submitting)
            return "tasks of a user count as coming, and none is being stored";
        if (u->queued != (u->quota.room ? offered : 0))
            return "what a user's jobs offer is not what is counted";
        if (u->running != running)
            return "a user's running tasks are not the leased tasks of that user's jobs";
        if (held_tasks != running)
            return "the tasks that agents hold are not the leased ones";
        if (u->agents + u->draining + u->leaving + u->waits != agents)
            return "a user's slots are not those of the agents there are";
    }
    for (const project *p = gw->projects; p; p = p->hh.next) {
        uint64_t running = 0, unfinished = 0;
        for (j = gw->jobs; j; j = j->hh.next) {
            running += j->project == p ? j->now.leased : 0;
            unfinished += j->project == p ? j->count - htc__gw_job_terminal(j) : 0;
        }
        if (p->running != running || p->unfinished != unfinished)
            return "tasks of a project are not those of its open jobs";
    }
    for (size_t i = 0; i < gw->n_sites; i++) {
        const memory *m = &gw->sites[i].memory;
        uint64_t      reserved = 0;
        for (a = gw->agents; a; a = a->hh.next) {
            uint64_t asked = 0;
            uint32_t n = a->n_held;
            reserved += a->site == i ? a->memory : 0;
            for (const task_hold *k = a->owed; k; k = k->next, n++)
                asked += k->memory;
            for (uint32_t k = 0; k < a->n_held; k++) {
                asked += a->held[k].memory;
                if (a->held[k].memory > a->memory)
                    return "an agent holds a task that asks for more than it has reserved";
            }
            if (n <= a->n_slots && asked != a->memory)
                return "an agent has not reserved what its tasks ask for";
        }
        if (reserved != m->reserved)
            return "what agents have reserved is not what is counted";
        if (m->total && reserved > m->total)
            return "more memory is reserved than a node has";
    }
    for (a = gw->agents; a; a = a->hh.next) {
        seated += a->n_slots;
        uint32_t taken = 0;
        for (uint32_t k = 0; k < a->n_held; k++)
            taken += a->held[k].slots;
        if (taken != a->held_slots)
            return "the slots that an agent's tasks take are not what is counted";
        if (a->want == 0 || a->want > a->n_slots || a->noted > a->n_slots)
            return "an agent is to fill more slots than it has";
        for (uint32_t k = 0; k < a->n_slots; k++)
            if (gw->sites[a->site].slots[a->slots[k]].agent != a)
                return "a slot of an agent is not its own";
    }
    const char *wrong = htc__gw_taken_audit(gw);
    if (wrong)
        return wrong;
    return gw->free + seated == gw->slots ? NULL : "free and held slots are not all slots";
}

htc_status htc_gateway_audit(htc_gateway *gw, int add_up, htc_gateway_books *books)
{
    htc_gateway_books b = { .size = sizeof b };
    if (!gw || !books)
        return HTC_EINVAL;
    if (gw->phase == PHASE_READY) {
        const char *wrong = add_up ? wrong_count(gw) : NULL;
        snprintf(b.wrong, sizeof b.wrong, "%s", wrong ? wrong : "");
        b.ready = htc_runtime_connected(gw->runtime) && htc_runtime_ids_left(gw->agent_ids) && gw->store_status == HTC_OK && !gw->shutdown;
        b.free = gw->free;
        for (size_t i = 0; i < gw->n_sites; i++)
            b.paused += !htc__gw_site_open(gw, &gw->sites[i]);
        for (const user *u = gw->users; u && gw->free; u = u->hh.next) {
            uint64_t n = u->queued ? takers(gw, u) : 0;
            b.wanting += u->queued > n && all_narrow(u) && could_start(gw, u) ? u->queued - n : 0;
        }
    }
    return htc__options_give(books, &b, sizeof b, offsetof(htc_gateway_books, wrong));
}
