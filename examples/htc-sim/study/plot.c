#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "../../htc/chart.h"
#include "study.h"

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

void plot_print(const fairshare *f, FILE *out)
{
    chart *c = chart_of(f);
    if (c && c->to > 0)
        chart_print(c, out, 0, f->options.cores, chart_columns(out));
    free(c);
}

static FILE *open_in(const study *y, const char *name, const char *suffix, const char *extension)
{
    char path[4096];
    if (mkdir(y->plot, 0777) != 0 && errno != EEXIST) {
        fprintf(stderr, "htc-sim: the folder %s cannot be made: %s\n", y->plot, strerror(errno));
        return NULL;
    }
    snprintf(path, sizeof path, "%s/%s%s.%s", y->plot, name, suffix, extension);
    FILE *out = fopen(path, "w");
    if (!out)
        fprintf(stderr, "htc-sim: %s cannot be written: %s\n", path, strerror(errno));
    return out;
}

static int close_of(FILE *out)
{
    int bad = ferror(out);
    bad |= fclose(out) != 0;
    if (bad)
        fprintf(stderr, "htc-sim: a file of the plot could not be written\n");
    return bad ? -1 : 0;
}

static int write_course(const study *y, const fairshare *f, const char *suffix)
{
    const course *k = f->course;
    FILE         *out = open_in(y, "cores", suffix, "csv");
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
    return close_of(out);
}

static int write_users(const study *y, const fairshare *f, const char *suffix)
{
    FILE *out = open_in(y, "users", suffix, "csv");
    if (!out)
        return -1;
    fputs("user,weight,tasks,ended,submitted_s,makespan_s,response_s,core_s,work_s,agents\n", out);
    for (size_t u = 0; u < f->options.n_users; u++) {
        const htc_sim_fairshare_result *r = &f->results[u];
        fprintf(out, "%s,%g,%" PRIu64 ",%" PRIu64 ",%.6f,%.6f,%.6f,%.6f,%.6f,%" PRIu64 "\n", f->names[u], f->users[u].weight, r->tasks, r->ended,
                r->tasks ? (double)r->submitted / 1e9 : 0, (double)r->makespan / 1e9, r->response_s, r->core_s, r->work_s, r->agents);
    }
    return close_of(out);
}

static int write_picture(const study *y, const fairshare *f, const char *suffix)
{
    static const char *const policies[] = { "eq1", "static", "maxmin", "fcfs" };
    char                     title[160];
    chart                   *c = chart_of(f);
    FILE                    *out = c ? open_in(y, "cores", suffix, "svg") : NULL;
    int                      bad = -1;
    snprintf(title, sizeof title, "cores by user: %" PRIu64 " cores, policy %s, seed %" PRIu64, f->options.cores, policies[f->options.policy], f->options.seed);
    if (out) {
        chart_svg(c, title, NULL, NULL, f->options.cores, out);
        bad = close_of(out);
    }
    free(c);
    return bad;
}

int plot_run(const study *y, const fairshare *f, const char *suffix)
{
    return write_course(y, f, suffix) | write_users(y, f, suffix) | write_picture(y, f, suffix);
}
