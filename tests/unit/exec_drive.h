/* One task for the executor: stage in, run, signal when told to, stage out, clean, as an agent would do it. */
#ifndef HTC_TESTS_EXEC_DRIVE_H
#define HTC_TESTS_EXEC_DRIVE_H

#include "expect.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/util.h"
#include "htcsched/agent_host.h"
#include "htcsched/client.h"
#include "htcsched/work.h"
#include "net/exec/exec_private.h"
#include "net/files/files.h"
#include "net/files/proc.h"
#include "htcsched/calls.h"
#include "roles/runtime/agent_wire.h"

enum { RUN = 77, TAG = 5 };

typedef struct drive {
    char     dir[256], slot[512], data[512], place[600];
    htc_task task;
    uint32_t compat;
    uint64_t count;
    /* signals sent once the task runs */
    int        signal_count;
    uint32_t   signals[2];
    htc_status why;
    htc_ns     signal_gap; /* between them */
    uint32_t   signal_after_file; /* wait until the file "ready" exists in the scratch directory before the first one */
    uint32_t   keep; /* do not clean */
    uint32_t   durable, confine;
    uint64_t   outputs_bytes_max;
    uint32_t   stages_max;
    htc_ns     stall; /* an idle task is killed */
    const char *oom_events; /* instead of the cgroup's */
    const char *objects_dir;
    const char *at_dir, *at_id; /* HTC_CALL_OUTPUTS_AT is asked first; NULL: not */
    const char *outputs_in; /* where the manifest is looked for; NULL: in data */
    htc_status  at_status;
    const char *transfer; /* the program that fetches and sends; NULL: there is none */
    uint32_t    sends_again; /* so many times, where sending failed for now */
    int (*mend)(struct drive *d); /* what keeps it from being staged in; 1: it is staged in once more */
    /* what came */
    htc_status  staged_in, staged_out;
    char        text[600];
    int         ran, started, stopped_seen, idle_seen;
    htc_outcome outcome;
    char        tail[HTC_STDERR_TAIL_MAX + 1];
    htc_stored  stored;
    char       *manifest; /* its text, "" if there is none */
    htc_ns      next;
} drive;

static inline void drive_open(drive *d)
{
    memset(d, 0, sizeof *d);
    snprintf(d->dir, sizeof d->dir, "/tmp/htc test exec XXXXXX");
    cr_assert(mkdtemp(d->dir) != NULL);
    snprintf(d->slot, sizeof d->slot, "%s/slots/0", d->dir);
    snprintf(d->data, sizeof d->data, "%s/data", d->dir);
    snprintf(d->place, sizeof d->place, "%s/out/3", d->data); /* as the gateway makes it */
    cr_assert(eq(int, htc__make_dirs(d->place), 0));
    d->count = 10;
    d->task.index = 7;
    d->task.values_json = "{\"x\":\"1\"}";
    d->task.limits.cores = 1;
    d->why = HTC_ECANCELLED;
}

static inline void drive_close(drive *d)
{
    free(d->manifest);
    cr_expect(eq(int, htc__remove_tree(d->dir), 0));
}

static inline void call(htc_output *out, uint32_t op, htc_buf *b)
{
    htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_CALL, .op = op, .tag = TAG, .body = htc_buf_bytes(b) });
    htc_buf_clear(b);
}

static inline void call_run(htc_output *out, uint32_t op)
{
    htc_buf b;
    htc_buf_init(&b, NULL, 0);
    htc_put_u64(&b, RUN);
    if (op == HTC_CALL_CLEAN)
        htc_put_u8(&b, 0);
    call(out, op, &b);
    htc_buf_free(&b);
}

static inline void stop(htc_output *out)
{
    htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_STOP, .status = HTC_OK });
}

static inline void clean(drive *d, htc_output *out)
{
    if (!d->keep)
        call_run(out, HTC_CALL_CLEAN);
    stop(out);
}

static inline void stage_in(drive *d, htc_output *out)
{
    htc_buf   b;
    htc_bytes bytes;
    static const htc_attempt attempt = { 3, 7, 2 };
    cr_assert(eq(int, htc_task_to_bytes(NULL, &d->task, &bytes), HTC_OK));
    htc_buf_init(&b, NULL, 0);
    htc_put_u64(&b, RUN);
    htc_write_attempt(&b, &attempt);
    htc_put_str(&b, "ada");
    htc_put_u64(&b, d->count);
    htc_put_u32(&b, d->compat);
    htc_put_bytes(&b, bytes);
    call(out, HTC_CALL_STAGE_IN, &b);
    htc_buf_free(&b);
    htc_work_free(NULL, bytes);
}

static inline void keep_text(drive *d, const htc_input *in)
{
    snprintf(d->text, sizeof d->text, "%.*s", (int)in->body.len, in->body.len ? (const char *)in->body.data : "");
}

