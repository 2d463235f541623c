#include "roles/runtime/objects_wire.h"

#include <string.h>

void htc__object_write(htc_buf *b, uint16_t type, const object_message *m)
{
    htc_wire_begin(b, type, 0);
    htc_put_raw(b, (htc_bytes){ m->hash, sizeof m->hash });
    htc_put_u64(b, m->offset);
    if (type == HTC_WIRE_OBJECT_ASK) {
        htc_put_u32(b, m->len);
        htc_put_varint(b, m->scope);
    } else if (type == HTC_WIRE_OBJECT_BYTES) {
        htc_put_u64(b, m->size);
        htc_put_bytes(b, m->bytes);
    } else {
        htc_put_u32(b, (uint32_t)m->status);
    }
}

static int fits(uint16_t type, const object_message *m)
{
    switch (type) {
    case HTC_WIRE_OBJECT_ASK:
        return m->len > 0 && m->len <= OBJECT_PIECE_MAX && m->offset <= OBJECT_SIZE_MAX - m->len;
    case HTC_WIRE_OBJECT_BYTES:
        return m->size <= OBJECT_SIZE_MAX && m->bytes.len > 0 && m->bytes.len <= OBJECT_PIECE_MAX && m->offset <= m->size &&
               m->bytes.len <= m->size - m->offset;
    case HTC_WIRE_OBJECT_NONE: return m->status < 0;
    default: return 0;
    }
}

htc_status htc__object_read(htc_reader *r, uint16_t type, object_message *m)
{
    object_message read = { .len = 0 };
    htc_bytes      hash = htc_get_raw(r, sizeof read.hash);
    read.offset = htc_get_u64(r);
    if (type == HTC_WIRE_OBJECT_ASK) {
        read.len = htc_get_u32(r);
        read.scope = htc_get_varint(r);
    } else if (type == HTC_WIRE_OBJECT_BYTES) {
        read.size = htc_get_u64(r);
        read.bytes = htc_get_bytes(r);
    } else {
        read.status = (htc_status)(int32_t)htc_get_u32(r);
    }
    if (htc_reader_done(r) != HTC_OK || !fits(type, &read))
        return HTC_EPROTO;
    memcpy(read.hash, hash.data, sizeof read.hash);
    *m = read;
    return HTC_OK;
}
