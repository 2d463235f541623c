/* htc-sim fuzz: many runs of a scenario (htcsched/sim_store.h, htcsched/sim_system.h), spread over processes, added up. */
#ifndef HTC_SIM_FUZZ_H
#define HTC_SIM_FUZZ_H

#include "htcsched/sim_store.h"
#include "htcsched/sim_system.h"

enum { EXIT_FINE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_BROKEN = 3, EXIT_STOPPED = 4 };

typedef enum fuzz_scenario { SCENARIO_STORE = 0, SCENARIO_SYSTEM, SCENARIO_FLOWS } fuzz_scenario; /* FLOWS: a system with flows */

typedef struct fuzz_options {
    uint64_t from, to; /* seeds, both included */
    uint32_t jobs;     /* 0: as many as there are processors */
    fuzz_scenario scenario;
    uint32_t cells, members, operations, search;
    int      json, verbose, trace;
    const char *kept;       /* file of what has run; NULL: none */
    uint64_t    done, failed, seeds; /* of all, for the progress: before these, twice; 0: these are all */
} fuzz_options;

/* One seed: what a worker says of it. */
typedef struct fuzz_run {
    uint64_t              seed;
    htc_sim_store_report  report; /* of a system too: failed, hash, events, span and text; the rest is 0 */
    htc_sim_system_report system;
} fuzz_run;

typedef struct fuzz_sum {
    uint64_t seeds, failed, operations, known, events, undecided;
    uint64_t watches, told; /* by clients; to them */
    uint64_t eventual_reads, eventual_writes, siblings, conflicts;
    uint64_t changes, moved; /* of the members; buckets for them */
    uint64_t proxied, packs; /* messages that proxies passed on; those in which they went */
    uint64_t asked[HTC_KV_COUNT + 1]; /* by htc_kv_op */
    uint64_t faults[HTC_SIM_STORE_FAULTS];
    uint64_t tasks, agents, crashes; /* of systems */
    htc_ns   idle_longest;
    htc_ns   span;
    uint64_t hash;  /* of all hashes, whatever their order */
    fuzz_run first; /* the failure with the lowest seed */
} fuzz_sum;

/* Run them all; on_run is told of each. 0; -1 and a message on standard error: it could not be done. */
int fuzz_all(const fuzz_options *o, fuzz_sum *sum,
             void (*on_run)(const fuzz_options *o, const fuzz_sum *sum, const fuzz_run *run));
const char *fuzz_scenario_name(fuzz_scenario scenario);
/* One seed in this process. */
void fuzz_one(const fuzz_options *o, uint64_t seed, fuzz_run *run);

/* options.c: the words of the command line. EXIT_FINE; or what to end with, and it is said: *done. */
int fuzz_options_read(int argc, char **argv, fuzz_options *o, int *done);
/* Of every command's words: says what is wrong, and whose --help says how it is right; EXIT_USAGE. */
int usage_of(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Of an option that is not there, or (how ':') has no value; with the one that was probably meant. command: of htc-sim; "": none. */
struct option;
int usage_of_option(const char *command, int how, const char *text, const struct option *options);
/* 1: text is a number from min to max and nothing else. */
int number_in(const char *text, uint64_t min, uint64_t max, uint64_t *out);

/* fuzz_kept.c: what the file has of these seeds, and the first that it has not; 0, or -1 and a message */
int  fuzz_kept_read(const fuzz_options *o, fuzz_sum *sum, uint64_t *next);
int  fuzz_kept_add(const fuzz_options *part, const fuzz_sum *sum);
void fuzz_sum_add(fuzz_sum *sum, const fuzz_sum *part);

/* fuzz_say.c */
void fuzz_say_progress(const fuzz_options *o, const fuzz_sum *sum, const fuzz_run *run);
void fuzz_say_sum(const fuzz_options *o, const fuzz_sum *sum);
void fuzz_say_failure(const fuzz_options *o, const fuzz_run *run);
void fuzz_say_history(const fuzz_options *o, uint64_t seed); /* --trace */

#endif
