/* The keeper: a process of one thread that has made itself what a plain task must be, so that a task inherits all of it and costs
 * no more than vfork, exec and wait. It stands in the place scratch/kN, with the place's two streams open; what a task leaves untouched
 * is used again, what it does not is set aside (renamed to scratch/kN.M) for the agent to store and remove.
 *
 * Agent and keeper share a ring of tasks. A task is put in by the agent, taken, run and answered by the keeper, and taken out by the agent,
 * in that order. One that waits can be withdrawn. The keeper is the subreaper of its tasks: it answers when no descendant is left.
 *
 * keepers in the slot's directory, mapped by both, says who runs what, for whoever comes when both are dead, and for live logs. */
#ifndef HTC_NET_EXEC_KEEPER_H
#define HTC_NET_EXEC_KEEPER_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "htcsched/machine.h"

#define HTC__KEEPER_DEPTH 16
#define HTC__KEEPER_WORDS (14 << 10) /* bytes of program, arguments and environment */
#define HTC__KEEPER_LIMITS 12
#define HTC__KEEPER_TELLS 2 /* with more waiting, the keeper does not tell of each end */

typedef enum htc__keeper_state {
    KEEPER_FREE = 0,
    KEEPER_WAITS,     /* put in */
    KEEPER_WITHDRAWN, /* taken back by the agent before the keeper took it */
    KEEPER_RUNS,      /* taken */
    KEEPER_SWEEPS,    /* its first process has ended: status, usage and end are there */
    KEEPER_DONE       /* all is there */
} htc__keeper_state;

/* What a task has left. */
typedef enum htc__keeper_left {
    KEEPER_LEFT_OUT = 1,    /* standard output is not empty */
    KEEPER_LEFT_ERROR = 2,  /* standard error */
    KEEPER_LEFT_OTHER = 4   /* anything else below its place, or a stream that is not as it was */
} htc__keeper_left;

typedef struct htc__keeper_limit {
    int           resource;
    struct rlimit limit;
} htc__keeper_limit;

typedef struct htc__keeper_task {
    _Atomic uint32_t state; /* htc__keeper_state */
    _Atomic uint32_t kill;  /* a signal for it, if it has not begun when the agent looks for its processes */
    /* by the agent */
    uint64_t job, task;
    uint32_t attempt;
    uint32_t n_args, n_env; /* of words: the program, n_args arguments, n_env variables, the directory, each with its zero */
    uint32_t n_limits;
    uint32_t directory; /* in words: where it begins; 0: in its place */
    htc__keeper_limit limits[HTC__KEEPER_LIMITS];
    /* by the keeper */
    _Atomic int32_t pid; /* of its first process; 0: none */
    int32_t  stage, error; /* htc__child_stage, errno: it could not be begun */
    int32_t  wait_status;
    uint64_t cpu_ns, memory_peak;
    htc_ns   started, ended; /* wall */
    uint32_t left;           /* htc__keeper_left; not 0: it is set aside */
    uint32_t aside;          /* as scratch/kN.aside */
    char     words[HTC__KEEPER_WORDS];
} htc__keeper_task;

typedef struct htc__keeper_ring {
    _Atomic uint32_t put;    /* tasks that were ever put in: what the keeper sleeps on */
    _Atomic uint32_t sleeps; /* the keeper does */
    _Atomic uint32_t told;   /* the agent is told, and has not looked since */
    htc__keeper_task tasks[HTC__KEEPER_DEPTH];
} htc__keeper_ring;

/* One keeper in the file. begin and end: ticks since boot between which the task's first process was started; end 0: it is being. */
typedef struct htc__keeper_record {
    uint64_t         job, task;
    _Atomic uint32_t attempt; /* 0: it runs nothing */
    _Atomic int32_t  pid;
    uint64_t         begin;
    _Atomic uint64_t end;
    int32_t          session; /* the keeper's, in which all of its tasks are; begun not later than since */
    uint64_t         since;
} htc__keeper_record;

#define HTC__KEEPERS_MAGIC "htckeep1"
#define HTC__KEEPERS_MAX 128
typedef struct htc__keepers_file {
    char               magic[8];
    char               boot[64];
    htc__keeper_record keeper[HTC__KEEPERS_MAX];
} htc__keepers_file;

/* What a keeper is made with; it reads this once. */
typedef struct htc__keeper_begin {
    htc__keeper_ring   *ring;
    htc__keeper_record *record;
    unsigned            number; /* N of its place */
    int                 slot_fd, event_fd;
    int                 socket; /* what was written to the streams of a place that is set aside goes there: its number, two descriptors */
    pid_t               parent;
} htc__keeper_begin;

/* In a process of its own that shares nothing else with anybody: system calls alone, no allocation, no lock. Does not return. */
void htc__keeper_be(const htc__keeper_begin *begin) __attribute__((noreturn));

#endif
