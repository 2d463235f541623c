/* htc report --by: what was used, by whom, where and for what. Days are those of UTC. */
#include "report_usage.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void report_mode(int durable)
{
    if (!durable)
        printf("db.mode = off: these records are in memory alone, and agents are known by their heartbeats\n");
}

/* "2026-01-31", with "T12:00" if wanted, of UTC; or how long ago: "7d". */
static htc_status parse_moment(cli *c, const char *option, const char *text, double *at)
{
    struct tm   tm = { 0 };
    double      ago;
    const char *end = strptime(text, "%Y-%m-%d", &tm);
    if (end && *end == 'T')
        end = strptime(end, "T%H:%M", &tm);
    if (end && !*end) {
        *at = (double)timegm(&tm);
        return HTC_OK;
    }
    if (htc_command_time(text, 1, &ago) != HTC_OK)
        return cli_error(c, HTC_EUSAGE, option, "a day as 2026-01-31, or how long ago: 7d, 12h", "'%.60s' is no time", text);
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    *at = (double)now.tv_sec - ago;
    return HTC_OK;
}

/* One field of a line of CSV: in quotation marks where it has to be. */
static void csv_text(const char *text)
{
    if (!text[strcspn(text, ",\"\r\n")]) {
        fputs(text, stdout);
        return;
    }
    putchar('"');
    for (; *text; text++) {
        if (*text == '"')
            putchar('"');
        putchar(*text);
    }
    putchar('"');
}

static shown_text show_date(double seconds)
{
    shown_text t;
    time_t     at = (time_t)seconds;
    struct tm  tm;
    gmtime_r(&at, &tm);
    strftime(t.s, sizeof t.s, "%Y-%m-%d", &tm);
    return t;
}

static shown_text show_day(const json_t *row)
{
    return show_date(j_num(row, "day"));
}

static void print_csv(const json_t *answer)
{
    const json_t *by = json_object_get(answer, "by");
    size_t        i, k;
    json_t       *row, *one;
    json_array_foreach(by, k, one)
        printf("%s,", json_string_value(one));
    puts("core_hours,done,failed,lost,attempts,wait_s");
    json_array_foreach(json_object_get(answer, "rows"), i, row) {
        json_array_foreach(by, k, one) {
            const char *name = json_string_value(one);
            csv_text(strcmp(name, "day") == 0 ? show_day(row).s : j_str(row, name));
            putchar(',');
        }
        printf("%.6f,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%.3f\n", j_num(row, "core_hours"), j_u64(row, "done"), j_u64(row, "failed"), j_u64(row, "lost"),
               j_u64(row, "attempts"), j_num(row, "wait_s"));
    }
}

static void print_row(table *t, const json_t *by, const json_t *row, const char *instead)
{
    char    names[400] = "";
    size_t  at = 0, k;
    json_t *one;
    json_array_foreach(by, k, one) {
        const char *name = json_string_value(one), *text = instead ? (k ? "" : instead) : strcmp(name, "day") == 0 ? show_day(row).s : j_str(row, name);
        if (at < sizeof names - 1)
            at += (size_t)snprintf(names + at, sizeof names - at, "%s\t", text[0] || instead ? text : "-");
    }
    table_row(t, "%s%.2f\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%s", names, j_num(row, "core_hours"), j_u64(row, "done"), j_u64(row, "failed"),
              j_u64(row, "lost"), j_u64(row, "attempts"), show_seconds(j_num(row, "wait_s")).s);
}

static void print_table(cli *c, const json_t *answer)
{
    static const char *const titles[] = { "USER", "SITE", "PROJECT", "DAY" }, *const names[] = { "user", "site", "project", "day" };
    const json_t *by = json_object_get(answer, "by"), *one;
    const char   *heads[4] = { NULL };
    table         t;
    size_t        i, n = 0;
    json_t       *row;
    json_array_foreach(by, i, one)
        for (int k = 0; k < 4; k++)
            if (n < 4 && strcmp(names[k], json_string_value(one)) == 0)
                heads[n++] = titles[k];
#define FIGURES ">CORE HOURS", ">DONE", ">FAILED", ">LOST", ">ATTEMPTS", ">MEAN WAIT", NULL
    if (n <= 1)
        table_begin(&t, n ? heads[0] : "", FIGURES);
    else if (n == 2)
        table_begin(&t, heads[0], heads[1], FIGURES);
    else if (n == 3)
        table_begin(&t, heads[0], heads[1], heads[2], FIGURES);
    else
        table_begin(&t, heads[0], heads[1], heads[2], heads[3], FIGURES);
    json_array_foreach(json_object_get(answer, "rows"), i, row)
        print_row(&t, by, row, NULL);
    print_row(&t, by, json_object_get(answer, "total"), "all");
    table_end(c, &t);
    double until = j_num(answer, "summed_until");
    if (j_num(answer, "since") > 0 && j_num(answer, "since") < until)
        printf("what was used before %s is one sum, which only a report of all time has (db.usage_keep_s)\n", show_date(until).s);
    report_mode(!json_is_false(json_object_get(answer, "durable")));
}

htc_status report_usage(cli *c, const usage_asked *asked)
{
    json_t    *r = json_pack("{s:s}", "op", "report"), *by = json_array(), *answer = NULL;
    double     at;
    htc_status s = HTC_OK;
    char      *copy = must_dup(asked->by ? asked->by : "user");
    for (char *rest = copy, *part; (part = strtok_r(rest, ",", &rest));)
        json_array_append_new(by, json_string(part));
    free(copy);
    json_object_set_new(r, "by", by);
    if (asked->since && (s = parse_moment(c, "--since", asked->since, &at)) == HTC_OK)
        json_object_set_new(r, "since", json_real(at));
    if (s == HTC_OK && asked->until && (s = parse_moment(c, "--until", asked->until, &at)) == HTC_OK)
        json_object_set_new(r, "until", json_real(at));
    if (asked->project)
        j_add(&r, "project", asked->project);
    if (s == HTC_OK && asked->csv && c->json)
        s = cli_error(c, HTC_EUSAGE, "--csv", "leave one of them out", "--csv and --json cannot both go to standard output");
    if (s != HTC_OK) {
        json_decref(r);
        return s;
    }
    s = api_ask(c, r, 0, 30, &answer);
    if (s == HTC_OK && c->json)
        put_json(c, answer);
    else if (s == HTC_OK && asked->csv)
        print_csv(answer);
    else if (s == HTC_OK)
        print_table(c, answer);
    json_decref(answer);
    return s;
}
