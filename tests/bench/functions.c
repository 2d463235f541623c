/* Function tasks through HTC_CALL_RUN_SPAN, on 2 slots: from the call to the answer, the builtin noop, a small function of an object, and one
 * that leaves an output. Beside a queue of no-op functions for 2 threads in one process (func-2), and beside 2 processes that pull 64 tasks a
 * message (pull-b64), of the folder of peers ($PEERS, else ../shared/peers beside the source tree), each run after ours: only the ratios say
 * anything. */
#include <unistd.h>

#include "bench.h"
#include "core/util.h"
#include "htcsched/agent_host.h"
#include "htcsched/calls.h"
#include "htcsched/work.h"
#include "net/files/files.h"
#include "roles/runtime/span_wire.h"

#define RUNS 5

typedef struct asked {
    htc_task task;
    uint64_t n;
    double   begun, seconds;
    int      warm; /* answers: the first one is of a span that starts the process */
} asked;

static void ask(asked *a, uint64_t n, htc_output *out)
{
    htc__span_request r = { .run = 1, .to = n, .user = "ada" };
    htc_buf           b;
    htc_buf_init(&b, NULL, 0);
    bench_must(htc_task_to_bytes(NULL, &a->task, &r.task) == HTC_OK, "a task");
    htc__span_request_write(&b, &r);
    bench_must(htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_CALL, .op = HTC_CALL_RUN_SPAN, .tag = n, .body = htc_buf_bytes(&b) }) == HTC_OK, "a call");
    htc_work_free(NULL, r.task);
    htc_buf_free(&b);
    a->begun = bench_seconds();
}

static htc_status step(void *self, const htc_input *in, htc_output *out)
{
    asked           *a = self;
    htc__span_answer answer;
    if (in->kind == HTC_IN_START) {
        ask(a, 1000, out);
        return HTC_OK;
    }
    bench_must(in->kind == HTC_IN_RESULT && in->status == HTC_OK && htc__span_answer_read(in->body, &answer) == HTC_OK, "the answer");
    bench_must(answer.done == in->tag && !answer.failed && !answer.ranges, "all of it is done");
    a->seconds = bench_seconds() - a->begun;
    if (!a->warm++)
        ask(a, a->n, out);
    else
        htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_STOP, .status = HTC_OK });
    return HTC_OK;
}

static htc_ns never(const void *self)
{
    (void)self;
    return HTC_NEVER;
}

/* Tasks a second. */
static double rate(const char *dir, const htc_task *task, uint64_t n)
{
    static const htc_machine_ops ops = { sizeof ops, step, never, NULL, 0 };
    char                         slot[256], data[256];
    htc_host                    *host;
    htc_agent_host              *agent;
    asked                        a = { .task = *task, .n = n };
    snprintf(slot, sizeof slot, "%s/slot", dir);
    snprintf(data, sizeof data, "%s/data", dir);
    htc_agent_host_options o = { .size = sizeof o, .slot_dir = slot, .data_dir = data, .agent = 1, .slots = 2, .functions = HTC_FN };
    bench_must(htc_host_create(NULL, NULL, &host) == HTC_OK && htc_agent_host_create(NULL, host, &o, &agent, NULL) == HTC_OK, "an executor");
    bench_must(htc_host_run(host, &ops, &a) == HTC_OK, "the run");
    htc_host_destroy(host);
    htc_agent_host_destroy(agent);
    return (double)n / a.seconds;
}

/* A peer prints its seconds. */
static double peer_rate(const char *program, const char *words, uint64_t n)
{
    char   command[600];
    double seconds = 0;
    snprintf(command, sizeof command, words, program, (unsigned long long)n);
    double t = bench_seconds();
    FILE  *f = popen(command, "r");
    bench_must(f != NULL && fscanf(f, "%lf", &seconds) >= 0, "a peer");
    pclose(f);
    return (double)n / (seconds > 0 ? seconds : bench_seconds() - t);
}

/* The peers' program, made of its source. 0: there is none. */
static int make_peer(const char *dir, char program[300])
{
    char        command[1200], source[500];
    const char *peers = getenv("PEERS");
    snprintf(source, sizeof source, "%s/src/limits.c", peers ? peers : SOURCE "/../shared/peers");
    snprintf(program, 300, "%s/limits", dir);
    snprintf(command, sizeof command, "cc -O2 -pthread '%s' -o '%s' 2>&1", source, program);
    return access(source, R_OK) == 0 && system(command) == 0;
}

int main(int argc, char **argv)
{
    bench    b = bench_open("functions", argc, argv);
    char     dir[] = "/tmp/htc-bench-functions-XXXXXX", program[300];
    uint64_t n = b.quick ? 2000000 : 20000000;
    double   noop[RUNS], small[RUNS], to_func[RUNS], to_pull[RUNS];
    const htc_task tasks[] = {
        { .kind = HTC_TASK_BUILTIN, .function = "noop", .limits = { .cores = 1 } },
        { .kind = HTC_TASK_FUNCTION, .object = OBJECT, .function = "nothing", .limits = { .cores = 1 } },
        { .kind = HTC_TASK_FUNCTION, .object = OBJECT, .function = "square", .limits = { .cores = 1 } },
    };
    bench_must(mkdtemp(dir) != NULL, "a directory");
    int peer = make_peer(dir, program);
    if (!peer)
        printf("no peers beside the source tree: no ratios\n");
    for (int i = 0; i < RUNS; i++) {
        noop[i] = rate(dir, &tasks[0], n);
        small[i] = rate(dir, &tasks[1], n);
        if (peer) {
            to_func[i] = noop[i] / peer_rate(program, "'%s' func %llu 2", n);
            to_pull[i] = noop[i] / peer_rate(program, "'%s' pull %llu 2 64", n);
        }
    }
    bench_row(&b, &(bench_figure){ .what = "noop, 2 slots", .n = n, .unit = "1/s", .value = bench_median(noop, RUNS), .more = 1 });
    bench_row(&b, &(bench_figure){ .what = "function of an object, 2 slots", .n = n, .unit = "1/s", .value = bench_median(small, RUNS), .more = 1 });
    bench_row(&b, &(bench_figure){ .what = "function with 8 bytes of output, 2 slots", .n = 100000, .unit = "1/s", .value = rate(dir, &tasks[2], 100000), .more = 1 });
    if (peer) {
        bench_row(&b, &(bench_figure){ .what = "noop / func-2", .n = n, .unit = "1", .value = bench_median(to_func, RUNS), .goal = 0.7, .more = 1 });
        bench_row(&b, &(bench_figure){ .what = "noop / pull-b64", .n = n, .unit = "1", .value = bench_median(to_pull, RUNS), .more = 1 });
    }
    htc__remove_tree(dir);
    return bench_close(&b);
}
