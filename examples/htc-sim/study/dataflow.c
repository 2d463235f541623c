#include "dataflow.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../policies.h"
#include "course.h"
#include "values.h"

/* ---- its settings ---- */

const char *const dataflow_systems[] = { "workers", "datadiff", "pfs", "active", "yarn" }; /* in the order of htc_sim_dataflow_system */
const char *const dataflow_shapes[] = { "bag", "fanout", "fanin", "pipeline", "mapreduce", "phases", "flow" }; /* and of htc_sim_dataflow_shape */

#define RULES  "one|two|log2|sqrt|half" /* in the order of htc_steal_rule, from 1 */
#define AMOUNT "bytes: 4K, 10M, or two: A..B"

static const setting table[] = {
    { "sim.model", SET_CHOICE, "dataflow", 0, 0, "dataflow" },
    { "sim.seed", SET_COUNT, "1", 0, 9e18, "a number" },
    { "sim.tick", SET_SPAN, "1us", 1, 0, "a span from 1 ns: 1us, 1ms" },
    { "sim.memory", SET_SIZE, "0", 0, 0, "bytes: 512M, 8G; 0: three quarters of this machine's" },
    { "sim.sample", SET_SPAN_OR_AUTO, "auto", 0, 0, "a span, or auto: some hundred samples of a run" },
    { "sim.bound", SET_REAL, "0", 0, 1e9, "tasks a core by which each waits in the bound; 0: no bound" },
    { "machine.system", SET_CHOICE, "workers", 0, 0, "workers|datadiff|pfs|active|yarn" },
    { "machine.nodes", SET_COUNT, "100", 1, 16777216, "a number from 1 to 16777216" },
    { "machine.cores", SET_COUNT, "2", 1, 16777216, "a number from 1 to 16777216" },
    { "machine.window", SET_COUNT, "1", 1, 1e6, "a number from 1 to 1000000" },
    { "graph.shape", SET_CHOICE, "bag", 0, 0, "bag|fanout|fanin|pipeline|mapreduce|phases|flow" },
    { "graph.degree", SET_COUNT, "10", 1, 16777216, "a number from 1 to 16777216" },
    { "graph.file", SET_FILE, NULL, 0, 0, "the name of a flow" },
    { "graph.tasks", SET_COUNT, "0", 0, 1073741824, "a number from 0 to 2^30; 0: as graph.per_core says" },
    { "graph.per_core", SET_COUNT, "1000", 1, 1e9, "a number from 1 to 10^9" },
    { "graph.length", SET_LAW, "0..100ms", 0, 0, LAW_WORDS },
    { "graph.bytes", SET_COUNTS, "0..10M", 0, 1e15, AMOUNT },
    { "graph.layout", SET_CHOICE, "random", 0, 0, "one|each|random" }, /* in the order of htc_sim_dataflow_layout */
    { "phase.*.tasks", SET_COUNT, "0", 0, 1073741824, "a number from 0 to 2^30; 0: as per_core says" },
    { "phase.*.per_core", SET_REAL, "1", 0, 1e9, "tasks for each core" },
    { "phase.*.length", SET_LAW, "1s", 0, 0, LAW_WORDS },
    { "phase.*.bytes", SET_COUNTS, "0", 0, 1e15, AMOUNT },
    { "data.inputs", SET_CHOICE, "none", 0, 0, "none|one|pairs" }, /* in the order of htc_sim_dataflow_inputs */
    { "data.files", SET_COUNT, "0", 0, 1073741824, "a number from 0 to 2^30; 0: as data.per_file says" },
    { "data.per_file", SET_REAL, "1", 0.000001, 1e9, "tasks that read each file" },
    { "data.file_bytes", SET_COUNT, "2M", 0, 1e15, "bytes: 4K, 10M" },
    { "data.scattered", SET_CHOICE, "off", 0, 0, "off|on" },
    { "data.shuffled", SET_CHOICE, "off", 0, 0, "off|on" },
    { "data.cache", SET_SIZE, "0", 0, 0, "bytes of a node: 512M, 8G; 0: none" },
    { "data.disk", SET_REAL, "0", 0, 1e15, "bytes a second; 0: at once" },
    { "data.copy_in", SET_CHOICE, "off", 0, 0, "off|on" },
    { "locality.policy", SET_POLICY, "flds", HTC_REGISTRY_LOCALITY, 0, NULL },
    { "locality.ratio", SET_REAL, "0.5", 0.000001, 1e9, "a number from 0.000001" },
    { "locality.tt", SET_SPAN, "0", 0, 0, "a span; 0: 10 s, with the rule move 20 s" },
    { "locality.tt_rule", SET_CHOICE, "steal", 0, 0, "fixed|steal|move" }, /* in the order of htc_locality_tt_rule */
    { "locality.expected", SET_SPAN, "0", 0, 0, "a span; 0: 1 s" },
    { "locality.window", SET_SPAN, "10s", 0, 0, "a span" },
    { "steal.policy", SET_POLICY, "random", HTC_REGISTRY_STEAL, 0, NULL },
    { "steal.neighbours", SET_COUNT, "0", 0, 268435456, "a number from 0 to 268435456; 0: as steal.degree says" },
    { "steal.degree", SET_CHOICE, "sqrt", 0, 0, RULES },
    { "steal.amount", SET_CHOICE, "half", 0, 0, RULES },
    { "steal.wait", SET_SPAN, "10ms", 0, 0, "a span" },
    { "steal.wait_max", SET_SPAN, "50s", 0, 0, "a span" },
    { "steal.at_ceiling", SET_CHOICE, "go_on", 0, 0, "stop|go_on" }, /* in the order of htc_steal_ceiling */
    { "steal.ask", SET_CHOICE, "at_once", 0, 0, "at_once|in_turn" },
    { "steal.nudge", SET_SPAN, "0", 0, 0, "a span; 0: none" },
    { "cost.latency", SET_SPAN, "10us", 0, 0, "a span" },
    { "cost.bandwidth", SET_REAL, "1250000000", 0, 1e15, "bytes a second, from 0, which is without bound" },
    { "cost.links", SET_CHOICE, "free", 0, 0, "free|source|both" }, /* in the order of htc_sim_dataflow_links */
    { "cost.load_bytes", SET_COUNT, "100", 1, 1e9, "a number from 1 to 10^9" },
    { "cost.task_bytes", SET_COUNT, "1024", 1, 1e9, "a number from 1 to 10^9" },
    { "cost.task", SET_SPAN, "1ms", 0, 0, "a span" },
    { "cost.store", SET_SPAN, "1ms", 0, 0, "a span" },
    { "cost.commit", SET_SPAN, "0", 0, 0, "a span" },
    { "cost.give", SET_SPAN, "0", 0, 0, "a span" },
    { "cost.dispatch", SET_SPAN, "1ms", 0, 0, "a span" },
    { "cost.pfs", SET_REAL, "1000000000", 1, 1e15, "bytes a second" },
    { "cost.launch", SET_SPAN, "0", 0, 0, "a span" },
    { "cost.grant", SET_SPAN, "0", 0, 0, "a span" },
    { "cost.container", SET_SPAN, "0", 0, 0, "a span" },
    { NULL, 0, NULL, 0, 0, NULL },
};

