#include "experiment.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../study/values.h"

typedef struct text {
    char words[1200];
} text;

/* What is read before series are known: claims and published values wait. */
typedef struct draft {
    experiment *e;
    series     *s; /* the section is of it; NULL: none */
    claim      *c;
    text       *value;  /* of claims */
    text       *vary, *full, *published; /* of series */
    char        section[128];
} draft;

static int refuse(htc_error *error, const char *what, const char *of, const char *hint)
{
    *error = (htc_error){ .status = HTC_ECONFIG };
    snprintf(error->text, sizeof error->text, "%.100s: %.100s", what, of);
    snprintf(error->hint, sizeof error->hint, "%s", hint);
    return 0;
}

/* A key that stands again goes on with its words. */
static int put(char *out, size_t room, const char *value, htc_error *error)
{
    size_t n = strlen(out);
    if (n + strlen(value) + 2 > room)
        return refuse(error, "it is too long", value, "say it in fewer words");
    snprintf(out + n, room - n, "%s%s", n ? " " : "", value);
    return 1;
}

/* ---- sections ---- */

static int begin_series(draft *d, const char *name, htc_error *error)
{
    experiment *e = d->e;
    if (e->n_series == SERIES_MAX || strlen(name) >= sizeof d->s->name || !name[0])
        return refuse(error, "too many series, or its name is too long", name, "divide the experiment into two files");
    for (size_t i = 0; i < e->n_series; i++)
        if (strcmp(e->series[i].name, name) == 0)
            return refuse(error, "this series is there already", name, "choose another name");
    d->s = &e->series[e->n_series++];
    snprintf(d->s->name, sizeof d->s->name, "%s", name);
    d->s->model = e->model;
    if (!(d->s->settings = settings_copy(e->base)))
        return refuse(error, "no memory", name, "make the file smaller");
    d->s->seed = settings_count(e->base, "sim.seed");
    d->s->seeds = 1;
    return 1;
}

static int begin(draft *d, const char *section, htc_error *error)
{
    d->s = NULL;
    d->c = NULL;
    snprintf(d->section, sizeof d->section, "%s", section);
    if (strncmp(section, "series.", 7) == 0)
        return begin_series(d, section + 7, error);
    if (strncmp(section, "claim.", 6) == 0) {
        if (d->e->n_claims == CLAIMS_MAX)
            return refuse(error, "too many claims", section, "divide the experiment into two files");
        d->c = &d->e->claims[d->e->n_claims++];
        return 1;
    }
    if (d->e->n_series)
        return refuse(error, "a section of the model stands behind a series", section, "the model's sections come first: they are the base of every series");
    return strcmp(section, "reproduce") == 0 || settings_section_begins(d->e->base, section, error);
}

static int take_reproduce(draft *d, const char *key, const char *value, htc_error *error)
{
    experiment *e = d->e;
    if (strcmp(key, "quick") == 0 && (strcmp(value, "yes") == 0 || strcmp(value, "no") == 0)) {
        e->quick = value[0] == 'y';
        return 1;
    }
    if (strcmp(key, "tolerance") == 0) {
        claim c;
        snprintf(e->tolerance, sizeof e->tolerance, "within %.30s", value);
        return must_parse(&c, e->tolerance, error);
    }
    return strcmp(key, "paper") == 0 ? put(e->paper, sizeof e->paper, value, error) :
           strcmp(key, "name") == 0  ? put(e->name, sizeof e->name, value, error) :
           strcmp(key, "about") == 0 ? put(e->about, sizeof e->about, value, error) :
           strcmp(key, "cut") == 0   ? put(e->cut, sizeof e->cut, value, error) :
                                       refuse(error, "[reproduce] has no such key, or it has another value", key, "paper, name, about, tolerance, quick (yes or no), cut");
}

static int take_model(const experiment *e, series *s, const char *value, htc_error *error)
{
    if (!(s->model = model_of(value)))
        return refuse(error, "there is no such model", value, "htc-sim --help lists the models");
    settings_destroy(s->settings);
    s->settings = settings_create(s->model->table);
    return s->settings && settings_beside(s->settings, e->file) && settings_set(s->settings, "sim.model", value, error);
}

