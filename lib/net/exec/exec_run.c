/* The life of a process: start, watch, end, and end what is left of its tree. */
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "net/exec/exec_private.h"
#include "net/loop/program.h"
#include "net/files/files.h"

#define POLL_LIMITED (100 * HTC_MS) /* while a limit of a whole tree has to be watched */
#define POLL_PLAIN HTC_SECOND
#define FILES_SEEN 64 /* of an output directory, when a task is looked at that may be idle */
#define SWEEP_FIRST HTC_MS
#define SWEEP_LAST (50 * HTC_MS)
#define ASKED_MAX 8 /* rounds, 0.2 s, until process 1 of a namespace is killed with all that is in it */
#define SWEEP_GIVE_UP (30 * HTC_SECOND) /* processes that hang in the kernel are left to it */

static void on_exit_event(evutil_socket_t fd, short what, void *arg);
static void on_sweep(evutil_socket_t fd, short what, void *arg);

static int lives(const htc__run *r)
{
    return r->phase == RUN_RUNNING || r->phase == RUN_SWEEPING;
}

uint32_t htc__runs_unkept(const htc_agent_host *a)
{
    uint32_t n = 0;
    for (const htc__run *r = a->runs; r; r = r->next)
        n += lives(r) && !r->keeper && !r->process && !r->gang ? htc__run_slots(r) : 0;
    return n;
}

/* --- whose process is it --- */

/* A child of ours that is nobody's first process: an orphan of some task. Its environment says of which, and if it does
 * not, whoever asks has it. */
static int owner_of_orphan(const htc_agent_host *a, pid_t pid, int fallback)
{
    int i = 0, others = 0;
    for (const htc__run *r = a->runs; r; r = r->next)
        others += lives(r);
    if (others <= 1)
        return fallback;
    for (const htc__run *r = a->runs; r; r = r->next, i++)
        if (lives(r) && htc__proc_has_env(pid, r->mark ? r->mark : r->scratch_entry, 0))
            return i;
    return fallback;
}

int htc__run_index(const htc_agent_host *a, const htc__run *wanted)
{
    int i = 0;
    for (const htc__run *r = a->runs; r && r != wanted; r = r->next)
        i++;
    return i;
}

/* It fetches inputs: it is no task's. */
static int fetches(const htc_agent_host *a, pid_t pid)
{
    for (const htc__run *r = a->runs; r; r = r->next)
        if (r->fetch && htc__program_pid(r->fetch) == pid)
            return 1;
    return 0;
}

/* Look at the processes; owner is then the place of the run in the agent's list. orphans: who gets those that say nothing. */
static int look(htc_agent_host *a, int full, int orphans)
{
    pid_t self = getpid();
    if (htc__procs_look(&a->procs, full, htc_host_now()) != 0)
        return -1;
    for (size_t n = 0; n < a->procs.count; n++) {
        htc__proc      *p = &a->procs.list[n];
        int             i = 0, leader = -1, kept, is_keeper;
        const htc__run *of_keeper = htc__kept_by(a, p->parent, &kept);
        (void)htc__kept_by(a, p->pid, &is_keeper);
        if (kept && of_keeper)
            p->owner = htc__run_index(a, of_keeper);
        if (p->parent != self || is_keeper || fetches(a, p->pid))
            continue;
        for (const htc__run *r = a->runs; r; r = r->next, i++)
            if ((r->pid == p->pid || (r->first > 0 && r->first == p->pid)) && lives(r))
                leader = i;
        p->owner = leader >= 0 ? leader : owner_of_orphan(a, p->pid, orphans);
    }
    htc__procs_spread(&a->procs);
    return 0;
}

int htc__run_look(htc_agent_host *a, int full, const htc__run *orphans)
{
    return look(a, full, htc__run_index(a, orphans));
}

/* --- the end --- */

