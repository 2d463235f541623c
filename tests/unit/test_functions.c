/* Function tasks through the executor and a helper process: results against a plain loop, and one answer for each number whatever a function
 * does to its process. */
#include "span_drive.h"

#include "alloc_fail.h"

#define OBJECT OBJECT_DIR "/functions_object.so"

/* ---- what goes well ---- */

Test(functions, builtins)
{
    spans s;
    char  path[300];
    spans_open(&s);
    snprintf(path, sizeof path, "3 %s/written", s.dir);
    one_span *noop = add_span(&s, HTC_TASK_BUILTIN, NULL, "noop", NULL, 5, 100005);
    one_span *sleeps = add_span(&s, HTC_TASK_BUILTIN, NULL, "sleep", "0.001", 0, 20);
    one_span *spins = add_span(&s, HTC_TASK_BUILTIN, NULL, "spin", "0.001", 0, 20);
    one_span *writes = add_span(&s, HTC_TASK_BUILTIN, NULL, "write", path, 7, 8);
    one_span *nowhere = add_span(&s, HTC_TASK_BUILTIN, NULL, "write", "100", 0, 4);
    one_span *reads = add_span(&s, HTC_TASK_BUILTIN, NULL, "read", "/proc/self/status", 0, 4);
    one_span *missing = add_span(&s, HTC_TASK_BUILTIN, NULL, "read", "/nonexistent", 9, 10);
    run_spans(&s);
    one_span *all[] = { noop, sleeps, spins, writes, nowhere, reads };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        cr_expect(eq(u64, expect_all_told(all[i]), 0));
        cr_expect(eq(u64, all[i]->answer.done, all[i]->to - all[i]->from), "span %zu", i);
        cr_expect(all[i]->answer.begin && all[i]->answer.begin <= all[i]->answer.end);
    }
    expect_one_failure(missing, 9, HTC_EEXIT, "cannot open /nonexistent: No such file");
    struct stat st;
    cr_expect(stat(strchr(path, '/'), &st) == 0 && st.st_size == 3);
    spans_close(&s);
}

/* Outputs, each once and of its own number, against the plain loop; numbers near the end of what a u64 holds. */
Test(functions, results_of_a_plain_loop)
{
    enum { N = 20000 };
    const uint64_t from[2] = { 0, UINT64_MAX - N };
    spans          s;
    uint8_t       *seen = calloc(N, 1);
    spans_open(&s);
    for (int i = 0; i < 2; i++)
        add_span(&s, HTC_TASK_FUNCTION, OBJECT, "square", NULL, from[i], from[i] + N);
    run_spans(&s);
    for (int i = 0; i < 2; i++) {
        const one_span *x = &s.span[i];
        htc_reader      r = htc_reader_of(x->answer.output_list);
        cr_expect(eq(u64, expect_all_told(x), 0));
        cr_expect(eq(u64, x->answer.done, N));
        cr_assert(eq(u64, x->answer.outputs, N));
        memset(seen, 0, N);
        for (uint64_t k = 0; k < N; k++) {
            uint64_t  number, y;
            htc_bytes out = htc__span_get_output(&r, &number);
            cr_assert(number >= from[i] && number < from[i] + N && !seen[number - from[i]]++ && out.len == sizeof y);
            memcpy(&y, out.data, sizeof y);
            cr_assert(eq(u64, y, number * number));
        }
    }
    free(seen);
    spans_close(&s);
}

