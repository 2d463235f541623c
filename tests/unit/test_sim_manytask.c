/* The many-task scale model: the same run as a slow and obvious model, exact where arithmetic says what comes out, the orderings of the published
 * figures at small size, the same run everywhere, and nothing lost. */
#include <math.h>

#include "alloc_fail.h"
#include "../scale_crowd.h"
#include "manytask_any.h"
#include "manytask_slow_others.h"
#include "property.h"

#include "htcsched/registry.h"

typedef struct tape_of_tasks {
    htc_sim_manytask_task task[SLOW_TASKS];
    uint64_t              n;
} tape_of_tasks;

static void note_task(void *ctx, const htc_sim_manytask_task *t)
{
    tape_of_tasks *log = ctx;
    if (log->n < SLOW_TASKS)
        log->task[log->n++] = *t;
}

/* Decision for decision: each task at the same place and time, as many rounds, messages and tasks stolen. */
Test(sim_manytask, is_the_slow_and_obvious_model)
{
    static slow          s;
    static tape_of_tasks log;
    uint64_t             stolen = 0, nudges = 0, turns[7] = { 0 };
    PROPERTY (rng, 1200) {
        any_run  a;
        uint64_t ended[SLOW_NODES];
        draw_run(&rng, &a);
        a.o.begun = note_task;
        a.o.ctx = &log;
        log.n = 0;
        htc_sim_manytask_report r = ran(&a.o, ended);
        (a.o.architecture < HTC_SIM_MANYTASK_FALKON ? slow_run : slow_run_other)(&s, &a.o);
        HOLDS(log.n == a.o.tasks && s.started == a.o.tasks && s.ended == a.o.tasks);
        for (uint64_t i = 0; i < log.n; i++)
            HOLDS(log.task[i].number == s.log[i].number && log.task[i].node == s.log[i].node && log.task[i].begin == s.log[i].begin && log.task[i].end == s.log[i].end);
        for (uint32_t i = 0; i < a.nodes; i++)
            HOLDS(ended[i] == s.node[i].ended);
        HOLDS(r.rounds == s.rounds && r.steals == s.steals && r.stolen == s.stolen && r.nudges == s.nudges);
        HOLDS(r.scale.sent == s.messages && r.scale.received == s.messages && r.scale.makespan == s.last_end * a.o.tick_ns);
        HOLDS(r.efficiency <= 1 + 1e-9 && r.utilisation <= 1 + 1e-9);
        stolen += r.stolen;
        nudges += r.nudges;
        turns[a.o.architecture]++;
    }
    cr_expect(stolen > property_times(1000) && nudges > property_times(100));
    for (int i = 0; i < 7; i++)
        cr_expect(turns[i] > property_times(100), "%d", i);
}

/* ---- by arithmetic ---- */

/* Without costs a central dispatcher is a perfect machine. With 1 ms a task it dispatches 1000 a second, and no more. */
Test(sim_manytask, a_dispatcher_saturates_at_its_rate)
{
    const htc_sim_manytask_group small = { .size = sizeof small, .nodes = 4, .cores = 100 }, large = { .size = sizeof large, .nodes = 64, .cores = 100 };
    htc_sim_manytask_options     o = { .size = sizeof o, .groups = &small, .n_groups = 1, .tasks = 4000, .length.mean_ns = 1e9, .dispatch_ns = HTC_NEVER, .latency_ns = 1,
                                       .bytes_per_s = UINT64_MAX };
    htc_sim_manytask_report      r = ran(&o, NULL);
    cr_expect(eq(dbl, r.efficiency, 1) && eq(dbl, r.throughput, 400) && eq(dbl, r.cv, 0) && eq(u64, r.scale.makespan, 10 * S));
    o.dispatch_ns = 0;
    r = ran(&o, NULL);
    cr_expect(r.throughput > 360 && r.throughput < 400, "%g", r.throughput); /* 400 cores want 400 a second of the 1000 */
    o.groups = &large;
    o.tasks = 64000;
    r = ran(&o, NULL);
    cr_expect(r.throughput > 980 && r.throughput <= 1000, "%g", r.throughput);
    cr_expect(r.efficiency < 0.16, "%g", r.efficiency); /* 1000 of 6400 cores */
}

static void most_busy(void *ctx, const htc_sim_manytask_sample *s)
{
    uint64_t *most = ctx;
    *most = s->busy > *most ? s->busy : *most;
}

/* A dispatcher that takes 1 ms for a task keeps no more of them running than 1 ms goes into their length, and so no published run had all its cores at work;
 * one that takes no time has. What a run needs in memory does not grow with the number of its tasks. */
Test(sim_manytask, all_cores_are_at_work_at_once)
{
    const htc_sim_manytask_group g = { .size = sizeof g, .nodes = 200, .cores = 1000 };
    uint64_t                     most = 0, bytes = 0, more = 0;
    htc_sim_manytask_options     o = { .size = sizeof o, .groups = &g, .n_groups = 1, .tasks = 400000, .length.mean_ns = 10e9, .dispatch_ns = HTC_NEVER, .sample_ns = S, .sample = most_busy,
                                       .ctx = &most };
    cr_expect(eq(u64, ran(&o, NULL).scale.ended, 400000) && eq(u64, most, 200000));
    o.tasks = 40000;
    o.dispatch_ns = 0;
    most = 0;
    (void)ran(&o, NULL);
    cr_expect(most > 9900 && most < 10010, "%llu", (unsigned long long)most);
    cr_assert(eq(int, htc_sim_manytask_memory(&o, &bytes), HTC_OK));
    o.tasks = UINT64_C(10000000000);
    cr_expect(eq(int, htc_sim_manytask_memory(&o, &more), HTC_OK) && eq(u64, more, bytes));
}

/* A tree of dispatchers has as many of the lowest ones as work at once. */
Test(sim_manytask, a_tree_goes_as_fast_as_its_root)
{
    const htc_sim_manytask_group g = { .size = sizeof g, .nodes = 64, .cores = 100 };
    htc_sim_manytask_options     o = { .size = sizeof o, .architecture = HTC_SIM_MANYTASK_HIERARCHICAL, .groups = &g, .n_groups = 1, .tasks = 64000, .length.mean_ns = 1e9, .fanout = 8 };
    htc_sim_manytask_report      r = ran(&o, NULL);
    cr_expect(r.throughput > 980 && r.throughput <= 1000, "%g", r.throughput);
    cr_expect(r.cv < 0.1, "%g", r.cv);
}