/* ---- policies and costs ---- */

static int steal_of(dataflow_study *d, const settings *s, htc_error *error)
{
    d->steal = (htc_steal_options){ .size = sizeof d->steal, .poll_ns = settings_span(s, "steal.wait"), .poll_ns_max = settings_span(s, "steal.wait_max"),
                                    .at_ceiling = settings_choice(s, "steal.at_ceiling"), .neighbours = (uint32_t)settings_count(s, "steal.neighbours"),
                                    .degree = 1 + settings_choice(s, "steal.degree"), .amount = 1 + settings_choice(s, "steal.amount") };
    if (d->steal.neighbours >= d->options.nodes)
        d->steal.neighbours = (uint32_t)d->options.nodes - 1;
    if (d->steal.poll_ns < 1 || d->steal.poll_ns_max < d->steal.poll_ns)
        return settings_refuse(error, HTC_ECONFIG, "steal.wait is 0, or longer than steal.wait_max", "set both: a thief waits steal.wait after its first round in vain, and then twice as long each time");
    (void)htc_steal_find(d->registry, settings_text(s, "steal.policy"), &d->steal.policy); /* that it is there was seen when it was set */
    return 1;
}

static void locality_of(dataflow_study *d, const settings *s)
{
    double ratio = settings_real(s, "locality.ratio") * (double)HTC_LOCALITY_ONE;
    d->locality = (htc_locality_options){ .size = sizeof d->locality, .ratio = ratio < 1 ? 1 : (uint64_t)(ratio + 0.5), .tt_ns = settings_span(s, "locality.tt"),
                                          .tt_rule = settings_choice(s, "locality.tt_rule"), .window_ns = settings_span(s, "locality.window") };
    (void)htc_locality_find(d->registry, settings_text(s, "locality.policy"), &d->locality.policy);
}

