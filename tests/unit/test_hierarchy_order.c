/* Anytime estimation: bounds that only fall, never below the truth, and the same for every order as a slow count by hand. */
#include "expect.h"
#include <math.h>
#include <string.h>

#include "alloc_fail.h"
#include "htcsched/hierarchy.h"
#include "property.h"

#define VARIABLES 7
#define FUNCTIONS 8

typedef struct network {
    uint32_t              domains[VARIABLES], scopes[FUNCTIONS * VARIABLES];
    size_t                scope_sizes[FUNCTIONS];
    htc_hierarchy_product product;
} network;

static void network_draw(network *w, htc_rng *rng, size_t most)
{
    size_t n = htc_rng_below(rng, most) + 1, functions = htc_rng_below(rng, FUNCTIONS + 1), at = 0;
    for (size_t i = 0; i < n; i++)
        w->domains[i] = (uint32_t)htc_rng_below(rng, 4) + 1;
    for (size_t f = 0; f < functions; f++) {
        w->scope_sizes[f] = htc_rng_below(rng, n < 4 ? n + 1 : 4);
        for (size_t i = 0; i < w->scope_sizes[f]; i++)
            w->scopes[at++] = (uint32_t)htc_rng_below(rng, n);
    }
    w->product = (htc_hierarchy_product){ .size = sizeof w->product, .domains = w->domains, .variables = n, .scopes = w->scopes,
                                          .scope_sizes = w->scope_sizes, .functions = functions };
}

/* The functions themselves, as sets of variables: eliminating one replaces all that know it by one of all they know. */
static double cost_by_hand(const network *w, const uint32_t *order)
{
    uint32_t sets[FUNCTIONS + VARIABLES] = { 0 };
    size_t   n = w->product.functions, at = 0;
    double   cost = 0;
    for (size_t f = 0; f < n; f++)
        for (size_t i = 0; i < w->scope_sizes[f]; i++)
            sets[f] |= 1u << w->scopes[at++];
    for (size_t i = 0; i < w->product.variables; i++) {
        uint32_t all = 1u << order[i];
        double   table = 1;
        for (size_t f = 0; f < n; f++)
            if ((sets[f] >> order[i]) & 1) {
                all |= sets[f];
                sets[f] = 0;
            }
        for (size_t v = 0; v < w->product.variables; v++)
            if ((all >> v) & 1)
                table *= w->domains[v];
        cost += table;
        sets[n++] = all & ~(1u << order[i]);
    }
    return cost / 1000;
}

/* The cheapest of all orders. */
static double cheapest(const network *w, uint32_t *order, size_t fixed)
{
    double best = INFINITY;
    if (fixed == w->product.variables)
        return cost_by_hand(w, order);
    for (size_t i = fixed; i < w->product.variables; i++) {
        uint32_t swap = order[fixed];
        order[fixed] = order[i];
        order[i] = swap;
        best = fmin(best, cheapest(w, order, fixed + 1));
        order[i] = order[fixed];
        order[fixed] = swap;
    }
    return best;
}

static void is_order_of_all(const uint32_t *order, size_t n)
{
    uint32_t seen = 0;
    for (size_t i = 0; i < n; i++)
        seen |= 1u << order[i];
    HOLDS(seen == (1u << n) - 1);
}

/* Done means 11. Networks small enough to try all orders. */
Test(hierarchy_order, bounds_fall_and_never_below_the_exact_cost)
{
    size_t exact = 0, all = 0;
    PROPERTY (rng, 2000) {
        network              w;
        htc_hierarchy_order *o;
        uint32_t             order[VARIABLES] = { 0, 1, 2, 3, 4, 5, 6 };
        double               bound = INFINITY, told, now = 0;
        size_t               n;
        network_draw(&w, &rng, 5);
        HOLDS(htc_hierarchy_order_create(NULL, &w.product, &o) == HTC_OK);
        HOLDS(htc_hierarchy_order_best(o, &n, &told) != NULL && n == 0 && told == 0);
        double least = cheapest(&w, order, 0);
        for (int i = 0; i < 20; i++) {
            HOLDS(htc_hierarchy_order_improve(o, &rng, 1, &now) == HTC_OK);
            HOLDS(now <= bound && now >= least * (1 - 1e-12));
            bound = now;
            const uint32_t *best = htc_hierarchy_order_best(o, &n, &told);
            HOLDS(n == w.product.variables && told == now);
            is_order_of_all(best, n);
            HOLDS(fabs(cost_by_hand(&w, best) - now) <= 1e-12 * now);
        }
        exact += bound <= least * (1 + 1e-12);
        all++;
        htc_hierarchy_order_destroy(o);
    }
    /* Twenty attempts at up to five variables find the best order but rarely not. */
    cr_expect(exact * 10 >= all * 9, "%zu of %zu", exact, all);
}

