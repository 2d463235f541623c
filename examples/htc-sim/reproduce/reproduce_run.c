/* All runs of all experiments, in processes. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../study/pool.h"
#include "reproduce.h"

typedef struct one_run {
    uint32_t experiment, series, point, seed; /* seed: from 0 */
    uint64_t key, done_as;                    /* done_as: the number of what is done for it; key: of such a run, 0: it is nobody else's */
} one_run;

/* What stands in several experiments is done once: the first of them has the time of it. */
typedef struct plan {
    const reproduction *r;
    one_run            *run;
    uint64_t            n;
    uint64_t           *distinct; /* runs that are done, by their numbers */
    uint64_t            n_distinct;
} plan;

void picture_suffix(const experiment *e, const series *s, size_t point, char *out, size_t room)
{
    snprintf(out, room, "-%s-%s%s%s", e->id, s->name, s->n > 1 ? "-" : "", s->n > 1 ? s->point[point] : "");
}

int series_runs(const reproduction *r, const series *s)
{
    return s->model || r->live;
}

static series *series_of(const plan *p, const one_run *at)
{
    return &p->r->experiment[at->experiment]->series[at->series];
}

/* The one that has been planned and finds what this one does: from now on it finds all that this one is asked for. NULL: none. */
static const one_run *same_run(const plan *p, const one_run *at)
{
    const series *s = series_of(p, at);
    for (uint64_t i = 0; i < p->n_distinct && at->key; i++) {
        const one_run *other = &p->run[p->distinct[i]];
        int            has_all = other->key == at->key;
        for (size_t m = 0; m < s->n_own && has_all; m++)
            has_all = measure_of(series_of(p, other), s->measure[m]) >= 0;
        if (has_all)
            return other;
    }
    return NULL;
}

static void plan_distinct(plan *p)
{
    for (size_t i = 0; i < p->r->n; i++)
        for (size_t k = 0; k < p->r->experiment[i]->n_series; k++)
            p->r->experiment[i]->series[k].n_own = p->r->experiment[i]->series[k].n_measures;
    for (uint64_t i = 0; i < p->n; i++) {
        one_run      *at = &p->run[i];
        const series *s = series_of(p, at);
        int           draws = p->r->plot && s->picture && at->seed == 0;
        at->key = s->model && !draws ? run_key(s, at->point, at->seed) : 0;
        const one_run *other = same_run(p, at);
        at->done_as = other ? other->done_as : p->n_distinct;
        if (!other)
            p->distinct[p->n_distinct++] = i;
    }
}

static int plan_make(const reproduction *r, plan *p)
{
    uint64_t room = 0;
    for (size_t i = 0; i < r->n; i++)
        for (size_t k = 0; k < r->experiment[i]->n_series; k++)
            room += r->experiment[i]->series[k].n * r->experiment[i]->series[k].seeds;
    *p = (plan){ .r = r, .run = calloc(room + 1, sizeof *p->run), .distinct = calloc(room + 1, sizeof *p->distinct) };
    if (!p->run || !p->distinct)
        return 0;
    for (uint32_t i = 0; i < r->n; i++) {
        const experiment *e = r->experiment[i];
        for (uint32_t k = 0; k < e->n_series; k++)
            for (uint32_t v = 0; v < e->series[k].n; v++)
                for (uint32_t seed = 0; seed < e->series[k].seeds && series_runs(r, &e->series[k]) && (r->full || !e->series[k].full[v]); seed++)
                    p->run[p->n++] = (one_run){ .experiment = i, .series = k, .point = v, .seed = seed };
    }
    plan_distinct(p);
    return 1;
}

/* ---- one of them ---- */

static int value_named(const series *s, const void *run, const outcome *o, const char *name, double *out)
{
    if (strcmp(name, "run_s") == 0) {
        *out = o->seconds;
        return 1;
    }
    for (size_t m = 0; s->model->measures[m].name; m++)
        if (strcmp(s->model->measures[m].name, name) == 0) {
            *out = o->value[m];
            return 1;
        }
    return s->model->value && s->model->value(run, name, out);
}

static int no_measure(const char *name, htc_error *error)
{
    *error = (htc_error){ .status = HTC_ECONFIG };
    snprintf(error->text, sizeof error->text, "there is no measure %.100s", name);
    snprintf(error->hint, sizeof error->hint, "htc-sim --help lists the measures of each model");
    return 0;
}

/* The words with each {value} replaced. 1; 0: it is too long. */
static int fill(const char *words, const char *value, char *out, size_t room)
{
    size_t n = 0;
    while (*words) {
        int    here = strncmp(words, "{value}", 7) == 0;
        size_t more = here ? strlen(value) : 1;
        if (n + more + 1 > room)
            return 0;
        memcpy(out + n, here ? value : words, more);
        n += more;
        words += here ? 7 : 1;
    }
    out[n] = '\0';
    return 1;
}

/* What the program prints is one JSON object with numbers by name. */
static int run_command(const series *s, size_t point, outcome *o)
{
    char         line[1024];
    json_error_t why;
    FILE        *from = fill(s->command, s->point[point], line, sizeof line) ? popen(line, "r") : NULL; /* a user's own file says what is run */
    json_t      *found = from ? json_loadf(from, 0, &why) : NULL;
    int          ended = from ? pclose(from) : -1, good = found && ended == 0;
    o->error = (htc_error){ .status = HTC_EIO };
    if (!good) {
        snprintf(o->error.text, sizeof o->error.text, "a command of a series has failed, or has not printed one JSON object");
        snprintf(o->error.hint, sizeof o->error.hint, "run it: %.140s", line);
    }
    for (size_t m = 0; good && m < s->n_measures; m++) {
        const json_t *v = json_object_get(found, s->measure[m]);
        o->value[m] = json_number_value(v);
        good = json_is_number(v) || no_measure(s->measure[m], &o->error);
    }
    json_decref(found);
    return good;
}