static int policies_of(dataflow_study *d, const settings *s, htc_error *error)
{
    if (!(d->registry = policies_open(error)) || !steal_of(d, s, error))
        return 0;
    locality_of(d, s);
    return 1;
}

/* 0 is no cost here, and a default there. */
static htc_ns cost_of(const settings *s, const char *key)
{
    htc_ns span = settings_span(s, key);
    return span ? span : HTC_NEVER;
}

static void costs_of(htc_sim_dataflow_options *o, const settings *s)
{
    double bandwidth = settings_real(s, "cost.bandwidth");
    o->tick_ns = settings_span(s, "sim.tick");
    o->window = (uint32_t)settings_count(s, "machine.window");
    o->latency_ns = cost_of(s, "cost.latency");
    o->bytes_per_s = bandwidth >= 1 ? (uint64_t)bandwidth : bandwidth > 0 ? 1 : UINT64_MAX;
    o->links = settings_choice(s, "cost.links");
    o->load_bytes = (uint32_t)settings_count(s, "cost.load_bytes");
    o->task_bytes = (uint32_t)settings_count(s, "cost.task_bytes");
    o->task_ns = cost_of(s, "cost.task");
    o->store_ns = cost_of(s, "cost.store");
    o->commit_ns = settings_span(s, "cost.commit");
    o->give_ns = settings_span(s, "cost.give");
    o->dispatch_ns = cost_of(s, "cost.dispatch");
    o->pfs_bytes_per_s = (uint64_t)settings_real(s, "cost.pfs");
    o->launch_ns = settings_span(s, "cost.launch");
    o->grant_ns = settings_span(s, "cost.grant");
    o->container_ns = settings_span(s, "cost.container");
    o->expected_ns = settings_span(s, "locality.expected");
    o->nudge_ns = settings_span(s, "steal.nudge");
    o->in_turn = settings_choice(s, "steal.ask");
}

/* ---- the graph and its data ---- */

static htc_scale_law bytes_of(const settings *s, const char *key)
{
    uint64_t min, max;
    settings_counts(s, key, &min, &max);
    double a = (double)min, b = (double)max;
    return (htc_scale_law){ min == max ? HTC_SCALE_CONSTANT : HTC_SCALE_UNIFORM, 0, (a + b) / 2, min == max ? 0 : (b - a) / (a + b) };
}

