/* The agent's host: its calls, and the table of runs. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "net/exec/exec_private.h"
#include "net/exec/functions.h"
#include "net/files/files.h"

/* --- runs --- */

static htc__run *run_numbered(const htc_agent_host *a, uint64_t number)
{
    for (htc__run *r = a->runs; r; r = r->next)
        if (r->run == number && !r->process)
            return r;
    return NULL;
}

const char *htc__run_no_paths(const htc__run *r)
{
    return r->agent->confine ? "the tasks of a user without a uid here work on uploads and in their own directory alone" : NULL;
}

int htc__run_open_work(const htc__run *r)
{
    return r->work[0] == '/' && r->task->directory && r->task->directory[0] == '/'
               ? open(r->work, O_PATH | O_DIRECTORY | O_CLOEXEC)
               : htc__open_below(r->dir_fd, r->work_below, O_PATH | O_DIRECTORY, 0, 0);
}

int htc__run_open_out(const htc__run *r)
{
    return htc__open_below(r->dir_fd, "out", O_RDONLY | O_DIRECTORY, 0, 0);
}

static void close_if_open(int fd)
{
    if (fd >= 0)
        close(fd);
}

void htc__run_free(htc__run *r)
{
    if (r->task)
        htc_task_destroy(r->task);
    if (!r->plain) {
        if (r->work != r->scratch)
            free(r->work);
        free(r->scratch);
        free(r->out);
        free(r->scratch_entry);
    }
    close_if_open(r->dir_fd);
    close_if_open(r->streams[0]);
    close_if_open(r->streams[1]);
    htc__gang_door_close(r);
    free(r->mark);
    free(r->place);
    free(r->work_below);
    free(r->dir);
    free(r);
}

static void unlink_run(htc__run *r)
{
    htc__run **p = &r->agent->runs;
    while (*p != r)
        p = &(*p)->next;
    *p = r->next;
}

/* Where a run that no keeper has lies. 0: out of memory. */
static int name_places(htc__run *r)
{
    const htc_task *t = r->task;
    const char     *below = t->directory && t->directory[0] != '/' ? t->directory : "";
    if (asprintf(&r->place, "scratch/%" PRIu64 ".%" PRIu64 ".%" PRIu32, r->attempt.job, r->attempt.task, r->attempt.attempt) < 0)
        r->place = NULL;
    if (!r->place || asprintf(&r->dir, "%s/%s", r->agent->slot_dir, r->place) < 0)
        r->dir = NULL;
    if (asprintf(&r->work_below, "work%s%s", *below ? "/" : "", below) < 0)
        r->work_below = NULL;
    if (!r->dir || asprintf(&r->scratch, "%s/work", r->dir) < 0)
        r->scratch = NULL;
    if (!r->dir || asprintf(&r->out, "%s/out", r->dir) < 0)
        r->out = NULL;
    if (!r->scratch || asprintf(&r->scratch_entry, "HTC_SCRATCH=%s", r->scratch) < 0)
        r->scratch_entry = NULL;
    if (!t->directory)
        r->work = r->scratch;
    else if (t->directory[0] == '/')
        r->work = strdup(t->directory);
    else if (!r->scratch || asprintf(&r->work, "%s/%s", r->scratch, t->directory) < 0)
        r->work = NULL;
    return r->work_below && r->out && r->scratch_entry && r->work;
}

void htc__run_unkept(htc__run *r)
{
    r->plain = 0;
    r->work = r->scratch = r->out = r->scratch_entry = NULL;
}

htc__run *htc__run_new(htc_agent_host *a, uint64_t number, const htc_attempt *attempt, htc_task *task, int plain)
{
    htc__run *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    r->agent = a;
    r->run = number;
    r->attempt = *attempt;
    r->channel = r->pidfd = r->dir_fd = r->streams[0] = r->streams[1] = -1;
    r->task = task;
    r->plain = plain;
    if (!plain && !name_places(r)) {
        r->task = NULL;
        htc__run_free(r);
        return NULL;
    }
    r->next = a->runs;
    a->runs = r;
    return r;
}

