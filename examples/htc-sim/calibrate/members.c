/* Members of a store as children of this process: the library's own, over Unix sockets, with a log on the disk. */
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "calibrate.h"
#include "htcsched/host.h"
#include "htcsched/kv_store.h"

#define READY_MS 20000

static int fail(htc_error *e, htc_status status, const char *what, const char *hint)
{
    *e = (htc_error){ .status = status };
    snprintf(e->text, sizeof e->text, "%.200s: %.100s", what, errno ? strerror(errno) : htc_strerror(status));
    snprintf(e->hint, sizeof e->hint, "%.150s", hint);
    return 0;
}

static uint64_t id_of(uint32_t i)
{
    return 1000 + i;
}

static void ready(void *ctx)
{
    ssize_t n = write(*(int *)ctx, "r", 1);
    (void)n;
}

/* One of them, until it is killed. */
static htc_status member(const crew *c, uint32_t self, int *tell)
{
    htc_rng               rng;
    htc_env               env = { .size = sizeof env, .rng = &rng };
    htc_host             *host = NULL;
    htc_kv_store         *store = NULL;
    htc_kv_member         members[CREW_MAX];
    const char           *addresses[CREW_MAX];
    char                  dir[320];
    htc_kv_server_options so = { .size = sizeof so, .members = members, .member_count = c->n, .member_addresses = addresses, .self = id_of(self) };
    htc_kv_store_options  o = { .size = sizeof o, .dir = dir, .durability = HTC_KV_SYNC, .engine = HTC_KV_LOG, .server = c->n > 1 ? &so : NULL, .ready = ready, .ready_ctx = tell };
    htc_host_random(&rng, sizeof rng);
    snprintf(dir, sizeof dir, "%s/%u", c->dir, self);
    htc_status status = htc_host_create(&env, NULL, &host);
    for (uint32_t i = 0; i < c->n && status == HTC_OK; i++) {
        members[i] = (htc_kv_member){ .id = id_of(i) };
        addresses[i] = c->address[i];
        if (i != self)
            status = htc_host_dial_unix(host, c->address[i] + 5, 2, &members[i].peer, NULL);
    }
    if (status == HTC_OK)
        status = htc_host_listen_unix(host, c->address[self] + 5, 0600, 1, NULL);
    if (status == HTC_OK)
        status = htc_kv_store_open(&env, &o, &store, NULL);
    if (status == HTC_OK) {
        htc_kv_store_attach(store, host);
        status = htc_host_run(host, htc_kv_server_ops(), htc_kv_store_server(store));
    }
    return status;
}

static int start(crew *c, uint32_t i, const int *pipes, htc_error *error)
{
    char  dir[320];
    pid_t parent = getpid();
    snprintf(dir, sizeof dir, "%s/%u", c->dir, i);
    if (mkdir(dir, 0700) != 0)
        return fail(error, HTC_EIO, dir, "choose with --dir a folder that can be written");
    c->pid[i] = fork();
    if (c->pid[i] < 0)
        return fail(error, HTC_EINTERNAL, "no process for a member", "end other processes, or raise the limit (ulimit -u)");
    if (c->pid[i] == 0) {
        int tell = pipes[1];
        close(pipes[0]);
        signal(SIGINT, SIG_IGN); /* the parent ends it */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() == parent)
            (void)member(c, i, &tell);
        _exit(1);
    }
    return 1;
}

/* All have said that they answer. */
static int wait_for(const crew *c, int fd, htc_error *error)
{
    struct pollfd p = { .fd = fd, .events = POLLIN };
    char          byte;
    errno = 0;
    for (uint32_t i = 0; i < c->n; i++)
        if (poll(&p, 1, READY_MS) <= 0 || read(fd, &byte, 1) != 1) {
            errno = 0;
            return fail(error, HTC_ETIMEDOUT, "the members of a store do not begin", "try again on a machine that is less busy, or with --dir on another disk");
        }
    return 1;
}

int crew_start(crew *c, uint32_t n, const char *dir, htc_error *error)
{
    int pipes[2], good;
    *c = (crew){ .n = n, .dials = n > 1 ? n : 0 };
    snprintf(c->dir, sizeof c->dir, "%s", dir);
    for (uint32_t i = 0; i < n; i++)
        snprintf(c->address[i], sizeof c->address[i], "unix:%s/%u.sock", dir, i);
    if (pipe(pipes) != 0)
        return fail(error, HTC_EINTERNAL, "no pipe", "raise the limit of open files (ulimit -n)");
    good = 1;
    for (uint32_t i = 0; i < n && good; i++)
        good = start(c, i, pipes, error);
    close(pipes[1]); /* so that members that end are noticed */
    good = good && wait_for(c, pipes[0], error);
    close(pipes[0]);
    if (!good)
        crew_end(c);
    return good;
}

void crew_end(crew *c)
{
    for (uint32_t i = 0; i < c->n; i++)
        if (c->pid[i] > 0)
            kill(c->pid[i], SIGKILL);
    for (uint32_t i = 0; i < c->n; i++)
        while (c->pid[i] > 0 && waitpid(c->pid[i], NULL, 0) < 0 && errno == EINTR)
            ;
    c->n = 0;
}

static double seconds_of(const char *folder, const char *thread)
{
    char               file[128];
    unsigned long long ns = 0;
    snprintf(file, sizeof file, "%.60s/%.30s/schedstat", folder, thread);
    FILE *f = fopen(file, "re");
    if (!f)
        return 0;
    if (fscanf(f, "%llu", &ns) != 1)
        ns = 0;
    fclose(f);
    return (double)ns / 1e9;
}

double crew_seconds(const crew *c)
{
    double sum = 0;
    for (uint32_t i = 0; i < c->n; i++) {
        char folder[64];
        snprintf(folder, sizeof folder, "/proc/%ld/task", (long)c->pid[i]);
        DIR *tasks = opendir(folder);
        for (struct dirent *d; tasks && (d = readdir(tasks));)
            if (d->d_name[0] != '.')
                sum += seconds_of(folder, d->d_name);
        if (tasks)
            closedir(tasks);
    }
    return sum;
}
