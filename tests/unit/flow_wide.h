/* Flows with more dependencies than tasks. */
#ifndef HTC_TESTS_FLOW_WIDE_H
#define HTC_TESTS_FLOW_WIDE_H

#include "htcsched/flow.h"
#include "property.h"

#define FLOW_WIDE_TASKS 40 /* at most */

static inline htc_flow *flow_empty(void)
{
    htc_flow *f = NULL;
    cr_assert(eq(int, htc_flow_create(NULL, NULL, &f), HTC_OK));
    return f;
}

static inline uint32_t flow_put(htc_flow *f, const char *name)
{
    htc_flow_task t = { .size = sizeof t, .name = name, .executable = "true" };
    uint32_t      id = UINT32_MAX;
    cr_assert(eq(int, htc_flow_add(f, &t, &id, NULL), HTC_OK));
    return id;
}

/* Few tasks and many dependencies, so that some have many in both directions. */
static inline htc_flow *flow_wide(htc_rng *rng)
{
    uint32_t  n = 2 + (uint32_t)htc_rng_below(rng, FLOW_WIDE_TASKS - 1), dense = 1 + (uint32_t)htc_rng_below(rng, 100), odd = (uint32_t)htc_rng_below(rng, 101);
    htc_flow *f = flow_empty();
    for (uint32_t i = 0; i < n; i++) {
        char name[32];
        snprintf(name, sizeof name, "%s-%u", htc_rng_below(rng, 2) ? "gather" : "scatter", (unsigned)(i + htc_rng_below(rng, 2) * n)); /* as inserted ones would like to be called */
        if (htc_flow_find(f, name, &(uint32_t){ 0 }) == HTC_OK)
            snprintf(name, sizeof name, "%u", (unsigned)i);
        (void)flow_put(f, name);
    }
    uint32_t rules[FLOW_WIDE_TASKS] = { 0 }; /* of the child before, by parent; 3: none */
    uint32_t alike = htc_rng_below(rng, 2) ? (uint32_t)htc_rng_below(rng, 101) : 0, before = 0;
    for (uint32_t child = 1; child < n; child++) {
        int as_before = before > 0 && htc_rng_below(rng, 100) < alike; /* as those of a layer wait for the layer before */
        before = as_before ? before : child;
        for (uint32_t parent = 0; parent < before; parent++) {
            uint32_t rule = htc_rng_below(rng, 100) >= dense ? 3 : htc_rng_below(rng, 100) < odd ? (uint32_t)htc_rng_below(rng, 3) : HTC_FLOW_OK;
            rules[parent] = as_before ? rules[parent] : rule;
            if (rules[parent] < 3)
                HOLDS(htc_flow_after(f, n - 1 - child, n - 1 - parent, rules[parent]) == HTC_OK);
        }
    }
    HOLDS(htc_flow_check(f, NULL) == HTC_OK);
    return f;
}

#endif