/* The systems that are compared with, on one core and on idle ones: each message and each cost stands in the end. Messages take 100 us here. */
Test(sim_manytask, others_take_what_their_messages_take)
{
    const htc_sim_manytask_group one = { .size = sizeof one, .nodes = 1, .cores = 1 }, many = { .size = sizeof many, .nodes = 100, .cores = 1 };
    htc_sim_manytask_options     o = { .size = sizeof o, .architecture = HTC_SIM_MANYTASK_FALKON, .groups = &one, .n_groups = 1, .tasks = 2, .length.mean_ns = 1e9, .bytes_per_s = UINT64_MAX };
    /* notice, question, 1 ms, task, 1 s, result; twice */
    cr_expect(eq(u64, ran(&o, NULL).scale.makespan, 2 * (S + 1400 * HTC_US)));
    o.architecture = HTC_SIM_MANYTASK_FALKON_TREE;
    o.hand_ns = 500 * HTC_US;
    cr_expect(eq(u64, ran(&o, NULL).scale.makespan, 600 * HTC_US + 2 * (S + 1400 * HTC_US)));
    o.architecture = HTC_SIM_MANYTASK_CLOUDKON;
    o.store_ns = 2 * HTC_MS;
    /* question, 1 ms, task, 1 s; state, 2 ms, answer before the next question */
    cr_expect(eq(u64, ran(&o, NULL).scale.makespan, 2 * (S + 1200 * HTC_US) + 2200 * HTC_US));
    o.architecture = HTC_SIM_MANYTASK_SPARROW;
    o.groups = &many;
    o.tasks = 10;
    o.schedulers = 1;
    o.placed = 10;
    o.probes = 10;
    /* question, answer, 10 tasks of 1 ms, and all are there at once */
    htc_sim_manytask_report r = ran(&o, NULL);
    cr_expect(eq(u64, r.scale.makespan, S + 10300 * HTC_US) && eq(u64, r.scale.sent, 210));
}

/* Falkon and its tree begin no more tasks than one dispatcher hands out; with a pull for each task CloudKon loses the same part of each core. */
Test(sim_manytask, others_have_their_bounds)
{
    const htc_sim_manytask_group g = { .size = sizeof g, .nodes = 64, .cores = 100 };
    htc_sim_manytask_options     o = { .size = sizeof o, .architecture = HTC_SIM_MANYTASK_FALKON, .groups = &g, .n_groups = 1, .tasks = 64000, .length.mean_ns = 1e9, .fanout = 8 };
    htc_sim_manytask_report      r = ran(&o, NULL);
    cr_expect(r.throughput > 970 && r.throughput <= 1000, "%g", r.throughput);
    o.architecture = HTC_SIM_MANYTASK_FALKON_TREE;
    o.hand_ns = 250 * HTC_US;
    r = ran(&o, NULL);
    cr_expect(r.throughput > 3500 && r.throughput <= 4000, "%g", r.throughput);
    o.architecture = HTC_SIM_MANYTASK_CLOUDKON;
    o.servers = 64000;
    o.store_ns = 100 * HTC_MS;
    r = ran(&o, NULL);
    cr_expect(fabs(r.efficiency - 10 / (10 * 1.00147 + 9 * 0.10027)) < 0.002, "%g", r.efficiency);
}

/* Nothing balances between the dispatchers of Falkon's tree: each has half of the tasks, and those with fast nodes are idle at the end. A tree that sends tasks
 * towards the least loaded is not. */
Test(sim_manytask, falkons_tree_does_not_balance)
{
    const htc_sim_manytask_group g[] = { { .size = sizeof *g, .nodes = 2, .cores = 1, .speed = 1 }, { .size = sizeof *g, .nodes = 2, .cores = 1, .speed = 4 } };
    htc_sim_manytask_options     o = { .size = sizeof o, .architecture = HTC_SIM_MANYTASK_FALKON_TREE, .groups = g, .n_groups = 2, .tasks = 400, .length.mean_ns = 1e9, .fanout = 2,
                                       .dispatch_ns = 100 * HTC_MS };
    double                       falkon = ran(&o, NULL).efficiency;
    o.architecture = HTC_SIM_MANYTASK_HIERARCHICAL;
    double tree = ran(&o, NULL).efficiency;
    cr_expect(falkon < 0.4 && tree > 0.55, "%g, %g", falkon, tree);
}

/* Two probes a task are better than one, which is chance; and both worse than stealing. */
Test(sim_manytask, sparrow_places_better_with_more_probes)
{
    const htc_sim_manytask_group g = { .size = sizeof g, .nodes = 64, .cores = 1 };
    htc_sim_manytask_options     o = { .size = sizeof o, .architecture = HTC_SIM_MANYTASK_SPARROW, .groups = &g, .n_groups = 1, .tasks = 6400, .length = { HTC_SCALE_UNIFORM, 0, 1e9, 1 },
                                       .placed = 8 };
    double                       mean[4] = { 0 };
    for (o.seed = 1; o.seed <= 20; o.seed++) {
        o.architecture = HTC_SIM_MANYTASK_SPARROW;
        for (o.probes = 1; o.probes <= 4; o.probes *= 2)
            mean[o.probes / 2] += ran(&o, NULL).efficiency / 20;
        o.architecture = HTC_SIM_MANYTASK_DISTRIBUTED;
        mean[3] += ran(&o, NULL).efficiency / 20;
    }
    cr_expect(mean[0] < mean[1] && mean[1] < mean[2] && mean[2] < mean[3] && mean[3] > 0.95, "%g, %g, %g, %g", mean[0], mean[1], mean[2], mean[3]);
}

/* Speeds: a node of twice the speed ends twice the tasks, and the ideal counts it twice. */
Test(sim_manytask, fast_nodes_do_more)
{
    const htc_sim_manytask_group g[] = { { .size = sizeof *g, .nodes = 4, .cores = 2, .speed = 1 }, { .size = sizeof *g, .nodes = 4, .cores = 2, .speed = 2 } };
    htc_sim_manytask_options     o = { .size = sizeof o, .architecture = HTC_SIM_MANYTASK_DISTRIBUTED, .groups = g, .n_groups = 2, .tasks = 24000, .length.mean_ns = 1e9 };
    uint64_t                     ended[8];
    htc_sim_manytask_report      r = ran(&o, ended);
    cr_expect(r.efficiency > 0.99 && r.efficiency <= 1, "%g", r.efficiency);
    for (int i = 0; i < 4; i++)
        cr_expect(fabs((double)ended[i] / 2000 - 1) < 0.02 && fabs((double)ended[4 + i] / 4000 - 1) < 0.02, "%d", i);
}

