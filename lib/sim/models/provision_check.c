/* Dynamic service provision: what a checkpoint says can be. Each slot that is used has the events of its state, and what environments count is what their slots have. */
#include "sim/models/checked.h"
#include "sim/models/provision.h"

typedef struct tally {
    uint64_t busy, held, running, settling, spare;
} tally;

typedef struct audit {
    const prov    *m;
    const uint8_t *events;
    tally         *of; /* of each environment */
    checked_lists  slots;
} audit;

static int is_direct(const prov *m)
{
    return m->options.system == HTC_SIM_PROVISION_DRP;
}

/* ---- slots ---- */

static int is_task(const prov_environment *e, uint32_t flow, uint32_t task)
{
    return e->ended || (flow < e->flows_n && (!e->flows[flow].dag || task < e->flows[flow].tasks));
}

/* How many events a slot of this state has: at least *least. 0: there is no such state here. */
static int events_of(const prov *m, uint32_t state, uint8_t *least, uint8_t *most)
{
    *least = *most = state != PROV_WAITING;
    switch (state) {
    case PROV_RUNNING:
        return 1;
    case PROV_WAITING:
        return !is_direct(m);
    case PROV_SETUP:
        return m->options.system == HTC_SIM_PROVISION_DSP && m->options.setup_delay;
    case PROV_TASK: /* and the end of the unit that is paid */
        *most = 2;
        return is_direct(m);
    case PROV_CHARGED:
    case PROV_SPARE:
        return is_direct(m);
    default:
        return 0;
    }
}

static int slot_can_be(audit *a, uint32_t s)
{
    const prov      *m = a->m;
    const prov_slot *slot = &m->slot[s];
    uint8_t          least, most;
    if (!events_of(m, slot->state, &least, &most) || a->events[s] < least || a->events[s] > most || slot->environment >= m->n || !slot->nodes)
        return 0;
    const prov_environment *e = &m->environment[slot->environment];
    tally                  *t = &a->of[slot->environment];
    int                     runs = slot->state == PROV_RUNNING || slot->state == PROV_TASK;
    if ((slot->state == PROV_TASK || slot->flow != PROV_NONE) && slot->state != PROV_SPARE && slot->state != PROV_SETUP && !is_task(e, slot->flow, slot->task))
        return 0;
    if (slot->state == PROV_WAITING && e->ended)
        return 0;
    t->running += (uint64_t)runs;
    t->busy += runs ? slot->nodes : 0;
    t->held += slot->nodes;
    t->settling += slot->state == PROV_SETUP ? slot->nodes : 0;
    t->spare += slot->state == PROV_SPARE;
    return 1;
}

static int slots_can_be(audit *a)
{
    const prov *m = a->m;
    if (!htc__checked_list(&a->slots, m->free_slot, NULL, NULL))
        return 0;
    for (uint32_t s = m->free_slot; s != PROV_NONE; s = m->slot[s].next)
        if (m->slot[s].state != PROV_FREE || a->events[s])
            return 0;
    for (uint32_t s = 0; s < m->slots; s++)
        if (!htc__checked_was_taken(&a->slots, s) && !slot_can_be(a, s))
            return 0;
    for (uint32_t s = m->slots; s < m->slots_max; s++)
        if (a->events[s])
            return 0;
    return 1;
}

/* ---- environments ---- */

static int spare_can_be(audit *a, uint32_t i)
{
    const prov *m = a->m;
    uint32_t    before = PROV_NONE;
    uint64_t    n = 0;
    if (!htc__checked_list(&a->slots, m->environment[i].spare, NULL, &n) || n != a->of[i].spare)
        return 0;
    for (uint32_t s = m->environment[i].spare; s != PROV_NONE; before = s, s = m->slot[s].next)
        if (m->slot[s].state != PROV_SPARE || m->slot[s].environment != i || m->slot[s].previous != before)
            return 0;
    return 1;
}