/* Inputs of all sizes go to the task whose they are, more of them than one frame holds. */
Test(functions, each_task_has_its_own_input)
{
    enum { N = 500 };
    spans    s;
    uint64_t want[N];
    spans_open(&s);
    one_span *x = add_span(&s, HTC_TASK_FUNCTION, OBJECT, "add_up", NULL, 1000, 1000 + N);
    x->inputs = N;
    for (uint32_t i = 0; i < N; i++) {
        uint8_t  bytes[4096];
        uint32_t n = i % 10 == 0 ? 0 : i * 4096 / (N - 1);
        want[i] = 1000 + i;
        for (uint32_t k = 0; k < n; k++)
            want[i] += bytes[k] = (uint8_t)(i * 7 + k);
        htc_put_bytes(&x->input, (htc_bytes){ bytes, n });
    }
    run_spans(&s);
    cr_expect(eq(u64, expect_all_told(x), 0));
    cr_assert(eq(u64, x->answer.outputs, N));
    htc_reader r = htc_reader_of(x->answer.output_list);
    for (uint32_t i = 0; i < N; i++) {
        uint64_t  number, sum;
        htc_bytes out = htc__span_get_output(&r, &number);
        memcpy(&sum, out.data, sizeof sum);
        cr_assert(eq(u64, sum, want[number - 1000]), "task %llu", (unsigned long long)number);
    }
    spans_close(&s);
}

/* As many at a time as there are slots now: three wait until all are there, though there was one slot when they were asked for. */
Test(functions, more_slots_while_they_run)
{
    spans s;
    spans_open(&s);
    s.slots = 1;
    s.slots_then = 3;
    one_span *x = add_span(&s, HTC_TASK_FUNCTION, OBJECT, "meet", NULL, 0, 300);
    run_spans(&s);
    cr_expect(eq(u64, expect_all_told(x), 0));
    cr_expect(eq(u64, x->answer.done, 300));
    spans_close(&s);
}

/* ---- what a function says itself ---- */

Test(functions, failures_are_told_with_their_reason)
{
    spans s;
    spans_open(&s);
    one_span *x = add_span(&s, HTC_TASK_FUNCTION, OBJECT, "every_seventh_fails", NULL, 0, 1000);
    one_span *y = add_span(&s, HTC_TASK_FUNCTION, OBJECT, "much", NULL, 0, 3);
    run_spans(&s);
    cr_expect(eq(u64, expect_all_told(x), 0));
    cr_expect(eq(u64, x->answer.failed, 143));
    for (uint64_t i = 0; i < x->answer.failed; i++) {
        htc__span_failure f = failure_at(x, i);
        cr_expect(f.number % 7 == 0 && f.status == HTC_EEXIT);
        cr_expect(strstr(f.reason, f.number % 14 ? "the function returned 5" : "an even seventh") != NULL, "%s", f.reason);
    }
    expect_one_failure(y, 1, HTC_ETOOBIG, "longer than 131072");
    cr_expect(eq(u64, y->answer.outputs, 2), "what failed has left nothing");
    spans_close(&s);
}

/* Outputs of the largest size, several from each thread: more than its ring holds, and more than an answer does. */
Test(functions, large_outputs_come_whole)
{
    spans s;
    spans_open(&s);
    one_span *x = add_span(&s, HTC_TASK_FUNCTION, OBJECT, "much", NULL, 0, 120);
    run_spans(&s);
    (void)expect_all_told(x);
    cr_expect(x->answer.outputs == x->answer.done && x->answer.done > 20 && x->answer.output_list.len <= HTC__SPAN_OUTPUTS_MAX && x->answer.why == HTC_EFULL);
    htc_reader r = htc_reader_of(x->answer.output_list);
    for (uint64_t i = 0; i < x->answer.outputs; i++) {
        uint64_t  number;
        htc_bytes out = htc__span_get_output(&r, &number);
        cr_assert(number % 2 == 0 && out.len == (size_t)HTC__SPAN_OUTPUT_MAX);
        for (size_t k = 0; k < out.len; k++)
            cr_assert(((const char *)out.data)[k] == 'a' + (char)(k / (HTC__SPAN_OUTPUT_MAX / 8)) + (char)(number % 16), "task %llu", (unsigned long long)number);
    }
    spans_close(&s);
}

