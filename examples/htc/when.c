/* A time as people of batch systems say it: now+1hour, 18:30, 6:30PM, 2026-12-01T08:00, 12/24-20:00, tomorrow, noon. */
#include "plan.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

/* n digits at most, and at least one; answers where they end, or NULL. */
static const char *number(const char *p, size_t most, int *out)
{
    size_t n = strspn(p, "0123456789");
    if (n == 0 || n > most)
        return NULL;
    *out = (int)strtol(p, NULL, 10);
    return p + n;
}

/* HH:MM[:SS] [AM|PM]; NULL: it is none. */
static const char *clock_time(const char *p, struct tm *t)
{
    t->tm_sec = 0;
    p = number(p, 2, &t->tm_hour);
    p = p && *p == ':' ? number(p + 1, 2, &t->tm_min) : NULL;
    if (p && *p == ':')
        p = number(p + 1, 2, &t->tm_sec);
    if (!p)
        return NULL;
    const char *half = p + strspn(p, " ");
    int         pm = strncasecmp(half, "pm", 2) == 0;
    if (pm || strncasecmp(half, "am", 2) == 0) {
        if (t->tm_hour < 1 || t->tm_hour > 12)
            return NULL;
        t->tm_hour = t->tm_hour % 12 + (pm ? 12 : 0);
        p = half + 2;
    }
    return t->tm_hour < 24 && t->tm_min < 60 && t->tm_sec < 60 ? p : NULL;
}

/* YYYY-MM-DD, MM/DD, MM/DD/YY, MMDDYY; *year: it is said. */
static const char *date(const char *p, struct tm *t, int *year)
{
    int         y = 0, m = 0, d = 0;
    const char *q = number(p, 4, &y);
    *year = 1;
    if (q && q - p == 4 && *q == '-') {
        q = number(q + 1, 2, &m);
        q = q && *q == '-' ? number(q + 1, 2, &d) : NULL;
        y -= 1900;
    } else if (q && q - p <= 2 && *q == '/') {
        m = y;
        q = number(q + 1, 2, &d);
        *year = q && *q == '/';
        y = t->tm_year;
        if (*year) {
            q = number(q + 1, 2, &y);
            y += 100;
        }
    } else if (strspn(p, "0123456789") == 6) {
        char part[7] = { p[0], p[1], 0, p[2], p[3], 0, 0 };
        m = (int)strtol(part, NULL, 10);
        d = (int)strtol(part + 3, NULL, 10);
        y = 100 + (int)strtol(p + 4, NULL, 10);
        q = p + 6;
    } else {
        return NULL;
    }
    if (!q || m < 1 || m > 12 || d < 1 || d > 31 || y < 70)
        return NULL;
    t->tm_year = y;
    t->tm_mon = m - 1;
    t->tm_mday = d;
    return q;
}

/* now, now+90, now+2hours */
static int from_now(const char *text, double now, double *at)
{
    static const struct {
        const char *name;
        double      seconds;
    } units[] = { { "second", 1 }, { "minute", 60 }, { "hour", 3600 }, { "day", 86400 }, { "week", 604800 } };
    if (strncasecmp(text, "now", 3) != 0)
        return 0;
    *at = now;
    if (!text[3])
        return 1;
    const char *p = text + 3 + (text[3] == '+');
    size_t      digits = strspn(p, "0123456789"), i = 0, n;
    if (text[3] != '+' || digits == 0 || digits > 9)
        return 0;
    double count = strtod(p, NULL), factor = 1;
    p += digits;
    p += strspn(p, " ");
    n = strlen(p);
    while (n && i < 5 && !(strncasecmp(p, units[i].name, n < strlen(units[i].name) ? n : strlen(units[i].name)) == 0 &&
                           (n <= strlen(units[i].name) || (n == strlen(units[i].name) + 1 && tolower((unsigned char)p[n - 1]) == 's'))))
        i++;
    if (n && i == 5)
        return 0;
    if (n)
        factor = units[i].seconds;
    *at = now + count * factor;
    return 1;
}

static int named_hour(const char *text, struct tm *t)
{
    static const struct {
        const char *name;
        int         hour;
    } hours[] = { { "midnight", 0 }, { "noon", 12 }, { "fika", 15 }, { "teatime", 16 } };
    for (size_t i = 0; i < sizeof hours / sizeof hours[0]; i++)
        if (strcasecmp(text, hours[i].name) == 0) {
            t->tm_hour = hours[i].hour;
            t->tm_min = t->tm_sec = 0;
            return 1;
        }
    return 0;
}

static htc_status of_calendar(const char *text, double now, int past, double *at)
{
    time_t      second = (time_t)now;
    struct tm   today, t;
    int         year = 1, dated = 0;
    const char *p;
    if (!localtime_r(&second, &today))
        return HTC_EUSAGE;
    today.tm_isdst = -1;
    t = today;
    int named = strcasecmp(text, "tomorrow") == 0 || strcasecmp(text, "yesterday") == 0;
    if (strcasecmp(text, "today") == 0 && !past) {
        *at = now;
        return HTC_OK;
    }
    if (named || strcasecmp(text, "today") == 0) {
        t.tm_mday += !named ? 0 : strcasecmp(text, "tomorrow") == 0 ? 1 : -1;
        if (past)
            t.tm_hour = t.tm_min = t.tm_sec = 0;
        dated = named = 1;
    } else if (!named_hour(text, &t)) {
        p = date(text, &t, &year);
        dated = p != NULL;
        if (p && !*p)
            t.tm_hour = t.tm_min = t.tm_sec = 0;
        else if (p)
            p = *p == 'T' || *p == '-' || *p == ' ' ? clock_time(p + 1, &t) : NULL;
        else
            p = clock_time(text, &t);
        if (!p || *p)
            return HTC_EUSAGE;
    }
    int       day = t.tm_mday;
    struct tm made = t;
    time_t    when = mktime(&made);
    if (dated && !named && made.tm_mday != day) /* 31st of a month that has none */
        return HTC_EUSAGE;
    if ((past ? when > second : when < second) && (!dated || !year)) { /* the next such time, or the last */
        t.tm_mday += dated ? 0 : past ? -1 : 1;
        t.tm_year += !dated ? 0 : past ? -1 : 1;
        when = mktime(&t);
    }
    *at = (double)when;
    return when == (time_t)-1 ? HTC_EUSAGE : HTC_OK;
}

htc_status when_parse(const char *text, double now, double *at)
{
    return from_now(text, now, at) ? HTC_OK : of_calendar(text, now, 0, at);
}

htc_status when_past(const char *text, double now, double *at)
{
    double ago;
    size_t n = strlen(text);
    if (n && strchr("smhdw", text[n - 1]) && strspn(text, "0123456789.") == n - 1) {
        char *days = must_dup(text);
        int   weeks = text[n - 1] == 'w';
        days[n - 1] = weeks ? 'd' : text[n - 1];
        htc_status s = htc_command_time(days, 1, &ago);
        free(days);
        *at = now - ago * (weeks ? 7 : 1) > 0 ? now - ago * (weeks ? 7 : 1) : 0;
        return s;
    }
    return of_calendar(text, now, 1, at);
}
