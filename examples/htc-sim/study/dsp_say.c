/* What is told of a run of service provision: text, JSON, files of a picture. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "../../htc/chart.h"
#include "dsp.h"
#include "plot.h"
#include "study.h"

/* ---- the picture ---- */

static const char *name_of(const dsp_study *d, size_t i)
{
    return i + 1 == DSP_SHOWN && d->options.n_environments > DSP_SHOWN ? "others" : d->work[i].name;
}

/* Each sample holds until the next one. cost: what was charged; else nodes held by each environment. */
static chart *chart_of(const dsp_study *d, int cost)
{
    const dsp_course *k = d->course;
    chart            *c = k ? calloc(1, sizeof *c) : NULL;
    if (!c)
        return NULL;
    c->to = (double)d->report.scale.span / 1e9;
    for (size_t i = 0; i < (cost ? 1 : k->shown); i++)
        (void)chart_user(c, cost ? "all" : name_of(d, i));
    for (size_t bin = 0, i = 0; bin < CHART_BINS && k->n; bin++) {
        double at = c->to * ((double)bin + 0.5) / CHART_BINS;
        while (i + 1 < k->n && k->at[i + 1] <= at)
            i++;
        for (size_t u = 0; u < c->users; u++)
            c->held[u][bin] = cost ? (d->options.price > 0 ? k->cost[i] : k->units[i]) : k->held[i][u];
    }
    return c;
}

static uint64_t top_of(const chart *c)
{
    double top = 1;
    for (size_t bin = 0; bin < CHART_BINS; bin++) {
        double sum = 0;
        for (size_t u = 0; u < c->users; u++)
            sum += c->held[u][bin];
        top = sum > top ? sum : top;
    }
    return (uint64_t)(top + 0.999);
}

static int write_picture(const char *folder, const dsp_study *d, const char *suffix, int cost)
{
    char   title[160];
    chart *c = chart_of(d, cost);
    FILE  *out = c ? plot_open(folder, cost ? "cost" : "nodes", suffix, "svg") : NULL;
    int    bad = -1;
    if (cost)
        snprintf(title, sizeof title, d->options.price > 0 ? "cost: system %s, %g for a node and unit" : "node-units charged: system %s", dsp_systems[d->options.system], d->options.price);
    else
        snprintf(title, sizeof title, "nodes held: system %s, peak %" PRIu64, dsp_systems[d->options.system], d->report.peak);
    if (out) {
        chart_svg(c, title, NULL, NULL, top_of(c), 0, out);
        bad = plot_close(out);
    }
    free(c);
    return bad;
}

static int write_course(const char *folder, const dsp_study *d, const char *suffix)
{
    const dsp_course *k = d->course;
    FILE             *out = plot_open(folder, "nodes", suffix, "csv");
    if (!out)
        return -1;
    fputs("seconds,node_units,cost,busy,waiting", out);
    for (size_t i = 0; i < k->shown; i++)
        fprintf(out, ",%s", name_of(d, i));
    fputc('\n', out);
    for (size_t j = 0; j < k->n; j++) {
        fprintf(out, "%.3f,%.0f,%.2f,%.0f,%.0f", k->at[j], k->units[j], k->cost[j], k->busy[j], k->waiting[j]);
        for (size_t i = 0; i < k->shown; i++)
            fprintf(out, ",%.0f", k->held[j][i]);
        fputc('\n', out);
    }
    return plot_close(out);
}

static int write_environments(const char *folder, const dsp_study *d, const char *suffix)
{
    FILE *out = plot_open(folder, "environments", suffix, "csv");
    if (!out)
        return -1;
    fputs("environment,submitted,completed,node_units,dcs_node_units,peak,busy_peak,granted,returned,requests,rejected,wait_s,rate,held_s,busy_s\n", out);
    for (size_t i = 0; i < d->options.n_environments; i++) {
        const htc_sim_provision_result *r = &d->result[i];
        fprintf(out, "%s,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%.0f,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%.3f,%.6f,%.3f,%.3f\n", d->work[i].name,
                r->submitted, r->completed, r->node_units, d->dedicated[i], r->peak, r->busy_peak, r->granted, r->returned, r->requests, r->rejected, r->wait_s, r->rate, r->held_s, r->busy_s);
    }
    return plot_close(out);
}

