/* OpenMetrics 1.0 text: families one after the other, each with its metadata and its values. */
#include "htcsched/metrics.h"

#include <inttypes.h>
#include <string.h>

#include "core/codec.h"
#include "core/util.h"

#define TEXT_MAX   ((size_t)1 << 20)
#define LABELS_MAX 16

struct htc_metrics {
    htc_env    env;
    htc_buf    text;
    htc_buf    names;  /* of the families so far, each with its end */
    htc_status status; /* the first mistake */
    uint32_t   kind;   /* of the family; 0: there is none yet */
    int        seconds;
    size_t     name; /* where that of the family stands in names */
};

static const char *const kind_names[] = { "", "counter", "gauge", "histogram", "info" };
static const char *const suffixes[] = { "", "_total", "", "", "_info" };

htc_status htc_metrics_create(const htc_env *env, size_t bytes_max, htc_metrics **out)
{
    if (!out)
        return HTC_EINVAL;
    htc_metrics *m = htc__alloc(env, sizeof *m);
    if (!m)
        return HTC_ENOMEM;
    if (env)
        m->env = *env;
    htc_buf_init(&m->text, &m->env, bytes_max ? bytes_max : TEXT_MAX);
    htc_buf_init(&m->names, &m->env, bytes_max ? bytes_max : TEXT_MAX);
    *out = m;
    return HTC_OK;
}

void htc_metrics_destroy(htc_metrics *m)
{
    if (!m)
        return;
    htc_env env = m->env;
    htc_buf_free(&m->text);
    htc_buf_free(&m->names);
    htc__free(&env, m, sizeof *m);
}

void htc_metrics_clear(htc_metrics *m)
{
    if (!m)
        return;
    htc_buf_clear(&m->text);
    htc_buf_clear(&m->names);
    m->status = HTC_OK;
    m->kind = 0;
}

static void wrong(htc_metrics *m)
{
    if (m->status == HTC_OK)
        m->status = HTC_EINVAL;
}

static void put(htc_metrics *m, const char *text)
{
    htc_put_raw(&m->text, htc_bytes_of(text));
}

/* Quotes, backslashes and line ends are escaped; what no reader has to understand is '?'. */
static void put_escaped(htc_metrics *m, htc_bytes bytes)
{
    const char *p = bytes.data;
    for (size_t i = 0, len; i < bytes.len; i += len) {
        len = htc__utf8_len(p + i, bytes.len - i);
        if (p[i] == '\n')
            put(m, "\\n");
        else if (p[i] == '"' || p[i] == '\\')
            htc_put_raw(&m->text, (htc_bytes){ (char[]){ '\\', p[i] }, 2 });
        else if (len == 0 || (unsigned char)p[i] < 0x20 || p[i] == 0x7f)
            put(m, "?");
        else
            htc_put_raw(&m->text, (htc_bytes){ p + i, len });
        len += len == 0;
    }
}

/* As short as it can be, with a fraction always, as numbers of seconds are written. */
static void put_seconds(htc_metrics *m, htc_ns ns)
{
    char     digits[10] = "000000000";
    uint64_t rest = ns % HTC_SECOND;
    size_t   n = 9;
    for (size_t i = 9; i-- > 0; rest /= 10)
        digits[i] = (char)('0' + rest % 10);
    while (n > 1 && digits[n - 1] == '0')
        n--;
    htc_put_text(&m->text, "%" PRIu64 ".%.*s", ns / HTC_SECOND, (int)n, digits);
}

static int letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static int named(const char *name)
{
    if (!name || !letter(name[0]))
        return 0;
    while (letter(*name) || (*name >= '0' && *name <= '9'))
        name++;
    return *name == '\0';
}

static int ends_in(const char *name, const char *suffix)
{
    size_t n = strlen(name), len = strlen(suffix);
    return n > len && strcmp(name + n - len, suffix) == 0;
}

/* With a suffix of any kind it could be taken for a value of another family. */
static int suffixed(const char *name)
{
    static const char *const all[] = { "_total", "_created", "_count", "_sum", "_bucket", "_info" };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (ends_in(name, all[i]))
            return 1;
    return 0;
}

static int unit_fits(uint32_t kind, const char *name, const char *unit)
{
    if (kind == HTC_METRIC_HISTOGRAM && strcmp(unit, "seconds") != 0)
        return 0;
    if (*unit == '\0')
        return 1;
    size_t n = strlen(name), len = strlen(unit);
    return kind != HTC_METRIC_INFO && named(unit) && ends_in(name, unit) && name[n - len - 1] == '_';
}

static int known(const htc_metrics *m, const char *name)
{
    for (size_t at = 0; at < m->names.len; at += strlen((const char *)m->names.data + at) + 1)
        if (strcmp((const char *)m->names.data + at, name) == 0)
            return 1;
    return 0;
}