static int phases_of(dataflow_study *d, settings *s, htc_error *error)
{
    size_t n = 0;
    while (settings_section(s, "phase", n))
        n++;
    if (n < 1 || n > HTC_SIM_DATAFLOW_PHASES_MAX)
        return settings_refuse(error, HTC_ECONFIG, "there are no phases, or more than 256", "write a section [phase.NAME] for each, in their order");
    d->phases = calloc(n, sizeof *d->phases);
    if (!d->phases)
        return settings_refuse(error, HTC_ENOMEM, "no memory for the phases", "make them fewer");
    for (size_t i = 0; i < n; i++) {
        const char *name = settings_section(s, "phase", i);
        double      share = settings_real(s, settings_in(s, "phase", name, "per_core")) * (double)d->options.nodes * d->options.cores;
        uint64_t    tasks = settings_count(s, settings_in(s, "phase", name, "tasks"));
        d->phases[i] = (htc_sim_dataflow_phase){ .size = sizeof *d->phases, .tasks = tasks ? tasks : share < 1 ? 1 : (uint64_t)share };
        d->phases[i].length = settings_law(s, settings_in(s, "phase", name, "length"));
        d->phases[i].bytes = bytes_of(s, settings_in(s, "phase", name, "bytes"));
        d->options.tasks += d->phases[i].tasks;
    }
    d->options.phases = d->phases;
    d->options.n_phases = n;
    return 1;
}

static int graph_of(dataflow_study *d, settings *s, htc_error *error)
{
    htc_sim_dataflow_options *o = &d->options;
    const char               *file = settings_text(s, "graph.file");
    double                    share = (double)o->nodes * o->cores * (double)settings_count(s, "graph.per_core");
    o->shape = settings_choice(s, "graph.shape");
    o->degree = (uint32_t)settings_count(s, "graph.degree");
    o->layout = settings_choice(s, "graph.layout");
    if (o->shape == HTC_SIM_DATAFLOW_PHASES)
        return phases_of(d, s, error);
    if (o->shape == HTC_SIM_DATAFLOW_FLOW) {
        if (!file[0])
            return settings_refuse(error, HTC_ECONFIG, "graph.shape is flow, and there is none", "set graph.file to the name of a flow, as htc flow run takes it");
        o->flow = d->flow = study_flow(file, error);
        o->tasks = htc_flow_total(d->flow);
        return d->flow != NULL;
    }
    if (file[0])
        return settings_refuse(error, HTC_ECONFIG, "graph.file names a flow, and graph.shape is another one", "set graph.shape to flow, or leave graph.file out");
    o->tasks = settings_count(s, "graph.tasks");
    o->tasks = o->tasks ? o->tasks : share < 1e18 ? (uint64_t)share : 0;
    o->length = settings_law(s, "graph.length");
    o->bytes = bytes_of(s, "graph.bytes");
    if (o->tasks < 1 || o->tasks > HTC_SIM_DATAFLOW_TASKS_MAX)
        return settings_refuse(error, HTC_ECONFIG, "there are more than 2^30 tasks", "lower graph.tasks or graph.per_core");
    return 1;
}

static int data_of(dataflow_study *d, const settings *s, htc_error *error)
{
    htc_sim_dataflow_options *o = &d->options;
    double                    files = ceil((double)o->tasks / settings_real(s, "data.per_file"));
    o->inputs = settings_choice(s, "data.inputs");
    o->files = settings_count(s, "data.files");
    o->files = o->files ? o->files : files < 1e9 ? (uint64_t)files : 0;
    o->file_bytes = settings_count(s, "data.file_bytes");
    o->scattered = settings_choice(s, "data.scattered");
    o->shuffled = settings_choice(s, "data.shuffled");
    o->cache_bytes = settings_size(s, "data.cache");
    o->disk_bytes_per_s = (uint64_t)settings_real(s, "data.disk");
    if (!o->inputs)
        o->files = 0;
    if (o->inputs && (o->files < 1 || o->files > HTC_SIM_DATAFLOW_TASKS_MAX))
        return settings_refuse(error, HTC_ECONFIG, "there are no files, or more than 2^30", "set data.files");
    if (o->inputs == HTC_SIM_DATAFLOW_PAIRS && o->files % 2)
        return settings_refuse(error, HTC_ECONFIG, "pairs are of two halves of all files, and their number is odd", "set data.files to an even number");
    return 1;
}

/* What the files' way to their nodes takes before the first task, each node's one after the other: part of the makespan that experiments tell. */
static double copy_in_s(const dataflow_study *d, const settings *s)
{
    const htc_sim_dataflow_options *o = &d->options;
    double                          of_node = ceil((double)o->files / (double)o->nodes) * (double)o->file_bytes;
    return settings_choice(s, "data.copy_in") && o->inputs ? of_node / (double)o->bytes_per_s : 0;
}

