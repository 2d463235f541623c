/* Why a job waits, and until when. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/util.h"
#include "sched/fit/fit_private.h"

/* ---- until when ---- */

/* The slot of a job that waits. */
static htc_status look_up_waiting(const htc_fit *fit, htc_ns now, uint64_t id, uint32_t *at)
{
    if (htc__fit_check(fit, now) != HTC_OK)
        return HTC_EINVAL;
    *at = htc__fit_slot_of(fit, id);
    if (*at == FIT_NONE)
        return HTC_ENOTFOUND;
    return fit->slots[*at].started == HTC_NEVER ? HTC_OK : HTC_EINVAL;
}

/* In imagination no job is overdue: each of them ends in a second. */
static void give_a_second(htc_fit *fit, htc_ns now)
{
    for (uint32_t at; (at = htc__fit_from(fit->slots, fit->running, 0)) != FIT_NONE && fit->slots[at].key < now;) {
        htc__fit_remove(fit->slots, &fit->running, at);
        fit->slots[at].key = htc__fit_later(now, HTC_FIT_OVERDUE_NS);
        htc__fit_insert(fit->slots, &fit->running, at);
    }
}

/* The jobs that end first end. HTC_AGAIN: none ever does. */
static htc_status go_on(htc_fit *fit, htc_ns *now)
{
    htc_status status = HTC_OK;
    uint32_t   at = htc__fit_from(fit->slots, fit->running, 0);
    if (at == FIT_NONE || fit->slots[at].key == HTC_NEVER)
        return HTC_AGAIN;
    *now = fit->slots[at].key;
    while (status == HTC_OK && at != FIT_NONE && fit->slots[at].key == *now) {
        status = htc_fit_end(fit, *now, fit->slots[at].job.id);
        at = htc__fit_from(fit->slots, fit->running, 0);
    }
    return status;
}

/* Goes on with a copy in which all jobs run as long as they say, until the job at `until` has started (FIT_NONE: all
 * that will). starts[slot] is told for each that starts. */
static htc_status imagine(htc_fit *copy, htc_ns now, uint32_t until, htc_ns *starts)
{
    htc_fit_job job;
    htc_status  status;
    give_a_second(copy, now);
    do {
        while ((status = htc_fit_next(copy, now, &job)) == HTC_OK) {
            uint32_t at = htc__fit_slot_of(copy, job.id);
            starts[at] = now;
            if (at == until)
                return HTC_OK;
        }
        if (status == HTC_AGAIN)
            status = go_on(copy, &now);
    } while (status == HTC_OK);
    return status == HTC_AGAIN ? HTC_OK : status;
}

/* Reserved starts that stand: told without imagining anything. */
static int has_promise(const htc_fit *fit, htc_ns now, uint32_t at, htc_ns *start)
{
    uint32_t spare, job;
    if (fit->policy.promise == HTC_FIT_PROMISE_ALL && htc__fit_plan_holds(fit, now)) {
        *start = fit->slots[at].reserved;
        return *start != HTC_NEVER;
    }
    if (fit->policy.promise == HTC_FIT_PROMISE_HEAD && at == htc__fit_head(fit)) {
        htc__fit_shadow(fit, now, fit->slots[at].job.nodes, start, &spare, &job);
        return *start != HTC_NEVER;
    }
    *start = HTC_NEVER;
    return 0;
}

/* The starts of all slots, in a copy; a plan is only made again there, not followed. To go on in imagination is to ask
 * the policy: if it is the policy who wants to know, that would never end. */
static htc_status foresee(const htc_fit *fit, htc_ns now, uint32_t until, htc_ns *starts)
{
    htc_fit *copy;
    if (*fit->asking && fit->policy.promise != HTC_FIT_PROMISE_ALL)
        return HTC_EINVAL;
    htc_status status = htc__fit_clone(fit, &copy);
    if (status != HTC_OK)
        return status;
    for (size_t i = 0; i < fit->cap; i++)
        starts[i] = HTC_NEVER;
    if (fit->policy.promise == HTC_FIT_PROMISE_ALL) {
        htc__fit_plan_refresh(copy, now);
        for (size_t i = 0; i < fit->cap; i++)
            starts[i] = copy->slots[i].reserved;
    } else {
        *fit->asking = 1; /* it is the copy that the policy is shown, but it may know this one */
        status = imagine(copy, now, until, starts);
        *fit->asking = 0;
    }
    htc_fit_destroy(copy);
    return status;
}

