#include "course.h"
#include "jobs.h"
#include "jobs_live.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../policies.h"
#include "values.h"

/* ---- its settings ---- */

static const setting table[] = {
    { "sim.model", SET_CHOICE, "jobs", 0, 0, "jobs" },
    { "sim.seed", SET_COUNT, "1", 0, 9e18, "a number" },
    { "sim.tick", SET_SPAN, "1us", 1, 0, "a span from 1 ns: 1us, 100us" },
    { "sim.memory", SET_SIZE, "0", 0, 0, "bytes: 512M, 8G; 0: three quarters of this machine's" },
    { "sim.engine", SET_CHOICE, "scale", 0, 0, "scale|exact" },
    { "exact.jitter", SET_SPAN, "0", 0, 6e10, "a span to 60s" },
    { "sim.sample", SET_SPAN_OR_AUTO, "auto", 0, 0, "a span, or auto: some hundred samples of a run" },
    { "sim.live", SET_CHOICE, "off", 0, 0, "off|on" },
    { "sim.store", SET_WORD, NULL, 0, 0, "the address of a store: unix:PATH" },
    { "sim.history", SET_WORD, NULL, 0, 0, "the name of a file that is written" },
    { "machine.nodes", SET_COUNT, "65536", 1, 16777216, "a number from 1 to 16777216" },
    { "machine.partition", SET_COUNT, "1024", 1, 1048576, "a number from 1 to 1048576" },
    { "machine.used", SET_REAL, "0", 0, 0.999, "a number from 0 to 0.999" },
    { "control.policy", SET_POLICY, "monitored", HTC_REGISTRY_BALANCE, 0, "central" },
    { "control.order", SET_POLICY, "easy", HTC_REGISTRY_FIT, 0, NULL },
    { "control.tries", SET_COUNT, "0", 0, 4294967295.0, "a number from 0 to 4294967295" },
    { "control.wait", SET_SPAN, "10ms", 0, 0, "a span" },
    { "control.wait_max", SET_SPAN, "1s", 0, 0, "a span" },
    { "control.pull", SET_SPAN, "10ms", 0, 0, "a span" },
    { "control.records", SET_CHOICE, "off", 0, 0, "off|on" },
    { "control.monitor", SET_SPAN, "1ms", 0, 0, "a span" },
    { "cost.latency", SET_SPAN, "100us", 0, 0, "a span" },
    { "cost.pack", SET_SPAN, "50us", 0, 0, "a span" },
    { "cost.bandwidth", SET_REAL, "125000000", 0, 1e15, "bytes a second, from 0, which is without bound" },
    { "cost.node_bytes", SET_COUNT, "30", 0, 1e6, "a number from 0 to 1000000" },
    { "cost.store", SET_SPAN, "1ms", 0, 0, "a span" },
    { "cost.job", SET_SPAN, "1ms", 0, 0, "a span" },
    { "cost.node", SET_SPAN, "0", 0, 0, "a span" },
    { "cost.scan", SET_SPAN, "0", 0, 0, "a span" },
    { "cost.launch", SET_SPAN, "0", 0, 0, "a span" },
    { "cost.fanout", SET_COUNT, "2", 2, 1e6, "a number from 2 to 1000000" },
    { "workload.jobs", SET_COUNT, "10000", 1, 2147483648.0, "a number from 1 to 2147483648" },
    { "workload.sizes", SET_CHOICE, "trace", 0, 0, "uniform|trace" }, /* in the order of htc_sim_jobs_sizes */
    { "workload.nodes", SET_COUNTS, "1", 1, 16777216, "a number from 1 to 16777216, or two: A..B" },
    { "workload.widest", SET_REAL, "0.05", 0.000001, 1, "a number from 0.000001 to 1" },
    { "workload.length", SET_LAW, "exponential 5ms", 0, 0, LAW_WORDS },
    { "workload.trace", SET_FILE, NULL, 0, 0, "the name of a log in the Standard Workload Format" },
    { "workload.per_node", SET_COUNT, "1", 1, 1e9, "processors of a node, from 1" },
    { "workload.arrivals", SET_CHOICE, "log", 0, 0, "log|at_once" },
    { "workload.skip_bad", SET_CHOICE, "off", 0, 0, "off|on" },
    { NULL, 0, NULL, 0, 0, NULL },
};

