/* up and down: one system on this machine, started and stopped as a whole. */
#include "htc.h"
#include "supervisor.h"
#include "../htc-kvd/dir_kind.h"

#include "htcsched/config.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define START_PATIENCE_S 30.0
#define START_ACCIDENTS  3
#define TASKS_SAID       6    /* of those that htc down waits for */
#define SAY_EVERY_S      60.0 /* and how often, where their number changes */

static const htc_env plain = { .size = sizeof plain };

typedef struct up_options {
    const char *config, *slots;
    double      pause_max;
    uint32_t    foreground;
} up_options;

/* Whether it can be read, with its policies; *others: whether it lets other users in. */
static htc_status read_config(cli *c, const char *named, int *others)
{
    htc_config   *config;
    htc_registry *policies = NULL; /* of files: whether they can be had is told here, and not in a log */
    htc_status    s = htc_config_load(&plain, named, &config, &c->error);
    if (s == HTC_EINPUT && !c->error.hint[0])
        snprintf(c->error.hint, sizeof c->error.hint, "check the name and its permissions");
    if (s != HTC_OK)
        return s;
    s = htc_config_policies(config, &policies, &c->error);
    htc_registry_destroy(policies);
    *others = s == HTC_OK && htc_config_number(config, "server.others") != 0;
    htc_config_destroy(config);
    return s;
}

/* The configuration that was named, else the one in the state directory, else none. Gives an absolute path or NULL. */
static htc_status find_config(cli *c, const up_options *o, htc_state *state, char **path)
{
    const char *named = o->config ? o->config : htc_state_path(state, HTC_STATE_CONFIG);
    int         others = 0;
    *path = NULL;
    if (!o->config && access(named, F_OK) != 0)
        return HTC_OK;
    htc_status s = read_config(c, named, &others);
    if (s == HTC_OK && others)
        s = htc_state_share(state, 1, &c->error);
    if (s == HTC_OK)
        *path = realpath(named, NULL);
    return s;
}

/* Where another store is to be used: its address; given. */
static htc_status find_store(const char *path, char **store, htc_error *error)
{
    htc_config *config;
    htc_status  s = htc_config_load(&plain, path, &config, error);
    *store = NULL;
    if (s != HTC_OK)
        return s;
    if (htc_config_text(config, "db.store")[0])
        *store = must_dup(htc_config_text(config, "db.store"));
    htc_config_destroy(config);
    return HTC_OK;
}

/* What the supervisor's process does: hold the directory, run the daemons. Errors go up the pipe. */
static htc_status hold_and_supervise(const char *dir, const char *config, const up_options *o, int report,
                                     htc_error *error)
{
    htc_state   *state;
    htc_logfile *file;
    htc_status   s = htc_state_open(&plain, dir, 1, &state, error);
    if (s != HTC_OK)
        return s;
    s = htc_state_lock(state, error);
    char *log = must_print("%s/supervisor.log", htc_state_path(state, HTC_STATE_LOG)), *programs = own_directory();
    htc_logfile_options options = { .size = sizeof options, .path = log, .name = "supervisor" };
    brokers sites = { .n = 0 };
    if (s == HTC_OK)
        s = brokers_prepare(state, config, &sites, error);
    if (s == HTC_OK)
        s = htc_logfile_open(&options, &file, error);
    char *store = NULL;
    if (s == HTC_OK)
        s = find_store(config, &store, error);
    if (s == HTC_OK) {
        supervisor_options so = { .programs = programs, .config = config, .slots = o->slots, .pause_max = time_ns(o->pause_max), .foreground = (int)o->foreground,
                                  .brokers = &sites, .store = store, .report = report };
        if (report >= 0)
            dprintf(report, "held\n"); /* nobody may be there to read it any more */
        s = supervise(state, &so, htc_logfile_log(file));
        if (s == HTC_ECORRUPT) {
            *error = (htc_error){ .status = s, .hint = "htc kv fsck DIR says where, htc kv dump DIR FILE saves what can be read" };
            snprintf(error->text, sizeof error->text, "the store in %.200s is damaged", dir);
        } else if (s != HTC_OK) {
            *error = (htc_error){ .status = s, .hint = "install all programs in one directory" };
            snprintf(error->text, sizeof error->text, "htc-kvd and htc-gateway are neither in %.120s nor on PATH",
                     programs);
        }
        htc_logfile_close(file);
    }
    brokers_free(&sites);
    free(store);
    free(programs);
    free(log);
    htc_state_close(state);
    error->status = s;
    return s;
}

