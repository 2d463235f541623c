#include "fairshare.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../policies.h"
#include "arrivals.h"
#include "course.h"
#include "values.h"

/* ---- its settings ---- */

static const setting table[] = {
    { "sim.model", SET_CHOICE, "fairshare", 0, 0, "fairshare" },
    { "sim.seed", SET_COUNT, "1", 0, 9e18, "a number" },
    { "sim.tick", SET_SPAN, "1ms", 1, 0, "a span from 1 ns: 1ms, 1us" },
    { "sim.memory", SET_SIZE, "0", 0, 0, "bytes: 512M, 8G; 0: three quarters of this machine's" },
    { "sim.sample", SET_SPAN_OR_AUTO, "auto", 0, 0, "a span, or auto: some hundred samples of a run" },
    { "sim.engine", SET_CHOICE, "scale", 0, 0, "scale|exact" },
    { "exact.commit", SET_SPAN, "2ms", 0, 0, "a span" },
    { "exact.stage", SET_SPAN, "1ms", 0, 0, "a span" },
    { "exact.prefetch", SET_COUNT, "1", 0, 64, "a number from 0 to 64" },
    { "exact.slots", SET_COUNT, "1", 1, 64, "a number from 1 to 64" },
    { "cluster.cores", SET_COUNT, "1000", 1, 1073741824, "a number from 1 to 1073741824" },
    { "cluster.launch", SET_SPAN, "0", 0, 0, "a span" },
    { "cluster.pull", SET_SPAN, "0", 0, 0, "a span" },
    { "cluster.leave", SET_SPAN, "0", 0, 0, "a span" },
    { "cluster.choice", SET_CHOICE, "best", 0, 0, "best|first" }, /* in the order of htc_sim_fairshare_choice */
    { "cluster.direct", SET_CHOICE, "off", 0, 0, "off|on" },
    { "cluster.held", SET_SPAN, "600s", 0, 0, "a span" },
    { "cluster.lost", SET_SPAN, "30s", 0, 0, "a span" },
    { "cluster.*.cores", SET_COUNT, "1000", 1, 1073741824, "a number from 1 to 1073741824" },
    { "cluster.*.speed", SET_REAL, "1", 0.001, 1000, "a number from 0.001 to 1000" },
    { "cluster.*.service", SET_SPAN, "0", 0, 0, "a span" },
    { "cluster.*.batch", SET_COUNT, "1", 1, 1e9, "a number from 1 to 1000000000" },
    { "cluster.*.hold", SET_REAL, "0", 0, 1, "a number from 0 to 1" },
    { "cluster.*.hold_rate", SET_REAL, "0", 0, 1, "a number from 0 to 1" },
    { "cluster.*.life", SET_SPAN, "0", 0, 0, "a span; 0: without end" },
    { "cluster.*.others", SET_COUNT, "0", 0, 1073741824, "a number from 0 to 1073741824" },
    { "cluster.*.others_gap", SET_LAW, "0", 0, 0, LAW_WORDS },
    { "cluster.*.others_length", SET_LAW, "1h", 0, 0, LAW_WORDS },
    { "db.mode", SET_CHOICE, "off", 0, 0, "off|on|batch" }, /* in the order of htc_sim_fairshare_records */
    { "db.record", SET_SPAN, "29ms", 0, 0, "a span" },
    { "db.sync", SET_SPAN, "5ms", 0, 0, "a span" },
    { "fair.gamma", SET_REAL, "0", -1, 1, "a number from -1 to 1" },
    { "fair.estimated", SET_CHOICE, "off", 0, 0, "off|on" },
    { "fair.weigh", SET_SPAN, "5s", 0, 0, "a span" },
    { "fair.weights", SET_POLICY, "fixed", HTC_REGISTRY_WEIGHT, 0, "fixed" },
    { "fair.half_life", SET_SPAN, "168h", 1, 0, "a span" },
    { "fair.policy", SET_CHOICE, "maxmin", 0, 0, "eq1|static|maxmin|fcfs" }, /* in the order of htc_allot_policy */
    { "fair.min_agents", SET_COUNT, "1", 0, 1e6, "a number from 0 to 1000000" },
    { "fair.gap", SET_SPAN, "50ms", 0, 0, "a span" },
    { "workload.users", SET_COUNT, "0", 0, 1048576, "a number from 0 to 1048576" },
    { "workload.jobs", SET_COUNT, "1", 1, 1e6, "a number from 1 to 1000000" },
    { "workload.tasks", SET_COUNTS, "1000", 1, 1e12, "a number from 1 to 10^12, or two: A..B" },
    { "workload.length", SET_LAW, "60s", 0, 0, LAW_WORDS },
    { "workload.arrival", SET_LAW, "0", 0, 0, LAW_WORDS },
    ARRIVAL_SETTINGS("workload"),
    { "workload.trace", SET_FILE, NULL, 0, 0, "the name of a log in the Standard Workload Format" },
    { "workload.arrivals", SET_CHOICE, "log", 0, 0, "log|at_once" },
    { "workload.skip_bad", SET_CHOICE, "off", 0, 0, "off|on" },
    { "workload.weight", SET_COUNTS, "1", 1, 1e6, "a number from 1 to 1000000, or two: A..B" },
    { "user.*.weight", SET_REAL, "1", 0.001, 1e6, "a number from 0.001 to 1000000" },
    { "user.*.share", SET_CHOICE, "on", 0, 0, "off|on" },
    { "job.*.user", SET_WORD, NULL, 0, 0, "the name of a user" },
    { "job.*.tasks", SET_COUNT, "1000", 1, 1e12, "a number from 1 to 10^12" },
    { "job.*.length", SET_LAW, "60s", 0, 0, LAW_WORDS },
    { "job.*.arrival", SET_SPAN, "0", 0, 0, "a span" },
    { "job.*.gap", SET_LAW, "0", 0, 0, LAW_WORDS },
    { NULL, 0, NULL, 0, 0, NULL },
};

