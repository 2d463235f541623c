/* The scale model of tasks that wait for tasks: the same run as a slow and obvious model, exact where arithmetic says what comes out, the bound of htc_dag_bound, the
 * policy decides, the same run everywhere, and nothing lost. */
#include <math.h>

#include "alloc_fail.h"
#include "dataflow_slow.h"
#include "property.h"
#include "reel.h"

#include "htcsched/registry.h"

#define S HTC_SECOND

static htc_sim_dataflow_report ran(const htc_sim_dataflow_options *o)
{
    htc_sim_dataflow_report r = { .size = sizeof r };
    htc_error               e = { 0 };
    htc_status              status = htc_sim_dataflow_run(NULL, o, &r, &e);
    cr_assert(status == HTC_OK, "%s", e.text);
    cr_assert(eq(str, r.scale.wrong, ""));
    return r;
}

/* ---- any run, beside the slow model ---- */

typedef struct any_run {
    htc_steal_options        steal;
    htc_locality_options     locality;
    htc_sim_dataflow_phase   phases[5];
    htc_sim_dataflow_options o;
} any_run;

static htc_scale_law law(htc_rng *rng, double most)
{
    htc_scale_law l = { (uint32_t)htc_rng_below(rng, 4), 0, htc_rng_below(rng, 5) ? (double)htc_rng_below(rng, (uint64_t)most) : 0, 0 };
    l.spread = l.kind % 2 ? 0.7 : 0;
    return l;
}

static htc_ns some_cost(htc_rng *rng, htc_ns most)
{
    return htc_rng_below(rng, 3) ? 1 + htc_rng_below(rng, most) : HTC_NEVER;
}

static void draw_data(htc_rng *rng, any_run *a)
{
    htc_sim_dataflow_options *o = &a->o;
    if (htc_rng_below(rng, 2)) {
        o->inputs = (uint32_t)htc_rng_below(rng, 3);
        o->files = 2 + 2 * htc_rng_below(rng, SLOW_FILES / 2);
        o->file_bytes = htc_rng_below(rng, 5000000);
        o->scattered = (uint32_t)htc_rng_below(rng, 2);
        o->shuffled = (uint32_t)htc_rng_below(rng, 2);
    }
    if (htc_rng_below(rng, 4))
        o->bytes = law(rng, 3000000);
    o->links = (uint32_t)htc_rng_below(rng, 3);
    o->window = (uint32_t)htc_rng_below(rng, 2) * (uint32_t)htc_rng_below(rng, 30);
    o->cache_bytes = htc_rng_below(rng, 3) ? htc_rng_below(rng, 20000000) : htc_rng_below(rng, 2) ? UINT64_MAX : 0;
    o->disk_bytes_per_s = htc_rng_below(rng, 2) * (1000000 + htc_rng_below(rng, 1000000000));
    o->pfs_bytes_per_s = 1000000 + htc_rng_below(rng, 1000000000);
    o->bytes_per_s = 1000000 + htc_rng_below(rng, 1000000000);
}

static void draw_policies(htc_rng *rng, any_run *a)
{
    a->steal = (htc_steal_options){ .size = sizeof a->steal, .poll_ns = (1 + htc_rng_below(rng, 20)) * HTC_MS, .poll_ns_max = (1 + htc_rng_below(rng, 60)) * S,
                                    .at_ceiling = (uint32_t)htc_rng_below(rng, 2), .amount = (uint32_t)htc_rng_below(rng, 6), .degree = (uint32_t)htc_rng_below(rng, 6) };
    a->locality = (htc_locality_options){ .size = sizeof a->locality, .policy = htc_locality_builtin(htc_rng_below(rng, 2) ? HTC_LOCALITY_FLDS : (uint32_t)htc_rng_below(rng, 4)), .tt_rule = (uint32_t)htc_rng_below(rng, 3),
                                          .ratio = htc_rng_below(rng, 2) ? 1 : htc_rng_below(rng, 2000000), .tt_ns = htc_rng_below(rng, 2) * (HTC_MS * 20 + htc_rng_below(rng, 300 * HTC_MS)),
                                          .tt_ns_small = htc_rng_below(rng, 2) * 500 * HTC_MS, .window_ns = htc_rng_below(rng, 2) * (HTC_MS * 100 + htc_rng_below(rng, 3 * S)) };
    a->o.expected_ns = htc_rng_below(rng, 2) * htc_rng_below(rng, 2 * S);
    a->o.steal = &a->steal;
    a->o.locality = &a->locality;
}

