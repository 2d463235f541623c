/* The stored form of a specification, damaged: refused as corrupt, or one that answers. */
#include "check.h"
#include "work/work_private.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    htc_spec  *spec = NULL;
    htc_status status = htc_spec_from_bytes(NULL, (htc_bytes){ data, size }, &spec);
    if (status != HTC_OK) {
        CHECK(status == HTC_ECORRUPT && !spec);
        return 0;
    }
    uint64_t count = htc_spec_count(spec), at[] = { 0, 1, count / 3, count / 2, count - 1, count };
    CHECK(count >= 1 && htc_spec_name(spec) && htc_spec_warnings(spec));
    CHECK(htc_bytes_equal(htc_spec_bytes(spec), (htc_bytes){ data, size }));
    for (size_t i = 0; i < sizeof at / sizeof at[0]; i++) {
        htc_task *t = NULL;
        status = htc_spec_task(spec, at[i], &t, NULL);
        CHECK((status == HTC_OK) == (t != NULL));
        CHECK(at[i] < count || status == HTC_EINVAL);
        htc_task_destroy(t);
    }
    htc_spec_destroy(spec);
    return 0;
}
