#include "dsp.h"

#include <stdlib.h>
#include <string.h>

#include "../policies.h"
#include "values.h"
#include "arrivals.h"
#include "course.h"

/* ---- its settings ---- */

const char *const        dsp_systems[] = { "dsp", "dcs", "ssp", "drp" }; /* in the order of htc_sim_provision_system */

static const setting table[] = {
    { "sim.model", SET_CHOICE, "dsp", 0, 0, "dsp" },
    { "sim.seed", SET_COUNT, "1", 0, 9e18, "a number" },
    { "sim.tick", SET_SPAN, "1ms", 1, 0, "a span from 1 ns: 1ms, 1s" },
    { "sim.memory", SET_SIZE, "0", 0, 0, "bytes: 512M, 8G; 0: three quarters of this machine's" },
    { "sim.engine", SET_CHOICE, "scale", 0, 0, "scale|exact" },
    { "exact.latency", SET_SPAN, "1ms", 1, 3.6e12, "a span from 1 ns to 1h" },
    { "exact.jitter", SET_SPAN, "0", 0, 3.6e12, "a span to 1h" },
    { "exact.gather", SET_SPAN, "1ms", 1, 3.6e12, "a span from 1 ns to 1h" },
    { "sim.sample", SET_SPAN, "0", 0, 0, "a span; 0: a lease unit, with --plot a twelfth of it, or the next larger part that is a whole number of ticks" },
    { "provider.system", SET_CHOICE, "dsp", 0, 0, "dsp|dcs|ssp|drp" }, /* in the order of dsp_systems */
    { "provider.nodes", SET_COUNT, "480", 0, 4294967295.0, "a number from 1 to 4294967295; 0: so many" },
    { "provider.grant", SET_POLICY, "all_or_reject", HTC_REGISTRY_GRANT, 0, NULL },
    { "provider.unit", SET_SPAN, "1h", 0, 0, "a span" },
    { "provider.setup", SET_POLICY, "packages", HTC_REGISTRY_SETUP, 0, NULL },
    { "provider.setup_time", SET_SPAN, "15.743s", 0, 0, "a span" },
    { "provider.setup_delay", SET_CHOICE, "off", 0, 0, "off|on" },
    { "provider.price", SET_REAL, "0.1", 0, 1e9, "of a node for a unit, a number from 0" },
    { "provider.shared", SET_CHOICE, "off", 0, 0, "off|on" },
    { "provider.policy", SET_POLICY, "perlease", HTC_REGISTRY_PROVISION, 0, NULL },
    { "provider.B", SET_COUNT, "0", 0, 4294967295.0, "a number of nodes" },
    { "provider.R", SET_REAL, "1.2", 0, 1e9, "a number from 0" },
    { "provider.scan", SET_SPAN, "60s", 0, 0, "a span" },
    { "provider.phase", SET_SPAN_OR_AUTO, "0", 0, 0, "a span, or auto: drawn from the seed" },
    { "tre.*.enabled", SET_CHOICE, "on", 0, 0, "off|on" },
    { "tre.*.type", SET_CHOICE, "htc", 0, 0, "htc|mtc" },
    { "tre.*.trace", SET_FILE, NULL, 0, 0, "the name of a log in the Standard Workload Format" },
    { "tre.*.per_node", SET_COUNT, "1", 1, 1e9, "processors of a node, from 1" },
    { "tre.*.status", SET_CHOICE, "any", 0, 0, "any|completed" },
    { "tre.*.skip_bad", SET_CHOICE, "off", 0, 0, "off|on" },
    { "tre.*.estimates", SET_CHOICE, "asked", 0, 0, "asked|exact|none" },
    { "tre.*.flow", SET_FILE, NULL, 0, 0, "the name of a workflow: text, JSON, DAX or WfCommons" },
    { "tre.*.jobs", SET_COUNT, "1000", 0, 1e12, "a number from 0 to 10^12" },
    { "tre.*.gap", SET_LAW, "exponential 2min", 0, 0, LAW_WORDS },
    ARRIVAL_SETTINGS("tre.*"),
    { "tre.*.length", SET_LAW, "lognormal 10min 2", 0, 0, LAW_WORDS },
    { "tre.*.sizes", SET_COUNTS, "1..32", 1, 4294967295.0, "a number of nodes, or two: A..B" },
    { "tre.*.window", SET_SPAN, "0", 0, 0, "a span; 0: until its work has ended" },
    { "tre.*.nodes", SET_COUNT, "128", 1, 4294967295.0, "a number from 1 to 4294967295" },
    { "tre.*.B", SET_COUNT, NULL, 0, 4294967295.0, "a number of nodes" },
    { "tre.*.R", SET_REAL, NULL, 0, 1e9, "a number from 0" },
    { "tre.*.scan", SET_SPAN, NULL, 0, 0, "a span" },
    { "tre.*.phase", SET_SPAN_OR_AUTO, "0", 0, 0, "a span, or auto: drawn from the seed" },
    { "tre.*.policy", SET_POLICY, "paper", HTC_REGISTRY_PROVISION, 0, NULL },
    { "tre.*.demand", SET_CHOICE, "unfinished", 0, 0, "unfinished|waiting" },
    { "tre.*.order", SET_POLICY, "auto", HTC_REGISTRY_FIT, 0, "auto" },
    { "tre.*.priority", SET_COUNT, "0", 0, 1e6, "a number from 0 to 1000000" },
    { "tre.*.weight", SET_COUNT, "1", 1, 1e6, "a number from 1 to 1000000" },
    { NULL, 0, NULL, 0, 0, NULL },
};

