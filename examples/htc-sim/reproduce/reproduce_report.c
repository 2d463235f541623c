/* The report of all experiments, in Markdown, with pictures in the folder that has the report's name. */
#include <errno.h>
#include <glob.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "reproduce.h"

/* What stands in a cell of a table. */
static void cell(FILE *out, const char *text)
{
    for (; *text; text++)
        if (*text == '|')
            fputs("\\|", out);
        else if (*text == '<')
            fputs("&lt;", out);
        else
            fputc(*text, out);
}

static void counts(const experiment *e, size_t *holds, size_t *other, size_t *fails, size_t *not_run)
{
    *holds = *other = *fails = *not_run = 0;
    for (size_t i = 0; i < e->n_claims; i++) {
        *holds += e->claims[i].verdict == VERDICT_HOLDS && e->claims[i].rests_on == BASIS_PUBLISHED;
        *other += e->claims[i].verdict == VERDICT_HOLDS && e->claims[i].rests_on != BASIS_PUBLISHED;
        *fails += e->claims[i].verdict == VERDICT_FAILS;
        *not_run += e->claims[i].verdict == VERDICT_NOT_RUN;
    }
}

static void head(const reproduction *r, FILE *out)
{
    size_t holds = 0, other = 0, fails = 0, not_run = 0;
    double seconds = 0;
    for (size_t i = 0; i < r->n; i++) {
        size_t a, b, c, d;
        counts(r->experiment[i], &a, &b, &c, &d);
        holds += a;
        other += b;
        fails += c;
        not_run += d;
        seconds += r->experiment[i]->seconds;
    }
    fprintf(out,
            "# Published figures beside ours\n\n"
            "`htc-sim reproduce%s --report FILE` has written this page: do not edit it. Each experiment is a file in `examples/sim`, which has the\n"
            "published values, what is claimed of them, and how much they may differ: that was fixed beforehand, as the paper's own validation error, or\n"
            "what the description of the experiment allows, or 10 %% and the order. `htc-sim reproduce NAME` runs one of them. A run depends on nothing\n"
            "but its file and its seed, where it is no command; both stand below each heading.\n\n"
            "*Fitted*: a parameter of the model was made from the published value, so that nothing is shown where both agree. *Ours*: the paper has\n"
            "words or nothing, and the number is our reading of them, a bound of our own, or another form of ours. *Pilot*: the paper draws a curve without\n"
            "numbers, or gives the rule alone, and the number was calculated beforehand from its rules and data. Neither is a published value, though both\n"
            "stand in that column: they are counted apart.\n\n"
            "%zu experiments, %zu claims: %zu hold, %zu more hold that are fitted, ours or pilot, %zu do not, %zu were not run. All runs took %.1f minutes of one processor.\n"
            "What several experiments have in common ran once, and has its time in the first of them.\n\n"
            "| experiment | paper | | holds | fitted, ours, pilot | does not | not run | s |\n|---|---|---|---|---|---|---|---|\n",
            r->full ? " --full" : "", r->n, holds + other + fails + not_run, holds, other, fails, not_run, seconds / 60);
    for (size_t i = 0; i < r->n; i++) {
        const experiment *e = r->experiment[i];
        counts(e, &holds, &other, &fails, &not_run);
        fprintf(out, "| [%s](#%s) | %s, %s | ", e->id, e->id, e->paper, e->name);
        cell(out, e->about);
        fprintf(out, " | %zu | %zu | %zu | %zu | %.1f |\n", holds, other, fails, not_run, e->seconds);
    }
}

static void claims(const experiment *e, FILE *out)
{
    char published[64], ours[64], difference[64], must[48];
    fprintf(out, "| claim | published | ours | difference | must be | holds |\n|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < e->n_claims; i++) {
        const claim *c = &e->claims[i];
        claim_texts(c, published, ours, difference, sizeof ours);
        fprintf(out, "| ");
        cell(out, c->about);
        if (c->unit[0] && strcmp(c->unit, "%") != 0) {
            fprintf(out, ", ");
            cell(out, c->unit);
        }
        fprintf(out, " | %s | %s | %s | %s | %s |\n", published, ours, difference, must_words(c, must, sizeof must), verdict_word(c));
    }
    fputc('\n', out);
    for (size_t i = 0; i < e->n_claims; i++)
        if (e->claims[i].verdict == VERDICT_FAILS || reason_qualifies(&e->claims[i])) {
            fprintf(out, "*");
            cell(out, e->claims[i].about);
            fprintf(out, "*: ");
            cell(out, e->claims[i].why[0] ? e->claims[i].why : "we do not know why.");
            fprintf(out, "\n\n");
        }
}

