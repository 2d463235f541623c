/* A model that studies run: its settings, one run of it, and what is told of that. models.c lists them. */
#ifndef HTC_SIM_STUDY_MODEL_H
#define HTC_SIM_STUDY_MODEL_H

#include "../../common/plural.h"
#include "settings.h"
#include "watch.h"

#define MEASURES_MAX 32

/* What is compared between runs. */
typedef struct measure {
    const char *name;   /* as in JSON */
    int         digits; /* behind the point */
} measure;

/* What is kept of one run among many. */
typedef struct outcome {
    uint64_t  index; /* combination * seeds + seed */
    double    value[MEASURES_MAX];
    uint64_t  hash;
    uint64_t  events; /* of this part of a run */
    double    seconds; /* that it took; set by htc-sim reproduce alone, as is */
    uint32_t  lacks;   /* a bit for each value that is asked for and that the model does not have */
    uint32_t  done;  /* 1: it has ended; 0: interrupted, or never begun */
    uint32_t  failed;
    htc_error error;
} outcome;

/* An option of the command line that sets one key. */
typedef struct model_option {
    const char *name, *takes, *key, *about;
} model_option;

/* A key and its value, where no file is named. */
typedef struct model_preset {
    const char *key, *value;
} model_preset;

/* What one of n takes. */
static inline double ns_of_each(double seconds, uint64_t n)
{
    return n ? seconds * 1e9 / (double)n : 0;
}

/* A run is the model's own struct. Whatever fails answers 0 or NULL, and error says why. */
typedef struct model {
    const char         *name;    /* htc-sim NAME; sim.model */
    const char         *about;   /* a line */
    const setting      *table;   /* of it, sim.model, sim.seed and sim.memory are every model's */
    const model_option *options; /* these lists end with a name, or key, NULL */
    const model_preset *presets;
    const measure      *measures;
    /* drawn: its course is kept, for a picture. */
    void *(*open)(settings *s, uint64_t seed, int drawn, htc_error *error);
    /* Go on from there: what is the study's own is read at once, the rest by run. NULL: it has no checkpoints. */
    int (*resume)(void *run, const htc_scale_tape *tape, htc_error *error);
    /* checkpoint: where a run that is stopped is written; NULL: nowhere. */
    int (*run)(void *run, const htc_scale_tape *checkpoint, watch *w, htc_error *error);
    void (*outcome)(const void *run, outcome *o); /* but for its index; it is zero before. done 0: the run was stopped */
    /* A value of something with a name: queue.Q1.response. 1; 0: there is none. NULL: it has measures alone. */
    int (*value)(const void *run, const char *name, double *out);
    void (*say)(const void *run, int json);       /* on standard output */
    int (*plot)(const void *run, const char *folder, const char *suffix); /* 0; -1 and it is said */
    void (*close)(void *run);                     /* NULL is fine */
} model;

extern const model *const models[]; /* the last is NULL */
const model *model_of(const char *name); /* NULL: there is none */
int model_has_policies(const model *m);  /* 1: a key of it takes the name of a policy, which may be of a file */
extern const model dataflow_model;
extern const model dsp_model;
extern const model fairshare_model;
extern const model flow_model; /* htc-sim run alone: the command of this name has words of its own */
extern const model grids_model;
extern const model jobs_model;
extern const model kvs_model;
extern const model micro_model;
extern const model manytask_model;
extern const model tco_model;

#endif
