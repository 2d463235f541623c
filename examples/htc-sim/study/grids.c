#include "course.h"
#include "grids.h"
#include "grids_live.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "values.h"

/* ---- its settings ---- */

static const setting table[] = {
    { "sim.model", SET_CHOICE, "grids", 0, 0, "grids" },
    { "sim.seed", SET_COUNT, "1", 0, 9e18, "a number" },
    { "sim.tick", SET_SPAN, "1ms", 1, 0, "a span from 1 ns: 1ms, 1s" },
    { "sim.memory", SET_SIZE, "0", 0, 0, "bytes: 512M, 8G; 0: three quarters of this machine's" },
    { "sim.sample", SET_SPAN_OR_AUTO, "auto", 0, 0, "a span, or auto: some thousand samples of a run" },
    { "sim.live", SET_CHOICE, "off", 0, 0, "off|on" },
    { "sim.engine", SET_CHOICE, "scale", 0, 0, "scale|exact" },
    { "exact.latency", SET_SPAN, "1ms", 1, 3.6e12, "a span from 1 ns to 1h" },
    { "exact.jitter", SET_SPAN, "0", 0, 3.6e12, "a span to 1h" },
    { "hierarchy.system", SET_CHOICE, "mqh", 0, 0, "mqh|mq|fcfsh|fcfs" },        /* in the order of htc_sim_grids_system */
    { "hierarchy.mode", SET_CHOICE, "full", 0, 0, "full|simple" },               /* of htc_hierarchy_mode */
    { "hierarchy.migrate", SET_CHOICE, "next", 0, 0, "next|direct" },            /* of htc_hierarchy_migrate */
    { "hierarchy.share", SET_CHOICE, "push", 0, 0, "push|flock|external" },      /* of htc_hierarchy_sharing */
    { "hierarchy.flow", SET_SPAN, "4s", 0, 0, "a span" },
    { "hierarchy.move", SET_SPAN, "0", 0, 0, "a span" },
    { "hierarchy.rest", SET_SPAN, "2h", 0, 0, "a span" },
    { "hierarchy.shelter", SET_SPAN, "30min", 0, 0, "a span" },
    { "hierarchy.attempts", SET_COUNT, "10", 1, 4294967295.0, "a number from 1 to 4294967295, which is without bound" },
    { "hierarchy.active", SET_COUNT, "0", 0, 16777216, "a number from 0 to 16777216" },
    { "grid.*.cpus", SET_COUNT, "100", 1, 16777216, "a number from 1 to 16777216" },
    { "grid.*.max_jobs", SET_COUNT, "0", 0, 16777216, "a number; 0: as many as it has CPUs" },
    { "grid.*.kflops", SET_REAL, "750000", 1e-6, 1e15, "thousands of operations a second of a CPU" },
    { "grid.*.speed_cv", SET_REAL, "0", 0, 10, "a number from 0 to 10" },
    { "grid.*.latency", SET_LAW, "0", 0, 0, LAW_WORDS },
    { "grid.*.evict_per_h", SET_REAL, "0", 0, 1e9, "evictions in an hour of a task's run time" },
    { "grid.*.evict_part", SET_REAL, "0", 0, 1, "a number from 0 to 1" },
    { "grid.*.free", SET_REAL, "0", 0, 16777216, "CPUs on average; 0: always all" },
    { "grid.*.free_cv", SET_REAL, "0.3", 0, 10, "a number from 0 to 10" },
    { "grid.*.free_relax", SET_SPAN, "2h", 0, 0, "a span" },
    { "grid.*.outage_gap", SET_SPAN, "0", 0, 0, "a span; 0: there are none" },
    { "grid.*.outage", SET_SPAN, "1h", 0, 0, "a span" },
    { "queue.*.level", SET_COUNT, "1", 1, 256, "a number from 1 to 256" },
    { "queue.*.next", SET_WORD, "-", 0, 0, "the name of a queue on a lower level; -: there is none" },
    { "queue.*.grids", SET_WORD, NULL, 0, 0, "names of grids, with commas between them" },
    { "queue.*.Te", SET_SPAN, "1h", 0, 0, "a span" },
    { "queue.*.Tq", SET_SPAN, "2h", 0, 0, "a span, at least Te" },
    { "queue.*.N", SET_COUNT, "100", 1, 16777216, "a number from 1 to 16777216" },
    { "queue.*.n_task", SET_COUNT, "0", 0, 16777216, "a number; 0: as N" },
    { "queue.*.P", SET_REAL, "750000", 1e-6, 1e15, "thousands of operations a second of a CPU" },
    { "queue.*.beta", SET_REAL, "1", 0.001, 1, "a number from 0.001 to 1" },
    { "queue.*.alpha", SET_REAL, "0.06", 1e-9, 0.999, "a number below 1" },
    { "queue.*.potentials", SET_CHOICE, "auto", 0, 0, "off|on|auto" },
    { "queue.*.on_overload", SET_CHOICE, "migrate", 0, 0, "migrate|reject" },
    { "queue.*.target", SET_SPAN, "0", 0, 0, "a span; 0: a job is one task" },
    { "queue.*.estimate", SET_CHOICE, "early", 0, 0, "early|whole" },
    { "queue.*.preempt", SET_CHOICE, "off", 0, 0, "off|on" },
    { "workload.experiment", SET_CHOICE, "stream", 0, 0, "table1|stream" }, /* of htc_sim_grids_experiment */
    { "workload.jobs", SET_COUNT, "2300", 1, 1e12, "a number from 1 to 10^12" },
    { "workload.burst", SET_REAL, "12", 1, 1e9, "a number from 1" },
    { "workload.gap", SET_LAW, "exponential 15s", 0, 0, LAW_WORDS },
    { "workload.burst_gap", SET_LAW, "exponential 96469s", 0, 0, LAW_WORDS },
    { "job.*.at", SET_SPAN, "0", 0, 0, "a span" },
    { "job.*.every", SET_SPAN, "0", 0, 0, "a span" },
    { "job.*.count", SET_COUNT, "1", 0, GRIDS_JOBS_NAMED, "a number from 0 to 1000000" },
    { "job.*.kflop", SET_REAL, "1e6", 1e-6, 1e24, "thousands of operations" },
    { "job.*.rho", SET_REAL, "0", 0, 1e9, "from 1; 0: its complexity is known" },
    { "job.*.tasks", SET_COUNT, "0", 0, 1e9, "a number; 0: as its queue splits it" },
    { "class.*.share", SET_REAL, "1", 0, 1e9, "a number" },
    { "class.*.min", SET_REAL, "1e6", 1e-6, 1e24, "thousands of operations" },
    { "class.*.max", SET_REAL, "1e6", 1e-6, 1e24, "thousands of operations, at least min" },
    { "class.*.rho", SET_REAL, "19.28", 0, 1e9, "the mean; 0: complexities are known" },
    { "class.*.rho_cv", SET_REAL, "0.947", 0, 10, "a number from 0 to 10" },
    { NULL, 0, NULL, 0, 0, NULL },
};

