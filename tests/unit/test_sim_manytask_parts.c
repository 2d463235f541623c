/* One machine of the many-task model in parts: the run of one part, event for event, on one thread and on two, and that of the slow and obvious model. */
#include "alloc_fail.h"
#include "../scale_crowd.h"
#include "manytask_any.h"
#include "manytask_slow.h"
#include "reel.h"

/* What samples say, all together. */
typedef struct seen {
    uint64_t sum, n;
} seen;

static void see(void *ctx, const htc_sim_manytask_sample *s)
{
    seen *v = ctx;
    v->sum = (v->sum * 31 + s->at) * 31 + s->busy * 7 + s->queued * 5 + s->ended * 3 + (uint64_t)(s->rate * 1000);
    for (uint64_t i = 0; s->busy_of && i < s->nodes; i++)
        v->sum = v->sum * 31 + s->busy_of[i];
    v->n++;
}

static int same(const htc_sim_manytask_report *a, const htc_sim_manytask_report *b)
{
    return a->rounds == b->rounds && a->steals == b->steals && a->stolen == b->stolen && a->cv == b->cv && a->efficiency == b->efficiency && a->utilisation == b->utilisation &&
           a->scale.events == b->scale.events && a->scale.sent == b->scale.sent && a->scale.received == b->scale.received && a->scale.longest == b->scale.longest &&
           a->scale.work_s == b->scale.work_s && a->scale.makespan == b->scale.makespan && a->scale.span == b->scale.span && a->scale.hash == b->scale.hash;
}

/* A run that is in parts if it is told to be. */
static void draw_distributed(htc_rng *rng, any_run *a)
{
    draw_run(rng, a);
    a->o.architecture = HTC_SIM_MANYTASK_DISTRIBUTED;
    a->o.nudge_ns = 0;
    a->o.tasks += htc_rng_below(rng, 3) * htc_rng_below(rng, 2500);
    a->o.tick_ns = htc_rng_below(rng, 3) ? HTC_US : HTC_MS; /* messages take no tick then */
    if (htc_rng_below(rng, 2))
        a->o.length.mean_ns *= 100;
}

/* Parts that work at the same time, half of the time. */
static htc_sim_manytask_report ran_in_parts(htc_rng *rng, htc_sim_manytask_options *o, uint64_t *ended)
{
    pair           p;
    htc_scale_host host = { .size = sizeof host, .parallel = in_pair, .ctx = &p };
    o->parts = 2 + (uint32_t)htc_rng_below(rng, 4);
    if (htc_rng_below(rng, 2))
        return ran(o, ended);
    cr_assert(pair_open(&p) == 0);
    o->host = &host;
    htc_sim_manytask_report r = ran(o, ended);
    o->host = NULL;
    (void)pair_close(&p);
    return r;
}

Test(sim_manytask_parts, are_the_slow_and_obvious_model)
{
    static slow s;
    uint64_t    stolen = 0, in_parts = 0;
    PROPERTY (rng, 600) {
        any_run  a;
        uint64_t ended[SLOW_NODES];
        seen     one_sees = { 0 }, parts_see = { 0 };
        draw_distributed(&rng, &a);
        a.o.sample = see;
        a.o.sample_ns = htc_rng_below(&rng, 2) * (1 + htc_rng_below(&rng, 2 * S));
        a.o.tiles = (uint32_t)htc_rng_below(&rng, 2);
        a.o.ctx = &one_sees;
        htc_sim_manytask_report one = ran(&a.o, NULL);
        a.o.ctx = &parts_see;
        htc_sim_manytask_report r = ran_in_parts(&rng, &a.o, ended);
        HOLDS(same(&one, &r) && one_sees.n == parts_see.n && one_sees.sum == parts_see.sum);
        if (a.o.tick_ns == HTC_US) {
            slow_run(&s, &a.o);
            HOLDS(s.ended == a.o.tasks && r.rounds == s.rounds && r.steals == s.steals && r.stolen == s.stolen && r.scale.sent == s.messages);
            HOLDS(r.scale.makespan == s.last_end * a.o.tick_ns);
            for (uint32_t i = 0; i < a.nodes; i++)
                HOLDS(ended[i] == s.node[i].ended);
        }
        stolen += r.stolen;
        in_parts += r.memory > one.memory;
    }
    cr_expect(stolen > property_times(1000) && in_parts > property_times(300), "%llu stolen, %llu in parts", (unsigned long long)stolen, (unsigned long long)in_parts);
}