static inline void outputs_at(const drive *d, htc_output *out)
{
    htc_buf b;
    htc_buf_init(&b, NULL, 0);
    htc_put_str(&b, d->at_dir);
    htc_put_str(&b, d->at_id);
    call(out, HTC_CALL_OUTPUTS_AT, &b);
    htc_buf_free(&b);
}

static inline void on_result(drive *d, const htc_input *in, htc_output *out)
{
    htc_reader r = htc_reader_of(in->body);
    switch (in->op) {
    case HTC_CALL_OUTPUTS_AT:
        d->at_status = in->status;
        keep_text(d, in);
        stage_in(d, out);
        break;
    case HTC_CALL_STAGE_IN:
        d->staged_in = in->status;
        if (in->status == HTC_OK) {
            call_run(out, HTC_CALL_RUN);
        } else if (d->mend && d->mend(d)) {
            d->mend = NULL;
            stage_in(d, out);
        } else {
            keep_text(d, in);
            clean(d, out);
        }
        break;
    case HTC_CALL_RUN:
        cr_assert(eq(int, in->status, HTC_OK));
        d->ran++;
        cr_assert(eq(int, htc_outcome_read(&r, &d->outcome), HTC_OK));
        memcpy(d->tail, d->outcome.stderr_tail.len ? d->outcome.stderr_tail.data : "", d->outcome.stderr_tail.len);
        d->outcome.stderr_tail = (htc_bytes){ 0 };
        d->next = HTC_NEVER;
        call_run(out, HTC_CALL_STAGE_OUT);
        break;
    case HTC_CALL_STAGE_OUT:
        d->staged_out = in->status;
        if (in->status == HTC_OK)
            cr_assert(eq(int, htc_stored_read(&r, &d->stored), HTC_OK));
        else
            keep_text(d, in);
        if (in->status == HTC_OK && d->sends_again && d->stored.status == HTC_ECLOSED) {
            d->sends_again--;
            call_run(out, HTC_CALL_STAGE_OUT);
        } else {
            clean(d, out);
        }
        break;
    default:
        cr_assert(0, "an answer to call %u", in->op);
    }
}

/* The process whose number a file has. -1: it has none. */
static inline int alive(const char *path)
{
    char      text[64];
    htc__proc p;
    if (htc__read_text(path, text, sizeof text) <= 0)
        return -1;
    return htc__proc_read(atoi(text), &p) == 0 && !p.ended;
}

static inline int is_ready(const drive *d)
{
    char path[700];
    snprintf(path, sizeof path, "%s/scratch/k0/work/ready", d->slot); /* of a keeper */
    if (access(path, F_OK) == 0)
        return 1;
    snprintf(path, sizeof path, "%s/scratch/3.7.2/work/ready", d->slot);
    return access(path, F_OK) == 0;
}

static inline void send_signal(drive *d, const htc_input *in, htc_output *out)
{
    htc_buf b;
    if (d->signal_count == 0)
        return;
    if (d->signal_after_file && !is_ready(d)) {
        d->next = in->now + 5 * HTC_MS;
        return;
    }
    d->signal_after_file = 0;
    htc_buf_init(&b, NULL, 0);
    htc_put_u64(&b, RUN);
    htc_put_u32(&b, d->signals[0]);
    htc_put_u32(&b, (uint32_t)d->why);
    call(out, HTC_CALL_SIGNAL, &b);
    htc_buf_free(&b);
    d->signals[0] = d->signals[1];
    d->next = --d->signal_count ? in->now + d->signal_gap : HTC_NEVER;
}

static inline htc_status drive_step(void *self, const htc_input *in, htc_output *out)
{
    drive *d = self;
    if (in->kind == HTC_IN_START && d->at_dir)
        outputs_at(d, out);
    else if (in->kind == HTC_IN_START)
        stage_in(d, out);
    else if (in->kind == HTC_IN_RESULT)
        on_result(d, in, out);
    else if (in->kind == HTC_IN_EVENT && in->op == HTC_EVENT_STARTED) {
        d->started++;
        d->next = in->now;
    } else if (in->kind == HTC_IN_EVENT && in->op == HTC_EVENT_TASK_STOPPED) {
        d->stopped_seen += in->status == HTC_OK;
        if (in->status == HTC_ETIMEDOUT && d->idle_seen++ == 0) {
            d->signal_count = 1;
            d->signals[0] = SIGKILL;
            send_signal(d, in, out);
        }
    }    else if (in->kind == HTC_IN_TIMEOUT)
        d->next = HTC_NEVER, send_signal(d, in, out);
    return HTC_OK;
}

static inline htc_ns drive_deadline(const void *self)
{
    return ((const drive *)self)->next;
}

static const htc_machine_ops drive_ops = { sizeof drive_ops, drive_step, drive_deadline, NULL, 0 };

