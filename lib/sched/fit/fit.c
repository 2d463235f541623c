/* The jobs of a fit: where they stand, and what happens to them. Who starts is decided in fit_policy.c. */
#include "htcsched/fit.h"

#include <assert.h>
#include <string.h>

#include "core/util.h"
#include "sched/fit/fit_private.h"

#define JOBS_MAX_DEFAULT ((size_t)1 << 20)

/* ---- slots, and the table that finds them by id ---- */

static size_t place_of(const htc_fit *fit, uint64_t id)
{
    return htc__fit_heap(id) & (fit->table_cap - 1); /* fewer places than 2^32 */
}

uint32_t htc__fit_slot_of(const htc_fit *fit, uint64_t id)
{
    size_t at = place_of(fit, id);
    while (fit->table[at] != FIT_NONE && fit->slots[fit->table[at]].job.id != id)
        at = (at + 1) & (fit->table_cap - 1);
    return fit->table[at];
}

void htc__fit_table_add(htc_fit *fit, uint32_t slot)
{
    size_t at = place_of(fit, fit->slots[slot].job.id);
    while (fit->table[at] != FIT_NONE)
        at = (at + 1) & (fit->table_cap - 1);
    fit->table[at] = slot;
}

/* What stands behind the gap moves up, unless it would come to stand before its own place. */
static void table_remove(htc_fit *fit, uint64_t id)
{
    size_t mask = fit->table_cap - 1, gap = place_of(fit, id);
    while (fit->slots[fit->table[gap]].job.id != id)
        gap = (gap + 1) & mask;
    for (size_t at = (gap + 1) & mask; fit->table[at] != FIT_NONE; at = (at + 1) & mask) {
        size_t home = place_of(fit, fit->slots[fit->table[at]].job.id);
        if (((at - home) & mask) >= ((at - gap) & mask)) {
            fit->table[gap] = fit->table[at];
            gap = at;
        }
    }
    fit->table[gap] = FIT_NONE;
}

static int has_plan(const htc_fit *fit)
{
    return fit->policy.promise == HTC_FIT_PROMISE_ALL;
}

/* Room for one more job: whatever could fail is done before anything is changed. */
static htc_status reserve(htc_fit *fit)
{
    if (fit->unused != FIT_NONE || fit->used < fit->cap)
        return HTC_OK;
    size_t cap = fit->cap ? fit->cap * 2 : 16, table_cap = 2 * cap;
    if (has_plan(fit)) {
        htc_status status = htc__fit_plan_reserve(fit->env, &fit->plan, cap);
        if (status != HTC_OK)
            return status;
    }
    uint32_t *table = htc__alloc(fit->env, table_cap * sizeof *table);
    if (!table)
        return HTC_ENOMEM;
    fit_slot *slots = htc__resize(fit->env, fit->slots, fit->cap * sizeof *slots, cap * sizeof *slots);
    if (!slots) {
        htc__free(fit->env, table, table_cap * sizeof *table);
        return HTC_ENOMEM;
    }
    htc__free(fit->env, fit->table, fit->table_cap * sizeof *table);
    memset(table, 0xff, table_cap * sizeof *table); /* FIT_NONE */
    fit->table = table;
    fit->table_cap = table_cap;
    fit->slots = slots;
    fit->cap = cap;
    /* There is no unused slot: each of them is a job. */
    for (uint32_t i = 0; i < fit->used; i++)
        htc__fit_table_add(fit, i);
    return HTC_OK;
}

/* ---- making and copying ---- */

void htc_fit_options_init(htc_fit_options *options, size_t size)
{
    htc__options_init(options, size);
}

