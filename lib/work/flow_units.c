/* Words of the flow model, and times and sizes as people write them. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "work/flow_private.h"

__extension__ typedef unsigned __int128 wide;

#define FIELD_MAX (UINT64_C(1) << 63)

static const char *const builtin_names[] = { [HTC_FLOW_NOOP] = "noop",
                                             [HTC_FLOW_SLEEP] = "sleep",
                                             [HTC_FLOW_SPIN] = "spin",
                                             [HTC_FLOW_READ] = "read",
                                             [HTC_FLOW_WRITE] = "write",
                                             [HTC_FLOW_INTAKE] = "intake" };
static const char *const rule_names[] = { [HTC_FLOW_OK] = "ok", [HTC_FLOW_ANY] = "any", [HTC_FLOW_FAILED] = "failed" };

#define COUNT(a) (sizeof(a) / sizeof *(a))

static int index_of(htc_bytes word, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (names[i] && htc_bytes_equal(word, htc_bytes_of(names[i])))
            return (int)i;
    return -1;
}

const char *htc__flow_builtin_name(uint32_t builtin)
{
    return builtin < COUNT(builtin_names) ? builtin_names[builtin] : NULL;
}

int htc__flow_builtin_of(htc_bytes word)
{
    return index_of(word, builtin_names, COUNT(builtin_names));
}

const char *htc__flow_rule_name(uint32_t rule)
{
    return rule < COUNT(rule_names) ? rule_names[rule] : NULL;
}

int htc__flow_rule_of(htc_bytes word)
{
    return index_of(word, rule_names, COUNT(rule_names));
}

const char *htc__flow_adds_word(uint32_t builtin)
{
    return builtin == HTC_FLOW_CALL ? "output" : "stdout";
}

int htc__flow_adds_is(uint32_t builtin, const char *word)
{
    int adds = builtin == HTC_FLOW_PROGRAM || builtin == HTC_FLOW_CALL;
    return !adds || strcmp(word, htc__flow_adds_word(builtin)) == 0;
}

int htc__flow_is_size(uint32_t builtin)
{
    return builtin == HTC_FLOW_READ || builtin == HTC_FLOW_WRITE;
}

typedef struct unit {
    const char *name;
    uint64_t    factor;
} unit;

/* The first one is meant where none is written. */
static const unit times[] = {
    { "s", HTC_SECOND },
    { "ms", HTC_MS },
    { "us", HTC_US },
    { "ns", 1 },
    { "m", 60 * HTC_SECOND },
    { "h", 3600 * HTC_SECOND },
    { "d", 86400 * HTC_SECOND },
};
static const unit sizes[] = {
    { "B", 1 },
    { "K", UINT64_C(1) << 10 },
    { "M", UINT64_C(1) << 20 },
    { "G", UINT64_C(1) << 30 },
    { "T", UINT64_C(1) << 40 },
    { "KiB", UINT64_C(1) << 10 },
    { "MiB", UINT64_C(1) << 20 },
    { "GiB", UINT64_C(1) << 30 },
    { "TiB", UINT64_C(1) << 40 },
};

static int is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* digits [ . digits ] [ unit ], exact and rounded down; of the digits behind the point the first 18 count. */
static int parse(htc_bytes text, const unit *units, size_t n, uint64_t *out)
{
    const char *p = text.data;
    size_t      i = 0;
    wide        whole = 0, part = 0, scale = 1;
    int         too_large = 0;
    uint64_t    factor = 0;
    for (; i < text.len && is_digit(p[i]); i++) {
        whole = whole * 10 + (wide)(p[i] - '0');
        too_large |= whole >= FIELD_MAX;
        whole = too_large ? 0 : whole;
    }
    if (i == 0)
        return 0;
    if (i < text.len && p[i] == '.') {
        size_t first = ++i;
        for (; i < text.len && is_digit(p[i]); i++)
            if (i - first < 18) {
                part = part * 10 + (wide)(p[i] - '0');
                scale *= 10;
            }
        if (i == first)
            return 0;
    }
    htc_bytes name = { p + i, text.len - i };
    if (name.len == 0)
        factor = units[0].factor;
    for (size_t u = 0; u < n; u++)
        if (htc_bytes_equal(name, htc_bytes_of(units[u].name)))
            factor = units[u].factor;
    if (factor == 0)
        return 0;
    wide value = whole * factor + part * factor / scale;
    if (too_large || value >= FIELD_MAX)
        return -1;
    *out = (uint64_t)value;
    return 1;
}

int htc__flow_time_parse(htc_bytes text, uint64_t *ns)
{
    return parse(text, times, COUNT(times), ns);
}

int htc__flow_size_parse(htc_bytes text, uint64_t *bytes)
{
    return parse(text, sizes, COUNT(sizes), bytes);
}

/* With the largest of these units that leaves no fraction. */
static void put_number(uint64_t value, const unit *units, size_t n, char out[HTC__FLOW_UNIT_TEXT_MAX])
{
    const unit *best = NULL;
    for (size_t u = 0; value && u < n; u++)
        if (value % units[u].factor == 0 && (!best || units[u].factor > best->factor))
            best = &units[u];
    if (best)
        snprintf(out, HTC__FLOW_UNIT_TEXT_MAX, "%llu%s", (unsigned long long)(value / best->factor),
                 best->factor == 1 && units == sizes ? "" : best->name);
    else
        snprintf(out, HTC__FLOW_UNIT_TEXT_MAX, "0");
}

void htc__flow_time_text(uint64_t ns, char out[HTC__FLOW_UNIT_TEXT_MAX])
{
    put_number(ns, times, COUNT(times), out);
}

void htc__flow_size_text(uint64_t bytes, char out[HTC__FLOW_UNIT_TEXT_MAX])
{
    put_number(bytes, sizes, COUNT(sizes), out);
}

int htc__flow_scale(double value, double factor, double scale, uint64_t *out)
{
    if (!(value >= 0) || isinf(value))
        return 0;
    double scaled = floor(value * factor * scale + 0.5);
    if (!(scaled < 9.2e18)) /* a double below 2^63 */
        return -1;
    *out = (uint64_t)scaled;
    return 1;
}
