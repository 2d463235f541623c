/* Batches of changes, as an engine gets them. */
#include <stdlib.h>

#include "htcsched/kv_engine.h"

static void must(int ok)
{
    if (!ok)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    htc_bytes     bytes = { data, size };
    htc_kv_engine engine;
    htc_kv_change change;
    size_t        at = 0, n = 0;
    int           more;
    while ((more = htc_kv_batch_next(bytes, &at, &change)) > 0)
        n++;
    /* A batch that is broken anywhere changes nothing. */
    must(htc_kv_memory_create(NULL, &engine) == HTC_OK);
    size_t     empty = engine.ops->used(engine.ctx);
    htc_status status = engine.ops->apply(engine.ctx, bytes);
    must((status == HTC_OK) == (more == 0) && (more == 0 || engine.ops->used(engine.ctx) == empty) && n <= size);
    engine.ops->destroy(engine.ctx);
    return 0;
}
