/* What the executor makes of a task's outputs: what is stored, what is not and why, and that nothing which the task does to
 * its directories leads to a file of somebody else. */
#include "exec_drive.h"
#include "net/files/manifest.h"

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
    cr_expect(eq(int, d.stored.status, HTC_OK));
    cr_expect(eq(u64, d.stored.outputs.files, 4));
    cr_expect(eq(u64, d.stored.outputs.errors, 3));
    expect_line(&d, "link", "leaves the output directory");
    expect_line(&d, "pipe", "not a regular file");
    expect_output(&d, "energy.txt", "-7.5\n");
    expect_output(&d, "named/poses", "p\n");
    expect_output(&d, "deep/er/file", "x\n");
    expect_output(&d, "stdout", "to stdout\n");
    cr_expect(htc__read_text(target + 7, text, sizeof text) == 2);
    drive_close(&d);
}

/* What does not belong to the task, or is not there, is named in the reason and in the manifest, and costs nothing else. */
Test(exec_outputs, outputs_cannot_leave_their_place)
{
    static const struct {
        const char *script;
        htc_stage   out;
        uint8_t     final;
        const char *reason;
    } cases[] = {
        { "exit 0", { "missing", "missing", HTC_STAGE_OVERWRITE }, 0, "missing: the task did not write it" },
        { "rm -rf \"$HTC_SCRATCH\"", { "missing", "missing", HTC_STAGE_OVERWRITE }, 0, "missing: the task did not write it" },
        { "ln -s /etc/passwd x", { "x", "x", HTC_STAGE_OVERWRITE }, 1, "x: not a regular file" },
        { "ln -s /etc d", { "d/passwd", "passwd", HTC_STAGE_OVERWRITE }, 1, "d/passwd: " },
        { "mkdir x", { "x", "x", HTC_STAGE_OVERWRITE }, 1, "x: not a regular file" },
        { "echo > x", { "x", "file:///no/such/dir/x", HTC_STAGE_OVERWRITE }, 0, "x: cannot write /no/such/dir/x" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        drive d;
        char  script[200];
        drive_open(&d);
        d.task.out = &cases[i].out;
        d.task.n_out = 1;
        snprintf(script, sizeof script, "echo said; echo kept > \"$HTC_OUTPUT_DIR/kept\"; %s", cases[i].script);
        shell(&d, script);
        drive_run(&d);
        cr_assert(eq(int, d.staged_out, HTC_OK), "case %zu: %s", i, d.text);
        cr_expect(eq(int, d.stored.status, HTC_ESTAGEOUT), "case %zu", i);
        cr_expect(eq(u8, d.stored.final, cases[i].final), "case %zu", i);
        cr_expect(strstr(d.stored.reason, cases[i].reason) != NULL, "case %zu: %s", i, d.stored.reason);
        cr_expect(eq(u64, d.stored.outputs.errors, 1));
        expect_line(&d, cases[i].out.name, "\"error\":");
        expect_output(&d, "stdout", "said\n");
        expect_output(&d, "kept", "kept\n");
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
    snprintf(stored, sizeof stored, "%s/out/3/0/7.2/files/%s", d->data, t->stored);
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
    snprintf(script, sizeof script, "ln '%s' \"$HTC_OUTPUT_DIR/mine\"; cd \"$HTC_OUTPUT_DIR\"; echo own > own; chmod 0755 own",
             theirs);
    shell(&d, script);
    drive_run(&d);
    cr_assert(eq(int, d.staged_out, HTC_OK), "%s", d.text);
    expect_output(&d, "mine", "shared\n");
    expect_output(&d, "own", "own\n");
    snprintf(stored, sizeof stored, "%s/out/3/0/7.2/files/mine", d.data);
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

/* The other name under which a target is written first may be a trap: what it leads to stays as it was. */
Test(exec_outputs, a_target_is_not_written_through_a_trap)
{
    for (int hard = 0; hard < 2; hard++) {
        drive     d;
        char      theirs[600], uri[600], beside[700], text[64];
        drive_open(&d);
        snprintf(theirs, sizeof theirs, "%s/theirs", d.dir);
        snprintf(uri, sizeof uri, "file://%s/delivered", d.dir);
        snprintf(beside, sizeof beside, "%s/delivered.htc-3.7.2", d.dir);
        write_file(theirs, "theirs\n");
        cr_assert(eq(int, hard ? link(theirs, beside) : symlink(theirs, beside), 0));
        htc_stage out = { "x", uri, HTC_STAGE_OVERWRITE };
        d.task.out = &out;
        d.task.n_out = 1;
        shell(&d, "echo mine > x; chmod 755 x");
        drive_run(&d);
        cr_expect(eq(int, d.stored.status, HTC_OK), "%s", d.stored.reason);
        htc__read_text(theirs, text, sizeof text);
        cr_expect(eq(str, text, "theirs\n"));
        htc__read_text(uri + 7, text, sizeof text);
        cr_expect(eq(str, text, "mine\n"));
        cr_expect(eq(int, access(uri + 7, X_OK), 0), "its execute bit is lost");
        drive_close(&d);
    }
}

/* A directory on the way to the store that is a link now is not followed, for storing or for dropping. */
/* Nobody reads the FIFO: whoever waited for a reader would have the thread for ever. Nor is it replaced. */
Test(exec_outputs, a_fifo_as_a_target_holds_nobody_and_stays, .timeout = 60)
{
    static const uint32_t flags[] = { HTC_STAGE_APPEND, HTC_STAGE_OVERWRITE };
    for (size_t i = 0; i < 2; i++) {
        drive       d;
        char        uri[700];
        struct stat st;
        drive_open(&d);
        snprintf(uri, sizeof uri, "file://%s/fifo", d.dir);
        cr_assert(eq(int, mkfifo(uri + 7, 0600), 0));
        htc_stage out = { "x", uri, flags[i] };
        d.task.out = &out;
        d.task.n_out = 1;
        shell(&d, "echo x > x");
        drive_run(&d);
        cr_expect(eq(int, d.staged_out, HTC_OK), "%s", d.text);
        cr_expect(strstr(d.stored.reason, "it is there, and no file") != NULL, "%s", d.stored.reason);
        cr_expect(lstat(uri + 7, &st) == 0 && S_ISFIFO(st.st_mode));
        drive_close(&d);
    }
}

Test(exec_outputs, a_target_is_appended_to)
{
    drive d;
    char  uri[700], text[64];
    drive_open(&d);
    snprintf(uri, sizeof uri, "file://%s/file", d.dir);
    htc_stage out = { "x", uri, HTC_STAGE_APPEND };
    d.task.out = &out;
    d.task.n_out = 1;
    shell(&d, "echo x > x");
    drive_run(&d);
    drive_run(&d);
    cr_expect(eq(int, d.staged_out, HTC_OK), "%s", d.text);
    cr_expect(htc__read_text(uri + 7, text, sizeof text) > 0 && strcmp(text, "x\nx\n") == 0, "%s", text);
    drive_close(&d);
}

Test(exec_outputs, a_target_is_not_appended_to_itself, .timeout = 60)
{
    drive d;
    char  target[600], path[700], text[64] = "";
    drive_open(&d);
    snprintf(target, sizeof target, "file:%s/log", d.dir);
    htc_stage out = { "log", target, HTC_STAGE_APPEND };
    d.task.out = &out;
    d.task.n_out = 1;
    d.task.directory = d.dir;
    shell(&d, "echo line >> log");
    drive_run(&d);
    cr_expect(eq(int, d.staged_out, HTC_OK) && eq(int, d.stored.status, HTC_OK), "%s", d.stored.reason);
    snprintf(path, sizeof path, "%s/log", d.dir);
    cr_expect(htc__read_text(path, text, sizeof text) == 5 && strcmp(text, "line\n") == 0);
    drive_close(&d);
}

Test(exec_outputs, the_store_is_not_left_through_a_link)
{
    drive       d;
    char        path[700], away[600];
    htc_attempt attempt = { 3, 7, 2 };
    drive_open(&d);
    snprintf(path, sizeof path, "%s/out/3", d.data);
    snprintf(away, sizeof away, "%s/away", d.dir);
    cr_assert(eq(int, htc__make_dirs(path), 0));
    cr_assert(eq(int, mkdir(away, 0700), 0));
    snprintf(path, sizeof path, "%s/7.2", away);
    cr_assert(eq(int, mkdir(path, 0700), 0));
    snprintf(path, sizeof path, "%s/out/3/0", d.data);
    cr_assert(eq(int, symlink(away, path), 0));
    shell(&d, "echo said");
    drive_run(&d);
    cr_expect(d.staged_out != HTC_OK, "stored through a link");
    htc__drop_outputs(d.data, &attempt);
    snprintf(path, sizeof path, "%s/7.2", away);
    cr_expect(eq(int, access(path, F_OK), 0), "removed through a link");
    drive_close(&d);
}

/* A small disk: staging in and out both say that it is full, and nothing half is left. */
Test(exec_outputs, a_full_disk_is_told)
{
    drive d;
    char  big[600];
    drive_open(&d);
    if (mount("none", d.data, "tmpfs", 0, "size=256k") != 0) {
        drive_close(&d);
        fprintf(stderr, "skipped: a small disk cannot be mounted here\n");
        cr_skip_test("a small disk cannot be mounted here");
    }
    cr_assert(eq(int, htc__make_dirs(d.place), 0));
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

/* A path of the node to which an output goes is storage too: where it is full the output is tried again later. What is appended is not: a part of it is there. */
Test(exec_outputs, a_full_disk_of_a_target_is_told)
{
    drive d;
    char  there[600], log[600];
    drive_open(&d);
    snprintf(there, sizeof there, "%s/there", d.dir);
    cr_assert(eq(int, htc__make_dirs(there), 0));
    if (mount("none", there, "tmpfs", 0, "size=64k") != 0) {
        drive_close(&d);
        fprintf(stderr, "skipped: a small disk cannot be mounted here\n");
        cr_skip_test("a small disk cannot be mounted here");
    }
    snprintf(there, sizeof there, "file://%s/there/big", d.dir);
    snprintf(log, sizeof log, "file://%s/there/log", d.dir);
    htc_stage out[2] = { { "line", log, HTC_STAGE_APPEND }, { "big", there, HTC_STAGE_OVERWRITE } };
    d.task.out = out;
    d.task.n_out = 2;
    shell(&d, "echo once > line; head -c 200000 /dev/zero > big");
    drive_run(&d);
    cr_expect(eq(int, d.outcome.status, HTC_OK), "%s", d.outcome.reason);
    cr_expect(eq(int, d.staged_out, HTC_ENOSPC) && strstr(d.text, "there/big"), "%s", d.text);
    cr_expect(access(there + 7, F_OK) != 0, "a part of it is there");
    out[0] = (htc_stage){ "big", there, HTC_STAGE_APPEND };
    d.task.n_out = 1;
    drive_run(&d);
    cr_expect(eq(int, d.staged_out, HTC_OK) && eq(int, d.stored.status, HTC_ESTAGEOUT), "%s", d.text);
    snprintf(there, sizeof there, "%s/there", d.dir);
    cr_assert(eq(int, umount(there), 0));
    drive_close(&d);
}

/* --- one output that cannot be stored, and the others --- */

/* Thousands of files are no limit, and a name may be longer than one part of it. */
Test(exec_outputs, many_files_and_long_names_are_stored)
{
    drive d;
    char  part[201], name[900];
    drive_open(&d);
    memset(part, 'n', 200);
    part[200] = 0;
    snprintf(name, sizeof name, "%s/%s/%s/x", part, part, part);
    shell(&d, "cd \"$HTC_OUTPUT_DIR\"; seq 1 2500 | split -l 1 -a 4; n=$(head -c 200 /dev/zero | tr '\\0' n);"
              "mkdir -p $n/$n/$n; echo deep > $n/$n/$n/x; echo said");
    drive_run(&d);
    cr_assert(eq(int, d.stored.status, HTC_OK), "%s", d.stored.reason);
    cr_expect(eq(u64, d.stored.outputs.files, 2502));
    cr_expect(eq(u64, d.stored.outputs.dirs, 3));
    expect_output(&d, "xaaaa", "1\n");
    expect_output(&d, name, "deep\n");
    expect_output(&d, "stdout", "said\n");
    drive_close(&d);
}

/* A stream is stored under its name; the task's own file of that name gets another one, and that is said. */
Test(exec_outputs, a_file_called_as_a_stream_is_renamed)
{
    drive d;
    drive_open(&d);
    shell(&d, "cd \"$HTC_OUTPUT_DIR\"; echo printed; echo own > stdout; mkdir stderr; echo in > stderr/x; echo err >&2");
    drive_run(&d);
    expect_output(&d, "stdout", "printed\n");
    expect_output(&d, "stderr", "err\n");
    expect_output(&d, "stdout.2", "own\n");
    expect_line(&d, "stdout.2", "\"was\":\"stdout\"");
    expect_line(&d, "stderr/x", "\"error\":\"another output has its name\"");
    cr_expect(eq(int, d.stored.status, HTC_ESTAGEOUT));
    cr_expect(eq(u8, d.stored.final, 1), "it would be so the next time");
    drive_close(&d);
}

/* Two that nobody may read: named, in the manifest and in the reason, and the rest is stored. As somebody who is not root. */
Test(exec_outputs, what_cannot_be_read_is_named)
{
    drive d;
    drive_open(&d);
    if (getuid() == 0) {
        char above[620];
        snprintf(above, sizeof above, "%s/..", d.place);
        const char *const dirs[] = { d.dir, d.data, above, d.place };
        for (size_t i = 0; i < sizeof dirs / sizeof *dirs; i++)
            cr_assert(eq(int, chown(dirs[i], 65534, 65534), 0));
        cr_assert(eq(int, setresuid(65534, 65534, 0), 0));
    }
    shell(&d, "cd \"$HTC_OUTPUT_DIR\"; echo a > a; echo b > b; chmod 0 b; mkdir c; chmod 0 c; echo said");
    drive_run(&d);
    if (geteuid() == 65534)
        cr_assert(eq(int, setresuid(0, 0, 0), 0));
    cr_assert(eq(int, d.staged_out, HTC_OK), "%s", d.text);
    cr_expect(eq(int, d.stored.status, HTC_ESTAGEOUT));
    cr_expect(eq(u8, d.stored.final, 1));
    cr_expect(strncmp(d.stored.reason, "2 outputs are not stored: ", 26) == 0, "%s", d.stored.reason);
    expect_line(&d, "b", "\"mode\":\"0000\",\"error\":\"Permission denied\"");
    expect_line(&d, "c", "\"error\":\"Permission denied\"");
    expect_output(&d, "a", "a\n");
    expect_output(&d, "stdout", "said\n");
    drive_close(&d);
}

Test(exec_outputs, a_removed_working_directory_is_no_failure)
{
    drive d;
    drive_open(&d);
    shell(&d, "echo said; echo x > \"$HTC_OUTPUT_DIR/x\"; rm -rf \"$TMPDIR\"");
    drive_run(&d);
    cr_assert(eq(int, d.staged_out, HTC_OK), "%s", d.text);
    cr_expect(eq(int, d.stored.status, HTC_OK), "%s", d.stored.reason);
    expect_output(&d, "stdout", "said\n");
    expect_output(&d, "x", "x\n");
    drive_close(&d);
}

/* With little room: a stream as far as it goes, no file that is too large, each smaller one. */
Test(exec_outputs, what_is_too_large_is_named_and_streams_are_cut)
{
    drive d;
    drive_open(&d);
    d.outputs_bytes_max = 1000;
    shell(&d, "head -c 900 /dev/zero | tr '\\0' o; cd \"$HTC_OUTPUT_DIR\"; head -c 101 /dev/zero > large; echo > small");
    drive_run(&d);
    cr_expect(eq(int, d.stored.status, HTC_ESTAGEOUT));
    expect_line(&d, "stdout", "\"size\":900,");
    expect_line(&d, "large", "too large: outputs may have 1000 bytes together");
    expect_output(&d, "small", "\n");
    drive_close(&d);
    drive_open(&d);
    d.outputs_bytes_max = 1000;
    shell(&d, "head -c 90000 /dev/zero | tr '\\0' o");
    drive_run(&d);
    expect_line(&d, "stdout", "\"size\":1000,");
    expect_line(&d, "stdout", "cut: outputs may have 1000 bytes together");
    drive_close(&d);
}

/* --- links, directories, modes --- */

Test(exec_outputs, links_directories_and_modes_are_kept)
{
    drive d;
    drive_open(&d);
    shell(&d, "cd \"$HTC_OUTPUT_DIR\"; mkdir -p a/empty; echo '#!/bin/sh' > a/run; chmod 755 a/run; ln -s a/run go; ln -s ../go a/back;"
              "ln -s nowhere dangling; ln -s ../x leaves; ln -s a/../../x around; ln -s \"$HTC_OUTPUT_DIR/a\" absolute");
    drive_run(&d);
    cr_assert(eq(int, d.stored.status, HTC_OK), "%s", d.stored.reason);
    expect_line(&d, "a/empty", "{\"type\":\"d\",");
    expect_line(&d, "a/run", "\"mode\":\"0755\"");
    expect_line(&d, "go", "{\"type\":\"l\",");
    expect_line(&d, "go", "\"target\":\"a/run\"}");
    expect_line(&d, "a/back", "\"target\":\"../go\"}");
    expect_line(&d, "dangling", "\"target\":\"nowhere\"}");
    static const char *const leave[] = { "leaves", "around", "absolute" };
    for (size_t i = 0; i < 3; i++)
        expect_line(&d, leave[i], "\"error\":\"a link that leaves the output directory\"");
    cr_expect(eq(u64, d.stored.outputs.links, 3));
    cr_expect(eq(u64, d.stored.outputs.dirs, 2));
    cr_expect(strncmp(d.stored.reason, "3 outputs are not stored: ", 26) == 0, "%s", d.stored.reason);
    drive_close(&d);
}

Test(exec_outputs, links_that_stay_are_told_from_links_that_leave)
{
    static const struct {
        const char *target;
        unsigned    depth;
        int         stays;
    } cases[] = { { "a", 0, 1 },      { "./a/b", 0, 1 },   { ".", 0, 1 },     { "..", 1, 1 },  { "../../a", 2, 1 }, { ".././../a", 2, 1 },
                  { "", 0, 0 },       { "/a", 5, 0 },      { "..", 0, 0 },    { "../..", 1, 0 }, { "a/..", 3, 0 },  { "../a/../b", 3, 0 },
                  { "..a", 0, 1 },    { "...", 0, 1 },     { "a//b/", 0, 1 }, { "./..", 0, 0 } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        cr_expect(eq(int, htc__link_stays(cases[i].target, cases[i].depth), cases[i].stays), "%s at %u", cases[i].target, cases[i].depth);
}

/* --- names --- */

Test(exec_outputs, names_are_shown_as_one_text_each)
{
    static const char *const cases[][2] = {
        { "plain", "plain" },   { "\xC3\xA4", "\xC3\xA4" }, { "\xFF", "%FF" },    { "%FF", "%25FF" }, { "50%", "50%" },
        { "a\tb\nc", "a%09b%0Ac" }, { "\x1B[1m", "%1B[1m" },   { "\xC2\x9B", "%C2%9B" }, { "%%41", "%%2541" }, { "\x7F", "%7F" },
    };
    char shown[64], back[64];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cr_assert(eq(int, htc__name_show(cases[i][0], shown, sizeof shown), 0));
        cr_expect(eq(str, shown, (char *)cases[i][1]));
        cr_assert(eq(int, htc__name_of_shown(shown, back, sizeof back), 0));
        cr_expect(eq(str, back, (char *)cases[i][0]));
    }
    /* any bytes: there and back again */
    static const char letters[] = "%%%%0123456789abcdefABCDEF\t\xC2\x9B\xC3\xA4\xFFz";
    htc_rng           rng = { 7 };
    for (int i = 0; i < 20000; i++) {
        char   name[20];
        size_t n = htc_rng_below(&rng, sizeof name);
        for (size_t k = 0; k < n; k++)
            name[k] = letters[htc_rng_below(&rng, sizeof letters - 1)];
        name[n] = 0;
        cr_assert(eq(int, htc__name_show(name, shown, sizeof shown), 0));
        cr_assert(eq(int, htc__name_of_shown(shown, back, sizeof back), 0));
        cr_assert(eq(str, back, name), "shown as %s", shown);
    }
    cr_expect(eq(int, htc__name_show("four", shown, 4), -1));
    cr_expect(eq(int, htc__name_of_shown("a%00b", back, sizeof back), -1));
}

/* Names that no message could carry are stored all the same, each under its own. */
Test(exec_outputs, odd_names_are_stored)
{
    drive d;
    drive_open(&d);
    shell(&d, "cd \"$HTC_OUTPUT_DIR\"; for n in \"$(printf 'a\\tb')\" \"$(printf 'c\\377')\" c%FF '\"q\\'; do echo \"$n\" > \"$n\"; done");
    drive_run(&d);
    cr_assert(eq(int, d.stored.status, HTC_OK), "%s", d.stored.reason);
    cr_expect(eq(u64, d.stored.outputs.files, 4));
    expect_line(&d, "a%09b", "\"size\":4,");
    expect_line(&d, "c%FF", "\"size\":3,");
    expect_line(&d, "c%25FF", "\"size\":5,");
    expect_line(&d, "\\\"q\\\\", "\"size\":4,");
    drive_close(&d);
}

/* ---- turns ---- */

static int lock_of(const drive *d, uint32_t turn)
{
    struct flock one = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = turn, .l_len = 1 };
    char         path[700];
    snprintf(path, sizeof path, "%s/slots", d->dir);
    cr_assert(eq(int, htc__make_dirs(path), 0));
    snprintf(path, sizeof path, "%s/slots/stages.%u", d->dir, (unsigned)geteuid());
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    cr_assert(fd >= 0 && fcntl(fd, F_OFD_SETLK, &one) == 0);
    return fd;
}

/* While others have all turns nothing is staged, and with one of them free it is. */
Test(exec_outputs, wait_for_a_turn)
{
    for (uint32_t max = 1; max <= 3; max++) {
        for (uint32_t others = max - 1; others <= max; others++) {
            drive d;
            int   held[3];
            drive_open(&d);
            d.stages_max = max;
            for (uint32_t i = 0; i < others; i++)
                held[i] = lock_of(&d, i);
            shell(&d, "echo something");
            drive_run(&d);
            cr_expect(eq(int, d.staged_out, others < max ? HTC_OK : HTC_AGAIN), "%u of %u", others, max);
            cr_expect(eq(u64, d.stored.outputs.files, others < max));
            for (uint32_t i = 0; i < others; i++)
                close(held[i]);
            drive_close(&d);
        }
    }
}

/* Two of one process are two: a turn belongs to who opened it. */
/* HTCaaS 6: Many agents write to one storage. */
Test(exec_outputs, turns_are_as_many_as_there_are)
{
    char slot[] = "/tmp/htc-turns-XXXXXX/slots/local.0";
    slot[21] = 0;
    cr_assert(mkdtemp(slot) != NULL);
    slot[21] = '/';
    cr_assert(eq(int, htc__make_dirs(slot), 0));
    htc_agent_host a = { .slot_dir = slot, .stages_max = 5, .agent = 4 };
    int            turns[5];
    for (uint64_t i = 0; i < 5; i++)
        cr_assert((turns[i] = htc__turn_take(&a, i * 3)) >= 0);
    cr_expect(eq(int, htc__turn_take(&a, 8), HTC__TURN_NONE));
    htc__turn_give(turns[2]);
    cr_assert((turns[2] = htc__turn_take(&a, 9)) >= 0);
    cr_expect(eq(int, htc__turn_take(&a, 10), HTC__TURN_NONE));
    for (int i = 0; i < 5; i++)
        htc__turn_give(turns[i]);
    a.stages_max = 0;
    cr_expect(eq(int, htc__turn_take(&a, 1), HTC__TURN_FREE));
    slot[21] = 0;
    cr_expect(eq(int, htc__remove_tree(slot), 0));
}
