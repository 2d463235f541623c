/* What a message of the store model costs, and a client's memory: 1 K to 1 M clients, 1024 clients a server, ten requests each, beside a hold of the event
 * queue with as many pending events (take the earliest, push it again later) of the same run. */
#include "bench.h"
#include "hold.h"
#include "htcsched/sim_kvs.h"

#define ID_BITS 30

static void model(const bench *b, const char *name, htc_sim_kvs_options o)
{
    double size[8], cost[8];
    int    k = 0;
    char   what[96];
    for (uint64_t clients = 1024; clients <= (b->quick ? 1u << 16 : 1u << 20); clients *= 4, k++) {
        htc_sim_kvs_report r = { .size = sizeof r };
        uint64_t           bytes = 0;
        int                runs = clients < 100000 ? 5 : b->quick ? 1 : 3;
        double             t[5], ratio[5];
        o.size = sizeof o;
        o.clients = clients;
        o.servers = clients / 1024 > o.copies ? 0 : o.copies;
        for (int i = 0; i < runs; i++) {
            double hold = hold_ns(&huge, clients, 2000000);
            t[i] = bench_cpu_seconds();
            bench_must(htc_sim_kvs_run(&huge, &o, &r, NULL) == HTC_OK && !r.scale.wrong[0], "htc_sim_kvs_run");
            t[i] = (bench_cpu_seconds() - t[i]) * 1e9 / (double)(r.requests.sent + r.consistency.sent + r.failures.sent);
            ratio[i] = t[i] / hold;
        }
        size[k] = (double)clients;
        cost[k] = bench_median(t, (size_t)runs);
        snprintf(what, sizeof what, "message, %s", name);
        bench_row(b, &(bench_figure){ .what = what, .n = clients, .unit = "ns", .value = cost[k] });
        snprintf(what, sizeof what, "message / hold, %s", name);
        bench_row(b, &(bench_figure){ .what = what, .n = clients, .unit = "1", .value = bench_median(ratio, (size_t)runs), .goal = 2 });
        htc_sim_kvs_memory(&o, &bytes);
        snprintf(what, sizeof what, "memory a client, %s", name);
        bench_row(b, &(bench_figure){ .what = what, .n = clients, .unit = "B", .value = (double)bytes / (double)clients });
        if (clients == 1u << 20) {
            snprintf(what, sizeof what, "10 M requests, %s", name);
            bench_row(b, &(bench_figure){ .what = what, .n = clients, .unit = "s", .value = cost[k] * 1e-9 * (double)(r.requests.sent + r.consistency.sent), .goal = 60 });
            snprintf(what, sizeof what, "memory, %s", name);
            bench_row(b, &(bench_figure){ .what = what, .n = clients, .unit = "MB", .value = (double)bytes / 1e6, .goal = 1000 });
        }
    }
    bench_growth(b, name, size, cost, k);
}

int main(int argc, char **argv)
{
    bench b = bench_open("sim_kvs", argc, argv);
    model(&b, "csingle", (htc_sim_kvs_options){ .model = HTC_SIM_KVS_CSINGLE, .tick_ns = 10 * HTC_US }); /* it takes months of virtual time */
    model(&b, "dfc", (htc_sim_kvs_options){ .model = HTC_SIM_KVS_DFC });
    model(&b, "dchord", (htc_sim_kvs_options){ .model = HTC_SIM_KVS_DCHORD });
    model(&b, "dfc, three copies, strong", (htc_sim_kvs_options){ .model = HTC_SIM_KVS_DFC, .copies = 3 });
    model(&b, "dfc, three copies, eventual", (htc_sim_kvs_options){ .model = HTC_SIM_KVS_DFC, .copies = 3, .consistency = HTC_SIM_KVS_EVENTUAL });
    return bench_close(&b);
}
