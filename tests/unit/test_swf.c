/* Logs in the Standard Workload Format: two logs of the archive and what is known of them, each refusal with its line, a stream in pieces, and that what
 * was written is read back. */
#include "expect.h"

#include <math.h>

#include "../data.h"
#include "alloc_fail.h"
#include "htcsched/swf.h"
#include "property.h"

typedef struct text {
    const char *at, *end;
    size_t      piece; /* given at a time; 0: as much as there is room */
} text;

static htc_status read_text(void *ctx, void *data, size_t room, size_t *n)
{
    text *t = ctx;
    *n = (size_t)(t->end - t->at) < room ? (size_t)(t->end - t->at) : room;
    if (t->piece && *n > t->piece)
        *n = t->piece;
    memcpy(data, t->at, *n);
    t->at += *n;
    return HTC_OK;
}

static htc_status read_file(void *ctx, void *data, size_t room, size_t *n)
{
    *n = fread(data, 1, room, ctx);
    return ferror(ctx) ? HTC_EIO : HTC_OK;
}

static htc_swf *open_text(text *t)
{
    htc_swf_options o = { .size = sizeof o, .name = "log.swf", .read = read_text, .ctx = t };
    htc_swf        *log = NULL;
    cr_assert(eq(int, htc_swf_open(NULL, &o, &log), HTC_OK));
    return log;
}

/* ---- the logs ---- */

typedef struct facts {
    uint64_t jobs, ran, ended, ended_ran, completed, cancelled, unsized, sizes_of_eight, days[14];
    double   node_hours;
} facts;

static facts facts_of(const char *name, uint64_t per_node, const char *const (*header)[2])
{
    facts       f = { 0 };
    FILE       *file = test_data(name);
    htc_swf    *log = NULL;
    htc_swf_job j;
    htc_error   e = { 0 };
    htc_status  status;
    if (!file)
        cr_skip("no %s in examples/sim/data below or beside the working directory", name);
    htc_swf_options o = { .size = sizeof o, .name = name, .read = read_file, .ctx = file };
    cr_assert(eq(int, htc_swf_open(NULL, &o, &log), HTC_OK));
    for (; (*header)[0]; header++) {
        const char *value = "";
        cr_expect(eq(int, htc_swf_header(log, (*header)[0], &value), HTC_OK), "%s", (*header)[0]);
        cr_expect(eq(str, value, (*header)[1]));
    }
    while ((status = htc_swf_next(log, &j, &e)) == HTC_OK) {
        double wait = j.wait_s > 0 ? j.wait_s : 0, run = j.run_s > 0 ? j.run_s : 0, start = j.submit_s + wait, end = start + run;
        f.jobs++;
        f.ran += run > 0;
        f.ended += end < 1209600;
        f.ended_ran += end < 1209600 && run > 0;
        f.completed += j.status == HTC_SWF_COMPLETED;
        f.cancelled += j.status == HTC_SWF_CANCELLED;
        f.unsized += j.processors <= 0;
        f.sizes_of_eight += j.processors > 0 && j.processors % 8 == 0;
        f.days[(size_t)(j.submit_s / 86400)]++;
        if (start < 1209600)
            f.node_hours += (double)htc_swf_nodes(&j, per_node) * ((end < 1209600 ? end : 1209600) - start) / 3600;
    }
    cr_expect(eq(int, status, HTC_AGAIN), "line %u: %s", e.line, e.text);
    htc_swf_close(log);
    fclose(file);
    return f;
}

Test(swf, nasa_is_the_log_of_the_evaluation)
{
    static const char *const header[][2] = { { "Computer", "Intel iPSC/860" }, { "MaxProcs", "128" }, { "maxnodes", "128" }, { "UnixStartTime", "749458803" }, { NULL, NULL } };
    facts                    f = facts_of("NASA-iPSC-1993-3.1-cln.first14days.swf", 1, header);
    uint64_t                 least = UINT64_MAX, most = 0;
    cr_expect(f.jobs == 2604 && f.ran == 2581 && f.ended == 2603 && f.ended_ran == 2580 && f.completed == 0 && f.cancelled == 0 && f.unsized == 0);
    for (int d = 0; d < 14; d++) {
        least = f.days[d] < least ? f.days[d] : least;
        most = f.days[d] > most ? f.days[d] : most;
    }
    cr_expect(least == 23 && most == 342, "%llu to %llu jobs a day", (unsigned long long)least, (unsigned long long)most);
    cr_expect(fabs(f.node_hours - 16038.8) < 0.05, "%.2f node-hours: 37.3 %% of 128 nodes", f.node_hours);
}

