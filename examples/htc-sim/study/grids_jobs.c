/* Jobs of several grids that an experiment names one by one: each [job.NAME] is a class of its own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "grids.h"

static int by_arrival(const void *a, const void *b)
{
    const htc_sim_grids_job *x = a, *y = b;
    return x->arrival != y->arrival ? (x->arrival > y->arrival) - (x->arrival < y->arrival) : (x->kind > y->kind) - (x->kind < y->kind);
}

static uint64_t count_of(settings *s, const char *name)
{
    return settings_count(s, settings_in(s, "job", name, "count"));
}

int grids_named_jobs(grids_run *g, settings *s, htc_error *error)
{
    size_t   kinds = settings_sections(s, "job");
    uint64_t n = 0, made = 0;
    for (size_t i = 0; i < kinds; i++)
        n += count_of(s, settings_section(s, "job", i));
    if (n == 0 || n > GRIDS_JOBS_NAMED)
        return settings_refuse(error, HTC_ETOOBIG, "[job.NAME] are none, or more than a million, jobs in all", "change their count, or draw them: [class.NAME]");
    g->jobs = calloc(n, sizeof *g->jobs);
    if (!g->jobs)
        return settings_refuse(error, HTC_ENOMEM, "no memory for the experiment", "make it smaller");
    for (size_t i = 0; i < kinds; i++) {
        const char *name = settings_section(s, "job", i);
        uint64_t    count = count_of(s, name);
        htc_ns      at = settings_span(s, settings_in(s, "job", name, "at")), every = settings_span(s, settings_in(s, "job", name, "every"));
        double      kflop = settings_real(s, settings_in(s, "job", name, "kflop")), rho = settings_real(s, settings_in(s, "job", name, "rho"));
        if (strlen(name) >= sizeof *g->class_names)
            return settings_refuse(error, HTC_ECONFIG, "the name of a job is too long", "names have at most 47 bytes");
        snprintf(g->class_names[i], sizeof *g->class_names, "%s", name);
        g->classes[i] = (htc_sim_grids_class){ .size = sizeof *g->classes, .share = 1, .kflop_min = kflop, .kflop_max = kflop };
        for (uint64_t k = 0; k < count; k++)
            g->jobs[made++] = (htc_sim_grids_job){ .size = sizeof *g->jobs, .arrival = at + k * every, .kflop = kflop, .rho = rho,
                                                   .tasks = (uint32_t)settings_count(s, settings_in(s, "job", name, "tasks")), .kind = (uint32_t)i };
    }
    qsort(g->jobs, n, sizeof *g->jobs, by_arrival);
    g->options.jobs = g->jobs;
    g->options.n_jobs = n;
    return 1;
}