/* ---- traps of the published implementations ---- */

/* Half of one is none: a lone task that waits behind a long one would stay there. */
Test(sim_manytask, a_lone_task_is_stolen)
{
    const htc_sim_manytask_group g = { .size = sizeof g, .nodes = 2, .cores = 1 };
    const htc_ns                 lengths[] = { 100 * S, S };
    htc_sim_manytask_options     o = { .size = sizeof o, .architecture = HTC_SIM_MANYTASK_DISTRIBUTED, .groups = &g, .n_groups = 1, .tasks = 2, .lengths = lengths, .n_lengths = 2 };
    htc_sim_manytask_report      r = ran(&o, NULL);
    cr_expect(eq(u64, r.stolen, 1) && eq(u64, r.scale.makespan, 100 * S));
}

/* Thieves rest at the ceiling while one long task runs. The next batch wakes those that it comes to, and, with nudges, others. */
Test(sim_manytask, a_thief_at_rest_works_again)
{
    const htc_sim_manytask_group g = { .size = sizeof g, .nodes = 8, .cores = 1 };
    static htc_ns                lengths[81];
    htc_steal_options            steal = { .size = sizeof steal, .poll_ns = 10 * HTC_MS, .poll_ns_max = S };
    htc_sim_manytask_options     o = { .size = sizeof o, .architecture = HTC_SIM_MANYTASK_DISTRIBUTED, .groups = &g, .n_groups = 1, .tasks = 81, .lengths = lengths, .n_lengths = 81,
                                       .batch = 80, .below = 1, .steal = &steal, .nudge_ns = 10 * HTC_MS };
    uint64_t                     ended[8];
    lengths[0] = 100 * S; /* the root's core */
    for (int i = 1; i < 81; i++)
        lengths[i] = S;
    o.batch = 1;
    o.below = 0; /* one task waits before the next comes: the root's core has to be free */
    o.tasks = 2;
    ran(&o, NULL);
    o.tasks = 81;
    o.batch = 80;
    htc_sim_manytask_report r = ran(&o, ended);
    cr_expect(eq(u64, r.scale.makespan / S, 100));
    /* Now the long one first, alone, then the others after it: all thieves rest by then. */
    htc_ns late[] = { 100 * S, 10 * S, 10 * S, 10 * S, 10 * S, 10 * S, 10 * S, 10 * S, 10 * S, 10 * S, 10 * S, 10 * S, 10 * S, 10 * S, 10 * S, 10 * S, 10 * S };
    const htc_sim_manytask_group two = { .size = sizeof two, .nodes = 8, .cores = 1 };
    o.groups = &two;
    o.lengths = late;
    o.n_lengths = o.tasks = 17;
    o.batch = 16;
    o.below = 1;
    r = ran(&o, ended);
    cr_expect(r.scale.makespan < 130 * S, "%g s", (double)r.scale.makespan / 1e9);
}

/* A failed steal is no finished task: with half of the thieves in vain all the time the makespan is no shorter than the work. */
Test(sim_manytask, a_failed_steal_ends_no_task)
{
    const htc_sim_manytask_group g = { .size = sizeof g, .nodes = 256, .cores = 1 };
    htc_sim_manytask_options     o = { .size = sizeof o, .architecture = HTC_SIM_MANYTASK_DISTRIBUTED, .groups = &g, .n_groups = 1, .tasks = 2560, .length = { HTC_SCALE_UNIFORM, 0, 5000e9, 1 } };
    htc_sim_manytask_report      r = ran(&o, NULL);
    cr_expect(r.rounds > 2 * r.steals && eq(u64, r.scale.ended, 2560));
    cr_expect((double)r.scale.makespan / 1e9 >= r.scale.work_s / 256);
}

/* A thief that asks one neighbour after the other waits for as many round trips; one that asks all at once for one. Then come a request and the task. */
Test(sim_manytask, asking_in_turn_takes_a_round_trip_for_each_neighbour)
{
    const htc_sim_manytask_group g = { .size = sizeof g, .nodes = 9, .cores = 1 };
    htc_steal_options            steal = { .size = sizeof steal, .policy = policy("static"), .neighbours = 8 };
    htc_sim_manytask_options     o = { .size = sizeof o, .architecture = HTC_SIM_MANYTASK_DISTRIBUTED, .groups = &g, .n_groups = 1, .tasks = 2, .length.mean_ns = 10e9, .steal = &steal,
                                       .bytes_per_s = UINT64_MAX };
    cr_expect(eq(u64, ran(&o, NULL).scale.makespan, 10 * S + 4 * 100 * HTC_US));
    o.in_turn = 1;
    cr_expect(eq(u64, ran(&o, NULL).scale.makespan, 10 * S + (8 * 2 + 2) * 100 * HTC_US));
}

static uint32_t victims[64];

static htc_status note_the_chosen(void *ctx, const htc_steal_view *view, htc_rng *rng, uint32_t cap, uint32_t *out, uint32_t *count)
{
    const htc_steal_policy *one = ctx;
    htc_status              status = one->choose(one->ctx, view, rng, cap, out, count);
    if (view->failures == 0 && victims[view->self] == UINT32_MAX)
        victims[view->self] = out[0];
    return status;
}

/* Thieves of one seed that begin at the same moment ask different nodes. */
Test(sim_manytask, thieves_of_one_seed_ask_different_nodes)
{
    const htc_steal_policy       one = { .size = sizeof one, .name = "noted", .ctx = (void *)(uintptr_t)policy("one"), .choose = note_the_chosen };
    const htc_sim_manytask_group g = { .size = sizeof g, .nodes = 64, .cores = 1 };
    htc_steal_options            steal = { .size = sizeof steal, .policy = &one };
    htc_sim_manytask_options     o = { .size = sizeof o, .architecture = HTC_SIM_MANYTASK_DISTRIBUTED, .groups = &g, .n_groups = 1, .tasks = 640, .length.mean_ns = 1e9, .steal = &steal };
    uint32_t                     asked[64] = { 0 }, distinct = 0;
    memset(victims, 255, sizeof victims);
    ran(&o, NULL);
    for (uint32_t i = 1; i < 64; i++) {
        cr_assert(victims[i] < 64 && victims[i] != i, "thief %u", i);
        distinct += asked[victims[i]]++ == 0;
    }
    cr_expect(distinct > 30, "63 thieves ask %u nodes", distinct);
}