static void draw_run(htc_rng *rng, any_run *a)
{
    static const uint32_t shapes[] = { HTC_SIM_DATAFLOW_BAG, HTC_SIM_DATAFLOW_FANOUT, HTC_SIM_DATAFLOW_FANIN, HTC_SIM_DATAFLOW_PIPELINE, HTC_SIM_DATAFLOW_MAPREDUCE, HTC_SIM_DATAFLOW_PHASES };
    htc_sim_dataflow_options *o = &a->o;
    *a = (any_run){ .o = { .size = sizeof *o, .seed = htc_rng_next(rng), .system = htc_rng_below(rng, 2) ? HTC_SIM_DATAFLOW_WORKERS : (uint32_t)htc_rng_below(rng, 5),
                           .shape = shapes[htc_rng_below(rng, 6)], .degree = 1 + (uint32_t)htc_rng_below(rng, 6), .layout = (uint32_t)htc_rng_below(rng, 3),
                           .nodes = 1 + htc_rng_below(rng, SLOW_NODES), .cores = 1 + (uint32_t)htc_rng_below(rng, 4), .in_turn = (uint32_t)htc_rng_below(rng, 2),
                           .tasks = 1 + htc_rng_below(rng, htc_rng_below(rng, 3) ? 60 : 200), .latency_ns = some_cost(rng, 3 * HTC_MS), .load_bytes = 1 + (uint32_t)htc_rng_below(rng, 500),
                           .task_bytes = 1 + (uint32_t)htc_rng_below(rng, 5000), .task_ns = some_cost(rng, 5 * HTC_MS), .store_ns = some_cost(rng, 5 * HTC_MS),
                           .commit_ns = some_cost(rng, 5 * HTC_MS), .give_ns = htc_rng_below(rng, 2) * htc_rng_below(rng, 5 * HTC_MS),
                           .nudge_ns = htc_rng_below(rng, 2) * htc_rng_below(rng, 30 * HTC_MS), .dispatch_ns = some_cost(rng, 5 * HTC_MS), .launch_ns = htc_rng_below(rng, 2 * S),
                           .grant_ns = htc_rng_below(rng, 20 * HTC_MS), .container_ns = htc_rng_below(rng, 2 * S), .tick_ns = HTC_US } };
    if (o->system == HTC_SIM_DATAFLOW_YARN && o->shape != HTC_SIM_DATAFLOW_BAG)
        o->shape = HTC_SIM_DATAFLOW_MAPREDUCE + (uint32_t)htc_rng_below(rng, 2);
    o->length = law(rng, 2e9);
    o->n_phases = 1 + htc_rng_below(rng, 5);
    o->phases = a->phases;
    for (size_t p = 0; p < 5; p++)
        a->phases[p] = (htc_sim_dataflow_phase){ sizeof *a->phases, 1 + htc_rng_below(rng, 40), law(rng, 1e9), law(rng, 3e6) };
    draw_data(rng, a);
    draw_policies(rng, a);
    if (o->latency_ns == HTC_NEVER)
        o->latency_ns = 1; /* the slow model has a latency */
    if (o->commit_ns == HTC_NEVER)
        o->commit_ns = 0;
}

typedef struct tape_of_tasks {
    htc_sim_dataflow_task task[SLOW_TASKS];
    uint64_t              n;
} tape_of_tasks;

static void note_task(void *ctx, const htc_sim_dataflow_task *t)
{
    tape_of_tasks *log = ctx;
    if (log->n < SLOW_TASKS)
        log->task[log->n++] = *t;
}

/* Decision for decision: each task at the same place and time, having read the same; as many rounds, messages, tasks stolen, pushed and freed. */
Test(sim_dataflow, is_the_slow_and_obvious_model)
{
    static slow          s;
    static tape_of_tasks log;
    uint64_t             stolen = 0, pushed = 0, freed = 0, cached = 0, systems[5] = { 0 };
    PROPERTY (rng, 1500) {
        any_run a;
        draw_run(&rng, &a);
        a.o.begun = note_task;
        a.o.ctx = &log;
        log.n = 0;
        htc_sim_dataflow_report r = ran(&a.o);
        slow_run(&s, &a.o);
        double held = 0;
        HOLDS(log.n == s.tasks && r.tasks == s.tasks && s.ended == s.tasks);
        for (uint64_t i = 0; i < log.n; i++) {
            const slow_task *x = &s.task[log.task[i].number];
            HOLDS(log.task[i].node == x->ran && log.task[i].begin == x->begin * a.o.tick_ns && log.task[i].end == x->end * a.o.tick_ns);
            held += (double)(log.task[i].end - log.task[i].taken) / 1e9;
            HOLDS(log.task[i].read_bytes == x->read && log.task[i].moved_bytes == x->moved);
        }
        HOLDS(r.rounds == s.rounds && r.steals == s.steals && r.stolen == s.stolen && r.nudges == s.nudges && r.pushed == s.pushed && r.freed == s.freed);
        HOLDS(r.read_bytes == s.read && r.local_bytes == s.local && r.cached_bytes == s.cached && r.moved_bytes == s.moved);
        HOLDS(r.scale.sent == s.messages && r.scale.received == s.messages && r.scale.makespan == s.last_end * a.o.tick_ns);
        HOLDS(fabs(r.held_s - held) < 1e-6 * (1 + held));
        HOLDS(r.efficiency <= 1 + 1e-9 && r.utilisation <= 1 + 1e-9);
        stolen += r.stolen;
        pushed += r.pushed;
        freed += r.freed;
        cached += r.cached_bytes > 0;
        systems[a.o.system]++;
    }
    cr_expect(stolen > property_times(1000) && pushed > property_times(300) && freed > property_times(50) && cached > property_times(100), "%lu %lu %lu %lu", (unsigned long)stolen,
              (unsigned long)pushed, (unsigned long)freed, (unsigned long)cached);
    for (int i = 0; i < 5; i++)
        cr_expect(systems[i] > property_times(50));
}

