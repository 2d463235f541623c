/* What is told of a run of several grids: text, JSON, files of a picture. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "../../htc/chart.h"
#include "grids.h"
#include "plot.h"
#include "study.h"

static const char *const systems[] = { "mqh", "mq", "fcfsh", "fcfs" };

/* ---- the picture ---- */

static const char *name_of(const grids_run *g, size_t q)
{
    return g->report.n_queues == 1 ? "all" : q + 1 == GRIDS_SHOWN && g->report.n_queues > GRIDS_SHOWN ? "others" : g->queue_names[q];
}

/* what: 0 CPUs, 1 tasks that wait */
static chart *chart_of(const grids_run *g, int what)
{
    const grids_course *k = g->course;
    chart              *c = calloc(1, sizeof *c);
    if (!c || !k)
        return c;
    c->to = (double)g->report.scale.makespan / 1e9;
    for (size_t q = 0; q < k->queues; q++)
        (void)chart_user(c, name_of(g, q));
    for (size_t bin = 0, i = 0; bin < CHART_BINS && k->n; bin++) { /* each sample holds until the next one */
        double at = c->to * ((double)bin + 0.5) / CHART_BINS;
        while (i + 1 < k->n && k->at[i + 1] <= at)
            i++;
        for (size_t q = 0; q < k->queues && q < c->users; q++)
            c->held[q][bin] = what ? k->queued[i][q] : k->busy[i][q];
    }
    return c;
}

/* The most that a chart shows at once. */
static uint64_t top_of(const chart *c)
{
    double top = 1;
    for (size_t bin = 0; bin < CHART_BINS; bin++) {
        double sum = 0;
        for (size_t u = 0; u < c->users; u++)
            sum += c->held[u][bin];
        top = sum > top ? sum : top;
    }
    return (uint64_t)top;
}

static int write_course(const char *folder, const grids_run *g, const char *suffix)
{
    const grids_course *k = g->course;
    FILE               *out = plot_open(folder, "queues", suffix, "csv");
    if (!out)
        return -1;
    fputs("seconds,jobs", out);
    for (size_t q = 0; q < k->queues; q++)
        fprintf(out, ",%s busy,%s queued", name_of(g, q), name_of(g, q));
    fputc('\n', out);
    for (size_t i = 0; i < k->n; i++) {
        fprintf(out, "%.6f,%" PRIu64, k->at[i], k->jobs[i]);
        for (size_t q = 0; q < k->queues; q++)
            fprintf(out, ",%.0f,%.0f", k->busy[i][q], k->queued[i][q]);
        fputc('\n', out);
    }
    return plot_close(out);
}

static void write_result(FILE *out, const char *kind, const char *name, const htc_sim_grids_result *r)
{
    fprintf(out, "%s,%s,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%.6f,%.6f,%.6f,%.6f,%.6f,%.6f,%.6f,%.6f,%.6f,%.6f,%.6f,%.6f,%" PRIu64 ",%" PRIu64 "\n", kind, name, r->completed, r->rejected,
            r->terminated, r->failed, r->response_s, r->response_50_s, r->response_95_s, r->estimating_s, r->queued_s, r->grid_queued_s, r->running_s, r->moving_s, r->flow_s, r->work_s, r->evicted_s,
            r->moved_s, r->started, r->evicted);
}

static int write_results(const char *folder, const grids_run *g, const char *suffix)
{
    FILE *out = plot_open(folder, "results", suffix, "csv");
    if (!out)
        return -1;
    fputs("kind,name,completed,rejected,terminated,failed,response_s,response_50_s,response_95_s,estimating_s,queued_s,grid_queued_s,running_s,moving_s,flow_s,work_s,evicted_s,moved_s,started,evicted\n",
          out);
    for (size_t q = 0; q < g->report.n_queues; q++)
        write_result(out, "queue", name_of(g, q), &g->by_queue[q]);
    for (size_t k = 0; k < g->options.n_classes; k++)
        write_result(out, "class", g->class_names[k], &g->by_class[k]);
    return plot_close(out);
}