/* ---- another policy ---- */

static htc_status choose_nobody(void *ctx, const htc_steal_view *view, htc_rng *rng, uint32_t cap, uint32_t *out, uint32_t *count)
{
    (void)ctx;
    (void)view;
    (void)rng;
    (void)cap;
    (void)out;
    *count = 0;
    return HTC_OK;
}

static htc_status choose_the_first(void *ctx, const htc_steal_view *view, htc_rng *rng, uint32_t cap, uint32_t *out, uint32_t *count)
{
    (void)ctx;
    (void)rng;
    (void)cap;
    out[0] = view->self == 0 ? 1 : 0;
    *count = 1;
    return HTC_OK;
}

static uint64_t gives_nothing(void *ctx, const htc_steal_options *options, uint64_t waiting, uint64_t idle)
{
    (void)ctx;
    (void)options;
    (void)waiting;
    (void)idle;
    return 0;
}

static htc_ns waits_for_ever(void *ctx, const htc_steal_view *view)
{
    (void)ctx;
    (void)view;
    return HTC_NEVER;
}

static htc_status choose_out_of_range(void *ctx, const htc_steal_view *view, htc_rng *rng, uint32_t cap, uint32_t *out, uint32_t *count)
{
    (void)ctx;
    (void)rng;
    (void)cap;
    out[0] = view->n;
    *count = 1;
    return HTC_OK;
}

/* The policy decides: of each function of it something else follows. */
Test(sim_manytask, asks_the_policy_of_stealing)
{
    const htc_steal_policy       nobody = { .size = sizeof nobody, .name = "nobody", .choose = choose_nobody }, first = { .size = sizeof first, .name = "first", .choose = choose_the_first },
                                 miser = { .size = sizeof miser, .name = "miser", .choose = policy("random")->choose, .amount = gives_nothing },
                                 shy = { .size = sizeof shy, .name = "shy", .choose = policy("one")->choose, .wait = waits_for_ever },
                                 wrong = { .size = sizeof wrong, .name = "wrong", .choose = choose_out_of_range };
    const htc_sim_manytask_group g = { .size = sizeof g, .nodes = 64, .cores = 4 };
    htc_steal_options            steal = { .size = sizeof steal, .poll_ns = 10 * HTC_MS };
    htc_sim_manytask_options     o = { .size = sizeof o, .seed = 3, .architecture = HTC_SIM_MANYTASK_DISTRIBUTED, .groups = &g, .n_groups = 1, .tasks = 25600,
                                       .length = { HTC_SCALE_UNIFORM, 0, 1e9, 1 }, .steal = &steal };
    uint64_t                     ended[64];
    double                       as_it_is = ran(&o, NULL).efficiency;
    cr_expect(as_it_is > 0.98, "%g", as_it_is);
    steal.policy = &nobody;
    htc_sim_manytask_report r = ran(&o, ended);
    cr_expect(eq(u64, ended[0], 25600) && eq(u64, r.rounds, 0) && r.efficiency < 0.017);
    steal.policy = &miser;
    r = ran(&o, ended);
    cr_expect(eq(u64, ended[0], 25600) && r.rounds > 100 && eq(u64, r.steals, 0));
    steal.policy = &first;
    r = ran(&o, NULL);
    cr_expect(r.efficiency < 0.5 && r.steals > 64, "%g", r.efficiency); /* who has robbed the first is robbed by nobody */
    steal.policy = &shy;
    r = ran(&o, ended);
    cr_expect(r.efficiency < 0.2, "%g", r.efficiency); /* most have asked the wrong one at the beginning, and never again */
    steal.policy = &wrong;
    cr_expect(eq(int, htc_sim_manytask_run(NULL, &o, &r, NULL, NULL), HTC_EINVAL));
}

/* ---- orderings of the published figures ---- */

#define TRACE 100000

/* Lengths like those of the trace: a lognormal with its mean and deviation, cut at its maximum. */
static const htc_ns *trace(void)
{
    static htc_ns lengths[TRACE];
    htc_scale_law law = { HTC_SCALE_LOGNORMAL, 0, 95.2e9, 1.976 };
    htc__scale_drawer d = htc__scale_drawer_of(&law, HTC_MS);
    for (uint64_t i = 0; i < TRACE; i++) {
        uint64_t ms = htc__scale_drawer_ticks(&d, htc__scale_draw(99, i));
        lengths[i] = (ms < 1469620 ? ms : 1469620) * HTC_MS;
    }
    return lengths;
}

/* Efficiency of a bag of the trace, 100 tasks a core, all submitted to node 0. At the ceiling thieves go on: nobody nudges them here. */
static double of_trace(const char *name, uint32_t neighbours, uint32_t amount, uint64_t nodes, uint32_t cores)
{
    htc_sim_manytask_group   g = { .size = sizeof g, .nodes = nodes, .cores = cores };
    htc_steal_options        steal = { .size = sizeof steal, .policy = policy(name), .poll_ns = 10 * HTC_MS, .at_ceiling = HTC_STEAL_GO_ON, .neighbours = neighbours, .amount = amount };
    htc_sim_manytask_options o = { .size = sizeof o, .seed = 1, .architecture = HTC_SIM_MANYTASK_DISTRIBUTED, .groups = &g, .n_groups = 1, .tasks = nodes * cores * 100,
                                   .lengths = trace(), .n_lengths = TRACE, .steal = &steal };
    return ran(&o, NULL).efficiency;
}

/* Figure 35: with two static neighbours, the more is stolen at a time, up to half, the better; and all fall with the size. */
Test(sim_manytask, half_is_the_best_amount)
{
    static const uint32_t amounts[] = { HTC_STEAL_ONE, HTC_STEAL_TWO, HTC_STEAL_LOG2, HTC_STEAL_SQRT, HTC_STEAL_HALF };
    double                last = 0;
    for (int i = 0; i < 5; i++) {
        double now = of_trace("static", 2, amounts[i], 16, 100);
        cr_expect(now > last * 1.01, "amount %u: %.3f after %.3f", amounts[i], now, last);
        last = now;
    }
    double larger = of_trace("static", 2, HTC_STEAL_HALF, 64, 100), largest = of_trace("static", 2, HTC_STEAL_HALF, 128, 100);
    cr_expect(last > 0.85 && larger < last && largest < larger, "%.3f %.3f %.3f", last, larger, largest);
}

