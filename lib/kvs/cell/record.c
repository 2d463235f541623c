#include "kvs/cell/record.h"

static uint64_t checksum(htc_bytes payload, htc_bytes key)
{
    return htc_hash64(payload, htc_hash64(key, 0));
}

void htc__kv_seal(htc_buf *b, htc_bytes key, size_t from)
{
    if (b->status == HTC_OK)
        htc_put_u64(b, checksum((htc_bytes){ from ? b->data + from : b->data, b->len - from }, key));
}

htc_status htc__kv_unseal(htc_bytes bytes, htc_bytes key, htc_bytes *payload)
{
    if (bytes.len < 8)
        return HTC_ECORRUPT;
    htc_bytes  body = { bytes.data, bytes.len - 8 };
    htc_reader r = htc_reader_of((htc_bytes){ (const uint8_t *)bytes.data + body.len, 8 });
    if (htc_get_u64(&r) != checksum(body, key))
        return HTC_ECORRUPT;
    *payload = body;
    return HTC_OK;
}
