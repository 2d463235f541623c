#include "flow_kills.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "htcsched/agent_host.h"
#include "htcsched/host.h"
#include "net/files/files.h"
#include "store_door.h"

#define LEASE     (2 * HTC_SECOND)
#define LOOK_GAP  (50 * HTC_MS)
#define EXIT_LOST 9

char        top[200];
const char *programs;
uint64_t    flow_id;
victim      workers[WORKERS], members[MEMBERS];
kills       count;

static htc_worker_figures *seen; /* of each worker's present life; shared with it */
static char                member_id[MEMBERS][32];

/* ---- the end, also a bad one ---- */

static void end_all(void)
{
    for (uint32_t i = 0; i < WORKERS; i++)
        if (workers[i].pid > 0)
            kill(workers[i].pid, SIGKILL);
    for (uint32_t i = 0; i < MEMBERS; i++)
        if (members[i].pid > 0)
            kill(members[i].pid, SIGKILL);
    while (waitpid(-1, NULL, 0) > 0)
        ;
}

static void show_log(const char *name)
{
    char path[300], line[TO_BOTTOM][300];
    int  n = 0;
    snprintf(path, sizeof path, "%s/%s", top, name);
    FILE *f = fopen(path, "r");
    while (f && fgets(line[n % TO_BOTTOM], sizeof line[0], f))
        n++;
    if (f)
        fclose(f);
    for (int i = n > TO_BOTTOM ? n - TO_BOTTOM : 0; i < n; i++)
        fprintf(stderr, "%s: %s", name, line[i % TO_BOTTOM]);
}

void show_logs(void)
{
    char name[40];
    for (uint32_t i = 0; i < WORKERS; i++) {
        snprintf(name, sizeof name, "worker%u.log", i);
        fprintf(stderr, "worker %u: state %d, run=%lu stolen=%lu fetched=%lu remade=%lu ready=%lu waiting=%lu running=%u ledgers=%u members=%u\n", i + 1,
                (int)workers[i].state, seen[i].run, seen[i].stolen, seen[i].fetched, seen[i].remade, seen[i].ready, seen[i].waiting, seen[i].running,
                seen[i].ledgers, seen[i].members);
        show_log(name);
    }
    for (uint32_t i = 0; i < MEMBERS; i++) {
        snprintf(name, sizeof name, "member%u.log", i);
        show_log(name);
    }
}

void fail(const char *format, ...)
{
    va_list ap;
    fflush(NULL);
    fprintf(stderr, "FAILED: ");
    va_start(ap, format);
    vfprintf(stderr, format, ap);
    va_end(ap);
    fprintf(stderr, " (in %s)\n", top);
    show_logs();
    end_all();
    exit(1);
}

/* ---- a worker's process ---- */

static uint32_t own_number;

static void say(void *ctx, uint32_t level, const char *text)
{
    FILE *f = ctx;
    (void)level;
    fprintf(f, "%.3f %s\n", (double)(htc_host_now() % (1000000 * HTC_SECOND)) / 1e9, text);
    fflush(f);
}

static void look(void *machine, htc_ns now)
{
    static htc_ns      next;
    htc_worker_figures f = { .size = sizeof f };
    htc_status         status;
    if (now < next && !htc_worker_stopped(machine, &status))
        return;
    next = now + LOOK_GAP;
    if (htc_worker_look(machine, &f) == HTC_OK)
        seen[own_number] = f;
}

static htc_status dial_members(htc_host *host, store_door *door, htc_error *error)
{
    char       path[300];
    htc_status status = HTC_OK;
    for (uint32_t i = 0; i < MEMBERS && status == HTC_OK; i++) {
        snprintf(path, sizeof path, "%s/member%u/kvd.sock", top, (i + own_number) % MEMBERS);
        status = htc_host_dial_unix(host, path, 1, &door->peers[i], error);
    }
    return status;
}

