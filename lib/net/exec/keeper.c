/* The keeper's own process. It was cloned from an agent of several threads: nothing here allocates, locks or prints. Descriptors 1 and 2
 * are the task's. */
#include "net/exec/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "net/exec/exec_private.h"

#define WORDS_MAX 4096        /* arguments and variables */
#define TICK (20 * HTC_MS)    /* two changes of a directory within this may have one time: the kernel's clock of files moves by ticks */
#define TOLD_TOGETHER 5
#define PAUSE_FIRST (20 * 1000)
#define PAUSE_LAST (20 * 1000 * 1000)

/* As a directory was when the keeper saw last that it is empty and its own. */
typedef struct seen {
    struct timespec ctime;
    nlink_t         links;
    mode_t          mode;
} seen;

typedef struct keeper {
    htc__keeper_ring   *ring;
    htc__keeper_record *record;
    uid_t               uid;
    unsigned            number;
    uint32_t            aside; /* places set aside so far */
    uint32_t            untold; /* results of which the agent was not told */
    int                 slot, event, socket;
    int                 place, work, out; /* O_PATH; -1: there is no place */
    seen                place_seen, work_seen, out_seen;
    int                 null_flags, stream_flags;
    char               *argv[WORDS_MAX + 2], *envp[WORDS_MAX + 1];
} keeper;

static long futex(_Atomic uint32_t *word, int op, uint32_t value)
{
    return syscall(SYS_futex, word, op, value, NULL, NULL, 0);
}

static htc_ns wall(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (htc_ns)t.tv_sec * HTC_SECOND + (htc_ns)t.tv_nsec;
}

/* As /proc counts it: a process that starts now has this start, or the next. */
static uint64_t ticks(void)
{
    struct timespec t;
    clock_gettime(CLOCK_BOOTTIME, &t);
    return (uint64_t)t.tv_sec * 100 + (uint64_t)t.tv_nsec / 10000000;
}

static void nap(long *ns)
{
    struct timespec t = { 0, *ns };
    nanosleep(&t, NULL);
    *ns = *ns * 2 > PAUSE_LAST ? PAUSE_LAST : *ns * 2;
}

/* ---- its place ---- */

static void close_one(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static int see(int fd, seen *s)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return -1;
    *s = (seen){ st.st_ctim, st.st_nlink, st.st_mode };
    return 0;
}

static int open_stream(const keeper *k, const char *name, int as)
{
    int fd = openat(k->place, name, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC | O_NOCTTY, 0600);
    if (fd < 0)
        return -1;
    int bad = dup2(fd, as) < 0, why = errno;
    if (fd != as)
        close(fd);
    errno = why;
    return bad ? -1 : 0;
}

static void name_place(const keeper *k, char name[64])
{
    snprintf(name, 64, "scratch/k%u", k->number);
}

/* A new one, and to stand in it. 0, or -1 and errno: there is none. */
static int open_place(keeper *k)
{
    const int path = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    char      name[64];
    name_place(k, name);
    if ((mkdirat(k->slot, "scratch", 0700) != 0 && errno != EEXIST) || mkdirat(k->slot, name, 0700) != 0)
        return -1;
    k->place = openat(k->slot, name, path);
    if (k->place >= 0 && mkdirat(k->place, "work", 0700) == 0 && mkdirat(k->place, "out", 0700) == 0) {
        k->work = openat(k->place, "work", path);
        k->out = openat(k->place, "out", path);
    }
    if (k->place >= 0 && k->work >= 0 && k->out >= 0 && fchdir(k->work) == 0 && open_stream(k, "stdout", 1) == 0 &&
        open_stream(k, "stderr", 2) == 0 && see(k->place, &k->place_seen) == 0 && see(k->work, &k->work_seen) == 0 && see(k->out, &k->out_seen) == 0 && (k->stream_flags = fcntl(1, F_GETFL)) >= 0)
        return 0;
    int why = errno;
    close_one(&k->place);
    close_one(&k->work);
    close_one(&k->out);
    errno = why;
    return -1;
}

