/* Plain tasks, one after the other in one keeper: each finds what the first one found, whatever those before it did. */
#include "exec_drive.h"

#include <fcntl.h>
#include <unistd.h>

#define SCRIPTS_MAX 40

/* Runs scripts through one host, at_once of them at a time. */
typedef struct series {
    char        dir[256], slot[512], data[512];
    const char *scripts[SCRIPTS_MAX];
    const char *directory; /* that odd ones run in */
    uint32_t    n, begun, ended, at_once;
    uint32_t    slots, slots_begin, slots_later; /* 0: 1; of SLOTS at the beginning, and when the first has ended; 0: none is said */
    uint64_t    take_back; /* this run, as soon as it was asked for */
    const char *passed;    /* "NAME=value": of the agent's environment, and handed on */
    htc_outcome outcome[SCRIPTS_MAX];
    htc_status  status[SCRIPTS_MAX]; /* of RUN */
    htc_stored  stored[SCRIPTS_MAX];
    char        tail[SCRIPTS_MAX][200];
} series;

static void open_series(series *s)
{
    char place[600];
    memset(s, 0, sizeof *s);
    snprintf(s->dir, sizeof s->dir, "/tmp/htc test kept XXXXXX");
    cr_assert(mkdtemp(s->dir) != NULL);
    snprintf(s->slot, sizeof s->slot, "%s/slots/0", s->dir);
    snprintf(s->data, sizeof s->data, "%s/data", s->dir);
    snprintf(place, sizeof place, "%s/out/3", s->data);
    cr_assert(eq(int, htc__make_dirs(place), 0));
    s->at_once = 1;
}

static void close_series(series *s)
{
    cr_expect(eq(int, htc__remove_tree(s->dir), 0));
}

static void say(htc_output *out, uint32_t op, uint64_t run, htc_buf *b)
{
    cr_assert(eq(int, htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_CALL, .op = op, .tag = run, .body = htc_buf_bytes(b) }), HTC_OK));
    htc_buf_free(b);
}

static htc_buf of_run(uint64_t run)
{
    htc_buf b;
    htc_buf_init(&b, NULL, 0);
    htc_put_u64(&b, run);
    return b;
}

static void say_slots(htc_output *out, uint32_t slots)
{
    htc_buf b;
    if (!slots)
        return;
    htc_buf_init(&b, NULL, 0);
    htc_put_u32(&b, slots);
    say(out, HTC_CALL_SLOTS, 0, &b);
}

static void begin_next(series *s, htc_output *out)
{
    uint64_t  run = s->begun++;
    htc_bytes bytes = { 0 };
    htc_task  task = { .index = run, .executable = "/bin/sh", .args = (const char *const[]){ "-c", s->scripts[run], NULL }, .n_args = 2,
                       .values_json = "{}", .limits = { .cores = 1 } };
    if (run % 2)
        task.directory = s->directory;
    cr_assert(eq(int, htc_task_to_bytes(NULL, &task, &bytes), HTC_OK));
    htc_buf b = of_run(run);
    htc_write_attempt(&b, &(htc_attempt){ 3, run, 1 });
    htc_put_str(&b, "ada");
    htc_put_u64(&b, s->n);
    htc_put_u32(&b, 0);
    htc_put_bytes(&b, bytes);
    htc_work_free(NULL, bytes);
    say(out, HTC_CALL_STAGE_IN, run, &b);
}

static void ran(series *s, const htc_input *in)
{
    htc_reader   r = htc_reader_of(in->body);
    htc_outcome *o = &s->outcome[in->tag];
    s->status[in->tag] = in->status;
    if (in->status != HTC_OK)
        return;
    cr_assert(eq(int, htc_outcome_read(&r, o), HTC_OK));
    snprintf(s->tail[in->tag], sizeof s->tail[0], "%.*s", (int)o->stderr_tail.len, o->stderr_tail.len ? (const char *)o->stderr_tail.data : "");
}

