/* Wrong use, strange clocks and no memory: a code, and the hierarchy is as it was. */
#include "expect.h"
#include <math.h>
#include <string.h>

#include "alloc_fail.h"
#include "hierarchy_fixture.h"

Test(hierarchy_use, refuses_what_is_no_hierarchy)
{
    htc_hierarchy        *h = NULL;
    superlink             good = superlink_2005();
    htc_hierarchy_grid    grids[3];
    static const uint32_t none[] = { 3 }, twice[] = { 1, 1 };
#define WRONG(change)                                                                                                  \
    do {                                                                                                               \
        superlink s = superlink_2005();                                                                                \
        memcpy(grids, superlink_grids, sizeof grids);                                                                  \
        s.options.queues = s.queues;                                                                                   \
        s.options.grids = grids;                                                                                       \
        change;                                                                                                        \
        cr_expect(eq(int, htc_hierarchy_create(NULL, &s.options, &h), HTC_EINVAL), "%s", #change);                     \
        cr_expect(h == NULL);                                                                                          \
    } while (0)
    WRONG(s.queues[0].tq_ns = s.queues[0].te_ns - 1);
    WRONG(s.queues[0].te_ns = 0);
    WRONG(s.queues[0].tq_ns = HTC_HIERARCHY_TIME_MAX + 1);
    WRONG(s.queues[0].cpus = 0);
    WRONG(s.queues[0].job_cpus = 3);
    WRONG(s.queues[0].kflops = 0);
    WRONG(s.queues[0].kflops = -1);
    WRONG(s.queues[0].kflops = NAN);
    WRONG(s.queues[0].kflops = INFINITY);
    WRONG((s.queues[0].kflops = 1e-200, s.queues[0].beta = 1e-200));
    WRONG(s.queues[0].beta = 1.1);
    WRONG(s.queues[0].beta = -0.1);
    WRONG(s.queues[0].beta = NAN);
    WRONG(s.queues[0].alpha = 1);
    WRONG(s.queues[0].alpha = NAN);
    WRONG(s.queues[0].policies = 1u << HTC_HIERARCHY_SHARE);
    WRONG(s.queues[0].flags = 16);
    WRONG(s.queues[0].grid_count = 0);
    WRONG(s.queues[0].grids = NULL);
    WRONG(s.queues[0].grids = none);
    WRONG((s.queues[0].grids = twice, s.queues[0].grid_count = 2));
    WRONG(s.queues[0].level = 0);
    WRONG(s.queues[0].level = UINT32_MAX);
    WRONG(s.queues[3].level = 4);
    WRONG(s.queues[0].level = 2);
    WRONG(s.queues[0].next = 0);
    WRONG(s.queues[0].next = HTC_HIERARCHY_NOWHERE);
    WRONG(s.queues[0].next = 4);
    WRONG(s.queues[1].next = 0);
    WRONG(s.queues[1].next = 2);
    WRONG(s.queues[3].next = 0);
    WRONG(grids[1].cpus = 0);
    WRONG(grids[1].latency_ns = HTC_NEVER);
    WRONG(grids[1].reserved = 1);
    WRONG(s.options.size = 4);
    WRONG(s.options.grids = NULL);
    WRONG(s.options.grid_count = 0);
    WRONG(s.options.grid_count = HTC_HIERARCHY_GRIDS_MAX + 1);
    WRONG(s.options.queues = NULL);
    WRONG(s.options.queue_count = 0);
    WRONG(s.options.queue_count = HTC_HIERARCHY_QUEUES_MAX + 1);
    WRONG(s.options.jobs_max = SIZE_MAX);
    WRONG(s.options.tasks_max = SIZE_MAX);
    WRONG(s.options.mode = 2);
    WRONG(s.options.migrate = 2);
    WRONG(s.options.sharing = 3);
    WRONG(s.options.sole = 3);
    WRONG(s.options.adapt = 2);
    WRONG(s.options.share_lambda = 1.5);
    WRONG(s.options.share_lambda = NAN);
    WRONG(s.options.share_margin = -1);
    WRONG(s.options.share_hold_ns = HTC_NEVER);
    cr_expect(eq(int, htc_hierarchy_create(NULL, NULL, &h), HTC_EINVAL));
    good.options.queues = good.queues;
    cr_expect(eq(int, htc_hierarchy_create(NULL, &good.options, NULL), HTC_EINVAL));
    struct {
        htc_hierarchy_options o;
        uint64_t              newer;
    } future = { good.options, 0 };
    future.o.size = sizeof future;
    cr_expect(eq(int, htc_hierarchy_create(NULL, &future.o, &h), HTC_OK));
    htc_hierarchy_destroy(h);
    future.newer = 1;
    cr_expect(eq(int, htc_hierarchy_create(NULL, &future.o, &h), HTC_EABI));
}

Test(hierarchy_use, refuses_wrong_use)
{
    htc_hierarchy                *h = open_superlink();
    htc_hierarchy_job             job = { .size = sizeof job, .id = 1, .kflop = 1 };
    htc_hierarchy_decision        d = { .id = 77 };
    const htc_hierarchy_decision *list;
    htc_hierarchy_task            task = { .size = sizeof task, .id = 1 };
    htc_hierarchy_grant           grant;
    htc_hierarchy_job_info        job_info;
    htc_hierarchy_queue_info      queue_info;
    htc_hierarchy_grid_info       grid_info;
    htc_hierarchy_proposal        proposals[4];
    const htc_hierarchy_proposal *proposed;
    uint64_t                      id;
    size_t                        n, cursor = 0;
    uint32_t                      queue;
    double                        seconds;
    cr_expect(eq(int, htc_hierarchy_arrive(h, 4, &job, 0, &d), HTC_EINVAL));
    cr_expect(eq(int, htc_hierarchy_arrive(NULL, 0, &job, 0, &d), HTC_EINVAL));
    cr_expect(eq(int, htc_hierarchy_arrive(h, 0, NULL, 0, &d), HTC_EINVAL));
    cr_expect(eq(int, htc_hierarchy_arrive(h, 0, &job, 0, NULL), HTC_EINVAL));
    static const double bad[] = { -1, NAN, INFINITY, -INFINITY, 1e31 };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        job.kflop = bad[i];
        cr_expect(eq(int, htc_hierarchy_arrive(h, 0, &job, 0, &d), HTC_EINVAL));
    }
    job = (htc_hierarchy_job){ .size = sizeof job, .id = 1, .kflop = 1, .te_ns = 1 };
    cr_expect(eq(int, htc_hierarchy_restore(h, 0, &job, 0), HTC_EINVAL), "longer in execution than in the queue");
    job.tq_ns = HTC_NEVER;
    cr_expect(eq(int, htc_hierarchy_restore(h, 0, &job, 0), HTC_EINVAL));
    job = (htc_hierarchy_job){ .size = 1, .id = 1, .kflop = 1 };
    cr_expect(eq(int, htc_hierarchy_arrive(h, 0, &job, 0, &d), HTC_EINVAL));
    cr_expect(eq(u64, d.id, 77), "untouched on failure");
    job.size = sizeof job;
    cr_assert(eq(int, htc_hierarchy_arrive(h, 0, &job, 0, &d), HTC_OK));
    cr_expect(eq(int, htc_hierarchy_arrive(h, 0, &job, 0, &d), HTC_EEXISTS));
    cr_expect(eq(int, htc_hierarchy_bound(h, 2, 1, 0, &d), HTC_ENOTFOUND));
    cr_expect(eq(int, htc_hierarchy_bound(NULL, 1, 1, 0, &d), HTC_EINVAL));
    cr_expect(eq(int, htc_hierarchy_estimated(h, 1, 0, &d), HTC_EINVAL), "it is not being estimated");
    cr_expect(eq(int, htc_hierarchy_estimated(h, 2, 0, &d), HTC_ENOTFOUND));
    cr_expect(eq(int, htc_hierarchy_enforce(h, 4, 0, &list, &n), HTC_EINVAL));
    cr_expect(eq(int, htc_hierarchy_enforce(h, 0, 0, NULL, &n), HTC_EINVAL));
    cr_expect(eq(int, htc_hierarchy_enforce(NULL, 0, 0, &list, &n), HTC_EINVAL));
    cr_expect(eq(int, htc_hierarchy_moved(h, 1, 0, &d), HTC_EINVAL), "nobody told it to go");
    cr_expect(eq(int, htc_hierarchy_moved(h, 2, 0, &d), HTC_ENOTFOUND));
    cr_expect(eq(int, htc_hierarchy_stay(h, 1, 0), HTC_EINVAL));
    cr_expect(eq(int, htc_hierarchy_stay(h, 2, 0), HTC_ENOTFOUND));
    cr_expect(eq(int, htc_hierarchy_remove(h, 2, 0), HTC_ENOTFOUND));
    cr_expect(eq(int, htc_hierarchy_remove(NULL, 2, 0), HTC_EINVAL));
    task.grid = 1;
    cr_expect(eq(int, htc_hierarchy_task_started(h, &task, 0), HTC_EINVAL), "not a grid of its queue");
    task.grid = 0;
    task.kflop = NAN;
    cr_expect(eq(int, htc_hierarchy_task_started(h, &task, 0), HTC_EINVAL));
    task.kflop = 1;
    task.id = 2;
    cr_expect(eq(int, htc_hierarchy_task_started(h, &task, 0), HTC_ENOTFOUND));
    task.id = 1;
    cr_expect(eq(int, htc_hierarchy_task_started(h, &task, 0), HTC_OK));
    cr_expect(eq(int, htc_hierarchy_task_started(h, &task, 0), HTC_EEXISTS));
    cr_expect(eq(int, htc_hierarchy_split(h, 1, 1), HTC_OK));
    task.task = 1;
    cr_expect(eq(int, htc_hierarchy_task_started(h, &task, 0), HTC_EINVAL), "all its tasks run");
    cr_expect(eq(int, htc_hierarchy_task_done(h, 1, 1, 0), HTC_ENOTFOUND));
    cr_expect(eq(int, htc_hierarchy_task_lost(h, 1, 1, 0), HTC_ENOTFOUND));
    cr_expect(eq(int, htc_hierarchy_split(h, 2, 1), HTC_ENOTFOUND));
    cr_expect(eq(int, htc_hierarchy_dispatch(h, 0, 1, 1, &grant, 1, &n), HTC_EINVAL));
    cr_expect(eq(int, htc_hierarchy_dispatch(h, 0, 0, 1, NULL, 1, &n), HTC_EINVAL));
    cr_expect(eq(int, htc_hierarchy_get_job(h, 2, 0, &job_info), HTC_ENOTFOUND));
    cr_expect(eq(int, htc_hierarchy_get_queue(h, 4, &queue_info), HTC_EINVAL));
    cr_expect(eq(int, htc_hierarchy_get_grid(h, 3, &grid_info), HTC_EINVAL));
    cr_expect(eq(sz, htc_hierarchy_jobs(h, 4, &cursor, &id, 1), 0));
    cr_expect(eq(sz, htc_hierarchy_jobs(h, 0, NULL, &id, 1), 0));
    cr_expect(eq(int, htc_hierarchy_policy(h, 0, HTC_HIERARCHY_SHARE, 1), HTC_EINVAL));
    cr_expect(eq(int, htc_hierarchy_policy(h, 0, 0, 1), HTC_EINVAL));
    cr_expect(eq(int, htc_hierarchy_policy(h, 4, 1, 1), HTC_EINVAL));
    cr_expect(eq(int, htc_hierarchy_policy(h, 0, 1, 2), HTC_EINVAL));
    cr_expect(eq(int, htc_hierarchy_sample(h, 3, 0, 0, 0), HTC_EINVAL));
    cr_expect(eq(int, htc_hierarchy_peer(h, 0, 1), HTC_EINVAL), "not a remote queue");
    cr_expect(eq(int, htc_hierarchy_share(h, 4, 0, &list, &n), HTC_EINVAL));
    cr_expect(eq(int, htc_hierarchy_offer(h, 1, &job, 2, 0, 0, &d), HTC_EINVAL), "home is not remote");
    cr_expect(eq(int, htc_hierarchy_expected(h, 2, 0, 0, &seconds), HTC_ENOTFOUND));
    cr_expect(eq(int, htc_hierarchy_expected(h, 1, 4, 0, &seconds), HTC_EINVAL));
    cr_expect(eq(int, htc_hierarchy_plan(h, proposals, 3), HTC_EINVAL));
    cr_expect(eq(int, htc_hierarchy_adapt(h, 0, NULL, &n), HTC_EINVAL));
    cr_expect(eq(int, htc_hierarchy_adapt(h, 0, &proposed, &n), HTC_OK));
    cr_expect(eq(int, htc_hierarchy_entry(h, NULL, &queue), HTC_EINVAL));
    cr_expect(eq(int, htc_hierarchy_reorder(h, NULL, 0), HTC_EINVAL));
    htc_hierarchy_destroy(h);
    htc_hierarchy_destroy(NULL);
    htc_hierarchy_options_init(NULL, 8);
}

