/* What is told of a run of many tasks: text, JSON, files of a picture. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "../../htc/chart.h"
#include "manytask.h"
#include "plot.h"
#include "study.h"

/* ---- the picture ---- */

static chart *chart_of(const many_study *m, const many_course *k, const char *name, const uint64_t *values)
{
    return plot_chart(name, (double)m->report.scale.makespan / 1e9, k->at, values, k->n);
}

static int write_course(const char *folder, const many_study *m, const many_course *k, const char *suffix)
{
    FILE *out = plot_open(folder, "utilisation", suffix, "csv");
    if (!out)
        return -1;
    fprintf(out, "seconds,cores,busy,queued,ended,tasks_per_s%s\n", m->options.tiles ? ",nodes_at_work" : "");
    for (size_t i = 0; i < k->n; i++) {
        double span = i ? k->at[i] - k->at[i - 1] : 0;
        fprintf(out, "%.6f,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%.6f", k->at[i], m->report.cores, k->busy[i], k->queued[i], k->ended[i],
                span > 0 ? (double)(k->ended[i] - k->ended[i - 1]) / span : 0);
        fprintf(out, m->options.tiles ? ",%" PRIu64 "\n" : "\n", k->working[i]);
    }
    return plot_close(out);
}

static int write_picture(const char *folder, const many_study *m, const many_course *k, const char *suffix)
{
    char   title[160];
    chart *busy = chart_of(m, k, "busy cores", k->busy), *queued = chart_of(m, k, "waiting tasks", k->queued);
    FILE  *out = busy && queued ? plot_open(folder, "utilisation", suffix, "svg") : NULL;
    int    bad = -1;
    snprintf(title, sizeof title, "busy cores: %s, %" PRIu64 " nodes, %" PRIu64 " cores, seed %" PRIu64, many_architectures[m->architecture], m->report.nodes, m->report.cores, m->options.seed);
    if (out) {
        chart_svg(busy, title, queued, "tasks that wait", m->report.cores, 0, out);
        bad = plot_close(out);
    }
    free(busy);
    free(queued);
    return bad;
}

int many_plot(const void *run, const char *folder, const char *suffix)
{
    const many_study *m = run;
    many_course      *k = many_course_of_all(m);
    int               bad = k ? write_course(folder, m, k, suffix) | write_picture(folder, m, k, suffix) : -1;
    free(k);
    return bad | (m->course->frames ? many_tiles_plot(m, folder, suffix) : 0);
}

/* ---- text and JSON ---- */

static void json_run(const many_study *m)
{
    const htc_sim_manytask_report *r = &m->report;
    const htc_scale_report        *s = &r->scale;
    printf("{\"architecture\":\"%s\",\"grids\":%" PRIu32 ",\"nodes\":%" PRIu64 ",\"cores\":%" PRIu64 ",\"seed\":%" PRIu64 ",\"tick_s\":%.9f,\"interrupted\":%s,\"tasks\":%" PRIu64 ",\"ended\":%" PRIu64
           ",\"makespan_s\":%.6f,\"bound_s\":%.6f,\"work_core_s\":%.6f,\"busy_core_s\":%.6f,\"throughput\":%.6f,\"efficiency\":%.6f,\"utilisation\":%.6f,\"cv\":%.6f,\"rounds\":%" PRIu64
           ",\"steals\":%" PRIu64 ",\"stolen\":%" PRIu64 ",\"nudges\":%" PRIu64 ",\"messages\":%" PRIu64 ",\"starved\":%.6f,\"balanced_s\":%.6f,\"events\":%" PRIu64 ",\"memory\":%" PRIu64
           ",\"seconds\":%.3f,\"hash\":\"%016" PRIx64 "\",\"wrong\":",
           many_architectures[m->architecture], m->options.grids, r->nodes, r->cores, m->options.seed, (double)m->options.tick_ns / 1e9, r->interrupted ? "true" : "false", s->submitted, s->ended, (double)s->makespan / 1e9, s->bound_s,
           s->work_s, s->busy_s, r->throughput, r->efficiency, r->utilisation, r->cv, r->rounds, r->steals, r->stolen, r->nudges, s->sent,
           m->course->waited ? m->course->starved / (double)m->course->waited : 0, many_balanced_s(m), s->events, r->memory, m->seconds, s->hash);
    say_text(s->wrong);
    printf("}\n");
}

static void say_stealing(const many_study *m)
{
    const htc_sim_manytask_report *r = &m->report;
    printf("stealing     %s: %" PRIu64 " rounds, of which %" PRIu64 " brought %" PRIu64 " tasks; %" PRIu64 " nudges\n", m->steal.policy->name, r->rounds, r->steals, r->stolen, r->nudges);
}

void many_say(const void *run, int json)
{
    const many_study              *m = run;
    const htc_sim_manytask_report *r = &m->report;
    const htc_scale_report        *s = &r->scale;
    if (json) {
        json_run(m);
        return;
    }
    if (r->interrupted)
        printf("interrupted at %.1f s of virtual time; what there was until then:\n", (double)s->span / 1e9);
    if (m->options.grids > 1)
        printf("%" PRIu32 " grids side by side, all together: ", m->options.grids);
    printf("%" PRIu64 " task%s on %" PRIu64 " node%s with %" PRIu64 " core%s, %s; a tick is %g s\n", s->submitted, plural(s->submitted), r->nodes, plural(r->nodes), r->cores, plural(r->cores), many_architectures[m->architecture],
           (double)m->options.tick_ns / 1e9);
    if (r->interrupted)
        printf("last end     %.3f s, of %" PRIu64 " task%s\n", (double)s->makespan / 1e9, s->ended, plural(s->ended));
    else
        printf("makespan     %.3f s, no less than %.3f s is possible\n", (double)s->makespan / 1e9, s->bound_s);
    printf("throughput   %.2f tasks a second\nefficiency   ", r->throughput);
    if (!r->interrupted)
        printf("%.4f of the ideal; ", r->efficiency);
    printf("%.4f of the cores' time was work\n"
           "tasks        of a node: coefficient of variation %.4f\n",
           r->utilisation, r->cv);
    if (m->options.architecture == HTC_SIM_MANYTASK_DISTRIBUTED)
        say_stealing(m);
    printf("run          %" PRIu64 " events, %" PRIu64 " messages in %.2f s (%.0f ns a task), %.1f MiB, hash %016" PRIx64 "\n", s->events, s->sent, m->seconds,
           ns_of_each(m->seconds, s->ended_here), (double)r->memory / 1048576, s->hash);
    many_course *k = s->makespan ? many_course_of_all(m) : NULL;
    chart       *c = k ? chart_of(m, k, "busy cores", k->busy) : NULL;
    if (c) {
        printf("\nbusy cores:\n");
        chart_print(c, stdout, 0, r->cores, chart_columns(stdout));
    }
    free(c);
    free(k);
}