/* The streams, whatever became of their names. */
static void send_streams(const keeper *k, uint32_t aside)
{
    union {
        char           bytes[CMSG_SPACE(2 * sizeof(int))];
        struct cmsghdr header;
    } control;
    const int     streams[2] = { 1, 2 };
    struct iovec  body = { &aside, sizeof aside };
    struct msghdr m = { .msg_iov = &body, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes };
    memset(&control, 0, sizeof control);
    control.header.cmsg_level = SOL_SOCKET;
    control.header.cmsg_type = SCM_RIGHTS;
    control.header.cmsg_len = CMSG_LEN(sizeof streams);
    memcpy(CMSG_DATA(&control.header), streams, sizeof streams);
    while (sendmsg(k->socket, &m, MSG_NOSIGNAL) < 0 && errno == EINTR)
        ;
}

/* What is there now is the task's. Without its name nobody could find it: then it stays as it is, and the next place cannot be made. */
static void set_all_aside(keeper *k, const char *to)
{
    char from[64];
    name_place(k, from);
    (void)renameat(k->slot, from, k->slot, to);
    close_one(&k->place);
    close_one(&k->work);
    close_one(&k->out);
}

/* The directories are as they were: what was written goes to a directory of its own, and the rest stays. 0, or -1. */
static int set_streams_aside(keeper *k, uint32_t left, const char *to)
{
    static const char *const names[] = { "stdout", "stderr" };
    if (mkdirat(k->slot, to, 0700) != 0)
        return -1;
    int dir = openat(k->slot, to, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), bad = dir < 0;
    for (int i = 0; i < 2 && !bad; i++)
        if (left & (i == 0 ? KEEPER_LEFT_OUT : KEEPER_LEFT_ERROR))
            bad = renameat(k->place, names[i], dir, names[i]) != 0 || open_stream(k, names[i], i + 1) != 0;
    if (dir >= 0)
        close(dir);
    return bad || see(k->place, &k->place_seen) != 0 ? -1 : 0;
}

static void set_aside(keeper *k, htc__keeper_task *t)
{
    char name[64], to[80];
    send_streams(k, k->aside + 1);
    name_place(k, name);
    snprintf(to, sizeof to, "%s.%u", name, (unsigned)++k->aside);
    t->aside = k->aside;
    if (!(t->left & KEEPER_LEFT_OTHER) && set_streams_aside(k, t->left, to) == 0)
        return;
    /* Half of it may be there already; then the rest has another name, and is removed with the slot. */
    if (faccessat(k->slot, to, F_OK, 0) == 0)
        snprintf(to, sizeof to, "%s.rest.%u", name, (unsigned)k->aside);
    set_all_aside(k, to);
}

/* ---- what a task left ---- */

static int is_empty(int fd)
{
    char bytes[256];
    int  dir = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return 0;
    /* Its own two names take 48 bytes: a third one is seen in the same read. */
    long n = syscall(SYS_getdents64, dir, bytes, sizeof bytes), names = 0;
    for (long at = 0; n > 0 && at < n; names++) {
        unsigned short length;
        memcpy(&length, bytes + at + 16, sizeof length);
        at += length;
    }
    close(dir);
    return n > 0 && names == 2;
}

/* Is the directory as it was seen? Its time says so if it is so old that a change of now has another one; else a look does. */
static int is_untouched(const keeper *k, int fd, seen *s, htc_ns began, int look)
{
    struct stat st;
    if (fstat(fd, &st) != 0 || st.st_nlink != s->links || st.st_mode != s->mode || st.st_uid != k->uid)
        return 0;
    int    same = st.st_ctim.tv_sec == s->ctime.tv_sec && st.st_ctim.tv_nsec == s->ctime.tv_nsec;
    htc_ns at = (htc_ns)s->ctime.tv_sec * HTC_SECOND + (htc_ns)s->ctime.tv_nsec;
    if (same && at + TICK <= began)
        return 1;
    if (!look)
        return same && at + TICK <= began;
    if (!is_empty(fd))
        return 0;
    s->ctime = st.st_ctim;
    return 1;
}

