/* The same experiment with partition controllers, but run: a process of this machine for each controller and one for the monitor, a store that stands, and its clock. */
#ifndef HTC_SIM_STUDY_JOBS_LIVE_H
#define HTC_SIM_STUDY_JOBS_LIVE_H

#include "jobs.h"

#define JOBS_LIVE_CONTROLLERS 64

/* As htc_sim_jobs_run, of j->options, with records in the store at this address. There are no agents: a job is a time that its nodes are taken for.
 * 1; 0: error says why. */
int jobs_live_run(jobs_study *j, const char *address, htc_error *error);

#endif
