/* The management policies over two weeks of jobs: that of the paper against its published figures, ours against that of
 * the paper. The logs are read at run time from examples/sim/data; without it the made-up weeks remain. */
#include <math.h>

#include "expect.h"

#include "../provision_sim.h"
#include "property.h"

#define TWO_WEEKS_S UINT64_C(1209600)
#define POOL        480 /* nodes of the provider; the paper does not say, 438 to 480 agree with its peak */
#define PHASES      20u

static const char nasa[] = "NASA-iPSC-1993-3.1-cln.first14days.swf", blue[] = "SDSC-BLUE-2000-4.2-cln.first14days.swf";

static htc_sim_provision_job *jobs_of(const char *log, uint64_t per_node, size_t *n)
{
    htc_sim_provision_job *jobs = sim_read_swf(log, TWO_WEEKS_S, per_node, n);
    if (!jobs)
        cr_skip("no %s in examples/sim/data below or beside the working directory", log);
    return jobs;
}

/* The mean over so many moments at which the first scan may fall, within a minute. */
static sim_result mean_of(unsigned phases, htc_sim_provision_job *jobs, size_t n, uint32_t policy, uint64_t initial, uint64_t ratio)
{
    sim_result mean = { 0 };
    for (unsigned phase = 1; phase <= phases; phase++) {
        htc_provision_options o = { .size = sizeof o,
                                    .policy = htc_provision_policy_of(policy),
                                    .initial = initial,
                                    .ratio = ratio,
                                    .phase_ns = phase * (60 / phases) * HTC_SECOND };
        sim_result            r = simulate(jobs, n, &o, TWO_WEEKS_S, POOL);
        mean.node_hours += r.node_hours;
        mean.completed += r.completed;
        mean.granted += r.granted;
        mean.wait_s += r.wait_s / phases;
        mean.peak = r.peak > mean.peak ? r.peak : mean.peak;
    }
    mean.node_hours /= phases;
    mean.granted /= phases;
    return mean;
}

static sim_result mean_of_phases(htc_sim_provision_job *jobs, size_t n, uint32_t policy, uint64_t initial, uint64_t ratio)
{
    return mean_of(PHASES, jobs, n, policy, initial, ratio);
}

/* NASA iPSC, B40_R1.2: 29,014 node-hours published and 2603 jobs completed in the period (Table 2); the log itself:
 * 2604 jobs submitted, 16,091 node-hours of work. */
Test(provision_trace, the_paper_s_policy_costs_what_the_paper_published)
{
    size_t   n;
    uint64_t work_s = 0, drp = 0;
    htc_sim_provision_job *jobs = jobs_of(nasa, 1, &n);
    cr_assert(eq(sz, n, 2604));
    for (size_t i = 0; i < n; i++) {
        work_s += jobs[i].nodes * jobs[i].length / HTC_SECOND;
        drp +=
            jobs[i].nodes * htc_provision_units(jobs[i].length, 3600 * HTC_SECOND, HTC_PROVISION_STARTED);
    }
    cr_expect(eq(u64, (work_s + 1800) / 3600, 16091));
    cr_expect(eq(u64, drp, 54118), "DRP: each started hour of each job");
    sim_result r = mean_of_phases(jobs, n, HTC_PROVISION_PAPER, 40, 1200000);
    cr_expect(eq(u64, r.completed, PHASES * 2603));
    cr_expect(r.node_hours > 29014 * 97 / 100 && r.node_hours < 29014 * 103 / 100, "%llu node-hours",
              (unsigned long long)r.node_hours);
    free(jobs);
}

/* The paper does not say when its server scans first. A scan comes every 60 s and jobs arrive in whole seconds, so there are 60 moments for the first one: 1 to 60 s
 * after the log begins. The mean of all of them is the published 29,014 within 0.2 %, and so is that of every third one; a single one may be 5 % away. */
Test(provision_trace, over_all_moments_the_mean_is_what_the_paper_published)
{
    size_t                 n;
    double                 sum = 0, squares = 0;
    htc_sim_provision_job *jobs = jobs_of(nasa, 1, &n);
    for (unsigned second = 1; second <= 60; second++) {
        htc_provision_options o = { .size = sizeof o, .initial = 40, .ratio = 1200000, .phase_ns = second * HTC_SECOND };
        sim_result            r = simulate(jobs, n, &o, TWO_WEEKS_S, POOL);
        cr_expect(eq(u64, r.completed, 2603));
        sum += (double)r.node_hours;
        squares += (double)r.node_hours * (double)r.node_hours;
    }
    double mean = sum / 60;
    cr_expect(mean > 29014 * 0.998 && mean < 29014 * 1.002, "%.1f node-hours", mean);
    double deviation = sqrt(squares / 60 - mean * mean);
    cr_expect(deviation > 600 && deviation < 900, "one moment: +- %.0f node-hours", deviation);
    sim_result twenty = mean_of_phases(jobs, n, HTC_PROVISION_PAPER, 40, 1200000);
    cr_expect(twenty.node_hours * 1000 > 29014 * 998 && twenty.node_hours * 1000 < 29014 * 1002, "%llu node-hours over every third", (unsigned long long)twenty.node_hours);
    free(jobs);
}

