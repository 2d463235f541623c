/* What is told of a run of fair sharing: text, JSON, files of a picture. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../htc/chart.h"
#include "fairshare.h"
#include "plot.h"
#include "study.h"

#define USERS_SHOWN 20

/* ---- the picture ---- */

static const char *name_of(const fairshare *f, size_t u)
{
    return u + 1 == COURSE_USERS && f->options.n_users > COURSE_USERS ? "others" : f->names[u];
}

static chart *chart_of(const fairshare *f)
{
    const course *k = f->course;
    chart        *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->to = (double)f->report.scale.span / 1e9;
    for (size_t u = 0; u < k->users; u++)
        (void)chart_user(c, name_of(f, u));
    /* each sample holds until the next one */
    for (size_t bin = 0, i = 0; bin < CHART_BINS && k->n; bin++) {
        double at = c->to * ((double)bin + 0.5) / CHART_BINS;
        while (i + 1 < k->n && k->at[i + 1] <= at)
            i++;
        for (size_t u = 0; u < k->users && u < c->users; u++)
            c->held[u][bin] = k->cores[i][u];
    }
    return c;
}

static void print_chart(const fairshare *f, FILE *out)
{
    chart *c = chart_of(f);
    if (c && c->to > 0)
        chart_print(c, out, 0, f->report.cores, chart_columns(out));
    free(c);
}

static int write_course(const char *folder, const fairshare *f, const char *suffix)
{
    const course *k = f->course;
    FILE         *out = plot_open(folder, "cores", suffix, "csv");
    if (!out)
        return -1;
    fputs("seconds,queued", out);
    for (size_t u = 0; u < k->users; u++)
        fprintf(out, ",%s", name_of(f, u));
    fputc('\n', out);
    for (size_t i = 0; i < k->n; i++) {
        fprintf(out, "%.6f,%" PRIu64, k->at[i], k->queued[i]);
        for (size_t u = 0; u < k->users; u++)
            fprintf(out, ",%.0f", k->cores[i][u]);
        fputc('\n', out);
    }
    return plot_close(out);
}

static int write_users(const char *folder, const fairshare *f, const char *suffix)
{
    FILE *out = plot_open(folder, "users", suffix, "csv");
    if (!out)
        return -1;
    fputs("user,weight,tasks,ended,submitted_s,makespan_s,response_s,core_s,work_s,agents\n", out);
    for (size_t u = 0; u < f->options.n_users; u++) {
        const htc_sim_fairshare_result *r = &f->results[u];
        fprintf(out, "%s,%g,%" PRIu64 ",%" PRIu64 ",%.6f,%.6f,%.6f,%.6f,%.6f,%" PRIu64 "\n", f->names[u], f->users[u].weight, r->tasks, r->ended,
                r->tasks ? (double)r->submitted / 1e9 : 0, (double)r->makespan / 1e9, r->response_s, r->core_s, r->work_s, r->agents);
    }
    return plot_close(out);
}

static int write_picture(const char *folder, const fairshare *f, const char *suffix)
{
    static const char *const policies[] = { "eq1", "static", "maxmin", "fcfs" };
    char                     title[160];
    chart                   *c = chart_of(f);
    FILE                    *out = c ? plot_open(folder, "cores", suffix, "svg") : NULL;
    int                      bad = -1;
    snprintf(title, sizeof title, "cores by user: %" PRIu64 " cores, policy %s, seed %" PRIu64, f->report.cores, policies[f->options.policy], f->options.seed);
    if (out) {
        chart_svg(c, title, NULL, NULL, f->report.cores, 0, out);
        bad = plot_close(out);
    }
    free(c);
    return bad;
}

int fairshare_plot(const void *run, const char *folder, const char *suffix)
{
    const fairshare *f = run;
    return write_course(folder, f, suffix) | write_users(folder, f, suffix) | write_picture(folder, f, suffix);
}

/* ---- text and JSON ---- */

static void json_clusters(const fairshare *f)
{
    printf(",\"clusters\":[");
    for (size_t k = 0; k < f->options.n_clusters; k++) {
        const htc_sim_fairshare_cluster_result *x = &f->on[k];
        printf("%s{\"name\":", k ? "," : "");
        say_text(f->cluster_names[k]);
        printf(",\"cores\":%" PRIu64 ",\"speed\":%g,\"tasks\":%" PRIu64 ",\"agents\":%" PRIu64 ",\"jobs\":%" PRIu64 ",\"held\":%" PRIu64 ",\"died\":%" PRIu64
               ",\"others\":%" PRIu64 ",\"work_s\":%.6f,\"lost_s\":%.6f}",
               f->clusters[k].cores, f->clusters[k].speed, x->tasks, x->agents, x->jobs, x->held, x->died, x->others, x->work_s, x->lost_s);
    }
    printf("]");
}