static int take_basis(basis *out, const char *value, htc_error *error)
{
    static const char *const words[] = { "published", "fitted", "ours", "pilot" };
    for (uint32_t i = 0; i < 4; i++)
        if (strcmp(value, words[i]) == 0) {
            *out = (basis)i;
            return 1;
        }
    return refuse(error, "basis", value, "published, fitted, ours or pilot");
}

/* A key of the model. */
static int set_at(const experiment *e, settings *s, uint32_t line, const char *key, const char *value, htc_error *error)
{
    if (!settings_set(s, key, value, error))
        return 0;
    settings_stands(s, e->file, line);
    return 1;
}

static int take_series(draft *d, uint32_t line, const char *key, const char *value, htc_error *error)
{
    series  *s = d->s;
    size_t   i = (size_t)(s - d->e->series);
    uint64_t to;
    if (strchr(key, '.'))
        return set_at(d->e, s->settings, line, key, value, error);
    if (strcmp(key, "model") == 0)
        return take_model(d->e, s, value, error);
    if (strcmp(key, "command") == 0) {
        s->model = NULL;
        return put(s->command, sizeof s->command, value, error);
    }
    if (strcmp(key, "seeds") == 0) {
        if (!value_counts(value, &s->seed, &to) || to - s->seed >= SEEDS_MAX)
            return refuse(error, "seeds", value, "two numbers, A..B, the first not above the second, at most 1000 seeds");
        s->seeds = to - s->seed + 1;
        return 1;
    }
    if (strcmp(key, "basis") == 0)
        return take_basis(&s->rests_on, value, error);
    if (strcmp(key, "must") == 0) {
        claim c;
        return must_parse(&c, value, error) && put(s->must, sizeof s->must, value, error);
    }
    if (strcmp(key, "picture") == 0 && (strcmp(value, "yes") == 0 || strcmp(value, "no") == 0)) {
        s->picture = value[0] == 'y';
        return 1;
    }
    return strcmp(key, "about") == 0     ? put(s->about, sizeof s->about, value, error) :
           strcmp(key, "plot") == 0      ? put(s->plot, sizeof s->plot, value, error) :
           strcmp(key, "why") == 0       ? put(s->why, sizeof s->why, value, error) :
           strcmp(key, "vary") == 0      ? put(d->vary[i].words, sizeof d->vary[i].words, value, error) :
           strcmp(key, "full") == 0      ? put(d->full[i].words, sizeof d->full[i].words, value, error) :
           strcmp(key, "published") == 0 ? put(d->published[i].words, sizeof d->published[i].words, value, error) :
                                           refuse(error, "[series.NAME] has no such key", key, "about, model, command, vary, full, seeds, plot, picture (yes or no), published, must, why, basis, or a key of the model");
}

static int take_number(double *out, const char *key, const char *value, htc_error *error)
{
    char *end;
    *out = strtod(value, &end);
    return (end != value && *end == '\0' && isfinite(*out)) || refuse(error, key, value, "a number");
}

static int take_claim(draft *d, const char *key, const char *value, htc_error *error)
{
    claim *c = d->c;
    size_t i = (size_t)(c - d->e->claims);
    if (strcmp(key, "published") == 0) {
        c->has_published = 1;
        return take_number(&c->published, key, value, error);
    }
    if (strcmp(key, "ours") == 0) {
        c->has_known = 1;
        return take_number(&c->known, key, value, error);
    }
    return strcmp(key, "about") == 0 ? put(c->about, sizeof c->about, value, error) :
           strcmp(key, "value") == 0 ? put(d->value[i].words, sizeof d->value[i].words, value, error) :
           strcmp(key, "must") == 0  ? must_parse(c, value, error) :
           strcmp(key, "unit") == 0  ? put(c->unit, sizeof c->unit, value, error) :
           strcmp(key, "basis") == 0 ? take_basis(&c->rests_on, value, error) :
           strcmp(key, "why") == 0   ? put(c->why, sizeof c->why, value, error) :
                                       refuse(error, "[claim.NAME] has no such key", key, "about, value, published, basis, must, unit, why, ours");
}

