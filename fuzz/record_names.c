/* Any text: it is refused with a place and a sentence, or it is a node list, whose own text is read as the same list,
 * and whose every second node has a text that is read as that set. */
#include <string.h>

#include "check.h"
#include "htcsched/record.h"

#define NODES_MAX 4096

static void check_same(const htc_record_names *a, const htc_record_names *b)
{
    char x[HTC_RECORD_NAME_MAX + 1], y[HTC_RECORD_NAME_MAX + 1];
    CHECK(htc_record_names_count(a) == htc_record_names_count(b));
    for (uint32_t i = 0; i < htc_record_names_count(a); i++) {
        uint32_t node = UINT32_MAX;
        CHECK(htc_record_names_at(a, i, x) == HTC_OK && htc_record_names_at(b, i, y) == HTC_OK);
        CHECK(strcmp(x, y) == 0 && strlen(x) > 0);
        CHECK(htc_record_names_find(a, htc_bytes_of(x), &node) == HTC_OK && node == i);
    }
}

static void check_text(const htc_record_names *names)
{
    htc_record_names *again = NULL;
    htc_bytes         text;
    CHECK(htc_record_names_text(NULL, names, NULL, &text) == HTC_OK);
    CHECK(htc_record_names_parse(NULL, text, NODES_MAX, &again, NULL) == HTC_OK);
    check_same(names, again);
    htc_record_free(NULL, text);
    htc_record_names_destroy(again);
}

static void check_set(const htc_record_names *names, uint32_t step)
{
    htc_record_set *set = NULL, *again = NULL;
    htc_bytes       text;
    CHECK(htc_record_set_create(NULL, &set) == HTC_OK && htc_record_set_create(NULL, &again) == HTC_OK);
    for (uint32_t i = 0; i < htc_record_names_count(names); i += step)
        CHECK(htc_record_set_add(set, i, 1) == HTC_OK);
    CHECK(htc_record_names_text(NULL, names, set, &text) == HTC_OK);
    CHECK(htc_record_names_set(names, text, again, NULL) == HTC_OK && htc_record_set_equal(set, again));
    htc_record_free(NULL, text);
    htc_record_set_destroy(set);
    htc_record_set_destroy(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    htc_record_names *names = NULL;
    htc_error         e = { .status = HTC_OK };
    htc_status        status = htc_record_names_parse(NULL, (htc_bytes){ data, size }, NODES_MAX, &names, &e);
    if (status != HTC_OK) {
        CHECK(names == NULL && e.status == status && e.text[0] && e.line > 0 && e.column > 0);
        CHECK(status == HTC_EINVAL || status == HTC_EEXISTS || status == HTC_ETOOBIG);
        return 0;
    }
    CHECK(htc_record_names_count(names) <= NODES_MAX);
    check_text(names);
    check_set(names, 2);
    check_set(names, 5);
    htc_record_names_destroy(names);
    return 0;
}