/* R in millionths; 0: the least there is, since 0 stands for the default. */
static uint64_t ratio_of(double r)
{
    uint64_t v = (uint64_t)(r * (double)HTC_PROVISION_ONE + 0.5);
    return v ? v : 1;
}

static uint64_t initial_of(uint64_t b)
{
    return b ? b : HTC_PROVISION_NO_NODES;
}

/* Seeds 1 to 20 have the twenty twentieths of a scan, in this order, and then again. */
static htc_ns phase_of(const settings *s, const char *key, htc_ns scan, uint64_t seed)
{
    htc_ns span = strcmp(settings_text(s, key), "auto") == 0 ? scan / 20 * ((seed + 19) % 20 + 1) : settings_span(s, key);
    return span ? span : 1; /* 0 stands for the default */
}

static int book_of(dsp_study *d, size_t i, settings *s, uint64_t seed)
{
    const char            *name = d->work[i].name;
    htc_provision_options *b = &d->book[i];
    int                    mtc = settings_choice(s, settings_in(s, "tre", name, "type")) == 1;
    const char            *text;
    *b = (htc_provision_options){ .size = sizeof *b, .kind = mtc ? HTC_PROVISION_MTC : HTC_PROVISION_HTC, .unit_ns = settings_span(s, "provider.unit") };
    b->scope = settings_choice(s, settings_in(s, "tre", name, "demand"));
    text = settings_text(s, settings_in(s, "tre", name, "B"));
    b->initial = text[0] ? initial_of(settings_count(s, settings_in(s, "tre", name, "B"))) : 0;
    text = settings_text(s, settings_in(s, "tre", name, "R"));
    b->ratio = text[0] ? ratio_of(settings_real(s, settings_in(s, "tre", name, "R"))) : 0;
    text = settings_text(s, settings_in(s, "tre", name, "scan"));
    b->scan_ns = text[0] ? settings_span(s, settings_in(s, "tre", name, "scan")) : mtc ? 3 * HTC_SECOND : 60 * HTC_SECOND;
    b->phase_ns = phase_of(s, settings_in(s, "tre", name, "phase"), b->scan_ns, seed);
    return htc_provision_find(d->registry, settings_text(s, settings_in(s, "tre", name, "policy")), &b->policy) == HTC_OK;
}