/* A process of its own: no terminal, none of the caller's descriptors. Never returns in the child. */
static pid_t start_supervisor(const char *dir, const char *config, const up_options *o, int *from)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return -1;
    fflush(NULL);
    pid_t pid = fork();
    if (pid != 0) {
        close(ends[1]);
        *from = ends[0];
        return pid;
    }
    htc_error error = { 0 };
    setsid();
    int report = fcntl(ends[1], F_DUPFD_CLOEXEC, 3), null = open("/dev/null", O_RDWR);
    for (int i = 0; i < 3; i++)
        dup2(null, i);
    if (report != 3) {
        dup3(report, 3, O_CLOEXEC);
        report = 3;
    }
    syscall(SYS_close_range, 4U, ~0U, 0U);
    umask(077);
    if (chdir("/") != 0)
        _exit(70);
    htc_status s = hold_and_supervise(dir, config, o, report, &error);
    if (s != HTC_OK)
        dprintf(report, "error %s\t%s\t%s\t%s\n", htc_status_name(s), error.where, error.text, error.hint);
    _exit(htc_exit_code(s));
}

static void last_line(const char *dir, const char *name, char *line, size_t cap)
{
    char *path = must_print("%s/log/%s", dir, name), buffer[1024];
    int   fd = open(path, O_RDONLY | O_CLOEXEC);
    line[0] = '\0';
    if (fd >= 0) {
        off_t   size = lseek(fd, 0, SEEK_END);
        off_t   from = size > (off_t)sizeof buffer - 1 ? size - (off_t)sizeof buffer + 1 : 0;
        ssize_t n = pread(fd, buffer, sizeof buffer - 1, from);
        buffer[n > 0 ? n : 0] = '\0';
        size_t len = strlen(buffer);
        while (len && buffer[len - 1] == '\n')
            buffer[--len] = '\0';
        char *start = strrchr(buffer, '\n');
        snprintf(line, cap, "%s", start ? start + 1 : buffer);
        close(fd);
    }
    free(path);
}

typedef struct start_watch {
    char   line[1024]; /* last report, or an error */
    char   buffer[1024];
    size_t have;
    int    held; /* the directory is the supervisor's */
    int    accidents, closed;
} start_watch;

/* Reads what the supervisor has reported; a line at a time. */
static void read_reports(start_watch *w, int fd, int timeout_ms)
{
    struct pollfd p = { fd, POLLIN, 0 };
    while (!w->closed && poll(&p, 1, timeout_ms) > 0) {
        ssize_t n = read(fd, w->buffer + w->have, sizeof w->buffer - 1 - w->have);
        if (n <= 0) {
            w->closed = 1;
            return;
        }
        w->have += (size_t)n;
        w->buffer[w->have] = '\0';
        char *end;
        while ((end = strchr(w->buffer, '\n'))) {
            *end = '\0';
            if (strcmp(w->buffer, "held") == 0)
                w->held = 1;
            else {
                snprintf(w->line, sizeof w->line, "%s", w->buffer);
                w->accidents++;
            }
            w->have -= (size_t)(end + 1 - w->buffer);
            memmove(w->buffer, end + 1, w->have + 1);
        }
        if (w->have == sizeof w->buffer - 1)
            w->have = 0;
        timeout_ms = 0;
    }
}

/* "error NAME\twhere\ttext\thint" back into cli.error. */
static htc_status reported_error(cli *c, const char *dir, char *line)
{
    char *part[4] = { line + 6, "", "", "" };
    for (int i = 1; i < 4; i++) {
        char *tab = strchr(part[i - 1], '\t');
        if (!tab)
            break;
        *tab = '\0';
        part[i] = tab + 1;
    }
    htc_status  s = htc_status_from_name(part[0]);
    const char *hint = part[3];
    if (s == HTC_ELOCKED && !hint[0])
        hint = "htc status talks to it, htc down ends it";
    return cli_error(c, s, part[1][0] ? part[1] : dir, hint, "%s", part[2][0] ? part[2] : htc_strerror(s));
}

