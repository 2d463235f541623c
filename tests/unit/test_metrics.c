/* The writer of OpenMetrics text against a strict reader of it: what is written is read back, and what may not be written is not. */
#include "expect.h"
#include <locale.h>
#include <stdio.h>

#include "alloc_fail.h"
#include "core/util.h"
#include "htcsched/metrics.h"
#include "openmetrics.h"
#include "property.h"

static htc_metrics *writer(size_t bytes_max)
{
    htc_metrics *m = NULL;
    cr_assert(eq(int, htc_metrics_create(NULL, bytes_max, &m), HTC_OK));
    return m;
}

static om *reader(htc_metrics *m)
{
    om       *t = malloc(sizeof *t);
    htc_bytes text;
    cr_assert(eq(int, htc_metrics_end(m, &text), HTC_OK));
    cr_assert(om_read(t, text), "line %zu: %s\n%.*s", t->line, t->wrong, (int)text.len, (const char *)text.data);
    return t;
}

static void done(htc_metrics *m, om *t)
{
    om_free(t);
    free(t);
    htc_metrics_destroy(m);
}

Test(metrics, the_text_of_the_header)
{
    htc_metrics *m = writer(0);
    htc_bytes    text;
    htc_metrics_family(m, HTC_METRIC_COUNTER, "demo_requests", "", "Requests that were answered.");
    htc_metrics_value(m, &(htc_metric_label){ "outcome", htc_bytes_of("ok") }, 1, 7);
    cr_assert(eq(int, htc_metrics_end(m, &text), HTC_OK));
    cr_expect(htc_bytes_equal(
        text, htc_bytes_of("# TYPE demo_requests counter\n# HELP demo_requests Requests that were answered.\n"
                           "demo_requests_total{outcome=\"ok\"} 7\n# EOF\n")));
    cr_expect(eq(int, htc_metrics_end(m, &text), HTC_EINVAL));
    htc_metrics_clear(m);
    cr_assert(eq(int, htc_metrics_end(m, &text), HTC_OK));
    cr_expect(htc_bytes_equal(text, htc_bytes_of("# EOF\n")));
    htc_metrics_destroy(m);
}

Test(metrics, durations_are_seconds_in_every_locale)
{
    static const struct {
        htc_ns      ns;
        const char *text;
    } cases[] = { { 0, "0.0" },
                  { 1, "0.000000001" },
                  { 100 * HTC_US, "0.0001" },
                  { 250 * HTC_MS, "0.25" },
                  { HTC_SECOND, "1.0" },
                  { 90 * HTC_SECOND + 5, "90.000000005" },
                  { UINT64_MAX, "18446744073.709551615" } };
    if (!setlocale(LC_ALL, "de_DE.UTF-8"))
        setlocale(LC_ALL, ""); /* whatever there is */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        htc_metrics *m = writer(0);
        htc_metrics_family(m, HTC_METRIC_GAUGE, "demo_age_seconds", "seconds", "");
        htc_metrics_duration(m, NULL, 0, cases[i].ns);
        om *t = reader(m);
        cr_expect(eq(str, t->samples[0].number, (char *)cases[i].text));
        cr_expect(eq(str, t->unit, "seconds"));
        done(m, t);
    }
}

/* What no reader has to understand is '?': the same rule, done byte by byte. */
static size_t cleaned(const char *from, size_t n, char *to)
{
    size_t len = 0;
    for (size_t i = 0; i < n;) {
        size_t c = htc__utf8_len(from + i, n - i);
        if (c == 0 || (c == 1 && from[i] != '\n' && ((unsigned char)from[i] < 0x20 || from[i] == 0x7f)))
            to[len++] = '?';
        else
            for (size_t k = 0; k < c; k++)
                to[len++] = from[i + k];
        i += c ? c : 1;
    }
    to[len] = 0;
    return len;
}

