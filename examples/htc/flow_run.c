/* htc flow run: the flow is stored, its seats are submitted as a job, and what becomes of it is told. Where no system runs, one is started for
 * the run, in a directory of its own, and ended afterwards. */
#include "flow.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "htcsched/config.h"
#include "htcsched/locality.h"
#include "htcsched/state.h"

#define LOOK_S 0.01 /* between looks, growing to */
#define LOOK_MAX_S 1.0

static volatile sig_atomic_t interrupted;

static void on_interrupt(int number)
{
    (void)number;
    interrupted = 1;
}

/* ---- a system of its own ---- */

typedef struct own_system {
    char *dir; /* NULL: there is a system already */
    const char *before;
} own_system;

/* This program again, as "htc --dir DIR WORD...". What it prints is kept from sight unless it fails. */
static htc_status again(cli *c, const char *dir, char *const *more)
{
    char *argv[12] = { (char *)(uintptr_t)c->program, (char *)(uintptr_t)"--dir", (char *)(uintptr_t)dir };
    int   status, n = 3, out[2];
    char  text[400];
    for (; more[n - 3] && n < 11; n++)
        argv[n] = more[n - 3];
    if (pipe2(out, O_CLOEXEC) != 0)
        return cli_error(c, HTC_EINTERNAL, "", "", "no pipe: %s", strerror(errno));
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(out[1], 1);
        dup2(out[1], 2);
        execv("/proc/self/exe", argv);
        _exit(127);
    }
    close(out[1]);
    ssize_t len = 0, got;
    while ((got = read(out[0], text + len, sizeof text - 1 - (size_t)len)) > 0 || (got < 0 && errno == EINTR))
        len += got > 0 ? got : 0;
    text[len > 0 ? len : 0] = '\0';
    text[strcspn(text, "\n")] = '\0';
    close(out[0]);
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return cli_error(c, HTC_EINTERNAL, "", "", "no process: %s", strerror(errno));
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? HTC_OK : cli_error(c, HTC_EUNREACHABLE, dir, "", "htc %s: %.200s", more[0], text);
}

/* 1: DIR is another user's, and a system that lets others in is there. */
static int is_others(const cli *c)
{
    struct stat st;
    char       *socket = must_print("%s/gateway.sock", c->dir);
    int         is = geteuid() != 0 && stat(c->dir, &st) == 0 && st.st_uid != geteuid() && access(socket, R_OK | W_OK) == 0;
    free(socket);
    return is;
}

static int runs_here(cli *c)
{
    htc_state *state = NULL;
    htc_error  none = { 0 };
    uint32_t   holder = htc_state_open(NULL, c->dir, 0, &state, &none) == HTC_OK ? htc_state_holder(state) : 0;
    htc_state_close(state);
    return holder != 0 || is_others(c);
}

static htc_status own_begin(flow_call *k, own_system *own)
{
    const char *tmp = getenv("TMPDIR");
    char        slots[24];
    if (runs_here(k->c))
        return HTC_OK;
    own->dir = must_print("%s/htc-flow-XXXXXX", tmp && tmp[0] ? tmp : "/tmp");
    if (!mkdtemp(own->dir))
        return cli_error(k->c, write_status(errno), own->dir, "TMPDIR names another place", "cannot be made: %s", strerror(errno));
    snprintf(slots, sizeof slots, "%" PRId64, k->slots > 0 ? k->slots : (int64_t)sysconf(_SC_NPROCESSORS_ONLN));
    char      *call[] = { (char *)(uintptr_t)"up", (char *)(uintptr_t)"--slots", slots, NULL };
    htc_status s = again(k->c, own->dir, call);
    own->before = k->c->dir;
    k->c->dir = own->dir;
    return s;
}