/* ---- a run is opened and closed ---- */

/* Some hundred samples of what an ideal machine takes. */
static htc_ns sample_of(const dataflow_study *d, const settings *s)
{
    const htc_sim_dataflow_options *o = &d->options;
    double                          work = (double)o->tasks * o->length.mean_ns;
    if (strcmp(settings_text(s, "sim.sample"), "auto") != 0)
        return settings_span(s, "sim.sample");
    for (size_t i = 0; i < o->n_phases; i++)
        work += (double)d->phases[i].tasks * d->phases[i].length.mean_ns;
    if (d->flow)
        for (uint32_t i = 0; i < htc_flow_count(d->flow); i++) {
            const htc_flow_task *t = htc_flow_get(d->flow, i);
            work += (double)(t->run ? t->run : t->amount) * (double)t->count;
        }
    double span = fmax(work / ((double)o->nodes * o->cores), o->length.mean_ns);
    return (htc_ns)fmax(span / 600, (double)o->tick_ns);
}

static void close_run(void *run)
{
    dataflow_study *d = run;
    if (!d)
        return;
    htc_flow_destroy(d->flow);
    htc_registry_destroy(d->registry);
    free(d->course);
    free(d->phases);
    free(d);
}

static void *open_run(settings *s, uint64_t seed, int drawn, htc_error *error)
{
    dataflow_study *d = calloc(1, sizeof *d);
    (void)drawn;
    if (!d) {
        settings_refuse(error, HTC_ENOMEM, "no memory for the experiment", "make it smaller");
        return NULL;
    }
    htc_sim_dataflow_options *o = &d->options;
    d->report.size = sizeof d->report;
    *o = (htc_sim_dataflow_options){ .size = sizeof *o, .seed = seed, .system = settings_choice(s, "machine.system"), .nodes = settings_count(s, "machine.nodes"),
                                     .cores = (uint32_t)settings_count(s, "machine.cores"), .steal = &d->steal, .locality = &d->locality };
    d->bound_k = (uint64_t)settings_real(s, "sim.bound");
    costs_of(o, s);
    if (o->tick_ns == 0)
        settings_refuse(error, HTC_ECONFIG, "sim.tick is 0", "set it to 1us");
    else if (o->nodes * o->cores > HTC_SIM_DATAFLOW_CORES_MAX)
        settings_refuse(error, HTC_ECONFIG, "there are more than 2^24 cores", "lower machine.nodes or machine.cores");
    else if (policies_of(d, s, error) && graph_of(d, s, error) && data_of(d, s, error) && dataflow_course_open(d, error)) {
        o->sample_ns = sample_of(d, s);
        d->copy_in_s = copy_in_s(d, s);
        return d;
    }
    close_run(d);
    return NULL;
}

/* ---- a run ---- */

static int resume(void *run, const htc_scale_tape *tape, htc_error *error)
{
    dataflow_study *d = run;
    d->options.resume = tape;
    if (tape->move(tape->ctx, d->course, sizeof *d->course) == HTC_OK && d->course->n <= DATAFLOW_SAMPLES)
        return 1;
    return settings_refuse(error, HTC_ECORRUPT, "the course of the run is not in the checkpoint", "run the experiment again");
}

