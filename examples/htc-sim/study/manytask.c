#include "manytask.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../policies.h"
#include "lengths.h"
#include "values.h"

/* ---- its settings ---- */

const char *const many_architectures[] = { "central", "distributed", "hierarchical", "falkon", "falkon_tree", "sparrow", "cloudkon" }; /* in the order of htc_sim_manytask_architecture */

#define THREADED   1000000 /* tasks of a run that is worth threads */
#define SORTED_MAX (UINT64_C(1) << 24)
#define RULES "one|two|log2|sqrt|half" /* in the order of htc_steal_rule, from 1 */

static const setting table[] = {
    { "sim.model", SET_CHOICE, "manytask", 0, 0, "manytask" },
    { "sim.seed", SET_COUNT, "1", 0, 9e18, "a number" },
    { "sim.tick", SET_SPAN, "1us", 1, 0, "a span from 1 ns: 1us, 1ms" },
    { "sim.memory", SET_SIZE, "0", 0, 0, "bytes: 512M, 8G; 0: three quarters of this machine's" },
    { "sim.sample", SET_SPAN_OR_AUTO, "auto", 0, 0, "a span, or auto: some hundred samples of a run" },
    { "sim.parts", SET_COUNT, "0", 0, 256, "a number from 1 to 256; 0: as many as threads, of a machine with a million tasks" },
    { "sim.tiles", SET_CHOICE, "off", 0, 0, "off|on" },
    { "sim.log", SET_WORD, NULL, 0, 0, "the name of a file" },
    { "machine.architecture", SET_CHOICE, "distributed", 0, 0, "central|distributed|hierarchical|falkon|falkon_tree|sparrow|cloudkon" },
    { "machine.nodes", SET_COUNT, "1024", 1, 268435456, "a number from 1 to 268435456" },
    { "machine.cores", SET_COUNT, "1000", 1, 2147483648.0, "a number from 1 to 2147483648" },
    { "machine.speed", SET_REAL, "1", 0.000001, 1e6, "a number from 0.000001 to 1000000" },
    { "machine.grids", SET_COUNT, "1", 1, 256, "a number from 1 to 256" },
    { "machine.fanout", SET_COUNT, "32", 2, 1e9, "a number from 2 to 10^9" },
    { "group.*.nodes", SET_COUNT, "1", 1, 268435456, "a number from 1 to 268435456" },
    { "group.*.cores", SET_COUNT, "1", 1, 2147483648.0, "a number from 1 to 2147483648" },
    { "group.*.speed", SET_REAL, "1", 0.000001, 1e6, "a number from 0.000001 to 1000000" },
    { "mesh.dimensions", SET_COUNT, "0", 0, 3, "0, 2 or 3" },
    { "mesh.x", SET_COUNT, "0", 0, 268435456, "a number from 0 to 268435456" },
    { "mesh.y", SET_COUNT, "0", 0, 268435456, "a number from 0 to 268435456" },
    { "mesh.z", SET_COUNT, "0", 0, 268435456, "a number from 0 to 268435456" },
    { "mesh.torus", SET_CHOICE, "off", 0, 0, "off|on" },
    { "steal.policy", SET_POLICY, "random", HTC_REGISTRY_STEAL, 0, NULL },
    { "steal.neighbours", SET_COUNT, "0", 0, 268435456, "a number from 0 to 268435456; 0: as steal.degree says" },
    { "steal.part", SET_REAL, "0", 0, 1, "a part of all nodes, from 0 to 1; 0: as steal.neighbours says" },
    { "steal.degree", SET_CHOICE, "sqrt", 0, 0, RULES },
    { "steal.amount", SET_CHOICE, "half", 0, 0, RULES },
    { "steal.wait", SET_SPAN, "10ms", 0, 0, "a span" },
    { "steal.wait_max", SET_SPAN, "50s", 0, 0, "a span" },
    { "steal.at_ceiling", SET_CHOICE, "go_on", 0, 0, "stop|go_on" }, /* in the order of htc_steal_ceiling */
    { "steal.near", SET_COUNT, "0", 0, 268435456, "a number from 0 to 268435456; 0: the square root of all" },
    { "steal.hops", SET_COUNT, "0", 0, 1e6, "a number from 0 to 1000000" },
    { "steal.ask", SET_CHOICE, "at_once", 0, 0, "at_once|in_turn" },
    { "steal.nudge", SET_SPAN, "0", 0, 0, "a span; 0: none" },
    { "cost.latency", SET_SPAN, "100us", 0, 0, "a span" },
    { "cost.bandwidth", SET_REAL, "850000000", 0, 1e15, "bytes a second, from 0, which is without bound" },
    { "cost.load_bytes", SET_COUNT, "100", 1, 1e9, "a number from 1 to 10^9" },
    { "cost.task_bytes", SET_COUNT, "1024", 1, 1e9, "a number from 1 to 10^9" },
    { "cost.each_bytes", SET_COUNT, "0", 0, 1e9, "a number from 0 to 10^9" },
    { "cost.dispatch", SET_SPAN, "1ms", 0, 0, "a span" },
    { "cost.hand", SET_SPAN_OR_AUTO, "auto", 0, 0, "a span, or auto: as cost.dispatch" },
    { "cost.store", SET_SPAN, "0", 0, 0, "a span" },
    { "sparrow.schedulers", SET_COUNT, "8", 1, 65536, "a number from 1 to 65536" },
    { "sparrow.probes", SET_COUNT, "2", 1, 1024, "a number from 1 to 1024" },
    { "sparrow.placed", SET_COUNT, "16", 1, 65536, "a number from 1 to 65536" },
    { "cloudkon.servers", SET_COUNT, "0", 0, 268435456, "a number from 0 to 268435456; 0: as many as nodes" },
    { "cost.task", SET_SPAN, "0", 0, 0, "a span" },
    { "cost.give", SET_SPAN, "0", 0, 0, "a span" },
    { "workload.tasks", SET_COUNT, "0", 0, 1e15, "a number from 0 to 10^15; 0: as workload.per_core says" },
    { "workload.per_core", SET_COUNT, "10", 1, 1e9, "a number from 1 to 10^9" },
    { "workload.length", SET_LAW, "0..10000s", 0, 0, LAW_WORDS },
    { "workload.lengths", SET_FILE, NULL, 0, 0, "the name of a file with the length of a task in each line" },
    { "workload.sorted", SET_CHOICE, "off", 0, 0, "off|on" },
    { "workload.layout", SET_CHOICE, "one", 0, 0, "one|each|random" }, /* in the order of htc_sim_manytask_layout */
    { "workload.root", SET_REAL, "0", 0, 268435455, "a number from 0; below 1: that part of all nodes" },
    { "workload.batch", SET_COUNT, "0", 0, 1e15, "a number from 0 to 10^15; 0: all at once" },
    { "workload.below", SET_COUNT, "0", 0, 1e15, "a number from 0 to 10^15; 0: a fifth of workload.batch" },
    { NULL, 0, NULL, 0, 0, NULL },
};