static htc_status remove_dir(cli *c, const char *dir)
{
    fflush(NULL);
    pid_t pid = fork();
    int   status = 1;
    if (pid == 0) {
        execl("/bin/rm", "rm", "-rf", "--", dir, (char *)NULL);
        _exit(127);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0 ? HTC_OK : cli_error(c, HTC_EIO, dir, "remove it", "cannot be removed");
}

static htc_status own_end(flow_call *k, own_system *own, htc_status s)
{
    char      *call[] = { (char *)(uintptr_t)"down", (char *)(uintptr_t)"--now", NULL };
    htc_error  kept = k->c->error;
    htc_status ended;
    if (!own->dir)
        return s;
    htc_store_close(k->store);
    k->store = NULL;
    api_close(k->c);
    ended = again(k->c, own->dir, call);
    if (k->keep)
        fprintf(stderr, "htc: the system of this run is kept in %s\n", own->dir);
    else if (ended == HTC_OK)
        ended = remove_dir(k->c, own->dir);
    k->c->dir = own->before ? own->before : k->c->dir;
    free(own->dir);
    if (s != HTC_OK)
        k->c->error = kept; /* the first thing that went wrong */
    return s != HTC_OK ? s : ended;
}

/* ---- submitting ---- */

/* As many tasks as there are to be seats, each a worker's slot at the flow. */
static htc_status submit_seats(flow_call *k, uint64_t id, uint64_t seats, uint64_t *job)
{
    char        number[24], source[32], name[40];
    const char *words_of[] = { HTC_FLOW_EXECUTABLE, number, ":::", source }, *env[] = { "HTC_SEAT={seat}", NULL };
    htc_command seat = { .size = sizeof seat, .words = words_of, .n_words = 4, .name = name, .env = env };
    htc_bytes   xml;
    json_t     *answer = NULL;
    snprintf(number, sizeof number, "%" PRIu64, id);
    snprintf(source, sizeof source, "seat=1:%" PRIu64, seats);
    snprintf(name, sizeof name, "flow %" PRIu64, id);
    htc_status s = htc_command_to_jsdl(NULL, &seat, &xml, &k->c->error);
    if (s != HTC_OK)
        return s;
    char *text = must(strndup(xml.data, xml.len));
    htc_work_free(NULL, xml);
    json_t *r = json_pack("{s:s}", "op", "submit");
    j_add(&r, "jsdl", text);
    j_add(&r, "name", name);
    s = api_call(k->c, r, 0, &answer);
    if (s == HTC_OK)
        *job = j_u64(answer, "id");
    json_decref(answer);
    free(text);
    return s;
}

static uint64_t seats_of(const flow_call *k, uint64_t tasks)
{
    uint64_t seats = k->agents > 0 ? (uint64_t)k->agents : (uint64_t)sysconf(_SC_NPROCESSORS_ONLN);
    return seats < tasks ? seats : tasks;
}

/* A flow that was read, or what is left of one that has ended. */
typedef struct source {
    const htc_flow *flow; /* NULL: from */
    uint64_t        from, tasks, all; /* tasks: that are run, of all; 0: they are all */
    int             adds; /* and others are added: how many seats are of use is not known */
    int             open; /* one of them is an intake */
} source;

static htc_status resume_flow(flow_call *k, source *of, const htc_flows_options *o, uint64_t *id)
{
    htc_flows_view v = { .size = sizeof v };
    htc_status     s = htc_flows_resume(k->store, of->from, o, id, &of->tasks, &k->c->error);
    if (s == HTC_OK)
        s = htc_flows_look(k->store, *id, &v, &k->c->error);
    of->adds = v.adds != 0;
    of->all = v.tasks;
    return s;
}

/* TIME[:RULE] */
static htc_status read_tt(flow_call *k, htc_flows_options *o)
{
    static const char *const rules[] = { [HTC_LOCALITY_TT_FIXED] = "fixed", [HTC_LOCALITY_TT_STEAL] = "steal", [HTC_LOCALITY_TT_MOVE] = "move" };
    char                    *copy = must_dup(k->tt), *colon = strchr(copy, ':');
    if (colon)
        *colon = '\0';
    while (colon && o->tt_rule <= HTC_LOCALITY_TT_MOVE && strcmp(colon + 1, rules[o->tt_rule]) != 0)
        o->tt_rule++;
    int good = flow_time(copy, &o->tt_ns) && o->tt_ns > 0 && o->tt_rule <= HTC_LOCALITY_TT_MOVE;
    free(copy);
    return good ? HTC_OK : cli_error(k->c, HTC_EUSAGE, "--tt", "10s, or 10s:steal; fixed, steal and move are the rules", "'%.40s' is no time", k->tt);
}

static int adds_tasks(const htc_flow *f)
{
    int some = 0;
    for (uint32_t i = 0; i < htc_flow_count(f); i++)
        some |= htc_flow_get(f, i)->adds || htc_flow_get(f, i)->builtin == HTC_FLOW_INTAKE;
    return some;
}

static int is_open(const htc_flow *f)
{
    int open = 0;
    for (uint32_t i = 0; i < htc_flow_count(f); i++)
        open |= htc_flow_get(f, i)->builtin == HTC_FLOW_INTAKE;
    return open;
}

/* What is named, and with --open an intake; of that nothing need be named. */
static htc_status read_open(flow_call *k, htc_flow **f)
{
    const htc_flow_task intake = { .size = sizeof intake, .name = "intake", .builtin = HTC_FLOW_INTAKE };
    htc_status          s = k->open && !k->w.count && !k->shape ? htc_flow_create(NULL, NULL, f) : flow_read(k, f);
    if (s != HTC_OK || !k->open || is_open(*f))
        return s;
    s = htc_flow_add(*f, &intake, NULL, &k->c->error);
    return s == HTC_OK ? htc_flow_check(*f, &k->c->error) : s;
}

static htc_status read_layout(flow_call *k, htc_flows_options *o)
{
    static const char *const layouts[] = { [HTC_FLOWS_EACH] = "each", [HTC_FLOWS_ONE] = "one", [HTC_FLOWS_RANDOM] = "random" };
    while (o->layout <= HTC_FLOWS_RANDOM && strcmp(k->layout, layouts[o->layout]) != 0)
        o->layout++;
    return o->layout <= HTC_FLOWS_RANDOM ? HTC_OK : cli_error(k->c, HTC_EUSAGE, "--layout", "each, one and random are known", "there is no layout %.40s", k->layout);
}

static htc_status store_flow(flow_call *k, source *of, uint64_t *id)
{
    uint64_t          seats = seats_of(k, of->flow ? of->tasks : UINT64_MAX);
    htc_flows_options o;
    htc_flows_options_init(&o, sizeof o);
    o.tries = k->tries > 0 && k->tries < INT32_MAX ? (uint32_t)k->tries : 0;
    o.max_fails = k->max_fails > 0 ? (uint64_t)k->max_fails : 0;
    o.policy = k->policy;
    o.steal = k->steal;
    htc_status s = flow_policies(k);
    o.policies = k->policies;
    if (s == HTC_OK && k->tt)
        s = read_tt(k, &o);
    if (s == HTC_OK && k->layout)
        s = read_layout(k, &o);
    if (s != HTC_OK)
        return s;
    o.workers = seats < UINT32_MAX ? (uint32_t)seats : UINT32_MAX;
    if (!of->flow)
        return resume_flow(k, of, &o, id);
    char *here = getcwd(NULL, 0);
    if (k->scratch)
        o.inputs = here;
    else
        o.directory = here;
    o.owner = is_others(k->c) ? (uint32_t)geteuid() : 0;
    s = htc_flows_submit(k->store, of->flow, &o, id, &k->c->error);
    free(here);
    return s;
}

/* ---- told ---- */

static htc_status outcome(flow_call *k, uint64_t id, const htc_flows_view *v, double took, int stays)
{
    if (k->c->json) {
        json_t *o = flow_view_json(id, v);
        json_object_set_new(o, "seconds", json_real(took));
        flow_put_json(k, o);
    } else {
        printf("flow %" PRIu64 ": %" PRIu64 " done, %" PRIu64 " failed, %" PRIu64 " cancelled in %s\n", id, v->done, v->failed, v->cancelled,
               show_seconds(took).s);
    }
    if (!v->failed && !v->cancelled)
        return HTC_OK;
    fflush(stdout); /* before the error, where both go to one place */
    char hint[120] = "";
    if (stays)
        snprintf(hint, sizeof hint, "htc flow tasks %" PRIu64 " --failed lists them, htc flow resume %" PRIu64 " runs what is missing", id, id);
    return cli_error(k->c, HTC_ETASKS, "", hint, "%" PRIu64 " of %" PRIu64 " task%s failed and %" PRIu64 " %s cancelled", v->failed,
                     v->tasks, plural(v->tasks), v->cancelled, v->cancelled == 1 ? "was" : "were");
}

typedef struct telling {
    flow_call *k;
    uint64_t   job;
    uint32_t   left; /* of those that are still told */
} telling;

static int say_failed(void *ctx, const htc_flows_task *t)
{
    telling *y = ctx;
    if (strcmp(t->state, "failed") != 0)
        return 1;
    char *how = flow_failure(y->k, y->job, t), *text = must_print("task %" PRIu64 " (%s): %s", t->number, t->name, how);
    put_line(text);
    free(text);
    free(how);
    return --y->left > 0;
}

static htc_status wait_for_flow(flow_call *k, uint64_t id, htc_flows_view *v)
{
    progress   p;
    double     begun = now_s();
    htc_status s = HTC_OK;
    struct sigaction on = { .sa_handler = on_interrupt }, before;
    sigaction(SIGINT, &on, &before);
    progress_begin(&p, k->c);
    for (;;) {
        *v = (htc_flows_view){ .size = sizeof *v };
        s = htc_flows_look(k->store, id, v, &k->c->error);
        if (s != HTC_OK || v->state == HTC_FLOWS_ENDED || v->state == HTC_FLOWS_ABORTED || interrupted)
            break;
        progress_say(&p, "flow %" PRIu64 ": %" PRIu64 " of %" PRIu64 " task%s ended, %" PRIu64 " failed, %u slot%s", id, v->done + v->failed + v->cancelled,
                     v->tasks, plural(v->tasks), v->failed, v->slots, plural(v->slots));
        double gap = (now_s() - begun) / 50; /* its end is seen at most 2 % late */
        gap = gap < LOOK_S ? LOOK_S : gap < LOOK_MAX_S ? gap : LOOK_MAX_S;
        pause_ms((unsigned)(gap * 1000));
    }
    progress_end(&p);
    sigaction(SIGINT, &before, NULL);
    return s;
}

/* ---- the whole ---- */

static htc_status run_and_tell(flow_call *k, source *of, const own_system *own)
{
    uint64_t       id = 0, job = 0;
    htc_flows_view v = { .size = sizeof v };
    double         begun = now_s();
    htc_status     s = flow_open_store(k);
    if (s == HTC_OK)
        s = store_flow(k, of, &id);
    if (s == HTC_OK)
        s = submit_seats(k, id, seats_of(k, of->adds ? UINT64_MAX : of->tasks), &job);
    if (s == HTC_OK)
        s = htc_flows_start(k->store, id, job, &k->c->error);
    if (s != HTC_OK && id) {
        htc_error kept = k->c->error, ignored;
        (void)htc_flows_remove(k->store, id, &ignored); /* nothing of it stays half submitted */
        k->c->error = kept;
    }
    if (s != HTC_OK)
        return s;
    if (!k->c->json) {
        char *all = of->all > of->tasks ? must_print(" of %" PRIu64, of->all) : must_dup("");
        uint64_t tasks = of->tasks - (of->open != 0);
        printf("flow %" PRIu64 ": %" PRIu64 "%s task%s, job %" PRIu64 "\n", id, tasks, all, tasks == 1 && !all[0] ? "" : "s", job);
        free(all);
        if (of->open)
            printf("it takes more tasks: htc flow add %" PRIu64 " FILE; htc flow close %" PRIu64 " lets it end\n", id, id);
        fflush(stdout);
    }
    if (k->detach) {
        if (k->c->json)
            flow_put_json(k, json_pack("{s:I, s:I, s:I}", "flow", (json_int_t)id, "job", (json_int_t)job, "tasks", (json_int_t)of->tasks));
        return HTC_OK;
    }
    s = wait_for_flow(k, id, &v);
    if (s == HTC_OK && interrupted && own->dir)
        return cli_error(k->c, HTC_ECANCELLED, "", "", "interrupted: the flow ends with the system that was started for it");
    if (s == HTC_OK && interrupted) {
        char hint[80];
        snprintf(hint, sizeof hint, "htc flow status %" PRIu64 " looks at it, htc flow cancel %" PRIu64 " ends it", id, id);
        return cli_error(k->c, HTC_ETIMEDOUT, "", hint, "interrupted: the flow goes on");
    }
    if (s == HTC_OK && v.failed && v.graph && !k->c->json) {
        telling y = { k, job, 5 };
        (void)htc_flows_tasks(k->store, id, say_failed, &y, NULL);
    }
    uint64_t   files = 0, bytes = 0;
    htc_status fetched = s;
    if (s == HTC_OK && (k->scratch || v.data) && v.graph) /* of a resumed one the header says whether its tasks had directories of their own */
        fetched = flow_fetch_to(k, id, &v, NULL, ".", &files, &bytes);
    htc_error about = k->c->error;
    if (s == HTC_OK && files && !k->c->json)
        printf("%" PRIu64 " result%s fetched, %s\n", files, files == 1 ? "" : "s", show_size((double)bytes).s);
    if (s == HTC_OK)
        s = outcome(k, id, &v, now_s() - begun, !own->dir);
    if (s == HTC_OK && fetched != HTC_OK)
        k->c->error = about;
    return s == HTC_OK ? fetched : s;
}

htc_status flow_run(flow_call *k)
{
    htc_flow  *flow = NULL;
    own_system own = { 0 };
    htc_status s = HTC_OK;
    if (k->detach && !runs_here(k->c))
        s = cli_error(k->c, HTC_EUNREACHABLE, "--detach", "htc up starts a system, or leave --detach out", "no system runs here that the flow could be left to");
    if (s == HTC_OK)
        s = read_open(k, &flow);
    int open = s == HTC_OK && is_open(flow);
    if (open && !runs_here(k->c))
        s = cli_error(k->c, HTC_EUNREACHABLE, "", "htc up starts a system", "an open flow needs a system in which others find it, and none runs here");
    if (s == HTC_OK && k->scratch)
        s = htc_flow_after_files(flow, &k->c->error);
    if (s == HTC_OK)
        s = own_begin(k, &own);
    if (s == HTC_OK)
        s = run_and_tell(k, &(source){ .flow = flow, .tasks = htc_flow_total(flow), .adds = adds_tasks(flow), .open = open }, &own);
    s = own_end(k, &own, s);
    htc_store_close(k->store);
    k->store = NULL;
    htc_flow_destroy(flow);
    return s;
}

htc_status flow_resume(flow_call *k)
{
    source           of = { 0 };
    const own_system none = { 0 };
    htc_status       s = flow_number(k, k->w.at[0], &of.from);
    return s == HTC_OK ? run_and_tell(k, &of, &none) : s;
}