static htc_status series_step(void *self, const htc_input *in, htc_output *out)
{
    series *s = self;
    htc_buf b = of_run(in->tag);
    if (in->kind == HTC_IN_START) {
        say_slots(out, s->slots_begin);
        while (s->begun < s->at_once && s->begun < s->n)
            begin_next(s, out);
    } else if (in->kind == HTC_IN_RESULT && in->op == HTC_CALL_STAGE_IN) {
        cr_assert(eq(int, in->status, HTC_OK));
        htc_buf run = of_run(in->tag), back = of_run(in->tag);
        say(out, HTC_CALL_RUN, in->tag, &run);
        if (s->take_back && s->take_back == in->tag)
            say(out, HTC_CALL_TAKE_BACK, in->tag, &back);
        else
            htc_buf_free(&back);
    } else if (in->kind == HTC_IN_RESULT && in->op == HTC_CALL_RUN) {
        ran(s, in);
        htc_buf run = of_run(in->tag);
        say(out, HTC_CALL_STAGE_OUT, in->tag, &run);
    } else if (in->kind == HTC_IN_RESULT && in->op == HTC_CALL_STAGE_OUT) {
        htc_reader r = htc_reader_of(in->body);
        cr_assert(eq(int, in->status, HTC_OK));
        cr_assert(eq(int, htc_stored_read(&r, &s->stored[in->tag]), HTC_OK));
        htc_buf run = of_run(in->tag);
        htc_put_u8(&run, 0);
        say(out, HTC_CALL_CLEAN, in->tag, &run);
        if (s->ended++ == 0)
            say_slots(out, s->slots_later);
        if (s->begun < s->n)
            begin_next(s, out);
        else if (s->ended == s->n)
            cr_assert(eq(int, htc_output_add(out, &(htc_effect){ .kind = HTC_OUT_STOP, .status = HTC_OK }), HTC_OK));
    }
    htc_buf_free(&b);
    return HTC_OK;
}

static htc_ns series_deadline(const void *self)
{
    (void)self;
    return HTC_NEVER;
}

static void run_series(series *s)
{
    static const htc_machine_ops ops = { sizeof ops, series_step, series_deadline, NULL, 0 };
    static const char *const     pass[] = { "PASSED", NULL };
    const char *const            environ_of[] = { "PATH=/usr/bin:/bin", s->passed, NULL };
    htc_agent_host_options       o = { .size = sizeof o, .slot_dir = s->slot, .data_dir = s->data, .agent = 99, .node = "here", .site = "local",
                                       .environ = environ_of, .env_pass = s->passed ? pass : NULL, .slots = s->slots,
                                       .slots_max = s->slots_begin };
    htc_host                    *host;
    htc_agent_host              *agent;
    htc_error                    error = { 0 };
    while (s->scripts[s->n])
        s->n++;
    cr_assert(eq(int, htc_host_create(NULL, NULL, &host), HTC_OK));
    cr_assert(eq(int, htc_agent_host_create(NULL, host, &o, &agent, &error), HTC_OK), "%s", error.text);
    cr_assert(eq(int, htc_host_run(host, &ops, s), HTC_OK));
    htc_host_destroy(host);
    htc_agent_host_destroy(agent);
    char scratch[600];
    snprintf(scratch, sizeof scratch, "%s/scratch/k0", s->slot);
    cr_expect(access(scratch, F_OK) != 0, "the keeper's place is left");
    cr_expect(eq(int, children_left(), 0));
}

/* What every task must find: an empty directory of its own, empty outputs, streams that are empty and append, /dev/null, nobody else in its
 * session. It says what is wrong and ends with 9. */
#define CLEAN_HERE                                                                                                                      \
    "w() { echo \"$1\" >&2; exit 9; }; [ \"$PWD\" -ef \"$HTC_SCRATCH\" ] || w pwd; [ -z \"$(ls -A .)\" ] || w \"scratch: $(ls -A .)\"; "   \
    "[ -z \"$(ls -A \"$HTC_OUTPUT_DIR\")\" ] || w outputs; [ \"$(ls -A .. | tr '\\n' ' ')\" = 'out stderr stdout work ' ] || w \"beside: $(ls -A ..)\"; "                    \
    "[ \"$(stat -c %a . .. ../out ../stdout | tr '\\n' ' ')\" = '700 700 700 600 ' ] || w modes; "                                         \
    "grep -q 'flags:.*02001$' /proc/self/fdinfo/1 || grep -q 'flags:.*0102001$' /proc/self/fdinfo/1 || w \"flags $(cat /proc/self/fdinfo/1)\"; "   \
    "[ \"$(umask)\" = 0022 ] || w umask; ps -o pid= -s $$ > /dev/null 2>&1; :"

