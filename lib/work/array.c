/* The numbers of an array, and a signal ahead of a limit, as Slurm writes them. */
#include <signal.h>
#include <string.h>

#include "htcsched/script.h"
#include "work/work_private.h"

/* At most nine digits; 0: there are none, or more. */
static int take_number(const char **p, uint64_t *out)
{
    uint64_t v = 0;
    size_t   n = strspn(*p, "0123456789");
    if (n == 0)
        return 0;
    for (size_t i = 0; i < n; i++)
        v = v > HTC_ARRAY_NUMBER_MAX ? v : v * 10 + (uint64_t)((*p)[i] - '0');
    *p += n;
    *out = v;
    return 1;
}

/* first[-last[:step]]; last is then a number that the range has. 0: it is something else. */
static int take_range(const char **p, htc_array_range *r)
{
    r->step = 1;
    if (!take_number(p, &r->first))
        return 0;
    r->last = r->first;
    if (**p != '-')
        return 1;
    ++*p;
    if (!take_number(p, &r->last) || r->last < r->first)
        return 0;
    if (**p == ':' && (++*p, !take_number(p, &r->step) || r->step == 0))
        return 0;
    if (r->last <= HTC_ARRAY_NUMBER_MAX)
        r->last -= (r->last - r->first) % r->step;
    return 1;
}

/* x with a x = 1 modulo m; a and m have no common factor. */
static int64_t inverse(int64_t a, int64_t m)
{
    int64_t r0 = m, r1 = a % m, x0 = 0, x1 = 1;
    while (r1) {
        int64_t q = r0 / r1, r = r0 - q * r1, x = x0 - q * x1;
        r0 = r1;
        r1 = r;
        x0 = x1;
        x1 = x;
    }
    return x0 < 0 ? x0 + m : x0;
}

