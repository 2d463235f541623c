/* Functions that add tasks, well or not: each leaves its argument, or what is made of it. */
#include "htcsched/task_fn.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

HTC_TASK_FN_OBJECT;

HTC_TASK_FN int say(htc_fn_task *task)
{
    return task->append(task, task->argument, strlen(task->argument));
}

HTC_TASK_FN int say_and_fail(htc_fn_task *task)
{
    (void)say(task);
    return task->fail(task, "it said so");
}

HTC_TASK_FN int say_and_crash(htc_fn_task *task)
{
    (void)say(task);
    return raise(SIGSEGV);
}

HTC_TASK_FN int say_and_loop(htc_fn_task *task)
{
    (void)say(task);
    for (;;)
        pause();
}

/* "FILE TASKS": those if there is that file, else it fails. */
HTC_TASK_FN int say_if(htc_fn_task *task)
{
    char        file[512];
    const char *tasks = strchr(task->argument, ' ');
    if (!tasks || (size_t)snprintf(file, sizeof file, "%.*s", (int)(tasks - task->argument), task->argument) >= sizeof file)
        return task->fail(task, "the argument is not FILE TASKS");
    return access(file, F_OK) == 0 ? task->append(task, tasks, strlen(tasks)) : 1;
}

/* "N BYTES": N tasks, each of a line of so many bytes. */
HTC_TASK_FN int many(htc_fn_task *task)
{
    int  n = 0, bytes = 0;
    char line[4096];
    if (sscanf(task->argument, "%d %d", &n, &bytes) != 2 || bytes < 20 || bytes > (int)sizeof line)
        return task->fail(task, "the argument is not N BYTES");
    for (int i = 0; i < n; i++) {
        int at = snprintf(line, sizeof line, "t%d: @noop #", i);
        memset(line + at, '.', (size_t)(bytes - at - 1));
        line[bytes - 1] = '\n';
        if (task->append(task, line, (size_t)bytes) != 0)
            return 1;
    }
    return 0;
}

/* "DEPTH OBJECT": two like it, one less deep. */
HTC_TASK_FN int grow(htc_fn_task *task)
{
    char        line[1200];
    int         depth = atoi(task->argument);
    const char *object = strchr(task->argument, ' ');
    if (depth <= 0 || !object)
        return depth != 0;
    int n = snprintf(line, sizeof line, "a: adds=output @call %s grow '%d%s'\nb: adds=output @call %s grow '%d%s'\n", object + 1, depth - 1, object,
                     object + 1, depth - 1, object);
    return task->append(task, line, (size_t)n);
}

/* The same, each for a while; in which site it runs is a line of the file grown beside OBJECT, an absolute path. */
HTC_TASK_FN int grow_at(htc_fn_task *task)
{
    char        path[1200], line[1500];
    int         depth = atoi(task->argument);
    const char *object = strchr(task->argument, ' '), *site = getenv("HTC_SITE");
    if (depth < 0 || !object || !site)
        return task->fail(task, "the argument is not DEPTH OBJECT, or there is no site");
    snprintf(path, sizeof path, "%.*s/grown", (int)(strrchr(object, '/') - object - 1), object + 1);
    int n = snprintf(line, sizeof line, "%s\n", site), fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0666);
    int bad = fd < 0 || write(fd, line, (size_t)n) != n;
    if (fd < 0 || close(fd) != 0 || bad)
        return task->fail(task, "the site cannot be written");
    usleep(50000);
    if (depth == 0)
        return 0;
    n = snprintf(line, sizeof line, "a: adds=output @call%s grow_at '%d%s'\nb: adds=output @call%s grow_at '%d%s'\n", object, depth - 1, object, object,
                 depth - 1, object);
    return task->append(task, line, (size_t)n);
}

/* For ever: each adds the next. */
HTC_TASK_FN int again(htc_fn_task *task)
{
    char line[1200];
    int  n = snprintf(line, sizeof line, "next: adds=output @call %s again %s\n", task->argument, task->argument);
    return task->append(task, line, (size_t)n);
}
