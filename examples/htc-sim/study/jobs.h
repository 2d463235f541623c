/* An experiment of partition controllers: its options, one run of it. */
#ifndef HTC_SIM_STUDY_JOBS_H
#define HTC_SIM_STUDY_JOBS_H

#include "htcsched/sim_jobs.h"
#include "model.h"

typedef struct jobs_study {
    htc_sim_jobs_options options;
    htc_registry        *registry; /* of policies by name */
    uint32_t             policy, order; /* as the settings have them */
    htc_sim_jobs_report  report;
    double               seconds; /* that the run took here */
} jobs_study;

extern const char *const jobs_policies[], *const jobs_orders[];

/* jobs_say.c */
void jobs_say(const void *run, int json);
int  jobs_plot(const void *run, const char *folder, const char *suffix);

#endif
