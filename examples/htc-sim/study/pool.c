/* Runs share nothing: each process takes every n-th one and sends what came of it through a pipe of its own, a whole record at a time. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "study.h"

#define JOBS_MAX 256

void pool_one(const study *y, uint64_t index, watch *w, outcome *o)
{
    size_t       combination = (size_t)(index / y->seeds);
    int          draws = y->plot && index % y->seeds == 0;
    const model *m = y->model;
    settings    *s = NULL;
    void        *run = NULL;
    char         suffix[32];
    *o = (outcome){ 0 };
    if (!study_settings(y, combination, &s, &o->error) || !(run = m->open(s, y->seed + index % y->seeds, draws, &o->error)) || !m->run(run, NULL, w, &o->error)) {
        o->failed = 1;
    } else {
        *o = study_outcome(y, run);
        snprintf(suffix, sizeof suffix, "-%zu", combination + 1);
        if (draws && m->plot(run, y->plot, suffix) != 0) {
            o->failed = 1;
            o->error = (htc_error){ .status = HTC_ENOMEM, .text = "a picture could not be drawn", .hint = "choose a folder that can be written" };
        }
    }
    o->index = index;
    m->close(run);
    settings_destroy(s);
}

static int write_all(int fd, const void *data, size_t len)
{
    for (const char *p = data; len;) {
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
static int read_record(int fd, outcome *o)
{
    size_t got = 0;
    while (got < sizeof *o) {
        ssize_t n = read(fd, (char *)o + got, sizeof *o - got);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n == 0 && got == 0 ? 0 : -1;
        got += (size_t)n;
    }
    return 1;
}

static void work(const study *y, uint64_t first, uint64_t step, uint64_t memory_max, int to)
{
    uint64_t n = y->combinations * y->seeds;
    watch    w;
    watch_open(&w, memory_max, 1);
    for (uint64_t i = first; i < n && !watch_stopped(); i += step) {
        outcome o;
        pool_one(y, i, &w, &o);
        if (write_all(to, &o, sizeof o) != 0)
            _exit(1);
    }
    _exit(0);
}

typedef struct process {
    pid_t pid;
    int   from;
} process;

static int start(const study *y, process *p, uint32_t i, uint32_t jobs, uint64_t memory_max)
{
    int ends[2];
    if (pipe(ends) != 0)
        return -1;
    fflush(NULL);
    p->pid = fork();
    if (p->pid == 0) {
        close(ends[0]);
        work(y, i, jobs, memory_max, ends[1]);
    }
    close(ends[1]);
    p->from = ends[0];
    if (p->pid < 0)
        close(ends[0]);
    return p->pid < 0 ? -1 : 0;
}

static int collect(const study *y, const process *p, uint32_t jobs, outcome *outcomes, watch *w, uint64_t *done)
{
    uint64_t      n = y->combinations * y->seeds;
    double        begun = watch_seconds(), said = begun;
    struct pollfd fds[JOBS_MAX];
    uint32_t      open = jobs;
    for (uint32_t i = 0; i < jobs; i++)
        fds[i] = (struct pollfd){ .fd = p[i].from, .events = POLLIN };
    while (open) {
        if (poll(fds, jobs, 1000) < 0 && errno != EINTR)
            return -1;
        for (uint32_t i = 0; i < jobs; i++) {
            outcome o;
            if (fds[i].fd < 0 || !fds[i].revents)
                continue;
            int got = read_record(fds[i].fd, &o);
            if (got < 0)
                return -1;
            if (got == 0) {
                fds[i].fd = -1;
                open--;
            } else if (o.index < n) {
                outcomes[o.index] = o;
                *done += o.done || o.failed;
            }
        }
        double now = watch_seconds();
        if (now - said < (double)w->host.progress_ns / 1e9)
            continue;
        said = now;
        double rate = (double)*done / (now - begun);
        watch_say(w, *done, n, rate, rate > 0 ? (double)(n - *done) / rate : 0, now - begun);
    }
    return 0;
}

int pool_run(const study *y, outcome *outcomes)
{
    process  p[JOBS_MAX];
    watch    w;
    uint64_t n = y->combinations * y->seeds, done = 0;
    long     here = sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t jobs = y->jobs ? y->jobs : here > 0 ? (uint32_t)here : 1, started = 0;
    int      bad = 0;
    jobs = jobs > JOBS_MAX ? JOBS_MAX : jobs;
    jobs = jobs > n ? (uint32_t)n : jobs;
    watch_open(&w, settings_size(y->base, "sim.memory"), y->json);
    w.what = "runs";
    while (started < jobs && !bad) {
        bad = start(y, &p[started], started, jobs, w.host.memory_max / jobs) != 0;
        started += !bad;
    }
    if (bad)
        fprintf(stderr, "htc-sim: no process for the runs: %s\n", strerror(errno));
    else
        bad = collect(y, p, jobs, outcomes, &w, &done) != 0;
    watch_close(&w);
    for (uint32_t i = 0; i < started; i++) {
        int status = 0;
        close(p[i].from); /* it ends at its next record */
        waitpid(p[i].pid, &status, 0);
        if (!bad && WIFSIGNALED(status))
            fprintf(stderr, "htc-sim: a process was ended by signal %d\n", WTERMSIG(status));
        bad = bad || !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    }
    if (!bad && done < n && !watch_stopped()) {
        fprintf(stderr, "htc-sim: %llu of %llu runs have ended\n", (unsigned long long)done, (unsigned long long)n);
        bad = 1;
    }
    return bad ? -1 : done < n;
}