static int open_tre(dsp_study *d, const char *name, settings *s, uint64_t seed, htc_error *error)
{
    size_t                         i = d->options.n_environments;
    htc_sim_provision_environment *e = &d->environment[i];
    dsp_work                      *w = &d->work[i];
    if (settings_choice(s, settings_in(s, "tre", name, "enabled")) == 0)
        return 1;
    if (i == DSP_TRES || strlen(name) >= sizeof w->name)
        return settings_refuse(error, HTC_ETOOBIG, i == DSP_TRES ? "there are more than 64 environments" : "the name of an environment is too long", "names have at most 47 bytes");
    snprintf(w->name, sizeof w->name, "%s", name);
    w->place = &d->place[i];
    d->options.n_environments++;
    e->size = sizeof *e;
    e->name = w->name;
    e->nodes = settings_count(s, settings_in(s, "tre", name, "nodes"));
    e->priority = (int32_t)settings_count(s, settings_in(s, "tre", name, "priority"));
    e->weight = settings_count(s, settings_in(s, "tre", name, "weight"));
    e->period_ns = settings_span(s, settings_in(s, "tre", name, "window"));
    e->book = &d->book[i];
    const char *fit = settings_text(s, settings_in(s, "tre", name, "order"));
    if (!book_of(d, i, s, seed) || (strcmp(fit, "auto") != 0 && htc_fit_find(d->registry, fit, &e->fit) != HTC_OK))
        return settings_refuse(error, HTC_EINTERNAL, "a policy is not in the registry", "report this");
    return dsp_work_open(w, s, seed, e, error);
}

static void open_provider(dsp_study *d, settings *s, uint64_t seed)
{
    htc_sim_provision_options *o = &d->options;
    const htc_provision_setup *setup = htc_provision_setup_of(HTC_PROVISION_PACKAGES);
    const char                *grant = settings_text(s, "provider.grant");
    (void)htc_provision_find_setup(d->registry, settings_text(s, "provider.setup"), &setup);
    d->setup = *setup;
    if (setup == htc_provision_setup_of(HTC_PROVISION_PACKAGES) || setup == htc_provision_setup_of(HTC_PROVISION_WIPE_OS)) /* one of one's own says its time */
        d->setup.node_ns = settings_span(s, "provider.setup_time");
    d->every = settings_span(s, "provider.unit");
    d->every = d->every ? d->every : 3600 * HTC_SECOND;
    *o = (htc_sim_provision_options){ .size = sizeof *o, .system = settings_choice(s, "provider.system"), .setup_delay = settings_choice(s, "provider.setup_delay"),
                                      .environments = d->environment, .capacity = settings_count(s, "provider.nodes"),
                                      .setup = &d->setup, .price = settings_real(s, "provider.price"), .tick_ns = settings_span(s, "sim.tick") };
    if (strcmp(grant, "all_or_reject") != 0) /* else none: the model's own divides what is lent */
        (void)htc_provision_find_granter(d->registry, grant, &o->granter);
    if (settings_choice(s, "provider.shared") == 0 || o->system != HTC_SIM_PROVISION_DSP)
        return;
    d->shared = (htc_provision_options){ .size = sizeof d->shared, .initial = initial_of(settings_count(s, "provider.B")), .ratio = ratio_of(settings_real(s, "provider.R")),
                                         .scan_ns = settings_span(s, "provider.scan"), .unit_ns = settings_span(s, "provider.unit") };
    d->shared.phase_ns = phase_of(s, "provider.phase", d->shared.scan_ns, seed);
    (void)htc_provision_find(d->registry, settings_text(s, "provider.policy"), &d->shared.policy);
    o->shared = &d->shared;
}