/* ---- the workload ---- */

static uint64_t between(htc_rng *rng, uint64_t min, uint64_t max)
{
    return min + htc_rng_below(rng, max - min + 1);
}

/* Nothing happens in it: it is asked for lengths. */
static void no_event(htc_scale *scale, void *ctx, uint32_t id)
{
    (void)scale;
    (void)ctx;
    (void)id;
}

static void generate_users(fairshare *f, const settings *s, uint64_t seed, size_t from)
{
    htc_rng  root = { seed }, weights = htc_rng_fork(&root, "weights");
    uint64_t min, max;
    settings_counts(s, "workload.weight", &min, &max);
    for (size_t u = from; u < f->options.n_users; u++)
        f->users[u] = (htc_sim_fairshare_user){ .size = sizeof(htc_sim_fairshare_user), .weight = (double)between(&weights, min, max), .fixed = 1 };
}

/* Users and jobs that are drawn: job k is user k's, modulo their number, and comes one gap after job k - 1. */
static int generate(fairshare *f, const settings *s, uint64_t seed, size_t first_user, size_t users, size_t jobs, const htc_scale_arrivals *arrivals)
{
    htc_rng           root = { seed }, tasks = htc_rng_fork(&root, "tasks");
    htc_scale_law     length = settings_law(s, "workload.length");
    htc_scale_options o = { .size = sizeof o, .seed = seed, .ids = 1, .tick_ns = HTC_US, .event = no_event };
    htc_scale        *draws = NULL;
    uint64_t          min, max, at = 0;
    if (htc_scale_create(NULL, &o, &draws, NULL) != HTC_OK)
        return 0;
    generate_users(f, s, seed, first_user);
    for (size_t u = 0; u < users; u++)
        snprintf(f->names[first_user + u], sizeof *f->names, "u%zu", u);
    settings_counts(s, "workload.tasks", &min, &max);
    for (size_t j = 0; j < jobs; j++) {
        f->jobs[j] = (htc_sim_fairshare_job){ .size = sizeof(htc_sim_fairshare_job), .user = (uint32_t)(first_user + j % users), .tasks = between(&tasks, min, max), .arrival = at * HTC_US, .length = length };
        at = htc_scale_arrival(draws, arrivals, UINT64_MAX, j, at);
    }
    htc_scale_destroy(draws);
    return 1;
}

