/* htc-gang: a command on the other nodes of a task of several. All that asks is in the library. */
#include "htcsched/agent_host.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int usage(FILE *to)
{
    fputs("usage: htc-gang NODE COMMAND [ARGUMENT...] | --all COMMAND [ARGUMENT...] | --own COMMAND [ARGUMENT...] | -x NODE LINE... | --help | --version\n"
          "In a task of several nodes: runs a command on one of them, started by that node's agent, and ends as it does: htc-gang(1).\n"
          "  NODE             as in HTC_NODEFILE, or # and a number from 0\n"
          "  --all            once on each node, at the same time\n"
          "  --own            here, with what this node's agent says of the task: mpirun htc-gang --own ./program\n"
          "  -x               as ssh: the words are one line for sh. mpirun calls it so\n"
          "  --help, --version\n",
          to);
    return to == stdout ? 0 : 2;
}

static int on(const char *node, char **words)
{
    htc_error error = { 0 };
    int       code = htc_agent_host_gang(getenv("HTC_GANG"), node, (const char *const *)words, &error);
    if (code < 0)
        fprintf(stderr, "htc-gang: %s: %s\n", node, error.text);
    return code < 0 ? 255 : code;
}

/* mpirun does not look at how this ends, and would wait for ever for a process that could not be started. */
static int as_ssh(const char *node, char **words)
{
    size_t len = 0, at = 0;
    for (size_t i = 0; words[i]; i++)
        len += strlen(words[i]) + 1;
    char *line = malloc(len + 1), *shell[] = { "/bin/sh", "-c", line, NULL };
    if (!line)
        return 255;
    for (size_t i = 0; words[i]; i++)
        at += (size_t)snprintf(line + at, len + 1 - at, "%s%s", i ? " " : "", words[i]);
    int code = on(node, shell);
    if (code == 126 || code == 127 || code == 255) {
        fprintf(stderr, "htc-gang: %s: nothing was started: %.200s -> end who asked\n", node, line);
        if (getppid() > 1)
            kill(getppid(), SIGTERM);
    }
    free(line);
    return code;
}

/* The code of the first that has not ended well, in the order of the nodes. */
static int on_all(char **words)
{
    const char *of = getenv("HTC_GANG_NODES");
    long        n = of ? strtol(of, NULL, 10) : 1;
    pid_t       pids[1024];
    int         code = 0, status;
    char        node[32];
    if (n < 1 || n > 1024)
        n = 1;
    if (n == 1) { /* a task of one node is its own gang */
        execvp(words[0], words);
        fprintf(stderr, "htc-gang: %s: %s\n", words[0], strerror(errno));
        return 127;
    }
    for (long i = 0; i < n; i++) {
        snprintf(node, sizeof node, "#%ld", i);
        pids[i] = fork();
        if (pids[i] == 0)
            _exit(on(node, words));
    }
    for (long i = 0; i < n; i++) {
        while (pids[i] > 0 && waitpid(pids[i], &status, 0) < 0 && errno == EINTR)
            ;
        int own = pids[i] < 0 ? 255 : WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        code = code ? code : own;
    }
    return code;
}

#define ENVIRONMENT_MAX (4u << 20)

/* /proc/PID/FILE, with a zero at its end; the caller's to free. NULL: it cannot be read. */
static char *of_process(long pid, const char *file, size_t *len)
{
    char  path[64], *text = malloc(ENVIRONMENT_MAX + 1);
    FILE *f;
    snprintf(path, sizeof path, "/proc/%ld/%s", pid, file);
    f = text ? fopen(path, "r") : NULL;
    *len = f ? fread(text, 1, ENVIRONMENT_MAX, f) : 0;
    if (f)
        fclose(f);
    if (*len == 0) {
        free(text);
        return NULL;
    }
    text[*len] = '\0';
    return text;
}

static long parent_of(long pid)
{
    size_t len;
    char  *text = of_process(pid, "stat", &len), *end = text ? strrchr(text, ')') : NULL;
    long   parent = end && strlen(end) > 4 ? strtol(end + 4, NULL, 10) : 0;
    free(text);
    return parent;
}

static int is_of_node(const char *variable)
{
    return strncmp(variable, "HTC_", 4) == 0 || strncmp(variable, "TMPDIR=", 7) == 0 || strncmp(variable, "CUDA_VISIBLE_DEVICES=", 21) == 0;
}

/* mpirun hands the first node's environment to all its processes. What their own node's agent has said stands where a process between began:
 * the nearest one above that an agent has told its place. */
static int with_own(char **words)
{
    extern char **environ;
    size_t        len = 0;
    char         *text = NULL;
    for (long pid = getppid(); pid > 1 && !text; pid = parent_of(pid)) {
        text = of_process(pid, "environ", &len);
        int is = 0;
        for (size_t i = 0; text && !is && i < len; i += strlen(text + i) + 1)
            is = strncmp(text + i, "HTC_GANG_MEMBER=", 16) == 0;
        if (!is) {
            free(text);
            text = NULL;
        }
    }
    for (size_t i = 0; text && environ[i];) {
        char *name = is_of_node(environ[i]) ? strndup(environ[i], strcspn(environ[i], "=")) : NULL;
        if (name && unsetenv(name) == 0)
            i = 0;
        else
            i++;
        free(name);
    }
    for (size_t i = 0; text && i < len; i += strlen(text + i) + 1)
        if (is_of_node(text + i))
            putenv(text + i); /* it lasts until the command takes over */
    execvp(words[0], words);
    fprintf(stderr, "htc-gang: %s: %s\n", words[0], strerror(errno));
    return errno == ENOENT ? 127 : 126;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--version") == 0) {
        printf("htc-gang %s\n", HTC_VERSION);
        return 0;
    }
    if (argc > 1 && strcmp(argv[1], "--help") == 0)
        return usage(stdout);
    if (argc > 2 && strcmp(argv[1], "--all") == 0)
        return on_all(argv + 2);
    if (argc > 2 && strcmp(argv[1], "--own") == 0)
        return with_own(argv + 2);
    if (argc > 3 && strcmp(argv[1], "-x") == 0)
        return as_ssh(argv[2], argv + 3);
    if (argc < 3 || argv[1][0] == '-')
        return usage(stderr);
    return on(argv[1], argv + 2);
}
