/* Several grids: a checkpoint. All of a run is arrays whose elements name each other by their places. */
#include <string.h>

#include "core/util.h"
#include "sim/models/checked.h"
#include "sim/models/grids.h"

static uint64_t mix(uint64_t print, const void *data, size_t n)
{
    return htc_hash64((htc_bytes){ data, n }, print);
}

static uint64_t mix_hierarchy(uint64_t print, const htc_hierarchy_options *h)
{
    uint64_t numbers[] = { h->grid_count, h->queue_count, h->mode, h->migrate, h->sharing, h->sole, h->share_period_ns, h->share_gain_ns, h->share_hold_ns, h->share_cost_ns,
                           h->share_moves_max };
    double   parts[] = { h->share_lambda, h->share_margin };
    print = mix(mix(print, numbers, sizeof numbers), parts, sizeof parts);
    for (size_t i = 0; i < h->grid_count; i++) {
        const htc_hierarchy_grid *g = &h->grids[i];
        uint64_t                  grid[] = { g->cpus, g->tasks_max, g->memory_mb, g->features, g->latency_ns, g->bytes_per_s };
        print = mix(print, grid, sizeof grid);
    }
    for (size_t i = 0; i < h->queue_count; i++) {
        const htc_hierarchy_queue *q = &h->queues[i];
        uint64_t                   queue[] = { q->level, q->next, q->te_ns, q->tq_ns, q->cpus, q->job_cpus, q->policies, q->flags, q->period_ns };
        double                     rates[] = { q->kflops, q->beta, q->alpha, q->te_factor };
        print = mix(mix(print, queue, sizeof queue), rates, sizeof rates);
        print = mix(print, q->grids, q->grid_count * sizeof *q->grids);
    }
    return print;
}

static uint64_t mix_grids(uint64_t print, const grids *m)
{
    for (uint32_t i = 0; i < m->n_grids; i++) {
        const grids_grid *g = &m->grid[i];
        double            parts[] = { g->ticks_per_kflop, g->part, g->mean, g->deviation, g->eviction.a, g->outage_gap.a };
        uint64_t          numbers[] = { g->step, g->outage };
        print = mix(mix(print, parts, sizeof parts), numbers, sizeof numbers);
        print = mix(mix(print, g->latency, sizeof g->latency), g->slowness, sizeof g->slowness);
    }
    for (uint32_t i = 0; i < m->n_queues; i++) {
        uint64_t numbers[] = { m->queue[i].target, m->queue[i].flags };
        print = mix(print, numbers, sizeof numbers);
    }
    return print;
}

static uint64_t mix_workload(uint64_t print, const grids *m)
{
    const htc_sim_grids_options *o = &m->options;
    for (uint64_t i = 0; o->jobs && i < o->n_jobs; i++) {
        htc_sim_grids_job j = { 0 };
        (void)htc__options_at(&j, sizeof j, o->jobs, i, sizeof j);
        uint64_t numbers[] = { j.arrival, j.tasks, j.kind };
        double   parts[] = { j.kflop, j.rho };
        print = mix(mix(print, numbers, sizeof numbers), parts, sizeof parts);
    }
    for (size_t i = 0; !o->jobs && i < o->n_classes; i++) {
        const grids_class *k = &m->kind[i];
        double             parts[] = { k->share, k->min, k->ratio, k->rho.a, k->rho.b, k->known };
        print = mix(print, parts, sizeof parts);
    }
    double stream[] = { o->stream.burst, m->gap.a, m->gap.b, m->burst_gap.a, m->burst_gap.b };
    return mix(print, stream, sizeof stream);
}

/* Of the options and what follows from them, before anything happens: another experiment's checkpoint is refused. */
uint64_t htc__grids_print(const grids *m)
{
    const htc_sim_grids_options *o = &m->options;
    uint64_t numbers[] = { o->system, o->n_classes, o->active_max, o->task_attempts, m->total, m->flow, m->move, m->rest, m->shelter, m->sample, m->gap.kind, m->burst_gap.kind };
    return mix_workload(mix_grids(mix_hierarchy(mix(o->seed, numbers, sizeof numbers), &m->shape), m), m);
}

