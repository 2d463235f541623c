/* What weights are made of: the weighers of the library, one of our own, past usage and profiles. */
#include "expect.h"
#include <float.h>
#include <math.h>
#include <string.h>

#include "alloc_fail.h"
#include "htcsched/allot.h"
#include "property.h"

static htc_registry *with_builtin(void)
{
    htc_registry *r;
    cr_assert(eq(int, htc_registry_create(NULL, &r), HTC_OK));
    cr_assert(eq(int, htc_registry_add_builtin(r), HTC_OK));
    return r;
}

static const htc_allot_weigher *found(const htc_registry *r, const char *name)
{
    const htc_allot_weigher *w = NULL;
    cr_assert(eq(int, htc_allot_find(r, name, &w), HTC_OK), "%s", name);
    return w;
}

/* Three users: 2, 8 and 32 tasks of 100, 400 and 25 s; 4000, 1000 and 0 slot-seconds used one half-life ago; the last
 * has priority 3. Medians: 8 tasks; 800 s of work; 1250 slot-seconds, of the two who used something. */
Test(allot_weigh, makes_weights_by_name)
{
    static const struct {
        const char *name;
        double      gamma, weight[3], typical;
    } table[] = {
        { "equal", 0, { 1, 1, 1 }, 0 },         { "priority", 0, { 1, 1, 3 }, 0 },
        { "tasks", 0, { 0.25, 1, 12 }, 8 },     { "tasks", -0.5, { 2, 1, 1.5 }, 8 },
        { "run-time", 0, { 2, 0.5, 3 }, 800 }, /* works 200, 3200, 800; gamma -0.5 */
        { "run-time", 1, { 0.25, 4, 3 }, 800 }, { "usage", 0, { 676 / 1024.0, 1552 / 1024.0, 6 }, 1250 }, /* as below */
    };
    const htc_ns    day = 24 * 3600 * HTC_SECOND;
    htc_allot_facts users[3] = {
        { .tasks = 2, .profile = { .count = 1, .mean_s = 100 }, .usage = { 4000, day } },
        { .priority = 1, .tasks = 8, .profile = { .count = 9, .mean_s = 400 }, .usage = { 1000, day } },
        { .priority = 3, .tasks = 32, .profile = { .count = 2, .mean_s = 25 } },
    };
    htc_registry *r = with_builtin();
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        htc_allot_weighing how = { .size = sizeof how, .now = 2 * day, .half_life_ns = day, .gamma = table[i].gamma };
        const htc_allot_weigher *w = found(r, table[i].name);
        uint64_t                 weights[3], one;
        double                   typical;
        cr_assert(eq(int, htc_allot_weigh(NULL, w, &how, users, 3, weights, &typical), HTC_OK));
        cr_expect(fabs(typical - table[i].typical) < 1e-9, "row %zu: typical %g", i, typical);
        for (int k = 0; k < 3; k++) {
            cr_expect(eq(u64, weights[k], htc_allot_weight(table[i].weight[k])), "row %zu, user %d", i, k);
            cr_expect(eq(int, htc_allot_weigh_one(w, &how, &users[k], typical, &one), HTC_OK));
            cr_expect(eq(u64, one, weights[k]), "row %zu, user %d", i, k);
        }
    }
    htc_registry_destroy(r);
}

/* By usage: 2000 and 500 count now, the median of those known is 1250; 2^(1 - 2000/1250) = 0.660 and 2^(1 - 500/1250)
 * = 1.516. */
Test(allot_weigh, who_used_less_weighs_more)
{
    const htc_ns    day = 24 * 3600 * HTC_SECOND;
    htc_allot_facts users[4] = {
        { .usage = { 4000, 0 } }, { .usage = { 1000, 0 } }, { .priority = 3 }, { .usage = { 1e30, 0 } }
    };
    htc_allot_weighing how = { .size = sizeof how, .now = day, .half_life_ns = day };
    htc_registry      *r = with_builtin();
    uint64_t           weights[4];
    cr_assert(eq(int, htc_allot_weigh(NULL, found(r, "usage"), &how, users, 3, weights, NULL), HTC_OK));
    cr_expect(eq(u64, weights[0], 676));
    cr_expect(eq(u64, weights[1], 1552));
    cr_expect(eq(u64, weights[2], 3 * 2048), "nothing used: twice the typical weight");
    cr_assert(eq(int, htc_allot_weigh(NULL, found(r, "usage"), &how, users, 4, weights, NULL), HTC_OK));
    cr_expect(eq(u64, weights[3], 128), "not below an eighth");
    how.now = 100 * day; /* all decay alike: as time goes by nothing changes */
    uint64_t later[4];
    cr_assert(eq(int, htc_allot_weigh(NULL, found(r, "usage"), &how, users, 4, later, NULL), HTC_OK));
    cr_expect(eq(int, memcmp(weights, later, sizeof later), 0));
    htc_registry_destroy(r);
}

