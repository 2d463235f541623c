/* When to ask and when to give back: the policy of the paper, and one of our own. */
#include "core/util.h"
#include "sched/provision/provision_private.h"

typedef htc_provision_u128 u128;

int htc__provision_demand_ok(const htc_provision_demand *d, uint64_t owned)
{
    return d && owned <= HTC_PROVISION_NODES_MAX && d->waiting_nodes <= HTC_PROVISION_NODES_MAX &&
           d->running_nodes <= owned && d->waiting_jobs <= d->waiting_nodes && d->waiting_largest <= d->waiting_nodes &&
           (d->waiting_nodes == 0 || (d->waiting_jobs > 0 && d->waiting_largest > 0));
}

uint64_t htc_provision_request_size(uint64_t owned, const htc_provision_demand *demand, uint64_t ratio, uint32_t scope,
                                    uint32_t *reason)
{
    uint64_t size = 0;
    uint32_t why = HTC_PROVISION_NONE;
    if (htc__provision_demand_ok(demand, owned) && scope <= HTC_PROVISION_WAITING && demand->waiting_jobs > 0) {
        uint64_t d = demand->waiting_nodes + (scope == HTC_PROVISION_UNFINISHED ? demand->running_nodes : 0);
        if (d > owned && (u128)d * HTC_PROVISION_ONE > (u128)ratio * owned) {
            why = HTC_PROVISION_DR1;
            size = d - owned;
        } else if (demand->waiting_largest > owned) {
            why = HTC_PROVISION_DR2;
            size = demand->waiting_largest - owned;
        }
    }
    if (reason)
        *reason = why;
    return size;
}

static uint64_t paper_request(void *ctx, const htc_provision_view *v, uint32_t *reason)
{
    (void)ctx;
    return htc_provision_request_size(v->owned, v->demand, v->ratio, v->scope, reason);
}

static uint64_t paper_release(void *ctx, const htc_provision_view *v, uint64_t leased)
{
    (void)ctx;
    return v->idle >= leased ? leased : 0;
}

/* What waits and cannot start on the nodes there are. */
static uint64_t deficit(void *ctx, const htc_provision_view *v, uint32_t *reason)
{
    (void)ctx;
    *reason = HTC_PROVISION_DEFICIT;
    return v->demand->waiting_nodes > v->idle ? v->demand->waiting_nodes - v->idle : 0;
}

/* Idle nodes that waiting jobs are about to use would be asked for again at the next scan, and set up twice. */
static uint64_t surplus(void *ctx, const htc_provision_view *v, uint64_t leased)
{
    (void)ctx;
    (void)leased;
    return v->idle > v->demand->waiting_nodes ? v->idle - v->demand->waiting_nodes : 0;
}

static const htc_provision_policy policies[] = {
    { sizeof(htc_provision_policy), "paper", NULL, paper_request, paper_release },
    { sizeof(htc_provision_policy), "perlease", NULL, deficit, surplus },
};

const htc__builtin htc__provision_builtin[] = {
    { HTC_REGISTRY_PROVISION, "paper", &policies[HTC_PROVISION_PAPER] },
    { HTC_REGISTRY_PROVISION, "perlease", &policies[HTC_PROVISION_PERLEASE] },
    { 0 },
};

const htc_provision_policy *htc_provision_policy_of(uint32_t which)
{
    return which < sizeof policies / sizeof *policies ? &policies[which] : NULL;
}

htc_status htc__provision_check(const htc_provision_policy *policy)
{
    htc_provision_policy known;
    if (!policy)
        return HTC_EINVAL;
    htc_status status = htc__options_copy(&known, sizeof known, policy, policy->size, sizeof known);
    return status != HTC_OK ? status : known.request && known.release ? HTC_OK : HTC_EINVAL;
}

htc_status htc_provision_register(htc_registry *registry, const htc_provision_policy *policy)
{
    htc_status status = htc__provision_check(policy);
    return status != HTC_OK ? status : htc_registry_add(registry, HTC_REGISTRY_PROVISION, policy->name, policy);
}

htc_status htc_provision_find(const htc_registry *registry, const char *name, const htc_provision_policy **policy)
{
    const void *found;
    htc_status  status = policy ? htc_registry_find(registry, HTC_REGISTRY_PROVISION, name, &found) : HTC_EINVAL;
    if (status == HTC_OK)
        *policy = found;
    return status;
}
