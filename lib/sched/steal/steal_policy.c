/* The ways to steal that have names: whom the built-in ones ask, and how others join them. */
#include "core/util.h"
#include "sched/steal/steal_private.h"

static uint32_t less(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

uint32_t htc__steal_degree(const htc_steal_options *options, uint32_t n)
{
    return options->neighbours ? less(options->neighbours, n - 1) : htc_steal_neighbours(options->degree, n);
}

static htc_status draw(const htc_steal_view *view, htc_rng *rng, uint32_t k, uint32_t cap, uint32_t *out,
                       uint32_t *count)
{
    *count = less(k, cap);
    return htc_steal_pick(rng, view->n, view->self, *count, out);
}

static htc_status choose_random(void *ctx, const htc_steal_view *view, htc_rng *rng, uint32_t cap, uint32_t *out,
                                uint32_t *count)
{
    (void)ctx;
    return draw(view, rng, htc__steal_degree(view->options, view->n), cap, out, count);
}

/* As many as a rule says, whatever options say. */
#define CHOOSE_BY(rule_name, rule)                                                                                     \
    static htc_status choose_##rule_name(void *ctx, const htc_steal_view *view, htc_rng *rng, uint32_t cap,            \
                                         uint32_t *out, uint32_t *count)                                               \
    {                                                                                                                  \
        (void)ctx;                                                                                                     \
        return draw(view, rng, htc_steal_neighbours(rule, view->n), cap, out, count);                                  \
    }
CHOOSE_BY(one, HTC_STEAL_ONE)
CHOOSE_BY(two, HTC_STEAL_TWO)
CHOOSE_BY(log2, HTC_STEAL_LOG2)
CHOOSE_BY(sqrt, HTC_STEAL_SQRT)

static htc_status choose_static(void *ctx, const htc_steal_view *view, htc_rng *rng, uint32_t cap, uint32_t *out,
                                uint32_t *count)
{
    (void)ctx;
    (void)rng;
    *count = less(htc__steal_degree(view->options, view->n), cap);
    return htc_steal_nearest(view->n, view->self, *count, out);
}

/* The smallest side whose power reaches n. */
static uint32_t side_of(uint32_t n, uint32_t dimensions)
{
    uint32_t side = 1;
    if (dimensions == 1)
        return n;
    if (dimensions == 2)
        return htc__steal_root(n - 1) + 1;
    while ((uint64_t)side * side * side < n)
        side++;
    return side;
}

static uint32_t parts(uint32_t n, uint32_t size)
{
    return (uint32_t)(((uint64_t)n + size - 1) / size);
}

/* As square as can be, and no larger than n needs. */
static htc_steal_shape square(uint32_t n, uint32_t dimensions, uint32_t wrap)
{
    htc_steal_shape s = { .wrap = wrap, .z = 1 };
    s.x = side_of(n, dimensions);
    s.y = side_of(parts(n, s.x), dimensions - 1);
    if (dimensions == 3)
        s.z = parts(parts(n, s.x), s.y);
    return s;
}

/* Points within h hops of one that is far from every end. */
static uint64_t lattice(uint64_t h, uint32_t dimensions)
{
    return dimensions == 2 ? 2 * h * (h + 1) : (2 * h + 1) * (2 * h * h + 2 * h + 3) / 3 - 1;
}

static htc_status choose_mesh(const htc_steal_view *view, uint32_t dimensions, uint32_t cap, uint32_t *out,
                              uint32_t *count)
{
    const htc_steal_options *o = view->options;
    uint32_t                 hops = o->hops;
    htc_steal_shape          shape = o->shape.x ? o->shape : square(view->n, dimensions, o->shape.wrap);
    if (dimensions == 2 && shape.z > 1)
        return HTC_EINVAL;
    if (hops == 0)
        for (hops = 1; lattice(hops, dimensions) < htc__steal_degree(o, view->n);)
            hops++;
    return htc_steal_mesh(&shape, view->n, view->self, hops, cap, out, count);
}

static htc_status choose_mesh_2d(void *ctx, const htc_steal_view *view, htc_rng *rng, uint32_t cap, uint32_t *out,
                                 uint32_t *count)
{
    (void)ctx;
    (void)rng;
    return choose_mesh(view, 2, cap, out, count);
}

static htc_status choose_mesh_3d(void *ctx, const htc_steal_view *view, htc_rng *rng, uint32_t cap, uint32_t *out,
                                 uint32_t *count)
{
    (void)ctx;
    (void)rng;
    return choose_mesh(view, 3, cap, out, count);
}

