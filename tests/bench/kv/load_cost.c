/* What processes cost: CPU time as the scheduler counts it, and cycles and instructions as the processor does, where it may be asked. */
#include <dirent.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "kv/load.h"

static int counter(long thread, uint64_t what)
{
    struct perf_event_attr attr = {
        .type = PERF_TYPE_HARDWARE, .size = sizeof attr, .config = what, .inherit = 1, .exclude_hv = 1
    };
    return (int)syscall(SYS_perf_event_open, &attr, (pid_t)thread, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

static uint64_t count_of(int fd)
{
    uint64_t count = 0;
    ssize_t  n = read(fd, &count, sizeof count);
    close(fd);
    return n == sizeof count ? count : 0;
}

static void count_thread(load_cost *cost, long thread)
{
    int cycles = cost->threads < LOAD_THREADS_MAX ? counter(thread, PERF_COUNT_HW_CPU_CYCLES) : -1;
    int instructions = cycles >= 0 ? counter(thread, PERF_COUNT_HW_INSTRUCTIONS) : -1;
    if (instructions < 0) {
        cost->counted = 0;
        if (cycles >= 0)
            close(cycles);
        return;
    }
    cost->fds[2 * cost->threads] = cycles;
    cost->fds[2 * cost->threads + 1] = instructions;
    cost->threads++;
}

static uint64_t time_of(long pid, long thread)
{
    char               file[96];
    unsigned long long ns = 0;
    snprintf(file, sizeof file, "/proc/%ld/task/%ld/schedstat", pid, thread);
    FILE *f = fopen(file, "re");
    if (f && fscanf(f, "%llu", &ns) != 1)
        ns = 0;
    if (f)
        fclose(f);
    return ns;
}

/* Time of all threads of a process; cost: they are counted from now on. */
static uint64_t process(load_cost *cost, long pid)
{
    char           path[64];
    uint64_t       sum = 0;
    struct dirent *d;
    snprintf(path, sizeof path, "/proc/%ld/task", pid);
    DIR *tasks = opendir(path);
    if (!tasks)
        load_fatal(path, "there is no such process");
    while ((d = readdir(tasks))) {
        long thread = strtol(d->d_name, NULL, 10);
        if (thread <= 0)
            continue;
        sum += time_of(pid, thread);
        if (cost && cost->counted)
            count_thread(cost, thread);
    }
    closedir(tasks);
    return sum;
}

static uint64_t time_of_all(load_cost *cost, const char *pids)
{
    struct timespec t;
    uint64_t        sum = 0;
    if (!pids) {
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
        return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
    }
    for (const char *p = pids; *p; p += strspn(p, ",")) {
        char *end;
        long  pid = strtol(p, &end, 10);
        if (end == p)
            load_fatal(pids, "process ids are expected");
        sum += process(cost, pid);
        p = end;
    }
    return sum;
}

void load_cost_begin(load_cost *cost, const char *pids)
{
    *cost = (load_cost){ .counted = pids != NULL };
    cost->ns = time_of_all(cost, pids);
}

void load_cost_end(load_cost *cost, const char *pids)
{
    cost->ns = time_of_all(NULL, pids) - cost->ns;
    for (unsigned i = 0; i < cost->threads; i++) {
        cost->cycles += count_of(cost->fds[2 * i]);
        cost->instructions += count_of(cost->fds[2 * i + 1]);
    }
    cost->threads = 0;
}
