/* docking-report DYNAMIC.json STATIC.json: what dynamic fair shares gained, beside the paper's figures.
 *
 * Both files are from `htc report all --json`. Where slots share cores an idle slot speeds its neighbours up, so the
 * paper's ratio cannot be reached; what an ideal scheduler would reach on such a machine is worked out beside it. */
#include "../htc/chart.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define USERS_MAX 8

typedef struct run {
    json_t *root, *total;
    size_t  users;
    struct {
        const char *name;
        double      submitted, makespan, cpu;
        int         tasks, failed;
    } user[USERS_MAX];
} run;

static double num(const json_t *o, const char *key)
{
    return json_number_value(json_object_get(o, key));
}

static int load(const char *path, run *r)
{
    json_error_t e;
    size_t       i;
    json_t      *job;
    r->root = json_load_file(path, 0, &e);
    r->total = json_object_get(r->root, "total");
    if (!r->total) {
        fprintf(stderr, "docking-report: %s: not a report: %s\n", path, r->root ? "no totals" : e.text);
        return -1;
    }
    json_array_foreach(json_object_get(r->root, "jobs"), i, job)
    {
        if (r->users == USERS_MAX)
            break;
        r->user[r->users].name = json_string_value(json_object_get(job, "user"));
        r->user[r->users].submitted = num(job, "submitted") - num(r->total, "first_submitted");
        r->user[r->users].makespan = num(job, "makespan_s");
        r->user[r->users].cpu = num(job, "cpu_s");
        r->user[r->users].tasks = (int)num(job, "count");
        r->user[r->users++].failed = (int)num(job, "failed");
    }
    return 0;
}

static void fill_chart(const run *r, chart *c)
{
    const json_t *from = json_object_get(r->root, "chart");
    size_t        i, b;
    json_t       *u, *v;
    c->from = num(from, "from");
    c->to = num(from, "to");
    json_array_foreach(json_object_get(from, "users"), i, u)
    {
        size_t at = chart_user(c, json_string_value(json_object_get(u, "user")));
        json_array_foreach(json_object_get(u, "held"), b, v) if (b < CHART_BINS) c->held[at][b] = json_number_value(v);
    }
}

/* Last end of an ideal scheduler: no overhead, `slots` places, `cores` of which work at full speed together. With
 * shares every user has slots/users places of their own, else any waiting task takes any place. Processor sharing, exact.
 */
static double ideal_last_end(const run *r, double length, int slots, int cores, int shares)
{
    int    waiting[USERS_MAX] = { 0 }, running[USERS_MAX] = { 0 }, arrived = 0, total = 0, own = slots / (int)r->users;
    double left[512], now = 0;
    size_t owner[512], n = 0;
    for (;;) {
        while (arrived < (int)r->users && r->user[arrived].submitted <= now + 1e-9) {
            waiting[arrived] = r->user[arrived].tasks;
            arrived++;
        }
        for (size_t u = 0; u < r->users; u++)
            while (waiting[u] > 0 && n < 512 && (shares ? running[u] < own : total < slots)) {
                waiting[u]--;
                running[u]++;
                total++;
                owner[n] = u;
                left[n++] = length;
            }
        if (n == 0 && arrived == (int)r->users)
            return now;
        double rate = n ? fmin(1.0, (double)cores / (double)n) : 1, until = INFINITY;
        for (size_t i = 0; i < n; i++)
            until = fmin(until, now + left[i] / rate);
        if (arrived < (int)r->users)
            until = fmin(until, r->user[arrived].submitted);
        for (size_t i = 0; i < n;) {
            left[i] -= (until - now) * rate;
            if (left[i] > 1e-9) {
                i++;
                continue;
            }
            running[owner[i]]--;
            total--;
            n--;
            left[i] = left[n];
            owner[i] = owner[n];
        }
        now = until;
    }
}

static void print_run(const char *name, const run *r)
{
    printf("  %-8s", name);
    for (size_t u = 0; u < r->users; u++)
        printf(" %7.1f", r->user[u].makespan);
    printf("  %9.1f %9.1f\n", num(r->total, "last_end_s"), num(r->total, "sum_makespan_s"));
}

static int failures(const run *r)
{
    int n = 0;
    for (size_t u = 0; u < r->users; u++)
        n += r->user[u].failed;
    return n;
}

static void print_efficiency(const char *name, const run *r)
{
    printf("  %-8s %.0f tasks x %.2f s / %.0f cores / %.1f s = %.1f%%   (bound %.1f%%)\n", name, num(r->total, "tasks"),
           num(r->total, "pte_s"), num(r->total, "ncu"), num(r->total, "last_end_s"), 100 * num(r->total, "efficiency"),
           100 * num(r->total, "efficiency_bound"));
}

static int write_svg(const char *path, const chart *d, const chart *s, int slots, int shared)
{
    struct stat st;
    FILE       *f = NULL;
    if (lstat(path, &st) == 0 && !S_ISREG(st.st_mode)) /* a pipe, a device, a link */
        fprintf(stderr, "docking-report: %s is no plain file\n", path);
    else
        f = fopen(path, "we");
    if (f && shared)
        chart_svg(d, "Slots held: dynamic fair shares", s, "Slots held: static equal shares", (uint64_t)slots, (uint64_t)slots, f);
    else if (f)
        chart_svg(d, "Cores held: dynamic fair shares", s, "Cores held: static equal shares", (uint64_t)slots, (uint64_t)slots, f);
    if (f && fclose(f) == 0)
        return 0;
    fprintf(stderr, "docking-report: %s: cannot write the chart\n", path);
    return -1;
}

