#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
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
        if (!study_shows(y, y->model->measures[m].name))
            continue;
        (void)estimate_at(y, outcomes, combination, m, room, &e);
        printf(",\"%s\":{\"mean\":%.6f,\"half\":%.6f}", y->model->measures[m].name, e.mean, e.half);
    }
    putchar('}');
}

/* A line with names, and one for each combination. No field needs quotes: values that vary were told with commas between them. */
static void csv_table(const study *y, const outcome *outcomes, double *room)
{
    const measure *measures = y->model->measures;
    estimate       e;
    for (size_t k = 0; k < y->n_vary; k++)
        printf("%s,", y->vary[k].key);
    printf("runs");
    for (size_t m = 0; measures[m].name; m++)
        if (study_shows(y, measures[m].name))
            printf(",%s,%s_half", measures[m].name, measures[m].name);
    for (size_t i = 0; i < y->combinations; i++) {
        putchar('\n');
        for (size_t k = 0; k < y->n_vary; k++)
            printf("%s,", study_value(y, i, k));
        printf("%zu", estimate_at(y, outcomes, i, 0, room, &e));
        for (size_t m = 0; measures[m].name; m++)
            if (study_shows(y, measures[m].name) && estimate_at(y, outcomes, i, m, room, &e) > 0)
                printf(",%.6f,%.6f", e.mean, e.half);
            else if (study_shows(y, measures[m].name)) /* it was interrupted before */
                printf(",,");
    }
    putchar('\n');
}

/* Its columns on a terminal. */
static int cell(const study *y, const outcome *outcomes, size_t combination, size_t m, double *room, char text[64])
{
    estimate e;
    int      digits = y->model->measures[m].digits;
    size_t   n = estimate_at(y, outcomes, combination, m, room, &e);
    if (n > 1)
        return snprintf(text, 64, "%.*f \u00b1 %.*f", digits, e.mean, digits, e.half) - 1;
    if (n == 0) /* it was interrupted before */
        return snprintf(text, 64, "-");
    return snprintf(text, 64, "%.*f", digits, e.mean);
}

static int width_of(const study *y, size_t k)
{
    size_t width = strlen(y->vary[k].key);
    for (size_t i = 0; i < y->vary[k].n; i++)
        width = strlen(y->vary[k].value[i]) > width ? strlen(y->vary[k].value[i]) : width;
    return (int)width;
}

/* Columns of the terminal; of what is none, as many as there may be. */
static int room_here(void)
{
    struct winsize w;
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col > 0 ? w.ws_col : INT_MAX;
}

/* The measures from the first one up to the last, which is not among them. */
static void text_part(const study *y, const outcome *outcomes, const int *width, size_t first, size_t last, double *room)
{
    const measure *measures = y->model->measures;
    char           text[64];
    for (size_t k = 0; k < y->n_vary; k++)
        printf("%-*s ", width_of(y, k), y->vary[k].key);
    printf("runs");
    for (size_t m = first; m < last; m++)
        if (study_shows(y, measures[m].name))
            printf("  %*s", width[m], measures[m].name);
    putchar('\n');
    for (size_t i = 0; i < y->combinations; i++) {
        estimate e;
        for (size_t k = 0; k < y->n_vary; k++)
            printf("%-*s ", width_of(y, k), study_value(y, i, k));
        printf("%4zu", estimate_at(y, outcomes, i, 0, room, &e));
        for (size_t m = first; m < last; m++)
            if (study_shows(y, measures[m].name))
                printf("  %*s%s", width[m] - cell(y, outcomes, i, m, room, text), "", text);
        putchar('\n');
    }
}

/* On a terminal a table that is wider is cut into several, below each other. */
static void text_table(const study *y, const outcome *outcomes, double *room)
{
    const measure *measures = y->model->measures;
    int            width[MEASURES_MAX] = { 0 }, names = 4, here = room_here();
    char           text[64];
    for (size_t k = 0; k < y->n_vary; k++)
        names += width_of(y, k) + 1;
    for (size_t m = 0; measures[m].name; m++) {
        width[m] = (int)strlen(measures[m].name);
        for (size_t i = 0; i < y->combinations; i++) {
            int n = cell(y, outcomes, i, m, room, text);
            width[m] = n > width[m] ? n : width[m];
        }
    }
    for (size_t first = 0, last; measures[first].name; first = last) {
        int wide = names, shown = 0;
        for (last = first; measures[last].name; last++) {
            if (!study_shows(y, measures[last].name))
                continue;
            if (shown && wide > here - 2 - width[last])
                break;
            wide += 2 + width[last];
            shown = 1;
        }
        if (!shown && first > 0)
            break;
        if (first > 0)
            putchar('\n');
        text_part(y, outcomes, width, first, last, room);
    }
    if (y->seeds > 1)
        printf("means of the seeds %" PRIu64 " to %" PRIu64 "; \u00b1 is half of the 95 %% interval (Student's t)\n", y->seed, y->seed + y->seeds - 1);
}

void say_table(const study *y, const outcome *outcomes)
{
    double *room = calloc(y->seeds, sizeof *room);
    if (!room)
        return;
    if (y->json) {
        printf("{\"seeds\":[%" PRIu64 ",%" PRIu64 "],\"rows\":[", y->seed, y->seed + y->seeds - 1);
        for (size_t i = 0; i < y->combinations; i++)
            json_row(y, outcomes, i, room);
        printf("]}\n");
    } else if (y->csv) {
        csv_table(y, outcomes, room);
    } else {
        text_table(y, outcomes, room);
    }
    free(room);
}