static int place_of(const settings *s, const char *kind, const char *name, size_t len, uint32_t *place)
{
    const char *at;
    for (uint32_t i = 0; (at = settings_section(s, kind, i)); i++)
        if (strlen(at) == len && strncmp(at, name, len) == 0) {
            *place = i;
            return 1;
        }
    return 0;
}

/* ---- a deployment of one's own ---- */

static double real_in(settings *s, const char *kind, const char *name, const char *key)
{
    return settings_real(s, settings_in(s, kind, name, key));
}

static uint64_t count_in(settings *s, const char *kind, const char *name, const char *key)
{
    return settings_count(s, settings_in(s, kind, name, key));
}

static htc_ns span_in(settings *s, const char *kind, const char *name, const char *key)
{
    return settings_span(s, settings_in(s, kind, name, key));
}

static uint32_t choice_in(settings *s, const char *kind, const char *name, const char *key)
{
    return settings_choice(s, settings_in(s, kind, name, key));
}

static void named_grids(grids_run *g, settings *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const char   *name = settings_section(s, "grid", i);
        htc_scale_law latency = settings_law(s, settings_in(s, "grid", name, "latency"));
        g->hierarchy_grids[i] = (htc_hierarchy_grid){ .cpus = (uint32_t)count_in(s, "grid", name, "cpus"), .tasks_max = (uint32_t)count_in(s, "grid", name, "max_jobs"),
                                                      .latency_ns = (htc_ns)latency.mean_ns };
        g->grids[i] = (htc_sim_grids_grid){ .size = sizeof *g->grids, .kflops = real_in(s, "grid", name, "kflops"), .speed_cv = real_in(s, "grid", name, "speed_cv"), .latency = latency,
                                            .evict_per_h = real_in(s, "grid", name, "evict_per_h"), .evict_part = real_in(s, "grid", name, "evict_part"),
                                            .free_mean = real_in(s, "grid", name, "free"), .free_cv = real_in(s, "grid", name, "free_cv"), .free_ns = span_in(s, "grid", name, "free_relax"),
                                            .outage_gap_ns = span_in(s, "grid", name, "outage_gap"), .outage_ns = span_in(s, "grid", name, "outage") };
    }
}

