/* Who gets the free nodes: whole or not at all, or divided. */
#include <string.h>

#include "core/order.h"
#include "core/util.h"
#include "htcsched/allot.h"
#include "sched/provision/provision_private.h"

#define WEIGHT_MAX (UINT64_C(1) << 42)

static int by_turn(const void *ctx, size_t a, size_t b)
{
    const htc_provision_request *r = ctx, *x = &r[a], *y = &r[b];
    if (x->priority != y->priority)
        return x->priority > y->priority;
    return x->arrival != y->arrival ? x->arrival < y->arrival : x->id < y->id;
}

static int by_id(const void *ctx, size_t a, size_t b)
{
    const htc_provision_request *r = ctx;
    return r[a].id < r[b].id;
}

static size_t *order_of(const htc_env *env, const htc_provision_request *r, size_t n, htc__order_before *before)
{
    size_t *order = htc__alloc(env, n * sizeof *order);
    for (size_t i = 0; order && i < n; i++)
        order[i] = i;
    if (order)
        htc__order_sort(order, n, before, r);
    return order;
}

static htc_status grant_whole(void *ctx, const htc_env *env, uint64_t free_nodes, const htc_provision_request *r,
                              size_t n, uint64_t *granted)
{
    (void)ctx;
    size_t *order = order_of(env, r, n, by_turn);
    if (!order)
        return HTC_ENOMEM;
    for (size_t i = 0; i < n; i++)
        if (r[order[i]].nodes <= free_nodes)
            free_nodes -= granted[order[i]] = r[order[i]].nodes;
    htc__free(env, order, n * sizeof *order);
    return HTC_OK;
}

/* Requests of one priority: initial ones whole in their turn, the others divided max-min by weight. */
static htc_status grant_class(const htc_env *env, uint64_t *free_nodes, const htc_provision_request *r,
                              const size_t *order, size_t n, htc_allot_user *users, htc_allot_share *shares,
                              uint64_t *granted)
{
    const htc_allot_options o = { .size = sizeof o, .policy = HTC_ALLOT_MAXMIN, .min_agents = HTC_ALLOT_NO_MINIMUM };
    size_t                  m = 0;
    for (size_t i = 0; i < n; i++) {
        const htc_provision_request *q = &r[order[i]];
        if (!q->initial)
            users[m++] = (htc_allot_user){
                .weight = q->weight ? q->weight : 1, .queued = q->nodes, .arrival = q->arrival, .id = q->id
            };
        else if (q->nodes <= *free_nodes)
            *free_nodes -= granted[order[i]] = q->nodes;
    }
    htc_status status = m ? htc_allot(env, &o, users, m, *free_nodes, shares) : HTC_OK;
    for (size_t i = 0, k = 0; status == HTC_OK && i < n; i++)
        if (!r[order[i]].initial)
            *free_nodes -= granted[order[i]] = shares[k++].ra;
    return status;
}

static htc_status grant_parts(void *ctx, const htc_env *env, uint64_t free_nodes, const htc_provision_request *r,
                              size_t n, uint64_t *granted)
{
    (void)ctx;
    size_t          *order = order_of(env, r, n, by_turn);
    htc_allot_user  *users = htc__alloc(env, n * sizeof *users);
    htc_allot_share *shares = htc__alloc(env, n * sizeof *shares);
    htc_status       status = order && users && shares ? HTC_OK : HTC_ENOMEM;
    for (size_t i = 0, end; status == HTC_OK && i < n; i = end) {
        for (end = i + 1; end < n && r[order[end]].priority == r[order[i]].priority;)
            end++;
        status = grant_class(env, &free_nodes, r, order + i, end - i, users, shares, granted);
    }
    htc__free(env, order, n * sizeof *order);
    htc__free(env, users, n * sizeof *users);
    htc__free(env, shares, n * sizeof *shares);
    return status;
}

static const htc_provision_granter granters[] = {
    { sizeof(htc_provision_granter), "all_or_reject", NULL, grant_whole },
    { sizeof(htc_provision_granter), "partial", NULL, grant_parts },
};

