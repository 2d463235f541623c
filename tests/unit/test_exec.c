/* The executor with real processes: how each kind of end is told apart, that nothing of a task stays behind, and that files
 * come in and go out as they should. The machine here does what an agent does for one task: stage in, run, signal when
 * told to, stage out, clean. Each test is a process of its own (Criterion), so no other children get in the way. */
#include "exec_drive.h"
#include "net/exec/exec_confine.h"

#include <sched.h>

/* Can tasks be confined here? If not, the loops below that try them confined too have one round. */
static int confinable(void)
{
    char dir[] = "/tmp/htc-test-XXXXXX", why[200] = "";
    cr_assert(mkdtemp(dir) != NULL);
    int works = htc__confine_probe(dir, why, sizeof why) == 0;
    rmdir(dir);
    return works;
}

/* --- ends --- */

typedef struct end {
    const char *script;
    htc_status  status;
    int         exit_code;
    uint32_t    signal;
    const char *reason;
} end;

/* The agent owns the terminal state: each way to end is another one. */
Test(exec, every_way_to_end_is_told_apart)
{
    static const end ends[] = {
        { "exit 0", HTC_OK, 0, 0, "" },
        { "exit 3", HTC_EEXIT, 3, 0, "exit code 3" },
        { "exit 137", HTC_EEXIT, 137, 0, "exit code 137" },
        { "kill -SEGV $$", HTC_ESIGNAL, 0, SIGSEGV, "ended by SIGSEGV" },
        { "kill -TERM $$", HTC_ESIGNAL, 0, SIGTERM, "ended by SIGTERM" },
        { "kill -KILL $$", HTC_EKILLED, 0, SIGKILL, "killed from outside by SIGKILL" },
    };
    size_t count = sizeof ends / sizeof *ends, all = confinable() ? 2 * count : count;
    for (size_t n = 0; n < all; n++) {
        size_t i = n % count;
        drive  d;
        drive_open(&d);
        d.confine = n >= count;
        shell(&d, ends[i].script);
        drive_run(&d);
        cr_expect(eq(int, d.ran, 1));
        cr_expect(d.started <= 1); /* one that is over at once need not be told as started */
        cr_expect(eq(int, d.outcome.status, ends[i].status), "%s: %s", ends[i].script, d.outcome.reason);
        cr_expect(eq(int, d.outcome.exit_code, ends[i].exit_code));
        cr_expect(eq(u32, d.outcome.signal, ends[i].signal));
        cr_expect(eq(str, d.outcome.reason, (char *)ends[i].reason));
        cr_expect(eq(str, d.outcome.node, "here"));
        cr_expect(d.outcome.started > 0 && d.outcome.ended >= d.outcome.started);
        cr_expect(eq(u64, d.stored.outputs.files, 0));
        drive_close(&d);
    }
}

/* As some shells and supervisors do: it is inherited. */
Test(exec, ends_are_told_apart_where_they_are_ignored)
{
    drive d;
    signal(SIGCHLD, SIG_IGN);
    drive_open(&d);
    shell(&d, "exit 3");
    drive_run(&d);
    cr_expect(eq(int, d.outcome.status, HTC_EEXIT), "%s", d.outcome.reason);
    cr_expect(eq(int, d.outcome.exit_code, 3));
    drive_close(&d);
}

Test(exec, no_outputs_cost_no_directories)
{
    drive d;
    drive_open(&d);
    shell(&d, "exit 0");
    drive_run(&d);
    char path[700];
    snprintf(path, sizeof path, "%s/0", d.place);
    cr_expect(access(path, F_OK) != 0);
    drive_close(&d);
}

/* An attempt that was given up long ago may still have something to store. */
Test(exec, nothing_is_stored_of_a_job_that_was_removed)
{
    drive d;
    drive_open(&d);
    cr_assert(eq(int, htc__remove_tree(d.place), 0));
    shell(&d, "echo late");
    drive_run(&d);
    cr_expect(eq(int, d.staged_out, HTC_ESTAGEOUT), "%s", d.text);
    cr_expect(access(d.place, F_OK) != 0, "its place is there again");
    drive_close(&d);
}

Test(exec, a_missing_executable_names_itself)
{
    static const char *const names[] = { "no-such-program", "./no-such-program", "/no/such/program", "/etc/hostname", "/tmp" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        drive d;
        drive_open(&d);
        d.task.executable = names[i];
        drive_run(&d);
        cr_expect(eq(int, d.outcome.status, HTC_ENOEXEC), "%s: %s", names[i], d.outcome.reason);
        cr_expect(strstr(d.outcome.reason, names[i]) != NULL, "%s", d.outcome.reason);
        cr_expect(eq(int, d.started, 0));
        drive_close(&d);
    }
}