static uint32_t left_in_stream(const keeper *k, int fd, uint32_t full)
{
    struct stat st;
    if (fcntl(fd, F_GETFL) != k->stream_flags)
        return KEEPER_LEFT_OTHER; /* flags are shared with the next task */
    if (fstat(fd, &st) != 0 || st.st_nlink != 1 || (st.st_mode & 07777) != 0600 || !S_ISREG(st.st_mode))
        return KEEPER_LEFT_OTHER;
    return st.st_size ? full : 0;
}

/* Names in the place beside ours: a directory of which this is not sure is taken for changed. */
static int place_is_ours(keeper *k, htc_ns began)
{
    struct stat st;
    char        name[64];
    if (is_untouched(k, k->place, &k->place_seen, began, 0))
        return 1;
    /* Changed within a tick of its making, as far as its time says: are the four names still what they were? */
    static const char *const names[] = { "stdout", "stderr", "work", "out" };
    if (fstat(k->place, &st) != 0 || st.st_ctim.tv_sec != k->place_seen.ctime.tv_sec || st.st_ctim.tv_nsec != k->place_seen.ctime.tv_nsec)
        return 0;
    const int fds[] = { 1, 2, k->work, k->out };
    for (int i = 0; i < 4; i++) {
        struct stat by_name, held;
        snprintf(name, sizeof name, "%s", names[i]);
        if (fstatat(k->place, name, &by_name, AT_SYMLINK_NOFOLLOW) != 0 || fstat(fds[i], &held) != 0 || by_name.st_ino != held.st_ino ||
            by_name.st_dev != held.st_dev)
            return 0;
    }
    char bytes[512];
    int  dir = openat(k->place, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    long n = dir < 0 ? -1 : syscall(SYS_getdents64, dir, bytes, sizeof bytes), count = 0;
    for (long at = 0; n > 0 && at < n; count++) {
        unsigned short length;
        memcpy(&length, bytes + at + 16, sizeof length);
        at += length;
    }
    if (dir >= 0)
        close(dir);
    return n > 0 && count == 6;
}

static uint32_t what_is_left(keeper *k, htc_ns began)
{
    uint32_t left = left_in_stream(k, 1, KEEPER_LEFT_OUT) | left_in_stream(k, 2, KEEPER_LEFT_ERROR);
    if (fcntl(0, F_GETFL) != k->null_flags || !is_untouched(k, k->work, &k->work_seen, began, 1) ||
        !is_untouched(k, k->out, &k->out_seen, began, 1) || !place_is_ours(k, began))
        left |= KEEPER_LEFT_OTHER;
    return left;
}

/* ---- a task ---- */

/* Between vfork and exec: the keeper's memory is ours, and it waits. */
static void __attribute__((noreturn)) become_task(keeper *k, htc__keeper_task *t, pid_t parent)
{
    int stage = CHILD_SESSION;
    atomic_store(&k->record->pid, (int32_t)getpid());
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(125);
    /* The session is the keeper's, which nobody else is in. One of its own for each task would cost a twentieth of a short one: the
     * kernel makes a scheduling group for a session. */
    if (setpgid(0, 0) == 0) {
        stage = CHILD_LIMITS;
        uint32_t i = 0;
        while (i < t->n_limits && setrlimit((__rlimit_resource_t)t->limits[i].resource, &t->limits[i].limit) == 0)
            i++;
        if (i == t->n_limits) {
            stage = CHILD_DIRECTORY;
            if (t->directory == 0 || chdir(t->words + t->directory) == 0) {
                stage = CHILD_EXEC;
                execve(t->words, k->argv, k->envp);
            }
        }
    }
    t->error = errno ? errno : EINVAL;
    t->stage = stage;
    _exit(127);
}

/* Where each word begins. 0, or -1: they are not what the agent wrote. */
static int lay_out(keeper *k, htc__keeper_task *t)
{
    const char *end = t->words + sizeof t->words;
    char       *at = t->words + strnlen(t->words, sizeof t->words) + 1;
    if (t->n_args < 1 || t->n_args > WORDS_MAX || t->n_env > WORDS_MAX)
        return -1;
    for (uint32_t i = 0; i < t->n_args + t->n_env; i++) {
        if (at >= end)
            return -1;
        *(i < t->n_args ? &k->argv[i] : &k->envp[i - t->n_args]) = at;
        at += strnlen(at, (size_t)(end - at)) + 1;
    }
    k->argv[t->n_args] = k->envp[t->n_env] = NULL;
    if (t->directory && (t->directory >= sizeof t->words || !memchr(t->words + t->directory, 0, sizeof t->words - t->directory)))
        return -1;
    return at <= end ? 0 : -1;
}

static void add_usage(htc__keeper_task *t, const struct rusage *u)
{
    uint64_t peak = (uint64_t)u->ru_maxrss * 1024;
    t->cpu_ns += ((uint64_t)u->ru_utime.tv_sec + (uint64_t)u->ru_stime.tv_sec) * HTC_SECOND +
                 ((uint64_t)u->ru_utime.tv_usec + (uint64_t)u->ru_stime.tv_usec) * 1000;
    if (peak > t->memory_peak)
        t->memory_peak = peak;
}

/* Kill all children; they are orphans of the task. Their own children come here as they go. */
static void kill_children(void)
{
    char    bytes[4096], path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    int     fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, bytes, sizeof bytes - 1);
    if (fd >= 0)
        close(fd);
    if (n < 0)
        return; /* the agent sees to it when it has waited for long enough */
    bytes[n] = '\0';
    for (char *at = bytes; *at;) {
        long pid = 0;
        while (*at >= '0' && *at <= '9')
            pid = pid * 10 + (*at++ - '0');
        /* A number that was cut off at the end of the read is another process's. */
        if (pid > 1 && *at == ' ')
            kill((pid_t)pid, SIGKILL);
        while (*at && (*at < '0' || *at > '9'))
            at++;
    }
}

