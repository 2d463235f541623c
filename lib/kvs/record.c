#include "kvs/record.h"

#include <string.h>

enum { FLAG_DELETED = 1 };

static uint64_t checksum(htc_bytes payload, htc_bytes key)
{
    return htc_hash64(payload, htc_hash64(key, 0));
}

void htc__kv_seal(htc_buf *b, htc_bytes key, size_t from)
{
    if (b->status == HTC_OK)
        htc_put_u64(b, checksum((htc_bytes){ b->data + from, b->len - from }, key));
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

void htc__kv_record_write(htc_buf *b, htc_bytes key, const htc__kv_record *record)
{
    size_t from = b->len;
    htc_put_u8(b, HTC__KV_RECORD_FORMAT);
    htc_put_u8(b, record->deleted ? FLAG_DELETED : 0);
    htc_put_varint(b, record->version);
    htc_put_varint(b, record->forgot);
    htc_put_varint(b, record->lease);
    htc_put_u8(b, record->count);
    for (size_t i = 0; i < record->count; i++) {
        htc_put_u64(b, record->seen[i].client);
        htc_put_varint(b, record->seen[i].sequence);
        htc_put_varint(b, record->seen[i].version);
        htc_put_u64(b, (uint64_t)record->seen[i].number);
    }
    htc_put_raw(b, record->value);
    htc__kv_seal(b, key, from);
}

htc_status htc__kv_record_read(htc_bytes bytes, htc_bytes key, htc__kv_record *record)
{
    htc_bytes payload;
    if (htc__kv_unseal(bytes, key, &payload) != HTC_OK)
        return HTC_ECORRUPT;
    htc_reader r = htc_reader_of(payload);
    uint8_t    format = htc_get_u8(&r), flags = htc_get_u8(&r);
    record->deleted = flags & FLAG_DELETED;
    record->version = htc_get_varint(&r);
    record->forgot = htc_get_varint(&r);
    record->lease = htc_get_varint(&r);
    record->count = htc_get_u8(&r);
    if (r.status != HTC_OK || format != HTC__KV_RECORD_FORMAT || flags > FLAG_DELETED ||
        record->count > HTC__KV_CLIENTS)
        return HTC_ECORRUPT;
    for (size_t i = 0; i < record->count; i++) {
        record->seen[i].client = htc_get_u64(&r);
        record->seen[i].sequence = htc_get_varint(&r);
        record->seen[i].version = htc_get_varint(&r);
        record->seen[i].number = (int64_t)htc_get_u64(&r);
    }
    record->value = htc_get_raw(&r, htc_reader_left(&r));
    return r.status == HTC_OK ? HTC_OK : HTC_ECORRUPT;
}

const htc__kv_seen *htc__kv_record_find(const htc__kv_record *record, uint64_t client)
{
    for (size_t i = 0; i < record->count; i++)
        if (record->seen[i].client == client)
            return &record->seen[i];
    return NULL;
}

void htc__kv_record_note(htc__kv_record *record, const htc__kv_seen *seen)
{
    size_t i = 0;
    while (i < record->count && record->seen[i].client != seen->client)
        i++;
    if (i == HTC__KV_CLIENTS) {
        i = 0;
        if (record->seen[0].version > record->forgot)
            record->forgot = record->seen[0].version;
    }
    if (i < record->count) {
        memmove(&record->seen[i], &record->seen[i + 1], (size_t)(record->count - i - 1) * sizeof record->seen[0]);
        record->count--;
    }
    record->seen[record->count++] = *seen;
}
