/* A role of one's own over htcsched/runtime.h: it counts in the store how often each guest has come, and greets with that number. Role,
 * store and guest run in one process and in virtual time; half of what guest and role say to each other is lost, and the role is killed on
 * the way. */
#include <stdio.h>
#include <string.h>

#include <htcsched/kv_server.h>
#include <htcsched/runtime.h>
#include <htcsched/sim.h>

enum { TO_STORE = 1, TO_ROLE = 1, VISITS = 20 };

/* ---- the role ---- */

typedef struct greeter {
    htc_runtime  *runtime;
    htc_env       env;
    htc_sim_node *store;
} greeter;

/* The visit is counted: only now may the guest hear of it. */
static void counted(void *role, void *context, const htc_kv_result *result)
{
    greeter *g = role;
    htc_buf  message;
    htc_buf_init(&message, &g->env, 0);
    htc_put_u64(&message, (uint64_t)result->number);
    if (result->status == HTC_OK)
        htc_runtime_send(g->runtime, *(uint32_t *)context, &message);
    htc_buf_free(&message);
    htc_runtime_context_free(g->runtime, context);
}

static htc_status greet(void *self, const htc_input *in, htc_output *out)
{
    greeter *g = self;
    if (htc_runtime_begin(g->runtime, in, out) == HTC_OK && in->kind == HTC_IN_MESSAGE && in->peer != TO_STORE) {
        uint32_t *peer = htc_runtime_context(g->runtime, sizeof *peer);
        if (peer) {
            *peer = in->peer;
            htc_runtime_ask(g->runtime, &(htc_kv_request){ .size = sizeof(htc_kv_request), .op = HTC_KV_ADD, .key = in->body, .delta = 1 }, 1,
                            counted, peer);
        }
    }
    return htc_runtime_end(g->runtime, in);
}

static htc_ns greeter_deadline(const void *self)
{
    return htc_runtime_deadline(((const greeter *)self)->runtime);
}

static void greeter_end(void *self)
{
    htc_runtime_destroy(((greeter *)self)->runtime);
}

/* Each time it is started; its memory is gone, what it has counted is in the store. */
static htc_status greeter_boot(void *ctx, htc_sim_node *node)
{
    static const htc_machine_ops ops = { sizeof ops, greet, greeter_deadline, greeter_end, 0 };
    greeter              *g = ctx;
    htc_kv_client_options store = { .size = sizeof store, .client_id = 7000 + htc_sim_incarnation(node), .peer = TO_STORE };
    htc_runtime_options   options = { .size = sizeof options, .role = g, .store = &store, .name = "greeter" };
    g->env = *htc_sim_env(node);
    htc_status status = htc_runtime_create(&g->env, &options, &g->runtime);
    if (status == HTC_OK)
        status = htc_sim_install(node, &ops, g);
    return status == HTC_OK ? htc_sim_dial(node, TO_STORE, g->store, NULL) : status;
}

/* ---- the guest: comes again when it was greeted, or not for a second ---- */

typedef struct guest {
    uint64_t greeted, highest;
    htc_ns   again;
} guest;

static htc_status visit(void *self, const htc_input *in, htc_output *out)
{
    guest *g = self;
    if (in->kind == HTC_IN_MESSAGE) {
        htc_reader r = htc_reader_of(in->body);
        uint64_t   n = htc_get_u64(&r);
        g->greeted++;
        g->highest = n > g->highest ? n : g->highest;
    } else if (in->kind != HTC_IN_OPENED && in->now < g->again) {
        return HTC_OK;
    }
    g->again = g->greeted < VISITS ? in->now + HTC_SECOND : HTC_NEVER;
    return g->greeted < VISITS ? htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_MESSAGE, .peer = TO_ROLE, .body = htc_bytes_of("guest") })
                               : HTC_OK;
}

static htc_ns guest_deadline(const void *self)
{
    return ((const guest *)self)->again;
}

static htc_status guest_boot(void *ctx, htc_sim_node *node)
{
    static const htc_machine_ops ops = { sizeof ops, visit, guest_deadline, NULL, 0 };
    return htc_sim_install(node, &ops, ctx);
}

/* ---- the store ---- */

static htc_status store_boot(void *ctx, htc_sim_node *node)
{
    htc_kv_server_options options = { .size = sizeof options };
    htc_kv_server        *server = NULL;
    (void)ctx;
    htc_status status = htc_kv_server_create(htc_sim_env(node), &options, &server);
    return status == HTC_OK ? htc_sim_install(node, htc_kv_server_ops(), server) : status;
}

static htc_sim_node *add(htc_sim *sim, const char *name, const htc_sim_host *host, void *ctx)
{
    htc_sim_node_options options = { .size = sizeof options, .name = name, .host = host, .ctx = ctx };
    htc_sim_node        *node = NULL;
    return htc_sim_add(sim, &options, &node) == HTC_OK && htc_sim_boot(node) == HTC_OK ? node : NULL;
}

int main(void)
{
    static const htc_sim_host stores = { .size = sizeof stores, .boot = store_boot };
    static const htc_sim_host greeters = { .size = sizeof greeters, .boot = greeter_boot };
    static const htc_sim_host guests = { .size = sizeof guests, .boot = guest_boot };
    greeter         role = { 0 };
    guest           visitor = { .again = HTC_NEVER };
    htc_sim_net     lossy = { .size = sizeof lossy, .loss_ppm = 500000 };
    htc_sim_options options = { .size = sizeof options, .seed = 1 };
    htc_sim        *sim = NULL;
    if (htc_sim_create(NULL, &options, &sim) != HTC_OK)
        return 1;
    role.store = add(sim, "store", &stores, NULL);
    htc_sim_node *one = add(sim, "greeter", &greeters, &role), *who = add(sim, "guest", &guests, &visitor);
    if (!one || !who || htc_sim_set_net(sim, one, who, &lossy) != HTC_OK || htc_sim_set_net(sim, who, one, &lossy) != HTC_OK)
        return 1;
    if (htc_sim_dial(who, TO_ROLE, one, NULL) != HTC_OK)
        return 1;
    htc_sim_run(sim, 10 * HTC_SECOND);
    htc_sim_crash(one);
    htc_sim_boot(one);
    htc_status status = htc_sim_run(sim, 600 * HTC_SECOND);
    printf("greeted %d times, and counted %d\n", (int)visitor.greeted, (int)visitor.highest);
    htc_sim_destroy(sim);
    return status == HTC_OK && visitor.greeted == VISITS ? 0 : 1;
}