/* ---- by arithmetic ---- */

/* No costs and no data. */
static htc_sim_dataflow_options plain(uint32_t shape, uint64_t nodes, uint32_t cores, uint64_t tasks)
{
    return (htc_sim_dataflow_options){ .size = sizeof(htc_sim_dataflow_options), .seed = 1, .shape = shape, .nodes = nodes, .cores = cores, .tasks = tasks, .layout = HTC_SIM_DATAFLOW_EACH,
                                       .length = { HTC_SCALE_CONSTANT, 0, 1e9, 0 }, .latency_ns = HTC_NEVER, .bytes_per_s = UINT64_MAX, .task_ns = HTC_NEVER, .store_ns = HTC_NEVER,
                                       .dispatch_ns = HTC_NEVER };
}

Test(sim_dataflow, without_costs_work_takes_its_time)
{
    htc_sim_dataflow_options o = plain(HTC_SIM_DATAFLOW_BAG, 4, 2, 80);
    htc_sim_dataflow_report  r = ran(&o);
    cr_expect(eq(u64, r.scale.makespan, 10 * S) && eq(dbl, r.efficiency, 1) && eq(dbl, r.throughput, 8) && eq(dbl, r.cv, 0));
    cr_expect(eq(dbl, r.turnaround_s, 5.5) && eq(dbl, r.delay_ratio, 0)); /* (k + 1) l / 2 */
    o = plain(HTC_SIM_DATAFLOW_PIPELINE, 4, 2, 80);
    o.degree = 10;
    r = ran(&o);
    cr_expect(eq(u64, r.scale.makespan, 10 * S) && eq(dbl, r.efficiency, 1) && eq(u64, r.edges, 72));
    o = plain(HTC_SIM_DATAFLOW_FANOUT, 1, 4, 21); /* 1, 4 and 16 tasks */
    o.degree = 4;
    r = ran(&o);
    cr_expect(eq(u64, r.scale.makespan, 6 * S) && eq(u64, r.edges, 20));
    o.shape = HTC_SIM_DATAFLOW_FANIN;
    r = ran(&o);
    cr_expect(eq(u64, r.scale.makespan, 6 * S));
    o = plain(HTC_SIM_DATAFLOW_MAPREDUCE, 1, 4, 18);
    o.degree = 2;
    r = ran(&o);
    cr_expect(eq(u64, r.scale.makespan, 5 * S) && eq(dbl, r.ideal_s, 5)); /* 16 in four rounds, then two at once */
}

/* A task reads 100 MB at 100 MB/s from another node: once with a cache, or the file system serves one reader after the other. */
Test(sim_dataflow, reading_takes_its_time)
{
    htc_sim_dataflow_options o = plain(HTC_SIM_DATAFLOW_BAG, 2, 1, 4);
    htc_locality_options     balance = HTC_LOCALITY_OPTIONS_INIT;
    balance.policy = htc_locality_builtin(HTC_LOCALITY_MLB);
    o.locality = &balance;
    o.inputs = HTC_SIM_DATAFLOW_ONE_FILE;
    o.files = 1; /* with node 0 */
    o.file_bytes = 100000000;
    o.bytes_per_s = 100000000;
    o.load_bytes = o.task_bytes = 1;
    htc_sim_dataflow_report r = ran(&o);
    cr_expect(eq(u64, r.scale.makespan, 4 * S) && eq(u64, r.moved_bytes, 200000000) && eq(u64, r.local_bytes, 200000000));
    o.cache_bytes = UINT64_MAX;
    r = ran(&o);
    cr_expect(eq(u64, r.scale.makespan, 3 * S) && eq(u64, r.moved_bytes, 100000000) && eq(u64, r.cached_bytes, 100000000));
    o.system = HTC_SIM_DATAFLOW_PFS;
    o.pfs_bytes_per_s = 100000000;
    r = ran(&o);
    cr_expect(eq(u64, r.scale.makespan, 5 * S) && eq(u64, r.moved_bytes, 400000000)); /* four reads in a row, and the last task runs */
    o.system = HTC_SIM_DATAFLOW_ACTIVE;
    r = ran(&o);
    cr_expect(eq(u64, r.scale.makespan, 2 * S) && eq(u64, r.moved_bytes, 0));
    o.system = HTC_SIM_DATAFLOW_DATADIFF;
    r = ran(&o);
    cr_expect(eq(u64, r.moved_bytes, 200000000) && eq(u64, r.cached_bytes, 200000000)); /* each node once */
}

