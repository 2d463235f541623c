/* A shared object of function tasks, some of which do what a function must not. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "htcsched/task_fn.h"

#ifdef OTHER_ABI
HTC_TASK_FN const uint32_t htc_task_fn_abi;
const uint32_t htc_task_fn_abi = 99;
#elif !defined(NO_ABI)
HTC_TASK_FN_OBJECT;
#endif

#ifdef DIES_WHEN_LOADED
__attribute__((constructor)) static void die(void)
{
    raise(SIGSEGV);
}
#endif

HTC_TASK_FN int square(htc_fn_task *task)
{
    uint64_t y = task->number * task->number;
    return task->append(task, &y, sizeof y);
}

/* Only looks. */
HTC_TASK_FN int nothing(htc_fn_task *task)
{
    return task->size < sizeof *task;
}

HTC_TASK_FN int add_up(htc_fn_task *task)
{
    const unsigned char *in = task->in;
    uint64_t             sum = task->number;
    for (size_t i = 0; i < task->in_bytes; i++)
        sum += in[i];
    return task->append(task, &sum, sizeof sum);
}

HTC_TASK_FN int every_seventh_fails(htc_fn_task *task)
{
    if (task->number % 14 == 0)
        return task->fail(task, "an even seventh\n");
    return task->number % 7 == 0 ? 5 : 0;
}

/* As much as there may be, and of odd numbers one byte more. */
HTC_TASK_FN int much(htc_fn_task *task)
{
    char bytes[HTC_TASK_FN_OUTPUT_MAX / 8];
    for (int i = 0; i < 8; i++) {
        memset(bytes, 'a' + i + (int)(task->number % 16), sizeof bytes);
        if (task->append(task, bytes, sizeof bytes) != 0)
            return 1;
    }
    return task->number % 2 ? task->append(task, bytes, 1) : 0;
}

static int overflow(volatile char *above)
{
    volatile char here[4096];
    here[0] = above ? *above : 0;
    return here[0] ? 0 : overflow(here) + here[0];
}

/* WHAT NUMBER: this happens at that number, and nothing at all others. */
HTC_TASK_FN int misbehave(htc_fn_task *task)
{
    char               what[32];
    unsigned long long at;
    if (sscanf(task->argument, "%31s %llu", what, &at) != 2)
        return task->fail(task, "what?");
    if (task->number != at)
        return 0;
    if (strcmp(what, "segv") == 0)
        return *(volatile int *)NULL;
    if (strcmp(what, "abort") == 0)
        abort();
    if (strcmp(what, "overflow") == 0)
        return overflow(NULL);
    if (strcmp(what, "exit") == 0)
        exit(3);
    if (strcmp(what, "_exit") == 0)
        _exit(4);
    if (strcmp(what, "pthread_exit") == 0)
        pthread_exit(NULL);
    if (strcmp(what, "kill") == 0)
        kill(getpid(), SIGKILL);
    if (strcmp(what, "stop") == 0)
        raise(SIGSTOP);
    while (strcmp(what, "loop") == 0)
        ;
    return 0;
}

/* Returns when three of them were under way at one time, and not before. */
HTC_TASK_FN int meet(htc_fn_task *task)
{
    static atomic_int here, met;
    if (atomic_fetch_add(&here, 1) == 2)
        atomic_store(&met, 1);
    while (!atomic_load(&met) && !task->cancelled(task))
        usleep(100);
    atomic_fetch_sub(&here, 1);
    return 0;
}

/* Says in a file of the directory argument which process it is, and goes on until there is a file go, or it is cancelled. */
HTC_TASK_FN int wait_for_go(htc_fn_task *task)
{
    char path[512];
    snprintf(path, sizeof path, "%s/ready.tmp.%llu", task->argument, (unsigned long long)task->number);
    FILE *f = fopen(path, "w");
    if (!f)
        return task->fail(task, "no file");
    fprintf(f, "%ld", (long)getpid());
    fclose(f);
    char to[512];
    snprintf(to, sizeof to, "%s/ready", task->argument);
    rename(path, to);
    snprintf(path, sizeof path, "%s/go", task->argument);
    while (access(path, F_OK) != 0 && !task->cancelled(task))
        usleep(1000);
    return 0;
}

HTC_TASK_FN int look_around(htc_fn_task *task)
{
    struct rlimit files, bytes;
    const char   *mine = getenv("FOR_TASKS"), *scratch = getenv("HTC_SCRATCH"), *user = getenv("HTC_USER");
    char          cwd[512] = "";
    sigset_t      blocked;
    if (getenv("NOT_FOR_TASKS") || !mine || strcmp(mine, "yes") != 0 || !user || strcmp(user, "ada") != 0)
        return task->fail(task, "environment");
    if (!getcwd(cwd, sizeof cwd) || !scratch || strcmp(cwd, scratch) != 0)
        return task->fail(task, cwd);
    if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur != 60 || getrlimit(RLIMIT_FSIZE, &bytes) != 0 || bytes.rlim_cur != 12345)
        return task->fail(task, "limits");
    if (getsid(0) != getpid() || prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1)
        return task->fail(task, "session or privileges");
    if (pthread_sigmask(SIG_SETMASK, NULL, &blocked) != 0 || sigismember(&blocked, SIGTERM))
        return task->fail(task, "signals are blocked");
    return 0;
}

/* The first process in which it runs is killed from outside while number 50000 is under way: it waits for that. */
HTC_TASK_FN int wait_once(htc_fn_task *task)
{
    char path[512];
    snprintf(path, sizeof path, "%s/ready", task->argument);
    if (task->number != 50000 || access(path, F_OK) == 0)
        return 0;
    char tmp[512];
    snprintf(tmp, sizeof tmp, "%s/ready.tmp", task->argument);
    FILE *f = fopen(tmp, "w");
    if (!f)
        return task->fail(task, "no file");
    fprintf(f, "%ld", (long)getpid());
    fclose(f);
    rename(tmp, path);
    for (;;)
        pause();
}

/* Writes what it likes to wherever it can: into the memory that the process shares, and into the socket. */
HTC_TASK_FN int scribble(htc_fn_task *task)
{
    char          line[512];
    unsigned long begin = 0, end = 0, seed = (unsigned long)task->number * 2654435761u + 1;
    FILE         *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps))
        if (strstr(line, "memfd:htc-fn") && sscanf(line, "%lx-%lx", &begin, &end) == 2)
            break;
    if (maps)
        fclose(maps);
    if (!begin)
        return task->fail(task, "there is no such memory");
    for (int i = 0; i < 64; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        *(volatile unsigned int *)(begin + ((seed >> 20) % (end - begin) & ~3ul)) = (unsigned int)(seed >> 33) & 0xffff;
        ((volatile unsigned int *)begin)[(seed >> 40) % 256] = (unsigned int)(seed >> 30) % 300; /* what a thread says it is at */
    }
    for (int fd = 3; task->number % 3 == 0 && fd < 40; fd++)
        (void)!write(fd, line, seed % sizeof line);
    return 0;
}