htc_status htc_fit_when(const htc_fit *fit, htc_ns now, uint64_t id, htc_ns *start, uint32_t *reserved)
{
    uint32_t   at;
    htc_ns     when;
    htc_status status = start ? look_up_waiting(fit, now, id, &at) : HTC_EINVAL;
    if (status != HTC_OK)
        return status;
    uint32_t promised = (uint32_t)has_promise(fit, now, at, &when);
    if (!promised) {
        htc_ns *starts = htc__alloc(fit->env, fit->cap * sizeof *starts);
        if (!starts)
            return HTC_ENOMEM;
        status = foresee(fit, now, at, starts);
        when = starts[at];
        promised = fit->policy.promise == HTC_FIT_PROMISE_ALL && when != HTC_NEVER;
        htc__free(fit->env, starts, fit->cap * sizeof *starts);
    }
    if (status != HTC_OK)
        return status;
    *start = when;
    if (reserved)
        *reserved = promised;
    return HTC_OK;
}

htc_status htc_fit_forecast(const htc_fit *fit, htc_ns now, htc_ns *starts, size_t n)
{
    if (htc__fit_check(fit, now) != HTC_OK || n != htc__fit_sum(fit->slots, fit->waiting).count || (n > 0 && !starts))
        return HTC_EINVAL;
    if (n == 0)
        return HTC_OK;
    htc_ns *all = htc__alloc(fit->env, fit->cap * sizeof *all);
    if (!all)
        return HTC_ENOMEM;
    htc_status status = foresee(fit, now, FIT_NONE, all);
    for (size_t i = 0; status == HTC_OK && i < n; i++)
        starts[i] = all[htc__fit_nth(fit->slots, fit->waiting, i)];
    htc__free(fit->env, all, fit->cap * sizeof *all);
    return status;
}

/* ---- why ---- */

/* Of those with reservations, the one that would lack nodes first if the job at started now. */
static uint32_t first_delayed(const htc_fit *fit, htc_ns now, uint32_t at)
{
    const fit_slot *slots = fit->slots;
    fit_bounds      bounds = { .nodes = UINT32_MAX, .spare = UINT32_MAX };
    uint32_t        found = FIT_NONE, some = FIT_NONE;
    bounds.reserved = htc__fit_plan_short(fit, now, slots[at].job.nodes);
    if (bounds.reserved == HTC_NEVER)
        return FIT_NONE;
    while ((found = htc__fit_first(slots, fit->waiting, found, &bounds)) != FIT_NONE) {
        if (found != at && slots[found].reserved == bounds.reserved)
            return found;
        some = found != at ? found : some;
    }
    return some;
}

/* The facts; without a sentence. */
static htc_fit_reason reason_of(const htc_fit *fit, htc_ns now, uint32_t at, uint32_t *blocker)
{
    const fit_slot *s = &fit->slots[at];
    fit_rule        rule = htc__fit_rule(fit, now);
    htc_fit_reason  r = { .free = htc__fit_free(fit), .before = htc__fit_rank(fit->slots, fit->waiting, at) };
    htc_ns          shadow;
    uint32_t        spare;
    has_promise(fit, now, at, &r.start);
    *blocker = FIT_NONE;
    if (s->job.nodes > fit->nodes) {
        r.why = HTC_FIT_WHY_TOO_WIDE;
    } else if (s->job.nodes > r.free) {
        r.why = HTC_FIT_WHY_NODES;
        htc__fit_shadow(fit, now, s->job.nodes, &shadow, &spare, blocker);
    } else if (at == rule.first || htc__fit_within(&s->job, s->reserved, &rule.bounds)) {
        r.why = HTC_FIT_WHY_NOTHING;
    } else if (fit->policy.promise == HTC_FIT_PROMISE_ORDER) {
        r.why = HTC_FIT_WHY_TURN;
        *blocker = rule.first;
    } else {
        r.why = HTC_FIT_WHY_DELAY;
        *blocker = fit->policy.promise == HTC_FIT_PROMISE_HEAD ? rule.first : first_delayed(fit, now, at);
    }
    if (*blocker != FIT_NONE) {
        r.blocker = fit->slots[*blocker].job.id;
        r.has_blocker = 1;
    }
    return r;
}

