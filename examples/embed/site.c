/* A whole site inside one program, without sockets and in virtual time: a store, the gateway and its agents, which this host starts
 * and serves when it is asked to (htcsched/calls.h). A user's job of a hundred tasks of a minute each takes a moment. */
#include <stdio.h>
#include <string.h>

#include <htcsched/htcsched.h>
#include <htcsched/sim.h>

#include "user.h"

enum { STORE = 1, GATEWAY = 1, UID = 1000, AGENTS = 50 };

static struct agent {
    htc_sim_node *node;
    uint64_t      id;
} agents[AGENTS];
static htc_sim      *sim;
static htc_sim_node *store, *gateway, *user;
static unsigned      launched, run;

static htc_status install(htc_sim_node *node, htc_status created, const htc_machine_ops *ops, void *machine, htc_sim_node *to)
{
    if (created == HTC_OK)
        created = htc_sim_install(node, ops, machine);
    return created == HTC_OK && to ? htc_sim_dial(node, 1, to, NULL) : created;
}

/* ---- an agent's host: files and processes, if there were any ---- */

static void put(htc_buf *b, int zeros)
{
    while (zeros--)
        htc_put_u8(b, 0);
}

static htc_status agent_call(void *ctx, htc_sim_node *node, const htc_effect *call)
{
    htc_buf b;
    (void)ctx;
    htc_buf_init(&b, NULL, 0);
    if (call->op == HTC_CALL_RUN) { /* outcome: status, exit code, signal, CPU time, memory; begin, end; no words, no outputs */
        put(&b, 4 + 4 + 4 + 8 + 8);
        htc_put_u64(&b, htc_sim_wall(sim));
        htc_put_u64(&b, htc_sim_wall(sim) + 60 * HTC_SECOND);
        put(&b, 3 + 1 + 6);
        run++;
    } else if (call->op == HTC_CALL_STAGE_OUT) { /* stored: status, final, no words, no outputs */
        put(&b, 4 + 1 + 1 + 6);
    } else if (call->op != HTC_CALL_STAGE_IN) {
        return HTC_OK;
    }
    htc_status status = htc_sim_result(node, call->op == HTC_CALL_RUN ? 60 * HTC_SECOND : HTC_SECOND, call, HTC_OK, htc_buf_bytes(&b));
    htc_buf_free(&b);
    return status;
}

static htc_status agent_boot(void *ctx, htc_sim_node *node)
{
    htc_agent        *machine = NULL;
    htc_agent_options options = { .size = sizeof options, .agent = ((struct agent *)ctx)->id, .peer = GATEWAY, .node = "here" };
    htc_status created = htc_agent_create(htc_sim_env(node), &options, &machine);
    return install(node, created, htc_agent_ops(), machine, gateway);
}

static void agent_ended(void *ctx, htc_sim_node *node, htc_status status, int crashed)
{
    htc_buf b;
    htc_buf_init(&b, NULL, 0);
    htc_put_u64(&b, ((struct agent *)ctx)->id);
    htc_put_str(&b, htc_sim_name(node)); /* its handle */
    htc_put_str(&b, crashed ? "killed" : htc_status_name(status));
    htc_sim_event(gateway, HTC_MS, HTC_EVENT_AGENT_EXIT, HTC_OK, htc_buf_bytes(&b));
    htc_buf_free(&b);
}

/* ---- the gateway's host ---- */

static htc_status gateway_call(void *ctx, htc_sim_node *node, const htc_effect *call)
{
    static const htc_sim_host host = { .size = sizeof host, .boot = agent_boot, .call = agent_call, .ended = agent_ended };
    (void)ctx;
    if (call->op != HTC_CALL_LAUNCH || launched == AGENTS)
        return HTC_EUNSUPPORTED;
    char                 name[64];
    struct agent        *a = &agents[launched];
    htc_sim_node_options options = { .size = sizeof options, .name = name, .host = &host, .ctx = a, .info.transport = HTC_TRANSPORT_UNIX,
                                     .info.uid = UID };
    htc_buf              b;
    htc_reader           r = htc_reader_of(call->body);
    htc_get_str(&r, name, sizeof name); /* the site's */
    a->id = htc_get_u64(&r);
    snprintf(name, sizeof name, "agent %u", ++launched);
    if (htc_sim_add(sim, &options, &a->node) != HTC_OK || htc_sim_boot(a->node) != HTC_OK)
        return HTC_EREFUSED;
    htc_buf_init(&b, NULL, 0);
    htc_put_str(&b, name); /* its handle, */
    htc_put_str(&b, name); /* and for people */
    htc_status status = htc_sim_result(node, HTC_SECOND, call, HTC_OK, htc_buf_bytes(&b));
    htc_buf_free(&b);
    return status;
}

static htc_status gateway_boot(void *ctx, htc_sim_node *node)
{
    static const htc_site_options here = { .size = sizeof here, .name = "here", .cores = 2, .memory = UINT64_C(8) << 30 };
    htc_gateway        *machine = NULL;
    htc_gateway_options options = { .size = sizeof options, .store_peer = STORE, .store_client_id = 4711, .owner_uid = UID,
                                    .owner_name = "ada", .sites = &here, .n_sites = 1 };
    (void)ctx;
    htc_status created = htc_gateway_create(htc_sim_env(node), &options, &machine);
    return install(node, created, htc_gateway_ops(), machine, store);
}

static htc_status store_boot(void *ctx, htc_sim_node *node)
{
    htc_kv_server        *machine = NULL;
    htc_kv_server_options options = { .size = sizeof options };
    (void)ctx;
    htc_status created = htc_kv_server_create(htc_sim_env(node), &options, &machine);
    return install(node, created, htc_kv_server_ops(), machine, NULL);
}

/* ---- the world ---- */

static htc_status user_boot(void *ctx, htc_sim_node *node)
{
    return install(node, HTC_OK, user_ops(), ctx, gateway);
}

static htc_sim_node *node(const htc_sim_host *host, const char *name)
{
    htc_sim_node        *n = NULL;
    htc_sim_node_options options = { .size = sizeof options, .name = name, .host = host, .ctx = user_said, .info.transport = HTC_TRANSPORT_UNIX, .info.uid = UID };
    return htc_sim_add(sim, &options, &n) == HTC_OK && htc_sim_boot(n) == HTC_OK ? n : NULL;
}

int main(void)
{
    static const htc_sim_host stores = { .size = sizeof stores, .boot = store_boot };
    static const htc_sim_host gateways = { .size = sizeof gateways, .boot = gateway_boot, .call = gateway_call };
    static const htc_sim_host users = { .size = sizeof users, .boot = user_boot };
    htc_sim_options           options = { .size = sizeof options, .seed = 1 };
    if (htc_sim_create(NULL, &options, &sim) != HTC_OK || !(store = node(&stores, "store")) || !(gateway = node(&gateways, "gateway")) ||
        htc_sim_run(sim, HTC_SECOND) != HTC_OK || !(user = node(&users, "user")))
        return 1;
    htc_status status = htc_sim_run(sim, 3600 * HTC_SECOND);
    printf("%u tasks run by %u agents; the job is %s\n", run, launched, strstr(user_said, "\"done\"") ? "done" : user_said);
    htc_sim_destroy(sim);
    return status == HTC_OK ? 0 : 1;
}
