/* The rules of work stealing: each against its definition, and each trap that published implementations fell into. */
#include "expect.h"
#include <math.h>
#include <string.h>

#include "htcsched/steal.h"
#include "property.h"
#include "steal_choice.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* ---- neighbours at random: Algorithm 1 ---- */

/* Algorithm 1 promises every other worker the same chance. 60 000 draws of 3 from 10: each of the 9 expects 20 000; the
 * bound is six standard deviations. The seed is fixed, so this cannot flicker. */
Test(steal, pick_is_fair)
{
    uint32_t hits[10] = { 0 }, out[3];
    htc_rng  rng = { 1 };
    for (int i = 0; i < 60000; i++) {
        cr_assert(eq(int, htc_steal_pick(&rng, 10, 7, 3, out), HTC_OK));
        for (int j = 0; j < 3; j++)
            hits[out[j]]++;
    }
    cr_expect(eq(u32, hits[7], 0), "picked itself");
    for (uint32_t w = 0; w < 10; w++)
        cr_expect(w == 7 || (hits[w] > 19300 && hits[w] < 20700), "worker %u: %u draws", w, hits[w]);
}

/* Where the group is not much smaller than the 2^32 values of a random word, scaling these without throwing some away would make every
 * third worker of three quarters of them twice as likely: half of the draws. 60,000 draws, 20,000 expected; six standard deviations. */
Test(steal, pick_is_fair_in_the_largest_groups)
{
    uint32_t hits[3] = { 0 }, out;
    htc_rng  rng = { 4 };
    for (int i = 0; i < 60000; i++) {
        cr_assert(eq(int, htc_steal_pick(&rng, UINT32_C(3) << 30 | 1, UINT32_C(3) << 30, 1, &out), HTC_OK));
        hits[out % 3]++;
    }
    for (uint32_t w = 0; w < 3; w++)
        cr_expect(hits[w] > 19300 && hits[w] < 20700, "%u draws", hits[w]);
}

/* Order too: 12 ordered pairs of the 4 others, 10 000 each of 120 000; six standard deviations are 575. */
Test(steal, every_order_of_a_choice_is_as_likely)
{
    uint32_t hits[5][5] = { { 0 } }, out[2];
    htc_rng  rng = { 2 };
    for (int i = 0; i < 120000; i++) {
        htc_steal_pick(&rng, 5, 2, 2, out);
        hits[out[0]][out[1]]++;
    }
    for (uint32_t a = 0; a < 5; a++)
        for (uint32_t b = 0; b < 5; b++)
            if (a == b || a == 2 || b == 2)
                cr_expect(eq(u32, hits[a][b], 0));
            else
                cr_expect(hits[a][b] > 9425 && hits[a][b] < 10575, "%u, %u: %u", a, b, hits[a][b]);
}

/* How often each worker, each two that follow each other, and each worker as the first, is among k of m others. */
static void large_choice_is_fair(uint32_t m, uint32_t k, uint32_t draws)
{
    uint32_t *hits = calloc(m + 2, sizeof *hits), *both = calloc(m + 2, sizeof *both),
             *first = calloc(m + 2, sizeof *first);
    uint32_t *out = calloc(k, sizeof *out);
    char     *in = malloc(m + 2);
    htc_rng   rng = { 3 };
    cr_assert(hits && both && first && out && in);
    for (uint32_t i = 0; i < draws; i++) {
        cr_assert(eq(int, htc_steal_pick(&rng, m + 1, m, k, out), HTC_OK));
        memset(in, 0, m + 2);
        for (uint32_t j = 0; j < k; j++)
            in[out[j]] = 1;
        first[out[0]]++;
        for (uint32_t w = 0; w < m; w++) {
            hits[w] += (uint32_t)in[w];
            both[w] += in[w] && in[w + 1];
        }
    }
    double p[3] = { (double)k / m, (double)k * (k - 1) / ((double)m * (m - 1)), 1.0 / m };
    for (uint32_t w = 0; w < m; w++) {
        double seen[3] = { hits[w], both[w], first[w] };
        for (int what = 0; what < 3; what++)
            if (draws * p[what] > 50 && (what != 1 || w + 1 < m)) /* fewer are not normally distributed */
                cr_expect(fabs(seen[what] - draws * p[what]) < 6 * sqrt(draws * p[what] * (1 - p[what])),
                          "%u of %u, worker %u, %s: %g for %g", k, m, w,
                          what == 0   ? "chosen"
                          : what == 1 ? "with the next"
                                      : "first",
                          seen[what], draws * p[what]);
    }
    free(hits);
    free(both);
    free(first);
    free(out);
    free(in);
}