/* What the exact engine does not have is refused with the key that asks for it. */
static int open_engine(dsp_study *d, const settings *s, uint64_t seed, htc_error *error)
{
    const htc_sim_provision_options *o = &d->options;
    d->exactly = settings_choice(s, "sim.engine") == 1;
    d->exact = (htc_sim_provision_exact_options){ .size = sizeof d->exact, .seed = seed, .latency_ns = settings_span(s, "exact.latency"), .jitter_ns = settings_span(s, "exact.jitter"),
                                                  .gather_ns = settings_span(s, "exact.gather") };
    htc_ns answer = 2 * (d->exact.latency_ns + d->exact.jitter_ns) + d->exact.gather_ns;
    if (!d->exactly)
        return 1;
    if (o->system != HTC_SIM_PROVISION_DSP)
        return settings_refuse(error, HTC_ECONFIG, "provider.system: the exact engine has dsp alone", "set provider.system to dsp, or leave out sim.engine");
    if (o->shared)
        return settings_refuse(error, HTC_ECONFIG, "provider.shared: the exact engine does not lend nodes", "set provider.shared to off, or leave out sim.engine");
    for (size_t i = 0; i < o->n_environments; i++) {
        if (d->book[i].scan_ns > answer)
            continue;
        settings_refuse(error, HTC_ECONFIG, "", "raise it, or lower exact.latency");
        snprintf(error->text, sizeof error->text, "tre.%s.scan: an answer of the provider takes as long", d->work[i].name);
        return 0;
    }
    return 1;
}

static void close_run(void *run)
{
    dsp_study *d = run;
    if (!d)
        return;
    for (size_t i = 0; i < DSP_TRES; i++)
        dsp_work_close(&d->work[i]);
    htc_registry_destroy(d->registry);
    free(d->course);
    free(d);
}

/* A twelfth of a lease unit, or the next larger part of it that is a whole number of ticks. */
static htc_ns part_of_unit(const dsp_study *d)
{
    uint64_t parts = 12;
    while (parts > 1 && (d->every % parts != 0 || d->every / parts % d->options.tick_ns != 0))
        parts--;
    return d->every / parts;
}

static void *open_run(settings *s, uint64_t seed, int drawn, htc_error *error)
{
    dsp_study *d = calloc(1, sizeof *d);
    if (!d || (drawn && !(d->course = calloc(1, sizeof *d->course)))) {
        close_run(d);
        settings_refuse(error, HTC_ENOMEM, "no memory for the experiment", "make it smaller");
        return NULL;
    }
    if (!(d->registry = policies_open(error))) {
        close_run(d);
        return NULL;
    }
    d->report.size = sizeof d->report;
    open_provider(d, s, seed);
    int good = 1;
    for (size_t i = 0; good && settings_section(s, "tre", i); i++) {
        char name[128];
        snprintf(name, sizeof name, "%s", settings_section(s, "tre", i));
        good = open_tre(d, name, s, seed, error);
    }
    if (good && d->options.n_environments == 0)
        good = settings_refuse(error, HTC_ECONFIG, "there is no runtime environment", "[tre.NAME] is one; dsp.ini among the examples has three");
    good = good && open_engine(d, s, seed, error);
    htc_ns sample = settings_span(s, "sim.sample");
    d->options.sample_ns = sample ? sample : drawn ? part_of_unit(d) : d->every;
    if (good && d->every % d->options.sample_ns != 0)
        good = settings_refuse(error, HTC_ECONFIG, "sim.sample does not divide provider.unit", "a lease unit is a whole number of samples");
    if (good)
        return d;
    close_run(d);
    return NULL;
}

/* ---- its course ---- */

static void keep_course(dsp_course *c, const htc_sim_provision_sample *s)
{
    const course_row rows[] = { { c->at, sizeof *c->at }, { c->units, sizeof *c->units }, { c->cost, sizeof *c->cost }, { c->busy, sizeof *c->busy }, { c->waiting, sizeof *c->waiting }, { c->held, sizeof *c->held } };
    if (!course_keeps(&c->n, DSP_SAMPLES, &c->every, &c->seen, rows, sizeof rows / sizeof *rows))
        return;
    size_t k = c->n++;
    c->shown = s->n_environments < DSP_SHOWN ? s->n_environments : DSP_SHOWN;
    c->at[k] = (double)s->at / 1e9;
    c->units[k] = (double)s->node_units;
    c->cost[k] = s->cost;
    c->busy[k] = c->waiting[k] = 0;
    memset(c->held[k], 0, sizeof c->held[k]);
    for (size_t i = 0; i < s->n_environments; i++) {
        c->held[k][i < DSP_SHOWN ? i : DSP_SHOWN - 1] += (double)s->held[i];
        c->busy[k] += (double)s->busy[i];
        c->waiting[k] += (double)s->waiting[i];
    }
}

