/* libhtc-drmaa's decisions that need no gateway: start times, limits, names of jobs, statuses, options of the native specification. */
#include "expect.h"

#include "drmaa/drmaa_private.h"

#include <stdlib.h>
#include <string.h>

/* 2026-11-29 00:30:00 UTC, a Sunday; in the zone below 01:30 of that day. */
#define NOW 1795912200

static void in_zone(void)
{
    setenv("TZ", "XYZ-1", 1); /* an hour east of UTC, all the year */
    tzset();
}

static time_t moment_of(const char *text)
{
    time_t t = 0;
    cr_assert(eq(int, htc__drmaa_start_time(text, NOW, &t), DRMAA_ERRNO_SUCCESS), "%s", text);
    return t;
}

Test(drmaa, fills_in_what_a_start_time_leaves_out)
{
    static const struct {
        const char *text;
        long        after_s; /* of now */
    } times[] = {
        { "02:00", 1800 },
        { "01:30", 0 },
        { "01:29", 86400 - 60 },             /* it has passed today */
        { "01:30:01", 1 },
        { "00:30 +00:00", 0 },
        { "23:30 -01:00", 0 },               /* it is 23:30 there, of the day before */
        { "30 01:30", 86400 },
        { "28 01:30", 29 * 86400 },          /* of the next month */
        { "31 01:30", 32 * 86400 },          /* November has none */
        { "12/01 01:30", 2 * 86400 },
        { "11/28 01:30", 364 * 86400 },      /* of the next year */
        { "26/12/01 01:30", 2 * 86400 },
        { "2026/12/01 01:30", 2 * 86400 },
        { "2026/11/28 01:30", -86400 },      /* a moment that is named whole may have passed */
        { "2026/11/29 00:30:00 +00:00", 0 },
        { "  2026/11/29  01:30  ", 0 },
    };
    in_zone();
    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        cr_expect(eq(long, (long)(moment_of(times[i].text) - NOW), times[i].after_s), "%s", times[i].text);
    cr_expect(eq(long, (long)(moment_of("02/29 00:00 +00:00")), 1835395200L), "the next leap year is 2028");
    cr_expect(eq(long, (long)(moment_of("25/11/28 00:30 +00:00")), NOW + 36524L * 86400 - 366L * 86400), "of the next century");
}

Test(drmaa, refuses_what_is_no_start_time)
{
    static const char *const forms[] = { "", "x", "1:30", "01:3", "01:30:", "01:30:0", "1/12:00", "2026/11 01:30", "20261129 01:30", "2026/11/29", "26/11/29/01 01:30",
                                         "01:30 01:00", "01:30 +1:00", "01:30 +01", "01:30 +01:00 x", "01:30x", "29T01:30" };
    static const char *const values[] = { "24:00", "01:60", "01:30:62", "00 01:30", "32 01:30", "13/01 01:30", "02/30 01:30", "2026/02/29 01:30", "01:30 +24:00", "01:30 +01:60" };
    time_t t;
    in_zone();
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        cr_expect(eq(int, htc__drmaa_start_time(forms[i], NOW, &t), DRMAA_ERRNO_INVALID_ATTRIBUTE_FORMAT), "'%s'", forms[i]);
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        cr_expect(eq(int, htc__drmaa_start_time(values[i], NOW, &t), DRMAA_ERRNO_INVALID_ATTRIBUTE_VALUE), "'%s'", values[i]);
}

Test(drmaa, reads_limits_and_names)
{
    double   s;
    job_name n;
    cr_expect(htc__drmaa_seconds("7", &s) && s == 7);
    cr_expect(htc__drmaa_seconds("1:02", &s) && s == 62);
    cr_expect(htc__drmaa_seconds("1:02:03", &s) && s == 3723);
    cr_expect(!htc__drmaa_seconds("", &s) && !htc__drmaa_seconds("1:", &s) && !htc__drmaa_seconds("1:2:3:4", &s) && !htc__drmaa_seconds("-1", &s));
    cr_expect(htc__drmaa_name_read("17", &n) && n.job == 17 && !n.has_task);
    cr_expect(htc__drmaa_name_read("17.0", &n) && n.job == 17 && n.has_task && n.task == 0);
    static const char *const wrong[] = { "", "0", "x", "17.", "17.x", "17.1.2", ".1", "17 ", "9999999999999999999", "17.1-2", "last" };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        cr_expect(!htc__drmaa_name_read(wrong[i], &n), "'%s'", wrong[i]);
}

