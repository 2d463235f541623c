/* What two nodes share in one direction: how long messages take, what becomes of them, whether any get through. Links come to be
 * when they are first used, and each has a random stream named for its ends. */
#include <stdio.h>
#include <string.h>

#include "core/util.h"
#include "sim/engine/sim_private.h"

#define LATENCY (50 * HTC_US)
#define MORE    (10 * HTC_MS) /* reorder_ns and delay_ns where they are 0 */

static uint64_t key_of(const htc_sim_node *from, const htc_sim_node *to)
{
    return (uint64_t)from->id << 32 | to->id;
}

/* Where a key is, or where it belongs. */
static size_t slot_of(const htc_sim *sim, uint64_t key)
{
    size_t mask = sim->cap_links - 1, i = (size_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & mask;
    while (sim->links[i] && sim->links[i]->key != key)
        i = (i + 1) & mask;
    return i;
}

static sim_link *find(const htc_sim_node *from, const htc_sim_node *to)
{
    const htc_sim *sim = from->sim;
    return sim->cap_links ? sim->links[slot_of(sim, key_of(from, to))] : NULL;
}

static int grow(htc_sim *sim)
{
    size_t     old_cap = sim->cap_links, cap = old_cap ? old_cap * 2 : 64;
    sim_link **old = sim->links, **links = htc__alloc(&sim->env, cap * sizeof *links);
    if (!links)
        return 0;
    sim->links = links;
    sim->cap_links = cap;
    for (size_t i = 0; i < old_cap; i++)
        if (old[i])
            links[slot_of(sim, old[i]->key)] = old[i];
    htc__free(&sim->env, old, old_cap * sizeof *old);
    return 1;
}

sim_link *htc__sim_link(htc_sim_node *from, htc_sim_node *to)
{
    htc_sim  *sim = from->sim;
    sim_link *link = find(from, to);
    char      name[2 * SIM_NAME_MAX + 16];
    if (link)
        return link;
    if ((sim->n_links + 1) * 2 > sim->cap_links && !grow(sim)) {
        htc__sim_refused(sim);
        return NULL;
    }
    link = htc__alloc(&sim->env, sizeof *link);
    if (!link) {
        htc__sim_refused(sim);
        return NULL;
    }
    snprintf(name, sizeof name, "link/%s>%s", from->name, to->name);
    *link = (sim_link){ .key = key_of(from, to), .rng = htc_rng_fork(&sim->root, name), .from = from, .to = to };
    sim->links[slot_of(sim, link->key)] = link;
    sim->n_links++;
    return link;
}

/* ---- what it does to messages ---- */

const htc_sim_net *htc__sim_link_net(const htc_sim *sim, const sim_link *link)
{
    return link->has_own ? &link->own : &sim->net;
}

htc_ns htc__sim_link_latency(htc_sim *sim, sim_link *link)
{
    const htc_sim_net *net = htc__sim_link_net(sim, link);
    return htc__sim_sum(net->latency_ns, net->jitter_ns ? htc__sim_up_to(&link->rng, net->jitter_ns) : 0);
}

/* The stream goes on only for faults that exist on this link: switching one on shifts nothing else but this link. */
int htc__sim_link_chance(htc_sim *sim, sim_link *link, uint32_t ppm)
{
    return ppm && sim->net_faults && htc_rng_below(&link->rng, 1000000) < ppm;
}

static void take_net(htc_sim_net *out, const htc_sim_net *in)
{
    *out = *in;
    out->latency_ns = in->latency_ns ? in->latency_ns : LATENCY;
    out->reorder_ns = in->reorder_ns ? in->reorder_ns : MORE;
    out->delay_ns = in->delay_ns ? in->delay_ns : MORE;
}

htc_status htc_sim_set_net(htc_sim *sim, htc_sim_node *from, htc_sim_node *to, const htc_sim_net *net)
{
    htc_sim_net known = { 0 };
    if (!sim || !from != !to || (from && (from->sim != sim || to->sim != sim)))
        return HTC_EINVAL;
    htc_status status = net ? htc__options_copy(&known, sizeof known, net, net->size, sizeof net->size) : HTC_OK;
    if (status != HTC_OK)
        return status;
    if (!from) {
        take_net(&sim->net, &known);
        return HTC_OK;
    }
    sim_link *link = htc__sim_link(from, to);
    if (!link)
        return HTC_ENOMEM;
    link->has_own = net != NULL;
    take_net(&link->own, &known);
    return HTC_OK;
}

htc_status htc_sim_net_faults(htc_sim *sim, int on)
{
    if (!sim)
        return HTC_EINVAL;
    sim->net_faults = on != 0;
    return HTC_OK;
}

/* ---- whether anything gets through ---- */

static int partitioned(const htc_sim_node *from, const htc_sim_node *to)
{
    const htc_sim *sim = from->sim;
    return ((from->sets & ~to->sets & sim->cut_out) | (~from->sets & to->sets & sim->cut_in)) != 0;
}

int htc__sim_link_cut(const sim_link *link)
{
    return link->blocked || partitioned(link->from, link->to);
}

int htc__sim_link_clogged(const htc_sim *sim, const sim_link *link)
{
    return link->clogged_until > sim->now;
}

int htc_sim_passes(const htc_sim_node *from, const htc_sim_node *to)
{
    if (!from || !to || from->sim != to->sim)
        return 0;
    const sim_link *link = find(from, to);
    return !partitioned(from, to) && (!link || (!link->blocked && !htc__sim_link_clogged(from->sim, link)));
}

void htc__sim_link_hold(htc_sim *sim, sim_link *link, sim_event *e)
{
    htc__sim_list_add(&link->held, e);
    if (!link->holding) {
        link->holding = 1;
        link->next_held = sim->holding;
        sim->holding = link;
    }
}

/* What waits on links that are open now goes on, in its order; and so do calls. */
static htc_status let_through(htc_sim *sim)
{
    sim_link **at = &sim->holding;
    while (*at) {
        sim_link *link = *at;
        if (htc__sim_link_cut(link) || htc__sim_link_clogged(sim, link)) {
            at = &link->next_held;
            continue;
        }
        *at = link->next_held;
        link->holding = 0;
        for (sim_event *e; (e = htc__sim_list_take(&link->held));) {
            e->released = 1;
            link->releasing++;
            htc__sim_push(sim, e, sim->now);
        }
    }
    for (size_t i = 0; i < sim->n_nodes; i++)
        if (sim->nodes[i]->callers)
            htc__sim_callers(sim->nodes[i]);
    return sim->status;
}

static void let_through_later(htc_sim *sim, void *ctx)
{
    (void)ctx;
    let_through(sim);
}

htc_status htc_sim_block(htc_sim_node *from, htc_sim_node *to, int blocked)
{
    if (!from || !to || from->sim != to->sim)
        return HTC_EINVAL;
    sim_link *link = htc__sim_link(from, to);
    if (!link)
        return HTC_ENOMEM;
    link->blocked = blocked != 0;
    return blocked ? HTC_OK : let_through(from->sim);
}

htc_status htc_sim_clog(htc_sim_node *from, htc_sim_node *to, htc_ns span)
{
    if (!from || !to || from->sim != to->sim)
        return HTC_EINVAL;
    htc_sim  *sim = from->sim;
    sim_link *link = htc__sim_link(from, to);
    if (!link)
        return HTC_ENOMEM;
    if (span == 0) {
        link->clogged_until = 0;
        return let_through(sim);
    }
    htc_ns until = htc__sim_after(sim, span);
    if (link->clogged_until >= until)
        return HTC_OK;
    link->clogged_until = until;
    return htc_sim_at(sim, link->clogged_until, let_through_later, NULL, 0);
}

/* ---- partitions ---- */

static void partition_end(htc_sim *sim, uint32_t i)
{
    uint64_t bit = UINT64_C(1) << i;
    sim->partitions[i].ways = 0;
    sim->cut_in &= ~bit;
    sim->cut_out &= ~bit;
    for (size_t n = 0; n < sim->n_nodes; n++)
        sim->nodes[n]->sets &= ~bit;
}

static uint32_t partition_named(const htc_sim *sim, const char *name)
{
    uint32_t i = 0;
    while (i < SIM_PARTITIONS_MAX && !(sim->partitions[i].ways && strcmp(sim->partitions[i].name, name) == 0))
        i++;
    return i;
}

static uint32_t partition_free(const htc_sim *sim)
{
    uint32_t i = 0;
    while (i < SIM_PARTITIONS_MAX && sim->partitions[i].ways)
        i++;
    return i;
}

htc_status htc_sim_partition(htc_sim *sim, const char *name, htc_sim_node *const *nodes, size_t count, uint32_t ways)
{
    if (!sim || !name || strlen(name) >= sizeof sim->partitions[0].name || (count && !nodes) || ways < HTC_SIM_BOTH ||
        ways > HTC_SIM_IN)
        return HTC_EINVAL;
    for (size_t n = 0; n < count; n++)
        if (!nodes[n] || nodes[n]->sim != sim)
            return HTC_EINVAL;
    uint32_t i = partition_named(sim, name);
    if (i < SIM_PARTITIONS_MAX)
        partition_end(sim, i);
    else
        i = partition_free(sim);
    if (i == SIM_PARTITIONS_MAX)
        return HTC_EFULL;
    uint64_t bit = UINT64_C(1) << i;
    strcpy(sim->partitions[i].name, name);
    sim->partitions[i].ways = ways;
    sim->cut_out |= ways == HTC_SIM_IN ? 0 : bit;
    sim->cut_in |= ways == HTC_SIM_OUT ? 0 : bit;
    for (size_t n = 0; n < count; n++)
        nodes[n]->sets |= bit;
    return let_through(sim); /* of the one that it replaces */
}

htc_status htc_sim_heal(htc_sim *sim, const char *name)
{
    if (!sim)
        return HTC_EINVAL;
    uint32_t i = name ? partition_named(sim, name) : 0;
    if (i == SIM_PARTITIONS_MAX)
        return HTC_ENOTFOUND;
    if (name) {
        partition_end(sim, i);
        return let_through(sim);
    }
    for (i = 0; i < SIM_PARTITIONS_MAX; i++)
        if (sim->partitions[i].ways)
            partition_end(sim, i);
    for (size_t n = 0; n < sim->cap_links; n++)
        if (sim->links[n])
            sim->links[n]->blocked = 0;
    return let_through(sim);
}

void htc__sim_links_free(htc_sim *sim)
{
    for (size_t i = 0; i < sim->cap_links; i++) {
        sim_link *link = sim->links[i];
        if (!link)
            continue;
        for (sim_event *e; (e = htc__sim_list_take(&link->held));)
            htc__sim_event_free(sim, e);
        htc__free(&sim->env, link, sizeof *link);
    }
    htc__free(&sim->env, sim->links, sim->cap_links * sizeof(sim_link *));
}
