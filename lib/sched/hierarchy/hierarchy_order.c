/* Two estimators: a modelled one for simulations, and the paper's own application, the order of variable elimination (section 4.2).
 *
 * Variables that share a function are neighbours. Eliminating one multiplies all functions that know it, which costs the product of its
 * domain and its neighbours' domains, and leaves a function of all neighbours: they are neighbours of each other from then on. */
#include <math.h>
#include <string.h>

#include "core/util.h"
#include "htcsched/hierarchy.h"

/* Of so many cheapest variables one is drawn. */
#define CHOICES 3

struct htc_hierarchy_order {
    const htc_env *env;
    size_t         n, words; /* words in a row of the matrices */
    double        *domains;
    uint64_t      *given; /* which variables are neighbours: a bit matrix, none its own */
    uint64_t      *now;   /* the same while variables go */
    double        *costs; /* of eliminating each next; below 0: it is gone */
    uint32_t      *best, *tried;
    double         best_cost; /* INFINITY: no order yet */
};

double htc_hierarchy_synthetic(double kflop, double kflops, double rho, double spent_s)
{
    if (!(kflop > 0 && kflop <= HTC_HIERARCHY_KFLOP_MAX && kflops > 0 && rho > 0 && rho <= 1e30 && spent_s >= 0))
        return 0;
    double h = 4 * pow(fmax(1, kflop / kflops / 60), 0.25);
    return kflop * fmax(1, rho * exp2(-spent_s / h));
}

/* ---- the graph ---- */

static uint64_t *row(const htc_hierarchy_order *o, uint64_t *matrix, size_t variable)
{
    return matrix + variable * o->words;
}

static void connect(const htc_hierarchy_order *o, size_t a, size_t b)
{
    if (a != b)
        row(o, o->given, a)[b / 64] |= UINT64_C(1) << b % 64;
}

static double cost_of(const htc_hierarchy_order *o, size_t variable)
{
    double          cost = o->domains[variable];
    const uint64_t *bits = row(o, o->now, variable);
    for (size_t w = 0; w < o->words; w++)
        for (uint64_t left = bits[w]; left; left &= left - 1)
            cost *= o->domains[w * 64 + (size_t)__builtin_ctzll(left)];
    return cost;
}

static void begin(htc_hierarchy_order *o)
{
    memcpy(o->now, o->given, o->n * o->words * sizeof *o->now);
    for (size_t i = 0; i < o->n; i++)
        o->costs[i] = cost_of(o, i);
}

/* It goes, and its neighbours become each other's. */
static void eliminate(htc_hierarchy_order *o, size_t variable)
{
    const uint64_t *bits = row(o, o->now, variable);
    o->costs[variable] = -1;
    for (size_t w = 0; w < o->words; w++)
        for (uint64_t left = bits[w]; left; left &= left - 1) {
            size_t    other = w * 64 + (size_t)__builtin_ctzll(left);
            uint64_t *to = row(o, o->now, other);
            for (size_t k = 0; k < o->words; k++)
                to[k] |= bits[k];
            to[other / 64] &= ~(UINT64_C(1) << other % 64);
            to[variable / 64] &= ~(UINT64_C(1) << variable % 64);
            o->costs[other] = cost_of(o, other);
        }
}

/* ---- one attempt ---- */

/* One of the cheapest that are left, with probability proportional to 1 / cost. */
static size_t draw(const htc_hierarchy_order *o, htc_rng *rng)
{
    size_t cheapest[CHOICES], n = 0;
    for (size_t i = 0; i < o->n; i++) {
        if (o->costs[i] < 0 || (n == CHOICES && o->costs[i] >= o->costs[cheapest[n - 1]]))
            continue;
        size_t at = n < CHOICES ? n++ : n - 1;
        for (; at > 0 && o->costs[cheapest[at - 1]] > o->costs[i]; at--)
            cheapest[at] = cheapest[at - 1];
        cheapest[at] = i;
    }
    /* In units of the cheapest, so that nothing underflows; a cost beyond all numbers is never drawn before others. */
    double weights[CHOICES], sum = 0;
    for (size_t i = 0; i < n; i++) {
        weights[i] = i == 0 ? 1 : o->costs[cheapest[0]] / o->costs[cheapest[i]];
        weights[i] = weights[i] > 0 ? weights[i] : 0;
        sum += weights[i];
    }
    double at = (double)(htc_rng_next(rng) >> 11) * 0x1p-53 * sum;
    for (size_t i = 0; i + 1 < n; i++) {
        if (at < weights[i])
            return cheapest[i];
        at -= weights[i];
    }
    return cheapest[n - 1];
}

static double cost_in_kflop(double cost)
{
    return cost == INFINITY ? 0 : cost / 1000 < HTC_HIERARCHY_KFLOP_MAX ? cost / 1000 : HTC_HIERARCHY_KFLOP_MAX;
}

/* As far as it may be the best one; given (a whole order) is followed, else drawn. */
static void attempt(htc_hierarchy_order *o, htc_rng *rng, const uint32_t *given)
{
    double cost = 0;
    begin(o);
    for (size_t i = 0; i < o->n; i++) {
        size_t variable = given ? given[i] : draw(o, rng);
        cost += o->costs[variable] < 1e300 ? o->costs[variable] : 1e300; /* a sum that is still a number: a bad order is an order */
        if (cost >= o->best_cost)
            return;
        o->tried[i] = (uint32_t)variable;
        eliminate(o, variable);
    }
    uint32_t *swap = o->best;
    o->best = o->tried;
    o->tried = swap;
    o->best_cost = cost;
}