static int events_can_be(const audit *a, uint32_t i)
{
    const prov             *m = a->m;
    const prov_environment *e = &m->environment[i];
    const uint8_t          *of = a->events + m->slots_max + i;
    int                     looks = m->options.system == HTC_SIM_PROVISION_DSP && (!m->options.shared || i == 0);
    if (e->to_come > 1 || e->marked > 1 || e->due > 1 || e->granted_now > 1 || e->ended > 1 || (e->due && !looks))
        return 0;
    if (e->ended ? e->to_come : of[PROV_ARRIVAL * m->n] != e->to_come)
        return 0;
    return of[PROV_TIMER * m->n] <= looks;
}

static int environment_can_be(audit *a, uint32_t i)
{
    const prov             *m = a->m;
    const prov_environment *e = &m->environment[i];
    const tally            *t = &a->of[i];
    int                     owns = !is_direct(m) && !m->options.shared;
    if (!spare_can_be(a, i) || !events_can_be(a, i) || (owns && !e->ended != (e->book != NULL)))
        return 0;
    if (is_direct(m))
        return e->held == t->held && e->busy == t->busy && (e->ended || e->running == t->running);
    if (e->ended)
        return e->busy == 0;
    return e->busy == t->busy && e->running == t->running && e->settling == t->settling && e->cancelled <= e->settling && (m->options.shared || e->held >= e->busy);
}

/* Who is marked stands in the list, once. */
static int list_can_be(const prov *m)
{
    size_t marked = 0;
    for (size_t i = 0; i < m->n; i++)
        marked += m->environment[i].marked;
    for (size_t i = 0; i < m->listed; i++)
        for (size_t k = 0; k <= i; k++)
            if (m->list[i] >= m->n || !m->environment[m->list[i]].marked || (k < i && m->list[k] == m->list[i]))
                return 0;
    return marked == m->listed;
}

static int dones_can_be(const prov *m)
{
    for (size_t i = 0; i < m->dones; i++)
        if (m->done[i].environment >= m->n || !is_task(&m->environment[m->done[i].environment], m->done[i].flow, m->done[i].task))
            return 0;
    return 1;
}

static int sums_can_be(const audit *a)
{
    const prov *m = a->m;
    uint64_t    held = 0, busy = 0, running = 0, to_come = 0, bounded = 0, live = 0;
    for (size_t i = 0; i < m->n; i++) {
        const prov_environment *e = &m->environment[i];
        held += e->held;
        busy += e->busy;
        running += is_direct(m) ? a->of[i].running : e->ended ? 0 : e->running;
        to_come += e->to_come;
        bounded += !e->ended && e->o.period_ns > 0;
        live += !e->ended;
    }
    if ((!m->options.shared && held != m->held) || busy != m->busy || running != m->running || to_come != m->to_come || bounded != m->bounded || live != m->live)
        return 0;
    const uint8_t *of = a->events + m->slots_max + PROV_KINDS * m->n;
    return of[0] == m->pass_pending && m->pass_pending <= 1 && m->pass_wanted <= 1 && of[1] <= (m->sample > 0) && (!m->options.shared || !live != (m->book != NULL));
}

htc_status htc__prov_check(const prov *m, const uint8_t *events)
{
    audit      a = { .m = m, .events = events, .of = htc__alloc(&m->env, m->n * sizeof *a.of) };
    htc_status status = htc__checked_open(&a.slots, &m->env, &m->slot->next, sizeof *m->slot, m->slots);
    if (!a.of)
        status = HTC_ENOMEM;
    if (status == HTC_OK)
        status = htc__checked_that(m->scale, slots_can_be(&a), "jobs and leases");
    for (uint32_t i = 0; i < m->n && status == HTC_OK; i++)
        status = htc__checked_that(m->scale, environment_can_be(&a, i), "environments");
    if (status == HTC_OK)
        status = htc__checked_that(m->scale, list_can_be(m) && dones_can_be(m) && sums_can_be(&a), "sums");
    htc__checked_close(&a.slots);
    if (a.of)
        htc__free(&m->env, a.of, m->n * sizeof *a.of);
    return status;
}
