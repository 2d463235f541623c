/* Requests to a disk and the list of its files, as bytes.
 *
 * A request: u8 op, u8 sync, u64 offset, u64 length, u8 and name, u8 and new name, then the data to the end. A file: u64
 * length, u8 and name. Integers are little-endian. A field that the op does not use is 0, so that there is one way to
 * write each request. */
#include "htcsched/disk.h"

#include <string.h>

#include "core/codec.h"

#define REQUEST_FIXED (1 + 1 + 8 + 8 + 1 + 1)
#define FILE_FIXED    (8 + 1)

_Static_assert(REQUEST_FIXED + 2 * HTC_DISK_NAME_MAX <= HTC_DISK_HEAD_MAX, "a head is as long as it may be");

int htc_disk_name_ok(htc_bytes name)
{
    const unsigned char *p = name.data;
    if (name.len == 0 || name.len > HTC_DISK_NAME_MAX || p[0] == '.')
        return 0;
    for (size_t i = 0; i < name.len; i++)
        if (!((p[i] >= 'a' && p[i] <= 'z') || (p[i] >= '0' && p[i] <= '9') || p[i] == '.' || p[i] == '-' ||
              p[i] == '_'))
            return 0;
    return 1;
}

/* What each op uses: the rest is 0. */
enum { NAME = 1, TO = 2, OFFSET = 4, LENGTH = 8, DATA = 16 };

static int uses_of(uint32_t op)
{
    switch (op) {
    case HTC_DISK_LIST:
        return 0;
    case HTC_DISK_CREATE:
        return NAME | LENGTH;
    case HTC_DISK_READ:
        return NAME | OFFSET | LENGTH;
    case HTC_DISK_WRITE:
        return NAME | OFFSET | DATA;
    case HTC_DISK_SYNC:
    case HTC_DISK_REMOVE:
        return NAME;
    case HTC_DISK_RENAME:
        return NAME | TO;
    default:
        return -1;
    }
}

static int request_ok(const htc_disk_request *r)
{
    int      uses = uses_of(r->op);
    uint64_t length_max = r->op == HTC_DISK_CREATE ? HTC_DISK_FILE_MAX : HTC_DISK_READ_MAX;
    if (uses < 0 || r->sync > (uint32_t)(r->op == HTC_DISK_WRITE))
        return 0;
    if (uses & NAME ? !htc_disk_name_ok(r->name) : r->name.len != 0)
        return 0;
    if (uses & TO ? !htc_disk_name_ok(r->to) : r->to.len != 0)
        return 0;
    if (uses & LENGTH ? r->length == 0 || r->length > length_max : r->length != 0)
        return 0;
    if (uses & DATA ? r->data.len == 0 || r->data.len > HTC_DISK_WRITE_MAX : r->data.len != 0)
        return 0;
    return uses & OFFSET ? r->offset <= HTC_DISK_FILE_MAX : r->offset == 0;
}

static uint8_t *put_u64(uint8_t *p, uint64_t v)
{
    for (size_t i = 0; i < 8; i++)
        *p++ = (uint8_t)(v >> (8 * i));
    return p;
}

static uint8_t *put_name(uint8_t *p, htc_bytes name)
{
    *p++ = (uint8_t)name.len;
    if (name.len)
        memcpy(p, name.data, name.len);
    return p + name.len;
}

size_t htc_disk_encode(const htc_disk_request *r, void *out, size_t cap)
{
    if (!request_ok(r))
        return 0;
    size_t data = r->data.data ? r->data.len : 0, size = REQUEST_FIXED + r->name.len + r->to.len + data;
    if (size > cap)
        return size;
    uint8_t *p = out;
    *p++ = (uint8_t)r->op;
    *p++ = (uint8_t)r->sync;
    p = put_name(put_name(put_u64(put_u64(p, r->offset), r->length), r->name), r->to);
    if (data)
        memcpy(p, r->data.data, data);
    return size;
}

htc_status htc_disk_decode(htc_bytes body, htc_disk_request *request)
{
    htc_reader       r = htc_reader_of(body);
    htc_disk_request q = { .op = htc_get_u8(&r), .sync = htc_get_u8(&r) };
    q.offset = htc_get_u64(&r);
    q.length = htc_get_u64(&r);
    q.name = htc_get_raw(&r, htc_get_u8(&r));
    q.to = htc_get_raw(&r, htc_get_u8(&r));
    if (r.status != HTC_OK)
        return HTC_EPROTO;
    q.data = htc_get_raw(&r, htc_reader_left(&r));
    if (!request_ok(&q))
        return HTC_EPROTO;
    *request = q;
    return HTC_OK;
}

size_t htc_disk_file_encode(const htc_disk_file *file, void *out, size_t cap)
{
    size_t size = FILE_FIXED + file->name.len;
    if (!htc_disk_name_ok(file->name) || file->length > HTC_DISK_FILE_MAX)
        return 0;
    if (size <= cap)
        put_name(put_u64(out, file->length), file->name);
    return size;
}

int htc_disk_file_next(htc_bytes body, size_t *at, htc_disk_file *file)
{
    if (*at >= body.len)
        return *at == body.len ? 0 : -1;
    htc_reader    r = htc_reader_of((htc_bytes){ (const uint8_t *)body.data + *at, body.len - *at });
    htc_disk_file f = { .length = htc_get_u64(&r) };
    f.name = htc_get_raw(&r, htc_get_u8(&r));
    if (r.status != HTC_OK || !htc_disk_name_ok(f.name) || f.length > HTC_DISK_FILE_MAX)
        return -1;
    *file = f;
    *at = body.len - htc_reader_left(&r);
    return 1;
}
