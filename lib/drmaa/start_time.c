/* drmaa_start_time: a moment of which the leading parts may be left out. */
#include <string.h>

#include "drmaa/drmaa_private.h"

enum { CENTURY_GIVEN, YEAR_GIVEN, MONTH_GIVEN, DAY_GIVEN, TIME_GIVEN }; /* the first part that is there */

typedef struct moment {
    int  first; /* one of the above */
    int  year, month, day, hour, minute, second;
    int  has_zone, zone_hour, zone_minute;
    long zone_s; /* east of UTC */
} moment;

static int two_digits(const char **p, int *out)
{
    const char *s = *p;
    if (s[0] < '0' || s[0] > '9' || s[1] < '0' || s[1] > '9')
        return 0;
    *out = (s[0] - '0') * 10 + (s[1] - '0');
    *p += 2;
    return 1;
}

/* hh:mm[:ss] */
static int read_clock(const char **p, moment *m)
{
    if (!two_digits(p, &m->hour) || *(*p)++ != ':' || !two_digits(p, &m->minute))
        return 0;
    if (**p != ':')
        return 1;
    ++*p;
    return two_digits(p, &m->second);
}

/* [[[CC]YY/]MM/]DD */
static int read_date(const char **p, moment *m)
{
    int    part[4]; /* the year's four digits are two parts */
    size_t n = 0, slashes = 0;
    for (;;) {
        if (n == 4 || !two_digits(p, &part[n++]))
            return 0;
        if (slashes == 0 && n == 1 && **p >= '0' && **p <= '9') {
            if (!two_digits(p, &part[n++]) || **p != '/')
                return 0;
        }
        if (**p != '/')
            break;
        slashes++;
        ++*p;
    }
    if (n == 4 ? slashes != 2 : n - slashes != 1)
        return 0;
    m->first = n == 4 ? CENTURY_GIVEN : n == 3 ? YEAR_GIVEN : n == 2 ? MONTH_GIVEN : DAY_GIVEN;
    m->day = part[n - 1];
    m->month = n > 1 ? part[n - 2] : 0;
    m->year = n == 4 ? part[0] * 100 + part[1] : n == 3 ? part[0] : 0;
    return 1;
}

static int read_zone(const char **p, moment *m)
{
    int sign = **p == '-' ? -1 : 1;
    ++*p;
    if (!two_digits(p, &m->zone_hour) || *(*p)++ != ':' || !two_digits(p, &m->zone_minute))
        return 0;
    m->has_zone = 1;
    m->zone_s = sign * (m->zone_hour * 3600L + m->zone_minute * 60L);
    return 1;
}

static const char *after_blanks(const char *p)
{
    return p + strspn(p, " \t");
}

static int read_all(const char *text, moment *m)
{
    const char *p = after_blanks(text);
    *m = (moment){ .first = TIME_GIVEN };
    if (p[0] && p[1] && p[2] != ':') {
        if (!read_date(&p, m) || (*p != ' ' && *p != '\t'))
            return 0;
        p = after_blanks(p);
    }
    if (!read_clock(&p, m))
        return 0;
    p = after_blanks(p);
    if ((*p == '+' || *p == '-') && !read_zone(&p, m))
        return 0;
    return *after_blanks(p) == '\0';
}

static int days_of(int year, int month)
{
    static const int days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
    int              leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return days[month - 1] + (month == 2 && leap);
}

static time_t moment_of(const moment *m)
{
    struct tm t = { .tm_year = m->year - 1900, .tm_mon = m->month - 1, .tm_mday = m->day, .tm_hour = m->hour, .tm_min = m->minute,
                    .tm_sec = m->second, .tm_isdst = -1 };
    return m->has_zone ? timegm(&t) - m->zone_s : mktime(&t);
}

/* The next value of the part that was left out. */
static void step(moment *m)
{
    if (m->first == YEAR_GIVEN)
        m->year += 100;
    else if (m->first == MONTH_GIVEN)
        m->year++;
    else if (m->first == DAY_GIVEN || m->day >= days_of(m->year, m->month)) {
        if (m->first == TIME_GIVEN)
            m->day = 1;
        m->year += m->month == 12;
        m->month = m->month % 12 + 1;
    } else
        m->day++;
}

int htc__drmaa_start_time(const char *text, time_t now, time_t *moment_out)
{
    moment    m;
    struct tm here;
    if (!read_all(text, &m))
        return DRMAA_ERRNO_INVALID_ATTRIBUTE_FORMAT;
    if (m.hour > 23 || m.minute > 59 || m.second > 61 || m.zone_hour > 23 || m.zone_minute > 59)
        return DRMAA_ERRNO_INVALID_ATTRIBUTE_VALUE;
    if (m.first <= DAY_GIVEN && (m.day < 1 || m.day > 31))
        return DRMAA_ERRNO_INVALID_ATTRIBUTE_VALUE;
    if (m.first <= MONTH_GIVEN && (m.month < 1 || m.month > 12 || m.day > days_of(2000, m.month)))
        return DRMAA_ERRNO_INVALID_ATTRIBUTE_VALUE;
    time_t there = now + (m.has_zone ? m.zone_s : 0);
    if (m.has_zone)
        gmtime_r(&there, &here);
    else
        localtime_r(&there, &here);
    if (m.first >= MONTH_GIVEN)
        m.year = here.tm_year + 1900;
    else if (m.first == YEAR_GIVEN)
        m.year += (here.tm_year + 1900) / 100 * 100;
    if (m.first >= DAY_GIVEN)
        m.month = here.tm_mon + 1;
    if (m.first == TIME_GIVEN)
        m.day = here.tm_mday;
    if (m.first == CENTURY_GIVEN) {
        *moment_out = moment_of(&m);
        return m.day <= days_of(m.year, m.month) ? DRMAA_ERRNO_SUCCESS : DRMAA_ERRNO_INVALID_ATTRIBUTE_VALUE;
    }
    /* A month of 31 days comes within two, a leap year within eight; a leap year of centuries within four. */
    for (int tries = 0; tries < 16; tries++, step(&m)) {
        if (m.day > days_of(m.year, m.month))
            continue;
        *moment_out = moment_of(&m);
        if (*moment_out >= now)
            return DRMAA_ERRNO_SUCCESS;
    }
    return DRMAA_ERRNO_INVALID_ATTRIBUTE_VALUE;
}
