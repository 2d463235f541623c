/* The supervisor is a subreaper: agents and tasks whose parents were killed become its children, so that it can leave
 * nothing behind when it ends. The daemons die with it (they lose nothing by that); agents do not. */
#include "supervisor.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAUSE_MIN        (100 * HTC_MS)
#define PAUSE_MAX        (10 * HTC_SECOND)
#define GATEWAY_PATIENCE (20 * HTC_SECOND) /* to end its tasks and itself, before it is killed */
#define STORE_PATIENCE   (15 * HTC_SECOND)
#define BROKER_PATIENCE  (20 * HTC_SECOND) /* to cancel its jobs */
#define BROKER_AGAIN     (300 * HTC_MS)    /* until it is told a second time, which means at once */
#define HEALTHY          (30 * HTC_SECOND) /* after this long the next accident is a first one again */
#define OUT_BYTES_MAX    (1 << 20)         /* of what a daemon says before it has a log, or while it crashes */

typedef struct daemon {
    const char *name;
    const broker *broker; /* of a site; NULL: not one */
    char       *path;
    pid_t       pid; /* 0: not running */
    htc_ns      started, pause, next_start;
} daemon_process;

typedef struct supervisor {
    htc_state                *state;
    const supervisor_options *options;
    const htc_log            *log;
    daemon_process            kvd, gateway, fsck; /* fsck: htc, which looks at the store */
    daemon_process           *brokers;            /* as many as options->brokers names */
    htc_ns                    broker_again, broker_until; /* 0: they were not told to end yet; broker_again HTC_NEVER: told twice */
    htc_status                store_status;       /* HTC_ECORRUPT: it is damaged, and not started any more */
    int                       stopping; /* 1: let tasks finish, 2: at once */
    uint32_t                  signals;
    htc_ns                    stop_until;  /* then the gateway is killed */
    htc_ns                    store_until; /* then the store is */
} supervisor;

static void say(const supervisor *s, uint32_t level, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void say(const supervisor *s, uint32_t level, const char *format, ...)
{
    char    line[512];
    va_list ap;
    va_start(ap, format);
    vsnprintf(line, sizeof line, format, ap);
    va_end(ap);
    if (s->log && level <= (s->log->level & (HTC_LOG_FIELDS - 1)))
        s->log->write(s->log->ctx, level, line);
    if (level <= HTC_LOG_WARN && s->options->report >= 0)
        dprintf(s->options->report, "%s\n", line);
}

char *find_program(const char *programs, const char *name)
{
    char       *full;
    const char *path = getenv("PATH");
    if (asprintf(&full, "%s/%s", programs, name) < 0)
        return NULL;
    if (access(full, X_OK) == 0)
        return full;
    free(full);
    for (const char *p = path ? path : "/usr/local/bin:/usr/bin:/bin"; *p;) {
        size_t len = strcspn(p, ":");
        if (asprintf(&full, "%.*s/%s", (int)len, p, name) < 0)
            return NULL;
        if (len && access(full, X_OK) == 0)
            return full;
        free(full);
        p += len + (p[len] == ':');
    }
    return NULL;
}

/* What the child says goes to a file of its own. */
static void begin_child(const supervisor *s, const daemon_process *d, pid_t parent)
{
    char        out[4096];
    struct stat st;
    sigset_t    none;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(70);
    setpgid(0, 0); /* what a terminal sends goes to the supervisor alone, who passes it on in order */
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    snprintf(out, sizeof out, "%s/%s.out", htc_state_path(s->state, HTC_STATE_LOG), d->name);
    int fd = open(out, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, 0600);
    if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size > OUT_BYTES_MAX && ftruncate(fd, 0) != 0)
        _exit(70);
    if (fd >= 0) {
        dup2(fd, STDOUT_FILENO);
        dup2(fd, STDERR_FILENO);
        if (fd > STDERR_FILENO)
            close(fd);
    }
}

/* A proxy: what the gateway says to the store goes to the first member that answers. */
static void become_way(const supervisor *s, const daemon_process *d)
{
    char at[4200];
    snprintf(at, sizeof at, "unix:%s", htc_state_path(s->state, HTC_STATE_STORE_SOCKET));
    const char *argv[] = { d->path, "--proxy", s->options->store, "--at", at, "--key", htc_state_path(s->state, HTC_STATE_KEY),
                           "--ring", htc_state_path(s->state, HTC_STATE_RING), NULL };
    if (!strstr(s->options->store, "tcp://"))
        argv[5] = NULL;
    execv(d->path, (char *const *)(uintptr_t)argv);
    dprintf(STDERR_FILENO, "cannot run %s: %s\n", d->path, strerror(errno));
    _exit(70);
}

