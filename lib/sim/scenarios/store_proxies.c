/* Proxies between some clients and the members: real ones, killed and started again like everybody else. Of their clients some reach the members as well,
 * and so repeat at a member what they have sent through a proxy. */
#include <stdio.h>

#include "sim/engine/sim_private.h"
#include "sim/scenarios/store_private.h"

void htc__store_proxies_draw(store *s)
{
    store_setting *g = &s->setting;
    htc_rng        rng = htc_sim_rng(s->sim, "setting/proxies");
    uint32_t       proxies = (uint32_t)maybe(&rng, 4, 1, STORE_PROXIES);
    uint64_t       all = (UINT64_C(1) << g->clients) - 1, behind = between(&rng, 1, all), also = between(&rng, 0, all);
    htc_ns         linger = between(&rng, 1, 20) * HTC_MS, forget = between(&rng, 200, 4000) * HTC_MS;
    int            crowd = htc_rng_below(&rng, 2) == 0;
    if (!proxies)
        return;
    if (crowd) { /* three have to ask at once before two of them leave together */
        g->clients = STORE_CLIENTS;
        g->think = 0;
        proxies = 1;
        behind = (1u << STORE_CLIENTS) - 1;
    }
    g->proxies = proxies;
    g->behind = (uint32_t)behind;
    g->mixed = (uint32_t)also;
    g->linger = linger;
    g->forget = forget;
}

int htc__store_is_behind(const store *s, uint32_t client)
{
    return client < s->setting.clients && (s->setting.behind >> client & 1) && !s->clients[client].redis;
}

int htc__store_is_mixed(const store *s, uint32_t client)
{
    return !htc__store_is_behind(s, client) || (s->setting.mixed >> client & 1);
}

/* Behind each step: what it has counted in this life. */
static void checked(void *ctx, htc_sim_node *node)
{
    store_proxy *p = ctx;
    (void)node;
    p->now.size = sizeof p->now;
    if (p->machine)
        (void)htc_kv_proxy_stats_get(p->machine, &p->now);
}

static void ended(void *ctx, htc_sim_node *node, htc_status status, int crashed)
{
    store_proxy *p = ctx;
    p->machine = NULL;
    p->s->proxied += p->now.requests;
    p->s->packs += p->now.messages;
    p->now = (htc_kv_proxy_stats){ 0 };
    if (!crashed)
        htc__store_fail(p->s, "%s has ended: %s", htc_sim_name(node), htc_status_name(status));
}

/* To members that have been started; each proxy prefers others. */
static htc_status boot(void *ctx, htc_sim_node *node)
{
    store_proxy         *p = ctx;
    store               *s = p->s;
    uint32_t             stores[STORE_MEMBERS], n = s->setting.nodes;
    htc_kv_proxy_options o = { .size = sizeof o, .stores = stores, .store_count = n, .linger_ns = s->setting.linger, .forget_ns = s->setting.forget };
    o.retry_ns = s->setting.again;
    o.silent_ns = 3 * s->setting.again;
    for (uint32_t i = 0; i < n; i++)
        stores[i] = 1 + (i + p->at) % n;
    htc_status status = htc_kv_proxy_create(htc_sim_env(node), &o, &p->machine);
    if (status == HTC_OK)
        status = htc_sim_install(node, htc_kv_proxy_ops(), p->machine);
    for (uint32_t i = 0; i < n && status == HTC_OK; i++)
        if (!s->members[i].outside)
            status = htc_sim_dial(node, i + 1, s->members[i].node, NULL);
    return status;
}

htc_status htc__store_proxies_dial(store *s, uint32_t member)
{
    htc_status status = HTC_OK;
    for (uint32_t i = 0; i < s->setting.proxies && status == HTC_OK; i++)
        if (htc_sim_up(s->proxies[i].node))
            status = htc_sim_dial(s->proxies[i].node, member + 1, s->members[member].node, NULL);
    return status;
}

htc_status htc__store_proxies_add(store *s)
{
    static const htc_sim_host host = { .size = sizeof host, .boot = boot, .ended = ended, .checked = checked };
    htc_status                status = HTC_OK;
    for (uint32_t i = 0; i < s->setting.proxies && status == HTC_OK; i++) {
        char                 name[16];
        htc_sim_node_options o = { .size = sizeof o, .name = name, .host = &host, .ctx = &s->proxies[i] };
        snprintf(name, sizeof name, "p%u", i);
        s->proxies[i] = (store_proxy){ .s = s, .at = i };
        status = htc_sim_add(s->sim, &o, &s->proxies[i].node);
        if (status == HTC_OK)
            status = htc_sim_boot(s->proxies[i].node);
    }
    return status;
}

/* Nothing is cut off from them any more. */
void htc__store_proxies_heal(store *s)
{
    for (uint32_t i = 0; i < s->setting.proxies; i++) {
        htc_sim_node *p = s->proxies[i].node;
        for (uint32_t j = 0; j < s->setting.nodes; j++) {
            htc_sim_clog(s->members[j].node, p, 0);
            htc_sim_clog(p, s->members[j].node, 0);
        }
        for (uint32_t j = 0; j < s->setting.clients; j++) {
            htc_sim_clog(s->clients[j].node, p, 0);
            htc_sim_clog(p, s->clients[j].node, 0);
        }
    }
}

void htc__store_proxies_report(const store *s, htc_sim_store_report *report)
{
    report->proxied = s->proxied;
    report->packs = s->packs;
    for (uint32_t i = 0; i < s->setting.proxies; i++) {
        report->proxied += s->proxies[i].now.requests;
        report->packs += s->proxies[i].now.messages;
    }
}
