/* What may start now: a promise is a rule about who may overtake whom, and a policy chooses among those that keep it.
 */
#include <stddef.h>

#include "core/util.h"
#include "sched/fit/fit_private.h"

static const htc_fit_policy fcfs = { .size = sizeof fcfs, .name = "fcfs", .promise = HTC_FIT_PROMISE_ORDER };
static const htc_fit_policy first_fit = { .size = sizeof first_fit, .name = "first_fit", .promise = HTC_FIT_PROMISE_NOTHING };
static const htc_fit_policy easy = { .size = sizeof easy, .name = "easy", .promise = HTC_FIT_PROMISE_HEAD };
static const htc_fit_policy conservative = { .size = sizeof conservative, .name = "conservative", .promise = HTC_FIT_PROMISE_ALL };

const htc__builtin htc__fit_builtin[] = {
    { HTC_REGISTRY_FIT, "conservative", &conservative },
    { HTC_REGISTRY_FIT, "easy", &easy },
    { HTC_REGISTRY_FIT, "fcfs", &fcfs },
    { HTC_REGISTRY_FIT, "first_fit", &first_fit },
    { 0, NULL, NULL },
};

htc_status htc__fit_policy_copy(htc_fit_policy *out, const htc_fit_policy *in)
{
    htc_fit_policy policy = easy;
    htc_status     status = htc__options_copy(&policy, sizeof policy, in, in ? in->size : 0, offsetof(htc_fit_policy, choose));
    if (status != HTC_OK)
        return status;
    if (policy.promise < HTC_FIT_PROMISE_NOTHING || policy.promise > HTC_FIT_PROMISE_ALL)
        return HTC_EINVAL;
    *out = policy;
    return HTC_OK;
}

/* ---- shadow time ---- */

/* Running jobs in order of their estimated ends, those that are overdue in front although they count as ending in a
 * second. What ends before that second is found without them, what ends from then on with them. */
void htc__fit_shadow(const htc_fit *fit, htc_ns now, uint32_t nodes, htc_ns *when, uint32_t *spare, uint32_t *job)
{
    const fit_slot *slots = fit->slots;
    htc_ns          late = htc__fit_later(now, HTC_FIT_OVERDUE_NS);
    int64_t         missing = (int64_t)nodes - ((int64_t)fit->nodes - (int64_t)fit->busy);
    uint64_t        overdue = 0, freed;
    *job = FIT_NONE;
    *when = now;
    *spare = missing <= 0 ? (uint32_t)-missing : 0;
    if (missing <= 0)
        return;
    if (now > 0)
        overdue = htc__fit_nodes_through(slots, fit->running, now - 1);
    *job = htc__fit_reaching(slots, fit->running, (uint64_t)missing + overdue);
    if (*job != FIT_NONE && slots[*job].key < late) {
        *when = slots[*job].key;
        freed = htc__fit_nodes_through(slots, fit->running, *when) - overdue;
    } else {
        if (overdue > 0)
            *job = htc__fit_reaching(slots, fit->running, (uint64_t)missing);
        *when = slots[*job].key > late ? slots[*job].key : late;
        freed = htc__fit_nodes_through(slots, fit->running, *when);
    }
    *spare = (uint32_t)((int64_t)freed - missing);
}

htc_status htc_fit_shadow(const htc_fit *fit, htc_ns now, uint32_t nodes, htc_ns *when, uint32_t *spare)
{
    uint32_t job;
    if (!when || !spare || htc__fit_check(fit, now) != HTC_OK)
        return HTC_EINVAL;
    if (nodes > fit->nodes)
        return HTC_ENOFIT;
    htc__fit_shadow(fit, now, nodes, when, spare, &job);
    return HTC_OK;
}

/* ---- who may start ---- */

uint32_t htc__fit_head(const htc_fit *fit)
{
    uint32_t at = fit->waiting;
    if (at != FIT_NONE && fit->slots[at].sum.widest <= fit->nodes) { /* nobody is set aside */
        while (fit->slots[at].left != FIT_NONE)
            at = fit->slots[at].left;
        return at;
    }
    return htc__fit_first(fit->slots, fit->waiting, FIT_NONE,
                          &(fit_bounds){ .nodes = fit->nodes, .spare = fit->nodes, .reserved = HTC_NEVER });
}

/* EASY: the head may start as soon as its nodes are free; another if it ends by the time the head is to start, or takes
 * nodes that the head will not need then. A job that does not say how long it runs does not end before any time. */
static fit_rule delay_no_head(const htc_fit *fit, htc_ns now, uint32_t head)
{
    fit_rule rule = { .first = head, .bounds = { .nodes = htc__fit_free(fit), .reserved = HTC_NEVER } };
    htc_ns   shadow;
    uint32_t job;
    if (rule.first == FIT_NONE)
        return rule;
    htc__fit_shadow(fit, now, fit->slots[rule.first].job.nodes, &shadow, &rule.bounds.spare, &job);
    rule.bounds.estimate = shadow == HTC_NEVER ? HTC_NEVER - 1 : shadow - now;
    return rule;
}