static void outcome_of_exit(const htc__run *r, htc_outcome *o)
{
    int s = r->wait_status;
    if (r->exec_errno) {
        static const char *const stages[] = { "", "starting its session", "recording its process", "setting its limits",
                                              "entering its directory", "opening its streams", "executing it", "confining it" }; /* htc__child_stage */
        const char *own = r->exec_stage == CHILD_DIRECTORY && r->task->directory ? r->task->directory : ""; /* not the scratch directory */
        const char *stage = stages[r->exec_stage >= CHILD_SESSION && r->exec_stage <= CHILD_CONFINE ? r->exec_stage : 0], *why = strerror(r->exec_errno);
        char        program[121], place[sizeof o->reason];
        size_t      rest = strlen(htc__text_fit(r->task->executable, program, *own ? 61 : sizeof program)) + strlen(stage) + strlen(why) + sizeof ":  : " - 1;
        o->status = HTC_ENOEXEC;
        snprintf(o->reason, sizeof o->reason, "%s: %s%s%s: %s", program, stage, *own ? " " : "",
                 rest + 8 < sizeof place ? htc__text_fit(own, place, sizeof place - rest) : "", why);
        return;
    }
    if (WIFEXITED(s)) {
        o->exit_code = WEXITSTATUS(s);
        o->status = o->exit_code == 0 ? HTC_OK : HTC_EEXIT;
        if (o->exit_code)
            snprintf(o->reason, sizeof o->reason, "exit code %d", o->exit_code);
        return;
    }
    o->signal = WIFSIGNALED(s) ? (uint32_t)WTERMSIG(s) : 0;
    /* The kernel tells nobody whom it killed for want of memory, only that it did, somewhere in the cgroup. */
    if (o->signal == SIGKILL && htc__oom_kills(r->agent->oom_events) > r->oom_kills) {
        o->status = HTC_EOOM;
        snprintf(o->reason, sizeof o->reason, "killed by the kernel: the memory of its cgroup is used up");
        return;
    }
    o->status = o->signal == SIGKILL ? HTC_EKILLED : HTC_ESIGNAL;
    const char *name = sigabbrev_np((int)o->signal);
    snprintf(o->reason, sizeof o->reason, o->signal == SIGKILL ? "killed from outside by SIG%s" : "ended by SIG%s%s",
             name ? name : "?",
             o->signal == SIGXCPU ? ": its CPU time is used up" : o->signal == SIGXFSZ ? ": a file grew too large" : "");
}

size_t htc__run_tail(const htc__run *r, int which, char *out, size_t max)
{
    struct stat st;
    int         fd = r->streams[which];
    if (fd < 0 || fstat(fd, &st) != 0)
        return 0;
    ssize_t n = pread(fd, out, max, st.st_size > (off_t)max ? st.st_size - (off_t)max : 0);
    return n > 0 ? (size_t)n : 0;
}

static void answer_outcome(htc__run *r, htc_outcome *o)
{
    char    tail[HTC_STDERR_TAIL_MAX];
    htc_buf body;
    assert(r->pid == 0 && r->pidfd < 0); /* an outcome is the last of its process */
    snprintf(o->node, sizeof o->node, "%.63s", r->agent->node);
    o->cpu_ns = r->cpu_ns;
    o->memory_peak = r->memory_peak;
    o->started = r->started;
    o->ended = r->ended;
    r->failed = o->status != HTC_OK;
    if (r->failed && r->started)
        o->stderr_tail = (htc_bytes){ tail, htc__run_tail(r, 1, tail, sizeof tail) };
    if (r->gang) {
        r->phase = RUN_READY;
        htc__gang_told(r, o);
        return;
    }
    if (r->process) {
        r->phase = RUN_READY;
        htc__functions_ended(r, o);
        return;
    }
    htc_buf_init(&body, r->agent->env, 0);
    htc_outcome_write(&body, o);
    r->phase = RUN_READY;
    htc_host_answer(r->agent->host, HTC_CALL_RUN, r->tag, body.status, htc_buf_bytes(&body));
    htc_buf_free(&body);
}

