/* The state of a hierarchy, written and read: arrays whose elements name each other by their places. */
#include <string.h>

#include "core/util.h"
#include "sched/hierarchy/hierarchy_private.h"

/* No array has more elements than this; what it may really have the options say. */
#define ELEMENTS_MAX ((size_t)1 << 32)

static htc_status move_index(htc_hierarchy *h, const htc_tape *tape, hier_index *index)
{
    uint64_t   n = index->n;
    htc_status status = tape->move(tape->ctx, &n, sizeof n);
    index->cells = htc__tape_array(tape, h->env, index->cells, &index->cap, sizeof *index->cells, ELEMENTS_MAX, &status);
    index->n = (size_t)n;
    return status == HTC_OK && ((index->cap & (index->cap - 1)) || n > index->cap / 2) ? HTC_ECORRUPT : status; /* its cells are filled anew */
}

/* What follows from the options is as they say, whatever was read; policies may have been changed since. */
static void keep_options(hier_queue *q, const hier_queue *was)
{
    uint32_t policies = q->spec.policies;
    q->spec = was->spec;
    q->spec.policies = policies;
    memcpy(q->grid, was->grid, sizeof q->grid);
    q->grids = was->grids;
    q->peers = was->peers;
    q->period_ns = was->period_ns;
    q->unit = was->unit;
    q->te_s = was->te_s;
    q->tq_s = was->tq_s;
    q->factor = was->factor;
}

static htc_status move_queue(htc_hierarchy *h, const htc_tape *tape, hier_queue *q)
{
    hier_queue was = *q;
    htc_status status = tape->move(tape->ctx, q, sizeof *q);
    keep_options(q, &was);
    q->entries = was.entries;
    q->cap = was.cap;
    q->entries = htc__tape_array(tape, h->env, q->entries, &q->cap, sizeof *q->entries, ELEMENTS_MAX, &status);
    return status == HTC_OK && (q->first > q->end || q->end > q->cap || q->live > q->end - q->first || q->end + q->waiting > q->cap) ? HTC_ECORRUPT : status;
}

/* Decisions that are lent end with the next call: only their room has to be there. */
static htc_status make_room(htc_hierarchy *h)
{
    if (h->decisions_cap >= h->jobs_cap)
        return HTC_OK;
    htc_hierarchy_decision *more = htc__resize(h->env, h->decisions, h->decisions_cap * sizeof *more, h->jobs_cap * sizeof *more);
    if (!more)
        return HTC_ENOMEM;
    h->decisions = more;
    h->decisions_cap = h->jobs_cap;
    return HTC_OK;
}

htc_status htc_hierarchy_tape(htc_hierarchy *hierarchy, const htc_tape *tape)
{
    htc_hierarchy *h = hierarchy;
    htc_status     status = h ? htc__tape_check(tape) : HTC_EINVAL;
    if (status != HTC_OK)
        return status;
    uint64_t head[] = { sizeof *h, sizeof *h->queues, h->options.queue_count, h->options.grid_count, h->options.jobs_max, h->options.tasks_max,
                        h->now, h->jobs_n, h->tasks_n, (uint64_t)h->free_job << 32 | h->free_task };
    uint64_t found[sizeof head / sizeof *head];
    for (size_t i = 0; i < sizeof head / sizeof *head; i++)
        found[i] = head[i];
    status = tape->move(tape->ctx, found, sizeof found);
    for (size_t i = 0; i < 6 && status == HTC_OK; i++)
        status = found[i] == head[i] ? HTC_OK : HTC_EFORMAT;
    if (status != HTC_OK)
        return status;
    h->now = found[6];
    h->jobs_n = (size_t)found[7];
    h->tasks_n = (size_t)found[8];
    h->free_job = (uint32_t)(found[9] >> 32);
    h->free_task = (uint32_t)found[9];
    h->jobs = htc__tape_array(tape, h->env, h->jobs, &h->jobs_cap, sizeof *h->jobs, h->options.jobs_max, &status);
    h->tasks = htc__tape_array(tape, h->env, h->tasks, &h->tasks_cap, sizeof *h->tasks, h->options.tasks_max, &status);
    for (size_t i = 0; i < h->options.grid_count && status == HTC_OK; i++) {
        const htc_hierarchy_grid spec = h->grids[i].spec;
        status = tape->move(tape->ctx, &h->grids[i], sizeof h->grids[i]);
        h->grids[i].spec = spec;
    }
    if (status == HTC_OK)
        status = move_index(h, tape, &h->by_id);
    if (status == HTC_OK)
        status = move_index(h, tape, &h->by_task);
    for (size_t i = 0; i < h->options.queue_count && status == HTC_OK; i++)
        status = move_queue(h, tape, &h->queues[i]);
    if (status == HTC_OK && tape->reads)
        status = htc__hierarchy_check(h);
    return status == HTC_OK ? make_room(h) : status;
}