/* By hand: a chain of ten binary variables costs 4 for each but the last, which costs 2; five ternary ones that all know each other cost
 * 3^5 + 3^4 + 3^3 + 3^2 + 3. */
Test(hierarchy_order, costs_are_those_of_the_paper)
{
    uint32_t             two[10] = { 2, 2, 2, 2, 2, 2, 2, 2, 2, 2 }, three[5] = { 3, 3, 3, 3, 3 }, pairs[18], clique[5] = { 0, 1, 2, 3, 4 };
    size_t               sizes[9], five = 5;
    htc_rng              rng = { 1 };
    htc_hierarchy_order *o;
    double               kflop;
    for (uint32_t i = 0; i < 9; i++) {
        pairs[2 * i] = i;
        pairs[2 * i + 1] = i + 1;
        sizes[i] = 2;
    }
    htc_hierarchy_product chain = { .size = sizeof chain, .domains = two, .variables = 10, .scopes = pairs, .scope_sizes = sizes,
                                    .functions = 9 };
    htc_hierarchy_product dense = { .size = sizeof dense, .domains = three, .variables = 5, .scopes = clique, .scope_sizes = &five,
                                    .functions = 1 };
    cr_assert(eq(int, htc_hierarchy_order_create(NULL, &chain, &o), HTC_OK));
    cr_assert(eq(int, htc_hierarchy_order_improve(o, &rng, 200, &kflop), HTC_OK));
    cr_expect(eq(dbl, kflop, 38 / 1000.0));
    htc_hierarchy_order_destroy(o);
    cr_assert(eq(int, htc_hierarchy_order_create(NULL, &dense, &o), HTC_OK));
    cr_assert(eq(int, htc_hierarchy_order_improve(o, &rng, 1, &kflop), HTC_OK));
    cr_expect(eq(dbl, kflop, 363 / 1000.0), "any order is the best");
    htc_hierarchy_order_destroy(o);
}

/* The state of a search is its best order: it goes along with a job, and what several CPUs found comes together. */
Test(hierarchy_order, a_search_goes_on_elsewhere)
{
    PROPERTY (rng, 500) {
        network              w;
        htc_hierarchy_order *here, *there;
        double               a, b, both;
        size_t               n;
        network_draw(&w, &rng, VARIABLES);
        HOLDS(htc_hierarchy_order_create(NULL, &w.product, &here) == HTC_OK);
        HOLDS(htc_hierarchy_order_create(NULL, &w.product, &there) == HTC_OK);
        htc_hierarchy_order_improve(here, &rng, 2, &a);
        htc_hierarchy_order_improve(there, &rng, 2, &b);
        const uint32_t *best = htc_hierarchy_order_best(here, &n, NULL);
        HOLDS(htc_hierarchy_order_learn(there, best, n, &both) == HTC_OK);
        HOLDS(both == fmin(a, b));
        htc_hierarchy_order_destroy(here);
        htc_hierarchy_order_destroy(there);
    }
}

/* Four thousand variables of the largest domains that all know each other: costs beyond all numbers, but an order. */
Test(hierarchy_order, survives_costs_beyond_all_numbers)
{
    enum { N = 300 };
    uint32_t              domains[N], scope[N];
    size_t                size = N, n;
    htc_hierarchy_order  *o;
    htc_rng               rng = { 1 };
    double                kflop;
    htc_hierarchy_product p = { .size = sizeof p, .domains = domains, .variables = N, .scopes = scope, .scope_sizes = &size,
                                .functions = 1 };
    for (uint32_t i = 0; i < N; i++) {
        domains[i] = UINT32_MAX;
        scope[i] = i;
    }
    cr_assert(eq(int, htc_hierarchy_order_create(NULL, &p, &o), HTC_OK));
    cr_assert(eq(int, htc_hierarchy_order_improve(o, &rng, 2, &kflop), HTC_OK));
    cr_expect(eq(dbl, kflop, HTC_HIERARCHY_KFLOP_MAX));
    cr_expect(htc_hierarchy_order_best(o, &n, NULL) != NULL);
    cr_expect(eq(sz, n, N));
    htc_hierarchy_order_destroy(o);
}