void htc_metrics_family(htc_metrics *m, uint32_t kind, const char *name, const char *unit, const char *help)
{
    if (!m || m->status != HTC_OK)
        return;
    if (kind < HTC_METRIC_COUNTER || kind > HTC_METRIC_INFO || !named(name) || suffixed(name) || !unit || !help ||
        !unit_fits(kind, name, unit) || known(m, name)) {
        wrong(m);
        return;
    }
    m->kind = kind;
    m->seconds = strcmp(unit, "seconds") == 0;
    m->name = m->names.len;
    htc_put_raw(&m->names, (htc_bytes){ name, strlen(name) + 1 });
    if (m->names.status != HTC_OK) { /* or the name would not be there to be read */
        m->status = m->names.status;
        return;
    }
    htc_put_text(&m->text, "# TYPE %s %s\n", name, kind_names[kind]);
    if (*unit)
        htc_put_text(&m->text, "# UNIT %s %s\n", name, unit);
    htc_put_text(&m->text, "# HELP %s ", name);
    put_escaped(m, htc_bytes_of(help));
    put(m, "\n");
}

static int labels_fit(const htc_metrics *m, const htc_metric_label *labels, size_t n)
{
    if (n > LABELS_MAX || (n && !labels))
        return 0;
    for (size_t i = 0; i < n; i++) {
        if (!named(labels[i].name) || strncmp(labels[i].name, "__", 2) == 0 ||
            (labels[i].value.len && !labels[i].value.data) ||
            (m->kind == HTC_METRIC_HISTOGRAM && strcmp(labels[i].name, "le") == 0))
            return 0;
        for (size_t j = 0; j < i; j++)
            if (strcmp(labels[i].name, labels[j].name) == 0)
                return 0;
    }
    return 1;
}

/* Name and labels of a value; bound: the one of its bucket, HTC_NEVER: it has none. NULL: this is not a bucket. */
static void put_head(htc_metrics *m, const char *suffix, const htc_metric_label *labels, size_t n, const htc_ns *bound)
{
    put(m, (const char *)m->names.data + m->name);
    put(m, suffix);
    for (size_t i = 0; i < n; i++) {
        put(m, i ? "," : "{");
        put(m, labels[i].name);
        put(m, "=\"");
        put_escaped(m, labels[i].value);
        put(m, "\"");
    }
    if (bound) {
        put(m, n ? ",le=\"" : "{le=\"");
        if (*bound == HTC_NEVER)
            put(m, "+Inf");
        else
            put_seconds(m, *bound);
        put(m, "\"");
    }
    put(m, n || bound ? "} " : " ");
}

/* 1: the head of a value is written, the value is to follow. */
static int begin(htc_metrics *m, const htc_metric_label *labels, size_t n)
{
    if (!m || m->status != HTC_OK)
        return 0;
    if (m->kind == 0 || m->kind == HTC_METRIC_HISTOGRAM || !labels_fit(m, labels, n)) {
        wrong(m);
        return 0;
    }
    put_head(m, suffixes[m->kind], labels, n, NULL);
    return 1;
}

void htc_metrics_value(htc_metrics *m, const htc_metric_label *labels, size_t count, uint64_t value)
{
    if (!begin(m, labels, count))
        return;
    if (m->kind == HTC_METRIC_INFO && value != 1)
        wrong(m);
    htc_put_text(&m->text, "%" PRIu64 "\n", value);
}

void htc_metrics_duration(htc_metrics *m, const htc_metric_label *labels, size_t count, htc_ns value)
{
    if (!begin(m, labels, count))
        return;
    if (!m->seconds)
        wrong(m);
    put_seconds(m, value);
    put(m, "\n");
}

void htc_metrics_histogram(htc_metrics *m, const htc_metric_label *labels, size_t count, const htc_metric_durations *d)
{
    uint64_t all = 0;
    if (!m || m->status != HTC_OK)
        return;
    if (m->kind != HTC_METRIC_HISTOGRAM || !labels_fit(m, labels, count) || !d || !d->counts ||
        (d->count && !d->bounds)) {
        wrong(m);
        return;
    }
    for (size_t i = 0; i <= d->count; i++) {
        htc_ns bound = i < d->count ? d->bounds[i] : HTC_NEVER;
        if (i > 0 && bound <= d->bounds[i - 1]) {
            wrong(m);
            return;
        }
        all += d->counts[i];
        put_head(m, "_bucket", labels, count, &bound);
        htc_put_text(&m->text, "%" PRIu64 "\n", all);
    }
    put_head(m, "_count", labels, count, NULL);
    htc_put_text(&m->text, "%" PRIu64 "\n", all);
    put_head(m, "_sum", labels, count, NULL);
    put_seconds(m, d->sum);
    put(m, "\n");
}

/* ---- several texts as one ---- */

/* The next line, without its end; 0: there is none. */
static int line_of(htc_bytes text, size_t *at, htc_bytes *line)
{
    const char *p = text.data, *end = *at < text.len ? memchr(p + *at, '\n', text.len - *at) : NULL;
    if (!end)
        return 0;
    *line = (htc_bytes){ p + *at, (size_t)(end - p) - *at };
    *at += line->len + 1;
    return 1;
}