/* An answer has an end: what it has no room for was not run, and none is in it twice. */
Test(functions, an_answer_holds_no_more)
{
    spans s;
    spans_open(&s);
    one_span *failing = add_span(&s, HTC_TASK_FUNCTION, OBJECT, "every_seventh_fails", NULL, 0, 5000000);
    one_span *large = add_span(&s, HTC_TASK_FUNCTION, OBJECT, "add_up", NULL, 0, 400000);
    run_spans(&s);
    cr_expect(expect_all_told(failing) > 0);
    cr_expect(eq(u64, failing->answer.failed, HTC__SPAN_FAILED_MAX));
    cr_expect(eq(int, failing->answer.why, HTC_EFULL));
    cr_expect(expect_all_told(large) > 0);
    cr_expect(eq(int, large->answer.why, HTC_EFULL));
    cr_expect(eq(u64, large->answer.outputs, large->answer.done));
    cr_expect(large->answer.output_list.len <= HTC__SPAN_OUTPUTS_MAX && large->answer.done > 100000);
    spans_close(&s);
}

/* ---- what a function does to its process ---- */

static void one_of_100000(const char *what, htc_ns wall, htc_status status, const char *part)
{
    spans s;
    char  argument[64];
    spans_open(&s);
    snprintf(argument, sizeof argument, "%s 54321", what);
    one_span *x = add_span(&s, HTC_TASK_FUNCTION, OBJECT, "misbehave", argument, 0, 100000);
    one_span *y = add_span(&s, HTC_TASK_FUNCTION, OBJECT, "square", NULL, 0, 50000); /* another's work in the same process */
    x->task.limits.wall = y->task.limits.wall = wall;
    run_spans(&s);
    expect_one_failure(x, 54321, status, part);
    cr_expect(eq(u64, expect_all_told(y), 0));
    cr_expect(eq(u64, y->answer.done, 50000));
    cr_expect(eq(u64, y->answer.outputs, 50000));
    spans_close(&s);
}

Test(functions, a_crash_costs_its_task_alone)
{
    one_of_100000("segv", 0, HTC_ESIGNAL, "SIGSEGV");
}

Test(functions, so_does_abort)
{
    one_of_100000("abort", 0, HTC_ESIGNAL, "SIGABRT");
}

Test(functions, so_does_a_stack_that_is_used_up)
{
    one_of_100000("overflow", 0, HTC_ESIGNAL, "SIGSEGV");
}

Test(functions, so_does_exit)
{
    one_of_100000("exit", 0, HTC_EEXIT, "exit code 3");
}

/* Nothing in the process can note this one: those that were under way are tried alone. */
Test(functions, so_does_exit_that_runs_no_handler)
{
    one_of_100000("_exit", 0, HTC_EEXIT, "exit code 4");
}

Test(functions, so_does_pthread_exit)
{
    one_of_100000("pthread_exit", 0, HTC_EEXIT, "pthread_exit");
}

Test(functions, so_does_killing_oneself)
{
    one_of_100000("kill", 0, HTC_EKILLED, "SIGKILL");
}

Test(functions, so_does_stopping_oneself)
{
    one_of_100000("stop", 0, HTC_EKILLED, "was stopped");
}

Test(functions, so_does_an_endless_loop)
{
    one_of_100000("loop", 2 * HTC_SECOND, HTC_EWALLTIME, "longer than its limit of 2 s"); /* no other takes so long, however busy the machine */
}

/* Killed from outside: nobody's fault, and nobody is told anything. */
Test(functions, a_killed_helper_is_nobodys_fault)
{
    spans s;
    spans_open(&s);
    s.kill_with = SIGKILL;
    one_span *x = add_span(&s, HTC_TASK_FUNCTION, OBJECT, "wait_once", s.dir, 0, 100000);
    run_spans(&s);
    cr_expect(s.acted);
    cr_expect(eq(u64, expect_all_told(x), 0));
    cr_expect(eq(u64, x->answer.done, 100000));
    spans_close(&s);
}

