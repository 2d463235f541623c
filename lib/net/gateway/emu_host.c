#include "net/gateway/emu_host.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/util.h"
#include "htcsched/state.h"
#include "net/files/files.h"
#include "net/files/proc.h"
#include "net/loop/host_private.h"

#define PID_BITS 22 /* a pid of Linux has no more */

typedef struct process {
    htc__emu_host  *host;
    uint64_t        job;
    uint32_t        step;
    pid_t           pid;
    int             pidfd, child; /* child: ours, else of a process before us */
    struct event   *event;
    struct process *next;
} process;

struct htc__emu_host {
    const htc_env      *env;
    struct event_base  *base;
    const char *const  *environ;
    htc__emu           *emu;
    struct event       *timer;
    process            *all;
    htc_buf             printed, error, text;
    int                 written; /* the journal, as it is */
    char                dir[PATH_MAX], journal[PATH_MAX];
};

/* A pid names a process for as long as it lives; with the time of its start, for ever (of this boot). */
static uint64_t handle_of(pid_t pid)
{
    htc__proc p;
    return htc__proc_read(pid, &p) == 0 ? p.start << PID_BITS | (uint64_t)pid : 0;
}

static void pump(htc__emu_host *h);

/* ---- processes ---- */

static void process_free(process *p)
{
    process **at = &p->host->all;
    while (*at && *at != p)
        at = &(*at)->next;
    if (*at)
        *at = p->next;
    if (p->event)
        event_free(p->event);
    if (p->pidfd >= 0)
        close(p->pidfd);
    free(p);
}

static void script_path(const htc__emu_host *h, uint64_t job, char *path, size_t cap)
{
    snprintf(path, cap, "%.3900s/%" PRIu64 ".sh", h->dir, job);
}

static void on_end(evutil_socket_t fd, short what, void *arg)
{
    process       *p = arg;
    htc__emu_host *h = p->host;
    char           script[PATH_MAX];
    int            status = 0;
    (void)fd, (void)what;
    int known = p->child && waitpid(p->pid, &status, WNOHANG) == p->pid;
    htc__emu_ended(h->emu, p->job, p->step, !known || !WIFEXITED(status) || WEXITSTATUS(status) != 0, htc_host_now());
    script_path(h, p->job, script, sizeof script);
    if (!htc__emu_lives(h->emu, p->job))
        unlink(script);
    process_free(p);
    h->written = 0;
    pump(h);
}

static process *watch(htc__emu_host *h, uint64_t job, uint32_t step, pid_t pid, int child)
{
    process *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    *p = (process){ .host = h, .job = job, .step = step, .pid = pid, .child = child, .pidfd = pidfd_open(pid, 0), .next = h->all };
    h->all = p;
    p->event = p->pidfd < 0 ? NULL : event_new(h->base, p->pidfd, EV_READ | EV_PERSIST, on_end, p);
    if (p->event && event_add(p->event, NULL) == 0)
        return p;
    process_free(p);
    return NULL;
}

static void kill_session(const process *p)
{
    if (kill(-p->pid, SIGKILL) != 0)
        pidfd_send_signal(p->pidfd, SIGKILL, NULL, 0);
}

