/* The agent's side of its keepers: they are made, given plain tasks, heard and replaced. What a task left untouched needs no further work;
 * what it did not lies in a place of its own, and is stored and removed as any other run's. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "net/exec/exec_private.h"
#include "net/files/files.h"

#define PLAIN_BYTES 6144 /* of a task; what its words come to is looked at again when they are written */
#define START_TOLD_AFTER (10 * HTC_MS) /* one that is over before that need not be told as started */
#define FOUND_FOR HTC_SECOND /* a program, by its name */
#define OOM_SEEN_FOR (100 * HTC_MS)
#define SWEEP_GIVE_UP (30 * HTC_SECOND)
#define END_PATIENCE (5 * HTC_SECOND)

struct htc__keeper {
    htc_agent_host   *agent;
    unsigned          number;
    pid_t             pid; /* 0: there is none; the next task makes one */
    int               pidfd, event_fd, socket;
    struct event     *told, *ended, *started;
    int               started_armed;
    htc__keeper_ring *ring;
    uint32_t          put, taken; /* tasks put in and taken out again */
    htc__run         *runs[HTC__KEEPER_DEPTH]; /* of those between; NULL: it was taken back */
    char             *work, *out, *scratch_entry;
};

static htc__keeper_task *task_at(const htc__keeper *k, uint32_t n)
{
    return &k->ring->tasks[n % HTC__KEEPER_DEPTH];
}

/* Where in the ring; the run is in it. */
static uint32_t place_in(const htc__keeper *k, const htc__run *r)
{
    uint32_t n = k->taken;
    while (k->runs[n % HTC__KEEPER_DEPTH] != r) {
        assert(n != k->put);
        n++;
    }
    return n;
}

static uint32_t tasks_of(const htc__keeper *k)
{
    return k->put - k->taken;
}

uint32_t htc__kept_runs(const htc_agent_host *a)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < a->n_keepers; i++)
        n += tasks_of(&a->keepers[i]);
    return n;
}

uint32_t htc__keepers_busy(const htc_agent_host *a)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < a->n_keepers; i++)
        n += tasks_of(&a->keepers[i]) != 0;
    return n;
}

pid_t htc__kept_pid(const htc__run *r)
{
    return r->keeper ? (pid_t)atomic_load(&task_at(r->keeper, place_in(r->keeper, r))->pid) : 0;
}

/* The first that is not over: what is below the keeper is its. */
static htc__run *at_work(const htc__keeper *k)
{
    for (uint32_t n = k->taken; n != k->put; n++) {
        uint32_t state = atomic_load(&task_at(k, n)->state);
        if (k->runs[n % HTC__KEEPER_DEPTH] && (state == KEEPER_RUNS || state == KEEPER_SWEEPS))
            return k->runs[n % HTC__KEEPER_DEPTH];
    }
    return NULL;
}

htc__run *htc__kept_by(const htc_agent_host *a, pid_t pid, int *kept)
{
    *kept = 0;
    for (uint32_t i = 0; pid > 0 && i < a->n_keepers; i++) /* 0 is the parent of the machine's first, and a keeper that there is not */
        if (a->keepers[i].pid == pid) {
            *kept = 1;
            return at_work(&a->keepers[i]);
        }
    return NULL;
}

int htc__kept_plain(const htc_agent_host *a, const htc_task *t, size_t bytes)
{
    return a->keepers_file && !a->confine && t->limits.cores <= 1 && !t->devices && !t->container && !t->nodes && !t->n_in && !t->n_out && (!t->directory || t->directory[0] == '/') && !t->input && !t->output && !t->error && bytes <= PLAIN_BYTES;
}

/* ---- what comes back ---- */

static void let_go(htc__run *r)
{
    r->keeper = NULL;
    r->pid = 0;
}

