#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "study.h"

#define USERS_SHOWN 20

void say_error(const htc_error *e)
{
    fprintf(stderr, "htc-sim: %s%s%s\n", e->where, e->where[0] ? ": " : "", e->text);
    if (e->hint[0])
        fprintf(stderr, "htc-sim: next: %s\n", e->hint);
}

static void json_text(const char *text)
{
    putchar('"');
    for (; *text; text++)
        if (*text == '"' || *text == '\\')
            printf("\\%c", *text);
        else if ((unsigned char)*text < 0x20)
            printf("\\u%04x", (unsigned)*text);
        else
            putchar(*text);
    putchar('"');
}

/* ---- one run ---- */

static void json_run(const fairshare *f)
{
    const htc_sim_fairshare_report *r = &f->report;
    const htc_scale_report         *s = &r->scale;
    printf("{\"cores\":%" PRIu64 ",\"seed\":%" PRIu64 ",\"interrupted\":%s,\"tasks\":%" PRIu64 ",\"ended\":%" PRIu64 ",\"makespan_s\":%.6f,\"bound_s\":%.6f,\"work_core_s\":%.6f"
           ",\"busy_core_s\":%.6f,\"idle_core_s\":%.6f,\"tasks_per_s\":%.6f,\"efficiency\":%.6f,\"fairness\":%.6f,\"agents\":%" PRIu64 ",\"divisions\":%" PRIu64
           ",\"events\":%" PRIu64 ",\"memory\":%" PRIu64 ",\"seconds\":%.3f,\"hash\":\"%016" PRIx64 "\",\"wrong\":",
           f->options.cores, f->options.seed, r->interrupted ? "true" : "false", s->submitted, s->ended, (double)s->makespan / 1e9, s->bound_s, s->work_s, s->busy_s,
           r->idle_s, r->throughput, r->efficiency, r->fairness, r->agents, r->divisions, s->events, r->memory, f->seconds, s->hash);
    json_text(s->wrong);
    printf(",\"users\":[");
    for (size_t u = 0; u < f->options.n_users; u++) {
        const htc_sim_fairshare_result *x = &f->results[u];
        printf("%s{\"name\":", u ? "," : "");
        json_text(f->names[u]);
        printf(",\"weight\":%g,\"tasks\":%" PRIu64 ",\"ended\":%" PRIu64 ",\"makespan_s\":%.6f,\"response_s\":%.6f,\"core_s\":%.6f,\"work_s\":%.6f}", f->users[u].weight, x->tasks,
               x->ended, (double)x->makespan / 1e9, x->response_s, x->core_s, x->work_s);
    }
    printf("]}\n");
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

void say_run(const study *y, const fairshare *f)
{
    const htc_sim_fairshare_report *r = &f->report;
    const htc_scale_report         *s = &r->scale;
    if (y->json) {
        json_run(f);
        return;
    }
    if (r->interrupted)
        printf("interrupted at %.1f s of virtual time; what there was until then:\n", (double)s->span / 1e9);
    printf("%zu users, %zu jobs, %" PRIu64 " tasks on %" PRIu64 " cores; a tick is %g s\n", f->options.n_users, f->options.n_jobs, s->submitted, f->options.cores,
           (double)f->options.tick_ns / 1e9);
    if (r->interrupted)
        printf("last end     %.1f s, of %" PRIu64 " tasks\n", (double)s->makespan / 1e9, s->ended);
    else
        printf("makespan     %.1f s, no less than %.1f s is possible\n", (double)s->makespan / 1e9, s->bound_s);
    printf("throughput   %.2f tasks a second\n"
           "efficiency   %.4f of the cores' time was work\n"
           "idle         %.1f core seconds, while tasks waited\n"
           "fairness     %.4f (Jain's index over users with waiting tasks)\n"
           "agents       %" PRIu64 " started, %" PRIu64 " divisions\n"
           "run          %" PRIu64 " events in %.2f s (%.0f ns a task), %.1f MiB, hash %016" PRIx64 "\n",
           r->throughput, r->efficiency, r->idle_s, r->fairness, r->agents, r->divisions, s->events, f->seconds,
           s->ended ? f->seconds * 1e9 / (double)s->ended : 0, (double)r->memory / 1048576, s->hash);
    say_users(f);
    if (s->span) {
        printf("\ncores by user:\n");
        plot_print(f, stdout);
    }
}

/* ---- many ---- */

/* The estimate of a measure over the runs of a combination that have ended; how many these are. */
static size_t estimate_at(const study *y, const outcome *outcomes, size_t combination, measure m, double *room, estimate *e)
{
    size_t n = 0;
    for (uint64_t i = 0; i < y->seeds; i++) {
        const outcome *o = &outcomes[combination * y->seeds + i];
        if (o->done)
            room[n++] = o->value[m];
    }
    *e = estimate_of(room, n);
    return n;
}

static void json_row(const study *y, const outcome *outcomes, size_t combination, double *room)
{
    estimate e;
    printf("%s{", combination ? "," : "");
    for (size_t k = 0; k < y->n_vary; k++) {
        json_text(y->vary[k].key);
        putchar(':');
        json_text(study_value(y, combination, k));
        putchar(',');
    }
    printf("\"runs\":%zu", estimate_at(y, outcomes, combination, MAKESPAN, room, &e));
    for (int m = 0; m < MEASURES; m++) {
        (void)estimate_at(y, outcomes, combination, (measure)m, room, &e);
        printf(",\"%s\":{\"mean\":%.6f,\"half\":%.6f}", measure_names[m], e.mean, e.half);
    }
    putchar('}');
}

static void text_row(const study *y, const outcome *outcomes, size_t combination, double *room)
{
    static const int digits[MEASURES] = { 1, 2, 4, 1, 4, 1, 1 };
    estimate         e;
    for (size_t k = 0; k < y->n_vary; k++)
        printf("%-*s ", (int)strlen(y->vary[k].key) > 8 ? (int)strlen(y->vary[k].key) : 8, study_value(y, combination, k));
    printf("%4zu", estimate_at(y, outcomes, combination, MAKESPAN, room, &e));
    for (int m = 0; m < MEASURES; m++) {
        char text[48];
        if (estimate_at(y, outcomes, combination, (measure)m, room, &e) > 1)
            snprintf(text, sizeof text, "%.*f \u00b1 %.*f", digits[m], e.mean, digits[m], e.half);
        else
            snprintf(text, sizeof text, "%.*f", digits[m], e.mean);
        printf(" %*s", strstr(text, "\u00b1") ? 23 : 22, text);
    }
    putchar('\n');
}

void say_table(const study *y, const outcome *outcomes)
{
    double *room = calloc(y->seeds, sizeof *room);
    if (!room)
        return;
    if (y->json)
        printf("{\"seeds\":[%" PRIu64 ",%" PRIu64 "],\"rows\":[", y->seed, y->seed + y->seeds - 1);
    for (size_t k = 0; k < y->n_vary && !y->json; k++)
        printf("%-8s ", y->vary[k].key);
    if (!y->json) {
        printf("runs");
        for (int m = 0; m < MEASURES; m++)
            printf(" %22s", measure_names[m]);
        putchar('\n');
    }
    for (size_t i = 0; i < y->combinations; i++)
        (y->json ? json_row : text_row)(y, outcomes, i, room);
    if (y->json)
        printf("]}\n");
    else if (y->seeds > 1)
        printf("means of the seeds %" PRIu64 " to %" PRIu64 "; \u00b1 is half of the 95 %% interval (Student's t)\n", y->seed, y->seed + y->seeds - 1);
    free(room);
}