const htc__builtin htc__provision_granter_builtin[] = {
    { HTC_REGISTRY_GRANT, "all_or_reject", &granters[HTC_PROVISION_ALL_OR_REJECT] },
    { HTC_REGISTRY_GRANT, "partial", &granters[HTC_PROVISION_PARTIAL] },
    { 0 },
};

const htc_provision_granter *htc_provision_granter_of(uint32_t which)
{
    return which < sizeof granters / sizeof *granters ? &granters[which] : NULL;
}

static htc_status granter_check(const htc_provision_granter *granter)
{
    htc_provision_granter known;
    if (!granter)
        return HTC_EINVAL;
    htc_status status = htc__options_copy(&known, sizeof known, granter, granter->size, sizeof known);
    return status != HTC_OK ? status : known.grant ? HTC_OK : HTC_EINVAL;
}

htc_status htc_provision_register_granter(htc_registry *registry, const htc_provision_granter *granter)
{
    htc_status status = granter_check(granter);
    return status != HTC_OK ? status : htc_registry_add(registry, HTC_REGISTRY_GRANT, granter->name, granter);
}

htc_status htc_provision_find_granter(const htc_registry *registry, const char *name,
                                      const htc_provision_granter **granter)
{
    const void *found;
    htc_status  status = granter ? htc_registry_find(registry, HTC_REGISTRY_GRANT, name, &found) : HTC_EINVAL;
    if (status == HTC_OK)
        *granter = found;
    return status;
}

static htc_status requests_check(const htc_env *env, const htc_provision_request *r, size_t n)
{
    htc_status status = HTC_OK;
    for (size_t i = 0; i < n; i++)
        if (r[i].nodes < 1 || r[i].nodes > HTC_PROVISION_NODES_MAX || r[i].weight > WEIGHT_MAX || r[i].initial > 1)
            return HTC_EINVAL;
    size_t *order = order_of(env, r, n, by_id);
    if (!order)
        return HTC_ENOMEM;
    for (size_t i = 1; i < n; i++)
        if (r[order[i - 1]].id == r[order[i]].id)
            status = HTC_EINVAL;
    htc__free(env, order, n * sizeof *order);
    return status;
}

/* A granter may be a stranger's. */
static htc_status answer_check(uint64_t free_nodes, const htc_provision_request *r, size_t n, const uint64_t *granted)
{
    for (size_t i = 0; i < n; i++) {
        if (granted[i] > r[i].nodes || granted[i] > free_nodes ||
            (r[i].initial && granted[i] > 0 && granted[i] < r[i].nodes))
            return HTC_EINTERNAL;
        free_nodes -= granted[i];
    }
    return HTC_OK;
}

htc_status htc_provision_grant(const htc_env *env, const htc_provision_granter *granter, uint64_t free_nodes,
                               const htc_provision_request *requests, size_t n, uint64_t *granted)
{
    const htc_provision_granter *g = granter ? granter : &granters[HTC_PROVISION_ALL_OR_REJECT];
    htc_status                   status = granter_check(g);
    if (status != HTC_OK)
        return status;
    if (free_nodes > HTC_PROVISION_NODES_MAX || n > HTC_PROVISION_REQUESTS_MAX || (n && (!requests || !granted)))
        return HTC_EINVAL;
    if (n == 0)
        return HTC_OK;
    status = requests_check(env, requests, n);
    if (status != HTC_OK)
        return status;
    uint64_t *answer = htc__alloc(env, n * sizeof *answer);
    if (!answer)
        return HTC_ENOMEM;
    status = g->grant(g->ctx, env, free_nodes, requests, n, answer);
    if (status == HTC_OK)
        status = answer_check(free_nodes, requests, n, answer);
    if (status == HTC_OK)
        memcpy(granted, answer, n * sizeof *granted);
    htc__free(env, answer, n * sizeof *answer);
    return status;
}