static int run_it(void *run, const htc_scale_tape *checkpoint, watch *w, htc_error *error)
{
    dataflow_study *d = run;
    course_tape     tape;
    double          begun = watch_seconds();
    htc_ns          bound = 0;
    d->options.host = &w->host;
    d->options.checkpoint = course_tape_open(&tape, checkpoint, d->course, sizeof *d->course);
    d->options.sample = dataflow_course_keep;
    d->options.ctx = d;
    *error = (htc_error){ 0 };
    uint64_t bytes = 0;
    (void)htc_sim_dataflow_memory(&d->options, &bytes);
    watch_needs(w, bytes);
    htc_status status = htc_sim_dataflow_run(&w->env, &d->options, &d->report, error);
    watch_close(w);
    d->seconds = watch_seconds() - begun;
    if (status == HTC_OK && d->bound_k && !d->report.interrupted)
        status = htc_sim_dataflow_bound(&w->env, &d->options, d->bound_k, &bound);
    d->bound_s = (double)bound / 1e9;
    if (status == HTC_OK)
        return 1;
    if (!error->text[0])
        snprintf(error->text, sizeof error->text, "%s", htc_strerror(status));
    error->status = status;
    if (!error->hint[0])
        snprintf(error->hint, sizeof error->hint, "%s",
             status == HTC_ETOOBIG ? "give it fewer tasks, or raise sim.memory or sim.tick" : d->options.system == HTC_SIM_DATAFLOW_YARN ? "yarn runs the shapes bag, mapreduce and phases" : "change its settings");
    return 0;
}

enum { EFFICIENCY, THROUGHPUT, UTILISATION, MAKESPAN, PER_TASK, HELD, DELAY, TURNAROUND, HITS, MOVED, PUSHED, FREED, STOLEN, STEALS, ROUNDS, CV, BOUND, BALANCED, TAIL, MEMORY, SECONDS, TASK_NS };
static const measure measures[] = { [EFFICIENCY] = { "efficiency", 4 }, [THROUGHPUT] = { "throughput", 2 }, [UTILISATION] = { "utilisation", 4 }, [MAKESPAN] = { "makespan_s", 3 },
                                    [PER_TASK] = { "per_task_s", 4 },   [HELD] = { "held_s", 4 },           [DELAY] = { "delay_ratio", 4 },     [TURNAROUND] = { "turnaround_s", 3 }, [HITS] = { "hits", 4 },
                                    [MOVED] = { "moved_mb", 1 },        [PUSHED] = { "pushed", 0 },         [FREED] = { "freed", 0 },             [STOLEN] = { "stolen", 0 },
                                    [STEALS] = { "steals", 0 },         [ROUNDS] = { "rounds", 0 },         [CV] = { "cv", 4 },                   [BOUND] = { "of_bound", 4 },
                                    [BALANCED] = { "balanced_s", 3 },   [TAIL] = { "tail", 4 },             [MEMORY] = { "memory_mib", 1 },       [SECONDS] = { "seconds", 2 },
                                    [TASK_NS] = { "task_ns", 1 },       { NULL, 0 } };

static void outcome_of(const void *run, outcome *o)
{
    const dataflow_study          *d = run;
    const htc_sim_dataflow_report *r = &d->report;
    double                         span = (double)r->scale.makespan / 1e9 + d->copy_in_s, ran = (double)r->scale.makespan / 1e9;
    o->hash = r->scale.hash;
    o->events = r->scale.events_here;
    o->done = !r->interrupted;
    o->value[EFFICIENCY] = span > 0 ? r->efficiency * ran / span : 0;
    o->value[THROUGHPUT] = span > 0 ? r->throughput * ran / span : 0;
    o->value[UTILISATION] = span > 0 ? r->utilisation * ran / span : 0;
    o->value[MAKESPAN] = span;
    o->value[PER_TASK] = r->scale.ended ? span * (double)r->cores / (double)r->scale.ended : 0;
    o->value[HELD] = r->scale.ended ? r->held_s / (double)r->scale.ended : 0;
    o->value[DELAY] = r->delay_ratio;
    o->value[TURNAROUND] = r->turnaround_s;
    o->value[HITS] = r->read_bytes ? 1 - (double)r->moved_bytes / (double)r->read_bytes : 0;
    o->value[MOVED] = (double)r->moved_bytes / 1e6;
    o->value[PUSHED] = (double)r->pushed;
    o->value[FREED] = (double)r->freed;
    o->value[STOLEN] = (double)r->stolen;
    o->value[STEALS] = (double)r->steals;
    o->value[ROUNDS] = (double)r->rounds;
    o->value[CV] = r->cv;
    o->value[BOUND] = ran > 0 ? d->bound_s / ran : 0;
    o->value[BALANCED] = dataflow_course_reaches(d, 0.95);
    o->value[TAIL] = ran > 0 ? dataflow_course_tail(d, 0.5) / ran : 0;
    o->value[MEMORY] = (double)r->memory / 1048576;
    o->value[SECONDS] = d->seconds;
    o->value[TASK_NS] = ns_of_each(d->seconds, r->scale.ended_here);
    snprintf(o->error.text, sizeof o->error.text, "%s", r->scale.wrong);
}