static void expect_all_clean(const series *s)
{
    for (uint32_t i = 1; i < s->n; i += 2)
        cr_expect(s->status[i] == HTC_OK && s->outcome[i].status == HTC_OK, "behind `%s`: %s %s", s->scripts[i - 1], s->outcome[i].reason, s->tail[i]);
}

Test(exec_kept, each_finds_what_the_first_one_found)
{
    static const char *const dirt[] = {
        ":", "touch a", "touch a; rm a", "mkdir d; rmdir d", "mkdir -p d/e/f; touch d/e/f/g", "echo said", "echo said >&2", "echo x > \"$HTC_OUTPUT_DIR/x\"",
        "chmod 500 .", "chmod 755 ../out", "touch ../beside", "rm ../stdout", "mv ../work ../w2; mkdir ../work", "rm -rf \"$HTC_SCRATCH\"",
        "mv ../stdout ../s; : > ../stdout", "echo x; : > ../stdout", "chmod 644 ../stdout", "ln ../stdout ../out/l", "ln -s / l; ln -s / ../out/l",
    };
    series s;
    open_series(&s);
    for (size_t i = 0; i < sizeof dirt / sizeof *dirt; i++) {
        s.scripts[2 * i] = dirt[i];
        s.scripts[2 * i + 1] = CLEAN_HERE;
    }
    run_series(&s);
    expect_all_clean(&s);
    close_series(&s);
}

/* Flags belong to the open file, which the next task has too. */
Test(exec_kept, flags_of_streams_do_not_reach_the_next)
{
    series s;
    open_series(&s);
    s.scripts[0] = "python3 -c 'import fcntl,os\nfor f in (0,1,2): fcntl.fcntl(f, fcntl.F_SETFL, os.O_NONBLOCK)'";
    s.scripts[1] = CLEAN_HERE;
    run_series(&s);
    cr_expect(eq(int, s.outcome[0].status, HTC_OK), "%s", s.tail[0]);
    expect_all_clean(&s);
    close_series(&s);
}

/* Where nothing is left behind the same place serves again; where something is, another one does. */
Test(exec_kept, an_untouched_place_serves_again)
{
    series s;
    char   path[600], text[400];
    static char first[900], second[900], third[900];
    open_series(&s);
    snprintf(first, sizeof first, "sleep 0.1; stat -c %%i . >> '%s/inodes'", s.dir);
    snprintf(second, sizeof second, "stat -c %%i . >> '%s/inodes'; touch dirt", s.dir);
    snprintf(third, sizeof third, "stat -c %%i . >> '%s/inodes'", s.dir);
    s.scripts[0] = first;
    s.scripts[1] = second;
    s.scripts[2] = third;
    run_series(&s);
    snprintf(path, sizeof path, "%s/inodes", s.dir);
    cr_assert(htc__read_text(path, text, sizeof text) > 0);
    unsigned long a = 0, b = 0, c = 0;
    cr_assert(eq(int, sscanf(text, "%lu %lu %lu", &a, &b, &c), 3));
    cr_expect(a == b && b != c, "%s", text);
    close_series(&s);
}

/* Children in sessions of their own, and children of those, end with the task, before the next begins. */
Test(exec_kept, nobody_is_left_when_the_next_begins)
{
    series      s;
    static char left[900], look[900];
    open_series(&s);
    snprintf(left, sizeof left, "for i in 1 2 3; do setsid sh -c 'sleep 1000 & sleep 1000 & echo $! >> \"%s/pids\"; wait' & done; "
                                "while [ \"$(wc -l < '%s/pids' 2> /dev/null)\" != 3 ]; do sleep 0.01; done", s.dir, s.dir);
    snprintf(look, sizeof look, "for p in $(cat '%s/pids'); do ! kill -0 $p 2> /dev/null || exit 9; done", s.dir);
    s.scripts[0] = left;
    s.scripts[1] = look;
    run_series(&s);
    cr_expect(eq(int, s.outcome[0].status, HTC_OK), "%s", s.outcome[0].reason);
    expect_all_clean(&s);
    close_series(&s);
}

