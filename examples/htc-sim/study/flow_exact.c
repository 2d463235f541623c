/* One flow over workers in virtual time, message by message (htcsched/sim_flow.h), as a model of studies: an experiment can have it beside a scale model. The command
 * htc-sim flow runs the same from its own words. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../policies.h"
#include "dataflow.h"
#include "htcsched/sim_flow.h"
#include "plot.h"
#include "study.h"
#include "values.h"

#define FILE_MAX (256u << 20)

typedef struct exact_study {
    htc_sim_flow_options options;
    htc_steal_options    steal;
    htc_registry        *registry; /* of policies by name */
    htc_flow            *flow;
    htc_sim_flow_report  report;
    double               balanced_s; /* until 95 % of the slots are busy for the first time; 0: never */
    double               full_s;     /* the last moment at which half of them are */
    FILE                *csv;        /* of the course, while it is kept */
    double               seconds;    /* that the run took here */
} exact_study;

#define RULES "one|two|log2|sqrt|half" /* in the order of htc_steal_rule, from 1 */

static const setting table[] = {
    { "sim.model", SET_CHOICE, "flow", 0, 0, "flow" },
    { "sim.seed", SET_COUNT, "1", 0, 9e18, "a number" },
    { "sim.memory", SET_SIZE, "0", 0, 0, "bytes: 512M, 8G; not looked at" },
    { "sim.sample", SET_SPAN, "100ms", 0, 0, "a span" },
    { "machine.nodes", SET_COUNT, "8", 1, HTC_SIM_FLOW_WORKERS_MAX, "a number from 1 to 1024" },
    { "machine.cores", SET_COUNT, "1", 1, 128, "a number from 1 to 128" },
    { "graph.shape", SET_CHOICE, "bag", 0, 0, "bag|fanout|fanin|pipeline|mapreduce|flow" }, /* in the order of htc_flow_shape, from 1 */
    { "graph.degree", SET_COUNT, "2", 1, 4096, "a number from 1 to 4096" },
    { "graph.file", SET_FILE, NULL, 0, 0, "the name of a flow" },
    { "graph.tasks", SET_COUNT, "0", 0, 10000000, "a number from 0 to 10000000; 0: as graph.per_core says" },
    { "graph.per_core", SET_COUNT, "100", 1, 1e6, "a number from 1 to 1000000" },
    { "graph.length", SET_LAW, "1s", 0, 0, "SPAN or A..B" },
    { "graph.layout", SET_CHOICE, "one", 0, 0, "one|each" }, /* in the order of htc_sim_flow_layout */
    { "steal.policy", SET_POLICY, "random", HTC_REGISTRY_STEAL, 0, NULL },
    { "steal.neighbours", SET_COUNT, "0", 0, 1023, "a number from 0 to 1023; 0: as steal.degree says" },
    { "steal.degree", SET_CHOICE, "sqrt", 0, 0, RULES },
    { "steal.amount", SET_CHOICE, "half", 0, 0, RULES },
    { "steal.wait", SET_SPAN, "1ms", 0, 0, "a span" },
    { "steal.wait_max", SET_SPAN, "50s", 0, 0, "a span" },
    { "cost.latency", SET_SPAN, "50us", 0, 0, "a span" },
    { "cost.jitter", SET_SPAN, "0", 0, 0, "a span" },
    { "cost.commit", SET_SPAN, "200us", 0, 0, "a span" },
    { "cost.start", SET_SPAN, "0", 0, 0, "a span" },
    { "cost.stage", SET_SPAN, "0", 0, 0, "a span" },
    { NULL, 0, NULL, 0, 0, NULL },
};

/* ---- a flow from a file ---- */