static int grids_of(grids_run *g, settings *s, size_t queue, const char *name, htc_error *e)
{
    htc_hierarchy_queue *q = &g->hierarchy_queues[queue];
    uint32_t            *used = g->used + queue * HTC_HIERARCHY_GRIDS_MAX;
    const char          *at = settings_text(s, settings_in(s, "queue", name, "grids"));
    q->grids = used;
    for (size_t len; *at; at += len + (at[len] == ',')) {
        len = strcspn(at, ",");
        if (q->grid_count == HTC_HIERARCHY_GRIDS_MAX || !place_of(s, "grid", at, len, &used[q->grid_count])) {
            settings_refuse(e, HTC_ECONFIG, "", "write queue.NAME.grids = GRID,GRID, and a section [grid.GRID] for each");
            snprintf(e->text, sizeof e->text, "queue.%.60s.grids: there is no grid %.*s", name, (int)(len < 60 ? len : 60), at);
            return 0;
        }
        q->grid_count++;
    }
    if (q->grid_count)
        return 1;
    settings_refuse(e, HTC_ECONFIG, "", "write queue.NAME.grids = GRID,GRID, and a section [grid.GRID] for each");
    snprintf(e->text, sizeof e->text, "queue.%.60s has no grids", name);
    return 0;
}

static int named_queues(grids_run *g, settings *s, size_t n, htc_error *e)
{
    static const uint32_t policies[] = { 0x0e, 0x3e, 0 }; /* bits of the reasons: without and with the two potential ones */
    for (size_t i = 0; i < n; i++) {
        const char *name = settings_section(s, "queue", i), *next;
        uint32_t    below = HTC_HIERARCHY_NOWHERE;
        next = settings_text(s, settings_in(s, "queue", name, "next"));
        if (strcmp(next, "-") != 0 && !place_of(s, "queue", next, strlen(next), &below)) {
            settings_refuse(e, HTC_ECONFIG, "", "write queue.NAME.next = QUEUE, and a section [queue.QUEUE]");
            snprintf(e->text, sizeof e->text, "queue.%.60s.next: there is no queue %.60s", name, next);
            return 0;
        }
        g->hierarchy_queues[i] = (htc_hierarchy_queue){ .level = (uint32_t)count_in(s, "queue", name, "level"), .next = below, .te_ns = span_in(s, "queue", name, "Te"),
                                                        .tq_ns = span_in(s, "queue", name, "Tq"), .cpus = (uint32_t)count_in(s, "queue", name, "N"),
                                                        .job_cpus = (uint32_t)count_in(s, "queue", name, "n_task"), .kflops = real_in(s, "queue", name, "P"),
                                                        .beta = real_in(s, "queue", name, "beta"), .alpha = real_in(s, "queue", name, "alpha"),
                                                        .policies = policies[choice_in(s, "queue", name, "potentials")],
                                                        .flags = choice_in(s, "queue", name, "on_overload") ? HTC_HIERARCHY_REJECTS : 0 };
        g->queues[i] = (htc_sim_grids_queue){ .size = sizeof *g->queues, .target_ns = span_in(s, "queue", name, "target"),
                                              .flags = (choice_in(s, "queue", name, "estimate") ? HTC_SIM_GRIDS_WHOLE_BUDGET : 0) |
                                                       (choice_in(s, "queue", name, "preempt") ? HTC_SIM_GRIDS_PREEMPTS : 0) };
        if (strlen(name) >= sizeof *g->queue_names)
            return settings_refuse(e, HTC_ECONFIG, "the name of a queue is too long", "names have at most 47 bytes");
        snprintf(g->queue_names[i], sizeof *g->queue_names, "%s", name);
        if (!grids_of(g, s, i, name, e))
            return 0;
    }
    return 1;
}