/* What only exec itself finds out comes back through the pipe: an interpreter that is not there. */
Test(exec, a_failed_exec_is_reported_with_its_reason)
{
    drive d;
    char  script[600], uri[700];
    drive_open(&d);
    snprintf(script, sizeof script, "%s/script", d.dir);
    FILE *f = fopen(script, "w");
    fputs("#!/no/such/interpreter\n", f);
    fclose(f);
    snprintf(uri, sizeof uri, "file://%s", script);
    htc_stage in = { "run.sh", uri, HTC_STAGE_OVERWRITE | HTC_STAGE_EXECUTABLE };
    d.task.in = &in;
    d.task.n_in = 1;
    d.task.executable = "run.sh";
    drive_run(&d);
    cr_expect(eq(int, d.staged_in, HTC_OK), "%s", d.text);
    cr_expect(eq(int, d.outcome.status, HTC_ENOEXEC));
    cr_expect(eq(str, d.outcome.reason, "run.sh: executing it: No such file or directory"));
    cr_expect(eq(int, d.started, 0));
    drive_close(&d);
}

/* A task that ignores SIGTERM is ended by SIGKILL, and the reason is the one given, not the signal. */
Test(exec, who_ignores_sigterm_is_killed_and_the_reason_stays)
{
    static const htc_status whys[] = { HTC_EWALLTIME, HTC_ECANCELLED };
    for (int n = 0, all = confinable() ? 4 : 2; n < all; n++) {
        int   i = n % 2;
        drive d;
        drive_open(&d);
        d.confine = n >= 2;
        shell(&d, "trap '' TERM; : > ready; while :; do sleep 1; done");
        d.signal_count = 2;
        d.signals[0] = SIGTERM;
        d.signals[1] = SIGKILL;
        d.signal_after_file = 1;
        d.signal_gap = 50 * HTC_MS;
        d.why = whys[i];
        d.task.limits.wall = 2 * HTC_SECOND;
        drive_run(&d);
        cr_expect(eq(int, d.outcome.status, whys[i]), "%s", d.outcome.reason);
        cr_expect(eq(u32, d.outcome.signal, SIGKILL));
        drive_close(&d);
    }
}

Test(exec, a_stopped_task_takes_sigterm_and_is_noticed)
{
    for (int n = 0, all = confinable() ? 2 : 1; n < all; n++) {
        drive d;
        drive_open(&d);
        d.confine = n == 1;
        shell(&d, ": > ready; kill -STOP $$; exit 9");
        d.task.limits.memory = (uint64_t)1 << 40; /* looked at often */
        d.signal_count = 1;
        d.signals[0] = SIGTERM;
        d.signal_after_file = 1;
        drive_run(&d);
        cr_expect(eq(int, d.outcome.status, HTC_ECANCELLED), "%s", d.outcome.reason);
        drive_close(&d);
    }
}

/* It is told, by whatever it was started. */
Test(exec, an_idle_task_is_noticed, .timeout = 120)
{
    for (int n = 0; n < 2; n++) {
        drive d;
        drive_open(&d);
        d.stall = 900 * HTC_MS;
        shell(&d, "exec sleep 1000");
        d.task.limits.memory = n ? (uint64_t)1 << 40 : 0; /* a keeper runs it, or not */
        drive_run(&d);
        cr_expect(d.idle_seen >= 1 && d.stopped_seen == 0);
        cr_expect(ne(int, d.outcome.status, HTC_OK));
        drive_close(&d);
    }
}

/* --- nothing stays behind --- */

/* Children in the background, in sessions of their own, with a clean environment, holding the task's streams open: the task
 * ends when its first process does, and they with it. */
Test(exec, daemons_of_a_task_end_with_it)
{
    static const char *const scripts[] = {
        "sleep 1000 & echo $! > %s; exit 0",
        "setsid sh -c 'echo $$ > %s; exec sleep 1000' & while [ ! -s %s ]; do sleep 0.01; done; exit 0",
        "setsid env -i sh -c 'setsid sh -c \"echo \\$\\$ > %s; exec sleep 1000\" & exit 0' & while [ ! -s %s ]; do sleep 0.01; done; exit 0",
    };
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
        drive d;
        char  pid_file[64] = "/tmp/htc-test-exec-pid-XXXXXX", script[700];
        int   fd = mkstemp(pid_file);
        close(fd);
        drive_open(&d);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(script, sizeof script, scripts[i], pid_file, pid_file);
#pragma GCC diagnostic pop
        shell(&d, script);
        drive_run(&d);
        cr_expect(eq(int, d.outcome.status, HTC_OK), "%s", d.outcome.reason);
        cr_expect(eq(int, alive(pid_file), 0), "script %zu", i);
        unlink(pid_file);
        drive_close(&d);
    }
}