/* What changes stands at the end of the struct. */
static htc_status move_state(grids *m, const htc_scale_tape *tape)
{
    const size_t from = offsetof(grids, free_job);
    htc_status   status = tape->move(tape->ctx, (char *)m + from, sizeof *m - from);
    if (status == HTC_OK && (m->jobs_made > m->options.active_max || m->tasks_made > m->tasks_max || m->active > m->jobs_made || m->next > m->total ||
                             m->timers > sizeof m->timer / sizeof *m->timer))
        status = HTC_ECORRUPT;
    return status;
}

/* Of queues and grids only what changes is taken; the rest is as the options say. */
static htc_status move_places(grids *m, const htc_scale_tape *tape)
{
    htc_status status = HTC_OK;
    for (uint32_t q = 0; q < m->n_queues && status == HTC_OK; q++) {
        grids_queue read = m->queue[q], *is = &m->queue[q];
        status = tape->move(tape->ctx, &read, sizeof read);
        is->waiting = read.waiting;
        is->busy = read.busy;
        memcpy(is->running, read.running, sizeof is->running);
    }
    for (uint32_t g = 0; g < m->n_grids && status == HTC_OK; g++) {
        grids_grid *is = &m->grid[g];
        uint64_t    numbers[] = { is->ours, is->busy, is->steps, is->outages, is->down };
        status = tape->move(tape->ctx, numbers, sizeof numbers);
        if (status == HTC_OK)
            status = tape->move(tape->ctx, &is->state, sizeof is->state);
        is->ours = numbers[0];
        is->busy = numbers[1];
        is->steps = numbers[2];
        is->outages = numbers[3];
        is->down = numbers[4] <= 1 ? (uint32_t)numbers[4] : 2;
    }
    return status;
}

/* So is of a job what follows from its number. */
static void keep_options(grids *m)
{
    for (uint64_t i = 0; i < m->jobs_made && i < m->options.active_max; i++) {
        grids_job *j = &m->job[i], drawn = { .number = j->number, .stream = htc__scale_stream(m->options.seed, j->number) };
        if (j->state == GRIDS_FREE_JOB || j->number >= m->total)
            continue;
        htc__grids_draw_job(m, &drawn);
        j->stream = drawn.stream;
        j->kflop = drawn.kflop;
        j->rho = drawn.rho;
        j->kind = drawn.kind;
        j->fixed = drawn.fixed;
    }
}

htc_status htc__grids_tape(grids *m, const htc_scale_tape *tape)
{
    uint64_t   head[] = { m->print, sizeof *m, sizeof *m->job, sizeof *m->task, sizeof *m->queue, sizeof *m->grid }, found[sizeof head / sizeof *head];
    uint8_t   *events = NULL;
    htc_status status = htc__tape_check(tape);
    memcpy(found, head, sizeof head);
    if (status == HTC_OK)
        status = tape->move(tape->ctx, found, sizeof found);
    if (status == HTC_OK && memcmp(found, head, sizeof head) != 0)
        status = HTC_EFORMAT;
    if (status == HTC_OK)
        status = move_state(m, tape);
    struct {
        void  *data;
        size_t n;
    } piece[] = { { m->by_queue, m->n_queues * sizeof *m->by_queue },
                  { m->by_class, m->options.n_classes * sizeof *m->by_class },
                  { m->job, m->jobs_made * sizeof *m->job },
                  { m->task, m->tasks_made * sizeof *m->task } };
    if (status == HTC_OK)
        status = move_places(m, tape);
    for (size_t i = 0; i < sizeof piece / sizeof *piece && status == HTC_OK; i++)
        status = piece[i].n ? tape->move(tape->ctx, piece[i].data, piece[i].n) : HTC_OK;
    if (status == HTC_OK)
        status = htc_hierarchy_tape(m->hierarchy, tape);
    if (status == HTC_OK && tape->reads)
        keep_options(m);
    if (status == HTC_OK)
        status = htc__checked_engine(m->scale, tape, &events);
    if (status == HTC_OK && tape->reads)
        status = htc__grids_check(m, events);
    htc__checked_forget(m->scale, events);
    return status;
}
