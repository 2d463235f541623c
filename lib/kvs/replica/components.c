/* What a member among several is made of: one table, in the order in which a step goes through it. */
#include "kvs/replica/cluster_private.h"

/* What this member has said to itself is heard behind those that say most of it. */
static const htc__kv_component said_to_itself = { .tick = htc__kv_dispatch_self };

static const htc__kv_component *const components[] = {
    &htc__kv_component_keys,
    &htc__kv_component_lost,
    &htc__kv_component_report,
    &htc__kv_component_acceptors,
    &htc__kv_component_keeping,
    &htc__kv_component_asked,
    &htc__kv_component_leases,
    &htc__kv_component_ends,
    &htc__kv_component_tombstones,
    &htc__kv_component_lease_sweep,
    &htc__kv_component_eventual_keys,
    &htc__kv_component_registers,
    &htc__kv_component_repairing,
    &htc__kv_component_catching,
    &htc__kv_component_joining,
    &htc__kv_component_moving,
    &htc__kv_component_buckets,
    &said_to_itself,
    &htc__kv_component_hosting,
    &htc__kv_component_scans,
    &said_to_itself,
    &htc__kv_component_notifying,
    &htc__kv_component_member_log,
};
#define COMPONENTS (sizeof components / sizeof *components)

htc_status htc__kv_components_make(htc_kv_server *s)
{
    htc_status status = HTC_OK;
    for (size_t i = 0; i < COMPONENTS && status == HTC_OK; i++)
        if (components[i]->make)
            status = components[i]->make(s);
    return status;
}

/* Backwards: what was made later may hold what was made before. */
void htc__kv_components_free(htc_kv_server *s)
{
    for (size_t i = COMPONENTS; i > 0; i--)
        if (components[i - 1]->free)
            components[i - 1]->free(s);
}

htc_status htc__kv_components_load(htc_kv_server *s)
{
    htc_status status = htc__kv_buckets_load(s);
    for (size_t i = 0; i < COMPONENTS && status == HTC_OK; i++)
        if (components[i]->load)
            status = components[i]->load(s);
    return status;
}

/* For the first map: a member that was let in, and ended before that was stored, holds records all the same. */
static int waits(const htc_kv_server *s, const htc__kv_component *x)
{
    return x->needs_map && !s->cluster->map;
}

void htc__kv_components_tick(htc_kv_server *s)
{
    for (size_t i = 0; i < COMPONENTS; i++)
        if (components[i]->tick && !waits(s, components[i]))
            components[i]->tick(s);
}

htc_ns htc__kv_components_deadline(const htc_kv_server *s)
{
    htc_ns at = HTC_NEVER;
    for (size_t i = 0; i < COMPONENTS && at > 0; i++) {
        if (!components[i]->deadline || waits(s, components[i]))
            continue;
        htc_ns due = components[i]->deadline(s);
        at = due < at ? due : at;
    }
    return at;
}

static int hears(const htc__kv_component *x, uint8_t kind)
{
    for (int i = 0; i < HTC__KV_ITEMS_MAX && x->items[i]; i++)
        if (x->items[i] == kind)
            return 1;
    return 0;
}

/* One of a kind that nobody knows is nothing: it may be of a later version. */
void htc__kv_components_hear(htc_kv_server *s, uint64_t from, uint8_t kind, htc_bytes item)
{
    for (size_t i = 0; i < COMPONENTS; i++)
        if (hears(components[i], kind)) {
            components[i]->on_item(s, from, kind, item);
            return;
        }
}