/* Two nodes want what a third one has: its link serves one after the other. */
Test(sim_dataflow, a_link_is_taken_by_one_transfer)
{
    htc_sim_dataflow_options o = plain(HTC_SIM_DATAFLOW_BAG, 3, 1, 3);
    htc_locality_options     balance = HTC_LOCALITY_OPTIONS_INIT;
    balance.policy = htc_locality_builtin(HTC_LOCALITY_MLB);
    o.locality = &balance;
    o.inputs = HTC_SIM_DATAFLOW_ONE_FILE;
    o.files = 1;
    o.file_bytes = o.bytes_per_s = 100000000;
    o.load_bytes = 1;
    cr_expect(eq(u64, ran(&o).scale.makespan, 2 * S));
    o.links = HTC_SIM_DATAFLOW_SOURCE;
    cr_expect(eq(u64, ran(&o).scale.makespan, 3 * S));
}

/* A job of two phases is launched, and so is the next. */
Test(sim_dataflow, a_chain_of_jobs_pays_each_launch)
{
    const htc_scale_law            second = { HTC_SCALE_CONSTANT, 0, 1e9, 0 };
    const htc_sim_dataflow_phase   phases[] = { { sizeof *phases, 8, second, { 0, 0, 0, 0 } }, { sizeof *phases, 1, second, { 0, 0, 0, 0 } }, { sizeof *phases, 8, second, { 0, 0, 0, 0 } } };
    htc_sim_dataflow_options       o = plain(HTC_SIM_DATAFLOW_PHASES, 2, 2, 0);
    o.phases = phases;
    o.n_phases = 3;
    o.system = HTC_SIM_DATAFLOW_YARN;
    htc_sim_dataflow_report r = ran(&o);
    cr_expect(eq(u64, r.scale.makespan, 5 * S) && eq(dbl, r.efficiency, 1));
    o.launch_ns = 10 * S;
    o.container_ns = 3 * S;
    r = ran(&o);
    cr_expect(eq(u64, r.scale.makespan, 31 * S)); /* two jobs */
    o.system = HTC_SIM_DATAFLOW_WORKERS;
    r = ran(&o);
    cr_expect(r.scale.makespan < 6 * S);
}

/* ---- graphs that are given ---- */

Test(sim_dataflow, a_flow_and_a_graph_are_the_shape)
{
    static const uint32_t shapes[][2] = { { HTC_SIM_DATAFLOW_BAG, HTC_FLOW_BAG }, { HTC_SIM_DATAFLOW_FANOUT, HTC_FLOW_FANOUT }, { HTC_SIM_DATAFLOW_FANIN, HTC_FLOW_FANIN },
                                          { HTC_SIM_DATAFLOW_PIPELINE, HTC_FLOW_PIPELINE } };
    for (int k = 0; k < 4; k++) {
        htc_flow_generator       g = { .size = sizeof g, .shape = shapes[k][1], .degree = 3, .tasks = 200, .length_min = S, .length_max = S, .data_min = 5000000, .data_max = 5000000 };
        htc_sim_dataflow_options o = { .size = sizeof o, .shape = shapes[k][0], .degree = 3, .nodes = 5, .cores = 2, .tasks = 200, .layout = HTC_SIM_DATAFLOW_RANDOM,
                                       .length.mean_ns = 1e9, .bytes.mean_ns = 5e6, .bytes_per_s = 10000000 };
        htc_flow *f = NULL;
        htc_dag  *d = NULL;
        htc_ns    lengths[200];
        uint64_t  bytes[200], hash = ran(&o).scale.hash;
        cr_assert(htc_flow_generate(NULL, &g, &f) == HTC_OK && htc_dag_create(NULL, NULL, &d) == HTC_OK);
        for (uint32_t t = 0; t < 200; t++) {
            const htc_flow_edge *e;
            lengths[t] = S;
            bytes[t] = 5000000;
            cr_assert(htc_dag_add_task(d, t) == HTC_OK);
            for (size_t i = 0, n = htc_flow_parents(f, t, &e); i < n; i++)
                cr_assert(htc_dag_add_edge(d, e[i].task, t) == HTC_OK);
        }
        o.flow = f;
        o.shape = HTC_SIM_DATAFLOW_FLOW;
        htc_sim_dataflow_report r = ran(&o);
        if (k != 2) /* lists of parents rise, and those of a fan-in fall */
            cr_expect(eq(u64, r.scale.hash, hash), "shape %d", k);
        o.dag = d;
        o.dag_ns = lengths;
        o.dag_bytes = bytes;
        o.shape = HTC_SIM_DATAFLOW_DAG;
        cr_expect(eq(u64, ran(&o).scale.hash, r.scale.hash), "shape %d", k);
        htc_flow_destroy(f);
        htc_dag_destroy(d);
    }
}