/* ---- the machine ---- */

/* Sections [group.NAME], or one group of machine.nodes. */
static int groups_of(many_study *m, settings *s, htc_error *error)
{
    size_t n = 0;
    while (settings_section(s, "group", n))
        n++;
    if (n > 255)
        return settings_refuse(error, HTC_ECONFIG, "there are more than 255 groups of nodes", "write fewer sections [group.NAME]");
    m->groups = calloc(n ? n : 1, sizeof *m->groups);
    if (!m->groups)
        return settings_refuse(error, HTC_ENOMEM, "no memory for the groups", "write fewer sections [group.NAME]");
    *m->groups = (htc_sim_manytask_group){ .size = sizeof *m->groups, .nodes = settings_count(s, "machine.nodes"), .cores = (uint32_t)settings_count(s, "machine.cores"),
                                           .speed = settings_real(s, "machine.speed") };
    for (size_t i = 0; i < n; i++) {
        const char *name = settings_section(s, "group", i);
        m->groups[i] = (htc_sim_manytask_group){ .size = sizeof *m->groups, .nodes = settings_count(s, settings_in(s, "group", name, "nodes")) };
        m->groups[i].cores = (uint32_t)settings_count(s, settings_in(s, "group", name, "cores"));
        m->groups[i].speed = settings_real(s, settings_in(s, "group", name, "speed"));
    }
    m->options.groups = m->groups;
    m->options.n_groups = n ? n : 1;
    for (size_t i = 0; i < m->options.n_groups; i++) {
        m->nodes += m->groups[i].nodes;
        m->cores += m->groups[i].nodes * m->groups[i].cores;
    }
    if (m->nodes > HTC_SIM_MANYTASK_NODES_MAX / m->options.grids || m->cores > HTC_SIM_MANYTASK_CORES_MAX / m->options.grids)
        return settings_refuse(error, HTC_ECONFIG, "there are more than 2^28 nodes or 2^31 cores", "lower machine.nodes, machine.cores or machine.grids");
    return 1;
}

