/* Stored bytes: records, with a checksum put right so that the decoder behind it is reached, and batches. */
#include <stdlib.h>

#include "htcsched/kv_engine.h"
#include "kvs/record.h"

static void must(int ok)
{
    if (!ok)
        abort();
}

static void record_of(htc_bytes bytes)
{
    static const htc_bytes key = { "k", 1 };
    htc__kv_record         record, again;
    htc_buf                sealed, written;
    must(htc__kv_record_read(bytes, key, &record) == HTC_ECORRUPT || bytes.len >= 8);
    htc_buf_init(&sealed, NULL, 0);
    htc_buf_init(&written, NULL, 0);
    htc_put_raw(&sealed, bytes);
    htc__kv_seal(&sealed, key, 0);
    if (htc__kv_record_read(htc_buf_bytes(&sealed), key, &record) == HTC_OK) {
        /* What is read is written back to what was read. */
        htc__kv_record_write(&written, key, &record);
        must(htc__kv_record_read(htc_buf_bytes(&written), key, &again) == HTC_OK);
        must(again.version == record.version && again.count == record.count &&
             htc_bytes_equal(again.value, record.value));
        must(htc_bytes_equal(htc_buf_bytes(&written), htc_buf_bytes(&sealed)));
        htc__kv_record_note(&record, &(htc__kv_seen){ 1, 2, 3, 4 });
        must(record.count <= HTC__KV_CLIENTS && htc__kv_record_find(&record, 1));
    }
    htc_buf_free(&sealed);
    htc_buf_free(&written);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    htc_bytes     bytes = { data, size };
    htc_kv_engine engine;
    htc_kv_change change;
    size_t        at = 0, n = 0;
    int           more;
    record_of(bytes);
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