Test(swf, blue_is_the_log_of_the_evaluation)
{
    static const char *const header[][2] = { { "MaxProcs", "1152" }, { "MaxNodes", "144" }, { "UnixStartTime", "956700003" }, { NULL, NULL } };
    facts                    f = facts_of("SDSC-BLUE-2000-4.2-cln.first14days.swf", 8, header);
    uint64_t                 week = 0;
    cr_expect(f.jobs == 2786 && f.ran == 2667 && f.ended == 2769 && f.ended_ran == 2650 && f.completed == 2236 && f.cancelled == 550);
    cr_expect(f.unsized + f.sizes_of_eight == f.jobs, "each allocation is of whole nodes");
    for (int d = 0; d < 7; d++)
        week += f.days[d];
    cr_expect(week == 429 && f.days[3] == 0 && f.days[4] > 0, "%llu jobs in the first week", (unsigned long long)week);
    cr_expect(fabs(f.node_hours - 20414.5) < 0.05, "%.2f node-hours: 42.2 %% of 144 nodes", f.node_hours);
}

/* ---- lines ---- */

#define REST " 4 -1 -1 8 60 -1 1 3 -1 -1 -1 -1 -1 -1"

Test(swf, each_field_is_where_the_format_has_it)
{
    static const char log[] = "; Version: 2.2\n;  Note : odd : blanks\t\r\n; no key\n\n; maxprocs: 7\n; MaxProcs: 8\n"
                              "1 2 3.5 4 5 6.25 7 8 9 10 11 12 13 14 15 16 17 18\r\n;a comment\n\t 2 2 -1 0. 0 .5 -1.0 0 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1";
    text              t = { log, log + sizeof log - 1, 0 };
    htc_swf          *l = open_text(&t);
    htc_swf_job       j;
    htc_swf_counts    c = { .size = sizeof c };
    const char       *value = NULL;
    cr_expect(htc_swf_header(l, "Note", &value) == HTC_OK && strcmp(value, "odd : blanks") == 0, "%s", value);
    cr_expect(htc_swf_header(l, "MAXPROCS", &value) == HTC_OK && strcmp(value, "7") == 0, "the first one");
    cr_expect(eq(int, htc_swf_header(l, "Maxproc", &value), HTC_ENOTFOUND));
    cr_assert(eq(int, htc_swf_next(l, &j, NULL), HTC_OK));
    cr_expect(j.number == 1 && j.submit_s == 2 && j.wait_s == 3.5 && j.run_s == 4 && j.processors == 5 && j.cpu_s == 6.25 && j.memory_kb == 7 && j.processors_asked == 8);
    cr_expect(j.run_asked_s == 9 && j.memory_asked_kb == 10 && j.status == 11 && j.user == 12 && j.group == 13 && j.program == 14 && j.queue == 15 && j.partition == 16);
    cr_expect(j.preceding == 17 && j.think_s == 18);
    cr_assert(eq(int, htc_swf_next(l, &j, NULL), HTC_OK), "the last line has no newline");
    cr_expect(j.number == 2 && j.run_s == 0 && j.cpu_s == 0.5 && j.memory_kb == -1 && j.think_s == -1);
    cr_expect(eq(int, htc_swf_next(l, &j, NULL), HTC_AGAIN) && eq(int, htc_swf_next(l, &j, NULL), HTC_AGAIN));
    cr_expect(htc_swf_count(l, &c) == HTC_OK && c.jobs == 2 && c.refused == 0 && c.lines == 9 && c.bytes == sizeof log - 1);
    cr_expect(eq(int, htc_swf_header(l, "version", &value), HTC_OK));
    htc_swf_close(l);
}