htc_status htc_fit_create(const htc_env *env, const htc_fit_options *options, htc_fit **out)
{
    htc_fit_options o = HTC_FIT_OPTIONS_INIT;
    htc_fit_policy  policy;
    htc_status status = htc__options_copy(&o, sizeof o, options, options ? options->size : 0, sizeof options->size);
    if (status == HTC_OK)
        status = htc__fit_policy_copy(&policy, o.policy);
    if (status != HTC_OK)
        return status;
    if (!out || o.jobs_max > HTC_FIT_JOBS_MAX)
        return HTC_EINVAL;
    htc_fit *fit = htc__alloc(env, sizeof *fit);
    if (!fit)
        return HTC_ENOMEM;
    fit->env = env;
    fit->asking = &fit->asked;
    fit->policy = policy;
    fit->jobs_max = o.jobs_max ? o.jobs_max : JOBS_MAX_DEFAULT;
    fit->nodes = o.nodes;
    fit->unused = fit->waiting = fit->running = FIT_NONE;
    fit->plan.unused = fit->plan.root = FIT_NONE;
    fit->plan.broken = 1; /* there is none yet */
    status = reserve(fit);
    if (status != HTC_OK) {
        htc_fit_destroy(fit);
        return status;
    }
    if (has_plan(fit))
        htc__fit_plan_refresh(fit, 0);
    *out = fit;
    return HTC_OK;
}

void htc_fit_destroy(htc_fit *fit)
{
    if (!fit || *fit->asking)
        return;
    htc__fit_plan_free(fit->env, &fit->plan);
    htc__free(fit->env, fit->slots, fit->cap * sizeof *fit->slots);
    htc__free(fit->env, fit->table, fit->table_cap * sizeof *fit->table);
    htc__free(fit->env, fit, sizeof *fit);
}

static void *copied(const htc_env *env, const void *of, size_t size, int *ok)
{
    void *copy = of ? htc__alloc(env, size) : NULL;
    if (copy)
        memcpy(copy, of, size);
    else if (of)
        *ok = 0;
    return copy;
}

htc_status htc__fit_clone(const htc_fit *fit, htc_fit **out)
{
    int             ok = 1;
    const htc_env  *env = fit->env;
    const fit_plan *plan = &fit->plan;
    htc_fit        *clone = copied(env, fit, sizeof *fit, &ok);
    if (!clone)
        return HTC_ENOMEM;
    clone->asked = 0;
    clone->asking = &clone->asked;
    clone->slots = copied(env, fit->slots, fit->cap * sizeof *fit->slots, &ok);
    clone->table = copied(env, fit->table, fit->table_cap * sizeof *fit->table, &ok);
    clone->plan.floor = copied(env, plan->floor, sizeof *plan->floor, &ok);
    clone->plan.points = copied(env, plan->points, plan->points_cap * sizeof *plan->points, &ok);
    clone->plan.order = copied(env, plan->order, plan->order_cap * sizeof *plan->order, &ok);
    if (!ok) {
        htc_fit_destroy(clone);
        return HTC_ENOMEM;
    }
    *out = clone;
    return HTC_OK;
}

/* ---- what happens ---- */

static int waits(const fit_slot *s)
{
    return s->started == HTC_NEVER;
}

/* Where a job that is about to wait stands in the queue. The policy may look at the fit: ask before anything is changed. */
static uint64_t queue_key(htc_fit *fit, const htc_fit_job *job, htc_ns submitted)
{
    htc_fit_info info = {
        .job = *job, .submitted = submitted, .started = HTC_NEVER, .ends = HTC_NEVER, .state = HTC_FIT_WAITING
    };
    if (!fit->policy.key)
        return UINT32_MAX - job->priority;
    *fit->asking = 1;
    uint64_t key = fit->policy.key(fit->policy.ctx, &info);
    *fit->asking = 0;
    return key;
}

/* It waits from now on; in a plan that holds its place is found at once, else when it is made again. */
static void enqueue(htc_fit *fit, htc_ns now, uint32_t at, uint64_t key)
{
    fit_slot *s = &fit->slots[at];
    s->started = s->reserved = HTC_NEVER;
    s->key = key;
    if (has_plan(fit) && htc__fit_plan_holds(fit, now))
        htc__fit_plan_add(fit, now, at);
    htc__fit_insert(fit->slots, &fit->waiting, at);
}

/* It runs no longer. */
static void release(htc_fit *fit, htc_ns now, uint32_t at)
{
    htc__fit_remove(fit->slots, &fit->running, at);
    assert(fit->busy >= fit->slots[at].job.nodes);
    fit->busy -= fit->slots[at].job.nodes;
    if (has_plan(fit))
        htc__fit_plan_moved(fit, fit->slots[at].key, now);
}

