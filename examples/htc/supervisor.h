/* Runs the daemons of one state directory and starts again what ends by accident. */
#ifndef HTC_EXAMPLES_SUPERVISOR_H
#define HTC_EXAMPLES_SUPERVISOR_H

#include "htcsched/host.h"
#include "htcsched/state.h"

#include "brokers.h"

#include <sys/types.h>

typedef struct supervisor_options {
    const char *programs;  /* directory that is searched before PATH */
    const char *config;    /* absolute, or NULL */
    const char *slots;     /* or NULL */
    const char *store;     /* where another store answers (db.store): htc-kvd is the way to it. NULL: it is the store */
    htc_ns      pause_max; /* longest pause before a daemon is started again; 0: 10 s */
    int         foreground; /* a terminal's: when that is closed, the system ends */
    const brokers *brokers; /* of sites */
    int         report;    /* descriptor that a line is written to when a daemon ends by accident; -1: none */
} supervisor_options;

/* The caller holds the lock of state. Blocks SIGCHLD, SIGTERM, SIGINT, SIGQUIT and (unless it is ignored, as under nohup) SIGHUP;
 * returns when all have ended. */
htc_status supervise(htc_state *state, const supervisor_options *options, const htc_log *log);

/* Where a program is: beside the others, else on PATH. Gives it, or NULL. */
char *find_program(const char *programs, const char *name);

#endif
