/* The fork adapter: agents are started in sessions of their own and outlive us; their ends are seen through pidfds. With a list of hosts each is
 * started there by an ssh, whose end is the agent's. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "net/files/files.h"
#include "net/gateway/gateway_private.h"
#include "net/files/proc.h"
#include "roles/batch/batch.h"

struct htc__agent {
    htc_gateway_host *gateway;
    uint64_t          agent;
    pid_t             pid;
    int               pidfd, stop_told;
    uint32_t          host; /* of the list, if there is one */
    char              out[128]; /* of the same: the file in log/ that has what ssh printed */
    struct event     *event;
    htc__agent       *next;
};

/* What a process is called towards the gateway. */
static void put_handle(htc_buf *b, pid_t pid)
{
    uint8_t form[4];
    htc__le32_put(form, (uint32_t)pid);
    htc_put_bytes(b, (htc_bytes){ form, sizeof form });
}

/* 0: none that was given out here. */
static pid_t handle_read(htc_bytes handle)
{
    htc_reader r = htc_reader_of(handle);
    uint32_t   pid = htc_get_u32(&r);
    return htc_reader_done(&r) == HTC_OK && pid > 1 && pid <= INT32_MAX ? (pid_t)pid : 0;
}

static void put_launched(htc_buf *b, pid_t pid)
{
    char name[HTC_HANDLE_NAME_MAX];
    snprintf(name, sizeof name, "process %ld", (long)pid);
    put_handle(b, pid);
    htc_put_str(b, name);
}

static void tell(htc_gateway_host *g, uint32_t event, uint64_t agent, pid_t pid, const char *how)
{
    htc_buf body;
    htc_buf_init(&body, g->env, 256);
    htc_put_u64(&body, agent);
    put_handle(&body, pid);
    if (how)
        htc_put_str(&body, how);
    if (body.status == HTC_OK)
        htc_host_event(g->host, event, HTC_OK, htc_buf_bytes(&body));
    htc_buf_free(&body);
}

static void agent_free(htc__agent *a)
{
    htc__agent **p = &a->gateway->agents;
    while (*p && *p != a)
        p = &(*p)->next;
    if (*p)
        *p = a->next;
    if (a->event)
        event_free(a->event);
    if (a->pidfd >= 0)
        close(a->pidfd);
    free(a);
}

#define SSH_FAILED 255 /* as ssh(1) says of itself; htc-agent never does */

/* Why ssh could not do it stands in its last line. */
static void ssh_ended(const htc__agent *a, int status, char *how, size_t cap)
{
    char path[4400], text[2048];
    int  failed = WIFEXITED(status) && WEXITSTATUS(status) == SSH_FAILED;
    htc__ssh_hosts_give(a->gateway->hosts, a->host, failed, htc_host_now());
    snprintf(path, sizeof path, "%.4000s/log/%s", a->gateway->state_dir, a->out);
    ssize_t n = failed ? htc__read_end(path, text, sizeof text) : 0;
    while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == '\r'))
        text[--n] = '\0';
    const char *last = n > 0 ? strrchr(text, '\n') : NULL;
    if (failed)
        snprintf(how, cap, "host %.60s cannot be used: %.120s", htc__ssh_hosts_name(a->gateway->hosts, a->host), n > 0 ? last ? last + 1 : text : "ssh failed");
}

static void on_exit_event(evutil_socket_t fd, short what, void *arg)
{
    htc__agent *a = arg;
    int         status;
    char        how[256] = "";
    (void)fd, (void)what;
    /* Not our child if a gateway before us started it: then nobody tells us how it ended. */
    if (waitpid(a->pid, &status, WNOHANG) != a->pid)
        ;
    else if (a->gateway->hosts)
        ssh_ended(a, status, how, sizeof how);
    else if (WIFSIGNALED(status))
        snprintf(how, sizeof how, "signal %d", WTERMSIG(status));
    else
        snprintf(how, sizeof how, "exit code %d", WEXITSTATUS(status));
    tell(a->gateway, HTC_EVENT_AGENT_EXIT, a->agent, a->pid, how);
    agent_free(a);
}

static htc__agent *find(const htc_gateway_host *g, uint64_t agent, pid_t pid)
{
    for (htc__agent *a = g->agents; a; a = a->next)
        if (a->agent == agent && a->pid == pid)
            return a;
    return NULL;
}

int htc__agent_has_pid(const htc_gateway_host *g, pid_t pid)
{
    const htc__agent *a = g->agents;
    while (a && a->pid != pid)
        a = a->next;
    return a != NULL;
}