Test(swf, a_broken_line_is_named_and_passed_over)
{
    static const struct {
        const char *line, *text;
        uint32_t    column;
    } bad[] = {
        { "1 0 0", "the line has 3 fields, and a job has 18", 0 },
        { "1 0 0 60 x" REST, "field 5, the allocated processors, is \"x\": not a number", 10 },
        { "1 0 0 1e3" REST, "field 4, the run time, is \"1e3\": not a number", 7 },
        { "1 0 0 6-0" REST, "field 4, the run time, is \"6-0\": not a number", 7 },
        { "1 0 - 60" REST, "field 3, the wait time, is \"-\": not a number", 5 },
        { "1 0 nan 60" REST, "field 3, the wait time, is \"nan\": not a number", 5 },
        { "1 0 0 60 2.5 -1 -1 8 60 -1 1 3 -1 -1 -1 -1 -1 -1", "field 5, the allocated processors, is \"2.5\": not a whole number", 10 },
        { "1 0 -2 60" REST, "field 3, the wait time, is \"-2\": below -1", 5 },
        { "1 0 0 99999999999999999999" REST, "field 4, the run time, is \"99999999999999999999\": more than 10^15", 7 },
        { "1 -1 0 60" REST, "field 2, the submit time, is -1: a job has one", 0 },
        { "1 99 0 60" REST, "field 2, the submit time, is before that of the job before it", 0 },
        { "1 100 0 60" REST " 7", "something stands after the 18th field", 50 },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char           log[512];
        text           t = { log, log + snprintf(log, sizeof log, "; Computer: x\n1 100 0 60" REST "\n%s\n3 100 0 60" REST "\n", bad[i].line), 0 };
        htc_swf       *l = open_text(&t);
        htc_swf_job    j = { .number = 77 };
        htc_swf_counts c = { .size = sizeof c };
        htc_error      e = { 0 };
        cr_assert(eq(int, htc_swf_next(l, &j, &e), HTC_OK), "%s", e.text);
        cr_expect(eq(int, htc_swf_next(l, &j, &e), HTC_ESCHEMA), "%s", bad[i].line);
        cr_expect(eq(str, e.text, bad[i].text));
        cr_expect(e.line == 3 && e.column == bad[i].column && strcmp(e.where, "log.swf") == 0 && e.hint[0] && j.number == 1, "line %u, column %u of %s", e.line, e.column, bad[i].line);
        cr_expect(htc_swf_next(l, &j, &e) == HTC_OK && j.number == 3, "the next line is read");
        cr_expect(htc_swf_count(l, &c) == HTC_OK && c.jobs == 2 && c.refused == 1);
        htc_swf_close(l);
    }
}

Test(swf, order_does_not_matter_if_that_is_said)
{
    static const char lines[] = "1 100 0 60" REST "\n2 99 0 60" REST "\n";
    text              t = { lines, lines + sizeof lines - 1, 0 };
    htc_swf_options   o = { .size = sizeof o, .read = read_text, .ctx = &t, .any_order = 1 };
    htc_swf          *l = NULL;
    htc_swf_job       j;
    cr_assert(eq(int, htc_swf_open(NULL, &o, &l), HTC_OK));
    cr_expect(htc_swf_next(l, &j, NULL) == HTC_OK && htc_swf_next(l, &j, NULL) == HTC_OK && j.submit_s == 99);
    htc_swf_close(l);
}

/* A line without an end is told once, and takes no more memory than any other. */
Test(swf, a_line_that_is_too_long_is_passed_over)
{
    size_t    n = 200000;
    char     *log = malloc(n + 100);
    htc_error e = { 0 };
    cr_assert(log != NULL);
    memset(log, '1', n);
    text t = { log, log + n + (size_t)snprintf(log + n, 100, "\n7 5 0 60" REST "\n"), 1000 };
    htc_swf    *l = open_text(&t);
    htc_swf_job j;
    cr_expect(eq(int, htc_swf_next(l, &j, &e), HTC_ETOOBIG) && e.line == 1, "%s", e.text);
    cr_expect(htc_swf_next(l, &j, &e) == HTC_OK && j.number == 7);
    htc_swf_close(l);
    free(log);
}

static htc_status read_zeros(void *ctx, void *data, size_t room, size_t *n)
{
    uint64_t *left = ctx;
    cr_assert(*left > 0, "it reads on and on");
    --*left;
    memset(data, 0, room);
    *n = room;
    return HTC_OK;
}

Test(swf, a_line_without_an_end_is_the_last_one)
{
    uint64_t        left = 1000; /* windows of some 64 KiB */
    htc_swf_options o = { .size = sizeof o, .name = "/dev/zero", .read = read_zeros, .ctx = &left };
    htc_swf        *log = NULL;
    htc_swf_job     job;
    htc_error       e = { 0 };
    cr_assert(eq(int, htc_swf_open(NULL, &o, &log), HTC_OK));
    cr_expect(eq(int, htc_swf_next(log, &job, &e), HTC_ETOOBIG), "%s", e.text);
    cr_expect(eq(int, htc_swf_next(log, &job, &e), HTC_AGAIN));
    htc_swf_close(log);
}

