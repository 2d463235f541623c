/* A reader of OpenMetrics 1.0 text, slow and strict: it believes nothing that the writer promises. Says the line where the first rule
 * is broken.
 *
 *     om text; cr_assert(om_read(&text, bytes), "line %zu: %s", text.line, text.wrong);
 *     const om_sample *s = om_find(&text, "demo_requests_total{outcome=\"ok\"}");
 *     om_free(&text); */
#ifndef HTC_TESTS_OPENMETRICS_H
#define HTC_TESTS_OPENMETRICS_H

#include <stdlib.h>
#include <string.h>

#include "htcsched/bytes.h"

#define OM_SAMPLES 4096
#define OM_LABELS  20

typedef struct om_label {
    char name[64], value[256]; /* the value without its escapes */
} om_label;

typedef struct om_sample {
    char     id[1024];  /* as written, up to the space: name and labels */
    char     name[128]; /* with its suffix */
    char     family[128], kind[16];
    om_label labels[OM_LABELS];
    size_t   labels_n;
    char     number[64]; /* as written */
} om_sample;

typedef struct om {
    om_sample  *samples;
    size_t      count, families, line;
    const char *wrong;
    char        names[512][128]; /* of families */
    char        family[128], kind[16], unit[32], help[1024];
    int         ended, typed, helped, united;
} om;

static inline int om_fail(om *t, const char *wrong)
{
    t->wrong = wrong;
    return 0;
}

