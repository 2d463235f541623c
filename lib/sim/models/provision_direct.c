/* Direct resource provision: every end user leases. A job has a lease of its own. The user of a workflow keeps each node until the end of the unit that is
 * paid, and runs what is ready on a node that is spare, the one that is paid longest, before another one is leased. */
#include <assert.h>

#include "sim/models/provision.h"

static uint64_t paid_until(const prov *m, const prov_environment *e, uint64_t leased, uint64_t units)
{
    return leased + htc__prov_ticks_up(m, units * e->unit);
}

static uint32_t units_of(const prov *m, const prov_environment *e, uint64_t ticks)
{
    uint64_t units = htc_provision_units(ticks * m->tick_ns, e->unit, HTC_PROVISION_STARTED);
    return units < UINT32_MAX ? (uint32_t)units : UINT32_MAX;
}

static void lease(prov *m, prov_environment *e, uint64_t nodes)
{
    htc__prov_hold(m, e, nodes);
    htc__prov_set_up(m, e, 1, nodes, NULL);
}

static void lease_ends(prov *m, prov_environment *e, uint32_t s)
{
    prov_slot *slot = &m->slot[s];
    e->units += (uint64_t)slot->units * slot->nodes;
    htc__prov_return(m, e, slot->nodes);
    htc__prov_set_up(m, e, 0, slot->nodes, NULL);
    htc__prov_slot_free(m, s);
}

/* ---- jobs ---- */

void htc__prov_lease_job(prov *m, uint32_t s)
{
    prov_environment *e = &m->environment[m->slot[s].environment];
    lease(m, e, m->slot[s].nodes);
    m->slot[s].leased = htc__scale_time(m->scale);
    m->slot[s].units = units_of(m, e, m->slot[s].length);
    htc__prov_begin_job(m, s);
}

/* What runs on after the environment's period is charged, and counts no more. */
static void job_ends(prov *m, prov_environment *e, prov_slot *slot)
{
    htc__prov_account(m, e);
    e->busy -= slot->nodes;
    m->busy -= slot->nodes;
    m->running--;
    if (e->ended)
        return;
    e->running--;
    e->completed++;
    e->last = htc__scale_time(m->scale);
}

/* ---- nodes of a workflow's user ---- */

static void take_spare(prov *m, prov_environment *e, uint32_t s)
{
    prov_slot *slot = &m->slot[s];
    if (slot->previous == PROV_NONE)
        e->spare = slot->next;
    else
        m->slot[slot->previous].next = slot->next;
    if (slot->next != PROV_NONE)
        m->slot[slot->next].previous = slot->previous;
}

/* The one that is paid longest is used first, so that the others can go. */
static void add_spare(prov *m, prov_environment *e, uint32_t s)
{
    uint32_t before = PROV_NONE, after = e->spare;
    for (; after != PROV_NONE && m->slot[after].ends > m->slot[s].ends; after = m->slot[after].next)
        before = after;
    m->slot[s].previous = before;
    m->slot[s].next = after;
    if (before == PROV_NONE)
        e->spare = s;
    else
        m->slot[before].next = s;
    if (after != PROV_NONE)
        m->slot[after].previous = s;
}

void htc__prov_lease_task(prov *m, prov_environment *e, uint32_t flow, uint32_t task, uint64_t length)
{
    uint64_t now = htc__scale_time(m->scale);
    uint32_t s = e->spare;
    if (s != PROV_NONE) {
        take_spare(m, e, s);
    } else {
        if ((s = htc__prov_slot(m)) == PROV_NONE)
            return;
        lease(m, e, 1);
        m->slot[s] = (prov_slot){ .environment = htc__prov_number(m, e), .nodes = 1, .leased = now };
    }
    prov_slot *slot = &m->slot[s];
    slot->flow = flow;
    slot->task = task;
    slot->length = length;
    slot->at = now;
    slot->state = PROV_WAITING;
    htc__prov_begin_job(m, s);
    slot->state = PROV_TASK;
}

static void task_ends(prov *m, prov_environment *e, uint32_t s)
{
    prov_slot *slot = &m->slot[s];
    htc__scale_end(m->scale);
    job_ends(m, e, slot);
    slot->units = units_of(m, e, slot->ends - slot->leased);
    slot->ends = paid_until(m, e, slot->leased, slot->units);
    slot->state = PROV_SPARE;
    add_spare(m, e, s);
    if (slot->check != slot->ends) { /* of a unit there is one event, however often the node becomes spare in it */
        slot->check = slot->ends;
        htc_scale_at(m->scale, slot->check, s);
    }
    if (e->ended)
        return;
    htc__prov_task_done(m, e, slot->flow, slot->task);
    htc__prov_mark(m, e);
    htc__prov_maybe_over(m, e);
}

/* ---- both ---- */

void htc__prov_lease_event(prov *m, uint32_t s)
{
    prov_slot        *slot = &m->slot[s];
    prov_environment *e = &m->environment[slot->environment];
    uint64_t          now = htc__scale_time(m->scale);
    if (slot->state == PROV_RUNNING) {
        job_ends(m, e, slot);
        slot->ends = paid_until(m, e, slot->leased, slot->units);
        slot->state = PROV_CHARGED;
        htc_scale_at(m->scale, slot->ends, s);
        if (!e->ended)
            htc__prov_maybe_over(m, e);
    } else if (slot->ends != now) {
        return; /* the end of a unit in which the node runs a task, or that was not the last one paid */
    } else if (slot->state == PROV_TASK) {
        task_ends(m, e, s);
    } else {
        if (slot->state == PROV_SPARE)
            take_spare(m, e, s);
        lease_ends(m, e, s);
    }
}

uint64_t htc__prov_lease_units(const prov *m, const prov_environment *e)
{
    uint64_t sum = 0, now = htc__scale_time(m->scale);
    for (uint32_t s = 0; m->options.system == HTC_SIM_PROVISION_DRP && s < m->slots; s++) {
        const prov_slot *slot = &m->slot[s];
        if (slot->state == PROV_FREE || &m->environment[slot->environment] != e)
            continue;
        uint64_t units = slot->state == PROV_CHARGED || slot->state == PROV_SPARE ? slot->units : units_of(m, e, now - slot->leased);
        sum += units * slot->nodes;
    }
    return sum;
}
