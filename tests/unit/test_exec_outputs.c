/* What the executor makes of a task's outputs: what is stored, what is not and why, and that nothing which the task does to
 * its directories leads to a file of somebody else. */
#include "exec_drive.h"

Test(exec_outputs, outputs_are_collected_and_links_are_not_followed)
{
    drive d;
    char  target[600], text[64];
    drive_open(&d);
    d.durable = 1;
    snprintf(target, sizeof target, "file://%s/delivered", d.dir);
    htc_stage out[] = { { "energy.txt", "energy.txt", HTC_STAGE_OVERWRITE },
                        { "poses", "named/poses", HTC_STAGE_OVERWRITE },
                        { "copy", target, HTC_STAGE_OVERWRITE } };
    d.task.out = out;
    d.task.n_out = 3;
    shell(&d, "echo -7.5 > energy.txt; echo p > poses; echo c > copy; mkdir -p \"$HTC_OUTPUT_DIR/deep/er\";"
              "echo x > \"$HTC_OUTPUT_DIR/deep/er/file\"; ln -s /etc/passwd \"$HTC_OUTPUT_DIR/link\";"
              "ln -s /etc \"$HTC_OUTPUT_DIR/dir\"; mkfifo \"$HTC_OUTPUT_DIR/pipe\"; echo to stdout");
    drive_run(&d);
    cr_expect(eq(int, d.staged_out, HTC_OK), "%s", d.text);
    cr_expect(eq(u32, d.files_count, 4));
    expect_output(&d, "energy.txt", "-7.5\n");
    expect_output(&d, "named/poses", "p\n");
    expect_output(&d, "deep/er/file", "x\n");
    expect_output(&d, "stdout", "to stdout\n");
    cr_expect(htc__read_text(target + 7, text, sizeof text) == 2);
    drive_close(&d);
}

Test(exec_outputs, outputs_cannot_leave_their_place)
{
    static const struct {
        const char *script;
        htc_stage   out;
        htc_status  status;
    } cases[] = {
        { "exit 0", { "missing", "missing", HTC_STAGE_OVERWRITE }, HTC_ESTAGEOUT },
        { "ln -s /etc/passwd x", { "x", "x", HTC_STAGE_OVERWRITE }, HTC_ESTAGEOUT },
        { "ln -s /etc d", { "d/passwd", "passwd", HTC_STAGE_OVERWRITE }, HTC_ESTAGEOUT },
        { "mkdir x", { "x", "x", HTC_STAGE_OVERWRITE }, HTC_ESTAGEOUT },
        { "echo > x", { "x", "file:///no/such/dir/x", HTC_STAGE_OVERWRITE }, HTC_ESTAGEOUT },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        drive d;
        drive_open(&d);
        d.task.out = &cases[i].out;
        d.task.n_out = 1;
        shell(&d, cases[i].script);
        drive_run(&d);
        cr_expect(eq(int, d.staged_out, cases[i].status), "case %zu: %s", i, d.text);
        cr_expect(d.text[0] != 0);
        char path[1024];
        snprintf(path, sizeof path, "%s/out/3/0/7.2", d.data);
        cr_expect(access(path, F_OK) != 0, "half a result set is stored");
        drive_close(&d);
    }
}

/* What the task does to its own directories must lead nobody to another file: it is neither stored, nor is its mode changed. */
typedef struct trap {
    const char *script; /* %s: a directory of somebody else with a file called secret */
    const char *stored; /* the secret under this name is wrong */
} trap;

static void expect_trap_empty(const drive *d, const trap *t, const char *path)
{
    struct stat st;
    char        stored[1024], text[64];
    snprintf(stored, sizeof stored, "%s/out/3/0/7.2/%s", d->data, t->stored);
    cr_expect(htc__read_text(stored, text, sizeof text) < 0, "%s: what is not the task's was stored", t->script);
    cr_assert(eq(int, stat(path, &st), 0));
    cr_expect(eq(u32, st.st_mode & 07777, 0640), "%s: its mode was changed", t->script);
    cr_expect(eq(u32, (uint32_t)st.st_nlink, 1), "%s: it has a second name", t->script);
}

Test(exec_outputs, a_directory_replaced_by_a_link_leads_nowhere)
{
    static const trap traps[] = {
        { "rmdir \"$HTC_OUTPUT_DIR\"; ln -s '%s' \"$HTC_OUTPUT_DIR\"", "secret" },
        { "mkdir \"$HTC_OUTPUT_DIR/a\"; ln -s '%s' \"$HTC_OUTPUT_DIR/a/b\"", "a/b/secret" },
        { "rm -rf \"$HTC_SCRATCH\"; ln -s '%s' \"$HTC_SCRATCH\"", "secret" },
        { "d=${HTC_SCRATCH%%/work}; mv \"$d\" \"$d.away\"; ln -s '%s' \"$d\"", "secret" },
        { "ln -s '%s/secret' \"$HTC_OUTPUT_DIR/secret\"", "secret" },
        { "d=${HTC_SCRATCH%%/work}; rm \"$d/stderr\"; ln -s '%s/secret' \"$d/stderr\"", "stderr" },
    };
    for (size_t i = 0; i < sizeof traps / sizeof *traps; i++) {
        drive     d;
        char      away[600], secret[700], script[1024];
        htc_stage out = { "secret", "secret", HTC_STAGE_OVERWRITE };
        drive_open(&d);
        snprintf(away, sizeof away, "%s/away", d.dir);
        snprintf(secret, sizeof secret, "%s/secret", away);
        cr_assert(eq(int, mkdir(away, 0755), 0));
        write_file(secret, "nobody's business");
        cr_assert(eq(int, chmod(secret, 0640), 0));
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(script, sizeof script, traps[i].script, away);
#pragma GCC diagnostic pop
        d.task.out = &out;
        d.task.n_out = 1;
        shell(&d, script);
        d.keep = 1;
        drive_run(&d);
        expect_trap_empty(&d, &traps[i], secret);
        drive_close(&d);
    }
}

