/* Any sequence of events: the fit does what the slow model does, under each of the four promises. */
#include "../tests/unit/fit_twins.h"
#include "check.h"
#include "core/codec.h"

/* As long as that, the model's time does not run out. */
#define STEPS_MAX 120

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    htc_reader r = htc_reader_of((htc_bytes){ data, size });
    uint32_t   promise = htc_get_u8(&r) % 4 + HTC_FIT_PROMISE_NOTHING, nodes = htc_get_u8(&r) % 16;
    twins      t;
    CHECK(twins_open(&t, NULL, promise, nodes) == HTC_OK);
    for (int i = 0; i < STEPS_MAX && htc_reader_left(&r) > 0; i++)
        CHECK(twins_step(&t, htc_get_u64(&r)) == NULL);
    htc_fit_destroy(t.fit);
    return 0;
}