static int stat_of(const char *result)
{
    json_t *o = json_loads(result, 0, NULL);
    int     stat = htc__drmaa_stat(o);
    json_decref(o);
    return stat;
}

Test(drmaa, tells_how_a_job_ended)
{
    cr_expect(eq(int, stat_of("{\"status\":\"HTC_OK\",\"exit_code\":0,\"signal\":0,\"started\":5.0}"), STAT_EXITED));
    cr_expect(eq(int, stat_of("{\"status\":\"HTC_EEXIT\",\"exit_code\":7,\"signal\":0,\"started\":5.0}"), STAT_EXITED | 7));
    cr_expect(eq(int, stat_of("{\"status\":\"HTC_EOOM\",\"exit_code\":0,\"signal\":9,\"started\":5.0}"), STAT_SIGNALED | 9 << 8));
    cr_expect(eq(int, stat_of("{\"status\":\"HTC_ESTAGEIN\",\"exit_code\":0,\"signal\":0,\"started\":0}"), STAT_ABORTED));
    cr_expect(eq(int, stat_of("{\"status\":\"HTC_ESTAGEOUT\",\"exit_code\":0,\"signal\":0,\"started\":5.0}"), 0), "neither is known");
}

static wishes asked;

static int native(const char *text)
{
    char      why[200];
    diagnosis d = htc__drmaa_diagnosis(why, sizeof why);
    htc__drmaa_wishes_free(&asked);
    asked.request = json_object();
    int code = htc__drmaa_native(NULL, &asked, text, &d);
    cr_expect((code == DRMAA_ERRNO_SUCCESS) == (why[0] == '\0'));
    return code;
}

Test(drmaa, reads_the_options_of_submit)
{
    cr_assert(eq(int, native("-J 'a name' --time=1:30 -m512M -c 4 --priority -5 --hold --env A='b c' -r0 --after 3,4:any -o %a"), DRMAA_ERRNO_SUCCESS));
    cr_expect(eq(str, (char *)json_string_value(json_object_get(asked.request, "name")), "a name"));
    cr_expect(json_real_value(json_object_get(asked.request, "time_limit")) == 90);
    cr_expect(json_integer_value(json_object_get(asked.request, "memory")) == 512 << 20);
    cr_expect(json_integer_value(json_object_get(asked.request, "priority")) == -5);
    cr_expect(json_is_true(json_object_get(asked.request, "paused")) && asked.cores == 4);
    cr_expect(eq(str, asked.env.at[0], "A=b c"));
    cr_expect(eq(sz, json_array_size(asked.after), 2));
    cr_expect(eq(str, (char *)json_string_value(json_object_get(json_array_get(asked.after, 1), "when")), "any"));
    cr_assert(eq(int, native("--gpus 2 --res matlab=3 --container /images/a"), DRMAA_ERRNO_SUCCESS));
    cr_expect(eq(sz, asked.resources.count, 2));
    cr_expect(eq(str, asked.resources.at[0], "gpu"));
    cr_expect(asked.counts[0] == 2 && asked.counts[1] == 3);
    cr_expect(eq(str, asked.container, "/images/a"));
    cr_expect(eq(int, native(" \t"), DRMAA_ERRNO_SUCCESS));
    static const char *const wrong[] = { "--warp", "word", "-", "--", "-J", "--hold=1", "-c 0", "-m 1X", "-m 0", "-t soon", "--env =1", "--wait", "-n", "--array 1-3", "--gpus 0", "--res matlab", "--res =1", "--res a=x", "--env HTC_NO_SUCH_VARIABLE", "--after x", "-r -1" };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        cr_expect(eq(int, native(wrong[i]), DRMAA_ERRNO_INVALID_ATTRIBUTE_VALUE), "'%s'", wrong[i]);
    cr_expect(eq(int, native("-J 'open"), DRMAA_ERRNO_INVALID_ATTRIBUTE_FORMAT));
    htc__drmaa_wishes_free(&asked);
}