/* A task that ends its process each time it is called costs as many processes as it has numbers, and no more is lost. */
Test(functions, each_number_crashes)
{
    spans s;
    spans_open(&s);
    one_span *x = add_span(&s, HTC_TASK_FUNCTION, OBJECT, "misbehave", "segv 3", 3, 4);
    one_span *y = add_span(&s, HTC_TASK_FUNCTION, OBJECT, "misbehave", "_exit 4", 4, 5);
    one_span *z = add_span(&s, HTC_TASK_FUNCTION, OBJECT, "misbehave", "abort 0", 0, 1);
    run_spans(&s);
    expect_one_failure(x, 3, HTC_ESIGNAL, "SIGSEGV");
    expect_one_failure(y, 4, HTC_EEXIT, "exit code 4");
    expect_one_failure(z, 0, HTC_ESIGNAL, "SIGABRT");
    spans_close(&s);
}

/* ---- taken back, cancelled ---- */

Test(functions, taken_back)
{
    spans s;
    spans_open(&s);
    s.take_back = 1;
    one_span *x = add_span(&s, HTC_TASK_FUNCTION, OBJECT, "wait_for_go", s.dir, 0, 100000);
    run_spans(&s);
    cr_expect(s.acted);
    cr_expect(expect_all_told(x) > 0);
    cr_expect(eq(int, x->answer.why, HTC_AGAIN));
    cr_expect(x->answer.done >= 1 && !x->answer.failed);
    spans_close(&s);
}

Test(functions, cancelled)
{
    spans s;
    spans_open(&s);
    s.signal = SIGTERM;
    s.why = HTC_ECANCELLED;
    one_span *x = add_span(&s, HTC_TASK_FUNCTION, OBJECT, "wait_for_go", s.dir, 0, 1000);
    run_spans(&s);
    cr_expect(expect_all_told(x) > 0);
    cr_expect(eq(int, x->answer.why, HTC_ECANCELLED));
    cr_expect(!x->answer.failed);
    spans_close(&s);
}

/* What does not look whether it is cancelled is killed; another span in the same process goes on. */
Test(functions, cancelled_at_once)
{
    spans s;
    spans_open(&s);
    s.signal = SIGKILL;
    s.why = HTC_ECANCELLED;
    one_span *x = add_span(&s, HTC_TASK_FUNCTION, OBJECT, "wait_once", s.dir, 50000, 50001);
    one_span *y = add_span(&s, HTC_TASK_BUILTIN, NULL, "sleep", "0.001", 0, 300);
    run_spans(&s);
    cr_expect(eq(u64, expect_all_told(x), 0));
    cr_expect(eq(u64, x->answer.failed, 1));
    cr_expect(eq(int, failure_at(x, 0).status, HTC_ECANCELLED));
    cr_expect(eq(u64, expect_all_told(y), 0));
    cr_expect(eq(u64, y->answer.done, 300));
    spans_close(&s);
}

/* ---- what cannot be run ---- */

static void expect_refused(uint32_t kind, const char *object, const char *function, const char *argument, htc_status status, const char *part)
{
    spans s;
    spans_open(&s);
    one_span *x = add_span(&s, kind, object, function, argument, 0, 10);
    one_span *y = add_span(&s, HTC_TASK_BUILTIN, NULL, "noop", NULL, 0, 10);
    run_spans(&s);
    cr_expect(eq(int, x->status, status), "%s: %s", htc_status_name(x->status), x->text);
    cr_expect(strstr(x->text, part) != NULL, "%s", x->text);
    cr_expect(eq(u64, expect_all_told(y), 0), "nobody else suffers");
    spans_close(&s);
}

Test(functions, what_cannot_be_run_is_told_with_its_cause)
{
#define NOWHERE "htc:00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
    expect_refused(HTC_TASK_BUILTIN, NULL, "dance", NULL, HTC_ENOTFOUND, "noop, sleep, spin, read and write are");
    expect_refused(HTC_TASK_BUILTIN, NULL, "sleep", "long", HTC_EINVAL, "seconds, as 0.25");
    expect_refused(HTC_TASK_BUILTIN, NULL, "write", "x", HTC_EINVAL, "a number of bytes");
    expect_refused(HTC_TASK_FUNCTION, OBJECT, "cube", NULL, HTC_ENOTFOUND, "has no function cube: define it with HTC_TASK_FN");
    expect_refused(HTC_TASK_FUNCTION, OBJECT_DIR "/functions_other_abi.so", "square", NULL, HTC_EVERSION, "compile it anew");
    expect_refused(HTC_TASK_FUNCTION, OBJECT_DIR "/functions_no_abi.so", "square", NULL, HTC_EVERSION, "put HTC_TASK_FN_OBJECT");
    expect_refused(HTC_TASK_FUNCTION, "/etc/passwd", "square", NULL, HTC_EINPUT, "cannot be loaded");
    expect_refused(HTC_TASK_FUNCTION, "/nonexistent.so", "square", NULL, HTC_EINPUT, "No such file");
    expect_refused(HTC_TASK_FUNCTION, NOWHERE, "square", NULL, HTC_EINPUT, "upload it anew");
#undef NOWHERE
}