/* A node-unit is charged when it begins: what was added within a lease unit began in it. */
static void keep(void *ctx, const htc_sim_provision_sample *s)
{
    dsp_study *d = ctx;
    if (s->at >= d->hour_at + d->every) {
        uint64_t began = s->node_units - (s->node_units < d->hour_before ? s->node_units : d->hour_before);
        d->hour_peak = began > d->hour_peak ? began : d->hour_peak;
        d->hour_before = s->node_units;
        d->hour_at = s->at;
    }
    if (d->course)
        keep_course(d->course, s);
}

/* ---- a run ---- */

static int failed(dsp_study *d, htc_status status, const watch *w, htc_error *error)
{
    for (size_t i = 0; i < d->options.n_environments; i++)
        if (trace_failed(&d->work[i].log, error))
            return 0;
    error->status = status;
    if (!error->text[0])
        snprintf(error->text, sizeof error->text, "%s", htc_strerror(status));
    if (!error->hint[0])
        snprintf(error->hint, sizeof error->hint, "%s",
             status == HTC_ETOOBIG && w->host.memory_max ? "make it smaller, or raise sim.memory or sim.tick" :
             status == HTC_ENOFIT                        ? "raise provider.nodes, or lower B or nodes of the environments" :
                                                           "change its settings");
    return 0;
}

/* What dedicated clusters would be charged. One that lives as long as its work has to be run. */
static int dedicated(dsp_study *d, watch *w, htc_error *error)
{
    htc_sim_provision_options o = d->options;
    htc_scale_host            host = w->host;
    host.stop_after = 0; /* of the run itself */
    o.host = &host;
    o.system = HTC_SIM_PROVISION_DCS;
    o.shared = NULL;
    o.sample = NULL;
    o.resume = o.checkpoint = NULL;
    o.n_environments = 1;
    for (; d->compared < d->options.n_environments; d->compared++) {
        uint32_t                             i = d->compared;
        const htc_sim_provision_environment *e = &d->environment[i];
        htc_sim_provision_report             r = { .size = sizeof r };
        o.environments = e;
        if (d->options.system == HTC_SIM_PROVISION_DCS) {
            d->dedicated[i] = (double)d->result[i].node_units;
        } else if (e->period_ns) {
            d->dedicated[i] = (double)(e->nodes * htc_provision_units(e->period_ns, d->every, HTC_PROVISION_CEIL));
        } else {
            if (!dsp_work_again(&d->work[i], error))
                return 0;
            htc_status status = htc_sim_provision_run(&w->env, &o, &r, NULL, error);
            if (status != HTC_OK)
                return failed(d, status, w, error);
            if (r.interrupted)
                return 1;
            d->dedicated[i] = (double)r.node_units;
        }
        d->dedicated_all += d->dedicated[i];
    }
    return 1;
}

/* In front of what the model writes, or alone when its run has ended. */
#define KEPT_FROM  offsetof(dsp_study, has_ended)
#define KEPT_BYTES (sizeof(dsp_study) - KEPT_FROM)

static htc_status move_kept(dsp_study *d, const htc_scale_tape *tape)
{
    htc_status status = tape->move(tape->ctx, (char *)d + KEPT_FROM, KEPT_BYTES);
    if (status == HTC_OK)
        status = tape->move(tape->ctx, d->course, sizeof *d->course);
    d->report.size = sizeof d->report;
    d->report.scale.wrong[sizeof d->report.scale.wrong - 1] = '\0';
    return status;
}

static int resume(void *run, const htc_scale_tape *tape, htc_error *error)
{
    dsp_study *d = run;
    d->resume = tape;
    if (move_kept(d, tape) != HTC_OK || d->course->n > DSP_SAMPLES || d->course->shown > DSP_SHOWN || d->compared > d->options.n_environments)
        return settings_refuse(error, HTC_ECORRUPT, "the course of the run is not in the checkpoint", "run the experiment again");
    for (size_t i = 0; i < d->options.n_environments && !d->has_ended; i++)
        if (d->environment[i].next_job && !dsp_work_goes_on(&d->work[i], error))
            return 0;
    return 1;
}

