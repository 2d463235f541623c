/* The management policy of the paper over one workflow, Montage with 1000 tasks: section 4.3's rows and the grid of section 4.4, in the scale model of
 * provisioning. The graph is read at run time from examples/sim/data; without it these are skipped. */
#include "expect.h"

#include "../montage.h"

#define POOL 1000u /* nodes of the provider: more than the workflow is wide */

static void read_montage(montage *m)
{
    if (!montage_read(m))
        cr_skip("no montage-1000.txt in examples/sim/data below or beside the working directory");
    cr_assert(m->flow.tasks == MONTAGE_TASKS && m->flow.n_edges == MONTAGE_EDGES, "%u tasks, %u edges", m->flow.tasks, m->flow.n_edges);
    cr_assert(eq(u64, (m->whole + 5000000) / 10000000, 1137869), "11,378.69 s of work");
}

/* The runtime environment lives as long as its workflow. */
static htc_sim_provision_result run(uint32_t system, uint64_t nodes, const htc_provision_options *book)
{
    static montage                m;
    htc_sim_provision_environment e = { .size = sizeof e, .nodes = nodes, .book = book, .flows = &m.flow, .n_flows = 1 };
    htc_sim_provision_options     o = { .size = sizeof o, .system = system, .environments = &e, .n_environments = 1, .capacity = POOL };
    htc_sim_provision_report      r = { .size = sizeof r };
    htc_sim_provision_result      result;
    read_montage(&m);
    cr_assert(eq(int, htc_sim_provision_run(NULL, &o, &r, &result, NULL), HTC_OK));
    cr_expect(eq(str, r.scale.wrong, ""));
    cr_expect(eq(u64, result.completed, MONTAGE_TASKS));
    return result;
}

/* The first scan is at the start. */
static htc_sim_provision_result dawning(uint64_t initial, uint64_t ratio)
{
    htc_provision_options o = { .size = sizeof o, .initial = initial, .ratio = ratio * HTC_PROVISION_ONE, .phase_ns = 1 };
    return run(HTC_SIM_PROVISION_DSP, 0, &o);
}

static void expect(const htc_sim_provision_result *r, uint64_t node_hours, double rate, const char *what)
{
    cr_expect(r->node_units == node_hours, "%s: %llu node-hours, not %llu", what, (unsigned long long)r->node_units, (unsigned long long)node_hours);
    cr_expect(r->rate > rate - 0.00501 && r->rate < rate + 0.00501, "%s: %.3f tasks a second, not %.2f", what, r->rate, rate);
}

/* Table 4: 166 nodes by themselves, and a node for whoever wants one. */
Test(provision_flow, montage_on_fixed_nodes_and_on_leased_ones)
{
    htc_sim_provision_result dcs = run(HTC_SIM_PROVISION_DCS, 166, NULL), ssp = run(HTC_SIM_PROVISION_SSP, 166, NULL), drp = run(HTC_SIM_PROVISION_DRP, 0, NULL);
    expect(&dcs, 166, 2.50, "DCS");
    expect(&ssp, 166, 2.50, "SSP");
    cr_expect(eq(u64, dcs.last / 10000000, 40019), "400.19 s");
    expect(&drp, 662, 2.71, "DRP");
    cr_expect(eq(u64, drp.last / 10000000, 36846), "368.46 s, the critical path");
    cr_expect(drp.peak == 662 && drp.granted == 662 && drp.returned == 662, "each node is leased once");
}

/* Figure 11's grid of B and R: the specification's reference figures, exact. */
Test(provision_flow, the_grid_of_parameters_over_montage_is_that_of_the_specification)
{
    static const uint64_t initial[] = { 10, 20, 40, 80 }, ratio[] = { 2, 4, 8, 16 };
    static const uint64_t node_hours[4][4] = { { 662, 166, 166, 166 },
                                               { 662, 166, 166, 381 },
                                               { 662, 166, 381, 40 },
                                               { 662, 336, 80, 80 } };
    static const double   rate[4][4] = { { 2.71, 2.50, 2.50, 2.50 },
                                         { 2.71, 2.50, 2.50, 2.21 },
                                         { 2.71, 2.50, 2.44, 1.61 },
                                         { 2.71, 2.54, 2.06, 2.06 } };
    for (int b = 0; b < 4; b++)
        for (int r = 0; r < 4; r++) {
            char                     what[32];
            htc_sim_provision_result got = dawning(initial[b], ratio[r]);
            snprintf(what, sizeof what, "B %u, R %u", (unsigned)initial[b], (unsigned)ratio[r]);
            expect(&got, node_hours[b][r], rate[b][r], what);
        }
}