/* A second name of somebody's file is stored as a copy: the stored file is another inode, and theirs stays as it was. */
Test(exec_outputs, a_file_with_another_name_is_copied)
{
    drive       d;
    char        theirs[600], script[700], stored[1024];
    struct stat a, b;
    drive_open(&d);
    snprintf(theirs, sizeof theirs, "%s/theirs", d.dir);
    write_file(theirs, "shared\n");
    cr_assert(eq(int, chmod(theirs, 0644), 0));
    snprintf(script, sizeof script, "ln '%s' \"$HTC_OUTPUT_DIR/mine\"; echo own > \"$HTC_OUTPUT_DIR/own\"; chmod 0755 \"$HTC_OUTPUT_DIR/own\"",
             theirs);
    shell(&d, script);
    drive_run(&d);
    cr_assert(eq(int, d.staged_out, HTC_OK), "%s", d.text);
    expect_output(&d, "mine", "shared\n");
    expect_output(&d, "own", "own\n");
    snprintf(stored, sizeof stored, "%s/out/3/0/7.2/mine", d.data);
    cr_assert(eq(int, stat(theirs, &a), 0));
    cr_assert(eq(int, stat(stored, &b), 0));
    cr_expect(a.st_ino != b.st_ino);
    cr_expect(eq(u32, a.st_mode & 07777, 0644));
    cr_expect(eq(u32, (uint32_t)a.st_nlink, 1));
    drive_close(&d);
}

/* The streams are what the task was given, whatever it does to their names. */
Test(exec_outputs, a_stream_is_kept_without_its_name)
{
    drive d;
    drive_open(&d);
    shell(&d, "d=${HTC_SCRATCH%/work}; echo out; echo err >&2; rm \"$d/stdout\" \"$d/stderr\"; echo other > \"$d/stdout\"; exit 4");
    drive_run(&d);
    cr_assert(eq(int, d.staged_out, HTC_OK), "%s", d.text);
    expect_output(&d, "stdout", "out\n");
    expect_output(&d, "stderr", "err\n");
    cr_expect(eq(str, d.tail, "err\n"));
    drive_close(&d);
}

/* The working directory may be made anew; what is staged out is found in it. */
Test(exec_outputs, a_directory_made_anew_is_as_good)
{
    drive     d;
    htc_stage out = { "late", "late", HTC_STAGE_OVERWRITE };
    drive_open(&d);
    d.task.out = &out;
    d.task.n_out = 1;
    shell(&d, "rm -rf \"$HTC_SCRATCH\" \"$HTC_OUTPUT_DIR\"; mkdir \"$HTC_SCRATCH\" \"$HTC_OUTPUT_DIR\";"
              "echo late > \"$HTC_SCRATCH/late\"; echo x > \"$HTC_OUTPUT_DIR/x\"");
    drive_run(&d);
    cr_assert(eq(int, d.staged_out, HTC_OK), "%s", d.text);
    expect_output(&d, "late", "late\n");
    expect_output(&d, "x", "x\n");
    drive_close(&d);
}

/* A small disk: staging in and out both say that it is full, and nothing half is left. */
Test(exec_outputs, a_full_disk_is_told)
{
    drive d;
    char  big[600];
    drive_open(&d);
    cr_assert(eq(int, htc__make_dirs(d.data), 0));
    if (mount("none", d.data, "tmpfs", 0, "size=256k") != 0) {
        drive_close(&d);
        fprintf(stderr, "skipped: a small disk cannot be mounted here\n");
        cr_skip_test("a small disk cannot be mounted here");
    }
    snprintf(big, sizeof big, "head -c 1000000 /dev/zero > \"$HTC_OUTPUT_DIR/big\"");
    shell(&d, big);
    drive_run(&d);
    cr_expect(eq(int, d.outcome.status, HTC_OK), "%s", d.outcome.reason);
    cr_expect(eq(int, d.staged_out, HTC_ENOSPC), "%s", d.text);
    cr_assert(eq(int, umount(d.data), 0));
    drive_close(&d);
    drive_open(&d);
    cr_assert(eq(int, htc__make_dirs(d.slot), 0));
    cr_assert(eq(int, mount("none", d.slot, "tmpfs", 0, "size=256k"), 0));
    snprintf(big, sizeof big, "file://%s/big", d.dir);
    FILE *f = fopen(big + 7, "w");
    for (int i = 0; i < 1000000; i++)
        fputc('x', f);
    fclose(f);
    htc_stage in = { "big", big, HTC_STAGE_OVERWRITE };
    d.task.in = &in;
    d.task.n_in = 1;
    shell(&d, "exit 0");
    drive_run(&d);
    cr_expect(eq(int, d.staged_in, HTC_ENOSPC), "%s", d.text);
    cr_assert(eq(int, umount(d.slot), 0));
    drive_close(&d);
}
