/* An experiment of fair sharing: its settings, one run of it, and what is kept of that. */
#ifndef HTC_SIM_STUDY_FAIRSHARE_H
#define HTC_SIM_STUDY_FAIRSHARE_H

#include "htcsched/registry.h"
#include "htcsched/sim_fairshare.h"
#include "model.h"
#include "trace.h"

/* The course of a run: at most so many samples, evenly apart; those of the users beyond the last place are added up there. */
#define COURSE_SAMPLES 2400
#define COURSE_USERS   16

typedef struct course {
    size_t   n, users;
    uint64_t every, seen; /* of the model's samples one in every is kept */
    double   at[COURSE_SAMPLES];
    double   cores[COURSE_SAMPLES][COURSE_USERS];
    uint64_t queued[COURSE_SAMPLES];
} course;

/* A workload with what it came to. */
typedef struct fairshare {
    htc_sim_fairshare_options options;
    htc_sim_fairshare_user   *users;
    htc_sim_fairshare_job    *jobs;
    char                    (*names)[48]; /* of users */
    htc_sim_fairshare_report  report;
    htc_sim_fairshare_result *results;
    htc_sim_fairshare_cluster *clusters; /* n_clusters of the options; NULL: none is named */
    htc_sim_fairshare_cluster_result *on; /* one for each, or one */
    char                    (*cluster_names)[48];
    int                       exactly; /* the exact engine runs it */
    htc_sim_fairshare_exact_options exact;
    htc_registry             *registry; /* of makers of weights by name; NULL: the weights are fixed */
    course                   *course; /* NULL: not wanted */
    const htc_scale_tape     *resume, *checkpoint; /* NULL: none */
    int                       course_kept; /* in the checkpoint that is being written */
    double                    seconds; /* that the run took here */
    trace                     log;     /* file "": there is none */
    int                       log_at_once;
    struct fairshare_user    *known;   /* users of the log, by their numbers there */
    size_t                    n_known, known_room;
    double                    log_work, log_last; /* ns: of all of its jobs, and until the last one can have ended */
} fairshare;

/* fairshare.c */
int  fairshare_run(void *run, const htc_scale_tape *checkpoint, watch *w, htc_error *error);
int  fairshare_resume(void *run, const htc_scale_tape *tape, htc_error *error);
void fairshare_close(void *run);
int  fairshare_value(const void *run, const char *name, double *out);
/* fairshare_clusters.c: sections [cluster.NAME]. 1; 0: error. */
int  fairshare_clusters(fairshare *f, settings *s, htc_error *error);
/* fairshare_trace.c: a log as the workload. */
int        fairshare_trace(fairshare *f, const settings *s, htc_error *error); /* its users are known, if there is one, and it is at its beginning. 1; 0: error */
void       fairshare_trace_users(fairshare *f, size_t named);                  /* they are users, behind the named ones, of which some may be theirs */
htc_status fairshare_trace_next(void *run, htc_sim_fairshare_job *job);
void       fairshare_trace_close(fairshare *f);
/* fairshare_say.c */
void fairshare_say(const void *run, int json);
int  fairshare_plot(const void *run, const char *folder, const char *suffix);

#endif