static void json_run(const fairshare *f)
{
    const htc_sim_fairshare_report *r = &f->report;
    const htc_scale_report         *s = &r->scale;
    printf("{\"cores\":%" PRIu64 ",\"seed\":%" PRIu64 ",\"tick_s\":%.9f,\"interrupted\":%s,\"tasks\":%" PRIu64 ",\"ended\":%" PRIu64 ",\"makespan_s\":%.6f,\"bound_s\":%.6f,\"work_core_s\":%.6f"
           ",\"completed\":%.6f,\"held\":%" PRIu64 ",\"died\":%" PRIu64 ",\"lost_core_s\":%.6f,\"response_s\":%.6f,\"busy_core_s\":%.6f,\"idle_core_s\":%.6f,\"tasks_per_s\":%.6f,\"efficiency\":%.6f,\"fairness\":%.6f,\"agents\":%" PRIu64 ",\"divisions\":%" PRIu64
           ",\"events\":%" PRIu64 ",\"memory\":%" PRIu64 ",\"seconds\":%.3f,\"hash\":\"%016" PRIx64 "\",\"wrong\":",
           f->report.cores, f->options.seed, (double)f->options.tick_ns / 1e9, r->interrupted ? "true" : "false", s->submitted, s->ended, (double)s->makespan / 1e9, s->bound_s, s->work_s, r->completed, r->held,
           r->died, r->lost_s, r->response_s, s->busy_s,
           r->idle_s, r->throughput, r->efficiency, r->fairness, r->agents, r->divisions, s->events, r->memory, f->seconds, s->hash);
    say_text(s->wrong);
    printf(",\"users\":[");
    for (size_t u = 0; u < f->options.n_users; u++) {
        const htc_sim_fairshare_result *x = &f->results[u];
        printf("%s{\"name\":", u ? "," : "");
        say_text(f->names[u]);
        printf(",\"weight\":%g,\"tasks\":%" PRIu64 ",\"ended\":%" PRIu64 ",\"makespan_s\":%.6f,\"response_s\":%.6f,\"core_s\":%.6f,\"work_s\":%.6f}", f->users[u].weight, x->tasks,
               x->ended, (double)x->makespan / 1e9, x->response_s, x->core_s, x->work_s);
    }
    printf("]");
    json_clusters(f);
    printf("}\n");
}

static void say_users(const fairshare *f)
{
    size_t shown = f->options.n_users < USERS_SHOWN ? f->options.n_users : USERS_SHOWN;
    double all = 0;
    for (size_t u = 0; u < f->options.n_users; u++)
        all += f->results[u].core_s;
    printf("\n%-16s %8s %12s %14s %14s %16s %8s\n", "user", "weight", "tasks", "makespan s", "response s", "core s", "share");
    for (size_t u = 0; u < shown; u++) {
        const htc_sim_fairshare_result *r = &f->results[u];
        printf("%-16s %8g %12" PRIu64 " %14.1f %14.1f %16.1f %7.2f%%\n", f->names[u], f->users[u].weight, r->ended, (double)r->makespan / 1e9, r->response_s, r->core_s,
               all > 0 ? 100 * r->core_s / all : 0);
    }
    if (shown < f->options.n_users)
        printf("and %zu more: --json or --plot DIR has all\n", f->options.n_users - shown);
}

static void say_clusters(const fairshare *f)
{
    if (f->options.n_clusters)
        printf("\n%-16s %8s %6s %12s %10s %10s %8s %8s %16s\n", "cluster", "cores", "speed", "tasks", "agents", "others", "held", "died", "core s");
    for (size_t k = 0; k < f->options.n_clusters; k++) {
        const htc_sim_fairshare_cluster_result *x = &f->on[k];
        printf("%-16s %8" PRIu64 " %6g %12" PRIu64 " %10" PRIu64 " %10" PRIu64 " %8" PRIu64 " %8" PRIu64 " %16.1f\n", f->cluster_names[k], f->clusters[k].cores,
               f->clusters[k].speed, x->tasks, x->agents, x->others, x->held, x->died, x->work_s);
    }
}

void fairshare_say(const void *run, int json)
{
    const fairshare                *f = run;
    const htc_sim_fairshare_report *r = &f->report;
    const htc_scale_report         *s = &r->scale;
    if (json) {
        json_run(f);
        return;
    }
    if (r->interrupted)
        printf("interrupted at %.1f s of virtual time; what there was until then:\n", (double)s->span / 1e9);
    if (f->log.file[0] && f->log.skipped + f->log.bad)
        printf("log          %" PRIu64 " jobs taken, %" PRIu64 " without a size or a length, %" PRIu64 " broken lines\n", f->log.taken, f->log.skipped, f->log.bad);
    uint64_t jobs = f->log.file[0] ? f->log.taken : f->options.n_jobs;
    printf("%zu user%s, %" PRIu64 " job%s, %" PRIu64 " task%s on %" PRIu64 " core%s; a tick is %g s\n", f->options.n_users, plural(f->options.n_users), jobs, plural(jobs), s->submitted,
           plural(s->submitted), f->report.cores, plural(f->report.cores),
           (double)f->options.tick_ns / 1e9);
    if (r->interrupted)
        printf("last end     %.1f s, of %" PRIu64 " task%s\n", (double)s->makespan / 1e9, s->ended, plural(s->ended));
    else
        printf("makespan     %.1f s, no less than %.1f s is possible\n", (double)s->makespan / 1e9, s->bound_s);
    printf("throughput   %.2f tasks a second\n"
           "efficiency   %.4f of the cores' time was work\n"
           "idle         %.1f core seconds, while tasks waited\n"
           "fairness     %.4f (Jain's index over users with waiting tasks)\n"
           "agents       %" PRIu64 " started, %" PRIu64 " divisions\n"
           "run          %" PRIu64 " events in %.2f s (%.0f ns a task), %.1f MiB, hash %016" PRIx64 "\n",
           r->throughput, r->efficiency, r->idle_s, r->fairness, r->agents, r->divisions, s->events, f->seconds,
           ns_of_each(f->seconds, s->ended_here), (double)r->memory / 1048576, s->hash);
    if (r->held || r->died || r->completed < 1)
        printf("trouble      %" PRIu64 " held, %" PRIu64 " agents died (%.1f core seconds lost), %.4f of the tasks were completed\n", r->held, r->died, r->lost_s, r->completed);
    say_users(f);
    say_clusters(f);
    if (s->span) {
        printf("\ncores by user:\n");
        print_chart(f, stdout);
    }
}
