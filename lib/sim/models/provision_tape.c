/* Dynamic service provision: a checkpoint. Slots and environments are arrays whose elements name each other by their places; what lib/sched knows of
 * leases, queues and graphs has tapes of its own. */
#include <string.h>

#include "core/util.h"
#include "sim/models/checked.h"
#include "sim/models/provision.h"

/* ---- of which options it is ---- */

static uint64_t mix(uint64_t print, const void *data, size_t n)
{
    return htc_hash64((htc_bytes){ data, n }, print);
}

static uint64_t mix_name(uint64_t print, const char *name)
{
    return name ? mix(print, name, strlen(name)) : print;
}

static uint64_t mix_book(uint64_t print, const htc_provision_options *options)
{
    htc_provision_options b = { 0 }; /* the caller's may be shorter */
    (void)htc__options_copy(&b, sizeof b, options, options->size, sizeof(size_t));
    uint64_t numbers[] = { b.kind, b.scope, b.initial, b.ratio, b.scan_ns, b.phase_ns, b.unit_ns, b.leases_max, b.starved_after };
    return mix_name(mix(print, numbers, sizeof numbers), b.policy ? b.policy->name : "paper");
}

static uint64_t mix_jobs(uint64_t print, const htc_sim_provision_environment *o)
{
    for (size_t i = 0; i < o->n_jobs; i++) {
        const htc_sim_provision_job *j = &o->jobs[i];
        uint64_t                     job[] = { j->arrival, j->length, j->estimate, j->nodes, (uint64_t)j->priority };
        print = mix(print, job, sizeof job);
    }
    return print;
}

static uint64_t mix_flows(uint64_t print, const htc_sim_provision_environment *o)
{
    for (size_t i = 0; i < o->n_flows; i++) {
        htc_sim_provision_flow f = { .size = sizeof f };
        (void)htc__options_at(&f, sizeof f, o->flows, i, sizeof f);
        uint64_t numbers[] = { f.arrival, f.tasks, f.n_edges };
        print = mix(print, numbers, sizeof numbers);
        print = f.tasks ? mix(print, f.length, f.tasks * sizeof *f.length) : print;
        print = f.n_edges ? mix(print, f.edges, f.n_edges * sizeof *f.edges) : print;
    }
    return print;
}

uint64_t htc__prov_print(const prov *m)
{
    const htc_sim_provision_options *o = &m->options;
    uint64_t numbers[] = { o->system, o->setup_delay, o->n_environments, o->capacity, o->tick_ns, o->active_max, m->sample, o->setup ? o->setup->node_ns : 0 };
    uint64_t print = mix(mix(0, numbers, sizeof numbers), &o->price, sizeof o->price);
    print = mix_name(mix_name(print, o->granter ? o->granter->name : "all_or_reject"), o->setup ? o->setup->name : "packages");
    print = o->shared ? mix_book(print, o->shared) : print;
    for (size_t i = 0; i < m->n; i++) {
        const prov_environment              *e = &m->environment[i];
        const htc_sim_provision_environment *x = &e->o;
        uint64_t mine[] = { x->nodes, x->period_ns, (uint64_t)x->priority, x->weight, x->n_jobs, x->n_flows, x->next_job != NULL, x->fit ? x->fit->promise + 1u : 0 };
        print = mix_name(mix_book(mix(print, mine, sizeof mine), &e->book_options), x->fit ? x->fit->name : NULL);
        print = mix_flows(mix_jobs(print, x), x);
    }
    return print;
}

/* ---- what lib/sched has ---- */

/* What there is no more, there is not after it is read. */
static htc_status move_book(const htc_scale_tape *tape, htc_provision **book)
{
    uint32_t   there = *book != NULL;
    htc_status status = tape->move(tape->ctx, &there, sizeof there);
    if (status == HTC_OK && there && !*book)
        return HTC_ECORRUPT;
    if (status == HTC_OK && !there) {
        htc_provision_destroy(*book);
        *book = NULL;
    }
    return status == HTC_OK && *book ? htc_provision_tape(*book, tape) : status;
}

