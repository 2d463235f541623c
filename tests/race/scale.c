/* A scale run whose parts go through their windows on two threads: they share nothing but what they hand over. */
#include "race.h"
#include "scale_crowd.h"

#include "htcsched/sim_manytask.h"

/* Grids of nodes that steal, each a part. */
static void run_grids(void)
{
    const htc_sim_manytask_group g = { .size = sizeof g, .nodes = 20, .cores = 3 };
    htc_sim_manytask_options     o = { .size = sizeof o, .architecture = HTC_SIM_MANYTASK_DISTRIBUTED, .groups = &g, .n_groups = 1, .tasks = 2000, .grids = 3, .nudge_ns = 10 * HTC_MS,
                                       .length = { HTC_SCALE_EXPONENTIAL, 0, 1e9, 0 } };
    htc_sim_manytask_report      alone = { .size = sizeof alone }, both = alone;
    pair                         p;
    htc_scale_host               host = { .size = sizeof host, .parallel = in_pair, .ctx = &p };
    race_check(htc_sim_manytask_run(NULL, &o, &alone, NULL, NULL) == HTC_OK && pair_open(&p) == 0, "grids on one thread");
    o.host = &host;
    race_check(htc_sim_manytask_run(NULL, &o, &both, NULL, NULL) == HTC_OK, "grids on two threads");
    pair_close(&p);
    race_check(alone.scale.hash == both.scale.hash && !both.scale.wrong[0], "two threads come to other grids than one: %s", both.scale.wrong);
}

/* One machine in parts, which go ahead of each other. */
static void run_parts(void)
{
    const htc_sim_manytask_group g = { .size = sizeof g, .nodes = 100, .cores = 20 };
    htc_steal_options            steal = { .size = sizeof steal, .poll_ns = 10 * HTC_MS, .at_ceiling = HTC_STEAL_GO_ON };
    htc_sim_manytask_options     o = { .size = sizeof o, .architecture = HTC_SIM_MANYTASK_DISTRIBUTED, .groups = &g, .n_groups = 1, .tasks = 40000, .steal = &steal,
                                       .length = { HTC_SCALE_EXPONENTIAL, 0, 100e9, 0 } };
    htc_sim_manytask_report      one = { .size = sizeof one }, parts = one;
    pair                         p;
    htc_scale_host               host = { .size = sizeof host, .parallel = in_pair, .ctx = &p };
    race_check(htc_sim_manytask_run(NULL, &o, &one, NULL, NULL) == HTC_OK && pair_open(&p) == 0, "one part");
    o.host = &host;
    o.parts = 3;
    race_check(htc_sim_manytask_run(NULL, &o, &parts, NULL, NULL) == HTC_OK, "three parts on two threads");
    race_check(pair_close(&p) > 100, "both threads had work");
    race_check(one.scale.hash == parts.scale.hash && !parts.scale.wrong[0], "parts come to another run than one: %s", parts.scale.wrong);
}

int main(void)
{
    run_grids();
    run_parts();
    static crowd     c;
    htc_scale_report alone = { .size = sizeof alone }, both = alone;
    for (int threads = 0; threads < 2; threads++) {
        pair           p;
        htc_scale_host host = { .size = sizeof host, .parallel = threads ? in_pair : NULL, .ctx = &p };
        c = (crowd){ .hops = 60, .hasty = NODES };
        race_check(!threads || pair_open(&p) == 0, "no thread");
        htc_scale *s = crowd_open(&c, 30, &host);
        race_check(s && htc_scale_run(s) == HTC_OK, "the run");
        htc_scale_report_get(s, threads ? &both : &alone);
        htc_scale_destroy(s);
        if (threads)
            pair_close(&p);
    }
    race_check(alone.hash == both.hash && !both.wrong[0], "two threads come to another run than one: %s", both.wrong);
    printf("%llu events on two threads\n", (unsigned long long)both.events);
    return 0;
}
