/* Inputs that are files or directories of the machine, and a working directory that is to be one. */
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

/* All of a directory's name that there is room for; else its ends, of which the last one tells most. */
Test(exec_inputs, the_directory_that_is_not_there_is_named)
{
    static const size_t long_as[] = { 140, 600 };
    for (size_t i = 0; i < 2; i++) {
        drive d;
        char  path[700], whole[800];
        drive_open(&d);
        snprintf(path, sizeof path, "%s/", d.dir);
        while (strlen(path) < long_as[i])
            strcat(path, "none/");
        strcat(path, "the-end");
        d.task.directory = path;
        shell(&d, "exit 0");
        drive_run(&d);
        snprintf(whole, sizeof whole, "sh: entering its directory %s: No such file or directory", path);
        cr_expect(eq(int, d.outcome.status, HTC_ENOEXEC));
        if (i == 0)
            cr_expect(eq(str, d.outcome.reason, whole));
        else
            cr_expect(strlen(d.outcome.reason) == sizeof d.outcome.reason - 1 && strncmp(d.outcome.reason, whole, 100) == 0 && strstr(d.outcome.reason, "...") &&
                          strstr(d.outcome.reason, "none/the-end: No such file or directory"), "%s", d.outcome.reason);
        drive_close(&d);
    }
}
