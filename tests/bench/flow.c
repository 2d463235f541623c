/* What a flow of a million tasks costs: to generate, to write and to read in each form that is written, and to keep; and how that grows. */
#include "htcsched/flow.h"
#include "bench.h"
#include "htcsched/work.h"

#define SIZES 4

/* Counts what is held. */
static void *resize(void *ctx, void *p, size_t old_size, size_t new_size)
{
    size_t *held = ctx;
    *held += new_size - old_size;
    if (new_size == 0) {
        free(p);
        return NULL;
    }
    return realloc(p, new_size);
}

/* CPU nanoseconds a task, bytes a task. */
typedef struct cost {
    double generate, write[2], read[2], kept;
} cost;

static const uint32_t    formats[] = { HTC_FLOW_TEXT, HTC_FLOW_JSONL };
static const char *const names[] = { "text", "JSON lines" };

static cost measure(uint32_t tasks)
{
    size_t             held = 0;
    htc_alloc          alloc = { resize, &held };
    htc_env            env = { .size = sizeof env, .alloc = &alloc };
    htc_flow_generator o = { .size = sizeof o,
                             .shape = HTC_FLOW_FANIN,
                             .degree = 10,
                             .tasks = tasks,
                             .length_max = HTC_SECOND,
                             .data_max = 10000000 };
    htc_flow          *f, *again;
    htc_bytes          bytes;
    cost               c = { 0 };
    double             t = bench_cpu_seconds();
    bench_must(htc_flow_generate(&env, &o, &f) == HTC_OK, "generate");
    c.generate = (bench_cpu_seconds() - t) * 1e9 / tasks;
    c.kept = (double)held / tasks;
    for (int i = 0; i < 2; i++) {
        t = bench_cpu_seconds();
        bench_must(htc_flow_write(NULL, f, formats[i], &bytes) == HTC_OK, "write");
        c.write[i] = (bench_cpu_seconds() - t) * 1e9 / tasks;
        t = bench_cpu_seconds();
        bench_must(htc_flow_read(NULL, bytes, formats[i], NULL, &again, NULL) == HTC_OK, "read");
        c.read[i] = (bench_cpu_seconds() - t) * 1e9 / tasks;
        bench_must(htc_flow_edges(again) == htc_flow_edges(f), "reading all of it");
        htc_flow_destroy(again);
        htc_work_free(NULL, bytes);
    }
    htc_flow_destroy(f);
    bench_must(held == 0, "giving it back");
    return c;
}

/* Every task waits for the first, and the last one for every task. CPU nanoseconds a task. */
static double narrow(uint32_t tasks)
{
    htc_flow_task t = { .size = sizeof t, .builtin = HTC_FLOW_NOOP };
    htc_flow     *f, *out;
    bench_must(htc_flow_create(NULL, NULL, &f) == HTC_OK, "create");
    for (uint32_t i = 0; i < tasks; i++)
        bench_must(htc_flow_add(f, &t, NULL, NULL) == HTC_OK, "add");
    for (uint32_t i = 1; i + 1 < tasks; i++)
        bench_must(htc_flow_after(f, i, 0, HTC_FLOW_OK) == HTC_OK && htc_flow_after(f, tasks - 1, i, HTC_FLOW_OK) == HTC_OK, "after");
    bench_must(htc_flow_check(f, NULL) == HTC_OK, "check");
    double s = bench_cpu_seconds();
    bench_must(htc_flow_narrow(NULL, f, 1024, 4096, &out, NULL) == HTC_OK && out, "narrow");
    s = bench_cpu_seconds() - s;
    bench_must(htc_flow_count(out) > tasks, "inserting tasks");
    htc_flow_destroy(out);
    htc_flow_destroy(f);
    return s * 1e9 / tasks;
}

int main(int argc, char **argv)
{
    bench  b = bench_open("flow", argc, argv);
    double size[SIZES], generate[SIZES], read[SIZES], narrowing[SIZES], last = 0;
    cost   c = { 0 };
    char   what[64];
    for (int i = 0; i < SIZES; i++) {
        uint32_t tasks = (b.quick ? 1000u : 10000u) << (2 * i); /* to 64,000, or 640,000 */
        c = measure(tasks);
        size[i] = tasks;
        generate[i] = c.generate * tasks;
        read[i] = c.read[0] * tasks;
        last = narrow(tasks);
        narrowing[i] = last * tasks;
    }
    uint64_t n = (uint64_t)size[SIZES - 1];
    bench_row(&b, &(bench_figure){ .what = "generate, a task", .n = n, .unit = "ns", .value = c.generate });
    bench_row(&b, &(bench_figure){ .what = "kept, a task with a file", .n = n, .unit = "bytes", .value = c.kept });
    for (int i = 0; i < 2; i++) {
        snprintf(what, sizeof what, "write %s, a task", names[i]);
        bench_row(&b, &(bench_figure){ .what = what, .n = n, .unit = "ns", .value = c.write[i] });
        snprintf(what, sizeof what, "read %s, a task", names[i]);
        bench_row(&b, &(bench_figure){ .what = what, .n = n, .unit = "ns", .value = c.read[i] });
    }
    bench_row(&b, &(bench_figure){ .what = "narrow one before and one behind all, a task", .n = n, .unit = "ns", .value = last });
    bench_growth(&b, "narrow", size, narrowing, SIZES);
    bench_growth(&b, "generate", size, generate, SIZES);
    bench_growth(&b, "read text", size, read, SIZES);
    return bench_close(&b);
}