static void forget_process(htc__run *r)
{
    struct event **events[] = { &r->exit_event, &r->sweep_event };
    for (int i = 0; i < 2; i++)
        if (*events[i]) {
            event_free(*events[i]);
            *events[i] = NULL;
        }
    if (r->pidfd >= 0)
        close(r->pidfd);
    r->pidfd = -1;
    r->pid = r->first = 0;
}

void htc__run_outcome(htc__run *r)
{
    htc_outcome o = { 0 };
    if (r->ended < r->started)
        r->ended = r->started; /* the wall clock was set back meanwhile */
    outcome_of_exit(r, &o);
    if (r->why == HTC_OK && (o.status == HTC_EEXIT || o.status == HTC_ESIGNAL) && !r->process && htc__scratch_failed(r)) {
        snprintf(r->text, sizeof r->text, "a task failed (%.150s), and %.250s is on a disk without room", o.reason, r->agent->slot_dir);
        htc__run_refuse(r, HTC_ENOSPC);
        return;
    }
    if (r->why != HTC_OK && o.status != HTC_ENOEXEC) {
        o.status = r->why;
        snprintf(o.reason, sizeof o.reason, "%s", r->why_text);
    }
    answer_outcome(r, &o);
}

/* What the node cannot do is told as such; the rest is how this task ends. */
void htc__run_refuse(htc__run *r, htc_status status)
{
    htc_outcome o = { .status = status };
    r->phase = RUN_READY;
    if (!r->process && !r->gang && (status == HTC_AGAIN || status == HTC_ENOSPC || status == HTC_EIO)) {
        htc__exec_answer(r, HTC_CALL_RUN, r->tag, status, r->text);
        return;
    }
    r->started = 0;
    snprintf(o.reason, sizeof o.reason, "%.250s", r->text[0] ? r->text : htc_strerror(status));
    answer_outcome(r, &o);
}

static void finish(htc__run *r)
{
    assert(r->phase == RUN_SWEEPING && r->leader_reaped);
    r->ended = htc_host_wall();
    htc__gang_door_close(r);
    forget_process(r);
    htc__record_write(r->agent);
    htc_agent_host *a = r->agent;
    htc__run_outcome(r);
    htc__exec_settle(r);
    htc__exec_start_waiting(a);
}

static void add_usage(htc__run *r, const struct rusage *u)
{
    uint64_t peak = (uint64_t)u->ru_maxrss * 1024;
    r->cpu_ns += ((uint64_t)u->ru_utime.tv_sec + (uint64_t)u->ru_stime.tv_sec) * HTC_SECOND +
                 ((uint64_t)u->ru_utime.tv_usec + (uint64_t)u->ru_stime.tv_usec) * 1000;
    if (peak > r->memory_peak)
        r->memory_peak = peak;
}

/* Of a confined task all that is left is in a PID namespace, and gone when process 1 of it is. It is asked first: what it
 * reaps is counted. */
static int sweep_namespace(htc__run *r)
{
    struct rusage usage;
    int           status;
    if (!r->leader_reaped)
        return 0; /* process 1 waits for it too */
    if (wait4(r->first, &status, WNOHANG, &usage) == r->first) {
        add_usage(r, &usage);
        r->first = 0;
        return 1;
    }
    kill(r->first, r->first_asked++ < ASKED_MAX ? SIGTERM : SIGKILL);
    return 0;
}

/* One round of ending a tree: kill all of it, reap what is ours. 1 when nothing is left. */
static int sweep(htc__run *r)
{
    htc_agent_host *a = r->agent;
    struct rusage   usage;
    siginfo_t       info;
    int             status, left = 0, place = htc__run_index(a, r);
    if (!r->leader_reaped) {
        /* While the first process is not reaped its number, and so its group's, cannot be anybody else's. */
        assert(r->pid > 0); /* of 0 it would be our own group */
        kill(-r->pid, SIGKILL);
        if (wait4(r->pid, &status, WNOHANG, &usage) == r->pid) {
            r->leader_reaped = 1;
            r->wait_status = status;
            add_usage(r, &usage);
        } else {
            left++;
        }
    }
    if (r->first > 0)
        return sweep_namespace(r);
    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 && errno == ECHILD)
        return 1; /* the usual case: no child of any kind, and a tree hangs on children */
    if (look(a, 1, place) != 0)
        return 0;
    for (size_t i = 0; i < a->procs.count; i++) {
        const htc__proc *p = &a->procs.list[i];
        if (p->owner != place || (p->pid == r->pid && !r->leader_reaped))
            continue;
        left++;
        if (!p->ended)
            htc__proc_signal(p, SIGKILL);
        if (p->parent == getpid() && wait4(p->pid, &status, WNOHANG, &usage) == p->pid)
            add_usage(r, &usage);
    }
    return left == 0;
}

