/* Logs in the Standard Workload Format: a window over the text, a line of it at a time. */
#include "htcsched/swf.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "core/util.h"
#include "work/work_private.h"

#define WINDOW     ((size_t)HTC_SWF_LINE_MAX + 1)
#define HEADER_MAX ((size_t)1 << 16)
#define NUMBER_MAX 1e15
#define PASSED_MAX 256 /* windows of a line without an end: what follows is no log */

struct htc_swf {
    const htc_env *env;
    htc_status (*read)(void *ctx, void *data, size_t room, size_t *n);
    void    *ctx;
    uint32_t any_order;
    int      ended;       /* there is no more to be read */
    int      began;       /* the header is over: a job's line was seen */
    char    *window;      /* WINDOW bytes, of which those from at to end are not used yet */
    size_t   at, end;
    char    *header;      /* lines as KEY, zero, VALUE, zero */
    size_t   header_used, header_room;
    double   submitted;
    htc_swf_counts counts;
    char     name[160];
};

/* How a field is read. */
typedef struct field {
    const char *name;
    size_t      at;    /* in htc_swf_job */
    int         whole; /* 1: int64_t; 0: double */
} field;

#define WHOLE(member, name) { name, offsetof(htc_swf_job, member), 1 }
#define REAL(member, name) { name, offsetof(htc_swf_job, member), 0 }
static const field fields[HTC_SWF_FIELDS] = {
    WHOLE(number, "job number"),          REAL(submit_s, "submit time"),           REAL(wait_s, "wait time"),
    REAL(run_s, "run time"),              WHOLE(processors, "allocated processors"), REAL(cpu_s, "average CPU time"),
    REAL(memory_kb, "used memory"),       WHOLE(processors_asked, "requested processors"), REAL(run_asked_s, "requested time"),
    REAL(memory_asked_kb, "requested memory"), WHOLE(status, "status"),            WHOLE(user, "user"),
    WHOLE(group, "group"),                WHOLE(program, "executable"),            WHOLE(queue, "queue"),
    WHOLE(partition, "partition"),        WHOLE(preceding, "preceding job"),       REAL(think_s, "think time"),
};

htc_status htc_swf_open(const htc_env *env, const htc_swf_options *options, htc_swf **out)
{
    htc_swf_options o = { 0 };
    if (!options || !out)
        return HTC_EINVAL;
    htc_status status = htc__options_copy(&o, sizeof o, options, options->size, sizeof o.size);
    if (status != HTC_OK)
        return status;
    if (!o.read || o.any_order > 1 || o.reserved)
        return HTC_EINVAL;
    htc_swf *log = htc__alloc(env, sizeof *log);
    if (!log)
        return HTC_ENOMEM;
    log->env = env;
    log->window = htc__alloc_raw(env, WINDOW);
    if (!log->window) {
        htc__free(env, log, sizeof *log);
        return HTC_ENOMEM;
    }
    log->read = o.read;
    log->ctx = o.ctx;
    log->any_order = o.any_order;
    snprintf(log->name, sizeof log->name, "%s", o.name ? o.name : "");
    *out = log;
    return HTC_OK;
}

void htc_swf_close(htc_swf *log)
{
    if (!log)
        return;
    const htc_env *env = log->env;
    htc__free(env, log->header, log->header_room);
    htc__free(env, log->window, WINDOW);
    htc__free(env, log, sizeof *log);
}

/* ---- lines ---- */

typedef struct text_line {
    const char *text, *end; /* end: not included */
} text_line;

/* More text into the window. HTC_AGAIN: there is none, or no room. */
static htc_status fill(htc_swf *log)
{
    if (log->ended || (log->at == 0 && log->end == WINDOW))
        return HTC_AGAIN;
    memmove(log->window, log->window + log->at, log->end - log->at);
    log->end -= log->at;
    log->at = 0;
    size_t     n = 0, room = WINDOW - log->end;
    htc_status status = log->read(log->ctx, log->window + log->end, room, &n);
    if (status != HTC_OK)
        return status == HTC_AGAIN ? HTC_EIO : status;
    if (n > room)
        return HTC_EINTERNAL;
    log->ended = n == 0;
    log->end += n;
    log->counts.bytes += n;
    return n ? HTC_OK : HTC_AGAIN;
}

/* The next line; HTC_AGAIN: there is none; HTC_ETOOBIG: it has no end within the window, and is passed over; with PASSED_MAX windows it is the last one. */
static htc_status next_line(htc_swf *log, text_line *l)
{
    size_t looked = 0;
    int    too_long = 0;
    for (;;) {
        const char *from = log->window + log->at, *newline = memchr(from + looked, '\n', log->end - log->at - looked);
        if (newline) {
            *l = (text_line){ from, newline };
            log->at = (size_t)(newline - log->window) + 1;
            break;
        }
        looked = log->end - log->at;
        if (looked == WINDOW) {
            log->at = log->end = looked = 0;
            log->ended |= ++too_long == PASSED_MAX;
        }
        htc_status status = fill(log);
        if (status != HTC_OK && (status != HTC_AGAIN || (looked == 0 && !too_long)))
            return status;
        if (status == HTC_AGAIN) { /* the last line has no newline */
            *l = (text_line){ log->window + log->at, log->window + log->end };
            log->at = log->end;
            break;
        }
    }
    log->counts.lines++;
    return too_long ? HTC_ETOOBIG : HTC_OK;
}