static int be_worker(uint32_t self)
{
    static const char *const environ_of[] = { "PATH=/usr/bin:/bin", NULL };
    char                     path[300], slot[300], data[300], objects[300];
    store_door               door = { .look = look };
    htc_host                *host = NULL;
    htc_agent_host          *hands = NULL;
    htc_worker              *worker = NULL;
    htc_error                error = { 0 };
    int                      lock = -1;
    htc_rng                  rng = { 0 };
    own_number = self;
    htc_host_random(&rng.state, sizeof rng.state);
    snprintf(path, sizeof path, "%s/worker%u.log", top, self);
    htc_log log = { .ctx = fopen(path, "a"), .write = say, .level = HTC_LOG_INFO };
    htc_env env = { .size = sizeof env, .rng = &rng, .log = &log };
    snprintf(slot, sizeof slot, "%s/slots/local.%u", top, self);
    snprintf(data, sizeof data, "%s/data", top);
    snprintf(objects, sizeof objects, "%s/objects/%u", top, self);
    htc_host_options ho = { .size = sizeof ho, .redial_max_ns = 200 * HTC_MS };
    if (htc_agent_host_recover(&env, slot, &lock, NULL, &error) != HTC_OK || htc_host_create(&env, &ho, &host) != HTC_OK)
        return 3;
    htc_agent_host_options o = { .size = sizeof o, .slot_dir = slot, .data_dir = data, .agent = self + 1, .node = "here", .site = "local",
                                 .environ = environ_of, .slots = SLOTS, .lock = &lock, .objects_dir = objects };
    if (htc_agent_host_create(&env, host, &o, &hands, &error) != HTC_OK)
        return 4;
    snprintf(path, sizeof path, "%s/worker%u.sock", top, self);
    htc_status status = htc_host_listen_unix(host, path, 0600, 0, &error);
    if (status == HTC_OK)
        status = dial_members(host, &door, &error);
    snprintf(path, sizeof path, "unix:%s/worker%u.sock", top, self);
    htc_worker_options w = { .size = sizeof w, .flow = flow_id, .id = self + 1, .address = path, .store_peer = door.peers[0],
                             .store_client_id = htc_rng_next(&rng) | 1, .slots = SLOTS, .lease_ns = LEASE };
    if (status == HTC_OK)
        status = htc_worker_create(&env, &w, &worker);
    if (status == HTC_OK)
        status = store_door_init(&door, &env, htc_worker_ops(), worker);
    if (status == HTC_OK)
        status = htc_host_run(host, &store_door_ops, &door);
    say(log.ctx, 0, htc_strerror(status));
    htc_host_destroy(host);
    htc_agent_host_destroy(hands);
    if (worker)
        store_door_ops.destroy(&door);
    return status == HTC_OK ? 0 : status == HTC_ELOST ? EXIT_LOST : 5;
}

void start_worker(uint32_t i)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        _exit(be_worker(i));
    }
    if (pid < 0)
        fail("fork");
    workers[i] = (victim){ pid, VICTIM_RUNS, 0 };
    count.lives++;
}

/* ---- a member's process ---- */

static void member_path(uint32_t i, const char *name, char out[300])
{
    snprintf(out, 300, "%s/member%u%s", top, i, name);
}

static void name_member(uint32_t i)
{
    char command[900];
    snprintf(command, sizeof command, "'%s/htc-kvd' --dir '%s/member%u' --new-member", programs, top, i);
    FILE *f = popen(command, "r");
    if (!f || fscanf(f, "%31s", member_id[i]) != 1 || pclose(f) != 0)
        fail("a member has no id");
}

void start_member(uint32_t i)
{
    char        program[400], dir[300], log[300], listed[MEMBERS][400];
    const char *args[16] = { program, "--engine", "log", "--dir", dir };
    int         n = 5;
    snprintf(program, sizeof program, "%s/htc-kvd", programs);
    member_path(i, "", dir);
    member_path(i, ".log", log);
    for (uint32_t k = 0; k < MEMBERS; k++) {
        snprintf(listed[k], sizeof listed[k], "%s@unix:%s/member%u/kvd.sock", member_id[k], top, k);
        args[n++] = "--member";
        args[n++] = listed[k];
    }
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (freopen(log, "a", stderr) && freopen("/dev/null", "w", stdout))
            execv(program, (char *const *)args);
        _exit(127);
    }
    if (pid < 0)
        fail("fork");
    members[i] = (victim){ pid, VICTIM_RUNS, 0 };
}

void store_address(char *out, size_t room)
{
    size_t n = 0;
    for (uint32_t i = 0; i < MEMBERS; i++)
        n += (size_t)snprintf(out + n, room - n, "%sunix:%s/member%u/kvd.sock", i ? "," : "", top, i);
}

void end_members(void)
{
    for (uint32_t i = 0; i < MEMBERS; i++) {
        int status = 0;
        if (kill(members[i].pid, SIGTERM) != 0 || waitpid(members[i].pid, &status, 0) != members[i].pid || status != 0)
            fail("member %u ends with %#x", i, (unsigned)status);
        members[i].pid = 0;
    }
}

/* ---- what is done to them ---- */