Test(functions, an_object_that_dies_when_it_is_loaded)
{
    expect_refused(HTC_TASK_FUNCTION, OBJECT_DIR "/functions_dies.so", "square", NULL, HTC_EINPUT, "while its object was loaded: ended by SIGSEGV");
}

Test(functions, without_the_program)
{
    spans s;
    spans_open(&s);
    s.program = "";
    one_span *x = add_span(&s, HTC_TASK_BUILTIN, NULL, "noop", NULL, 0, 10);
    run_spans(&s);
    cr_expect(eq(int, x->status, HTC_EREFUSED));
    cr_expect(strstr(x->text, "htc-fn") != NULL, "%s", x->text);
    spans_close(&s);
    spans_open(&s);
    s.program = "/nonexistent/htc-fn";
    x = add_span(&s, HTC_TASK_BUILTIN, NULL, "noop", NULL, 0, 10);
    run_spans(&s);
    cr_expect(eq(int, x->status, HTC_EREFUSED));
    cr_expect(strstr(x->text, "/nonexistent/htc-fn") != NULL, "%s", x->text);
    spans_close(&s);
    spans_open(&s);
    s.program = "/bin/true"; /* it ends at once, whatever it is told */
    x = add_span(&s, HTC_TASK_BUILTIN, NULL, "noop", NULL, 0, 10);
    run_spans(&s);
    cr_expect(eq(int, x->status, HTC_EREFUSED), "%s", x->text);
    spans_close(&s);
}

/* An upload is what its hash says, or it is not called. */
Test(functions, uploads)
{
    spans    s;
    uint8_t  hash[32];
    char     hex[65], uri[80], path[700], command[1600];
    spans_open(&s);
    int fd = open(OBJECT, O_RDONLY | O_CLOEXEC);
    cr_assert(fd >= 0 && htc_content_hash_fd(fd, hash, NULL) == HTC_OK);
    close(fd);
    htc_content_hex(hash, hex);
    snprintf(uri, sizeof uri, "htc:%s", hex);
    snprintf(path, sizeof path, "%s/blobs", s.data);
    cr_assert(eq(int, htc__make_dirs(path), 0));
    snprintf(command, sizeof command, "cp %s %s/%s", OBJECT, path, hex);
    cr_assert(eq(int, system(command), 0));
    for (int i = 0; i < 3; i++)
        add_span(&s, HTC_TASK_FUNCTION, uri, "square", NULL, 0, 100);
    run_spans(&s);
    for (int i = 0; i < 3; i++) {
        cr_expect(eq(u64, expect_all_told(&s.span[i]), 0));
        cr_expect(eq(u64, s.span[i].answer.done, 100));
    }
    snprintf(command, sizeof command, "echo >> %s/%s", path, hex);
    cr_assert(eq(int, system(command), 0));
    for (int i = 0; i < 3; i++)
        htc_buf_free(&s.span[i].body);
    s.n = 0;
    memset(s.span, 0, sizeof s.span);
    one_span *x = add_span(&s, HTC_TASK_FUNCTION, uri, "square", NULL, 0, 100);
    run_spans(&s);
    cr_expect(eq(int, x->status, HTC_ECORRUPT), "%s", x->text);
    spans_close(&s);
}

