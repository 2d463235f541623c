/* The scale model of several grids calls the policy: with one that ignores limits, jobs stay where they are. */
#include <stdio.h>
#include <stdlib.h>

#include "core/fault.h"
#include "htcsched/sim_grids.h"

static int failures;

static void expect(int holds, const char *what)
{
    if (!holds) {
        printf("%s\n", what);
        failures++;
    }
}

typedef struct course {
    htc_sim_grids_report report;
    htc_sim_grids_result queue[4];
} course;

static course run_with(htc__broken broken)
{
    course                 c = { .report = { .size = sizeof c.report } };
    htc_sim_grids_profile *p = NULL;
    expect(htc_sim_grids_superlink(NULL, HTC_SIM_GRIDS_STREAM, &p) == HTC_OK, "no profile");
    htc_sim_grids_options *o = htc_sim_grids_profile_options(p);
    o->seed = 1;
    o->stream.jobs = 300;
    htc__broken_set(broken, 1);
    expect(htc_sim_grids_run(NULL, o, &c.report, c.queue, NULL, NULL) == HTC_OK, "the run fails");
    htc__broken_set(broken, 0);
    expect(!c.report.scale.wrong[0], c.report.scale.wrong);
    htc_sim_grids_profile_destroy(p);
    return c;
}

int main(void)
{
    course as_it_is = run_with(HTC__BROKEN_NOTHING), again = run_with(HTC__BROKEN_NOTHING), broken = run_with(HTC__BROKEN_limits_ignored);
    printf("%llu jobs are terminated and %.0f core seconds are lost by moves; %llu and %.0f if the policy ignores limits\n",
           (unsigned long long)as_it_is.report.terminated, as_it_is.report.moved_s, (unsigned long long)broken.report.terminated, broken.report.moved_s);
    expect(as_it_is.report.scale.hash == again.report.scale.hash, "the same run is another one");
    expect(as_it_is.report.terminated > 0 && as_it_is.report.moved_s > 0, "no job was told to leave");
    expect(broken.report.terminated == 0 && broken.report.scale.hash != as_it_is.report.scale.hash, "without limits the run is the same: the policy is not called");
    return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