static htc_ns drawn_gap(const htc_scale_law *gap, uint64_t seed, size_t j)
{
    htc_scale_options o = { .size = sizeof o, .seed = seed, .ids = 1, .tick_ns = HTC_US, .event = no_event };
    htc_scale        *draws = NULL;
    if (htc_scale_create(NULL, &o, &draws, NULL) != HTC_OK)
        return (htc_ns)gap->mean_ns;
    htc_ns span = htc_scale_length(draws, gap, UINT64_MAX - 1, j) * HTC_US;
    htc_scale_destroy(draws);
    return span;
}

static int named_users(fairshare *f, settings *s, size_t n, htc_error *e)
{
    for (size_t u = 0; u < n; u++) {
        const char *name = settings_section(s, "user", u);
        if (strlen(name) >= sizeof *f->names)
            return settings_refuse(e, HTC_ECONFIG, "the name of a user is too long", "names have at most 47 bytes");
        snprintf(f->names[u], sizeof *f->names, "%s", name);
        f->users[u] = (htc_sim_fairshare_user){ .size = sizeof(htc_sim_fairshare_user), .weight = settings_real(s, settings_in(s, "user", name, "weight")),
                                                .fixed = settings_choice(s, settings_in(s, "user", name, "share")) };
    }
    return 1;
}

static int owner_of(const fairshare *f, const char *job, const char *owner, size_t users, uint32_t *u, htc_error *e)
{
    for (*u = 0; *u < users; (*u)++)
        if (strcmp(f->names[*u], owner) == 0)
            return 1;
    settings_refuse(e, HTC_ECONFIG, "", "write job.NAME.user = USER, and a section [user.USER]");
    snprintf(e->text, sizeof e->text, owner[0] ? "job.%.60s.user: there is no user %.60s" : "job.%.60s has no user", job, owner);
    return 0;
}

/* A job comes at its arrival, or its gap after the one before it in the file. */
static int named_jobs(fairshare *f, settings *s, uint64_t seed, size_t first, size_t n, size_t users, htc_error *e)
{
    htc_ns before = 0;
    for (size_t j = 0; j < n; j++) {
        const char   *name = settings_section(s, "job", j);
        uint32_t      u;
        htc_scale_law gap = settings_law(s, settings_in(s, "job", name, "gap"));
        if (!owner_of(f, name, settings_text(s, settings_in(s, "job", name, "user")), users, &u, e))
            return 0;
        before = gap.mean_ns > 0 ? before + drawn_gap(&gap, seed, j) : settings_span(s, settings_in(s, "job", name, "arrival"));
        f->jobs[first + j] = (htc_sim_fairshare_job){ .size = sizeof(htc_sim_fairshare_job), .user = u, .tasks = settings_count(s, settings_in(s, "job", name, "tasks")),
                                                      .arrival = before, .length = settings_law(s, settings_in(s, "job", name, "length")) };
    }
    return 1;
}

/* Some hundred samples: until all work is done at best, and as long again. */
static htc_ns sample_of(const fairshare *f, const settings *s)
{
    double work = f->log_work, last = f->log_at_once ? 0 : f->log_last, cores = (double)f->options.cores;
    if (strcmp(settings_text(s, "sim.sample"), "auto") != 0)
        return settings_span(s, "sim.sample");
    for (size_t j = 0; j < f->options.n_jobs; j++) {
        work += (double)f->jobs[j].tasks * f->jobs[j].length.mean_ns;
        last = fmax(last, (double)f->jobs[j].arrival + f->jobs[j].length.mean_ns);
    }
    for (size_t k = 0; k < f->options.n_clusters; k++)
        cores += (double)f->clusters[k].cores;
    return (htc_ns)fmax(fmax(work / cores, last) / 600, 1);
}

/* "fixed": those of the users, or what fair.gamma makes of them. */
static int weigher_of(fairshare *f, const settings *s, htc_error *error)
{
    const char *name = settings_text(s, "fair.weights");
    if (strcmp(name, "fixed") == 0)
        return 1;
    if (!(f->registry = policies_open(error)))
        return 0;
    return htc_allot_find(f->registry, name, &f->options.weigher) == HTC_OK || settings_refuse(error, HTC_EINTERNAL, "a policy is not in the registry", "report this");
}