static int named_classes(grids_run *g, settings *s, size_t n, htc_error *e)
{
    for (size_t i = 0; i < n; i++) {
        const char *name = settings_section(s, "class", i);
        g->classes[i] = (htc_sim_grids_class){ .size = sizeof *g->classes, .share = real_in(s, "class", name, "share"), .kflop_min = real_in(s, "class", name, "min"),
                                               .kflop_max = real_in(s, "class", name, "max"), .rho_mean = real_in(s, "class", name, "rho"),
                                               .rho_cv = real_in(s, "class", name, "rho_cv") };
        if (strlen(name) >= sizeof *g->class_names)
            return settings_refuse(e, HTC_ECONFIG, "the name of a class is too long", "names have at most 47 bytes");
        snprintf(g->class_names[i], sizeof *g->class_names, "%s", name);
    }
    return 1;
}

/* ---- all of it ---- */

static void names_of_profile(grids_run *g, uint32_t experiment, int queues, int classes)
{
    static const char *const stream[] = { "small", "medium", "large", "huge" }, *const table1[] = { "long", "short" };
    for (size_t i = 0; queues && i < g->n_queues; i++)
        snprintf(g->queue_names[i], sizeof *g->queue_names, "Q%zu", i + 1);
    for (size_t i = 0; classes && i < g->options.n_classes; i++)
        snprintf(g->class_names[i], sizeof *g->class_names, "%s", experiment == HTC_SIM_GRIDS_STREAM ? stream[i] : table1[i]);
}

/* Some thousand samples, while jobs arrive. */
static htc_ns sample_of(const grids_run *g, const settings *s)
{
    const htc_sim_grids_stream *w = &g->options.stream;
    if (strcmp(settings_text(s, "sim.sample"), "auto") != 0)
        return settings_span(s, "sim.sample");
    double between = w->gap.mean_ns + w->burst_gap.mean_ns / w->burst;
    return g->options.jobs ? 60 * HTC_SECOND : (htc_ns)fmax(fmin(between * (double)w->jobs / 2000, 1e18), 1e9);
}

typedef struct section_counts {
    size_t grids, queues, classes, named; /* named: jobs, each of which is a class */
} section_counts;

static int check_sections(section_counts *n, uint32_t experiment, htc_error *error)
{
    if (!n->queues != !n->grids)
        return settings_refuse(error, HTC_ECONFIG, "there are queues without grids, or grids without queues", "write sections [queue.NAME] and [grid.NAME], or neither: superlink-2005");
    if (n->named && (n->classes || experiment == HTC_SIM_GRIDS_TABLE_1))
        return settings_refuse(error, HTC_ECONFIG, "jobs are named, and there are others too", "write sections [job.NAME], or [class.NAME] for jobs that are drawn, or workload.experiment = table1");
    n->classes = n->named ? n->named : n->classes;
    if (n->grids > HTC_HIERARCHY_GRIDS_MAX || n->queues > HTC_HIERARCHY_QUEUES_MAX || n->classes > HTC_SIM_GRIDS_CLASSES_MAX)
        return settings_refuse(error, HTC_ETOOBIG, "there are more than 64 grids, 256 queues or 256 classes", "leave out some");
    if (n->classes && experiment == HTC_SIM_GRIDS_TABLE_1)
        return settings_refuse(error, HTC_ECONFIG, "table1 has two jobs of its own, and no classes", "leave out the sections [class.NAME], or workload.experiment");
    return 1;
}

static int make_room(grids_run *g, const section_counts *n, int with_course)
{
    g->hierarchy_grids = calloc(n->grids + 1, sizeof *g->hierarchy_grids);
    g->grids = calloc(n->grids + 1, sizeof *g->grids);
    g->hierarchy_queues = calloc(n->queues + 1, sizeof *g->hierarchy_queues);
    g->queues = calloc(n->queues + 1, sizeof *g->queues);
    g->used = calloc(n->queues + 1, HTC_HIERARCHY_GRIDS_MAX * sizeof *g->used);
    g->classes = calloc(n->classes + 1, sizeof *g->classes);
    g->queue_names = calloc(g->n_queues, sizeof *g->queue_names);
    g->class_names = calloc(g->options.n_classes, sizeof *g->class_names);
    g->by_queue = calloc(g->n_queues, sizeof *g->by_queue);
    g->by_class = calloc(g->options.n_classes, sizeof *g->by_class);
    g->course = with_course ? calloc(1, sizeof *g->course) : NULL;
    return g->hierarchy_grids && g->grids && g->hierarchy_queues && g->queues && g->used && g->classes && g->queue_names && g->class_names && g->by_queue && g->by_class &&
           (g->course || !with_course);
}

