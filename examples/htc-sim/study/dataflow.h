/* An experiment of tasks that wait for tasks and read what these made: its options, one run of it, and its course. */
#ifndef HTC_SIM_STUDY_DATAFLOW_H
#define HTC_SIM_STUDY_DATAFLOW_H

#include "htcsched/registry.h"
#include "htcsched/sim_dataflow.h"
#include "model.h"

#define DATAFLOW_SAMPLES 2000

/* Samples; when there is no more room, every other one goes. */
typedef struct dataflow_course {
    double   at[DATAFLOW_SAMPLES]; /* seconds */
    uint64_t busy[DATAFLOW_SAMPLES], ready[DATAFLOW_SAMPLES], waiting[DATAFLOW_SAMPLES], ended[DATAFLOW_SAMPLES];
    size_t   n;
    uint64_t every, seen;
} dataflow_course;

typedef struct dataflow_study {
    htc_sim_dataflow_options options;
    htc_steal_options        steal;
    htc_locality_options     locality;
    htc_sim_dataflow_phase  *phases;
    htc_registry            *registry; /* of policies by name */
    htc_flow                *flow;     /* NULL: none is given */
    uint64_t                 bound_k;  /* tasks of a slot for the bound; 0: it is not asked for */
    double                   bound_s;
    htc_sim_dataflow_report  report;
    dataflow_course         *course;
    double                   copy_in_s; /* before the first task */
    double                   seconds;   /* that the run took here */
} dataflow_study;

extern const char *const dataflow_systems[], *const dataflow_shapes[];

/* dataflow_course.c */
int  dataflow_course_open(dataflow_study *d, htc_error *error);
void dataflow_course_keep(void *ctx, const htc_sim_dataflow_sample *s);
/* Seconds at the end in which fewer parts of the cores are busy. */
double dataflow_course_tail(const dataflow_study *d, double part);
/* Seconds until so many parts of the cores are busy for the first time; the makespan if they never are. */
double dataflow_course_reaches(const dataflow_study *d, double part);

/* dataflow_say.c */
void dataflow_say(const void *run, int json);
int  dataflow_plot(const void *run, const char *folder, const char *suffix);

/* flow_exact.c: a flow from a file. NULL: error says why. */
htc_flow *study_flow(const char *file, htc_error *error);

#endif
