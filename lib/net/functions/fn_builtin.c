/* Functions that the system has: for trying out, for measuring, and for the traces of the papers. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "htcsched/env.h"
#include "net/functions/fn_pool.h"

#define SLICE (50 * HTC_MS) /* of a sleep: then it is asked whether the task was cancelled */
#define PATH_BYTES 4096

static int noop(htc_fn_task *t)
{
    (void)t;
    return 0;
}

/* Seconds as a decimal number. */
static int read_seconds(const char *text, htc_ns *ns)
{
    char  *end;
    double s = strtod(text, &end);
    if (end == text || *end || !(s >= 0 && s <= 1e9))
        return -1;
    *ns = (htc_ns)(s * 1e9);
    return 0;
}

static htc_ns clock_of(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (htc_ns)t.tv_sec * HTC_SECOND + (htc_ns)t.tv_nsec;
}

static int sleep_for(htc_fn_task *t)
{
    htc_ns ns = 0;
    if (read_seconds(t->argument, &ns) != 0)
        return t->fail(t, "seconds are wanted");
    for (htc_ns end = clock_of(CLOCK_MONOTONIC) + ns, now; (now = clock_of(CLOCK_MONOTONIC)) < end && !t->cancelled(t);) {
        htc_ns          left = end - now < SLICE ? end - now : SLICE;
        struct timespec pause = { (time_t)(left / HTC_SECOND), (long)(left % HTC_SECOND) };
        nanosleep(&pause, NULL);
    }
    return 0;
}

/* So much of a processor's time, however many share it. */
static int spin(htc_fn_task *t)
{
    htc_ns ns = 0;
    if (read_seconds(t->argument, &ns) != 0)
        return t->fail(t, "seconds are wanted");
    for (htc_ns end = clock_of(CLOCK_THREAD_CPUTIME_ID) + ns; clock_of(CLOCK_THREAD_CPUTIME_ID) < end && !t->cancelled(t);)
        ;
    return 0;
}

static int fail_errno(htc_fn_task *t, const char *what, const char *path)
{
    char text[HTC_TASK_FN_REASON_MAX];
    snprintf(text, sizeof text, "cannot %s %.150s: %s", what, path, strerror(errno));
    return t->fail(t, text);
}

/* A name in text, which has no zero at its end. 0, or -1: it is none. */
static int read_path(const void *text, size_t n, char path[PATH_BYTES])
{
    if (n == 0 || n >= PATH_BYTES || memchr(text, 0, n))
        return -1;
    memcpy(path, text, n);
    path[n] = '\0';
    return 0;
}

static int read_file(htc_fn_task *t)
{
    char    path[PATH_BYTES], bytes[65536];
    ssize_t n = 1;
    if ((t->in_bytes ? read_path(t->in, t->in_bytes, path) : read_path(t->argument, strlen(t->argument), path)) != 0)
        return t->fail(t, "the name of a file is wanted");
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return fail_errno(t, "open", path);
    while (n > 0 && !t->cancelled(t))
        n = read(fd, bytes, sizeof bytes);
    int bad = n < 0 ? fail_errno(t, "read", path) : 0;
    close(fd);
    return bad;
}

/* BYTES or BYTES PATH. */
static int read_write(const char *text, unsigned long long *bytes, const char **path)
{
    char *end;
    if (text[0] < '0' || text[0] > '9')
        return -1;
    errno = 0;
    *bytes = strtoull(text, &end, 10);
    *path = *end == ' ' ? end + 1 : end;
    return errno || (*end && (*end != ' ' || !end[1])) ? -1 : 0;
}

static int write_all(int fd, unsigned long long bytes)
{
    static const char zeros[65536];
    while (bytes > 0) {
        ssize_t n = write(fd, zeros, bytes < sizeof zeros ? (size_t)bytes : sizeof zeros);
        if (n < 0)
            return -1;
        bytes -= (unsigned long long)n;
    }
    return 0;
}

static int write_file(htc_fn_task *t)
{
    char               path[PATH_BYTES] = "a file without a name";
    unsigned long long bytes;
    const char        *name;
    if (read_write(t->argument, &bytes, &name) != 0)
        return t->fail(t, "a number of bytes is wanted");
    if (t->in_bytes ? read_path(t->in, t->in_bytes, path) != 0 : *name && read_path(name, strlen(name), path) != 0)
        return t->fail(t, "the name of a file is wanted");
    int fd = t->in_bytes || *name ? open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0666)
                                  : open(".", O_WRONLY | O_TMPFILE | O_CLOEXEC, 0600);
    if (fd < 0)
        return fail_errno(t, "open", path);
    int bad = write_all(fd, bytes) != 0;
    if (close(fd) != 0)
        bad = 1;
    return bad ? fail_errno(t, "write", path) : 0;
}

static const char *wants_nothing(const char *argument)
{
    return *argument ? "noop takes no argument" : NULL;
}

static const char *wants_seconds(const char *argument)
{
    htc_ns ns;
    return read_seconds(argument, &ns) != 0 ? "the argument is to be seconds, as 0.25" : NULL;
}

static const char *wants_path(const char *argument)
{
    (void)argument; /* "" where each task has its own input */
    return NULL;
}

static const char *wants_bytes(const char *argument)
{
    unsigned long long bytes;
    const char        *name;
    return read_write(argument, &bytes, &name) != 0 ? "the argument is to be a number of bytes, and then, if it has one, the name of the file" : NULL;
}

static const struct {
    const char *name;
    htc_task_fn fn;
    const char *(*wants)(const char *argument);
} builtins[] = {
    { "noop", noop, wants_nothing },   { "sleep", sleep_for, wants_seconds },  { "spin", spin, wants_seconds },
    { "read", read_file, wants_path }, { "write", write_file, wants_bytes },
};

htc_task_fn htc__fn_builtin(const char *name)
{
    for (size_t i = 0; i < sizeof builtins / sizeof *builtins; i++)
        if (strcmp(builtins[i].name, name) == 0)
            return builtins[i].fn;
    return NULL;
}

const char *htc__fn_builtin_wants(const char *name, const char *argument)
{
    for (size_t i = 0; i < sizeof builtins / sizeof *builtins; i++)
        if (strcmp(builtins[i].name, name) == 0)
            return builtins[i].wants(argument);
    return "there is no such builtin";
}
