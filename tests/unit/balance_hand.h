/* What every test of balance.h begins with: options, a policy by its name, a machine. */
#ifndef HTC_TESTS_BALANCE_HAND_H
#define HTC_TESTS_BALANCE_HAND_H

#include "expect.h"

#include "htcsched/balance.h"

static inline htc_balance_options options_of(uint32_t partitions, uint32_t own)
{
    htc_balance_options o = HTC_BALANCE_OPTIONS_INIT;
    o.partitions = partitions;
    o.own = own;
    return o;
}

static inline const htc_balance_policy *policy_called(const char *name)
{
    htc_registry             *r;
    const htc_balance_policy *policy = NULL;
    cr_assert(htc_registry_create(NULL, &r) == HTC_OK && htc_registry_add_builtin(r) == HTC_OK);
    cr_assert(htc_balance_find(r, name, &policy) == HTC_OK);
    htc_registry_destroy(r);
    return policy;
}

static inline htc_balance *open_balance(const htc_balance_options *o)
{
    htc_balance *b = NULL;
    cr_assert(htc_balance_create(NULL, o, &b) == HTC_OK);
    return b;
}

/* Through the monitor, which looks at so many partitions and publishes. */
static inline void give_census(htc_balance *b, const uint32_t *free, uint32_t n)
{
    htc_balance_monitor *m;
    htc_balance_action   a;
    htc_balance_answer   answer = HTC_BALANCE_ANSWER_INIT;
    htc_rng              rng = { 3 };
    cr_assert(htc_balance_monitor_create(NULL, n, 0, &m) == HTC_OK);
    do {
        cr_assert(htc_balance_monitor_step(m, 0, &answer, &a) == HTC_OK);
        if (a.kind == HTC_BALANCE_LOOK)
            answer.free = free[a.partition];
    } while (a.kind == HTC_BALANCE_LOOK);
    cr_assert(a.kind == HTC_BALANCE_PUBLISH);
    cr_assert(htc_balance_pull(b, 0, &rng, a.body) == HTC_OK);
    htc_balance_monitor_destroy(m);
}

#endif
