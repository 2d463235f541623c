/* Outputs that go to URLs: what the executor gives to htc-transfer, and what it makes of the answer. The program is a script here. */
#include "exec_drive.h"
#include "roles/transfer/transfer_wire.h"

/* A program that keeps what it is to send as sent.N, the N-th time, and answers answer.N. */
static void make_program(drive *d, char path[400])
{
    char script[2500];
    snprintf(path, 400, "%s/transfer", d->dir);
    snprintf(script, sizeof script,
             "#!/bin/sh\nPATH=/usr/bin:/bin; cd '%s' || exit 1\ncat > asked; n=1; while [ -e sent.$n ]; do n=$((n + 1)); done\n"
             "cp -r '%s/scratch/3.7.2/send' sent.$n && cat answer.$n\n",
             d->dir, d->slot);
    write_file(path, script);
    cr_assert(eq(int, chmod(path, 0755), 0));
    d->transfer = path;
}

static void will_answer(const drive *d, int nth, htc_status status, const char *text)
{
    char    path[400];
    htc_buf b;
    snprintf(path, sizeof path, "%s/answer.%d", d->dir, nth);
    htc_buf_init(&b, NULL, 0);
    htc__transfer_answer_write(&b, status, text);
    FILE *f = fopen(path, "w");
    cr_assert(f && fwrite(b.data, 1, b.len, f) == b.len && fclose(f) == 0);
    htc_buf_free(&b);
}

static void expect_sent(const drive *d, const char *name, const char *content)
{
    char path[600], text[200] = "";
    snprintf(path, sizeof path, "%s/%s", d->dir, name);
    cr_expect(htc__read_text(path, text, sizeof text) >= 0, "%s", path);
    cr_expect(eq(str, text, (char *)(uintptr_t)content), "%s", name);
}

static int is_sent(const drive *d, const char *name)
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s", d->dir, name);
    return access(path, F_OK) == 0;
}

Test(exec_urls, outputs_are_stored_once_and_sent)
{
    htc_stage out[] = { { "a", "http://h/a", HTC_STAGE_OVERWRITE }, { "a", "https://other/a", HTC_STAGE_KEEP }, { "sub/b", "b", HTC_STAGE_OVERWRITE }, { "sub/b", "ftp://h/b", HTC_STAGE_OVERWRITE } };
    drive     d;
    char      path[400], asked[4000];
    drive_open(&d);
    make_program(&d, path);
    will_answer(&d, 1, HTC_OK, "");
    d.task.out = out;
    d.task.n_out = 4;
    d.task.credentials = "machine h login ada password s3cret";
    shell(&d, "echo one > a; mkdir sub; echo two > sub/b");
    drive_run(&d);
    cr_assert(eq(int, d.staged_out, HTC_OK), "%s", d.text);
    cr_expect(eq(int, d.stored.status, HTC_OK) && eq(u64, d.stored.outputs.files, 3) && eq(u64, d.stored.outputs.errors, 0), "%s", d.stored.reason);
    expect_output(&d, "a", "one\n");
    expect_output(&d, "b", "two\n");
    expect_output(&d, "sub/b", "two\n");
    expect_sent(&d, "sent.1/0", "one\n");
    expect_sent(&d, "sent.1/1", "one\n");
    expect_sent(&d, "sent.1/3", "two\n");
    cr_expect(!is_sent(&d, "sent.1/2"));
    snprintf(path, sizeof path, "%s/asked", d.dir);
    FILE  *f = fopen(path, "r");
    size_t n = f ? fread(asked, 1, sizeof asked, f) : 0;
    cr_assert(f && fclose(f) == 0);
    transfer_request  r;
    transfer_one      one;
    const struct { uint8_t up; const char *url; } want[] = { { TRANSFER_UP, "http://h/a" }, { TRANSFER_UP_NEW, "https://other/a" }, { TRANSFER_UP, "ftp://h/b" } };
    cr_assert(eq(int, htc__transfer_request_read((htc_bytes){ asked, n }, &r), HTC_OK));
    cr_expect(htc_bytes_equal(r.netrc, htc_bytes_of("machine h login ada password s3cret")));
    cr_assert(eq(sz, r.count, 3));
    for (size_t i = 0; i < 3; i++)
        cr_expect(htc__transfer_one_read(&r, &one) == HTC_OK && one.up == want[i].up && htc_bytes_equal(one.url, htc_bytes_of(want[i].url)), "%zu", i);
    drive_close(&d);
}