/* The least side whose power is as many. */
static uint32_t side_of(uint64_t n, uint64_t dimensions)
{
    uint64_t side = 1;
    while ((dimensions == 2 ? side * side : side * side * side) < n)
        side++;
    return (uint32_t)side;
}

static int mesh_of(many_study *m, const settings *s, htc_error *error)
{
    uint64_t dimensions = settings_count(s, "mesh.dimensions");
    uint32_t x = (uint32_t)settings_count(s, "mesh.x"), y = (uint32_t)settings_count(s, "mesh.y"), z = (uint32_t)settings_count(s, "mesh.z");
    if (dimensions == 1 || (x == 0) != (y == 0) || (z && !x))
        return settings_refuse(error, HTC_ECONFIG, "the mesh has one side", "set mesh.dimensions to 2 or 3, or mesh.x and mesh.y, and mesh.z for three dimensions");
    if (!x && dimensions) {
        x = y = side_of(m->nodes, dimensions);
        z = dimensions == 3 ? x : 0;
    }
    if (x && (double)x * y * (z ? z : 1) < (double)m->nodes)
        return settings_refuse(error, HTC_ECONFIG, "the mesh has fewer points than there are nodes", "raise mesh.x, mesh.y or mesh.z, or leave them out and set mesh.dimensions");
    m->options.shape = (htc_steal_shape){ x, y, z, settings_choice(s, "mesh.torus") };
    if (!x)
        m->options.shape.wrap = 0;
    return 1;
}

/* ---- the policy, the costs, the workload ---- */

static int steal_of(many_study *m, const settings *s, htc_error *error)
{
    const char *name = settings_text(s, "steal.policy");
    double      part = settings_real(s, "steal.part") * (double)m->nodes;
    m->steal = (htc_steal_options){ .size = sizeof m->steal, .poll_ns = settings_span(s, "steal.wait"), .poll_ns_max = settings_span(s, "steal.wait_max"),
                                    .at_ceiling = settings_choice(s, "steal.at_ceiling"), .neighbours = (uint32_t)settings_count(s, "steal.neighbours"),
                                    .degree = 1 + settings_choice(s, "steal.degree"), .amount = 1 + settings_choice(s, "steal.amount"),
                                    .near_workers = (uint32_t)settings_count(s, "steal.near"), .hops = (uint32_t)settings_count(s, "steal.hops") };
    if (part > 0)
        m->steal.neighbours = part < 1.5 ? 1 : (uint32_t)(part + 0.5);
    if (m->nodes > 1 && m->steal.neighbours >= m->nodes)
        m->steal.neighbours = (uint32_t)m->nodes - 1;
    if (m->nodes == 1)
        m->steal.neighbours = 0;
    if (m->steal.poll_ns < 1 || m->steal.poll_ns_max < m->steal.poll_ns)
        return settings_refuse(error, HTC_ECONFIG, "steal.wait is 0, or longer than steal.wait_max", "set both: a thief waits steal.wait after its first round in vain, and then twice as long each time");
    if (strncmp(name, "mesh-", 5) == 0) {
        if (!m->options.shape.x)
            return settings_refuse(error, HTC_ECONFIG, "steal.policy is that of a mesh, and there is none", "set mesh.dimensions, or mesh.x and mesh.y");
        m->steal.shape = m->options.shape;
    }
    if (!(m->registry = policies_open(error)))
        return 0;
    (void)htc_steal_find(m->registry, name, &m->steal.policy); /* that it is there was seen when it was set */
    return 1;
}

/* 0 is no cost here, and a default there. */
static htc_ns cost_of(const settings *s, const char *key)
{
    htc_ns span = settings_span(s, key);
    return span ? span : 1;
}