static char *read_all(const char *name, size_t *len)
{
    FILE *f = fopen(name, "rb");
    char *bytes = NULL;
    *len = 0;
    for (size_t cap = 0, got = f != NULL; got && *len < FILE_MAX;) {
        if (*len == cap) {
            char *more = realloc(bytes, cap = cap ? 2 * cap : 65536);
            if (!more)
                break;
            bytes = more;
        }
        *len += got = fread(bytes + *len, 1, cap - *len, f);
    }
    int why = f && ferror(f) ? errno : 0; /* a folder can be opened, and not read */
    if (f)
        fclose(f);
    if (why) {
        free(bytes);
        bytes = NULL;
        errno = why;
    }
    return bytes;
}

htc_flow *study_flow(const char *file, htc_error *error)
{
    htc_flow_reading how = { .size = sizeof how, .file = file, .directory = "/" }; /* objects are not loaded */
    htc_flow        *flow = NULL;
    size_t           len;
    char            *bytes = read_all(file, &len);
    if (!bytes) {
        settings_refuse(error, HTC_ECONFIG, "", "set graph.file to the name of a flow, as htc flow run takes it");
        snprintf(error->text, sizeof error->text, "%.200s cannot be read: %s", file, strerror(errno));
        return NULL;
    }
    *error = (htc_error){ 0 };
    htc_status status = htc_flow_read(NULL, (htc_bytes){ bytes, len }, HTC_FLOW_AUTO, &how, &flow, error);
    free(bytes);
    if (status == HTC_OK)
        return flow;
    error->status = HTC_ECONFIG;
    if (!error->text[0])
        snprintf(error->text, sizeof error->text, "%s", htc_strerror(status));
    if (error->line)
        snprintf(error->where, sizeof error->where, "%.140s:%u", file, (unsigned)error->line);
    else if (!error->where[0])
        snprintf(error->where, sizeof error->where, "%.150s", file);
    return NULL;
}

/* ---- its settings ---- */

static int flow_of(exact_study *x, const settings *s, uint64_t seed, htc_error *error)
{
    const char        *file = settings_text(s, "graph.file");
    htc_scale_law      law = settings_law(s, "graph.length");
    htc_flow_generator g = { .size = sizeof g, .shape = 1 + settings_choice(s, "graph.shape"), .degree = (uint32_t)settings_count(s, "graph.degree"),
                             .tasks = settings_count(s, "graph.tasks"), .seed = seed };
    if (g.shape > HTC_FLOW_MAPREDUCE) {
        if (!file[0])
            return settings_refuse(error, HTC_ECONFIG, "graph.shape is flow, and there is none", "set graph.file to the name of a flow, as htc flow run takes it");
        return (x->flow = study_flow(file, error)) != NULL;
    }
    if (law.kind > HTC_SCALE_UNIFORM)
        return settings_refuse(error, HTC_ECONFIG, "the exact engine draws lengths between two bounds", "set graph.length to SPAN or A..B, or give it a flow with graph.file");
    g.tasks = g.tasks ? g.tasks : (uint64_t)x->options.workers * x->options.slots * settings_count(s, "graph.per_core");
    g.length_min = (htc_ns)(law.mean_ns * (1 - law.spread) + 0.5);
    g.length_max = (htc_ns)(law.mean_ns * (1 + law.spread) + 0.5);
    htc_status status = htc_flow_generate(NULL, &g, &x->flow);
    return status == HTC_OK || settings_refuse(error, status, "the flow cannot be generated", "make it smaller");
}

static void close_run(void *run)
{
    exact_study *x = run;
    if (!x)
        return;
    htc_flow_destroy(x->flow);
    htc_registry_destroy(x->registry);
    free(x);
}

