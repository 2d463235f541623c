/* What emu.c and emu_commands.c share. */
#ifndef HTC_ROLES_EMU_PRIVATE_H
#define HTC_ROLES_EMU_PRIVATE_H

#include "roles/batch/emu.h"

typedef enum step_state { STEP_WAITS, STEP_STARTS, STEP_RUNS, STEP_ENDED } step_state; /* STARTS: its process is to be started, or told to be */
typedef enum job_state { JOB_WAITS, JOB_SERVED, JOB_STARTED, JOB_HELD } job_state;
typedef enum step_end { END_NONE, END_WELL, END_FAILED, END_CANCELLED, END_TIMEOUT } step_end;

typedef struct emu_step {
    uint8_t  state, end; /* step_state; step_end: how it has ended, or why it is killed */
    uint8_t  told, kill; /* told: START, or KILL; kill: it is to be killed */
    htc_ns   since;      /* it has started, or ended */
    uint64_t handle;     /* 0: not known */
} emu_step;

typedef struct emu_job {
    uint64_t  id;
    char      name[HTC__EMU_NAME_MAX];
    char     *out, *script;
    size_t    script_len;
    uint32_t  steps, cores, cluster, next, reserved, live; /* next: no step before it waits; reserved: cores are, for so many steps; live: have not ended */
    uint8_t   state;                                       /* job_state */
    uint8_t   begun;                                       /* any of its steps */
    htc_ns    at, wall;                                    /* at: SERVED: until then */
    emu_step *step;
} emu_job;

typedef struct emu_cluster {
    htc__emu_cluster is;
    htc__first_level system;
    uint32_t         used, running; /* used: cores, reserved ones included; running: steps */
} emu_cluster;

struct htc__emu {
    htc_env          env;
    htc__emu_options options;
    emu_cluster      cluster[HTC__EMU_CLUSTERS_MAX];
    emu_job         *jobs; /* in their order */
    size_t           count, room;
    uint64_t         last, draws; /* last: number of the last job */
    uint32_t         live, to_tell; /* steps that have not ended; actions that were not taken yet */
    size_t           told_job;      /* where the last of them was, */
    uint32_t         told_step;     /* and the step behind it */
    int              changed;       /* something may start that could not */
    htc__emu_figures figures;
};

#define EMU_SHOWN (60 * HTC_SECOND) /* a step that has ended */

/* What has ended long ago is forgotten. */
void htc__emu_forget(htc__emu *e, htc_ns now);

#endif