/* CPU time is counted up to the end of all numbers, not around it: a rate of losses is made of it. */
Test(hierarchy_use, cpu_time_does_not_come_round)
{
    htc_hierarchy          *h = open_small(PLAIN, PLAIN, NULL);
    htc_hierarchy_grid_info grid;
    arrive(h, 0, 1, 10, 0);
    for (uint32_t task = 0; task < 3; task++)
        start(h, 1, task, 0, 1, 0);
    for (uint32_t task = 0; task < 3; task++)
        cr_assert(eq(int, htc_hierarchy_task_lost(h, 1, task, HTC_NEVER - 1), HTC_OK));
    cr_expect(eq(u64, look(h, 0).busy_ns, HTC_NEVER));
    cr_expect(eq(u64, look(h, 0).lost_ns, HTC_NEVER));
    cr_assert(eq(int, htc_hierarchy_get_grid(h, 0, &grid), HTC_OK));
    cr_expect(grid.lost_per_h < 1e-6);
    htc_hierarchy_destroy(h);
}

/* The end of time, and a clock that runs backwards: nothing wraps, nothing moves. */
Test(hierarchy_use, survives_any_clock)
{
    htc_hierarchy         *h = open_small(PLAIN, PLAIN, NULL);
    htc_hierarchy_job_info info;
    htc_hierarchy_job      old = { .size = sizeof old, .id = 3, .kflop = 1, .tq_ns = HTC_HIERARCHY_TIME_MAX, .te_ns = 5 };
    size_t                 n;
    cr_assert(eq(int, htc_hierarchy_restore(h, 0, &old, 10), HTC_OK), "older than the clock");
    cr_assert(eq(int, htc_hierarchy_get_job(h, 3, 10, &info), HTC_OK));
    cr_expect(eq(u64, info.tq_ns, HTC_HIERARCHY_TIME_MAX));
    cr_expect(eq(u64, info.te_ns, 5));
    arrive(h, 0, 1, 1, 1000);
    cr_assert(eq(int, htc_hierarchy_get_job(h, 1, 1, &info), HTC_OK));
    cr_expect(eq(u64, info.tq_ns, 0), "backwards is standing still");
    enforce(h, 0, 1, &n);
    cr_expect(eq(sz, n, 1));
    arrive(h, 0, 2, 0, HTC_NEVER);
    enforce(h, 0, HTC_NEVER, &n);
    enforce(h, 0, HTC_NEVER - 1, &n);
    htc_hierarchy_destroy(h);
}

