#include "values.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A number that is not negative, without what strtod takes beside it (hexadecimal, infinity, blanks); where it ends. NULL: there is none. */
static const char *number(const char *text, double *out)
{
    char *end;
    if (!strchr("0123456789.", text[0]) || !text[0] || (text[0] == '0' && (text[1] | 32) == 'x'))
        return NULL;
    errno = 0;
    *out = strtod(text, &end);
    return errno || !isfinite(*out) || end == text ? NULL : end;
}

static int scaled(const char *text, double step, double *out)
{
    static const char letters[] = "KMGT";
    const char       *end = number(text, out), *letter;
    if (!end)
        return 0;
    if (*end && (letter = strchr(letters, *end & ~32)) != NULL) {
        *out *= pow(step, (double)(letter - letters + 1));
        end++;
    }
    return *end == '\0';
}

static int whole(double v, uint64_t *out)
{
    if (v != floor(v) || v > 9e18)
        return 0;
    *out = (uint64_t)v;
    return 1;
}

int value_count(const char *text, uint64_t *out)
{
    double v;
    return scaled(text, 1000, &v) && whole(v, out);
}

/* What is before the dots of A..B; what is behind them is answered. NULL: there are none, or too much before them. */
static const char *before_dots(const char *text, char *first, size_t room)
{
    const char *dots = strstr(text, "..");
    if (!dots || (size_t)(dots - text) >= room)
        return NULL;
    memcpy(first, text, (size_t)(dots - text));
    first[dots - text] = '\0';
    return dots + 2;
}

int value_counts(const char *text, uint64_t *min, uint64_t *max)
{
    char        first[32];
    const char *second = before_dots(text, first, sizeof first);
    if (!second)
        return value_count(text, min) && (*max = *min, 1);
    return value_count(first, min) && value_count(second, max) && *min <= *max;
}

int value_real(const char *text, double *out)
{
    int         below = text[0] == '-';
    const char *end = number(text + below, out);
    if (end && below)
        *out = -*out;
    return end && *end == '\0';
}

int value_size(const char *text, uint64_t *out)
{
    double v;
    return scaled(text, 1024, &v) && whole(floor(v), out);
}

int value_span(const char *text, htc_ns *out)
{
    static const struct {
        const char *name;
        double      ns;
    } units[] = { { "", 1e9 }, { "s", 1e9 }, { "ms", 1e6 }, { "us", 1e3 }, { "ns", 1 }, { "min", 60e9 }, { "h", 3600e9 }, { "d", 86400e9 } };
    double      v;
    const char *unit = number(text, &v);
    for (size_t i = 0; unit && i < sizeof units / sizeof *units; i++)
        if (strcmp(unit, units[i].name) == 0 && v * units[i].ns < 9e18) {
            *out = (htc_ns)(v * units[i].ns + 0.5);
            return 1;
        }
    return 0;
}

/* The many-task trace, with its own mean or another. */
static int mtc_law(const char *text, htc_scale_law *law)
{
    static const struct {
        const char *name;
        uint32_t    kind;
        double      mean;
    } kinds[] = { { "mtc-subsecond", HTC_SCALE_MTC_SUBSECOND, HTC_SCALE_MTC_SUBSECOND_MEAN_NS }, { "mtc", HTC_SCALE_MTC, HTC_SCALE_MTC_MEAN_NS } };
    char   kind[16], mean[32], end;
    htc_ns span = 0;
    int    n = sscanf(text, "%15s %31s %c", kind, mean, &end);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if ((n == 1 || n == 2) && strcmp(kind, kinds[i].name) == 0 && (n == 1 || value_span(mean, &span))) {
            *law = (htc_scale_law){ kinds[i].kind, 0, n == 2 ? (double)span : kinds[i].mean, 0 };
            return 1;
        }
    return 0;
}

int value_law(const char *text, htc_scale_law *out)
{
    htc_scale_law law = { 0 };
    htc_ns        a, b;
    char          first[32], kind[16], end;
    double        cv;
    const char   *second = before_dots(text, first, sizeof first);
    if (second) {
        if (!value_span(first, &a) || !value_span(second, &b) || a > b)
            return 0;
        law = (htc_scale_law){ HTC_SCALE_UNIFORM, 0, ((double)a + (double)b) / 2, b ? ((double)b - (double)a) / ((double)a + (double)b) : 0 };
    } else if (sscanf(text, "%15s %31s %lf %c", kind, first, &cv, &end) == 3 && (strcmp(kind, "lognormal") == 0 || strcmp(kind, "gamma") == 0) &&
               value_span(first, &a)) {
        law = (htc_scale_law){ kind[0] == 'l' ? HTC_SCALE_LOGNORMAL : HTC_SCALE_GAMMA, 0, (double)a, cv };
    } else if (sscanf(text, "%15s %31s %c", kind, first, &end) == 2 && strcmp(kind, "exponential") == 0 && value_span(first, &a)) {
        law = (htc_scale_law){ HTC_SCALE_EXPONENTIAL, 0, (double)a, 0 };
    } else if (value_span(text, &a)) {
        law.mean_ns = (double)a;
    } else if (!mtc_law(text, &law)) {
        return 0;
    }
    *out = law;
    return htc_scale_law_check(&law) == HTC_OK;
}

#define WORD_MAX 96

size_t value_distance(const char *a, const char *b)
{
    size_t row[WORD_MAX + 1], m = strlen(b);
    if (m > WORD_MAX)
        return m;
    for (size_t j = 0; j <= m; j++)
        row[j] = j;
    for (size_t i = 1; a[i - 1]; i++) {
        size_t before = row[0];
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t change = before + (a[i - 1] != b[j - 1]), least = row[j] < row[j - 1] ? row[j] + 1 : row[j - 1] + 1;
            before = row[j];
            row[j] = change < least ? change : least;
        }
    }
    return row[m];
}
