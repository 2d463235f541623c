/* An experiment of the micro-benchmark: a bag of equal tasks on one cluster, as jobs of its batch system or by agents. */
#ifndef HTC_SIM_STUDY_MICRO_H
#define HTC_SIM_STUDY_MICRO_H

#include "fairshare.h"

/* The model is that of fair sharing, with one user. */
typedef struct micro {
    fairshare *run;
    uint32_t   system; /* in the order of micro_systems */
    uint32_t   output; /* in the order of micro_outputs */
    uint64_t   tasks, cores;
    double     length_s; /* of a task, on average */
} micro;

extern const char *const micro_systems[], *const micro_outputs[];

/* What a run comes to by the paper's equation 2; cores: that can be of use, at most one a task. */
typedef struct micro_figures {
    double cores, makespan_s, efficiency;
    double bound_s, bound; /* equal tasks run in whole rounds: no makespan is shorter, no efficiency better */
} micro_figures;

micro_figures micro_figures_of(const micro *m);

/* micro_say.c */
void micro_say(const void *run, int json);
int  micro_plot(const void *run, const char *folder, const char *suffix);

#endif