Test(metrics, any_bytes_in_a_label_come_back)
{
    static const char tricky[] = "\\\"\n\t\x7f\x80\xc3\xa4\xe2\x82\xac\xff\\n{},= #";
    PROPERTY(rng, 400)
    {
        char         bytes[60], wanted[61];
        size_t       n = htc_rng_below(&rng, sizeof bytes);
        htc_metrics *m = writer(0);
        for (size_t i = 0; i < n; i++)
            bytes[i] =
                htc_rng_below(&rng, 2) ? tricky[htc_rng_below(&rng, sizeof tricky)] : (char)htc_rng_below(&rng, 256);
        size_t           len = cleaned(bytes, n, wanted);
        htc_metric_label labels[] = { { "name", { bytes, n } }, { "other", htc_bytes_of("x") } };
        htc_metrics_family(m, HTC_METRIC_INFO, "demo", "", wanted); /* a help may have a line end too */
        htc_metrics_value(m, labels, 2, 1);
        om *t = reader(m);
        cr_assert(eq(sz, t->count, 1));
        cr_expect(eq(sz, strlen(t->samples[0].labels[0].value), len));
        cr_expect(eq(str, t->samples[0].labels[0].value, wanted));
        cr_expect(eq(str, t->help, wanted));
        done(m, t);
    }
}

/* Durations counted one by one, in a plain list. */
Test(metrics, buckets_add_up)
{
    PROPERTY(rng, 200)
    {
        htc_ns   bounds[12], list[200], sum = 0;
        uint64_t counts[13] = { 0 };
        size_t   n = htc_rng_below(&rng, 13), of = htc_rng_below(&rng, 201);
        for (size_t i = 0; i < n; i++)
            bounds[i] = (i ? bounds[i - 1] : 0) + 1 + htc_rng_below(&rng, HTC_SECOND);
        for (size_t i = 0; i < of; i++) {
            size_t b = 0;
            list[i] =
                n && htc_rng_below(&rng, 3) == 0 ? bounds[htc_rng_below(&rng, n)] : htc_rng_below(&rng, 8 * HTC_SECOND);
            while (b < n && list[i] > bounds[b])
                b++;
            counts[b]++;
            sum += list[i];
        }
        htc_metrics *m = writer(0);
        htc_metrics_family(m, HTC_METRIC_HISTOGRAM, "demo_wait_seconds", "seconds", "How long.");
        htc_metrics_histogram(m, NULL, 0, &(htc_metric_durations){ bounds, counts, n, sum });
        htc_metrics_histogram(m, &(htc_metric_label){ "of", htc_bytes_of("b") }, 1,
                              &(htc_metric_durations){ bounds, counts, n, sum });
        om *t = reader(m);
        cr_assert(eq(sz, t->count, 2 * (n + 3)));
        for (size_t i = 0; i <= n; i++) {
            const om_sample *s = &t->samples[i];
            uint64_t         below = 0;
            for (size_t k = 0; k < of; k++)
                below += i == n || list[k] <= bounds[i];
            cr_expect(eq(u64, strtoull(s->number, NULL, 10), below));
            cr_expect(eq(str, (char *)s->labels[0].name, "le"));
            double le = strtod(s->labels[0].value, NULL);
            cr_expect(i == n ? strcmp(s->labels[0].value, "+Inf") == 0
                             : le > (double)bounds[i] / 1e9 - 1e-10 && le < (double)bounds[i] / 1e9 + 1e-10);
        }
        cr_expect(eq(u64, om_number(t, "demo_wait_seconds_count"), of));
        cr_expect(eq(u64, om_number(t, "demo_wait_seconds_count{of=\"b\"}"), of));
        cr_expect(eq(u64, om_number(t, "demo_wait_seconds_sum"), sum / HTC_SECOND));
        done(m, t);
    }
}

typedef void (*mistake)(htc_metrics *m);