/* Task by task it is what htc_dag_bound says of the same graph. */
Test(sim_dataflow, the_bound_is_that_of_the_graph)
{
    PROPERTY (rng, 200) {
        uint32_t                 shape = (uint32_t)htc_rng_below(&rng, 4);
        htc_sim_dataflow_options o = { .size = sizeof o, .seed = htc_rng_next(&rng), .shape = shape, .degree = 1 + (uint32_t)htc_rng_below(&rng, 5), .nodes = 3, .cores = 2,
                                       .tasks = 1 + htc_rng_below(&rng, 300), .bytes_per_s = 1000000 + htc_rng_below(&rng, 1000000000) };
        htc_ns                   lengths[300], by_task = 0, by_graph = 0;
        uint64_t                 bytes[300], k = htc_rng_below(&rng, 50);
        htc_dag                 *d = NULL;
        o.length = law(&rng, 2e9);
        o.bytes = law(&rng, 5e6);
        HOLDS(htc_dag_create(NULL, NULL, &d) == HTC_OK);
        htc__scale_drawer l = htc__scale_drawer_of(&o.length, HTC_US), b = htc__scale_drawer_of(&o.bytes, 1);
        for (uint32_t t = 0; t < o.tasks; t++) {
            lengths[t] = htc__scale_drawer_ticks(&l, htc__scale_draw(htc__scale_stream(o.seed, 0), t)) * HTC_US;
            bytes[t] = o.bytes.mean_ns > 0 ? htc__scale_drawer_ticks(&b, htc__scale_draw(htc__scale_stream(o.seed, 3), t)) : 0;
            HOLDS(htc_dag_add_task(d, t) == HTC_OK);
        }
        for (uint32_t i = 0; i < o.tasks; i++)
            for (uint32_t c = i * o.degree + 1; c <= i * o.degree + o.degree && c < o.tasks; c++) {
                if (shape == HTC_SIM_DATAFLOW_FANOUT)
                    HOLDS(htc_dag_add_edge(d, i, c) == HTC_OK);
                if (shape == HTC_SIM_DATAFLOW_FANIN)
                    HOLDS(htc_dag_add_edge(d, (uint32_t)o.tasks - 1 - c, (uint32_t)o.tasks - 1 - i) == HTC_OK);
            }
        for (uint32_t i = 0; i + 1 < o.tasks && shape == HTC_SIM_DATAFLOW_PIPELINE; i++)
            if ((i + 1) % o.degree)
                HOLDS(htc_dag_add_edge(d, i, i + 1) == HTC_OK);
        HOLDS(htc_sim_dataflow_bound(NULL, &o, k, &by_task) == HTC_OK);
        o.shape = HTC_SIM_DATAFLOW_DAG;
        o.dag = d;
        o.dag_ns = lengths;
        o.dag_bytes = bytes;
        HOLDS(htc_sim_dataflow_bound(NULL, &o, k, &by_graph) == HTC_OK);
        HOLDS(by_task == by_graph);
        htc_dag_destroy(d);
    }
}

Test(sim_dataflow, a_cycle_is_refused)
{
    htc_dag                 *d = NULL;
    htc_ns                   lengths[3] = { 1, 1, 1 };
    htc_sim_dataflow_options o = { .size = sizeof o, .shape = HTC_SIM_DATAFLOW_DAG, .nodes = 1, .cores = 1, .dag_ns = lengths };
    htc_sim_dataflow_report  r = { .size = sizeof r };
    cr_assert(htc_dag_create(NULL, NULL, &d) == HTC_OK);
    for (uint32_t t = 0; t < 3; t++)
        cr_assert(htc_dag_add_task(d, t) == HTC_OK && htc_dag_add_edge(d, t, (t + 1) % 3) == HTC_OK);
    o.dag = d;
    cr_expect(eq(int, htc_sim_dataflow_run(NULL, &o, &r, NULL), HTC_ECYCLE));
    htc_dag_destroy(d);
}

/* ---- the policy decides ---- */

static htc_status nowhere_else(void *ctx, const htc_locality_view *view, const htc_locality_task *task, htc_locality_place *out)
{
    (void)ctx;
    (void)task;
    *out = (htc_locality_place){ HTC_LOCALITY_SHARED, view->self, 0 };
    return HTC_OK;
}

static uint64_t none(void *ctx, const htc_steal_options *options, uint64_t waiting, uint64_t idle)
{
    (void)ctx, (void)options, (void)waiting, (void)idle;
    return 0;
}

static htc_status the_next(void *ctx, const htc_steal_view *view, htc_rng *rng, uint32_t cap, uint32_t *out, uint32_t *count)
{
    (void)ctx, (void)rng, (void)cap;
    *out = (view->self + 1) % view->n;
    *count = 1;
    return HTC_OK;
}