static void *open_run(settings *s, uint64_t seed, int drawn, htc_error *error)
{
    exact_study *x = calloc(1, sizeof *x);
    (void)drawn;
    if (!x) {
        settings_refuse(error, HTC_ENOMEM, "no memory for the experiment", "make it smaller");
        return NULL;
    }
    x->report.size = sizeof x->report;
    x->steal = (htc_steal_options){ .size = sizeof x->steal, .poll_ns = settings_span(s, "steal.wait"), .poll_ns_max = settings_span(s, "steal.wait_max"),
                                    .neighbours = (uint32_t)settings_count(s, "steal.neighbours"), .degree = 1 + settings_choice(s, "steal.degree"),
                                    .amount = 1 + settings_choice(s, "steal.amount") };
    x->options = (htc_sim_flow_options){ .size = sizeof x->options, .seed = seed, .workers = (uint32_t)settings_count(s, "machine.nodes"),
                                         .slots = (uint32_t)settings_count(s, "machine.cores"), .layout = settings_choice(s, "graph.layout"), .steal = &x->steal,
                                         .latency_ns = settings_span(s, "cost.latency"), .jitter_ns = settings_span(s, "cost.jitter"), .commit_ns = settings_span(s, "cost.commit"),
                                         .start_ns = settings_span(s, "cost.start"), .stage_ns = settings_span(s, "cost.stage"), .sample_ns = settings_span(s, "sim.sample") };
    if (x->steal.neighbours >= x->options.workers)
        x->steal.neighbours = x->options.workers - 1;
    if (x->steal.poll_ns < 1 || x->steal.poll_ns_max < x->steal.poll_ns)
        settings_refuse(error, HTC_ECONFIG, "steal.wait is 0, or longer than steal.wait_max", "set both");
    else if ((x->registry = policies_open(error)) && htc_steal_find(x->registry, settings_text(s, "steal.policy"), &x->steal.policy) == HTC_OK && flow_of(x, s, seed, error))
        return x;
    close_run(x);
    return NULL;
}

/* ---- a run ---- */

static void take_sample(void *ctx, const htc_sim_flow_sample *s)
{
    exact_study *x = ctx;
    double       slots = (double)x->options.workers * x->options.slots, at = (double)s->at / 1e9;
    if (x->balanced_s <= 0 && s->busy >= 0.95 * slots)
        x->balanced_s = at;
    if (s->busy >= 0.5 * slots)
        x->full_s = at;
    if (x->csv)
        fprintf(x->csv, "%.6f,%.0f,%u,%" PRIu64 "\n", at, slots, (unsigned)s->busy, s->ended);
}

static int run_it(void *run, const htc_scale_tape *state, watch *w, htc_error *error)
{
    exact_study *x = run;
    double       begun = watch_seconds();
    (void)state;
    x->options.host = &w->host;
    x->options.sample = take_sample;
    x->options.sample_ctx = x;
    *error = (htc_error){ 0 };
    htc_status status = htc_sim_flow_run(NULL, x->flow, &x->options, &x->report);
    watch_close(w);
    x->seconds = watch_seconds() - begun;
    if (status == HTC_OK)
        return 1;
    settings_refuse(error, status, htc_strerror(status), "make the flow smaller, or change its settings");
    return 0;
}

enum { EFFICIENCY, THROUGHPUT, UTILISATION, MAKESPAN, CV, STOLEN, COMMITS, BALANCED, TAIL, SECONDS };
static const measure measures[] = { [EFFICIENCY] = { "efficiency", 4 }, [THROUGHPUT] = { "throughput", 2 }, [UTILISATION] = { "utilisation", 4 }, [MAKESPAN] = { "makespan_s", 3 },
                                    [CV] = { "cv", 4 },                 [STOLEN] = { "stolen", 0 },         [COMMITS] = { "commits", 0 },         [BALANCED] = { "balanced_s", 3 },
                                    [TAIL] = { "tail", 4 },             [SECONDS] = { "seconds", 2 },       { NULL, 0 } };