/* The size of the groups that are robbed after so many failures: near workers, then as many times more each time. n:
 * all. */
static uint32_t near_size(const htc_steal_view *view, uint32_t failures)
{
    uint32_t near =
        view->options->near_workers ? view->options->near_workers : htc_steal_neighbours(HTC_STEAL_SQRT, view->n);
    uint64_t size = near > 1 ? near : 2, factor = size;
    for (uint32_t i = 0; i < failures && size < view->n; i++)
        size *= factor;
    return (uint32_t)(size < view->n ? size : view->n);
}

/* A group is a run of numbers, from a multiple of its size on. The last one may have a single worker, who looks
 * further. */
static htc_status choose_near(void *ctx, const htc_steal_view *view, htc_rng *rng, uint32_t cap, uint32_t *out,
                              uint32_t *count)
{
    uint32_t begin = 0, end = view->n;
    (void)ctx;
    for (uint32_t failures = view->failures, size; (size = near_size(view, failures)) < view->n; failures++) {
        begin = view->self / size * size;
        end = less(size, view->n - begin) + begin;
        if (end - begin > 1)
            break;
        begin = 0;
        end = view->n;
    }
    *count = less(less(htc__steal_degree(view->options, view->n), end - begin - 1), cap);
    htc_status status = htc_steal_pick(rng, end - begin, view->self - begin, *count, out);
    for (uint32_t i = 0; status == HTC_OK && i < *count; i++)
        out[i] += begin;
    return status;
}

/* No wait as long as there are farther ones to ask. */
static htc_ns wait_near(void *ctx, const htc_steal_view *view)
{
    uint32_t before = 0;
    (void)ctx;
    while (before < view->failures && near_size(view, before) < view->n)
        before++;
    return before == view->failures ? 0 : htc__steal_wait(view->options, view->failures - before);
}

#define POLICY(variable, policy_name, chooses, waits)                                                                  \
    const htc_steal_policy variable = {                                                                                \
        .size = sizeof(htc_steal_policy), .name = policy_name, .choose = chooses, .wait = waits                        \
    }

POLICY(htc__steal_by_default, "random", choose_random, NULL);
static POLICY(steal_one, "one", choose_one, NULL);
static POLICY(steal_two, "two", choose_two, NULL);
static POLICY(steal_log2, "log2", choose_log2, NULL);
static POLICY(steal_sqrt, "sqrt", choose_sqrt, NULL);
static POLICY(steal_static, "static", choose_static, NULL);
static POLICY(steal_mesh_2d, "mesh-2d", choose_mesh_2d, NULL);
static POLICY(steal_mesh_3d, "mesh-3d", choose_mesh_3d, NULL);
static POLICY(steal_near, "near", choose_near, wait_near);

const htc__builtin htc__steal_builtin[] = {
    { HTC_REGISTRY_STEAL, "random", &htc__steal_by_default },
    { HTC_REGISTRY_STEAL, "one", &steal_one },
    { HTC_REGISTRY_STEAL, "two", &steal_two },
    { HTC_REGISTRY_STEAL, "log2", &steal_log2 },
    { HTC_REGISTRY_STEAL, "sqrt", &steal_sqrt },
    { HTC_REGISTRY_STEAL, "static", &steal_static },
    { HTC_REGISTRY_STEAL, "mesh-2d", &steal_mesh_2d },
    { HTC_REGISTRY_STEAL, "mesh-3d", &steal_mesh_3d },
    { HTC_REGISTRY_STEAL, "near", &steal_near },
    { 0, NULL, NULL },
};

htc_status htc_steal_register(htc_registry *registry, const htc_steal_policy *policy)
{
    htc_steal_policy known;
    if (!policy)
        return HTC_EINVAL;
    htc_status status = htc__steal_policy_copy(policy, &known);
    return status == HTC_OK ? htc_registry_add(registry, HTC_REGISTRY_STEAL, known.name, policy) : status;
}

htc_status htc_steal_find(const htc_registry *registry, const char *name, const htc_steal_policy **policy)
{
    const void *found;
    if (!policy)
        return HTC_EINVAL;
    htc_status status = htc_registry_find(registry, HTC_REGISTRY_STEAL, name, &found);
    if (status == HTC_OK)
        *policy = found;
    return status;
}
