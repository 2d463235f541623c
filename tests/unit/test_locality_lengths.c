/* est_task_length: exact means, and histograms held against the sorted list of all lengths. */
#include "expect.h"
#include <stdlib.h>
#include <string.h>

#include "alloc_fail.h"
#include "htcsched/locality.h"
#include "property.h"

static htc_locality_lengths *lengths_of(const htc_env *env, uint32_t estimator, uint64_t quantile)
{
    htc_locality_lengths_options o = HTC_LOCALITY_LENGTHS_OPTIONS_INIT;
    htc_locality_lengths        *l = NULL;
    o.estimator = estimator;
    o.quantile = quantile;
    cr_assert(eq(int, htc_locality_lengths_create(env, &o, &l), HTC_OK));
    return l;
}

Test(locality_lengths, the_mean_is_exact_and_of_the_kind_alone)
{
    htc_locality_lengths *l = lengths_of(NULL, HTC_LOCALITY_MEAN, 0);
    htc_ns                est = 0;
    cr_expect(eq(int, htc_locality_estimate(l, 5, NULL, &est), HTC_AGAIN));
    cr_expect(eq(u64, est, HTC_SECOND), "a kind never seen");
    cr_assert(eq(int, htc_locality_learn(l, 5, 1, 1), HTC_OK));
    cr_assert(eq(int, htc_locality_learn(l, 5, 2, 1), HTC_OK));
    cr_assert(eq(int, htc_locality_learn(l, 6, 1000, 3), HTC_OK));
    cr_expect(eq(int, htc_locality_estimate(l, 5, NULL, &est), HTC_OK));
    cr_expect(eq(u64, est, 2), "1.5, halves up");
    cr_assert(eq(int, htc_locality_learn(l, 5, 1, 1), HTC_OK));
    cr_expect(eq(int, htc_locality_estimate(l, 5, NULL, &est), HTC_OK));
    cr_expect(eq(u64, est, 1), "4 / 3");
    cr_expect(eq(int, htc_locality_estimate(l, 6, NULL, &est), HTC_OK));
    cr_expect(eq(u64, est, 1000));
    cr_expect(eq(u64, htc_locality_known(l, 5), 3));
    cr_expect(eq(u64, htc_locality_known(l, 7), 0));
    htc_locality_lengths_destroy(l);
}

/* The largest sum there can be: 2^64 - 1 tasks of 2^64 - 1 ns. */
Test(locality_lengths, counts_to_the_end_and_not_beyond)
{
    htc_locality_lengths *l = lengths_of(NULL, HTC_LOCALITY_QUANTILE, 0), *m = lengths_of(NULL, HTC_LOCALITY_MEAN, 0);
    htc_ns                est = 0;
    cr_assert(eq(int, htc_locality_learn(m, 1, UINT64_MAX, UINT64_MAX), HTC_OK));
    cr_expect(eq(int, htc_locality_learn(m, 1, 0, 1), HTC_EFULL));
    cr_expect(eq(int, htc_locality_estimate(m, 1, NULL, &est), HTC_OK));
    cr_expect(eq(u64, est, UINT64_MAX));
    cr_assert(eq(int, htc_locality_learn(l, 1, UINT64_MAX, UINT64_MAX), HTC_OK));
    cr_expect(eq(int, htc_locality_estimate(l, 1, NULL, &est), HTC_OK));
    cr_expect(est >= UINT64_MAX - UINT64_MAX / 64);
    htc_locality_lengths_destroy(l);
    htc_locality_lengths_destroy(m);
}

/* A law given by points, as from a trace's summary: half of the tasks run 30 s, a tenth under a second, the rest long.
 */