/* Machines of hundreds of nodes: windows with many events, a tick with more than the log of a part has room for, tasks that end in the window in which they
 * begin, nodes of many spans. */
Test(sim_manytask_parts, are_the_same_run_at_any_size)
{
    static const struct {
        uint64_t      nodes, tasks, batch;
        uint32_t      cores, layout;
        htc_ns        tick_ns, task_ns;
        htc_scale_law length;
    } runs[] = { { 300, 400000, 0, 100, HTC_SIM_MANYTASK_ONE, HTC_MS, 0, { HTC_SCALE_UNIFORM, 0, 5000e9, 1 } },
                 { 400, 320000, 0, 200, HTC_SIM_MANYTASK_EACH, HTC_US, 0, { HTC_SCALE_CONSTANT, 0, 5e9, 0 } },
                 { 100, 200000, 0, 50, HTC_SIM_MANYTASK_RANDOM, HTC_US, HTC_MS, { HTC_SCALE_MTC, 0, 95e9, 0 } },
                 { 1000, 100000, 0, 4, HTC_SIM_MANYTASK_ONE, HTC_US, 0, { HTC_SCALE_EXPONENTIAL, 0, 1e9, 0 } },
                 { 100, 100000, 5000, 20, HTC_SIM_MANYTASK_RANDOM, HTC_US, 0, { HTC_SCALE_EXPONENTIAL, 0, 1e9, 0 } },
                 { 60, 100000, 0, 40, HTC_SIM_MANYTASK_ONE, HTC_MS, 0, { HTC_SCALE_MTC_SUBSECOND, 0, 3e6, 0 } },
                 { 200, 50000, 0, 10, HTC_SIM_MANYTASK_EACH, HTC_US, 0, { HTC_SCALE_CONSTANT, 0, 0, 0 } } };
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++)
        for (uint64_t seed = 1; seed <= 2; seed++) {
            htc_rng                  rng = { seed + 2 * i };
            htc_sim_manytask_group   g[2] = { { .size = sizeof *g, .nodes = runs[i].nodes / 2, .cores = runs[i].cores }, { .size = sizeof *g, .nodes = runs[i].nodes / 2, .cores = runs[i].cores } };
            htc_steal_options        steal = { .size = sizeof steal, .policy = policy(policies[htc_rng_below(&rng, 6)]), .poll_ns = 10 * HTC_MS, .at_ceiling = HTC_STEAL_GO_ON };
            seen                     one_sees = { 0 }, parts_see = { 0 };
            htc_sim_manytask_options o = { .size = sizeof o, .seed = seed, .architecture = HTC_SIM_MANYTASK_DISTRIBUTED, .layout = runs[i].layout, .groups = g, .n_groups = 2,
                                           .tasks = runs[i].tasks, .batch = runs[i].batch, .length = runs[i].length, .steal = &steal, .tick_ns = runs[i].tick_ns,
                                           .task_ns = runs[i].task_ns, .sample = see, .sample_ns = 50 * S, .ctx = &one_sees };
            g[1].speed = seed == 1 ? 1 : 0.7;
            htc_sim_manytask_report one = ran(&o, NULL);
            o.ctx = &parts_see;
            htc_sim_manytask_report r = ran_in_parts(&rng, &o, NULL);
            cr_expect(same(&one, &r), "run %zu, seed %llu", i, (unsigned long long)seed);
            cr_expect(one_sees.n == parts_see.n && one_sees.sum == parts_see.sum, "samples of run %zu, seed %llu", i, (unsigned long long)seed);
        }
}