static void a_gauge(htc_metrics *m)
{
    htc_metrics_family(m, HTC_METRIC_GAUGE, "demo_one", "", "");
}
static void no_family(htc_metrics *m)
{
    htc_metrics_value(m, NULL, 0, 1);
}
static void twice(htc_metrics *m)
{
    a_gauge(m);
    htc_metrics_family(m, HTC_METRIC_GAUGE, "demo_two", "", "");
    a_gauge(m);
}
static void suffix(htc_metrics *m)
{
    htc_metrics_family(m, HTC_METRIC_COUNTER, "demo_total", "", "");
}
static void suffix_of_another(htc_metrics *m)
{
    htc_metrics_family(m, HTC_METRIC_GAUGE, "demo_bucket", "", "");
}
static void digit(htc_metrics *m)
{
    htc_metrics_family(m, HTC_METRIC_GAUGE, "1demo", "", "");
}
static void nameless(htc_metrics *m)
{
    htc_metrics_family(m, HTC_METRIC_GAUGE, "", "", "");
}
static void unit(htc_metrics *m)
{
    htc_metrics_family(m, HTC_METRIC_GAUGE, "demo_sizes", "bytes", "");
}
static void bare_unit(htc_metrics *m)
{
    htc_metrics_family(m, HTC_METRIC_GAUGE, "bytes", "bytes", "");
}
static void unit_of_info(htc_metrics *m)
{
    htc_metrics_family(m, HTC_METRIC_INFO, "demo_bytes", "bytes", "");
}
static void kind(htc_metrics *m)
{
    htc_metrics_family(m, 9, "demo", "", "");
}
static void reserved_label(htc_metrics *m)
{
    a_gauge(m);
    htc_metrics_value(m, &(htc_metric_label){ "__x", { NULL, 0 } }, 1, 1);
}
static void label_twice(htc_metrics *m)
{
    htc_metric_label two[] = { { "x", { "1", 1 } }, { "x", { "2", 1 } } };
    a_gauge(m);
    htc_metrics_value(m, two, 2, 1);
}
static void no_seconds(htc_metrics *m)
{
    a_gauge(m);
    htc_metrics_duration(m, NULL, 0, 1);
}
static void info_of_two(htc_metrics *m)
{
    htc_metrics_family(m, HTC_METRIC_INFO, "demo", "", "");
    htc_metrics_value(m, NULL, 0, 2);
}
static const htc_ns   falling[] = { 2, 1 };
static const uint64_t none[3] = { 0 };
static void           histogram_of_gauge(htc_metrics *m)
{
    a_gauge(m);
    htc_metrics_histogram(m, NULL, 0, &(htc_metric_durations){ falling, none, 1, 0 });
}
static void value_of_histogram(htc_metrics *m)
{
    htc_metrics_family(m, HTC_METRIC_HISTOGRAM, "demo_seconds", "seconds", "");
    htc_metrics_value(m, NULL, 0, 1);
}
static void unsorted(htc_metrics *m)
{
    htc_metrics_family(m, HTC_METRIC_HISTOGRAM, "demo_seconds", "seconds", "");
    htc_metrics_histogram(m, NULL, 0, &(htc_metric_durations){ falling, none, 2, 0 });
}
static void own_le(htc_metrics *m)
{
    htc_metrics_family(m, HTC_METRIC_HISTOGRAM, "demo_seconds", "seconds", "");
    htc_metrics_histogram(m, &(htc_metric_label){ "le", { "1", 1 } }, 1,
                          &(htc_metric_durations){ falling, none, 1, 0 });
}

Test(metrics, mistakes_are_said_and_the_next_text_is_whole)
{
    static const mistake mistakes[] = {
        no_family,          twice,        suffix, suffix_of_another, digit,          nameless,    unit,
        bare_unit,          unit_of_info, kind,   no_seconds,        reserved_label, label_twice, info_of_two,
        histogram_of_gauge, unsorted,     own_le, value_of_histogram
    };
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        htc_metrics *m = writer(0);
        htc_bytes    text = { "", 1 };
        mistakes[i](m);
        cr_expect(eq(int, htc_metrics_end(m, &text), HTC_EINVAL), "mistake %zu", i);
        cr_expect(eq(sz, text.len, 0));
        htc_metrics_clear(m);
        a_gauge(m);
        htc_metrics_value(m, NULL, 0, 3);
        om *t = reader(m);
        cr_expect(eq(u64, om_number(t, "demo_one"), 3));
        done(m, t);
    }
}

static htc_status a_text(const htc_env *env, size_t bytes_max)
{
    htc_metrics *m = NULL;
    htc_bytes    text;
    htc_status   status = htc_metrics_create(env, bytes_max, &m);
    if (status != HTC_OK)
        return status;
    for (int i = 0; i < 40; i++) {
        char name[32];
        snprintf(name, sizeof name, "demo_family_%d", i);
        htc_metrics_family(m, HTC_METRIC_COUNTER, name, "", "One of many.");
        htc_metrics_value(m, &(htc_metric_label){ "label", htc_bytes_of("value") }, 1, (uint64_t)i);
    }
    status = htc_metrics_end(m, &text);
    cr_expect(status == HTC_OK || text.len == 0);
    htc_metrics_destroy(m);
    return status;
}