static void sizes_of(htc_sim_jobs_options *o, const settings *s)
{
    uint64_t min, max;
    double   widest = settings_real(s, "workload.widest") * o->nodes;
    o->sizes = settings_choice(s, "workload.sizes");
    settings_counts(s, "workload.nodes", &min, &max);
    o->nodes_min = o->sizes == HTC_SIM_JOBS_UNIFORM ? (uint32_t)min : 1;
    o->nodes_max = o->sizes == HTC_SIM_JOBS_UNIFORM ? (uint32_t)max : widest < 1 ? 1 : (uint32_t)widest;
}

static void costs_of(htc_sim_jobs_options *o, const settings *s)
{
    o->tick_ns = settings_span(s, "sim.tick");
    o->latency_ns = settings_span(s, "cost.latency");
    o->pack_ns = settings_span(s, "cost.pack");
    o->bandwidth = settings_real(s, "cost.bandwidth");
    o->node_bytes = (uint32_t)settings_count(s, "cost.node_bytes");
    o->store_ns = settings_span(s, "cost.store");
    o->job_ns = settings_span(s, "cost.job");
    o->node_ns = settings_span(s, "cost.node");
    o->scan_ns = settings_span(s, "cost.scan");
    o->launch_ns = settings_span(s, "cost.launch");
    o->fanout = (uint32_t)settings_count(s, "cost.fanout");
}

static void close_run(void *run)
{
    jobs_study *j = run;
    if (!j)
        return;
    htc_registry_destroy(j->registry);
    trace_close(&j->log);
    history_close(&j->history);
    free(j->course);
    free(j);
}

/* The names are those of policies: it was looked when they were set. */
static int policies_of(jobs_study *j, const settings *s, htc_error *error)
{
    if (!(j->registry = policies_open(error)))
        return 0;
    if (!j->options.central)
        (void)htc_balance_find(j->registry, j->policy, &j->options.policy);
    (void)htc_fit_find(j->registry, settings_text(s, "control.order"), &j->options.fit);
    return 1;
}

static htc_status next_of_log(void *ctx, htc_sim_jobs_job *job)
{
    jobs_study *j = ctx;
    htc_swf_job of_log;
    uint64_t    nodes;
    htc_status  status = trace_next(&j->log, &of_log, &nodes);
    if (status == HTC_OK && nodes > j->options.nodes)
        status = trace_too_large(&j->log, (uint64_t)of_log.number, nodes, j->options.nodes, "raise machine.nodes (--nodes), or say with workload.per_node how many processors a node has");
    if (status != HTC_OK)
        return status;
    job->nodes = (uint32_t)nodes;
    job->length = trace_ns(of_log.run_s);
    job->arrival = j->log_at_once ? 0 : trace_ns(of_log.submit_s);
    return HTC_OK;
}

static int log_of(jobs_study *j, const settings *s, htc_error *error)
{
    if (!settings_text(s, "workload.trace")[0])
        return 1;
    if (!settings_keep(s, "workload.trace", j->log.file, sizeof j->log.file, error))
        return 0;
    j->log.per_node = settings_count(s, "workload.per_node");
    j->log.skip_bad = settings_choice(s, "workload.skip_bad") == 1;
    j->log_at_once = settings_choice(s, "workload.arrivals") == 1;
    j->options.next_job = next_of_log;
    return trace_open(&j->log, error);
}

static int names_of(jobs_study *j, const settings *s, htc_error *error)
{
    return settings_keep(s, "sim.history", j->history.path, sizeof j->history.path, error) && settings_keep(s, "sim.store", j->store, sizeof j->store, error);
}