/* Until no descendant is left, in whatever session. */
static void sweep(htc__keeper_task *t)
{
    struct rusage u;
    int           status;
    long          pause = PAUSE_FIRST;
    for (;;) {
        pid_t pid = wait4(-1, &status, WNOHANG | __WALL, &u);
        if (pid < 0 && errno == ECHILD)
            return;
        if (pid > 0) {
            add_usage(t, &u);
            continue;
        }
        kill_children();
        nap(&pause);
    }
}

static void wait_for(htc__keeper_task *t, pid_t first)
{
    struct rusage u;
    int           status = 0;
    pid_t         pid;
    do {
        pid = wait4(-1, &status, __WALL, &u);
        if (pid > 0)
            add_usage(t, &u);
    } while (pid != first && (pid > 0 || errno == EINTR));
    t->wait_status = status;
}

static void run(keeper *k, htc__keeper_task *t)
{
    pid_t self = getpid();
    t->cpu_ns = t->memory_peak = 0;
    t->stage = t->error = t->wait_status = 0;
    t->left = t->aside = 0;
    t->started = t->ended = 0;
    if (k->place < 0 && open_place(k) != 0) {
        t->error = errno ? errno : EIO;
        t->stage = CHILD_PLACE;
        return;
    }
    if (lay_out(k, t) != 0) {
        t->error = EINVAL;
        t->stage = CHILD_EXEC;
        return;
    }
    k->record->job = t->job;
    k->record->task = t->task;
    k->record->begin = ticks();
    atomic_store(&k->record->end, 0);
    atomic_store(&k->record->pid, 0);
    atomic_store(&k->record->attempt, t->attempt);
    t->started = wall();
    pid_t pid = vfork();
    if (pid == 0)
        become_task(k, t, self);
    if (pid < 0) {
        t->error = errno;
        t->stage = CHILD_FORK;
    } else {
        atomic_store(&k->record->end, ticks() + 1);
        atomic_store(&t->pid, (int32_t)pid);
        uint32_t signal = atomic_load(&t->kill);
        if (signal)
            kill(pid, (int)signal);
        wait_for(t, pid);
        t->ended = wall();
        atomic_store(&t->state, KEEPER_SWEEPS);
        sweep(t);
        atomic_store(&t->pid, 0);
    }
    if (t->ended < t->started)
        t->ended = t->started;
    t->left = what_is_left(k, t->started);
    if (t->left)
        set_aside(k, t);
    atomic_store(&k->record->attempt, 0);
    atomic_store(&k->record->pid, 0);
}