/* Sections take the place of what the profile has. */
static int read_sections(grids_run *g, settings *s, const section_counts *n, htc_error *error)
{
    named_grids(g, s, n->grids);
    if (!named_queues(g, s, n->queues, error) || !(n->named ? grids_named_jobs(g, s, error) : named_classes(g, s, n->classes, error)))
        return 0;
    if (n->queues) {
        g->hierarchy.grids = g->hierarchy_grids;
        g->hierarchy.grid_count = n->grids;
        g->hierarchy.queues = g->hierarchy_queues;
        g->hierarchy.queue_count = n->queues;
        g->options.grids = g->grids;
        g->options.queues = g->queues;
    }
    if (n->classes)
        g->options.classes = g->classes;
    return 1;
}

/* What is told of a hierarchy as a whole. */
static void measure_hierarchy(grids_run *g)
{
    for (size_t q = 0; q < g->hierarchy.queue_count; q++)
        g->levels = g->hierarchy.queues[q].level > g->levels ? g->hierarchy.queues[q].level : g->levels;
    g->levels = g->levels < GRIDS_LEVELS ? g->levels : GRIDS_LEVELS;
    for (size_t i = 0; i < g->hierarchy.grid_count; i++)
        g->cpus += g->hierarchy.grids[i].cpus;
}

static void read_options(grids_run *g, const settings *s, uint64_t seed)
{
    htc_sim_grids_options *o = &g->options;
    g->hierarchy.mode = settings_choice(s, "hierarchy.mode");
    g->hierarchy.migrate = settings_choice(s, "hierarchy.migrate");
    g->hierarchy.sharing = settings_choice(s, "hierarchy.share");
    o->hierarchy = &g->hierarchy;
    o->seed = seed;
    o->system = settings_choice(s, "hierarchy.system");
    o->tick_ns = settings_span(s, "sim.tick");
    o->flow_ns = settings_span(s, "hierarchy.flow");
    o->move_ns = settings_span(s, "hierarchy.move");
    o->rest_ns = settings_span(s, "hierarchy.rest");
    o->shelter_ns = settings_span(s, "hierarchy.shelter");
    o->active_max = settings_count(s, "hierarchy.active");
    o->task_attempts = (uint32_t)settings_count(s, "hierarchy.attempts");
    o->stream = (htc_sim_grids_stream){ .jobs = settings_count(s, "workload.jobs"), .burst = settings_real(s, "workload.burst"), .gap = settings_law(s, "workload.gap"),
                                        .burst_gap = settings_law(s, "workload.burst_gap") };
    o->sample_ns = g->course ? sample_of(g, s) : 0;
    g->live = settings_choice(s, "sim.live") == 1;
    g->exactly = settings_choice(s, "sim.engine") == 1;
    g->exact = (htc_sim_grids_exact_options){ .size = sizeof g->exact, .seed = seed, .latency_ns = settings_span(s, "exact.latency"), .jitter_ns = settings_span(s, "exact.jitter") };
}

static int make(grids_run *g, settings *s, uint64_t seed, int with_course, htc_error *error)
{
    uint32_t       experiment = settings_choice(s, "workload.experiment");
    section_counts n = { settings_sections(s, "grid"), settings_sections(s, "queue"), settings_sections(s, "class"), settings_sections(s, "job") };
    *g = (grids_run){ .report = { .size = sizeof g->report } };
    if (!check_sections(&n, experiment, error))
        return 0;
    if (htc_sim_grids_superlink(NULL, experiment, &g->profile) != HTC_OK)
        return settings_refuse(error, HTC_ENOMEM, "no memory for the experiment", "make it smaller");
    g->options = *htc_sim_grids_profile_options(g->profile);
    g->hierarchy = *g->options.hierarchy;
    g->n_queues = n.queues ? n.queues : g->hierarchy.queue_count;
    g->options.n_classes = n.classes ? n.classes : g->options.n_classes;
    if (!make_room(g, &n, with_course))
        return settings_refuse(error, HTC_ENOMEM, "no memory for the experiment", "make it smaller");
    names_of_profile(g, experiment, !n.queues, !n.classes);
    if (!read_sections(g, s, &n, error))
        return 0;
    measure_hierarchy(g);
    read_options(g, s, seed);
    return !(g->live && g->exactly) ||
           settings_refuse(error, HTC_ECONFIG, "sim.engine: what runs on this machine has no engine", "leave out sim.engine, or sim.live");
}