static htc_status move_fit(const htc_scale_tape *tape, htc_fit **fit)
{
    uint32_t   there = *fit != NULL;
    htc_status status = tape->move(tape->ctx, &there, sizeof there);
    if (status == HTC_OK && there && !*fit)
        return HTC_ECORRUPT;
    if (status == HTC_OK && !there) {
        htc_fit_destroy(*fit);
        *fit = NULL;
    }
    return status == HTC_OK && *fit ? htc_fit_tape(*fit, tape) : status;
}

/* Some workflow of the environment has so many tasks. */
static int is_flow(const prov_environment *e, uint32_t tasks)
{
    for (size_t i = 0; i < e->o.n_flows; i++) {
        htc_sim_provision_flow f = { .size = sizeof f };
        if (htc__options_at(&f, sizeof f, e->o.flows, i, sizeof f) == HTC_OK && f.tasks == tasks)
            return 1;
    }
    return 0;
}

/* A place without a graph is free. */
static htc_status move_flow(prov *m, const htc_scale_tape *tape, const prov_environment *e, prov_flow *f)
{
    uint32_t   numbers[] = { f->tasks, f->done, f->dag != NULL };
    htc_status status = tape->move(tape->ctx, numbers, sizeof numbers);
    if (status != HTC_OK || !numbers[2])
        return status;
    if (!is_flow(e, numbers[0]) || numbers[1] > numbers[0])
        return HTC_ECORRUPT;
    if (tape->reads) {
        f->length = htc__alloc_raw(&m->env, numbers[0] * sizeof *f->length);
        f->tasks = f->length ? numbers[0] : 0;
        f->done = numbers[1];
        status = f->length ? htc_dag_create(&m->env, &(htc_dag_options){ .size = sizeof(htc_dag_options), .tasks_max = f->tasks }, &f->dag) : HTC_ENOMEM;
    }
    if (status == HTC_OK)
        status = tape->move(tape->ctx, f->length, f->tasks * sizeof *f->length);
    if (status == HTC_OK)
        status = htc_dag_tape(f->dag, tape);
    return status == HTC_OK && htc_dag_size(f->dag) != f->tasks ? HTC_ECORRUPT : status;
}

static htc_status move_flows(prov *m, const htc_scale_tape *tape, prov_environment *e)
{
    size_t n = e->flows_n;
    if (tape->reads && n) {
        e->flows = n <= e->o.n_flows ? htc__alloc(&m->env, n * sizeof *e->flows) : NULL;
        e->flows_cap = e->flows_n = e->flows ? n : 0;
        if (!e->flows)
            return n > e->o.n_flows ? HTC_ECORRUPT : HTC_ENOMEM;
    }
    htc_status status = HTC_OK;
    for (size_t i = 0; i < e->flows_n && status == HTC_OK; i++)
        status = move_flow(m, tape, e, &e->flows[i]);
    return status;
}

static htc_status move_environment(prov *m, const htc_scale_tape *tape, prov_environment *e)
{
    const size_t from = offsetof(prov_environment, marked);
    htc_status   status = tape->move(tape->ctx, (char *)e + from, sizeof *e - from);
    if (status == HTC_OK)
        status = move_flows(m, tape, e);
    else if (tape->reads)
        e->flows_n = 0;
    if (status == HTC_OK)
        status = move_book(tape, &e->book);
    if (status == HTC_OK)
        status = move_fit(tape, &e->fit);
    if (status != HTC_OK || !tape->reads)
        return status;
    int fits = m->options.system != HTC_SIM_PROVISION_DRP;
    if ((fits && !e->ended != (e->fit != NULL)) || (e->spare != PROV_NONE && e->spare >= m->slots) || (!e->o.next_job && (e->taken > e->o.n_jobs + e->o.n_flows || (e->to_come && !e->taken))))
        return HTC_ECORRUPT;
    if (e->o.jobs && e->taken) /* the job, too, is the caller's */
        e->job = e->o.jobs[e->taken - 1];
    if (e->o.flows && e->to_come) /* its workflow is the caller's */
        return e->taken ? htc__options_at(&e->next_flow, sizeof e->next_flow, e->o.flows, e->taken - 1, sizeof e->next_flow) : HTC_ECORRUPT;
    return HTC_OK;
}