static int make(fairshare *f, settings *s, uint64_t seed, htc_error *error)
{
    htc_scale_arrivals arrivals;
    size_t named = settings_sections(s, "user"), drawn = settings_count(s, "workload.users"), wanted = settings_sections(s, "job");
    size_t drawn_jobs = drawn * settings_count(s, "workload.jobs");
    uint64_t min_agents = settings_count(s, "fair.min_agents");
    int    of_log = settings_text(s, "workload.trace")[0] != '\0';
    *f = (fairshare){ .report = { .size = sizeof f->report } };
    if (of_log && wanted)
        return settings_refuse(error, HTC_ECONFIG, "there are both a log and sections [job.NAME]", "leave out workload.trace, or the jobs");
    if (of_log && settings_choice(s, "sim.engine") == 1)
        return settings_refuse(error, HTC_ECONFIG, "the exact engine takes no log", "leave out workload.trace, or sim.engine");
    if (!fairshare_trace(f, s, error))
        return 0;
    if (of_log) {
        drawn = f->n_known;
        drawn_jobs = 0;
    } else if (named + drawn == 0 || wanted + drawn_jobs == 0)
        return settings_refuse(error, HTC_ECONFIG, "there are no users with jobs", "set workload.users, or write sections [user.NAME] and [job.NAME]");
    if (wanted + drawn_jobs > HTC_SIM_FAIRSHARE_JOBS_MAX)
        return settings_refuse(error, HTC_ETOOBIG, "there are more than 2^24 jobs", "lower workload.jobs and raise workload.tasks");
    f->users = calloc(named + drawn, sizeof *f->users);
    f->names = calloc(named + drawn, sizeof *f->names);
    f->results = calloc(named + drawn, sizeof *f->results);
    f->jobs = calloc(wanted + drawn_jobs + 1, sizeof *f->jobs);
    f->course = calloc(1, sizeof *f->course);
    if (!f->users || !f->names || !f->results || !f->jobs || !f->course)
        return settings_refuse(error, HTC_ENOMEM, "no memory for the workload", "make it smaller");
    f->options = (htc_sim_fairshare_options){ .size = sizeof f->options, .seed = seed, .cores = settings_count(s, "cluster.cores"),
                                              .policy = settings_choice(s, "fair.policy"), .min_agents = min_agents ? (uint32_t)min_agents : HTC_ALLOT_NO_MINIMUM,
                                              .users = f->users, .n_users = named + drawn, .jobs = of_log ? NULL : f->jobs, .n_jobs = wanted + drawn_jobs,
                                              .next_job = of_log ? fairshare_trace_next : NULL, .next_ctx = f,
                                              .tick_ns = settings_span(s, "sim.tick"), .launch_ns = settings_span(s, "cluster.launch"),
                                              .pull_ns = settings_span(s, "cluster.pull"), .leave_ns = settings_span(s, "cluster.leave"),
                                              .gap_ns = settings_span(s, "fair.gap"), .choice = settings_choice(s, "cluster.choice"),
                                              .direct = settings_choice(s, "cluster.direct"), .held_ns = settings_span(s, "cluster.held"),
                                              .lost_ns = settings_span(s, "cluster.lost"), .records = settings_choice(s, "db.mode"),
                                              .record_ns = settings_span(s, "db.record"), .sync_ns = settings_span(s, "db.sync"), .gamma = settings_real(s, "fair.gamma"),
                                              .estimated = settings_choice(s, "fair.estimated"), .weigh_ns = settings_span(s, "fair.weigh"),
                                              .half_life_ns = settings_span(s, "fair.half_life") };
    if (!weigher_of(f, s, error))
        return 0;
    f->exactly = (int)settings_choice(s, "sim.engine");
    f->exact = (htc_sim_fairshare_exact_options){ .size = sizeof f->exact, .commit_ns = settings_span(s, "exact.commit"), .stage_ns = settings_span(s, "exact.stage"),
                                                  .prefetch = (uint32_t)settings_count(s, "exact.prefetch"), .slots = (uint32_t)settings_count(s, "exact.slots") };
    if (!fairshare_clusters(f, s, error))
        return 0;
    if (!named_users(f, s, named, error) || !named_jobs(f, s, seed, drawn_jobs, wanted, named, error))
        return 0;
    if (of_log) {
        fairshare_trace_users(f, named);
        generate_users(f, s, seed, named);
    }
    if (drawn && !of_log && !arrivals_read(s, "workload", "arrival", &arrivals, error))
        return 0;
    if (drawn && !of_log && !generate(f, s, seed, named, drawn, drawn_jobs, &arrivals))
        return settings_refuse(error, HTC_ENOMEM, "no memory for the workload", "make it smaller");
    f->options.sample_ns = sample_of(f, s);
    return 1;
}

