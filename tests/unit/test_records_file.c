/* A file to which somebody else adds lines: each is read once, whatever becomes of the file. */
#include "expect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "net/gateway/records_file.h"

static char              dir[] = "/tmp/htc-records.XXXXXX", path[64], other[64];
static htc_env           env = { .size = sizeof env };
static htc__records_file *f;

static void begin(void)
{
    cr_assert(mkdtemp(dir) != NULL);
    snprintf(path, sizeof path, "%s/jobcomp", dir);
    snprintf(other, sizeof other, "%s/jobcomp.1", dir);
    f = htc__records_create(&env, path);
    cr_assert(f != NULL);
}

static void end(void)
{
    htc__records_free(f);
    unlink(path);
    unlink(other);
    rmdir(dir);
}

TestSuite(records_file, .init = begin, .fini = end);

static void put(const char *how, const char *text)
{
    FILE *out = fopen(path, how);
    cr_assert(out && fputs(text, out) >= 0 && fclose(out) == 0);
}

static const char *reads(void)
{
    static char text[256];
    htc_bytes   lines = htc__records_read(f);
    cr_assert(lines.len < sizeof text);
    memcpy(text, lines.len ? lines.data : "", lines.len);
    text[lines.len] = '\0';
    return text;
}

Test(records_file, whole_lines_are_read_once)
{
    cr_expect(eq(str, (char *)reads(), ""), "there is none yet");
    put("a", "one\ntwo\nthr");
    cr_expect(eq(str, (char *)reads(), "one\ntwo\n"));
    cr_expect(eq(str, (char *)reads(), ""));
    put("a", "ee\n");
    cr_expect(eq(str, (char *)reads(), "three\n"));
}

Test(records_file, it_may_be_cut_short_or_moved_away)
{
    put("w", "one one one\n");
    cr_expect(eq(str, (char *)reads(), "one one one\n"));
    put("w", "two\n");
    cr_expect(eq(str, (char *)reads(), "two\n"));
    put("a", "three\n");
    cr_assert(rename(path, other) == 0);
    put("w", "four\n");
    cr_expect(eq(str, (char *)reads(), "three\nfour\n"), "what was added before it was moved, and what is in the new one");
    cr_expect(eq(str, (char *)reads(), ""));
    put("a", "five\n");
    cr_assert(unlink(path) == 0);
    cr_expect(eq(str, (char *)reads(), "five\n"));
    put("w", "six\n");
    cr_expect(eq(str, (char *)reads(), "six\n"));
}

Test(records_file, one_reading_is_bounded)
{
    static char line[1001];
    memset(line, 'x', 999);
    line[999] = '\n';
    for (int i = 0; i < 3000; i++)
        put("a", line);
    put("a", "last\n");
    htc_bytes lines = htc__records_read(f);
    cr_expect(lines.len <= HTC__RECORDS_MAX && lines.len > HTC__RECORDS_MAX - 2000);
    cr_expect(memcmp((const char *)lines.data, line, 1000) == 0, "it begins with a whole line");
    cr_expect(memcmp((const char *)lines.data + lines.len - 6, "\nlast\n", 6) == 0, "it is the newest");
    cr_expect(eq(str, (char *)reads(), ""));
    memset(line, 'y', 1000); /* a line without an end, longer than a reading */
    for (int i = 0; i < 1100; i++)
        put("a", line);
    cr_expect(eq(str, (char *)reads(), ""));
    put("a", "\nbehind\n");
    cr_expect(eq(str, (char *)reads(), "behind\n"));
}

Test(records_file, what_is_no_file_keeps_nobody_up)
{
    cr_assert(mkfifo(path, 0600) == 0);
    cr_expect(eq(str, (char *)reads(), ""));
    cr_assert(unlink(path) == 0 && mkdir(path, 0700) == 0);
    cr_expect(eq(str, (char *)reads(), ""));
    cr_assert(rmdir(path) == 0);
    put("w", "one\n");
    cr_expect(eq(str, (char *)reads(), "one\n"));
}