static int blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static text_line trimmed(text_line l)
{
    while (l.text < l.end && blank(*l.text))
        l.text++;
    while (l.text < l.end && blank(l.end[-1]))
        l.end--;
    return l;
}

/* ---- the header ---- */

/* Of `; Key: value`; other comments are passed over, and what is beyond HEADER_MAX. */
static htc_status keep_header(htc_swf *log, text_line l)
{
    text_line   key = { l.text + 1, memchr(l.text, ':', (size_t)(l.end - l.text)) }, value;
    if (!key.end)
        return HTC_OK;
    value = trimmed((text_line){ key.end + 1, l.end });
    key = trimmed(key);
    size_t n = (size_t)(key.end - key.text), m = (size_t)(value.end - value.text), need = log->header_used + n + m + 2;
    if (n == 0 || need > HEADER_MAX || memchr(key.text, 0, n) || memchr(value.text, 0, m))
        return HTC_OK;
    if (need > log->header_room) {
        size_t room = log->header_room ? 2 * log->header_room : 4096;
        while (room < need)
            room *= 2;
        char *grown = htc__alloc_raw(log->env, room);
        if (!grown)
            return HTC_ENOMEM;
        if (log->header_used)
            memcpy(grown, log->header, log->header_used);
        htc__free(log->env, log->header, log->header_room);
        log->header = grown;
        log->header_room = room;
    }
    char *to = log->header + log->header_used;
    memcpy(to, key.text, n);
    to[n] = '\0';
    memcpy(to + n + 1, value.text, m);
    to[n + 1 + m] = '\0';
    log->header_used = need;
    return HTC_OK;
}

static int same_key(const char *a, const char *b)
{
    for (; *a && *b; a++, b++) {
        char x = *a >= 'A' && *a <= 'Z' ? (char)(*a + 32) : *a, y = *b >= 'A' && *b <= 'Z' ? (char)(*b + 32) : *b;
        if (x != y)
            return 0;
    }
    return *a == *b;
}

/* ---- a job ---- */

/* at: of the line, where it is wrong; NULL: nowhere. */
static htc_status refuse(const htc_swf *log, htc_error *e, const text_line *l, const char *at, const char *hint, const char *text)
{
    htc__refuse(e, HTC_ESCHEMA, (uint32_t)log->counts.lines, log->name, "%s", text);
    if (e) {
        e->column = at ? (uint32_t)(at - l->text) + 1 : 0;
        snprintf(e->hint, sizeof e->hint, "%s", hint);
    }
    return HTC_ESCHEMA;
}

static htc_status refuse_field(const htc_swf *log, htc_error *e, const text_line *l, size_t i, const char *at, const char *why)
{
    char        text[sizeof e->text];
    const char *end = at;
    while (end < l->end && !blank(*end))
        end++;
    snprintf(text, sizeof text, "field %zu, the %s, is %s: %s", i + 1, fields[i].name, htc__quote((htc_bytes){ at, (size_t)(end - at) }).text, why);
    return refuse(log, e, l, at, "correct the line or take it out; -1 stands for what is not known", text);
}

/* A number at p, and where it ends. NULL: there is none. */
static const char *number(const char *p, const char *end, double *out, int *fraction)
{
    int      negative = p < end && *p == '-';
    uint64_t whole = 0, part = 0, one = 1;
    size_t   digits = 0;
    p += negative;
    for (; p < end && *p >= '0' && *p <= '9'; p++, digits++)
        whole = whole < UINT64_C(1000000000000000000) ? whole * 10 + (uint64_t)(*p - '0') : whole;
    if (p < end && *p == '.')
        for (p++; p < end && *p >= '0' && *p <= '9'; p++, digits++)
            if (one < UINT64_C(1000000000000000)) {
                part = part * 10 + (uint64_t)(*p - '0');
                one *= 10;
            }
    if (digits == 0 || (p < end && !blank(*p)))
        return NULL;
    double v = part ? (double)whole + (double)part / (double)one : (double)whole;
    *out = negative ? -v : v;
    *fraction = part != 0;
    return p;
}

