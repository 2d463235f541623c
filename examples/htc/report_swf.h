/* The history of a gateway as a log in the Standard Workload Format: each task that has ended is a job of as many
 * processors as it has asked for cores. */
#ifndef HTC_EXAMPLES_REPORT_SWF_H
#define HTC_EXAMPLES_REPORT_SWF_H

#include "htc.h"

typedef struct swf_task {
    double   submitted, started, ended, cpu_s, memory; /* seconds since 1970; bytes */
    uint64_t job, index, cores; /* cores: of all its nodes */
    int64_t  status; /* htc_swf_status */
    size_t   user;
} swf_task;

typedef struct swf_log {
    swf_task *at;
    size_t    n, room, users;
    char    **user;
    uint64_t  slots; /* of the machine */
} swf_log;

/* One result of a job, as the gateway tells them. */
void       swf_log_add(swf_log *l, const json_t *job, const json_t *result);
/* On standard output, in the order of submission. */
htc_status swf_log_write(cli *c, swf_log *l);
void       swf_log_free(swf_log *l);

#endif
