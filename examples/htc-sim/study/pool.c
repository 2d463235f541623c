/* Runs share nothing: each process takes the next one from a counter that they share, and sends what came of it through a pipe of its own, a whole
 * record at a time. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pool.h"

#define JOBS_MAX 256

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

static void work(const pool *p, uint64_t *next, uint64_t memory_max, int to)
{
    watch    w;
    uint64_t i;
    watch_open(&w, memory_max, 1);
    while (!watch_stopped() && (i = __atomic_fetch_add(next, 1, __ATOMIC_RELAXED)) < p->n) {
        outcome o = { 0 };
        p->one(p->ctx, i, &w, &o);
        o.index = i;
        if (write_all(to, &o, sizeof o) != 0)
            _exit(1);
    }
    _exit(0);
}

typedef struct process {
    pid_t pid;
    int   from;
} process;

static int start(const pool *all, process *p, uint64_t *next, uint64_t memory_max)
{
    int ends[2];
    if (pipe(ends) != 0)
        return -1;
    fflush(NULL);
    pid_t parent = getpid();
    p->pid = fork();
    if (p->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* nobody would read what comes of it */
        if (getppid() != parent)
            _exit(1);
        close(ends[0]);
        work(all, next, memory_max, ends[1]);
    }
    close(ends[1]);
    p->from = ends[0];
    if (p->pid < 0)
        close(ends[0]);
    return p->pid < 0 ? -1 : 0;
}

static int collect(const pool *all, const process *p, uint32_t jobs, outcome *outcomes, watch *w, uint64_t *done)
{
    uint64_t      n = all->n;
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

int pool_run(const pool *all, outcome *outcomes)
{
    process   p[JOBS_MAX];
    watch     w;
    uint64_t  n = all->n, done = 0;
    long      here = sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t  jobs = all->jobs ? all->jobs : here > 0 ? (uint32_t)here : 1, started = 0;
    int       bad = 0;
    uint64_t *next = mmap(NULL, sizeof *next, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (next == MAP_FAILED) {
        fprintf(stderr, "htc-sim: no memory for the runs\n");
        return -1;
    }
    *next = 0;
    jobs = jobs > JOBS_MAX ? JOBS_MAX : jobs;
    jobs = jobs > n ? (uint32_t)n : jobs;
    watch_share(); /* kill PID reaches this process alone */
    watch_open(&w, all->memory_max, all->quiet);
    w.what = "runs";
    while (started < jobs && !bad) {
        bad = start(all, &p[started], next, w.host.memory_max / jobs) != 0;
        started += !bad;
    }
    if (bad)
        fprintf(stderr, "htc-sim: no process for the runs: %s\n", strerror(errno));
    else
        bad = collect(all, p, jobs, outcomes, &w, &done) != 0;
    watch_close(&w);
    for (uint32_t i = 0; i < started; i++) {
        int status = 0;
        close(p[i].from); /* it ends at its next record */
        waitpid(p[i].pid, &status, 0);
        if (!bad && WIFSIGNALED(status))
            fprintf(stderr, "htc-sim: a process was ended by signal %d\n", WTERMSIG(status));
        bad = bad || !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    }
    munmap(next, sizeof *next);
    if (!bad && done < n && !watch_stopped()) {
        fprintf(stderr, "htc-sim: %llu of %llu runs have ended\n", (unsigned long long)done, (unsigned long long)n);
        bad = 1;
    }
    return bad ? -1 : done < n;
}