/* In whatever number of parts it is asked to go on. */
Test(sim_manytask_parts, go_on_from_a_checkpoint_to_the_same_end)
{
    int stops = 0;
    PROPERTY (rng, 100) {
        any_run                 a;
        htc_sim_manytask_report whole, part = { .size = sizeof part };
        uint64_t                ended[SLOW_NODES], part_ended[SLOW_NODES];
        draw_distributed(&rng, &a);
        htc_sim_manytask_options o = a.o;
        o.tasks += 1000 + htc_rng_below(&rng, 4000);
        whole = ran(&o, ended);
        stopper        halt = { .rng = { htc_rng_next(&rng) }, .one_in = 1 + htc_rng_below(&rng, 300) };
        htc_scale_host host = { .size = sizeof host, .stop = &halt.stop, .clock = stopper_clock, .ctx = &halt };
        reel           from = { 0 }, to = { 0 };
        htc_scale_tape resume = { .size = sizeof resume, .reads = 1, .move = reel_read, .ctx = &from }, checkpoint = { .size = sizeof checkpoint, .move = reel_write, .ctx = &to };
        o.host = &host;
        o.checkpoint = &checkpoint;
        for (part.interrupted = 1; part.interrupted; stops += (int)part.interrupted) {
            halt.stop = 0;
            to.len = from.at = 0;
            o.parts = 1 + (uint32_t)htc_rng_below(&rng, 4);
            part = ran(&o, part_ended);
            reel other = from;
            from = to;
            to = other;
            o.resume = &resume;
        }
        HOLDS(same(&whole, &part) && memcmp(ended, part_ended, whole.nodes * sizeof *ended) == 0);
        free(from.data);
        free(to.data);
    }
    cr_expect(stops > (int)property_times(100), "%d stops", stops);
}

/* What cannot be in parts is one; and more than there may be are refused. */
Test(sim_manytask_parts, are_one_where_they_cannot_be_more)
{
    const htc_steal_policy       one = { .size = sizeof one, .name = "mine", .ctx = (void *)(uintptr_t)&one, .choose = policy("one")->choose };
    const htc_sim_manytask_group g = { .size = sizeof g, .nodes = 100, .cores = 4 };
    htc_steal_options            steal = { .size = sizeof steal };
    htc_sim_manytask_options     o = { .size = sizeof o, .architecture = HTC_SIM_MANYTASK_DISTRIBUTED, .groups = &g, .n_groups = 1, .tasks = 4000, .length.mean_ns = 1e9, .steal = &steal };
    htc_sim_manytask_report      r = { .size = sizeof r };
    uint64_t                     alone = ran(&o, NULL).memory;
    o.parts = 2;
    cr_expect(ran(&o, NULL).memory > alone);
    steal.policy = &one;
    cr_expect(eq(u64, ran(&o, NULL).memory, alone));
    steal.policy = NULL;
    o.nudge_ns = HTC_MS;
    o.parts = 1;
    alone = ran(&o, NULL).memory;
    o.parts = 2;
    cr_expect(eq(u64, ran(&o, NULL).memory, alone));
    o.parts = HTC_SCALE_PARTS_MAX + 1;
    cr_expect(eq(int, htc_sim_manytask_run(NULL, &o, &r, NULL, NULL), HTC_EINVAL));
}

Test(sim_manytask_parts, end_without_memory)
{
    const htc_sim_manytask_group g = { .size = sizeof g, .nodes = 40, .cores = 2 };
    htc_sim_manytask_options     o = { .size = sizeof o, .architecture = HTC_SIM_MANYTASK_DISTRIBUTED, .layout = HTC_SIM_MANYTASK_RANDOM, .groups = &g, .n_groups = 1, .tasks = 3000,
                                       .batch = 100, .below = 2000, .length = { HTC_SCALE_UNIFORM, 0, 1e9, 1 }, .parts = 2 };
    htc_status                   status = HTC_ENOMEM;
    size_t                       n = 1;
    for (; status != HTC_OK; n++) {
        alloc_fail              f = alloc_fail_at(n);
        htc_env                 env = alloc_fail_env(&f);
        htc_sim_manytask_report r = { .size = sizeof r };
        status = htc_sim_manytask_run(&env, &o, &r, NULL, NULL);
        cr_expect(status == HTC_OK || status == HTC_ENOMEM, "allocation %zu", n);
        cr_expect(eq(sz, f.live, 0) && eq(sz, f.wrong_sizes, 0), "allocation %zu", n);
    }
    cr_expect(n > 18, "%zu", n);
}