/* The descriptors that the keeper sent for the place. Those of an earlier one were not wanted. 0, or -1: there are none. */
static int hear_streams(const htc__keeper *k, uint32_t aside, int streams[2])
{
    uint32_t number = 0;
    while (number != aside) {
        union {
            char           bytes[CMSG_SPACE(2 * sizeof(int))];
            struct cmsghdr header;
        } control;
        struct iovec  body = { &number, sizeof number };
        struct msghdr m = { .msg_iov = &body, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes };
        if (recvmsg(k->socket, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) != (ssize_t)sizeof number)
            return -1;
        const struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        if (!c || c->cmsg_type != SCM_RIGHTS || c->cmsg_len != CMSG_LEN(2 * sizeof(int)))
            return -1;
        memcpy(streams, CMSG_DATA(c), 2 * sizeof(int));
        for (int i = 0; i < 2 && number != aside; i++)
            close(streams[i]);
    }
    return 0;
}

/* Its files are its own from now on. 0, or -1 and errno. */
static int take_place(htc__run *r, const htc__keeper *k, uint32_t aside)
{
    char own[64];
    if (asprintf(&r->place, "scratch/k%u.%u", k->number, (unsigned)aside) < 0) {
        r->place = NULL;
        errno = ENOMEM;
        return -1;
    }
    r->dir_fd = htc__open_below(r->agent->slot_fd, r->place, O_PATH | O_DIRECTORY, 0, 0);
    int why = errno, written[2] = { -1, -1 };
    if (hear_streams(k, aside, written) == 0)
        for (int i = 0; i < 2; i++) {
            snprintf(own, sizeof own, "/proc/self/fd/%d", written[i]);
            r->streams[i] = open(own, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
            close(written[i]);
        }
    errno = why;
    return r->dir_fd < 0 ? -1 : 0;
}

/* The keeper has answered for it. */
static void ended(htc__keeper *k, htc__run *r, const htc__keeper_task *t)
{
    r->started = t->started;
    r->ended = t->ended;
    r->cpu_ns = t->cpu_ns;
    if (t->memory_peak > r->memory_peak)
        r->memory_peak = t->memory_peak;
    r->wait_status = t->wait_status;
    r->exec_stage = t->stage;
    r->exec_errno = t->error;
    r->left = t->left;
    let_go(r);
    if (WIFSIGNALED(t->wait_status))
        r->agent->oom_at = 0; /* the next looks again */
    if (t->stage == CHILD_PLACE || t->stage == CHILD_FORK) {
        snprintf(r->text, sizeof r->text, "cannot %s: %s", t->stage == CHILD_PLACE ? "make a place for the task" : "start a process",
                 strerror(t->error));
        htc__run_refuse(r, t->stage == CHILD_PLACE ? htc__status_of(t->error, HTC_EIO) : HTC_EREFUSED);
        return;
    }
    if (t->left && take_place(r, k, t->aside) != 0) {
        r->left = 0;
        snprintf(r->text, sizeof r->text, "what the task left cannot be opened: %s", strerror(errno));
        htc__run_refuse(r, htc__status_of(errno, HTC_EIO));
        return;
    }
    htc__run_outcome(r);
    htc__exec_settle(r);
}

/* What runs has been told as started, and of its end the keeper tells, at once or when it has passed those that were withdrawn: nothing is
 * looked for, however long it runs. */
static int is_quiet(const htc__keeper *k)
{
    htc__run *r = at_work(k);
    if (!r || !r->start_told)
        return k->put == k->taken;
    uint32_t n = place_in(k, r) + 1;
    while (k->put - n > HTC__KEEPER_TELLS && atomic_load(&task_at(k, n)->state) == KEEPER_WITHDRAWN)
        n++;
    return k->put - n <= HTC__KEEPER_TELLS;
}

static void arm_started(htc__keeper *k)
{
    struct timeval tv = htc__timeval(START_TOLD_AFTER);
    if (!k->started_armed && !is_quiet(k) && event_add(k->started, &tv) == 0)
        k->started_armed = 1;
}

static void hear(htc__keeper *k);

/* It has a process, which executes its program or is about to: what could not be executed is known when there is a number. */
static int has_begun(const htc__keeper_task *t)
{
    return atomic_load(&t->pid) > 0 && t->stage == 0 && htc_host_wall() >= t->started + START_TOLD_AFTER / 2;
}

/* While many are in the ring the keeper need not tell of each; what runs is told as started once. */
static void on_started(evutil_socket_t fd, short what, void *arg)
{
    htc__keeper *k = arg;
    (void)fd, (void)what;
    k->started_armed = 0;
    hear(k);
    htc__run *r = at_work(k);
    if (r && !r->start_told && has_begun(task_at(k, place_in(k, r)))) {
        r->start_told = 1;
        htc__run_tell_started(r);
    }
    arm_started(k);
}

static void hear(htc__keeper *k)
{
    while (k->taken != k->put) {
        htc__keeper_task *t = task_at(k, k->taken);
        htc__run         *r = k->runs[k->taken % HTC__KEEPER_DEPTH];
        if (atomic_load(&t->state) != KEEPER_DONE)
            break;
        k->runs[k->taken % HTC__KEEPER_DEPTH] = NULL;
        k->taken++;
        if (r)
            ended(k, r, t); /* may put in the next */
        atomic_store(&t->state, KEEPER_FREE);
    }
    arm_started(k);
    htc__exec_start_waiting(k->agent);
}

static void on_told(evutil_socket_t fd, short what, void *arg)
{
    htc__keeper *k = arg;
    uint64_t     n;
    (void)what;
    ssize_t got = read(fd, &n, sizeof n);
    (void)got;
    atomic_store(&k->ring->told, 0);
    hear(k);
}

/* ---- its beginning and its end ---- */

static void forget(htc__keeper *k)
{
    struct event **events[] = { &k->told, &k->ended, &k->started };
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        if (*events[i]) {
            event_free(*events[i]);
            *events[i] = NULL;
        }
    if (k->pidfd >= 0)
        close(k->pidfd);
    if (k->event_fd >= 0)
        close(k->event_fd);
    if (k->socket >= 0)
        close(k->socket);
    k->pidfd = k->event_fd = k->socket = -1;
    k->started_armed = 0;
    k->pid = 0;
}

/* All that came to us when the keeper went. */
static void end_orphans(htc_agent_host *a, const htc__run *r)
{
    htc_ns began = htc_host_now();
    int    status, some = 1;
    while (some && htc_host_now() - began < END_PATIENCE) {
        some = 0;
        if (htc__run_look(a, 1, r) != 0)
            return;
        for (size_t i = 0; i < a->procs.count; i++) {
            const htc__proc *p = &a->procs.list[i];
            if (p->owner != htc__run_index(a, r))
                continue;
            some = 1;
            if (!p->ended)
                htc__proc_signal(p, SIGKILL);
            if (p->parent == getpid())
                waitpid(p->pid, &status, WNOHANG);
        }
        if (some)
            usleep(1000); /* killed processes need a moment to be gone; the next look sees */
    }
}

/* What it had not begun is told so; of what it ran nobody knows how it would have ended. */
static void lost(htc__keeper *k)
{
    htc_agent_host *a = k->agent;
    htc__run       *r = at_work(k);
    forget(k);
    if (r) {
        htc__keeper_task *t = task_at(k, place_in(k, r));
        end_orphans(a, r);
        if (r->why == HTC_OK) {
            r->why = HTC_EKILLED;
            snprintf(r->why_text, sizeof r->why_text, "killed from outside: the process that started it was ended");
        }
        t->ended = htc_host_wall();
        r->wait_status = SIGKILL;
    }
    while (k->taken != k->put) {
        htc__keeper_task *t = task_at(k, k->taken);
        htc__run         *x = k->runs[k->taken % HTC__KEEPER_DEPTH];
        k->runs[k->taken % HTC__KEEPER_DEPTH] = NULL;
        k->taken++;
        if (x && atomic_load(&t->state) == KEEPER_DONE) {
            ended(k, x, t);
        } else if (x && x == r) {
            x->started = t->started;
            x->ended = t->ended;
            x->left = 0;
            let_go(x);
            htc__run_outcome(x);
            htc__exec_settle(x);
        } else if (x) {
            let_go(x);
            snprintf(x->text, sizeof x->text, "not begun: the process that starts tasks was ended");
            htc__run_refuse(x, HTC_AGAIN);
            htc__exec_settle(x);
        }
    }
    char place[64];
    snprintf(place, sizeof place, "scratch/k%u", k->number);
    if (htc__remove_below(a->slot_fd, place) != 0)
        htc__log(a->env, HTC_LOG_WARN, "%s/%s cannot be removed: %s", a->slot_dir, place, strerror(errno));
    atomic_store(&a->keepers_file->keeper[k->number].attempt, 0);
    htc__exec_start_waiting(a);
}

static void on_ended(evutil_socket_t fd, short what, void *arg)
{
    htc__keeper *k = arg;
    siginfo_t    info;
    (void)fd, (void)what;
    waitid(P_PIDFD, (id_t)k->pidfd, &info, WEXITED | __WALL);
    if (!k->agent->closing)
        htc__log(k->agent->env, HTC_LOG_WARN, "the process that starts tasks was ended -> another one");
    lost(k);
}

/* As fork, of whom nobody hears: a child without a signal at its end is none that waits for children would count. */
static pid_t clone_quietly(int *pidfd)
{
    return (pid_t)syscall(SYS_clone, (long)CLONE_PIDFD, 0L, pidfd, 0L, 0L);
}

static int begin(htc__keeper *k)
{
    htc_agent_host    *a = k->agent;
    struct event_base *base = a->host->base;
    sigset_t           all, before;
    memset(k->ring, 0, offsetof(htc__keeper_ring, tasks));
    for (uint32_t i = 0; i < HTC__KEEPER_DEPTH; i++)
        atomic_store(&k->ring->tasks[i].state, KEEPER_FREE);
    k->put = k->taken = 0;
    int ends[2] = { -1, -1 };
    k->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (k->event_fd < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
        int why = errno;
        forget(k);
        errno = why;
        return -1;
    }
    k->socket = ends[0];
    htc__keeper_begin b = { .ring = k->ring, .record = &a->keepers_file->keeper[k->number], .number = k->number, .slot_fd = a->slot_fd,
                            .event_fd = k->event_fd, .socket = ends[1], .parent = getpid() };
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* until its handlers are gone */
    pid_t pid = clone_quietly(&k->pidfd);
    if (pid == 0)
        htc__keeper_be(&b);
    int why = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    close(ends[1]);
    if (pid < 0) {
        k->pidfd = -1;
        forget(k);
        errno = why;
        return -1;
    }
    k->pid = pid;
    k->told = event_new(base, k->event_fd, EV_READ | EV_PERSIST, on_told, k);
    k->ended = event_new(base, k->pidfd, EV_READ, on_ended, k);
    k->started = evtimer_new(base, on_started, k);
    if (!k->told || !k->ended || !k->started || event_add(k->told, NULL) != 0 || event_add(k->ended, NULL) != 0) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, __WALL);
        forget(k);
        errno = ENOMEM;
        return -1;
    }
    return 0;
}