static void costs_of(htc_sim_manytask_options *o, const settings *s)
{
    double bandwidth = settings_real(s, "cost.bandwidth");
    o->tick_ns = settings_span(s, "sim.tick");
    o->latency_ns = cost_of(s, "cost.latency");
    o->bytes_per_s = bandwidth >= 1 ? (uint64_t)bandwidth : bandwidth > 0 ? 1 : UINT64_MAX;
    o->load_bytes = (uint32_t)settings_count(s, "cost.load_bytes");
    o->task_bytes = (uint32_t)settings_count(s, "cost.task_bytes");
    o->each_bytes = (uint32_t)settings_count(s, "cost.each_bytes");
    o->dispatch_ns = settings_span(s, "cost.dispatch") ? settings_span(s, "cost.dispatch") : HTC_NEVER;
    o->hand_ns = strcmp(settings_text(s, "cost.hand"), "auto") == 0 ? 0 : settings_span(s, "cost.hand") ? settings_span(s, "cost.hand") : HTC_NEVER;
    o->store_ns = settings_span(s, "cost.store");
    o->schedulers = (uint32_t)settings_count(s, "sparrow.schedulers");
    o->probes = (uint32_t)settings_count(s, "sparrow.probes");
    o->placed = (uint32_t)settings_count(s, "sparrow.placed");
    o->servers = (uint32_t)settings_count(s, "cloudkon.servers");
    o->task_ns = settings_span(s, "cost.task");
    o->give_ns = settings_span(s, "cost.give");
    o->nudge_ns = settings_span(s, "steal.nudge");
    o->in_turn = settings_choice(s, "steal.ask");
}

/* Nothing happens in it: it is asked for lengths. */
static void no_event(htc_scale *scale, void *ctx, uint32_t id)
{
    (void)scale;
    (void)ctx;
    (void)id;
}

static int is_longer(const void *a, const void *b)
{
    return (*(const htc_ns *)a > *(const htc_ns *)b) - (*(const htc_ns *)a < *(const htc_ns *)b);
}

/* The shortest tasks come first: of those that are submitted to each node in equal shares every node has another part of the law. */
static int sort_lengths(many_study *m, htc_error *error)
{
    htc_sim_manytask_options *o = &m->options;
    htc_scale_options         draws = { .size = sizeof draws, .seed = o->seed, .ids = 1, .tick_ns = o->tick_ns, .event = no_event };
    htc_scale                *scale = NULL;
    if (o->tasks > SORTED_MAX)
        return settings_refuse(error, HTC_ETOOBIG, "there are more than 2^24 tasks to be sorted", "lower workload.per_core, or set workload.sorted to off");
    m->lengths = malloc(o->tasks * sizeof *m->lengths);
    if (!m->lengths || htc_scale_create(NULL, &draws, &scale, NULL) != HTC_OK)
        return settings_refuse(error, HTC_ENOMEM, "no memory for the lengths of tasks", "make the experiment smaller");
    for (uint64_t i = 0; i < o->tasks; i++)
        m->lengths[i] = htc_scale_length(scale, &o->length, 0, i) * o->tick_ns;
    htc_scale_destroy(scale);
    qsort(m->lengths, o->tasks, sizeof *m->lengths, is_longer);
    o->lengths = m->lengths;
    o->n_lengths = o->tasks;
    return 1;
}

/* Task i takes the length of line i, and the first one again after the last. */
static int read_lengths(many_study *m, const settings *s, htc_error *error)
{
    htc_sim_manytask_options *o = &m->options;
    double                    sum = 0;
    if (settings_choice(s, "workload.sorted"))
        return settings_refuse(error, HTC_ECONFIG, "workload.lengths has an order, and workload.sorted makes another", "sort the file, or leave one of them out");
    if (!lengths_read(settings_text(s, "workload.lengths"), &m->lengths, &o->n_lengths, error))
        return 0;
    o->lengths = m->lengths;
    for (size_t i = 0; i < o->n_lengths; i++)
        sum += (double)m->lengths[i];
    o->length = (htc_scale_law){ .kind = HTC_SCALE_CONSTANT, .mean_ns = sum / (double)o->n_lengths }; /* of which samples are reckoned */
    if (!settings_count(s, "workload.tasks"))
        o->tasks = o->n_lengths;
    return 1;
}