static int take(void *ctx, uint32_t line, const char *section, const char *key, const char *value, htc_error *error)
{
    draft *d = ctx;
    char   name[256];
    if (!key)
        return begin(d, section, error);
    if (d->s)
        return take_series(d, line, key, value, error);
    if (d->c)
        return take_claim(d, key, value, error);
    if (strcmp(d->section, "reproduce") == 0)
        return take_reproduce(d, key, value, error);
    snprintf(name, sizeof name, "%s%s%s", section, section[0] ? "." : "", key);
    return set_at(d->e, d->e->base, line, name, value, error);
}

/* ---- when all is read ---- */

static size_t point_of(const series *s, const char *value)
{
    size_t i = 0;
    while (i < s->n && strcmp(s->point[i], value) != 0)
        i++;
    return i;
}

static int finish_vary(series *s, char *words, htc_error *error)
{
    char *colon = strstr(words, ": "), *rest = NULL;
    s->n = 1;
    if (!words[0])
        return 1;
    if (!colon || (size_t)(colon - words) >= sizeof s->varies)
        return refuse(error, "vary", words, "KEY: VALUE VALUE ...");
    *colon = '\0';
    snprintf(s->varies, sizeof s->varies, "%.95s", words);
    s->n = 0;
    for (char *v = strtok_r(colon + 2, " ", &rest); v; v = strtok_r(NULL, " ", &rest)) {
        if (s->n == POINTS_MAX || strlen(v) >= sizeof s->point[0])
            return refuse(error, "too many values, or one is too long", v, "at most 64");
        settings *test = s->model ? settings_copy(s->settings) : NULL;
        int       good = !s->model || (test && settings_set(test, s->varies, v, error));
        settings_destroy(test);
        if (!good)
            return 0;
        snprintf(s->point[s->n++], sizeof s->point[0], "%s", v);
    }
    return s->n > 0 || refuse(error, "vary", s->varies, "KEY: VALUE VALUE ...");
}

static int finish_full(series *s, char *words, htc_error *error)
{
    char *rest = NULL;
    if (strcmp(words, "yes") == 0) {
        memset(s->full, 1, s->n);
        return 1;
    }
    for (char *v = strtok_r(words, " ", &rest); v; v = strtok_r(NULL, " ", &rest)) {
        size_t i = point_of(s, v);
        if (i == s->n)
            return refuse(error, "full: vary has no such value", v, "write it as vary has it, or yes for the whole series");
        s->full[i] = 1;
    }
    return 1;
}

/* Each published value is a claim. */
static int finish_published(experiment *e, series *s, char *words, htc_error *error)
{
    char *rest = NULL, *end;
    for (char *v = strtok_r(words, " ", &rest); v; v = strtok_r(NULL, " ", &rest)) {
        char *colon = strchr(v, ':'), expression[200];
        if (!colon || !s->plot[0] || s->n_published == POINTS_MAX)
            return refuse(error, "published", v, "VALUE:NUMBER ..., and plot names the measure");
        *colon = '\0';
        published_value *p = &s->published[s->n_published++];
        p->point = point_of(s, v);
        p->value = strtod(colon + 1, &end);
        if (p->point == s->n || end == colon + 1 || *end || !isfinite(p->value))
            return refuse(error, "published: vary has no such value, or this is no number", v, "VALUE:NUMBER ...");
        if (e->n_claims == CLAIMS_MAX)
            return refuse(error, "too many claims", v, "divide the experiment into two files");
        claim *c = &e->claims[e->n_claims++];
        snprintf(c->about, sizeof c->about, "%s of %s at %s", s->plot, s->about[0] ? s->about : s->name, v);
        c->published = p->value;
        c->rests_on = s->rests_on;
        c->has_published = 1;
        snprintf(c->why, sizeof c->why, "%s", s->why);
        snprintf(expression, sizeof expression, "%s of %s at %s", s->plot, s->name, v);
        if (!must_parse(c, s->must[0] ? s->must : e->tolerance, error) || !claim_parse(e, c, expression, error))
            return 0;
    }
    return 1;
}

