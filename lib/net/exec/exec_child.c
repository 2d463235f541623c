/* Between vfork and exec. The child borrows the memory and the stack of its parent, which waits: no copy of page tables
 * is made, which would cost more than the rest of the start. So what it writes is seen by the parent, and nothing of it
 * may stay behind: no lock, no allocation. Signals are blocked until the parent's handlers are gone. (Under
 * ThreadSanitizer and valgrind vfork is a fork: then a program that cannot be executed is told as exit code 127.) */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "net/exec/exec_private.h"

#define CONFINED_STACK (128 << 10)
#define BUSY_TRIES 500
#define BUSY_PAUSE_US 1000

static void __attribute__((noreturn)) fail(htc__child *c, int stage)
{
    c->error = errno ? errno : EINVAL;
    c->stage = stage;
    _exit(127);
}

static void reset_signals(void)
{
    struct sigaction standard = { .sa_handler = SIG_DFL };
    for (int i = 1; i < NSIG; i++)
        sigaction(i, &standard, NULL); /* fails for those that cannot be changed, and that is as well */
}

/* Everything but the three streams closes at exec: also what the host opened without thinking of us. */
static void close_at_exec(void)
{
    if (close_range(3, ~0u, CLOSE_RANGE_CLOEXEC) == 0)
        return;
    struct rlimit files;
    int           max = getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < 65536 ? (int)files.rlim_cur : 65536;
    for (int fd = 3; fd < max; fd++)
        fcntl(fd, F_SETFD, FD_CLOEXEC);
}

/* Nothing of the task runs before its process is recorded. Its number is that of outside, also in a PID namespace: there the
 * machine's /proc is still what is seen. */
static void record(htc__child *c)
{
    htc__proc self;
    if (htc__proc_self(&self) != 0)
        fail(c, CHILD_RECORD);
    c->run->start = self.start;
    c->run->pid = self.pid;
    c->record_status = htc__record_write(c->run->agent);
    if (c->record_status != HTC_OK)
        fail(c, CHILD_RECORD);
}

/* Dies with the agent: what it leaves behind in spite of that is recorded and ended by the next one. */
static void die_with_agent(const htc__child *c)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != c->parent)
        _exit(125);
}

static void __attribute__((noreturn)) become_task(htc__child *c)
{
    sigset_t none;
    if (setsid() < 0)
        fail(c, CHILD_SESSION);
    record(c);
    umask(022);
    if (c->confine && htc__confine_finish(c->confine) != 0)
        fail(c, CHILD_CONFINE);
    /* Inside, the directory is entered by its name: by the descriptor its way up would lead out. */
    if (c->confine ? chdir(c->run->work) != 0 : fchdir(c->directory) != 0)
        fail(c, CHILD_DIRECTORY);
    if (dup2(c->in, 0) < 0 || dup2(c->out, 1) < 0 || dup2(c->err, 2) < 0)
        fail(c, CHILD_STREAMS);
    close_at_exec();
    for (size_t i = 0; i < c->limits_count; i++)
        if (setrlimit((__rlimit_resource_t)c->limits[i].resource, &c->limits[i].limit) != 0)
            fail(c, CHILD_LIMITS);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    /* A program that was just written may be open for writing in a child that is about to exec: until then it is busy. What this one has open may be
     * another's program: two that wait must not wait for each other. */
    for (int tries = 0; execve(c->program, c->argv, c->envp) != 0 && errno == ETXTBSY && tries < BUSY_TRIES; tries++) {
        (void)close_range(3, ~0u, 0);
        usleep(BUSY_PAUSE_US);
        errno = ETXTBSY;
    }
    fail(c, CHILD_EXEC);
}

static int inside(void *child)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* whoever started us looks whether the agent lives: it has no number in here */
    become_task(child);
}

/* The two first processes of the namespaces are the agent's children. What prepares them has nothing else to do, and ends. What
 * clone is given of this stack lies below all that is in use, and the memory is the agent's, as with vfork. */
static void __attribute__((noreturn)) run_confined(htc__child *c)
{
    _Alignas(16) char stack[CONFINED_STACK];
    if (htc__confine_enter(c->confine) != 0)
        fail(c, CHILD_CONFINE);
    prctl(PR_SET_PDEATHSIG, 0); /* the look at the agent below has to happen */
    c->run->first = htc__confine_first(c->confine, CLONE_PARENT);
    if (c->run->first < 0) {
        c->run->first = 0;
        fail(c, CHILD_CONFINE);
    }
    c->confine->step = "starting it in its namespaces";
    pid_t pid = clone(inside, stack + sizeof stack, CLONE_PARENT | CLONE_VM | CLONE_VFORK | SIGCHLD, c);
    int   why = errno;
    if (pid < 0 || getppid() != c->parent)
        kill(c->run->first, SIGKILL);
    errno = why;
    if (pid < 0)
        fail(c, CHILD_CONFINE);
    if (c->run->pid == 0)
        c->run->pid = pid; /* it has ended before it could say so */
    _exit(0);
}

