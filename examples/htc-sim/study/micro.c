#include "micro.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "values.h"

const char *const micro_outputs[] = { "local", "shared" };
const char *const micro_systems[] = { "batch", "db", "nodb", "baseline" };
enum { BATCH, DB, NODB, BASELINE };

static const setting table[] = {
    { "sim.model", SET_CHOICE, "micro", 0, 0, "micro" },
    { "sim.seed", SET_COUNT, "1", 0, 9e18, "a number" },
    { "sim.tick", SET_SPAN, "1ms", 1, 0, "a span from 1 ns: 1ms, 100us" },
    { "sim.memory", SET_SIZE, "0", 0, 0, "bytes: 512M, 8G; 0: three quarters of this machine's" },
    { "micro.system", SET_CHOICE, "batch", 0, 0, "batch|db|nodb|baseline" }, /* in the order of micro_systems */
    { "micro.tasks", SET_COUNT, "4000", 1, 1e12, "a number from 1 to 10^12" },
    { "micro.length", SET_LAW, "10s", 0, 0, LAW_WORDS },
    { "micro.cores", SET_COUNT, "300", 1, 1073741824, "a number from 1 to 1073741824" },
    { "micro.output", SET_CHOICE, "local", 0, 0, "local|shared" }, /* in the order of micro_outputs */
    { "shared.write", SET_SPAN, "10ms", 0, 0, "a span" },
    { "first.service", SET_SPAN, "100ms", 0, 0, "a span" },
    { "first.hold_rate", SET_REAL, "0.0005", 0, 1, "a number from 0 to 1" },
    { "first.hold", SET_REAL, "0", 0, 1, "a number from 0 to 1" },
    { "agent.batch", SET_COUNT, "64", 1, 1e9, "a number from 1 to 1000000000; 1: each agent is a job" },
    { "agent.launch", SET_SPAN, "0", 0, 0, "a span" },
    { "agent.pull", SET_SPAN, "0", 0, 0, "a span" },
    { "agent.held", SET_SPAN, "600s", 0, 0, "a span" },
    { "agent.life", SET_SPAN, "0", 0, 0, "a span; 0: without end" },
    { "db.update", SET_SPAN, "29ms", 0, 0, "a span" },
    { "db.commit", SET_SPAN, "2ms", 0, 0, "a span" },
    { "db.sync", SET_SPAN, "5ms", 0, 0, "a span" },
    { NULL, 0, NULL, 0, 0, NULL },
};

static const htc_sim_fairshare_user user = { .size = sizeof user, .weight = 1, .fixed = 1 };

/* The experiment of fair sharing that it is. */
static int make(micro *m, const settings *s, uint64_t seed)
{
    static const uint32_t records[] = { HTC_SIM_FAIRSHARE_GROUPED, HTC_SIM_FAIRSHARE_SERIAL, HTC_SIM_FAIRSHARE_UNRECORDED, HTC_SIM_FAIRSHARE_UNRECORDED };
    fairshare            *f = m->run = calloc(1, sizeof *f);
    htc_scale_law         length = settings_law(s, "micro.length");
    m->system = settings_choice(s, "micro.system");
    m->output = settings_choice(s, "micro.output");
    m->tasks = settings_count(s, "micro.tasks");
    m->cores = settings_count(s, "micro.cores");
    m->length_s = length.mean_ns / 1e9;
    if (!f)
        return 0;
    f->report.size = sizeof f->report;
    f->users = malloc(sizeof *f->users);
    f->jobs = malloc(sizeof *f->jobs);
    f->names = calloc(1, sizeof *f->names);
    f->results = calloc(1, sizeof *f->results);
    f->clusters = malloc(sizeof *f->clusters);
    f->cluster_names = calloc(1, sizeof *f->cluster_names);
    f->on = calloc(1, sizeof *f->on);
    f->course = calloc(1, sizeof *f->course);
    if (!f->users || !f->jobs || !f->names || !f->results || !f->clusters || !f->cluster_names || !f->on || !f->course)
        return 0;
    f->users[0] = user;
    snprintf(f->names[0], sizeof *f->names, "user");
    snprintf(f->cluster_names[0], sizeof *f->cluster_names, "cluster");
    f->jobs[0] = (htc_sim_fairshare_job){ .size = sizeof *f->jobs, .tasks = m->tasks, .length = length };
    f->clusters[0] = (htc_sim_fairshare_cluster){ .size = sizeof *f->clusters, .cores = m->cores, .service_ns = settings_span(s, "first.service"),
                                                  .batch = m->system == BASELINE ? 1 : (uint32_t)settings_count(s, "agent.batch"),
                                                  .hold = settings_real(s, "first.hold"), .hold_rate = settings_real(s, "first.hold_rate"),
                                                  .life_ns = settings_span(s, "agent.life") };
    f->options = (htc_sim_fairshare_options){ .size = sizeof f->options, .seed = seed, .policy = HTC_ALLOT_MAXMIN, .users = f->users, .n_users = 1, .jobs = f->jobs,
                                              .n_jobs = 1, .clusters = f->clusters, .n_clusters = 1, .tick_ns = settings_span(s, "sim.tick"),
                                              .launch_ns = settings_span(s, "agent.launch"), .pull_ns = settings_span(s, "agent.pull"), .direct = m->system == BASELINE,
                                              .records = records[m->system], .record_ns = settings_span(s, m->system == DB ? "db.update" : "db.commit"),
                                              .sync_ns = settings_span(s, "db.sync"), .held_ns = settings_span(s, "agent.held"),
                                              .output_ns = m->output ? settings_span(s, "shared.write") : 0 };
    return 1;
}

