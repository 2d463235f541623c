/* What the gateway itself believes: read, never changed, by the checks. */
#include <stdlib.h>

#include "roles/gateway/gateway.h"

#include "system.h"

/* Agents of a user that are about to take a task: registered without one, or on their way. */
static uint64_t takers(const htc_gateway *gw, const user *u)
{
    uint64_t     n = 0;
    const agent *a;
    for (a = gw->agents; a; a = a->hh.next)
        n += a->user == u && a->n_held == 0 && !a->draining && !a->stop && a->state <= AGENT_READY;
    return n;
}

/* A task of the user could start in a slot that is free. */
static int could_start(const htc_gateway *gw, const user *u)
{
    for (size_t i = 0; i < gw->n_sites; i++)
        if (gw->sites[i].used < gw->sites[i].cores && htc__gw_startable((htc_gateway *)gw, u, i) > htc__gw_takers(gw, u, i))
            return 1;
    return 0;
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
    }
    for (u = gw->users; u; u = u->hh.next) {
        uint64_t running = 0, held_tasks = 0;
        uint32_t agents = 0;
        for (j = gw->jobs; j; j = j->hh.next)
            running += j->user == u ? j->now.leased : 0;
        for (a = gw->agents; a; a = a->hh.next)
            if (a->user == u) {
                held_tasks += a->n_held;
                agents += a->state != AGENT_LOST;
            }
        if (u->running != running)
            return "a user's running tasks are not the leased tasks of that user's jobs";
        if (held_tasks != running)
            return "the tasks that agents hold are not the leased ones";
        if (u->agents + u->draining + u->leaving != agents)
            return "a user's agents are not those there are";
    }
    for (size_t i = 0; i < gw->n_sites; i++) {
        const memory *m = &gw->sites[i].memory;
        uint64_t      reserved = 0;
        for (a = gw->agents; a; a = a->hh.next) {
            reserved += a->site == i ? a->memory : 0;
            for (uint32_t k = 0; k < a->n_held; k++)
                if (a->held[k].memory > a->memory)
                    return "an agent holds a task that asks for more than it has reserved";
        }
        if (reserved != m->reserved)
            return "what agents have reserved is not what is counted";
        if (m->total && reserved > m->total)
            return "more memory is reserved than a node has";
    }
    for (a = gw->agents; a; a = a->hh.next)
        seated++;
    return gw->free + seated == gw->slots ? NULL : "free and held slots are not all slots";
}

void sys_gateway_books(const sys *s, sys_books *b)
{
    const htc_gateway *gw = htc_sim_machine(s->gateway);
    const user        *u;
    memset(b, 0, sizeof *b);
    if (!gw || gw->phase != PHASE_READY)
        return;
    b->ready = htc_runtime_connected(gw->runtime) && htc_runtime_ids_left(gw->agent_ids) && gw->store_status == HTC_OK && !gw->shutdown;
    b->free = gw->free;
    for (size_t i = 0; i < gw->n_sites; i++)
        b->unusable |= gw->sites[i].not_before > gw->now;
    for (u = gw->users; u && gw->free; u = u->hh.next) {
        uint64_t n = u->queued ? takers(gw, u) : 0;
        b->wanting += u->queued > n && could_start(gw, u) ? u->queued - n : 0;
    }
}

const char *sys_gateway_wrong(const sys *s)
{
    const htc_gateway *gw = htc_sim_machine(s->gateway);
    return gw && gw->phase == PHASE_READY ? wrong_count(gw) : NULL;
}

uint32_t sys_gateway_slots(const sys *s, const char *name)
{
    const htc_gateway *gw = htc_sim_machine(s->gateway);
    const agent       *a;
    uint32_t           n = 0;
    for (a = gw ? gw->agents : NULL; a; a = a->hh.next)
        n += strcmp(a->user->name, name) == 0;
    return n;
}

htc_status sys_chunk_read(htc_bytes value, void (*seen)(void *ctx, const sys_task_state *task), void *ctx, uint64_t *core_ns)
{
    htc_reader r = htc_reader_of(value);
    htc_get_u8(&r);
    uint64_t n = htc_get_varint(&r);
    chunk   *c = r.status == HTC_OK && n <= CHUNK_TASKS ? calloc(1, sizeof *c + n * sizeof c->tasks[0]) : NULL;
    if (!c)
        return HTC_EINVAL;
    c->n = (uint32_t)n;
    htc_status status = htc__gw_record_chunk_read(value, c);
    for (uint32_t i = 0; status == HTC_OK && i < c->n; i++) {
        const task *t = &c->tasks[i];
        seen(ctx, &(sys_task_state){ .offset = i, .done = t->state == TASK_DONE, .cancelled = t->state == TASK_CANCELLED,
                                     .leased = t->state == TASK_LEASED, .attempt = t->attempt, .status = t->status });
    }
    *core_ns = c->used.core_ns;
    free(c);
    return status;
}

htc_status sys_job_read(htc_bytes value, uint64_t *id, char user_name[64])
{
    job j;
    memset(&j, 0, sizeof j);
    htc_status status = htc__gw_record_job_read(value, &j, user_name);
    *id = j.id;
    return status;
}
