/* Log files: one line stays one, as text or as an object, and what they take of the disk is bounded. */
#include "expect.h"

#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/util.h"
#include "htcsched/host.h"

/* Whatever the words: a line is an object of four strings, and the message is what was said, as far as there is room. */
Test(logfile, a_log_of_json)
{
    static const char *const said[] = { "plain", "a \"quote\" and a \\ and a \n and a \x1b and \xff", "\xc3\xa4\xe2\x82\xac", "" };
    static const char *const read[] = { "plain", "a \"quote\" and a \\ and a ? and a ? and ?", "\xc3\xa4\xe2\x82\xac", "" };
    char                     path[] = "/tmp/htc-test-log-XXXXXX", text[4096], longest[3000];
    htc_logfile             *f;
    htc_error                error;
    int                      fd = mkstemp(path), lines = 0;
    htc_logfile_options      o = { .size = sizeof o, .name = "te\"st", .fd = fd, .json = 1 };
    cr_assert(fd >= 0 && htc_logfile_open(&o, &f, &error) == HTC_OK);
    const htc_log *log = htc_logfile_log(f);
    for (size_t i = 0; i < sizeof said / sizeof *said; i++)
        log->write(log->ctx, HTC_LOG_WARN, said[i]);
    for (size_t i = 0; i < sizeof longest - 1; i++)
        longest[i] = "\"\xc3\xa4"[i % 3];
    longest[sizeof longest - 1] = 0;
    log->write(log->ctx, HTC_LOG_ERROR, longest);
    htc_logfile_close(f);
    close(fd);
    FILE *file = fopen(path, "r");
    for (; fgets(text, sizeof text, file); lines++) {
        json_t *line = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
        cr_assert(line && json_object_size(line) == 4, "%s", text);
        cr_expect(eq(str, (char *)json_string_value(json_object_get(line, "source")), "te\"st"));
        cr_expect(eq(sz, strlen(json_string_value(json_object_get(line, "time"))), strlen("2026-01-01T00:00:00.000Z")));
        const char *message = json_string_value(json_object_get(line, "message"));
        if (lines < 4)
            cr_expect(eq(str, (char *)message, (char *)read[lines]));
        else
            cr_expect(strlen(message) > 500 && strncmp(message, longest, strlen(message)) == 0);
        json_decref(line);
    }
    cr_expect(eq(int, lines, 5));
    fclose(file);
    unlink(path);
}

/* An object a line, with the values of the line; as many of them as fit, whole. */
Test(logfile, a_log_of_objects_has_values)
{
    char                path[] = "/tmp/htc-test-log-XXXXXX", text[4096], longest[3000] = "";
    htc_logfile        *f;
    htc_error           error;
    int                 fd = mkstemp(path);
    htc_logfile_options o = { .size = sizeof o, .name = "test", .fd = fd, .json = 1 };
    cr_assert(fd >= 0 && htc_logfile_open(&o, &f, &error) == HTC_OK);
    htc_env env = { .size = sizeof env, .log = htc_logfile_log(f) };
    memset(longest, '"', sizeof longest - 1);
    htc__log_with(&env, HTC_LOG_INFO,
                  HTC__FIELDS(HTC__NUMBER("bytes", UINT64_MAX / 4), HTC__ID("member", 0xabc), HTC__TEXT("a\"b", "c\\\n"),
                              HTC__TEXT("longest", longest), HTC__NUMBER("last", 1)),
                  "%s", longest);
    htc__log(&env, HTC_LOG_DEBUG, "not wanted");
    htc_logfile_close(f);
    FILE *file = fopen(path, "r");
    cr_assert(fgets(text, sizeof text, file) && strlen(text) < 2000);
    json_t *line = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    cr_assert(line && json_object_size(line) == 8, "%s", text);
    cr_expect(json_integer_value(json_object_get(line, "bytes")) == INT64_MAX / 2);
    cr_expect(eq(str, (char *)json_string_value(json_object_get(line, "member")), "0000000000000abc"));
    cr_expect(eq(str, (char *)json_string_value(json_object_get(line, "a\"b")), "c\\?"));
    cr_expect(eq(int, (int)json_integer_value(json_object_get(line, "last")), 1), "behind one that does not fit");
    json_decref(line);
    cr_expect(fgets(text, sizeof text, file) == NULL);
    fclose(file);
    close(fd);
    unlink(path);
}

