/* The deployment of the paper (superlink-2005) and its experiments, as options of the model of several grids. */
#include "core/util.h"
#include "sim/models/grids.h"

#define MIN  (60 * HTC_SECOND)
#define HOUR (60 * MIN)
#define DAY  (24 * HOUR)

/* KFlop a second of a CPU (table 2). */
#define P1 817477.0
#define P2 775251.0
#define P3 649505.0

struct htc_sim_grids_profile {
    htc_env               env;
    htc_hierarchy_grid    hierarchy_grids[3];
    htc_hierarchy_queue   hierarchy_queues[4];
    htc_hierarchy_options hierarchy;
    htc_sim_grids_grid    grids[3];
    htc_sim_grids_queue   queues[4];
    htc_sim_grids_class   classes[4];
    htc_sim_grids_job     jobs[2];
    htc_sim_grids_options options;
};

static const uint32_t local = 0, pools = 1, madison = 2;

/* Table 2, with the job lengths of table 3. */
static void deploy(htc_sim_grids_profile *p)
{
    static const struct {
        uint32_t        level, next, cpus;
        const uint32_t *grid;
        htc_ns          tq, te, target;
        double          kflops;
        uint32_t        flags;
    } table[4] = { { 1, 1, 2, &local, 6 * MIN, 3 * MIN, 0, P1, HTC_SIM_GRIDS_WHOLE_BUDGET },
                   { 2, 3, 100, &pools, 320 * MIN, 160 * MIN, 560 * HTC_SECOND, P2, 0 },
                   { 2, 3, 500, &madison, 160 * MIN, 160 * MIN, 800 * HTC_SECOND, P3, HTC_SIM_GRIDS_PREEMPTS },
                   { 3, HTC_HIERARCHY_NOWHERE, 500, &madison, 2880 * MIN, 2880 * MIN, 920 * HTC_SECOND, P3, 0 } };
    p->hierarchy_grids[local] = (htc_hierarchy_grid){ .cpus = 2 };
    p->hierarchy_grids[pools] = (htc_hierarchy_grid){ .cpus = 100, .latency_ns = 20 * HTC_SECOND };
    p->hierarchy_grids[madison] = (htc_hierarchy_grid){ .cpus = 2500, .tasks_max = 500, .latency_ns = 180 * HTC_SECOND };
    for (int q = 0; q < 4; q++) {
        p->hierarchy_queues[q] = (htc_hierarchy_queue){ .level = table[q].level, .next = table[q].next, .grids = table[q].grid, .grid_count = 1, .te_ns = table[q].te,
                                                        .tq_ns = table[q].tq, .cpus = table[q].cpus, .kflops = table[q].kflops };
        p->queues[q] = (htc_sim_grids_queue){ .size = sizeof *p->queues, .target_ns = table[q].target, .flags = table[q].flags };
    }
    p->hierarchy = (htc_hierarchy_options){ .size = sizeof p->hierarchy, .grids = p->hierarchy_grids, .grid_count = 3, .queues = p->hierarchy_queues, .queue_count = 4 };
    p->options = (htc_sim_grids_options){ .size = sizeof p->options, .hierarchy = &p->hierarchy, .grids = p->grids, .queues = p->queues, .classes = p->classes,
                                          .flow_ns = 4 * HTC_SECOND, .rest_ns = 2 * HOUR, .shelter_ns = 30 * MIN };
}

/* Table 1: 2 + 100 + 500 CPUs, no other users. */
static void table_1(htc_sim_grids_profile *p)
{
    static const double speed[3] = { P1, P2, P3 }, latency[3] = { 0, 20e9, 120e9 }, part[3] = { 0, 0.01, 0.07 };
    double              mean = (2 * P1 + 100 * P2 + 500 * P3) / 602;
    p->hierarchy_grids[madison].cpus = 500;
    for (int g = 0; g < 3; g++)
        p->grids[g] = (htc_sim_grids_grid){ .size = sizeof *p->grids, .kflops = speed[g], .speed_cv = 0.1, .latency = { HTC_SCALE_CONSTANT, 0, latency[g], 0 }, .evict_part = part[g] };
    p->classes[0] = (htc_sim_grids_class){ .size = sizeof *p->classes };
    p->classes[1] = (htc_sim_grids_class){ .size = sizeof *p->classes };
    p->jobs[0] = (htc_sim_grids_job){ .size = sizeof *p->jobs, .kflop = 3000 * 1.03 * 3600 * mean, .rho = 14, .tasks = 3000 };
    p->jobs[1] = (htc_sim_grids_job){ .size = sizeof *p->jobs, .arrival = 60 * HTC_SECOND, .kflop = 30 * P1, .rho = 14, .tasks = 1, .kind = 1 };
    p->options.n_classes = 2;
    p->options.jobs = p->jobs;
    p->options.n_jobs = 2;
}