/* Figure 36: static neighbours have to be an eighth of all; of dynamic ones few are enough. */
Test(sim_manytask, static_neighbours_need_an_eighth)
{
    double two = of_trace("static", 2, 0, 256, 100), root = of_trace("static", 8, 0, 256, 100), eighth = of_trace("static", 32, 0, 256, 100);
    double dynamic_one = of_trace("one", 0, 0, 256, 100), dynamic_two = of_trace("two", 0, 0, 256, 100), dynamic_root = of_trace("sqrt", 0, 0, 256, 100);
    cr_expect(two < root && root < eighth && eighth > 0.85 && two < 0.6, "static %.3f %.3f %.3f", two, root, eighth);
    cr_expect(dynamic_two > 0.87 && dynamic_root > 0.87 && dynamic_one > two, "dynamic %.3f %.3f %.3f", dynamic_one, dynamic_two, dynamic_root);
}

static double throughput(uint32_t architecture, uint64_t nodes, uint32_t cores, double mean_ns, double spread)
{
    htc_sim_manytask_group   g = { .size = sizeof g, .nodes = nodes, .cores = cores };
    htc_sim_manytask_options o = { .size = sizeof o, .seed = 1, .architecture = architecture, .groups = &g, .n_groups = 1, .tasks = nodes * cores * 10,
                                   .length = { spread > 0 ? HTC_SCALE_UNIFORM : HTC_SCALE_CONSTANT, 0, mean_ns, spread } };
    return ran(&o, NULL).throughput;
}

/* Figures 37 and 38: both keep up while the dispatcher does; beyond 1000 tasks a second it does not, and stealing does. Tasks of 50 s on so
 * many nodes of 100 cores want as much as those of 5000 s on a hundred times as many cores. */
Test(sim_manytask, a_dispatcher_saturates_where_stealing_goes_on)
{
    double central = throughput(HTC_SIM_MANYTASK_CENTRAL, 64, 100, 50e9, 1), stealing = throughput(HTC_SIM_MANYTASK_DISTRIBUTED, 64, 100, 50e9, 1);
    cr_expect(central > 100 && fabs(stealing / central - 1) < 0.05, "%g %g", central, stealing);
    central = throughput(HTC_SIM_MANYTASK_CENTRAL, 2048, 100, 50e9, 1);
    stealing = throughput(HTC_SIM_MANYTASK_DISTRIBUTED, 2048, 100, 50e9, 1);
    cr_expect(central > 950 && central <= 1000 && stealing > 3000, "%g %g", central, stealing);
    central = throughput(HTC_SIM_MANYTASK_CENTRAL, 64, 100, 1e9, 0);
    stealing = throughput(HTC_SIM_MANYTASK_DISTRIBUTED, 64, 100, 1e9, 0);
    cr_expect(central > 950 && central <= 1000 && stealing > 5000, "%g %g", central, stealing);
}

typedef struct tiles {
    uint64_t nodes;
    double   busy_nodes; /* at the sample with this number */
    uint32_t at, n;
} tiles;

static void look_at_tiles(void *ctx, const htc_sim_manytask_sample *s)
{
    tiles   *t = ctx;
    uint64_t busy = 0, cores = 0;
    for (uint64_t i = 0; i < s->nodes; i++) {
        busy += s->busy_of[i] > 0;
        cores += s->busy_of[i];
    }
    cr_expect(eq(u64, cores, s->busy));
    if (t->n++ == t->at)
        t->busy_nodes = (double)busy / (double)s->nodes;
}

static double nodes_at_work(const char *name, uint32_t neighbours)
{
    htc_sim_manytask_group   g = { .size = sizeof g, .nodes = 1024, .cores = 2 };
    tiles                    t = { .at = 20 };
    htc_steal_options        steal = { .size = sizeof steal, .policy = policy(name), .poll_ns = 10 * HTC_MS, .neighbours = neighbours };
    htc_sim_manytask_options o = { .size = sizeof o, .architecture = HTC_SIM_MANYTASK_DISTRIBUTED, .groups = &g, .n_groups = 1, .tasks = 204800, .length = { HTC_SCALE_UNIFORM, 0, 10e9, 1 },
                                   .steal = &steal, .tiles = 1, .sample_ns = 10 * S, .sample = look_at_tiles, .ctx = &t };
    ran(&o, NULL);
    return t.busy_nodes;
}

/* Figures 40 and 41, tile maps: starvation with 2 and sqrt(n) static neighbours, none with n / 4 static or sqrt(n) dynamic ones. */
Test(sim_manytask, tile_maps_show_who_starves)
{
    double two = nodes_at_work("static", 2), root = nodes_at_work("static", 32), quarter = nodes_at_work("static", 256), dynamic_root = nodes_at_work("sqrt", 0);
    cr_expect(two < 0.3 && two < root && root < 0.95 && quarter > 0.99 && dynamic_root > 0.99, "%.3f %.3f %.3f %.3f", two, root, quarter, dynamic_root);
}

/* Figure 45: a mesh needs many neighbours: the wider the better, and more hops cost more. */
Test(sim_manytask, a_mesh_needs_wide_neighbourhoods)
{
    const htc_sim_manytask_group g = { .size = sizeof g, .nodes = 1024, .cores = 1 };
    htc_steal_options            steal = { .size = sizeof steal, .policy = policy("mesh-2d"), .poll_ns = HTC_MS, .shape = { 32, 32, 0, 0 } };
    static htc_ns                lengths[TRACE];
    htc_sim_manytask_options     o = { .size = sizeof o, .architecture = HTC_SIM_MANYTASK_DISTRIBUTED, .groups = &g, .n_groups = 1, .tasks = 102400, .root = 512, .steal = &steal,
                                       .shape = { 32, 32, 0, 0 }, .latency_ns = 10 * HTC_US, .lengths = lengths, .n_lengths = TRACE };
    double                       last = 0;
    const htc_ns *seconds = trace();
    for (size_t i = 0; i < TRACE; i++)
        lengths[i] = seconds[i] / 1000;
    for (uint32_t hops = 1; hops <= 16; hops *= 4) {
        steal.hops = hops;
        double now = ran(&o, NULL).efficiency;
        cr_expect(now > last, "%u hops: %.3f after %.3f", hops, now, last);
        last = now;
    }
    cr_expect(last > 0.85, "%.3f", last);
}

/* ---- the same everywhere ---- */

