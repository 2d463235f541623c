/* Two grids and three jobs of unknown size: two CPUs that answer at once, and five hundred that are slow to start. */
#include <stdio.h>

#include "htcsched/hierarchy.h"

static void say(const char *what, const htc_hierarchy_decision *d)
{
    static const char *const action[] = { "", "queue", "estimate", "migrate", "reject", "terminate", "stay" };
    static const char *const reason[] = { "", ", overload", ", mismatch", ", overdue", ", will be overdue", ", queue too long" };
    printf("job %d %s -> %s%s\n", (int)d->id, what, action[d->action], d->reason <= 5 ? reason[d->reason] : "");
}

int main(void)
{
    static const htc_hierarchy_grid grids[] = { { .cpus = 2 }, { .cpus = 500, .latency_ns = 20 * HTC_SECOND } };
    static const uint32_t           local[] = { 0 }, pool[] = { 1 };
    /* Limits of one job: 3 and 160 minutes. P is in KFlop a second; here 1, so that complexities are seconds of one CPU. */
    const htc_hierarchy_queue queues[] = {
        { .level = 1, .next = 1, .grids = local, .grid_count = 1, .te_ns = 180 * HTC_SECOND, .tq_ns = 360 * HTC_SECOND,
          .cpus = 2, .kflops = 1 },
        { .level = 2, .next = HTC_HIERARCHY_NOWHERE, .grids = pool, .grid_count = 1, .te_ns = 9600 * HTC_SECOND,
          .tq_ns = 19200 * HTC_SECOND, .cpus = 500, .kflops = 1 },
    };
    htc_hierarchy_options         options = HTC_HIERARCHY_OPTIONS_INIT;
    htc_hierarchy                *h;
    htc_hierarchy_decision        d;
    const htc_hierarchy_decision *told;
    size_t                        n;
    options.grids = grids;
    options.grid_count = options.queue_count = 2;
    options.queues = queues;
    if (htc_hierarchy_create(NULL, &options, &h) != HTC_OK)
        return 1;
    for (uint64_t id = 1; id <= 3; id++) {
        htc_hierarchy_job job = { .size = sizeof job, .id = id, .kflop = id == 1 ? 100 : 0 };
        htc_hierarchy_arrive(h, 0, &job, 0, &d);
        say("arrives", &d);
    }
    /* The estimators have until d.until: 6 % of the three minutes. */
    htc_hierarchy_bound(h, 2, 200, 4 * HTC_SECOND, &d);
    say("is estimated at 200 s", &d);
    htc_hierarchy_bound(h, 3, 90000, 11 * HTC_SECOND, &d);
    say("is estimated at 90000 s", &d);
    htc_hierarchy_moved(h, 3, 12 * HTC_SECOND, &d);
    say("arrives one level down", &d);
    /* Job 1 runs; job 2 has not begun when 95 s of its 360 are left: two CPUs cannot do 200 s of work in that. */
    htc_hierarchy_task task = { .size = sizeof task, .id = 1, .grid = 0, .kflop = 100 };
    htc_hierarchy_task_started(h, &task, 265 * HTC_SECOND - 50 * HTC_SECOND);
    htc_hierarchy_enforce(h, 0, 265 * HTC_SECOND, &told, &n);
    for (size_t i = 0; i < n; i++)
        say("is looked at again", &told[i]);
    htc_hierarchy_destroy(h);
    return 0;
}