static int run_model(const experiment *e, const series *s, const one_run *at, const char *folder, watch *w, outcome *o)
{
    settings *set = settings_copy(s->settings);
    void     *run = NULL;
    char      suffix[256];
    int       drawn = folder && s->picture && at->seed == 0;
    double    value[MEASURES_MAX] = { 0 };
    int good = set && (!s->varies[0] || settings_set(set, s->varies, s->point[at->point], &o->error)) &&
               (run = s->model->open(set, s->seed + at->seed, drawn, &o->error)) && s->model->run(run, NULL, w, &o->error);
    if (!good && set && !o->error.where[0]) {
        settings_place(set, &o->error);
        if (!o->error.line) /* the series says more than the file */
            o->error.where[0] = '\0';
    }
    if (good) {
        double begun = o->seconds;
        s->model->outcome(run, o);
        o->seconds = watch_seconds() - begun;
        good = !o->error.text[0] && (o->done || watch_stopped());
        picture_suffix(e, s, at->point, suffix, sizeof suffix);
        if (good && drawn && s->model->plot(run, folder, suffix) != 0) {
            snprintf(o->error.text, sizeof o->error.text, "a picture could not be drawn");
            good = 0;
        }
    }
    for (size_t m = 0; good && m < s->n_measures; m++)
        if (!value_named(s, run, o, s->measure[m], &value[m])) /* other experiments may have asked for it */
            o->lacks |= UINT32_C(1) << m;
    memcpy(o->value, value, sizeof value);
    if (run)
        s->model->close(run);
    settings_destroy(set);
    return good;
}

static void one(const void *ctx, uint64_t index, watch *w, outcome *o)
{
    const plan       *p = ctx;
    const one_run    *at = &p->run[p->distinct[index]];
    const experiment *e = p->r->experiment[at->experiment];
    const series     *s = &e->series[at->series];
    const char       *pictures = s->model && s->picture && at->seed == 0 ? p->r->plot : NULL;
    if (p->r->keep && kept_find(p->r->keep, pictures, e, s, at->point, at->seed, o))
        return;
    o->seconds = watch_seconds();
    o->failed = s->model ? !run_model(e, s, at, p->r->plot, w, o) : !run_command(s, at->point, o);
    if (!s->model) {
        o->seconds = watch_seconds() - o->seconds;
        o->done = 1;
    }
    o->done = o->done && !o->failed;
    if (p->r->keep && o->done && !o->lacks)
        kept_write(p->r->keep, pictures, e, s, at->point, at->seed, o);
}

/* ---- what came of them ---- */

/* Where it stands in what has been done for this run. */
static size_t place_of(const plan *p, const one_run *at, size_t m)
{
    return (size_t)measure_of(series_of(p, &p->run[p->distinct[at->done_as]]), series_of(p, at)->measure[m]);
}

/* 1: it has come to an end, with all that its own series asks for. */
static int has_come(const plan *p, const one_run *at, const outcome *o)
{
    series *s = series_of(p, at);
    if (o->failed && !s->error.text[0])
        s->error = o->error;
    for (size_t m = 0; m < s->n_own && o->done; m++)
        if (o->lacks >> place_of(p, at, m) & 1)
            return s->error.text[0] ? 0 : no_measure(s->measure[m], &s->error);
    return o->done && !o->failed;
}

static void gather(const plan *p, const outcome *all)
{
    static double value[SEEDS_MAX];
    for (uint64_t i = 0; i < p->n;) {
        experiment *e = p->r->experiment[p->run[i].experiment];
        series     *s = series_of(p, &p->run[i]);
        size_t      point = p->run[i].point, done = 0;
        for (uint64_t k = 0; k < s->seeds; k++) {
            const outcome *o = &all[p->run[i + k].done_as];
            done += has_come(p, &p->run[i + k], o);
            e->runs += o->done;
            e->seconds += o->done && p->distinct[p->run[i + k].done_as] == i + k ? o->seconds : 0;
        }
        s->ran[point] = done == s->seeds;
        for (size_t m = 0; m < s->n_own && s->ran[point]; m++) {
            for (uint64_t k = 0; k < s->seeds; k++)
                value[k] = all[p->run[i + k].done_as].value[place_of(p, &p->run[i + k], m)];
            s->found[point][m] = estimate_of(value, s->seeds);
        }
        i += s->seeds;
    }
}

int reproduction_run(reproduction *r)
{
    plan     p;
    outcome *all = plan_make(r, &p) ? calloc(p.n_distinct + 1, sizeof *all) : NULL;
    pool     runs = { .n = p.n_distinct, .jobs = r->jobs, .memory_max = r->memory_max, .quiet = r->json, .one = one, .ctx = &p };
    int      how = all ? p.n ? pool_run(&runs, all) : 0 : -1;
    if (!all)
        fprintf(stderr, "htc-sim: no memory for so many runs\n");
    if (how >= 0)
        gather(&p, all);
    for (size_t i = 0; i < r->n && how >= 0; i++)
        claims_judge(r->experiment[i]);
    free(all);
    free(p.run);
    free(p.distinct);
    return how;
}
