/* What an event of the simulator costs: messages between nodes, timers, and how both grow with the number of nodes. */
#include "bench.h"
#include "htcsched/sim.h"

/* Whoever gets a message sends one on; whoever is woken asks to be woken again. */
typedef struct body {
    htc_ns next;
    int    beats; /* by timer, else by message */
} body;

static htc_status step(void *self, const htc_input *in, htc_output *out)
{
    body *b = self;
    if (b->beats) {
        b->next = in->now + HTC_MS;
        return HTC_OK;
    }
    if (in->kind != HTC_IN_MESSAGE && (in->kind != HTC_IN_OPENED || in->peer != 1))
        return HTC_OK;
    return htc_output_add(out,
                          &(htc_effect){ .kind = HTC_OUT_MESSAGE, .peer = 1, .body = htc_bytes_of("a short message") });
}

static htc_ns deadline(const void *self)
{
    return ((const body *)self)->next;
}

static htc_status boot(void *ctx, htc_sim_node *node)
{
    static const htc_machine_ops ops = { sizeof ops, step, deadline, NULL, 0 };
    ((body *)ctx)->next = HTC_NEVER;
    return htc_sim_install(node, &ops, ctx);
}

/* ns of CPU an event, with n nodes in a ring. */
static double measure(size_t n, int beats, uint64_t events)
{
    static const htc_sim_host host = { .size = sizeof host, .boot = boot };
    htc_sim_net               net = { .size = sizeof net, .jitter_ns = 100 * HTC_US };
    htc_sim                  *sim = NULL;
    htc_sim_node            **nodes = calloc(n, sizeof(htc_sim_node *));
    body                     *bodies = calloc(n, sizeof *bodies);
    char                      name[32];
    bench_must(nodes && bodies &&
                   htc_sim_create(NULL, &(htc_sim_options){ .size = sizeof(htc_sim_options), .net = &net }, &sim) ==
                       HTC_OK,
               "htc_sim_create");
    for (size_t i = 0; i < n; i++) {
        bodies[i].beats = beats;
        snprintf(name, sizeof name, "n%zu", i);
        htc_sim_add(sim,
                    &(htc_sim_node_options){
                        .size = sizeof(htc_sim_node_options), .name = name, .host = &host, .ctx = &bodies[i] },
                    &nodes[i]);
        htc_sim_boot(nodes[i]);
    }
    for (size_t i = 0; i < n && !beats; i++)
        htc_sim_dial(nodes[i], 1, nodes[(i + 1) % n], NULL);
    htc_sim_run(sim, 10 * HTC_MS);
    uint64_t first = htc_sim_events(sim);
    double   t = bench_cpu_seconds();
    while (htc_sim_events(sim) - first < events)
        bench_must(htc_sim_next(sim) == HTC_OK, "htc_sim_next");
    t = bench_cpu_seconds() - t;
    htc_sim_destroy(sim);
    free(nodes);
    free(bodies);
    return t * 1e9 / (double)events;
}

static void row(const bench *b, const char *what, int beats)
{
    static const size_t sizes[] = { 10, 100, 1000, 10000, 100000 };
    double              size[5], cost[5];
    for (int i = 0; i < 5; i++) {
        double runs[5];
        for (int k = 0; k < 5; k++)
            runs[k] = measure(sizes[i], beats, b->quick ? 300000 : 2000000);
        size[i] = (double)sizes[i];
        cost[i] = bench_median(runs, 5);
        bench_row(b, &(bench_figure){ .what = what, .n = sizes[i], .unit = "ns", .value = cost[i] });
        bench_row(
            b, &(bench_figure){ .what = what, .n = sizes[i], .unit = "events/s", .value = 1e9 / cost[i], .more = 1 });
    }
    bench_growth(b, what, size, cost, 5);
}

int main(int argc, char **argv)
{
    bench b = bench_open("sim_engine", argc, argv);
    row(&b, "timer", 1);
    row(&b, "message", 0);
    return bench_close(&b);
}
