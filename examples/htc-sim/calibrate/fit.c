/* Costs of the model, from what was measured: each is made larger and smaller as long as the model comes nearer, in steps that become finer. */
#include <math.h>

#include "calibrate.h"

#define REQUESTS 6000 /* of a run of the model */

figures fit_model(const htc_sim_kvs_options *costs, const point *p)
{
    htc_sim_kvs_options o = *costs;
    htc_sim_kvs_report  r = { .size = sizeof r };
    o.model = HTC_SIM_KVS_LIVE;
    o.seed = 1;
    o.servers = p->members;
    o.copies = p->members < 3 ? p->members : 3;
    o.clients = p->load.clients;
    o.depth = p->load.depth;
    o.programs = 1;
    o.requests = REQUESTS / p->load.clients;
    o.puts = p->load.puts;
    o.no_puts = !p->load.puts;
    o.synchronised = 1;
    if (htc_sim_kvs_run(NULL, &o, &r, NULL) != HTC_OK || !r.answered)
        return (figures){ 1, 1, 1, 1 };
    return (figures){ r.throughput, r.response_s, r.members_s / (double)r.answered, r.programs_s / (double)r.answered };
}

static double square(double ours, double measured)
{
    double off = measured > 0 && ours > 0 ? log(ours / measured) : 0;
    return off * off;
}

/* The response of a request is what is wanted in the end; CPU times say of what it is made. */
static double far_off(const htc_sim_kvs_options *o, const point *p, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        figures f = fit_model(o, &p[i]);
        sum += 2 * square(f.response, p[i].measured.response) + square(f.members, p[i].measured.members) + square(f.client, p[i].measured.client);
    }
    return sum;
}

double fit_costs(htc_sim_kvs_options *o, const point *p, size_t n, int quick, void (*tell)(void *ctx, double done), void *ctx)
{
    static const double steps[] = { 2, 1.5, 1.2, 1.1, 1.05, 1.02 };
    htc_ns *cost[] = { &o->turn_ns, &o->wake_ns, &o->idle_ns, &o->unpack_ns, &o->pack_ns, &o->service_ns, &o->accept_ns, &o->client_ns, &o->commit_ns, &o->write_ns, &o->sync_ns, &o->latency_ns };
    size_t  costs = sizeof cost / sizeof *cost, rounds = quick ? 1 : 4;
    double  best = far_off(o, p, n);
    for (size_t s = 0; s < sizeof steps / sizeof *steps; s++)
        for (size_t round = 0; round < rounds; round++) {
            double before = best;
            tell(ctx, (double)(s * rounds + round) / (double)(rounds * sizeof steps / sizeof *steps));
            for (size_t i = 0; i < 2 * costs; i++) {
                htc_ns was = *cost[i / 2], now = (htc_ns)((double)was * (i % 2 ? steps[s] : 1 / steps[s]));
                *cost[i / 2] = now < 50 ? 50 : now;
                double off = far_off(o, p, n);
                if (off < best)
                    best = off;
                else
                    *cost[i / 2] = was;
            }
            if (best > before * 0.99)
                break;
        }
    tell(ctx, 1);
    return exp(sqrt(best / (4 * (double)n)));
}