static void __attribute__((noreturn)) run(htc__child *c)
{
    reset_signals();
    die_with_agent(c);
    prctl(PR_SET_CHILD_SUBREAPER, 0);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (c->confine)
        run_confined(c);
    become_task(c);
}

/* Has handed over to the task's process, or could not. */
static pid_t reap_helper(htc__child *c, pid_t helper)
{
    if (c->run->pid <= 0 && c->stage == 0)
        c->stage = CHILD_CONFINE, c->error = ENOSYS; /* a vfork that is a fork */
    if (c->run->pid <= 0)
        return helper; /* its end is what is told */
    while (waitpid(helper, NULL, 0) < 0 && errno == EINTR)
        ;
    return c->run->pid;
}

pid_t htc__child_start(htc__child *c)
{
    sigset_t all, before;
    c->parent = getpid();
    c->stage = c->error = 0;
    c->run->pid = 0;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t pid = vfork();
    if (pid == 0)
        run(c);
    int why = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = why;
    return pid > 0 && c->confine ? reap_helper(c, pid) : pid;
}

static void add_limit(htc__child *c, int resource, uint64_t value, uint64_t grace)
{
    struct rlimit now;
    rlim_t        soft = (rlim_t)value, hard = (rlim_t)(value + grace);
    if (getrlimit((__rlimit_resource_t)resource, &now) == 0 && now.rlim_max != RLIM_INFINITY) {
        if (hard > now.rlim_max)
            hard = now.rlim_max;
        if (soft > hard)
            soft = hard;
    }
    assert(c->limits_count < HTC__KEEPER_LIMITS);
    c->limits[c->limits_count].resource = resource;
    c->limits[c->limits_count++].limit = (struct rlimit){ soft, hard };
}

/* RLIMIT_NPROC counts all processes of the uid, not the task's: what is there already is added. The tree itself is counted
 * while it runs (exec_run.c); this one only stops a flood between two looks. */
static uint64_t processes_of_uid(void)
{
    htc__procs procs = { 0 };
    uint64_t   n = htc__procs_look(&procs, 1, 0) == 0 ? procs.count : 0;
    htc__procs_free(&procs);
    return n;
}

void htc__child_limits(htc__child *c, const htc_limits *l)
{
    c->limits_count = 0;
    if (l->cpu)
        add_limit(c, RLIMIT_CPU, (l->cpu + HTC_SECOND - 1) / HTC_SECOND, 5);
    if (l->virtual_memory)
        add_limit(c, RLIMIT_AS, l->virtual_memory, 0);
    if (l->file_size)
        add_limit(c, RLIMIT_FSIZE, l->file_size, 0);
    add_limit(c, RLIMIT_CORE, l->core_is_set ? l->core_size : 0, 0);
    if (l->open_files)
        add_limit(c, RLIMIT_NOFILE, l->open_files, 0);
    if (l->stack)
        add_limit(c, RLIMIT_STACK, l->stack, 0);
    if (l->data)
        add_limit(c, RLIMIT_DATA, l->data, 0);
    if (l->processes)
        add_limit(c, RLIMIT_NPROC, processes_of_uid() + l->processes, 0);
}

static int runnable(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

/* dir/name in c->program; 0 if it does not fit. */
static int join(htc__child *c, const char *dir, size_t len, const char *name)
{
    int n = len ? snprintf(c->program, sizeof c->program, "%.*s/%s", (int)len, dir, name)
                : snprintf(c->program, sizeof c->program, "%s", name);
    return n > 0 && (size_t)n < sizeof c->program;
}

htc_status htc__child_find(htc__child *c, const htc__run *r, char *text, size_t room)
{
    const char *name = r->task->executable ? r->task->executable : "";
    struct stat st;
    if (strchr(name, '/')) {
        if (!join(c, r->work, name[0] == '/' ? 0 : strlen(r->work), name)) {
            snprintf(text, room, "the name of the executable is too long");
            return HTC_ENOEXEC;
        }
        if (runnable(c->program))
            return HTC_OK;
        snprintf(text, room, "%.200s: %s", name, stat(c->program, &st) == 0 ? "not an executable file" : strerror(errno));
        return HTC_ENOEXEC;
    }
    if (*name && join(c, r->work, strlen(r->work), name) && runnable(c->program))
        return HTC_OK;
    for (const char *p = r->agent->path; *name && *p; p += strspn(p, ":")) {
        size_t n = strcspn(p, ":");
        if (n && join(c, p, n, name) && runnable(c->program))
            return HTC_OK;
        p += n;
    }
    snprintf(text, room, "%.200s is no executable of the task's directory nor of PATH", *name ? name : "(nothing)");
    return HTC_ENOEXEC;
}
