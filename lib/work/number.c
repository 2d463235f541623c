/* Numbers as XML Schema writes them, whatever the locale says. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "work/work_private.h"

htc_bytes htc__trim(htc_bytes text)
{
    const char *p = text.data;
    size_t      n = text.len;
    while (n && (*p == ' ' || *p == '\t' || *p == '\n' || *p == '\r'))
        p++, n--;
    while (n && (p[n - 1] == ' ' || p[n - 1] == '\t' || p[n - 1] == '\n' || p[n - 1] == '\r'))
        n--;
    return (htc_bytes){ p, n };
}

static int digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Magnitude of the digits; 1 ok, 0 no digits or something else, -1 beyond 64 bits. */
static int magnitude(const char *p, size_t n, uint64_t *out)
{
    uint64_t v = 0;
    int      fits = 1;
    if (n == 0)
        return 0;
    for (size_t i = 0; i < n; i++) {
        if (!digit(p[i]))
            return 0;
        if (__builtin_mul_overflow(v, UINT64_C(10), &v) || __builtin_add_overflow(v, (uint64_t)(p[i] - '0'), &v))
            fits = -1;
    }
    *out = v;
    return fits;
}

int htc__integer_parse(htc_bytes text, int64_t *out)
{
    htc_bytes   t = htc__trim(text);
    const char *p = t.data;
    int         negative = t.len && *p == '-';
    size_t      sign = t.len && (*p == '-' || *p == '+') ? 1 : 0;
    uint64_t    v = 0;
    int         ok = t.len ? magnitude(p + sign, t.len - sign, &v) : 0;
    if (ok != 1)
        return ok;
    if (v > (uint64_t)INT64_MAX + (uint64_t)negative)
        return -1;
    *out = (int64_t)(negative ? 0 - v : v);
    return 1;
}

int htc__unsigned_parse(htc_bytes text, uint64_t *out)
{
    htc_bytes   t = htc__trim(text);
    const char *p = t.data;
    uint64_t    v = 0;
    if (t.len == 0)
        return 0;
    size_t sign = *p == '+' || *p == '-' ? 1 : 0;
    int    ok = magnitude(p + sign, t.len - sign, &v);
    if (ok == 0 || (*p == '-' && (ok < 0 || v != 0)))
        return 0;
    *out = v;
    return ok;
}

/* [+-] digits [. digits] [eE [+-] digits], with digits on at least one side of the point. */
static int double_form(const char *p, size_t n)
{
    size_t i = n && (*p == '+' || *p == '-') ? 1 : 0, digits = 0;
    for (; i < n && digit(p[i]); i++)
        digits++;
    if (i < n && p[i] == '.')
        for (i++; i < n && digit(p[i]); i++)
            digits++;
    if (digits == 0)
        return 0;
    if (i < n && (p[i] == 'e' || p[i] == 'E')) {
        i++;
        if (i < n && (p[i] == '+' || p[i] == '-'))
            i++;
        if (i == n)
            return 0;
        while (i < n && digit(p[i]))
            i++;
    }
    return i == n;
}

/* The decimal point that printf and strtod use here and now. */
static const char *radix(char out[8])
{
    char half[16];
    snprintf(half, sizeof half, "%.1f", 0.5);
    size_t n = strlen(half);
    if (n < 3 || n - 2 >= 8)
        return ".";
    memcpy(out, half + 1, n - 2);
    out[n - 2] = '\0';
    return out;
}

static int is_word(htc_bytes t, const char *word)
{
    return t.len == strlen(word) && memcmp(t.data, word, t.len) == 0;
}

int htc__double_parse(htc_bytes text, double *out)
{
    htc_bytes t = htc__trim(text);
    char      local[512], point[8];
    if (is_word(t, "INF") || is_word(t, "-INF") || is_word(t, "NaN")) {
        *out = is_word(t, "NaN") ? (double)NAN : is_word(t, "INF") ? (double)INFINITY : -(double)INFINITY;
        return 1;
    }
    if (t.len == 0 || t.len >= sizeof local - sizeof point || !double_form(t.data, t.len))
        return 0;
    const char *dot = memchr(t.data, '.', t.len);
    size_t      before = dot ? (size_t)(dot - (const char *)t.data) : t.len;
    snprintf(local, sizeof local, "%.*s%s%.*s", (int)before, (const char *)t.data, dot ? radix(point) : "",
             dot ? (int)(t.len - before - 1) : 0, dot ? dot + 1 : "");
    *out = strtod(local, NULL);
    return 1;
}

/* The digits (no point) and the decimal exponent of the shortest form. */
static int shortest(double v, char digits[20], int *exponent)
{
    for (int precision = 0; precision < 17; precision++) {
        char text[64];
        snprintf(text, sizeof text, "%.*e", precision, v);
        if (precision < 16 && strtod(text, NULL) != v)
            continue;
        int   n = 0;
        char *e = strchr(text, 'e');
        for (char *p = text; p < e; p++)
            if (digit(*p))
                digits[n++] = *p;
        while (n > 1 && digits[n - 1] == '0')
            n--;
        *exponent = (int)strtol(e + 1, NULL, 10);
        return n;
    }
    return 0;
}

void htc__double_text(double v, char out[HTC__DOUBLE_TEXT_MAX])
{
    char digits[20];
    int  exponent = 0;
    if (!isfinite(v) || v == 0) {
        snprintf(out, HTC__DOUBLE_TEXT_MAX, "%s", isnan(v) ? "NaN" : v == 0 ? "0" : v > 0 ? "INF" : "-INF");
        return;
    }
    int         n = shortest(v < 0 ? -v : v, digits, &exponent);
    const char *sign = v < 0 ? "-" : "";
    if (exponent >= 16 || exponent < -5)
        snprintf(out, HTC__DOUBLE_TEXT_MAX, "%s%c%s%.*se%+d", sign, digits[0], n > 1 ? "." : "", n - 1, digits + 1,
                 exponent);
    else if (exponent < 0)
        snprintf(out, HTC__DOUBLE_TEXT_MAX, "%s0.%.*s%.*s", sign, -exponent - 1, "0000", n, digits);
    else if (exponent + 1 >= n)
        snprintf(out, HTC__DOUBLE_TEXT_MAX, "%s%.*s%.*s", sign, n, digits, exponent + 1 - n, "0000000000000000");
    else
        snprintf(out, HTC__DOUBLE_TEXT_MAX, "%s%.*s.%.*s", sign, exponent + 1, digits, n - exponent - 1,
                 digits + exponent + 1);
}