/* The largest usage that htc_allot_usage_add counts to: two users with as much are equal, and their median is a number
 * that htc_allot_weigh_one takes. So for work in htc_allot_profiled. The smallest ones have a median too. */
Test(allot_weigh, the_median_of_the_largest_amounts_is_a_number)
{
    htc_registry            *r = with_builtin();
    const htc_allot_weigher *usage = found(r, "usage");
    const double             amounts[] = { DBL_MAX, DBL_TRUE_MIN };
    for (size_t i = 0; i < 2; i++) {
        htc_allot_facts users[2] = { { .usage = { amounts[i], 0 } }, { .usage = { amounts[i], 0 } } };
        double          typical, work[2] = { amounts[i], amounts[i] };
        uint64_t        weights[2], one, priority[2] = { 1, 1 };
        cr_assert(eq(int, htc_allot_weigh(NULL, usage, NULL, users, 2, weights, &typical), HTC_OK));
        cr_expect(typical == amounts[i]);
        cr_expect(weights[0] == 1024 && weights[1] == 1024, "as typical as can be");
        cr_expect(eq(int, htc_allot_weigh_one(usage, NULL, users, typical, &one), HTC_OK));
        cr_expect(eq(u64, one, 1024));
        cr_expect(eq(int, htc_allot_profiled(NULL, priority, work, 2, -1, weights), HTC_OK));
        cr_expect(weights[0] == 1024 && weights[1] == 1024);
    }
    htc_registry_destroy(r);
}

/* Against all pairs: the median has as many below it as above. */
Test(allot_weigh, the_median_is_in_the_middle)
{
    htc_registry            *r = with_builtin();
    const htc_allot_weigher *tasks = found(r, "tasks");
    PROPERTY(rng, 2000)
    {
        htc_allot_facts users[12] = { 0 };
        uint64_t        weights[12];
        double          typical, sum = 0;
        size_t          n = htc_rng_below(&rng, 12) + 1, wanted[2] = { (n - 1) / 2, n / 2 };
        for (size_t i = 0; i < n; i++)
            users[i].tasks = htc_rng_below(&rng, 20) + 1;
        HOLDS(htc_allot_weigh(NULL, tasks, NULL, users, n, weights, &typical) == HTC_OK);
        for (int k = 0; k < 2; k++)
            for (size_t i = 0; i < n; i++) {
                size_t before = 0; /* of equal ones those with lower indices */
                for (size_t j = 0; j < n; j++)
                    before += users[j].tasks < users[i].tasks || (users[j].tasks == users[i].tasks && j < i);
                sum += before == wanted[k] ? (double)users[i].tasks : 0;
            }
        HOLDS(typical == sum / 2);
    }
    htc_registry_destroy(r);
}

/* The specification's formula and "run-time" are one. */
Test(allot_weigh, run_time_is_the_profiled_weight)
{
    htc_registry            *r = with_builtin();
    const htc_allot_weigher *w = found(r, "run-time");
    PROPERTY(rng, 2000)
    {
        htc_allot_weighing how = { .size = sizeof how, .gamma = ((double)htc_rng_below(&rng, 201) - 100) / 100 };
        htc_allot_facts    users[12];
        uint64_t           priority[12], weights[12], expected[12];
        double             work[12];
        size_t             n = htc_rng_below(&rng, 13);
        if (how.gamma == 0)
            how.gamma = 1;
        for (size_t i = 0; i < n; i++) {
            users[i] = (htc_allot_facts){ .priority = htc_rng_below(&rng, 9) + 1,
                                          .tasks = htc_rng_below(&rng, 1000),
                                          .profile = { .count = htc_rng_below(&rng, 3),
                                                       .mean_s = (double)htc_rng_below(&rng, 5000) } };
            priority[i] = users[i].priority;
            work[i] = users[i].profile.count ? (double)users[i].tasks * users[i].profile.mean_s : 0;
        }
        HOLDS(htc_allot_weigh(NULL, w, &how, users, n, weights, NULL) == HTC_OK);
        HOLDS(htc_allot_profiled(NULL, priority, work, n, how.gamma, expected) == HTC_OK);
        for (size_t i = 0; i < n; i++)
            HOLDS(weights[i] == expected[i]);
    }
    htc_registry_destroy(r);
}

