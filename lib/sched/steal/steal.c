/* Adaptive work stealing (MATRIX, Algorithm 2): the rules of number, and one thief's rounds. */
#include <stddef.h>
#include <string.h>

#include "core/util.h"
#include "sched/steal/steal_private.h"

#define POLL_NS     HTC_MS
#define POLL_NS_MAX (50 * HTC_SECOND)

/* thief->round; while the policy is being asked ASKING stands beside it. */
enum { NO_ROUND, ROUND, ROUND_NUDGED, ASKING = 4 };

static const char *const rule_names[] = { NULL, "one", "two", "log2", "sqrt", "half" };
#define RULES (sizeof rule_names / sizeof *rule_names)

uint32_t htc__steal_root(uint64_t n)
{
    uint64_t root = 0;
    for (uint64_t bit = UINT64_C(1) << 31; bit > 0; bit >>= 1)
        if ((root | bit) * (root | bit) <= n)
            root |= bit;
    return (uint32_t)root;
}

/* Rounded down; n > 0. */
static uint32_t logarithm(uint64_t n)
{
    uint32_t log = 0;
    while (n >>= 1)
        log++;
    return log;
}

uint32_t htc_steal_neighbours(uint32_t rule, uint32_t n)
{
    uint64_t k = 1, down;
    if (n < 2)
        return 0;
    switch (rule) {
    case HTC_STEAL_ONE:
        break;
    case HTC_STEAL_TWO:
        k = 2;
        break;
    case HTC_STEAL_LOG2: /* up from 2^(down + 1/2) on */
        down = logarithm(n);
        k = down + ((uint64_t)n * n > UINT64_C(2) << (2 * down));
        break;
    case HTC_STEAL_HALF:
        k = n / 2;
        break;
    default: /* up from (down + 1/2)^2 on */
        down = htc__steal_root(n);
        k = down + (n - down * down > down);
    }
    return (uint32_t)(k < n - 1 ? k : n - 1);
}

uint64_t htc_steal_amount(uint32_t rule, uint64_t waiting, uint64_t idle)
{
    uint64_t amount = 1, spare = waiting > idle ? waiting - idle : 0;
    if (spare == 0)
        return 0;
    switch (rule) {
    case HTC_STEAL_ONE:
        break;
    case HTC_STEAL_TWO:
        amount = 2;
        break;
    case HTC_STEAL_LOG2:
        amount = logarithm(waiting);
        break;
    case HTC_STEAL_SQRT:
        amount = htc__steal_root(waiting);
        break;
    default:
        amount = waiting / 2 + (idle == 0 && waiting % 2);
    }
    if (idle == 0 && amount == 0)
        amount = 1;
    return amount < spare ? amount : spare;
}

htc_status htc_steal_victim(const uint64_t *load, uint32_t n, uint32_t *victim)
{
    uint32_t best = 0;
    if (!victim || (n > 0 && !load))
        return HTC_EINVAL;
    for (uint32_t i = 1; i < n; i++)
        if (load[i] > load[best])
            best = i;
    if (n == 0 || load[best] == 0)
        return HTC_AGAIN;
    *victim = best;
    return HTC_OK;
}

htc_status htc_steal_rule_from_name(const char *name, uint32_t *rule)
{
    if (!name || !rule)
        return HTC_EINVAL;
    for (uint32_t i = 1; i < RULES; i++)
        if (strcmp(name, rule_names[i]) == 0) {
            *rule = i;
            return HTC_OK;
        }
    return HTC_ENOTFOUND;
}

/* Of the tasks at places a and b, does b go first? */
static int goes_later(const uint64_t *bytes, uint32_t a, uint32_t b)
{
    return bytes[a] != bytes[b] ? bytes[a] > bytes[b] : a > b;
}

/* The one that goes last is at the top. */
static void sink(const uint64_t *bytes, uint32_t *heap, size_t n, size_t at)
{
    for (size_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && goes_later(bytes, heap[child + 1], heap[child]))
            child++;
        if (!goes_later(bytes, heap[child], heap[at]))
            return;
        uint32_t swap = heap[at];
        heap[at] = heap[child];
        heap[child] = swap;
    }
}

