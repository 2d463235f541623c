/* What a study of htc-sim reads and computes: values, names of settings, files, and means with their intervals. */
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "expect.h"

#include "../../examples/htc-sim/study/ini.h"
#include "../../examples/htc-sim/study/statistics.h"
#include "../../examples/htc-sim/study/values.h"

Test(study, reads_values)
{
    static const struct {
        const char *text;
        uint64_t    count;
    } counts[] = { { "0", 0 }, { "17", 17 }, { "10K", 10000 }, { "1.5M", 1500000 }, { "1e6", 1000000 }, { "2g", 2000000000 } };
    static const struct {
        const char *text;
        htc_ns      span;
    } spans[] = { { "0", 0 }, { "2", 2 * HTC_SECOND }, { "1.5s", 1500 * HTC_MS }, { "250us", 250 * HTC_US }, { "7ns", 7 }, { "10min", 600 * HTC_SECOND },
                  { "2h", 7200 * HTC_SECOND }, { "1d", 86400 * HTC_SECOND } };
    static const char *const no_count[] = { "", "x", "-1", "1.5", "1 K", "1KK", "0x10", "inf", "nan", "1e99", "+1" };
    static const char *const no_span[] = { "", "s", "-1s", "1 s", "1hour", "1e30", "0x1s" };
    uint64_t                 count;
    htc_ns                   span;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        cr_expect(value_count(counts[i].text, &count) && count == counts[i].count, "%s", counts[i].text);
    for (size_t i = 0; i < sizeof spans / sizeof *spans; i++)
        cr_expect(value_span(spans[i].text, &span) && span == spans[i].span, "%s", spans[i].text);
    for (size_t i = 0; i < sizeof no_count / sizeof *no_count; i++)
        cr_expect(!value_count(no_count[i], &count), "%s", no_count[i]);
    for (size_t i = 0; i < sizeof no_span / sizeof *no_span; i++)
        cr_expect(!value_span(no_span[i], &span), "%s", no_span[i]);
    cr_expect(value_size("2G", &count) && count == UINT64_C(2) << 30);
}

Test(study, reads_laws)
{
    static const struct {
        const char *text;
        uint32_t    kind;
        double      mean_s, spread;
    } laws[] = { { "760s", HTC_SCALE_CONSTANT, 760, 0 },     { "1s..3s", HTC_SCALE_UNIFORM, 2, 0.5 },          { "0..2", HTC_SCALE_UNIFORM, 1, 1 },
                 { "exponential 10min", HTC_SCALE_EXPONENTIAL, 600, 0 }, { "lognormal 760s 0.3", HTC_SCALE_LOGNORMAL, 760, 0.3 },
                 { "gamma 5s 0.5", HTC_SCALE_GAMMA, 5, 0.5 },
                 { "mtc", HTC_SCALE_MTC, 95.2, 0 }, { "mtc 10s", HTC_SCALE_MTC, 10, 0 }, { "mtc-subsecond", HTC_SCALE_MTC_SUBSECOND, 0.34399, 0 } };
    static const char *const no_law[] = { "", "normal 5s", "lognormal 5s", "lognormal 5s 11", "lognormal 5s -1", "lognormal 5s 1 2", "gamma 5s", "gamma 5s 11", "gamma 5s 1 2", "exponential", "exponential 5s 1", "3s..1s", "1s..", "..2s", "5s 6s", "mtc 1 2", "mtcs", "mtc x" };
    htc_scale_law            law;
    for (size_t i = 0; i < sizeof laws / sizeof *laws; i++)
        cr_expect(value_law(laws[i].text, &law) && law.kind == laws[i].kind && fabs(law.mean_ns / 1e9 - laws[i].mean_s) < 1e-9 && fabs(law.spread - laws[i].spread) < 1e-9, "%s",
                  laws[i].text);
    for (size_t i = 0; i < sizeof no_law / sizeof *no_law; i++)
        cr_expect(!value_law(no_law[i], &law), "%s", no_law[i]);
}

static const setting table[] = { { "cluster.cores", SET_COUNT, "1000", 1, 100000, "a number from 1 to 100000" },
                                 { "user.*.weight", SET_REAL, "1", 0, 10, "a number" },
                                 { "user.*.kind", SET_CHOICE, "b", 0, 0, "a|b|c" },
                                 { NULL, 0, NULL, 0, 0, NULL } };