static htc_sim_dataflow_options with_data(void)
{
    return (htc_sim_dataflow_options){ .size = sizeof(htc_sim_dataflow_options), .seed = 3, .shape = HTC_SIM_DATAFLOW_FANOUT, .degree = 10, .nodes = 50, .cores = 2, .tasks = 10000,
                                       .layout = HTC_SIM_DATAFLOW_RANDOM, .length = { HTC_SCALE_UNIFORM, 0, 50e6, 1 }, .bytes = { HTC_SCALE_UNIFORM, 0, 5e6, 1 },
                                       .bytes_per_s = 125000000, .links = HTC_SIM_DATAFLOW_SOURCE };
}

Test(sim_dataflow, another_policy_is_another_run)
{
    const htc_locality_policy mutant = { .size = sizeof mutant, .name = "nowhere", .rule = HTC_LOCALITY_FLDS, .place = nowhere_else };
    const htc_steal_policy    miser = { .size = sizeof miser, .name = "miser", .choose = the_next, .amount = none };
    htc_locality_options      locality = HTC_LOCALITY_OPTIONS_INIT;
    htc_steal_options         steal = HTC_STEAL_OPTIONS_INIT;
    htc_sim_dataflow_options  o = with_data();
    htc_sim_dataflow_report   flds = ran(&o);
    locality.policy = htc_locality_builtin(HTC_LOCALITY_MDL);
    o.locality = &locality;
    htc_sim_dataflow_report mdl = ran(&o);
    locality.policy = htc_locality_builtin(HTC_LOCALITY_MLB);
    htc_sim_dataflow_report mlb = ran(&o);
    locality.policy = &mutant;
    htc_sim_dataflow_report wrong = ran(&o);
    cr_expect(mdl.moved_bytes == 0 && mdl.pushed > 9000, "%lu bytes, %lu pushed", (unsigned long)mdl.moved_bytes, (unsigned long)mdl.pushed);
    cr_expect(mlb.pushed == 0 && mlb.moved_bytes > flds.moved_bytes && flds.moved_bytes > 0);
    cr_expect(wrong.pushed == 0 && eq(u64, wrong.scale.hash, mlb.scale.hash)); /* that is balance only */
    o.steal = &steal;
    steal.policy = &miser;
    htc_sim_dataflow_report alone = ran(&o);
    cr_expect(alone.stolen == 0 && wrong.stolen > 0 && alone.scale.makespan > wrong.scale.makespan);
}

static htc_status fails(void *ctx, const htc_locality_view *view, const htc_locality_task *task, htc_locality_place *out)
{
    (void)ctx, (void)view, (void)task, (void)out;
    return HTC_ETIMEDOUT;
}

static htc_status too_far(void *ctx, const htc_locality_view *view, const htc_locality_task *task, htc_locality_place *out)
{
    (void)ctx, (void)view, (void)task;
    *out = (htc_locality_place){ HTC_LOCALITY_PUSH, 50, 0 };
    return HTC_OK;
}

Test(sim_dataflow, what_a_policy_answers_is_looked_at)
{
    const htc_locality_policy bad[] = { { .size = sizeof *bad, .name = "fails", .place = fails }, { .size = sizeof *bad, .name = "too-far", .place = too_far } };
    htc_locality_options      locality = HTC_LOCALITY_OPTIONS_INIT;
    htc_sim_dataflow_options  o = with_data();
    htc_sim_dataflow_report   r = { .size = sizeof r };
    o.locality = &locality;
    locality.policy = &bad[0];
    cr_expect(eq(int, htc_sim_dataflow_run(NULL, &o, &r, NULL), HTC_ETIMEDOUT));
    locality.policy = &bad[1];
    cr_expect(eq(int, htc_sim_dataflow_run(NULL, &o, &r, NULL), HTC_EINVAL));
}

/* ---- the same everywhere; nothing lost ---- */

Test(sim_dataflow, is_the_same_run_everywhere)
{
    static const uint64_t    expected[6] = { UINT64_C(14389296660425915861), UINT64_C(2131517689504575422), UINT64_C(7283247062896983105),
                                                UINT64_C(17559427809505868165), UINT64_C(12410511896382251567), UINT64_C(14405128401902062191) };
    htc_sim_dataflow_options o = with_data();
    o.cache_bytes = 20000000;
    o.nudge_ns = 10 * HTC_MS;
    for (o.shape = HTC_SIM_DATAFLOW_BAG; o.shape <= HTC_SIM_DATAFLOW_MAPREDUCE; o.shape++)
        cr_expect(eq(u64, ran(&o).scale.hash, expected[o.shape]), "shape %u", o.shape);
    o.system = HTC_SIM_DATAFLOW_DATADIFF;
    o.shape = HTC_SIM_DATAFLOW_FANIN;
    cr_expect(eq(u64, ran(&o).scale.hash, expected[5]));
}

typedef struct film {
    htc_sim_dataflow_sample last;
    uint64_t                n, cores;
} film;

