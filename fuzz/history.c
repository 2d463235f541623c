/* The file of a history, from a stranger, and every checker on what it says: no crash, no endless search, and what is read is written
 * so that it is read the same again. */
#include <string.h>

#include "check.h"
#include "htcsched/history.h"

typedef htc_status checker(const htc_history *, const htc_history_rules *, htc_history_verdict *);

static char line[HTC_HISTORY_LINE_MAX], twice[HTC_HISTORY_LINE_MAX];

static void judge(const htc_history *h)
{
    static checker *const   checkers[] = { htc_history_linear,   htc_history_rising,  htc_history_kept,
                                           htc_history_counted,  htc_history_watched, htc_history_leased,
                                           htc_history_converged };
    const htc_history_rules rules = { .size = sizeof rules, .search_max = 2000, .settle_ns = 5, .takeover_ns = 5 };
    htc_history_verdict     v, linear = { .answer = 0 };
    for (size_t i = 0; i < sizeof checkers / sizeof *checkers; i++) {
        CHECK(checkers[i](h, &rules, &v) == HTC_OK);
        CHECK(v.answer >= HTC_HISTORY_HOLDS && v.answer <= HTC_HISTORY_UNDECIDED && v.involved <= 4);
        CHECK((v.answer == HTC_HISTORY_HOLDS) == (v.text[0] == 0) && memchr(v.text, 0, sizeof v.text));
        if (i == 0)
            linear = v;
    }
    /* Both ways of deciding agree: what holds for all keys is found broken for none, and the other way round. */
    uint32_t broken = 0, undecided = 0;
    for (uint32_t k = 0; k < htc_history_keys(h); k++) {
        CHECK(htc_history_search(h, k, &rules, &v) == HTC_OK);
        broken |= v.answer == HTC_HISTORY_BROKEN;
        undecided |= v.answer == HTC_HISTORY_UNDECIDED;
    }
    CHECK(linear.answer != HTC_HISTORY_HOLDS || !broken);
    CHECK(linear.answer != HTC_HISTORY_BROKEN || broken || undecided);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const htc_history_options options = { .size = sizeof options, .ops_max = 256, .keys_max = 64, .bytes_max = 65536 };
    htc_history              *h, *again;
    htc_error                 error = { .status = HTC_OK };
    CHECK(htc_history_create(NULL, &options, &h) == HTC_OK && htc_history_create(NULL, NULL, &again) == HTC_OK);
    htc_status status = htc_history_read(h, (htc_bytes){ data, size }, &error);
    CHECK(status == HTC_OK || (error.text[0] && error.line > 0 && htc_history_count(h) == 0));
    for (size_t i = 0; i < htc_history_count(h); i++) {
        size_t n = htc_history_line(h, i, line, sizeof line);
        CHECK(n > 0 && htc_history_read(again, (htc_bytes){ line, n }, NULL) == HTC_OK);
        CHECK(htc_history_line(again, i, twice, sizeof twice) == n && memcmp(line, twice, n) == 0);
    }
    if (status == HTC_OK)
        judge(h);
    htc_history_destroy(h);
    htc_history_destroy(again);
    return 0;
}
