/* A log in the Standard Workload Format as the work of a model: its jobs, one after the other. */
#ifndef HTC_SIM_STUDY_TRACE_H
#define HTC_SIM_STUDY_TRACE_H

#include <stdio.h>

#include "htcsched/swf.h"

#define TRACE_WEEKS 8 /* that are told */

typedef struct trace {
    char      file[512];
    uint64_t  per_node;        /* processors of a node */
    int       completed_alone; /* jobs that have completed, and no others */
    int       skip_bad;        /* broken lines are counted, and passed over */
    FILE     *from;
    htc_swf  *log;
    uint64_t  taken;           /* jobs that it gave */
    uint64_t  skipped, bad;    /* skipped: jobs that do not say how large or how long they are, or are not wanted */
    uint64_t  week[TRACE_WEEKS]; /* jobs that were submitted in each, those that are skipped too */
    htc_error error;           /* why it could not be read to its end; text "": it could */
} trace;

/* Its file and wishes are set. Also to begin again. 1; 0: error says why. */
int        trace_open(trace *t, htc_error *error);
void       trace_close(trace *t);
/* HTC_AGAIN: there are no more; HTC_EINPUT: there was none; after an error always that. */
htc_status trace_next(trace *t, htc_swf_job *job, uint64_t *nodes);
/* The job that was given last needs more nodes than there are. HTC_EINPUT. */
htc_status trace_too_large(trace *t, uint64_t number, uint64_t needs, uint64_t nodes, const char *hint);
htc_ns     trace_ns(double seconds); /* 0 of what is not known */
/* The error with FILE:LINE, or FILE, if there is one: 1. */
int        trace_failed(const trace *t, htc_error *error);

#endif