Test(locality_lengths, takes_a_law_point_by_point)
{
    const struct {
        htc_ns   length;
        uint64_t weight, hits;
    } law[] = { { HTC_SECOND / 2, 10, 0 }, { 30 * HTC_SECOND, 50, 0 }, { 200 * HTC_SECOND, 40, 0 } };
    const struct {
        uint64_t quantile, length_s;
    } rows[] = { { 100001, 30 }, { 500000, 30 }, { 600000, 30 }, { 600001, 200 }, { 1000000, 200 } };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        htc_locality_lengths *l = lengths_of(NULL, HTC_LOCALITY_QUANTILE, rows[r].quantile);
        htc_ns                est = 0;
        for (size_t i = 0; i < 3; i++)
            cr_assert(eq(int, htc_locality_learn(l, 0, law[i].length, law[i].weight), HTC_OK));
        cr_assert(eq(int, htc_locality_estimate(l, 0, NULL, &est), HTC_OK));
        cr_expect(eq(u64, (est + HTC_SECOND * rows[r].length_s / 64) / (HTC_SECOND * rows[r].length_s), 1),
                  "row %zu: %llu", r, (unsigned long long)est);
        htc_locality_lengths_destroy(l);
    }
    /* 100,000 draws: the share of each point within six standard deviations, at most 6 * sqrt(0.25 * 100,000) = 949. */
    htc_locality_lengths *l = lengths_of(NULL, HTC_LOCALITY_DISTRIBUTION, 0);
    htc_rng               rng = { 1 };
    uint64_t              hits[3] = { 0 };
    for (size_t i = 0; i < 3; i++)
        cr_assert(eq(int, htc_locality_learn(l, 0, law[i].length, law[i].weight), HTC_OK));
    for (int i = 0; i < 100000; i++) {
        htc_ns est = 0;
        cr_assert(eq(int, htc_locality_estimate(l, 0, &rng, &est), HTC_OK));
        hits[est < HTC_SECOND ? 0 : est < 100 * HTC_SECOND ? 1 : 2]++;
    }
    for (size_t i = 0; i < 3; i++)
        cr_expect(hits[i] > law[i].weight * 1000 - 950 && hits[i] < law[i].weight * 1000 + 950, "point %zu: %llu", i,
                  (unsigned long long)hits[i]);
    htc_locality_lengths_destroy(l);
}

static int ascending(const void *a, const void *b)
{
    htc_ns x = *(const htc_ns *)a, y = *(const htc_ns *)b;
    return x < y ? -1 : x > y;
}

#define TASKS 60
#define KINDS 5

/* Random kinds and lengths of any size: the mean is that of the list, the quantile within 1/64 of the list's. */
Test(locality_lengths, agrees_with_sorted_lists)
{
    PROPERTY(rng, 2000)
    {
        uint64_t              q = htc_rng_below(&rng, 1000000) + 1;
        htc_locality_lengths *quantile = lengths_of(NULL, HTC_LOCALITY_QUANTILE, q),
                             *mean = lengths_of(NULL, HTC_LOCALITY_MEAN, 0);
        htc_locality_lengths *drawn = lengths_of(NULL, HTC_LOCALITY_DISTRIBUTION, 0);
        htc_ns                list[KINDS][TASKS];
        size_t                n[KINDS] = { 0 };
        for (size_t i = 0; i < TASKS; i++) {
            size_t   k = htc_rng_below(&rng, KINDS);
            uint64_t times = htc_rng_below(&rng, 3) + 1, kind = k * UINT64_C(0x9e3779b97f4a7c15);
            htc_ns   length = htc_rng_next(&rng) >> htc_rng_below(&rng, 64) >> 6;
            if (n[k] + times > TASKS)
                continue;
            HOLDS(htc_locality_learn(quantile, kind, length, times) == HTC_OK);
            HOLDS(htc_locality_learn(mean, kind, length, times) == HTC_OK);
            HOLDS(htc_locality_learn(drawn, kind, length, times) == HTC_OK);
            while (times--)
                list[k][n[k]++] = length;
        }
        for (size_t k = 0; k < KINDS; k++) {
            uint64_t kind = k * UINT64_C(0x9e3779b97f4a7c15), sum = 0; /* 60 lengths below 2^58 */
            htc_ns   est = 0;
            int      near = 0;
            HOLDS(htc_locality_known(mean, kind) == n[k]);
            HOLDS(htc_locality_estimate(mean, kind, NULL, &est) == (n[k] ? HTC_OK : HTC_AGAIN));
            if (n[k] == 0)
                continue;
            qsort(list[k], n[k], sizeof **list, ascending);
            for (size_t i = 0; i < n[k]; i++)
                sum += list[k][i];
            HOLDS(est == (2 * sum + n[k]) / (2 * n[k]));
            HOLDS(htc_locality_estimate(quantile, kind, NULL, &est) == HTC_OK);
            htc_ns exact = list[k][(q * n[k] + 999999) / 1000000 - 1];
            HOLDS(est <= exact + exact / 64 && exact <= est + exact / 64);
            HOLDS(htc_locality_estimate(drawn, kind, &rng, &est) == HTC_OK);
            for (size_t i = 0; i < n[k]; i++)
                near |= (est > list[k][i] ? est - list[k][i] : list[k][i] - est) <= list[k][i] / 64;
            HOLDS(near);
        }
        htc_locality_lengths_destroy(quantile);
        htc_locality_lengths_destroy(mean);
        htc_locality_lengths_destroy(drawn);
    }
}