htc_status htc_hierarchy_order_improve(htc_hierarchy_order *order, htc_rng *rng, uint64_t attempts, double *kflop)
{
    if (!order || !rng)
        return HTC_EINVAL;
    for (uint64_t i = 0; i < attempts; i++)
        attempt(order, rng, NULL);
    if (kflop)
        *kflop = cost_in_kflop(order->best_cost);
    return HTC_OK;
}

htc_status htc_hierarchy_order_learn(htc_hierarchy_order *order, const uint32_t *variables, size_t n, double *kflop)
{
    if (!order || !variables || n != order->n)
        return HTC_EINVAL;
    for (size_t i = 0; i < n; i++)
        order->costs[i] = 0;
    for (size_t i = 0; i < n; i++) {
        if (variables[i] >= n || order->costs[variables[i]] != 0)
            return HTC_EINVAL;
        order->costs[variables[i]] = 1;
    }
    attempt(order, NULL, variables);
    if (kflop)
        *kflop = cost_in_kflop(order->best_cost);
    return HTC_OK;
}

const uint32_t *htc_hierarchy_order_best(const htc_hierarchy_order *order, size_t *n, double *kflop)
{
    if (!order || !n)
        return NULL;
    *n = order->best_cost == INFINITY ? 0 : order->n;
    if (kflop)
        *kflop = cost_in_kflop(order->best_cost);
    return order->best;
}

/* ---- life ---- */

static htc_status check(const htc_hierarchy_product *in, htc_hierarchy_product *p)
{
    *p = (htc_hierarchy_product){ .size = sizeof *p };
    htc_status status = in ? htc__options_copy(p, sizeof *p, in, in->size, sizeof in->size) : HTC_EINVAL;
    size_t     at = 0;
    if (status != HTC_OK)
        return status;
    if (!p->domains || p->variables < 1 || p->variables > HTC_HIERARCHY_VARIABLES_MAX || (p->functions > 0 && !p->scope_sizes))
        return HTC_EINVAL;
    for (size_t i = 0; i < p->variables; i++)
        if (p->domains[i] == 0)
            return HTC_EINVAL;
    for (size_t f = 0; f < p->functions; f++) {
        if (p->scope_sizes[f] > p->variables || (p->scope_sizes[f] > 0 && !p->scopes))
            return HTC_EINVAL;
        for (size_t i = 0; i < p->scope_sizes[f]; i++, at++)
            if (p->scopes[at] >= p->variables)
                return HTC_EINVAL;
    }
    return HTC_OK;
}

htc_status htc_hierarchy_order_create(const htc_env *env, const htc_hierarchy_product *product, htc_hierarchy_order **out)
{
    htc_hierarchy_product p;
    htc_status            status = out ? check(product, &p) : HTC_EINVAL;
    if (status != HTC_OK)
        return status;
    htc_hierarchy_order *o = htc__alloc(env, sizeof *o);
    if (!o)
        return HTC_ENOMEM;
    *o = (htc_hierarchy_order){ .env = env, .n = p.variables, .words = (p.variables + 63) / 64, .best_cost = INFINITY };
    o->domains = htc__alloc(env, o->n * sizeof *o->domains);
    o->given = htc__alloc(env, o->n * o->words * sizeof *o->given);
    o->now = htc__alloc(env, o->n * o->words * sizeof *o->now);
    o->costs = htc__alloc(env, o->n * sizeof *o->costs);
    o->best = htc__alloc(env, o->n * sizeof *o->best);
    o->tried = htc__alloc(env, o->n * sizeof *o->tried);
    if (!o->domains || !o->given || !o->now || !o->costs || !o->best || !o->tried) {
        htc_hierarchy_order_destroy(o);
        return HTC_ENOMEM;
    }
    for (size_t i = 0; i < o->n; i++)
        o->domains[i] = p.domains[i];
    const uint32_t *scope = p.scopes;
    for (size_t f = 0; f < p.functions; f++) {
        for (size_t i = 0; i < p.scope_sizes[f]; i++)
            for (size_t k = 0; k < p.scope_sizes[f]; k++)
                connect(o, scope[i], scope[k]);
        if (p.scope_sizes[f] > 0)
            scope += p.scope_sizes[f];
    }
    *out = o;
    return HTC_OK;
}

void htc_hierarchy_order_destroy(htc_hierarchy_order *o)
{
    if (!o)
        return;
    htc__free(o->env, o->domains, o->n * sizeof *o->domains);
    htc__free(o->env, o->given, o->n * o->words * sizeof *o->given);
    htc__free(o->env, o->now, o->n * o->words * sizeof *o->now);
    htc__free(o->env, o->costs, o->n * sizeof *o->costs);
    htc__free(o->env, o->best, o->n * sizeof *o->best);
    htc__free(o->env, o->tried, o->n * sizeof *o->tried);
    htc__free(o->env, o, sizeof *o);
}
