/* The state of a fit, written and read: arrays whose elements name each other by their places. */
#include "core/util.h"
#include "sched/fit/fit_private.h"

static htc_status move_plan(htc_fit *fit, const htc_tape *tape)
{
    fit_plan  *p = &fit->plan, was = *p;
    htc_status status = tape->move(tape->ctx, p, sizeof *p);
    p->points = was.points;
    p->floor = was.floor;
    p->order = was.order;
    p->points_cap = was.points_cap;
    p->order_cap = was.order_cap;
    p->points = htc__tape_array(tape, fit->env, p->points, &p->points_cap, sizeof *p->points, 4 * (size_t)HTC_FIT_JOBS_MAX + 64, &status);
    p->order = htc__tape_array(tape, fit->env, p->order, &p->order_cap, sizeof *p->order, 2 * (size_t)HTC_FIT_JOBS_MAX + 64, &status);
    if (status == HTC_OK && p->floor)
        status = tape->move(tape->ctx, p->floor, sizeof *p->floor);
    return status == HTC_OK && p->used > p->points_cap ? HTC_ECORRUPT : status;
}

/* ---- what was read may be anybody's ---- */

#define SLOT_FREE 2u /* in `listed` of one that is not used, while they are counted */

static int job_is_sound(const htc_fit *fit, const fit_slot *s)
{
    return s->job.nodes && s->job.estimate && s->sequence && s->sequence <= fit->sequence && s->submitted <= fit->now && (s->started <= fit->now || s->started == HTC_NEVER);
}

/* The slots that are used no more, each once; how many are used. */
static htc_status count_used(htc_fit *fit, size_t *n)
{
    *n = fit->used;
    for (uint32_t at = 0; at < fit->used; at++)
        fit->slots[at].listed = 0;
    for (uint32_t at = fit->unused; at != FIT_NONE; at = fit->slots[at].left, --*n) {
        if (at >= fit->used || fit->slots[at].listed)
            return HTC_ECORRUPT;
        fit->slots[at].listed = SLOT_FREE;
    }
    return *n <= fit->jobs_max ? HTC_OK : HTC_ECORRUPT;
}

/* Trees and table follow from the jobs: they are made anew. */
static htc_status make_anew(htc_fit *fit)
{
    size_t     n;
    uint64_t   busy = 0;
    htc_status status = count_used(fit, &n);
    if (status != HTC_OK)
        return status;
    for (size_t i = 0; i < fit->table_cap; i++)
        fit->table[i] = FIT_NONE;
    fit->waiting = fit->running = FIT_NONE;
    for (uint32_t at = 0; at < fit->used; at++) {
        fit_slot *s = &fit->slots[at];
        if (s->listed == SLOT_FREE)
            continue;
        if (!job_is_sound(fit, s) || htc__fit_slot_of(fit, s->job.id) != FIT_NONE)
            return HTC_ECORRUPT;
        s->heap = htc__fit_heap(s->sequence);
        s->left = s->right = FIT_NONE;
        busy += s->started != HTC_NEVER ? s->job.nodes : 0;
        htc__fit_table_add(fit, at);
        htc__fit_insert(fit->slots, s->started != HTC_NEVER ? &fit->running : &fit->waiting, at);
    }
    return busy == fit->busy ? HTC_OK : HTC_ECORRUPT;
}

htc_status htc_fit_tape(htc_fit *fit, const htc_tape *tape)
{
    htc_status status = fit && !*fit->asking ? htc__tape_check(tape) : HTC_EINVAL;
    if (status != HTC_OK)
        return status;
    uint64_t head[] = { sizeof *fit, sizeof *fit->slots, fit->policy.promise, fit->jobs_max, fit->sequence, fit->now,
                        (uint64_t)fit->unused << 32 | fit->used, (uint64_t)fit->waiting << 32 | fit->running, (uint64_t)fit->nodes << 32 | fit->busy };
    uint64_t found[sizeof head / sizeof *head];
    for (size_t i = 0; i < sizeof head / sizeof *head; i++)
        found[i] = head[i];
    status = tape->move(tape->ctx, found, sizeof found);
    for (size_t i = 0; i < 4 && status == HTC_OK; i++)
        status = found[i] == head[i] ? HTC_OK : HTC_EFORMAT;
    if (status != HTC_OK)
        return status;
    fit->sequence = found[4];
    fit->now = found[5];
    fit->unused = (uint32_t)(found[6] >> 32);
    fit->used = (uint32_t)found[6];
    fit->waiting = (uint32_t)(found[7] >> 32);
    fit->running = (uint32_t)found[7];
    fit->nodes = (uint32_t)(found[8] >> 32);
    fit->busy = (uint32_t)found[8];
    fit->slots = htc__tape_array(tape, fit->env, fit->slots, &fit->cap, sizeof *fit->slots, 2 * (size_t)HTC_FIT_JOBS_MAX + 64, &status);
    fit->table = htc__tape_array(tape, fit->env, fit->table, &fit->table_cap, sizeof *fit->table, 4 * (size_t)HTC_FIT_JOBS_MAX + 128, &status);
    if (status == HTC_OK && (!fit->table_cap || (fit->table_cap & (fit->table_cap - 1)) || fit->used > fit->cap || fit->table_cap <= fit->cap))
        status = HTC_ECORRUPT;
    if (status == HTC_OK && tape->reads)
        status = make_anew(fit);
    return status == HTC_OK ? move_plan(fit, tape) : status;
}
