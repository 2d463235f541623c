/* Inputs that are files or directories of the machine. */
#include "exec_drive.h"

/* A directory of the machine is copied: what the task does to it, it does to its own. */
Test(exec_inputs, a_directory_is_an_input)
{
    for (int slash = 0; slash <= 1; slash++) {
        drive     d;
        char      uri[600], path[700], text[100] = "";
        htc_stage in = { "deep/input", uri, HTC_STAGE_OVERWRITE };
        drive_open(&d);
        snprintf(path, sizeof path, "%s/from/sub", d.dir);
        cr_assert(eq(int, htc__make_dirs(path), 0));
        snprintf(path, sizeof path, "%s/from/sub/file", d.dir);
        write_file(path, "words\n");
        snprintf(path, sizeof path, "%s/from/run", d.dir);
        write_file(path, "#!/bin/sh\ncat deep/input/link\n");
        cr_assert(eq(int, chmod(path, 0750), 0));
        snprintf(path, sizeof path, "%s/from/link", d.dir);
        cr_assert(eq(int, symlink("sub/file", path), 0));
        snprintf(uri, sizeof uri, slash ? "file:%s/from/" : "file://%s/from", d.dir);
        d.task.in = &in;
        d.task.n_in = 1;
        shell(&d, "deep/input/run && echo changed > deep/input/sub/file && rm deep/input/run");
        drive_run(&d);
        cr_expect(eq(int, d.staged_in, HTC_OK), "%s: %s", uri, d.text);
        cr_expect(eq(int, d.outcome.status, HTC_OK));
        expect_output(&d, "stdout", "words\n");
        snprintf(path, sizeof path, "%s/from/sub/file", d.dir);
        cr_expect(htc__read_text(path, text, sizeof text) == 6 && strcmp(text, "words\n") == 0);
        drive_close(&d);
    }
}

/* What lies where the task runs already is not emptied before it is read. */
Test(exec_inputs, an_input_that_is_there_already_stays)
{
    static const uint32_t how[] = { HTC_STAGE_OVERWRITE, HTC_STAGE_APPEND, HTC_STAGE_KEEP };
    for (size_t i = 0; i < sizeof how / sizeof how[0]; i++) {
        drive     d;
        char      uri[600], path[700], text[100] = "";
        htc_stage in = { "words", uri, how[i] };
        drive_open(&d);
        snprintf(path, sizeof path, "%s/words", d.dir);
        write_file(path, "words\n");
        snprintf(uri, sizeof uri, "file://%s/words", d.dir);
        d.task.in = &in;
        d.task.n_in = 1;
        d.task.directory = d.dir;
        shell(&d, "cat words");
        drive_run(&d);
        cr_expect(eq(int, d.staged_in, HTC_OK), "%s", d.text);
        expect_output(&d, "stdout", "words\n");
        cr_expect(htc__read_text(path, text, sizeof text) == 6);
        drive_close(&d);
    }
}
