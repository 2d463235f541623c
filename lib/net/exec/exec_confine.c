/* A user and mount namespace with a root of its own: what is not put there is not there. Nothing in it belongs to the
 * owner but the run's directory, so sockets, store, other runs and homes are out of reach, also for what would be found
 * through /proc (the kernel asks for the rights of a debugger, which end at the user namespace).
 *
 * A PID namespace of its own: the owner's other processes have no number in it, so no system call that names a process or
 * "all of this uid" (kill, prlimit, setpriority, sched_setaffinity) meets them. The task is not process 1 of it, which would
 * take no signals that it has no handler for: another process is, and reaps what loses its parent. Both are children of the
 * agent (CLONE_PARENT), which so sees the end of the task as that of any other. With process 1 the kernel ends all that is
 * in the namespace.
 *
 * Landlock's scopes keep abstract sockets outside; a kernel without them gets no network instead. */
#include "net/exec/exec_confine.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "net/files/files.h"

/* linux/landlock.h of the oldest system that this is built on knows less. */
#define LANDLOCK_CREATE   444
#define LANDLOCK_RESTRICT 446
#define LANDLOCK_VERSION  1u
#define SCOPES_FROM       6 /* the version that has them */
#define SCOPE_ABSTRACT_SOCKETS (UINT64_C(1) << 0)
#define SCOPE_SIGNALS          (UINT64_C(1) << 1)
#define MOUNT_SETATTR     442

typedef struct landlock_rules {
    uint64_t files, network, scoped;
} landlock_rules;

/* What a program needs of the system; those that are not there are passed over. */
static const char *const system_dirs[] = { "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt",
                                           "/nix", "/sys", "/run/systemd/resolve" };
static const char *const devices[] = { "/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom" };
static const char *const device_links[][2] = {
    { "/proc/self/fd", "/dev/fd" }, { "fd/0", "/dev/stdin" }, { "fd/1", "/dev/stdout" }, { "fd/2", "/dev/stderr" }
};
static const char *const tmp_dirs[] = { "/tmp", "/var/tmp", "/dev/shm" };

#define COUNT(list) (sizeof(list) / sizeof *(list))

int htc__confine_prepare(htc__confine *k, const char *run, const char *const *paths)
{
    k->run = run;
    k->paths = paths;
    k->uid = geteuid();
    k->gid = getegid();
    k->step = "";
    int n = snprintf(k->root, sizeof k->root, "%s/root", run), m = snprintf(k->tmp, sizeof k->tmp, "%s/tmp", run);
    if (n < 0 || m < 0 || (size_t)n >= sizeof k->root || (size_t)m >= sizeof k->tmp) {
        errno = ENAMETOOLONG;
        return -1;
    }
    if ((mkdir(k->root, 0700) != 0 && errno != EEXIST) || (mkdir(k->tmp, 0700) != 0 && errno != EEXIST))
        return -1;
    return 0;
}