/* The memory limit counts the whole tree: here in the child of a child. */
Test(exec, too_much_memory_of_the_tree_is_its_own_state)
{
    drive d;
    drive_open(&d);
    shell(&d, "sh -c 'x=$(head -c 200000000 /dev/zero | tr \"\\\\0\" x); sleep 100; echo ${#x}' & wait");
    d.task.limits.memory = 64 << 20;
    drive_run(&d);
    cr_expect(eq(int, d.outcome.status, HTC_EOOM), "%s", d.outcome.reason);
    cr_expect(d.outcome.memory_peak > (64 << 20));
    cr_expect(strstr(d.outcome.reason, " MiB of memory in use, 64 MiB allowed") != NULL, "%s", d.outcome.reason);
    drive_close(&d);
}

/* The kernel's own killing is known by the count of the cgroup. Here a file plays the cgroup's part. */
Test(exec, the_kernels_oom_killer_is_told_from_a_stranger)
{
    static const char *const counts[] = { "oom_kill 3", "oom_kill 2" };
    for (int i = 0; i < 2; i++) {
        drive d;
        char  events[600], script[800];
        drive_open(&d);
        snprintf(events, sizeof events, "%s/events", d.dir);
        snprintf(script, sizeof script, "printf 'low 0\\n%s\\n' > '%s'; kill -KILL $$", counts[i], events);
        FILE *f = fopen(events, "w");
        cr_assert(f != NULL);
        fputs("low 0\noom_kill 2\noom_group_kill 9\n", f);
        fclose(f);
        d.oom_events = events;
        shell(&d, script);
        drive_run(&d);
        cr_expect(eq(int, d.outcome.status, i == 0 ? HTC_EOOM : HTC_EKILLED), "%s", d.outcome.reason);
        cr_expect(strstr(d.outcome.reason, i == 0 ? "cgroup" : "outside") != NULL, "%s", d.outcome.reason);
        drive_close(&d);
    }
}

/* A fork bomb stays within what ProcessCountLimit allows, and nothing of it survives. The bomb is a tame one, in case the
 * limit does not work: it stops by itself at 300. */
Test(exec, a_fork_bomb_is_bounded)
{
    drive d;
    drive_open(&d);
    shell(&d, "i=0; while [ $i -lt 300 ]; do setsid sleep 1000 & i=$((i+1)); done; wait");
    d.task.limits.processes = 20;
    drive_run(&d);
    cr_expect(d.outcome.status == HTC_EKILLED || d.outcome.status == HTC_EEXIT, "%s", d.outcome.reason);
    if (getuid() == 0) /* rlimits do not bind root: the count of the tree does */
        cr_expect(strstr(d.outcome.reason, "20 allowed") != NULL, "%s", d.outcome.reason);
    drive_close(&d);
}

Test(exec, limits_of_a_process_are_set)
{
    drive d;
    drive_open(&d);
    shell(&d, "ulimit -t; ulimit -f; ulimit -c; ulimit -n; ulimit -s");
    d.task.limits.cpu = 1500 * HTC_MS;
    d.task.limits.file_size = 1 << 20;
    d.task.limits.open_files = 50;
    d.task.limits.stack = 4 << 20;
    drive_run(&d);
    expect_output(&d, "stdout", "2\n2048\n0\n50\n4096\n");
    drive_close(&d);
}

Test(exec, cpu_time_of_the_tree_is_counted)
{
    drive d;
    drive_open(&d);
    shell(&d, "sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done'");
    drive_run(&d);
    cr_expect(d.outcome.cpu_ns > 10 * HTC_MS, "%llu ns", (unsigned long long)d.outcome.cpu_ns);
    cr_expect(d.outcome.memory_peak > 100000);
    drive_close(&d);
}

/* --- environment and streams --- */

