/* Several grids: a job by itself. Its draws, its parts and where its time goes are the same in the model and in its exact twin (sim/scenarios/grids_exact.h). */
#include <string.h>

#include "core/util.h"
#include "sim/models/grids.h"

static double unit(uint64_t bits)
{
    return ((double)(bits >> 11) + 0.5) * 0x1p-53;
}

/* ---- it comes ---- */

static uint32_t kind_of(const grids *m, double u)
{
    uint32_t k = 0;
    while (k + 1 < m->options.n_classes && u >= m->kind[k].share)
        k++;
    return k;
}

/* As the array says, or as its class is. */
void htc__grids_draw_job(const grids *m, grids_job *j)
{
    if (m->options.jobs) {
        htc_sim_grids_job in = { 0 };
        (void)htc__options_at(&in, sizeof in, m->options.jobs, j->number, sizeof in);
        j->kflop = in.kflop;
        j->rho = in.rho;
        j->fixed = in.tasks;
        j->kind = in.kind;
    } else {
        /* before those of its tasks: their counters are below 2^34 */
        j->kind = kind_of(m, unit(htc__scale_draw(j->stream, UINT64_MAX - 1)));
        const grids_class *k = &m->kind[j->kind];
        j->kflop = htc__scale_power(k->ratio, unit(htc__scale_draw(j->stream, UINT64_MAX - 2))) * k->min;
        j->rho = k->known ? 0 : (double)htc__scale_drawer_ticks(&k->rho, htc__scale_draw(j->stream, UINT64_MAX - 3)) / GRIDS_ONE;
        j->rho = !k->known && j->rho < 1 ? 1 : j->rho;
    }
    j->left = j->kflop;
    j->tasks = j->fixed;
}

void htc__grids_draw_arrival(grids *m)
{
    if (m->options.jobs) {
        htc_sim_grids_job in = { 0 };
        (void)htc__options_at(&in, sizeof in, m->options.jobs, m->next, sizeof in);
        m->next_at = htc__grids_ticks(m, in.arrival);
    } else {
        int within = m->next && unit(htc__scale_draw(m->arrivals, 2 * m->next)) < 1 - 1 / m->options.stream.burst;
        m->next_at += htc__scale_drawer_ticks(within ? &m->gap : &m->burst_gap, htc__scale_draw(m->arrivals, 2 * m->next + 1));
    }
}

/* ---- what it is split into, and its bound ---- */

uint32_t htc__grids_parts(const grids *m, const grids_job *j)
{
    const grids_queue *q = &m->queue[j->queue];
    double             whole = (double)q->target / 1e9 * q->kflops, parts = q->target ? j->left / whole : 1;
    uint32_t           n = parts < 1 ? 1 : parts > 1e9 ? 1000000000 : (uint32_t)parts + ((double)(uint32_t)parts < parts);
    return j->fixed ? j->tasks : n;
}

void htc__grids_split(const grids *m, grids_job *j, double bound)
{
    uint32_t n = htc__grids_parts(m, j);
    j->split = j->fixed ? j->fixed : n;
    j->tasks = j->waiting = n;
    j->part = j->left / n;
    j->nominal = bound / n;
}

double htc__grids_bound_after(const grids *m, const grids_job *j, uint64_t ticks)
{
    return htc_hierarchy_synthetic(j->kflop, m->queue[j->queue].rate, j->rho, j->spent_s + htc__grids_seconds(m, ticks) * j->estimate_cpus) * (j->left / j->kflop);
}

/* ---- where its time goes ---- */

void htc__grids_phase(grids_job *j, uint64_t now, uint8_t phase)
{
    uint64_t since = j->since;
    if (j->phase == GRIDS_RUNNING) { /* the first task has started meanwhile, or has not */
        uint64_t started = j->first_start < now ? j->first_start : now;
        j->in[GRIDS_GRID] += started - since;
        since = started;
    }
    j->in[j->phase] += now - since;
    j->since = now;
    j->phase = phase;
}

