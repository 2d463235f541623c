/* An experiment of many tasks on many nodes: its options, one run of it, and its course. */
#ifndef HTC_SIM_STUDY_MANYTASK_H
#define HTC_SIM_STUDY_MANYTASK_H

#include <stdio.h>

#include "htcsched/sim_manytask.h"
#include "model.h"

#define MANY_SAMPLES   1200  /* of a course; once there are more, every other one goes */
#define MANY_TILES     65536 /* of a tile map; of more nodes several share a tile */
#define MANY_FRAMES    200   /* of a tile map at most; */
#define MANY_STRIP     16384 /* and its rows, of all frames together */

/* A run over time. */
typedef struct many_course {
    size_t   n;
    uint64_t every, seen;
    double   at[MANY_SAMPLES]; /* seconds */
    uint64_t busy[MANY_SAMPLES], queued[MANY_SAMPLES], ended[MANY_SAMPLES];
    uint64_t working[MANY_SAMPLES];          /* nodes with a busy core; tiles alone */
    uint64_t frames, frame_every, frame_seen; /* of the tile map */
    double   frame_at[MANY_FRAMES];
    double   starved; /* the sum of the parts of nodes without a busy core, at samples at which tasks waited; */
    uint64_t waited;  /* how many samples these are */
    uint64_t logged;  /* bytes of the file of tasks */
} many_course;

/* A tile map: frames, one after the other, of a byte for each tile: 0: idle; else the busy part of its cores in parts of 255. */
typedef struct many_tiles {
    uint64_t       nodes, tiles, share; /* share: nodes of a tile */
    uint32_t       columns, rows, frames_max;
    unsigned char *rate; /* NULL: there is none */
    uint32_t      *cores; /* of each tile */
} many_tiles;

typedef struct many_study {
    htc_sim_manytask_options options;
    htc_sim_manytask_group  *groups;
    htc_ns                  *lengths; /* NULL: as the law says, task by task */
    htc_steal_options        steal;
    htc_registry            *registry; /* of policies by name */
    htc_sim_manytask_report  report;
    many_course             *course; /* of each grid */
    many_tiles               map;
    uint32_t                 architecture; /* as the settings have it */
    char                     log_path[1024];
    FILE                    *log; /* of tasks; NULL: none */
    uint64_t                 nodes, cores;
    const htc_scale_tape    *resume, *checkpoint;
    int                      course_kept;
    double                   seconds; /* that the run took here */
} many_study;

extern const char *const many_architectures[];

/* manytask_course.c. Each with an answer: 1; 0: error. */
int        many_course_open(many_study *m, htc_error *error);
void       many_course_close(many_study *m);
/* That of all grids together, in at most so many steps: it is the caller's. NULL: no memory. */
many_course *many_course_of_all(const many_study *m);
/* The first sample at which 95 % of the cores are busy, of each grid, the latest of them; the end: never. */
double     many_balanced_s(const many_study *m);
void       many_course_keep(void *ctx, const htc_sim_manytask_sample *s);
void       many_course_task(void *ctx, const htc_sim_manytask_task *t);
htc_status many_course_move(many_study *m, const htc_scale_tape *tape);
int        many_log_open(many_study *m, htc_error *error); /* where the course has it end */
int        many_log_close(many_study *m, htc_error *error);

/* manytask_tiles.c: 0; -1 and it is said. */
int many_tiles_plot(const many_study *m, const char *folder, const char *suffix);

/* manytask_say.c */
void many_say(const void *run, int json);
int  many_plot(const void *run, const char *folder, const char *suffix);

#endif