static size_t name_words(const supervisor *s, const daemon_process *d, const char **argv)
{
    const char *daemon[] = { d->path, "--dir", htc_state_dir(s->state) }, *fsck[] = { d->path, "kv", "fsck", "--dir", htc_state_dir(s->state) };
    size_t      n = 0;
    if (d == &s->fsck) {
        memcpy(argv, fsck, sizeof fsck);
        return sizeof fsck / sizeof *fsck;
    }
    if (d->broker) {
        const broker *b = d->broker;
        const char   *words[] = { d->path, "--join", s->options->brokers->join, "--site", b->site, "--key", b->key, "--ring", b->ring, "--dir", b->dir };
        memcpy(argv, words, sizeof words);
        n = sizeof words / sizeof *words;
    } else {
        memcpy(argv, daemon, sizeof daemon);
        n = sizeof daemon / sizeof *daemon;
    }
    if (s->options->config) {
        argv[n++] = "--config";
        argv[n++] = s->options->config;
    }
    if (d == &s->gateway && s->options->slots) {
        argv[n++] = "--slots";
        argv[n++] = s->options->slots;
    }
    return n;
}

static void become(const supervisor *s, const daemon_process *d, pid_t parent)
{
    const char *argv[20];
    begin_child(s, d, parent);
    if (d == &s->kvd && s->options->store)
        become_way(s, d);
    argv[name_words(s, d, argv)] = NULL;
    execv(d->path, (char *const *)(uintptr_t)argv);
    dprintf(STDERR_FILENO, "cannot run %s: %s\n", d->path, strerror(errno));
    _exit(70);
}

/* Twice the last pause, between the first and the longest. */
static htc_ns next_pause(const supervisor *s, htc_ns pause)
{
    htc_ns longest = s->options->pause_max ? s->options->pause_max : PAUSE_MAX;
    pause = pause ? pause * 2 : PAUSE_MIN;
    return pause < longest ? pause : longest;
}

static void start(supervisor *s, daemon_process *d, htc_ns now)
{
    pid_t parent = getpid(), pid = fork();
    if (pid == 0)
        become(s, d, parent);
    d->started = now;
    if (pid < 0) {
        d->pause = next_pause(s, d->pause);
        d->next_start = now + d->pause;
        say(s, HTC_LOG_WARN, "cannot fork for %s: %s -> again in %.1f s", d->name, strerror(errno),
            (double)d->pause / 1e9);
        return;
    }
    d->pid = pid;
    say(s, HTC_LOG_INFO, "%s starts as process %ld", d->name, (long)pid);
}

/* Nobody has sent it: the program died of what it read, perhaps. */
static int is_own_signal(int status)
{
    int number = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    return number && number != SIGKILL && number != SIGTERM && number != SIGINT && number != SIGHUP;
}

/* Only damage keeps the store from being started again; that it could not be looked at does not. */
static void checked(supervisor *s, int status, htc_ns now)
{
    s->fsck.pid = 0;
    s->kvd.next_start = now + s->kvd.pause;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != htc_exit_code(HTC_ECORRUPT)) {
        say(s, HTC_LOG_INFO, "no damage is found in the store -> start it again");
        return;
    }
    s->store_status = HTC_ECORRUPT;
    s->kvd.next_start = HTC_NEVER;
    say(s, HTC_LOG_ERROR, "the store is damaged -> end; htc kv fsck %s says where, htc kv dump saves what can be read", htc_state_dir(s->state));
    if (s->gateway.pid)
        kill(s->gateway.pid, SIGTERM);
    s->stopping = 2;
    s->stop_until = now + GATEWAY_PATIENCE;
}

