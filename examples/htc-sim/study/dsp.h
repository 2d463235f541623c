/* An experiment of dynamic service provision: runtime environments with their workloads on one provider, one run of it, and what is kept of that. */
#ifndef HTC_SIM_STUDY_DSP_H
#define HTC_SIM_STUDY_DSP_H

#include "htcsched/sim_provision.h"
#include "model.h"
#include "trace.h"

#define DSP_TRES    64  /* of an experiment */
#define DSP_SAMPLES 2400
#define DSP_SHOWN   16  /* environments of a picture; those beyond the last place are added up there */

/* How far a source of jobs has been asked. */
typedef struct dsp_place {
    uint64_t asked, print; /* print: of the jobs that it gave */
} dsp_place;

/* Where the jobs or workflows of an environment come from. */
typedef struct dsp_work {
    dsp_place *place;
    char      name[48], file[512]; /* of the environment; file: of the workflow */
    trace     log;                 /* its file is "": there is none */
    int       estimates;
    htc_ns    window;
    uint64_t  jobs, next, nodes_min, nodes_max, seed; /* drawn jobs */
    htc_scale *draws;
    htc_scale_arrivals arrivals;
    htc_scale_law length;
    htc_ns    at;
    htc_sim_provision_flow flow; /* or a workflow: flow.tasks is not 0 */
    htc_ns                *lengths;
    htc_sim_provision_edge *edges;
} dsp_work;

/* The course of a run. */
typedef struct dsp_course {
    size_t   n, shown;
    uint64_t every, seen; /* of the model's samples one in every is kept */
    double   at[DSP_SAMPLES], units[DSP_SAMPLES], cost[DSP_SAMPLES];
    double   held[DSP_SAMPLES][DSP_SHOWN], busy[DSP_SAMPLES], waiting[DSP_SAMPLES];
} dsp_course;

typedef struct dsp_study {
    htc_sim_provision_options     options;
    htc_sim_provision_environment environment[DSP_TRES];
    htc_provision_options         book[DSP_TRES], shared;
    dsp_work                      work[DSP_TRES];
    htc_provision_setup           setup;
    htc_sim_provision_exact_options exact;
    int                           exactly; /* the exact engine runs it */
    htc_registry                 *registry; /* of policies by name */
    htc_ns                        every;    /* between samples */
    dsp_course                   *course;   /* NULL: not wanted */
    double                        seconds;  /* that the run took here */
    const htc_scale_tape         *resume;
    /* What follows, and the course, is what a checkpoint has beside the model. */
    uint32_t                      has_ended, compared; /* the run has; of dedicated clusters so many are known */
    dsp_place                     place[DSP_TRES];
    htc_sim_provision_report      report;
    htc_sim_provision_result      result[DSP_TRES];
    double                        dedicated[DSP_TRES]; /* node-units of a dedicated cluster */
    double                        dedicated_all;
    uint64_t                      hour_peak, hour_before; /* the most node-units of one lease unit; charged when it began */
    htc_ns                        hour_at;
} dsp_study;

/* dsp_work.c. 1; 0: error says why. */
int  dsp_work_open(dsp_work *w, settings *s, uint64_t seed, htc_sim_provision_environment *e, htc_error *error);
int  dsp_work_again(dsp_work *w, htc_error *error); /* from the beginning */
int  dsp_work_goes_on(dsp_work *w, htc_error *error); /* from its place, if it has given the same until then */
void dsp_work_close(dsp_work *w);

int    dsp_is_done(const dsp_study *d); /* its dedicated clusters too */
double dsp_setup_an_hour(const dsp_study *d); /* seconds */

/* dsp_say.c */
extern const char *const dsp_systems[];
void dsp_say(const void *run, int json);
int  dsp_plot(const void *run, const char *folder, const char *suffix);

#endif
