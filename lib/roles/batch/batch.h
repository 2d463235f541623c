/* Agents as jobs of a batch system.
 *
 *   new         launched; in no job yet                       gathered for a moment, for one array job is cheaper than many jobs; kept while there are as
 *                                                             many jobs as may be
 *   submitting  the command that submits its job runs          it may be known there from now on, whatever the command says
 *   unsure      that command failed, or said nothing sensible  the next look decides: known there, or refused
 *   sent        its job is accepted, and was not seen yet
 *   waits, runs as the newest look says
 *
 * One look a period tells of all jobs, however many they are. An agent that no look shows any more has ended; a held one is cancelled and has ended. A
 * job that carries our name and is no agent's is cancelled.
 *
 * Sans I/O: htc__batch_command says what is to be run, htc__batch_done how that ended, htc__batch_event what came of it. One command runs at a time.
 *
 * What has to outlive the process is htc__batch_journal: it is to be stored before a command whose flag says so is run. With it, a later process
 * knows all agents of this one (htc__batch_recover).
 *
 * Threads: owner.   Allocation: through env. */
#ifndef HTC_ROLES_BATCH_H
#define HTC_ROLES_BATCH_H

#include "core/codec.h"
#include "htcsched/env.h"

#define HTC__BATCH_AGENTS_MAX 1024
#define HTC__BATCH_NAME_MAX   64
#define HTC__BATCH_WORDS_MAX  8192 /* bytes of one agent's command line */

typedef struct htc__batch htc__batch;

typedef struct htc__batch_options {
    const char *system;    /* "slurm", "sge", "emu" */
    uint32_t    nonce;     /* of the directory: by it jobs of this one are told from those of others; kept in the journal */
    uint64_t    identity;  /* of the directory: another one than that of a copy of it; kept in the journal; 0: not known */
    const char *user;      /* as the batch system calls who submits; copied */
    const char *words;     /* more words for the command that submits, separated by blanks; copied; NULL: none */
    const char *lines;     /* of the script that is submitted, after its first: options of the batch system; copied; NULL: none */
    const char *log_dir;   /* where jobs leave what they print; copied */
    uint32_t    steps;     /* agents in one job at most; 0: 64 */
    uint32_t    submits_per_s; /* at most; 0: 1 */
    htc_ns      time_ns;   /* wall time that is asked for; 0: none is named */
    htc_ns      drain_ns;  /* before its end an agent begins nothing more; 0: a tenth of it */
    htc_ns      period_ns; /* between two looks; 0: 6 s */
    uint32_t    running_max; /* jobs at most that are there, running or waiting; 0: any number. More agents wait here, and it is told that they wait */
    uint32_t    queued_max;  /* jobs at most that wait there; 0: any number */
} htc__batch_options;

/* HTC_EUNSUPPORTED: no such batch system. */
htc_status htc__batch_create(const htc_env *env, const htc__batch_options *options, htc__batch **out);
void       htc__batch_destroy(htc__batch *b);

/* An agent with so many cores; command: its words, each quoted for a shell, in one line; copied. ctx comes back with what is told of it. HTC_EBUSY:
 * there are as many as can be; HTC_EEXISTS; HTC_EINVAL; HTC_ENOMEM. */
htc_status htc__batch_launch(htc__batch *b, uint64_t agent, uint64_t ctx, uint32_t cores, const char *command, htc_ns now);
/* It ends by being cancelled. Nothing is told but its end. */
void htc__batch_kill(htc__batch *b, uint64_t agent, htc_ns now);

typedef struct htc__batch_run {
    uint64_t  id;      /* for htc__batch_done */
    htc_bytes words;   /* argv: strings, each with its zero */
    htc_bytes input;   /* standard input */
    htc_ns    within;  /* it is to be ended after that */
    int       journal; /* the journal is to be stored first */
    int       look;    /* it lists jobs: see htc__batch_records */
} htc__batch_run;

/* 1: this is to be run now; what it points to is lent until htc__batch_done. 0: nothing is, before htc__batch_deadline. */
int    htc__batch_command(htc__batch *b, htc_ns now, htc__batch_run *out);
htc_ns htc__batch_deadline(const htc__batch *b);
/* exit_code: -1: it could not be started, was killed, or took too long. error: what it said about that; for people. */
void htc__batch_done(htc__batch *b, uint64_t id, int exit_code, htc_bytes printed, htc_bytes error, htc_ns now);

/* Whether this batch system keeps records of ended jobs in a file. */
int htc__batch_has_records(const htc__batch *b);
/* Lines that were added to that file: before htc__batch_done of a command that lists jobs, so that its ends are told with their reason. Anything may stand there. */
void htc__batch_records(htc__batch *b, htc_bytes text);

typedef enum htc__batch_event_kind {
    HTC__BATCH_LAUNCHED = 1, /* its job is accepted; text: how people call it */
    HTC__BATCH_REFUSED,      /* it is not; text: why */
    HTC__BATCH_WAITS,        /* in the queue; text: what for */
    HTC__BATCH_RUNS,
    HTC__BATCH_EXPIRES,      /* the wall time of its job ends soon */
    HTC__BATCH_ENDED,        /* LAUNCHED was told of it, or it was recovered; text: how; "": as far as is known, by itself */
    HTC__BATCH_EXPLAINED,    /* some time after ENDED with "": text: why, as the accounting of the batch system knows by now */
} htc__batch_event_kind;