static void picture(FILE *out, const char *path, const char *under)
{
    const char *file = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    fprintf(out, "![%s](%s/%s)\n\n", under, under, file);
}

static void pictures(const experiment *e, const char *folder, FILE *out)
{
    const char *name = strrchr(folder, '/') ? strrchr(folder, '/') + 1 : folder;
    char        pattern[1024], suffix[256];
    for (size_t i = 0; i < e->n_series; i++) {
        const series *s = &e->series[i];
        if (curve_begins(e, i)) {
            snprintf(pattern, sizeof pattern, "%s/%s-%s.svg", folder, e->id, s->plot);
            if (access(pattern, F_OK) == 0) /* none is drawn of what was not run */
                picture(out, pattern, name);
        }
        for (size_t k = 0; s->picture && k < s->n; k++) {
            glob_t found = { 0 };
            picture_suffix(e, s, k, suffix, sizeof suffix);
            snprintf(pattern, sizeof pattern, "%s/*%s.svg", folder, suffix);
            if (s->ran[k] && glob(pattern, 0, NULL, &found) == 0)
                for (size_t f = 0; f < found.gl_pathc; f++) {
                    fprintf(out, "%s%s%s:\n\n", s->about[0] ? s->about : s->name, s->n > 1 ? ", " : "", s->n > 1 ? s->point[k] : "");
                    picture(out, found.gl_pathv[f], name);
                }
            globfree(&found);
        }
    }
}

/* Whether two series have the same seeds, or are commands both: those have none. */
static int same_seeds(const series *a, const series *b)
{
    return (!a->model && !b->model) || (a->model && b->model && a->seed == b->seed && a->seeds == b->seeds);
}

/* The file that has the set-up, and the seeds of the runs: with the names of their series where they differ. */
static void setup(const experiment *e, FILE *out)
{
    const char *name = strrchr(e->file, '/') ? strrchr(e->file, '/') + 1 : e->file;
    int         differ = 0;
    for (size_t i = 1; i < e->n_series; i++)
        differ |= !same_seeds(&e->series[0], &e->series[i]);
    fprintf(out, "Set-up: `%s`.", name);
    for (size_t i = 0; i < e->n_series; i++) {
        const series *s = &e->series[i];
        size_t        before = 0;
        while (before < i && !same_seeds(&e->series[before], s))
            before++;
        if (before < i)
            continue;
        if (!s->model)
            fprintf(out, " Commands, without a seed");
        else if (s->seeds == 1)
            fprintf(out, " Seed %" PRIu64, s->seed);
        else
            fprintf(out, " Seeds %" PRIu64 " to %" PRIu64, s->seed, s->seed + s->seeds - 1);
        for (size_t k = i, n = 0; k < e->n_series && differ; k++)
            if (same_seeds(s, &e->series[k]))
                fprintf(out, "%s%s", n++ ? ", " : ": ", e->series[k].name);
        fputc('.', out);
    }
    fprintf(out, "\n\n");
}

int report_write(const reproduction *r, const char *file)
{
    FILE *out = fopen(file, "w");
    if (!out) {
        fprintf(stderr, "htc-sim: %s cannot be written: %s\n", file, strerror(errno));
        return -1;
    }
    head(r, out);
    for (size_t i = 0; i < r->n; i++) {
        const experiment *e = r->experiment[i];
        fprintf(out, "\n## %s\n\n%s, %s: ", e->id, e->paper, e->name);
        cell(out, e->about);
        fprintf(out, ".");
        if (e->cut[0]) {
            fprintf(out, " With `--full` alone: ");
            cell(out, e->cut);
            fprintf(out, ".");
        }
        fprintf(out, "\n\n");
        setup(e, out);
        claims(e, out);
        for (size_t k = 0; k < e->n_series; k++)
            if (e->series[k].error.text[0])
                fprintf(out, "The series %s has failed: %s\n\n", e->series[k].name, e->series[k].error.text);
        pictures(e, r->plot, out);
    }
    int bad = ferror(out);
    bad |= fclose(out) != 0;
    if (bad)
        fprintf(stderr, "htc-sim: %s could not be written\n", file);
    return bad ? -1 : 0;
}