/* The keeper is the task's parent. Who kills it has killed the attempt, and no other. */
Test(exec_kept, a_killed_keeper_costs_the_task_that_it_ran)
{
    series s;
    open_series(&s);
    s.scripts[0] = ":";
    s.scripts[1] = "kill -9 $PPID; sleep 100";
    s.scripts[2] = "echo on";
    s.scripts[3] = CLEAN_HERE;
    run_series(&s);
    cr_expect(eq(int, s.outcome[1].status, HTC_EKILLED), "%s", s.outcome[1].reason);
    cr_expect(eq(int, s.outcome[2].status, HTC_OK), "%s", s.outcome[2].reason);
    cr_expect(eq(int, s.outcome[3].status, HTC_OK), "%s", s.tail[3]);
    close_series(&s);
}

/* Stopping it is no way to hold the slot. */
Test(exec_kept, a_stopped_keeper_ends_with_its_task)
{
    series s;
    open_series(&s);
    s.scripts[0] = "kill -STOP $PPID; sleep 100";
    s.scripts[1] = CLEAN_HERE;
    run_series(&s);
    cr_expect(eq(int, s.outcome[0].status, HTC_EKILLED), "%s", s.outcome[0].reason);
    expect_all_clean(&s);
    close_series(&s);
}

/* What does not fit between agent and keeper is run without one. */
Test(exec_kept, a_large_environment_is_run_without_a_keeper)
{
    static char passed[20000];
    series      s;
    open_series(&s);
    memset(passed, 'x', sizeof passed - 1);
    memcpy(passed, "PASSED=", 7);
    s.passed = passed;
    s.scripts[0] = "[ ${#PASSED} = 19992 ] || exit 8; echo done";
    s.scripts[1] = "case \"$HTC_SCRATCH\" in */3.1.1/work) ;; *) exit 7;; esac";
    run_series(&s);
    for (int i = 0; i < 2; i++)
        cr_expect(eq(int, s.outcome[i].status, HTC_OK), "%s", s.outcome[i].reason);
    cr_expect(eq(u64, s.stored[0].outputs.files, 1));
    close_series(&s);
}

/* More are asked for than run: in their order, and one that has not begun can be taken back. */
Test(exec_kept, what_waits_can_be_taken_back)
{
    series      s;
    char        path[600], text[64];
    static char scripts[4][700];
    open_series(&s);
    s.at_once = 4;
    s.take_back = 2;
    for (int i = 0; i < 4; i++) {
        snprintf(scripts[i], sizeof scripts[i], "sleep 0.2; printf %d >> '%s/order'", i, s.dir);
        s.scripts[i] = scripts[i];
    }
    run_series(&s);
    snprintf(path, sizeof path, "%s/order", s.dir);
    cr_assert(htc__read_text(path, text, sizeof text) > 0);
    cr_expect(eq(str, text, "013"));
    cr_expect(eq(int, s.status[2], HTC_AGAIN));
    close_series(&s);
}

/* With four slots four run at once, though it began with two: each waits for the others. With one again the next run one by one, as soon
 * as those have ended; none of them is ended before. */
Test(exec_kept, slots_change_while_it_runs)
{
    series      s;
    static char wait[700], alone[700];
    open_series(&s);
    s.at_once = s.slots_begin = 4;
    s.slots = 2;
    s.slots_later = 1;
    snprintf(wait, sizeof wait, "cd '%s'; > here.$$; while [ $(ls here.* | wc -l) -lt 4 ]; do sleep 0.01; done", s.dir);
    snprintf(alone, sizeof alone, "mkdir '%s/alone' && sleep 0.1 && rmdir '%s/alone'", s.dir, s.dir);
    for (int i = 0; i < 10; i++)
        s.scripts[i] = i < 4 ? wait : alone;
    run_series(&s);
    for (uint32_t i = 0; i < s.n; i++)
        cr_expect(s.status[i] == HTC_OK && s.outcome[i].status == HTC_OK, "%u: %s %s", i, s.outcome[i].reason, s.tail[i]);
    close_series(&s);
}