fit_rule htc__fit_rule(const htc_fit *fit, htc_ns now)
{
    uint32_t free_nodes = htc__fit_free(fit);
    fit_rule whatever_fits = { .first = FIT_NONE,
                               .bounds = { .nodes = free_nodes, .spare = free_nodes, .reserved = HTC_NEVER } };
    switch ((htc_fit_promise)fit->policy.promise) {
    case HTC_FIT_PROMISE_NOTHING:
        break;
    case HTC_FIT_PROMISE_ORDER:
        return (fit_rule){ .first = htc__fit_nth(fit->slots, fit->waiting, 0) };
    case HTC_FIT_PROMISE_HEAD:
        return delay_no_head(fit, now, htc__fit_head(fit));
    case HTC_FIT_PROMISE_ALL:
        whatever_fits.bounds.reserved = now;
    }
    return whatever_fits;
}

static int may_start(const htc_fit *fit, const fit_rule *rule, uint32_t at)
{
    const fit_slot *s = &fit->slots[at];
    return at == rule->first ? s->job.nodes <= htc__fit_free(fit)
                             : htc__fit_within(&s->job, s->reserved, &rule->bounds);
}

/* Nobody in front of the first is within bounds: those are set aside. */
static uint32_t candidate(const htc_fit *fit, const fit_rule *rule, uint32_t after)
{
    uint32_t first = rule->first;
    if (first != FIT_NONE && (after == FIT_NONE || htc__fit_before(fit->slots, after, first)) &&
        may_start(fit, rule, first))
        return first;
    return htc__fit_first(fit->slots, fit->waiting, after, &rule->bounds);
}

htc_status htc_fit_candidate(const htc_fit *fit, htc_ns now, const htc_fit_job *after, htc_fit_job *out)
{
    if (!out || htc__fit_check(fit, now) != HTC_OK)
        return HTC_EINVAL;
    fit_rule rule = htc__fit_rule(fit, now);
    uint32_t behind = after ? htc__fit_slot_of(fit, after->id) : FIT_NONE;
    if (behind != FIT_NONE && fit->slots[behind].started != HTC_NEVER)
        behind = FIT_NONE;
    uint32_t at = candidate(fit, &rule, behind);
    if (at == FIT_NONE)
        return HTC_AGAIN;
    *out = fit->slots[at].job;
    return HTC_OK;
}

/* What the policy chooses; the library sees to the promise. */
static htc_status choose(htc_fit *fit, htc_ns now, const fit_rule *rule, uint32_t *at)
{
    uint64_t id = 0;
    *fit->asking = 1;
    htc_status status = fit->policy.choose(fit->policy.ctx, fit, now, &id);
    *fit->asking = 0;
    if (status != HTC_OK)
        return status;
    *at = htc__fit_slot_of(fit, id);
    if (*at == FIT_NONE || fit->slots[*at].started != HTC_NEVER || !may_start(fit, rule, *at))
        return HTC_EINVAL;
    return HTC_OK;
}

/* What next starts, without looking at the running jobs if the queue alone decides. */
static uint32_t next_of(const htc_fit *fit, htc_ns now)
{
    uint32_t free_nodes = htc__fit_free(fit);
    if (fit->waiting == FIT_NONE || fit->slots[fit->waiting].sum.narrowest > free_nodes)
        return FIT_NONE;
    if (fit->policy.promise == HTC_FIT_PROMISE_HEAD) {
        uint32_t head = htc__fit_head(fit);
        if (head != FIT_NONE && fit->slots[head].job.nodes <= free_nodes)
            return head;
        fit_rule rule = delay_no_head(fit, now, head);
        return htc__fit_first(fit->slots, fit->waiting, FIT_NONE, &rule.bounds); /* the head is too wide now */
    }
    fit_rule rule = htc__fit_rule(fit, now);
    return candidate(fit, &rule, FIT_NONE);
}

htc_status htc_fit_next(htc_fit *fit, htc_ns now, htc_fit_job *job)
{
    uint32_t at;
    if (htc__fit_may_change(fit, now) != HTC_OK)
        return HTC_EINVAL;
    fit->now = now;
    if (fit->policy.promise == HTC_FIT_PROMISE_ALL)
        htc__fit_plan_refresh(fit, now);
    if (fit->policy.choose) {
        fit_rule   rule = htc__fit_rule(fit, now);
        htc_status status = choose(fit, now, &rule, &at);
        if (status != HTC_OK)
            return status;
    } else if ((at = next_of(fit, now)) == FIT_NONE) {
        return HTC_AGAIN;
    }
    htc__fit_run(fit, now, at);
    if (job)
        *job = fit->slots[at].job;
    return HTC_OK;
}

/* ---- by name ---- */

htc_status htc_fit_register(htc_registry *registry, const htc_fit_policy *policy)
{
    htc_fit_policy checked;
    htc_status     status = policy ? htc__fit_policy_copy(&checked, policy) : HTC_EINVAL;
    return status == HTC_OK ? htc_registry_add(registry, HTC_REGISTRY_FIT, checked.name, policy) : status;
}

htc_status htc_fit_find(const htc_registry *registry, const char *name, const htc_fit_policy **policy)
{
    const void *entry;
    htc_status  status = policy ? htc_registry_find(registry, HTC_REGISTRY_FIT, name, &entry) : HTC_EINVAL;
    if (status == HTC_OK)
        *policy = entry;
    return status;
}