static int workload_of(many_study *m, const settings *s, htc_error *error)
{
    htc_sim_manytask_options *o = &m->options;
    double                    root = settings_real(s, "workload.root"), tasks = (double)m->cores * (double)settings_count(s, "workload.per_core");
    o->tasks = settings_count(s, "workload.tasks");
    o->tasks = o->tasks ? o->tasks : tasks < 1e18 ? (uint64_t)tasks : 0;
    o->length = settings_law(s, "workload.length");
    o->layout = settings_choice(s, "workload.layout");
    o->batch = settings_count(s, "workload.batch");
    o->below = settings_count(s, "workload.below");
    o->root = (uint64_t)(root < 1 ? root * (double)m->nodes : root);
    if (o->tasks < 1)
        return settings_refuse(error, HTC_ECONFIG, "there are more than 10^18 tasks", "lower workload.per_core");
    if (m->options.shape.x && o->architecture >= HTC_SIM_MANYTASK_SPARROW)
        return settings_refuse(error, HTC_ECONFIG, "sparrow and cloudkon have no mesh", "leave out mesh.dimensions and mesh.x");
    if (o->root >= m->nodes)
        return settings_refuse(error, HTC_ECONFIG, "workload.root is no node", "nodes are numbered from 0; below 1 it is a part of all nodes");
    if (settings_text(s, "workload.lengths")[0])
        return read_lengths(m, s, error);
    return !settings_choice(s, "workload.sorted") || sort_lengths(m, error);
}

/* Some hundred samples: until all work is done at best, or the dispatcher has sent the last task away. */
static htc_ns sample_of(const many_study *m, const settings *s)
{
    const htc_sim_manytask_options *o = &m->options;
    double                          power = 0, dispatch = (o->architecture == HTC_SIM_MANYTASK_CENTRAL || o->architecture == HTC_SIM_MANYTASK_FALKON) && o->dispatch_ns != HTC_NEVER ? (double)o->dispatch_ns : 0;
    if (strcmp(settings_text(s, "sim.sample"), "auto") != 0)
        return settings_span(s, "sim.sample");
    for (size_t i = 0; i < o->n_groups; i++)
        power += (double)m->groups[i].nodes * m->groups[i].cores * m->groups[i].speed;
    double span = fmax(fmax((double)o->tasks * (o->length.mean_ns + (double)o->task_ns) / power, o->length.mean_ns), (double)o->tasks * dispatch);
    return (htc_ns)fmax(span / 600, (double)o->tick_ns);
}

static void close_run(void *run)
{
    many_study *m = run;
    if (!m)
        return;
    many_course_close(m);
    htc_registry_destroy(m->registry);
    free(m->groups);
    free(m->lengths);
    free(m);
}

static void *open_run(settings *s, uint64_t seed, int drawn, htc_error *error)
{
    many_study *m = calloc(1, sizeof *m);
    if (!m) {
        settings_refuse(error, HTC_ENOMEM, "no memory for the experiment", "make it smaller");
        return NULL;
    }
    m->report.size = sizeof m->report;
    m->architecture = settings_choice(s, "machine.architecture");
    m->options = (htc_sim_manytask_options){ .size = sizeof m->options, .seed = seed, .architecture = m->architecture, .steal = &m->steal,
                                             .fanout = (uint32_t)settings_count(s, "machine.fanout"), .grids = (uint32_t)settings_count(s, "machine.grids"), .parts = (uint32_t)settings_count(s, "sim.parts"), .tiles = settings_choice(s, "sim.tiles") };
    if (drawn) /* of many runs there is one file */
        snprintf(m->log_path, sizeof m->log_path, "%s", settings_text(s, "sim.log"));
    costs_of(&m->options, s);
    if (m->options.tick_ns == 0)
        settings_refuse(error, HTC_ECONFIG, "sim.tick is 0", "set it to 1us");
    else if (m->options.grids > 1 && (m->options.tiles || m->log_path[0]))
        settings_refuse(error, HTC_ECONFIG, "tiles and the log of tasks are those of one grid", "set machine.grids to 1, or leave out sim.tiles and sim.log");
    else if (groups_of(m, s, error) && mesh_of(m, s, error) && steal_of(m, s, error) && workload_of(m, s, error) && many_course_open(m, error)) {
        m->options.sample_ns = sample_of(m, s);
        return m;
    }
    close_run(m);
    return NULL;
}

