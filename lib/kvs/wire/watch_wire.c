#include "kvs/wire/watch_wire.h"

void htc__kv_watch_begin(htc_buf *b, uint64_t serial, uint64_t session, int repeated, uint64_t taken)
{
    htc_wire_begin(b, HTC_WIRE_KV_WATCH, serial);
    htc_put_u64(b, session);
    htc_put_u8(b, repeated != 0);
    htc_put_varint(b, taken);
}

void htc__kv_watch_read(htc_reader *r, uint64_t *session, int *repeated, uint64_t *taken)
{
    *session = htc_get_u64(r);
    uint8_t flag = htc_get_u8(r);
    *repeated = flag;
    *taken = htc_get_varint(r);
    if (flag > 1)
        htc_reader_fail(r);
}

void htc__kv_watch_wish_write(htc_buf *b, const htc__kv_watch_wish *wish)
{
    htc_put_varint(b, wish->watch);
    htc_put_u8(b, (uint8_t)wish->kind);
    if (wish->kind != HTC__KV_WISH_END)
        htc_put_bytes(b, wish->key);
    if (wish->kind == HTC__KV_WISH_KEY)
        htc_put_varint(b, wish->held);
}

int htc__kv_watch_wish_next(htc_reader *r, htc__kv_watch_wish *wish)
{
    if (r->status != HTC_OK || htc_reader_left(r) == 0)
        return 0;
    *wish = (htc__kv_watch_wish){ .watch = htc_get_varint(r) };
    wish->kind = htc_get_u8(r);
    if (wish->kind > HTC__KV_WISH_PREFIX) {
        htc_reader_fail(r);
        return 0;
    }
    if (wish->kind != HTC__KV_WISH_END)
        wish->key = htc_get_bytes(r);
    if (wish->kind == HTC__KV_WISH_KEY)
        wish->held = htc_get_varint(r);
    if (wish->watch == 0 || wish->key.len > HTC_KV_KEY_MAX || (wish->kind == HTC__KV_WISH_KEY && wish->key.len == 0))
        htc_reader_fail(r);
    return r->status == HTC_OK;
}

void htc__kv_events_begin(htc_buf *b, uint64_t number, uint64_t session, uint64_t heard)
{
    htc_wire_begin(b, HTC_WIRE_KV_EVENTS, number);
    htc_put_u64(b, session);
    htc_put_varint(b, heard);
}

void htc__kv_events_read(htc_reader *r, uint64_t *session, uint64_t *heard)
{
    *session = htc_get_u64(r);
    *heard = htc_get_varint(r);
}

void htc__kv_event_write(htc_buf *b, const htc_kv_event *e)
{
    htc_put_varint(b, e->tag);
    htc_put_u8(b, (uint8_t)(e->kind | (e->key.len ? HTC__KV_EVENT_KEY : 0)));
    if (e->key.len)
        htc_put_bytes(b, e->key);
    if (e->kind == HTC_KV_EVENT_VALUE || e->kind == HTC_KV_EVENT_DELETED)
        htc_put_varint(b, e->version);
    if (e->kind == HTC_KV_EVENT_VALUE)
        htc_put_bytes(b, e->value);
    if (e->kind == HTC_KV_EVENT_ENDED)
        htc_put_u32(b, (uint32_t)e->status);
}

int htc__kv_event_next(htc_reader *r, htc_kv_event *e)
{
    if (r->status != HTC_OK || htc_reader_left(r) == 0)
        return 0;
    *e = (htc_kv_event){ .tag = htc_get_varint(r) };
    uint32_t kind = htc_get_u8(r);
    if (kind & HTC__KV_EVENT_KEY)
        e->key = htc_get_bytes(r);
    e->kind = kind & ~HTC__KV_EVENT_KEY;
    switch ((htc_kv_event_kind)e->kind) {
    case HTC_KV_EVENT_VALUE:
        e->version = htc_get_varint(r);
        e->value = htc_get_bytes(r);
        break;
    case HTC_KV_EVENT_DELETED:
        e->version = htc_get_varint(r);
        break;
    case HTC_KV_EVENT_CURRENT:
    case HTC_KV_EVENT_START_OVER:
        break;
    case HTC_KV_EVENT_ENDED:
        e->status = (htc_status)(int32_t)htc_get_u32(r);
        break;
    default:
        htc_reader_fail(r);
        break;
    }
    /* A key has its bytes, or is not said. */
    if (((kind & HTC__KV_EVENT_KEY) && (e->key.len == 0 || e->key.len > HTC_KV_KEY_MAX)) || e->value.len > HTC_KV_VALUE_MAX)
        htc_reader_fail(r);
    return r->status == HTC_OK;
}