static int64_t greatest_divisor(int64_t a, int64_t b)
{
    while (b) {
        int64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}

/* The least number that both have; 0 if there is none, else 1. Products stay below 2^60. */
static int meet(const htc_array_range *a, const htc_array_range *b, uint64_t *at)
{
    int64_t sa = (int64_t)a->step, sb = (int64_t)b->step, fa = (int64_t)a->first, fb = (int64_t)b->first;
    int64_t low = fa > fb ? fa : fb, high = (int64_t)(a->last < b->last ? a->last : b->last);
    int64_t g = greatest_divisor(sa, sb), m = sb / g;
    if (low > high || (fb - fa) % g)
        return 0;
    int64_t k = m == 1 ? 0 : ((fb - fa) / g % m + m) % m * inverse(sa / g % m, m) % m;
    int64_t x = fa + k * sa, each = sa / g * sb;
    if (x < low)
        x += (low - x + each - 1) / each * each;
    *at = (uint64_t)x;
    return x <= high;
}

static htc_status refuse(htc_error *error, const char *text, const char *why)
{
    htc_status status = htc__refuse(error, HTC_EUSAGE, 0, "array", "%s is no array: %s", htc__quote(htc_bytes_of(text)).text, why);
    if (error)
        strcpy(error->hint, "write 1-100, 1-100:2, 3,7,20-30, each with %N behind it for N at once");
    return status;
}

static htc_status check_range(const htc_array *a, const char *text, htc_error *error)
{
    const htc_array_range *r = &a->range[a->n_ranges];
    if (r->last > HTC_ARRAY_NUMBER_MAX || r->step > HTC_ARRAY_NUMBER_MAX)
        return htc__refuse(error, HTC_ETOOBIG, 0, "array", "an array's numbers end at 999999999");
    for (uint32_t i = 0; i < a->n_ranges; i++) {
        uint64_t at;
        if (meet(&a->range[i], r, &at))
            return htc__refuse(error, HTC_EUSAGE, 0, "array", "the array %s has %llu twice", htc__quote(htc_bytes_of(text)).text, (unsigned long long)at);
    }
    return HTC_OK;
}

htc_status htc_array_parse(const char *text, htc_array *out, htc_error *error)
{
    htc_array   a = { .size = sizeof a };
    const char *p = text;
    if (!text || !out)
        return HTC_EINVAL;
    for (;; p++) {
        if (a.n_ranges == HTC_ARRAY_RANGES_MAX)
            return htc__refuse(error, HTC_ETOOBIG, 0, "array", "an array has at most %d parts", HTC_ARRAY_RANGES_MAX);
        if (!take_range(&p, &a.range[a.n_ranges]))
            return refuse(error, text, "numbers and ranges, divided by commas");
        htc_status status = check_range(&a, text, error);
        if (status != HTC_OK)
            return status;
        const htc_array_range *r = &a.range[a.n_ranges++];
        a.count += (r->last - r->first) / r->step + 1;
        if (*p != ',')
            break;
    }
    if (*p == '%' && (++p, !take_number(&p, &a.at_once) || a.at_once == 0 || a.at_once > HTC_ARRAY_NUMBER_MAX))
        return refuse(error, text, "behind % stands how many run at once");
    if (*p)
        return refuse(error, text, "something stands behind it");
    return htc__options_give(out, &a, sizeof a, sizeof a);
}

uint64_t htc_array_at(const htc_array *a, uint64_t k)
{
    for (uint32_t i = 0; a && i < a->n_ranges && i < HTC_ARRAY_RANGES_MAX; i++) {
        const htc_array_range *r = &a->range[i];
        uint64_t               n = (r->last - r->first) / r->step + 1;
        if (k < n)
            return r->first + k * r->step;
        k -= n;
    }
    return 0;
}

/* ---- signals ---- */

static const struct {
    const char *name;
    uint32_t    number;
} signals[] = {
    { "HUP", SIGHUP },   { "INT", SIGINT },   { "QUIT", SIGQUIT }, { "ABRT", SIGABRT }, { "KILL", SIGKILL }, { "ALRM", SIGALRM },
    { "TERM", SIGTERM }, { "USR1", SIGUSR1 }, { "USR2", SIGUSR2 }, { "CONT", SIGCONT }, { "URG", SIGURG },   { "XCPU", SIGXCPU }, { "WINCH", SIGWINCH },
};

/* Whoever gets one of these is continued at once, as whatever is sent to a task: it is asked to do something, not to stand still. */
static int stops(uint32_t number)
{
    return number == SIGSTOP || number == SIGTSTP || number == SIGTTIN || number == SIGTTOU;
}

static uint32_t signal_of(htc_bytes word)
{
    uint64_t    number = 0;
    const char *p = word.data;
    if (word.len == 0)
        return SIGUSR1;
    if (take_number(&p, &number))
        return p == (const char *)word.data + word.len && number <= 64 && !stops((uint32_t)number) ? (uint32_t)number : 0;
    if (word.len > 3 && memcmp(word.data, "SIG", 3) == 0)
        word = (htc_bytes){ (const char *)word.data + 3, word.len - 3 };
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        if (htc_bytes_equal(word, htc_bytes_of(signals[i].name)))
            return signals[i].number;
    return 0;
}

htc_status htc_signal_parse(const char *text, uint32_t *number, uint32_t *seconds)
{
    uint64_t before = 60;
    if (!text || !number || !seconds)
        return HTC_EINVAL;
    if (strncmp(text, "B:", 2) == 0)
        text += 2;
    size_t   n = strcspn(text, "@");
    uint32_t signal = signal_of((htc_bytes){ text, n });
    const char *p = text + n;
    if (*p == '@' && (++p, !take_number(&p, &before)))
        return HTC_EUSAGE;
    if (*p || !signal || before == 0 || before > 65535 || (n == 0 && text[n] != '@'))
        return HTC_EUSAGE;
    *number = signal;
    *seconds = (uint32_t)before;
    return HTC_OK;
}
