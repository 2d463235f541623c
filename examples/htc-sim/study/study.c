#include "study.h"
#include "pool.h"
#include "study_command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../fuzz.h"
#include "../policies.h"
#include "values.h"

/* ---- combinations: the last key changes fastest ---- */

const char *study_value(const study *y, size_t combination, size_t k)
{
    for (size_t i = y->n_vary; i-- > k + 1;)
        combination /= y->vary[i].n;
    return y->vary[k].value[combination % y->vary[k].n];
}

/* Ticks in which what was asked for would take no time. */
static int check_tick(const settings *s, htc_error *error)
{
    const char *name, *value;
    htc_ns      tick = settings_span(s, "sim.tick");
    for (size_t i = 0; (name = settings_item(s, i, &value)); i++) {
        size_t n = strlen(name);
        double mean_ns = n > 7 && strcmp(name + n - 7, ".length") == 0 ? settings_law(s, name).mean_ns : 0;
        if (mean_ns <= 0 || (double)tick <= mean_ns)
            continue;
        *error = (htc_error){ .status = HTC_ECONFIG };
        snprintf(error->text, sizeof error->text, "%.60s is %.60s, and a tick %.60s: nothing would take any time", name, value, settings_text(s, "sim.tick"));
        snprintf(error->hint, sizeof error->hint, "set sim.tick to a small part of what tasks take");
        return 0;
    }
    return 1;
}

static void *open_run(const study *y, settings *s, uint64_t seed, int draws, htc_error *error)
{
    return check_tick(s, error) ? y->model->open(s, seed, draws, error) : NULL;
}

int study_settings(const study *y, size_t combination, settings **out, htc_error *error)
{
    settings *s = settings_copy(y->base);
    *error = (htc_error){ .status = HTC_ENOMEM, .text = "no memory for the settings" };
    for (size_t k = 0; s && k < y->n_vary; k++)
        if (!settings_set(s, y->vary[k].key, study_value(y, combination, k), error)) {
            settings_destroy(s);
            s = NULL;
        }
    *out = s;
    return s != NULL;
}

int study_shows(const study *y, const char *name)
{
    size_t n = strlen(name);
    for (const char *at = y->measures; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strcspn(at, ",") == n && strncmp(at, name, n) == 0)
            return 1;
    return !y->measures;
}

outcome study_outcome(const study *y, const void *run)
{
    outcome o = { 0 };
    y->model->outcome(run, &o);
    if (o.error.text[0]) {
        o.failed = 1;
        snprintf(o.error.hint, sizeof o.error.hint, "this is a mistake of the model: its figures are not to be used");
    }
    return o;
}

/* ---- one run ---- */

/* From a checkpoint, if there is one, until the end or the next checkpoint. 1; 0: error. */
static int run_part(const study *y, const char *resume, void **run, watch *w, htc_error *e)
{
    checkpoint from = { 0 }, to = { 0 };
    settings  *same = resume ? settings_copy(y->base) : NULL; /* they are in the file, too */
    int        good = (*run = open_run(y, y->base, y->seed, 1, e)) != NULL;
    if (good && resume)
        good = checkpoint_read(&from, resume, same, e) && y->model->resume(*run, &from.tape, e);
    if (good && y->checkpoint)
        good = checkpoint_write(&to, y->checkpoint, y->base, e);
    if (good)
        good = y->model->run(*run, y->checkpoint ? &to.tape : NULL, w, e);
    if (!good && resume && !e->where[0] && (e->status == HTC_ECORRUPT || e->status == HTC_EFORMAT))
        snprintf(e->where, sizeof e->where, "%.150s", resume);
    if (good && y->checkpoint && !study_outcome(y, *run).done)
        good = checkpoint_written(&to, e);
    checkpoint_close(&from);
    checkpoint_close(&to);
    settings_destroy(same);
    if (!good)
        settings_place(y->base, e);
    return good;
}