static void note_sample(void *ctx, const htc_sim_dataflow_sample *s)
{
    film *f = ctx;
    f->last = *s;
    f->n++;
    f->cores += s->busy <= s->cores;
}

Test(sim_dataflow, samples_add_up)
{
    film                     f = { .n = 0 };
    htc_sim_dataflow_options o = with_data();
    o.sample_ns = 100 * HTC_MS;
    o.sample = note_sample;
    o.ctx = &f;
    htc_sim_dataflow_report r = ran(&o);
    cr_expect(f.n > r.scale.makespan / o.sample_ns && f.cores == f.n && eq(u64, f.last.ended, 10000) && f.last.busy == 0 && f.last.waiting == 0 && f.last.ready == 0);
}

Test(sim_dataflow, a_stopped_run_says_what_it_had)
{
    static const volatile int stop = 1;
    htc_scale_host            host = { .size = sizeof host, .stop = &stop };
    htc_sim_dataflow_options  o = with_data();
    o.host = &host;
    htc_sim_dataflow_report r = ran(&o);
    cr_expect(r.interrupted == 1 && r.scale.ended < 10000 && !(r.efficiency > 0));
}

/* ---- in pieces ---- */

typedef struct told {
    uint64_t samples, tasks;
} told;

static void add_sample(void *ctx, const htc_sim_dataflow_sample *x)
{
    told *t = ctx;
    t->samples = t->samples * 31 + x->at + 3 * x->busy + 5 * x->waiting + 7 * x->ready + 11 * x->ended;
}

static void add_task(void *ctx, const htc_sim_dataflow_task *x)
{
    told *t = ctx;
    t->tasks = t->tasks * 31 + x->number + 3 * x->node + 5 * x->taken + 7 * x->begin + 11 * x->end + 13 * x->read_bytes + 17 * x->moved_bytes;
}

/* Whatever the cuts are, tasks, samples, what was counted and the hash are those of the whole run. */
Test(sim_dataflow, goes_on_from_a_checkpoint_to_the_same_end)
{
    uint64_t cuts = 0, systems[5] = { 0 }, cached = 0, freed = 0;
    PROPERTY (rng, 1500) {
        any_run        a;
        told           whole = { 0 }, parts = { 0 };
        reel           from = { 0 }, to = { 0 };
        htc_scale_tape resume = { .size = sizeof resume, .reads = 1, .move = reel_read, .ctx = &from }, checkpoint = { .size = sizeof checkpoint, .move = reel_write, .ctx = &to };
        htc_scale_host host = { .size = sizeof host };
        draw_run(&rng, &a);
        a.o.begun = add_task;
        a.o.sample = add_sample;
        a.o.sample_ns = 1 + htc_rng_below(&rng, 200 * HTC_MS);
        a.o.ctx = &whole;
        htc_sim_dataflow_report r = ran(&a.o), part = { .interrupted = 1 };
        a.o.ctx = &parts;
        a.o.host = &host;
        a.o.checkpoint = &checkpoint;
        for (; part.interrupted; cuts += part.interrupted) {
            host.stop_after = 1 + htc_rng_below(&rng, r.scale.events);
            part = ran(&a.o);
            HOLDS(!part.interrupted || part.scale.events_here == host.stop_after);
            free(from.data);
            from = to;
            to = (reel){ 0 };
            a.o.resume = &resume;
        }
        HOLDS(part.scale.hash == r.scale.hash && part.scale.events == r.scale.events && memcmp(&whole, &parts, sizeof whole) == 0);
        HOLDS(part.rounds == r.rounds && part.steals == r.steals && part.stolen == r.stolen && part.nudges == r.nudges && part.pushed == r.pushed && part.freed == r.freed);
        HOLDS(part.read_bytes == r.read_bytes && part.cached_bytes == r.cached_bytes && part.moved_bytes == r.moved_bytes && part.scale.sent == r.scale.sent);
        HOLDS(part.turnaround_s == r.turnaround_s && part.held_s == r.held_s && part.cv == r.cv && part.efficiency == r.efficiency && part.memory == r.memory);
        systems[a.o.system]++;
        cached += part.cached_bytes > 0;
        freed += part.freed > 0;
        free(from.data);
        free(to.data);
    }
    cr_expect(cuts > 50 && systems[0] && systems[1] && systems[2] && systems[3] && systems[4] && cached && freed);
}

