/* What changing hands takes, and what holding costs. */
#include "core/util.h"
#include "sched/provision/provision_private.h"

typedef htc_provision_u128 u128;

#define WORK_ALL                                                                                                       \
    (HTC_PROVISION_STOP | HTC_PROVISION_UNINSTALL | HTC_PROVISION_WIPE | HTC_PROVISION_INSTALL | HTC_PROVISION_START)
#define OUT        (HTC_PROVISION_STOP | HTC_PROVISION_UNINSTALL)
#define IN         (HTC_PROVISION_INSTALL | HTC_PROVISION_START)
#define CENTS_MAX  (UINT64_C(1) << 48)
#define AMOUNT_MAX (UINT64_C(1) << 24)

/* 15.743 s a node: DawningCloud, section 4.5.4, without wiping. */
static const htc_provision_setup setups[] = {
    { sizeof(htc_provision_setup), "packages", OUT | IN, OUT | IN, 15743 * HTC_MS, 0 },
    { sizeof(htc_provision_setup), "none", 0, 0, 0, 0 },
    { sizeof(htc_provision_setup), "wipe_os", OUT | IN, OUT | HTC_PROVISION_WIPE | IN, 15743 * HTC_MS, 0 },
};

const htc__builtin htc__provision_setup_builtin[] = {
    { HTC_REGISTRY_SETUP, "packages", &setups[HTC_PROVISION_PACKAGES] },
    { HTC_REGISTRY_SETUP, "none", &setups[HTC_PROVISION_NO_SETUP] },
    { HTC_REGISTRY_SETUP, "wipe_os", &setups[HTC_PROVISION_WIPE_OS] },
    { 0 },
};

const htc_provision_setup *htc_provision_setup_of(uint32_t which)
{
    return which < sizeof setups / sizeof *setups ? &setups[which] : NULL;
}

static htc_status setup_check(const htc_provision_setup *setup)
{
    htc_provision_setup known;
    if (!setup)
        return HTC_EINVAL;
    htc_status status = htc__options_copy(&known, sizeof known, setup, setup->size, sizeof known);
    if (status != HTC_OK)
        return status;
    return known.assign <= WORK_ALL && known.reclaim <= WORK_ALL && known.wipe_ns <= UINT64_MAX - known.node_ns
               ? HTC_OK
               : HTC_EINVAL;
}

htc_status htc_provision_register_setup(htc_registry *registry, const htc_provision_setup *setup)
{
    htc_status status = setup_check(setup);
    return status != HTC_OK ? status : htc_registry_add(registry, HTC_REGISTRY_SETUP, setup->name, setup);
}

htc_status htc_provision_find_setup(const htc_registry *registry, const char *name, const htc_provision_setup **setup)
{
    const void *found;
    htc_status  status = setup ? htc_registry_find(registry, HTC_REGISTRY_SETUP, name, &found) : HTC_EINVAL;
    if (status == HTC_OK)
        *setup = found;
    return status;
}

htc_status htc_provision_set_up(const htc_provision_setup *setup, uint32_t assign, uint64_t nodes,
                                htc_provision_change *change)
{
    const htc_provision_setup *s = setup ? setup : &setups[HTC_PROVISION_PACKAGES];
    htc_status                 status = setup_check(s);
    if (status != HTC_OK)
        return status;
    if (!change || assign > 1 || nodes > HTC_PROVISION_NODES_MAX)
        return HTC_EINVAL;
    uint32_t work = assign ? s->assign : s->reclaim;
    htc_ns   node_ns = (work ? s->node_ns : 0) + (work & HTC_PROVISION_WIPE ? s->wipe_ns : 0);
    u128     total = (u128)node_ns * nodes;
    *change = (htc_provision_change){ work, node_ns, total > UINT64_MAX ? UINT64_MAX : (htc_ns)total };
    return HTC_OK;
}

uint64_t htc_provision_units(htc_ns held_ns, htc_ns unit_ns, uint32_t rounding)
{
    if (unit_ns == 0 || rounding > HTC_PROVISION_STARTED)
        return 0;
    uint64_t whole = held_ns / unit_ns,
             more = rounding == HTC_PROVISION_STARTED || held_ns % unit_ns != 0 || whole == 0;
    return whole == UINT64_MAX ? whole : whole + more;
}

htc_status htc_provision_cost_of_owning(const htc_provision_owning *c, uint64_t *cents)
{
    if (!c || !cents || c->years < 1 || c->years > 1000 || c->capex > CENTS_MAX || c->maintenance > CENTS_MAX ||
        c->energy_space > CENTS_MAX)
        return HTC_EINVAL;
    uint64_t months = UINT64_C(12) * c->years;
    *cents = (2 * (c->capex + c->maintenance) + months) / (2 * months) + c->energy_space;
    return HTC_OK;
}

htc_status htc_provision_cost_of_leasing(const htc_provision_leasing *c, uint64_t *cents)
{
    if (!c || !cents || c->instances > AMOUNT_MAX || c->instance_hour > AMOUNT_MAX || c->inbound_gb > AMOUNT_MAX ||
        c->gb > AMOUNT_MAX)
        return HTC_EINVAL;
    *cents = c->instances * 24 * 30 * c->instance_hour + c->inbound_gb * c->gb;
    return HTC_OK;
}
