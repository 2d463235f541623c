/* What this machine's store costs: members are started here, asked, and the costs are those with which the model does what was measured. */
#ifndef HTC_SIM_CALIBRATE_H
#define HTC_SIM_CALIBRATE_H

#include <sys/types.h>

#include "htcsched/sim_kvs.h"

#define CREW_MAX 8

int calibrate_command(int argc, char **argv); /* argv[0] is the command. What to end with */
extern const char calibrate_help[];

/* ---- members.c: processes that are members of one store ---- */

typedef struct crew {
    uint32_t n;
    uint32_t dials; /* connections that a client makes to members beside its first one, at most; to CREW_MAX */
    pid_t    pid[CREW_MAX];
    char     dir[256];
    char     address[CREW_MAX][300]; /* unix:PATH */
} crew;

/* In an empty folder that is there; returns when all of them answer. 1; 0: error, and none runs. */
int  crew_start(crew *c, uint32_t n, const char *dir, htc_error *error);
void crew_end(crew *c);
/* CPU time that they have taken, in seconds. */
double crew_seconds(const crew *c);

/* ---- load.c: clients that ask them ---- */

typedef struct load {
    uint32_t clients, depth, puts; /* puts: 1: all are puts; 0: all are gets */
    double   seconds; /* for which it is measured */
} load;

typedef struct figures {
    double throughput, response; /* 1/s; s, the median of what was measured */
    double members, client;      /* CPU time for a request, in s; 0: not known */
} figures;

/* 1; 0: error. */
int load_run(const load *l, const crew *c, figures *f, htc_error *error);

/* ---- fit.c ---- */

typedef struct point {
    uint32_t members;
    load     load;
    figures  measured;
} point;

/* The model's figures of a point, with the costs in o. */
figures fit_model(const htc_sim_kvs_options *o, const point *p);
/* Costs with which the model comes nearest to the points; quick: near. Answers how far off it is, as a factor, on average. tell: part of it that is done, 0 to 1. */
double fit_costs(htc_sim_kvs_options *o, const point *p, size_t n, int quick, void (*tell)(void *ctx, double done), void *ctx);

#endif