Test(locality_lengths, remembers_no_more_kinds_than_told)
{
    htc_locality_lengths_options o = HTC_LOCALITY_LENGTHS_OPTIONS_INIT;
    htc_locality_lengths        *l;
    o.kinds_max = 2;
    cr_assert(eq(int, htc_locality_lengths_create(NULL, &o, &l), HTC_OK));
    cr_expect(eq(int, htc_locality_learn(l, 9, 1, 1), HTC_OK));
    cr_expect(eq(int, htc_locality_learn(l, 3, 1, 1), HTC_OK));
    cr_expect(eq(int, htc_locality_learn(l, 5, 1, 1), HTC_EFULL));
    cr_expect(eq(int, htc_locality_learn(l, 3, 1, 1), HTC_OK));
    cr_expect(eq(u64, htc_locality_known(l, 5), 0));
    cr_expect(eq(u64, htc_locality_known(l, 3), 2));
    htc_locality_lengths_destroy(l);
}

Test(locality_lengths, refuses_wrong_use)
{
    const htc_locality_lengths_options wrong[] = {
        { .size = 0 },
        { .size = sizeof wrong[0], .estimator = 3 },
        { .size = sizeof wrong[0], .kinds_max = 65537 },
        { .size = sizeof wrong[0], .quantile = HTC_LOCALITY_ONE + 1 },
    };
    struct {
        htc_locality_lengths_options o;
        uint64_t                     newer;
    } longer = { HTC_LOCALITY_LENGTHS_OPTIONS_INIT, 1 };
    htc_locality_lengths *l = NULL;
    htc_ns                est = 77;
    longer.o.size = sizeof longer;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        cr_expect(eq(int, htc_locality_lengths_create(NULL, &wrong[i], &l), HTC_EINVAL), "row %zu", i);
    cr_expect(eq(int, htc_locality_lengths_create(NULL, &longer.o, &l), HTC_EABI));
    cr_expect(eq(int, htc_locality_lengths_create(NULL, NULL, NULL), HTC_EINVAL));
    cr_expect(l == NULL);
    l = lengths_of(NULL, HTC_LOCALITY_DISTRIBUTION, 0);
    cr_expect(eq(int, htc_locality_learn(NULL, 1, 1, 1), HTC_EINVAL));
    cr_expect(eq(int, htc_locality_learn(l, 1, 1, 0), HTC_EINVAL));
    cr_expect(eq(u64, htc_locality_known(l, 1), 0), "nothing was learned");
    cr_expect(eq(int, htc_locality_estimate(l, 1, NULL, &est), HTC_EINVAL), "a draw without a stream");
    cr_expect(eq(int, htc_locality_estimate(NULL, 1, NULL, &est), HTC_EINVAL));
    cr_expect(eq(u64, est, 77));
    cr_expect(eq(u64, htc_locality_known(NULL, 1), 0));
    htc_locality_lengths_options_init(NULL, 8);
    htc_locality_lengths_destroy(l);
    htc_locality_lengths_destroy(NULL);
}

/* Twenty kinds make the array grow three times; what was learned before a refusal is still known after it. */
static void scenario(alloc_fail *f)
{
    htc_env                      env = alloc_fail_env(f);
    htc_locality_lengths_options o = { .size = sizeof o, .estimator = HTC_LOCALITY_QUANTILE };
    htc_locality_lengths        *l = NULL;
    htc_ns                       est = 0;
    if (htc_locality_lengths_create(&env, &o, &l) == HTC_OK) {
        for (uint64_t k = 0; k < 20; k++) {
            size_t     refused = f->refused;
            htc_status status = htc_locality_learn(l, k * 7 % 20, k, 1);
            cr_expect(eq(int, status, f->refused > refused ? HTC_ENOMEM : HTC_OK));
            cr_expect(eq(u64, htc_locality_known(l, k * 7 % 20), status == HTC_OK));
            if (status != HTC_OK && f->once) {
                cr_expect(eq(int, htc_locality_learn(l, k * 7 % 20, k, 1), HTC_OK));
                status = HTC_OK;
            }
            cr_expect(eq(int, htc_locality_estimate(l, k * 7 % 20, NULL, &est), status == HTC_OK ? HTC_OK : HTC_AGAIN));
            cr_expect(status != HTC_OK || est == k);
        }
    } else
        cr_expect(f->refused && l == NULL);
    htc_locality_lengths_destroy(l);
    cr_expect(eq(sz, f->live, 0));
    cr_expect(eq(sz, f->wrong_sizes, 0));
}

Test(locality_lengths, stay_as_they_were_without_memory)
{
    ALLOC_FAIL_EVERY(f, 100)
    scenario(&f);
    ALLOC_FAIL_ONCE(f, 100)
    scenario(&f);
}