/* Few, many (by parts) and most of a group are drawn in three ways; each is as fair. */
Test(steal, large_choices_are_as_fair)
{
    large_choice_is_fair(64, 20, 20000);
    large_choice_is_fair(64, 26, 20000);
    large_choice_is_fair(64, 32, 20000);
    large_choice_is_fair(64, 50, 20000);
    large_choice_is_fair(1000, 300, 4000);
    large_choice_is_fair(12000, 5000, 400);
}

/* SplitMix64 counts: how many numbers were drawn between two states. */
static uint64_t draws_between(htc_rng before, htc_rng after)
{
    const uint64_t gamma = UINT64_C(0x9e3779b97f4a7c15);
    uint64_t       inverse = gamma;
    for (int i = 0; i < 6; i++)
        inverse *= 2 - gamma * inverse;
    return (after.state - before.state) * inverse;
}

/* Distinct, never oneself, and at a price that knows nothing of n: a published implementation cleared a bitmap of all
 * n. Each neighbour takes one draw for its place, one for its order, one for each level of parts, and what is rejected
 * (less than every second draw). */
Test(steal, picks_distinct_others_in_a_few_draws_each)
{
    uint32_t *out = malloc(6000 * sizeof *out);
    cr_assert(out != NULL);
    PROPERTY(rng, 3000)
    {
        uint32_t n = (uint32_t)htc_rng_below(&rng, UINT64_C(1) << (1 + htc_rng_below(&rng, 32)));
        n = n < 2 ? 2 : n;
        uint32_t most = n - 1 < 6000 ? n - 1 : 6000;
        uint32_t k = 1 + (uint32_t)htc_rng_below(&rng, htc_rng_below(&rng, 4) ? most < 60 ? most : 60 : most);
        uint32_t self = (uint32_t)htc_rng_below(&rng, n);
        htc_rng  before = rng;
        HOLDS(htc_steal_pick(&rng, n, self, k, out) == HTC_OK);
        HOLDS(draws_between(before, rng) <= 6 * (uint64_t)k + 20);
        HOLDS(are_distinct_others(out, k, n, self));
    }
    free(out);
}

/* A hundred thousand picks of two among four billion: a second if each cost a bitmap's clearing, at a gigabyte each. */
Test(steal, the_size_of_the_group_costs_nothing)
{
    htc_rng  rng = { 4 };
    uint32_t out[2];
    for (int i = 0; i < 100000; i++)
        cr_assert(eq(int, htc_steal_pick(&rng, UINT32_MAX, 5, 2, out), HTC_OK));
}

/* All thieves seeded with the time of day rob the same victim, in a published implementation. */
Test(steal, thieves_with_one_seed_rob_different_victims)
{
    char robbed[1000] = { 0 };
    for (uint32_t self = 0; self < 1000; self++) {
        htc_rng  rng = { 1234567890 };
        uint32_t whom;
        cr_assert(eq(int, htc_steal_pick(&rng, 1000, self, 1, &whom), HTC_OK));
        cr_expect(robbed[whom] == 0, "%u is robbed twice", whom);
        robbed[whom] = 1;
    }
}

/* ---- neighbours that stay ---- */