void fairshare_close(void *run)
{
    fairshare *f = run;
    if (!f)
        return;
    free(f->users);
    free(f->names);
    free(f->results);
    free(f->jobs);
    free(f->clusters);
    free(f->cluster_names);
    free(f->on);
    free(f->course);
    fairshare_trace_close(f);
    htc_registry_destroy(f->registry);
    free(f);
}

static void *open_run(settings *s, uint64_t seed, int drawn, htc_error *error)
{
    fairshare *f = calloc(1, sizeof *f);
    (void)drawn; /* its course is small, and values are asked of it */
    if (!f)
        settings_refuse(error, HTC_ENOMEM, "no memory for the workload", "make it smaller");
    else if (make(f, s, seed, error))
        return f;
    fairshare_close(f);
    return NULL;
}

/* ---- a run ---- */

static void keep(void *ctx, const htc_sim_fairshare_sample *s)
{
    course          *c = ctx;
    const course_row rows[] = { { c->at, sizeof *c->at }, { c->queued, sizeof *c->queued }, { c->cores, sizeof *c->cores } };
    if (!course_keeps(&c->n, COURSE_SAMPLES, &c->every, &c->seen, rows, sizeof rows / sizeof *rows))
        return;
    c->users = s->n_users < COURSE_USERS ? s->n_users : COURSE_USERS;
    c->at[c->n] = (double)s->at / 1e9;
    c->queued[c->n] = s->queued;
    for (size_t u = 0; u < c->users; u++)
        c->cores[c->n][u] = 0;
    for (size_t u = 0; u < s->n_users; u++)
        c->cores[c->n][u < COURSE_USERS ? u : COURSE_USERS - 1] += (double)s->cores[u];
    c->n++;
}

int fairshare_resume(void *run, const htc_scale_tape *tape, htc_error *error)
{
    fairshare *f = run;
    f->resume = tape;
    if (tape->move(tape->ctx, f->course, sizeof *f->course) == HTC_OK && f->course->n <= COURSE_SAMPLES && f->course->users <= COURSE_USERS)
        return 1;
    return settings_refuse(error, HTC_ECORRUPT, "the course of the run is not in the checkpoint", "run the experiment again");
}

/* In front of the state of model and engine: the course, as it is when the run is stopped. */
static htc_status with_course(void *ctx, void *data, size_t n)
{
    fairshare *f = ctx;
    if (!f->course_kept) {
        f->course_kept = 1;
        htc_status status = f->checkpoint->move(f->checkpoint->ctx, f->course, sizeof *f->course);
        if (status != HTC_OK)
            return status;
    }
    return f->checkpoint->move(f->checkpoint->ctx, data, n);
}

int fairshare_run(void *run, const htc_scale_tape *checkpoint, watch *w, htc_error *error)
{
    fairshare     *f = run;
    htc_scale_tape tape = { .size = sizeof tape, .move = with_course, .ctx = f };
    double begun = watch_seconds();
    f->options.host = &w->host;
    f->options.sample = f->course ? keep : NULL;
    f->options.sample_ctx = f->course;
    f->options.resume = f->resume;
    f->options.cluster_results = f->on;
    f->checkpoint = checkpoint;
    f->options.checkpoint = checkpoint ? &tape : NULL;
    *error = (htc_error){ 0 };
    uint64_t bytes = 0;
    (void)htc_sim_fairshare_memory(&f->options, &bytes);
    watch_needs(w, bytes);
    htc_status status = f->exactly ? htc_sim_fairshare_exact(NULL, &f->options, &f->exact, &f->report, f->results, error) :
                                     htc_sim_fairshare_run(&w->env, &f->options, &f->report, f->results, error);
    watch_close(w);
    f->seconds = watch_seconds() - begun;
    if (status == HTC_OK)
        return 1;
    if (trace_failed(&f->log, error))
        return 0;
    if (!error->text[0])
        snprintf(error->text, sizeof error->text, "%s", htc_strerror(status));
    snprintf(error->hint, sizeof error->hint, "%s", status == HTC_ETOOBIG && w->host.memory_max ? "give it less to do, or raise sim.memory or sim.tick" : "change its settings");
    return 0;
}