/* Tasks of a worker that was killed become this process' children. */
void processes_open(void)
{
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    seen = mmap(NULL, WORKERS * sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (seen == MAP_FAILED)
        fail("memory");
    for (uint32_t i = 0; i < MEMBERS; i++)
        name_member(i);
    for (uint32_t i = 0; i < MEMBERS; i++)
        start_member(i);
}

void strike(victim *v, int signal, htc_ns back_at)
{
    if (kill(v->pid, signal) != 0)
        fail("process %d is gone", (int)v->pid);
    v->state = signal == SIGKILL ? VICTIM_DEAD : VICTIM_STOPPED;
    v->back_at = back_at;
}

static void go_on(victim *v)
{
    if (v->state == VICTIM_STOPPED && kill(v->pid, SIGCONT) == 0)
        v->state = VICTIM_RUNS;
}

void bring_back(htc_ns now)
{
    for (uint32_t i = 0; i < WORKERS; i++)
        if (now >= workers[i].back_at) {
            go_on(&workers[i]);
            if (workers[i].state == VICTIM_DEAD && workers[i].pid == 0)
                start_worker(i);
        }
    for (uint32_t i = 0; i < MEMBERS; i++)
        if (now >= members[i].back_at) {
            go_on(&members[i]);
            if (members[i].state == VICTIM_DEAD && members[i].pid == 0)
                start_member(i);
        }
}

void all_go_on(void)
{
    for (uint32_t i = 0; i < WORKERS; i++)
        go_on(&workers[i]);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        go_on(&members[i]);
        if (members[i].state == VICTIM_DEAD && members[i].pid == 0)
            start_member(i);
    }
}

static void add_figures(uint32_t i)
{
    htc_worker_figures *all = &count.figures, *f = &seen[i];
    all->run += f->run;
    all->stolen += f->stolen;
    all->taken += f->taken;
    all->made += f->made;
    all->fetched += f->fetched;
    all->fetched_bytes += f->fetched_bytes;
    all->remade += f->remade;
    all->pushed += f->pushed;
    *f = (htc_worker_figures){ 0 };
}

/* A worker that has ended by itself has seen the end of the flow, or lost its lease: then it comes back. */
static int worker_gone(uint32_t i, int status)
{
    victim *v = &workers[i];
    int     code = WIFEXITED(status) ? WEXITSTATUS(status) : -1, ended = code == 0;
    if (code > 0 && code != EXIT_LOST)
        fail("worker %u ends with %d", i + 1, code);
    if (WIFSIGNALED(status) && (v->state != VICTIM_DEAD || WTERMSIG(status) != SIGKILL))
        fail("worker %u was ended by signal %d", i + 1, WTERMSIG(status));
    count.lost += code == EXIT_LOST;
    add_figures(i);
    v->pid = 0;
    v->back_at = code == EXIT_LOST ? 0 : v->back_at;
    v->state = ended ? VICTIM_ENDED : VICTIM_DEAD;
    return ended;
}

int reap(void)
{
    int   status, ended = 0;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        for (uint32_t i = 0; i < WORKERS; i++)
            if (workers[i].pid == pid)
                ended |= worker_gone(i, status);
        for (uint32_t i = 0; i < MEMBERS; i++)
            if (members[i].pid == pid) {
                if (members[i].state != VICTIM_DEAD)
                    fail("member %u of the store ends by itself: %#x", i, (unsigned)status);
                members[i].pid = 0;
            }
    }
    return ended;
}

static void each_file(const char *path, void (*of)(const char *path))
{
    char           inner[600];
    DIR           *dir = opendir(path);
    struct dirent *e;
    while (dir && (e = readdir(dir)))
        if (e->d_name[0] != '.') {
            snprintf(inner, sizeof inner, "%s/%s", path, e->d_name);
            of(inner);
        }
    if (dir)
        closedir(dir);
}

static void delete_it(const char *path)
{
    if (unlink(path) == 0)
        count.objects_deleted++;
}

/* Of a worker that is dead: all that it had. */
void delete_objects(uint32_t i)
{
    char path[300];
    snprintf(path, sizeof path, "%s/objects/%u/%u", top, i, (unsigned)getuid());
    each_file(path, delete_it);
}

static void is_left(const char *path)
{
    fail("%s is left", path);
}

void tidy_slots(void)
{
    char      slot[300];
    htc_error error = { 0 };
    for (uint32_t i = 0; i < WORKERS; i++) {
        snprintf(slot, sizeof slot, "%s/slots/local.%u", top, i);
        if (htc_agent_host_recover(NULL, slot, NULL, NULL, &error) != HTC_OK)
            fail("slot %u cannot be recovered: %s", i, error.text);
        each_file(slot, is_left);
    }
}