Test(steal, static_neighbours_are_the_nearest_numbers)
{
    static const struct {
        uint32_t n, self, k, out[5];
    } rows[] = {
        { 10, 4, 5, { 5, 3, 6, 2, 7 } },
        { 10, 0, 4, { 1, 9, 2, 8 } },
        { 10, 9, 3, { 0, 8, 1 } },
        { 5, 2, 4, { 3, 1, 4, 0 } },
        { 2, 0, 1, { 1 } },
        { 6, 0, 5, { 1, 5, 2, 4, 3 } },
        { UINT32_MAX, 0, 2, { 1, UINT32_MAX - 1 } },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        uint32_t out[5] = { 0 };
        cr_assert(eq(int, htc_steal_nearest(rows[i].n, rows[i].self, rows[i].k, out), HTC_OK));
        cr_expect(memcmp(out, rows[i].out, rows[i].k * sizeof *out) == 0, "row %zu", i);
    }
}

/* Figure 45: 13 hops on a 2-D mesh of 1024 cores are 364 neighbours; 5 hops on a 3-D one are 230 (the paper counts 84).
 */
Test(steal, a_large_mesh_has_as_many_neighbours_as_its_lattice)
{
    static const struct {
        htc_steal_shape shape;
        uint32_t        self, hops, count;
    } rows[] = {
        { { 32, 32, 0, 0 }, 16 * 32 + 16, 13, 364 },
        { { 32, 32, 1, 1 }, 0, 13, 364 },
        { { 11, 11, 11, 0 }, 5 * 133, 5, 230 },
        { { 11, 11, 11, 1 }, 0, 5, 230 },
        { { 32, 32, 0, 0 }, 0, 62, 1023 },
        { { 32, 32, 0, 0 }, 0, 1, 2 },
        { { 32, 32, 0, 0 }, 33, 1, 4 },
        { { 2, 2, 2, 1 }, 0, 1, 3 },
        { { 1, 1, 0, 0 }, 0, 9, 0 },
        { { 7, 1, 1, 0 }, 3, 2, 4 },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        uint32_t out[1400], count = 0, n = rows[i].shape.x * rows[i].shape.y * (rows[i].shape.z ? rows[i].shape.z : 1);
        cr_assert(eq(int, htc_steal_mesh(&rows[i].shape, n, rows[i].self, rows[i].hops, 1400, out, &count), HTC_OK));
        cr_expect(eq(u32, count, rows[i].count), "row %zu", i);
    }
}

/* The hops between two points, step by step over the coordinates. */
static uint32_t model_hops(const htc_steal_shape *s, uint32_t a, uint32_t b)
{
    uint32_t size[3] = { s->x, s->y, s->z ? s->z : 1 }, hops = 0;
    for (int i = 0; i < 3; i++) {
        uint32_t d = a % size[i] > b % size[i] ? a % size[i] - b % size[i] : b % size[i] - a % size[i];
        hops += s->wrap && size[i] - d < d ? size[i] - d : d;
        a /= size[i];
        b /= size[i];
    }
    return hops;
}

/* Against a look at every worker: the same ones, nearest first. */
Test(steal, a_mesh_agrees_with_a_look_at_everybody)
{
    PROPERTY(rng, 4000)
    {
        htc_steal_shape s = { .x = 1 + (uint32_t)htc_rng_below(&rng, 9),
                              .y = 1 + (uint32_t)htc_rng_below(&rng, 9),
                              .z = (uint32_t)htc_rng_below(&rng, 6),
                              .wrap = (uint32_t)htc_rng_below(&rng, 2) };
        uint32_t        points = s.x * s.y * (s.z ? s.z : 1), n = points - (uint32_t)htc_rng_below(&rng, points);
        uint32_t        self = (uint32_t)htc_rng_below(&rng, n), hops = 1 + (uint32_t)htc_rng_below(&rng, 20);
        uint32_t        cap = 1 + (uint32_t)htc_rng_below(&rng, 450), out[450], count, within = 0, d, last = 1;
        for (uint32_t w = 0; w < n; w++)
            within += w != self && model_hops(&s, self, w) <= hops;
        HOLDS(htc_steal_mesh(&s, n, self, hops, cap, out, &count) == HTC_OK);
        HOLDS(count == (within < cap ? within : cap));
        for (uint32_t i = 0; i < count; i++) {
            HOLDS(htc_steal_hops(&s, self, out[i], &d) == HTC_OK && d == model_hops(&s, self, out[i]));
            HOLDS(d >= last && d <= hops);
            last = d;
        }
        for (uint32_t w = 0, nearer = 0; w < n; w++) { /* no nearer one is left out */
            nearer += w != self && model_hops(&s, self, w) < last;
            HOLDS(nearer <= count);
        }
        HOLDS(are_distinct_others(out, count, n, self));
    }
}

