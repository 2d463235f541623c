/* A context or a set of siblings from anybody: refused, or written as it was read; and merged with itself, with another and
 * with a put it stays one. The first byte says where the bytes of the first end. */
#include "kvs/cell/siblings.h"
#include "check.h"

#include <string.h>

static void check_put(const htc__siblings *s, const htc__siblings *context)
{
    static htc__siblings after;
    htc__sibling         value = { .client = 1, .sequence = 2, .value = { "v", 1 } };
    htc_status           status = htc__siblings_put(&after, s, context, 77, &value);
    CHECK(status == HTC_OK || status == HTC_EFULL || status == HTC_EINVAL);
    if (status != HTC_OK)
        return;
    CHECK(after.values > 0 && after.values <= HTC__SIBLINGS_MAX);
    CHECK(htc__siblings_compare(context, &after) != HTC__CAUSAL_SAME);
    CHECK(htc__siblings_largest(&after));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static htc__siblings a, b, both, again;
    if (size < 1)
        return 0;
    size_t  cut = data[0] < size ? data[0] : size - 1;
    htc_buf out;
    if (htc__siblings_read((htc_bytes){ data + 1, cut }, &a) != HTC_OK ||
        htc__siblings_read((htc_bytes){ data + 1 + cut, size - 1 - cut }, &b) != HTC_OK)
        return 0;
    htc_buf_init(&out, NULL, 0);
    htc__siblings_write(&out, &a);
    CHECK(cut == 0 || (out.len == cut && memcmp(out.data, data + 1, cut) == 0));
    htc_buf_free(&out);
    CHECK(htc__siblings_compare(&a, &a) == HTC__CAUSAL_SAME);
    if (htc__siblings_merge(&both, &a, &b) == HTC_OK) {
        CHECK(htc__siblings_merge(&again, &both, &b) == HTC_OK);
        CHECK(htc__siblings_compare(&both, &again) == HTC__CAUSAL_SAME);
        htc__causal order = htc__siblings_compare(&a, &both);
        CHECK(order == HTC__CAUSAL_SAME || order == HTC__CAUSAL_BEFORE);
    }
    check_put(&a, &b);
    return 0;
}