static void close_run(void *run)
{
    grids_run *g = run;
    if (!g)
        return;
    htc_sim_grids_profile_destroy(g->profile);
    free(g->hierarchy_grids);
    free(g->grids);
    free(g->hierarchy_queues);
    free(g->queues);
    free(g->used);
    free(g->classes);
    free(g->jobs);
    free(g->queue_names);
    free(g->class_names);
    free(g->by_queue);
    free(g->by_class);
    free(g->course);
    free(g);
}

static void *open_run(settings *s, uint64_t seed, int drawn, htc_error *error)
{
    grids_run *g = calloc(1, sizeof *g);
    if (!g)
        settings_refuse(error, HTC_ENOMEM, "no memory for the experiment", "make it smaller");
    else if (make(g, s, seed, drawn, error))
        return g;
    close_run(g);
    return NULL;
}

/* ---- a run ---- */

static void keep(void *ctx, const htc_sim_grids_sample *s)
{
    grids_course    *c = ((grids_run *)ctx)->course;
    const course_row rows[] = { { c->at, sizeof *c->at }, { c->jobs, sizeof *c->jobs }, { c->busy, sizeof *c->busy }, { c->queued, sizeof *c->queued } };
    if (!course_keeps(&c->n, GRIDS_SAMPLES, &c->every, &c->seen, rows, sizeof rows / sizeof *rows))
        return;
    c->queues = s->n_queues < GRIDS_SHOWN ? s->n_queues : GRIDS_SHOWN;
    c->at[c->n] = (double)s->at / 1e9;
    c->jobs[c->n] = s->jobs;
    for (size_t q = 0; q < c->queues; q++)
        c->busy[c->n][q] = c->queued[c->n][q] = 0;
    for (size_t q = 0; q < s->n_queues; q++) {
        size_t at = q < GRIDS_SHOWN ? q : GRIDS_SHOWN - 1;
        c->busy[c->n][at] += (double)s->busy[q];
        c->queued[c->n][at] += (double)s->queued[q];
    }
    c->n++;
}

static int resume(void *run, const htc_scale_tape *tape, htc_error *error)
{
    grids_run *g = run;
    g->resume = tape;
    if (tape->move(tape->ctx, &g->ends, sizeof g->ends) == HTC_OK && tape->move(tape->ctx, g->course, sizeof *g->course) == HTC_OK && g->course->n <= GRIDS_SAMPLES &&
        g->course->queues <= GRIDS_SHOWN)
        return 1;
    return settings_refuse(error, HTC_ECORRUPT, "the course of the run is not in the checkpoint", "run the experiment again");
}

static int run_it(void *run, const htc_scale_tape *checkpoint, watch *w, htc_error *error)
{
    grids_run *g = run;
    double     begun = watch_seconds();
    course_tape ends, tape;
    g->options.host = &w->host;
    g->options.sample = g->course ? keep : NULL;
    g->options.end = grids_note_end;
    g->options.ctx = g;
    g->options.resume = g->resume;
    g->options.checkpoint = course_tape_open(&tape, course_tape_open(&ends, checkpoint, &g->ends, sizeof g->ends), g->course, sizeof *g->course);
    *error = (htc_error){ 0 };
    uint64_t bytes = 0;
    if (!g->exactly) /* how much the exact engine needs depends on its course */
        (void)htc_sim_grids_memory(&g->options, &bytes);
    watch_needs(w, bytes);
    if (g->exactly && (checkpoint || g->resume))
        return settings_refuse(error, HTC_ECONFIG, "a run of the exact engine has no checkpoint", "leave out --checkpoint, or sim.engine");
    if (g->live && (checkpoint || g->resume))
        return settings_refuse(error, HTC_ECONFIG, "what runs on this machine cannot go on later", "leave out --checkpoint, or sim.live");
    if (g->live) {
        int good = grids_live_run(g, error);
        g->seconds = watch_seconds() - begun;
        return good;
    }
    htc_status status = g->exactly ? htc_sim_grids_exact(&w->env, &g->options, &g->exact, &g->report, g->by_queue, g->by_class, error) :
                                     htc_sim_grids_run(&w->env, &g->options, &g->report, g->by_queue, g->by_class, error);
    watch_close(w);
    g->seconds = watch_seconds() - begun;
    if (status == HTC_OK)
        return 1;
    if (!error->text[0])
        snprintf(error->text, sizeof error->text, "%s", htc_strerror(status));
    snprintf(error->hint, sizeof error->hint, "%s", status == HTC_ETOOBIG && g->exactly          ? "give it less to do, or raise sim.memory" :
                                                    status == HTC_ETOOBIG && w->host.memory_max ? "give it less to do, or raise sim.memory or sim.tick" :
                                                    status == HTC_EFULL                          ? "lengthen workload.burst_gap, or raise hierarchy.active" :
                                                                                                   "change its settings");
    return 0;
}

