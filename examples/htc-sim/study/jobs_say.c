/* What is told of a run of partition controllers: text, JSON, a line of CSV. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "../../htc/chart.h"
#include "jobs.h"
#include "plot.h"
#include "study.h"

static double ratio(uint64_t a, uint64_t b)
{
    return b ? (double)a / (double)b : 0;
}

/* ---- the picture ---- */

/* what: 0 nodes, 1 jobs that wait */
static chart *chart_of(const jobs_study *j, int what)
{
    const jobs_course *k = j->course;
    chart             *c = k && k->n ? calloc(1, sizeof *c) : NULL;
    if (!c)
        return NULL;
    c->to = (double)j->report.scale.span / 1e9;
    (void)chart_user(c, what ? "waiting" : "of running jobs");
    if (!what)
        (void)chart_user(c, "held beside");
    for (size_t bin = 0, i = 0; bin < CHART_BINS; bin++) { /* each sample holds until the next one */
        double at = c->to * ((double)bin + 0.5) / CHART_BINS * 1e9;
        while (i + 1 < k->n && (double)k->at[i + 1] <= at)
            i++;
        c->held[0][bin] = what ? (double)k->waiting[i] : (double)k->busy[i];
        if (!what)
            c->held[1][bin] = (double)(k->taken[i] - k->busy[i]);
    }
    return c;
}

