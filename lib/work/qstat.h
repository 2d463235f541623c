/* What qstat -xml of Grid Engine prints: a list of jobs. */
#ifndef HTC_WORK_QSTAT_H
#define HTC_WORK_QSTAT_H

#include "htcsched/bytes.h"
#include "htcsched/status.h"

/* The text of its elements, "" for one that is not there; lent for the call. */
typedef struct htc__qstat_job {
    const char *number, *name, *state, *tasks;
} htc__qstat_job;

/* One call for each, those that run and those that wait. HTC_OK; HTC_EFORMAT: it is no such list; HTC_ENOMEM; else what a call has answered. */
htc_status htc__qstat_read(htc_bytes xml, htc_status (*job)(void *ctx, const htc__qstat_job *job), void *ctx);

#endif
