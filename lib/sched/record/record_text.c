/* Reading hostlist texts: see record_text.h. */
#include "sched/record/record_text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/util.h"

typedef struct walk {
    htc_bytes         text;
    const char       *p, *end;
    uint64_t          named, max;
    htc__hosts_found *found;
    void             *ctx;
    htc_error        *error;
} walk;

/* A name as written: literal 0, group 0, literal 1, group 1 ... literal `groups`; literals may be empty. */
typedef struct item {
    const char *literal[HTC_RECORD_GROUPS_MAX + 1], *literal_end[HTC_RECORD_GROUPS_MAX + 1];
    const char *group[HTC_RECORD_GROUPS_MAX], *group_end[HTC_RECORD_GROUPS_MAX];
    size_t      groups;
} item;

typedef struct range {
    uint64_t first, last;
    uint32_t width;
} range;

static htc_status __attribute__((format(printf, 4, 5)))
refuse(walk *w, const char *at, htc_status status, const char *format, ...)
{
    char        text[sizeof w->error->text];
    const char *start = w->text.data, *line = start;
    uint32_t    lines = 1;
    va_list     args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    htc__error(w->error, status, "%s", text);
    for (const char *p = start; w->error && p < at; p++)
        if (*p == '\n') {
            lines++;
            line = p + 1;
        }
    if (w->error) {
        w->error->line = lines;
        w->error->column = (uint32_t)(at - line) + 1;
    }
    return status;
}

static int is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static int is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static int is_literal(char c)
{
    return c > ' ' && c < 0x7f && c != ',' && c != '[' && c != ']';
}

/* ---- Numbers ---- */

static uint32_t digits_of(uint64_t number)
{
    uint32_t n = 1;
    while (number >= 10) {
        number /= 10;
        n++;
    }
    return n;
}

size_t htc__hosts_digits(uint64_t number, uint32_t width, char *out)
{
    uint32_t n = digits_of(number);
    if (n < width)
        n = width;
    for (uint32_t i = n; i > 0; i--) {
        out[i - 1] = (char)('0' + number % 10);
        number /= 10;
    }
    return n;
}

size_t htc__hosts_name(const htc__hosts *hosts, uint64_t number, char *out)
{
    size_t n = hosts->prefix_len;
    memcpy(out, hosts->prefix, n);
    if (hosts->width)
        n += htc__hosts_digits(number, hosts->width, out + n);
    if (hosts->suffix_len)
        memcpy(out + n, hosts->suffix, hosts->suffix_len);
    return n + hosts->suffix_len;
}

/* The number at *p, of which there is at least one digit; its digits. */
static size_t read_number(const char **p, const char *end, uint64_t *number)
{
    const char *start = *p;
    *number = 0;
    for (; *p < end && is_digit(**p); ++*p)
        *number = *p - start < HTC__HOSTLIST_DIGITS_MAX ? *number * 10 + (uint64_t)(**p - '0') : *number;
    return (size_t)(*p - start);
}

static uint32_t width_of(const char *digits, size_t n)
{
    return n > 1 && *digits == '0' ? (uint32_t)n : 1;
}

/* The range at *p; else what is wrong with what stands at *p then. */
static const char *read_range(const char **p, const char *end, range *out)
{
    const char *first = *p;
    if (*p == end || !is_digit(**p))
        return "a number is missing";
    size_t n = read_number(p, end, &out->first), m = n;
    out->width = width_of(first, n);
    out->last = out->first;
    if (*p < end && **p == '-') {
        const char *last = ++*p;
        if (*p == end || !is_digit(**p))
            return "a range has no end";
        m = read_number(p, end, &out->last);
        int padded = out->width > 1 || width_of(last, m) > 1;
        *p = last;
        if (m <= HTC__HOSTLIST_DIGITS_MAX && (padded && (m < n || (*last == '0' && m != n))))
            return "the two ends of a range have different numbers of zeros in front";
        if (m <= HTC__HOSTLIST_DIGITS_MAX && n <= HTC__HOSTLIST_DIGITS_MAX && out->last < out->first)
            return "a range ends before it begins";
        *p += m;
    }
    if (n > HTC__HOSTLIST_DIGITS_MAX || m > HTC__HOSTLIST_DIGITS_MAX) {
        *p = first;
        return "a number has more than 18 digits";
    }
    return NULL;
}

/* ---- Names ---- */

static htc_status read_group(walk *w, item *it)
{
    const char *open = w->p;
    range       ignored;
    if (it->groups == HTC_RECORD_GROUPS_MAX)
        return refuse(w, open, HTC_EINVAL, "more than %d groups in one name", HTC_RECORD_GROUPS_MAX);
    it->group[it->groups] = ++w->p;
    for (;; w->p++) {
        const char *wrong = read_range(&w->p, w->end, &ignored);
        if (wrong)
            return refuse(w, w->p, HTC_EINVAL, "%s", wrong);
        if (w->p == w->end)
            return refuse(w, open, HTC_EINVAL, "this bracket is never closed");
        if (*w->p == ']')
            break;
        if (*w->p != ',')
            return refuse(w, w->p, HTC_EINVAL, "only numbers, '-' and ',' may stand in brackets");
    }
    it->group_end[it->groups++] = w->p++;
    return HTC_OK;
}

