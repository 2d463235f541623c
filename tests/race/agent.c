/* The agent's host with a stream of tiny tasks, several at a time: staging in and out and cleaning on its threads,
 * while its loop forks, watches and reaps. Once to the end, then ended in the middle. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "core/util.h"
#include "htcsched/agent_host.h"
#include "htcsched/client.h"
#include "htcsched/work.h"
#include "race.h"
#include "htcsched/calls.h"
#include "roles/runtime/agent_wire.h"

enum { TASKS = 60, AT_ONCE = 6 };

typedef struct feeder {
    const char *input_uri;
    uint64_t    next, ended, stop_after;
    uint64_t    bytes; /* of what every task has to bring */
} feeder;

static void call(htc_output *out, uint32_t op, htc_buf *b)
{
    race_check(b->status == HTC_OK, "memory");
    htc_bytes  number = { b->data, 8 };
    htc_reader r = htc_reader_of(number);
    htc_output_add(out,
                   &(htc_effect){ .kind = HTC_OUT_CALL, .op = op, .tag = htc_get_u64(&r), .body = htc_buf_bytes(b) });
    htc_buf_free(b);
}

static void call_run(htc_output *out, uint32_t op, uint64_t run)
{
    htc_buf b;
    htc_buf_init(&b, NULL, 0);
    htc_put_u64(&b, run);
    if (op == HTC_CALL_CLEAN)
        htc_put_u8(&b, run % 2 == 0); /* every other one loses its outputs too */
    call(out, op, &b);
}

static void feed(feeder *f, htc_output *out)
{
    static const char *const args[] = { "-c", "cat in > result; echo done", NULL };
    const htc_stage          in = { .name = "in", .uri = f->input_uri, .flags = HTC_STAGE_OVERWRITE };
    const htc_stage          result = { .name = "result", .uri = "result", .flags = HTC_STAGE_OVERWRITE };
    uint64_t                 run = ++f->next;
    const htc_attempt        attempt = { 3, run, 1 };
    htc_task                 task = { .index = run,
                                      .executable = "sh",
                                      .args = args,
                                      .n_args = 2,
                                      .in = &in,
                                      .n_in = 1,
                                      .out = &result,
                                      .n_out = 1,
                                      .values_json = "{}",
                                      .limits = { .cores = 1 } };
    htc_bytes                bytes;
    htc_buf                  b;
    race_check(htc_task_to_bytes(NULL, &task, &bytes) == HTC_OK, "a task");
    htc_buf_init(&b, NULL, 0);
    htc_put_u64(&b, run);
    htc_write_attempt(&b, &attempt);
    htc_put_str(&b, "ada");
    htc_put_u64(&b, TASKS);
    htc_put_u32(&b, 0);
    htc_put_bytes(&b, bytes);
    htc_work_free(NULL, bytes);
    call(out, HTC_CALL_STAGE_IN, &b);
}

static void check_outputs(const feeder *f, const htc_input *in)
{
    htc_stored stored;
    htc_reader r = htc_reader_of(in->body);
    race_check(htc_stored_read(&r, &stored) == HTC_OK, "what was stored");
    race_check(stored.status == HTC_OK && stored.outputs.files == 2 && stored.outputs.bytes == f->bytes + strlen("done\n"),
               "task %lu: no result, or another one", (unsigned long)in->tag);
}

static void on_result(feeder *f, const htc_input *in, htc_output *out)
{
    htc_reader  r = htc_reader_of(in->body);
    htc_outcome o = { 0 };
    race_check(in->status == HTC_OK, "%s: %s", htc_call_name(in->op), htc_status_name(in->status));
    switch (in->op) {
    case HTC_CALL_STAGE_IN:
        call_run(out, HTC_CALL_RUN, in->tag);
        break;
    case HTC_CALL_RUN:
        race_check(htc_outcome_read(&r, &o) == HTC_OK && o.status == HTC_OK, "task %lu: %s",
                   (unsigned long)in->tag, o.reason);
        call_run(out, HTC_CALL_STAGE_OUT, in->tag);
        break;
    case HTC_CALL_STAGE_OUT:
        check_outputs(f, in);
        call_run(out, HTC_CALL_CLEAN, in->tag);
        if (f->next < TASKS)
            feed(f, out);
        if (++f->ended == f->stop_after)
            htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_STOP });
        break;
    default:
        race_check(0, "an answer to %s", htc_call_name(in->op));
    }
}

static htc_status feeder_step(void *self, const htc_input *in, htc_output *out)
{
    feeder *f = self;
    if (in->kind == HTC_IN_START)
        while (f->next < AT_ONCE)
            feed(f, out);
    else if (in->kind == HTC_IN_RESULT)
        on_result(f, in, out);
    return HTC_OK;
}

static const htc_machine_ops feeder_ops = { sizeof feeder_ops, feeder_step, race_never, NULL, 0 };

static uint32_t entries(const char *path)
{
    struct dirent *e;
    uint32_t       n = 0;
    DIR           *d = opendir(path);
    while (d && (e = readdir(d)))
        n += e->d_name[0] != '.';
    if (d)
        closedir(d);
    return n;
}

static void scene(uint64_t stop_after, const char *what)
{
    static const char *const variables[] = { "PATH=/usr/bin:/bin", "HOME=/", NULL };
    static const char        content[] = "what goes in comes out";
    char            dir[RACE_DIR], slot[RACE_DIR + 8], data[RACE_DIR + 8], path[RACE_DIR + 24], uri[RACE_DIR + 32];
    feeder          f = { .input_uri = uri, .stop_after = stop_after };
    htc_host       *host;
    htc_agent_host *agent;
    htc_error       error = { 0 };
    race_dir(dir);
    snprintf(slot, sizeof slot, "%s/slot", dir);
    snprintf(data, sizeof data, "%s/data", dir);
    for (size_t i = 0; i < 3; i++) { /* as the gateway makes it */
        static const char *const below[] = { "", "/out", "/out/3" };
        snprintf(path, sizeof path, "%s%s", data, below[i]);
        race_check(mkdir(path, 0700) == 0, "%s", path);
    }
    snprintf(path, sizeof path, "%s/in", dir);
    snprintf(uri, sizeof uri, "file:%s", path);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    race_check(fd >= 0 && write(fd, content, sizeof content) == (ssize_t)sizeof content, "%s", path);
    close(fd);
    f.bytes = sizeof content;
    htc_agent_host_options o = { .size = sizeof o,
                                 .slot_dir = slot,
                                 .data_dir = data,
                                 .agent = 99,
                                 .node = "here",
                                 .site = "local",
                                 .environ = variables };
    race_check(htc_agent_host_recover(NULL, slot, NULL, NULL, &error) == HTC_OK, "%s", error.text);
    race_check(htc_host_create(NULL, NULL, &host) == HTC_OK, "a host");
    race_check(htc_agent_host_create(NULL, host, &o, &agent, &error) == HTC_OK, "%s", error.text);
    race_check(htc_host_run(host, &feeder_ops, &f) == HTC_OK, "run");
    htc_host_destroy(host);
    htc_agent_host_destroy(agent);
    race_check(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD, "a child is left");
    snprintf(path, sizeof path, "%s/scratch", slot);
    race_check(entries(path) == 0, "%u scratch directories are left", entries(path));
    printf("%lu tasks begun, %lu ended\n", (unsigned long)f.next, (unsigned long)f.ended);
    race_said(what);
    race_dir_end(dir);
}

int main(void)
{
    scene(TASKS, "a stream of tasks, each with its own result");
    scene(1, "an end at the first result");
    scene(20, "an end in the middle leaves no process and no directory");
    return 0;
}