/* It begins when it is written down, and not at all if nobody is left to say so. */
static void __attribute__((noreturn)) become_step(const htc__emu_host *h, const char *script, const char *out, uint32_t step, int gate)
{
    struct sigaction standard = { .sa_handler = SIG_DFL };
    sigset_t         none;
    char             go = 0, number[16];
    const char      *argv[] = { "/bin/sh", script, NULL };
    for (int i = 1; i < NSIG; i++)
        sigaction(i, &standard, NULL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setsid();
    snprintf(number, sizeof number, "%" PRIu32, step);
    ssize_t n;
    while ((n = read(gate, &go, 1)) < 0 && errno == EINTR)
        ;
    int in = n == 1 ? open("/dev/null", O_RDONLY) : -1, to = in >= 0 ? open(out, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_NOFOLLOW, 0600) : -1;
    if (to < 0 && in >= 0)
        to = open("/dev/null", O_WRONLY);
    if (to >= 0 && dup2(in, 0) >= 0 && dup2(to, 1) >= 0 && dup2(to, 2) >= 0 && close_range(3, ~0u, CLOSE_RANGE_CLOEXEC) == 0) {
        environ = (char **)(uintptr_t)h->environ;
        if (setenv("EMU_STEP", number, 1) == 0)
            execv(argv[0], (char *const *)(uintptr_t)argv);
    }
    _exit(127);
}

static void name_output(const htc__emu_action *a, char *out, size_t cap)
{
    const char *from = a->out ? a->out : "/dev/null", *mark = strstr(from, "%a");
    if (mark)
        snprintf(out, cap, "%.*s%" PRIu32 "%s", (int)(mark - from), from, a->step, mark + 2);
    else
        snprintf(out, cap, "%s", from);
}

static htc_status keep(htc__emu_host *h)
{
    htc_error error;
    htc_buf_clear(&h->text);
    htc__emu_journal(h->emu, &h->text);
    htc_status status = h->text.status == HTC_OK ? htc_state_write_file(h->journal, htc_buf_bytes(&h->text), 0600, &error) : h->text.status;
    if (status != HTC_OK)
        htc__log(h->env, HTC_LOG_ERROR, "%s cannot be written: %s -> nothing is started", h->journal, htc_strerror(status));
    h->written = status == HTC_OK;
    return status;
}

static int write_script(const htc__emu_action *a, const char *path)
{
    if (access(path, F_OK) == 0)
        return 0;
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return -1;
    int bad = htc__write_all(fd, a->script.data, a->script.len) != 0;
    bad |= close(fd) != 0;
    if (bad)
        unlink(path);
    return bad ? -1 : 0;
}

/* A step that waits at its gate; NULL: it cannot be started. */
static process *start(htc__emu_host *h, const htc__emu_action *a, int *gate)
{
    char  script[PATH_MAX], out[PATH_MAX];
    int   ends[2];
    pid_t pid = -1;
    script_path(h, a->job, script, sizeof script);
    name_output(a, out, sizeof out);
    if (write_script(a, script) != 0 || pipe2(ends, O_CLOEXEC) != 0)
        return NULL;
    pid = fork();
    if (pid == 0) {
        close(ends[1]);
        become_step(h, script, out, a->step, ends[0]);
    }
    close(ends[0]);
    process *p = pid > 0 ? watch(h, a->job, a->step, pid, 1) : NULL;
    *gate = ends[1];
    if (p)
        return p;
    close(ends[1]); /* a child that is there ends */
    if (pid > 0)
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            ;
    return NULL;
}

enum { TOGETHER = 64 };

/* Several begin at once, for one writing of the journal. */
static int start_some(htc__emu_host *h, const htc__emu_action *first)
{
    htc__emu_action a = *first;
    process        *all[TOGETHER];
    int             gates[TOGETHER], n = 0, more = 1;
    while (more && n < TOGETHER) {
        if (a.kind == HTC__EMU_KILL) {
            for (process *p = h->all; p; p = p->next)
                if (p->job == a.job && p->step == a.step)
                    kill_session(p);
        } else if ((all[n] = start(h, &a, &gates[n]))) {
            htc__emu_started(h->emu, a.job, a.step, handle_of(all[n]->pid));
            n++;
        } else {
            htc__log(h->env, HTC_LOG_WARN, "a step of job %" PRIu64 " cannot be started: %s -> it has failed", a.job, strerror(errno));
            htc__emu_ended(h->emu, a.job, a.step, 1, htc_host_now());
        }
        more = n < TOGETHER && htc__emu_next(h->emu, htc_host_now(), &a);
    }
    int ok = n == 0 || keep(h) == HTC_OK;
    for (int i = 0; i < n; i++) {
        if (ok && write(gates[i], "g", 1) != 1)
            htc__log(h->env, HTC_LOG_WARN, "process %ld does not begin -> it has failed", (long)all[i]->pid);
        close(gates[i]);
    }
    return n;
}

static void pump(htc__emu_host *h)
{
    htc__emu_action a;
    while (htc__emu_next(h->emu, htc_host_now(), &a))
        start_some(h, &a);
    if (!h->written)
        (void)keep(h);
    htc_ns at = htc__emu_deadline(h->emu), now = htc_host_now();
    if (at == HTC_NEVER) {
        event_del(h->timer);
        return;
    }
    struct timeval tv = htc__timeval(at > now ? at - now : 0);
    event_add(h->timer, &tv);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    pump(arg);
}

int htc__emu_host_command(htc__emu_host *h, htc_bytes words, htc_bytes input, htc_bytes *printed, htc_bytes *error)
{
    htc_buf_clear(&h->printed);
    htc_buf_clear(&h->error);
    int code = htc__emu_command(h->emu, words, input, &h->printed, &h->error, htc_host_now());
    struct timeval soon = { 0, 0 };
    event_add(h->timer, &soon); /* what it starts or ends, it does in the loop */
    *printed = htc_buf_bytes(&h->printed);
    *error = htc_buf_bytes(&h->error);
    return code;
}

/* ---- life ---- */

static void found(void *ctx, uint64_t job, uint32_t step, uint64_t handle)
{
    htc__emu_host *h = ctx;
    pid_t          pid = (pid_t)(handle & ((UINT64_C(1) << PID_BITS) - 1));
    process       *p = pid > 1 && handle_of(pid) == handle ? watch(h, job, step, pid, 0) : NULL;
    if (!p || handle_of(pid) != handle)
        htc__emu_ended(h->emu, job, step, 1, htc_host_now());
}

static htc_status go_on(htc__emu_host *h, htc_error *error)
{
    size_t     room = (size_t)8 << 20;
    char      *text = malloc(room);
    ssize_t    n = text ? htc__read_text(h->journal, text, room) : -1;
    int        missing = text && n < 0 && errno == ENOENT;
    htc_status status = !text ? HTC_ENOMEM : missing ? HTC_OK : n < 0 ? htc__status_of(errno, HTC_EIO) : htc__emu_recover(h->emu, (htc_bytes){ text, (size_t)n }, found, h);
    free(text);
    return status == HTC_OK || status == HTC_EEXISTS ? HTC_OK : htc__error(error, status, "%.300s says which steps run, and cannot be read: %s", h->journal, htc_strerror(status));
}

/* Scripts of jobs before: whoever runs one has it open. */
static void remove_scripts(const htc__emu_host *h)
{
    struct dirent *e;
    DIR           *d = opendir(h->dir);
    while (d && (e = readdir(d))) {
        const char *dot = strrchr(e->d_name, '.');
        if (dot && strcmp(dot, ".sh") == 0)
            unlinkat(dirfd(d), e->d_name, 0);
    }
    if (d)
        closedir(d);
}

/* "NAME:CORES"; or one cluster of that many. */
static htc_status read_clusters(const htc__emu_host_options *o, htc__emu_cluster *clusters, uint32_t *n, htc_error *error)
{
    const char *const *names = o->emu ? o->emu->clusters : NULL;
    for (*n = 0; names && names[*n]; (*n)++) {
        htc__emu_cluster *c = &clusters[*n];
        int               end = 0;
        if (*n == HTC__EMU_CLUSTERS_MAX)
            return htc__error(error, HTC_ECONFIG, "emu.clusters has more than %d clusters", HTC__EMU_CLUSTERS_MAX);
        if (sscanf(names[*n], "%63[A-Za-z0-9_-]:%" SCNu32 "%n", c->name, &c->cores, &end) != 2 || names[*n][end] || c->cores == 0 || c->cores > 100000)
            return htc__error(error, HTC_ECONFIG, "emu.clusters: %.80s is no NAME:CORES", names[*n]);
    }
    if (*n == 0)
        clusters[(*n)++] = (htc__emu_cluster){ "emu", o->cores ? o->cores : 1 };
    return HTC_OK;
}

htc_status htc__emu_host_create(const htc__emu_host_options *o, htc__emu_host **out, htc_error *error)
{
    static const htc_gateway_host_emu plain = { .size = sizeof plain };
    const htc_gateway_host_emu       *emu = o->emu ? o->emu : &plain;
    htc__emu_cluster                  clusters[HTC__EMU_CLUSTERS_MAX];
    htc__emu_options                  options = { .clusters = clusters, .metric = emu->by_queue ? HTC__METRIC_QUEUE : HTC__METRIC_FREE_CORES, .service_ns = emu->service_ns,
                                                  .hold = emu->hold, .hold_rate = emu->hold_rate, .fail = emu->fail, .seed = emu->seed,
                                                  .identity = o->identity };
    htc_status                        status = read_clusters(o, clusters, &options.n, error);
    if (status != HTC_OK)
        return status;
    htc__emu_host *h = calloc(1, sizeof *h);
    if (!h)
        return htc__error(error, HTC_ENOMEM, "out of memory");
    *out = h;
    h->env = o->env;
    h->base = o->base;
    h->environ = o->environ;
    htc_buf_init(&h->printed, h->env, (size_t)32 << 20);
    htc_buf_init(&h->error, h->env, 4096);
    htc_buf_init(&h->text, h->env, (size_t)32 << 20);
    snprintf(h->dir, sizeof h->dir, "%.3900s", o->dir);
    snprintf(h->journal, sizeof h->journal, "%.3900s/running", o->dir);
    if (htc__make_dirs(h->dir) != 0)
        status = htc__error(error, htc__status_of(errno, HTC_EIO), "cannot create %.300s: %s", h->dir, strerror(errno));
    if (status == HTC_OK && (status = htc__emu_create(h->env, &options, &h->emu)) != HTC_OK)
        htc__error(error, status, "the emulated batch system: %s", htc_strerror(status));
    if (status == HTC_OK && !(h->timer = evtimer_new(h->base, on_timer, h)))
        status = htc__error(error, HTC_ENOMEM, "out of memory");
    if (status == HTC_OK) {
        remove_scripts(h);
        status = go_on(h, error);
    }
    if (status == HTC_OK)
        event_active(h->timer, EV_TIMEOUT, 0);
    return status;
}

void htc__emu_host_free(htc__emu_host *h)
{
    if (!h)
        return;
    while (h->all)
        process_free(h->all);
    if (h->timer)
        event_free(h->timer);
    htc__emu_destroy(h->emu);
    htc_buf_free(&h->printed);
    htc_buf_free(&h->error);
    htc_buf_free(&h->text);
    free(h);
}
