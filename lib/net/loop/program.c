#include "net/loop/program.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "net/files/files.h"
#include "net/loop/host_private.h"

#define WORDS_MAX 4096
#define ERROR_MAX 4096
#define FREE_PATIENCE_MS 1000
#define GRACE     (2 * HTC_SECOND) /* to end in, once it was killed: a process that waits for a disk or a file server does not end before that answers */

typedef struct heard {
    int           fd; /* -1: at its end */
    struct event *event;
    char         *bytes;
    size_t        len, room, max;
    int           too_much, keeps_reading; /* keeps_reading: what is too much is read and dropped */
} heard;

struct htc__program {
    pid_t         pid; /* 0: waited for */
    int           pidfd, exit_code, late;
    int           told; /* it is over for whoever has run it; it is waited for all the same */
    struct event *over, *limit;
    heard         out, err;
    void (*ended)(void *ctx, int exit_code, htc_bytes printed, htc_bytes error);
    void *ctx;
};

static void shut(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static void hear_no_more(heard *h)
{
    if (h->event)
        event_free(h->event);
    h->event = NULL;
    shut(&h->fd);
}

void htc__program_free(htc__program *p)
{
    if (!p)
        return;
    if (p->pid > 0) { /* one that cannot end now is nobody's to wait for */
        kill(-p->pid, SIGKILL);
        struct pollfd end = { .fd = p->pidfd, .events = POLLIN };
        if (p->pidfd < 0 || poll(&end, 1, FREE_PATIENCE_MS) > 0)
            while (waitpid(p->pid, NULL, p->pidfd < 0 ? 0 : WNOHANG) < 0 && errno == EINTR)
                ;
    }
    hear_no_more(&p->out);
    hear_no_more(&p->err);
    if (p->over)
        event_free(p->over);
    if (p->limit)
        event_free(p->limit);
    shut(&p->pidfd);
    free(p->out.bytes);
    free(p->err.bytes);
    free(p);
}

pid_t htc__program_pid(const htc__program *p)
{
    return p->pid;
}

static void tell(htc__program *p)
{
    char text[80] = "";
    if (p->told)
        return;
    p->told = 1;
    if (p->late && p->pid > 0)
        snprintf(text, sizeof text, "it did not end in time, nor when it was killed");
    else if (p->late)
        snprintf(text, sizeof text, "it did not end in time");
    else if (p->out.too_much)
        snprintf(text, sizeof text, "it printed more than %zu bytes", p->out.max);
    htc_bytes error = text[0] ? htc_bytes_of(text) : (htc_bytes){ p->err.bytes, p->err.len };
    p->ended(p->ctx, text[0] ? -1 : p->exit_code, (htc_bytes){ p->out.bytes, p->out.len }, error);
}

/* What a child of its own holds open is not waited for: it has printed what it had to. */
static void take_rest(heard *h)
{
    while (h->fd >= 0) {
        if (h->len == h->room) {
            size_t more = h->room ? 2 * h->room : 4096;
            char  *bytes = realloc(h->bytes, more);
            if (!bytes) {
                h->too_much = 1;
                return;
            }
            h->bytes = bytes;
            h->room = more;
        }
        ssize_t n = read(h->fd, h->bytes + h->len, h->room - h->len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0) {
            hear_no_more(h);
            return;
        }
        h->len += (size_t)n;
        if (h->len > h->max) {
            h->len = h->max;
            h->too_much = 1;
            if (!h->keeps_reading)
                return;
        }
    }
}

static void on_out(evutil_socket_t fd, short what, void *arg)
{
    htc__program *p = arg;
    (void)fd, (void)what;
    take_rest(&p->out);
    if (p->out.too_much && p->pid > 0) {
        hear_no_more(&p->out);
        kill(-p->pid, SIGKILL);
    }
}

static void on_err(evutil_socket_t fd, short what, void *arg)
{
    htc__program *p = arg;
    (void)fd, (void)what;
    take_rest(&p->err);
}

static void on_over(evutil_socket_t fd, short what, void *arg)
{
    htc__program *p = arg;
    int           status;
    siginfo_t     info = { 0 };
    (void)fd, (void)what;
    if (waitid(P_PID, (id_t)p->pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != p->pid)
        return;
    kill(-p->pid, SIGKILL); /* what it has left running is no part of the answer; its number is its own as long as it is not waited for */
    if (waitpid(p->pid, &status, WNOHANG) != p->pid)
        return;
    p->pid = 0;
    p->exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    take_rest(&p->out);
    take_rest(&p->err);
    tell(p);
    htc__program_free(p);
}

/* It is killed; if it has not ended a moment later, it is told that it is over, and only its end is waited for, without holding up anybody. */
static void on_limit(evutil_socket_t fd, short what, void *arg)
{
    htc__program  *p = arg;
    struct timeval tv = htc__timeval(GRACE);
    (void)fd, (void)what;
    kill(-p->pid, SIGKILL);
    if (!p->late) {
        p->late = 1;
        event_add(p->limit, &tv);
        return;
    }
    hear_no_more(&p->out);
    hear_no_more(&p->err);
    tell(p);
}

static int input_file(htc_bytes input)
{
    int fd = memfd_create("htc-input", MFD_CLOEXEC);
    if (fd >= 0 && (htc__write_all(fd, input.data, input.len) != 0 || lseek(fd, 0, SEEK_SET) != 0))
        shut(&fd);
    return fd;
}

static int start(htc__program *p, const htc__program_start *s, int in, int out, int err)
{
    const char                *argv[WORDS_MAX + 1];
    size_t                     n = 0;
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t          attributes;
    sigset_t                   all, none;
    for (const char *w = s->words.data, *end = w + s->words.len; w < end && n < WORDS_MAX; w += strlen(w) + 1)
        argv[n++] = w;
    argv[n] = NULL;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in, 0);
    posix_spawn_file_actions_adddup2(&actions, out, 1);
    posix_spawn_file_actions_adddup2(&actions, err, 2);
    posix_spawn_file_actions_addclosefrom_np(&actions, 3);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    int why = n == 0 || n == WORDS_MAX ? E2BIG
                                       : posix_spawnp(&p->pid, argv[0], &actions, &attributes, (char *const *)(uintptr_t)argv,
                                                      (char *const *)(uintptr_t)s->environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    errno = why;
    if (why)
        p->pid = 0;
    return why ? -1 : 0;
}

static int hear(struct event_base *base, heard *h, event_callback_fn on, void *ctx)
{
    h->event = event_new(base, h->fd, EV_READ | EV_PERSIST, on, ctx);
    return h->event && event_add(h->event, NULL) == 0 ? 0 : -1;
}

htc__program *htc__program_run(struct event_base *base, const htc__program_start *s)
{
    int           out[2] = { -1, -1 }, err[2] = { -1, -1 }, in = input_file(s->input);
    htc__program *p = calloc(1, sizeof *p);
    int           bad = !p || in < 0 || pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0;
    if (p) {
        p->pidfd = -1;
        p->out = (heard){ .fd = out[0], .max = s->printed_max };
        p->err = (heard){ .fd = err[0], .max = ERROR_MAX, .keeps_reading = 1 };
        p->ended = s->ended;
        p->ctx = s->ctx;
    }
    bad = bad || fcntl(out[0], F_SETFL, O_NONBLOCK) != 0 || fcntl(err[0], F_SETFL, O_NONBLOCK) != 0 || start(p, s, in, out[1], err[1]) != 0;
    int why = errno;
    shut(&in);
    shut(&out[1]);
    shut(&err[1]);
    struct timeval tv = htc__timeval(s->within);
    if (!bad) {
        p->pidfd = pidfd_open(p->pid, 0);
        p->over = p->pidfd < 0 ? NULL : event_new(base, p->pidfd, EV_READ | EV_PERSIST, on_over, p);
        p->limit = evtimer_new(base, on_limit, p);
        bad = !p->over || !p->limit || event_add(p->over, NULL) != 0 || event_add(p->limit, &tv) != 0 || hear(base, &p->out, on_out, p) != 0 ||
              hear(base, &p->err, on_err, p) != 0;
        why = bad ? ENOMEM : 0;
    }
    if (!bad)
        return p;
    htc__program_free(p);
    errno = why;
    return NULL;
}