static inline size_t om_name_len(const char *p)
{
    size_t n = strspn(p, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");
    return *p >= '0' && *p <= '9' ? 0 : n;
}

/* A quoted or unquoted text up to its end, without escapes: its length as written; -1: it breaks a rule. */
static inline long om_unescape(const char *p, char end, char *out, size_t cap)
{
    size_t n = 0, i = 0;
    for (; p[i] && p[i] != end; i++) {
        char c = p[i];
        if (c == '"' || (unsigned char)c < 0x20 || n + 1 >= cap)
            return -1;
        if (c == '\\') {
            c = p[++i];
            if (c == 'n')
                c = '\n';
            else if (c != '"' && c != '\\')
                return -1;
        }
        out[n++] = c;
    }
    out[n] = 0;
    return p[i] == end ? (long)i : -1;
}

static inline int om_is(const char *text, const char *suffix, const char *family)
{
    size_t n = strlen(family);
    return strncmp(text, family, n) == 0 && strcmp(text + n, suffix) == 0;
}

static inline int om_metadata(om *t, char *line)
{
    char *word = line + 2, *name = strchr(word, ' '), *rest = name ? strchr(name + 1, ' ') : NULL;
    if (!rest || (size_t)(rest - name - 1) >= sizeof t->family)
        return om_fail(t, "no metadata line");
    *name++ = 0;
    *rest++ = 0;
    if (om_name_len(name) != strlen(name))
        return om_fail(t, "a family's name");
    if (strcmp(t->family, name) != 0) {
        if (strcmp(word, "TYPE") != 0)
            return om_fail(t, "TYPE does not come first");
        for (size_t i = 0; i < t->families; i++)
            if (strcmp(t->names[i], name) == 0)
                return om_fail(t, "a family in two places");
        if (t->families == 512)
            return om_fail(t, "too many families for the reader");
        strcpy(t->names[t->families++], name);
        strcpy(t->family, name);
        t->typed = t->helped = t->united = 0;
        t->unit[0] = 0;
    }
    int *said = strcmp(word, "TYPE") == 0   ? &t->typed
                : strcmp(word, "HELP") == 0 ? &t->helped
                : strcmp(word, "UNIT") == 0 ? &t->united
                                            : NULL;
    if (!said || *said)
        return om_fail(t, "metadata twice, or of no known kind");
    if (t->count && strcmp(t->samples[t->count - 1].family, name) == 0)
        return om_fail(t, "metadata behind values");
    *said = 1;
    if (said == &t->typed) {
        if (strcmp(rest, "counter") && strcmp(rest, "gauge") && strcmp(rest, "histogram") && strcmp(rest, "info"))
            return om_fail(t, "a type");
        strcpy(t->kind, rest);
    } else if (said == &t->united) {
        size_t n = strlen(name), len = strlen(rest);
        if (len >= sizeof t->unit || n <= len + 1 || strcmp(name + n - len, rest) != 0 || name[n - len - 1] != '_')
            return om_fail(t, "the name does not end in its unit");
        strcpy(t->unit, rest);
    } else if (om_unescape(rest, '\0', t->help, sizeof t->help) < 0) {
        return om_fail(t, "an escape in a help");
    }
    return 1;
}

static inline int om_labels(om *t, om_sample *s, char **at)
{
    char *p = *at + 1;
    for (;;) {
        om_label *l = &s->labels[s->labels_n];
        size_t    n = om_name_len(p);
        if (s->labels_n == OM_LABELS || n == 0 || n >= sizeof l->name || p[n] != '=' || p[n + 1] != '"' ||
            strncmp(p, "__", 2) == 0)
            return om_fail(t, "a label");
        memcpy(l->name, p, n);
        for (size_t i = 0; i < s->labels_n; i++)
            if (strcmp(s->labels[i].name, l->name) == 0)
                return om_fail(t, "a label twice");
        p += n + 2;
        long len = om_unescape(p, '"', l->value, sizeof l->value);
        if (len < 0)
            return om_fail(t, "an escape in a label");
        s->labels_n++;
        p += len + 1;
        if (*p == '}')
            break;
        if (*p++ != ',')
            return om_fail(t, "what follows a label");
    }
    *at = p + 1;
    return 1;
}

static inline int om_sample_line(om *t, char *line)
{
    if (t->count == OM_SAMPLES)
        return om_fail(t, "too many values for the reader");
    om_sample *s = &t->samples[t->count];
    size_t     n = om_name_len(line);
    char      *p = line + n;
    *s = (om_sample){ 0 };
    if (n == 0 || n >= sizeof s->name)
        return om_fail(t, "a value's name");
    memcpy(s->name, line, n);
    if (*p == '{' && !om_labels(t, s, &p))
        return 0;
    if (*p != ' ' || (size_t)(p - line) >= sizeof s->id)
        return om_fail(t, "no space before a number");
    memcpy(s->id, line, (size_t)(p - line));
    p++;
    if (strlen(p) >= sizeof s->number || strspn(p, "0123456789.") != strlen(p) || *p == 0)
        return om_fail(t, "a number");
    strcpy(s->number, p);
    strcpy(s->family, t->family);
    strcpy(s->kind, t->kind);
    int fits = strcmp(t->kind, "counter") == 0 ? om_is(s->name, "_total", t->family)
               : strcmp(t->kind, "gauge") == 0 ? om_is(s->name, "", t->family)
               : strcmp(t->kind, "info") == 0
                   ? om_is(s->name, "_info", t->family) && strcmp(p, "1") == 0
                   : om_is(s->name, "_bucket", t->family) || om_is(s->name, "_count", t->family) ||
                         om_is(s->name, "_sum", t->family);
    if (!fits || !t->typed)
        return om_fail(t, "a value that is not of this family");
    for (size_t i = 0; i < t->count; i++)
        if (strcmp(t->samples[i].id, s->id) == 0)
            return om_fail(t, "a value twice");
    t->count++;
    return 1;
}

/* 1: every rule that it knows is kept. */
static inline int om_read(om *t, htc_bytes bytes)
{
    memset(t, 0, sizeof *t);
    t->samples = calloc(OM_SAMPLES, sizeof *t->samples);
    char *copy = malloc(bytes.len + 1);
    memcpy(copy, bytes.data, bytes.len);
    copy[bytes.len] = 0;
    int   ok = strlen(copy) == bytes.len || om_fail(t, "a zero byte");
    char *line = copy, *end;
    for (; ok && *line; line = end + 1) {
        t->line++;
        end = strchr(line, '\n');
        if (!end) {
            ok = om_fail(t, "the last line does not end");
            break;
        }
        *end = 0;
        if (t->ended)
            ok = om_fail(t, "something behind # EOF");
        else if (strcmp(line, "# EOF") == 0)
            t->ended = 1;
        else if (strncmp(line, "# ", 2) == 0)
            ok = om_metadata(t, line);
        else
            ok = om_sample_line(t, line);
    }
    if (ok && !t->ended)
        ok = om_fail(t, "no # EOF");
    free(copy);
    return ok;
}

static inline void om_free(om *t)
{
    free(t->samples);
}

static inline const om_sample *om_find(const om *t, const char *id)
{
    for (size_t i = 0; i < t->count; i++)
        if (strcmp(t->samples[i].id, id) == 0)
            return &t->samples[i];
    return NULL;
}

/* UINT64_MAX: it is not there. */
static inline uint64_t om_number(const om *t, const char *id)
{
    const om_sample *s = om_find(t, id);
    return s ? strtoull(s->number, NULL, 10) : UINT64_MAX;
}

#endif