static int run_model(dsp_study *d, const htc_scale_tape *checkpoint, watch *w, htc_error *error)
{
    course_tape kept, course;
    uint64_t    bytes = 0;
    d->options.host = &w->host;
    d->options.sample = keep;
    d->options.sample_ctx = d;
    d->options.resume = d->resume;
    d->options.checkpoint = d->course ? course_tape_open(&course, course_tape_open(&kept, checkpoint, (char *)d + KEPT_FROM, KEPT_BYTES), d->course, sizeof *d->course) : NULL;
    if (d->exactly && (d->resume || checkpoint))
        return settings_refuse(error, HTC_ECONFIG, "a run of the exact engine has no checkpoint", "leave out --checkpoint, or sim.engine");
    (void)htc_sim_provision_memory(&d->options, &bytes);
    watch_needs(w, d->exactly ? 0 : bytes);
    htc_status status = d->exactly ? htc_sim_provision_exact(&w->env, &d->options, &d->exact, &d->report, d->result, error) :
                                     htc_sim_provision_run(&w->env, &d->options, &d->report, d->result, error);
    watch_close(w);
    if (status != HTC_OK)
        return failed(d, status, w, error);
    if (d->report.interrupted)
        return 1;
    uint64_t last = d->report.node_units - (d->report.node_units < d->hour_before ? d->report.node_units : d->hour_before);
    d->hour_peak = last > d->hour_peak ? last : d->hour_peak;
    d->has_ended = 1;
    return 1;
}

static int run_it(void *run, const htc_scale_tape *checkpoint, watch *w, htc_error *error)
{
    dsp_study *d = run;
    double     begun = watch_seconds();
    int        checkpoints = w->checkpoints, good = 1;
    *error = (htc_error){ 0 };
    if (!d->has_ended)
        good = run_model(d, checkpoint, w, error);
    d->seconds = watch_seconds() - begun;
    if (!good || !d->has_ended)
        return good;
    w->checkpoints = 0; /* one of these is run at a time: a checkpoint would begin it anew */
    good = dedicated(d, w, error);
    watch_close(w);
    w->checkpoints = checkpoints;
    if (good && d->compared < d->options.n_environments && checkpoint && d->course)
        good = move_kept(d, checkpoint) == HTC_OK || settings_refuse(error, HTC_EIO, "the checkpoint could not be written", "choose a file that can be written for --checkpoint");
    return good;
}

enum { NODE_HOURS, COMPLETED, PEAK, HOUR_PEAK, BUSY_PEAK, GRANTED, ADJUSTED, SETUP, WAIT, REJECTED, UTILISATION, SAVED, COST, DEDICATED, UNFINISHED, WORK };
static const measure measures[] = { [NODE_HOURS] = { "node_hours", 1 },   [COMPLETED] = { "completed", 1 }, [PEAK] = { "peak", 1 },
                                    [HOUR_PEAK] = { "peak_of_hour", 1 },  [BUSY_PEAK] = { "busy_peak", 1 }, [GRANTED] = { "granted", 1 },
                                    [ADJUSTED] = { "adjusted", 1 },       [SETUP] = { "setup_s_per_h", 1 }, [WAIT] = { "wait_s", 1 },
                                    [REJECTED] = { "rejected", 1 },       [UTILISATION] = { "utilisation", 4 }, [SAVED] = { "saved", 4 },
                                    [COST] = { "cost", 2 },               [DEDICATED] = { "dcs_node_hours", 1 }, [UNFINISHED] = { "unfinished", 1 },
                                    [WORK] = { "work_node_hours", 1 },    { NULL, 0 } };