Test(study, keeps_settings)
{
    settings *s = settings_create(table), *copy;
    htc_error e;
    cr_expect(eq(u64, settings_count(s, "cluster.cores"), 1000));
    cr_expect(settings_set(s, "cluster.cores", "5K", &e) && settings_set(s, "cluster.cores", "6K", &e));
    cr_expect(settings_section_begins(s, "user.eve", &e) && settings_set(s, "user.a.b.weight", "2.5", &e));
    copy = settings_copy(s);
    settings_destroy(s);
    cr_expect(eq(u64, settings_count(copy, "cluster.cores"), 6000), "the last one holds");
    cr_expect(eq(str, settings_section(copy, "user", 0), "eve") && eq(str, settings_section(copy, "user", 1), "a.b"));
    cr_expect(settings_section(copy, "user", 2) == NULL);
    cr_expect(eq(dbl, settings_real(copy, settings_in(copy, "user", "a.b", "weight")), 2.5));
    cr_expect(eq(u32, settings_choice(copy, "user.eve.kind"), 1), "the fallback");
    cr_expect(!settings_set(copy, "cluster.cores", "100001", &e) && strstr(e.hint, "takes a number from 1 to 100000"), "%s", e.hint);
    cr_expect(!settings_set(copy, "user.eve.kind", "ab", &e));
    cr_expect(!settings_set(copy, "cluster.croes", "1", &e) && strstr(e.hint, "cluster.cores"), "%s", e.hint);
    cr_expect(!settings_set(copy, "user.weight", "1", &e), "a section with names has one");
    cr_expect(!settings_section_begins(copy, "user", &e) && !settings_section_begins(copy, "user.", &e) && !settings_section_begins(copy, "cluster.x", &e));
    settings_destroy(copy);
}

/* Whatever bytes a file has: it is read, or refused with a line of it. */
Test(study, files_of_any_bytes_are_read_or_refused)
{
    static const char parts[][12] = { "[cluster]\n", "cores", " = ", "5", "\n", "[user.", "a]", "weight", ";", "#", "\t", "=", "[", "]", "\xff\xfe", "kind=a\n", "\r\n", ":" };
    char              name[] = "/tmp/htc-study-XXXXXX";
    int               fd = mkstemp(name), read = 0, refused = 0;
    htc_rng           rng = { 5 };
    cr_assert(fd >= 0);
    for (int i = 0; i < 500; i++) {
        settings *s = settings_create(table);
        htc_error e;
        FILE     *f = fopen(name, "w");
        uint32_t  lines = 1;
        for (uint64_t n = htc_rng_below(&rng, 12); n; n--) {
            const char *part = parts[htc_rng_below(&rng, sizeof parts / sizeof *parts)];
            lines += strchr(part, '\n') != NULL;
            fputs(part, f);
        }
        fclose(f);
        ini_text *text = ini_open(name, &e);
        int       good = text && ini_read(s, text, &e);
        ini_close(text);
        if (!good && !(e.line >= 1 && e.line <= lines && e.text[0] && e.hint[0] && strncmp(e.where, name, strlen(name)) == 0))
            cr_assert(0, "%s: %s", e.where, e.text);
        read += good;
        refused += !good;
        settings_destroy(s);
    }
    close(fd);
    unlink(name);
    cr_expect(read > 20 && refused > 20);
}

/* The figures of 2, 3, 5 and 100 values, by a table of t. */
Test(study, intervals_are_students)
{
    double   v[100];
    estimate e = estimate_of((double[]){ 1, 3 }, 2);
    cr_expect(fabs(e.mean - 2) < 1e-12 && fabs(e.half - 12.7062) < 1e-4);
    e = estimate_of((double[]){ 1, 2, 3, 4, 5 }, 5);
    cr_expect(fabs(e.mean - 3) < 1e-12 && fabs(e.half - 2.7764 * sqrt(2.5 / 5)) < 1e-4);
    for (int i = 0; i < 100; i++)
        v[i] = i % 2;
    e = estimate_of(v, 100);
    cr_expect(fabs(e.mean - 0.5) < 1e-12 && fabs(e.half - 1.98422 * sqrt(25.0 / 99 / 100)) < 1e-5, "%g", e.half);
    e = estimate_of(v, 1);
    cr_expect(e.half == 0);
}