int dsp_plot(const void *run, const char *folder, const char *suffix)
{
    const dsp_study *d = run;
    return write_course(folder, d, suffix) | write_environments(folder, d, suffix) | write_picture(folder, d, suffix, 0) | write_picture(folder, d, suffix, 1);
}

/* ---- text and JSON ---- */

static double saved(double units, double dedicated)
{
    return dedicated > 0 ? 1 - units / dedicated : 0;
}

static void json_run(const dsp_study *d)
{
    const htc_sim_provision_report *r = &d->report;
    const htc_scale_report         *s = &r->scale;
    printf("{\"system\":\"%s\",\"provider_nodes\":%" PRIu64 ",\"tick_s\":%.9f,\"interrupted\":%s,\"submitted\":%" PRIu64 ",\"completed\":%" PRIu64 ",\"unfinished\":%" PRIu64 ",\"refused\":%" PRIu64
           ",\"node_units\":%" PRIu64 ",\"dcs_node_units\":%.0f,\"saved\":%.6f,\"cost\":%.2f,\"peak\":%" PRIu64 ",\"peak_of_hour\":%" PRIu64 ",\"busy_peak\":%" PRIu64
           ",\"granted\":%" PRIu64 ",\"returned\":%" PRIu64 ",\"setup_s\":%.3f,\"requests\":%" PRIu64 ",\"rejected\":%" PRIu64 ",\"scans\":%" PRIu64
           ",\"held_node_s\":%.3f,\"busy_node_s\":%.3f,\"span_s\":%.3f,\"events\":%" PRIu64 ",\"memory\":%" PRIu64 ",\"seconds\":%.3f,\"hash\":\"%016" PRIx64 "\",\"wrong\":",
           dsp_systems[d->options.system], d->options.capacity, d->exactly ? 1e-9 : (double)d->options.tick_ns / 1e9, dsp_is_done(d) ? "false" : "true", r->submitted, r->completed, r->unfinished, r->refused, r->node_units, d->dedicated_all,
           saved((double)r->node_units, d->dedicated_all), r->cost, r->peak, d->hour_peak, r->busy_peak, r->granted, r->returned, (double)r->setup_ns / 1e9, r->requests, r->rejected, r->scans,
           r->held_s, r->busy_s, (double)s->span / 1e9, s->events, r->memory, d->seconds, s->hash);
    say_text(s->wrong);
    printf(",\"environments\":[");
    for (size_t i = 0; i < d->options.n_environments; i++) {
        const htc_sim_provision_result *x = &d->result[i];
        printf("%s{\"name\":", i ? "," : "");
        say_text(d->work[i].name);
        printf(",\"submitted\":%" PRIu64 ",\"completed\":%" PRIu64 ",\"unfinished\":%" PRIu64 ",\"skipped\":%" PRIu64 ",\"bad_lines\":%" PRIu64 ",\"node_units\":%" PRIu64
               ",\"dcs_node_units\":%.0f,\"saved\":%.6f,\"peak\":%" PRIu64 ",\"busy_peak\":%" PRIu64 ",\"granted\":%" PRIu64 ",\"returned\":%" PRIu64 ",\"requests\":%" PRIu64
               ",\"rejected\":%" PRIu64 ",\"starved\":%s,\"wait_s\":%.3f,\"jobs_per_s\":%.6f,\"held_node_s\":%.3f,\"busy_node_s\":%.3f}",
               x->submitted, x->completed, x->unfinished, d->work[i].log.skipped, d->work[i].log.bad, x->node_units, d->dedicated[i], saved((double)x->node_units, d->dedicated[i]), x->peak,
               x->busy_peak, x->granted, x->returned, x->requests, x->rejected, x->starved ? "true" : "false", x->wait_s, x->rate, x->held_s, x->busy_s);
    }
    printf("]}\n");
}