static void ended(supervisor *s, daemon_process *d, int status, htc_ns now)
{
    d->pid = 0;
    if (s->stopping || (d == &s->gateway && WIFEXITED(status) && WEXITSTATUS(status) == 0)) {
        say(s, HTC_LOG_INFO, "%s has ended", d->name);
        if (d == &s->gateway && !s->stopping)
            s->stopping = 1; /* it was asked to by `htc down` */
        return;
    }
    d->pause = next_pause(s, now - d->started > HEALTHY ? 0 : d->pause);
    d->next_start = now + d->pause;
    if (d == &s->kvd && is_own_signal(status) && s->fsck.path) {
        say(s, HTC_LOG_WARN, "%s was ended by signal %d -> look at the store before it is started again", d->name, WTERMSIG(status));
        start(s, &s->fsck, now);
        d->next_start = s->fsck.pid ? HTC_NEVER : d->next_start;
    } else if (WIFSIGNALED(status))
        say(s, HTC_LOG_WARN, "%s was ended by signal %d -> start it again in %.1f s", d->name, WTERMSIG(status),
            (double)d->pause / 1e9);
    else
        say(s, HTC_LOG_WARN, "%s ended with exit code %d -> start it again in %.1f s", d->name, WEXITSTATUS(status),
            (double)d->pause / 1e9);
}

static void reap(supervisor *s, htc_ns now)
{
    int   status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid == s->kvd.pid)
            ended(s, &s->kvd, status, now);
        else if (pid == s->gateway.pid)
            ended(s, &s->gateway, status, now);
        else if (pid == s->fsck.pid)
            checked(s, status, now);
        for (size_t i = 0; i < s->options->brokers->n; i++)
            if (pid == s->brokers[i].pid)
                ended(s, &s->brokers[i], status, now);
    }
}

/* Kill every child there is; answers how many. */
static int kill_children(void)
{
    DIR           *proc = opendir("/proc");
    struct dirent *e;
    int            n = 0;
    long           self = (long)getpid();
    while (proc && (e = readdir(proc))) {
        if (!isdigit((unsigned char)e->d_name[0]))
            continue;
        char path[300], line[512];
        snprintf(path, sizeof path, "/proc/%s/stat", e->d_name);
        FILE *f = fopen(path, "re");
        char *p = f && fgets(line, sizeof line, f) ? strrchr(line, ')') : NULL;
        long  parent = 0;
        if (p && sscanf(p + 1, " %*c %ld", &parent) == 1 && parent == self) {
            kill((pid_t)strtol(e->d_name, NULL, 10), SIGKILL);
            n++;
        }
        if (f)
            fclose(f);
    }
    if (proc)
        closedir(proc);
    return n;
}

/* What was orphaned on the way becomes a child too: until there is none. */
static void end_rest(supervisor *s)
{
    for (int i = 0; i < 500; i++) {
        int left = kill_children();
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
        if (left == 0)
            return;
        if (i == 0)
            say(s, HTC_LOG_INFO, "%d processes are left -> end them", left);
        nanosleep(&(struct timespec){ 0, 10 * 1000 * 1000 }, NULL);
    }
    say(s, HTC_LOG_ERROR, "processes that cannot be ended are left");
}

/* The first signal lets tasks finish, the second ends them, the fifth ends all without asking. */
static void signalled(supervisor *s, htc_ns now)
{
    s->signals++;
    s->stopping = s->signals > 1 ? 2 : 1;
    if (s->signals <= 2)
        say(s, HTC_LOG_INFO, "a signal asks to end -> %s",
            s->stopping == 2 ? "tasks are ended" : "running tasks finish first");
    if (s->gateway.pid && s->signals <= 2)
        kill(s->gateway.pid, SIGTERM);
    if (s->signals == 2)
        s->stop_until = now + GATEWAY_PATIENCE;
    if (s->signals == 5)
        s->stop_until = now;
}

static void on_signal(supervisor *s, int number, htc_ns now)
{
    if (number == SIGHUP && !s->options->foreground) {
        say(s, HTC_LOG_INFO, "a hang-up means nothing here -> go on");
        return;
    }
    if (number == SIGQUIT && s->signals == 0)
        signalled(s, now); /* at once */
    if (number == SIGHUP || number == SIGTERM || number == SIGINT || number == SIGQUIT)
        signalled(s, now);
}

static void block_signals(sigset_t *signals)
{
    static const int numbers[] = { SIGCHLD, SIGTERM, SIGINT, SIGQUIT };
    struct sigaction hangup;
    sigemptyset(signals);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        sigaddset(signals, numbers[i]);
    if (sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler != SIG_IGN)
        sigaddset(signals, SIGHUP);
    sigprocmask(SIG_BLOCK, signals, NULL);
}

