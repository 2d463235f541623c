#include "kvs/peer/members.h"

void htc__kv_members_begin(htc_buf *b, uint64_t id, uint64_t from, uint64_t to)
{
    htc_wire_begin(b, HTC_WIRE_KV_MEMBERS, id);
    htc_put_u64(b, from);
    htc_put_u64(b, to);
}

int htc__kv_members_next(htc_reader *r, uint8_t *kind, htc_bytes *item)
{
    if (r->status != HTC_OK || htc_reader_left(r) == 0)
        return 0;
    *kind = htc_get_u8(r);
    *item = htc_get_bytes(r);
    return r->status == HTC_OK;
}

void htc__kv_forward_write(htc_buf *b, const htc__kv_forward *f)
{
    htc_put_u64(b, f->tag);
    htc_put_u8(b, f->tried);
    htc_put_u8(b, f->kind);
    htc_put_varint(b, f->epoch);
    htc_put_u64(b, f->lease);
    htc_put_u64(b, f->stamp.alive);
    htc_put_u64(b, f->stamp.client);
    htc_put_varint(b, f->stamp.sequence);
    htc_put_varint(b, f->stamp.since);
    htc__kv_op_write(b, &f->request);
}

htc_status htc__kv_forward_read(htc_bytes bytes, htc__kv_forward *f)
{
    htc_reader r = htc_reader_of(bytes);
    *f = (htc__kv_forward){ .tag = htc_get_u64(&r) };
    f->tried = htc_get_u8(&r);
    f->kind = htc_get_u8(&r);
    f->epoch = htc_get_varint(&r);
    f->lease = htc_get_u64(&r);
    f->stamp.alive = htc_get_u64(&r);
    f->stamp.client = htc_get_u64(&r);
    f->stamp.sequence = htc_get_varint(&r);
    f->stamp.since = htc_get_varint(&r);
    if (f->tried <= 1 && htc__kv_op_unknown(r))
        return HTC_EUNSUPPORTED;
    htc__kv_op_read(&r, &f->request);
    if (f->tried > 1 || f->request.key.len == 0 || f->kind > HTC__KV_FORWARD_REVOKE ||
        (f->kind == HTC__KV_FORWARD_UNBIND && f->request.op != HTC_KV_DELETE) ||
        (f->kind >= HTC__KV_FORWARD_RENEW && f->request.op != HTC_KV_GET))
        htc_reader_fail(&r);
    return htc_reader_done(&r);
}

void htc__kv_forwarded_write(htc_buf *b, const htc__kv_forwarded *f)
{
    htc_put_u64(b, f->tag);
    htc_put_u8(b, f->tried);
    htc_put_u64(b, f->to);
    htc_put_varint(b, f->observed);
    htc__kv_result_write(b, &f->result);
}

htc_status htc__kv_forwarded_read(htc_bytes bytes, htc__kv_forwarded *f)
{
    htc_reader r = htc_reader_of(bytes);
    *f = (htc__kv_forwarded){ .tag = htc_get_u64(&r) };
    f->tried = htc_get_u8(&r);
    f->to = htc_get_u64(&r);
    f->observed = htc_get_varint(&r);
    htc__kv_result_read(&r, &f->result);
    if (f->tried > 1)
        htc_reader_fail(&r);
    return htc_reader_done(&r);
}

void htc__kv_list_write(htc_buf *b, const htc__kv_list_ask *ask)
{
    htc_put_u64(b, ask->tag);
    htc_put_u8(b, ask->flags);
    htc_put_varint(b, ask->limit);
    htc_put_bytes(b, ask->prefix);
    htc_put_bytes(b, ask->after);
    if (!(ask->flags & HTC__KV_LIST_WATCHED))
        return;
    htc_put_u64(b, ask->life);
    htc_put_varint(b, ask->stream);
    htc_put_varint(b, ask->wish);
}

htc_status htc__kv_list_read(htc_bytes bytes, htc__kv_list_ask *ask)
{
    htc_reader r = htc_reader_of(bytes);
    *ask = (htc__kv_list_ask){ .tag = htc_get_u64(&r) };
    ask->flags = htc_get_u8(&r);
    ask->limit = htc_get_varint(&r);
    ask->prefix = htc_get_bytes(&r);
    ask->after = htc_get_bytes(&r);
    if (ask->flags & HTC__KV_LIST_WATCHED) {
        ask->life = htc_get_u64(&r);
        ask->stream = htc_get_varint(&r);
        ask->wish = htc_get_varint(&r);
    }
    if (ask->prefix.len > HTC_KV_KEY_MAX || ask->after.len > HTC_KV_KEY_MAX)
        htc_reader_fail(&r);
    return htc_reader_done(&r);
}

void htc__kv_listed_write(htc_buf *b, const htc__kv_listed *cell)
{
    htc_put_bytes(b, cell->key);
    htc_put_u8(b, cell->flags);
    htc_put_varint(b, cell->version);
    htc_put_u64(b, cell->digest);
    if (cell->flags & HTC__KV_LISTED_VALUE)
        htc_put_bytes(b, cell->value);
}

int htc__kv_listed_next(htc_reader *r, htc__kv_listed *cell)
{
    if (r->status != HTC_OK || htc_reader_left(r) == 0)
        return 0;
    *cell = (htc__kv_listed){ .key = htc_get_bytes(r) };
    cell->flags = htc_get_u8(r);
    cell->version = htc_get_varint(r);
    cell->digest = htc_get_u64(r);
    if (cell->flags & HTC__KV_LISTED_VALUE)
        cell->value = htc_get_bytes(r);
    if (cell->key.len == 0 || cell->key.len > HTC_KV_KEY_MAX)
        htc_reader_fail(r);
    return r->status == HTC_OK;
}