/* Figure 10's grid of B and R over the same two weeks: the specification's reference figures (section 4.4), six moments of the first scan,
 * within 3 %. Two of the sixteen lost a job in some of them. */
Test(provision_trace, the_grid_of_parameters_is_that_of_the_specification)
{
    static const uint64_t initial[] = { 10, 20, 40, 80 }, ratio[] = { 1000000, 1200000, 1500000, 2000000 };
    static const uint64_t expected[4][4] = { { 25598, 26344, 27483, 27390 },
                                             { 26589, 27024, 28036, 28621 },
                                             { 28467, 28998, 29896, 30515 },
                                             { 33444, 34045, 34619, 34982 } };
    size_t                n;
    htc_sim_provision_job              *jobs = jobs_of(nasa, 1, &n);
    for (int b = 0; b < 4; b++)
        for (int r = 0; r < 4; r++) {
            sim_result got = mean_of(6, jobs, n, HTC_PROVISION_PAPER, initial[b], ratio[r]);
            cr_expect(got.node_hours * 100 > expected[b][r] * 97 && got.node_hours * 100 < expected[b][r] * 103,
                      "B %llu, R %llu: %llu node-hours", (unsigned long long)initial[b], (unsigned long long)ratio[r],
                      (unsigned long long)got.node_hours);
            cr_expect(got.completed >= 6 * 2602 && got.completed <= 6 * 2603, "B %llu, R %llu: %llu jobs",
                      (unsigned long long)initial[b], (unsigned long long)ratio[r], (unsigned long long)got.completed);
        }
    free(jobs);
}

/* perlease with as many initial nodes, and with none: fewer node-hours, and jobs wait less; no job is lost to the end
 * of the period. */
static void compare(const char *log, uint64_t per_node, uint64_t initial, uint64_t ratio, uint64_t saved_percent)
{
    size_t     n;
    htc_sim_provision_job   *jobs = jobs_of(log, per_node, &n);
    sim_result paper = mean_of_phases(jobs, n, HTC_PROVISION_PAPER, initial, ratio);
    sim_result same = mean_of_phases(jobs, n, HTC_PROVISION_PERLEASE, initial, ratio);
    sim_result none = mean_of_phases(jobs, n, HTC_PROVISION_PERLEASE, HTC_PROVISION_NO_NODES, ratio);
    cr_expect(same.node_hours < paper.node_hours, "%llu node-hours, the paper's %llu",
              (unsigned long long)same.node_hours, (unsigned long long)paper.node_hours);
    cr_expect(none.node_hours * 100 < paper.node_hours * (100 - saved_percent), "%llu node-hours, the paper's %llu",
              (unsigned long long)none.node_hours, (unsigned long long)paper.node_hours);
    cr_expect(same.wait_s < paper.wait_s && none.wait_s < paper.wait_s, "waits %.0f and %.0f s, the paper's %.0f",
              same.wait_s, none.wait_s, paper.wait_s);
    cr_expect(same.completed >= paper.completed && none.completed >= paper.completed);
    cr_expect(none.peak <= POOL && same.peak <= POOL);
    free(jobs);
}

Test(provision_trace, perlease_saves_a_fifth_of_nasa_and_waits_less)
{
    compare(nasa, 1, 40, 1200000, 19);
}

Test(provision_trace, perlease_saves_a_third_of_blue_and_waits_less)
{
    compare(blue, 8, 80, 1500000, 33);
}

/* Made-up weeks: with as many initial nodes perlease never costs more, and on the whole jobs wait less. */
Test(provision_trace, perlease_is_never_dearer_on_made_up_weeks)
{
    double paper_s = 0, perlease_s = 0;
    PROPERTY(rng, 40)
    {
        static htc_sim_provision_job        jobs[8000];
        size_t                n = sim_generate(&rng, jobs, sizeof jobs / sizeof *jobs, TWO_WEEKS_S);
        htc_provision_options o = { .size = sizeof o, .initial = htc_rng_below(&rng, 60) + 1 };
        sim_result            paper = simulate(jobs, n, &o, TWO_WEEKS_S, POOL);
        o.policy = htc_provision_policy_of(HTC_PROVISION_PERLEASE);
        sim_result perlease = simulate(jobs, n, &o, TWO_WEEKS_S, POOL);
        HOLDS(perlease.node_hours <= paper.node_hours);
        HOLDS(perlease.completed + 5 >= paper.completed);
        paper_s += paper.wait_s;
        perlease_s += perlease.wait_s;
    }
    cr_expect(perlease_s < paper_s, "%.0f s, the paper's %.0f s", perlease_s / 40, paper_s / 40);
}