/* ---- fair-share: usage by shares ---- */

/* Shares 1 and 3, usage 100 and 300: both used what they were due. Then the first one alone uses 300 more. */
Test(allot_weigh, who_used_in_proportion_to_the_shares_weighs_what_they_say)
{
    htc_registry            *r = with_builtin();
    const htc_allot_weigher *w = found(r, "fair-share");
    htc_allot_facts          users[2] = { { .priority = 1, .usage = { 100, 0 } }, { .priority = 3, .usage = { 300, 0 } } };
    uint64_t                 weights[2];
    double                   typical;
    cr_assert(eq(int, htc_allot_weigh(NULL, w, NULL, users, 2, weights, &typical), HTC_OK));
    cr_expect(typical == 100);
    cr_expect(eq(u64, weights[0], 1024));
    cr_expect(eq(u64, weights[1], 3 * 1024));
    users[0].usage.slot_s = 400; /* 400 and 100 by shares, 250 the typical: 2^(1 - 1.6) and 3 * 2^(1 - 0.4) */
    cr_assert(eq(int, htc_allot_weigh(NULL, w, NULL, users, 2, weights, &typical), HTC_OK));
    cr_expect(typical == 250);
    cr_expect(eq(u64, weights[0], htc_allot_weight(exp2(-0.6))));
    cr_expect(eq(u64, weights[1], htc_allot_weight(3 * exp2(0.6))));
    users[0].usage.slot_s = 1e12;
    cr_assert(eq(int, htc_allot_weigh_one(w, NULL, users, 250, &weights[0]), HTC_OK));
    cr_expect(eq(u64, weights[0], 1024 / 8), "no less than an eighth of its shares");
    htc_registry_destroy(r);
}

static void shares_of(htc_rng *rng, htc_allot_facts *users, size_t n)
{
    for (size_t i = 0; i < n; i++)
        users[i] = (htc_allot_facts){ .priority = 1 + htc_rng_below(rng, 50), .usage = { (double)htc_rng_below(rng, 1000000), 0 } };
}

Test(allot_weigh, fair_shares_are_the_shares_while_nothing_was_used)
{
    htc_registry            *r = with_builtin();
    const htc_allot_weigher *w = found(r, "fair-share");
    PROPERTY (rng, 400) {
        htc_allot_facts users[8];
        uint64_t        weights[8];
        size_t          n = 1 + htc_rng_below(&rng, 8);
        shares_of(&rng, users, n);
        for (size_t i = 0; i < n; i++)
            users[i].usage.slot_s = 0;
        HOLDS(htc_allot_weigh(NULL, w, NULL, users, n, weights, NULL) == HTC_OK);
        for (size_t i = 0; i < n; i++)
            HOLDS(weights[i] == users[i].priority * HTC_ALLOT_WEIGHT_ONE);
    }
    htc_registry_destroy(r);
}