static const model_option options[] = {
    { "system", "NAME", "machine.system", "workers, datadiff, pfs, active or yarn (workers)" },
    { "nodes", "N", "machine.nodes", "of the machine (100)" },
    { "cores", "N", "machine.cores", "of each node (2)" },
    { "shape", "NAME", "graph.shape", "bag, fanout, fanin, pipeline, mapreduce, phases or flow (bag)" },
    { "degree", "N", "graph.degree", "of a shape (10)" },
    { "flow", "FILE", "graph.file", "the flow of the shape flow, as htc flow run takes it" },
    { "tasks", "N", "graph.tasks", "in all (0: as --per-core says)" },
    { "per-core", "N", "graph.per_core", "tasks of each core (1000)" },
    { "length", "LAW", "graph.length", "of a task: " LAW_WORDS " (0..100ms)" },
    { "output", "A[..B]", "graph.bytes", "bytes that a task makes and its children read (0..10M)" },
    { "layout", "NAME", "graph.layout", "tasks wait at one node, in equal shares at each, or at random ones (random)" },
    { "locality", "NAME", "locality.policy", "flds, rlds, mdl, mlb, or of --policy-from (flds)" },
    { "ratio", "T", "locality.ratio", "moving its data may take such a part of a task's length (0.5)" },
    { "tt", "SPAN", "locality.tt", "LReadyQ is to be done in this time (0: 10s, with the rule move 20s)" },
    { "tt-rule", "NAME", "locality.tt_rule", "fixed, steal or move (steal)" },
    { "cache", "SIZE", "data.cache", "of a node, for what it fetched (0)" },
    { "links", "NAME", "cost.links", "a transfer takes nobody's link (free), the source's or both (free)" },
    { "steal-policy", "NAME", "steal.policy", "whom a thief asks: random, one, two, log2, sqrt, static, near, or of --policy-from (random)" },
    { "policy", "NAME", "steal.policy", "the same" },
    { "neighbours", "N", "steal.neighbours", "that a thief asks (0: as steal.degree says)" },
    { "amount", "NAME", "steal.amount", "of the victim's tasks: one, two, log2, sqrt or half (half)" },
    { "wait", "SPAN", "steal.wait", "after the first round in vain; it doubles (10ms)" },
    { "wait-max", "SPAN", "steal.wait_max", "the longest wait (50s)" },
    { "nudge", "SPAN", "steal.nudge", "between two nudges of a node with tasks that wait (0: none)" },
    { "latency", "SPAN", "cost.latency", "of a message (10us)" },
    { "bandwidth", "RATE", "cost.bandwidth", "bytes a second of a link (1250000000)" },
    { "dispatch", "SPAN", "cost.dispatch", "of a dispatcher, for a task (1ms)" },
    { "bound", "K", "sim.bound", "tell the bound too, with waits of K tasks a core (0: do not)" },
    { "sample", "SPAN", "sim.sample", "between two samples of the course (auto)" },
    { "tick", "SPAN", "sim.tick", "in which virtual time passes (1us)" },
    { NULL, NULL, NULL, NULL },
};

static const model_preset presets[] = { { NULL, NULL } };

const model dataflow_model = { .name = "dataflow", .about = "tasks that wait for tasks and read what these made, on nodes that steal, or with a dispatcher", .table = table, .options = options,
                               .presets = presets, .measures = measures, .open = open_run, .resume = resume, .run = run_it, .outcome = outcome_of, .say = dataflow_say, .plot = dataflow_plot,
                               .close = close_run };
