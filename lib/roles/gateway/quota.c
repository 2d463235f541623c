/* Limits and what is left of them. */
#include <stdio.h>

#include "roles/gateway/quota.h"

#define HOUR_NS 3.6e12

static const char *const names[QUOTA_KINDS] = { "core_hours", "bytes", "tasks", "processes" };
static const char *const words[QUOTA_KINDS] = { "core hours", "bytes", "unfinished tasks", "tasks at once" };

uint64_t htc__quota_limit(const quota_limits *own, const quota_limits *site, quota_kind kind)
{
    uint64_t said = own->at[kind] || !site ? own->at[kind] : site->at[kind];
    return said > 1 ? said - 1 : QUOTA_NONE;
}

uint64_t htc__quota_left(uint64_t limit, uint64_t used)
{
    return limit == QUOTA_NONE ? QUOTA_NONE : used < limit ? limit - used : 0;
}

uint64_t htc__quota_room(const quota_holder *h, const quota_limits *site, uint64_t core_ns, uint64_t held)
{
    if (htc__quota_left(htc__quota_limit(&h->limits, site, QUOTA_CORE), htc__quota_sum(core_ns, h->running)) == 0)
        return 0;
    return htc__quota_left(htc__quota_limit(&h->limits, site, QUOTA_PROCESSES), held);
}

const char *htc__quota_name(quota_kind kind)
{
    return names[kind];
}

double htc__quota_shown(quota_kind kind, uint64_t v)
{
    return kind == QUOTA_CORE ? (double)v / HOUR_NS : (double)v;
}

void htc__quota_text(quota_kind kind, const char *who, uint64_t used, uint64_t limit, char *text, size_t cap)
{
    snprintf(text, cap, "%s of %s (%.6g of %.6g used)", words[kind], who, htc__quota_shown(kind, used), htc__quota_shown(kind, limit));
}
