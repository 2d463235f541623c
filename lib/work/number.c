/* Numbers as XML Schema writes them, whatever the locale says. */
#include <limits.h>
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

/* n digits, the first before the point, times ten to the exponent. */
static void put_digits(const char *sign, const char *digits, int n, int exponent, char out[HTC__DOUBLE_TEXT_MAX])
{
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

void htc__double_text(double v, char out[HTC__DOUBLE_TEXT_MAX])
{
    char digits[20];
    int  exponent = 0;
    if (!isfinite(v) || v == 0) {
        snprintf(out, HTC__DOUBLE_TEXT_MAX, "%s", isnan(v) ? "NaN" : v == 0 ? "0" : v > 0 ? "INF" : "-INF");
        return;
    }
    int n = shortest(v < 0 ? -v : v, digits, &exponent);
    put_digits(v < 0 ? "-" : "", digits, n, exponent, out);
}

__extension__ typedef __int128 wide;

/* A number as it was written: an integer times ten to *scale. */
static wide decimal_of(double v, int *scale)
{
    char digits[20];
    int  exponent = 0, n = v == 0 ? 0 : shortest(v < 0 ? -v : v, digits, &exponent);
    wide m = 0;
    for (int i = 0; i < n; i++)
        m = m * 10 + (digits[i] - '0');
    *scale = n ? exponent - (n - 1) : INT_MAX;
    return v < 0 ? -m : m;
}

/* 0: it does not fit. */
static int rescale(wide *m, int from, int to)
{
    for (; *m && from > to; from--)
        if (__builtin_mul_overflow(*m, (wide)10, m))
            return 0;
    return 1;
}

/* In tenths, hundredths, ..., as a person would count, not in halves: -0.3 and three times 0.1 are 0. */
void htc__double_step_text(double start, double step, uint64_t k, char out[HTC__DOUBLE_TEXT_MAX])
{
    char digits[20];
    int  scales[2], n = 0;
    wide a = decimal_of(start, &scales[0]), s = decimal_of(step, &scales[1]), v;
    int  scale = scales[0] < scales[1] ? scales[0] : scales[1];
    int  fits = rescale(&a, scales[0], scale) && rescale(&s, scales[1], scale) && !__builtin_mul_overflow(s, (wide)k, &v) &&
               !__builtin_add_overflow(a, v, &v);
    wide positive = !fits ? 0 : v < 0 ? -v : v;
    for (; fits && positive && positive % 10 == 0; scale++)
        positive /= 10;
    for (wide rest = positive; fits && rest; rest /= 10)
        n++;
    if (!fits || n > 17) {
        htc__double_text(start + (double)k * step, out);
        return;
    }
    if (n == 0) {
        snprintf(out, HTC__DOUBLE_TEXT_MAX, "0");
        return;
    }
    for (int i = n; i-- > 0; positive /= 10)
        digits[i] = (char)('0' + (int)(positive % 10));
    put_digits(v < 0 ? "-" : "", digits, n, scale + n - 1, out);
}