/* The example: each pair of four files once, against a plain loop. */
Test(functions, all_pairs)
{
    static const char *const content[] = { "abcd", "abxd", "", "abcdefg" };
    static const uint64_t    want[4][4] = { { 0, 1, 4, 3 }, { 0, 0, 4, 4 }, { 0, 0, 0, 7 }, { 0, 0, 0, 0 } };
    spans                    s;
    char                     list[600], path[600], names[3000] = "";
    int                      seen[4][4] = { { 0 } };
    spans_open(&s);
    for (int i = 0; i < 4; i++) {
        snprintf(path, sizeof path, "%s/file%d", s.dir, i);
        write_file(path, content[i]);
        strcat(strcat(names, path), "\n");
    }
    snprintf(list, sizeof list, "%s/list", s.dir);
    write_file(list, names);
    one_span *x = add_span(&s, HTC_TASK_FUNCTION, EXAMPLES "/all_pairs.so", "compare", list, 0, 6);
    one_span *y = add_span(&s, HTC_TASK_FUNCTION, EXAMPLES "/all_pairs.so", "compare", list, 6, 7);
    run_spans(&s);
    cr_expect(eq(u64, expect_all_told(x), 0));
    cr_assert(eq(u64, x->answer.outputs, 6));
    htc_reader r = htc_reader_of(x->answer.output_list);
    for (int k = 0; k < 6; k++) {
        unsigned           i, j;
        unsigned long long differ;
        uint64_t           number;
        htc_bytes          out = htc__span_get_output(&r, &number);
        char               line[100];
        snprintf(line, sizeof line, "%.*s", (int)out.len, (const char *)out.data);
        cr_assert(sscanf(line, "%u %u %llu", &i, &j, &differ) == 3 && i < j && j < 4 && !seen[i][j]++, "%s", line);
        cr_expect(eq(u64, differ, want[i][j]), "%s", line);
    }
    expect_one_failure(y, 6, HTC_EEXIT, "has no line 5");
    spans_close(&s);
}

static void copy_object(const spans *s, const char *from, const char *to)
{
    char command[1600];
    snprintf(command, sizeof command, "cp %s/%s %s/new.so && mv %s/new.so %s/%s", OBJECT_DIR, from, s->dir, s->dir, s->dir, to);
    cr_assert(eq(int, system(command), 0));
}

static void replace_object(const spans *s)
{
    copy_object(s, s->span[1].answered ? "functions_object.so" : s->span[0].answered ? "functions_no_abi.so" : "", "o.so");
}

/* The same path, another file: what is called is what is there now, also where the process has loaded the path before. */
Test(functions, a_file_that_was_replaced)
{
    spans s;
    char  path[300];
    spans_open(&s);
    snprintf(path, sizeof path, "%s/o.so", s.dir);
    copy_object(&s, "functions_object.so", "o.so");
    s.between = replace_object;
    for (int i = 0; i < 3; i++)
        add_span(&s, HTC_TASK_FUNCTION, path, "square", NULL, 0, 5);
    run_spans(&s);
    cr_expect(eq(u64, expect_all_told(&s.span[0]), 0));
    cr_expect(eq(int, s.span[1].status, HTC_EVERSION), "%s", s.span[1].text);
    cr_expect(eq(u64, expect_all_told(&s.span[2]), 0));
    cr_expect(eq(u64, s.span[2].answer.done, 5));
    spans_close(&s);
}

/* ---- whose process it is ---- */

/* Of a user who shares our uid: functions see the system's directories and their own, and what they do to their process is judged as ever. */
Test(functions, confined)
{
    spans s;
    char  secret[300], why[200] = "";
    spans_open(&s);
    if (htc__confine_probe(s.dir, why, sizeof why) != 0) {
        spans_close(&s);
        cr_skip("no confinement here: %s", why);
    }
    s.confine = 1;
    snprintf(secret, sizeof secret, "%s/secret", s.dir);
    write_file(secret, "x");
    one_span *x = add_span(&s, HTC_TASK_BUILTIN, NULL, "read", secret, 0, 1);
    one_span *y = add_span(&s, HTC_TASK_FUNCTION, OBJECT, "misbehave", "segv 700", 0, 1000);
    one_span *z = add_span(&s, HTC_TASK_BUILTIN, NULL, "write", "10 here", 0, 1);
    run_spans(&s);
    expect_one_failure(x, 0, HTC_EEXIT, "No such file");
    expect_one_failure(y, 700, HTC_ESIGNAL, "SIGSEGV");
    cr_expect(eq(u64, expect_all_told(z), 0));
    cr_expect(eq(u64, z->answer.done, 1));
    spans_close(&s);
}

