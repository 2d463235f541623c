/* A published table or figure as a file: which runs there are, and what is claimed of them. examples/sim has them; htc-sim(1) has the form. */
#ifndef HTC_SIM_REPRODUCE_EXPERIMENT_H
#define HTC_SIM_REPRODUCE_EXPERIMENT_H

#include "../study/ini.h"
#include "../study/model.h"
#include "../study/statistics.h"

#define SERIES_MAX 48
#define POINTS_MAX 64
#define CLAIMS_MAX 128
#define TERMS_MAX  16
#define SEEDS_MAX  1000

/* A number at a value of what varies. */
typedef struct published_value {
    size_t point;
    double value;
} published_value;

/* Where the number comes from that ours is beside: the paper; the paper, but the model's parameters were made from it, so that nothing is shown where
 * both agree; ourselves, where the paper has words alone, or nothing; or a calculation with the paper's rules and data, made before, where the paper
 * draws the curve and prints no number. */
typedef enum basis { BASIS_PUBLISHED = 0, BASIS_FITTED, BASIS_OURS, BASIS_PILOT } basis;

/* Runs that differ by the value of one key. */
typedef struct series {
    char         name[48], about[160];
    const model *model;     /* NULL: a command */
    settings    *settings;
    char         command[400], varies[96]; /* "": none; one run */
    size_t       n, n_published, n_measures; /* n: of points, at least 1 */
    char         point[POINTS_MAX][48];
    uint8_t      full[POINTS_MAX];    /* 1: it is run with --full alone */
    uint64_t     seed, seeds;
    char         plot[64];            /* a measure; "": none */
    int          picture;             /* 1: the course of its runs is drawn, too */
    published_value published[POINTS_MAX];
    basis        rests_on;            /* of these */
    char         must[48], why[1200]; /* of these; must "": the experiment's tolerance */
    char         measure[MEASURES_MAX][64]; /* that are asked for, */
    size_t       n_own;                     /* the first ones by its own experiment, the others by those that share its runs */
    /* What came of it. */
    estimate     found[POINTS_MAX][MEASURES_MAX];
    uint8_t      ran[POINTS_MAX];     /* 1: it is there */
    htc_error    error;               /* of the first run that failed; text "": none */
} series;

typedef enum term_kind { TERM_NUMBER = 0, TERM_VALUE, TERM_MIN, TERM_MAX, TERM_MEAN } term_kind;

typedef struct term {
    term_kind kind;
    double    number;
    size_t    series, measure, point;
    char      joins; /* + - * /: it is joined with the term before; 0: it stands at the beginning, or behind > or < */
} term;

typedef enum must_kind { MUST_PART = 0, MUST_DISTANCE, MUST_FACTOR, MUST_LEAST, MUST_MOST, MUST_EXACT } must_kind;
typedef enum verdict { VERDICT_HOLDS = 0, VERDICT_FAILS, VERDICT_NOT_RUN } verdict;

/* What is claimed of the runs. */
typedef struct claim {
    char      about[240], why[1200], unit[24], must_text[48];
    term      term[TERMS_MAX];
    size_t    terms;
    char      op;        /* > or <: an order is claimed; 0: a value is */
    double    published; /* not with > and < */
    int       has_published, has_value, has_known;
    double    known;     /* what ours was when the file was written */
    must_kind must;
    basis     rests_on;
    double    allowed;
    uint32_t  line;      /* of its section */
    /* What came of it. */
    double    ours, half; /* half of the 95 % interval; 0: not known */
    verdict   verdict;
    int       close;      /* 1: an order fails since values are closer than their intervals */
    int       moved;      /* 1: ours is not what is known any more */
} claim;

typedef struct experiment {
    char     id[64], file[512], paper[48], name[64], about[240], cut[240], tolerance[48];
    int      quick;
    settings *base;
    const model *model;
    series   *series;
    claim    *claims;
    size_t    n_series, n_claims;
    double    seconds; /* of its runs, one after the other */
    uint64_t  runs;
} experiment;

/* NULL: error has FILE:LINE, why, and the next step. */
experiment *experiment_open(const char *file, htc_error *error);
void        experiment_close(experiment *e); /* NULL is fine */

/* claim.c. 1; 0: error says why. at: the experiment, whose series are all known. */
int claim_parse(experiment *at, claim *c, const char *text, htc_error *error);
int must_parse(claim *c, const char *text, htc_error *error);
/* When all has run: ours and the verdict of each claim. */
void claims_judge(experiment *e);
/* The number of a measure of a series, which is asked for from now on; -1: there are too many. */
int  measure_of(series *s, const char *name);

#endif
