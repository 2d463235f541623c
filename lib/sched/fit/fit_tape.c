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
    if (status == HTC_OK && ((fit->table_cap & (fit->table_cap - 1)) || fit->used > fit->cap || fit->table_cap < fit->used))
        status = HTC_ECORRUPT;
    return status == HTC_OK ? move_plan(fit, tape) : status;
}
