#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "study.h"

void say_error(const htc_error *error)
{
    htc_error shown = *error, *e = &shown;
    htc_text_show(e->where);
    htc_text_show(e->text);
    htc_text_show(e->hint);
    fprintf(stderr, "htc-sim: %s%s%s\n", e->where, e->where[0] ? ": " : "", e->text);
    if (e->hint[0])
        fprintf(stderr, "htc-sim: next: %s\n", e->hint);
}

void say_text(const char *text)
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

/* The estimate of a measure over the runs of a combination that have ended; how many these are. */
static size_t estimate_at(const study *y, const outcome *outcomes, size_t combination, size_t m, double *room, estimate *e)
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
        say_text(y->vary[k].key);
        putchar(':');
        say_text(study_value(y, combination, k));
        putchar(',');
    }
    printf("\"runs\":%zu", estimate_at(y, outcomes, combination, 0, room, &e));
    for (size_t m = 0; y->model->measures[m].name; m++) {
        (void)estimate_at(y, outcomes, combination, m, room, &e);
        printf(",\"%s\":{\"mean\":%.6f,\"half\":%.6f}", y->model->measures[m].name, e.mean, e.half);
    }
    putchar('}');
}

static void text_row(const study *y, const outcome *outcomes, size_t combination, double *room)
{
    estimate e;
    for (size_t k = 0; k < y->n_vary; k++)
        printf("%-*s ", (int)strlen(y->vary[k].key) > 8 ? (int)strlen(y->vary[k].key) : 8, study_value(y, combination, k));
    printf("%4zu", estimate_at(y, outcomes, combination, 0, room, &e));
    for (size_t m = 0; y->model->measures[m].name; m++) {
        char text[48];
        if (estimate_at(y, outcomes, combination, m, room, &e) > 1)
            snprintf(text, sizeof text, "%.*f \u00b1 %.*f", y->model->measures[m].digits, e.mean, y->model->measures[m].digits, e.half);
        else
            snprintf(text, sizeof text, "%.*f", y->model->measures[m].digits, e.mean);
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
        for (size_t m = 0; y->model->measures[m].name; m++)
            printf(" %22s", y->model->measures[m].name);
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