/* *apart: what keeps users' tasks apart, in a sentence; given. */
static htc_status wait_until_up(cli *c, const char *dir, pid_t pid, int from, char **apart)
{
    start_watch w = { 0 };
    progress    p;
    double      until = now_s() + START_PATIENCE_S;
    htc_status  s = HTC_EUNREACHABLE;
    progress_begin(&p, c);
    while (now_s() < until && !w.closed && w.accidents < START_ACCIDENTS) {
        read_reports(&w, from, 50);
        json_t     *answer;
        const char *user = c->user;
        c->user = NULL;
        /* Before the directory is held, one that answers is another's. */
        s = w.closed || !w.held ? HTC_EUNREACHABLE : api_call(c, json_pack("{s:s}", "op", "ping"), 2, &answer);
        c->user = user;
        if (s == HTC_OK) {
            *apart = must_dup(j_str(answer, "apart_text"));
            json_decref(answer);
            break;
        }
        progress_say(&p, "starting ...%s%.200s", w.line[0] ? " " : "", w.line);
    }
    progress_end(&p);
    if (s == HTC_OK)
        return HTC_OK;
    if (strncmp(w.line, "error ", 6) == 0) {
        waitpid(pid, NULL, 0);
        return reported_error(c, dir, w.line);
    }
    kill(pid, SIGTERM);
    kill(pid, SIGTERM);
    for (int i = 0; i < 300 && waitpid(pid, NULL, WNOHANG) == 0; i++) {
        kill(pid, SIGTERM);
        pause_ms(100);
    }
    char        log[400] = "";
    const char *culprit = strncmp(w.line, "kvd", 3) == 0 ? "kvd" : "gateway";
    char       *names[] = { must_print("%s.out", culprit), must_print("%s.log", culprit) };
    for (int i = 0; i < 2; i++) {
        if (!log[0])
            last_line(dir, names[i], log, sizeof log);
        free(names[i]);
    }
    return cli_error(c, HTC_EUNREACHABLE, dir, "the files in log/ say more", "the system did not start: %.80s%s%.200s",
                     w.line[0] ? w.line : "no answer from the gateway", log[0] ? "; " : "", log);
}

static void put_stopped(cli *c, const char *dir)
{
    json_t *o = json_pack("{s:s, s:s}", "dir", dir, "state", "stopped");
    put_json(c, o);
    json_decref(o);
}

htc_status run_up(cli *c, int argc, char **argv)
{
    up_options o = { 0 };
    int64_t    slots = 0;
    words      w;
    const opt  opts[] = {
         { "config", 0, OPT_TEXT, &o.config, "FILE", "configuration (DIR/htc.ini if there is one)" },
         { "slots", 0, OPT_COUNT, &slots, "N", "how many tasks run at once (the larger of 4 and the cores)" },
         { "pause-max", 0, OPT_TIME, &o.pause_max, "TIME",
           "longest pause before what ended by accident is started again (10s)" },
         { "foreground", 0, OPT_FLAG, &o.foreground, NULL, "stay here; Ctrl-C ends it" },
    };
    const command *cmd = find_command("up");
    htc_state     *state = NULL;
    char          *config = NULL, *dir = NULL, slots_text[24];
    htc_status     s = opt_parse(c, cmd, argc, argv, opts, 4, &w);
    if (s == HTC_OK)
        s = want_words(c, cmd, &w, 0, 0);
    if (s == HTC_OK && dir_is_cluster_alone(c->dir))
        s = cli_error(c, HTC_EEXISTS, c->dir, "give another --dir", "the store of htc kv cluster is here");
    if (s == HTC_OK && o.config) /* nothing is made for one that cannot be read */
        s = read_config(c, o.config, &(int){ 0 });
    if (s == HTC_OK)
        s = htc_state_open(&plain, c->dir, 1, &state, &c->error);
    if (s == HTC_OK && htc_state_holder(state))
        s = cli_error(c, HTC_ELOCKED, c->dir, "htc status talks to it, htc down ends it",
                      "a system runs here already (process %" PRIu32 ")", htc_state_holder(state));
    if (s == HTC_OK)
        s = find_config(c, &o, state, &config);
    if (s == HTC_OK) {
        dir = must_dup(htc_state_dir(state));
        if (slots) {
            snprintf(slots_text, sizeof slots_text, "%" PRId64, slots);
            o.slots = slots_text;
        }
    }
    htc_state_close(state);
    if (s == HTC_OK && o.foreground) {
        s = hold_and_supervise(dir, config, &o, STDERR_FILENO, &c->error);
        if (s == HTC_OK && c->json)
            put_stopped(c, dir);
    } else if (s == HTC_OK) {
        int   from = -1;
        char *apart = NULL;
        pid_t pid = start_supervisor(dir, config, &o, &from);
        s = pid < 0 ? cli_error(c, HTC_EBUSY, dir, "end some processes", "cannot start: %s", strerror(errno))
                    : wait_until_up(c, dir, pid, from, &apart);
        if (s == HTC_OK && c->json) {
            json_t *answer = json_pack("{s:s, s:i, s:s}", "dir", dir, "pid", (int)pid, "apart", apart);
            put_json(c, answer);
            json_decref(answer);
        } else if (s == HTC_OK)
            printf("the system runs in %s (process %ld)\n%s\n", dir, (long)pid, apart);
        free(apart);
        if (from >= 0)
            close(from);
    }
    free(dir);
    free(config);
    words_free(&w);
    return s;
}