static int write_file(const char *path, const char *text)
{
    int     fd = open(path, O_WRONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : write(fd, text, strlen(text));
    int     why = errno;
    if (fd >= 0)
        close(fd);
    errno = why;
    return n == (ssize_t)strlen(text) ? 0 : -1;
}

/* Who we are stays who we are: the one uid and the one gid that exist inside. */
static int map_ids(const htc__confine *k)
{
    char line[64];
    if (write_file("/proc/self/setgroups", "deny") != 0)
        return -1;
    snprintf(line, sizeof line, "%u %u 1", (unsigned)k->uid, (unsigned)k->uid);
    if (write_file("/proc/self/uid_map", line) != 0)
        return -1;
    snprintf(line, sizeof line, "%u %u 1", (unsigned)k->gid, (unsigned)k->gid);
    return write_file("/proc/self/gid_map", line);
}

/* root/path in at, all directories before its last part made. */
static int place_for(const htc__confine *k, const char *path, char *at, size_t room)
{
    size_t base = strlen(k->root);
    int    n = snprintf(at, room, "%s%s", k->root, path);
    if (n < 0 || (size_t)n >= room) {
        errno = ENAMETOOLONG;
        return -1;
    }
    for (size_t i = base + 1; at[i]; i++)
        if (at[i] == '/') {
            at[i] = 0;
            int bad = mkdir(at, 0755) != 0 && errno != EEXIST;
            at[i] = '/';
            if (bad)
                return -1;
        }
    return 0;
}

static int make_read_only(const char *at, unsigned recursive)
{
    struct mount_attr attr = { .attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID };
    return (int)syscall(MOUNT_SETATTR, AT_FDCWD, at, recursive, &attr, sizeof attr);
}

static int copy_link(const char *path, const char *at)
{
    char    target[PATH_MAX];
    ssize_t n = readlink(path, target, sizeof target - 1);
    if (n < 0)
        return -1;
    target[n] = 0;
    return symlink(target, at) == 0 || errno == EEXIST ? 0 : -1;
}

/* Show source at path inside. */
static int show_as(const htc__confine *k, const char *source, const char *path, int read_only)
{
    char        at[PATH_MAX];
    struct stat st;
    if (lstat(source, &st) != 0)
        return errno == ENOENT || errno == EACCES ? 0 : -1;
    if (place_for(k, path, at, sizeof at) != 0)
        return -1;
    if (S_ISLNK(st.st_mode))
        return copy_link(source, at);
    if (S_ISDIR(st.st_mode) ? mkdir(at, 0755) != 0 && errno != EEXIST : mknod(at, S_IFREG | 0644, 0) != 0 && errno != EEXIST)
        return -1;
    if (mount(source, at, NULL, MS_BIND | MS_REC, NULL) != 0)
        return -1;
    return read_only ? make_read_only(at, AT_RECURSIVE) : 0;
}

static int show_system(htc__confine *k)
{
    for (size_t i = 0; i < COUNT(system_dirs); i++)
        if (show_as(k, system_dirs[i], k->step = system_dirs[i], 1) != 0)
            return -1;
    for (size_t i = 0; i < COUNT(devices); i++)
        if (show_as(k, devices[i], k->step = devices[i], 0) != 0)
            return -1;
    for (size_t i = 0; i < COUNT(device_links); i++) {
        char at[PATH_MAX];
        k->step = device_links[i][1];
        if (place_for(k, device_links[i][1], at, sizeof at) != 0 || symlink(device_links[i][0], at) != 0)
            return -1;
    }
    /* The machine's, until the task's own lies over it (show_own_proc). What is of the owner's other processes there is the
     * owner's to write: their oom_score_adj, for one. */
    return show_as(k, "/proc", k->step = "/proc", 1);
}

static int below_tmp(const char *path)
{
    for (size_t i = 0; i < COUNT(tmp_dirs); i++) {
        size_t n = strlen(tmp_dirs[i]);
        if (strncmp(path, tmp_dirs[i], n) == 0 && path[n] == '/')
            return 1;
    }
    return 0;
}

/* Of the configured paths those below a directory for temporary files, or the others. */
static int show_paths(htc__confine *k, int below)
{
    for (size_t i = 0; k->paths && k->paths[i]; i++)
        if (k->paths[i][0] == '/' && below_tmp(k->paths[i]) == below && show_as(k, k->paths[i], k->step = k->paths[i], 1) != 0)
            return -1;
    return 0;
}

/* What is mounted later covers what lies below it: paths below /tmp come after the task's own /tmp. */
static int show_own(htc__confine *k)
{
    if (show_paths(k, 0) != 0)
        return -1;
    for (size_t i = 0; i < COUNT(tmp_dirs); i++)
        if (show_as(k, k->tmp, k->step = tmp_dirs[i], 0) != 0)
            return -1;
    return show_paths(k, 1);
}

static int build_root(htc__confine *k)
{
    k->step = "making mounts private";
    if (mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) != 0)
        return -1;
    k->step = "mounting a root";
    if (mount("tmpfs", k->root, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755,size=1m") != 0)
        return -1;
    if (show_system(k) != 0 || show_own(k) != 0 || show_as(k, k->run, k->step = k->run, 0) != 0)
        return -1;
    k->step = "entering the root";
    return chdir(k->root) != 0 || syscall(SYS_pivot_root, ".", ".") != 0 || umount2(".", MNT_DETACH) != 0 || chdir("/") != 0 ? -1 : 0;
}

/* Only a process of the PID namespace can show it. A machine that hides parts of its /proc from us (containers do) allows no
 * other one: then that is what is seen, with the numbers of outside; it can be read, not written. */
static int show_own_proc(void)
{
    return mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) == 0 || errno == EPERM ? 0 : -1;
}

static int landlock_version(void)
{
    return (int)syscall(LANDLOCK_CREATE, NULL, 0, LANDLOCK_VERSION);
}

static int keep_signals_inside(void)
{
    landlock_rules rules = { .scoped = SCOPE_ABSTRACT_SOCKETS | SCOPE_SIGNALS };
    int            fd = (int)syscall(LANDLOCK_CREATE, &rules, sizeof rules, 0);
    if (fd < 0)
        return -1;
    int bad = syscall(LANDLOCK_RESTRICT, fd, 0) != 0;
    int why = errno;
    close(fd);
    errno = why;
    return bad ? -1 : 0;
}

int htc__confine_enter(htc__confine *k)
{
    int scopes = landlock_version() >= SCOPES_FROM;
    k->step = "making namespaces";
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWPID | (scopes ? 0 : CLONE_NEWNET)) != 0)
        return -1;
    k->step = "mapping the uid";
    return map_ids(k) != 0 ? -1 : build_root(k);
}

int htc__confine_finish(htc__confine *k)
{
    k->step = "showing its processes";
    if (show_own_proc() != 0)
        return -1;
    k->step = "closing the root";
    if (make_read_only("/", 0) != 0)
        return -1;
    k->step = "restricting signals";
    return landlock_version() >= SCOPES_FROM ? keep_signals_inside() : 0;
}