/* Which run was ahead. Where slots share cores the last ends are compared in dockings, not in seconds: the same dockings
 * are done in both runs, so what each cost in CPU time says how fast the machine was meanwhile, and on a shared host that
 * changes by the minute: on the clock, a slow minute could win or lose for either policy. Answers 1 for the dynamic run. */
static int verdict(const run *d, const run *s, int shared)
{
    double d_end = num(d->total, "last_end_s"), s_end = num(s->total, "last_end_s");
    double d_pte = num(d->total, "pte_s"), s_pte = num(s->total, "pte_s");
    double d_judged = shared ? d_end / d_pte : d_end, s_judged = shared ? s_end / s_pte : s_end;
    int    failed = failures(d) + failures(s), ahead = d_judged < s_judged;
    printf("\n%s: dynamic fair shares end %.1f %s %s static ones (%.0f%%)%s\n",
           ahead && !failed ? "Verdict" : "VERDICT: NOT SHOWN", fabs(s_judged - d_judged), shared ? "dockings" : "s",
           ahead ? "before" : "after", 100 * fabs(1 - d_judged / s_judged), failed ? ", but tasks failed" : "");
    if (shared)
        printf("  On the clock %.1f s %s; the same docking took %.2f CPU seconds in the dynamic run and %.2f in the static "
               "one.\n", fabs(s_end - d_end), d_end < s_end ? "before" : "after", d_pte, s_pte);
    return ahead && !failed;
}

int main(int argc, char **argv)
{
    static run   dynamic, fixed;
    static chart dc, sc;
    const char  *svg = NULL;
    if (argc > 2 && strcmp(argv[1], "--svg") == 0) {
        svg = argv[2];
        argc -= 2;
        argv += 2;
    }
    if (argc != 3) {
        fprintf(stderr, "usage: docking-report [--svg FILE] DYNAMIC.json STATIC.json\n");
        return 1;
    }
    if (load(argv[1], &dynamic) != 0 || load(argv[2], &fixed) != 0)
        return 2;
    if (dynamic.users == 0 || dynamic.users != fixed.users) {
        fprintf(stderr, "docking-report: the two runs have different users\n");
        return 2;
    }
    int    slots = (int)num(dynamic.total, "slots"), cores = (int)num(dynamic.total, "cores"), shared = slots > cores;
    double d_end = num(dynamic.total, "last_end_s"), s_end = num(fixed.total, "last_end_s");
    double d_sum = num(dynamic.total, "sum_makespan_s"), s_sum = num(fixed.total, "sum_makespan_s");
    /* Both ideals from the same task length, and each run's own arrivals. */
    double length = (num(dynamic.total, "pte_s") + num(fixed.total, "pte_s")) / 2;
    double d_ideal = ideal_last_end(&dynamic, length, slots, cores, 0),
           s_ideal = ideal_last_end(&fixed, length, slots, cores, 1);
    fill_chart(&dynamic, &dc);
    fill_chart(&fixed, &sc);

    printf("Makespans in seconds (%d slots on %d cores)\n  %-8s", slots, cores, "");
    for (size_t u = 0; u < dynamic.users; u++)
        printf(" %7s", dynamic.user[u].name);
    printf("  %9s %9s\n", "last end", "sum");
    print_run("dynamic", &dynamic);
    print_run("static", &fixed);
    printf("  %-8s", "ratio");
    for (size_t u = 0; u < dynamic.users; u++)
        printf(" %7.3f", dynamic.user[u].makespan / fixed.user[u].makespan);
    printf("  %9.3f %9.3f\n", d_end / s_end, d_sum / s_sum);
    printf("\nTotal, dynamic / static      (i) last end   (ii) sum of makespans\n");
    printf("  here                            %5.3f          %5.3f\n", d_end / s_end, d_sum / s_sum);
    if (shared)
        printf("  here, counted in dockings       %5.3f              -\n",
               d_end / s_end * num(fixed.total, "pte_s") / num(dynamic.total, "pte_s"));
    printf("  ideal on this machine           %5.3f              -\n", d_ideal / s_ideal);
    printf("  paper, measured, 4 clusters     0.644 (it does not say which of the two)\n");
    printf("  paper's bags, calculated        0.500          0.707   (equal tasks on 360 cores of one cluster)\n");
    if (shared)
        printf("\nThe %d slots share %d cores: a slot left idle speeds the others up, which static shares gain from "
               "most.\n"
               "So the last end alone is judged here, beside the ideal for shared cores (no overhead, equal tasks), in\n"
               "units of the CPU time that a docking took in that run: the speed of a shared host changes by the minute.\n",
               slots, cores);
    printf("\nEfficiency (equation 2) = NT tasks x PTE %s each / NCU cores / last end\n",
           shared ? "CPU seconds" : "seconds");
    print_efficiency("dynamic", &dynamic);
    print_efficiency("static", &fixed);
    printf("  The bound is what is left when the last round of equal tasks does not fill all cores.\n");
    printf("\n%s held by each user, dynamic fair shares\n", shared ? "Slots" : "Cores");
    uint32_t colour = isatty(STDOUT_FILENO) == 1 && !getenv("NO_COLOR");
    chart_print(&dc, stdout, colour, (uint64_t)slots, chart_columns(stdout));
    printf("\n%s held by each user, static equal shares\n", shared ? "Slots" : "Cores");
    chart_print(&sc, stdout, colour, (uint64_t)slots, chart_columns(stdout));

    int shown = verdict(&dynamic, &fixed, shared);
    int bad = svg ? write_svg(svg, &dc, &sc, slots, shared) : 0;
    json_decref(dynamic.root);
    json_decref(fixed.root);
    return bad ? 70 : shown ? 0 : 5;
}