static void sweep_or_again(htc__run *r)
{
    int done = sweep(r);
    if (!done && htc_host_now() - r->sweep_since > SWEEP_GIVE_UP && r->leader_reaped) {
        htc__log_with(r->agent->env, HTC_LOG_WARN, HTC__FIELDS(HTC__NUMBER("run", r->run)),
                      "run %" PRIu64 ": processes do not end -> go on without them", r->run);
        done = 1;
    }
    if (done) {
        finish(r);
        return;
    }
    struct timeval tv = htc__timeval(r->sweep_pause);
    r->sweep_pause = r->sweep_pause * 2 > SWEEP_LAST ? SWEEP_LAST : r->sweep_pause * 2;
    event_add(r->sweep_event, &tv);
}

static void on_sweep(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    sweep_or_again(arg);
}

void htc__run_tell_started(htc__run *r)
{
    htc_buf body;
    if (r->process)
        return;
    htc_buf_init(&body, r->agent->env, 64);
    htc_put_u64(&body, r->run);
    if (body.status == HTC_OK)
        htc_host_event(r->agent->host, HTC_EVENT_STARTED, HTC_OK, htc_buf_bytes(&body));
    htc_buf_free(&body);
}

static void on_exit_event(evutil_socket_t fd, short what, void *arg)
{
    htc__run *r = arg;
    (void)fd, (void)what;
    event_del(r->exit_event);
    assert(r->phase == RUN_RUNNING); /* it ends once */
    r->phase = RUN_SWEEPING;
    r->sweep_since = htc_host_now();
    r->sweep_pause = SWEEP_FIRST;
    sweep_or_again(r);
}

/* --- limits of the whole tree --- */

static void over(htc__run *r, htc_status why, const char *format, uint64_t seen, uint64_t limit)
{
    if (r->why != HTC_OK)
        return;
    r->why = why;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(r->why_text, sizeof r->why_text, format, seen, limit);
#pragma GCC diagnostic pop
    htc__log_with(r->agent->env, HTC_LOG_INFO, HTC__FIELDS(HTC__NUMBER("run", r->run), HTC__TEXT("why", r->why_text)),
                  "run %" PRIu64 ": %s -> kill it", r->run, r->why_text);
    htc__run_signal(r, SIGKILL);
}

/* HTC_OK: it is in the stopped state. HTC_ETIMEDOUT: it is idle. */
static void tell_stopped(htc__run *r, htc_status how)
{
    htc_buf body;
    htc_buf_init(&body, r->agent->env, 64);
    htc_put_u64(&body, r->run);
    if (body.status == HTC_OK)
        htc_host_event(r->agent->host, HTC_EVENT_TASK_STOPPED, how, htc_buf_bytes(&body));
    htc_buf_free(&body);
}

static void check_stopped(htc__run *r, char state)
{
    int stopped = state == 'T';
    if (stopped && r->process && r->why == HTC_OK) {
        r->why = HTC_EKILLED; /* one of its functions has done it: the others have to go on */
        snprintf(r->why_text, sizeof r->why_text, "its process was stopped, by itself or from outside");
        htc__run_signal(r, SIGKILL);
    } else if (stopped && !r->process && !r->stop_told) {
        tell_stopped(r, HTC_OK);
    }
    r->stop_told = stopped;
}