void htc__fit_run(htc_fit *fit, htc_ns now, uint32_t at)
{
    fit_slot *s = &fit->slots[at];
    htc__fit_remove(fit->slots, &fit->waiting, at);
    if (has_plan(fit) && s->reserved != now)
        fit->plan.broken = 1;
    s->started = now;
    s->reserved = HTC_NEVER;
    s->key = htc__fit_later(now, s->job.estimate);
    fit->busy += s->job.nodes;
    htc__fit_insert(fit->slots, &fit->running, at);
}

/* The slot of a job that is there, and about to change. */
static htc_status look_up(const htc_fit *fit, htc_ns now, uint64_t id, uint32_t *at)
{
    if (htc__fit_may_change(fit, now) != HTC_OK)
        return HTC_EINVAL;
    *at = htc__fit_slot_of(fit, id);
    return *at == FIT_NONE ? HTC_ENOTFOUND : HTC_OK;
}

static uint32_t jobs(const htc_fit *fit)
{
    return (fit->waiting == FIT_NONE ? 0 : fit->slots[fit->waiting].sum.count) + (fit->running == FIT_NONE ? 0 : fit->slots[fit->running].sum.count);
}

htc_status htc_fit_submit(htc_fit *fit, htc_ns now, const htc_fit_job *job)
{
    if (htc__fit_may_change(fit, now) != HTC_OK || !job || job->nodes == 0 || job->estimate == 0)
        return HTC_EINVAL;
    if (htc__fit_slot_of(fit, job->id) != FIT_NONE)
        return HTC_EEXISTS;
    if (jobs(fit) >= fit->jobs_max)
        return HTC_EFULL;
    htc_status status = reserve(fit);
    if (status != HTC_OK)
        return status;
    uint64_t key = queue_key(fit, job, now);
    uint32_t at = fit->unused;
    if (at != FIT_NONE)
        fit->unused = fit->slots[at].left;
    else
        at = fit->used++;
    /* Word by word: the caller has just written them so. */
    fit->sequence++;
    fit->slots[at] = (fit_slot){ .job = { .id = job->id, .estimate = job->estimate, .nodes = job->nodes, .priority = job->priority }, .sequence = fit->sequence,
                                 .submitted = now, .heap = htc__fit_heap(fit->sequence) };
    htc__fit_table_add(fit, at);
    enqueue(fit, now, at, key);
    fit->now = now;
    return HTC_OK;
}

htc_status htc_fit_start(htc_fit *fit, htc_ns now, uint64_t id)
{
    uint32_t   at;
    htc_status status = look_up(fit, now, id, &at);
    if (status != HTC_OK)
        return status;
    if (!waits(&fit->slots[at]))
        return HTC_EINVAL;
    if (fit->slots[at].job.nodes > htc__fit_free(fit))
        return HTC_AGAIN;
    htc__fit_run(fit, now, at);
    fit->now = now;
    return HTC_OK;
}

htc_status htc_fit_end(htc_fit *fit, htc_ns now, uint64_t id)
{
    uint32_t   at;
    htc_status status = look_up(fit, now, id, &at);
    if (status != HTC_OK)
        return status;
    if (!waits(&fit->slots[at])) {
        release(fit, now, at);
    } else {
        htc__fit_remove(fit->slots, &fit->waiting, at);
        fit->plan.loose |= fit->slots[at].reserved != HTC_NEVER;
    }
    table_remove(fit, id);
    fit->slots[at].left = fit->unused;
    fit->unused = at;
    fit->now = now;
    return HTC_OK;
}

htc_status htc_fit_requeue(htc_fit *fit, htc_ns now, uint64_t id)
{
    uint32_t   at;
    htc_status status = look_up(fit, now, id, &at);
    if (status != HTC_OK)
        return status;
    if (waits(&fit->slots[at]))
        return HTC_EINVAL;
    uint64_t key = queue_key(fit, &fit->slots[at].job, fit->slots[at].submitted);
    release(fit, now, at);
    enqueue(fit, now, at, key);
    fit->now = now;
    return HTC_OK;
}

static void change_running(htc_fit *fit, htc_ns now, uint32_t at, const htc_fit_job *job)
{
    fit_slot *s = &fit->slots[at];
    htc_ns    end = s->key;
    htc__fit_remove(fit->slots, &fit->running, at);
    s->job = *job;
    s->key = htc__fit_later(s->started, job->estimate);
    htc__fit_insert(fit->slots, &fit->running, at);
    if (has_plan(fit))
        htc__fit_plan_moved(fit, end, s->key);
    fit->plan.broken |= s->key < now; /* overdue all at once: no plan counts on that */
}

