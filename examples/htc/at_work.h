/* Whether a process that says nothing is at work: what it reads, and how long it computes. */
#ifndef HTC_EXAMPLES_AT_WORK_H
#define HTC_EXAMPLES_AT_WORK_H

#include <stdint.h>
#include <sys/types.h>

typedef struct work_done {
    uint64_t read;    /* bytes, of files: what comes from sockets is not counted */
    double   seconds; /* of its threads' time */
} work_done;

/* Since it began; 0 where the system does not say. */
work_done work_of(pid_t pid);
/* It has done more since then than one that waits for others does in so many seconds. */
int has_worked(const work_done *now, const work_done *then, double seconds);

#endif