/* What is multiplied by one number for all: usage, shares, or what time takes from it. None changes who gets how much of the slots. */
Test(allot_weigh, fair_shares_do_not_know_the_unit)
{
    htc_registry            *r = with_builtin();
    const htc_allot_weigher *w = found(r, "fair-share");
    PROPERTY (rng, 400) {
        htc_allot_facts    users[8], other[8];
        htc_allot_weighing later = { .size = sizeof later, .now = 5 * HTC_SECOND, .half_life_ns = HTC_SECOND };
        uint64_t           weights[8], again[8];
        size_t             n = 1 + htc_rng_below(&rng, 8);
        shares_of(&rng, users, n);
        HOLDS(htc_allot_weigh(NULL, w, NULL, users, n, weights, NULL) == HTC_OK);
        for (size_t i = 0; i < n; i++) {
            other[i] = users[i];
            other[i].usage.slot_s *= 3;
        }
        HOLDS(htc_allot_weigh(NULL, w, NULL, other, n, again, NULL) == HTC_OK);
        for (size_t i = 0; i < n; i++)
            HOLDS(again[i] + 1 >= weights[i] && again[i] <= weights[i] + 1);
        HOLDS(htc_allot_weigh(NULL, w, &later, users, n, again, NULL) == HTC_OK);
        for (size_t i = 0; i < n; i++)
            HOLDS(again[i] + 1 >= weights[i] && again[i] <= weights[i] + 1);
        for (size_t i = 0; i < n; i++)
            users[i].priority *= 16;
        HOLDS(htc_allot_weigh(NULL, w, NULL, users, n, again, NULL) == HTC_OK);
        for (size_t i = 0; i < n; i++)
            HOLDS(again[i] + 16 >= 16 * weights[i] && again[i] <= 16 * weights[i] + 16);
    }
    htc_registry_destroy(r);
}

/* Two spans one after the other take as much as one of their length, and what is added in parts counts as it would at once. */
Test(allot_weigh, decay_composes)
{
    PROPERTY (rng, 2000) {
        htc_ns          half = 1 + htc_rng_below(&rng, 100 * HTC_SECOND), a = htc_rng_below(&rng, 3 * half), b = htc_rng_below(&rng, 3 * half);
        double          used = (double)(1 + htc_rng_below(&rng, 1000000)), more = (double)htc_rng_below(&rng, 1000000);
        htc_allot_usage once = { used, 0 }, twice = { used, 0 };
        HOLDS(htc_allot_usage_add(&twice, 0, a, half) == HTC_OK);
        HOLDS(fabs(htc_allot_usage_now(&twice, a + b, half) - htc_allot_usage_now(&once, a + b, half)) <= 1e-9 * used);
        HOLDS(htc_allot_usage_add(&twice, more, a + b, half) == HTC_OK);
        HOLDS(fabs(twice.slot_s - (htc_allot_usage_now(&once, a + b, half) + more)) <= 1e-9 * (used + more));
        HOLDS(fabs(htc_allot_usage_now(&once, half, half) - used / 2) <= 1e-9 * used);
    }
}

Test(allot_weigh, usage_halves_with_every_half_life)
{
    htc_allot_usage usage = { 0 };
    cr_expect(eq(int, htc_allot_usage_add(&usage, 800, 1000, 100), HTC_OK));
    cr_expect(htc_allot_usage_now(&usage, 1000, 100) == 800);
    cr_expect(htc_allot_usage_now(&usage, 1100, 100) == 400);
    cr_expect(htc_allot_usage_now(&usage, 1300, 100) == 100);
    cr_expect(htc_allot_usage_now(&usage, 500, 100) == 800, "a clock that went back");
    cr_expect(fabs(htc_allot_usage_now(&usage, 1000 + 7 * 24 * 3600 * HTC_SECOND, 0) - 400) < 1e-3, "seven days");
    cr_expect(eq(int, htc_allot_usage_add(&usage, 50, 1200, 100), HTC_OK));
    cr_expect(usage.slot_s == 250 && usage.at == 1200);
    cr_expect(eq(int, htc_allot_usage_add(&usage, 50, 900, 100), HTC_OK));
    cr_expect(usage.slot_s == 300 && usage.at == 1200);
    cr_expect(eq(int, htc_allot_usage_add(&usage, -1, 1300, 100), HTC_EINVAL));
    cr_expect(eq(int, htc_allot_usage_add(&usage, NAN, 1300, 100), HTC_EINVAL));
    cr_expect(eq(int, htc_allot_usage_add(&usage, INFINITY, 1300, 100), HTC_EINVAL));
    cr_expect(eq(int, htc_allot_usage_add(NULL, 1, 1300, 100), HTC_EINVAL));
    cr_expect(usage.slot_s == 300 && usage.at == 1200, "untouched on failure");
    cr_expect(eq(int, htc_allot_usage_add(&usage, 1.7e308, 1200, 100), HTC_OK));
    cr_expect(eq(int, htc_allot_usage_add(&usage, 1.7e308, 1200, 100), HTC_OK));
    cr_expect(isfinite(usage.slot_s));
    cr_expect(htc_allot_usage_now(&usage, HTC_NEVER, 1) == 0);
    cr_expect(htc_allot_usage_now(&(htc_allot_usage){ NAN, 0 }, 1, 1) == 0);
    cr_expect(htc_allot_usage_now(&(htc_allot_usage){ INFINITY, 0 }, HTC_NEVER, 1) == 0);
    cr_expect(htc_allot_usage_now(NULL, 1, 1) == 0);
}

