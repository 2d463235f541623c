/* An experiment with several grids: its settings, one run of it, and what is kept of that. */
#ifndef HTC_SIM_STUDY_GRIDS_H
#define HTC_SIM_STUDY_GRIDS_H

#include "htcsched/sim_grids.h"
#include "model.h"

#define GRIDS_SHOWN   16 /* queues whose course is kept; those beyond the last place are added up there */
#define GRIDS_SAMPLES 2400

typedef struct grids_course {
    size_t   n, queues, grids;
    uint64_t every, seen; /* of the model's samples one in every is kept */
    double   at[GRIDS_SAMPLES];
    uint64_t jobs[GRIDS_SAMPLES];
    double   busy[GRIDS_SAMPLES][GRIDS_SHOWN], queued[GRIDS_SAMPLES][GRIDS_SHOWN];
} grids_course;

#define GRIDS_LEVELS 9
#define GRIDS_JOBS_NAMED 1000000u
#define GRIDS_JOBS_LIVE  1000u

/* Of completed jobs. */
typedef struct grids_ends {
    uint64_t jobs[GRIDS_LEVELS][GRIDS_LEVELS]; /* by the first level on their way down that takes their complexity, and the one that they ended in */
    double   by_fate[HTC_SIM_GRIDS_FAILED + 1]; /* CPU time, lost or not, of jobs with each htc_sim_grids_fate: not of completed ones alone */
    double   wall[GRIDS_LEVELS], work[GRIDS_LEVELS]; /* seconds, by the level that they ended in */
    struct {
        double wanted, part; /* jobs of several tasks that wanted more CPUs than they had, and the sum of the CPUs of each, of its tasks */
        double running, response, alone; /* seconds of jobs of several tasks; alone: of all their tasks on the CPUs that others leave, for each job alone */
    } queue[HTC_HIERARCHY_QUEUES_MAX];
    double   n, x, y, xx, yy, xy, waited; /* of jobs of the top level: their response, and the waiting of the job of the lowest that ended last */
} grids_ends;

typedef struct grids_run {
    htc_sim_grids_options  options;
    htc_sim_grids_profile *profile; /* where no queues are named */
    htc_hierarchy_options  hierarchy;
    htc_hierarchy_grid    *hierarchy_grids;
    htc_hierarchy_queue   *hierarchy_queues;
    htc_sim_grids_grid    *grids;
    htc_sim_grids_queue   *queues;
    htc_sim_grids_class   *classes;
    htc_sim_grids_job     *jobs; /* that are named; NULL: they are drawn */
    uint32_t              *used; /* grids of each queue, HTC_HIERARCHY_GRIDS_MAX apart */
    char                 (*queue_names)[48], (*class_names)[48];
    size_t                 n_queues, levels;
    int                    live; /* 1: processes and the clock of this machine, in place of the model */
    int                    exactly; /* 1: the exact engine */
    htc_sim_grids_exact_options exact;
    uint64_t               cpus;
    htc_sim_grids_report   report;
    htc_sim_grids_result  *by_queue, *by_class;
    grids_course          *course; /* NULL: not wanted */
    grids_ends             ends;
    const htc_scale_tape  *resume; /* NULL: none */
    double                 seconds; /* that the run took here */
} grids_run;

/* grids_jobs.c: those of [job.NAME]. 1; 0: error says why. */
int grids_named_jobs(grids_run *g, settings *s, htc_error *error);

/* grids_value.c */
void grids_note_end(void *run, const htc_sim_grids_end *e);
int  grids_value(const void *run, const char *name, double *out);

/* grids_say.c */
void grids_say(const void *run, int json);
int  grids_plot(const void *run, const char *folder, const char *suffix);

#endif