/* The manifest is what its hash says. */
static inline void read_manifest(drive *d)
{
    char    path[700];
    uint8_t hash[32];
    free(d->manifest);
    d->manifest = NULL;
    if (!d->stored.outputs.manifest_bytes)
        return;
    snprintf(path, sizeof path, "%s/out/3/0/7.2/manifest", d->outputs_in ? d->outputs_in : d->data);
    size_t room = d->stored.outputs.manifest_bytes + 2;
    d->manifest = malloc(room);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : pread(fd, d->manifest, room - 1, 0);
    cr_assert(fd >= 0 && eq(u64, (uint64_t)n, d->stored.outputs.manifest_bytes));
    close(fd);
    d->manifest[n] = 0;
    htc_content_hash((htc_bytes){ d->manifest, (size_t)n }, hash);
    cr_expect(memcmp(hash, d->stored.outputs.manifest, 32) == 0);
}

static inline int children_left(void)
{
    siginfo_t info;
    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

static inline void drive_run(drive *d)
{
    static const char *const pass[] = { "PASSED", "MISSING", NULL };
    static const char *const environ[] = { "HOME=/nonexistent home", "PATH=/usr/bin:/bin", "PASSED=yes", "SECRET=no", NULL };
    htc_agent_host_options o = { .size = sizeof o, .slot_dir = d->slot, .data_dir = d->data, .agent = 99,
                                 .node = "here", .site = "local", .env_pass = pass, .environ = environ,
                                 .durable = d->durable, .confine = d->confine, .outputs_bytes_max = d->outputs_bytes_max, .objects_dir = d->objects_dir,
                                 .stages_max = d->stages_max, .stall = d->stall, .transfer = d->transfer };
    htc_host       *host;
    htc_agent_host *agent;
    htc_error       error = { 0 };
    d->next = HTC_NEVER;
    cr_assert(eq(int, htc_agent_host_recover(NULL, d->slot, NULL, NULL, &error), HTC_OK), "%s", error.text);
    cr_assert(eq(int, htc_host_create(NULL, NULL, &host), HTC_OK));
    cr_assert(eq(int, htc_agent_host_create(NULL, host, &o, &agent, &error), HTC_OK), "%s", error.text);
    if (d->oom_events) {
        free(agent->oom_events);
        agent->oom_events = strdup(d->oom_events);
    }
    cr_expect(eq(int, htc_host_run(host, &drive_ops, d), HTC_OK));
    htc_host_destroy(host);
    htc_agent_host_destroy(agent);
    cr_expect(eq(int, children_left(), 0), "a child was left behind");
    read_manifest(d);
    if (!d->keep) {
        char path[700];
        snprintf(path, sizeof path, "%s/scratch/3.7.2", d->slot);
        cr_expect(access(path, F_OK) != 0, "the scratch directory is still there");
    }
}

/* One shell script as a task. */
static inline void shell(drive *d, const char *script)
{
    static const char *args[3];
    args[0] = "-c";
    args[1] = script;
    args[2] = NULL;
    d->task.executable = "sh";
    d->task.args = args;
    d->task.n_args = 2;
}

/* The line of the manifest about an output, as it is shown; NULL. */
static inline char *line_of(const drive *d, const char *name)
{
    char field[5000];
    snprintf(field, sizeof field, "\"name\":\"%s\"", name);
    char *at = d->manifest ? strstr(d->manifest, field) : NULL, *end = at ? strchr(at, '\n') : NULL;
    while (at && at > d->manifest && at[-1] != '\n')
        at--;
    return at ? strndup(at, (size_t)(end - at)) : NULL;
}

/* The manifest says of an output: this. */
static inline void expect_line(const drive *d, const char *name, const char *what)
{
    char *line = line_of(d, name);
    cr_expect(line && strstr(line, what), "%s: %s, and not %s", name, line ? line : "(nothing)", what);
    free(line);
}

/* The stored content of an output, checked against its hash. */
static inline void expect_output(const drive *d, const char *name, const char *content)
{
    char    path[1024], text[65536], hex[65], known[160];
    uint8_t hash[32];
    snprintf(path, sizeof path, "%s/out/3/0/7.2/files/%s", d->data, name);
    ssize_t n = htc__read_text(path, text, sizeof text);
    cr_assert(n >= 0, "%s is not stored", path);
    htc_content_hash((htc_bytes){ text, (size_t)n }, hash);
    htc_content_hex(hash, hex);
    snprintf(known, sizeof known, "\"size\":%zu,\"hash\":\"%s\"", (size_t)n, hex);
    expect_line(d, name, known);
    cr_expect(eq(str, text, (char *)content));
}

static inline void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    cr_assert(f != NULL, "%s", path);
    fputs(text, f);
    fclose(f);
}

#endif
