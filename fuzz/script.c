/* The options of a script, and each value that would be read again: an array and a signal. */
#include "htcsched/script.h"

#include <string.h>

#include "check.h"

typedef struct seen {
    uint32_t line, wishes;
} seen;

static htc_status look(void *ctx, const htc_script_wish *w)
{
    seen     *s = ctx;
    htc_array a = { .size = sizeof a };
    uint32_t  number = 0, seconds = 0;
    CHECK(w->line && w->said && w->said[0] && w->value && (w->option || w->note));
    CHECK(strlen(w->value) <= HTC_SCRIPT_LINE_MAX + 64 && ++s->wishes <= 2 * HTC_SCRIPT_LINE_MAX * HTC_SCRIPT_OPTIONS_MAX);
    if (htc_array_parse(w->value, &a, NULL) == HTC_OK) {
        CHECK(a.count > 0 && a.n_ranges > 0 && htc_array_at(&a, a.count - 1) == a.range[a.n_ranges - 1].last);
        CHECK(htc_array_at(&a, 0) == a.range[0].first);
    }
    if (htc_signal_parse(w->value, &number, &seconds) == HTC_OK)
        CHECK(number >= 1 && number <= 64 && seconds >= 1 && seconds <= 65535);
    return HTC_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    seen       s = { 0, 0 };
    uint32_t   dialect = 9;
    htc_error  e = { 0 };
    htc_status status = htc_script_read((htc_bytes){ data, size }, look, &s, &dialect, &e);
    CHECK(status == HTC_OK || status == HTC_EUSAGE || status == HTC_EUNSUPPORTED || status == HTC_ETOOBIG);
    CHECK(status == HTC_OK || (e.line && e.text[0]));
    CHECK(dialect <= HTC_SCRIPT_SGE);
    return 0;
}