Test(exec, the_environment_is_clean_and_complete)
{
    drive d;
    char  text[65536], path[1024];
    static const char *const env[] = { "MINE=1 2", "PATH=/bin:/usr/bin", "HTC_USER=mallory", NULL };
    drive_open(&d);
    d.task.executable = "env";
    d.task.env = env;
    d.task.n_env = 3;
    d.compat = HTC_COMPAT_SLURM;
    d.task.limits.wall = HTC_SECOND;
    drive_run(&d);
    snprintf(path, sizeof path, "%s/out/3/0/7.2/files/stdout", d.data);
    cr_assert(htc__read_text(path, text, sizeof text) > 0);
    static const char *const want[] = {
        "HTC_USER=ada\n", "HTC_METAJOB_ID=3\n", "HTC_TASK_INDEX=7\n", "HTC_TASK_COUNT=10\n", "HTC_TASK_ATTEMPT=2\n",
        "HTC_AGENT_ID=99\n", "HTC_SITE=local\n", "HTC_SCRATCH=/", "HTC_OUTPUT_DIR=/", "HTC_WALL_DEADLINE=",
        "HTC_SWEEP={\"x\":\"1\"}\n", "HTC_CORES=1\n", "HOME=/nonexistent home\n", "PATH=/bin:/usr/bin\n", "TMPDIR=/",
        "MINE=1 2\n", "PASSED=yes\n", "SLURM_ARRAY_TASK_ID=7\n", "SLURM_ARRAY_JOB_ID=3\n", "SLURM_ARRAY_TASK_COUNT=10\n",
        "SLURM_ARRAY_TASK_MIN=0\n", "SLURM_ARRAY_TASK_MAX=9\n", "SLURM_JOB_ID=3\n",
    };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++)
        cr_expect(strstr(text, want[i]) != NULL, "%s is missing in\n%s", want[i], text);
    cr_expect(strstr(text, "SECRET") == NULL);
    cr_expect(strstr(text, "mallory") == NULL);
    cr_expect(strstr(text, "MISSING") == NULL);
    drive_close(&d);
    drive_open(&d);
    shell(&d, "echo $SGE_TASK_ID $JOB_ID $SGE_TASK_LAST");
    d.compat = HTC_COMPAT_SGE;
    drive_run(&d);
    expect_output(&d, "stdout", "8 3 10\n");
    drive_close(&d);
}

Test(exec, no_descriptor_of_the_host_leaks_and_stdin_is_empty)
{
    drive d;
    int   leak = open("/etc/hostname", O_RDONLY); /* not close-on-exec, as a careless host's might be */
    drive_open(&d);
    shell(&d, "cat; ls /proc/self/fd | wc -l"); /* 0 1 2 and the directory that ls reads */
    drive_run(&d);
    expect_output(&d, "stdout", "4\n");
    close(leak);
    drive_close(&d);
}

Test(exec, streams_are_redirected_and_stderr_has_a_tail)
{
    drive d;
    char  in_path[600], uri[700];
    drive_open(&d);
    snprintf(in_path, sizeof in_path, "%s/words %%20", d.dir);
    FILE *f = fopen(in_path, "w");
    fputs("some words", f);
    fclose(f);
    snprintf(uri, sizeof uri, "file://localhost%s/words %%2520", d.dir);
    htc_stage in = { "in/words", uri, HTC_STAGE_OVERWRITE };
    d.task.in = &in;
    d.task.n_in = 1;
    d.task.input = "in/words";
    d.task.output = "log/out.txt";
    shell(&d, "cat; echo oops >&2; exit 1");
    drive_run(&d);
    cr_expect(eq(int, d.staged_in, HTC_OK), "%s", d.text);
    expect_output(&d, "log/out.txt", "some words");
    expect_output(&d, "stderr", "oops\n");
    cr_expect(eq(str, d.tail, "oops\n"));
    drive_close(&d);
    drive_open(&d);
    d.task.output = d.task.error = "both";
    shell(&d, "echo one; echo two >&2");
    drive_run(&d);
    expect_output(&d, "both", "one\ntwo\n");
    cr_expect(eq(u64, d.stored.outputs.files, 1));
    drive_close(&d);
}

