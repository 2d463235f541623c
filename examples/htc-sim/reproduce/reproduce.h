/* htc-sim reproduce: experiments, and what of their claims holds. */
#ifndef HTC_SIM_REPRODUCE_H
#define HTC_SIM_REPRODUCE_H

#include "experiment.h"

typedef struct reproduction {
    experiment **experiment;
    size_t       n;
    int          full, quick, live, json, list;
    uint32_t     jobs;
    uint64_t     memory_max;
    const char  *plot, *report; /* a folder, a file; NULL: none */
    const char  *keep;          /* a folder of what runs have found; NULL: none */
    int          interrupted;
} reproduction;

/* reproduce_run.c: every run of every experiment. 0; 1: interrupted; -1: it could not be done, and it is said. */
int reproduction_run(reproduction *r);
/* 1: this series runs in this form of the command. */
int series_runs(const reproduction *r, const series *s);

/* keep.c: of all that a run depends on, the program too: two runs with the same number find the same. */
uint64_t run_key(const series *s, size_t point, uint64_t seed);
/* What a run of the same program, settings and seed has found, pictures in the same folder included (NULL: none are drawn). 1; 0: nothing. */
int  kept_find(const char *folder, const char *pictures, const experiment *e, const series *s, size_t point, uint64_t seed, outcome *o);
void kept_write(const char *folder, const char *pictures, const experiment *e, const series *s, size_t point, uint64_t seed, const outcome *o);

/* reproduce_say.c: on standard output. How many claims fail without a reason or have moved, or runs that failed. */
size_t reproduction_say(const reproduction *r);
/* A number as people write it; room of 32 bytes. unit: of a claim. */
void   number_text(double v, const char *unit, char *out, size_t room);
void   claim_texts(const claim *c, char *published, char *ours, char *difference, size_t room); /* each of so many bytes */
/* 1: it holds, and its reason says how little that shows: its number is not the paper's, or the model was made from it. */
int    reason_qualifies(const claim *c);
/* What a claim demands, as people write it, in room or elsewhere. */
const char *must_words(const claim *c, char *room, size_t size);
const char *verdict_word(const claim *c); /* yes, fitted, ours, pilot, no, not run */

/* reproduce_report.c: 0; -1, and it is said. */
int report_write(const reproduction *r, const char *file);
/* curves.c: a picture for each measure that is drawn: FOLDER/ID-MEASURE.svg. 0; -1, and it is said. */
int curves_draw(const experiment *e, const char *folder);
/* 1: some series draw this one, which is not drawn in an earlier one. */
int curve_begins(const experiment *e, size_t at);

/* A run's file beside others: "-ID-SERIES" or "-ID-SERIES-POINT". */
void picture_suffix(const experiment *e, const series *s, size_t point, char *out, size_t room);

extern const char reproduce_help[];
int reproduce_command(int argc, char **argv); /* argv[0] is the command. What to end with */

#endif
