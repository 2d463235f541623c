#include "core/wire.h"

#include <string.h>

#include "core/util.h"

const char *htc_wire_name(uint16_t type)
{
    switch ((htc_wire_type)type) {
#define CASE(name, number)                                                                                             \
    case HTC_WIRE_##name: return #name;
        HTC_WIRE_TABLE(CASE)
#undef CASE
    }
    return "?";
}

void htc_wire_begin(htc_buf *b, uint16_t type, uint64_t id)
{
    htc_buf_clear(b);
    htc_put_u16(b, type);
    htc_put_u64(b, id);
}

htc_reader htc_wire_open(htc_bytes message, uint16_t *type, uint64_t *id)
{
    htc_reader r = htc_reader_of(message);
    *type = htc_get_u16(&r);
    *id = htc_get_u64(&r);
    return r;
}

void htc_wire_hello(htc_buf *b, uint8_t role, uint16_t highest)
{
    htc_wire_begin(b, HTC_WIRE_HELLO, 0);
    htc_put_u32(b, HTC_WIRE_MAGIC);
    htc_put_u16(b, highest);
    htc_put_u8(b, role);
}

void htc_wire_hello_machine(htc_buf *b, uint8_t role, uint16_t highest, const htc_wire_machine *m)
{
    htc_wire_hello(b, role, highest);
    if (highest < HTC_WIRE_VERSION_MACHINE || !m->system[0] || !m->machine[0])
        return;
    htc_put_str(b, m->system);
    htc_put_str(b, m->machine);
}

static htc_status read_hello(htc_reader *r, uint16_t highest, uint8_t *role, uint16_t *version, htc_wire_machine *m)
{
    uint32_t magic = htc_get_u32(r);
    uint16_t theirs = htc_get_u16(r);
    *role = htc_get_u8(r);
    *version = theirs < highest ? theirs : highest;
    if (m)
        memset(m, 0, sizeof *m);
    if (m && *version >= HTC_WIRE_VERSION_MACHINE && r->status == HTC_OK && htc_reader_left(r)) {
        htc_get_str(r, m->system, sizeof m->system);
        htc_get_str(r, m->machine, sizeof m->machine);
        htc__text_clean(m->system);
        htc__text_clean(m->machine);
    }
    if (theirs > highest)
        htc_get_raw(r, htc_reader_left(r));
    if (htc_reader_done(r) != HTC_OK || magic != HTC_WIRE_MAGIC)
        return HTC_EPROTO;
    return *version >= HTC_WIRE_VERSION_MIN ? HTC_OK : HTC_EVERSION;
}

htc_status htc_wire_read_hello(htc_reader *r, uint16_t highest, uint8_t *role, uint16_t *version)
{
    return read_hello(r, highest, role, version, NULL);
}

htc_status htc_wire_read_hello_machine(htc_reader *r, uint16_t highest, uint8_t *role, uint16_t *version, htc_wire_machine *m)
{
    return read_hello(r, highest, role, version, m);
}

void htc_wire_welcome(htc_buf *b, uint64_t id, uint16_t version)
{
    htc_wire_begin(b, HTC_WIRE_WELCOME, id);
    htc_put_u16(b, version);
}

htc_status htc_wire_read_welcome(htc_reader *r, uint16_t highest, uint16_t *version)
{
    *version = htc_get_u16(r);
    if (r->status != HTC_OK)
        return HTC_EPROTO;
    return *version >= HTC_WIRE_VERSION_MIN && *version <= highest ? HTC_OK : HTC_EVERSION;
}

void htc_wire_error(htc_buf *b, uint64_t id, htc_status status, const char *text)
{
    htc_wire_begin(b, HTC_WIRE_ERROR, id);
    htc_put_u32(b, (uint32_t)status);
    htc_put_str(b, text);
}

void htc_peer_info_write(htc_buf *b, const htc_peer_info *info)
{
    htc_put_u32(b, info->transport);
    htc_put_u32(b, info->uid);
    htc_put_u32(b, info->pid);
    htc_put_u32(b, info->port);
}

void htc_peer_identity_write(htc_buf *b, const htc_peer_identity *identity)
{
    htc_put_str(b, identity->name);
    htc_put_u32(b, identity->role);
    htc_put_raw(b, (htc_bytes){ identity->key, sizeof identity->key });
}

static htc_status read_both(htc_bytes body, htc_peer_info *info, htc_peer_identity *identity)
{
    htc_reader r = htc_reader_of(body);
    info->transport = htc_get_u32(&r);
    info->uid = htc_get_u32(&r);
    info->pid = htc_get_u32(&r);
    info->port = htc_get_u32(&r);
    if (info->transport == HTC_TRANSPORT_SECURE) {
        htc_get_str(&r, identity->name, sizeof identity->name);
        identity->role = htc_get_u32(&r);
        htc_bytes key = htc_get_raw(&r, sizeof identity->key);
        if (r.status == HTC_OK)
            memcpy(identity->key, key.data, sizeof identity->key);
    }
    return htc_reader_done(&r);
}

htc_status htc_peer_info_read(htc_bytes body, htc_peer_info *info)
{
    htc_peer_identity identity;
    return read_both(body, info, &identity);
}

htc_status htc_peer_identity_read(htc_bytes body, htc_peer_identity *identity)
{
    htc_peer_info     info;
    htc_peer_identity found;
    if (!identity)
        return HTC_EINVAL;
    htc_status status = read_both(body, &info, &found);
    if (status != HTC_OK)
        return status;
    if (info.transport != HTC_TRANSPORT_SECURE)
        return HTC_EMPTY;
    *identity = found;
    return HTC_OK;
}