/* ---- what is kept of it ---- */

/* The cores, or the waiting tasks (u SIZE_MAX), at a moment. */
static double at_time(const course *c, size_t u, double at)
{
    size_t i = 0;
    while (i + 1 < c->n && c->at[i + 1] <= at)
        i++;
    return c->n == 0 ? 0 : u == SIZE_MAX ? (double)c->queued[i] : c->cores[i][u];
}

static int user_value(const fairshare *f, size_t u, const char *what, double *out)
{
    const htc_sim_fairshare_result *r = &f->results[u];
    char                           *end;
    if (strcmp(what, "makespan") == 0)
        *out = (double)r->makespan / 1e9;
    else if (strcmp(what, "response") == 0)
        *out = r->response_s;
    else if (strcmp(what, "core_s") == 0)
        *out = r->core_s;
    else if (strncmp(what, "cores.", 6) == 0 && u < COURSE_USERS - 1 && what[6])
        *out = at_time(f->course, u, strtod(what + 6, &end));
    else
        return 0;
    return 1;
}

static int cluster_value(const htc_sim_fairshare_cluster_result *r, const char *what, double *out)
{
    const struct {
        const char *name;
        double      value;
    } all[] = { { "tasks", (double)r->tasks }, { "agents", (double)r->agents }, { "jobs", (double)r->jobs },     { "held", (double)r->held },
                { "died", (double)r->died },   { "work_s", r->work_s },         { "others", (double)r->others }, { "lost_s", r->lost_s } };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(all[i].name, what) == 0) {
            *out = all[i].value;
            return 1;
        }
    return 0;
}

/* user.NAME.makespan, .response, .core_s, .cores.SECONDS; queued.SECONDS; cluster.NAME.tasks and so on; memory. */
int fairshare_value(const void *run, const char *name, double *out)
{
    const fairshare *f = run;
    char            *end;
    for (size_t u = 0; u < f->options.n_users; u++) {
        size_t n = strlen(f->names[u]);
        if (strncmp(name, "user.", 5) == 0 && strncmp(name + 5, f->names[u], n) == 0 && name[5 + n] == '.' && user_value(f, u, name + 6 + n, out))
            return 1;
    }
    for (size_t k = 0; k < f->options.n_clusters; k++) {
        size_t n = strlen(f->cluster_names[k]);
        if (strncmp(name, "cluster.", 8) == 0 && strncmp(name + 8, f->cluster_names[k], n) == 0 && name[8 + n] == '.' && cluster_value(&f->on[k], name + 9 + n, out))
            return 1;
    }
    if (strcmp(name, "memory") == 0) {
        *out = (double)f->report.memory;
        return 1;
    }
    if (strncmp(name, "queued.", 7) != 0 || !name[7])
        return 0;
    *out = at_time(f->course, SIZE_MAX, strtod(name + 7, &end));
    return 1;
}

enum { MAKESPAN, THROUGHPUT, EFFICIENCY, IDLE, FAIRNESS, USER_MAKESPAN, RESPONSE, COMPLETED, HELD, DIED, LOST };
static const measure measures[] = { [MAKESPAN] = { "makespan_s", 1 }, [THROUGHPUT] = { "tasks_per_s", 2 }, [EFFICIENCY] = { "efficiency", 4 },
                                    [IDLE] = { "idle_core_s", 1 },    [FAIRNESS] = { "fairness", 4 },      [USER_MAKESPAN] = { "user_makespan_s", 1 },
                                    [RESPONSE] = { "response_s", 1 },   [COMPLETED] = { "completed", 4 },    [HELD] = { "held", 0 },
                                    [DIED] = { "died", 0 },             [LOST] = { "lost_core_s", 1 },       { NULL, 0 } };