/* Whoever may not rename files any more has two all the same, and loses nothing of the newest lines. */
Test(logfile, a_log_is_bounded_without_rights_to_its_directory)
{
    char         dir[] = "/tmp/htc-test-log-XXXXXX", path[200], text[8192];
    htc_logfile *f;
    htc_error    error;
    int          n = -1, last = -1, status = -1;
    cr_assert(mkdtemp(dir) != NULL);
    snprintf(path, sizeof path, "%s/log", dir);
    htc_logfile_options o = { .size = sizeof o, .path = path, .bytes_max = 4096, .files_max = 3, .fd = -1, .in_place = 1 };
    pid_t pid = fork();
    if (pid == 0) {
        if (htc_logfile_open(&o, &f, &error) != HTC_OK || chmod(dir, 0500) != 0 || (geteuid() == 0 && setresuid(65105, 65105, 65105) != 0))
            _exit(1);
        htc_env env = { .size = sizeof env, .log = htc_logfile_log(f) };
        for (int i = 0; i < 1000; i++)
            htc__log(&env, HTC_LOG_WARN, "line %d -> nothing", i);
        htc_logfile_close(f);
        _exit(0);
    }
    cr_assert(waitpid(pid, &status, 0) == pid && status == 0);
    for (int i = 1; i >= 0; i--) {
        struct stat st;
        snprintf(path, sizeof path, "%s/log%s", dir, i ? ".1" : "");
        cr_assert(eq(int, stat(path, &st), 0), "%s", path);
        cr_expect(st.st_size > 1024 * i && st.st_size <= 4096, "%s: %lld", path, (long long)st.st_size);
        FILE *file = fopen(path, "r");
        while (fgets(text, sizeof text, file)) {
            const char *at = strstr(text, "line ");
            cr_assert(at && sscanf(at, "line %d ", &n) == 1, "%s", text);
            cr_expect(last < 0 || n == last + 1, "%d after %d", n, last);
            last = n;
        }
        fclose(file);
    }
    cr_expect(eq(int, last, 999));
    cr_assert(eq(int, chmod(dir, 0700), 0));
    unlink(path);
    snprintf(path, sizeof path, "%s/log.1", dir);
    unlink(path);
    rmdir(dir);
}

Test(logfile, a_log_is_bounded_and_one_line_stays_one)
{
    char                dir[] = "/tmp/htc-test-log-XXXXXX", path[200], text[8192];
    htc_logfile        *f;
    htc_error           error;
    cr_assert(mkdtemp(dir) != NULL);
    snprintf(path, sizeof path, "%s/log", dir);
    htc_logfile_options o = { .size = sizeof o, .path = path, .name = "test", .bytes_max = 4096, .files_max = 3, .fd = -1 };
    cr_assert(eq(int, htc_logfile_open(&o, &f, &error), HTC_OK), "%s", error.text);
    htc_env env = { .size = sizeof env, .log = htc_logfile_log(f) };
    for (int i = 0; i < 1000; i++)
        htc__log(&env, HTC_LOG_WARN, "line %d\nwith\x1b[2J control -> nothing", i);
    htc__log(&env, HTC_LOG_DEBUG, "not written");
    htc_logfile_close(f);
    for (int i = 0; i < 4; i++) {
        struct stat st;
        snprintf(path, sizeof path, "%s/log%s%.0d", dir, i ? "." : "", i);
        cr_expect(eq(int, stat(path, &st) == 0, i < 3), "%s", path);
        if (i < 3)
            cr_expect(st.st_size > 0 && st.st_size <= 4096);
        if (i == 0) {
            FILE *file = fopen(path, "r");
            while (fgets(text, sizeof text, file)) {
                cr_expect(strstr(text, "Z warn test: line ") != NULL, "%s", text);
                cr_expect(strstr(text, "\x1b") == NULL);
            }
            fclose(file);
        }
        unlink(path);
    }
    rmdir(dir);
}