/* 10, then 20: mean 10 + 0.2 * 10, variance 0.8 * (0 + 0.2 * 100). */
Test(allot_weigh, profile_follows_the_run_times)
{
    htc_allot_profile p = { 0 };
    cr_expect(eq(int, htc_allot_profile_add(&p, 10), HTC_OK));
    cr_expect(p.count == 1 && p.mean_s == 10 && p.variance == 0 && p.max_s == 10);
    cr_expect(eq(int, htc_allot_profile_add(&p, 20), HTC_OK));
    cr_expect(p.count == 2 && fabs(p.mean_s - 12) < 1e-12 && fabs(p.variance - 16) < 1e-12 && p.max_s == 20);
    cr_expect(eq(int, htc_allot_profile_add(&p, -1), HTC_EINVAL));
    cr_expect(eq(int, htc_allot_profile_add(&p, NAN), HTC_EINVAL));
    cr_expect(eq(int, htc_allot_profile_add(&p, INFINITY), HTC_EINVAL));
    cr_expect(eq(int, htc_allot_profile_add(NULL, 1), HTC_EINVAL));
    cr_expect(eq(u64, p.count, 2));
    cr_expect(eq(int, htc_allot_profile_add(&p, 1e300), HTC_OK));
    cr_expect(isfinite(p.mean_s) && isfinite(p.variance), "a square beyond all numbers");
}

/* ---- one of our own ---- */

static double by_parity(void *ctx, const htc_allot_facts *user, double amount, double typical,
                        const htc_allot_weighing *how)
{
    (void)amount, (void)typical, (void)how;
    return user->tasks % 2 ? *(const double *)ctx : NAN;
}

Test(allot_weigh, others_can_be_registered)
{
    static double                  odd = 2.5;
    static const htc_allot_weigher parity = { sizeof parity, "parity", &odd, NULL, by_parity };
    htc_registry                  *r = with_builtin();
    htc_allot_facts                users[2] = { { .tasks = 3 }, { .tasks = 4 } };
    uint64_t                       weights[2];
    cr_expect(eq(int, htc_allot_register(r, &parity), HTC_OK));
    cr_expect(eq(int, htc_allot_register(r, &parity), HTC_EEXISTS));
    cr_expect(found(r, "parity") == &parity);
    cr_expect(eq(int, htc_allot_weigh(NULL, &parity, NULL, users, 2, weights, NULL), HTC_OK));
    cr_expect(eq(u64, weights[0], 2560));
    cr_expect(eq(u64, weights[1], 1), "not a number");
    static const char *const names[] = { "equal", "fair-share", "parity", "priority", "run-time", "tasks", "usage" };
    for (size_t i = 0; i < 7; i++)
        cr_expect(eq(str, (char *)htc_registry_name(r, HTC_REGISTRY_WEIGHT, i), (char *)names[i]));
    htc_registry_destroy(r);
}