/* A FIFO that nobody opens at its other end holds the task, and nothing else: the agent would hear no gateway meanwhile. */
Test(exec, a_fifo_as_a_stream_does_not_hold_the_agent)
{
    drive d;
    char  fifo[600];
    drive_open(&d);
    snprintf(fifo, sizeof fifo, "%s/fifo", d.dir);
    cr_assert(eq(int, mkfifo(fifo, 0600), 0));
    d.task.directory = d.dir;
    d.task.input = "fifo";
    shell(&d, "cat; echo read");
    drive_run(&d);
    cr_assert(eq(int, d.ran, 1), "%s", d.text);
    expect_output(&d, "stdout", "read\n");
    drive_close(&d);
    drive_open(&d);
    snprintf(fifo, sizeof fifo, "%s/fifo", d.dir);
    cr_assert(eq(int, mkfifo(fifo, 0600), 0));
    d.task.directory = d.dir;
    d.task.output = "fifo";
    shell(&d, "echo lost");
    drive_run(&d);
    cr_expect(d.outcome.status != HTC_OK);
    cr_expect(strstr(d.outcome.reason, "cannot write fifo") != NULL, "%s", d.outcome.reason);
    drive_close(&d);
}

/* What a task put in the place of the agent's own files holds no later agent, and leads it nowhere. */
Test(exec, traps_in_a_slot_are_taken_away)
{
    drive d;
    char  path[700], theirs[600], text[64];
    drive_open(&d);
    cr_assert(eq(int, htc__make_dirs(d.slot), 0));
    snprintf(theirs, sizeof theirs, "%s/theirs", d.dir);
    write_file(theirs, "theirs\n");
    for (int kind = 0; kind < 3; kind++) {
        snprintf(path, sizeof path, "%s/groups", d.slot);
        unlink(path);
        cr_assert(eq(int, kind == 0 ? mkfifo(path, 0600) : kind == 1 ? symlink(theirs, path) : link(theirs, path), 0));
        shell(&d, "exit 0");
        drive_run(&d);
        cr_expect(eq(int, d.outcome.status, HTC_OK), "%s", d.outcome.reason);
        htc__read_text(theirs, text, sizeof text);
        cr_expect(eq(str, text, "theirs\n"));
    }
    drive_close(&d);
}

/* --- files --- */

Test(exec, uploads_are_staged_in_by_hash)
{
    drive   d;
    char    path[1024], hex[65], uri[100];
    uint8_t hash[32];
    drive_open(&d);
    htc_content_hash(htc_bytes_of("echo from the blob\n"), hash);
    htc_content_hex(hash, hex);
    snprintf(path, sizeof path, "%s/blobs", d.data);
    cr_assert(eq(int, htc__make_dirs(path), 0));
    snprintf(path, sizeof path, "%s/blobs/%s", d.data, hex);
    write_file(path, "echo from the blob\n");
    snprintf(uri, sizeof uri, "htc:%s", hex);
    htc_stage in = { "tool", uri, HTC_STAGE_OVERWRITE };
    d.task.in = &in;
    d.task.n_in = 1;
    shell(&d, "sh ./tool");
    drive_run(&d);
    cr_expect(eq(int, d.staged_in, HTC_OK), "%s", d.text);
    expect_output(&d, "stdout", &"echo from the blob\n"[5]);
    /* the same name with other content: staged in wrong, and told so */
    write_file(path, "echo from the bl0b\n");
    d.ran = 0;
    drive_run(&d);
    cr_expect(eq(int, d.staged_in, HTC_ECORRUPT));
    cr_expect(strstr(d.text, "staged in wrong") != NULL, "%s", d.text);
    cr_expect(eq(int, d.ran, 0));
    drive_close(&d);
}

static int bring_upload(drive *d)
{
    char path[700];
    snprintf(path, sizeof path, "%s/blobs/ada", d->data);
    cr_assert(eq(int, htc__make_dirs(path), 0));
    snprintf(path, sizeof path, "%s/blobs/ada/%s", d->data, d->task.in->uri + 4);
    write_file(path, "late");
    return 1;
}

/* It is brought while the attempt is held: then it is staged in like any other. */
Test(exec, an_upload_may_come_late)
{
    drive     d;
    uint8_t   hash[32];
    char      uri[70] = "htc:";
    htc_stage in = { "in", uri, HTC_STAGE_OVERWRITE };
    drive_open(&d);
    htc_content_hash(htc_bytes_of("late"), hash);
    htc_content_hex(hash, uri + 4);
    d.task.in = &in;
    d.task.n_in = 1;
    shell(&d, "cat in");
    d.mend = bring_upload;
    drive_run(&d);
    cr_expect(eq(int, d.staged_in, HTC_OK), "%s", d.text);
    expect_output(&d, "stdout", "late");
    drive_close(&d);
}

