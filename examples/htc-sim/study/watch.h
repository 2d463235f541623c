/* What surrounds a run here: the clock, progress on standard error after two seconds, Ctrl-C, and memory in large pages. */
#ifndef HTC_SIM_STUDY_WATCH_H
#define HTC_SIM_STUDY_WATCH_H

#include "htcsched/sim_scale.h"
#include "threads.h"

typedef struct watch {
    htc_scale_host host;
    htc_alloc      alloc;
    htc_env        env;
    const char    *what; /* what is counted */
    int            quiet, open; /* open: a line of progress on a terminal has no end yet */
    int            checkpoints; /* 1: a run is stopped every ten minutes, to be written down */
    threads       *threads; /* of the host; NULL: none */
    int            needs_said;
    double         said;        /* when, in seconds of a run; 0: not yet */
} watch;

void   watch_open(watch *w, uint64_t memory_max, int quiet); /* memory_max 0: three quarters of this machine's */
void   watch_threads(watch *w, uint32_t n); /* the host has so many from now on; 0: as many as there are processors */
void   watch_threads_end(watch *w);
void   watch_close(watch *w);                                /* ends the line of progress */
int    watch_stopped(void);                                  /* Ctrl-C, or SIGTERM */
void   watch_go_on(void);                                    /* after a stop that was neither */
void   watch_share(void); /* processes that are forked from now on are stopped by a signal to any of them. What was open before must not run on */
double watch_seconds(void);
/* Said before a run that needs much: as many bytes as there are at most. */
void   watch_needs(watch *w, uint64_t bytes);
/* n of all, after begun seconds: a line, now and then. */
void   watch_say(watch *w, uint64_t done, uint64_t all, double rate, double left, double spent);

#endif