Test(hierarchy_order, refuses_wrong_use)
{
    uint32_t              domains[] = { 2, 3 }, scope[] = { 0, 1 }, bad_scope[] = { 0, 2 }, no_domain[] = { 2, 0 };
    uint32_t              orders[][2] = { { 0, 0 }, { 0, 2 }, { 1, 1 } }, fine[] = { 1, 0 };
    size_t                size = 2, large = 3;
    htc_hierarchy_product p = { .size = sizeof p, .domains = domains, .variables = 2, .scopes = scope, .scope_sizes = &size,
                                .functions = 1 };
    htc_hierarchy_product wrong[9];
    htc_hierarchy_order  *o = NULL;
    htc_rng               rng = { 1 };
    size_t                n;
    for (size_t i = 0; i < 9; i++)
        wrong[i] = p;
    wrong[0].size = 1;
    wrong[1].domains = NULL;
    wrong[2].domains = no_domain;
    wrong[3].variables = 0;
    wrong[4].variables = HTC_HIERARCHY_VARIABLES_MAX + 1;
    wrong[5].scopes = NULL;
    wrong[6].scopes = bad_scope;
    wrong[7].scope_sizes = NULL;
    wrong[8].scope_sizes = &large;
    for (size_t i = 0; i < 9; i++)
        cr_expect(eq(int, htc_hierarchy_order_create(NULL, &wrong[i], &o), HTC_EINVAL), "%zu", i);
    cr_expect(eq(int, htc_hierarchy_order_create(NULL, NULL, &o), HTC_EINVAL));
    cr_expect(eq(int, htc_hierarchy_order_create(NULL, &p, NULL), HTC_EINVAL));
    cr_assert(eq(int, htc_hierarchy_order_create(NULL, &p, &o), HTC_OK));
    for (size_t i = 0; i < 3; i++)
        cr_expect(eq(int, htc_hierarchy_order_learn(o, orders[i], 2, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_hierarchy_order_learn(o, fine, 1, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_hierarchy_order_learn(o, NULL, 2, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_hierarchy_order_learn(o, fine, 2, NULL), HTC_OK));
    cr_expect(eq(int, htc_hierarchy_order_improve(o, NULL, 1, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_hierarchy_order_improve(NULL, &rng, 1, NULL), HTC_EINVAL));
    cr_expect(htc_hierarchy_order_best(NULL, &n, NULL) == NULL);
    cr_expect(htc_hierarchy_order_best(o, NULL, NULL) == NULL);
    htc_hierarchy_order_destroy(o);
    htc_hierarchy_order_destroy(NULL);
}

/* The model of 3.7: rho above the truth at first, half of that each 4 s, slower for the large. */
Test(hierarchy_order, a_modelled_estimator_halves_its_error)
{
    cr_expect(eq(dbl, htc_hierarchy_synthetic(10, 1, 16, 0), 160));
    cr_expect(eq(dbl, htc_hierarchy_synthetic(10, 1, 16, 4), 80));
    cr_expect(eq(dbl, htc_hierarchy_synthetic(10, 1, 16, 16), 10));
    cr_expect(eq(dbl, htc_hierarchy_synthetic(10, 1, 16, 1000), 10), "never below the truth");
    cr_expect(eq(dbl, htc_hierarchy_synthetic(960e6, 1e6, 16, 8), 8 * 960e6), "960 CPU-s: h is 8 s");
    static const double bad[] = { 0, -1, NAN };
    for (int i = 0; i < 3; i++) {
        cr_expect(eq(dbl, htc_hierarchy_synthetic(bad[i], 1, 16, 0), 0));
        cr_expect(eq(dbl, htc_hierarchy_synthetic(1, bad[i], 16, 0), 0));
        cr_expect(eq(dbl, htc_hierarchy_synthetic(1, 1, bad[i], 0), 0));
    }
    cr_expect(eq(dbl, htc_hierarchy_synthetic(1, 1, 16, -1), 0));
    cr_expect(eq(dbl, htc_hierarchy_synthetic(1, 1, 16, NAN), 0));
    cr_expect(eq(dbl, htc_hierarchy_synthetic(INFINITY, 1, 16, 0), 0));
}

Test(hierarchy_order, needs_memory_only_to_begin)
{
    uint32_t              domains[] = { 2, 3 }, scope[] = { 0, 1 };
    size_t                size = 2;
    htc_hierarchy_product p = { .size = sizeof p, .domains = domains, .variables = 2, .scopes = scope, .scope_sizes = &size,
                                .functions = 1 };
    for (int once = 0; once < 2; once++)
        for (alloc_fail f = { .once = once }; alloc_fail_next(&f, 20);) {
            htc_env              env = alloc_fail_env(&f);
            htc_hierarchy_order *o = NULL;
            htc_rng              rng = { 1 };
            htc_status           status = htc_hierarchy_order_create(&env, &p, &o);
            cr_expect(eq(int, status, f.refused ? HTC_ENOMEM : HTC_OK));
            cr_expect(eq(int, o == NULL, status != HTC_OK));
            if (o)
                cr_expect(eq(int, htc_hierarchy_order_improve(o, &rng, 3, NULL), HTC_OK));
            htc_hierarchy_order_destroy(o);
            cr_expect(eq(sz, f.live, 0));
            cr_expect(eq(sz, f.wrong_sizes, 0));
        }
}