static htc_hierarchy_job_info look_at(const htc_hierarchy *h, uint64_t id, htc_ns now)
{
    htc_hierarchy_job_info info = { 0 };
    cr_assert(eq(int, htc_hierarchy_get_job(h, id, now, &info), HTC_OK));
    return info;
}

/* Every call that may need memory, each tried again once if it was refused. Answers 0 if memory is gone for good. */
static int goes_through(htc_hierarchy *h, pair *p)
{
    htc_hierarchy_decision        d;
    const htc_hierarchy_decision *told;
    htc_hierarchy_queue           queues[4];
    size_t                        n = 0;
#define TWICE(call, unchanged)                                                                                         \
    do {                                                                                                               \
        htc_status status = (call);                                                                                    \
        if (status == HTC_ENOMEM) {                                                                                    \
            cr_expect(unchanged, "%s", #call);                                                                         \
            status = (call);                                                                                           \
        }                                                                                                              \
        if (status == HTC_ENOMEM)                                                                                      \
            return 0;                                                                                                  \
        cr_assert(eq(int, status, HTC_OK), "%s", #call);                                                               \
    } while (0)
    for (uint64_t id = 0; id < 100; id++) {
        htc_hierarchy_job job = { .size = sizeof job, .id = id, .kflop = 1000 };
        TWICE(htc_hierarchy_arrive(h, 0, &job, id, &d), htc_hierarchy_remove(h, id, id) == HTC_ENOTFOUND);
        htc_hierarchy_task task = { .size = sizeof task, .id = id, .kflop = 10 };
        TWICE(htc_hierarchy_task_started(h, &task, id), htc_hierarchy_task_done(h, id, 0, id) == HTC_ENOTFOUND);
    }
    cr_assert(eq(int, htc_hierarchy_share(h, 0, 200, &told, &n), HTC_OK), "needs no memory");
    cr_assert(gt(sz, n, 20));
    for (uint64_t id = 0; id < 100; id++)
        if (look_at(h, id, 200).state == HTC_HIERARCHY_LEAVING)
            TWICE(htc_hierarchy_moved(h, id, 201, &d), look_at(h, id, 201).state == HTC_HIERARCHY_LEAVING && look_at(h, id, 201).running == 1);
    memcpy(queues, p->queues, sizeof p->queues);
    queues[3] = queues[0];
    p->options.queues = queues;
    p->options.queue_count = 4;
    htc_hierarchy_queue_info info;
    TWICE(htc_hierarchy_reorder(h, &p->options, 202), htc_hierarchy_get_queue(h, 3, &info) == HTC_EINVAL);
    cr_assert(eq(int, htc_hierarchy_get_queue(h, 0, &info), HTC_OK));
    cr_assert(eq(int, htc_hierarchy_enforce(h, 0, 2000000 * HTC_SECOND, &told, &n), HTC_OK));
    cr_expect(eq(u64, n, info.jobs), "all that did not move are overdue; that needs no memory either");
    return 1;
}

static void without_memory(alloc_fail *f)
{
    htc_env        env = alloc_fail_env(f);
    htc_hierarchy *h = NULL;
    pair           p;
    pair_init(&p);
    if (htc_hierarchy_create(&env, &p.options, &h) == HTC_OK) {
        int through = goes_through(h, &p);
        cr_expect(through || f->refused);
        cr_expect(through || !f->once, "one refusal is survived");
    } else {
        cr_expect(f->refused > 0 && h == NULL);
    }
    htc_hierarchy_destroy(h);
    cr_expect(eq(sz, f->live, 0));
    cr_expect(eq(sz, f->wrong_sizes, 0));
}

Test(hierarchy_use, is_as_it_was_without_memory)
{
    ALLOC_FAIL_EVERY (f, 200)
        without_memory(&f);
    ALLOC_FAIL_ONCE (f, 200)
        without_memory(&f);
}