/* The stream of section 6: bursts, three classes by size, pools that others use too. */
static void stream(htc_sim_grids_profile *p)
{
    static const double speed[3] = { P1, P2, P3 }, latency[3] = { 0, 20e9, 180e9 }, evictions[3] = { 0, 0.13, 0.42 }, ours[3] = { 0, 55, 141 };
    static const double share[4] = { 0.60, 0.28, 0.12 * 0.94, 0.12 * 0.06 };
    static const double least[4] = { P1, 0.1 * 3600 * P2, 267 * 3600 * P3, 24000.0 * 3600 * P3 }, most[4] = { 180 * P1, 267 * 3600 * P2, 4000.0 * 3600 * P3, 60000.0 * 3600 * P3 };
    for (int g = 0; g < 3; g++)
        p->grids[g] = (htc_sim_grids_grid){ .size = sizeof *p->grids, .kflops = speed[g], .speed_cv = g ? 0.25 : 0, .latency = { HTC_SCALE_EXPONENTIAL, 0, latency[g], 0 },
                                            .evict_per_h = evictions[g], .free_mean = ours[g], .free_cv = g ? 0.3 : 0, .free_ns = g ? 2 * HOUR : 0,
                                            .outage_gap_ns = g ? 15 * DAY : 0, .outage_ns = g ? HOUR : 0 };
    for (int k = 0; k < 4; k++)
        p->classes[k] = (htc_sim_grids_class){ .size = sizeof *p->classes, .share = share[k], .kflop_min = least[k], .kflop_max = most[k],
                                               .rho_mean = 19.2798, .rho_cv = 0.94686 }; /* median 14, sigma 0.8 */
    p->options.n_classes = 4;
    p->options.stream = (htc_sim_grids_stream){ .jobs = 2300, .burst = 12, .gap = { HTC_SCALE_EXPONENTIAL, 0, 15e9, 0 },
                                                .burst_gap = { HTC_SCALE_EXPONENTIAL, 0, 214 * 86400e9 * 12 / 2300, 0 } };
}

htc_status htc_sim_grids_superlink(const htc_env *env, uint32_t experiment, htc_sim_grids_profile **out)
{
    if (!out || experiment > HTC_SIM_GRIDS_STREAM)
        return HTC_EINVAL;
    htc_sim_grids_profile *p = htc__alloc(env, sizeof *p);
    if (!p)
        return HTC_ENOMEM;
    if (env)
        p->env = *env;
    deploy(p);
    if (experiment == HTC_SIM_GRIDS_TABLE_1)
        table_1(p);
    else
        stream(p);
    *out = p;
    return HTC_OK;
}

htc_sim_grids_options *htc_sim_grids_profile_options(htc_sim_grids_profile *profile)
{
    return profile ? &profile->options : NULL;
}

htc_status htc_sim_grids_profile_parts(htc_sim_grids_profile *p, htc_sim_grids_parts *parts)
{
    if (!p || !parts)
        return HTC_EINVAL;
    *parts = (htc_sim_grids_parts){ &p->hierarchy, p->hierarchy_grids, p->hierarchy_queues, p->grids, p->queues, p->classes, p->jobs };
    return HTC_OK;
}

void htc_sim_grids_profile_destroy(htc_sim_grids_profile *profile)
{
    if (!profile)
        return;
    htc_env env = profile->env;
    htc__free(&env, profile, sizeof *profile);
}