/* Less is no reason to move to a later start; more has no claim to the former one. */
static void change_waiting(htc_fit *fit, uint32_t at, const htc_fit_job *job)
{
    fit_slot   *s = &fit->slots[at];
    htc_fit_job old = s->job;
    uint64_t    key = queue_key(fit, job, s->submitted);
    htc__fit_remove(fit->slots, &fit->waiting, at);
    s->job = *job;
    s->key = key;
    if (has_plan(fit) && (job->nodes != old.nodes || job->estimate != old.estimate)) {
        fit->plan.loose = 1;
        if (job->nodes > old.nodes || job->estimate > old.estimate)
            s->reserved = HTC_NEVER;
    }
    htc__fit_insert(fit->slots, &fit->waiting, at);
}

htc_status htc_fit_change(htc_fit *fit, htc_ns now, const htc_fit_job *job)
{
    uint32_t   at;
    htc_status status = job && job->nodes > 0 && job->estimate > 0 ? look_up(fit, now, job->id, &at) : HTC_EINVAL;
    if (status != HTC_OK)
        return status;
    if (waits(&fit->slots[at]))
        change_waiting(fit, at, job);
    else if (job->nodes == fit->slots[at].job.nodes)
        change_running(fit, now, at, job);
    else
        return HTC_EINVAL;
    fit->now = now;
    return HTC_OK;
}

htc_status htc_fit_add_nodes(htc_fit *fit, htc_ns now, uint32_t nodes)
{
    if (htc__fit_may_change(fit, now) != HTC_OK || nodes > UINT32_MAX - fit->nodes)
        return HTC_EINVAL;
    fit->nodes += nodes;
    fit->plan.loose |= nodes > 0;
    fit->now = now;
    return HTC_OK;
}

htc_status htc_fit_remove_nodes(htc_fit *fit, htc_ns now, uint32_t nodes)
{
    if (htc__fit_may_change(fit, now) != HTC_OK || nodes > fit->nodes)
        return HTC_EINVAL;
    assert(fit->nodes >= nodes);
    fit->nodes -= nodes;
    fit->plan.broken |= nodes > 0;
    fit->now = now;
    return HTC_OK;
}

/* ---- what is there ---- */

void htc_fit_count(const htc_fit *fit, htc_fit_counts *out)
{
    if (!out)
        return;
    if (!fit) {
        *out = (htc_fit_counts){ 0 };
        return;
    }
    const fit_sum *waiting = fit->waiting == FIT_NONE ? NULL : &fit->slots[fit->waiting].sum;
    *out = (htc_fit_counts){ .waiting_nodes = waiting ? waiting->nodes : 0,
                             .busy = fit->busy,
                             .nodes = fit->nodes,
                             .free = htc__fit_free(fit),
                             .waiting = waiting ? waiting->count : 0,
                             .running = fit->running == FIT_NONE ? 0 : fit->slots[fit->running].sum.count,
                             .widest = waiting ? waiting->widest : 0 };
}

htc_status htc_fit_get(const htc_fit *fit, uint64_t id, htc_fit_info *out)
{
    if (!fit || !out)
        return HTC_EINVAL;
    uint32_t at = htc__fit_slot_of(fit, id);
    if (at == FIT_NONE)
        return HTC_ENOTFOUND;
    const fit_slot *s = &fit->slots[at];
    *out = (htc_fit_info){ .job = s->job,
                           .submitted = s->submitted,
                           .started = s->started,
                           .ends = waits(s) ? HTC_NEVER : s->key,
                           .state = waits(s) ? HTC_FIT_WAITING : HTC_FIT_RUNNING };
    return HTC_OK;
}

htc_status htc_fit_at(const htc_fit *fit, size_t i, htc_fit_job *out)
{
    if (!fit || !out)
        return HTC_EINVAL;
    uint32_t at = htc__fit_nth(fit->slots, fit->waiting, i);
    if (at == FIT_NONE)
        return HTC_ENOTFOUND;
    *out = fit->slots[at].job;
    return HTC_OK;
}