/* The hashes that gcc and clang, optimised and sanitised, come to. */
Test(sim_manytask, is_the_same_run_everywhere)
{
    static const uint64_t        expected[7] = { UINT64_C(2318649320816598647), UINT64_C(15735557984088054103), UINT64_C(1541618234477240022), UINT64_C(10799757526224526786),
                                                     UINT64_C(13626138387571087197), UINT64_C(859442388469107951), UINT64_C(16962511604740303763) };
    const htc_sim_manytask_group g[] = { { .size = sizeof *g, .nodes = 100, .cores = 8 }, { .size = sizeof *g, .nodes = 50, .cores = 16, .speed = 1.5 } };
    htc_sim_manytask_options     o = { .size = sizeof o, .seed = 5, .groups = g, .n_groups = 2, .tasks = 30000, .length = { HTC_SCALE_LOGNORMAL, 0, 10e9, 0.8 }, .nudge_ns = 10 * HTC_MS };
    for (o.architecture = 0; o.architecture < 7; o.architecture++)
        cr_expect(eq(u64, ran(&o, NULL).scale.hash, expected[o.architecture]), "architecture %u", o.architecture);
}

/* ---- several grids ---- */

static int same_counts(const htc_sim_manytask_report *a, const htc_sim_manytask_report *b)
{
    return a->rounds == b->rounds && a->stolen == b->stolen && a->nudges == b->nudges && a->cv == b->cv && a->efficiency == b->efficiency && a->scale.sent == b->scale.sent &&
           a->scale.makespan == b->scale.makespan && a->scale.hash == b->scale.hash;
}

/* Grids share nothing: on one thread and on two it is the same run, the first one is what it is alone, and each has other draws. */
Test(sim_manytask, grids_are_the_same_run_on_two_threads)
{
    uint64_t others = 0;
    PROPERTY (rng, 60) {
        any_run        a;
        pair           p;
        htc_scale_host host = { .size = sizeof host, .parallel = in_pair, .ctx = &p };
        uint64_t       alone[SLOW_NODES], ended[4 * SLOW_NODES], both[4 * SLOW_NODES], sum = 0;
        draw_run(&rng, &a);
        htc_sim_manytask_report one = ran(&a.o, alone);
        a.o.grids = 2 + (uint32_t)htc_rng_below(&rng, 3);
        htc_sim_manytask_report r = ran(&a.o, ended);
        cr_assert(pair_open(&p) == 0);
        a.o.host = &host;
        htc_sim_manytask_report twice = ran(&a.o, both);
        HOLDS(pair_close(&p) > 0);
        HOLDS(same_counts(&r, &twice) && memcmp(ended, both, a.o.grids * a.nodes * sizeof *ended) == 0);
        HOLDS(memcmp(ended, alone, a.nodes * sizeof *ended) == 0 && r.scale.makespan >= one.scale.makespan && r.nodes == a.o.grids * a.nodes);
        for (uint64_t i = 0; i < a.o.grids * a.nodes; i++)
            sum += ended[i];
        HOLDS(sum == a.o.grids * a.o.tasks && r.scale.ended == sum);
        others += memcmp(ended, ended + a.nodes, a.nodes * sizeof *ended) != 0;
    }
    cr_expect(others > property_times(10), "%llu", (unsigned long long)others);
}

/* Two dispatchers do twice as much as one: the second half of the paper's way out of a dispatcher that saturates. */
Test(sim_manytask, grids_add_up)
{
    const htc_sim_manytask_group whole = { .size = sizeof whole, .nodes = 64, .cores = 100 }, quarter = { .size = sizeof quarter, .nodes = 16, .cores = 100 };
    htc_sim_manytask_options     o = { .size = sizeof o, .groups = &whole, .n_groups = 1, .tasks = 64000, .length.mean_ns = 1e9 };
    double                       one = ran(&o, NULL).throughput;
    o.groups = &quarter;
    o.tasks = 16000;
    o.grids = 4;
    double four = ran(&o, NULL).throughput;
    cr_expect(four > 3.5 * one, "%g, %g", one, four);
}

/* ---- submission ---- */

typedef struct queue_seen {
    uint64_t most, samples;
    double   rate;
} queue_seen;

static void see_queue(void *ctx, const htc_sim_manytask_sample *s)
{
    queue_seen *q = ctx;
    q->most = s->queued > q->most ? s->queued : q->most;
    q->rate += s->rate;
    q->samples++;
}

/* In batches the queue is never longer than a batch and what is left of the one before, wherever tasks go to; and no slower than at once. */
Test(sim_manytask, batches_follow_each_other)
{
    const htc_sim_manytask_group g = { .size = sizeof g, .nodes = 16, .cores = 10 };
    for (uint32_t form = 0; form < 5; form++) {
        queue_seen               q = { 0 };
        htc_sim_manytask_options o = { .size = sizeof o, .architecture = form < 3 ? HTC_SIM_MANYTASK_DISTRIBUTED : form == 3 ? HTC_SIM_MANYTASK_CENTRAL : HTC_SIM_MANYTASK_HIERARCHICAL,
                                       .layout = form < 3 ? form : 0, .groups = &g, .n_groups = 1, .tasks = 50000, .length = { HTC_SCALE_UNIFORM, 0, 1e9, 1 },
                                       .sample_ns = 100 * HTC_MS, .sample = see_queue, .ctx = &q };
        htc_sim_manytask_report  whole = ran(&o, NULL);
        o.batch = 5000;
        o.below = 1000;
        q = (queue_seen){ 0 };
        htc_sim_manytask_report r = ran(&o, NULL);
        /* of those that wait with one node alone the others do not count: their queues come on top */
        cr_expect(q.most <= (form == 0 ? 30000u : form < 3 ? 8000u : 6000u), "form %u: %llu", form, (unsigned long long)q.most);
        cr_expect(r.efficiency > whole.efficiency - 0.02 && r.efficiency > 0.95, "form %u: %.3f, whole %.3f", form, r.efficiency, whole.efficiency);
        cr_expect(fabs(q.rate / (double)q.samples / r.throughput - 1) < 0.05, "form %u: %g", form, q.rate / (double)q.samples);
    }
}

static uint64_t batches_seen[10];

static void note_submission(void *ctx, const htc_sim_manytask_task *t)
{
    uint64_t batch = t->number / 5;
    (void)ctx;
    cr_expect(t->submitted <= t->begin && (batches_seen[batch] == UINT64_MAX || batches_seen[batch] == t->submitted));
    batches_seen[batch] = t->submitted;
}