/* It has the environment of its template and none of ours, and is in a session of its own. */
Test(functions, a_clean_process)
{
    spans s;
    spans_open(&s);
    setenv("NOT_FOR_TASKS", "x", 1);
    one_span *x = add_span(&s, HTC_TASK_FUNCTION, OBJECT, "look_around", NULL, 0, 4);
    x->task.env = (const char *const[]){ "FOR_TASKS=yes", NULL };
    x->task.n_env = 1;
    x->task.limits.open_files = 60;
    x->task.limits.file_size = 12345;
    run_spans(&s);
    cr_expect(eq(u64, expect_all_told(x), 0));
    cr_expect(eq(u64, x->answer.done, 4), "%s", x->answer.failed ? failure_at(x, 0).reason : "");
    spans_close(&s);
}

/* ---- the executor ---- */

/* An executor that is killed leaves no helper. */
Test(functions, a_killed_executor_leaves_nothing)
{
    spans s;
    char  path[600], text[64];
    int   status;
    spans_open(&s);
    add_span(&s, HTC_TASK_FUNCTION, OBJECT, "wait_for_go", s.dir, 0, 10);
    pid_t child = fork();
    if (child == 0) {
        run_spans(&s);
        _exit(0);
    }
    snprintf(path, sizeof path, "%s/ready", s.dir);
    while (htc__read_text(path, text, sizeof text) <= 0)
        usleep(1000); /* until a function runs; the test's own limit ends this */
    pid_t helper = (pid_t)atol(text);
    cr_assert(helper > 1 && kill(helper, 0) == 0);
    kill(child, SIGKILL);
    cr_assert(waitpid(child, &status, 0) == child);
    while (kill(helper, 0) == 0 && errno != ESRCH)
        usleep(1000);
    spans_close(&s);
}

/* One that ends while functions run waits for none of them. */
static htc_status stop_at_ready(void *self, const htc_input *in, htc_output *out)
{
    spans *s = self;
    char   path[600];
    snprintf(path, sizeof path, "%s/ready", s->dir);
    if (in->kind == HTC_IN_START)
        ask_span(out, 0, &s->span[0]);
    if (access(path, F_OK) == 0)
        stop(out);
    s->next = in->now + 2 * HTC_MS;
    return HTC_OK;
}

Test(functions, an_executor_ends_while_functions_run)
{
    static const htc_machine_ops ops = { sizeof ops, stop_at_ready, spans_deadline, NULL, 0 };
    spans                        s;
    htc_host                    *host;
    htc_agent_host              *agent;
    spans_open(&s);
    htc_agent_host_options o = { .size = sizeof o, .slot_dir = s.slot, .data_dir = s.data, .agent = 99, .slots = 2, .functions = HTC_FN };
    add_span(&s, HTC_TASK_FUNCTION, OBJECT, "wait_for_go", s.dir, 0, 10);
    cr_assert(eq(int, htc_host_create(NULL, NULL, &host), HTC_OK));
    cr_assert(eq(int, htc_agent_host_create(NULL, host, &o, &agent, NULL), HTC_OK));
    cr_assert(eq(int, htc_host_run(host, &ops, &s), HTC_OK));
    htc_host_destroy(host);
    htc_agent_host_destroy(agent);
    cr_expect(eq(int, children_left(), 0));
    spans_close(&s);
}

/* Code of the user that lies about all that it can reach: the executor survives, and its answer still has every number once. How many of them
 * are told as done is the user's own affair. */