typedef struct htc__batch_event {
    uint32_t kind;
    uint64_t agent, ctx;
    char     out[HTC__BATCH_NAME_MAX]; /* name of the file in log_dir that holds what it printed */
    char     text[160];
} htc__batch_event;

/* The next one; 0: there is none. */
int htc__batch_next_event(htc__batch *b, htc__batch_event *out);

void htc__batch_journal(const htc__batch *b, htc_buf *out);
/* Before anything else. agents: those that may be there; NULL: not wanted. HTC_EFORMAT: no journal. HTC_EEXISTS: it is that of another directory, of which this one is
 * a copy: its jobs are not ours, and we have the nonce that we were given. */
htc_status htc__batch_recover(htc__batch *b, htc_bytes journal, uint64_t agents[HTC__BATCH_AGENTS_MAX], uint32_t *count);

/* ---- one batch system: its commands, and what they print ---- */

typedef enum batch_job_state { BATCH_JOB_WAITS, BATCH_JOB_RUNS, BATCH_JOB_HELD, BATCH_JOB_ENDED } batch_job_state;

/* One element of an array job, as a look shows it. */
typedef struct batch_row {
    char     job[HTC__BATCH_NAME_MAX]; /* as a command that cancels it calls it */
    uint64_t submission;
    uint32_t index;
    batch_job_state state;
    htc_ns   left; /* of its wall time; 0: not told */
    char     reason[96];
} batch_row;

/* One element's end, as the records of the batch system tell of it. */
typedef struct batch_end {
    char     job[HTC__BATCH_NAME_MAX]; /* as batch_row's */
    uint64_t submission;
    uint32_t index;
    char     how[96]; /* for people; "": by itself, and well */
} batch_end;

typedef struct batch_submission {
    const char *name, *words, *log_dir;
    uint32_t    count, cores;
    htc_ns      time_ns;
} batch_submission;

typedef struct batch_system {
    const char *name;
    const char *index_variable; /* in the job's environment */
    uint32_t    first_index;
    void (*submit)(htc_buf *words, const batch_submission *s); /* the script comes on standard input */
    void (*look)(htc_buf *words, const char *user);
    void (*cancel)(htc_buf *words); /* elements follow */
    /* How a command that cancels it calls an element of that job. */
    void (*element)(char name[HTC__BATCH_NAME_MAX], const char *job, uint32_t index);
    htc_status (*read_submitted)(htc_bytes printed, char job[HTC__BATCH_NAME_MAX]);
    /* Rows of jobs whose name is PREFIX and a number, others are left out. HTC_EFORMAT: this is no list of jobs. */
    htc_status (*read_look)(htc_bytes printed, const char *prefix, void (*row)(void *ctx, const batch_row *row), void *ctx);
    /* Why elements of the job of that one have ended. NULL: what tells it is a file, or nothing. */
    void (*ask)(htc_buf *words, const char *user, const char *element, uint32_t first, uint32_t last);
    /* Ends of that user's jobs of such names, from that file, or what ask has printed; what is no record is passed over. NULL: nothing tells. */
    void (*read_ends)(htc_bytes text, const char *prefix, const char *user, void (*tell)(void *ctx, const batch_end *end), void *ctx);
} batch_system;

extern const batch_system htc__batch_slurm, htc__batch_sge, htc__batch_emu;

/* Of Slurm, and of what prints as it does. */
void       htc__batch_slurm_element(char name[HTC__BATCH_NAME_MAX], const char *job, uint32_t index);
htc_status htc__batch_slurm_submitted(htc_bytes printed, char job[HTC__BATCH_NAME_MAX]);
htc_status htc__batch_slurm_look(htc_bytes printed, const char *prefix, void (*tell)(void *ctx, const batch_row *row), void *ctx);

void       htc__batch_slurm_ends(htc_bytes text, const char *prefix, const char *user, void (*tell)(void *ctx, const batch_end *end), void *ctx);
void       htc__batch_sge_ends(htc_bytes text, const char *prefix, const char *user, void (*tell)(void *ctx, const batch_end *end), void *ctx);
int        htc__batch_slurm_is_end(const char *state);

/* A word of argv; words from a text, separated by blanks. */
void htc__batch_word(htc_buf *words, const char *word);
void htc__batch_words(htc_buf *words, const char *text);
/* What is printed ends in a line that begins with a number: it, or "" (there is none), and the character behind it, 0 at the end. */
char htc__batch_last_number(htc_bytes printed, char number[HTC__BATCH_NAME_MAX]);
/* Each word in quotes of a shell, with a blank between them. */
void htc__batch_quote(htc_buf *out, const char *const *argv);
/* PREFIX followed by a number alone. */
int htc__batch_number(const char *name, size_t len, const char *prefix, uint64_t *number);

#endif
