/* An experiment of partition controllers: its options, one run of it. */
#ifndef HTC_SIM_STUDY_JOBS_H
#define HTC_SIM_STUDY_JOBS_H

#include "history.h"
#include "htcsched/sim_jobs.h"
#include "model.h"
#include "trace.h"

/* The course of a run: at most so many samples. */
#define JOBS_SAMPLES 2400

typedef struct jobs_course {
    size_t   n;
    htc_ns   step; /* so far they are apart, at least; each holds until the next one */
    htc_ns   at[JOBS_SAMPLES];
    uint64_t waiting[JOBS_SAMPLES], running[JOBS_SAMPLES], ended[JOBS_SAMPLES], busy[JOBS_SAMPLES], taken[JOBS_SAMPLES];
} jobs_course;

typedef struct jobs_study {
    htc_sim_jobs_options options;
    htc_sim_jobs_exact_options exact;
    int                  exactly; /* 1: in the exact engine */
    htc_registry        *registry; /* of policies by name */
    char                 policy[HTC_REGISTRY_NAME_MAX + 1];
    trace                log; /* its file is "": jobs are drawn */
    int                  log_at_once; /* 1: its jobs are all there from the beginning */
    htc_sim_jobs_report  report;
    jobs_course         *course;  /* NULL: not wanted */
    const htc_scale_tape *resume; /* NULL: none */
    int                  live;    /* 1: processes, a store and the clock of this machine, in place of the model */
    char                 store[256]; /* its address */
    history              history; /* its path is "": none is written */
    double               seconds; /* that the run took here */
} jobs_study;

/* jobs_say.c */
void jobs_say(const void *run, int json);
int  jobs_plot(const void *run, const char *folder, const char *suffix);

#endif
