#include "arrivals.h"

#include <stdio.h>

static const char *key(char *room, size_t n, const char *section, const char *name)
{
    snprintf(room, n, "%s.%s", section, name);
    return room;
}

int arrivals_read(const settings *s, const char *section, const char *gap, htc_scale_arrivals *out, htc_error *error)
{
    char name[256];
    *out = (htc_scale_arrivals){ .size = sizeof *out, .gap = settings_law(s, key(name, sizeof name, section, gap)) };
    out->burst = settings_real(s, key(name, sizeof name, section, "burst"));
    out->burst_gap = settings_law(s, key(name, sizeof name, section, "burst_gap"));
    out->swing = settings_real(s, key(name, sizeof name, section, "daily"));
    out->peak_ns = settings_span(s, key(name, sizeof name, section, "peak"));
    if (htc_scale_arrivals_check(out) == HTC_OK)
        return 1;
    *error = (htc_error){ .status = HTC_ECONFIG };
    snprintf(error->text, sizeof error->text, "%.200s.peak is more than a day", section);
    snprintf(error->hint, sizeof error->hint, "say when in the day most jobs come: 14h");
    return 0;
}