/* The tasks that run, as a list of at most a few; 0 where nobody can say. */
static uint64_t running_tasks(cli *c, char *text, size_t cap)
{
    json_t  *answer, *agent;
    size_t   i;
    uint64_t n = 0;
    text[0] = '\0';
    if (api_call(c, json_pack("{s:s}", "op", "agents"), 2, &answer) != HTC_OK)
        return 0;
    json_array_foreach(json_object_get(answer, "agents"), i, agent)
    {
        const char *task = j_str(agent, "task");
        size_t      used = strlen(text);
        if (task[0] && ++n <= TASKS_SAID)
            snprintf(text + used, cap - used, "%s%.40s", n > 1 ? ", " : "", task);
        else if (task[0] && n == TASKS_SAID + 1)
            snprintf(text + used, cap - used, ", ...");
    }
    json_decref(answer);
    return n;
}

/* What is waited for: at once, and whenever that has changed after a while. */
static void say_running(cli *c, uint64_t *said, double *next)
{
    char     tasks[320];
    uint64_t n = now_s() >= *next ? running_tasks(c, tasks, sizeof tasks) : 0;
    if (n && n != *said)
        fprintf(stderr, "htc: %" PRIu64 " running task%s first (%s): htc down --now ends %s\n", n, n == 1 ? " finishes" : "s finish",
                tasks, n == 1 ? "it" : "them");
    if (now_s() < *next)
        return;
    *said = n;
    *next = now_s() + (*said ? SAY_EVERY_S : 1);
}

static htc_status wait_until_down(cli *c, int pidfd, uint32_t now, uint32_t supervisor)
{
    progress p;
    double   started = now_s(), next = started;
    int      pushed = 0;
    uint64_t said = 0;
    progress_begin(&p, c);
    for (;;) {
        struct pollfd f = { pidfd, POLLIN, 0 };
        if (poll(&f, 1, 200) > 0)
            break;
        double waited = now_s() - started;
        if (!now)
            say_running(c, &said, &next);
        if (now && waited > 20 + 20 * pushed) { /* the gateway does not get it done: its supervisor will */
            if (pushed++ == 3) {
                progress_end(&p);
                return cli_error(c, HTC_ETIMEDOUT, c->dir, "the files in log/ say more",
                                 "it is still there after %.0f seconds", waited);
            }
            kill((pid_t)supervisor, SIGTERM);
        }
        progress_say(&p,
                     now ? "stopping ... %.0f s" : "running tasks finish first (htc down --now ends them) ... %.0f s",
                     waited);
    }
    progress_end(&p);
    return HTC_OK;
}

htc_status run_down(cli *c, int argc, char **argv)
{
    uint32_t       now = 0, holder = 0;
    words          w;
    const opt      opts[] = { { "now", 0, OPT_FLAG, &now, NULL,
                                "end running tasks instead of letting them finish; they run again later" } };
    const command *cmd = find_command("down");
    htc_state     *state = NULL;
    json_t        *answer;
    htc_status     s = opt_parse(c, cmd, argc, argv, opts, 1, &w);
    if (s == HTC_OK)
        s = want_words(c, cmd, &w, 0, 0);
    if (s == HTC_OK) {
        s = htc_state_open(&plain, c->dir, 0, &state, &c->error);
        holder = s == HTC_OK ? htc_state_holder(state) : 0;
        htc_state_close(state);
    }
    if (s == HTC_ENOTFOUND || (s == HTC_OK && !holder))
        s = cli_error(c, HTC_EUNREACHABLE, c->dir, "there is nothing to stop", "no system runs here");
    if (s == HTC_OK) {
        int pidfd = (int)syscall(SYS_pidfd_open, (pid_t)holder, 0U);
        s = api_ask(c, json_pack("{s:s, s:b}", "op", "shutdown", "now", (int)now), 10, 5, &answer);
        if (s == HTC_OK)
            json_decref(answer);
        else if (htc_exit_code(s) == 3 || htc_exit_code(s) == 6) { /* no gateway to tell: its supervisor does it */
            s = HTC_OK;
            kill((pid_t)holder, SIGTERM);
            if (now) { /* two signals at once would be one */
                pause_ms(300);
                kill((pid_t)holder, SIGTERM);
            }
        }
        if (s == HTC_OK && pidfd >= 0)
            s = wait_until_down(c, pidfd, now, holder);
        if (pidfd >= 0)
            close(pidfd);
    }
    if (s == HTC_OK && c->json) {
        put_stopped(c, c->dir);
    } else if (s == HTC_OK)
        printf("stopped\n");
    words_free(&w);
    return s;
}
