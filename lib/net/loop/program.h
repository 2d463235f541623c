/* A program that is run and heard to its end: what it prints, within bounds. */
#ifndef HTC_NET_PROGRAM_H
#define HTC_NET_PROGRAM_H

#include <event2/event.h>
#include <sys/types.h>

#include "htcsched/bytes.h"
#include "htcsched/env.h"

typedef struct htc__program htc__program;

typedef struct htc__program_start {
    htc_bytes words;  /* argv: strings, each with its zero; the first is looked for on PATH */
    htc_bytes input;  /* standard input; copied */
    const char *const *environ;
    size_t    printed_max; /* of standard output; more ends it. Of standard error the beginning is kept, 4 KiB */
    htc_ns    within;      /* it is killed after that */
    /* Once, from the loop. exit_code: -1: killed, too slow, or it printed too much: then error says which. What is lent is so for the call. */
    void (*ended)(void *ctx, int exit_code, htc_bytes printed, htc_bytes error);
    void *ctx;
} htc__program_start;

/* NULL and errno: it could not be started; nothing is told. htc__program_free kills one that still runs, and nothing is told. After ended it is gone. */
htc__program *htc__program_run(struct event_base *base, const htc__program_start *start);
void          htc__program_free(htc__program *p);
pid_t         htc__program_pid(const htc__program *p); /* of its process, and of the group that it is in; 0: it has been waited for */

#endif