static int begins_with(htc_bytes line, const char *words)
{
    size_t n = strlen(words);
    return line.len >= n && memcmp(line.data, words, n) == 0;
}

/* The name of the family that begins with this line; len 0: none does. */
static htc_bytes family_in(htc_bytes line)
{
    const char *name = (const char *)line.data + 7, *end;
    if (!begins_with(line, "# TYPE ") || !(end = memchr(name, ' ', line.len - 7)))
        return (htc_bytes){ NULL, 0 };
    return (htc_bytes){ name, (size_t)(end - name) };
}

/* Where a family begins, looked for from `from` on and then from the start; text.len: nowhere. */
static size_t find_family(htc_bytes text, size_t from, htc_bytes name)
{
    htc_bytes line;
    for (int round = 0; round < 2; round++)
        for (size_t at = round ? 0 : from, here = at; line_of(text, &at, &line); here = at)
            if (htc_bytes_equal(family_in(line), name))
                return here;
    return text.len;
}

static void put_joined(htc_metrics *m, htc_bytes line, const char *label, size_t number)
{
    const char *p = line.data;
    size_t      n = 0;
    while (n < line.len && p[n] != '{' && p[n] != ' ')
        n++;
    if (n == line.len) {
        wrong(m);
        return;
    }
    htc_put_raw(&m->text, (htc_bytes){ p, n });
    htc_put_text(&m->text, "{%s=\"%zu\"%s", label, number, p[n] == '{' ? "," : "} ");
    htc_put_raw(&m->text, (htc_bytes){ p + n + 1, line.len - n - 1 });
    put(m, "\n");
}

/* The values of the family that begins at `at`, and what is said of it if that is wanted. Answers where it ends. */
static size_t join_family(htc_metrics *m, htc_bytes text, size_t at, int head, const char *label, size_t number)
{
    htc_bytes line;
    size_t    here = at;
    for (int first = 1; line_of(text, &at, &line); first = 0, here = at) {
        if (!first && (family_in(line).len || begins_with(line, "# EOF")))
            return here;
        if (!begins_with(line, "# ")) {
            put_joined(m, line, label, number);
        } else if (head) {
            htc_put_raw(&m->text, line);
            put(m, "\n");
        }
    }
    return here;
}

/* This family of all texts from the nth on, of which it is the first that has it. */
static void join_all(htc_metrics *m, const char *label, const htc_bytes *texts, size_t count, size_t n, htc_bytes name,
                     size_t *ats)
{
    for (size_t i = n; i < count; i++) {
        size_t at = find_family(texts[i], ats[i], name);
        if (at < texts[i].len)
            ats[i] = join_family(m, texts[i], at, i == n, label, i + 1);
    }
}

static int joined_before(const htc_bytes *texts, size_t n, htc_bytes name)
{
    for (size_t i = 0; i < n; i++)
        if (find_family(texts[i], 0, name) < texts[i].len)
            return 1;
    return 0;
}

static void join(htc_metrics *m, const char *label, const htc_bytes *texts, size_t count, size_t *ats)
{
    for (size_t n = 0; n < count && m->status == HTC_OK; n++) {
        htc_bytes line, name;
        for (size_t at = 0; line_of(texts[n], &at, &line);) {
            name = family_in(line);
            if (name.len == 0 || (n > 0 && joined_before(texts, n, name)))
                continue;
            size_t old = m->names.len;
            htc_put_raw(&m->names, name);
            htc_put_u8(&m->names, 0);
            if (m->names.status != HTC_OK) {
                m->status = m->names.status;
                return;
            }
            m->names.len = old;
            int twice = known(m, (const char *)m->names.data + old);
            m->names.len = old + name.len + 1;
            if (twice)
                wrong(m);
            else
                join_all(m, label, texts, count, n, name, ats);
        }
    }
}

void htc_metrics_join(htc_metrics *m, const char *label, const htc_bytes *texts, size_t count)
{
    if (!m || m->status != HTC_OK)
        return;
    if (!named(label) || strncmp(label, "__", 2) == 0 || (count && !texts)) {
        wrong(m);
        return;
    }
    size_t *ats = count ? htc__alloc(&m->env, count * sizeof *ats) : NULL;
    if (count && !ats) {
        m->status = HTC_ENOMEM;
        return;
    }
    m->kind = 0;
    if (count)
        join(m, label, texts, count, ats);
    htc__free(&m->env, ats, count * sizeof *ats);
}

htc_status htc_metrics_end(htc_metrics *m, htc_bytes *text)
{
    if (!m || !text)
        return HTC_EINVAL;
    *text = (htc_bytes){ NULL, 0 };
    if (m->status == HTC_OK) {
        put(m, "# EOF\n");
        m->status = m->text.status;
    }
    m->kind = 0;
    if (m->status != HTC_OK)
        return m->status;
    *text = htc_buf_bytes(&m->text);
    m->status = HTC_EINVAL; /* nothing may follow but htc_metrics_clear */
    return HTC_OK;
}
