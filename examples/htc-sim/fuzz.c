/* Seeds dealt to worker processes: runs share nothing, and what they say comes through one pipe, a whole record at a time. */
#include "fuzz.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define JOBS_MAX 256
/* Records longer than PIPE_BUF would mix: each worker has a pipe of its own. */
typedef struct worker {
    pid_t pid;
    int   from;
} worker;

static htc_status one_system(const fuzz_options *o, uint64_t seed, fuzz_run *run)
{
    htc_sim_store_report  *r = &run->report;
    htc_sim_system_report *system = &run->system;
    htc_sim_system_options so = { .size = sizeof so, .seed = seed, .flows = o->scenario == SCENARIO_FLOWS };
    htc_status             status = htc_sim_system_run(NULL, &so, system);
    r->failed = system->failed;
    r->hash = system->hash;
    r->events = system->events;
    r->span = system->span;
    snprintf(r->text, sizeof r->text, "%s", system->text);
    return status;
}

void fuzz_one(const fuzz_options *o, uint64_t seed, fuzz_run *run)
{
    htc_sim_store_options so = { .size = sizeof so,
                                 .seed = seed,
                                 .cells = o->cells,
                                 .members = o->members,
                                 .operations = o->operations,
                                 .search = o->search };
    *run = (fuzz_run){ .seed = seed, .report = { .size = sizeof run->report }, .system = { .size = sizeof run->system } };
    htc_status status = o->scenario != SCENARIO_STORE ? one_system(o, seed, run) : htc_sim_store_run(NULL, &so, &run->report);
    if (status != HTC_OK) {
        run->report.failed = 1;
        snprintf(run->report.text, sizeof run->report.text, "it does not run: %s", htc_strerror(status));
    }
}

static int write_all(int fd, const void *data, size_t len)
{
    const char *p = data;
    while (len) {
        ssize_t n = write(fd, p, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return -1;
        p += n;
        len -= (size_t)n;
    }
    return 0;
}

/* 1: a record; 0: the end; -1. */
static int read_record(int fd, fuzz_run *run)
{
    char  *p = (char *)run;
    size_t left = sizeof *run;
    while (left) {
        ssize_t n = read(fd, p, left);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n == 0 && left == sizeof *run ? 0 : -1;
        p += n;
        left -= (size_t)n;
    }
    return 1;
}

static void work(const fuzz_options *o, uint64_t first, uint32_t step, int to)
{
    fuzz_run *run = malloc(sizeof *run);
    for (uint64_t seed = first; run && seed <= o->to && seed >= first; seed += step) {
        fuzz_one(o, seed, run);
        if (write_all(to, run, sizeof *run) != 0)
            _exit(1);
    }
    _exit(run ? 0 : 1);
}

static int start(const fuzz_options *o, worker *w, uint32_t i, uint32_t jobs)
{
    int ends[2];
    if (pipe(ends) != 0)
        return -1;
    fflush(NULL);
    w->pid = fork();
    if (w->pid == 0) {
        close(ends[0]);
        work(o, o->from + i, jobs, ends[1]);
    }
    close(ends[1]);
    w->from = ends[0];
    if (w->pid < 0)
        close(ends[0]);
    return w->pid < 0 ? -1 : 0;
}

static void add(fuzz_sum *sum, const fuzz_run *run)
{
    const htc_sim_store_report *r = &run->report;
    sum->seeds++;
    sum->operations += r->operations;
    sum->known += r->known;
    sum->events += r->events;
    sum->watches += r->watches;
    sum->told += r->told;
    sum->eventual_reads += r->eventual_reads;
    sum->eventual_writes += r->eventual_writes;
    sum->siblings += r->siblings;
    sum->conflicts += r->conflicts;
    sum->changes += r->changes;
    sum->moved += r->moved;
    sum->proxied += r->proxied;
    sum->packs += r->packs;
    sum->undecided += r->undecided;
    sum->tasks += run->system.tasks;
    sum->agents += run->system.agents;
    sum->crashes += run->system.crashes;
    sum->idle_longest = run->system.idle_longest > sum->idle_longest ? run->system.idle_longest : sum->idle_longest;
    sum->span += r->span;
    sum->hash += r->hash * (2 * run->seed + 1);
    for (int i = 0; i < HTC_SIM_STORE_FAULTS; i++)
        sum->faults[i] += r->faults[i];
    for (int i = 0; i <= HTC_KV_COUNT; i++)
        sum->asked[i] += r->asked[i];
    if (!r->failed)
        return;
    if (sum->failed++ == 0 || run->seed < sum->first.seed)
        sum->first = *run;
}

/* Workers take the same time for a seed, more or less: asked in turn, none waits long for its pipe. */
static int collect(const fuzz_options *o, worker *w, uint32_t jobs, fuzz_sum *sum,
                   void (*on_run)(const fuzz_options *, const fuzz_sum *, const fuzz_run *))
{
    fuzz_run *run = malloc(sizeof *run);
    int       bad = run == NULL;
    for (uint32_t open = jobs; open && !bad;)
        for (uint32_t i = 0; i < jobs && !bad; i++) {
            int got = w[i].from < 0 ? -2 : read_record(w[i].from, run);
            if (got == 1) {
                add(sum, run);
                on_run(o, sum, run);
            } else if (got == 0) {
                close(w[i].from);
                w[i].from = -1;
                open--;
            } else if (got == -1) {
                bad = 1;
            }
        }
    free(run);
    return bad ? -1 : 0;
}

/* The end of its pipe alone says nothing: a worker out of memory, or ended by a sanitizer, closes it too. */
static int ended_well(int status)
{
    if (WIFSIGNALED(status))
        fprintf(stderr, "htc-sim: a worker was ended by signal %d\n", WTERMSIG(status));
    else if (WEXITSTATUS(status) != 0)
        fprintf(stderr, "htc-sim: a worker has ended with %d before its seeds\n", WEXITSTATUS(status));
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int fuzz_all(const fuzz_options *o, fuzz_sum *sum,
             void (*on_run)(const fuzz_options *o, const fuzz_sum *sum, const fuzz_run *run))
{
    worker   w[JOBS_MAX];
    uint64_t seeds = o->to - o->from + 1;
    uint32_t jobs = o->jobs ? o->jobs : (uint32_t)sysconf(_SC_NPROCESSORS_ONLN), started = 0;
    int      bad = 0;
    jobs = jobs > JOBS_MAX ? JOBS_MAX : jobs;
    jobs = jobs > seeds ? (uint32_t)seeds : jobs;
    memset(sum, 0, sizeof *sum);
    while (started < jobs && !bad) {
        bad = start(o, &w[started], started, jobs) != 0;
        started += !bad;
    }
    if (bad)
        fprintf(stderr, "htc-sim: no process for the seeds: %s\n", strerror(errno));
    else if ((bad = collect(o, w, jobs, sum, on_run) != 0))
        fprintf(stderr, "htc-sim: a worker has ended before its seeds\n");
    for (uint32_t i = 0; i < started; i++) {
        int status;
        if (bad && w[i].from >= 0)
            close(w[i].from); /* it ends at its next record */
        waitpid(w[i].pid, &status, 0);
        bad = bad || !ended_well(status);
    }
    if (!bad && sum->seeds != seeds) {
        fprintf(stderr, "htc-sim: %" PRIu64 " of %" PRIu64 " seeds have run\n", sum->seeds, seeds);
        bad = 1;
    }
    return bad ? -1 : 0;
}
