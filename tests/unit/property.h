/* A property over many random cases. A case that fails tells its seed, and the seed replays it alone:
 *
 *     Test(ring, agrees_with_the_model)
 *     {
 *         PROPERTY (rng, 2000) {                  2000 seeds; twenty times as many with HTC_TEST_FULL set, an eighth with
 *                                                 HTC_TEST_LIGHT (for a build that runs each ten times as slowly)
 *             size_t n = htc_rng_below(&rng, 40);
 *             HOLDS(htc_ring_members(ring) == n);
 *         }
 *     }
 *
 *     HTC_TEST_SEED=1234 build/tests/unit/test_ring --filter ring/agrees_with_the_model
 *
 * A case that crashes tells nothing: with HTC_TEST_TRACE set each seed is printed before its case. */
#ifndef HTC_TESTS_PROPERTY_H
#define HTC_TESTS_PROPERTY_H

#include "expect.h"
#include <stdio.h>
#include <stdlib.h>

#include "htcsched/env.h"

/* The seed of the case that runs. Criterion runs each test in a process of its own. */
static uint64_t property_seed;

static inline htc_rng property_case(uint64_t seed)
{
    property_seed = seed;
    if (getenv("HTC_TEST_TRACE"))
        fprintf(stderr, "property seed %llu\n", (unsigned long long)seed);
    return (htc_rng){ seed };
}

static inline uint64_t property_first(void)
{
    const char *one = getenv("HTC_TEST_SEED");
    return one ? strtoull(one, NULL, 10) : 1;
}

static inline uint64_t property_behind(uint64_t seeds, int light)
{
    if (getenv("HTC_TEST_SEED"))
        return property_first() + 1;
    return property_first() + (getenv("HTC_TEST_FULL") ? seeds * 20 : light && getenv("HTC_TEST_LIGHT") ? (seeds + 7) / 8 : seeds);
}

/* How many of some mistakes are put in: in the light form one. Which of them are noticed the other builds show, and one is enough to run each
 * path from a mistake to the test that sees it. */
static inline size_t mistakes_of(size_t all)
{
    return getenv("HTC_TEST_LIGHT") ? 1 : all;
}

/* Whether a rare thing has happened often enough to leave out the other seeds: in the light form once is. */
static inline int property_shown(int times)
{
    return times > 0 && getenv("HTC_TEST_LIGHT");
}

/* How often something has to happen over the seeds of a PROPERTY: in the light form, of an eighth of them, an eighth as often. */
static inline size_t property_times(size_t times)
{
    return getenv("HTC_TEST_LIGHT") ? times / 8 : times;
}

#define PROPERTY(rng, seeds)     PROPERTY_OF(rng, property_behind(seeds, 1))
/* Never fewer: what happened is counted over all of them. */
#define PROPERTY_ALL(rng, seeds) PROPERTY_OF(rng, property_behind(seeds, 0))
#define PROPERTY_OF(rng, behind)                                                                                       \
    for (uint64_t property_at = property_first(), property_end = behind; property_at < property_end; property_at++)    \
        for (htc_rng rng = property_case(property_at), *property_once = &rng; property_once; property_once = NULL)

/* What has to hold in this case. */
#define HOLDS(...)                                                                                                     \
    cr_assert(__VA_ARGS__, "seed %llu; HTC_TEST_SEED=%llu replays it", (unsigned long long)property_seed,              \
              (unsigned long long)property_seed)

#endif