/* ---- how many ---- */

Test(steal, neighbours_are_counted_by_rule)
{
    static const struct {
        uint32_t n, one, two, log2, sqrt, half;
    } rows[] = {
        { 0, 0, 0, 0, 0, 0 },
        { 1, 0, 0, 0, 0, 0 },
        { 2, 1, 1, 1, 1, 1 },
        { 3, 1, 2, 2, 2, 1 },
        { 6, 1, 2, 3, 2, 3 },
        { 7, 1, 2, 3, 3, 3 },
        { 256, 1, 2, 8, 16, 128 },
        { 1024, 1, 2, 10, 32, 512 },
        { 1048576, 1, 2, 20, 1024, 524288 },
        { UINT32_MAX, 1, 2, 32, 65536, UINT32_MAX / 2 },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        cr_expect(eq(u32, htc_steal_neighbours(HTC_STEAL_ONE, rows[i].n), rows[i].one));
        cr_expect(eq(u32, htc_steal_neighbours(HTC_STEAL_TWO, rows[i].n), rows[i].two));
        cr_expect(eq(u32, htc_steal_neighbours(HTC_STEAL_LOG2, rows[i].n), rows[i].log2));
        cr_expect(eq(u32, htc_steal_neighbours(HTC_STEAL_SQRT, rows[i].n), rows[i].sqrt));
        cr_expect(eq(u32, htc_steal_neighbours(HTC_STEAL_HALF, rows[i].n), rows[i].half));
        cr_expect(eq(u32, htc_steal_neighbours(HTC_STEAL_BY_DEFAULT, rows[i].n), rows[i].sqrt));
        cr_expect(eq(u32, htc_steal_neighbours(99, rows[i].n), rows[i].sqrt));
    }
}

Test(steal, roots_and_logarithms_round_to_the_nearest)
{
    PROPERTY(rng, 20000)
    {
        uint32_t n = (uint32_t)htc_rng_below(&rng, UINT64_C(1) << (2 + htc_rng_below(&rng, 31)));
        n = n < 4 ? 4 : n;
        HOLDS(htc_steal_neighbours(HTC_STEAL_SQRT, n) == (uint32_t)floor(sqrt((double)n) + 0.5));
        HOLDS(htc_steal_neighbours(HTC_STEAL_LOG2, n) == (uint32_t)floor(log2((double)n) + 0.5));
    }
}

/* ---- whom a worker with waiting tasks nudges ---- */

Test(steal, the_root_of_a_group_is_nudged_and_never_more_than_32)
{
    static const struct {
        uint32_t n, self, cap, count;
    } rows[] = {
        { 2, 1, 32, 1 },          { 3, 0, 32, 2 },
        { 10, 9, 32, 3 },         { 100, 50, 32, 10 },
        { 100, 50, 4, 4 },        { 992, 0, 32, 31 },
        { 993, 0, 32, 32 },       { 1057, 3, 40, 32 },
        { 1000000, 7, 1000, 32 }, { UINT32_MAX, UINT32_MAX - 1, 32, 32 },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        htc_rng  rng = { 9 + i };
        uint32_t out[1000] = { 0 }, count = 0;
        cr_assert(eq(int, htc_steal_whom_to_nudge(&rng, rows[i].n, rows[i].self, rows[i].cap, out, &count), HTC_OK));
        cr_expect(eq(u32, count, rows[i].count), "row %zu", i);
        cr_expect(are_distinct_others(out, count, rows[i].n, rows[i].self), "row %zu", i);
    }
}