Test(allot_weigh, refuses_wrong_use)
{
    static double            odd = 1;
    const htc_allot_weigher  good = { sizeof good, "good", &odd, NULL, by_parity };
    htc_allot_weigher        bad = good;
    const htc_allot_weigher *w = &good;
    htc_registry            *r = with_builtin();
    htc_allot_facts          user = { .priority = (UINT64_C(1) << 32) + 1 };
    htc_allot_weighing       how;
    uint64_t                 weight = 77;
    double                   typical = 77;
    struct {
        htc_allot_weigher known;
        uint64_t          newer;
    } newer = { good, 1 };
    htc_allot_weighing_init(NULL);
    htc_allot_weighing_init(&how);
    newer.known.size = sizeof newer;
    cr_expect(eq(int, htc_allot_register(NULL, &good), HTC_EINVAL));
    cr_expect(eq(int, htc_allot_register(r, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_allot_register(r, &newer.known), HTC_EABI));
    bad.weight = NULL;
    cr_expect(eq(int, htc_allot_register(r, &bad), HTC_EINVAL));
    bad = good, bad.name = NULL;
    cr_expect(eq(int, htc_allot_register(r, &bad), HTC_EINVAL));
    bad = good, bad.size = 0;
    cr_expect(eq(int, htc_allot_register(r, &bad), HTC_EINVAL));
    cr_expect(eq(int, htc_allot_find(r, "none", &w), HTC_ENOTFOUND));
    cr_expect(eq(int, htc_allot_find(r, "equal", NULL), HTC_EINVAL));
    cr_expect(w == &good, "untouched on failure");
    cr_expect(eq(int, htc_allot_weigh(NULL, &good, NULL, &user, 1, &weight, &typical), HTC_EINVAL));
    cr_expect(eq(int, htc_allot_weigh_one(&good, NULL, &user, 1, &weight), HTC_EINVAL));
    user.priority = 1;
    cr_expect(eq(int, htc_allot_weigh_one(&good, NULL, &user, NAN, &weight), HTC_EINVAL));
    cr_expect(eq(int, htc_allot_weigh_one(&good, NULL, &user, -1, &weight), HTC_EINVAL));
    cr_expect(eq(int, htc_allot_weigh_one(&good, NULL, NULL, 1, &weight), HTC_EINVAL));
    cr_expect(eq(int, htc_allot_weigh_one(NULL, NULL, &user, 1, &weight), HTC_EINVAL));
    cr_expect(eq(int, htc_allot_weigh(NULL, NULL, NULL, &user, 1, &weight, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_allot_weigh(NULL, &good, NULL, NULL, 1, &weight, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_allot_weigh(NULL, &good, NULL, &user, 1, NULL, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_allot_weigh(NULL, &good, NULL, &user, HTC_ALLOT_USERS_MAX + 1, &weight, NULL), HTC_EINVAL));
    const double gammas[] = { 1.5, -1.5, NAN };
    for (size_t i = 0; i < 3; i++) {
        how.gamma = gammas[i];
        cr_expect(eq(int, htc_allot_weigh(NULL, &good, &how, &user, 1, &weight, NULL), HTC_EINVAL));
    }
    how = (htc_allot_weighing){ 0 };
    cr_expect(eq(int, htc_allot_weigh(NULL, &good, &how, &user, 1, &weight, NULL), HTC_EINVAL), "no size");
    cr_expect(weight == 77 && typical == 77, "untouched on failure");
    cr_expect(eq(int, htc_allot_weigh(NULL, &good, NULL, NULL, 0, NULL, &typical), HTC_OK));
    cr_expect(typical == 0);
    htc_registry_destroy(r);
}

static void weigh_without_memory(alloc_fail *f, const htc_allot_weigher *weigher)
{
    const htc_allot_facts users[2] = { { .tasks = 1 }, { .tasks = 1 } };
    htc_env               env = alloc_fail_env(f);
    uint64_t              weight[2] = { 77, 77 };
    double                typical = 77;
    cr_expect(
        eq(int, htc_allot_weigh(&env, weigher, NULL, users, 2, weight, &typical), f->refused ? HTC_ENOMEM : HTC_OK));
    cr_expect(weight[0] == (f->refused ? 77 : 1024) && weight[1] == weight[0]);
    cr_expect(f->refused ? typical > 76 : typical < 2, "%f", typical);
    cr_expect(f->live == 0 && f->wrong_sizes == 0);
}

Test(allot_weigh, needs_memory)
{
    htc_registry *r = with_builtin();
    ALLOC_FAIL_EVERY(f, 10)
    weigh_without_memory(&f, found(r, "tasks"));
    ALLOC_FAIL_ONCE(f, 10)
    weigh_without_memory(&f, found(r, "tasks"));
    htc_registry_destroy(r);
}