/* ---- and what is the model's ---- */

static htc_status move_state(prov *m, const htc_scale_tape *tape)
{
    const size_t from = offsetof(prov, pass_wanted);
    htc_status   status = tape->move(tape->ctx, (char *)m + from, sizeof *m - from);
    if (status != HTC_OK || (m->slots <= m->slots_max && m->listed <= m->n && m->dones <= m->slots_max && (m->free_slot == PROV_NONE || m->free_slot < m->slots)))
        return status;
    m->slots = 0;
    m->listed = m->dones = 0;
    return HTC_ECORRUPT;
}

/* There is room for twice what the tape has had, whatever it says. */
static htc_status read_slots(prov *m, const htc_scale_tape *tape)
{
    htc_status status = HTC_OK;
    uint32_t   slots = m->slots, step;
    for (m->slots = 0; m->slots < slots && status == HTC_OK; m->slots += status == HTC_OK ? step : 0) {
        if (m->slots == m->slots_cap && !htc__prov_slots_room(m, m->slots_cap > slots / 2 ? slots : 2 * m->slots_cap))
            return HTC_ENOMEM;
        step = slots < m->slots_cap ? slots - m->slots : m->slots_cap - m->slots;
        status = tape->move(tape->ctx, m->slot + m->slots, step * sizeof *m->slot);
    }
    return status;
}

static htc_status read_dones(prov *m, const htc_scale_tape *tape)
{
    size_t     dones = m->dones;
    htc_status status = HTC_OK;
    for (m->dones = 0; m->dones < dones && status == HTC_OK; m->dones += status == HTC_OK) {
        if (m->dones == m->dones_cap) {
            size_t     cap = m->dones_cap ? 2 * m->dones_cap : 64;
            prov_done *grown = htc__resize_raw(&m->env, m->done, m->dones_cap * sizeof *grown, cap * sizeof *grown);
            if (!grown)
                return HTC_ENOMEM;
            m->done = grown;
            m->dones_cap = cap;
        }
        status = tape->move(tape->ctx, &m->done[m->dones], sizeof *m->done);
    }
    return status;
}

static htc_status move_arrays(prov *m, const htc_scale_tape *tape)
{
    htc_status status = tape->reads ? read_slots(m, tape) : htc__checked_piece(tape, HTC_OK, m->slot, m->slots * sizeof *m->slot);
    status = htc__checked_piece(tape, status, m->list, m->listed * sizeof *m->list);
    if (status == HTC_OK && tape->reads)
        return read_dones(m, tape);
    return htc__checked_piece(tape, status, m->done, m->dones * sizeof *m->done);
}

htc_status htc__prov_tape(prov *m, const htc_scale_tape *tape)
{
    uint64_t   head[] = { htc__prov_print(m), sizeof *m, sizeof *m->slot, sizeof *m->environment }, found[sizeof head / sizeof *head];
    uint8_t   *events = NULL;
    htc_status status = htc__tape_check(tape);
    memcpy(found, head, sizeof head);
    if (status == HTC_OK)
        status = tape->move(tape->ctx, found, sizeof found);
    if (status == HTC_OK && memcmp(found, head, sizeof head) != 0)
        status = HTC_EFORMAT;
    uint64_t peak = m->memory_peak;
    if (status == HTC_OK)
        status = tape->move(tape->ctx, &peak, sizeof peak);
    m->memory_peak = peak > m->memory_peak ? peak : m->memory_peak;
    if (status == HTC_OK)
        status = move_state(m, tape);
    if (status == HTC_OK)
        status = move_arrays(m, tape);
    for (size_t i = 0; i < m->n && status == HTC_OK; i++)
        status = move_environment(m, tape, &m->environment[i]);
    if (status == HTC_OK && m->options.shared)
        status = move_book(tape, &m->book);
    if (status == HTC_OK)
        status = htc__checked_engine(m->scale, tape, &events);
    if (status == HTC_OK && tape->reads)
        status = htc__prov_check(m, events);
    htc__checked_forget(m->scale, events);
    return status;
}
