/* A stranger's machine in the simulator: it greets whoever connects, and stops once it has been greeted. */
#include <htcsched/sim.h>
#include <stdio.h>

static htc_status step(void *self, const htc_input *in, htc_output *out)
{
    (void)self;
    if (in->kind == HTC_IN_OPENED)
        return htc_output_add(
            out, &(htc_effect){ .kind = HTC_OUT_MESSAGE, .peer = in->peer, .body = htc_bytes_of("hello") });
    return in->kind == HTC_IN_MESSAGE ? htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_STOP }) : HTC_OK;
}

static htc_ns deadline(const void *self)
{
    (void)self;
    return HTC_NEVER;
}

static htc_status boot(void *ctx, htc_sim_node *node)
{
    static const htc_machine_ops ops = { sizeof ops, step, deadline, NULL, 0 };
    return htc_sim_install(node, &ops, ctx);
}

int main(void)
{
    static const htc_sim_host host = { .size = sizeof host, .boot = boot };
    htc_sim                  *sim = NULL;
    htc_sim_node             *a = NULL, *b = NULL;
    htc_sim_create(NULL, &(htc_sim_options){ .size = sizeof(htc_sim_options), .seed = 7 }, &sim);
    htc_sim_add(sim, &(htc_sim_node_options){ .size = sizeof(htc_sim_node_options), .name = "a", .host = &host }, &a);
    htc_sim_add(sim, &(htc_sim_node_options){ .size = sizeof(htc_sim_node_options), .name = "b", .host = &host }, &b);
    htc_sim_boot(a);
    htc_sim_boot(b);
    htc_sim_dial(a, 1, b, NULL);
    int good = htc_sim_run(sim, HTC_SECOND) == HTC_OK && !htc_sim_up(a) && !htc_sim_up(b);
    printf("simulated: %d events, %s\n", (int)htc_sim_events(sim), good ? "both have stopped" : "wrong");
    htc_sim_destroy(sim);
    return good ? 0 : 1;
}