htc_status htc_steal_least(const uint64_t *bytes, size_t n, size_t amount, uint32_t *out)
{
    if (amount > n || n > UINT32_MAX || (n > 0 && !bytes) || (amount > 0 && !out))
        return HTC_EINVAL;
    if (amount == 0)
        return HTC_OK;
    for (size_t i = 0; i < amount; i++)
        out[i] = (uint32_t)i;
    for (size_t i = amount / 2; i > 0; i--)
        sink(bytes, out, amount, i - 1);
    for (size_t i = amount; i < n; i++)
        if (bytes[i] < bytes[out[0]]) {
            out[0] = (uint32_t)i;
            sink(bytes, out, amount, 0);
        }
    for (size_t left = amount; left > 1; left--) {
        uint32_t last = out[0];
        out[0] = out[left - 1];
        out[left - 1] = last;
        sink(bytes, out, left - 1, 0);
    }
    return HTC_OK;
}

void htc_steal_options_init(htc_steal_options *options, size_t size)
{
    htc__options_init(options, size);
}

htc_status htc__steal_policy_copy(const htc_steal_policy *in, htc_steal_policy *out)
{
    *out = (htc_steal_policy){ .size = 0 };
    htc_status status = htc__options_copy(out, sizeof *out, in, in->size, offsetof(htc_steal_policy, settled));
    return status == HTC_OK && !out->choose ? HTC_EINVAL : status;
}

/* Defaults filled in and checked; the policy as this version knows it. */
static htc_status settings(const htc_steal_options *in, htc_steal_options *out, htc_steal_policy *policy)
{
    *out = (htc_steal_options)HTC_STEAL_OPTIONS_INIT;
    htc_status status = htc__options_copy(out, sizeof *out, in, in ? in->size : 0, sizeof in->size);
    if (status != HTC_OK)
        return status;
    out->size = sizeof *out;
    if (!out->policy)
        out->policy = &htc__steal_by_default;
    if (out->poll_ns == 0)
        out->poll_ns = POLL_NS;
    if (out->poll_ns_max == 0)
        out->poll_ns_max = POLL_NS_MAX;
    if (out->degree == HTC_STEAL_BY_DEFAULT)
        out->degree = HTC_STEAL_SQRT;
    if (out->amount == HTC_STEAL_BY_DEFAULT)
        out->amount = HTC_STEAL_HALF;
    if (out->at_ceiling > HTC_STEAL_GO_ON || out->degree >= RULES || out->amount >= RULES || out->shape.wrap > 1)
        return HTC_EINVAL;
    return htc__steal_policy_copy(out->policy, policy);
}

htc_status htc_steal_start(uint32_t n, uint32_t self, htc_ns now, htc_steal_thief *thief)
{
    if (!thief || self >= n)
        return HTC_EINVAL;
    *thief = (htc_steal_thief){ .due_ns = now, .n = n, .self = self };
    return HTC_OK;
}

htc_ns htc_steal_due(const htc_steal_thief *thief)
{
    return thief && thief->round == NO_ROUND ? thief->due_ns : HTC_NEVER;
}

static htc_steal_view view_of(const htc_steal_thief *thief, const htc_steal_options *o)
{
    return (htc_steal_view){ o, thief->n, thief->self, thief->failures };
}

/* A policy may be anybody's: what it answers is looked at before a question is sent to nobody. */
static int are_others(const htc_steal_thief *thief, uint32_t cap, const uint32_t *out, uint32_t count)
{
    if (count > cap)
        return 0;
    for (uint32_t i = 0; i < count; i++)
        if (out[i] >= thief->n || out[i] == thief->self)
            return 0;
    return 1;
}