static void outcome_of(const void *run, outcome *o)
{
    const fairshare                *f = run;
    const htc_sim_fairshare_report *r = &f->report;
    double                          users = 0;
    o->hash = r->scale.hash;
    o->events = r->scale.events_here;
    o->done = !r->interrupted;
    o->value[MAKESPAN] = (double)r->scale.makespan / 1e9;
    o->value[THROUGHPUT] = r->throughput;
    o->value[EFFICIENCY] = r->efficiency;
    o->value[IDLE] = r->idle_s;
    o->value[FAIRNESS] = r->fairness;
    for (size_t u = 0; u < f->options.n_users; u++)
        if (f->results[u].ended) {
            users++;
            o->value[USER_MAKESPAN] += (double)f->results[u].makespan / 1e9;
        }
    o->value[USER_MAKESPAN] /= users > 0 ? users : 1;
    o->value[RESPONSE] = r->response_s;
    o->value[COMPLETED] = r->completed;
    o->value[HELD] = (double)r->held;
    o->value[DIED] = (double)r->died;
    o->value[LOST] = r->lost_s;
    snprintf(o->error.text, sizeof o->error.text, "%s", r->scale.wrong);
}

static const model_option options[] = {
    { "engine", "NAME", "sim.engine", "scale, or exact: the real gateway, store and agents, message by message (scale)" },
    { "cores", "N", "cluster.cores", "of the cluster (1000)" },
    { "policy", "NAME", "fair.policy", "eq1, static, maxmin or fcfs (maxmin)" },
    { "min-agents", "N", "fair.min_agents", "that everybody gets, if there are enough cores (1)" },
    { "gap", "SPAN", "fair.gap", "the least time between two divisions (50ms)" },
    { "gamma", "G", "fair.gamma", "weights also by what each user's tasks still take, to the power of this (0)" },
    { "db", "NAME", "db.mode", "what records of tasks take: off, on or batch (off)" },
    { "launch", "SPAN", "cluster.launch", "until an agent has its first task (0)" },
    { "pull", "SPAN", "cluster.pull", "between two tasks of an agent (0)" },
    { "leave", "SPAN", "cluster.leave", "from an agent's last task until its core is free (0)" },
    { "users", "N", "workload.users", "that are drawn (without FILE 4)" },
    { "jobs-of-user", "N", "workload.jobs", "of each of them (1)" },
    { "tasks", "A[..B]", "workload.tasks", "of each job (1000)" },
    { "length", "LAW", "workload.length", "of each task: " LAW_WORDS " (60s)" },
    { "arrival", "LAW", "workload.arrival", "from one job to the next (0)" },
    { "burst", "N", "workload.burst", "jobs that come together, on average (1)" },
    { "burst-gap", "LAW", "workload.burst_gap", "from one burst to the next (exponential 1h)" },
    { "daily", "PART", "workload.daily", "by which the rate rises and falls each day (0)" },
    { "peak", "SPAN", "workload.peak", "when in the day most jobs come (14h)" },
    { "weight", "A[..B]", "workload.weight", "of each user (1)" },
    { "trace", "FILE", "workload.trace", "a log in the Standard Workload Format, a task of its users for each processor of a job" },
    { "arrivals", "HOW", "workload.arrivals", "of its jobs: log, or at_once (log)" },
    { "tick", "SPAN", "sim.tick", "in which virtual time passes (1ms)" },
    { "sample", "SPAN", "sim.sample", "between two samples of the course (auto)" },
    { NULL, NULL, NULL, NULL },
};

static const model_preset presets[] = { { "workload.users", "4" }, { NULL, NULL } };

const model fairshare_model = { .name = "fairshare", .about = "a cluster that many users share, with the policy that the gateway has", .table = table, .options = options,
                                .presets = presets, .measures = measures, .open = open_run, .resume = fairshare_resume, .run = fairshare_run, .outcome = outcome_of, .value = fairshare_value,
                                .say = fairshare_say, .plot = fairshare_plot, .close = fairshare_close };