/* A task knows when its batch came: one core runs five tasks of 1 s, and the next five come when the last of them has begun. */
Test(sim_manytask, says_when_tasks_were_submitted)
{
    const htc_sim_manytask_group g = { .size = sizeof g, .nodes = 1, .cores = 1 };
    for (uint32_t architecture = 0; architecture < 3; architecture++) {
        htc_sim_manytask_options o = { .size = sizeof o, .architecture = architecture, .groups = &g, .n_groups = 1, .tasks = 50, .length.mean_ns = 1e9, .batch = 5, .below = 1,
                                       .latency_ns = 1, .bytes_per_s = UINT64_MAX, .dispatch_ns = HTC_NEVER, .begun = note_submission };
        memset(batches_seen, 255, sizeof batches_seen);
        ran(&o, NULL);
        for (uint64_t k = 0; k < 10; k++)
            cr_expect(eq(u64, batches_seen[k], k ? (5 * k - 1) * S : 0), "architecture %u, batch %llu: %g s", architecture, (unsigned long long)k, (double)batches_seen[k] / 1e9);
    }
}

/* ---- the host ---- */

static volatile int stop;

static void stop_at_once(void *ctx, const htc_scale_progress *p)
{
    (void)ctx;
    cr_expect(eq(u64, p->total, 100000));
    stop = 1;
}

Test(sim_manytask, says_what_it_had_when_it_is_stopped)
{
    const htc_sim_manytask_group g = { .size = sizeof g, .nodes = 4, .cores = 4 };
    htc_scale_host               host = { .size = sizeof host, .stop = &stop, .progress = stop_at_once };
    htc_sim_manytask_options     o = { .size = sizeof o, .architecture = HTC_SIM_MANYTASK_DISTRIBUTED, .groups = &g, .n_groups = 1, .tasks = 100000, .length.mean_ns = 1e9, .host = &host };
    uint64_t                     ended[4];
    htc_sim_manytask_report      r = ran(&o, ended);
    cr_expect(eq(u32, r.interrupted, 1) && r.scale.ended > 100 && r.scale.ended < 100000);
    cr_expect(eq(dbl, r.efficiency, 0) && r.utilisation > 0); /* of the lengths that have begun much is still to come */
    cr_expect(eq(u64, ended[0] + ended[1] + ended[2] + ended[3], r.scale.ended));
}

Test(sim_manytask, refuses_what_cannot_be_run)
{
    htc_sim_manytask_group   g = { .size = sizeof g, .nodes = 1000000, .cores = 1000 };
    htc_scale_host           host = { .size = sizeof host, .memory_max = UINT64_C(128) << 20 };
    htc_sim_manytask_options o = { .size = sizeof o, .groups = &g, .n_groups = 1, .tasks = UINT64_C(10000000000), .length = { HTC_SCALE_UNIFORM, 0, 5000e9, 1 }, .host = &host };
    htc_sim_manytask_report  r = { .size = sizeof r };
    htc_error                e;
    uint64_t                 bytes = 0;
    /* one dispatcher keeps at most length / 1 ms tasks running: a thousand million cores fit in 128 MiB */
    cr_assert(eq(int, htc_sim_manytask_memory(&o, &bytes), HTC_OK));
    cr_expect(bytes < host.memory_max, "%llu", (unsigned long long)bytes);
    o.architecture = HTC_SIM_MANYTASK_DISTRIBUTED;
    cr_assert(eq(int, htc_sim_manytask_memory(&o, &bytes), HTC_OK));
    cr_expect(bytes > 8000000000 && bytes < (UINT64_C(12) << 30), "%llu", (unsigned long long)bytes);
    cr_expect(eq(int, htc_sim_manytask_run(NULL, &o, &r, NULL, &e), HTC_ETOOBIG));
    cr_expect(strstr(e.text, "128 MiB are allowed") != NULL, "%s", e.text);
    g = (htc_sim_manytask_group){ .size = sizeof g, .nodes = 2, .cores = 2 };
    o.tasks = 10;
    o.root = 2;
    cr_expect(eq(int, htc_sim_manytask_run(NULL, &o, &r, NULL, &e), HTC_EINVAL));
    o.root = 0;
    o.shape = (htc_steal_shape){ 1, 1, 0, 0 }; /* two nodes, one point */
    cr_expect(eq(int, htc_sim_manytask_run(NULL, &o, &r, NULL, &e), HTC_EINVAL));
    o.shape = (htc_steal_shape){ 0 };
    o.layout = 3;
    cr_expect(eq(int, htc_sim_manytask_run(NULL, &o, &r, NULL, &e), HTC_EINVAL));
    o.layout = 0;
    g.speed = NAN;
    cr_expect(eq(int, htc_sim_manytask_run(NULL, &o, &r, NULL, &e), HTC_EINVAL));
    g.speed = 0;
    g.cores = 0;
    cr_expect(eq(int, htc_sim_manytask_run(NULL, &o, &r, NULL, &e), HTC_EINVAL));
    g.cores = 2;
    o.tasks = 0;
    cr_expect(eq(int, htc_sim_manytask_run(NULL, &o, &r, NULL, &e), HTC_EINVAL));
    o.tasks = 1u << 30;
    o.length.mean_ns = 1e18;
    o.tick_ns = 1;
    cr_expect(eq(int, htc_sim_manytask_run(NULL, &o, &r, NULL, &e), HTC_ETOOBIG));
    cr_expect(strstr(e.text, "make them longer") != NULL, "%s", e.text);
    cr_expect(eq(int, htc_sim_manytask_memory(&o, NULL), HTC_EINVAL) && eq(int, htc_sim_manytask_memory(NULL, &bytes), HTC_EINVAL));
}

/* With queues of many spans, so that there are more of them than at first. */
static htc_sim_manytask_options scattered(const htc_sim_manytask_group *g)
{
    return (htc_sim_manytask_options){ .size = sizeof(htc_sim_manytask_options), .architecture = HTC_SIM_MANYTASK_DISTRIBUTED, .layout = HTC_SIM_MANYTASK_RANDOM, .groups = g, .n_groups = 1,
                                       .tasks = 3000, .batch = 10, .below = 2000, .length = { HTC_SCALE_UNIFORM, 0, 1e9, 1 } };
}