/* How busy a log is, and when its jobs come. */
static void say_log(const dsp_study *d, size_t i)
{
    const htc_sim_provision_environment *e = &d->environment[i];
    const trace                         *t = &d->work[i].log;
    size_t                               weeks = e->period_ns ? (size_t)((e->period_ns - 1) / (604800 * HTC_SECOND)) + 1 : TRACE_WEEKS;
    if (!t->file[0])
        return;
    printf("%s:", d->work[i].name);
    if (e->period_ns)
        printf(" the jobs that ran are %.1f %% of %" PRIu64 " nodes' time;", 100 * d->result[i].busy_s / ((double)e->nodes * (double)e->period_ns / 1e9), e->nodes);
    fputs(" submitted in its weeks:", stdout);
    for (size_t w = 0; w < weeks && w < TRACE_WEEKS; w++)
        printf(" %" PRIu64, t->week[w]);
    if (weeks > TRACE_WEEKS)
        fputs(" ...", stdout);
    fputc('\n', stdout);
}

static void say_environments(const dsp_study *d)
{
    printf("\n%-16s %9s %9s %12s %8s %8s %10s %10s %10s\n", "environment", "jobs", "completed", "node-hours", "saved", "peak", "adjusted", "wait s", "jobs/s");
    for (size_t i = 0; i < d->options.n_environments; i++) {
        const htc_sim_provision_result *r = &d->result[i];
        double                          units = (double)r->node_units;
        printf("%-16s %9" PRIu64 " %9" PRIu64, d->work[i].name, r->submitted, r->completed);
        if (d->options.shared)
            printf(" %12s %8s", "-", "-"); /* one book for all */
        else
            printf(" %12.0f %7.1f%%", units * (double)d->every / 3600e9, 100 * saved(units, d->dedicated[i]));
        printf(" %8" PRIu64 " %10" PRIu64 " %10.1f %10.3f\n", r->peak, r->granted + r->returned, r->wait_s, r->rate);
    }
    for (size_t i = 0; i < d->options.n_environments; i++) {
        const trace *w = &d->work[i].log;
        say_log(d, i);
        if (w->skipped || w->bad)
            printf("%s: %" PRIu64 " jobs of the log without a size or run time, or not wanted, and %" PRIu64 " broken lines were passed over\n", d->work[i].name, w->skipped, w->bad);
        if (d->result[i].starved)
            printf("%s: ten requests in a row were rejected; provider.grant = partial gives what there is\n", d->work[i].name);
    }
}

void dsp_say(const void *run, int json)
{
    const dsp_study                *d = run;
    const htc_sim_provision_report *r = &d->report;
    const htc_scale_report         *s = &r->scale;
    double                          hour = (double)d->every / 3600e9, span = (double)s->span / 3600e9;
    if (json) {
        json_run(d);
        return;
    }
    if (d->has_ended && !dsp_is_done(d))
        printf("interrupted while dedicated clusters were run to be compared with; of them %u of %zu are known\n", d->compared, d->options.n_environments);
    else if (!d->has_ended)
        printf("interrupted at %.1f h of virtual time; what there was until then:\n", span);
    printf("%zu environment%s, system %s, %.1f h, %" PRIu64 " job%s, of which %" PRIu64 " %s completed; a %s %g s\n"
           "consumption  %.0f node-hours; dedicated clusters: %.0f, so %.1f %% are saved\n"
           "cost         %.2f\n"
           "peak         %" PRIu64 " nodes at one time, %" PRIu64 " charged in one lease unit; jobs ran on %" PRIu64 "\n"
           "adjustments  %" PRIu64 " nodes granted, %" PRIu64 " returned, %.1f s of setup an hour; %" PRIu64 " of %" PRIu64 " requests were rejected\n"
           "utilisation  %.4f of the time of nodes that were held\n"
           "run          %" PRIu64 " events in %.2f s, at most %.1f MiB, hash %016" PRIx64 "\n",
           d->options.n_environments, plural(d->options.n_environments), dsp_systems[d->options.system], span, r->submitted, plural(r->submitted), r->completed,
           r->completed == 1 ? "has" : "have", d->exactly ? "message takes" : "tick is", (double)(d->exactly ? d->exact.latency_ns : d->options.tick_ns) / 1e9, (double)r->node_units * hour, d->dedicated_all * hour,
           100 * saved((double)r->node_units, d->dedicated_all), r->cost, r->peak, d->hour_peak, r->busy_peak, r->granted, r->returned, dsp_setup_an_hour(d),
           r->rejected, r->requests, r->held_s > 0 ? r->busy_s / r->held_s : 0, s->events, d->seconds, (double)r->memory / 1048576, s->hash);
    say_environments(d);
}