/* HTCaaS 6: An input is not there. */
Test(exec, bad_inputs_are_refused_with_their_path)
{
    static const struct {
        const char *name, *uri;
        htc_status  status;
        const char *text;
    } cases[] = {
        { "x", "file:///no/such/file", HTC_EINPUT, "/no/such/file" },
        { "x", "file:///dev/null", HTC_EINPUT, "neither a regular file nor a directory" },
        { "x", "http://h/x", HTC_EUNSUPPORTED, "not beside htc-agent" },
        { "x", "htc:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", HTC_ENOTFOUND, "upload it again" },
        /* impossible names do not even get through the decoder */
        { "../x", "file:///etc/hostname", HTC_EPROTO, "" },
        { "a/../../x", "file:///etc/hostname", HTC_EPROTO, "" },
        { "/tmp/htc-test-escape", "file:///etc/hostname", HTC_EPROTO, "" },
        { "x", "gopher://example.org/x", HTC_EPROTO, "" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        drive     d;
        htc_stage in = { cases[i].name, cases[i].uri, HTC_STAGE_OVERWRITE };
        drive_open(&d);
        d.task.in = &in;
        d.task.n_in = 1;
        shell(&d, "exit 0");
        drive_run(&d);
        cr_expect(eq(int, d.staged_in, cases[i].status), "%s: %s", cases[i].uri, d.text);
        cr_expect(strstr(d.text, cases[i].text) != NULL, "%s", d.text);
        cr_expect(eq(int, d.ran, 0));
        drive_close(&d);
    }
    cr_expect(access("/tmp/htc-test-escape", F_OK) != 0);
}

Test(exec, creation_flags_are_kept)
{
    drive     d;
    char      one[600], two[600];
    drive_open(&d);
    snprintf(one, sizeof one, "file://%s/one", d.dir);
    snprintf(two, sizeof two, "file://%s/two", d.dir);
    write_file(one + 7, "one");
    write_file(two + 7, "two");
    htc_stage in[] = {
        { "over", one, HTC_STAGE_OVERWRITE }, { "over", two, HTC_STAGE_OVERWRITE }, { "app", one, HTC_STAGE_OVERWRITE },
        { "app", two, HTC_STAGE_APPEND },     { "keep", one, HTC_STAGE_KEEP },      { "keep", two, HTC_STAGE_KEEP },
    };
    d.task.in = in;
    d.task.n_in = 6;
    shell(&d, "cat over; echo; cat app; echo; cat keep");
    drive_run(&d);
    cr_expect(eq(int, d.staged_in, HTC_OK), "%s", d.text);
    expect_output(&d, "stdout", "two\nonetwo\none");
    drive_close(&d);
}

/* Nobody reads the FIFO: whoever waited for a reader would have the thread for ever. */
Test(exec, a_fifo_in_the_place_of_an_input_holds_nobody, .timeout = 60)
{
    static const uint32_t flags[] = { HTC_STAGE_APPEND, HTC_STAGE_OVERWRITE };
    for (size_t i = 0; i < 2; i++) {
        drive d;
        char  path[700], uri[700];
        drive_open(&d);
        snprintf(uri, sizeof uri, "file://%s/one", d.dir);
        write_file(uri + 7, "one");
        snprintf(path, sizeof path, "%s/own", d.dir);
        cr_assert(eq(int, mkdir(path, 0700), 0));
        d.task.directory = path;
        char fifo[720];
        snprintf(fifo, sizeof fifo, "%s/in", path);
        cr_assert(eq(int, mkfifo(fifo, 0600), 0));
        htc_stage in = { "in", uri, flags[i] };
        d.task.in = &in;
        d.task.n_in = 1;
        shell(&d, "exit 0");
        drive_run(&d);
        cr_expect(eq(int, d.staged_in, HTC_EPATH), "%s", d.text);
        cr_expect(eq(str, d.text, "cannot create the input in: what is there is no file"));
        cr_expect(eq(int, d.ran, 0));
        drive_close(&d);
    }
}

/* --- after kill -9 --- */

/* The task sees itself in the record; when it has ended nothing stands there but whose boot it was. */
Test(exec, a_process_is_recorded_before_it_runs_and_not_after)
{
    drive d;
    char  script[700], path[700], text[4096], boot[64];
    drive_open(&d);
    htc_stage none = { "none", "file:///dev/null", HTC_STAGE_OVERWRITE };
    snprintf(path, sizeof path, "%s/empty", d.dir);
    close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    char uri[800];
    snprintf(uri, sizeof uri, "file://%s", path);
    none.uri = uri;
    d.task.in = &none; /* no plain task */
    d.task.n_in = 1;
    snprintf(script, sizeof script, "grep -q \"^$$ [0-9]*\\$\" '%s/groups'", d.slot);
    for (int i = 0; i < 2; i++) {
        shell(&d, script);
        drive_run(&d);
        cr_expect(eq(int, d.outcome.status, HTC_OK), "%s", d.outcome.reason);
        snprintf(path, sizeof path, "%s/groups", d.slot);
        ssize_t n = htc__read_text(path, text, sizeof text);
        cr_assert(n > 0);
        while (n > 0 && text[n - 1] == '\n')
            text[--n] = 0;
        htc_host_boot(boot);
        cr_expect(eq(int, strncmp(text, "boot ", 5), 0));
        cr_expect(eq(str, text + 5, boot));
    }
    drive_close(&d);
}

/* --- confined --- */

/* Does any process run this program with this first argument? */
static int somebody_runs(const char *argument)
{
    htc__procs procs = { 0 };
    int        found = 0;
    cr_assert(eq(int, htc__procs_look(&procs, 1, 0), 0));
    for (size_t i = 0; i < procs.count && !found; i++) {
        char path[64], text[4096];
        snprintf(path, sizeof path, "/proc/%ld/cmdline", (long)procs.list[i].pid);
        ssize_t n = htc__read_text(path, text, sizeof text);
        for (ssize_t at = 0; at < n; at += (ssize_t)strlen(text + at) + 1)
            found |= strcmp(text + at, argument) == 0;
    }
    htc__procs_free(&procs);
    return found;
}

/* In a PID namespace nothing of a task outlives it, however it hides; and what such processes used is counted. */
Test(exec, what_a_confined_task_leaves_ends_with_it)
{
    drive d;
    char  script[300], number[32];
    if (!confinable())
        cr_skip("no confinement here");
    drive_open(&d);
    d.confine = 1;
    snprintf(number, sizeof number, "1000.%ld", (long)getpid());
    snprintf(script, sizeof script,
             "setsid env -i sh -c 'setsid sh -c \"i=0; while [ \\$i -lt 200000 ]; do i=\\$((i+1)); done; : > ready; exec sleep %s\" & "
             "exit 0' & while [ ! -e ready ]; do sleep 0.01; done; exit 0", number);
    shell(&d, script);
    drive_run(&d);
    cr_expect(eq(int, d.outcome.status, HTC_OK), "%s", d.outcome.reason);
    cr_expect(eq(int, somebody_runs(number), 0));
    cr_expect(d.outcome.cpu_ns > 10 * HTC_MS, "%llu ns", (unsigned long long)d.outcome.cpu_ns);
    drive_close(&d);
}

/* The agent is killed with a confined task running: the kernel ends what is in its namespace, and the next agent finds nobody. */
Test(exec, a_confined_task_does_not_outlive_a_killed_agent)
{
    drive     d;
    char      script[200], number[32];
    htc_error error;
    if (!confinable())
        cr_skip("no confinement here");
    drive_open(&d);
    d.confine = 1;
    snprintf(number, sizeof number, "1000.%ld", (long)getpid());
    snprintf(script, sizeof script, "setsid env -i sh -c ': > ready; exec sleep %s' & wait", number);
    shell(&d, script);
    pid_t host = fork();
    if (host == 0) {
        drive_run(&d);
        _exit(0);
    }
    for (int i = 0; i < 5000 && !(is_ready(&d) && somebody_runs(number)); i++)
        usleep(2000);
    cr_assert(is_ready(&d) && somebody_runs(number));
    kill(host, SIGKILL);
    cr_assert(waitpid(host, NULL, 0) == host);
    cr_assert(eq(int, htc_agent_host_recover(NULL, d.slot, NULL, NULL, &error), HTC_OK), "%s", error.text);
    for (int i = 0; i < 5000 && somebody_runs(number); i++)
        usleep(2000); /* killed when the agent was; to be gone takes a moment */
    cr_expect(eq(int, somebody_runs(number), 0));
    drive_close(&d);
}

Test(exec, a_confined_fork_bomb_is_bounded)
{
    drive d;
    char  script[200], number[32];
    if (!confinable())
        cr_skip("no confinement here");
    drive_open(&d);
    d.confine = 1;
    snprintf(number, sizeof number, "1000.%ld", (long)getpid());
    snprintf(script, sizeof script, "i=0; while [ $i -lt 300 ]; do setsid sleep %s & i=$((i+1)); done; wait", number);
    shell(&d, script);
    d.task.limits.processes = 20;
    drive_run(&d);
    cr_expect(d.outcome.status == HTC_EKILLED || d.outcome.status == HTC_EEXIT, "%s", d.outcome.reason);
    cr_expect(eq(int, somebody_runs(number), 0));
    drive_close(&d);
}

Test(exec, a_failed_start_of_a_confined_task_names_itself)
{
    drive d;
    if (!confinable())
        cr_skip("no confinement here");
    drive_open(&d);
    d.confine = 1;
    d.task.executable = "/tmp/htc-no-such-program"; /* there, but not inside */
    write_file("/tmp/htc-no-such-program", "#!/bin/sh\n");
    chmod("/tmp/htc-no-such-program", 0755);
    drive_run(&d);
    unlink("/tmp/htc-no-such-program");
    cr_expect(eq(int, d.outcome.status, HTC_ENOEXEC), "%s", d.outcome.reason);
    cr_expect(strstr(d.outcome.reason, "executing it: No such file") != NULL, "%s", d.outcome.reason);
    cr_expect(eq(int, d.started, 0));
    drive_close(&d);
}

/* A process of this uid that is not below us. */
static pid_t stranger(void)
{
    pid_t pid = -1;
    int   ends[2];
    cr_assert(pipe2(ends, O_CLOEXEC) == 0);
    pid_t between = fork();
    if (between == 0) {
        pid = fork();
        if (pid == 0) {
            pause();
            _exit(0);
        }
        _exit(write(ends[1], &pid, sizeof pid) == sizeof pid ? 0 : 1);
    }
    cr_assert(read(ends[0], &pid, sizeof pid) == sizeof pid && waitpid(between, NULL, 0) == between);
    close(ends[0]);
    close(ends[1]);
    return pid;
}

/* The kernel lets a uid do much to all of its processes. A confined task has the owner's uid, and no name for them. */
Test(exec, a_confined_task_reaches_no_other_process)
{
    drive         d;
    char          script[600];
    cpu_set_t     before, after;
    struct rlimit files, files_after;
    if (!confinable())
        cr_skip("no confinement here");
    pid_t other = stranger();
    drive_open(&d);
    d.confine = 1;
    cr_assert(prlimit(other, RLIMIT_NOFILE, NULL, &files) == 0 && sched_getaffinity(other, sizeof before, &before) == 0);
    snprintf(script, sizeof script,
             "p=%d; try() { \"$@\" > /dev/null 2>&1 && echo \"$*\"; }; try prlimit --pid $p --nofile=20:20; try renice -n 7 -p $p;"
             "try taskset -p 1 $p; try kill -CONT $p; try ionice -c 3 -p $p;"
             "if grep -q '^proc /proc proc rw' /proc/self/mounts; then try [ -d /proc/$p ]; cat /proc/$$/comm; else echo sh; fi;" /* where it may have one */
             "wc -l < /proc/self/uid_map", (int)other);
    shell(&d, script);
    drive_run(&d);
    cr_expect(eq(int, d.outcome.status, HTC_OK), "%s", d.outcome.reason);
    expect_output(&d, "stdout", "sh\n1\n");
    cr_expect(prlimit(other, RLIMIT_NOFILE, NULL, &files_after) == 0 && files_after.rlim_cur == files.rlim_cur);
    cr_expect(eq(int, getpriority(PRIO_PROCESS, (id_t)other), getpriority(PRIO_PROCESS, 0)));
    cr_expect(sched_getaffinity(other, sizeof after, &after) == 0 && CPU_EQUAL(&before, &after));
    kill(other, SIGKILL);
    drive_close(&d);
}

/* A state directory in a place that confined tasks see would be seen with its sockets and its token. */
Test(exec, nobody_is_confined_where_the_state_directory_is_seen)
{
    char seen[] = "/opt/htc-test-XXXXXX", unseen[] = "/tmp/htc-test-XXXXXX", why[200] = "";
    cr_assert(mkdtemp(unseen) != NULL);
    int works = htc__confine_probe(unseen, why, sizeof why) == 0, empty = rmdir(unseen) == 0;
    cr_expect(empty, "something is left in %s", unseen);
    if (!works || !mkdtemp(seen))
        cr_skip("no confinement (%s), or no place below /opt: %s", why, strerror(errno));
    cr_expect(htc__confine_probe(seen, why, sizeof why) != 0);
    cr_expect(strstr(why, "directory that tasks see") != NULL, "%s", why);
    empty = rmdir(seen) == 0;
    cr_expect(empty, "something is left in %s", seen);
}