Test(swf, refuses_wrong_use_and_ends_without_memory)
{
    text            t = { "", "", 0 };
    htc_swf_options o = { .size = sizeof o, .read = read_text, .ctx = &t };
    htc_swf        *l = NULL;
    htc_swf_job     j = { 0 };
    char            line[HTC_SWF_LINE_ROOM];
    cr_expect(eq(int, htc_swf_open(NULL, NULL, &l), HTC_EINVAL) && eq(int, htc_swf_open(NULL, &o, NULL), HTC_EINVAL));
    o.read = NULL;
    cr_expect(eq(int, htc_swf_open(NULL, &o, &l), HTC_EINVAL));
    cr_expect(eq(int, htc_swf_next(NULL, &j, NULL), HTC_EINVAL));
    o.read = read_text;
    static const char log[] = "; a: b\n1 2 3 4" REST;
    for (size_t n = 1; n <= 3; n++) {
        alloc_fail f = alloc_fail_at(n);
        htc_env    env = alloc_fail_env(&f);
        t = (text){ log, log + sizeof log - 1, 0 };
        if (n < 3) {
            cr_expect(eq(int, htc_swf_open(&env, &o, &l), HTC_ENOMEM));
        } else {
            cr_assert(eq(int, htc_swf_open(&env, &o, &l), HTC_OK));
            cr_expect(eq(int, htc_swf_next(l, &j, NULL), HTC_ENOMEM), "the header");
            htc_swf_close(l);
        }
        cr_expect(eq(sz, f.live, 0) && eq(sz, f.wrong_sizes, 0));
    }
    j.run_s = -2;
    cr_expect(eq(sz, htc_swf_line(&j, line), 0));
    j.run_s = (double)NAN;
    cr_expect(eq(sz, htc_swf_line(&j, line), 0));
    cr_expect(eq(u64, htc_swf_nodes(&(htc_swf_job){ .processors = -1, .processors_asked = 9 }, 8), 2) && eq(u64, htc_swf_nodes(&(htc_swf_job){ .processors = -1, .processors_asked = -1 }, 8), 0));
    htc_swf_close(NULL);
}

/* ---- writing ---- */

static double real(htc_rng *rng)
{
    return htc_rng_below(rng, 4) == 0 ? -1 : (double)htc_rng_below(rng, htc_rng_below(rng, 2) ? 1000 : 100000000) + (double)htc_rng_below(rng, 1000000) / 1e6 * (double)htc_rng_below(rng, 2);
}

static int64_t whole(htc_rng *rng)
{
    return (int64_t)htc_rng_below(rng, htc_rng_below(rng, 2) ? 10 : UINT64_C(1000000000000000)) - 1;
}

static int equal(const htc_swf_job *a, const htc_swf_job *b)
{
    return a->number == b->number && fabs(a->submit_s - b->submit_s) < 1e-6 && fabs(a->wait_s - b->wait_s) < 1e-6 && fabs(a->run_s - b->run_s) < 1e-6 && a->processors == b->processors &&
           fabs(a->cpu_s - b->cpu_s) < 1e-6 && fabs(a->memory_kb - b->memory_kb) < 1e-6 && a->processors_asked == b->processors_asked && fabs(a->run_asked_s - b->run_asked_s) < 1e-6 &&
           fabs(a->memory_asked_kb - b->memory_asked_kb) < 1e-6 && a->status == b->status && a->user == b->user && a->group == b->group && a->program == b->program &&
           a->queue == b->queue && a->partition == b->partition && a->preceding == b->preceding && fabs(a->think_s - b->think_s) < 1e-6;
}

Test(swf, what_is_written_is_read_back)
{
    PROPERTY(rng, 200)
    {
        htc_swf_job jobs[8];
        char        log[8 * HTC_SWF_LINE_ROOM];
        size_t      n = 0;
        double      at = 0;
        for (int i = 0; i < 8; i++) {
            htc_swf_job *j = &jobs[i];
            at += (double)htc_rng_below(&rng, 1000000) / 1e3;
            *j = (htc_swf_job){ whole(&rng), at, real(&rng), real(&rng), whole(&rng), real(&rng), real(&rng), whole(&rng), real(&rng), real(&rng),
                                whole(&rng), whole(&rng), whole(&rng), whole(&rng), whole(&rng), whole(&rng), whole(&rng), real(&rng) };
            size_t m = htc_swf_line(j, log + n);
            HOLDS(m > 36 && m == strlen(log + n) && log[n + m - 1] == '\n');
            n += m;
        }
        text           t = { log, log + n, 1 + htc_rng_below(&rng, 100) };
        htc_swf       *l = open_text(&t);
        htc_swf_job    got;
        htc_swf_counts c = { .size = sizeof c };
        for (int i = 0; i < 8; i++)
            HOLDS(htc_swf_next(l, &got, NULL) == HTC_OK && equal(&got, &jobs[i]));
        HOLDS(htc_swf_next(l, &got, NULL) == HTC_AGAIN && htc_swf_count(l, &c) == HTC_OK && c.bytes == n && c.lines == 8);
        htc_swf_close(l);
    }
}