/* The longest life of an environment, in hours. */
static double lasted(const dsp_study *d)
{
    htc_ns longest = 0;
    for (size_t i = 0; i < d->options.n_environments; i++) {
        htc_ns last = d->result[i].last == HTC_NEVER ? 0 : d->result[i].last, life = d->environment[i].period_ns ? d->environment[i].period_ns : last;
        longest = life > longest ? life : longest;
    }
    return (double)longest / 3600e9;
}

double dsp_setup_an_hour(const dsp_study *d)
{
    double span = lasted(d);
    return span > 0 ? (double)d->report.setup_ns / 1e9 / span : 0;
}

/* Lease units as hours. */
static double hours(const dsp_study *d, double units)
{
    return units * (double)d->every / 3600e9;
}

int dsp_is_done(const dsp_study *d)
{
    return d->has_ended && d->compared == d->options.n_environments;
}

static void outcome_of(const void *run, outcome *o)
{
    const dsp_study                *d = run;
    const htc_sim_provision_report *r = &d->report;
    double                          jobs = 0;
    o->hash = r->scale.hash;
    o->events = r->scale.events_here;
    o->done = dsp_is_done(d);
    o->value[NODE_HOURS] = hours(d, (double)r->node_units);
    o->value[COMPLETED] = (double)r->completed;
    o->value[PEAK] = (double)r->peak;
    o->value[HOUR_PEAK] = (double)d->hour_peak;
    o->value[BUSY_PEAK] = (double)r->busy_peak;
    o->value[GRANTED] = (double)r->granted;
    o->value[ADJUSTED] = (double)(r->granted + r->returned);
    o->value[SETUP] = dsp_setup_an_hour(d);
    o->value[REJECTED] = (double)r->rejected;
    o->value[UTILISATION] = r->held_s > 0 ? r->busy_s / r->held_s : 0;
    o->value[SAVED] = d->dedicated_all > 0 ? 1 - (double)r->node_units / d->dedicated_all : 0;
    o->value[COST] = r->cost;
    o->value[DEDICATED] = hours(d, d->dedicated_all);
    o->value[UNFINISHED] = (double)r->unfinished;
    o->value[WORK] = r->busy_s / 3600;
    for (size_t i = 0; i < d->options.n_environments; i++) {
        double submitted = (double)(d->result[i].submitted - d->result[i].refused);
        o->value[WAIT] += d->result[i].wait_s * submitted;
        jobs += submitted;
    }
    o->value[WAIT] /= jobs > 0 ? jobs : 1;
    snprintf(o->error.text, sizeof o->error.text, "%s", r->scale.wrong);
}

/* tre.NAME.KEY */
static int value_of(const void *run, const char *name, double *out)
{
    const dsp_study *d = run;
    const char      *dot = strrchr(name, '.');
    size_t           i = 0, n = dot && strncmp(name, "tre.", 4) == 0 && dot > name + 4 ? (size_t)(dot - name) - 4 : 0;
    while (i < d->options.n_environments && (strlen(d->work[i].name) != n || strncmp(d->work[i].name, name + 4, n) != 0))
        i++;
    if (n == 0 || i == d->options.n_environments)
        return 0;
    const htc_sim_provision_result *r = &d->result[i];
    const struct {
        const char *key;
        double      value;
    } values[] = { { "node_hours", hours(d, (double)r->node_units) },
                   { "dcs_node_hours", hours(d, d->dedicated[i]) },
                   { "saved", d->dedicated[i] > 0 ? 1 - (double)r->node_units / d->dedicated[i] : 0 },
                   { "submitted", (double)r->submitted },
                   { "completed", (double)r->completed },
                   { "unfinished", (double)r->unfinished },
                   { "peak", (double)r->peak },
                   { "busy_peak", (double)r->busy_peak },
                   { "granted", (double)r->granted },
                   { "adjusted", (double)(r->granted + r->returned) },
                   { "rejected", (double)r->rejected },
                   { "starved", (double)r->starved },
                   { "wait_s", r->wait_s },
                   { "rate", r->rate },
                   { "work_node_hours", r->busy_s / 3600 },
                   { "utilisation", r->held_s > 0 ? r->busy_s / r->held_s : 0 } };
    for (size_t k = 0; k < sizeof values / sizeof *values; k++)
        if (strcmp(values[k].key, dot + 1) == 0) {
            *out = values[k].value;
            return 1;
        }
    if (strncmp(dot, ".week", 5) == 0 && dot[5] >= '1' && dot[5] < '1' + TRACE_WEEKS && !dot[6]) {
        *out = (double)d->work[i].log.week[dot[5] - '1'];
        return 1;
    }
    return 0;
}