static int write_picture(const char *folder, const grids_run *g, const char *suffix)
{
    char   title[160];
    chart *busy = chart_of(g, 0), *queued = chart_of(g, 1);
    FILE  *out = busy && queued ? plot_open(folder, "queues", suffix, "svg") : NULL;
    int    bad = -1;
    snprintf(title, sizeof title, "CPUs by queue: system %s, seed %" PRIu64, systems[g->options.system], g->options.seed);
    if (out) {
        chart_svg(busy, title, queued, "tasks that wait, by queue", top_of(busy), 0, out);
        bad = plot_close(out);
    }
    free(busy);
    free(queued);
    return bad;
}

int grids_plot(const void *run, const char *folder, const char *suffix)
{
    const grids_run *g = run;
    return write_course(folder, g, suffix) | write_results(folder, g, suffix) | write_picture(folder, g, suffix);
}

/* ---- text and JSON ---- */

static void json_result(const char *name, const htc_sim_grids_result *r)
{
    printf("{\"name\":");
    say_text(name);
    printf(",\"completed\":%" PRIu64 ",\"rejected\":%" PRIu64 ",\"terminated\":%" PRIu64 ",\"failed\":%" PRIu64 ",\"response_s\":%.6f,\"response_50_s\":%.6f,\"response_95_s\":%.6f,\"response_max_s\":%.6f"
           ",\"estimating_s\":%.6f,\"queued_s\":%.6f,\"grid_queued_s\":%.6f,\"running_s\":%.6f,\"moving_s\":%.6f,\"flow_s\":%.6f,\"tasks\":%.6f,\"cpus\":%.6f,\"work_core_s\":%.6f"
           ",\"evicted_core_s\":%.6f,\"moved_core_s\":%.6f,\"started\":%" PRIu64 ",\"evicted\":%" PRIu64 "}",
           r->completed, r->rejected, r->terminated, r->failed, r->response_s, r->response_50_s, r->response_95_s, r->response_max_s, r->estimating_s, r->queued_s, r->grid_queued_s, r->running_s,
           r->moving_s, r->flow_s, r->tasks, r->cpus, r->work_s, r->evicted_s, r->moved_s, r->started, r->evicted);
}

/* In seconds. What runs on this machine has none. */
static double tick_of(const grids_run *g)
{
    return g->live ? 0 : g->exactly ? 1e-9 : (double)g->options.tick_ns / 1e9;
}

static void json_run(const grids_run *g)
{
    const htc_sim_grids_report *r = &g->report;
    const htc_scale_report     *s = &r->scale;
    printf("{\"system\":\"%s\",\"cpus\":%" PRIu64 ",\"seed\":%" PRIu64 ",\"tick_s\":%.9f,\"interrupted\":%s,\"jobs\":%" PRIu64 ",\"completed\":%" PRIu64 ",\"rejected\":%" PRIu64
           ",\"terminated\":%" PRIu64 ",\"failed\":%" PRIu64 ",\"moves\":%" PRIu64 ",\"tasks\":%" PRIu64 ",\"evicted\":%" PRIu64 ",\"makespan_s\":%.6f,\"work_core_s\":%.6f,\"evicted_core_s\":%.6f"
           ",\"moved_core_s\":%.6f,\"busy_core_s\":%.6f,\"held_core_s\":%.6f,\"events\":%" PRIu64 ",\"memory\":%" PRIu64 ",\"seconds\":%.3f,\"hash\":\"%016" PRIx64 "\",\"wrong\":",
           systems[g->options.system], g->cpus, g->options.seed, tick_of(g), r->interrupted ? "true" : "false", s->submitted, r->completed, r->rejected, r->terminated, r->failed, r->moves, r->tasks, r->evicted,
           (double)s->makespan / 1e9, r->work_s, r->evicted_s, r->moved_s, r->busy_s, r->held_s, s->events, r->memory, g->seconds, s->hash);
    say_text(s->wrong);
    printf(",\"queues\":[");
    for (size_t q = 0; q < r->n_queues; q++) {
        printf("%s", q ? "," : "");
        json_result(name_of(g, q), &g->by_queue[q]);
    }
    printf("],\"classes\":[");
    for (size_t k = 0; k < g->options.n_classes; k++) {
        printf("%s", k ? "," : "");
        json_result(g->class_names[k], &g->by_class[k]);
    }
    printf("]}\n");
}