htc_status htc_steal_ask(htc_steal_thief *thief, const htc_steal_options *options, htc_ns now, htc_rng *rng,
                         uint32_t cap, uint32_t *out, uint32_t *count)
{
    htc_steal_options o;
    htc_steal_policy  policy;
    uint32_t          n = 0;
    if (!thief || !rng || cap == 0 || !out || !count || thief->self >= thief->n || thief->round & ASKING)
        return HTC_EINVAL;
    htc_status status = settings(options, &o, &policy);
    if (status != HTC_OK)
        return status;
    if (thief->round != NO_ROUND || now < thief->due_ns || thief->due_ns == HTC_NEVER)
        return HTC_AGAIN;
    if (thief->n > 1) {
        htc_steal_view view = view_of(thief, &o);
        thief->round |= ASKING;
        status = policy.choose(policy.ctx, &view, rng, cap, out, &n);
        thief->round &= ~(uint32_t)ASKING;
        if (status < 0)
            return status;
        if (status != HTC_OK || !are_others(thief, cap, out, n)) /* HTC_AGAIN would be a rest, from which nobody wakes the thief */
            return HTC_EINVAL;
    }
    if (n == 0) {
        thief->due_ns = HTC_NEVER;
        return HTC_AGAIN;
    }
    thief->round = ROUND;
    *count = n;
    return HTC_OK;
}

htc_ns htc__steal_wait(const htc_steal_options *o, uint32_t failures)
{
    htc_ns wait = o->poll_ns;
    for (uint32_t i = 1; i < failures && wait <= o->poll_ns_max; i++)
        wait = wait > UINT64_MAX / 2 ? UINT64_MAX : wait * 2;
    if (wait <= o->poll_ns_max)
        return wait;
    return o->at_ceiling == HTC_STEAL_GO_ON ? o->poll_ns_max : HTC_NEVER;
}

/* Nobody, or another worker of the group. */
static int may_be_victim(const htc_steal_thief *thief, uint32_t victim, uint64_t got)
{
    return victim == HTC_STEAL_NOBODY ? got == 0 : victim < thief->n && victim != thief->self;
}

htc_status htc_steal_settle(htc_steal_thief *thief, const htc_steal_options *options, htc_ns now, uint32_t victim,
                            uint64_t got)
{
    htc_steal_options o;
    htc_steal_policy  policy;
    if (!thief || thief->round == NO_ROUND || thief->round & ASKING || !may_be_victim(thief, victim, got))
        return HTC_EINVAL;
    htc_status status = settings(options, &o, &policy);
    if (status != HTC_OK)
        return status;
    int    at_once = got > 0 || thief->round == ROUND_NUDGED;
    htc_ns wait = 0;
    if (at_once)
        thief->failures = 0;
    else if (thief->failures < UINT32_MAX)
        thief->failures++;
    htc_steal_view view = view_of(thief, &o);
    thief->round |= ASKING;
    if (policy.settled)
        policy.settled(policy.ctx, &view, victim, got);
    if (!at_once)
        wait = policy.wait ? policy.wait(policy.ctx, &view) : htc__steal_wait(&o, thief->failures);
    thief->due_ns = wait < HTC_NEVER - now ? now + wait : HTC_NEVER;
    thief->round = NO_ROUND;
    return HTC_OK;
}

void htc_steal_nudge(htc_steal_thief *thief, htc_ns now)
{
    if (!thief || thief->round & ASKING)
        return;
    if (thief->round != NO_ROUND) {
        thief->round = ROUND_NUDGED;
        return;
    }
    thief->failures = 0;
    thief->due_ns = now;
}

htc_status htc_steal_give(const htc_steal_options *options, uint64_t waiting, uint64_t idle, uint64_t *amount)
{
    htc_steal_options o;
    htc_steal_policy  policy;
    if (!amount)
        return HTC_EINVAL;
    htc_status status = settings(options, &o, &policy);
    if (status != HTC_OK)
        return status;
    uint64_t wanted =
        policy.amount ? policy.amount(policy.ctx, &o, waiting, idle) : htc_steal_amount(o.amount, waiting, idle);
    *amount = wanted < waiting ? wanted : waiting;
    return HTC_OK;
}