static htc_status read_item(walk *w, item *it)
{
    const char *start = w->p;
    it->groups = 0;
    for (;;) {
        it->literal[it->groups] = w->p;
        while (w->p < w->end && is_literal(*w->p))
            w->p++;
        it->literal_end[it->groups] = w->p;
        if (w->p == w->end || *w->p != '[')
            break;
        htc_status status = read_group(w, it);
        if (status != HTC_OK)
            return status;
    }
    if (w->p < w->end && !is_blank(*w->p) && *w->p != ',')
        return refuse(w, w->p, HTC_EINVAL,
                      *w->p == ']' ? "no bracket is open here" : "this character cannot be part of a name");
    return w->p > start ? HTC_OK : refuse(w, start, HTC_EINVAL, "a name is missing");
}

/* ---- Expansion ---- */

static htc_status emit(walk *w, const char *at, const htc__hosts *hosts)
{
    char        name[HTC_RECORD_NAME_MAX + 1];
    const char *why = "";
    size_t      digits = hosts->width ? digits_of(hosts->last) : 0;
    if (digits < hosts->width)
        digits = hosts->width;
    if (hosts->prefix_len + digits + hosts->suffix_len > HTC_RECORD_NAME_MAX)
        return refuse(w, at, HTC_ETOOBIG, "a name is longer than %d bytes", HTC_RECORD_NAME_MAX);
    if (hosts->last - hosts->first >= w->max - w->named)
        return refuse(w, at, HTC_ETOOBIG, "more than %llu names", (unsigned long long)w->max);
    w->named += hosts->last - hosts->first + 1;
    htc_status status = w->found(w->ctx, hosts, &why, name);
    if (status == HTC_OK || status == HTC_ENOMEM)
        return status == HTC_OK ? status : htc__error(w->error, status, "%s", htc_strerror(status));
    return refuse(w, at, status, "%s %s", name, why);
}

/* At its last number, if it has one of a size that fits. */
static htc_status emit_literal(walk *w, const item *it)
{
    const char *start = it->literal[0], *end = it->literal_end[0], *behind = end;
    htc__hosts  hosts = { .prefix = start, .prefix_len = (size_t)(end - start), .suffix = end };
    while (behind > start && !is_digit(behind[-1]))
        behind--;
    const char *digits = behind;
    while (digits > start && is_digit(digits[-1]))
        digits--;
    size_t n = (size_t)(behind - digits);
    if (n > 0 && n <= HTC__HOSTLIST_DIGITS_MAX) {
        const char *p = digits;
        hosts.prefix_len = (size_t)(digits - start);
        hosts.suffix = behind;
        hosts.suffix_len = (size_t)(end - behind);
        hosts.width = width_of(digits, n);
        read_number(&p, behind, &hosts.first);
        hosts.last = hosts.first;
    }
    return emit(w, start, &hosts);
}

/* All names that begin with prefix, of which len bytes are written, and go on with literal g and group g. Each level
 * adds one of at most HTC_RECORD_GROUPS_MAX groups. */
static htc_status expand(walk *w, const item *it, size_t g, char *prefix, size_t len)
{
    size_t n = (size_t)(it->literal_end[g] - it->literal[g]);
    if (n > HTC_RECORD_NAME_MAX - len)
        return refuse(w, it->literal[0], HTC_ETOOBIG, "a name is longer than %d bytes", HTC_RECORD_NAME_MAX);
    memcpy(prefix + len, it->literal[g], n);
    len += n;
    htc_status  status = HTC_OK;
    const char *last_end = it->literal_end[it->groups], *last = it->literal[it->groups];
    for (const char *p = it->group[g]; p < it->group_end[g] && status == HTC_OK; p++) {
        range r = { 0, 0, 0 };
        read_range(&p, it->group_end[g], &r);
        if (g + 1 == it->groups || g + 1 == HTC_RECORD_GROUPS_MAX) { /* there are no more; the compiler cannot know */
            htc__hosts hosts = { prefix, last, len, (size_t)(last_end - last), r.first, r.last, r.width };
            status = emit(w, it->literal[0], &hosts);
            continue;
        }
        for (uint64_t v = r.first; v <= r.last && status == HTC_OK; v++) {
            char   digits[HTC__HOSTLIST_DIGITS_MAX];
            size_t k = htc__hosts_digits(v, r.width, digits);
            if (k > HTC_RECORD_NAME_MAX - len)
                return refuse(w, it->literal[0], HTC_ETOOBIG, "a name is longer than %d bytes", HTC_RECORD_NAME_MAX);
            memcpy(prefix + len, digits, k);
            status = expand(w, it, g + 1, prefix, len + k);
        }
    }
    return status;
}

static void skip_blanks(walk *w)
{
    while (w->p < w->end && is_blank(*w->p))
        w->p++;
}

htc_status htc__hostlist_walk(htc_bytes text, uint64_t max, htc__hosts_found *found, void *ctx, htc_error *error)
{
    char       prefix[HTC_RECORD_NAME_MAX];
    walk       w = { .text = text, .max = max, .found = found, .ctx = ctx, .error = error };
    item       it;
    htc_status status = HTC_OK;
    if (text.len == 0)
        return HTC_OK;
    w.p = text.data;
    w.end = w.p + text.len;
    skip_blanks(&w);
    if (w.p == w.end)
        return HTC_OK;
    for (;; w.p++) {
        skip_blanks(&w);
        status = read_item(&w, &it);
        if (status == HTC_OK)
            status = it.groups ? expand(&w, &it, 0, prefix, 0) : emit_literal(&w, &it);
        if (status != HTC_OK)
            return status;
        skip_blanks(&w);
        if (w.p == w.end)
            return HTC_OK;
        if (*w.p != ',')
            return refuse(&w, w.p, HTC_EINVAL, "names are separated by commas");
    }
}
