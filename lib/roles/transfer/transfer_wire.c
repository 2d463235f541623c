#include "roles/transfer/transfer_wire.h"

#include <string.h>

#include "core/url.h"

#define NAME_MAX_BYTES 64

void htc__transfer_request_write(htc_buf *b, const transfer_request *r)
{
    htc_put_u32(b, HTC__TRANSFER_VERSION);
    htc_put_u32(b, r->parent);
    htc_put_bytes(b, r->dir);
    htc_put_u64(b, r->bytes_max);
    htc_put_u64(b, r->connect);
    htc_put_u64(b, r->stall);
    htc_put_bytes(b, r->ca);
    htc_put_bytes(b, r->proxy);
    htc_put_bytes(b, r->netrc);
    htc_put_varint(b, r->count);
}

void htc__transfer_one_write(htc_buf *b, const transfer_one *one)
{
    htc_put_u8(b, one->up);
    htc_put_bytes(b, one->url);
    htc_put_bytes(b, one->name);
}

/* It stands in a C string later. */
static int is_text(htc_bytes b)
{
    return b.len == 0 || !memchr(b.data, 0, b.len);
}

htc_status htc__transfer_request_read(htc_bytes bytes, transfer_request *r)
{
    *r = (transfer_request){ 0 };
    r->rest = htc_reader_of(bytes);
    if (htc_get_u32(&r->rest) != HTC__TRANSFER_VERSION)
        return r->rest.status == HTC_OK ? HTC_EVERSION : HTC_EPROTO;
    r->parent = htc_get_u32(&r->rest);
    r->dir = htc_get_bytes(&r->rest);
    r->bytes_max = htc_get_u64(&r->rest);
    r->connect = htc_get_u64(&r->rest);
    r->stall = htc_get_u64(&r->rest);
    r->ca = htc_get_bytes(&r->rest);
    r->proxy = htc_get_bytes(&r->rest);
    r->netrc = htc_get_bytes(&r->rest);
    r->count = htc_get_count(&r->rest, 3);
    return r->rest.status == HTC_OK && r->dir.len > 0 && r->dir.len < 4096 && is_text(r->dir) && is_text(r->ca) && is_text(r->proxy) ? HTC_OK : HTC_EPROTO;
}

htc_status htc__transfer_one_read(transfer_request *r, transfer_one *one)
{
    one->up = htc_get_u8(&r->rest);
    one->url = htc_get_bytes(&r->rest);
    one->name = htc_get_bytes(&r->rest);
    int fine = r->rest.status == HTC_OK && one->up <= TRANSFER_UP_NEW && !htc__url_wrong(one->url) && (one->up != TRANSFER_UP_NEW || !htc__url_is_ftp(one->url)) && one->name.len > 0 && one->name.len < NAME_MAX_BYTES &&
               is_text(one->name) && !memchr(one->name.data, '/', one->name.len) && ((const char *)one->name.data)[0] != '.';
    return fine ? HTC_OK : HTC_EPROTO;
}

void htc__transfer_answer_write(htc_buf *b, htc_status status, const char *text)
{
    htc_put_u32(b, (uint32_t)status);
    htc_put_str(b, text);
}

htc_status htc__transfer_answer_read(htc_bytes bytes, htc_status *status, char *text, size_t room)
{
    htc_reader r = htc_reader_of(bytes);
    *status = (htc_status)(int32_t)htc_get_u32(&r);
    htc_get_str(&r, text, room);
    return htc_reader_done(&r) == HTC_OK && *status <= 0 ? HTC_OK : HTC_EPROTO;
}