enum { COMPLETED, REJECTED, TERMINATED, FAILED, RESPONSE_FIRST, RESPONSE_LAST, CLASS_FIRST, CLASS_LAST, WORK, EVICTED, MOVED, MOVES, MAKESPAN };
static const measure measures[] = { [COMPLETED] = { "completed", 1 },
                                    [REJECTED] = { "rejected", 1 },
                                    [TERMINATED] = { "terminated", 1 },
                                    [FAILED] = { "failed", 1 },
                                    [RESPONSE_FIRST] = { "response_top_s", 1 },
                                    [RESPONSE_LAST] = { "response_lowest_s", 1 },
                                    [CLASS_FIRST] = { "response_first_class_s", 1 },
                                    [CLASS_LAST] = { "response_last_class_s", 1 },
                                    [WORK] = { "work_core_s", 1 },
                                    [EVICTED] = { "evicted_core_s", 1 },
                                    [MOVED] = { "moved_core_s", 1 },
                                    [MOVES] = { "moves", 1 },
                                    [MAKESPAN] = { "makespan_s", 1 },
                                    { NULL, 0 } };

static void outcome_of(const void *run, outcome *o)
{
    const grids_run            *g = run;
    const htc_sim_grids_report *r = &g->report;
    o->hash = r->scale.hash;
    o->events = r->scale.events_here;
    o->done = !r->interrupted;
    o->value[COMPLETED] = (double)r->completed;
    o->value[REJECTED] = (double)r->rejected;
    o->value[TERMINATED] = (double)r->terminated;
    o->value[FAILED] = (double)r->failed;
    o->value[RESPONSE_FIRST] = g->by_queue[0].response_s;
    o->value[RESPONSE_LAST] = r->n_queues ? g->by_queue[r->n_queues - 1].response_s : 0;
    o->value[CLASS_FIRST] = g->by_class[0].response_s;
    o->value[CLASS_LAST] = g->by_class[g->options.n_classes - 1].response_s;
    o->value[WORK] = r->work_s;
    o->value[EVICTED] = r->evicted_s;
    o->value[MOVED] = r->moved_s;
    o->value[MOVES] = (double)r->moves;
    o->value[MAKESPAN] = (double)r->scale.makespan / 1e9;
    snprintf(o->error.text, sizeof o->error.text, "%s", r->scale.wrong);
}

static const model_option options[] = {
    { "experiment", "NAME", "workload.experiment", "table1 or stream (stream)" },
    { "system", "NAME", "hierarchy.system", "mqh, mq, fcfsh or fcfs (mqh)" },
    { "mode", "NAME", "hierarchy.mode", "full, or simple: time limits alone (full)" },
    { "migrate", "NAME", "hierarchy.migrate", "next, or direct: to the level of the bound (next)" },
    { "jobs-in-all", "N", "workload.jobs", "of the stream (2300)" },
    { "engine", "NAME", "sim.engine", "scale, or exact: the hierarchy and the grids speak by messages (scale)" },
    { "latency", "SPAN", "exact.latency", "of a message of the exact engine (1ms)" },
    { "tick", "SPAN", "sim.tick", "in which virtual time passes (1ms)" },
    { "sample", "SPAN", "sim.sample", "between two samples of the course (auto)" },
    { NULL, NULL, NULL, NULL },
};

static const model_preset presets[] = { { NULL, NULL } };

const model grids_model = { .name = "grids", .about = "several grids and jobs of unknown size, with the hierarchy of htc_hierarchy(3)", .table = table, .options = options,
                            .presets = presets, .measures = measures, .open = open_run, .resume = resume, .run = run_it, .outcome = outcome_of, .value = grids_value, .say = grids_say, .plot = grids_plot,
                            .close = close_run };