static int map_file(htc_agent_host *a)
{
    unlinkat(a->slot_fd, "keepers", 0);
    int fd = openat(a->slot_fd, "keepers", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return -1;
    /* Written, not only made longer: a page that the disk has no room for would be a signal later. */
    htc__keepers_file *zero = calloc(1, sizeof *zero);
    errno = ENOSPC; /* unless it says another reason for less than all */
    int bad = !zero || write(fd, zero, sizeof *zero) != (ssize_t)sizeof *zero;
    free(zero);
    void *at = bad ? MAP_FAILED : mmap(NULL, sizeof(htc__keepers_file), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    int   why = errno;
    close(fd);
    errno = why;
    if (at == MAP_FAILED)
        return -1;
    a->keepers_file = at;
    snprintf(a->keepers_file->boot, sizeof a->keepers_file->boot, "%s", a->boot);
    memcpy(a->keepers_file->magic, HTC__KEEPERS_MAGIC, 8);
    return 0;
}

static int prepare(htc_agent_host *a, htc__keeper *k, unsigned number)
{
    *k = (htc__keeper){ .agent = a, .number = number, .pidfd = -1, .event_fd = -1, .socket = -1 };
    void *ring = mmap(NULL, sizeof *k->ring, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (ring == MAP_FAILED)
        return -1;
    k->ring = ring;
    if (asprintf(&k->work, "%s/scratch/k%u/work", a->slot_dir, number) < 0)
        k->work = NULL;
    if (asprintf(&k->out, "%s/scratch/k%u/out", a->slot_dir, number) < 0)
        k->out = NULL;
    if (!k->work || !k->out || asprintf(&k->scratch_entry, "HTC_SCRATCH=%s", k->work) < 0) {
        k->scratch_entry = NULL;
        errno = ENOMEM;
        return -1;
    }
    return 0;
}

int htc__keepers_open(htc_agent_host *a, uint32_t slots)
{
    a->keepers = calloc(slots, sizeof *a->keepers);
    if (!a->keepers || map_file(a) != 0)
        return -1;
    for (a->n_keepers = 0; a->n_keepers < slots; a->n_keepers++)
        if (prepare(a, &a->keepers[a->n_keepers], a->n_keepers) != 0) {
            a->n_keepers++;
            return -1;
        }
    return 0;
}

void htc__keepers_close(htc_agent_host *a)
{
    for (uint32_t i = 0; i < a->n_keepers; i++) {
        htc__keeper *k = &a->keepers[i];
        if (k->pid > 0) {
            htc__run *r = at_work(k);
            kill(k->pid, SIGKILL);
            while (waitpid(k->pid, NULL, __WALL) < 0 && errno == EINTR)
                ;
            if (r)
                end_orphans(a, r);
            char place[64];
            snprintf(place, sizeof place, "scratch/k%u", k->number);
            htc__remove_below(a->slot_fd, place);
        }
        for (uint32_t n = k->taken; n != k->put; n++)
            if (k->runs[n % HTC__KEEPER_DEPTH])
                let_go(k->runs[n % HTC__KEEPER_DEPTH]);
        k->taken = k->put;
        forget(k);
        if (k->ring)
            munmap(k->ring, sizeof *k->ring);
        free(k->work);
        free(k->out);
        free(k->scratch_entry);
    }
    free(a->keepers);
    a->keepers = NULL;
    a->n_keepers = 0;
    if (a->keepers_file) {
        munmap(a->keepers_file, sizeof *a->keepers_file);
        unlinkat(a->slot_fd, "keepers", 0);
    }
    a->keepers_file = NULL;
}

/* ---- giving it a task ---- */

static int put_word(htc__keeper_task *t, size_t *n, const char *word)
{
    size_t length = strlen(word) + 1;
    if (length > sizeof t->words - *n)
        return 0;
    memcpy(t->words + *n, word, length);
    *n += length;
    return 1;
}

/* 1: all of it fits. */
static int put_words(htc__keeper_task *t, const htc__child *c, const htc__run *r, char **env)
{
    size_t n = 0;
    int    all = put_word(t, &n, c->program) && put_word(t, &n, r->task->executable);
    for (size_t i = 0; all && i < r->task->n_args; i++)
        all = put_word(t, &n, r->task->args[i]);
    t->n_args = (uint32_t)r->task->n_args + 1;
    for (t->n_env = 0; all && env[t->n_env]; t->n_env++)
        all = put_word(t, &n, env[t->n_env]);
    t->directory = r->task->directory ? (uint32_t)n : 0;
    return all && (!r->task->directory || put_word(t, &n, r->task->directory));
}

/* The one with the fewest tasks: one without any only while fewer keepers than there are slots have some. */
static htc__keeper *free_keeper(const htc_agent_host *a)
{
    htc__keeper *best = NULL;
    uint32_t     busy = htc__keepers_busy(a);
    for (uint32_t i = 0; i < a->n_keepers; i++) {
        htc__keeper *k = &a->keepers[i];
        if ((tasks_of(k) || busy < a->slots) && tasks_of(k) < HTC__KEEPER_DEPTH - 1 && (!best || tasks_of(k) < tasks_of(best)))
            best = k;
    }
    return best;
}

static void wake(htc__keeper *k)
{
    atomic_fetch_add(&k->ring->put, 1);
    if (atomic_exchange(&k->ring->sleeps, 0))
        syscall(SYS_futex, &k->ring->put, FUTEX_WAKE, 1, NULL, NULL, 0);
}

/* The kernel's kills in the cgroup before this run: not looked at for each of thousands a second. */
static uint64_t oom_kills(htc_agent_host *a)
{
    htc_ns now = htc_host_now();
    if (!a->oom_at || now > a->oom_at + OOM_SEEN_FOR) {
        a->oom_kills = htc__oom_kills(a->oom_events);
        a->oom_at = now;
    }
    return a->oom_kills;
}

/* The same name as just now is the same program: the directory that it is looked for in first is empty, unless it is the user's. */
static htc_status find_program(htc__run *r, htc__child *c)
{
    htc_agent_host *a = r->agent;
    const char     *name = r->task->executable ? r->task->executable : "";
    htc_ns          now = htc_host_now();
    if (r->task->directory && name[0] != '/')
        return htc__child_find(c, r, r->text, sizeof r->text);
    if (a->found_name && strcmp(a->found_name, name) == 0 && now < a->found_at + FOUND_FOR) {
        snprintf(c->program, sizeof c->program, "%s", a->found_path);
        return HTC_OK;
    }
    htc_status status = htc__child_find(c, r, r->text, sizeof r->text);
    free(a->found_name);
    free(a->found_path);
    a->found_name = status == HTC_OK ? strdup(name) : NULL;
    a->found_path = status == HTC_OK ? strdup(c->program) : NULL;
    if (!a->found_path) {
        free(a->found_name);
        a->found_name = NULL;
    }
    a->found_at = now;
    return status;
}

static htc_status fill(htc__run *r, htc__keeper_task *t, htc__child *c)
{
    htc_status status = find_program(r, c);
    if (status != HTC_OK)
        return status;
    htc__child_limits(c, &r->task->limits);
    char **env = htc__child_env(r, htc_host_wall());
    if (!env)
        return HTC_ENOMEM;
    int all = put_words(t, c, r, env);
    htc__strings_free(env);
    if (!all)
        return HTC_ETOOBIG;
    t->job = r->attempt.job;
    t->task = r->attempt.task;
    t->attempt = r->attempt.attempt;
    t->n_limits = (uint32_t)c->limits_count;
    memcpy(t->limits, c->limits, sizeof t->limits);
    t->stage = t->error = 0;
    t->started = t->ended = 0;
    atomic_store(&t->pid, 0);
    atomic_store(&t->kill, 0);
    return HTC_OK;
}

htc_status htc__kept_start(htc__run *r, uint64_t tag)
{
    htc_agent_host *a = r->agent;
    htc__keeper    *k = free_keeper(a);
    htc__child     *c = k ? calloc(1, sizeof *c) : NULL;
    htc_status      status = HTC_OK;
    assert(r->phase == RUN_READY && r->plain && !r->keeper);
    if (!k)
        return HTC_EBUSY;
    if (!c)
        return HTC_ENOMEM;
    r->tag = tag;
    r->text[0] = 0;
    r->start_told = 0;
    r->started = 0;
    r->oom_kills = oom_kills(a);
    r->scratch = k->work;
    r->work = r->task->directory ? (char *)(uintptr_t)r->task->directory : k->work;
    r->out = k->out;
    r->scratch_entry = k->scratch_entry;
    if (k->pid == 0 && begin(k) != 0) {
        snprintf(r->text, sizeof r->text, "cannot start a process: %s", strerror(errno));
        status = HTC_EREFUSED;
    }
    htc__keeper_task *t = task_at(k, k->put);
    if (status == HTC_OK)
        status = fill(r, t, c);
    free(c);
    if (status == HTC_ETOOBIG) {
        htc__run_unkept(r);
        return status;
    }
    if (status != HTC_OK) {
        htc__run_refuse(r, status);
        return HTC_OK;
    }
    k->runs[k->put % HTC__KEEPER_DEPTH] = r;
    r->keeper = k;
    r->phase = RUN_RUNNING;
    atomic_store(&t->state, KEEPER_WAITS);
    k->put++;
    wake(k);
    arm_started(k);
    htc__exec_poll_arm(a);
    return HTC_OK;
}

/* ---- signals ---- */

int htc__kept_take_back(htc__run *r)
{
    htc__keeper *k = r->keeper;
    uint32_t     n = k ? place_in(k, r) : 0, waits = KEEPER_WAITS;
    if (!k || !atomic_compare_exchange_strong(&task_at(k, n)->state, &waits, KEEPER_WITHDRAWN))
        return 0;
    k->runs[n % HTC__KEEPER_DEPTH] = NULL;
    let_go(r);
    snprintf(r->text, sizeof r->text, "not begun");
    htc__run_refuse(r, HTC_AGAIN);
    return 1;
}

void htc__kept_signal(htc__run *r, int signal)
{
    htc_agent_host   *a = r->agent;
    htc__keeper      *k = r->keeper;
    htc__keeper_task *t = task_at(k, place_in(k, r));
    if (htc__kept_take_back(r))
        return;
    atomic_store(&t->kill, (uint32_t)signal); /* if its process is started behind the look below */
    int place = htc__run_index(a, r);
    for (int again = signal == SIGKILL ? 0 : 1; again < 2; again++) {
        if (htc__run_look(a, 1, r) != 0)
            return;
        for (size_t i = 0; i < a->procs.count; i++)
            if (a->procs.list[i].owner == place && a->procs.list[i].pid != k->pid && !a->procs.list[i].ended) {
                htc__proc_signal(&a->procs.list[i], signal);
                if (signal != SIGKILL)
                    htc__proc_signal(&a->procs.list[i], SIGCONT); /* a stopped process takes a signal only when it goes on */
            }
    }
}

/* A keeper that waits for processes which do not end is given up, and they are left to the kernel. One that was stopped, which its task
 * can do, ends with the task. */
void htc__kept_look_again(htc_agent_host *a)
{
    for (uint32_t i = 0; i < a->n_keepers; i++) {
        htc__keeper     *k = &a->keepers[i];
        htc__run        *r = k->pid > 0 ? at_work(k) : NULL;
        const htc__proc *p = r ? htc__procs_find(&a->procs, k->pid) : NULL;
        if (!r)
            continue;
        if (p && (p->state == 'T' || p->state == 't')) {
            htc__log_with(a->env, HTC_LOG_WARN, HTC__FIELDS(HTC__NUMBER("run", r->run)),
                          "run %" PRIu64 ": the process that started it was stopped -> end both", r->run);
            kill(k->pid, SIGKILL);
        }
        const htc__keeper_task *t = task_at(k, place_in(k, r));
        if (atomic_load(&t->state) == KEEPER_SWEEPS && htc_host_wall() > t->ended + SWEEP_GIVE_UP) {
            htc__log_with(a->env, HTC_LOG_WARN, HTC__FIELDS(HTC__NUMBER("run", r->run)),
                          "run %" PRIu64 ": processes do not end -> go on without them", r->run);
            kill(k->pid, SIGKILL);
        }
    }
}
