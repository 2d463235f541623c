/* A study: an experiment, run once, or for several seeds and several values of some settings. */
#ifndef HTC_SIM_STUDY_STUDY_H
#define HTC_SIM_STUDY_STUDY_H

#include <stdio.h>

#include "checkpoint.h"
#include "model.h"
#include "statistics.h"

#define VARY_MAX   8
#define VALUES_MAX 256

typedef struct vary {
    const char *key;
    char       *value[VALUES_MAX];
    size_t      n;
} vary;

typedef struct study {
    const model *model;
    settings   *base;
    vary        vary[VARY_MAX];
    size_t      n_vary, combinations; /* combinations: of values */
    uint64_t    seed, seeds;          /* the first one, and how many */
    uint32_t    jobs;                 /* processes */
    int         json, csv; /* of both at most one */
    const char *measures; /* columns of the table, with commas between them; NULL: all */
    const char *plot; /* a folder; NULL: nothing is drawn */
    const char *resume, *checkpoint; /* files; NULL: none */
    uint64_t    stop_after; /* events; 0: it is not stopped */
} study;

/* study_options.c: EXIT_FINE; or what to end with, and it is said: *done. argv[0] is the command. */
int  study_options_read(int argc, char **argv, study *y, int *done);
void study_options_free(study *y);

/* study.c: what came of a run; index: the caller's. */
outcome study_outcome(const study *y, const void *run);
/* The settings of a combination. 1; 0: error. */
int  study_settings(const study *y, size_t combination, settings **out, htc_error *error);
/* 1: the measure is a column of the table. */
int study_shows(const study *y, const char *name);
/* The values of it by key; lent. */
const char *study_value(const study *y, size_t combination, size_t k);

/* say.c */
void say_text(const char *text); /* as JSON */
void say_table(const study *y, const outcome *outcomes);
void say_error(const htc_error *e); /* with the next step, on standard error */

#endif