/* ---- a run ---- */

static int resume(void *run, const htc_scale_tape *tape, htc_error *error)
{
    many_study *m = run;
    m->resume = tape;
    return many_course_move(m, tape) == HTC_OK || settings_refuse(error, HTC_ECORRUPT, "the course of the run is not in the checkpoint", "run the experiment again");
}

/* In front of the state of model and engine: the course, as it is when the run is stopped. */
static htc_status with_course(void *ctx, void *data, size_t n)
{
    many_study *m = ctx;
    if (!m->course_kept) {
        m->course_kept = 1;
        htc_status status = many_course_move(m, m->checkpoint);
        if (status != HTC_OK)
            return status;
    }
    return m->checkpoint->move(m->checkpoint->ctx, data, n);
}

static int run_it(void *run, const htc_scale_tape *checkpoint, watch *w, htc_error *error)
{
    many_study    *m = run;
    htc_scale_tape tape = { .size = sizeof tape, .move = with_course, .ctx = m };
    double         begun = watch_seconds();
    m->options.host = &w->host;
    if (policies_are_added()) /* one's own may keep what it learns where all nodes find it */
        m->options.parts = 1;
    else if (m->options.parts == 0 && m->options.tasks >= THREADED)
        m->options.parts = threads_count(w->threads);
    m->options.sample = many_course_keep;
    m->options.ctx = m;
    m->options.resume = m->resume;
    m->checkpoint = checkpoint;
    m->options.checkpoint = checkpoint ? &tape : NULL;
    *error = (htc_error){ 0 };
    if (!many_log_open(m, error))
        return 0;
    m->options.begun = m->log ? many_course_task : NULL;
    uint64_t bytes = 0;
    (void)htc_sim_manytask_memory(&m->options, &bytes);
    watch_needs(w, bytes);
    htc_status status = htc_sim_manytask_run(&w->env, &m->options, &m->report, NULL, error);
    watch_close(w);
    m->seconds = watch_seconds() - begun;
    if (status == HTC_OK)
        return many_log_close(m, error);
    if (!error->text[0])
        snprintf(error->text, sizeof error->text, "%s", htc_strerror(status));
    if (!error->hint[0])
        snprintf(error->hint, sizeof error->hint, "%s", status == HTC_ETOOBIG ? "give it fewer nodes or cores, or raise sim.memory or sim.tick" : "change its settings");
    return 0;
}

enum { EFFICIENCY, THROUGHPUT, UTILISATION, MAKESPAN, CV, ROUNDS, STEALS, STOLEN, MESSAGES, STARVED, BALANCED, MEMORY, SECONDS, TASK_NS };
static const measure measures[] = { [EFFICIENCY] = { "efficiency", 4 }, [THROUGHPUT] = { "throughput", 2 }, [UTILISATION] = { "utilisation", 4 }, [MAKESPAN] = { "makespan_s", 3 },
                                    [CV] = { "cv", 4 },                 [ROUNDS] = { "rounds", 0 },         [STEALS] = { "steals", 0 },           [STOLEN] = { "stolen", 0 },
                                    [MESSAGES] = { "messages", 0 },     [STARVED] = { "starved", 4 },       [BALANCED] = { "balanced_s", 3 },     [MEMORY] = { "memory_mib", 1 },
                                    [SECONDS] = { "seconds", 2 },       [TASK_NS] = { "task_ns", 1 },       { NULL, 0 } };

static void outcome_of(const void *run, outcome *o)
{
    const many_study              *m = run;
    const htc_sim_manytask_report *r = &m->report;
    o->hash = r->scale.hash;
    o->events = r->scale.events_here;
    o->done = !r->interrupted;
    o->value[EFFICIENCY] = r->efficiency;
    o->value[THROUGHPUT] = r->throughput;
    o->value[UTILISATION] = r->utilisation;
    o->value[MAKESPAN] = (double)r->scale.makespan / 1e9;
    o->value[CV] = r->cv;
    o->value[ROUNDS] = (double)r->rounds;
    o->value[STEALS] = (double)r->steals;
    o->value[STOLEN] = (double)r->stolen;
    o->value[MESSAGES] = (double)r->scale.sent;
    o->value[STARVED] = m->course->waited ? m->course->starved / (double)m->course->waited : 0;
    o->value[BALANCED] = many_balanced_s(m);
    o->value[MEMORY] = (double)r->memory / 1048576;
    o->value[SECONDS] = m->seconds;
    o->value[TASK_NS] = ns_of_each(m->seconds, r->scale.ended_here);
    snprintf(o->error.text, sizeof o->error.text, "%s", r->scale.wrong);
}