/* The gateway is gone, and with it whatever their jobs could do: they are told twice, which cancels these. 1: all have ended. */
static int end_brokers(supervisor *s, htc_ns now)
{
    int left = 0, tell = !s->broker_until || now >= s->broker_again;
    if (!s->broker_until) {
        s->broker_until = now + BROKER_PATIENCE;
        s->broker_again = now + BROKER_AGAIN;
    } else if (tell) {
        s->broker_again = HTC_NEVER;
    }
    for (size_t i = 0; i < s->options->brokers->n; i++) {
        const daemon_process *d = &s->brokers[i];
        if (!d->pid)
            continue;
        left++;
        if (now >= s->broker_until || s->signals >= 5)
            kill(d->pid, SIGKILL);
        else if (tell)
            kill(d->pid, SIGTERM);
    }
    return left == 0;
}

/* 1 when all is over. */
static int step(supervisor *s, htc_ns now)
{
    reap(s, now);
    if (!s->stopping) {
        if (!s->kvd.pid && now >= s->kvd.next_start)
            start(s, &s->kvd, now);
        if (!s->gateway.pid && now >= s->gateway.next_start)
            start(s, &s->gateway, now);
        for (size_t i = 0; i < s->options->brokers->n; i++)
            if (!s->brokers[i].pid && now >= s->brokers[i].next_start)
                start(s, &s->brokers[i], now);
        return 0;
    }
    if (s->gateway.pid) { /* it needs the store as long as it runs */
        if (!s->kvd.pid && now >= s->kvd.next_start && now - s->kvd.started > HTC_SECOND)
            start(s, &s->kvd, now);
        if (s->stop_until && now >= s->stop_until)
            kill(s->gateway.pid, SIGKILL);
        return 0;
    }
    if (!end_brokers(s, now))
        return 0;
    if (s->kvd.pid) {
        if (!s->store_until) {
            kill(s->kvd.pid, SIGTERM);
            s->store_until = now + STORE_PATIENCE;
        } else if (now >= s->store_until || s->signals >= 5)
            kill(s->kvd.pid, SIGKILL);
        return 0;
    }
    return 1;
}

static htc_status name_brokers(supervisor *s, char *agent)
{
    const brokers *b = s->options->brokers;
    s->brokers = b->n ? calloc(b->n, sizeof *s->brokers) : NULL;
    if (b->n && !s->brokers)
        return HTC_ENOMEM;
    for (size_t i = 0; i < b->n; i++) {
        char *name = NULL;
        if (asprintf(&name, "site-%s", b->list[i].site) < 0)
            return HTC_ENOMEM;
        s->brokers[i] = (daemon_process){ .name = name, .path = agent, .broker = &b->list[i] };
    }
    return b->n && !agent ? HTC_ENOEXEC : HTC_OK;
}

htc_status supervise(htc_state *state, const supervisor_options *options, const htc_log *log)
{
    supervisor s = { .state = state, .options = options, .log = log };
    sigset_t   signals;
    s.kvd = (daemon_process){ .name = "kvd", .path = find_program(options->programs, "htc-kvd") };
    s.gateway = (daemon_process){ .name = "gateway", .path = find_program(options->programs, "htc-gateway") };
    s.fsck = (daemon_process){ .name = "fsck", .path = find_program(options->programs, "htc") };
    char      *agent = find_program(options->programs, "htc-agent");
    htc_status status = s.kvd.path && s.gateway.path ? HTC_OK : HTC_ENOEXEC;
    if (status == HTC_OK)
        status = name_brokers(&s, agent);
    if (status != HTC_OK)
        say(&s, HTC_LOG_ERROR, "htc-kvd and htc-gateway are neither in %s nor on PATH", options->programs);
    block_signals(&signals);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    while (status == HTC_OK && !step(&s, htc_host_now())) {
        struct timespec wait = { 0, 100 * 1000 * 1000 };
        int             number = sigtimedwait(&signals, NULL, &wait);
        if (number > 0 && number != SIGCHLD)
            on_signal(&s, number, htc_host_now());
    }
    end_rest(&s);
    say(&s, HTC_LOG_INFO, "all have ended");
    free(s.kvd.path);
    free(s.gateway.path);
    free(s.fsck.path);
    free(agent);
    for (size_t i = 0; s.brokers && i < options->brokers->n; i++)
        free((char *)(uintptr_t)s.brokers[i].name);
    free(s.brokers);
    return status == HTC_OK ? s.store_status : status;
}