/* Cut short it is HTC_EIO, and of other options HTC_EFORMAT. */
Test(sim_dataflow, refuses_what_is_no_checkpoint_of_the_experiment)
{
    reel                     strip = { 0 };
    htc_scale_tape           resume = { .size = sizeof resume, .reads = 1, .move = reel_read, .ctx = &strip }, checkpoint = { .size = sizeof checkpoint, .move = reel_write, .ctx = &strip };
    htc_scale_host           host = { .size = sizeof host, .stop_after = 3000 };
    htc_sim_dataflow_options o = with_data();
    htc_sim_dataflow_report  r = { .size = sizeof r };
    htc_error                e = { 0 };
    o.host = &host;
    o.checkpoint = &checkpoint;
    cr_assert(eq(int, htc_sim_dataflow_run(NULL, &o, &r, &e), HTC_OK) && r.interrupted);
    size_t whole = strip.len;
    strip.ends = whole / 2;
    strip.len = 0;
    cr_expect(eq(int, htc_sim_dataflow_run(NULL, &o, &r, &e), HTC_ENOSPC) && strstr(e.text, "could not be written") != NULL);
    strip.ends = strip.len = 0;
    cr_assert(eq(int, htc_sim_dataflow_run(NULL, &o, &r, &e), HTC_OK) && strip.len == whole);
    o.checkpoint = NULL;
    o.resume = &resume;
    o.host = NULL;
    for (strip.len = 0; strip.len < whole; strip.len += 1 + strip.len / 7) { /* cut short anywhere */
        strip.at = 0;
        cr_assert(eq(int, htc_sim_dataflow_run(NULL, &o, &r, &e), HTC_EIO), "%zu bytes", strip.len);
    }
    strip.len = whole;
    strip.at = 0;
    o.store_ns = 7 * HTC_MS;
    cr_expect(eq(int, htc_sim_dataflow_run(NULL, &o, &r, &e), HTC_EFORMAT) && strstr(e.text, "not of this experiment") != NULL);
    free(strip.data);
}

Test(sim_dataflow, what_is_out_of_range_is_refused)
{
    htc_sim_dataflow_options o = with_data();
    htc_sim_dataflow_report  r = { .size = sizeof r };
    uint64_t                 bytes = 0;
    cr_expect(htc_sim_dataflow_memory(&o, &bytes) == HTC_OK && bytes > 200000 && bytes < 20000000, "%lu", (unsigned long)bytes);
#define REFUSED(field, value)                                                                                                     \
    do {                                                                                                                          \
        htc_sim_dataflow_options bad = with_data();                                                                               \
        bad.field = value;                                                                                                        \
        cr_expect(eq(int, htc_sim_dataflow_run(NULL, &bad, &r, NULL), HTC_EINVAL) && htc_sim_dataflow_memory(&bad, &bytes) == HTC_EINVAL, #field); \
    } while (0)
    REFUSED(size, 8);
    REFUSED(system, 5);
    REFUSED(system, HTC_SIM_DATAFLOW_YARN);
    REFUSED(shape, 9);
    REFUSED(shape, HTC_SIM_DATAFLOW_PHASES);
    REFUSED(shape, HTC_SIM_DATAFLOW_FLOW);
    REFUSED(shape, HTC_SIM_DATAFLOW_DAG);
    REFUSED(layout, 3);
    REFUSED(links, 3);
    REFUSED(inputs, 3);
    REFUSED(inputs, HTC_SIM_DATAFLOW_PAIRS);
    REFUSED(nodes, 0);
    REFUSED(cores, 0);
    REFUSED(cores, 1 << 24);
    REFUSED(tasks, 0);
    REFUSED(tasks, HTC_SIM_DATAFLOW_TASKS_MAX + 1);
    REFUSED(length.kind, 7);
    REFUSED(bytes.spread, -1);
    htc_scale_host host = { .size = sizeof host, .memory_max = 100000 };
    o.host = &host;
    cr_expect(eq(int, htc_sim_dataflow_run(NULL, &o, &r, NULL), HTC_ETOOBIG));
    cr_expect(eq(int, htc_sim_dataflow_run(NULL, NULL, &r, NULL), HTC_EINVAL) && eq(int, htc_sim_dataflow_run(NULL, &o, NULL, NULL), HTC_EINVAL));
    cr_expect(eq(int, htc_sim_dataflow_memory(&o, NULL), HTC_EINVAL) && eq(int, htc_sim_dataflow_bound(NULL, &o, 1, NULL), HTC_EINVAL));
}

Test(sim_dataflow, gives_everything_back)
{
    for (uint32_t system = 0; system < 4; system += 3) {
        htc_sim_dataflow_options o = with_data();
        htc_status               status = HTC_ENOMEM;
        size_t                   n = 0;
        o.nodes = 5;
        o.tasks = 300;
        o.system = system;
        o.cache_bytes = 30000000;
        for (n = 1; status != HTC_OK; n++) {
            alloc_fail              f = alloc_fail_at(n);
            htc_env                 env = alloc_fail_env(&f);
            htc_sim_dataflow_report r = { .size = sizeof r };
            status = htc_sim_dataflow_run(&env, &o, &r, NULL);
            cr_expect(status == HTC_OK || status == HTC_ENOMEM, "allocation %zu", n);
            cr_expect(eq(sz, f.live, 0) && eq(sz, f.wrong_sizes, 0), "allocation %zu", n);
        }
        cr_expect(n > 15, "%zu", n);
    }
}