/* What is printed is stored, and the next one's is its own. */
Test(exec_kept, streams_are_each_tasks_own)
{
    series s;
    char   path[700], text[64];
    open_series(&s);
    s.at_once = 3;
    s.scripts[0] = "echo one; echo uno >&2";
    s.scripts[1] = "echo two";
    s.scripts[2] = ":";
    run_series(&s);
    static const char *const want[] = { "one\n", "two\n" };
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/out/3/0/%d.1/files/stdout", s.data, i);
        cr_assert(htc__read_text(path, text, sizeof text) > 0, "%s", path);
        cr_expect(eq(str, text, (char *)(uintptr_t)want[i]));
    }
    cr_expect(eq(u64, s.stored[2].outputs.manifest_bytes, 0));
    close_series(&s);
}

/* Whoever comes when agent and keeper are dead finds the task's process there. */
Test(exec_kept, a_process_is_recorded_while_it_runs)
{
    drive              d;
    char               script[1200], path[700];
    htc__keepers_file  file;
    drive_open(&d);
    snprintf(script, sizeof script, "cp '%s/keepers' '%s/seen'; echo $$ > '%s/pid'", d.slot, d.dir, d.dir);
    shell(&d, script);
    drive_run(&d);
    cr_assert(eq(int, d.outcome.status, HTC_OK), "%s", d.outcome.reason);
    snprintf(path, sizeof path, "%s/seen", d.dir);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    cr_assert(read(fd, &file, sizeof file) == (ssize_t)sizeof file);
    close(fd);
    snprintf(path, sizeof path, "%s/pid", d.dir);
    cr_expect(htc__read_text(path, script, sizeof script) > 0);
    cr_expect(eq(long, (long)file.keeper[0].pid, atol(script)));
    cr_expect(file.keeper[0].job == 3 && file.keeper[0].task == 7 && file.keeper[0].attempt == 2);
    cr_expect(file.keeper[0].end == 0 || file.keeper[0].end >= file.keeper[0].begin); /* 0: the keeper does not go on yet */
    cr_expect(memcmp(file.magic, HTC__KEEPERS_MAGIC, 8) == 0);
    drive_close(&d);
}


/* A task may begin in a directory of its user's: the keeper takes it there, and the next one begins in its place again. One that is not there
 * costs that task alone. */
Test(exec_kept, a_directory_of_its_own)
{
    series s;
    char   path[600], text[800], keeper[64];
    static char where[900], gone[300];
    open_series(&s);
    snprintf(where, sizeof where, "{ pwd; ps -o ppid= -p $$; } >> '%s/where'", s.dir);
    s.directory = s.dir;
    s.scripts[0] = s.scripts[1] = s.scripts[2] = where;
    run_series(&s);
    for (uint32_t i = 0; i < 3; i++)
        cr_expect(eq(int, s.outcome[i].status, HTC_OK), "%u: %s", i, s.tail[i]);
    snprintf(path, sizeof path, "%s/where", s.dir);
    cr_assert(htc__read_text(path, text, sizeof text) > 0);
    char *lines[6], *at = text;
    for (int i = 0; i < 6; i++, at++) {
        lines[i] = at;
        at += strcspn(at, "\n");
        cr_assert(*at == '\n', "%s", text);
        *at = 0;
    }
    cr_expect(strstr(lines[0], "/scratch/k") != NULL, "%s", lines[0]);
    cr_expect(eq(str, lines[2], s.dir));
    cr_expect(eq(str, lines[4], lines[0]));
    snprintf(keeper, sizeof keeper, "%s", lines[1]);
    cr_expect(eq(str, lines[3], keeper), "it has another parent: no keeper ran it");
    close_series(&s);
    open_series(&s);
    snprintf(gone, sizeof gone, "%s/none", s.dir);
    s.directory = gone;
    s.scripts[0] = s.scripts[1] = s.scripts[2] = ":";
    run_series(&s);
    cr_expect(s.outcome[0].status == HTC_OK && s.outcome[2].status == HTC_OK);
    cr_expect(eq(int, s.outcome[1].status, HTC_ENOEXEC));
    cr_expect(strstr(s.outcome[1].reason, "entering its directory /") != NULL && strstr(s.outcome[1].reason, "/none: No such file") != NULL, "%s", s.outcome[1].reason);
    close_series(&s);
}