static void outcome_of(const void *run, outcome *o)
{
    const exact_study         *x = run;
    const htc_sim_flow_report *r = &x->report;
    double                     span = (double)r->span / 1e9;
    o->hash = r->hash;
    o->done = !r->interrupted;
    o->value[EFFICIENCY] = r->efficiency;
    o->value[THROUGHPUT] = r->throughput;
    o->value[UTILISATION] = r->utilisation;
    o->value[MAKESPAN] = span;
    o->value[CV] = r->cv;
    o->value[STOLEN] = (double)r->stolen;
    o->value[COMMITS] = (double)r->commits;
    o->value[BALANCED] = x->balanced_s > 0 ? x->balanced_s : span;
    o->value[TAIL] = span > 0 ? (span - x->full_s) / span : 0;
    o->value[SECONDS] = x->seconds;
    if (r->failed)
        snprintf(o->error.text, sizeof o->error.text, "%.*s", (int)sizeof o->error.text - 1, r->text);
}

/* ---- what is told ---- */

static void say(const void *run, int json)
{
    const exact_study         *x = run;
    const htc_sim_flow_report *r = &x->report;
    if (json) {
        printf("{\"interrupted\":%s,\"workers\":%u,\"slots\":%u,\"tasks\":%" PRIu64 ",\"makespan_s\":%.6f,\"efficiency\":%.6f,\"utilisation\":%.6f,\"throughput\":%.4f,\"cv\":%.6f,\"stolen\":%" PRIu64
               ",\"commits\":%" PRIu64 ",\"events\":%" PRIu64 ",\"seconds\":%.3f,\"hash\":\"%016" PRIx64 "\"}\n",
               r->interrupted ? "true" : "false", (unsigned)x->options.workers, (unsigned)r->slots, r->tasks, (double)r->span / 1e9, r->efficiency, r->utilisation, r->throughput, r->cv, r->stolen, r->commits, r->events,
               x->seconds, r->hash);
        return;
    }
    if (r->interrupted)
        printf("interrupted at %.3f s of virtual time, when %" PRIu64 " tasks had run; what there was until then:\n", (double)r->span / 1e9, r->runs);
    printf("%" PRIu64 " task%s on %u worker%s with %u slot%s in all, message by message\n"
           "%-13s%.3f s\n"
           "throughput   %.2f tasks a second\n"
           "efficiency   %.4f of the ideal; %.4f of the slots' time was work\n"
           "tasks        of a worker: coefficient of variation %.4f; %" PRIu64 " were stolen\n"
           "run          %" PRIu64 " events in %.2f s, hash %016" PRIx64 "\n",
           r->tasks, plural(r->tasks), (unsigned)x->options.workers, plural(x->options.workers), (unsigned)r->slots, plural(r->slots), r->interrupted ? "until then" : "makespan", (double)r->span / 1e9, r->throughput, r->efficiency, r->utilisation, r->cv, r->stolen, r->events, x->seconds, r->hash);
}

/* The same run again, with its course as a file. */
static int plot(const void *run, const char *folder, const char *suffix)
{
    exact_study         x = *(const exact_study *)run;
    htc_sim_flow_report again = { .size = sizeof again };
    htc_scale_host      host = { .size = sizeof host, .stop = x.options.host->stop, .stop_after = x.options.host->stop_after };
    x.csv = plot_open(folder, "utilisation", suffix, "csv");
    if (!x.csv)
        return -1;
    fprintf(x.csv, "seconds,cores,busy,ended\n");
    x.options.sample = take_sample;
    x.options.sample_ctx = &x;
    x.options.steal = &x.steal;
    x.options.host = &host; /* a signal that stopped the run stops this at its beginning */
    (void)htc_sim_flow_run(NULL, x.flow, &x.options, &again);
    int cut = again.interrupted && !x.report.interrupted;
    return plot_close(x.csv) != 0 || cut ? -1 : 0;
}

static const model_option options[] = { { NULL, NULL, NULL, NULL } };
static const model_preset presets[] = { { NULL, NULL } };

const model flow_model = { .name = "flow", .about = "one flow message by message, with the machines that run live: in experiments, htc-sim run; htc-sim flow has words of its own",
                           .table = table, .options = options, .presets = presets, .measures = measures, .open = open_run, .run = run_it, .outcome = outcome_of, .say = say,
                           .plot = plot, .close = close_run };