static void close_run(void *run)
{
    micro *m = run;
    if (m)
        fairshare_close(m->run);
    free(m);
}

static void *open_run(settings *s, uint64_t seed, int drawn, htc_error *error)
{
    micro *m = calloc(1, sizeof *m);
    (void)drawn;
    if (m && make(m, s, seed))
        return m;
    *error = (htc_error){ .status = HTC_ENOMEM, .text = "no memory for the experiment", .hint = "make it smaller" };
    close_run(m);
    return NULL;
}

static int resume(void *run, const htc_scale_tape *tape, htc_error *error)
{
    return fairshare_resume(((micro *)run)->run, tape, error);
}

static int run_it(void *run, const htc_scale_tape *checkpoint, watch *w, htc_error *error)
{
    return fairshare_run(((micro *)run)->run, checkpoint, w, error);
}

/* ---- what is kept of it ---- */

micro_figures micro_figures_of(const micro *m)
{
    micro_figures f = { .cores = (double)(m->tasks < m->cores ? m->tasks : m->cores), .makespan_s = (double)m->run->report.scale.makespan / 1e9 };
    double        rounds = (double)m->tasks / f.cores;
    f.efficiency = f.makespan_s > 0 ? rounds * m->length_s / f.makespan_s : 0;
    f.bound_s = ceil(rounds) * m->length_s;
    f.bound = rounds / ceil(rounds);
    return f;
}

enum { MAKESPAN, EFFICIENCY, BOUND_S, BOUND, OVER_BOUND, COMPLETED, HELD, DIED, THROUGHPUT, RESPONSE };
static const measure measures[] = { [MAKESPAN] = { "makespan_s", 1 },     [EFFICIENCY] = { "efficiency", 4 }, [BOUND_S] = { "bound_s", 1 }, [BOUND] = { "bound", 4 },
                                    [OVER_BOUND] = { "over_bound", 4 },   [COMPLETED] = { "completed", 4 },   [HELD] = { "held", 1 },       [DIED] = { "died", 1 },
                                    [THROUGHPUT] = { "tasks_per_s", 2 }, [RESPONSE] = { "response_s", 1 },   { NULL, 0 } };

static void outcome_of(const void *run, outcome *o)
{
    const micro                    *m = run;
    const htc_sim_fairshare_report *r = &m->run->report;
    micro_figures                   f = micro_figures_of(m);
    o->hash = r->scale.hash;
    o->events = r->scale.events_here;
    o->done = !r->interrupted;
    o->value[MAKESPAN] = f.makespan_s;
    o->value[EFFICIENCY] = f.efficiency;
    o->value[BOUND_S] = f.bound_s;
    o->value[BOUND] = f.bound;
    o->value[OVER_BOUND] = f.bound_s > 0 ? f.makespan_s / f.bound_s : 0;
    o->value[COMPLETED] = r->completed;
    o->value[HELD] = (double)r->held;
    o->value[DIED] = (double)r->died;
    o->value[THROUGHPUT] = r->throughput;
    o->value[RESPONSE] = r->response_s;
    snprintf(o->error.text, sizeof o->error.text, "%s", r->scale.wrong);
}

static int value_of(const void *run, const char *name, double *out)
{
    return fairshare_value(((const micro *)run)->run, name, out);
}

static const model_option options[] = {
    { "system", "NAME", "micro.system", "batch, db, nodb: agents whose records are written in groups, by one server, or not; baseline: no agents (batch)" },
    { "tasks", "N", "micro.tasks", "in the bag (4000)" },
    { "cores", "N", "micro.cores", "of the cluster (300)" },
    { "length", "LAW", "micro.length", "of each task (10s)" },
    { "output", "NAME", "micro.output", "of each task: local, on the node, or shared, on one file system for all (local)" },
    { "write", "SPAN", "shared.write", "what an output takes the shared file system, which takes one after the other (10ms)" },
    { "service", "SPAN", "first.service", "what a job takes the batch system (100ms)" },
    { "hold-rate", "P", "first.hold_rate", "probability that a job is held, for each job that started or ended in the last second (0.0005)" },
    { "hold", "P", "first.hold", "and in any case (0)" },
    { "batch", "N", "agent.batch", "agents that are one job (64)" },
    { "launch", "SPAN", "agent.launch", "until an agent has its first task (0)" },
    { "pull", "SPAN", "agent.pull", "between two tasks of an agent (0)" },
    { "update", "SPAN", "db.update", "what a record takes the one server of db (29ms)" },
    { NULL, NULL, NULL, NULL },
};

static const model_preset presets[] = { { NULL, NULL } };

const model micro_model = { .name = "micro", .about = "a bag of equal tasks as jobs of a batch system, or by agents whose records take time", .table = table, .options = options,
                            .presets = presets, .measures = measures, .open = open_run, .resume = resume, .run = run_it, .outcome = outcome_of, .value = value_of,
                            .say = micro_say, .plot = micro_plot, .close = close_run };