static uint64_t file_seen(uint64_t number, int found, const struct stat *st)
{
    if (!found)
        return number;
    number = htc__progress_mix(number, (uint64_t)st->st_size);
    return htc__progress_mix(number, (uint64_t)st->st_mtim.tv_sec * HTC_SECOND + (uint64_t)st->st_mtim.tv_nsec);
}

/* What it writes: its streams, the names in its directories, and files in its output directory. Nothing is opened but that directory. */
static uint64_t written(const htc__run *r, uint64_t number)
{
    char           path[PATH_MAX];
    struct stat    st;
    struct dirent *e;
    for (int i = 0; i < 2; i++) {
        number = file_seen(number, r->streams[i] >= 0 && fstat(r->streams[i], &st) == 0, &st);
        snprintf(path, sizeof path, "%s/../%s", r->out, i ? "stderr" : "stdout");
        number = file_seen(number, lstat(path, &st) == 0, &st);
        number = file_seen(number, lstat(i ? r->out : r->scratch, &st) == 0, &st);
    }
    int  fd = open(r->out, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    for (int n = 0; d && n < FILES_SEEN && (e = readdir(d)) != NULL; n++)
        number = file_seen(number, fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0, &st);
    if (d)
        closedir(d);
    else if (fd >= 0)
        close(fd);
    return number;
}

/* A task of several nodes may work elsewhere. */
static void check_idle(htc__run *r, int place)
{
    const htc__procs *procs = &r->agent->procs;
    uint64_t          number = 0;
    int               some = 0;
    if (!r->agent->stall || r->process || r->gang || r->stop_told || htc__run_nodes(r) > 1)
        return;
    for (size_t i = 0; i < procs->count; i++)
        if (procs->list[i].owner == place) {
            number = htc__progress_mix(htc__progress_mix(number, (uint64_t)procs->list[i].pid), procs->list[i].ticks);
            some = 1;
        }
    if (!some) {
        r->progress = (task_progress){ 0 }; /* it waits to begin */
        return;
    }
    if (htc__progress_is_idle(&r->progress, r->agent->stall, htc_host_now(), written(r, number)))
        tell_stopped(r, HTC_ETIMEDOUT);
}

static void check_run(htc__run *r, int place)
{
    const htc_limits *l = &r->task->limits;
    htc__procs       *procs = &r->agent->procs;
    uint64_t          memory = 0, count = 0;
    char              state = 0;
    pid_t             leader = r->keeper ? htc__kept_pid(r) : r->pid;
    for (size_t i = 0; i < procs->count; i++)
        if (procs->list[i].owner == place && procs->list[i].pid != r->first) {
            memory += procs->list[i].memory;
            count++;
            if (procs->list[i].pid == leader)
                state = procs->list[i].state;
        }
    if (memory > r->memory_peak)
        r->memory_peak = memory;
    if (r->phase != RUN_RUNNING)
        return;
    if (l->memory && memory > l->memory)
        over(r, HTC_EOOM, "%" PRIu64 " MiB of memory in use, %" PRIu64 " MiB allowed", (memory + (1 << 20) - 1) >> 20,
             l->memory >> 20);
    else if (l->processes && count > l->processes)
        over(r, HTC_EKILLED, "%" PRIu64 " processes, %" PRIu64 " allowed", count, l->processes);
    check_stopped(r, state);
    check_idle(r, place);
}

static void on_poll(evutil_socket_t fd, short what, void *arg)
{
    htc_agent_host *a = arg;
    int             i = 0, usual = 0;
    (void)fd, (void)what;
    a->poll_armed = 0;
    for (const htc__run *r = a->runs; r; r = r->next, i++)
        if (lives(r))
            usual = i;
    if (look(a, 0, usual) == 0) {
        i = 0;
        for (htc__run *r = a->runs; r; r = r->next, i++)
            if (lives(r))
                check_run(r, i);
        htc__kept_look_again(a);
    }
    htc__exec_poll_arm(a);
}

void htc__exec_poll_arm(htc_agent_host *a)
{
    int some = 0, limited = 0;
    for (const htc__run *r = a->runs; r; r = r->next)
        if (lives(r)) {
            some = 1;
            limited |= r->task->limits.memory || r->task->limits.processes;
        }
    if (!some || (a->poll_armed >= 1 + limited) || a->closing)
        return;
    if (!a->poll && !(a->poll = evtimer_new(a->host->base, on_poll, a)))
        return;
    struct timeval tv = htc__timeval(limited ? POLL_LIMITED : POLL_PLAIN);
    event_add(a->poll, &tv);
    a->poll_armed = 1 + limited;
}

/* --- signals --- */

void htc__run_signal(htc__run *r, int signal)
{
    htc_agent_host *a = r->agent;
    int             place = htc__run_index(a, r);
    if (r->phase == RUN_RUNNING && r->keeper)
        htc__kept_signal(r, signal);
    if (r->phase != RUN_RUNNING || r->pid <= 0)
        return;
    int one_by_one = r->behind && signal != SIGKILL;
    if (!one_by_one)
        kill(-r->pid, signal);
    if (look(a, 1, place) == 0)
        for (size_t i = 0; i < a->procs.count; i++)
            if (a->procs.list[i].owner == place && (one_by_one ? a->procs.list[i].pid != r->pid : a->procs.list[i].group != r->pid) &&
                a->procs.list[i].pid != r->first && !a->procs.list[i].ended)
                htc__proc_signal(&a->procs.list[i], signal);
    if (signal != SIGKILL)
        kill(-r->pid, SIGCONT); /* a stopped process takes a signal only when it goes on */
}

void htc__run_end_now(htc__run *r)
{
    htc_ns began = htc_host_now();
    if (r->pid <= 0)
        return;
    htc__run_signal(r, SIGKILL);
    r->phase = RUN_SWEEPING;
    while (!sweep(r) && htc_host_now() - began < 5 * HTC_SECOND)
        usleep(1000); /* killed processes need a moment to be gone; the next sweep sees */
    forget_process(r);
    r->phase = RUN_READY;
}

/* --- the start --- */

/* A standard stream: for the task to write, and for us to read whatever it does to the name. */
static int open_stream_at(htc__run *r, int dir, const char *name, int which, mode_t mode)
{
    if (r->gang)
        (void)unlinkat(dir, name, 0); /* another's, whose last name that was */
    int fd = htc__open_below(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_NONBLOCK | O_NOCTTY, mode, 1);
    if (fd < 0)
        return -1;
    fcntl(fd, F_SETFL, O_APPEND); /* it did not wait for us; the task may */
    char own[64];
    snprintf(own, sizeof own, "/proc/self/fd/%d", fd);
    r->streams[which] = open(own, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    return fd;
}

/* Below the task's directory where it is redirected, with a second name where a live log is looked for. */
static int open_stream(htc__run *r, const char *name, int which)
{
    static const char *const own[] = { "stdout", "stderr" }, *const of_gang[] = { "gang-stdout", "gang-stderr" };
    char                     second[64];
    if (!name)
        return open_stream_at(r, r->dir_fd, r->gang ? of_gang[which] : own[which], which, 0600);
    int dir = htc__run_open_work(r);
    if (dir < 0)
        return -1;
    int fd = open_stream_at(r, dir, name, which, 0644), why = errno;
    close(dir);
    if (fd >= 0) {
        snprintf(second, sizeof second, "/proc/self/fd/%d", fd);
        unlinkat(r->dir_fd, own[which], 0);
        if (linkat(AT_FDCWD, second, r->dir_fd, own[which], AT_SYMLINK_FOLLOW) != 0)
            htc__log(r->agent->env, HTC_LOG_DEBUG, "no second name for %s -> no live log of it", name);
    }
    errno = why;
    return fd;
}

static htc_status open_input(htc__run *r, htc__child *c)
{
    const char *name = r->task->input;
    if (r->channel >= 0) {
        c->in = fcntl(r->channel, F_DUPFD_CLOEXEC, 0);
        return c->in >= 0 ? HTC_OK : HTC_EREFUSED;
    }
    if (name && name[0] == '/' && htc__run_no_paths(r)) {
        snprintf(r->text, sizeof r->text, "standard input %.200s: %s", name, htc__run_no_paths(r));
        return HTC_EPATH;
    }
    if (!name || name[0] == '/') {
        c->in = open(name ? name : "/dev/null", O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    } else {
        int dir = htc__run_open_work(r);
        c->in = dir < 0 ? -1 : htc__open_below(dir, name, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0, 0);
        int why = errno;
        if (dir >= 0)
            close(dir);
        errno = why;
    }
    if (c->in >= 0) {
        fcntl(c->in, F_SETFL, 0); /* a FIFO that nobody writes holds the task, not us */
        return HTC_OK;
    }
    snprintf(r->text, sizeof r->text, "standard input %.200s: %s", name ? name : "/dev/null", strerror(errno));
    return HTC_EINPUT;
}

static htc_status open_streams(htc__run *r, htc__child *c)
{
    const htc_task *t = r->task;
    htc_status      status = open_input(r, c);
    if (status != HTC_OK)
        return status;
    c->out = open_stream(r, t->output, 0);
    if (c->out >= 0)
        c->err = t->output && t->error && strcmp(t->output, t->error) == 0 ? fcntl(c->out, F_DUPFD_CLOEXEC, 0)
                                                                           : open_stream(r, t->error, 1);
    if (c->out >= 0 && c->err >= 0)
        return HTC_OK;
    int         why = errno;
    const char *name = c->out < 0 ? t->output : t->error;
    snprintf(r->text, sizeof r->text, "cannot write %.200s: %s", name ? name : "a standard stream", strerror(why));
    return name && (why == EPERM || why == ELOOP || why == ENOTDIR) ? HTC_EPATH : htc__status_of(why, HTC_EREFUSED);
}

static void child_close(htc__child *c)
{
    int *fds[] = { &c->directory, &c->in, &c->out, &c->err };
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++) {
        if (*fds[i] >= 0)
            close(*fds[i]);
        *fds[i] = -1;
    }
    htc__strings_free(c->envp);
    if (c->own_words)
        htc__strings_free(c->argv);
    else
        free(c->argv);
    free(c->confine);
    c->confine = NULL;
    c->envp = c->argv = NULL;
}

static htc_status child_words(htc__run *r, htc__child *c)
{
    c->argv = calloc(r->task->n_args + 2, sizeof *c->argv);
    c->envp = htc__child_env(r, r->started);
    if (!c->argv || !c->envp)
        return HTC_ENOMEM;
    c->argv[0] = (char *)(uintptr_t)r->task->executable;
    for (size_t i = 0; i < r->task->n_args; i++)
        c->argv[i + 1] = (char *)(uintptr_t)r->task->args[i];
    return HTC_OK;
}

/* HTC_NODEFILE: a line for each core, as PBS writes it and MPI's launchers read it. */
static htc_status write_nodes(htc__run *r)
{
    const char *nodes = r->task->nodes ? r->task->nodes : r->agent->node;
    if (r->process || (htc__run_slots(r) <= 1 && !r->task->nodes))
        return HTC_OK;
    int   fd = htc__open_below(r->dir_fd, "nodes", O_WRONLY | O_CREAT | O_TRUNC, 0644, 1);
    FILE *f = fd >= 0 ? fdopen(fd, "w") : NULL;
    for (const char *at = nodes; f && *at;) {
        size_t n = strcspn(at, " ");
        for (uint32_t i = 0; i < htc__run_slots(r); i++)
            fprintf(f, "%.*s\n", (int)n, at);
        at += n + (at[n] == ' ');
    }
    if (f && fclose(f) == 0)
        return HTC_OK;
    snprintf(r->text, sizeof r->text, "cannot write the list of nodes: %s", strerror(errno));
    if (!f && fd >= 0)
        close(fd);
    return htc__status_of(errno, HTC_EREFUSED);
}

static htc_status watch(htc__run *r)
{
    struct event_base *base = r->agent->host->base;
    assert(r->pid > 0 && r->pidfd < 0 && !r->exit_event && !r->sweep_event);
    r->pidfd = pidfd_open(r->pid, 0);
    r->exit_event = r->pidfd < 0 ? NULL : event_new(base, r->pidfd, EV_READ | EV_PERSIST, on_exit_event, r);
    r->sweep_event = evtimer_new(base, on_sweep, r);
    if (!r->exit_event || !r->sweep_event || event_add(r->exit_event, NULL) != 0) {
        snprintf(r->text, sizeof r->text, "cannot watch a process: %s", strerror(errno));
        return HTC_EREFUSED;
    }
    return HTC_OK;
}

/* Of a task that is another user's; freed with the child. */
static htc_status confine(htc__run *r, htc__child *c)
{
    if (!r->agent->confine)
        return HTC_OK;
    c->confine = malloc(sizeof *c->confine);
    if (!c->confine)
        return HTC_ENOMEM;
    if (htc__confine_prepare(c->confine, r->dir, (const char *const *)r->agent->confined_paths) == 0)
        return HTC_OK;
    snprintf(r->text, sizeof r->text, "cannot confine the task in %.300s: %s", r->dir, strerror(errno));
    return htc__status_of(errno, HTC_EREFUSED);
}

static htc_status start_child(htc__run *r, htc__child *c)
{
    htc_status status = HTC_OK;
    c->run = r;
    pid_t pid = htc__child_start(c);
    if (pid < 0) {
        snprintf(r->text, sizeof r->text, "cannot start a process: %s", strerror(errno));
        return HTC_EREFUSED;
    }
    r->pid = pid;
    r->phase = RUN_RUNNING;
    if (c->stage == CHILD_RECORD) {
        snprintf(r->text, sizeof r->text, "cannot record the process group in %.300s", r->agent->slot_dir);
        status = c->record_status != HTC_OK ? c->record_status : HTC_EREFUSED;
    } else {
        r->exec_stage = c->stage; /* if it has failed, that is told when its process has ended */
        r->exec_errno = c->error;
        status = watch(r);
    }
    if (status != HTC_OK)
        htc__run_end_now(r);
    else if (!c->error)
        htc__run_tell_started(r);
    return status;
}

htc_status htc__run_start(htc__run *r, uint64_t tag)
{
    htc__child *c = calloc(1, sizeof *c);
    assert(r->phase == RUN_READY && r->pid == 0);
    if (!c)
        return HTC_ENOMEM;
    c->in = c->out = c->err = -1;
    c->directory = htc__run_open_work(r);
    r->tag = tag;
    r->text[0] = 0;
    r->started = htc_host_wall();
    r->leader_reaped = r->first_asked = 0;
    r->first = 0;
    r->oom_kills = htc__oom_kills(r->agent->oom_events);
    r->behind = 0;
    htc_status status = r->task->container ? HTC_OK : htc__child_find(c, r, r->text, sizeof r->text);
    if (status == HTC_OK && c->directory < 0) {
        snprintf(r->text, sizeof r->text, "the working directory %.200s cannot be entered", r->work);
        status = HTC_EINPUT;
    }
    if (status == HTC_OK && htc__gang_leads(r))
        htc__gang_door_open(r);
    if (status == HTC_OK)
        status = child_words(r, c);
    if (status == HTC_OK)
        status = write_nodes(r);
    if (status == HTC_OK)
        status = htc__child_contain(c, r);
    if (status == HTC_OK)
        status = open_streams(r, c);
    if (status == HTC_OK) {
        htc__child_limits(c, &r->task->limits);
        status = confine(r, c);
    }
    if (status == HTC_OK) {
        status = start_child(r, c);
    }
    child_close(c);
    free(c);
    if (status != HTC_OK) {
        htc__run_refuse(r, status);
        return HTC_OK;
    }
    htc__exec_poll_arm(r->agent);
    return HTC_OK;
}