/* --- work on the threads --- */

typedef struct job {
    htc_agent_host *agent;
    htc__run       *run;
    htc_attempt     attempt;
    char           *place;
    char           *directory;
    char          **delete_names; /* DeleteOnTermination in directory, which is not ours */
    int             drop;
    void (*work)(void *);
    void (*done)(void *);
} job;

static void do_job(void *arg)
{
    job *j = arg;
    j->work(j->run);
}

static void job_done(void *arg)
{
    job *j = arg;
    assert(j->agent->in_work > 0);
    j->agent->in_work--;
    j->done(j->run);
    free(j);
}

htc_status htc__exec_work(htc__run *r, void (*work)(void *), void (*done)(void *))
{
    job *j = calloc(1, sizeof *j);
    if (!j)
        return HTC_ENOMEM;
    *j = (job){ .agent = r->agent, .run = r, .work = work, .done = done };
    htc_status status = htc_host_work(r->agent->host, do_job, job_done, j);
    if (status != HTC_OK)
        free(j);
    else
        r->agent->in_work++;
    return status;
}

static void do_clean(void *arg)
{
    job *j = arg;
    int  dir = j->delete_names ? open(j->directory, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
    for (size_t i = 0; dir >= 0 && j->delete_names[i]; i++)
        htc__unlink_below(dir, j->delete_names[i]);
    close_if_open(dir);
    htc__remove_below(j->agent->slot_fd, j->place);
    int shared = j->drop ? htc__outputs_at_dup(&j->agent->outputs_at) : -1;
    if (j->drop)
        htc__drop_outputs(j->agent->data_dir, &j->attempt);
    if (shared >= 0)
        htc__drop_outputs_below(shared, &j->attempt);
    close_if_open(shared);
}

static void clean_done(void *arg)
{
    job *j = arg;
    assert(j->agent->in_work > 0);
    j->agent->in_work--;
    htc__strings_free(j->delete_names);
    free(j->place);
    free(j->directory);
    free(j);
}

/* What is to be deleted in the task's own directory; the scratch directory goes as a whole anyway. */
static char **names_to_delete(const htc__run *r)
{
    const htc_task *t = r->task;
    char          **list = t->directory && t->directory[0] == '/'
                               ? calloc(t->n_in + t->n_out + 1, sizeof *list)
                               : NULL;
    size_t          n = 0;
    for (size_t i = 0; list && i < t->n_in + t->n_out; i++) {
        const htc_stage *s = i < t->n_in ? &t->in[i] : &t->out[i - t->n_in];
        if ((s->flags & HTC_STAGE_DELETE) && htc__name_stays(s->name) && (list[n] = strdup(s->name)))
            n++;
    }
    return list;
}

static void start_cleaning(htc__run *r, int drop)
{
    htc_agent_host *a = r->agent;
    if (r->gang || (r->plain && !r->left)) {
        unlink_run(r);
        htc__run_free(r); /* it has left nothing, or in another's place, and stored nothing */
        return;
    }
    job            *j = calloc(1, sizeof *j);
    assert(r->pid == 0 && r->place); /* nothing runs in the directory that goes */
    unlink_run(r);
    if (j) {
        *j = (job){ .agent = a, .attempt = r->attempt, .place = r->place, .drop = drop };
        j->delete_names = names_to_delete(r);
        if (j->delete_names && !(j->directory = strdup(r->work))) {
            htc__strings_free(j->delete_names);
            j->delete_names = NULL;
        }
        r->place = NULL;
        a->in_work++;
        if (htc_host_work(a->host, do_clean, clean_done, j) != HTC_OK) {
            do_clean(j);
            clean_done(j);
        }
    }
    htc__run_free(r);
}

void htc__exec_settle(htc__run *r)
{
    if (r->clean_wanted && r->phase == RUN_READY)
        start_cleaning(r, r->drop_wanted);
}

void htc__exec_answer(htc__run *r, uint32_t op, uint64_t tag, htc_status status, const char *text)
{
    htc_host_answer(r->agent->host, op, tag, status, htc_bytes_of(status == HTC_OK ? NULL : text));
}

/* --- the calls --- */

static void staged_in(void *arg)
{
    htc__run *r = arg;
    assert(r->phase == RUN_STAGING_IN);
    r->phase = RUN_READY;
    htc__exec_answer(r, HTC_CALL_STAGE_IN, r->tag, r->status, r->text);
    htc__exec_settle(r);
}

/* What it names by URL is there, or not. */
static void fetched(htc__run *r)
{
    assert(r->phase == RUN_STAGING_IN && !r->fetch);
    r->urls_here = r->status == HTC_OK;
    htc_status status = r->status == HTC_OK ? htc__exec_work(r, htc__stage_in, staged_in) : r->status; /* a thread has the run then */
    if (status != HTC_OK) {
        r->status = status;
        staged_in(r);
    }
}

static void placed(void *arg)
{
    htc__run *r = arg;
    if (r->status == HTC_OK && r->clean_wanted)
        r->status = HTC_ECANCELLED;
    if (r->status != HTC_OK || htc__urls_start(r, fetched) != HTC_OK)
        staged_in(r);
}

static htc_status begin_staging(htc__run *r)
{
    return htc__urls_some(r->task) && !r->urls_here ? htc__exec_work(r, htc__stage_place, placed) : htc__exec_work(r, htc__stage_in, staged_in);
}

/* It could not be staged in, for now or without what is there by now. */
static int may_stage_again(const htc__run *r)
{
    return r->phase == RUN_READY && !r->plain && r->status != HTC_OK && !r->started && !r->clean_wanted;
}

static void say_full(htc_agent_host *a, uint64_t tag)
{
    char text[400];
    snprintf(text, sizeof text, "%.300s is on a disk without room", a->slot_dir);
    htc_host_answer(a->host, HTC_CALL_STAGE_IN, tag, HTC_ENOSPC, htc_bytes_of(text));
}

static htc_status stage_in(htc_agent_host *a, uint64_t tag, htc_reader *body)
{
    if (a->full) {
        say_full(a, tag);
        return HTC_OK;
    }
    htc_attempt attempt;
    char        user[64];
    htc_task   *task = NULL;
    uint64_t    number = htc_get_u64(body);
    htc_read_attempt(body, &attempt);
    htc_get_str(body, user, sizeof user);
    uint64_t  count = htc_get_u64(body);
    uint32_t  compat = htc_get_u32(body);
    htc_bytes bytes = htc_get_bytes(body);
    htc__run *again = run_numbered(a, number);
    if (htc_reader_done(body) != HTC_OK || (again && !may_stage_again(again)))
        return HTC_EPROTO;
    if (again) {
        again->tag = tag;
        again->phase = RUN_STAGING_IN;
        return begin_staging(again);
    }
    htc_status status = htc_task_from_bytes(NULL, bytes, &task);
    if (status == HTC_OK && task->kind != HTC_TASK_COMMAND) {
        htc_task_destroy(task);
        status = HTC_EUNSUPPORTED; /* HTC_CALL_RUN_SPAN runs them */
    }
    if (status != HTC_OK)
        return status;
    htc__run *r = htc__run_new(a, number, &attempt, task, htc__kept_plain(a, task, bytes.len));
    if (!r) {
        htc_task_destroy(task);
        return HTC_ENOMEM;
    }
    memcpy(r->user, user, sizeof user);
    r->count = count;
    r->compat = compat;
    r->tag = tag;
    r->phase = RUN_STAGING_IN;
    if (r->plain) { /* its place is there */
        r->status = htc__scratch_full(a) ? HTC_ENOSPC : HTC_OK;
        if (r->status != HTC_OK)
            snprintf(r->text, sizeof r->text, "%.300s is on a disk without room", a->slot_dir);
        staged_in(r);
        return HTC_OK;
    }
    status = begin_staging(r);
    if (status != HTC_OK) {
        unlink_run(r);
        htc__run_free(r);
    }
    return status;
}

static void staged_out(htc__run *r)
{
    htc_buf body;
    assert(r->phase == RUN_STAGING_OUT);
    r->phase = RUN_READY;
    if (r->status == HTC_OK) {
        htc_buf_init(&body, r->agent->env, 0);
        htc_stored_write(&body, &r->stored);
        htc_host_answer(r->agent->host, HTC_CALL_STAGE_OUT, r->tag, body.status, htc_buf_bytes(&body));
        htc_buf_free(&body);
    } else {
        htc__exec_answer(r, HTC_CALL_STAGE_OUT, r->tag, r->status, r->text);
    }
    htc__exec_settle(r);
}

/* What goes to URLs goes there when all is stored. */
static void stored(void *arg)
{
    htc__run *r = arg;
    r->send_unwanted |= r->clean_wanted;
    if (htc__urls_may_send(r))
        htc__urls_send(r, staged_out);
    else
        staged_out(r);
}

static htc_status stage_out(htc__run *r, uint64_t tag)
{
    if (r->phase != RUN_READY || r->clean_wanted)
        return HTC_EBUSY;
    r->tag = tag;
    r->phase = RUN_STAGING_OUT;
    r->send_unwanted = 0;
    if (r->stored_all) {
        htc__urls_send(r, staged_out);
        return HTC_OK;
    }
    if (r->plain && !r->left) {
        r->stored = (htc_stored){ .status = HTC_OK };
        r->status = HTC_OK;
        staged_out(r);
        return HTC_OK;
    }
    htc_status status = htc__exec_work(r, htc__stage_out, stored);
    if (status != HTC_OK)
        r->phase = RUN_READY;
    return status;
}

static void take_back(htc__run *r);

static void send_signal(htc__run *r, uint32_t signal, htc_status why)
{
    if (r->phase == RUN_WAITING)
        take_back(r);
    if (r->phase != RUN_RUNNING)
        return;
    if (r->why == HTC_OK) {
        r->why = why;
        snprintf(r->why_text, sizeof r->why_text, "%s", htc_strerror(why));
        if (why == HTC_EWALLTIME && r->task->limits.wall)
            snprintf(r->why_text, sizeof r->why_text, "ran longer than its limit of %.3g s",
                     (double)r->task->limits.wall / (double)HTC_SECOND);
    }
    htc__run_signal(r, (int)signal);
}

static void clean(htc__run *r, int drop)
{
    r->clean_wanted = 1;
    r->drop_wanted |= drop;
    htc__urls_stop(r);
    if (r->phase == RUN_RUNNING || r->phase == RUN_WAITING)
        send_signal(r, SIGKILL, HTC_EKILLED);
    htc__exec_settle(r);
}

static htc_status start(htc__run *r, uint64_t tag)
{
    htc_status status = r->plain ? htc__kept_start(r, tag) : HTC_ETOOBIG;
    if (status != HTC_ETOOBIG)
        return status;
    if (!r->scratch) { /* it was plain, but for its size */
        if (!name_places(r))
            return HTC_ENOMEM;
        htc__stage_in(r);
        if (r->status != HTC_OK) {
            r->tag = tag;
            htc__run_refuse(r, r->status);
            return HTC_OK;
        }
    }
    return htc__run_start(r, tag);
}

uint32_t htc__run_slots(const htc__run *r)
{
    return r->task && r->task->limits.cores > 1 ? r->task->limits.cores : 1;
}

uint32_t htc__run_nodes(const htc__run *r)
{
    uint32_t n = 1;
    for (const char *at = r->task && r->task->nodes ? strchr(r->task->nodes, ' ') : NULL; at; at = strchr(at + 1, ' '))
        n++;
    return n;
}

/* A keeper takes more than it can run, the first come first; all others need slots that nobody has. While more keepers run something than
 * there are slots none is given more. */
static int has_room(const htc_agent_host *a, const htc__run *r)
{
    uint32_t unkept = htc__runs_unkept(a), kept = htc__kept_runs(a);
    if (r->plain && unkept == 0)
        return htc__keepers_busy(a) <= a->slots && kept < a->slots * (HTC__KEEPER_DEPTH - 1);
    return unkept + kept == 0 || unkept + kept + htc__run_slots(r) <= a->slots;
}

static htc__run *first_waiting(const htc_agent_host *a)
{
    htc__run *first = NULL;
    for (htc__run *r = a->runs; r; r = r->next)
        if (r->phase == RUN_WAITING && (!first || r->run < first->run))
            first = r;
    return first;
}

void htc__exec_start_waiting(htc_agent_host *a)
{
    for (htc__run *r; !a->closing && (r = first_waiting(a)) && has_room(a, r);) {
        r->phase = RUN_READY;
        htc_status status = start(r, r->tag);
        if (status != HTC_OK)
            htc__exec_answer(r, HTC_CALL_RUN, r->tag, status, htc_strerror(status));
    }
}

static htc_status run(htc__run *r, uint64_t tag)
{
    if (!first_waiting(r->agent) && has_room(r->agent, r))
        return start(r, tag);
    r->tag = tag;
    r->phase = RUN_WAITING;
    return HTC_OK;
}

static void take_back(htc__run *r)
{
    r->send_unwanted = 1;
    htc__urls_stop(r);
    if (r->phase == RUN_RUNNING) {
        htc__kept_take_back(r);
    } else if (r->phase == RUN_WAITING) {
        snprintf(r->text, sizeof r->text, "not begun");
        htc__run_refuse(r, HTC_AGAIN);
    }
}

/* What runs goes on: with fewer slots than that nothing begins until enough has ended. */
static void set_slots(htc_agent_host *a, uint32_t slots)
{
    a->slots = slots == 0 || a->full ? 1 : slots < a->n_keepers ? slots : a->n_keepers;
    htc__functions_slots(a);
    htc__exec_start_waiting(a);
}

static htc_status on_call(void *ctx, htc_host *host, uint32_t op, uint64_t tag, htc_bytes bytes)
{
    htc_agent_host *a = ctx;
    htc_reader      body = htc_reader_of(bytes);
    (void)host;
    if (op == HTC_CALL_STAGE_IN)
        return stage_in(a, tag, &body);
    if (op == HTC_CALL_DIAL)
        return htc__exec_dial(a, tag, &body);
    if (op == HTC_CALL_OUTPUTS_AT)
        return htc__exec_outputs_at(a, tag, &body);
    if (op == HTC_CALL_HANG_UP) {
        htc__exec_hang_up(a, &body);
        return HTC_OK;
    }
    if (op == HTC_CALL_GANG_RUN)
        return htc__gang_run(a, tag, &body);
    if (op == HTC_CALL_GANG_ANSWER) {
        htc__gang_answer(a, &body);
        return HTC_OK;
    }
    if (op == HTC_CALL_SLOTS) {
        set_slots(a, htc_get_u32(&body));
        return HTC_OK;
    }
    if (op == HTC_CALL_RUN_SPAN)
        return a->full ? HTC_ENOSPC : htc__functions_run(a, tag, bytes);
    if (htc__objects_host_is_call(op))
        return a->objects ? htc__objects_host_call(a->objects, op, tag, bytes) : HTC_EUNSUPPORTED;
    uint64_t   number = htc_get_u64(&body);
    uint32_t   signal = op == HTC_CALL_SIGNAL ? htc_get_u32(&body) : 0;
    htc_status why = op == HTC_CALL_SIGNAL ? (htc_status)(int32_t)htc_get_u32(&body) : HTC_OK;
    int        drop = op == HTC_CALL_CLEAN ? htc_get_u8(&body) : 0;
    htc__run  *r = run_numbered(a, number);
    int        answered = op != HTC_CALL_SIGNAL && op != HTC_CALL_CLEAN && op != HTC_CALL_TAKE_BACK;
    if (htc_reader_done(&body) != HTC_OK || (op == HTC_CALL_SIGNAL && (signal == 0 || signal > 64)))
        return answered ? HTC_EPROTO : HTC_OK;
    if (!r && op == HTC_CALL_SIGNAL && htc__functions_signal(a, number, signal, why))
        return HTC_OK;
    if (!r && op == HTC_CALL_TAKE_BACK && htc__functions_take_back(a, number))
        return HTC_OK;
    if (!r)
        return answered ? HTC_ENOTFOUND : HTC_OK;
    switch (op) {
    case HTC_CALL_RUN: return r->phase == RUN_READY && !r->clean_wanted ? run(r, tag) : HTC_EBUSY;
    case HTC_CALL_SIGNAL: send_signal(r, signal, why); return HTC_OK;
    case HTC_CALL_TAKE_BACK: take_back(r); return HTC_OK;
    case HTC_CALL_STAGE_OUT: return stage_out(r, tag);
    case HTC_CALL_CLEAN: clean(r, drop != 0); return HTC_OK;
    default: return HTC_EUNSUPPORTED;
    }
}

/* --- the agent's host --- */

static const char *value_in(const char *const *variables, const char *name)
{
    size_t n = strlen(name);
    for (; variables && *variables; variables++)
        if (strncmp(*variables, name, n) == 0 && (*variables)[n] == '=')
            return *variables;
    return NULL;
}

/* That of the agent; then where its programs are, so that tasks find those of the node's own installation. */
static char *path_of_tasks(const char *path, const char *gang)
{
    const char *slash = gang ? strrchr(gang, '/') : NULL;
    size_t      n = slash ? (size_t)(slash - gang) : 0, len = strlen(path);
    char       *all = malloc(len + n + 2);
    if (!all)
        return NULL;
    memcpy(all, path, len + 1);
    for (const char *p = path; n && *p; p += strspn(p, ":")) {
        size_t here = strcspn(p, ":");
        if (here == n && memcmp(p, gang, n) == 0)
            n = 0;
        p += here;
    }
    if (n)
        snprintf(all + len, n + 2, ":%.*s", (int)n, gang);
    return all;
}

static char **copy_words(const char *const *words)
{
    size_t n = 0;
    while (words && words[n])
        n++;
    char **list = calloc(n + 1, sizeof *list);
    for (size_t i = 0; list && i < n; i++)
        if (!(list[i] = strdup(words[i]))) {
            htc__strings_free(list);
            return NULL;
        }
    return list;
}

static char **copy_passed(const char *const *names, const char *const *variables)
{
    size_t n = 0;
    while (names && names[n])
        n++;
    char **list = calloc(n + 1, sizeof *list);
    size_t k = 0;
    for (size_t i = 0; list && i < n; i++) {
        const char *entry = value_in(variables, names[i]);
        if (entry && !(list[k++] = strdup(entry))) {
            htc__strings_free(list);
            return NULL;
        }
    }
    return list;
}

/* The host is going: end what runs, let go of its loop. */
static void on_host_end(void *ctx)
{
    htc_agent_host *a = ctx;
    a->closing = 1;
    htc__functions_close(a);
    htc__keepers_close(a);
    for (htc__run *r = a->runs; r; r = r->next) {
        htc__run_end_now(r);
        htc__urls_end(r);
        if (r->place)
            htc__remove_below(a->slot_fd, r->place);
    }
    if (a->poll)
        event_free(a->poll);
    a->poll = NULL;
    while (a->runs) {
        htc__run *r = a->runs;
        a->runs = r->next;
        htc__run_free(r);
    }
    htc__record_write(a);
    a->host = NULL;
}

/* Where whoever started us ignores SIGCHLD, so do we, and the kernel tells nobody how a child has ended. */
static void hear_of_children(void)
{
    struct sigaction now;
    if (sigaction(SIGCHLD, NULL, &now) == 0 && now.sa_handler == SIG_IGN)
        signal(SIGCHLD, SIG_DFL);
}

htc_status htc_agent_host_create(const htc_env *env, htc_host *host, const htc_agent_host_options *options,
                                 htc_agent_host **out, htc_error *error)
{
    htc_agent_host_options o = { 0 };
    int                    known = options && htc__options_copy(&o, sizeof o, options, options->size, sizeof(size_t)) == HTC_OK;
    int                    whole = known && host && out && o.slot_dir && o.data_dir && o.agent;
    htc_agent_host        *a = whole ? calloc(1, sizeof *a) : NULL;
    if (!a && o.lock)
        close(*o.lock);
    if (!whole)
        return htc__error(error, HTC_EINVAL, "a slot directory, a data directory and the agent's id are needed");
    if (!a)
        return htc__error(error, HTC_ENOMEM, "out of memory");
    a->env = env;
    a->record_fd = a->slot_fd = -1;
    htc__outputs_at_open(&a->outputs_at);
    a->lock_fd = o.lock ? *o.lock : -1;
    a->agent = o.agent;
    a->link_min = o.link_min ? o.link_min : (uint64_t)16 << 20;
    a->durable = o.durable;
    a->outputs_bytes_max = o.outputs_bytes_max;
    a->stages_max = o.stages_max;
    a->keys = o.keys;
    a->urls.bytes_max = o.url_max ? o.url_max : (uint64_t)16 << 30;
    a->urls.connect = o.url_connect ? o.url_connect : 30 * HTC_SECOND;
    a->urls.stall = o.url_stall ? o.url_stall : 60 * HTC_SECOND;
    a->own_places = o.own_places;
    a->stall = o.stall;
    htc_status  status = htc__slot_enter(env, o.slot_dir, &a->slot_dir, &a->lock_fd, error);
    const char *home = value_in(o.environ, "HOME"), *path = value_in(o.environ, "PATH");
    if (status == HTC_OK && (a->slot_fd = open(a->slot_dir, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) < 0)
        status = htc__error(error, htc__status_of(errno, HTC_EIO), "cannot use %s: %s", a->slot_dir, strerror(errno));
    if (status == HTC_OK) {
        if (htc__make_dirs(o.data_dir) != 0 || !(a->data_dir = realpath(o.data_dir, NULL)))
            status = htc__error(error, htc__status_of(errno, HTC_EIO), "cannot use %s: %s", o.data_dir, strerror(errno));
        a->node = strdup(o.node ? o.node : "");
        a->site = strdup(o.site ? o.site : "");
        a->home = strdup(home ? home + 5 : "/");
        a->path = path_of_tasks(path && path[5] ? path + 5 : "/usr/local/bin:/usr/bin:/bin", o.gang);
        a->env_pass = copy_passed(o.env_pass, o.environ);
        a->urls.program = o.transfer ? strdup(o.transfer) : NULL;
        a->urls.ca = strdup(o.url_ca ? o.url_ca : "");
        a->urls.proxy = strdup(o.url_proxy ? o.url_proxy : "");
        a->gang = o.gang ? strdup(o.gang) : NULL;
        a->container = strdup(o.container ? o.container : "auto");
        a->confine = o.confine;
        a->confined_paths = copy_words(o.confined_paths);
        char events[PATH_MAX];
        if (htc__oom_events_path(events, sizeof events) == 0)
            a->oom_events = strdup(events);
    }
    if (status == HTC_OK && ((o.transfer && !a->urls.program) || !a->urls.ca || !a->urls.proxy || !a->container || !a->node || !a->site || !a->home || !a->path || !a->env_pass || !a->confined_paths))
        status = htc__error(error, HTC_ENOMEM, "out of memory");
    if (status == HTC_OK && prctl(PR_SET_CHILD_SUBREAPER, 1) != 0)
        status = htc__error(error, HTC_EIO, "cannot become a subreaper: %s", strerror(errno));
    a->full = status == HTC_OK && htc__scratch_full(a);
    if (status == HTC_OK && o.objects_dir && !a->full)
        status = htc__objects_host_open(host, o.objects_dir, a->data_dir, o.durable != 0, &a->objects, error);
    if (a->objects)
        htc__objects_host_outputs_at(a->objects, &a->outputs_at);
    if (status == HTC_OK)
        hear_of_children();
    if (status == HTC_OK && !a->full && (status = htc__record_open(a)) != HTC_OK)
        status = htc__error(error, status, "cannot write %s/groups: %s", a->slot_dir, strerror(errno));
    if (status != HTC_OK) {
        htc_agent_host_destroy(a);
        return status;
    }
    a->host = host;
    a->slots = o.slots == 0 ? 1 : o.slots < HTC__KEEPERS_MAX ? o.slots : HTC__KEEPERS_MAX;
    uint32_t most = o.slots_max < HTC__KEEPERS_MAX ? o.slots_max : HTC__KEEPERS_MAX;
    if (!a->full && htc__keepers_open(a, most > a->slots ? most : a->slots) != 0) {
        status = htc__error(error, htc__status_of(errno, HTC_EIO), "cannot make the processes that start tasks in %s: %s", a->slot_dir, strerror(errno));
        htc_agent_host_destroy(a);
        return status;
    }
    if (htc__functions_open(a, o.functions) != HTC_OK) {
        htc_agent_host_destroy(a);
        return htc__error(error, HTC_ENOMEM, "out of memory");
    }
    a->hook = (htc__hook){ on_host_end, a, NULL };
    htc__host_hook(host, &a->hook);
    htc_host_on_call(host, on_call, a);
    *out = a;
    return HTC_OK;
}

void htc_agent_host_destroy(htc_agent_host *a)
{
    if (!a)
        return;
    htc__functions_close(a);
    htc__keepers_close(a);
    htc__objects_host_close(a->objects);
    htc__outputs_at_close(&a->outputs_at);
    close_if_open(a->lock_fd);
    close_if_open(a->record_fd);
    close_if_open(a->slot_fd);
    htc__procs_free(&a->procs);
    htc__strings_free(a->env_pass);
    htc__strings_free(a->confined_paths);
    free(a->slot_dir);
    free(a->data_dir);
    free(a->node);
    free(a->container);
    free(a->urls.program);
    free(a->urls.ca);
    free(a->urls.proxy);
    free(a->site);
    free(a->home);
    free(a->path);
    free(a->oom_events);
    free(a->gang);
    free(a->found_name);
    free(a->found_path);
    free(a);
}

static void copy_word(char out[32], const char *word)
{
    size_t n = strlen(word);
    if (n >= 32)
        n = 0;
    memcpy(out, word, n);
    out[n] = '\0';
}

void htc_agent_host_machine(char system[32], char machine[32])
{
    struct utsname name;
    int            known = uname(&name) == 0;
    copy_word(system, known ? name.sysname : "");
    copy_word(machine, known ? name.machine : "");
}

void htc_agent_host_node(uint64_t *memory, uint32_t *cores, char node[64])
{
    cpu_set_t set;
    if (memory)
        *memory = htc__machine_memory();
    if (cores)
        *cores = sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0 ? (uint32_t)CPU_COUNT(&set) : 1;
    if (node && gethostname(node, 63) != 0)
        node[0] = 0;
    if (node)
        node[63] = 0;
}