/* After the nth task. While others wait some results may come together: the agent looks from time to time anyhow. */
static void tell(keeper *k, uint32_t n)
{
    uint64_t one = 1;
    if (atomic_load(&k->ring->put) - n > HTC__KEEPER_TELLS && ++k->untold < TOLD_TOGETHER)
        return;
    k->untold = 0;
    if (!atomic_exchange(&k->ring->told, 1))
        while (write(k->event, &one, sizeof one) < 0 && errno == EINTR)
            ;
}

/* Until something was put in behind the first n. */
static void wait_for_more(const keeper *k, uint32_t n)
{
    while (atomic_load(&k->ring->put) == n) {
        atomic_store(&k->ring->sleeps, 1);
        if (atomic_load(&k->ring->put) == n)
            futex(&k->ring->put, FUTEX_WAIT, n);
        atomic_store(&k->ring->sleeps, 0);
    }
}

/* ---- its beginning ---- */

static void __attribute__((noreturn)) give_up(void)
{
    _exit(1);
}

static void keep_open(int *fd, int lowest)
{
    int high = fcntl(*fd, F_DUPFD_CLOEXEC, lowest);
    if (high < 0)
        give_up();
    *fd = high;
}

/* What is inherited by all tasks. */
static void become_keeper(keeper *k, pid_t parent)
{
    struct sigaction standard = { .sa_handler = SIG_DFL };
    sigset_t         none;
    for (int i = 1; i < NSIG; i++)
        sigaction(i, &standard, NULL); /* fails for those that cannot be changed, and that is as well */
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        give_up();
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    prctl(PR_SET_NAME, "htc-keeper");
    setsid();
    umask(022);
    /* 3 to 5, and nothing else but the streams. */
    int *const own[] = { &k->slot, &k->event, &k->socket };
    for (int i = 0; i < 3; i++)
        keep_open(own[i], 10);
    for (int i = 0; i < 3; i++) {
        if (dup3(*own[i], 3 + i, O_CLOEXEC) < 0)
            give_up();
        *own[i] = 3 + i;
    }
    close_range(6, ~0u, 0);
    int null = open("/dev/null", O_RDONLY | O_NOCTTY);
    if (null < 0 || dup2(null, 0) < 0)
        give_up();
    if (null > 2)
        close(null);
    k->null_flags = fcntl(0, F_GETFL);
    k->uid = geteuid();
    k->record->session = getpid();
    k->record->since = ticks();
}

void htc__keeper_be(const htc__keeper_begin *begin)
{
    keeper k = { .ring = begin->ring, .record = begin->record, .number = begin->number, .slot = begin->slot_fd, .event = begin->event_fd,
                  .socket = begin->socket, .place = -1, .work = -1, .out = -1 };
    become_keeper(&k, begin->parent);
    for (uint32_t n = 0;; n++) {
        htc__keeper_task *t = &k.ring->tasks[n % HTC__KEEPER_DEPTH];
        uint32_t          waits = KEEPER_WAITS;
        if (k.place < 0)
            (void)open_place(&k); /* while nobody waits; what is wrong with it is told with the next task */
        wait_for_more(&k, n);
        if (atomic_compare_exchange_strong(&t->state, &waits, KEEPER_RUNS))
            run(&k, t);
        atomic_store(&t->state, KEEPER_DONE); /* also of one that was withdrawn: the agent may use its place again */
        tell(&k, n + 1);
    }
}