Test(steal, nobody_is_nudged_by_a_worker_that_is_alone_or_not_of_the_group)
{
    htc_rng  rng = { 9 };
    uint32_t out[2] = { 77, 77 }, count = 5;
    cr_expect(eq(int, htc_steal_whom_to_nudge(&rng, 1, 0, 2, out, &count), HTC_AGAIN));
    cr_expect(eq(int, htc_steal_whom_to_nudge(&rng, 0, 0, 2, out, &count), HTC_EINVAL));
    cr_expect(eq(int, htc_steal_whom_to_nudge(&rng, 9, 9, 2, out, &count), HTC_EINVAL));
    cr_expect(eq(int, htc_steal_whom_to_nudge(&rng, 9, 0, 0, out, &count), HTC_EINVAL));
    cr_expect(eq(int, htc_steal_whom_to_nudge(NULL, 9, 0, 2, out, &count), HTC_EINVAL));
    cr_expect(eq(int, htc_steal_whom_to_nudge(&rng, 9, 0, 2, NULL, &count), HTC_EINVAL));
    cr_expect(eq(int, htc_steal_whom_to_nudge(&rng, 9, 0, 2, out, NULL), HTC_EINVAL));
    cr_expect(rng.state == 9 && out[0] == 77 && out[1] == 77 && count == 5);
}

/* Models and live workers come to the same neighbours from the same stream: those that a pick of that many draws. */
Test(steal, nudges_are_drawn_as_a_pick_is)
{
    PROPERTY(rng, 20000)
    {
        uint32_t n = 2 + (uint32_t)htc_rng_below(&rng, (UINT64_C(1) << (1 + htc_rng_below(&rng, 32))) - 1);
        uint32_t self, cap = 1 + (uint32_t)htc_rng_below(&rng, 40), out[41] = { 0 }, picked[40] = { 0 }, count = 0, k;
        n = n < 2 ? UINT32_MAX : n;
        self = (uint32_t)htc_rng_below(&rng, n);
        k = (uint32_t)fmin(fmin(floor(sqrt((double)n) + 0.5), n - 1), fmin(32, cap));
        htc_rng one = rng, two = rng;
        out[cap] = 4711;
        HOLDS(htc_steal_whom_to_nudge(&one, n, self, cap, out, &count) == HTC_OK && count == k && out[cap] == 4711);
        HOLDS(htc_steal_pick(&two, n, self, k, picked) == HTC_OK && memcmp(out, picked, k * sizeof *out) == 0 &&
              one.state == two.state);
        HOLDS(are_distinct_others(out, count, n, self));
    }
}

/* ---- how many tasks ---- */

/* Half of one is zero: a lone waiting task could never be stolen. Nor could it by the logarithm. A victim with an idle
 * slot is about to run it itself. */
