/* What every test of balance.h begins with: options, a policy by its name, a machine. */
#ifndef HTC_TESTS_BALANCE_HAND_H
#define HTC_TESTS_BALANCE_HAND_H

#include <criterion/criterion.h>

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

#endif
