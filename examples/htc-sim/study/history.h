/* The jobs of a run that ended, as a log in the Standard Workload Format. */
#ifndef HTC_SIM_STUDY_HISTORY_H
#define HTC_SIM_STUDY_HISTORY_H

#include <stdio.h>

#include "htcsched/sim_jobs.h"

typedef struct history {
    char                path[512];
    char                draft[520]; /* takes its place once it is whole; "": there is none */
    FILE               *file;
    htc_sim_jobs_ended *at;
    size_t              n, room;
    int                 lost; /* there was no memory for a job */
} history;

/* Before the run, and not after hours: can it be written? Its path is set. 1; 0: error says why. */
int  history_open(history *h, htc_error *error);
void history_add(history *h, const htc_sim_jobs_ended *job);
/* In the order of submission, of a machine of so many nodes. The file is there as a whole, or as it was before. 1; 0: error says why. */
int  history_write(history *h, uint64_t nodes, htc_error *error);
void history_close(history *h);

#endif
