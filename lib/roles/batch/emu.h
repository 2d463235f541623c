/* A first-level scheduler, emulated: clusters of cores with a queue each, whose jobs are processes of this machine. It stands for batch systems that cannot be
 * had for a test, such as PBS and LoadLeveler, and is the baseline of experiments.
 *
 *   job:   waits -> served by the server of its cluster -> started, or held (until it is cancelled)
 *   step:  waits -> starts -> runs -> ended;   with a probability a step fails as it starts
 *
 * A job has one or several steps; all of them go to the cluster that the metric picks when it is submitted. A cluster serves its jobs in their order: one
 * is served when there are cores for its first step, its other steps start as cores become free. Served once, it has one verdict (first_level.h).
 *
 * Sans I/O: htc__emu_next says which process to start or to end, htc__emu_ended that it has ended. What has to outlive the process is htc__emu_journal:
 * steps that run. Jobs that wait are gone with it.
 *
 * Threads: owner.   Allocation: through env. */
#ifndef HTC_ROLES_EMU_H
#define HTC_ROLES_EMU_H

#include "core/codec.h"
#include "htcsched/env.h"
#include "roles/batch/first_level.h"

#define HTC__EMU_CLUSTERS_MAX 64
#define HTC__EMU_STEPS_MAX    65536 /* of all jobs that have not ended */
#define HTC__EMU_NAME_MAX     64
#define HTC__EMU_SCRIPT_MAX   ((size_t)16 << 20)

typedef struct htc__emu htc__emu;

typedef struct htc__emu_cluster {
    char     name[HTC__EMU_NAME_MAX];
    uint32_t cores; /* at least 1 */
} htc__emu_cluster;

typedef struct htc__emu_options {
    const htc__emu_cluster *clusters; /* copied */
    uint32_t n;                       /* 1 to HTC__EMU_CLUSTERS_MAX */
    htc__cluster_metric metric;
    htc_ns   service_ns;              /* what a cluster's server takes for one job */
    double   hold, hold_rate;         /* as in first_level.h */
    double   fail;                    /* the probability that a step fails as it starts */
    uint64_t seed;
    uint64_t identity;                /* as in batch.h: kept in the journal */
} htc__emu_options;

/* HTC_EINVAL: a number is out of range; HTC_ENOMEM. */
htc_status htc__emu_create(const htc_env *env, const htc__emu_options *options, htc__emu **out);
void       htc__emu_destroy(htc__emu *e);

typedef struct htc__emu_job {
    const char *name;   /* shorter than HTC__EMU_NAME_MAX, without blanks; copied */
    const char *out;    /* of the file for what it prints; "%a" in it is the number of the step; copied; NULL: none */
    htc_bytes   script; /* of /bin/sh; copied, at most HTC__EMU_SCRIPT_MAX */
    uint32_t    steps;  /* at least 1, numbered from 0 */
    uint32_t    cores;  /* of one step, at least 1, at most those of the largest cluster */
    htc_ns      wall;   /* a step is ended after so long; 0: never */
} htc__emu_job;

/* *id: from 1. HTC_EINVAL; HTC_ETOOBIG: a step needs more cores than any cluster has; HTC_EBUSY: HTC__EMU_STEPS_MAX; HTC_ENOMEM. O(clusters + steps). */
htc_status htc__emu_submit(htc__emu *e, const htc__emu_job *job, htc_ns now, uint64_t *id);
/* One that runs is killed, and has ended when that is told. HTC_ENOTFOUND. */
htc_status htc__emu_cancel(htc__emu *e, uint64_t job, uint32_t step, htc_ns now);

typedef enum htc__emu_kind { HTC__EMU_START = 1, HTC__EMU_KILL } htc__emu_kind;

typedef struct htc__emu_action {
    uint32_t    kind;
    uint64_t    job;
    uint32_t    step;
    uint64_t    handle; /* KILL: as htc__emu_started was told */
    htc_bytes   script; /* START: lent until the job's last step has ended */
    const char *out, *cluster, *name; /* lent likewise */
} htc__emu_action;

/* The next process to start or to end; 0: there is none before htc__emu_deadline. */
int    htc__emu_next(htc__emu *e, htc_ns now, htc__emu_action *out);
htc_ns htc__emu_deadline(const htc__emu *e); /* HTC_NEVER: none */
/* Each START is answered by one of these. handle: names the process, for KILL and for a later process of ours. */
void htc__emu_started(htc__emu *e, uint64_t job, uint32_t step, uint64_t handle);
/* It has ended, or could not be started. failed: otherwise than with exit code 0. */
void htc__emu_ended(htc__emu *e, uint64_t job, uint32_t step, int failed, htc_ns now);

typedef struct htc__emu_figures {
    uint64_t jobs, served, held;         /* jobs; held: that are held now, or were and were cancelled */
    uint64_t steps, started, ended, failed; /* steps; failed: as they started, or by themselves */
    uint32_t waiting, running;           /* steps, now */
} htc__emu_figures;

void htc__emu_count(const htc__emu *e, htc__emu_figures *out);
/* A step of the job has not ended. */
int htc__emu_lives(const htc__emu *e, uint64_t job);
/* Steps that run on a cluster, by its place. */
uint32_t htc__emu_running(const htc__emu *e, uint32_t cluster);

/* ---- as a batch system is spoken to (emu_commands.c) ----
 *
 *   emu submit --name NAME --steps N --cores N [--time SECONDS] [--output FILE]   the script on standard input; prints the job's number
 *   emu queue                                                                     a line for each step: JOB_STEP|STATE|NAME|TIME LEFT|REASON
 *   emu cancel JOB_STEP...
 *
 * Answers the exit code; error: what it says about that. */
int htc__emu_command(htc__emu *e, htc_bytes words, htc_bytes input, htc_buf *printed, htc_buf *error, htc_ns now);

/* ---- what outlives the process ---- */

void htc__emu_journal(const htc__emu *e, htc_buf *out);
/* Before anything else: steps that ran, as htc__emu_step is told of each; whoever sees that its process is gone tells htc__emu_ended. HTC_EFORMAT: no journal; HTC_EEXISTS:
 * that of another directory: nothing is taken from it. A step of a cluster that is not there any more is passed over. */
typedef void (*htc__emu_step)(void *ctx, uint64_t job, uint32_t step, uint64_t handle);
htc_status htc__emu_recover(htc__emu *e, htc_bytes journal, htc__emu_step told, void *ctx);

#endif