/* Whatever the server says, the outputs are there. */
Test(exec_urls, an_output_that_is_not_sent_is_stored)
{
    static const struct {
        htc_status answer, status;
        uint8_t    final;
    } rows[] = {
        { HTC_EINPUT, HTC_ESTAGEOUT, 1 },
        { HTC_ECLOSED, HTC_ECLOSED, 0 },
        { HTC_EUNREACHABLE, HTC_EUNREACHABLE, 0 },
        { HTC_EBUSY, HTC_EBUSY, 0 },
    };
    htc_stage out = { "a", "http://h/a", HTC_STAGE_OVERWRITE };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        drive d;
        char  path[400];
        drive_open(&d);
        make_program(&d, path);
        will_answer(&d, 1, rows[i].answer, "http://h/a: because");
        d.task.out = &out;
        d.task.n_out = 1;
        shell(&d, "echo one > a");
        drive_run(&d);
        cr_assert(eq(int, d.staged_out, HTC_OK), "%s", d.text);
        cr_expect(eq(int, d.stored.status, rows[i].status) && eq(u8, d.stored.final, rows[i].final), "row %zu", i);
        cr_expect(eq(str, d.stored.reason, "an output is not sent: http://h/a: because"));
        expect_output(&d, "a", "one\n");
        drive_close(&d);
    }
}

/* The second time nothing is stored anew: what the first has stored, and what it has sent, stays. */
Test(exec_urls, the_rest_is_sent_again)
{
    htc_stage out = { "a", "http://h/a", HTC_STAGE_OVERWRITE };
    drive     d;
    char      path[400];
    drive_open(&d);
    make_program(&d, path);
    will_answer(&d, 1, HTC_ECLOSED, "broken");
    will_answer(&d, 2, HTC_OK, "");
    d.sends_again = 1;
    d.task.out = &out;
    d.task.n_out = 1;
    shell(&d, "echo one > a; echo said");
    drive_run(&d);
    cr_expect(eq(int, d.staged_out, HTC_OK) && eq(int, d.stored.status, HTC_OK) && eq(str, d.stored.reason, "") && eq(u64, d.stored.outputs.files, 2));
    expect_sent(&d, "sent.2/0", "one\n");
    expect_output(&d, "a", "one\n");
    expect_output(&d, "stdout", "said\n");
    drive_close(&d);
}

/* What is half done does not replace what is behind the URL. */
Test(exec_urls, nothing_is_sent_of_a_task_that_failed)
{
    static const char *const scripts[] = { "echo one > a; exit 3", "echo one > a; kill -9 $$", "true", "echo one > a; rm -rf \"$HTC_OUTPUT_DIR\"; ln -s /etc \"$HTC_OUTPUT_DIR\"" };
    htc_stage                out = { "a", "http://h/a", HTC_STAGE_OVERWRITE };
    for (size_t i = 0; i < sizeof scripts / sizeof scripts[0]; i++) {
        drive d;
        char  path[400];
        drive_open(&d);
        make_program(&d, path);
        will_answer(&d, 1, HTC_OK, "");
        d.task.out = &out;
        d.task.n_out = 1;
        shell(&d, scripts[i]);
        drive_run(&d);
        cr_expect(eq(int, d.staged_out, HTC_OK) && eq(int, d.stored.status, i < 2 ? HTC_OK : HTC_ESTAGEOUT), "script %zu: %s", i, d.stored.reason);
        cr_expect(!is_sent(&d, "sent.1"), "script %zu", i);
        if (i != 2)
            expect_output(&d, "a", "one\n");
        drive_close(&d);
    }
}

Test(exec_urls, without_the_program_nothing_is_sent)
{
    htc_stage out = { "a", "http://h/a", HTC_STAGE_OVERWRITE };
    drive     d;
    drive_open(&d);
    d.task.out = &out;
    d.task.n_out = 1;
    shell(&d, "echo one > a");
    drive_run(&d);
    cr_expect(eq(int, d.staged_out, HTC_OK) && eq(int, d.stored.status, HTC_ESTAGEOUT) && eq(u8, d.stored.final, 1));
    cr_expect(strstr(d.stored.reason, "htc-transfer, which is not beside htc-agent"), "%s", d.stored.reason);
    expect_output(&d, "a", "one\n");
    drive_close(&d);
}