static void say_head(const char *what)
{
    printf("\n%-12s %9s %8s %8s %8s %11s %11s %10s %10s %10s %11s %8s\n", what, "completed", "rejected", "ended", "failed", "response s", "95 % s", "estimate s", "queued s", "grid q. s", "running s",
           "lost");
}

static void say_result(const char *name, const htc_sim_grids_result *r)
{
    double all = r->work_s + r->evicted_s + r->moved_s;
    printf("%-12s %9" PRIu64 " %8" PRIu64 " %8" PRIu64 " %8" PRIu64 " %11.1f %11.1f %10.1f %10.1f %10.1f %11.1f %7.2f%%\n", name, r->completed, r->rejected, r->terminated, r->failed, r->response_s,
           r->response_95_s, r->estimating_s, r->queued_s, r->grid_queued_s, r->running_s, all > 0 ? 100 * (r->evicted_s + r->moved_s) / all : 0);
}

void grids_say(const void *run, int json)
{
    const grids_run            *g = run;
    const htc_sim_grids_report *r = &g->report;
    const htc_scale_report     *s = &r->scale;
    if (json) {
        json_run(g);
        return;
    }
    if (r->interrupted)
        printf("interrupted at %.1f s of virtual time; what there was until then:\n", (double)s->span / 1e9);
    printf("%" PRIu64 " job%s on %" PRIu64 " CPU%s of %zu grid%s, system %s", s->submitted, plural(s->submitted), g->cpus, plural(g->cpus), g->hierarchy.grid_count,
           plural(g->hierarchy.grid_count), systems[g->options.system]);
    if (!g->live)
        printf("; a %s %g s", g->exactly ? "message takes" : "tick is", g->exactly ? (double)g->exact.latency_ns / 1e9 : tick_of(g));
    printf("\n"
           "jobs         %" PRIu64 " completed, %" PRIu64 " rejected, %" PRIu64 " terminated with partial results, %" PRIu64 " failed; %" PRIu64 " moves\n"
           "tasks        %" PRIu64 " handed in, %" PRIu64 " of them evicted\n"
           "CPU time     %.0f h of work; %.0f h lost by evictions, %.0f h by moves, terminations and failures\n"
           "%s     %.1f s\n",
           r->completed, r->rejected, r->terminated, r->failed, r->moves, r->tasks, r->evicted, r->work_s / 3600, r->evicted_s / 3600, r->moved_s / 3600,
           r->interrupted ? "last end" : "makespan", (double)s->makespan / 1e9);
    if (g->live)
        printf("run          on this machine: a process for each task\n");
    else
        printf("run          %" PRIu64 " events in %.2f s (%.0f ns an event), %.1f MiB, hash %016" PRIx64 "\n", s->events, g->seconds,
               ns_of_each(g->seconds, s->events_here), (double)r->memory / 1048576, s->hash);
    say_head("queue");
    for (size_t q = 0; q < r->n_queues; q++)
        say_result(name_of(g, q), &g->by_queue[q]);
    say_head("class");
    for (size_t k = 0; k < g->options.n_classes; k++)
        say_result(g->class_names[k], &g->by_class[k]);
    chart *c = s->makespan && g->course && g->course->n ? chart_of(g, 0) : NULL;
    if (c) {
        printf("\nCPUs by queue:\n");
        chart_print(c, stdout, 0, top_of(c), chart_columns(stdout));
    }
    free(c);
}