static htc_status read_job(htc_swf *log, text_line l, htc_swf_job *job, htc_error *e)
{
    const char *p = l.text;
    for (size_t i = 0; i < HTC_SWF_FIELDS; i++) {
        double v = 0;
        int    fraction = 0;
        while (p < l.end && blank(*p))
            p++;
        if (p == l.end) {
            char text[80];
            snprintf(text, sizeof text, "the line has %zu fields, and a job has 18", i);
            return refuse(log, e, &l, NULL, "complete the line or take it out; -1 stands for what is not known", text);
        }
        const char *after = number(p, l.end, &v, &fraction);
        if (!after)
            return refuse_field(log, e, &l, i, p, "not a number");
        if (v > NUMBER_MAX || (v < 0 && v != -1))
            return refuse_field(log, e, &l, i, p, v > 0 ? "more than 10^15" : "below -1");
        if (fields[i].whole && fraction)
            return refuse_field(log, e, &l, i, p, "not a whole number");
        if (fields[i].whole)
            *(int64_t *)((char *)job + fields[i].at) = (int64_t)v;
        else
            *(double *)((char *)job + fields[i].at) = v;
        p = after;
    }
    while (p < l.end && blank(*p))
        p++;
    if (p < l.end)
        return refuse(log, e, &l, p, "take it out, or make it a comment with ; at its beginning", "something stands after the 18th field");
    if (job->submit_s < 0)
        return refuse(log, e, &l, NULL, "correct the line or take it out", "field 2, the submit time, is -1: a job has one");
    if (job->submit_s < log->submitted && !log->any_order)
        return refuse(log, e, &l, NULL, "sort the lines by field 2", "field 2, the submit time, is before that of the job before it");
    log->submitted = job->submit_s;
    return HTC_OK;
}

/* The next line with a job on it; what is before it is a header or a comment. */
static htc_status next_record(htc_swf *log, text_line *l, htc_error *e)
{
    for (;;) {
        htc_status status = next_line(log, l);
        if (status == HTC_ETOOBIG) {
            htc__refuse(e, status, (uint32_t)log->counts.lines, log->name, "the line is longer than %d bytes", HTC_SWF_LINE_MAX);
            if (e)
                snprintf(e->hint, sizeof e->hint, "a line is 18 numbers: is this a log in the Standard Workload Format?");
            log->counts.refused++;
        }
        if (status != HTC_OK)
            return status;
        *l = trimmed(*l);
        if (l->text < l->end && *l->text != ';')
            return HTC_OK;
        if (l->text < l->end && !log->began && (status = keep_header(log, *l)) != HTC_OK)
            return status;
    }
}

htc_status htc_swf_next(htc_swf *log, htc_swf_job *job, htc_error *error)
{
    text_line   l;
    htc_swf_job read = { 0 };
    if (!log || !job)
        return HTC_EINVAL;
    htc_status status = next_record(log, &l, error);
    if (status != HTC_OK)
        return status;
    log->began = 1;
    status = read_job(log, l, &read, error);
    if (status == HTC_OK) {
        log->counts.jobs++;
        *job = read;
    } else {
        log->counts.refused++;
    }
    return status;
}

htc_status htc_swf_header(htc_swf *log, const char *key, const char **value)
{
    text_line l;
    if (!log || !key || !value)
        return HTC_EINVAL;
    if (!log->began) {
        htc_status status = next_record(log, &l, NULL);
        if (status == HTC_OK) { /* it is read again as a job */
            log->at = (size_t)(l.text - log->window);
            log->counts.lines--;
        } else if (status != HTC_AGAIN) {
            return status;
        }
        log->began = 1;
    }
    for (size_t at = 0; at < log->header_used;) {
        const char *k = log->header + at, *v = k + strlen(k) + 1;
        if (same_key(k, key)) {
            *value = v;
            return HTC_OK;
        }
        at = (size_t)(v - log->header) + strlen(v) + 1;
    }
    return HTC_ENOTFOUND;
}

htc_status htc_swf_count(const htc_swf *log, htc_swf_counts *counts)
{
    return log && counts ? htc__options_give(counts, &log->counts, sizeof log->counts, sizeof counts->size) : HTC_EINVAL;
}

uint64_t htc_swf_nodes(const htc_swf_job *job, uint64_t per_node)
{
    int64_t  n = !job ? 0 : job->processors > 0 ? job->processors : job->processors_asked;
    uint64_t each = per_node ? per_node : 1;
    return n > 0 ? ((uint64_t)n - 1) / each + 1 : 0;
}

/* ---- writing ---- */

/* A time in microseconds, without zeros at its end. */
static char *write_real(char *p, double v)
{
    uint64_t whole = (uint64_t)v, part = (uint64_t)((v - (double)whole) * 1e6 + 0.5);
    p += sprintf(p, "%llu", (unsigned long long)(whole + part / 1000000));
    part %= 1000000;
    if (part) {
        p += sprintf(p, ".%06llu", (unsigned long long)part);
        while (p[-1] == '0')
            p--;
    }
    return p;
}

size_t htc_swf_line(const htc_swf_job *job, char line[HTC_SWF_LINE_ROOM])
{
    char *p = line;
    if (!job || !line)
        return 0;
    for (size_t i = 0; i < HTC_SWF_FIELDS; i++) {
        const char *at = (const char *)job + fields[i].at;
        double      v = fields[i].whole ? (double)*(const int64_t *)at : *(const double *)at;
        if (!(v >= 0 && v <= NUMBER_MAX) && v != -1)
            return 0;
        if (i)
            *p++ = ' ';
        if (v < 0)
            p = memcpy(p, "-1", 2), p += 2;
        else
            p = write_real(p, v);
    }
    *p++ = '\n';
    *p = '\0';
    return (size_t)(p - line);
}