/* What the exact engine does not have is refused with the key that asks for it. */
static int makes_sense_exactly(jobs_study *j, const settings *s, htc_error *error)
{
    j->exactly = settings_choice(s, "sim.engine") == 1;
    j->exact = (htc_sim_jobs_exact_options){ .size = sizeof j->exact, .jitter_ns = settings_span(s, "exact.jitter") };
    if (!j->exactly)
        return 1;
    if (j->live)
        return settings_refuse(error, HTC_ECONFIG, "sim.live: the exact engine runs in virtual time", "leave out sim.live, or sim.engine");
    if (j->options.central)
        return settings_refuse(error, HTC_ECONFIG, "control.policy: the exact engine has no central controller", "set control.policy to monitored or random, or leave out sim.engine");
    return 1;
}

static void *open_run(settings *s, uint64_t seed, int drawn, htc_error *error)
{
    jobs_study *j = calloc(1, sizeof *j);
    if (!j || (drawn && !(j->course = calloc(1, sizeof *j->course)))) {
        free(j);
        settings_refuse(error, HTC_ENOMEM, "no memory for the experiment", "make it smaller");
        return NULL;
    }
    htc_sim_jobs_options *o = &j->options;
    j->report.size = sizeof j->report;
    snprintf(j->policy, sizeof j->policy, "%s", settings_text(s, "control.policy"));
    *o = (htc_sim_jobs_options){ .size = sizeof *o, .seed = seed, .nodes = (uint32_t)settings_count(s, "machine.nodes"),
                                 .partition = (uint32_t)settings_count(s, "machine.partition"), .used = settings_real(s, "machine.used"),
                                 .jobs = settings_count(s, "workload.jobs"), .length = settings_law(s, "workload.length"), .central = strcmp(j->policy, "central") == 0,
                                 .tries = (uint32_t)settings_count(s, "control.tries"), .wait_ns = settings_span(s, "control.wait"),
                                 .wait_ns_max = settings_span(s, "control.wait_max"), .pull_ns = settings_span(s, "control.pull"),
                                 .monitor_ns = settings_span(s, "control.monitor"), .records = settings_choice(s, "control.records") };
    sizes_of(o, s);
    costs_of(o, s);
    o->sample_ns = strcmp(settings_text(s, "sim.sample"), "auto") == 0 ? HTC_MS : settings_span(s, "sim.sample");
    o->sample_ns = o->sample_ns > o->tick_ns ? o->sample_ns : o->tick_ns;
    j->live = settings_choice(s, "sim.live") == 1;
    if (o->wait_ns_max < o->wait_ns)
        settings_refuse(error, HTC_ECONFIG, "control.wait is longer than control.wait_max", "set control.wait_max too");
    else if (makes_sense_exactly(j, s, error) && names_of(j, s, error) && policies_of(j, s, error) && log_of(j, s, error))
        return j;
    close_run(j);
    return NULL;
}

/* ---- a run ---- */

/* Once there is no more room, they are twice as far apart. */
static void thin(jobs_course *c)
{
    size_t n = 0;
    c->step *= 2;
    for (size_t i = 0; i < c->n; i++) {
        if (n && c->at[i] - c->at[n - 1] < c->step)
            continue;
        c->at[n] = c->at[i];
        c->waiting[n] = c->waiting[i];
        c->running[n] = c->running[i];
        c->ended[n] = c->ended[i];
        c->busy[n] = c->busy[i];
        c->taken[n++] = c->taken[i];
    }
    c->n = n;
}

static void keep(void *ctx, const htc_sim_jobs_sample *s)
{
    jobs_course *c = ((jobs_study *)ctx)->course;
    c->step = c->step ? c->step : ((jobs_study *)ctx)->options.sample_ns;
    while (c->n == JOBS_SAMPLES)
        thin(c);
    if (c->n && s->at - c->at[c->n - 1] < c->step)
        return;
    c->at[c->n] = s->at;
    c->waiting[c->n] = s->waiting;
    c->running[c->n] = s->running;
    c->ended[c->n] = s->ended;
    c->busy[c->n] = s->busy;
    c->taken[c->n++] = s->taken;
}