static int write_course(const char *folder, const jobs_study *j, const char *suffix)
{
    const jobs_course *k = j->course;
    FILE              *out = plot_open(folder, "nodes", suffix, "csv");
    if (!out)
        return -1;
    fputs("seconds,busy,taken,waiting,running,ended\n", out);
    for (size_t i = 0; i < k->n; i++)
        fprintf(out, "%.6f,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 "\n", (double)k->at[i] / 1e9, k->busy[i], k->taken[i], k->waiting[i], k->running[i], k->ended[i]);
    return plot_close(out);
}

static int write_picture(const char *folder, const jobs_study *j, const char *suffix)
{
    char   title[160];
    chart *nodes = chart_of(j, 0), *waiting = chart_of(j, 1);
    FILE  *out = nodes && waiting ? plot_open(folder, "nodes", suffix, "svg") : NULL;
    int    bad = -1;
    snprintf(title, sizeof title, "nodes of %" PRIu32 " that are taken: policy %s, seed %" PRIu64, j->options.nodes, j->policy, j->options.seed);
    if (out) {
        chart_svg(nodes, title, waiting, "jobs that wait for nodes", j->options.nodes, 0, out);
        bad = plot_close(out);
    }
    free(nodes);
    free(waiting);
    return bad;
}

static int write_run(const char *folder, const jobs_study *j, const char *suffix)
{
    const htc_sim_jobs_report *r = &j->report;
    FILE                      *out = plot_open(folder, "jobs", suffix, "csv");
    if (!out)
        return -1;
    fprintf(out,
            "nodes,partition,policy,jobs,jobs_per_s,latency_s,latency_max_s,messages,messages_all,swaps,conflicts,steals,rounds,utilisation,makespan_s\n"
            "%" PRIu32 ",%" PRIu32 ",%s,%" PRIu64 ",%.6f,%.6f,%.6f,%.4f,%.4f,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%.6f,%.6f\n",
            j->options.nodes, j->options.partition, j->policy, r->granted, r->throughput, r->latency_s, r->latency_max_s, r->messages, r->messages_all,
            r->swaps, r->conflicts, r->steals, r->rounds, r->utilisation, (double)r->scale.makespan / 1e9);
    return plot_close(out);
}

int jobs_plot(const void *run, const char *folder, const char *suffix)
{
    const jobs_study *j = run;
    int               bad = write_run(folder, j, suffix);
    return j->course && j->course->n ? bad | write_course(folder, j, suffix) | write_picture(folder, j, suffix) : bad;
}

/* ---- text and JSON ---- */

/* In seconds. What runs on this machine has none. */
static double tick_of(const jobs_study *j)
{
    return j->live ? 0 : j->exactly ? 1e-9 : (double)j->options.tick_ns / 1e9;
}

static void json_run(const jobs_study *j)
{
    const htc_sim_jobs_report *r = &j->report;
    const htc_scale_report    *s = &r->scale;
    printf("{\"nodes\":%" PRIu32 ",\"partition\":%" PRIu32 ",\"controllers\":%" PRIu32 ",\"policy\":\"%s\",\"seed\":%" PRIu64 ",\"tick_s\":%.9f,\"interrupted\":%s,\"jobs\":%" PRIu64 ",\"ended\":%" PRIu64
           ",\"granted\":%" PRIu64 ",\"makespan_s\":%.6f,\"jobs_per_s\":%.6f,\"latency_s\":%.6f,\"latency_max_s\":%.6f,\"messages\":%.6f,\"messages_all\":%.6f"
           ",\"requests\":%" PRIu64 ",\"services\":%" PRIu64 ",\"swaps\":%" PRIu64 ",\"conflicts\":%" PRIu64 ",\"steals\":%" PRIu64 ",\"rounds\":%" PRIu64
           ",\"utilisation\":%.6f,\"events\":%" PRIu64 ",\"memory\":%" PRIu64 ",\"seconds\":%.3f,\"hash\":\"%016" PRIx64 "\",\"wrong\":",
           j->options.nodes, j->options.partition, r->controllers, j->policy, j->options.seed, tick_of(j), r->interrupted ? "true" : "false", s->submitted, s->ended,
           r->granted, (double)s->makespan / 1e9, r->throughput, r->latency_s, r->latency_max_s, r->messages, r->messages_all, r->requests, r->services, r->swaps,
           r->conflicts, r->steals, r->rounds, r->utilisation, s->events, r->memory, j->seconds, s->hash);
    say_text(s->wrong);
    printf("}\n");
}

/* In a unit that shows three digits. */
static void say_rate(double a_second)
{
    static const struct {
        const char *name;
        double      seconds;
    } units[] = { { "second", 1 }, { "minute", 60 }, { "hour", 3600 }, { "day", 86400 } };
    size_t u = 0;
    while (u < 3 && a_second * units[u].seconds < 1)
        u++;
    double rate = a_second * units[u].seconds;
    printf("throughput   %.*f jobs a %s\n", rate < 10 ? 2 : rate < 100 ? 1 : 0, rate, units[u].name);
}

void jobs_say(const void *run, int json)
{
    const jobs_study          *j = run;
    const htc_sim_jobs_report *r = &j->report;
    const htc_scale_report    *s = &r->scale;
    if (json) {
        json_run(j);
        return;
    }
    if (r->interrupted)
        printf("interrupted at %.3f s of virtual time; what there was until then:\n", (double)s->span / 1e9);
    printf("%" PRIu64 " job%s on %" PRIu32 " node%s, %" PRIu32 " controller%s, policy %s",
           s->submitted, plural(s->submitted), j->options.nodes, plural(j->options.nodes), r->controllers, r->controllers == 1 ? "" : "s", j->policy);
    if (j->exactly)
        printf("; message by message");
    else if (!j->live)
        printf("; a tick is %g s", tick_of(j));
    printf("\n"
           "%s     %.3f s, %" PRIu64 " job%s ended\n",
           r->interrupted ? "last end" : "makespan", (double)s->makespan / 1e9, s->ended, s->ended == 1 ? " has" : "s have");
    say_rate(r->throughput);
    printf("latency      %.3f ms from a job's submission until it has its nodes, at most %.3f ms\n", 1e3 * r->latency_s, 1e3 * r->latency_max_s);
    if (!j->options.central)
        printf("messages     %.2f a job until then, %.2f in all; %" PRIu64 " of the monitor and its readers\n"
               "swaps        %" PRIu64 ", of which %.2f %% met another value\n"
               "steals       %.2f a job, %.3f rounds in which all was given back\n",
               r->messages, r->messages_all, r->services, r->swaps, 100 * ratio(r->conflicts, r->swaps), ratio(r->steals, r->granted), ratio(r->rounds, r->granted));
    printf("utilisation  %.4f of the nodes' time\n", r->utilisation);
    if (j->live)
        printf("run          on this machine: a process for each controller, and a store\n");
    else
        printf("run          %" PRIu64 " events in %.2f s (%.0f ns each), at most %.1f MiB, hash %016" PRIx64 "\n", s->events, j->seconds,
               ns_of_each(j->seconds, s->events_here), (double)r->memory / 1048576, s->hash);
    chart *c = s->makespan && !j->live ? chart_of(j, 0) : NULL;
    if (c) {
        printf("\nnodes that are taken:\n");
        chart_print(c, stdout, 0, j->options.nodes, chart_columns(stdout));
    }
    free(c);
}
