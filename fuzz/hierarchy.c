/* Any hierarchy and any order of operations: every decision, load, order and time is that of a naive model. */
#include "../tests/unit/hierarchy_model.h"
#include "check.h"

typedef struct input {
    const uint8_t *data;
    size_t         size;
} input;

/* Numbers below 256 from one byte, larger ones from two; zeros when there are none left. */
static uint64_t from_bytes(void *ctx, uint64_t n)
{
    input   *in = ctx;
    uint64_t value = 0;
    for (int i = 0; i < (n > 256 ? 2 : 1) && in->size > 0; i++, in->size--)
        value = value << 8 | *in->data++;
    return value % n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = { data, size };
    model m;
    model_open(&m, (model_source){ from_bytes, &in });
    for (int step = 0; step < 2000 && in.size > 0 && !m.wrong; step++)
        model_step(&m);
    model_is_looked_at(&m);
    CHECK(!m.wrong);
    model_close(&m);
    return 0;
}