/* --- process 1 --- */

/* A copy of the agent's memory, which the task must not look into, and none of its descriptors: locks among them. All signals
 * are blocked; of those sent from inside none is listened to but SIGCHLD. */
static void __attribute__((noreturn)) be_first(void)
{
    siginfo_t info = { 0 };
    sigset_t  wanted;
    sigfillset(&wanted);
    sigprocmask(SIG_SETMASK, &wanted, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_DUMPABLE, 0);
    prctl(PR_SET_NAME, "htc-run");
    setsid();
    close_range(0, ~0u, 0);
    sigemptyset(&wanted);
    sigaddset(&wanted, SIGCHLD);
    sigaddset(&wanted, SIGTERM);
    while (info.si_signo != SIGTERM || info.si_pid != 0) { /* who is outside has no number here */
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
        if (sigwaitinfo(&wanted, &info) < 0)
            info.si_signo = 0;
    }
    kill(-1, SIGKILL);
    while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
        ;
    _exit(0);
}

/* Answers when process 1 has closed its descriptors, so is sure to end with its parent. */
pid_t htc__confine_first(htc__confine *k, int parent_flag)
{
    char nothing;
    int  ends[2];
    k->step = "starting a process beside it";
    if (pipe2(ends, O_CLOEXEC) != 0)
        return -1;
    /* As fork, which has no flags. */
    pid_t pid = (pid_t)syscall(SYS_clone, (long)parent_flag | SIGCHLD, 0L, 0L, 0L, 0L);
    int   why = errno;
    if (pid == 0)
        be_first();
    close(ends[1]);
    while (read(ends[0], &nothing, 1) < 0 && errno == EINTR)
        ;
    close(ends[0]);
    errno = why;
    return pid;
}

/* --- the probe --- */

typedef struct report {
    int  error;
    char step[64];
} report;

/* As the task. */
static void look_around(htc__confine *k, report *r, const char *dir, const char *beside)
{
    if (htc__confine_finish(k) != 0) {
        r->error = errno ? errno : EINVAL;
        snprintf(r->step, sizeof r->step, "%.60s", k->step);
    } else if (access(dir, F_OK) != 0 || access("/proc/self/status", R_OK) != 0) {
        r->error = EINVAL;
        snprintf(r->step, sizeof r->step, "looking around");
    } else if (access(beside, F_OK) == 0) {
        r->error = EPERM;
        snprintf(r->step, sizeof r->step, "the state directory is in a directory that tasks see");
    } else if (kill(-1, 0) == 0 || errno != ESRCH) {
        r->error = EPERM;
        snprintf(r->step, sizeof r->step, "other processes are within reach");
    }
}

static void __attribute__((noreturn)) try_it(htc__confine *k, const char *dir, const char *beside, int to)
{
    report r = { 0 };
    pid_t  first = -1, task = -1;
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (htc__confine_enter(k) != 0 || (first = htc__confine_first(k, 0)) < 0 || (task = fork()) < 0) {
        r.error = errno ? errno : EINVAL;
        snprintf(r.step, sizeof r.step, "%.60s", k->step);
    }
    if (task == 0)
        look_around(k, &r, dir, beside);
    if (task <= 0) {
        ssize_t n = write(to, &r, sizeof r);
        _exit(n == (ssize_t)sizeof r ? 0 : 1);
    }
    while (waitpid(task, NULL, 0) < 0 && errno == EINTR)
        ;
    kill(first, SIGKILL);
    while (waitpid(first, NULL, 0) < 0 && errno == EINTR)
        ;
    _exit(0);
}

int htc__confine_probe(const char *dir, char *text, size_t room)
{
    htc__confine k;
    report       r = { .error = EINVAL, .step = "starting" };
    char         run[PATH_MAX], beside[PATH_MAX]; /* what lies beside the run's directory is not to be seen */
    int          ends[2], n = snprintf(run, sizeof run, "%s/probe", dir), m = snprintf(beside, sizeof beside, "%s/beside", dir);
    if (n < 0 || (size_t)n >= sizeof run || m < 0 || (size_t)m >= sizeof beside || htc__make_dirs(run) != 0 || htc__make_dirs(beside) != 0 || htc__confine_prepare(&k, run, NULL) != 0 ||
        pipe2(ends, O_CLOEXEC) != 0) {
        snprintf(text, room, "%s: %s", dir, strerror(errno));
        return -1;
    }
    pid_t pid = fork();
    if (pid == 0)
        try_it(&k, run, beside, ends[1]);
    close(ends[1]);
    ssize_t got = pid < 0 ? -1 : read(ends[0], &r, sizeof r);
    while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    close(ends[0]);
    htc__remove_tree(run);
    htc__remove_tree(beside);
    r.step[sizeof r.step - 1] = 0;
    if (got == (ssize_t)sizeof r && r.error == 0)
        return 0;
    snprintf(text, room, "%s: %s", r.step, strerror(r.error ? r.error : EINVAL));
    return -1;
}