static htc_status watch(htc_gateway_host *g, uint64_t agent, pid_t pid)
{
    htc__agent *a = calloc(1, sizeof *a);
    if (!a)
        return HTC_ENOMEM;
    a->gateway = g;
    a->agent = agent;
    a->pid = pid;
    a->pidfd = pidfd_open(pid, 0);
    a->event = a->pidfd < 0 ? NULL : event_new(g->host->base, a->pidfd, EV_READ | EV_PERSIST, on_exit_event, a);
    if (!a->event || event_add(a->event, NULL) != 0) {
        htc_status status = a->pidfd < 0 && errno == ESRCH ? HTC_ENOTFOUND : HTC_EIO;
        agent_free(a);
        return status;
    }
    a->next = g->agents;
    g->agents = a;
    return HTC_OK;
}

/* Is this process the agent of that number? Its arguments say so: `--agent`, then the number. */
static int is_agent(pid_t pid, uint64_t agent)
{
    char    path[40], text[4096], number[32];
    ssize_t n;
    snprintf(path, sizeof path, "/proc/%ld/cmdline", (long)pid);
    snprintf(number, sizeof number, "%" PRIu64, agent);
    n = htc__read_text(path, text, sizeof text);
    for (ssize_t at = 0; at < n; at += (ssize_t)strlen(text + at) + 1)
        if (strcmp(text + at, "--agent") == 0 && at + 8 < n)
            return strcmp(text + at + 8, number) == 0;
    return 0;
}

htc_status htc__agent_watch(htc_gateway_host *g, uint64_t tag, htc_reader *body)
{
    htc_status status = HTC_OK;
    htc_buf    answer;
    uint64_t   agent = htc_get_u64(body);
    htc_bytes  handle = htc_get_bytes(body);
    uint32_t   speaker = htc_get_u32(body);
    pid_t      pid = handle.len ? handle_read(handle) : speaker <= INT32_MAX ? (pid_t)speaker : 0;
    if (htc_reader_done(body) != HTC_OK)
        return HTC_EPROTO;
    /* The descriptor first, then the look: so it is the looked-at process that is watched. */
    if (!find(g, agent, pid)) {
        status = pid > 1 ? watch(g, agent, pid) : HTC_ENOTFOUND;
        if (status == HTC_OK && !is_agent(pid, agent)) {
            agent_free(find(g, agent, pid));
            status = HTC_ENOTFOUND;
        }
    }
    if (status != HTC_OK)
        return htc_host_answer(g->host, HTC_CALL_WATCH_AGENT, tag, HTC_ENOTFOUND, htc_bytes_of(""));
    htc_buf_init(&answer, g->env, 256);
    put_launched(&answer, pid);
    status = htc_host_answer(g->host, HTC_CALL_WATCH_AGENT, tag, answer.status, htc_buf_bytes(&answer));
    htc_buf_free(&answer);
    return status;
}

htc_status htc__agent_kill(htc_gateway_host *g, htc_reader *body)
{
    uint64_t    agent = htc_get_u64(body);
    pid_t       pid = handle_read(htc_get_bytes(body));
    htc__agent *a;
    if (htc_reader_done(body) != HTC_OK || pid == 0)
        return HTC_OK;
    a = find(g, agent, pid);
    int fd = a ? a->pidfd : pidfd_open(pid, 0);
    if (fd >= 0 && (a || is_agent(pid, agent))) {
        htc__log_with(g->env, HTC_LOG_WARN, HTC__FIELDS(HTC__NUMBER("agent", agent), HTC__NUMBER("pid", pid)),
                      "agent %" PRIu64 " (process %ld) is to be killed -> kill", agent, (long)pid);
        pidfd_send_signal(fd, SIGKILL, NULL, 0);
    }
    if (!a && fd >= 0)
        close(fd);
    return HTC_OK;
}

void htc__agents_look(htc_gateway_host *g)
{
    for (htc__agent *a = g->agents; a; a = a->next) {
        htc__proc p;
        int       stopped = htc__proc_read(a->pid, &p) == 0 && p.state == 'T';
        if (stopped && !a->stop_told)
            tell(g, HTC_EVENT_AGENT_STOPPED, a->agent, a->pid, NULL);
        a->stop_told = stopped;
    }
}

void htc__agents_free(htc_gateway_host *g)
{
    while (g->agents)
        agent_free(g->agents);
}

/* --- launching --- */

typedef struct launch {
    htc__launch what;
    const char *argv[64]; /* of ssh, if the agent is to run on a host of the list */
    int         in, out, report;
} launch;

