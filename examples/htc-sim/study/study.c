#include "study.h"
#include "study_command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../fuzz.h"

const char *const measure_names[MEASURES] = { "makespan_s", "tasks_per_s", "efficiency", "idle_core_s", "fairness", "user_makespan_s", "response_s" };

/* ---- combinations: the last key changes fastest ---- */

const char *study_value(const study *y, size_t combination, size_t k)
{
    for (size_t i = y->n_vary; i-- > k + 1;)
        combination /= y->vary[i].n;
    return y->vary[k].value[combination % y->vary[k].n];
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

outcome study_outcome(const fairshare *f)
{
    const htc_sim_fairshare_report *r = &f->report;
    outcome                         o = { .hash = r->scale.hash, .done = !r->interrupted };
    double                          users = 0;
    o.value[MAKESPAN] = (double)r->scale.makespan / 1e9;
    o.value[THROUGHPUT] = r->throughput;
    o.value[EFFICIENCY] = r->efficiency;
    o.value[IDLE] = r->idle_s;
    o.value[FAIRNESS] = r->fairness;
    for (size_t u = 0; u < f->options.n_users; u++)
        if (f->results[u].ended) {
            users++;
            o.value[USER_MAKESPAN] += (double)f->results[u].makespan / 1e9;
            o.value[RESPONSE] += f->results[u].response_s * (double)f->results[u].ended;
        }
    o.value[USER_MAKESPAN] /= users > 0 ? users : 1;
    o.value[RESPONSE] /= r->scale.ended ? (double)r->scale.ended : 1;
    if (r->scale.wrong[0]) {
        o.failed = 1;
        snprintf(o.error.text, sizeof o.error.text, "%s", r->scale.wrong);
        snprintf(o.error.hint, sizeof o.error.hint, "this is a mistake of the model: its figures are not to be used");
    }
    return o;
}

/* ---- one run ---- */

/* From a checkpoint, if there is one, until the end or the next checkpoint. 1; 0: error. */
static int run_part(const study *y, const char *resume, fairshare *f, watch *w, htc_error *e)
{
    checkpoint from = { 0 }, to = { 0 };
    settings  *same = resume ? settings_copy(y->base) : NULL; /* they are in the file, too */
    int        good = fairshare_open(f, y->base, y->seed, 1, e);
    if (good && resume)
        good = checkpoint_read(&from, resume, same, e) && fairshare_resume(f, &from.tape, e);
    if (good && y->checkpoint)
        good = checkpoint_write(&to, y->checkpoint, y->base, e);
    if (good) {
        f->checkpoint = y->checkpoint ? &to.tape : NULL;
        good = fairshare_run(f, w, e);
    }
    if (good && y->checkpoint && f->report.interrupted)
        good = checkpoint_written(&to, e);
    checkpoint_close(&from);
    checkpoint_close(&to);
    settings_destroy(same);
    return good;
}

static int run_once(const study *y)
{
    fairshare   f = { 0 };
    watch       w;
    htc_error   e = { 0 };
    const char *resume = y->resume;
    int         ends = EXIT_FINE, good;
    watch_open(&w, settings_size(y->base, "sim.memory"), y->json);
    w.checkpoints = y->checkpoint != NULL;
    while ((good = run_part(y, resume, &f, &w, &e)) && f.report.interrupted && !watch_stopped()) {
        watch_go_on();
        fairshare_close(&f);
        resume = y->checkpoint;
    }
    if (!good) {
        say_error(&e);
        fairshare_close(&f);
        return e.status == HTC_ENOMEM || e.status == HTC_EIO ? EXIT_BROKEN : EXIT_USAGE;
    }
    outcome o = study_outcome(&f);
    say_run(y, &f);
    if (!o.done && y->checkpoint && !y->json)
        printf("\nhtc-sim resume %s goes on with it\n", y->checkpoint);
    if (y->plot && plot_run(y, &f, "") != 0)
        ends = EXIT_BROKEN;
    if (o.failed) {
        say_error(&o.error);
        ends = EXIT_FAILED;
    }
    fairshare_close(&f);
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

static int run_many(const study *y)
{
    outcome *all = calloc(y->combinations * y->seeds, sizeof *all);
    if (!all) {
        fprintf(stderr, "htc-sim: no memory for so many runs\n");
        return EXIT_BROKEN;
    }
    int how = pool_run(y, all), ends = how < 0 ? EXIT_BROKEN : first_error(y, all);
    if (ends == EXIT_FINE) {
        say_table(y, all);
        ends = how ? EXIT_STOPPED : EXIT_FINE;
    }
    free(all);
    return ends;
}

int study_command(int argc, char **argv)
{
    study y;
    int   done, ends = study_options_read(argc, argv, &y, &done);
    if (!done)
        ends = y.combinations * y.seeds == 1 && y.n_vary == 0 ? run_once(&y) : run_many(&y);
    study_options_free(&y);
    return ends;
}