static int resume(void *run, const htc_scale_tape *tape, htc_error *error)
{
    jobs_study *j = run;
    j->resume = tape;
    if (tape->move(tape->ctx, j->course, sizeof *j->course) == HTC_OK && j->course->n <= JOBS_SAMPLES)
        return 1;
    return settings_refuse(error, HTC_ECORRUPT, "the course of the run is not in the checkpoint", "run the experiment again");
}

static void keep_ended(void *ctx, const htc_sim_jobs_ended *job)
{
    history_add(&((jobs_study *)ctx)->history, job);
}

/* Of a run that was stopped it has the jobs that had ended. */
static int write_history(jobs_study *j, htc_error *error)
{
    return !j->history.path[0] || history_write(&j->history, j->options.nodes, error);
}

static const char *next_step(const jobs_study *j, const watch *w, htc_status status)
{
    if (status != HTC_ETOOBIG || (!j->exactly && !w->host.memory_max))
        return "change its settings";
    return j->exactly ? "make machine.partition larger or the experiment smaller, raise sim.memory, or leave out sim.engine" : "make the machine or its partitions other, or raise sim.memory or sim.tick";
}

static int run_model(jobs_study *j, watch *w, htc_error *error)
{
    double   begun = watch_seconds();
    uint64_t bytes = 0;
    (void)htc_sim_jobs_memory(&j->options, &bytes);
    watch_needs(w, j->exactly ? 0 : bytes); /* how much the exact engine needs depends on its course */
    htc_status status = j->exactly ? htc_sim_jobs_exact(&w->env, &j->options, &j->exact, &j->report, error) : htc_sim_jobs_run(&w->env, &j->options, &j->report, error);
    watch_close(w);
    j->seconds = watch_seconds() - begun;
    if (status == HTC_OK)
        return 1;
    if (trace_failed(&j->log, error))
        return 0;
    if (!error->text[0])
        snprintf(error->text, sizeof error->text, "%s", htc_strerror(status));
    if (!error->hint[0])
        snprintf(error->hint, sizeof error->hint, "%s", next_step(j, w, status));
    return 0;
}

static int run_it(void *run, const htc_scale_tape *checkpoint, watch *w, htc_error *error)
{
    jobs_study *j = run;
    double      begun = watch_seconds();
    course_tape tape;
    j->options.host = &w->host;
    j->options.sample = j->course ? keep : NULL;
    j->options.ctx = j;
    j->options.resume = j->resume;
    j->options.checkpoint = course_tape_open(&tape, checkpoint, j->course, sizeof *j->course);
    *error = (htc_error){ 0 };
    if (j->live && (checkpoint || j->resume))
        return settings_refuse(error, HTC_ECONFIG, "what runs on this machine cannot go on later", "leave out --checkpoint, or sim.live");
    if (j->exactly && (checkpoint || j->resume))
        return settings_refuse(error, HTC_ECONFIG, "a run of the exact engine has no checkpoint", "leave out --checkpoint, or sim.engine");
    if (j->history.path[0] && (checkpoint || j->resume))
        return settings_refuse(error, HTC_ECONFIG, "a history is of a whole run", "leave out --checkpoint, or sim.history");
    if (j->history.path[0] && !history_open(&j->history, error))
        return 0;
    j->options.ended = j->history.path[0] ? keep_ended : NULL;
    if (!j->live)
        return run_model(j, w, error) && write_history(j, error);
    int good = jobs_live_run(j, j->store, error);
    j->seconds = watch_seconds() - begun;
    return good && write_history(j, error);
}

