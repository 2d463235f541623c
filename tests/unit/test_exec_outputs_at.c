/* Outputs that are stored in a gateway's directory which is seen here too: only in that one, below the job's place that the gateway has made, as the uid
 * that the agent has; else as without it. */
#include "exec_drive.h"
#include "net/exec/objects_file.h"
#include "net/exec/outputs_at.h"

#define ID    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define OTHER "0123456789abcdefffffffffffffffffffffffffffffffffffffffffffffffff"

static drive d;
static char  shared[512], place[600];

/* The gateway's directory, with an id; the job's place is there if made. */
static void begin(const char *id, int made)
{
    char path[700];
    drive_open(&d);
    snprintf(shared, sizeof shared, "%s/gateway", d.dir);
    snprintf(place, sizeof place, "%s/out/3", shared);
    snprintf(path, sizeof path, "%s/ids", shared);
    cr_assert(eq(int, htc__make_dirs(path), 0));
    snprintf(path, sizeof path, "%s/out", shared);
    cr_assert(eq(int, htc__make_dirs(made ? place : path), 0));
    snprintf(path, sizeof path, "%s/ids/%.16s", shared, id);
    FILE *f = fopen(path, "w");
    cr_assert(f && fputs(id, f) >= 0 && fclose(f) == 0);
    d.at_dir = shared;
    d.at_id = ID;
    shell(&d, "echo kept > \"$HTC_OUTPUT_DIR/kept\"");
}

static int has(const char *top)
{
    char path[800], text[16];
    snprintf(path, sizeof path, "%s/out/3/0/7.2/files/kept", top);
    return htc__read_text(path, text, sizeof text) == 5;
}

Test(exec_outputs_at, outputs_go_to_the_directory_that_has_the_id)
{
    begin(ID, 1);
    d.outputs_in = shared;
    drive_run(&d);
    cr_expect(eq(int, d.at_status, HTC_OK), "%s", d.text);
    cr_expect(eq(int, d.staged_out, HTC_OK));
    cr_expect(eq(u64, d.stored.outputs.files, 1));
    cr_expect(has(shared) && !has(d.data));
    drive_close(&d);
}

/* Tasks of a flow read what others have left, wherever that is stored. */
Test(exec_outputs_at, an_output_there_is_found_as_an_object)
{
    htc__outputs_at    at;
    htc_buf            b;
    const htc_attempt  attempt = { 3, 7, 2 };
    htc__objects_place store = { .dir = -1, .outputs_at = &at };
    begin(ID, 1);
    d.outputs_in = shared;
    drive_run(&d);
    store.data = open(d.data, O_PATH | O_DIRECTORY);
    htc__outputs_at_open(&at);
    htc_buf_init(&b, NULL, 0);
    cr_expect(eq(int, htc__object_output(&store, &attempt, "kept", &b), HTC_ENOTFOUND));
    at.fd = open(shared, O_PATH | O_DIRECTORY);
    cr_expect(eq(int, htc__object_output(&store, &attempt, "kept", &b), HTC_OK));
    cr_expect(eq(u64, b.len, 32 + 8));
    htc_buf_clear(&b);
    cr_expect(eq(int, htc__object_output_read(&store, &attempt, "kept", 100, &b), HTC_OK));
    cr_expect(b.len >= 5 && memcmp(b.data + b.len - 5, "kept\n", 5) == 0);
    htc_buf_free(&b);
    htc__outputs_at_close(&at);
    close(store.data);
    drive_close(&d);
}

Test(exec_outputs_at, a_copy_with_an_older_id_is_not_it)
{
    begin(OTHER, 1);
    drive_run(&d);
    cr_expect(eq(int, d.at_status, HTC_ENOTFOUND));
    cr_expect(strstr(d.text, "another directory") != NULL, "%s", d.text);
    cr_expect(has(d.data) && !has(shared));
    drive_close(&d);
}

Test(exec_outputs_at, a_job_without_a_place_there_gets_none)
{
    begin(ID, 0);
    drive_run(&d);
    cr_expect(eq(int, d.at_status, HTC_OK));
    cr_expect(eq(int, d.staged_out, HTC_OK));
    cr_expect(has(d.data));
    cr_expect(access(place, F_OK) != 0, "it was made");
    drive_close(&d);
}

Test(exec_outputs_at, a_link_in_its_place_is_not_followed)
{
    char victim[700], below[800];
    begin(ID, 0);
    snprintf(victim, sizeof victim, "%s/victim", d.dir);
    snprintf(below, sizeof below, "%s/0", victim);
    cr_assert(mkdir(victim, 0777) == 0 && symlink(victim, place) == 0);
    drive_run(&d);
    cr_expect(eq(int, d.staged_out, HTC_OK));
    cr_expect(has(d.data));
    cr_expect(access(below, F_OK) != 0, "it was written behind a link");
    drive_close(&d);
}

/* An agent of another user may read the id, and gains nothing by it. */
Test(exec_outputs_at, the_place_of_another_uid_stays_closed)
{
    char path[700];
    begin(ID, 1);
    if (geteuid() == 0) {
        snprintf(path, sizeof path, "%s/slots", d.dir);
        cr_assert(htc__make_dirs(path) == 0);
        cr_assert(chmod(d.dir, 0711) == 0 && chmod(shared, 0711) == 0 && chown(path, 65101, 65101) == 0 && chown(d.data, 65101, 65101) == 0);
        snprintf(path, sizeof path, "%s/out", shared);
        cr_assert(chmod(path, 0711) == 0);
        snprintf(path, sizeof path, "%s/ids", shared);
        cr_assert(chmod(path, 0711) == 0 && chmod(place, 0700) == 0);
        snprintf(path, sizeof path, "%s/ids/%.16s", shared, ID);
        cr_assert(chmod(path, 0444) == 0);
        snprintf(path, sizeof path, "%s/out", d.data);
        cr_assert(chown(path, 65101, 65101) == 0 && chown(d.place, 65101, 65101) == 0);
        cr_assert(setresgid(65101, 65101, 65101) == 0 && setresuid(65101, 65101, 0) == 0);
    } else {
        cr_assert(chmod(place, 0500) == 0);
    }
    drive_run(&d);
    cr_expect(eq(int, d.at_status, HTC_OK), "%s", d.text);
    cr_expect(eq(int, d.staged_out, HTC_OK), "%s", d.text);
    cr_expect(has(d.data));
    if (geteuid() == 65101)
        cr_assert(setresuid(0, 0, 0) == 0);
    cr_expect(!has(shared));
    drive_close(&d);
}

Test(exec_outputs_at, a_directory_that_is_not_there_is_told)
{
    begin(ID, 1);
    d.at_dir = "/no/such/directory";
    drive_run(&d);
    cr_expect(eq(int, d.at_status, HTC_ENOTFOUND));
    cr_expect(strstr(d.text, "/no/such/directory") != NULL, "%s", d.text);
    cr_expect(has(d.data));
    drive_close(&d);
}