static int finish_claim(experiment *e, claim *c, const char *value, htc_error *error)
{
    if (!value[0])
        return refuse(error, "a claim has no value", c->about, "value = MEASURE of SERIES at VALUE");
    if (!claim_parse(e, c, value, error))
        return 0;
    int order = c->op == '>' || c->op == '<';
    if (order == c->has_published)
        return refuse(error, order ? "an order has no published number" : "a claim has no published number", value, "published = NUMBER, or value = TERM > TERM");
    if (order && c->has_known)
        return refuse(error, "an order has no number of ours", c->about, "ours is of claims that have a published number");
    if (!c->about[0])
        snprintf(c->about, sizeof c->about, "%.200s", value);
    return order || c->must_text[0] || must_parse(c, e->tolerance, error);
}

static int finish(draft *d, htc_error *error)
{
    experiment *e = d->e;
    size_t      claims = e->n_claims;
    if (!e->paper[0] || !e->name[0] || !e->about[0])
        return refuse(error, "[reproduce] lacks paper, name or about", e->id, "it says which table or figure this is");
    if (!e->n_series || !(claims || d->published[0].words[0]))
        return refuse(error, "there is nothing to compare", e->id, "[series.NAME] are runs, [claim.NAME] or published what is claimed of them");
    for (size_t i = 0; i < e->n_series; i++) {
        series *s = &e->series[i];
        if (!finish_vary(s, d->vary[i].words, error) || !finish_full(s, d->full[i].words, error))
            return 0;
        if (s->plot[0] && measure_of(s, s->plot) < 0)
            return refuse(error, "too many measures", s->plot, "divide the series into two");
    }
    for (size_t i = 0; i < claims; i++)
        if (!finish_claim(e, &e->claims[i], d->value[i].words, error))
            return 0;
    for (size_t i = 0; i < e->n_series; i++)
        if (!finish_published(e, &e->series[i], d->published[i].words, error))
            return 0;
    return 1;
}

/* ---- a file ---- */

static int model_in(experiment *e, const ini_text *t, htc_error *error)
{
    char name[64] = "";
    (void)ini_find(t, "sim", "model", name, sizeof name);
    e->model = model_of(name[0] ? name : models[0]->name);
    if (!e->model)
        return refuse(error, "there is no such model", name, "htc-sim --help lists the models");
    e->base = settings_create(e->model->table);
    return e->base && settings_beside(e->base, e->file) && settings_set(e->base, "sim.model", e->model->name, error);
}

static void name_it(experiment *e, const char *file)
{
    const char *base = strrchr(file, '/') ? strrchr(file, '/') + 1 : file;
    size_t      n = strcspn(base, ".");
    snprintf(e->file, sizeof e->file, "%s", file);
    snprintf(e->id, sizeof e->id, "%.*s", (int)n, base);
    snprintf(e->tolerance, sizeof e->tolerance, "within 10%%");
}

experiment *experiment_open(const char *file, htc_error *error)
{
    ini_text   *t = ini_open(file, error);
    experiment *e = t ? calloc(1, sizeof *e) : NULL;
    draft       d = { .e = e, .value = calloc(CLAIMS_MAX, sizeof(text)), .vary = calloc(SERIES_MAX, sizeof(text)), .full = calloc(SERIES_MAX, sizeof(text)),
                      .published = calloc(SERIES_MAX, sizeof(text)) };
    int         good = e && d.value && d.vary && d.full && d.published && (e->series = calloc(SERIES_MAX, sizeof *e->series)) &&
               (e->claims = calloc(CLAIMS_MAX, sizeof *e->claims));
    if (t && !good)
        (void)refuse(error, "no memory", file, "close other programs");
    if (good) {
        name_it(e, file);
        good = model_in(e, t, error) && ini_each(t, take, &d, error) && finish(&d, error);
        if (!good && !error->where[0])
            snprintf(error->where, sizeof error->where, "%.150s", file);
        if (!good) { /* the file's own words are in it */
            htc_text_show(error->text);
            htc_text_show(error->hint);
        }
    }
    free(d.value);
    free(d.vary);
    free(d.full);
    free(d.published);
    ini_close(t);
    if (good)
        return e;
    experiment_close(e);
    return NULL;
}

void experiment_close(experiment *e)
{
    if (!e)
        return;
    for (size_t i = 0; i < e->n_series; i++)
        settings_destroy(e->series[i].settings);
    settings_destroy(e->base);
    free(e->series);
    free(e->claims);
    free(e);
}