Test(steal, a_lone_waiting_task_is_stolen_from_a_busy_victim)
{
    static const struct {
        uint64_t waiting, idle, one, two, log2, sqrt, half;
    } rows[] = {
        { 0, 0, 0, 0, 0, 0, 0 },
        { 1, 0, 1, 1, 1, 1, 1 },
        { 1, 1, 0, 0, 0, 0, 0 },
        { 2, 0, 1, 2, 1, 1, 1 },
        { 2, 1, 1, 1, 1, 1, 1 },
        { 3, 0, 1, 2, 1, 1, 2 },
        { 3, 1, 1, 2, 1, 1, 1 },
        { 3, 2, 1, 1, 1, 1, 1 },
        { 3, 3, 0, 0, 0, 0, 0 },
        { 3, 9, 0, 0, 0, 0, 0 },
        { 100, 0, 1, 2, 6, 10, 50 },
        { 101, 0, 1, 2, 6, 10, 51 },
        { 101, 1, 1, 2, 6, 10, 50 },
        { 1024, 0, 1, 2, 10, 32, 512 },
        { 100, 60, 1, 2, 6, 10, 40 },
        { UINT64_MAX, 0, 1, 2, 63, UINT32_MAX, UINT64_C(1) << 63 },
        { UINT64_MAX, UINT64_MAX, 0, 0, 0, 0, 0 },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        uint64_t w = rows[i].waiting, idle = rows[i].idle;
        cr_expect(eq(u64, htc_steal_amount(HTC_STEAL_ONE, w, idle), rows[i].one), "row %zu", i);
        cr_expect(eq(u64, htc_steal_amount(HTC_STEAL_TWO, w, idle), rows[i].two), "row %zu", i);
        cr_expect(eq(u64, htc_steal_amount(HTC_STEAL_LOG2, w, idle), rows[i].log2), "row %zu", i);
        cr_expect(eq(u64, htc_steal_amount(HTC_STEAL_SQRT, w, idle), rows[i].sqrt), "row %zu", i);
        cr_expect(eq(u64, htc_steal_amount(HTC_STEAL_HALF, w, idle), rows[i].half), "row %zu", i);
        cr_expect(eq(u64, htc_steal_amount(HTC_STEAL_BY_DEFAULT, w, idle), rows[i].half), "row %zu", i);
        cr_expect(eq(u64, htc_steal_amount(99, w, idle), rows[i].half), "row %zu", i);
    }
}

Test(steal, rules_have_names)
{
    static const char *const names[] = { "one", "two", "log2", "sqrt", "half" };
    uint32_t                 rule = 77;
    for (uint32_t i = 0; i < COUNT(names); i++) {
        cr_expect(eq(int, htc_steal_rule_from_name(names[i], &rule), HTC_OK));
        cr_expect(eq(u32, rule, HTC_STEAL_ONE + i));
    }
    rule = 77;
    cr_expect(eq(int, htc_steal_rule_from_name("", &rule), HTC_ENOTFOUND));
    cr_expect(eq(int, htc_steal_rule_from_name("Half", &rule), HTC_ENOTFOUND));
    cr_expect(eq(int, htc_steal_rule_from_name(NULL, &rule), HTC_EINVAL));
    cr_expect(eq(int, htc_steal_rule_from_name("half", NULL), HTC_EINVAL));
    cr_expect(eq(u32, rule, 77), "untouched on failure");
}

/* ---- who and which ---- */

Test(steal, the_most_loaded_is_robbed_and_of_equals_the_nearest)
{
    static const struct {
        uint64_t   load[5];
        uint32_t   n;
        htc_status status;
        uint32_t   victim;
    } rows[] = {
        { { 0 }, 0, HTC_AGAIN, 77 },         { { 0, 0, 0 }, 3, HTC_AGAIN, 77 },      { { 0, 0, 1 }, 3, HTC_OK, 2 },
        { { 4, 6, 6, 2, 6 }, 5, HTC_OK, 1 }, { { 3, UINT64_MAX, 5 }, 3, HTC_OK, 1 }, { { 9 }, 1, HTC_OK, 0 },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        uint32_t victim = 77;
        cr_expect(eq(int, htc_steal_victim(rows[i].load, rows[i].n, &victim), rows[i].status), "row %zu", i);
        cr_expect(eq(u32, victim, rows[i].victim), "row %zu", i);
    }
}

/* Against taking the smallest again and again. */
Test(steal, the_victim_gives_away_the_tasks_with_the_least_data)
{
    PROPERTY(rng, 3000)
    {
        uint64_t bytes[60];
        uint32_t out[60];
        size_t   n = htc_rng_below(&rng, 61), amount = htc_rng_below(&rng, n + 1);
        char     given[60] = { 0 };
        for (size_t i = 0; i < n; i++)
            bytes[i] = htc_rng_below(&rng, 20);
        HOLDS(htc_steal_least(bytes, n, amount, out) == HTC_OK);
        for (size_t i = 0; i < amount; i++) {
            size_t least = n;
            for (size_t t = 0; t < n; t++)
                if (!given[t] && (least == n || bytes[t] < bytes[least]))
                    least = t;
            HOLDS(out[i] == least);
            given[least] = 1;
        }
    }
}

