/* What every test of fit.h begins with: seconds, a fit with a promise, a job. */
#ifndef HTC_TESTS_FIT_HAND_H
#define HTC_TESTS_FIT_HAND_H

#include "expect.h"

#include "htcsched/fit.h"

#define S HTC_SECOND

static inline htc_fit *fit_of(uint32_t promise, uint32_t nodes)
{
    htc_fit        *fit;
    htc_fit_policy  policy = { .size = sizeof policy, .promise = promise };
    htc_fit_options options = { .size = sizeof options, .policy = &policy, .nodes = nodes };
    cr_assert(eq(int, htc_fit_create(NULL, &options, &fit), HTC_OK));
    return fit;
}

static inline htc_fit_job job_of(uint64_t id, uint32_t nodes, htc_ns estimate)
{
    return (htc_fit_job){ .id = id, .nodes = nodes, .estimate = estimate };
}

#endif
