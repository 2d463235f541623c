/* What is told of a run of tasks that wait for tasks: text, JSON, files of a picture. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "../../htc/chart.h"
#include "dataflow.h"
#include "plot.h"
#include "study.h"

/* ---- the picture ---- */

static chart *chart_of(const dataflow_study *d, const char *name, const uint64_t *values)
{
    return plot_chart(name, (double)d->report.scale.makespan / 1e9, d->course->at, values, d->course->n);
}

static int write_course(const char *folder, const dataflow_study *d, const char *suffix)
{
    const dataflow_course *k = d->course;
    FILE                  *out = plot_open(folder, "utilisation", suffix, "csv");
    if (!out)
        return -1;
    fprintf(out, "seconds,cores,busy,ready,waiting,ended\n");
    for (size_t i = 0; i < k->n; i++)
        fprintf(out, "%.6f,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 "\n", k->at[i], d->report.cores, k->busy[i], k->ready[i], k->waiting[i], k->ended[i]);
    return plot_close(out);
}

static int write_picture(const char *folder, const dataflow_study *d, const char *suffix)
{
    char   title[160];
    chart *busy = chart_of(d, "busy cores", d->course->busy), *ready = chart_of(d, "ready tasks", d->course->ready);
    FILE  *out = busy && ready ? plot_open(folder, "utilisation", suffix, "svg") : NULL;
    int    bad = -1;
    snprintf(title, sizeof title, "busy cores: %s, %s, %" PRIu64 " cores, seed %" PRIu64, dataflow_systems[d->options.system], dataflow_shapes[d->options.shape], d->report.cores,
             d->options.seed);
    if (out) {
        chart_svg(busy, title, ready, "tasks that are ready", d->report.cores, 0, out);
        bad = plot_close(out);
    }
    free(busy);
    free(ready);
    return bad;
}

int dataflow_plot(const void *run, const char *folder, const char *suffix)
{
    return write_course(folder, run, suffix) | write_picture(folder, run, suffix);
}

/* ---- text and JSON ---- */

static void json_run(const dataflow_study *d)
{
    const htc_sim_dataflow_report *r = &d->report;
    const htc_scale_report        *s = &r->scale;
    outcome                        o = { 0 };
    dataflow_model.outcome(d, &o);
    printf("{\"system\":\"%s\",\"shape\":\"%s\",\"policy\":\"%s\",\"nodes\":%" PRIu64 ",\"cores\":%" PRIu64 ",\"seed\":%" PRIu64 ",\"tick_s\":%.9f,\"interrupted\":%s,\"tasks\":%" PRIu64
           ",\"edges\":%" PRIu64 ",\"ended\":%" PRIu64 ",\"ideal_s\":%.6f,\"bound_s\":%.6f,\"read_bytes\":%" PRIu64 ",\"local_bytes\":%" PRIu64 ",\"cached_bytes\":%" PRIu64
           ",\"moved_bytes\":%" PRIu64 ",\"nudges\":%" PRIu64 ",\"messages\":%" PRIu64 ",\"events\":%" PRIu64,
           dataflow_systems[d->options.system], dataflow_shapes[d->options.shape], d->locality.policy->name, d->options.nodes, r->cores, d->options.seed, (double)d->options.tick_ns / 1e9, r->interrupted ? "true" : "false",
           r->tasks, r->edges, s->ended, r->ideal_s, d->bound_s, r->read_bytes, r->local_bytes, r->cached_bytes, r->moved_bytes, r->nudges, s->sent, s->events);
    for (size_t i = 0; dataflow_model.measures[i].name; i++)
        printf(",\"%s\":%.*f", dataflow_model.measures[i].name, dataflow_model.measures[i].digits + 2, o.value[i]);
    printf(",\"memory\":%" PRIu64 ",\"hash\":\"%016" PRIx64 "\",\"wrong\":", r->memory, s->hash);
    say_text(s->wrong);
    printf("}\n");
}

static void say_workers(const dataflow_study *d)
{
    const htc_sim_dataflow_report *r = &d->report;
    printf("placing      %s: %" PRIu64 " tasks went to their data, %" PRIu64 " became anybody's\n"
           "stealing     %s: %" PRIu64 " rounds, of which %" PRIu64 " brought %" PRIu64 " tasks; %" PRIu64 " nudges\n",
           d->locality.policy->name, r->pushed, r->freed, d->steal.policy->name, r->rounds, r->steals, r->stolen, r->nudges);
}

static void say_data(const dataflow_study *d)
{
    const htc_sim_dataflow_report *r = &d->report;
    double                         all = (double)r->read_bytes;
    printf("data         %.1f MB were read: %.2f %% where they were made, %.2f %% from a cache, %.1f MB were moved\n", all / 1e6, 100 * (double)r->local_bytes / all,
           100 * (double)r->cached_bytes / all, (double)r->moved_bytes / 1e6);
}

void dataflow_say(const void *run, int json)
{
    const dataflow_study          *d = run;
    const htc_sim_dataflow_report *r = &d->report;
    const htc_scale_report        *s = &r->scale;
    if (json) {
        json_run(d);
        return;
    }
    if (r->interrupted)
        printf("interrupted at %.1f s of virtual time; what there was until then:\n", (double)s->span / 1e9);
    printf("%" PRIu64 " task%s with %" PRIu64 " dependenc%s, %s, on %" PRIu64 " node%s with %" PRIu64 " core%s, %s; a tick is %g s\n", r->tasks, plural(r->tasks), r->edges,
           r->edges == 1 ? "y" : "ies", dataflow_shapes[d->options.shape], d->options.nodes, plural(d->options.nodes), r->cores, plural(r->cores), dataflow_systems[d->options.system], (double)d->options.tick_ns / 1e9);
    if (d->copy_in_s > 0)
        printf("files        %.3f s until they are where they lie\n", d->copy_in_s);
    if (r->interrupted)
        printf("last end     %.3f s%s, of %" PRIu64 " task%s\n", (double)s->makespan / 1e9, d->copy_in_s > 0 ? " from then on" : "", s->ended, plural(s->ended));
    else
        printf("makespan     %.3f s%s; an ideal machine takes %.3f s\n", (double)s->makespan / 1e9, d->copy_in_s > 0 ? " from then on" : "", r->ideal_s);
    if (d->bound_s > 0)
        printf("bound        %.3f s, with waits of %" PRIu64 " task%s a core\n", d->bound_s, d->bound_k, plural(d->bound_k));
    printf("throughput   %.2f tasks a second\nefficiency   ", r->throughput);
    if (!r->interrupted)
        printf("%.4f of the ideal; ", r->efficiency);
    printf("%.4f of the cores' time was work\n"
           "turnaround   %.3f s from when a task could begin to its end\n",
           r->utilisation, r->turnaround_s);
    if (r->read_bytes)
        say_data(d);
    if (d->options.system == HTC_SIM_DATAFLOW_WORKERS)
        say_workers(d);
    printf("run          %" PRIu64 " events, %" PRIu64 " messages in %.2f s (%.0f ns a task), %.1f MiB, hash %016" PRIx64 "\n", s->events, s->sent, d->seconds,
           ns_of_each(d->seconds, s->ended_here), (double)r->memory / 1048576, s->hash);
    chart *c = s->makespan ? chart_of(d, "busy cores", d->course->busy) : NULL;
    if (c) {
        printf("\nbusy cores:\n");
        chart_print(c, stdout, 0, r->cores, chart_columns(stdout));
    }
    free(c);
}