static int run_once(const study *y)
{
    void       *run = NULL;
    watch       w;
    htc_error   e = { 0 };
    const char *resume = y->resume;
    int         ends = EXIT_FINE, good;
    watch_open(&w, settings_size(y->base, "sim.memory"), y->json);
    w.checkpoints = y->checkpoint != NULL;
    if (!policies_are_added()) /* one's own may keep what it learns where all grids' nodes find it */
        watch_threads(&w, y->jobs);
    w.host.stop_after = y->stop_after;
    while ((good = run_part(y, resume, &run, &w, &e)) && !study_outcome(y, run).done && !watch_stopped()) {
        uint64_t events = study_outcome(y, run).events;
        if (y->stop_after && events >= w.host.stop_after)
            break;
        w.host.stop_after -= y->stop_after ? events : 0;
        watch_go_on();
        y->model->close(run);
        resume = y->checkpoint;
    }
    watch_threads_end(&w);
    if (!good) {
        say_error(&e);
        y->model->close(run);
        return e.status == HTC_ENOMEM || e.status == HTC_EIO ? EXIT_BROKEN : EXIT_USAGE;
    }
    outcome o = study_outcome(y, run);
    y->model->say(run, y->json);
    if (!o.done && y->checkpoint && !y->json)
        printf("\nhtc-sim resume %s goes on with it\n", y->checkpoint);
    if (y->plot && y->model->plot(run, y->plot, "") != 0)
        ends = EXIT_BROKEN;
    if (o.failed) {
        say_error(&o.error);
        ends = EXIT_FAILED;
    }
    y->model->close(run);
    return !o.done && ends == EXIT_FINE ? EXIT_STOPPED : ends;
}

/* ---- many ---- */

static int first_error(const study *y, const outcome *all)
{
    uint64_t n = y->combinations * y->seeds;
    for (uint64_t i = 0; i < n; i++)
        if (all[i].failed) {
            for (size_t k = 0; k < y->n_vary; k++)
                fprintf(stderr, "htc-sim: with %s = %s\n", y->vary[k].key, study_value(y, (size_t)(i / y->seeds), k));
            fprintf(stderr, "htc-sim: with seed %llu\n", (unsigned long long)(y->seed + i % y->seeds));
            say_error(&all[i].error);
            return all[i].error.status == HTC_OK ? EXIT_FAILED : all[i].error.status == HTC_ENOMEM ? EXIT_BROKEN : EXIT_USAGE;
        }
    return EXIT_FINE;
}

static void run_one(const void *ctx, uint64_t index, watch *w, outcome *o)
{
    const study *y = ctx;
    size_t       combination = (size_t)(index / y->seeds);
    int          draws = y->plot && index % y->seeds == 0;
    const model *m = y->model;
    settings    *s = NULL;
    void        *run = NULL;
    char         suffix[32];
    if (!study_settings(y, combination, &s, &o->error) || !(run = open_run(y, s, y->seed + index % y->seeds, draws, &o->error)) || !m->run(run, NULL, w, &o->error)) {
        o->failed = 1;
        if (s)
            settings_place(s, &o->error);
    } else {
        *o = study_outcome(y, run);
        snprintf(suffix, sizeof suffix, "-%zu", combination + 1);
        if (draws && m->plot(run, y->plot, suffix) != 0) {
            o->failed = 1;
            o->error = (htc_error){ .status = HTC_ENOMEM, .text = "a picture could not be drawn", .hint = "choose a folder that can be written" };
        }
    }
    m->close(run);
    settings_destroy(s);
}

static int run_many(const study *y)
{
    pool     runs = { .n = y->combinations * y->seeds, .jobs = y->jobs, .memory_max = settings_size(y->base, "sim.memory"), .quiet = y->json || y->csv, .one = run_one, .ctx = y };
    outcome *all = calloc(y->combinations * y->seeds, sizeof *all);
    if (!all) {
        fprintf(stderr, "htc-sim: no memory for so many runs\n");
        return EXIT_BROKEN;
    }
    int how = pool_run(&runs, all), ends = how < 0 ? EXIT_BROKEN : first_error(y, all);
    if (ends == EXIT_FINE) {
        if (how)
            fprintf(stderr, "htc-sim: interrupted: what follows is of the runs that had ended until then\n");
        say_table(y, all);
        ends = how ? EXIT_STOPPED : EXIT_FINE;
    }
    free(all);
    return ends;
}

int study_is_command(const char *name)
{
    return strcmp(name, "run") == 0 || strcmp(name, "resume") == 0 || model_of(name) != NULL;
}

const char *study_nearest(const char *name)
{
    static const char *const others[] = { "run", "resume", "reproduce", "flow", "fuzz" };
    const char              *best = NULL;
    size_t                   least = strlen(name) < 4 ? 2 : 3; /* so many letters are another word */
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (value_distance(name, others[i]) < least) {
            best = others[i];
            least = value_distance(name, best);
        }
    for (const model *const *m = models; *m; m++)
        if (value_distance(name, (*m)->name) < least) {
            best = (*m)->name;
            least = value_distance(name, best);
        }
    return best;
}

int study_command(int argc, char **argv)
{
    study y;
    int   done, ends = study_options_read(argc, argv, &y, &done);
    if (!done)
        ends = y.combinations * y.seeds == 1 && y.n_vary == 0 && !y.csv ? run_once(&y) : run_many(&y);
    study_options_free(&y);
    return ends;
}