static const model_option options[] = {
    { "system", "NAME", "provider.system", "dsp, dcs, ssp or drp (dsp)" },
    { "nodes", "N", "provider.nodes", "of the provider (480)" },
    { "grant", "NAME", "provider.grant", "all_or_reject or partial (all_or_reject)" },
    { "shared", "off|on", "provider.shared", "environments lend each other idle nodes (off)" },
    { "unit", "SPAN", "provider.unit", "of a lease (1h)" },
    { "setup", "NAME", "provider.setup", "of nodes that change hands: packages, none or wipe_os (packages)" },
    { "setup-time", "SPAN", "provider.setup_time", "of a node (15.743s)" },
    { "setup-delay", "off|on", "provider.setup_delay", "a node is used only when it is set up (off)" },
    { "price", "X", "provider.price", "of a node for a unit (0.1)" },
    { "trace", "FILE", "tre.htc.trace", "a log in the Standard Workload Format, of an environment htc" },
    { "per-node", "N", "tre.htc.per_node", "processors of a node of that log (1)" },
    { "count", "N", "tre.htc.jobs", "that are drawn, without a log (1000)" },
    { "gap", "LAW", "tre.htc.gap", "from one of them to the next (exponential 2min)" },
    { "burst", "N", "tre.htc.burst", "of them that come together, on average (1)" },
    { "burst-gap", "LAW", "tre.htc.burst_gap", "from one burst to the next (exponential 1h)" },
    { "daily", "PART", "tre.htc.daily", "by which their rate rises and falls each day (0)" },
    { "peak", "SPAN", "tre.htc.peak", "when in the day most come (14h)" },
    { "length", "LAW", "tre.htc.length", "of each: " LAW_WORDS " (lognormal 10min 2)" },
    { "sizes", "A[..B]", "tre.htc.sizes", "of each, in nodes (1..32)" },
    { "size", "N", "tre.htc.nodes", "nodes of its dedicated cluster (128)" },
    { "window", "SPAN", "tre.htc.window", "after which it ends; 0: when its work has ended (0)" },
    { "B", "N", "tre.htc.B", "its initial nodes (40)" },
    { "R", "X", "tre.htc.R", "its ratio of obtaining resources (1.2)" },
    { "scan", "SPAN", "tre.htc.scan", "between two looks at its queue (60s)" },
    { "phase", "SPAN", "tre.htc.phase", "until the first one, or auto: drawn from the seed (0)" },
    { "provision-policy", "NAME", "tre.htc.policy", "by which it asks for nodes: paper, perlease, or of --policy-from (paper)" },
    { "policy", "NAME", "tre.htc.policy", "the same" },
    { "order", "NAME", "tre.htc.order", "of its jobs: auto, first_fit, fcfs, easy or conservative (auto)" },
    { "engine", "NAME", "sim.engine", "scale, or exact: environments and provider speak by messages (scale)" },
    { "latency", "SPAN", "exact.latency", "of a message of the exact engine (1ms)" },
    { "tick", "SPAN", "sim.tick", "in which virtual time passes (1ms)" },
    { NULL, NULL, NULL, NULL },
};

static const model_preset presets[] = { { "tre.htc.type", "htc" }, { NULL, NULL } };

const model dsp_model = { .name = "dsp", .about = "organisations that lease nodes of one provider, or own clusters, or let each user lease", .table = table, .options = options,
                          .presets = presets, .measures = measures, .open = open_run, .resume = resume, .run = run_it, .outcome = outcome_of, .value = value_of, .say = dsp_say,
                          .plot = dsp_plot, .close = close_run };