/* "2 d 03:04:05", in whole seconds, rounded up: nothing is to come sooner than said. */
static const char *duration(char *text, size_t size, htc_ns ns)
{
    uint64_t s = ns / HTC_SECOND + (ns % HTC_SECOND > 0);
    unsigned h = (unsigned)(s / 3600 % 24), m = (unsigned)(s / 60 % 60), sec = (unsigned)(s % 60);
    if (ns == HTC_NEVER)
        snprintf(text, size, "at no known time");
    else if (s >= 86400)
        snprintf(text, size, "in %" PRIu64 " d %02u:%02u:%02u", s / 86400, h, m, sec);
    else if (s > 0)
        snprintf(text, size, "in %02u:%02u:%02u", h, m, sec);
    else
        snprintf(text, size, "now");
    return text;
}

static const char *plural(uint64_t n)
{
    return n == 1 ? "" : "s";
}

static const char *is_or_are(uint64_t n)
{
    return n == 1 ? "is" : "are";
}

/* When the job that stands in the way ends or starts. */
static htc_ns until(const htc_fit *fit, htc_ns now, uint32_t blocker)
{
    const fit_slot *s = &fit->slots[blocker];
    htc_ns          when;
    if (s->started != HTC_NEVER)
        when = s->key < now ? htc__fit_later(now, HTC_FIT_OVERDUE_NS) : s->key;
    else
        has_promise(fit, now, blocker, &when);
    return when == HTC_NEVER ? HTC_NEVER : when - now;
}

static void put_sentence(const htc_fit *fit, htc_ns now, uint32_t at, uint32_t blocker, htc_fit_reason *r)
{
    char     wait[48], asks[64], free_nodes[48];
    uint32_t nodes = fit->slots[at].job.nodes;
    size_t   size = sizeof r->text;
    snprintf(asks, sizeof asks, "asks for %" PRIu32 " node%s", nodes, plural(nodes));
    snprintf(free_nodes, sizeof free_nodes, "%" PRIu32 " %s free", r->free, is_or_are(r->free));
    if (blocker != FIT_NONE)
        duration(wait, sizeof wait, until(fit, now, blocker));
    switch ((htc_fit_why)r->why) {
    case HTC_FIT_WHY_NOTHING:
        snprintf(r->text, size, "%s, %s: can start now", asks, free_nodes);
        break;
    case HTC_FIT_WHY_TOO_WIDE:
        snprintf(r->text, size, "%s, only %" PRIu32 " %s up: waits for more", asks, fit->nodes, is_or_are(fit->nodes));
        break;
    case HTC_FIT_WHY_NODES:
        if (blocker == FIT_NONE)
            snprintf(r->text, size, "%s, %s", asks, free_nodes);
        else
            snprintf(r->text, size, "%s, %s: enough when job %" PRIu64 " ends, expected %s", asks, free_nodes,
                     r->blocker, wait);
        break;
    case HTC_FIT_WHY_TURN:
        snprintf(r->text, size, "%s, %s: but job %" PRIu64 " goes first", asks, free_nodes, r->blocker);
        break;
    case HTC_FIT_WHY_DELAY:
        if (blocker == FIT_NONE)
            snprintf(r->text, size, "%s, %s: but it would delay a reserved start", asks, free_nodes);
        else
            snprintf(r->text, size, "%s, %s: but it would delay job %" PRIu64 ", which is to start %s", asks,
                     free_nodes, r->blocker, wait);
        break;
    }
    if (r->why != HTC_FIT_WHY_NOTHING && r->start != HTC_NEVER) {
        size_t used = strlen(r->text);
        snprintf(r->text + used, size - used, "; starts %s at the latest", duration(wait, sizeof wait, r->start - now));
    }
}

htc_status htc_fit_explain(const htc_fit *fit, htc_ns now, uint64_t id, htc_fit_reason *out)
{
    uint32_t   at, blocker;
    htc_status status = out ? look_up_waiting(fit, now, id, &at) : HTC_EINVAL;
    if (status != HTC_OK)
        return status;
    htc_fit_reason r = reason_of(fit, now, at, &blocker);
    put_sentence(fit, now, at, blocker, &r);
    *out = r;
    return HTC_OK;
}
