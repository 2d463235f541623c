/* The hierarchies that the tests look at, and calls that must succeed. */
#ifndef HTC_TESTS_HIERARCHY_FIXTURE_H
#define HTC_TESTS_HIERARCHY_FIXTURE_H

#include "expect.h"

#include "htcsched/hierarchy.h"

#define MIN (60 * HTC_SECOND)

/* The deployment of the paper (section 5, table 2); latencies as in 4.2 of the specification. */
static const htc_hierarchy_grid superlink_grids[] = {
    { .cpus = 2 },
    { .cpus = 100, .latency_ns = 20 * HTC_SECOND },
    { .cpus = 2500, .tasks_max = 500, .latency_ns = 180 * HTC_SECOND },
};
static const uint32_t local[] = { 0 }, condor[] = { 1 }, madison[] = { 2 };

typedef struct superlink {
    htc_hierarchy_queue   queues[4];
    htc_hierarchy_options options;
} superlink;

static inline superlink superlink_2005(void)
{
    return (superlink){
        .queues = { { .level = 1, .next = 1, .grids = local, .grid_count = 1, .te_ns = 3 * MIN, .tq_ns = 6 * MIN, .cpus = 2,
                      .kflops = 817477 },
                    { .level = 2, .next = 3, .grids = condor, .grid_count = 1, .te_ns = 160 * MIN, .tq_ns = 320 * MIN,
                      .cpus = 100, .kflops = 775251 },
                    { .level = 2, .next = 3, .grids = madison, .grid_count = 1, .te_ns = 160 * MIN, .tq_ns = 160 * MIN,
                      .cpus = 500, .kflops = 649505 },
                    { .level = 3, .next = HTC_HIERARCHY_NOWHERE, .grids = madison, .grid_count = 1, .te_ns = 2880 * MIN,
                      .tq_ns = 2880 * MIN, .cpus = 500, .kflops = 649505 } },
        .options = { .size = sizeof(htc_hierarchy_options), .grids = superlink_grids, .grid_count = 3, .queue_count = 4 }
    };
}

static inline htc_hierarchy *superlink_open(superlink *s)
{
    htc_hierarchy *h = NULL;
    s->options.queues = s->queues;
    cr_assert(eq(int, htc_hierarchy_create(NULL, &s->options, &h), HTC_OK));
    return h;
}

static inline htc_hierarchy *open_superlink(void)
{
    superlink s = superlink_2005();
    return superlink_open(&s);
}

static inline htc_hierarchy_decision arrive(htc_hierarchy *h, uint32_t queue, uint64_t id, double kflop, htc_ns now)
{
    htc_hierarchy_job      job = { .size = sizeof job, .id = id, .kflop = kflop };
    htc_hierarchy_decision d = { 0 };
    cr_assert(eq(int, htc_hierarchy_arrive(h, queue, &job, now, &d), HTC_OK));
    return d;
}

static inline htc_hierarchy_decision moved(htc_hierarchy *h, uint64_t id, htc_ns now)
{
    htc_hierarchy_decision d = { 0 };
    cr_assert(eq(int, htc_hierarchy_moved(h, id, now, &d), HTC_OK));
    return d;
}

static inline void start(htc_hierarchy *h, uint64_t id, uint32_t task, uint32_t grid, double kflop, htc_ns now)
{
    htc_hierarchy_task t = { .size = sizeof t, .id = id, .task = task, .grid = grid, .kflop = kflop };
    cr_assert(eq(int, htc_hierarchy_task_started(h, &t, now), HTC_OK));
}

static inline const htc_hierarchy_decision *enforce(htc_hierarchy *h, uint32_t queue, htc_ns now, size_t *n)
{
    const htc_hierarchy_decision *d = NULL;
    cr_assert(eq(int, htc_hierarchy_enforce(h, queue, now, &d, n), HTC_OK));
    return d;
}

static inline htc_hierarchy_queue_info look(const htc_hierarchy *h, uint32_t queue)
{
    htc_hierarchy_queue_info info;
    cr_assert(eq(int, htc_hierarchy_get_queue(h, queue, &info), HTC_OK));
    return info;
}

/* Two levels, made for small numbers: N = 2, P = 1 KFlop/s; C_e is 20, C_q is 40 at the top and 200 below. */
static const htc_hierarchy_grid small_grids[] = { { .cpus = 2 }, { .cpus = 2, .memory_mb = 4096 } };

static inline htc_hierarchy *open_small(htc_hierarchy_queue top, htc_hierarchy_queue bottom, const htc_hierarchy_options *more)
{
    static const uint32_t first[] = { 0 }, second[] = { 1 };
    htc_hierarchy_queue   queues[] = {
        { .level = 1, .next = 1, .grids = first, .grid_count = 1, .te_ns = 10 * HTC_SECOND, .tq_ns = 20 * HTC_SECOND,
            .cpus = 2, .kflops = 1, .policies = top.policies, .flags = top.flags, .job_cpus = top.job_cpus },
        { .level = 2, .next = HTC_HIERARCHY_NOWHERE, .grids = second, .grid_count = 1, .te_ns = 100 * HTC_SECOND,
            .tq_ns = 100 * HTC_SECOND, .cpus = 2, .kflops = 1, .policies = bottom.policies, .flags = bottom.flags }
    };
    htc_hierarchy_options o = more ? *more : (htc_hierarchy_options){ 0 };
    htc_hierarchy        *h = NULL;
    o.size = sizeof o;
    o.grids = small_grids;
    o.grid_count = 2;
    o.queues = queues;
    o.queue_count = 2;
    cr_assert(eq(int, htc_hierarchy_create(NULL, &o, &h), HTC_OK));
    return h;
}

#define PLAIN ((htc_hierarchy_queue){ 0 })

/* Two queues side by side, one below; each CPU does 1 KFlop a second. */
typedef struct pair {
    htc_hierarchy_grid    grids[3];
    htc_hierarchy_queue   queues[3];
    htc_hierarchy_options options;
} pair;

static const uint32_t pair_list[] = { 0, 1, 2 };

static inline void pair_init(pair *p)
{
    *p = (pair){ .grids = { { .cpus = 10, .latency_ns = 20 * HTC_SECOND }, { .cpus = 10, .latency_ns = 20 * HTC_SECOND },
                            { .cpus = 10, .latency_ns = 200 * HTC_SECOND } } };
    for (uint32_t i = 0; i < 3; i++)
        p->queues[i] = (htc_hierarchy_queue){ .level = i < 2 ? 1 : 2, .next = i < 2 ? 2 : HTC_HIERARCHY_NOWHERE, .grids = &pair_list[i],
                                              .grid_count = 1, .te_ns = 100000 * HTC_SECOND, .tq_ns = 1000000 * HTC_SECOND,
                                              .cpus = 10, .kflops = 1 };
    p->options = (htc_hierarchy_options){ .size = sizeof p->options, .grids = p->grids, .grid_count = 3, .queues = p->queues,
                                          .queue_count = 3 };
}

static inline htc_hierarchy *pair_open(pair *p)
{
    htc_hierarchy *h = NULL;
    cr_assert(eq(int, htc_hierarchy_create(NULL, &p->options, &h), HTC_OK));
    return h;
}

#endif