enum { THROUGHPUT, LATENCY, MESSAGES, MESSAGES_ALL, CONFLICTS, STEALS, ROUNDS, UTILISATION, MAKESPAN, UP_TO_1, UP_TO_5, UP_TO_80, WHOLE };
static const measure measures[] = { [THROUGHPUT] = { "jobs_per_s", 5 },  [LATENCY] = { "latency_ms", 2 },   [MESSAGES] = { "messages", 2 },
                                    [MESSAGES_ALL] = { "messages_all", 2 }, [CONFLICTS] = { "conflicts", 4 }, [STEALS] = { "steals", 2 },
                                    [ROUNDS] = { "rounds", 3 },          [UTILISATION] = { "utilisation", 4 }, [MAKESPAN] = { "makespan_s", 3 },
                                    [UP_TO_1] = { "up_to_1", 4 },        [UP_TO_5] = { "up_to_5", 4 },       [UP_TO_80] = { "up_to_80", 4 },
                                    [WHOLE] = { "whole", 4 },            { NULL, 0 } };

static void outcome_of(const void *run, outcome *o)
{
    const jobs_study          *j = run;
    const htc_sim_jobs_report *r = &j->report;
    double                     granted = r->granted ? (double)r->granted : 1;
    o->hash = r->scale.hash;
    o->events = r->scale.events_here;
    o->done = !r->interrupted;
    o->value[THROUGHPUT] = r->throughput;
    o->value[LATENCY] = 1e3 * r->latency_s;
    o->value[MESSAGES] = r->messages;
    o->value[MESSAGES_ALL] = r->messages_all;
    o->value[CONFLICTS] = r->swaps ? (double)r->conflicts / (double)r->swaps : 0;
    o->value[STEALS] = (double)r->steals / granted;
    o->value[ROUNDS] = (double)r->rounds / granted;
    o->value[UTILISATION] = r->utilisation;
    o->value[MAKESPAN] = (double)r->scale.makespan / 1e9;
    for (int i = 0; i < 4; i++)
        o->value[UP_TO_1 + i] = (double)r->sized[i] / granted;
    snprintf(o->error.text, sizeof o->error.text, "%s", r->scale.wrong);
}

static const model_option options[] = {
    { "nodes", "N", "machine.nodes", "of the machine (65536)" },
    { "partition", "N", "machine.partition", "nodes of each partition (1024)" },
    { "policy", "NAME", "control.policy", "monitored, random, or central for one controller (monitored)" },
    { "order", "NAME", "control.order", "of a central controller: easy, fcfs, first_fit or conservative (easy)" },
    { "wait", "SPAN", "control.wait", "the first wait of a job that found nothing (10ms)" },
    { "wait-max", "SPAN", "control.wait_max", "the longest one (1s)" },
    { "count", "N", "workload.jobs", "jobs in all (10000)" },
    { "sizes", "NAME", "workload.sizes", "of jobs: trace, or uniform (trace)" },
    { "job-nodes", "A[..B]", "workload.nodes", "of a job, if uniform (1)" },
    { "widest", "PART", "workload.widest", "of the machine, that a job of the trace needs at most (0.05)" },
    { "trace", "FILE", "workload.trace", "a log in the Standard Workload Format, in place of jobs that are drawn" },
    { "per-node", "N", "workload.per_node", "processors of a node of that log (1)" },
    { "arrivals", "HOW", "workload.arrivals", "of its jobs: log, or at_once (log)" },
    { "length", "LAW", "workload.length", "of each job: " LAW_WORDS " (exponential 5ms)" },
    { "history", "FILE", "sim.history", "the jobs that ended are written there as a log in the Standard Workload Format" },
    { "engine", "NAME", "sim.engine", "scale, or exact: controllers and a store that speak by messages (scale)" },
    { "tick", "SPAN", "sim.tick", "in which virtual time passes (1us)" },
    { NULL, NULL, NULL, NULL },
};

static const model_preset presets[] = { { NULL, NULL } };

const model jobs_model = { .name = "jobs", .about = "jobs of several nodes on partitions whose controllers rob each other, or on one", .table = table, .options = options,
                           .presets = presets, .measures = measures, .open = open_run, .resume = resume, .run = run_it, .outcome = outcome_of, .say = jobs_say, .plot = jobs_plot, .close = close_run };