/* ---- wrong use ---- */

Test(steal, refuses_wrong_use)
{
    htc_rng         rng = { 16 };
    uint32_t        out[8] = { 77 }, n = 77;
    uint64_t        load[2] = { 1, 2 }, amount = 77;
    htc_steal_shape plane = { 4, 4, 0, 0 };
    cr_expect(eq(int, htc_steal_pick(NULL, 4, 0, 1, out), HTC_EINVAL));
    cr_expect(eq(int, htc_steal_pick(&rng, 4, 0, 1, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_steal_pick(&rng, 4, 4, 1, out), HTC_EINVAL));
    cr_expect(eq(int, htc_steal_pick(&rng, 4, 0, 0, out), HTC_EINVAL));
    cr_expect(eq(int, htc_steal_pick(&rng, 4, 0, 4, out), HTC_EINVAL));
    cr_expect(eq(int, htc_steal_pick(&rng, 0, 0, 0, out), HTC_EINVAL));
    cr_expect(eq(int, htc_steal_nearest(4, 0, 1, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_steal_nearest(4, 4, 1, out), HTC_EINVAL));
    cr_expect(eq(int, htc_steal_nearest(4, 0, 4, out), HTC_EINVAL));
    cr_expect(eq(int, htc_steal_mesh(NULL, 16, 0, 1, 8, out, &n), HTC_EINVAL));
    cr_expect(eq(int, htc_steal_mesh(&plane, 17, 0, 1, 8, out, &n), HTC_EINVAL));
    cr_expect(eq(int, htc_steal_mesh(&plane, 16, 16, 1, 8, out, &n), HTC_EINVAL));
    cr_expect(eq(int, htc_steal_mesh(&plane, 16, 0, 0, 8, out, &n), HTC_EINVAL));
    cr_expect(eq(int, htc_steal_mesh(&plane, 16, 0, 1, 0, out, &n), HTC_EINVAL));
    cr_expect(eq(int, htc_steal_mesh(&plane, 16, 0, 1, 8, NULL, &n), HTC_EINVAL));
    cr_expect(eq(int, htc_steal_mesh(&plane, 16, 0, 1, 8, out, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_steal_hops(&plane, 0, 16, &n), HTC_EINVAL));
    cr_expect(eq(int, htc_steal_hops(&plane, 0, 15, NULL), HTC_EINVAL));
    const htc_steal_shape bad[] = { { 0, 4, 0, 0 },
                                    { 4, 0, 0, 0 },
                                    { 4, 4, 0, 2 },
                                    { 65536, 65536, 1, 0 },
                                    { UINT32_MAX, UINT32_MAX, UINT32_MAX, 0 } };
    for (size_t i = 0; i < COUNT(bad); i++) {
        cr_expect(eq(int, htc_steal_mesh(&bad[i], 4, 0, 1, 8, out, &n), HTC_EINVAL), "shape %zu", i);
        cr_expect(eq(int, htc_steal_hops(&bad[i], 0, 0, &n), HTC_EINVAL), "shape %zu", i);
    }
    cr_expect(eq(int, htc_steal_victim(NULL, 2, &n), HTC_EINVAL));
    cr_expect(eq(int, htc_steal_victim(load, 2, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_steal_least(load, 2, 3, out), HTC_EINVAL));
    cr_expect(eq(int, htc_steal_least(NULL, 2, 1, out), HTC_EINVAL));
    cr_expect(eq(int, htc_steal_least(load, 2, 1, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_steal_least(NULL, 0, 0, NULL), HTC_OK));
    cr_expect(eq(int, htc_steal_give(NULL, 2, 0, NULL), HTC_EINVAL));
    cr_expect(out[0] == 77 && n == 77 && amount == 77, "untouched on failure");
}