Test(sim_manytask, ends_without_memory)
{
    const htc_sim_manytask_group g = { .size = sizeof g, .nodes = 5, .cores = 2 };
    for (uint32_t architecture = 0; architecture < 7; architecture++) {
        htc_sim_manytask_options o = scattered(&g);
        htc_status               status = HTC_ENOMEM;
        size_t                   n = 1;
        o.architecture = architecture;
        o.tiles = 1;
        o.grids = 1 + architecture % 2;
        for (; status != HTC_OK; n++) {
            alloc_fail              f = alloc_fail_at(n);
            htc_env                 env = alloc_fail_env(&f);
            htc_sim_manytask_report r = { .size = sizeof r };
            status = htc_sim_manytask_run(&env, &o, &r, NULL, NULL);
            cr_expect(status == HTC_OK || status == HTC_ENOMEM, "allocation %zu", n);
            cr_expect(eq(sz, f.live, 0) && eq(sz, f.wrong_sizes, 0), "allocation %zu", n);
        }
        cr_expect(n > (architecture == HTC_SIM_MANYTASK_DISTRIBUTED ? 12 : 8), "%zu", n);
    }
}

/* ---- checkpoints ---- */

typedef struct reel {
    unsigned char *data;
    size_t         len, room, at;
} reel;

static htc_status reel_read(void *ctx, void *data, size_t n)
{
    reel *r = ctx;
    if (n > r->len - r->at)
        return HTC_EIO;
    memcpy(data, r->data + r->at, n);
    r->at += n;
    return HTC_OK;
}

static htc_status reel_write(void *ctx, void *data, size_t n)
{
    reel *r = ctx;
    while (r->len + n > r->room)
        cr_assert((r->data = realloc(r->data, r->room = 2 * r->room + 4096)) != NULL);
    memcpy(r->data + r->len, data, n);
    r->len += n;
    return HTC_OK;
}

/* It stops the run at some of the looks, of which there are many: the clock says that each took a second. */
typedef struct stopper {
    htc_rng      rng;
    htc_ns       now;
    volatile int stop;
    uint64_t     one_in;
} stopper;

static htc_ns stopper_clock(void *ctx)
{
    stopper *s = ctx;
    s->stop |= s->one_in && htc_rng_below(&s->rng, s->one_in) == 0;
    return s->now += HTC_SECOND;
}

static void add_submission(void *ctx, const htc_sim_manytask_task *t)
{
    uint64_t *sum = ctx;
    *sum += (t->number + 1) * (t->submitted + 1);
}

Test(sim_manytask, goes_on_from_a_checkpoint_to_the_same_end)
{
    const htc_sim_manytask_group g = { .size = sizeof g, .nodes = 5, .cores = 2 };
    int                          stops = 0;
    PROPERTY (rng, 100) {
        any_run                  a;
        htc_sim_manytask_report  whole, part = { .size = sizeof part };
        uint64_t                 ended[3 * SLOW_NODES], part_ended[3 * SLOW_NODES];
        draw_run(&rng, &a);
        htc_sim_manytask_options o = htc_rng_below(&rng, 4) ? a.o : scattered(&g);
        uint64_t sum = 0;
        o.tasks += 1000 + htc_rng_below(&rng, 4000);
        o.grids = 1 + (uint32_t)htc_rng_below(&rng, 3);
        o.begun = add_submission;
        o.ctx = &sum;
        whole = ran(&o, ended);
        uint64_t whole_sum = sum;
        sum = 0;
        stopper        halt = { .rng = { htc_rng_next(&rng) }, .one_in = 1 + htc_rng_below(&rng, 300) };
        htc_scale_host host = { .size = sizeof host, .stop = &halt.stop, .clock = stopper_clock, .ctx = &halt };
        reel           from = { 0 }, to = { 0 };
        htc_scale_tape resume = { .size = sizeof resume, .reads = 1, .move = reel_read, .ctx = &from }, checkpoint = { .size = sizeof checkpoint, .move = reel_write, .ctx = &to };
        o.host = &host;
        o.checkpoint = &checkpoint;
        for (part.interrupted = 1; part.interrupted; stops += (int)part.interrupted) {
            halt.stop = 0;
            to.len = from.at = 0;
            part = ran(&o, part_ended);
            reel other = from;
            from = to;
            to = other;
            o.resume = &resume;
        }
        HOLDS(part.scale.hash == whole.scale.hash && part.scale.makespan == whole.scale.makespan && part.efficiency == whole.efficiency);
        HOLDS(part.rounds == whole.rounds && part.stolen == whole.stolen && part.nudges == whole.nudges);
        HOLDS(sum == whole_sum);
        HOLDS(o.n_groups && memcmp(ended, part_ended, whole.nodes * sizeof *ended) == 0);
        free(from.data);
        free(to.data);
    }
    cr_expect(stops > (int)property_times(100), "%d stops", stops);
}

Test(sim_manytask, refuses_what_is_no_checkpoint_of_the_experiment)
{
    const htc_sim_manytask_group g = { .size = sizeof g, .nodes = 5, .cores = 2 };
    htc_scale_host               host = { .size = sizeof host, .stop = &stop };
    reel                         film = { 0 };
    htc_scale_tape               resume = { .size = sizeof resume, .reads = 1, .move = reel_read, .ctx = &film }, checkpoint = { .size = sizeof checkpoint, .move = reel_write, .ctx = &film };
    htc_sim_manytask_options     o = scattered(&g);
    htc_sim_manytask_report      r = { .size = sizeof r };
    o.host = &host;
    o.checkpoint = &checkpoint;
    stop = 1;
    cr_assert(eq(int, htc_sim_manytask_run(NULL, &o, &r, NULL, NULL), HTC_OK) && r.interrupted && film.len > 1000);
    o.checkpoint = NULL;
    o.resume = &resume;
    stop = 0;
    size_t whole = film.len;
    for (film.len = 0; film.len < whole; film.len += 1 + film.len / 7) { /* cut short anywhere */
        alloc_fail f = alloc_fail_at(0);
        htc_env    env = alloc_fail_env(&f);
        film.at = 0;
        cr_assert(eq(int, htc_sim_manytask_run(&env, &o, &r, NULL, NULL), HTC_EIO), "%zu bytes", film.len);
        cr_assert(eq(sz, f.live, 0) && eq(sz, f.wrong_sizes, 0), "%zu bytes", film.len);
    }
    film.len = whole;
    film.at = 0;
    o.each_bytes++;
    cr_expect(eq(int, htc_sim_manytask_run(NULL, &o, &r, NULL, NULL), HTC_EFORMAT));
    o.each_bytes--;
    film.at = 0;
    cr_expect(eq(int, htc_sim_manytask_run(NULL, &o, &r, NULL, NULL), HTC_OK) && eq(u64, r.scale.ended, 3000));
    free(film.data);
}
