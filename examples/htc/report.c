/* report: what jobs took: makespans, efficiency, slots held over time. Every figure comes from the gateway's records.
 */
#include "chart.h"
#include "htc.h"
#include "report_swf.h"
#include "report_usage.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct totals {
    double   first, last; /* first submission, last end */
    double   sum_makespan, cpu_s, core_s; /* core_s: a task's run time, once for each of its cores */
    uint64_t tasks, taken, slots, cores; /* taken: cores of all tasks */
    int      durable; /* 0: db.mode is off */
    swf_log *log; /* NULL: not wanted */
    chart    chart;
} totals;

static double wall_s(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static htc_status gather_jobs(cli *c, const words *w, json_t *jobs)
{
    json_t    *answer;
    selection  sel;
    htc_status s = HTC_OK;
    size_t     n = w->count ? w->count : 1;
    for (size_t i = 0; i < n && s == HTC_OK; i++) {
        int more = (s = selection_settle(c, w->count ? w->at[i] : "all", &sel)) == HTC_OK;
        while (more && (s = api_ask(c, selection_request(&sel, "status"), 0, 30, &answer)) == HTC_OK) {
            json_array_extend(jobs, json_object_get(answer, "jobs"));
            more = selection_next(&sel, answer);
            json_decref(answer);
        }
        selection_free(&sel);
    }
    return s;
}

/* Results of one job, a page at a time, into the totals and the job's own line. */
static htc_status gather_results(cli *c, totals *t, json_t *job, json_t *line)
{
    uint64_t    from = 0;
    int         more = 1;
    double      cpu = 0, run = 0, last = 0;
    json_int_t  done = 0, failed = 0, cancelled = 0;
    size_t      user = chart_user(&t->chart, j_str(job, "user"));
    const char *id = json_string_value(json_object_get(line, "selector"));
    while (more) {
        json_t    *answer, *r;
        size_t     i;
        htc_status s = api_ask(c, json_pack("{s:s, s:s, s:I, s:b}", "op", "results", "id", id, "from", (json_int_t)from, "cores", 1), 0,
                               30, &answer);
        if (s != HTC_OK)
            return s;
        json_array_foreach(json_object_get(answer, "results"), i, r)
        {
            double started = j_num(r, "started"), ended = j_num(r, "ended"), cores = fmax(j_num(r, "cores"), 1);
            if (t->log)
                swf_log_add(t->log, job, r);
            if (strcmp(j_str(r, "status"), "HTC_OK") == 0)
                done++;
            else if (strcmp(j_str(r, "status"), "HTC_ECANCELLED") == 0)
                cancelled++; /* while it ran */
            else
                failed++;
            cpu += j_num(r, "cpu_s");
            t->taken += (uint64_t)cores;
            if (started > 0 && ended >= started) {
                run += ended - started;
                t->core_s += cores * (ended - started);
                chart_add(&t->chart, user, started, ended, cores);
            }
            last = fmax(last, ended);
        }
        json_t *next = json_object_get(answer, "next");
        more = json_is_integer(next);
        from = (uint64_t)json_integer_value(next);
        json_decref(answer);
    }
    double submitted = j_num(job, "submitted"), makespan = last > submitted ? last - submitted : 0;
    t->cpu_s += cpu;
    t->tasks += (uint64_t)(done + failed + cancelled);
    t->sum_makespan += makespan;
    t->last = fmax(t->last, last);
    json_object_set_new(line, "done", json_integer(done));
    json_object_set_new(line, "failed", json_integer(failed));
    json_object_set_new(line, "cancelled", json_integer((json_int_t)j_u64(json_object_get(job, "tasks"), "cancelled")));
    json_object_set_new(line, "cpu_s", json_real(cpu));
    json_object_set_new(line, "run_s", json_real(run));
    json_object_set_new(line, "ended", json_real(last));
    json_object_set_new(line, "makespan_s", json_real(makespan));
    return HTC_OK;
}

static json_t *chart_json(const chart *ch)
{
    json_t *users = json_array();
    for (size_t u = 0; u < ch->users; u++) {
        json_t *held = json_array();
        for (size_t b = 0; b < CHART_BINS; b++)
            json_array_append_new(held, json_real(round(ch->held[u][b] * 1000) / 1000));
        json_array_append_new(users, json_pack("{s:s, s:o}", "user", ch->name[u], "held", held));
    }
    return json_pack("{s:f, s:f, s:o}", "from", ch->from, "to", ch->to, "users", users);
}

/* Equation 2: NT * PTE / NCU over the makespan. Slots that share cores slow each other down, so that only CPU seconds
 * and the cores there are mean something then. */
static json_t *totals_json(const totals *t)
{
    int      shared = t->slots > t->cores;
    double   pte = t->tasks ? (shared ? t->cpu_s : t->core_s) / (double)t->tasks : 0;
    uint64_t ncu = shared ? t->cores : t->slots;
    double   makespan = t->last > t->first ? t->last - t->first : 0;
    double   rounds = ncu ? (double)t->taken / (double)ncu : 0;
    return json_pack("{s:f, s:f, s:f, s:f, s:I, s:f, s:I, s:I, s:b, s:I, s:f, s:f, s:f}", "first_submitted", t->first,
                     "last_end", t->last, "last_end_s", makespan, "sum_makespan_s", t->sum_makespan, "tasks",
                     (json_int_t)t->tasks, "cpu_s", t->cpu_s, "slots", (json_int_t)t->slots, "cores",
                     (json_int_t)t->cores, "shared_cores", shared, "ncu", (json_int_t)ncu, "pte_s", pte, "efficiency",
                     makespan > 0 && ncu ? (double)t->tasks * pte / (double)ncu / makespan : 0.0, "efficiency_bound",
                     rounds > 0 ? rounds / ceil(rounds) : 0.0);
}

static void print_report(cli *c, const json_t *lines, const json_t *total, const totals *t)
{
    table   tab;
    size_t  i;
    json_t *l;
    table_begin(&tab, ">ID", "USER", "NAME", ">TASKS", ">FAILED", "SUBMITTED", "ENDED", ">MAKESPAN", ">CPU TIME", NULL);
    json_array_foreach(lines, i, l) table_row(
        &tab, "%s\t%s\t%s\t%" PRIu64 "\t%" PRIu64 "\t%s\t%s\t%s\t%s", j_str(l, "selector"), j_str(l, "user"),
        j_str(l, "name"), j_u64(l, "count"), j_u64(l, "failed"), show_clock(j_num(l, "submitted")).s,
        show_clock(j_num(l, "ended")).s, show_seconds(j_num(l, "makespan_s")).s, show_seconds(j_num(l, "cpu_s")).s);
    table_end(c, &tab);
    json_array_foreach(lines, i, l)
    {
        char *reason = must_dup(j_str(l, "reason"));
        htc_text_show(reason);
        if (reason[0])
            printf("job %s was cancelled: %s\n", j_str(l, "selector"), reason);
        free(reason);
    }
    printf(
        "\nlast end %.1f s after the first submission; makespans together %.1f s; efficiency %.1f%% (bound %.1f%%)\n",
        j_num(total, "last_end_s"), j_num(total, "sum_makespan_s"), 100 * j_num(total, "efficiency"),
        100 * j_num(total, "efficiency_bound"));
    printf("%" PRIu64 " task%s, %.2f s each in %s, on %" PRIu64 " core%s\n", j_u64(total, "tasks"), plural(j_u64(total, "tasks")),
           j_num(total, "pte_s"), j_bool(total, "shared_cores") ? "CPU time (slots share cores)" : "run time of all its cores",
           j_u64(total, "ncu"), plural(j_u64(total, "ncu")));
    report_mode(t->durable);
    printf("\nslots held by each user\n");
    chart_print(&t->chart, stdout, c->colour, t->slots ? t->slots : 1, chart_columns(stdout));
}

static htc_status write_svg(cli *c, const totals *t, const char *path)
{
    out_file   out;
    htc_status s = out_open(c, &out, path, 0666);
    if (s == HTC_OK)
        chart_svg(&t->chart, "slots held by each user", NULL, NULL, t->slots, 0, out.f);
    return out_close(c, &out, s);
}

static htc_status count_slots(cli *c, totals *t)
{
    json_t    *answer;
    cpu_set_t  set;
    htc_status s = api_ask(c, json_pack("{s:s}", "op", "agents"), 0, 30, &answer);
    if (s != HTC_OK)
        return s;
    t->slots = j_u64(answer, "slots");
    t->durable = !json_is_false(json_object_get(answer, "durable"));
    t->cores = sched_getaffinity(0, sizeof set, &set) == 0 ? (uint64_t)CPU_COUNT(&set) : 1;
    json_decref(answer);
    return HTC_OK;
}

static htc_status check_export(cli *c, const char *format, const char *svg)
{
    if (strcmp(format, "swf") != 0)
        return cli_error(c, HTC_EUSAGE, "--export", "htc report --export swf > log.swf", "there is no such form of a log");
    if (c->json || (svg && out_is_stdout(svg)))
        return cli_error(c, HTC_EUSAGE, c->json ? "--json" : "--svg", "leave one of them out, or give --svg a file", "two things cannot go to standard output");
    return HTC_OK;
}

htc_status run_report(cli *c, int argc, char **argv)
{
    const char    *svg = NULL, *export = NULL;
    swf_log        log = { 0 };
    usage_asked    usage = { 0 };
    words          w;
    const opt      opts[] = { { "svg", 0, OPT_TEXT, &svg, "FILE", "write the chart of slots held as a picture; - is standard output" },
                              { "export", 0, OPT_TEXT, &export, "swf", "print each task that has ended as a line of a log in the Standard Workload Format" },
                              { "by", 0, OPT_TEXT, &usage.by, "LIST", "what was used: by user, site, project and day, separated by commas (user)" },
                              { "since", 0, OPT_TEXT, &usage.since, "TIME", "from that day on: 2026-01-31, or how long ago: 7d" },
                              { "until", 0, OPT_TEXT, &usage.until, "TIME", "before that day" },
                              { "project", 0, OPT_TEXT, &usage.project, "NAME", "of one project alone" },
                              { "csv", 0, OPT_FLAG, &usage.csv, NULL, "comma-separated values" } };
    const command *cmd = find_command("report");
    int            by_usage;
    totals        *t = must(calloc(1, sizeof *t));
    json_t        *jobs = json_array(), *lines = json_array(), *job;
    size_t         i;
    htc_status     s = opt_parse(c, cmd, argc, argv, opts, sizeof opts / sizeof *opts, &w);
    by_usage = s == HTC_OK && (usage.by || usage.since || usage.until || usage.project || usage.csv);
    if (by_usage) {
        s = svg || export ? cli_error(c, HTC_EUSAGE, "report", "leave one of them out", "--svg and --export are of jobs, --by, --since, --until, --project and --csv of usage") : want_words(c, cmd, &w, 0, 0);
        s = s == HTC_OK ? report_usage(c, &usage) : s;
        json_decref(jobs);
        json_decref(lines);
        words_free(&w);
        free(t);
        return s;
    }
    if (s == HTC_OK && export)
        s = check_export(c, export, svg);
    t->log = export ? &log : NULL;
    if (s == HTC_OK)
        s = gather_jobs(c, &w, jobs);
    if (s == HTC_OK)
        s = count_slots(c, t);
    double from = HUGE_VAL, to = 0;
    json_array_foreach(jobs, i, job)
    {
        double ended = j_num(job, "ended");
        from = fmin(from, j_num(job, "submitted"));
        to = fmax(to, ended > 0 ? ended : wall_s());
    }
    t->first = json_array_size(jobs) ? from : 0;
    t->chart.from = t->first;
    t->chart.to = to;
    for (i = json_array_size(jobs); s == HTC_OK && i-- > 0;) { /* oldest first */
        char selector[32];
        job = json_array_get(jobs, i);
        snprintf(selector, sizeof selector, "%" PRIu64, j_u64(job, "id"));
        json_t *line =
            json_pack("{s:I, s:s, s:s, s:s, s:s, s:I, s:f, s:s}", "id", (json_int_t)j_u64(job, "id"), "selector", selector,
                      "user", j_str(job, "user"), "name", j_str(job, "name"), "state", j_str(job, "state"), "count",
                      (json_int_t)j_u64(job, "count"), "submitted", j_num(job, "submitted"), "reason", j_str(job, "reason"));
        s = gather_results(c, t, job, line);
        if (s == HTC_ENOTFOUND) { /* removed meanwhile: it is no part of the report */
            json_decref(line);
            s = HTC_OK;
        } else
            json_array_append_new(lines, line);
    }
    if (s == HTC_OK && json_array_size(jobs) == 0)
        s = cli_error(c, HTC_ENOTFOUND, "report", "htc submit -- COMMAND...", "there are no jobs to report on");
    if (s == HTC_OK && svg)
        s = write_svg(c, t, svg);
    log.slots = t->slots;
    if (s == HTC_OK && export) {
        s = swf_log_write(c, &log);
    } else if (s == HTC_OK) {
        json_t *total = totals_json(t);
        if (c->json) {
            json_t *o = json_pack("{s:O, s:O, s:o, s:b}", "jobs", lines, "total", total, "chart", chart_json(&t->chart), "durable", t->durable);
            put_json(c, o);
            json_decref(o);
        } else if (!svg || !out_is_stdout(svg))
            print_report(c, lines, total, t);
        json_decref(total);
    }
    json_decref(jobs);
    json_decref(lines);
    words_free(&w);
    swf_log_free(&log);
    free(t);
    return s;
}