static void some_families(htc_metrics *m, int which)
{
    static const htc_ns   bounds[] = { HTC_MS };
    static const uint64_t counts[] = { 2, 1 };
    htc_metrics_family(m, HTC_METRIC_GAUGE, "first", "", "In all of them.");
    htc_metrics_value(m, NULL, 0, (uint64_t)which);
    if (which == 2) {
        htc_metrics_family(m, HTC_METRIC_INFO, "second", "", "In one, and after the first.");
        htc_metrics_value(m, &(htc_metric_label){ "x", htc_bytes_of("a {b} \" \n c") }, 1, 1);
    }
    htc_metrics_family(m, HTC_METRIC_HISTOGRAM, "third_seconds", "seconds", "In all of them.");
    if (which != 3)
        htc_metrics_histogram(m, &(htc_metric_label){ "op", htc_bytes_of("get") }, 1,
                              &(htc_metric_durations){ bounds, counts, 1, HTC_SECOND });
}

/* Each value of each text is there once, under the same name with one label more; each family once, which the reader sees to. */
Test(metrics, texts_are_joined)
{
    htc_metrics *m = writer(0), *of[4];
    htc_bytes    texts[4] = { 0 };
    for (int i = 0; i < 4; i++) {
        of[i] = writer(0);
        some_families(of[i], i + 1);
        if (i != 1) /* the second one is empty */
            cr_assert(eq(int, htc_metrics_end(of[i], &texts[i]), HTC_OK));
    }
    htc_metrics_join(m, "shard", texts, 4);
    htc_metrics_family(m, HTC_METRIC_GAUGE, "last", "", "One more.");
    htc_metrics_value(m, NULL, 0, 9);
    om *t = reader(m);
    cr_expect(eq(sz, t->families, 3));
    cr_expect(eq(sz, t->count, 3 + 2 * 4 + 1));
    const om_sample *s = om_find(t, "first{shard=\"3\"}");
    cr_assert(s && strcmp(s->number, "3") == 0);
    s = om_find(t, "third_seconds_bucket{shard=\"4\",op=\"get\",le=\"+Inf\"}");
    cr_assert(s && strcmp(s->number, "3") == 0);
    cr_expect(om_find(t, "third_seconds_count{shard=\"2\",op=\"get\"}") == NULL);
    om_free(t);
    free(t);
    /* In another order, and with one that not all have. */
    htc_metrics_clear(m);
    cr_assert(eq(int, htc_metrics_end(of[1], &texts[1]), HTC_OK));
    htc_metrics_join(m, "shard", texts, 4);
    t = reader(m);
    cr_expect(eq(sz, t->families, 3));
    cr_expect(eq(sz, t->count, 4 + 1 + 3 * 4));
    cr_expect(om_find(t, "second_info{shard=\"2\",x=\"a {b} \\\" \\n c\"}") != NULL);
    om_free(t);
    free(t);
    htc_bytes text;
    htc_metrics_clear(m);
    htc_metrics_family(m, HTC_METRIC_GAUGE, "third_seconds", "seconds", "There already.");
    htc_metrics_join(m, "shard", texts, 4);
    cr_expect(eq(int, htc_metrics_end(m, &text), HTC_EINVAL));
    htc_metrics_clear(m);
    htc_metrics_join(m, "no label", texts, 4);
    cr_expect(eq(int, htc_metrics_end(m, &text), HTC_EINVAL));
    for (int i = 0; i < 4; i++)
        htc_metrics_destroy(of[i]);
    htc_metrics_destroy(m);
}

Test(metrics, bounded_and_without_memory)
{
    for (size_t max = 1; max < 3000; max += 37)
        cr_expect(eq(int, a_text(NULL, max), HTC_EFULL), "%zu bytes", max);
    cr_expect(eq(int, a_text(NULL, 5000), HTC_OK));
    ALLOC_FAIL_EVERY(f, 1000)
    {
        htc_env    env = alloc_fail_env(&f);
        htc_status status = a_text(&env, 0);
        cr_expect(eq(int, status, f.refused ? HTC_ENOMEM : HTC_OK));
        cr_expect(eq(sz, f.live, 0));
        cr_expect(eq(sz, f.wrong_sizes, 0));
    }
}
