#include "kvs/peer/watch_items.h"

void htc__kv_watch_item_write(htc_buf *b, const htc__kv_watch_item *item)
{
    htc_put_u64(b, item->life);
    htc_put_varint(b, item->stream);
    htc_put_varint(b, item->from);
    htc_put_varint(b, item->taken);
}

void htc__kv_watch_item_read(htc_reader *r, htc__kv_watch_item *item)
{
    item->life = htc_get_u64(r);
    item->stream = htc_get_varint(r);
    item->from = htc_get_varint(r);
    item->taken = htc_get_varint(r);
    if (item->stream == 0)
        htc_reader_fail(r);
}

void htc__kv_wanted_write(htc_buf *b, const htc__kv_wanted *wanted)
{
    htc_put_varint(b, wanted->number);
    htc_put_u8(b, wanted->flags);
    htc_put_bytes(b, wanted->key);
}

int htc__kv_wanted_next(htc_reader *r, htc__kv_wanted *wanted)
{
    if (r->status != HTC_OK || htc_reader_left(r) == 0)
        return 0;
    *wanted = (htc__kv_wanted){ .number = htc_get_varint(r) };
    wanted->flags = htc_get_u8(r);
    wanted->key = htc_get_bytes(r);
    if (wanted->flags > (HTC__KV_WATCH_PREFIX | HTC__KV_WATCH_ENDED) || wanted->key.len > HTC_KV_KEY_MAX ||
        (wanted->key.len == 0 && !(wanted->flags & HTC__KV_WATCH_PREFIX)))
        htc_reader_fail(r);
    return r->status == HTC_OK;
}

void htc__kv_marks_item_write(htc_buf *b, const htc__kv_marks_item *item)
{
    htc_put_u64(b, item->life);
    htc_put_varint(b, item->stream);
    htc_put_u8(b, item->known);
    htc_put_varint(b, item->have);
    htc_put_varint(b, item->number);
}

void htc__kv_marks_item_read(htc_reader *r, htc__kv_marks_item *item)
{
    item->life = htc_get_u64(r);
    item->stream = htc_get_varint(r);
    item->known = htc_get_u8(r);
    item->have = htc_get_varint(r);
    item->number = htc_get_varint(r);
    if (item->known > 1)
        htc_reader_fail(r);
}

void htc__kv_marked_write(htc_buf *b, const htc__kv_marked *marked)
{
    htc_put_bytes(b, marked->key);
    htc_put_varint(b, marked->version);
    htc_put_u64(b, marked->digest);
}

int htc__kv_marked_next(htc_reader *r, htc__kv_marked *marked)
{
    if (r->status != HTC_OK || htc_reader_left(r) == 0)
        return 0;
    *marked = (htc__kv_marked){ .key = htc_get_bytes(r) };
    marked->version = htc_get_varint(r);
    marked->digest = htc_get_u64(r);
    if (marked->key.len == 0 || marked->key.len > HTC_KV_KEY_MAX)
        htc_reader_fail(r);
    return r->status == HTC_OK;
}