/* ---- its end ---- */

static void add(grids_tally *t, const grids *m, const grids_job *j, uint64_t now)
{
    htc_sim_grids_result *r = &t->r;
    r->completed += j->fate == HTC_SIM_GRIDS_COMPLETED;
    r->rejected += j->fate == HTC_SIM_GRIDS_REJECTED;
    r->terminated += j->fate == HTC_SIM_GRIDS_TERMINATED;
    r->failed += j->fate == HTC_SIM_GRIDS_FAILED;
    if (j->fate != HTC_SIM_GRIDS_COMPLETED)
        return;
    double response = htc__grids_seconds(m, now - j->arrival);
    r->response_s += response;
    r->response_max_s = response > r->response_max_s ? response : r->response_max_s;
    r->estimating_s += htc__grids_seconds(m, j->in[GRIDS_ESTIMATING]);
    r->queued_s += htc__grids_seconds(m, j->in[GRIDS_QUEUED]);
    r->grid_queued_s += htc__grids_seconds(m, j->in[GRIDS_GRID]);
    r->running_s += htc__grids_seconds(m, j->in[GRIDS_RUNNING]);
    r->moving_s += htc__grids_seconds(m, j->in[GRIDS_MOVING]);
    r->flow_s += htc__grids_seconds(m, j->in[GRIDS_FLOW]);
    r->tasks += j->split;
    if (j->looks) {
        r->cpus += (double)j->had / (double)j->looks;
        t->cpus_n++;
    }
    uint64_t bits, ticks = now - j->arrival + 1;
    double   x = (double)ticks;
    memcpy(&bits, &x, sizeof bits);
    bits = (bits >> 49) - (UINT64_C(1023) << 3); /* exponent and three bits behind it */
    t->bin[bits < GRIDS_BINS ? bits : GRIDS_BINS - 1]++;
}

void htc__grids_count_end(grids *m, const grids_job *j, uint64_t now)
{
    m->completed += j->fate == HTC_SIM_GRIDS_COMPLETED;
    m->rejected += j->fate == HTC_SIM_GRIDS_REJECTED;
    m->terminated += j->fate == HTC_SIM_GRIDS_TERMINATED;
    m->failed += j->fate == HTC_SIM_GRIDS_FAILED;
    add(&m->by_queue[j->queue], m, j, now);
    add(&m->by_class[j->kind], m, j, now);
    grids_tally *t = &m->by_class[j->kind];
    t->r.work_s += (double)j->work;
    t->r.evicted_s += (double)j->evicted;
    t->r.moved_s += (double)j->moved;
    t->r.started += j->started;
    t->r.evicted += j->evictions;
    if (j->fate == HTC_SIM_GRIDS_COMPLETED) {
        double undone = j->left / j->kflop;
        m->undone += undone < 0 ? -undone : undone;
    }
    if (m->options.end) {
        htc_ns tick = m->options.tick_ns;
        m->options.end(m->options.ctx, &(htc_sim_grids_end){ .size = sizeof(htc_sim_grids_end), .job = j->number, .kind = j->kind, .fate = j->fate, .queue = j->queue, .moves = j->moves,
                                                             .kflop = j->kflop, .arrival = j->arrival * tick, .ended = now * tick,
                                                             .estimating = j->in[GRIDS_ESTIMATING] * tick, .queued = j->in[GRIDS_QUEUED] * tick,
                                                             .grid_queued = j->in[GRIDS_GRID] * tick, .running = j->in[GRIDS_RUNNING] * tick,
                                                             .moving = j->in[GRIDS_MOVING] * tick, .flow = j->in[GRIDS_FLOW] * tick, .work_s = htc__grids_seconds(m, j->work),
                                                             .evicted_s = htc__grids_seconds(m, j->evicted), .moved_s = htc__grids_seconds(m, j->moved), .started = j->started,
                                                             .evicted = j->evictions, .tasks = j->split, .cpus = j->looks ? (double)j->had / (double)j->looks : 0 });
    }
}
