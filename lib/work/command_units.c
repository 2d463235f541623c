/* Times and sizes as people write them behind an option. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "work/work_private.h"

static int is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Numbers joined by ':', each at most 18 digits; answers how many, 0 if text is something else. */
static size_t colon_numbers(const char *s, double *out, size_t max)
{
    size_t n = 0;
    for (;;) {
        size_t digits = strspn(s, "0123456789");
        if (digits == 0 || digits > 18 || n == max)
            return 0;
        out[n++] = (double)strtoull(s, NULL, 10);
        s += digits;
        if (*s == '\0')
            return n;
        if (*s++ != ':')
            return 0;
    }
}

/* A decimal number at the beginning: its length; 0: there is none. */
static size_t decimal(const char *text, double *out)
{
    size_t n = strspn(text, "0123456789");
    if (n && text[n] == '.')
        n += 1 + strspn(text + n + 1, "0123456789");
    return is_digit(text[0]) && htc__double_parse((htc_bytes){ text, n }, out) ? n : 0;
}

htc_status htc_command_time(const char *text, double alone, double *seconds)
{
    static const double unit[] = { 1, 60, 3600, 86400 };
    static const char   units[] = "smhd";
    double              v = 0, d = 0, n[3];
    if (!text || !seconds || !(alone > 0))
        return HTC_EINVAL;
    size_t      len = decimal(text, &v);
    const char *letter = len && text[len] && !text[len + 1] ? strchr(units, text[len]) : NULL;
    if (letter && v < 1e18) {
        *seconds = v * unit[letter - units];
        return HTC_OK;
    }
    const char *clock = text, *dash = strchr(text, '-');
    char        days[20];
    if (dash) {
        size_t before = (size_t)(dash - text);
        if (before == 0 || before >= sizeof days)
            return HTC_EUSAGE;
        memcpy(days, text, before);
        days[before] = '\0';
        if (colon_numbers(days, &d, 1) != 1)
            return HTC_EUSAGE;
        clock = dash + 1;
    }
    size_t count = colon_numbers(clock, n, 3);
    if (count == 0)
        return HTC_EUSAGE;
    if (dash) /* D-HH[:MM[:SS]] */
        *seconds = d * 86400 + n[0] * 3600 + (count > 1 ? n[1] * 60 : 0) + (count > 2 ? n[2] : 0);
    else if (count == 3)
        *seconds = n[0] * 3600 + n[1] * 60 + n[2];
    else
        *seconds = count > 1 ? n[0] * 60 + n[1] : n[0] * alone;
    return HTC_OK;
}

htc_status htc_command_size(const char *text, uint64_t *bytes)
{
    static const char units[] = "BKMGT", lower[] = "bkmgt";
    double            v = 0, factor = 1024.0 * 1024.0;
    if (!text || !bytes)
        return HTC_EINVAL;
    size_t len = decimal(text, &v);
    if (len == 0)
        return HTC_EUSAGE;
    const char *end = text + len;
    if (*end) {
        const char *upper = strchr(units, *end), *small = strchr(lower, *end);
        if (!upper && !small)
            return HTC_EUSAGE;
        factor = pow(1024.0, (double)(upper ? upper - units : small - lower));
        end++;
        if (strcmp(end, "iB") == 0 || strcmp(end, "B") == 0)
            end += strlen(end);
    }
    if (*end || v * factor >= 9.0e18)
        return HTC_EUSAGE;
    *bytes = (uint64_t)(v * factor);
    return HTC_OK;
}