Test(functions, a_function_that_scribbles)
{
    for (uint64_t from = 0; from < 5; from++) {
        spans s;
        spans_open(&s);
        one_span *x = add_span(&s, HTC_TASK_FUNCTION, OBJECT, "scribble", NULL, from, from + 40);
        one_span *y = add_span(&s, HTC_TASK_FUNCTION, OBJECT, "square", NULL, 0, 1000);
        one_span *z = add_span(&s, HTC_TASK_BUILTIN, NULL, "noop", NULL, 0, 100000);
        x->task.limits.wall = y->task.limits.wall = 300 * HTC_MS; /* what they overwrite may make a thread wait for ever */
        z->task.env = (const char *const[]){ "APART=1", NULL };
        z->task.n_env = 1;
        run_spans(&s);
        for (int i = 0; i < 2; i++)
            if (s.span[i].status == HTC_OK)
                (void)expect_all_told(&s.span[i]);
            else
                cr_expect(s.span[i].status == HTC_EREFUSED || s.span[i].status == HTC_EINPUT, "%s", s.span[i].text);
        cr_expect(eq(u64, expect_all_told(z), 0), "another process");
        cr_expect(eq(u64, z->answer.done, 100000));
        spans_close(&s);
    }
}

/* Each allocation of the executor's in turn is refused once: every span is answered, and nothing is left. */
Test(functions, without_memory)
{
    ALLOC_FAIL_ONCE (f, 400) {
        htc_env env = alloc_fail_env(&f);
        spans   s;
        spans_open(&s);
        s.env = &env;
        one_span *x = add_span(&s, HTC_TASK_FUNCTION, OBJECT, "square", NULL, 0, 40);
        one_span *y = add_span(&s, HTC_TASK_FUNCTION, OBJECT, "misbehave", "segv 7", 0, 40);
        run_spans(&s);
        for (int i = 0; i < 2; i++)
            if (s.span[i].status == HTC_OK)
                (void)expect_all_told(&s.span[i]);
            else
                cr_expect(eq(int, s.span[i].status, HTC_ENOMEM), "%s", s.span[i].text);
        cr_expect(f.refused || (x->answer.done == 40 && y->answer.done == 39));
        spans_close(&s);
        cr_expect(f.live == 0 && f.wrong_sizes == 0, "%zu pieces are left", f.live);
    }
}

/* What is no body of a span is refused, and the executor goes on. */
Test(functions, bodies_of_strangers)
{
    one_span          x = { .task = { .kind = HTC_TASK_BUILTIN, .function = "noop", .limits = { .cores = 1 } }, .from = 3, .to = 5 };
    htc__span_request r = { .run = 1, .from = 3, .to = 5, .user = "ada", .inputs = 2 }, back;
    htc_buf           b, in;
    htc_buf_init(&b, NULL, 0);
    htc_buf_init(&in, NULL, 0);
    htc_put_str(&in, "one");
    htc_put_str(&in, "two");
    r.input = htc_buf_bytes(&in);
    cr_assert(eq(int, htc_task_to_bytes(NULL, &x.task, &r.task), HTC_OK));
    htc__span_request_write(&b, &r);
    cr_expect(eq(int, htc__span_request_read(htc_buf_bytes(&b), &back), HTC_OK));
    cr_expect(back.inputs == 2 && htc_bytes_equal(back.input, r.input) && strcmp(back.user, "ada") == 0);
    for (size_t n = 0; n < b.len; n++)
        cr_expect(eq(int, htc__span_request_read((htc_bytes){ b.data, n }, &back), HTC_EPROTO));
    htc_put_u8(&b, 0);
    cr_expect(eq(int, htc__span_request_read(htc_buf_bytes(&b), &back), HTC_EPROTO), "one byte more");
    htc_buf_clear(&b);
    r.inputs = 1;
    htc__span_request_write(&b, &r);
    cr_expect(eq(int, htc__span_request_read(htc_buf_bytes(&b), &back), HTC_EPROTO), "not one for each");
    htc_work_free(NULL, r.task);
    htc_buf_free(&b);
    htc_buf_free(&in);
}