static const model_option options[] = {
    { "architecture", "NAME", "machine.architecture", "central, distributed, hierarchical, falkon, falkon_tree, sparrow or cloudkon (distributed)" },
    { "nodes", "N", "machine.nodes", "of the machine (1024)" },
    { "cores", "N", "machine.cores", "of each node (1000)" },
    { "grids", "N", "machine.grids", "such machines side by side, each with its own tasks and dispatchers or thieves (1)" },
    { "fanout", "N", "machine.fanout", "of a tree of dispatchers (32)" },
    { "mesh", "N", "mesh.dimensions", "nodes are the points of a mesh of 2 or 3 dimensions, and messages go hop by hop (0)" },
    { "steal-policy", "NAME", "steal.policy", "random, one, two, log2, sqrt, static, mesh-2d, mesh-3d, near, or of --policy-from (random)" },
    { "policy", "NAME", "steal.policy", "the same" },
    { "neighbours", "N", "steal.neighbours", "that a thief asks (0: as --degree says)" },
    { "part", "PART", "steal.part", "of all nodes, that a thief asks (0: as --neighbours says)" },
    { "degree", "NAME", "steal.degree", "neighbours: one, two, log2, sqrt or half (sqrt)" },
    { "amount", "NAME", "steal.amount", "of the victim's tasks: one, two, log2, sqrt or half (half)" },
    { "wait", "SPAN", "steal.wait", "after the first round in vain; it doubles (10ms)" },
    { "wait-max", "SPAN", "steal.wait_max", "the longest wait (50s)" },
    { "at-ceiling", "NAME", "steal.at_ceiling", "then: stop until a nudge, or go_on (go_on)" },
    { "hops", "N", "steal.hops", "of mesh-2d and mesh-3d, how far neighbours are (0: as few as give sqrt)" },
    { "ask", "NAME", "steal.ask", "neighbours at_once, or in_turn as the papers (at_once)" },
    { "nudge", "SPAN", "steal.nudge", "between two nudges of a node with tasks that wait (0: none)" },
    { "latency", "SPAN", "cost.latency", "of a message (100us)" },
    { "dispatch", "SPAN", "cost.dispatch", "of a dispatcher, for a task (1ms)" },
    { "tasks", "N", "workload.tasks", "in all (0: as --per-core says)" },
    { "per-core", "N", "workload.per_core", "tasks of each core (10)" },
    { "length", "LAW", "workload.length", "of a task: " LAW_WORDS " (0..10000s)" },
    { "lengths", "FILE", "workload.lengths", "the length of a task in each line, in place of a law; as many tasks if --tasks is 0" },
    { "layout", "NAME", "workload.layout", "tasks are submitted to one node, to each, or to random ones (one)" },
    { "batch", "N", "workload.batch", "of a submission (0: all at once)" },
    { "below", "N", "workload.below", "tasks that wait when the next batch comes (0: a fifth of it)" },
    { "tiles", "NAME", "sim.tiles", "on: the load of every node is looked at, and --plot draws it (off)" },
    { "tasks-log", "FILE", "sim.log", "a line for each task there" },
    { "parts", "N", "sim.parts", "of one distributed machine, that threads go through at the same time (0: as many as threads, with a million tasks)" },
    { "sample", "SPAN", "sim.sample", "between two samples of the course (auto)" },
    { "tick", "SPAN", "sim.tick", "in which virtual time passes (1us)" },
    { NULL, NULL, NULL, NULL },
};

static const model_preset presets[] = { { NULL, NULL } };

const model manytask_model = { .name = "manytask", .about = "many tasks on many nodes: a dispatcher, a tree of them, or nodes that steal, beside Falkon, Sparrow and CloudKon", .table = table, .options = options,
                               .presets = presets, .measures = measures, .open = open_run, .resume = resume, .run = run_it, .outcome = outcome_of, .say = many_say, .plot = many_plot,
                               .close = close_run };