/* ssh HOST 'exec "each word"': the shell there is the user's, and whatever it is it knows these quotes. */
static int ssh_arguments(const htc_gateway_host *g, const htc__launch *l, uint32_t host, htc_buf *words, const char **argv, size_t room)
{
    size_t n = 0;
    htc_buf_clear(words);
    htc__batch_words(words, "ssh -o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=30 -T");
    if (g->ssh_config) {
        htc__batch_word(words, "-F");
        htc__batch_word(words, g->ssh_config);
    }
    htc__batch_words(words, g->ssh_words);
    htc__batch_word(words, "--");
    htc__batch_word(words, htc__ssh_hosts_name(g->hosts, host));
    htc_put_raw(words, htc_bytes_of("exec "));
    htc__batch_quote(words, l->argv);
    htc_put_u8(words, 0);
    if (words->status != HTC_OK)
        return -1;
    htc_bytes all = htc_buf_bytes(words);
    for (const char *w = all.data, *end = w + all.len; w < end; w += strlen(w) + 1) {
        if (n + 1 == room)
            return -1;
        argv[n++] = w;
    }
    argv[n] = NULL;
    return 0;
}

static void __attribute__((noreturn)) become_agent(const htc_gateway_host *g, const launch *l)
{
    struct sigaction standard = { .sa_handler = SIG_DFL };
    sigset_t         none;
    for (int i = 1; i < NSIG; i++)
        sigaction(i, &standard, NULL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setsid();
    if (dup2(l->in, 0) >= 0 && dup2(l->out, 1) >= 0 && dup2(l->out, 2) >= 0 &&
        close_range(3, ~0u, CLOSE_RANGE_CLOEXEC) == 0) {
        if (l->argv[0])
            execvpe(l->argv[0], (char *const *)(uintptr_t)l->argv, (char *const *)(uintptr_t)g->environ);
        else
            execve(g->agent_path, (char *const *)(uintptr_t)l->what.argv, (char *const *)(uintptr_t)g->environ);
    }
    int     why = errno;
    ssize_t n = write(l->report, &why, sizeof why);
    _exit(n == (ssize_t)sizeof why ? 127 : 126);
}

/* Fork and wait until exec has happened or failed: a moment, for nothing else stands between. -1 and errno. */
static pid_t start(const htc_gateway_host *g, launch *l)
{
    int     report[2], why = 0;
    char    path[4096];
    ssize_t n;
    if (pipe2(report, O_CLOEXEC) != 0)
        return -1;
    /* What an agent says before its own log is open; no terminal or pipe of ours is held open by it. */
    snprintf(path, sizeof path, "%s/log/agent-%s.%s.out", g->state_dir, l->what.site, l->what.slot);
    l->in = open("/dev/null", O_RDONLY | O_CLOEXEC);
    l->out = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (l->out < 0)
        l->out = open("/dev/null", O_WRONLY | O_CLOEXEC);
    l->report = report[1];
    pid_t pid = l->in < 0 || l->out < 0 ? -1 : fork();
    if (pid == 0)
        become_agent(g, l);
    why = errno;
    close(report[1]);
    if (l->in >= 0)
        close(l->in);
    if (l->out >= 0)
        close(l->out);
    if (pid > 0) {
        while ((n = read(report[0], &why, sizeof why)) < 0 && errno == EINTR)
            ;
        if (n == (ssize_t)sizeof why) {
            while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
                ;
            pid = -1;
        }
    }
    close(report[0]);
    errno = why;
    return pid;
}

/* Under root each agent is told whom to become, root included: then its slot is made anew for that uid. */
static void name_arguments(const htc_gateway_host *g, htc__launch *l)
{
    const char *words[] = { g->agent_path, "--dir", g->state_dir, "--agent", l->agent, "--slot", l->slot, "--slots", l->slots,
                            "--user", l->user, "--site", l->site };
    size_t      n = sizeof words / sizeof *words;
    memcpy(l->argv, words, sizeof words);
    if (g->config_path) {
        l->argv[n++] = "--config";
        l->argv[n++] = g->config_path;
    }
    if (g->apart == HTC_APART_UID) {
        l->argv[n++] = "--uid";
        l->argv[n++] = l->uid;
        l->argv[n++] = "--gid";
        l->argv[n++] = l->gid;
    }
    if (l->place == HTC_PLACE_CONFINED)
        l->argv[n++] = "--confine";
    for (size_t i = 0; g->agent_args && g->agent_args[i] && i < HTC_GATEWAY_HOST_ARGS_MAX; i++)
        l->argv[n++] = g->agent_args[i];
}

/* What is asked for has to be what this host can carry out: a user's tasks never run as root for want of a uid. */
static int can_place(const htc_gateway_host *g, uint32_t place, uint32_t uid, uint32_t gid)
{
    switch ((htc__place_kind)place) {
    case HTC_PLACE_OWNER: return 1;
    case HTC_PLACE_CONFINED: return g->apart == HTC_APART_CONFINED;
    case HTC_PLACE_UID: return g->apart == HTC_APART_UID && uid != 0 && uid != HTC_NO_UID && gid != HTC_NO_UID;
    case HTC_PLACE_REFUSED: break;
    }
    return 0;
}

htc_status htc__launch_read(const htc_gateway_host *g, htc_reader *body, htc__launch *l)
{
    *l = (htc__launch){ .slots_n = 1 };
    htc_get_str(body, l->site, sizeof l->site);
    l->id = htc_get_u64(body);
    uint32_t slot = htc_get_u32(body);
    htc_get_str(body, l->user, sizeof l->user);
    l->place = htc_get_u8(body);
    uint32_t uid = htc_get_u32(body), gid = htc_get_u32(body);
    if (htc_reader_left(body)) /* not said where an agent never has more */
        l->slots_n = htc_get_u32(body);
    if (htc_reader_done(body) != HTC_OK || l->slots_n == 0)
        return HTC_EPROTO;
    if (!can_place(g, l->place, uid, gid))
        return HTC_EDENIED;
    if (l->place == HTC_PLACE_UID && htc__content_place(g, l->user, uid, gid) != 0)
        return htc__status_of(errno, HTC_EIO);
    int own = l->place == HTC_PLACE_OWNER;
    snprintf(l->uid, sizeof l->uid, "%" PRIu32, own ? 0 : uid);
    snprintf(l->gid, sizeof l->gid, "%" PRIu32, own ? 0 : gid);
    snprintf(l->agent, sizeof l->agent, "%" PRIu64, l->id);
    snprintf(l->slot, sizeof l->slot, "%" PRIu32, slot);
    snprintf(l->slots, sizeof l->slots, "%" PRIu32, l->slots_n);
    name_arguments(g, l);
    return HTC_OK;
}

htc_status htc__agent_launch(htc_gateway_host *g, uint64_t tag, htc_reader *body)
{
    launch     l = { .in = -1, .out = -1 };
    htc_buf    answer;
    char       text[300];
    htc_status status = htc__launch_read(g, body, &l.what);
    if (status == HTC_OK && g->objects && l.what.place == HTC_PLACE_UID)
        return htc_host_answer(g->host, HTC_CALL_LAUNCH, tag, HTC_EDENIED,
                               htc_bytes_of("an agent with another uid than this host's would have no key to speak with"));
    if (status == HTC_EDENIED)
        return htc_host_answer(g->host, HTC_CALL_LAUNCH, tag, status, htc_bytes_of(HTC__NO_OTHERS));
    if (status != HTC_OK)
        return status;
    uint64_t agent = l.what.id;
    uint32_t host = 0;
    htc_buf  words;
    htc_buf_init(&words, g->env, 1 << 20);
    if (g->hosts) {
        if (htc__ssh_hosts_take(g->hosts, htc_host_now(), &host) != HTC_OK)
            return htc_host_answer(g->host, HTC_CALL_LAUNCH, tag, HTC_EUNREACHABLE, htc_bytes_of("no host of the list can be used now"));
        if (ssh_arguments(g, &l.what, host, &words, l.argv, sizeof l.argv / sizeof *l.argv) != 0) {
            htc_buf_free(&words);
            return HTC_ENOMEM;
        }
    }
    pid_t pid = start(g, &l);
    int   why = errno;
    htc_buf_free(&words);
    if (pid < 0) {
        if (g->hosts)
            htc__ssh_hosts_give(g->hosts, host, 0, htc_host_now());
        snprintf(text, sizeof text, "cannot start %.200s: %s", g->hosts ? "ssh" : g->agent_path, strerror(why));
        htc__log(g->env, HTC_LOG_ERROR, "%s -> tell the gateway", text);
        return htc_host_answer(g->host, HTC_CALL_LAUNCH, tag,
                               why == ENOENT || why == EACCES || why == ENOEXEC ? HTC_ENOEXEC : HTC_EREFUSED,
                               htc_bytes_of(text));
    }
    /* Without a watch its end would be noticed by missing heartbeats only, which is late but not wrong. */
    if (watch(g, agent, pid) != HTC_OK)
    {
        htc__log_with(g->env, HTC_LOG_WARN, HTC__FIELDS(HTC__NUMBER("pid", pid)),
                      "process %ld cannot be watched -> rely on heartbeats", (long)pid);
        if (g->hosts) /* nobody will tell of its end */
            htc__ssh_hosts_give(g->hosts, host, 0, htc_host_now());
    } else if (g->hosts) {
        htc__agent *a = find(g, agent, pid);
        a->host = host;
        snprintf(a->out, sizeof a->out, "agent-%.100s.%s.out", l.what.site, l.what.slot);
    }
    htc_buf_init(&answer, g->env, 256);
    put_launched(&answer, pid);
    status = htc_host_answer(g->host, HTC_CALL_LAUNCH, tag, answer.status, htc_buf_bytes(&answer));
    htc_buf_free(&answer);
    return status;
}
